"""Random bits and samples equal to literals computed by JAX; distributions and keys."""

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import random

K = random.key(5)
# Results of JAX for the same calls.
KNOWN = [
    (
        lambda: random.split(random.PRNGKey(7), 3),
        [[3625411723, 1954958720], [195045567, 4062205631], [966301609, 1948237315]],
    ),
    (lambda: random.fold_in(random.PRNGKey(7), 3), [276534068, 1641862660]),
    (lambda: random.key_data(random.split(random.key(0))), [[1797259609, 2579123966], [928981903, 3453687069]]),
    (
        lambda: random.key_data(random.split(K, (2, 2))),
        [[[2724472204, 3573582090], [202567368, 3886822060]], [[3594430910, 1784718894], [2939540675, 3076691462]]],
    ),
    (lambda: random.key_data(random.fold_in(K, 7)), [1394159668, 1590028285]),
    (lambda: random.PRNGKey(-1), [0, 4294967295]),
    (lambda: random.PRNGKey(2**40), [0, 0]),
    (lambda: random.PRNGKey(3), [0, 3]),
    (lambda: random.bits(random.key(1), (3,)), [1883912375, 2292451390, 1915204986]),
    (lambda: random.bits(K, (5,), "uint8"), [134, 100, 144, 197, 49]),
    (lambda: random.bits(K, (3,), "uint16"), [44166, 56420, 3984]),
    (
        lambda: random.bits(random.wrap_key_data(np.array([1, 2], np.uint32)), (2, 3)),
        [[2932776407, 1811914268, 2110255537], [172616543, 1466569306, 3408927538]],
    ),
    (lambda: random.uniform(random.key(0), (3,)), [0.947667, 0.9785799, 0.33229148]),
    (lambda: random.uniform(K), 0.46637988090515137),
    (lambda: random.uniform(K, (3,), minval=2, maxval=5), [3.399139642715454, 4.762642860412598, 4.207430362701416]),
    (lambda: random.uniform(K, (3,), "bfloat16"), [0.5234375, 0.390625, 0.5625]),
    (lambda: random.normal(random.key(42), (3,)), [-0.02830462, 0.46713185, 0.29570296]),
    (lambda: random.normal(K, (3,), "bfloat16"), [0.0634765625, -0.271484375, 0.162109375]),
    (
        lambda: random.normal(K, (2,), "complex64"),
        [0.29364916682243347 - 0.9757154583930969j, 0.8134462237358093 - 0.52427738904953j],
    ),
    (lambda: random.randint(random.key(3), (5,), 0, 10), [5, 9, 5, 4, 6]),
    (lambda: random.randint(K, (4,), 0, 200, "uint8"), [161, 48, 103, 136]),
    (lambda: random.randint(K, (4,), xnp.array([0, 5, 10, -3]), xnp.array([3, 9, 1000, 4])), [0, 5, 553, 1]),
    (lambda: random.randint(K, (3,), 5, 5), [5, 5, 5]),
    (lambda: random.randint(K, (4,), 0, 300, "int8"), [1, 64, 119, 8]),
    (lambda: random.randint(K, (3,), -(2**31), 2**31 - 1), [-1787507967, -1163020224, -1664956169]),
    (lambda: random.permutation(random.key(3), 6), [0, 5, 4, 2, 1, 3]),
    (lambda: random.permutation(K, 2000)[:5], [1745, 1879, 716, 1217, 48]),
    (lambda: random.permutation(K, xnp.arange(6.0).reshape(3, 2)), [[0, 1], [4, 5], [2, 3]]),
    (lambda: random.permutation(K, xnp.arange(6.0).reshape(3, 2), axis=1, independent=True), [[0, 1], [2, 3], [4, 5]]),
    (lambda: random.choice(K, 5, (3,)), [1, 3, 3]),
    (lambda: random.choice(K, 5, (3,), replace=False), [0, 2, 4]),
    (lambda: random.choice(K, 5), 1),
    (lambda: random.choice(K, xnp.arange(10.0), (3,), p=xnp.arange(10.0)), [7, 3, 5]),
    (lambda: random.choice(K, xnp.arange(10.0), (3,), replace=False, p=xnp.arange(10.0)), [4, 5, 1]),
    (lambda: random.categorical(K, xnp.log(xnp.arange(1.0, 5)), shape=(6,)), [1, 0, 3, 2, 1, 0]),
    (lambda: random.categorical(K, xnp.zeros((3, 4))), [1, 0, 1]),
    (lambda: random.categorical(K, xnp.zeros((3, 4)), axis=0), [1, 0, 0, 2]),
    (lambda: random.categorical(K, xnp.zeros(5), shape=(3,), replace=False), [1, 4, 2]),
    (lambda: random.categorical(K, xnp.array([[0.0, 1.0]]), shape=(5,)), [1, 0, 0, 1, 1]),
    (lambda: random.categorical(K, xnp.array([[0.0], [1.0]]), axis=0, shape=(3,)), [0, 1, 1]),
    (lambda: random.bernoulli(K, xnp.array([0.1, 0.5, 0.9])), [False, False, True]),
    (lambda: random.rademacher(K, (4,)), [1, -1, -1, 1]),
    (lambda: random.gumbel(K, (3,)), [0.27081865, 2.4958735, 1.1816142]),
    (lambda: random.gumbel(K, (3,), mode="high"), [0.465101957321167, -0.9309044480323792, -0.2859961688518524]),
    (lambda: random.exponential(K, (3,)), [0.62807107, 2.5368025, 1.3310874]),
    (lambda: random.truncated_normal(K, -1, 1, (3,)), [-0.05756416, 0.7971947, 0.41515324]),
    (lambda: random.laplace(K, (3,)), [0.06960754096508026, -1.8436558246612549, -0.6379402875900269]),
    (lambda: random.cauchy(K, (3,)), [-0.10601504892110825, 3.9399843215942383, 0.9145937561988831]),
    (lambda: random.logistic(K, (3,)), [-0.1346837282180786, 2.454378128051758, 1.0243041515350342]),
]
# The words of key(3), of two keys split from it, of fold_in(key(3), 5), and three numbers of 8 and of 32 bits.
GENERATORS = {
    "rbg": ([0, 3, 0, 3], None, None, [211, 175, 250], [3146934739, 3391003311, 1891301882]),
    "unsafe_rbg": ([0, 3, 0, 3], None, None, [211, 175, 250], [3146934739, 3391003311, 1891301882]),
    "threefry4x32": (
        [3248282065, 734211508, 1407164217, 2801754411],
        [2710352670, 2749407344, 1801945316, 3177375456],
        [3133940903, 3168223244, 451873985, 3874492636],
        [106, 84, 229],
        [3563681130, 3941503572, 1085729509],
    ),
    "philox2x32": ([1756153345], [454347279], [1161485442], [113, 60, 13], [721757809, 811800380, 3734996749]),
    "philox4x32": (
        [3509165040, 3569804951],
        [4176986542, 983329049],
        [663285112, 2669197746],
        [0, 80, 133],
        [2455879424, 3810592336, 2602001797],
    ),
}
# Bounds that are not integers or do not fit the dtype, and the results of JAX for key(42).
BOUNDS = [
    ((0.0, 10.5), "int32", [4, 4]),
    ((0.0, 10.5), "uint8", [4, 4]),
    ((np.float64(1.7), np.float64(9.9)), "int32", [5, 3]),
    ((True, 5), "int32", [1, 3]),
    ((np.inf, 3), "int32", [2147483647, 2147483647]),
    ((np.nan, 3), "int32", [0, 0]),
    ((-1e20, 1e20), "int32", [977810628, 1236381714]),
    ((np.array([1.5, 2.5]), 10), "int32", [1, 4]),
    ((-(2**31), 2**31 - 1), "uint32", [977810629, 1236381715]),
    ((np.uint32(3), np.uint32(2**32 - 1)), "int32", [977810634, 1236381720]),
    ((np.array([2, 3], np.uint8), np.int16(100)), "int2", [1, 1]),
]
WIDE = [
    (lambda: random.bits(K, (2,), "uint64"), [11701519018614622474, 870020224683618988]),
    (lambda: random.uniform(K, (2,)), [0.634340617068121, 0.04716389088541528]),
    (lambda: random.randint(K, (3,), 0, 10), [7, 2, 6]),
    (lambda: random.PRNGKey(2**40), [256, 0]),
    (lambda: random.PRNGKey(-1), [4294967295, 4294967295]),
    (lambda: random.normal(K, (2,)), [0.3433718077169161, -1.6729975326208553]),
]
SEQUENTIAL = [
    (lambda: random.bits(K, (3,), "uint32"), [3594430910, 1129962634, 1784718894]),
    (lambda: random.bits(K, (4,), "uint32"), [3594430910, 534832770, 1784718894, 3813648515]),
    (
        lambda: random.key_data(random.split(K, 3)),
        [[2939540675, 3006210766], [3038296040, 3076691462], [279368646, 2516963019]],
    ),
    (lambda: random.bits(K, (5,), "uint8"), [200, 238, 18, 12, 172]),
]


def close(ours, expected):
    ours = np.asarray(ours)
    assert ours.shape == np.shape(expected)
    if ours.dtype.kind in "iub":
        assert ours.tolist() == expected
    else:
        np.testing.assert_allclose(ours.astype(np.asarray(expected).dtype), expected, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("call, expected", KNOWN, ids=map(str, range(len(KNOWN))))
def test_samples_equal_those_of_jax(call, expected):
    close(call(), expected)


def test_samples_equal_those_of_jax_in_64_bits():
    with xf.enable_x64(True):
        for call, expected in WIDE:
            close(call(), expected)


def test_samples_equal_those_of_jax_in_the_sequential_scheme():
    with xf.threefry_partitionable(False):
        for call, expected in SEQUENTIAL:
            close(call(), expected)


def threefry(key, count):
    """Compute the cipher from its definition with Python integers."""
    mask = 0xFFFFFFFF
    words = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    x = [(count[0] + words[0]) & mask, (count[1] + words[1]) & mask]
    for step in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[step % 2]:
            x[0] = (x[0] + x[1]) & mask
            x[1] = (x[1] << r | x[1] >> 32 - r) & mask ^ x[0]
        x[0] = (x[0] + words[(step + 1) % 3]) & mask
        x[1] = (x[1] + words[(step + 2) % 3] + step + 1) & mask
    return x


def test_cipher():
    # known answers of the Random123 distribution
    assert threefry((0, 0), (0, 0)) == [0x6B200159, 0x99BA4EFE]
    assert threefry((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)) == [0xC4923A9C, 0x483DF7A0]
    from xlafront.random.threefry import threefry2x32_p

    for key, count in (((0, 0), (0, 0)), ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3))):
        assert [int(x) for x in threefry2x32_p.bind(*map(np.uint32, (*key, *count)))] == threefry(key, count)


def test_counters_beyond_32_bits():
    """Positions in arrays of more than 2**32 elements equal values computed by hand."""
    from xlafront.random.threefry import multiply_wide

    for x, factor in ((3, 5), (2**31 + 7, 2**31 + 9), (2**32 - 1, 2**32 - 1), (65537, 65535)):
        high, low = multiply_wide(xnp.array([x], "uint32"), factor)
        assert (int(high[0]) << 32) + int(low[0]) == x * factor


def test_samples_by_row_major_position():
    """Samples belong to row-major positions: rows are slices of one long row."""
    key = random.key(3)
    keys = random.split(key, 2)
    for draw in (random.normal, random.uniform, random.exponential, random.gumbel, random.logistic):
        np.testing.assert_array_equal(draw(key, (400, 3)), np.asarray(draw(key, (1200,))).reshape(400, 3))
    many = xf.jit(xf.vmap(lambda k: 2 * random.normal(k, (400, 3))))(keys)
    np.testing.assert_array_equal(many[1], 2 * np.asarray(random.normal(keys[1], (1200,))).reshape(400, 3))
    slope = xf.grad(lambda s: (s * random.normal(key, (400, 3))).sum())(1.0)
    np.testing.assert_allclose(slope, np.asarray(random.normal(key, (1200,)), float).sum(), rtol=1e-4)


def test_keys():
    assert repr(random.key(0)) == "Array((), dtype=key<fry>) overlaying:\n[0 0]"
    keys = random.split(K, 3)
    assert keys.shape == (3,) and keys.dtype == K.dtype and keys[0].shape == () and len(list(keys)) == 3
    assert isinstance(K, xf.Array) and xnp.issubdtype(K.dtype, xf.dtypes.prng_key)
    assert (
        keys.reshape(3, 1).shape == (3, 1)
        and xnp.stack([K, K]).shape == (2,)
        and xnp.concatenate([keys, keys]).shape == (6,)
    )
    assert (keys[1] == keys[1]) and not (keys[0] == keys[1])
    assert xnp.where(True, keys[0], keys[1]) == keys[0]
    assert random.key_data(keys[2]).tolist() == random.key_data(keys)[2].tolist()
    assert random.key_impl(K) == "threefry2x32"
    one, two = random.split(K)
    assert random.key_data(one).tolist() != random.key_data(two).tolist()


def test_keys_in_files():
    """Pickled keys load in a fresh process, including keys of user-defined generators."""
    keys = random.split(K)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert (pickle.loads(pickle.dumps(keys, protocol)) == keys).all()
    own = random.key(1, impl=random.key(0).dtype.impl._replace(name="own", tag="own"))
    assert pickle.loads(pickle.dumps(own)).dtype == own.dtype
    code = f"import pickle\nkeys = pickle.loads({pickle.dumps(keys)!r})\nprint(keys[1] == keys.reshape(-1)[1])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_keys_in_transformed_functions():
    keys = random.split(K, 4)
    inside = xf.jit(lambda k: (random.split(k), random.normal(k, (2,))))(K)
    assert (inside[0] == random.split(K)).all()
    close(inside[1], random.normal(K, (2,)))
    close(xf.vmap(lambda k: random.uniform(k, (3,)))(keys), np.stack([random.uniform(k, (3,)) for k in keys]))
    assert xf.eval_shape(random.split, K).dtype == K.dtype
    close(xf.grad(lambda s: (s * random.normal(K, (3,))).sum())(1.0), np.sum(random.normal(K, (3,))))
    # the samples move with their bounds; the reference's number
    close(xf.grad(lambda p: random.truncated_normal(random.key(3), p, 2.0))(0.3), 0.94811785)
    table = xf.jit(lambda i: keys[i])(2)  # a constant of keys in a program
    assert table == keys[2]


def test_distributions():
    """Mean and variance of 20,000 samples are within five standard errors."""
    n = 20_000
    for samples, mean, variance in (
        (random.uniform(K, (n,)), 0.5, 1 / 12),
        (random.normal(K, (n,)), 0, 1),
        (random.exponential(K, (n,)), 1, 1),
        (random.gumbel(K, (n,)), np.euler_gamma, np.pi**2 / 6),
        (random.laplace(K, (n,)), 0, 2),
        (random.logistic(K, (n,)), 0, np.pi**2 / 3),
        (random.bernoulli(K, 0.3, (n,)).astype("float32"), 0.3, 0.21),
        (random.randint(K, (n,), 0, 6).astype("float32"), 2.5, 35 / 12),
    ):
        values = np.asarray(samples, np.float64)
        assert abs(values.mean() - mean) < 5 * np.sqrt(variance / n)
        assert abs(values.var() - variance) < 0.1 * variance
    assert sorted(random.permutation(K, 100).tolist()) == list(range(100))
    counts = np.bincount(np.asarray(random.choice(K, 4, (n,), p=xnp.array([0.1, 0.2, 0.3, 0.4]))), minlength=4) / n
    np.testing.assert_allclose(counts, [0.1, 0.2, 0.3, 0.4], atol=0.02)


BAD = [
    (lambda: random.fold_in(K, -1), OverflowError, "-1"),
    (lambda: K + 1, TypeError, "unsupported"),
    (lambda: np.asarray(K), TypeError, "key_data"),
    (lambda: random.key(1.5), TypeError, "integer"),
    (lambda: random.key(xnp.arange(2)), TypeError, "vmap"),
    (lambda: random.uniform(3, (2,)), TypeError, "random.key"),
    (lambda: random.uniform(xnp.zeros(3, "uint32")), TypeError, r"\(2,\)"),
    (lambda: random.uniform(random.split(K), (2,)), ValueError, "vmap"),
    (lambda: random.split(random.split(K), 1.5), ValueError, "vmap"),
    (lambda: random.split(random.key(0, impl="rbg"), (2, -1)), TypeError, "negative"),
    (lambda: random.key(0, impl="dice"), ValueError, "threefry2x32"),
    (lambda: random.normal(K, (2,), "int32"), ValueError, "floating"),
    (lambda: random.uniform(K, (2,), int), ValueError, "floating"),
    (lambda: random.choice(K, 3, (5,), replace=False), ValueError, "at most 3"),
    (lambda: random.randint(K, (2,), 0, 2**40), OverflowError, "1099511627776"),
    (lambda: random.randint(K, None, 0, 3), TypeError, "shape"),
    (lambda: random.rademacher(K, (-1,)), TypeError, "nonnegative"),
    (lambda: random.choice(K, 5, 2), TypeError, "sequence"),
    (lambda: random.permutation(K, True), TypeError, "integer"),
    (lambda: random.categorical(K, xnp.arange(3)), ValueError, "floating"),
    (lambda: random.categorical(K, xnp.arange(3), axis=2), IndexError, "out of bounds"),
    (lambda: random.categorical(K, [0.0, 1.0]), TypeError, "list"),
    (lambda: random.key(2**63), OverflowError, "64 bits"),
    (lambda: random.key(0, impl=1), TypeError, "name"),
    (lambda: random.key(0, impl="dice"), ValueError, "philox4x32"),
    (lambda: random.clone([0, 1]), TypeError, "list"),
    (lambda: random.fold_in(K, K), ValueError, "number"),
    (lambda: random.fold_in(K, None), ValueError, "integer"),
    (lambda: random.fold_in(K, "a"), ValueError, "integer"),
    (lambda: random.fold_in(K, 1j), TypeError, "complex"),
    (lambda: random.key(None), ValueError, "seed"),
    (lambda: random.normal(K, (xnp.ones(2),)), TypeError, "shape"),
    (lambda: random.key(2**64), OverflowError, "64 bits"),
    (lambda: random.bits(K, (2,), "int32"), ValueError, "unsigned"),
    (lambda: random.permutation(K, xnp.array(3.0)), TypeError, "integer"),
    (lambda: random.uniform(K, (2,), minval=xnp.zeros(3)), TypeError, "shape"),
    (lambda: random.geometric(K, 0.5 + 0j), ValueError, "geometric needs a floating dtype, got complex64"),
    (lambda: random.choice(K, 2, p=np.full(2, 0.5 + 0j)), ValueError, "choice needs a floating dtype, got complex64"),
]


@pytest.mark.parametrize("call, error, words", BAD, ids=map(str, range(len(BAD))))
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("name", GENERATORS)
def test_generators(name):
    words, first, folded, short, long = GENERATORS[name]
    key = random.key(3, impl=name)
    keys = random.split(key, (2, 2))
    assert random.key_data(key).tolist() == words and random.key_impl(key) == name
    assert keys.shape == (2, 2) and len(np.unique(np.asarray(random.key_data(keys)).reshape(4, -1), axis=0)) == 4
    assert random.fold_in(key, 5).dtype == key.dtype
    if first is not None:
        assert random.key_data(keys)[0, 0].tolist() == first
        assert random.key_data(random.fold_in(key, 5)).tolist() == folded
    assert random.bits(key, (3,), "uint8").tolist() == short
    assert random.bits(key, (3,), "uint32").tolist() == long
    assert xf.jit(xf.vmap(lambda k: random.uniform(k, (2,))))(keys[0]).shape == (2, 2)
    again = random.wrap_key_data(random.key_data(key), impl=name)
    assert again.dtype == key.dtype and pickle.loads(pickle.dumps(key)).dtype == key.dtype
    samples = np.asarray(random.uniform(key, (4000,)))
    assert abs(samples.mean() - 0.5) < 0.02 and abs(samples.var() - 1 / 12) < 0.005


def test_64_bit_words():
    with xf.enable_x64(True):
        key = random.key(3, impl="threefry4x32")
        assert random.bits(key, (2,), "uint64").tolist() == [14621837764535142032, 108739255805461394]
        for seed, high in ((np.int8(-1), 0), (-1, 2**32 - 1), (2**32 - 1, 0)):
            assert random.key_data(random.key(seed)).tolist() == [high, 2**32 - 1]


@pytest.mark.parametrize("bounds, dtype, expected", BOUNDS, ids=map(str, range(len(BOUNDS))))
def test_bounds_of_randint(bounds, dtype, expected):
    draw = lambda key: random.randint(key, (2,), *bounds, dtype=dtype)  # noqa: E731
    for result in (draw(random.key(42)), xf.jit(draw)(random.key(42))):
        assert result.dtype == dtype and np.asarray(result).astype(np.int64).tolist() == expected


def test_high_mode_resolves_tails():
    """The mode "high" resolves values below the step of a single sample."""
    n = 300_000
    for dtype in ("bfloat16", "float16"):
        samples = np.asarray(random.gumbel(K, (n,), dtype, mode="high").astype("float32"))
        for p in (0.001, 0.006, 0.017):
            edge = -np.log(-np.log1p(-p))  # above which a value is with probability p
            assert abs(np.mean(samples > edge) / p - 1) < 0.25
    assert not random.bernoulli(K, 1e-10, 4_000_000, mode="high").any()
    assert abs(float(random.bernoulli(K, 0.3, 20_000, mode="high").mean()) - 0.3) < 0.01


def test_arrays_of_keys():
    keys = random.split(K, 3)

    def words(x):
        return random.key_data(x).tolist()

    assert words(xnp.zeros(2, K.dtype)) == words(xnp.zeros_like(keys[:2])) == [[0, 0]] * 2
    assert words(xnp.ones((1, 2), K.dtype)) == [[[1, 1]] * 2] and words(xnp.full_like(keys, 7)) == [[7, 7]] * 3
    assert words(xf.lax.full((2,), 100, K.dtype)) == words(xf.jit(lambda: xnp.full(2, 100, K.dtype))()) == [[100, 100]] * 2
    assert words(xnp.full(2, K)) == [words(K)] * 2
    assert words(keys.at[100].get(mode="fill")) == [2**32 - 1] * 2
    assert words(xnp.take(keys, xnp.array([0, 9]))) == [words(keys[0]), [2**32 - 1] * 2]
    assert xnp.isclose(keys, keys[0]).tolist() == [True, False, False] and xnp.allclose(keys, keys)
    data = random.key_data(keys)
    assert words(xf.vmap(random.wrap_key_data, in_axes=1)(data.T)) == words(keys)
    assert sorted(words(random.permutation(K, keys))) == sorted(words(keys))
    assert keys.on_device_size_in_bytes() == 24 and xf.device_get(keys).dtype == K.dtype
    for refused in (lambda: keys.sum(), lambda: keys.astype("uint32"), lambda: keys.real, lambda: K.item()):
        with pytest.raises(NotImplementedError, match="key_data"):
            refused()
    with pytest.raises(TypeError, match="one key"):
        iter(K)
    with pytest.raises(ValueError, match="key<fry>"):
        xnp.concatenate([keys, xnp.zeros(2)])


def test_triangles_and_types_of_key_arrays():
    """Elements outside a triangle are zero keys; key dtypes promote with no other dtype."""
    keys = random.split(random.key(0), (2, 3))
    words = np.asarray(random.key_data(keys))
    for ours, of_numpy in ((xnp.tril, np.tril), (xnp.triu, np.triu)):
        for k in (0, 1):
            mask = of_numpy(np.ones((2, 3), bool), k)[..., None]
            np.testing.assert_array_equal(random.key_data(ours(keys, k)), np.where(mask, words, 0))
    assert xnp.promote_types(keys.dtype, keys.dtype) == keys.dtype
    with pytest.raises(TypeError, match="mixes with no other"):
        xnp.promote_types(keys.dtype, np.float32)


def test_calls_with_keys_use_the_fast_path():
    """The C++ fast path handles key arrays as their words and does not confuse them with other keys or words."""
    split = xf.jit(lambda key, x: (random.split(key)[0], {"x": x + 1}))
    key, words = random.key(0), random.key_data(random.key(0))
    for _ in range(3):
        key, out = split(key, xnp.ones(2))
        words = random.key_data(random.split(random.wrap_key_data(words))[0])
        assert random.key_data(key).tolist() == words.tolist() and out["x"].tolist() == [2, 2] and key.dtype == random.key(0).dtype
    assert split._cache_size() == 1
    split(random.split(random.key(1), 3)[1], xnp.ones(2))
    assert split._cache_size() == 1
    assert split(words, xnp.ones(2))[0].dtype == np.uint32 and split._cache_size() == 2
    same = xf.jit(lambda key: key)
    kinds = [same(random.key(3, impl=impl)).dtype for impl in ("rbg", "threefry2x32", "unsafe_rbg", "rbg")]
    assert [str(d) for d in kinds] == ["key<rbg>", "key<fry>", "key<urbg>", "key<rbg>"]
    compiled = xf.jit(random.uniform).lower(key).compile()
    assert [float(compiled(key)) for _ in range(3)] == [float(random.uniform(key))] * 3
    donating = xf.jit(lambda key: random.fold_in(key, 1), donate_argnums=0)
    for _ in range(3):
        key = donating(given := key)
        assert given.is_deleted() and not key.is_deleted()


def test_uniform_bounds_of_higher_rank_than_the_sample():
    """Leading dimensions of size 1 are dropped. As in JAX, a `minval` of higher rank sets the shape of a scalar sample."""
    key = random.key(0)
    for shape, bound in (((), (1,)), ((), (1, 1)), ((3,), (1, 1)), ((3,), (1, 3)), ((2, 3), (1, 2, 1))):
        most = np.arange(2, 2 + math.prod(bound), dtype=np.float32).reshape(bound)
        found = random.uniform(key, shape, maxval=most)
        assert found.shape == shape
        np.testing.assert_allclose(found, random.uniform(key, shape) * most.reshape(bound[len(bound) - len(shape):]), rtol=1e-6)
    for bound in ((1,), (1, 1)):
        found = random.uniform(key, minval=-xnp.ones(bound), maxval=xnp.ones(bound))
        np.testing.assert_allclose(found, 2 * np.full(bound, random.uniform(key)) - 1, rtol=1e-5)
    for shape, least, most, error in (((), (1,), (3,), ValueError), ((2,), (1, 1), (2,), TypeError), ((2,), (3,), (2,), TypeError),
                                      ((1,), (), (1, 3), ValueError), ((), (3,), (), ValueError)):
        with pytest.raises(error, match="broadcast to"):
            random.uniform(key, shape, minval=xnp.zeros(least), maxval=xnp.ones(most))


def test_generator_and_dtype_of_keys_exclude_each_other():
    dtype = random.key_dtype("threefry2x32")
    for make in (lambda **options: random.key(0, **options), lambda **options: random.wrap_key_data(np.zeros(2, np.uint32), **options)):
        assert make(dtype=dtype).dtype == make(impl="threefry2x32").dtype
        with pytest.raises(ValueError, match="both"):
            make(impl="threefry2x32", dtype=dtype)


def test_gumbel_with_full_mantissas():
    """JAX's samples from these bits, and the tails of 64-bit uniform numbers."""
    expected = [[-1.0818492, -1.3463643, 0.9065792], [0.45828202, 0.1699446, 1.7096658]]
    np.testing.assert_allclose(random.gumbel(random.key(0), (2, 3), mode="highest"), expected, rtol=1e-6)
    samples = np.sort(random.gumbel(random.key(3), (10**5,), mode="highest"))
    quantiles = -np.log(-np.log((np.arange(10**5) + 0.5) / 10**5))
    assert abs(samples - quantiles)[1000:-1000].max() < 0.2 and len(np.unique(samples)) > 0.97 * 10**5
    assert random.gumbel(random.key(3), (10**5,), "bfloat16", mode="high").max() == 10.375
    for call in (random.gumbel, lambda key, mode: random.bernoulli(key, 0.5, mode="highest")):
        with pytest.raises(ValueError, match="precision"):
            call(random.key(0), mode="middle")


@pytest.mark.parametrize("index", [0, slice(None), (0, 0), Ellipsis])
def test_scalar_keys_have_no_elements(index):
    key = random.key(0)
    if index is Ellipsis:
        assert key[index] == key
        return
    with pytest.raises(IndexError, match="too many indices"):
        key[index]


def test_threefry_partitionable_holds_within_compiled_functions():
    """The bits are those of jax 0.12.0.1 with and without the setting."""
    def bits(key):
        return random.bits(key, (3,))

    @xf.jit
    def of_both(key):
        with xf.threefry_partitionable(False):
            sequential = bits(key), xf.vmap(bits)(random.split(key, 2))
        return *sequential, bits(key)

    one, several, partitionable = of_both(random.key(0))
    assert one.tolist() == [4146024105, 1351547692, 2718843009]
    assert several.tolist() == [[2384771982, 2983891053, 1278412471], [3746991216, 476962823, 1190051861]]
    assert partitionable.tolist() == [4070199207, 4202968722, 1427181096]


@pytest.mark.parametrize("wide", [False, True])
def test_signs_are_those_of_rademacher(wide):
    """Also in 64 bits, whatever the dtype of the samples."""
    with xf.enable_x64(wide):
        key = random.key(3)
        expected = np.asarray(random.rademacher(random.split(key)[1], (40,)))
        for samples in (random.double_sided_maxwell(key, 0.0, 1.0, (40,), "float32"), random.generalized_normal(key, 3.0, (40,), "float32")):
            np.testing.assert_array_equal(np.sign(samples), expected)


def test_bounds_of_samples():
    """Samples are at least the lower bound without an operation for the maximum, which takes long to compile behind the bits."""
    key = random.key(0)
    for low, high in ((-1.0, 1.0), (0.0, 1e-45), (5.0, -3.0), (-0.0, 2.0)):
        x = np.asarray(random.uniform(key, (500,), minval=low, maxval=high))
        assert (x >= np.float32(low)).all() and not np.isnan(x).any()
    for low, high in ((np.nan, 1.0), (0.0, np.nan)):
        assert np.isnan(random.uniform(key, (5,), minval=low, maxval=high)).all()
    x = np.asarray(random.truncated_normal(key, 3.0, 3.001, (500,)))
    assert (x > np.float32(3)).all() and (x < np.float32(3.001)).all()
    for sample in (random.normal, random.gumbel, random.cauchy):
        assert "maximum" not in xf.jit(lambda key, f=sample: f(key, (100,))).lower(key).as_text()
