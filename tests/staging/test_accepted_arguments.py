"""Conversions of the arguments of internal functions, with and without dispatch."""

import enum

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from tests.staging.test_library import functions_run
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Held:
    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value * 2


class Node(Held):
    pass


xf.tree_util.register_pytree_node(Node, lambda x: ((x.value,), None), lambda _, children: Node(*children))


class Member(enum.IntEnum):
    TWO = 2


def total(x, y, axes=None):
    return xnp.sum(x, axes) + y


def decorated(dispatched, **options):
    function = accepts(**options)(total)
    return library(static="axes")(function) if dispatched else function


@pytest.mark.parametrize("dispatched", [False, True])
def test_nodes_and_members_of_enumerations_become_arrays_and_ints(dispatched):
    function = decorated(dispatched, nodes=True)
    for _ in range(3):
        assert function(Node(xnp.asarray(X)), Member.TWO) == 32
        assert xf.jit(lambda x: function(Node(x), Member.TWO))(X) == 32
        assert xf.grad(lambda x: function(Node(x), 0.0))(X).tolist() == [[2, 2, 2]] * 2
    with pytest.raises(ValueError, match="__jax_array__"):
        function(Held(xnp.asarray(X)), 1)


@pytest.mark.parametrize("dispatched", [False, True])
def test_objects_become_arrays(dispatched):
    function = decorated(dispatched, objects=True)
    assert function(Held(xnp.asarray(X)), Held(np.float32(3))) == 36
    assert function(Node(xnp.asarray(X)), y=Held(np.float32(3))) == 36
    assert xf.jit(lambda x: function(Held(x), 1))(X) == 31


@pytest.mark.parametrize("dispatched", [False, True])
def test_objects_become_arrays_for_one_parameter(dispatched):
    function = decorated(dispatched, objects="x")
    assert function(Held(xnp.asarray(X)), 1) == function(y=1, x=Held(xnp.asarray(X))) == 31
    with pytest.raises(ValueError, match="__jax_array__"):
        function(1, Held(xnp.asarray(X)))


@pytest.mark.parametrize("dispatched", [False, True])
def test_lists_and_arrays_become_tuples_and_scalars(dispatched):
    function = decorated(dispatched, lists="axes")
    for axes in ([0, 1], (np.array(0), 1), np.array([0, 1]), xnp.array([1, 0])):
        assert function(X, 1, axes) == function(X, 1, axes=axes) == 16
    assert xf.jit(lambda x: function(x, 1, [np.array(0), 1]))(X) == 16
    assert function(X, 0, np.array(0)).tolist() == [3, 5, 7]


def test_arrays_that_need_no_conversion_cost_no_python():
    x, function = xnp.asarray(X), decorated(True, objects=True)
    assert functions_run(lambda: function(x, 1.0, (0, 1))) == []


def test_functions_get_themselves_what_a_kernel_cannot_take():
    def summed(x, axes=None):
        if isinstance(x, str):
            raise TypeError(f"not a number: {x}")
        return xnp.sum(x, axes if axes is None else tuple(axes))

    function = library(static="axes")(accepts(anything=True)(summed))
    for _ in range(2):
        assert function(X, [0, 1]) == function(X, axes=(0, 1)) == xf.jit(lambda x: function(x, [0, 1]))(X) == 15
        with pytest.raises(TypeError, match="not a number: ten"):
            function("ten")
