"""Instances of subclasses of Python's scalar types, such as members of an `IntEnum`, as operands."""

import enum

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax


class Action(enum.IntEnum):
    WAIT = 1
    MOVE = 2


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Metres(float):
    def __repr__(self):
        return "metres"  # the same for all of them


class Phase(complex):
    pass


X = np.arange(3, dtype=np.float32)
OF_NUMBERS = {
    "add": lambda x, v: xnp.add(x, v),
    "operators": lambda x, v: (x + v, v * x, x**v, x == v, v - x),
    "choices": lambda x, v: (xnp.where(x.real > 0, v, x), xnp.full_like(x, 0.5 * v)),
    "one operand": lambda x, v: (xnp.sin(v), xnp.square(v)),
    "made": lambda x, v: (xnp.full(3, v) + x, xnp.array([v, v]), xnp.asarray(v), xnp.stack([x[0], v])),
    "types": lambda x, v: xnp.zeros(2, xnp.result_type(x, v)),
    "loops": lambda x, v: lax.fori_loop(0, 3, lambda i, c: c + v, x * v),
}
OF_INTEGERS = {
    "indices": lambda x, v: (x[v], x.at[v].set(v), xnp.take(x, v), lax.dynamic_slice(x, (v,), (1,)), x[:v]),
    "sizes": lambda x, v: (xnp.zeros((v,)) + v, xnp.repeat(x, v), xnp.arange(v), xnp.roll(x, v), xf.nn.one_hot(v, 3)),
    "steps": lambda x, v: (lax.scan(lambda c, _: (c + v, None), x, None, length=v)[0], lax.fori_loop(0, v, lambda i, c: c + v, x)),
    "branches": lambda x, v: (lax.switch(v, [lambda: 1, lambda: 2, lambda: 3]), xnp.clip(x, v, v), xnp.maximum(v, x)),
    "keys": lambda x, v: xf.random.uniform(xf.random.fold_in(xf.random.key(v), v)),
}


def same(found, expected):
    for a, b in zip(xf.tree.leaves(found), xf.tree.leaves(expected), strict=True):
        assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [*OF_NUMBERS, *OF_INTEGERS])
def test_subclass_instances_are_python_scalars(name):
    f = OF_NUMBERS.get(name) or OF_INTEGERS[name]
    pairs = [(Action.MOVE, 2), (Flags.B, 2)] + ([(Metres(1.5), 1.5), (Metres(2.5), 2.5), (Phase(1 + 2j), 1 + 2j)]
                                                if name in OF_NUMBERS else [])
    for number, plain in pairs:
        x = X.astype(np.complex64) if isinstance(plain, complex) else X
        same(f(xnp.asarray(x), number), f(xnp.asarray(x), plain))
        same(xf.jit(lambda x: f(x, number))(x), xf.jit(lambda x: f(x, plain))(x))
        same(xf.vmap(lambda x: f(x, number))(x[None]), xf.vmap(lambda x: f(x, plain))(x[None]))
        assert str(xf.make_jaxpr(lambda x: f(x, number))(x)) == str(xf.make_jaxpr(lambda x: f(x, plain))(x))


def test_subclass_instances_beside_differentiated_values():
    for number in (Action.MOVE, Metres(2.0)):
        np.testing.assert_array_equal(xf.grad(lambda x: (x * number).sum())(X), np.full(3, 2, np.float32))
        np.testing.assert_array_equal(xf.jit(xf.grad(lambda x: (number * x + number).sum()))(X), np.full(3, 2, np.float32))


def test_subclass_instances_as_arguments():
    assert xf.jit(lambda a: a + 1)(Action.MOVE) == 3
    assert xf.jit(lambda x, a: x[a], static_argnums=1)(X, Action.MOVE) == 2
    assert xf.vmap(lambda x, a: x * a, (0, None))(X, Action.MOVE).tolist() == [0, 2, 4]
    assert xf.grad(lambda a: a * 3.0)(Metres(1.0)) == 3
    with pytest.raises(TypeError, match="value cannot be interpreted as a data type"):
        xnp.zeros(2, Action.MOVE)


def test_subclasses_of_scalar_types():
    class Step(xnp.int8):
        """A type of a library's own."""

        first = xnp.asarray(0, xnp.int8)

    assert issubclass(Step, xnp.int8) and Step.dtype == np.int8 and Step(3).dtype == Step.first.dtype == xnp.dtype(Step) == np.int8
    assert isinstance(np.int8(1), Step) and Step == np.int8 and xnp.zeros(2, Step).dtype == np.int8
