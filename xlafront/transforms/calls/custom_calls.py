"""The base of functions with custom rules: their calls, and the treatment of these calls by traces.

A call is one equation whose parameters hold Python functions: the function itself (`fun`, on flat arguments) or, after
staging,
its jaxpr (`call_jaxpr`), and the rule that replaces a transformation of it.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base import typed_scalars
from xlafront.core import errors, source, tracing, tree
from xlafront.core.discharge import RuleNeedsReference, discharge_program
from xlafront.core.ir import (
    DebugInfo,
    Jaxpr,
    dce_jaxpr,
    effects_by_operand,
    keeps_alive,
)
from xlafront.core.primitive import MeshRules, Primitive, Structured, Traits
from xlafront.core.wrapping import update_wrapper
from xlafront.lax.barriers import stop_gradient_p
from xlafront.lax.shapes import broadcast_batch, squeeze
from xlafront.lax.slicing import slice_in_dim
from xlafront.staging import process_agreement, signatures
from xlafront.staging.library import as_value
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.ad.transpose import transpose_called
from xlafront.transforms.batching.vmap import batch_flat
from xlafront.transforms.calls.linear_util import WrappedFun, wrap_init

if TYPE_CHECKING:
    from xlafront.core.ir import JaxprEqn
    from xlafront.core.tracing import Trace
    from xlafront.core.tree import PyTreeDef
    from xlafront.core.typing import Dims, Params
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir
    from xlafront.transforms.batching.vmap import BatchTrace

_DEFINITIONS = ("defjvp", "defjvps", "defvjp", "defvjp_with_logs", "defvjp_with_accums", "defremat", "defremat_with_logs",
                "def_vmap")
_KEYWORD_KINDS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def positional_arguments(kind: str, fun: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Resolve the arguments of a call to positions, with defaults: rules take arguments by position only."""
    signature, name = signatures.signature_of(fun), signatures.function_name(fun)
    if signature is None:
        if not kwargs:
            return args
        problem = f"was called with the keyword arguments {', '.join(kwargs)}, and has no signature to find their positions in"
    else:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"the arguments of the {kind} function {name}{signature} could not be resolved to positions: "
                            f"{e}.") from None
        # Keyword-only parameters with defaults are not passed to rules. (`bound.kwargs` also has the parameters after an
        # omitted one.)
        without_position = [name for name in bound.arguments if signature.parameters[name].kind in _KEYWORD_KINDS]
        if not without_position:
            bound.apply_defaults()
            return bound.args
        problem = f"was called with the keyword arguments {', '.join(without_position)}, which have no position"
    raise TypeError(f"the {kind} function {name}{signature or ''} {problem}. Its rules take arguments by position, but the "
                    f"arguments could not be resolved to positions: give the function positional parameters only.")


class CustomFunction:
    """A function with custom rules: the base class of `custom_jvp`, `custom_vjp` and `custom_vmap`."""

    kind: str
    fun: Callable
    nondiff_argnums: tuple[int, ...]

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] | str = ()) -> None:
        update_wrapper(self, fun)
        self.fun = fun
        code = getattr(fun, "__code__", None)
        # Calls with exactly the positional parameters skip the signature.
        self._arity = None if code is None or code.co_kwonlyargcount or hasattr(fun, "__wrapped__") else code.co_argcount
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
        try:
            positions = {i.__index__() for i in nondiff_argnums}
        except (TypeError, AttributeError):
            raise TypeError(f"{self.kind} takes nondiff_argnums as a tuple of positions, got {nondiff_argnums!r}.") from None
        if names:
            signature = signatures.signature_of(fun)
            parameter_names = () if signature is None else tuple(signature.parameters)
            positions.update(i for i, name in enumerate(parameter_names) if name in names)
        self.nondiff_argnums = tuple(sorted(positions))

    @property
    def _name(self) -> str:
        return signatures.function_name(self.fun)

    def __getattr__(self, name: str) -> Any:
        # A function decorated twice accepts rules of both kinds.
        fun = self.__dict__.get("fun")
        if name in _DEFINITIONS and isinstance(fun, CustomFunction):
            return getattr(fun, name)
        shown = self.kind if fun is None else f"the {self.kind} function {signatures.function_name(fun)}"
        raise AttributeError(f"{shown} has no attribute {name!r}")

    def positional(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Resolve the arguments to positions, with defaults."""
        if not kwargs and len(args) == self._arity:
            return args
        return positional_arguments(self.kind, self.fun, args, kwargs)

    def split_nondiff(self, args: tuple) -> tuple[tuple, tuple]:
        """Split the arguments into non-differentiable and differentiable ones."""
        if not self.nondiff_argnums:
            return (), args
        count = len(args)
        if not -count <= self.nondiff_argnums[0] <= self.nondiff_argnums[-1] < count:
            raise IndexError(f"nondiff_argnums of {self._name} are {self.nondiff_argnums}, but it was called with {count} "
                             f"argument(s). Positions count from 0.")
        fixed = {i % count for i in self.nondiff_argnums}
        return tuple(args[i] for i in sorted(fixed)), tuple(x for i, x in enumerate(args) if i not in fixed)

    def merge_nondiff(self, nondiff: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Merge arguments split by `split_nondiff`."""
        if not self.nondiff_argnums:
            return list(args)
        count = len(nondiff) + len(args)
        fixed = {i % count for i in self.nondiff_argnums}
        next_nondiff, next_arg = iter(nondiff), iter(args)
        return [next(next_nondiff) if i in fixed else next(next_arg) for i in range(count)]

    def operands(self, args: tuple) -> tuple[list[Any], Any]:
        """Flatten the arguments; every leaf must be an array."""
        leaves, in_tree = tree.flatten(args)
        for i, x in enumerate(leaves):
            if not tracing.is_arraylike(x):
                remedy = "" if self.kind == "custom_vmap" else " Declare arguments that are not arrays with nondiff_argnums."
                raise TypeError(str(errors.not_an_array(x, f"the {self.kind} function {self._name}",
                                                        self.argument_path(args, i))) + remedy)
        return leaves, in_tree

    def runs_eagerly(self, leaves: Sequence[Any]) -> bool:
        """True if nothing is traced, so that no rule applies."""
        return tracing.thread.trace is tracing.eval_trace and not any([isinstance(x, tracing.Tracer) for x in leaves])

    def argument_path(self, args: tuple, index: int) -> str:
        """Return the name of a leaf of the differentiable arguments, such as `params['w']`."""
        path = tree.flatten_with_path(args)[0][index][0]
        position = path[0].idx
        count = len(args) + len(self.nondiff_argnums)
        fixed = {i % count for i in self.nondiff_argnums}
        position = [i for i in range(count) if i not in fixed][position]
        signature = signatures.signature_of(self.fun)
        names = [] if signature is None else [
            p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return (names[position] if position < len(names) else f"args[{position}]") + tree.keystr(path[1:])


class Rule:
    """A flat function in an equation's parameters, printed as the user's function. `source` holds the user's function, the
    tree of its positional arguments, and the positions of static ones."""

    __slots__ = ("apply", "name", "source")

    def __init__(self, apply: Callable, name: str, source: tuple[Callable, Any, Sequence[int]] | None = None) -> None:
        self.apply, self.name, self.source = apply, name, source

    def __call__(self, *args: Any) -> Any:
        return self.apply(*args)

    def with_apply(self, apply: Callable) -> Rule:
        """Return the rule with a transformed function."""
        return Rule(apply, self.name)

    def debug_info_of(self, role: str) -> DebugInfo:
        if self.source is None:
            return DebugInfo(role, self.name)
        fun, in_tree, static_argnums = self.source
        return signatures.debug_info_of(role, fun, in_tree, static=static_argnums)

    def __repr__(self) -> str:
        return self.name


class Results:
    """The types and trees of results, recorded by the first run of the function or its rule."""

    __slots__ = ("out_tree", "avals", "rule_tree", "residual_tree", "pullback")

    out_tree: Any
    avals: Any
    rule_tree: Any
    residual_tree: Any
    pullback: Any

    def __init__(self) -> None:
        self.out_tree = self.avals = self.rule_tree = self.residual_tree = self.pullback = None

    def trees(self) -> tuple[Any, Any]:
        """Return the trees of the results and the residuals, after the forward rule has run."""
        if self.residual_tree is None:
            raise RuntimeError("the structure of residuals is known only after the forward rule has run: call it first.")
        return self.rule_tree, self.residual_tree

    def pullback_flat(self, *residuals_and_cotangents: Any) -> Any:
        """Apply the backward rule to flat values, for libraries that find it in an equation."""
        count = self.trees()[1].num_leaves
        return self.pullback(residuals_and_cotangents[:count], residuals_and_cotangents[count:])

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        return (self.out_tree if self.out_tree is not None else self.rule_tree).unflatten(leaves)

    def record_result(self, fun: Callable, value: Any) -> list[Any]:
        leaves, self.out_tree = signatures.check_results(fun, value)
        self.avals = [tracing.aval_of(x) for x in leaves]
        return leaves

    def check_rule_result(self, rule: str, name: str, value: Any, leaves: Sequence[Any], out_tree: PyTreeDef) -> None:
        """Check that the rule's primal results have the types of the function's, if it has run."""
        self.rule_tree = out_tree
        if self.out_tree is None:
            return
        if out_tree != self.out_tree:
            raise TypeError(f"{rule} must return the result of {name} first, with the same structure: {name} returns "
                            f"{self.out_tree}, the rule returned {out_tree}.")
        for i, (x, expected) in enumerate(zip(leaves, self.avals)):
            aval = tracing.aval_of(x)
            if (aval.shape, aval.dtype) != (expected.shape, expected.dtype):
                raise TypeError(f"{rule} must return the result of {name} first, with the same shapes and dtypes: at "
                                f"result{tree.path_of(value, i)} {name} returns {expected}, the rule returned {aval}.")


class BatchContext:
    """The parameters of a `vmap` that batched a call, for running the function or its rule on elements later."""

    __slots__ = ("size", "axis_name", "spmd_axis_name", "trace", "thread", "out_dims")

    def __init__(self, trace: BatchTrace) -> None:
        self.out_dims: Sequence[int | None] = ()  # of the last run; None for an unbatched result
        self.size, self.axis_name, self.spmd_axis_name = trace.size, trace.axis_name, trace.spmd_axis_name
        self.trace = weakref.ref(trace)  # jaxprs may outlive the trace
        self.thread = threading.get_ident()

    def apply(self, fun: Callable[..., Sequence[Any]], values: Sequence[Any], dims: Sequence[int | None]
              ) -> tuple[list[Any], list[int | None]]:
        """Apply a function of elements to batches over the current trace.

        While the `vmap` is active, its own trace processes the elements, because the function may close over batched values.
        """
        trace = self.trace()
        if trace is None or not trace.alive or self.thread != threading.get_ident():
            return batch_flat(fun, values, dims, self.size, self.axis_name, self.spmd_axis_name)
        thread = tracing.thread
        saved, axes = (trace.parent, trace.outer_axes), thread.axes
        trace.parent, trace.outer_axes = thread.trace, axes
        if self.axis_name is not None:
            thread.axes = (*axes, (self.axis_name, self.size))
        try:
            with tracing.current_trace(trace):
                pairs = [trace.unwrap(x) for x in fun(*[trace.wrap(x, d) for x, d in zip(values, dims)])]
        finally:
            trace.parent, trace.outer_axes = saved
            thread.axes = axes
        return [x for x, _ in pairs], [d for _, d in pairs]

    def apply_and_broadcast(self, fun: Callable[..., Sequence[Any]], values: Sequence[Any],
                            dims: Sequence[int | None]) -> list[Any]:
        """Do the same as `apply`, with every result batched along its first dimension."""
        return self.broadcast_to_front(*self.apply(fun, values, dims))

    def broadcast_to_front(self, values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
        return [broadcast_batch(x, d, self.size) for x, d in zip(values, dims)]


def all_in_scope(values: Sequence[Any]) -> bool:
    """True if all traced values belong to traces that are current or enclose the current one."""
    for x in values:
        if isinstance(x, tracing.Tracer):
            trace = tracing.thread.trace
            while trace is not x._trace:
                trace = trace.parent
                if trace is None:
                    return False
    return True


def stage_function(fun: Callable[..., Sequence[Any]], operands: Sequence[Any], debug_info: DebugInfo
                   ) -> tuple[Jaxpr, list[Any]]:
    """Trace a flat function; return the jaxpr with its constants as leading inputs, and the constants."""
    jaxpr, consts = tracing.trace_to_jaxpr(fun, [tracing.aval_of(x) for x in operands], debug_info)
    if not all_in_scope(consts):
        raise closure_error(debug_info.traced_for.removesuffix(" fun"), debug_info.function_name)
    return jaxpr.with_constants_as_inputs(), consts


class CustomCall(Primitive):
    """A primitive of calls with a custom rule.

    The first `num_consts` operands are values that the function closes over, which rules do not get; the others are the
    arguments. `parameter` names the parameter that holds the jaxpr, `constants` the one that counts the closed-over values.
    Subclasses define three methods that return updated parameters: `batched(mapped, dims, params)` for a call on batches,
    `prune(params, used, out_avals)` for a call with fewer results, and `params_on_values(params, refs)` for a call that takes
    values
    instead of Refs.
    """

    __slots__ = ()

    stops_written_tangents = False  # True if its rule has no tangents for values written to Refs
    parameter, constants = "call_jaxpr", "num_consts"
    batched: Callable[..., Params]
    prune: Callable[..., Params]

    def __init__(self, name: str, shown_as: str, traits: Traits = Traits(), **fields: Any) -> None:
        super().__init__(
            name, multiple_results=True, shown_as=shown_as, abstract=self._abstract, effects=self._effects, lower=self._lower,
            impl=self._impl, transpose=self._transpose, stage=self._stage, batch_with_axis=self._batch,
            structured=Structured(dce=self._dce, discharge=_discharge), mesh=MeshRules(changes_groups=self._changes_groups),
            traits=traits._replace(memoise=False, calls_custom_rule=True), **fields)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Bind the call; `subfuns` are the function and rules wrapped by other libraries, see `get_bind_params`."""
        if "subfuns" in params:
            params = self.params_from_subfuns(**params)
        return tracing.thread.trace.process(self, args, params)

    def bind_with_trace(self, trace: Trace, args: Any, *avals_and_params: Any) -> Any:
        with tracing.current_trace(trace):
            return self.bind(*args, **avals_and_params[-1])

    def params_from_subfuns(self, subfuns: Sequence[WrappedFun], **options: Any) -> dict[str, Any]:
        """Return the parameters for transformed `subfuns` of `get_bind_params`."""
        raise TypeError(f"{self.shown_as} takes no subfuns.")

    def wrapped_function(self, params: dict[str, Any]) -> WrappedFun:
        """Return the called function on flat operands, in the wrapper that other libraries expect."""
        return wrap_init(self.callable_of(params), debug_info=DebugInfo(self.shown_as, self.name_of(params)))

    def callable_of(self, params: dict[str, Any]) -> Callable[..., Sequence[Any]]:
        """Return the called function on flat operands."""
        closed = params.get(self.parameter)
        return params["fun"] if closed is None else closed

    def name_of(self, params: dict[str, Any]) -> str:
        """Return the name of the called function."""
        closed = params.get(self.parameter)
        return params["fun"].name if closed is None else closed.debug_info.function_name

    def number_of_consts(self, params: dict[str, Any]) -> int:
        return params[self.constants]

    def with_program(self, params: dict[str, Any], closed: Jaxpr, more_consts: int) -> dict[str, Any]:
        """Return the parameters of a call of the jaxpr, which takes `more_consts` additional constants."""
        rest = {k: v for k, v in params.items() if k != "fun"}
        return rest | {self.parameter: closed, self.constants: params[self.constants] + more_consts}

    def params_on_values(self, params: Params, refs: RefArguments) -> Params:
        raise _needs_references(self.name_of(params))

    def _changes_groups(self, **params: Any) -> bool:
        return process_agreement.changes_groups(params[self.parameter])

    def _abstract(self, *_: Any, **params: Any) -> list[Any]:
        return params[self.parameter].out_avals

    def _effects(self, *_: Any, **params: Any) -> frozenset:
        return effects_by_operand(params[self.parameter])

    def _impl(self, *args: Any, **params: Any) -> Sequence[Any]:
        results = self.callable_of(params)(*args)
        if not all_in_scope(results):
            raise closure_error("custom", self.name_of(params))
        return results

    def _lower(self, ctx: RuleContext, *operands: ir.Value, **params: Any) -> list[ir.Value]:
        return ctx.inline(params[self.parameter], operands)

    def _transpose(self, cts: Sequence[Any], *operands: Any, **params: Any) -> list[Any]:
        """Transpose the function's own equations: the call is linear already, and its rule no longer applies."""
        closed = params[self.parameter]
        return transpose_called(closed, cts, operands, lambda program, values, *_: program(*values))

    def _dce(self, used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        """Drop unused results; all arguments stay, because the rule may read them."""
        closed = eqn.params[self.parameter]
        if not any(used) and not keeps_alive(closed.effects):
            return None
        if all(used):
            return eqn
        jaxpr, _ = dce_jaxpr(closed, used, True)
        params = eqn.params | {self.parameter: jaxpr}
        params |= self.prune(params, used, closed.out_avals)
        return eqn.replace(outvars=[v for v, live in zip(eqn.outvars, used) if live], params=params)

    def _stage(self, trace: Trace, args: Sequence[Any], params: Params) -> Any:
        """Rewrite the call when it is staged; None stages it unchanged."""
        if isinstance(trace, LinearTrace):  # the call is linear already: its rule no longer applies
            return self.callable_of(params)(*args)
        return self.stage_call(trace, args, params)

    def stage_call(self, trace: Trace, args: Sequence[Any], params: Params) -> Any:
        if self.parameter in params:
            return None
        fun = params["fun"]
        closed, consts = stage_function(fun, args, fun.debug_info_of(f"{self.shown_as} fun"))
        return trace.process(self, (*consts, *args), self.with_program(params, closed, len(consts)))

    def _batch(self, trace: BatchTrace, values: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
        """Bind the call on batches. All its results are batched, so that those of the function and of the rule agree in
        type; unbatched results are then taken from the first element."""
        if all([d is None for d in dims]) and not trace.is_named_in(params):
            try:
                results = self.bind(*values, **params)
                return results, [None] * len(results)
            except (errors.UnexpectedTracerError, NameError):
                # An unstaged function may close over batched values or use the mapped axis.
                if self.parameter in params:
                    raise
        function, mapped = self.callable_of(params), BatchContext(trace)

        def fun(*xs: Any) -> list[Any]:
            outputs, out_dims = mapped.apply(function, xs, dims)
            mapped.out_dims = out_dims
            return mapped.broadcast_to_front(outputs, out_dims)

        updated_params = self.batched(mapped, tuple(dims[self.number_of_consts(params):]), params)
        params_without_jaxpr = {k: v for k, v in params.items() if k != self.parameter}
        results = self.bind(*values, **params_without_jaxpr | {"fun": Rule(fun, self.name_of(params))} | updated_params)
        return [x if d is not None else first_element(x) for x, d in zip(results, mapped.out_dims)], [
            None if d is None else 0 for d in mapped.out_dims]


def _discharge(primitive: CustomCall, refs: Sequence[Any], operands: Sequence[Any], params: Params, keep_rules: bool
               ) -> tuple[list[Any], dict[int, Any]]:
    """Bind the call on values instead of Refs, or inline its discharged jaxpr if rules are no longer needed."""
    closed, first = params[primitive.parameter], primitive.number_of_consts(params)
    is_ref = [r is not None for r in refs]
    discharged, written = discharge_program(closed, is_ref, keep_rules)
    if not keep_rules:
        results = discharged(*operands)
    elif any([i < first for i in written]):
        raise _needs_references(primitive.name_of(params))
    else:  # closed-over Refs that are only read do not concern the rule
        updated_params = primitive.params_on_values(params, RefArguments(is_ref[first:], [i - first for i in written])) if any(
            is_ref[first:]) else {}
        results = primitive.bind(*operands, **params | {primitive.parameter: discharged} | updated_params)
    count = len(closed.out_avals)
    if keep_rules and primitive.stops_written_tangents:
        results = [*results[:count], *map(stop_gradient_p.bind, results[count:])]
    return results[:count], dict(zip(written, results[count:]))


def _needs_references(name: str) -> RuleNeedsReference:
    return RuleNeedsReference(
        f"{name} (at {source.describe(source.thread.site)}) has a custom derivative or batching rule and writes to a "
        f"reference that it closes over, inside of a loop or a branch that is transformed. Pass the reference "
        f"as an argument, which its rule also gets (and do not use optimize_remat).")


class RefArguments:
    """Which arguments of a call are Refs and which of them are written to. The call takes their values and returns the
    final values of written ones last; the rule gets Refs created from the values."""

    __slots__ = ("is_ref", "written")

    def __init__(self, is_ref: Sequence[bool], written: Sequence[int]) -> None:
        self.is_ref, self.written = is_ref, written

    def make_refs(self, values: Sequence[Any]) -> list[Any]:
        from xlafront.lax import refs  # start-up: 1.2 ms, for programs with references

        return [refs.new_ref(x) if ref else x for x, ref in zip(values, self.is_ref)]

    def read_written(self, arguments: Sequence[Any]) -> list[Any]:
        from xlafront.lax import refs  # start-up: 1.2 ms, for programs with references

        return [refs.get(arguments[i]) for i in self.written]


def first_element(x: Any) -> Any:
    """Return the first element of a batch."""
    return squeeze(slice_in_dim(x, 0, 1), (0,))


def type_string(aval: Any) -> str:
    """Format a type for messages, with float0 for the tangents of integers."""
    return str(aval).replace("void", "float0")


def as_array(x: Any) -> Any:
    """Convert Python scalars and NumPy arrays to values with a dtype and weak type for functions and rules. Python
    integers, and all Python scalars while staging, stay scalars, so that `if` and `range` can use their values."""
    if type(x) in (float, complex) and tracing.staging_trace() is None:
        return as_value(tracing.thread.trace, x)
    return as_operand(x)


def as_operand(x: Any) -> Any:
    """Do the same as `as_array`, for functions that take Python scalars as scalars."""
    if type(x) in (int, float, complex):
        return typed_scalars.typed(x, tracing.aval_of(x).dtype)
    return as_value(tracing.thread.trace, x) if isinstance(x, (np.generic, np.ndarray)) else x


def closure_error(kind: str, name: str) -> errors.UnexpectedTracerError:
    return errors.UnexpectedTracerError(
        f"{name} is differentiated with respect to a value that it closes over, but its {kind} rule covers only "
        f"the arguments. Pass the value as an argument (custom_derivatives.closure_convert finds such values), or "
        f"hold it constant with lax.stop_gradient.")


def leak_error(rule: str, error: errors.UnexpectedTracerError | str = "") -> errors.UnexpectedTracerError:
    return errors.UnexpectedTracerError(
        f"{rule} closes over a traced value, which is unavailable when the rule runs: pass the "
        f"value as an argument of the function. {error}")
