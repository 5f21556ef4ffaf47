"""Rules of elementwise primitives in compiled kernels, common to all compilers.

The tables name an operation of the dialects `arith` and `math` for each kind of dtype. The compiler's rules take precedence,
for example where it has no such operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.lowering.mlir import ir
from xlafront.pallas.kernel_mlir import Rule, Writer, bit_width, constant_value, kind_of

# Operations for floats, signed integers, unsigned integers and booleans; "" where there is none.
_ROWS = {
    "add": "arith.addf arith.addi arith.addi arith.ori",
    "add_any": "arith.addf arith.addi arith.addi arith.ori",
    "sub": "arith.subf arith.subi arith.subi -",
    "mul": "arith.mulf arith.muli arith.muli arith.andi",
    "div": "arith.divf arith.divsi arith.divui -",
    "rem": "arith.remf arith.remsi arith.remui -",
    "max": "arith.maximumf arith.maxsi arith.maxui arith.ori",
    "min": "arith.minimumf arith.minsi arith.minui arith.andi",
    "and": "- arith.andi arith.andi arith.andi",
    "or": "- arith.ori arith.ori arith.ori",
    "xor": "- arith.xori arith.xori arith.xori",
    "atan2": "math.atan2 - - -",
    "population_count": "- math.ctpop math.ctpop -",
    "clz": "- math.ctlz math.ctlz -",
    "abs": "math.absf math.absi = -",
    "neg": "arith.negf - - -",
    **{name: f"math.{operation} - - -" for name, operation in {
        "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log1p": "log1p", "sin": "sin",
        "cos": "cos", "tan": "tan", "tanh": "tanh", "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "floor": "floor",
        "ceil": "ceil", "erf": "erf", "erfc": "erfc", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
        "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh"}.items()},
}
KINDS = ("float", "signed", "unsigned", "bool")
TABLE = {name: {k: o for k, o in zip(KINDS, row.split()) if o != "-"} for name, row in _ROWS.items()}

# Predicates of `arith.cmpf` and `arith.cmpi`: for floats (False for NaN, except "ne"), signed and unsigned integers
PREDICATES = {"eq": (1, 0, 0), "ne": (13, 1, 1), "lt": (4, 2, 6), "le": (5, 3, 7), "gt": (2, 4, 8), "ge": (3, 5, 9)}


def rows(table: dict[str, dict[str, str]]) -> dict[str, Rule]:
    """Return the rules of a table of operations by name and kind of dtype; "=" is the operand itself."""
    return {name: _row(name, operations) for name, operations in table.items()}


def _row(name: str, operations: dict[str, str]) -> Rule:
    def rule(w: Writer, avals_in, avals_out, params, *values):
        operation = operations.get(kind_of(avals_in[0].dtype))
        if operation is None:
            raise NotImplementedError(f"{w.where()}{name} has no operation for dtype {avals_in[0].dtype} in kernels that are "
                                      f"compiled for {w.platform}. Convert the operands with astype.")
        return values[0] if operation == "=" else w.op(operation, values)

    return rule


def compare(w: Writer, name: str, dtype: Any, x: ir.Value, y: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """Compare two values of a shape and dtype: `name` is "eq", "lt", ..."""
    column = {"float": 0, "signed": 1}.get(kind_of(dtype), 2)
    return w.compare("arith.cmpi" if column else "arith.cmpf", PREDICATES[name][column], x, y, shape)


def binary(w: Writer, name: str, dtype: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    """Apply an operation of the table, such as "add", to values of a dtype."""
    return w.op(TABLE[name][kind_of(dtype)], [x, y])


def _comparison(name: str) -> Rule:
    return lambda w, avals_in, avals_out, params, x, y: compare(w, name, avals_in[0].dtype, x, y, avals_out[0].shape)


# Conversions


def convert(w: Writer, x: ir.Value, shape: tuple[int, ...], old: Any, new: Any) -> ir.Value:
    """Convert a value of dtype `old` to dtype `new`."""
    old, new = np.dtype(old), np.dtype(new)
    if old == new:
        return x
    old_kind, new_kind = kind_of(old), kind_of(new)
    kind = w.type_of(shape, new)
    if new_kind == "bool":
        return compare(w, "ne", old, x, w.constant(np.zeros((), old), shape), shape)
    old_bits, new_bits = bit_width(old), bit_width(new)
    if old_kind == new_kind == "float":
        if old_bits == new_bits:  # bfloat16 and float16, or two kinds of 8 bits
            return convert(w, convert(w, x, shape, old, np.float32), shape, np.float32, new)
        return w.op("arith.extf" if new_bits > old_bits else "arith.truncf", [x], kind)
    if old_kind == "float":
        return w.op("arith.fptosi" if new_kind == "signed" else "arith.fptoui", [x], kind)
    if new_kind == "float":
        return w.op("arith.sitofp" if old_kind == "signed" else "arith.uitofp", [x], kind)
    if old_bits == new_bits:
        return x
    if new_bits < old_bits:
        return w.op("arith.trunci", [x], kind)
    return w.op("arith.extsi" if old_kind == "signed" else "arith.extui", [x], kind)


def _convert(w: Writer, avals_in, avals_out, params, x):
    return convert(w, x, avals_out[0].shape, avals_in[0].dtype, avals_out[0].dtype)


# Selections


def _select_n(w: Writer, avals_in, avals_out, params, which, *cases):
    shape, dtype = avals_out[0].shape, avals_in[0].dtype
    if dtype == np.bool_ or len(cases) < 2:
        return w.select(which, cases[1], cases[0]) if len(cases) > 1 else cases[0]
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        is_below = compare(w, "le", dtype, which, w.constant(np.asarray(i, dtype), shape), shape)
        result = w.select(is_below, cases[i], result)
    return result


def _clamp(w: Writer, avals_in, avals_out, params, low, x, high):
    dtype = avals_out[0].dtype
    return binary(w, "min", dtype, binary(w, "max", dtype, x, low), high)


# Compositions


def _like(w: Writer, aval: Any, value: float) -> ir.Value:
    return w.constant(np.asarray(value).astype(aval.dtype), aval.shape)


def _neg(w: Writer, avals_in, avals_out, params, x):
    aval = avals_out[0]
    return w.op("arith.negf", [x]) if kind_of(aval.dtype) == "float" else w.op("arith.subi", [_like(w, aval, 0), x])


def _not(w: Writer, avals_in, avals_out, params, x):
    aval = avals_out[0]
    ones = True if aval.dtype == np.bool_ else np.invert(np.zeros((), aval.dtype))
    return w.op("arith.xori", [x, _like(w, aval, ones)])


def _square(w: Writer, avals_in, avals_out, params, x):
    return binary(w, "mul", avals_out[0].dtype, x, x)


def _one_minus_square(w: Writer, avals_in, avals_out, params, x):
    dtype, one = avals_out[0].dtype, _like(w, avals_out[0], 1)
    return binary(w, "mul", dtype, binary(w, "add", dtype, one, x), binary(w, "sub", dtype, one, x))


def _logistic(w: Writer, avals_in, avals_out, params, x):
    one = _like(w, avals_out[0], 1)
    exponential = w.rules["exp"](w, avals_in, avals_out, {}, w.op("arith.negf", [x]))
    return w.op("arith.divf", [one, w.op("arith.addf", [one, exponential])])


def _sign(w: Writer, avals_in, avals_out, params, x):
    aval = avals_out[0]
    dtype, zero, one = aval.dtype, _like(w, aval, 0), _like(w, aval, 1)
    if kind_of(dtype) == "unsigned":
        return w.op("arith.minui", [x, one])
    is_positive, is_negative = (compare(w, name, dtype, x, zero, aval.shape) for name in ("gt", "lt"))
    # Zeros keep their signs, and NaN is NaN.
    rest = x if kind_of(dtype) == "float" else zero
    return w.select(is_positive, one, w.select(is_negative, _like(w, aval, -1), rest))


def integer_power(w: Writer, x: ir.Value, aval: Any, exponent: int) -> ir.Value:
    """Return a power with a static integer as its exponent, by repeated multiplication."""
    one = _like(w, aval, 1)
    if not exponent:
        return one
    factor, n = x, abs(exponent)
    while not n & 1:
        factor, n = binary(w, "mul", aval.dtype, factor, factor), n >> 1
    result = factor
    while n := n >> 1:
        factor = binary(w, "mul", aval.dtype, factor, factor)
        if n & 1:
            result = binary(w, "mul", aval.dtype, result, factor)
    return result if exponent > 0 else binary(w, "div", aval.dtype, one, result)


def _integer_pow(w: Writer, avals_in, avals_out, params, x):
    return integer_power(w, x, avals_out[0], params["y"])


def _pow(w: Writer, avals_in, avals_out, params, x, y):
    base, exponent = avals_in
    if kind_of(base.dtype) != "float":
        raise NotImplementedError(f"{w.where()}pow of integers has no operation in kernels that are compiled for {w.platform}. "
                                  f"Write a static exponent as a Python integer, x ** 3, or multiply in a loop.")
    return w.rules["pow_of_floats"](w, [base, base], avals_out, {}, x, convert(w, y, base.shape, exponent.dtype, base.dtype))


def _is_finite(w: Writer, avals_in, avals_out, params, x):
    aval = avals_in[0]
    return compare(w, "lt", aval.dtype, w.op("math.absf", [x]), _like(w, aval, np.inf), aval.shape)


def _round(w: Writer, avals_in, avals_out, params, x):
    """Round to even (method 1), or away from zero: `trunc(x + 0.5 sign(x))`, but for `x` close below 0.5."""
    aval = avals_out[0]
    method = int(params["rounding_method"])
    if method == 1:
        return w.rules["round_to_even"](w, avals_in, avals_out, {}, x)
    size = w.op("math.absf", [x])
    low = w.op("math.floor", [size])
    is_up = compare(w, "ge", aval.dtype, w.op("arith.subf", [size, low]), _like(w, aval, 0.5), aval.shape)
    rounded = w.select(is_up, w.op("arith.addf", [low, _like(w, aval, 1)]), low)
    is_negative = compare(w, "lt", aval.dtype, x, _like(w, aval, 0), aval.shape)
    return w.select(is_negative, w.op("arith.negf", [rounded]), rounded)


def _shift(operation: str, is_arithmetic: bool = False) -> Rule:
    """Make the rule of a shift: by the width of the integer or more, it shifts all bits out, which the operation does not."""
    def rule(w: Writer, avals_in, avals_out, params, x, n):
        aval = avals_out[0]
        bits = bit_width(aval.dtype)
        static = constant_value(n)
        if static is not None and 0 <= static < bits:
            return w.op(operation, [x, n])
        last = _like(w, aval, bits - 1)
        clipped = w.op("arith.minui", [n, last])
        shifted = w.op(operation, [x, clipped])
        if is_arithmetic:
            return shifted
        is_inside = w.compare("arith.cmpi", PREDICATES["le"][2], n, last, aval.shape)
        return w.select(is_inside, shifted, _like(w, aval, 0))

    return rule


def bitcast_elements(w: Writer, x: ir.Value, shape: tuple[int, ...], old: Any, new: Any) -> ir.Value:
    """Reinterpret the bits of elements as another dtype of the same width."""
    if kind_of(old) != "float" and kind_of(new) != "float":
        return x
    return w.op(w.bitcast, [x], w.type_of(shape, new))


def _next_after(w: Writer, avals_in, avals_out, params, x, y):
    """Step the bits of a float toward another one."""
    aval = avals_out[0]
    dtype, shape = aval.dtype, aval.shape
    integer = np.dtype(f"int{bit_width(dtype)}")
    integers = aval.update(dtype=integer)
    zero, one, smallest = _like(w, aval, 0), _like(w, integers, 1), _like(w, integers, 1)
    bits = bitcast_elements(w, x, shape, dtype, integer)
    is_up = compare(w, "lt", dtype, x, y, shape)
    is_negative = compare(w, "lt", dtype, x, zero, shape)
    grows = w.op("arith.xori", [is_up, is_negative])
    step = w.select(grows, one, _like(w, integers, -1))
    stepped = bitcast_elements(w, w.op("arith.addi", [bits, step]), shape, integer, dtype)
    least = bitcast_elements(w, smallest, shape, integer, dtype)
    from_zero = w.select(is_up, least, w.op("arith.negf", [least]))
    moved = w.select(compare(w, "eq", dtype, x, zero, shape), from_zero, stepped)
    same = w.select(compare(w, "eq", dtype, x, y, shape), y, moved)
    is_nan = w.compare("arith.cmpf", 14, x, y, shape)
    return w.select(is_nan, w.op("arith.addf", [x, y]), same)


def _reciprocal(w: Writer, avals_in, avals_out, params, x):
    return w.op("arith.divf", [_like(w, avals_out[0], 1), x])


_IDENTITIES = "copy copy_p stop_gradient name optimization_barrier pvary".split()

RULES: dict[str, Rule] = {
    **rows(TABLE),
    **{name: _comparison(name) for name in PREDICATES},
    **{name: lambda w, avals_in, avals_out, params, *values: list(values) if len(values) > 1 else values[0]
       for name in _IDENTITIES},
    "convert_element_type": _convert, "select_n": _select_n, "clamp": _clamp, "neg": _neg, "not": _not, "square": _square,
    "one_minus_square": _one_minus_square, "logistic": _logistic, "sign": _sign, "integer_pow": _integer_pow, "pow": _pow,
    "pow_of_floats": rows({"pow": {"float": "math.powf"}})["pow"], "is_finite": _is_finite, "round": _round,
    "round_to_even": rows({"round": {"float": "math.roundeven"}})["round"], "nextafter": _next_after,
    "shift_left": _shift("arith.shli"), "shift_right_logical": _shift("arith.shrui"),
    "shift_right_arithmetic": _shift("arith.shrsi", is_arithmetic=True), "reciprocal": _reciprocal,
}
