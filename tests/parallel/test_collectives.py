"""Collectives over axes named by vmap: against the whole array in NumPy, through jit, nested vmaps and derivatives."""

import itertools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

N = 4  # elements along an axis in the tables


def _share(result, n):
    return np.broadcast_to(result, (n, *np.shape(result)))


def _all_to_all(x, split, concat, tiled):
    n = len(x)
    if tiled:
        pieces = [np.split(e, n, axis=split) for e in x]
        return np.stack([np.concatenate([pieces[s][r] for s in range(n)], axis=concat) for r in range(n)])
    pieces = [[np.take(e, k, axis=split) for k in range(n)] for e in x]
    return np.stack([np.stack([pieces[s][r] for s in range(n)], axis=concat) for r in range(n)])


def _permute(x, pairs):
    out = np.zeros_like(x)
    for s, t in pairs:
        out[t] = x[s]
    return out


def _ring(n):
    return [(k, (k + 1) % n) for k in range(n)]


# name: the collective of an element and an axis, the same of all elements stacked; elements have shape (n, 2) below.
LINEAR = {
    "psum": (lambda x, i: lax.psum(x, i), lambda x: _share(x.sum(0), len(x))),
    "pmean": (lambda x, i: lax.pmean(x, i), lambda x: _share(x.mean(0), len(x))),
    "all_gather": (lambda x, i: lax.all_gather(x, i), lambda x: _share(x, len(x))),
    "all_gather 1": (lambda x, i: lax.all_gather(x, i, axis=1), lambda x: _share(np.moveaxis(x, 0, 1), len(x))),
    "all_gather last": (lambda x, i: lax.all_gather(x, i, axis=-1), lambda x: _share(np.moveaxis(x, 0, -1), len(x))),
    "all_gather tiled": (lambda x, i: lax.all_gather(x, i, tiled=True), lambda x: _share(np.concatenate(x, 0), len(x))),
    "all_gather tiled 1": (lambda x, i: lax.all_gather(x, i, axis=1, tiled=True),
                           lambda x: _share(np.concatenate(x, 1), len(x))),
    "psum_scatter": (lambda x, i: lax.psum_scatter(x, i), lambda x: x.sum(0)),
    "psum_scatter tiled": (lambda x, i: lax.psum_scatter(x, i, tiled=True), lambda x: x.sum(0)[:, None]),
    "psum_scatter_start": (lambda x, i: lax.psum_scatter_start(x, i).done(), lambda x: x.sum(0)),
    "psum_scatter_start tiled": (lambda x, i: xf.jit(lambda x: lax.psum_scatter_start(x, i, tiled=True))(x).done(),
                                 lambda x: x.sum(0)[:, None]),
    "psum_scatter tiled 1": (lambda x, i: lax.psum_scatter(xnp.repeat(x, lax.axis_size(i), 1), i, scatter_dimension=1,
                                                           tiled=True),
                             lambda x: np.stack(np.split(np.repeat(x.sum(0), len(x), 1), len(x), 1))),
    "ppermute": (lambda x, i: lax.ppermute(x, i, _ring(lax.axis_size(i))), lambda x: np.roll(x, 1, 0)),
    "ppermute some": (lambda x, i: lax.ppermute(x, i, [(0, 1), (2, 0)]), lambda x: _permute(x, [(0, 1), (2, 0)])),
    "pshuffle": (lambda x, i: lax.pshuffle(x, i, range(lax.axis_size(i) - 1, -1, -1)), lambda x: x[::-1]),
    "all_to_all": (lambda x, i: lax.all_to_all(x, i, 0, 0), lambda x: _all_to_all(x, 0, 0, False)),
    "all_to_all 0 1": (lambda x, i: lax.all_to_all(x, i, 0, 1), lambda x: _all_to_all(x, 0, 1, False)),
    "all_to_all 1 0": (lambda x, i: lax.all_to_all(x.T, i, 1, 0), lambda x: _all_to_all(np.swapaxes(x, 1, 2), 1, 0, False)),
    "all_to_all tiled": (lambda x, i: lax.all_to_all(x, i, 0, 1, tiled=True), lambda x: _all_to_all(x, 0, 1, True)),
    "all_to_all tiled 1 0": (lambda x, i: lax.all_to_all(x.T, i, 1, 0, tiled=True),
                             lambda x: _all_to_all(np.swapaxes(x, 1, 2), 1, 0, True)),
    "all_to_all tiled same": (lambda x, i: lax.all_to_all(x, i, 0, 0, tiled=True), lambda x: _all_to_all(x, 0, 0, True)),
    "pswapaxes": (lambda x, i: lax.pswapaxes(x, i, 0), lambda x: np.swapaxes(x, 0, 1)),
    "pbroadcast": (lambda x, i: lax.pbroadcast(x, i, 1), lambda x: _share(x[1], len(x))),
}
EXTREMES = {
    "pmax": (lambda x, i: lax.pmax(x, i), lambda x: _share(x.max(0), len(x))),
    "pmin": (lambda x, i: lax.pmin(x, i), lambda x: _share(x.min(0), len(x))),
}
TABLE = LINEAR | EXTREMES
OTHERS = {
    "axis_index": (lambda x, i: lax.axis_index(i), lambda x: np.arange(len(x))),
    "axis_size": (lambda x, i: lax.axis_size(i), lambda x: np.full(len(x), len(x))),
    "psum of 1": (lambda x, i: lax.psum(1, i), lambda x: np.full(len(x), len(x))),
}


def elements(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", [*TABLE, *OTHERS])
def test_over_a_vmapped_axis(name):
    function, oracle = (TABLE | OTHERS)[name]
    x = elements(N, N, 2)
    expected = oracle(x)
    mapped = xf.vmap(lambda x: function(x, "i"), axis_name="i")
    np.testing.assert_allclose(mapped(x), expected, rtol=1e-5)
    np.testing.assert_allclose(xf.jit(mapped)(x), expected, rtol=1e-5)
    inside = xf.vmap(xf.jit(lambda x: function(x, "i")), in_axes=1, out_axes=-1, axis_name="i")
    np.testing.assert_allclose(inside(np.moveaxis(x, 0, 1)), np.moveaxis(expected, 0, -1), rtol=1e-5)


@pytest.mark.parametrize("name", [*TABLE, *OTHERS])
def test_over_one_of_two_axes(name):
    """An axis that another vmap maps is a batch dimension like any other."""
    function, oracle = (TABLE | OTHERS)[name]
    x = elements(3, N, N, 2)
    each = np.stack([oracle(e) for e in x])
    inner = xf.vmap(xf.vmap(lambda x: function(x, "i"), axis_name="i"), axis_name="j")
    outer = xf.vmap(xf.vmap(lambda x: function(x, "i"), axis_name="j", in_axes=1), axis_name="i", in_axes=1, out_axes=1)
    np.testing.assert_allclose(inner(x), each, rtol=1e-5)
    np.testing.assert_allclose(xf.jit(outer)(np.swapaxes(x, 0, 2)), each, rtol=1e-5)


@pytest.mark.parametrize("name", [*TABLE, *OTHERS])
@pytest.mark.parametrize("order", [("i", "j"), ("j", "i")])
def test_over_two_axes_together(name, order):
    """The place along several axes counts the last one fastest."""
    function, oracle = (TABLE | OTHERS)[name]
    ni, nj = 2, 3
    x = elements(ni, nj, ni * nj, 2)
    stacked = x if order == ("i", "j") else np.swapaxes(x, 0, 1)
    expected = oracle(stacked.reshape(ni * nj, ni * nj, 2))
    expected = expected.reshape(*stacked.shape[:2], *expected.shape[1:])
    if order == ("j", "i"):
        expected = np.swapaxes(expected, 0, 1)
    both = xf.vmap(xf.vmap(lambda x: function(x, order), axis_name="j"), axis_name="i")
    np.testing.assert_allclose(xf.jit(both)(x), expected, rtol=1e-5)


@pytest.mark.parametrize("name", TABLE)
def test_collectives_of_unbatched_values(name):
    function, oracle = TABLE[name]
    x = elements(N, 2)
    mapped = xf.vmap(lambda _: function(xnp.asarray(x), "i"), axis_name="i")
    np.testing.assert_allclose(mapped(np.zeros(N)), oracle(np.stack([x] * N)), rtol=1e-5)


@pytest.mark.parametrize("name", LINEAR)
def test_derivatives_of_linear_collectives(name):
    function, oracle = LINEAR[name]
    x, t = elements(N, N, 2), elements(N, N, 2)[::-1].copy()
    mapped = xf.vmap(lambda x: function(x, "i"), axis_name="i")
    _, tangent = xf.jvp(mapped, (x,), (t,))
    np.testing.assert_allclose(tangent, oracle(t), rtol=1e-5)
    weights = elements(*oracle(x).shape)
    units = np.eye(x.size, dtype=np.float32).reshape(x.size, *x.shape)
    expected = np.array([(weights * oracle(unit)).sum() for unit in units]).reshape(x.shape)
    gradient = xf.jit(xf.grad(lambda x: (weights * mapped(x)).sum()))(x)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    inside = xf.vmap(lambda x, w: xf.grad(lambda x: (w * function(x, "i")).sum())(x), axis_name="i")
    np.testing.assert_allclose(inside(x, weights), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", EXTREMES)
def test_derivatives_of_extremes(name):
    function, oracle = EXTREMES[name]
    x, w = elements(N, 3), elements(N, 3, 1)[..., 0]
    mapped = xf.vmap(lambda x: function(x, "i"), axis_name="i")
    gradient = xf.grad(lambda x: (w * mapped(x)).sum())(x)
    np.testing.assert_allclose(gradient, np.where(x == oracle(x), w.sum(0), 0), rtol=1e-5)


GROUPS = [[0, 2], [3, 1]]


# The collectives of the table that work in groups: of an element with as many rows as a group has members, the axis, and groups.
GROUPED = {
    "psum": lambda x, i, **groups: lax.psum(x, i, **groups),
    "pmean": lambda x, i, **groups: lax.pmean(x, i, **groups),
    "pmax": lambda x, i, **groups: lax.pmax(x, i, **groups),
    "pmin": lambda x, i, **groups: lax.pmin(x, i, **groups),
    "all_gather": lambda x, i, **groups: lax.all_gather(x, i, **groups),
    "all_gather 1": lambda x, i, **groups: lax.all_gather(x, i, axis=1, **groups),
    "all_gather last": lambda x, i, **groups: lax.all_gather(x, i, axis=-1, **groups),
    "all_gather tiled": lambda x, i, **groups: lax.all_gather(x, i, tiled=True, **groups),
    "all_gather tiled 1": lambda x, i, **groups: lax.all_gather(x, i, axis=1, tiled=True, **groups),
    "psum_scatter": lambda x, i, **groups: lax.psum_scatter(x, i, **groups),
    "psum_scatter tiled": lambda x, i, **groups: lax.psum_scatter(x, i, tiled=True, **groups),
    "psum_scatter tiled 1": lambda x, i, **groups: lax.psum_scatter(xnp.repeat(x, 2, 1), i, scatter_dimension=1, tiled=True,
                                                                    **groups),
    "all_to_all": lambda x, i, **groups: lax.all_to_all(x, i, 0, 0, **groups),
    "all_to_all 0 1": lambda x, i, **groups: lax.all_to_all(x, i, 0, 1, **groups),
    "all_to_all 1 0": lambda x, i, **groups: lax.all_to_all(x.T, i, 1, 0, **groups),
    "all_to_all tiled": lambda x, i, **groups: lax.all_to_all(x, i, 0, 1, tiled=True, **groups),
    "all_to_all tiled 1 0": lambda x, i, **groups: lax.all_to_all(x.T, i, 1, 0, tiled=True, **groups),
    "all_to_all tiled same": lambda x, i, **groups: lax.all_to_all(x, i, 0, 0, tiled=True, **groups),
    "pswapaxes": lambda x, i, **groups: lax.pswapaxes(x, i, 0, **groups),
}


def in_groups(oracle, x):
    """Each group is an axis of its own."""
    results: list = [None] * len(x)
    for group in GROUPS:
        for i, result in zip(group, oracle(x[group])):
            results[i] = result
    return np.stack(results)


@pytest.mark.parametrize("name", GROUPED)
def test_collectives_in_groups(name):
    x = elements(4, 2, 3)
    result = xf.vmap(lambda x: GROUPED[name](x, "i", axis_index_groups=GROUPS), axis_name="i")(x)
    np.testing.assert_allclose(result, in_groups(TABLE[name][1], x), rtol=1e-5)


def test_groups_of_different_sizes_sum():
    x, groups = elements(4), {"axis_index_groups": [[3], [0, 1, 2]]}
    for call, oracle in ((lax.psum, np.sum), (lax.pmean, np.mean), (lax.pmax, np.max), (lax.pmin, np.min)):
        expected = [oracle(x[:3])] * 3 + [x[3]]
        np.testing.assert_allclose(xf.vmap(lambda x, c=call: c(x, "i", **groups), axis_name="i")(x), expected, rtol=1e-6)
    same = xf.vmap(lambda _: (lax.psum(1, "i", **groups), lax.psum(xnp.float32(2), "i", **groups)), axis_name="i")(x)
    assert same[0].tolist() == [3, 3, 3, 1] and same[1].tolist() == [6, 6, 6, 2]


def test_dimensions_of_the_array_take_part_in_reductions():
    x = elements(N, 2, 3)
    for call, oracle in ((lax.psum, np.sum), (lax.pmean, np.mean), (lax.pmax, np.max), (lax.pmin, np.min)):
        result = xf.vmap(lambda x, call=call: call(x, ("i", 1)), axis_name="i")(x)
        np.testing.assert_allclose(result, _share(oracle(x, axis=(0, 2)), N), rtol=1e-5)
    np.testing.assert_allclose(lax.psum(x, (0, 2)), x.sum((0, 2)), rtol=1e-5)


def test_pytrees_and_dtypes():
    x = elements(N)
    result = xf.vmap(lambda x: lax.psum({"x": x, "rest": [1, x > 0, 2.5]}, "i"), axis_name="i")(x)
    np.testing.assert_allclose(result["x"], [x.sum()] * N, rtol=1e-5)
    assert result["rest"][0].tolist() == [N] * N
    assert result["rest"][1].tolist() == [(x > 0).sum()] * N and result["rest"][1].dtype == np.int32
    assert result["rest"][2].tolist() == [2.5 * N] * N
    assert xf.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(x.astype(np.int8)).dtype == np.int8
    mean = xf.vmap(lambda x: lax.pmean(x, "i"), axis_name="i")(np.arange(4, dtype=np.int32))
    assert mean.dtype == np.float32 and mean.tolist() == [1.5] * 4


def test_weak_types():
    """As in JAX: weak types are preserved over mapped axes; booleans are counted in integers."""
    scalar = xnp.asarray(2.0)
    same = xf.vmap(lambda _: [lax.psum(scalar, "i"), lax.psum(True, "i"), lax.psum(3, "i")], axis_name="i")(np.zeros(3))
    assert [x.tolist() for x in same] == [[6.0] * 3, [3] * 3, [9] * 3]
    assert [(x.dtype, x.weak_type) for x in same] == [(np.float32, True), (np.int32, False), (np.int32, True)]


def test_no_axis():
    x = elements(3, 2)
    for name, call in {"psum": lambda x: lax.psum(x, ()), "all_gather": lambda x: lax.all_gather(x, ()),
                       "ppermute": lambda x: lax.ppermute(x, (), [(0, 0)])}.items():
        np.testing.assert_array_equal(call(x), x, err_msg=name)
    np.testing.assert_array_equal(lax.ppermute(x, (), []), np.zeros_like(x))


def test_a_constant_is_multiplied_without_a_collective():
    program = xf.make_jaxpr(lambda: lax.psum(2, "i"), axis_env=[("i", 8)])()
    assert program.eqns == [] and program.outvars[0].val == 16
    assert xf.make_jaxpr(lambda: lax.psum(2, ("i", "j")), axis_env=[("i", 8), ("j", 3)])().outvars[0].val == 48


def test_a_batched_collective_is_one_operation():
    program = xf.make_jaxpr(xf.vmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None))(elements(N, 3))
    assert [eqn.primitive.name for eqn in program.eqns] == ["reduce_sum"]
    gathered = xf.make_jaxpr(xf.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i", out_axes=None))(elements(N, 3))
    assert gathered.eqns == []


def test_programs_without_mapped_operands_know_the_axis():
    expected = np.arange(N)
    here = xf.jit(lambda: lax.axis_index("i"))
    zeros = np.zeros(N)
    assert xf.vmap(lambda _: here(), axis_name="i")(zeros).tolist() == expected.tolist()
    looped = xf.vmap(lambda _: lax.fori_loop(0, 3, lambda k, c: c + lax.axis_index("i"), 0), axis_name="i")(zeros)
    assert looped.tolist() == (3 * expected).tolist()
    branched = xf.vmap(lambda _: lax.cond(True, lambda: lax.axis_index("i"), lambda: np.int32(7)), axis_name="i")(zeros)
    assert branched.tolist() == expected.tolist()
    scanned = xf.vmap(lambda x: lax.scan(lambda c, e: (lax.psum(c + e, "i"), e), x, np.ones(2, np.float32))[0], axis_name="i")
    x = elements(N)
    np.testing.assert_allclose(scanned(x), [N * ((x + 1).sum() + 1)] * N, rtol=1e-5)


def test_an_inner_axis_hides_an_outer_one_of_its_name():
    x = elements(2, 3)
    result = xf.vmap(xf.vmap(lambda x: lax.psum(x, "i"), axis_name="i"), axis_name="i")(x)
    np.testing.assert_allclose(result, np.broadcast_to(x.sum(1, keepdims=True), (2, 3)), rtol=1e-5)


def test_traces_are_cached_for_each_size_of_the_axis():
    scaled = xf.jit(lambda x: x * lax.axis_size("i"))
    for n in (2, 5):
        assert xf.vmap(scaled, axis_name="i")(np.ones(n)).tolist() == [n] * n


def test_second_derivatives():
    x = elements(3)

    def loss(x):
        return xf.vmap(lambda e: lax.psum(e ** 2, "i") * e, axis_name="i")(x).sum()

    dense = xf.hessian(lambda x: (x ** 2).sum() * x.sum())(x)
    np.testing.assert_allclose(xf.hessian(loss)(x), dense, rtol=1e-4)


def test_ragged_all_to_all_over_a_vmapped_axis():
    rng = np.random.default_rng(0)
    n, rows = 3, 9
    sizes = rng.integers(0, 3, (n, n))  # from, to
    starts = np.cumsum(sizes, 1) - sizes
    targets = np.cumsum(sizes, 0) - sizes
    operand, output = elements(n, rows, 2), np.full((n, rows, 2), -1, np.float32)
    expected = output.copy()
    for s, r in itertools.product(range(n), range(n)):
        expected[r, targets[s, r]:targets[s, r] + sizes[s, r]] = operand[s, starts[s, r]:starts[s, r] + sizes[s, r]]

    def call(*args):
        return lax.ragged_all_to_all(*args, axis_name="i")

    args = [x.astype(np.int32) for x in (starts, sizes, targets, sizes.T)]
    np.testing.assert_array_equal(xf.vmap(call, axis_name="i")(operand, output, *args), expected)
    weights = elements(n, rows, 2)[::-1]
    grads = xf.grad(lambda a, b: (weights * xf.vmap(call, axis_name="i")(a, b, *args)).sum(), argnums=(0, 1))(operand, output)
    by_output = np.where(expected == -1, weights, 0)
    np.testing.assert_allclose(grads[1], by_output)
    by_operand = np.zeros_like(operand)
    for s, r in itertools.product(range(n), range(n)):
        by_operand[s, starts[s, r]:starts[s, r] + sizes[s, r]] = weights[r, targets[s, r]:targets[s, r] + sizes[s, r]]
    np.testing.assert_allclose(grads[0], by_operand)


@pytest.mark.parametrize("call, error, words", [
    (lambda x: lax.psum(x, "k"), NameError, ["psum", "'k'", "'i'", "axis_name"]),
    (lambda x: lax.psum(1, "k"), NameError, ["psum", "'k'"]),
    (lambda x: lax.axis_index("k"), NameError, ["axis_index", "'k'"]),
    (lambda x: lax.axis_size("k"), NameError, ["axis_size", "'k'"]),
    (lambda x: lax.psum(x, ("i", "i")), ValueError, ["psum", "twice"]),
    (lambda x: lax.psum({"a": ["no"]}, "i"), TypeError, ["psum", "a"]),
    (lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), ValueError, ["source 0", "twice"]),
    (lambda x: lax.ppermute(x, "i", [(0, 7)]), ValueError, ["destination 7", "size 4"]),
    (lambda x: lax.pshuffle(x, "i", [0, 0, 1, 2]), ValueError, ["permutation"]),
    (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2]]), ValueError, ["axis_index_groups", "0 to 3"]),
    (lambda x: lax.psum(x, "i", axis_index_groups=[0, 1, 2, 3]), TypeError, ["axis_index_groups", "psum", "'i'", "[[0, 1], [2, 3]]"]),
    (lambda x: lax.psum(x, ("i", 0), axis_index_groups=[[0, 1, 2, 3]]), ValueError, ["psum", "axis_index_groups", "('i', 0)"]),
    (lambda x: lax.all_gather(x, "i", axis_index_groups=[[0, 1, 2], [3]]), ValueError, ["same size"]),
    (lambda x: lax.all_to_all(x, "i", 0, 0), ValueError, ["all_to_all", "size 4", "(3,)"]),
    (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), ValueError, ["all_to_all", "4", "(3,)"]),
    (lambda x: lax.psum_scatter(x, "i"), ValueError, ["psum_scatter", "size 4", "(3,)"]),
    (lambda x: lax.psum_scatter(x, "i", tiled=True), ValueError, ["psum_scatter", "4", "(3,)"]),
    (lambda x: lax.all_gather(x, "i", to="there"), ValueError, ["'there'", "varying"]),
    (lambda x: lax.all_gather(x, "i", axis=5), ValueError, ["all_gather", "axis=5"]),
    (lambda x: lax.all_gather(x, "i", axis=None), TypeError, ["all_gather", "axis", "integer", "None"]),
    (lambda x: lax.all_to_all(x, "i", 0.5, 0), TypeError, ["all_to_all", "split_axis", "0.5"]),
    (lambda x: lax.all_to_all(x, "i", 0, 3), ValueError, ["all_to_all", "concat_axis=3", "1 dimension"]),
    (lambda x: lax.psum_scatter(x[0], "i"), ValueError, ["psum_scatter", "scatter_dimension=0", "0 dimension"]),
    (lambda x: lax.pswapaxes(x, "i", 0), ValueError, ["pswapaxes", "'i'", "size 4", "(3,)"]),
    (lambda x: lax.pmean({"a": "no"}, "i"), TypeError, ["pmean", "a", "'no'"]),
    (lambda x: lax.ppermute(x, "i", [(0, 1, 2)]), ValueError, ["ppermute", "pairs", "(0, 1, 2)"]),
    (lambda x: lax.ppermute(x, "i", np.array([[0, 1]])), TypeError, ["ppermute", "perm", "list or tuple", "ndarray"]),
    (lambda x: lax.ppermute(x, "i", zip([0], [1])), TypeError, ["ppermute", "perm", "list or tuple", "zip"]),
    (lambda x: lax.ppermute(x, "i", {(0, 1)}), TypeError, ["ppermute", "perm", "list or tuple", "set"]),
    (lambda x: lax.ppermute(x, "i", [0, 1]), TypeError, ["ppermute", "perm", "pairs", "[0, 1]"]),
    (lambda x: lax.ppermute(x, "i", [(0, 1.5)]), TypeError, ["ppermute", "pairs", "1.5"]),
    (lambda x: lax.ppermute(x, "i", [(0, lax.axis_index("i"))]), TypeError, ["ppermute", "perm", "known while"]),
    (lambda x: lax.pshuffle(x, "i", [0, 1, 2, None]), TypeError, ["pshuffle", "perm", "None"]),
    (lambda x: lax.pbroadcast(x, "i", lax.axis_index("i")), TypeError, ["pbroadcast", "source", "known while"]),
    (lambda x: lax.pbroadcast(x, "i", 4), ValueError, ["pbroadcast", "source=4", "'i'", "size 4"]),
    (lambda x: lax.pcast(x, "i", to="varying"), ValueError, ["shard_map", "'i'"]),
])
def test_bad_input(call, error, words):
    with pytest.raises(error) as found:
        xf.vmap(call, axis_name="i")(np.ones((4, 3), np.float32))
    for word in words:
        assert word in str(found.value)


@pytest.mark.cpu_only
def test_extremes_of_complex_numbers():
    z = np.array([1 + 1j, 2 - 1j, 0.5 + 7j], np.complex64)
    for call, expected in ((lax.pmax, 2 - 1j), (lax.pmin, 0.5 + 7j)):  # by their real part
        for wrap in (lambda f: f, xf.jit):
            np.testing.assert_array_equal(xf.vmap(wrap(lambda x, call=call: call(x, "i")), axis_name="i")(z), [expected] * 3)
        with pytest.raises(TypeError, match="between devices.*complex64"):
            xf.pmap(lambda x, call=call: call(x, "i"), axis_name="i")(z)


def test_names_of_axes_are_hashable():
    with pytest.raises(TypeError, match="unhashable"):
        xf.vmap(lambda x: x, axis_name=["i"])(np.ones(3))
