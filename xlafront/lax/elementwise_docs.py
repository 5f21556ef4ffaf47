"""Docstrings of the elementwise functions that are made from tables: a summary and an example of each.

The functions themselves are in `elementwise_functions`.
"""

from __future__ import annotations

# name: summary (and more prose after an empty line), example, output of the example
FUNCTIONS = {
    "neg": ("Compute `-x`.", "lax.neg(2.0)", "Array(-2., dtype=float32, weak_type=True)"),
    "exp": ("Compute the exponential function.", "lax.exp(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "exp2": ("Compute 2 to the power `x`.", "lax.exp2(3.0)", "Array(8., dtype=float32, weak_type=True)"),
    "expm1": ("Compute `exp(x) - 1`, accurate for small `x` too.",
              "lax.expm1(1e-10)", "Array(1.e-10, dtype=float32, weak_type=True)"),
    "log": ("Compute the natural logarithm; NaN for negative numbers.",
            "lax.log(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "log2": ("Compute the base-2 logarithm; NaN for negative numbers.",
             "lax.log2(8.0)", "Array(3., dtype=float32, weak_type=True)"),
    "log1p": ("Compute `log(1 + x)`, accurate for small `x` too.",
              "lax.log1p(1e-10)", "Array(1.e-10, dtype=float32, weak_type=True)"),
    "sin": ("Compute the sine of angles in radians.", "lax.sin(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "cos": ("Compute the cosine of angles in radians.", "lax.cos(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "tan": ("Compute the tangent of angles in radians.", "lax.tan(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "tanh": ("Compute the hyperbolic tangent.", "lax.tanh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "logistic": ("Compute the logistic function `1 / (1 + exp(-x))`.",
                 "lax.logistic(0.0)", "Array(0.5, dtype=float32, weak_type=True)"),
    "sqrt": ("Compute the square root; NaN for negative numbers.", "lax.sqrt(9.0)", "Array(3., dtype=float32, weak_type=True)"),
    "rsqrt": ("Compute the reciprocal square root `1 / sqrt(x)`.",
              "lax.rsqrt(4.0)", "Array(0.5, dtype=float32, weak_type=True)"),
    "cbrt": ("Compute the real cube root, also of negative numbers.",
             "lax.cbrt(-8.0)", "Array(-2., dtype=float32, weak_type=True)"),
    "square": ("Compute `x * x`.", "lax.square(-3.0)", "Array(9., dtype=float32, weak_type=True)"),
    "one_minus_square": (
        "Compute `1 - x * x`, accurate for `x` close to 1 and -1 too.\n\nThe derivative is `-2 * x`.",
        "lax.one_minus_square(0.5)", "Array(0.75, dtype=float32, weak_type=True)"),
    "abs": ("Compute the absolute value.", "lax.abs(3.0 + 4.0j)", "Array(5., dtype=float32, weak_type=True)"),
    "sign": ("Compute the sign: -1, 0 or 1; `x / abs(x)` for complex numbers.",
             "lax.sign(-2.5)", "Array(-1., dtype=float32, weak_type=True)"),
    "floor": ("Round down to the nearest integer, without changing the dtype.",
              "lax.floor(-1.5)", "Array(-2., dtype=float32, weak_type=True)"),
    "ceil": ("Round up to the nearest integer, without changing the dtype.",
             "lax.ceil(-1.5)", "Array(-1., dtype=float32, weak_type=True)"),
    "is_finite": ("Test whether numbers are neither infinite nor NaN.",
                  "lax.is_finite(np.float32([1, np.inf, np.nan]))", "Array([ True, False, False], dtype=bool)"),
    "asin": ("Compute the inverse sine, between `-pi/2` and `pi/2`; NaN outside of [-1, 1].",
             "lax.asin(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "acos": ("Compute the inverse cosine, between 0 and `pi`; NaN outside of [-1, 1].",
             "lax.acos(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "atan": ("Compute the inverse tangent, between `-pi/2` and `pi/2`.",
             "lax.atan(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "sinh": ("Compute the hyperbolic sine.", "lax.sinh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "cosh": ("Compute the hyperbolic cosine.", "lax.cosh(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "asinh": ("Compute the inverse hyperbolic sine.", "lax.asinh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "acosh": ("Compute the non-negative inverse hyperbolic cosine; NaN below 1.",
              "lax.acosh(1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "atanh": ("Compute the inverse hyperbolic tangent; NaN outside of [-1, 1].",
              "lax.atanh(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "erf": ("Compute the error function: `2 / sqrt(pi)` times the integral of `exp(-t^2)` from 0 to `x`.",
            "lax.erf(0.0)", "Array(0., dtype=float32, weak_type=True)"),
    "erfc": ("Compute `1 - erf(x)`, accurate where the result is small.",
             "lax.erfc(0.0)", "Array(1., dtype=float32, weak_type=True)"),
    "erf_inv": ("Compute the inverse of `erf`; NaN outside of [-1, 1].",
                "lax.erf_inv(1.0)", "Array(inf, dtype=float32, weak_type=True)"),
    "lgamma": ("Compute the logarithm of the absolute value of the gamma function.", 'f"{lax.lgamma(10.0):.3f}"', "'12.802'"),
    "digamma": ("Compute the derivative of `lgamma`.", 'f"{lax.digamma(1.0):.3f}"', "'-0.577'"),
    "population_count": ("Count the bits of integers that are 1.",
                         "lax.population_count(7)", "Array(3, dtype=int32, weak_type=True)"),
    "clz": ("Count the leading zero bits of integers.", "lax.clz(1)", "Array(31, dtype=int32, weak_type=True)"),
    "not": ("Invert all bits of integers, or negate booleans.", "lax.bitwise_not(5)", "Array(-6, dtype=int32, weak_type=True)"),
    "real": ("Return the real component of complex numbers.",
             "lax.real(1.0 + 2.0j)", "Array(1., dtype=float32, weak_type=True)"),
    "imag": ("Return the imaginary component of complex numbers.",
             "lax.imag(1.0 + 2.0j)", "Array(2., dtype=float32, weak_type=True)"),
    "add": ("Compute `x + y`.", "lax.add(1.0, np.float32([1, 2]))", "Array([2., 3.], dtype=float32)"),
    "sub": ("Compute `x - y`.", "lax.sub(1.0, np.float32([1, 2]))", "Array([ 0., -1.], dtype=float32)"),
    "div": ("Compute `x / y`; integer quotients are truncated toward zero.",
            "lax.div(-7, 2)", "Array(-3, dtype=int32, weak_type=True)"),
    "rem": ("Compute the remainder of `x / y` with the sign of `x`, as `numpy.fmod` does.",
            "lax.rem(-7, 3)", "Array(-1, dtype=int32, weak_type=True)"),
    "max": ("Compute the maximum of `x` and `y`; NaN if either is NaN.\n\n"
            "Complex numbers are ordered by their real components, then by their imaginary components.",
            "lax.max(2.0, np.float32([1, 3]))", "Array([2., 3.], dtype=float32)"),
    "min": ("Compute the minimum of `x` and `y`; NaN if either is NaN.\n\n"
            "Complex numbers are ordered by their real components, then by their imaginary components.",
            "lax.min(2.0, np.float32([1, 3]))", "Array([1., 2.], dtype=float32)"),
    "atan2": ("Compute the angle of the point with ordinate `x` and abscissa `y`, between `-pi` and `pi`.\n\n"
              "For a positive `y` this is `atan(x / y)`.",
              "lax.atan2(0.0, 1.0)", "Array(0., dtype=float32, weak_type=True)"),
    "and": ("Compute the bitwise AND of integers, or the logical AND of booleans.",
            "lax.bitwise_and(6, 3)", "Array(2, dtype=int32, weak_type=True)"),
    "or": ("Compute the bitwise OR of integers, or the logical OR of booleans.",
           "lax.bitwise_or(6, 3)", "Array(7, dtype=int32, weak_type=True)"),
    "xor": ("Compute the bitwise XOR of integers, or the logical XOR of booleans.",
            "lax.bitwise_xor(6, 3)", "Array(5, dtype=int32, weak_type=True)"),
    "shift_left": ("Shift the bits of `x` left by `y`, filling with zeros.",
                   "lax.shift_left(3, 2)", "Array(12, dtype=int32, weak_type=True)"),
    "shift_right_arithmetic": ("Shift the bits of `x` right by `y`, filling with the sign bit: `floor(x / 2**y)`.",
                               "lax.shift_right_arithmetic(-8, 1)", "Array(-4, dtype=int32, weak_type=True)"),
    "shift_right_logical": ("Shift the bits of `x` right by `y`, filling with zeros.",
                            "lax.shift_right_logical(np.int8(-8), np.int8(1))", "Array(124, dtype=int8)"),
    "eq": ("Compare elementwise: `x == y`.", "lax.eq(2, np.int32([1, 2, 3]))", "Array([False,  True, False], dtype=bool)"),
    "ne": ("Compare elementwise: `x != y`; a NaN differs from everything, itself included.",
           "lax.ne(2, np.int32([1, 2, 3]))", "Array([ True, False,  True], dtype=bool)"),
    "ge": ("Compare elementwise: `x >= y`.", "lax.ge(2, np.int32([1, 2, 3]))", "Array([ True,  True, False], dtype=bool)"),
    "gt": ("Compare elementwise: `x > y`.", "lax.gt(2, np.int32([1, 2, 3]))", "Array([ True, False, False], dtype=bool)"),
    "le": ("Compare elementwise: `x <= y`.", "lax.le(2, np.int32([1, 2, 3]))", "Array([False,  True,  True], dtype=bool)"),
    "lt": ("Compare elementwise: `x < y`.", "lax.lt(2, np.int32([1, 2, 3]))", "Array([False, False,  True], dtype=bool)"),
    "pow": ("Compute `x` to the power `y`.\n\n"
            "The exponent has the dtype of `x` or any integer dtype.",
            "lax.pow(2.0, 3.0)", "Array(8., dtype=float32, weak_type=True)"),
    "complex": ("Make complex numbers of their real components `x` and imaginary components `y`.",
                "lax.complex(1.0, 2.0)", "Array(1.+2.j, dtype=complex64, weak_type=True)"),
}
_KINDS = {"bool": "booleans", "int": "integers", "bytes": "integers of 8 bits or more", "signed": "signed integers",
          "float": "floats", "float32": "floats of 32 or 64 bits", "complex": "complex numbers", "key": "random keys"}
_RESULTS = {
    "abs": "The absolute values; real for complex numbers.", "real": "A real array.", "imag": "A real array.",
    "complex": "A complex array.", "pow": "An array of the dtype of `x`.",
    **dict.fromkeys(("is_finite", "eq", "ne", "ge", "gt", "le", "lt"), "An array of booleans.")}
_ACCURACY = """
    accuracy: Accuracy of the computation, an `AccuracyMode` or a `Tolerance`, where the hardware offers a choice. Default: the
        usual one."""


def documentation(name: str, arity: int, accepts: str, accuracy: bool) -> str:
    """Return the docstring of a function of one or two arrays; `accepts` lists dtypes as the row of the primitive does."""
    summary, example, output = FUNCTIONS[name]
    *kinds, last = [_KINDS[kind] for kind in accepts.split()]
    kind = f"{', '.join(kinds)} or {last}" if kinds else last
    if arity == 1:
        result = _RESULTS.get(name, "An array of the shape and dtype of `x`.")
        args = f"x: Array of {kind}, or a scalar."
    else:
        result = _RESULTS.get(name, "An array of the dtype of the operands.")
        args = f"""x, y: Arrays of {kind}, or scalars, of one dtype.
        Shapes have equal rank, and sizes that are equal or 1; scalars combine with any shape. `xlafront.numpy` promotes and
        broadcasts other operands."""
    return f"""{summary}

Args:
    {args}{_ACCURACY if accuracy else ""}

Returns:
    {result}

Example:
    >>> {example}
    {output}
"""
