"""Elementwise functions with NumPy's promotion and broadcasting.

`UNARY` and `BINARY` map functions of one primitive to that primitive and the promotion of its operands. Functions that compose
several primitives follow below; the docstrings of both are in `docstrings`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import with_weakness
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import shapes
from xlafront.lax.arguments import check_dtype
from xlafront.lax.barriers import stop_gradient_p
from xlafront.lax.elementwise import (
    PRIMITIVES,
    abs_,
    add,
    and_,
    as_type,
    atan2_,
    ceil_,
    complex_,
    conj_,
    constant_like,
    div,
    eq,
    floor_,
    gt,
    imag_,
    integer_pow_p,
    is_finite_,
    le,
    log2_,
    log_,
    log_add_p,
    lt,
    max_,
    min_,
    mul,
    ne,
    neg,
    not_,
    or_,
    population_count_,
    pow_,
    real_,
    rem_,
    round_,
    shift_left_,
    sign_,
    sqrt_,
    square_,
    sub,
    where,
)
from xlafront.lax.elementwise_functions import refuse_negative_power
from xlafront.numpy.docstrings import ufunc_docstring
from xlafront.numpy.promotion import (
    broadcast_to_common,
    check_arraylike,
    promote_args,
    promote_args_inexact,
    unwrap,
)
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import eager_kernel, library

_F = TypeVar("_F", bound=Callable)

# name, primitive, promotion
UNARY = (
    ("negative", "neg", "same"), ("sign", "sign", "same"),
    ("bitwise_not", "not", "same"), ("bitwise_invert", "not", "same"), ("invert", "not", "same"),
    *((n, n, "inexact") for n in ("exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh",
                                  "sqrt", "cbrt", "asin", "acos", "atan", "asinh", "acosh", "atanh")),
    ("arcsin", "asin", "inexact"), ("arccos", "acos", "inexact"), ("arctan", "atan", "inexact"),
    ("arcsinh", "asinh", "inexact"), ("arccosh", "acosh", "inexact"), ("arctanh", "atanh", "inexact"),
)
BINARY = (
    ("add", "add", "same"), ("multiply", "mul", "same"), ("subtract", "sub", "same"),
    ("maximum", "max", "same"), ("minimum", "min", "same"),
    ("equal", "eq", "same"), ("not_equal", "ne", "same"),
    ("bitwise_and", "and", "same"), ("bitwise_or", "or", "same"), ("bitwise_xor", "xor", "same"),
    ("true_divide", "div", "inexact"), ("divide", "div", "inexact"),
    ("arctan2", "atan2", "inexact"), ("atan2", "atan2", "inexact"), ("nextafter", "nextafter", "inexact"),
)
ORDERINGS = (("greater", "gt"), ("greater_equal", "ge"), ("less", "lt"), ("less_equal", "le"))
LOGICAL = (("logical_and", "and"), ("logical_or", "or"), ("logical_xor", "xor"))
_PARAMETERS_X_Y = frozenset(("equal", "not_equal", "nextafter"))  # parameters named x and y instead of x1 and x2

# The ufuncs and their identities; `ufunc_methods` adds the methods (`reduce`, `accumulate`, ...).
IDENTITIES = {
    "add": 0, "multiply": 1, "subtract": None, "negative": None, "maximum": None, "minimum": None, "logaddexp": -math.inf,
    "logaddexp2": -math.inf, "bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0, "logical_and": True, "logical_or": False,
    "logical_xor": False,
}

_FLOATS = frozenset((dtypes.float16, dtypes.bfloat16, dtypes.float32))
_NUMBERS = frozenset((int, float))
_TYPED = (tracing.Tracer, ArrayImpl)  # other objects, such as proxies of arrays, may have an `aval` too

PUBLIC: dict = {}
INLINE: dict = {}  # the same functions without the dispatcher, for operators on tracers


def public(name: str, function: _F, binds_primitive: bool = False) -> _F:
    """Register a function under its public name, compiled when called eagerly. Its docstring is built by `docstrings`."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "xlafront.numpy"
    function.__doc__ = ufunc_docstring(name, function)
    INLINE[name] = function
    PUBLIC[name] = eager_kernel(function) if binds_primitive else library(accepts(nodes=True)(function))
    return PUBLIC[name]


def _refuse_options(name, out, where) -> None:
    """Raise for `out` or `where`, which NumPy's ufuncs take: NotImplementedError for ufuncs, else TypeError, as in JAX."""
    given = "out" if out is not None else "where"
    error = NotImplementedError if name in IDENTITIES else TypeError
    raise error(f"numpy.{name} does not support {given!r}: arrays are immutable. Use the result, or numpy.where.")


def _unary(name, primitive, promotion):
    if promotion == "inexact":
        def function(x: ArrayLike, /) -> Array:
            # Hot under a trace: an array of floats goes straight to the primitive.
            if isinstance(x, _TYPED) and not x.aval.is_high and dtypes.is_inexact(x.aval.dtype):
                return primitive.bind(x)
            return primitive.bind(*promote_args_inexact(name, x))
    else:
        def function(x: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
            if out is not None or where is not None:
                _refuse_options(name, out, where)
            return primitive.bind(*promote_args(name, x))
    return public(name, function, binds_primitive=True)


def _binary(name, primitive, promotion):
    promote = promote_args if promotion == "same" else promote_args_inexact
    inexact = promotion != "same"
    thread = tracing.thread

    promoted = library(lambda x1, x2: primitive.bind(*promote(name, x1, x2, ranks_only=True)), static=None, name=name)

    def function(x1: ArrayLike, x2: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
        # Hot under a trace: two operands of one type, or floats and a Python scalar, need no promotion.
        if out is not None or where is not None:
            _refuse_options(name, out, where)
        a, b = x1.aval if isinstance(x1, _TYPED) else None, x2.aval if isinstance(x2, _TYPED) else None
        if a is not None and not a.is_high:
            if b is not None:
                if b.is_high:
                    return promoted(x1, x2)
                if a.dtype is b.dtype and a.weak_type == b.weak_type and a.shape == b.shape and (
                        not inexact or a.dtype in _FLOATS):
                    return thread.trace.process(primitive, (x1, x2), {})
            elif a.dtype in _FLOATS and type(x2) in _NUMBERS and (not a.weak_type or a.dtype == dtypes.default_dtype(float)):
                return thread.trace.process(primitive, (x1, float(x2) if a.weak_type else a.dtype.type(x2)), {})
        elif b is not None and not b.is_high and b.dtype in _FLOATS and type(x1) in _NUMBERS and (
                not b.weak_type or b.dtype == dtypes.default_dtype(float)):
            return thread.trace.process(primitive, (float(x1) if b.weak_type else b.dtype.type(x1), x2), {})
        return promoted(x1, x2)

    if name in _PARAMETERS_X_Y:
        function.__code__ = function.__code__.replace(co_varnames=("x", "y", *function.__code__.co_varnames[2:]))
        types = function.__annotations__
        function.__annotations__ = {"x": types["x1"], "y": types["x2"], **{n: types[n] for n in ("out", "where", "return")}}
    return public(name, function, binds_primitive=True)


for _name, _primitive, _promotion in UNARY:
    _unary(_name, PRIMITIVES[_primitive], _promotion)
for _name, _primitive, _promotion in BINARY:
    _binary(_name, PRIMITIVES[_primitive], _promotion)


def constant_operand(x, value):
    """Return a scalar operand for `x`; it is weakly typed only if `x` is a weakly typed scalar."""
    return _strong_constant(x, value) if np.ndim(x) else constant_like(x, value)


def to_bool(x):
    aval = tracing.aval_of(x)
    if dtypes.is_extended(aval.dtype):
        # Raises the error of the conversion.
        return PRIMITIVES["convert_element_type"].bind(x, new_dtype=dtypes.bool_, weak_type=False, sharding=None)
    return x if aval.dtype == dtypes.bool_ else ne(x, constant_operand(x, 0))


def _complex_order(primitive):
    """Return a comparison of complex numbers by real part, then by imaginary part, as in NumPy."""
    def compare(x, y):
        xr, yr, xi, yi = real_(x), real_(y), imag_(x), imag_(y)
        return where(eq(xr, yr), primitive.bind(xi, yi), primitive.bind(xr, yr))

    return compare


def _ordering(name, primitive):
    on_complex = _complex_order(primitive)

    def function(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = promote_args(name, x, y)
        return on_complex(x, y) if tracing.aval_of(x).dtype.kind == "c" else primitive.bind(x, y)

    return public(name, function)


for _name, _primitive in ORDERINGS:
    _ordering(_name, PRIMITIVES[_primitive])


def _logical(name, primitive):
    def function(x: ArrayLike, y: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
        if out is not None or where is not None:
            _refuse_options(name, out, where)
        return primitive.bind(*map(to_bool, promote_args(name, x, y)))

    return public(name, function)


for _name, _primitive in LOGICAL:
    _logical(_name, PRIMITIVES[_primitive])


def _define(function: _F) -> _F:
    return public(function.__name__.rstrip("_"), function)


@_define
def logical_not(x: ArrayLike, /) -> Array:
    check_arraylike("logical_not", x)
    return not_(to_bool(unwrap(x)))


@_define
def positive(x: ArrayLike, /) -> Array:
    [operand] = promote_args("positive", x)
    return operand


@_define
def absolute(x: ArrayLike, /) -> Array:
    [operand] = promote_args("absolute", x)
    d = tracing.aval_of(operand).dtype
    return operand if d == dtypes.bool_ or dtypes.is_unsigned(d) else abs_(operand)


PUBLIC["abs"], INLINE["abs"] = PUBLIC["absolute"], INLINE["absolute"]


@_define
def fabs(x: ArrayLike, /) -> Array:
    [x] = promote_args_inexact("fabs", x)
    check_dtype("numpy.fabs", "float", tracing.aval_of(x).dtype)
    return abs_(x)


@_define
def square(x: ArrayLike, /) -> Array:
    [x] = promote_args("square", x)
    if tracing.aval_of(x).dtype == dtypes.bool_:
        return as_type(x, dtypes.int32, False)
    return square_(x)


@_define
def bitwise_count(x: ArrayLike, /) -> Array:
    [x] = promote_args("bitwise_count", x)
    d = tracing.aval_of(x).dtype
    if d == dtypes.bool_:
        return as_type(x, dtypes.uint8, False)
    size = x if dtypes.is_unsigned(d) else abs_(x)
    return as_type(population_count_(size), dtypes.uint8, False)


@_define
def reciprocal(x: ArrayLike, /) -> Array:
    [x] = promote_args_inexact("reciprocal", x)
    return integer_pow_p.bind(x, y=-1)


@_define
def log2(x: ArrayLike, /) -> Array:
    return log2_(*promote_args_inexact("log2", x))


@_define
def log10(x: ArrayLike, /) -> Array:
    [x] = promote_args_inexact("log10", x)
    y = log_(x)
    if tracing.aval_of(y).dtype.kind != "c":
        return mul(y, _strong_constant(y, 1 / np.log(10)))
    real, imag = real_(y), imag_(y)  # a complex product would turn infinities into NaN
    return complex_(*[mul(component, _strong_constant(component, 1 / np.log(10))) for component in (real, imag)])


def _strong_constant(x, value):
    """Return a scalar of the dtype of `x` that is not weakly typed."""
    return tracing.aval_of(x).dtype.type(value)


def _integers_pass(name, primitive):
    def function(x: ArrayLike, /) -> Array:
        [operand] = promote_args(name, x)
        d = tracing.aval_of(operand).dtype
        return operand if dtypes.is_integer(d) or d == dtypes.bool_ else primitive(operand)

    return public(name, function)


_integers_pass("floor", PRIMITIVES["floor"].bind)
_integers_pass("ceil", PRIMITIVES["ceil"].bind)


@_define
def trunc(x: ArrayLike) -> Array:
    [operand] = promote_args("trunc", x)
    if not dtypes.is_inexact(tracing.aval_of(operand).dtype):
        return operand
    return where(lt(operand, constant_like(operand, 0)), ceil_(operand), floor_(operand))


@_define
def rint(x: ArrayLike, /) -> Array:
    check_arraylike("rint", x)
    x = unwrap(x)
    d = tracing.aval_of(x).dtype
    if not dtypes.is_inexact(d):
        return as_type(x, dtypes.default_dtype(float), False)
    if tracing.aval_of(x).dtype.kind == "c":
        return complex_(round_(real_(x), rounding_method=1),
                        round_(imag_(x), rounding_method=1))
    return round_(x, rounding_method=1)


def _constant_of(x, value: bool):
    return shapes.broadcast_in_dim(np.bool_(value), np.shape(x), ())


def _float_test(name, on_float, on_other):
    def function(x: ArrayLike, /) -> Array:
        [x] = promote_args(name, x)
        d = tracing.aval_of(x).dtype
        if dtypes.is_complex(d) and name != "isnan":
            combine = PRIMITIVES["and" if name == "isfinite" else "or"]
            return combine.bind(on_float(real_(x)), on_float(imag_(x)))
        return on_float(x) if name == "isnan" or dtypes.is_float(d) else _constant_of(x, on_other)

    return public(name, function)


_float_test("isfinite", PRIMITIVES["is_finite"].bind, True)
_float_test("isnan", lambda x: ne(x, x), False)
_float_test("isinf", lambda x: eq(abs_(x), _strong_constant(x, np.inf)), False)


def _infinity_test(name, infinity):
    def function(x: ArrayLike, /, out: None = None) -> Array:
        if out is not None:
            raise NotImplementedError(f"numpy.{name} does not support 'out': arrays are immutable. Use the result.")
        [x] = promote_args(name, x)
        d = tracing.aval_of(x).dtype
        if d.kind == "c":
            raise ValueError(f"numpy.{name} is not defined for complex numbers; apply it to x.real or x.imag.")
        return eq(x, _strong_constant(x, infinity)) if dtypes.is_float(d) else _constant_of(x, False)

    return public(name, function)


_infinity_test("isposinf", math.inf)
_infinity_test("isneginf", -math.inf)


@_define
def signbit(x: ArrayLike, /) -> Array:
    [x] = promote_args("signbit", x)
    d = tracing.aval_of(x).dtype
    if dtypes.is_integer(d) or d == dtypes.bool_:
        return lt(x, _strong_constant(x, 0))
    if d.kind == "c":
        raise ValueError(f"numpy.signbit is not defined for {d}: a complex number has no sign; apply it to x.real or x.imag.")
    bits = np.dtype(f"int{8 * d.itemsize}")
    return lt(shapes.bitcast_convert_type_p.bind(x, new_dtype=bits), bits.type(0))


@_define
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    shapes.broadcast_shapes("copysign", np.shape(x1), np.shape(x2))
    x, y = promote_args_inexact("copysign", x1, x2)
    check_dtype("numpy.copysign", "float", tracing.aval_of(x).dtype)
    size = abs_(x)
    return where(INLINE["signbit"](y), neg(size), size)


@_define
def conjugate(x: ArrayLike, /) -> Array:
    [operand] = promote_args("conjugate", x)
    d = tracing.aval_of(operand).dtype
    return conj_(operand, input_dtype=d) if d.kind == "c" else operand


PUBLIC["conj"], INLINE["conj"] = PUBLIC["conjugate"], INLINE["conjugate"]


@_define
def real(val: ArrayLike, /) -> Array:
    [x] = promote_args("real", val)
    return real_(x) if tracing.aval_of(x).dtype.kind == "c" else x


@_define
def imag(val: ArrayLike, /) -> Array:
    [x] = promote_args("imag", val)
    if tracing.aval_of(x).dtype.kind == "c":
        return imag_(x)
    return shapes.broadcast_in_dim(constant_like(x, 0), np.shape(x), ())


@_define
def iscomplex(x: ArrayLike, /) -> Array:
    imaginary = INLINE["imag"](x)
    return ne(imaginary, constant_operand(imaginary, 0))


@_define
def isreal(x: ArrayLike, /) -> Array:
    imaginary = INLINE["imag"](x)
    return eq(imaginary, constant_operand(imaginary, 0))


@library(static="deg")
@accepts(nodes=True)
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Compute the angle of complex numbers in the plane, elementwise.

    The result is from -pi to pi: 0 for positive real numbers, pi for negative ones.

    Args:
        z: Array or scalar.
        deg: If True, return degrees instead of radians.

    Returns:
        Array of floats with the shape of `z`.

    Example:
        >>> xnp.angle(xnp.array([1j, -1.0]), deg=True)
        Array([ 90., 180.], dtype=float32)
    """
    re, im = INLINE["real"](z), INLINE["imag"](z)
    d = tracing.aval_of(z).dtype
    if d.kind != "c" and (not np.ndim(z) or not dtypes.is_inexact(d)):  # real scalars count as Python scalars
        re, im = (as_type(x, dtypes.default_dtype(float), False) for x in (re, im))
    result = atan2_(im, re)
    return mul(result, constant_like(result, 180 / np.pi)) if deg else result


@_define
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    x, y = _numbers("remainder", x1, x2)
    zero = constant_like(x, 0)
    r = _rem(x, y)
    wrong_sign = and_(ne(lt(r, zero), lt(y, zero)), ne(r, zero))
    return where(wrong_sign, add(r, y), r)


PUBLIC["mod"], INLINE["mod"] = PUBLIC["remainder"], INLINE["remainder"]


@_define
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    return _rem(*_numbers("fmod", x1, x2))


def _numbers(name, x1, x2) -> list:
    """Promote operands of arithmetic; booleans become int32."""
    x, y = promote_args(name, x1, x2)
    if tracing.aval_of(x).dtype == dtypes.bool_:
        return [as_type(x, dtypes.int32, False), as_type(y, dtypes.int32, False)]
    return [x, y]


def _rem(x, y):
    """Compute the remainder with the sign of `x`, as C does; for integers it is 0 where `y` is 0, as in NumPy."""
    r = rem_(x, y)
    if dtypes.is_integer(tracing.aval_of(x).dtype):
        zero = constant_like(x, 0)
        return where(eq(y, zero), zero, r)
    return r


@_define
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    x, y = _numbers("floor_divide", x1, x2)
    d = tracing.aval_of(x).dtype
    if dtypes.is_unsigned(d):
        return div(x, y)
    if dtypes.is_integer(d):
        quotient = div(x, y)
        inexact = ne(mul(quotient, y), x)  # a product costs a tenth of a second division
        opposite = ne(sign_(x), sign_(y))
        return where(and_(inexact, opposite), sub(quotient, constant_like(x, 1)), quotient)
    if d.kind == "c":
        raise TypeError("numpy.floor_divide does not take complex numbers: they have no order.")
    return _float_quotient(x, y, _float_divmod(x, y)[0])


def _float_quotient(x, y, quotient):
    """Return the floored quotient, or the infinite or NaN quotient where `y` is 0."""
    return where(eq(y, constant_like(y, 0)), stop_gradient_p.bind(div(x, y)), quotient)


def _float_divmod(x, y):
    """Compute the floored quotient, C's remainder, and a mask of the remainders to which the divisor must be added.

    With the divisor added there, `quotient * y + remainder` is `x` up to rounding.
    """
    zero, one = constant_like(x, 0), constant_like(x, 1)
    r = rem_(x, y)
    quotient = div(sub(x, r), y)
    shift = and_(ne(sign_(y), sign_(r)), ne(r, zero))
    quotient = round_(where(shift, sub(quotient, one), quotient), rounding_method=0)
    return quotient, r, shift


@_define
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    x, y = _numbers("divmod", x1, x2)
    d = tracing.aval_of(x).dtype
    if dtypes.is_float(d):
        quotient, remainder, shift = _float_divmod(x, y)
        return _float_quotient(x, y, quotient), where(shift, add(remainder, y), remainder)
    return INLINE["floor_divide"](x, y), INLINE["remainder"](x, y)


@_define
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    return shift_left_(*_numbers("left_shift", x, y))


@_define
def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    x, y = _numbers("right_shift", x1, x2)
    unsigned = dtypes.is_unsigned(tracing.aval_of(x).dtype)
    return PRIMITIVES["shift_right_logical" if unsigned else "shift_right_arithmetic"].bind(x, y)


PUBLIC["bitwise_left_shift"], PUBLIC["bitwise_right_shift"] = PUBLIC["left_shift"], PUBLIC["right_shift"]


def power_inline(x, y):
    """Compute `x ** y`, by repeated multiplication if `y` is an int, else by logarithms."""
    check_arraylike("power", x, y)
    x, y = unwrap(x), unwrap(y)
    if type(y) is int:
        refuse_negative_power(x, y)
        if tracing.aval_of(x).dtype == dtypes.bool_:
            x = as_type(x, dtypes.int32, False)
        return integer_pow_p.bind(x, y=y)
    base, exponent = tracing.aval_of(x).dtype, tracing.aval_of(y).dtype
    if dtypes.is_inexact(base) and dtypes.is_integer(exponent):
        dtypes.lattice_result_type(x, y)  # raises if the promotion mode forbids it
        return pow_(*broadcast_to_common("power", [x, y]))
    x, y = _numbers("power", x, y)
    if dtypes.is_integer(tracing.aval_of(x).dtype):
        return _integer_power(x, y)
    return pow_(x, y)


def _integer_power(x, y):
    """Compute an integer power by squaring over the lowest 6 bits of the exponent.

    Higher powers of numbers other than 0, 1 and -1 overflow 64 bits. Powers of 0 are set to 0 apart.
    """
    one, zero = _strong_constant(x, 1), _strong_constant(x, 0)
    is_zero = and_(eq(x, zero), ne(y, zero))
    result = None
    for i in range(6):
        factor = where(ne(and_(y, _strong_constant(y, 1 << i)), zero), x, one)
        result = factor if result is None else mul(result, factor)
        x = mul(x, x) if i < 5 else x
    return where(is_zero, zero, result)


INLINE["power"] = lambda x1, x2: power_inline(x1, x2 if type(x2) is int else _static_exponent(x2))


@library
def _power_arrays(x1, x2):
    return power_inline(x1, x2)


@library(static="x2")
def _power_static(x1, x2):
    return power_inline(x1, x2)


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute `x1 ** x2` elementwise.

    A concrete integer exponent is static: it is computed by multiplications, and each new one is compiled.

    Args:
        x1: Bases.
        x2: Exponents.

    Returns:
        Array with the common shape and dtype of the operands.

    Raises:
        TypeError: If integers are raised to a concrete negative integer power.

    Example:
        >>> xnp.power(xnp.array([2, 3]), 3)
        Array([ 8, 27], dtype=int32)
    """
    x1, x2 = unwrap(x1), unwrap(x2)
    if type(x2) is not int:
        x2 = _static_exponent(x2)
        if type(x2) is bool and tracing.aval_of(x1).dtype != dtypes.bool_:
            x2 = int(x2)
    if type(x2) is int:
        return _power_static(x1, x2)
    return _power_arrays(x1, x2)


def _static_exponent(y):
    """Return a Python int if `y` is a concrete integer scalar, else `y`."""
    known = isinstance(y, np.integer) or isinstance(y, (np.ndarray, ArrayImpl)) and not y.ndim and y.dtype.kind in "iu"
    return int(y) if known else y


PUBLIC["power"] = PUBLIC["pow"] = power


@_define
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    return pow_(*promote_args_inexact("float_power", x, y))


@_define
def logaddexp(x1: ArrayLike, x2: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
    if out is not None or where is not None:
        _refuse_options("logaddexp", out, where)
    x, y = promote_args_inexact("logaddexp", x1, x2)
    return log_add_p.bind(x, y)


def _finite_or_zero(x):
    return where(is_finite_(x), x, constant_like(x, 0))


@_define
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /, *, out: None = None, where: None = None) -> Array:
    if out is not None or where is not None:
        _refuse_options("logaddexp2", out, where)
    x, y = promote_args_inexact("logaddexp2", x1, x2)
    ln2 = constant_operand(x if np.ndim(x) >= np.ndim(y) else y, np.log(2))
    if tracing.aval_of(x).dtype.kind == "c":
        return div(log_add_p.bind(mul(x, ln2), mul(y, ln2)), ln2)
    # Relative to the maximum, which is then reproduced without rounding.
    greater = _finite_or_zero(stop_gradient_p.bind(max_(x, y)))
    return add(greater, div(log_add_p.bind(mul(sub(x, greater), ln2), mul(sub(y, greater), ln2)), ln2))


@_define
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    x, y = promote_args_inexact("hypot", x1, x2)
    if tracing.aval_of(x).dtype.kind == "c":
        raise ValueError("numpy.hypot is not defined for complex numbers; apply it to abs(x1) and abs(x2).")
    x, y = abs_(x), abs_(y)
    x_is_larger = gt(x, y)
    big, small = where(x_is_larger, x, y), where(x_is_larger, y, x)
    infinity, one = constant_like(big, np.inf), constant_like(big, 1)
    unbounded = or_(eq(x, infinity), eq(y, infinity))  # also if the other operand is NaN
    big = where(unbounded, one, big)  # so that derivatives are no products of infinity and 0
    safe = where(eq(big, constant_like(big, 0)), one, big)
    ratio = div(where(unbounded, one, small), safe)
    size = mul(big, sqrt_(add(one, mul(ratio, ratio))))
    return where(unbounded, infinity, size)


@_define
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    x, y = promote_args_inexact("heaviside", x1, x2)
    zero, one = constant_operand(x, 0), constant_operand(x, 1)
    step = where(lt(x, zero), zero, where(gt(x, zero), one, y))
    return where(ne(x, x), x, step)


def _scaled(name, factor):
    def function(x: ArrayLike, /) -> Array:
        [x] = promote_args_inexact(name, x)
        return mul(x, constant_operand(x, factor))

    return public(name, function)


_scaled("deg2rad", np.pi / 180)
_scaled("radians", np.pi / 180)
_scaled("rad2deg", 180 / np.pi)
_scaled("degrees", 180 / np.pi)


def _ignoring_nan(name, primitive, compare):
    def function(x1: ArrayLike, x2: ArrayLike) -> Array:
        x, y = promote_args(name, x1, x2)
        if not dtypes.is_inexact(tracing.aval_of(x).dtype):
            return primitive.bind(x, y)
        # A select, so that the derivative at equal operands goes to the second one.
        return where(or_(compare(x, y), ne(y, y)), x, y)

    return public(name, function)


_ignoring_nan("fmax", PRIMITIVES["max"], INLINE["greater"])
_ignoring_nan("fmin", PRIMITIVES["min"], INLINE["less"])


@library(static="equal_nan")
@accepts(nodes=True)
def isclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False) -> Array:
    """Test elementwise for equality within the tolerance `atol + rtol * abs(b)`.

    Args:
        a, b: Arrays, broadcast to a common shape. `b` is the reference value.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: If True, NaN is close to NaN.

    Returns:
        Boolean array with the common shape of `a` and `b`.

    Example:
        >>> xnp.isclose(xnp.array([1.0, 1.1]), xnp.array([1.000001, 1.0]))
        Array([ True, False], dtype=bool)
    """
    a, b = promote_args("isclose", a, b)
    d = tracing.aval_of(a).dtype
    if dtypes.is_extended(d):
        return eq(a, b)
    if not dtypes.is_inexact(d):
        a, b = promote_args_inexact("isclose", a, b)
        d = tracing.aval_of(a).dtype
    real = dtypes.to_real(d)
    rtol, atol = as_type(rtol, real, False), as_type(atol, real, False)
    close = le(abs_(sub(a, b)), add(atol, mul(rtol, abs_(b))))
    both_finite = and_(INLINE["isfinite"](a), INLINE["isfinite"](b))
    result = or_(eq(a, b), and_(both_finite, close))
    if equal_nan:
        result = or_(result, and_(ne(a, a), ne(b, b)))
    return result


PUBLIC.update(angle=angle, isclose=isclose)


@library(static="decimals", name="round")
def _round_kernel(a, decimals):
    [x] = promote_args("round", a)
    d = tracing.aval_of(x).dtype
    if d == dtypes.bool_:
        raise ValueError("numpy.round does not take booleans (data type not inexact): convert with x.astype(int).")
    if dtypes.is_integer(d):
        if decimals >= 0:
            return x
        if 10 ** -decimals > dtypes.iinfo(d).max:  # every number rounds to 0
            return mul(x, constant_like(x, 0))
        factor, half = d.type(10 ** -decimals), d.type(10 ** -decimals // 2)
        down = INLINE["floor_divide"](x, factor)
        remainder = sub(x, mul(down, factor))
        odd = ne(and_(down, d.type(1)), d.type(0))
        up = or_(gt(remainder, half), and_(eq(remainder, half), odd))
        return mul(add(down, as_type(up, d, False)), factor)
    if d.kind == "c":
        return complex_(_round_float(real_(x), decimals), _round_float(imag_(x), decimals))
    return _round_float(x, decimals)


def _round_float(x, decimals):
    def nearest(v):
        return round_(v, rounding_method=1)

    if decimals == 0:
        return nearest(x)
    d = tracing.aval_of(x).dtype
    x = with_weakness(x, False) if np.ndim(x) else x  # as for the product with an array of factors
    wide = x if d.itemsize > 2 else as_type(x, dtypes.float32, False)  # powers of ten overflow the 16-bit types
    if decimals > np.log10(float(dtypes.finfo(tracing.aval_of(wide).dtype).max)):  # more decimals than any number has
        return x
    factor = constant_like(wide, 10.0 ** decimals)
    result = div(nearest(mul(wide, factor)), factor)
    return result if wide is x else as_type(result, d, False)


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Round to the given number of decimals, ties to even.

    `xnp.around` is an alias.

    Args:
        a: Array. Integers keep their dtype, real and imaginary parts are rounded separately, booleans are not supported.
        decimals: Number of decimals. A negative number rounds to tens, hundreds, ...
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array with the shape and dtype of `a`.

    Example:
        >>> xnp.round(xnp.array([1.25, 2.5, -0.75]), 1)
        Array([ 1.2,  2.5, -0.8], dtype=float32)
    """
    if out is not None:
        raise NotImplementedError("numpy.round cannot write into `out`: arrays are immutable. Use the result.")
    return _round_kernel(a, operator.index(decimals))


around = round


@library
@accepts(nodes=True)
def clip(arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Clip elements to a range.

    Args:
        arr: Array of real numbers.
        min, max: Bounds, broadcast with `arr`. None leaves a side unbounded.

    Returns:
        Array of the elements of `arr`, those below `min` replaced by `min` and those above `max` by `max`.

    Raises:
        ValueError: If an argument is complex.

    Example:
        >>> xnp.clip(xnp.array([-2, 0, 5]), 0, 3)
        Array([0, 0, 3], dtype=int32)
    """
    if arr is None:
        raise ValueError("numpy.clip needs the array to clip as its first argument.")
    operands = [arr, *[x for x in (min, max) if x is not None]]
    check_arraylike("clip", *operands)
    if any(dtypes.operand_type(unwrap(x))[0].kind == "c" for x in operands):
        raise ValueError("numpy.clip does not take a complex value: complex values have no ordering, and cannot be clipped. "
                         "Clip x.real and x.imag.")
    [result] = promote_args("clip", arr)
    for limit, bound in ((min, max_), (max, min_)):  # in this order: a lower bound is promoted with `arr` only, as in JAX
        if limit is not None:
            result = bound(*reversed(promote_args("clip", result, limit)))
    return result
