"""The `cond` primitive with its transformation rules, `lax.cond`, `lax.switch` and `lax.platform_dependent`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from xlafront import lowering
from xlafront.api.arguments import as_array
from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.meshes import active
from xlafront.control.discharge_rules import discharge_cond
from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, convert_element_type_p, place_axis, reshard_p
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
from xlafront.core.primitive import Primitive, Structured, Traits
from xlafront.core.tangents import convert_cotangents, instantiate, zeros_of
from xlafront.core.traceback_filter import boundary
from xlafront.core.typing import ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE, eq, ne
from xlafront.lax.elementwise_functions import clamp
from xlafront.runtime import backends
from xlafront.staging import signatures
from xlafront.transforms.ad import backward_logs
from xlafront.transforms.ad.jvp import jvp_program
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.ad.transpose import transpose_program
from xlafront.transforms.batching.vmap import batch_program, split_of
from xlafront.transforms.calls.checkpoint import split_inside
from xlafront.transforms.calls.programs import (
    active_results,
    evaluate,
    is_internal,
    on_varying,
    operands_of,
    references_as_inputs,
    reorder,
    same_type,
    trace_function,
    type_mismatches,
    vary,
    with_weak_types,
)

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Dims, Marks, Params, Tangent
    from xlafront.transforms.ad.linearize import LinearizedJaxpr
    from xlafront.transforms.batching.vmap import BatchTrace

_R = TypeVar("_R")

# The primitive. Its operands are the branch index and the operands that all branches take. For `platform_dependent`, the
# parameter `branches_platforms` lists the platforms of each branch.


def _lower(ctx: Any, index: Any, *operands: Any, branches: Sequence[Jaxpr], **_: Any) -> list[Any]:
    static_index = lowering.mlir.constant_value(index)
    if static_index is not None:  # chosen by platform: other platforms' branches may not lower on this one
        return ctx.inline(branches[min(max(int(static_index), 0), len(branches) - 1)], operands)
    types = [lowering.mlir.type_of(a) for a in branches[0].out_avals]
    return ctx.case(index, [lambda inner, b=b: inner.inline(b, operands) for b in branches], types,
                    lowering.module.ordered_effects(*branches))


def _types(index: Aval, *avals: Aval, branches: Sequence[Jaxpr], **_: Any) -> list[Aval]:
    if not any([a.vma for a in avals]):
        return branches[0].out_avals
    return [found[0].update(vma=frozenset().union(*[a.vma for a in found])) for found in zip(*[b.out_avals for b in branches])]


def _bind(index: Any, operands: Sequence[Any], branches: Sequence[Jaxpr], platforms: Params) -> list[Any]:
    branches, refs = references_as_inputs(branches, 0)
    return cond_p.bind(index, *refs, *operands, branches=branches, **platforms)


def _active_in_any(branches: Sequence[Jaxpr], active: Marks) -> tuple[bool, ...]:
    """Return which results have a tangent in some branch."""
    flags = [active_results(b.structure, active) for b in branches]
    return tuple(map(any, zip(*flags)))


def _jvp(primals: Sequence[Any], tangents: Sequence[Tangent], *, branches: tuple[Jaxpr, ...], **platforms: Any
         ) -> tuple[list[Any], list[Tangent]]:
    index, *operands = primals
    active = tuple(type(t) is not Zero for t in tangents[1:])
    instantiated = _active_in_any(branches, active)
    jvp_branches = tuple(jvp_program(b, active, instantiated)[0] for b in branches)
    results = _bind(index, [*operands, *[t for t, a in zip(tangents[1:], active) if a]], jvp_branches, platforms)
    count = len(instantiated)
    tangents_out = iter(results[count:])
    return results[:count], [next(tangents_out) if nonzero else Zero(a.to_tangent_aval())
                             for nonzero, a in zip(instantiated, branches[0].out_avals)]


def _shared_layout(values: Sequence[Sequence[Aval]]) -> tuple[list[Aval], list[list[int]]]:
    """Return a list of types with a slot for each value of every branch, and the slots of each branch's values. Values of
    different branches share a slot if their types agree."""
    layout: list[Aval] = []
    slots: list[list[int]] = []
    for avals in values:
        free = list(range(len(layout)))
        branch_slots = []
        for aval in avals:
            slot = next((i for i in free if same_type(layout[i], aval)), None)
            if slot is None:
                slot = len(layout)
                layout.append(aval.update(weak_type=False))
            else:
                free.remove(slot)
            branch_slots.append(slot)
        slots.append(branch_slots)
    return layout, slots


def _return_in_layout(branch: Jaxpr, count: int, slots: Sequence[int], layout: Sequence[Aval]) -> Jaxpr:
    """Return the branch whose results after the first `count` fill their slots of the layout; the other slots are zeros."""
    def padded(*args: Any) -> list[Any]:
        results = branch(*args)
        padding: list[Any] = [None] * len(layout)
        for slot, x in zip(slots, results[count:]):
            padding[slot] = x
        return [*results[:count], *[instantiate(Zero(a)) if x is None else x for x, a in zip(padding, layout)]]

    padded_program = tracing.trace_to_closed_jaxpr(padded, branch.in_avals, branch.debug_info)
    return with_weak_types(padded_program, [*branch.out_avals[:count], *layout])


def _take_from_layout(branch: Jaxpr, own: Sequence[Var], rest: Sequence[Var], slots: Sequence[int],
                      layout: Sequence[Aval]) -> Jaxpr:
    """Return the branch that takes the values of all slots of the layout, then `rest`; `own` are the inputs in its slots."""
    inputs_by_slot = dict(zip(slots, own))
    invars = [inputs_by_slot.get(i) or Var(a) for i, a in enumerate(layout)]
    return branch.replace(invars=[*invars, *rest])


class _LinearizedBranches:
    """The branches of a `cond` split for linearization, with one layout of residuals for all."""

    def __init__(self, branches: tuple[Jaxpr, ...], active: tuple[bool, ...]) -> None:
        self.nonzero = _active_in_any(branches, active)
        splits = [linearize_program(b, active, self.nonzero) for b in branches]
        count = len(branches[0].out_avals)
        layout, slots = _shared_layout([split.forward.out_avals[count:] for split in splits])
        self.operand_residuals = sorted({k for split in splits for k in split.forwarded_inputs if k is not None})
        self.forward = tuple(_return_in_layout(split.forward, count, branch_slots, layout)
                             for split, branch_slots in zip(splits, slots))
        self.linear = tuple(self._linear(split, branch_slots, layout, branches[0].in_avals)
                            for split, branch_slots in zip(splits, slots))

    def _linear(self, linearized: LinearizedJaxpr, branch_slots: Sequence[int], layout: Sequence[Aval],
                in_avals: Sequence[Aval]) -> Jaxpr:
        """Return the linear branch `(computed residuals, operand residuals, tangents) -> tangents`."""
        invars = linearized.linear.invars
        residual_vars = list(zip(invars, linearized.forwarded_inputs))
        operands = {k: Var(in_avals[k]) for k in self.operand_residuals} | {k: v for v, k in residual_vars if k is not None}
        return _take_from_layout(linearized.linear, [v for v, k in residual_vars if k is None],
                                 [*[operands[k] for k in self.operand_residuals], *invars[len(linearized.forwarded_inputs):]],
                                 branch_slots, layout)


def _linearize(primals: Sequence[Any], tangents: Sequence[Tangent], *, branches: tuple[Jaxpr, ...],
               **platforms: Any) -> tuple[list[Any], list[Tangent]]:
    index, *operands = primals
    active = tuple(type(t) is not Zero for t in tangents[1:])
    split = branches[0].memoised_with(branches[1:], ("linearized branches", active),
                                      lambda: _LinearizedBranches(branches, active))
    outputs = _bind(index, operands, split.forward, platforms)
    count = len(split.nonzero)
    results, residuals = outputs[:count], outputs[count:]
    if any(split.nonzero):
        tangents_out = iter(_bind(index, [*residuals, *[operands[k] for k in split.operand_residuals],
                                          *[t for t, a in zip(tangents[1:], active) if a]], split.linear, platforms))
    else:
        tangents_out = iter(())
    return results, [next(tangents_out) if k else Zero(a.to_tangent_aval())
                     for k, a in zip(split.nonzero, branches[0].out_avals)]


def _transpose(cts: Sequence[Tangent], index: Any, *operands: Any, branches: tuple[Jaxpr, ...], **platforms: Any
               ) -> list[Any]:
    linear = tuple(is_undefined(x) for x in operands)
    has_ct = tuple(type(ct) is not Zero for ct in cts)
    cts = convert_cotangents(cts, branches[0].out_avals)
    each = [transpose_program(b, linear, has_ct, True) for b in branches]
    transposed = tuple(t.jaxpr for t in each)
    if any([t.logs.num_leaves for t in each]):
        transposed = _with_logs_of_all(transposed, sum(linear))
    transposed = tuple(with_weak_types(p, transposed[0].out_avals) for p in transposed)
    in_cts = iter(_bind(index, [*[x for x in operands if not is_undefined(x)], *[ct for ct in cts if type(ct) is not Zero]],
                        transposed, platforms))
    results = [None, *[next(in_cts) if lin else None for lin in linear]]
    logs = [t.logs.unflatten([next(in_cts) for _ in range(t.logs.num_leaves)]) for t in each]
    backward_logs.record({name: CondSum(index, [b.get(name) for b in logs]) for b in logs for name in b}, "cond")
    return results


class CondSum(NamedTuple):
    """The log of a branch: the index of the branch that was taken, and a value for each branch.

    Values of branches that were not taken are zeros; those of branches without the log are None.
    """

    index: Any
    branches: list[Any]


def _with_logs_of_all(branches: Sequence[Jaxpr], num_cts: int) -> tuple[Jaxpr, ...]:
    """Return transposed branches that return the logs of all branches, zeros for those of others."""
    log_avals = [b.out_avals[num_cts:] for b in branches]

    def with_zeros(position: int, branch: Jaxpr) -> Jaxpr:
        def run(*args: Any) -> list[Any]:
            found = branch(*args)
            return [*found[:num_cts], *[x for i, avals in enumerate(log_avals) for x in (
                found[num_cts:] if i == position else map(zeros_of, avals))]]

        return tracing.trace_to_closed_jaxpr(run, branch.in_avals, branch.debug_info)

    return tuple([with_zeros(i, b) for i, b in enumerate(branches)])


def _batch(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, branches: tuple[Jaxpr, ...], **platforms: Any
           ) -> tuple[list[Any], list[int | None]]:
    select = ELEMENTWISE["select_n"]
    size, split = trace.size, split_of(operands, dims)
    (index, *values), (index_dim, *value_dims) = operands, dims
    if index_dim is None:
        in_dims = tuple(value_dims)
        flags = [batch_program(b, in_dims, trace, split=split)[1] for b in branches]
        batched = tuple(any(d is not None for d in ds) for ds in zip(*flags))
        batched_branches = tuple(batch_program(b, in_dims, trace, batched, split=split)[0] for b in branches)
        return _bind(index, values, batched_branches, platforms), [0 if b else None for b in batched]
    # Elements take different branches: run all branches and select. Operands of branches not taken by an element go through
    # stop_gradient, so that a NaN derivative in an untaken branch does not reach the result.
    index = place_axis(index, index_dim, 0, size, split)
    values = [place_axis(x, d, 0, size, split) for x, d in zip(values, value_dims)]

    def broadcast_mask(mask: Any, x: Any) -> Any:
        return mask if np.ndim(x) == 1 else broadcast_in_dim_p.bind(
            mask, shape=np.shape(x), broadcast_dimensions=(0,), sharding=None)

    in_dims = (0,) * len(values)
    all_batched = (True,) * len(branches[0].out_avals)
    results = []
    for i, branch in enumerate(branches):
        chosen = eq(index, np.asarray(i, tracing.aval_of(index).dtype)[()])
        branch_values = [select.bind(broadcast_mask(chosen, x), stop_gradient(x), x)
                         if dtypes.is_inexact(tracing.aval_of(x).dtype) else x
                         for x in values]
        results.append(batch_program(branch, in_dims, trace, all_batched, split=split)[0](*branch_values))
    if len(branches) == 1:
        return results[0], [0] * len(all_batched)
    last = np.asarray(len(branches) - 1, tracing.aval_of(index).dtype)[()]
    if len(branches) == 2:
        index = eq(index, last)
    return [select.bind(broadcast_mask(index, xs[0]), *xs) for xs in zip(*results)], [0] * len(all_batched)


def _dce(used: list[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    branches = eqn.params["branches"]
    if not any(used) and not any(keeps_alive(b.effects) for b in branches):
        return None
    flags = [dce_closed(b, used)[1] for b in branches]
    live_in = [any(marks) for marks in zip(*flags)]
    if all(live_in) and all(used):
        return eqn
    pruned = tuple(dce_closed(b, used, live_in)[0] for b in branches)
    return eqn.replace(invars=[eqn.invars[0], *[v for v, live in zip(eqn.invars[1:], live_in) if live]],
                       outvars=[v for v, used_out in zip(eqn.outvars, used) if used_out], params=eqn.params
                       | {"branches": pruned})


def _depends(operands: Marks, *, branches: Sequence[Jaxpr], **_: Any) -> list[bool]:
    """Return which results depend on the marked operands; all depend on the branch index."""
    return [operands[0] or any(flags) for flags in zip(*[dependent_results(b.structure, operands[1:]) for b in branches])]


def _key_use(eqn: JaxprEqn, use_of_program: Callable) -> tuple[list[tuple[int, Any]], list[Any]]:
    """Merge the key uses of the branches: a key spent by any branch counts as spent."""
    from xlafront.checks.key_use import together  # start-up: only with the setting

    uses = [use_of_program(b.structure) for b in eqn.params["branches"]]
    spent: dict[int, Any] = {}  # only one branch runs: the same key may be spent in each of them
    for spends, _ in uses:
        for i, part in spends:
            spent[i + 1] = together(spent.get(i + 1, False), part)
    results: list[int | str] = []
    for branch_results in zip(*[results for _, results in uses]):
        forwarded = [i + 1 for i in branch_results if isinstance(i, int)]
        results.append("spent" if "spent" in branch_results else "new" if "new" in branch_results else forwarded[0])
    return [*spent.items()], results


def _split(eqn: JaxprEqn, policy: Any) -> tuple[JaxprEqn, JaxprEqn, list[Var]] | None:
    """Split a cond under a checkpoint policy: saved values become results that the recomputing cond takes."""
    branches = eqn.params["branches"]
    splits = [b.memoised(("split", policy), lambda b=b: split_inside(b, policy)) for b in branches]
    if eqn.effects or not any(split.num_saved for split in splits):
        return None
    count = len(eqn.outvars)
    layout, slots = _shared_layout([split.first.out_avals[count:] for split in splits])
    first = tuple(_return_in_layout(split.first, count, branch_slots, layout) for split, branch_slots in zip(splits, slots))
    recompute = tuple(_take_from_layout(split.recompute, split.recompute.invars[:split.num_saved],
                                        split.recompute.invars[split.num_saved:], branch_slots, layout)
                      for split, branch_slots in zip(splits, slots))
    saved = [Var(a) for a in layout]
    return (eqn.replace(outvars=[*eqn.outvars, *saved], params=eqn.params | {"branches": first}),
            eqn.replace(invars=[eqn.invars[0], *saved, *eqn.invars[1:]], params=eqn.params | {"branches": recompute}), saved)


def _steps(run: Callable, operands: Sequence[Any], params: Params) -> None:
    branches = params["branches"]
    run(branches[min(max(int(operands[0]), 0), len(branches) - 1)], *operands[1:])


cond_p = Primitive(
    "cond", multiple_results=True, abstract=_types, lower=_lower, jvp=_jvp, transpose=_transpose,
    effects=lambda *_, branches, **__: frozenset().union(*[effects_by_operand(b, 1) for b in branches]),
    impl=lambda *args, **params: evaluate(cond_p, args, params, params["branches"][0]), batch_with_axis=_batch,
    structured=Structured(
        linearize=_linearize, dce=_dce, partial_eval=_split, discharge=discharge_cond, depends=_depends,
        active_outputs=lambda operands, *, branches, **_: _active_in_any(branches, operands[1:]), debug_steps=_steps),
    traits=Traits(memoise=False, key_use=_key_use))


# Public

_missing = object()


@boundary
def cond(pred: ArrayLike, true_fun: Callable[..., _R], false_fun: Callable[..., _R], *operands: Any, operand: Any = _missing
         ) -> _R:
    """Apply one of two functions to the operands, depending on a predicate.

    Both functions are traced and must return the same types; only the chosen one runs. Under `vmap` with a batched predicate,
    both run.

    Args:
        pred: Predicate, a boolean or numeric scalar.
        true_fun: Function to apply if `pred` is true.
        false_fun: Function to apply if `pred` is false.
        operands: Arguments of the functions, pytrees of arrays.
        operand: The only argument, as an alternative to `operands`.

    Returns:
        The result of the chosen function.

    Example:
        >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 5)
        Array(6, dtype=int32, weak_type=True)
    """
    if operand is not _missing:
        if operands:
            raise TypeError("cond takes its operands by position, or one as operand=, not both.")
        operands = (operand,)
    if not callable(true_fun) and len(operands) == 2 and callable(false_fun) and callable(operands[1]):
        # The form with an operand for each branch: cond(pred, true_operand, true_fun, false_operand, false_fun).
        true_operand, true_branch, (false_operand, false_branch) = true_fun, false_fun, operands
        true_fun, false_fun = (lambda x, y: true_branch(x)), (lambda x, y: false_branch(y))
        operands = (true_operand, false_operand)
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError("cond takes two functions (callables) after the predicate: cond(pred, true_fun, false_fun, *operands).")
    if not tracing.is_arraylike(pred):
        raise TypeError("cond takes a scalar, a boolean or a number, as its predicate; the predicate is "
                        f"{errors.short(pred)}, of type {type(pred).__name__}.")
    aval = tracing.aval_of(pred)
    if aval.shape:
        raise TypeError(f"cond takes a scalar as its predicate, got an array of type {aval}. Reduce it with numpy.any or "
                        f"numpy.all, or choose element by element with numpy.where or vmap.")
    if not (aval.dtype == dtypes.bool_ or dtypes.is_integer(aval.dtype) or dtypes.is_float(aval.dtype)):
        raise TypeError(f"cond takes a scalar, a boolean or a number, as its predicate; the predicate is of type {aval}.")
    if config.disable_jit.value and (value := _concrete(pred)) is not None:
        return (true_fun if value else false_fun)(*operands)
    if aval.dtype != dtypes.bool_:
        pred = ne(pred, aval.dtype.type(0))
    return _bind_branches("cond", _as_int32(pred), (false_fun, true_fun), ("false_fun", "true_fun"), operands, first=1)


@boundary
def switch(index: ArrayLike, branches: Sequence[Callable[..., _R]], *operands: Any, operand: Any = _missing) -> _R:
    """Apply one of several functions to the operands, depending on an index.

    All functions are traced and must return the same types; only the chosen one runs.

    Args:
        index: Index of the function, an integer scalar. It is clamped to the valid range.
        branches: Sequence of functions.
        operands: Arguments of the functions, pytrees of arrays.
        operand: The only argument, as an alternative to `operands`.

    Returns:
        The result of the chosen function.

    Example:
        >>> lax.switch(1, [lambda x: x, lambda x: -x], 2)
        Array(-2, dtype=int32, weak_type=True)
    """
    if operand is not _missing:
        if operands:
            raise TypeError("switch takes its operands by position, or one as operand=, not both.")
        operands = (operand,)
    branches = tuple(branches)
    if not branches:
        raise ValueError("switch got an empty sequence of branches; it needs at least one branch.")
    if not all(callable(b) for b in branches):
        raise TypeError("switch takes a sequence of functions (callables): switch(index, branches, *operands).")
    if not tracing.is_arraylike(index):
        raise TypeError(f"switch takes an integer scalar as its index; the branch index is {errors.short(index)}, of type "
                        f"{type(index).__name__}.")
    aval = tracing.aval_of(index)
    if aval.shape:
        raise TypeError(f"switch takes an integer scalar as its index; the branch index must be scalar, and is of type {aval}.")
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"switch takes an integer scalar as its index; the index type is {aval}. Convert it with astype(int).")
    if len(branches) == 1:
        return branches[0](*operands)
    if config.disable_jit.value and (value := _concrete(index)) is not None:
        return branches[min(max(int(value), 0), len(branches) - 1)](*operands)
    index = clamp(np.int32(0), _as_int32(index), np.int32(len(branches) - 1))
    return _bind_branches("switch", index, branches, [f"branches[{i}]" for i in range(len(branches))], operands)


def _concrete(x: Any) -> Any:
    return x._concrete() if isinstance(x, tracing.Tracer) else x


def _as_int32(x: Any) -> Any:
    aval = tracing.aval_of(x)
    if aval.dtype == np.int32 and not aval.weak_type:
        return x
    if not isinstance(x, tracing.Tracer) and aval.dtype.kind in "iub" and isinstance(x, (bool, int, np.generic)):
        return np.int32(x)
    return convert_element_type_p.bind(x, new_dtype=np.dtype(np.int32), weak_type=False, sharding=None)


def _bind_branches(name: str, index: Any, functions: Sequence[Callable], branch_names: Sequence[str], operands: tuple,
                   first: int = 0, **platforms: Any) -> Any:
    """Trace the branches and bind `cond_p`. The branch `first` is traced before the others, because tracing may have side
    effects, such as creating the parameters of a layer."""
    leaves, in_tree = tree.flatten(operands)
    values = operands_of(leaves, name, operands)
    avals = [tracing.aval_of(x) for x in values]
    traced_functions: dict[int, tuple] = {}  # trace a function once even if it is several branches
    for f in (functions[first], *functions):
        if id(f) not in traced_functions:
            traced_functions[id(f)] = trace_function(f, in_tree, avals, name)
    jaxprs, consts, trees = zip(*[traced_functions[id(f)] for f in functions])
    jaxprs = _sharded_alike(jaxprs)
    results = join_branches(name, jaxprs, trees, functions, branch_names)
    jaxprs, all_consts = merge_constants(jaxprs, consts)
    jaxprs = [with_weak_types(jaxpr, results) for jaxpr in jaxprs]
    operands = [*all_consts, *values]
    axes = tracing.aval_of(index).vma
    if axes:  # devices take different branches: vary the operands here, so that derivatives need no collectives in a branch
        jaxprs, operands = [on_varying(jaxpr, axes) for jaxpr in jaxprs], [vary(x, axes) for x in operands]
    forwarded = _forwarded_operands(jaxprs)
    if any([i is not None for i in forwarded]):
        computed = tuple([o for o, i in enumerate(forwarded) if i is None])
        branches = tuple([jaxpr.memoised(("results", computed),
                                               lambda jaxpr=jaxpr: reorder(jaxpr, None, computed))
                          for jaxpr in jaxprs])
        must_bind = computed or any([keeps_alive(jaxpr.effects) for jaxpr in jaxprs])
        computed_results = iter(cond_p.bind(index, *operands, branches=branches, **platforms) if must_bind else ())
        return trees[0].unflatten([next(computed_results) if i is None else as_array(operands[i]) for i in forwarded])
    return trees[0].unflatten(cond_p.bind(index, *operands, branches=tuple(jaxprs), **platforms))


def _forwarded_operands(jaxprs: Sequence[Jaxpr]) -> list[int | None]:
    """Return for each result the index of the operand that all branches forward to it, or None."""
    positions = [{v: i for i, v in enumerate(jaxpr.invars)} for jaxpr in jaxprs]
    forwarded = [[None if type(v) is Literal else position.get(v) for v in jaxpr.outvars]
                 for jaxpr, position in zip(jaxprs, positions)]
    return [operands[0] if operands.count(operands[0]) == len(operands) else None for operands in zip(*forwarded)]


def _sharded_alike(jaxprs: Sequence[Jaxpr]) -> Sequence[Jaxpr]:
    """Outside of any mesh context, return branches of which the results without a mesh are sharded as those of another."""
    if len({len(p.out_avals) for p in jaxprs}) > 1 or not active.abstract_mesh().empty:
        return jaxprs
    shardings = [next((s for a in avals if (s := a.explicit_sharding) is not None), None)
                 for avals in zip(*[p.out_avals for p in jaxprs])]
    if not any(shardings):
        return jaxprs

    def sharded(jaxpr: Jaxpr) -> Jaxpr:
        targets = tuple([None if s is None or a.explicit_sharding is not None or a.ndim != len(s.spec.partitions) else s
                         for a, s in zip(jaxpr.out_avals, shardings)])
        if not any(targets):
            return jaxpr
        return tracing.derive(jaxpr, ("sharded results", targets), lambda *xs: [
            x if s is None else reshard_p.bind(x, dst_sharding=s) for x, s in zip(jaxpr(*xs), targets)])

    return [sharded(jaxpr) for jaxpr in jaxprs]


def join_branches(context: str, jaxprs: Sequence[Jaxpr], trees: Sequence[Any], functions: Sequence[Callable],
                  names: Sequence[str]) -> list[Aval]:
    """Check that the result types agree and return them; weak types are those of the first branch."""
    first = jaxprs[0].out_avals
    for jaxpr, out_tree, f, name in zip(jaxprs[1:], trees[1:], functions[1:], names[1:]):
        if out_tree != trees[0]:
            returned = [t.unflatten(p.out_avals) for t, p in ((trees[0], jaxprs[0]), (out_tree, jaxpr))]
            raise TypeError(errors.in_lines(
                f"{context} branch outputs must have the same pytree structure, but they differ "
                f"{tree.first_difference(returned[0], returned[1], (names[0], name))}.",
                f"{_described(names[0], functions[0])} returns {_shown(returned[0])},",
                f"{_described(name, f)} returns {_shown(returned[1])}.", "Return the same structure from both."))
        lines = type_mismatches("result", first, jaxpr.out_avals, lambda i: tree.path_of(
            tree.leaf_indices(trees[0]), i), f"from {names[0]}", f"from {name}", not is_internal(f))
        if lines:
            raise TypeError(errors.in_lines(
                f"{context} needs branches with equal output types, but {'; '.join(lines)}.",
                f"The branches are {_described(names[0], functions[0])} and {_described(name, f)}.",
                "Convert with astype, or give Python scalars as arrays."))
    return [a.update(vma=frozenset().union(*[p.out_avals[i].vma for p in jaxprs])) for i, a in enumerate(first)]


def _described(name: str, f: Callable) -> str:
    code, _ = signatures.code_of(f)
    where = source.at_position(code.co_filename, code.co_firstlineno) if code is not None else ""
    return f"{name} ({signatures.function_name(f)}{where})"


def _shown(types: Any) -> str:
    """Return a pytree of types as text, `{'a': float32[3]}`."""
    return errors.short(tree.map(_Shown, types))


class _Shown:
    """A type whose repr is its short form."""

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return self.aval.str_short()


def merge_constants(jaxprs: Sequence[Jaxpr], consts: Sequence[list]) -> tuple[list[Jaxpr], list]:
    """Return jaxprs that all take the union of the closed-over values as leading operands, and those values."""
    merged = {tracing.value_id(c): c for values in consts for c in values}
    if not merged:
        return list(jaxprs), []
    order = {key: i for i, key in enumerate(merged)}
    avals = [tracing.aval_of(c) for c in merged.values()]
    extended = []
    for jaxpr, values in zip(jaxprs, consts):
        positions = tuple(order[tracing.value_id(c)] for c in values)

        def make(jaxpr: Jaxpr = jaxpr, positions: tuple[int, ...] = positions, values: list[Any] = values) -> Jaxpr:
            leading = [Var(a) for a in avals]
            for i, v in zip(positions, jaxpr.invars):
                leading[i] = v
            return jaxpr.replace(invars=[*leading, *jaxpr.invars[len(values):]])

        extended.append(jaxpr.memoised(("branch constants", positions, tuple(avals)), make))
    return extended, list(merged.values())


# By platform


def _platform_index_lower(ctx: Any, *, platforms: tuple[tuple[str, ...] | None, ...]) -> Any:
    return ctx.constant(np.int32(_branch_for(ctx.platform, platforms)))


def _branch_for(platform: str, platforms: tuple[tuple[str, ...] | None, ...]) -> int:
    """Return the index of the branch for a platform; None in `platforms` stands for all platforms."""
    for i, names in enumerate(platforms):
        if names is None or platform in names or platform in ("cuda", "rocm") and "gpu" in names:
            return i
    raise NotImplementedError(f"platform_dependent has no function for {platform}, and no default.")


platform_index_p = Primitive("platform_index", lower=_platform_index_lower,
                             abstract=lambda *, platforms: ShapedArray((), np.dtype(np.int32)))


@boundary
def platform_dependent(*args: Any, default: Callable[..., _R] | None = None, **per_platform: Callable[..., _R]) -> _R:
    """Apply the function for the platform that the computation is compiled for.

    All functions are traced and must return the same types.

    Args:
        args: Arguments of the functions, pytrees of arrays.
        default: Function for all other platforms. Default: other platforms raise an error.
        per_platform: Functions by platform name: `cpu=`, `cuda=`, `rocm=`, `tpu=`.

    Returns:
        The result of the chosen function.

    Example:
        >>> lax.platform_dependent(2.0, tpu=lambda x: -x, default=lambda x: x)
        2.0
    """
    if "gpu" in per_platform:
        raise ValueError("platform_dependent takes functions by platform name, and 'gpu' names two platforms: pass cuda= or "
                         "rocm=, or both with the same function.")
    platforms: dict[Callable, tuple[str, ...] | None] = {}  # platforms with the same function share a branch
    for name, function in per_platform.items():
        platforms[function] = (*(platforms.get(function) or ()), name)
    if default is not None:
        platforms.pop(default, None)
        platforms[default] = None
    if list(platforms) == [default]:
        return default(*args)
    if _is_eager():
        branch = _branch_for(_platform_of(args), tuple(platforms.values()))
        return list(platforms)[branch](*args)
    branch_platforms = tuple(platforms.values())
    names = ["default" if names is None else " and ".join(names) for names in branch_platforms]
    return _bind_branches("platform_dependent", platform_index_p.bind(platforms=branch_platforms), list(platforms), names, args,
                          branches_platforms=branch_platforms)


def _is_eager() -> bool:
    """True if no trace stages equations: the platform of execution is then known."""
    trace = tracing.thread.trace
    while trace is not tracing.eval_trace:
        if isinstance(trace, tracing.StagingTrace):
            return False
        trace = trace.parent
    return True


def _platform_of(args: Any) -> str:
    """Return the platform on which eager operations on these arguments run."""
    for x in tree.leaves(args):
        while isinstance(x, tracing.Tracer) and (value := x._concrete()) is not None:
            x = value
        if isinstance(x, ArrayImpl):
            return backends.lowering_platform(next(iter(x.devices())).client)
    return backends.lowering_platform(backends.default_device().client)
