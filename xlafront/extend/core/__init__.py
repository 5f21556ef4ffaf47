"""Jaxprs, primitives and traces, for libraries that define primitives or interpret jaxprs.

>>> from xlafront.extend import core
>>> multiply_add_p = core.Primitive("multiply_add")

`core.primitives` has the built-in primitives by name.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence, Set
from importlib import import_module
from typing import Any

import numpy as np

from xlafront.base.missing_names import missing
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
from xlafront.core.tracing import Trace, Tracer, current_trace
from xlafront.extend.core.call import (
    CallPrimitive as CallPrimitive,
    call_impl as call_impl,
    create_call_primitive as create_call_primitive,
    eval_jaxpr_transpose as eval_jaxpr_transpose,
    register_call_primitive_rules as register_call_primitive_rules,
)
from xlafront.extend.core.primitive import Primitive as Primitive
from xlafront.extend.core.tokens import Token as Token
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.batching.vmap import BatchTrace

Effects = Set[Effect]
array_types: set[type] = {np.ndarray, *(d.type for d in dtypes.supported)}


class DebugInfo(ir.DebugInfo):
    """The debug information of a jaxpr, in the form that extensions use."""

    __slots__ = ()

    def __init__(self, traced_for: str, func_src_info: str, arg_names: Sequence[str] | None = None,
                 result_paths: Sequence[str] | None = None):
        name, _, location = str(func_src_info).partition(" at ")
        super().__init__(traced_for, name, location or None, arg_names, result_paths)


# Jaxprs


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args) -> Callable[..., list[Any]]:
    """Return a jaxpr as a function of its flat arguments; `args` are the first of them.

    Example:
        >>> jaxpr_as_fun(xf.make_jaxpr(lambda x: 2 * x)(1.0))(3.0)
        [Array(6., dtype=float32, weak_type=True)]
    """
    run = ir.jaxpr_as_fun(closed_jaxpr)
    if not args:
        return run
    return functools.partial(run, *args)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """Yield the jaxprs among the parameters of an equation.

    Example:
        >>> list(jaxprs_in_params({"axis": 0}))
        []
    """
    return ir.subprograms(params)


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """Yield the jaxprs in the equations of a jaxpr.

    Example:
        >>> list(subjaxprs(xf.make_jaxpr(lambda x: 2 * x)(1.0)))
        []
    """
    for eqn in jaxpr.eqns:
        yield from ir.subprograms(eqn.params)


def new_jaxpr_eqn(invars: Sequence[Any], outvars: Sequence[Var], primitive: Primitive, params: dict[str, Any],
                  effects: Set[Effect], source_info: Any = None, ctx: Any = None) -> JaxprEqn:
    """Return a new equation; `source_info` is that of another equation, or None for the caller's line.

    Example:
        >>> x, y = Var(xf.typeof(1.0)), Var(xf.typeof(1.0))
        >>> equation = new_jaxpr_eqn([x], [y], xf.lax.neg_p, {}, set())
    """
    site = getattr(source_info, "site", None) or source.current_site()
    return JaxprEqn(list(invars), list(outvars), primitive, params, frozenset(effects), site)


def gensym(suffix: str = "") -> Callable[[Any], Var]:
    """Return a function that creates a variable of a given type.

    Example:
        >>> variable = gensym()(xf.typeof(1.0))
    """
    return Var


def mapped_aval(size: int, axis: int | None, aval):
    """Return the type of one element of a batch of `size` elements along `axis`; with None, the type itself.

    Example:
        >>> mapped_aval(3, 0, xf.core.ShapedArray((3, 4), "float32")).shape
        (4,)
    """
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    if not 0 <= axis < aval.ndim or aval.shape[axis] != size:
        raise ValueError(f"a type of shape {aval.shape} cannot be mapped over {size} elements along axis {axis}.")
    return without_dimension(aval, axis)


def unmapped_aval(size: int, axis: int | None, aval, explicit_mesh_axis: Any = None):
    """Return the type of a batch of `size` elements along a new dimension at `axis`.

    Example:
        >>> unmapped_aval(3, 0, xf.core.ShapedArray((4,), "float32")).shape
        (3, 4)
    """
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def primal_dtype_to_tangent_dtype(primal_dtype):
    """Return the tangent dtype of a dtype: the dtype itself for floats, `float0` for dtypes without derivatives.

    Example:
        >>> primal_dtype_to_tangent_dtype(xnp.dtype("float32"))
        dtype('float32')
    """
    return dtypes.tangent_dtype(dtypes.dtype(primal_dtype))


# Values


def valid_jaxtype(x: Any) -> bool:
    """Return True for arrays and numbers, which can be operands.

    Example:
        >>> valid_jaxtype(1.0), valid_jaxtype("a")
        (True, False)
    """
    if isinstance(x, np.ndarray) and x.dtype.kind not in "biufcV":
        return False
    return tracing.is_arraylike(x)


def concrete_or_error(force: Callable | None, val: Any, context: str = ""):
    """Return a concrete value, converted by `force` (such as `int`); raise an error with `context` for a tracer without value.

    Example:
        >>> concrete_or_error(int, xnp.int32(3))
        3
    """
    if isinstance(val, Tracer):
        value = val._concrete()
        if value is None:
            raise errors.ConcretizationTypeError(val, context)
        val = value
    return val if force is None else force(val)


# Traces


class TraceTag:
    """A tag for the traces of one transformation."""

    __slots__ = ()

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self))


class set_current_trace(current_trace):
    """Make a trace the current one inside a `with` block.

    Example:
        >>> with take_current_trace() as trace, set_current_trace(trace):
        ...     y = xnp.sin(1.0)
    """

    __slots__ = ("check_leaks",)

    def __init__(self, trace: Trace | None, check_leaks: bool = False):
        super().__init__(tracing.eval_trace if trace is None else trace)
        self.check_leaks = check_leaks

    def __enter__(self) -> Trace:
        trace = self.trace
        if not hasattr(trace, "parent"):  # another package's trace: enclosing traces are found by its `parent_trace`
            parent = getattr(trace, "parent_trace", None)
            trace.parent = parent if isinstance(parent, Trace) else tracing.eval_trace
        return super().__enter__()


class take_current_trace(current_trace):
    """Return the current trace, and evaluate operations eagerly inside a `with` block.

    Example:
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
    """Return the current trace, which processes the next operation.

    Example:
        >>> trace = find_top_trace([1.0])
    """
    return tracing.thread.trace


def _traces() -> Iterator[Trace]:
    trace = tracing.thread.trace
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent", None) or getattr(trace, "parent_trace", None)


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Return True if the caller is being traced to a jaxpr.

    Example:
        >>> unsafe_am_i_under_a_jit_DO_NOT_USE()
        False
    """
    return any(isinstance(t, tracing.StagingTrace) and not isinstance(t, LinearTrace) for t in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Return True if the caller is inside of `vmap`.

    Example:
        >>> unsafe_am_i_under_a_vmap_DO_NOT_USE()
        False
    """
    return any(isinstance(t, BatchTrace) for t in _traces())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """Return the names of the mapped axes around the caller.

    Example:
        >>> unsafe_get_axis_names_DO_NOT_USE()
        []
    """
    return [name for name, _ in tracing.thread.axes]


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Return True if the caller is inside of a named mapped axis.

    Example:
        >>> nonempty_axis_env_DO_NOT_USE()
        False
    """
    return bool(tracing.thread.axes)


class OpaqueTraceState:
    """The identity of a trace: two states are equal if they were taken in the same trace."""

    __slots__ = ("_trace", "_convention")

    def __init__(self, trace: Trace, convention: str | None):
        self._trace = weakref.ref(trace)
        self._convention = convention

    def __eq__(self, other):
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace

    def __hash__(self):
        return hash(self._trace)


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """Return the identity of the current trace, to check later if it is still the current one.

    Example:
        >>> get_opaque_trace_state() == get_opaque_trace_state()
        True
    """
    return OpaqueTraceState(tracing.thread.trace, convention)


def __getattr__(name: str):
    if name == "primitives":
        return import_module("xlafront.extend.core.primitives")
    raise missing(__name__, name, (*globals(), "primitives"))
