"""Mutable composite values, written as Flax writes its variables."""

import gc

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import hijax
from xlafront.staging import mutable_composites


class Box:
    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return xnp.asarray(self.value)

    def cur_qdd(self):
        return (xf.typeof(self.value),)


class BoxType(hijax.MutableHiType):
    def __eq__(self, other):
        return type(other) is BoxType

    def __hash__(self):
        return 7

    def read_loval(self, state, box):
        return state[0].lower_val(box.value)

    def new_from_loval(self, state, *values):
        return Box(state[0].raise_val(*values))

    def update_from_loval(self, state, box, *values):
        box.value = state[0].raise_val(*values)


class Get(hijax.HiPrimitive):
    def impl(self, box):
        return box.value


class Set(hijax.HiPrimitive):
    multiple_results = True

    def impl(self, box, value):
        box.value = value
        return []


class Make(hijax.HiPrimitive):
    def impl(self, value):
        return Box(value)


hijax.register_hitype(Box, lambda box: BoxType())
get, put, make = Get("get"), Set("put"), Make("make")


def test_create_and_mutate_during_tracing():
    @xf.jit
    def f(x):
        box = Box(x)
        put.bind(box, get.bind(box) * 2)
        return get.bind(box) + 1

    assert f(3) == 7 and f(4) == 9


def test_mutation_during_grad():
    box = Box(xnp.float32(0))

    def f(x):
        put.bind(box, xf.lax.stop_gradient(x * 3))
        return x ** 2 + get.bind(box)

    assert xf.grad(f)(4.0) == 8 and get.bind(box) == 12


def test_jitted_functions_read_and_mutate_captured_values():
    box, traced = Box(xnp.float32(5)), []
    read = xf.jit(lambda x: get.bind(box) + x)
    assert read(1) == 6
    put.bind(box, xnp.float32(7))
    assert read(1) == 8

    @xf.jit
    def add(x):
        traced.append(x)
        put.bind(box, get.bind(box) + x)
        return xf.grad(lambda x: get.bind(box) * x)(2.0)

    assert add(1.0) == 8 and get.bind(box) == 8 and add(2.0) == 10 and len(traced) == 1

    def body(carry, x):
        put.bind(box, get.bind(box) + x)
        return carry, None

    xf.lax.scan(body, None, xnp.arange(4.0))
    assert get.bind(box) == 16

    @xf.jit
    def loop(own):
        made = make.bind(xnp.float32(1))

        def step(i, carry):
            put.bind(made, get.bind(made) * 2)
            put.bind(own, get.bind(own) + get.bind(made))
            put.bind(box, get.bind(box) + 1)
            return carry

        xf.lax.fori_loop(0, 3, step, None)
        return get.bind(made)

    own = Box(xnp.float32(0))
    for n in (1, 2):
        assert loop(own) == 8 and get.bind(own) == 14 * n and get.bind(box) == 16 + 3 * n
    with pytest.raises(TypeError, match="shapes and dtypes"):
        xf.jit(lambda: put.bind(box, xnp.ones(3)))()
    put.bind(box, xnp.float32(3))
    assert get.bind(box) == 3 and read(1) == 4

    def change(x):  # the same for all elements
        put.bind(box, get.bind(box) + 1)
        return x + get.bind(box)

    for n, mapped in enumerate((xf.vmap(change), xf.jit(xf.vmap(change))), 4):
        assert mapped(xnp.arange(2.0)).tolist() == [n, n + 1] and get.bind(box) == n
    assert xf.jit(xf.grad(change))(1.0) == 1 and get.bind(box) == 6


def test_references_are_freed_with_their_value():
    def use():
        box = Box(xnp.float32(1))
        xf.jit(lambda: put.bind(box, get.bind(box) + 1))()
        return get.bind(box)

    count = len(mutable_composites.outside)
    assert [use() for _ in range(3)] == [2, 2, 2]
    xf.clear_caches()  # the programs use it
    gc.collect()
    assert len(mutable_composites.outside) <= count


def test_composite_values_have_types_and_convert():
    box = Box(xnp.arange(3))
    assert isinstance(xf.typeof(box), BoxType)
    assert xnp.zeros_like(box).tolist() == [0, 0, 0] and (xnp.ones(3) + xnp.asarray(box)).tolist() == [1, 2, 3]


def test_jitted_functions_mutate_arguments():
    traced = []

    @xf.jit
    def add(box, other, x):
        traced.append(x)
        put.bind(box, get.bind(box) + x)
        return get.bind(other) * 2

    box, other = Box(xnp.float32(1)), Box(xnp.arange(2))
    for step in range(1, 4):
        assert add(box, other, 10.0).tolist() == [0, 2] and get.bind(box) == 1 + 10 * step
    assert add(box, box, 1.0) == 64 and get.bind(box) == 32  # one value as two arguments
    assert get.bind(other).tolist() == [0, 1] and len(traced) == 2
    assert xf.eval_shape(add, box, other, 1.0).shape == (2,) and get.bind(box) == 32
    program = xf.make_jaxpr(add)(box, other, 1.0)  # of what they hold
    assert [aval.shape for aval in program.in_avals] == [(), (2,), ()] and get.bind(box) == 32

    @xf.jit
    def outer(box, x):
        add(box, box, x)
        return xf.grad(lambda x: get.bind(box) * x)(2.0)

    assert outer(box, 1.0) == 33 and get.bind(box) == 33
    put.bind(box, xnp.arange(3.0))  # of another shape
    add(box, other, 1.0)
    assert get.bind(box).tolist() == [1, 2, 3]


def test_checkpointed_functions_mutate_arguments():
    def add(box, x):
        put.bind(box, get.bind(box) + xf.lax.stop_gradient(x))
        return get.bind(box) * x

    box = Box(xnp.float32(1))
    assert xf.checkpoint(add)(box, 2.0) == 6 and get.bind(box) == 3
    assert xf.jit(xf.checkpoint(add))(box, 2.0) == 10 and get.bind(box) == 5
    assert xf.grad(xf.checkpoint(add), 1)(box, 2.0) == 7 and get.bind(box) == 7
