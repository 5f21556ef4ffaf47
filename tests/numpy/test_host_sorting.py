"""Sorting of large concrete arrays by NumPy gives what the compiled functions give, and keeps equal elements in order."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.numpy import host_sorting

pytestmark = pytest.mark.cpu_only

NAN = np.array([0x7FC00000, 0xFFC00001, 0x7FA00002], np.uint32).view(np.float32)  # of both signs, with payloads
DTYPES = ["float32", "int8", "uint8", "int16", "uint16", "int32", "uint32"]
FUNCTIONS = {
    "sort": xnp.sort,
    "sort axis 0": lambda x: xnp.sort(x, 0),
    "sort flat": lambda x: xnp.sort(x, axis=None),
    "sort descending": lambda x: xnp.sort(x, descending=True),
    "argsort": xnp.argsort,
    "argsort axis 0": lambda x: xnp.argsort(x, axis=0),
    "argsort descending": lambda x: xnp.argsort(x, descending=True),
    "argsort flat descending": lambda x: xnp.argsort(x, axis=None, descending=True),
    "partition": lambda x: xnp.partition(x, 2),
    "median": xnp.median,
    "median keepdims": lambda x: xnp.median(x, keepdims=True),
    "quantile": lambda x: xnp.quantile(x, xnp.array([0.1, 0.25, 1.0])),
    "quantile lower": lambda x: xnp.quantile(x, 0.3, method="lower", keepdims=True),
    "percentile": lambda x: xnp.percentile(x, 70),
    "permutation": lambda x: xf.random.permutation(xf.random.key(3), x.reshape(-1)),
}


@pytest.fixture(autouse=True)
def sorted_on_host(monkeypatch):
    """Sort arrays of all sizes by NumPy, and count them."""
    monkeypatch.setattr(host_sorting, "MIN_SIZE", 1)
    made = []
    from_host = host_sorting.from_host
    monkeypatch.setattr(host_sorting, "from_host", lambda *args: made.append(args) or from_host(*args))
    return made


def values(dtype, rng, special):
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, (6, 7), dtype, endpoint=True) if special else rng.integers(0, 9, (6, 7), dtype)
    x = rng.standard_normal((6, 7)).round(1).astype(dtype)
    x.flat[rng.integers(0, 42, 12)] = rng.choice([0.0, -0.0, np.inf, -np.inf], 12)
    if special:
        x.flat[rng.integers(0, 42, 6)] = np.resize(NAN, 6) if dtype == np.float32 else np.nan
    return x


def assert_same(got, want, rounded=False):
    assert got.dtype == want.dtype and got.shape == want.shape and got.weak_type == want.weak_type
    assert got.committed == want.committed and got.sharding == want.sharding
    # Compiled for CPUs, `sort` without indices orders -0 before 0; `test_sorts_are_stable` checks bits.
    np.testing.assert_array_max_ulp(got, want, 2) if rounded else np.testing.assert_array_equal(got, want)


def check(function, x, sorted_on_host, rounded=False):
    got = function(x)
    assert sorted_on_host
    assert_same(got, xf.jit(function)(x), rounded)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_compiled(name, special, sorted_on_host):
    rng = np.random.default_rng(len(name))
    for dtype in DTYPES:
        check(FUNCTIONS[name], xnp.asarray(values(dtype, rng, special)), sorted_on_host, name.startswith("quantile"))


def test_permutation_of_a_range(sorted_on_host):
    check(lambda key: xf.random.permutation(key, 50), xf.random.key(7), sorted_on_host)


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64"])
def test_64_bits_equal_compiled(dtype, sorted_on_host):
    rng = np.random.default_rng(0)
    with xf.enable_x64(True):
        for name in ("sort", "argsort axis 0", "argsort flat descending", "median", "permutation"):
            for special in (False, True):
                check(FUNCTIONS[name], xnp.asarray(values(dtype, rng, special)), sorted_on_host)


@pytest.mark.parametrize("dtype", ["float32", "uint32", "int8"])
@pytest.mark.parametrize("equal_nan", [True, False])
def test_unique_equals_numpy_and_compiled(dtype, equal_nan, sorted_on_host):
    x = values(dtype, np.random.default_rng(1), True)
    got = xnp.unique(xnp.asarray(x), True, True, True, equal_nan=equal_nan)
    want = np.unique(x, True, True, True, equal_nan=equal_nan)
    for ours, theirs in zip(got, want, strict=True):
        assert ours.dtype == (theirs.dtype if ours.dtype == dtype else np.int32)
        np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))
    compiled = xf.jit(lambda x: xnp.unique(x, True, True, True, equal_nan=equal_nan, size=len(want[0])))(x)
    for ours, theirs in zip(got, compiled, strict=True):
        assert_same(ours, theirs)
    np.testing.assert_array_equal(xnp.unique(xnp.asarray(x), equal_nan=equal_nan), want[0])


@pytest.mark.parametrize("by_digits", [True, False])
def test_orders_by_numpys_stable_sort(by_digits, monkeypatch):
    monkeypatch.setattr(host_sorting, "_digits_are_faster", lambda: by_digits)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.choice(np.float32([0, -0.0, 1, -1, np.nan, np.inf, 3]), (3, 40))
        np.testing.assert_array_equal(host_sorting.sort_order(x), np.argsort(x, kind="stable"))
        np.testing.assert_array_equal(host_sorting.sort_order(x.astype("d"), 0), np.argsort(x, 0, kind="stable"))
        words = rng.integers(0, 2**32, 50, np.uint32)
        for keys in (words, words.view(np.int32), words.astype(np.uint16), words.astype(np.int8), words[::2], words.view("u8")):
            np.testing.assert_array_equal(host_sorting.sort_order(keys), np.argsort(keys, kind="stable"))


def test_sorts_are_stable():
    for seed in range(20):
        x = values("float32", np.random.default_rng(seed), True)
        for axis in (0, 1):
            want = np.take_along_axis(x, np.argsort(x, axis, kind="stable"), axis)
            assert np.asarray(xnp.sort(xnp.asarray(x), axis)).tobytes() == want.tobytes()
        zeros = np.resize(np.float32([0.0, -0.0, -0.0]), 40)
        assert np.asarray(xnp.sort(xnp.asarray(zeros))).tobytes() == zeros.tobytes()


def test_weak_types_devices_and_settings_are_preserved(sorted_on_host):
    weak = xf.jit(lambda: xnp.ravel(2.0) * xnp.broadcast_to(1.0, 5))()
    assert weak.weak_type
    check(xnp.sort, weak, sorted_on_host)
    check(xnp.sort, xf.device_put(xnp.array([3, 1, 2]), xf.devices()[0]), sorted_on_host)
    with xf.transfer_guard("disallow"):
        ordered = xnp.sort(xf.jit(lambda: xnp.arange(5)[::-1])())
    np.testing.assert_array_equal(ordered, np.arange(5))


def test_traced_arrays_and_other_dtypes_are_compiled(sorted_on_host):
    x = xnp.array([3.0, 1.0, 2.0])
    assert "sort" in str(xf.make_jaxpr(xnp.sort)(x))
    xf.jit(lambda: xnp.sort(x))()
    xf.vmap(xnp.sort)(x[None])
    xf.grad(lambda x: xnp.median(x))(x)
    xnp.sort(x.astype(xnp.bfloat16))
    xnp.sort(x > 1)
    assert not sorted_on_host
    with pytest.raises(ValueError, match="axis"):
        xnp.sort(x, axis=3)
    with pytest.raises(TypeError, match="kind"):
        xnp.sort(x, kind="stable")
    with pytest.raises(ValueError, match="kth"):
        xnp.partition(x, 5)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        xnp.sort(x)


def test_settings_that_concern_compiled_functions_hold(sorted_on_host):
    x = xnp.array([3.0, np.nan, 2.0])
    with xf.debug_nans(True), pytest.raises(FloatingPointError, match="sort"):
        xnp.sort(x)
    with xf.no_execution(True), pytest.raises(RuntimeError, match="no_execution"):
        xnp.sort(x)
    with xf.default_device(xf.devices()[-1]):
        xnp.sort(x)
    with xf.set_mesh(xf.make_mesh((1,), ("i",))):
        xnp.sort(xnp.array([3.0, 1.0]))
    assert not sorted_on_host


def test_results_do_not_share_memory():
    """The runtime may use NumPy's result as the buffer; later calls must not write to it."""
    x = xnp.asarray(np.random.default_rng(0).standard_normal(64).astype(np.float32))
    first = xnp.sort(x)
    before = np.array(first)
    xnp.sort(-x), xf.random.permutation(xf.random.key(0), x)
    np.testing.assert_array_equal(first, before)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("minlength", [0, 300])
def test_counts_are_those_of_the_compiled_function(dtype, minlength, sorted_on_host):
    x = np.random.default_rng(5).integers(-3 if dtype[0] == "i" else 0, 100, 500).astype(dtype)
    got = xnp.bincount(xnp.asarray(x), minlength=minlength)
    assert len(sorted_on_host) == 1
    want = xf.jit(xnp.bincount, static_argnames="length")(xnp.asarray(x), length=max(int(x.max()) + 1, minlength))
    assert_same(got, want)
    np.testing.assert_array_equal(got, np.bincount(np.maximum(x, 0), minlength=minlength))


@pytest.mark.parametrize("q", [0.3, 0.0, 1.0, 1.5, float("nan"), [0.1, 0.5, 0.999], list(np.linspace(0, 1, 40))])
@pytest.mark.parametrize("method", ["lower", "higher", "nearest"])
def test_quantiles_are_elements_of_the_sorted_vector(q, method):
    """NumPy sorts as far as the quantiles read."""
    x = np.random.default_rng(6).integers(-50, 50, 1001).astype(np.float32)
    got = xnp.quantile(xnp.asarray(x), q if isinstance(q, float) else xnp.asarray(q, np.float32), method=method)
    position = np.nan_to_num(np.float32(q) * np.float32(1000)).clip(0, 1000)
    row = {"lower": np.floor, "higher": np.ceil, "nearest": np.round}[method](position).astype(int)
    assert_same(got, xnp.asarray(np.sort(x)[row]))
