"""Elementwise operations: name, NumPy's or SciPy's function, ranges of arguments, whether they are differentiable."""

import numpy as np
import scipy.special as sp

UNIT, REAL, POSITIVE, BIG = (-0.9, 0.9), (-2.0, 2.0), (0.2, 3.0), (1.1, 3.0)
# name, NumPy's function, range of arguments, differentiable
UNARY = [
    ("neg", np.negative, REAL, True),
    ("exp", np.exp, REAL, True),
    ("exp2", np.exp2, REAL, True),
    ("expm1", np.expm1, REAL, True),
    ("log", np.log, POSITIVE, True),
    ("log2", np.log2, POSITIVE, True),
    ("log1p", np.log1p, POSITIVE, True),
    ("sin", np.sin, REAL, True),
    ("cos", np.cos, REAL, True),
    ("tan", np.tan, UNIT, True),
    ("tanh", np.tanh, REAL, True),
    ("sinh", np.sinh, REAL, True),
    ("cosh", np.cosh, REAL, True),
    ("asin", np.arcsin, UNIT, True),
    ("acos", np.arccos, UNIT, True),
    ("atan", np.arctan, REAL, True),
    ("asinh", np.arcsinh, REAL, True),
    ("acosh", np.arccosh, BIG, True),
    ("atanh", np.arctanh, UNIT, True),
    ("logistic", sp.expit, REAL, True),
    ("sqrt", np.sqrt, POSITIVE, True),
    ("one_minus_square", lambda x: 1 - x * x, REAL, True),
    ("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE, True),
    ("cbrt", np.cbrt, POSITIVE, True),
    ("square", np.square, REAL, True),
    ("abs", np.abs, POSITIVE, True),
    ("sign", np.sign, REAL, False),
    ("floor", np.floor, REAL, False),
    ("ceil", np.ceil, REAL, False),
    ("is_finite", np.isfinite, REAL, False),
    ("erf", sp.erf, REAL, True),
    ("erfc", sp.erfc, REAL, True),
    ("erf_inv", sp.erfinv, UNIT, True),
    ("lgamma", sp.gammaln, POSITIVE, True),
    ("digamma", sp.digamma, POSITIVE, True),
    ("reciprocal", np.reciprocal, POSITIVE, True),
]
BINARY = [
    ("add", np.add, REAL, REAL, True),
    ("sub", np.subtract, REAL, REAL, True),
    ("mul", np.multiply, REAL, REAL, True),
    ("div", np.divide, REAL, POSITIVE, True),
    ("rem", np.fmod, REAL, POSITIVE, True),
    ("max", np.maximum, REAL, REAL, True),
    ("min", np.minimum, REAL, REAL, True),
    ("atan2", np.arctan2, REAL, POSITIVE, True),
    ("pow", np.power, POSITIVE, REAL, True),
    ("nextafter", np.nextafter, REAL, REAL, False),
    ("zeta", sp.zeta, BIG, POSITIVE, False),
    ("polygamma", lambda n, x: sp.polygamma(n, x), None, POSITIVE, False),
    *[
        (name, function, REAL, REAL, False)
        for name, function in (
            ("eq", np.equal),
            ("ne", np.not_equal),
            ("lt", np.less),
            ("le", np.less_equal),
            ("gt", np.greater),
            ("ge", np.greater_equal),
        )
    ],
]
