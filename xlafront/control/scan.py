"""`scan` and what is made of it: a loop of a known number of steps, as one operation with all its rules."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.control.discharge_rules import discharge_scan
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import entry_of, with_dimension, without_dimension
from xlafront.core.dimensions import is_symbolic_dim, max_dim
from xlafront.core.ir import (
    ClosedJaxpr,
    Jaxpr,
    Literal,
    Var,
    dce_closed,
    dependent_results,
    effects_by_operand,
    jaxpr_as_fun,
    keeps_alive,
)
from xlafront.core.keys import physical
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.elementwise import as_type, convert_element_type_p
from xlafront.lax.families import add_tangents
from xlafront.lax.shapes import expand_dims, place_axis, reshape
from xlafront.lax.slicing import concatenate, slice_in_dim
from xlafront.lax.zeros import instantiate
from xlafront.runtime import config
from xlafront.staging import signatures
from xlafront.transforms.ad.arguments import as_array, as_results, weakly_typed_as
from xlafront.transforms.ad.checkpoint import split_inside
from xlafront.transforms.ad.jvp import jvp_program
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.ad.transpose import of_dtypes, transpose_program
from xlafront.transforms.batching.vmap import batch_program, vmap
from xlafront.transforms.calls.programs import (
    DerivedFunction,
    active_results,
    evaluate,
    fixpoint,
    in_three,
    of_library,
    operands_of,
    references_as_inputs,
    reorder,
    split_invariant,
    trace_function,
    type_mismatches,
    vary,
    with_weak_types,
)

# The operation. Its operands are, in order, `num_consts` values that every step reads, `num_carry` values that go from
# step to step, and arrays of which each step reads one row. The body's results are the new carry and one row of each of
# the results that are collected.


def scan_types(*avals, jaxpr, length, num_consts, num_carry, **params):
    outs = jaxpr.out_avals
    return [*outs[:num_carry], *[with_dimension(a, 0, length) for a in outs[num_carry:]]]


def bind_scan(jaxpr: ClosedJaxpr, consts, carry, xs, *, length, reverse, unroll) -> tuple[list, list]:
    """Bind a scan; its final carry and its collected results."""
    (jaxpr,), refs = references_as_inputs((jaxpr,), len(consts))
    results = scan_p.bind(*consts, *refs, *carry, *xs, jaxpr=jaxpr, length=length, num_carry=len(carry),
                          num_consts=len(consts) + len(refs), reverse=reverse, unroll=unroll)
    return list(results[:len(carry)]), list(results[len(carry):])


# Lowering


def _lower(ctx, *operands, jaxpr, length, num_consts, num_carry, reverse, unroll):
    consts, carry, xs = in_three(operands, num_consts, num_carry)
    body, avals = jaxpr.jaxpr, jaxpr.out_avals[num_carry:]
    if ctx.platform in ("cuda", "rocm") and unroll == 1 and ctx.told is None and not xs and not avals and _is_one_kernel(
            body, length):
        unroll = length
    unroll = 1 if is_symbolic_dim(length) else max(1, min(unroll, length))
    steps = length // unroll

    def step(inner, index, carry, xs, ys):
        """One application of the body at a row; `index` is a traced row number or an integer."""
        passed = [inner.typed(x, aval) for x, aval in zip([*consts, *carry], body.in_avals)]
        rows = [_read_row(inner, inner.typed(x, whole), whole, aval, index) for x, whole, aval in zip(xs, of_xs, body_xs)]
        results = inner.inline(jaxpr, [*passed, *rows])
        ys = [_write_row(inner, y, row, whole, aval, index)
              for y, row, whole, aval in zip(ys, results[num_carry:], of_ys, avals)]
        return results[:num_carry], ys

    body_xs = body.in_avals[num_consts + num_carry:]
    of_xs, of_ys = ctx.avals_in[num_consts + num_carry:], ctx.avals_out[num_carry:]
    ys = [ctx.typed(ctx.constant(0, (length, *physical(a).shape), physical(a).dtype), whole)
          for a, whole in zip(avals, of_ys)]
    if steps == 1 and length * len(body.eqns) <= 4096:  # no loop at all
        for k in range(length):
            carry, ys = step(ctx, length - 1 - k if reverse else k, carry, xs, ys)
        return [*carry, *ys]
    scalar = ((), np.dtype(np.int32))
    count = len(carry)

    def row_number(inner, counter, offset):
        if not reverse:
            return counter if not offset else inner.op("stablehlo.add", [counter, inner.constant(np.int32(offset))], [scalar])
        return inner.op("stablehlo.subtract", [inner.size(length - 1 - offset), counter], [scalar])

    def condition(inner, counter, *state):
        return inner.compare("LT", "SIGNED", counter, inner.size(steps * unroll), ())

    def advance(inner, counter, *state):
        carry, ys = list(state[:count]), [inner.typed(y, whole) for y, whole in zip(state[count:], of_ys)]
        inner.body.step = body
        for offset in range(unroll):
            carry, ys = step(inner, row_number(inner, counter, offset), carry, xs, ys)
        return [inner.op("stablehlo.add", [counter, inner.constant(np.int32(unroll))], [scalar]), *carry, *ys]

    if steps:
        start = ctx.constant(np.int32(0))
        _, *state = ctx.loop([start, *carry, *ys], condition, advance, lowering.module.ordered_effects(jaxpr))
        carry, ys = state[:count], state[count:]
    for k in () if is_symbolic_dim(length) else range(steps * unroll, length):
        carry, ys = step(ctx, length - 1 - k if reverse else k, carry, xs, ys)
    return [*carry, *ys]


def _is_one_kernel(body: Jaxpr, length) -> bool:
    """Whether all steps written out are one kernel or two of a GPU, where a turn of a loop is several, and cost the compiler no
    more: so bisections, and iterations of arithmetic that go on for each element by itself."""
    return not is_symbolic_dim(length) and length * len(body.eqns) <= 320 and not body.effects and all(
        [eqn.primitive.name in _ARITHMETIC for eqn in body.eqns])


_ARITHMETIC = frozenset("""abs add add_any and broadcast_in_dim clamp convert_element_type div eq floor gather ge gt integer_pow
    is_finite le lt max min mul ne neg not or reshape select_n shift_left shift_right_arithmetic shift_right_logical sign sqrt
    square sub xor""".split())


def _starts(ctx, index, rank: int):
    zero = ctx.constant(np.int32(0))
    first = ctx.constant(np.int32(index)) if isinstance(index, int) else index
    return [first, *[zero] * (rank - 1)]


def _read_row(ctx, x, whole, aval, index):
    shape, dtype = physical(aval).shape, physical(aval).dtype
    row = ((1, *shape), dtype)
    if isinstance(index, int):
        part = ctx.slice(x, [index, *[0] * len(shape)], [index + 1, *shape], result=row)
    else:
        part = ctx.dynamic_slice(x, _starts(ctx, index, 1 + len(shape)), row)
    return ctx.typed(ctx.reshape(ctx.typed(part, whole), shape, dtype), aval)


def _write_row(ctx, y, row, whole, aval, index):
    shape, dtype = physical(aval).shape, physical(aval).dtype
    part = ctx.typed(ctx.reshape(row, (1, *shape), dtype), whole)
    written = ctx.dynamic_update_slice(y, part, _starts(ctx, index, 1 + len(shape)), (physical(whole).shape, dtype))
    return ctx.typed(written, whole)


# Differentiation


def _jvp(primals, tangents, *, jaxpr, length, num_consts, num_carry, reverse, unroll):
    active = _active_operands(jaxpr, tangents, num_consts, num_carry)
    kept = (*active[num_consts:num_consts + num_carry], *(False,) * (len(jaxpr.out_avals) - num_carry))
    program, nonzero = jvp_program(jaxpr, active, kept)
    tangents = [instantiate(t) if a else None for t, a in zip(tangents, active)]
    # The program takes (primals, tangents); scan wants the parts of both side by side.
    count, rank = len(active), len(jaxpr.out_avals)
    position = iter(range(count, count + sum(active)))
    places = [next(position) if a else None for a in active]

    def both(start, stop):
        return [*range(start, stop), *[p for p in places[start:stop] if p is not None]]

    def together(items, moved, start, stop):
        return [*items[start:stop], *[t for t, a in zip(moved[start:stop], active[start:stop]) if a]]

    bounds = (0, num_consts, num_consts + num_carry, count)
    spans = list(zip(bounds, bounds[1:]))
    position = iter(range(rank, rank + sum(nonzero)))
    out_places = [next(position) if nz else None for nz in nonzero]
    outputs = [*range(num_carry), *[p for p in out_places[:num_carry] if p is not None],
               *range(num_carry, rank), *[p for p in out_places[num_carry:] if p is not None]]
    body = program.jaxpr.memoised(("parts of a scan", num_consts, num_carry), lambda: _same_carry(reorder(
        program, [i for span in spans for i in both(*span)], outputs), num_consts + sum(active[:num_consts]),
        [*jaxpr.out_avals[:num_carry], *[a for a, k in zip(jaxpr.out_avals, kept) if k]]))
    carry, ys = bind_scan(body, *[together(primals, tangents, *span) for span in spans], length=length, reverse=reverse,
                          unroll=unroll)
    out_tangents = iter([*carry[num_carry:], *ys[rank - num_carry:]])
    results = [*carry[:num_carry], *ys[:rank - num_carry]]
    return results, [next(out_tangents) if nz else Zero(tracing.aval_of(x).to_tangent_aval())
                     for nz, x in zip(nonzero, results)]


def _same_carry(body: ClosedJaxpr, num_consts: int, carry: Sequence[Any]) -> ClosedJaxpr:
    """The body with the carry as weakly typed on return as on entry, or less: no more than these results of the loop are."""
    num_carry = len(carry)
    given = [a.update(weak_type=a.weak_type and b.weak_type)
             for a, b in zip(body.in_avals[num_consts:num_consts + num_carry], carry)]
    return with_weak_types(body, [*given, *[None] * (len(body.out_avals) - num_carry)])


def _active_operands(jaxpr, tangents, num_consts, num_carry) -> tuple[bool, ...]:
    """Which operands have tangents, counting the carry that gets one in some step."""
    return _moving([type(t) is not Zero for t in tangents], jaxpr, num_consts, num_carry)


def _moving(active: Sequence[bool], jaxpr, num_consts, num_carry) -> tuple[bool, ...]:
    """The operands marked, and those of the carry that get a tangent of them in some step."""
    def grow(carry):
        return active_results(jaxpr.jaxpr, [*active[:num_consts], *carry, *active[num_consts + num_carry:]])[:num_carry]

    carry = fixpoint(active[num_consts:num_consts + num_carry], grow)
    return (*active[:num_consts], *carry, *active[num_consts + num_carry:])


class _LinearizedBody:
    """A loop body in the halves that linearisation needs: see `_linearize`."""

    def __init__(self, jaxpr: ClosedJaxpr, active, num_consts: int, num_carry: int):
        is_const = [i < num_consts for i in range(len(active))]
        kept = (*active[num_consts:num_consts + num_carry], *(False,) * (len(jaxpr.out_avals) - num_carry))
        split = linearize_program(jaxpr, active, kept)
        self.outputs = split.outputs
        count = len(jaxpr.out_avals)
        # Residuals that no step changes are computed before the loop, with all that leads to them.
        wanted = [False] * count + [True] * split.residuals
        self.before, forward, hoisted = split_invariant(split.forward, is_const, wanted)
        self.num_passed = len(forward.in_avals) - len(jaxpr.in_avals)
        # A residual is a value from before the loop, a value that each step computes, or an operand of the loop.
        early, late = iter(range(split.residuals)), iter(range(split.residuals))
        computed = iter([("before", next(early)) if h else ("step", next(late)) for h in hoisted[count:]])
        sources: list[tuple[str, int]] = []
        carried: list[int] = []
        for known in split.known:
            if known is None:
                sources.append(next(computed))
            elif known < num_consts:
                sources.append(("const", known))
            elif known < num_consts + num_carry:
                sources.append(("carry", len(carried)))
                carried.append(known)
            else:
                sources.append(("x", known - num_consts - num_carry))
        self.num_hoisted = sum(hoisted)
        self.num_stepped = split.residuals - self.num_hoisted
        inner = forward.jaxpr
        # The carry at the start of each step is collected where the linear part reads it.
        self.forward = forward.replace(jaxpr=inner.replace(
            outvars=[*inner.outvars, *[inner.invars[self.num_passed + i] for i in carried]]))
        self.fixed = [s for s in sources if s[0] in ("before", "const")]
        self.stacked = [s for s in sources if s[0] not in ("before", "const")]
        total = len(sources)
        moving = [i for i, a in enumerate(active) if a]
        place = {operand: total + n for n, operand in enumerate(moving)}

        def tangents(start, stop):
            return [place[i] for i in range(start, stop) if active[i]]

        linear = reorder(split.linear, [
            *[i for i, s in enumerate(sources) if s in self.fixed], *tangents(0, num_consts),
            *tangents(num_consts, num_consts + num_carry),
            *[i for i, s in enumerate(sources) if s in self.stacked], *tangents(num_consts + num_carry, len(active))])
        self.linear = _same_carry(linear, len(self.fixed) + sum(active[:num_consts]),
                                  [a for a, k in zip(jaxpr.out_avals, kept) if k])


def _linearize(primals, tangents, *, jaxpr, length, num_consts, num_carry, reverse, unroll):
    """One loop computes the values and collects what its derivative needs; a second one is linear in the tangents."""
    active = _active_operands(jaxpr, tangents, num_consts, num_carry)
    body = jaxpr.jaxpr.memoised(("linearized body", active, num_consts, num_carry),
                                lambda: _LinearizedBody(jaxpr, active, num_consts, num_carry))
    options = {"length": length, "reverse": reverse, "unroll": unroll}
    consts, carry, xs = in_three(primals, num_consts, num_carry)
    early = jaxpr_as_fun(body.before)(*consts)
    hoisted, passed = early[:body.num_hoisted], early[body.num_hoisted:]
    carry_out, ys = bind_scan(body.forward, [*passed, *consts], carry, xs, **options)
    count = len(jaxpr.out_avals) - num_carry
    results, stepped, carried = [*carry_out, *ys[:count]], ys[count:count + body.num_stepped], ys[count + body.num_stepped:]
    residuals = {"before": hoisted, "const": consts, "step": stepped, "carry": carried, "x": xs}
    moving = in_three([instantiate(t) if a else None for t, a in zip(tangents, active)], num_consts, num_carry)
    in_consts, in_carry, in_xs = [[t for t in part if t is not None] for part in moving]
    if any(body.outputs):
        carry_t, ys_t = bind_scan(
            body.linear, [*[residuals[kind][i] for kind, i in body.fixed], *in_consts], in_carry,
            [*[residuals[kind][i] for kind, i in body.stacked], *in_xs], **options)
        moved = iter([*carry_t, *ys_t])
    else:
        moved = iter(())
    return results, [next(moved) if used else Zero(tracing.aval_of(x).to_tangent_aval())
                     for used, x in zip(body.outputs, results)]


def _reached(operands, jaxpr, num_consts, num_carry) -> list[bool]:
    """Which operands depend on the marked ones, counting the carry that does in some step."""
    consts, carry, xs = in_three(operands, num_consts, num_carry)
    carry = fixpoint(carry, lambda flags: dependent_results(jaxpr.jaxpr, [*consts, *flags, *xs])[:num_carry])
    return [*consts, *carry, *xs]


def _moves_with(operands, *, jaxpr, num_consts, num_carry, **_):
    moving = _moving(operands, jaxpr, num_consts, num_carry)
    found = active_results(jaxpr.jaxpr, moving)
    return [*moving[num_consts:num_consts + num_carry], *found[num_carry:]]


def _depends(operands, *, jaxpr, num_consts, num_carry, **_):
    reached = _reached(operands, jaxpr, num_consts, num_carry)
    carry = reached[num_consts:num_consts + num_carry]  # where there are no steps, it is the result
    found = dependent_results(jaxpr.jaxpr, reached)
    return [a or b for a, b in zip(found, carry)] + found[num_carry:]


def _transpose(cts, *operands, jaxpr, length, num_consts, num_carry, reverse, unroll):
    """The loop backwards: it carries the cotangents of the carry and the sums of those of the constants."""
    undefined = [is_undefined(x) for x in operands]

    linear = _reached(undefined, jaxpr, num_consts, num_carry)
    linear_carry = linear[num_consts:num_consts + num_carry]
    options = {"length": length, "unroll": unroll}
    consts, carry, xs = in_three(operands, num_consts, num_carry)
    cts = of_dtypes(cts, jaxpr.out_avals)
    ct_carry, ct_ys = cts[:num_carry], cts[num_carry:]
    given = [type(ct) is not Zero for ct in ct_ys]
    weak = tuple([(ct.aval if type(ct) is Zero else tracing.aval_of(ct)).weak_type for ct in ct_carry])
    plan = jaxpr.jaxpr.memoised(("backward body", tuple(linear), tuple(given), num_consts, num_carry, weak),
                                lambda: _BackwardBody(jaxpr, linear, given, num_consts, num_carry, weak))
    known_consts = [x for x, lin in zip(consts, linear) if not lin]
    known_xs = [x for x, lin in zip(xs, linear[num_consts + num_carry:]) if not lin]
    walked: list[Any] = []
    if plan.walk is not None:  # a carry that does not depend on the tangents, as a counter
        _, walked = bind_scan(plan.walk, known_consts, [c for c, lin in zip(carry, linear_carry) if not lin], known_xs,
                              reverse=reverse, **options)
    sums = [instantiate(Zero(x.aval.update(weak_type=False).to_ct_aval())) for x in consts if is_undefined(x)]
    start = [instantiate(ct) for ct, lin in zip(ct_carry, linear_carry) if lin]
    out, rows = bind_scan(plan.body, known_consts, [*sums, *start],
                          [*walked, *known_xs, *[ct for ct, g in zip(ct_ys, given) if g]], reverse=not reverse, **options)
    of_consts, of_carry, of_xs = iter(out[:len(sums)]), iter(out[len(sums):]), iter(rows)
    results = [weakly_typed_as(next(of_consts), x.aval) if lin else None for x, lin in zip(consts, linear)]
    for x, given_ct, lin in zip(carry, ct_carry, linear_carry):
        ct = next(of_carry) if lin else None
        if is_undefined(x) and type(given_ct) is Zero:
            ct = weakly_typed_as(ct, x.aval)
        results.append(ct if is_undefined(x) else None)
    return [*results, *[next(of_xs) if lin else None for lin in linear[num_consts + num_carry:]]]


def _with_strong_carry(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int) -> ClosedJaxpr:
    """The body with each carry as weakly typed as it leaves a step: so are its cotangents."""
    inner = jaxpr.jaxpr
    strong = {v: Var(v.aval.update(weak_type=False))
              for v, out in zip(inner.invars[num_consts:num_consts + num_carry], inner.outvars)
              if v.aval.weak_type and not out.aval.weak_type}
    if not strong:
        return jaxpr

    def renamed(atoms):
        return [v if type(v) is Literal else strong.get(v, v) for v in atoms]

    return ClosedJaxpr(inner.replace(invars=renamed(inner.invars), outvars=renamed(inner.outvars), eqns=[
        eqn.replace(invars=renamed(eqn.invars)) for eqn in inner.eqns]), jaxpr.consts)


class _BackwardBody:
    """The bodies of the loops that transpose a linear one: `walk` for its nonlinear carry, `body` for the cotangents."""

    def __init__(self, jaxpr: ClosedJaxpr, linear, given, num_consts: int, num_carry: int, weak: Sequence[bool]):
        jaxpr = _with_strong_carry(jaxpr, num_consts, num_carry)
        inner = jaxpr.jaxpr
        lin_consts, lin_carry, lin_xs = in_three(linear, num_consts, num_carry)
        walking = [num_consts + i for i, lin in enumerate(lin_carry) if not lin]
        self.walk = None
        if walking:
            stays = [i for i, lin in enumerate(linear) if not lin]
            program = inner.replace(outvars=[*[inner.outvars[i - num_consts] for i in walking],
                                             *[inner.invars[i] for i in walking]])
            program, _ = dce_closed(ClosedJaxpr(program, jaxpr.consts), [True] * (2 * len(walking)), True)
            self.walk = reorder(program, stays)
        outputs = [i for i, lin in enumerate(lin_carry) if lin] + [num_carry + i for i, g in enumerate(given) if g]
        backward, _ = transpose_program(reorder(jaxpr, None, outputs), tuple(linear), (True,) * len(outputs), True)
        fixed = [i for i in range(num_consts) if not lin_consts[i]]
        rows = [num_consts + num_carry + i for i, lin in enumerate(lin_xs) if not lin]
        num_sums, num_linear_carry = sum(lin_consts), sum(lin_carry)
        order = [*fixed, *walking, *rows]  # as `backward` takes them

        def step(*args):
            known, args = args[:len(fixed)], args[len(fixed):]
            sums, args = args[:num_sums], args[num_sums:]
            cts, args = args[:num_linear_carry], args[num_linear_carry:]
            walked, args = args[:len(walking)], args[len(walking):]
            values, ct_ys = args[:len(rows)], args[len(rows):]
            found = jaxpr_as_fun(backward)(*known, *walked, *values, *cts, *ct_ys)
            return [*[add_tangents(s, ct) for s, ct in zip(sums, found)], *found[num_sums:]]

        avals = jaxpr.in_avals
        tangents = [avals[i].update(weak_type=False).to_ct_aval() for i in range(num_consts) if lin_consts[i]]
        carried = [avals[num_consts + i].update(weak_type=weak[i]).to_ct_aval() for i in range(num_carry) if lin_carry[i]]
        assert order == sorted(order)
        self.body = with_weak_types(tracing.trace_to_closed_jaxpr(step, [
            *[avals[i] for i in fixed], *tangents, *carried, *[avals[i] for i in walking], *[avals[i] for i in rows],
            *[inner.outvars[num_carry + i].aval.to_ct_aval() for i, g in enumerate(given) if g]],
            jaxpr.debug_info.with_unknown_names()),
            [*tangents, *[None] * (len(jaxpr.in_avals) - len(order) - num_sums)])


# Batching and dead code


def _batch(trace, operands, dims, *, jaxpr, length, num_consts, num_carry, reverse, unroll):
    size = trace.size
    consts, carry, xs = in_three([d is not None for d in dims], num_consts, num_carry)

    def program(carry):
        marks = tuple(0 if b else None for b in (*consts, *carry, *xs))
        return batch_program(jaxpr, marks, trace, (*carry, *(False,) * (len(jaxpr.out_avals) - num_carry)))

    carry = fixpoint(carry, lambda flags: [d is not None for d in program(flags)[1][:num_carry]])
    body, out_dims = program(carry)
    moved = []
    for i, (x, d) in enumerate(zip(operands, dims)):
        if i < num_consts:
            moved.append(x if d is None else place_axis(x, d, 0, size))
        elif i < num_consts + num_carry:
            moved.append(place_axis(x, d, 0, size) if carry[i - num_consts] else x)
        else:  # the first axis counts steps
            moved.append(x if d is None else place_axis(x, d, 1, size))
    final, collected = bind_scan(body, *in_three(moved, num_consts, num_carry), length=length, reverse=reverse, unroll=unroll)
    return [*final, *collected], [d if d is None or i < num_carry else d + 1 for i, d in enumerate(out_dims)]


def _dce(used, eqn):
    p = eqn.params
    closed, num_consts, num_carry = p["jaxpr"], p["num_consts"], p["num_carry"]
    effectful = keeps_alive(closed.effects)
    if not any(used) and not effectful:
        return None
    ys = used[num_carry:]

    def grow(carry):
        return dce_closed(closed, [*carry, *ys])[1][num_consts:num_consts + num_carry]

    carry = fixpoint(used[:num_carry], grow)
    body, kept = dce_closed(closed, [*carry, *ys], [i >= num_consts and i < num_consts + num_carry and carry[i - num_consts]
                                                for i in range(len(closed.in_avals))])
    if all(kept) and all(carry) and all(ys) and len(body.eqns) == len(closed.eqns):
        return eqn
    keep_out = [*carry, *ys]
    return eqn.replace(
        invars=[v for v, k in zip(eqn.invars, kept) if k], outvars=[v for v, k in zip(eqn.outvars, keep_out) if k],
        params=p | {"jaxpr": body, "num_consts": sum(kept[:num_consts]), "num_carry": sum(carry)})


def _key_use(eqn, use_of_program):
    """What a step spends of the carry must be new in the next one; rows are each read once."""
    p = eqn.params
    body, rows = p["jaxpr"].jaxpr, p["num_consts"] + p["num_carry"]
    spends, results = use_of_program(body)
    for i, _ in spends:
        if i < p["num_consts"]:
            raise errors.key_reuse_in_loop("scan body function", body, "it spends a key that is the same in every step")
        if i < rows and results[i - p["num_consts"]] != "new":
            raise errors.key_reuse_in_loop("scan body function", body, "it spends a key of the carry and returns no new one "
                                           "in its place")
    return [(i, True if i >= rows else part) for i, part in spends], results


def _split(eqn, policy):
    """Under a checkpoint policy: what it saves inside of the body is collected, and read by the loop that recomputes."""
    p = eqn.params
    closed, num_consts, num_carry = p["jaxpr"], p["num_consts"], p["num_carry"]
    split = closed.jaxpr.memoised(("split", policy), lambda: split_inside(closed, policy))
    if not split.num_saved or eqn.effects:
        return None
    saved = [Var(with_dimension(a, 0, p["length"])) for a in split.first.out_avals[len(eqn.outvars):]]
    count, inputs = split.num_saved, len(eqn.invars)
    again = reorder(split.again, [*range(count, count + num_consts + num_carry), *range(count),
                                  *range(count + num_consts + num_carry, count + inputs)])
    before = num_consts + num_carry
    return (eqn.replace(outvars=[*eqn.outvars, *saved], params=p | {"jaxpr": split.first}),
            eqn.replace(invars=[*eqn.invars[:before], *saved, *eqn.invars[before:]], params=p | {"jaxpr": again}), saved)


def _steps(run, operands, params) -> None:
    consts, carry = params["num_consts"], params["num_consts"] + params["num_carry"]
    carried, rows = operands[consts:carry], operands[carry:]
    order = range(params["length"])
    for i in reversed(order) if params["reverse"] else order:
        carried = run(params["jaxpr"], *operands[:consts], *carried, *[x[i] for x in rows])[:params["num_carry"]]


scan_p = Primitive(
    "scan", multiple_results=True, memoise=False, cost="heavy", abstract=scan_types, lower=_lower, jvp=_jvp,
    linearize=_linearize, transpose=_transpose, dce=_dce, partial_eval=_split, discharge=discharge_scan,
    effects=lambda *_, jaxpr, **params: effects_by_operand(jaxpr),
    impl=lambda *args, **params: evaluate(scan_p, args, params, params["jaxpr"].jaxpr))
scan_p.batch_with_axis = _batch
scan_p.depends, scan_p.moves_with = _depends, _moves_with
scan_p.steps = _steps
scan_p.key_use = _key_use


# Public


@boundary
def scan(f: Callable, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False, unroll: int | bool = 1,
         _split_transpose: bool = False) -> tuple[Any, Any]:
    """A compiled loop that carries a state over the rows of arrays and collects a result of each step.

    - `f`: `f(carry, x) -> (carry, y)`. It is traced once, whatever the number of steps.
    - `init`: the first carry, a pytree; its types stay the same from step to step.
    - `xs`: a pytree of arrays with a common first dimension, or None with `length` given.
    - `length`: the number of steps.
    - `reverse`: from the last row to the first.
    - `unroll`: how many steps go into one turn of the compiled loop; True: all.
    - `_split_transpose`: has no effect.

    >>> lax.scan(lambda total, x: (total + x, total), 0, xnp.array([1, 2, 3]))  # the last carry, and what was collected
    (Array(6, dtype=int32), Array([0, 1, 3], dtype=int32, weak_type=True))
    """
    name = signatures.function_name(f) if callable(f) else None
    if name is None:
        raise errors.not_callable("scan", f)
    x_leaves, x_tree = tree.flatten(xs)
    x_leaves = operands_of(x_leaves, f"scan of {name}", xs)
    length = _length(name, xs, x_leaves, length)
    if isinstance(unroll, bool):
        unroll = max_dim(length, 1) if unroll and not is_symbolic_dim(length) else 1
    if not isinstance(unroll, (int, np.integer)):
        raise TypeError(f"scan of {name} takes unroll as an integer or a bool, got {unroll!r}.")
    if unroll < 0:
        raise ValueError(f"scan of {name} takes unroll as a non-negative integer or a bool, got {unroll!r}.")
    unroll = max(int(unroll), 1)
    if config.disable_jit.value:
        if not length:
            raise ValueError(f"scan of {name} is a zero-length one and jit is disabled: without a step nothing says what types "
                             f"the results have. Leave disable_jit off for it.")
        return _scan_in_python(f, init, x_leaves, x_tree, length, reverse)
    leaves, init_tree = tree.flatten(init)
    carry = operands_of(leaves, f"scan of {name}", init)
    rows = [tracing.aval_of(x) for x in x_leaves]
    for i, aval in enumerate(rows):
        if entry_of(aval, 0) is not None:
            raise ValueError(
                f"scan of {name} goes over the first dimension of xs, but in xs{tree.path_of(xs, i)}, {aval}, that "
                f"dimension is split over {entry_of(aval, 0)!r}: no device has all rows. Bring it to a sharding that leaves "
                f"the first dimension whole, with reshard, or use vmap.")
    rows = [without_dimension(a, 0) for a in rows]
    in_tree = tree.structure((init, xs))
    program, consts, out_tree, carry = trace_carry(
        f, in_tree, carry, rows, lambda out: _carry_tree(name, out), init, init_tree, f"scan of {name}", "scan")
    plan = program.jaxpr.memoised(("handed through", len(consts), len(carry)),
                                  lambda: _without_handed_through(program, len(consts), len(carry)))
    options = {"length": length, "reverse": bool(reverse), "unroll": unroll}
    if plan is None:
        carried, ys = bind_scan(program, consts, carry, x_leaves, **options)
        return out_tree.unflatten([*carried, *ys])
    body, moving, rows = plan
    consts = [*consts, *[x for x, m in zip(carry, moving) if not m]]
    carried, ys = bind_scan(body, consts, [x for x, m in zip(carry, moving) if m], x_leaves, **options)
    computed, collected = iter(carried), iter(ys)
    return out_tree.unflatten([*[next(computed) if m else x for x, m in zip(as_results(carry), moving)],
                               *[next(collected) if i is None else as_array(x_leaves[i]) for i in rows]])


def _without_handed_through(body: ClosedJaxpr, num_consts: int, num_carry: int):
    """The body where a carry that no step changes is a constant, and rows that are handed through are not collected.

    `(body, which of the carry moves, rows)`, where `rows` has for each collected result the number of the operand whose rows
    it has, or None; None where the body hands nothing through.
    """
    jaxpr, first = body.jaxpr, num_consts + num_carry
    moving = [v is not w for v, w in zip(jaxpr.invars[num_consts:first], jaxpr.outvars)]
    places = {v: i for i, v in enumerate(jaxpr.invars[first:])}
    rows = [None if type(v) is Literal else places.get(v) for v in jaxpr.outvars[num_carry:]]
    if all(moving) and all([i is None for i in rows]):
        return None
    carried = [i for i, m in enumerate(moving) if m]
    fixed = [num_consts + i for i, m in enumerate(moving) if not m]
    changed = reorder(body, [*range(num_consts), *fixed, *[num_consts + i for i in carried], *range(first, len(jaxpr.invars))],
                      [*carried, *[num_carry + i for i, row in enumerate(rows) if row is None]])
    return changed, moving, rows


def _length(name, xs, leaves, length) -> int:
    sizes: dict[int, str] = {}
    for i, x in enumerate(leaves):
        shape = np.shape(x)
        if not shape:
            error = IndexError if hasattr(x, "shape") else ValueError
            raise error(f"scan of {name} goes over the leading axis (first dimension) of xs, but xs{tree.path_of(xs, i)} is a "
                        f"scalar {tracing.aval_of(x)}: a value with no leading axis.")
        sizes.setdefault(shape[0], f"xs{tree.path_of(xs, i)} has shape {shape}")
    if len(sizes) > 1:
        raise ValueError(f"scan of {name} got arrays with different leading axis sizes: {'; '.join(sizes.values())}.")
    if length is not None:
        if isinstance(length, tracing.Tracer) and length._concrete() is None:
            raise errors.ConcretizationTypeError(
                length, "scan needs `length`, the number of its steps, as a concrete int: make it a static argument, or use "
                        "while_loop or fori_loop for a number that is only known when the program runs.")
        try:
            length = length if is_symbolic_dim(length) else int(length)
        except (TypeError, ValueError) as e:
            raise type(e)(f"scan of {name} takes length as an integer, got {length!r}.") from None
        if length < 0:
            raise ValueError(f"scan of {name} cannot take {length} steps.")
        if sizes and length not in sizes:
            raise ValueError(f"scan of {name} was given length={length}, which disagrees with the leading axis sizes of xs: "
                             f"{next(iter(sizes.values()))}.")
        return length
    if not sizes:
        raise ValueError(f"scan of {name} has no xs to go over, and length= is not provided: give it, the number of steps.")
    return next(iter(sizes))


def _carry_tree(name, out_tree):
    """The tree of the carry in `(carry, y)`."""
    children = out_tree.children()
    if len(children) != 2 or out_tree.node_data() is None or out_tree.node_data()[0] not in (tuple, list):
        raise TypeError(f"scan takes a function whose output is a pair (carry, y), but {name} returned a pytree {out_tree}. "
                        f"Return (carry, None) when there is nothing to collect.")
    return children[0]


def trace_carry(f, in_tree, carry, others, carry_tree_of, init, init_tree, who, role):
    """Trace a loop body whose first results must have the types of its first arguments, the carry.

    Weakly typed values of the initial carry (Python scalars) take the dtype that the body gives them.
    """
    own = of_library(f)
    for _ in range(len(carry) + 2):
        types = [tracing.aval_of(x) for x in carry]
        program, consts, out_tree = trace_function(f, in_tree, [*types, *others], role)
        found_tree = carry_tree_of(out_tree)
        found = program.out_avals[:found_tree.num_leaves]
        if found_tree != init_tree:
            shown = found_tree.unflatten(found)
            raise TypeError(f"{who} must return a carry (output) of the same pytree structure as the carry that it is given "
                            f"(input), but they differ {tree.first_difference(init_tree.unflatten(types), shown)}.")
        promoted = [_promoted(vary(x, b.vma) if own else x, a, b) for x, a, b in zip(carry, types, found)]
        if all(x is y for x, y in zip(carry, promoted)):
            break
        carry = promoted
    lines = type_mismatches("carry", types, found, lambda i: tree.path_of(init, i), "on entry", "on return",
                            not own)
    if lines:
        raise TypeError(f"{who} must return a carry (output) of types equal to those of the carry that it is given (input), "
                        f"but they differ in a carry component: {'; '.join(lines)}. Convert one of them with astype, or start "
                        "with an array of the right type.")
    # (weak types may differ: what leaves the loop is as weakly typed as the body's results)
    wanted = [a if a.is_high else a.update(weak_type=b.weak_type) for a, b in zip(types, found)]
    program = with_weak_types(program, [*wanted, *[None] * (len(program.out_avals) - len(types))])
    return program, consts, out_tree, carry


def _promoted(x, given, found):
    """An initial value in the type that the body wants, where it was weakly typed."""
    if given.is_high or not given.weak_type or given.shape != found.shape or given.dtype == found.dtype:
        return x
    if dtypes.promote_pair(given.dtype, True, found.dtype, found.weak_type)[0] == found.dtype:
        return convert_element_type_p.bind(x, new_dtype=found.dtype, weak_type=False, sharding=None)
    return x


def _scan_in_python(f, init, leaves, x_tree, length, reverse):
    carry, ys = tree.map(as_array, init), []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, x_tree.unflatten([x[i] for x in leaves]))
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, tree.map(_stacked, *ys)


def _stacked(*rows):
    """Rows as one array, of the type that all of them promote to."""
    kinds = [(aval.dtype, aval.weak_type) for aval in [tracing.aval_of(row) for row in rows]]
    dtype, weak = functools.reduce(lambda x, y: dtypes.promote_pair(*x, *y), kinds)
    return concatenate([expand_dims(as_type(row, dtype, weak), (0,)) for row in rows], 0)


@boundary
def map(f: Callable, xs: Any, *, batch_size: int | None = None) -> Any:
    """A function applied to each row of arrays, one after the other in a compiled loop, and the results stacked.

    - `f`: the function of a row.
    - `xs`: a pytree of arrays with a common first dimension.
    - `batch_size`: how many rows at a time go through `vmap(f)`.

    >>> lax.map(lambda x: x ** 2, xnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """
    if not batch_size:
        return scan(_RowFunction(f), (), xs)[1]
    leaves = tree.leaves(xs)
    if not leaves:
        raise ValueError(f"map of {signatures.function_name(f)} got no arrays to go over.")
    batch_size = operator.index(batch_size)
    if batch_size < 1:
        raise ValueError(f"map of {signatures.function_name(f)} takes a positive batch_size, got {batch_size}.")
    length = _length(signatures.function_name(f), xs, leaves, None)
    whole = length // batch_size * batch_size
    if not whole:
        return vmap(f)(xs)
    mapped = vmap(f)
    blocks = tree.map(lambda x: reshape(slice_in_dim(x, 0, whole), (whole // batch_size, batch_size, *np.shape(x)[1:])), xs)
    results = scan(_RowFunction(mapped), (), blocks)[1]
    results = tree.map(lambda y: reshape(y, (whole, *np.shape(y)[2:])), results)
    if whole == length:
        return results
    rest = mapped(tree.map(lambda x: slice_in_dim(x, whole, length), xs))
    return tree.map(lambda y, z: concatenate([y, z], 0), results, rest)


class _RowFunction(DerivedFunction):
    """`f` as the body of a scan without carry, of one call of `map`: a method may read what its object holds by then."""

    __slots__ = ()
    remembered = False

    def __call__(self, carry, x):
        return carry, self.f(x)

    @staticmethod
    def names(parameters, key, in_tree):
        row = tree.numbered(in_tree.children()[1])
        return signatures.leaf_names(parameters, signatures.Selection(), tree.structure(((row,), {})))
