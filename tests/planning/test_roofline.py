"""`experimental.roofline`: costs compared with arithmetic and with results of JAX."""

import functools
import math

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental.roofline import (
    RooflineResult,
    RooflineShape,
    register_roofline,
    register_standard_roofline,
    roofline,
    roofline_and_grad,
)
from xlafront.extend.core import Primitive
from xlafront.sharding import AbstractMesh, AxisType, PartitionSpec as P

F32 = xf.ShapeDtypeStruct((3, 8), "float32")
BF16 = xf.ShapeDtypeStruct((8, 16), "bfloat16")
WIDE = xf.ShapeDtypeStruct((16, 8), "bfloat16")


def cost(f, *args, **options):
    return roofline(f, **options)(*args)[1]


def exchanged(f, sizes, local, out, start=None):
    """Return bytes and latency of a ring collective over all axes of a mesh, for so many bytes on each device."""
    names = tuple("xyz"[:len(sizes)])
    found = cost(lambda x: f(x, names if len(names) > 1 else names[0]), xf.ShapeDtypeStruct(local, "int8"),
                 mesh=AbstractMesh(sizes, names, (AxisType.Auto,) * len(sizes)), in_specs=P() if start is None else P(*start(names)), out_specs=out(names))
    assert set(found.ici_bytes) == set(found.ici_latency) == set(names)
    return {*found.ici_bytes.values()}, {*found.ici_latency.values()}


@pytest.mark.parametrize("f, args, flops, moved", [
    (xnp.sin, [F32], 24, 2 * 96),
    (lax.add, [F32, F32], 24, 3 * 96),
    (lambda x: x * 2, [F32], 24, 2 * 96 + 4),
    (lax.eq, [F32, F32], 24, 2 * 96 + 24),
    (lambda x: x.sum(0), [F32], 16, 96 + 32),
    (lambda x: lax.cumsum(x, 0), [F32], 3, 2 * 96),
    (lambda x: lax.cumlogsumexp(x, 1), [F32], 16, 2 * 96),
    (lambda x, k: x.at[k].get(mode="promise_in_bounds", wrap_negative_indices=False), [F32, xf.ShapeDtypeStruct((5,), "int32")],
     0, 2 * 160 + 20),
    (lambda x, k, u: x.at[k].add(u, mode="promise_in_bounds", wrap_negative_indices=False),
     [F32, xf.ShapeDtypeStruct((5,), "int32"), xf.ShapeDtypeStruct((5, 8), "float32")], 40, 3 * 160 + 20),
    (lax.select, [xf.ShapeDtypeStruct((3, 8), "bool"), F32, F32], 24, 24 + 96),
    (lambda x: xf.pure_callback(np.sin, F32, x), [F32], 0, 2 * 96),
    (xnp.tanh, [F32], 0, 0), (xnp.transpose, [F32], 0, 0), (xnp.sort, [F32], 0, 0),
    (lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x), [F32], 16, 2 * 96),  # of a loop one turn
    (lambda x: lax.while_loop(lambda c: c[0, 0] < 3, lambda c: c + 1, x), [F32], 0, 0),
    (xf.checkpoint(lambda x: xnp.sin(xnp.cos(x))), [F32], 48, 4 * 96),
    (xf.jit(xnp.sin), [F32], 24, 2 * 96),
    (lambda x: (xnp.sin(x), x + 1)[1], [F32], 24, 2 * 96 + 4),  # unread values are not counted
])
def test_operations_of_one_device(f, args, flops, moved):
    found = cost(f, *args)
    assert (found.unfused_flops, found.unfused_hbm_bytes, found.flops, found.hbm_bytes) == (flops, moved, 0, 0)


@pytest.mark.parametrize("pins, moved", [("", 96 + 160 + 60), ("lhs", 160), ("rhs", 96 + 60), ("lhs rhs", 0)])
def test_products(pins, moved):
    pinned = {f"pin_{side}_in_vmem": True for side in pins.split()}
    found = cost(xnp.matmul, F32, xf.ShapeDtypeStruct((8, 5), "float32"), **pinned)
    assert found == RooflineResult(flops=2 * 3 * 8 * 5, unfused_flops=2 * 3 * 8 * 5, hbm_bytes=moved, unfused_hbm_bytes=moved,
                                   peak_hbm_bytes=96 + 160)


@pytest.mark.parametrize("options", [
    {"padding": "SAME"}, {"padding": "VALID"}, {"padding": [(1, 1), (0, 2)], "lhs_dilation": (2, 2)},
    {"padding": [(0, 2), (-1, 1)], "rhs_dilation": (2, 1)}, {"padding": "SAME", "feature_group_count": 3},
    {"padding": "SAME", "batch_group_count": 2}, {"padding": [(1, 1), (0, 2)], "window_strides": (2, 1)},
])
def test_convolutions_skip_padding_and_gaps(options):
    """Sums of ones count the products of each result."""
    groups = options.get("feature_group_count", 1)
    x, kernel = np.ones((2, 3, 7, 6), np.float32), np.ones((6, 3 // groups, 3, 3), np.float32)

    def run(x, k):
        return lax.conv_general_dilated(x, k, **{"window_strides": (1, 1), **options})

    assert cost(run, x, kernel).unfused_flops == 2 * float(run(x, kernel).sum())


def test_peak_memory():
    assert cost(lambda x: xnp.sin(xnp.cos(x)), F32).peak_hbm_bytes == 96
    assert cost(lambda x, y: (x + y, x * y), F32, F32).peak_hbm_bytes == 3 * 96
    assert cost(lambda x: lax.broadcast(x, (7,)).sum(0) + 1, F32).peak_hbm_bytes == 7 * 96
    assert cost(lambda x: xf.jit(lambda z: lax.broadcast(z, (7,)).sum(0))(x) + 1, F32).peak_hbm_bytes == 7 * 96
    assert cost(lambda x, y: x + 1, F32, F32).peak_hbm_bytes == 96
    assert cost(lambda k: k, xf.eval_shape(lambda: xf.random.key(0))).peak_hbm_bytes == 8


@pytest.mark.parametrize("sizes", [(4,), (2,), (5,), (4, 2), (3, 2), (2, 2, 2), (3, 2, 5)])
def test_ring_collectives(sizes):
    """All shards pass each device, distributed over the axes; a sum is scattered and gathered."""
    count, axes = math.prod(sizes), len(sizes)
    local = (count * count, 2)
    part = 2 * count // axes * (count - 1)
    assert exchanged(lambda x, n: lax.psum_scatter(x, n, tiled=True), sizes, local, P) == ({part}, {axes * max(sizes)})
    assert exchanged(lambda x, n: lax.all_gather(x, n), sizes, (2 * count,), P) == ({part}, {axes * max(sizes)})
    assert exchanged(lax.psum, sizes, (count * count, 2 * count), lambda names: P(), lambda names: (None, names)) == (
        {2 * (2 * count // axes * (count - 1))}, {2 * axes * max(sizes)})
    assert exchanged(lax.pmax, sizes, (2 * count,), lambda names: P(), lambda names: (names,)) == (
        {1 // axes * (count - 1)}, {axes * max(sizes)})


@pytest.mark.parametrize("sizes, share, latency", [
    ((2,), 1, 1), ((3,), .75, 1), ((4,), 1, 2), ((8,), 2, 4), ((3, 2), 1.5, 2), ((4, 4), 1, 4), ((4, 4, 4), 1, 6),
    ((3, 2, 5), 3.75, 5), ((1,), 0, 0)])
def test_all_to_all_crosses_the_bisection(sizes, share, latency):
    count = math.prod(sizes)
    assert exchanged(lambda x, n: lax.all_to_all(x, n, 0, 1, tiled=True), sizes, (count * 8, 2), P) == (
        {int(share * count * 16)}, {latency})


@pytest.mark.parametrize("sizes, perm, load, latency", [
    ((4,), [(i, (i + 1) % 4) for i in range(4)], 1, 1), ((4,), [(i, (i + 2) % 4) for i in range(4)], 2, 2),
    ((2,), [(0, 1), (1, 0)], 2, 1), ((8,), [(i, 7 - i) for i in range(8)], 4, 3),
    ((4,), [(0, 2), (2, 1)], 2, 2), ((4,), [(0, 2), (3, 0)], 1, 2),  # what is as far both ways goes up
    ((5, 5), [(0, 6), (1, 0)], 2, 2), ((5, 5), [(0, 6), (5, 0)], 2, 2), ((5, 5), [(0, 6), (6, 5)], 1, 2),
    ((4,), [], 0, 0), ((4,), [(2, 2)], 0, 0)])
def test_permutations_load_links(sizes, perm, load, latency):
    assert exchanged(lambda x, n: lax.ppermute(x, n, perm), sizes, (math.prod(sizes) * 3,), lambda names: P(names),
                     lambda names: (names,)) == ({3 * load}, {latency})


def test_functions_of_one_device_of_a_mesh():
    mesh = AbstractMesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    shapes, found = roofline(lambda x, y: lax.psum(x @ y, "x"), mesh=mesh, in_specs=(P(None, "x"), P("x")), out_specs=P())(
        BF16, WIDE)
    assert found == RooflineResult(flops=2 * 8 * 4 * 8, unfused_flops=2 * 8 * 4 * 8, ici_bytes={"x": 2 * 128 * 3 // 4},
                                   ici_latency={"x": 8}, hbm_bytes=256, unfused_hbm_bytes=256, peak_hbm_bytes=128)
    assert (shapes.shape, shapes.dtype, shapes.sharding.spec) == ((8, 8), "bfloat16", P())
    with pytest.raises(NotImplementedError, match="axis_index_groups"):
        cost(lambda x: lax.psum(x, "x", axis_index_groups=[[0, 1], [2, 3]]), BF16, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    for collective in (lax.all_gather, lax.psum_scatter, functools.partial(lax.all_to_all, split_axis=0, concat_axis=0), lax.pmax):
        tiled = {} if collective is lax.pmax else {"tiled": True}
        ungrouped, grouped = (cost(functools.partial(collective, axis_name="x", **tiled, **groups), xf.ShapeDtypeStruct((64, 8), "int8"),
                               mesh=mesh, in_specs=P("x"), out_specs=P("x")) for groups in ({}, {"axis_index_groups": [[0, 1], [2, 3]]}))
        assert (ungrouped.ici_bytes, ungrouped.ici_latency) == (grouped.ici_bytes, grouped.ici_latency) and grouped.ici_bytes["x"] > 0
    # Without all three it is a function of whole arrays.
    assert cost(lambda x: x + x, BF16, mesh=mesh).unfused_flops == cost(lambda x: x + x, BF16, in_specs=P("x")).unfused_flops == 128
    inside = xf.shard_map(lambda x: x + x, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    assert cost(inside, BF16).unfused_flops == 32
    with pytest.raises(AssertionError, match="without a mesh"):
        cost(xf.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()), BF16)


def test_derivatives(capsys):
    mesh = AbstractMesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    shapes, forward, backward = roofline_and_grad(xnp.matmul, mesh, (P("x"), P(None, "y")), P("x", "y"), print_jaxpr=True)(
        xf.ShapeDtypeStruct((8, 16), "float32"), xf.ShapeDtypeStruct((16, 8), "float32"))
    assert capsys.readouterr().out.count("dot_general") == 3
    assert (shapes.shape, shapes.dtype) == ((8, 8), "float32")
    assert (forward.flops, backward.flops) == (256, 512) and not forward.ici_bytes
    assert backward.ici_bytes == {"x": 192, "y": 64} and backward.ici_latency == {"x": 8, "y": 4}
    assert (forward.hbm_bytes, backward.hbm_bytes) == (2 * 208, 416)  # the derivative is that of bfloat16
    # Without a mesh the results, which are the cotangents, are computed too.
    grads, found = roofline(xnp.matmul, vjp=True)(BF16, WIDE)
    assert [g.shape for g in grads] == [(8, 16), (16, 8)] and found.flops == 3 * 2048
    with pytest.raises(ValueError):
        roofline(xnp.sin, vjp=True)(F32)


def test_results_and_shapes():
    one = RooflineResult(flops=1, ici_bytes={"x": 3}, peak_hbm_bytes=5)
    assert one + RooflineResult(flops=10, ici_bytes={"x": 30, "y": 2}, peak_hbm_bytes=4) == RooflineResult(
        flops=11, ici_bytes={"x": 33, "y": 2}, peak_hbm_bytes=5)
    assert one * 3 == RooflineResult(flops=3, ici_bytes={"x": 9}, peak_hbm_bytes=15)
    assert RooflineResult.zeros() == RooflineResult()
    with pytest.raises(AttributeError):
        one.flops = 3
    with pytest.raises(TypeError):
        RooflineResult(3)
    shape = RooflineShape.from_aval(xf.typeof(xnp.ones((2, 3))))
    assert (shape.shape, shape.size, shape.bytes, RooflineShape.total_bytes([xf.typeof(1), xf.typeof(True)])) == ((2, 3), 6, 24, 5)
    with pytest.raises(TypeError):
        RooflineShape.from_aval(3)


def test_register_roofline(caplog):
    p = Primitive("twice_for_roofline")
    p.def_abstract_eval(lambda x, *, often: x)

    @register_roofline(p)
    def rule(ctx, x, *, often):
        assert ctx.primitive is p and ctx.avals_out[0].shape == x.shape == (3, 8)
        assert ctx.pin_lhs_in_vmem and not ctx.pin_rhs_in_vmem and ctx.mesh is None
        return RooflineResult(flops=often * x.size)

    assert callable(rule) and cost(lambda x: p.bind(x, often=3), F32, pin_lhs_in_vmem=True).flops == 72
    register_standard_roofline(p)
    assert cost(lambda x: p.bind(x, often=3), F32).flops == 0
    assert not caplog.records
    cost(lambda x: x + lax.axis_index("x"), F32, mesh=AbstractMesh((1,), ("x",), AxisType.Auto), in_specs=P(), out_specs=P("x"))
    assert "axis_index" in caplog.text and "register_roofline" in caplog.text
