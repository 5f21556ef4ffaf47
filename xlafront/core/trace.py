"""Traces: what happens to an operation when it is bound.

One trace is current in each thread, and `Primitive.bind` passes it every operation. `EvalTrace` runs the operation;
`StagingTrace` (`core.staging`) appends it to a jaxpr; each transformation has a trace that rewrites it and passes it to its
parent trace. A `Tracer` is a value that belongs to one trace.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base import config, typed_scalars
from xlafront.core import dtypes, errors
from xlafront.core.operands import aval_of, is_truncated
from xlafront.core.tracer import Tracer

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive
    from xlafront.core.typing import Params


class Trace:
    """Processes operations while it is current."""

    __slots__ = ("parent", "__weakref__")

    parent: Any  # the trace around it; None for that of eager evaluation
    alive = True
    is_transformation = False  # True if it turns a call of a jaxpr into another such call for its parent
    stages_equations = False  # True if it appends operations to a jaxpr

    def process(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        """Apply an operation and return its results.

        Traces of extensions override `process_primitive` instead, which runs while no trace is current.
        """
        if not self.extends:
            raise NotImplementedError(f"{type(self).__name__} does not process operations. Define the method "
                                      f"process_primitive(self, primitive, tracers, params).")
        if primitive.decompose is not None:
            with current_trace(self):
                result = primitive.decompose(*args, **params)
            if result is not None:
                return result
        args = tuple([_as_python_scalar(x) for x in args])
        with current_trace(eval_trace):
            if primitive.traits.calls_custom_rule:
                own = getattr(self, f"process_{primitive.name}", None)  # with the function and its rules, to be wrapped
                if own is not None:
                    bound = primitive.get_bind_params(params)
                    return own(primitive, *bound.pop("subfuns"), args, **bound)
            return self.process_primitive(primitive, args, params)

    @property
    def extends(self) -> bool:
        """True if another package defines it."""
        return type(self).process_primitive is not Trace.process_primitive

    def process_primitive(self, primitive: Primitive, tracers: Any, params: Params) -> Any:
        with current_trace(self):
            return self.process(primitive, tuple(tracers), params)

    def make_ref(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        """Apply an operation whose result is a new reference.

        Traces that attach something to their references (a tangent, a batch dimension) override this, because the operands of
        the operation need not be tracers.
        """
        return self.process(primitive, args, params)

    def end(self) -> None:
        """Mark its tracers as ended and make the parent current.

        The parent already is current, unless Ctrl-C interrupted the exit of `current_trace`. Called in the `finally` of
        transformations.
        """
        self.alive = False
        if thread.trace is not self.parent:
            thread.trace = self.parent
            config.trace_state.set_local(None if self.parent is eval_trace else True)

    def is_valid(self) -> bool:
        return self.alive

    def full_raise(self, x: Any) -> Any:
        """Return `x`. Extensions call this on results; here any value can be an operand."""
        return x

    @property
    def main(self) -> Trace:
        """The identity of the transformation, by which extensions distinguish tracers."""
        return self


class EvalTrace(Trace):
    """Runs operations eagerly. `staging.library` sets `apply`, which compiles an operation and runs it."""

    __slots__ = ()

    apply: Callable[[Any, tuple, dict[str, Any]], Any]

    def process(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        for x in args:
            if isinstance(x, Tracer):
                outer: Any = trace_of(args, primitive.shown_as)
                with current_trace(outer):
                    return outer.process(primitive, args, params)
        if primitive.own_impl is not None:
            return primitive.own_impl(*args, **params)
        return EvalTrace.apply(primitive, args, params)


eval_trace = EvalTrace()
eval_trace.parent = None


class _Thread(threading.local):
    trace: Trace = eval_trace
    axes: tuple = ()  # the named axes in scope, innermost last
    # `(trace, atoms)` replicates operands where the sharding of a result is ambiguous. None: that is an error.
    unshard_operands: Callable[[Trace, list], list] | None = None
    in_library: bool = False  # an internal function runs: promotion settings do not concern the functions that it calls


thread = _Thread()


class current_trace:
    """Context in which a trace is current. C++ dispatch is off while any trace but `eval_trace` is.

    Hot: entered for each operation of a function that is being transformed.
    """

    __slots__ = ("trace", "saved", "switches")

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def __enter__(self) -> Any:
        trace = self.trace
        self.saved = saved = thread.trace
        thread.trace = trace
        self.switches = (trace is eval_trace) is not (saved is eval_trace)
        if self.switches:
            config.trace_state.set_local(None if trace is eval_trace else True)
        return trace

    def __exit__(self, *exception: Any) -> Any:
        thread.trace = self.saved
        if self.switches:
            config.trace_state.set_local(None if self.saved is eval_trace else True)


class ensure_compile_time_eval(current_trace):
    """Context in which operations on known values run eagerly inside a traced function. Also a decorator.

    Operations on tracers are traced as usual.

    Example:
        >>> with ensure_compile_time_eval():
        ...     table = xnp.arange(3) * 2  # computed now, a constant of the jaxpr
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(eval_trace)

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def evaluated(*args: Any, **kwargs: Any) -> Any:
            with ensure_compile_time_eval():
                return function(*args, **kwargs)

        return evaluated


def trace_of(values: Sequence[Any], operation: str) -> Trace | None:
    """Return the innermost trace of the values, for operations on tracers while no trace is current.

    That happens inside of `ensure_compile_time_eval`. `operation` is named in the error about tracers that leaked.
    """
    found = None
    for x in values:
        if isinstance(x, Tracer):
            trace = x._trace
            if not trace.alive:
                raise errors.leaked_tracer(x, operation)
            if found is None or _is_inside(trace, found):
                found = trace
    return found


def _is_inside(trace: Trace | None, other: Trace) -> bool:
    while trace is not None and trace is not other:
        trace = trace.parent
    return trace is not None


def eval_context() -> current_trace:
    """Return a context in which operations run eagerly, outside of every trace.

    Example:
        >>> with eval_context():
        ...     table = xnp.arange(3) * 2
    """
    return current_trace(eval_trace)


def is_tracing() -> bool:
    return thread.trace is not eval_trace


def staging_trace() -> Trace | None:
    """Return the trace that appends operations on values that are not traced, or None if they run eagerly."""
    trace = thread.trace
    while trace is not eval_trace and trace is not None:
        if trace.stages_equations:
            return trace
        trace = getattr(trace, "parent", None)  # traces of extensions need not have one
    return None


def _as_python_scalar(x: Any) -> Any:
    """Return a NumPy scalar as a Python scalar with a dtype, as extensions expect it; other operands unchanged."""
    if not isinstance(x, np.generic) or is_truncated(x):
        return x
    dtype = aval_of(x).dtype
    found = typed_scalars.KINDS.get("f" if dtypes.issubdtype(dtype, np.floating) else dtype.kind)
    return x if found is None else found[1](found[0](x), dtype)
