"""Ordinary differential equations by the adaptive Runge-Kutta method of Dormand and Prince (1980), with dense output.

Derivatives are those of the solution: the adjoint equation is integrated backwards from output to output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.api.derivatives import vjp
from xlafront.core import dtypes, tracing, tree
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.flatten_util import ravel_pytree
from xlafront.numpy.promotion import check_arraylike
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_vjp import custom_vjp
from xlafront.transforms.calls.linear_call import closure_convert

# The Butcher tableau: nodes and weights of the stages, and the weights of the solution (fifth order), of its difference from
# a fourth-order solution, and of the value in the middle of the step (both by Shampine, 1986).
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
    """Wrap a function such that its first argument and its result are vectors instead of pytrees.

    Args:
        f: The function.
        unravel: A function that converts a vector to the pytree.
        debug_info: Accepted for compatibility with JAX.

    Returns:
        The function of vectors.

    Example:
        >>> double = ravel_first_arg(lambda p: {"a": 2 * p["a"]}, lambda v: {"a": v}, None)
        >>> double(xnp.ones(2)).tolist()
        [2.0, 2.0]
    """
    def raveled(vector, *args):
        return ravel_pytree(f(unravel(vector), *args))[0]

    return raveled


def _weighted_sum(weights: np.ndarray, k):
    return xnp.tensordot(xnp.asarray(weights, k.dtype), k, 1, precision="highest")


def fit_4th_order_polynomial(y0: ArrayLike, y1: ArrayLike, y_mid: ArrayLike, dy0: ArrayLike, dy1: ArrayLike,
                             dt: ArrayLike) -> tuple[Array, ...]:
    """Return the coefficients of the polynomial on [0, 1] through three values and two slopes.

    Args:
        y0, y1, y_mid: The values at the ends and in the middle.
        dy0, dy1: The slopes at the ends.
        dt: The length of the interval that the slopes refer to.

    Returns:
        The five coefficients, the highest power first.

    Example:
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
    """Return the coefficients of the polynomial that interpolates a step.

    Args:
        y0, y1: The values before and after the step.
        k: The slopes of the stages, as rows, as returned by `runge_kutta_step`.
        dt: The length of the step.

    Returns:
        The coefficients as rows, the highest power first.

    Example:
        >>> interp_fit_dopri(xnp.zeros(1), xnp.ones(1), xnp.ones((7, 1)), 1.0).shape
        (5, 1)
    """
    dt = xnp.asarray(dt).astype(y0.dtype)
    return xnp.stack(fit_4th_order_polynomial(y0, y1, y0 + dt * _weighted_sum(_MIDDLE, k), k[0], k[-1], dt))


def initial_step_size(fun: Callable, t0: ArrayLike, y0: Array, order: int, rtol: ArrayLike, atol: ArrayLike,
                      f0: Array) -> Array:
    """Estimate an initial step size (Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", II.4).

    Args:
        fun: The derivative, `fun(y, t)`.
        t0, y0: The initial time and value.
        order: Order of the method.
        rtol, atol: Relative and absolute tolerance.
        f0: `fun(y0, t0)`.

    Returns:
        The step size.

    Example:
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
    """Advance by one Runge-Kutta step.

    Args:
        func: The derivative, `func(y, t)`.
        y0, f0, t0: The value, the slope and the time before the step.
        dt: The length of the step.

    Returns:
        The value and the slope after the step, the estimated error, and the slopes of all stages, as rows.

    Example:
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
    return y0 + step * _weighted_sum(_SOLUTION, k), k[-1], step * _weighted_sum(_ERROR, k), k


def abs2(x: ArrayLike) -> ArrayLike:
    """Compute the squared absolute value, elementwise.

    Args:
        x: Real or complex numbers.

    Returns:
        The squares, real numbers.

    Example:
        >>> float(abs2(xnp.array(3 + 4j)))
        25.0
    """
    return x.real ** 2 + x.imag ** 2 if xnp.iscomplexobj(x) else x ** 2


def mean_error_ratio(error_estimate: Array, rtol: ArrayLike, atol: ArrayLike, y0: Array, y1: Array) -> Array:
    """Compute the root mean square of the error relative to the tolerance.

    Args:
        error_estimate: The errors.
        rtol, atol: Relative and absolute tolerance.
        y0, y1: The values before and after the step.

    Returns:
        The ratio, a scalar; the step is acceptable up to 1.

    Example:
        >>> float(mean_error_ratio(xnp.ones(2), 0.0, 0.5, xnp.ones(2), xnp.ones(2)))
        2.0
    """
    return xnp.sqrt(xnp.mean(abs2(error_estimate / (atol + rtol * xnp.maximum(xnp.abs(y0), xnp.abs(y1))))))


def optimal_step_size(last_step: ArrayLike, mean_error_ratio: ArrayLike, safety: float = 0.9, ifactor: float = 10.0,
                      dfactor: float = 0.2, order: float = 5.0) -> Array:
    """Compute the step size for which the error would meet the tolerance.

    Args:
        last_step, mean_error_ratio: The last step size, and its error relative to the tolerance.
        safety: A safety factor below 1.
        ifactor, dfactor: Maximum factor of an increase, minimum factor of a decrease. The step size decreases only if
            the error was too large.
        order: Order of the method.

    Returns:
        The step size.

    Example:
        >>> float(optimal_step_size(xnp.array(1.0), xnp.array(0.0)))
        10.0
    """
    ratio = xnp.asarray(mean_error_ratio)
    is_positive = ratio > 0
    factor = safety * xnp.where(is_positive, ratio, 1) ** (-1 / order)
    bounded = xnp.clip(factor, xnp.where(ratio < 1, 1.0, dfactor), ifactor)
    step: Any = last_step * xnp.where(ratio == 0, ifactor, xnp.where(is_positive, bounded, ratio))  # propagates NaN
    return step


def _integrate(func: Callable, y0, ts, rtol: float, atol: float, mxstep: float, hmax: float):
    """Return the values of a vector at the times `ts`."""
    f0 = func(y0, ts[0])
    dt = xnp.clip(initial_step_size(func, ts[0], y0, 4, rtol, atol, f0), 0, hmax).astype(ts.dtype)
    start = (y0, f0, ts[0], dt, ts[0], xnp.stack([y0] * 5))

    def output(state, target):
        def is_active(counted_state):
            count, (_, _, t, dt, *_) = counted_state
            return (t < target) & (dt > 0) & (True if math.isinf(mxstep) else count < mxstep)

        def step(counted_state):
            count, (y, f, t, dt, last, coefficients) = counted_state
            next_y, slope, error, k = runge_kutta_step(func, y, f, t, dt)
            ratio = mean_error_ratio(error, rtol, atol, y, next_y)
            accepted = (next_y, slope, t + dt, t, interp_fit_dopri(y, next_y, k, dt))
            selected = [xnp.where(ratio <= 1, a, b) for a, b in zip(accepted, (y, f, t, last, coefficients))]
            dt = xnp.clip(optimal_step_size(dt, ratio), 0, hmax).astype(dt.dtype)
            return count + 1, (*selected[:3], dt, *selected[3:])

        _, state = lax.while_loop(is_active, step, (0, state))
        _, _, t, _, last, coefficients = state
        return state, xnp.polyval(coefficients, ((target - last) / (t - last)).astype(coefficients.dtype))

    _, ys = lax.scan(output, start, ts[1:])
    return xnp.concatenate([y0[None], ys])


def _solve(func, settings, y0, ts, active, inactive):
    """Integrate `func(y, t, active, inactive)`; `active` are the arguments that may have derivatives."""
    return _integrate(lambda y, t: func(y, t, active, inactive), y0, ts, *settings)


def _solve_forward(func, settings, y0, ts, active, inactive):
    ys = _differentiable_solve(func, settings, y0, ts, active, inactive)  # for second derivatives, of the residuals
    return ys, (ys, ts, active, inactive)


def _solve_backward(func, settings, residuals, g):
    ys, ts, active, inactive = residuals

    def adjoint(state, t, active, inactive):
        """Return the time-reversed derivatives of the solution and of the cotangents of solution, time and arguments."""
        y, y_bar, _, _ = state
        y_dot, vjp_fn = vjp(lambda y, t, active: func(y, t, active, inactive), y, -t, active)
        return -y_dot, *vjp_fn(y_bar)

    def output(carry, row):
        y_bar, t_bar, active_bar = carry
        y, t, before, g_end, g_before = row
        end_bar = xnp.sum(func(y, t, active, inactive) * g_end).real.astype(ts.dtype)
        flat, unravel = ravel_pytree((y, y_bar, t_bar - end_bar, active_bar))
        raveled = ravel_first_arg(adjoint, unravel)
        # The adjoint equation has an adjoint equation too, for higher derivatives.
        ends = _differentiable_solve(raveled, settings, flat, xnp.stack([-t, -before]), active, inactive)
        _, y_bar, t_bar, active_bar = unravel(ends[1])
        return (y_bar + g_before, t_bar, active_bar), end_bar

    start = (g[-1], xnp.zeros((), ts.dtype), tree.map(xnp.zeros_like, active))
    rows = (ys[1:], ts[1:], ts[:-1], g[1:], g[:-1])
    (y_bar, first_bar, active_bar), ends = lax.scan(output, start, rows, reverse=True)
    return y_bar, xnp.concatenate([first_bar[None], ends]), active_bar, None


_differentiable_solve = custom_vjp(_solve, nondiff_argnums=(0, 1))
_differentiable_solve.defvjp(_solve_forward, _solve_backward)


def _odeint_flat(func, settings, y0, ts, args, consts):
    """Integrate on flattened vectors, with differentiable arguments separated from the others."""
    leaves, args_tree = tree.flatten(args)
    leaves = [xnp.asarray(x) for x in leaves]
    flat, unravel = ravel_pytree(y0)
    is_active = [dtypes.is_inexact(x.dtype) for x in leaves]
    direction = xnp.where(ts[-1] < ts[0], -1, 1).astype(ts.dtype)  # the integrator needs increasing times

    def raveled(y, t, active, inactive):
        floats, (direction, *others) = iter(active), inactive
        others = iter(others)
        arguments = args_tree.unflatten([next(floats) if m else next(others) for m in is_active])
        slope = ravel_pytree(func(unravel(y), direction * t, *arguments, *floats))[0]
        return direction.astype(slope.dtype) * slope

    active = [*[x for x, m in zip(leaves, is_active) if m], *consts]
    inactive = [direction, *[x for x, m in zip(leaves, is_active) if not m]]
    ys = _differentiable_solve(raveled, settings, flat, direction * ts, active, inactive)
    return _unravel_rows(unravel, ys)


def _unravel_rows(unravel, ys):
    """Unravel each row and stack the leaves."""
    shapes, kinds = unravel.shapes, unravel.kinds
    bounds = np.cumsum([0, *[math.prod(s) for s in shapes]]).tolist()
    leaves = [xnp.reshape(ys[:, a:b], (len(ys), *shape)) for a, b, shape in zip(bounds, bounds[1:], shapes)]
    return unravel.treedef.unflatten(
        [(leaf if dtypes.is_complex(kind) else leaf.real).astype(kind) for leaf, kind in zip(leaves, kinds)])


_kernel = library(_odeint_flat, static=("func", "settings"), name="odeint")


def odeint(func: Callable, y0: Any, t: Array, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8, mxstep: float = np.inf,
           hmax: float = np.inf) -> Any:
    """Integrate `dy/dt = func(y, t, *args)` and return the solution at given times.

    Reverse mode integrates the adjoint equation, with respect to `y0`, `t`, `args` and the arrays that `func` closes
    over. Once compiled for a `func`, it is not retraced.

    Args:
        func: The derivative, which returns a pytree like `y0`.
        y0: The initial value at `t[0]`, a pytree of floating-point or complex arrays.
        t: A floating-point vector of increasing or decreasing times.
        args: Pytrees of arrays, additional arguments of `func`.
        rtol, atol: Relative and absolute tolerance of the error of a step.
        mxstep: Maximum number of steps between two times.
        hmax: Maximum length of a step.

    Returns:
        A pytree like `y0` with the times as first dimension of each leaf.

    Note:
        The method is that of Dormand and Prince, of order 5, unlike SciPy's. Decreasing times are not supported by JAX.

    Example:
        >>> y = odeint(lambda y, t, rate: -rate * y, xnp.array(1.0), xnp.array([0.0, 0.5, 1.0]), 2.0)
        >>> np.allclose(y, np.exp([0, -1, -2]), rtol=1e-5)
        True
    """
    for leaf in tree.leaves(args):
        if not isinstance(leaf, (int, float, complex, np.ndarray, np.generic)) and not hasattr(leaf, "dtype"):
            raise TypeError(f"odeint needs pytrees of arrays and numbers as arguments after t, got {leaf!r}. Close over other "
                            f"values, as in lambda y, t: f(y, t, {leaf!r}).")
    check_arraylike("odeint", t)
    times = tracing.aval_of(t)
    if not dtypes.is_float(times.dtype):
        raise TypeError(f"odeint needs t as an array of floats, got {times}.")
    if times.ndim != 1 or not times.shape[0]:
        raise ValueError(f"odeint needs t as a vector of at least one time, got shape {times.shape}.")
    for leaf in tree.leaves(y0):
        if not dtypes.is_inexact(tracing.aval_of(leaf, "odeint").dtype):
            raise TypeError(f"odeint needs y0 of floating or complex dtype, got {tracing.aval_of(leaf)}. Convert it, as in "
                            f"numpy.asarray(y0, float).")
    y0, t = tree.map(xnp.asarray, y0), xnp.asarray(t)
    converted, consts = closure_convert(func, y0, t[0], *args)
    settings = float(rtol), float(atol), float(mxstep), float(hmax)
    if consts:
        return _odeint_flat(converted, settings, y0, t, args, consts)
    return _kernel(func, settings, y0, t, args, [])
