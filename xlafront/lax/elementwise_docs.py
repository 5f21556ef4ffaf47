"""What the documentation of elementwise functions says: the words and an example for each; `elementwise` has the functions."""

from __future__ import annotations

# name: what it computes, an example, what this gives
FUNCTIONS = {
    "neg": ("`-x`.", "lax.neg(2.0)", "Array(-2., dtype=float32, weak_type=True)"),
    "exp": ("The exponential function.", "lax.exp(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "exp2": ("2 to the power `x`.", "lax.exp2(3.0)", "Array(8., dtype=float32, weak_type=True)"),
    "expm1": ("`exp(x) - 1`, accurate for small `x` too.", "lax.expm1(1e-10)", "Array(1.e-10, dtype=float32, weak_type=True)"),
    "log": ("The natural logarithm; NaN for negative numbers.", "lax.log(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "log1p": ("`log(1 + x)`, accurate for small `x` too.", "lax.log1p(1e-10)", "Array(1.e-10, dtype=float32, weak_type=True)"),
    "sin": ("The sine of an angle in radians.", "lax.sin(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "cos": ("The cosine of an angle in radians.", "lax.cos(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "tan": ("The tangent of an angle in radians.", "lax.tan(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "tanh": ("The hyperbolic tangent.", "lax.tanh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "logistic": ("The logistic function `1 / (1 + exp(-x))`.",
                 "lax.logistic(0.0)", "Array(0.5, dtype=float32, weak_type=True)"),
    "sqrt": ("The square root; NaN for negative numbers.", "lax.sqrt(9.0)", "Array(3., dtype=float32, weak_type=True)"),
    "rsqrt": ("The inverse of the square root, `1 / sqrt(x)`.", "lax.rsqrt(4.0)", "Array(0.5, dtype=float32, weak_type=True)"),
    "cbrt": ("The cube root, which negative numbers have too.", "lax.cbrt(-8.0)", "Array(-2., dtype=float32, weak_type=True)"),
    "square": ("`x * x`.", "lax.square(-3.0)", "Array(9., dtype=float32, weak_type=True)"),
    "abs": ("The absolute value; that of a complex number is real.",
            "lax.abs(3.0 + 4.0j)", "Array(5., dtype=float32, weak_type=True)"),
    "sign": ("-1, 0 or 1, as `x` is negative, zero or positive; of a complex number `x / abs(x)`.",
             "lax.sign(-2.5)", "Array(-1., dtype=float32, weak_type=True)"),
    "floor": ("The greatest integer that is not above `x`, as a float.",
              "lax.floor(-1.5)", "Array(-2., dtype=float32, weak_type=True)"),
    "ceil": ("The least integer that is not below `x`, as a float.",
             "lax.ceil(-1.5)", "Array(-1., dtype=float32, weak_type=True)"),
    "is_finite": ("Whether a number is neither infinite nor NaN.",
                  "lax.is_finite(np.float32([1, np.inf, np.nan]))", "Array([ True, False, False], dtype=bool)"),
    "asin": ("The angle between `-pi/2` and `pi/2` whose sine is `x`; NaN outside of -1 to 1.",
             "lax.asin(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "acos": ("The angle between 0 and `pi` whose cosine is `x`; NaN outside of -1 to 1.",
             "lax.acos(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "atan": ("The angle between `-pi/2` and `pi/2` whose tangent is `x`.",
             "lax.atan(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "sinh": ("The hyperbolic sine.", "lax.sinh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "cosh": ("The hyperbolic cosine.", "lax.cosh(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "asinh": ("The number whose hyperbolic sine is `x`.", "lax.asinh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "acosh": ("The number whose hyperbolic cosine is `x`, not negative; NaN below 1.",
              "lax.acosh(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "atanh": ("The number whose hyperbolic tangent is `x`; NaN outside of -1 to 1.",
              "lax.atanh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "erf": ("The error function, `2 / sqrt(pi)` times the integral of `exp(-t^2)` from 0 to `x`.",
            "lax.erf(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "erfc": ("`1 - erf(x)`, accurate where that is small.", "lax.erfc(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "erf_inv": ("The number whose `erf` is `x`; NaN outside of -1 to 1.",
                "lax.erf_inv(1.0)", "Array(inf, dtype=float32, weak_type=True)"),
    "lgamma": ("The logarithm of the absolute value of the gamma function.", 'f"{lax.lgamma(10.0):.3f}"', "'12.802'"),
    "digamma": ("The derivative of `lgamma`.", 'f"{lax.digamma(1.0):.3f}"', "'-0.577'"),
    "population_count": ("How many bits of an integer are 1.",
                         "lax.population_count(7)", "Array(3, dtype=int32, weak_type=True)"),
    "clz": ("How many bits of an integer are 0 before the first 1.", "lax.clz(1)", "Array(31, dtype=int32, weak_type=True)"),
    "not": ("Every bit inverted; of booleans the contrary.", "lax.bitwise_not(5)", "Array(-6, dtype=int32, weak_type=True)"),
    "real": ("The real part.", "lax.real(1.0 + 2.0j)", "Array(1., dtype=float32, weak_type=True)"),
    "imag": ("The imaginary part.", "lax.imag(1.0 + 2.0j)", "Array(2., dtype=float32, weak_type=True)"),
    "add": ("`x + y`.", "lax.add(1.0, np.float32([1, 2]))", "Array([2., 3.], dtype=float32)"),
    "sub": ("`x - y`.", "lax.sub(1.0, np.float32([1, 2]))", "Array([ 0., -1.], dtype=float32)"),
    "div": ("`x / y`; of integers the quotient without its fraction.",
            "lax.div(-7, 2)", "Array(-3, dtype=int32, weak_type=True)"),
    "rem": ("What is left of `x` when it is divided by `y`, with the sign of `x` (as `numpy.fmod` has it).",
            "lax.rem(-7, 3)", "Array(-1, dtype=int32, weak_type=True)"),
    "max": ("The larger of two numbers; NaN if one is. Complex numbers go by their real parts, then by the imaginary ones.",
            "lax.max(2.0, np.float32([1, 3]))", "Array([2., 3.], dtype=float32)"),
    "min": ("The smaller of two numbers; NaN if one is. Complex numbers go by their real parts, then by the imaginary ones.",
            "lax.min(2.0, np.float32([1, 3]))", "Array([1., 2.], dtype=float32)"),
    "atan2": ("The angle between `-pi` and `pi` whose tangent is `x / y`: of the point `x` above the axis and `y` along it.",
              "lax.atan2(0.0, 1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "and": ("The bits that are 1 in both; of booleans whether both are true.",
            "lax.bitwise_and(6, 3)", "Array(2, dtype=int32, weak_type=True)"),
    "or": ("The bits that are 1 in one or in both; of booleans whether one is true.",
           "lax.bitwise_or(6, 3)", "Array(7, dtype=int32, weak_type=True)"),
    "xor": ("The bits that differ; of booleans whether they do.",
            "lax.bitwise_xor(6, 3)", "Array(5, dtype=int32, weak_type=True)"),
    "shift_left": ("The bits of `x` moved up by `y` places, zeros beneath.",
                   "lax.shift_left(3, 2)", "Array(12, dtype=int32, weak_type=True)"),
    "shift_right_arithmetic": ("The bits of `x` moved down by `y` places, copies of the sign above: `floor(x / 2**y)`.",
                               "lax.shift_right_arithmetic(-8, 1)", "Array(-4, dtype=int32, weak_type=True)"),
    "shift_right_logical": ("The bits of `x` moved down by `y` places, zeros above.",
                            "lax.shift_right_logical(np.int8(-8), np.int8(1))", "Array(124, dtype=int8)"),
    "eq": ("Whether `x` equals `y`.", "lax.eq(2, np.int32([1, 2, 3]))", "Array([False,  True, False], dtype=bool)"),
    "ne": ("Whether `x` differs from `y`; a NaN does from everything.",
           "lax.ne(2, np.int32([1, 2, 3]))", "Array([ True, False,  True], dtype=bool)"),
    "ge": ("Whether `x` is greater than or equal to `y`.",
           "lax.ge(2, np.int32([1, 2, 3]))", "Array([ True,  True, False], dtype=bool)"),
    "gt": ("Whether `x` is greater than `y`.", "lax.gt(2, np.int32([1, 2, 3]))", "Array([ True, False, False], dtype=bool)"),
    "le": ("Whether `x` is less than or equal to `y`.",
           "lax.le(2, np.int32([1, 2, 3]))", "Array([False,  True,  True], dtype=bool)"),
    "lt": ("Whether `x` is less than `y`.", "lax.lt(2, np.int32([1, 2, 3]))", "Array([False, False,  True], dtype=bool)"),
    "pow": ("`x` to the power `y`, which has the dtype of `x` or is of integers.",
            "lax.pow(2.0, 3.0)", "Array(8., dtype=float32, weak_type=True)"),
    "complex": ("The complex number with the real part `x` and the imaginary part `y`.",
                "lax.complex(1.0, 2.0)", "Array(1.+2.j, dtype=complex64, weak_type=True)"),
}
_KINDS = {"bool": "booleans", "int": "integers", "bytes": "integers of 8 bits or more", "signed": "signed integers",
          "float": "floats", "float32": "floats of 32 or 64 bits", "complex": "complex numbers", "key": "random keys"}


def documentation(name: str, arity: int, accepts: str, accuracy: bool) -> str:
    """The docstring of a function of one array or two; `accepts` lists dtypes as the row of the primitive does."""
    words, example, gives = FUNCTIONS[name]
    *kinds, last = [_KINDS[kind] for kind in accepts.split()]
    operands = f"of {', '.join(kinds)} or {last}" if kinds else f"of {last}"
    if arity == 1:
        bullets = f"- `x`: an array {operands}, or a number."
    else:
        bullets = (f"- `x`, `y`: arrays {operands}, or numbers.\n  They have one dtype, and shapes of one "
                   f"rank that differ only where a size is 1; scalars go with any shape.\n  For others, "
                   f"`xlafront.numpy` promotes and broadcasts.")
    if accuracy:
        bullets += ("\n- `accuracy`: how exactly, an `AccuracyMode` or a `Tolerance`, where the hardware offers "
                    "a choice; None: as usual.")
    return f"{words}\n\n{bullets}\n\n>>> {example}\n{gives}"
