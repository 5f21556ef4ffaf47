"""The operations of kernels: where in the grid one is, and what compilers are told of values."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import Trace, current_trace
from xlafront.lax.elementwise import convert_element_type_p, div, mul, neg
from xlafront.lax.lower_fun import lower_fun

index_aval = ShapedArray((), np.dtype(np.int32))


class KernelScope(NamedTuple):
    """The kernel that is being traced: the trace that writes it, and its grid, None for sizes known only at run time."""

    trace: Trace
    grid: tuple[int | None, ...]


kernel_scope: contextvars.ContextVar[KernelScope | None] = contextvars.ContextVar("kernel_scope", default=None)

# Both stand at the top of a kernel's program, for bodies of its loops and branches too, so that who runs the kernel can put
# values in their place.
program_id_p = Primitive("program_id", abstract=lambda *, axis: index_aval)
num_programs_p = Primitive("num_programs", abstract=lambda *, axis: index_aval)


def _scope(what: str, axis: Any) -> KernelScope:
    scope = kernel_scope.get()
    if scope is None:
        raise ValueError(f"{what} is for functions that pallas_call runs on a grid; there is none here.")
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"{what} takes the number of an axis of the grid, got {errors.short(axis)}.")
    if not 0 <= axis < len(scope.grid):
        raise ValueError(f"{what}: axis {axis} is out of bounds for the grid {scope.grid}, which has {len(scope.grid)} axes.")
    return scope


@boundary
def program_id(axis: int) -> Any:
    """Inside of a kernel: the index along an axis of the grid.

    - `axis`: the number of the axis.

    >>> def kernel(o_ref):
    ...     o_ref[...] = xnp.full(2, pl.program_id(0))
    >>> pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((4,), "int32"), grid=2,
    ...                out_specs=pl.BlockSpec((2,), lambda i: i), interpret=True)()
    Array([0, 0, 1, 1], dtype=int32)
    """
    scope = _scope("program_id", axis)
    with current_trace(scope.trace):
        return program_id_p.bind(axis=axis.__index__())


@boundary
def num_programs(axis: int) -> Any:
    """Inside of a kernel: the size of the grid along an axis; an integer where it is known.

    - `axis`: the number of the axis.

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
    """`1 / x`, element by element.

    - `x`: an array.
    - `approx`: whether fewer digits will do, where the hardware then is faster.
    - `full_range`: whether very small and very large numbers must be right too.

    >>> pl.reciprocal(xnp.array([1.0, 2.0, 4.0]))
    Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    if not tracing.is_arraylike(x):
        raise errors.not_an_array(x, "reciprocal", None)
    return reciprocal_p.bind(x, approx=approx, full_range=full_range)


@boundary
def multiple_of(x: Any, values: int | Sequence[int]) -> Any:
    """`x` itself, of which the compiler is promised that it is a multiple.

    - `x`: an array of integers.
    - `values`: of what, or one number for each dimension.

    >>> pl.multiple_of(xnp.array([8]), 8)
    Array([8], dtype=int32)
    """
    numbers = (values,) if isinstance(values, int) else tuple(values)
    for n in numbers:
        if not isinstance(n, (int, np.integer)):
            raise TypeError(f"multiple_of takes integers that are known, got {errors.short(values)}.")
    return x


@boundary
def delay(nanos: Any) -> None:
    """Inside of a kernel: wait, to look for races. Where kernels are interpreted there is nothing to wait for.

    - `nanos`: for how many nanoseconds.

    >>> def kernel(x_ref, o_ref):
    ...     pl.delay(100)
    ...     o_ref[...] = x_ref[...]
    """
    if not tracing.is_arraylike(nanos):
        raise errors.not_an_array(nanos, "delay", "nanos")
