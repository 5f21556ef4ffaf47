"""Kernels on SparseCores with what they compute by NumPy, for the tests of values and those of compilation."""

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu, tpu_sc as plsc

LANES = 8  # of a TPU v6e
RNG = np.random.default_rng(0)
X = RNG.integers(-5, 6, LANES).astype(np.int32)
MASK = X > 0
INDEX = np.abs(X) % LANES


def gathered(interpret, num_cores=2, num_subcores=16):
    """Return a kernel that looks up rows: each subcore takes a part of the indices."""
    count = num_cores * num_subcores * LANES

    def kernel(x_ref, i_ref, o_ref, values, indices, results):
        part = pl.ds(pl.multiple_of((lax.axis_index("core") * num_subcores + lax.axis_index("subcore")) * LANES, LANES), LANES)
        pltpu.sync_copy(x_ref, values)
        pltpu.sync_copy(i_ref.at[part], indices)
        results[...] = plsc.load_gather(values, [indices[...]]) + 1
        pltpu.sync_copy(results, o_ref.at[part])

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=num_cores, num_subcores=num_subcores)
    return pl.kernel(kernel, xf.ShapeDtypeStruct((count,), np.float32), mesh=mesh, interpret=interpret, scratch_types=[
        pltpu.VMEM((256,), np.float32), pltpu.VMEM((LANES,), np.int32), pltpu.VMEM((LANES,), np.float32)])


TABLE = RNG.normal(size=256).astype(np.float32)
INDICES = RNG.integers(0, 256, 2 * 16 * LANES).astype(np.int32)


NUM_ROWS = 64  # of a subcore: more than a vector has elements
LARGE = RNG.normal(size=(1024, 128)).astype(np.float32)
ROW_INDICES = RNG.permutation(1024)[:8 * NUM_ROWS].astype(np.int32)


def _copied(x, i):
    result = np.full_like(LARGE, np.nan)
    result[i] = x[:len(i)]
    return result


def _filtered(x, i):
    rows = np.tile(x[:NUM_ROWS], (8, 1))
    rows[i >= 0] = x[i[i >= 0]]
    return rows


def _filtered_scatter(x, i):
    result = np.full_like(LARGE, np.nan)
    rows = np.tile(x[:NUM_ROWS], (8, 1))
    result[i[i >= 0]] = rows[i >= 0]
    return result


FILTERED_INDICES = np.where(RNG.integers(0, 3, len(ROW_INDICES)) > 0, ROW_INDICES, -1).astype(np.int32)
ROW_COPIES = {"gather": lambda x, i: x[i], "filtered": _filtered, "filtered scatter": _filtered_scatter, "add": lambda x, i: x[i] + np.tile(x[:NUM_ROWS], (8, 1)), "scatter": _copied}


def row_copies(kind, interpret):
    """Return a kernel that copies rows of main memory at indices, adds them, or copies rows to them."""
    def kernel(x_ref, i_ref, o_ref, indices, rows, copied):
        part = pl.ds(pl.multiple_of(lax.axis_index("subcore") * NUM_ROWS, NUM_ROWS), NUM_ROWS)
        pltpu.sync_copy(i_ref.at[part], indices)
        if kind.startswith("filtered"):
            pltpu.sync_copy(x_ref.at[pl.ds(0, NUM_ROWS)], rows)
            filtered = plsc.Indices(indices, ignored_value=-1)
            if kind == "filtered":
                pltpu.async_copy(x_ref.at[filtered], rows, copied).wait()
                pltpu.sync_copy(rows, o_ref.at[part])
            else:
                pltpu.async_copy(rows, o_ref.at[filtered], copied).wait()
            return
        if kind == "scatter":
            pltpu.sync_copy(x_ref.at[part], rows)
            pltpu.async_copy(rows, o_ref.at[indices], copied).wait()
            return
        if kind == "add":
            pltpu.sync_copy(x_ref.at[pl.ds(0, NUM_ROWS)], rows)
        pltpu.async_copy(x_ref.at[indices], rows, copied, add=kind == "add").wait()
        pltpu.sync_copy(rows, o_ref.at[part])

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=8)
    shape = LARGE.shape if kind.endswith("scatter") else (8 * NUM_ROWS, 128)
    return pl.kernel(kernel, xf.ShapeDtypeStruct(shape, np.float32), mesh=mesh, interpret=interpret, scratch_types=[
        pltpu.VMEM((NUM_ROWS,), np.int32), pltpu.VMEM((NUM_ROWS, 128), np.float32), pltpu.SemaphoreType.DMA])


def through_main_memory(interpret):
    """Return a kernel that copies rows by way of scratch memory in HBM, from where another subcore takes them."""
    def kernel(x_ref, o_ref, main, row):
        i = lax.axis_index("subcore")
        pltpu.async_copy(x_ref.at[i], row, None)
        pltpu.async_copy(row, main.at[i], None).wait()
        plsc.subcore_barrier()
        pltpu.sync_copy(main.at[7 - i], o_ref.at[i])

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=8)
    return pl.kernel(kernel, xf.ShapeDtypeStruct((8, 128), np.float32), mesh=mesh, interpret=interpret, scratch_types=[
        pltpu.HBM((8, 128), np.float32), pltpu.VMEM((128,), np.float32)])


# Views of rows at indices: the view of a reference of shape (64, 256), and the same part of an array.
VIEWS = {
    "columns": (lambda ref, i: ref.at[i, pl.ds(128, 128)], np.s_[:, 128:]),
    "columns of rows": (lambda ref, i: ref.at[pl.ds(8, 32), pl.ds(0, 128)].at[i], np.s_[8:40, :128]),
    "columns at run time": (lambda ref, i: ref.at[i, pl.ds(pl.multiple_of(lax.axis_index("core") * 128, 128), 128)], np.s_[:, :128]),
    "rows of rows": (lambda ref, i: ref.at[pl.ds(8, 32)].at[i], np.s_[8:40]),
}
SOME_INDICES = np.int32([3, -1, 5, 0, -1, 7, 31, 2])
HALVES = RNG.normal(size=(64, 256)).astype(np.float32)


def slices_of_rows(name, direction, interpret=False, add=False, ignored=-1, is_tiled=True):
    """Return a kernel that copies parts of rows at indices without the ignored ones, which have the values from before."""
    view, part = VIEWS[name]
    width = HALVES[part].shape[1]

    def kernel(x_ref, i_ref, o_ref, indices, rows, copied):
        pltpu.sync_copy(i_ref, indices)
        pltpu.sync_copy(x_ref.at[pl.ds(0, 8), pl.ds(0, width)], rows)
        part = view(x_ref if direction == "from" else o_ref, plsc.Indices(indices, ignored_value=ignored))
        if direction == "from":
            pltpu.async_copy(part, rows, copied, add=add).wait()
            pltpu.sync_copy(rows, o_ref.at[pl.ds(0, 8), pl.ds(0, width)])
        else:
            pltpu.async_copy(rows, part, copied, add=add).wait()

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
    return pl.kernel(kernel, xf.ShapeDtypeStruct(HALVES.shape, np.float32), mesh=mesh, interpret=interpret, scratch_types=[
        pltpu.VMEM((8,), np.int32), pltpu.VMEM((8, width), np.float32), pltpu.SemaphoreType.DMA],
        compiler_params=pltpu.CompilerParams(use_tc_tiling_on_sc=is_tiled))


def slices_copied(name, direction, add=False):
    """Return what `slices_of_rows` computes. Memory that was not written is NaN."""
    part = VIEWS[name][1]
    result, width, used = np.full_like(HALVES, np.nan), HALVES[part].shape[1], SOME_INDICES >= 0
    rows = HALVES[:8, :width].copy()
    if direction == "from":
        rows[used] = HALVES[part][SOME_INDICES[used]] + (rows[used] if add else 0)
        result[:8, :width] = rows
    else:
        result[part][SOME_INDICES[used]] = rows[used]
    return result


def summed(interpret):
    """Return a kernel on scalar subcores: the sum of each row."""
    def kernel(x_ref, o_ref, row):
        core = lax.axis_index("core")
        pltpu.sync_copy(x_ref.at[core], row)
        row[0] = lax.fori_loop(1, 8, lambda i, total: total + row[i], row[0])
        pltpu.sync_copy(row, o_ref.at[core])

    return pl.kernel(kernel, xf.ShapeDtypeStruct((2, 8), np.int32), interpret=interpret, scratch_types=[pltpu.SMEM((8,), np.int32)],
                     mesh=plsc.ScalarSubcoreMesh(axis_name="core", num_cores=2))


ROWS = RNG.integers(-50, 50, (2, 8)).astype(np.int32)


def written(*positions_and_values, add=False, start=None):
    result = np.zeros(LANES, np.int32) if start is None else start.copy()
    for i, x in positions_and_values:
        result[i] = result[i] + x if add else x
    return result


def counts():
    return [sum(X[:i + 1] == X[i]) if X[i] not in X[i + 1:] else 0 for i in range(LANES)]


def largest():
    return [max(X[:i + 1][MASK[:i + 1]]) if MASK[:i + 1].any() else X[i] for i in range(LANES)]


ORDER = [i for i in sorted(range(LANES), key=lambda i: -X[i]) if MASK[i]]
ADDED = list(zip(INDEX, X))

# What is done with the vector X and its reference, which is written to one of zeros, and the result.
INTERLEAVED, COMPRESSED = plsc.PackFormat.INTERLEAVED, plsc.PackFormat.COMPRESSED
OPERATIONS = {
    "a gather": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., plsc.load_gather(x_ref, [abs(x) % LANES])), X[INDEX]),
    "a masked gather": (lambda x, x_ref, o_ref: o_ref.__setitem__(
        ..., xnp.where(x > 0, plsc.load_gather(x_ref, [abs(x) % LANES], mask=x > 0), 7)), np.where(MASK, X[INDEX], 7)),
    "a scatter": (lambda x, x_ref, o_ref: plsc.store_scatter(o_ref, [abs(x) % LANES], abs(x)), written(*zip(INDEX, abs(X)))),
    "a masked scatter": (lambda x, x_ref, o_ref: plsc.store_scatter(o_ref, [abs(x) % LANES], abs(x), mask=x > 0),
                         written(*zip(INDEX[MASK], X[MASK]))),
    "a sum by indices": (lambda x, x_ref, o_ref: plsc.addupdate_scatter(o_ref, [abs(x) % LANES], x, mask=x > 0),
                         written(*zip(INDEX[MASK], X[MASK]), add=True)),
    "an addition": (lambda x, x_ref, o_ref: (plsc.addupdate(o_ref, x), plsc.addupdate(o_ref, x)) and None, 2 * X),
    "a compressed store": (lambda x, x_ref, o_ref: plsc.store_compressed(o_ref, x, mask=x > 0), written(*enumerate(X[MASK]))),
    "a compressed addition": (lambda x, x_ref, o_ref: plsc.addupdate_compressed(o_ref, 3 * x, mask=x > 0),
                              written(*enumerate(3 * X[MASK]))),
    "an expanded load": (lambda x, x_ref, o_ref: o_ref.__setitem__(
        ..., xnp.where(x > 0, plsc.load_expanded(x_ref, mask=x > 0), 0)), np.where(MASK, X[np.cumsum(MASK) - 1], 0)),
    "sums": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., plsc.cumsum(x)), np.cumsum(X)),
    "masked sums": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., plsc.cumsum(x, mask=x > 0)), np.cumsum(np.where(MASK, X, 0))),
    "maxima": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., plsc.cummax(x, mask=x > 0)), largest()),
    "the first": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., plsc.all_reduce_ffs(x > 0)), np.full(LANES, np.argmax(MASK))),
    "the number": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., plsc.all_reduce_population_count(x > 0)),
                   np.full(LANES, MASK.sum())),
    "counts of duplicates": (lambda x, x_ref, o_ref: o_ref.__setitem__(
        ..., (lambda count, last: xnp.where(last, count, 0))(*plsc.scan_count(x))), counts()),
    "a sort": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., sum(plsc.sort_key_val(x, 10 * x))), 11 * np.sort(X)),
    "a masked sort": (lambda x, x_ref, o_ref: o_ref.__setitem__(
        ..., (lambda k, v, m: xnp.where(m, k + v, 0))(*plsc.sort_key_val(x, 10 * x, mask=x > 0, descending=True))),
        written(*enumerate(11 * X[ORDER]))),
    "packed pairs": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., (lambda a, b: a - 2 * b)(*plsc.unpack(
        plsc.pack(x, x * x, format=INTERLEAVED), format=INTERLEAVED))), X - 2 * X * X),
    "compressed pairs of floats": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., (lambda a, b: a - 2 * b)(*plsc.unpack(
        plsc.pack(x.astype("float32"), 3.0 * x, format=COMPRESSED), format=COMPRESSED)).astype("int32")), -5 * X),
    "bits": (lambda x, x_ref, o_ref: o_ref.__setitem__(..., plsc.bitcast(plsc.bitcast(x, np.int16), np.int32)), X),
    "a loop": (lambda x, x_ref, o_ref: plsc.parallel_loop(0, 9, 4, unroll=2)(lambda i: plsc.addupdate(o_ref, x * i)), 12 * X),
    "a loop with a carry": (lambda x, x_ref, o_ref: o_ref.__setitem__(
        ..., plsc.parallel_loop(0, 5, carry=x)(lambda i, total: total + i)), X + 10),
}


def indices_of(kind):
    """The indices of a copy of rows."""
    return FILTERED_INDICES if kind.startswith("filtered") else ROW_INDICES


def counted(interpret, num_subcores):
    """Return a kernel whose subcores take numbers from a count in the scalar memory of the first."""
    def kernel(x_ref, o_ref, count, values):
        @pl.when(lax.axis_index("subcore") == 0)
        def _():
            count[1] = np.int32(5)

        if num_subcores > 1:
            plsc.subcore_barrier()
        pltpu.sync_copy(x_ref, values)
        row = plsc.fetch_and_add(count.at[1], 2, subcore_id=0) + plsc.fetch_and_add(count.at[1], 1, subcore_id=0)
        values[...] = values[...] + row
        pltpu.sync_copy(values, o_ref.at[lax.axis_index("subcore")])

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=num_subcores)
    return pl.kernel(kernel, xf.ShapeDtypeStruct((num_subcores, LANES), np.int32), mesh=mesh, interpret=interpret, scratch_types=[
        pltpu.SMEM((2,), np.int32), pltpu.VMEM((LANES,), np.int32)])


def shared(interpret, num_subcores=16):
    """Return a kernel whose subcores copy through their shares of the memory of the core."""
    def kernel(x_ref, o_ref, memory, values):
        mine = plsc.slice_subcore_vmem_from_shared(memory)
        pltpu.sync_copy(x_ref.at[lax.axis_index("subcore")], values)
        values[...] = values[...] * 2
        pltpu.sync_copy(values, mine)
        pltpu.sync_copy(mine, o_ref.at[lax.axis_index("subcore")])

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=num_subcores)
    return pl.kernel(kernel, xf.ShapeDtypeStruct((num_subcores, LANES), np.int32), mesh=mesh, interpret=interpret, scratch_types=[
        pltpu.VMEM_SHARED((num_subcores * LANES,), np.int32), pltpu.VMEM((LANES,), np.int32)])


SHARED = RNG.integers(-9, 9, (16, LANES)).astype(np.int32)


def kernel_of(name, interpret):
    """Return a kernel on one subcore that does an operation."""
    def kernel(x_ref, o_ref, values, results):
        pltpu.sync_copy(x_ref, values)
        results[...] = xnp.zeros(LANES, np.int32)
        OPERATIONS[name][0](values[...], values, results)
        pltpu.sync_copy(results, o_ref)

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
    return pl.kernel(kernel, xf.ShapeDtypeStruct((LANES,), np.int32), mesh=mesh, interpret=interpret,
                     scratch_types=[pltpu.VMEM((LANES,), np.int32)] * 2)
