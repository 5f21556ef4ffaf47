"""Functions of `xlafront.numpy` over all dtypes and kinds of shapes: scalars, empty arrays, broadcast pairs, every axis.

A row has the kinds of numbers that a function supports (b: booleans, u: unsigned, i: signed, f: floats, c: complex) and its result
dtype. Values are compared with NumPy's, for floats in float64. All functions of a group are jitted together for each dtype.
"""

import re

import numpy as np
import pytest
from dtype_tables import (
    BYTE,
    INDEX,
    INEXACT,
    POSITION,
    REAL,
    SAME,
    SETTINGS,
    SUM,
    TRUE_COUNT,
    TRUTH,
    agrees,
    as_numpy_computes,
    calls_of,
    kind_of,
    numbers,
    result_dtype,
    rows_for,
)

import xlafront as xf
import xlafront.numpy as xnp

pytestmark = pytest.mark.soak

UNARY = [  # kinds, dtype of the result, functions
    ("buifc", INEXACT, """exp exp2 expm1 log log1p log2 log10 sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh
        sqrt sinc reciprocal acos acosh asin asinh atan atanh"""),
    ("buif", INEXACT, "cbrt deg2rad rad2deg degrees radians fabs i0"), ("f", SAME, "spacing"),
    ("uifc", SAME, "square negative positive conj conjugate sign"), ("fc", SAME, "rint"),
    ("buif", SAME, "floor ceil trunc"),
    ("buifc", REAL, "abs absolute real imag"), ("c", REAL, "angle"), ("uifc", SAME, "round around"),
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
    ("ui", SAME, "gcd lcm left_shift right_shift bitwise_left_shift bitwise_right_shift"), ("buif", INEXACT, "atan2"),
    ("fc", SAME, "power pow"), ("buifc", INEXACT, "float_power"),
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
    "insert": "n.insert(y, 1, y[0])", "delete": "n.delete(y, 1)", "compress": "n.compress(k, x, 1)",
    "meshgrid": "n.meshgrid(y, y)[1]", "kron": "n.kron(x, o)", "x[1]": "x[1]", "x[:, ::-2]": "x[:, ::-2]", "x[..., None]": "x[..., None]",
    "x[[1, 0], [0, 2]]": "x[[1, 0], [0, 2]]", "e[:0]": "e[:0]", "fliplr": "n.fliplr(x)",
    "unstack": "n.stack(list(x))", "resize": "n.resize(y, (2, 2))", "flipud": "n.flipud(x)", "block": "n.block([[x], [x]])",
}


ROWS = [  # kinds, dtype of the result, calls of these arrays beside v (5,), q (3, 3), i: positions and m: a mask
    ("uifc", SAME, """n.dot(x, y) | n.matmul(x, q) | n.vdot(y, y) | n.inner(x, y) | n.outer(y, y) | n.tensordot(x, q, 1) | n.vecdot(x, x)
        n.matvec(q, y) | n.vecmat(y, q) | n.einsum('ij,j->i', x, y) | n.cross(q, y)
        n.polyadd(v, y) | n.polysub(v, y) | n.diff(x) | n.ediff1d(y)"""),
    ("uifc", INEXACT, "n.convolve(v, y) | n.correlate(v, y, 'same') | n.polymul(v[::-1], v[::-1])"),
    ("ui", SUM, "n.trace(q) | n.cumulative_sum(x, axis=1, include_initial=True)"),
    ("fc", SAME, "n.trace(q, 1) | n.cumulative_sum(x, axis=0) | n.cumulative_prod(x, axis=0)"),
    ("buifc", SAME, """n.concat([x, x]) | n.permute_dims(x, (1, 0)) | n.matrix_transpose(x) | n.rollaxis(x, 1) | n.diagflat(y, 1)
        n.broadcast_arrays(x, y)[1] | n.full_like(x, 1) | n.full((2, 2), y[0]) | n.hsplit(x, 3)[2] | n.vsplit(x, 2)[0]
        n.dsplit(x[None], 3)[1] | n.choose(m.astype(int), [x, x[::-1]]) | n.piecewise(x, [m], [lambda a: a, lambda a: a * 0])
        n.take_along_axis(q, i[:, None], 1) | n.apply_along_axis(lambda a: a[::-1], 1, x) | n.vectorize(lambda a: a)(x)
        n.where(m, n.zeros_like(x), n.zeros(1, x.dtype)) | n.astype(x, x.dtype) | n.frompyfunc(lambda a, b: a, 2, 1)(y, y).astype(y.dtype) | n.unstack(x)[1]"""),
    ("buif", SAME, "n.partition(y, 1)[1] | n.nanmax(n.apply_over_axes(n.max, q, (0, 1)))"),
    ("uif", SAME, "n.clip(x, y, n.max(x)) | n.vander(y, 3)"),
    ("uif", INEXACT, """n.average(x, axis=1) | n.quantile(x, 0.25, axis=1) | n.percentile(x, 40.0) | n.nanquantile(x, 0.5, axis=0)
        n.nanpercentile(x, 25.0) | n.cov(q) | n.corrcoef(q + n.eye(3, dtype=q.dtype)) | n.trapezoid(x) | n.gradient(v)
        n.interp(y, n.cumsum(n.abs(v) + n.array(1, v.dtype)), v) | n.histogram(v, 3)[1]
        n.histogram_bin_edges(v, 2) | n.ldexp(x, 2) | n.polyint(n.polyder(v))[:0]"""),
    ("f", SAME, "n.divmod(x, n.array(2, x.dtype))[0] | n.modf(x)[0] | n.frexp(x)[0] | n.polyval(v, x) | n.polyder(v) | n.polyint(v) | n.unwrap(v)"),
    ("ui", SAME, "n.divmod(x, n.array(2, x.dtype))[1]"),
    ("buif", POSITION, "n.searchsorted(n.sort(v), y) | n.digitize(x, n.sort(v)) | n.argpartition(y, 1)[:0]"),
    ("buif", INDEX, """n.lexsort((v, v[::-1]))
        n.bincount(n.abs(y).astype(int) % 3, minlength=3, **({'length': 3} if n is xnp else {}))"""),
    ("buifc", TRUTH, "n.isin(x, y) | n.allclose(x, x) | n.array_equal(x, x) | n.array_equiv(x, x[:1])"),
    ("b", BYTE, "n.packbits(v.astype(bool)) | n.unpackbits(n.packbits(v.astype(bool)))"),
]
# Arrays that are made, and what depends on values: eagerly, as NumPy computes them, for some dtypes.
EAGERLY = """
    n.arange(0, 5, 2, d) | n.linspace(0, 4, 3, dtype=d) | n.logspace(0, 2, 3, dtype=d) | n.geomspace(1, 4, 3, dtype=d) | n.eye(2, 3, 1, d)
    n.identity(2, d) | n.ones((2, 1), d) | n.tri(2, 3, dtype=d) | n.empty((0, 2), d) | n.empty_like(v[:0]) | n.indices((2, 2), d)
    n.bartlett(5) * w | n.blackman(5) * w | n.hamming(5) * w | n.hanning(5) * w | n.kaiser(5, 2.0) * w | n.fromfunction(lambda i: i, (3,))
    n.fromiter(iter([1, 2]), d) | n.frombuffer(bytes(8), d) | n.fromstring("1 2", d, sep=" ") | n.from_dlpack(numpy.ones(2, d))
    n.tril_indices(3)[0] | n.triu_indices(3)[1] | n.tril_indices_from(q)[1] | n.triu_indices_from(q)[0] | n.diag_indices(2)[0]
    n.diag_indices_from(q)[1] | n.mask_indices(3, n.triu)[0] | n.ix_(n.array([0, 1]), n.array([2]))[1] | n.unravel_index(n.array([5, 1]), (2, 3))[1]
    n.ravel_multi_index((1, 2), (2, 3)) | n.unique(v) | n.unique_all(v)[1] | n.unique_counts(v)[1] | n.unique_inverse(v)[1]
    n.sort(n.unique_values(v)) | n.union1d(v, y) | n.intersect1d(v, y) | n.setdiff1d(v, y) | n.setxor1d(v, y) | n.nonzero(v)[0]
    n.flatnonzero(x) | n.argwhere(x) | n.extract(v > 0, v) | n.sort_complex(v) | n.polyfit(w[1:4], w[1:4], 1) | n.polydiv(v, y)[0]
    n.abs(n.roots(n.array([1.0, -3.0, 2.0]))) | n.poly(n.array([1.0, 2.0])) | n.histogram2d(w, w, 2)[1] | n.histogramdd(n.stack([w, w], 1), 2, weights=w)[0]
    n.histogram(w, 2, weights=w)[0] | n.append(v, y) | n.insert(v, 1, 5) | n.trim_zeros(v) | n.asarray(v, d)
"""
PLAINLY = """
    n.ndim(x) | n.size(x, 1) | n.iscomplexobj(x) | n.isrealobj(x) | n.isscalar(3) | n.iterable(x) | n.broadcast_shapes((2, 1), (3,))
    n.can_cast("int8", "int16") | n.result_type("int8", "int16") | n.promote_types("int8", "int16") | n.isdtype(n.dtype(d), "numeric")
    n.einsum_path("ij,jk", q, q)[0][-1] | n.issubdtype(n.float32, n.floating) | n.shape(x) | len(n.array_repr(x)) > 0 | len(n.array_str(x)) > 0
"""
TESTED_IN_OTHER_FILES = {
    "minmax top_k": "test_extremes.py",
    "save savez load fromfile": "test_numpy_functions.py, files", "set_printoptions get_printoptions printoptions": "of NumPy itself",
    "fill_diagonal place put put_along_axis": "test_numpy_library.py: NumPy's change their argument",
    "__array_namespace_info__": "test_numpy_library.py",
    # (angles of real numbers: test_promotion.py, as their dtype depends on the number of dimensions)
}


def compare(calls, arrays, d):
    """Compare `calls`, name -> (function of a namespace and arrays, rule), with NumPy. One jitted function computes them all."""
    found = xf.jit(lambda arrays: {name: call(xnp, arrays) for name, (call, _) in calls.items()})(arrays)
    wrong = {}
    for name, (call, rule) in calls.items():
        expected = result_dtype(rule, d)
        exact = kind_of(expected) not in "fc"
        with np.errstate(all="ignore"):
            numpys = call(np, [as_numpy_computes(x, exact) for x in arrays])
        wrong[name] = agrees(found[name], numpys, expected)
    assert not {name: text for name, text in wrong.items() if text}


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting[0] + (" x64" if setting[1] else ""))
def dtype(request):
    name, wide = request.param
    with xf.enable_x64(wide):
        yield np.dtype(name)


def test_unary_functions(dtype):
    arrays = [numbers(dtype, shape) for shape in ((), (0, 3), (2, 3))]
    calls = {}
    for name, rule in rows_for(UNARY, dtype):
        for i, shape in enumerate(("scalar", "nothing", "matrix")):
            calls[f"{name} of {shape}"] = (lambda n, a, name=name, i=i: getattr(n, name)(a[i]), rule)
    compare(calls, arrays, dtype)


def test_binary_functions(dtype):
    arrays = [numbers(dtype, (2, 3)), numbers(dtype, (3,), 1), numbers(dtype, (2, 1), 4), numbers(dtype, (), 2),
              numbers(dtype, (0, 3)), numbers(dtype, (1,), 1), numbers(dtype, (1, 3), 2)]
    pairs = {"row": (0, 1), "column": (0, 2), "scalar": (3, 0), "nothing": (4, 1), "nothing and one": (4, 5), "both": (2, 6)}
    calls = {}
    for name, rule in rows_for(BINARY, dtype):
        for shape, (i, j) in pairs.items():
            calls[f"{name}, {shape}"] = (lambda n, a, name=name, i=i, j=j: getattr(n, name)(a[i], a[j]), rule)
    compare(calls, arrays, dtype)


@pytest.mark.cpu_only
def test_reductions(dtype):
    arrays = [numbers(dtype, (2, 3)), numbers(dtype, ()), numbers(dtype, (1, 1)), numbers(dtype, (2, 2, 3), 1)]
    ways = {"all": (0, {}), "rows": (0, {"axis": 0}), "last, kept": (0, {"axis": -1, "keepdims": True}),
            "both": (3, {"axis": (0, 2)}), "scalar": (1, {}), "one": (2, {"axis": 1}), "all, kept": (3, {"keepdims": True})}
    calls = {}
    for name, rule in rows_for(REDUCTIONS, dtype):
        for way, (i, options) in ways.items():
            calls[f"{name}, {way}"] = (lambda n, a, name=name, i=i, options=options: getattr(n, name)(a[i], **options), rule)
    compare(calls, arrays, dtype)


def test_functions_along_an_axis(dtype):
    arrays = [numbers(dtype, (2, 3)), numbers(dtype, (5,), 1), numbers(dtype, (1, 1))]
    ways = {"rows": (0, {"axis": 0}), "last": (0, {"axis": -1}), "vector": (1, {"axis": 0}), "one": (2, {"axis": 1})}
    calls = {}
    for name, rule in rows_for(ALONG_ONE_AXIS, dtype):
        for way, (i, options) in ways.items():
            if name == "argsort":
                options = {**options, "stable": True}
            calls[f"{name}, {way}"] = (lambda n, a, name=name, i=i, options=options: getattr(n, name)(a[i], **options), rule)
    compare(calls, arrays, dtype)


def test_functions_that_rearrange_elements(dtype):
    names = dict(zip("xyseo", (numbers(dtype, shape, 1) for shape in ((2, 3), (3,), (), (0, 3), (1,)))))
    mask = np.array([[True, False, True], [False, True, True]])
    known = xnp.array(mask[0])  # also while a call is traced: how many are chosen is in the shape of the result
    calls = {name: (lambda n, a, text=text: eval(text, {"n": n, "m": mask, "k": known, **dict(zip("xyseo", a))}), SAME)
             for name, text in SHAPES.items()}
    compare(calls, list(names.values()), dtype)


ARRAYS = dict(zip("xyseovq", ((2, 3), (3,), (), (0, 3), (1,), (5,), (3, 3))))
POSITIONS, MASK = np.array([2, 0, 1]), np.array([[True, False, True], [False, True, True]])


def test_functions_of_all_elements(dtype):
    arrays = [numbers(dtype, shape, 1) for shape in ARRAYS.values()]
    names = {"i": POSITIONS, "m": MASK, "xnp": xnp}
    calls = {text: (lambda n, a, text=text: eval(text, {"n": n, **names, **dict(zip(ARRAYS, a))}), rule)
             for kinds, rule, table in ROWS if kind_of(dtype) in kinds for text in calls_of(table)}
    compare(calls, arrays, dtype)


@pytest.mark.parametrize("name", ["int32", "float32"])
def test_eager_calls(name):
    d = np.dtype(name)
    wrong = {}
    for text in calls_of(EAGERLY):
        def call(n):
            made = {letter: n.asarray(numbers(d, shape, 1)) for letter, shape in ARRAYS.items()}
            return eval(text, {"n": n, "numpy": np, "d": d, "w": n.asarray(np.arange(5, dtype=np.float32)), **made})

        with np.errstate(all="ignore"):
            ours, numpys = call(xnp), np.asarray(call(np))
        # In 32 bits what NumPy gives in 64.
        kind = {"i": np.int32, "f": np.float32, "c": np.complex64}.get(ours.dtype.kind, ours.dtype.type)
        wrong[text] = "" if kind_of(ours.dtype) == kind_of(numpys.dtype) and ours.dtype == kind else f"{ours.dtype} {numpys.dtype}"
        wrong[text] = wrong[text] or agrees(ours, numpys, ours.dtype, ulps=100)
    assert not {text: problem for text, problem in wrong.items() if problem}


def test_functions_without_array_results():
    for text in calls_of(PLAINLY):
        ours, numpys = (eval(text, {"n": n, "d": "float32", **{k: n.ones(shape) for k, shape in ARRAYS.items()}}) for n in (xnp, np))
        assert ours == numpys, text


def test_no_function_is_missing():
    """Every function of the namespace is in a table."""
    tabled = {name for table in (UNARY, BINARY, REDUCTIONS, ALONG_ONE_AXIS) for _, _, names in table for name in names.split()}
    texts = [*SHAPES.values(), *[table for _, _, table in ROWS], EAGERLY, PLAINLY]
    tabled |= {name for text in texts for name in re.findall(r"\bn\.(\w+)", text)} | {n for names in TESTED_IN_OTHER_FILES for n in names.split()}
    functions = {name for name in xnp.__all__ if callable(getattr(xnp, name)) and not isinstance(getattr(xnp, name), type)}
    assert functions - tabled == set()
