"""Transposition: a jaxpr that is linear in some inputs runs backward, on cotangents. After linearization: reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from xlafront.core import source, tracing, tree
from xlafront.core.basic_primitives import inline_call_p
from xlafront.core.ir import Jaxpr, JaxprEqn, Literal, backward, dependent_outputs, forward
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.tangents import add_tangents, convert_cotangents, instantiate as instantiated, weakly_typed_as
from xlafront.core.zeros import UndefinedPrimal, Zero
from xlafront.transforms.ad import backward_logs
from xlafront.transforms.ad.linearize import LinearMap, known_and_linear
from xlafront.transforms.ad.mesh_cotangents import cast_cotangent, with_unsharded_operands
from xlafront.transforms.ad.rule_cache import caches_transpose

if TYPE_CHECKING:
    from xlafront.core.tree import PyTreeDef
    from xlafront.core.typing import Marks


def transpose_linear(program: LinearMap, cotangents: Sequence[Any], required: Marks = ()) -> list[Any]:
    """Map cotangents of the outputs of a derivative to cotangents of its inputs (pull them back).

    Cotangents of inputs that are not marked in `required` may be wrong or zero. Default: all are required.
    """
    active = [ct for ct, used in zip(cotangents, program.outputs) if used]
    active_required = [r for r, used in zip(required, program.inputs) if used]
    results = iter(backward_pass(program.jaxpr, program.consts, active, active_required))
    return [next(results) if used else Zero(aval) for used, aval in zip(program.inputs, program.in_avals)]


@with_unsharded_operands
def backward_pass(jaxpr: Jaxpr, consts: Sequence[Any], cotangents: Sequence[Any], required: Marks = ()) -> list[Any]:
    """Transpose the equations of a linear jaxpr in reverse order.

    Args:
        jaxpr: Linear in its inputs.
        consts: Values of its constants.
        cotangents: Cotangents of its outputs, `Zero` where there is none.
        required: True for each input whose cotangent is needed; equations that depend only on others are skipped. Default: all.

    Returns:
        Cotangents of the inputs, `Zero` for inputs that no output depends on.
    """
    values = dict(zip(jaxpr.constvars, consts))
    pending: dict[Any, Any] = {}
    needed = None if all(required) else _dependents(jaxpr, required)
    for v, ct in zip(jaxpr.outvars, cotangents):
        _accumulate(pending, v, ct)
    thread = source.thread
    saved = thread.site
    scope = source.current_scope.get() if saved is None else saved[2]
    try:
        for eqn in reversed(jaxpr.eqns):
            cts = [pending.pop(v, None) for v in eqn.outvars]
            for ct in cts:
                if ct is not None:
                    break
            else:  # no result has a cotangent
                if not (eqn.primitive.traits.transposes_zeros and _needed_by_results(jaxpr).intersection(eqn.outvars)):
                    continue
            if needed is not None and needed.isdisjoint(eqn.outvars):
                continue
            if (site := eqn.site) is not None:
                site = (site[0], site[1], source.transposed_scopes[site[2]])
                if scope:
                    site = source.inside(scope, site)
            thread.site = site
            for v, ct in zip(eqn.invars, _operand_cotangents(eqn, cts, values)):
                if type(v) is not Literal and v not in values:
                    _accumulate(pending, v, ct)
    finally:
        thread.site = saved
    return [_zero_of(v) if (ct := pending.get(v)) is None else ct for v in jaxpr.invars]


@caches_transpose(lambda cts, /, *operands, **params: transpose_of_call(inline_call_p, cts, *operands, **params))
def _operand_cotangents(eqn: JaxprEqn, cts: list[Any], values: dict) -> Sequence[Any]:
    """Return the cotangents of an equation's operands, None or `Zero` where there is none."""
    cts = [_zero_of(v) if ct is None else ct for ct, v in zip(cts, eqn.outvars)]
    operands = [v.val if type(v) is Literal else values[v] if v in values else UndefinedPrimal(v.aval) for v in eqn.invars]
    rule = eqn.primitive.transpose
    if rule is not None:
        return rule(cts if eqn.primitive.multiple_results else cts[0], *operands, **eqn.params)
    if isinstance(eqn.primitive, ProgramCall):
        return transpose_of_call(eqn.primitive, cts, *operands, **eqn.params)
    raise NotImplementedError(_no_transpose(eqn.primitive))


def _accumulate(pending: dict, v: Any, ct: Any) -> None:
    """Add a contribution to the cotangent of a variable."""
    if ct is None or type(ct) is Zero or type(v) is Literal:
        return
    ct = cast_cotangent(ct, v.aval)
    old = pending.get(v)
    pending[v] = ct if old is None else add_tangents(old, ct)


def _zero_of(v: Any) -> Zero:
    return Zero(v.aval if v.aval.explicit_sharding is None else v.aval.to_ct_aval())


def _dependents(jaxpr: Jaxpr, inputs: Sequence[bool]) -> set:
    """Return the variables that depend on the marked inputs."""
    return forward(jaxpr.eqns, [v for v, marked in zip(jaxpr.invars, inputs) if marked])


def _needed_by_results(jaxpr: Jaxpr) -> set:
    """Return the variables that the results depend on."""
    return jaxpr.memoised(("needed by results",), lambda: backward(jaxpr.eqns, jaxpr.outvars)[1])


def _no_transpose(primitive: Primitive) -> str:
    name, how = primitive.shown_as, (f"give the primitive {primitive.name} a rule with "
                                     f"xlafront.interpreters.ad.primitive_transposes[primitive] = rule.")
    if primitive.jvp is None:
        return (f"{name} cannot be transposed, as reverse-mode differentiation needs: its transpose rule is not implemented. "
                f"{how[0].upper()}{how[1:]}")
    return (f"{name} cannot be transposed, as it is not linear, or its transpose rule (for reverse-mode differentiation) is "
            "not implemented: a function given to linear_transpose must be linear in its arguments, and a custom_jvp rule in "
            f"its tangents. If {name} is linear, {how}")


class Transposed(NamedTuple):
    """A transposed jaxpr `(other inputs, given cotangents) -> (nonzero cotangents of the linear inputs, arrays of logs)`.

    `nonzero` says for each linear input whether its cotangent is returned; `logs` is the tree of the logs of backward rules
    (`backward_logs`), which has arrays only if the backward pass requests them.
    """

    jaxpr: Jaxpr
    nonzero: list[bool]
    logs: PyTreeDef


def transpose_program(closed: Jaxpr, linear: tuple[bool, ...], given: tuple[bool, ...], instantiate: bool = False,
                      strong: tuple[bool, ...] = ()) -> Transposed:
    """Return the transpose of a jaxpr. It is cached with the jaxpr.

    Args:
        closed: The jaxpr.
        linear: True for each input in which it is linear.
        given: True for each output that has a cotangent.
        instantiate: If True, return zero cotangents too.
        strong: True for each weakly typed output whose cotangent is not weakly typed.
    """
    has_logs = backward_logs.collects_values()

    def make() -> Transposed:
        others = [v for v, lin in zip(closed.invars, linear) if not lin]
        program = closed.replace(constvars=[*closed.constvars, *others],
                                 invars=[v for v, lin in zip(closed.invars, linear) if lin])

        def run(*args: tracing.StagedTracer) -> tuple[list[Any], tuple[list[bool], PyTreeDef]]:
            values, rest = args[:len(others)], iter(args[len(others):])
            cts = [next(rest) if g else Zero(v.aval) for v, g in zip(closed.outvars, given)]
            # Equations that do not depend on the linear inputs are evaluated first.
            inner, consts = evaluate_known(program, [*closed.consts, *values])
            with backward_logs.collect(has_logs) as logs:
                results = backward_pass(inner, consts, cts)
            if instantiate:
                results = [weakly_typed_as(instantiated(ct), ct.aval) if type(ct) is Zero else ct for ct in results]
            nonzero = [type(ct) is not Zero for ct in results]
            arrays, log_tree = tree.flatten(logs)
            return [*[ct for ct, nz in zip(results, nonzero) if nz], *arrays], (nonzero, log_tree)

        in_avals = [v.aval for v in others] + [
            v.aval.to_ct_aval().update(weak_type=False) if s else v.aval.to_ct_aval()
            for v, g, s in zip(closed.outvars, given, strong or (False,) * len(given)) if g]
        transposed, (nonzero, log_tree) = tracing.trace_with_aux(run, in_avals, closed.debug_info.with_unknown_names())
        return Transposed(transposed, nonzero, log_tree)

    return closed.memoised(("transpose", linear, given, instantiate, strong, has_logs), make)


def evaluate_known(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """Evaluate the equations that do not depend on inputs; return the remaining jaxpr, which is linear, and its constants."""
    depends: set = set(jaxpr.invars)
    linear_eqns = []
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
    changed = False
    thread = source.thread

    def evaluate(eqn: JaxprEqn) -> None:
        nonlocal changed
        changed = True
        operands = [v.val if type(v) is Literal else values[v] for v in eqn.invars]
        saved, thread.site = thread.site, eqn.site  # the operations have the location of the equation
        try:
            results = eqn.primitive.bind(*operands, **eqn.params)
        finally:
            thread.site = saved
        values.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results]))

    for eqn in jaxpr.eqns:
        marks = [type(v) is not Literal and v in depends for v in eqn.invars]
        if not any(marks):
            evaluate(eqn)
            continue
        if eqn.primitive.structured.dce is not None and not all(marks):
            flags = dependent_outputs(eqn.primitive, marks, eqn.params)
            halves = None if flags is None or all(flags) else known_and_linear(eqn, marks, flags)
            if halves is not None:
                known, eqn = halves
                if known is not None:
                    evaluate(known)
                if eqn is None:
                    continue
        depends.update(eqn.outvars)
        linear_eqns.append(eqn)
    if not changed:
        return jaxpr, list(consts)
    return jaxpr.replace(constvars=list(values), eqns=linear_eqns), list(values.values())


def transpose_of_call(call: ProgramCall, cts: Sequence[Any], /, *operands: Any, **params: Any) -> list[Any]:
    """Return the cotangents of the operands of a call of a jaxpr: a call of its transpose."""
    return transpose_called(params[call.parameter], cts, operands, partial(call.call, params))


def transpose_called(closed: Jaxpr, cts: Sequence[Any], operands: Sequence[Any],
                     call: Callable[[Jaxpr, list[Any], list[int], list[int | None]], Sequence[Any]]) -> list[Any]:
    """Return the cotangents of the operands of a call of `closed`; `call` calls the transpose, as `ProgramCall.call` does."""
    count = len(operands)
    linear = tuple([type(x) is UndefinedPrimal for x in operands])
    linear_positions = [i for i, lin in enumerate(linear) if lin]
    ins = [i for i, lin in enumerate(linear) if not lin]
    values = [operands[i] for i in ins]
    cts = convert_cotangents(cts, closed.out_avals)
    for i, ct in enumerate(cts, count):
        if type(ct) is not Zero:
            ins.append(i)
            values.append(ct)
    strong = tuple([v.weak_type and type(ct) is not Zero and not tracing.aval_of(ct).weak_type
                    for v, ct in zip(closed.out_avals, cts)])
    program, nonzero, logs = transpose_program(closed, linear, tuple([type(ct) is not Zero for ct in cts]),
                                               strong=strong if any(strong) else ())
    outs: list[int | None] = [i for i, nz in zip(linear_positions, nonzero) if nz]
    found = iter(call(program, values, ins, [*outs, *[None] * logs.num_leaves]))
    results: list[Any] = [None] * count
    for i, nz in zip(linear_positions, nonzero):
        results[i] = next(found) if nz else Zero(operands[i].aval)
    backward_logs.record_results(logs, list(found))
    return results
