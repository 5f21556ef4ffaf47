"""Operations of single matrix units of a TPU: their staging registers, accumulators and queues of results.

A right operand is pushed to a staging register and loaded from there into the unit; left operands are then multiplied by it.
The products are added to accumulators, or appended to the unit's queue of results. The state of the units is in references that
belong to the kernel (`_unit_memory`), which interpretation computes with. Compilers have operations with numbers instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import current_trace
from xlafront.lax import refs as ref_operations
from xlafront.lax.dot_products import dot_general
from xlafront.lax.ref_indexing import selected_shape
from xlafront.pallas.kernel_operation import flatten_views, is_ref_or_view, kernel_operation, view_effects, views_of
from xlafront.pallas.primitives import kernel_scope
from xlafront.pallas.specs import MemoryRef
from xlafront.pallas.tpu_info import active_chip, get_tpu_info

QUEUE_ROWS = 1024  # of the queue in interpreted kernels


@dataclasses.dataclass(frozen=True)
class ACC:
    """The accumulators of a matrix unit, as a memory: call it to describe some of them. They are zero at first.

    Only TPU 7x has them. Allocate them with `pl.run_scoped`.

    Args:
        mxu_id: Number of the matrix unit.

    Example:
        >>> pl.tpu.ACC(0)((16, 256), "float32").shape
        (16, 256)
    """

    mxu_id: int

    zeroed = property(lambda self: True, doc="True, since the memory is zero-initialized.")

    def __post_init__(self) -> None:
        _check_number("ACC", "mxu_id", self.mxu_id)

    def __str__(self) -> str:
        return f"ACC(mxu_id={self.mxu_id})"

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        dtype = dtypes.canonicalize_dtype(dtype)
        chip = active_chip()
        if chip is not None and not get_tpu_info(chip).num_accumulators:
            raise ValueError(f"pltpu.ACC: TPU {chip} has no accumulators of products. Use pltpu.matmul_lhs_fifo and "
                             f"pltpu.matmul_pop_fifo there.")
        if dtype not in (np.float32, np.int32) or len(tuple(shape)) != 2:
            raise ValueError(f"pltpu.ACC takes a matrix of float32 or int32, got {dtype}{list(shape)}.")
        return MemoryRef(ShapedArray(tuple(shape), dtype), self)


class UnitMemory(NamedTuple):
    """The memory of a reference to the state of a matrix unit."""

    name: str

    def __str__(self) -> str:
        return self.name


def _check_number(caller: str, argument: str, n: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise TypeError(f"{caller} takes a concrete integer that is not negative as {argument}, got {errors.short(n)}.")


def _unit_memory(caller: str, key: tuple, shape: tuple[int, ...] | None, dtype: Any) -> Any:
    """Return the reference to a part of the state of the matrix units. `shape` is None for a part that must be there."""
    scope = kernel_scope.get()
    if scope is None or scope.memory is None:
        raise ValueError(f"{caller} is only for kernels, which pallas_call runs; there is none here.")
    found = scope.memory.get(key)
    if found is None and shape is None:
        raise ValueError(f"{caller}: no right operand was pushed to {' '.join(map(str, key))}. Call pltpu.matmul_push_rhs "
                         f"before it.")
    if found is None:
        with current_trace(scope.trace):
            aval, space = ShapedArray(tuple(shape or ()), np.dtype(dtype)), UnitMemory(" ".join(map(str, key)))
            found = ref_operations.empty_ref_p.bind(ty=aval, memory_space=space, pin=False)
        scope.memory[key] = found
    if shape is not None and (found.shape, found.dtype) != (shape, dtype):
        raise ValueError(f"{caller}: {' '.join(map(str, key))} has held a matrix {found.dtype}{list(found.shape)}, and cannot "
                         f"take {np.dtype(dtype)}{list(shape)}. Use one type of right operands for a register.")
    return found


def _accumulated(dtype: Any) -> np.dtype:
    return np.dtype(np.int32) if dtypes.is_integer(dtype) else np.dtype(np.float32)


def _staged(unit: int, register: int) -> tuple:
    return "unit", int(unit), "register", int(register)


def _loaded(unit: int) -> tuple:
    return "unit", int(unit), "loaded operand"


# Interpretation


def _push(*operands, views, staging_register, mxu_index, transpose):
    [staged], [rhs] = views_of(operands, views)
    kind = tracing.aval_of(staged.ref).dtype
    ref_operations.set(staged, ..., (rhs.T if transpose else rhs).astype(kind))


def _product(loaded: Any, staged: Sequence[Any], lhs: Any) -> Any:
    """Return the product of a left operand and the loaded right one; a staged one is loaded first."""
    if staged:
        ref_operations.set(loaded, ..., ref_operations.get(staged[0]))
    rhs = ref_operations.get(loaded)
    return dot_general(lhs.astype(rhs.dtype), rhs, (((1,), (0,)), ((), ())), precision="highest",
                       preferred_element_type=rhs.dtype)


def _accumulate(*operands, views, mxu_index, load_staged_rhs):
    [acc, loaded, *staged], [lhs] = views_of(operands, views)
    ref_operations.addupdate(acc, ..., _product(loaded, staged, lhs))


def _pop(*operands, views, mxu_index):
    [acc], _ = views_of(operands, views)
    value = ref_operations.get(acc)
    ref_operations.set(acc, ..., xnp.zeros_like(value))
    return value


def _append(*operands, views, mxu_index, load_staged_rhs):
    [queue, bounds, loaded, *staged], [lhs] = views_of(operands, views)
    rows = np.arange(lhs.shape[0], dtype=np.int32)
    end = ref_operations.get(bounds.ref, 1)
    values = ref_operations.get(queue)
    ref_operations.set(queue, ..., values.at[(end + rows) % QUEUE_ROWS].set(_product(loaded, staged, lhs)))
    ref_operations.set(bounds.ref, 1, (end + np.int32(len(rows))) % QUEUE_ROWS)


def _take(*operands, views, shape, dtype, mxu_index):
    [queue, bounds], _ = views_of(operands, views)
    rows = np.arange(shape[0], dtype=np.int32)
    start = ref_operations.get(bounds.ref, 0)
    ref_operations.set(bounds.ref, 0, (start + np.int32(len(rows))) % QUEUE_ROWS)
    return ref_operations.get(queue)[(start + rows) % QUEUE_ROWS].astype(dtype)


def _pop_aval(acc, *indices, views, **params):
    return ShapedArray(selected_shape(acc.shape, views[0].indexers, [a.shape for a in indices]), acc.dtype)


matmul_push_rhs_p = kernel_operation("matmul_push_rhs", _push, effects=view_effects("w"))
matmul_acc_lhs_p = kernel_operation("matmul_acc_lhs", _accumulate, effects=view_effects("wwr"))
matmul_pop_p = kernel_operation("matmul_pop", _pop, abstract=_pop_aval, effects=view_effects("w"))
matmul_lhs_fifo_p = kernel_operation("matmul_lhs_fifo", _append, effects=view_effects("wwwr"))
matmul_pop_fifo_p = kernel_operation(
    "matmul_pop_fifo", _take, effects=view_effects("ww"),
    abstract=lambda *avals, shape, dtype, **params: ShapedArray(shape, np.dtype(dtype)))


# The public functions


def _matrix(caller: str, argument: str, x: Any) -> Any:
    if not tracing.is_arraylike(x):
        raise errors.not_an_array(x, caller, argument)
    if np.ndim(x) != 2:
        raise ValueError(f"{caller} takes a matrix as {argument}, got the shape {np.shape(x)}.")
    return tracing.aval_of(x)


def _operands(caller: str, lhs: Any, unit: Any, load_staged_rhs: Any) -> list[Any]:
    """Return the references to the loaded right operand, and to the staged one that is loaded first."""
    _check_number(caller, "mxu_index", unit)
    aval, staged = _matrix(caller, "lhs", lhs), []
    if load_staged_rhs is not None:
        _check_number(caller, "load_staged_rhs", load_staged_rhs)
        staged = [_unit_memory(caller, _staged(unit, load_staged_rhs), None, None)]
    loaded = _unit_memory(caller, _loaded(unit), staged[0].shape if staged else None, staged[0].dtype if staged else None)
    if aval.shape[1] != loaded.shape[0] or _accumulated(aval.dtype) != loaded.dtype:
        raise ValueError(f"{caller}: the left operand {aval} and the right one, of shape {loaded.shape} with sums of "
                         f"{loaded.dtype}, do not match.")
    return [loaded, *staged]


def _accumulators(caller: str, acc: Any) -> ACC:
    space = getattr(tracing.aval_of(getattr(acc, "ref", acc)), "memory_space", None) if is_ref_or_view(acc) else None
    if not isinstance(space, ACC):
        raise TypeError(f"{caller} takes a reference to accumulators, of scratch memory pltpu.ACC(mxu_id)(shape, dtype), got "
                        f"{errors.short(acc)}.")
    return space


@boundary
def matmul_push_rhs(rhs: Any, staging_register: int, mxu_index: int, *, transpose: bool = False) -> None:
    """Push the right operand of products to a staging register of a matrix unit. For use in kernels.

    Push to a register again only after its operand has been loaded, and load each before the kernel ends.

    Args:
        rhs: Square matrix, of the size of the unit (`mxu_column_size` of `pltpu.get_tpu_info`).
        staging_register: Number of the register.
        mxu_index: Number of the matrix unit.
        transpose: If True, transpose the matrix.

    Example:
        >>> def kernel(x_ref, y_ref, o_ref):
        ...     pl.tpu.matmul_push_rhs(y_ref[...], 0, 0)
        ...     pl.tpu.matmul_lhs_fifo(x_ref[...], 0, load_staged_rhs=0)
        ...     o_ref[...] = pl.tpu.matmul_pop_fifo(o_ref.shape, o_ref.dtype, 0)
    """
    aval = _matrix("matmul_push_rhs", "rhs", rhs)
    _check_number("matmul_push_rhs", "staging_register", staging_register)
    _check_number("matmul_push_rhs", "mxu_index", mxu_index)
    shape = aval.shape[::-1] if transpose else aval.shape
    staged = _unit_memory("matmul_push_rhs", _staged(mxu_index, staging_register), shape, _accumulated(aval.dtype))
    operands, views = flatten_views([staged])
    matmul_push_rhs_p.bind(*operands, rhs, views=views, staging_register=int(staging_register), mxu_index=int(mxu_index),
                           transpose=bool(transpose))


@boundary
def matmul_acc_lhs(acc: Any, lhs: Any, load_staged_rhs: int | None = None) -> None:
    """Multiply a matrix by the right operand of a matrix unit, and add the product to accumulators. For use in kernels.

    Args:
        acc: Reference to accumulators, of scratch memory `pltpu.ACC(mxu_id)(shape, dtype)`. Its unit multiplies.
        lhs: The matrix, with as many columns as the right operand has rows.
        load_staged_rhs: Number of the staging register from which the right operand is loaded first. Default: it remains.

    Example:
        >>> def kernel(x_ref, y_ref, o_ref):
        ...     def multiply(acc_ref):
        ...         pl.tpu.matmul_push_rhs(y_ref[...], 0, 0)
        ...         pl.tpu.matmul_acc_lhs(acc_ref, x_ref[...], load_staged_rhs=0)
        ...         o_ref[...] = pl.tpu.matmul_pop(acc_ref)
        ...     pl.run_scoped(multiply, pl.tpu.ACC(0)((16, 256), "float32"))
    """
    unit = _accumulators("matmul_acc_lhs", acc).mxu_id
    found = _operands("matmul_acc_lhs", lhs, unit, load_staged_rhs)
    if acc.shape != (lhs.shape[0], found[0].shape[1]) or acc.dtype != found[0].dtype:
        raise ValueError(f"matmul_acc_lhs: the product has type {found[0].dtype}{[lhs.shape[0], found[0].shape[1]]}, the "
                         f"accumulators {acc.dtype}{list(acc.shape)}. Give accumulators of the type of the product.")
    operands, views = flatten_views([acc, *found])
    matmul_acc_lhs_p.bind(*operands, lhs, views=views, mxu_index=int(unit), load_staged_rhs=load_staged_rhs)


@boundary
def matmul_pop(acc: Any) -> Any:
    """Return the content of accumulators when the matrix unit is ready, and set them to zero. For use in kernels.

    Pop accumulators before the kernel ends.

    Args:
        acc: Reference to accumulators, of scratch memory `pltpu.ACC(mxu_id)(shape, dtype)`.

    Returns:
        The sum of the products since the last time.

    Example:
        >>> def kernel(o_ref):
        ...     def pop(acc_ref):
        ...         o_ref[...] = pl.tpu.matmul_pop(acc_ref)
        ...     pl.run_scoped(pop, pl.tpu.ACC(0)((16, 256), "float32"))
    """
    unit = _accumulators("matmul_pop", acc).mxu_id
    operands, views = flatten_views([acc])
    return matmul_pop_p.bind(*operands, views=views, mxu_index=int(unit))


def _queue(caller: str, unit: Any, columns: int, dtype: Any) -> list[Any]:
    """Return the references to a queue of results, and to the rows where it begins and ends."""
    key = "unit", int(unit), "queue of results"
    return [_unit_memory(caller, key, (QUEUE_ROWS, columns), dtype), _unit_memory(caller, (*key, "bounds"), (2,), np.int32)]


@boundary
def matmul_lhs_fifo(lhs: Any, mxu_index: int, *, load_staged_rhs: int | None = None) -> None:
    """Multiply a matrix by the right operand of a matrix unit, and append the product to its queue. For use in kernels.

    Pop results before the queue is full, and all of them before the kernel ends.

    Args:
        lhs: The matrix, with as many columns as the right operand has rows.
        mxu_index: Number of the matrix unit.
        load_staged_rhs: Number of the staging register from which the right operand is loaded first. Default: it remains.

    Example:
        >>> def kernel(x_ref, y_ref, o_ref):
        ...     pl.tpu.matmul_push_rhs(y_ref[...], 0, 0)
        ...     pl.tpu.matmul_lhs_fifo(x_ref[...], 0, load_staged_rhs=0)
        ...     o_ref[...] = pl.tpu.matmul_pop_fifo(o_ref.shape, o_ref.dtype, 0)
    """
    found = _operands("matmul_lhs_fifo", lhs, mxu_index, load_staged_rhs)
    if lhs.shape[0] > QUEUE_ROWS:
        raise ValueError(f"matmul_lhs_fifo: a product of {lhs.shape[0]} rows does not fit in the queue. Multiply fewer rows, "
                         f"and pop their product before the next.")
    queue = _queue("matmul_lhs_fifo", mxu_index, found[0].shape[1], found[0].dtype)
    operands, views = flatten_views([*queue, *found])
    matmul_lhs_fifo_p.bind(*operands, lhs, views=views, mxu_index=int(mxu_index), load_staged_rhs=load_staged_rhs)


@boundary
def matmul_pop_fifo(shape: tuple[int, int], dtype: Any, mxu_index: int) -> Any:
    """Remove the first product of a matrix unit's queue when it is ready, and return it. For use in kernels.

    Args:
        shape: Shape of the product.
        dtype: dtype of the product.
        mxu_index: Number of the matrix unit.

    Returns:
        The product.

    Example:
        >>> def kernel(x_ref, y_ref, o_ref):
        ...     pl.tpu.matmul_push_rhs(y_ref[...], 0, 0)
        ...     pl.tpu.matmul_lhs_fifo(x_ref[...], 0, load_staged_rhs=0)
        ...     o_ref[...] = pl.tpu.matmul_pop_fifo(o_ref.shape, o_ref.dtype, 0)
    """
    _check_number("matmul_pop_fifo", "mxu_index", mxu_index)
    dtype, sizes = dtypes.canonicalize_dtype(dtype), tuple(shape)
    if len(sizes) != 2 or not 0 < sizes[0] <= QUEUE_ROWS:
        raise ValueError(f"matmul_pop_fifo takes the shape of a product of {QUEUE_ROWS} rows at most, got {shape}.")
    queue = _queue("matmul_pop_fifo", mxu_index, sizes[1], _accumulated(dtype))
    operands, views = flatten_views(queue)
    return matmul_pop_fifo_p.bind(*operands, views=views, shape=sizes, dtype=dtype, mxu_index=int(mxu_index))
