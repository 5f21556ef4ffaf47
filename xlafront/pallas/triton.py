"""What kernels for GPUs are written with, by Triton's words. Where kernels are interpreted, the points of a grid come one after
the other, so that changes at once need no care."""

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

    - `num_warps`: how many warps run a program.
    - `num_stages`: in how many stages loops are pipelined.

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
    """Read a reference, or a part of one.

    - `ref`: a reference, or `ref.at[...]`.
    - `mask`: which elements count; the part may go beyond the end where it is False.
    - `other`: what stands at the others.
    - `cache_modifier`, `eviction_policy`, `volatile`: what caches are told.

    >>> def kernel(x_ref, o_ref):
    ...     mask = xnp.arange(8) < 5
    ...     o_ref[...] = pl.triton.load(x_ref, mask=mask, other=0.0)
    """
    return masked.load(ref, mask, other)


@boundary
def store(ref: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Write to a reference, or to a part of one.

    - `ref`: a reference, or `ref.at[...]`.
    - `val`: what is written.
    - `mask`: which elements are.
    - `eviction_policy`: what caches are told.

    >>> def kernel(x_ref, o_ref):
    ...     pl.triton.store(o_ref, x_ref[...], mask=xnp.arange(8) > 3)
    """
    masked.store(ref, val, mask)


# Changes that read and write at once


def _atomic(name: str, what: str, change: Callable, neutral: Callable[[np.dtype], Any] | None = None) -> Callable:
    """The function that changes a part of a reference and returns what it was; where the mask is False it stays, as the neutral
    element changes nothing, or as it is written again."""
    def atomic(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
        masked.check_ref(name, x_ref_or_view)
        view = masked.by_positions(x_ref_or_view.at[idx])
        old = ref_operations.get(view)
        val = creation.asarray(val, dtype=old.dtype)
        val = creation.full(old.shape, val) if val.shape != old.shape else val
        if mask is not None:
            val = where(mask, val, old if neutral is None else creation.asarray(neutral(old.dtype), dtype=old.dtype))
        change(view, old, val)
        return old

    atomic.__name__ = atomic.__qualname__ = name
    atomic.__doc__ = f"""{what}; what it was before.

    - `x_ref_or_view`: a reference, or `ref.at[...]`.
    - `idx`: the part of it.
    - `val`: the other operand.
    - `mask`: which elements change.

    >>> def kernel(x_ref, o_ref):
    ...     o_ref[...] = pl.triton.{name}(x_ref, pl.ds(0, 4), x_ref[4:])
    """
    return boundary(atomic)


def _at_positions(method: str) -> Callable:
    """A change in which positions that occur twice are changed twice."""
    def change(view, old, val):
        ref = view.ref if isinstance(view, ref_operations.RefView) else view
        held = ref_operations.get(ref)
        numbers = creation.arange(held.size, dtype=np.int32).reshape(held.shape)
        if isinstance(view, ref_operations.RefView):
            numbers = read(numbers, view.indexers, view.operands)
        flat = getattr(held.reshape(-1).at[numbers.reshape(-1)], method)(val.reshape(-1))
        ref_operations.set(ref, ..., flat.reshape(held.shape))

    return change


def _by(function: Callable) -> Callable:
    return lambda view, old, val: ref_operations.set(view, ..., function(old, val))


def _lowest(dtype: np.dtype) -> Any:
    return dtypes.iinfo(dtype).min if dtypes.is_integer(dtype) else -np.inf


def _highest(dtype: np.dtype) -> Any:
    return dtypes.iinfo(dtype).max if dtypes.is_integer(dtype) else np.inf


atomic_add = _atomic("atomic_add", "Add to a part of a reference", _at_positions("add"), lambda dtype: 0)
atomic_max = _atomic("atomic_max", "The larger of a part of a reference and a value, in its place", _at_positions("max"),
                     _lowest)
atomic_min = _atomic("atomic_min", "The smaller of a part of a reference and a value, in its place", _at_positions("min"),
                     _highest)
atomic_and = _atomic("atomic_and", "The bits that a part of a reference and a value have both, in its place",
                     _by(xnp.bitwise_and))
atomic_or = _atomic("atomic_or", "The bits that a part of a reference or a value has, in its place", _by(xnp.bitwise_or))
atomic_xor = _atomic("atomic_xor", "The bits that one of a part of a reference and a value has, in its place",
                     _by(xnp.bitwise_xor), lambda dtype: 0)
atomic_xchg = _atomic("atomic_xchg", "Write to a part of a reference", _by(lambda old, val: val))


@boundary
def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """Write to a reference to a scalar where it holds what is expected; what it was before.

    - `ref`: the reference.
    - `cmp`: what is expected.
    - `val`: what is written then.

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
    """Wait for all threads of the program. Where kernels are interpreted there is one.

    >>> def kernel(x_ref, o_ref):
    ...     pl.triton.debug_barrier()
    """


# Values


@boundary
def approx_tanh(x: Any) -> Any:
    """The hyperbolic tangent, by the hardware's approximation where it has one.

    - `x`: an array.

    >>> pl.triton.approx_tanh(xnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    return xnp.tanh(x)


@boundary
def dot(a: Any, b: Any, trans_a: bool = False, trans_b: bool = False, allow_tf32: bool | None = None,
        precision: Any = None) -> Any:
    """The product of two matrices, in 32 bits.

    - `a`, `b`: the matrices.
    - `trans_a`, `trans_b`: take them transposed.
    - `allow_tf32`: whether fewer bits of the operands will do.
    - `precision`: the precision of the product, in place of that.

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
    """`x` itself, of which the compiler is promised that so many elements follow each other.

    - `x`: an array of integers.
    - `values`: how many, or one number for each dimension.

    >>> pl.triton.max_contiguous(xnp.arange(4), 4)
    Array([0, 1, 2, 3], dtype=int32)
    """
    return multiple_of(x, values)


@boundary
def elementwise_inline_asm(asm: str, *, args: Sequence[Any], constraints: str, pack: int,
                           result_shape_dtypes: Any) -> Any:
    """Instructions of the GPU on each element. There are none where kernels are interpreted.

    - `asm`: the instructions.
    - `args`: the operands.
    - `constraints`: the registers that they are in.
    - `pack`: how many elements are computed at once.
    - `result_shape_dtypes`: what the results are.

    >>> pl.triton.elementwise_inline_asm("tanh.approx.f32 $0, $1;", args=[x], constraints="=f,f", pack=1,
    ...                                  result_shape_dtypes=x)  # doctest: +SKIP
    """
    raise NotImplementedError("elementwise_inline_asm is for kernels that are compiled for GPUs, which is not possible yet: "
                              "write the function with operations of arrays.")
