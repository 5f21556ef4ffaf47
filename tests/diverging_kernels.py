"""Kernels for TPUs whose devices take different branches: some send, others receive, or the number of signals differs.

The tests interpret and simulate them, run their modules by `mosaic_evaluator`, compile them, and compare with NumPy.
"""

import numpy as np
import tpu_kernels
from tpu_kernels import DMA, F32, REGULAR, Spec, neighbours, numbers

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu

COUNT = 4  # of devices
BLOCK = pltpu.VMEM((8, 128), F32)

DIVERGING_KERNELS: dict[str, tpu_kernels.OnDevices] = {}


def diverging(expected, *scratch):
    """Decorator that adds a kernel, whose `expected` computes the blocks of all devices from those of the arguments."""
    def add(body):
        def call(interpret):
            return pl.pallas_call(body, out_shape=Spec((8, 128), F32), scratch_shapes=scratch, interpret=interpret,
                                  compiler_params=pltpu.CompilerParams(collective_id=1))

        DIVERGING_KERNELS[body.__name__] = tpu_kernels.OnDevices(
            call, {"x": COUNT}, lambda: (numbers(COUNT * 8, 128),),
            lambda x: np.concatenate(expected(list(x.reshape(COUNT, 8, 128)))), 1e-5)
        return body

    return add


def meet_all():
    """Wait until all devices have started."""
    barrier = pltpu.get_barrier_semaphore()
    for device in range(COUNT):
        pl.semaphore_signal(barrier, device_id={"x": device})
    pl.semaphore_wait(barrier, COUNT)


@diverging(lambda x: [x[0]] * COUNT, BLOCK, DMA, DMA)
def broadcast_from_the_first(x_ref, o_ref, buffer_ref, send, receive):
    """The branch that receives comes first in the program."""
    me = lax.axis_index("x")
    meet_all()

    def copy(device):
        return pltpu.make_async_remote_copy(x_ref, buffer_ref, send, receive, {"x": device})

    @pl.when(me != 0)
    def _():
        copy(0).wait_recv()
        o_ref[...] = buffer_ref[...]

    @pl.when(me == 0)
    def _():
        for device in range(1, COUNT):
            copy(device).start()
        for device in range(1, COUNT):
            copy(device).wait_send()
        o_ref[...] = x_ref[...]


@diverging(lambda x: [x[0] + i for i in range(COUNT)], BLOCK, DMA, DMA)
def chain_of_copies(x_ref, o_ref, buffer_ref, send, receive):
    """Each device passes on what it has received, but the last."""
    me = lax.axis_index("x")
    pl.when(me == 0)(lambda: buffer_ref.__setitem__(..., x_ref[...]))
    meet_all()
    copy = pltpu.make_async_remote_copy(buffer_ref, buffer_ref, send, receive, {"x": lax.rem(me + 1, COUNT)})
    pl.when(me > 0)(copy.wait_recv)

    @pl.when(me < COUNT - 1)
    def _():
        copy.start()
        copy.wait_send()

    o_ref[...] = buffer_ref[...] + me.astype(F32)


@diverging(lambda x: [x[0] + x[1] + x[2] + x[3], x[1], x[2] + x[3], x[3]], pltpu.VMEM((2, 8, 128), F32), DMA, DMA((2,)))
def tree_of_sums(x_ref, o_ref, buffer_ref, send, receive):
    """Half of the devices send to the others, and then half of these."""
    me = lax.axis_index("x")
    meet_all()
    o_ref[...] = x_ref[...]
    for level, distance in enumerate((1, 2)):
        copy = pltpu.make_async_remote_copy(o_ref, buffer_ref.at[level], send, receive.at[level],
                                            {"x": lax.max(me - distance, 0)})

        @pl.when(lax.rem(me, 2 * distance) == distance)
        def _(copy=copy):
            copy.start()
            copy.wait_send()

        @pl.when(lax.rem(me, 2 * distance) == 0)
        def _(copy=copy, level=level):
            copy.wait_recv()
            o_ref[...] += buffer_ref[level]


@diverging(lambda x: [10 * x[0], x[0], 10 * x[2], x[2]], DMA, DMA)
def even_devices_send(x_ref, o_ref, send, receive):
    me, _, right = neighbours("x")
    meet_all()
    copy = pltpu.make_async_remote_copy(x_ref, o_ref, send, receive, (right,))

    def sends():
        copy.start()
        o_ref[...] = 10 * x_ref[...]
        copy.wait_send()

    lax.cond(lax.rem(me, 2) == 0, sends, copy.wait_recv)


@diverging(lambda x: [x[0] + x[1], x[0] + x[1] + x[2], x[1] + x[2] + x[3], x[2] + x[3]], pltpu.VMEM((2, 8, 128), F32),
           DMA((2,)), DMA((2,)))
def neighbours_without_wraparound(x_ref, o_ref, buffer_ref, send, receive):
    me = lax.axis_index("x")
    buffer_ref[...] = xnp.zeros((2, 8, 128), F32)
    meet_all()
    has_right, has_left = me < COUNT - 1, me > 0
    to_right, to_left = [pltpu.make_async_remote_copy(x_ref, buffer_ref.at[i], send.at[i], receive.at[i], {"x": device})
                         for i, device in enumerate((lax.min(me + 1, COUNT - 1), lax.max(me - 1, 0)))]
    pl.when(has_right)(to_right.start)
    pl.when(has_left)(to_left.start)

    @pl.when(has_right)
    def _():
        to_right.wait_send()
        to_left.wait_recv()

    @pl.when(has_left)
    def _():
        to_left.wait_send()
        to_right.wait_recv()

    o_ref[...] = x_ref[...] + buffer_ref[0] + buffer_ref[1]


@diverging(lambda x: [x[i] + i for i in range(COUNT)], REGULAR)
def signals_as_many_as_the_index(x_ref, o_ref, arrived):
    """Each device signals the first as often as its index says; the first waits for all."""
    me = lax.axis_index("x")
    meet_all()

    def signal(i, total):
        pl.semaphore_signal(arrived, device_id={"x": 0})
        return total + 1

    total = lax.fori_loop(0, me, signal, np.int32(0))
    pl.when(me == 0)(lambda: pl.semaphore_wait(arrived, COUNT * (COUNT - 1) // 2))
    o_ref[...] = x_ref[...] + total.astype(F32)


@diverging(lambda x: [6 * x[0]] * COUNT, BLOCK, DMA, DMA, REGULAR)
def chain_of_three_blocks(x_ref, o_ref, buffer_ref, send, receive, free):
    """Blocks go along the chain through one buffer; the receiver signals that it is free."""
    me = lax.axis_index("x")
    o_ref[...] = xnp.zeros((8, 128), F32)
    meet_all()
    copy = pltpu.make_async_remote_copy(buffer_ref, buffer_ref, send, receive, {"x": lax.min(me + 1, COUNT - 1)})

    @pl.loop(0, 3)
    def _(i):
        @pl.when(me == 0)
        def _():
            buffer_ref[...] = x_ref[...] * (i + 1).astype(F32)

        pl.when(me > 0)(copy.wait_recv)
        o_ref[...] += buffer_ref[...]

        @pl.when(me < COUNT - 1)
        def _():
            pl.when(i > 0)(lambda: pl.semaphore_wait(free))
            copy.start()
            copy.wait_send()

        @pl.when((me > 0) & (i < 2))
        def _():
            pl.semaphore_signal(free, device_id={"x": lax.max(me - 1, 0)})
