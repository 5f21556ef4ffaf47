"""Docstrings of functions that are made by tables: of the elementwise ones what they compute, and how any is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_ONE = "an array or a number."
_TWO = "arrays or numbers, promoted to one dtype and broadcast to one shape."
MUST_BE_NONE = "of NumPy's signature; only None is taken, arrays do not change."
_PARAMETERS = {"x": _ONE, "val": _ONE, "out": MUST_BE_NONE, "where": MUST_BE_NONE}
_PARAMETERS_OF_TWO = {"x": _TWO, "y": _TWO, "x1": _TWO, "x2": _TWO, "out": MUST_BE_NONE, "where": MUST_BE_NONE}


def docstring(function: Callable, says: str, example: str, parameters: Mapping[str, str]) -> str:
    """What a function says of itself: a sentence, a line for each parameter (one for those alike), an example."""
    code = function.__code__
    alike: dict[str, list[str]] = {}
    for name in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]:
        alike.setdefault(parameters[name], []).append(f"`{name}`")
    lines = [f"- {', '.join(names)}: {text}" for text, names in alike.items()]
    return "\n".join([says, "", *lines, "", example])


def ufunc_docstring(name: str, function: Callable) -> str:
    says, arguments, result = _UFUNCS[_OTHER_NAMES.get(name, name)]
    if name in _OTHER_NAMES:
        says = f"{says} Another name of it is `{_OTHER_NAMES[name]}`."
    second = function.__code__.co_varnames[1:function.__code__.co_argcount]
    parameters = _PARAMETERS_OF_TWO if second in (("y",), ("x2",)) else _PARAMETERS
    return docstring(function, says, f">>> xnp.{name}({arguments})\n{result}", parameters)


_OTHER_NAMES = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "bitwise_invert": "invert", "bitwise_not": "invert", "degrees": "rad2deg", "radians": "deg2rad",
    "true_divide": "divide",
}
# name: (what it computes, arguments of an example, its result)
_UFUNCS = {
    "absolute": ("The absolute value; of complex numbers the magnitude, a real number.",
        "xnp.array([-1, 2])", "Array([1, 2], dtype=int32)"),
    "acos": ("The angle between 0 and pi that has this cosine; NaN outside of -1 to 1.",
        "xnp.array([1.0, -1.0])", "Array([0.       , 3.1415927], dtype=float32)"),
    "acosh": ("The inverse of `cosh`, not negative; NaN below 1.", "xnp.array([1.0, 0.0])", "Array([ 0., nan], dtype=float32)"),
    "add": ("The sum, as `x1 + x2`; of booleans, whether one of them is true.",
        "xnp.array([1, 2]), xnp.array([0.5, 1.5])", "Array([1.5, 3.5], dtype=float32)"),
    "asin": ("The angle between -pi/2 and pi/2 that has this sine; NaN outside of -1 to 1.",
        "xnp.array([0.0, 1.0])", "Array([0.       , 1.5707964], dtype=float32)"),
    "asinh": ("The inverse of `sinh`.", "xnp.array([0.0, xnp.inf])", "Array([ 0., inf], dtype=float32)"),
    "atan": ("The angle between -pi/2 and pi/2 that has this tangent.",
        "xnp.array([0.0, xnp.inf])", "Array([0.       , 1.5707964], dtype=float32)"),
    "atan2": ("The angle from -pi to pi of the point with height `x1` and width `x2`.",
        "0.0, xnp.array([1.0, -1.0])", "Array([0.       , 3.1415927], dtype=float32)"),
    "atanh": ("The inverse of `tanh`; NaN outside of -1 to 1.", "xnp.array([0.0, 1.0])", "Array([ 0., inf], dtype=float32)"),
    "bitwise_and": ("The bits that are set in both, as `x1 & x2`; of booleans, whether both are true.",
        "6, xnp.array([3, 4])", "Array([2, 4], dtype=int32)"),
    "bitwise_count": ("The number of bits that are set in the absolute value, as uint8.",
        "xnp.array([7, -8])", "Array([3, 1], dtype=uint8)"),
    "bitwise_or": ("The bits that are set in one or both, as `x1 | x2`; of booleans, whether one of them is true.",
        "6, xnp.array([3, 4])", "Array([7, 6], dtype=int32)"),
    "bitwise_xor": ("The bits that are set in just one of both, as `x1 ^ x2`; of booleans, whether they differ.",
        "6, xnp.array([3, 4])", "Array([5, 2], dtype=int32)"),
    "cbrt": ("The real cube root, also of negative numbers.", "xnp.array([8.0, -27.0])", "Array([ 2., -3.], dtype=float32)"),
    "ceil": ("The least integer that is not below; integers and booleans keep their dtype.",
        "xnp.array([1.2, -1.2])", "Array([ 2., -1.], dtype=float32)"),
    "conjugate": ("The complex conjugate; real arrays stay as they are. `conj` and `conjugate` are two names of it.",
        "xnp.array([1 + 2j])", "Array([1.-2.j], dtype=complex64)"),
    "copysign": ("The magnitude of `x1` with the sign of `x2`, which -0.0 has too.",
        "3.0, xnp.array([1.0, -0.0])", "Array([ 3., -3.], dtype=float32)"),
    "cos": ("The cosine of angles in radians.", "xnp.array([0.0, xnp.pi])", "Array([ 1., -1.], dtype=float32)"),
    "cosh": ("The hyperbolic cosine.", "xnp.array([0.0, xnp.inf])", "Array([ 1., inf], dtype=float32)"),
    "deg2rad": ("Degrees as radians.", "xnp.array([0.0, 180.0])", "Array([0.       , 3.1415927], dtype=float32)"),
    "divide": (
        "The quotient, as `x1 / x2`: integers become floats. Division by 0 gives an infinity or NaN, without a warning.",
        "xnp.array([1, -1, 0]), xnp.array([2, 0, 0])", "Array([ 0.5, -inf,  nan], dtype=float32)"),
    "divmod": ("Quotient and remainder, `(x1 // x2, x1 % x2)`.",
        "xnp.array([7, -7]), 3", "(Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))"),
    "equal": ("Whether elements are equal, as `x == y`; NaN equals nothing.",
        "xnp.array([1.0, xnp.nan]), xnp.array([1.0, xnp.nan])", "Array([ True, False], dtype=bool)"),
    "exp": ("The exponential function.", "xnp.array([0.0, -xnp.inf])", "Array([1., 0.], dtype=float32)"),
    "exp2": ("2 to the power of `x`.", "xnp.array([3, -1])", "Array([8. , 0.5], dtype=float32)"),
    "expm1": ("`exp(x) - 1`, exact for small numbers as well.",
        "xnp.array([0.0, 1e-10])", "Array([0.e+00, 1.e-10], dtype=float32)"),
    "fabs": ("The absolute value as a float; complex numbers are refused.",
        "xnp.array([-1, 2])", "Array([1., 2.], dtype=float32)"),
    "float_power": ("`x ** y` in floating point, of integers too; NumPy computes it in double precision.",
        "xnp.array([2, 4]), -1", "Array([0.5 , 0.25], dtype=float32)"),
    "floor": ("The greatest integer that is not above; integers and booleans keep their dtype.",
        "xnp.array([1.8, -1.2])", "Array([ 1., -2.], dtype=float32)"),
    "floor_divide": ("The quotient rounded down, as `x1 // x2`; of integers by 0 it has no meaning (NumPy warns and gives 0).",
        "xnp.array([7, -7]), 3", "Array([ 2, -3], dtype=int32)"),
    "fmax": ("The greater element; where one is NaN, the other one.",
        "xnp.array([1.0, xnp.nan]), 0.5", "Array([1. , 0.5], dtype=float32)"),
    "fmin": ("The smaller element; where one is NaN, the other one.",
        "xnp.array([1.0, xnp.nan]), 0.5", "Array([0.5, 0.5], dtype=float32)"),
    "fmod": ("The remainder with the sign of `x1`, as C's `fmod`; `remainder` has that of `x2`.",
        "xnp.array([7, -7]), 3", "Array([ 1, -1], dtype=int32)"),
    "greater": ("Whether `x > y`; complex numbers go by real part, then by imaginary part.",
        "xnp.array([1, 2, 3]), 2", "Array([False, False,  True], dtype=bool)"),
    "greater_equal": ("Whether `x >= y`; complex numbers go by real part, then by imaginary part.",
        "xnp.array([1, 2, 3]), 2", "Array([False,  True,  True], dtype=bool)"),
    "heaviside": ("The step function: 0 where `x1` is negative, 1 where it is positive, `x2` where it is 0.",
        "xnp.array([-1.0, 0.0, 1.0]), 0.5", "Array([0. , 0.5, 1. ], dtype=float32)"),
    "hypot": (
        "The longest side of a right-angled triangle, `sqrt(x1**2 + x2**2)` without overflow; complex numbers are refused.",
        "3.0, xnp.array([4.0, 0.0])", "Array([5., 3.], dtype=float32)"),
    "imag": ("The imaginary part; zeros of real arrays.", "xnp.array([1 + 2j, 3])", "Array([2., 0.], dtype=float32)"),
    "invert": ("All bits flipped, as `~x`; of booleans the negation.", "xnp.array([0, 5])", "Array([-1, -6], dtype=int32)"),
    "iscomplex": ("Whether the imaginary part is other than 0.", "xnp.array([1j, 2])", "Array([ True, False], dtype=bool)"),
    "isfinite": ("Whether elements are neither infinite nor NaN.",
        "xnp.array([1.0, xnp.inf, xnp.nan])", "Array([ True, False, False], dtype=bool)"),
    "isinf": ("Whether elements are infinite, with either sign.",
        "xnp.array([1.0, -xnp.inf, xnp.nan])", "Array([False,  True, False], dtype=bool)"),
    "isnan": ("Whether elements are NaN; of complex numbers, whether a part is.",
        "xnp.array([1.0, xnp.inf, xnp.nan])", "Array([False, False,  True], dtype=bool)"),
    "isneginf": ("Whether elements are minus infinity; complex numbers are refused.",
        "xnp.array([1.0, xnp.inf, -xnp.inf])", "Array([False, False,  True], dtype=bool)"),
    "isposinf": ("Whether elements are plus infinity; complex numbers are refused.",
        "xnp.array([1.0, xnp.inf, -xnp.inf])", "Array([False,  True, False], dtype=bool)"),
    "isreal": ("Whether the imaginary part is 0, as it always is for real arrays.",
        "xnp.array([1j, 2])", "Array([False,  True], dtype=bool)"),
    "left_shift": (
        "The bits moved `y` places to the left, as `x << y`, with zeros on the right. `left_shift` and "
        "`bitwise_left_shift` are two names of it.",
        "xnp.array([1, 3]), 2", "Array([ 4, 12], dtype=int32)"),
    "less": ("Whether `x < y`; complex numbers go by real part, then by imaginary part.",
        "xnp.array([1, 2, 3]), 2", "Array([ True, False, False], dtype=bool)"),
    "less_equal": ("Whether `x <= y`; complex numbers go by real part, then by imaginary part.",
        "xnp.array([1, 2, 3]), 2", "Array([ True,  True, False], dtype=bool)"),
    "log": ("The natural logarithm; NaN of negative real numbers, minus infinity of 0, without a warning.",
        "xnp.array([1.0, 0.0, -1.0])", "Array([  0., -inf,  nan], dtype=float32)"),
    "log10": ("The logarithm to base 10.", "xnp.array([1, 0])", "Array([  0., -inf], dtype=float32)"),
    "log1p": ("`log(1 + x)`, exact for small numbers as well.",
        "xnp.array([0.0, 1e-10])", "Array([0.e+00, 1.e-10], dtype=float32)"),
    "log2": ("The logarithm to base 2.", "xnp.array([1, 0])", "Array([  0., -inf], dtype=float32)"),
    "logaddexp": ("`log(exp(x1) + exp(x2))` without overflow.",
        "1000.0, xnp.array([0.0, 2000.0])", "Array([1000., 2000.], dtype=float32)"),
    "logaddexp2": ("`log2(2 ** x1 + 2 ** x2)` without overflow.",
        "1000.0, xnp.array([1000.0, 0.0])", "Array([1001., 1000.], dtype=float32)"),
    "logical_and": ("Whether both are true; numbers other than 0 are.",
        "xnp.array([0, 1, 2]), True", "Array([False,  True,  True], dtype=bool)"),
    "logical_not": ("Whether elements are false; of numbers, 0.",
        "xnp.array([0, 1, 2])", "Array([ True, False, False], dtype=bool)"),
    "logical_or": ("Whether one or both are true; numbers other than 0 are.",
        "xnp.array([0, 1, 2]), False", "Array([False,  True,  True], dtype=bool)"),
    "logical_xor": ("Whether just one of both is true; numbers other than 0 are.",
        "xnp.array([0, 1, 2]), True", "Array([ True, False, False], dtype=bool)"),
    "maximum": ("The greater element; NaN where one is NaN.",
        "xnp.array([1.0, 3.0, xnp.nan]), 2.0", "Array([ 2.,  3., nan], dtype=float32)"),
    "minimum": ("The smaller element; NaN where one is NaN.",
        "xnp.array([1.0, 3.0, xnp.nan]), 2.0", "Array([ 1.,  2., nan], dtype=float32)"),
    "multiply": ("The product, as `x1 * x2`; of booleans, whether both are true.",
        "xnp.array([1, 2]), xnp.array([0.5, 1.5])", "Array([0.5, 3. ], dtype=float32)"),
    "negative": ("The number with the other sign, as `-x`; unsigned integers wrap around.",
        "xnp.array([1, -2])", "Array([-1,  2], dtype=int32)"),
    "nextafter": ("The next number that the dtype has, from `x` in the direction of `y`.",
        "xnp.array([1.0]), 2.0", "Array([1.0000001], dtype=float32)"),
    "not_equal": ("Whether elements differ, as `x != y`; NaN differs from everything.",
        "xnp.array([1.0, xnp.nan]), xnp.array([1.0, xnp.nan])", "Array([False,  True], dtype=bool)"),
    "positive": ("The array as it is, as `+x`.", "xnp.array([1, -2])", "Array([ 1, -2], dtype=int32)"),
    "rad2deg": ("Radians as degrees.", "xnp.array([0.0, xnp.pi])", "Array([  0., 180.], dtype=float32)"),
    "real": ("The real part; real arrays stay as they are.", "xnp.array([1 + 2j, 3])", "Array([1., 3.], dtype=float32)"),
    "reciprocal": ("`1 / x`, of integers as a float (NumPy's is an integer).",
        "xnp.array([1, 4])", "Array([1.  , 0.25], dtype=float32)"),
    "remainder": (
        "The remainder with the sign of `x2`, as `x1 % x2`; of integers by 0 it is 0. `mod` and `remainder` are two names of "
        "it.",
        "xnp.array([7, -7]), 3", "Array([1, 2], dtype=int32)"),
    "right_shift": (
        "The bits moved `x2` places to the right, as `x1 >> x2`; signed integers keep their sign. `right_shift` and "
        "`bitwise_right_shift` are two names of it.",
        "xnp.array([8, -8]), 2", "Array([ 2, -2], dtype=int32)"),
    "rint": ("The nearest integer, halves to the even one, as a float.",
        "xnp.array([0.5, 1.5, 1.7])", "Array([0., 2., 2.], dtype=float32)"),
    "sign": ("-1, 0 or 1, by the sign; complex numbers divided by their magnitude.",
        "xnp.array([-5, 0, 3])", "Array([-1,  0,  1], dtype=int32)"),
    "signbit": ("Whether the sign bit is set, as it is of -0.0; complex numbers are refused.",
        "xnp.array([-0.0, 0.0, -1.0])", "Array([ True, False,  True], dtype=bool)"),
    "sin": ("The sine of angles in radians.", "xnp.array([0.0, xnp.pi / 2])", "Array([0., 1.], dtype=float32)"),
    "sinc": ("`sin(pi x) / (pi x)`, 1 at 0.",
        "xnp.array([0.0])", "Array([1.], dtype=float32)"),
    "sinh": ("The hyperbolic sine.", "xnp.array([0.0, xnp.inf])", "Array([ 0., inf], dtype=float32)"),
    "sqrt": ("The square root that is not negative; NaN of negative real numbers, without a warning.",
        "xnp.array([4.0, -1.0])", "Array([ 2., nan], dtype=float32)"),
    "square": ("`x * x`; of booleans as integers.", "xnp.array([-2, 3])", "Array([4, 9], dtype=int32)"),
    "subtract": ("The difference, as `x1 - x2`; booleans are refused.",
        "xnp.array([1, 2]), xnp.array([0.5, 1.5])", "Array([0.5, 0.5], dtype=float32)"),
    "tan": ("The tangent of angles in radians.", "xnp.array([0.0])", "Array([0.], dtype=float32)"),
    "tanh": ("The hyperbolic tangent.", "xnp.array([0.0, xnp.inf])", "Array([0., 1.], dtype=float32)"),
    "trunc": ("The integer part: rounded towards 0; integers and booleans keep their dtype.",
        "xnp.array([1.8, -1.8])", "Array([ 1., -1.], dtype=float32)"),
}
