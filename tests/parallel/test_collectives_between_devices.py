"""Collectives between devices, against the program on whole arrays in NumPy."""

import re

import numpy as np
import pytest
from test_collectives import GROUPED, GROUPS, LINEAR, TABLE, in_groups

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import P, lax
from xlafront.runtime import backends

pytestmark = pytest.mark.cpu_only  # several devices


@pytest.fixture(scope="module")
def mesh():
    return xf.make_mesh((2, 4), ("i", "j"), axis_types=(xf.sharding.AxisType.Auto,) * 2)


def mapped(function, mesh, spec=P("j"), check=True, **kwargs):
    return xf.jit(xf.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check, **kwargs))


def elements(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def of_one_each(function):
    """The function of the one element that each device has a part of arrays."""
    return lambda *args: xf.tree.map(lambda x: x[None], function(*xf.tree.map(lambda x: x[0], args)))


# Groups


@pytest.mark.parametrize("check", [True, False])
def test_groups(mesh, check):
    x = elements(4, 2, 3)
    call = mapped(of_one_each(lambda x: {name: f(x, "j", axis_index_groups=GROUPS) for name, f in GROUPED.items()}), mesh, check=check)
    for name, found in call(x).items():
        np.testing.assert_allclose(found, in_groups(TABLE[name][1], x), rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("check", [True, False])
def test_derivatives_in_groups(mesh, check):
    """Derivatives of linear functions, whose matrices the oracles give."""
    x, names = elements(4, 2, 3), [name for name in GROUPED if name in LINEAR]
    oracles = {name: lambda x, name=name: in_groups(TABLE[name][1], x) for name in names}
    weights = {name: elements(*oracles[name](x).shape, seed=1) for name in names}

    def loss(x, w):
        results = {name: GROUPED[name](x, "j", axis_index_groups=GROUPS) for name in names}
        return {name: (w[name] * result).sum() for name, result in results.items()}

    def total(x, name):
        call = xf.shard_map(of_one_each(loss), mesh=mesh, in_specs=P("j"), out_specs=P("j"), check_vma=check)
        return call(x, weights)[name].sum()

    units = np.eye(x.size, dtype=np.float32).reshape(x.size, *x.shape)
    gradients = xf.jit(lambda x: {name: xf.grad(lambda x: total(x, name))(x) for name in names})(x)
    for name in names:
        expected = np.array([(weights[name] * oracles[name](unit)).sum() for unit in units]).reshape(x.shape)
        np.testing.assert_allclose(gradients[name], expected, rtol=1e-4, atol=1e-5, err_msg=name)


def test_derivatives_of_extremes_in_groups(mesh):
    x, w = elements(4, 3), elements(4, 3, seed=1)
    for name, best in (("pmax", np.max), ("pmin", np.min)):
        call = mapped(of_one_each(lambda x, name=name: GROUPED[name](x, "j", axis_index_groups=GROUPS)), mesh)
        gradient = xf.grad(lambda x, call=call: (w * call(x)).sum())(x)
        expected = np.zeros_like(x)
        for group in GROUPS:
            expected[group] = np.where(x[group] == best(x[group], axis=0), w[group].sum(0), 0)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, err_msg=name)


def test_results_of_groups_vary(mesh):
    with pytest.raises(ValueError, match="to='invarying'.*'j'"):
        mapped(lambda x: lax.all_gather(x, "j", axis_index_groups=GROUPS, to="invarying"), mesh)(elements(4))
    with pytest.raises(ValueError, match="to='reduced'"):
        mapped(lambda x: lax.all_gather(x, "j", axis_index_groups=GROUPS, to="reduced"), mesh)(elements(4))
    with pytest.raises(ValueError, match="varies"):
        xf.shard_map(lambda x: lax.pmax(x, "j", axis_index_groups=GROUPS), mesh=mesh, in_specs=P("j"), out_specs=P())(elements(4))


# Types


@pytest.mark.parametrize("check", [True, False])
def test_weak_types(mesh, check):
    """As in the reference: reductions of weak values are weak only where types say what varies."""
    scalar, found = xnp.asarray(2.0), {}

    def local(x):
        found.update(psum=lax.psum(scalar, "j"), pmax=lax.pmax(scalar, "j"), constant=lax.pmax(3, "j"),
                     gathered=lax.all_gather(scalar, "j"), moved=lax.ppermute(scalar, "j", [(0, 1)]), counted=lax.psum(True, "j"),
                     exchanged=lax.all_to_all(xnp.stack([scalar] * 4), "j", 0, 0))
        found.update({name: xf.typeof(value) for name, value in found.items()})
        return x

    mapped(local, mesh, check=check)(elements(4))
    weak = {name: aval.weak_type for name, aval in found.items()}
    always = {"gathered": True, "moved": True, "counted": False, "exchanged": False}
    assert weak == {"psum": check, "pmax": check, "constant": check} | always
    assert found["constant"].dtype == found["counted"].dtype == np.int32


# Runs of different lengths


def runs(n, each=1, seed=0):
    """Random runs from each to each that fit without overlap: starts, sizes, targets (by sender), sizes by receiver."""
    sizes = np.random.default_rng(seed).integers(0, 3, (n, n, each))  # from, to, which
    starts = (np.cumsum(sizes.reshape(n, -1), 1) - sizes.reshape(n, -1)).reshape(sizes.shape) + 1
    arriving = np.moveaxis(sizes, 0, 1).reshape(n, -1)  # at each, by sender
    targets = np.moveaxis((np.cumsum(arriving, 1) - arriving).reshape(n, n, each), 0, 1) + 1
    return starts, sizes, targets


def exchange(operand, output, starts, sizes, targets):
    result = output.copy()
    for s, r, k in np.ndindex(sizes.shape):
        n = sizes[s, r, k]
        result[r, targets[s, r, k]:targets[s, r, k] + n] = operand[s, starts[s, r, k]:starts[s, r, k] + n]
    return result


def arguments(starts, sizes, targets):
    n = len(sizes)
    received = np.moveaxis(sizes, 0, 1)
    return [np.ascontiguousarray(x, np.int32).reshape(n, -1) for x in (starts, sizes, targets, received)]


def ragged(axis, **kwargs):
    return lambda *args: lax.ragged_all_to_all(*args, axis_name=axis, **kwargs)


@pytest.mark.parametrize("axis, n, each", [("j", 4, 1), ("i", 2, 2), (("i", "j"), 8, 1), (("j", "i"), 8, 2)])
def test_ragged_all_to_all(mesh, axis, n, each):
    plan = runs(n, each, seed=n)
    rows = int(plan[1].sum(axis=(1, 2)).max() + plan[1].sum(axis=(0, 2)).max()) + 2
    operand, output = elements(n, rows, 3), -np.ones((n, rows + 1, 3), np.float32)
    expected = exchange(operand, output, *plan)
    args = arguments(*plan)
    call = mapped(of_one_each(ragged(axis)), mesh, P(axis))
    np.testing.assert_array_equal(call(operand, output, *args), expected)
    if not isinstance(axis, tuple):
        np.testing.assert_array_equal(xf.vmap(ragged(axis), axis_name=axis)(operand, output, *args), expected)
    weights = elements(*output.shape, seed=1)
    starts, sizes, targets = plan
    by_operand = exchange(weights, np.zeros_like(operand), *(np.swapaxes(x, 0, 1) for x in (targets, sizes, starts)))
    by_output = np.where(exchange(np.zeros_like(operand), np.ones_like(output), *plan) == 1, weights, 0)
    grads = xf.grad(lambda a, b: (weights * call(a, b, *args)).sum(), argnums=(0, 1))(operand, output)
    np.testing.assert_array_equal(grads[0], by_operand)
    np.testing.assert_array_equal(grads[1], by_output)
    _, tangent = xf.jvp(lambda a: call(a, output, *args), (operand,), (operand[:, ::-1].copy(),))
    np.testing.assert_array_equal(tangent, exchange(operand[:, ::-1], np.zeros_like(output), *plan))


def test_ragged_all_to_all_in_groups(mesh):
    groups = [[0, 3], [2, 1]]
    plan = runs(2)
    operand, output = elements(4, 9), np.zeros((4, 9), np.float32)
    args = [np.empty((4, 2), np.int32) for _ in range(4)]
    expected = output.copy()
    for group in groups:
        expected[group] = exchange(operand[group], output[group], *plan)
        for full, part in zip(args, arguments(*plan)):
            full[group] = part
    call = ragged("j", axis_index_groups=groups)
    np.testing.assert_array_equal(mapped(of_one_each(call), mesh, check=False)(operand, output, *args), expected)
    np.testing.assert_array_equal(xf.vmap(call, axis_name="j")(operand, output, *args), expected)


@pytest.mark.parametrize("axes", [(0,) * 6, (1, 1, 0, 1, 0, 1), (None, 0, 0, 0, 0, 0), (0, None, None, None, None, None)])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_ragged_all_to_all_over_another_axis(mesh, axes, dtype):
    """Each element of a batch has its own runs: as in a loop over them."""
    n, size = 4, 20  # in all more rows than 8 bits count
    plans = [arguments(*runs(n, seed=seed)) for seed in range(size)]
    values = [elements(size, n, 26), elements(size, n, 26, seed=1), *(np.stack(x).astype(dtype) for x in zip(*plans))]
    expected = []
    for b in range(size):
        operand, output, *plan = [x[0 if a is None else b] for x, a in zip(values, axes)]
        expected.append(exchange(operand, output, *(x.reshape(n, n, 1).astype(int) for x in plan[:3])))
    shards = [x[0] if a is None else np.moveaxis(x, 0, a + 1) for x, a in zip(values, axes)]  # the first dimension: of devices
    result = mapped(of_one_each(xf.vmap(ragged("j"), in_axes=axes)), mesh)(*shards)
    np.testing.assert_array_equal(np.moveaxis(result, 1, 0), np.stack(expected))


def test_ragged_all_to_all_over_a_mapped_axis_and_one_of_the_mesh(mesh):
    plan = runs(8)
    operand, output, args = elements(8, 27), elements(8, 27, seed=1), arguments(*plan)
    shards = [x.reshape(2, 4, -1) for x in (operand, output, *args)]
    call = mapped(xf.vmap(of_one_each(ragged(("k", "j"))), axis_name="k"), mesh, P(None, "j"))
    np.testing.assert_array_equal(call(*shards).reshape(8, -1), exchange(operand, output, *plan))


def test_ragged_all_to_all_is_one_operation_where_there_is_one(mesh, monkeypatch):
    monkeypatch.setattr(backends, "lowering_platform", lambda client: "cuda")
    call = mapped(of_one_each(ragged("j")), mesh)
    text = call.lower(elements(4, 9), elements(4, 9), *arguments(*runs(4))).as_text()
    assert text.count("stablehlo.custom_call @ragged_all_to_all") == 1 and "all_gather" not in text
    assert "replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]>" in text


@pytest.mark.parametrize("change, words", [
    ({"output": np.zeros((9, 2), np.float32)}, ["float32[9]", "float32[9,2]", "rows"]),
    ({"output": np.zeros(9, np.int32)}, ["float32[9]", "int32[9]"]),
    ({"send_sizes": np.zeros(4, np.float32)}, ["send_sizes", "float32[4]", "integers"]),
    ({"input_offsets": np.zeros((4, 1), np.int32)}, ["input_offsets", "int32[4,1]"]),
    ({"recv_sizes": np.zeros(3, np.int32)}, ["recv_sizes", "'j'", "size 4", "(3,)"]),
])
def test_bad_ragged_all_to_all(change, words):
    args = {"operand": np.zeros(9, np.float32), "output": np.zeros(9, np.float32)}
    args |= dict.fromkeys(("input_offsets", "send_sizes", "output_offsets", "recv_sizes"), np.zeros(4, np.int32)) | change
    with pytest.raises(ValueError) as found:
        xf.make_jaxpr(lambda: lax.ragged_all_to_all(**args, axis_name="j"), axis_env=[("j", 4)])()
    for word in ["ragged_all_to_all", *words]:
        assert word in str(found.value)
    with pytest.raises(TypeError, match="output_offsets.*list"):
        xf.make_jaxpr(lambda: lax.ragged_all_to_all(**args | {"output_offsets": [0] * 4}, axis_name="j"), axis_env=[("j", 4)])()


# Halves of an exchange

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def halves(x, axis, perm):
    return lax.precv(lax.psend(x, axis, perm), x, axis, perm)


@pytest.mark.parametrize("axis, perm, n", [("j", RING, 4), ("j", [(2, 0)], 4), (("i", "j"), [(0, 7), (7, 1)], 8)])
def test_send_and_receive(mesh, axis, perm, n):
    x = elements(n, 3)
    expected = np.zeros_like(x)
    for source, target in perm:
        expected[target] = x[source]
    np.testing.assert_array_equal(mapped(lambda x: halves(x, axis, perm), mesh, P(axis))(x), expected)
    np.testing.assert_array_equal(mapped(lambda x: halves(x, axis, perm), mesh, P(axis), check=False)(x), expected)
    devices = xf.devices()[:n]
    if not isinstance(axis, tuple):
        np.testing.assert_array_equal(xf.pmap(lambda x: halves(x, axis, perm), axis, devices=devices)(x), expected)

    def loop(x):
        return lax.scan(lambda c, _: (halves(c, axis, perm), None), x, None, length=4)[0]

    if perm is RING:
        np.testing.assert_array_equal(mapped(loop, mesh, P(axis))(x), x)


def test_several_sends_before_their_receives(mesh):
    def local(x):
        back = [(t, s) for s, t in RING]
        tokens = lax.psend([x, x[::-1]], "j", RING)
        other = lax.psend(x, "j", back)
        return x + sum(lax.precv(t, x, "j", RING) for t in tokens) + lax.precv(other, x, "j", back)

    x = elements(8)
    shards = x.reshape(4, 2)
    expected = shards + np.roll(shards + shards[:, ::-1], 1, 0) + np.roll(shards, -1, 0)
    np.testing.assert_allclose(mapped(local, mesh)(x), expected.reshape(-1), rtol=1e-6)


def test_halves_are_two_operations_on_gpus(mesh, monkeypatch):
    monkeypatch.setattr(backends, "lowering_platform", lambda client: "cuda")

    def local(x):
        lax.psend(x, "i", [(0, 1)])  # runs, although no device here receives it
        return lax.precv(lax.after_all(lax.psend(x, "j", RING), lax.create_token()), x, "j", RING)

    text = mapped(local, mesh).lower(elements(4, 2)).as_text()
    assert text.count("stablehlo.send") == 2 and text.count("stablehlo.recv") == 1 and "collective_permute" not in text
    pairs = "[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]"
    assert text.count(f"source_target_pairs = dense<{pairs}>") == 2
    assert "source_target_pairs = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]>" in text
    handles = [line.split("handle<handle = ")[1].split(",")[0] for line in text.splitlines() if "channel_handle" in line]
    assert len(handles) == 3 and handles[0] != handles[1] == handles[2]


@pytest.mark.parametrize("local, error, words", [
    (lambda x: halves(x, "j", [(0, 1), (2, 1)]), ValueError, ["psend", "destination 1", "twice"]),
    (lambda x: halves(x, "j", [(0, 4)]), ValueError, ["psend", "destination 4", "'j'", "size 4"]),
    (lambda x: halves(x, "k", RING), NameError, ["psend", "'k'", "shard_map"]),
    (lambda x: lax.precv(x, x, "j", RING), TypeError, ["precv", "token", "psend"]),
    (lambda x: lax.precv(lax.psend(x, "j", RING), [3], "j", RING), TypeError, ["precv", "out_shape", "int"]),
    (lambda x: lax.precv(lax.psend(x, "j", RING), x, "j", [(0, 1)]), NotImplementedError, ["precv", "'j'", "ppermute"]),
    (lambda x: lax.precv(lax.create_token(), x, "j", RING), NotImplementedError, ["precv", "'j'", "cpu", "GPUs"]),
    (lambda x: lax.precv(lax.psend(x, "j", RING), x.astype("int8"), "j", RING), ValueError, ["precv", "int8[1]", "float32[1]"]),
    (lambda x: xf.vmap(lambda x: halves(x, "j", RING))(x), NotImplementedError, ["vmap", "'j'", "ppermute"]),
    (lambda x: lax.after_all(x), TypeError, ["after_all", "operands[0]"]),
])
def test_bad_halves(mesh, local, error, words):
    with pytest.raises(error) as found:
        mapped(local, mesh)(elements(4))
    for word in words:
        assert word in str(found.value)


def test_received_values_vary(mesh):
    with pytest.raises(ValueError, match="varies"):
        xf.shard_map(lambda x: halves(x, "j", RING), mesh=mesh, in_specs=P("j"), out_specs=P())(elements(4))


def test_halves_of_a_mapped_axis():
    with pytest.raises(NotImplementedError, match="ppermute"):
        xf.vmap(lambda x: halves(x, "j", RING), axis_name="j")(elements(4))
    assert repr(lax.after_all(lax.create_token(), lax.create_token())) == "Token()"


@pytest.fixture()
def unchecked_order():
    xf.config.update("raise_on_ppermute_sort_diff", False)
    yield
    xf.config.update("raise_on_ppermute_sort_diff", True)


ORDERS = [("i", "j"), ("j", "i"), ("k", "i"), ("j", "k"), ("k", "j", "i"), ("j", "k", "i")]


@pytest.mark.parametrize("names", ORDERS, ids="".join)
def test_indices_along_axes_in_another_order_than_the_mesh(unchecked_order, names):
    """All collectives count along the axes as `axis_index` does: the last name varies fastest."""
    sizes = {"i": 2, "j": 2, "k": 2}
    mesh = xf.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(xf.sharding.AxisType.Auto,) * 3)
    count = 2 ** len(names)
    perm = [(0, 1), (1, 0), (2, 3), (3, 2)] if count == 4 else [(k, 3 * k % 8) for k in range(8)]

    def local(x):
        index = lax.axis_index(names)
        sent = xnp.zeros(count).at[xnp.array([t for _, t in sorted(perm)])[index]].set(x[0])  # block t goes to index t
        exchanged = lax.all_to_all(sent, names, 0, 0, tiled=True)
        source = xnp.array([s for s, _ in sorted(perm, key=lambda pair: pair[1])])[index]
        return {"permuted": lax.ppermute(x, names, perm), "gathered": lax.all_gather(x[0], names)[source][None],
                "summed": lax.psum_scatter(sent, names)[None], "exchanged": exchanged[source][None], "index": index[None],
                "shuffled": lax.pshuffle(x, names, [s for s, _ in sorted(perm, key=lambda pair: pair[1])])}

    x = np.arange(8, dtype=np.float32)
    found = xf.jit(xf.shard_map(local, mesh=mesh, in_specs=P(("i", "j", "k")), out_specs=P(("i", "j", "k"))))(x)
    coordinates = dict(zip(sizes, np.unravel_index(np.arange(8), (2, 2, 2))))
    index = np.ravel_multi_index([coordinates[n] for n in names], (2,) * len(names))
    others = [coordinates[n] for n in sizes if n not in names]
    expected = np.empty_like(x)
    for s, t in perm:
        for d in np.flatnonzero(index == s):
            same_others = np.all([c == c[d] for c in others], axis=0) if others else True
            expected[(index == t) & same_others] = x[d]
    np.testing.assert_array_equal(found.pop("index"), index)
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected, err_msg=name)


def test_ppermute_refuses_another_order_than_the_mesh(mesh):
    x, spec = elements(8), P(("i", "j"))
    for permute in (lambda x: lax.ppermute(x, ("j", "i"), [(0, 1)]), lambda x: lax.pshuffle(x, ("j", "i"), range(8))):
        assert xf.eval_shape(mapped(permute, mesh, spec), x).shape == (8,)  # the devices are known when it is lowered
        for check in (True, False):
            with pytest.raises(RuntimeError, match=r"('j', 'i').*order.*('i', 'j').*raise_on_ppermute_sort_diff"):
                mapped(permute, mesh, spec, check)(x)
    np.testing.assert_array_equal(mapped(lambda x: lax.ppermute(x, ("i", "j"), [(0, 1)]), mesh, spec)(x), [0, x[0], *[0] * 6])


def test_ppermute_is_compiled_for_each_check_of_the_order(mesh, request):
    f = mapped(lambda x: lax.ppermute(x, ("j", "i"), [(0, 1)]), mesh, P(("i", "j")))
    request.getfixturevalue("unchecked_order")
    x = np.arange(1, 9, dtype=np.float32)
    np.testing.assert_array_equal(f(x), [0, 0, 0, 0, 1, 0, 0, 0])
    xf.config.update("raise_on_ppermute_sort_diff", True)
    with pytest.raises(RuntimeError, match="order"):
        f(x)


@pytest.mark.parametrize("exchange", [
    lambda x: lax.psum(x, "j"), lambda x: lax.all_gather(x, "j", tiled=True), lambda x: lax.ppermute(x, "j", RING)])
def test_a_collective_written_twice_happens_once(mesh, exchange):
    def local(x):
        return xnp.sin(exchange(x)) + xnp.cos(exchange(x))

    program = mapped(local, mesh).lower(elements(4, 8)).compile().as_text()
    assert len(re.findall(r"(all-reduce|all-gather|collective-permute)(-start)?\(", program)) == 1


def test_equal_and_combined_collectives_of_one_device(rng):
    def local(x):
        return lax.psum(xnp.sin(x), "i") + lax.pmean(x * 2, "i") + lax.all_gather(x, "i", tiled=True) + lax.all_gather(
            x, "i", tiled=True)

    x = rng.normal(size=4).astype(np.float32)
    one = xf.make_mesh((1,), ("i",), axis_types=(xf.sharding.AxisType.Auto,))
    sharded = xf.shard_map(local, mesh=one, in_specs=xf.P("i"), out_specs=xf.P("i"), check_vma=False)
    for found in (xf.jit(sharded)(x), xf.pmap(local, axis_name="i")(x[None])[0]):
        np.testing.assert_allclose(found, np.sin(x) + 4 * x, rtol=1e-5, atol=1e-6)
