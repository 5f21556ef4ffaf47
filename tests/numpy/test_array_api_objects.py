"""Array objects of the array API standard 2024.12: operators, attributes, promotion, empty arrays, combinations of parameters.

64-bit types are enabled, as the standard's tables require.
"""

import itertools
import operator
import warnings

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

SIGNED, UNSIGNED = "int8 int16 int32 int64".split(), "uint8 uint16 uint32 uint64".split()
FLOATS, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
NUMBERS = SIGNED + UNSIGNED + FLOATS + COMPLEX
KINDS = {"bool": ["bool"], "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": SIGNED + UNSIGNED,
         "real floating": FLOATS, "complex floating": COMPLEX, "numeric": NUMBERS}
# The pairs of which the standard says what they give: one kind, signed with unsigned integers but uint64, floats with complex.
PAIRS = [(a, b) for kind in ("bool", "signed integer", "unsigned integer", "real floating", "complex floating")
         for a, b in itertools.product(KINDS[kind], repeat=2)]
PAIRS += [*itertools.product(SIGNED, UNSIGNED[:3]), *itertools.product(FLOATS, COMPLEX)]


@pytest.fixture(autouse=True)
def sixty_four_bits():
    with xf.enable_x64(True):
        yield


def test_promotion():
    for a, b in PAIRS:
        expected = np.promote_types(a, b)
        x, y = xnp.ones(2, a), xnp.ones((), b)
        assert xnp.result_type(a, b) == xnp.result_type(x, y) == xnp.result_type(y, x) == xnp.result_type(x, b) == expected
        assert xnp.result_type(a, b, a) == expected


def test_promotion_of_python_scalars():
    """A Python scalar does not widen an array of its kind or a higher kind."""
    scalars = {"bool": [True], "integral": [True, 2], "real floating": [True, 2, 2.5], "complex floating": [2, 2.5, 2j]}
    for kind, values in scalars.items():
        for name, value in itertools.product(KINDS[kind], values):
            x = xnp.ones(2, name)
            results = [x | value, value | x] if kind == "bool" else [x * value, value * x, xnp.add(x, value), xnp.add(value, x)]
            assert {r.dtype.name for r in results} == {name}


def test_isdtype_kinds():
    for name in ["bool", *NUMBERS]:
        dtype = getattr(xnp, name).dtype
        for kind, members in KINDS.items():
            assert xnp.isdtype(dtype, kind) is (name in members)
        assert xnp.isdtype(dtype, ("bool", "numeric")) and xnp.isdtype(dtype, dtype) and xnp.isdtype(dtype, (dtype, "bool"))
        assert not xnp.isdtype(dtype, np.dtype("float16"))
    for kind, error in (("number", ValueError), (3, TypeError)):
        with pytest.raises(error, match="kinds"):
            xnp.isdtype(np.dtype("int8"), kind)


def test_casts():
    for a, b in itertools.product(["bool", *NUMBERS], repeat=2):
        assert xnp.can_cast(a, b) is np.can_cast(a, b)
        assert xnp.can_cast(xnp.ones(2, a), b) is np.can_cast(a, b)
        if not (a in COMPLEX and b not in COMPLEX):
            assert xnp.astype(xnp.array([0, 1, 2]).astype(a), b).dtype == b
    x = xnp.arange(3.0)
    assert xnp.astype(x, x.dtype, copy=True) is not x
    assert xnp.astype(x, "int32", device=x.device).tolist() == [0, 1, 2]
    assert xnp.finfo(xnp.complex64).dtype == np.float32 and xnp.finfo(x).bits == 64 and xnp.iinfo(xnp.uint8).max == 255


ARITHMETIC, BITS = "add sub mul truediv floordiv mod pow".split(), "and or xor lshift rshift".split()
COMPARISONS = "lt le gt ge eq ne".split()


def of(name):
    return getattr(operator, name + "_" * (name in ("and", "or")))


@pytest.mark.parametrize("name", [*ARITHMETIC, *BITS, *COMPARISONS, "matmul"])
def test_operators(name):
    """With an array or a Python scalar on either side, and in place: the name is rebound, the array is unchanged."""
    dtype = "int64" if name in BITS else "float64"
    a, b = np.array([[5, 2], [3, 4]], dtype), np.array([[1, 2], [2, 1]], dtype)
    x, y, scalar = xnp.asarray(a), xnp.asarray(b), 2 if name in BITS else 2.0
    f = of(name)
    pairs = [(f(x, y), f(a, b))]
    if name != "matmul":
        pairs += [(f(x, scalar), f(a, scalar)), (f(scalar, x), f(scalar, a)), (f(x, y[0]), f(a, b[0]))]
    if name not in COMPARISONS:
        in_place = getattr(operator, "i" + name)
        pairs += [(in_place(x, y), in_place(a.copy(), b)), (getattr(x, f"__r{name}__")(y), f(b, a))]
    for found, expected in pairs:
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected)
    np.testing.assert_array_equal(x, a)


def test_unary_operators():
    x = xnp.array([[1.5, -2.0]])
    assert (-x).tolist() == [[-1.5, 2.0]] and (+x).tolist() == x.tolist() and abs(x).tolist() == [[1.5, 2.0]]
    assert (~xnp.array([True, False])).tolist() == [False, True] and (~xnp.array([5])).tolist() == [-6]


def test_conversions_to_python_scalars():
    assert bool(xnp.array(2.0)) is True and int(xnp.array(-7.9)) == -7 and float(xnp.array(3)) == 3.0
    assert complex(xnp.array(2.5)) == 2.5 and complex(xnp.array(1j)) == 1j and operator.index(xnp.array(5)) == 5
    assert list(range(10))[xnp.array(2):xnp.array(4)] == [2, 3]
    for convert, x in ((operator.index, xnp.array(1.0)), (operator.index, xnp.arange(2)), (float, xnp.arange(2)), (float, xnp.array(1j)),
                       (int, xnp.array(1j))):
        with pytest.raises(TypeError):
            convert(x)
    for convert, x in ((int, xnp.array(np.inf)), (int, xnp.array(np.nan)), (bool, xnp.arange(2))):
        with pytest.raises((ValueError, OverflowError)):
            convert(x)


def test_attributes():
    x = xnp.ones((2, 3, 4), "float32")
    assert (x.ndim, x.size, x.shape, x.dtype) == (3, 24, (2, 3, 4), np.float32) and x.mT.shape == (2, 4, 3)
    assert xnp.ones((2, 3)).T.shape == (3, 2) and xnp.ones(()).size == 1 and xnp.ones((0, 3)).size == 0
    assert x.__array_namespace__(api_version="2024.12") is xnp and x.to_device(x.device).device == x.device
    assert x.__dlpack_device__() == ({"cpu": 1, "gpu": 2}[x.device.platform], 0)
    with pytest.raises(NotImplementedError, match="stream"):
        x.to_device(x.device, stream=1)
    with pytest.raises(ValueError):
        xnp.ones(3).mT  # noqa: B018  (the error is of the attribute)


@pytest.mark.cpu_only
def test_dlpack():
    for name in NUMBERS:
        x = xnp.arange(3).astype(name)
        np.testing.assert_array_equal(np.from_dlpack(x), np.arange(3).astype(name))
        back = xnp.from_dlpack(np.arange(3).astype(name))
        assert back.dtype == name and back.tolist() == x.tolist()
        assert xnp.from_dlpack(x).tolist() == x.tolist() and xnp.from_dlpack(x, copy=True).tolist() == x.tolist()


@pytest.mark.cpu_only
@pytest.mark.parametrize("shape, axis", [
    ((0,), None), ((0, 3), 0), ((0, 3), 1), ((2, 0, 3), (0, 1)), ((2, 3), (-1,)), ((2, 3, 2), (0, -1)), ((), None), ((2, 3), ()), ((1,), -1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(shape, axis, keepdims):
    a = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape) - 1
    options = {"axis": axis, "keepdims": keepdims}
    for name in "sum prod all any max min mean var std count_nonzero".split():
        nothing = 0 in [shape[i] for i in (range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,))]
        if nothing and name in ("max", "min"):
            with pytest.raises(ValueError):
                getattr(xnp, name)(a, **options)
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = getattr(np, name)(a, **options)
        found = getattr(xnp, name)(a, **options)
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_dtypes_of_sums():
    """Integers narrower than the default integer are summed in it, or in its unsigned counterpart; floats in their own dtype."""
    for name in NUMBERS:
        expected = "int64" if name in SIGNED else "uint64" if name in UNSIGNED else name
        x = xnp.ones((2, 2), name)
        assert {f(x).dtype.name for f in (xnp.sum, xnp.prod)} == {expected}
        assert xnp.cumulative_sum(x, axis=0).dtype == expected
        assert xnp.sum(x, dtype="float64" if name not in COMPLEX else "complex128").dtype.itemsize >= 8


def test_unique_functions():
    """NaNs are distinct, 0.0 and -0.0 are equal."""
    x = xnp.array([[3.0, np.nan, -0.0], [np.nan, 0.0, 3.0]])
    values, indices, inverse, counts = xnp.unique_all(x)
    assert values.shape == (4,) and sorted(counts.tolist()) == [1, 1, 2, 2] and inverse.shape == x.shape
    np.testing.assert_array_equal(values[inverse], x)
    np.testing.assert_array_equal(x.reshape(-1)[indices], values)
    assert xnp.unique_counts(x).counts.sum() == 6 and xnp.unique_values(x).shape == (4,)
    assert xnp.unique_inverse(x).inverse_indices.shape == x.shape and xnp.unique_values(xnp.zeros((0, 2))).shape == (0,)


def test_searching():
    x = np.array([5.0, 1.0, 3.0])
    order = np.argsort(x)
    for side in ("left", "right"):
        np.testing.assert_array_equal(xnp.searchsorted(x, np.array([[1.0, 2.0], [5.0, 9.0]]), side=side, sorter=order),
                                      np.searchsorted(x, [[1.0, 2.0], [5.0, 9.0]], side=side, sorter=order))
    assert [i.tolist() for i in xnp.nonzero(np.array([[0, 1], [2, 0]]))] == [[0, 1], [1, 0]]
    ties = np.array([2.0, 1.0, 2.0, 1.0])
    assert xnp.argsort(ties, descending=True).tolist() == [0, 2, 1, 3] and xnp.argsort(ties).tolist() == [1, 3, 0, 2]
    assert xnp.argmax(ties) == 0 and xnp.argmin(ties[:, None], axis=0, keepdims=True).tolist() == [[1]]
    assert xnp.sort(ties, descending=True).tolist() == [2, 2, 1, 1]


def test_shapes():
    x = np.arange(12.0).reshape(3, 4)
    for axis in (0, 1, -1):
        slices = xnp.unstack(x, axis=axis)
        assert isinstance(slices, tuple)
        np.testing.assert_array_equal(xnp.stack(slices, axis=axis), x)
        picked = np.argsort(-x, axis=axis)
        np.testing.assert_array_equal(xnp.take_along_axis(x, picked, axis=axis), np.take_along_axis(x, picked, axis=axis))
        for n in (0, 1, 2):
            options = {"axis": axis, "n": n, "prepend": np.take(x, [0], axis), "append": np.take(x, [1, 1], axis)}
            np.testing.assert_array_equal(xnp.diff(x, **options), np.diff(x, **options))
        for name, of_numpy in (("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)):
            found = getattr(xnp, name)(x, axis=axis, include_initial=True)
            start = np.full_like(np.take(x, [0], axis), name == "cumulative_prod")
            np.testing.assert_allclose(found, np.concatenate([start, of_numpy(x, axis=axis)], axis=axis))
    assert xnp.reshape(x, (-1,), copy=True).shape == (12,) and xnp.expand_dims(x, axis=-1).shape == (3, 4, 1)
    assert xnp.squeeze(x[None, :, None], (0, 2)).shape == (3, 4) and xnp.moveaxis(np.ones((2, 3, 4)), (0, 1), (-1, 0)).shape == (3, 4, 2)
    assert xnp.repeat(x, np.array([1, 0, 2]), axis=0).shape == (3, 4) and xnp.tile(x, (2, 1, 1)).shape == (2, 3, 4)
    assert [a.shape for a in xnp.broadcast_arrays(np.ones((2, 1)), np.ones(3))] == [(2, 3), (2, 3)]
    assert xnp.meshgrid() == () and xnp.concat([x, x], axis=None).shape == (24,)
    for wrong in (lambda: xnp.squeeze(x, 0), lambda: xnp.expand_dims(x, axis=3), lambda: xnp.reshape(x, (5,))):
        with pytest.raises((ValueError, IndexError, TypeError)):
            wrong()


def test_indexing():
    x = np.arange(24).reshape(2, 3, 4)
    for key in (0, (1, -1), np.s_[..., 1], np.s_[:, None, ::-1], np.s_[::2, 1:], (), np.s_[None], np.s_[0, ..., -2:], np.array(1), x > 5,
                (np.array([0, 1]), np.array([2, 0])), np.s_[2:0], np.s_[:, :0]):
        np.testing.assert_array_equal(xnp.asarray(x)[key], x[key])
    with pytest.raises(IndexError):
        xnp.asarray(x)[0, 0, 0, 0]
    with pytest.raises(TypeError):
        xnp.asarray(x)[0] = 1
