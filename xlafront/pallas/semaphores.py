"""Semaphores, and asynchronous copies between memories, and between devices, that signal them.

In interpreted kernels everything is sequential: a copy is made when it is started, and waiting returns at once. All devices run
the same operation at the same time, so that a signal or copy to another device is an exchange between all of them. Kernels
whose devices take different branches are rewritten before (`pallas.device_threads`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dataflow import any_equation
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.refs import AbstractRef
from xlafront.core.traceback_filter import boundary
from xlafront.lax import refs as ref_operations
from xlafront.lax.named_axes import resolve_axes
from xlafront.pallas.copies import copy_views
from xlafront.pallas.device_ids import NO_DEVICE, gather_from_devices, logical_id, mesh_axes, own_id
from xlafront.pallas.findings import line_of
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


class semaphore(np.generic):  # noqa: N801
    """The kind of semaphores that threads signal, in place of a dtype: `pltpu.SEMAPHORE((2,), pl.semaphore)`. No instances.

    Example:
        >>> pl.tpu.SEMAPHORE((2,), pl.semaphore).memory_space
        <SemaphoreType.REGULAR: 'regular'>
    """

    kind = SemaphoreType.REGULAR


class dma_semaphore(np.generic):  # noqa: N801
    """The kind of semaphores that copies signal, in place of a dtype: `pltpu.SEMAPHORE((2,), pltpu.dma_semaphore)`.

    Example:
        >>> pl.tpu.SEMAPHORE((2,), pl.tpu.dma_semaphore).memory_space
        <SemaphoreType.DMA: 'dma'>
    """

    kind = SemaphoreType.DMA


# The primitives. Their operands are those of views (`flatten_views`), the value or increment, and the logical id of a device,
# or `NO_DEVICE`. `axes` are those of the mesh of devices; None without a device. Copies count elements, as interpreted in JAX.


def _signal(*operands, views, axes, has_core):  # the cores of a device run one after the other: their counts are one
    [semaphore], [increment, *device] = views_of(operands, views)
    if axes is None:
        ref_operations.addupdate(semaphore, ..., increment)
        return
    for target, amount, *indices in gather_from_devices([device[0], increment, *semaphore.operands], axes):
        ref_operations.addupdate(_with_indices(semaphore, indices), ..., amount * (target == own_id(axes)))


def _wait(*operands, views, decrement):
    [semaphore], [value] = views_of(operands, views)
    if decrement:
        ref_operations.addupdate(semaphore, ..., -value)


def _read(*operands, views):
    [semaphore], _ = views_of(operands, views)
    return ref_operations.get(semaphore)


def _with_indices(view, indices):
    return ref_operations.RefView(view.ref, view.indexers, tuple(indices))


def _start_dma(*operands, views, priority, add, axes):
    [source, target, semaphore, *source_semaphores], device = views_of(operands, views)
    size = _size(target)
    for x in source_semaphores:
        ref_operations.addupdate(x, ..., size if axes is None else size * (device[0] != NO_DEVICE))
    if axes is None:
        copy_views(source, target, add)
        ref_operations.addupdate(semaphore, ..., size)
        return
    count = len(target.operands)
    value = ref_operations.get(source)
    for receiver, sent, *indices in gather_from_devices([*device, value, *target.operands, *semaphore.operands], axes):
        arrives, here = receiver == own_id(axes), _with_indices(target, indices[:count])
        ref_operations.set(here, ..., xnp.where(arrives, sent, ref_operations.get(here)))
        ref_operations.addupdate(_with_indices(semaphore, indices[count:]), ..., size * arrives)


def _wait_dma(*operands, views, **_):
    [_, target, semaphore], _ = views_of(operands, views)
    ref_operations.addupdate(semaphore, ..., -_size(target))


def _size(view):
    return np.int32(math.prod(view.shape))


def _is_ready(*operands, views):
    *others, semaphore = found = views_of(operands, views)[0]
    return ref_operations.get(semaphore) >= (_size(found[1]) if others else operands[1 + views[0].count])


semaphore_signal_p = kernel_operation("semaphore_signal", _signal, effects=view_effects("w"))
semaphore_wait_p = kernel_operation("semaphore_wait", _wait, effects=view_effects("w"))
semaphore_read_p = kernel_operation("semaphore_read", _read, abstract=lambda *_, views: index_aval, effects=view_effects("r"))
dma_start_p = kernel_operation("dma_start", _start_dma, effects=view_effects("rwww"))
dma_wait_p = kernel_operation("dma_wait", _wait_dma, effects=view_effects("rrw"))
# True if the wait with these operands would end. Only interpreted kernels have it.
semaphore_is_ready_p = kernel_operation("semaphore_is_ready", _is_ready, effects=view_effects("rrr"),
                                        abstract=lambda *_, views: index_aval.update(dtype=np.dtype(bool)))


def _semaphore(caller: str, x: Any, kinds: Sequence[SemaphoreType] = tuple(SemaphoreType)) -> Any:
    """Return a semaphore, after checking that it is one of these kinds."""
    space = tracing.aval_of(x.ref if isinstance(x, ref_operations.RefView) else x).memory_space if is_ref_or_view(x) else None
    if not isinstance(space, SemaphoreType):
        raise TypeError(f"{caller} takes a semaphore, as scratch_shapes=[pltpu.SemaphoreType.{kinds[0].name}] gives one to the "
                        f"kernel, got {errors.short(x)}.")
    if x.shape:
        raise ValueError(f"{caller} takes one semaphore, got {x.shape[0]} of them: name one with sem.at[i].")
    if space not in kinds:
        raise ValueError(f"{caller} takes a semaphore of the kind {' or '.join([k.name for k in kinds])}, got one of the kind "
                         f"{space.name}. {_OF_COPIES if space is SemaphoreType.DMA else _OF_SIGNALS}")
    return x


_COUNTERS, _COPIES = (SemaphoreType.REGULAR, SemaphoreType.BARRIER), (SemaphoreType.DMA,)
_OF_COPIES = "Copies signal it, and are waited for by copy.wait(). Use pltpu.SemaphoreType.REGULAR."
_OF_SIGNALS = "It is for pl.semaphore_signal and pl.semaphore_wait. Use pltpu.SemaphoreType.DMA for copies."


def check_semaphores(label: str, jaxpr: Jaxpr) -> None:
    """Raise an error if a kernel reads or writes a semaphore as an array."""
    def is_access(eqn: JaxprEqn) -> bool:
        if eqn.primitive.name in ("get", "swap", "addupdate", "masked_load", "masked_swap") and isinstance(
                eqn.invars[0].aval.memory_space, SemaphoreType):
            raise TypeError(f"the kernel {label} reads or writes a semaphore as an array {line_of(eqn)}. Use "
                            f"pl.semaphore_read(sem), pl.semaphore_signal(sem) or pl.semaphore_wait(sem).")
        return False

    any_equation(jaxpr, "accesses semaphores", is_access)


def _device(caller: str, device_id: Any, device_id_type: DeviceIdType | None) -> tuple[list[Any], Any]:
    """Return the operand of a device, and the axes of the mesh."""
    if device_id is None:
        return [], None
    axes = mesh_axes(caller)
    return [logical_id(caller, device_id, device_id_type, axes)], axes


def _count(x: Any) -> Any:
    return np.int32(x) if isinstance(x, int) else x


@boundary
def semaphore_signal(sem_or_view: Any, inc: Any = 1, *, device_id: Any = None,
                     device_id_type: DeviceIdType | None = None, core_index: Any = None) -> None:
    """Increment the count of a semaphore.

    Args:
        sem_or_view: The semaphore.
        inc: The increment.
        device_id: Device that has the semaphore: its coordinates in the mesh, in a tuple or a dict by the names of axes, or its
            logical id. Default: this device.
        device_id_type: Form of `device_id`. Default: coordinates if it is a tuple or a dict.
        core_index: Index of the core that has the semaphore. Default: this core.

    Example:
        >>> def kernel(o_ref, sem_ref):
        ...     pl.semaphore_signal(sem_ref)
    """
    device, axes = _device("semaphore_signal", device_id, device_id_type)
    operands, views = flatten_views([_semaphore("semaphore_signal", sem_or_view, _COUNTERS)])
    core = None if core_index is None else _count(core_index)
    semaphore_signal_p.bind(*operands, _count(inc), *device, *[core] * (core is not None), views=views, axes=axes,
                            has_core=core is not None)


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
    operands, views = flatten_views([_semaphore("semaphore_wait", sem_or_view, _COUNTERS)])
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
    """An asynchronous copy, made by `make_async_copy` or `make_async_remote_copy`: it can be started and waited for.

    Args:
        src_ref, dst_ref: Source and destination: references of equal types.
        dst_sem: Semaphore that is signaled when the copy has arrived: for a remote copy that of the other device. Without one,
            a copy is complete when `start` returns.
        src_sem: Semaphore that is signaled when the source has been read.
        device: The operand of the other device. Empty for a copy on this device.
        axes: Axes of the mesh of devices.

    Example:
        >>> def kernel(x_ref, o_ref, sem_ref):
        ...     copy = pl.tpu.make_async_copy(x_ref, o_ref, sem_ref)
        ...     copy.start()
        ...     copy.wait()
    """

    def __init__(self, src_ref: Any, dst_ref: Any, dst_sem: Any, src_sem: Any = None, device: Sequence[Any] = (),
                 axes: Any = None):
        for argument, x in (("src_ref", src_ref), ("dst_ref", dst_ref)):
            if not is_ref_or_view(x):
                raise TypeError(f"a copy takes references, as kernels get them; {argument} is {errors.short(x)}.")
        if (src_ref.shape, src_ref.dtype) != (dst_ref.shape, dst_ref.dtype):
            raise ValueError(f"a copy is between references of one type, got {src_ref.dtype}{list(src_ref.shape)} and "
                             f"{dst_ref.dtype}{list(dst_ref.shape)}. Copy equal parts of them, ref.at[...].")
        self.src_ref, self.dst_ref = src_ref, dst_ref
        self.dst_sem, self.src_sem = (None if x is None else _semaphore("a copy", x, _COPIES) for x in (dst_sem, src_sem))
        self._device, self._axes = list(device), axes

    is_remote = property(lambda self: self._axes is not None, doc="True if the destination is on another device.")

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Start the copy; with `add`, add to the destination."""
        if add and self.is_remote:
            raise NotImplementedError("a copy to another device cannot add to its destination. Copy to scratch memory there, "
                                      "and add after wait_recv().")
        if self.dst_sem is None:
            run_scoped(lambda sem: async_copy(self.src_ref, self.dst_ref, sem, priority=priority, add=add).wait(),
                       SemaphoreType.DMA)
            return
        sources = [] if self.src_sem is None else [self.src_sem]
        operands, views = flatten_views([self.src_ref, self.dst_ref, self.dst_sem, *sources])
        dma_start_p.bind(*operands, *self._device, views=views, priority=priority, add=bool(add), axes=self._axes)

    def wait(self) -> None:
        """Wait until the copy is complete: of a remote copy, until it is sent and that of the sender to here has arrived."""
        if self.src_sem is not None:
            self.wait_send()
        self.wait_recv()

    def wait_send(self) -> None:
        """Wait until the source has been read, so that it can be overwritten."""
        if self.src_sem is None:
            raise ValueError("wait_send is for copies with a semaphore of the source. Use wait(), or give src_sem.")
        self._wait(self.src_sem, True)

    def wait_recv(self) -> None:
        """Wait until the copy has arrived: of a remote copy, that of the sender to this device."""
        if self.dst_sem is not None:
            self._wait(self.dst_sem, False)

    def _wait(self, semaphore: Any, is_send: bool) -> None:
        operands, views = flatten_views([self.src_ref, self.dst_ref, semaphore])
        dma_wait_p.bind(*operands, *self._device, views=views, is_send=is_send, axes=self._axes)


def _copy(caller: str, src_ref: Any, dst_ref: Any, sem: Any, src_sem: Any) -> AsyncCopyDescriptor:
    if sem is None and src_sem is not None:
        raise TypeError(f"{caller} has src_sem, but no sem, a semaphore that is signaled when the copy is complete. Give both, "
                        f"as scratch_shapes=[pltpu.SemaphoreType.DMA] * 2 passes them to the kernel.")
    return AsyncCopyDescriptor(src_ref, dst_ref, sem, src_sem)


@boundary
def make_async_copy(src_ref: Any, dst_ref: Any, sem: Any = None, *, src_sem: Any = None) -> AsyncCopyDescriptor:
    """Make a copy from one reference to another, without starting it.

    Args:
        src_ref, dst_ref: Source and destination: references, or slices such as `ref.at[...]`.
        sem: Semaphore that is signaled when the copy is complete. None for a copy that is complete when it has been started.
        src_sem: Semaphore that is signaled when the source has been read. Default: none.

    Returns:
        The copy.

    Example:
        >>> def kernel(x_ref, o_ref, sem_ref):
        ...     copy = pl.tpu.make_async_copy(x_ref, o_ref, sem_ref)
        ...     copy.start()
        ...     copy.wait()
    """
    return _copy("make_async_copy", src_ref, dst_ref, sem, src_sem)


@boundary
def async_copy(src_ref: Any, dst_ref: Any, sem: Any = None, *, src_sem: Any = None, priority: int = 0, add: bool = False
               ) -> AsyncCopyDescriptor:
    """Start a copy from one reference to another.

    Args:
        src_ref, dst_ref: Source and destination: references, or slices such as `ref.at[...]`.
        sem: Semaphore that is signaled when the copy is complete. None for a copy that is complete when it has been started.
        src_sem: Semaphore that is signaled when the source has been read. Default: none.
        priority: Priority of the copy.
        add: If True, add to the destination.

    Returns:
        The copy.

    Example:
        >>> def kernel(x_ref, o_ref, sem_ref):
        ...     pl.tpu.async_copy(x_ref, o_ref, sem_ref).wait()
    """
    copy = _copy("async_copy", src_ref, dst_ref, sem, src_sem)
    copy.start(priority, add=add)
    return copy


@boundary
def make_async_remote_copy(src_ref: Any, dst_ref: Any, send_sem: Any, recv_sem: Any, device_id: Any,
                           device_id_type: DeviceIdType | None = None) -> AsyncCopyDescriptor:
    """Make a copy from a reference to one of another device, without starting it. For kernels inside of `shard_map`.

    Each device sends one copy and receives one: `wait_send()` waits until the source has been read, `wait_recv()` until the
    copy to this device has arrived, `wait()` for both. Devices that only send or only receive call one of them.

    Args:
        src_ref: Source on this device.
        dst_ref: Destination: a reference of the other device, named by that of this device.
        send_sem: Semaphore of this device that is signaled when the source has been read.
        recv_sem: Semaphore of the other device that is signaled when the copy has arrived.
        device_id: The other device: its coordinates in the mesh, in a tuple or a dict by the names of axes, or its logical id.
            A dict leaves out the axes along which it has the coordinate of this device.
        device_id_type: Form of `device_id`. Default: coordinates if it is a tuple or a dict.

    Returns:
        The copy.

    Example:
        >>> def kernel(x_ref, o_ref, send_sem, recv_sem):
        ...     right = lax.rem(lax.axis_index("x") + 1, lax.axis_size("x"))
        ...     copy = pl.tpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, {"x": right})
        ...     copy.start()
        ...     copy.wait()
    """
    device, axes = _device("make_async_remote_copy", device_id, device_id_type)
    return AsyncCopyDescriptor(src_ref, dst_ref, recv_sem, send_sem, device, axes)


@boundary
def async_remote_copy(src_ref: Any, dst_ref: Any, send_sem: Any, recv_sem: Any, device_id: Any,
                      device_id_type: DeviceIdType | None = None) -> AsyncCopyDescriptor:
    """Start a copy from a reference to one of another device. See `make_async_remote_copy`.

    Args:
        src_ref: Source on this device.
        dst_ref: Destination: a reference of the other device, named by that of this device.
        send_sem: Semaphore of this device that is signaled when the source has been read.
        recv_sem: Semaphore of the other device that is signaled when the copy has arrived.
        device_id: The other device: coordinates in the mesh, or its logical id.
        device_id_type: Form of `device_id`. Default: coordinates if it is a tuple or a dict.

    Returns:
        The copy.

    Example:
        >>> def kernel(x_ref, o_ref, send_sem, recv_sem):
        ...     pl.tpu.async_remote_copy(x_ref, o_ref, send_sem, recv_sem, {"x": 0}).wait()
    """
    copy = make_async_remote_copy(src_ref, dst_ref, send_sem, recv_sem, device_id, device_id_type)
    copy.start()
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


# Barriers


@boundary
def get_barrier_semaphore(tag: Hashable | None = None) -> Any:
    """Return the semaphore that kernels of all devices share, to wait until the others have started. For use in kernels.

    A kernel that uses it needs `pltpu.CompilerParams(collective_id=...)`, an id that no other kernel which runs at the same
    time has. Wait for as many signals as arrive, so that the count is zero again when the kernel ends.

    Args:
        tag: Ignored: the barrier is that of `collective_id`.

    Returns:
        A reference to the semaphore.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     barrier = pl.tpu.get_barrier_semaphore()
        ...     pl.semaphore_signal(barrier, device_id={"x": 0})
    """
    return ref_operations.new_ref_p.bind(np.int32(0), kind=None, pin=False, memory_space=SemaphoreType.BARRIER)


def get_global(what: Any) -> Any:
    """Return a reference that persists from one call of a kernel to the next. TPUs have none: raises NotImplementedError.

    Args:
        what: Type of the memory.

    Returns:
        Nothing: there is no such memory.

    Example:
        >>> pl.get_global(pl.tpu.SemaphoreType.REGULAR)  # doctest: +SKIP
    """
    raise NotImplementedError("get_global: memory that persists between calls of kernels is a feature of Mosaic GPU, which "
                              "xlafront does not have. Pass the memory as an argument, with input_output_aliases.")


@boundary
def core_barrier(sem: Any, *, core_axis_name: str) -> None:
    """Wait until all cores along an axis of a `TensorCoreMesh` have come here. For use in kernels.

    Args:
        sem: Semaphore of the kind `pltpu.SemaphoreType.REGULAR`.
        core_axis_name: Name of the axis of cores.

    Example:
        >>> def kernel(x_ref, o_ref, sem_ref):
        ...     pl.tpu.core_barrier(sem_ref, core_axis_name="core")
    """
    _, count = resolve_axes(core_axis_name, "core_barrier")
    if count > 1:
        for core in range(count):
            semaphore_signal(sem, 1, core_index=core)
        semaphore_wait(sem, count)
