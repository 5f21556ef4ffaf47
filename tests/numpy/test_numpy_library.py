"""The larger half of `xlafront.numpy` against NumPy: sets, differences, statistics, histograms, indices, edits, polynomials, bits.

`(call, arguments)` a row, `n` is the module. The laws below hold for all rows of a table: values and dtypes are NumPy's,
`jit` gives what eager calls give, and nothing fails under settings that forbid implicit conversions.
"""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest
from laws import check_batching, check_derivatives

import xlafront as xf
import xlafront.numpy as xnp

R = np.random.default_rng(5)
V = R.normal(size=6).astype(np.float32)
M = R.normal(size=(3, 4)).astype(np.float32)
T = R.normal(size=(2, 3, 4)).astype(np.float32)
I = R.integers(-4, 5, (3, 4)).astype(np.int32)  # noqa: E741
U = np.array([3, 1, 3, 2, 1, 7], np.int32)
W = np.array([1, 9, 2, 2], np.int32)
B = R.random((3, 4)) > 0.5
C = (R.normal(size=6) + 1j * R.normal(size=6)).astype(np.complex64)
N = np.where(B, np.nan, M).astype(np.float32)
A = np.full((3, 4), np.nan, np.float32)
A[0, 1] = A[1, 0] = 2
F = np.array([1.0, np.nan, np.nan, 0.5, 1.0], np.float32)
Z = np.zeros(0, np.float32)
P = np.sort(np.abs(V)) + np.arange(6, dtype=np.float32)
S = np.array([-3.5, 0.25, 2.0, -0.0, 100.0, 7.75], np.float32)
O = np.array([5, 0, 255, 17], np.uint8)  # noqa: E741

# What depends on values for its shape, and so cannot be traced without more.
OF_VALUES = [
    *[("n.unique", (x,)) for x in (U, I, B, C, F, Z, np.float32(3))],
    *[("lambda x: n.sort(n.unique_values(x))", (x,)) for x in (U, I, V)],
    *[("lambda x: tuple(n.unique(x, return_index=True, return_inverse=True, return_counts=True))", (x,)) for x in (U, I, B, C, F, Z)],
    ("lambda x: tuple(n.unique(x, return_counts=True, equal_nan=False))", (F,)),
    *[("lambda x, a: tuple(n.unique(x, axis=a, return_index=True, return_counts=True))", (I[[0, 1, 0]], a)) for a in (0, 1, -1)],
    ("lambda x: n.unique(x, axis=0)", (np.zeros((3, 0), np.float32),)),
    *[(f"lambda x: tuple(n.{name}(x))", (x,)) for name in "unique_all unique_counts unique_inverse".split() for x in (U, I, Z)],
    *[(f"n.{name}", pair) for name in "union1d intersect1d setdiff1d setxor1d".split()
      for pair in ((U, W), (W, U), (I, U), (U, Z.astype(np.int32)), (Z.astype(np.int32), U), (U, U), (V, V[::2]))],
    ("lambda x, y: n.setdiff1d(x, y, assume_unique=True)", (np.array([4, 2, 9]), W)),
    ("lambda x, y: n.setxor1d(x, y, assume_unique=True)", (np.array([4, 2, 9]), W[:3])),
    ("lambda x, y: n.intersect1d(x, y, return_indices=True)", (U, W)),
    *[("n.delete", (V, obj)) for obj in (0, -1, slice(0, 6, 2), np.array([1, 1, 4]), np.array([True, False, True, False, False, True]))],
    *[("n.delete", (M, 1, axis)) for axis in (None, 0, 1, -1)],
    *[("n.trim_zeros", (x, trim)) for x in (np.array([0, 0, 1, 0, 2, 0]), np.zeros(3, int), np.array([5, 0])) for trim in ("fb", "f", "b")],
    ("lambda x: n.mask_indices(3, n.triu, 1)", (V,)),
    ("n.ravel_multi_index", ((U % 3, U % 4), (3, 4))),
]
CALLS = [
    *[("n.isin", pair) for pair in ((U, W), (I, U), (V, V[:2]), (F, F), (U, W[:1]), (np.float32(3), V))],
    ("lambda x, y: n.isin(x, y, invert=True)", (np.arange(40) % 9, np.arange(5, 25) % 7)),
    # neighbours
    *[("n.diff", (x,)) for x in (V, M, I, B, C)],
    *[("n.diff", (T, k, axis)) for k in (1, 2) for axis in (0, 1, -1)],
    ("lambda x: n.diff(x, prepend=0, append=x[:, :1])", (M,)),
    ("n.ediff1d", (M,)),
    ("lambda x: n.ediff1d(x, to_end=x[:2], to_begin=7)", (V,)),
    ("n.gradient", (V,)),
    ("n.gradient", (M, 2.0)),
    ("lambda x, p: n.gradient(x, p, axis=0)", (V, P)),
    ("lambda x: n.gradient(x, 0.5, 2.0)", (M,)),
    ("lambda x: n.gradient(x, axis=1)", (T,)),
    *[("n.trapezoid", (x,)) for x in (V, M, I)],
    ("n.trapezoid", (V, P)),
    ("lambda x: n.trapezoid(x, dx=0.5, axis=0)", (M,)),
    ("lambda x, p: n.trapezoid(x, p)", (M, np.sort(M))),
    ("lambda x: n.unwrap(x * 4)", (V,)),
    ("lambda x: n.unwrap(x, axis=0, period=5)", (I,)),
    ("lambda x: n.unwrap(x * 4, discont=4.0)", (M,)),
    *[("n.interp", (x, P, V)) for x in (V * 3, M, np.float32(2))],
    ("lambda x, p, f: n.interp(x, p, f, left=-1.0, right=9.0)", (V * 9, P, V)),
    ("lambda x, p, f: n.interp(x, p, f, period=2.5)", (V * 9, P, V)),
    ("n.interp", (V * 3, P, C)),
    # statistics
    *[("n.cov", (x,)) for x in (M, V, I, C)],
    ("n.cov", (M, M[::-1] * 2)),
    ("lambda x: n.cov(x, rowvar=False, bias=True)", (M,)),
    ("lambda x, f, a: n.cov(x, fweights=f, aweights=a, ddof=0)", (M, np.array([1, 2, 1, 3]), np.abs(M[0]))),
    ("lambda x, f, a: n.cov(x, fweights=f, aweights=a)", (M, np.array([1, 2, 1, 3]), np.abs(M[0]))),
    *[("n.corrcoef", (x,)) for x in (M, I, C.reshape(2, 3))],
    ("n.corrcoef", (V, V**2)),
    *[("n.histogram", (x, bins)) for x in (V, M, I) for bins in (4, np.array([-2.0, -0.5, 0.0, 3.0], np.float32))],
    ("lambda x, w: n.histogram(x, 5, weights=w, density=True)", (V, P)),
    ("lambda x: n.histogram(x, 5, range=(-1, 0.5))", (V,)),
    ("lambda x, y: n.histogram2d(x, y, 3)", (V, P)),
    ("lambda x, y: n.histogram2d(x, y, (2, 3), density=True)", (V, P)),
    ("lambda x, w: n.histogramdd(x, (2, 3, 2), weights=w)[0]", (R.normal(size=(6, 3)).astype(np.float32), P)),
    ("lambda x: n.histogramdd(x, 2, range=((-1, 1), (-1, 2)), density=True)[0]", (R.normal(size=(9, 2)).astype(np.float32),)),
    # without NaN
    *[(f"n.{name}", (x,)) for name in "nancumsum nancumprod nanmedian nanargmax nanargmin".split() for x in (N, I)],
    *[(f"lambda x: n.{name}(x, axis=0)", (x,)) for name in "nancumsum nancumprod nanmedian".split() for x in (N, A)],
    *[("lambda x, q, m: n.nanquantile(x, q, axis=1, keepdims=True, method=m)", (x, q, m)) for x in (N, A)
      for q in (np.float32(0.3), np.array([0.2, 1.0], np.float32)) for m in ("linear", "lower", "higher", "nearest", "midpoint")],
    ("n.nanpercentile", (N, np.float32(40))),
    ("lambda x: n.nanquantile(x, np.float32(0.4), method='inverted_cdf')", (N,)),
    ("n.nan_to_num", (np.array([np.nan, np.inf, -np.inf, 2], np.float32),)),
    ("lambda x: n.nan_to_num(x, nan=1, posinf=2, neginf=3)", (np.array([np.nan, np.inf, -np.inf, 2j], np.complex64),)),
    *[(f"n.{name}", (x,)) for name in "cumulative_sum cumulative_prod".split() for x in (V, U)],
    ("lambda x: n.cumulative_sum(x, axis=1, include_initial=True)", (M,)),
    ("lambda x: n.cumulative_prod(x, axis=0, include_initial=True)", (I,)),
    ("n.array_equiv", (np.ones((2, 3), np.float32), np.ones(3, np.float32))),
    ("n.array_equiv", (V, M)),
    # indices
    *[(f"lambda x: n.mgrid[{key}]", (V,)) for key in ("0:3, 1:3", "0:1:4j", "2:7:2, 0:1:3j")],
    *[(f"lambda x: n.ogrid[{key}]", (V,)) for key in ("0:3, 1:3", "1:2:3j")],
    *[(f"lambda x, y: n.r_[{key}]", (V, I[:, 0])) for key in ("x, 0.5, x", "'0,2', x, x", "'-1', x, x", "'0,2,0', x, x", "'1,2,0', x, x")],
    *[(f"lambda x, m: n.c_[{key}]", (M[:, 0], M)) for key in ("x, x", "m, x[:, None]", "m, m")],
    ("lambda i, j: n.ix_(i, j)", (U, W)),
    ("lambda x: n.indices((2, 3))", (V,)),
    ("lambda x: n.indices((2, 3), sparse=True)", (V,)),
    *[(f"lambda x: n.{name}(4, {rest})", (V,)) for name in "tril_indices triu_indices".split() for rest in ("0", "1, 3", "-1, 5")],
    *[(f"lambda x: n.{name}(x)", (M,)) for name in "tril_indices_from triu_indices_from".split()],
    ("lambda x: n.diag_indices(3, 3)", (V,)),
    ("lambda x: n.diag_indices_from(x[:3, :3])", (M,)),
    ("lambda i: n.unravel_index(i, (3, 4))", (np.arange(12, dtype=np.int32).reshape(3, 4),)),
    ("lambda i: n.ravel_multi_index((i, i), (3, 4), mode='wrap')", (I,)),
    ("lambda i: n.ravel_multi_index((i, i), (3, 4), mode='clip', order='F')", (I,)),
    # editing
    *[("n.insert", (V, obj, 9)) for obj in (0, 2, 6, -1, np.array([1, 4]), np.array([4, 1]), slice(1, 4))],
    ("n.insert", (V, 2, V[:3])),
    *[("n.insert", (M, 1, 5, axis)) for axis in (None, 0, 1, -1)],
    ("lambda x: n.insert(x, 1, x[:, 0], axis=1)", (M,)),
    ("lambda x: n.insert(x, np.array([1]), x[:, :2], axis=1)", (M,)),
    *[("n.resize", (x, shape)) for x in (V, M) for shape in ((2, 2), (3, 5), 4)],
    ("n.resize", (Z, (2,))),
    # polynomials
    *[(f"n.{name}", (V[:3], M[0])) for name in "polyadd polysub polymul".split()],
    *[(f"n.{name}", (U, W)) for name in "polyadd polysub".split()],
    *[("n.polyval", (p, x)) for p in (V, U) for x in (M, np.float32(2))],
    ("n.polyval", (U, I)),
    *[(f"n.{name}", (V, k)) for name in "polyder polyint".split() for k in (0, 1, 2)],
    ("lambda x: n.polyint(x, 2, np.array([3, 4], np.float32))", (V,)),
    ("n.poly", (V,)),
    ("lambda u, v: n.polydiv(u, v)[0]", (V, np.array([2.0, 1.0], np.float32))),
    ("lambda x, y: n.polyfit(x, y, 2)", (P, V)),
    ("lambda x, y, w: n.polyfit(x, y, 1, w=w)", (P, np.stack([V, V * 2], 1), P)),
    *[("n.vander", (x,)) for x in (V, U)],
    ("lambda x: n.vander(x, 3, increasing=True)", (V,)),
    *[(f"n.{name}", (x, y, mode)) for name in "convolve correlate".split() for mode in ("full", "same", "valid")
      for x, y in ((V, M[0]), (M[0], V), (V, V), (C, C[:2]))],
    # numbers
    *[(f"n.{name}", (x, y)) for name in "gcd lcm".split() for x, y in ((I, np.int32(6)), (U, W[:1]), (O, O[::-1].copy()))],
    *[(f"n.{name}", (S,)) for name in "frexp modf spacing i0".split()],
    *[("n.frexp", (x,)) for x in (np.array([0, np.inf, -np.inf, np.nan, 3e38], np.float32), S.astype(np.float16))],
    *[("n.spacing", (x,)) for x in (np.array([0, np.inf, np.nan, 3e38], np.float32), abs(S).astype(np.float16))],
    ("n.ldexp", (S, np.array([3, -3, 100, 0, -100, 1], np.int32))),
    *[(f"n.{name}", (x,)) for name in "iscomplex isreal".split() for x in (C, C.real, U, C * 0)],
    *[("n.packbits", (x, axis, order)) for x in (B, I) for axis in (None, 0, 1) for order in ("big", "little")],
    *[("n.unpackbits", (x, None, count, order)) for x in (O,) for count in (None, 5, -5, 40) for order in ("big", "little")],
    ("lambda x: n.unpackbits(x[None], axis=0)", (O,)),
    # functions of functions
    *[("lambda x, a: n.apply_along_axis(lambda v: v[::-1] * 2, a, x)", (T, a)) for a in (0, 1, 2)],
    ("lambda x: n.apply_along_axis(lambda v: v.sum(), -1, x)", (T,)),
    ("lambda x: n.apply_along_axis(lambda v: n.outer(v, v), 1, x)", (M,)),
    ("lambda x: n.apply_over_axes(n.sum, x, (0, 2))", (T,)),
    ("lambda x: n.vectorize(lambda a, b: n.dot(a, b), signature='(i,j),(j)->(i)')(x, x[0, 0])", (T,)),
    ("lambda x: n.piecewise(x, [x < 0, x > 1], [lambda v: -v, 3.0, lambda v: v * 2])", (V,)),
    ("lambda x: n.piecewise(x, [x < 0, x < 1], [1, 2])", (V,)),
]
WINDOWS = [(f"lambda: n.{name}({size}{rest})", ()) for name, rest in (
    ("bartlett", ""), ("blackman", ""), ("hamming", ""), ("hanning", ""), ("kaiser", ", 3.5")) for size in (0, 1, 2, 7, 8)]


def run(text, module, args):
    return eval(text, {"n": module, "np": np})(*args)


def same(ours, theirs, text):
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b, text)
        return
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    # Names of kinds: where NumPy has float64 of integers, there is float32; histograms and products of polynomials are floats.
    if not any(name in text for name in ("histogram", "polymul", "convolve", "correlate", "polyder", "vander", "r_[", "resize", "frexp")):
        canonical = {"int64": "int32", "float64": "float32", "complex128": "complex64", "uint64": "uint32"}
        assert ours.dtype.name == canonical.get(theirs.dtype.name, theirs.dtype.name)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)


def named(rows):
    return [pytest.param(*row, id=f"{i}-{row[0][:40]}") for i, row in enumerate(rows)]


@pytest.mark.parametrize("text, args", named(OF_VALUES + CALLS + WINDOWS))
def test_against_numpy(text, args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        theirs = run(text, np, args)
    same(run(text, xnp, args), theirs, text)


@pytest.mark.parametrize("text, args", named(CALLS)[::3])
def test_traced_as_eager(text, args):
    arrays = [i for i, x in enumerate(args) if isinstance(x, np.ndarray)]

    def f(*values):
        full = list(args)
        for i, x in zip(arrays, values):
            full[i] = x
        return run(text, xnp, full)

    values = [args[i] for i in arrays]
    eager, traced = f(*values), xf.jit(f)(*values)
    for a, b in zip(xf.tree.leaves(eager), xf.tree.leaves(traced)):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)
        assert a.dtype == b.dtype and a.weak_type == b.weak_type


ONE_KIND = [  # of operands of one dtype and rank: what happens inside must promote nothing silently
    "n.diff(V, prepend=0)", "n.gradient(V)", "n.gradient(M, 2.0)", "n.trapezoid(M)", "n.trapezoid(I)", "n.trapezoid(V, P)",
    "n.unwrap(V)", "n.unwrap(I, period=5)", "n.interp(V, P, V)", "n.interp(V, P, V, period=2.0)", "n.unique(U, return_counts=True)",
    "n.unique(V, size=3, fill_value=0)", "n.unique(I, axis=0, return_inverse=True)", "n.setdiff1d(U, W)", "n.setxor1d(U, W)",
    "n.intersect1d(U, W, return_indices=True)", "n.union1d(U, W)", "n.isin(U, W)", "n.cov(M)", "n.cov(I)", "n.corrcoef(M)",
    "n.histogram(V)", "n.histogram(I, 3)", "n.histogram2d(V, P, 3)", "n.nanquantile(N, 0.3, axis=0)", "n.nanmedian(N)",
    "n.nanargmax(N, axis=0)", "n.nancumsum(N)", "n.nan_to_num(N)", "n.cumulative_sum(U, include_initial=True)", "n.mgrid[0:3, 0:2]",
    "n.unravel_index(U, (3, 4))", "n.ravel_multi_index((U % 3, U % 4), (3, 4))", "n.insert(V, 1, 2)", "n.insert(M, 1, 2.0, axis=1)",
    "n.delete(V, 1)", "n.put(V, U[:2] % 5, 1.0, inplace=False)", "n.place(V, V > 0, V[:2], inplace=False)",
    "n.put_along_axis(M, I[:, :1] % 4, 1.0, 1, inplace=False)", "n.fill_diagonal(M, 1.0, inplace=False)", "n.resize(V, (2, 5))",
    "n.polyval(V, P)", "n.polyval(U, W)", "n.polyadd(V, V[:2])", "n.polymul(V, V)", "n.polyder(V)", "n.polyint(V)", "n.poly(V)",
    "n.polyfit(P, V, 2)", "n.roots(V)", "n.roots(V, strip_zeros=False)", "n.vander(V)", "n.convolve(V, V)", "n.gcd(U, 6)", "n.lcm(U, 6)",
    "n.frexp(S)", "n.ldexp(S, U)", "n.modf(S)", "n.spacing(S)", "n.i0(S)", "n.kaiser(4, 2.0)", "n.hanning(4)", "n.packbits(B)",
    "n.unpackbits(O)", "n.piecewise(V, [V > 0], [1.0, 2.0])", "n.fft.fft(V)", "n.fft.irfft(C)", "n.fft.rfftn(M)", "n.fft.fftfreq(5)",
    "n.fft.fftshift(V)", "n.apply_along_axis(n.sum, 0, M)", "n.frompyfunc(lambda a, b: a + b, 2, 1).reduce(M)",
]  # fmt: skip


@pytest.mark.parametrize("call", ONE_KIND)
def test_functions_do_not_promote_internally(call):
    names = {name: x for name, x in globals().items() if isinstance(x, np.ndarray)}
    with xf.numpy_dtype_promotion("strict"), xf.numpy_rank_promotion("raise"):
        strict = eval(call, {"n": xnp, **names})
    for a, b in zip(xf.tree.leaves(strict), xf.tree.leaves(eval(call, {"n": xnp, **names}))):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


SMOOTH = {  # differentiable at the arguments
    "diff": (lambda x: xnp.diff(x, 2, prepend=1.0), (V,)),
    "ediff1d": (lambda x: xnp.ediff1d(x, x[:1]), (V,)),
    "gradient": (lambda x: xnp.gradient(x, P.astype(np.float64)), (V,)),
    "trapezoid": (lambda y, x: xnp.trapezoid(y, x), (M, np.sort(M))),
    "unwrap": (lambda x: xnp.unwrap(x * 3), (V,)),
    "interp": (lambda x, f: xnp.interp(x, P.astype(np.float64), f), (V + 2.3, V)),
    "cov": (lambda x: xnp.cov(x), (M,)),
    "corrcoef": (lambda x: xnp.corrcoef(x), (M,)),
    "unique": (lambda x: xnp.unique(x, size=5), (V,)),
    "histogram weights": (lambda w: xnp.histogram(V, 3, weights=w)[0], (P,)),
    "nanmedian": (lambda x: xnp.nanmedian(x, axis=0), (M,)),
    "nan_to_num": (lambda x: xnp.nan_to_num(x), (V,)),
    "cumulative_prod": (lambda x: xnp.cumulative_prod(x, include_initial=True), (V,)),
    "r_": (lambda x: xnp.r_[x, 1.0, x], (V,)),
    "insert": (lambda x, y: xnp.insert(x, 2, y, axis=1), (M, M[:, 0])),
    "delete": (lambda x: xnp.delete(x, 1, axis=1), (M,)),
    "put": (lambda x, v: xnp.put(x, np.array([1, 5]), v, inplace=False), (M, V[:2])),
    "place": (lambda x, v: xnp.place(x, B, v, inplace=False), (M, V[:2])),
    "put_along_axis": (lambda x, v: xnp.put_along_axis(x, np.array([[1], [0], [3]]), v, 1, inplace=False), (M, V[:3, None])),
    "fill_diagonal": (lambda x, v: xnp.fill_diagonal(x, v, inplace=False), (M, V[:3])),
    "resize": (lambda x: xnp.resize(x, (2, 5)), (V,)),
    "polyval": (lambda p, x: xnp.polyval(p, x), (V, P)),
    "polymul": (lambda p, q: xnp.polymul(p, q), (V, V[:2])),
    "polydiv": (lambda p: xnp.polydiv(p, np.array([2.0, 1.0])), (V[:3],)),
    "polyint": (lambda p: xnp.polyder(xnp.polyint(p, 3), 2), (V,)),
    "poly": (lambda r: xnp.poly(r), (V[:3],)),
    "vander": (lambda x: xnp.vander(x, 4), (V,)),
    "polyfit": (lambda y: xnp.polyfit(P.astype(np.float64), y, 2), (V,)),
    "correlate": (lambda x, y: xnp.correlate(x, y, "same"), (V, V[:3])),
    "ldexp": (lambda x: xnp.ldexp(x, 3), (S,)),
    "modf": (lambda x: xnp.modf(x)[0], (V,)),
    "i0": (lambda x: xnp.i0(x), (V,)),
    "kaiser": (lambda beta: xnp.kaiser(5, beta), (np.float32(2.5),)),
    "vectorize": (lambda x, y: xnp.vectorize(lambda a, b: a * b.sum(), signature="(),(n)->()")(x, y), (V[:3], M)),
    "apply_along_axis": (lambda x: xnp.apply_along_axis(xnp.cumsum, 0, x), (M,)),
    "piecewise": (lambda x: xnp.piecewise(x, [x < 0], [lambda v: -v, lambda v: v**2]), (V,)),
    "frompyfunc": (lambda x: xnp.frompyfunc(lambda a, b: a * b + a, 2, 1).accumulate(x), (V,)),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_and_batches(name, rng):
    f, args = SMOOTH[name]
    check_derivatives(f, args, rng)
    check_batching(f, args, tolerance=1e-4)


def test_sizes_given_in_advance():
    """Results are padded to the size by the least element or the fill value, and truncated to it."""
    found = xf.jit(lambda x: xnp.unique(x, return_index=True, return_inverse=True, return_counts=True, size=6))(U)
    assert [x.tolist() for x in found] == [[1, 2, 3, 7, 1, 1], [1, 3, 0, 5, 1, 1], [2, 0, 2, 1, 0, 3], [2, 1, 2, 1, 0, 0]]
    found = xnp.unique(U, return_counts=True, size=2)
    assert [x.tolist() for x in found] == [[1, 2], [2, 1]]
    assert xnp.unique(U, size=5, fill_value=9).tolist() == [1, 2, 3, 7, 9]
    assert xnp.unique(I[[0, 0]], axis=0, size=2, fill_value=8).tolist() == [I[0].tolist(), [8] * 4]
    assert xf.jit(lambda x, y: xnp.union1d(x, y, size=7))(U, W).tolist() == [1, 2, 3, 7, 9, 1, 1]
    assert xf.jit(lambda x, y: xnp.setdiff1d(x, y, size=3))(U, W).tolist() == [3, 7, 0]
    assert xf.jit(lambda x, y: xnp.setxor1d(x, y, size=5))(U, W).tolist() == [3, 7, 9, 3, 3]
    found = xf.jit(lambda x, y: xnp.intersect1d(x, y, return_indices=True, size=3))(U, W)
    assert [x.tolist() for x in found] == [[1, 2, 1], [1, 3, 6], [0, 2, 4]]
    assert xf.jit(lambda x, i: xnp.delete(x, i, assume_unique_indices=True))(V, np.array([1, 3])).tolist() == V[[0, 2, 4, 5]].tolist()
    assert [i.tolist() for i in xnp.mask_indices(3, xnp.triu, 1, size=5)] == [[0, 0, 1, 0, 0], [1, 2, 2, 0, 0]]


NEEDS_VALUES = """n.unique(x) | n.union1d(x, x) | n.setdiff1d(x, x) | n.setxor1d(x, x) | n.intersect1d(x, x) | n.delete(x, i) | n.roots(x) |
    n.trim_zeros(x) | n.polymul(x, x, trim_leading_zeros=True) | n.ravel_multi_index((i, i), (3, 3))"""


@pytest.mark.parametrize("call", [" ".join(call.split()) for call in NEEDS_VALUES.split("|")])
def test_errors_for_traced_values_have_a_remedy(call):
    with pytest.raises(xf.errors.ConcretizationTypeError, match="size|shape|strip_zeros|trim_leading_zeros|mode"):
        xf.jit(lambda x, i: eval(call, {"n": xnp, "x": x, "i": i}))(V, U[:2])


def test_sets_of_complex_scalars_are_not_weakly_typed():
    """Sets of real scalars are weakly typed, as in JAX."""
    for name in "unique unique_values union1d intersect1d setxor1d setdiff1d".split():
        operands = 1 if name.startswith("unique") else 2
        for x, is_weak in ((1.0, True), (1j, False), (xnp.asarray(1j), False)):
            assert getattr(xnp, name)(*[x] * operands).weak_type == is_weak, (name, x)


def test_derivatives_of_coefficients_of_more_dimensions():
    """The factors are broadcast along the last dimension, as in NumPy."""
    for shape in ((4, 3), (4, 1), (2, 5), (4, 2, 3)):
        p = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(xnp.polyder(p), p[:-1] * np.arange(len(p) - 1, 0, -1))
    with pytest.raises(ValueError, match="broadcasting"):
        xnp.polyder(np.ones((4, 2), np.float32))


def test_polynomials_of_scalars():
    """Functions that do not use the number of coefficients take a scalar."""
    assert xnp.roots(2.0).shape == (0,) and xnp.roots(2.0).dtype == np.complex64
    assert xnp.polyder(2.0, 0) == 2 and xnp.polyint(np.float32(2), 0).shape == ()


REFUSED = [  # (error, a word of its text, calls)
    (ValueError, "inplace", "n.put(V, 0, 1) | n.place(V, V > 0, 1) | n.put_along_axis(M, I[:1], 1, 0)"),
    (NotImplementedError, "inplace|wrap", "n.fill_diagonal(M, 1) | n.fill_diagonal(M, 1, wrap=True, inplace=False)"),
    (NotImplementedError, "raise|out|read|boolean|edge_order", """n.put(V, 0, 1, mode='raise', inplace=False) | n.modf(V, out=V) |
        n.fromfile('x') | n.ix_(B[0]) | n.gradient(V, edge_order=2)"""),
    (TypeError, "array", """n.unique([1]) | n.diff([1, 2]) | n.interp(1, [1, 2], [1, 2]) | n.histogram([1]) | n.cov([1]) |
        n.insert(V, [1], 2) | n.delete(V, [1]) | n.polyval([1], 2) | n.convolve([1], V) | n.packbits([1]) | n.fft.fft([1.]) |
        n.nan_to_num([1.]) | n.isin([1], U) | n.vander([1]) | n.put(V, [0], 1, inplace=False)"""),
    (ValueError, "integer", "n.gcd(1., 2) | n.lcm(True, False) | n.insert(V, 1., 1) | n.ravel_multi_index((V, U), (9, 9))"),
    (TypeError, "integer|unsigned|inexact|complex", "n.packbits(V) | n.unpackbits(U) | n.frexp(1j)"),
    (ValueError, "complex", "n.unwrap(C) | n.interp(C, P, V) | n.nanquantile(C, .5) | n.spacing(1j) | n.i0(1j) | n.ldexp(1j, 1)"),
    (ValueError, "shape|dimension|rank|1d|2-d|length|empty|square", """n.interp(V, P, V[:2]) | n.poly(M) | n.roots(M) | n.vander(M) | n.convolve(M, V) |
        n.convolve(V, Z) | n.diff(3) | n.cov(T) | n.triu_indices_from(V) | n.diag_indices_from(M) | n.fill_diagonal(V, 1, inplace=False) |
        n.gradient(V[:1]) | n.histogram(V, weights=V[:2]) | n.cumulative_sum(M) | n.cumulative_prod(3) | n.ix_(M) |
        n.place(V, B, 1, inplace=False) | n.place(V, V > 0, Z, inplace=False) | n.piecewise(V, [], [1])"""),
    (ValueError, "nonnegative|non-negative|positive", """n.diff(V, -1) | n.diag_indices(-1) | n.resize(V, -1) | n.polyder(V, -1) | n.polyint(V, -1) |
        n.vander(V, -1) | n.fft.fft(V, 0) | n.fft.fftn(V, (-2,)) | n.fft.fftn(V, (-1,)) | n.fft.rfft2(M, (-1, 2))"""),
    (ValueError, "mode|norm|bitorder|method|directive|axes", """n.convolve(V, V, 'foo') | n.fft.fft(V, norm='foo') | n.packbits(U, bitorder='x') |
        n.isin(U, U, method='foo') | n.r_['a', V] | n.fft.fft2(M, axes=(0,)) | n.fft.fftn(M, axes=(0, 0)) | n.fft.fft(M, axis=(0, 1))"""),
    (TypeError, "length|1D|vector|distances", "n.polyfit(V, V[:2], 1) | n.polyfit(M, M, 1) | n.polyfit(V, V, 1, w=V[:2]) | n.gradient(M, 1, 2, 3)"),
    (ValueError, "core dim|signature|condition|negative", """n.vectorize(lambda x: x, signature='(n)->()')(V) |
        n.vectorize(lambda x, y: x, signature='(n),(n)->()')(V, V[:2]) | n.vectorize(lambda x: x, signature='(n->()')(V) |
        n.piecewise(V, [V > 0], [1, 2, 3]) | n.vectorize(lambda x: x, excluded={-1})"""),
    (ValueError, "binary|single", """n.frompyfunc(lambda x: x, 1, 1).reduce(V) | n.frompyfunc(lambda x: x, 1, 1).outer(V, V) |
        n.frompyfunc(lambda x, y: (x, y), 2, 2).reduce(V)"""),
    (NotImplementedError, "immutable", """n.cumsum(V, out=V) | n.cumprod(V, out=V) | n.asarray(V).cumsum(out=V) |
        n.frompyfunc(n.add, 2, 1)(V, V, out=V) | n.frompyfunc(n.add, 2, 1)(V, V, where=True)"""),
    (IndexError, "out of bounds|axis", "n.delete(V, np.array([9])) | n.delete(V, 9) | n.unwrap(V, axis=1) | n.fft.fft(V, axis=1)"),
    (TypeError, "numeric dtype", "n.indices((2,), bool) | n.indices((2, 3), dtype=bool, sparse=True)"),
    (IndexError, "size 0", "n.take_along_axis(V[:0], np.array([1]), 0) | n.take(V[:0], np.array([1]))"),
    (IndexError, "0-d", "n.polyval(2., V) | n.polyadd(2., V) | n.polysub(V, P[0])"),
    (TypeError, "0-d", "n.polymul(V, 2.) | n.polydiv(P[0], V) | n.polyder(2.) | n.polyint(P[0])"),
    (RuntimeError, "weights", "n.cov(V, fweights=U[:2]) | n.cov(V, aweights=P[:2])"),
]


@pytest.mark.parametrize("error, word, call", [(error, word, " ".join(call.split())) for error, word, calls in REFUSED
                                               for call in calls.split("|")])  # fmt: skip
def test_bad_input_raises(error, word, call):
    names = {name: x for name, x in globals().items() if isinstance(x, np.ndarray)}
    with pytest.raises(error, match=word):
        eval(call, {"n": xnp, "np": np, **names})


def test_functions_that_replace_elements():
    """NumPy's change their argument."""
    rows = {
        "put": (M, np.array([1, 5, 7]), np.array([8.0, 9.0], np.float32)), "place": (M, B, np.array([8.0, 9.0], np.float32)),
        "put_along_axis": (M, np.array([[1], [0], [3]]), np.float32(9), 1), "fill_diagonal": (M, np.array([7.0, 8.0], np.float32)),
    }  # fmt: skip
    for name, (x, *rest) in rows.items():
        theirs = x.copy()
        getattr(np, name)(theirs, *rest)
        ours = getattr(xnp, name)(x, *rest, inplace=False)
        np.testing.assert_array_equal(ours, theirs)
    assert xnp.put(U, np.array([9, -1]), 5, inplace=False).tolist() == [3, 1, 3, 2, 1, 5]
    assert xnp.put(U, np.array([9, -9]), 5, mode="wrap", inplace=False).tolist() == [3, 1, 3, 5, 1, 7]
    assert xnp.put(U, np.array([9, -9]), 5, mode="clip", inplace=False).tolist() == [5, 1, 3, 2, 1, 5]


def test_roots_are_roots():
    for p in ([1, -3, 2], [0, 0, 1, -3, 2], [2.0, 1, 0, 3, 0, 0], [5.0], [0.0, 0]):
        p = np.array(p, np.float32)
        found, expected = np.sort_complex(xnp.roots(p)), np.sort_complex(np.roots(p))
        np.testing.assert_allclose(found, expected, atol=1e-4)
    traced = np.asarray(xf.jit(lambda p: xnp.roots(p, strip_zeros=False))(np.array([0, 1, -3, 2], np.float32)))
    np.testing.assert_allclose(np.sort(traced[:2].real), [1, 2], rtol=1e-5)
    assert np.isnan(traced[2])


def test_float_decomposition_of_extreme_values():
    """In float64, with the least and the greatest numbers: `mantissa * 2 ** exponent` is the number."""
    with xf.enable_x64(True):
        x = np.array([5e-324, 2.2e-308, 1.7e308, -1e-310, 0.1])
        for a, b in zip(xnp.frexp(x), np.frexp(x)):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(xnp.spacing(x), np.spacing(x))
        np.testing.assert_array_equal(xnp.ldexp(np.array([0.5, 1e-300, 1e300, 3.0]), np.array([1024, 1990, -1990, 0])),
                                      np.ldexp(np.array([0.5, 1e-300, 1e300, 3.0]), np.array([1024, 1990, -1990, 0])))  # fmt: skip
    ends = np.array([-(2.0**127), 2.0**-126, 1.7 * 2.0**-126, 2.0**127], np.float32)  # from the least normal exponent to the greatest
    np.testing.assert_array_equal(xnp.ldexp(ends, np.array([-253, 253, 253, -252])), np.ldexp(ends, np.array([-253, 253, 253, -252])))
    np.testing.assert_array_equal(xnp.ldexp(np.float32(1), np.array([-(2**31), 2**31 - 1])), [0, np.inf])


@pytest.mark.parametrize("name", "float8_e4m3 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2 float8_e5m2fnuz float8_e3m4 float16".split())
def test_float_decomposition_of_small_formats(name):
    """Formats without infinities use the largest exponent for numbers, and have other biases."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x = np.arange(2 ** (8 * dtype.itemsize), dtype=f"uint{8 * dtype.itemsize}").view(dtype)
    x = x[np.isfinite(x)]
    mantissas, exponents = np.frexp(x.astype(np.float64))
    ours = xnp.frexp(x)
    np.testing.assert_array_equal(np.asarray(ours[0]).astype(np.float64), mantissas)
    np.testing.assert_array_equal(ours[1], exponents)
    for n in (-300, -3, -1, 0, 2, 5, 17):
        with np.errstate(all="ignore"):
            expected = np.ldexp(x.astype(np.float64), n).astype(dtype).astype(np.float64)
        found = np.asarray(xnp.ldexp(x, n)).astype(np.float64)
        is_normal = ~(abs(expected) < float(ml_dtypes.finfo(dtype).tiny)) | (n == -300)  # others are rounded more than once
        np.testing.assert_array_equal(found[is_normal], expected[is_normal], err_msg=str(n))


def test_functions_of_users_with_the_methods_of_ufuncs():
    ours, theirs = xnp.frompyfunc(lambda x, y: x * y + 1, 2, 1), np.frompyfunc(lambda x, y: x * y + 1, 2, 1)
    assert isinstance(ours, xnp.ufunc) and isinstance(xnp.add, xnp.ufunc) and not isinstance(np.add, xnp.ufunc)
    assert (ours.nin, ours.nout, ours.nargs, ours.identity) == (2, 1, 2, None)
    for call in ("f(M, M)", "f.reduce(M)", "f.reduce(M, axis=1)", "f.accumulate(M, axis=1)", "f.outer(V, P)", "f.reduceat(V, [0, 2, 4])"):
        indices = {"f.reduceat(V, [0, 2, 4])": "f.reduceat(V, np.array([0, 2, 4]))"}
        found, expected = (eval(indices.get(call, call), {"f": f, "np": np, "M": M, "V": V, "P": P}) for f in (ours, theirs))
        np.testing.assert_allclose(found, expected.astype(np.float32), rtol=1e-5, atol=1e-6)
    add = xnp.frompyfunc(lambda x, y: x - y, 2, 1)
    add.__name__ = "add"  # a name says nothing
    assert float(add.reduce(np.arange(3.0, dtype=np.float32))) == -3
    started = xnp.frompyfunc(lambda x, y: x * y + 1, nin=2, nout=1, identity=0)
    assert float(started.reduce(np.array([1.0, 2.0], np.float32))) == 3 and float(started.reduce(Z)) == 0
    assert xnp.frompyfunc(lambda x: -x, 1, 1).at(V, np.array([0, 1]), inplace=False).tolist() == [-V[0], -V[1], *V[2:].tolist()]


def test_excluded_arguments_of_vectorize():
    power = xnp.vectorize(lambda x, n: x**n, excluded={1})
    np.testing.assert_allclose(power(V, 3), V**3, rtol=1e-5)
    scaled = xnp.vectorize(lambda x, *, by: x * by.sum(), excluded={"by"})
    np.testing.assert_allclose(scaled(V, by=M), V * M.sum(), rtol=1e-5)
    two = xnp.vectorize(lambda x, y: (x + y, x), signature="(n),()->(n),(n)")
    assert [x.shape for x in two(T, V[:3])] == [(2, 3, 4), (2, 3, 4)]


def test_array_api_requirements():
    info = xnp.__array_namespace_info__()
    assert xnp.__array_api_version__ == "2025.12"
    assert all([xnp.ones(2).__array_namespace__(api_version=version) is xnp for version in ("2025.12", "2024.12", None)])
    assert info.capabilities() == {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}
    assert info.default_device() is None and set(xf.devices()) < set(info.devices())
    assert {name: str(d) for name, d in info.default_dtypes().items()} == {
        "real floating": "float32", "complex floating": "complex64", "integral": "int32", "indexing": "int32"}  # fmt: skip
    assert list(info.dtypes(kind=("bool", "real floating"))) == ["bool", "float32"]
    with xf.enable_x64(True):
        assert list(info.dtypes(kind="signed integer")) == ["int8", "int16", "int32", "int64"]
        assert len(info.dtypes()) == 13 and str(info.default_dtypes()["indexing"]) == "int64"
    with pytest.raises(ValueError, match="2025.12"):
        xnp.ones(2).__array_namespace__(api_version="2021.12")


def test_derivative_of_mantissas():
    x = xnp.array([1.0, -3.0, 1e-3, 3e38, 0.0, np.inf])
    powers = xf.grad(lambda v: xnp.frexp(v)[0].sum())(x)
    np.testing.assert_array_equal(powers[:3], [0.5, 0.25, 512])  # mantissa = x * 2 ** -exponent
    assert np.isfinite(powers).all()


@pytest.mark.parametrize("bins", [
    3, (2, 3), [0, 1, 5], (0.0, 1.0, 5.0), [0, 1, 3, 5], np.array([0, 1, 5]), [np.array([0, 1]), np.array([0, 1, 5])],
    (2, np.array([0, 3, 4, 5]))], ids=repr)
def test_bins_of_histograms_of_planes(bins):
    """Edges for both directions may be a list: only two entries are one for each direction."""
    x, y = np.arange(5.0, dtype=np.float32), np.array([0, 4, 1, 1, 2], np.float32)
    for a, b in zip(xnp.histogram2d(x, y, bins), np.histogram2d(x, y, bins), strict=True):
        np.testing.assert_allclose(np.asarray(a), b)


@pytest.mark.parametrize("axes", [1.5, "a", None, {}, np.float32(1)], ids=repr)
def test_bad_axes_of_tensordot_raise(axes):
    with pytest.raises(TypeError, match="axes"):
        xnp.tensordot(np.ones((2, 2)), np.ones((2, 2)), axes)


def test_rules_for_numbers_of_bins_are_numpys():
    with pytest.raises(NotImplementedError, match="bins"):
        xnp.histogram_bin_edges(np.ones(3), "auto")


def test_indices_that_are_no_integers_raise():
    """`unravel_index` leaves what is not whole in the last index; of booleans it makes integers of weak type."""
    for dtype in (np.float32, np.float16):
        rows, columns = xnp.unravel_index(xnp.array([22, 41.25, 0.5, -1, 99, -99], dtype), (7, 6))
        assert rows.dtype == columns.dtype == dtype
        assert rows.tolist() == [3, 6, 0, 6, 6, 0] and columns.tolist() == [4, 5.25, 0.5, 5, 5, 0]
    rows, columns = xnp.unravel_index(xnp.array([True, False]), (2, 1))
    assert rows.dtype == columns.dtype == np.int32 and rows.weak_type and columns.weak_type
    assert rows.tolist() == [1, 0] and columns.tolist() == [0, 0]


def test_piecewise_traces_functions_once():
    traced = []

    def double(v, factor):
        traced.append(v)
        return factor * v

    x = np.arange(-2.0, 2.0, dtype=np.float32)
    for factor in (2, 3):
        assert xnp.piecewise(x, [x < 0], [double, 0.5], factor).tolist() == np.piecewise(x, [x < 0], [double, 0.5], factor).tolist()
    assert len([v for v in traced if not isinstance(v, np.ndarray)]) == 1
