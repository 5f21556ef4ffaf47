"""`checkify`: functions that return the errors of their checks.

The function is traced, and its jaxpr evaluated with an `ErrorCollector`, which collects the errors of the checks on the way. An
equation that contains jaxprs is replaced by one on jaxprs that return their errors (`CheckedJaxpr`), by the rules in `_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xlafront import lax
from xlafront.control.cond import cond_p
from xlafront.control.layouts import ScanLayout, WhileLayout
from xlafront.control.scan import scan_p
from xlafront.control.solves import linear_solve_p, split_operands
from xlafront.control.while_loop import while_p
from xlafront.core import errors as messages, source, tracing, tree
from xlafront.core.errors import (
    ConcretizationTypeError,
    NonConcreteBooleanIndexError,
    TracerArrayConversionError,
    TracerIntegerConversionError,
)
from xlafront.core.ir import Jaxpr, JaxprEqn, Literal, last_uses, subprograms
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.tangents import zeros_of
from xlafront.core.traceback_filter import boundary
from xlafront.core.wrapping import wraps
from xlafront.host import automatic_checks as automatic, check_removal
from xlafront.host.check_removal import without_checks
from xlafront.host.checks import (
    Error,
    ErrorCategory,
    ErrorEffect,
    JaxException,
    NaNError,
    check_p,
    earlier_error,
    reduce_batch,
    user_checks,
)
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.elementwise import as_array
from xlafront.parallel.shard_map_rules import shard_map_p
from xlafront.parallel.shard_map_types import axes_in_scope
from xlafront.runtime.sharding import PartitionSpec
from xlafront.staging import signatures
from xlafront.transforms.calls.custom_calls import CustomCall
from xlafront.transforms.calls.programs import DerivedFunction, split_in_three, trace_function, vary

Out = TypeVar("Out")


class ErrorCollector:
    """The errors of a program, as it runs with checks: one error per slot, and the structure of each error code."""

    __slots__ = ("enabled", "error_trees", "slots")

    def __init__(self, enabled: frozenset):
        self.enabled = enabled
        self.slots: dict[ErrorEffect, list[Any]] = {}
        self.error_trees: list[Any] = []

    def add(self, failed, error: JaxException) -> None:
        """Record an error, where `failed` is True."""
        leaves, kind = tree.flatten(error)
        self.error_trees.append(kind)
        self.record(error.get_effect_type(), [failed, np.int32(len(self.error_trees) - 1), *leaves])

    def record(self, effect: ErrorEffect, slot: Sequence[Any]) -> None:
        earlier = self.slots.get(effect)
        self.slots[effect] = list(slot) if earlier is None else earlier_error(earlier, slot)

    def absorb(self, checked: CheckedJaxpr, results: Sequence[Any]) -> list[Any]:
        """Record the errors of a called jaxpr, and return its results."""
        count, first = checked.num_results, len(self.error_trees)
        self.error_trees.extend(checked.error_trees)
        for effect, slot in checked.slots(results[count:]):
            self.record(effect, slot if not first else [slot[0], lax.add(slot[1], np.int32(first)), *slot[2:]])
        return list(results[:count])

    def error(self) -> Error:
        slots = self.slots
        return Error({e: p[0] for e, p in slots.items()}, {e: _as_array(p[1]) for e, p in slots.items()},
                     dict(enumerate(self.error_trees)), {e: p[2:] for e, p in slots.items()})

    def results(self) -> list[Any]:
        """Return the errors as results of a jaxpr; all arrays of a slot vary along the same axes."""
        arrays = []
        for slot in self.slots.values():
            axes = frozenset().union(*[tracing.aval_of(x).vma for x in slot])
            arrays.extend([vary(x, axes) for x in slot] if axes else slot)
        return arrays

    def checked(self, closed: Jaxpr) -> CheckedJaxpr:
        """Return the jaxpr that returns its errors after its results."""
        return closed.memoised(("checkify", self.enabled, tracing.thread.axes), lambda: CheckedJaxpr.trace(
            lambda collector, *xs: collector.run(closed, xs), closed.in_avals, self.enabled, closed.debug_info))

    def run(self, closed: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """Evaluate a jaxpr with checks, and return its results."""
        jaxpr, thread = closed.structure, source.thread
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
        env.update(zip(jaxpr.invars, args))
        saved, last_use = thread.site, last_uses(jaxpr)
        try:
            for index, eqn in enumerate(jaxpr.eqns):  # Hot: about what binding the operation costs.
                values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
                if saved is not None and (eqn.site is None or eqn.site[0] is None):  # internal: use the site of the call
                    eqn = eqn.replace(site=saved)
                thread.site = eqn.site
                results = self.bind(eqn, values)
                if eqn.primitive.multiple_results:
                    env.update(zip(eqn.outvars, results))
                else:
                    env[eqn.outvars[0]] = results
                for v in last_use.get(index, ()):
                    del env[v]
        finally:
            thread.site = saved
        return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]

    def bind(self, eqn: JaxprEqn, values: Sequence[Any]):
        primitive, params = eqn.primitive, eqn.params
        if primitive is check_p:
            self.check(values, **params)
            return []
        rule = _rule_for(primitive)
        if rule is not None and any([has_checks(p, self.enabled) for p in subprograms(params)]):
            return rule(self, eqn, values)
        check = automatic.CHECKS.get(primitive)
        if check is not None and check[0] in self.enabled:
            failure = check[1](eqn, values)
            if failure is not None:
                self.add(*failure)
        results = primitive.bind(*values, **params)
        if NaNError in self.enabled and rule is None and automatic.computes_floats(eqn):
            self.add(*automatic.nan_error(eqn, results if primitive.multiple_results else [results]))
        return results

    def check(self, leaves: Sequence[Any], *, error_tree, debug: bool) -> None:
        """Record the error of a `check` equation; it has several slots if it was returned by a function made by `checkify`."""
        error = error_tree.unflatten(leaves)
        first = np.int32(len(self.error_trees))
        self.error_trees.extend(error._metadata.values())
        for effect, (failed, code, arrays) in zip(error._effects, error._slots):
            if effect.error_type in self.enabled:
                if first:
                    code = code + first if isinstance(code, np.generic) else lax.add(code, first)
                self.record(effect, [failed, code, *map(stop_gradient, arrays)])


class CheckedJaxpr(NamedTuple):
    """A jaxpr that returns its errors after its results: per slot whether there is an error, its code and its arrays."""

    closed: Jaxpr
    num_results: int
    effects: tuple[ErrorEffect, ...]
    error_trees: list[Any]

    @staticmethod
    def trace(function: Callable[..., Sequence[Any]], in_avals: Sequence[Any], enabled: frozenset, debug_info
              ) -> CheckedJaxpr:
        """Trace a function that takes an `ErrorCollector`, and arguments of these types."""
        def run(*xs):
            collector = ErrorCollector(enabled)
            results = function(collector, *xs)
            return [*results, *collector.results()], (len(results), tuple(collector.slots), collector.error_trees)

        closed, found = tracing.trace_with_aux(run, in_avals, debug_info.with_unknown_names())
        return CheckedJaxpr(closed, *found)

    def slots(self, leaves: Sequence[Any]) -> list[tuple[ErrorEffect, list[Any]]]:
        """Split flat error arrays into slots."""
        results, start = [], 0
        for effect in self.effects:
            stop = start + 2 + len(effect.shape_dtypes)
            results.append((effect, list(leaves[start:stop])))
            start = stop
        return results

    @property
    def error_avals(self) -> list[Any]:
        return self.closed.out_avals[self.num_results:]

    def carrying_errors(self, num_consts: int) -> Jaxpr:
        """Return a loop body whose carry, after `num_consts` constants, begins with the errors of earlier iterations."""
        count = len(self.error_avals)

        def step(*args):
            consts, before, rest = split_in_three(args, num_consts, count)
            results = self.closed(*consts, *rest)
            slots = [earlier_error(old, new) for (_, old), (_, new) in zip(
                self.slots(before), self.slots(results[self.num_results:]))]
            return [*[x for slot in slots for x in slot], *results[:self.num_results]]

        inner = self.closed
        return tracing.derive(inner, ("carries errors", num_consts), step,
                              [*inner.in_avals[:num_consts], *self.error_avals, *inner.in_avals[num_consts:]],
                              inner.debug_info.with_unknown_names())

    def empty_slots(self) -> list[Any]:
        """Return the arrays of empty slots."""
        return [_as_array(vary(zeros_of(aval), aval.vma)) for aval in self.error_avals]

    def errors_last(self, results: Sequence[Any]) -> list[Any]:
        """Reorder results that begin with the errors, so that the errors come last."""
        count = len(self.error_avals)
        return [*results[count:count + self.num_results], *results[:count]]


def _as_array(x):
    return as_array(x) if isinstance(x, np.generic) else x


def has_checks(jaxpr: Jaxpr, enabled: frozenset) -> bool:
    """True if a jaxpr contains anything to check for the enabled categories."""
    return jaxpr.memoised(("has checks", enabled), lambda: (_find_checks(jaxpr, enabled),))[0]


def _find_checks(jaxpr: Jaxpr, enabled: frozenset) -> bool:
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        check = automatic.CHECKS.get(primitive)
        if primitive is check_p or check is not None and check[0] in enabled:
            return True
        if _rule_for(primitive) is not None:
            if any([has_checks(p, enabled) for p in subprograms(eqn.params)]):
                return True
        elif NaNError in enabled and automatic.computes_floats(eqn):
            return True
    return False


# Rules of equations that contain jaxprs: `rule(collector, equation, operands) -> results`


def _rule_for(primitive: Primitive) -> Callable | None:
    rule = _RULES.get(primitive)
    if rule is None and isinstance(primitive, ProgramCall):
        return _call
    if rule is None and primitive.structured.expand is not None:
        return _expand
    return _custom_call if rule is None and isinstance(primitive, CustomCall) else rule


def _call(collector: ErrorCollector, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    primitive, params, count = eqn.primitive, eqn.params, len(values)
    if params.get("inline") is True:  # an internal function, whose equations have the site of its call
        return collector.run(params[primitive.parameter], values)
    checked = collector.checked(params[primitive.parameter])
    outs = [*range(count, count + checked.num_results), *[None] * len(checked.error_avals)]
    return collector.absorb(checked, primitive.call_primal(params, checked.closed, values, range(count), outs, range(count)))


def _expand(findings: ErrorCollector, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    return findings.run(eqn.primitive.structured.expand(tuple(map(tracing.aval_of, values)), eqn.params), values)


def _scan(collector: ErrorCollector, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    params = eqn.params
    checked = collector.checked(params["jaxpr"])
    consts, carry, xs = ScanLayout.of(params).split(values)
    start = checked.empty_slots()
    results = scan_p.bind(*consts, *start, *carry, *xs, **params | {
        "jaxpr": checked.carrying_errors(len(consts))} | ScanLayout(len(consts), len(start) + len(carry))._asdict())
    return collector.absorb(checked, checked.errors_last(results))


def _while(collector: ErrorCollector, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Check the condition before the loop, and with the results of each iteration."""
    params, enabled = eqn.params, collector.enabled
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    if condition.out_avals[0].shape:
        raise ValueError(f"checkify cannot check the while_loop at {source.describe(eqn.site)}, which vmap has batched: it "
                         f"continues for finished elements, whose checks are meaningless. Apply vmap to the function that "
                         f"checkify returns: vmap(checkify(f)) instead of checkify(vmap(f)).")
    layout = WhileLayout.of(params)
    cond_operands, body_operands, carry = layout.split(values)
    checks_cond = has_checks(condition.structure, enabled)
    if checks_cond:
        checked_cond = collector.checked(condition)
        collector.absorb(checked_cond, checked_cond.closed(*cond_operands, *carry))

    def make():
        def step(inner, *args):
            cond_consts, body_consts, state = layout.split(args)
            results = inner.run(body, [*body_consts, *state])
            if checks_cond:
                inner.run(condition, [*cond_consts, *results])
            return results

        return CheckedJaxpr.trace(step, [*const_avals, *body.in_avals], enabled, body.debug_info)

    const_avals, carry_avals = layout.split_condition(condition.in_avals)
    checked = body.memoised_with([condition], ("checked step", enabled, tracing.thread.axes, layout), make)
    start = checked.empty_slots()

    def make_condition():
        def run(*args):
            consts, _, state = split_in_three(args, len(const_avals), len(start))
            return without_checks(condition)(*consts, *state)

        return tracing.trace_to_closed_jaxpr(run, [*const_avals, *checked.error_avals, *carry_avals],
                                             condition.debug_info.with_unknown_names())

    new_condition = checked.closed.memoised_with([condition], ("condition",), make_condition)
    new_layout = WhileLayout(len(cond_operands), len(cond_operands) + len(body_operands))
    results = while_p.bind(*cond_operands, *cond_operands, *body_operands, *start, *carry, cond_jaxpr=new_condition,
                           body_jaxpr=checked.carrying_errors(new_layout.body_nconsts), **new_layout._asdict())
    return collector.absorb(checked, checked.errors_last(results))


def _cond(collector: ErrorCollector, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Let every branch return the errors of all branches."""
    branches = [collector.checked(b) for b in eqn.params["branches"]]
    types: dict[ErrorEffect, list[Any]] = {}
    for b in branches:
        for effect, avals in b.slots(b.error_avals):
            rank = avals[0].ndim  # branches may have errors of different batches: reduce them to one error
            types.setdefault(effect, [aval.update(shape=aval.shape[rank:]) for aval in avals])
            types[effect] = [old.update(vma=old.vma | new.vma) for old, new in zip(types[effect], avals)]
    error_trees = [kind for b in branches for kind in b.error_trees]

    def with_all_errors(b: CheckedJaxpr, first: int) -> Jaxpr:
        def run(*xs):
            results = b.closed(*xs)
            errors = {}
            for effect, slot in b.slots(results[b.num_results:]):
                failed, code, *arrays = reduce_batch(slot)
                errors[effect] = [failed, lax.add(code, np.int32(first)) if first else code, *arrays]
            slots = [[vary(x, aval.vma) for x, aval in zip(errors.get(effect) or map(zeros_of, avals), avals)]
                      for effect, avals in types.items()]
            return [*results[:b.num_results], *[x for slot in slots for x in slot]]

        return tracing.trace_to_closed_jaxpr(run, b.closed.in_avals, b.closed.debug_info.with_unknown_results())

    def make():
        jaxprs, first = [], 0
        for b in branches:
            jaxprs.append(with_all_errors(b, first))
            first += len(b.error_trees)
        return CheckedJaxpr(jaxprs[0], branches[0].num_results, tuple(types), error_trees), tuple(jaxprs)

    others = [b.closed for b in branches[1:]]
    checked, jaxprs = branches[0].closed.memoised_with(others, ("branches", tracing.thread.axes), make)
    return collector.absorb(checked, cond_p.bind(*values, **eqn.params | {"branches": jaxprs}))


def _shard_map(collector: ErrorCollector, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Let every device return its errors, which are a batch outside."""
    params = eqn.params
    mesh, manual, check_vma = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    axes = tuple(a for a in mesh.axis_names if a in manual)
    closed = params["jaxpr"]
    with axes_in_scope(mesh, manual, check_vma):
        inner = collector.checked(closed)

        def run(*xs):
            results = inner.closed(*xs)
            count = inner.num_results
            rows = [lax.expand_dims(x, (0,)) for x in results[count:]]
            return [*results[:count], *([vary(x, frozenset(axes)) for x in rows] if check_vma else rows)]

        stacked = tracing.derive(inner.closed, ("rows", axes, check_vma, tracing.thread.axes), run, None, closed.debug_info)
    specs = (*params["out_specs"], *[PartitionSpec(axes)] * len(inner.error_avals))
    checked = inner._replace(closed=stacked)
    return collector.absorb(checked, shard_map_p.bind(*values, **params | {"jaxpr": stacked, "out_specs": specs}))


def _custom_call(collector: ErrorCollector, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Bind the call without the checks of its function, which run beside it.

    The call is still a call with its rule, from which the same checks are removed. A check that only the rule has is not
    reported.
    """
    primitive = eqn.primitive
    closed = eqn.params[primitive.parameter]
    if tracing.thread.trace is tracing.eval_trace:  # no transformation can use the rule
        return collector.run(closed, values)
    checked = collector.checked(closed)
    collector.absorb(checked, checked.closed(*map(stop_gradient, values)))
    changed = {primitive.parameter: without_checks(closed)}
    if closed.effects and primitive in check_removal.RULES:
        changed |= check_removal.RULES[primitive](eqn.params, frozenset(checked.error_trees))
    return primitive.bind(*values, **eqn.params | changed)


def _linear_solve(collector: ErrorCollector, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Bind the solve without its user checks, which run beside it as in `_custom_call`; check the solution for NaNs."""
    params, solve = eqn.params, eqn.params["jaxprs"].solve
    if solve.effects:
        consts, b = split_operands(values, params["const_lengths"])
        checked = collector.checked(solve)
        collector.absorb(checked, checked.closed(*map(stop_gradient, [*consts.solve, *b])))
    solution = linear_solve_p.bind(*values, **params | {"jaxprs": without_checks(params["jaxprs"])})
    if NaNError in collector.enabled and automatic.computes_floats(eqn):
        collector.add(*automatic.nan_error(eqn, solution))
    return solution


_RULES: dict[Primitive, Callable] = {
    scan_p: _scan, while_p: _while, cond_p: _cond, shard_map_p: _shard_map, linear_solve_p: _linear_solve}


# Public

# Errors of functions that need the values of tracers.
_CONCRETIZATION_ERRORS = (
    ConcretizationTypeError, TracerIntegerConversionError, TracerArrayConversionError, NonConcreteBooleanIndexError)


class _Static:
    """A non-array argument as part of a cache key: equal to itself, and to equal hashable values."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value is other.value or type(self.value) is type(other.value) and isinstance(
            self.value, Hashable) and self.value == other.value

    def __hash__(self):
        return hash(self.value) if isinstance(self.value, Hashable) else id(self.value)


class _ArrayFunction(DerivedFunction):
    """A function of the arrays among the arguments of another function; its key has the other leaves, by position."""

    __slots__ = ()

    def __call__(self, *arrays):
        in_tree, static = self.key
        fixed, rest = dict(static), iter(arrays)
        leaves = [fixed[i].value if i in fixed else next(rest) for i in range(in_tree.num_leaves)]
        args, kwargs = in_tree.unflatten(leaves)
        return self.f(*args, **kwargs)

    @staticmethod
    def names(parameters, key, in_tree):
        full_tree, static = key
        fixed = {i for i, _ in static}
        names = signatures.leaf_names(parameters, signatures.Selection(), full_tree)
        return [name for i, name in enumerate(names) if i not in fixed]


def checkify(f: Callable[..., Out], errors: frozenset[ErrorCategory] = user_checks) -> Callable[..., tuple[Error, Out]]:
    """Return a function that returns the first error of its checks and the result of `f`; it can be compiled and transformed.

    `error.throw()` raises the error, `error.get()` returns its message or None. Checks are the calls of `check` in the
    function, and automatic ones. If a function with a derivative rule (`custom_jvp`, `custom_vjp`) is differentiated outside of
    `checkify`, the checks of the function are reported but not those of the rule; inside of `f` all are reported.

    Args:
        f: Function of pytrees of arrays; arguments that are not arrays are passed through unchanged.
        errors: Categories of errors to check for: `user_checks`; `nan_checks`, for NaN results; `div_checks`, for divisions by
            zero; `index_checks`, for out-of-bounds indices; and the unions `float_checks`, `automatic_checks` and `all_checks`.
            Join sets with `|`.

    Returns:
        A function that returns the pair of an `Error` and the result of `f`.

    Example:
        >>> error, y = xf.jit(checkify(xnp.log, errors=xf.experimental.checkify.float_checks))(-1.0)
        >>> error.get().partition(" It")[0]
        'nan generated by primitive: log.'
    """
    if not callable(f):
        raise messages.not_callable("checkify", f)
    if not isinstance(errors, (set, frozenset)) or not all([
            isinstance(e, type) and issubclass(e, JaxException) for e in errors]):
        raise TypeError(f"checkify takes as errors a set of categories of errors, got {errors!r}. Join sets such as "
                        f"user_checks and nan_checks by |.")

    enabled = frozenset(errors)

    @boundary
    def checked(*args, **kwargs):
        leaves, in_tree = tree.flatten((args, kwargs))
        static = tuple([(i, _Static(x)) for i, x in enumerate(leaves) if not tracing.is_arraylike(x)])
        others = {i for i, _ in static}
        arrays = [x for i, x in enumerate(leaves) if i not in others]
        function, failure = _ArrayFunction(f, in_tree, static), None
        try:
            closed, consts, out_tree = trace_function(
                function, tree.structure(tuple(arrays)), [tracing.aval_of(x) for x in arrays], "checkify")
        except _CONCRETIZATION_ERRORS as e:
            if all([isinstance(x, tracing.Tracer) for x in arrays]):
                raise
            failure = e
        if failure is not None:  # the function needs values: trace it with the concrete arrays as constants
            arrays = []
            closed, consts, out_tree = trace_function(
                wraps(f)(lambda: f(*args, **kwargs)), tree.structure(()), [], "checkify")
        collector = ErrorCollector(enabled)
        results = collector.run(closed, [*consts, *arrays])
        return collector.error(), out_tree.unflatten(map(_as_array, results))

    return signatures.copy_metadata(checked, f)
