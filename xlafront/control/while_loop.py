"""`while_loop` and `fori_loop`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.control.discharge_rules import discharge_while
from xlafront.control.scan import scan, trace_carry
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.dimensions import is_symbolic_dim
from xlafront.core.ir import ClosedJaxpr, Var, dce_closed, effects_by_operand
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.typing import ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax.elementwise import as_type, lt, select
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS
from xlafront.lax.shapes import broadcast_in_dim_p, place_axis
from xlafront.lax.zeros import instantiate
from xlafront.runtime import config
from xlafront.staging import signatures
from xlafront.staging.jitted import Jitted, Options
from xlafront.transforms.ad.arguments import as_array, as_results
from xlafront.transforms.ad.jvp import jvp_program
from xlafront.transforms.batching.vmap import batch_program
from xlafront.transforms.calls.programs import (
    DerivedFunction,
    active_results,
    evaluate,
    fixpoint,
    in_three,
    operands_of,
    references_as_inputs,
    reorder,
    trace_function,
    vary,
)

# The operation. Its operands are `cond_nconsts` values that the condition reads, `body_nconsts` that the body reads, and
# the carry. Of a batch of loops the condition gives a flag for each: the operation goes on while any of them is set, and leaves
# alone the values of those that are done. The dimensions of the flags come first in all values of the carry.


def _bind(cond_jaxpr, body_jaxpr, cond_consts, body_consts, carry) -> list:
    (cond_jaxpr,), cond_refs = references_as_inputs((cond_jaxpr,), len(cond_consts))
    (body_jaxpr,), body_refs = references_as_inputs((body_jaxpr,), len(body_consts))
    return while_p.bind(*cond_consts, *cond_refs, *body_consts, *body_refs, *carry, cond_jaxpr=cond_jaxpr,
                        body_jaxpr=body_jaxpr, cond_nconsts=len(cond_consts) + len(cond_refs),
                        body_nconsts=len(body_consts) + len(body_refs))


def _lower(ctx, *operands, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    cond_consts, body_consts, carry = in_three(operands, cond_nconsts, body_nconsts)
    effects = lowering.module.ordered_effects(cond_jaxpr, body_jaxpr)
    batch, asked_once = bool(cond_jaxpr.out_avals[0].shape), lowering.module.ordered_effects(cond_jaxpr)
    any_goes_on, choice = _of_batch(cond_jaxpr, body_jaxpr) if batch else (None, None)

    def typed(inner, program, values):
        return [inner.typed(x, aval) for x, aval in zip(values, program.in_avals)]

    def condition(inner, *state):
        return inner.inline(cond_jaxpr, typed(inner, cond_jaxpr, [*cond_consts, *state]))[0]

    def going_on(inner, flags, *_):
        return inner.inline(any_goes_on, typed(inner, any_goes_on, [flags]))[0] if batch else flags

    def advance(inner, flags, *state):
        following = inner.inline(body_jaxpr, typed(inner, body_jaxpr, [*body_consts, *state]))
        return inner.inline(choice, typed(inner, choice, [flags, *state, *following])) if batch else following

    def advance_and_ask(inner, flags, *state):
        following = advance(inner, flags, *state)
        return [condition(inner, *following), *following]

    if batch and cond_jaxpr.effects and not asked_once:  # seen when it decides, and when it chooses
        return ctx.loop(carry, lambda inner, *state: going_on(inner, condition(inner, *state)),
                        lambda inner, *state: advance(inner, condition(inner, *state), *state), effects)
    if not batch and not asked_once:
        return ctx.loop(carry, condition, lambda inner, *state: advance(inner, None, *state), effects)
    # The flags are carried. A condition passes on no tokens: it is computed before the loop and at the end of each step.
    return ctx.loop([condition(ctx, *carry), *carry], going_on, advance_and_ask, effects)[1:]


def _of_batch(condition: ClosedJaxpr, body: ClosedJaxpr) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Programs that say whether any loop of a batch goes on, and that give the new values of those that do and the old ones of
    the others."""
    def make():
        [flags], carry = condition.out_avals, body.out_avals
        axes, debug_info = tuple(range(len(flags.shape))), body.debug_info.with_unknown_names()
        return (tracing.trace_to_closed_jaxpr(
                    lambda go_on: [REDUCTIONS["reduce_or"].bind(go_on, axes=axes)], [flags], debug_info),
                tracing.trace_to_closed_jaxpr(
                    lambda go_on, *values: those_that_go_on(go_on, values[:len(carry)], values[len(carry):]),
                    [flags, *carry, *carry], debug_info))

    return body.jaxpr.memoised_with([condition.jaxpr], ("those of a batch that go on",), make)


def those_that_go_on(go_on, carry: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """The new values of the loops of a batch that are not done, the old ones of the others."""
    dims = tuple(range(np.ndim(go_on)))
    return [select(go_on if np.ndim(new) == len(dims) else broadcast_in_dim_p.bind(
        go_on, shape=np.shape(new), broadcast_dimensions=dims, sharding=None), old, new) for old, new in zip(carry, found)]


def _active(body_jaxpr, moving: Sequence[bool], cond_nconsts, body_nconsts) -> tuple[list[bool], list[bool]]:
    """Of operands with tangents those that are constants of the body, and which values of the carry get one in some step."""
    _, consts, carry = in_three(moving, cond_nconsts, body_nconsts)
    return consts, fixpoint(carry, lambda flags: active_results(body_jaxpr.jaxpr, [*consts, *flags]))


def _jvp(primals, tangents, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    active_consts, active_carry = _active(body_jaxpr, [type(t) is not Zero for t in tangents], cond_nconsts, body_nconsts)
    cond_consts, body_consts, carry = in_three(primals, cond_nconsts, body_nconsts)
    _, consts_t, carry_t = in_three(tangents, cond_nconsts, body_nconsts)
    program, _ = jvp_program(body_jaxpr, (*active_consts, *active_carry), tuple(active_carry))
    num_consts, num_carry = len(body_consts), len(carry)
    moving = num_consts + num_carry
    num_consts_t = sum(active_consts)
    body = program.jaxpr.memoised(("body of a while", num_consts), lambda: reorder(program, [
        *range(num_consts), *range(moving, moving + num_consts_t), *range(num_consts, moving),
        *range(moving + num_consts_t, len(program.in_avals))]))
    inner = cond_jaxpr.jaxpr
    condition = inner.memoised(("with tangents", tuple(active_carry)), lambda: ClosedJaxpr(inner.replace(
        invars=[*inner.invars, *[Var(v.aval.to_tangent_aval())  # unread
                                 for v, a in zip(inner.invars[cond_nconsts:], active_carry) if a]]), cond_jaxpr.consts))
    results = _bind(condition, body, cond_consts, [*body_consts, *[t for t, a in zip(consts_t, active_consts) if a]],
                    [*carry, *[instantiate(t) for t, a in zip(carry_t, active_carry) if a]])
    moved = iter(results[num_carry:])
    return results[:num_carry], [next(moved) if a else Zero(v.aval.to_tangent_aval())
                                 for a, v in zip(active_carry, inner.invars[cond_nconsts:])]


def _linearize(primals, tangents, **params):
    """The derivative is a loop too, which computes the values again: how many steps there are is known only then."""
    results = while_p.bind(*primals, **params)
    body, first = params["body_jaxpr"].jaxpr, params["cond_nconsts"] + params["body_nconsts"]
    moving = [type(t) is not Zero for t in tangents]
    _, active = _active(params["body_jaxpr"], moving, params["cond_nconsts"], params["body_nconsts"])
    passed = [v is w for v, w in zip(body.outvars, body.invars[params["body_nconsts"]:])]
    if not any(a and not p for a, p in zip(active, passed)):  # no step changes anything that has a tangent
        return results, list(tangents[first:])
    _, out_tangents = _jvp(primals, tangents, **params)
    return results, out_tangents


def _transpose(cts, *operands, **params):
    raise ValueError(
        "reverse-mode differentiation does not work for while_loop, nor for fori_loop with dynamic (traced) bounds: grad and "
        "vjp need to know how many steps the loop takes. Use lax.scan, or fori_loop with bounds that are Python numbers; or "
        "differentiate in forward mode (jvp, jacfwd), or define the derivative with custom_vjp.")


def _batch(trace, operands, dims, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    flag_dims = len(cond_jaxpr.out_avals[0].shape)
    cond_consts, body_consts, carry = in_three([d is not None for d in dims], cond_nconsts, body_nconsts)

    def marks(consts, carry, at):
        return tuple([0 if b else None for b in consts] + [at if b else None for b in carry])

    def ask(carry, at, batched=()):
        return batch_program(cond_jaxpr, marks(cond_consts, carry, at), trace, batched)

    def grow(carry):  # an element that is done waits for the others, so a batched condition makes all of the carry batched
        if ask(carry, flag_dims)[1][0] is not None:
            return [True] * len(carry)
        return [d is not None for d in batch_program(body_jaxpr, marks(body_consts, carry, flag_dims), trace, at=flag_dims)[1]]

    carry = fixpoint(carry, grow)
    condition, (dim,) = ask(carry, flag_dims)
    at = flag_dims if dim is None else 0  # behind the flags that are the same for all elements, or before the others
    if dim or at != flag_dims:
        condition, _ = ask(carry, at, (True,))
    body, _ = batch_program(body_jaxpr, marks(body_consts, carry, at), trace, tuple(carry), at=at)
    moved = [place_axis(x, d, to, trace.size) if to is not None else x for x, d, to in zip(
        operands, dims, [*marks(cond_consts, [], 0), *marks(body_consts, carry, at)])]
    return _bind(condition, body, *in_three(moved, cond_nconsts, body_nconsts)), [at if b else None for b in carry]


def _dce(used, eqn):
    """Drop values of the carry that neither the condition nor the wanted results need."""
    p = eqn.params
    condition, body = p["cond_jaxpr"], p["body_jaxpr"]
    cond_nconsts, body_nconsts = p["cond_nconsts"], p["body_nconsts"]
    _, read = dce_closed(condition, [True])
    wanted = [a or b for a, b in zip(used, read[cond_nconsts:])]
    carry = fixpoint(wanted, lambda flags: dce_closed(body, flags)[1][body_nconsts:])
    program, kept = dce_closed(body, carry, [i >= body_nconsts and carry[i - body_nconsts] for i in range(len(body.in_avals))])
    if all(carry) and all(kept):
        return eqn
    condition = reorder(condition, [*range(cond_nconsts), *[cond_nconsts + i for i, keep in enumerate(carry) if keep]])
    cond_consts, body_consts, values = in_three(eqn.invars, cond_nconsts, body_nconsts)
    body_consts = [v for v, keep in zip(body_consts, kept) if keep]
    return eqn.replace(invars=[*cond_consts, *body_consts, *[v for v, keep in zip(values, carry) if keep]],
                       outvars=[v for v, keep in zip(eqn.outvars, carry) if keep],
                       params=p | {"cond_jaxpr": condition, "body_jaxpr": program, "body_nconsts": len(body_consts)})


def _key_use(eqn, use_of_program):
    p = eqn.params
    condition, body = p["cond_jaxpr"].jaxpr, p["body_jaxpr"].jaxpr
    spends, results = use_of_program(body)
    carried = {i - p["body_nconsts"]: part for i, part in spends}
    asked = {i - p["cond_nconsts"]: part for i, part in use_of_program(condition).spends}
    for which, program, found in (("cond", condition, asked), ("body", body, carried)):
        for i in found:
            if i < 0:
                raise errors.key_reuse_in_loop(f"while_loop {which} function", program,
                                               "it spends a key that is the same in every turn")
            if results[i] != "new":
                raise errors.key_reuse_in_loop(f"while_loop {which} function", program,
                                               "it spends a key of the value, and the body returns no new one in its place")
    if not asked.keys().isdisjoint(carried):
        raise errors.KeyReuseError(f"while_loop cond and body functions both use the same key of the value: "
                                   f"{condition.debug_info.func_src_info} and {body.debug_info.func_src_info}. "
                                   f"{errors.KeyReuseError.remedy}")
    first = p["cond_nconsts"]
    spends = [(first + p["body_nconsts"] + i, part) for i, part in {**carried, **asked}.items()]
    return spends, [first + r if isinstance(r, int) else r for r in results]


def _impl(*args, **params):
    places = {id(x): i for i, x in reversed(list(enumerate(args)))}
    if len(places) == len(args) or not effects_by_operand(params["body_jaxpr"]) | effects_by_operand(params["cond_jaxpr"]):
        return evaluate(while_p, args, params, params["body_jaxpr"].jaxpr)
    # Condition and body use the same reference, which a program takes once.
    distinct = sorted(places.values())
    order = tuple([distinct.index(places[id(x)]) for x in args])
    jitted = params["body_jaxpr"].jaxpr.memoised_with([params["cond_jaxpr"].jaxpr], ("once", order), lambda: Jitted(
        lambda *xs: while_p.bind(*[xs[i] for i in order], **params), Options(), "while", True))
    return jitted.evaluate(*[args[i] for i in distinct])[0]


def _steps(run, operands, params) -> None:
    body = params["cond_nconsts"] + params["body_nconsts"]
    of_cond, of_body, carried = operands[:params["cond_nconsts"]], operands[params["cond_nconsts"]:body], operands[body:]
    while np.any(go_on := run(params["cond_jaxpr"], *of_cond, *carried)[0]):
        following = run(params["body_jaxpr"], *of_body, *carried)
        carried = those_that_go_on(go_on, carried, following) if np.ndim(go_on) else following


while_p = Primitive(
    "while", multiple_results=True, memoise=False, cost="heavy", abstract=lambda *_, body_jaxpr, **params: body_jaxpr.out_avals,
    lower=_lower, jvp=_jvp, linearize=_linearize, transpose=_transpose, dce=_dce,
    discharge=discharge_while,
    effects=lambda *_, cond_jaxpr, body_jaxpr, cond_nconsts, **params: effects_by_operand(cond_jaxpr) | effects_by_operand(
        body_jaxpr, cond_nconsts),
    impl=_impl, shown_as="while_loop")
while_p.batch_with_axis = _batch
while_p.steps = _steps
while_p.moves_with = lambda operands, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts: _active(
    body_jaxpr, operands, cond_nconsts, body_nconsts)[1]
while_p.takes_refs_twice = True  # by its condition, and by its body
while_p.key_use = _key_use


# Public


@boundary
def while_loop(cond_fun: Callable, body_fun: Callable, init_val: Any) -> Any:
    """A compiled loop that goes on while a condition holds. It can be differentiated in forward mode.

    Both functions are traced once; the value is a pytree whose types stay the same.

    - `cond_fun`: `cond_fun(value)` says whether to go on.
    - `body_fun`: `body_fun(value)` gives the next value.
    - `init_val`: the first value.

    >>> lax.while_loop(lambda x: x < 100, lambda x: x * 2, 1)
    Array(128, dtype=int32, weak_type=True)
    """
    for f, which in ((cond_fun, "cond_fun"), (body_fun, "body_fun")):
        if not callable(f):
            raise errors.not_callable("while_loop", f, which)
    if config.disable_jit.value:
        value = tree.map(as_array, init_val)
        with contextlib.suppress(errors.TracerBoolConversionError):  # (of elements that vmap maps over, or a program's)
            while cond_fun(value):
                value = body_fun(value)
            return value
    name = signatures.function_name(body_fun)
    who = f"while_loop with the body {name}"
    leaves, init_tree = tree.flatten(init_val)
    carry = operands_of(leaves, who, init_val)
    in_tree = tree.structure((init_val,))
    # (the condition first: what functions do when they are traced may depend on the order)
    types = [tracing.aval_of(x) for x in carry]
    asked = trace_function(cond_fun, in_tree, types, "while_cond")
    program, consts, out_tree, carry = trace_carry(body_fun, in_tree, carry, [], lambda out: out, init_val, init_tree, who,
                                                "while_body")
    if types != program.in_avals[len(consts):]:
        types = program.in_avals[len(consts):]
        asked = trace_function(cond_fun, in_tree, types, "while_cond")
    condition, cond_consts, cond_tree = asked
    found = condition.out_avals
    axes = frozenset().union(*[a.vma for a in found])
    if not all([axes <= a.vma for a in types]):  # devices stop after different numbers of steps
        program, consts, out_tree, carry = trace_carry(
            body_fun, in_tree, [vary(x, axes) for x in carry], [], lambda out: out, init_val, init_tree, who, "while_body")
        types = program.in_avals[len(consts):]
        condition, cond_consts, cond_tree = trace_function(cond_fun, in_tree, types, "while_cond")
    if cond_tree.num_nodes != 1 or len(found) != 1 or found[0].shape != () or found[0].dtype != dtypes.bool_:
        shown = cond_tree.unflatten(found)
        raise TypeError(f"while_loop needs a cond_fun that returns a boolean scalar, but {signatures.function_name(cond_fun)} "
                        f"returned {shown}, a pytree {cond_tree}. Return a comparison of scalars, or reduce with xnp.any or "
                        f"xnp.all.")
    moving = [v is not w for v, w in zip(program.jaxpr.invars[len(consts):], program.jaxpr.outvars)]
    if all(moving):
        return out_tree.unflatten(_bind(condition, program, cond_consts, consts, carry))
    # What no step changes is no part of the carry.
    fixed, rest = ([x for x, m in zip(carry, moving) if m is changes] for changes in (False, True))
    ask, step = program.jaxpr.memoised_with([condition.jaxpr], ("what moves", len(consts), len(cond_consts)), lambda: (
        _fixed_first(condition, len(cond_consts), moving), reorder(
            _fixed_first(program, len(consts), moving), None, [i for i, m in enumerate(moving) if m])))
    results = iter(_bind(ask, step, [*cond_consts, *fixed], [*consts, *fixed], rest))
    read = {v for eqn in condition.jaxpr.eqns for v in eqn.invars if not v.is_literal}
    asked_for = [v in read for v in condition.jaxpr.invars[len(cond_consts):]]
    return out_tree.unflatten([next(results) if m else as_array(x) if asks else x for x, m, asks in zip(
        as_results(carry), moving, asked_for)])


def _fixed_first(program: ClosedJaxpr, num_consts: int, moving: Sequence[bool]) -> ClosedJaxpr:
    """The program that takes what does not move with its constants, before the rest of the carry."""
    return reorder(program, [*range(num_consts), *[num_consts + i for i, m in enumerate(moving) if not m],
                             *[num_consts + i for i, m in enumerate(moving) if m]])


@boundary
def fori_loop(lower: ArrayLike, upper: ArrayLike, body_fun: Callable, init_val: Any, *,
              unroll: int | bool | None = None) -> Any:
    """A compiled loop over numbers that carries a value.

    With bounds that are known numbers it is a `scan`, which reverse mode can differentiate; otherwise a `while_loop`.

    - `lower`, `upper`: the first number, and the one after the last.
    - `body_fun`: `body_fun(i, value)` gives the next value, a pytree whose types stay the same.
    - `init_val`: the first value.
    - `unroll`: how many steps go into one turn of the compiled loop, True for all; only with known bounds.

    >>> lax.fori_loop(0, 5, lambda i, x: x + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise errors.not_callable("fori_loop", body_fun, "body_fun")
    first, last = [tracing.aval_of(x, "fori_loop") for x in (lower, upper)]
    for aval, which in ((first, "lower"), (last, "upper")):
        if aval.shape or not (dtypes.is_integer(aval.dtype) or dtypes.is_float(aval.dtype)):
            raise TypeError(f"fori_loop takes {which} as a scalar integer (or float), got {aval}.")
    values = [_known_integer(x) for x in (lower, upper)]
    if first.dtype != last.dtype:
        strong = last if first.weak_type else first
        if first.weak_type == last.weak_type or not first.dtype.kind == last.dtype.kind == "i":
            raise TypeError(f"lower and upper of fori_loop must have equal types, got {first} and {last}. Convert one "
                            f"of them, as in xnp.{last.dtype}(lower).")
        lower, upper = as_type(lower, strong.dtype, False), as_type(upper, strong.dtype, False)
    if config.disable_jit.value and None not in values:
        value = tree.map(as_array, init_val)
        for i in range(*values):
            value = body_fun(i, value)
        return value
    if None not in values:
        start, stop = values
        length = max(stop - start, 0)
        # The counter is weakly typed, as the numbers are, where the default type of integers holds them.
        counter = start if _fits(start, stop) else np.asarray(start, first.dtype)[()]
        (_, result), _ = scan(_CountedBody(body_fun, False), (counter, init_val), None, length,
                              unroll=1 if unroll is None else unroll)
        return result
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError("fori_loop can unroll only when its bounds are statically known numbers, not traced values.")
    return while_loop(_below, _CountedBody(body_fun, True), (lower, upper, init_val))[2]


def _fits(*numbers: int) -> bool:
    limits = np.iinfo(dtypes.default_dtype(int))
    return limits.min <= min(numbers) and max(numbers) <= limits.max


def _known_integer(x) -> int | None:
    """A bound as a number, where it is known; of a float the whole part."""
    if isinstance(x, tracing.Tracer) or is_symbolic_dim(x):
        return None
    return int(np.asarray(x))


def _below(state):
    return lt(state[0], state[1])


class _CountedBody(DerivedFunction):
    """The body of `fori_loop` as one of `scan` or of `while_loop`; its key is `(dynamic,)`."""

    __slots__ = ()
    role = "fori_loop"

    def __call__(self, state, _=None):
        i, *upper, value = state
        [dynamic] = self.key
        following = i + 1
        if dynamic:
            return (following, *upper, self.f(i, value))
        return (following, self.f(i, value)), None

    @staticmethod
    def names(parameters, key, in_tree):
        i, *upper, value = in_tree.children()[0].children()
        called = tree.structure(((tree.numbered(i), tree.numbered(value)), {}))
        of_index, *of_value = signatures.leaf_names(parameters, signatures.Selection(), called)
        return [of_index, *[""] * len(upper), *of_value]
