"""Hints of TPU kernels about references, and what a compiler has decided about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import errors, tracing
from xlafront.core.traceback_filter import boundary
from xlafront.pallas.kernel_operation import is_ref_or_view
from xlafront.pallas.specs import Memory, MemorySpace
from xlafront.pallas.tpu import HBM, VMEM


def _checked_ref(caller: str, ref: Any) -> Any:
    if not is_ref_or_view(ref):
        raise TypeError(f"{caller} takes a reference, as kernels get them, got {errors.short(ref)}.")
    return ref


@boundary
def touch(ref: Any) -> None:
    """Declare that a kernel uses a reference. No effect: references of kernels are never removed.

    Args:
        ref: The reference.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu.touch(x_ref)
    """
    _checked_ref("touch", ref)


@boundary
def annotate(ref: Any, *, no_store: bool = False, no_bank_conflict: bool = False, no_hazard: bool = False,
             no_hazard_no_deps: bool = False) -> Any:
    """Return a reference with promises about its use, which the compiler may rely on. They are not passed on to it yet.

    Args:
        ref: The reference.
        no_store: The kernel does not write to it.
        no_bank_conflict: Accesses do not use a bank of memory at the same time.
        no_hazard, no_hazard_no_deps: Accesses do not depend on those before.

    Returns:
        The reference.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.tpu.annotate(x_ref, no_store=True)[...]
    """
    return _checked_ref("annotate", ref)


@boundary
def has_memory_space(ref: Any, memory_space: Any) -> Any:
    """Return True if a reference is in a memory. `pl.ANY` is main memory, the default vector memory.

    Args:
        ref: The reference.
        memory_space: The memory, such as `pltpu.VMEM`.

    Returns:
        A boolean.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     @pl.when(pl.tpu.has_memory_space(x_ref, pl.tpu.HBM))
        ...     def _():
        ...         pl.tpu.sync_copy(x_ref, o_ref)
    """
    if not isinstance(memory_space, Memory):
        raise TypeError(f"has_memory_space takes a memory such as pltpu.VMEM, got {errors.short(memory_space)}.")
    _checked_ref("has_memory_space", ref)
    space = tracing.aval_of(getattr(ref, "ref", ref)).memory_space
    if space is None or space is MemorySpace.DEFAULT:
        space = VMEM
    return np.bool_(memory_space is (HBM if space is MemorySpace.ANY else space))
