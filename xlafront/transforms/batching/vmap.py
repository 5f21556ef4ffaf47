"""Batching: a function of one element runs on batches.

A `BatchTracer` has the type of one element and holds the batch, with the position of its batch dimension. Each operation is
replaced by an operation on batches, which the `batch` rule of its primitive gives.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlafront.base import config
from xlafront.base.specs import PartitionSpec
from xlafront.core import tracing
from xlafront.core.avals import entry_of, with_dimension, without_dimension
from xlafront.core.basic_primitives import inline_call_p, place_axis
from xlafront.core.ir import Jaxpr, any_equation, subprograms
from xlafront.core.program_call import ProgramCall
from xlafront.core.ref_operands import bind_on_values, touched_operands
from xlafront.core.tracing import StagingTrace, Trace, Tracer, current_trace

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive
    from xlafront.core.typing import Dims, Params


class BatchTracer(Tracer):
    """An element of a batch: the batch and the position of its batch dimension."""

    __slots__ = ("value", "dim")

    def __init__(self, trace: Trace, value: Any, dim: int) -> None:
        self._trace = trace
        self.value = value
        self.dim = dim
        self.aval = without_dimension(value.aval if isinstance(value, Tracer) else tracing.aval_of(value), dim)

    # JAX's names, which libraries use.
    val, batch_dim = property(lambda self: self.value), property(lambda self: self.dim)

    def _origin(self) -> Any:
        return self.value._origin() if isinstance(self.value, Tracer) else None

    def __repr__(self) -> str:
        return f"VmapTracer(aval={self.aval}, batched={tracing.aval_of(self.value)})"


class BatchTrace(Trace):
    """Applies operations on elements to batches."""

    __slots__ = ("size", "axis_name", "spmd_axis_name", "outer_axes", "alive")

    is_transformation = True

    def __init__(self, parent: Trace, size: int, axis_name: Any = None, spmd_axis_name: Any = None) -> None:
        self.parent = parent
        self.size = size
        self.axis_name = axis_name
        self.spmd_axis_name = spmd_axis_name  # mesh axes over which the batch dimension is sharded
        self.outer_axes = tracing.thread.axes
        self.alive = True

    def process(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        """Apply an operation by its batch rule."""
        if (primitive.structured.discharge is not None and primitive is not inline_call_p
                and (touched := touched_operands(primitive, params))):
            return bind_on_values(self, primitive, args, params, touched)
        values: list[Any] = []
        dims: list[int | None] = []
        batched = False
        for x in args:
            if type(x) is BatchTracer and x._trace is self:
                values.append(x.value)
                dims.append(x.dim)
                batched = True
            else:
                values.append(x)
                dims.append(None)
        thread = tracing.thread
        if primitive is inline_call_p and batched and type(self.parent) is StagingTrace and not thread.axes and all(
                [tracing.aval_of(x).plain for x in values]):
            program, out_dims = batch_program(params["jaxpr"], tuple(dims), self)
            return [self.wrap(x, d) for x, d in zip(self.parent.inline_jaxpr(program, values), out_dims)]
        axes, thread.axes = thread.axes, self.outer_axes
        try:
            with current_trace(self.parent):
                if primitive.mesh.over_axis is not None and self.axis_name in named_axes(params):
                    results, out_dims = primitive.mesh.over_axis(self, values, dims, **params)
                elif not batched and primitive.stage is None and not self.is_named_in(params):
                    # Not for primitives with `stage`: they contain a Python function, which may close over elements.
                    return self.parent.process(primitive, tuple(values), params)
                elif primitive.batch is not None:
                    results, out_dims = primitive.batch(self.size, values, dims, **params)
                elif primitive.batch_with_axis is not None:
                    results, out_dims = primitive.batch_with_axis(self, values, dims, **params)
                elif isinstance(primitive, ProgramCall):
                    results, out_dims = batch_of_call(primitive, self, values, dims, **params)
                else:
                    raise NotImplementedError(
                        f"{primitive.shown_as} cannot be mapped by vmap. Give the primitive {primitive.name} a rule with "
                        f"xlafront.interpreters.batching.primitive_batchers[primitive] = rule.")
        finally:
            thread.axes = axes
        if not primitive.multiple_results:
            return self.wrap(results, out_dims)
        return [self.wrap(x, d) for x, d in zip(results, out_dims)]

    def make_ref(self, primitive: Primitive, args: tuple, params: Params) -> Any:
        """Make a batch of references: writes may differ between elements even if the initial value does not."""
        value, dim = self.unwrap(args[0])
        with current_trace(self.parent):
            if dim is None:
                value, dim = place_axis(value, None, 0, self.size), 0
            return BatchTracer(self, self.parent.make_ref(primitive, (value,), params), dim)

    def is_named_in(self, params: Params) -> bool:
        """True if a jaxpr among the parameters has a collective over the mapped axis."""
        return self.axis_name is not None and any([has_collective_over(jaxpr, self.axis_name) for jaxpr in subprograms(params)])

    def map(self, fun: Callable, values: Sequence[Any], dims: Dims, size: int, axis_name: Any = None) -> tuple[list, list]:
        """Call `batch_flat`, for rules of collectives that map over a part of the axis."""
        return batch_flat(fun, values, dims, size, axis_name)

    def wrap(self, value: Any, dim: Any) -> Any:
        return value if dim is None else BatchTracer(self, value, dim)

    def unwrap(self, x: Any) -> tuple[Any, int | None]:
        return (x.value, x.dim) if type(x) is BatchTracer and x._trace is self else (x, None)


def has_collective_over(jaxpr: Jaxpr, axis_name: Any) -> bool:
    """True if a jaxpr has a collective over the axis."""
    return any_equation(jaxpr, ("has collective over", axis_name), lambda eqn: (
        eqn.primitive.mesh.over_axis is not None and axis_name in named_axes(eqn.params)))


def named_axes(params: Params) -> tuple:
    """Return the axes of a collective."""
    names = params["axes"] if "axes" in params else params["axis_name"]
    return names if isinstance(names, tuple) else (names,)


def batch_flat(fun: Callable[..., Sequence[Any]], values: Sequence[Any], dims: Dims, size: int,
               axis_name: Any = None, spmd_axis_name: Any = None) -> tuple[list[Any], list[int | None]]:
    """Apply a function of elements to batches; return the results and their batch dimensions, None if not batched."""
    trace = BatchTrace(tracing.thread.trace, size, axis_name, spmd_axis_name)
    saved = tracing.thread.axes
    if axis_name is not None:
        tracing.thread.axes = (*saved, (axis_name, size))
    try:
        with current_trace(trace):
            results = fun(*[trace.wrap(x, d) for x, d in zip(values, dims)])
            pairs = [trace.unwrap(x) for x in results]
    finally:
        tracing.thread.axes = saved
        trace.end()
    if config.check_tracer_leaks.value:
        ended = weakref.ref(trace)
        results = trace = None  # type: ignore[assignment]
        tracing.check_leaks(ended, "the function given to vmap")
    return [x for x, _ in pairs], [d for _, d in pairs]


# Jaxprs


def batch_program(closed: Jaxpr, dims: tuple, mapped: BatchTrace, batched: tuple[bool, ...] = (), splits: tuple = (),
                  at: int = 0, split: Any = None) -> tuple[Jaxpr, list]:
    """Return a jaxpr on the batches of a trace, and the batch dimension of each result.

    Args:
        closed: The jaxpr on elements.
        dims: Batch dimension of each input, None if not batched.
        mapped: The trace.
        batched: True for each result that is a batch along dimension `at` even if it is the same for all elements.
        splits: Shardings of the batches over explicit mesh axes.
        at: Batch dimension of the results marked in `batched`.
        split: Sharding of the batch dimension (`split_of`) of all inputs, and of the results marked in `batched`.
    """
    size, names = mapped.size, (mapped.axis_name, mapped.spmd_axis_name)

    def make() -> tuple[Jaxpr, list[int | None]]:
        def run(*xs: tracing.StagedTracer) -> tuple[list[Any], list[int | None]]:
            results, out_dims = batch_flat(closed, xs, dims, size, *names)
            for i, is_batched in enumerate(batched):
                if is_batched:
                    results[i], out_dims[i] = place_axis(results[i], out_dims[i], at, size, split), at
            return results, out_dims

        in_avals = [a if d is None else with_dimension(a, d, size, split) for a, d in zip(closed.in_avals, dims)]
        if splits:
            in_avals = [a if d is None or s is None else a.update(sharding=s) for a, d, s in zip(in_avals, dims, splits)]
        return tracing.trace_with_aux(run, in_avals, closed.debug_info.with_unknown_results())

    return closed.memoised(("batch", dims, size, names, batched, tracing.thread.axes, splits, at, split), make)


def split_of(operands: Sequence[Any], dims: Dims) -> Any:
    """Return the sharding of the batch dimension over explicit mesh axes, as that of a vector; None if it is not sharded."""
    for x, d in zip(operands, dims):
        aval = tracing.aval_of(x)
        if (entry := entry_of(aval, d)) is not None:
            return aval.explicit_sharding.update(spec=PartitionSpec(entry))
    return None


def batch_of_call(call: ProgramCall, trace: BatchTrace, operands: Sequence[Any], dims: Dims, /, **params: Any
                  ) -> tuple[list[Any], list[int | None]]:
    """Apply a call of a jaxpr to batches: a call of the batched jaxpr."""
    splits = tuple([tracing.aval_of(x).explicit_sharding for x in operands])
    program, out_dims = batch_program(params[call.parameter], tuple(dims), trace, (), splits if any(splits) else ())
    return call.bind(*operands, **call.batched(params, program, dims, out_dims, trace.spmd_axis_name)), out_dims
