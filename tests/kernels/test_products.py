"""Grouped and quantized products as functions: derivatives, dtypes, arguments."""

import ml_dtypes
import numpy as np
import pytest
from library_kernels import exact_groups, exact_transposed_groups, numbers

import xlafront as xf
from xlafront import kernels

SIZES = np.array([7, 0, 20, 3])


@pytest.mark.parametrize("is_transposed", [False, True])
def test_grouped(is_transposed):
    x, y, dout = numbers(33, 12), numbers(4, 12, 10, seed=1), numbers(33, 10, seed=2)
    rhs = y.swapaxes(1, 2) if is_transposed else y
    out, pull = xf.vjp(lambda x, y: kernels.grouped_matmul(x, y, SIZES, transpose_rhs=is_transposed), x, rhs)
    dx, dy = pull(dout)
    expected = (exact_groups(x, y, SIZES), exact_groups(dout, y.swapaxes(1, 2), SIZES), exact_transposed_groups(x, dout, SIZES))
    for found, e in zip((out, dx, dy.swapaxes(1, 2) if is_transposed else dy), expected):
        np.testing.assert_allclose(found, e, rtol=1e-5, atol=1e-5)
    wide = kernels.grouped_matmul(x.astype(ml_dtypes.bfloat16), rhs.astype(ml_dtypes.bfloat16), SIZES, transpose_rhs=is_transposed,
                                  preferred_element_type="float32")
    np.testing.assert_allclose(wide, expected[0], rtol=0.05, atol=0.1)


def test_groups_of_any_sizes():
    """All rows in one group, none in any; the sizes are arguments of a compiled function."""
    x, y = numbers(40, 8), numbers(3, 8, 6, seed=1)
    multiply = xf.jit(kernels.grouped_matmul)
    for sizes in ([0, 40, 0], [0, 0, 0], [1, 1, 1], [13, 14, 13]):
        np.testing.assert_allclose(multiply(x, y, np.array(sizes)), exact_groups(x, y, sizes), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("first, groups", [(1, 2), (0, 1), (3, 3), (7, 2)])
def test_groups_of_a_shard(first, groups):
    """Matrices of some groups only: rows of the others are zeros, and have no derivatives. Groups beyond the last are empty."""
    x, y, dout = numbers(33, 12), numbers(groups, 12, 10, seed=1), numbers(33, 10, seed=2)
    sizes = np.append(SIZES, [0] * 5)[first:first + groups]
    start = SIZES[:first].sum()
    out, pull = xf.vjp(xf.jit(lambda x, y, first: kernels.grouped_matmul(x, y, SIZES, group_offset=first)), x, y, np.int32(first))
    dx, dy, _ = pull(dout)
    expected = (exact_groups(x, y, sizes, start), exact_groups(dout, y.swapaxes(1, 2), sizes, start),
                exact_transposed_groups(x, dout, sizes, start))
    for found, e in zip((out, dx, dy), expected):
        np.testing.assert_allclose(found, e, rtol=1e-5, atol=1e-5)


def test_group_offset_is_an_integer_scalar():
    x, y = numbers(33, 12), numbers(2, 12, 10, seed=1)
    for offset in (np.array([1]), 1.0):
        with pytest.raises(ValueError, match="integer scalar as group_offset"):
            kernels.grouped_matmul(x, y, SIZES, group_offset=offset)
    with pytest.raises(ValueError, match="group_sizes"):
        kernels.grouped_matmul(x, y, SIZES)


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn", "float8_e5m2"])
def test_quantized(dtype):
    x, y = numbers(20, 64), numbers(64, 18, seed=1)
    (xv, xs), (yv, ys) = kernels.quantize(x, dtype), kernels.quantize(y, dtype, axis=0)
    step = {"int8": 1 / 254, "float8_e4m3fn": 1 / 16, "float8_e5m2": 1 / 8}[dtype]  # half a step, of the largest or of each
    for values, scales, original in ((xv, xs[:, None], x), (yv, ys, y)):
        scale = np.abs(original).max(1 if original is x else 0, keepdims=True) if dtype == "int8" else np.abs(original)
        assert (np.abs(values.astype("float32") * scales - original) <= step * scale * 1.01 + 1e-6).all()
    exact = (np.asarray(xv, float) * np.asarray(xs)[:, None]) @ (np.asarray(yv, float) * np.asarray(ys))
    np.testing.assert_allclose(kernels.quantized_matmul(xv, yv, ys, lhs_scales=xs), exact, rtol=1e-5, atol=1e-4)
    weights_only = x.astype(float) @ (np.asarray(yv, float) * np.asarray(ys))
    np.testing.assert_allclose(kernels.quantized_matmul(x, yv, ys), weights_only, rtol=1e-5, atol=1e-4)


def test_derivatives_of_quantized():
    """With respect to floats: the left operand, and the scales."""
    x, dout = numbers(9, 32), numbers(9, 8, seed=2)
    values, scales = kernels.quantize(numbers(32, 8, seed=1), axis=0)
    xv, xs = kernels.quantize(x)
    _, pull = xf.vjp(lambda x, s: kernels.quantized_matmul(x, values, s), x, scales)
    product = x.astype(float) @ np.asarray(values, float)
    expected = (dout * np.asarray(scales)) @ np.asarray(values, float).T, (product * dout).sum(0)
    for found, e in zip(pull(dout), expected):
        np.testing.assert_allclose(found, e, rtol=1e-4, atol=1e-4)
    _, pull = xf.vjp(lambda a, b: kernels.quantized_matmul(xv, values, b, lhs_scales=a), xs, scales)
    product = np.asarray(xv, float) @ np.asarray(values, float)
    for found, e in zip(pull(dout), ((product * dout * np.asarray(scales)).sum(1), (product * dout * np.asarray(xs)[:, None]).sum(0))):
        np.testing.assert_allclose(found, e, rtol=1e-4, atol=1e-2)


def test_bad_arguments():
    x, y, v = np.ones((4, 3), np.float32), np.ones((2, 3, 5), np.float32), np.ones((3, 5), np.int8)
    sizes, scales = np.array([1, 2]), np.ones(5, np.float32)
    for bad, message in (
        (lambda: kernels.grouped_matmul(x, y[:, :2], sizes), r"must be \(rows, depth\)"),
        (lambda: kernels.grouped_matmul(x, y, sizes, transpose_rhs=True), "With transpose_rhs"),
        (lambda: kernels.grouped_matmul(x, y, sizes[:1]), r"group_sizes \(1,\)"),
        (lambda: kernels.grouped_matmul(x, y, sizes / 2), "group_sizes of integers"),
        (lambda: kernels.quantize(x, "int4"), "int8, float8_e4m3fn, float8_e5m2, got int4"),
        (lambda: kernels.quantized_matmul(x, v, scales[:2]), r"rhs_scales \(2,\)"),
        (lambda: kernels.quantized_matmul(x, v.astype(np.int32), scales), "got float32 and int32"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
