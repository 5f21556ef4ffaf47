"""Minimization of functions of vectors: BFGS and L-BFGS, with a line search for the strong Wolfe conditions.

Directions and line search follow Nocedal and Wright, "Numerical Optimization", 2006 (algorithms 3.5, 3.6, 6.1 and 7.4).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.api.derivatives import value_and_grad
from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import promotes_freely, with_present_promotion


class OptimizeResults(NamedTuple):
    """The result of `minimize`.

    Args:
        x: The minimizer found.
        success: True if the gradient met the tolerance.
        status: 0: success; 1 and 2: limit of iterations or of evaluations reached; 3: limit of gradients reached, or no
            acceptable step within a bracket; 4: change of values too small; 5: the function decreases without bound or
            not at all.
        fun, jac: The value and the gradient at `x`.
        hess_inv: The approximate inverse of the Hessian; None for L-BFGS.
        nfev, njev: Number of evaluations of the function and of its gradient.
        nit: Number of iterations.
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


class _Point(NamedTuple):
    """A point on the search line: step length, value, slope along the line, and gradient."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class _Search(NamedTuple):
    low: _Point  # best point so far
    high: _Point  # other end of the bracket, once there is one
    left: _Point  # previous end of the bracket; NaN for the first bracket
    trial: Any
    bracketed: Any
    found: Any
    evaluations: Any


_SUFFICIENT, _CURVATURE = 1e-4, 0.9


def _dot(x, y):
    return xnp.vdot(x, y, precision="highest").real


def _select_point(condition, x, y):
    return _Point(*[xnp.where(condition, a, b) for a, b in zip(x, y)])


def _interpolate(low: _Point, high: _Point, left: _Point):
    """Return a step in the bracket from `low` to `high`: the minimum of the cubic through the last three points and the
    slope at `low`.

    If that is in an outer fifth of the bracket, use the minimum of the parabola through both ends, and if that is in an
    outer tenth, the middle.
    """
    width = high.step - low.step

    def excess(point: _Point):
        """Return the height of a point above the tangent at `low`, divided by the squared distance."""
        distance = point.step - low.step
        return (point.value - low.value - low.slope * distance) / (distance * distance)

    curvature = excess(high)
    cubic = (excess(left) - curvature) / (left.step - high.step)
    square = curvature - cubic * width
    root = xnp.sqrt(square * square - 3 * cubic * low.slope)
    cubic_fraction, parabola_minimum = (-square + root) / (3 * cubic * width), -low.slope / (2 * curvature * width)
    parabola_fraction = xnp.where((parabola_minimum >= 0.1) & (parabola_minimum <= 0.9), parabola_minimum, 0.5)
    return low.step + width * xnp.where((cubic_fraction >= 0.2) & (cubic_fraction <= 0.8), cubic_fraction, parabola_fraction)


def _line_search(evaluate: Callable, x, direction, start: _Point, first, max_evaluations):
    """Return a point on the line that meets the strong Wolfe conditions, or the best one tried, starting with step
    `first`."""
    # Close to a minimum, values differ only by rounding errors.
    slack = 10 * xnp.finfo(start.value.dtype).eps * xnp.abs(start.value)

    def is_active(state: _Search):
        return ~state.found & (state.evaluations < max_evaluations)

    def step(state: _Search):
        low, high, left, a, bracketed, _, count = state
        value, gradient = evaluate(x + a * direction)
        point = _Point(a, value, _dot(gradient, direction), gradient)
        decreases = value <= start.value + _SUFFICIENT * a * start.slope + slack
        is_too_high = ~(decreases & ((value < low.value + slack) | (~bracketed & (count == 0))))
        found = ~is_too_high & (xnp.abs(point.slope) <= -_CURVATURE * start.slope)
        changes_sign = ~is_too_high & ~found & xnp.where(bracketed, point.slope * (high.step - low.step) >= 0, point.slope >= 0)
        left = _select_point(bracketed, _select_point(is_too_high | changes_sign, high, low), left)
        high = _select_point(is_too_high, point, _select_point(changes_sign, low, high))
        low = _select_point(is_too_high, low, point)
        bracketed = bracketed | is_too_high | changes_sign
        return _Search(low, high, left, xnp.where(bracketed, _interpolate(low, high, left), 2 * a), bracketed, found, count + 1)

    false = xnp.asarray(False)
    undefined = _Point(*[xnp.full_like(component, xnp.nan) for component in start])
    return lax.while_loop(is_active, step, _Search(
        start, start, undefined, xnp.asarray(first, start.value.dtype), false, false, 0))


def _initial_step(value, before, slope):
    """Return the step that predicts the decrease of the last iteration to first order, at most a full step."""
    first = xnp.minimum(1, 1.01 * 2 * (value - before) / slope)
    return xnp.where((first > 0) & xnp.isfinite(first), first, 1)


# Directions. A method initializes a memory for vectors of a size and dtype, computes directions from it, and updates it.


class _Method(NamedTuple):
    init_memory: Callable
    direction: Callable
    update_memory: Callable
    first_step: Callable
    defaults: dict[str, Any]
    limit: str  # option that limits the evaluations of the line search
    failed: int  # status if no step within a bracket is acceptable


def _bfgs_update(memory, s, y, good):
    scale = 1 / xnp.where(good, _dot(y, s), 1)
    left = xnp.eye(len(s), dtype=s.dtype) - scale * xnp.outer(s, y.conj())
    multiply = functools.partial(xnp.matmul, precision="highest")
    return xnp.where(good, multiply(multiply(left, memory), left.conj().T) + scale * xnp.outer(s, s.conj()), memory)


class _History(NamedTuple):
    """The last steps and gradient changes, the newest last, and 1 / <y, s> of each: 0 for missing ones."""

    steps: Any
    changes: Any
    scales: Any
    curvature: Any  # <y, s> / <y, y> of the newest step


def _lbfgs_init(size, dtype, maxcor):
    zeros = xnp.zeros((maxcor, size), dtype)
    return _History(zeros, zeros, xnp.zeros(maxcor, zeros.real.dtype), xnp.ones((), zeros.real.dtype))


def _lbfgs_direction(history: _History, gradient):
    def backward(q, row):
        s, y, scale = row
        coefficient = scale * _dot(s, q)
        return q - coefficient * y, coefficient

    def forward(q, row):
        s, y, scale, coefficient = row
        return q + (coefficient - scale * _dot(y, q)) * s, None

    rows = history.steps, history.changes, history.scales
    q, coefficients = lax.scan(backward, gradient, rows, reverse=True)
    return -lax.scan(forward, history.curvature * q, (*rows, coefficients))[0]


def _lbfgs_update(history: _History, s, y, good):
    curvature = xnp.where(good, _dot(y, s), 1)

    def push(rows, row):
        return xnp.where(good, xnp.concatenate([rows[1:], row[None]]), rows)

    return _History(push(history.steps, s), push(history.changes, y), push(history.scales, 1 / curvature),
                    xnp.where(good, curvature / xnp.where(good, _dot(y, y), 1), history.curvature))


_METHODS = {
    "bfgs": _Method(
        lambda size, dtype: xnp.eye(size, dtype=dtype), lambda memory, g: -xnp.matmul(memory, g, precision="highest"),
        _bfgs_update, _initial_step,
        {"gtol": 1e-5, "norm": np.inf, "maxiter": None, "line_search_maxiter": 10}, "line_search_maxiter", 3),
    "l-bfgs-experimental-do-not-rely-on-this": _Method(
        _lbfgs_init, _lbfgs_direction, _lbfgs_update, lambda *_: 1,
        {"maxiter": None, "norm": np.inf, "maxcor": 10, "ftol": 2.220446049250313e-09, "gtol": 1e-5, "maxfun": None,
         "maxgrad": None, "maxls": 20}, "maxls", 5),
}
_NO_LIMIT = np.iinfo(np.int32).max


class _State(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    before: Any
    memory: Any
    evaluations: Any
    iterations: Any
    status: Any
    done: Any


def _settings(method: str, rules: _Method, tol, options, size: int) -> dict[str, Any]:
    given = dict(options or {})
    unknown = sorted(set(given) - set(rules.defaults))
    if unknown:
        raise TypeError(f"minimize with the method {method!r} has no options {unknown}; it takes {sorted(rules.defaults)}.")
    settings = rules.defaults | ({} if tol is None else {"gtol": tol}) | given
    limits = {"maxiter": 200 * size if method == "bfgs" else _NO_LIMIT, "maxfun": _NO_LIMIT, "maxgrad": _NO_LIMIT}
    return settings | {name: limit for name, limit in limits.items() if settings.get(name, limit) is None}


def minimize(fun: Callable[..., Array], x0: ArrayLike, args: tuple = (), *, method: str, tol: ArrayLike | None = None,
             options: dict[str, Any] | None = None) -> OptimizeResults:
    """Find a local minimum of a function of a vector by its gradient.

    Differentiable in forward mode. For derivatives of the minimum itself, see `lax.custom_root`.

    Args:
        fun: The function, `fun(x, *args)`, from a vector to a scalar.
        x0: The initial guess, a vector of a floating-point or complex dtype.
        args: A tuple of additional arguments of `fun`.
        method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", which stores the last steps instead of a matrix.
        tol: Tolerance of the norm of the gradient. Default: 1e-5.
        options: A dictionary: `gtol` is `tol`, `norm` the order of that norm (inf), `maxiter` limits iterations. BFGS:
            `line_search_maxiter` (10). L-BFGS: `maxcor`, the number of stored steps (10), `ftol`, the minimum relative
            change of values (2.2e-9), `maxfun`, `maxgrad`, `maxls` (20).

    Returns:
        The minimizer, its value and gradient, and the status of the search.

    Example:
        >>> found = minimize(lambda x, a: xnp.sum((x - a) ** 2), xnp.zeros(2), args=(xnp.array([1.0, 2.0]),), method="BFGS")
        >>> bool(found.success), np.round(found.x, 3).tolist()
        (True, [1.0, 2.0])
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize needs args as a tuple, got {type(args).__name__}. Write args=(a,) for one argument.")
    rules = _METHODS.get(method.lower()) if isinstance(method, str) else None
    if rules is None:
        raise ValueError(f"minimize supports the methods 'BFGS' and 'l-bfgs-experimental-do-not-rely-on-this', got {method!r}.")
    x0 = xnp.asarray(x0)
    aval = tracing.aval_of(x0)
    if aval.ndim != 1 or not dtypes.is_inexact(aval.dtype):
        raise TypeError(f"minimize needs x0 as a vector of floating dtype, got {aval}. For pytrees, see "
                        f"xlafront.flatten_util.ravel_pytree.")
    return _minimize(with_present_promotion(lambda x: fun(x, *args)), x0, method.lower(), tol, options)


@promotes_freely
def _minimize(fun: Callable, x0: Array, method: str, tol, options) -> OptimizeResults:
    aval, rules = tracing.aval_of(x0), _METHODS[method]
    settings = _settings(method, rules, tol, options, aval.shape[0])
    differentiated = value_and_grad(fun)

    def evaluate(x):
        value, gradient = differentiated(x)
        return value, xnp.conj(gradient)  # the direction of steepest ascent, for complex x too

    def is_converged(gradient):
        return xnp.linalg.norm(gradient, ord=settings["norm"]) < settings["gtol"]

    def is_active(state: _State):
        return ~state.done

    def step(state: _State):
        direction = rules.direction(state.memory, state.gradient)
        start = _Point(xnp.zeros_like(state.value), state.value, _dot(state.gradient, direction), state.gradient)
        first = rules.first_step(state.value, state.before, start.slope)
        search = _line_search(evaluate, state.x, direction, start, first, settings[rules.limit])
        has_positive_curvature = _dot(search.low.gradient - state.gradient, direction) > 0
        # Without a bracket and without positive curvature, the function decreases without bound. From infinity or NaN, it does
        # not decrease at all.
        is_unbounded = ~search.found & (~search.bracketed & ~has_positive_curvature | ~xnp.isfinite(state.value))
        point = _select_point(is_unbounded, start, search.low)
        s, y = point.step * direction, point.gradient - state.gradient
        curvature = _dot(y, s)  # its inverse overflows after tiny steps, early in float16
        memory = rules.update_memory(state.memory, s, y, (curvature > 0) & xnp.isfinite(1 / curvature))
        converged, iterations = is_converged(point.gradient), state.iterations + 1
        evaluations = state.evaluations + search.evaluations
        stops = [(converged, 0), (is_unbounded, 5), (~search.found & ~(point.value < state.value), rules.failed),
                (iterations >= settings["maxiter"], 1)]
        if "maxfun" in settings:
            scale = xnp.maximum(xnp.maximum(xnp.abs(state.value), xnp.abs(point.value)), 1)
            stops += [(evaluations >= settings["maxfun"], 2), (evaluations >= settings["maxgrad"], 3),
                     (state.value - point.value <= settings["ftol"] * scale, 4)]
        done = functools.reduce(xnp.logical_or, [condition for condition, _ in stops])
        status = xnp.select([condition for condition, _ in stops], [code for _, code in stops], 0)
        return _State(state.x + s, point.value, point.gradient, state.value, memory, evaluations, iterations, status, done)

    value, gradient = evaluate(x0)
    memory = rules.init_memory(aval.shape[0], aval.dtype, *([settings["maxcor"]] if "maxcor" in settings else []))
    converged_at_start = is_converged(gradient)
    no_iterations = xnp.asarray(settings["maxiter"]) <= 0
    status = xnp.where(converged_at_start, 0, xnp.where(no_iterations, 1, 0))
    final = lax.while_loop(is_active, step, _State(
        x0, value, gradient, value + xnp.linalg.norm(gradient) / 2, memory, 1, 0, status, converged_at_start | no_iterations))
    return OptimizeResults(
        final.x, final.done & (final.status == 0), final.status, final.value, xnp.conj(final.gradient),
        final.memory if rules.limit == "line_search_maxiter" else None, final.evaluations, final.evaluations, final.iterations)
