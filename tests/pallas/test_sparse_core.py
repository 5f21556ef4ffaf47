"""Kernels on SparseCores: interpreted values against NumPy, the configuration of the call, and what is refused."""

import re

import mosaic_evaluator
import numpy as np
import pytest
import sparse_core_kernels as kernels
from test_mosaic import module_text

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu, tpu_sc as plsc

pytestmark = pytest.mark.cpu_only


@pytest.mark.parametrize("name", kernels.OPERATIONS)
def test_operations(name):
    found = xf.jit(kernels.kernel_of(name, True))(kernels.X)
    np.testing.assert_array_equal(found, kernels.OPERATIONS[name][1])


def test_kernels_on_all_subcores():
    np.testing.assert_array_equal(xf.jit(kernels.gathered(True))(kernels.TABLE, kernels.INDICES),
                                  kernels.TABLE[kernels.INDICES] + 1)
    np.testing.assert_array_equal(xf.jit(kernels.summed(True))(kernels.ROWS)[:, 0], kernels.ROWS.sum(1))


def test_scratch_memory_in_hbm_and_copies_without_semaphores():
    np.testing.assert_array_equal(kernels.through_main_memory(True)(kernels.LARGE[:8]), kernels.LARGE[7::-1])


def test_messages_name_the_line_of_the_kernel():
    mesh = plsc.ScalarSubcoreMesh(axis_name="core", num_cores=1)
    copy = pl.kernel(lambda x, o, m: None, xf.ShapeDtypeStruct((8,), np.float32), mesh=mesh, scratch_types=[pl.ANY((8,), np.float32)])
    with pytest.raises(ValueError, match=r"<lambda> at .*test_sparse_core.py:\d+.* is in any; scratch memory of SparseCores is in VMEM"):
        module_text(copy, np.zeros(8, np.float32))


@pytest.mark.parametrize("kind", kernels.ROW_COPIES)
def test_copies_of_rows(kind):
    args = kernels.LARGE, kernels.indices_of(kind)
    found, expected = xf.jit(kernels.row_copies(kind, True))(*args), kernels.ROW_COPIES[kind](*args)
    np.testing.assert_array_equal(found, expected)
    [(module, _)] = mosaic_evaluator.modules(module_text(kernels.row_copies(kind, False), *args))
    text = str(module)
    assert "tpu.enqueue_indirect_dma" in text and "tpu.wait_indirect_dma" in text and ("add = true" in text) is (kind == "add")
    assert "memref<64xi32, #tpu.memory_space<vmem>>" in text and ("offset_filter" in text) is kind.startswith("filtered")


@pytest.mark.parametrize("mode", ["eager", "on_wait"])
@pytest.mark.parametrize("kind", kernels.ROW_COPIES)
def test_simulated_copies_of_rows(kind, mode):
    args = kernels.LARGE, kernels.indices_of(kind)
    params = pltpu.InterpretParams(detect_races=True, dma_execution_mode=mode)
    np.testing.assert_array_equal(xf.jit(kernels.row_copies(kind, params))(*args), kernels.ROW_COPIES[kind](*args))


@pytest.mark.parametrize("direction", ["from", "to"])
@pytest.mark.parametrize("name", kernels.VIEWS)
def test_copies_of_slices_of_rows(name, direction):
    """Ignored rows of a view keep their values, and so do the other columns and rows of the reference."""
    args = kernels.HALVES, kernels.SOME_INDICES
    for interpret in (True, pltpu.InterpretParams(detect_races=True), pltpu.InterpretParams(dma_execution_mode="on_wait")):
        for add in [False, True][:1 + (direction == "from")]:
            found = xf.jit(kernels.slices_of_rows(name, direction, interpret, add))(*args)
            np.testing.assert_array_equal(found, kernels.slices_copied(name, direction, add))
    [(module, _)] = mosaic_evaluator.modules(module_text(kernels.slices_of_rows(name, direction, False), *args))
    [copy] = [line for line in str(module).splitlines() if "tpu.enqueue_indirect_dma" in line]
    side, (rows, width) = "source" if direction == "from" else "target", kernels.HALVES[kernels.VIEWS[name][1]].shape
    assert re.search(rf"{side}\(%\w+ : memref<{rows}x{width}xf32, #tpu.memory_space<hbm>>\)", copy) and "offset_filter" in copy


def test_filtered_copies_that_are_refused():
    def copy(view_of):
        def kernel(x_ref, i_ref, o_ref, indices):
            pltpu.sync_copy(i_ref, indices)
            pltpu.sync_copy(view_of(x_ref, plsc.Indices(indices, ignored_value=-1)), o_ref)

        mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
        return pl.kernel(kernel, xf.ShapeDtypeStruct((8, 8), np.float32), mesh=mesh, interpret=True,
                         scratch_types=[pltpu.VMEM((8,), np.int32)])(kernels.HALVES[:16, :16], kernels.SOME_INDICES)

    for view_of in (lambda ref, i: ref.at[pl.ds(0, 8), i], lambda ref, i: ref.at[i].at[:, pl.ds(0, 8)]):
        with pytest.raises(NotImplementedError, match=r"takes them as the first index .* ref.at\[Indices\(...\), 0:128\]"):
            copy(view_of)


def filtered(indices, rows_read):
    """Copy rows to rows 1 to 8 of a reference, and read other rows of it before the copy has arrived."""
    def kernel(x_ref, i_ref, o_ref, indices, rows, copied):
        pltpu.sync_copy(i_ref, indices)
        copy = pltpu.async_copy(x_ref.at[plsc.Indices(indices, ignored_value=-1)], rows.at[pl.ds(0, 8)], copied)
        pltpu.sync_copy(rows.at[pl.ds(rows_read, 8)], o_ref)
        copy.wait()

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
    return pl.kernel(
        kernel, xf.ShapeDtypeStruct((8, 128), np.float32), mesh=mesh, interpret=pltpu.InterpretParams(detect_races=True),
        scratch_types=[pltpu.VMEM((8,), np.int32), pltpu.VMEM((16, 128), np.float32), pltpu.SemaphoreType.DMA])(
            kernels.LARGE, np.int32(indices))


def test_mistakes_in_filtered_copies():
    """An ignored index is not out of bounds; other indices are, and the rows that are written race with reads of them."""
    indices = [3, -1, 5, -1, -1, 1000, 1023, 0]
    filtered(indices, 8)
    filtered([-1] * 8, 8)
    for bad in (1024, -2):
        with pytest.raises(IndexError, match="the read of .* is out of bounds"):
            filtered([*indices[:7], bad], 8)
    with pytest.raises(RuntimeError, match="a race: the read of .* and the copy"):
        filtered(indices, 4)


def test_memory_of_other_subcores():
    for count in (1, 4):  # each subcore adds 3; the sum of the two numbers that it gets is 2 * 5 + 2 for the first
        expected = kernels.X[None] + 12 + 6 * np.arange(count)[:, None]
        for f in (kernels.counted(True, count), xf.jit(kernels.counted(True, count))):
            np.testing.assert_array_equal(f(kernels.X), expected)
    np.testing.assert_array_equal(xf.jit(kernels.shared(True))(kernels.SHARED), 2 * kernels.SHARED)
    text = str(mosaic_evaluator.modules(module_text(kernels.counted(False, 16), kernels.X))[0][0])
    assert "tpu.fetch_and_add_sync %arg4[%c1_i32" in text


def exchanged(body, interpret=True, num_cores=2, num_subcores=3):
    """Return a kernel whose subcores copy through memory that they share: `body` gets references and the subcore's index."""
    def kernel(x_ref, o_ref, shared, mine, numbers, copied):
        core, subcore = lax.axis_index("core"), lax.axis_index("subcore")
        pltpu.sync_copy(x_ref.at[core, subcore], mine)
        body(shared, mine, numbers, copied, subcore)
        pltpu.sync_copy(mine, o_ref.at[core, subcore])

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=num_cores, num_subcores=num_subcores)
    return pl.kernel(kernel, xf.ShapeDtypeStruct((num_cores, num_subcores, 8), np.int32), mesh=mesh, interpret=interpret, scratch_types=[
        pltpu.VMEM_SHARED((num_subcores, 8), np.int32), pltpu.VMEM((8,), np.int32), pltpu.SMEM((2,), np.int32),
        pltpu.SemaphoreType.DMA])


EXCHANGED = np.random.default_rng(3).integers(-99, 99, (2, 3, 8)).astype(np.int32)


def test_barriers():
    """Values, memory and copies of each subcore continue after the barrier; vmap and a second barrier."""
    def body(shared, mine, numbers, copied, subcore):
        twice = mine[...] * 2
        numbers[0] = subcore + 5
        copy = pltpu.async_copy(mine, shared.at[subcore], copied)
        plsc.subcore_barrier()
        copy.wait()
        plsc.subcore_barrier()
        pltpu.sync_copy(shared.at[(subcore + 1) % 3], mine)
        mine[...] = mine[...] + twice + numbers[0]

    expected = np.roll(EXCHANGED, -1, axis=1) + 2 * EXCHANGED + 5 + np.arange(3)[:, None]
    for f in (exchanged(body), xf.jit(exchanged(body))):
        np.testing.assert_array_equal(f(EXCHANGED), expected)
    np.testing.assert_array_equal(xf.vmap(exchanged(body))(np.stack([EXCHANGED, EXCHANGED[::-1]])), [expected, expected[::-1]])


def test_counts_in_loops_and_branches():
    """Subcores take numbers from a count of the last one, each as many as its index, in a loop."""
    def body(shared, mine, numbers, copied, subcore):
        numbers[1] = np.int32(100)
        plsc.subcore_barrier()

        def take(i, total):
            return total + plsc.fetch_and_add(numbers.at[1], 1, subcore_id=2)

        total = lax.fori_loop(0, subcore, take, np.int32(0))
        plsc.subcore_barrier()
        mine[...] = mine[...] + total + lax.cond(subcore == 0, lambda: plsc.fetch_and_add(numbers.at[1], 7, subcore_id=2), lambda: 0)

    taken = np.array([103, 100, 101 + 102])  # the first takes none, and reads the count at the end
    np.testing.assert_array_equal(exchanged(body)(EXCHANGED), EXCHANGED + taken[:, None])


def _in_a_loop(run, shared, mine, subcore):
    """Pass the values to the left neighbour twice; the loop gives the sum of the subcore's index and of the steps' numbers."""
    def step(i, total):
        pltpu.sync_copy(mine, shared.at[subcore])
        plsc.subcore_barrier()
        pltpu.sync_copy(shared.at[(subcore + 1) % 3], mine)
        plsc.subcore_barrier()
        return total + i

    total = run(step, subcore)
    mine[...] += total


def _with_derivative(f):
    function = xf.custom_jvp(f)
    function.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    return function


WAYS_TO_LOOP = {
    "fori_loop": lambda step, start: lax.fori_loop(0, 2, step, start),
    "while_loop": lambda step, start: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, step(*c)), (np.int32(0), start))[1],
    "scan": lambda step, start: (lambda c, rows: c + rows[0] - rows[1])(*lax.scan(
        lambda c, i: (step(i, c), c), start, xnp.arange(2, dtype=np.int32), reverse=True)) - 1,
    "jit": lambda step, start: xf.jit(lambda c: step(1, step(0, c)))(start),
    "cond": lambda step, start: lax.cond(start >= 0, lambda c: step(1, step(0, c)), lambda c: c, start),
    "custom_jvp": lambda step, start: _with_derivative(lambda c: step(1, step(0, c)))(start),
    "nested": lambda step, start: lax.fori_loop(0, 2, lambda i, c: xf.jit(lambda c: lax.fori_loop(i, i + 1, step, c))(c), start)}


@pytest.mark.parametrize("way, interpret", [*[(way, True) for way in WAYS_TO_LOOP], ("nested", pltpu.InterpretParams())])
def test_barriers_in_loops_and_functions(way, interpret):
    def body(shared, mine, numbers, copied, subcore):
        _in_a_loop(WAYS_TO_LOOP[way], shared, mine, subcore)

    expected = np.roll(EXCHANGED, -2, axis=1) + 1 + np.arange(3)[:, None]
    np.testing.assert_array_equal(exchanged(body, interpret)(EXCHANGED), expected)


@pytest.mark.parametrize("interpret", [True, pltpu.InterpretParams()], ids=["interpreted", "simulated"])
def test_counts_in_memory_of_a_scope(interpret):
    """Each subcore adds its index + 1 to the count of the first, in two rounds; copies are open while it waits."""
    def body(shared, mine, numbers, copied, subcore):
        @pl.with_scoped(pltpu.SMEM((2,), np.int32))
        def count(memory):
            memory[1] = np.int32(10)
            copy = pltpu.async_copy(mine, shared.at[subcore], copied)
            plsc.subcore_barrier()

            @pl.loop(0, 2)
            def _(i):
                plsc.fetch_and_add(memory.at[1], subcore + 1, subcore_id=0)
                plsc.subcore_barrier()
                pl.when(subcore == 0)(lambda: numbers.__setitem__(i, memory[1]))
                plsc.subcore_barrier()

            copy.wait()
            plsc.subcore_barrier()
            pltpu.sync_copy(shared.at[2 - subcore], mine)
            mine[...] += xnp.where(subcore == 0, 100 * numbers[0] + numbers[1], memory[1])

        count()

    expected = EXCHANGED[:, ::-1] + np.array([1622, 10, 10])[:, None]
    np.testing.assert_array_equal(exchanged(body, interpret)(EXCHANGED), expected)


def test_races_of_several_subcores_are_not_detected():
    with pytest.raises(NotImplementedError, match="does not detect races of the kernel .*: its subcores wait for each other"):
        exchanged(lambda *_: plsc.subcore_barrier(), pltpu.InterpretParams(detect_races=True))(EXCHANGED)


def test_copies_of_rows_by_values():
    """Indices that were changed after they were read are copied as they were: from the vector, not from memory."""
    def kernel(x_ref, o_ref, indices, rows, copied):
        indices[...] = xnp.arange(8, dtype=np.int32)
        read = indices[...]
        indices[...] = read + 1
        pltpu.async_copy(x_ref.at[read], rows, copied).wait()
        pltpu.sync_copy(rows, o_ref)

    def call(interpret):
        mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
        return pl.kernel(kernel, xf.ShapeDtypeStruct((8, 128), np.float32), mesh=mesh, interpret=interpret, scratch_types=[
            pltpu.VMEM((8,), np.int32), pltpu.VMEM((8, 128), np.float32), pltpu.SemaphoreType.DMA])

    np.testing.assert_array_equal(xf.jit(call(True))(kernels.LARGE), kernels.LARGE[:8])
    assert ": vector<8xi32>) semaphore" in str(mosaic_evaluator.modules(module_text(call(False), kernels.LARGE))[0][0])


def test_floats():
    x = np.float32([2, -1, np.inf, 5, 5, 0, -np.inf, 3])
    np.testing.assert_array_equal(plsc.cummax(x), np.maximum.accumulate(x))
    np.testing.assert_array_equal(plsc.sort_key_val(x, x, descending=True)[0], -np.sort(-x))
    np.testing.assert_array_equal(plsc.cumsum(x[:2]), [2, 1])
    assert plsc.all_reduce_ffs(x > 6, reduce=4).tolist() == [2, 2] and plsc.all_reduce_ffs(x > np.inf).tolist() == [8] * 8
    np.testing.assert_array_equal(plsc.bitcast(x, np.uint16), x.view(np.uint16))


def test_the_module():
    [(module, config)] = mosaic_evaluator.modules(module_text(kernels.gathered(False), kernels.TABLE, kernels.INDICES))
    assert config["device_type"] == "DEVICE_TYPE_SPARSECORE" and config["sparse_core_config"] == {"tiling": "TILING_COMPACT"}
    text = str(module)
    for part in ("tpu.core_type<sc_vector_subcore>", "iteration_bounds = array<i64: 2, 16>", "core_parallel>, #tpu.dimension_sem",
                 "subcore_parallel>", "memory_space<hbm>", "tpu.vector_load_idx"):
        assert part in text, part
    assert config["custom_call_config"]["needs_layout_passes"] is True
    [(module, config)] = mosaic_evaluator.modules(module_text(kernels.kernel_of("sums", False), kernels.X))
    assert config["custom_call_config"]["needs_layout_passes"] is False
    assert "sc_scalar_subcore" in str(mosaic_evaluator.modules(module_text(kernels.summed(False), kernels.ROWS))[0][0])


def test_options_of_the_compiler():
    def config(**options):
        mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=16)
        copy = pl.kernel(lambda x, o: pltpu.sync_copy(x, o), out_type=xf.ShapeDtypeStruct((16, 128), "float32"), mesh=mesh,
                         compiler_params=pltpu.CompilerParams(**options))
        return mosaic_evaluator.modules(module_text(copy, np.zeros((16, 128), np.float32)))[0][1]

    found = config(opt_level="O1", use_tc_tiling_on_sc=False, needs_layout_passes=False)
    assert found["sparse_core_config"] == {
        "tiling": "TILING_SPARSE_CORE", "core_ids": ["0"], "comp_env": {"backend_opt_level": "O1"}}
    assert found["custom_call_config"]["needs_layout_passes"] is False
    with pytest.raises(ValueError, match="opt_level of pltpu.CompilerParams takes one of O0, O1, O2, O3, got 2"):
        config(opt_level=2)


def test_meshes():
    assert plsc.get_sparse_core_info("v6e").num_lanes == kernels.LANES and plsc.get_sparse_core_info("v5p").num_cores == 4
    assert plsc.ScalarSubcoreMesh(axis_name="c").num_cores == 1
    with pytest.raises(RuntimeError, match="TPU v5e has no SparseCores.*v5p, v6e, tpu7x"):
        plsc.get_sparse_core_info("v5e")
    with pytest.raises(ValueError, match="num_subcores of 1 at least, got 0"):
        plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s", num_subcores=0)
    with pytest.raises(TypeError, match="pl.kernel takes a mesh"):
        pl.kernel(lambda o: None, xf.ShapeDtypeStruct((8,), "int32"), mesh=3)


def on_subcores(body, count):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s", num_cores=1, num_subcores=count)
    return pl.kernel(body, xf.ShapeDtypeStruct((8,), np.int32), mesh=mesh, interpret=True, scratch_types=[
        pltpu.VMEM((8,), np.int32)])()


def test_bad_calls():
    on_subcores(lambda o, v: plsc.subcore_barrier(), 1)
    with pytest.raises(ValueError, match="only for kernels of pl.kernel"):
        plsc.subcore_barrier()
    with pytest.raises(ValueError, match="load_gather takes an array of indices for each of the 1 dimensions"):
        on_subcores(lambda o, v: plsc.load_gather(v, [v[...], v[...]]) and None, 1)
    with pytest.raises(ValueError, match="store_scatter takes an array of indices for each of the 1 dimensions"):
        on_subcores(lambda o, v: plsc.store_scatter(v, [], v[...]), 1)
    with pytest.raises(TypeError, match="load_gather takes a reference in VMEM, got"):
        plsc.load_gather(kernels.X, [kernels.X])
    with pytest.raises(TypeError, match="all_reduce_ffs takes a vector of booleans"):
        plsc.all_reduce_ffs(kernels.X)
    with pytest.raises(TypeError, match="cumsum takes a vector, got"):
        plsc.cumsum(xnp.ones((2, 2)))
    with pytest.raises(ValueError, match="reduce must divide the size of the vector, 8, got 3"):
        plsc.all_reduce_population_count(kernels.MASK, reduce=3)
    with pytest.raises(ValueError, match=r"two vectors of one size, got shapes \(8,\) and \(2,\)"):
        plsc.pack(kernels.X, kernels.X[:2], format=kernels.INTERLEAVED)
    with pytest.raises(TypeError, match="two vectors of one dtype, got int32 and float32"):
        plsc.pack(kernels.X, kernels.X.astype(np.float32), format=kernels.INTERLEAVED)
    with pytest.raises(TypeError, match="takes format=PackFormat.INTERLEAVED or PackFormat.COMPRESSED, got"):
        plsc.pack(kernels.X, kernels.X, format="interleaved")
    with pytest.raises(ValueError, match="pack of int32 takes a preferred_element_type of 16 bits, got int8"):
        plsc.pack(kernels.X, kernels.X, format=kernels.INTERLEAVED, preferred_element_type=np.int8)
    with pytest.raises(NotImplementedError, match="unpack takes vectors of bfloat16 and int16 without a preferred_element_type, got int8"):
        plsc.unpack(kernels.X.astype(np.int8), format=kernels.INTERLEAVED)
    with pytest.raises(ValueError, match=r"takes an array of shape \(n, 2\), got shape \(8,\)"):
        plsc.unpack(kernels.X.astype(np.int16), format=kernels.COMPRESSED)
    for error, message, body in (
            (ValueError, "takes a reference in SMEM, got", lambda o, v: plsc.fetch_and_add(v.at[0], 1, subcore_id=0) and None),
            (ValueError, "takes a reference in VMEM_SHARED, got", lambda o, v: plsc.slice_subcore_vmem_from_shared(v) and None),
            (TypeError, "an integer or None as ignored_value, got", lambda o, v: plsc.Indices(v, 1.5) and None)):
        with pytest.raises(error, match=message):
            on_subcores(body, 1)
    with pytest.raises(TypeError, match="fetch_and_add takes a reference in SMEM"):
        plsc.fetch_and_add(kernels.X, 1, subcore_id=0)
    with pytest.raises(ValueError, match="no whole number of elements"):
        plsc.bitcast(np.ones(3, np.int16), np.int32)
