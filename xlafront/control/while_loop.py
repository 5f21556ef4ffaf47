"""The `while` primitive with its transformation rules, `lax.while_loop` and `lax.fori_loop`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from xlafront import lowering
from xlafront.api.arguments import as_array, as_results
from xlafront.base import config
from xlafront.control.discharge_rules import discharge_while
from xlafront.control.layouts import WhileLayout, interleaved, selected
from xlafront.control.scan import scan, trace_carry
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.basic_primitives import broadcast_in_dim_p, place_axis
from xlafront.core.ir import Jaxpr, JaxprEqn, Var, dce_closed, effects_by_operand, last_reads
from xlafront.core.primitive import Cost, Primitive, Structured, Traits
from xlafront.core.tangents import instantiate
from xlafront.core.traceback_filter import boundary
from xlafront.core.typing import ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax.elementwise import as_type, lt, select
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS
from xlafront.staging import signatures
from xlafront.staging.jitted import Jitted
from xlafront.staging.signatures import Options
from xlafront.symbolic.dimensions import is_symbolic_dim
from xlafront.transforms.ad.jvp import jvp_program
from xlafront.transforms.batching.vmap import batch_program, split_of
from xlafront.transforms.calls.programs import (
    DerivedFunction,
    active_results,
    evaluate,
    fixpoint,
    operands_of,
    references_as_inputs,
    reorder,
    trace_function,
    vary,
)

if TYPE_CHECKING:
    from xlafront.core.typing import Dims, Marks, Params, Tangent
    from xlafront.transforms.batching.vmap import BatchTrace

# The primitive. Its operands are those of a `WhileLayout`. The condition of a batch of loops returns one flag per loop:
# iteration continues while any flag is set, and leaves the carry of finished loops unchanged. The dimensions of the flags are
# the leading ones of all carried values.


def _bind(cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, cond_consts: Sequence[Any], body_consts: Sequence[Any],
          carry: Sequence[Any]) -> list[Any]:
    (cond_jaxpr,), cond_refs = references_as_inputs((cond_jaxpr,), len(cond_consts))
    (body_jaxpr,), body_refs = references_as_inputs((body_jaxpr,), len(body_consts))
    layout = WhileLayout(len(cond_consts) + len(cond_refs), len(body_consts) + len(body_refs))
    return while_p.bind(*cond_consts, *cond_refs, *body_consts, *body_refs, *carry, cond_jaxpr=cond_jaxpr,
                        body_jaxpr=body_jaxpr, **layout._asdict())


def _lower(ctx: Any, *operands: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, cond_nconsts: int, body_nconsts: int
           ) -> list[Any]:
    cond_consts, body_consts, carry = WhileLayout(cond_nconsts, body_nconsts).split(operands)
    effects = lowering.module.ordered_effects(cond_jaxpr, body_jaxpr)
    batch, carries_flags = bool(cond_jaxpr.out_avals[0].shape), lowering.module.ordered_effects(cond_jaxpr)
    any_active, selection = _batch_jaxprs(cond_jaxpr, body_jaxpr) if batch else (None, None)

    def typed(inner: Any, jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
        return [inner.constrain_to_type(x, aval) for x, aval in zip(values, jaxpr.in_avals)]

    def condition(inner: Any, *state: Any) -> Any:
        return inner.inline(cond_jaxpr, typed(inner, cond_jaxpr, [*cond_consts, *state]))[0]

    def is_active(inner: Any, flags: Any, *_: Any) -> Any:
        return inner.inline(any_active, typed(inner, any_active, [flags]))[0] if batch else flags

    def advance(inner: Any, flags: Any, *state: Any) -> list[Any]:
        next_state = inner.inline(body_jaxpr, typed(inner, body_jaxpr, [*body_consts, *state]))
        return inner.inline(selection, typed(inner, selection, [flags, *state, *next_state])) if batch else next_state

    def advance_and_test(inner: Any, flags: Any, *state: Any) -> list[Any]:
        next_state = advance(inner, flags, *state)
        return [condition(inner, *next_state), *next_state]

    if batch and cond_jaxpr.effects and not carries_flags:  # the effects occur where the flags are tested and where they select
        return ctx.loop(carry, lambda inner, *state: is_active(inner, condition(inner, *state)),
                        lambda inner, *state: advance(inner, condition(inner, *state), *state), effects)
    if not batch and not carries_flags:
        return ctx.loop(carry, condition, lambda inner, *state: advance(inner, None, *state), effects)
    # The condition region cannot return tokens: compute the flags before the loop and at the end of each step, and carry them.
    return ctx.loop([condition(ctx, *carry), *carry], is_active, advance_and_test, effects)[1:]


def _batch_jaxprs(condition: Jaxpr, body: Jaxpr) -> tuple[Jaxpr, Jaxpr]:
    """Return the jaxprs `any(flags)` and `select(flags, old carry, new carry)` of a batch of loops."""
    def make() -> tuple[Jaxpr, Jaxpr]:
        [flags_aval], carry = condition.out_avals, body.out_avals
        axes, debug_info = tuple(range(len(flags_aval.shape))), body.debug_info.with_unknown_names()
        return (tracing.trace_to_closed_jaxpr(
                    lambda active: [REDUCTIONS["reduce_or"].bind(active, axes=axes)], [flags_aval], debug_info),
                tracing.trace_to_closed_jaxpr(
                    lambda active, *values: select_active(active, values[:len(carry)], values[len(carry):]),
                    [flags_aval, *carry, *carry], debug_info))

    return body.memoised_with([condition], ("jaxprs of a batch",), make)


def select_active(active: Any, carry: Sequence[Any], new_carry: Sequence[Any]) -> list[Any]:
    """Select the new values of active loops and the old values of finished ones."""
    dims = tuple(range(np.ndim(active)))
    return [select(active if np.ndim(new) == len(dims) else broadcast_in_dim_p.bind(
        active, shape=np.shape(new), broadcast_dimensions=dims, sharding=None), old, new) for old, new in zip(carry, new_carry)]


def _active(body_jaxpr: Jaxpr, active: Marks, layout: WhileLayout) -> tuple[list[bool], list[bool]]:
    """Return which body constants have tangents, and which carries get one in some step."""
    _, consts, carry = layout.split(active)
    return consts, fixpoint(carry, lambda flags: active_results(body_jaxpr.structure, [*consts, *flags]))


def _jvp(primals: Sequence[Any], tangents: Sequence[Tangent], *, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr,
         cond_nconsts: int, body_nconsts: int) -> tuple[list[Any], list[Tangent]]:
    layout = WhileLayout(cond_nconsts, body_nconsts)
    active_consts, active_carry = _active(body_jaxpr, [type(t) is not Zero for t in tangents], layout)
    cond_consts, body_consts, carry = layout.split(primals)
    _, const_tangents, carry_tangents = layout.split(tangents)
    active, count = (*active_consts, *active_carry), len(carry)
    jvp_jaxpr, _ = jvp_program(body_jaxpr, active, tuple(active_carry))

    def make() -> Jaxpr:  # `jvp_jaxpr` takes (primals, tangents); each group gets its tangents next to it
        tangent_inputs = dict(zip(selected(range(len(active)), active), itertools.count(len(active))))
        groups = interleaved(layout.split_body(range(len(active))), tangent_inputs)
        return reorder(jvp_jaxpr, [i for group in groups for i in group])

    body = jvp_jaxpr.memoised(("body of a while", layout), make)
    _, carry_avals = layout.split_condition(cond_jaxpr.in_avals)
    tangent_avals = [a.to_tangent_aval() for a in carry_avals]
    jvp_condition = cond_jaxpr.memoised(("with tangents", tuple(active_carry)), lambda: cond_jaxpr.map_jaxpr(
        lambda jaxpr: jaxpr.replace(invars=[*jaxpr.invars, *map(Var, selected(tangent_avals, active_carry))])))  # ignored
    results = _bind(jvp_condition, body, cond_consts, [*body_consts, *selected(const_tangents, active_consts)],
                    [*carry, *map(instantiate, selected(carry_tangents, active_carry))])
    tangents_out = iter(results[count:])
    return results[:count], [next(tangents_out) if a else Zero(aval) for a, aval in zip(active_carry, tangent_avals)]


def _linearize(primals: Sequence[Any], tangents: Sequence[Tangent], **params: Any) -> tuple[list[Any], list[Tangent]]:
    """Recompute the values in the tangent loop: the number of steps is unknown, so residuals cannot be stacked."""
    results = while_p.bind(*primals, **params)
    body, layout = params["body_jaxpr"], WhileLayout.of(params)
    _, active = _active(body, [type(t) is not Zero for t in tangents], layout)
    unchanged = [v is w for v, w in zip(body.outvars, layout.split_body(body.invars)[1])]
    if not any(a and not fixed for a, fixed in zip(active, unchanged)):  # all active carries are loop-invariant
        return results, layout.split(tangents)[2]
    _, out_tangents = _jvp(primals, tangents, **params)
    return results, out_tangents


def _transpose(cts: Sequence[Tangent], *operands: Any, **params: Any) -> NoReturn:
    raise ValueError(
        "reverse-mode differentiation does not work for while_loop, nor for fori_loop with dynamic (traced) bounds: grad and "
        "vjp need to know how many steps the loop takes. Use lax.scan, or fori_loop with bounds that are Python numbers; or "
        "differentiate in forward mode (jvp, jacfwd), or define the derivative with custom_vjp.")


def _batch(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr,
           cond_nconsts: int, body_nconsts: int) -> tuple[list[Any], list[int | None]]:
    layout, split = WhileLayout(cond_nconsts, body_nconsts), split_of(operands, dims)
    flag_dims = len(cond_jaxpr.out_avals[0].shape)
    cond_consts, body_consts, carry = layout.split([d is not None for d in dims])

    def in_dims(consts: Marks, carry: Marks, flag_position: int) -> tuple[int | None, ...]:
        return tuple([0 if b else None for b in consts] + [flag_position if b else None for b in carry])

    def batched_condition(carry: Marks, flag_position: int, batched: tuple[bool, ...] = ()) -> tuple[Jaxpr, list]:
        return batch_program(cond_jaxpr, in_dims(cond_consts, carry, flag_position), trace, batched, split=split)

    def grow(carry: Marks) -> list[bool]:
        # Finished loops hold their values, so a batched condition makes the whole carry batched.
        if batched_condition(carry, flag_dims)[1][0] is not None:
            return [True] * len(carry)
        return [d is not None
                for d in batch_program(body_jaxpr, in_dims(body_consts, carry, flag_dims), trace, at=flag_dims,
                                       split=split)[1]]

    carry = fixpoint(carry, grow)
    condition, (dim,) = batched_condition(carry, flag_dims)
    flag_position = flag_dims if dim is None else 0  # after unbatched flags, or before batched ones
    if dim or flag_position != flag_dims:
        condition, _ = batched_condition(carry, flag_position, (True,))
    body, _ = batch_program(body_jaxpr, in_dims(body_consts, carry, flag_position), trace, tuple(carry),
                            at=flag_position, split=split)
    batched_operands = [place_axis(x, d, new_dim, trace.size, split) if new_dim is not None else x for x, d, new_dim in zip(
        operands, dims, [*in_dims(cond_consts, [], 0), *in_dims(body_consts, carry, flag_position)])]
    return _bind(condition, body, *layout.split(batched_operands)), [flag_position if b else None for b in carry]


def _dce(used: list[bool], eqn: JaxprEqn) -> JaxprEqn:
    """Drop carries that neither the condition nor the used results need."""
    condition, body, layout = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"], WhileLayout.of(eqn.params)
    _, read = layout.split_condition(dce_closed(condition, [True])[1])
    carry = fixpoint([a or b for a, b in zip(used, read)], lambda flags: layout.split_body(dce_closed(body, flags)[1])[1])
    pruned, live_in = dce_closed(body, carry, [*[False] * layout.body_nconsts, *carry])
    if all(carry) and all(live_in):
        return eqn
    consts, carry_positions = layout.split_condition(range(len(condition.in_avals)))
    condition = reorder(condition, [*consts, *selected(carry_positions, carry)])
    cond_consts, body_consts, carry_vars = layout.split(eqn.invars)
    body_consts = selected(body_consts, live_in)
    return eqn.replace(invars=[*cond_consts, *body_consts, *selected(carry_vars, carry)], outvars=selected(eqn.outvars, carry),
                       params=eqn.params | {"cond_jaxpr": condition, "body_jaxpr": pruned, "body_nconsts": len(body_consts)})


def _key_use(eqn: JaxprEqn, use_of_program: Callable) -> tuple[list[tuple[int, Any]], list[Any]]:
    condition, body = eqn.params["cond_jaxpr"].structure, eqn.params["body_jaxpr"].structure
    layout = WhileLayout.of(eqn.params)
    spends, results = use_of_program(body)
    # Keys by their index in the carry; those of constants are negative.
    spent_by_body = {i - layout.body_nconsts: part for i, part in spends}
    spent_by_condition = {i - layout.cond_nconsts: part for i, part in use_of_program(condition).spends}
    for role, jaxpr, spent in (("cond", condition, spent_by_condition), ("body", body, spent_by_body)):
        for i in spent:
            if i < 0:
                raise errors.key_reuse_in_loop(f"while_loop {role} function", jaxpr,
                                               "it spends a key that is the same in every iteration")
            if results[i] != "new":
                raise errors.key_reuse_in_loop(f"while_loop {role} function", jaxpr,
                                               "it spends a key of the value, and the body returns no new one in its place")
    if not spent_by_condition.keys().isdisjoint(spent_by_body):
        raise errors.KeyReuseError(f"while_loop cond and body functions both use the same key of the value: "
                                   f"{condition.debug_info.label} and {body.debug_info.label}. "
                                   f"{errors.KeyReuseError.remedy}")
    first = layout.cond_nconsts + layout.body_nconsts
    spends = [(first + i, part) for i, part in {**spent_by_body, **spent_by_condition}.items()]
    return spends, [layout.cond_nconsts + r if isinstance(r, int) else r for r in results]


def _impl(*args: Any, **params: Any) -> list[Any]:
    positions = {id(x): i for i, x in reversed(list(enumerate(args)))}
    if len(positions) == len(args) or not effects_by_operand(params["body_jaxpr"]) | effects_by_operand(params["cond_jaxpr"]):
        return evaluate(while_p, args, params, params["body_jaxpr"])
    # The condition and the body use the same Ref, which a jaxpr takes only once.
    distinct = sorted(positions.values())
    order = tuple([distinct.index(positions[id(x)]) for x in args])
    jitted = params["body_jaxpr"].memoised_with([params["cond_jaxpr"]], ("once", order), lambda: Jitted(
        lambda *xs: while_p.bind(*[xs[i] for i in order], **params), Options(), "while", True))
    return jitted.evaluate(*[args[i] for i in distinct])[0]


def _steps(run: Callable, operands: Sequence[Any], params: Params) -> None:
    cond_consts, body_consts, carried = WhileLayout.of(params).split(operands)
    while np.any(active := run(params["cond_jaxpr"], *cond_consts, *carried)[0]):
        new_carry = run(params["body_jaxpr"], *body_consts, *carried)
        carried = select_active(active, carried, new_carry) if np.ndim(active) else new_carry


while_p = Primitive(
    "while", multiple_results=True, abstract=lambda *_, body_jaxpr, **params: body_jaxpr.out_avals, lower=_lower, jvp=_jvp,
    transpose=_transpose,
    effects=lambda *_, cond_jaxpr, body_jaxpr, cond_nconsts, **params: effects_by_operand(cond_jaxpr) | effects_by_operand(
        body_jaxpr, cond_nconsts), impl=_impl, shown_as="while_loop", batch_with_axis=_batch,
    structured=Structured(
        linearize=_linearize, dce=_dce, discharge=discharge_while, debug_steps=_steps,
        active_outputs=lambda operands, **params: _active(params["body_jaxpr"], operands, WhileLayout.of(params))[1]),
    traits=Traits(memoise=False, cost=Cost.HEAVY, allows_ref_aliasing=True, key_use=_key_use))


# Public

_R = TypeVar("_R")


@boundary
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], _R], init_val: Any) -> _R:
    """Apply a function repeatedly, in a compiled loop, while a condition holds.

    Both functions are traced once. The loop can be differentiated in forward mode only.

    Args:
        cond_fun: Function `cond_fun(value) -> bool`; the loop stops when it returns False.
        body_fun: Function `body_fun(value) -> value`. The result must have the structure and types of `value`.
        init_val: Initial value, a pytree of arrays.

    Returns:
        The last value.

    Example:
        >>> lax.while_loop(lambda x: x < 100, lambda x: x * 2, 1)
        Array(128, dtype=int32, weak_type=True)
    """
    for f, which in ((cond_fun, "cond_fun"), (body_fun, "body_fun")):
        if not callable(f):
            raise errors.not_callable("while_loop", f, which)
    if config.disable_jit.value:
        value = tree.map(as_array, init_val)
        with contextlib.suppress(errors.TracerBoolConversionError):  # under vmap or while staging
            while cond_fun(value):
                value = body_fun(value)
            return value
    name = signatures.function_name(body_fun)
    context = f"while_loop with the body {name}"
    leaves, init_tree = tree.flatten(init_val)
    carry = operands_of(leaves, context, init_val)
    in_tree = tree.structure((init_val,))
    # Trace the condition first: functions may have side effects when they are traced.
    types = [tracing.aval_of(x) for x in carry]
    traced_condition = trace_function(cond_fun, in_tree, types, "while_cond")
    body_jaxpr, consts, out_tree, carry = trace_carry(
        body_fun, in_tree, carry, [], lambda out: out, init_val, init_tree, context, "while_body")
    if types != body_jaxpr.in_avals[len(consts):]:
        types = body_jaxpr.in_avals[len(consts):]
        traced_condition = trace_function(cond_fun, in_tree, types, "while_cond")
    condition, cond_consts, cond_tree = traced_condition
    cond_avals = condition.out_avals
    axes = frozenset().union(*[a.vma for a in cond_avals])
    if not all([axes <= a.vma for a in types]):  # the number of steps varies over devices
        body_jaxpr, consts, out_tree, carry = trace_carry(
            body_fun, in_tree, [vary(x, axes) for x in carry], [], lambda out: out, init_val, init_tree, context, "while_body")
        types = body_jaxpr.in_avals[len(consts):]
        condition, cond_consts, cond_tree = trace_function(cond_fun, in_tree, types, "while_cond")
    if cond_tree.num_nodes != 1 or len(cond_avals) != 1 or cond_avals[0].shape != () or cond_avals[0].dtype != dtypes.bool_:
        returned = cond_tree.unflatten(cond_avals)
        raise TypeError(f"while_loop needs a cond_fun that returns a boolean scalar, but {signatures.function_name(cond_fun)} "
                        f"returned {returned}, a pytree {cond_tree}. Return a comparison of scalars, or reduce with numpy.any "
                        f"or numpy.all.")
    return out_tree.unflatten(_bind_without_invariants(condition, body_jaxpr, cond_consts, consts, carry))


def _bind_without_invariants(condition: Jaxpr, body: Jaxpr, cond_consts: Sequence[Any], body_consts: Sequence[Any],
                             carry: Sequence[Any]) -> list[Any]:
    """Run a loop that takes the values that its body returns unchanged, and its condition does not read, as constants.

    Return the results of the whole carry.
    """
    layout = WhileLayout(len(cond_consts), len(body_consts))
    _, in_carry = layout.split_body(body.invars)
    is_carried = [v is not w for v, w in zip(in_carry, body.outvars)]
    if not all(is_carried):
        _, in_condition = layout.split_condition(condition.invars)
        read = last_reads(condition)
        is_carried = [varies or v in read for varies, v in zip(is_carried, in_condition)]
    if all(is_carried):
        return _bind(condition, body, cond_consts, body_consts, carry)
    invariant, carried = ([i for i, c in enumerate(is_carried) if c is chosen] for chosen in (False, True))
    reduced_condition, reduced_body = body.memoised_with([condition], ("without invariants", *layout), lambda: (
        reorder(condition, [*range(layout.cond_nconsts), *[layout.cond_nconsts + i for i in carried]]),
        reorder(body, [*range(layout.body_nconsts), *[layout.body_nconsts + i for i in (*invariant, *carried)]], carried)))
    results = iter(_bind(reduced_condition, reduced_body, cond_consts, [*body_consts, *[carry[i] for i in invariant]],
                         [carry[i] for i in carried]))
    return [next(results) if c else x for x, c in zip(as_results(carry), is_carried)]


@boundary
def fori_loop(lower: ArrayLike, upper: ArrayLike, body_fun: Callable[[Any, Any], _R], init_val: Any, *,
              unroll: int | bool | None = None) -> _R:
    """Apply a function repeatedly, in a compiled loop over a range of integers.

    With static bounds the loop is a `scan`, which supports reverse-mode differentiation; otherwise it is a `while_loop`.

    Args:
        lower: First index, an integer scalar.
        upper: End of the range, exclusive.
        body_fun: Function `body_fun(i, value) -> value`. The result must have the structure and types of `value`.
        init_val: Initial value, a pytree of arrays.
        unroll: Number of steps per iteration of the compiled loop; True unrolls all. Requires static bounds.

    Returns:
        The last value.

    Example:
        >>> lax.fori_loop(0, 5, lambda i, x: x + i, 0)
        Array(10, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise errors.not_callable("fori_loop", body_fun, "body_fun")
    first, last = [tracing.aval_of(x, "fori_loop") for x in (lower, upper)]
    for aval, which in ((first, "lower"), (last, "upper")):
        if aval.shape or not (dtypes.is_integer(aval.dtype) or dtypes.is_float(aval.dtype)):
            raise TypeError(f"fori_loop takes {which} as a scalar integer (or float), got {aval}.")
    values = [_static_integer(x) for x in (lower, upper)]
    if first.dtype != last.dtype:
        strong = last if first.weak_type else first
        if first.weak_type == last.weak_type or not first.dtype.kind == last.dtype.kind == "i":
            raise TypeError(f"lower and upper of fori_loop must have equal types, got {first} and {last}. Convert one "
                            f"of them, as in numpy.{last.dtype}(lower).")
        lower, upper = as_type(lower, strong.dtype, False), as_type(upper, strong.dtype, False)
    if config.disable_jit.value and None not in values:
        value = tree.map(as_array, init_val)
        for i in range(*values):
            value = body_fun(i, value)
        return value
    if None not in values:
        start, stop = values
        length = max(stop - start, 0)
        # The counter is weakly typed, like the Python scalars, if the default integer type can hold the bounds.
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


def _static_integer(x: Any) -> int | None:
    """Return a static bound as an int (floats are truncated), or None if it is traced or symbolic."""
    if isinstance(x, tracing.Tracer) or is_symbolic_dim(x):
        return None
    return int(np.asarray(x))


def _below(state: Sequence[Any]) -> Any:
    return lt(state[0], state[1])


class _CountedBody(DerivedFunction):
    """The body of `fori_loop` as a body of `scan` or `while_loop`; its key is `(dynamic,)`."""

    __slots__ = ()
    role = "fori_loop"

    def __call__(self, state: Sequence[Any], _: None = None) -> Any:
        i, *rest, value = state
        [dynamic] = self.key
        next_i = i + 1
        if dynamic:
            return (next_i, *rest, self.f(i, value))
        return (next_i, self.f(i, value)), None

    @staticmethod
    def names(parameters: signatures.Parameters, key: tuple, in_tree: Any) -> list[str]:
        i, *rest, value = in_tree.children()[0].children()
        arguments_tree = tree.structure(((tree.leaf_indices(i), tree.leaf_indices(value)), {}))
        index_name, *value_names = signatures.leaf_names(parameters, signatures.Selection(), arguments_tree)
        return [index_name, *[""] * len(rest), *value_names]
