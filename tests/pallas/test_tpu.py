"""Functions for TPU kernels, in interpreted kernels."""

import functools

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu
from xlafront.pallas import kernel_random
from xlafront.sharding import Mesh, PartitionSpec as P

interpreted = functools.partial(pl.pallas_call, interpret=True)
X, M = np.arange(8, dtype=np.float32), np.arange(24, dtype=np.float32).reshape(4, 6)
LIKE = xf.ShapeDtypeStruct((8,), "float32")
ORDER = np.array([1, 0], np.int32)


def spec():
    return pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=[pl.BlockSpec((4,), lambda i, order_ref: order_ref[i])],
        out_specs=pl.BlockSpec((4,), lambda i, order_ref: (i,)), scratch_shapes=[pltpu.VMEM((4,), "float32")])


def add_order(order_ref, x_ref, o_ref, scratch_ref):
    scratch_ref[...] = x_ref[...]
    o_ref[...] = scratch_ref[...] + order_ref[pl.program_id(0)]


add = interpreted(add_order, out_shape=LIKE, grid_spec=spec())


def test_index_maps_read_scalars():
    np.testing.assert_array_equal(add(ORDER, X), [5, 6, 7, 8, 0, 1, 2, 3])
    np.testing.assert_array_equal(xf.jit(add)(ORDER[::-1], X), [0, 1, 2, 3, 5, 6, 7, 8])
    text = str(xf.make_jaxpr(add)(ORDER, X))
    assert "Ref<smem>{i32[2]}" in text and "Ref<vmem>{f32[4]}" in text
    assert "num_scalar_prefetch=1" in repr(spec())


def test_batches_and_derivatives_with_scalars():
    both = np.stack([ORDER, ORDER[::-1]])
    expected = [[5, 6, 7, 8, 0, 1, 2, 3], [0, 1, 2, 3, 5, 6, 7, 8]]
    np.testing.assert_array_equal(xf.vmap(add, (0, None))(both, X), expected)
    np.testing.assert_array_equal(xf.vmap(add, (None, 0))(ORDER, np.stack([X, X + 1])), [expected[0], np.add(expected[0], 1)])
    value, tangent = xf.jvp(lambda x: add(ORDER, x), (X,), (X,))
    np.testing.assert_array_equal(value, expected[0])
    np.testing.assert_array_equal(tangent, [*X[4:], *X[:4]])
    np.testing.assert_array_equal(xf.grad(lambda x: (add(ORDER, x) * X).sum())(X), [*X[4:], *X[:4]])


def test_active_and_aliased_scalars():
    def kernel(r_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * r_ref[pl.program_id(0)]

    block = pl.BlockSpec((4,), lambda i, r_ref: i)
    scaled = interpreted(kernel, out_shape=LIKE, grid_spec=pltpu.PrefetchScalarGridSpec(1, 2, [block], block))
    r = np.array([2.0, 3.0], np.float32)
    np.testing.assert_array_equal(xf.jvp(scaled, (r, X), (r, X))[1], 2 * X * np.repeat(r, 4))

    def keep(r_ref, x_ref, o_ref):
        r_ref[0] += 1  # is forgotten with the step
        o_ref[1] = x_ref[pl.program_id(0)] + r_ref[0]

    spec = pltpu.PrefetchScalarGridSpec(1, 2, [pl.no_block_spec], pl.no_block_spec)
    unchanged = interpreted(keep, out_shape=LIKE, grid_spec=spec, input_output_aliases={0: 0})
    np.testing.assert_array_equal(unchanged(X, 10 * X), [0, 11, *X[2:]])
    np.testing.assert_array_equal(xf.vmap(unchanged, (None, 0))(X, np.stack([10 * X, X])), [[0, 11, *X[2:]], [0, 2, *X[2:]]])


def test_memories_and_options():
    assert repr(pltpu.VMEM((8, 128), "float32")) == "MemoryRef(inner_aval=ShapedArray(float32[8,128]), memory_space=VMEM)"
    params = pltpu.CompilerParams(dimension_semantics=["parallel", pltpu.ARBITRARY], flags={"a": 1})
    assert params.dimension_semantics == ("parallel", pltpu.ARBITRARY) and hash(params) is not None

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec(memory_space=pltpu.HBM)
    found = interpreted(kernel, out_shape=LIKE, in_specs=[block], out_specs=block, compiler_params=params)(X)
    np.testing.assert_array_equal(found, X)


def test_roll():
    np.testing.assert_array_equal(pltpu.roll(M, 2, 1), np.roll(M, 2, 1))
    np.testing.assert_array_equal(xf.jit(lambda x, s: pltpu.roll(x, s, 0))(M, 3), np.roll(M, 3, 0))
    rows = [np.roll(row, 1 + 2 * i) for i, row in enumerate(M)]
    np.testing.assert_array_equal(pltpu.roll(M, 1, 1, stride=2, stride_axis=0), rows)
    with pytest.raises(ValueError, match="not negative"):
        pltpu.roll(M, -1, 0)


def test_einshape():
    x = M.reshape(2, 2, 6)
    np.testing.assert_array_equal(pltpu.einshape("(ab)c->a(bc)", M, a=2), x.reshape(2, 12))
    np.testing.assert_array_equal(pltpu.einshape("(ab)(cd)->ca(bd)", M, a=2, c=3),
                                  M.reshape(2, 2, 3, 2).transpose(2, 0, 1, 3).reshape(3, 2, 4))
    np.testing.assert_array_equal(pltpu.einshape("ab->ba", M), M.T)
    for equation, sizes, message in (("(ab)c->abc", {}, "all sizes but one"), ("(ab)c->abc", {"b": 3}, "cannot be split"),
                                     ("abc->cba", {}, "has 3 dimensions"), ("ab->abc", {}, "once on each side"),
                                     ("a(b->ab", {}, "letters and brackets"), ("ab", {}, "as 'ab->ba'")):
        with pytest.raises(ValueError, match=message):
            pltpu.einshape(equation, M, **sizes)


def test_masked_reads_and_writes():
    def kernel(x_ref, o_ref):
        o_ref[...] = xnp.zeros(8)
        pltpu.store(o_ref, pltpu.load(x_ref) + 1, mask=x_ref[...] > 4)
        pltpu.trace_value("first", x_ref[0])

    np.testing.assert_array_equal(interpreted(kernel, out_shape=LIKE)(X), [0, 0, 0, 0, 0, 6, 7, 8])


# Semaphores and copies

ANY = pl.BlockSpec(memory_space=pl.ANY)


def test_semaphores_count():
    def kernel(o_ref, sem_ref, others_ref):
        o_ref[0] = pl.semaphore_read(sem_ref)
        pl.semaphore_signal(sem_ref, 3)
        o_ref[1] = pl.semaphore_read(sem_ref)
        pl.semaphore_wait(sem_ref, 2)
        pl.semaphore_signal(others_ref.at[1])
        pl.semaphore_wait(others_ref.at[1], decrement=False)
        o_ref[2], o_ref[3] = pl.semaphore_read(sem_ref), pl.semaphore_read(others_ref.at[1])

    semaphores = [pltpu.SemaphoreType.REGULAR, pltpu.SemaphoreType.REGULAR((2,))]
    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((4,), "int32"), scratch_shapes=semaphores)()
    np.testing.assert_array_equal(found, [0, 3, 1, 1])


def test_async_and_sync_copies():
    def kernel(x_ref, o_ref, row_ref, sem_ref):
        @pl.loop(0, 4)
        def _(i):
            copy = pltpu.make_async_copy(x_ref.at[i], row_ref, sem_ref)
            copy.start()
            copy.wait()
            pltpu.async_copy(row_ref.at[pl.ds(0, 3)], o_ref.at[3 - i, pl.ds(3, 3)], sem_ref, src_sem=sem_ref).wait()
            pltpu.sync_copy(row_ref.at[pl.ds(3, 3)], o_ref.at[3 - i, pl.ds(0, 3)])

        pltpu.sync_copy(x_ref, o_ref, add=True)

    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((4, 6), "float32"), in_specs=[ANY], out_specs=ANY, scratch_shapes=[
        pltpu.VMEM((6,), "float32"), pltpu.SemaphoreType.DMA])(M)
    np.testing.assert_array_equal(found, M + np.roll(M[::-1], 3, 1))


def test_copies_without_a_semaphore_are_complete_when_they_start():
    def kernel(x_ref, o_ref):
        copy = pltpu.make_async_copy(x_ref.at[4:], o_ref.at[:4])
        copy.start()
        copy.wait()
        pltpu.async_copy(x_ref.at[:4], o_ref.at[4:], None)

    for options in ({"interpret": True}, {"interpret": pltpu.InterpretParams()}):
        found = pl.pallas_call(kernel, out_shape=LIKE, **options)(X)
        np.testing.assert_array_equal(found, np.concatenate([X[4:], X[:4]]))


def test_invalid_semaphores_raise():
    def run(body, *scratch):
        interpreted(lambda x, o, *refs: body(x, o, *refs), out_shape=LIKE, scratch_shapes=scratch)(X)

    with pytest.raises(ValueError, match=r"one semaphore, got 2 of them.*sem.at\[i\]"):
        run(lambda x, o, sem: pl.semaphore_signal(sem), pltpu.SemaphoreType.REGULAR((2,)))
    with pytest.raises(TypeError, match="takes a semaphore"):
        run(lambda x, o: pl.semaphore_wait(3))
    with pytest.raises(TypeError, match="a copy takes references, as kernels get them; src_ref is"):
        run(lambda x, o, sem: pltpu.async_copy(x[...], o, sem), pltpu.SemaphoreType.DMA)
    with pytest.raises(TypeError, match="make_async_copy has src_sem, but no sem"):
        run(lambda x, o, sem: pltpu.make_async_copy(x, o, src_sem=sem), pltpu.SemaphoreType.DMA)
    with pytest.raises(ValueError, match="wait_send is for copies with a semaphore of the source"):
        run(lambda x, o, sem: pltpu.make_async_copy(x, o, sem).wait_send(), pltpu.SemaphoreType.DMA)
    with pytest.raises(ValueError, match=r"between references of one type.* Copy equal parts of them, ref.at\[...\]"):
        run(lambda x, o, sem: pltpu.async_copy(x.at[:4], o, sem), pltpu.SemaphoreType.DMA)
    for use in (pl.semaphore_signal, pl.semaphore_wait):
        with pytest.raises(ValueError, match="REGULAR or BARRIER, got one of the kind DMA. Copies signal it"):
            run(lambda x, o, sem: use(sem), pltpu.SemaphoreType.DMA)
    with pytest.raises(ValueError, match="a copy takes a semaphore of the kind DMA, got one of the kind REGULAR"):
        run(lambda x, o, sem: pltpu.async_copy(x, o, sem).wait(), pltpu.SemaphoreType.REGULAR)
    with pytest.raises(TypeError, match="takes a semaphore, as scratch_shapes=.*REGULAR.* got JitTracer"):
        run(lambda x, o: pl.semaphore_signal(o))


@pytest.mark.parametrize("body", [lambda x, o, sem: o.__setitem__(..., x[...] + sem[...]), lambda x, o, sem: sem.__setitem__(..., 1)])
def test_semaphores_are_no_arrays(body):
    with pytest.raises(TypeError, match=r"reads or writes a semaphore as an array at .*test_tpu.py:\d+. Use pl.semaphore_read\(sem\)"):
        interpreted(body, out_shape=LIKE, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(X)


# Several devices


def on_devices(body, out_shape=LIKE, mesh=(("x", 2), ("y", 2)), **options):
    devices = np.array(xf.devices()[:4]).reshape([n for _, n in mesh])
    return xf.shard_map(interpreted(body, out_shape=out_shape, **options), mesh=Mesh(devices, tuple([a for a, _ in mesh])),
                        in_specs=P("x"), out_specs=P(tuple([a for a, _ in mesh])))


@pytest.mark.cpu_only
@pytest.mark.filterwarnings("ignore:xlafront.experimental.pallas.DeviceIdType")
def test_devices_by_each_form_of_their_ids():
    """Each device signals those with its index along x, its right neighbour, and the last one."""
    def kernel(x_ref, o_ref, semaphores):
        for i, (device, kind) in enumerate([({"y": 1}, None), ((lax.axis_index("x"), 0), pl.DeviceIdType.MESH), (3, None),
                                            ({("x", "y"): 2}, None), (xnp.uint8(1), pl.DeviceIdType.LOGICAL)]):
            pl.semaphore_signal(semaphores.at[i], i + 1, device_id=device, device_id_type=kind)
        o_ref[...] = xnp.stack([pl.semaphore_read(semaphores.at[i]) for i in range(5)])

    found = on_devices(kernel, xf.ShapeDtypeStruct((5,), "int32"), scratch_shapes=[pltpu.SemaphoreType.REGULAR((5,))])(X)
    expected = np.zeros((4, 5))  # two devices signal each of the first two
    expected[[1, 3], 0], expected[[0, 2], 1], expected[3, 2], expected[2, 3], expected[1, 4] = 2, 4, 12, 16, 20
    np.testing.assert_array_equal(found.reshape(4, 5), expected)


@pytest.mark.cpu_only
def test_kernels_that_depend_on_the_device_have_results_that_vary():
    def kernel(o_ref):
        o_ref[...] = xnp.full(2, lax.axis_index("x"))

    mesh = Mesh(np.array(xf.devices()[:4]), ("x",))
    out = xf.ShapeDtypeStruct((2,), "int32")
    found = xf.shard_map(interpreted(kernel, out_shape=out), mesh=mesh, in_specs=(), out_specs=P("x"))()
    np.testing.assert_array_equal(found, [0, 0, 1, 1, 2, 2, 3, 3])


@pytest.mark.cpu_only
@pytest.mark.filterwarnings("ignore:xlafront.experimental.pallas.DeviceIdType")
@pytest.mark.parametrize(("device", "kind", "error", "message"), [
    (0, "MESH", ValueError, r"is one coordinate, the mesh has the axes \['x', 'y'\]. Give a dict"),
    ((0, 1), "LOGICAL", TypeError, "a logical device_id is one integer"),
    ((0,), None, ValueError, r"has 1 coordinates, the mesh has the 2 axes"),
    ({"z": 1}, None, ValueError, r"a coordinate along 'z', the axes of the mesh are \['x', 'y'\]"),
    ({"x": 1.5}, None, TypeError, "coordinates of device_id are integer scalars, got 1.5"),
    ({"x": 1}, "logical", TypeError, "takes pl.DeviceIdType.MESH or LOGICAL"),
])
def test_invalid_device_ids(device, kind, error, message):
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, device_id=device, device_id_type=getattr(pl.DeviceIdType, kind or "", kind))

    with pytest.raises(error, match=message):
        on_devices(kernel, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(X)


@pytest.mark.cpu_only
def test_invalid_remote_copies():
    def kernel(x_ref, o_ref, sem, other):
        pltpu.make_async_remote_copy(x_ref, o_ref, sem, sem, {"x": 0}).start(add=True)

    semaphores = [pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA]
    with pytest.raises(NotImplementedError, match="cannot add to its destination"):
        on_devices(kernel, xf.ShapeDtypeStruct((4,), "float32"), scratch_shapes=semaphores)(X)
    with pytest.raises(ValueError, match="make_async_remote_copy got a device_id, but the kernel is not inside of shard_map"):
        interpreted(kernel, out_shape=LIKE, scratch_shapes=semaphores)(X)
    with pytest.raises(ValueError, match=r"the axes \['y'\] of the mesh are left to the compiler"):
        mesh = Mesh(np.array(xf.devices()[:4]).reshape(2, 2), ("x", "y"))
        xf.shard_map(interpreted(kernel, out_shape=xf.ShapeDtypeStruct((4,), "float32"), scratch_shapes=semaphores), mesh=mesh, axis_names={"x"}, in_specs=P("x"), out_specs=P("x"))(X)


@pytest.mark.cpu_only
def test_branches_of_some_devices_communicate():
    """Devices exchange X along x: all at once, in the step of their coordinate y, or as often as it says."""
    def kernel(kind):
        def body(x_ref, o_ref, sem, other):
            def step(i, _):
                def send():
                    pltpu.async_remote_copy(x_ref, o_ref, sem, other, {"x": 1 - lax.axis_index("x")}).wait()

                me = lax.axis_index("y")
                if kind == "loop":
                    lax.fori_loop(0, me + 1, lambda *_: send(), None)
                else:
                    pl.when({"same": i == 1, "other": (i + me) == 1, "carried": lax.fori_loop(0, 2, lambda _, c: c + me, 0) > 0}[kind])(send)

            lax.fori_loop(0, 2, step, None)

        semaphores = [pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA]
        return on_devices(body, xf.ShapeDtypeStruct((4,), "float32"), scratch_shapes=semaphores)

    expected = np.stack([X[4:], X[4:], X[:4], X[:4]])
    for kind in ("same", "other", "loop"):
        np.testing.assert_array_equal(kernel(kind)(X).reshape(4, 4), expected)
    np.testing.assert_array_equal(kernel("carried")(X).reshape(4, 4)[1::2], expected[1::2])


# Changes of the element type


def test_bitcast_splits_and_joins_rows():
    low, high = np.arange(16, dtype=np.int32).reshape(4, 4), np.arange(100, 116, dtype=np.int32).reshape(4, 4)
    rows = np.stack([low, high], 1).reshape(8, 4)  # the low half of each word comes first
    np.testing.assert_array_equal(pltpu.bitcast(low + (high << 16), "int16"), rows)
    np.testing.assert_array_equal(pltpu.bitcast(rows.astype(np.int16), "int32"), low + (high << 16))
    np.testing.assert_array_equal(pltpu.bitcast(M, "int32"), M.view(np.int32))
    np.testing.assert_array_equal(pltpu.bitcast(M, "int16", dim=-1), M.view(np.int16))
    np.testing.assert_array_equal(pltpu.bitcast(pltpu.bitcast(M, "int16", dim=-1), "float32", dim=-1), M)
    with pytest.raises(ValueError, match="takes dim=-2 or dim=-1, got 0"):
        pltpu.bitcast(M, "int16", dim=0)
    with pytest.raises(ValueError, match="two dimensions at least"):
        pltpu.bitcast(X, "int32")
    with pytest.raises(ValueError, match="no whole number of rows"):
        pltpu.bitcast(np.ones((3, 4), np.int16), "int32")


def test_packed_words():
    words = pltpu.pack_elementwise([X, -X], packed_dtype="bfloat16")
    np.testing.assert_array_equal(words, X.view(np.uint32) >> 16 | (-X).view(np.uint32) & 0xffff0000)
    for index, expected in enumerate((X, -X)):
        found = pltpu.unpack_elementwise(words, index=index, packed_dtype="bfloat16", unpacked_dtype="float32")
        np.testing.assert_array_equal(found, expected)
    numbers = [np.int32([i, -i]) for i in range(4)]
    packed = xf.jit(lambda *xs: pltpu.pack_elementwise(xs, packed_dtype="int8"))(*numbers)
    np.testing.assert_array_equal(np.asarray(packed).view(np.int8).reshape(2, 4), np.stack(numbers, 1))
    with pytest.raises(ValueError, match="takes 2 arrays"):
        pltpu.pack_elementwise([X], packed_dtype="bfloat16")
    with pytest.raises(ValueError, match="of 32 bits"):
        pltpu.pack_elementwise([X.astype(np.float16)] * 2, packed_dtype="bfloat16")
    with pytest.raises(ValueError, match="index 2 is out of bounds"):
        pltpu.unpack_elementwise(words, index=2, packed_dtype="bfloat16", unpacked_dtype="float32")
    with pytest.raises(ValueError, match="words of 32 bits"):
        pltpu.unpack_elementwise(X.astype(np.int8), index=0, packed_dtype="int8", unpacked_dtype="int32")


def test_random_bits_of_interpreted_kernels_are_zero():
    def kernel(x_ref, o_ref):
        pltpu.prng_seed(1, 2)
        bits = pltpu.prng_random_bits((8,))
        o_ref[...] = x_ref[...] + bits

    np.testing.assert_array_equal(interpreted(kernel, out_shape=LIKE)(X), X)
    with pytest.raises(TypeError, match="prng_seed"):
        interpreted(lambda x, o: pltpu.prng_seed("a"), out_shape=LIKE)(X)


def test_memory_space_constraint():
    np.testing.assert_array_equal(xf.grad(lambda x: (pltpu.with_memory_space_constraint(x, pltpu.HBM) ** 2).sum())(X), 2 * X)
    with pytest.raises(TypeError, match="takes a memory such as"):
        pltpu.with_memory_space_constraint(X, "hbm")


# Operations in the program of the kernel


def everything(x_ref, o_ref, row_ref, copied, counter):
    copy = pltpu.make_async_copy(x_ref.at[pl.ds(1, 1)], row_ref, copied)
    copy.start()
    copy.wait()
    pl.semaphore_signal(counter, 2)
    pl.semaphore_wait(counter)
    start = pl.multiple_of(2 * pl.program_id(0), 2)

    @pl.when(start < 2)
    def _():
        @pl.loop(0, 2)
        def _(i):
            pl.delay(i)
            pl.semaphore_signal(counter)

    @pl.with_scoped(pltpu.VMEM((2, 6), "float32"))
    def body(scratch_ref):
        scratch_ref[...] = pltpu.roll(x_ref[pl.ds(start, 2), :], 1, 1)
        o_ref[...] = scratch_ref[...] * row_ref[...] + pl.semaphore_read(counter)

    body()


CALL = interpreted(everything, out_shape=xf.ShapeDtypeStruct((4, 6), "float32"), grid=2,
                   out_specs=pl.BlockSpec((2, 6), lambda i: (i, 0)), scratch_shapes=[
                       pltpu.VMEM((1, 6), "float32"), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR])
COUNTS = np.float32([[3], [3], [4], [4]])


def test_operations_are_equations():
    text = str(xf.make_jaxpr(CALL)(M))
    for name in ("dma_start", "dma_wait", "semaphore_signal", "semaphore_wait", "semaphore_read", "multiple_of", "delay",
                 "run_scoped", "roll"):
        assert f" {name}" in text, name


def test_values_and_transformations_of_operations():
    rolled = np.roll(M, 1, 1)
    np.testing.assert_array_equal(CALL(M), rolled * M[1] + COUNTS)
    both = [rolled * M[1] + COUNTS, 4 * rolled * M[1] + COUNTS + 4]  # the count persists over the grid
    np.testing.assert_array_equal(xf.vmap(CALL)(np.stack([M, 2 * M])), both)
    np.testing.assert_array_equal(xf.jvp(CALL, (M,), (np.ones_like(M),))[1], rolled + M[1])
    expected = np.roll(np.tile(M[1], (4, 1)), -1, 1)
    expected[1] += rolled.sum(0)
    np.testing.assert_array_equal(xf.grad(lambda x: CALL(x).sum())(M), expected)


# Pipelines


@pytest.mark.parametrize("dropped", [None, pl.Squeezed()])
def test_pipelines_with_scratch_and_unblocked_references(dropped):
    def body(step, table_ref, x_ref, o_ref, sum_ref):
        sum_ref[...] += x_ref[...]
        o_ref[...] = sum_ref[...] * table_ref[step.index[0]] + (step.local_index - pl.program_id(0))

    def kernel(table_ref, x_ref, o_ref, sum_ref):
        sum_ref[...] = xnp.zeros((6,))
        rows = pl.BlockSpec((dropped, 6), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=4, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), rows], out_specs=[rows],
                            _explicit_indices=True)(table_ref, x_ref, o_ref, scratches=[sum_ref])

    table = np.float32([1, 2, 3, 4])
    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((4, 6), "float32"), scratch_shapes=[pltpu.VMEM((6,), "float32")],
                        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANY], out_specs=ANY)(table, M)
    np.testing.assert_array_equal(found, np.cumsum(M, 0) * table[:, None])


@pytest.mark.parametrize("shape", [(5, 7), (6, 9), (2, 3), (3, 128)])
def test_pipelines_over_blocks_beyond_the_edge(shape, rng):
    x = rng.normal(size=shape).astype(np.float32)
    block = pl.BlockSpec((2, 3), lambda i, j: (i, j))

    def kernel(x_ref, o_ref):
        pltpu.emit_pipeline(lambda x, o: o.__setitem__(..., 2 * x[...]), grid=(-(-shape[0] // 2), -(-shape[1] // 3)),
                            in_specs=[block], out_specs=[block])(x_ref, o_ref)

    double = interpreted(kernel, out_shape=xf.ShapeDtypeStruct(shape, "float32"), in_specs=[ANY], out_specs=ANY)
    np.testing.assert_array_equal(double(x), 2 * x)
    np.testing.assert_array_equal(xf.vmap(double)(np.stack([x, -x])), np.stack([2 * x, -2 * x]))


@pytest.mark.parametrize("padding", [(0, 0), (1, 0), (2, 3)])
def test_pipelines_over_elements_beyond_the_edge(padding):
    """The padding is ignored, as in JAX. Of the last block, the part within is copied."""
    x = np.arange(7, dtype=np.float32)

    def kernel(x_ref, o_ref):
        pltpu.emit_pipeline(lambda x, o: o.__setitem__(..., x[...]), grid=3,
                            in_specs=[pl.BlockSpec((pl.Element(4, padding),), lambda i: (2 * i,), pipeline_mode=pl.Buffered(1))],
                            out_specs=[pl.BlockSpec((4,), lambda i: i)])(x_ref, o_ref)

    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((12,), "float32"), in_specs=[ANY], out_specs=ANY)(x)
    np.testing.assert_array_equal(found, [0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 5])  # the last is of the block before


def test_pipelines_over_slices(rng):
    """Slices of any start and size, also beyond the place where the largest slice would begin, and empty ones."""
    x, starts, sizes = rng.normal(size=(9, 3)).astype(np.float32), np.int32([7, 0, 4, 6]), np.int32([2, 4, 0, 1])

    def kernel(starts_ref, sizes_ref, x_ref, o_ref):
        block = pl.BlockSpec((pl.BoundedSlice(5), 3), lambda i: (pl.ds(starts_ref[i], sizes_ref[i]), 0))
        pltpu.emit_pipeline(lambda x, o: o.__setitem__(..., x[...] + (1 + pl.program_id(0))), grid=4, in_specs=[block],
                            out_specs=[block])(x_ref, o_ref)

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((9, 3), "float32"), in_specs=[smem, smem, ANY],
                        out_specs=ANY)(starts, sizes, x)
    expected = np.full((9, 3), np.nan, np.float32)
    for i, (start, size) in enumerate(zip(starts, sizes)):
        expected[start:start + size] = x[start:start + size] + np.float32(1 + i)
    np.testing.assert_array_equal(found, expected)


def test_invalid_pipelines_raise():
    def run(block, *extra, **options):
        def kernel(x_ref, o_ref):
            pltpu.emit_pipeline(lambda x, o: None, grid=2, in_specs=[block], out_specs=[block], **options)(x_ref, o_ref, *extra)

        interpreted(kernel, out_shape=xf.ShapeDtypeStruct((4, 6), "float32"), in_specs=[ANY], out_specs=ANY)(M)

    with pytest.raises(ValueError, match=r"the block shape of reference 0, \(5, 6\), has .* larger ones than the reference, \(4, 6\)"):
        run(pl.BlockSpec((5, 6), lambda i: (i, 0)))
    with pytest.raises(NotImplementedError, match=r"has the dimension Indirect\(block_size=2\), which pipelines cannot have"):
        run(pl.BlockSpec((pl.Indirect(2), 6), lambda i: (i, 0)))
    with pytest.raises(TypeError, match=r"must return pl.ds\(start, size\) for the dimension BoundedSlice\(block_size=2\)"):
        run(pl.BlockSpec((pl.BoundedSlice(2), 6), lambda i: (i, 0)))
    with pytest.raises(ValueError, match="must return 2 values"):
        run(pl.BlockSpec((2, 6), lambda i: i))
    with pytest.raises(TypeError, match="takes 2 references"):
        run(pl.BlockSpec((2, 6), lambda i: (i, 0)), M)
    with pytest.raises(TypeError, match="takes BlockSpecs"):
        run((2, 6))
    with pytest.raises(ValueError, match="cores share the steps of a parallel axis, and dimension_semantics=None has none"):
        run(pl.BlockSpec((2, 6), lambda i: (i, 0)), core_axis=0)


# Chips


def test_properties_of_chips():
    info = pltpu.get_tpu_info("v5e")
    assert (info.chip_version, info.generation, info.is_lite) == (pltpu.ChipVersion.TPU_V5E, 5, True)
    assert info.bf16_ops_per_second == 197e12 and info.int8_ops_per_second == 394e12
    assert [info.get_sublane_tiling(d) for d in ("float32", "bfloat16", "int8", "bool")] == [8, 8, 32, 32]
    assert [pltpu.get_tpu_info("v7x").get_sublane_tiling(d) for d in ("float32", "int16", "int2")] == [8, 16, 128]
    assert pltpu.get_tpu_info("v7x").fp8_ops_per_second == 2307e12  # of one of two devices
    with pytest.raises(ValueError, match="no TPU named 'v99'; it knows v2, v3"):
        pltpu.get_tpu_info("v99")


def test_properties_by_version():
    versions = pltpu.ChipVersion
    assert str(versions.TPU_7X) == "7x"
    assert pltpu.get_tpu_info_for_chip(versions.TPU_V5E, 1) == pltpu.get_tpu_info("v5e")
    both = pltpu.get_tpu_info_for_chip(versions.TPU_V5P, 2)
    assert both.num_cores == 2 and both.is_megacore and not both.is_split_chip and pltpu.get_tpu_info("v5p").is_split_chip
    assert both.sparse_core == pl.tpu_sc.get_sparse_core_info("v5p") and pltpu.get_tpu_info("v5e").sparse_core is None
    assert pltpu.get_tpu_info_for_chip(versions.TPU_7, 1).chip_version is versions.TPU_7
    with pytest.raises(ValueError, match="num_tensor_cores_per_logical_device=2 for TPU_V6E: it must be 1"):
        pltpu.get_tpu_info_for_chip(versions.TPU_V6E, 2)
    assert [pltpu.get_tpu_info_for_chip(version, 1).chip_version for version in versions] == list(versions)
    assert pltpu.get_tpu_info_for_chip(versions.TPU_8T, 1).get_sublane_tiling("float32") == 16


@pytest.mark.parametrize("version, lhs, rhs, expected", [
    ("v3", "bfloat16", "bfloat16", False), ("v4", "bfloat16", "int8", True), ("v4", "int8", "int8", False),
    ("v5e", "int8", "uint8", True), ("v5e", "int8", "int4", False), ("v6e", "float8_e4m3fn", "float8_e4m3fn", False),
    ("v6e", "float8_e4m3b11fnuz", "float8_e5m2", True), ("7x", "float8_e4m3fn", "float8_e4m3fn", True),
    ("7x", "float8_e4m3fn", "bfloat16", False), ("7x", "int8", "int8", False), ("8i", "bfloat16", "uint4", True),
    ("8t", "bfloat16", "uint4", False), ("8t", xnp.float8_e5m2, "int4", True), ("v6e", "float16", "float16", False)])
def test_dtypes_of_matrix_units(version, lhs, rhs, expected):
    assert pltpu.get_tpu_info_for_chip(pltpu.ChipVersion(version), 1).is_matmul_supported(lhs, rhs) is expected


def test_rates_by_which_kernels_choose_dtypes():
    positive = {name: [r > 0 for r in (i.int8_ops_per_second, i.fp8_ops_per_second, i.int4_ops_per_second)] for name, i in
                [(name, pltpu.get_tpu_info(name)) for name in ("v4", "v5e", "v5p", "v6e", "v7x")]}
    assert positive == {"v4": [False] * 3, "v5e": [True, False, True], "v5p": [True, False, True], "v6e": [True] * 3,
                        "v7x": [False, True, False]}


@pytest.mark.parametrize("kind, cores, version", [("TPU v5 lite", 1, "TPU_V5E"), ("TPU v4", 2, "TPU_V4"), ("TPU v5p", 1, "TPU_V5P")])
def test_properties_of_the_devices_of_an_abstract_mesh(kind, cores, version):
    device = xf.sharding.AbstractDevice(kind, cores, "tpu")
    with xf.sharding.use_abstract_mesh(xf.sharding.AbstractMesh((1,), ("x",), abstract_device=device)):
        info = pltpu.get_tpu_info()
    assert (info.chip_version.name, info.num_cores) == (version, cores)


@pytest.mark.cpu_only
def test_properties_of_no_chip():
    with pytest.raises(ValueError, match="found no TPU: the default device is 'cpu'. Name the chip"):
        pltpu.get_tpu_info()


# Cores and buffers


def test_kernels_on_cores():
    @pl.kernel(out_type=(LIKE, LIKE), mesh=pltpu.create_tensorcore_mesh("core", num_cores=2), interpret=True,
               scratch_types={"scratch_ref": pltpu.VMEM((4,), "float32"), "barrier": pltpu.SemaphoreType.REGULAR})
    def split(x_ref, y_ref, o_ref, p_ref, scratch_ref, barrier):
        half = pl.ds(4 * lax.axis_index("core"), 4)
        pltpu.sync_copy(x_ref.at[half], scratch_ref)
        pltpu.core_barrier(barrier, core_axis_name="core")
        scratch_ref[...] *= lax.axis_size("core")
        pltpu.sync_copy(scratch_ref, o_ref.at[half])

        @pltpu.run_on_first_core("core")
        def _():
            pltpu.sync_copy(y_ref, p_ref)

    for f in (split, xf.jit(split)):
        found = f(X, X + 1)
        np.testing.assert_array_equal(found[0], 2 * X)
        np.testing.assert_array_equal(found[1], X + 1)
    assert split.__name__ == "split" and pltpu.TensorCoreMesh(axis_name="a").shape == {"a": 1}
    np.testing.assert_array_equal(xf.vmap(split)(M[:, :4].repeat(2, 1), M[:, :4].repeat(2, 1))[0], 2 * M[:, :4].repeat(2, 1))


def test_invalid_kernels_on_cores():
    mesh = pltpu.TensorCoreMesh(axis_name="core", num_cores=2)
    with pytest.raises(TypeError, match="takes a mesh, such as pltpu.TensorCoreMesh, got 3"):
        pl.kernel(lambda: None, mesh=3)
    with pytest.raises(TypeError, match="pl.kernel"):
        pl.kernel(3, mesh=mesh)
    with pytest.raises(ValueError, match="1 at least, got num_cores=0"):
        pltpu.TensorCoreMesh(axis_name="core", num_cores=0)
    with pytest.raises(ValueError, match="without dimension_semantics"):
        pl.kernel(lambda: None, mesh=mesh, compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))
    with pytest.raises(ValueError, match="devices or num_cores, not both"):
        pltpu.create_tensorcore_mesh("core", xf.devices(), 2)


def test_descriptions_of_buffers():
    rows = pl.BlockSpec((None, 6), lambda i: (i, 0))
    x = xf.ShapeDtypeStruct((4, 6), "float32")
    first, second = pltpu.make_pipeline_allocations(x, x, in_specs=[rows], out_specs=[rows.replace(pipeline_mode=pl.Buffered(3))])
    assert first.is_input and second.is_output and not second.is_input and (first.buffer_count, second.buffer_count) == (2, 3)
    assert first.window_ref.shape == (2, 6) and second.sem_sends.shape == (3,) and second.sem_recvs is None
    assert pltpu.BufferedRef.input_output(rows, "int8", 1, grid_rank=1).is_input_output and len(xf.tree.leaves(first)) == 2
    main = pltpu.BufferedRef.input(pl.BlockSpec(memory_space=pltpu.SMEM), "int32")
    assert not main.is_buffered and not main.unbind_refs().is_buffered and first.with_spec(rows).block_shape == (None, 6)
    assert first.unbind_refs().window_ref is first.window_ref and first.with_window_ref(None).buffer_count == 2
    assert pltpu.BufferedRef.input(rows, np.float32).window_ref.dtype == np.float32
    with pytest.raises(ValueError, match="there are no buffers for BlockSpec"):
        main.buffer_count  # noqa: B018
    for arguments, error, message in (((3, "float32"), TypeError, "takes a pl.BlockSpec and a pltpu.BufferType, got 3"),
                                      ((rows, "float32", 0), ValueError, "buffers of 1 at least, got 0"),
                                      ((rows, "float32", (2, 1)), ValueError, r"buffers of 1 at least, got \(2, 1\)")):
        with pytest.raises(error, match=message):
            pltpu.BufferedRef.input(*arguments)
    with pytest.raises(TypeError, match="takes 1 references, one for each BlockSpec, got 2"):
        pltpu.make_pipeline_allocations(x, x, in_specs=[rows])
    with pytest.raises(ValueError, match="needs grid_rank"):
        pltpu.BufferedRef.input(rows, "float32", use_lookahead=True)
    with pytest.raises(ValueError, match="BufferType.MANUAL is not known"):
        pltpu.BufferedRef.create(rows, "float32", pltpu.BufferType.MANUAL)


@pytest.mark.parametrize("dim", [8, None, pl.Squeezed(), pl.Blocked(8), pl.Element(8, (1, 1)), pl.BoundedSlice(8), pl.Indirect(8)])
def test_properties_of_buffers(dim):
    """The block shape is that of the spec; its pipeline_mode is not read; the numbers of buffers are those of JAX 0.12."""
    spec = pl.BlockSpec((dim, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))
    buffers = pltpu.BufferedRef.input(spec, "float32", use_lookahead=True, grid_rank=1)
    assert buffers.block_shape == (dim, 128) and buffers.spec is spec and buffers.compute_index is spec.index_map
    assert buffers.window_ref.shape == ((2, 128) if dim in (None, pl.Squeezed()) else (2, 8, 128))
    assert buffers.has_indirect is isinstance(dim, pl.Indirect) and buffers.use_lookahead and buffers.has_allocated_buffer
    assert (buffers.buffer_count, buffers.in_buffer_count, buffers.out_buffer_count) == (2, 2, 0)
    for counts, expected in {(): (2, 2, 1), (3,): (3, 3, 1), ((1, 2),): (2, 1, 2), ((3, 2),): (4, 3, 2)}.items():
        both = pltpu.BufferedRef.input_output(spec, "float32", *counts)
        assert (both.buffer_count, both.in_buffer_count, both.out_buffer_count) == expected
        assert both.sem_recvs.shape == both.sem_sends.shape == (expected[0],) == both.window_ref.shape[:1]
    for space, source, count in ((pltpu.HBM, pl.ANY, 0), (None, pltpu.VMEM, 0), (pltpu.SMEM, pltpu.VMEM, 2), (None, pltpu.SMEM, 2)):
        found = pltpu.BufferedRef.input(spec.replace(memory_space=space), "float32", source_memory_space=source)
        assert found.in_buffer_count == count and found.is_buffered is (count > 0) and (found.window_ref is None) is (count == 0)


def test_pipelines_with_allocations():
    rows = pl.BlockSpec((1, 6), lambda i: (i, 0))

    def kernel(x_ref, o_ref):
        run, allocations_of = pltpu.emit_pipeline_with_allocations(
            lambda x_ref, o_ref: o_ref.__setitem__(..., 2 * x_ref[...]), grid=4, in_specs=[rows], out_specs=[rows])
        pl.run_scoped(lambda buffers: run(x_ref, o_ref, allocations=buffers), allocations_of(x_ref, o_ref))

    options = dict(out_shape=xf.ShapeDtypeStruct((4, 6), "float32"), in_specs=[ANY], out_specs=ANY)
    np.testing.assert_array_equal(interpreted(kernel, **options)(M), 2 * M)

    def run(allocations, **block_options):
        block = pl.BlockSpec((2, 6), lambda i: (i, 0), **block_options)
        interpreted(lambda x_ref, o_ref: pltpu.emit_pipeline(lambda x, o: None, grid=2, in_specs=[block], out_specs=[block])(
            x_ref, o_ref, allocations=allocations), **options)(M)

    with pytest.raises(TypeError, match="takes 2 BufferedRefs, one for each BlockSpec"):
        run((3, 4))
    with pytest.raises(ValueError, match=r"allocations\[0\] of the pipeline has buffers of blocks of shape \(1, 6\)"):
        run((pltpu.BufferedRef.input(rows, "float32"),) * 2)
    with pytest.raises(ValueError, match=r"must be static and divide the shape of the reference, \(3, 6\)"):
        interpreted(lambda x_ref, o_ref: pltpu.emit_pipeline(lambda x: None, grid=2, in_specs=[
            pl.BlockSpec((2, 6), lambda i: (i, 0), memory_space=pltpu.HBM)])(x_ref), **options)(M[:3])
    with pytest.raises(NotImplementedError, match="without blocks that are prefetched"):
        run(None, pipeline_mode=pl.Buffered(2, prefetched_count=1))
    with pytest.raises(ValueError, match="dimension_semantics has 2 entries for a grid of 1 axes"):
        pltpu.emit_pipeline(lambda: None, grid=2, core_axis=0, dimension_semantics=("parallel",) * 2)


# Segments of bits, random numbers and hints


def test_segments_of_bits():
    x = np.arange(256, dtype=np.uint8)
    low, middle, high = pltpu.split_bits(x, (4, 2, 2))
    signed = lambda v, n: np.where(v >= 2 ** (n - 1), v.astype(int) - 2**n, v)
    np.testing.assert_array_equal(np.asarray(low).astype(int), signed(x & 15, 4))
    np.testing.assert_array_equal(np.asarray(middle).astype(int), signed(x >> 4 & 3, 2))
    np.testing.assert_array_equal(np.asarray(high).astype(int), signed(x >> 6, 2))
    np.testing.assert_array_equal(pltpu.unpack_fp6(*pltpu.pack_fp6(x.view(np.int8))), x & 63)
    np.testing.assert_array_equal(pltpu.join_bits(two_bits=high), x >> 6)
    for call, error, message in ((lambda: pltpu.split_bits(x, (3,)), ValueError, "segments of 2 or 4 bits"),
                                 (lambda: pltpu.split_bits(x.astype(int), (4,)), TypeError, "an array of int8 or uint8"),
                                 (lambda: pltpu.join_bits(), ValueError, "two_bits, four_bits, or both")):
        with pytest.raises(error, match=message):
            call()


def test_rounding_at_random_is_right_in_the_mean():
    x = np.float32([1 + 1 / 512, -3.3, 1e-20, np.inf, np.nan])
    bits = np.arange(32, 2**16, 64, dtype=np.uint32) * np.uint32(2**16 + 1)
    many = np.broadcast_to(x[:, None], (5, bits.size))
    found = np.asarray(pltpu.stochastic_round(many, np.broadcast_to(bits, many.shape), target_dtype="bfloat16")).astype(np.float64)
    np.testing.assert_allclose(found[:3].mean(1), x[:3], rtol=1e-4)
    assert all(len(np.unique(row)) == 2 for row in found[:3]) and np.isinf(found[3]).all() and np.isnan(found[4]).all()
    with pytest.raises(ValueError, match="rounds to bfloat16, .*got target_dtype=float16"):
        pltpu.stochastic_round(x, x.view(np.uint32), target_dtype="float16")
    with pytest.raises(ValueError, match="random bits for each element"):
        pltpu.stochastic_round(x, bits, target_dtype="bfloat16")
    tangent = xf.jvp(lambda x: pltpu.stochastic_round(x, np.zeros(2, np.uint32), target_dtype="bfloat16"), (X[:2],), (X[:2],))[1]
    np.testing.assert_array_equal(np.asarray(tangent).astype(np.float32), X[:2])


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz"])
def test_rounding_at_random_adds_to_the_bits_that_are_dropped(dtype):
    """Numbers of all sizes, subnormal ones of the dtype and of float32: down to a multiple of the unit, after a part of it is added."""
    info, generator = ml_dtypes.finfo(dtype), np.random.default_rng(0)
    x = np.float32(generator.choice([-1, 1], 4000) * 2.0 ** generator.uniform(-149, np.log2(float(info.max)) - 0.1, 4000))
    x[:2000] = np.float32(generator.uniform(-1, 1, 2000) * 4 * 2.0 ** info.minexp)
    bits = generator.integers(0, 2**32, x.shape, np.uint32)
    exponent = np.maximum(np.frexp(np.abs(x).astype(float))[1] - 1, -126)
    unit = 2.0 ** (np.maximum(exponent, info.minexp) - info.nmant)
    dropped = np.minimum(23 + np.maximum(exponent, info.minexp) - info.nmant - exponent, 31)
    part = (bits % 2.0 ** dropped) / 2.0 ** dropped
    expected = np.sign(x) * np.floor(np.abs(x) / unit + part) * unit
    assert (expected == 0).any() and (np.abs(expected) > np.abs(x)).any() and (np.abs(expected) < np.abs(x)).any()
    for f in (pltpu.stochastic_round, xf.jit(pltpu.stochastic_round, static_argnames="target_dtype")):
        np.testing.assert_array_equal(np.asarray(f(x, bits, target_dtype=dtype)).astype(float), expected)
    special = np.float32([np.inf, -np.inf, np.nan, 0])
    np.testing.assert_array_equal(np.asarray(pltpu.stochastic_round(special, bits[:4], target_dtype=dtype)).astype(float),
                                  special.astype(dtype).astype(float))


def test_samples_do_not_depend_on_blocks():
    key = xf.random.key(3)

    def sampled(block):
        rows = [[pltpu.sample_block(xf.random.uniform, key, block, (2, 4), (8, 16), (i, j), minval=1.0, maxval=2.0)
                 for j in range(16 // block[1])] for i in range(8 // block[0])]
        return np.block([[np.asarray(x) for x in row] for row in rows])

    full = sampled((8, 16))
    np.testing.assert_array_equal(sampled((2, 4)), full)
    np.testing.assert_array_equal(sampled((4, 8)), full)
    np.testing.assert_array_equal(full[2:4, 4:8], xf.random.uniform(xf.random.fold_in(key, 5), (2, 4), minval=1.0, maxval=2.0))
    with pytest.raises(ValueError, match=r"the sizes of tiles, \(3, 4\), must divide"):
        pltpu.sample_block(xf.random.uniform, key, (4, 8), (3, 4), (8, 16), (0, 0))


def test_random_numbers_of_the_core():
    """Interpreted, all bits are zero: the lower bounds."""
    def kernel(o_ref):
        pltpu.prng_seed(0)
        o_ref[0:2] = pltpu.stateful_uniform((2,), minval=3.0, maxval=4.0)
        o_ref[2:4] = pltpu.stateful_normal((2,))
        o_ref[4:6] = pltpu.stateful_bits((2,), "uint8").astype("float32")
        o_ref[6:8] = pltpu.stateful_bernoulli(0.5, (2,)).astype("float32")

    found = np.asarray(interpreted(kernel, out_shape=LIKE)())
    assert found[:2].tolist() == [3, 3] and found[2:].tolist() == [0, 0, 0, 0, 1, 1]
    with pytest.raises(TypeError, match="unsigned integers of 32 bits at most"):
        pltpu.stateful_bits((2,), "int32")


def test_distributions_of_random_numbers(monkeypatch, rng):
    monkeypatch.setattr(kernel_random, "prng_random_bits", lambda shape: xnp.asarray(
        rng.integers(-2**31, 2**31, shape).astype(np.int32)))
    uniform, normal = np.asarray(pltpu.stateful_uniform((40_000,), minval=-1.0)), np.asarray(pltpu.stateful_normal((40_000,)))
    assert -1 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean()) < 0.02 and abs(uniform.std() - 3 ** -0.5) < 0.01
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.02 and abs((normal < 1).mean() - 0.8413) < 0.01
    assert abs(np.asarray(pltpu.stateful_bernoulli(0.2, (40_000,))).mean() - 0.2) < 0.01
    assert len(np.unique(pltpu.stateful_bits((40_000,), "uint8"))) == 256


def test_hints_and_convolutions():
    def kernel(x_ref, o_ref):
        pltpu.touch(x_ref)
        assert pltpu.has_memory_space(x_ref, pltpu.HBM) and pltpu.has_memory_space(o_ref.at[0:1], pltpu.VMEM)
        o_ref[...] = pltpu.annotate(x_ref, no_store=True)[...]

    np.testing.assert_array_equal(interpreted(kernel, out_shape=LIKE, in_specs=[ANY])(X), X)
    for f in (pltpu.touch, pltpu.annotate, lambda x: pltpu.has_memory_space(x, pltpu.VMEM)):
        with pytest.raises(TypeError, match="takes a reference"):
            f(X)
    found = pltpu.conv(X[None, None], np.float32([[[1, 2]]]), np.ones((1, 1, 7)), dimension_numbers=("NCH", "OIH", "NCH"),
                       window_reversal=(True,))
    np.testing.assert_array_equal(found[0, 0], np.convolve(X, [1, 2], "valid") + 1)
    with pytest.raises(NotImplementedError, match="get_global"):
        pl.get_global(pltpu.SemaphoreType.REGULAR)
    assert pltpu.SEMAPHORE((2,), pltpu.dma_semaphore) == pltpu.SemaphoreType.DMA((2,))
