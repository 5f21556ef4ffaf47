"""`custom_partitioning`: functions that say themselves how they run on parts. The oracle is the function, unpartitioned."""

import re

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, tree
from xlafront.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from xlafront.sharding import AxisType, NamedSharding, PartitionSpec as P

pytestmark = pytest.mark.cpu_only

MATRIX = np.arange(8 * 16, dtype=np.float32).reshape(8, 16) / 64


@pytest.fixture(scope="module")
def mesh():
    return xf.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def split(mesh, spec, value=MATRIX):
    return xf.device_put(value, NamedSharding(mesh, spec))


def shardings(structs):
    return tree.map(lambda s: s.sharding, structs)


def partitioned(fun, rule, *, on_components=None, seen=None, static_argnums=(), **options):
    """`fun` with a partition that takes the shardings that are proposed and runs `on_components`, or `fun` itself, on parts."""
    made = custom_partitioning(fun, static_argnums)

    def partition(*args):
        *statics, mesh, given, result = args

        def part(*xs):
            if seen is not None:
                seen.append([tuple(x.shape) for x in tree.leaves(xs)])
            return (on_components or fun)(*xs, *statics)

        return mesh, part, shardings(result), shardings(given)

    made.def_partition(partition, sharding_rule=rule, **options)
    return made


def collectives(f, *args):
    text = xf.jit(f).lower(*args).compile().as_text()
    return sorted(set(re.findall(r"\b(all-gather|all-reduce|all-to-all|collective-permute)(?:-start)?\(", text)))


def centred(x):
    return x - x.mean(axis=1, keepdims=True)


# What runs


@pytest.mark.parametrize("spec, part, expected", [
    (P("x", "y"), (2, 8), P("x", "y")), (P("x"), (2, 16), P("x")), (P(None, "y"), (8, 8), P(None, "y")),
    (P(("x", "y")), (1, 16), P(("x", "y"))), (P(), (8, 16), P())])
def test_shards_of_an_elementwise_function(mesh, spec, part, expected):
    seen: list = []
    f = partitioned(xnp.sin, "i j -> i j", seen=seen)
    x = split(mesh, spec)
    y = xf.jit(f)(x)
    np.testing.assert_allclose(y, np.sin(MATRIX), rtol=1e-6)
    assert seen[-1] == [part]
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, expected), 2)
    assert collectives(f, x) == []


def test_partition_gets_global_types_and_shardings(mesh):
    calls = []

    @custom_partitioning
    def f(x, y):
        return {"sum": x + y["b"], "none": None}

    def partition(*args):
        calls.append(args)
        own = args[1][0].sharding
        return args[0], lambda x, y: {"sum": x + y["b"], "none": None}, shardings(args[2]), (own, {"b": own})

    assert f.def_partition(partition, sharding_rule="i j, i j -> i j") is partition
    found = xf.jit(f)(split(mesh, P("x", "y")), {"b": MATRIX})
    np.testing.assert_allclose(found["sum"], 2 * MATRIX)
    assert found["none"] is None
    [(seen_mesh, (x, y), result)] = calls
    assert seen_mesh.shape_tuple == mesh.shape_tuple and seen_mesh.are_all_axes_auto
    for struct in (x, y["b"], result["sum"]):
        assert (struct.shape, struct.dtype) == ((8, 16), np.float32)
    assert x.sharding.spec == result["sum"].sharding.spec == P("x", "y")


def test_other_shardings_than_proposed(mesh):
    """The compiler reshards operands to the shardings that the partition requests, and no further."""
    @custom_partitioning
    def fft(x):
        return xnp.cumsum(x, axis=1)

    def partition(mesh, args, result):
        rows = NamedSharding(mesh, P(args[0].sharding.spec[0]))
        return mesh, lambda x: xnp.cumsum(x, axis=1), rows, (rows,)

    fft.def_partition(partition, sharding_rule="...i -> ...i", need_replication_factors=("i",))
    for spec, expected in ((P("x"), []), (P("x", "y"), ["all-gather"])):
        x = split(mesh, spec)
        np.testing.assert_allclose(xf.jit(fft)(x), np.cumsum(MATRIX, axis=1), rtol=1e-5)
        assert collectives(fft, x) == expected


def test_products_with_a_sum_over_shards(mesh):
    def matmul(a, b):
        return a @ b

    @custom_partitioning
    def product(a, b):
        return a @ b

    def partition(mesh, args, result):
        a, b = shardings(args)
        rows, inner = a.spec
        inner = inner if inner == b.spec[0] else None
        own = NamedSharding(mesh, P(rows, inner)), NamedSharding(mesh, P(inner, None))

        def part(x, y):
            assert x.shape == (2, 8) and y.shape == (8, 6)
            return lax.psum(x @ y, inner)

        return mesh, part, NamedSharding(mesh, P(rows, None)), own

    product.def_partition(partition, sharding_rule="i j, j k -> i k", reduction_factors=("j",))
    a, b = split(mesh, P("x", "y")), split(mesh, P("y"), MATRIX.reshape(16, 8)[:, :6])
    np.testing.assert_allclose(xf.jit(product)(a, b), matmul(MATRIX, MATRIX.reshape(16, 8)[:, :6]), rtol=1e-5)
    assert collectives(product, a, b) == ["all-reduce"]


def test_axes_of_the_mesh_in_partitions(mesh):
    def part(x):
        return x * 0 + 10 * lax.axis_index("x") + lax.axis_index("y")

    y = xf.jit(partitioned(lambda x: x, "i j -> i j", on_components=part))(split(mesh, P("x", "y")))
    np.testing.assert_array_equal(np.asarray(y)[::2, ::8], 10 * np.arange(4)[:, None] + np.arange(2))


def test_another_mesh_of_the_same_devices(mesh):
    flat = xf.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))

    @custom_partitioning
    def f(x):
        return x - x.sum()

    f.def_partition(lambda mesh, args, result: (flat, lambda x: x - lax.psum(x.sum(), "z"), P("z"), (P("z"),)),
                    sharding_rule="i j -> i j")
    np.testing.assert_allclose(xf.jit(f)(split(mesh, P("x", "y"))), MATRIX - MATRIX.sum(), rtol=1e-5)


def test_closed_over_constants_and_library_functions(mesh):
    weights = xnp.linspace(0, 1, 16)
    f = partitioned(lambda x: xf.nn.relu(x) * weights[:x.shape[1]], "i j -> i j")
    np.testing.assert_allclose(xf.jit(f)(split(mesh, P("x"))), MATRIX * np.linspace(0, 1, 16, dtype=np.float32), rtol=1e-6)


def test_partitions_have_the_settings_of_the_call(mesh):
    with xf.enable_x64(True):
        y = xf.jit(partitioned(lambda x: x + xnp.arange(8.0).sum(), "i j -> i j"))(split(mesh, P("x"), MATRIX.astype(np.float64)))
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, MATRIX + 28.0)


def test_one_device_and_manual_axes_just_call_the_function(mesh):
    def partition(*_):
        raise AssertionError("asked for parts")

    f = custom_partitioning(centred)
    f.def_partition(partition, sharding_rule="i j -> i j")
    expected = centred(MATRIX)
    np.testing.assert_allclose(f(MATRIX), expected, rtol=1e-5)
    np.testing.assert_allclose(xf.jit(f)(MATRIX), expected, rtol=1e-5)
    mapped = xf.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_allclose(xf.jit(mapped)(split(mesh, P("x"))), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(xf.pmap(f)(MATRIX.reshape(8, 2, 8)),
                               MATRIX.reshape(8, 2, 8) - MATRIX.reshape(8, 2, 8).mean(2, keepdims=True), rtol=1e-5, atol=1e-6)


def test_inside_of_loops_branches_and_other_jits(mesh):
    f = partitioned(lambda x: xnp.sin(x) + 1, "i j -> i j")
    x = split(mesh, P("x", "y"))

    def program(x):
        x, _ = lax.scan(lambda c, _: (f(c), None), x, length=3)
        return xf.jit(f)(lax.cond(x[0, 0] > 0, f, lambda v: v, x))

    expected = MATRIX
    for _ in range(5):
        expected = np.sin(expected) + 1
    np.testing.assert_allclose(xf.jit(program)(x), expected, rtol=1e-5)


def test_explicit_axes():
    mesh = xf.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    y = xf.jit(partitioned(xnp.cos, "i j -> i j"))(split(mesh, P("x", "y")))
    np.testing.assert_allclose(y, np.cos(MATRIX), rtol=1e-5)
    assert xf.typeof(y).sharding.spec == P("x", "y")


def test_random_keys_as_operands(mesh):
    def noisy(x, key):
        return x + xf.random.normal(key, x.shape[1:])

    f = partitioned(noisy, "i j, -> i j", need_replication_factors=("j",))
    key = xf.random.key(3)
    np.testing.assert_allclose(xf.jit(f)(split(mesh, P("x")), key), noisy(MATRIX, key), rtol=1e-5)


# Transformations


@pytest.mark.parametrize("in_axes, shape", [(0, (3, 8, 16)), (1, (8, 3, 16)), (2, (8, 16, 3))])
def test_vmap(mesh, in_axes, shape):
    """A batch is one more dimension, which the partition does not see."""
    seen: list = []
    f = partitioned(centred, "i j -> i j", seen=seen, need_replication_factors=("j",))
    stack = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    spec = P(*["x" if n == 8 else None for n in shape])
    mapped = xf.vmap(f, in_axes)
    x = split(mesh, spec, stack)
    np.testing.assert_allclose(xf.jit(mapped)(x), [centred(v) for v in np.moveaxis(stack, in_axes, 0)], rtol=1e-4, atol=1e-6)
    assert seen[-1] == [(2, 16)] and collectives(mapped, x) == []


def test_vmap_over_a_split_dimension(mesh):
    seen: list = []
    f = partitioned(lambda v, w: v - v.sum() + w, "i, i -> i", seen=seen, need_replication_factors=("i",))
    x = split(mesh, P("x"))
    mapped = xf.vmap(xf.vmap(f, (0, None)), (0, None))
    stack = np.stack([MATRIX, -MATRIX], 1)
    found = xf.jit(mapped)(split(mesh, P("x", "y"), stack), MATRIX[0])
    np.testing.assert_allclose(found, stack - stack.sum(2, keepdims=True) + MATRIX[0], rtol=1e-4, atol=1e-4)
    assert found.sharding.is_equivalent_to(NamedSharding(mesh, P("x", "y")), 3)
    mapped = xf.vmap(f, (0, None))
    np.testing.assert_allclose(xf.jit(mapped)(x, MATRIX[0]), MATRIX - MATRIX.sum(1, keepdims=True) + MATRIX[0], rtol=1e-4,
                               atol=1e-4)
    assert collectives(mapped, x, MATRIX[0]) == []


def test_vmap_if_the_partition_uses_the_axis_of_the_batch(mesh):
    @custom_partitioning
    def f(v):
        return v - v.sum()

    f.def_partition(lambda mesh, args, out: (mesh, lambda v: v - lax.psum(v.sum(), "x"), P("x"), (P("x"),)),
                    sharding_rule="i -> i")
    np.testing.assert_allclose(xf.jit(xf.vmap(f))(split(mesh, P("x"))), MATRIX - MATRIX.sum(1, keepdims=True), rtol=1e-4,
                               atol=1e-4)


@pytest.mark.parametrize("spec", [P("x"), P(None, "x"), P(("x", "y"))])
def test_vmap_without_decoded_shardings(mesh, spec):
    f = partitioned(xnp.sin, "i -> i", decode_shardings=False)
    np.testing.assert_allclose(xf.jit(xf.vmap(f))(split(mesh, spec)), np.sin(MATRIX), rtol=1e-6)


def test_derivatives_of_partitioned_function_and_its_caller(mesh):
    f = partitioned(lambda x: xnp.sin(x) * x, "i j -> i j")
    x = split(mesh, P("x", "y"))
    np.testing.assert_allclose(xf.jit(xf.grad(lambda x: (f(lax.stop_gradient(x)) * x).sum()))(x), np.sin(MATRIX) * MATRIX,
                               rtol=1e-5)
    slope = np.cos(MATRIX) * MATRIX + np.sin(MATRIX)
    np.testing.assert_allclose(xf.jit(xf.grad(lambda x: f(x).sum()))(x), slope, rtol=1e-4, atol=1e-5)
    y, dy = xf.jit(lambda x: xf.jvp(f, (x,), (xnp.ones_like(x),)))(x)
    np.testing.assert_allclose(y, np.sin(MATRIX) * MATRIX, rtol=1e-5)
    np.testing.assert_allclose(dy, slope, rtol=1e-4, atol=1e-5)


# Arguments


def test_static_arguments(mesh):
    seen = []

    def scaled(x, n, names=("a",)):
        return x * n * len(names)

    made = custom_partitioning(scaled, static_argnums=(1, 2))

    def partition(n, names, mesh, args, result):
        seen.append((n, names))
        return mesh, lambda x: x * n * len(names), result.sharding, shardings(args)

    def rule(n, names, mesh, operands, results):
        seen.append((n, names, [tuple(t.shape) for t in (*operands, *results)]))
        return "i j -> i j"

    made.def_partition(partition, sharding_rule=rule)
    x = split(mesh, P("x"))
    np.testing.assert_allclose(xf.jit(lambda x: made(x, 3))(x), 3 * MATRIX)
    np.testing.assert_allclose(made(x, names=["p", "q"], n=2), 4 * MATRIX)  # eagerly, and a list
    assert (3, ("a",)) in seen and (2, ["p", "q"]) in seen and (3, ("a",), [(8, 16), (8, 16)]) in seen
    with pytest.raises(xf.errors.UnexpectedTracerError, match="scaled got a traced value as argument 1"):
        xf.jit(made)(x, 3)


def test_invalid_calls_raise(mesh):
    f = custom_partitioning(lambda x, *, scale=1: x)
    with pytest.raises(AttributeError, match="def_partition"):
        f(MATRIX)
    f.def_partition(lambda *_: None, sharding_rule="i j -> i j")
    with pytest.raises(TypeError, match="keyword arguments scale"):
        f(MATRIX, scale=2)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        f(y=MATRIX)
    with pytest.raises(TypeError, match="takes a function .*got int"):
        custom_partitioning(3)
    g = partitioned(lambda x: x, "i j -> i j")
    with pytest.raises(TypeError, match="text"):
        g("text")

    def closes_over(x, y):
        h = custom_partitioning(lambda v: v * y)
        h.def_partition(g.partition, sharding_rule="i j -> i j")
        return h(x)

    with pytest.raises(xf.errors.UnexpectedTracerError, match="closes over a traced value"):
        xf.jit(closes_over)(MATRIX, 2.0)


# Rules


def matrices(a, b):
    return a * 2, xnp.zeros((8, 4))


@pytest.mark.parametrize("rule, options, text", [
    ("i j, j k -> i j, i k", {}, "([i, j], [j, k])->([i, j], [i, k]) {i=8, j=16, k=4}"),
    (" i  j ,j k->i j,i k", {}, "([i, j], [j, k])->([i, j], [i, k]) {i=8, j=16, k=4}"),
    ("i j, ... -> i j, i k", {}, "([i, j], [k, l])->([i, j], [i, m]) {i=8, j=16, k=16, l=4, m=4}"),
    ("...i j, j k -> ... i j, i k", {}, "([i, j], [j, k])->([i, j], [i, k]) {i=8, j=16, k=4}"),
    ("...1 j, ...2 k -> ...1 j, ...1 k", {}, "([i, j], [k, l])->([i, j], [i, l]) {i=8, j=16, k=16, l=4}"),
    ("(i m) j, j k -> (i m) j, (i m) k", {"i": 4, "m": 2}, "([ij, k], [k, l])->([ij, k], [ij, l]) {i=4, j=2, k=16, l=4}"),
    ("i j, j k -> i l, i k", {"reduction_factors": ("j",), "need_replication_factors": ("l", "i"), "permutation_factors": ("k",)},
     "([i, j], [j, k])->([i, l], [i, k]) {i=8, j=16, k=4, l=16} reduction={j} need_replication={i, l} permutation={k}"),
    (SdyShardingRule((ArrayMapping(BATCHING, "j"), ArrayMapping("j", "k")), (ArrayMapping(BATCHING, "j"), ArrayMapping(BATCHING, "k"))),
     {}, "([i, j], [j, k])->([i, j], [i, k]) {i=8, j=16, k=4}"),
    (SdyShardingRule((("i", "j"), ("j", "k")), (("i", CompoundFactor("a", "b")), ("i", "k")), reduction_factors=("j",), a=2, b=8),
     {}, "([i, j], [j, k])->([i, lm], [i, k]) {i=8, j=16, k=4, l=2, m=8} reduction={j}"),
    (lambda mesh, operands, results: "i j, j k -> i j, i k", {}, "([i, j], [j, k])->([i, j], [i, k]) {i=8, j=16, k=4}"),
])
def test_rules_in_programs(mesh, rule, options, text):
    """As the reference writes them into programs."""
    f = partitioned(matrices, rule, **options)
    program = xf.jit(f).lower(split(mesh, P("x")), np.ones((16, 4), np.float32)).as_text()
    [found] = re.findall(r"@CustomSPMDPartitioning.*sdy\.op_sharding_rule<(.*), custom>", program)
    assert found == text


@pytest.mark.parametrize("rule, options, error, words", [
    ("i j -> i j, i k", {}, ValueError, r"for 1 operand\(s\), but the function has 2, of the shapes \(8, 16\), \(16, 4\)"),
    ("i j, j k -> i j", {}, ValueError, r"for 1 result\(s\), but the function has 2"),
    ("i j l, j k -> i j, i k", {}, ValueError, r"operand 0 has 3 dimension\(s\), the array has 2"),
    ("... i j l, j k -> i j, i k", {}, ValueError, "operand 0 has at least 3"),
    ("... j, ... i k -> ... j, ... k", {}, ValueError, r"has \.\.\. for 0 dimension\(s\).* it was for 1 before"),
    ("(i m) j, j k -> (i m) j, (i m) k", {"i": 3, "m": 2}, ValueError, "sizes 3 x 2 = 6, .* has size 8"),
    (lambda *_: 3, {}, ValueError, "must return text or an SdyShardingRule, got 3"),
])
def test_rules_of_wrong_shape_raise(mesh, rule, options, error, words):
    f = partitioned(matrices, rule, **options)
    f(MATRIX, np.ones((16, 4), np.float32))  # one device needs no rule
    with pytest.raises(error, match=words):
        xf.jit(f)(split(mesh, P("x")), np.ones((16, 4), np.float32))


@pytest.mark.parametrize("rule, options, error, words", [
    ("", {}, ValueError, "one ->"), ("i -> j -> k", {}, ValueError, "one ->"), (3, {}, TypeError, "of type int"),
    ("i-j -> i", {}, ValueError, "the character '-'"), ("1 -> 1", {}, ValueError, "'1' is not a valid factor name"),
    ("_i -> _i", {}, ValueError, "'_i' is not a valid factor name"), ("(i j -> i j", {}, ValueError, r"an unbalanced \("),
    ("i j) -> i j", {}, ValueError, r"an unbalanced \)"), ("(i) -> i", {}, ValueError, "at least two"),
    ("i ... -> i", {}, ValueError, "after other dimensions"), ("i i -> i", {}, ValueError, "'i' twice in its operand 0"),
    ("(i j) -> i", {}, ValueError, "'j' .* its size is unknown"), ("i -> i", {"i": 8}, ValueError, "is that of a dimension"),
    ("i -> i", {"z": 8}, ValueError, "is not in"), ("(i j) -> (i j)", {"i": "a", "j": 2}, TypeError, "int, got 'a'"),
    ("i j -> i j", {"reduction_factors": ("j",)}, ValueError, "dimension of a result"),
    ("i j -> i", {"reduction_factors": "j"}, ValueError, "tuple of factor names"),
    ("i j -> i", {"reduction_factors": ("z",)}, ValueError, "'z'"),
    ("i j -> i", {"reduction_factors": ("j",), "need_replication_factors": ("j",)}, ValueError, "'j' is named twice"),
    (SdyShardingRule((("i",),), (("i",),)), {"i": 2}, ValueError, "Pass them to the SdyShardingRule"),
])
def test_invalid_rules_raise(rule, options, error, words):
    with pytest.raises(error, match=words):
        custom_partitioning(lambda x: x).def_partition(lambda *_: None, sharding_rule=rule, **options)


@pytest.mark.parametrize("make, words", [
    (lambda: ArrayMapping("a", 3), "got 3"), (lambda: ArrayMapping("a b"), "'a b' is not a valid factor name"), (lambda: ArrayMapping(""), "not a valid factor name"),
    (lambda: ArrayMapping("a", BATCHING), "come first"), (lambda: ArrayMapping(BATCHING + "x"), "may be followed by a number"),
    (lambda: CompoundFactor("a"), "at least two"), (lambda: CompoundFactor("a", 3), "got 3"),
    (lambda: CompoundFactor("a", BATCHING), "stands for several"), (lambda: SdyShardingRule(("i",), ("i",)), "got 'i'"),
])
def test_invalid_mappings_raise(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_no_rule(mesh):
    """Without one the compiler proposes results that are whole."""
    @custom_partitioning
    def f(x):
        return x + 1

    replicated = NamedSharding(mesh, P())
    f.def_partition(lambda mesh, args, result: (mesh, lambda x: x + 1, result.sharding, (replicated,)))
    np.testing.assert_allclose(xf.jit(f)(split(mesh, P("x"))), MATRIX + 1)
    f.def_partition(f.partition, infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding)
    with pytest.raises(NotImplementedError, match="no sharding_rule"):
        xf.jit(lambda x: f(x))(split(mesh, P("x")))


# What partitions do wrong comes back as what they raised


def wrong_partitions(mesh):
    replicated = NamedSharding(mesh, P())
    other = NamedSharding(xf.sharding.Mesh(mesh.devices[::-1], mesh.axis_names), P())
    return {
        "mine": (KeyError, lambda mesh, a, r: {}["mine"]),
        "got NoneType": (ValueError, lambda mesh, a, r: None),
        "got 3 values": (ValueError, lambda mesh, a, r: (mesh, xnp.sin, r.sharding)),
        "must return a Mesh first": (ValueError, lambda mesh, a, r: (3, xnp.sin, r.sharding, shardings(a))),
        "shards second": (TypeError, lambda mesh, a, r: (mesh, None, r.sharding, shardings(a))),
        r"arguments of f, .*got NamedSharding": (ValueError, lambda mesh, a, r: (mesh, xnp.sin, r.sharding, replicated)),
        r"results of f, .*got None": (ValueError, lambda mesh, a, r: (mesh, xnp.sin, None, shardings(a))),
        r"arguments of f, .*got 3 among": (ValueError, lambda mesh, a, r: (mesh, xnp.sin, replicated, (3,))),
        "same order": (ValueError, lambda mesh, a, r: (mesh, xnp.sin, other, shardings(a))),
        r"shard of one device, float32\[2,8\] .* returned float32\[1,8\]": (
            ValueError, lambda mesh, a, r: (mesh, lambda x: x[:1], r.sharding, shardings(a))),
        r"returned int32\[2,8\]": (ValueError, lambda mesh, a, r: (mesh, lambda x: x.astype(int), r.sharding, shardings(a))),
        "with structure": (ValueError, lambda mesh, a, r: (mesh, lambda x: (x, x), r.sharding, shardings(a))),
        "division": (ZeroDivisionError, lambda mesh, a, r: (mesh, lambda x: 1 / 0, r.sharding, shardings(a))),
        "unbound": (NameError, lambda mesh, a, r: (mesh, lambda x: lax.psum(x, "z"), r.sharding, shardings(a))),
        "Python callbacks": (NotImplementedError, lambda mesh, a, r: (
            mesh, lambda x: xf.pure_callback(lambda v: v, x, x), r.sharding, shardings(a))),
    }


def test_errors_in_partitions(mesh):
    for words, (kind, partition) in wrong_partitions(mesh).items():
        def f(x):
            return xnp.sin(x)

        f = custom_partitioning(f)
        partition.__name__ = "my_partition"
        f.def_partition(partition, sharding_rule="i j -> i j")
        with pytest.raises(kind, match=words) as caught:
            xf.jit(lambda x: f(x))(split(mesh, P("x", "y")))
        assert "my_partition" in str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
