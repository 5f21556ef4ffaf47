"""`vmap`: axes, structures, nesting, mistakes. Batching of each primitive is tested with the primitive."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

A, V = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(4, dtype=np.float32)


def test_axes():
    np.testing.assert_array_equal(np.asarray(xf.vmap(xnp.sum)(A)), A.sum(1))
    np.testing.assert_array_equal(np.asarray(xf.vmap(xnp.sum, in_axes=1)(A)), A.sum(0))
    np.testing.assert_array_equal(np.asarray(xf.vmap(xnp.dot, in_axes=(0, None))(A, V)), A @ V)
    np.testing.assert_array_equal(np.asarray(xf.vmap(lambda x: x * 2, in_axes=-1, out_axes=-1)(A)), A * 2)
    np.testing.assert_array_equal(np.asarray(xf.vmap(lambda x: x * 2, out_axes=1)(A)), 2 * A.T)
    np.testing.assert_array_equal(
        np.asarray(xf.vmap(xf.vmap(lambda x, y: x + y, (0, None)), (None, 0))(V, V)), V[:, None] + V
    )
    assert xf.vmap(lambda x: 7, axis_size=None)(A).tolist() == [7, 7, 7]
    assert xf.vmap(lambda x: 7.0, out_axes=None)(A) == 7


def test_structures():
    f = xf.vmap(
        lambda p, x, scale: {"y": p["w"] * x * scale, "fixed": p["b"]},
        in_axes=({"w": 0, "b": None}, 0, None),
        out_axes={"y": 0, "fixed": None},
    )
    out = f({"w": np.ones(3, np.float32), "b": 5.0}, np.arange(3.0), 2.0)
    assert out["y"].tolist() == [0, 2, 4] and out["fixed"] == 5
    assert xf.vmap(lambda x, *, k: x + k)(V, k=V).tolist() == (2 * V).tolist()
    assert xf.vmap(lambda x: x, axis_size=3)(np.arange(3)).tolist() == [0, 1, 2]
    keys = xf.random.split(xf.random.key(0), 3)
    assert xf.vmap(xf.random.normal)(keys).tolist() == [float(xf.random.normal(k)) for k in keys]


def test_one_batched_operation():
    """No loops: the batched program has as many operations as the plain one."""
    for f, args in (
        (xnp.dot, (V, V)),
        (lambda x: xnp.sort(x), (V,)),
        (lambda x: xnp.cumsum(x), (V,)),
        (lambda x, i: x[i], (V, np.array(2))),
    ):
        batched = [np.stack([a] * 3) for a in args]
        plain, mapped = xf.make_jaxpr(f)(*args), xf.make_jaxpr(xf.vmap(f))(*batched)
        assert len(mapped.eqns) <= len(plain.eqns) + 6


def test_python_control_flow_is_refused():
    with pytest.raises(xf.errors.TracerBoolConversionError):
        xf.vmap(lambda x: x if x > 0 else -x)(V)


MISTAKES = [
    (lambda: xf.vmap(lambda a, b: a + b)(V, A), ValueError, r"size 4: argument a of type float32\[4\].*size 3: argument b"),
    (lambda: xf.vmap(lambda p: p)({"w": V, "b": A}), ValueError, r"p\['b'\]"),
    (lambda: xf.vmap(lambda x: x)(3.0), ValueError, r"axis 0.*shape \(\)"),
    (lambda: xf.vmap(lambda x: x, in_axes=2)(A), ValueError, "axis 2"),
    (lambda: xf.vmap(lambda x, y: x, in_axes=(0,))(V, V), ValueError, "1 positional.*2"),
    (lambda: xf.vmap(lambda x: x, in_axes=None)(V), ValueError, "axis_size"),
    (lambda: xf.vmap(lambda x: x, out_axes=None)(V), ValueError, "at vmap out_axes, got axis spec None"),
    (lambda: xf.vmap(lambda x: x, out_axes=3)(V), ValueError, "axis 3 in out_axes"),
    (lambda: xf.vmap(lambda x: x, in_axes="x"), TypeError, "in_axes"),
    (lambda: xf.vmap(3), TypeError, "function"),
    (lambda: xf.vmap(lambda p, x: x, in_axes=({"a": 0}, 0))({"b": V}, V), ValueError, "in_axes"),
    (lambda: xf.vmap(lambda x: x, axis_size=5)(V), ValueError, "axis_size=5"),
    (lambda: xf.vmap(lambda x: "a")(V), TypeError, "str"),
]


@pytest.mark.parametrize("call, error, words", MISTAKES, ids=map(str, range(len(MISTAKES))))
def test_bad_input_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_sum_match_sums_unmapped_results_that_differ():
    rows = np.arange(6).reshape(2, 3)
    summed = xf.vmap(lambda x: (x, x * 2, 5.0), in_axes=1, out_axes=(None, 0, None), sum_match=True)
    for apply in (summed, xf.jit(summed)):
        total, each, same = apply(rows)
        np.testing.assert_array_equal(total, rows.sum(1))
        np.testing.assert_array_equal(each, rows.T * 2)
        assert float(same) == 5.0
    loss = xf.vmap(lambda x: x ** 2, out_axes=None, sum_match=True)
    np.testing.assert_array_equal(xf.grad(loss)(np.arange(3.0)), [0.0, 2.0, 4.0])
    with pytest.raises(ValueError, match="out_axes.*got axis spec None"):
        xf.vmap(lambda x: x, out_axes=None)(rows)


@xf.tree_util.register_pytree_node_class
class Settings:
    """Holds arrays, and numbers that are no leaves."""

    def __init__(self, **fields):
        self.fields = fields

    def tree_flatten(self):
        is_leaf = {k: not isinstance(v, (int, str)) for k, v in self.fields.items()}
        return [v for k, v in self.fields.items() if is_leaf[k]], tuple(
            (k, None if is_leaf[k] else v) for k, v in self.fields.items())

    @classmethod
    def tree_unflatten(cls, fixed, arrays):
        arrays = iter(arrays)
        return cls(**{k: next(arrays) if v is None else v for k, v in fixed})


def test_objects_for_which_numbers_are_no_leaves():
    x = Settings(name="a", scale=3, array=A)
    for axis in (0, 1):
        assert xf.vmap(lambda s: s.fields["array"].sum(), axis)(x).tolist() == A.sum(1 - axis).tolist()
    doubled = xf.vmap(lambda s: Settings(scale=s.fields["scale"], array=2 * s.fields["array"]), out_axes=1)(x)
    assert doubled.fields["scale"] == 3 and doubled.fields["array"].tolist() == (2 * A.T).tolist()
    with pytest.raises(ValueError, match="size 3.*size 4"):
        xf.vmap(lambda s, y: 0)(x, V)
    with pytest.raises(ValueError, match="axis_size=5.*size is 3"):
        xf.vmap(lambda s: 0, axis_size=5)(x)
    f = xf.custom_vjp(lambda s: s.fields["array"].sum())
    f.defvjp(lambda s: (f(s), s), lambda s, ct: (xf.tree.map(lambda a: 2 * ct * a, s),))
    assert xf.grad(f)(x).fields["array"].tolist() == (2 * A).tolist()
    with pytest.raises(TypeError, match="str"):
        xf.jit(lambda s: 0)(Settings(scale=3, array=np.array(["a"])))


def test_tracers_have_batch_and_batch_dimension():
    """A look inside of an element while it is mapped: at the batch, and at the dimension that counts."""
    x, seen = xnp.arange(6.0).reshape(2, 3), []
    xf.vmap(lambda x: seen.append((x.val, x.batch_dim)), in_axes=1)(x)
    [(batch, dim)] = seen
    assert batch is x and dim == 1
    xf.vmap(xf.grad(lambda x: seen.append(x.primal.val) or x))(x[0])
    assert seen[1].tolist() == [0, 1, 2]
