"""Convolutions in TPU kernels: what they compute by NumPy, and cases for the tests of values and those of compilation."""

import itertools

import numpy as np

import xlafront as xf
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu
from xlafront.pallas.kernel_mlir import make_context


def has_convolutions():
    """True if the installed jaxlib has the operation of kernels."""
    return make_context("_tpu_ext").is_registered_operation("tpu.conv")


def convolve(x, w, padding, strides, x_dilation, w_dilation, groups=1, batch_groups=1):
    """Convolve arrays with batch first and features last, and windows `(*space, in, out)`, by a sum over the positions of w."""
    if batch_groups > 1:
        pieces = zip(np.split(x, batch_groups, 0), np.split(w, batch_groups, -1))
        return np.concatenate([convolve(a, b, padding, strides, x_dilation, w_dilation) for a, b in pieces], -1)
    if groups > 1:
        pieces = zip(np.split(x, groups, -1), np.split(w, groups, -1))
        return np.concatenate([convolve(a, b, padding, strides, x_dilation, w_dilation) for a, b in pieces], -1)
    space = [(n - 1) * d + 1 for n, d in zip(x.shape[1:-1], x_dilation)]
    full = np.zeros((len(x), *[n + sum(p) for n, p in zip(space, padding)], x.shape[-1]), x.dtype)
    inner = [slice(low, low + n, d) for (low, _), n, d in zip(padding, space, x_dilation)]
    full[(slice(None), *inner)] = x
    sizes = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(full.shape[1:-1], w.shape[:-2], w_dilation, strides)]
    total = np.zeros((len(x), *sizes, w.shape[-1]), x.dtype)
    for k in itertools.product(*map(range, w.shape[:-2])):
        window = [slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(k, w_dilation, sizes, strides)]
        total += full[(slice(None), *window)] @ w[k]
    return total


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


NHWC, SAME = ("NHWC", "HWIO", "NHWC"), ((1, 1), (1, 1))


def case(x, w, numbers_=NHWC, padding=SAME, strides=(1, 1), x_dilation=(1, 1), w_dilation=(1, 1), groups=1, batch_groups=1, dtype="float32"):
    """Arrays, the function of them, and the arguments of `convolve`."""
    return (numbers(*x).astype(dtype), numbers(*w, seed=1).astype(dtype), lambda x, w: lax.conv_general_dilated(
        x, w, strides, padding, x_dilation, w_dilation, numbers_, groups, batch_groups, preferred_element_type=np.float32 if
        dtype != "int8" else np.int32), (padding, strides, x_dilation, w_dilation, groups, batch_groups))


CASES = {
    "windows": case((1, 8, 16, 128), (3, 3, 128, 128)),
    "strides": case((2, 8, 16, 128), (3, 3, 128, 128), strides=(2, 2)),
    "dilations": case((1, 8, 16, 128), (3, 2, 128, 128), x_dilation=(1, 2), w_dilation=(2, 1), padding=((2, 0), (1, 0))),
    "groups": case((1, 8, 16, 256), (1, 3, 128, 256), groups=2),
    "groups of the batch": case((2, 8, 16, 128), (3, 1, 128, 256), batch_groups=2),
    "one dimension": case((1, 64, 128), (3, 128, 128), ("NHC", "HIO", "NHC"), ((1, 1),), (1,), (1,), (1,)),
    "bfloat16": case((1, 8, 16, 128), (3, 3, 128, 128), dtype="bfloat16")}


def kernel(name, interpret=False):
    """Return the kernel of a case."""
    x, w, function, _ = CASES[name]
    out = xf.eval_shape(function, x, w)

    def body(x_ref, w_ref, o_ref):
        o_ref[...] = function(x_ref[...], w_ref[...])

    return pl.pallas_call(body, xf.ShapeDtypeStruct(out.shape, out.dtype), interpret=interpret)


def expected(name):
    x, w, _, options = CASES[name]
    return convolve(x.astype(np.float64), w.astype(np.float64), *options)


def reversed_windows(interpret=False):
    """Return a kernel with `pltpu.conv`: one axis of the windows is reversed, and there is a start value."""
    def body(x_ref, w_ref, o_ref):
        o_ref[...] = pltpu.conv(x_ref[...], w_ref[...], x_ref[...], dimension_numbers=NHWC, padding=SAME, window_reversal=(True, False))

    return pl.pallas_call(body, xf.ShapeDtypeStruct((1, 8, 16, 128), np.float32), interpret=interpret)
