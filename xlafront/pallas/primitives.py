"""Primitives for kernels: the position in the grid, and hints for compilers."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import convert_element_type_p, to_dtype
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import Trace, current_trace
from xlafront.lax.elementwise import div, mul, neg
from xlafront.lax.lower_fun import lower_fun
from xlafront.pallas.kernel_operation import kernel_operation, on_core

index_aval = ShapedArray((), np.dtype(np.int32))


class KernelScope(NamedTuple):
    """The kernel that is being traced: its trace, and its grid with None for dynamic sizes; in a pipeline its indices.

    `memory` has references to the state of matrix units, which are made when an operation needs them.
    """

    trace: Trace
    grid: tuple[Any, ...]
    indices: tuple[Any, ...] | None = None
    memory: dict[Any, Any] | None = None


kernel_scope: contextvars.ContextVar[KernelScope | None] = contextvars.ContextVar("kernel_scope", default=None)

# Both are bound at the top level of a kernel's jaxpr, also for the bodies of its loops and branches, so that whoever runs the
# kernel can substitute values for them.
program_id_p = Primitive("program_id", abstract=lambda *, axis: index_aval)
num_programs_p = Primitive("num_programs", abstract=lambda *, axis: index_aval)


def _scope(caller: str, axis: Any) -> KernelScope:
    scope = kernel_scope.get()
    if scope is None:
        raise ValueError(f"{caller} is only for functions that pallas_call runs on a grid; there is none here.")
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"{caller} takes the number of an axis of the grid, got {errors.short(axis)}.")
    if not 0 <= axis < len(scope.grid):
        raise ValueError(f"{caller}: axis {axis} is out of bounds for the grid {scope.grid}, which has {len(scope.grid)} axes.")
    return scope


@boundary
def program_id(axis: int) -> Any:
    """Return the current index along an axis of the grid. For use in kernels.

    Args:
        axis: Index of the grid axis.

    Returns:
        The index, an int32 scalar.

    Example:
        >>> def kernel(o_ref):
        ...     o_ref[...] = xnp.full(2, pl.program_id(0))
        >>> pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((4,), "int32"), grid=2,
        ...                out_specs=pl.BlockSpec((2,), lambda i: i), interpret=True)()
        Array([0, 0, 1, 1], dtype=int32)
    """
    scope = _scope("program_id", axis)
    if scope.indices is not None:
        return scope.indices[axis]
    with current_trace(scope.trace):
        return program_id_p.bind(axis=axis.__index__())


@boundary
def num_programs(axis: int) -> Any:
    """Return the size of the grid along an axis. For use in kernels.

    Args:
        axis: Index of the grid axis.

    Returns:
        The size: an integer, or an int32 scalar if the size is dynamic.

    Example:
        >>> def kernel(o_ref):
        ...     o_ref[...] = xnp.full(2, pl.num_programs(0))
        >>> pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((2,), "int32"), grid=3, interpret=True)()
        Array([3, 3], dtype=int32)
    """
    scope = _scope("num_programs", axis)
    size = scope.grid[axis]
    if size is not None:
        return size
    with current_trace(scope.trace):
        return num_programs_p.bind(axis=axis.__index__())


# Values


def _reciprocal(x, *, approx, full_range):
    if approx and tracing.aval_of(x).dtype == np.float32:  # of the accuracy that interpreted kernels have in JAX
        x = to_dtype(to_dtype(x, dtypes.bfloat16), np.dtype(np.float32))
    one = convert_element_type_p.bind(1, new_dtype=tracing.aval_of(x).dtype, weak_type=False, sharding=None)
    return div(one, x)


def _reciprocal_jvp(primals, tangents, **params):
    y = reciprocal_p.bind(*primals, **params)
    return y, mul(tangents[0], neg(mul(y, y)))


reciprocal_p = Primitive(
    "reciprocal", abstract=lambda x, *, approx, full_range: x, lower=lower_fun(_reciprocal), jvp=_reciprocal_jvp,
    batch=lambda size, xs, dims, **params: (reciprocal_p.bind(*xs, **params), dims[0]))


@boundary
def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """Return `1 / x`, elementwise.

    Args:
        x: The array.
        approx: If True, allow a less accurate result where the hardware has a faster approximation.
        full_range: If True, results for very small and very large values must be accurate, too.

    Returns:
        The reciprocals.

    Example:
        >>> pl.reciprocal(xnp.array([1.0, 2.0, 4.0]))
        Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    if not tracing.is_arraylike(x):
        raise errors.not_an_array(x, "reciprocal", None)
    return reciprocal_p.bind(x, approx=approx, full_range=full_range)


def _multiple_of_jvp(primals, tangents, *, values):
    return multiple_of_p.bind(*primals, values=values), tangents[0]


multiple_of_p = kernel_operation(
    "multiple_of", lambda x, *, values: x, abstract=lambda x, *, values: x, jvp=_multiple_of_jvp)
delay_p = kernel_operation("delay", lambda nanos: None, effects=lambda *_: on_core)


@boundary
def multiple_of(x: Any, values: int | Sequence[int]) -> Any:
    """Return `x`, with a promise to the compiler that its values are multiples of `values`.

    Args:
        x: Array of integers.
        values: The divisor, or one divisor for each dimension.

    Returns:
        The array `x`.

    Example:
        >>> pl.multiple_of(xnp.array([8]), 8)
        Array([8], dtype=int32)
    """
    numbers = (values,) if isinstance(values, int) else tuple(values)
    for n in numbers:
        if not isinstance(n, (int, np.integer)):
            raise TypeError(f"multiple_of takes concrete integers, got {errors.short(values)}.")
    if not isinstance(x, tracing.Tracer):
        return x
    return multiple_of_p.bind(x, values=tuple([int(n) for n in numbers]))


@boundary
def delay(nanos: Any) -> None:
    """Wait for some time, to provoke race conditions. No effect in interpreted kernels.

    Args:
        nanos: Time in nanoseconds.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.delay(100)
        ...     o_ref[...] = x_ref[...]
    """
    if not tracing.is_arraylike(nanos):
        raise errors.not_an_array(nanos, "delay", "nanos")
    delay_p.bind(np.int32(nanos) if isinstance(nanos, int) else nanos)
