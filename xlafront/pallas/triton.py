"""Functions for GPU kernels, with the names of Triton's operations.

In interpreted kernels the points of the grid run one after the other, so atomic updates need no synchronization.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.core.traceback_filter import boundary
from xlafront.lax import refs as ref_operations
from xlafront.lax.dot_products import dot_general
from xlafront.lax.ref_indexing import read
from xlafront.numpy import creation
from xlafront.numpy.searching import where
from xlafront.pallas import masked
from xlafront.pallas.primitives import multiple_of


@dataclasses.dataclass(frozen=True)
class CompilerParams:
    """Options for Triton's compiler.

    Args:
        num_warps: Number of warps per program.
        num_stages: Number of pipeline stages of loops.

    Example:
        >>> pl.triton.CompilerParams(num_warps=4)
        CompilerParams(num_warps=4, num_stages=None)
    """

    BACKEND = "triton"
    num_warps: int | None = None
    num_stages: int | None = None


# Reads and writes


@boundary
def load(ref: Any, *, mask: Any = None, other: Any = None, cache_modifier: str | None = None,
         eviction_policy: str | None = None, volatile: bool = False) -> Any:
    """Read a reference, or a slice of one.

    Args:
        ref: Reference, or `ref.at[...]`.
        mask: Boolean array of the elements to read; the slice can extend beyond the end where it is False.
        other: Value of the other elements. Default: arbitrary values.
        cache_modifier, eviction_policy, volatile: Hints for caches.

    Returns:
        The value.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     mask = xnp.arange(8) < 5
        ...     o_ref[...] = pl.triton.load(x_ref, mask=mask, other=0.0)
    """
    return masked.load(ref, mask, other)


@boundary
def store(ref: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Write to a reference, or to a slice of one.

    Args:
        ref: Reference, or `ref.at[...]`.
        val: Value to write.
        mask: Boolean array of the elements to write.
        eviction_policy: Hint for caches.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.triton.store(o_ref, x_ref[...], mask=xnp.arange(8) > 3)
    """
    masked.store(ref, val, mask)


# Atomic updates


def _atomic(name: str, summary: str, change: Callable, neutral: Callable[[np.dtype], Any] | None = None) -> Callable:
    """Make a function that updates a slice of a reference and returns the old values.

    Where the mask is False, the update uses the neutral element, or writes the old value.
    """
    def atomic(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
        masked.check_ref(name, x_ref_or_view)
        view = masked.with_explicit_indices(x_ref_or_view.at[idx])
        old = ref_operations.get(view)
        val = creation.asarray(val, dtype=old.dtype)
        val = creation.full(old.shape, val) if val.shape != old.shape else val
        if mask is not None:
            val = where(mask, val, old if neutral is None else creation.asarray(neutral(old.dtype), dtype=old.dtype))
        change(view, old, val)
        return old

    atomic.__name__ = atomic.__qualname__ = name
    atomic.__doc__ = f"""{summary}, and return the old values.

    Args:
        x_ref_or_view: Reference, or `ref.at[...]`.
        idx: Index of the slice to update.
        val: The other operand.
        mask: Boolean array of the elements to update.

    Returns:
        The values before the update.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.triton.{name}(x_ref, pl.ds(0, 4), x_ref[4:])
    """
    return boundary(atomic)


def _scatter_update(method: str) -> Callable:
    """Make an update that is applied twice at positions that occur twice."""
    def change(view, old, val):
        ref = view.ref if isinstance(view, ref_operations.RefView) else view
        value = ref_operations.get(ref)
        positions = creation.arange(value.size, dtype=np.int32).reshape(value.shape)
        if isinstance(view, ref_operations.RefView):
            positions = read(positions, view.indexers, view.operands)
        flat = getattr(value.reshape(-1).at[positions.reshape(-1)], method)(val.reshape(-1))
        ref_operations.set(ref, ..., flat.reshape(value.shape))

    return change


def _elementwise_update(function: Callable) -> Callable:
    return lambda view, old, val: ref_operations.set(view, ..., function(old, val))


def _lowest(dtype: np.dtype) -> Any:
    return dtypes.iinfo(dtype).min if dtypes.is_integer(dtype) else -np.inf


def _highest(dtype: np.dtype) -> Any:
    return dtypes.iinfo(dtype).max if dtypes.is_integer(dtype) else np.inf


atomic_add = _atomic("atomic_add", "Add to a slice of a reference", _scatter_update("add"), lambda dtype: 0)
atomic_max = _atomic("atomic_max", "Update a slice of a reference to the maximum of it and a value", _scatter_update("max"),
                     _lowest)
atomic_min = _atomic("atomic_min", "Update a slice of a reference to the minimum of it and a value", _scatter_update("min"),
                     _highest)
atomic_and = _atomic("atomic_and", "Update a slice of a reference to the bitwise AND of it and a value",
                     _elementwise_update(xnp.bitwise_and))
atomic_or = _atomic("atomic_or", "Update a slice of a reference to the bitwise OR of it and a value",
                    _elementwise_update(xnp.bitwise_or))
atomic_xor = _atomic("atomic_xor", "Update a slice of a reference to the bitwise XOR of it and a value",
                     _elementwise_update(xnp.bitwise_xor), lambda dtype: 0)
atomic_xchg = _atomic("atomic_xchg", "Write to a slice of a reference", _elementwise_update(lambda old, val: val))


@boundary
def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """Write to a reference to a scalar if it holds an expected value, and return the old value.

    Args:
        ref: The reference.
        cmp: The expected value.
        val: Value to write.

    Returns:
        The value before the update.

    Example:
        >>> def kernel(lock_ref, o_ref):
        ...     o_ref[...] = pl.triton.atomic_cas(lock_ref, 0, 1)
    """
    if ref.shape:
        raise ValueError(f"atomic_cas takes a reference to a scalar, got one of shape {ref.shape}.")
    old = ref_operations.get(ref)
    ref_operations.set(ref, ..., where(old == cmp, creation.asarray(val, dtype=old.dtype), old))
    return old


@boundary
def debug_barrier() -> None:
    """Synchronize all threads of the program. No effect in interpreted kernels.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.triton.debug_barrier()
    """


# Values


@boundary
def approx_tanh(x: Any) -> Any:
    """Compute the hyperbolic tangent, with the hardware's approximation if there is one.

    Args:
        x: The array.

    Returns:
        The values.

    Example:
        >>> pl.triton.approx_tanh(xnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    return xnp.tanh(x)


@boundary
def dot(a: Any, b: Any, trans_a: bool = False, trans_b: bool = False, allow_tf32: bool | None = None,
        precision: Any = None) -> Any:
    """Multiply two matrices with 32-bit accumulation.

    Args:
        a, b: The matrices.
        trans_a, trans_b: If True, transpose the matrix.
        allow_tf32: If True, allow operands to be rounded to TensorFloat-32.
        precision: Precision of the product, in place of `allow_tf32`.

    Returns:
        The product, with dtype float32 or int32.

    Example:
        >>> pl.triton.dot(xnp.eye(2), xnp.ones((2, 3))).shape
        (2, 3)
    """
    if np.ndim(a) != 2 or np.ndim(b) != 2:
        raise ValueError(f"dot takes two matrices, got shapes {np.shape(a)} and {np.shape(b)}.")
    if allow_tf32 is not None:
        if precision is not None:
            raise ValueError("dot takes allow_tf32 or precision, got both.")
        precision = "tensorfloat32" if allow_tf32 else "highest"
    kind = np.int32 if dtypes.is_integer(a.dtype) else np.float32
    return dot_general(a, b, (((0 if trans_a else 1,), (1 if trans_b else 0,)), ((), ())), precision=precision,
                       preferred_element_type=kind)


@boundary
def max_contiguous(x: Any, values: int | Sequence[int]) -> Any:
    """Return `x`, with a promise to the compiler that this many elements are contiguous.

    Args:
        x: Array of integers.
        values: Number of contiguous elements, or one number for each dimension.

    Returns:
        The array `x`.

    Example:
        >>> pl.triton.max_contiguous(xnp.arange(4), 4)
        Array([0, 1, 2, 3], dtype=int32)
    """
    return multiple_of(x, values)


@boundary
def elementwise_inline_asm(asm: str, *, args: Sequence[Any], constraints: str, pack: int,
                           result_shape_dtypes: Any) -> Any:
    """Apply inline GPU assembly to each element. Not available in interpreted kernels.

    Args:
        asm: The instructions.
        args: The operands.
        constraints: Registers of the results and operands.
        pack: Number of elements processed at once.
        result_shape_dtypes: Shapes and dtypes of the results.

    Returns:
        The results.

    Example:
        >>> pl.triton.elementwise_inline_asm("tanh.approx.f32 $0, $1;", args=[x], constraints="=f,f", pack=1,
        ...                                  result_shape_dtypes=x)  # doctest: +SKIP
    """
    raise NotImplementedError("elementwise_inline_asm is for kernels that are compiled for GPUs, which is not possible yet. "
                              "Write the function with array operations.")
