"""Shardings and layouts of values in jitted functions: `shard_alike` and `with_layout_constraint`."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental.layout import Layout, with_layout_constraint
from xlafront.experimental.shard_alike import shard_alike

pytestmark = pytest.mark.cpu_only

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
COLUMNS = Layout((1, 0))


def columns(x):
    return with_layout_constraint(x, COLUMNS)


def order(x) -> tuple[int, ...]:
    return x.format.layout.major_to_minor


# shard_alike


def test_shard_alike_follows_a_sharded_array():
    mesh = xf.make_mesh((2,), ("x",), (xf.sharding.AxisType.Auto,), devices=xf.devices()[:2])
    sharded = xf.device_put(np.arange(8.0, dtype=np.float32), xf.NamedSharding(mesh, xf.P("x")))
    results = xf.jit(lambda a: shard_alike(a, xnp.arange(8.0) * 2))(sharded)
    outside = shard_alike(xnp.arange(8.0), sharded)
    for x in (*results, *outside):
        assert x.sharding.spec == xf.P("x")
    assert np.array_equal(results[1], 2 * np.arange(8)) and np.array_equal(outside[0], np.arange(8))


def test_each_pair_is_a_sharding_group():
    text = xf.jit(shard_alike).lower([ROWS, ROWS[0]], [ROWS, ROWS[0]]).as_text()
    assert text.count("sdy.sharding_group") == 4
    assert text.count("group_id=0") == text.count("group_id=1") == 2


def test_transformations_of_shard_alike():
    x, y = xnp.arange(3.0), xnp.ones(3)

    def product(x, y):
        a, b = shard_alike(x, y)
        return (a * b).sum()

    dx, dy = xf.grad(product, (0, 1))(x, y)
    assert np.array_equal(dx, y) and np.array_equal(dy, x)
    assert np.array_equal(xf.grad(lambda x: shard_alike(x, y)[1].sum())(x), np.zeros(3))
    _, (moved, still) = xf.jvp(lambda x: shard_alike(x, y), (x,), (y,))
    assert np.array_equal(moved, y) and np.array_equal(still, np.zeros(3))
    a, b = xf.vmap(shard_alike, (0, 1))(ROWS, ROWS.T)
    assert np.array_equal(a, ROWS) and np.array_equal(b, ROWS)
    a, b = xf.vmap(shard_alike, (0, None))(ROWS, ROWS[1])
    assert np.array_equal(b, np.broadcast_to(ROWS[1], ROWS.shape))


def test_shard_alike_raises_errors():
    with pytest.raises(ValueError, match=r"x\['a'\] has the shape \(3, 4\) and y\['a'\] \(4,\)"):
        shard_alike({"a": ROWS}, {"a": ROWS[0]})
    with pytest.raises(ValueError, match="same structure"):
        shard_alike({"a": ROWS}, ROWS)


# with_layout_constraint


def test_results_have_the_layout():
    x = xnp.asarray(ROWS)
    for y in (columns(x), xf.jit(columns)(x), xf.jit(xf.jit(columns))(x)):
        assert order(y) == (1, 0) and np.array_equal(y, ROWS)
    both = with_layout_constraint({"a": x, "b": x}, {"a": COLUMNS, "b": Layout((0, 1))})
    assert (order(both["a"]), order(both["b"])) == ((1, 0), (0, 1))
    doubled = xf.jit(lambda x: x * 2)  # takes it, and row-major arrays
    assert np.array_equal(doubled(columns(x)), 2 * ROWS) and np.array_equal(doubled(x), 2 * ROWS)


def test_lowering_and_transformations_of_layout_constraint():
    text = xf.jit(columns).lower(ROWS).as_text()
    assert "custom_call @LayoutConstraint" in text and text.count("dense<[0, 1]> : tensor<2xindex>") == 2
    assert 'mhlo.layout_mode = "auto"}' in text
    assert np.array_equal(xf.grad(lambda x: (columns(x) * ROWS).sum())(xnp.asarray(ROWS)), ROWS)
    batched = xf.make_jaxpr(xf.vmap(columns))(xnp.ones((2, 3, 4)))
    assert batched.eqns[0].params["layout"].major_to_minor == (0, 2, 1)


def test_with_layout_constraint_raises_errors():
    x = xnp.asarray(ROWS)
    with pytest.raises(ValueError, match="takes a Layout for each array, got None"):
        with_layout_constraint(x, None)
    with pytest.raises(ValueError, match="AutoLayout"):
        with_layout_constraint(x, Layout.AUTO)
    for f in (with_layout_constraint, xf.jit(with_layout_constraint, static_argnums=1)):
        with pytest.raises(ValueError, match=r"major_to_minor.*\(0,\)|\(0,\).*major_to_minor"):
            f(x, Layout((0,)))
    with pytest.raises(ValueError, match="outside of compiled functions takes arrays on a device"):
        with_layout_constraint(1.0, Layout(()))
