"""Kernels whose devices signal, copy and wait in different branches, interpreted and simulated. `test_mosaic` runs their modules."""

import re

import numpy as np
import pytest
from diverging_kernels import DIVERGING_KERNELS

import xlafront as xf
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu
from xlafront.sharding import Mesh, PartitionSpec as P

pytestmark = pytest.mark.cpu_only  # several devices
DMA, REGULAR, Params = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR, pltpu.InterpretParams
X = np.arange(16, dtype=np.float32)


def check(name, interpret):
    case = DIVERGING_KERNELS[name]
    found = xf.jit(case.sharded(interpret, xf.devices()[:4])[0])(*case.arguments())
    np.testing.assert_allclose(found, case.expected(*case.arguments()), rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.parametrize("name", DIVERGING_KERNELS)
def test_values_of_simulated_kernels(name):
    check(name, Params())


@pytest.mark.parametrize("name", ["tree_of_sums", "chain_of_three_blocks"])
def test_diverging_kernels_have_no_races(name):
    check(name, Params(detect_races=True))


def on_devices(body, *scratch, interpret=True, **options):
    """Run a kernel on 4 devices, each with 4 of the numbers X."""
    call = pl.pallas_call(body, out_shape=xf.ShapeDtypeStruct((4,), "float32"), scratch_shapes=scratch, interpret=interpret, **options)
    return xf.shard_map(call, mesh=Mesh(np.array(xf.devices()[:4]), ("x",)), in_specs=P("x"), out_specs=P("x"))(X)


def test_steps_of_a_grid():
    """In step i of the grid, device i sends to all others."""
    def kernel(x_ref, o_ref, buffer_ref, send, receive):
        me, step = lax.axis_index("x"), pl.program_id(0)

        def copy(device):
            return pltpu.make_async_remote_copy(x_ref, buffer_ref, send, receive, {"x": device})

        @pl.when(me == step)
        def _():
            for distance in (1, 2, 3):
                copy(lax.rem(me + distance, 4)).start()
                copy(me).wait_send()

        pl.when(me != step)(copy(me).wait_recv)
        pl.when(step == 0)(lambda: o_ref.__setitem__(..., x_ref[...] * 0))
        o_ref[...] += lax.select(me == step, x_ref[...], buffer_ref[...]) * (step + 1).astype("float32")

    found = on_devices(kernel, pltpu.VMEM((4,), "float32"), DMA, DMA, grid=(4,))
    np.testing.assert_array_equal(found, np.tile((X.reshape(4, 4) * np.arange(1, 5)[:, None]).sum(0), 4))


def test_numbers_of_copies_that_memory_decides():
    """Each device sends to its right neighbour as many parts as its first number says, in memory of a scope."""
    def kernel(x_ref, o_ref, sent):
        me = lax.axis_index("x")
        right, left = lax.rem(me + 1, 4), lax.rem(me + 3, 4)

        @pl.with_scoped(pltpu.VMEM((4,), "float32"), DMA, DMA)
        def exchange(buffer_ref, send, receive):
            buffer_ref[...] = x_ref[...] * 0

            def copy(i):
                return pltpu.make_async_remote_copy(x_ref.at[pl.ds(i, 1)], buffer_ref.at[pl.ds(i, 1)], send, receive, (right,))

            lax.fori_loop(0, (x_ref[0] / 4).astype("int32") + 1, lambda i, _: copy(i).start(), None)
            lax.fori_loop(0, (x_ref[0] / 4).astype("int32") + 1, lambda i, _: copy(i).wait_send(), None)
            lax.fori_loop(0, left + 1, lambda i, _: copy(i).wait_recv(), None)
            o_ref[...] = buffer_ref[...]

        exchange()

    expected = np.roll(X.reshape(4, 4) * (np.arange(4) <= np.arange(4)[:, None]), 1, 0)
    for interpret in (True, Params()):
        np.testing.assert_array_equal(on_devices(kernel, REGULAR, interpret=interpret), expected.reshape(-1))


def test_waits_that_never_end():
    """Interpreted kernels ignore the wait; a simulation reports the wait with its line."""
    def kernel(x_ref, o_ref, signaled):
        pl.when(lax.axis_index("x") == 0)(lambda: pl.semaphore_signal(signaled, device_id={"x": 1}))
        pl.when(lax.axis_index("x") < 2)(lambda: pl.semaphore_wait(signaled))  # the first waits
        o_ref[...] = x_ref[...]

    line = kernel.__code__.co_firstlineno + 2
    np.testing.assert_array_equal(on_devices(kernel, REGULAR), X)
    with pytest.raises(RuntimeError, match=rf"the wait for scratch_shapes\[0\] at .*{re.escape(__file__.rsplit('/', 1)[1])}:{line} never ends: "
                                           "the semaphore is at 0, and the wait is for 1"):
        on_devices(kernel, REGULAR, interpret=Params()).block_until_ready()
        xf.effects_barrier()


def test_copies_count_elements():
    """As interpreted in JAX: one wait for a large copy is one for several small ones."""
    def kernel(x_ref, o_ref, copied):
        copies = [pltpu.async_copy(x_ref.at[pl.ds(i, 2)], o_ref.at[pl.ds(i, 2)], copied) for i in (0, 2)]
        o_ref[0] += pl.semaphore_read(copied)
        pltpu.make_async_copy(x_ref, o_ref, copied).wait()
        o_ref[1] = pl.semaphore_read(copied).astype("float32")
        del copies

    call = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((4,), "float32"), scratch_shapes=[DMA], interpret=True)
    np.testing.assert_array_equal(call(X[4:8]), [8, 0, 6, 7])


def test_no_reverse_mode():
    def kernel(x_ref, o_ref, signaled):
        pl.when(lax.axis_index("x") == 0)(lambda: pl.semaphore_signal(signaled, device_id={"x": 1}))
        pl.when(lax.axis_index("x") == 1)(lambda: pl.semaphore_wait(signaled))
        o_ref[...] = x_ref[...]

    call = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((4,), "float32"), scratch_shapes=[REGULAR], interpret=True)
    f = xf.shard_map(call, mesh=Mesh(np.array(xf.devices()[:4]), ("x",)), in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(NotImplementedError, match="kernel at .* cannot be differentiated in reverse mode, since it waits for other devices"):
        xf.grad(lambda x: f(x).sum())(X)


def raises_when_simulated(message, kernel, *scratch):
    with pytest.raises(RuntimeError, match=message):
        on_devices(kernel, *scratch, interpret=Params(), compiler_params=pltpu.CompilerParams(collective_id=0)).block_until_ready()
        xf.effects_barrier()


@pytest.mark.parametrize("distance, device", [(1, 4), (-1, -1)])
def test_devices_that_the_mesh_does_not_have(distance, device):
    def copies(x_ref, o_ref, send, receive):
        sender, device = lax.axis_index("x") - distance, lax.axis_index("x") + distance
        copy = pltpu.async_remote_copy(x_ref, o_ref, send, receive, (device,))
        copy.wait_send()
        pl.when((sender >= 0) & (sender < 4))(copy.wait_recv)

    def signals(x_ref, o_ref, signaled):
        sender = lax.axis_index("x") - distance
        pl.semaphore_signal(signaled, device_id=(lax.axis_index("x") + distance,))
        pl.when((sender >= 0) & (sender < 4))(lambda: pl.semaphore_wait(signaled))

    text = rf"at .*test_device_threads.py:\d+ is to device {device}, and the mesh has 4 devices"
    raises_when_simulated(rf"the copy from args\[0\] to outputs {text}", copies, DMA, DMA)
    raises_when_simulated(rf"the signal of scratch_shapes\[0\] {text}", signals, REGULAR)


def test_barriers_that_are_never_reached():
    def waits(x_ref, o_ref):
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, device_id=(0,))
        pl.semaphore_wait(barrier, 4)

    def leaves_signals(x_ref, o_ref):
        pl.semaphore_signal(pltpu.get_barrier_semaphore(), device_id=(0,))

    raises_when_simulated(r"wait for get_barrier_semaphore\(\) at .* never ends: the semaphore is at 0, and the wait is for 4", waits)
    raises_when_simulated(r"the semaphore get_barrier_semaphore\(\) is not zero at its end, but 4", leaves_signals)
