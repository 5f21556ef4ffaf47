"""Supported and unsupported arguments, and the exceptions that these raise: tables of calls, and behavior of JAX."""

import warnings

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import dtypes, nn

X = np.arange(6, dtype=np.float32).reshape(2, 3)
MASKED = np.ma.array([1, 2], mask=[0, 1])
NAMES = {"xf": xf, "xnp": xnp, "np": np, "X": X, "MASKED": MASKED, "x": xnp.arange(3), "m": xnp.asarray(X)}

REFUSED = [  # (error, a word of its text, calls)
    (ValueError, "boolean", """xnp.sum(X, where=xnp.array([1, 0, 1])) | xnp.prod(X, where=1) | xnp.max(X, where=1., initial=0) |
        xnp.any(X, where=X) | xnp.all(X, where=1) | xnp.mean(X, where=X) | xnp.std(X, where=1) | xnp.var(X, where=1) |
        xnp.nansum(X, where=1) | xnp.nanmean(X, where=1) | xnp.nanmax(X, where=1, initial=0)"""),
    (ValueError, "scalar", """xnp.sum(X, axis=-1, initial=xnp.zeros(2)) | xnp.prod(X, initial=xnp.zeros(1)) |
        xnp.max(X, initial=xnp.zeros(2)) | xnp.nansum(X, initial=xnp.zeros(1)) | xnp.nanmin(X, initial=xnp.zeros(1)) |
        xnp.arange(xnp.ones(2)) | xnp.arange(2) in x"""),
    (NotImplementedError, "out", """xnp.sum(X, out=X) | xnp.max(X, out=X) | xnp.nanmean(X, out=X) |
        xnp.trace(X, out=X) | xnp.isposinf(X, out=X)"""),
    (ValueError, "out", "xnp.median(X, out=X) | xnp.nanquantile(X, .5, out=X) | xnp.percentile(X, 5, out=X)"),
    (ValueError, "as many sources", "xnp.moveaxis(X, (0, 0), 1) | xnp.moveaxis(X, 0, (0, 1))"),
    (ValueError, "k must be", "xnp.trace(X, 1.5) | xnp.eye(2, k=1.5)"),
    (ValueError, "permutation", "xnp.permute_dims(X, (0, 0)) | xnp.permute_dims(X, (1, -1))"),
    (TypeError, "permutation", "xnp.permute_dims(X, (0,)) | xnp.transpose(X, (0, 0)) | m.transpose(1, 1)"),
    (ValueError, "empty axis", "xnp.pad(X[:0], 1, mode='linear_ramp') | xnp.pad(X[:, :0], ((0, 0), (0, 1)), mode='edge')"),
    (ValueError, "no real dtype", "xnp.nanstd(X * 1j, dtype='int8') | xnp.nanvar(X * 1j, dtype=float)"),
    (ValueError, "the same", "xnp.trace(X, 0, 1, 1) | xnp.trace(X, 0, 0, -2)"),
    (ValueError, "2 dimensions", "xnp.tril(X[0], 1.5) | xnp.triu(1., None)"),
    (ValueError, "multiple axes", "xnp.subtract.accumulate(X, axis=None) | xnp.maximum.accumulate(X, axis=(0,))"),
    (TypeError, "dtype", "xnp.logaddexp.accumulate(X, dtype=int) | xnp.logical_xor.reduce(X, dtype=float)"),
    (TypeError, "at least a number", "xnp.arange(None)"),
    (ValueError, "same size", """xnp.matvec(X, X[:, 0]) | xnp.vecmat(X[0], X) | xnp.matvec(X[0], X[0]) | xnp.vecmat(X, X[0]) |
        xnp.vecdot(X, X[:, 0])"""),
    (ValueError, "integer", "xnp.take(X, X)"),
    (ValueError, "sequence of arrays", "xnp.vstack(xnp.asarray(2.)) | xnp.hstack(xnp.zeros(0)) | xnp.stack(xnp.zeros((0, 2)))"),
    (ZeroDivisionError, "-1", "xnp.reshape(xnp.zeros((2, 0)), (0, -1)) | xnp.zeros((0, 3)).reshape(-1, 0)"),
    (ValueError, "broadcast", "xnp.repeat(X, xnp.array([1, 2]), axis=1, total_repeat_length=2)"),
    (TypeError, "array", "xnp.repeat(X, [1, 2], axis=0)"),
    (TypeError, "integers", "xnp.repeat(X, 2.0) | xnp.repeat(X, np.ones(2), axis=0) | xnp.split(X, 1.5) | xnp.split(X, 'a')"),
    (TypeError, "integers", "xnp.array_split(X, [1.0]) | xnp.split(X, None) | xnp.hsplit(X, 1j)"),
    (TypeError, "complex", "xnp.full(2, 1j, 'int8')"),
    (NotImplementedError, "order", "m.reshape(6, order='A') | m.ravel(order='K') | xnp.array([1], order='F')"),
    (TypeError, "incompatible shapes", """xnp.ones(3) + xnp.ones(4) | xnp.ones(3) < xnp.ones(4) |
        xnp.clip(xnp.ones(3), xnp.ones(4)) | xnp.isclose(xnp.ones(3), xnp.ones(4)) | xnp.power(xnp.ones(3), xnp.ones(4))"""),
    (ValueError, "[Ii]ncompatible shapes", """xnp.hypot(xnp.ones(3), xnp.ones(4)) | xnp.ldexp(xnp.ones(3), xnp.arange(4)) |
        xnp.where(xnp.ones(3) > 0, xnp.ones(4), 1) | xnp.broadcast_arrays(xnp.ones(3), xnp.ones(4)) |
        xnp.select([xnp.ones(3) > 0], [xnp.ones(4)]) | m[xnp.array([0, 1, 0]), xnp.array([0, 1])] | xnp.full((2,), xnp.ones(3))"""),
    (TypeError, "nonnegative", """xnp.zeros((-1, 1)) | xnp.ones(-1) | xnp.empty(-1) | xnp.full(-1, 1) | xnp.tri(-1) |
        xnp.zeros_like(1., shape=(-1,))"""),
    (ValueError, "negative", """xnp.eye(-1) | xnp.identity(-1) | xnp.unique(X, size=-1) | xnp.union1d(X, X, size=-1) | xnp.nonzero(X, size=-1) |
        xnp.intersect1d(X[0], X[1], size=-1) | xnp.setdiff1d(X[0], X[1], size=-1) | xnp.unique_values(X, size=-1)"""),
    (ValueError, "None", "xnp.nan_to_num(X, nan=None)"), (TypeError, "str", "xnp.nan_to_num(X, nan='a')"),
    (TypeError, "keepdims", "xnp.var(X, 0, mean=X[0]) | xnp.std(X, 1, mean=xnp.ones(2)) | xnp.var(X[0], mean=np.ones((1, 1)))"),
    (TypeError, "integer", "xnp.nanargmax(X, axis=[0]) | xnp.nanargmin(X, axis=(0,)) | xnp.argmax(X, axis=[0])"),
    (ValueError, "one-dimensional", "1 in xnp.array(1) | 1 in m"),
    (TypeError, "array", "'a' in x | None in x | [1] in x | xnp.full(2, [1, 2]) | xnp.average([1, 2])"),
    (TypeError, "NoneType", "xnp.where(1, 2)"),
    (TypeError, "kind", "xnp.sort(X, kind='foo') | xnp.argsort(X, kind='stable')"),
    (ValueError, "complex", """xnp.hypot(1j, 1) | xnp.isposinf(1j) | xnp.isneginf(1j) | xnp.signbit(1j) | xnp.median(X * 1j) |
        xnp.quantile(X * 1j, .5) | xnp.arange(1+2j, 5+3j) | xnp.arange(0, 5, 1+1j)"""),
    (TypeError, "complex", "xnp.fabs(1j) | xnp.argmax(X * 1j)"),
    (ValueError, "inexact", "xnp.round(True)"),
    (ValueError, "one dimension", "xnp.digitize(X, X) | xnp.digitize(X, 1.)"),
    (NameError, "unbound axis name", "xnp.sum(X, axis='a') | xnp.mean(X, axis='a')"),
    (ValueError, "mask", """xnp.sin(MASKED) | xnp.asarray(MASKED) | xnp.ones(2) + MASKED | xf.jit(lambda x: x)(MASKED) |
        xf.device_put(MASKED) | xf.grad(xnp.sum)(MASKED) | xnp.stack([MASKED]) | xnp.where(MASKED, 1, 2)"""),
    (ValueError, "axis", "xnp.average(X, weights=xnp.ones(2)) | xnp.average(X, axis=0, weights=xnp.ones(3))"),
    (NotImplementedError, "inverted_cdf", "xnp.quantile(X, .5, weights=X)"),
    (ValueError, "hash", """xnp.cumsum(X, axis=[0]) | xnp.cumprod(X, axis=[0]) | xnp.nancumsum(X, axis=[0]) |
        xnp.diff(X, axis=[0]) | xnp.gradient(X, axis=[0, 1]) | xnp.trapezoid(X, axis=[0]) | xnp.rollaxis(X, [0])"""),
    (TypeError, "floating", "xnp.quantile(X, 1j) | xnp.nanquantile(X, 1)"),
    (ValueError, "complex", "xnp.median(X * 1j, axis=.5) | xnp.quantile(X * 1j, 1)"),
    (TypeError, "no second operands", "xnp.negative.at(x, 0, 2, inplace=False)"),
    (TypeError, "needs axes", "xnp.moveaxis(X, None, 0)"),
    (ValueError, "hash", "xnp.swapaxes(X, [0], 1) | xnp.unwrap(X, axis=[0]) | xnp.quantile(X, .5, axis=[0])"),
    (ValueError, "nested equally deep", "xnp.block([[X], X]) | xnp.block([]) | xnp.block([[X], []])"),
    (ValueError, "nested lists", "xnp.block((X, X)) | xnp.block([X, (X, X)]) | xnp.block([None])"),
    (xf.errors.TracerIntegerConversionError, "__index__", "xf.jit(lambda k: xnp.diag(x, k))(1)"),
    (NameError, "unbound axis name", "xf.nn.softmax(X, axis='a') | xf.nn.logsumexp(X, axis='a')"),
    (TypeError, "array", "xf.random.choice(xf.random.key(0), 2, (2,), p=[.5, .5])"),
    (IndexError, "integer axis", "xf.random.categorical(xf.random.key(0), X, axis='a') | xf.random.categorical(xf.random.key(0), X, axis=None)"),
    (ValueError, "an integer axis", "xf.random.categorical(xf.random.key(0), X, axis=True)"),
    (ValueError, "one axis", "xnp.trapezoid(X, axis=(0, 1)) | xnp.trapezoid(X, axis=())"),
    (ValueError, "size=4 slices", "xnp.compress(xnp.ones(2), xnp.ones(5), size=4) | xnp.extract(xnp.ones(3) > 0, xnp.ones(3), size=4)"),
    (ValueError, "leading dimensions must broadcast", "xnp.matmul(xnp.ones((2, 2, 3)), xnp.ones((3, 3, 2))) | "
     "xnp.vecdot(xnp.ones((2, 3)), xnp.ones((4, 3))) | xnp.matvec(xnp.ones((3, 2, 3)), xnp.ones((2, 3)))"),
    (ValueError, "broadcast", "xnp.full(-1, X) | xnp.full((2, -1), xnp.ones(3))"),
    (TypeError, "sequence of arrays", "xnp.choose(m, 1) | m.choose(None) | xnp.choose(1.5, 2)"),
    (TypeError, "array", "xnp.choose(m, 'a') | xnp.bincount(x, [1, 2])"),
    (ValueError, "weight for each", "xnp.bincount(x, 1) | xnp.bincount(x, xnp.ones(2)) | xnp.bincount(x, xnp.ones((1, 3)))"),
    (TypeError, "integer", "xnp.bincount(x, length=1.5) | xnp.bincount(x, minlength=1.5)"),
    (NotImplementedError, "order", "xnp.asarray(X, order='C')"),
    (TypeError, "permutation", "xnp.transpose(X, (0, 0)) | xnp.transpose(X, (0,))"),
]


@pytest.mark.parametrize(("error", "word", "call"), [
    (error, word, " ".join(call.split())) for error, word, calls in REFUSED for call in calls.split(" | ")
    for call in call.split(" |\n") if call.strip()])
def test_unsupported_arguments_raise(error, word, call):
    with pytest.raises(error, match=word) as caught:
        eval(call, dict(NAMES))
    assert caught.type is error or caught.type.__mro__[1] is error


def test_masked_arrays_are_accepted_by_array_only():
    assert xnp.array(MASKED).tolist() == [1, 2]
    assert xnp.zeros_like(MASKED).tolist() == [0, 0] and xnp.ones_like(MASKED, float).tolist() == [1, 1]


@pytest.mark.parametrize("axes", [range(2), np.array([0, 1]), [0, 1], (0, 1), xnp.array([0, 1])], ids=repr)
def test_axes_are_any_sequence_of_integers(axes):
    for name in "sum max mean all std ptp".split():
        np.testing.assert_allclose(getattr(xnp, name)(X, axis=axes), getattr(np, name)(X, axis=(0, 1)), rtol=1e-6)
    one = axes[:1]
    assert xnp.expand_dims(X, one).shape == (1, 2, 3)
    assert xnp.squeeze(X[None], one).shape == (2, 3)
    np.testing.assert_array_equal(xnp.flip(X, axes), X[::-1, ::-1])
    np.testing.assert_array_equal(xnp.moveaxis(X, axes, [1, 0]), X.T)


@pytest.mark.parametrize("name", "count_nonzero nansum nanmax nanmean nanstd nanmedian median linalg.norm".split())
def test_lists_of_axes_raise(name):
    """JAX accepts only tuples here."""
    function = eval(f"xnp.{name}")
    with pytest.raises(ValueError, match="hashable"):
        function(X, axis=[0, 1])
    np.testing.assert_allclose(function(X, axis=(0, 1)), eval(f"np.{name}")(X, axis=(0, 1)), rtol=1e-6)


def test_negative_indices_of_take_along_axis():
    x, i = xnp.asarray(X), xnp.array([[1, -1, 0]])
    assert xnp.take_along_axis(x, i, 0, mode="promise_in_bounds").tolist() == [[3, 4, 2]]
    assert xnp.take_along_axis(x, i, 0).tolist() == [[3, 4, 2]]
    assert xnp.take(x, True, axis=0).tolist() == [3, 4, 5]


def test_covariances_of_no_observations():
    assert np.isnan(xnp.cov(xnp.zeros(0))) and np.isnan(xnp.cov(xnp.zeros((2, 0)))).all()


def test_boolean_masks_beside_lists_of_axes():
    """Only arguments that name axes are converted to ints."""
    assert xnp.sum(X, axis=[0, 1], where=X > 2) == 12 and xnp.nanmean(X, (0, 1)) == 2.5
    assert xnp.max(X, [0], initial=4, where=X < 5).tolist() == [4, 4, 4]


def test_weights_of_several_axes_in_any_order():
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    w = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    expected = (x * w).sum((1, 2)) / w.sum()
    np.testing.assert_allclose(xnp.average(x, axis=(1, 2), weights=w), expected, rtol=1e-6)
    np.testing.assert_allclose(xnp.average(x, axis=(2, 1), weights=w.T), expected, rtol=1e-6)


def test_weighted_quantiles():
    """Integer weights are repetitions."""
    x, w = np.array([3.0, 1, 2, 7], np.float32), np.array([1, 3, 2, 1])
    for q in (0.1, 0.4, 0.5, 0.8, 1.0):
        expected = np.quantile(np.repeat(x, w), q, method="inverted_cdf")
        assert xnp.quantile(x, q, method="inverted_cdf", weights=w) == expected
        assert xnp.percentile(x, 100 * q, method="inverted_cdf", weights=w) == expected
        assert xnp.quantile(x, q, method="inverted_cdf") == np.quantile(x, q, method="inverted_cdf")
    rows = xnp.quantile(np.stack([x, x[::-1]]), np.array([0.4, 0.8]), axis=1, method="inverted_cdf", weights=w)
    assert rows.shape == (2, 2)
    assert rows[0, 0] == np.quantile(np.repeat(x, w), 0.4, method="inverted_cdf")
    assert rows[1, 1] == np.quantile(np.repeat(x[::-1], w), 0.8, method="inverted_cdf")


def test_derivatives_without_nan():
    x = np.array([1.0, np.nan, 3.0, 7.0], np.float32)
    selected = x[[0, 2, 3]]
    for name in ("nanvar", "nanstd", "nanmean", "nansum"):
        found = np.asarray(xf.grad(getattr(xnp, name))(x))
        expected = np.asarray(xf.grad(getattr(xnp, name.removeprefix("nan")))(selected))
        np.testing.assert_allclose(found[[0, 2, 3]], expected, rtol=1e-5)
        assert found[1] == 0


def test_traced_numbers_of_diagonals():
    for k in (-2, 0, 1):
        np.testing.assert_array_equal(xf.jit(lambda k: xnp.eye(4, k=k))(k), np.eye(4, k=k))
        np.testing.assert_array_equal(xf.jit(lambda k: xnp.tri(3, 4, k=k))(k), np.tri(3, 4, k=k))
        np.testing.assert_array_equal(xf.jit(lambda k: xnp.trace(X, k))(k), np.trace(X, k))


def test_indices_by_products():
    i = np.array([[1, 2], [0, -1]])
    np.testing.assert_array_equal(xnp.take_along_axis(X, i, 1, mode="one_hot"), np.take_along_axis(X, i, 1))
    assert xnp.take_along_axis(X, np.array([[5], [0]]), 1, mode="one_hot").tolist() == [[0.0], [3.0]]


def test_keys_are_compared():
    key, other = xf.random.key(0), xf.random.key(1)
    assert xnp.isclose(key, key)
    assert not xnp.allclose(key, other)


def test_zero_sized_tangents_are_constants():
    z = np.zeros(2, dtypes.float0)
    for call in (xf.device_put, xnp.asarray, xf.jit(lambda x: x), lambda x: xnp.stack([x, x])[0],
                 lambda x: xf.lax.cond(True, lambda x: x, lambda x: x, x)):
        for _ in range(2):
            assert call(z).dtype == dtypes.float0
            assert call(z).shape == (2,)
    [cotangent] = xf.jit(xf.vjp(lambda x: x * 2, 3)[1])(np.zeros((), dtypes.float0))
    assert cotangent.dtype == dtypes.float0


def test_deprecated_forms_warn():
    for call in (lambda: xnp.ndim([1, 2]), lambda: xnp.shape([1]), lambda: xnp.size(None)):
        with pytest.warns(DeprecationWarning):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (xnp.ndim(X), xnp.shape(1.0), xnp.size(xnp.ones(3))) == (2, (), 3)
    with pytest.raises(TypeError, match="positional"):
        xnp.array(xnp.ones(2), None, False)


@pytest.mark.cpu_only
def test_committed_arrays_are_not_transferred_silently():
    first, second = xf.devices()[:2]
    x = xf.device_put(X, first)
    for call in (lambda: xnp.array(x, device=second), lambda: xnp.asarray(x, device=second), lambda: x.astype(int, device=second)):
        with pytest.raises(ValueError, match="incompatible devices"):
            call()
        with pytest.raises(ValueError, match="incompatible devices"):
            xf.jit(lambda x: xnp.array(x, device=second))(x)
    assert xf.jit(lambda x: xnp.array(x, device=second))(X).devices() == {second}
    assert xnp.array(X, device=second).devices() == {second}
    assert xnp.asarray(xnp.ones(2), device=second).devices() == {second}


CALLS = """xnp.median(i) | xnp.quantile(i, .5) | xnp.percentile(h, xnp.array([20., 50.])) | xnp.geomspace(1, 10, 3) |
    xnp.logspace(0, 2, 3) | xnp.compress(t, i, size=2, fill_value=0) | xnp.extract(t, i, size=2, fill_value=0) |
    xnp.argwhere(t, size=2) | xnp.nonzero(t, size=2) | xnp.histogram_bin_edges(i) | xnp.average(i, weights=h.astype(int)) |
    xnp.where(t, X, X) | xnp.where(t, X[0], X) | xnp.select([t], [X], 0.) | xnp.sum(X, where=t) | xnp.nanmean(X, where=t) |
    xnp.var(i) | xnp.nanvar(i) | xnp.digitize(i, i) | xnp.sinc(i) | xnp.logaddexp2(h, h) | xnp.trace(X) | xnp.linspace(0, 1, 3) |
    xnp.add.reduceat(i, xnp.array([0, 2])) | xnp.logaddexp.reduce(h) | xnp.subtract.accumulate(i) | xnp.isclose(i, i) |
    xnp.take_along_axis(X, xnp.array([[0], [1]]), 1, mode="one_hot") | xnp.bincount(i) | h.at[0].multiply(2) | X[0] @ X[1]"""


@pytest.mark.parametrize(("setting", "value"), [
    ("numpy_dtype_promotion", "strict"), ("numpy_rank_promotion", "raise"), ("debug_nans", True), ("enable_x64", True),
    ("default_matmul_precision", "float32")])
def test_functions_do_not_depend_on_settings(setting, value):
    names = {"xnp": xnp, "X": X, "i": xnp.array([3, 1, 2]), "h": xnp.array([3, 1, 2], "bfloat16"),
             "t": xnp.array([True, False, True])}
    before = getattr(xf.config, setting)
    calls = [call for call in " ".join(CALLS.split()).split(" | ")]
    expected = [np.asarray(eval(call, dict(names))[0] if "nonzero" in call else eval(call, dict(names))) for call in calls]
    xf.config.update(setting, value)
    try:
        for call, correct in zip(calls, expected):
            found = eval(call, dict(names))
            np.testing.assert_allclose(np.float64(np.asarray(found[0] if "nonzero" in call else found)), np.float64(correct),
                                       rtol=1e-5, err_msg=call)
    finally:
        xf.config.update(setting, before)


def test_writing_to_an_array_without_elements():
    """All indices are out of bounds: writes have no effect, reads raise."""
    empty, indices = xnp.zeros((0, 2)), xnp.array([0, 1, 5])
    for mode in (None, "drop", "clip"):
        for updated in (empty.at[indices].set(1.0, mode=mode), empty.at[indices, 0].add(xnp.ones(3), mode=mode)):
            assert updated.shape == (0, 2)
    assert empty.at[indices].apply(xnp.sin).shape == (0, 2)
    assert xnp.bincount(indices, length=0).shape == (0,)
    with pytest.raises(TypeError, match="size 0"):
        empty[indices]
    with pytest.raises(IndexError, match="size 0"):
        empty[indices[0]]
    with pytest.raises(ValueError, match="cannot put"):
        xnp.zeros(0).at[indices].set(xnp.ones(5))


def test_ddof_may_be_a_fraction():
    rows = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 4.5]])
    np.testing.assert_allclose(xnp.cov(rows, ddof=1.5), np.cov(rows, ddof=1) * 2 / 1.5, rtol=1e-6)


def test_split_accepts_integral_floats_as_sections():
    for count in (2.0, np.float32(2), xnp.float32(2)):
        assert [p.tolist() for p in xnp.split(np.arange(4), count)] == [[0, 1], [2, 3]]


def test_scalars_are_repeated_along_any_axis():
    for axis in (None, 0, -1):
        np.testing.assert_array_equal(xnp.repeat(2.0, 3, axis=axis), np.full(3, 2.0))


def test_distances_of_samples_in_lists():
    y = np.array([[0.0, 1.0, 2.0], [3.0, 5.0, 9.0]])
    np.testing.assert_allclose(xnp.trapezoid(y, dx=[1, 2]), np.trapezoid(y, dx=[1, 2]))
    np.testing.assert_allclose(xnp.trapezoid(y, axis=(0,)), np.trapezoid(y, axis=0))
    np.testing.assert_allclose(xnp.trapezoid(y[0], y.cumsum(1)), np.trapezoid(y[0], y.cumsum(1)))  # positions of more dimensions
    np.testing.assert_allclose(xnp.trapezoid(y, [0.0, 1.0, 3.0] @ np.eye(3), None), np.trapezoid(y, [0.0, 1.0, 3.0]))


@pytest.mark.parametrize("name", ["float6_e2m3fn", "float6_e3m2fn"])
def test_types_that_live_within_programs(name):
    with pytest.raises(xf.errors.JaxRuntimeError, match="INVALID_ARGUMENT.*" + name):
        xnp.zeros(2, name)
    np.testing.assert_array_equal(xf.jit(lambda: xnp.ones(2, name).astype(float))(), [1, 1])


@pytest.mark.parametrize("name", "sum prod max min nansum nanprod nanmax nanmin any all".split())
def test_where_larger_than_the_array(name):
    """The array is broadcast with `where`; the axes are those of the array."""
    mask, x = np.array([True, False, True]), np.float32([[0.0], [3.0]])
    initial = {"initial": 2.0} if name.endswith(("max", "min")) else {}
    for options in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}):
        expected = getattr(np, name)(np.broadcast_to(x, (2, 3)), where=mask, **options, **initial)
        np.testing.assert_array_equal(getattr(xnp, name)(x, where=mask, **options, **initial), expected)


def test_where_of_means_must_broadcast_to_the_array():
    """Means count elements of the array, so `where` must not be larger; NaN-ignoring means allow it."""
    mask, x = np.array([True, False, True]), np.float32([[0.0], [3.0]])
    for name in ("mean", "var", "std"):
        with pytest.raises(ValueError, match="broadcast"):
            getattr(xnp, name)(x, where=mask)
        np.testing.assert_allclose(getattr(xnp, f"nan{name}")(x, where=mask), getattr(np, name)([0.0, 0, 3, 3]))


def test_fill_values_of_indices():
    """A float fill value makes all indices floats, also if none is missing."""
    for fill, dtype in ((None, "int32"), (-1, "int32"), (np.int8(4), "int32"), (1.5, "float32"), ((1.5,), "float32")):
        for size in (None, 2, 4):
            [found] = xnp.nonzero(np.arange(3), size=size, fill_value=fill)
            missing = fill[0] if isinstance(fill, tuple) else fill or 0
            assert found.dtype == dtype and found.tolist() == [1, 2, missing, missing][:size or 2]


def test_concat_has_no_dtype():
    with pytest.raises(TypeError):
        xnp.concat([np.arange(2), np.arange(2)], dtype="float32")


def test_high_powers_of_zero():
    for dtype in (np.int8, np.uint8, np.int32, np.uint32):
        x, y = np.array([0, 1, 0, 0, 2], dtype), np.array([64, 64, 0, 100, 6], dtype)
        np.testing.assert_array_equal(xnp.power(x, y), x**y)


def test_reshape_of_numpy_arrays_returns_numpy_arrays():
    """User code computes with static values so inside of compiled functions."""
    x = np.arange(6.0).reshape(2, 3)

    @xf.jit
    def f(y):
        columns = xnp.reshape(x, (3, -1), order="F")
        assert type(columns) is np.ndarray and columns.dtype == np.float64 and (columns >= 0).all()
        return columns @ y

    np.testing.assert_array_equal(f(xnp.ones(2)), x.reshape(3, 2, order="F") @ np.ones(2))
    assert type(xnp.reshape(np.float32(2), ())) is np.float32
    assert np.shares_memory(xnp.reshape(x, -1), x)
    assert all(isinstance(y, xf.Array) for y in (xnp.ravel(x, order="F"), xnp.reshape(2.0, 1), xnp.reshape(xnp.ones(2), (2, 1))))
    with pytest.raises(ValueError, match="reshape"):
        xnp.reshape(x, (4, 2))


@pytest.mark.parametrize("points", [np.float32(4.7), np.array(4.0), xnp.float32(4)])
def test_numbers_of_points_may_be_floats_in_arrays(points):
    np.testing.assert_allclose(xnp.bartlett(points), np.bartlett(4), atol=1e-6)
    np.testing.assert_allclose(xnp.kaiser(points, 2.0), np.kaiser(4, 2.0), atol=1e-6)


def test_arguments_of_numpy_are_not_changed():
    shift = np.array(5)
    np.testing.assert_array_equal(xnp.roll(X, shift), np.roll(X, 5))
    assert shift == 5


@pytest.mark.parametrize("kth, error", [(5, ValueError), (-4, ValueError), (None, TypeError), (1.5, TypeError), ((0, 1), TypeError)])
def test_kth_of_partition(kth, error):
    for call in (xnp.partition, xnp.argpartition):
        with pytest.raises(error):
            call(xnp.arange(3.0), kth)


@pytest.mark.parametrize("kind", [list, tuple, np.array, xnp.array])
def test_axes_in_any_sequence(kind):
    x = xnp.asarray(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(x.transpose(kind([1, 0])), np.arange(6.0).reshape(2, 3).T)
    np.testing.assert_allclose(nn.logsumexp(x, axis=kind([1, 0])), np.log(np.exp(np.arange(6.0)).sum()), rtol=1e-6)
    np.testing.assert_allclose(nn.softmax(x, axis=kind([1, 0])).sum(), 1.0, rtol=1e-6)


def test_sequences_with_shapes_of_their_own():
    """Such as SCICO's block arrays, whose shape is a tuple of shapes."""
    class Blocks(list):
        shape = property(lambda self: tuple([np.shape(x) for x in self]))
        aval = property(lambda self: tuple([x.aval for x in self]))
        dtype = np.dtype(np.complex64)

    blocks = Blocks([xnp.ones(2), xnp.zeros(3)])
    assert xnp.concatenate(blocks).tolist() == xnp.hstack(blocks).tolist() == [1, 1, 0, 0, 0]
    assert xnp.iscomplexobj(blocks)


def test_single_argument_of_arange_is_stop():
    for call, name in ((lambda n: xnp.arange(n), "stop"), (lambda n: xnp.arange(n, 5), "start"), (lambda n: xnp.arange(0, n), "stop")):
        with pytest.raises(xf.errors.ConcretizationTypeError, match=f"argument '{name}' of numpy.arange"):
            xf.jit(call)(3)


def test_pad_width_must_be_static():
    for width in (lambda k: k, lambda k: (k, 1), lambda k: [(0, k)], lambda k: {0: (1, k)}):
        with pytest.raises(xf.errors.ConcretizationTypeError, match="(?s)argument k .*argument 'pad_width' of numpy.pad"):
            xf.jit(lambda k: xnp.pad(xnp.ones(3), width(k)))(1)  # noqa: B023
    assert xf.grad(lambda k: xnp.pad(xnp.ones(2), 1).sum() * k)(3.0) == 2.0
