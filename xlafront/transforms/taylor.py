"""Taylor mode: values and their higher derivatives along a curve go through a function together (`jet`).

Where the operations of a function have rules for whole series, the cost of `n` derivatives grows with the square of `n`. What
has no rule is differentiated `n` times by forward mode, so that every function with derivatives has a jet.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lax
from xlafront.core import dtypes, tracing, tree
from xlafront.core.ir import jaxpr_as_fun
from xlafront.core.primitive import Primitive
from xlafront.core.tracing import Trace, Tracer, current_trace
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import PRIMITIVES, add, as_array, as_type, constant_like, mul, to_dtype
from xlafront.lax.zeros import instantiate
from xlafront.transforms.ad.jvp import jvp_flat


class ZeroTerm:
    """A term of a series that is zero."""


class ZeroSeries:
    """A series whose terms are all zero."""


zero_term = ZeroTerm()
zero_series = ZeroSeries()


class JetTracer(Tracer):
    """A value and the derivatives that follow it."""

    __slots__ = ("primal", "terms")

    def __init__(self, trace: JetTrace, primal, terms):
        self._trace = trace
        self.aval = tracing.aval_of(primal)
        self.primal, self.terms = primal, terms

    def _concrete(self):
        if isinstance(self.primal, Tracer):
            return self.primal._concrete()
        return np.asarray(self.primal)

    def __repr__(self):
        return f"JetTracer(primal={self.primal}, terms={self.terms})"


class JetTrace(Trace):
    """Computes values and `order` derivatives."""

    __slots__ = ("order", "alive")

    def __init__(self, parent: Trace, order: int):
        self.parent, self.order, self.alive = parent, order, True

    def process(self, primitive, args, params):
        mine = [type(x) is JetTracer and x._trace is self for x in args]
        primals = [x.primal if m else x for x, m in zip(args, mine)]
        series = [x.terms if m else None for x, m in zip(args, mine)]
        if not any(mine):
            with current_trace(self.parent):
                return self.parent.process(primitive, args, params)
        if primitive.calls_program and primitive not in jet_rules:
            return jaxpr_as_fun(params["jaxpr"])(*args)
        with current_trace(self.parent):
            if primitive in jet_rules:
                results, terms = jet_rules[primitive](primals, _dense(primals, series, self.order), **params)
            elif primitive in _RULES:
                results, terms = _RULES[primitive](primitive, primals, series, params)
            else:
                results, terms = _by_forward_mode(primitive, primals, series, self.order, params)
        if not primitive.multiple_results:
            return self.wrap(results, terms)
        return [self.wrap(x, t) for x, t in zip(results, terms)]

    def wrap(self, primal, terms):
        if terms is None or isinstance(terms, ZeroSeries) or not dtypes.is_inexact(tracing.aval_of(primal).dtype):
            return primal
        return JetTracer(self, primal, [_zeros(primal) if isinstance(t, ZeroTerm) else t for t in terms])


def _zeros(x):
    return constant_like(as_array(x), 0) if not np.shape(x) else lax.full_like(x, 0)


def _dense(primals, series, order: int):
    return [[_zeros(x)] * order if terms is None else terms for x, terms in zip(primals, series)]


# Rules. `rule(primitive, primals, series, params)` returns results and their derivatives; the series of what does not change is
# None. Inside of a rule a series begins with the value, and its terms are divided by factorials: they are coefficients.


def _add(*xs):
    return functools.reduce(lax.add, xs)


def _times(x, number: float):
    return x if number == 1 else lax.mul(x, constant_like(x, number))


def _coefficients(primal, terms) -> list:
    return [primal, *[_times(t, 1 / math.factorial(k)) for k, t in enumerate(terms, 1)]]


def _derivatives(coefficients: Sequence[Any]) -> tuple[Any, list]:
    return coefficients[0], [_times(c, math.factorial(k)) for k, c in enumerate(coefficients[1:], 1)]


def _on_coefficients(rule: Callable) -> Callable:
    """A rule of one operand's coefficients (and parameters) to those of the result."""
    def apply(primitive, primals, series, params):
        return _derivatives(rule(primitive, _coefficients(primals[0], series[0]), **params))

    return apply


def _product(x, y, k: int, multiply: Callable = lax.mul):
    """The `k`-th coefficient of a product."""
    return _add(*[multiply(x[j], y[k - j]) for j in range(k + 1)])


def _integrated(u, slopes, k: int):
    """The `k`-th coefficient of what has the derivative `slopes * u'`."""
    return _times(_add(*[_times(lax.mul(u[j], slopes[k - j]), j) for j in range(1, k + 1)]), 1 / k)


def _linear(primitive, primals, series, params):
    """For operations linear in all operands that change together."""
    changing = [i for i, terms in enumerate(series) if terms is not None]
    order = len(series[changing[0]])
    fixed = [x if not dtypes.is_inexact(tracing.aval_of(x).dtype) else _zeros(x) for x in primals]

    def along(k):
        operands = list(fixed)
        for i in changing:
            operands[i] = series[i][k]
        return primitive.bind(*operands, **params)

    results, terms = primitive.bind(*primals, **params), [along(k) for k in range(order)]
    return results, [list(t) for t in zip(*terms)] if primitive.multiple_results and order else (
        [[] for _ in results] if primitive.multiple_results else terms)


def _constant(primitive, primals, series, params):
    results = primitive.bind(*primals, **params)
    return results, [None] * len(results) if primitive.multiple_results else None


def _bilinear(primitive, primals, series, params):
    if series[0] is None or series[1] is None:
        moving = 0 if series[1] is None else 1
        multiply = functools.partial(primitive.bind, **params)
        return multiply(*primals), [
            multiply(*(primals[:moving] + [t] + primals[moving + 1:])) for t in series[moving]]
    x, y = (_coefficients(p, s) for p, s in zip(primals, series))
    return _derivatives([_product(x, y, k, functools.partial(primitive.bind, **params)) for k in range(len(x))])


def _quotient(x, y) -> list:
    found: list = []
    for k in range(len(x)):
        rest = x[k] if not k else lax.sub(x[k], _add(*[lax.mul(found[j], y[k - j]) for j in range(k)]))
        found.append(lax.div(rest, y[0]))
    return found


def _divided(primitive, primals, series, params):
    if series[1] is None:
        return primitive.bind(*primals), [primitive.bind(t, primals[1]) for t in series[0]]
    x, y = (_coefficients(p, s) for p, s in zip(primals, _dense(primals, series, len(series[1]))))
    result = primitive.bind(*primals)
    shape = tracing.aval_of(result).shape  # scalars among the operands are spread by the operation
    x = [x[0], *[t if np.shape(t) == shape else lax.broadcast(t, shape) for t in x[1:]]]
    return _derivatives(_quotient(x, y))


def _solution(slope: Callable) -> Callable:
    """The rule of a function with `f' = slope(f)`: the coefficients of the slope, one more with each of the function's own."""
    def rule(primitive, u, **params):
        found = [primitive.bind(u[0], **params)]
        slopes: list = []
        for k in range(1, len(u)):
            slopes.append(slope(found, k - 1))
            found.append(_integrated(u, slopes, k))
        return found

    return _on_coefficients(rule)


def _one_plus(sign: int, v, k: int):
    """The `k`-th coefficient of `1 + sign * v**2`."""
    square = _times(_product(v, v, k), sign)
    return lax.add(square, constant_like(square, 1)) if k == 0 else square


def _turning(name: str, other: str, sign: int) -> Callable:
    """The rule of a sine or a cosine, each the derivative of the other; twice derived, it is itself with this sign."""
    first, second = PRIMITIVES[name], PRIMITIVES[other]
    mine, its = (sign, 1) if name == "cos" else (1, sign)

    def rule(primitive, u, **params):
        f, g = [first.bind(u[0], **params)], [second.bind(u[0], **params)]
        for k in range(1, len(u)):
            f_k, g_k = _integrated(u, g, k), _integrated(u, f, k)
            f.append(_times(f_k, mine))
            g.append(_times(g_k, its))
        return f

    return _on_coefficients(rule)


def _power(u, first, exponent) -> list:
    """Of `u ** exponent`, whose value is `first`."""
    found = [first]
    for k in range(1, len(u)):
        terms = []
        for j in range(1, k + 1):
            factor = lax.sub(lax.mul(exponent, constant_like(exponent, j)), constant_like(exponent, k - j))
            terms.append(lax.mul(factor, lax.mul(u[j], found[k - j])))
        found.append(_times(lax.div(_add(*terms), u[0]), 1 / k))
    return found


def _root(exponent: float) -> Callable:
    return _on_coefficients(lambda primitive, u, **params: _power(
        u, primitive.bind(u[0], **params), constant_like(u[0], exponent)))


def _general_power(primitive, primals, series, params):
    x, y = primals
    if series[1] is None:
        exponent = to_dtype(as_array(y), tracing.aval_of(x).dtype)
        return _derivatives(_power(_coefficients(x, series[0]), primitive.bind(x, y), exponent))
    order = len(series[1])
    return _flat_jet(lambda x, y: lax.exp(lax.mul(y, lax.log(x))), primals, _dense(primals, series, order), order)


def _whole_power(primitive, u, *, y):
    one = [constant_like(u[0], 1) if not np.shape(u[0]) else lax.full_like(u[0], 1), *[_zeros(c) for c in u[1:]]]
    found, square, exponent = None, u, abs(y)
    while exponent:
        if exponent & 1:
            found = square if found is None else [_product(found, square, k) for k in range(len(u))]
        exponent >>= 1
        if exponent:
            square = [_product(square, square, k) for k in range(len(u))]
    found = one if found is None else found
    return _quotient(one, found) if y < 0 else found


def _by_forward_mode(primitive, primals, series, order: int, params):
    """By `order` derivatives of forward mode along the polynomial that the series is."""
    results = primitive.bind(*primals, **params)
    flat = results if primitive.multiple_results else [results]
    moves = [dtypes.is_inexact(tracing.aval_of(x).dtype) for x in flat]

    def curve(t):
        xs = []
        for primal, terms in zip(primals, series):
            if terms is not None:
                position = to_dtype(t, tracing.aval_of(primal).dtype)
                *lower, value = _coefficients(primal, terms)
                for coefficient in reversed(lower):
                    value = add(mul(position, value), coefficient)
                primal = value
            xs.append(primal)
        found = primitive.bind(*xs, **params)
        return [x for x, m in zip(found if primitive.multiple_results else [found], moves) if m]

    def derivatives(function: Callable, count: int) -> Callable:
        if not count:
            return function
        before = derivatives(function, count - 1)

        def run(t):
            values, tangents = jvp_flat(before, [t], [constant_like(t, 1)])
            return [*values, *[instantiate(x) for x in tangents[len(tangents) - sum(moves):]]]

        return run

    zero = as_array(np.zeros((), dtypes.default_dtype(float)))
    values = derivatives(curve, order)(zero)
    rows = [values[k * sum(moves):(k + 1) * sum(moves)] for k in range(1, order + 1)]
    changing = iter(range(sum(moves)))
    terms = [[row[i] for row in rows] if m and (i := next(changing)) is not None else None for m in moves]
    return results, terms if primitive.multiple_results else terms[0]


# The rules that users extend: `rule(primals, series, **params)`.

jet_rules: dict[Primitive, Callable] = {}


def fact(n: ArrayLike) -> Array:
    """The factorial, by the gamma function.

    - `n`: numbers, which need not be whole.

    >>> round(float(fact(4)), 3)
    24.0
    """
    n = as_array(n)
    return lax.exp(lax.lgamma(lax.add(n if dtypes.is_inexact(n.dtype) else to_dtype(n, dtypes.default_dtype(float)), 1.0)))


def zero_prop(prim: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """The rule of operations whose derivatives are zero.

    - `prim`: the primitive.
    - `primals_in`, `series_in`: the operands, and a series for each of them.
    - `params`: of the primitive.

    >>> zero_prop(lax.floor_p, [xnp.array(1.5)], [[xnp.array(1.0)]])[0].item()
    1.0
    """
    return prim.bind(*primals_in, **params), zero_series


def linear_prop(prim: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """The rule of operations that are linear in all operands.

    - `prim`: the primitive.
    - `primals_in`, `series_in`: the operands, and a series for each of them.
    - `params`: of the primitive.

    >>> value, (slope,) = linear_prop(lax.neg_p, [xnp.array(1.5)], [[xnp.array(2.0)]], )
    >>> slope.item()
    -2.0
    """
    return _linear(prim, list(primals_in), list(series_in), params)


def deriv_prop(prim: Primitive, deriv: Callable, primals_in: Sequence[Any], series_in: Sequence[Any]) -> tuple[Any, list]:
    """The rule of functions of one number whose derivative is a function that has a jet.

    - `prim`: the primitive.
    - `deriv`: the derivative, a function of the operand.
    - `primals_in`, `series_in`: the operand and its series, in lists of one.

    >>> value, (slope,) = deriv_prop(lax.log_p, lambda x: 1 / x, [xnp.array(2.0)], [[xnp.array(1.0)]])
    >>> slope.item()
    0.5
    """
    (x,), (terms,) = primals_in, series_in
    if not terms:
        return prim.bind(x), []
    u = _coefficients(x, terms)
    slope, slopes = _flat_jet(deriv, [x], [list(terms)[:-1]], len(terms) - 1)
    slopes = _coefficients(slope, slopes)
    return _derivatives([prim.bind(x), *[_integrated(u, slopes, k) for k in range(1, len(u))]])


def defzero(prim: Primitive) -> None:
    """Say of a primitive that its derivatives are zero.

    - `prim`: the primitive.

    >>> defzero(xf.core.Primitive("nothing"))
    """
    jet_rules[prim] = functools.partial(zero_prop, prim)


def deflinear(prim: Primitive) -> None:
    """Say of a primitive that it is linear in all operands.

    - `prim`: the primitive.

    >>> deflinear(xf.core.Primitive("double"))
    """
    jet_rules[prim] = functools.partial(linear_prop, prim)


def def_deriv(prim: Primitive, deriv: Callable) -> None:
    """Give a primitive of one operand its derivative.

    - `prim`: the primitive.
    - `deriv`: the derivative, a function of the operand that has a jet.

    >>> def_deriv(xf.core.Primitive("my_log"), lambda x: 1 / x)
    """
    jet_rules[prim] = functools.partial(deriv_prop, prim, deriv)


def def_comp(prim: Primitive, comp: Callable, **kwargs: Any) -> None:
    """Say which composition of other operations a primitive is.

    - `prim`: the primitive.
    - `comp`: a function of its operands and parameters.
    - `kwargs`: parameters for `comp` that are always the same.

    >>> def_comp(xf.core.Primitive("fourth_power"), lambda x: (x * x) * (x * x))
    """
    def rule(primals, series, **params):
        return _flat_jet(functools.partial(comp, **kwargs, **params), list(primals), list(series), len(series[0]))

    jet_rules[prim] = rule


# The table


_RULES: dict[Primitive, Callable] = {}
for _rule, _names in (
        (_linear, """neg add sub add_any real imag complex conj reshape rev transpose slice squeeze broadcast_in_dim concatenate
            pad split stack unstack convert_element_type copy cumsum reduce_sum reduce_window_sum fft gather dynamic_slice
            dynamic_update_slice scatter_add tile reduce_precision"""),
        (_constant, """floor ceil round sign eq ne lt le gt ge is_finite and or xor not stop_gradient shift_left
            shift_right_arithmetic shift_right_logical argmax argmin"""),
        (_bilinear, "mul dot_general conv_general_dilated"), (_divided, "div"), (_general_power, "pow")):
    for _name in _names.split():
        _primitive = PRIMITIVES.get(_name) or getattr(lax, f"{_name}_p")
        _RULES[_primitive] = _rule

_RULES |= {PRIMITIVES[name]: rule for name, rule in {
    "exp": _solution(lambda v, k: v[k]),
    "tanh": _solution(functools.partial(_one_plus, -1)),
    "tan": _solution(functools.partial(_one_plus, 1)),
    "logistic": _solution(lambda v, k: lax.sub(v[k], _product(v, v, k))),
    "sin": _turning("sin", "cos", -1), "cos": _turning("cos", "sin", -1),
    "sinh": _turning("sinh", "cosh", 1), "cosh": _turning("cosh", "sinh", 1),
    "sqrt": _root(1 / 2), "rsqrt": _root(-1 / 2), "cbrt": _root(1 / 3),
    "integer_pow": _on_coefficients(_whole_power),
    "square": _on_coefficients(lambda primitive, u: [_product(u, u, k) for k in range(len(u))]),
}.items()}


def _polynomial(x, constant: float, factor: float):
    """`constant + factor * x**2`."""
    return lax.add(_times(lax.mul(x, x), factor), constant_like(x, constant))


def _gauss(x, factor: float, sign: int = -1):
    """`factor * exp(sign * x**2)`."""
    return _times(lax.exp(_times(lax.mul(x, x), sign)), factor)


_SLOPES: dict[str, Callable] = {
    "log": lambda x: lax.div(constant_like(x, 1), x),
    "log1p": lambda x: lax.div(constant_like(x, 1), lax.add(x, constant_like(x, 1))),
    "expm1": lax.exp,
    "exp2": lambda x: _times(lax.exp2(x), math.log(2)),
    "atan": lambda x: lax.div(constant_like(x, 1), _polynomial(x, 1, 1)),
    "atanh": lambda x: lax.div(constant_like(x, 1), _polynomial(x, 1, -1)),
    "asin": lambda x: lax.rsqrt(_polynomial(x, 1, -1)),
    "acos": lambda x: lax.neg(lax.rsqrt(_polynomial(x, 1, -1))),
    "asinh": lambda x: lax.rsqrt(_polynomial(x, 1, 1)),
    "acosh": lambda x: lax.rsqrt(_polynomial(x, -1, 1)),
    "erf": lambda x: _gauss(x, 2 / math.sqrt(math.pi)),
    "erfc": lambda x: _gauss(x, -2 / math.sqrt(math.pi)),
    "erf_inv": lambda x: _gauss(lax.erf_inv(x), math.sqrt(math.pi) / 2, 1),
    "lgamma": lax.digamma,
}


def _by_slope(slope: Callable) -> Callable:
    return lambda primitive, primals, series, params: deriv_prop(_With(primitive, params), slope, primals, series)


class _With:
    """A primitive with its parameters."""

    def __init__(self, primitive: Primitive, params: dict[str, Any]):
        self.bind = functools.partial(primitive.bind, **params)


_RULES |= {PRIMITIVES[name]: _by_slope(slope) for name, slope in _SLOPES.items()}


def _flat_jet(fun: Callable, primals: Sequence[Any], series: Sequence[Any], order: int) -> tuple[Any, Any]:
    """Results and their derivatives, for a function of arrays to an array or a list of them."""
    parent = tracing.thread.trace
    trace = JetTrace(parent, order)
    try:
        with current_trace(trace):
            results = fun(*[trace.wrap(x, terms) for x, terms in zip(primals, series)])
    finally:
        trace.end()
    several = isinstance(results, (list, tuple))
    pairs = [(x.primal, list(x.terms)) if type(x) is JetTracer and x._trace is trace else (x, [_zeros(x)] * order)
             for x in (results if several else [results])]
    return ([x for x, _ in pairs], [t for _, t in pairs]) if several else pairs[0]


def _checked_series(i: int, primal, terms, order: int):
    if isinstance(terms, ZeroSeries):
        terms = [zero_term] * order
    shape, dtype = np.shape(primal), tracing.aval_of(primal).dtype
    found = []
    for term in terms:
        if not isinstance(term, ZeroTerm):
            if not tracing.is_arraylike(term) or np.shape(term) != shape:
                raise TypeError(f"jet takes in series[{i}] arrays of the shape of primals[{i}], {shape}, got {term!r}.")
            term = as_array(term)
            term = as_type(term, dtype, tracing.aval_of(term).weak_type)  # numbers stay weakly typed
        found.append(_zeros(primal) if isinstance(term, ZeroTerm) else term)
    return found


def jet(fun: Callable, primals: Sequence[ArrayLike], series: Sequence[Any], factorial_scaled: bool = True,
        **_: Any) -> tuple[Any, Any]:
    """The value of a function along a curve, and its higher derivatives with respect to the curve's parameter.

    - `fun`: a function of arrays, of which each operation has derivatives.
    - `primals`: where the curve is, a sequence of arrays, one for each argument.
    - `series`: for each argument the derivatives of the curve, all equally many: the first, the second and so on.
    - `factorial_scaled`: whether the terms are derivatives; if not, they are coefficients, divided by factorials.
    - `_`: further keywords are ignored.

    Returns the results, and for each of their arrays the list of its derivatives.

    >>> value, derivatives = jet(lambda x: x ** 3, (2.0,), ((1.0, 0.0, 0.0),))
    >>> float(value), [float(d) for d in derivatives]
    (8.0, [12.0, 12.0, 6.0])
    """
    primals, series = tuple(primals), tuple(series)
    if len(primals) != len(series):
        raise ValueError(f"jet takes a series for each of its primals, got {len(primals)} primals and {len(series)} series.")
    for i, x in enumerate(primals):
        if not tracing.is_arraylike(x):
            raise ValueError(f"jet takes arrays as primals, and primals[{i}] is a {type(x).__name__}. Flatten pytrees, as with "
                             f"xlafront.tree.flatten.")
    lengths = {len(terms) for terms in series if not isinstance(terms, ZeroSeries)}
    if len(lengths) > 1:
        raise ValueError(f"jet takes series that are equally long, got lengths {[len(terms) for terms in series]}.")
    order = lengths.pop() if lengths else 0
    primals = tuple([as_array(x) for x in primals])
    primals = tuple([x if dtypes.is_inexact(x.dtype) else to_dtype(x, dtypes.default_dtype(float)) for x in primals])
    terms = [_checked_series(i, x, t, order) for i, (x, t) in enumerate(zip(primals, series))]
    if not factorial_scaled:
        terms = [_derivatives([x, *t])[1] for x, t in zip(primals, terms)]
    out_tree = None

    def flat(*xs):
        nonlocal out_tree
        leaves, out_tree = tree.flatten(fun(*xs))
        return leaves

    results, out_terms = _flat_jet(flat, primals, terms, order)
    if not factorial_scaled:
        out_terms = [_coefficients(x, t)[1:] for x, t in zip(results, out_terms)]
    return tree.unflatten(out_tree, results), tree.unflatten(out_tree, out_terms)
