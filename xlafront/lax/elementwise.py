"""Elementwise primitives: arithmetic, comparison, logic, transcendental functions.

`UNARY` and `BINARY` are the tables; a row is the whole definition of an operation. `elementwise_functions` has the public
functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import is_symbolic_dim
from xlafront.core.ir import Literal
from xlafront.core.sharding_types import of_all, of_first, of_one
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import wide_loops
from xlafront.lax.accuracy import accuracy_text
from xlafront.lax.arguments import check_dtype
from xlafront.lax.combining import combine
from xlafront.lax.families import add_any_p, elementwise, joint_shape, linear, spread, summed_back
from xlafront.lax.lower_fun import lower_fun
from xlafront.staging.library import exact


def constant_like(x, value):
    """A scalar of the type of `x`: a Python number beside a weak type."""
    aval = tracing.aval_of(x)
    if aval.weak_type:
        kind = dtypes.scalar_type_of(aval.dtype)
        if dtypes.default_dtype(kind) == aval.dtype:
            return kind(value)
    if dtypes.is_extended(aval.dtype):
        raise TypeError(f"this operation does not accept dtype {aval.dtype}: {aval.dtype.no_numbers}")
    number = aval.dtype.type(value)
    return number if aval.dtype.itemsize <= 4 else exact(number)


def scale(g, x, value):
    return mul(g, constant_like(x, value))


def where(condition, x, y):
    """`select_n` in the order of `numpy.where`."""
    return select(condition, y, x)


def to_dtype(x, dtype):
    return convert_element_type_p.bind(x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)


def _is_complex(x) -> bool:
    return tracing.aval_of(x).dtype.kind == "c"


# Linear operations and their transposes


@linear(0, 1)
def _add_transpose(i, ct, x, y):
    return ct


@linear(0, 1)
def _sub_transpose(i, ct, x, y):
    return ct if i == 0 else neg(ct)


@linear(0, 1)
def _mul_transpose(i, ct, x, y, *, out_dtype=None):
    other = y if i == 0 else x
    if out_dtype is None:
        return mul(ct, other)
    return to_dtype(mul(ct, to_dtype(other, out_dtype)), (x if i == 0 else y).aval.dtype)


@linear(0)
def _div_transpose(i, ct, x, y):
    return div(ct, y)


@linear(0)
def _neg_transpose(i, ct, x):
    return neg(ct)


def _strong_zero(ct):
    return tracing.aval_of(ct).dtype.type(0)


@linear(0)
def _real_transpose(i, ct, x):
    return complex_(ct, _strong_zero(ct))


@linear(0)
def _imag_transpose(i, ct, x):
    return complex_(_strong_zero(ct), neg(ct))


@linear(0)
def _conj_transpose(i, ct, x, *, input_dtype=None):
    return conj_(ct, input_dtype=input_dtype) if x.aval.dtype.kind == "c" else real_(ct)


@linear(0, 1)
def _complex_transpose(i, ct, x, y):
    return real_(ct) if i == 0 else imag_(neg(ct))


# Derivatives that need more than a line


def _abs_derivative(g, ans, x):
    if not _is_complex(x):
        return select(ge(x, constant_like(x, 0)), neg(g), g)
    zero = constant_like(ans, 0)
    size = where(eq(ans, zero), constant_like(ans, 1), ans)
    return div(add(mul(real_(g), real_(x)), mul(imag_(g), imag_(x))), size)


def _pow_base(g, ans, x, y):
    if tracing.aval_of(y).dtype.kind in "iu":
        one = constant_like(y, 1)
        rest = pow_(x, where(eq(y, constant_like(y, 0)), one, sub(y, one)))
        return mul(g, mul(to_dtype(y, tracing.aval_of(x).dtype), rest))
    x, y = (to_dtype(v, tracing.aval_of(v).dtype) if tracing.aval_of(v).weak_type else v for v in (x, y))  # no weak factor
    return mul(g, mul(y, pow_(x, sub(y, constant_like(y, 1)))))  # NaN at 0 ** 0.0, as in the reference


def _pow_exponent(g, ans, x, y):
    if tracing.aval_of(y).dtype.kind in "iu":
        return None
    base = where(eq(x, constant_like(x, 0)), constant_like(x, 1), x)
    return mul(g, mul(log_(base), ans))


def _share_of_tie(g, ans, x, other):
    """Maxima and minima share the tangent when both operands attain them."""
    zero, half, one = constant_like(ans, 0), constant_like(ans, 0.5), constant_like(ans, 1)
    return mul(g, where(eq(x, ans), where(eq(other, ans), half, one), zero))


def _integer_pow_derivative(g, ans, x, *, y):
    if 0 <= y < 2:
        return g if y else None
    return mul(g, mul(constant_like(x, y), x if y == 2 else integer_pow_p.bind(x, y=y - 1)))


def _polygamma_in_order(g, ans, m, x):
    raise ValueError("polygamma has no derivative in its order m: orders are whole numbers. Hold the order constant with "
                     "lax.stop_gradient.")


def _zeta_in_order(g, ans, x, q):
    """The derivative of Euler and Maclaurin's formula: ten terms of the sum, its integral from there, and corrections by
    `B_2k / (2k)!`, each with the derivative of a rising factorial."""
    total = constant_like(x, 0)
    for n in range(10):
        base = add(q, constant_like(q, n))
        total = sub(total, mul(log_(base), pow_(base, neg(x))))
    base = add(q, constant_like(q, 10))
    log, power, less = log_(base), pow_(base, neg(x)), sub(x, constant_like(x, 1))
    total = sub(total, mul(mul(base, power), div(add(log, integer_pow_p.bind(less, y=-1)), less)))
    total = sub(total, mul(constant_like(x, 0.5), mul(log, power)))
    rising, slope = x, constant_like(x, 1)
    for k, number in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), 1):
        power = div(power, base if k == 1 else mul(base, base))
        total = add(total, mul(constant_like(x, number / math.factorial(2 * k)), mul(power, sub(slope, mul(log, rising)))))
        for shift in (2 * k - 1, 2 * k):
            factor = add(x, constant_like(x, shift))
            rising, slope = mul(rising, factor), add(mul(slope, factor), rising)
    return mul(g, total)


def _rem_second(g, ans, x, y):
    quotient = div(x, y)
    whole = where(ge(quotient, constant_like(quotient, 0)), floor_(quotient),
                  ceil_(quotient))
    return mul(neg(g), whole)


def _atan2_scale(x, y):
    return add(square_(x), square_(y))


# The tables

NUMBERS = "int float complex"
_INEXACT = "float complex"
_to_bool = lambda *_, **__: dtypes.bool_  # noqa: E731
_to_real = lambda d, **_: dtypes.to_real(d)  # noqa: E731


def _accuracy(mlir, *_, accuracy=None):
    return {} if accuracy is None else {"result_accuracy": mlir.attribute(accuracy_text(accuracy))}


# name, operation, dtypes, derivative (g: tangent, y: result, x: operand)
UNARY = (
    ("neg", "stablehlo.negate", NUMBERS, lambda g, y, x: neg(g)),
    ("exp", "stablehlo.exponential", _INEXACT, lambda g, y, x, **_: mul(g, y)),
    ("exp2", None, _INEXACT, lambda g, y, x, **_: mul(g, scale(y, x, np.log(2)))),
    ("expm1", "stablehlo.exponential_minus_one", _INEXACT,
     lambda g, y, x, **_: mul(g, add(y, constant_like(x, 1)))),
    ("log", "stablehlo.log", _INEXACT, lambda g, y, x, **_: div(g, x)),
    ("log1p", "stablehlo.log_plus_one", _INEXACT, lambda g, y, x, **_: div(g, add(x, constant_like(x, 1)))),
    ("sin", "stablehlo.sine", _INEXACT, lambda g, y, x, **_: mul(g, cos_(x))),
    ("cos", "stablehlo.cosine", _INEXACT, lambda g, y, x, **_: neg(mul(g, sin_(x)))),
    ("tan", "stablehlo.tan", _INEXACT, lambda g, y, x, **_: mul(g, add(square_(y), constant_like(x, 1)))),
    ("tanh", "stablehlo.tanh", _INEXACT,
     lambda g, y, x, **_: mul(g, mul(add(constant_like(x, 1), y), sub(constant_like(x, 1), y)))),
    ("logistic", "stablehlo.logistic", _INEXACT,
     lambda g, y, x, **_: mul(g, mul(y, sub(constant_like(x, 1), y)))),
    ("sqrt", "stablehlo.sqrt", _INEXACT, lambda g, y, x, **_: div(scale(g, x, 0.5), y)),
    ("rsqrt", "stablehlo.rsqrt", _INEXACT, lambda g, y, x, **_: mul(g, scale(div(y, x), x, -0.5))),
    ("cbrt", "stablehlo.cbrt", "float", lambda g, y, x, **_: mul(g, scale(integer_pow_p.bind(y, y=-2), x, 1 / 3))),
    ("square", None, NUMBERS, lambda g, y, x: mul(g, scale(x, x, 2))),
    ("abs", "stablehlo.abs", "signed float complex", _abs_derivative),
    ("sign", "stablehlo.sign", NUMBERS, None),
    ("floor", "stablehlo.floor", "float", None),
    ("ceil", "stablehlo.ceil", "float", None),
    ("is_finite", "stablehlo.is_finite", "float", None),
    ("asin", "chlo.asin", _INEXACT,
     lambda g, y, x: mul(g, rsqrt_(sub(constant_like(x, 1), square_(x))))),
    ("acos", "chlo.acos", _INEXACT,
     lambda g, y, x: neg(mul(g, rsqrt_(sub(constant_like(x, 1), square_(x)))))),
    ("atan", "chlo.atan", _INEXACT, lambda g, y, x: div(g, add(constant_like(x, 1), square_(x)))),
    ("sinh", "chlo.sinh", _INEXACT, lambda g, y, x: mul(g, cosh_(x))),
    ("cosh", "chlo.cosh", _INEXACT, lambda g, y, x: mul(g, sinh_(x))),
    ("asinh", "chlo.asinh", _INEXACT, lambda g, y, x: mul(g, rsqrt_(add(square_(x), constant_like(x, 1))))),
    ("acosh", "chlo.acosh", _INEXACT,
     lambda g, y, x: mul(g, mul(rsqrt_(sub(x, constant_like(x, 1))), rsqrt_(add(x, constant_like(x, 1)))))),
    ("atanh", "chlo.atanh", _INEXACT,
     lambda g, y, x: div(g, mul(sub(constant_like(x, 1), x), add(constant_like(x, 1), x)))),
    ("erf", "chlo.erf", "float",
     lambda g, y, x: mul(g, scale(exp_(neg(square_(x))), x, 2 / np.sqrt(np.pi)))),
    ("erfc", None, "float",
     lambda g, y, x: mul(g, scale(exp_(neg(square_(x))), x, -2 / np.sqrt(np.pi)))),
    ("erf_inv", "chlo.erf_inv", "float", lambda g, y, x: mul(g, scale(exp_(square_(y)), x, np.sqrt(np.pi) / 2))),
    ("lgamma", "chlo.lgamma", "float", lambda g, y, x: mul(g, digamma_(x))),
    ("digamma", "chlo.digamma", "float",
     lambda g, y, x: mul(g, polygamma_(constant_like(x, 1), x))),
    ("population_count", "stablehlo.popcnt", "int", None),
    ("clz", "stablehlo.count_leading_zeros", "int", None),
    ("not", "stablehlo.not", "int bool", None),
)



# name, operation, dtypes, derivative in the first operand, in the second, transpose
BINARY = (
    ("add", "stablehlo.add", NUMBERS + " bool", lambda g, z, x, y: g, lambda g, z, x, y: g, _add_transpose),
    ("sub", "stablehlo.subtract", NUMBERS, lambda g, z, x, y: g, lambda g, z, x, y: neg(g), _sub_transpose),
    ("mul", "stablehlo.multiply", NUMBERS + " bool", lambda g, z, x, y, **params: mul(g, y, **params),
     lambda g, z, x, y, **params: mul(x, g, **params), _mul_transpose),
    ("div", "stablehlo.divide", NUMBERS, lambda g, z, x, y: div(g, y),  # (where y is spread, XLA computes y ** -2 before)
     lambda g, z, x, y: mul(mul(neg(g), x), integer_pow_p.bind(y, y=-2)), _div_transpose),
    ("rem", "stablehlo.remainder", "int float", lambda g, z, x, y: g, _rem_second, None),
    ("max", "stablehlo.maximum", NUMBERS + " bool", lambda g, z, x, y: _share_of_tie(g, z, x, y),
     lambda g, z, x, y: _share_of_tie(g, z, y, x), None),
    ("min", "stablehlo.minimum", NUMBERS + " bool", lambda g, z, x, y: _share_of_tie(g, z, x, y),
     lambda g, z, x, y: _share_of_tie(g, z, y, x), None),
    ("atan2", "stablehlo.atan2", "float complex", lambda g, z, x, y: mul(g, div(y, _atan2_scale(x, y))),
     lambda g, z, x, y: mul(g, div(neg(x), _atan2_scale(x, y))), None),
    ("nextafter", "chlo.next_after", "float", None, None, None),
    ("polygamma", "chlo.polygamma", "float", _polygamma_in_order,
     lambda g, z, m, x: mul(g, polygamma_(add(m, constant_like(m, 1)), x)), None),
    ("zeta", "chlo.zeta", "float", _zeta_in_order,
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
# In which operands they are linear.
_SUMS = {"neg": of_first, "add": of_all(), "sub": of_all(), "mul": of_one(0, 1), "div": of_one(0)}
_RESULTS = {"abs": _to_real, "is_finite": _to_bool,
            "mul": lambda d, _, out_dtype=None: d if out_dtype is None else np.dtype(out_dtype)}
WITH_ACCURACY = ("exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "logistic", "sqrt", "rsqrt",
                  "cbrt")


def _exp2_lower(ctx, x, accuracy=None):
    aval = ctx.aval_out
    return ctx.op("stablehlo.exponential", [ctx.op("stablehlo.multiply", [
        x, ctx.constant(np.asarray(np.log(2), aval.dtype), aval.shape)])], **_accuracy(lowering.mlir, accuracy=accuracy))


def _square_lower(ctx, x):
    if dtypes.is_complex(ctx.aval_out.dtype):  # whose real part is (a - b) (a + b), exact and finite where a a - b b is not
        return ctx.op("chlo.square", [x])
    return ctx.op("stablehlo.multiply", [x, x])


def _sign_lower(ctx, x):
    aval = ctx.aval_out
    if not dtypes.is_unsigned(aval.dtype):
        return ctx.op("stablehlo.sign", [x])
    return ctx.op("stablehlo.minimum", [x, ctx.constant(np.asarray(1).astype(aval.dtype), aval.shape)])


def _mul_lower(ctx, x, y, out_dtype=None):
    if out_dtype is not None:
        x, y = (ctx.convert(v, ctx.aval_out.shape, ctx.aval_out.dtype) for v in (x, y))
    return ctx.op("stablehlo.multiply", [x, y])


def _of_constants(*values) -> bool:
    """Whether they are computed from nothing but constants of the module, by few operations."""
    open_ends = list(values)
    for _ in range(16):
        if not open_ends:
            return True
        operation = getattr(open_ends.pop().owner, "operation", None)  # (a parameter belongs to a block)
        if operation is None or len(operation.regions):
            return False
        open_ends += operation.operands
    return False


def _quotient_lower(operation):
    def lower(ctx, x, y, **_):  # programs that turn others around give these the parameters of products
        # MLIR folds a quotient of constants, and the processor stops the process where it divides an integer by zero.
        if not dtypes.is_inexact(ctx.aval_out.dtype) and not ctx.number(1) and _of_constants(y, x):
            y = ctx.op("stablehlo.optimization_barrier", [y])
        return ctx.op(operation, [x, y])

    return lower


def _extreme_lower(operation):
    return lambda ctx, x, y, **_: combine(ctx, operation, x, y, ctx.aval_out.shape, ctx.aval_out.dtype)


def _erfc_lower(ctx, x):
    aval = ctx.aval_out
    if aval.dtype.itemsize > 1:
        return ctx.op("chlo.erfc", [x])
    wide = (aval.shape, np.dtype(np.float32))
    return ctx.convert(ctx.op("chlo.erfc", [ctx.convert(x, *wide)], [wide]), aval.shape, aval.dtype)


_LOWERINGS = {"erfc": _erfc_lower, "exp2": _exp2_lower, "square": _square_lower, "sign": _sign_lower, "mul": _mul_lower,
              "max": _extreme_lower("stablehlo.maximum"), "min": _extreme_lower("stablehlo.minimum"),
              "div": _quotient_lower("stablehlo.divide"), "rem": _quotient_lower("stablehlo.remainder")}


def _comparison_kind(d) -> str:
    if dtypes.is_inexact(d):
        return "FLOAT"
    return "UNSIGNED" if d == dtypes.bool_ or dtypes.is_unsigned(d) else "SIGNED"


def _compare_attributes(direction):
    def attributes(mlir, x, *_):
        return {"comparison_direction": mlir.attribute(f"#stablehlo<comparison_direction {direction}>"),
                "compare_type": mlir.attribute(f"#stablehlo<comparison_type {_comparison_kind(x.dtype)}>")}

    return attributes


PRIMITIVES = {}
for _name, _operation, _accepts, _derivative in UNARY:
    PRIMITIVES[_name] = elementwise(
        _name, _LOWERINGS.get(_name, _operation), _accepts, result=_RESULTS.get(_name),
        derivatives=(_derivative,), transpose=_neg_transpose if _name == "neg" else None, sums=_SUMS.get(_name),
        attributes=_accuracy if _name in WITH_ACCURACY and _name not in _LOWERINGS else None,
        defaults={"accuracy": None} if _name in WITH_ACCURACY else None)
for _name, _operation, _accepts, _first, _second, _transpose in BINARY:
    PRIMITIVES[_name] = elementwise(_name, _LOWERINGS.get(_name, _operation), _accepts, derivatives=(_first, _second),
                                    result=_RESULTS.get(_name), transpose=_transpose, sums=_SUMS.get(_name),
                                    defaults={"out_dtype": None} if _name == "mul" else None, jointly=_name == "sub")
for _name, _direction, _accepts in COMPARISONS:
    PRIMITIVES[_name] = elementwise(_name, "stablehlo.compare", _accepts, derivatives=(None, None), result=_to_bool,
                                    attributes=_compare_attributes(_direction))


def _compare_keys(name, on_numbers):
    """Random keys are equal when all their words are."""
    def lower(ctx, x, y):
        d = ctx.avals_in[0].dtype
        if isinstance(d, np.dtype):
            return on_numbers(ctx, x, y)
        shape = (*ctx.aval_out.shape, *d.physical_element_shape)
        words = ctx.compare("NE", "UNSIGNED", x, y, shape)
        scalar = ((), dtypes.bool_)
        differ = ctx.with_region(
            "stablehlo.reduce", [words, ctx.constant(np.bool_(False))], [scalar, scalar],
            lambda inner, a, b: [inner.op("stablehlo.or", [a, b], [scalar])], types=[ctx.aval_out],
            dimensions=lowering.mlir.i64s(range(len(ctx.aval_out.shape), len(shape))))[0]
        return differ if name == "ne" else ctx.op("stablehlo.not", [differ])

    return lower


for _name in ("eq", "ne"):
    PRIMITIVES[_name].lowerings[None] = _compare_keys(_name, PRIMITIVES[_name].lowerings[None])
    PRIMITIVES[_name].key_use = "reads"

def _of_complex(parts, on_reals):
    """Sine and cosine of complex numbers by their parts: XLA's own lose small numbers, and make NaN of 0 times infinity."""
    def lower(ctx, z, **params):
        if not dtypes.is_complex(ctx.aval_out.dtype):
            return on_reals(ctx, z, **params)
        shape, real = ctx.aval_out.shape, (ctx.aval_out.shape, dtypes.to_real(ctx.aval_out.dtype))
        zero = ctx.constant(np.zeros((), real[1]), shape)

        def op(name, *operands):
            return ctx.op(name, operands, [real])

        a, b = op("stablehlo.real", z), op("stablehlo.imag", z)
        of_a, of_b = [[op(f"{dialect}.{name}", x) for name in names]
                      for dialect, names, x in (("stablehlo", ("sine", "cosine"), a), ("chlo", ("sinh", "cosh"), b))]
        on_axis = ctx.compare("EQ", "FLOAT", a, zero, shape)
        return ctx.op("stablehlo.complex", parts(ctx, op, a, b, on_axis, *of_a, *of_b))

    return lower


def _sine_parts(ctx, op, a, b, on_axis, sin, cos, sinh, cosh):
    return op("stablehlo.select", on_axis, a, op("stablehlo.multiply", sin, cosh)), op("stablehlo.multiply", cos, sinh)


def _cosine_parts(ctx, op, a, b, on_axis, sin, cos, sinh, cosh):
    minus = op("stablehlo.negate", a)
    is_number = ctx.compare("EQ", "FLOAT", b, b, ctx.aval_out.shape)
    small = op("stablehlo.select", is_number, op("stablehlo.multiply", minus, op("stablehlo.sign", b)), minus)
    across = op("stablehlo.multiply", op("stablehlo.negate", sin), sinh)
    return op("stablehlo.multiply", cos, cosh), op("stablehlo.select", on_axis, small, across)


for _name, _parts in (("sin", _sine_parts), ("cos", _cosine_parts)):
    PRIMITIVES[_name].lowerings[None] = _of_complex(_parts, PRIMITIVES[_name].lowerings[None])
for _name in ("log1p", "erf_inv"):
    PRIMITIVES[_name].lowerings[None] = wide_loops.of_drawn(getattr(wide_loops, _name), PRIMITIVES[_name].lowerings[None])

# Rows that differ from their family in one respect

PRIMITIVES["add_any"] = add_any_p
PRIMITIVES["nextafter"].jvp = None  # a step of rounding, which no derivative describes
PRIMITIVES["real"] = elementwise("real", "stablehlo.real", "complex", result=_to_real,
                                 derivatives=(lambda g, y, x: real_(g),), transpose=_real_transpose, sums=of_first)
PRIMITIVES["imag"] = elementwise("imag", "stablehlo.imag", "complex", result=_to_real,
                                 derivatives=(lambda g, y, x: imag_(g),), transpose=_imag_transpose, sums=of_first)
PRIMITIVES["complex"] = elementwise(
    "complex", "stablehlo.complex", "float32", result=lambda d, _: dtypes.to_complex(d),
    derivatives=(lambda g, z, x, y: complex_(g, constant_like(g, 0)), lambda g, z, x, y: complex_(constant_like(g, 0), g)),
    transpose=_complex_transpose, jointly=True)


def _conj_lower(ctx, x, input_dtype=None):
    real, imag = dtypes.to_real(ctx.aval_out.dtype), ctx.aval_out.shape
    if ctx.avals_in[0].dtype.kind != "c":
        return ctx.op("stablehlo.complex", [x, ctx.constant(np.zeros((), real), imag)])
    part = ctx.op("stablehlo.negate", [ctx.op("stablehlo.imag", [x], [(imag, real)])], [(imag, real)])
    return ctx.op("stablehlo.complex", [ctx.op("stablehlo.real", [x], [(imag, real)]), part])


PRIMITIVES["conj"] = elementwise(
    "conj", _conj_lower, "float32 complex", result=lambda d, **_: dtypes.to_complex(d),
    derivatives=(lambda g, y, x, input_dtype=None: conj_(g, input_dtype=input_dtype),), transpose=_conj_transpose,
    sums=of_first)


def _integer_pow_lower(ctx, x, *, y):
    """Repeated squaring; a negative power is the reciprocal of the positive one."""
    aval = ctx.aval_out
    one = np.ones((), aval.dtype)
    if y == 0:
        return ctx.constant(one, aval.shape)
    result, square, n = None, x, abs(y)
    while n:
        if n & 1:
            result = square if result is None else ctx.op("stablehlo.multiply", [result, square])
        n >>= 1
        if n:
            square = ctx.op("stablehlo.multiply", [square, square])
    return result if y > 0 else ctx.op("stablehlo.divide", [ctx.constant(one, aval.shape), result])


PRIMITIVES["integer_pow"] = integer_pow_p = elementwise(
    "integer_pow", _integer_pow_lower, NUMBERS, derivatives=(_integer_pow_derivative,))


def _pow_lower(ctx, x, y):
    base, exponent = ctx.avals_in
    if exponent.dtype != base.dtype:
        y = ctx.convert(y, ctx.aval_out.shape, base.dtype)
    return ctx.op("stablehlo.power", [x, y])


def _pow_abstract(x, y):
    check_dtype("pow", _INEXACT, x.dtype)
    check_dtype("pow (the exponent)", NUMBERS, y.dtype)
    if dtypes.is_inexact(y.dtype) and x.dtype != y.dtype:
        raise errors.incompatible_dtypes("pow", [x.dtype, y.dtype], "The exponent must have the same dtype as the base, or be "
                                                                    "of integers. Convert with x.astype(...).")
    return ShapedArray(joint_shape("pow", (x, y)), x.dtype, x.weak_type and y.weak_type, vma=x.vma | y.vma)


PRIMITIVES["pow"] = elementwise("pow", _pow_lower, NUMBERS, derivatives=(_pow_base, _pow_exponent))
PRIMITIVES["pow"].abstract = _pow_abstract
PRIMITIVES["round"] = elementwise(
    "round", lambda ctx, x, *, rounding_method: ctx.op(
        "stablehlo.round_nearest_even" if rounding_method == 1 else "stablehlo.round_nearest_afz", [x]),
    "float", derivatives=(None,))
PRIMITIVES["reduce_precision"] = elementwise(
    "reduce_precision", "stablehlo.reduce_precision", "float",
    derivatives=(lambda g, y, x, **params: reduce_precision_(g, **params),),
    attributes=lambda mlir, _, *, exponent_bits, mantissa_bits: {
        "exponent_bits": mlir.i32(exponent_bits), "mantissa_bits": mlir.i32(mantissa_bits)},
    transpose=linear(0)(lambda i, ct, x, **params: reduce_precision_(ct, **params)))


# log(exp(x) + exp(y)), written as a function of the others


def _log_add(x, y):
    if tracing.aval_of(x).dtype.kind == "c":  # the term with the larger real part in front
        first = ge(real_(x), real_(y))
        big, small = where(first, x, y), where(first, y, x)
        gap = sub(small, big)
        total = add(big, log1p_(exp_(where(eq(small, big), constant_like(x, 0), gap))))
        angle = imag_(total)  # brought into (-pi, pi], where a logarithm has it
        turns = ceil_(mul(sub(angle, constant_like(angle, np.pi)), constant_like(angle, 0.5 / np.pi)))
        return complex_(real_(total), sub(angle, mul(turns, constant_like(angle, 2 * np.pi))))
    gap = sub(x, y)
    undefined = ne(gap, gap)  # of NaN, and of two equal infinities
    return where(undefined, add(x, y), add(max_(x, y), log1p_(exp_(neg(abs_(gap))))))


def _log_add_share(g, z, x):
    """The derivative in an operand is its share of the sum, `exp(x - z)`; of two infinite operands, 1."""
    if tracing.aval_of(x).dtype.kind == "c":
        return mul(g, exp_(sub(x, z)))
    top = constant_like(x, np.inf)
    x, z = (where(eq(v, top), constant_like(v, 0), v) for v in (x, z))
    return mul(g, exp_(sub(x, z)))


def _lower_log_add(ctx, x, y):
    full = [aval.update(shape=ctx.aval_out.shape) for aval in ctx.avals_in]  # scalars come spread
    return lower_fun(_log_add)(ctx.replace(avals_in=full), x, y)


log_add_p = elementwise("logaddexp", _lower_log_add, "float complex", derivatives=(
    lambda g, z, x, y: _log_add_share(g, z, x), lambda g, z, x, y: _log_add_share(g, z, y)))
log_add_p.for_extensions = _log_add


# select_n: the condition may be a scalar or of the cases' shape


def _select_abstract(which, *cases):
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


def _select_lower(ctx, which, *cases):
    aval = ctx.avals_in[0]
    if len(cases) == 1:
        return cases[0]
    shape = ctx.aval_out.shape
    words = () if isinstance(ctx.aval_out.dtype, np.dtype) else ctx.aval_out.dtype.physical_element_shape
    if words:  # random keys: all the words of an element are chosen together
        which = ctx.broadcast(which, (*shape, *words), aval.dtype, range(len(shape)))
        shape = (*shape, *words)
    if aval.dtype == dtypes.bool_:
        return ctx.op("stablehlo.select", [which, cases[1], cases[0]])

    def pick(low, high):
        if high - low == 1:
            return cases[low]
        middle = (low + high) // 2
        limit = ctx.constant(np.asarray(middle, aval.dtype), shape)
        below = ctx.compare("LT", _comparison_kind(aval.dtype), which, limit, shape)
        return ctx.typed(ctx.op("stablehlo.select", [below, pick(low, middle), pick(middle, high)]), ctx.aval_out)

    return pick(0, len(cases))


def _zero_of(aval):
    """A scalar zero, as weakly typed as the type."""
    return 0.0 if aval.weak_type and aval.dtype == dtypes.default_dtype(float) else np.zeros((), aval.dtype)


def _select_jvp(primals, tangents):
    which, *cases = primals
    answer = select(*primals)
    if all(type(t) is Zero for t in tangents[1:]):
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    filled = [_zero_of(t.aval) if type(t) is Zero else t for t in tangents[1:]]
    tangent = select(which, *filled)
    return answer, spread(tangent, np.shape(answer))


def _select_transpose(ct, which, *cases):
    if type(ct) is Zero:
        return [None, *[Zero(c.aval) if is_undefined(c) else None for c in cases]]
    zero = constant_like(ct, 0)
    return [None, *[summed_back(select(which, *[ct if j == i else zero for j in range(len(cases))]), c.aval)
                    if is_undefined(c) else None for i, c in enumerate(cases)]]


def _select_spread(which, *cases):
    """With all cases of the result's shape, as the public function takes them."""
    shape = _select_abstract(*[tracing.aval_of(x) for x in (which, *cases)]).shape
    if all(np.shape(x) == shape for x in cases):
        return None
    return select(which, *[spread(x, shape) for x in cases])


def _make_select():
    base = elementwise("select_n", _select_lower, "any", derivatives=(), transpose=_select_transpose, mixed=True,
                       sums=of_all(0))
    base.abstract, base.jvp, base.for_extensions = _select_abstract, _select_jvp, _select_spread
    return base


PRIMITIVES["select_n"] = _make_select()


def _clamp_abstract(low, x, high):
    dtype = x.dtype
    if low.dtype != dtype or high.dtype != dtype:
        raise errors.incompatible_dtypes("clamp", [low.dtype, dtype, high.dtype], "The bounds must have the same dtype as the "
                                                                                  "array: convert them with x.astype(...).")
    check_dtype("clamp", NUMBERS + " bool", dtype)
    if low.shape not in ((), x.shape) or high.shape not in ((), x.shape):
        raise errors.incompatible_shapes("clamp", [("min", low.shape), ("operand", x.shape), ("max", high.shape)],
                                         "The bounds must be scalars or have the shape of the operand.")
    return ShapedArray(x.shape, dtype, low.weak_type and x.weak_type and high.weak_type, vma=low.vma | x.vma | high.vma)


def _clamp_lower(ctx, low, x, high):
    return ctx.op("stablehlo.clamp", [low, x, high])


def _mask_of(g, mask):
    """Ones and zeros of the type of `g`, weakly typed as it is."""
    aval = tracing.aval_of(g)
    return convert_element_type_p.bind(mask, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None)


PRIMITIVES["clamp"] = elementwise(
    "clamp", _clamp_lower, "int float complex bool",
    derivatives=(lambda g, z, lo, x, hi: mul(g, _mask_of(g, gt(lo, x))),
                 lambda g, z, lo, x, hi: where(and_(gt(x, lo), lt(x, hi)), g, constant_like(x, 0)),
                 lambda g, z, lo, x, hi: mul(g, _mask_of(g, lt(hi, x)))))


PRIMITIVES["clamp"].abstract = _clamp_abstract

# Conversions


def _convert_lower(ctx, x, *, new_dtype, weak_type, sharding):
    old, new = ctx.avals_in[0].dtype, ctx.aval_out
    if dtypes.is_extended(old) or dtypes.is_extended(new.dtype):
        stored, wanted = [d.physical_dtype if dtypes.is_extended(d) else d for d in (old, new.dtype)]
        return x if stored == wanted else ctx.op("stablehlo.convert", [x])
    if new.dtype == dtypes.bool_ and old != dtypes.bool_:
        # Every value but zero is true; a plain conversion would look at the lowest bit.
        zero = ctx.constant(np.zeros((), old), new.shape)
        return ctx.compare("NE", _comparison_kind(old), x, zero, new.shape)
    if old.kind == "c" and new.dtype.kind != "c":
        real = dtypes.to_real(old)
        x = ctx.op("stablehlo.real", [x], [(new.shape, real)])
        if real == new.dtype:
            return x
    return ctx.op("stablehlo.convert", [x])


def _convert_abstract(x, *, new_dtype, weak_type, sharding):
    if not dtypes.convertible(x.dtype, new_dtype):
        keys = any([dtypes.issubdtype(d, dtypes.prng_key) for d in (x.dtype, new_dtype)])
        raise ValueError(f"cannot convert_element_type from {x.dtype} to {new_dtype}: " + (
            "random keys are no numbers. Their words are random.key_data(keys), and keys of words random.wrap_key_data(words)."
            if keys else "the rules of the extended dtype do not allow it, only the dtypes that they name."))
    return ShapedArray(x.shape, new_dtype, weak_type, vma=x.vma)


def _convert_derivative(g, y, x, *, new_dtype, weak_type, sharding):
    new_dtype = dtypes.tangent_dtype(new_dtype)
    if new_dtype == dtypes.float0 or dtypes.tangent_dtype(tracing.aval_of(x).dtype) == dtypes.float0:
        return None
    return convert_element_type_p.bind(g, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding)


@linear(0)
def _convert_transpose(i, ct, x, *, new_dtype, weak_type, sharding):
    if tracing.aval_of(ct).dtype.kind == "c" and x.aval.dtype.kind != "c":
        ct = real_(ct)
    return convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type, sharding=sharding)


def _converted_number(number, params):
    """What a number is converted to, where that does not depend on the device."""
    value, wanted = np.asarray(number.val), params["new_dtype"]
    if not isinstance(wanted, np.dtype) or wanted == dtypes.float0 or not (
            value.dtype.kind in "biu" or dtypes.is_inexact(value.dtype)) or (value.dtype.kind == "c" and wanted.kind != "c"):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        converted = value.astype(wanted)
    if dtypes.is_integer(wanted) and converted != value:
        return None
    aval = convert_element_type_p.result_types((number.aval,), params)
    held = converted.item() if aval.weak_type else converted[()]  # a literal's value has the literal's type
    return Literal(held, aval) if tracing.aval_of(held).weak_type == aval.weak_type and (
        tracing.aval_of(held).dtype == aval.dtype) else None


PRIMITIVES["convert_element_type"] = convert_element_type_p = elementwise(
    "convert_element_type", _convert_lower, "any", derivatives=(_convert_derivative,), transpose=_convert_transpose,
    shown_as="astype", sums=of_first)
convert_element_type_p.abstract = _convert_abstract
convert_element_type_p.of_number = _converted_number
PRIMITIVES["copy"] = copy_p = elementwise(
    "copy", lambda ctx, x: x, "any", derivatives=(lambda g, y, x: g,), transpose=linear(0)(lambda i, ct, x: ct),
    sums=of_first)
copy_p.key_use = "hands on"


for _name in """abs add and ceil clamp convert_element_type copy div eq exp expm1 floor ge gt integer_pow is_finite le
        logistic lt max min mul ne neg not or reduce_precision round rsqrt select_n sign sqrt square sub tanh xor""".split():
    PRIMITIVES[_name].cost = "cheap"

PUBLIC = {f"{_name}_p": _primitive for _name, _primitive in PRIMITIVES.items()}


# The operations as functions, for rules and for library functions


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
exp_, log_, log1p_, pow_, sqrt_, rsqrt_, square_ = _operations("exp log log1p pow sqrt rsqrt square")
sin_, cos_, tan_, sinh_, cosh_, tanh_, atan2_, logistic_ = _operations("sin cos tan sinh cosh tanh atan2 logistic")
erf_, erfc_, erf_inv_, digamma_, polygamma_, zeta_ = _operations("erf erfc erf_inv digamma polygamma zeta")


# Operands


def typed_operands(name: str, x, y):
    """Python scalars take the dtype of the array beside them."""
    if type(x) in dtypes.python_scalar_dtypes or type(y) in dtypes.python_scalar_dtypes:
        dtype, weak = dtypes.promote_pair(*dtypes.operand_type(x), *dtypes.operand_type(y))
        return as_type(x, dtype, weak), as_type(y, dtype, weak)
    return x, y


def as_array(x):
    """An array of what may be a number."""
    return copy_p.bind(x) if type(x) in dtypes.python_scalar_dtypes or isinstance(x, (np.ndarray, np.generic)) else x


def as_type(x, dtype, weak: bool):
    """`x` at a dtype that promotion found; scalars are converted at once, arrays by an operation if need be."""
    kind = type(x)
    if kind in dtypes.python_scalar_dtypes:
        if weak:
            wanted = dtypes.scalar_type_of(dtype)
            x = x if kind is wanted else wanted(x)
            if dtypes.default_dtype(wanted) == dtype:
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


def size_as(n, dtype):
    """The size of a dimension as a number of a dtype; one that is not known becomes an array."""
    if is_symbolic_dim(n):
        return convert_element_type_p.bind(n, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)
    return np.dtype(dtype).type(n)


def with_weakness(x, weak: bool):
    """An array as weakly typed as told."""
    aval = tracing.aval_of(x)
    if aval.weak_type == weak:
        return x
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=weak, sharding=None)
