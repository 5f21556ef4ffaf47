"""Simulated TPU kernels (`InterpretParams`): values in each mode against NumPy, and each kind of mistake with the user's lines."""

import inspect
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import tpu_kernels

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu, triton

Params, Spec = pltpu.InterpretParams, xf.ShapeDtypeStruct
F32 = Spec((8, 128), "float32")
X = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
MAIN = pl.BlockSpec(memory_space=pl.ANY)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
BUFFER, DMA, REGULAR = pltpu.VMEM((8, 128), "float32"), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR
COPIES = {"in_specs": [MAIN], "scratch_shapes": [BUFFER, DMA]}
PARALLEL = pltpu.CompilerParams(dimension_semantics=("parallel",))


def run(kernel, *args, params=Params(detect_races=True), out=F32, **options):
    return pl.pallas_call(kernel, out_shape=out, interpret=params, **options)(*args)


def at(kernel, text):
    """The pattern for the line of a kernel that has a text."""
    lines, first = inspect.getsourcelines(kernel)
    [number] = [first + i for i, line in enumerate(lines) if text in line]
    return re.escape(f"at {__file__}:{number}")


# Values

MODES = {"on wait": Params(detect_races=True), "eagerly": Params(detect_races=True, dma_execution_mode="eager"),
         "without races": Params(out_of_bounds_reads="uninitialized", random_seed=1)}


COPYING = ("copies", "copies_between_main_memory", "scratch_in_main_memory", "pipeline", "pipeline_of_dynamic_size")  # without copies modes are the same


@pytest.mark.parametrize("name, mode", [*[(name, "on wait") for name in tpu_kernels.KERNELS], *[
    (name, mode) for name in COPYING for mode in ("eagerly", "without races")], ("matmul", "without races")])
def test_values(name, mode):
    case = tpu_kernels.KERNELS[name]
    args = case.arguments()
    found = xf.tree.leaves(xf.jit(case.call(MODES[mode]))(*args))
    for f, e in zip(found, xf.tree.leaves(case.expected(*args)), strict=True):
        np.testing.assert_allclose(np.asarray(f, np.float64), np.asarray(e, np.float64), rtol=case.tolerance, atol=case.tolerance)


def double(x_ref, o_ref, buffer_ref, semaphore):
    copy = pltpu.make_async_copy(x_ref, buffer_ref, semaphore)
    copy.start()
    copy.wait()
    o_ref[...] = 2 * buffer_ref[...]


def test_transformations_of_a_simulated_kernel():
    f = pl.pallas_call(double, out_shape=F32, interpret=Params(detect_races=True), **COPIES)
    np.testing.assert_array_equal(xf.vmap(f)(np.stack([X, X + 1])), 2 * np.stack([X, X + 1]))
    primal, tangent = xf.jit(lambda x, t: xf.jvp(f, (x,), (t,)))(X, X + 1)
    np.testing.assert_array_equal(primal, 2 * X)
    np.testing.assert_array_equal(tangent, 2 * (X + 1))


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
def test_many_copies_at_once(mode):
    """More copies than the queue holds."""
    def kernel(x_ref, o_ref, semaphore):
        def copy(i):
            return pltpu.make_async_copy(x_ref.at[99 - i], o_ref.at[i], semaphore)

        lax.fori_loop(0, 100, lambda i, _: copy(i).start(), None)
        lax.fori_loop(0, 100, lambda i, _: copy(i).wait(), None)

    x = np.arange(100.0, dtype=np.float32)[:, None] * np.ones(4, np.float32)
    found = run(kernel, x, params=Params(detect_races=True, dma_execution_mode=mode), out=Spec((100, 4), "float32"),
                in_specs=[MAIN], out_specs=MAIN, scratch_shapes=[DMA])
    np.testing.assert_array_equal(found, x[::-1])


def test_copies_with_operands_of_several_kinds():
    """Rows by an index array, a window of another kind of integer, and an addition."""
    def kernel(order_ref, x_ref, o_ref, buffer_ref, semaphores):
        i = pl.program_id(0)
        rows = pltpu.make_async_copy(x_ref.at[order_ref[...]], buffer_ref, semaphores.at[0])
        rows.start()
        pltpu.make_async_copy(x_ref.at[pl.ds(i.astype("uint8"), 8)], o_ref, semaphores.at[1]).start()
        pltpu.make_async_copy(x_ref.at[pl.ds(i.astype("uint8"), 8)], o_ref, semaphores.at[1]).wait()
        rows.wait()
        pltpu.async_copy(buffer_ref, o_ref, semaphores.at[0], add=True).wait()

    order = np.array([3, 1, 0, 2, 7, 6, 5, 4], np.int32)
    found = run(kernel, order, X, grid=(1,), in_specs=[pl.no_block_spec, MAIN], out_specs=MAIN,
                scratch_shapes=[BUFFER, pltpu.SemaphoreType.DMA((2,))])
    np.testing.assert_array_equal(found, X + X[order])


def test_uninitialized_memory():
    def kernel(o_ref, p_ref, scratch_ref):
        o_ref[...] = scratch_ref[...]

    out = (F32, Spec((4,), "int32"))
    floats, integers = run(kernel, params=Params(), out=out, scratch_shapes=[BUFFER])
    assert np.isnan(floats).all() and (np.asarray(integers) == np.iinfo(np.int32).min).all()
    floats, integers = run(kernel, params=Params(uninitialized_memory="zero"), out=out, scratch_shapes=[BUFFER])
    assert not np.any(floats) and not np.any(integers)


def read_early(x_ref, o_ref, buffer_ref, semaphore):
    copy = pltpu.make_async_copy(x_ref, buffer_ref, semaphore)
    copy.start()  # the copy
    o_ref[...] = buffer_ref[...]  # the read
    copy.wait()


def test_destination_holds_nothing_before_the_wait():
    assert np.isnan(run(read_early, X, params=Params(), **COPIES)).all()
    np.testing.assert_array_equal(run(read_early, X, params=Params(dma_execution_mode="eager"), **COPIES), X)


def test_memory_of_a_scope_is_new_each_time():
    def kernel(o_ref):
        def step(i, total):
            def body(scratch_ref, semaphore):
                before = xnp.isnan(scratch_ref[0, 0]).astype("int32") + pl.semaphore_read(semaphore)
                scratch_ref[...] = xnp.ones((8, 128))
                return total + before

            return pl.run_scoped(body, BUFFER, REGULAR)

        o_ref[0] = lax.fori_loop(0, 3, step, 0)

    assert run(kernel, out=Spec((1,), "int32"))[0] == 3


def test_floating_point_operations_can_be_skipped():
    def kernel(x_ref, o_ref, p_ref):
        o_ref[...] = xnp.exp(x_ref[...])
        p_ref[0] = pl.program_id(0) + 7

    values, integers = run(kernel, X, params=Params(skip_floating_point_ops=True), out=(F32, Spec((1,), "int32")), grid=(1,))
    assert np.isposinf(values).all() and integers[0] == 7


# Mistakes


@pytest.mark.parametrize("mode", ["on_wait", "eager"])
def test_race_names_both_lines(mode):
    params = Params(detect_races=True, dma_execution_mode=mode)
    pattern = (f"read_early {at(read_early, 'def read_early')} has an error:\n- a race: the read of scratch_shapes.0. "
               f"{at(read_early, '# the read')} and the copy from args.0. to scratch_shapes.0. that starts "
               f"{at(read_early, '# the copy')} ")
    with pytest.raises(RuntimeError, match=pattern):
        run(read_early, X, params=params, **COPIES)
    f = pl.pallas_call(read_early, out_shape=F32, interpret=params, **COPIES)
    with pytest.raises(xf.errors.JaxRuntimeError, match="(?s)a race: the read of .*the copy from"):
        xf.block_until_ready(xf.jit(f)(X))
    with pytest.raises(xf.errors.JaxRuntimeError, match="(?s)a race: the read of .*the copy from"):
        xf.vmap(f)(X[None])


def test_race_can_warn():
    params = Params(detect_races=True, on_race="warn", dma_execution_mode="eager")
    with pytest.warns(UserWarning, match="a race: the read of"):
        np.testing.assert_array_equal(run(read_early, X, params=params, **COPIES), X)


def overwritten_source(x_ref, o_ref, buffer_ref, semaphore):
    buffer_ref[...] = x_ref[...]
    copy = pltpu.make_async_copy(buffer_ref, o_ref, semaphore)
    copy.start()  # 1
    buffer_ref[7] = xnp.zeros(128)  # 2
    copy.wait()


def shared_semaphore(x_ref, o_ref, buffer_ref, semaphore):
    first = pltpu.make_async_copy(x_ref.at[:4], buffer_ref.at[:4], semaphore)
    second = pltpu.make_async_copy(x_ref.at[4:], buffer_ref.at[4:], semaphore)
    first.start()  # 1
    second.start()
    first.wait()  # (one of the two has arrived)
    o_ref[:4] = buffer_ref[:4]  # 2
    second.wait()
    o_ref[4:] = buffer_ref[4:]


def copies_to_one_place(x_ref, o_ref, buffer_ref, semaphore):
    pltpu.make_async_copy(x_ref, buffer_ref, semaphore).start()  # 1
    pltpu.make_async_copy(x_ref.at[:1], buffer_ref.at[pl.ds(pl.program_id(0) + 3, 1)], semaphore).start()  # 2
    pltpu.make_async_copy(x_ref, buffer_ref, semaphore).wait()
    pltpu.make_async_copy(x_ref.at[:1], buffer_ref.at[:1], semaphore).wait()
    o_ref[...] = buffer_ref[...]


@pytest.mark.parametrize("kernel", [overwritten_source, shared_semaphore, copies_to_one_place])
def test_races(kernel):
    with pytest.raises(RuntimeError, match=f"{at(kernel, '# 2')} and the copy .* starts {at(kernel, '# 1')}"):
        main = {"out_specs": MAIN} if kernel is overwritten_source else {}
        run(kernel, X, grid=(1,), **COPIES | main | ({"in_specs": [pl.no_block_spec]} if main else {}))


def disjoint(x_ref, o_ref, buffer_ref, semaphore):
    buffer_ref[...] = x_ref[...] + 1
    i = pl.program_id(0)
    copy = pltpu.make_async_copy(x_ref.at[pl.ds(i, 4)], buffer_ref.at[pl.ds(i + 4, 4)], semaphore)
    copy.start()
    o_ref[pl.ds(i, 4)] = buffer_ref[pl.ds(i, 4)] + x_ref[:4]
    copy.wait()
    o_ref[4:] = buffer_ref[4:]


def strided(x_ref, o_ref, buffer_ref, semaphore):
    buffer_ref[...] = x_ref[...] + 1
    copy = pltpu.make_async_copy(x_ref.at[pl.ds(0, 4)], buffer_ref.at[pl.ds(1, 4, stride=2)], semaphore)
    copy.start()
    o_ref[pl.ds(0, 4)] = buffer_ref[pl.ds(0, 4, stride=2)]
    copy.wait()
    o_ref[4:] = buffer_ref[pl.ds(1, 4, stride=2)]


def test_no_race_of_separate_elements():
    np.testing.assert_array_equal(run(disjoint, X, grid=(1,), **COPIES), np.concatenate([2 * X[:4] + 1, X[:4]]))
    np.testing.assert_array_equal(run(strided, X, **COPIES), np.concatenate([X[::2] + 1, X[:4]]))


def never_waited(x_ref, o_ref, buffer_ref, semaphore):
    pltpu.make_async_copy(x_ref, buffer_ref, semaphore).start()  # here
    o_ref[...] = x_ref[...]


def never_waited_in_a_scope(x_ref, o_ref, buffer_ref, semaphore):
    pl.run_scoped(lambda scratch_ref: pltpu.make_async_copy(x_ref, scratch_ref, semaphore).start(), BUFFER)  # here
    pltpu.make_async_copy(x_ref, buffer_ref, semaphore).wait()


def another_size(x_ref, o_ref, buffer_ref, semaphore):
    pltpu.make_async_copy(x_ref, buffer_ref, semaphore).start()
    pltpu.make_async_copy(x_ref.at[:4], buffer_ref.at[:4], semaphore).wait()


def too_large(x_ref, o_ref, buffer_ref, semaphore):
    pltpu.make_async_copy(x_ref.at[:4], buffer_ref.at[:4], semaphore).start()
    pltpu.make_async_copy(x_ref, buffer_ref, semaphore).wait()  # here


def waits_without_signal(x_ref, o_ref, buffer_ref, semaphore):
    pl.semaphore_signal(semaphore, 2)
    pl.semaphore_wait(semaphore, 3)  # here


def left_over(x_ref, o_ref, buffer_ref, semaphore):
    pl.semaphore_signal(semaphore, 2)


def reads_beyond(x_ref, o_ref, buffer_ref, semaphore):
    o_ref[:4] = buffer_ref[pl.ds(pl.program_id(0) + 5, 4)]  # here


def writes_beyond(x_ref, o_ref, buffer_ref, semaphore):
    o_ref[pl.program_id(0) - 1] = xnp.zeros(128)  # here


def copies_beyond(x_ref, o_ref, buffer_ref, semaphore):
    pltpu.sync_copy(x_ref.at[pl.ds(pl.program_id(0) + 1, 8)], buffer_ref)  # here


def stores_beyond(x_ref, o_ref, buffer_ref, semaphore):
    i = pl.program_id(0)
    pltpu.store(o_ref.at[pl.ds(i + 5, 4)], buffer_ref[:4], mask=(xnp.arange(4) < 4)[:, None])  # here


@pytest.mark.parametrize("kernel, error, message", [
    (never_waited, RuntimeError, "the copy from args.0. to scratch_shapes.0. that starts {here}.* is never waited for"),
    (never_waited_in_a_scope, RuntimeError, "the copy from args.0. to memory of run_scoped {here} .*is never waited for"),
    (another_size, RuntimeError, "the semaphore scratch_shapes.1. is not zero at its end, but 2048"),
    (too_large, RuntimeError, "the wait for scratch_shapes.1. {here} never ends.*at 2048, and the wait is for 4096"),
    (waits_without_signal, RuntimeError, "the wait for scratch_shapes.1. {here} never ends.*at 2, and the wait is for 3"),
    (left_over, RuntimeError, "the semaphore scratch_shapes.1. is not zero at its end, but 2"),
    (reads_beyond, IndexError, "the read of scratch_shapes.0. {here} is out of bounds .at index .0,..*: .* 0 it starts at 5"),
    (writes_beyond, IndexError, "the write to outputs {here} is out of bounds .*in dimension 0 it starts at -1"),
    (copies_beyond, IndexError, "the read of args.0. {here} is out of bounds"),
    (stores_beyond, IndexError, "the write to outputs {here} is out of bounds")])
@pytest.mark.parametrize("mode", ["on_wait", "eager"])
def test_mistakes(kernel, error, message, mode):
    here = at(kernel, "# here") if "{here}" in message else ""
    scratch = [BUFFER, REGULAR if kernel in (waits_without_signal, left_over) else DMA]
    with pytest.raises(error, match=message.format(here=here)):
        run(kernel, X, params=Params(dma_execution_mode=mode, detect_races=mode == "eager"), grid=(1,), in_specs=[MAIN],
            scratch_shapes=scratch)


def test_reads_out_of_bounds_can_be_uninitialized():
    def kernel(x_ref, o_ref, buffer_ref, semaphore):
        buffer_ref[...] = x_ref.at[:, :][...]
        o_ref[...] = buffer_ref[pl.ds(pl.program_id(0) + 5, 8)]

    found = np.asarray(run(kernel, X, params=Params(out_of_bounds_reads="uninitialized"), grid=(1,), in_specs=[ROWS],
                           scratch_shapes=COPIES["scratch_shapes"]))
    np.testing.assert_array_equal(found[:3], X[5:])
    assert np.isnan(found[3:]).all()


def test_padded_bounds():
    def kernel(o_ref, scratch_ref):
        i = pl.program_id(0)
        scratch_ref[pl.ds(i + 4, 8)] = xnp.arange(8.0)[:, None] + xnp.zeros(128)
        o_ref[...] = scratch_ref[pl.ds(i + 2, 8)]

    found = run(kernel, params=Params(buffer_bounds="padded"), grid=(1,), scratch_shapes=[pltpu.VMEM((9, 128), "float32")])
    np.testing.assert_array_equal(found[:, 0], [np.nan, np.nan, 0, 1, 2, 3, 4, np.nan])


def add_rows(x_ref, o_ref):
    o_ref[...] = x_ref[...] + o_ref[...]


def test_blocks():
    x, out = np.ones((16, 128), np.float32), {"out": Spec((16, 128), "float32"), "out_specs": ROWS}
    with pytest.raises(IndexError, match=r"index map of args\[0\] returns a block .*\(at index \(1,\) .*: 2 in dimension 0"):
        run(add_rows, x, grid=2, in_specs=[pl.BlockSpec((8, 128), lambda i: (2 * i, 0))], **out)
    with pytest.raises(RuntimeError, match=r"comes back to a block of outputs \(at index \(1, 0\) of the grid\)"):
        run(add_rows, x, grid=(2, 2), in_specs=[pl.BlockSpec((8, 128), lambda k, i: (i, 0))],
            **out | {"out_specs": pl.BlockSpec((8, 128), lambda k, i: (i, 0))})

    def leaves(x_ref, o_ref, buffer_ref, semaphore):
        copy = pltpu.make_async_copy(x_ref, buffer_ref, semaphore)
        pl.when(pl.program_id(0) == 0)(copy.start)
        pl.when(pl.program_id(0) == 1)(copy.wait)

    with pytest.raises(RuntimeError, match=r"the copy .* is not waited for in the step of the grid \(at index \(0,\)"):
        run(leaves, x, grid=2, in_specs=[ROWS], scratch_shapes=COPIES["scratch_shapes"], **out)


def test_main_memory_in_a_scope():
    def kernel(o_ref):
        pl.run_scoped(lambda scratch_ref: pltpu.sync_copy(scratch_ref, o_ref), pltpu.HBM((8, 128), "float32"))

    with pytest.raises(ValueError, match="has memory in HBM.*allow_hbm_allocation_in_run_scoped"):
        run(kernel)
    assert np.isnan(run(kernel, params=Params(allow_hbm_allocation_in_run_scoped=True))).all()


# The order of the grid, and cores


def number_of_step(x_ref, o_ref, count_ref):
    pl.when(xnp.isnan(count_ref[0, 0]))(lambda: count_ref.__setitem__(Ellipsis, xnp.zeros((8, 128))))
    o_ref[...] = x_ref[...] + count_ref[...]
    count_ref[...] += 1


def test_order_and_cores():
    points = []
    x = np.repeat(np.arange(0, 50, 10, dtype=np.float32), 8)[:, None] * np.ones(128, np.float32)
    options = {"out": Spec((40, 128), "float32"), "grid": 5, "in_specs": [ROWS], "out_specs": ROWS, "scratch_shapes": [BUFFER]}

    def recorded(**params):
        points.clear()
        given = Params(grid_point_recorder=lambda run, point, core: points.append((*map(int, point), int(core))), **params)
        return np.asarray(run(number_of_step, x, params=given, compiler_params=PARALLEL, **options))[::8, 0].tolist()

    assert recorded() == [0, 11, 22, 33, 44] and points == [(i, 0) for i in range(5)]
    found = recorded(random_seed=5)
    order = [i for i, _ in points]
    assert order != sorted(order) and sorted(order) == list(range(5))
    assert found == [10 * i + order.index(i) for i in range(5)]
    assert recorded(num_cores_or_threads=2) == [0, 11, 22, 30, 41]  # each core has scratch memory of its own
    assert points == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)]


def test_race_of_cores():
    x = np.ones((32, 128), np.float32)
    options = {"grid": 4, "in_specs": [ROWS], "params": Params(detect_races=True, num_cores_or_threads=2),
               "out_specs": pl.BlockSpec((8, 128), lambda i: (0, 0))}
    with pytest.raises(RuntimeError, match=r"core 0 and core 1 both write a block of outputs \(at index \(2,\)"):
        run(lambda x_ref, o_ref: o_ref.__setitem__(Ellipsis, x_ref[...]), x, compiler_params=PARALLEL, **options)
    run(lambda x_ref, o_ref: o_ref.__setitem__(Ellipsis, x_ref[...]), x, **options)  # without a parallel axis: one core
    with pytest.raises(NotImplementedError, match="first axis of the grid"):
        run(lambda x_ref, o_ref: None, x, params=options["params"], grid=(2, 2), compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary", "parallel")))


# Devices


def test_simulation_on_each_device():
    devices = xf.devices()[:2]

    def kernel(device_ref, x_ref, o_ref, buffer_ref, semaphore):
        copy = pltpu.make_async_copy(x_ref, buffer_ref, semaphore)
        copy.start()
        pl.when(device_ref[0] == 1)(lambda: o_ref.__setitem__(Ellipsis, buffer_ref[...]))
        copy.wait()
        o_ref[...] = 2 * buffer_ref[...]

    f = pl.pallas_call(kernel, out_shape=F32, interpret=Params(detect_races=True), scratch_shapes=[BUFFER, DMA],
                       in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), MAIN])
    mesh = xf.sharding.Mesh(np.array(devices), ("x",))
    rows = xf.P("x")
    mapped = xf.jit(xf.shard_map(f, mesh=mesh, in_specs=rows, out_specs=rows))
    x = np.concatenate([X] * len(devices))
    np.testing.assert_array_equal(mapped(np.zeros(len(devices), np.int32), x), 2 * x)
    with pytest.raises(xf.errors.JaxRuntimeError, match="a race"):
        xf.block_until_ready(mapped(np.arange(len(devices), dtype=np.int32) + (len(devices) == 1), x))


# Parameters


def test_parameters():
    assert Params() == Params(detect_races=False) and hash(Params()) == hash(Params())
    for name, value in (("on_race", "log"), ("dma_execution_mode", "later"), ("uninitialized_memory", 0),
                        ("out_of_bounds_reads", "clamp"), ("buffer_bounds", None)):
        with pytest.raises(ValueError, match=f"InterpretParams takes {name} as '"):
            Params(**{name: value})
    with pytest.raises(ValueError, match="num_cores_or_threads as a positive integer"):
        Params(num_cores_or_threads=0)
    for function in (pltpu.force_tpu_interpret_mode, pltpu.set_tpu_interpret_mode):
        with pytest.raises(TypeError, match="takes pltpu.InterpretParams"):
            function(True)


def test_forced_simulation():
    f = xf.jit(pl.pallas_call(read_early, out_shape=F32, **COPIES))
    with pltpu.force_tpu_interpret_mode():
        assert np.isnan(f(X)).all()
    with pltpu.force_tpu_interpret_mode(Params(dma_execution_mode="eager")):
        np.testing.assert_array_equal(f(X), X)
    pltpu.set_tpu_interpret_mode(Params(uninitialized_memory="zero"))
    try:
        assert not np.any(f(X))
    finally:
        pltpu.set_tpu_interpret_mode(None)
    with pytest.raises(ValueError, match="interpret"):
        f(X)
    pltpu.reset_tpu_interpret_mode_state()


def test_functions_are_not_retraced_unless_simulation_is_forced():
    program = """if True:
        import xlafront as xf
        traces = []
        f = xf.jit(lambda x: traces.append(x) or x)
        f(1.0)
        from xlafront.experimental import pallas as pl
        pl.tpu.set_tpu_interpret_mode(None)
        pl.pallas_call(lambda x_ref, o_ref: None, out_shape=xf.ShapeDtypeStruct((), "float32"), interpret=True)(1.0)
        f(1.0)
        print(len(traces))"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "1"


def test_races_are_found_quickly():
    """A product in 512 steps takes under a second with race detection, with blocks and with copies."""
    def product(x_ref, y_ref, o_ref, sum_ref, a_ref, b_ref, semaphores):
        i, j, k = [pl.program_id(d) for d in range(3)]
        copies = [pltpu.make_async_copy(x_ref.at[pl.ds(8 * i, 8), pl.ds(8 * k, 8)], a_ref, semaphores.at[0]),
                  pltpu.make_async_copy(y_ref.at[pl.ds(8 * k, 8), pl.ds(8 * j, 8)], b_ref, semaphores.at[1])]
        for copy in copies:
            copy.start()
        pl.when(k == 0)(lambda: sum_ref.__setitem__(Ellipsis, xnp.zeros((8, 8))))
        for copy in copies:
            copy.wait()
        sum_ref[...] += a_ref[...] @ b_ref[...]
        o_ref[...] = sum_ref[...]

    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    scratch = [pltpu.VMEM((8, 8), "float32")] * 3
    f = xf.jit(pl.pallas_call(
        product, out_shape=Spec((64, 64), "float32"), grid=(8, 8, 8), in_specs=[MAIN, MAIN], interpret=Params(detect_races=True),
        out_specs=pl.BlockSpec((8, 8), lambda i, j, k: (i, j)), scratch_shapes=[*scratch, pltpu.SemaphoreType.DMA((2,))]))
    np.testing.assert_allclose(f(x, x), x @ x, rtol=1e-4, atol=1e-4)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        xf.block_until_ready(f(x, x))
        times.append(time.perf_counter() - started)
    assert min(times) < 1


def test_masks_of_index_arrays():
    """Positions beyond the end are masked; one that is not is reported."""
    def kernel(end):
        def body(x_ref, o_ref):
            positions = 8 * pl.program_id(0) + xnp.arange(8)
            o_ref[...] = triton.load(x_ref.at[positions], mask=(positions < end)[:, None], other=0.0)

        return pl.pallas_call(body, out_shape=xf.ShapeDtypeStruct((16, 4), "float32"), grid=2, interpret=Params(),
                              out_specs=pl.BlockSpec((8, 4), lambda i: (i, 0)))

    x = np.arange(52, dtype=np.float32).reshape(13, 4)
    np.testing.assert_array_equal(kernel(13)(x), np.pad(x, ((0, 3), (0, 0))))
    with pytest.raises(IndexError, match=r"the read of args\[0\] .* is out of bounds \(at index \(1,\)"):
        kernel(14)(x)


def test_errors_of_jitted_kernels_have_no_internal_frames():
    def kernel(x_ref, o_ref, signaled):
        pl.semaphore_wait(signaled)

    call = pl.pallas_call(kernel, out_shape=F32, scratch_shapes=[REGULAR], interpret=Params())
    with pytest.raises(RuntimeError, match="the wait for .* never ends") as caught:
        xf.jit(call)(np.ones((8, 128), np.float32)).block_until_ready()
    assert "xlafront/" not in str(caught.value).replace(__file__, "")


def test_no_reverse_mode():
    def kernel(x_ref, o_ref, copied):
        pltpu.async_copy(x_ref, o_ref, copied).wait()

    call = pl.pallas_call(kernel, out_shape=F32, in_specs=[MAIN], out_specs=MAIN, scratch_shapes=[DMA], interpret=Params())
    with pytest.raises(NotImplementedError, match=r"is simulated \(InterpretParams\). Use interpret=True, or give it a derivative"):
        xf.grad(lambda x: call(x).sum())(xnp.ones((8, 128)))


# Several devices


@pytest.mark.parametrize("name", tpu_kernels.DEVICE_KERNELS)
def test_kernels_of_several_devices_have_no_races(name):
    case = tpu_kernels.DEVICE_KERNELS[name]
    found = xf.jit(case.sharded(Params(detect_races=True), xf.devices()[:4])[0])(*case.arguments())
    np.testing.assert_allclose(found, case.expected(*case.arguments()), rtol=case.tolerance, atol=case.tolerance)


def ring(mistake):
    """Partial sums go around between two buffers; the receiver signals that one is free."""
    def kernel(x_ref, o_ref, buffer_ref, send, receive, free):
        me, left, right = tpu_kernels.neighbours("x")
        tpu_kernels.meet(left, right)
        pl.semaphore_signal(free, 1, device_id={"x": left})
        buffer_ref[0] = x_ref[...]  # first

        @pl.loop(0, 3)
        def _(step):
            here, there = lax.rem(step, 2), lax.rem(step + 1, 2)
            if mistake != "no handshake":
                pl.semaphore_wait(free)
            copy = pltpu.async_remote_copy(buffer_ref.at[here], buffer_ref.at[there], send, receive.at[there], {"x": right})  # starts
            if mistake == "source":
                buffer_ref[here] = xnp.zeros((8, 128))  # overwritten
            copy.wait_send()
            if mistake == "destination":
                o_ref[...] = buffer_ref[there]  # early
            copy.wait_recv()  # arrived
            buffer_ref[there] += x_ref[...]
            if mistake != "no signal":
                pl.when(step < 2)(lambda: pl.semaphore_signal(free, 1, device_id={"x": left}))

        if mistake == "no handshake":
            pl.semaphore_wait(free, 3)
        o_ref[...] = buffer_ref[1]

    def call(x):
        return pl.pallas_call(kernel, out_shape=F32, interpret=Params(detect_races=True), scratch_shapes=[
            pltpu.VMEM((2, 8, 128), "float32"), DMA, DMA((2,)), REGULAR], compiler_params=pltpu.CompilerParams(collective_id=1))(x)

    mesh = xf.sharding.Mesh(np.array(xf.devices()[:4]), ("x",))
    return kernel, xf.jit(xf.shard_map(call, mesh=mesh, in_specs=xf.P("x"), out_specs=xf.P("x")))


def test_a_ring_without_races():
    x = np.random.default_rng(0).normal(size=(32, 128)).astype(np.float32)
    expected = np.tile(x.reshape(4, 8, 128).sum(0), (4, 1))
    np.testing.assert_allclose(ring(None)[1](x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mistake, text", [
    ("no handshake", r"a race between devices: the write to scratch_shapes\[0\] {first} and the copy from scratch_shapes\[0\] to scratch_shapes"
     r"\[0\] that starts {starts} from device \d can happen in either order\. Let each device signal the sender"),
    ("source", r"a race: the write to scratch_shapes\[0\] {overwritten} and the copy from .* {starts} can happen in either order"),
    ("destination", r"a race: the read of scratch_shapes\[0\] {early} and the copy from .* {starts} can happen in either order"),
    ("no signal", r"the wait for scratch_shapes\[3\] .* never ends")])
def test_races_between_devices(mistake, text):
    kernel, function = ring(mistake)
    with pytest.raises(RuntimeError, match="(?s)" + text.format(**{name: at(kernel, f"# {name}") for name in (
            "first", "overwritten", "early", "starts")})):
        function(np.ones((32, 128), np.float32)).block_until_ready()
        xf.effects_barrier()
