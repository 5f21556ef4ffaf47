"""Computations fused into kernels: values against NumPy, interpreted and from the emitted module; blocks; what is refused."""

import typing

import fused_kernels
import numpy as np
import pytest
from fused_kernels import ARGS, BIAS, FUSED, X, Y, fused
from test_mosaic import evaluated

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import fuser

pytestmark = pytest.mark.cpu_only
ROWS = pl.BlockSpec((8, 128), lambda i, j: (i, j))


def compare(found, expected):
    found, expected = xf.tree.leaves(found), xf.tree.leaves(expected)
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        np.testing.assert_allclose(np.asarray(f, np.float64), np.broadcast_to(e, f.shape), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("name", FUSED)
def test_values(name):
    compare(xf.jit(fused(name, True))(*ARGS), FUSED[name][1])
    if name == "a bias and an activation":
        compare(fused(name, True)(*ARGS), FUSED[name][1])
        unfused = fuser.fusible(lambda *args: fused_kernels.matmul(True, *args))
        compare(FUSED[name][0](unfused, *ARGS), FUSED[name][1])


@pytest.mark.parametrize("name, operands", [
    ("a bias and an activation", (0, 1, 2)), ("transposed operands", (0, 1)), ("a dynamic slice", (4, 3, 1)), ("a mask", (0, 1)),
    ("two results", (0, 1))])
def test_values_of_the_module(name, operands):
    """The kernel takes some of the arguments, in this order."""
    def f(*given):
        return fused(name, False)(*[given[operands.index(i)] if i in operands else x for i, x in enumerate(ARGS)])

    found, _ = evaluated(f, *[ARGS[i] for i in operands])
    compare(found, FUSED[name][1])


# Blocks of results, at step 3 of the grid: the spec, its index, and the same part of an array of shape (64, 256).
Z, ROW = np.arange(64 * 256, dtype=np.float32).reshape(64, 256), np.arange(256, dtype=np.float32)
DIMS = {
    "elements": (pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (4 * i, 64)), (12, 64), np.s_[12:20, 64:192]),
    "rows of elements": (pl.BlockSpec((pl.Element(8), 128), lambda i: (4 * i, 1)), (12, 1), np.s_[12:20, 128:]),
    "padded": (pl.BlockSpec((pl.Element(8, (2, 2)), 128), lambda i: (4 * i, 1)), (12, 1), np.s_[10:18, 128:]),
    "slices": (pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(4 * i, 8), 1)), (pl.ds(12, 8), 1), np.s_[12:20, 128:]),
    "squeezed": (pl.BlockSpec((None, pl.Element(128)), lambda i: (i, 64)), (3, 64), np.s_[3, 64:192]),
    "blocked": (pl.BlockSpec((pl.Blocked(8), pl.BoundedSlice(128)), lambda i: (i, pl.ds(64, 128))), (3, pl.ds(64, 128)),
                np.s_[24:32, 64:192])}


def _moved(index, by):
    return pl.ds(index.start + by, index.size) if isinstance(index, pl.Slice) else index + by


# Fusions with what they compute, and the block shape and the index of the first operand, from those of the result.
PULLED = {
    "a product": (lambda: 2 * Z, 2 * Z, lambda b, i: (b, i)),
    "a broadcast row": (lambda: lax.broadcast_in_dim(ROW, (64, 256), (1,)), np.broadcast_to(ROW, (64, 256)),
                        lambda b, i: (b[1:], i[1:])),
    "a broadcast column": (lambda: lax.broadcast_in_dim(Z[:, :1], (64, 256), (0, 1)), np.broadcast_to(Z[:, :1], (64, 256)),
                           lambda b, i: ((b[0], 1), (i[0], 0))),
    "a transposition": (lambda: lax.transpose(Z.T, (1, 0)), Z, lambda b, i: (b[::-1], i[::-1])),
    "a slice": (lambda: lax.slice(np.concatenate([Z, Z]), (64, 0), (128, 256)), Z,
                lambda b, i: (b, (_moved(i[0], 8 if isinstance(b[0], pl.Blocked) else 64), i[1]))),
    "a sum": (lambda: lax.reduce_sum(np.stack([Z, Z]), (0,)), 2 * Z, lambda b, i: ((pl.Blocked(2), *b), (0, *i))),
    "a squeezed axis": (lambda: lax.squeeze(Z[:, None], (1,)), Z, lambda b, i: ((b[0], None, b[1]), (i[0], 0, i[1]))),
    "a matrix product": (lambda: lax.dot(Z[:, :16], Z[:16]), Z[:, :16] @ Z[:16], lambda b, i: ((b[0], 16), (i[0], 0))),
    "an iota": (lambda: Z + lax.broadcasted_iota(np.float32, (64, 256), 0), Z + np.arange(64)[:, None], lambda b, i: (b, i)),
    "a new axis": (lambda: lax.reshape(Z[:, None], (64, 256)), Z, lambda b, i: (
        (1 if b[0] is None else b[0], 1, b[1]), (i[0], 0, i[1]))),
}


def block_part(x, spec, index):
    """The part of an array that is a block; a block here ends within the array."""
    key = [i if b is None else slice(i.start, i.start + i.size) if isinstance(i, pl.Slice) else
           slice(i - b.padding[0], i - b.padding[0] + b.block_size) if isinstance(b, pl.Element) else
           slice(i * getattr(b, "block_size", b), (i + 1) * getattr(b, "block_size", b)) for b, i in zip(spec.block_shape, index)]
    return np.asarray(x)[tuple(key)]


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("name", PULLED)
def test_blocks_of_elements_and_slices(name, dims):
    """Dimensions keep their kind in blocks of operands, as in JAX 0.12."""
    (fusion, full, expected), (spec, index, part) = PULLED[name], DIMS[dims]
    function, values, _ = fuser.get_fusion_values(fusion)
    kernel_function, (specs,), _ = fuser.pull_block_spec(function, spec, grid_len=1)(values)
    assert (specs[0].block_shape, specs[0].index_map(3)) == expected(spec.block_shape, index)
    blocks = [block_part(x, s, s.index_map(3)) for x, s in zip(values, specs)]
    found = kernel_function((3,), (), blocks)
    np.testing.assert_allclose(found, np.asarray(full)[part], rtol=1e-5)


@pytest.mark.parametrize("dims", DIMS)
def test_pushed_blocks_of_elements_and_slices(dims):
    spec, index, _ = DIMS[dims]
    b, i = spec.block_shape, index
    for f, shape, position in (
            (lambda x: (2 * x + 1).astype(np.float16), b, i), (lambda x: x.T, b[::-1], i[::-1]),
            (lambda x: lax.broadcast_in_dim(x, (3, 64, 256), (1, 2)), (3, *b), (0, *i)),
            (lambda x: lax.expand_dims(x, (1,)), (b[0], 1, b[1]), (i[0], 0, i[1]))):
        found = fuser.push_block_spec(f, spec)(Z)
        assert (found.block_shape, found.index_map(3)) == (shape, position)


def test_fused_kernels_on_elements():
    """Rows of a fusion overlap: each step adds two, and the fusion begins at row 4 of the array."""
    bias = np.float32(3) * ROW
    function, values, _ = fuser.get_fusion_values(lambda: lax.slice(Z, (4, 0), (60, 256)) * 2 + bias)
    windows = pl.BlockSpec((pl.Element(16), pl.Blocked(128)), lambda i, j: (8 * i, j))
    kernel_function, (specs,), _ = fuser.pull_block_spec(function, windows, grid_len=2)(values)

    def kernel(*refs):
        *operands, o_ref = refs
        x = kernel_function((pl.program_id(0), pl.program_id(1)), (), [ref[...] for ref in operands])
        o_ref[...] = x[:8] + x[8:]

    found = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((48, 256), "float32"), grid=(6, 2), in_specs=list(specs),
                           out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)), interpret=True)(*values)
    fused_rows = Z[4:60] * 2 + bias
    compare(found, fused_rows[:48] + fused_rows[8:])


def test_blocks_that_are_not_consecutive():
    rows = pl.BlockSpec((pl.Element(8), 128), lambda i: (i, 0))
    for f, x, message in ((lambda x: lax.concatenate([x, x], 0), Z[:32], "along axis 0 in blocks of Element.*parts of several operands"),
                          (lambda x: xnp.tile(x, (8, 1)), Z[:8], "in blocks of Element.*parts of several copies"),
                          (lambda x: lax.reshape(x, (64, 256)), Z.reshape(-1), "dimensions that are merged or split")):
        with pytest.raises(NotImplementedError, match=message):
            fuser.pull_block_spec(f, rows, grid_len=1)(x)


def test_fusions_with_references():
    first, second = xf.new_ref(xnp.asarray(BIAS)), xf.new_ref(2 * xnp.asarray(BIAS))
    function, values, scalars = fuser.get_stateful_input_fusion_values(lambda x: first[:8] * x + Y[0, :8], X[0, :8])
    assert scalars == () and [type(v).__name__ for v in values].count("Ref") == 1
    arrays = [3 * BIAS if v is first else v for v in values]
    compare(function(arrays, X[1, :8]), 3 * BIAS[:8] * X[1, :8] + Y[0, :8])

    def output(x):
        first[...] = x + second[...]
        second[...] += 1
        return {"sum": x + 1, "same": x}

    function, values, _, aliases = fuser.get_stateful_output_fusion_values(output, BIAS)
    arrays = [BIAS * (5 if v is second else 7) for v in values]
    found, new = function(arrays, BIAS)
    compare(found, {"sum": BIAS + 1, "same": BIAS})
    written = {id(values[i]): new[k - 2] for k, i in aliases.items()}
    compare(written[id(first)], 6 * BIAS)
    compare(written[id(second)], 5 * BIAS + 1)
    assert sorted(aliases) == [2, 3]
    function, _, _, aliases = fuser.get_stateful_output_fusion_values(lambda x: x + 1, BIAS)
    assert aliases == {} and function((), BIAS)[1] == ()
    with pytest.raises(ValueError, match="uses no references. Use get_stateful_input_fusion_values"):
        fuser.get_fusion_values(lambda: first[...])


def test_custom_fusions():
    calls = []

    @fuser.custom_fusion
    def halves(x):
        return x[:, :128], {"right": x[:, 128:]}

    with pytest.raises(ValueError, match="custom_fusion halves lacks a rule. Define it with halves.def_pull_block_spec"):
        halves(X)
    halves.def_pull_block_spec(lambda outs: [calls.append(outs), (next(t for t in outs if t is not None).replace(
        block_index_transform=lambda *index: (index[0][0], 7)),)][1])
    halves.def_push_block_spec(lambda specs: (specs[0], specs[0]))
    halves.def_eval_rule(lambda context, x: [calls.append(context), (x, 2 * x)][1])
    compare(halves(X), (X[:, :128], X[:, 128:]))
    compare(xf.jvp(lambda x: halves(x)[1]["right"], (X,), (Y,))[1], Y[:, 128:])
    compare(xf.vmap(lambda x: halves(x)[0])(X[None]), X[None, :, :128])
    function, (spec,), _ = fuser.pull_block_spec(lambda x: 3 * halves(x)[1]["right"], ROWS, grid_len=2)(X)
    assert spec.index_map(3, 5) == (3, 7) and tuple(spec.block_shape) == (8, 128)
    assert calls[0][0] is None and calls[0][1].block_shape == (8, 128) and calls[0][1].block_index_transform() == (3, 5)
    compare(function((3, 5), (), X[:8, :128]), 6 * X[:8, :128])
    assert calls[-1].out_block_indices == (None, (3, 5)) and calls[-1].out_block_specs[1].block_shape == (8, 128)
    found = fuser.push_block_spec(halves, ROWS)(X)
    assert found[1]["right"].index_map(3, 5) == (3, 5)
    halves.def_push_block_spec(lambda specs: specs[0])
    with pytest.raises(TypeError, match="halves.def_push_block_spec has set must return a tuple for the 2 results of halves"):
        fuser.push_block_spec(halves, ROWS)(X)
    halves.def_pull_block_spec(lambda outs: (ROWS,))
    with pytest.raises(TypeError, match="returns BlockIndexTransforms, got"):
        fuser.pull_block_spec(lambda x: halves(x)[0], ROWS, grid_len=2)(X)


def test_custom_fusions_in_kernels():
    tripled = fuser.custom_fusion(lambda x: 2 * x + x)
    tripled.def_pull_block_spec(lambda outs: outs)
    tripled.def_push_block_spec(lambda specs: specs)
    tripled.def_eval_rule(lambda context, x: (tripled(x),))

    def kernel(x_ref, o_ref):
        o_ref[...] = tripled(x_ref[...])

    call = lambda interpret: pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((8, 128), np.float32), interpret=interpret)
    x = X[:8, :128].copy()
    compare(call(True)(x), 3 * x)
    compare(evaluated(call(False), x)[0], 3 * x)
    tripled.def_pallas_impl(lambda x: 3 * x + 1)
    compare(evaluated(lambda x: call(False)(x), x)[0], 3 * x + 1)


def test_blocks():
    index = lambda spec: (tuple(spec.block_shape), spec.index_map(3, 5))
    pull = lambda f, *shapes, **options: [index(s) for s in fuser.pull_block_spec(f, ROWS, **options)(
        *[xf.ShapeDtypeStruct(s, "float32") for s in shapes])[1]]
    assert pull(lambda x: 2 * x, (64, 1024)) == [((8, 128), (3, 5))]
    assert pull(lambda x: x.T, (1024, 64)) == [((128, 8), (5, 3))]
    assert pull(lambda x, b: x + b, (64, 1024), (1024,)) == [((8, 128), (3, 5)), ((128,), (5,))]
    assert pull(lambda x, b: x + b, (64, 1024), (64, 1)) == [((8, 128), (3, 5)), ((8, 1), (3, 0))]
    assert pull(lambda x: x[8:72, 128:], (80, 1152)) == [((8, 128), (4, 6))]
    assert pull(lambda x: x.sum(1), (64, 4, 1024)) == [((8, pl.Blocked(4), 128), (3, 0, 5))]
    assert pull(lambda x: x[0, :, None, 0, :].squeeze(1), (1, 64, 1, 1024)) == [((1, 8, 1, 128), (0, 3, 0, 5))]
    push = lambda f, spec, shape: index(fuser.push_block_spec(f, spec)(xf.ShapeDtypeStruct(shape, "float32")))
    assert push(lambda x: x.T[None] + 1, ROWS, (64, 1024)) == ((1, 128, 8), (0, 5, 3))
    assert push(lambda x: x.max(0), pl.BlockSpec((64, 128), lambda i, j: (0, j)), (64, 1024)) == ((128,), (5,))
    spec, out = fuser.push_block_spec(lambda x: x.astype(xnp.bfloat16), ROWS, return_out_type=True)(xnp.ones((64, 1024)))
    assert spec.block_shape == (8, 128) and out == xf.ShapeDtypeStruct((64, 1024), xnp.bfloat16)


def test_blocks_of_values():
    f = lambda x, b: (x[:64] * b, lax.broadcasted_iota(np.int32, (64, 1024), 0))
    kernel, specs, named = fuser.pull_block_spec(f, (pl.BlockSpec((8, None), lambda i, j: (i, j)), ROWS), grid_len=2)(
        xf.ShapeDtypeStruct((72, 1024), "float32"), xf.ShapeDtypeStruct((1024,), "float32"))
    assert [s.block_shape for s in specs] == [(8, None), (None,)] and named == {}
    column, rows = kernel((2, 7), (), np.arange(8.0, dtype="float32")[:, None], np.full(1, 3, "float32"))
    np.testing.assert_array_equal(column, 3 * np.arange(8))
    np.testing.assert_array_equal(rows, np.broadcast_to(16 + np.arange(8)[:, None], (8, 128)))


def in_blocks(f, shapes, block, result):
    """Compute a function block by block, from the blocks of its arguments."""
    spec = pl.BlockSpec(block, lambda *index: index)
    kernel, specs, _ = fuser.pull_block_spec(f, spec, grid_len=len(block))(*[xf.ShapeDtypeStruct(s, "float32") for s in shapes])
    arrays = [np.random.default_rng(k).normal(size=s).astype(np.float32) for k, s in enumerate(shapes)]
    part = lambda index, sizes: tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, sizes, strict=True))
    found = np.full(result, np.nan, np.float32)
    for index in np.ndindex(*[n // m for n, m in zip(result, block)]):
        found[part(index, block)] = kernel(index, (), *[x[part(s.index_map(*index), s.block_shape)] for x, s in zip(arrays, specs)])
    np.testing.assert_allclose(found, f(*arrays), rtol=1e-5, atol=1e-5)
    return [s.block_shape for s in specs]


@pytest.mark.parametrize("shape, result, block, expected", [
    ((8, 4, 128), (8, 512), (8, 128), (8, 1, 128)), ((8, 4, 128), (8, 512), (4, 256), (4, 2, 128)),
    ((8, 4, 128), (8, 512), (8, 512), (8, 4, 128)), ((8, 4, 128), (8, 512), (8, 64), (8, 1, 64)),
    ((4, 8, 128), (32, 128), (4, 128), (1, 4, 128)), ((4, 8, 128), (32, 128), (16, 64), (2, 8, 64)),
    ((8, 512), (8, 4, 128), (8, 2, 128), (8, 256)), ((8, 512), (8, 4, 128), (2, 1, 64), (2, 64)),
    ((32, 128), (4, 8, 128), (1, 4, 128), (4, 128)), ((32, 128), (2, 1, 2, 8, 128), (1, 1, 2, 8, 128), (16, 128)),
    ((2, 8, 8, 128), (16, 8, 128), (4, 8, 128), (1, 4, 8, 128)), ((6, 4, 16), (4, 6, 16), (2, 6, 16), (3, 4, 16)),
    ((2, 3, 4), (24,), (2,), (1, 1, 2)), ((24,), (2, 3, 4), (1, 1, 4), (4,)), ((1, 6, 1), (6,), (2,), (1, 2, 1))])
def test_blocks_of_reshaped_arrays(shape, result, block, expected):
    assert in_blocks(lambda x: x.reshape(result), [shape], block, result) == [expected]


@pytest.mark.parametrize("f, shapes, result, block, expected", [
    (lambda *x: xnp.concatenate(x), [(8, 256), (16, 256)], (24, 256), (24, 128), [(8, 128), (16, 128)]),
    (lambda *x: xnp.concatenate(x), [(8, 256), (16, 256), (8, 256)], (32, 256), (4, 128), [(4, 128)] * 3),
    (lambda *x: xnp.concatenate(x, 1), [(16, 128), (16, 256)], (16, 384), (8, 128), [(8, 128)] * 2),
    (lambda x, y: xnp.concatenate([x + 1, xnp.zeros((8, 256)), y]), [(8, 256)] * 2, (24, 256), (8, 128), [(8, 128)] * 2),
    (lambda x, y: xnp.stack([x, y], 1), [(16, 128)] * 2, (16, 2, 128), (8, 2, 64), [(8, 64)] * 2),
    (lambda x: xnp.split(x, [128], 1)[1], [(16, 384)], (16, 256), (8, 256), [(8, 384)]),
    (lambda x: sum(xnp.split(x, 2)), [(16, 256)], (8, 256), (8, 128), [(16, 128)]),
    (lambda x: xnp.tile(x, (3, 2)), [(8, 128)], (24, 256), (24, 128), [(8, 128)]),
    (lambda x: xnp.tile(x, (3, 2)), [(8, 128)], (24, 256), (4, 256), [(4, 128)]),
    (lambda x: xnp.repeat(x, 2, 0), [(8, 128)], (16, 128), (8, 128), [(4, 128)]),
    (lambda x, y: x @ y, [(16, 32), (32, 128)], (16, 128), (8, 64), [(8, 32), (32, 64)]),
    (lambda x, y: xnp.einsum("bij,bkj->bik", x, y), [(4, 16, 32), (4, 64, 32)], (4, 16, 64), (2, 8, 64), [(2, 8, 32), (2, 64, 32)])])
def test_blocks_of_joined_arrays(f, shapes, result, block, expected):
    """Concatenated, stacked, split and repeated arrays, and products."""
    assert in_blocks(f, shapes, block, result) == expected


def test_fusions():
    kinds = []

    @fuser.fusible
    def kernel(x_fusion, pair, out_fusion, *, scale):
        kinds.append((x_fusion.shape, pair["y"].dtype, getattr(out_fusion, "in_type", None), getattr(out_fusion, "shape", None)))
        value = scale * (x_fusion() + pair["y"]())
        return value if out_fusion is None else out_fusion(value)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    f = lambda x: (kernel(x + 1, {"y": xnp.ones((2, 3))}, scale=2).T, x.sum())
    found, total = fuser.fuse(f)(x)
    np.testing.assert_array_equal(found, 2 * (x + 2).T)
    assert total == 15 and kinds[-1][0] == (2, 3) and kinds[-1][3] == ((3, 2),) and len(kinds) == 2
    np.testing.assert_array_equal(f(x)[0], found)
    np.testing.assert_array_equal(xf.jit(f)(x)[0], found)
    plain = fuser.fuse(lambda x, n: kernel(x, {"y": x}, scale=n), static_argnums=1)(x, 3)
    np.testing.assert_array_equal(plain, 6 * x)
    assert kinds[-1][2] is None


def test_groups_of_results():
    @fuser.fusible(output_fusion_prefix=(True, True))
    def kernel(x_fusion, fusions):
        values = x_fusion() + 1, x_fusion() * 2
        return tuple(v if f is None else f(v) for f, v in zip(fusions, values))

    x = np.ones((2, 3), np.float32)
    a, b, c = fuser.fuse(lambda x: (lambda a, b: (b.T, a * 2, b - 1))(*kernel(x)))(x)
    assert a.shape == (3, 2) and (a == 2).all() and (b == 4).all() and (c == 1).all()
    with pytest.raises(ValueError, match="several groups of results"):
        fuser.fuse(lambda x: sum(kernel(x)))(x)


def test_groups_of_nested_results():
    """An entry of the prefix stands for a pytree, which its fusion takes as it is."""
    def kernel(prefix):
        @fuser.fusible(output_fusion_prefix=prefix)
        def nested(x_fusion, fusions):
            values = x_fusion(), {"more": (x_fusion() + 1, x_fusion() + 2)}
            if type(fusions) is not tuple:
                return values if fusions is None else fusions(values)
            assert all(f is None or xf.tree.structure(f.in_type[0]) == xf.tree.structure(v) for f, v in zip(fusions, values))
            return tuple(v if f is None else f(v) for f, v in zip(fusions, values))
        return nested

    x = np.ones((2, 3), np.float32)

    def f(call):
        a, b = call(x)
        return b["more"][0] * 10 + b["more"][1], a - 1, b["more"][0]

    for prefix in (True, (True, True)):
        compare(fuser.fuse(lambda x: f(kernel(prefix)))(x), (23 + 0 * x, 0 * x, 2 + 0 * x))
    with pytest.raises(ValueError, match="output_fusion_prefix=.* is no prefix of the results"):
        fuser.fuse(fuser.fusible(lambda x_fusion, fusions: (x_fusion(), x_fusion()), output_fusion_prefix=(True,)))(x)


def test_values_of_fusions():
    x, i = xnp.arange(12.0).reshape(3, 4), xnp.asarray(2)

    def split(x, i, scale):
        f, values, scalars = fuser.get_fusion_values(lambda z: z * x[0] * scale + lax.dynamic_index_in_dim(x, i + 0, 0), x[:1])
        assert [v.shape for v in values] == [(3, 4), ()] and [s.shape for s in scalars] == [()]
        return f([2 * v for v in values], xnp.ones((1, 4)))

    np.testing.assert_allclose(xf.jit(split)(x, i, 10.0), [40 * np.arange(4.0) + 2 * np.arange(8.0, 12)])


def test_refused():
    shape = xf.ShapeDtypeStruct((64, 1024), "float32")
    pull = lambda f, *args: fuser.pull_block_spec(f, ROWS, grid_len=2)(*args or (shape,))
    for f, message in (
            (lambda x: xnp.concatenate([x[:4], x[:60]]), r"concatenate .* of sizes \(4, 60\) in blocks of 8"),
            (lambda x: xnp.sort(x), "sort cannot be fused"), (lambda x: x[::2], "with strides"),
            (lambda x: x.reshape(1024, 64).reshape(32, 2048), "reshape .* must have blocks of consecutive elements"),
            (lambda x: xnp.stack([x[0], x[1]]), "of 2 arrays in blocks of 8 along the new axis: blocks must have all"),
            (lambda x: xnp.split(x, 2, axis=1)[1], r"split .* along axis 1 in blocks of \(8, 128\): blocks must have that axis whole"),
            (lambda x: xnp.tile(x[:12], (2, 1)), r"tile .* of shape \(12, 1024\) in blocks of \(8, 128\): their sizes must divide"),
            (lambda x: lax.fori_loop(0, 3, lambda i, x: x * 2, x), "cannot be fused")):
        with pytest.raises(NotImplementedError, match=message):
            pull(f)
    for f, message in ((lambda x: x[4:], "slice from 4 cannot be fused into a kernel with blocks of 8. Start at a multiple"),
                       (lambda x: xnp.concatenate([x, x + 1]), "at different positions, by")):
        with pytest.raises(ValueError, match=message):
            pull(f)
    square = xf.ShapeDtypeStruct((1024, 1024), "float32")
    with pytest.raises(ValueError, match=r"used in blocks of \(\d+, \d+\) and of \(\d+, \d+\) at different positions"):
        pull(lambda x: x + x.T, square)
    with pytest.raises(ValueError, match="closes over no arrays"):
        pull(lambda x: x + X[:64, :1].sum() * Y[:1, :1] * xnp.ones((64, 1024)), shape)
    with pytest.raises(NotImplementedError, match="each block must have these axes whole"):
        fuser.push_block_spec(lambda x: x.sum(1), ROWS)(shape)
    with pytest.raises(NotImplementedError, match="block dimension Indirect"):
        fuser.pull_block_spec(lambda x: x, pl.BlockSpec((pl.Indirect(8), 128), lambda i, j: (i, j)))(shape)
    with pytest.raises(ValueError, match="has 0 such calls"):
        fuser.fuse(lambda x: x + 1)(X)
    with pytest.raises(ValueError, match="has 2 such calls"):
        fuser.fuse(lambda x: (lambda k: k(x) + k(x))(fuser.fusible(lambda f, out: f())))(X)
    with pytest.raises(NotImplementedError, match="scan is not possible|while is not possible"):
        fuser.evaluate(lambda x: lax.fori_loop(0, 3, lambda i, x: x * 2, x))(X)
    with pytest.raises(ValueError, match="allow_transpose is False"):
        fuser.evaluate(lambda x: x.T, allow_transpose=False)(X)
    np.testing.assert_array_equal(fuser.evaluate(lambda x: xf.jit(lambda x: 2 * x)(x).T)(X), 2 * X.T)


def test_specs_with_prefetched_scalars():
    specs = fuser.block_spec_with_prefetch({"x": pl.BlockSpec((8,), lambda i, n: (i + n,)), "y": pl.no_block_spec}, (3,))
    assert specs["x"].index_map(2) == (5,) and specs["y"] is pl.no_block_spec
    assert fuser.make_scalar_prefetch_handler(1, 0)("a", ("b", "c")) == "b"
    assert fuser.filter_no_block_specs((1, 2), (pl.no_block_spec, ROWS)) == ((None, 2), (None, ROWS))


def test_annotations_with_fusions():
    annotation = fuser.Fusion[[int, float], xf.Array]
    assert typing.get_origin(annotation) is fuser.Fusion and typing.get_args(annotation) == ((int, float), xf.Array)
    assert typing.get_args(xf.custom_vjp[xf.Array]) == typing.get_args(xf.custom_jvp[xf.Array]) == (xf.Array,)
