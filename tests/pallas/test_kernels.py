"""Kernels on blocks, compared with NumPy on the same blocks."""

import dataclasses
import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.staging import compiling

interpreted = functools.partial(pl.pallas_call, interpret=True)
X, M = np.arange(8, dtype=np.float32), np.arange(24, dtype=np.float32).reshape(4, 6)


def like(x):
    return xf.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype)


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def test_kernel_without_grid():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * 2 + y_ref[...]

    np.testing.assert_array_equal(interpreted(kernel, out_shape=like(X))(X, X), 3 * X)
    np.testing.assert_array_equal(xf.jit(interpreted(kernel, out_shape=like(X)))(X, X), 3 * X)


@pytest.mark.parametrize("grid", [4, (4,), [4]])
def test_program_ids_and_sizes(grid):
    def kernel(o_ref):
        o_ref[...] = xnp.full_like(o_ref, 10 * pl.program_id(0) + pl.num_programs(0))

    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((8,), "int32"), grid=grid, out_specs=pl.BlockSpec((2,), lambda i: i))()
    np.testing.assert_array_equal(found, np.repeat(10 * np.arange(4) + 4, 2))


def test_last_grid_axis_varies_fastest():
    def kernel(o_ref, count_ref):
        @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
        def _():
            count_ref[...] = xnp.zeros_like(count_ref)

        o_ref[0, 0] = count_ref[0]
        count_ref[0] += 1

    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((2, 3), "int32"), grid=(2, 3),
                        out_specs=pl.BlockSpec((1, 1), lambda i, j: (i, j)), scratch_shapes=[pl.ANY((1,), "int32")])()
    np.testing.assert_array_equal(found, np.arange(6).reshape(2, 3))


def test_transposed_blocks():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((6, 4), "float32"), grid=(2, 2), in_specs=[
        pl.BlockSpec((2, 3), lambda i, j: (i, j))], out_specs=pl.BlockSpec((3, 2), lambda i, j: (j, i)))(M)
    np.testing.assert_array_equal(found, M.T)


@pytest.mark.parametrize("dropped", [None, pl.squeezed, pl.Squeezed()])
def test_squeezed_dimensions(dropped):
    def kernel(x_ref, o_ref):
        assert x_ref.shape == o_ref.shape == (6,)
        o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec((dropped, 6), lambda i: (i, 0))
    np.testing.assert_array_equal(interpreted(kernel, out_shape=like(M), grid=4, in_specs=[spec], out_specs=spec)(M), 2 * M)


def test_edge_blocks_are_padded_with_uninitialized_values():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].sum(keepdims=True)

    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((3,), "float32"), grid=3, in_specs=[
        pl.BlockSpec((3,), lambda i: i)], out_specs=pl.BlockSpec((1,), lambda i: i))(X)
    np.testing.assert_array_equal(found, [3, 12, np.nan])
    spec = pl.BlockSpec((3,), lambda i: i)
    np.testing.assert_array_equal(interpreted(copy, out_shape=like(X), grid=3, in_specs=[spec], out_specs=spec)(X), X)


@pytest.mark.parametrize(("dtype", "value"), [
    ("float32", np.nan), ("bfloat16", np.nan), ("int32", -2**31), ("int8", -128), ("uint8", 0), ("bool", False)])
def test_uninitialized_values(dtype, value):
    found = interpreted(lambda o_ref: None, out_shape=xf.ShapeDtypeStruct((2,), dtype))()
    np.testing.assert_array_equal(np.asarray(found).astype("float64"), [float(value)] * 2)


def test_element_indexed_blocks():
    def out(i):
        return i, 0

    found = interpreted(copy, out_shape=like(M), grid=2, in_specs=[pl.BlockSpec((pl.Element(2), pl.Element(6)), lambda i: (i, 0))],
                        out_specs=pl.BlockSpec((2, 6), out))(M)
    np.testing.assert_array_equal(found, np.concatenate([M[:2], M[1:3]]))
    found = interpreted(copy, out_shape=like(M), grid=2, in_specs=[
        pl.BlockSpec((pl.Element(2, (1, 1)), 6), lambda i: (2 * i, 0))], out_specs=pl.BlockSpec((2, 6), out))(M)
    np.testing.assert_array_equal(found, [np.full(6, np.nan), *M[:3]])
    found = interpreted(copy, out_shape=like(M), grid=2, in_specs=[
        pl.BlockSpec((pl.BoundedSlice(2), 6), lambda i: (pl.ds(2 - 2 * i, 2), 0))], out_specs=pl.BlockSpec((2, 6), out))(M)
    np.testing.assert_array_equal(found, np.concatenate([M[2:], M[:2]]))


def test_dynamic_grid():
    @xf.jit
    def first(n, x):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] + pl.num_programs(0)

        spec = pl.BlockSpec((2,), lambda i: i)
        return interpreted(kernel, out_shape=like(X), grid=(n,), in_specs=[spec], out_specs=spec)(x)

    np.testing.assert_array_equal(first(2, X), [2, 3, 4, 5, *[np.nan] * 4])
    np.testing.assert_array_equal(first(4, X), X + 4)


def test_an_empty_grid_writes_nothing():
    np.testing.assert_array_equal(interpreted(copy, out_shape=like(X), grid=(2, 0))(X), np.full(8, np.nan))


def test_input_output_aliases():
    def kernel(x_ref, o_ref):
        o_ref[0] = xnp.float32(5)

    np.testing.assert_array_equal(interpreted(kernel, out_shape=like(X), input_output_aliases={0: 0})(X), [5, *X[1:]])
    assert X[0] == 0


def test_pytrees_of_arguments_results_and_scratch():
    def kernel(d, o, *, held):
        held["a"][...] = d["x"][...] + 1
        o["first"][...] = held["a"][...]
        o["second"][...] = d["y"][0][1]

    found = interpreted(kernel, out_shape={"first": like(X), "second": like(M[0])},
                        scratch_shapes={"held": {"a": pl.ANY((8,), "float32")}})({"x": X, "y": (M,)})
    np.testing.assert_array_equal(found["first"], X + 1)
    np.testing.assert_array_equal(found["second"], M[1])

    def two(x_ref, o_ref, p_ref):
        o_ref[...], p_ref[...] = x_ref[...], -x_ref[...]

    both = interpreted(two, out_shape=[like(X), like(X)])(X)
    assert type(both) is tuple
    np.testing.assert_array_equal(both[1], -X)
    assert interpreted(lambda x_ref: None, out_shape=())(X) == ()


def test_numbers_and_scalars():
    def kernel(x_ref, n_ref, o_ref):
        o_ref[...] = x_ref[...] * n_ref[...]

    np.testing.assert_array_equal(interpreted(kernel, out_shape=like(X))(X, 3.0), 3 * X)
    assert interpreted(copy, out_shape=xf.ShapeDtypeStruct((), "int32"))(3) == 3


def test_program_id_in_loops_branches_and_functions():
    def kernel(x_ref, o_ref):
        def body(i, total):
            o_ref[i] = x_ref[i] + total + pl.program_id(0)
            return total + 1

        lax.fori_loop(0, 4, body, 0.0)
        lax.while_loop(lambda i: i < 8, lambda i: (o_ref.__setitem__(i, -x_ref[i] - pl.program_id(0)), i + 1)[1], 4)

        @pl.when(pl.program_id(0) == 2)
        def _():
            o_ref[0] = xf.jit(lambda v: v + pl.program_id(0))(o_ref[0])

    found = interpreted(kernel, out_shape=like(X), grid=3)(X)
    np.testing.assert_array_equal(found, [4, 4, 6, 8, -6, -7, -8, -9])


def test_traces_of_inner_functions_are_not_shared_by_kernels():
    """A jitted function that calls program_id is retraced in each kernel."""
    where = xf.jit(lambda x: x + pl.program_id(0))

    def kernel(x_ref, o_ref):
        o_ref[...] = where(x_ref[...])

    spec = pl.BlockSpec((2,), lambda i: i)
    for n in (4, 2):
        found = interpreted(kernel, out_shape=like(X[:2 * n]), grid=n, in_specs=[spec], out_specs=spec)(X)
        np.testing.assert_array_equal(found, X[:2 * n] + np.repeat(np.arange(n), 2))


def test_writes_to_inputs_are_local():
    def kernel(x_ref, o_ref):
        x_ref[...] += 1
        o_ref[...] = x_ref[...]

    np.testing.assert_array_equal(interpreted(kernel, out_shape=like(X), grid=2)(X), X + 2)
    assert X[0] == 0


def test_dynamic_slices():
    def kernel(x_ref, o_ref):
        i = pl.multiple_of(2 * pl.program_id(0), 2)
        o_ref[pl.ds(i, 2)] = x_ref[pl.ds(6 - i, 2)]

    np.testing.assert_array_equal(interpreted(kernel, out_shape=like(X), grid=4)(X), X.reshape(4, 2)[::-1].ravel())
    assert pl.dslice(3) == pl.Slice(0, 3)


def test_a_grid_spec():
    spec = pl.BlockSpec((4,), lambda i: 1 - i)
    grid_spec = pl.GridSpec(grid=2, in_specs=[spec], out_specs=pl.BlockSpec((4,), lambda i: i))
    np.testing.assert_array_equal(interpreted(copy, out_shape=like(X), grid_spec=grid_spec)(X), [*X[4:], *X[:4]])


def test_block_starts_out_of_bounds():
    """Negative starts count from the end of the padded array; starts beyond the end are clamped."""
    def read(first, size=2, **options):
        return interpreted(copy, out_shape=xf.ShapeDtypeStruct((4 * size,), "float32"), grid=4, in_specs=[
            pl.BlockSpec((size,), lambda i: i + first)], out_specs=pl.BlockSpec((size,), lambda i: i), **options)(X)

    np.testing.assert_array_equal(read(-2), [4, 5, 6, 7, 0, 1, 2, 3])
    np.testing.assert_array_equal(read(2), [4, 5, 6, 7, 6, 7, 6, 7])
    last = pl.BlockSpec((pl.Element(3),), lambda i: 6)
    np.testing.assert_array_equal(interpreted(copy, out_shape=like(X[:3]), grid=1, in_specs=[last])(X), [6, 7, np.nan])
    wide = pl.BlockSpec((pl.Element(12, (2, 0)),), lambda i: 0)
    found = interpreted(copy, out_shape=xf.ShapeDtypeStruct((12,), "float32"), grid=1, in_specs=[wide])(X)
    np.testing.assert_array_equal(found, [np.nan, np.nan, *X, np.nan, np.nan])


def test_index_maps_with_scalar_constants():
    spec = pl.BlockSpec((4,), lambda i: (xnp.int32(1) - i) * xnp.asarray(1))
    out = pl.BlockSpec((4,), lambda i: i)
    np.testing.assert_array_equal(interpreted(copy, out_shape=like(X), grid=2, in_specs=[spec], out_specs=out)(X), [*X[4:], *X[:4]])


def test_64_bit_types():
    with xf.enable_x64(True):
        spec = pl.BlockSpec((4,), lambda i: i)
        x = np.arange(8.0)
        call = interpreted(copy, out_shape=like(x), grid=2, in_specs=[spec], out_specs=spec)
        np.testing.assert_array_equal(call(x), x)
        np.testing.assert_array_equal(xf.jit(xf.vmap(call))(np.stack([x, -x])), [x, -x])


def test_dynamic_grid_with_aliases():
    spec = pl.BlockSpec((2,), lambda i: i)

    def first(n, x, y):
        return interpreted(lambda x, y, o: None, out_shape=like(X), grid=(n,), in_specs=[spec, spec], out_specs=spec,
                           input_output_aliases={0: 0})(x, y)

    np.testing.assert_array_equal(xf.jit(first)(2, X, -X), X)


def test_constants_of_internal_functions():
    x = M[:, :4] + 1

    def kernel(x_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...].at[1:3, ::2].add(2.0) + xnp.diag(xnp.diag(x_ref[...])) + np.eye(4, dtype="f")
        p_ref[0] = xnp.linalg.det(x_ref[...]) + pl.program_id(0)

    call = interpreted(kernel, out_shape=(like(x), like(X[:1])), grid=2)
    expected = x.copy()
    expected[1:3, ::2] += 2
    found, determinant = call(x)
    np.testing.assert_array_equal(found, expected + np.diag(np.diag(x)) + np.eye(4))
    np.testing.assert_allclose(determinant, [np.linalg.det(x) + 1], atol=1e-3)
    np.testing.assert_array_equal(xf.vmap(call)(np.stack([x, x]))[0][1], found)
    np.testing.assert_array_equal(xf.jvp(lambda x: call(x)[0], (x,), (x,))[1], x + np.diag(np.diag(x)))


def test_written_integers_are_cast_to_ref_dtype():
    def kernel(o_ref):
        o_ref[...] = xnp.arange(300, 304)
        o_ref[0] += xnp.int32(1)

    np.testing.assert_array_equal(interpreted(kernel, out_shape=xf.ShapeDtypeStruct((4,), "int8"))(), [45, 45, 46, 47])


# Transformations


def matmul(x, y, block: int = 4):
    def kernel(x_ref, y_ref, o_ref, total_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total_ref[...] = xnp.zeros_like(total_ref)

        total_ref[...] += x_ref[...] @ y_ref[...]

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = total_ref[...]

    (m, k), n = x.shape, y.shape[1]
    return interpreted(
        kernel, out_shape=xf.ShapeDtypeStruct((m, n), "float32"), grid=(m // block, n // block, k // block),
        in_specs=[pl.BlockSpec((block, block), lambda i, j, k: (i, k)), pl.BlockSpec((block, block), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)), scratch_shapes=[pl.ANY((block, block), "float32")])(x, y)


RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(8, 12)).astype(np.float32), RNG.normal(size=(12, 4)).astype(np.float32)


def test_matmul_kernel_and_derivatives():
    np.testing.assert_allclose(matmul(A, B), A @ B, rtol=1e-5, atol=1e-5)
    value, tangent = xf.jvp(matmul, (A, B), (A, 2 * B))
    np.testing.assert_allclose(tangent, 3 * A @ B, rtol=1e-5, atol=1e-5)
    of_a, of_b = xf.grad(lambda a, b: (matmul(a, b) ** 2).sum() / 2, (0, 1))(A, B)
    np.testing.assert_allclose(of_a, A @ B @ B.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_b, A.T @ A @ B, rtol=1e-4, atol=1e-4)


def test_vmap():
    many = np.stack([A, 2 * A, -A])
    np.testing.assert_allclose(xf.vmap(matmul, (0, None))(many, B), many @ B, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(xf.vmap(matmul, (2, None), 1)(np.moveaxis(many, 0, 2), B), np.moveaxis(many @ B, 0, 1),
                               rtol=1e-5, atol=1e-5)
    gradient = xf.grad(lambda a: (matmul(a, B) ** 2).sum() / 2)
    np.testing.assert_allclose(xf.jit(xf.vmap(gradient))(many), many @ B @ B.T, rtol=1e-4, atol=1e-4)


def test_vmap_of_dynamic_grid():
    def first(n, x):
        spec = pl.BlockSpec((2,), lambda i: i)
        return interpreted(copy, out_shape=like(X), grid=(n,), in_specs=[spec], out_specs=spec)(x)

    found = xf.jit(xf.vmap(first, (0, None)))(np.array([1, 3]), X)
    np.testing.assert_array_equal(found, [[0, 1, *[np.nan] * 6], [*range(6), np.nan, np.nan]])


def test_vmap_of_aliases():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] += y_ref[...]

    add_to = interpreted(kernel, out_shape=like(X), input_output_aliases={0: 0})
    np.testing.assert_array_equal(xf.vmap(add_to, (None, 0))(X, np.stack([X, 2 * X])), [2 * X, 3 * X])
    value, tangent = xf.jvp(lambda y: add_to(X, y), (X,), (3 * X,))
    np.testing.assert_array_equal(value, 2 * X)
    np.testing.assert_array_equal(tangent, 3 * X)


def test_integer_inputs_have_no_tangent():
    def kernel(x_ref, n_ref, o_ref, p_ref):
        o_ref[...], p_ref[...] = x_ref[...] * n_ref[...], n_ref[...] + 1

    call = interpreted(kernel, out_shape=(like(X), xf.ShapeDtypeStruct((8,), "int32")))
    n = np.arange(8, dtype=np.int32)
    (_, plus), (tangent, nothing) = xf.jvp(lambda x: call(x, n), (X,), (X,))
    np.testing.assert_array_equal(tangent, X * n)
    assert nothing.dtype == xf.dtypes.float0
    np.testing.assert_array_equal(plus, n + 1)


def test_kernel_in_scan_and_shard_map():
    double = interpreted(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2), out_shape=like(X))
    np.testing.assert_array_equal(lax.scan(lambda x, _: (double(x), None), X, length=3)[0], 8 * X)
    mesh = xf.make_mesh((2,), ("i",))
    half = interpreted(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2), out_shape=like(X[:4]))
    spec = xf.P("i")
    mapped = xf.jit(xf.shard_map(half, mesh=mesh, in_specs=spec, out_specs=spec))
    np.testing.assert_array_equal(mapped(xf.device_put(X, xf.NamedSharding(mesh, spec))), 2 * X)


def test_equal_kernels_are_compiled_once(monkeypatch):
    names, compile_module = [], compiling.compile_module

    def counting(request, cache=None):
        names.append(request.module.operation.attributes["sym_name"].value)
        return compile_module(request, cache)

    monkeypatch.setattr(compiling, "compile_module", counting)

    def times(x, factor):
        spec = pl.BlockSpec((4,), lambda i: i)
        return interpreted(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * factor), out_shape=like(X), grid=2,
                           in_specs=[spec], out_specs=spec)(x)

    for factor in (17, 17, 18, 17):
        np.testing.assert_array_equal(times(X, factor), factor * X)
    assert names.count("jit_pallas_call") == 2


def test_calls_of_one_kernel_share_its_trace():
    """Other index maps use the trace; other blocks, grids, names and settings do not."""
    traced = []

    def kernel(x_ref, o_ref):
        traced.append(x_ref.shape)
        o_ref[...] = x_ref[...] + pl.num_programs(0)

    def run(size, index_map=lambda i: (i,), steps=2, **options):
        block = pl.BlockSpec((size,), index_map)
        call = interpreted(kernel, out_shape=like(X), grid=(steps,), in_specs=[block], out_specs=pl.BlockSpec((size,), lambda i: i),
                           **options)
        return np.asarray(call(X))

    np.testing.assert_array_equal(run(4), X + 2)
    np.testing.assert_array_equal(run(4, lambda i: (1 - i,)), np.roll(X, 4) + 2)
    assert traced == [(4,)]
    np.testing.assert_array_equal(run(2, steps=4), X + 4)
    np.testing.assert_array_equal(run(8, steps=1), X + 1)
    run(4, name="another")
    assert traced == [(4,), (2,), (8,), (4,)]
    xf.clear_caches()
    run(4)
    assert len(traced) == 5


def test_references_are_no_conditions():
    def kernel(convert):
        return pl.pallas_call(lambda x, o: convert(x), out_shape=xf.ShapeDtypeStruct((4,), "float32"), interpret=True)

    for convert in (bool, np.asarray):
        with pytest.raises(TypeError, match=r"got a reference of type Ref<default>\{float32\[4\]\} .* Read its value first, with ref\[...\]"):
            kernel(convert)(np.ones(4, np.float32))


def test_bad_block_specs():
    with pytest.raises(TypeError, match="BlockSpec takes a block_shape and then an index_map, a function, got <function"):
        pl.BlockSpec(lambda i: i, (2,))
    call = pl.pallas_call(lambda x, o: None, out_shape=xf.ShapeDtypeStruct((4,), "float32"), in_specs=[pl.BlockSpec((-2,))], interpret=True)
    with pytest.raises(ValueError, match=r"the block shape of args\[0\] takes sizes that are not negative, got -2"):
        call(np.ones(4, np.float32))
    with pytest.raises(ValueError, match="ds takes a size of 0 at least, got -3"):
        pl.ds(0, -3)


@xf.tree_util.register_dataclass
@dataclasses.dataclass
class _Pair:
    """A pytree whose constructor accepts arrays of one shape, references to them, specs, and placeholders of type `object`."""

    real: object
    imag: object

    def __post_init__(self):
        if type(self.real) is not object and not isinstance(self.real, pl.BlockSpec):
            assert self.real.shape == self.imag.shape


@pytest.mark.parametrize("count", [0, 1])
def test_pytree_types_that_check_their_fields(count):
    def kernel(*refs):
        *_, x_ref, o_ref = refs
        o_ref.real[...], o_ref.imag[...] = x_ref.real[...] + 1, -x_ref.imag[...]

    block = pl.BlockSpec((2,), lambda i, *_: i)
    grid = pl.tpu.PrefetchScalarGridSpec(num_scalar_prefetch=count, grid=(4,), in_specs=[_Pair(block, block)],
                                         out_specs=_Pair(block, block))
    scalars = [xnp.arange(3)] * count
    found = interpreted(kernel, out_shape=_Pair(like(X), like(X)), grid_spec=grid)(*scalars, _Pair(X, 2 * X))
    np.testing.assert_array_equal((found.real, found.imag), (X + 1, -2 * X))
