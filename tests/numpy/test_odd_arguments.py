"""Unusual arguments: scalars wider than any dtype, arrays in place of scalars, lists in place of Python scalars, empty arrays."""

import decimal
import fractions
import itertools
import typing
import warnings

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WIDE = {"2**40": 2**40, "-2**40": -2**40, "2**63": 2**63, "int64": np.int64(2**40 + 7), "uint64": np.uint64(2**63),
        "array": np.array([2**40, 5])}
FILLS = {"full": lambda v, d: xnp.full(2, v, d), "full_like": lambda v, d: xnp.full_like(xnp.zeros(2, d), v),
         "jit": lambda v, d: xf.jit(lambda: xnp.full(2, v, d))(), "lax.full": lambda v, d: lax.full((2,), v, d),
         "lax.full_like": lambda v, d: lax.full_like(xnp.zeros(2, d), v)}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("wide", WIDE)
def test_fill_values_out_of_range_are_cast_as_in_numpy(wide, fill):
    value = WIDE[wide]
    for dtype in ("int8", "uint32", "int32", "bool", "float32", "bfloat16", "complex64"):
        if np.ndim(value) and fill.startswith("lax"):  # which takes scalars
            continue
        got = FILLS[fill](value, dtype)
        assert got.dtype == xnp.dtype(dtype)
        np.testing.assert_array_equal(np.asarray(got), np.full(2, value).astype(xnp.dtype(dtype)), err_msg=dtype)


def test_wide_fill_value_without_dtype_is_truncated():
    assert [int(xnp.full((), v)) for v in (2**40 + 3, 10**10)] == [3, 10**10 - 2**33]  # what is left of them in int32
    assert xnp.full((), 2**40).weak_type and xnp.full((), 2**40).dtype == "int32"
    with pytest.raises(OverflowError):
        xnp.full((), 2**70)
    with xf.enable_x64(True):
        assert int(xnp.full((), 2**40)) == 2**40


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_ddof_may_be_an_array_or_traced(name):
    function, there = getattr(xnp, name), getattr(np, name)
    want = [there(X[:, i], ddof=d) for i, d in enumerate([1, 0, 0.5])]
    for ddof in (np.array([1, 0, 0.5]), xnp.array([1, 0, 0.5])):
        np.testing.assert_allclose(function(X, axis=0, ddof=ddof), want, rtol=1e-6)
        np.testing.assert_allclose(xf.jit(lambda d: function(X, axis=0, ddof=d))(ddof), want, rtol=1e-6)
    np.testing.assert_allclose(xf.vmap(lambda d: function(X, ddof=d))(xnp.arange(3)), [there(X, ddof=d) for d in range(3)], rtol=1e-6)
    assert np.isnan(function(X, axis=0, ddof=np.array([2, 3, 0]))).tolist() == [True, True, False]
    with pytest.raises(TypeError, match="incompatible shapes"):
        function(X, axis=0, ddof=np.ones(2))


@pytest.mark.parametrize("name, ddof", [("var", 0), ("var", 1), ("var", xnp.array(2)), ("nanvar", 0), ("nanvar", 1)])
def test_variance_of_too_few_elements_is_constant(name, ddof):
    """It is NaN whatever the elements, and its tangent 0, as in JAX."""
    for size in (0, 1):
        x = xnp.ones((size, 2))
        if size and not np.any(ddof):
            x = x * np.nan if name == "nanvar" else x[:0]
        variance, tangent = xf.jvp(lambda a: getattr(xnp, name)(a, axis=0, ddof=ddof), (x,), (xnp.ones_like(x),))
        np.testing.assert_array_equal([variance, tangent], [[np.nan] * 2, [0, 0]])


@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd", "nanmedian"])
def test_statistics_of_nothing_are_constant(name):
    function = lambda a: getattr(xnp, name)(a, axis=0)  # noqa: E731
    for call in (function, xf.jit(function)):
        found, tangent = xf.jvp(call, (xnp.ones((0, 2)),), (xnp.ones((0, 2)),))
        np.testing.assert_array_equal([found, tangent], [[np.nan] * 2, [0, 0]])


def test_variance_is_differentiable_in_ddof():
    sum_of_squares = np.sum((X - X.mean()) ** 2)
    np.testing.assert_allclose(xf.grad(lambda d: xnp.var(X, ddof=d))(1.0), sum_of_squares / 25, rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda d: xnp.var(X, correction=d))(1.0), sum_of_squares / 25, rtol=1e-6)


PYTHON_VALUES = """average(X, returned={0}) average(X, keepdims={0}) cov(X, rowvar={0}) cov(X, bias={0}) cov(X, ddof={0})
    corrcoef(X, rowvar={0}) trace(X, axis2={0}) sum(X, keepdims={0}) sum(X, promote_integers={0}) max(X, keepdims={0})
    mean(X, keepdims={0}) var(X, keepdims={0}) std(X, keepdims={0}) any(X, keepdims={0}) ptp(X, keepdims={0}) sum(X, dtype={0})
    linspace(0, 1, endpoint={0}) linspace(0, 1, retstep={0}) geomspace(1, 2, endpoint={0}) resize(X, {0}) packbits(X > 0, {0})
    take(X, 0, mode={0}) take(X, 0, unique_indices={0}) take(X, 0, fill_value={0}) rot90(X, {0}) rot90(X, axes={0})
    polyder(X[0], {0}) polyint(X[0], {0}) vander(X[0], {0}) vander(X[0], increasing={0}) polyfit(X[0], X[0], {0})
    append(X, X, {0}) put_along_axis(X, xnp.zeros((2, 1), int), 1, {0}) vdot(X, X, precision={0}) inner(X, X, precision={0})
    lax.dynamic_index_in_dim(X, 0, {0}) lax.dynamic_index_in_dim(X, 0, keepdims={0}) nn.logmeanexp(X, {0})""".replace(") ", ")\n")


@pytest.mark.parametrize("call", [line.strip() for line in PYTHON_VALUES.splitlines()])
def test_static_arguments_must_not_be_lists_or_arrays(call):
    names = {"xnp": xnp, "np": np, "lax": lax, "nn": nn, "X": X}
    for value in ("[1]", "[0, 1]", "np.array(1)", "xnp.array(1)"):
        with pytest.raises(ValueError, match="[Nn]on-hashable static"):
            eval((call if call.startswith(("lax", "nn")) else f"xnp.{call}").format(value), names)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "mean", "var", "std", "any", "all", "ptp", "average"])
def test_axes_are_sequences_of_any_kind(name):
    want = getattr(np, name)(X, axis=(0, 1))
    for axis in ([0, 1], np.array([0, 1]), xnp.array([0, 1]), range(2), [0, -1]):
        np.testing.assert_allclose(getattr(xnp, name)(X, axis=axis), want, rtol=1e-6)


def warned(function) -> list[str]:
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        function()
    return [entry.category.__name__ for entry in log]


LOSES = {"full": lambda v: xnp.full(2, v, "float32"), "full_like": lambda v: xnp.full_like(X, v),
         "lax.full": lambda v: lax.full((2,), v, "int8"), "sum": lambda v: xnp.sum(X + 1, initial=v),
         "max": lambda v: xnp.max(X + 2, initial=v)}


@pytest.mark.parametrize("name,value", list(itertools.product(LOSES, [np.complex64(1j), "array"])))
def test_discarded_imaginary_components_warn(name, value):
    value = xnp.array(1j) if value == "array" else value
    assert warned(lambda: LOSES[name](value)) == ["ComplexWarning"]
    assert warned(lambda: LOSES[name](value.real)) == []


def test_nonzero_of_an_empty_array_ignores_fill_value():
    for empty in (np.zeros(0), np.zeros((2, 0)), np.zeros((0, 3, 1))):
        for call in (xnp.nonzero, xf.jit(xnp.nonzero, static_argnames=("size", "fill_value"))):
            found = call(empty, size=4, fill_value=7)
            assert [(f.dtype.name, f.tolist()) for f in found] == [("int32", [0] * 4)] * empty.ndim
    assert xnp.argwhere(X, size=0, fill_value=1.5).dtype == "float32"
    assert xnp.argwhere(X, size=7, fill_value=9)[-2:].tolist() == [[9, 9]] * 2


@pytest.mark.parametrize("name", ["median", "nanmedian", "quantile", "nanquantile", "percentile"])
def test_quantile_of_a_scalar_with_keepdims_is_a_vector(name):
    of = getattr(xnp, name)
    q = () if "median" in name else (0.5,)
    assert of(2.0, *q, keepdims=True).tolist() == [2.0] and of(2.0, *q).shape == ()
    if q:
        assert of(2.0, xnp.array([0.1, 0.2]), keepdims=True).shape == (2, 1)


def test_isdtype_takes_dtypes_and_fftfreq_takes_a_number():
    for value in (1, 1.5, True, 1j, X):
        with pytest.raises(TypeError, match="dtype"):
            xnp.isdtype(value, "bool")
    with pytest.raises(TypeError, match="kinds"):
        xnp.isdtype("int8", np.array([0]))
    for d in ([1.0], (1,), [1, 2]):
        with pytest.raises(ValueError, match="single number"):
            xnp.fft.fftfreq(4, d)
        with pytest.raises(ValueError, match="single number"):
            xnp.fft.rfftfreq(4, d=d)


class Pair(typing.NamedTuple):
    a: float
    b: float


def test_comparisons_with_containers():
    x = xnp.ones(2)
    for container in ([1.0, 1.0], (1.0, 1.0), {1.0}, {"a": 1}):
        for compare in (lambda x, y: x == y, lambda x, y: x != y, lambda x, y: y == x):
            with pytest.raises(TypeError):
                compare(x, container)
    for other in (Pair(1.0, 1.0), None, "a", frozenset((1,))):  # objects that cannot become arrays
        assert (x == other, x != other, x in [other]) == (False, True, False)
    with pytest.raises(TypeError, match="not supported between"):
        assert x < Pair(1.0, 1.0)


def test_scalars_of_a_requested_dtype():
    for number, value in ((fractions.Fraction(1, 2), 0.5), (decimal.Decimal("1.5"), 1.5)):
        assert xnp.asarray(number, dtype=xnp.float32) == value and xnp.array(number, float).dtype == np.float32
        with pytest.raises(TypeError, match="cannot become an array"):
            xnp.asarray(number)
    with pytest.raises(TypeError, match="cannot become an array"):
        xnp.asarray(object(), dtype=float)


def test_objects_with_index_are_integers():
    class Count:
        def __index__(self):
            return 2

    count = Count()
    for made in (xnp.zeros(count), xnp.ones((count,)), xnp.full(count, 1.0), xnp.broadcast_to(1.0, count)):
        assert made.shape == (2,)
    assert xnp.arange(5)[count] == 2
    with pytest.raises(TypeError):
        xf.jit(xnp.zeros)(2)


def test_numpy_scalars_are_truncated_as_arrays():
    wide = 2**40 + 3
    assert xnp.asarray(np.int64(wide)) == xnp.asarray(np.array([wide]))[0] == 3
    with pytest.raises(OverflowError):
        xnp.asarray(wide)


def test_bytes_in_the_other_order():
    swapped = np.arange(3, dtype=np.dtype(np.float32).newbyteorder())
    np.testing.assert_array_equal(xnp.asarray(swapped), [0, 1, 2])
    np.testing.assert_array_equal(xnp.array([swapped, swapped]), [[0, 1, 2]] * 2)
    for f in (xf.jit(lambda x: x + 1), xf.device_put, xf.grad(lambda x: (x * x).sum()), xf.vmap(lambda x: x * 2)):
        for _ in range(2):  # C++ repeats calls, and would read the bytes as they lie
            with pytest.raises(TypeError, match="in the other order"):
                f(swapped)


def test_positions_have_the_dtype_of_the_indices():
    index = np.array([0, 1], np.int8)
    found = xnp.ravel_multi_index((index, index), (2, 64), mode="wrap")
    assert found.dtype == np.int8 and found.tolist() == [0, 65]
    assert xnp.ravel_multi_index((index, np.int16(3)), (2, 64)).dtype == np.int16
    assert xnp.ravel_multi_index((index, index), (2, 300), mode="clip", dtype=np.int32).tolist() == [0, 301]
    with pytest.raises(ValueError, match="large enough to hold"):
        xnp.ravel_multi_index((index, index), (2, 65), mode="wrap")


def test_unravel_index_of_a_traced_shape():
    for positions in (np.array([3, 4, -1, 9]), np.array([3, 4], np.int8), 5):
        found, expected = xf.jit(xnp.unravel_index)(positions, (2, 3)), xnp.unravel_index(positions, (2, 3))
        for x, y in zip(found, expected, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


def test_grids_of_no_dimensions():
    assert xnp.mgrid[()].shape == (0,) and xnp.ogrid[()] == []


@pytest.mark.parametrize(("y", "dx", "axis"), [
    ((3, 10), (3, 1), -1), ((2, 3), (3,), 0), ((3, 4, 5), (4, 5), 0), ((3, 4, 5), (5,), 1), ((2, 3, 4, 5), (2, 1, 3, 5), 2)])
def test_distances_of_samples_broadcast(y, dx, axis):
    y, dx = np.arange(np.prod(y), dtype=np.float32).reshape(y), 1 + np.arange(np.prod(dx), dtype=np.float32).reshape(dx)
    np.testing.assert_allclose(xnp.trapezoid(y, dx=dx, axis=axis), np.trapezoid(y, dx=dx, axis=axis), rtol=1e-6)


def test_convolutions_of_integers_in_their_dtype():
    x, y = np.array([200, 100], np.uint8), np.array([3, 2], np.uint8)
    found = xnp.convolve(x, y, preferred_element_type=np.uint8)
    assert found.dtype == np.uint8 and found.tolist() == np.convolve(x, y).tolist()
    exact = xnp.correlate(np.array([2**24 + 1, 1]), np.array([1, 1]), "full", preferred_element_type=np.int32)
    assert exact.tolist() == [2**24 + 1, 2**24 + 2, 1]
    assert xnp.convolve(x > 150, y > 0, preferred_element_type=np.int32).tolist() == [1, 1, 0]


def test_vectorize_passes_none_on():
    add = xnp.vectorize(lambda x, y: x if y is None else x + y)
    assert add(np.arange(3), None).tolist() == add(np.arange(3), y=None).tolist() == [0, 1, 2]
    total = xnp.vectorize(lambda x, y: x.sum(), signature="(n),(m)->()")
    assert total(np.ones((2, 3)), None).tolist() == [3, 3]


def test_conversion_of_complex_numbers_that_are_not_finite():
    found = [int(lax.convert_element_type(complex(x, 0), np.int32)) for x in (np.nan, np.inf, -np.inf)]
    assert found == [0, 2**31 - 1, -2**31]
    with pytest.raises(TypeError, match="real part"):
        lax.convert_element_type(1 + 2j, np.int32)


def test_transforms_over_no_dimensions():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert lax.fft(x, "FFT", ()).dtype == np.complex64 and lax.fft(x, "RFFT", ()).tolist() == x.tolist()


def test_copies_under_transformations_have_their_own_buffer():
    for copied in (lambda x: xf.vmap(xnp.array)(x), lambda x: xf.jvp(xnp.array, (x,), (x,))[0], lambda x: xf.vjp(xnp.array, x)[0]):
        x = xnp.ones(10)
        xf.jit(lambda x: x + 1, donate_argnums=0)(copied(x))
        assert not x.is_deleted()


def test_replacements_of_numbers_that_are_not_finite_may_be_lists():
    x = xnp.array([np.nan, np.inf, -np.inf])
    assert xnp.nan_to_num(x, nan=[1, 2, 3], posinf=(4, 5.0, 6), neginf=[7, 8, 9]).tolist() == [1, 5, 9]
    assert xnp.nan_to_num(1.0, nan=[1, 2]).tolist() == [1, 1]


def test_histograms_of_small_integers_with_weights():
    """Points and weights of one dtype need no promotion between the types, in two dimensions as in one."""
    x = xnp.array([1, 2, 0], "uint4")
    assert xnp.histogram2d(x, x, bins=3, weights=x)[0].tolist() == np.diag([0, 1, 2]).tolist()
    assert [v.dtype for v in xnp.histogram2d(x, x, bins=3, weights=x)] == [np.float32] * 3
