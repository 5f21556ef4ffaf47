"""Sorting of all kinds of keys, with other arrays beside them, against NumPy's stable sort of the same numbers."""

import re

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.sharding import NamedSharding, PartitionSpec as P

SHAPES = [((40,), 0), ((5, 7), 0), ((5, 7), 1), ((2, 3, 4), 1), ((1,), 0), ((0,), 0), ((3, 0), 1)]
DTYPES = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "int8", "int16", "int32", "uint8", "uint32", "bool", "float64", "int64",
          "uint64")


def keys(rng, dtype: str, shape) -> np.ndarray:
    """Numbers with many ties; of floats also infinities, NaN and zeros of both signs."""
    values = rng.integers(-6, 6, shape) / 2
    if dtype.startswith("u") or dtype == "bool":
        return abs(values)
    if "float" in dtype:
        values[rng.random(shape) < 0.2] = np.nan
        values[rng.random(shape) < 0.2] = -0.0
        if not dtype.startswith("float8"):
            values[rng.random(shape) < 0.1] = np.inf
            values[rng.random(shape) < 0.1] = -np.inf
    return values


@pytest.mark.parametrize("x64", [False, True])  # positions of 32 bits, and of 64
@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_of_all_dtypes(dtype, x64, rng):
    with xf.enable_x64(x64 or dtype.endswith("64")):
        for shape, axis in SHAPES:
            x = xnp.asarray(keys(rng, dtype, shape)).astype(dtype)
            plain = np.asarray(x).astype(np.float64)
            order = np.argsort(plain, axis=axis, kind="stable")
            beside = rng.standard_normal(shape).astype(np.float32)
            np.testing.assert_array_equal(np.asarray(xnp.argsort(x, axis=axis)), order)
            alone = np.asarray(xf.jit(xnp.sort, static_argnames="axis")(x, axis=axis)).astype(np.float64)
            np.testing.assert_array_equal(alone, np.sort(plain, axis=axis))
            if dtype != "float64":
                np.testing.assert_array_equal(np.signbit(alone), np.signbit(np.take_along_axis(plain, order, axis)))
            found, moved = lax.sort((x, xnp.asarray(beside)), dimension=axis, num_keys=1)
            expected = np.take_along_axis(plain, order, axis)
            np.testing.assert_array_equal(np.asarray(moved), np.take_along_axis(beside, order, axis))
            np.testing.assert_array_equal(np.asarray(found).astype(np.float64), expected)
            np.testing.assert_array_equal(np.signbit(np.asarray(found).astype(np.float64)), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e8m0fnu"])
def test_floats_whose_bits_are_another_order(dtype):
    """NaN has the bits of -0 in some; others have no sign."""
    values = [1, 0.5, 2, 0.25, 1] if dtype == "float8_e8m0fnu" else [1, -0.5, 0, -2, 1]
    x = xnp.asarray(np.array(values, np.float32)).astype(dtype)
    np.testing.assert_array_equal(np.asarray(xnp.sort(x)).astype(np.float32), np.sort(values))
    np.testing.assert_array_equal(np.asarray(xnp.argsort(x)), np.argsort(values, kind="stable"))
    if dtype == "float8_e8m0fnu":
        np.testing.assert_array_equal(np.asarray(xnp.argsort(x.at[1].set(np.nan))), [3, 0, 4, 2, 1])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
def test_the_ends_of_the_range(dtype):
    ends = np.iinfo(dtype)
    x = np.array([ends.max, 0, ends.min, ends.max - 1, 1, ends.max, ends.min], dtype)
    np.testing.assert_array_equal(np.asarray(xnp.argsort(x)), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(np.asarray(lax.sort((x, np.arange(7)), num_keys=1)[0]), np.sort(x))


def test_iota_along_another_dimension_is_permuted(rng):
    """Positions along the sorted dimension give the permutation; those along another dimension are permuted like any operand."""
    x = rng.integers(0, 4, (5, 6)).astype(np.float32)
    order = np.argsort(x, axis=1, kind="stable")
    for dtype in ("int32", "uint8"):
        rows, columns = (lax.broadcasted_iota(dtype, (5, 6), d) for d in (0, 1))
        _, r, c = xf.jit(lambda x: lax.sort((x, lax.broadcasted_iota(dtype, (5, 6), 0), lax.broadcasted_iota(dtype, (5, 6), 1)),
                                            dimension=1, num_keys=1))(x)
        np.testing.assert_array_equal(np.asarray(c), order)
        np.testing.assert_array_equal(np.asarray(r), np.asarray(rows))
        np.testing.assert_array_equal(np.asarray(lax.sort((x, columns), dimension=1, num_keys=1)[1]), order)


def test_multiple_and_complex_keys(rng):
    a, b = rng.integers(0, 3, 50).astype(np.float32), rng.integers(0, 3, 50)
    np.testing.assert_array_equal(np.asarray(xnp.lexsort((b, a))), np.lexsort((b, a)))
    z = (rng.integers(0, 3, 50) + 1j * rng.integers(0, 3, 50)).astype(np.complex64)
    np.testing.assert_array_equal(np.asarray(xnp.argsort(z)), np.argsort(z, kind="stable"))


def test_batches_of_keys(rng):
    """More keys than batch_size are sorted in batches, in a loop."""
    for keys in (rng.integers(0, 2, (40, 9)), rng.integers(0, 2, (5, 60)).astype(np.float32), list(rng.integers(0, 2, (17, 30)) > 0)):
        for batch_size in (1, 2, 3, 16, len(keys), 100):
            np.testing.assert_array_equal(xnp.lexsort(keys, batch_size=batch_size), np.lexsort(keys))
    keys = rng.integers(0, 2, (20, 3, 4))
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(xnp.lexsort(keys, axis=axis), np.lexsort(keys, axis=axis))
    mixed = [keys[0].astype(np.float32), *keys]
    np.testing.assert_array_equal(xf.jit(lambda ks: xnp.lexsort(ks, batch_size=2))(mixed), np.lexsort(mixed))
    assert str(xf.make_jaxpr(xnp.lexsort)(keys)).count("= sort[") == 1
    assert xnp.lexsort(np.zeros((20, 0))).shape == (0,)
    for batch_size, error, words in ((0, ValueError, "batch_size .*must be positive"), (-1, ValueError, "positive"), (2.5, TypeError, "integer")):
        with pytest.raises(error, match=words):
            xnp.lexsort(keys, batch_size=batch_size)


@pytest.mark.cpu_only
def test_derivatives_batching_and_sharding(rng):
    x, t = rng.standard_normal((8, 6)).astype(np.float32), rng.standard_normal((8, 6)).astype(np.float32)
    order = np.argsort(x, axis=1)
    y, tangent_out = xf.jvp(xf.vmap(xnp.sort), (x,), (t,))
    np.testing.assert_array_equal(np.asarray(y), np.sort(x, axis=1))
    np.testing.assert_array_equal(np.asarray(tangent_out), np.take_along_axis(t, order, 1))
    mesh = xf.make_mesh((2, 2), ("a", "b"), (xf.sharding.AxisType.Auto,) * 2)
    sharded = xf.device_put(x, NamedSharding(mesh, P("a", "b")))
    for axis in (0, 1):
        np.testing.assert_array_equal(np.asarray(xf.jit(lambda v: xnp.argsort(v, axis=axis))(sharded)),
                                      np.argsort(x, axis=axis, kind="stable"))
        np.testing.assert_array_equal(np.asarray(xf.jit(lambda v: xnp.sort(v, axis=axis))(sharded)), np.sort(x, axis=axis))


def test_float_keys_have_the_pattern_that_the_gpu_compiler_recognizes():
    """The GPU compiler sorts with its library kernels if zeros, then NaNs of the keys are made equal."""
    text = xf.jit(xnp.sort).trace(np.ones(9, np.float32)).lower(lowering_platforms=("cuda",)).as_text()
    for key in ("%arg1", "%arg2"):
        [is_nan] = re.findall(rf"(%\d+) = stablehlo.compare NE, {key}, {key},", text)
        [one_zero] = re.findall(rf"(%\d+) = stablehlo.select %\d+, %cst\w*, {key} ", text)
        assert re.search(rf"stablehlo.select {is_nan}, %cst\w*, {one_zero} ", text)
