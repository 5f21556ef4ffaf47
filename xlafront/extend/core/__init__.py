"""Programs, primitives and traces, for libraries that define operations or interpret programs of their own.

>>> from xlafront.extend import core
>>> multiply_add_p = core.Primitive("multiply_add")

`core.primitives` has the primitives of the library by name.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence, Set
from importlib import import_module
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, ir, source, tracing
from xlafront.core.avals import (
    AbstractToken as AbstractToken,
    ShapedArray,
    abstract_token as abstract_token,
    without_dimension,
)
from xlafront.core.errors import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    JaxprTypeError as JaxprTypeError,
)
from xlafront.core.ir import (
    ClosedJaxpr as ClosedJaxpr,
    DropVar as DropVar,
    Effect as Effect,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    Var as Var,
    no_effects as no_effects,
)
from xlafront.core.ir_check import check_jaxpr as check_jaxpr
from xlafront.core.primitive import Primitive as Primitive
from xlafront.core.tracing import Trace, Tracer, current_trace
from xlafront.extend.core.call import CallPrimitive as CallPrimitive, call_impl as call_impl
from xlafront.extend.core.tokens import Token as Token
from xlafront.runtime.missing_names import missing
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.batching.vmap import BatchTrace

Effects = Set[Effect]
array_types: set[type] = {np.ndarray, *(d.type for d in dtypes.supported)}


class DebugInfo(ir.DebugInfo):
    """What a program was traced from, as extensions describe it."""

    __slots__ = ()

    def __init__(self, traced_for: str, func_src_info: str, arg_names: Sequence[str] | None = None,
                 result_paths: Sequence[str] | None = None):
        name, _, location = str(func_src_info).partition(" at ")
        super().__init__(traced_for, name, location or None, arg_names, result_paths)


# Programs


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args) -> Callable[..., list[Any]]:
    """The program as a function of its flat arguments; `args` are the first of them.

    >>> jaxpr_as_fun(xf.make_jaxpr(lambda x: 2 * x)(1.0))(3.0)
    [Array(6., dtype=float32, weak_type=True)]
    """
    run = ir.jaxpr_as_fun(closed_jaxpr)
    if not args:
        return run
    return functools.partial(run, *args)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The programs among an equation's parameters.

    >>> list(jaxprs_in_params({"axis": 0}))
    []
    """
    return ir.subprograms(params)


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The programs that the equations of a program contain.

    >>> list(subjaxprs(xf.make_jaxpr(lambda x: 2 * x)(1.0).jaxpr))
    []
    """
    for eqn in jaxpr.eqns:
        yield from ir.subprograms(eqn.params)


def new_jaxpr_eqn(invars: Sequence[Any], outvars: Sequence[Var], primitive: Primitive, params: dict[str, Any],
                  effects: Set[Effect], source_info: Any = None, ctx: Any = None) -> JaxprEqn:
    """An equation; `source_info` is that of another one, or None for the caller's line.

    >>> x, y = Var(xf.typeof(1.0)), Var(xf.typeof(1.0))
    >>> equation = new_jaxpr_eqn([x], [y], xf.lax.neg_p, {}, set())
    """
    site = getattr(source_info, "site", None) or source.current_site()
    return JaxprEqn(list(invars), list(outvars), primitive, params, frozenset(effects), site)


def gensym(suffix: str = "") -> Callable[[Any], Var]:
    """A maker of new variables of given types.

    >>> variable = gensym()(xf.typeof(1.0))
    """
    return Var


def mapped_aval(size: int, axis: int | None, aval):
    """The type of one element, of `size` along `axis`; with None the type as it is.

    >>> mapped_aval(3, 0, xf.core.ShapedArray((3, 4), "float32")).shape
    (4,)
    """
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    if not 0 <= axis < aval.ndim or aval.shape[axis] != size:
        raise ValueError(f"a type of shape {aval.shape} cannot be mapped over {size} elements along axis {axis}.")
    return without_dimension(aval, axis)


def unmapped_aval(size: int, axis: int | None, aval, explicit_mesh_axis: Any = None):
    """The type of `size` elements along a new dimension at `axis`.

    >>> unmapped_aval(3, 0, xf.core.ShapedArray((4,), "float32")).shape
    (3, 4)
    """
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def primal_dtype_to_tangent_dtype(primal_dtype):
    """The dtype of tangents of arrays of a dtype: its own for floats, `float0` where nothing can change by a little.

    >>> primal_dtype_to_tangent_dtype(xnp.dtype("float32"))
    dtype('float32')
    """
    return dtypes.tangent_dtype(dtypes.dtype(primal_dtype))


# Values


def valid_jaxtype(x: Any) -> bool:
    """Is this an array or a number, so that it can be an operand?

    >>> valid_jaxtype(1.0), valid_jaxtype("a")
    (True, False)
    """
    if isinstance(x, np.ndarray) and x.dtype.kind not in "biufcV":
        return False
    return tracing.is_arraylike(x)


def concrete_or_error(force: Callable | None, val: Any, context: str = ""):
    """The value as `force` (such as `int`) makes it, or an error, with `context`, where it is not known while tracing.

    >>> concrete_or_error(int, xnp.int32(3))
    3
    """
    if isinstance(val, Tracer):
        known = val._concrete()
        if known is None:
            raise errors.ConcretizationTypeError(val, context)
        val = known
    return val if force is None else force(val)


# Traces


class TraceTag:
    """Marks the traces of one transformation."""

    __slots__ = ()

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self))


class set_current_trace(current_trace):
    """Make a trace the current one for the length of a `with` block.

    >>> with take_current_trace() as trace, set_current_trace(trace):
    ...     y = xnp.sin(1.0)
    """

    __slots__ = ("check_leaks",)

    def __init__(self, trace: Trace | None, check_leaks: bool = False):
        super().__init__(tracing.eval_trace if trace is None else trace)
        self.check_leaks = check_leaks


class take_current_trace(current_trace):
    """The current trace, set aside for the length of a `with` block: operations inside run at once.

    >>> with take_current_trace() as trace:
    ...     y = xnp.sin(1.0)
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(tracing.eval_trace)

    def __enter__(self):
        super().__enter__()
        return self.saved


def find_top_trace(_: Any = None) -> Trace:
    """The trace that the next operation will go to.

    >>> trace = find_top_trace([1.0])
    """
    return tracing.thread.trace


def _traces() -> Iterator[Trace]:
    trace = tracing.thread.trace
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent", None) or getattr(trace, "parent_trace", None)


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Is the caller being traced into a program?

    >>> unsafe_am_i_under_a_jit_DO_NOT_USE()
    False
    """
    return any(isinstance(t, tracing.StagingTrace) and not isinstance(t, LinearTrace) for t in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Is the caller being mapped?

    >>> unsafe_am_i_under_a_vmap_DO_NOT_USE()
    False
    """
    return any(isinstance(t, BatchTrace) for t in _traces())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the mapped axes that the caller is inside of.

    >>> unsafe_get_axis_names_DO_NOT_USE()
    []
    """
    return [name for name, _ in tracing.thread.axes]


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Is the caller inside of a named mapped axis?

    >>> nonempty_axis_env_DO_NOT_USE()
    False
    """
    return bool(tracing.thread.axes)


class OpaqueTraceState:
    """Equal to another exactly when both were taken in the same trace."""

    __slots__ = ("_trace", "_convention")

    def __init__(self, trace: Trace, convention: str | None):
        self._trace = weakref.ref(trace)
        self._convention = convention

    def __eq__(self, other):
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace

    def __hash__(self):
        return hash(self._trace)


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """A token for the trace that the caller is in, to find out later whether it is still the same.

    >>> get_opaque_trace_state() == get_opaque_trace_state()
    True
    """
    return OpaqueTraceState(tracing.thread.trace, convention)


def __getattr__(name: str):
    if name == "primitives":
        return import_module("xlafront.extend.core.primitives")
    raise missing(__name__, name, (*globals(), "primitives"))
