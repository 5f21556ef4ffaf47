"""Convolutions: values by brute force, derivatives, batching, the functions over them, bad input."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from laws import check_batching, check_derivatives
from scipy import signal

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

RNG = np.random.default_rng(0)


def brute(x, w, strides, pads, lhs_dilation, rhs_dilation, features=1, batches=1):
    """Sums of products, place by place, in the order (N, C, ...), (O, I, ...)."""
    (n, c, *sizes), (made, taken, *windows) = x.shape, w.shape
    dilated = np.zeros((n, c, *[(m - 1) * d + 1 for m, d in zip(sizes, lhs_dilation)]), x.dtype)
    dilated[(slice(None), slice(None), *[slice(None, None, d) for d in lhs_dilation])] = x
    dilated = np.pad(dilated, [(0, 0), (0, 0), *[(max(a, 0), max(b, 0)) for a, b in pads]])
    dilated = dilated[
        (slice(None), slice(None), *[slice(-min(a, 0), m + min(b, 0)) for m, (a, b) in zip(dilated.shape[2:], pads)])
    ]
    windows = [(k - 1) * d + 1 for k, d in zip(windows, rhs_dilation)]
    sizes = [(m - k) // s + 1 for m, k, s in zip(dilated.shape[2:], windows, strides)]
    out = np.zeros((n // batches, made, *sizes), x.dtype)
    for i, o in itertools.product(range(n // batches), range(made)):
        row = o // (made // batches) * (n // batches) + i
        first = o // (made // features) * taken
        for place in itertools.product(*map(range, sizes)):
            piece = tuple(slice(p * s, p * s + k, d) for p, s, k, d in zip(place, strides, windows, rhs_dilation))
            out[(i, o, *place)] = (dilated[(row, slice(first, first + taken), *piece)] * w[o]).sum()
    return out


# shapes of input and kernel, strides, padding, dilations of input and kernel, groups of features and of batches
CASES = [
    ((2, 3, 7), (4, 3, 3), (1,), [(1, 1)], (1,), (1,), 1, 1),
    ((2, 2, 5, 6), (3, 2, 3, 2), (2, 1), [(1, 0), (-1, 2)], (1, 2), (2, 1), 1, 1),
    ((2, 4, 7), (6, 2, 3), (2,), [(1, 2)], (2,), (2,), 2, 1),
    ((4, 3, 7), (6, 3, 3), (2,), [(1, 2)], (1,), (2,), 1, 2),
    ((2, 3), (4, 3), (), [], (), (), 1, 1),
]


def ours(case):
    _, _, strides, pads, lhs_dilation, rhs_dilation, features, batches = case
    return lambda x, w: lax.conv_general_dilated(
        x, w, strides, pads, lhs_dilation, rhs_dilation, feature_group_count=features, batch_group_count=batches
    )


def arrays(case, dtype=np.float32):
    values = [RNG.integers(-3, 4, size=s) for s in case[:2]]
    if np.issubdtype(dtype, np.complexfloating):
        values = [v + 1j * RNG.integers(-3, 4, size=v.shape) for v in values]
    return [v.astype(dtype) for v in values]


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.int32, marks=pytest.mark.cpu_only), np.complex64,
                                   ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_brute_force(case, dtype):
    x, w = arrays(case, dtype)
    result = ours(case)(x, w)
    assert result.dtype == dtype
    wide = np.float32 if dtype == ml_dtypes.bfloat16 else dtype
    expected = brute(x.astype(wide), w.astype(wide), *case[2:]).astype(dtype)
    np.testing.assert_array_equal(np.asarray(result), expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_match_differences(case):
    check_derivatives(ours(case), arrays(case), RNG)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_vmap_equals_a_loop(case):
    check_batching(ours(case), arrays(case))


def test_dimension_numbers_permute_operands_and_result():
    x, w = arrays(CASES[1])
    expected = np.asarray(lax.conv_general_dilated(x, w, (1, 2), "SAME"))
    for lhs, rhs, out in (("NHWC", "HWIO", "NHWC"), ("CWNH", "IHOW", "WHCN")):
        moved = [
            np.transpose(a, ["NCHW".index(c) if i == 0 else "OIHW".index(c) for c in letters])
            for i, (a, letters) in enumerate(((x, lhs), (w, rhs)))
        ]
        strides = (1, 2) if rhs.index("H") < rhs.index("W") else (2, 1)
        result = lax.conv_general_dilated(*moved, strides, "SAME", dimension_numbers=(lhs, rhs, out))
        np.testing.assert_allclose(result, expected.transpose(["NCHW".index(c) for c in out]), rtol=1e-5)
        shape = lax.conv_general_shape_tuple(moved[0].shape, moved[1].shape, strides, "SAME", (lhs, rhs, out))
        assert shape == result.shape


def test_strides_follow_the_order_of_the_kernel_letters():
    numbers = lax.conv_dimension_numbers((2, 3, 8, 9), (4, 3, 3, 3), ("NC01", "OI10", "NC10"))
    assert numbers == lax.ConvDimensionNumbers((0, 1, 3, 2), (0, 1, 2, 3), (0, 1, 2, 3))


@pytest.mark.parametrize("size,window,stride", [*itertools.product((5, 6, 9), (1, 2, 3, 4), (1, 2, 3))])
def test_same_padding_gives_the_ceiling_of_the_quotient(size, window, stride):
    for kind, heavier in (("SAME", 1), ("same_lower", 0)):
        [(low, high)] = lax.padtype_to_pads((size,), (window,), (stride,), kind)
        assert abs(low - high) <= 1 and (low == high or (low, high)[heavier] == max(low, high))
        assert (size + low + high - window) // stride + 1 == -(-size // stride)


def test_scalar_sizes_apply_to_all_dimensions():
    same = [(0, 1), (1, 1)]  # for ceil(8 / 2) and ceil(9 / 2) windows of 3
    for window, strides in (((3, 3), (2, 2)), ((3,), (2, 2)), (3, 2), ((3, 3), (2,))):
        assert lax.padtype_to_pads((8, 9), window, strides, "SAME") == same
        assert lax.padtype_to_pads((8, 9), window, strides, "SAME_LOWER") == [pair[::-1] for pair in same]
        assert lax.padtype_to_pads((8, 9), window, strides, "VALID") == [(0, 0), (0, 0)]
    assert lax.padtype_to_pads((), (), (), "SAME") == []
    with pytest.raises(ValueError):
        lax.padtype_to_pads((8, 9), (3, 3), (2, 2, 2), "SAME")
    with pytest.raises(TypeError, match="integers"):
        lax.padtype_to_pads((8, 9), (3, 3), (1.5, 1), "SAME")


@pytest.mark.parametrize("function", [lax.conv_general_dilated, lax.conv_transpose])
def test_lists_raise(function):
    with pytest.raises(TypeError, match=f"{function.__name__} got an argument of type list"):
        function([[[1.0]]], np.ones((1, 1, 1), np.float32), (1,), "SAME")


@pytest.mark.cpu_only
def test_wider_element_types():
    x, w = arrays(CASES[0], np.int8)
    np.testing.assert_array_equal(
        lax.conv(x * 40, w, (1,), "VALID", preferred_element_type=np.int32),
        brute(x.astype(np.int32) * 40, w.astype(np.int32), (1,), [(0, 0)], (1,), (1,)),
    )
    x, w = arrays(CASES[0], ml_dtypes.bfloat16)
    f = lambda x, w: lax.conv(x, w, (1,), "SAME", preferred_element_type=np.float32)
    assert f(x, w).dtype == np.float32
    gradients = xf.grad(lambda *a: f(*a).sum(), (0, 1))(x, w)
    exact = xf.grad(lambda *a: lax.conv(*a, (1,), "SAME").sum(), (0, 1))(x.astype(np.float32), w.astype(np.float32))
    for ours, theirs in zip(gradients, exact):
        assert ours.dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(np.asarray(ours, np.float32), theirs, rtol=1e-2)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("size,window,stride", [(6, 3, 2), (4, 1, 2), (6, 2, 3), (8, 4, 2), (6, 5, 1)])
def test_conv_transpose_is_the_transpose_of_a_convolution(padding, size, window, stride):
    """With the flipped kernel, it is the gradient of the convolution whose input it restores."""
    kernel = RNG.normal(size=(window, 2, 3)).astype(np.float32)
    numbers = ("NHC", "HIO", "NHC")
    forward = lambda x: lax.conv_general_dilated(x, kernel, (stride,), padding, dimension_numbers=numbers)
    small = RNG.normal(size=(1, size, 3)).astype(np.float32)
    result = lax.conv_transpose(small, kernel, (stride,), padding, dimension_numbers=numbers, transpose_kernel=True)
    assert result.shape == lax.conv_transpose_shape_tuple(
        small.shape, (window, 3, 2), (stride,), padding, ("NHC", "HIO", "NHC")
    )
    assert forward(np.zeros(result.shape, np.float32)).shape == small.shape
    if (window - stride) % 2 == 0 or padding == "VALID":  # where SAME pads both sides alike
        [expected] = xf.linear_transpose(forward, np.zeros(result.shape, np.float32))(small)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_consistent_padding_of_conv_transpose_is_that_of_the_convolution():
    x, kernel = np.ones((1, 8, 3), np.float32), np.ones((3, 3, 4), np.float32)
    stretched = lax.conv_transpose(x, kernel, (2,), [(2, 2)])
    consistent = lax.conv_transpose(x, kernel, (2,), [(0, 0)], use_consistent_padding=True)
    np.testing.assert_array_equal(stretched, consistent)
    assert stretched.shape == (1, 17, 4)


@pytest.mark.cpu_only
def test_patches_and_local_kernels():
    x = RNG.normal(size=(2, 3, 5, 6)).astype(np.float32)
    patches = np.asarray(lax.conv_general_dilated_patches(x, (2, 3), (1, 2), "VALID"))
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3))[:, :, :, ::2]  # n, c, places, window
    np.testing.assert_array_equal(patches, windows.transpose(0, 1, 4, 5, 2, 3).reshape(2, 18, 4, 2))
    ints = lax.conv_general_dilated_patches(np.arange(5, dtype=np.int32).reshape(1, 1, 5), (2,), (1,), "SAME")
    np.testing.assert_array_equal(ints[0], [[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    kernels = RNG.normal(size=(4, 18, 4, 2)).astype(np.float32)
    local = lax.conv_general_dilated_local(x, kernels, (1, 2), "VALID", (2, 3))
    np.testing.assert_allclose(local, np.einsum("npab,opab->noab", patches, kernels), rtol=1e-4, atol=1e-5)
    last = lax.conv_general_dilated_local(
        x.transpose(0, 2, 3, 1), kernels.transpose(2, 3, 1, 0), (1, 2), "VALID", (2, 3), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(last, np.asarray(local).transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)


def test_against_scipy():
    x, w = RNG.normal(size=(9, 8)), RNG.normal(size=(3, 2))
    result = lax.conv(x[None, None].astype(np.float32), w[None, None].astype(np.float32), (1, 1), "VALID")[0, 0]
    np.testing.assert_allclose(result, signal.correlate2d(x, w, "valid"), rtol=1e-4, atol=1e-5)


def test_empty_results():
    ones = lambda *s: xnp.ones(s)
    assert lax.conv(ones(2, 3, 2), ones(4, 3, 3), (1,), "VALID").shape == (2, 4, 0)
    assert lax.conv(ones(2, 3, 0), ones(4, 3, 3), (1,), "SAME").shape == (2, 4, 0)
    np.testing.assert_array_equal(lax.conv(ones(2, 0, 5), ones(4, 0, 3), (1,), "VALID"), np.zeros((2, 4, 3)))
    gradients = xf.grad(lambda x, w: lax.conv(x, w, (1,), "VALID").sum(), (0, 1))(ones(2, 3, 2), ones(4, 3, 3))
    assert [float(abs(g).sum()) for g in gradients] == [0, 0]


X, W = np.ones((2, 3, 8, 9), np.float32), np.ones((4, 3, 3, 3), np.float32)
CONV = lax.conv_general_dilated
# name: (the call, the class of JAX's error, words of the message)
REFUSED = {
    "ranks": (lambda: CONV(X, W[0], (1, 1), "SAME"), TypeError, r"rank.*\(2, 3, 8, 9\)"),
    "strides": (lambda: CONV(X, W, (1,), "SAME"), ValueError, "window_strides"),
    "zero stride": (lambda: CONV(X, W, (0, 1), "SAME"), ValueError, "window_strides.*positive"),
    "fraction": (lambda: CONV(X, W, (1.5, 1), "SAME"), TypeError, "window_strides.*integers"),
    "pads": (lambda: CONV(X, W, (1, 1), [(0, 0)]), TypeError, "2 pairs of padding, got 1"),
    "triples": (lambda: CONV(X, W, (1, 1), ((0, 0, 0),) * 2), ValueError, "pairs"),
    "too negative": (lambda: CONV(X, W, (1, 1), [(0, 0), (0, -20)]), ValueError, "negative padding"),
    "name": (lambda: CONV(X, W, (1, 1), "FOO"), RuntimeError, "'FOO'.*SAME_LOWER"),
    "stretched": (lambda: CONV(X, W, (1, 1), "SAME", (2, 2)), ValueError, "lhs_dilation.*conv_transpose"),
    "dilation": (lambda: CONV(X, W, (1, 1), "VALID", None, (0, 2)), TypeError, "rhs_dilation"),
    "features": (lambda: CONV(X, W[:, :2], (1, 1), "SAME"), ValueError, "feature_group_count"),
    "groups": (lambda: CONV(X, W[:, :1], (1, 1), "SAME", feature_group_count=3), ValueError, "multiple of feature_group"),
    "batches": (lambda: CONV(X, W, (1, 1), "SAME", batch_group_count=3), ValueError, "batch_group_count"),
    "both": (
        lambda: CONV(X, W[:, :1], (1, 1), "SAME", feature_group_count=3, batch_group_count=2),
        ValueError,
        "feature_group_count=3 and batch_group_count=2",
    ),
    "dtypes": (lambda: CONV(X, W.astype(np.float16), (1, 1), "SAME"), TypeError, "f(loat)?32.*f(loat)?16"),
    "narrower": (
        lambda: CONV(X, W, (1, 1), "SAME", preferred_element_type=np.float16),
        TypeError,
        "preferred_element_type=float16.*narrower",
    ),
    "kinds": (lambda: CONV(X, W, (1, 1), "SAME", preferred_element_type=np.int32), TypeError, "preferred_element_type"),
    "two strings": (lambda: CONV(X, W, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW")), TypeError, "three strings"),
    "letters": (
        lambda: CONV(X, W, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHX", "NCHW")),
        TypeError,
        "same spatial letters",
    ),
    "no window": (lambda: CONV(X, W[:, :, :0], (1, 1), "VALID"), ValueError, r"elements in each spatial.*\(4, 3, 0, 3\)"),
    "specs": (
        lambda: CONV(X, W, (1, 1), "SAME", dimension_numbers=lax.ConvDimensionNumbers((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 1, 2))),
        ValueError,
        "out_spec",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_raises(name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()
    with pytest.raises(error, match=words):
        xf.eval_shape(call)


@pytest.mark.cpu_only
def test_explicit_axes():
    mesh = xf.make_mesh((2, 2), ("x", "y"), axis_types=(xf.sharding.AxisType.Explicit,) * 2)
    P = xf.sharding.PartitionSpec
    put = lambda a, *spec: xf.device_put(a, xf.sharding.NamedSharding(mesh, P(*spec)))
    x, w = (np.asarray(a[..., 0]) for a in (X, W))
    x, w = np.concatenate([x, x[:, :1]], 1), np.concatenate([w, w[:, :1]], 1)
    f = lambda x, w: lax.conv(x, w, (1,), "SAME")
    with xf.set_mesh(mesh):
        assert xf.typeof(f(put(x, "x"), put(w))).sharding.spec == P("x", None, None)
        expected = xf.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(x, w)
        found = xf.jit(xf.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1)))(put(x, "x"), put(w))
        assert [xf.typeof(g).sharding.spec for g in found] == [P("x", None, None), P(None, None, None)]
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, rtol=1e-5)
        with pytest.raises(TypeError, match="out_sharding"):
            f(put(x, None, "x"), put(w))
        split = lax.conv_general_dilated(put(x, None, "x"), put(w, None, "x"), (1,), "SAME", out_sharding=P("x"))
        assert xf.typeof(split).sharding.spec == P("x", None, None)
        np.testing.assert_allclose(split, f(x, w), rtol=1e-6)


@pytest.mark.parametrize("groups", [{}, {"batch_group_count": 2}, {"feature_group_count": 2}])
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_no_convolutions(axes, groups):
    x, w = xnp.zeros((2, 2, 6, 7)), xnp.zeros((2, 1 if "feature_group_count" in groups else 2, 1, 2))
    x, w = (y if axis is None else y[None][:0] for y, axis in zip((x, w), axes))
    found = xf.vmap(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", **groups), in_axes=axes)(x, w)
    assert found.shape == (0, 1 if "batch_group_count" in groups else 2, 2, 6, 6)


def test_operands_of_other_ranks():
    numbers = lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    with pytest.raises(ValueError, match="rank"):
        lax.conv_general_dilated(np.ones((1, 1, 1)), np.ones((1, 1, 1, 1)), (1,), [(0, 0)], dimension_numbers=numbers)
