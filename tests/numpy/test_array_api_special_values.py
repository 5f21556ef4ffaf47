"""Special values of elementwise functions in the array API standard 2024.12: infinities, NaN, signed zeros, ends of domains.

A row is a case of the standard, tested in float32 and float64.
"""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

inf, nan, pi = np.inf, np.nan, np.pi
ODD = [(0.0, 0.0), (-0.0, -0.0)]  # zeros keep their signs
EVERY = [(inf, inf), (-inf, -inf)]  # and infinities theirs
ALL_VALUES = [*ODD, *EVERY, (3.0, 3.0), (-2.0, -2.0)]

ONE = {  # function: (argument, result), besides NaN of NaN
    "abs": [(-0.0, 0.0), (-inf, inf), (-2.5, 2.5)],
    "acos": [(1.5, nan), (-1.5, nan), (1.0, 0.0), (-1.0, pi)], "acosh": [(0.5, nan), (-inf, nan), (1.0, 0.0), (inf, inf)],
    "asin": [(1.5, nan), (-1.5, nan), *ODD], "asinh": [*ODD, *EVERY],
    "atan": [*ODD, (inf, pi / 2), (-inf, -pi / 2)], "atanh": [(-1.5, nan), (1.5, nan), (-1.0, -inf), (1.0, inf), *ODD],
    "ceil": [*ALL_VALUES, (-0.5, -0.0), (1.25, 2.0)], "floor": [*ALL_VALUES, (0.5, 0.0), (-0.5, -1.0)],
    "trunc": [*ALL_VALUES, (-0.5, -0.0), (0.5, 0.0), (-2.5, -2.0)],
    "round": [*ALL_VALUES, (0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (-2.5, -2.0)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)], "cosh": [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf)],
    "exp": [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)], "expm1": [*ODD, (inf, inf), (-inf, -1.0)],
    **{name: [(-1.0, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)] for name in ("log", "log2", "log10")},
    "log1p": [(-1.5, nan), (-1.0, -inf), *ODD, (inf, inf)], "negative": [(0.0, -0.0), (-0.0, 0.0), (inf, -inf)],
    "positive": ALL_VALUES, "reciprocal": [(0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, -0.0)],
    "sign": [(0.0, 0.0), (-inf, -1.0), (inf, 1.0), (1e-3, 1.0)], "sin": [*ODD, (inf, nan), (-inf, nan)], "sinh": [*ODD, *EVERY],
    "sqrt": [(-1.0, nan), (-inf, nan), *ODD, (inf, inf)], "square": [(-0.0, 0.0), (-inf, inf)],
    "tan": [*ODD, (inf, nan), (-inf, nan)], "tanh": [*ODD, (inf, 1.0), (-inf, -1.0)],
    "isfinite": [(inf, False), (-inf, False), (0.0, True)], "isinf": [(inf, True), (-inf, True), (-0.0, False)],
    "isnan": [(inf, False), (0.0, False)], "signbit": [(0.0, False), (-0.0, True), (inf, False), (-inf, True)],
}
QUADRANTS = [(s * y, t * x, np.copysign(a, s)) for s in (1, -1) for t, y, x, a in (
    (1, 0.0, 0.0, 0.0), (-1, 0.0, 0.0, pi), (1, 0.0, 2.0, 0.0), (-1, 0.0, 2.0, pi), (1, 2.0, 0.0, pi / 2), (-1, 2.0, 0.0, pi / 2),
    (1, 2.0, inf, 0.0), (-1, 2.0, inf, pi), (1, inf, 2.0, pi / 2), (-1, inf, 2.0, pi / 2), (1, inf, inf, pi / 4),
    (-1, inf, inf, 3 * pi / 4))]
ORDER = [(nan, 1.0, False), (1.0, nan, False), (nan, nan, False)]
TWO = {  # function: (arguments, result), besides NaN of NaN
    "add": [(inf, -inf, nan), (-inf, inf, nan), (inf, inf, inf), (-inf, 2.0, -inf), (2.0, inf, inf), (-0.0, -0.0, -0.0),
            (-0.0, 0.0, 0.0), (0.0, -0.0, 0.0), (2.0, -2.0, 0.0), (-2.0, 2.0, 0.0), (-0.0, 2.0, 2.0)],
    "subtract": [(inf, inf, nan), (-inf, -inf, nan), (inf, -inf, inf), (-0.0, 0.0, -0.0), (0.0, 0.0, 0.0), (2.0, 2.0, 0.0)],
    "multiply": [(inf, 0.0, nan), (-0.0, -inf, nan), (inf, -inf, -inf), (inf, -2.0, -inf), (-0.0, 2.0, -0.0), (-0.0, -2.0, 0.0)],
    "divide": [(inf, -inf, nan), (0.0, -0.0, nan), (0.0, 2.0, 0.0), (-0.0, 2.0, -0.0), (0.0, -2.0, -0.0), (-0.0, -2.0, 0.0),
               (2.0, 0.0, inf), (2.0, -0.0, -inf), (-2.0, 0.0, -inf), (-2.0, -0.0, inf), (inf, 2.0, inf), (inf, -2.0, -inf),
               (2.0, inf, 0.0), (2.0, -inf, -0.0), (-2.0, inf, -0.0), (-2.0, -inf, 0.0), (-inf, -2.0, inf)],
    "atan2": QUADRANTS, "copysign": [(1.0, -0.0, -1.0), (-1.0, 0.0, 1.0), (inf, -1.0, -inf), (0.0, -inf, -0.0)],
    "floor_divide": [(inf, inf, nan), (0.0, 0.0, nan), (7.0, 2.0, 3.0), (-7.0, 2.0, -4.0), (7.0, -2.0, -4.0), (1.0, inf, 0.0)],
    "remainder": [(inf, inf, nan), (0.0, 0.0, nan), (2.0, 0.0, nan), (inf, 2.0, nan), (0.0, 2.0, 0.0), (7.0, 4.0, 3.0),
                  (-7.0, 4.0, 1.0), (7.0, -4.0, -1.0), (2.0, inf, 2.0), (-2.0, -inf, -2.0), (2.0, -inf, -inf), (-2.0, inf, inf)],
    "hypot": [(inf, 2.0, inf), (2.0, -inf, inf), (-inf, inf, inf), (0.0, -2.0, 2.0)],
    "logaddexp": [(inf, 2.0, inf), (2.0, inf, inf), (-inf, 2.0, 2.0), (-inf, -inf, -inf)],
    "maximum": [(1.0, nan, nan), (nan, inf, nan), (inf, 1.0, inf), (-inf, 1.0, 1.0)],
    "minimum": [(1.0, nan, nan), (nan, -inf, nan), (inf, 1.0, 1.0), (-inf, 1.0, -inf)],
    "nextafter": [(0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (inf, inf, inf)],
    "pow": [(1.0, nan, 1.0), (1.0, 2.5, 1.0), (nan, 0.0, 1.0), (nan, -0.0, 1.0), (2.0, inf, inf), (-2.0, -inf, 0.0), (1.0, inf, 1.0),
            (-1.0, inf, 1.0), (0.5, inf, 0.0), (0.5, -inf, inf), (inf, 2.0, inf), (inf, -2.0, 0.0), (-inf, 3.0, -inf),
            (-inf, 2.0, inf), (-inf, 2.5, inf), (-inf, -3.0, -0.0), (-inf, -2.0, 0.0), (0.0, 2.0, 0.0), (0.0, -2.0, inf),
            (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, -3.0, -inf), (-0.0, -2.0, inf), (-2.0, 0.5, nan)],
    **{name: [(*case[:2], name == "not_equal") for case in ORDER] + [(0.0, -0.0, equal), (inf, inf, equal)]
       for name, equal in (("equal", True), ("not_equal", False), ("less", False), ("less_equal", True), ("greater", False),
                           ("greater_equal", True))},
    "logical_and": [(nan, 1.0, True), (-0.0, nan, False)], "logical_or": [(nan, 0.0, True), (-0.0, 0.0, False)],
    "logical_xor": [(nan, 0.0, True), (nan, inf, False)],
}
NO_NAN = {"isfinite", "isinf", "isnan", "signbit", "pow", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
          "logical_and", "logical_or", "logical_xor", "copysign", "sign"}  # of NaN: said by rows, or not NaN
# Which of two zeros they give, the standard leaves open.
SIGNS_OPEN = {"maximum", "minimum", "sign"}


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_special_values(name):
    rows = ONE.get(name) or TWO[name]
    if name not in NO_NAN:
        rows = [*rows, (nan,) * len(rows[0])]
    with xf.enable_x64(True):
        for dtype in ("float32", "float64"):
            *arguments, expected = (np.array(column) for column in zip(*rows))
            arguments = [x.astype(dtype) for x in arguments]
            found = np.asarray(getattr(xnp, name)(*arguments))
            assert found.dtype == (expected.dtype if expected.dtype == bool else dtype)
            np.testing.assert_allclose(found, expected.astype(found.dtype), rtol=1e-6, err_msg=f"{name} of {rows}")
            if found.dtype != bool and name not in SIGNS_OPEN:
                known = ~np.isnan(found)
                np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known], err_msg=f"{name} of {rows}")
