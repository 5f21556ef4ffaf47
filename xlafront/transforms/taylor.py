"""Taylor mode (`jet`): propagation of values and their higher derivatives along a curve.

With rules for whole series, the cost of `n` derivatives grows with the square of `n`. Operations without a rule are
differentiated
`n` times in forward mode, so that every differentiable function has a jet.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lax
from xlafront.core import dtypes, tracing, tree
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.primitive import Primitive
from xlafront.core.tangents import instantiate
from xlafront.core.tracing import Trace, Tracer, current_trace
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import PRIMITIVES, add, as_array, as_type, constant_like, mul
from xlafront.transforms.ad.jvp import jvp_flat

if TYPE_CHECKING:
    from xlafront.core.typing import Params


class ZeroTerm:
    """A zero term of a series."""


class ZeroSeries:
    """A series with zero terms only."""


zero_term = ZeroTerm()
zero_series = ZeroSeries()


class JetTracer(Tracer):
    """A tracer with a value and its derivatives along the curve."""

    __slots__ = ("primal", "terms")

    def __init__(self, trace: JetTrace, primal: ArrayLike, terms: list[ArrayLike]) -> None:
        self._trace = trace
        self.aval = tracing.aval_of(primal)
        self.primal, self.terms = primal, terms

    def _concrete(self) -> Any:
        if isinstance(self.primal, Tracer):
            return self.primal._concrete()
        return np.asarray(self.primal)

    def __repr__(self) -> str:
        return f"JetTracer(primal={self.primal}, terms={self.terms})"


class JetTrace(Trace):
    """A trace that computes values and `order` derivatives."""

    __slots__ = ("order", "alive")

    def __init__(self, parent: Trace, order: int) -> None:
        self.parent, self.order, self.alive = parent, order, True

    def process(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        is_active = [type(x) is JetTracer and x._trace is self for x in args]
        primals = [x.primal if active else x for x, active in zip(args, is_active)]
        series = [x.terms if active else None for x, active in zip(args, is_active)]
        if not any(is_active):
            with current_trace(self.parent):
                return self.parent.process(primitive, args, params)
        if primitive.structured.only_calls_program and primitive not in jet_rules:
            return params["jaxpr"](*args)
        with current_trace(self.parent):
            if primitive in jet_rules:
                results, terms = jet_rules[primitive](primals, _dense(primals, series, self.order), **params)
            elif primitive in _RULES:
                results, terms = _RULES[primitive](primitive, primals, series, params)
            else:
                results, terms = _repeated_forward_mode(primitive, primals, series, self.order, params)
        if not primitive.multiple_results:
            return self.wrap(results, terms)
        return [self.wrap(x, t) for x, t in zip(results, terms)]

    def wrap(self, primal: ArrayLike, terms: Sequence[ArrayLike | ZeroTerm] | ZeroSeries | None) -> ArrayLike:
        if terms is None or isinstance(terms, ZeroSeries) or not dtypes.is_inexact(tracing.aval_of(primal).dtype):
            return primal
        return JetTracer(self, primal, [_zeros(primal) if isinstance(t, ZeroTerm) else t for t in terms])


def _zeros(x: ArrayLike) -> ArrayLike:
    return constant_like(as_array(x), 0) if not np.shape(x) else lax.full_like(x, 0)


def _dense(primals: Sequence[ArrayLike], series: Sequence[Sequence[ArrayLike] | None], order: int) -> list[Sequence[ArrayLike]]:
    return [[_zeros(x)] * order if terms is None else terms for x, terms in zip(primals, series)]


# Rules. `rule(primitive, primals, series, params)` returns results and their derivatives; the series of a constant is None.
# Rules work on Taylor coefficients: the value, followed by the derivatives divided by factorials.


def _add(*xs: ArrayLike) -> ArrayLike:
    return functools.reduce(lax.add, xs)


def _scale(x: ArrayLike, factor: float) -> ArrayLike:
    return x if factor == 1 else lax.mul(x, constant_like(x, factor))


def _coefficients(primal: ArrayLike, terms: Sequence[ArrayLike]) -> list:
    return [primal, *[_scale(t, 1 / math.factorial(k)) for k, t in enumerate(terms, 1)]]


def _derivatives(coefficients: Sequence[Any]) -> tuple[Any, list]:
    return coefficients[0], [_scale(c, math.factorial(k)) for k, c in enumerate(coefficients[1:], 1)]


def _coefficient_rule(rule: Callable) -> Callable:
    """Make a rule from a function of one operand's coefficients (and parameters) that returns those of the result."""
    def apply(primitive: Primitive, primals: Sequence[ArrayLike], series: Sequence[Any], params: Params) -> tuple[Any, list]:
        return _derivatives(rule(primitive, _coefficients(primals[0], series[0]), **params))

    return apply


def _product(x: Sequence[ArrayLike], y: Sequence[ArrayLike], k: int, multiply: Callable = lax.mul) -> ArrayLike:
    """Return the `k`-th coefficient of a product."""
    return _add(*[multiply(x[j], y[k - j]) for j in range(k + 1)])


def _integrate(u: Sequence[ArrayLike], slopes: Sequence[ArrayLike], k: int) -> ArrayLike:
    """Return the `k`-th coefficient of the function with derivative `slopes * u'`."""
    return _scale(_add(*[_scale(lax.mul(u[j], slopes[k - j]), j) for j in range(1, k + 1)]), 1 / k)


def _linear(primitive: Primitive, primals: Sequence[ArrayLike], series: Sequence[Any], params: Params) -> tuple[Any, list]:
    """Apply the rule of operations that are jointly linear in the operands that vary."""
    varying = [i for i, terms in enumerate(series) if terms is not None]
    order = len(series[varying[0]])
    zero_operands = [x if not dtypes.is_inexact(tracing.aval_of(x).dtype) else _zeros(x) for x in primals]

    def term(k: int) -> Any:
        operands = list(zero_operands)
        for i in varying:
            operands[i] = series[i][k]
        return primitive.bind(*operands, **params)

    results, terms = primitive.bind(*primals, **params), [term(k) for k in range(order)]
    return results, [list(t) for t in zip(*terms)] if primitive.multiple_results and order else (
        [[] for _ in results] if primitive.multiple_results else terms)


def _constant(primitive: Primitive, primals: Sequence[ArrayLike], series: Sequence[Any], params: Params
              ) -> tuple[Any, list[None] | None]:
    results = primitive.bind(*primals, **params)
    return results, [None] * len(results) if primitive.multiple_results else None


def _bilinear(primitive: Primitive, primals: list[ArrayLike], series: Sequence[Any], params: Params) -> tuple[Any, list]:
    if series[0] is None or series[1] is None:
        varying = 0 if series[1] is None else 1
        multiply = functools.partial(primitive.bind, **params)
        return multiply(*primals), [
            multiply(*(primals[:varying] + [t] + primals[varying + 1:])) for t in series[varying]]
    x, y = (_coefficients(p, s) for p, s in zip(primals, series))
    return _derivatives([_product(x, y, k, functools.partial(primitive.bind, **params)) for k in range(len(x))])


def _quotient(x: Sequence[ArrayLike], y: Sequence[ArrayLike]) -> list:
    quotient: list = []
    for k in range(len(x)):
        remainder = x[k] if not k else lax.sub(x[k], _add(*[lax.mul(quotient[j], y[k - j]) for j in range(k)]))
        quotient.append(lax.div(remainder, y[0]))
    return quotient


def _divide(primitive: Primitive, primals: Sequence[ArrayLike], series: Sequence[Any], params: Params) -> tuple[Any, list]:
    if series[1] is None:
        return primitive.bind(*primals), [primitive.bind(t, primals[1]) for t in series[0]]
    x, y = (_coefficients(p, s) for p, s in zip(primals, _dense(primals, series, len(series[1]))))
    result = primitive.bind(*primals)
    shape = tracing.aval_of(result).shape  # the operation broadcasts scalar operands
    x = [x[0], *[t if np.shape(t) == shape else lax.broadcast(t, shape) for t in x[1:]]]
    return _derivatives(_quotient(x, y))


def _ode_rule(slope: Callable) -> Callable:
    """Make the rule of a function with `f' = slope(f)`: coefficients of the slope and the function are computed
    alternately."""
    def rule(primitive: Primitive, u: Sequence[ArrayLike], **params: Any) -> list[Any]:
        coefficients = [primitive.bind(u[0], **params)]
        slopes: list = []
        for k in range(1, len(u)):
            slopes.append(slope(coefficients, k - 1))
            coefficients.append(_integrate(u, slopes, k))
        return coefficients

    return _coefficient_rule(rule)


def _one_plus(sign: int, v: Sequence[ArrayLike], k: int) -> ArrayLike:
    """Return the `k`-th coefficient of `1 + sign * v**2`."""
    square = _scale(_product(v, v, k), sign)
    return lax.add(square, constant_like(square, 1)) if k == 0 else square


def _trigonometric_rule(name: str, other: str, sign: int) -> Callable:
    """Make the rule of a (hyperbolic) sine or cosine; `sign` is that of the second derivative, `sign * f`."""
    first, second = PRIMITIVES[name], PRIMITIVES[other]
    f_sign, g_sign = (sign, 1) if name == "cos" else (1, sign)

    def rule(primitive: Primitive, u: Sequence[ArrayLike], **params: Any) -> list[Any]:
        f, g = [first.bind(u[0], **params)], [second.bind(u[0], **params)]
        for k in range(1, len(u)):
            f_k, g_k = _integrate(u, g, k), _integrate(u, f, k)
            f.append(_scale(f_k, f_sign))
            g.append(_scale(g_k, g_sign))
        return f

    return _coefficient_rule(rule)


def _power(u: Sequence[ArrayLike], first: ArrayLike, exponent: ArrayLike) -> list:
    """Return the coefficients of `u ** exponent`, with value `first`."""
    coefficients = [first]
    for k in range(1, len(u)):
        terms = []
        for j in range(1, k + 1):
            factor = lax.sub(lax.mul(exponent, constant_like(exponent, j)), constant_like(exponent, k - j))
            terms.append(lax.mul(factor, lax.mul(u[j], coefficients[k - j])))
        coefficients.append(_scale(lax.div(_add(*terms), u[0]), 1 / k))
    return coefficients


def _constant_power_rule(exponent: float) -> Callable:
    return _coefficient_rule(lambda primitive, u, **params: _power(
        u, primitive.bind(u[0], **params), constant_like(u[0], exponent)))


def _general_power(primitive: Primitive, primals: Sequence[ArrayLike], series: Sequence[Any], params: Params
                   ) -> tuple[Any, Any]:
    x, y = primals
    if series[1] is None:
        exponent = to_dtype(as_array(y), tracing.aval_of(x).dtype)
        return _derivatives(_power(_coefficients(x, series[0]), primitive.bind(x, y), exponent))
    order = len(series[1])
    return _flat_jet(lambda x, y: lax.exp(lax.mul(y, lax.log(x))), primals, _dense(primals, series, order), order)


def _integer_power(primitive: Primitive, u: Sequence[ArrayLike], *, y: int) -> Sequence[ArrayLike]:
    one = [constant_like(u[0], 1) if not np.shape(u[0]) else lax.full_like(u[0], 1), *[_zeros(c) for c in u[1:]]]
    power, square, exponent = None, u, abs(y)
    while exponent:
        if exponent & 1:
            power = square if power is None else [_product(power, square, k) for k in range(len(u))]
        exponent >>= 1
        if exponent:
            square = [_product(square, square, k) for k in range(len(u))]
    power = one if power is None else power
    return _quotient(one, power) if y < 0 else power


def _repeated_forward_mode(primitive: Primitive, primals: Sequence[ArrayLike], series: Sequence[Sequence[ArrayLike] | None],
                           order: int, params: Params) -> tuple[Any, Any]:
    """Differentiate `order` times in forward mode along the polynomial with the coefficients of the series."""
    results = primitive.bind(*primals, **params)
    flat_results = results if primitive.multiple_results else [results]
    varies = [dtypes.is_inexact(tracing.aval_of(x).dtype) for x in flat_results]

    def curve(t: Array) -> list[Any]:
        xs = []
        for primal, terms in zip(primals, series):
            if terms is not None:
                position = to_dtype(t, tracing.aval_of(primal).dtype)
                *lower, value = _coefficients(primal, terms)
                for coefficient in reversed(lower):
                    value = add(mul(position, value), coefficient)
                primal = value
            xs.append(primal)
        outputs = primitive.bind(*xs, **params)
        return [x for x, m in zip(outputs if primitive.multiple_results else [outputs], varies) if m]

    def derivatives(function: Callable, count: int) -> Callable:
        if not count:
            return function
        lower_order = derivatives(function, count - 1)

        def run(t: Array) -> list[Any]:
            values, tangents = jvp_flat(lower_order, [t], [constant_like(t, 1)])
            return [*values, *[instantiate(x) for x in tangents[len(tangents) - sum(varies):]]]

        return run

    zero = as_array(np.zeros((), dtypes.default_dtype(float)))
    values = derivatives(curve, order)(zero)
    rows = [values[k * sum(varies):(k + 1) * sum(varies)] for k in range(1, order + 1)]
    positions = iter(range(sum(varies)))
    terms = [[row[i] for row in rows] if m and (i := next(positions)) is not None else None for m in varies]
    return results, terms if primitive.multiple_results else terms[0]


# User-extensible rules: `rule(primals, series, **params)`.

jet_rules: dict[Primitive, Callable] = {}


def fact(n: ArrayLike) -> Array:
    """Compute the factorial with the gamma function.

    Args:
        n: Numbers, not necessarily integers.

    Returns:
        An array of factorials.

    Example:
        >>> round(float(fact(4)), 3)
        24.0
    """
    x: Any = as_array(n)
    x = x if dtypes.is_inexact(x.dtype) else to_dtype(x, dtypes.default_dtype(float))
    return lax.exp(lax.lgamma(lax.add(x, constant_like(x, 1))))


def zero_prop(prim: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """Apply the rule of operations with zero derivatives.

    Args:
        prim: The primitive.
        primals_in: Operands.
        series_in: Series of each operand.
        params: Parameters of the primitive.

    Returns:
        The result and its series.

    Example:
        >>> zero_prop(lax.floor_p, [xnp.array(1.5)], [[xnp.array(1.0)]])[0].item()
        1.0
    """
    return prim.bind(*primals_in, **params), zero_series


def linear_prop(prim: Primitive, primals_in: Sequence[Any], series_in: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """Apply the rule of operations that are linear in all operands.

    Args:
        prim: The primitive.
        primals_in: Operands.
        series_in: Series of each operand.
        params: Parameters of the primitive.

    Returns:
        The result and its series.

    Example:
        >>> value, (slope,) = linear_prop(lax.neg_p, [xnp.array(1.5)], [[xnp.array(2.0)]], )
        >>> slope.item()
        -2.0
    """
    return _linear(prim, list(primals_in), list(series_in), params)


def deriv_prop(prim: Primitive | _BoundPrimitive, deriv: Callable, primals_in: Sequence[Any], series_in: Sequence[Any]
               ) -> tuple[Any, list]:
    """Apply the rule of unary functions whose derivative is a function with a jet.

    Args:
        prim: The primitive.
        deriv: Derivative, a function of the operand.
        primals_in: The operand, in a sequence of one.
        series_in: The series of the operand, in a sequence of one.

    Returns:
        The result and its series.

    Example:
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
    return _derivatives([prim.bind(x), *[_integrate(u, slopes, k) for k in range(1, len(u))]])


def defzero(prim: Primitive) -> None:
    """Define the derivatives of a primitive as zero.

    Args:
        prim: The primitive.

    Example:
        >>> defzero(xf.core.Primitive("nothing"))
    """
    jet_rules[prim] = functools.partial(zero_prop, prim)


def deflinear(prim: Primitive) -> None:
    """Define a primitive as linear in all operands.

    Args:
        prim: The primitive.

    Example:
        >>> deflinear(xf.core.Primitive("double"))
    """
    jet_rules[prim] = functools.partial(linear_prop, prim)


def def_deriv(prim: Primitive, deriv: Callable) -> None:
    """Define the derivative of a unary primitive.

    Args:
        prim: The primitive.
        deriv: Derivative, a function of the operand with a jet.

    Example:
        >>> def_deriv(xf.core.Primitive("my_log"), lambda x: 1 / x)
    """
    jet_rules[prim] = functools.partial(deriv_prop, prim, deriv)


def def_comp(prim: Primitive, comp: Callable, **kwargs: Any) -> None:
    """Define a primitive as a composition of other operations.

    Args:
        prim: The primitive.
        comp: Function of its operands and parameters that computes the composition.
        kwargs: Additional constant keyword arguments of `comp`.

    Example:
        >>> def_comp(xf.core.Primitive("fourth_power"), lambda x: (x * x) * (x * x))
    """
    def rule(primals: Sequence[ArrayLike], series: Sequence[Sequence[ArrayLike]], **params: Any) -> tuple[Any, Any]:
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
        (_bilinear, "mul dot_general conv_general_dilated"), (_divide, "div"), (_general_power, "pow")):
    for _name in _names.split():
        _primitive = PRIMITIVES.get(_name) or getattr(lax, f"{_name}_p")
        _RULES[_primitive] = _rule

_RULES |= {PRIMITIVES[name]: rule for name, rule in {
    "exp": _ode_rule(lambda v, k: v[k]),
    "tanh": _ode_rule(functools.partial(_one_plus, -1)),
    "tan": _ode_rule(functools.partial(_one_plus, 1)),
    "logistic": _ode_rule(lambda v, k: lax.sub(v[k], _product(v, v, k))),
    "sin": _trigonometric_rule("sin", "cos", -1), "cos": _trigonometric_rule("cos", "sin", -1),
    "sinh": _trigonometric_rule("sinh", "cosh", 1), "cosh": _trigonometric_rule("cosh", "sinh", 1),
    "sqrt": _constant_power_rule(1 / 2), "rsqrt": _constant_power_rule(-1 / 2), "cbrt": _constant_power_rule(1 / 3),
    "integer_pow": _coefficient_rule(_integer_power),
    "square": _coefficient_rule(lambda primitive, u: [_product(u, u, k) for k in range(len(u))]),
    "one_minus_square": _coefficient_rule(
        lambda primitive, u: [primitive.bind(u[0]), *[_scale(_product(u, u, k), -1) for k in range(1, len(u))]]),
}.items()}


def _polynomial(x: ArrayLike, constant: float, factor: float) -> Array:
    """Return `constant + factor * x**2`."""
    return lax.add(_scale(lax.mul(x, x), factor), constant_like(x, constant))


def _gaussian(x: ArrayLike, factor: float, sign: int = -1) -> ArrayLike:
    """Return `factor * exp(sign * x**2)`."""
    return _scale(lax.exp(_scale(lax.mul(x, x), sign)), factor)


_DERIVATIVES: dict[str, Callable] = {
    "log": lambda x: lax.div(constant_like(x, 1), x),
    "log2": lambda x: lax.div(constant_like(x, 1), _scale(x, math.log(2))),
    "log1p": lambda x: lax.div(constant_like(x, 1), lax.add(x, constant_like(x, 1))),
    "expm1": lax.exp,
    "exp2": lambda x: _scale(lax.exp2(x), math.log(2)),
    "atan": lambda x: lax.div(constant_like(x, 1), _polynomial(x, 1, 1)),
    "atanh": lambda x: lax.div(constant_like(x, 1), _polynomial(x, 1, -1)),
    "asin": lambda x: lax.rsqrt(_polynomial(x, 1, -1)),
    "acos": lambda x: lax.neg(lax.rsqrt(_polynomial(x, 1, -1))),
    "asinh": lambda x: lax.rsqrt(_polynomial(x, 1, 1)),
    "acosh": lambda x: lax.rsqrt(_polynomial(x, -1, 1)),
    "erf": lambda x: _gaussian(x, 2 / math.sqrt(math.pi)),
    "erfc": lambda x: _gaussian(x, -2 / math.sqrt(math.pi)),
    "erf_inv": lambda x: _gaussian(lax.erf_inv(x), math.sqrt(math.pi) / 2, 1),
    "lgamma": lax.digamma,
}


def _derivative_rule(slope: Callable) -> Callable:
    return lambda primitive, primals, series, params: deriv_prop(_BoundPrimitive(primitive, params), slope, primals, series)


class _BoundPrimitive:
    """A primitive with bound parameters."""

    def __init__(self, primitive: Primitive, params: dict[str, Any]) -> None:
        self.bind = functools.partial(primitive.bind, **params)


_RULES |= {PRIMITIVES[name]: _derivative_rule(slope) for name, slope in _DERIVATIVES.items()}


def _flat_jet(fun: Callable, primals: Sequence[Any], series: Sequence[Any], order: int) -> tuple[Any, Any]:
    """Return the results of a function of arrays and their derivatives; the function returns an array or a list."""
    parent = tracing.thread.trace
    trace = JetTrace(parent, order)
    try:
        with current_trace(trace):
            results = fun(*[trace.wrap(x, terms) for x, terms in zip(primals, series)])
    finally:
        trace.end()
    is_sequence = isinstance(results, (list, tuple))
    pairs = [(x.primal, list(x.terms)) if type(x) is JetTracer and x._trace is trace else (x, [_zeros(x)] * order)
             for x in (results if is_sequence else [results])]
    return ([x for x, _ in pairs], [t for _, t in pairs]) if is_sequence else pairs[0]


def _check_series(i: int, primal: Array, terms: Sequence[Any] | ZeroSeries, order: int) -> list[ArrayLike]:
    if isinstance(terms, ZeroSeries):
        terms = [zero_term] * order
    shape, dtype = np.shape(primal), tracing.aval_of(primal).dtype
    checked = []
    for term in terms:
        if not isinstance(term, ZeroTerm):
            if not tracing.is_arraylike(term) or np.shape(term) != shape:
                raise TypeError(f"jet takes arrays of the shape of primals[{i}], {shape}, in series[{i}], got {term!r}.")
            term = as_array(term)
            term = as_type(term, dtype, tracing.aval_of(term).weak_type)  # Python scalars stay weakly typed
        checked.append(_zeros(primal) if isinstance(term, ZeroTerm) else term)
    return checked


def jet(fun: Callable, primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True,
        **_: Any) -> tuple[Any, Any]:
    """Compute the value of a function along a curve and its higher derivatives with respect to the curve parameter.

    Args:
        fun: Function of arrays, composed of differentiable operations.
        primals: Sequence of arrays, the point of the curve: one for each argument.
        series: For each argument, the sequence of derivatives of the curve (first, second, ...), all of the same length.
        factorial_scaled: If True, the terms are derivatives; if False, they are Taylor coefficients (divided by factorials).
        _: Other keyword arguments are ignored.

    Returns:
        The result of `fun`, and a pytree like it with a list of derivatives in place of each array.

    Example:
        >>> value, derivatives = jet(lambda x: x ** 3, (2.0,), ((1.0, 0.0, 0.0),))
        >>> float(value), [float(d) for d in derivatives]
        (8.0, [12.0, 12.0, 6.0])
    """
    primals, series = tuple(primals), tuple(series)
    if len(primals) != len(series):
        raise ValueError(f"jet takes a series for each of its primals, got {len(primals)} primals and {len(series)} series.")
    for i, x in enumerate(primals):
        if not tracing.is_arraylike(x):
            raise ValueError(f"jet takes arrays as primals, but primals[{i}] is a {type(x).__name__}. Flatten pytrees with "
                             f"xlafront.tree.flatten.")
    lengths = {len(terms) for terms in series if not isinstance(terms, ZeroSeries)}
    if len(lengths) > 1:
        raise ValueError(f"jet takes series of equal lengths, got lengths {[len(terms) for terms in series]}.")
    order = lengths.pop() if lengths else 0
    primals = tuple([as_array(x) for x in primals])
    d = dtypes.default_dtype(float)
    primals = tuple([x if dtypes.is_inexact(x.dtype) else as_type(x, d, x.weak_type) for x in primals])
    terms = [_check_series(i, x, t, order) for i, (x, t) in enumerate(zip(primals, series))]
    if not factorial_scaled:
        terms = [_derivatives([x, *t])[1] for x, t in zip(primals, terms)]
    out_tree = None

    def flat(*xs: ArrayLike) -> list[Any]:
        nonlocal out_tree
        leaves, out_tree = tree.flatten(fun(*xs))
        return leaves

    results, out_terms = _flat_jet(flat, primals, terms, order)
    if not factorial_scaled:
        out_terms = [_coefficients(x, t)[1:] for x, t in zip(results, out_terms)]
    return tree.unflatten(out_tree, results), tree.unflatten(out_tree, out_terms)
