"""Unreduced and reduced types: sums over explicit mesh axes that programs leave open, against NumPy and programs without them."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P, lax
from xlafront.base.jaxlib_compat import allows_open_extremes
from xlafront.core.errors import ShardingTypeError
from xlafront.sharding import AxisType, UnreducedKind

pytestmark = pytest.mark.cpu_only

A = np.arange(32, dtype=np.float32).reshape(8, 4) - 9
W = np.cos(np.arange(12, dtype=np.float32)).reshape(4, 3)
AAT = A @ A.T
B = np.sin(np.arange(64, dtype=np.float32) ** 2).reshape(8, 2, 4)
MESH = None


@pytest.fixture(autouse=True)
def mesh():
    global MESH
    MESH = xf.make_mesh((4, 2), ("x", "y"))
    with xf.set_mesh(MESH):
        yield


def put(array, *spec, **sums):
    return xf.device_put(array, NamedSharding(MESH, P(*spec, **sums)))


def text(x) -> str:
    return str(xf.typeof(x)).partition("[")[2]


def full(x):
    return np.asarray(xf.reshard(x, P()))


def product(a):
    """`a @ a.T` whose sum over y is still to be made."""
    return xnp.einsum("ij,kj->ik", a, a, out_sharding=P(None, None, unreduced={"y"}))


U, R = {"unreduced": {"y"}}, {"reduced": {"y"}}


@pytest.mark.parametrize("make, expected, shown", [
    (lambda a, r: xnp.dot(a, a.T, out_sharding=P(None, None, **U)), AAT, "8,8]{U:y}"),
    (lambda a, r: xnp.matmul(a, a.T, out_sharding=P("x", None, **U)), AAT, "8@x,8]{U:y}"),
    (lambda a, r: xnp.tensordot(a, a, (1, 1), out_sharding=P(None, None, **U)), AAT, "8,8]{U:y}"),
    (lambda a, r: lax.dot_general(a, a, (((1,), (1,)), ((), ())), out_sharding=P(None, None, **U)), AAT, "8,8]{U:y}"),
    (lambda a, r: lax.reduce_sum(a, (1,), out_sharding=P(None, **U)), A.sum(1), "8]{U:y}"),
    (lambda a, r: lax.reduce_sum(xf.reshard(a, P("x", "y")), (0, 1), out_sharding=P(unreduced={"x", "y"})), A.sum(),
     "]{U:(x,y)}"),
    (lambda a, r: lax.reduce_sum(xf.reshard(a, P("x", "y")), (0,), out_sharding=P("y", unreduced={"x"})), A.sum(0),
     "4@y]{U:x}"),
    (lambda a, r: xf.vmap(lambda v: lax.reduce_sum(v, (0,), out_sharding=P(**U)))(a), A.sum(1), "8]{U:y}"),
    (lambda a, r: xf.vmap(lambda v, w: xnp.dot(v, w, out_sharding=P(**U)))(a, a), (A * A).sum(1), "8]{U:y}"),
    (lambda a, r: product(a) + product(a), 2 * AAT, "8,8]{U:y}"),
    (lambda a, r: product(a) - 3 * product(a), -2 * AAT, "8,8]{U:y}"),
    (lambda a, r: -product(a) / 4, -AAT / 4, "8,8]{U:y}"),
    (lambda a, r: product(a) * r, AAT * AAT, "8,8]{U:y}"),
    (lambda a, r: product(a).T, AAT.T, "8,8]{U:y}"),
    (lambda a, r: lax.stop_gradient(product(a)), AAT, "8,8]{U:y}"),
    (lambda a, r: product(a).reshape(64), AAT.reshape(64), "64]{U:y}"),
    (lambda a, r: product(a)[None, :3, 1], AAT[None, :3, 1], "1,3]{U:y}"),
    (lambda a, r: product(a).sum(0), AAT.sum(0), "8]{U:y}"),
    (lambda a, r: xnp.stack([product(a), product(a)]), np.stack([AAT, AAT]), "2,8,8]{U:y}"),
    (lambda a, r: xnp.broadcast_to(product(a), (2, 8, 8)), np.stack([AAT, AAT]), "2,8,8]{U:y}"),
    (lambda a, r: xnp.where(xnp.arange(8) > 3, product(a), product(a) * 2), np.where(np.arange(8) > 3, AAT, 2 * AAT),
     "8,8]{U:y}"),
    (lambda a, r: xf.vmap(lambda v: v * 2)(product(a)), 2 * AAT, "8,8]{U:y}"),
    (lambda a, r: lax.scan(lambda c, _: (c + product(a), None), xnp.zeros((8, 8), out_sharding=P(None, None, **U)), None,
                           length=3)[0], 3 * AAT, "8,8]{U:y}"),
    (lambda a, r: lax.cond(True, product, lambda a: product(a) * 2, a), AAT, "8,8]{U:y}"),
    (lambda a, r: xnp.full((4, 2), 7.0, out_sharding=P(None, None, **U)), np.full((4, 2), 7.0), "4,2]{U:y}"),
    (lambda a, r: xf.reshard(a, P("x", None, **U)), A, "8@x,4]{U:y}"),
    (lambda a, r: xf.reshard(xf.reshard(a, P(None, None, **U)), P(None, None, unreduced={"x"})), A, "8,4]{U:x}"),
    (lambda a, r: xf.reshard(product(a), P(None, None, unreduced={"x", "y"})), AAT, "8,8]{U:(x,y)}"),
    (lambda a, r: xf.reshard(product(a), P("y", "x")), AAT, "8@y,8@x]"),
    (lambda a, r: xf.reshard(product(a), P(None, None, **R)), AAT, "8,8]{R:y}"),
    (lambda a, r: xnp.sin(r) * 2 + 1, np.sin(AAT) * 2 + 1, "8,8]{R:y}"),
    (lambda a, r: r[:, :4].T, AAT[:, :4].T, "4,8]{R:y}"),
    (lambda a, r: r.sum(), AAT.sum(), "]{R:y}"),
    (lambda a, r: r @ r, AAT @ AAT, "8,8]"),
])  # fmt: skip
def test_values_and_types(make, expected, shown):
    a, r = put(A, None, "y"), put(AAT, None, None, **R)
    for result in (make(a, r), xf.jit(make)(a, r), xf.jit(lambda: make(a, r))()):
        assert text(result) == shown
        np.testing.assert_allclose(full(result), expected, rtol=2e-5, atol=1e-4)
    requested = xf.jit(make, out_shardings=P())(a, r)
    assert requested.is_fully_replicated
    np.testing.assert_allclose(np.asarray(requested), expected, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("function, words, error", [
    (lambda u, r, a: xnp.sin(u), "sin of .*U:y.*reshard", ShardingTypeError),
    (lambda u, r, a: u.max(), "reduce_max|max of .*U:y.*reshard", ValueError),
    (lambda u, r, a: xnp.sort(u), "sort.*U:y.*reshard", ValueError),
    (lambda u, r, a: xnp.maximum(u, u), "max.*reshard", ShardingTypeError),
    (lambda u, r, a: u / u, "div.*reshard", ValueError),
    (lambda u, r, a: u / a, "div.*reduced={'y'}", ValueError),
    (lambda u, r, a: u + 1, "add.*U:y.*reshard", ShardingTypeError),
    (lambda u, r, a: u * u, "mul.*reshard", ShardingTypeError),
    (lambda u, r, a: u * a, "mul.*reduced={'y'}", ShardingTypeError),
    (lambda u, r, a: 1 / u, "div.*reshard", ValueError),
    (lambda u, r, a: u @ a, "dot_general.*reshard", ShardingTypeError),
    (lambda u, r, a: u.astype(int), "astype.*reshard", ShardingTypeError),
    (lambda u, r, a: r + a, "reduced={'y'}", ShardingTypeError),
    (lambda u, r, a: r * put(AAT, None, "y"), "reduced", ShardingTypeError),
    (lambda u, r, a: xnp.dot(a, a, out_sharding=P(None, None, **U)), "numpy.dot.*leave.*sharded", ShardingTypeError),
    (lambda u, r, a: lax.dot_general(a, a, (((1,), (0,)), ((), ())), out_sharding=P(None, None, **U)), "leave.*sharded",
     ShardingTypeError),
    (lambda u, r, a: lax.reduce_sum(a, (0,), out_sharding=P(None, **U)), "leave.*sharded", ShardingTypeError),
])  # fmt: skip
def test_operations_on_unreduced_values_raise(function, words, error):
    u, r, a = product(put(A, None, "y")), put(AAT, None, None, **R), put(AAT, None, None)
    for call in (function, xf.jit(function)):
        with pytest.raises(error, match=words):
            call(u, r, a)


LOSSES = [
    lambda w, x: (x @ w).sum(),
    lambda w, x: xnp.sin(x @ w).sum(),
    lambda w, x: (xnp.tanh(x @ w) @ w.T).sum(),
    lambda w, x: (w * w).sum(),
    lambda w, x: xnp.sin(w[1:] * 2 + 1).reshape(9).sum() + xnp.cos(x @ w.T.T).sum(),
    lambda w, x: lax.scan(lambda c, _: (xnp.tanh(c @ w @ w.T), None), x, None, length=3)[0].sum(),
    lambda w, x: lax.fori_loop(0, 3, lambda i, c: xnp.tanh(c @ w @ w.T), x).sum(),
    lambda w, x: xf.checkpoint(lambda w, x: xnp.sin(x @ w))(w, x).sum(),
    lambda w, x: lax.cond(True, lambda w: x @ w, lambda w: x @ (w * 2), w).sum(),
    lambda w, x: xf.jit(lambda w, x: xnp.sin(x @ w))(w, x).sum(),
    lambda w, x: xf.vmap(lambda v: xnp.dot(v, w))(x).sum(),
]


@pytest.mark.parametrize("loss", LOSSES, ids=range(len(LOSSES)))
def test_cotangents_of_reduced_values_are_unreduced(loss):
    expected = xf.grad(loss)(W, A / 20)
    w, x = put(W, None, None, reduced={"x"}), put(A / 20, "x", None)
    for gradient in (xf.grad(loss)(w, x), xf.jit(xf.grad(loss))(w, x)):
        assert text(gradient) == "4,3]{U:x}"
        np.testing.assert_allclose(full(gradient), np.asarray(expected), rtol=2e-4, atol=1e-5)
    inside = xf.grad(lambda w, x: loss(xf.reshard(w, P(None, None, reduced={"x"})), x))(put(W, None, None), x)
    assert text(inside) == "4,3]"
    np.testing.assert_allclose(np.asarray(inside), np.asarray(expected), rtol=2e-4, atol=1e-5)


def test_derivatives_through_open_sums():
    def loss(a):
        return (xf.reshard(product(a) * 2, P("x", None)) ** 2).sum()

    a = put(A, None, "y")
    gradient = xf.grad(loss)(a)
    assert text(gradient) == "8,4@y]"
    np.testing.assert_allclose(np.asarray(gradient), 16 * AAT @ A, rtol=1e-5)
    value, tangent = xf.jvp(product, (a,), (a,))
    assert text(tangent) == "8,8]{U:y}"
    np.testing.assert_allclose(full(tangent), 2 * AAT, rtol=1e-5)
    value, pull = xf.vjp(product, a)
    [ct] = pull(put(AAT, None, None, **R))
    np.testing.assert_allclose(np.asarray(ct), 2 * AAT @ A, rtol=1e-5)
    assert text(xf.grad(lambda w: xf.reshard(w, P()).sum())(put(A, None, None, **R))) == "8,4]{U:y}"


def test_the_sum_is_made_once_for_many_steps():
    def gradients(w, xs):
        def step(total, x):
            return total + xf.grad(lambda w: xnp.sin(x @ w).sum())(w), None

        zero = xnp.zeros((4, 3), out_sharding=P(None, None, unreduced={"x"}))
        return xf.reshard(lax.scan(step, zero, xs)[0], P())

    xs = np.stack([A, A * 2]) / 20
    compiled = xf.jit(gradients).lower(put(W, None, None, reduced={"x"}), put(xs, None, "x", None)).compile()
    loops = [part for part in compiled.as_text().split("\n\n") if "all-reduce(" in part and not part.startswith("ENTRY")]
    assert not loops
    found = compiled(put(W, None, None, reduced={"x"}), put(xs, None, "x", None))
    expected = sum(x.T @ np.cos(x @ W) for x in xs)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5)


def test_arrays_with_open_sums():
    u = product(put(A, None, "y"))
    assert not u.is_fully_replicated and u.sharding.spec == P(None, None, unreduced={"y"})
    assert repr(u).startswith("Array(shape=(8, 8), dtype=float32, sharding=")
    with pytest.raises(NotImplementedError, match="'y'.*reshard"):
        np.asarray(u)
    shards = {s.device: np.asarray(s.data) for s in u.addressable_shards}
    np.testing.assert_allclose(sum(shards[d] for d in MESH.devices[0]), AAT, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(xf.device_put(u, NamedSharding(MESH, P("x")))), AAT, rtol=1e-5)
    np.testing.assert_allclose(full(put(A, None, None, **U)), A)
    made = xf.make_array_from_single_device_arrays(
        A.shape, NamedSharding(MESH, P(None, None, **U)), [xf.device_put(A, d) for d in MESH.devices.flat])
    np.testing.assert_allclose(full(made), 2 * A)
    struct = xf.eval_shape(product, xf.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding(MESH, P(None, "y"))))
    assert struct.sharding.spec == P(None, None, unreduced={"y"})
    assert xf.typeof(u).to_ct_aval().sharding.spec == P(None, None, reduced={"y"})


# Inside of shard_map; the types are those that the reference shows.

PX, UX, RX = P("x", None), P(None, None, unreduced={"x"}), P(None, None, reduced={"x"})


def seen_in_shard_map(body, in_specs, out_specs, *args):
    seen = []

    def function(*shards):
        result = body(*shards)
        seen.append(([text(x) for x in shards], text(result)))
        return result

    result = xf.shard_map(function, in_specs=in_specs, out_specs=out_specs)(*args)
    return seen[0], result


@pytest.mark.parametrize("body, in_specs, out_spec, inside, expected", [
    (lambda a: a + a, UX, UX, (["8,4]{U:x}"], "8,4]{U:x}"), 2 * A),
    (lambda a: lax.psum(a, "x"), UX, P(), (["8,4]{U:x}"], "8,4]"), A),
    (lambda a: lax.psum_scatter(a, "x", tiled=True), UX, PX, (["8,4]{U:x}"], "2,4]{V:x}"), A),
    (lambda a: lax.pcast(a, "x", to="unreduced"), PX, UX, (["2,4]{V:x}"], "2,4]{U:x}"), A.reshape(4, 2, 4).sum(0)),
    (lambda a: lax.pcast(a, "x", to="reduced"), P(), RX, (["8,4]"], "8,4]{R:x}"), A),
    (lambda a: lax.pcast(a, "x", to="varying"), RX, PX, (["8,4]{R:x}"], "8,4]{V:x}"), np.tile(A, (4, 1))),
    (lambda a: lax.all_gather(a, "x", tiled=True, to="reduced"), PX, RX, (["2,4]{V:x}"], "8,4]{R:x}"), A),
    (lambda a: lax.all_gather(a, "x", tiled=True, to="reduced"), P("x", "y"), P(None, "y", reduced={"x"}),
     (["2,2]{V:(x,y)}"], "8,2]{V:y, R:x}"), A),
    (lambda a, b: a * b, (UX, RX), UX, (["8,4]{U:x}", "8,4]{R:x}"], "8,4]{U:x}"), A * A),
    (lambda a, b: a @ b[:3].T, (PX, RX), PX, (["2,4]{V:x}", "8,4]{R:x}"], "2,3]{V:x}"), A @ A[:3].T),
    (lambda a: xnp.sin(a).sum(), RX, P(reduced={"x"}), (["8,4]{R:x}"], "]{R:x}"), np.sin(A).sum()),
])  # fmt: skip
def test_types_inside_of_shard_map(body, in_specs, out_spec, inside, expected):
    specs = in_specs if type(in_specs) is tuple else (in_specs,)
    found, result = seen_in_shard_map(body, specs, out_spec, *[put(A, *s.partitions, **(
        {"unreduced": s.unreduced} if s.unreduced else {"reduced": s.reduced})) for s in specs])
    assert found == inside
    assert result.sharding.spec.unreduced == out_spec.unreduced and result.sharding.spec.reduced == out_spec.reduced
    np.testing.assert_allclose(full(result), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("body, in_specs, out_spec, words", [
    (lambda a: a, P(), P(), "argument a.*8,4..U:x.*unreduced={'x'}"),
    (lambda a: a, UX, P(), "result.*U:x.*unreduced={'x'}"),
    (lambda a: a, UX, RX, "result.*U:x"),
    (lambda a: lax.pcast(lax.psum(a, "x"), "x", to="varying"), UX, UX, "result.*V:x.*same unreduced.*pcast"),
    (lambda a: lax.pcast(a, "x", to="reduced"), UX, RX, "pcast to reduced.*invarying.*U:x"),
    (lambda a: a * lax.axis_index("x"), UX, UX, "U:x.*psum"),
])  # fmt: skip
def test_shard_map_checks_unreduced_axes(body, in_specs, out_spec, words):
    with pytest.raises(ValueError, match=words):
        xf.shard_map(body, in_specs=in_specs, out_specs=out_spec)(put(A, None, None, unreduced={"x"}))


def gathered(w):
    return lax.all_gather(w, "x", tiled=True, to="reduced")


@pytest.mark.parametrize("body, specs, w_spec, shown", [
    (lambda x, w: x @ w, (PX, RX), RX, "4,3]{U:x}"),
    (lambda x, w: xnp.tanh(x @ w) @ w.T, (PX, RX), RX, "4,3]{U:x}"),
    (lambda x, w: x @ gathered(w), (PX, PX), PX, "4@x,3]"),
    (lambda x, w: x @ lax.pcast(w, "x", to="reduced"), (PX, P()), P(None, None), "4,3]"),
    (lambda x, w: lax.scan(lambda c, _: (xnp.tanh(c @ w @ w.T), None), x, None, length=2)[0], (PX, RX), RX, "4,3]{U:x}"),
    (lambda x, w: xf.checkpoint(lambda x, w: xnp.sin(x @ w))(x, w), (PX, RX), RX, "4,3]{U:x}"),
])  # fmt: skip
def test_derivatives_through_shard_map(body, specs, w_spec, shown):
    x, w = put(A / 20, *PX), put(W, *w_spec.partitions, reduced=w_spec.reduced)

    def loss(w, x):
        return xnp.sin(xf.shard_map(body, in_specs=specs, out_specs=PX)(x, w)).sum()

    def plain(w, x):
        mapped = xf.shard_map(body, mesh=xf.make_mesh((1,), ("x",), (AxisType.Auto,), devices=xf.devices()[:1]), in_specs=(PX, *[
            P(*s.partitions) for s in specs[1:]]), out_specs=PX, check_vma=False)
        return xnp.sin(mapped(x, w)).sum()

    with xf.set_mesh(None):
        expected = np.asarray(xf.grad(plain)(W, A / 20))
    for gradient in (xf.grad(loss)(w, x), xf.jit(xf.grad(loss))(w, x)):
        assert text(gradient) == shown
        np.testing.assert_allclose(full(gradient), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make, expected", [
    (lambda u, a: xnp.pad(u, 1), lambda a: np.pad(a, 1)),
    (lambda u, a: lax.dynamic_update_slice(u, u[:1], (2, 0)), None),
    (lambda u, a: lax.reduce_sum(u, (0,)), lambda a: a.sum(0)),
    (lambda u, a: xnp.reshape(u, (-1,), out_sharding=P(None, unreduced={"x"})), lambda a: a.ravel()),
], ids=["pad", "update", "sum", "reshape"])
def test_linear_operations_preserve_unreduced_types(make, expected):
    """The sum afterwards is that of before, treated alike."""
    mesh = xf.make_mesh((4, 2), ("x", "y"))
    with xf.set_mesh(mesh):
        u = xf.sharding.reshard(xf.device_put(A, P()), P(unreduced={"x"}))
        result = make(u, A)
        assert xf.typeof(result).sharding.spec.unreduced == {"x"}
        found = np.asarray(xf.sharding.reshard(result, P()))
    correct = A.copy()
    correct[2] = correct[0]
    np.testing.assert_allclose(found, correct if expected is None else expected(A), rtol=1e-6)


def test_sums_that_are_made_and_left_open_together():
    mesh = xf.make_mesh((4, 2), ("x", "y"))
    with xf.set_mesh(mesh):
        x = xf.device_put(A, P("x"))
        columns = xnp.einsum("ab->b", x, out_sharding=P(None, unreduced={"x"}))
        assert xf.typeof(columns).sharding.spec.unreduced == {"x"}
        np.testing.assert_allclose(np.asarray(xf.sharding.reshard(columns, P())), A.sum(0))
        both = lax.reduce_sum(xf.sharding.reshard(x, P("x", unreduced={"y"})), (0,), out_sharding=P(unreduced={"x"}))
        assert xf.typeof(both).sharding.spec.unreduced == {"x"}
        np.testing.assert_allclose(np.asarray(xf.sharding.reshard(both, P())), A.sum(0))
        u = xf.sharding.reshard(xf.device_put(A, P()), P(unreduced={"x"}))
        gradient = xf.grad(lambda p, q: xnp.concatenate([p, q]).sum())(u, u)
        assert xf.typeof(gradient).sharding.spec.reduced == {"x"}
        for refused, words in [(lambda: xnp.reshape(u, (-1,), out_sharding=P("x")), "must be unreduced over the same axes"),
                               (lambda: xnp.reshape(x, (-1,), out_sharding=P(unreduced={"y"})), "cannot contain unreduced"),
                               (lambda: xnp.reshape(x, (-1,), out_sharding=P(reduced={"y"})), "cannot contain reduced")]:
            with pytest.raises(ValueError, match=words):
                refused()
        with pytest.raises(ShardingTypeError, match="with a value other than 0"):
            xnp.pad(u, 1, constant_values=1.0)


def test_stacks_and_rows_leave_sums_open():
    u = xf.jit(product)(put(A, "x", "y"))
    together = xf.jit(lambda u: lax.stack([u, 2 * u], axis=1))(u)
    assert "U:y" in text(together)
    np.testing.assert_allclose(full(together), np.stack([AAT, 2 * AAT], 1), rtol=1e-5)
    for axis in (0, 1):
        rows = xf.jit(lambda u: xnp.unstack(u, axis=axis))(u)
        assert all("U:y" in text(row) for row in rows)
        np.testing.assert_allclose([full(row) for row in rows], AAT if axis == 0 else AAT.T, rtol=1e-5)


def test_cotangents_of_slices_are_summands():
    """The cotangent of a reduced value through a split of it: each device has its own part, beside zeros."""
    mesh = xf.make_mesh((2, 2), ("x", "y"), axis_types=(xf.sharding.AxisType.Explicit,) * 2)
    ct = np.arange(1.0, 9.0, dtype="float32").reshape(4, 2)
    with xf.set_mesh(mesh):
        x = xf.reshard(xnp.ones((4, 2)), P("y", reduced={"x"}))
        cts = xf.reshard(xnp.asarray(ct), P(("y", "x")))

        def pull(x, cts):
            return xf.vjp(lambda x: xf.reshard(x, P(("y", "x"))), x)[1](cts)[0]

        for found in (pull(x, cts), xf.jit(pull)(x, cts)):
            assert found.sharding.spec == P("y", None, unreduced={"x"})
            held = {shard.device: np.asarray(shard.data) for shard in found.addressable_shards}
            for i in range(2):
                for j in range(2):
                    expected = np.zeros((2, 2))
                    expected[i] = ct[2 * j + i]
                    np.testing.assert_array_equal(held[mesh.devices[i, j]], expected)
            np.testing.assert_array_equal(xf.reshard(found, P()), ct)


SQUARE = np.sin(np.arange(16, dtype=np.float32)).reshape(4, 4)
LAYERS = np.cos(np.arange(48, dtype=np.float32)).reshape(3, 4, 4) / 2


@pytest.mark.parametrize("loss, w", [
    (lambda w, x: lax.scan(lambda c, w: (xnp.tanh(c @ w), None), x, w)[0], LAYERS),
    (lambda w, x: lax.scan(lambda c, w: (xnp.tanh(c @ w), None), x, w, reverse=True, unroll=2)[0], LAYERS),
    (lambda w, x: lax.scan(lambda c, _: (lax.scan(lambda c, w: (xnp.tanh(c @ w), None), c, w)[0], None), x, None, 2)[0], LAYERS),
    (lambda w, x: lax.scan(xf.checkpoint(lambda c, w: (xnp.tanh(c @ w), None)), x, w)[0], LAYERS),
    (lambda w, x: lax.fori_loop(0, 3, lambda i, c: xnp.tanh(c @ w), x), SQUARE),
    (lambda w, x: lax.cond(True, lambda c: xnp.tanh(c @ w), lambda c: c, x), SQUARE),
    (lambda w, x: x @ xnp.concatenate([w[2:], 2 * w[:2]]) @ w.T, SQUARE),
    (lambda w, x: x @ xnp.cumsum(xnp.where(xnp.eye(4) > 0, w, 0.5 * w), 0), SQUARE),
    (lambda w, x: x @ lax.dynamic_slice(w, (1, 0), (3, 4)).T @ lax.dynamic_slice(w, (0, 0), (3, 4)), SQUARE),
], ids=["layers", "reversed", "nested", "checkpoint", "loop", "branch", "parts", "sums", "slices"])
def test_gradients_whose_sums_are_made_at_the_end(loss, w):
    """Weights of the type "reduced" have gradients that are summands, in loops too; their sum is the gradient."""
    x = xf.device_put(A, P("x", None))

    def gradient(w):
        return xf.grad(lambda w: (loss(w, x) ** 2).sum())(w)

    expected = xf.jit(gradient)(xf.device_put(w, P()))
    summands = xf.jit(gradient)(xf.device_put(w, P(reduced={"x"})))
    assert xf.typeof(summands).sharding.spec.unreduced == {"x"}
    np.testing.assert_allclose(full(summands), expected, rtol=1e-4, atol=1e-4)


def test_one_sum_for_all_microbatches():
    """Summands are collected by a loop over parts of a batch, and by one over layers in each; no step makes the sum."""
    w, batches = xf.device_put(LAYERS, P(reduced={"x"})), xf.device_put(A.reshape(2, 4, 4), P(None, "x", None))

    def loss(w, x):
        return (lax.scan(lambda c, w: (xnp.tanh(c @ w), None), x, w)[0] ** 2).sum()

    @xf.jit
    def total(w, batches):
        start = xf.reshard(xnp.zeros_like(w), P(unreduced={"x"}))
        return xf.reshard(lax.scan(lambda acc, x: (acc + xf.grad(loss)(w, x), None), start, batches)[0], P())

    expected = xf.jit(xf.grad(loss))(LAYERS, A)
    np.testing.assert_allclose(total(w, batches), expected, rtol=1e-4, atol=1e-4)
    compiled = total.lower(w, batches).compile().as_text()
    assert compiled.count(" all-reduce(") + compiled.count(" all-reduce-start(") == 1


@pytest.mark.parametrize("f, expected", [
    (lambda u: lax.fori_loop(0, 3, lambda i, c: 2 * c + u, u), lambda a: 15 * a),
    (lambda u: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + u[::-1]), (0, u))[1], lambda a: a + 2 * a[::-1]),
    (lambda u: lax.scan(lambda c, row: (c + row, 2 * c), u[0], u)[1], lambda a: 2 * (np.cumsum(a, 0) - a + a[0])),
    (lambda u: lax.scan(lambda c, i: (c + i * u, None), xnp.zeros_like(u), xnp.arange(3.0))[0], lambda a: 3 * a),
    (lambda u: lax.map(lambda row: row[::-1], u, batch_size=3), lambda a: a[:, ::-1]),
    (lambda u: xnp.tile(u, (2, 1)), lambda a: np.tile(a, (2, 1))),
    (lambda u: u.at[np.array([1, 99])].get(mode="fill", fill_value=0), lambda a: np.stack([a[1], np.zeros(8)])),
    (lambda u: lax.select_n(np.arange(64).reshape(8, 8) % 3, u, 2 * u, 3 * u),
     lambda a: a * (1 + np.arange(64).reshape(8, 8) % 3)),
], ids=["loop", "while", "rows", "constants", "map", "tile", "fill", "select"])
@pytest.mark.parametrize("x", ["Explicit", "Auto"])
def test_operations_of_several_steps_keep_summands(f, expected, x):
    """Functions that are linear in summands return summands, whatever the compiled program does between them."""
    mesh = xf.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType[x], AxisType.Explicit))
    with xf.set_mesh(mesh):
        found = xf.jit(lambda a: f(product(a)))(xf.device_put(A, P(None, "y")))
        assert xf.typeof(found).sharding.spec.unreduced == {"y"}
        np.testing.assert_allclose(full(found), expected(AAT), rtol=1e-5)


def test_gradients_of_reduced_weights_beside_axes_that_types_do_not_have():
    mesh = xf.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    with xf.set_mesh(mesh):
        w, a = xf.device_put(W, P(reduced={"x"})), xf.device_put(A, P("x", None))
        summands = xf.jit(xf.grad(lambda w: ((a @ w) ** 2).sum()))(w)
        assert xf.typeof(summands).sharding.spec.unreduced == {"x"}
        np.testing.assert_allclose(full(summands), 2 * A.T @ (A @ W), rtol=1e-5)
        assert xf.typeof(xf.jit(lambda w: xf.reshard(w, P()))(w)).sharding.spec.reduced == frozenset()
        assert xf.typeof(xf.jit(lambda w: 2 * w)(w)).sharding.spec.reduced == {"x"}


def test_nonzero_fill_values_of_summands_raise():
    with pytest.raises(ShardingTypeError, match="fill value 5"):
        xf.jit(lambda a: product(a).at[np.array([1, 99])].get(mode="fill", fill_value=5))(put(A, None, "y"))


def test_summands_within_partly_manual_regions_raise():
    """XLA ends the process where it finds them."""
    def inside(a):
        return xf.reshard(product(a), P())

    with pytest.raises(NotImplementedError, match="unreduced over 'y'"):
        xf.jit(lambda a: xf.shard_map(inside, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(a))(put(A, "x", "y"))
    with pytest.raises(ValueError, match="reduced over 'y'"):
        xf.shard_map(lambda w: w, in_specs=P(), out_specs=P(), axis_names={"x"})(put(W, reduced={"y"}))


@pytest.mark.parametrize("f", [
    lambda u: xnp.broadcast_to(u[:, 2:3], (8, 5)),
    lambda u: u[:, :1] + u - u[1:2],
    lambda u: u - u.sum(1, keepdims=True) + u.sum(),
    lambda u: xnp.cumsum(u),
    lambda u: lax.cumsum(xnp.concatenate([u.reshape(64)] * 17), reverse=True),
    lambda u: lax.scan(lambda c, _: (c + u[:, :1], c[0]), u, None, length=3),
], ids=["broadcast", "added", "centred", "flat", "blocks", "loop"])
def test_summands_are_broadcast_as_summands(f):
    """XLA inserts sums where dimensions of size 1 are dropped, and between operations whose results have no annotated type."""
    found = xf.jit(f)(product(put(A, "x", "y")))
    for x, expected in zip(xf.tree.leaves(found), xf.tree.leaves(f(xnp.asarray(AAT)))):
        assert xf.typeof(x).sharding.spec.unreduced == {"y"}
        np.testing.assert_allclose(full(x), expected, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("kind, reduce, found", [(UnreducedKind.max, lax.reduce_max, np.max),
                                                 (UnreducedKind.min, lax.reduce_min, np.min)], ids=["max", "min"])
def test_maxima_and_minima_stay_open(kind, reduce, found):
    """As in JAX: operations that move elements, and further reductions of the kind, pass them on; reshard reduces."""
    spec, a = P("x", None, unreduced={"y"}, unreduced_kind=kind), put(B, "x", None, "y")
    partial = lambda a: reduce(a, (2,), out_sharding=spec)  # noqa: E731
    if not allows_open_extremes():
        with pytest.raises(NotImplementedError, match="jaxlib 0.11"):
            xf.jit(partial)(a)
        return
    expected, shards = found(B, 2), found(B.reshape(8, 2, 2, 2), 3)
    for run in (lambda f, x: f(x), lambda f, x: xf.jit(f)(x)):
        y = run(partial, a)
        assert text(y) == f"8@x,2]{{U_{kind.name}:y}}"
        for i, shard in enumerate(y.addressable_shards):  # of the mesh of 4 by 2 devices
            np.testing.assert_array_equal(shard.data, shards[i // 2 * 2:i // 2 * 2 + 2, :, i % 2])
        np.testing.assert_array_equal(run(lambda y: xf.reshard(y, P("x")), y), expected)
        np.testing.assert_array_equal(run(lambda y: xf.reshard(xnp.stack([y.T, y.T[::-1]]), P()), y),
                                      np.stack([expected.T, expected.T[::-1]]))
        np.testing.assert_array_equal(run(lambda y: xf.reshard(reduce(y, (1,)), P("x")), y), found(expected, 1))
        np.testing.assert_array_equal(xf.device_put(y, xf.devices()[0]), expected)
        collect = {UnreducedKind.max: lax.pmax, UnreducedKind.min: lax.pmin}[kind]
        np.testing.assert_array_equal(
            run(xf.shard_map(lambda y: collect(y, "y"), in_specs=spec, out_specs=P("x")), y), expected)
        with pytest.raises(ValueError, match="UnreducedKind.sum"):
            run(lambda y: y + y, y)
        with pytest.raises(ValueError, match="unreduced_kind"):
            run(lambda y: xf.reshard(y, P("x", None, unreduced={"y"})), y)


def test_open_maxima_are_refused():
    largest = P("x", None, unreduced={"y"}, unreduced_kind=UnreducedKind.max)
    a = put(A, "x", None)
    for run in (lambda f: f(a), lambda f: xf.jit(f)(a)):
        with pytest.raises(ValueError, match="more unreduced"):
            run(lambda a: xf.reshard(a, largest))
        with pytest.raises(ShardingTypeError, match="UnreducedKind.sum"):
            run(lambda a: lax.reduce_sum(xf.reshard(a, P("x", "y")), (1,), out_sharding=P(
                "x", unreduced={"y"}, unreduced_kind=UnreducedKind.max)))
    with pytest.raises((NotImplementedError, ValueError), match="kind max|maxima"):
        put(A, "x", None, unreduced={"y"}, unreduced_kind=UnreducedKind.max)


@pytest.mark.parametrize("call, shown", [
    (lambda a: lax.psum(a, "x"), ""), (lambda a: lax.all_gather(a, "x", tiled=True), "V:x, "),
    (lambda a: lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True), "V:x, "),
    (lambda a: lax.ppermute(a, "x", [(0, 1), (1, 2), (2, 3)]), "V:x, "),
    (lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), "V:x, "),
    (lambda a: lax.all_gather(a, "x", tiled=True, to="invarying"), ""),
], ids=["psum", "all_gather", "psum_scatter", "ppermute", "all_to_all", "invarying"])
def test_linear_collectives_keep_sums_over_other_axes_open(call, shown):
    """As in JAX: a collective over x acts on the summands along y as on their sum."""
    seen = []

    def body(a):
        result = call(a)
        seen.append(text(result).partition("]")[2])
        return result

    for spec, mark in ((P("x", **U), "U:y"), (P("x", **R), "R:y")):
        value = xf.reshard(product(put(A, None, "y")), P("x", None, **U)) if mark == "U:y" else put(AAT, "x", None, **R)
        found = xf.jit(xf.shard_map(body, in_specs=spec, out_specs=spec))(value)
        assert set(seen) == {f"{{{shown}{mark}}}"}
        expected = xf.jit(xf.shard_map(body, in_specs=P("x"), out_specs=P("x")))(put(AAT, "x", None))
        seen.clear()
        np.testing.assert_allclose(full(found), full(expected), rtol=1e-5)


def test_gathers_to_reduced_values():
    with xf.set_mesh(xf.make_mesh((2, 2), ("x", "y"))) as mesh:
        rows = xf.device_put(A, P("x", None))
        gathered = xf.shard_map(lambda a: lax.all_gather(lax.pcast(a, "y", to="reduced"), "x", tiled=True, to="reduced"),
                                in_specs=P("x", None), out_specs=P(None, None, reduced={"x", "y"}))(rows)
        assert gathered.sharding == NamedSharding(mesh, P(None, None, reduced={"x", "y"})) and np.array_equal(gathered, A)
        total = xf.jit(xf.shard_map(lambda a: lax.psum(lax.all_gather(a, "y", axis=1, tiled=True, to="reduced").sum(), "x"),
                                    in_specs=P("x", "y"), out_specs=P(**R)))(xf.device_put(A, P("x", "y")))
        assert total.sharding == NamedSharding(mesh, P(**R)) and total == A.sum()


def test_derivatives_of_reduce_precision_leave_sums_open():
    r = put(np.arange(8, dtype=np.float32), **R)
    rounded = xf.jit(lambda x: lax.reduce_precision(x, 8, 3))
    assert rounded(r).sharding.spec == P(None, **R) and np.array_equal(rounded(r), np.arange(8))
    slope = xf.jit(xf.grad(lambda x: rounded(x).sum()))(r)
    assert slope.sharding.spec == P(None, **U) and np.array_equal(full(slope), np.ones(8))
