"""Lowered modules have no more operations than those of JAX, whose counts are in the table."""

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from benchmarks.measure import operations
from xlafront import lax, random

FEW = xf.ShapeDtypeStruct((8,), "float32")
HALF = xf.ShapeDtypeStruct((8,), "bfloat16")
COMPLEX = xf.ShapeDtypeStruct((8,), "complex64")
INTEGERS = xf.ShapeDtypeStruct((8,), "int32")
MATRIX = xf.ShapeDtypeStruct((4, 4), "float32")


def tangent_of(f):
    """Return the JVP of a function with the argument as tangent."""
    return lambda x: xf.jvp(f, (x,), (x,))[1]


# A function, its argument, and how many operations the reference's module has, counted as the benchmarks count them.
PROGRAMS = {
    "isnan of complex numbers": (xnp.isnan, COMPLEX, 1),
    "nanmean of integers": (xnp.nanmean, INTEGERS, 7),
    "sort_complex of numbers": (xnp.sort_complex, FEW, 18),
    "sort_complex of integers": (xnp.sort_complex, INTEGERS, 4),
    "argsort": (xnp.argsort, FEW, 18),
    "permutation": (lambda x: random.permutation(random.key(0), x), FEW, 192),
    "digitize": (lambda x: xnp.digitize(x, x), INTEGERS, 41),
    "pad, maximum": (lambda x: xnp.pad(x, 1, mode="maximum"), MATRIX, 19),
    "pad, mean": (lambda x: xnp.pad(x, 1, mode="mean"), MATRIX, 25),
    "pad, median": (lambda x: xnp.pad(x, 1, mode="median"), MATRIX, 123),
    "gradient of a sum of few bits": (xf.grad(xnp.sum), HALF, 3),
    "tangent of a difference": (tangent_of(lambda x: x - x), MATRIX, 1),
    "tangent of two differences": (tangent_of(lambda x: xnp.diff(x, 2)), MATRIX, 7),
    "tangent of complex": (tangent_of(lambda x: lax.complex(x, x)), MATRIX, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_modules_have_no_more_operations_than_jax(name):
    function, argument, most = PROGRAMS[name]
    module = xf.jit(lambda x: function(x)).lower(argument).as_text()
    assert operations(module) <= most, module


def test_roll_of_a_matrix_concatenates_two_slices():
    """Concatenated with itself, as vectors are, a stencil along the rows took three times as long."""
    module = xf.jit(lambda x: xnp.roll(x, 1, 0)).lower(MATRIX).as_text()
    assert "8x4" not in module and "stablehlo.concatenate" in module
