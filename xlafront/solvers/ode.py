"""Ordinary differential equations: the method of Dormand and Prince (1980), whose steps follow the error, with dense output.

Derivatives are those of the solution: the adjoint equation is integrated backwards, from output to output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes, tracing, tree
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.flatten_util import ravel_pytree
from xlafront.numpy.promotion import check_arraylike
from xlafront.staging.library import library
from xlafront.transforms.ad.derivatives import vjp
from xlafront.transforms.calls.custom_vjp import custom_vjp
from xlafront.transforms.calls.linear_call import closure_convert

# Where the slopes of a step are taken, what each of them is made of, and what is made of them: the solution (fifth order), its
# difference from one of fourth order, and the value in the middle of the step (both by Shampine, 1986).
_NODES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_STAGES = np.array([
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
])
_SOLUTION = _STAGES[-1]
_ERROR = _SOLUTION - np.array([1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60])
_MIDDLE = np.array([6025192743 / 30085553152, 0, 51252292925 / 65400821598, -2691868925 / 45128329728,
                    187940372067 / 1594534317056, -1776094331 / 19743644256, 11237099 / 235043384]) / 2


def ravel_first_arg(f: Callable, unravel: Callable, debug_info: Any = None) -> Callable:
    """`f` with vectors for pytrees, as its first argument and as its result.

    - `f`: the function.
    - `unravel`: makes the pytree of a vector.
    - `debug_info`: is there for the reference's signature.

    >>> double = ravel_first_arg(lambda p: {"a": 2 * p["a"]}, lambda v: {"a": v}, None)
    >>> double(xnp.ones(2)).tolist()
    [2.0, 2.0]
    """
    def raveled(vector, *args):
        return ravel_pytree(f(unravel(vector), *args))[0]

    return raveled


def _combined(weights: np.ndarray, k):
    return xnp.tensordot(xnp.asarray(weights, k.dtype), k, 1, precision="highest")


def fit_4th_order_polynomial(y0: ArrayLike, y1: ArrayLike, y_mid: ArrayLike, dy0: ArrayLike, dy1: ArrayLike,
                             dt: ArrayLike) -> tuple[Array, ...]:
    """The coefficients, the highest first, of the polynomial on [0, 1] through three values with two slopes.

    - `y0`, `y1`, `y_mid`: the values at the ends and in the middle.
    - `dy0`, `dy1`: the slopes at the ends.
    - `dt`: the length of the interval for which these are slopes.

    >>> [float(c) for c in fit_4th_order_polynomial(xnp.array(0.0), 1.0, 0.0625, 0.0, 4.0, 1.0)]
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    y0, dt = xnp.asarray(y0), xnp.asarray(dt)
    slope0, slope1 = dt * xnp.asarray(dy0), dt * xnp.asarray(dy1)
    return (2 * (slope1 - slope0) - 8 * (y0 + y1) + 16 * y_mid,
            5 * slope0 - 3 * slope1 + 18 * y0 + 14 * y1 - 32 * y_mid,
            slope1 - 4 * slope0 - 11 * y0 - 5 * y1 + 16 * y_mid,
            slope0, y0)


def interp_fit_dopri(y0: Array, y1: Array, k: Array, dt: ArrayLike) -> Array:
    """The coefficients of the polynomial by which a step is interpolated, a row each.

    - `y0`, `y1`: the values before and after the step.
    - `k`: the slopes of the step, a row each, as `runge_kutta_step` returns them.
    - `dt`: the length of the step.

    >>> interp_fit_dopri(xnp.zeros(1), xnp.ones(1), xnp.ones((7, 1)), 1.0).shape
    (5, 1)
    """
    dt = xnp.asarray(dt).astype(y0.dtype)
    return xnp.stack(fit_4th_order_polynomial(y0, y1, y0 + dt * _combined(_MIDDLE, k), k[0], k[-1], dt))


def initial_step_size(fun: Callable, t0: ArrayLike, y0: Array, order: int, rtol: ArrayLike, atol: ArrayLike,
                      f0: Array) -> Array:
    """A first step (Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", II.4).

    - `fun`: the derivative, `fun(y, t)`.
    - `t0`, `y0`: where it begins.
    - `order`: of the method.
    - `rtol`, `atol`: the tolerances.
    - `f0`: `fun(y0, t0)`.

    >>> step = initial_step_size(lambda y, t: -y, 0.0, xnp.ones(1), 4, 1e-3, 1e-3, -xnp.ones(1))
    """
    scale = atol + xnp.abs(y0) * rtol
    d0, d1 = xnp.linalg.norm(y0 / scale), xnp.linalg.norm(f0 / scale)
    h0 = xnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / xnp.where(d1 > 0, d1, 1))
    d2 = xnp.linalg.norm((fun(y0 + h0.astype(y0.dtype) * f0, t0 + h0) - f0) / scale) / h0
    steepest = xnp.maximum(d1, d2)
    flat = steepest <= 1e-15
    h1 = xnp.where(flat, xnp.maximum(1e-6, h0 * 1e-3), (0.01 / xnp.where(flat, 1, steepest)) ** (1 / (order + 1)))
    return xnp.minimum(100 * h0, h1)


def runge_kutta_step(func: Callable, y0: Array, f0: Array, t0: ArrayLike, dt: ArrayLike) -> tuple[Array, Array, Array, Array]:
    """One step: the value after it, the slope there, the estimated error, and all slopes, a row each.

    - `func`: the derivative, `func(y, t)`.
    - `y0`, `f0`, `t0`: the value, the slope and the time before it.
    - `dt`: the length of the step.

    >>> y, f, error, slopes = runge_kutta_step(lambda y, t: -y, xnp.ones(1), -xnp.ones(1), 0.0, 0.1)
    >>> np.round(y, 4).tolist() == np.round(np.exp([-0.1]), 4).astype("f4").tolist()
    True
    """
    t0, step = xnp.asarray(t0), xnp.asarray(dt).astype(y0.dtype)
    k = xnp.zeros((7, *f0.shape), f0.dtype).at[0].set(f0)
    weights, nodes = xnp.asarray(_STAGES, f0.dtype), xnp.asarray(_NODES, t0.dtype)

    def stage(i, k):
        y = y0 + step * xnp.tensordot(weights[i - 1], k, 1, precision="highest")
        return k.at[i].set(func(y, t0 + dt * nodes[i - 1]))

    k = lax.fori_loop(1, 7, stage, k)
    return y0 + step * _combined(_SOLUTION, k), k[-1], step * _combined(_ERROR, k), k


def abs2(x: ArrayLike) -> ArrayLike:
    """The square of the absolute value, elementwise.

    - `x`: real or complex numbers.

    >>> float(abs2(xnp.array(3 + 4j)))
    25.0
    """
    return x.real ** 2 + x.imag ** 2 if xnp.iscomplexobj(x) else x ** 2


def mean_error_ratio(error_estimate: Array, rtol: ArrayLike, atol: ArrayLike, y0: Array, y1: Array) -> Array:
    """The root of the mean squared error, in units of what is tolerated.

    - `error_estimate`: the errors.
    - `rtol`, `atol`: the tolerances.
    - `y0`, `y1`: the values before and after the step.

    >>> float(mean_error_ratio(xnp.ones(2), 0.0, 0.5, xnp.ones(2), xnp.ones(2)))
    2.0
    """
    return xnp.sqrt(xnp.mean(abs2(error_estimate / (atol + rtol * xnp.maximum(xnp.abs(y0), xnp.abs(y1))))))


def optimal_step_size(last_step: ArrayLike, mean_error_ratio: ArrayLike, safety: float = 0.9, ifactor: float = 10.0,
                      dfactor: float = 0.2, order: float = 5.0) -> Array:
    """The step that has the error which is tolerated.

    - `last_step`, `mean_error_ratio`: a step, and its error in units of what is tolerated.
    - `safety`: a factor below 1.
    - `ifactor`, `dfactor`: by how much it changes at most, up and down. It shrinks only where the error was too large.
    - `order`: of the method.

    >>> float(optimal_step_size(xnp.array(1.0), xnp.array(0.0)))
    10.0
    """
    ratio = xnp.asarray(mean_error_ratio)
    some = ratio > 0
    factor = safety * xnp.where(some, ratio, 1) ** (-1 / order)
    bounded = xnp.clip(factor, xnp.where(ratio < 1, 1.0, dfactor), ifactor)
    return last_step * xnp.where(ratio == 0, ifactor, xnp.where(some, bounded, ratio))  # a ratio that is no number makes none


def _integrate(func: Callable, y0, ts, rtol: float, atol: float, mxstep: float, hmax: float):
    """The values of a vector at the times `ts`."""
    f0 = func(y0, ts[0])
    dt = xnp.clip(initial_step_size(func, ts[0], y0, 4, rtol, atol, f0), 0, hmax).astype(ts.dtype)
    start = (y0, f0, ts[0], dt, ts[0], xnp.stack([y0 * 0] * 4 + [y0]))

    def output(state, target):
        def goes_on(counted):
            count, (_, _, t, dt, *_) = counted
            return (t < target) & (dt > 0) & (True if math.isinf(mxstep) else count < mxstep)

        def step(counted):
            count, (y, f, t, dt, last, coefficients) = counted
            following, slope, error, k = runge_kutta_step(func, y, f, t, dt)
            ratio = mean_error_ratio(error, rtol, atol, y, following)
            accepted = (following, slope, t + dt, t, interp_fit_dopri(y, following, k, dt))
            kept = [xnp.where(ratio <= 1, a, b) for a, b in zip(accepted, (y, f, t, last, coefficients))]
            dt = xnp.clip(optimal_step_size(dt, ratio), 0, hmax).astype(dt.dtype)
            return count + 1, (*kept[:3], dt, *kept[3:])

        _, state = lax.while_loop(goes_on, step, (0, state))
        _, _, t, _, last, coefficients = state
        return state, xnp.polyval(coefficients, ((target - last) / (t - last)).astype(coefficients.dtype))

    _, ys = lax.scan(output, start, ts[1:])
    return xnp.concatenate([y0[None], ys])


def _solve(func, settings, y0, ts, moving, fixed):
    """`func(y, t, moving, fixed)` integrated; `moving` are the arguments that may have derivatives."""
    return _integrate(lambda y, t: func(y, t, moving, fixed), y0, ts, *settings)


def _solve_forward(func, settings, y0, ts, moving, fixed):
    ys = _solve(func, settings, y0, ts, moving, fixed)
    return ys, (ys, ts, moving, fixed)


def _solve_backward(func, settings, kept, g):
    ys, ts, moving, fixed = kept

    def backwards(state, t):
        """Time runs backwards: the solution, and the cotangents of solution, time and arguments."""
        y, y_bar, _, _ = state
        y_dot, pull = vjp(lambda y, t, moving: func(y, t, moving, fixed), y, -t, moving)
        return -y_dot, *pull(y_bar)

    def output(carry, row):
        y_bar, t_bar, moving_bar = carry
        y, t, before, g_end, g_before = row
        end_bar = xnp.sum(func(y, t, moving, fixed) * g_end).real.astype(ts.dtype)
        flat, unravel = ravel_pytree((y, y_bar, t_bar - end_bar, moving_bar))
        raveled = ravel_first_arg(backwards, unravel)
        _, y_bar, t_bar, moving_bar = unravel(_integrate(raveled, flat, xnp.stack([-t, -before]), *settings)[1])
        return (y_bar + g_before, t_bar, moving_bar), end_bar

    start = (g[-1], xnp.zeros((), ts.dtype), tree.map(xnp.zeros_like, moving))
    rows = (ys[1:], ts[1:], ts[:-1], g[1:], g[:-1])
    (y_bar, first_bar, moving_bar), ends = lax.scan(output, start, rows, reverse=True)
    return y_bar, xnp.concatenate([first_bar[None], ends]), moving_bar, None


_differentiable = custom_vjp(_solve, nondiff_argnums=(0, 1))
_differentiable.defvjp(_solve_forward, _solve_backward)


def _with_arguments(func, settings, y0, ts, args, consts):
    """On vectors, with values that may have derivatives apart from others."""
    leaves, args_tree = tree.flatten(args)
    leaves = [xnp.asarray(x) for x in leaves]
    flat, unravel = ravel_pytree(y0)
    moves = [dtypes.is_inexact(x.dtype) for x in leaves]
    direction = xnp.where(ts[-1] < ts[0], -1, 1).astype(ts.dtype)  # the integrator goes where time increases

    def raveled(y, t, moving, fixed):
        floats, (direction, *others) = iter(moving), fixed
        others = iter(others)
        arguments = args_tree.unflatten([next(floats) if m else next(others) for m in moves])
        slope = ravel_pytree(func(unravel(y), direction * t, *arguments, *floats))[0]
        return direction.astype(slope.dtype) * slope

    moving = [*[x for x, m in zip(leaves, moves) if m], *consts]
    fixed = [direction, *[x for x, m in zip(leaves, moves) if not m]]
    ys = _differentiable(raveled, settings, flat, direction * ts, moving, fixed)
    return _each(unravel, ys)


def _each(unravel, ys):
    """A pytree of each row, stacked."""
    shapes, kinds = unravel.shapes, unravel.kinds
    bounds = np.cumsum([0, *[math.prod(s) for s in shapes]]).tolist()
    parts = [xnp.reshape(ys[:, a:b], (len(ys), *shape)) for a, b, shape in zip(bounds, bounds[1:], shapes)]
    return unravel.treedef.unflatten(
        [(part if dtypes.is_complex(kind) else part.real).astype(kind) for part, kind in zip(parts, kinds)])


_kernel = library(_with_arguments, static=("func", "settings"), name="odeint")


def odeint(func: Callable, y0: Any, t: Array, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8, mxstep: float = np.inf,
           hmax: float = np.inf) -> Any:
    """The solution of `dy/dt = func(y, t, *args)` at given times: a pytree like `y0`, with times as first dimensions.

    Unlike SciPy's, the integrator is that of Dormand and Prince, of order 5. Reverse mode integrates the adjoint equation, with
    respect to `y0`, `t`, `args` and what `func` closes over. Once compiled for a `func` it is not traced again.

    - `func`: the derivative, a pytree like `y0`.
    - `y0`: the value at `t[0]`, a pytree of floating or complex arrays.
    - `t`: times that increase or, unlike in jax, decrease: a floating vector.
    - `args`: pytrees of arrays that `func` takes besides.
    - `rtol`, `atol`: the error of a step that is tolerated, relative to the value and absolute.
    - `mxstep`: how many steps at most between two times.
    - `hmax`: how long a step is at most.

    >>> y = odeint(lambda y, t, rate: -rate * y, xnp.array(1.0), xnp.array([0.0, 0.5, 1.0]), 2.0)
    >>> np.allclose(y, np.exp([0, -1, -2]), rtol=1e-5)
    True
    """
    for leaf in tree.leaves(args):
        if not isinstance(leaf, (int, float, complex, np.ndarray, np.generic)) and not hasattr(leaf, "dtype"):
            raise TypeError(f"odeint takes as arguments after t pytrees of arrays and numbers, got {leaf!r}. Close over what "
                            f"is not, as in lambda y, t: f(y, t, {leaf!r}).")
    check_arraylike("odeint", t)
    times = tracing.aval_of(t)
    if not dtypes.is_float(times.dtype):
        raise TypeError(f"odeint takes t as an array of floats, got {times}.")
    if times.ndim != 1 or not times.shape[0]:
        raise ValueError(f"odeint takes t as a vector of at least one time, got shape {times.shape}.")
    for leaf in tree.leaves(y0):
        if not dtypes.is_inexact(tracing.aval_of(leaf, "odeint").dtype):
            raise TypeError(f"odeint takes y0 of floating or complex dtype, got {tracing.aval_of(leaf)}. Convert it, as in "
                            f"xnp.asarray(y0, float).")
    y0, t = tree.map(xnp.asarray, y0), xnp.asarray(t)
    converted, consts = closure_convert(func, y0, t[0], *args)
    settings = float(rtol), float(atol), float(mxstep), float(hmax)
    if consts:
        return _with_arguments(converted, settings, y0, t, args, consts)
    return _kernel(func, settings, y0, t, args, [])
