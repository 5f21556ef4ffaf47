"""Functions of NumPy's namespace over all dtypes and kinds of shapes: scalars, nothing, one element, broadcast pairs, every axis.

A row says of which kinds of numbers a function is (b: booleans, u: unsigned, i: signed, f: floats, c: complex) and which dtype it
gives; the values are NumPy's, for floats in float64. All functions of a group are one program for each dtype.
"""

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import dtypes

pytestmark = pytest.mark.soak

NARROW = ("bool", "uint8", "uint32", "int8", "int32", "bfloat16", "float16", "float32", "complex64")
WIDE = ("uint64", "int64", "float64", "complex128")
SETTINGS = [(d, False) for d in NARROW] + [(d, True) for d in ("bool", "uint16", "int16", "float32", *WIDE)]

# The dtype of a result: that of the operand; of it as a number that is no integer; of its real part; of truth; of positions;
# of sums, which integers widen; of running sums, which only booleans do; of numbers below 256.
SAME, INEXACT, REAL, TRUTH, INDEX, SUM, TRUE_COUNT, BYTE = "same inexact real truth index sum true_count byte".split()

UNARY = [  # kinds, dtype of the result, functions
    ("buifc", INEXACT, """exp exp2 expm1 log log1p log2 log10 sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh
        sqrt sinc reciprocal acos acosh asin asinh atan atanh"""),
    ("buif", INEXACT, "cbrt deg2rad rad2deg degrees radians fabs i0"), ("f", SAME, "spacing"),
    ("uifc", SAME, "square negative positive conj conjugate sign"), ("fc", SAME, "rint"),
    ("buif", SAME, "floor ceil trunc"),
    ("buifc", REAL, "abs absolute real imag"),
    ("buifc", TRUTH, "isfinite isinf isnan logical_not iscomplex isreal"),
    ("buif", TRUTH, "isposinf isneginf signbit"),
    ("bui", SAME, "bitwise_not invert bitwise_invert"),
    ("buifc", SAME, "nan_to_num ravel transpose atleast_1d atleast_2d atleast_3d copy zeros_like ones_like"),
    ("ui", BYTE, "bitwise_count"),
]
BINARY = [
    ("uifc", SAME, "add subtract multiply"), ("b", SAME, "add multiply"),
    ("uifc", INEXACT, "divide true_divide"),
    ("if", SAME, "remainder mod fmod"), ("f", SAME, "floor_divide"),
    ("buif", SAME, "maximum minimum fmax fmin"),
    ("buif", TRUTH, "less less_equal greater greater_equal"),
    ("buifc", TRUTH, "equal not_equal logical_and logical_or logical_xor isclose"),
    ("buif", INEXACT, "arctan2 hypot copysign logaddexp logaddexp2 heaviside nextafter"),
    ("bui", SAME, "bitwise_and bitwise_or bitwise_xor"),
    ("ui", SAME, "gcd lcm left_shift right_shift"),
    ("fc", SAME, "power"), ("buifc", INEXACT, "float_power"),
]
REDUCTIONS = [
    ("buifc", SUM, "sum prod nansum nanprod"),
    ("uifc", INEXACT, "mean nanmean"), ("uifc", INEXACT + " " + REAL, "var std nanvar nanstd"),
    ("buif", SAME, "max min amax amin nanmax nanmin"), ("uif", SAME, "ptp"),
    ("buifc", TRUTH, "any all"),
    ("buifc", INDEX, "count_nonzero"),
    ("uif", INEXACT, "median nanmedian"),
]
ALONG_ONE_AXIS = [
    ("buif", INDEX, "argmax argmin argsort nanargmax nanargmin"),
    ("buifc", TRUE_COUNT, "cumsum cumprod nancumsum nancumprod"),
    ("buif", SAME, "sort"), ("c", SAME, "sort"),
    ("buifc", SAME, "flip"),
]
SHAPES = {  # calls of arrays x (2, 3), y (3,), s (), e (0, 3), o (1,), which give elements as they are
    "reshape": "n.reshape(x, (3, 2))", "reshape of nothing": "n.reshape(e, (3, 0))", "squeeze": "n.squeeze(n.reshape(x, (1, 2, 3, 1)))",
    "expand_dims": "n.expand_dims(x, (0, 2))", "roll": "n.roll(x, 1, 1)", "roll of all": "n.roll(x, -2)", "rot90": "n.rot90(x)",
    "swapaxes": "n.swapaxes(x, 0, 1)", "moveaxis": "n.moveaxis(x, 0, 1)", "concatenate": "n.concatenate([x, x], 1)",
    "concatenate with nothing": "n.concatenate([e, x])", "stack": "n.stack([x, x], 2)", "vstack": "n.vstack([x, y])",
    "hstack": "n.hstack([y, o])", "dstack": "n.dstack([y, y])", "column_stack": "n.column_stack([y, y])",
    "tile": "n.tile(x, (2, 1))", "repeat": "n.repeat(x, 2, 1)", "repeat of all": "n.repeat(s, 3)", "take": "n.take(x, n.array([2, 0]), 1)",
    "pad": "n.pad(x, 1)", "pad by wrapping": "n.pad(x, ((1, 0), (0, 2)), mode='wrap')", "pad by mirrors": "n.pad(x, 1, mode='reflect')",
    "broadcast_to": "n.broadcast_to(y, (2, 3))", "broadcast of one": "n.broadcast_to(o, (0,))", "where": "n.where(m, x, y)",
    "select": "n.select([m, ~m], [x, x[::-1]], x[0, 0])", "diag": "n.diag(y)", "diagonal": "n.diagonal(x)", "tril": "n.tril(x)",
    "triu": "n.triu(x, 1)", "split": "n.split(x, 3, 1)[1]", "array_split": "n.array_split(x, 2, 1)[1]", "append": "n.append(x, y)",
    "insert": "n.insert(y, 1, y[0])", "delete": "n.delete(y, 1)", "compress": "n.compress(n.array([True, False, True]), x, 1)",
    "meshgrid": "n.meshgrid(y, y)[1]", "kron": "n.kron(x, o)", "x[1]": "x[1]", "x[:, ::-2]": "x[:, ::-2]", "x[..., None]": "x[..., None]",
    "x[[1, 0], [0, 2]]": "x[[1, 0], [0, 2]]", "e[:0]": "e[:0]", "fliplr": "n.fliplr(x)",
    "unstack": "n.stack(list(x))", "resize": "n.resize(y, (2, 2))", "flipud": "n.flipud(x)", "block": "n.block([[x], [x]])",
}


def kind_of(d) -> str:
    return "b" if d == np.bool_ else "f" if dtypes.issubdtype(d, np.floating) else d.kind


def numbers(d, shape, start=0):
    """Numbers of a dtype that begin somewhere in a short list, with zeros of both signs and repetitions among them."""
    kind = kind_of(d)
    values = {"b": [True, False, True, True, False], "u": [3, 0, 7, 1, 2, 100], "i": [-3, 0, 7, -1, 2, 100],
              "f": [0.5, -1.25, 0.75, -0.0, 2.5, 1.0], "c": [0.5 - 1j, -1.25 + 0.5j, 0.25j, 1 + 2j, 2.5]}[kind]
    count = int(np.prod(shape))
    return np.array([values[(start + i) % len(values)] for i in range(count)]).astype(d).reshape(shape)


def result_dtype(rule: str, d):
    """What a rule says of an operand's dtype, under the setting for 64 bits that holds."""
    for part in rule.split():
        kind = kind_of(d)
        if part == INEXACT and kind in "bui":
            d = np.dtype(np.float64) if d.itemsize == 8 else np.dtype(np.float32)
        elif part == REAL and kind == "c":
            d = np.dtype(np.float32) if d.itemsize == 8 else np.dtype(np.float64)
        elif part == TRUTH:
            d = np.dtype(np.bool_)
        elif part == INDEX or part == SUM and kind in "bi":
            d = np.dtype(np.int64 if xf.config.enable_x64 else np.int32)
        elif part == SUM and kind == "u":
            d = np.dtype(np.uint64 if xf.config.enable_x64 else np.uint32)
        elif part == TRUE_COUNT and kind == "b":
            d = result_dtype(INDEX, d)
        elif part == BYTE:
            d = np.dtype(np.uint8)
    return d


def as_numpy_computes(x, exact: bool):
    """Floats and what becomes floats in 64 bits; booleans and integers as they are where the result is exact."""
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if kind_of(x.dtype) == "f" or not exact else x


def agrees(ours, numpys, d, ulps=24) -> str:
    """What is wrong with a result, or nothing."""
    ours = np.asarray(ours)
    if ours.dtype != d:
        return f"dtype {ours.dtype}, not {d}"
    if ours.shape != np.shape(numpys):
        return f"shape {ours.shape}, not {np.shape(numpys)}"
    if kind_of(d) not in "fc":
        return "" if np.array_equal(ours, np.asarray(numpys).astype(d)) else f"{ours.tolist()}, not {np.asarray(numpys).tolist()}"
    wide = np.complex128 if d.kind == "c" else np.float64
    eps = float(ml_dtypes.finfo(d).eps)
    close = np.allclose(ours.astype(wide), np.asarray(numpys).astype(d).astype(wide), ulps * eps, ulps * eps, equal_nan=True)
    return "" if close else f"{ours.tolist()}, not {np.asarray(numpys).tolist()}"


def compare(calls, arrays, d):
    """`calls`: name -> (function of a namespace and arrays, rule). One program computes them all; NumPy one by one."""
    found = xf.jit(lambda arrays: {name: call(xnp, arrays) for name, (call, _) in calls.items()})(arrays)
    wrong = {}
    for name, (call, rule) in calls.items():
        wanted = result_dtype(rule, d)
        exact = kind_of(wanted) not in "fc"
        with np.errstate(all="ignore"):
            numpys = call(np, [as_numpy_computes(x, exact) for x in arrays])
        wrong[name] = agrees(found[name], numpys, wanted)
    assert not {name: text for name, text in wrong.items() if text}


def rows_for(table, d):
    """`(function's name, rule)` of the rows for a kind of numbers."""
    return [(name, rule) for kinds, rule, names in table if kind_of(d) in kinds for name in names.split()]


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting[0] + (" x64" if setting[1] else ""))
def dtype(request):
    name, wide = request.param
    with xf.enable_x64(wide):
        yield np.dtype(name)


def test_of_one_array(dtype):
    arrays = [numbers(dtype, shape) for shape in ((), (0, 3), (2, 3))]
    calls = {}
    for name, rule in rows_for(UNARY, dtype):
        for i, shape in enumerate(("scalar", "nothing", "matrix")):
            calls[f"{name} of {shape}"] = (lambda n, a, name=name, i=i: getattr(n, name)(a[i]), rule)
    compare(calls, arrays, dtype)


def test_of_two_arrays(dtype):
    arrays = [numbers(dtype, (2, 3)), numbers(dtype, (3,), 1), numbers(dtype, (2, 1), 4), numbers(dtype, (), 2),
              numbers(dtype, (0, 3)), numbers(dtype, (1,), 1), numbers(dtype, (1, 3), 2)]
    pairs = {"row": (0, 1), "column": (0, 2), "scalar": (3, 0), "nothing": (4, 1), "nothing and one": (4, 5), "both": (2, 6)}
    calls = {}
    for name, rule in rows_for(BINARY, dtype):
        for shape, (i, j) in pairs.items():
            calls[f"{name}, {shape}"] = (lambda n, a, name=name, i=i, j=j: getattr(n, name)(a[i], a[j]), rule)
    compare(calls, arrays, dtype)


def test_over_axes(dtype):
    arrays = [numbers(dtype, (2, 3)), numbers(dtype, ()), numbers(dtype, (1, 1)), numbers(dtype, (2, 2, 3), 1)]
    ways = {"all": (0, {}), "rows": (0, {"axis": 0}), "last, kept": (0, {"axis": -1, "keepdims": True}),
            "both": (3, {"axis": (0, 2)}), "scalar": (1, {}), "one": (2, {"axis": 1}), "all, kept": (3, {"keepdims": True})}
    calls = {}
    for name, rule in rows_for(REDUCTIONS, dtype):
        for way, (i, options) in ways.items():
            calls[f"{name}, {way}"] = (lambda n, a, name=name, i=i, options=options: getattr(n, name)(a[i], **options), rule)
    compare(calls, arrays, dtype)


def test_along_one_axis(dtype):
    arrays = [numbers(dtype, (2, 3)), numbers(dtype, (5,), 1), numbers(dtype, (1, 1))]
    ways = {"rows": (0, {"axis": 0}), "last": (0, {"axis": -1}), "vector": (1, {"axis": 0}), "one": (2, {"axis": 1})}
    calls = {}
    for name, rule in rows_for(ALONG_ONE_AXIS, dtype):
        for way, (i, options) in ways.items():
            if name == "argsort":
                options = {**options, "stable": True}
            calls[f"{name}, {way}"] = (lambda n, a, name=name, i=i, options=options: getattr(n, name)(a[i], **options), rule)
    compare(calls, arrays, dtype)


def test_elements_that_only_move(dtype):
    names = dict(zip("xyseo", (numbers(dtype, shape, 1) for shape in ((2, 3), (3,), (), (0, 3), (1,)))))
    mask = np.array([[True, False, True], [False, True, True]])
    calls = {name: (lambda n, a, text=text: eval(text, {"n": n, "m": mask, **dict(zip("xyseo", a))}), SAME)
             for name, text in SHAPES.items()}
    compare(calls, list(names.values()), dtype)
