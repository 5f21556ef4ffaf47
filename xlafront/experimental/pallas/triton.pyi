# Written by `python -m tests.stubs`.
from xlafront.pallas.gpu_info import GpuInfo as GpuInfo
from xlafront.pallas.gpu_info import GpuVersion as GpuVersion
from xlafront.pallas.gpu_info import is_gpu_device as is_gpu_device
from xlafront.pallas.triton import CompilerParams as CompilerParams
from xlafront.pallas.triton import approx_tanh as approx_tanh
from xlafront.pallas.triton import atomic_cas as atomic_cas
from xlafront.pallas.triton import debug_barrier as debug_barrier
from xlafront.pallas.triton import dot as dot
from xlafront.pallas.triton import elementwise_inline_asm as elementwise_inline_asm
from xlafront.pallas.triton import load as load
from xlafront.pallas.triton import max_contiguous as max_contiguous
from xlafront.pallas.triton import store as store
import typing as _typing

def atomic_add(x_ref_or_view: _typing.Any, idx: _typing.Any, val: _typing.Any, *, mask: _typing.Any = None) -> _typing.Any:
    """Add to a slice of a reference, and return the old values.

    Args:
        x_ref_or_view: Reference, or `ref.at[...]`.
        idx: Index of the slice to update.
        val: The other operand.
        mask: Boolean array of the elements to update.

    Returns:
        The values before the update.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.triton.atomic_add(x_ref, pl.ds(0, 4), x_ref[4:])
    """
def atomic_and(x_ref_or_view: _typing.Any, idx: _typing.Any, val: _typing.Any, *, mask: _typing.Any = None) -> _typing.Any:
    """Update a slice of a reference to the bitwise AND of it and a value, and return the old values.

    Args:
        x_ref_or_view: Reference, or `ref.at[...]`.
        idx: Index of the slice to update.
        val: The other operand.
        mask: Boolean array of the elements to update.

    Returns:
        The values before the update.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.triton.atomic_and(x_ref, pl.ds(0, 4), x_ref[4:])
    """
def atomic_max(x_ref_or_view: _typing.Any, idx: _typing.Any, val: _typing.Any, *, mask: _typing.Any = None) -> _typing.Any:
    """Update a slice of a reference to the maximum of it and a value, and return the old values.

    Args:
        x_ref_or_view: Reference, or `ref.at[...]`.
        idx: Index of the slice to update.
        val: The other operand.
        mask: Boolean array of the elements to update.

    Returns:
        The values before the update.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.triton.atomic_max(x_ref, pl.ds(0, 4), x_ref[4:])
    """
def atomic_min(x_ref_or_view: _typing.Any, idx: _typing.Any, val: _typing.Any, *, mask: _typing.Any = None) -> _typing.Any:
    """Update a slice of a reference to the minimum of it and a value, and return the old values.

    Args:
        x_ref_or_view: Reference, or `ref.at[...]`.
        idx: Index of the slice to update.
        val: The other operand.
        mask: Boolean array of the elements to update.

    Returns:
        The values before the update.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.triton.atomic_min(x_ref, pl.ds(0, 4), x_ref[4:])
    """
def atomic_or(x_ref_or_view: _typing.Any, idx: _typing.Any, val: _typing.Any, *, mask: _typing.Any = None) -> _typing.Any:
    """Update a slice of a reference to the bitwise OR of it and a value, and return the old values.

    Args:
        x_ref_or_view: Reference, or `ref.at[...]`.
        idx: Index of the slice to update.
        val: The other operand.
        mask: Boolean array of the elements to update.

    Returns:
        The values before the update.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.triton.atomic_or(x_ref, pl.ds(0, 4), x_ref[4:])
    """
def atomic_xchg(x_ref_or_view: _typing.Any, idx: _typing.Any, val: _typing.Any, *, mask: _typing.Any = None) -> _typing.Any:
    """Write to a slice of a reference, and return the old values.

    Args:
        x_ref_or_view: Reference, or `ref.at[...]`.
        idx: Index of the slice to update.
        val: The other operand.
        mask: Boolean array of the elements to update.

    Returns:
        The values before the update.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.triton.atomic_xchg(x_ref, pl.ds(0, 4), x_ref[4:])
    """
def atomic_xor(x_ref_or_view: _typing.Any, idx: _typing.Any, val: _typing.Any, *, mask: _typing.Any = None) -> _typing.Any:
    """Update a slice of a reference to the bitwise XOR of it and a value, and return the old values.

    Args:
        x_ref_or_view: Reference, or `ref.at[...]`.
        idx: Index of the slice to update.
        val: The other operand.
        mask: Boolean array of the elements to update.

    Returns:
        The values before the update.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.triton.atomic_xor(x_ref, pl.ds(0, 4), x_ref[4:])
    """
