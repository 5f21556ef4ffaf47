"""The `scan` primitive with its transformation rules, and the loops built on it (`lax.scan`, `lax.map`)."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xlafront import lowering
from xlafront.api.arguments import as_array, as_results
from xlafront.api.vmap import vmap
from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.meshes import active
from xlafront.control.discharge_rules import discharge_scan
from xlafront.control.layouts import ScanLayout, interleaved, selected
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import entry_of, with_dimension, without_dimension
from xlafront.core.basic_primitives import convert_element_type_p, place_axis, reshard_p
from xlafront.core.ir import (
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    dce_closed,
    dependent_results,
    effects_by_operand,
    keeps_alive,
)
from xlafront.core.primitive import Cost, Primitive, Structured, Traits
from xlafront.core.tangents import add_tangents, convert_cotangents, instantiate, weakly_typed_as
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import expand_dims, reshape
from xlafront.lax.slicing import concatenate, slice_in_dim
from xlafront.runtime.keys import physical
from xlafront.staging import signatures
from xlafront.symbolic.dimensions import is_symbolic_dim, max_dim
from xlafront.transforms.ad import backward_logs
from xlafront.transforms.ad.jvp import jvp_program
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.ad.transpose import transpose_program
from xlafront.transforms.batching.vmap import batch_program, split_of
from xlafront.transforms.calls import policy_override
from xlafront.transforms.calls.checkpoint import checkpointed_jaxpr, split_inside
from xlafront.transforms.calls.programs import (
    DerivedFunction,
    active_results,
    evaluate,
    fixpoint,
    is_internal,
    operands_of,
    references_as_inputs,
    reorder,
    split_in_three,
    split_invariant,
    trace_function,
    type_mismatches,
    vary,
    with_weak_types,
)

if TYPE_CHECKING:
    from xlafront.core.typing import Atom, Aval, Dims, Marks, Params, Tangent
    from xlafront.transforms.batching.vmap import BatchTrace

# The primitive. Its operands are those of a `ScanLayout`. The body returns the new carry and one row of each stacked output.


def scan_types(*avals: Aval, jaxpr: Jaxpr, length: Any, num_consts: int, num_carry: int, **_: Any) -> list[Aval]:
    carry, rows = ScanLayout(num_consts, num_carry).split_results(jaxpr.out_avals)
    return [*carry, *[with_dimension(a, 0, length) for a in rows]]


def bind_scan(jaxpr: Jaxpr, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], **options: Any
              ) -> tuple[list, list]:
    """Bind `scan_p`; return the final carry and the stacked outputs. The options are `length`, `reverse` and `unroll`."""
    (jaxpr,), refs = references_as_inputs((jaxpr,), len(consts))
    layout = ScanLayout(len(consts) + len(refs), len(carry))
    return layout.split_results(scan_p.bind(*consts, *refs, *carry, *xs, jaxpr=jaxpr, **layout._asdict(), **options))


# Lowering


def _lower(ctx: Any, *operands: Any, jaxpr: Jaxpr, length: Any, num_consts: int, num_carry: int, reverse: bool,
           unroll: int) -> list[Any]:
    layout = ScanLayout(num_consts, num_carry)
    consts, carry, xs = layout.split(operands)
    body = jaxpr.structure
    _, avals = layout.split_results(jaxpr.out_avals)
    _, _, row_avals = layout.split(body.in_avals)
    _, _, xs_avals = layout.split(ctx.avals_in)
    _, ys_avals = layout.split_results(ctx.avals_out)
    on_gpu = ctx.platform in ("cuda", "rocm")
    if on_gpu and unroll == 1 and ctx.frontend_attributes is None and not xs and not avals and (
            _fuses_when_unrolled(body, length)):
        unroll = length
    unroll = 1 if is_symbolic_dim(length) else max(1, min(unroll, length))
    steps = length // unroll

    def step(inner: Any, index: Any, carry: Sequence[Any]) -> tuple[list, list]:
        """Return the carry and the rows of the body at a row; `index` is a traced row number or a Python integer."""
        inputs = [inner.constrain_to_type(x, aval) for x, aval in zip([*consts, *carry], body.in_avals)]
        rows = [_read_row(inner, inner.constrain_to_type(x, stacked), stacked, aval, index)
                for x, stacked, aval in zip(xs, xs_avals, row_avals)]
        return layout.split_results(inner.inline(jaxpr, [*inputs, *rows]))

    def write(inner: Any, ys: Sequence[Any], steps: Sequence[Sequence[Any]], index: Any) -> list[Any]:
        """Write the rows of consecutive steps, from row `index` on."""
        return [_write_rows(inner, y, rows, stacked, aval, index)
                for y, rows, stacked, aval in zip(ys, zip(*steps), ys_avals, avals)]

    def without_loop(first: int, carry: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        """Apply the body at the rows from `first` on, without a loop."""
        for k in range(first, length):
            index = length - 1 - k if reverse else k
            carry, rows = step(ctx, index, carry)
            ys = write(ctx, ys, [rows], index)
        return [*carry, *ys]

    ys = [ctx.constrain_to_type(ctx.constant(0, (length, *physical(a).shape), physical(a).dtype), stacked)
          for a, stacked in zip(avals, ys_avals)]
    if steps == 1 and length * len(body.eqns) <= 4096:
        return without_loop(0, carry, ys)
    index_type = ((), np.dtype(np.int32))

    def row_number(inner: Any, counter: Any, offset: int) -> Any:
        if not reverse:
            return counter if not offset else inner.op("stablehlo.add", [counter, inner.constant(np.int32(offset))],
                                                       [index_type])
        return inner.op("stablehlo.subtract", [inner.size(length - 1 - offset), counter], [index_type])

    def condition(inner: Any, counter: Any, *state: Any) -> Any:
        return inner.compare("LT", "SIGNED", counter, inner.size(steps * unroll), ())

    def advance(inner: Any, counter: Any, *state: Any) -> list[Any]:
        carry, ys = layout.split_results(state)
        ys = [inner.constrain_to_type(y, stacked) for y, stacked in zip(ys, ys_avals)]
        inner.body.step = body
        unwritten: list[Any] = []
        for offset in range(unroll):
            carry, rows = step(inner, row_number(inner, counter, offset), carry)
            unwritten.append(rows)
            if not on_gpu or offset == unroll - 1:  # a GPU writes the rows of all steps by one kernel
                first = offset if reverse else offset + 1 - len(unwritten)
                ys = write(inner, ys, unwritten[::-1] if reverse else unwritten, row_number(inner, counter, first))
                unwritten = []
        return [inner.op("stablehlo.add", [counter, inner.constant(np.int32(unroll))], [index_type]), *carry, *ys]

    if steps:
        start = ctx.constant(np.int32(0))
        _, *state = ctx.loop([start, *carry, *ys], condition, advance, lowering.module.ordered_effects(jaxpr))
        carry, ys = layout.split_results(state)
    return [*carry, *ys] if is_symbolic_dim(length) else without_loop(steps * unroll, carry, ys)


def _fuses_when_unrolled(body: Jaxpr, length: Any) -> bool:
    """True if the unrolled loop compiles to one or two GPU kernels at no more compile time than the rolled loop, whose every
    iteration launches several. This holds for bisections and for iterations of elementwise arithmetic."""
    return not is_symbolic_dim(length) and length * len(body.eqns) <= 320 and not body.effects and all(
        [eqn.primitive.name in _ARITHMETIC for eqn in body.eqns])


_ARITHMETIC = frozenset("""abs add add_any and broadcast_in_dim clamp convert_element_type div eq floor gather ge gt integer_pow
    is_finite le lt max min mul ne neg not or reshape select_n shift_left shift_right_arithmetic shift_right_logical sign sqrt
    square sub xor""".split())


def _starts(ctx: Any, index: Any, rank: int) -> list[Any]:
    zero = ctx.constant(np.int32(0))
    first = ctx.constant(np.int32(index)) if isinstance(index, int) else index
    return [first, *[zero] * (rank - 1)]


def _read_row(ctx: Any, x: Any, stacked: Aval, aval: Aval, index: Any) -> Any:
    shape, dtype = physical(aval).shape, physical(aval).dtype
    row_type = ((1, *shape), dtype)
    if isinstance(index, int):
        row_slice = ctx.slice(x, [index, *[0] * len(shape)], [index + 1, *shape], result=row_type)
    else:
        row_slice = ctx.dynamic_slice(x, _starts(ctx, index, 1 + len(shape)), row_type)
    return ctx.constrain_to_type(ctx.reshape(ctx.constrain_to_type(row_slice, stacked), shape, dtype), aval)


def _write_rows(ctx: Any, y: Any, rows: Sequence[Any], stacked: Aval, aval: Aval, index: Any) -> Any:
    shape, dtype = physical(aval).shape, physical(aval).dtype
    update = ctx.constrain_to_type(ctx.reshape(rows[0], (1, *shape), dtype), stacked)
    if len(rows) > 1:
        others = [ctx.constrain_to_type(ctx.reshape(row, (1, *shape), dtype), stacked) for row in rows[1:]]
        update = ctx.concatenate([update, *others], 0, ((len(rows), *shape), dtype))
    updated = ctx.dynamic_update_slice(y, update, _starts(ctx, index, 1 + len(shape)), (physical(stacked).shape, dtype))
    return ctx.constrain_to_type(updated, stacked)


# Differentiation


def _jvp(primals: Sequence[Any], tangents: Sequence[Tangent], *, jaxpr: Jaxpr, num_consts: int, num_carry: int,
         **options: Any) -> tuple[list[Any], list[Tangent]]:
    layout = ScanLayout(num_consts, num_carry)
    active = _active_operands(jaxpr, tangents, layout)
    jvp_jaxpr, nonzero = jvp_program(jaxpr, active, _instantiated(jaxpr, active, layout))
    # `jvp_jaxpr` takes (primals, tangents); scan needs each group (constants, carry, rows) with its tangents next to it.
    values = [*primals, *[instantiate(t) for t, a in zip(tangents, active) if a]]
    tangent_inputs = dict(zip(selected(range(len(active)), active), itertools.count(len(active))))
    tangent_outputs = dict(zip(selected(range(len(nonzero)), nonzero), itertools.count(len(nonzero))))
    inputs = interleaved(layout.split(range(len(active))), tangent_inputs)
    outputs = [i for group in interleaved(layout.split_results(range(len(nonzero))), tangent_outputs) for i in group]
    body = jvp_jaxpr.memoised(("parts of a scan", layout), lambda: _match_carry_weak_types(
        reorder(jvp_jaxpr, [i for group in inputs for i in group], outputs), len(inputs[0]),
        [*layout.split_results(jaxpr.out_avals)[0], *selected(jaxpr.out_avals, _instantiated(jaxpr, active, layout))]))
    carry, ys = bind_scan(body, *[[values[i] for i in group] for group in inputs], **options)
    found = dict(zip(outputs, [*carry, *ys]))
    results = [found[i] for i in range(len(nonzero))]
    return results, [found[tangent_outputs[i]] if nz else Zero(tracing.aval_of(x).to_tangent_aval())
                     for i, (nz, x) in enumerate(zip(nonzero, results))]


def _instantiated(jaxpr: Jaxpr, active: Marks, layout: ScanLayout) -> tuple[bool, ...]:
    """Return marks for the results: a carry that is active on entry has a tangent on return, even if it is zero."""
    return (*layout.carry_of(active), *(False,) * (len(jaxpr.out_avals) - layout.num_carry))


def _match_carry_weak_types(body: Jaxpr, num_consts: int, carry: Sequence[Aval]) -> Jaxpr:
    """Return the body with each carry at most as weakly typed on return as on entry: the loop's results are no weaker."""
    carry_avals = [a.update(weak_type=a.weak_type and b.weak_type)
                   for a, b in zip(ScanLayout(num_consts, len(carry)).carry_of(body.in_avals), carry)]
    return with_weak_types(body, [*carry_avals, *[None] * (len(body.out_avals) - len(carry))])


def _active_operands(jaxpr: Jaxpr, tangents: Sequence[Tangent], layout: ScanLayout) -> tuple[bool, ...]:
    """Return which operands have tangents, including carries that get one in some step."""
    return tuple(_propagate(active_results, [type(t) is not Zero for t in tangents], jaxpr, layout))


def _propagate(results_of: Callable[[Jaxpr, Marks], list[bool]], operands: Marks, jaxpr: Jaxpr, layout: ScanLayout
               ) -> list[bool]:
    """Mark the operands and the carries that become marked in some step; `results_of` propagates marks through the body."""
    consts, carry, xs = layout.split(operands)
    carry = fixpoint(carry, lambda flags: layout.split_results(results_of(jaxpr.structure, [*consts, *flags, *xs]))[0])
    return [*consts, *carry, *xs]


class _LinearizedBody:
    """A loop body split for linearization: loop-invariant residuals, forward body and linear body; see `_linearize`."""

    def __init__(self, jaxpr: Jaxpr, active: tuple[bool, ...], layout: ScanLayout) -> None:
        instantiated = _instantiated(jaxpr, active, layout)
        linearized = linearize_program(jaxpr, active, instantiated)
        self.outputs = linearized.outputs
        count = len(jaxpr.out_avals)
        # Loop-invariant residuals are computed before the loop, with the equations that they depend on.
        is_const = [i < layout.num_consts for i in range(len(active))]
        is_residual = [False] * count + [True] * linearized.num_computed
        self.before, forward, hoisted = split_invariant(linearized.forward, is_const, is_residual)
        self.num_passed = len(forward.in_avals) - len(jaxpr.in_avals)
        # A residual comes from before the loop, from each step, or is itself an operand of the loop.
        before_indices, step_indices = iter(range(linearized.num_computed)), iter(range(linearized.num_computed))
        computed = iter([("before", next(before_indices)) if h else ("step", next(step_indices)) for h in hoisted[count:]])
        sources: list[tuple[str, int]] = []
        carried: list[int] = []
        for forwarded in linearized.forwarded_inputs:
            kind, index = next(computed) if forwarded is None else layout.locate(forwarded)
            if kind == "carry":
                carried.append(forwarded)
                index = len(carried) - 1
            sources.append((kind, index))
        self.num_hoisted = sum(hoisted)
        self.num_stepped = linearized.num_computed - self.num_hoisted
        # The carry at the start of each step is stacked if the linear body reads it.
        self.forward = forward.replace(
            outvars=[*forward.outvars, *[forward.invars[self.num_passed + i] for i in carried]])
        self.fixed = [s for s in sources if s[0] in ("before", "const")]
        self.stacked = [s for s in sources if s[0] not in ("before", "const")]
        position = itertools.count(len(sources))
        const_tangents, carry_tangents, x_tangents = [[next(position) for a in group if a] for group in layout.split(active)]
        linear = reorder(linearized.linear, [
            *[i for i, s in enumerate(sources) if s in self.fixed], *const_tangents, *carry_tangents,
            *[i for i, s in enumerate(sources) if s in self.stacked], *x_tangents])
        self.linear = _match_carry_weak_types(linear, len(self.fixed) + len(const_tangents),
                                              selected(jaxpr.out_avals, instantiated))


def _linearize(primals: Sequence[Any], tangents: Sequence[Tangent], *, jaxpr: Jaxpr, num_consts: int, num_carry: int,
               **options: Any) -> tuple[list[Any], list[Tangent]]:
    """Run one loop that computes the values and stacks the residuals, and a second one that is linear in the tangents."""
    layout = ScanLayout(num_consts, num_carry)
    policy = policy_override.policy_at(policy_override.Place.SCANS)
    if policy is not None:
        jaxpr = checkpointed_jaxpr(jaxpr, policy)
    active = _active_operands(jaxpr, tangents, layout)
    body = jaxpr.memoised(("linearized body", active, layout), lambda: _LinearizedBody(jaxpr, active, layout))
    consts, carry, xs = layout.split(primals)
    invariant = body.before(*consts)
    hoisted, passed = invariant[:body.num_hoisted], invariant[body.num_hoisted:]
    carry_out, ys = bind_scan(body.forward, [*passed, *consts], carry, xs, **options)
    ys, step_residuals, carry_residuals = split_in_three(ys, len(jaxpr.out_avals) - num_carry, body.num_stepped)
    results = [*carry_out, *ys]
    residuals = {"before": hoisted, "const": consts, "step": step_residuals, "carry": carry_residuals, "x": xs}
    in_consts, in_carry, in_xs = [[instantiate(t) for t, a in zip(*groups) if a]
                                  for groups in zip(layout.split(tangents), layout.split(active))]
    nonzero_tangents = iter(())
    if any(body.outputs):
        carry_t, ys_t = bind_scan(
            body.linear, [*[residuals[kind][i] for kind, i in body.fixed], *in_consts], in_carry,
            [*[residuals[kind][i] for kind, i in body.stacked], *in_xs], **options)
        nonzero_tangents = iter([*carry_t, *ys_t])
    return results, [next(nonzero_tangents) if nonzero else Zero(tracing.aval_of(x).to_tangent_aval())
                     for nonzero, x in zip(body.outputs, results)]


def _active_outputs(operands: Marks, *, jaxpr: Jaxpr, num_consts: int, num_carry: int, **_: Any) -> list[bool]:
    layout = ScanLayout(num_consts, num_carry)
    active = _propagate(active_results, operands, jaxpr, layout)
    return [*layout.carry_of(active), *layout.split_results(active_results(jaxpr.structure, active))[1]]


def _depends(operands: Marks, *, jaxpr: Jaxpr, num_consts: int, num_carry: int, **_: Any) -> list[bool]:
    layout = ScanLayout(num_consts, num_carry)
    dependent = _propagate(dependent_results, operands, jaxpr, layout)
    carry, ys = layout.split_results(dependent_results(jaxpr.structure, dependent))
    # With zero steps, the initial carry is the result.
    return [*[a or b for a, b in zip(carry, layout.carry_of(dependent))], *ys]


def _transpose(cts: Sequence[Tangent], *operands: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, reverse: bool,
               **options: Any) -> list[Any]:
    """Bind the reversed loop: it carries the cotangents of the carry and accumulates those of the constants."""
    layout = ScanLayout(num_consts, num_carry)
    linear = _propagate(dependent_results, [is_undefined(x) for x in operands], jaxpr, layout)
    linear_consts, linear_carry, linear_xs = layout.split(linear)
    consts, carry, xs = layout.split(operands)
    ct_carry, ct_ys = layout.split_results(convert_cotangents(cts, jaxpr.out_avals))
    has_ct = [type(ct) is not Zero for ct in ct_ys]
    weak = tuple([(ct.aval if type(ct) is Zero else tracing.aval_of(ct)).weak_type for ct in ct_carry])
    plan = jaxpr.memoised(("backward body", tuple(linear), tuple(has_ct), layout, weak, backward_logs.collects_values()),
                          lambda: _BackwardBody(jaxpr, linear, has_ct, layout, weak))
    nonlinear_consts = [x for x, lin in zip(consts, linear_consts) if not lin]
    nonlinear_xs = [x for x, lin in zip(xs, linear_xs) if not lin]
    stacked_carry: list[Any] = []
    if plan.walk is not None:  # a nonlinear carry, such as a counter: recompute it forward and stack it
        _, stacked_carry = bind_scan(plan.walk, nonlinear_consts, [c for c, lin in zip(carry, linear_carry) if not lin],
                                     nonlinear_xs, reverse=reverse, **options)
    sums = [instantiate(Zero(x.aval.update(weak_type=False).to_ct_aval())) for x in consts if is_undefined(x)]
    initial_cts = [instantiate(ct) for ct in selected(ct_carry, linear_carry)]
    out_carry, rows = bind_scan(plan.body, nonlinear_consts, [*sums, *initial_cts],
                                [*stacked_carry, *nonlinear_xs, *selected(ct_ys, has_ct)], reverse=not reverse, **options)
    num_rows = len(rows) - plan.logs.num_leaves
    backward_logs.record_results(plan.logs, rows[num_rows:])
    const_cts, carry_cts, xs_cts = iter(out_carry[:len(sums)]), iter(out_carry[len(sums):]), iter(rows[:num_rows])
    results = [weakly_typed_as(next(const_cts), x.aval) if lin else None for x, lin in zip(consts, linear_consts)]
    for x, out_ct, lin in zip(carry, ct_carry, linear_carry):
        ct = next(carry_cts) if lin else None
        if is_undefined(x) and type(out_ct) is Zero:
            ct = weakly_typed_as(ct, x.aval)
        results.append(ct if is_undefined(x) else None)
    return [*results, *[next(xs_cts) if lin else None for lin in linear_xs]]


def _match_carry_strength(jaxpr: Jaxpr, layout: ScanLayout) -> Jaxpr:
    """Return the body whose carry inputs are strongly typed where the outputs are; their cotangents then have one type."""
    strong = {v: Var(v.aval.update(weak_type=False)) for v, out in zip(layout.carry_of(jaxpr.invars), jaxpr.outvars)
              if v.aval.weak_type and not out.aval.weak_type}
    if not strong:
        return jaxpr

    def renamed(atoms: Sequence[Atom]) -> list[Atom]:
        return [v if type(v) is Literal else strong.get(v, v) for v in atoms]

    return jaxpr.replace(invars=renamed(jaxpr.invars), outvars=renamed(jaxpr.outvars), eqns=[
        eqn.replace(invars=renamed(eqn.invars)) for eqn in jaxpr.eqns])


class _BackwardBody:
    """The loop bodies that transpose a linear scan: `walk` computes the nonlinear carry, `body` the cotangents."""

    def __init__(self, jaxpr: Jaxpr, linear: Marks, has_ct: Marks, layout: ScanLayout, weak: Marks) -> None:
        jaxpr = _match_carry_strength(jaxpr, layout)
        lin_consts, lin_carry, lin_xs = layout.split(linear)
        const_avals, carry_avals, row_avals = layout.split(jaxpr.in_avals)
        nonlinear_carry = [i for i, lin in enumerate(lin_carry) if not lin]
        self.walk = None
        if nonlinear_carry:
            nonlinear = [i for i, lin in enumerate(linear) if not lin]
            carry_vars = layout.carry_of(jaxpr.invars)
            walk_jaxpr = jaxpr.replace(outvars=[*[jaxpr.outvars[i] for i in nonlinear_carry],
                                                *[carry_vars[i] for i in nonlinear_carry]])
            walk_jaxpr, _ = dce_closed(walk_jaxpr, [True] * (2 * len(nonlinear_carry)), True)
            self.walk = reorder(walk_jaxpr, nonlinear)
        outputs = selected(range(len(jaxpr.out_avals)), [*lin_carry, *has_ct])
        backward, _, self.logs = transpose_program(reorder(jaxpr, None, outputs), tuple(linear), (True,) * len(outputs), True)
        fixed = [a for a, lin in zip(const_avals, lin_consts) if not lin]
        rows = [*[carry_avals[i] for i in nonlinear_carry], *[a for a, lin in zip(row_avals, lin_xs) if not lin]]
        sums = [a.update(weak_type=False).to_ct_aval() for a in selected(const_avals, lin_consts)]
        cts = [a.update(weak_type=w).to_ct_aval() for a, w, lin in zip(carry_avals, weak, lin_carry) if lin]
        ct_rows = [a.to_ct_aval() for a in selected(layout.split_results(jaxpr.out_avals)[1], has_ct)]
        backward_layout = ScanLayout(len(fixed), len(sums) + len(cts))

        def step(*args: Any) -> list[Any]:
            fixed_values, carried, scanned = backward_layout.split(args)
            sum_values, ct_values = carried[:len(sums)], carried[len(sums):]
            in_cts = backward(*fixed_values, *scanned[:len(rows)], *ct_values, *scanned[len(rows):])
            return [*[add_tangents(s, ct) for s, ct in zip(sum_values, in_cts)], *in_cts[len(sums):]]

        self.body = with_weak_types(
            tracing.trace_to_closed_jaxpr(step, [*fixed, *sums, *cts, *rows, *ct_rows], jaxpr.debug_info.with_unknown_names()),
            [*sums, *[None] * (sum(linear) - len(sums) + self.logs.num_leaves)])


# Batching and dead code


def _batch(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, jaxpr: Jaxpr, num_consts: int, num_carry: int,
           **options: Any) -> tuple[list[Any], list[int | None]]:
    layout, size, split = ScanLayout(num_consts, num_carry), trace.size, split_of(operands, dims)
    consts, carry, xs = layout.split([d is not None for d in dims])

    def batched_body(carry: Marks) -> tuple[Jaxpr, list]:
        marks = [*consts, *carry, *xs]
        return batch_program(jaxpr, tuple([0 if b else None for b in marks]), trace, _instantiated(jaxpr, marks, layout),
                             split=split)

    carry = fixpoint(carry, lambda flags: [d is not None for d in layout.split_results(batched_body(flags)[1])[0]])
    body, out_dims = batched_body(carry)
    new_dims = [*[0 if b else None for b in (*consts, *carry)], *[1 if b else None for b in xs]]  # axis 0 is the scan axis
    batched = [x if new is None else place_axis(x, d, new, size, split) for x, d, new in zip(operands, dims, new_dims)]
    final, collected = bind_scan(body, *layout.split(batched), **options)
    carry_dims, row_dims = layout.split_results(out_dims)
    return [*final, *collected], [*carry_dims, *[None if d is None else d + 1 for d in row_dims]]


def _dce(used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    body, layout = eqn.params["jaxpr"], ScanLayout.of(eqn.params)
    if not any(used) and not keeps_alive(body.effects):
        return None
    carry, ys = layout.split_results(used)
    carry = fixpoint(carry, lambda flags: layout.carry_of(dce_closed(body, [*flags, *ys])[1]))
    consts, _, xs = layout.split([False] * len(body.in_avals))
    pruned, live_in = dce_closed(body, [*carry, *ys], [*consts, *carry, *xs])
    if all(live_in) and all(carry) and all(ys) and len(pruned.eqns) == len(body.eqns):
        return eqn
    live_consts, _, _ = layout.split(live_in)
    return eqn.replace(invars=selected(eqn.invars, live_in), outvars=selected(eqn.outvars, [*carry, *ys]),
                       params=eqn.params | {"jaxpr": pruned} | ScanLayout(sum(live_consts), sum(carry))._asdict())


def _key_use(eqn: JaxprEqn, use_of_program: Callable) -> tuple[list[tuple[int, Any]], list[Any]]:
    """Check that each key of the carry used in a step is replaced by a new one. Rows are read once each."""
    body, layout = eqn.params["jaxpr"].structure, ScanLayout.of(eqn.params)
    spends, results = use_of_program(body)
    spent = []
    for position, part in spends:
        kind, i = layout.locate(position)
        if kind == "const":
            raise errors.key_reuse_in_loop("scan body function", body, "it spends a key that is the same in every step")
        if kind == "carry" and results[i] != "new":
            raise errors.key_reuse_in_loop("scan body function", body, "it spends a key of the carry and returns no new one "
                                           "in its place")
        spent.append((position, True if kind == "x" else part))
    return spent, results


def _split(eqn: JaxprEqn, policy: Any) -> tuple[JaxprEqn, JaxprEqn, list[Var]] | None:
    """Split a scan under a checkpoint policy: values saved inside the body are stacked and read by the recomputing loop."""
    params, body, layout = eqn.params, eqn.params["jaxpr"], ScanLayout.of(eqn.params)
    split = body.memoised(("split", policy), lambda: split_inside(body, policy))
    if not split.num_saved or eqn.effects:
        return None
    saved = [Var(with_dimension(a, 0, params["length"])) for a in split.first.out_avals[len(eqn.outvars):]]
    # `recompute` takes the saved values first; they are scanned.
    consts, carry, xs = layout.split(range(split.num_saved, split.num_saved + len(eqn.invars)))
    recompute = reorder(split.recompute, [*consts, *carry, *range(split.num_saved), *xs])
    consts, carry, xs = layout.split(eqn.invars)
    return (eqn.replace(outvars=[*eqn.outvars, *saved], params=params | {"jaxpr": split.first}),
            eqn.replace(invars=[*consts, *carry, *saved, *xs], params=params | {"jaxpr": recompute}), saved)


def _steps(run: Callable, operands: Sequence[Any], params: Params) -> None:
    layout = ScanLayout.of(params)
    consts, carried, rows = layout.split(operands)
    order = range(params["length"])
    for i in reversed(order) if params["reverse"] else order:
        carried, _ = layout.split_results(run(params["jaxpr"], *consts, *carried, *[x[i] for x in rows]))


scan_p = Primitive(
    "scan", multiple_results=True, abstract=scan_types, lower=_lower, jvp=_jvp, transpose=_transpose,
    effects=lambda *_, jaxpr, **params: effects_by_operand(jaxpr),
    impl=lambda *args, **params: evaluate(scan_p, args, params, params["jaxpr"]), batch_with_axis=_batch,
    structured=Structured(
        linearize=_linearize, dce=_dce, partial_eval=_split, discharge=discharge_scan, depends=_depends,
        active_outputs=_active_outputs, debug_steps=_steps),
    traits=Traits(memoise=False, cost=Cost.HEAVY, key_use=_key_use))


# Public

_Carry = TypeVar("_Carry")
_R = TypeVar("_R")


@boundary
def scan(f: Callable[[Any, Any], tuple[_Carry, _R]], init: Any, xs: Any = None, length: int | None = None,
         reverse: bool = False, unroll: int | bool = 1, _split_transpose: bool = False) -> tuple[_Carry, _R]:
    """Scan a function over the leading axis of arrays while carrying state.

    The loop is compiled and can be differentiated in forward and reverse mode.

    Args:
        f: Loop body `f(carry, x) -> (carry, y)`. It is traced once, whatever the number of steps.
        init: Initial carry, a pytree. Its structure and types must be the same after each step.
        xs: Pytree of arrays with equal leading axis sizes, or None if `length` is given.
        length: Number of steps. Default: the leading axis size of `xs`.
        reverse: If True, scan from the last row to the first.
        unroll: Number of steps per iteration of the compiled loop; True unrolls the loop completely.
        _split_transpose: Has no effect; accepted for compatibility with JAX.

    Returns:
        The final carry, and the outputs `y` of all steps stacked along a new leading axis.

    Example:
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
    _check_concrete(unroll, "scan needs `unroll`, the number of steps at a time, as a concrete int or bool: make it a static "
                            "argument.")
    if not isinstance(unroll, (int, np.integer)):
        raise TypeError(f"scan of {name} takes unroll as an integer or a bool, got {unroll!r}.")
    if unroll < 0:
        raise ValueError(f"scan of {name} takes unroll as a non-negative integer or a bool, got {unroll!r}.")
    unroll = max(int(unroll), 1)
    if config.disable_jit.value:
        if not length:
            raise ValueError(f"scan of {name} is a zero-length one and jit is disabled: without a step the types of the "
                             f"results are undefined. Do not use disable_jit for it.")
        return _scan_in_python(f, init, x_leaves, x_tree, length, reverse)
    leaves, init_tree = tree.flatten(init)
    carry = operands_of(leaves, f"scan of {name}", init)
    row_avals = [tracing.aval_of(x) for x in x_leaves]
    for i, aval in enumerate(row_avals):
        if entry_of(aval, 0) is not None:
            raise ValueError(
                f"scan of {name} scans over the first dimension of xs, but in xs{tree.path_of(xs, i)}, {aval}, that "
                f"dimension is sharded over {entry_of(aval, 0)!r}: no device has all rows. Use reshard to unshard the first "
                f"dimension, or use vmap.")
    row_avals = [without_dimension(a, 0) for a in row_avals]
    in_tree = tree.structure((init, xs))
    body_jaxpr, consts, out_tree, carry = trace_carry(
        f, in_tree, carry, row_avals, lambda out: _carry_tree(name, out), init, init_tree, f"scan of {name}", "scan")
    layout = ScanLayout(len(consts), len(carry))
    forwarding = body_jaxpr.memoised(("forwarded", layout), lambda: _split_forwarded(body_jaxpr, layout))
    options = {"length": length, "reverse": bool(reverse), "unroll": unroll}
    if forwarding is None:
        carried, ys = bind_scan(body_jaxpr, consts, carry, x_leaves, **options)
        return out_tree.unflatten([*carried, *ys])
    reduced_body, changes, row_avals = forwarding
    consts = [*consts, *[x for x, changed in zip(carry, changes) if not changed]]
    carried, ys = bind_scan(reduced_body, consts, selected(carry, changes), x_leaves, **options)
    carried_values, stacked = iter(carried), iter(ys)
    return out_tree.unflatten([*[next(carried_values) if changed else x for x, changed in zip(as_results(carry), changes)],
                               *[next(stacked) if i is None else as_array(x_leaves[i]) for i in row_avals]])


def _split_forwarded(body: Jaxpr, layout: ScanLayout
                     ) -> tuple[Jaxpr, list[bool], list[int | None]] | None:
    """Return the body in which unchanged carries are constants and forwarded rows are not stacked.

    The result is `(body, changes, rows)`: `changes` flags the carries that the body changes, and `rows` has for each stacked
    output the index of the scanned operand that it forwards, or None. Returns None if the body forwards nothing.
    """
    _, carry_vars, row_vars = layout.split(body.invars)
    new_carry, out_rows = layout.split_results(body.outvars)
    changes = [v is not w for v, w in zip(carry_vars, new_carry)]
    row_positions = {v: i for i, v in enumerate(row_vars)}
    rows = [None if type(v) is Literal else row_positions.get(v) for v in out_rows]
    if all(changes) and all([i is None for i in rows]):
        return None
    consts, carry, xs = layout.split(range(len(body.invars)))
    carried, stacked = layout.split_results(range(len(body.outvars)))
    fixed = [i for i, changed in zip(carry, changes) if not changed]
    reduced = reorder(body, [*consts, *fixed, *selected(carry, changes), *xs],
                      [*selected(carried, changes), *[i for i, row in zip(stacked, rows) if row is None]])
    return reduced, changes, rows


def _check_concrete(x: Any, need: str) -> None:
    """Raise if a value is only known at run time."""
    if isinstance(x, tracing.Tracer) and x._concrete() is None:
        raise errors.ConcretizationTypeError(x, need)


def _length(name: str, xs: Any, leaves: Sequence[Any], length: Any) -> Any:
    """Return the number of steps, from `length` or the leading axis size of `xs`."""
    sizes: dict[int, str] = {}
    for i, x in enumerate(leaves):
        shape = np.shape(x)
        if not shape:
            error = IndexError if hasattr(x, "shape") else ValueError
            raise error(f"scan of {name} scans over the leading axis (first dimension) of xs, but xs{tree.path_of(xs, i)} is a "
                        f"scalar {tracing.aval_of(x)}: a value with no leading axis.")
        sizes.setdefault(shape[0], f"xs{tree.path_of(xs, i)} has shape {shape}")
    if len(sizes) > 1:
        raise ValueError(f"scan of {name} got arrays with different leading axis sizes: {'; '.join(sizes.values())}.")
    if length is not None:
        _check_concrete(length, "scan needs `length`, the number of its steps, as a concrete int: make it a static argument, "
                                "or use while_loop or fori_loop for a number that is known only at run time.")
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
        raise ValueError(
            f"scan of {name} has no xs to scan over, and length= is not provided: pass the number of steps as length=.")
    return next(iter(sizes))


def _carry_tree(name: str, out_tree: Any) -> Any:
    """Return the tree of the carry in an output `(carry, y)`."""
    children = out_tree.children()
    if len(children) != 2 or out_tree.node_data() is None or out_tree.node_data()[0] not in (tuple, list):
        raise TypeError(f"scan takes a function whose output is a pair (carry, y), but {name} returned a pytree {out_tree}. "
                        f"Return (carry, None) when there is nothing to collect.")
    return children[0]


def trace_carry(f: Callable, in_tree: Any, carry: list[Any], others: Sequence[Aval], carry_tree_of: Callable[[Any], Any],
                init: Any, init_tree: Any, context: str, role: str) -> tuple[Jaxpr, list[Any], Any, list[Any]]:
    """Trace a loop body whose first results must have the types of its first arguments, the carry.

    Weakly typed initial values (Python scalars) are converted to the dtype that the body returns, and those without a mesh
    are sharded as what the body returns.
    """
    internal = is_internal(f)
    for _ in range(len(carry) + 2):
        types = [tracing.aval_of(x) for x in carry]
        jaxpr, consts, out_tree = trace_function(f, in_tree, [*types, *others], role)
        carry_tree = carry_tree_of(out_tree)
        out_types = jaxpr.out_avals[:carry_tree.num_leaves]
        if carry_tree != init_tree:
            returned = carry_tree.unflatten(out_types)
            raise TypeError(
                f"{context} must return a carry (output) of the same pytree structure as the carry that it is given "
                            f"(input), but they differ {tree.first_difference(init_tree.unflatten(types), returned)}.")
        promoted = [_promoted(vary(x, b.vma) if internal else x, a, b) for x, a, b in zip(carry, types, out_types)]
        if all(x is y for x, y in zip(carry, promoted)):
            break
        carry = promoted
    lines = type_mismatches("carry", types, out_types, lambda i: tree.path_of(init, i), "on entry", "on return",
                            not internal)
    if lines:
        raise TypeError(
            f"{context} must return a carry (output) of types equal to those of the carry that it is given (input), "
                        f"but they differ in a carry component: {'; '.join(lines)}. Convert one of them with astype, or start "
                        "with an array of the right type.")
    # Weak types may differ: the loop's results are as weakly typed as the body's.
    carry_avals = [a if a.is_high else a.update(weak_type=b.weak_type) for a, b in zip(types, out_types)]
    jaxpr = with_weak_types(jaxpr, [*carry_avals, *[None] * (len(jaxpr.out_avals) - len(types))])
    return jaxpr, consts, out_tree, carry


def _promoted(x: Any, initial: Aval, returned: Aval) -> Any:
    """Convert a weakly typed initial value, or one without a mesh, to the type that the body returns."""
    if initial.is_high:
        return x
    if initial.explicit_sharding is None and returned.explicit_sharding is not None and initial.shape == returned.shape and (
            active.abstract_mesh().empty or not isinstance(x, (tracing.Tracer, ArrayImpl))):
        x = reshard_p.bind(x, dst_sharding=returned.explicit_sharding)
    if not initial.weak_type or initial.shape != returned.shape or initial.dtype == returned.dtype:
        return x
    if dtypes.promote_pair(initial.dtype, True, returned.dtype, returned.weak_type)[0] == returned.dtype:
        return convert_element_type_p.bind(x, new_dtype=returned.dtype, weak_type=False, sharding=None)
    return x


def _scan_in_python(f: Callable, init: Any, leaves: Sequence[Any], x_tree: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    carry, ys = tree.map(as_array, init), []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, x_tree.unflatten([x[i] for x in leaves]))
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, tree.map(_stacked, *ys)


def _stacked(*rows: Any) -> Any:
    """Stack rows into one array of their promoted type."""
    kinds = [(aval.dtype, aval.weak_type) for aval in [tracing.aval_of(row) for row in rows]]
    dtype, weak = functools.reduce(lambda x, y: dtypes.promote_pair(*x, *y), kinds)
    return concatenate([expand_dims(as_type(row, dtype, weak), (0,)) for row in rows], 0)


@boundary
def map(f: Callable[[Any], _R], xs: Any, *, batch_size: int | None = None) -> _R:
    """Apply a function to each row of arrays in a compiled sequential loop, and stack the results.

    Args:
        f: Function of one row.
        xs: Pytree of arrays with equal leading axis sizes.
        batch_size: Number of rows to process at a time with `vmap(f)`. Default: one row at a time, without `vmap`.

    Returns:
        The results of `f`, stacked along a new leading axis.

    Example:
        >>> lax.map(lambda x: x ** 2, xnp.arange(4))
        Array([0, 1, 4, 9], dtype=int32)
    """
    if not batch_size:
        return scan(_RowFunction(f), (), xs)[1]
    leaves = tree.leaves(xs)
    if not leaves:
        raise ValueError(f"map of {signatures.function_name(f)} got no arrays to map over.")
    batch_size = operator.index(batch_size)
    if batch_size < 1:
        raise ValueError(f"map of {signatures.function_name(f)} takes a positive batch_size, got {batch_size}.")
    length = _length(signatures.function_name(f), xs, leaves, None)
    divisible = length // batch_size * batch_size
    if not divisible:
        return vmap(f)(xs)
    mapped = vmap(f)
    blocks = tree.map(lambda x: reshape(slice_in_dim(x, 0, divisible),
                                        (divisible // batch_size, batch_size, *np.shape(x)[1:])), xs)
    results = scan(_RowFunction(mapped), (), blocks)[1]
    results = tree.map(lambda y: reshape(y, (divisible, *np.shape(y)[2:])), results)
    if divisible == length:
        return results
    remainder = mapped(tree.map(lambda x: slice_in_dim(x, divisible, length), xs))
    return tree.map(lambda y, z: concatenate([y, z], 0), results, remainder)


class _RowFunction(DerivedFunction):
    """`f` as the body of a carry-less scan, traced afresh for each call of `map`: a method may read attributes that have
    changed."""

    __slots__ = ()
    remembered = False

    def __call__(self, carry: Any, x: Any) -> tuple[Any, Any]:
        return carry, self.f(x)

    @staticmethod
    def names(parameters: signatures.Parameters, key: tuple, in_tree: Any) -> list[str]:
        row = tree.leaf_indices(in_tree.children()[1])
        return signatures.leaf_names(parameters, signatures.Selection(), tree.structure(((row,), {})))
