"""Discharge rules of loops and branches: Refs used inside become carried, passed and returned values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlafront.control.layouts import ScanLayout, WhileLayout
from xlafront.core import tracing
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import Jaxpr, Var
from xlafront.core.primitive import Primitive
from xlafront.transforms.calls.programs import reorder, split_in_three, with_weak_types

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Params

# What a rule returns: the results, and the new value of each Ref that was written to, by the index of the operand.
Discharged = tuple[list[Any], dict[int, Any]]


def discharge_scan(primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: Params, keep_rules: bool
                   ) -> Discharged:
    """Discharge a scan: constant Refs become carries; scanned Refs become scanned inputs and stacked outputs."""
    layout, count = ScanLayout.of(params), len(params["jaxpr"].out_avals)
    body, written = discharge_program(params["jaxpr"], [r is not None for r in refs], keep_rules)
    consts, carry, xs = layout.split(range(len(operands)))
    carried, stacked = [i for i in written if i in consts], [i for i in written if i not in consts]
    fixed = [i for i in consts if i not in carried]
    order = [*fixed, *carried, *carry, *xs]
    position = {i: count + k for k, i in enumerate(written)}  # of the new value among the results of the body
    outputs = [*[position[i] for i in carried], *range(count), *[position[i] for i in stacked]]
    found = primitive.bind(*[operands[i] for i in order], **params | {"jaxpr": reorder(body, order, outputs)} | ScanLayout(
        len(fixed), len(carried) + layout.num_carry)._asdict())
    final, results, rows = split_in_three(found, len(carried), count)
    return results, dict(zip([*carried, *stacked], [*final, *rows]))


def discharge_while(primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: Params, keep_rules: bool
                    ) -> Discharged:
    """Discharge a while loop: every Ref becomes a carry, a single one if both the condition and the body use it."""
    layout = WhileLayout.of(params)
    cond_refs, body_refs, carry_refs = layout.split(refs)
    condition, written_by_condition = discharge_program(
        params["cond_jaxpr"], [r is not None for r in (*cond_refs, *carry_refs)], keep_rules)
    body, written_by_body = discharge_program(params["body_jaxpr"], [r is not None for r in (*body_refs, *carry_refs)],
                                              keep_rules)
    distinct = list(dict.fromkeys([r for r in refs if r is not None]))
    values_by_ref = {r: x for r, x in zip(refs, operands) if r is not None}
    cond_consts, body_consts, carry = layout.split(operands)

    def take_values(jaxpr: Jaxpr, refs_used: list) -> Jaxpr:
        """Return the jaxpr that takes the values of all Refs between its constants and the carry."""
        invars = jaxpr.invars
        own_vars = {r: v for r, v in zip(refs_used, invars) if r is not None}
        ref_vars = [own_vars.get(r) or Var(aval) for r, aval in zip(distinct, value_avals)]
        return jaxpr.replace(invars=[
            *[v for r, v in zip(refs_used, invars) if r is None], *ref_vars, *invars[len(refs_used):]])

    def return_values(jaxpr: Jaxpr, refs_used: list, written_by_body: list[int], count: int) -> Jaxpr:
        """Return the jaxpr that returns the values of all Refs after its `count` own results."""
        new_values = dict(zip([refs_used[i] for i in written_by_body], jaxpr.outvars[count:]))
        ref_inputs = jaxpr.invars[refs_used.count(None):]
        return jaxpr.replace(outvars=[
            *jaxpr.outvars[:count], *[new_values.get(r, v) for r, v in zip(distinct, ref_inputs)]])

    value_avals = [_value_aval(r, cond_refs, params["cond_jaxpr"], body_refs, params["body_jaxpr"]) for r in distinct]
    count, initial_values = len(carry), [values_by_ref[r] for r in distinct]
    condition_jaxpr, body_jaxpr = take_values(condition, cond_refs), return_values(take_values(body, body_refs), body_refs,
                                                                                   written_by_body, len(carry))
    cond_consts = [x for r, x in zip(cond_refs, cond_consts) if r is None]
    body_consts = [x for r, x in zip(body_refs, body_consts) if r is None]
    written_refs = {layout.cond_nconsts + i: body_refs[i] for i in written_by_body}
    if written_by_condition:
        condition_jaxpr = return_values(condition_jaxpr, cond_refs, written_by_condition, 1)
        written_refs |= {i: cond_refs[i] for i in written_by_condition}
        results = _loop_with_effectful_condition(primitive, condition_jaxpr, body_jaxpr, cond_consts, body_consts,
                                                 initial_values, carry)
    else:
        body_jaxpr = reorder(body_jaxpr, None, [*range(count, count + len(distinct)), *range(count)])
        results = primitive.bind(*cond_consts, *body_consts, *initial_values, *carry, cond_jaxpr=condition_jaxpr,
                                 body_jaxpr=body_jaxpr, **WhileLayout(len(cond_consts), len(body_consts))._asdict())
    final_values = dict(zip(distinct, results))
    return results[len(distinct):], {i: final_values[r] for i, r in written_refs.items()}


def _loop_with_effectful_condition(primitive: Primitive, condition: Jaxpr, body: Jaxpr, cond_consts: Sequence[Any],
                                   body_consts: Sequence[Any], ref_values: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
    """Bind a loop whose condition writes to Refs: evaluate it before the first step and at the end of each step.

    `condition(constants, ref_values, carry) -> (active, ref_values)`,
    `body(constants, ref_values, carry) -> (carry, ref_values)`.
    """
    layout = WhileLayout(len(cond_consts), len(body_consts))

    def step_and_test(*args: Any) -> list[Any]:
        cond_operands, body_operands, (_, *state) = layout.split(args)
        outputs = body(*body_operands, *state)
        new_carry, new_ref_values = outputs[:len(carry)], outputs[len(carry):]
        active, *new_ref_values = condition(*cond_operands, *new_ref_values, *new_carry)
        return [active, *new_ref_values, *new_carry]

    active, *ref_values = condition(*cond_consts, *ref_values, *carry)
    state = [active, *ref_values, *carry]
    avals = list(map(tracing.aval_of, state))
    step_jaxpr = tracing.trace_to_closed_jaxpr(step_and_test, [*map(tracing.aval_of, (*cond_consts, *body_consts)), *avals])
    active_jaxpr = tracing.trace_to_closed_jaxpr(lambda active, *_: [active], avals)
    results = primitive.bind(*cond_consts, *body_consts, *state, cond_jaxpr=active_jaxpr,
                             body_jaxpr=with_weak_types(step_jaxpr, avals),
                             **WhileLayout(0, len(cond_consts) + len(body_consts))._asdict())
    return results[1:]


def _value_aval(ref: Var, cond_refs: list, cond_jaxpr: Jaxpr, body_refs: list, body_jaxpr: Jaxpr) -> Aval:
    refs, jaxpr = (cond_refs, cond_jaxpr) if ref in cond_refs else (body_refs, body_jaxpr)
    return jaxpr.in_avals[refs.index(ref)].inner_aval


def discharge_cond(primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: Params, keep_rules: bool
                   ) -> Discharged:
    """Discharge a cond: every branch returns the values of the Refs that any branch writes to."""
    is_ref = [r is not None for r in refs[1:]]
    discharged = [discharge_program(b, is_ref, keep_rules) for b in params["branches"]]
    count = len(params["branches"][0].out_avals)
    changed = sorted({i for _, written in discharged for i in written})

    def return_values(branch: Jaxpr, written: list[int]) -> Jaxpr:
        new_values = dict(zip(written, branch.outvars[count:]))
        return branch.replace(outvars=[
            *branch.outvars[:count], *[new_values.get(i, branch.invars[i]) for i in changed]])

    branches = tuple([return_values(b, written) for b, written in discharged])
    results = primitive.bind(*operands, **params | {"branches": branches})
    return results[:count], {1 + i: new for i, new in zip(changed, results[count:])}
