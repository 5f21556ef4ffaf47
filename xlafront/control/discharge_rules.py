"""What loops and branches whose programs use references become: ones that carry, take and return what the references hold."""

from __future__ import annotations

from xlafront.core import tracing
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import ClosedJaxpr, Var, jaxpr_as_fun
from xlafront.transforms.calls.programs import in_three, reorder, with_weak_types


def discharge_scan(primitive, refs, operands, params, keep_rules):
    """References that all steps see become part of the carry; of those that are scanned over each step has a row."""
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    marks = [r is not None for r in refs]
    body, written = discharge_program(params["jaxpr"], marks, keep_rules)
    count = len(params["jaxpr"].out_avals)
    carried = [i for i in written if i < num_consts]
    fixed = [i for i in range(num_consts) if i not in carried]
    order = [*fixed, *carried, *range(num_consts, len(operands))]
    place = {i: count + k for k, i in enumerate(written)}
    outputs = [*[place[i] for i in carried], *range(count), *[place[i] for i in written if i >= num_consts]]
    results = primitive.bind(*[operands[i] for i in order], **params | {
        "jaxpr": reorder(body, order, outputs), "num_consts": len(fixed), "num_carry": len(carried) + num_carry})
    first = len(carried)
    rows = results[first + count:]
    return results[first:first + count], dict(zip(carried, results[:first])) | dict(zip(
        [i for i in written if i >= num_consts], rows))


def discharge_while(primitive, refs, operands, params, keep_rules):
    """Every reference becomes part of the carry, once, where the condition and the body both use it."""
    cond_nconsts, body_nconsts = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body, _ = in_three(refs, cond_nconsts, body_nconsts)
    none = [False] * (len(refs) - cond_nconsts - body_nconsts)
    condition, written_by_condition = discharge_program(
        params["cond_jaxpr"], [r is not None for r in of_cond] + none, keep_rules)
    body, written = discharge_program(params["body_jaxpr"], [r is not None for r in of_body] + none, keep_rules)
    distinct = list(dict.fromkeys([r for r in refs if r is not None]))
    held = {r: x for r, x in zip(refs, operands) if r is not None}
    cond_consts, body_consts, carry = in_three(operands, cond_nconsts, body_nconsts)

    def taking(program: ClosedJaxpr, used: list) -> ClosedJaxpr:
        """The program whose references come, all of them, between its constants and the carry."""
        invars = program.jaxpr.invars
        own = {r: v for r, v in zip(used, invars) if r is not None}
        moved = [own.get(r) or Var(aval) for r, aval in zip(distinct, held_avals)]
        return ClosedJaxpr(program.jaxpr.replace(invars=[
            *[v for r, v in zip(used, invars) if r is None], *moved, *invars[len(used):]]), program.consts)

    def writing(program: ClosedJaxpr, used: list, written: list[int], count: int) -> ClosedJaxpr:
        """The program that returns what all references hold, after its `count` own results."""
        news = dict(zip([used[i] for i in written], program.outvars[count:]))
        held_vars = program.jaxpr.invars[used.count(None):]
        return ClosedJaxpr(program.jaxpr.replace(outvars=[
            *program.outvars[:count], *[news.get(r, v) for r, v in zip(distinct, held_vars)]]), program.consts)

    held_avals = [_inner_aval(r, of_cond, params["cond_jaxpr"], of_body, params["body_jaxpr"]) for r in distinct]
    count, start = len(carry), [held[r] for r in distinct]
    ask, step = taking(condition, of_cond), writing(taking(body, of_body), of_body, written, len(carry))
    cond_consts = [x for r, x in zip(of_cond, cond_consts) if r is None]
    body_consts = [x for r, x in zip(of_body, body_consts) if r is None]
    places = {cond_nconsts + i: of_body[i] for i in written}
    if written_by_condition:
        ask = writing(ask, of_cond, written_by_condition, 1)
        places |= {i: of_cond[i] for i in written_by_condition}
        results = _asking_in_steps(primitive, ask, step, cond_consts, body_consts, start, carry)
    else:
        step = reorder(step, None, [*range(count, count + len(distinct)), *range(count)])
        results = primitive.bind(*cond_consts, *body_consts, *start, *carry, cond_jaxpr=ask, body_jaxpr=step,
                                 cond_nconsts=len(cond_consts), body_nconsts=len(body_consts))
    last = dict(zip(distinct, results))
    return results[len(distinct):], {i: last[r] for i, r in places.items()}


def _asking_in_steps(primitive, ask: ClosedJaxpr, step: ClosedJaxpr, cond_consts, body_consts, held, carry) -> list:
    """A loop whose condition changes what it passes on: it is asked before the first step, and at the end of each.

    `ask(constants, held, carry) -> (go on, held)`, `step(constants, held, carry) -> (carry, held)`.
    """
    first, second = len(cond_consts), len(cond_consts) + len(body_consts)

    def following(*args):
        of_cond, of_body, (_, *state) = args[:first], args[first:second], args[second:]
        found = jaxpr_as_fun(step)(*of_body, *state)
        carried, kept = found[:len(carry)], found[len(carry):]
        go_on, *kept = jaxpr_as_fun(ask)(*of_cond, *kept, *carried)
        return [go_on, *kept, *carried]

    go_on, *held = jaxpr_as_fun(ask)(*cond_consts, *held, *carry)
    state = [go_on, *held, *carry]
    avals = list(map(tracing.aval_of, state))
    body = tracing.trace_to_closed_jaxpr(following, [*map(tracing.aval_of, (*cond_consts, *body_consts)), *avals])
    condition = tracing.trace_to_closed_jaxpr(lambda go_on, *_: [go_on], avals)
    results = primitive.bind(*cond_consts, *body_consts, *state, cond_jaxpr=condition,
                             body_jaxpr=with_weak_types(body, avals), cond_nconsts=0, body_nconsts=second)
    return results[1:]


def _inner_aval(ref, of_cond, cond_jaxpr, of_body, body_jaxpr):
    used, program = (of_cond, cond_jaxpr) if ref in of_cond else (of_body, body_jaxpr)
    return program.in_avals[used.index(ref)].inner_aval


def discharge_cond(primitive, refs, operands, params, keep_rules):
    """Every branch returns what the references hold that some branch writes to."""
    marks = [r is not None for r in refs[1:]]
    found = [discharge_program(b, marks, keep_rules) for b in params["branches"]]
    count = len(params["branches"][0].out_avals)
    changed = sorted({i for _, written in found for i in written})

    def returning(branch: ClosedJaxpr, written: list[int]) -> ClosedJaxpr:
        news = dict(zip(written, branch.outvars[count:]))
        jaxpr = branch.jaxpr
        return ClosedJaxpr(jaxpr.replace(outvars=[
            *jaxpr.outvars[:count], *[news.get(i, jaxpr.invars[i]) for i in changed]]), branch.consts)

    branches = tuple([returning(b, written) for b, written in found])
    results = primitive.bind(*operands, **params | {"branches": branches})
    return results[:count], {1 + i: new for i, new in zip(changed, results[count:])}
