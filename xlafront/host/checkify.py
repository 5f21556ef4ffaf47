"""`checkify`: functions whose checks are part of their result.

The function is traced, and its program run again with the errors that its checks find on the way (`Findings`). An operation
that contains programs becomes one on programs that return their errors (`CheckedProgram`): `_RULES` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xlafront import lax
from xlafront.control.cond import cond_p
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
from xlafront.core.ir import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun, last_uses, subprograms
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.traceback_filter import boundary
from xlafront.core.wrapping import wraps
from xlafront.host import automatic_checks as automatic, unchecked_programs
from xlafront.host.checks import (
    Error,
    ErrorCategory,
    ErrorEffect,
    JaxException,
    NaNError,
    check_p,
    first_of,
    of_batch,
    user_checks,
)
from xlafront.host.unchecked_programs import without_checks
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.elementwise import as_array
from xlafront.lax.shapes import zeros_of
from xlafront.parallel.shard_map_rules import shard_map_p
from xlafront.parallel.shard_map_types import axes_in_scope
from xlafront.runtime.sharding import PartitionSpec
from xlafront.staging import signatures
from xlafront.transforms.calls.custom_calls import CustomCall
from xlafront.transforms.calls.programs import DerivedFunction, in_three, trace_function, vary

Out = TypeVar("Out")


class Findings:
    """The errors of a program that runs with checks of these categories: by place the error, and what codes stand for."""

    __slots__ = ("enabled", "kinds", "places")

    def __init__(self, enabled: frozenset):
        self.enabled = enabled
        self.places: dict[ErrorEffect, list[Any]] = {}
        self.kinds: list[Any] = []

    def add(self, failed, error: JaxException) -> None:
        """An error, where `failed`."""
        leaves, kind = tree.flatten(error)
        self.kinds.append(kind)
        self.note(error.get_effect_type(), [failed, np.int32(len(self.kinds) - 1), *leaves])

    def note(self, effect: ErrorEffect, place: Sequence[Any]) -> None:
        before = self.places.get(effect)
        self.places[effect] = list(place) if before is None else first_of(before, place)

    def absorb(self, checked: CheckedProgram, found: Sequence[Any]) -> list[Any]:
        """The results of a program that was called, whose errors are noted."""
        count, first = checked.num_results, len(self.kinds)
        self.kinds.extend(checked.kinds)
        for effect, place in checked.places(found[count:]):
            self.note(effect, place if not first else [place[0], lax.add(place[1], np.int32(first)), *place[2:]])
        return list(found[:count])

    def error(self) -> Error:
        places = self.places
        return Error({e: p[0] for e, p in places.items()}, {e: _as_array(p[1]) for e, p in places.items()},
                     dict(enumerate(self.kinds)), {e: p[2:] for e, p in places.items()})

    def results(self) -> list[Any]:
        """The errors as results of a program: in each place all vary along the same axes."""
        found = []
        for place in self.places.values():
            axes = frozenset().union(*[tracing.aval_of(x).vma for x in place])
            found.extend([vary(x, axes) for x in place] if axes else place)
        return found

    def checked(self, closed: ClosedJaxpr) -> CheckedProgram:
        """The program that returns its errors after its results."""
        return closed.jaxpr.memoised(("checkify", self.enabled, tracing.thread.axes), lambda: CheckedProgram.traced(
            lambda findings, *xs: findings.run(closed, xs), closed.in_avals, self.enabled, closed.debug_info))

    def run(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """The results of a program, as `eval_jaxpr` gives them."""
        jaxpr, thread = closed.jaxpr, source.thread
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
        env.update(zip(jaxpr.invars, args))
        saved, last_use = thread.site, last_uses(jaxpr)
        try:
            for index, eqn in enumerate(jaxpr.eqns):  # Hot: about what binding the operation costs.
                values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
                if saved is not None and (eqn.site is None or eqn.site[0] is None):  # of a library function: it is at its call
                    eqn = eqn.replace(site=saved)
                thread.site = eqn.site
                results = self.operation(eqn, values)
                if eqn.primitive.multiple_results:
                    env.update(zip(eqn.outvars, results))
                else:
                    env[eqn.outvars[0]] = results
                for v in last_use.get(index, ()):
                    del env[v]
        finally:
            thread.site = saved
        return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]

    def operation(self, eqn: JaxprEqn, values: Sequence[Any]):
        primitive, params = eqn.primitive, eqn.params
        if primitive is check_p:
            self.check(values, **params)
            return []
        rule = _rule_for(primitive)
        if rule is not None and any([watched(p, self.enabled) for p in subprograms(params)]):
            return rule(self, eqn, values)
        check = automatic.CHECKS.get(primitive)
        if check is not None and check[0] in self.enabled:
            found = check[1](eqn, values)
            if found is not None:
                self.add(*found)
        results = primitive.bind(*values, **params)
        if NaNError in self.enabled and rule is None and automatic.computes(eqn):
            self.add(*automatic.not_numbers(eqn, results if primitive.multiple_results else [results]))
        return results

    def check(self, leaves: Sequence[Any], *, error_tree, debug: bool) -> None:
        """A check, whose error may be of several places: as it comes from another function made by `checkify`."""
        error = error_tree.unflatten(leaves)
        first = np.int32(len(self.kinds))
        self.kinds.extend(error._metadata.values())
        for effect, (failed, code, arrays) in zip(error._effects, error._places):
            if effect.error_type in self.enabled:
                if first:
                    code = code + first if isinstance(code, np.generic) else lax.add(code, first)
                self.note(effect, [failed, code, *map(stop_gradient, arrays)])


class CheckedProgram(NamedTuple):
    """A program that returns its errors after its results: place by place whether there is one, its code and its arrays."""

    program: ClosedJaxpr
    num_results: int
    effects: tuple[ErrorEffect, ...]
    kinds: list[Any]

    @staticmethod
    def traced(function: Callable[..., Sequence[Any]], in_avals: Sequence[Any], enabled: frozenset, debug_info
               ) -> CheckedProgram:
        """Of a function that takes findings, and arguments of these types."""
        count, effects, kinds = 0, (), []

        def run(*xs):
            nonlocal count, effects, kinds
            findings = Findings(enabled)
            results = function(findings, *xs)
            count, effects, kinds = len(results), tuple(findings.places), findings.kinds
            return [*results, *findings.results()]

        program = tracing.trace_to_closed_jaxpr(run, in_avals, debug_info.with_unknown_names())
        return CheckedProgram(program, count, effects, kinds)

    def places(self, leaves: Sequence[Any]) -> list[tuple[ErrorEffect, list[Any]]]:
        """The flat errors, in their places."""
        found, start = [], 0
        for effect in self.effects:
            stop = start + 2 + len(effect.shape_dtypes)
            found.append((effect, list(leaves[start:stop])))
            start = stop
        return found

    @property
    def error_avals(self) -> list[Any]:
        return self.program.out_avals[self.num_results:]

    def carried(self, num_consts: int) -> ClosedJaxpr:
        """The body of a loop whose carry, after `num_consts` constants, begins with the errors that the steps before found."""
        count = len(self.error_avals)

        def step(*args):
            consts, before, rest = in_three(args, num_consts, count)
            found = jaxpr_as_fun(self.program)(*consts, *rest)
            places = [first_of(old, new) for (_, old), (_, new) in zip(
                self.places(before), self.places(found[self.num_results:]))]
            return [*[x for place in places for x in place], *found[:self.num_results]]

        inner = self.program
        return inner.jaxpr.memoised(("carries errors", num_consts), lambda: tracing.trace_to_closed_jaxpr(
            step, [*inner.in_avals[:num_consts], *self.error_avals, *inner.in_avals[num_consts:]],
            inner.debug_info.with_unknown_names()))

    def none(self) -> list[Any]:
        """No errors, in its places."""
        return [_as_array(vary(zeros_of(aval), aval.vma)) for aval in self.error_avals]

    def after(self, found: Sequence[Any]) -> list[Any]:
        """Of results in which the errors come first those of the program."""
        count = len(self.error_avals)
        return [*found[count:count + self.num_results], *found[:count]]


def _as_array(x):
    return as_array(x) if isinstance(x, np.generic) else x


def watched(jaxpr: Jaxpr, enabled: frozenset) -> bool:
    """Whether there is anything to check in a program."""
    return jaxpr.memoised(("has checks", enabled), lambda: (_find(jaxpr, enabled),))[0]


def _find(jaxpr: Jaxpr, enabled: frozenset) -> bool:
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        check = automatic.CHECKS.get(primitive)
        if primitive is check_p or check is not None and check[0] in enabled:
            return True
        if _rule_for(primitive) is not None:
            if any([watched(p, enabled) for p in subprograms(eqn.params)]):
                return True
        elif NaNError in enabled and automatic.computes(eqn):
            return True
    return False


# Operations that contain programs: `rule(findings, equation, operands) -> results`


def _rule_for(primitive: Primitive) -> Callable | None:
    rule = _RULES.get(primitive)
    if rule is None and isinstance(primitive, ProgramCall):
        return _call
    if rule is None and primitive.as_program is not None:
        return _as_program
    return _custom_call if rule is None and isinstance(primitive, CustomCall) else rule


def _call(findings: Findings, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    primitive, params, count = eqn.primitive, eqn.params, len(values)
    if params.get("inline"):  # a function of the library, whose operations stand at its call
        return findings.run(params[primitive.parameter], values)
    checked = findings.checked(params[primitive.parameter])
    outs = [*range(count, count + checked.num_results), *[None] * len(checked.error_avals)]
    return findings.absorb(checked, primitive.call(params, checked.program, values, range(count), outs))


def _as_program(findings: Findings, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    return findings.run(eqn.primitive.as_program(tuple(map(tracing.aval_of, values)), eqn.params), values)


def _scan(findings: Findings, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    params = eqn.params
    checked = findings.checked(params["jaxpr"])
    consts, carry, xs = in_three(values, params["num_consts"], params["num_carry"])
    start = checked.none()
    found = scan_p.bind(*consts, *start, *carry, *xs, **params | {
        "jaxpr": checked.carried(len(consts)), "num_carry": len(start) + len(carry)})
    return findings.absorb(checked, checked.after(found))


def _while(findings: Findings, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """The condition is checked before the loop, and with what each step returns."""
    params, enabled = eqn.params, findings.enabled
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    if condition.out_avals[0].shape:
        raise ValueError(f"checkify of the while_loop at {source.describe(eqn.site)}, of which vmap made one of a batch: it "
                         f"goes on for elements that are done, whose checks mean nothing. Apply vmap to the function that "
                         f"checkify makes, vmap(checkify(f)), in place of checkify(vmap(f)).")
    of_cond, of_body, carry = in_three(values, params["cond_nconsts"], params["body_nconsts"])
    asks = watched(condition.jaxpr, enabled)
    if asks:
        asked = findings.checked(condition)
        findings.absorb(asked, jaxpr_as_fun(asked.program)(*of_cond, *carry))

    def make():
        def step(inner, *args):
            cond_consts, body_consts, state = in_three(args, len(of_cond), len(of_body))
            results = inner.run(body, [*body_consts, *state])
            if asks:
                inner.run(condition, [*cond_consts, *results])
            return results

        return CheckedProgram.traced(step, [*condition.in_avals[:len(of_cond)], *body.in_avals], enabled, body.debug_info)

    checked = body.jaxpr.memoised_with([condition.jaxpr], ("checked step", enabled, tracing.thread.axes, len(of_cond)), make)
    start, first = checked.none(), len(of_cond)

    def make_condition():
        return tracing.trace_to_closed_jaxpr(
            lambda *args: jaxpr_as_fun(without_checks(condition))(*args[:first], *args[first + len(start):]),
            [*condition.in_avals[:first], *checked.error_avals, *condition.in_avals[first:]],
            condition.debug_info.with_unknown_names())

    go_on = checked.program.jaxpr.memoised_with([condition.jaxpr], ("condition",), make_condition)
    found = while_p.bind(*of_cond, *of_cond, *of_body, *start, *carry, cond_jaxpr=go_on,
                         body_jaxpr=checked.carried(first + len(of_body)), cond_nconsts=first,
                         body_nconsts=first + len(of_body))
    return findings.absorb(checked, checked.after(found))


def _cond(findings: Findings, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Every branch returns the errors that some branch can have."""
    branches = [findings.checked(b) for b in eqn.params["branches"]]
    types: dict[ErrorEffect, list[Any]] = {}
    for b in branches:
        for effect, avals in b.places(b.error_avals):
            rank = avals[0].ndim  # what differs between branches as a batch is one error in all of them
            types.setdefault(effect, [aval.update(shape=aval.shape[rank:]) for aval in avals])
            types[effect] = [old.update(vma=old.vma | new.vma) for old, new in zip(types[effect], avals)]
    kinds = [kind for b in branches for kind in b.kinds]

    def giving(b: CheckedProgram, first: int) -> ClosedJaxpr:
        def run(*xs):
            found = jaxpr_as_fun(b.program)(*xs)
            own = {}
            for effect, place in b.places(found[b.num_results:]):
                failed, code, *arrays = of_batch(place)
                own[effect] = [failed, lax.add(code, np.int32(first)) if first else code, *arrays]
            places = [[vary(x, aval.vma) for x, aval in zip(own.get(effect) or map(zeros_of, avals), avals)]
                      for effect, avals in types.items()]
            return [*found[:b.num_results], *[x for place in places for x in place]]

        return tracing.trace_to_closed_jaxpr(run, b.program.in_avals, b.program.debug_info.with_unknown_results())

    def make():
        programs, first = [], 0
        for b in branches:
            programs.append(giving(b, first))
            first += len(b.kinds)
        return CheckedProgram(programs[0], branches[0].num_results, tuple(types), kinds), tuple(programs)

    checked, programs = branches[0].program.jaxpr.memoised_with(
        [b.program.jaxpr for b in branches[1:]], ("branches", tracing.thread.axes), make)
    return findings.absorb(checked, cond_p.bind(*values, **eqn.params | {"branches": programs}))


def _shard_map(findings: Findings, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Every device returns its errors, which are a batch outside."""
    params = eqn.params
    mesh, manual, check_vma = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    axes = tuple(a for a in mesh.axis_names if a in manual)
    closed = params["jaxpr"]
    with axes_in_scope(mesh, manual, check_vma):
        inner = findings.checked(closed)

        def run(*xs):
            found = jaxpr_as_fun(inner.program)(*xs)
            count = inner.num_results
            rows = [lax.expand_dims(x, (0,)) for x in found[count:]]
            return [*found[:count], *([vary(x, frozenset(axes)) for x in rows] if check_vma else rows)]

        program = inner.program.jaxpr.memoised(("rows", axes, check_vma, tracing.thread.axes), lambda: (
            tracing.trace_to_closed_jaxpr(run, inner.program.in_avals, closed.debug_info)))
    specs = (*params["out_specs"], *[PartitionSpec(axes)] * len(inner.error_avals))
    checked = inner._replace(program=program)
    return findings.absorb(checked, shard_map_p.bind(*values, **params | {"jaxpr": program, "out_specs": specs}))


def _custom_call(findings: Findings, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """The call is as it was, without the checks of the function, which run beside it: what is a rule stays one, and the same
    checks in it are left out. A check that only a rule has cannot be seen from here."""
    primitive = eqn.primitive
    closed = eqn.params[primitive.parameter]
    if tracing.thread.trace is tracing.eval_trace:  # nobody has a use for the rule
        return findings.run(closed, values)
    checked = findings.checked(closed)
    findings.absorb(checked, jaxpr_as_fun(checked.program)(*map(stop_gradient, values)))
    changed = {primitive.parameter: without_checks(closed)}
    if closed.effects and primitive in unchecked_programs.RULES:
        changed |= unchecked_programs.RULES[primitive](eqn.params, frozenset(checked.kinds))
    return primitive.bind(*values, **eqn.params | changed)


def _linear_solve(findings: Findings, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """As `_custom_call`, for the checks of users: of automatic ones that of the solution is what counts."""
    params, solve = eqn.params, eqn.params["jaxprs"].solve
    if solve.effects:
        consts, b = split_operands(values, params["const_lengths"])
        checked = findings.checked(solve)
        findings.absorb(checked, jaxpr_as_fun(checked.program)(*map(stop_gradient, [*consts.solve, *b])))
    solution = linear_solve_p.bind(*values, **params | {"jaxprs": without_checks(params["jaxprs"])})
    if NaNError in findings.enabled and automatic.computes(eqn):
        findings.add(*automatic.not_numbers(eqn, solution))
    return solution


_RULES: dict[Primitive, Callable] = {
    scan_p: _scan, while_p: _while, cond_p: _cond, shard_map_p: _shard_map, linear_solve_p: _linear_solve}


# Public

# What comes of a tracer where Python needs a value.
_ASK_FOR_VALUES = (
    ConcretizationTypeError, TracerIntegerConversionError, TracerArrayConversionError, NonConcreteBooleanIndexError)


class _Static:
    """An argument that is no array: equal to itself, and to what is equal and can be a key."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value is other.value or type(self.value) is type(other.value) and isinstance(
            self.value, Hashable) and self.value == other.value

    def __hash__(self):
        return hash(self.value) if isinstance(self.value, Hashable) else id(self.value)


class _OfArrays(DerivedFunction):
    """A function of the arrays among its arguments; its key holds what else there is, by position among the leaves."""

    __slots__ = ()

    def __call__(self, *arrays):
        in_tree, static = self.key
        fixed, rest = dict(static), iter(arrays)
        leaves = [fixed[i].value if i in fixed else next(rest) for i in range(in_tree.num_leaves)]
        args, kwargs = in_tree.unflatten(leaves)
        return self.f(*args, **kwargs)

    @staticmethod
    def names(parameters, key, in_tree):
        whole, static = key
        fixed = {i for i, _ in static}
        found = signatures.leaf_names(parameters, signatures.Selection(), whole)
        return [name for i, name in enumerate(found) if i not in fixed]


def checkify(f: Callable[..., Out], errors: frozenset[ErrorCategory] = user_checks) -> Callable[..., tuple[Error, Out]]:
    """A function that returns, before the result of another, the first error that a check in it found; it can be compiled,
    differentiated and mapped.

    Its `error.throw()` raises, `error.get()` is the message or None. Checks are those that the function makes with `check`, and
    automatic ones. In a function with a derivative rule (`custom_jvp`, `custom_vjp`) that is differentiated outside, the checks
    of the function are seen and not those of the rule; inside of `f` all are.

    - `f`: the function, of pytrees of arrays; arguments that are no arrays are passed on as they are.
    - `errors`: the categories of errors to look for: `user_checks`; `nan_checks`, for values that are not a number;
      `div_checks`, for divisions by zero; `index_checks`, for indices out of bounds. Sets are joined by `|`;
      `float_checks`, `automatic_checks` and `all_checks` are such.

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
        function, asked = _OfArrays(f, in_tree, static), None
        try:
            program, consts, out_tree = trace_function(
                function, tree.structure(tuple(arrays)), [tracing.aval_of(x) for x in arrays], "checkify")
        except _ASK_FOR_VALUES as e:
            if all([isinstance(x, tracing.Tracer) for x in arrays]):
                raise
            asked = e
        if asked is not None:  # Python needs values, and some are known here
            arrays = []
            program, consts, out_tree = trace_function(
                wraps(f)(lambda: f(*args, **kwargs)), tree.structure(()), [], "checkify")
        findings = Findings(enabled)
        results = findings.run(program, [*consts, *arrays])
        return findings.error(), out_tree.unflatten(map(_as_array, results))

    return signatures.dress(checked, f)
