"""Types that say how values are split over explicit mesh axes: what operations do to them, against NumPy and the programs on one device."""

import numpy as np
import pytest
from laws import signatures_seen

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P, lax
from xlafront.core.errors import ShardingTypeError
from xlafront.ref import addupdate
from xlafront.sharding import AbstractMesh, AxisType, auto_axes, explicit_axes, get_abstract_mesh

pytestmark = pytest.mark.cpu_only

A = np.arange(32, dtype=np.float32).reshape(8, 4)
MESH = None


@pytest.fixture(autouse=True)
def mesh():
    global MESH
    MESH = xf.make_mesh((4, 2), ("x", "y"))
    return MESH


def put(*spec, array=A):
    return xf.device_put(array, NamedSharding(MESH, P(*spec)))


def on(*spec):
    return NamedSharding(MESH, P(*spec))


# The axes of results are those that the reference gives.
@pytest.mark.parametrize("function, specs, text", [
    (lambda x: x + 1, [("x", "y")], "8@x,4@y"),
    (lambda x, y: x * y, [("x",), (None, "y")], "8@x,4@y"),
    (lambda x, y: x - y, [("x", "y"), ()], "8@x,4@y"),
    (lambda x: xnp.where(x > 3, x, 0.0), [("x", "y")], "8@x,4@y"),
    (lambda x: x.astype("int32"), [(("x", "y"),)], "8@(x,y),4"),
    (lambda x: x.sum(), [("x", "y")], ""),
    (lambda x: x.sum(0), [("x", "y")], "4@y"),
    (lambda x: x.max(1, keepdims=True), [("x", "y")], "8@x,1"),
    (lambda x: xnp.argmax(x, 1), [("x", "y")], "8@x"),
    (lambda x: xnp.mean(x, axis=1), [("x", "y")], "8@x"),
    (lambda x: x.T, [("x", "y")], "4@y,8@x"),
    (lambda x: xnp.flip(x), [("x",)], "8@x,4"),
    (lambda x: x.reshape(32), [("x", "y")], "32@(x,y)"),
    (lambda x: x.reshape(32), [("x",)], "32@x"),
    (lambda x: x.reshape(8, 4, 1), [("x", "y")], "8@x,4@y,1"),
    (lambda x: x.reshape(4, 2, 4), [("x", "y")], "4@x,2,4@y"),
    (lambda x: x.reshape(2, 4, 4), [(None, "y")], "2,4,4@y"),
    (lambda x: x[None], [("x", "y")], "1,8@x,4@y"),
    (lambda x: xnp.expand_dims(x, 1), [("x", "y")], "8@x,1,4@y"),
    (lambda x: xnp.squeeze(x[None]), [("x", "y")], "8@x,4@y"),
    (lambda x, y: x @ y.T, [("x",), ()], "8@x,8"),
    (lambda x, y: x @ y.T, [("x",), ("y",)], "8@x,8@y"),
    (lambda x, y: xnp.einsum("ij,kj->ik", x, y), [("x",), ("y",)], "8@x,8@y"),
    (lambda x, y: xnp.einsum("ij,ij->i", x, y), [("x",), ("x",)], "8@x"),
    (lambda x: x[:, 0], [("x",)], "8@x"),
    (lambda x: x[:, 0:2], [("x",)], "8@x,2"),
    (lambda x: x[..., 0:4], [("x", "y")], "8@x,4@y"),
    (lambda x: x[:, np.array([0, 3])], [("x",)], "8@x,2"),
    (lambda x: x.at[:, 1].set(5.0), [("x",)], "8@x,4"),
    (lambda x: lax.broadcast(x, (2,)), [("x",)], "2,8@x,4"),
    (lambda x: xnp.broadcast_to(x[:, 0], (4, 8)), [("x",)], "4,8@x"),
    (lambda x: xnp.concatenate([x, x]), [("x", "y")], "16@x,4@y"),
    (lambda x: xnp.stack([x, x]), [("x", "y")], "2,8@x,4@y"),
    (lambda x: xnp.split(x, 2)[0], [("x", "y")], "4@x,4@y"),
    (lambda x: xnp.sort(x), [("x",)], "8@x,4"),
    (lambda x: xnp.cumsum(x, 1), [("x",)], "8@x,4"),
    (lambda x: xnp.zeros_like(x) + 1, [("x", "y")], "8@x,4@y"),
    (lambda x: xnp.exp(x - 40) / xnp.exp(x - 40).sum(1, keepdims=True), [("x", "y")], "8@x,4@y"),
    (lambda x: lax.cond(True, lambda x: x, lambda x: x * 2, x), [("x", "y")], "8@x,4@y"),
    (lambda x: lax.scan(lambda c, a: (c, a + 1), 0.0, x)[1], [(None, "y")], "8,4@y"),
    (lambda x: xf.vmap(lambda v: v.sum())(x), [("x", "y")], "8@x"),
    (lambda x: xf.jit(lambda v: v * 2)(x), [("x", "y")], "8@x,4@y"),
    (lambda x: xf.shard_map(lambda v: v * 2, mesh=MESH, in_specs=P("x", "y"), out_specs=P("x", "y"))(
        xf.sharding.reshard(x, on("x", "y"))), [("x", "y")], "8@x,4@y"),
    (lambda x: xf.grad(lambda v: xnp.sin(v).sum())(x), [("x", "y")], "8@x,4@y"),
    (lambda x: xf.grad(lambda v: v.sum())(x), [("x", "y")], "8@x,4@y"),
    (lambda x: xf.jacfwd(lambda v: v ** 2)(x[:, 0]), [("x",)], "8@x,8"),
    (lambda x: xnp.resize(x[:, 0], 4), [("x",)], "4@x"),
    (lambda x: xnp.searchsorted(np.arange(0.0, 32, 3), x), [("x", "y")], "8@x,4@y"),
    (lambda x: xf.vmap(lambda r, i: lax.dynamic_slice(r, (0, i), (2, 1)))(
        x.reshape(8, 2, 2), x[:, 0].astype("int32") % 2), [("x",)], "8@x,2,1"),
    (lambda x: xf.vmap(lambda r, i: lax.dynamic_update_slice(r, r[:1, :1], (i, 0)))(
        x.reshape(8, 2, 2), x[:, 0].astype("int32") % 2), [("x",)], "8@x,2,2"),
    (lambda x: xf.vmap(lambda r, i: r.at[i].add(1))(x, x[:, :2].astype("int32") % 3), [("x",)], "8@x,4"),
    (lambda x, y: xf.vmap(lambda i: y[i])(x[:, 0].astype("int32") % 8), [("x",), ()], "8@x,4"),
    (lambda x: xf.vmap(lambda r: lax.scan(lambda c, v: (c + v, c * v), 0.0, r)[1])(x), [("x",)], "8@x,4"),
    (lambda x: xf.vmap(lambda r: lax.scan(lambda c, v: (c + v, c * v), 0.0, r, reverse=True)[0])(x), [("x",)], "8@x"),
    (lambda x: xf.vmap(lambda r: lax.map(lambda v: 2 * v, r), 1, 1)(x), [(None, "y")], "8,4@y"),
    (lambda x: xf.vmap(lambda r: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1]), (r[0], 2.0)))(x)[1], [("x",)], "8@x"),
    (lambda x: xf.vmap(lambda r: lax.fori_loop(0, r[0].astype("int32"), lambda i, c: c + r, r))(x), [("x",)], "8@x,4"),
    (lambda x: xf.vmap(xf.vmap(lambda v: lax.fori_loop(0, 3, lambda i, c: c + v, 0.0)))(x), [("x", "y")], "8@x,4@y"),
    (lambda x: xf.vmap(lambda r: lax.cond(x.sum() > 1, lambda: (r, 2.0), lambda: (xnp.ones(4), 1.0)))(x)[1], [("x",)], "8@x"),
    (lambda x: xf.grad(lambda x: xf.vmap(lambda r: lax.scan(lambda c, v: (c * v, c), 1.0, r)[0])(x).sum())(x + 1), [("x",)], "8@x,4"),
    (lambda x: xf.vmap(lambda r: lax.custom_linear_solve(lambda y: y * 2, r, lambda _, b: b / 2))(x), [("x",)], "8@x,4"),
])  # fmt: skip
def test_types_of_results(function, specs, text):
    arrays = [put(*spec) for spec in specs]
    eager, compiled = function(*arrays), xf.jit(function)(*arrays)
    expected = np.asarray(function(*[xnp.asarray(A) for _ in specs]))
    for result in (eager, compiled):
        assert str(xf.typeof(result)).partition("[")[2] == f"{text}]"
        assert result.sharding.mesh == MESH
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5)
    seen = []
    xf.jit(lambda *xs: seen.append(str(xf.typeof(function(*xs)))))(*arrays) if text else None
    assert not text or seen[0].endswith(f"[{text}]")


@pytest.mark.parametrize("function, specs, words", [
    (lambda x, y: x + y, [("x", "y"), ("y", "x")], "8@x,4@y.*8@y,4@x.*reshard"),
    (lambda x, y: x @ y.T, [("x", "y"), ("x", "y")], "out_sharding"),
    (lambda x, y: x @ y.T, [("x",), ("x",)], "'x'.*out_sharding"),
    (lambda x: x[0], [("x",)], "out_sharding"),
    (lambda x: x[1:3], [("x",)], "(covers 2 of the 8 indices|part of size 2).*out_sharding"),
    (lambda x: x[np.array([0, 1])], [("x",)], "out_sharding"),
    (lambda x: x.reshape(2, 4, 4), [("x",)], "out_sharding"),
    (lambda x: x.reshape(32), [(None, "y")], "out_sharding"),
    (lambda x: xnp.sort(x), [("x", "y")], "reshard"),
    (lambda x: xnp.cumsum(x, 0), [("x",)], "reshard"),
    (lambda x, y: xnp.concatenate([x, y]), [("x",), ("x", "y")], "reshard"),
    (lambda x: xnp.pad(x, 1), [("x",)], "out_sharding|reshard"),
    (lambda x, y: y[x.astype("int32")], [("x",), ()], "positions.*'x'.*out_sharding"),
    (lambda x, y: xnp.take(y, x[:, 0].astype("int32"), 1), [("x",), ()], "positions.*'x'.*out_sharding"),
    (lambda x, y: y.at[x[:, 0].astype("int32")].add(1.0), [("x",), ()], "positions.*'x'.*out_sharding"),
    (lambda x, y: y.at[np.arange(8)].set(x), [("x",), ()], "positions.*'x'.*out_sharding"),
])  # fmt: skip
def test_ambiguous_shardings_require_out_sharding(function, specs, words):
    arrays = [put(*spec) for spec in specs]
    for call in (function, xf.jit(function)):
        with pytest.raises(ShardingTypeError, match=words):
            call(*arrays)


CALLS = pytest.mark.parametrize("function, plain", [
    (lambda x, s: xnp.dot(x, x.T, out_sharding=s), lambda x: x @ x.T),
    (lambda x, s: xnp.matmul(x, x.T, out_sharding=s), lambda x: x @ x.T),
    (lambda x, s: xnp.einsum("ij,kj->ik", x, x, out_sharding=s), lambda x: x @ x.T),
    (lambda x, s: xnp.tensordot(x, x.T, 1, out_sharding=s), lambda x: x @ x.T),
    (lambda x, s: lax.dot_general(x, x.T, (((1,), (0,)), ((), ())), out_sharding=s), lambda x: x @ x.T),
    (lambda x, s: x.reshape(4, 8, out_sharding=s), lambda x: x.reshape(4, 8)),
    (lambda x, s: x.at[np.array([0, 1, 4, 5])].get(out_sharding=s), lambda x: x[[0, 1, 4, 5]]),
    (lambda x, s: x.at[2:6].get(out_sharding=s), lambda x: x[2:6]),
    (lambda x, s: lax.broadcast_in_dim(x.sum(0), (8, 4), (1,), out_sharding=s), lambda x: np.tile(x.sum(0), (8, 1))),
    (lambda x, s: lax.reshape(x, (4, 8), out_sharding=s), lambda x: x.reshape(4, 8)),
    (lambda x, s: xnp.zeros((4, 2), out_sharding=s), lambda x: np.zeros((4, 2))),
    (lambda x, s: xnp.full((8, 4), 3.0, out_sharding=s), lambda x: np.full((8, 4), 3.0)),
    (lambda x, s: lax.empty((8, 4), "float32", out_sharding=s) * 0, lambda x: np.zeros((8, 4))),
    (lambda x, s: lax.broadcasted_iota("int32", (8, 4), 0, out_sharding=s), lambda x: np.indices((8, 4))[0]),
    (lambda x, s: xnp.repeat(x, 2, axis=1, out_sharding=s), lambda x: np.repeat(x, 2, 1)),
    (lambda x, s: xnp.repeat(x, np.array([1, 2, 1, 0]), axis=1, out_sharding=s), lambda x: np.repeat(x, [1, 2, 1, 0], 1)),
    (lambda x, s: xnp.percentile(x, 50.0, axis=1, keepdims=True, out_sharding=s), lambda x: np.percentile(x, 50, 1, keepdims=True)),
    (lambda x, s: lax.reduce_sum(x[None], (0,), out_sharding=s), lambda x: x),
    (lambda x, s: lax.reduce_max(xnp.stack([x, -x]), (0,), out_sharding=s), abs),
    (lambda x, s: lax.reduce_min(xnp.stack([x, -x]), (0,), out_sharding=s), lambda x: -abs(x)),
    (lambda x, s: lax.reduce(x[:, None], np.float32(-np.inf), lax.max, (1,), out_sharding=s), lambda x: x),
    (lambda x, s: lax.reduce(x[:, None], np.float32(0), lax.add, (1,), out_sharding=s), lambda x: x),
    (lambda x, s: xf.random.permutation(xf.random.key(0), xnp.ones_like(x), out_sharding=s), np.ones_like),
])  # fmt: skip


@CALLS
def test_out_sharding(function, plain):
    x = put("x", "y")
    sharding = on("x", None)
    for result in (function(x, sharding), xf.jit(lambda x: function(x, sharding))(x)):
        assert result.sharding.spec == P("x", None) and xf.typeof(result).sharding.spec == P("x", None)
        np.testing.assert_allclose(np.asarray(result), plain(A))
    with xf.set_mesh(MESH):
        assert function(x, P("x")).sharding.is_equivalent_to(sharding, 2)


@CALLS
def test_out_sharding_of_type_without_mesh(function, plain):
    """As `like.aval.sharding` of an array on one device."""
    nothing = xf.typeof(A).sharding
    for result in (function(xnp.asarray(A), nothing), xf.jit(lambda x: function(x, nothing))(A)):
        np.testing.assert_allclose(np.asarray(result), plain(A))


@pytest.mark.parametrize("function, text", [
    (lambda key, keys, x: xf.random.gamma(key, x), "8@x,4@y"),
    (lambda key, keys, x: xf.random.poisson(key, x), "8@x,4@y"),
    (lambda key, keys, x: xf.vmap(lambda k: xf.random.gamma(k, 2.0, (3,)))(keys), "8@x,3"),
    (lambda key, keys, x: xf.vmap(lambda k, a: xf.random.gamma(k, a))(keys, x), "8@x,4@y"),
])  # fmt: skip
def test_samples_are_sharded_like_parameters(function, text):
    keys = xf.device_put(xf.random.split(xf.random.key(0), 8), on("x"))
    program = xf.jit(function).trace(xf.random.key(1), keys, put("x", "y")).jaxpr
    assert str(program.out_avals[0]).partition("[")[2] == f"{text}]"


def test_derivative_of_elements_at_positions_that_are_split():
    indices = xf.device_put(np.array([0, 2, 2, 7, 1, 0, 0, 3]), on("x"))

    def total(w):
        return w.at[indices].get(out_sharding=on("x", None)).sum()

    expected = np.tile(np.bincount(np.asarray(indices), minlength=8)[:, None], 4)
    with xf.set_mesh(MESH):
        for g in (xf.grad(total)(put(None, "y")), xf.jit(xf.grad(total))(put(None, "y"))):
            assert str(xf.typeof(g)) == "float32[8,4@y]" and g.tolist() == expected.tolist()


def test_vmap_of_sharded_unmapped_dimension_raises():
    with pytest.raises(ValueError, match="unmapped.*8@x.*reshard"):
        xf.vmap(lambda a, b: a * b, (0, None))(put("x"), put("x"))


def test_reshard_and_its_derivative():
    x = put("x", "y")
    y = xf.reshard(x, on("y", None))
    assert str(xf.typeof(y)) == "float32[8@y,4]" and y.tolist() == A.tolist()
    g = xf.jit(xf.grad(lambda x: (xf.reshard(x * 2, on(None, "x")) ** 2).sum()))(x)
    assert str(xf.typeof(g)) == "float32[8@x,4@y]"
    np.testing.assert_allclose(np.asarray(g), 8 * A)
    both = xf.reshard({"a": x, "b": A}, {"a": on(), "b": on("x")})
    assert both["a"].is_fully_replicated and both["b"].sharding.spec == P("x", None)
    mapped = xf.vmap(lambda v: xf.reshard(v, on("y")))(put("x"))
    assert str(xf.typeof(mapped)) == "float32[8@x,4@y]"
    with pytest.raises(ValueError, match=r"\['b'\].*7"):
        xf.reshard({"a": x, "b": np.ones(7)}, on("x"))
    with pytest.raises(ValueError, match="mesh with axes"):
        xf.reshard(A, xf.typeof(A).sharding)
    with pytest.raises(TypeError, match="NamedSharding"):
        xf.reshard(x, xf.devices()[0])
    with pytest.raises(ValueError, match="no mesh in force"):
        xf.reshard(x, P("x"))
    automatic = xf.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    with pytest.raises(ValueError, match="type Auto.*with_sharding_constraint"):
        xf.reshard(A, NamedSharding(automatic, P("x")))


def test_constraints_check_types():
    x = put("x")
    for spec in (on("x"), on("y")):
        with pytest.raises(ValueError, match="can only refer to Auto axes.*reshard"):
            xf.jit(lambda x: lax.with_sharding_constraint(x, spec))(x)
    with xf.set_mesh(MESH):
        assert lax.with_sharding_constraint(x, P("x")) is x
        assert lax.with_sharding_constraint(x, on("x")) is x
        for spec in (P("y"), on("y")):
            with pytest.raises(AssertionError, match="reshard"):
                lax.with_sharding_constraint(x, spec)


def test_auto_axes():
    seen = []

    @auto_axes
    def product(x, w):
        seen.append((str(xf.typeof(x)), get_abstract_mesh().axis_types))
        return x @ w

    x = put("x", "y")
    for result in (product(x, x.T, out_sharding=on("x")), xf.jit(lambda x: product(x, x.T, out_sharding=on("x")))(x)):
        assert str(xf.typeof(result)) == "float32[8@x,8]"
        np.testing.assert_allclose(np.asarray(result), A @ A.T)
    assert set(seen) == {("float32[8,4]", (AxisType.Auto,) * 2)}
    part = auto_axes(lambda x: seen.append(str(xf.typeof(x))) or x * 2, axes="x", out_sharding=on("x", "y"))
    assert part(x).sharding.spec == P("x", "y") and seen[-1] == "float32[8,4@y]"
    with pytest.raises(TypeError, match="out_sharding"):
        product(x, x.T)
    with pytest.raises(KeyError, match="'z'"):
        auto_axes(lambda x: x, axes="z", out_sharding=on())(x)
    g = xf.grad(lambda x: product(x, x.T, out_sharding=on("x")).sum())(x)
    np.testing.assert_allclose(np.asarray(g), 2 * np.tile(A.sum(0), (8, 1)))


def test_explicit_axes():
    automatic = xf.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    seen = []
    double = explicit_axes(lambda x: seen.append(str(xf.typeof(x))) or x * 2)
    with xf.set_mesh(automatic):
        out = double(A, in_sharding=P("x"))
        assert seen == ["float32[8@x,4]"] and out.tolist() == (2 * A).tolist()
        assert str(xf.typeof(out)) == "float32[8,4]"
        with pytest.raises(TypeError, match="in_sharding"):
            double(A)


def test_meshes_of_which_some_axes_are_explicit():
    mixed = xf.make_mesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    x = xf.device_put(A, NamedSharding(mixed, P("x", "y")))
    assert str(xf.typeof(x)) == "float32[8@x,4]" and str(xf.typeof(x.T)) == "float32[4,8@x]"
    out = xf.jit(lambda x: xnp.tanh(x / 9) * 2)(x)
    np.testing.assert_allclose(np.asarray(out), np.tanh(A / 9) * 2, rtol=1e-5)
    assert out.sharding.is_equivalent_to(NamedSharding(mixed, P("x", "y")), 2)


def test_shard_map_specs_follow_types():
    x = put("x", "y")
    doubled = xf.shard_map(lambda v: v * 2, mesh=MESH, out_specs=P("x", "y"))
    assert str(xf.typeof(doubled(x))) == "float32[8@x,4@y]" and doubled(x).tolist() == (2 * A).tolist()
    with pytest.raises(TypeError, match="in_specs"):
        xf.shard_map(lambda v: v, mesh=MESH.update(axis_types=(AxisType.Auto,) * 2), out_specs=P())(x)


def test_operands_over_other_meshes():
    other = xf.make_mesh((2, 4), ("x", "y"))
    with pytest.raises(ValueError, match="different meshes"):
        put("x") + xf.device_put(A, NamedSharding(other, P("x")))


def test_tracing_with_shapes_only():
    mesh = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    given = xf.ShapeDtypeStruct((8, 4), "float32", sharding=NamedSharding(mesh, P("x")))
    assert "f32[8@x,4]" in str(xf.jit(lambda x: x * 2).trace(given).jaxpr)
    assert xf.eval_shape(lambda x: x.T, given).sharding.spec == P(None, "x")
    with xf.sharding.use_abstract_mesh(mesh):
        assert "f32[8@x,4]" in str(xf.make_jaxpr(lambda x: xf.reshard(x, P("x")))(A))


@pytest.mark.parametrize("specs", [(("x",), (), ()), (("x",), (None, "y"), ("y",))], ids=["data", "data and model"])
def test_training_equals_training_on_one_device(specs):
    """Data-parallel, and with the hidden layer sharded too; out_sharding specifies the sums over sharded dimensions."""
    rng = np.random.default_rng(0)
    x, w, v, y = (rng.normal(size=s).astype(np.float32) for s in ((16, 4), (4, 8), (8, 3), (16, 3)))

    def loss(w, v, x, y, split):
        hidden = xnp.tanh(x @ w)
        out = xnp.dot(hidden, v, out_sharding=on("x", None)) if split else hidden @ v
        return xnp.mean((out - y) ** 2)

    def step(w, v, x, y, split):
        dw, dv = xf.grad(loss, (0, 1))(w, v, x, y, split)
        return w - 0.1 * dw, v - 0.1 * dv

    step = xf.jit(step, static_argnums=4)
    one, many = (w, v), (put(*specs[1], array=w), put(*specs[2], array=v))
    batch = put(*specs[0], array=x), put(*specs[0], array=y)
    for i in range(3):
        with signatures_seen() as seen:
            one, many = step(*one, x, y, False), step(*many, *batch, True)
        assert i < 2 or not seen  # NumPy's arrays, then ours, then nothing new
    for a, b, spec in zip(one, many, specs[1:]):
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=1e-5, atol=1e-6)
        assert b.sharding.is_equivalent_to(on(*spec), 2)


# The body of a shard_map over some axes sees the others in its types; these are what the reference shows.
@pytest.mark.parametrize("function, specs, inside, outside", [
    (lambda a: a * 2, (P("x"), P("x")), "2,4@y]{V:x}", "8@x,4@y]"),
    (lambda a: a.T, (P("x"), P(None, "x")), "2,4@y]{V:x}", "4@y,8@x]"),
    (lambda a: lax.psum(a.sum(0), "x"), (P("x"), P()), "2,4@y]{V:x}", "4@y]"),
    (lambda a: lax.all_gather(a, "x", tiled=True), (P("x"), P("x")), "2,4@y]{V:x}", "32@x,4@y]"),
    (lambda a: a * lax.axis_index("y"), (P(None, "y"), P(None, "y")), "8@x,2]{V:y}", "8@x,4@y]"),
])  # fmt: skip
def test_shard_map_over_some_axes(function, specs, inside, outside):
    seen = []

    def body(a):
        seen.append(str(xf.typeof(a)))
        return function(a)

    axis = "y" if "V:y" in inside else "x"
    mapped = xf.shard_map(body, mesh=MESH, in_specs=specs[0], out_specs=specs[1], axis_names={axis})
    result = mapped(put("x", "y"))
    assert seen[0] == f"float32[{inside}" and str(xf.typeof(result)) == f"float32[{outside}"
    with xf.set_mesh(MESH):
        plain = xf.shard_map(function, in_specs=specs[0], out_specs=specs[1])(put(*specs[0]))
    np.testing.assert_allclose(np.asarray(result), np.asarray(plain))


def test_derivatives_and_batches_of_shard_map_over_some_axes():
    def scaled(a):
        return xf.shard_map(lambda a: xnp.sin(a) * lax.axis_index("x"), mesh=MESH, in_specs=P("x"), out_specs=P("x"),
                            axis_names={"x"})(a)

    rows = np.arange(8)[:, None] // 2
    gradient = xf.grad(lambda a: scaled(a).sum())(put("x", "y"))
    assert str(xf.typeof(gradient)) == "float32[8@x,4@y]"
    np.testing.assert_allclose(np.asarray(gradient), np.cos(A) * rows, atol=1e-5)
    mapped = xf.vmap(scaled, in_axes=1, out_axes=1)(put("x", "y"))
    assert str(xf.typeof(mapped)) == "float32[8@x,4@y]"
    np.testing.assert_allclose(np.asarray(mapped), np.sin(A) * rows, atol=1e-5)


def test_types_of_keys():
    keys = xf.device_put(xf.random.split(xf.random.key(0), 8), on("x"))
    assert str(xf.typeof(keys)) == "key<fry>[8@x]"
    assert str(xf.typeof(keys.reshape(4, 2).T)) == "key<fry>[2,4@x]"
    assert str(xf.typeof(xf.random.key_data(keys))) == "uint32[8@x,2]"
    assert str(xf.typeof(xf.random.wrap_key_data(xf.random.key_data(keys)))) == "key<fry>[8@x]"
    assert str(xf.typeof(xf.vmap(lambda k: xf.random.split(k, 3))(keys))) == "key<fry>[8@x,3]"
    samples = xf.vmap(lambda k: xf.random.normal(k, (4,)))(keys)
    assert str(xf.typeof(samples)) == "float32[8@x,4]"
    plain = xf.vmap(lambda k: xf.random.normal(k, (4,)))(xf.random.split(xf.random.key(0), 8))
    np.testing.assert_allclose(np.asarray(samples), np.asarray(plain), rtol=1e-6)
    inside = xf.jit(lambda k: xf.reshard(xf.random.split(k, 8), on("x")))(xf.random.key(0))
    assert str(xf.typeof(inside)) == "key<fry>[8@x]" and inside.sharding.spec == P("x")


def test_loops_and_branches_keep_types():
    rows = put(None, "y")
    carry, seen = lax.scan(lambda c, a: (c + a, c), xf.device_put(np.zeros(4, np.float32), on("y")), rows)
    assert str(xf.typeof(carry)) == "float32[4@y]" and str(xf.typeof(seen)) == "float32[8,4@y]"
    np.testing.assert_allclose(np.asarray(carry), A.sum(0))
    with pytest.raises(TypeError, match="8@x,4@y.*8@y,4@x.*reshard"):
        lax.fori_loop(0, 3, lambda i, c: xf.reshard(c, on("y", "x")), put("x", "y"))
    with xf.set_mesh(MESH), pytest.raises(TypeError, match="8,4.*8@x,4@y.*reshard"):
        lax.cond(True, lambda a: a, lambda a: xf.reshard(a, on()), put("x", "y"))
    with pytest.raises(ValueError, match="first.*'x'.*reshard"):
        lax.scan(lambda c, a: (c, a), 0.0, put("x"))
    assert [row.tolist() for row in put("x", "y")] == A.tolist()


# Reshapes split and join axes; other ones raise


CUTS = [
    ((8,), P(("x", "y")), [(8, 1), (1, 8), (2, 4), (4, 2), (2, 2, 2), (1, 2, 4), (2, 1, 4)]),
    ((8,), P("y"), [(2, 4), (2, 2, 2), (1, 8), (8, 1)]),
    ((24,), P(("x", "y")), [(4, 6), (4, 2, 3), (8, 3)]),
    ((16, 3), P(("x", "y")), [(4, 4, 3), (8, 2, 3), (16, 3, 1)]),
    ((3, 16), P(None, ("x", "y")), [(3, 4, 4), (1, 3, 16), (3, 8, 2)]),
    ((4, 8), P("x", "y"), [(4, 2, 4), (4, 1, 8), (4, 8, 1)]),
    ((8, 4), P("x"), [(32,), (8, 2, 2), (4, 2, 4)]),
    # Dimensions of size 1 come and go beside a split or a join.
    ((4, 8), P("x", "y"), [(1, 4, 1, 8)]), ((8, 1), P("x"), [(4, 2), (2, 1, 4), (8,)]),
    ((1, 8), P(None, ("x", "y")), [(2, 4), (4, 2), (1, 2, 4)]), ((8, 1, 4), P("x", None, "y"), [(2, 4, 1, 4)]),
    ((8, 4), P("x"), [(1, 1, 32), (1, 32, 1), (1, 8, 2, 2)]), ((4, 1, 2, 2), P(None, None, "x"), [(4, 4), (4, 1, 4), (2, 2, 2, 2)]),
]


@pytest.mark.parametrize("shape, spec, targets", CUTS, ids=lambda x: str(x) if isinstance(x, (tuple, P)) else "")
def test_reshapes_transfer_nothing(shape, spec, targets):
    """Each device has after it what it had before: the split of the result is that of the elements."""
    mesh = xf.make_mesh((2, 2), ("x", "y"))
    x = xf.device_put(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), NamedSharding(mesh, spec))
    shards = {s.device: np.asarray(s.data).ravel() for s in x.addressable_shards}
    for target in targets:
        result = xnp.reshape(x, target)
        assert {a for p in xf.typeof(result).sharding.spec for a in ((p,) if isinstance(p, str) else p or ())} == {
            a for p in spec for a in ((p,) if isinstance(p, str) else p or ())}, target
        for shard in result.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data).ravel(), shards[shard.device])


@pytest.mark.parametrize("shape, spec, target, expected", [
    ((8, 4), P("x", "y"), (32,), P(("x", "y"))), ((8, 4), P("x", "y"), (1, 32), P(None, ("x", "y"))),
    ((8, 1, 4), P("x", None, "y"), (32,), P(("x", "y"))), ((8, 1, 4), P("x", None, "y"), (32, 1), P(("x", "y"), None)),
    ((4, 4, 2), P("x", "y"), (16, 1, 2), P(("x", "y"), None, None)), ((2, 4, 4), P("x", None, "y"), (8, 1, 4), P("x", None, "y")),
], ids=str)
def test_reshapes_join_sharded_dimensions(shape, spec, target, expected):
    x = xf.device_put(np.arange(32.0, dtype=np.float32).reshape(shape), NamedSharding(xf.make_mesh((2, 2), ("x", "y")), spec))
    for result in (xnp.reshape(x, target), xf.jit(lambda x: xnp.reshape(x, target))(x)):
        assert xf.typeof(result).sharding.spec == expected
        np.testing.assert_array_equal(result, np.arange(32).reshape(target))


@pytest.mark.parametrize("shape, spec, target", [
    ((24,), P(("x", "y")), (3, 8)), ((24,), P(("x", "y")), (6, 4)), ((8, 1, 4), P("x", None, "y"), (4, 8)),
    ((4, 8), P("x", "y"), (2, 2, 2, 4)), ((2, 8), P(None, "x"), (16,)), ((2, 2, 4), P(None, None, "x"), (2, 8, 1)),
], ids=str)
def test_other_reshapes_ask(shape, spec, target):
    x = xf.device_put(np.zeros(shape), NamedSharding(xf.make_mesh((2, 2), ("x", "y")), spec))
    with pytest.raises(ShardingTypeError, match="sharded dimensions.*out_sharding"):
        xnp.reshape(x, target)


def test_unsharded_arrays_join_sharded_ones():
    """A part of an array that is on all devices is sharded without communication."""
    ones = np.ones((8, 4), np.float32)
    with xf.set_mesh(MESH):
        for arrays in ([put("x"), ones], [ones, put("x")], [put("x"), xnp.ones_like(ones), put("x")]):
            for join in (xnp.concatenate, xf.jit(xnp.concatenate), lambda arrays: lax.concatenate(arrays, 0)):
                joined = join(arrays)
                assert xf.typeof(joined).sharding.spec == P("x", None)
                np.testing.assert_array_equal(joined, np.concatenate(arrays))
        with pytest.raises(ShardingTypeError, match="one sharding"):
            xnp.concatenate([put("x"), put("y")])


@pytest.mark.parametrize("function", [
    lambda: xnp.ones(8, out_sharding=P("x", None)), lambda: xnp.full(8, 1.0, out_sharding=P("x", None)),
    lambda: xnp.arange(8, out_sharding=P("x", None)), lambda: xf.sharding.reshard(np.ones(8), P("x", None)),
    lambda: xnp.reshape(np.ones((2, 4)), 8, out_sharding=P("x", None)), lambda: xnp.zeros_like(np.ones(8), out_sharding=P("x", None)),
    lambda: xf.eval_shape(lambda: xnp.ones(8, out_sharding=P("x", None))),
    lambda: lax.full((8,), 1.0, sharding=NamedSharding(MESH, P("x", None))),
    lambda: xf.make_array_from_callback((8,), NamedSharding(MESH, P("x", None)), lambda i: np.ones(8)[i]),
    lambda: xf.sharding.auto_axes(lambda x: x * 2, out_sharding=P("x", None, None))(put("x")),
])
def test_specs_longer_than_the_rank(function):
    with xf.set_mesh(MESH), pytest.raises(ValueError, match="entries.*Leave out entries"):
        function()


@pytest.mark.parametrize("spec, names, in_spec", [
    (P("y"), "x", P("x")), (P(), "x", P("x")), (P("x"), "x", P()), (P(None, "x"), "x", P("x")), (P(("y", "x")), "x", P("x")),
    (P(("y", "x")), "x", P()), (P("x"), "xy", P("y")), (P("x"), "y", P("y")),
], ids=str)
def test_in_specs_of_manual_axes_agree_with_types(spec, names, in_spec):
    """Also where other axes remain explicit; manual axes are the first of those that shard a dimension."""
    with pytest.raises(ValueError, match="argument x.*(does not match the spec|must be the first)"):
        xf.shard_map(lambda x: x, mesh=MESH, in_specs=in_spec, out_specs=in_spec, axis_names=set(names))(put(*spec))


@pytest.mark.parametrize("spec, names, in_spec", [
    (P("x", "y"), "x", P("x")), (P(("x", "y")), "x", P("x")), (P(("y", "x")), "y", P("y")), (P(None, "y"), "x", P())], ids=str)
def test_axes_that_stay_explicit(spec, names, in_spec):
    found = xf.shard_map(lambda x: 2 * x, mesh=MESH, in_specs=in_spec, out_specs=in_spec, axis_names=set(names))(put(*spec))
    assert xf.typeof(found).sharding.spec == xf.typeof(put(*spec)).sharding.spec
    np.testing.assert_array_equal(found, 2 * A)


# Parts of dimensions that are split


@pytest.mark.parametrize("function, text", [
    (lambda x: x[:, 1:3], "8@x,2"), (lambda x: x[::-1], "8@x,4"), (lambda x: x[:8], "8@x,4"), (lambda x: x[None], "1,8@x,4"),
    (lambda x: lax.slice(x, (0, 0), (4, 4)), "4@x,4"), (lambda x: x.at[:, 0].set(1), "8@x,4"),
    (lambda x: x.at[:, 1:3].add(1), "8@x,4"), (lambda x: x.at[:].multiply(2), "8@x,4"),
    (lambda x: xnp.pad(x, ((2, 2), (1, 1))), "12@x,6"),
    (lambda x: xnp.roll(x, 1, 1), "8@x,4"), (lambda x: xnp.tile(x, (1, 2)), "8@x,8"),
    (lambda x: xf.grad(lambda v: v.at[:, 0].set(0).sum())(x), "8@x,4"),
    (lambda x: xf.vmap(xf.grad(lambda v: v[np.array([0, 1])].sum()))(x), "8@x,4"),
    (lambda x: xf.vmap(lambda v: xnp.ones(3))(x), "8@x,3"), (lambda x: xf.vmap(lambda v: 2.0, out_axes=0)(x), "8@x"),
])
def test_full_dimensions_stay_sharded(function, text):
    with xf.set_mesh(MESH):
        result = function(put("x"))
    assert xf.typeof(result).str_short(True) == f"f32[{text}]"
    np.testing.assert_array_equal(result, function(xnp.asarray(A)))


@pytest.mark.parametrize("function", [
    lambda x: x[:4], lambda x: x[2:], lambda x: x[::2], lambda x: x[-4:], lambda x: x.at[0].set(1), lambda x: x.at[2:4].add(1),
    lambda x: xnp.roll(x, 1, 0), lambda x: xnp.roll(x, 4, 0), lambda x: xnp.roll(x, 0, 0), lambda x: xnp.roll(x, 1),
    lambda x: xnp.roll(x, (1, 1), (1, 0)), lambda x: xnp.roll(x, xnp.int32(1), 0), lambda x: xnp.tile(x, (2, 1)),
    lambda x: lax.dynamic_update_slice(x, xnp.ones((8, 2)), (0, 0)),
])
def test_slices_of_sharded_dimensions_raise(function):
    with xf.set_mesh(MESH), pytest.raises(ShardingTypeError, match="reshard"):
        function(put("x"))


@pytest.mark.parametrize("function, argument", [
    (lambda x: x[2], A[:, 1]), (lambda x: x[-1], A[:, 1]), (lambda x: x[3, 1], A), (lambda x: x[xnp.int32(5)], A[:, 1]),
    (lambda x: lax.slice(x, (2,), (3,)), A[:, 1]), (lambda x: lax.dynamic_slice(x, (3, 1), (1, 1)), A),
    (lambda x: xnp.split(x, 8)[5], A[:, 1]), (lambda x: xnp.trapezoid(x), A[:, 1]), (lambda x: xnp.polyval(x, 0.5), A[:, 1]),
    (lambda x: list(x)[1] * list(x)[2], A[:, 1]),
    (lambda x: xnp.searchsorted(x, 9.5), A[:, 1]), (lambda x: xnp.interp(9.5, x, x), A[:, 1]),
], ids=range(12))
def test_single_elements_are_on_all_devices(function, argument):
    x = put("x", array=argument)
    expected = function(xnp.asarray(argument))
    for found in (function(x), xf.jit(function)(x)):
        assert xf.typeof(found).sharding.spec == P(*[None] * found.ndim)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    if expected.dtype == np.float32:
        slope = xf.grad(lambda x: function(x).sum())(x)
        assert xf.typeof(slope).sharding.spec == P("x", *[None] * (argument.ndim - 1))
        np.testing.assert_allclose(slope, xf.grad(lambda x: function(x).sum())(argument), rtol=1e-5)


def test_vectors_on_diagonals_shard_the_rows():
    found = xnp.diag(put("x", array=A[:, 1]))
    assert xf.typeof(found).sharding.spec == P("x", None)
    np.testing.assert_array_equal(found, np.diag(A[:, 1]))


@pytest.mark.parametrize("function", [
    lambda x: xnp.nonzero(x, size=3), lambda x: xnp.argwhere(x, size=3), lambda x: xnp.flatnonzero(x, size=3),
    lambda x: xnp.where(x > 1, size=3), lambda x: xnp.fft.rfft(x, axis=0)], ids=range(5))
def test_positions_and_spectra_of_sharded_dimensions(function):
    mesh = xf.make_mesh((2, 2), ("x", "y"))
    for compiled in (function, xf.jit(function)):
        with pytest.raises(ValueError, match="sharded|evenly divisible"):
            compiled(xf.device_put(A, NamedSharding(mesh, P("x"))))


@pytest.mark.parametrize("key", [np.s_[:4], np.s_[4:], np.s_[::2], np.s_[-4:, ::-1], np.s_[None, :4], np.s_[..., :4, 1:]])
def test_slices_that_divide_evenly_stay_sharded(key):
    with xf.set_mesh(MESH):
        found = xf.jit(lambda x: x[key])(put("x"))
        assert xf.typeof(found).sharding.spec == (P(None, "x", None) if found.ndim == 3 else P("x", None))
        mapped = xf.vmap(lambda x: x[key], -1, -1)(xnp.stack([put("x")] * 2, -1))
    for result in (found, mapped[..., 0]):
        np.testing.assert_array_equal(result, A[key])


@pytest.mark.parametrize("function, plain", [
    (lambda x, i: x.at[i].get(out_sharding=P("x")), lambda x: x[:4]),
    (lambda x, i: x.at[i[:, None], i[None]].get(out_sharding=P()), lambda x: x[:4, :4]),
    (lambda x, i: x.at[i].add(1, out_sharding=P("x")), lambda x: x + (np.arange(8) < 4)[:, None]),
    (lambda x, i: xnp.repeat(x[:, :4], i, axis=1, total_repeat_length=6, out_sharding=P("x")), lambda x: np.repeat(x, range(4), 1)),
    (lambda x, i: xnp.bincount(x[:, 0].astype(int) // 8, xnp.arange(8.0), length=4, out_sharding=P("x")), lambda x: [1, 5, 9, 13]),
])
def test_out_sharding_with_other_arrays_of_the_mesh(function, plain):
    with xf.set_mesh(MESH):
        for i in (xnp.arange(4), put("x", array=np.arange(4, dtype=np.int32))):
            np.testing.assert_array_equal(function(put("x"), i), plain(A))


def test_transforms_of_split_rows():
    """The result is split as the operand is, where its size allows that."""
    for axes in ((0,), (1,), (0, 1)):
        found = xnp.fft.fftn(put("x", "y"), axes=axes)
        assert xf.typeof(found).str_short(True) == "c64[8@x,4@y]"
        np.testing.assert_allclose(found, np.fft.fftn(A, axes=axes), rtol=1e-4, atol=1e-3)
    with pytest.raises(ValueError, match="not evenly divisible"):
        xnp.fft.rfft(put("x", "y"))
    with pytest.raises(ShardingTypeError, match="sharded dimension.*reshard"):
        lax.top_k(put("x", "y"), 2)


def test_tangents_and_cotangents_are_sharded_like_values():
    with xf.set_mesh(MESH):
        pullback, derivative = xf.vjp(xnp.sin, put("x"))[1], xf.linearize(xnp.sin, put("x"))[1]
        for linear in (pullback, derivative):
            linear(put("x")), linear(put()), linear(A)
            with pytest.raises(ValueError, match="unexpected type.*sharded differently.*reshard"):
                linear(put("y"))


def test_carries_retain_their_sharding():
    rows = put(None, "y")
    with xf.set_mesh(MESH), pytest.raises(TypeError, match="sharded differently.*reshard"):
        lax.scan(lambda c, row: (c + row, None), xnp.zeros(4), rows)
    start = xf.device_put(np.zeros(4, np.float32), on("y"))
    total, _ = lax.scan(lambda c, row: (c + row, None), start, rows)
    assert xf.typeof(total).sharding.spec == P("y")
    np.testing.assert_array_equal(total, A.sum(0))


def test_like_functions_replicate_on_request():
    with xf.set_mesh(MESH):
        for make in (xnp.zeros_like, xnp.ones_like, lambda a, **options: xnp.full_like(a, 2.0, **options)):
            assert make(put("x", "y")).sharding.spec == P("x", "y")
            for spec in (P(), P(None, None), P("y")):
                result = make(put("x", "y"), out_sharding=spec)
                assert result.sharding.is_equivalent_to(NamedSharding(MESH, spec), 2), spec


@pytest.mark.parametrize("start, combine, direct", [
    (0.0, lax.add, np.add), (-np.inf, lax.max, np.maximum), (1.0, lambda a, b: a * b, np.multiply)])
def test_windows_over_split_dimensions(start, combine, direct):
    """Neighbours are brought from other devices; results are split as the operand is where their sizes allow it."""
    x = put("x", "y", array=np.arange(32, dtype=np.float32).reshape(8, 4) / 8)
    values = np.asarray(x)
    rows = direct(values, np.vstack([values[1:], np.full((1, 4), start, np.float32)]))
    found = lax.reduce_window(x, start, combine, (2, 1), (1, 1), "SAME")
    assert str(xf.typeof(found)) == "float32[8@x,4@y]"
    np.testing.assert_allclose(found, rows)
    apart = lax.reduce_window(x, start, combine, (2, 1), (2, 1), "VALID")
    assert str(xf.typeof(apart)) == "float32[4@x,4@y]"
    np.testing.assert_allclose(apart, rows[::2])
    with pytest.raises(ShardingTypeError, match="evenly divisible"):
        lax.reduce_window(x, start, combine, (2, 1), (1, 1), "VALID")
    total = xf.grad(lambda x: lax.reduce_window(x, start, combine, (2, 1), (2, 1), "VALID").sum())(x)
    assert str(xf.typeof(total)) == "float32[8@x,4@y]"
    twin = xf.grad(lambda x: lax.reduce_window(x, start, combine, (2, 1), (2, 1), "VALID").sum())(values)
    np.testing.assert_allclose(total, twin)


def test_reductions_by_functions_preserve_other_dimensions():
    for axis, text in ((0, "float32[4@y]"), (1, "float32[8@x]")):
        found = lax.reduce(put("x", "y"), np.float32(0), lambda a, b: a + b * 1.0, (axis,))
        assert str(xf.typeof(found)) == text
        np.testing.assert_array_equal(found, A.sum(axis))


@pytest.mark.parametrize("place", [lambda x: x, lambda x: xnp.array(x), lambda x: xf.device_put(x, on("x").update(
    mesh=MESH.update(axis_types=(AxisType.Auto,) * 2)))], ids=["numpy", "array", "auto"])
@pytest.mark.parametrize("context", [False, True], ids=["alone", "in force"])
def test_in_shardings_move_arguments_and_are_no_part_of_types(place, context):
    """Types are those of arguments: what would be ambiguous of split types is a sum, a part or a shape as any."""
    x, seen = np.arange(8, dtype=np.float32), []

    def f(x):
        seen.append(xf.typeof(x).str_short())
        return x @ x, x.reshape(2, 4), x[::2], lax.scan(lambda c, t: (c + t, t), 0.0, x)[0]

    argument = place(x)
    with xf.set_mesh(MESH.update(axis_types=(AxisType.Auto,) * 2)) if context else xf.disable_jit(False):
        found = xf.jit(f, in_shardings=on("x"))(argument)
    for a, b in zip(found, [140, x.reshape(2, 4), x[::2], 28], strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)
    assert seen == ["float32[8]"]


def test_in_shardings_over_meshes_of_one_order_go_together():
    auto = MESH.update(axis_types=(AxisType.Auto,) * 2)
    flat = xf.make_mesh((8,), ("i",))
    x, of_type = np.arange(8, dtype=np.float32), put("x", array=np.arange(8, dtype=np.float32))
    for other in (auto, flat):
        axis = other.axis_names[0]
        product = xf.jit(lambda x, y: x @ y, in_shardings=(on("x"), NamedSharding(other, P(axis))))(x, x)
        assert float(product) == 140
    with xf.set_mesh(flat):
        assert xf.jit(lambda x: x * 2, in_shardings=on("x"))(x).tolist() == (x * 2).tolist()
    result = xf.jit(lambda x, y: (x * 2, y * 2), in_shardings=(on("x"), None))(x, of_type)
    assert result[0].tolist() == result[1].tolist() == (x * 2).tolist()
    assert str(xf.typeof(result[1])) == "float32[8@x]"


def test_in_shardings_over_other_orders_of_devices_keep_elements_in_place():
    """An array of another order of devices moves; its mesh is not the program's."""
    x = np.arange(8, dtype=np.float32)
    one, other = [NamedSharding(xf.make_mesh((8,), ("i",), devices=ds), P("i")) for ds in (xf.devices(), xf.devices()[::-1])]
    for given, own in ((one, other), (other, one)):
        found = xf.jit(lambda x, y: x + 10 * y, in_shardings=given)(x, xf.device_put(x, own))
        assert found.tolist() == (11 * x).tolist()


@pytest.mark.parametrize("options", [("in_shardings",), ("out_shardings",), ("in_shardings", "out_shardings")])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vmap_of_a_program_with_shardings_over_explicit_axes(options, axis):
    f = xf.jit(lambda x: x * 2, **dict.fromkeys(options, on("x")))
    np.testing.assert_array_equal(np.asarray(xf.vmap(f, axis, axis)(np.ones((8, 8), np.float32))), np.full((8, 8), 2))


def test_additions_to_references_are_sharded_like_them():
    with xf.set_mesh(MESH):
        ref = xf.new_ref(xf.device_put(xnp.zeros((4, 4)), NamedSharding(MESH, P("x", None))))
        for spec in (P(None, "x"), P(None, None), P("x", "y")):
            value = xf.device_put(xnp.ones((4, 4)), NamedSharding(MESH, spec))
            for add in (addupdate, xf.jit(addupdate, static_argnums=1)):
                with pytest.raises(ValueError, match="addupdate.*reshard"):
                    add(ref, ..., value)
        addupdate(ref, ..., xf.reshard(value, P("x", None)))
        np.testing.assert_array_equal(ref[...], np.ones((4, 4)))


@pytest.mark.parametrize("function", [
    lambda: xnp.array([1.0, 2.0] * 4, out_sharding=P("x")),
    lambda: xnp.array(np.arange(8.0), out_sharding=P("x")),
    lambda: xnp.asarray(np.arange(8.0), out_sharding=P("x")),
], ids=["list", "array", "asarray"])
def test_constants_of_programs_are_split(function):
    mesh = xf.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with xf.set_mesh(mesh):
        assert str(xf.typeof(xf.jit(function)())) == str(xf.typeof(function())) == "float32[8@x]"


@pytest.mark.parametrize("options, text", [
    ({}, "float32[8@x,2]"), ({"dtype": "int32"}, "int32[8@x,2]"), ({"shape": (8, 2)}, "float32[8,2]"),
], ids=["alike", "dtype", "shape"])
def test_full_like_is_sharded_like_its_type(options, text):
    mesh = xf.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with xf.set_mesh(mesh):
        x = xf.device_put(np.ones((8, 2), np.float32), P("x"))
        assert str(xf.typeof(xf.jit(lambda x: lax.full_like(x, 3, **options))(x))) == text


@pytest.mark.parametrize("specs, shapes, texts", [
    ([("x", "y"), ("x",)], [(8, 4), (8, 1)], ["float32[8@x,4@y]"] * 2),
    ([("x", "y"), ()], [(8, 4), (4,)], ["float32[8@x,4@y]"] * 2),
    ([(None, "y"), ("x",)], [(8, 4), (8, 1)], ["float32[8@x,4@y]"] * 2),
    ([("x",), ()], [(8,), (8,)], ["float32[8@x]", "float32[8]"]),
], ids=str)
def test_arrays_that_become_larger_are_split_alike(specs, shapes, texts):
    with xf.set_mesh(MESH):
        arrays = [put(*spec, array=np.ones(shape, np.float32)) for spec, shape in zip(specs, shapes)]
        for function in (xnp.broadcast_arrays, xf.jit(lambda *xs: xnp.broadcast_arrays(*xs))):
            assert [str(xf.typeof(y)) for y in function(*arrays)] == texts


def test_full_like_is_sharded_like_its_array():
    with xf.set_mesh(MESH):
        x, v = put("x", "y", array=np.ones((8, 4), np.float32)), put("y", array=np.ones(4, np.float32))
        assert str(xf.typeof(xnp.full_like(x, v))) == "float32[8,4@y]"
    rows = put("x", array=np.ones((8, 4), np.float32))
    assert lax.full_like(rows, 3.0).sharding.spec == rows.sharding.spec == P("x")


@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
def test_extremes_with_out_sharding(name):
    """The derivative is shared among equal elements, whatever the sharding of the result."""
    x, reduce, plain = put("x", "y", array=A % 7), getattr(lax, name), {"reduce_max": np.max, "reduce_min": np.min}[name]
    with xf.set_mesh(MESH):
        for spec, text in (((), "4"), (("y",), "4@y"), (("x",), "4@x")):
            result = reduce(x, (0,), out_sharding=P(*spec))
            assert str(xf.typeof(result)) == f"float32[{text}]"
            np.testing.assert_array_equal(result, plain(A % 7, 0))
            slopes = xf.grad(lambda v, spec=spec: (reduce(v, (0,), out_sharding=P(*spec)) * xnp.arange(1.0, 5)).sum())(x)
            hits = A % 7 == plain(A % 7, 0)
            np.testing.assert_allclose(slopes, hits / hits.sum(0) * np.arange(1, 5), rtol=1e-6)
        batches = xf.vmap(lambda v: reduce(v, (0,), out_sharding=P("y")))(put("x", None, "y", array=(A % 7).reshape(4, 2, 4)))
        assert str(xf.typeof(batches)) == "float32[4@x,4@y]"
        np.testing.assert_array_equal(batches, plain((A % 7).reshape(4, 2, 4), 1))
        for spec, error, words in ((P(unreduced={"x"}), ShardingTypeError, "unreduced"), (P(reduced={"x"}), ValueError, "cannot be reduced"),
                                   ("x", TypeError, "NamedSharding"), (P("x", "y"), ValueError, "entries")):
            with pytest.raises(error, match=words):
                reduce(x, (0,), out_sharding=spec)
    assert str(xf.make_jaxpr(lambda v: reduce(v, (0,)))(A)).count(f"{name}[axes=(0,) out_sharding=None]") == 1


def test_one_hot_with_out_sharding():
    i = put("x", array=np.arange(8) % 4)
    expected = np.eye(4)[np.arange(8) % 4]
    with xf.set_mesh(MESH):
        for spec, text in ((P("x", "y"), "8@x,4@y"), (P("x"), "8@x,4"), (on("x", None), "8@x,4")):
            result = xf.nn.one_hot(i, 4, out_sharding=spec)
            assert str(xf.typeof(result)) == f"float32[{text}]"
            np.testing.assert_array_equal(result, expected)
        first = xf.jit(lambda v: xf.nn.one_hot(v, 4, axis=0, out_sharding=P("y", "x")))(i)
        assert str(xf.typeof(first)) == "float32[4@y,8@x]"
        np.testing.assert_array_equal(first, expected.T)
        mapped = xf.vmap(lambda v: xf.nn.one_hot(v, 4, out_sharding=P("y")))(i)
        assert str(xf.typeof(mapped)) == "float32[8@x,4@y]"
        for spec, error, words in ((P("y", "x"), ShardingTypeError, "match the sharding of x"), (P(None, "y"), ShardingTypeError, "match"),
                                   (P("x", "y", None), ValueError, "dimensions"), ("x", TypeError, "NamedSharding"), (P("z"), ValueError, "'z'")):
            with pytest.raises(error, match=words):
                xf.nn.one_hot(i, 4, out_sharding=spec)
    with pytest.raises(ValueError, match="mesh"):
        xf.nn.one_hot(np.arange(3), 4, out_sharding=P("x"))


def test_histogram_with_out_sharding():
    values = np.sin(np.arange(16, dtype=np.float32))
    with xf.set_mesh(MESH):
        x = put("x", array=values)
        for options in ({}, {"weights": put("x", array=values**2)}, {"density": True}, {"range": (-1.0, 0.5)}):
            plain = {k: np.asarray(v) if k == "weights" else v for k, v in options.items()}
            for result, expected in zip(xnp.histogram(x, 7, **options, out_sharding=P()), np.histogram(values, 7, **plain)):
                assert result.sharding.spec == P(None)
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        counts, edges = xf.jit(lambda v: xnp.histogram(v, np.linspace(-1, 1, 4), out_sharding=P(None)))(x)
        np.testing.assert_array_equal(counts, np.histogram(values, np.linspace(-1, 1, 4))[0])
        with pytest.raises(ValueError, match="divi"):
            xnp.histogram(x, 4, out_sharding=P("x"))
        with pytest.raises(TypeError, match="NamedSharding"):
            xnp.histogram(x, 4, out_sharding="x")
