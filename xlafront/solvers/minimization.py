"""Minima of functions of vectors: BFGS and L-BFGS, both with a line search for the strong Wolfe conditions.

The directions and the line search are those of Nocedal and Wright, "Numerical Optimization", 2006 (algorithms 3.5, 3.6, 6.1 and
7.4).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.transforms.ad.derivatives import value_and_grad


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    - `x`: the minimum.
    - `success`: whether the gradient is as small as it should be.
    - `status`: 0 where it is; 1 and 2: the limit of iterations or of evaluations was reached, 3: that of gradients, or no step
      within a bracket was good enough; 4: steps change too little; 5: the function goes down without end, or not at all.
    - `fun`, `jac`: the value and the gradient at `x`.
    - `hess_inv`: what is known of the inverse of the matrix of second derivatives; None from L-BFGS.
    - `nfev`, `njev`: how often the function and its gradient were evaluated.
    - `nit`: the number of iterations.
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
    """A place on the line: how far along, the value, the slope, and the gradient."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class _Search(NamedTuple):
    low: _Point  # the best so far
    high: _Point  # the other end, once there is one
    left: _Point  # the end that the bracket had before; not numbers for the first bracket
    trial: Any
    bracketed: Any
    found: Any
    evaluations: Any


_SUFFICIENT, _CURVATURE = 1e-4, 0.9


def _dot(x, y):
    return xnp.vdot(x, y, precision="highest").real


def _choose(which, x, y):
    return _Point(*[xnp.where(which, a, b) for a, b in zip(x, y)])


def _between(low: _Point, high: _Point, left: _Point):
    """A step in the bracket from `low` to `high`: where the cubic through the last three points has its minimum.

    It has the slope at `low`. Where its minimum is in an outer fifth, it is that of the parabola through both ends; where that
    is in an outer tenth, the middle.
    """
    width = high.step - low.step

    def above(point: _Point):
        """How much higher a point is than the tangent at `low`, for each square of its distance."""
        away = point.step - low.step
        return (point.value - low.value - low.slope * away) / (away * away)

    bend = above(high)
    cubic = (above(left) - bend) / (left.step - high.step)
    square = bend - cubic * width
    root = xnp.sqrt(square * square - 3 * cubic * low.slope)
    of_cubic, of_parabola = (-square + root) / (3 * cubic * width), -low.slope / (2 * bend * width)
    part = xnp.where((of_parabola >= 0.1) & (of_parabola <= 0.9), of_parabola, 0.5)
    return low.step + width * xnp.where((of_cubic >= 0.2) & (of_cubic <= 0.8), of_cubic, part)


def _line_search(evaluate: Callable, x, direction, start: _Point, first, most):
    """A point on the line that fulfils the strong Wolfe conditions, or the best of those tried, beginning with `first`."""
    # Near to a minimum values differ by rounding alone.
    slack = 10 * xnp.finfo(start.value.dtype).eps * xnp.abs(start.value)

    def goes_on(state: _Search):
        return ~state.found & (state.evaluations < most)

    def step(state: _Search):
        low, high, left, a, bracketed, _, count = state
        value, gradient = evaluate(x + a * direction)
        at = _Point(a, value, _dot(gradient, direction), gradient)
        good = value <= start.value + _SUFFICIENT * a * start.slope + slack
        rises = ~(good & ((value < low.value + slack) | (~bracketed & (count == 0))))
        found = ~rises & (xnp.abs(at.slope) <= -_CURVATURE * start.slope)
        turned = ~rises & ~found & xnp.where(bracketed, at.slope * (high.step - low.step) >= 0, at.slope >= 0)
        left = _choose(bracketed, _choose(rises | turned, high, low), left)
        high = _choose(rises, at, _choose(turned, low, high))
        low = _choose(rises, low, at)
        bracketed = bracketed | rises | turned
        return _Search(low, high, left, xnp.where(bracketed, _between(low, high, left), 2 * a), bracketed, found, count + 1)

    no = xnp.asarray(False)
    nowhere = _Point(*[xnp.full_like(part, xnp.nan) for part in start])
    return lax.while_loop(goes_on, step, _Search(start, start, nowhere, xnp.asarray(first, start.value.dtype), no, no, 0))


def _first_step(value, before, slope):
    """As far as the last iteration went down, if the line were straight, but no more than a whole step."""
    first = xnp.minimum(1, 1.01 * 2 * (value - before) / slope)
    return xnp.where((first > 0) & xnp.isfinite(first), first, 1)


# Directions. A method begins its memory for vectors of a size and dtype, makes a direction of it, and remembers steps.


class _Method(NamedTuple):
    begin: Callable
    direction: Callable
    remember: Callable
    first_step: Callable
    defaults: dict[str, Any]
    limit: str  # the option that limits the line search
    failed: int  # the status where no step within a bracket is good enough


def _bfgs_remember(memory, s, y, good):
    scale = xnp.where(good, 1 / xnp.where(good, _dot(y, s), 1), 0)
    left = xnp.eye(len(s), dtype=s.dtype) - scale * xnp.outer(s, y.conj())
    multiply = functools.partial(xnp.matmul, precision="highest")
    return multiply(multiply(left, memory), left.conj().T) + scale * xnp.outer(s, s.conj())


class _History(NamedTuple):
    """The last steps and changes of the gradient, the newest last, and 1 / <y, s>: zero for steps that are not there."""

    steps: Any
    changes: Any
    scales: Any
    curvature: Any  # <y, s> / <y, y> of the newest


def _lbfgs_begin(size, dtype, maxcor):
    zeros = xnp.zeros((maxcor, size), dtype)
    return _History(zeros, zeros, xnp.zeros(maxcor, zeros.real.dtype), xnp.ones((), zeros.real.dtype))


def _lbfgs_direction(history: _History, gradient):
    def back(q, row):
        s, y, scale = row
        part = scale * _dot(s, q)
        return q - part * y, part

    def forth(q, row):
        s, y, scale, part = row
        return q + (part - scale * _dot(y, q)) * s, None

    rows = history.steps, history.changes, history.scales
    q, parts = lax.scan(back, gradient, rows, reverse=True)
    return -lax.scan(forth, history.curvature * q, (*rows, parts))[0]


def _lbfgs_remember(history: _History, s, y, good):
    curvature = xnp.where(good, _dot(y, s), 1)

    def pushed(rows, row):
        return xnp.where(good, xnp.concatenate([rows[1:], row[None]]), rows)

    return _History(pushed(history.steps, s), pushed(history.changes, y), pushed(history.scales, 1 / curvature),
                    xnp.where(good, curvature / xnp.where(good, _dot(y, y), 1), history.curvature))


_METHODS = {
    "bfgs": _Method(
        lambda size, dtype: xnp.eye(size, dtype=dtype), lambda memory, g: -xnp.matmul(memory, g, precision="highest"),
        _bfgs_remember, _first_step,
        {"gtol": 1e-5, "norm": np.inf, "maxiter": None, "line_search_maxiter": 10}, "line_search_maxiter", 3),
    "l-bfgs-experimental-do-not-rely-on-this": _Method(
        _lbfgs_begin, _lbfgs_direction, _lbfgs_remember, lambda *_: 1,
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
    """A local minimum of a function of a vector, by its gradient.

    - `fun`: the function, `fun(x, *args)`, of a vector to a number.
    - `x0`: where to start, a vector of floating dtype.
    - `args`: a tuple of what `fun` takes besides.
    - `method`: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", which remembers the last steps in place of a matrix.
    - `tol`: how small the gradient has to become; 1e-5 where it is not given.
    - `options`: a dictionary: `gtol` is `tol`, `norm` the order of the norm that it is for (inf), `maxiter` limits
      iterations. BFGS: `line_search_maxiter` (10). L-BFGS: `maxcor`, the number of steps to remember (10), `ftol`, the least
      relative change of values (2.2e-9), `maxfun`, `maxgrad`, `maxls` (20).

    Differentiable in forward mode. For derivatives of the minimum itself, see `lax.custom_root`.

    >>> found = minimize(lambda x, a: xnp.sum((x - a) ** 2), xnp.zeros(2), args=(xnp.array([1.0, 2.0]),), method="BFGS")
    >>> bool(found.success), np.round(found.x, 3).tolist()
    (True, [1.0, 2.0])
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize takes args as a tuple, got {type(args).__name__}. Write args=(a,) for one argument.")
    rules = _METHODS.get(method.lower()) if isinstance(method, str) else None
    if rules is None:
        raise ValueError(f"minimize takes 'BFGS' or 'l-bfgs-experimental-do-not-rely-on-this' as method, got {method!r}.")
    x0 = xnp.asarray(x0)
    aval = tracing.aval_of(x0)
    if aval.ndim != 1 or not dtypes.is_inexact(aval.dtype):
        raise TypeError(f"minimize takes x0 as a vector of floating dtype, got {aval}. For pytrees, see "
                        f"xlafront.flatten_util.ravel_pytree.")
    settings = _settings(method.lower(), rules, tol, options, aval.shape[0])
    differentiated = value_and_grad(lambda x: fun(x, *args))

    def evaluate(x):
        value, gradient = differentiated(x)
        return value, xnp.conj(gradient)  # the direction of steepest ascent, for complex x too

    def small(gradient):
        return xnp.linalg.norm(gradient, ord=settings["norm"]) < settings["gtol"]

    def goes_on(state: _State):
        return ~state.done

    def step(state: _State):
        direction = rules.direction(state.memory, state.gradient)
        start = _Point(xnp.zeros_like(state.value), state.value, _dot(state.gradient, direction), state.gradient)
        first = rules.first_step(state.value, state.before, start.slope)
        search = _line_search(evaluate, state.x, direction, start, first, settings[rules.limit])
        bends = _dot(search.low.gradient - state.gradient, direction) > 0
        # Without a bracket, and with slopes that do not get flatter, it goes down without end.
        endless = ~search.found & ~search.bracketed & ~bends
        at = _choose(endless, start, search.low)
        s, y = at.step * direction, at.gradient - state.gradient
        memory = rules.remember(state.memory, s, y, _dot(y, s) > 0)
        converged, iterations = small(at.gradient), state.iterations + 1
        evaluations = state.evaluations + search.evaluations
        ends = [(converged, 0), (endless, 5), (~search.found & ~(at.value < state.value), rules.failed),
                (iterations >= settings["maxiter"], 1)]
        if "maxfun" in settings:
            scale = xnp.maximum(xnp.maximum(xnp.abs(state.value), xnp.abs(at.value)), 1)
            ends += [(evaluations >= settings["maxfun"], 2), (evaluations >= settings["maxgrad"], 3),
                     (state.value - at.value <= settings["ftol"] * scale, 4)]
        done = functools.reduce(xnp.logical_or, [end for end, _ in ends])
        status = xnp.select([end for end, _ in ends], [code for _, code in ends], 0)
        return _State(state.x + s, at.value, at.gradient, state.value, memory, evaluations, iterations, status, done)

    value, gradient = evaluate(x0)
    begin = rules.begin(aval.shape[0], aval.dtype, *([settings["maxcor"]] if "maxcor" in settings else []))
    at_once = small(gradient)
    none = xnp.asarray(settings["maxiter"]) <= 0
    status = xnp.where(at_once, 0, xnp.where(none, 1, 0))
    end = lax.while_loop(goes_on, step, _State(x0, value, gradient, value + xnp.linalg.norm(gradient) / 2, begin, 1, 0, status,
                                               at_once | none))
    return OptimizeResults(
        end.x, end.done & (end.status == 0), end.status, end.value, xnp.conj(end.gradient),
        end.memory if rules.limit == "line_search_maxiter" else None, end.evaluations, end.evaluations, end.iterations)
