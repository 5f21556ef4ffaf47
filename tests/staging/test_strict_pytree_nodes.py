"""User-defined node classes that accept only the values they are made for: transformations never build them from others."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.sharding import PartitionSpec as P


class Vectors:
    def __init__(self, a, b):
        if np.ndim(a) != 1:
            raise ValueError("vectors wanted")
        self.a, self.b = a, b


xf.tree_util.register_pytree_node(Vectors, lambda v: ((v.a, v.b), None), lambda _, children: Vectors(*children))

A, B = np.array([1.0, 2.0], np.float32), np.array([3.0, 5.0], np.float32)
DEVICE = xf.sharding.SingleDeviceSharding(xf.devices("cpu")[0])


def doubled(v):
    return Vectors(v.a * 2, v.b)


USES = {
    "jit": xf.jit(doubled),
    "in_shardings": xf.jit(doubled, in_shardings=DEVICE),
    "out_shardings": xf.jit(doubled, out_shardings=DEVICE),
    "compiled": lambda v: xf.jit(doubled).lower(v).compile()(v),
    "shard_map": lambda v: xf.shard_map(doubled, mesh=xf.make_mesh((1,), ("x",)), in_specs=P(), out_specs=P())(v),
    "scan": lambda v: lax.scan(lambda c, _: (doubled(c), None), v, None, length=1)[0],
    "cond": lambda v: lax.cond(True, doubled, lambda v: v, v),
    "callback": lambda v: xf.pure_callback(lambda v: Vectors(np.asarray(v.a) * 2, v.b), v, v),
    "export": lambda v: xf.export.export(xf.jit(doubled))(v).call(v),
}


@pytest.mark.parametrize("use", USES)
def test_functions_take_and_return_strict_nodes(use):
    found = USES[use](Vectors(A, B))
    assert type(found) is Vectors
    np.testing.assert_array_equal(found.a, 2 * A)
    np.testing.assert_array_equal(found.b, B)


def test_backward_rules_return_strict_nodes():
    @xf.custom_vjp
    def f(v):
        return v.a * 2

    f.defvjp(lambda v: (f(v), v), lambda v, ct: (Vectors(ct * 3, v.b * 0),))
    found = xf.grad(lambda v: f(v).sum())(Vectors(A, B))
    np.testing.assert_array_equal(found.a, [3, 3])
    np.testing.assert_array_equal(found.b, [0, 0])


def test_names_of_their_children():
    @xf.jit
    def f(first, second):
        return first["v"].a + second

    with pytest.raises(TypeError, match="second"):
        f({"v": Vectors(A, B)}, "text")
    text = f.lower({"v": Vectors(A, B)}, xnp.ones(2)).as_text(debug_info=True)
    assert "first['v']" in text and "second" in text
