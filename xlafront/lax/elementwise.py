"""Elementwise primitives: arithmetic, comparison, logic, transcendental functions.

Each row of the tables `UNARY` and `BINARY` defines one operation completely. The public functions are in
`elementwise_functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlafront import lowering, tuning
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import add_any_p, convert_element_type_p, to_dtype
from xlafront.core.ir import Literal
from xlafront.core.primitive import Cost, KeyUse, Traits
from xlafront.core.sharding_types import of_all, of_first, of_first_any_kind, of_one
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.accuracy import accuracy_text
from xlafront.lax.arguments import check_dtype
from xlafront.lax.families import broadcast_to, elementwise, joint_shape, linear, unbroadcast
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.monoids import combine
from xlafront.lax.shapes import CHEAP
from xlafront.staging.library import exact
from xlafront.symbolic.dimensions import is_symbolic_dim

if TYPE_CHECKING:
    from types import ModuleType

    from xlafront.base.jaxlib_compat import NamedSharding
    from xlafront.core.typing import Array, ArrayLike, DTypeLike, Params, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def constant_like(x: ArrayLike, value: complex) -> Any:
    """Return a scalar of the type of `x`; a Python scalar if that type is weak."""
    aval = tracing.aval_of(x)
    if aval.weak_type:
        kind = dtypes.scalar_type_of(aval.dtype)
        if dtypes.default_dtype(kind) == aval.dtype:
            return kind(value)
    if dtypes.is_extended(aval.dtype):
        raise TypeError(f"this operation does not accept dtype {aval.dtype}: {aval.dtype.no_numbers}")
    return _strong_constant(x, value)


def _strong_constant(x: ArrayLike, value: complex) -> Any:
    """Return a scalar of the dtype of `x` that is not weakly typed; the results that it takes part in are not either."""
    dtype = tracing.aval_of(x).dtype
    number = dtype.type(value)
    return number if dtype.itemsize <= 4 else exact(number)


def scale(g: Array, x: Array, value: complex) -> Array:
    return mul(g, constant_like(x, value))


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    """Select elements as `numpy.where` does; `select_n` takes the cases in the opposite order."""
    return select(condition, y, x)


def _is_complex(x: ArrayLike) -> bool:
    return tracing.aval_of(x).dtype.kind == "c"


# Linear operations and their transposes


@linear(0, 1)
def _add_transpose(i: int, ct: Array, x: Any, y: Any) -> Array:
    return ct


@linear(0, 1)
def _sub_transpose(i: int, ct: Array, x: Any, y: Any) -> Array:
    return ct if i == 0 else neg(ct)


@linear(0, 1)
def _mul_transpose(i: int, ct: Array, x: Any, y: Any, *, out_dtype: np.dtype | None = None) -> Array:
    other = y if i == 0 else x
    if out_dtype is None:
        return mul(ct, other)
    return to_dtype(mul(ct, to_dtype(other, out_dtype)), (x if i == 0 else y).aval.dtype)


@linear(0)
def _div_transpose(i: int, ct: Array, x: Any, y: Any) -> Array:
    return div(ct, y)


@linear(0)
def _neg_transpose(i: int, ct: Array, x: Any) -> Array:
    return neg(ct)


def _strong_zero(ct: Array) -> np.generic:
    return tracing.aval_of(ct).dtype.type(0)


@linear(0)
def _real_transpose(i: int, ct: Array, x: Any) -> Array:
    return complex_(ct, _strong_zero(ct))


@linear(0)
def _imag_transpose(i: int, ct: Array, x: Any) -> Array:
    return complex_(_strong_zero(ct), neg(ct))


@linear(0)
def _conj_transpose(i: int, ct: Array, x: Any, *, input_dtype: np.dtype | None = None) -> Array:
    return conj_(ct, input_dtype=input_dtype) if x.aval.dtype.kind == "c" else real_(ct)


@linear(0, 1)
def _complex_transpose(i: int, ct: Array, x: Any, y: Any) -> Array:
    return real_(ct) if i == 0 else imag_(neg(ct))


# Derivatives that need more than a line


def _abs_derivative(g: Array, ans: Array, x: Array) -> Array:
    if not _is_complex(x):
        return select(ge(x, constant_like(x, 0)), neg(g), g)
    zero = constant_like(ans, 0)
    size = where(eq(ans, zero), constant_like(ans, 1), ans)
    return div(add(mul(real_(g), real_(x)), mul(imag_(g), imag_(x))), size)


def _sign_derivative(g: Array, ans: Array, x: Array) -> Array | None:
    """Only the direction of a complex number varies: `1j * sign(x) * imag(conj(sign(x)) * g) / abs(x)`."""
    if not _is_complex(x):
        return None
    size = abs_(x)
    size = where(eq(size, constant_like(size, 0)), constant_like(size, 1), size)
    turn = div(sub(mul(real_(ans), imag_(g)), mul(imag_(ans), real_(g))), size)
    return complex_(neg(mul(turn, imag_(ans))), mul(turn, real_(ans)))


def _pow_base(g: Array, ans: Array, x: Array, y: Array) -> Array:
    if tracing.aval_of(y).dtype.kind in "iu":
        one = constant_like(y, 1)
        rest = pow_(x, where(eq(y, constant_like(y, 0)), one, sub(y, one)))
        return mul(g, mul(to_dtype(y, tracing.aval_of(x).dtype), rest))
    x, y = (to_dtype(v, tracing.aval_of(v).dtype) if tracing.aval_of(v).weak_type else v for v in (x, y))  # no weak types
    return mul(g, mul(y, pow_(x, sub(y, constant_like(y, 1)))))  # NaN at 0 ** 0.0, as in JAX


def _pow_exponent(g: Array, ans: Array, x: Array, y: Array) -> Array | None:
    if tracing.aval_of(y).dtype.kind in "iu":
        return None
    base = where(eq(x, constant_like(x, 0)), constant_like(x, 1), x)
    return mul(g, mul(log_(base), ans))


def _split_tangent_at_ties(g: Array, ans: Array, x: Array, other: Array) -> Array:
    """Return the contribution of `g` to the tangent of a maximum or minimum; operands that are equal get half of it each.

    It is not weakly typed, as in JAX.
    """
    zero, half, one = [_strong_constant(ans, share) for share in (0, 0.5, 1)]
    return mul(g, where(eq(x, ans), where(eq(other, ans), half, one), zero))


def _integer_pow_derivative(g: Array, ans: Array, x: Array, *, y: int) -> Array | None:
    if 0 <= y < 2:
        return g if y else None
    return mul(g, mul(constant_like(x, y), x if y == 2 else integer_pow_p.bind(x, y=y - 1)))


def _polygamma_order_derivative(g: Array, ans: Array, m: Array, x: Array) -> NoReturn:
    raise ValueError("polygamma has no derivative in its order m, which takes integer values only. Hold the order constant "
                     "with lax.stop_gradient.")


def _zeta_exponent_derivative(g: Array, ans: Array, x: Array, q: Array) -> Array:
    """Compute the derivative of zeta in its exponent by the Euler-Maclaurin formula.

    The formula is differentiated term by term: ten terms of the sum, the integral of the rest, and corrections with the factors
    `B_2k / (2k)!`, each with the derivative of a rising factorial.
    """
    total = constant_like(x, 0)
    for n in range(10):
        base = add(q, constant_like(q, n))
        total = sub(total, mul(log_(base), pow_(base, neg(x))))
    base = add(q, constant_like(q, 10))
    log, power, exponent = log_(base), pow_(base, neg(x)), sub(x, constant_like(x, 1))
    total = sub(total, mul(mul(base, power), div(add(log, integer_pow_p.bind(exponent, y=-1)), exponent)))
    total = sub(total, mul(constant_like(x, 0.5), mul(log, power)))
    rising, slope = x, constant_like(x, 1)
    for k, bernoulli in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), 1):
        power = div(power, base if k == 1 else mul(base, base))
        total = add(total, mul(constant_like(x, bernoulli / math.factorial(2 * k)), mul(power, sub(slope, mul(log, rising)))))
        for shift in (2 * k - 1, 2 * k):
            factor = add(x, constant_like(x, shift))
            rising, slope = mul(rising, factor), add(mul(slope, factor), rising)
    return mul(g, total)


def _rem_second(g: Array, ans: Array, x: Array, y: Array) -> Array:
    quotient = div(x, y)
    truncated = where(ge(quotient, constant_like(quotient, 0)), floor_(quotient), ceil_(quotient))
    return mul(neg(g), truncated)


def _atan2_scale(x: Array, y: Array) -> Array:
    return add(square_(x), square_(y))


# The tables

NUMBERS = "int float complex"
_INEXACT = "float complex"
_to_bool = lambda *_, **__: dtypes.bool_  # noqa: E731
_to_real = lambda d, **_: dtypes.to_real(d)  # noqa: E731


def _accuracy(mlir: ModuleType, *_: Any, accuracy: Any = None) -> dict[str, Any]:
    return {} if accuracy is None else {"result_accuracy": mlir.attribute(accuracy_text(accuracy))}


# name, operation, accepted dtypes, derivative (g: tangent, y: result, x: operand)
UNARY = (
    ("neg", "stablehlo.negate", NUMBERS, lambda g, y, x: neg(g)),
    ("exp", "stablehlo.exponential", _INEXACT, lambda g, y, x, **_: mul(g, y)),
    ("exp2", None, _INEXACT, lambda g, y, x, **_: mul(g, scale(y, x, np.log(2)))),
    ("expm1", "stablehlo.exponential_minus_one", _INEXACT, lambda g, y, x, **_: mul(g, exp_(x))),  # `y + 1` would cancel
    ("log", "stablehlo.log", _INEXACT, lambda g, y, x, **_: div(g, x)),
    ("log2", None, _INEXACT, lambda g, y, x, **_: div(g, scale(x, x, np.log(2)))),
    ("log1p", "stablehlo.log_plus_one", _INEXACT, lambda g, y, x, **_: div(g, add(x, constant_like(x, 1)))),
    ("sin", "stablehlo.sine", _INEXACT, lambda g, y, x, **_: mul(g, cos_(x))),
    ("cos", "stablehlo.cosine", _INEXACT, lambda g, y, x, **_: neg(mul(g, sin_(x)))),
    ("tan", "stablehlo.tan", _INEXACT, lambda g, y, x, **_: mul(g, add(square_(y), constant_like(x, 1)))),
    ("tanh", "stablehlo.tanh", _INEXACT, lambda g, y, x, **_: mul(g, one_minus_square_(y))),
    ("logistic", "stablehlo.logistic", _INEXACT,
     lambda g, y, x, **_: mul(g, mul(y, sub(constant_like(x, 1), y)))),
    ("sqrt", "stablehlo.sqrt", _INEXACT, lambda g, y, x, **_: div(scale(g, x, 0.5), y)),
    ("rsqrt", "stablehlo.rsqrt", _INEXACT, lambda g, y, x, **_: mul(g, scale(div(y, x), x, -0.5))),
    ("cbrt", "stablehlo.cbrt", "float", lambda g, y, x, **_: mul(g, scale(integer_pow_p.bind(y, y=-2), x, 1 / 3))),
    ("square", None, NUMBERS, lambda g, y, x: mul(g, scale(x, x, 2))),
    ("one_minus_square", None, NUMBERS, lambda g, y, x: mul(g, scale(x, x, -2))),
    ("abs", "stablehlo.abs", "signed float complex", _abs_derivative),
    ("sign", "stablehlo.sign", NUMBERS, _sign_derivative),
    ("floor", "stablehlo.floor", "float", None),
    ("ceil", "stablehlo.ceil", "float", None),
    ("is_finite", "stablehlo.is_finite", "float", None),
    ("asin", "chlo.asin", _INEXACT, lambda g, y, x: mul(g, rsqrt_(one_minus_square_(x)))),
    ("acos", "chlo.acos", _INEXACT, lambda g, y, x: mul(g, neg(rsqrt_(one_minus_square_(x))))),
    ("atan", "chlo.atan", _INEXACT, lambda g, y, x: div(g, add(constant_like(x, 1), square_(x)))),
    ("sinh", "chlo.sinh", _INEXACT, lambda g, y, x: mul(g, cosh_(x))),
    ("cosh", "chlo.cosh", _INEXACT, lambda g, y, x: mul(g, sinh_(x))),
    ("asinh", "chlo.asinh", _INEXACT, lambda g, y, x: mul(g, rsqrt_(add(square_(x), constant_like(x, 1))))),
    ("acosh", "chlo.acosh", _INEXACT,
     lambda g, y, x: mul(g, mul(rsqrt_(sub(x, constant_like(x, 1))), rsqrt_(add(x, constant_like(x, 1)))))),
    ("atanh", "chlo.atanh", _INEXACT, lambda g, y, x: div(g, one_minus_square_(x))),
    ("erf", "chlo.erf", "float",
     lambda g, y, x: mul(g, mul(exp_(neg(square_(x))), _strong_constant(x, 2 / np.sqrt(np.pi))))),
    ("erfc", None, "float",
     lambda g, y, x, **_: mul(g, mul(exp_(neg(square_(x))), _strong_constant(x, -2 / np.sqrt(np.pi))))),
    ("erf_inv", "chlo.erf_inv", "float", lambda g, y, x: mul(g, scale(exp_(square_(y)), x, np.sqrt(np.pi) / 2))),
    ("lgamma", None, "float", lambda g, y, x: mul(g, digamma_(x))),
    ("digamma", "chlo.digamma", "float",
     lambda g, y, x: mul(g, polygamma_(constant_like(x, 1), x))),
    ("population_count", "stablehlo.popcnt", "int", None),
    ("clz", "stablehlo.count_leading_zeros", "int", None),
    ("not", "stablehlo.not", "int bool", None),
)


def _lower_add(ctx: RuleContext, x: ir.Value, y: ir.Value, **_: Any) -> ir.Value:
    """Lower a sum; of booleans it is `or`, as XLA folds `stablehlo.add` of two constant booleans to their difference."""
    return ctx.op("stablehlo.or" if ctx.aval_out.dtype == dtypes.bool_ else "stablehlo.add", [x, y])


# name, operation, accepted dtypes, derivative in the first operand, derivative in the second operand, transpose rule
BINARY = (
    ("add", _lower_add, NUMBERS + " bool", lambda g, z, x, y: g, lambda g, z, x, y: g, _add_transpose),
    ("sub", "stablehlo.subtract", NUMBERS, lambda g, z, x, y: g, lambda g, z, x, y: neg(g), _sub_transpose),
    ("mul", "stablehlo.multiply", NUMBERS + " bool", lambda g, z, x, y, **params: mul(g, y, **params),
     lambda g, z, x, y, **params: mul(x, g, **params), _mul_transpose),
    ("div", "stablehlo.divide", NUMBERS, lambda g, z, x, y: div(g, y),  # (if y is broadcast, XLA computes y ** -2 first)
     lambda g, z, x, y: mul(mul(neg(g), x), integer_pow_p.bind(y, y=-2)), _div_transpose),
    ("rem", "stablehlo.remainder", "int float", lambda g, z, x, y: g, _rem_second, None),
    ("max", "stablehlo.maximum", NUMBERS + " bool", lambda g, z, x, y: _split_tangent_at_ties(g, z, x, y),
     lambda g, z, x, y: _split_tangent_at_ties(g, z, y, x), None),
    ("min", "stablehlo.minimum", NUMBERS + " bool", lambda g, z, x, y: _split_tangent_at_ties(g, z, x, y),
     lambda g, z, x, y: _split_tangent_at_ties(g, z, y, x), None),
    ("atan2", "stablehlo.atan2", "float complex", lambda g, z, x, y: mul(g, div(y, _atan2_scale(x, y))),
     lambda g, z, x, y: mul(g, div(neg(x), _atan2_scale(x, y))), None),
    ("nextafter", "chlo.next_after", "float", lambda g, z, x, y: g, None, None),
    ("polygamma", "chlo.polygamma", "float", _polygamma_order_derivative,
     lambda g, z, m, x: mul(g, polygamma_(add(m, constant_like(m, 1)), x)), None),
    ("zeta", "chlo.zeta", "float", _zeta_exponent_derivative,
     lambda g, z, x, q: mul(g, mul(neg(x), zeta_(add(x, constant_like(x, 1)), q))), None),
    ("and", "stablehlo.and", "int bool", None, None, None),
    ("or", "stablehlo.or", "int bool", None, None, None),
    ("xor", "stablehlo.xor", "int bool", None, None, None),
    ("shift_left", "stablehlo.shift_left", "int", None, None, None),
    ("shift_right_arithmetic", "stablehlo.shift_right_arithmetic", "int", None, None, None),
    ("shift_right_logical", "stablehlo.shift_right_logical", "int", None, None, None),
)
COMPARISONS = (("eq", "EQ", NUMBERS + " bool key"), ("ne", "NE", NUMBERS + " bool key"),
               ("ge", "GE", "int float bool"),
               ("gt", "GT", "int float bool"), ("le", "LE", "int float bool"), ("lt", "LT", "int float bool"))
# The operands in which the operations are linear
_SUMS = {"neg": of_first, "add": of_all(), "sub": of_all(), "mul": of_one(0, 1), "div": of_one(0)}
_RESULTS = {"abs": _to_real, "is_finite": _to_bool,
            "mul": lambda d, _, out_dtype=None: d if out_dtype is None else np.dtype(out_dtype)}
WITH_ACCURACY = ("exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "tanh", "logistic", "sqrt", "rsqrt",
                 "cbrt", "erfc")


def _exp2_lower(ctx: RuleContext, x: ir.Value, accuracy: Any = None) -> ir.Value:
    aval = ctx.aval_out
    return ctx.op("stablehlo.exponential", [ctx.op("stablehlo.multiply", [
        x, ctx.constant(np.asarray(np.log(2), aval.dtype), aval.shape)])], **_accuracy(lowering.mlir, accuracy=accuracy))


def _log2_lower(ctx: RuleContext, x: ir.Value, accuracy: Any = None) -> ir.Value:
    shape, dtype = ctx.aval_out.shape, dtypes.to_real(ctx.aval_out.dtype)
    factor = ctx.constant(np.asarray(1 / np.log(2), dtype), shape)
    log = ctx.op("stablehlo.log", [x], **_accuracy(lowering.mlir, accuracy=accuracy))
    if not dtypes.is_complex(ctx.aval_out.dtype):
        return ctx.op("stablehlo.multiply", [log, factor])
    components = [ctx.op(f"stablehlo.{part}", [log], [(shape, dtype)]) for part in ("real", "imag")]
    # a complex product would turn infinities into NaN
    return ctx.op("stablehlo.complex", [ctx.op("stablehlo.multiply", [x, factor], [(shape, dtype)]) for x in components])


def _one_minus_square_lower(ctx: RuleContext, x: ir.Value) -> ir.Value:
    """Lower to `(1 + x) * (1 - x)`, which is accurate where `x` is close to 1."""
    one = ctx.constant(np.asarray(1, ctx.aval_out.dtype), ctx.aval_out.shape)
    return ctx.op("stablehlo.multiply", [ctx.op("stablehlo.add", [one, x]), ctx.op("stablehlo.subtract", [one, x])])


def _square_lower(ctx: RuleContext, x: ir.Value) -> ir.Value:
    if dtypes.is_complex(ctx.aval_out.dtype):  # Its real part is (a - b) (a + b), which is accurate where a a - b b overflows.
        return ctx.op("chlo.square", [x])
    return ctx.op("stablehlo.multiply", [x, x])


def _sign_lower(ctx: RuleContext, x: ir.Value) -> ir.Value:
    aval = ctx.aval_out
    if not dtypes.is_unsigned(aval.dtype):
        return ctx.op("stablehlo.sign", [x])
    return ctx.op("stablehlo.minimum", [x, ctx.constant(np.asarray(1).astype(aval.dtype), aval.shape)])


def _mul_lower(ctx: RuleContext, x: ir.Value, y: ir.Value, out_dtype: np.dtype | None = None) -> ir.Value:
    if out_dtype is not None:
        x, y = (ctx.convert(v, ctx.aval_out.shape, ctx.aval_out.dtype) for v in (x, y))
    return ctx.op("stablehlo.multiply", [x, y])


def _depends_on_constants_only(*values: ir.Value) -> bool:
    """Return True if `values` are computed from constants of the module alone, by at most 16 operations."""
    pending = list(values)
    for _ in range(16):
        if not pending:
            return True
        operation = getattr(pending.pop().owner, "operation", None)  # None for parameters, which belong to blocks
        if operation is None or len(operation.regions):
            return False
        pending += operation.operands
    return False


def _quotient_lower(operation: str) -> Callable:
    # Code that inverts jaxprs binds div with the parameters of mul.
    def lower(ctx: RuleContext, x: ir.Value, y: ir.Value, **_: Any) -> ir.Value:
        # MLIR folds quotients of constants; an integer division by zero while folding would crash the process.
        if not dtypes.is_inexact(ctx.aval_out.dtype) and not ctx.literal_value(1) and _depends_on_constants_only(y, x):
            y = ctx.op("stablehlo.optimization_barrier", [y])
        return ctx.op(operation, [x, y])

    return lower


def _extreme_lower(operation: str) -> Callable:
    return lambda ctx, x, y, **_: combine(ctx, operation, x, y, ctx.aval_out.shape, ctx.aval_out.dtype)


def _lgamma_lower(ctx: RuleContext, x: ir.Value) -> ir.Value:
    """Lower `lgamma`, with 64 bits on CPUs, where XLA's formula loses all digits near its zeros."""
    shape, dtype = ctx.aval_out.shape, ctx.aval_out.dtype
    if ctx.platform != "cpu" or dtype != np.float32:
        return ctx.op("chlo.lgamma", [x])
    wide = (shape, np.dtype(np.float64))
    return ctx.convert(ctx.op("chlo.lgamma", [ctx.convert(x, *wide)], [wide]), shape, dtype)


def _erfc_lower(ctx: RuleContext, x: ir.Value, accuracy: Any = None) -> ir.Value:
    """Lower to `chlo.erfc`, which has one implementation for all accuracies."""
    _accuracy(lowering.mlir, accuracy=accuracy)  # raises for what is no accuracy
    aval = ctx.aval_out
    if aval.dtype.itemsize > 1:
        return ctx.op("chlo.erfc", [x])
    wide = (aval.shape, np.dtype(np.float32))
    return ctx.convert(ctx.op("chlo.erfc", [ctx.convert(x, *wide)], [wide]), aval.shape, aval.dtype)


_LOWERINGS = {"erfc": _erfc_lower, "exp2": _exp2_lower, "lgamma": _lgamma_lower, "log2": _log2_lower,
              "square": _square_lower, "sign": _sign_lower, "one_minus_square": _one_minus_square_lower, "mul": _mul_lower,
              "max": _extreme_lower("stablehlo.maximum"), "min": _extreme_lower("stablehlo.minimum"),
              "div": _quotient_lower("stablehlo.divide"), "rem": _quotient_lower("stablehlo.remainder")}


def _comparison_kind(d: np.dtype) -> str:
    if dtypes.is_inexact(d):
        return "FLOAT"
    return "UNSIGNED" if d == dtypes.bool_ or dtypes.is_unsigned(d) else "SIGNED"


def _compare_attributes(direction: str) -> Callable:
    def attributes(mlir: ModuleType, x: ShapedArray, *_: ShapedArray) -> dict[str, Any]:
        return {"comparison_direction": mlir.attribute(f"#stablehlo<comparison_direction {direction}>"),
                "compare_type": mlir.attribute(f"#stablehlo<comparison_type {_comparison_kind(x.dtype)}>")}

    return attributes


def _key_comparison_lowering(name: str, lower_numbers: Callable) -> Callable:
    """Return the lowering of a comparison that also compares random keys: they are equal if all their words are."""
    def lower(ctx: RuleContext, x: ir.Value, y: ir.Value) -> ir.Value:
        d = ctx.avals_in[0].dtype
        if isinstance(d, np.dtype):
            return lower_numbers(ctx, x, y)
        shape = (*ctx.aval_out.shape, *d.physical_element_shape)
        words = ctx.compare("NE", "UNSIGNED", x, y, shape)
        scalar = ((), dtypes.bool_)
        any_differ = ctx.with_region(
            "stablehlo.reduce", [words, ctx.constant(np.bool_(False))], [scalar, scalar],
            lambda inner, a, b: [inner.op("stablehlo.or", [a, b], [scalar])], types=[ctx.aval_out],
            dimensions=lowering.mlir.i64s(range(len(ctx.aval_out.shape), len(shape))))[0]
        return any_differ if name == "ne" else ctx.op("stablehlo.not", [any_differ])

    return lower




def _complex_lowering(components: Callable, lower_real: Callable) -> Callable:
    """Return a lowering of sine or cosine that computes real and imaginary components of complex numbers itself.

    XLA's complex sine and cosine lose small numbers, and return NaN for products of zero and infinity.
    """
    def lower(ctx: RuleContext, z: ir.Value, **params: Any) -> ir.Value:
        if not dtypes.is_complex(ctx.aval_out.dtype):
            return lower_real(ctx, z, **params)
        shape, real = ctx.aval_out.shape, (ctx.aval_out.shape, dtypes.to_real(ctx.aval_out.dtype))
        zero = ctx.constant(np.zeros((), real[1]), shape)

        def op(name: str, *operands: ir.Value) -> ir.Value:
            return ctx.op(name, operands, [real])

        a, b = op("stablehlo.real", z), op("stablehlo.imag", z)
        sin_cos, sinh_cosh = [[op(f"{dialect}.{name}", x) for name in names]
                      for dialect, names, x in (("stablehlo", ("sine", "cosine"), a), ("chlo", ("sinh", "cosh"), b))]
        on_axis = ctx.compare("EQ", "FLOAT", a, zero, shape)
        return ctx.op("stablehlo.complex", components(ctx, op, a, b, on_axis, *sin_cos, *sinh_cosh))

    return lower


def _sine_components(ctx: RuleContext, op: Callable, a: ir.Value, b: ir.Value, on_axis: ir.Value, sin: ir.Value, cos: ir.Value,
                     sinh: ir.Value, cosh: ir.Value) -> tuple[ir.Value, ir.Value]:
    return op("stablehlo.select", on_axis, a, op("stablehlo.multiply", sin, cosh)), op("stablehlo.multiply", cos, sinh)


def _cosine_components(ctx: RuleContext, op: Callable, a: ir.Value, b: ir.Value, on_axis: ir.Value, sin: ir.Value,
                       cos: ir.Value, sinh: ir.Value, cosh: ir.Value) -> tuple[ir.Value, ir.Value]:
    negated = op("stablehlo.negate", a)
    is_number = ctx.compare("EQ", "FLOAT", b, b, ctx.aval_out.shape)
    on_axis_imag = op("stablehlo.select", is_number, op("stablehlo.multiply", negated, op("stablehlo.sign", b)), negated)
    imag = op("stablehlo.multiply", op("stablehlo.negate", sin), sinh)
    return op("stablehlo.multiply", cos, cosh), op("stablehlo.select", on_axis, on_axis_imag, imag)


_WRAPPED = {"sin": lambda rule: _complex_lowering(_sine_components, tuning.vectorized("sin", rule)),
            "cos": lambda rule: _complex_lowering(_cosine_components, tuning.vectorized("cos", rule)),
            **{name: partial(tuning.vectorized, name) for name in ("rem", "atan2", "asin", "acos")},
            "log1p": partial(tuning.wide_rule, tuning.log1p), "erf_inv": partial(tuning.wide_rule, tuning.erf_inv)}
# Operations that cost less than storing their result.
_CHEAP = frozenset("""abs add and ceil div eq exp expm1 floor ge gt is_finite le logistic lt max min mul ne neg not
    one_minus_square or rsqrt sign sqrt square sub tanh xor""".split())


def _traits(name: str) -> Traits:
    return CHEAP if name in _CHEAP else Traits()


PRIMITIVES = {}
for _name, _operation, _accepts, _derivative in UNARY:
    PRIMITIVES[_name] = elementwise(
        _name, _LOWERINGS.get(_name, _operation), _accepts, result=_RESULTS.get(_name),
        derivatives=(_derivative,), transpose=_neg_transpose if _name == "neg" else None, sums=_SUMS.get(_name),
        attributes=_accuracy if _name in WITH_ACCURACY and _name not in _LOWERINGS else None,
        defaults={"accuracy": None} if _name in WITH_ACCURACY else None, wrap_lowering=_WRAPPED.get(_name),
        traits=_traits(_name))
for _name, _operation, _accepts, _first, _second, _transpose in BINARY:
    PRIMITIVES[_name] = elementwise(
        _name, _LOWERINGS.get(_name, _operation), _accepts, result=_RESULTS.get(_name),
        derivatives=(_first, _second), transpose=_transpose, sums=_SUMS.get(_name),
        defaults={"out_dtype": None} if _name == "mul" else None, jointly=_name == "sub", wrap_lowering=_WRAPPED.get(_name),
        traits=_traits(_name))
for _name, _direction, _accepts in COMPARISONS:
    _equality = _name in ("eq", "ne")
    PRIMITIVES[_name] = elementwise(
        _name, "stablehlo.compare", _accepts, derivatives=(None, None), result=_to_bool,
        attributes=_compare_attributes(_direction),
        wrap_lowering=partial(_key_comparison_lowering, _name) if _equality else None,
        traits=_traits(_name)._replace(key_use=KeyUse.READS) if _equality else _traits(_name))

# Primitives that differ from their family in one respect

PRIMITIVES["add_any"] = add_any_p
PRIMITIVES["real"] = elementwise("real", "stablehlo.real", "complex", result=_to_real,
                                 derivatives=(lambda g, y, x: real_(g),), transpose=_real_transpose, sums=of_first)
PRIMITIVES["imag"] = elementwise("imag", "stablehlo.imag", "complex", result=_to_real,
                                 derivatives=(lambda g, y, x: imag_(g),), transpose=_imag_transpose, sums=of_first)
PRIMITIVES["complex"] = elementwise(
    "complex", "stablehlo.complex", "float32", result=lambda d, _: dtypes.to_complex(d),
    derivatives=(lambda g, z, x, y: complex_(g, constant_like(g, 0)), lambda g, z, x, y: complex_(constant_like(g, 0), g)),
    transpose=_complex_transpose, jointly=True)


def _conj_lower(ctx: RuleContext, x: ir.Value, input_dtype: np.dtype | None = None) -> ir.Value:
    real, shape = dtypes.to_real(ctx.aval_out.dtype), ctx.aval_out.shape
    if ctx.avals_in[0].dtype.kind != "c":
        return ctx.op("stablehlo.complex", [x, ctx.constant(np.zeros((), real), shape)])
    imag = ctx.op("stablehlo.negate", [ctx.op("stablehlo.imag", [x], [(shape, real)])], [(shape, real)])
    return ctx.op("stablehlo.complex", [ctx.op("stablehlo.real", [x], [(shape, real)]), imag])


PRIMITIVES["conj"] = elementwise(
    "conj", _conj_lower, "float32 complex", result=lambda d, **_: dtypes.to_complex(d),
    derivatives=(lambda g, y, x, input_dtype=None: conj_(g, input_dtype=input_dtype),), transpose=_conj_transpose,
    sums=of_first)


def _integer_pow_lower(ctx: RuleContext, x: ir.Value, *, y: int) -> ir.Value:
    """Compute powers by repeated squaring; a negative power is the reciprocal of the positive one."""
    aval = ctx.aval_out
    one = np.ones((), aval.dtype)
    if y == 0:
        return ctx.constant(one, aval.shape)
    result: Any = None
    square, n = x, abs(y)
    while n:
        if n & 1:
            result = square if result is None else ctx.op("stablehlo.multiply", [result, square])
        n >>= 1
        if n:
            square = ctx.op("stablehlo.multiply", [square, square])
    return result if y > 0 else ctx.op("stablehlo.divide", [ctx.constant(one, aval.shape), result])


PRIMITIVES["integer_pow"] = integer_pow_p = elementwise(
    "integer_pow", _integer_pow_lower, NUMBERS, derivatives=(_integer_pow_derivative,), traits=CHEAP)


def _pow_lower(ctx: RuleContext, x: ir.Value, y: ir.Value) -> ir.Value:
    base, exponent = ctx.avals_in
    if exponent.dtype != base.dtype:
        y = ctx.convert(y, ctx.aval_out.shape, base.dtype)
    return ctx.op("stablehlo.power", [x, y])


def _pow_abstract(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    check_dtype("pow", _INEXACT, x.dtype)
    check_dtype("pow (the exponent)", NUMBERS, y.dtype)
    if dtypes.is_inexact(y.dtype) and x.dtype != y.dtype:
        raise errors.incompatible_dtypes("pow", [x.dtype, y.dtype], "The exponent must have the dtype of the base or an "
                                                                    "integer dtype. Convert with x.astype(...).")
    return ShapedArray(joint_shape("pow", (x, y)), x.dtype, x.weak_type and y.weak_type, vma=x.vma | y.vma)


PRIMITIVES["pow"] = elementwise("pow", _pow_lower, NUMBERS, derivatives=(_pow_base, _pow_exponent), abstract=_pow_abstract)
PRIMITIVES["round"] = elementwise(
    "round", lambda ctx, x, *, rounding_method: ctx.op(
        "stablehlo.round_nearest_even" if rounding_method == 1 else "stablehlo.round_nearest_afz", [x]),
    "float", derivatives=(None,), traits=CHEAP)
PRIMITIVES["reduce_precision"] = elementwise(
    "reduce_precision", "stablehlo.reduce_precision", "float",
    derivatives=(lambda g, y, x, **params: reduce_precision_(g, **params),),
    attributes=lambda mlir, _, *, exponent_bits, mantissa_bits: {
        "exponent_bits": mlir.i32(exponent_bits), "mantissa_bits": mlir.i32(mantissa_bits)},
    transpose=linear(0)(lambda i, ct, x, **params: reduce_precision_(ct, **params)), sums=of_first, traits=CHEAP)


# log(exp(x) + exp(y)), composed of other operations


def _log_add(x: Array, y: Array) -> Array:
    if tracing.aval_of(x).dtype.kind == "c":  # order the terms by real part
        first = ge(real_(x), real_(y))
        big, small = where(first, x, y), where(first, y, x)
        gap = sub(small, big)
        total = add(big, log1p_(exp_(where(eq(small, big), constant_like(x, 0), gap))))
        angle = imag_(total)  # reduced to (-pi, pi], the range of a logarithm
        turns = ceil_(mul(sub(angle, constant_like(angle, np.pi)), constant_like(angle, 0.5 / np.pi)))
        return complex_(real_(total), sub(angle, mul(turns, constant_like(angle, 2 * np.pi))))
    gap = sub(x, y)
    undefined = ne(gap, gap)  # true for NaN and for two equal infinities
    return where(undefined, add(x, y), add(max_(x, y), log1p_(exp_(neg(abs_(gap))))))


def _log_add_derivative(g: Array, z: Array, x: Array) -> Array:
    """Return the contribution of the tangent `g` of `x`: `g` times its share `exp(x - z)` of the sum, or 1 if both are
    infinite."""
    if tracing.aval_of(x).dtype.kind == "c":
        return mul(g, exp_(sub(x, z)))
    top = constant_like(x, np.inf)
    x, z = (where(eq(v, top), constant_like(v, 0), v) for v in (x, z))
    return mul(g, exp_(sub(x, z)))


def _lower_log_add(ctx: RuleContext, x: ir.Value, y: ir.Value) -> ir.Value:
    full = [aval.update(shape=ctx.aval_out.shape) for aval in ctx.avals_in]  # scalars arrive broadcast
    return lower_fun(_log_add)(ctx.replace(avals_in=full), x, y)


log_add_p = elementwise(
    "logaddexp", _lower_log_add, "float complex", derivatives=(
    lambda g, z, x, y: _log_add_derivative(g, z, x), lambda g, z, x, y: _log_add_derivative(g, z, y)), decompose=_log_add)


# select_n: the condition is a scalar or has the shape of the cases


def _select_abstract(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    first = cases[0]
    check_dtype("select_n (as its condition)", "bool int", which.dtype)
    if which.dtype == dtypes.bool_ and len(cases) > 2:
        raise TypeError(f"select_n with a boolean condition takes one or two cases, got {len(cases)}.")
    shapes = {c.shape for c in cases if c.shape}
    if len(shapes) > 1 or (which.shape and (shapes or {which.shape}) != {which.shape}):
        raise errors.incompatible_shapes("select_n", [("condition", which.shape), *[("case", c.shape) for c in cases]])
    if any(c.dtype != first.dtype for c in cases):
        raise errors.incompatible_dtypes("select_n", [c.dtype for c in cases], "All cases must have one dtype.")
    shape = next(iter(shapes), which.shape)
    return ShapedArray(shape, first.dtype, all(c.weak_type for c in cases))


def _select_lower(ctx: RuleContext, which: ir.Value, *cases: ir.Value) -> ir.Value:
    aval = ctx.avals_in[0]
    if len(cases) == 1:
        return cases[0]
    shape = ctx.aval_out.shape
    words = () if isinstance(ctx.aval_out.dtype, np.dtype) else ctx.aval_out.dtype.physical_element_shape
    if words:  # random keys: select all words of an element together
        which = ctx.broadcast(which, (*shape, *words), aval.dtype, range(len(shape)))
        shape = (*shape, *words)
    if aval.dtype == dtypes.bool_:
        return ctx.op("stablehlo.select", [which, cases[1], cases[0]])

    def pick(low: int, high: int) -> ir.Value:
        if high - low == 1:
            return cases[low]
        middle = (low + high) // 2
        limit = ctx.constant(np.asarray(middle, aval.dtype), shape)
        below = ctx.compare("LT", _comparison_kind(aval.dtype), which, limit, shape)
        return ctx.constrain_to_type(ctx.op("stablehlo.select", [below, pick(low, middle), pick(middle, high)]), ctx.aval_out)

    return pick(0, len(cases))


def _zero_of(aval: ShapedArray) -> Any:
    """Return a scalar zero with the dtype and weak type of an aval."""
    return 0.0 if aval.weak_type and aval.dtype == dtypes.default_dtype(float) else np.zeros((), aval.dtype)


def _select_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    which, *cases = primals
    answer = select(*primals)
    if all(type(t) is Zero for t in tangents[1:]):
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    instantiated = [_zero_of(t.aval) if type(t) is Zero else t for t in tangents[1:]]
    tangent = select(which, *instantiated)
    return answer, broadcast_to(tangent, np.shape(answer))


def _select_transpose(ct: Tangent, which: Any, *cases: Any) -> list[Any]:
    if type(ct) is Zero:
        return [None, *[Zero(c.aval) if is_undefined(c) else None for c in cases]]
    zero = constant_like(ct, 0)
    return [None, *[unbroadcast(select(which, *[ct if j == i else zero for j in range(len(cases))]), c.aval)
                    if is_undefined(c) else None for i, c in enumerate(cases)]]


def _select_broadcast(which: Array, *cases: Array) -> Array | None:
    """With all cases of the result's shape, as the public function takes them."""
    shape = _select_abstract(*[tracing.aval_of(x) for x in (which, *cases)]).shape
    if all(np.shape(x) == shape for x in cases):
        return None
    return select(which, *[broadcast_to(x, shape) for x in cases])


PRIMITIVES["select_n"] = elementwise(
    "select_n", _select_lower, "any", transpose=_select_transpose, mixed=True, sums=of_all(0), abstract=_select_abstract,
    jvp=_select_jvp, decompose=_select_broadcast, traits=CHEAP)


def _clamp_abstract(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    dtype = x.dtype
    if low.dtype != dtype or high.dtype != dtype:
        raise errors.incompatible_dtypes("clamp", [low.dtype, dtype, high.dtype], "The bounds must have the same dtype as the "
                                                                                  "array: convert them with x.astype(...).")
    check_dtype("clamp", NUMBERS + " bool", dtype)
    if low.shape not in ((), x.shape) or high.shape not in ((), x.shape):
        raise errors.incompatible_shapes("clamp", [("min", low.shape), ("operand", x.shape), ("max", high.shape)],
                                         "The bounds must be scalars or have the shape of the operand.")
    return ShapedArray(x.shape, dtype, low.weak_type and x.weak_type and high.weak_type, vma=low.vma | x.vma | high.vma)


def _clamp_lower(ctx: RuleContext, low: ir.Value, x: ir.Value, high: ir.Value) -> ir.Value:
    return ctx.op("stablehlo.clamp", [low, x, high])


def _mask_like(g: Array, mask: Array) -> Array:
    """Convert a boolean mask to the dtype and weak type of `g`."""
    aval = tracing.aval_of(g)
    return convert_element_type_p.bind(mask, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None)


PRIMITIVES["clamp"] = elementwise(
    "clamp", _clamp_lower, "int float complex bool",
    derivatives=(lambda g, z, lo, x, hi: mul(g, _mask_like(g, gt(lo, x))),
                 lambda g, z, lo, x, hi: where(and_(gt(x, lo), lt(x, hi)), g, constant_like(x, 0)),
                 lambda g, z, lo, x, hi: mul(g, _mask_like(g, lt(hi, x)))), abstract=_clamp_abstract, traits=CHEAP)

# Conversions


def _convert_lower(ctx: RuleContext, x: ir.Value, *, new_dtype: np.dtype, weak_type: bool, sharding: NamedSharding | None
                   ) -> ir.Value:
    old, new = ctx.avals_in[0].dtype, ctx.aval_out
    if dtypes.is_extended(old) or dtypes.is_extended(new.dtype):
        old_physical, new_physical = [d.physical_dtype if dtypes.is_extended(d) else d for d in (old, new.dtype)]
        return x if old_physical == new_physical else ctx.op("stablehlo.convert", [x])
    if new.dtype == dtypes.bool_ and old != dtypes.bool_:
        # All values except zero are true; stablehlo.convert would test the lowest bit.
        zero = ctx.constant(np.zeros((), old), new.shape)
        return ctx.compare("NE", _comparison_kind(old), x, zero, new.shape)
    if old.kind == "c" and new.dtype.kind != "c":
        real = dtypes.to_real(old)
        x = ctx.op("stablehlo.real", [x], [(new.shape, real)])
        if real == new.dtype:
            return x
    return ctx.op("stablehlo.convert", [x])


def _convert_abstract(x: ShapedArray, *, new_dtype: np.dtype, weak_type: bool, sharding: NamedSharding | None) -> ShapedArray:
    if not dtypes.convertible(x.dtype, new_dtype):
        keys = any([dtypes.issubdtype(d, dtypes.prng_key) for d in (x.dtype, new_dtype)])
        raise ValueError(f"cannot convert_element_type from {x.dtype} to {new_dtype}: " + (
            "random keys are not numbers. Get their words with random.key_data(keys), or make keys of words with "
            "random.wrap_key_data(words)." if keys else "the rules of the extended dtype do not allow this conversion."))
    return ShapedArray(x.shape, new_dtype, weak_type, vma=x.vma)


def _convert_derivative(g: Array, y: Array, x: Array, *, new_dtype: np.dtype, weak_type: bool, sharding: NamedSharding | None
                        ) -> Array | None:
    new_dtype = dtypes.tangent_dtype(new_dtype)
    if new_dtype == dtypes.float0 or dtypes.tangent_dtype(tracing.aval_of(x).dtype) == dtypes.float0:
        return None
    return convert_element_type_p.bind(g, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding)


@linear(0)
def _convert_transpose(i: int, ct: Array, x: Any, *, new_dtype: np.dtype, weak_type: bool, sharding: NamedSharding | None
                       ) -> Array:
    if tracing.aval_of(ct).dtype.kind == "c" and x.aval.dtype.kind != "c":
        ct = real_(ct)
    return convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type, sharding=sharding)


def _fold_conversion(literal: Literal, params: Params) -> Literal | None:
    """Convert a literal while tracing; return None if the result depends on the device or the integer conversion is inexact."""
    value, target = np.asarray(literal.val), params["new_dtype"]
    if not isinstance(target, np.dtype) or target == dtypes.float0 or not (
            value.dtype.kind in "biu" or dtypes.is_inexact(value.dtype)) or (value.dtype.kind == "c" and target.kind != "c"):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        converted = value.astype(target)
    if dtypes.is_integer(target) and converted != value:
        return None
    aval = convert_element_type_p.result_types((literal.aval,), params)
    folded = converted.item() if aval.weak_type else converted[()]  # the value must have the type of the literal
    return Literal(folded, aval) if tracing.aval_of(folded).weak_type == aval.weak_type and (
        tracing.aval_of(folded).dtype == aval.dtype) else None


PRIMITIVES["convert_element_type"] = elementwise(
    convert_element_type_p, _convert_lower, "any", derivatives=(_convert_derivative,), transpose=_convert_transpose,
    shown_as="astype", sums=of_first, abstract=_convert_abstract, fold_literal=_fold_conversion, traits=CHEAP)
PRIMITIVES["copy"] = copy_p = elementwise(
    "copy", lambda ctx, x: x, "any", derivatives=(lambda g, y, x: g,), transpose=linear(0)(lambda i, ct, x: ct),
    sums=of_first_any_kind, traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.FORWARDS))

PUBLIC = {f"{_name}_p": _primitive for _name, _primitive in PRIMITIVES.items()}


# The operations as functions, for rules and for internal functions


def _operations(names: str) -> list[Any]:
    return [PRIMITIVES[name].bind for name in names.split()]


add, sub, mul, div, rem_, neg, abs_, sign_ = _operations("add sub mul div rem neg abs sign")
eq, ne, lt, le, gt, ge = _operations("eq ne lt le gt ge")
select, max_, min_, clamp_ = _operations("select_n max min clamp")
and_, or_, not_, xor_ = _operations("and or not xor")
shift_left_, shift_right_logical_ = _operations("shift_left shift_right_logical")
[shift_right_arithmetic_] = _operations("shift_right_arithmetic")
clz_, population_count_, nextafter_, reduce_precision_ = _operations("clz population_count nextafter reduce_precision")
floor_, ceil_, round_, is_finite_ = _operations("floor ceil round is_finite")
real_, imag_, conj_, complex_ = _operations("real imag conj complex")
exp_, log_, log2_, log1p_, pow_ = _operations("exp log log2 log1p pow")
sqrt_, rsqrt_, square_, one_minus_square_ = _operations("sqrt rsqrt square one_minus_square")
sin_, cos_, tan_, sinh_, cosh_, tanh_, atan2_, logistic_ = _operations("sin cos tan sinh cosh tanh atan2 logistic")
erf_, erfc_, erf_inv_, digamma_, polygamma_, zeta_ = _operations("erf erfc erf_inv digamma polygamma zeta")


# Operands


def as_array(x: Any) -> Any:
    """Convert Python scalars and NumPy arrays to arrays; return anything else unchanged."""
    return copy_p.bind(x) if type(x) in dtypes.python_scalar_dtypes or isinstance(x, (np.ndarray, np.generic)) else x


def as_type(x: ArrayLike, dtype: np.dtype, weak: bool) -> Any:
    """Convert `x` to a dtype that promotion determined: Python scalars immediately, arrays by an operation if necessary."""
    kind = type(x)
    if kind in dtypes.python_scalar_dtypes:
        if weak:
            scalar_type = dtypes.scalar_type_of(dtype)
            x = x if kind is scalar_type else scalar_type(x)
            if dtypes.default_dtype(scalar_type) == dtype:
                return x
            return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=True, sharding=None)
        if kind is int and dtype.kind in "iu":
            dtypes.check_int_fits(x, dtype) if dtype.kind == "i" else None
            return np.asarray(x).astype(dtype)[()]
        if isinstance(dtype, np.dtype):
            return dtype.type(x)
    aval = tracing.aval_of(x)
    if aval.dtype == dtype and (aval.weak_type == weak or not aval.weak_type):
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak, sharding=None)


def size_scalar(n: Any, dtype: DTypeLike) -> Any:
    """Return the size of a dimension as a scalar of a dtype; a symbolic size becomes an array."""
    if is_symbolic_dim(n):
        return convert_element_type_p.bind(n, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)
    return np.dtype(dtype).type(n)
