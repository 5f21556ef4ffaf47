"""Semaphores, and copies between memories that signal one. Where kernels are interpreted one thing happens after the other: a
copy is made when it is started, and whoever waits has nothing to wait for."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import errors
from xlafront.core.avals import ShapedArray
from xlafront.core.refs import AbstractRef, is_ref
from xlafront.core.traceback_filter import boundary
from xlafront.lax import refs as ref_operations
from xlafront.pallas.kernel_functions import run_scoped
from xlafront.pallas.specs import DeviceIdType, MemoryRef
from xlafront.pallas.tpu import SEMAPHORE


class SemaphoreType(enum.Enum):
    """A kind of semaphore, which counts signals: of threads, of copies, or of a barrier. A member describes the memory of one,
    calling it that of several: `pltpu.SemaphoreType.DMA((2,))`.

    - `value`: "regular", "dma" or "barrier".

    >>> pl.tpu.SemaphoreType.DMA((2,)).shape
    (2,)
    """

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    def __call__(self, shape: Sequence[int]) -> MemoryRef:
        return MemoryRef(ShapedArray(tuple(shape), np.dtype(np.int32)), SEMAPHORE)

    dtype = property(lambda self: self.get_array_aval().dtype, doc="The dtype of its count.")

    def get_array_aval(self) -> ShapedArray:
        """The type of its count."""
        return self(()).get_array_aval()

    def get_ref_aval(self) -> AbstractRef:
        """The type of references to one."""
        return self(()).get_ref_aval()


def _semaphore(what: str, x: Any) -> Any:
    if isinstance(x, ref_operations.RefView) or is_ref(x):
        if x.shape:
            raise ValueError(f"{what} takes one semaphore, got {x.shape[0]} of them: name one with sem.at[i].")
        return x
    raise TypeError(f"{what} takes a semaphore, as scratch_shapes=[pltpu.SemaphoreType.REGULAR] gives one to the kernel, got "
                    f"{errors.short(x)}.")


@boundary
def semaphore_signal(sem_or_view: Any, inc: Any = 1, *, device_id: Any = None,
                     device_id_type: DeviceIdType = DeviceIdType.MESH, core_index: Any = None) -> None:
    """Add to the count of a semaphore.

    - `sem_or_view`: the semaphore.
    - `inc`: how much.
    - `device_id`, `device_id_type`: the device that it is on, where it is another one.
    - `core_index`: the core that it is on.

    >>> def kernel(o_ref, sem_ref):
    ...     pl.semaphore_signal(sem_ref)
    """
    if device_id is not None:
        raise NotImplementedError("semaphore_signal of another device is for kernels that are compiled for TPUs, which is not "
                                  "possible yet. Let devices talk outside of kernels, as with lax.ppermute.")
    ref_operations.addupdate(_semaphore("semaphore_signal", sem_or_view), ..., np.int32(inc) if isinstance(inc, int) else inc)


@boundary
def semaphore_wait(sem_or_view: Any, value: Any = 1, *, decrement: bool = True) -> None:
    """Wait until the count of a semaphore has reached a value, and take that from it.

    - `sem_or_view`: the semaphore.
    - `value`: the value.
    - `decrement`: whether it is taken from the count.

    >>> def kernel(o_ref, sem_ref):
    ...     pl.semaphore_signal(sem_ref)
    ...     pl.semaphore_wait(sem_ref)
    """
    semaphore = _semaphore("semaphore_wait", sem_or_view)
    if decrement:
        ref_operations.addupdate(semaphore, ..., np.int32(-value) if isinstance(value, int) else -value)


@boundary
def semaphore_read(sem_or_view: Any) -> Any:
    """The count of a semaphore.

    - `sem_or_view`: the semaphore.

    >>> def kernel(o_ref, sem_ref):
    ...     o_ref[0] = pl.semaphore_read(sem_ref)
    """
    return ref_operations.get(_semaphore("semaphore_read", sem_or_view))


class AsyncCopyDescriptor:
    """A copy that can be started, and waited for; `make_async_copy` makes one.

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
        """Begin to copy; with `add`, to add."""
        value = ref_operations.get(self.src_ref)
        if add:
            ref_operations.addupdate(self.dst_ref, ..., value)
        else:
            ref_operations.set(self.dst_ref, ..., value)
        semaphore_signal(self.dst_sem)

    def wait(self) -> None:
        """Wait until it is done."""
        semaphore_wait(self.dst_sem)

    wait_send = wait_recv = wait


@boundary
def make_async_copy(src_ref: Any, dst_ref: Any, sem: Any) -> AsyncCopyDescriptor:
    """A copy from one reference to another, which is still to be started.

    - `src_ref`, `dst_ref`: the references, or parts of some as `ref.at[...]`.
    - `sem`: a semaphore that counts it when it is done.

    >>> def kernel(x_ref, o_ref, sem_ref):
    ...     copy = pl.tpu.make_async_copy(x_ref, o_ref, sem_ref)
    ...     copy.start()
    ...     copy.wait()
    """
    return AsyncCopyDescriptor(src_ref, dst_ref, sem)


@boundary
def async_copy(src_ref: Any, dst_ref: Any, sem: Any, *, priority: int = 0, add: bool = False) -> AsyncCopyDescriptor:
    """A copy from one reference to another, which has been started.

    - `src_ref`, `dst_ref`, `sem`: as of `make_async_copy`.
    - `priority`: how urgent it is.
    - `add`: add to what is there.

    >>> def kernel(x_ref, o_ref, sem_ref):
    ...     pl.tpu.async_copy(x_ref, o_ref, sem_ref).wait()
    """
    copy = AsyncCopyDescriptor(src_ref, dst_ref, sem)
    copy.start(priority, add=add)
    return copy


@boundary
def sync_copy(src_ref: Any, dst_ref: Any, *, add: bool = False) -> None:
    """Copy from one reference to another, and wait for it.

    - `src_ref`, `dst_ref`: the references, or parts of some as `ref.at[...]`.
    - `add`: add to what is there.

    >>> def kernel(x_ref, o_ref):
    ...     pl.tpu.sync_copy(x_ref, o_ref)
    """
    run_scoped(lambda sem: async_copy(src_ref, dst_ref, sem, add=add).wait(), SemaphoreType.DMA)
