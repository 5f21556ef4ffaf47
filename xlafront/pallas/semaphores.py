"""Semaphores, and asynchronous copies between memories that signal them.

In interpreted kernels everything is sequential: a copy is made when it is started, and waiting returns at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import errors
from xlafront.core.avals import ShapedArray
from xlafront.core.refs import AbstractRef
from xlafront.core.traceback_filter import boundary
from xlafront.lax import refs as ref_operations
from xlafront.pallas.kernel_functions import run_scoped
from xlafront.pallas.kernel_operation import flatten_views, is_ref_or_view, kernel_operation, view_effects, views_of
from xlafront.pallas.primitives import index_aval
from xlafront.pallas.specs import DeviceIdType, Memory, MemoryRef


class SemaphoreType(Memory):
    """A kind of semaphore, which counts signals of threads, of copies, or of a barrier.

    A member describes one semaphore, and is the memory that it is in. Call it to describe several:
    `pltpu.SemaphoreType.DMA((2,))`.

    Args:
        value: "regular", "dma" or "barrier".

    Example:
        >>> pl.tpu.SemaphoreType.DMA((2,)).shape
        (2,)
    """

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    def __str__(self) -> str:
        return "semaphore_mem"

    def __call__(self, shape: Sequence[int]) -> MemoryRef:  # type: ignore[override]  # the dtype is that of the count
        return MemoryRef(ShapedArray(tuple(shape), np.dtype(np.int32)), self)

    zeroed = property(lambda self: True, doc="True, since the memory is zero-initialized.")

    dtype = property(lambda self: self.get_array_aval().dtype, doc="The dtype of the count.")

    def get_array_aval(self) -> ShapedArray:
        """Return the type of the count."""
        return self(()).get_array_aval()

    def get_ref_aval(self) -> AbstractRef:
        """Return the type of references to one semaphore."""
        return self(()).get_ref_aval()


# The primitives. Their operands are those of views (`flatten_views`), and the value or increment.


def _signal(*operands, views):
    [semaphore], [increment] = views_of(operands, views)
    ref_operations.addupdate(semaphore, ..., increment)


def _wait(*operands, views, decrement):
    [semaphore], [value] = views_of(operands, views)
    if decrement:
        ref_operations.addupdate(semaphore, ..., -value)


def _read(*operands, views):
    [semaphore], _ = views_of(operands, views)
    return ref_operations.get(semaphore)


def _start_dma(*operands, views, priority, add):
    [source, target, semaphore], _ = views_of(operands, views)
    (ref_operations.addupdate if add else ref_operations.set)(target, ..., ref_operations.get(source))
    ref_operations.addupdate(semaphore, ..., np.int32(1))


def _wait_dma(*operands, views):
    [_, _, semaphore], _ = views_of(operands, views)
    ref_operations.addupdate(semaphore, ..., np.int32(-1))


semaphore_signal_p = kernel_operation("semaphore_signal", _signal, effects=view_effects("w"))
semaphore_wait_p = kernel_operation("semaphore_wait", _wait, effects=view_effects("w"))
semaphore_read_p = kernel_operation("semaphore_read", _read, abstract=lambda *_, views: index_aval, effects=view_effects("r"))
dma_start_p = kernel_operation("dma_start", _start_dma, effects=view_effects("rww"))
dma_wait_p = kernel_operation("dma_wait", _wait_dma, effects=view_effects("rrw"))


def _semaphore(caller: str, x: Any) -> Any:
    if is_ref_or_view(x):
        if x.shape:
            raise ValueError(f"{caller} takes one semaphore, got {x.shape[0]} of them: name one with sem.at[i].")
        return x
    raise TypeError(f"{caller} takes a semaphore, as scratch_shapes=[pltpu.SemaphoreType.REGULAR] gives one to the kernel, got "
                    f"{errors.short(x)}.")


def _count(x: Any) -> Any:
    return np.int32(x) if isinstance(x, int) else x


@boundary
def semaphore_signal(sem_or_view: Any, inc: Any = 1, *, device_id: Any = None,
                     device_id_type: DeviceIdType = DeviceIdType.MESH, core_index: Any = None) -> None:
    """Increment the count of a semaphore.

    Args:
        sem_or_view: The semaphore.
        inc: The increment.
        device_id: Another device that has the semaphore. Default: this device.
        device_id_type: Form of `device_id`: coordinates in a mesh, or a logical id.
        core_index: Core that has the semaphore.

    Example:
        >>> def kernel(o_ref, sem_ref):
        ...     pl.semaphore_signal(sem_ref)
    """
    if device_id is not None:
        raise NotImplementedError("semaphore_signal of another device is for kernels that are compiled for TPUs, which is not "
                                  "possible yet. Communicate outside of kernels, for example with lax.ppermute.")
    operands, views = flatten_views([_semaphore("semaphore_signal", sem_or_view)])
    semaphore_signal_p.bind(*operands, _count(inc), views=views)


@boundary
def semaphore_wait(sem_or_view: Any, value: Any = 1, *, decrement: bool = True) -> None:
    """Wait until the count of a semaphore has reached a value, and subtract the value from the count.

    Args:
        sem_or_view: The semaphore.
        value: The value.
        decrement: If False, leave the count unchanged.

    Example:
        >>> def kernel(o_ref, sem_ref):
        ...     pl.semaphore_signal(sem_ref)
        ...     pl.semaphore_wait(sem_ref)
    """
    operands, views = flatten_views([_semaphore("semaphore_wait", sem_or_view)])
    semaphore_wait_p.bind(*operands, _count(value), views=views, decrement=bool(decrement))


@boundary
def semaphore_read(sem_or_view: Any) -> Any:
    """Read the count of a semaphore.

    Args:
        sem_or_view: The semaphore.

    Returns:
        The count, an int32 scalar.

    Example:
        >>> def kernel(o_ref, sem_ref):
        ...     o_ref[0] = pl.semaphore_read(sem_ref)
    """
    operands, views = flatten_views([_semaphore("semaphore_read", sem_or_view)])
    return semaphore_read_p.bind(*operands, views=views)


class AsyncCopyDescriptor:
    """An asynchronous copy, made by `make_async_copy`: it can be started and waited for.

    Args:
        src_ref, dst_ref: Source and destination: references of equal types.
        dst_sem: Semaphore that is signaled when the copy is complete.

    Example:
        >>> def kernel(x_ref, o_ref, sem_ref):
        ...     copy = pl.tpu.make_async_copy(x_ref, o_ref, sem_ref)
        ...     copy.start()
        ...     copy.wait()
    """

    def __init__(self, src_ref: Any, dst_ref: Any, dst_sem: Any):
        if (src_ref.shape, src_ref.dtype) != (dst_ref.shape, dst_ref.dtype):
            raise ValueError(f"a copy is between references of one type, got {src_ref.dtype}{list(src_ref.shape)} and "
                             f"{dst_ref.dtype}{list(dst_ref.shape)}.")
        self.src_ref, self.dst_ref, self.dst_sem = src_ref, dst_ref, _semaphore("a copy", dst_sem)

    is_remote = False

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Start the copy; with `add`, add to the destination."""
        operands, views = flatten_views([self.src_ref, self.dst_ref, self.dst_sem])
        dma_start_p.bind(*operands, views=views, priority=priority, add=bool(add))

    def wait(self) -> None:
        """Wait until the copy is complete."""
        operands, views = flatten_views([self.src_ref, self.dst_ref, self.dst_sem])
        dma_wait_p.bind(*operands, views=views)

    wait_send = wait_recv = wait


@boundary
def make_async_copy(src_ref: Any, dst_ref: Any, sem: Any) -> AsyncCopyDescriptor:
    """Make a copy from one reference to another, without starting it.

    Args:
        src_ref, dst_ref: Source and destination: references, or slices such as `ref.at[...]`.
        sem: Semaphore that is signaled when the copy is complete.

    Returns:
        The copy.

    Example:
        >>> def kernel(x_ref, o_ref, sem_ref):
        ...     copy = pl.tpu.make_async_copy(x_ref, o_ref, sem_ref)
        ...     copy.start()
        ...     copy.wait()
    """
    return AsyncCopyDescriptor(src_ref, dst_ref, sem)


@boundary
def async_copy(src_ref: Any, dst_ref: Any, sem: Any, *, priority: int = 0, add: bool = False) -> AsyncCopyDescriptor:
    """Start a copy from one reference to another.

    Args:
        src_ref, dst_ref: Source and destination: references, or slices such as `ref.at[...]`.
        sem: Semaphore that is signaled when the copy is complete.
        priority: Priority of the copy.
        add: If True, add to the destination.

    Returns:
        The copy.

    Example:
        >>> def kernel(x_ref, o_ref, sem_ref):
        ...     pl.tpu.async_copy(x_ref, o_ref, sem_ref).wait()
    """
    copy = AsyncCopyDescriptor(src_ref, dst_ref, sem)
    copy.start(priority, add=add)
    return copy


@boundary
def sync_copy(src_ref: Any, dst_ref: Any, *, add: bool = False) -> None:
    """Copy from one reference to another, and wait until the copy is complete.

    Args:
        src_ref, dst_ref: Source and destination: references, or slices such as `ref.at[...]`.
        add: If True, add to the destination.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu.sync_copy(x_ref, o_ref)
    """
    run_scoped(lambda sem: async_copy(src_ref, dst_ref, sem, add=add).wait(), SemaphoreType.DMA)
