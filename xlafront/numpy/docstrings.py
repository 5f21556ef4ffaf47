"""Build the docstrings of functions that are made from tables: summary, `Args`, `Returns`, `Note` and `Example` sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping

MUST_BE_NONE = "Must be None (for compatibility with NumPy): arrays are immutable."
_OPERAND = "Array or scalar."
_OPERANDS = "Arrays or scalars, promoted to a common dtype and broadcast to a common shape."
_PARAMETERS = {"x": _OPERAND, "val": _OPERAND, "out": MUST_BE_NONE, "where": MUST_BE_NONE}
_BINARY_PARAMETERS = _PARAMETERS | dict.fromkeys(("x", "y", "x1", "x2"), _OPERANDS)


def docstring(function: Callable, summary: str, example: str, parameters: Mapping[str, str], returns: str = "",
              details: str = "", note: str = "") -> str:
    """Return a docstring with sections; consecutive parameters with the same text share one entry.

    `parameters` has a text for each parameter of `function`; `summary` is one line, `example` a doctest.
    """
    code = function.__code__
    names_of: dict[str, list[str]] = {}
    for name in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]:
        names_of.setdefault(parameters[name], []).append(name)
    entries = "\n".join([f"{', '.join(names)}: {text}" for text, names in names_of.items()])
    sections = (("Args", entries), ("Returns", returns), ("Note", note), ("Example", example))
    bodies = [f"{title}:\n{body}".replace("\n", "\n    ") for title, body in sections if body]
    return "\n\n".join([text for text in (summary, details, *bodies) if text]) + "\n"


def ufunc_docstring(name: str, function: Callable) -> str:
    """Return the docstring of an elementwise function of `xlafront.numpy`."""
    summary, arguments, result, details, note = (*_UFUNCS[_ALIASES.get(name, name)], "", "")[:5]
    if name in _ALIASES:
        details = f"{details} It is an alias of `xnp.{_ALIASES[name]}`.".lstrip()
    is_binary = function.__code__.co_varnames[1:function.__code__.co_argcount] in (("y",), ("x2",))
    operand = "the common shape of the operands" if is_binary else f"the shape of `{function.__code__.co_varnames[0]}`"
    kind = {"divmod": "Quotients and remainders, two arrays"}.get(name, "Boolean array" if name in _PREDICATES else "Array")
    return docstring(function, summary, f">>> xnp.{name}({arguments})\n{result}",
                     _BINARY_PARAMETERS if is_binary else _PARAMETERS, f"{kind} with {operand}.", details, note)


_ALIASES = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "bitwise_invert": "invert", "bitwise_not": "invert", "degrees": "rad2deg", "radians": "deg2rad",
    "true_divide": "divide",
}
_PREDICATES = frozenset("""
    equal greater greater_equal iscomplex isfinite isinf isnan isneginf isposinf isreal less less_equal logical_and logical_not
    logical_or logical_xor not_equal signbit""".split())
# name: (summary, arguments of the example, its result[, details[, note]])
_UFUNCS = {
    "absolute": ("Compute the absolute value elementwise.", "xnp.array([-1, 2])", "Array([1, 2], dtype=int32)",
        "For complex numbers it is the magnitude, a real number."),
    "acos": ("Compute the inverse cosine elementwise.", "xnp.array([1.0, -1.0])",
        "Array([0.       , 3.1415927], dtype=float32)",
        "The result is in radians, from 0 to pi; NaN for real `x` outside [-1, 1]."),
    "acosh": ("Compute the inverse hyperbolic cosine elementwise.", "xnp.array([1.0, 0.0])",
        "Array([ 0., nan], dtype=float32)", "The result is nonnegative; NaN for real `x` below 1."),
    "add": ("Add two arrays elementwise, as `x1 + x2`.", "xnp.array([1, 2]), xnp.array([0.5, 1.5])",
        "Array([1.5, 3.5], dtype=float32)", "For booleans it is the logical OR."),
    "asin": ("Compute the inverse sine elementwise.", "xnp.array([0.0, 1.0])", "Array([0.       , 1.5707964], dtype=float32)",
        "The result is in radians, from -pi/2 to pi/2; NaN for real `x` outside [-1, 1]."),
    "asinh": ("Compute the inverse hyperbolic sine elementwise.", "xnp.array([0.0, xnp.inf])",
        "Array([ 0., inf], dtype=float32)"),
    "atan": ("Compute the inverse tangent elementwise.", "xnp.array([0.0, xnp.inf])",
        "Array([0.       , 1.5707964], dtype=float32)", "The result is in radians, from -pi/2 to pi/2."),
    "atan2": ("Compute the angle of the point (`x2`, `x1`) in the plane, elementwise.", "0.0, xnp.array([1.0, -1.0])",
        "Array([0.       , 3.1415927], dtype=float32)",
        "The result is in radians, from -pi to pi: the inverse tangent of `x1 / x2` in the right quadrant."),
    "atanh": ("Compute the inverse hyperbolic tangent elementwise.", "xnp.array([0.0, 1.0])",
        "Array([ 0., inf], dtype=float32)", "The result is NaN for real `x` outside [-1, 1]."),
    "bitwise_and": ("Compute the bitwise AND elementwise, as `x1 & x2`.", "6, xnp.array([3, 4])", "Array([2, 4], dtype=int32)",
        "For booleans it is the logical AND."),
    "bitwise_count": ("Count the set bits of the absolute value elementwise.", "xnp.array([7, -8])",
        "Array([3, 1], dtype=uint8)", "The counts have dtype uint8."),
    "bitwise_or": ("Compute the bitwise OR elementwise, as `x1 | x2`.", "6, xnp.array([3, 4])", "Array([7, 6], dtype=int32)",
        "For booleans it is the logical OR."),
    "bitwise_xor": ("Compute the bitwise exclusive OR elementwise, as `x1 ^ x2`.", "6, xnp.array([3, 4])",
        "Array([5, 2], dtype=int32)", "For booleans it is the logical exclusive OR."),
    "cbrt": ("Compute the real cube root elementwise.", "xnp.array([8.0, -27.0])", "Array([ 2., -3.], dtype=float32)",
        "Negative numbers have negative roots."),
    "ceil": ("Round up to the nearest integer elementwise.", "xnp.array([1.2, -1.2])", "Array([ 2., -1.], dtype=float32)",
        "Integers and booleans keep their dtype."),
    "conjugate": ("Compute the complex conjugate elementwise.", "xnp.array([1 + 2j])", "Array([1.-2.j], dtype=complex64)",
        "Real arrays are returned unchanged. `xnp.conj` is an alias."),
    "copysign": ("Copy the signs of `x2` to the magnitudes of `x1`, elementwise.", "3.0, xnp.array([1.0, -0.0])",
        "Array([ 3., -3.], dtype=float32)", "-0.0 counts as negative."),
    "cos": ("Compute the cosine of angles in radians, elementwise.", "xnp.array([0.0, xnp.pi])",
        "Array([ 1., -1.], dtype=float32)"),
    "cosh": ("Compute the hyperbolic cosine elementwise.", "xnp.array([0.0, xnp.inf])", "Array([ 1., inf], dtype=float32)"),
    "deg2rad": ("Convert angles from degrees to radians.", "xnp.array([0.0, 180.0])",
        "Array([0.       , 3.1415927], dtype=float32)"),
    "divide": ("Divide two arrays elementwise, as `x1 / x2`.", "xnp.array([1, -1, 0]), xnp.array([2, 0, 0])",
        "Array([ 0.5, -inf,  nan], dtype=float32)",
        "Integers are converted to floats. Division by zero gives an infinity or NaN.",
        "No warning is raised for division by zero."),
    "divmod": ("Compute quotient and remainder elementwise, `(x1 // x2, x1 % x2)`.", "xnp.array([7, -7]), 3",
        "(Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))"),
    "equal": ("Compare elementwise for equality, as `x == y`.", "xnp.array([1.0, xnp.nan]), xnp.array([1.0, xnp.nan])",
        "Array([ True, False], dtype=bool)", "NaN is not equal to anything."),
    "exp": ("Compute the exponential function elementwise.", "xnp.array([0.0, -xnp.inf])", "Array([1., 0.], dtype=float32)"),
    "exp2": ("Compute `2 ** x` elementwise.", "xnp.array([3, -1])", "Array([8. , 0.5], dtype=float32)"),
    "expm1": ("Compute `exp(x) - 1` elementwise, accurate for small `x`.", "xnp.array([0.0, 1e-10])",
        "Array([0.e+00, 1.e-10], dtype=float32)"),
    "fabs": ("Compute the absolute value elementwise, as a float.", "xnp.array([-1, 2])", "Array([1., 2.], dtype=float32)",
        "Complex numbers are not supported; use `xnp.abs`."),
    "float_power": ("Compute `x ** y` elementwise in floating point.", "xnp.array([2, 4]), -1",
        "Array([0.5 , 0.25], dtype=float32)", "Integers are converted to floats.",
        "NumPy computes in double precision; here the precision is that of the promoted operands."),
    "floor": ("Round down to the nearest integer elementwise.", "xnp.array([1.8, -1.2])", "Array([ 1., -2.], dtype=float32)",
        "Integers and booleans keep their dtype."),
    "floor_divide": ("Divide and round down elementwise, as `x1 // x2`.", "xnp.array([7, -7]), 3",
        "Array([ 2, -3], dtype=int32)", "",
        "The result of an integer division by zero is undefined; NumPy warns and returns 0."),
    "fmax": ("Compute the elementwise maximum, ignoring NaN.", "xnp.array([1.0, xnp.nan]), 0.5",
        "Array([1. , 0.5], dtype=float32)", "Where one operand is NaN, the result is the other one."),
    "fmin": ("Compute the elementwise minimum, ignoring NaN.", "xnp.array([1.0, xnp.nan]), 0.5",
        "Array([0.5, 0.5], dtype=float32)", "Where one operand is NaN, the result is the other one."),
    "fmod": ("Compute the remainder with the sign of `x1` elementwise, as C's `fmod`.", "xnp.array([7, -7]), 3",
        "Array([ 1, -1], dtype=int32)", "`xnp.remainder` has the sign of `x2`."),
    "greater": ("Compare elementwise, as `x > y`.", "xnp.array([1, 2, 3]), 2", "Array([False, False,  True], dtype=bool)",
        "Complex numbers are ordered by real part, then by imaginary part."),
    "greater_equal": ("Compare elementwise, as `x >= y`.", "xnp.array([1, 2, 3]), 2",
        "Array([False,  True,  True], dtype=bool)", "Complex numbers are ordered by real part, then by imaginary part."),
    "heaviside": ("Compute the Heaviside step function elementwise.", "xnp.array([-1.0, 0.0, 1.0]), 0.5",
        "Array([0. , 0.5, 1. ], dtype=float32)",
        "The result is 0 for negative `x1`, 1 for positive `x1`, and `x2` where `x1` is 0."),
    "hypot": ("Compute `sqrt(x1**2 + x2**2)` elementwise, without overflow.", "3.0, xnp.array([4.0, 0.0])",
        "Array([5., 3.], dtype=float32)", "Complex numbers are not supported."),
    "imag": ("Return the imaginary part elementwise.", "xnp.array([1 + 2j, 3])", "Array([2., 0.], dtype=float32)",
        "For real arrays it is zeros."),
    "invert": ("Invert all bits elementwise, as `~x`.", "xnp.array([0, 5])", "Array([-1, -6], dtype=int32)",
        "For booleans it is the logical NOT."),
    "iscomplex": ("Test elementwise for an imaginary part other than 0.", "xnp.array([1j, 2])",
        "Array([ True, False], dtype=bool)"),
    "isfinite": ("Test elementwise for numbers that are neither infinite nor NaN.", "xnp.array([1.0, xnp.inf, xnp.nan])",
        "Array([ True, False, False], dtype=bool)"),
    "isinf": ("Test elementwise for positive or negative infinity.", "xnp.array([1.0, -xnp.inf, xnp.nan])",
        "Array([False,  True, False], dtype=bool)"),
    "isnan": ("Test elementwise for NaN.", "xnp.array([1.0, xnp.inf, xnp.nan])", "Array([False, False,  True], dtype=bool)",
        "A complex number is NaN if its real or its imaginary part is."),
    "isneginf": ("Test elementwise for negative infinity.", "xnp.array([1.0, xnp.inf, -xnp.inf])",
        "Array([False, False,  True], dtype=bool)", "Complex numbers are not supported."),
    "isposinf": ("Test elementwise for positive infinity.", "xnp.array([1.0, xnp.inf, -xnp.inf])",
        "Array([False,  True, False], dtype=bool)", "Complex numbers are not supported."),
    "isreal": ("Test elementwise for an imaginary part of 0.", "xnp.array([1j, 2])", "Array([False,  True], dtype=bool)",
        "For real arrays all elements are True."),
    "left_shift": ("Shift the bits of `x` to the left by `y`, as `x << y`.", "xnp.array([1, 3]), 2",
        "Array([ 4, 12], dtype=int32)", "Zeros are shifted in. `xnp.bitwise_left_shift` is an alias."),
    "less": ("Compare elementwise, as `x < y`.", "xnp.array([1, 2, 3]), 2", "Array([ True, False, False], dtype=bool)",
        "Complex numbers are ordered by real part, then by imaginary part."),
    "less_equal": ("Compare elementwise, as `x <= y`.", "xnp.array([1, 2, 3]), 2", "Array([ True,  True, False], dtype=bool)",
        "Complex numbers are ordered by real part, then by imaginary part."),
    "log": ("Compute the natural logarithm elementwise.", "xnp.array([1.0, 0.0, -1.0])",
        "Array([  0., -inf,  nan], dtype=float32)", "The result is minus infinity for 0 and NaN for negative real numbers.",
        "No warning is raised for 0 or negative numbers."),
    "log10": ("Compute the base-10 logarithm elementwise.", "xnp.array([1, 0])", "Array([  0., -inf], dtype=float32)"),
    "log1p": ("Compute `log(1 + x)` elementwise, accurate for small `x`.", "xnp.array([0.0, 1e-10])",
        "Array([0.e+00, 1.e-10], dtype=float32)"),
    "log2": ("Compute the base-2 logarithm elementwise.", "xnp.array([1, 0])", "Array([  0., -inf], dtype=float32)"),
    "logaddexp": ("Compute `log(exp(x1) + exp(x2))` elementwise, without overflow.", "1000.0, xnp.array([0.0, 2000.0])",
        "Array([1000., 2000.], dtype=float32)"),
    "logaddexp2": ("Compute `log2(2 ** x1 + 2 ** x2)` elementwise, without overflow.", "1000.0, xnp.array([1000.0, 0.0])",
        "Array([1001., 1000.], dtype=float32)"),
    "logical_and": ("Compute the logical AND elementwise.", "xnp.array([0, 1, 2]), True",
        "Array([False,  True,  True], dtype=bool)", "Numbers other than 0 count as True."),
    "logical_not": ("Compute the logical NOT elementwise.", "xnp.array([0, 1, 2])", "Array([ True, False, False], dtype=bool)",
        "Numbers other than 0 count as True."),
    "logical_or": ("Compute the logical OR elementwise.", "xnp.array([0, 1, 2]), False",
        "Array([False,  True,  True], dtype=bool)", "Numbers other than 0 count as True."),
    "logical_xor": ("Compute the logical exclusive OR elementwise.", "xnp.array([0, 1, 2]), True",
        "Array([ True, False, False], dtype=bool)", "Numbers other than 0 count as True."),
    "maximum": ("Compute the elementwise maximum.", "xnp.array([1.0, 3.0, xnp.nan]), 2.0",
        "Array([ 2.,  3., nan], dtype=float32)", "The result is NaN where an operand is NaN; `xnp.fmax` ignores NaN."),
    "minimum": ("Compute the elementwise minimum.", "xnp.array([1.0, 3.0, xnp.nan]), 2.0",
        "Array([ 1.,  2., nan], dtype=float32)", "The result is NaN where an operand is NaN; `xnp.fmin` ignores NaN."),
    "multiply": ("Multiply two arrays elementwise, as `x1 * x2`.", "xnp.array([1, 2]), xnp.array([0.5, 1.5])",
        "Array([0.5, 3. ], dtype=float32)", "For booleans it is the logical AND."),
    "negative": ("Negate elementwise, as `-x`.", "xnp.array([1, -2])", "Array([-1,  2], dtype=int32)",
        "Unsigned integers wrap around."),
    "nextafter": ("Return the next representable number after `x` towards `y`, elementwise.", "xnp.array([1.0]), 2.0",
        "Array([1.0000001], dtype=float32)"),
    "not_equal": ("Compare elementwise for inequality, as `x != y`.", "xnp.array([1.0, xnp.nan]), xnp.array([1.0, xnp.nan])",
        "Array([False,  True], dtype=bool)", "NaN is not equal to anything."),
    "positive": ("Return the array unchanged, as `+x`.", "xnp.array([1, -2])", "Array([ 1, -2], dtype=int32)"),
    "rad2deg": ("Convert angles from radians to degrees.", "xnp.array([0.0, xnp.pi])", "Array([  0., 180.], dtype=float32)"),
    "real": ("Return the real part elementwise.", "xnp.array([1 + 2j, 3])", "Array([1., 3.], dtype=float32)",
        "Real arrays are returned unchanged."),
    "reciprocal": ("Compute `1 / x` elementwise.", "xnp.array([1, 4])", "Array([1.  , 0.25], dtype=float32)", "",
        "Integers are converted to floats; NumPy returns integers."),
    "remainder": ("Compute the remainder with the sign of `x2` elementwise, as `x1 % x2`.", "xnp.array([7, -7]), 3",
        "Array([1, 2], dtype=int32)", "The remainder of an integer division by zero is 0. `xnp.mod` is an alias."),
    "right_shift": ("Shift the bits of `x1` to the right by `x2`, as `x1 >> x2`.", "xnp.array([8, -8]), 2",
        "Array([ 2, -2], dtype=int32)",
        "The shift is arithmetic for signed integers, logical for unsigned ones. `xnp.bitwise_right_shift` is an alias."),
    "rint": ("Round to the nearest integer elementwise, ties to even.", "xnp.array([0.5, 1.5, 1.7])",
        "Array([0., 2., 2.], dtype=float32)", "Integers are converted to floats."),
    "sign": ("Return the sign elementwise: -1, 0 or 1.", "xnp.array([-5, 0, 3])", "Array([-1,  0,  1], dtype=int32)",
        "For complex numbers it is `x / abs(x)`, and 0 for 0."),
    "signbit": ("Test elementwise for a set sign bit.", "xnp.array([-0.0, 0.0, -1.0])",
        "Array([ True, False,  True], dtype=bool)", "The sign bit of -0.0 is set. Complex numbers are not supported."),
    "sin": ("Compute the sine of angles in radians, elementwise.", "xnp.array([0.0, xnp.pi / 2])",
        "Array([0., 1.], dtype=float32)"),
    "sinc": ("Compute the normalized sinc function `sin(pi x) / (pi x)` elementwise.", "xnp.array([0.0])",
        "Array([1.], dtype=float32)", "The result is 1 at 0."),
    "sinh": ("Compute the hyperbolic sine elementwise.", "xnp.array([0.0, xnp.inf])", "Array([ 0., inf], dtype=float32)"),
    "sqrt": ("Compute the nonnegative square root elementwise.", "xnp.array([4.0, -1.0])", "Array([ 2., nan], dtype=float32)",
        "The result is NaN for negative real numbers.", "No warning is raised for negative numbers."),
    "square": ("Compute `x * x` elementwise.", "xnp.array([-2, 3])", "Array([4, 9], dtype=int32)",
        "Booleans are converted to integers."),
    "subtract": ("Subtract two arrays elementwise, as `x1 - x2`.", "xnp.array([1, 2]), xnp.array([0.5, 1.5])",
        "Array([0.5, 0.5], dtype=float32)", "Booleans are not supported; use `xnp.logical_xor`."),
    "tan": ("Compute the tangent of angles in radians, elementwise.", "xnp.array([0.0])", "Array([0.], dtype=float32)"),
    "tanh": ("Compute the hyperbolic tangent elementwise.", "xnp.array([0.0, xnp.inf])", "Array([0., 1.], dtype=float32)"),
    "trunc": ("Round towards zero to the nearest integer elementwise.", "xnp.array([1.8, -1.8])",
        "Array([ 1., -1.], dtype=float32)", "Integers and booleans keep their dtype."),
}
