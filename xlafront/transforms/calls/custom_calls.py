"""What functions with rules of their own have in common: how they are called, and how traces treat the calls.

A call is one operation whose parameters hold Python functions: the function itself (`fun`, flat) or, once a program
under construction has met it, its program (`call_jaxpr`), and the rule that replaces what a transformation would do.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import errors, source, tracing, tree, typed_numbers
from xlafront.core.discharge import RuleNeedsReference, discharge_program
from xlafront.core.ir import (
    ClosedJaxpr,
    DebugInfo,
    dce_jaxpr,
    effects_by_operand,
    jaxpr_as_fun,
    keeps_alive,
)
from xlafront.core.linear_util import WrappedFun, wrap_init
from xlafront.core.primitive import Primitive
from xlafront.core.wrapping import update_wrapper
from xlafront.lax.barriers import stop_gradient_p
from xlafront.lax.shapes import broadcast_batch, squeeze
from xlafront.lax.slicing import slice_in_dim
from xlafront.staging import process_agreement, signatures
from xlafront.staging.library import as_value
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.ad.transpose import transpose_called
from xlafront.transforms.batching.vmap import batch_flat

_WITHOUT_POSITION = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def positional_arguments(kind: str, fun: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """The arguments of a call by position, with defaults: what is given along with a function knows them by position alone."""
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
        # Those that have defaults alone are none that rules would have to know. (`bound.kwargs` has more: all that stand after
        # one that is left out.)
        given = [name for name in bound.arguments if signature.parameters[name].kind in _WITHOUT_POSITION]
        if not given:
            bound.apply_defaults()
            return bound.args
        problem = f"was called with the keyword arguments {', '.join(given)}, which have no position"
    raise TypeError(f"the {kind} function {name}{signature or ''} {problem}. What is given along with it knows its arguments "
                    f"by position, and they could not be resolved to positions: give it positional parameters only.")


class CustomFunction:
    """A function together with rules for it: base of `custom_jvp`, `custom_vjp` and `custom_vmap`."""

    kind: str
    fun: Callable
    nondiff_argnums: tuple[int, ...]

    def __init__(self, fun: Callable, nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] | str = ()):
        update_wrapper(self, fun)
        self.fun = fun
        code = getattr(fun, "__code__", None)
        # Calls with exactly the positional parameters need not ask for the signature.
        self._arity = None if code is None or code.co_kwonlyargcount or hasattr(fun, "__wrapped__") else code.co_argcount
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
        try:
            positions = {i.__index__() for i in nondiff_argnums}
        except (TypeError, AttributeError):
            raise TypeError(f"{self.kind} takes nondiff_argnums as a tuple of positions, got {nondiff_argnums!r}.") from None
        if names:
            signature = signatures.signature_of(fun)
            known = () if signature is None else tuple(signature.parameters)
            positions.update(i for i, name in enumerate(known) if name in names)
        self.nondiff_argnums = tuple(sorted(positions))

    @property
    def _name(self) -> str:
        return signatures.function_name(self.fun)

    def __getattr__(self, name: str):
        # Rules of another kind can be given to a function that has been decorated twice.
        if name in ("defjvp", "defjvps", "defvjp", "def_vmap") and isinstance(self.__dict__.get("fun"), CustomFunction):
            return getattr(self.fun, name)
        raise AttributeError(f"the {self.kind} function {self.__dict__.get('__name__', '')} has no attribute {name!r}")

    def positional(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """The arguments by position, with defaults: rules know arguments by position alone."""
        if not kwargs and len(args) == self._arity:
            return args
        return positional_arguments(self.kind, self.fun, args, kwargs)

    def divided(self, args: tuple) -> tuple[tuple, tuple]:
        """The non-differentiable arguments, and the others."""
        if not self.nondiff_argnums:
            return (), args
        count = len(args)
        if not -count <= self.nondiff_argnums[0] <= self.nondiff_argnums[-1] < count:
            raise IndexError(f"nondiff_argnums of {self._name} are {self.nondiff_argnums}, but it was called with {count} "
                             f"argument(s). Positions count from 0.")
        fixed = {i % count for i in self.nondiff_argnums}
        return tuple(args[i] for i in sorted(fixed)), tuple(x for i, x in enumerate(args) if i not in fixed)

    def joined(self, nondiff: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """The inverse of `divided`."""
        if not self.nondiff_argnums:
            return list(args)
        count = len(nondiff) + len(args)
        fixed = {i % count for i in self.nondiff_argnums}
        first, second = iter(nondiff), iter(args)
        return [next(first) if i in fixed else next(second) for i in range(count)]

    def operands(self, args: tuple) -> tuple[list[Any], Any]:
        """The leaves of the arguments and their tree; every leaf must be an array."""
        leaves, in_tree = tree.flatten(args)
        for i, x in enumerate(leaves):
            if not tracing.is_arraylike(x):
                remedy = "" if self.kind == "custom_vmap" else " Arguments that are not arrays go into nondiff_argnums."
                raise TypeError(str(errors.not_an_array(x, f"the {self.kind} function {self._name}",
                                                        self.argument_path(args, i))) + remedy)
        return leaves, in_tree

    def runs_at_once(self, leaves: Sequence[Any]) -> bool:
        """Whether nothing is being traced, so that no rule has a say."""
        return tracing.thread.trace is tracing.eval_trace and not any([isinstance(x, tracing.Tracer) for x in leaves])

    def argument_path(self, args: tuple, index: int) -> str:
        """The name of a leaf of the differentiable arguments: `params['w']`."""
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
    """A function in an equation's parameters, flat: prints as the user's. `written` is the user's, the structure of its
    positional arguments, and the positions of others."""

    __slots__ = ("apply", "name", "written")

    def __init__(self, apply: Callable, name: str, written: tuple[Callable, Any, Sequence[int]] | None = None):
        self.apply, self.name, self.written = apply, name, written

    def __call__(self, *args):
        return self.apply(*args)

    def around(self, apply: Callable) -> Rule:
        """What a transformation makes of it."""
        return Rule(apply, self.name)

    def origin(self, role: str) -> DebugInfo:
        if self.written is None:
            return DebugInfo(role, self.name)
        fun, in_tree, others = self.written
        return signatures.origin(role, fun, in_tree, static=others)

    def __repr__(self):
        return self.name


class Results:
    """What running the function or its rule, whichever came first, has shown of the results."""

    __slots__ = ("out_tree", "avals", "tree_of_rule", "residual_tree", "pullback")

    def __init__(self) -> None:
        self.out_tree = self.avals = self.tree_of_rule = self.residual_tree = self.pullback = None

    def trees(self):
        """Those of the results and of the residuals, once a forward rule has run."""
        if self.residual_tree is None:
            raise RuntimeError("the structure of residuals is known when the forward rule has run: call it first.")
        return self.tree_of_rule, self.residual_tree

    def pull_back(self, *residuals_and_cotangents):
        """The backward rule on flat values, as libraries call it that find it in an equation."""
        count = self.trees()[1].num_leaves
        return self.pullback(residuals_and_cotangents[:count], residuals_and_cotangents[count:])

    def unflatten(self, leaves: Sequence[Any]):
        return (self.out_tree if self.out_tree is not None else self.tree_of_rule).unflatten(leaves)

    def of_function(self, fun: Callable, value: Any) -> list[Any]:
        leaves, self.out_tree = signatures.check_results(fun, value)
        self.avals = [tracing.aval_of(x) for x in leaves]
        return leaves

    def of_rule(self, rule: str, name: str, value: Any, leaves: Sequence[Any], out_tree) -> None:
        """The rule's primal results must be those of the function, where it has been run."""
        self.tree_of_rule = out_tree
        if self.out_tree is None:
            return
        if out_tree != self.out_tree:
            raise TypeError(f"{rule} must return the result of {name} first, with the same structure: {name} returns "
                            f"{self.out_tree}, the rule returned {out_tree}.")
        for i, (x, expected) in enumerate(zip(leaves, self.avals)):
            given = tracing.aval_of(x)
            if (given.shape, given.dtype) != (expected.shape, expected.dtype):
                raise TypeError(f"{rule} must return the result of {name} first, with the same shapes and dtypes: at "
                                f"result{tree.path_of(value, i)} {name} returns {expected}, the rule returned {given}.")


class Mapped:
    """A `vmap` that has met a call, for what runs on elements later: the function, or its rule."""

    __slots__ = ("size", "axis_name", "spmd_axis_name", "trace", "thread", "out_dims")

    def __init__(self, trace):
        self.out_dims: Sequence[int | None] = ()  # of what ran last: None for a result that is the same for all elements
        self.size, self.axis_name, self.spmd_axis_name = trace.size, trace.axis_name, trace.spmd_axis_name
        self.trace = weakref.ref(trace)  # programs outlive it
        self.thread = threading.get_ident()

    def apply(self, fun: Callable[..., Sequence[Any]], values: Sequence[Any], dims: Sequence[int | None]
              ) -> tuple[list[Any], list[int | None]]:
        """Apply a function of elements to batches, over the trace that is current now.

        While the `vmap` is under way its own trace processes the elements, because the function may close over some.
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

    def apply_in_front(self, fun: Callable[..., Sequence[Any]], values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
        """As `apply`, with every result a batch along its first dimension."""
        return self.in_front(*self.apply(fun, values, dims))

    def in_front(self, values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
        return [broadcast_batch(x, d, self.size) for x, d in zip(values, dims)]


def all_in_scope(values: Sequence[Any]) -> bool:
    """Whether the traced values among these belong to traces that are current or enclose the current one."""
    for x in values:
        if isinstance(x, tracing.Tracer):
            trace = tracing.thread.trace
            while trace is not x._trace:
                trace = trace.parent
                if trace is None:
                    return False
    return True


def stage_function(fun: Callable[..., Sequence[Any]], operands: Sequence[Any], debug_info: DebugInfo
                   ) -> tuple[ClosedJaxpr, list[Any]]:
    """The program of a flat function with what it closes over as leading operands, and those."""
    jaxpr, consts = tracing.trace_to_jaxpr(fun, [tracing.aval_of(x) for x in operands], debug_info)
    if not all_in_scope(consts):
        raise closed_over(debug_info.traced_for.removesuffix(" fun"), debug_info.function_name)
    return ClosedJaxpr(jaxpr.with_constants_as_inputs()), consts


class CustomCall(Primitive):
    """The primitive of calls with a rule. Each operand after the first `num_consts` is an argument.

    The first `num_consts` are what the function closes over: the rules do not see them. `parameter` is the one that holds the
    program, `constants` the one that counts what it closes over. Subclasses define
    `batched(mapped, dims, params)`, the parameters that the call on batches has in place of those of the elements,
    `prune(params, used, out_avals)`, those that it has when only some of its results are used, and
    `on_values(params, refs)`, those that it has when it takes values in place of references.
    """

    __slots__ = ()

    custom_rule = True
    writes_constants = False  # whether its rule gives no tangents of what it writes to references
    parameter, constants = "call_jaxpr", "num_consts"

    def __init__(self, name: str, shown_as: str, **fields):
        super().__init__(
            name, multiple_results=True, memoise=False, shown_as=shown_as, abstract=self._abstract, effects=self._effects,
            lower=self._lower, impl=self._impl, transpose=self._transpose, dce=self._dce, discharge=_discharge, **fields)

    def bind(self, *args, **params):
        """As libraries call it that have wrapped the function and its rules: with these as `subfuns`."""
        if "subfuns" in params:
            params = self.of_wrapped(**params)
        return tracing.thread.trace.process(self, args, params)

    def bind_with_trace(self, trace, args, *avals_and_params):
        with tracing.current_trace(trace):
            return self.bind(*args, **avals_and_params[-1])

    def of_wrapped(self, subfuns: Sequence[WrappedFun], **options) -> dict[str, Any]:
        """The parameters that `get_bind_params` was asked for, from what became of them."""
        raise TypeError(f"{self.shown_as} takes no subfuns.")

    def wrapped_function(self, params: dict[str, Any]) -> WrappedFun:
        """The function that an operation calls, on flat operands, as libraries wrap it."""
        return wrap_init(self.run_of(params), debug_info=DebugInfo(self.shown_as, self.name_of(params)))

    def run_of(self, params: dict[str, Any]) -> Callable[..., Sequence[Any]]:
        """The function that an operation calls, on flat operands."""
        closed = params.get(self.parameter)
        return params["fun"] if closed is None else jaxpr_as_fun(closed)

    def name_of(self, params: dict[str, Any]) -> str:
        """The name of that function."""
        closed = params.get(self.parameter)
        return params["fun"].name if closed is None else closed.debug_info.function_name

    def number_of_consts(self, params: dict[str, Any]) -> int:
        return params[self.constants]

    def with_program(self, params: dict[str, Any], closed: ClosedJaxpr, more_consts: int) -> dict[str, Any]:
        """The parameters of the call of a program, which takes more of what the function closes over as operands."""
        rest = {k: v for k, v in params.items() if k != "fun"}
        return rest | {self.parameter: closed, self.constants: params[self.constants] + more_consts}

    def on_values(self, params, refs):
        raise _needs_references(self.name_of(params))

    def changes_groups(self, **params):
        return process_agreement.changes_groups(params[self.parameter].jaxpr)

    def _abstract(self, *_, **params):
        return params[self.parameter].out_avals

    def _effects(self, *_, **params):
        return effects_by_operand(params[self.parameter])

    def _impl(self, *args, **params):
        results = self.run_of(params)(*args)
        if not all_in_scope(results):
            raise closed_over("custom", self.name_of(params))
        return results

    def _lower(self, ctx, *operands, **params):
        return ctx.inline(params[self.parameter], operands)

    def _transpose(self, cts, *operands, **params):
        """Linear already, so that the rule has no more to say: the operations of the function are transposed."""
        closed = params[self.parameter]
        return transpose_called(closed, cts, operands, lambda program, values, *_: jaxpr_as_fun(program)(*values))

    def _dce(self, used: list[bool], eqn):
        """Unused results go; arguments stay, because the rule may read them."""
        closed = eqn.params[self.parameter]
        if not any(used) and not keeps_alive(closed.effects):
            return None
        if all(used):
            return eqn
        jaxpr, _ = dce_jaxpr(closed.jaxpr, used, True)
        params = eqn.params | {self.parameter: ClosedJaxpr(jaxpr, closed.consts)}
        params |= self.prune(params, used, closed.out_avals)
        return eqn.replace(outvars=[v for v, keep in zip(eqn.outvars, used) if keep], params=params)

    def stage(self, trace, args, params):
        """Called when the operation is to be written down; None means as it is."""
        if isinstance(trace, LinearTrace):  # linear already: the rule has no more to say
            return self.run_of(params)(*args)
        return self.stage_call(trace, args, params)

    def stage_call(self, trace, args, params):
        if self.parameter in params:
            return None
        fun = params["fun"]
        closed, consts = stage_function(fun, args, fun.origin(f"{self.shown_as} fun"))
        return trace.process(self, (*consts, *args), self.with_program(params, closed, len(consts)))

    def batch_with_axis(self, trace, values, dims, **params):
        """The call on batches. Every result of it is one, so that those of the function and of the rule are of the same types;
        of what turns out to be the same for all elements the first one is taken."""
        if all([d is None for d in dims]) and not trace.is_named_in(params):
            try:
                results = self.bind(*values, **params)
                return results, [None] * len(results)
            except (errors.UnexpectedTracerError, NameError):
                # A function that is not a program yet may close over elements, or work over the axis that is mapped.
                if self.parameter in params:
                    raise
        run, mapped = self.run_of(params), Mapped(trace)

        def fun(*xs):
            found, found_dims = mapped.apply(run, xs, dims)
            mapped.out_dims = found_dims
            return mapped.in_front(found, found_dims)

        changed = self.batched(mapped, tuple(dims[self.number_of_consts(params):]), params)
        rest = {k: v for k, v in params.items() if k != self.parameter}
        results = self.bind(*values, **rest | {"fun": Rule(fun, self.name_of(params))} | changed)
        return [x if d is not None else take_row(x) for x, d in zip(results, mapped.out_dims)], [
            None if d is None else 0 for d in mapped.out_dims]


def _discharge(primitive, refs, operands, params, keep_rules):
    """The call on values, or what its program of values does where no rule asks for the call any more."""
    closed, first = params[primitive.parameter], primitive.number_of_consts(params)
    marks = [r is not None for r in refs]
    program, written = discharge_program(closed, marks, keep_rules)
    if not keep_rules:
        results = jaxpr_as_fun(program)(*operands)
    elif any([i < first for i in written]):
        raise _needs_references(primitive.name_of(params))
    else:  # (of what the function only reads and closes over, the rule does not know)
        changed = primitive.on_values(params, RefArguments(marks[first:], [i - first for i in written])) if any(
            marks[first:]) else {}
        results = primitive.bind(*operands, **params | {primitive.parameter: program} | changed)
    count = len(closed.out_avals)
    if keep_rules and primitive.writes_constants:
        results = [*results[:count], *map(stop_gradient_p.bind, results[count:])]
    return results[:count], dict(zip(written, results[count:]))


def _needs_references(name: str) -> RuleNeedsReference:
    return RuleNeedsReference(
        f"{name} (at {source.describe(source.thread.site)}) has a derivative or batching rule of its own and writes "
        f"to a reference that it closes over, inside of a loop, a branch or a checkpoint that is transformed. Pass the "
        f"reference to it as an argument, which its rule gets too (and leave out optimize_remat).")


class RefArguments:
    """Which arguments of a call are references, whose values it takes, and which of them it writes to: what those hold in the
    end are its last results. The rule gets references that are made of the values, as it was written for them."""

    __slots__ = ("marks", "written")

    def __init__(self, marks: Sequence[bool], written: Sequence[int]):
        self.marks, self.written = marks, written

    def made_of(self, values: Sequence[Any]) -> list[Any]:
        from xlafront.lax import refs  # start-up: 1.2 ms, for programs with references

        return [refs.new_ref(x) if mark else x for x, mark in zip(values, self.marks)]

    def held(self, arguments: Sequence[Any]) -> list[Any]:
        from xlafront.lax import refs  # start-up: 1.2 ms, for programs with references

        return [refs.get(arguments[i]) for i in self.written]


def take_row(x):
    """The first element of a batch."""
    return squeeze(slice_in_dim(x, 0, 1), (0,))


def type_text(aval) -> str:
    """A type in a message; that of the tangents of integers by its name."""
    return str(aval).replace("void", "float0")


def as_array(x):
    """What functions and rules get in place of numbers and NumPy's arrays: something that has a dtype and a weak type. A number
    stays one where it is an integer or a program is written, so that Python's `if` and `range` know its value."""
    if type(x) in (float, complex) and tracing.writing_trace() is None:
        return as_value(tracing.thread.trace, x)
    return as_operand(x)


def as_operand(x):
    """As `as_array`, where numbers are given to functions as numbers."""
    if type(x) in (int, float, complex):
        return typed_numbers.typed(x, tracing.aval_of(x).dtype)
    return as_value(tracing.thread.trace, x) if isinstance(x, (np.generic, np.ndarray)) else x


def closed_over(kind: str, name: str) -> errors.UnexpectedTracerError:
    return errors.UnexpectedTracerError(
        f"{name} is differentiated with respect to a value that it closes over, but its {kind} rule only says how the result "
        f"depends on the arguments. Pass the value as an argument (custom_derivatives.closure_convert finds such values), or "
        f"hold it constant with lax.stop_gradient.")


def leaked_in_rule(rule: str, error: errors.UnexpectedTracerError | str = "") -> errors.UnexpectedTracerError:
    return errors.UnexpectedTracerError(
        f"{rule} uses a traced value from outside of it. It runs apart from the function, where that value is unknown: pass "
        f"the value as an argument of the function. {error}")
