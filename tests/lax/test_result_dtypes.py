"""Dtypes, weak types and exceptions of single functions of lax, as in JAX."""

import inspect
import warnings

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, random

FLOATS, INTS, COMPLEX = np.array([-1.5, 0.25, 2.0], np.float32), np.array([-3, 0, 5], np.int32), np.array([1 + 2j, -1j, 0.5], np.complex64)
KEYS = random.split(random.key(0), 3)
INT4 = np.ones(3, ml_dtypes.int4)

REFUSED = {  # call: exception, a word of the message
    "add of booleans": (lambda: lax.add(True, False), TypeError, "does not accept dtype"),
    "mul of booleans": (lambda: lax.mul(np.ones(3, bool), np.ones(3, bool)), TypeError, "does not accept dtype"),
    "sum of booleans": (lambda: lax.reduce_sum(np.ones(3, bool), (0,)), TypeError, "does not accept dtype"),
    "pow of integers": (lambda: lax.pow(INTS, INTS), TypeError, "does not accept dtype"),
    "pow of two floats": (lambda: lax.pow(FLOATS, FLOATS.astype(ml_dtypes.bfloat16)), TypeError, "same dtype"),
    "abs of int4": (lambda: lax.abs(INT4), TypeError, "does not accept dtype int4"),
    "reduce_or of int4": (lambda: lax.reduce_or(INT4, (0,)), TypeError, "does not accept dtype int4"),
    "complex of float16": (lambda: lax.complex(FLOATS.astype("float16"), FLOATS.astype("float16")), TypeError, "does not accept dtype"),
    "float0": (lambda: lax.eq(np.zeros(3, xf.dtypes.float0), np.zeros(3, xf.dtypes.float0)), TypeError, "by design"),
    "clamp by another dtype": (lambda: lax.clamp(1, FLOATS, 2), TypeError, "same dtype"),
    "pad with another dtype": (lambda: lax.pad(FLOATS, 0, [(1, 1, 0)]), TypeError, "array's dtype"),
    "pad with a vector": (lambda: lax.pad(FLOATS, FLOATS, [(1, 1, 0)]), ValueError, "scalar"),
    "pad too short": (lambda: lax.pad(FLOATS, 0.0, []), ValueError, "padding_config"),
    "reshape": (lambda: lax.reshape(FLOATS, (2,)), ValueError, "total size"),
    "reshape below 0": (lambda: lax.reshape(FLOATS, (-1,)), TypeError, "non-negative"),
    "rev twice": (lambda: lax.rev(FLOATS, (0, 0)), TypeError, "unique"),
    "rev beyond": (lambda: lax.rev(FLOATS, (1,)), TypeError, "out of bounds"),
    "concatenate below 0": (lambda: lax.concatenate([FLOATS, FLOATS], -1), TypeError, "negative"),
    "reduce below 0": (lambda: lax.reduce_max(FLOATS, (-1,)), ValueError, "negative"),
    "reduce by a function below 0": (lambda: lax.reduce(FLOATS, 0.0, lax.add, (-1,)), ValueError, "negative"),
    "reduce from another dtype": (lambda: lax.reduce(FLOATS, 0, lax.max, (0,)), TypeError, "dtypes should match"),
    "reduce from a vector": (lambda: lax.reduce(FLOATS, FLOATS, lax.max, (0,)), ValueError, "scalars"),
    "argmax below 0": (lambda: lax.argmax(FLOATS, -1, "int32"), ValueError, "negative"),
    "argmax without dtype": (lambda: lax.argmax(FLOATS, 0, None), ValueError, "must be specified"),
    "cumsum below 0": (lambda: lax.cumsum(FLOATS, -1), ValueError, "negative"),
    "iota of booleans": (lambda: lax.broadcasted_iota(bool, (2, 3), 5), TypeError, "dtype bool"),
    "iota below 0": (lambda: lax.broadcasted_iota(int, (2, 3), -1), ValueError, "negative"),
    "iota of fewer than none": (lambda: lax.iota(int, -4), TypeError, "non-negative"),
    "full of fewer than none": (lambda: lax.full((-1,), 0.0), TypeError, "non-negative"),
    "full of a complex number": (lambda: lax.full((2,), 1j, "float32"), TypeError, "complex number"),
    "full of a complex number without imaginary part": (lambda: xnp.full((2,), 2 + 0j, "int8"), TypeError, "complex number"),
    "full_like of a complex number": (lambda: lax.full_like(xnp.ones(2), 1j), TypeError, "complex number"),
    "full_like of xnp of a complex number": (lambda: xf.jit(lambda x: xnp.full_like(x, 1j))(1.0), TypeError, "complex number"),
    "ones of fewer than none": (lambda: xnp.ones((-1, 1)), TypeError, "negative"),
    "classes of fewer than none": (lambda: xf.nn.one_hot(0, -1), TypeError, "non-negative"),
    "classes of booleans": (lambda: xf.nn.one_hot(np.ones(3, bool), 3), TypeError, "bool"),
    "bits of complex": (lambda: lax.bitcast_convert_type(COMPLEX, "uint32"), TypeError, "does not support"),
    "bits that are too few": (lambda: lax.bitcast_convert_type(np.ones(3, np.uint8), "float32"), ValueError, "last dimension"),
    "negative mantissa": (lambda: lax.reduce_precision(FLOATS, 5, -2), ValueError, "mantissa_bits"),
    "no exponent": (lambda: lax.reduce_precision(FLOATS, 0, 2), ValueError, "exponent_bits"),
    "numbers of keys": (lambda: lax.convert_element_type(KEYS, int), ValueError, "convert_element_type"),
    "keys of numbers": (lambda: lax.convert_element_type(INTS, KEYS.dtype), ValueError, "convert_element_type"),
    "sine of keys": (lambda: xnp.sin(KEYS), TypeError, "key<fry>"),
    "sum of keys": (lambda: xnp.sum(KEYS), TypeError, "key<fry>"),
    "keys and numbers": (lambda: xnp.add(KEYS, 1), TypeError, "key<fry>"),
    "an array of numbers of keys": (lambda: xnp.array(KEYS, dtype=float), ValueError, "convert_element_type"),
    "padded keys": (lambda: xnp.pad(KEYS, 1), ValueError, "convert_element_type"),
    "product of keys": (lambda: xnp.dot(KEYS, KEYS), TypeError, "key<fry>"),
    "greatest key": (lambda: lax.reduce_max(KEYS, (0,)), ValueError, "key<fry>"),
    "stopped text": (lambda: lax.stop_gradient("a"), TypeError, "not an array"),
    "stopped function": (lambda: lax.stop_gradient(len), TypeError, "not an array"),
    "top_k of complex": (lambda: lax.top_k(COMPLEX, 1), ValueError, "complex"),
    "top_k of too many": (lambda: xf.eval_shape(lambda x: lax.top_k(x, 9), xf.ShapeDtypeStruct((2**31 + 1,), "bfloat16")),
                          ValueError, "int32 indices"),
    "index that is no integer": (lambda: lax.dynamic_index_in_dim(FLOATS, 1.5), TypeError, "integer"),
    "too many starts": (lambda: lax.dynamic_slice(FLOATS, (0, 0), (1,)), ValueError, "must match"),
    "too few sizes": (lambda: lax.dynamic_slice(FLOATS[None], (0, 0), (1,)), ValueError, "a size for each"),
    "an integer of a complex number": (lambda: lax.convert_element_type(1j, int), TypeError, "complex number"),
    "windows of booleans from a number": (lambda: lax.reduce_window(INTS > 0, 0, lax.max, (2,)), TypeError, "dtypes"),
    "product of scalars": (lambda: lax.dot(2.0, 2.0), ValueError, "contracting"),
    "stack of two shapes": (lambda: lax.stack([FLOATS, FLOATS[:2]]), ValueError, "same shape"),
    "slice beyond": (lambda: lax.slice_in_dim(FLOATS, 0, 5), TypeError, "does not lie within"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_raises(case):
    call, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        call()


def test_conversions():
    for value, dtype, expected in ((2**32, "int32", 0), (2**32 + 5, "int8", 5), (-1, "uint8", 255), (2**40, "float32", 2.0**40)):
        assert np.asarray(lax.convert_element_type(value, dtype)) == expected
    assert lax.convert_element_type(1j, bool) and lax.convert_element_type(np.complex64(1j), bool)
    weak = xnp.asarray(2.0)
    for dtype in (float, "float32", int, complex):
        assert not lax.convert_element_type(weak, dtype).weak_type
    assert not lax.bitcast_convert_type(weak, "float32").weak_type
    assert all(f(1.0, 2.0).weak_type for f in (lax.eq, lax.lt, lax.ge)) and lax.is_finite(1.0).weak_type
    assert lax.gather(weak[None], np.array([[0]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill").weak_type
    np.testing.assert_array_equal(np.asarray(lax.mul(np.int8([100]), np.int8([100]), out_dtype="int32")), [10000])
    np.testing.assert_array_equal(np.asarray(lax.mul(np.float32([1.5]), np.float32([3.5]), out_dtype="int8")), [3])
    stopped = lax.stop_gradient(np.arange(3.0))
    assert stopped.dtype == np.float32 and lax.stop_gradient(2.0) == 2.0


def test_selection(rng):
    cases = rng.normal(size=(3, 5)).astype(np.float32)
    for d in ("int8", "uint8", "int16", "uint32", ml_dtypes.int4, np.int32):
        which = np.array([2, 0, 1, 2, 0]).astype(d)
        np.testing.assert_array_equal(np.asarray(lax.select_n(which, *cases)), np.choose(which.astype(int), cases))
    ordered = sorted(COMPLEX, key=lambda v: (v.real, v.imag))
    assert np.asarray(lax.reduce_max(COMPLEX, (0,))) == ordered[-1] and np.asarray(lax.reduce_min(COMPLEX, (0,))) == ordered[0]
    ties = np.array([1 + 2j, 1 - 3j, 1 + 5j], np.complex64)
    assert np.asarray(lax.reduce_max(ties, (0,))) == 1 + 5j and np.asarray(lax.reduce_min(ties, (0,))) == 1 - 3j
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    least = lax.scatter_min(ties, np.array([[0], [2]]), np.array([1 - 4j, 1 + 9j], np.complex64), numbers)
    np.testing.assert_array_equal(np.asarray(least), [1 - 4j, 1 - 3j, 1 + 5j])
    np.testing.assert_array_equal(np.asarray(lax.clamp(np.bool_(False), FLOATS > 0, np.bool_(True))), FLOATS > 0)


def test_permuted_broadcast(rng):
    """A permuting broadcast: values, and the transpose."""
    x, weights = rng.normal(size=(2, 3)).astype(np.float32), rng.normal(size=(3, 5, 2)).astype(np.float32)
    f = lambda x: lax.broadcast_in_dim(x, (3, 5, 2), (2, 0))  # noqa: E731
    np.testing.assert_array_equal(np.asarray(f(x)), np.broadcast_to(x.T[:, None], (3, 5, 2)))
    np.testing.assert_allclose(np.asarray(xf.grad(lambda x: (f(x) * weights).sum())(x)), weights.sum(1).T, rtol=1e-6)
    column = lambda x: (lax.broadcast_in_dim(x, (3, 5, 2), (2, 0)) * weights).sum()  # noqa: E731
    np.testing.assert_allclose(np.asarray(xf.grad(column)(x[:1])), weights.sum((1, 2))[None], rtol=1e-5)
    mapped = xf.vmap(f)(np.stack([x, 2 * x]))
    np.testing.assert_array_equal(np.asarray(mapped[1]), np.asarray(f(2 * x)))


@pytest.mark.parametrize("read", [lambda x: x[np.array([0, 2, 0])], lambda x: lax.dynamic_slice(x, (1,), (2,)), lambda x: x[1:],
                                  lambda x: lax.sort(x)], ids=["gather", "dynamic_slice", "slice", "sort"])
def test_cotangents_of_other_dtypes(read):
    """A custom rule may return cotangents of fewer bits, which further transposes then use."""
    @xf.custom_vjp
    def rounded(x):
        return x * 2

    rounded.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct.astype(ml_dtypes.bfloat16) * 2,))
    got = xf.grad(lambda x: rounded(read(x)).sum())(xnp.arange(4.0))
    expected = xf.grad(lambda x: (read(x) * 2).sum())(xnp.arange(4.0))
    np.testing.assert_array_equal(np.asarray(got).astype(np.float32), np.asarray(expected))


def test_names_of_parameters():
    names = {"nextafter": ["x1", "x2"], "polygamma": ["m", "x"], "zeta": ["x", "q"], "mul": ["x", "y", "out_dtype"]}
    for name, expected in names.items():
        assert list(inspect.signature(getattr(lax, name)).parameters) == expected
    with pytest.raises(TypeError, match="positional"):
        lax.exp(1.0, None)


def test_edge_cases():
    assert lax.collapse(np.ones((2, 3)), 1, 1).shape == (2, 1, 3)
    assert [x.shape for x in lax.unstack(np.ones((2, 3)), 1)] == [(2,)] * 3
    np.testing.assert_array_equal(np.asarray(lax.reduce(FLOATS, 5.0, lax.add, ())), FLOATS)  # no dimension, no start
    np.testing.assert_array_equal(np.asarray(lax.concatenate([FLOATS], 7)), FLOATS)  # whichever the dimension, nothing is joined
    assert isinstance(lax.reshape(2.0, ()), xf.Array) and isinstance(lax.broadcast_to_rank(2.0, 0), xf.Array)
    filled = lax.gather(KEYS, np.array([[7]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill", fill_value=7)
    np.testing.assert_array_equal(np.asarray(random.key_data(filled)), [[7, 7]])
    assert len(xf.make_jaxpr(xnp.divmod)(FLOATS, FLOATS).eqns) < 20  # the quotient is found once


@pytest.mark.parametrize("x, found", [(np.dtype("int8"), "int8"), (np.float16, "float16"), ("bfloat16", "bfloat16"), (xnp.int16, "int16"),
                                      (float, "float32"), (int, "int32"), ("int64", "int32"), (3, "int32"), (INT4, "int4")])
def test_dtype_of_arrays_and_of_dtypes(x, found):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert lax.dtype(x) == xnp.dtype(found)
