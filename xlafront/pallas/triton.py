"""Functions for GPU kernels, with the names of Triton's operations.

In interpreted kernels the points of the grid run one after the other, so atomic updates need no synchronization.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.traceback_filter import boundary
from xlafront.lax.dot_products import dot_general
from xlafront.pallas import atomics, masked
from xlafront.pallas.triton_primitives import approx_tanh_p, debug_barrier_p, elementwise_inline_asm_p, max_contiguous_p


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
    return masked.load(ref, mask, other, cache_modifier, eviction_policy, bool(volatile))


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
    masked.store(ref, val, mask, eviction_policy)


# Atomic updates


def _atomic(name: str, summary: str) -> Callable:
    """Make a function that updates a slice of a reference and returns the old values."""
    def atomic(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
        return atomics.update(name, x_ref_or_view, idx, val, mask)

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


atomic_add = _atomic("atomic_add", "Add to a slice of a reference")
atomic_max = _atomic("atomic_max", "Update a slice of a reference to the maximum of it and a value")
atomic_min = _atomic("atomic_min", "Update a slice of a reference to the minimum of it and a value")
atomic_and = _atomic("atomic_and", "Update a slice of a reference to the bitwise AND of it and a value")
atomic_or = _atomic("atomic_or", "Update a slice of a reference to the bitwise OR of it and a value")
atomic_xor = _atomic("atomic_xor", "Update a slice of a reference to the bitwise XOR of it and a value")
atomic_xchg = _atomic("atomic_xchg", "Write to a slice of a reference")


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
    return atomics.compare_and_swap(ref, cmp, val)


@boundary
def debug_barrier() -> None:
    """Synchronize all threads of the program. No effect in interpreted kernels.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.triton.debug_barrier()
    """
    debug_barrier_p.bind()


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
    return approx_tanh_p.bind(to_dtype(x, tracing.aval_of(x).dtype))


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
    numbers = (values,) * max(np.ndim(x), 1) if isinstance(values, (int, np.integer)) else tuple(values)
    for n in numbers:
        if not isinstance(n, (int, np.integer)):
            raise TypeError(f"max_contiguous takes concrete integers, got {errors.short(values)}.")
    return max_contiguous_p.bind(x, values=tuple(map(int, numbers)))


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
    shapes, structure = tree.flatten(result_shape_dtypes)
    for x in args:
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, "elementwise_inline_asm", None)
    results = elementwise_inline_asm_p.bind(
        *args, asm=asm, constraints=constraints, pack=pack,
        result_shape_dtypes=tuple([ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype)) for x in shapes]))
    return structure.unflatten(results)
