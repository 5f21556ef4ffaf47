"""Staging: running a Python function on tracers and collecting its operations as a jaxpr."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base import config
from xlafront.core import dtypes, errors, source
from xlafront.core.avals import AbstractValue
from xlafront.core.ir import (
    DebugInfo,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    backward,
    effects_on,
    effects_outside,
    no_effects,
    unknown_origin,
)
from xlafront.core.ir_check import check_jaxpr
from xlafront.core.operands import aval_of, aval_of_type, fixed_scalars, literal_kinds, numpy_aval, symbolic_constants
from xlafront.core.refs import AbstractRef
from xlafront.core.trace import Trace, current_trace, thread
from xlafront.core.tracer import Tracer
from xlafront.core.varying import MeshAxis, VaryingMismatch, retyped

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive
    from xlafront.core.typing import Atom, Aval, Params

# Checks that settings switch on: of each finished jaxpr, `(setting, check)`, and of each ended trace (`check_leaks`). The room
# `checks` adds its own.
jaxpr_checks: list[tuple[Any, Callable[[Jaxpr], None]]] = [(config.enable_checks, check_jaxpr)]
trace_checks: list[Callable[[weakref.ref, str], None]] = []


class StagedTracer(Tracer):
    """A value of a jaxpr under construction."""

    __slots__ = ("_var",)

    def __init__(self, trace: Trace, aval: Aval, var: Atom) -> None:
        self._trace = trace
        self.aval = aval
        self._var = var

    def _concrete(self) -> Any:
        return None if self._trace.evaluate is None else self._trace.value_of(self._var)

    def _origin(self) -> str | None:
        return self._trace.origin_of(self._var)

    def __repr__(self) -> str:
        return f"JitTracer({self.aval})"


def value_id(x: Any) -> int:
    """Return the identity of a value; tracers of one variable are the same value."""
    return id(x._var) if type(x) is StagedTracer else id(x)


class StagingTrace(Trace):
    """Appends operations to a jaxpr.

    Args:
        parent: The trace around it, which operations on its constants belong to.
        debug_info: Names of the function and its arguments, for messages.
        evaluate: `(jaxpr, constants)` returns the value of a tracer or None, where values may be needed while tracing.

    Attributes:
        becomes_program: False if the equations of the jaxpr are evaluated one by one, so that calls keep compiler options.
    """

    __slots__ = ("eqns", "invars", "constants", "effects", "debug_info", "alive", "evaluate", "becomes_program")

    stages_equations = True

    def __init__(self, parent: Trace, debug_info: DebugInfo, evaluate: Callable[[Jaxpr, list], Any] | None = None) -> None:
        self.parent = parent
        self.evaluate = evaluate
        self.eqns: list[JaxprEqn] = []
        self.invars: list[Var] = []
        self.constants: dict[int, tuple[Var, Any]] = {}  # by `id`; the value is referenced so that its id stays taken
        self.effects: frozenset = no_effects
        self.debug_info = debug_info
        self.alive = self.becomes_program = True

    def new_arg(self, aval: Aval, source_info: Any = None) -> StagedTracer:
        """Add an input. BrainState does so while its functions are traced, with a location."""
        var = Var(aval)
        self.invars.append(var)
        return StagedTracer(self, aval, var)

    def process(self, primitive: Primitive, args: Sequence[Any], params: Params) -> Any:
        """Append an equation. Hot: about 1.5 us, watched by the trace benchmarks."""
        invars, types_of_args = [], []
        for x in args:
            atom = x._var if type(x) is StagedTracer and x._trace is self else self.lift(x, primitive)
            invars.append(atom)
            types_of_args.append(atom.aval)
        avals = tuple(types_of_args)
        types = primitive.types.get(avals) if not params else None
        if types is None:
            if primitive.stage is not None:
                staged = primitive.stage(self, args, params)
                if staged is not None:
                    return staged
            elif primitive.fold_literal is not None and invars[0].is_literal:
                folded = primitive.fold_literal(invars[0], params)
                if folded is not None:
                    return StagedTracer(self, folded.aval, folded)
            try:
                types = primitive.result_types(avals, params)
            except (VaryingMismatch, errors.ShardingTypeError, TypeError) as error:
                invars = retyped(self, primitive, args, invars, error)
                if invars is None:
                    raise
                avals = tuple([v.aval for v in invars])
                types = primitive.result_types(avals, params)
        effects = no_effects
        if primitive.effects is not None:
            effects = primitive.effects(*avals, **params)
            if effects:
                effects = effects_on(effects, invars)
                self.check_refs(primitive, invars)
                self.effects |= effects
        if not params and primitive.defaults:
            params = dict(primitive.defaults)
        if primitive.multiple_results:
            outvars = [Var(aval) for aval in types]
            self.eqns.append(JaxprEqn(invars, outvars, primitive, params, effects, source.current_site()))
            return [StagedTracer(self, v.aval, v) for v in outvars]
        var = Var(types)
        self.eqns.append(JaxprEqn(invars, [var], primitive, params, effects, source.current_site()))
        return StagedTracer(self, types, var)

    def inline_jaxpr(self, program: Jaxpr, operands: Sequence[Any], site: source.Site | None = None) -> list[Any]:
        """Append the equations of a jaxpr without effects, at the location of the call, and return its results.

        Hot: about 1 us and 0.5 us an equation.
        """
        literals, steps, results = (program.structure if program.consts else program).compiled_form()
        has_literals = False
        atoms: list[Any] = []
        for x in operands:
            if type(x) is StagedTracer and x._trace is self:
                atoms.append(x._var)
            else:
                atoms.append(self.lift(x))
                has_literals = has_literals or atoms[-1].is_literal
        if program.consts:
            atoms += map(self.lift, program.consts)
        atoms += literals
        if site is None:
            site = source.current_site()
        append, define = self.eqns.append, atoms.append
        for primitive, params, read, types in steps:
            invars = list(read(atoms))
            if has_literals and primitive.fold_literal is not None and invars[0].is_literal:
                folded = primitive.fold_literal(invars[0], params)
                if folded is not None:
                    define(folded)
                    continue
            if type(types) is list:
                outvars = [Var(aval) for aval in types]
                atoms += outvars
            else:
                var = Var(types)
                define(var)
                outvars = [var]
            append(JaxprEqn(invars, outvars, primitive, params, no_effects, site))
        return [StagedTracer(self, aval, atoms[position]) for position, aval in results]

    def append_equation_like(self, eqn: JaxprEqn, operands: Sequence[Any]) -> list[StagedTracer]:
        """Append an equation without effects on other operands, and return its results. Hot."""
        invars = [x._var if type(x) is StagedTracer and x._trace is self else self.lift(x) for x in operands]
        if len(eqn.outvars) == 1:
            aval = eqn.outvars[0].aval
            var = Var(aval)
            self.eqns.append(JaxprEqn(invars, [var], eqn.primitive, eqn.params, no_effects, source.current_site()))
            return [StagedTracer(self, aval, var)]
        outvars = [Var(v.aval) for v in eqn.outvars]
        self.eqns.append(JaxprEqn(invars, outvars, eqn.primitive, eqn.params, no_effects, source.current_site()))
        return [StagedTracer(self, v.aval, v) for v in outvars]

    def check_refs(self, primitive: Primitive, atoms: Sequence[Atom]) -> None:
        """Raise if an effectful operation gets the same reference twice (aliasing)."""
        refs = [v for v in atoms if type(v.aval) is AbstractRef]
        if len(set(refs)) < len(refs) and not primitive.traits.allows_ref_aliasing:
            twice = next(v for v in refs if refs.count(v) > 1)
            raise errors.reference_twice(primitive.shown_as, twice.aval, self.origin_of(twice))

    def make_varying(self, atoms: Sequence[Any], axes: frozenset) -> list[Any]:
        """Return operands that all vary over these axes."""
        made = []
        for v in atoms:
            missing = axes - v.aval.vma
            if not missing:
                made.append(v)
            elif v.is_literal:
                made.append(Literal(v.val, v.aval.update(vma=axes)))
            else:
                axis = next(axis for axis in thread.axes if type(axis) is MeshAxis)
                cast = self.process(axis.cast_varying, (StagedTracer(self, v.aval, v),),
                                    {"axes": tuple(sorted(missing, key=str))})
                made.append(cast._var)
        return made

    def lift(self, x: Any, primitive: Primitive | None = None) -> Any:
        """Return the atom for a value from outside: a literal for a scalar, a constant for an array or an outer tracer."""
        kind = type(x)
        aval = fixed_scalars.get(kind)
        if aval is not None:
            return Literal(x, aval)
        if kind in literal_kinds:
            return Literal(x, aval_of_type[kind](x))
        key = id(x._var) if kind is StagedTracer else id(x)
        found = self.constants.get(key)
        if found is not None:
            return found[0]
        if kind in symbolic_constants:
            with current_trace(self):
                return symbolic_constants[kind](x)._var
        if isinstance(x, Tracer):
            if not x._trace.alive:
                raise errors.leaked_tracer(x, primitive.shown_as if primitive else "this function")
            if x._trace is self:  # a tracer of a subclass of this trace
                return x._var  # type: ignore[attr-defined]
        elif isinstance(x, (np.ndarray, np.generic)) and x.ndim == 0 and x.dtype.kind in "biufcV":
            aval = numpy_aval(x)
            return Literal(np.asarray(x).astype(aval.dtype)[()], aval)
        elif (plain := dtypes.plain_number(x)) is not x:
            return self.lift(plain, primitive)
        var = Var(aval_of(x))
        self.constants[key] = (var, x)
        return var

    def constant(self, x: Any) -> StagedTracer:
        """Return a value from outside as a tracer of this trace."""
        atom = self.lift(x)
        return StagedTracer(self, atom.aval, atom)

    def to_atom(self, x: Any) -> Any:
        return x._var if type(x) is StagedTracer and x._trace is self else self.lift(x)

    def finish(self, results: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        outvars = [self.to_atom(x) for x in results]
        constvars = [var for var, _ in self.constants.values()]
        consts = [value for _, value in self.constants.values()]
        effects = effects_outside(self.effects, (*constvars, *self.invars)) if self.effects else no_effects
        jaxpr = Jaxpr(constvars, self.invars, outvars, self.eqns, effects, self.debug_info)
        return jaxpr, consts

    def value_of(self, var: Atom) -> Any:
        """Return the value that the jaxpr so far computes for a variable, by the equations that it depends on."""
        eqns, _ = backward(self.eqns, [var])
        jaxpr = Jaxpr([v for v, _ in self.constants.values()], self.invars, [var], eqns, no_effects, self.debug_info)
        return self.evaluate(jaxpr, [value for _, value in self.constants.values()])

    def origin_of(self, var: Atom) -> str | None:
        for index, candidate in enumerate(self.invars):
            if candidate is var:
                name = self.debug_info.safe_arg_names(len(self.invars))[index] or f"number {index}"
                return f"argument {name} of {self.debug_info.label}"
        for eqn in self.eqns:
            if var in eqn.outvars:
                where = source.describe(eqn.site)
                return f"created as the result of {eqn.primitive.shown_as} at {where}{self.depends_on(var)}"
        return None

    def depends_on(self, var: Atom) -> str:
        """Return the arguments that a value depends on, as text."""
        _, needed = backward(self.eqns, [var])
        names = [name for v, name in zip(self.invars, self.debug_info.safe_arg_names(len(self.invars))) if name and v in needed]
        if not names:
            return ""
        shown = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
        return f", which depends on the value of the argument{'s' if len(names) > 1 else ''} {shown}"


_SELDOM = 20_000  # allocations between collections of the youngest generation while tracing, where most objects survive
_NO_FULL_COLLECTION = 1_000_003  # threshold of the oldest generation that disables its collection


def without_full_collections(function: Callable, *args: Any) -> Any:
    """Run a function that traces, without full garbage collections.

    Nothing of a jaxpr under construction can be freed, and full collections would make the cost of tracing superlinear.
    """
    thresholds = gc.get_threshold()
    if thresholds[2] == _NO_FULL_COLLECTION:  # a caller or another thread does this already
        return function(*args)
    try:
        gc.set_threshold(max(thresholds[0], _SELDOM) if thresholds[0] else 0, thresholds[1], _NO_FULL_COLLECTION)
        return function(*args)
    finally:
        gc.set_threshold(*thresholds)  # a call of C: no signal handler runs before it


def trace_to_jaxpr(function: Callable[..., Sequence[Any]], in_avals: Sequence[AbstractValue],
                   debug_info: DebugInfo = unknown_origin, evaluate: Callable | None = None,
                   kind: type[StagingTrace] | None = None) -> tuple[Jaxpr, list[Any]]:
    """Run a function on tracers and return its jaxpr and the values of its constants.

    Args:
        function: Takes tracers and returns a flat sequence of results.
        in_avals: Types of the arguments.
        debug_info: Names of the function and its arguments, for messages.
        evaluate: See `StagingTrace`.
        kind: Class of the trace.

    Returns:
        The jaxpr, and its constants, which may be tracers of enclosing traces.
    """
    trace = (kind or StagingTrace)(thread.trace, debug_info, evaluate)
    tracers = [trace.new_arg(aval) for aval in in_avals]
    saved_site = source.thread.site
    if saved_site is not source.NOWHERE:
        source.thread.site = None
    saved_scope = source.current_scope.set(source.scope_of_bodies())
    try:
        with current_trace(trace):
            results = without_full_collections(function, *tracers)
            jaxpr, consts = trace.finish(results)
    finally:
        source.thread.site = saved_site
        source.current_scope.reset(saved_scope)
        trace.end()
    if config.check_tracer_leaks.value:
        name, ended = trace.debug_info.label, weakref.ref(trace)
        del tracers, results, trace
        check_leaks(ended, name)
    for setting, check in jaxpr_checks:
        if setting.value:
            check(jaxpr)
    return jaxpr, consts


def trace_to_closed_jaxpr(function: Callable[..., Sequence[Any]], in_avals: Sequence[AbstractValue],
                          debug_info: DebugInfo = unknown_origin) -> Jaxpr:
    jaxpr, consts = trace_to_jaxpr(function, in_avals, debug_info)
    return jaxpr.with_consts(consts)


def trace_with_aux(function: Callable[..., tuple[Sequence[Any], Any]], in_avals: Sequence[AbstractValue],
                   debug_info: DebugInfo = unknown_origin) -> tuple[Jaxpr, Any]:
    """Trace a function that returns its results and something else, such as flags for them; return the jaxpr and that."""
    aux = None

    def run(*tracers: StagedTracer) -> Sequence[Any]:
        nonlocal aux
        results, aux = function(*tracers)
        return results

    closed = trace_to_closed_jaxpr(run, in_avals, debug_info)
    return closed, aux


def derive(closed: Jaxpr, key: Hashable, function: Callable[..., Sequence[Any]],
           in_avals: Sequence[AbstractValue] | None = None, debug_info: DebugInfo | None = None) -> Jaxpr:
    """Trace a function that calls a jaxpr. The result is cached with that jaxpr.

    Args:
        closed: The called jaxpr.
        key: Identifies the function among those that derive jaxprs from this one.
        function: Takes tracers and returns a flat sequence of results.
        in_avals: Types of its arguments. Default: those of the jaxpr.
        debug_info: Names of the function and its arguments. Default: those of the jaxpr.
    """
    return closed.memoised(key, lambda: trace_to_closed_jaxpr(
        function, closed.in_avals if in_avals is None else in_avals, debug_info or closed.debug_info))


def check_leaks(ended: weakref.ref, name: str) -> None:
    """Raise if a tracer of a finished trace is still referenced. For the setting `check_tracer_leaks`."""
    for check in trace_checks:
        check(ended, name)
