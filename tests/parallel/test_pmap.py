"""pmap on eight simulated devices: against vmap and NumPy, its shardings, its dispatch, and what bad input raises."""

import subprocess
import sys

import numpy as np
import pytest
from laws import signatures_seen

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import P, lax

pytestmark = pytest.mark.cpu_only


def elements(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sharded(x):
    """The devices that hold parts of an array, and the shape of those."""
    return len(x.sharding.device_set), {s.data.shape for s in x.addressable_shards}


def test_is_vmap_over_devices():
    x, w = elements(8, 3), elements(8, 3, seed=1)

    def f(x, w):
        return {"scaled": x / lax.psum(x * w, "i"), "top": lax.pmax(x, "i").max(), "index": lax.axis_index("i")}

    mapped, expected = xf.pmap(f, axis_name="i")(x, w), xf.vmap(f, axis_name="i")(x, w)
    for name in expected:
        np.testing.assert_allclose(mapped[name], expected[name], rtol=1e-5)
        assert mapped[name].dtype == expected[name].dtype
    assert sharded(mapped["scaled"]) == (8, {(1, 3)})


@pytest.mark.parametrize("in_axes, out_axes, shapes", [
    (1, 1, [(3, 8)]), (-1, 0, [(3, 8)]), ((0, None), 0, [(8, 3), (3,)]), ((0, 2), -1, [(8, 3, 2), (3, 2, 8)]),
    (({"a": 0, "b": None},), 0, [{"a": (8, 2), "b": (2,)}]), (0, {"y": 1}, [(8, 3)]), ([0, None], 0, [(8, 3), (3,)]),
])
def test_axes(in_axes, out_axes, shapes):
    args = [xf.tree.map(lambda s: elements(*s), s, is_leaf=lambda s: isinstance(s, tuple)) for s in shapes]

    def f(*args):
        total = xnp.sin(sum(x for x in xf.tree.leaves(args)))
        return {"y": total} if isinstance(out_axes, dict) else total

    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    expected = xf.vmap(f, in_axes=axes, out_axes=out_axes)(*args)
    found = xf.pmap(f, in_axes=in_axes, out_axes=out_axes)(*args)
    for x, y in zip(xf.tree.leaves(found), xf.tree.leaves(expected)):
        np.testing.assert_allclose(x, y, rtol=1e-6)
        assert x.shape == y.shape


def test_keywords_static_arguments_and_results_for_all():
    x = elements(8, 3)

    def f(x, power, *, bias):
        return lax.pmean(x ** power + bias["b"], "i")

    mapped = xf.pmap(f, axis_name="i", static_broadcasted_argnums=1, out_axes=None)
    for power in (2, 3, 2):
        np.testing.assert_allclose(mapped(x, power, bias={"b": np.ones(8)}), (x ** power).mean(0) + 1, rtol=1e-4)
    assert mapped(x, 2, bias={"b": np.ones(8)}).sharding.is_fully_replicated
    shared = xf.pmap(lambda x, n, w: x * w * n, in_axes=(0, None, None), static_broadcasted_argnums=1)
    np.testing.assert_allclose(shared(x, 2, 3.0), 6 * x, rtol=1e-6)


def test_size_and_devices():
    assert xf.pmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=3)().tolist() == [0, 1, 2]
    x = elements(4, 2)
    assert sharded(xf.pmap(lambda x: x + 1)(x)) == (4, {(1, 2)})
    assert {d.id for d in xf.pmap(lambda x: x, devices=xf.devices()[4:])(x[:2]).devices()} == {4, 5}
    assert xf.pmap(lambda x: x)(np.ones((1, 2))).sharding.spec == xf.pmap(lambda x: x)(x).sharding.spec
    assert xf.pmap(lambda x: x + 1)(np.ones((8, 0))).shape == (8, 0)
    chosen = xf.devices()[::-1][:4]
    found = xf.pmap(lambda x: x + lax.axis_index("i"), axis_name="i", devices=chosen)(x)
    np.testing.assert_allclose(found, x + np.arange(4)[:, None], rtol=1e-6)
    assert [s.device for s in sorted(found.addressable_shards, key=lambda s: s.index[0].start)] == chosen


def test_results_are_passed_to_the_next_step_without_transfers():
    def step(w, x):
        return w - 0.1 * lax.pmean(w * x.sum(), "i")

    mapped = xf.pmap(step, axis_name="i")
    w, x = mapped(elements(8, 3), elements(8, 5, seed=1)), elements(8, 5, seed=1)
    x = xf.pmap(lambda x: x)(x)
    with xf.transfer_guard("disallow"):
        again = mapped(w, x)
    assert again.sharding == w.sharding == xf.NamedSharding(w.sharding.mesh, P("i"))
    with signatures_seen() as seen:
        for _ in range(3):
            again = mapped(again, x)
    assert not seen


def test_donation():
    step = xf.pmap(lambda w: w + 1, donate_argnums=0)
    w = step(elements(8, 3))
    following = step(w)
    assert w.is_deleted() and not following.is_deleted()
    with pytest.raises(RuntimeError, match="deleted.*argument w.*donated"):
        step(w)


def test_under_other_transformations():
    x = elements(8, 3)

    def f(x):
        return xnp.sin(x) * lax.psum(x, "i")

    mapped, plain = xf.pmap(f, axis_name="i"), xf.vmap(f, axis_name="i")
    np.testing.assert_allclose(xf.jit(mapped)(x), plain(x), rtol=1e-5)
    gradient = xf.grad(lambda x: (plain(x) ** 2).sum())(x)
    np.testing.assert_allclose(xf.grad(lambda x: (mapped(x) ** 2).sum())(x), gradient, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(xf.jit(xf.grad(lambda x: (mapped(x) ** 2).sum()))(x), gradient, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(xf.jvp(mapped, (x,), (x,))[1], xf.jvp(plain, (x,), (x,))[1], rtol=1e-4, atol=1e-5)
    batch = elements(8, 2, 3)
    np.testing.assert_allclose(xf.vmap(mapped, in_axes=1)(batch), xf.vmap(plain, in_axes=1)(batch), rtol=1e-5)
    both = xf.pmap(xf.vmap(lambda x: lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i")(x)
    np.testing.assert_allclose(both, np.full((8, 3), x.sum()), rtol=1e-4)


def test_without_jit():
    """Under disable_jit the function of a device is still one program."""
    x = elements(8, 3)
    with xf.disable_jit():
        mapped = xf.pmap(lambda x: x * lax.psum(x, "i"), axis_name="i")
        np.testing.assert_allclose(mapped(x), x * x.sum(0), rtol=1e-5)
        np.testing.assert_allclose(xf.grad(lambda x: mapped(x).sum())(x), np.broadcast_to(2 * x.sum(0), x.shape), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "int8", "bool"])
def test_dtypes_and_types_of_results(dtype):
    x = xnp.asarray(elements(8, 2)).astype(dtype)
    found, weak, nothing = xf.pmap(lambda x: (x + x, 2.0, None))(x)
    assert found.dtype == x.dtype and weak.dtype == np.float32 and weak.weak_type and nothing is None
    np.testing.assert_array_equal(np.asarray(found), np.asarray(x + x))
    assert found.sharding.spec == P("_internal_pmap_axis_name") and found.committed


def test_results_are_read_as_other_arrays():
    """As Flax's unreplicate does, and loops over what devices returned."""
    tree = xf.pmap(lambda x: {"a": x, "b": x.sum()})(elements(8, 3))
    first = xf.tree.map(lambda x: x[0], tree)
    np.testing.assert_allclose(first["a"], elements(8, 3)[0])
    np.testing.assert_allclose(first["b"], elements(8, 3)[0].sum(), rtol=1e-6)
    rows = list(tree["a"])
    np.testing.assert_allclose(rows, elements(8, 3))
    assert all(row.devices() == {xf.devices()[0]} and not row.committed for row in rows)  # as NumPy's would be
    np.testing.assert_allclose(tree["a"][-1, 1], elements(8, 3)[-1, 1])
    np.testing.assert_allclose(tree["a"][2:4], elements(8, 3)[2:4])


def test_no_copies_between_steps():
    identity = xf.pmap(lambda x: (x, x * 2), donate_argnums=0)
    x, _ = identity(elements(8, 3))
    pointers = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
    again, _ = identity(x)
    assert [s.data.unsafe_buffer_pointer() for s in again.addressable_shards] == pointers


def test_gradients_inside():
    """As the reference has it, derivatives inside of a device are those of the sum over all devices."""
    x, w = elements(8, 3), elements(3, seed=1)

    def gradient(w, x):
        return lax.pmean(xf.grad(lambda w: ((x * w).sum()) ** 2)(w), "i")

    found = xf.pmap(gradient, axis_name="i", in_axes=(None, 0), out_axes=None)(w, x)
    np.testing.assert_allclose(found, (2 * (x @ w)[:, None] * x).mean(0), rtol=1e-4, atol=1e-5)
    sent = xf.pmap(lambda x, w: xf.grad(lambda x: (w * lax.psum(x, "i")).sum())(x), axis_name="i")(x, x)
    np.testing.assert_allclose(sent, np.broadcast_to(x.sum(0), (8, 3)), rtol=1e-4, atol=1e-5)


def test_keys_closures_and_stages():
    keys, table = xf.random.split(xf.random.key(0), 8), xnp.asarray(elements(4))
    found = xf.pmap(lambda k: xf.random.normal(k, (4,)) * table)(keys)
    np.testing.assert_allclose(found, xf.vmap(lambda k: xf.random.normal(k, (4,)) * table)(keys), rtol=1e-6)
    x = elements(8, 3)
    mapped = xf.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    lowered = mapped.lower(x)
    assert "sdy.manual_computation" in lowered.as_text() and "all_reduce" in lowered.as_text()
    np.testing.assert_allclose(lowered.compile()(x), mapped(x), rtol=1e-6)
    assert mapped.eval_shape(x).shape == (8, 3)


def test_training_data_parallel_equals_training_on_everything():
    x, y = elements(16, 4), elements(16, 1, seed=1)
    w = elements(4, 1, seed=2)

    def loss(w, x, y):
        return ((xnp.tanh(x @ w) - y) ** 2).mean()

    def step(w, x, y):
        return w - 0.5 * lax.pmean(xf.grad(loss)(w, x, y), "data")

    mapped = xf.pmap(step, axis_name="data", donate_argnums=0)
    on_devices = xf.pmap(lambda _: w)(np.zeros(8))
    full = w
    for _ in range(5):
        on_devices = mapped(on_devices, x.reshape(8, 2, 4), y.reshape(8, 2, 1))
        full = full - 0.5 * xf.grad(loss)(full, x, y)
    np.testing.assert_allclose(on_devices, np.broadcast_to(full, (8, 4, 1)), rtol=1e-4, atol=1e-6)


LOOP = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import numpy as np
import xlafront as xf
from xlafront import lax
body = lambda w, x: w - 0.25 * (w - lax.pmean(x, "i"))
if "{kind}" == "pmap":
    step = xf.pmap(body, axis_name="i")
else:
    P = xf.P("i")
    step = xf.jit(xf.shard_map(body, mesh=xf.make_mesh((8,), ("i",), (xf.sharding.AxisType.Auto,)), in_specs=(P, P), out_specs=P))
w, x = np.zeros((8, 4), np.float32), np.arange(32, dtype=np.float32).reshape(8, 4)
for _ in range({steps}):
    w = step(w, x)
    step(w, x)
np.testing.assert_allclose(w, np.broadcast_to(x.mean(0), (8, 4)), rtol=1e-5)
print("finished")
"""


@pytest.mark.parametrize("kind", ["pmap", "jit"])
def test_asynchronous_loop_finishes_on_two_cores(kind):
    """Steps that depend on each other and steps that do not; ten thousand take ten seconds by hand."""
    script = LOOP.replace("{steps}", "400").replace("{kind}", kind)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert "finished" in done.stdout, done.stderr


@pytest.mark.parametrize("options, arguments, error, words", [
    ({}, (np.ones((16, 2)), np.ones((16, 2))), ValueError, ["pmap of f", "16", "x has shape (16, 2)", "there are 8"]),
    ({}, (np.ones((8, 2)), {"w": np.ones((4, 2))}), ValueError, ["inconsistent sizes", "argument x of type float32[8,2]", "argument y['w'] of type float32[4,2]"]),
    ({}, (np.ones((8, 2)), 3.0), ValueError, ["y over axis 0", "()", "None"]),
    ({"in_axes": None}, (np.ones((8, 2)), 3.0), ValueError, ["mapped argument", "axis_size"]),
    ({"axis_size": 4}, (np.ones((8, 2)), np.ones(8)), ValueError, ["axis_size=4", "float32[8,2]"]),
    ({"in_axes": (0, 0, 0)}, (np.ones((8, 2)), np.ones(8)), ValueError, ["in_axes"]),
    ({"out_axes": 3}, (np.ones((8, 2)), np.ones(8)), ValueError, ["out_axes=3", "result", "(2,)"]),
    ({}, ("text", np.ones(8)), TypeError, ["x", "str"]),
    ({"static_broadcasted_argnums": 1}, (np.ones((8, 2)), [1]), ValueError, ["y", "list", "hash"]),
])
def test_bad_arguments(options, arguments, error, words):
    def f(x, y):
        return x

    with pytest.raises(error) as found:
        xf.pmap(f, **options)(*arguments)
    for word in words:
        assert word in str(found.value)


def test_bad_options():
    with pytest.raises(ValueError, match="devices= lists 2"):
        xf.pmap(lambda x: x, devices=xf.devices()[:2])(np.ones(3))
    with pytest.raises(ValueError, match="a device twice in devices= \\(\\[0, 0\\]\\)"):
        xf.pmap(lambda x: x, devices=[xf.devices()[0]] * 2)(np.ones(2))
    with pytest.raises(ValueError, match=r"over no elements \(x has shape \(0, 3\)\)"):
        xf.pmap(lambda x: x)(np.ones((0, 3)))
    for options in ({"in_axes": "a"}, {"in_axes": False}, {"in_axes": (0, True)}, {"out_axes": False}):
        with pytest.raises(TypeError, match="axes must be an int, None"):
            xf.pmap(lambda x: x, **options)
    with pytest.raises(ValueError, match="devices of pmap must be non-empty"):
        xf.pmap(lambda x: x, devices=[])
    power = xf.pmap(lambda x, n=2: x ** n, static_broadcasted_argnums=1)
    assert power(np.full(2, 3.0), 2).tolist() == [9, 9]
    for arguments, keywords in (((np.ones(2),), {}), ((np.ones(2),), {"n": 2})):
        with pytest.raises(ValueError, match="only 1 positional argument"):
            power(*arguments, **keywords)
    with pytest.raises(TypeError, match="takes a function"):
        xf.pmap(3)
    with pytest.raises(ValueError, match="both static and donated"):
        xf.pmap(lambda x: x, static_broadcasted_argnums=0, donate_argnums=0)
    with pytest.raises(ValueError, match="position 5"):
        xf.pmap(lambda x: x, static_broadcasted_argnums=5)
    with pytest.raises(NameError, match="'i'.*unbound"):
        xf.pmap(lambda x: lax.psum(x, "i"))(np.ones(8))
    with pytest.raises(ValueError, match="pmap of .*each device already.*vmap"):
        xf.pmap(xf.pmap(lambda x: x))(np.ones((2, 2)))
