"""Extended dtypes of libraries, whose rules define storage, conversion and addition of their elements.

The tangents of the example are combined by their maximum, like those of scales of 8-bit numbers."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import dtypes, lax


class largest(dtypes.extended):
    """Scalar type of the extended dtype."""


class Rules:
    @staticmethod
    def physical_element_aval(dtype):
        return xf.core.ShapedArray((), dtype.stored)

    @staticmethod
    def convert_from(dtype, other):
        return other == dtype.stored

    @staticmethod
    def convert_to(other, dtype):
        return other == dtype.stored

    @staticmethod
    def tangent_dtype(dtype):
        return dtype

    @staticmethod
    def zero(dtype):
        return lax.convert_element_type(np.array(-np.inf, dtype.stored), dtype)

    @staticmethod
    def add(dtype, x, y):
        return lax.convert_element_type(xnp.maximum(numbers(x), numbers(y)), dtype)

    @staticmethod
    def full(shape, value, dtype):
        return lax.convert_element_type(lax.full(shape, lax.convert_element_type(value, dtype.stored)), dtype)


@dataclass(frozen=True)
class Largest(xf.core.dtypes.ExtendedDType):
    stored: np.dtype
    _rules: type = Rules
    type: type = largest

    name = property(lambda self: f"largest<{self.stored}>")


DTYPE = Largest(np.dtype("float32"))


def numbers(x):
    return lax.convert_element_type(x, "float32")


def made(x):
    return lax.convert_element_type(x, DTYPE)


def test_arrays_have_the_user_defined_dtype():
    x = made(xnp.arange(6.0).reshape(2, 3))
    assert isinstance(x, xf.Array) and x.dtype == DTYPE and x.shape == (2, 3) and x.dtype.itemsize == 4
    assert xnp.issubdtype(x.dtype, dtypes.extended) and not xnp.issubdtype(x.dtype, dtypes.prng_key)
    np.testing.assert_array_equal(numbers(x), np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(numbers(pickle.loads(pickle.dumps(x))), numbers(x))
    assert "largest<float32>" in repr(x) and "largest<float32>" in str(xf.make_jaxpr(made)(xnp.ones(2)))


@pytest.mark.parametrize("f, expected", [
    (lambda x: x[1], lambda x: x[1]), (lambda x: x.T, lambda x: x.T), (lambda x: xnp.stack([x, x]), lambda x: np.stack([x, x])),
    (lambda x: xf.vmap(lambda row: row[::-1])(x), lambda x: x[:, ::-1]),
    (lambda x: lax.scan(lambda total, row: (total, total), x[0], x)[1], lambda x: np.stack([x[0], x[0]])),
    (lambda x: lax.full((2,), 3.0, DTYPE), lambda x: np.full(2, 3.0))], ids=["row", "T", "stack", "vmap", "scan", "full"])
def test_structural_operations(f, expected):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for run in (f, xf.jit(f)):
        result = run(made(x))
        assert result.dtype == DTYPE
        np.testing.assert_array_equal(numbers(result), expected(x))


@xf.custom_vjp
def product(x, scale):
    return x * numbers(scale)


product.defvjp(lambda x, scale: (x * numbers(scale), (x, scale)), lambda saved, ct: (ct * numbers(saved[1]), made(xnp.abs(saved[0]))))


def thrice(x, scale):
    marked = made(scale)
    return lax.scan(lambda x, _: (product(x, marked), None), x, None, length=3)[0]


def twice(x, scale):
    marked = made(scale)
    return product(product(x, marked) - 7.0, marked)


@pytest.mark.parametrize("f, expected", [
    (thrice, (8.0, 12.0)), (twice, (4.0, 3.0)), (lambda x, scale: x + 0 * product(x, made(scale * 1.0)), (1.0, 3.0))],
    ids=["scan", "twice", "once"])
def test_tangents_are_added_by_the_rules(f, expected):
    """x, 2x and 4x are multiplied by the scale, whose derivative is the largest of them."""
    for run in (xf.grad(f, (0, 1)), xf.jit(xf.grad(f, (0, 1)))):
        np.testing.assert_allclose(run(3.0, 2.0), expected)


def test_bad_input_raises():
    x = made(xnp.ones(2))
    with pytest.raises(ValueError, match="from int32 to largest<float32>: the rules of the extended dtype do not allow this"):
        made(xnp.arange(2))
    with pytest.raises(ValueError, match="from largest<float32> to float16"):
        lax.convert_element_type(x, "float16")
    with pytest.raises(ValueError, match="random.key_data"):
        lax.convert_element_type(xf.random.key(0), DTYPE)
    with pytest.raises(TypeError, match="largest<float32>"):
        np.asarray(x)
    with pytest.raises(TypeError, match="largest<float32>"):
        xf.grad(lambda x: numbers(x).sum())(x)
    with pytest.raises(TypeError):
        x + x
