"""`cond`, `switch` and `platform_dependent`: one of several programs, chosen while the compiled program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.control.discharge_rules import discharge_cond
from xlafront.core import backends, dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import (
    ClosedJaxpr,
    Literal,
    Var,
    dce_closed,
    dependent_results,
    effects_by_operand,
    jaxpr_as_fun,
    keeps_alive,
)
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.typing import ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE, convert_element_type_p, eq, ne
from xlafront.lax.elementwise_functions import clamp
from xlafront.lax.shapes import broadcast_in_dim_p, place_axis
from xlafront.lax.zeros import instantiate
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging import signatures
from xlafront.transforms.ad.arguments import as_array
from xlafront.transforms.ad.checkpoint import split_inside
from xlafront.transforms.ad.jvp import jvp_program
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.ad.transpose import of_dtypes, transpose_program
from xlafront.transforms.batching.vmap import batch_program
from xlafront.transforms.calls.programs import (
    active_results,
    evaluate,
    of_library,
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

# The operation: its operands are the number of the branch and what all branches take. Where the platform chooses, its parameter
# `branches_platforms` says for which platforms each branch is.


def _lower(ctx, index, *operands, branches, **_):
    known = lowering.mlir.constant_value(index)
    if known is not None:  # the platform: what is for others may not be possible on this one
        return ctx.inline(branches[min(max(int(known), 0), len(branches) - 1)], operands)
    types = [lowering.mlir.type_of(a) for a in branches[0].out_avals]
    return ctx.case(index, [lambda inner, b=b: inner.inline(b, operands) for b in branches], types,
                    lowering.module.ordered_effects(*branches))


def _types(index, *avals, branches, **_):
    if not any([a.vma for a in avals]):
        return branches[0].out_avals
    return [found[0].update(vma=frozenset().union(*[a.vma for a in found])) for found in zip(*[b.out_avals for b in branches])]


def _bind(index, operands: Sequence[Any], branches: Sequence[ClosedJaxpr], platforms: dict[str, Any]) -> list:
    branches, refs = references_as_inputs(branches, 0)
    return cond_p.bind(index, *refs, *operands, branches=branches, **platforms)


def _same_for_all(branches, active) -> tuple[bool, ...]:
    """Which results have a tangent in some branch."""
    flags = [active_results(b.jaxpr, active) for b in branches]
    return tuple(map(any, zip(*flags)))


def _jvp(primals, tangents, *, branches, **platforms):
    index, *operands = primals
    active = tuple(type(t) is not Zero for t in tangents[1:])
    kept = _same_for_all(branches, active)
    programs = tuple(jvp_program(b, active, kept)[0] for b in branches)
    results = _bind(index, [*operands, *[t for t, a in zip(tangents[1:], active) if a]], programs, platforms)
    count = len(kept)
    moved = iter(results[count:])
    return results[:count], [next(moved) if k else Zero(a.to_tangent_aval()) for k, a in zip(kept, branches[0].out_avals)]


def _shared_layout(values: Sequence[Sequence[Any]]) -> tuple[list[Any], list[list[int]]]:
    """One list of types with room for the values of each branch, and where they are in it.

    Values of different branches share a place when they have the same type.
    """
    layout: list[Any] = []
    places: list[list[int]] = []
    for avals in values:
        free = list(range(len(layout)))
        mine = []
        for aval in avals:
            spot = next((i for i in free if same_type(layout[i], aval)), None)
            if spot is None:
                spot = len(layout)
                layout.append(aval.update(weak_type=False))
            else:
                free.remove(spot)
            mine.append(spot)
        places.append(mine)
    return layout, places


def _giving(program: ClosedJaxpr, count: int, mine: Sequence[int], layout: Sequence[Any]) -> ClosedJaxpr:
    """The branch that returns, after its first `count` results, the others in the common layout, with zeros between."""
    def padded(*args):
        found = jaxpr_as_fun(program)(*args)
        others: list[Any] = [None] * len(layout)
        for spot, x in zip(mine, found[count:]):
            others[spot] = x
        return [*found[:count], *[instantiate(Zero(a)) if x is None else x for x, a in zip(others, layout)]]

    padded_program = tracing.trace_to_closed_jaxpr(padded, program.in_avals, program.debug_info)
    return with_weak_types(padded_program, [*program.out_avals[:count], *layout])


def _taking(program: ClosedJaxpr, own: Sequence[Var], rest: Sequence[Var], mine: Sequence[int], layout) -> ClosedJaxpr:
    """The branch whose inputs `own` are where they are in the common layout, and before `rest`."""
    at = dict(zip(mine, own))
    invars = [at.get(i) or Var(a) for i, a in enumerate(layout)]
    return ClosedJaxpr(program.jaxpr.replace(invars=[*invars, *rest]), program.consts)


class _LinearizedBranches:
    """The branches of a `cond` in the halves that linearisation needs, with residuals of one layout for all of them."""

    def __init__(self, branches: tuple[ClosedJaxpr, ...], active):
        self.kept = _same_for_all(branches, active)
        splits = [linearize_program(b, active, self.kept) for b in branches]
        count = len(branches[0].out_avals)
        layout, places = _shared_layout([split.forward.out_avals[count:] for split in splits])
        self.known = sorted({k for split in splits for k in split.known if k is not None})
        self.forward = tuple(_giving(split.forward, count, mine, layout) for split, mine in zip(splits, places))
        self.linear = tuple(self._linear(split, mine, layout, branches[0].in_avals) for split, mine in zip(splits, places))

    def _linear(self, split, mine, layout, in_avals) -> ClosedJaxpr:
        """`(residuals, operands that are residuals, tangents) -> tangents`."""
        invars = split.linear.jaxpr.invars
        given = list(zip(invars, split.known))
        operands = {k: Var(in_avals[k]) for k in self.known} | {k: v for v, k in given if k is not None}
        return _taking(split.linear, [v for v, k in given if k is None],
                       [*[operands[k] for k in self.known], *invars[len(split.known):]], mine, layout)


def _linearize(primals, tangents, *, branches, **platforms):
    index, *operands = primals
    active = tuple(type(t) is not Zero for t in tangents[1:])
    split = branches[0].jaxpr.memoised_with([b.jaxpr for b in branches[1:]], ("linearized branches", active),
                                            lambda: _LinearizedBranches(branches, active))
    found = _bind(index, operands, split.forward, platforms)
    count = len(split.kept)
    results, residuals = found[:count], found[count:]
    if any(split.kept):
        moved = iter(_bind(index, [*residuals, *[operands[k] for k in split.known],
                                   *[t for t, a in zip(tangents[1:], active) if a]], split.linear, platforms))
    else:
        moved = iter(())
    return results, [next(moved) if k else Zero(a.to_tangent_aval()) for k, a in zip(split.kept, branches[0].out_avals)]


def _transpose(cts, index, *operands, branches, **platforms):
    linear = tuple(is_undefined(x) for x in operands)
    given = tuple(type(ct) is not Zero for ct in cts)
    cts = of_dtypes(cts, branches[0].out_avals)
    programs = tuple(transpose_program(b, linear, given, True)[0] for b in branches)
    programs = tuple(with_weak_types(p, programs[0].out_avals) for p in programs)
    found = iter(_bind(index, [*[x for x in operands if not is_undefined(x)], *[ct for ct in cts if type(ct) is not Zero]],
                       programs, platforms))
    return [None, *[next(found) if lin else None for lin in linear]]


def _batch(trace, operands, dims, *, branches, **platforms):
    select = ELEMENTWISE["select_n"]
    size = trace.size
    (index, *values), (index_dim, *value_dims) = operands, dims
    if index_dim is None:
        marks = tuple(value_dims)
        flags = [batch_program(b, marks, trace)[1] for b in branches]
        batched = tuple(any(d is not None for d in ds) for ds in zip(*flags))
        programs = tuple(batch_program(b, marks, trace, batched)[0] for b in branches)
        return _bind(index, values, programs, platforms), [0 if b else None for b in batched]
    # Elements take different branches: all of them run, and of each the result of its own is chosen. What an element
    # gives to the other branches has no derivative, so that theirs cannot spoil its own.
    index = place_axis(index, index_dim, 0, size)
    values = [place_axis(x, d, 0, size) for x, d in zip(values, value_dims)]

    def along(mask, x):
        return mask if np.ndim(x) == 1 else broadcast_in_dim_p.bind(
            mask, shape=np.shape(x), broadcast_dimensions=(0,), sharding=None)

    marks = (0,) * len(values)
    every = (True,) * len(branches[0].out_avals)
    found = []
    for i, branch in enumerate(branches):
        chosen = eq(index, np.asarray(i, tracing.aval_of(index).dtype)[()])
        own = [select.bind(along(chosen, x), stop_gradient(x), x) if dtypes.is_inexact(tracing.aval_of(x).dtype) else x
               for x in values]
        found.append(jaxpr_as_fun(batch_program(branch, marks, trace, every)[0])(*own))
    if len(branches) == 1:
        return found[0], [0] * len(every)
    last = np.asarray(len(branches) - 1, tracing.aval_of(index).dtype)[()]
    if len(branches) == 2:
        index = eq(index, last)
    return [select.bind(along(index, xs[0]), *xs) for xs in zip(*found)], [0] * len(every)


def _dce(used, eqn):
    branches = eqn.params["branches"]
    if not any(used) and not any(keeps_alive(b.effects) for b in branches):
        return None
    flags = [dce_closed(b, used)[1] for b in branches]
    kept = [any(marks) for marks in zip(*flags)]
    if all(kept) and all(used):
        return eqn
    programs = tuple(dce_closed(b, used, kept)[0] for b in branches)
    return eqn.replace(invars=[eqn.invars[0], *[v for v, k in zip(eqn.invars[1:], kept) if k]],
                       outvars=[v for v, u in zip(eqn.outvars, used) if u], params=eqn.params | {"branches": programs})


def _depends(operands, *, branches, **_):
    """Also on the choice of the branch."""
    return [operands[0] or any(flags) for flags in zip(*[dependent_results(b.jaxpr, operands[1:]) for b in branches])]


def _key_use(eqn, use_of_program):
    """A branch may spend what the others do not; a key counts as spent all the same."""
    from xlafront.core.key_use import together  # start-up: only with the setting

    uses = [use_of_program(b.jaxpr) for b in eqn.params["branches"]]
    spent: dict[int, Any] = {}  # one of the branches is taken: what each of them spends is spent once
    for spends, _ in uses:
        for i, part in spends:
            spent[i + 1] = together(spent.get(i + 1, False), part)
    results: list[int | str] = []
    for found in zip(*[results for _, results in uses]):
        handed = [i + 1 for i in found if isinstance(i, int)]
        results.append("spent" if "spent" in found else "new" if "new" in found else handed[0])
    return [*spent.items()], results


def _split(eqn, policy):
    """Under a checkpoint policy: what it saves inside of the branches becomes results, which those that recompute take."""
    branches = eqn.params["branches"]
    splits = [b.jaxpr.memoised(("split", policy), lambda b=b: split_inside(b, policy)) for b in branches]
    if eqn.effects or not any(split.num_saved for split in splits):
        return None
    count = len(eqn.outvars)
    layout, places = _shared_layout([split.first.out_avals[count:] for split in splits])
    first = tuple(_giving(split.first, count, mine, layout) for split, mine in zip(splits, places))
    again = tuple(_taking(split.again, split.again.jaxpr.invars[:split.num_saved],
                          split.again.jaxpr.invars[split.num_saved:], mine, layout) for split, mine in zip(splits, places))
    saved = [Var(a) for a in layout]
    return (eqn.replace(outvars=[*eqn.outvars, *saved], params=eqn.params | {"branches": first}),
            eqn.replace(invars=[eqn.invars[0], *saved, *eqn.invars[1:]], params=eqn.params | {"branches": again}), saved)


def _steps(run, operands, params) -> None:
    branches = params["branches"]
    run(branches[min(max(int(operands[0]), 0), len(branches) - 1)], *operands[1:])


cond_p = Primitive(
    "cond", multiple_results=True, memoise=False, abstract=_types, lower=_lower, jvp=_jvp, linearize=_linearize,
    transpose=_transpose, dce=_dce, partial_eval=_split,
    discharge=discharge_cond,
    effects=lambda *_, branches, **__: frozenset().union(*[effects_by_operand(b, 1) for b in branches]),
    impl=lambda *args, **params: evaluate(cond_p, args, params, params["branches"][0].jaxpr))
cond_p.batch_with_axis = _batch
cond_p.depends = _depends
cond_p.moves_with = lambda operands, *, branches, **_: _same_for_all(branches, operands[1:])
cond_p.steps = _steps
cond_p.key_use = _key_use


# Public

_missing = object()


@boundary
def cond(pred: ArrayLike, true_fun: Callable, false_fun: Callable, *operands: Any, operand: Any = _missing) -> Any:
    """One of two functions of the operands, chosen by a condition; only that one runs.

    Both are traced, and must return the same types. Under `vmap` with a mapped condition both run.

    - `pred`: a boolean or number, a scalar.
    - `true_fun`, `false_fun`: what is applied where it is true, and where not.
    - `operands`: the arguments, pytrees of arrays; `operand`: a single one, by keyword.

    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 5)
    Array(6, dtype=int32, weak_type=True)
    """
    if operand is not _missing:
        if operands:
            raise TypeError("cond takes its operands by position, or one as operand=, not both.")
        operands = (operand,)
    if not callable(true_fun) and len(operands) == 2 and callable(false_fun) and callable(operands[1]):
        # The form with an operand for each branch: cond(pred, true_operand, true_fun, false_operand, false_fun).
        of_true, true_branch, (of_false, false_branch) = true_fun, false_fun, operands
        true_fun, false_fun = (lambda x, y: true_branch(x)), (lambda x, y: false_branch(y))
        operands = (of_true, of_false)
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError("cond takes two functions (callables) after the predicate: cond(pred, true_fun, false_fun, *operands).")
    if not tracing.is_arraylike(pred):
        raise TypeError("cond takes a scalar, a boolean or a number, as its predicate; the predicate is "
                        f"{errors.short(pred)}, of type {type(pred).__name__}.")
    aval = tracing.aval_of(pred)
    if aval.shape:
        raise TypeError(f"cond takes a scalar as its predicate, got an array of type {aval}. Reduce it with xnp.any or "
                        f"xnp.all, or choose element by element with xnp.where or vmap.")
    if not (aval.dtype == dtypes.bool_ or dtypes.is_integer(aval.dtype) or dtypes.is_float(aval.dtype)):
        raise TypeError(f"cond takes a scalar, a boolean or a number, as its predicate; the predicate is of type {aval}.")
    if config.disable_jit.value and (value := _concrete(pred)) is not None:
        return (true_fun if value else false_fun)(*operands)
    if aval.dtype != dtypes.bool_:
        pred = ne(pred, aval.dtype.type(0))
    return _choose("cond", _as_int32(pred), (false_fun, true_fun), ("false_fun", "true_fun"), operands, first=1)


@boundary
def switch(index: ArrayLike, branches: Sequence[Callable], *operands: Any, operand: Any = _missing) -> Any:
    """One of several functions of the operands, chosen by a number; only that one runs.

    All are traced, and must return the same types.

    - `index`: the number, an integer scalar; it is clamped to those that there are.
    - `branches`: the functions.
    - `operands`: the arguments, pytrees of arrays; `operand`: a single one, by keyword.

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
    return _choose("switch", index, branches, [f"branches[{i}]" for i in range(len(branches))], operands)


def _concrete(x):
    return x._concrete() if isinstance(x, tracing.Tracer) else x


def _as_int32(x):
    aval = tracing.aval_of(x)
    if aval.dtype == np.int32 and not aval.weak_type:
        return x
    if not isinstance(x, tracing.Tracer) and aval.dtype.kind in "iub" and isinstance(x, (bool, int, np.generic)):
        return np.int32(x)
    return convert_element_type_p.bind(x, new_dtype=np.dtype(np.int32), weak_type=False, sharding=None)


def _choose(what: str, index, functions: Sequence[Callable], names: Sequence[str], operands: tuple, first: int = 0,
            **platforms: Any):
    """`first` is the branch that is traced before the others: functions that make something when they are traced, as the
    layers of a network do, depend on the order."""
    leaves, in_tree = tree.flatten(operands)
    values = operands_of(leaves, what, operands)
    avals = [tracing.aval_of(x) for x in values]
    traced: dict[int, tuple] = {}  # a function that is several branches is traced once
    for f in (functions[first], *functions):
        if id(f) not in traced:
            traced[id(f)] = trace_function(f, in_tree, avals, what)
    programs, consts, trees = zip(*[traced[id(f)] for f in functions])
    results = join_branches(what, programs, trees, functions, names)
    programs, all_consts = merge_constants(programs, consts)
    programs = [with_weak_types(p, results) for p in programs]
    operands = [*all_consts, *values]
    axes = tracing.aval_of(index).vma
    if axes:  # devices choose differently: no collective may be in a branch, as derivatives would put there for other operands
        programs, operands = [on_varying(p, axes) for p in programs], [vary(x, axes) for x in operands]
    passed = _handed_through(programs)
    if any([i is not None for i in passed]):
        computed = tuple([o for o, i in enumerate(passed) if i is None])
        branches = tuple([p.jaxpr.memoised(("results", computed, *map(id, p.consts)), lambda p=p: reorder(p, None, computed))
                          for p in programs])
        needed = computed or any([keeps_alive(p.jaxpr.effects) for p in programs])
        found = iter(cond_p.bind(index, *operands, branches=branches, **platforms) if needed else ())
        return trees[0].unflatten([next(found) if i is None else as_array(operands[i]) for i in passed])
    return trees[0].unflatten(cond_p.bind(index, *operands, branches=tuple(programs), **platforms))


def _handed_through(programs: Sequence[ClosedJaxpr]) -> list[int | None]:
    """For each result the number of the operand that it is in all branches, None where it is computed."""
    found = [{v: i for i, v in enumerate(p.jaxpr.invars)} for p in programs]
    places = [[None if type(v) is Literal else at.get(v) for v in p.jaxpr.outvars] for p, at in zip(programs, found)]
    return [of[0] if of.count(of[0]) == len(of) else None for of in zip(*places)]


def join_branches(what, programs, trees, functions, names) -> list:
    """The types of the results, which must agree; a value is weakly typed where it is so in the first branch."""
    first = programs[0].out_avals
    for program, out_tree, f, name in zip(programs[1:], trees[1:], functions[1:], names[1:]):
        if out_tree != trees[0]:
            shown = [t.unflatten(p.out_avals) for t, p in ((trees[0], programs[0]), (out_tree, program))]
            raise TypeError(f"{what} branch outputs must have the same pytree structure, but those of "
                            f"{_described(names[0], functions[0])} and {_described(name, f)} differ "
                            f"{tree.first_difference(*shown)}. Return the same structure from both.")
        lines = type_mismatches("result", first, program.out_avals, lambda i: tree.path_of(
            tree.numbered(trees[0]), i), f"from {names[0]}", f"from {name}", not of_library(f))
        if lines:
            raise TypeError(f"{what} needs branches with equal output types, but of {_described(names[0], functions[0])} and "
                            f"{_described(name, f)} {'; '.join(lines)}. Convert with astype, or give Python scalars as arrays.")
    return [a.update(vma=frozenset().union(*[p.out_avals[i].vma for p in programs])) for i, a in enumerate(first)]


def _described(name: str, f: Callable) -> str:
    where = signatures.function_location(f)
    return f"{name} ({signatures.function_name(f)}{f' at {where}' if where else ''})"


def merge_constants(programs: Sequence[ClosedJaxpr], consts: Sequence[list]) -> tuple[list[ClosedJaxpr], list]:
    """Programs that take the closed-over values of all of them first."""
    merged = {tracing.identity(c): c for values in consts for c in values}
    if not merged:
        return list(programs), []
    order = {key: i for i, key in enumerate(merged)}
    avals = [tracing.aval_of(c) for c in merged.values()]
    extended = []
    for program, values in zip(programs, consts):
        places = tuple(order[tracing.identity(c)] for c in values)
        inner = program.jaxpr

        def make(inner=inner, program=program, places=places, values=values):
            leading = [Var(a) for a in avals]
            for i, v in zip(places, inner.invars):
                leading[i] = v
            return ClosedJaxpr(inner.replace(invars=[*leading, *inner.invars[len(values):]]), program.consts)

        extended.append(inner.memoised(("branch constants", places, tuple(avals)), make))
    return extended, list(merged.values())


# By platform


def _platform_index_lower(ctx, *, platforms):
    return ctx.constant(np.int32(_branch_for(ctx.platform, platforms)))


def _branch_for(platform: str, platforms: tuple[tuple[str, ...] | None, ...]) -> int:
    """The number of the branch for a platform; None stands for all."""
    for i, names in enumerate(platforms):
        if names is None or platform in names or platform in ("cuda", "rocm") and "gpu" in names:
            return i
    raise NotImplementedError(f"platform_dependent has no function for {platform}, and no default.")


platform_index_p = Primitive("platform_index", lower=_platform_index_lower,
                             abstract=lambda *, platforms: ShapedArray((), np.dtype(np.int32)))


@boundary
def platform_dependent(*args: Any, default: Callable | None = None, **per_platform: Callable) -> Any:
    """Of several functions of the arguments that for the platform which the program is compiled for.

    All are traced, and must return the same types.

    - `args`: the arguments, pytrees of arrays.
    - `default`: the function for platforms that are not named; without one, they are an error.
    - `per_platform`: functions by the names of platforms: `cpu=`, `cuda=`, `rocm=`, `tpu=`.

    >>> lax.platform_dependent(2.0, tpu=lambda x: -x, default=lambda x: x)
    2.0
    """
    if "gpu" in per_platform:
        raise ValueError("platform_dependent takes functions by the names of platforms, and 'gpu' is that of two: say cuda= or "
                         "rocm=, or both with the same function.")
    platforms: dict[Callable, tuple[str, ...] | None] = {}  # a function that several platforms share is one branch
    for name, function in per_platform.items():
        platforms[function] = (*(platforms.get(function) or ()), name)
    if default is not None:
        platforms.pop(default, None)
        platforms[default] = None
    if list(platforms) == [default]:
        return default(*args)
    if _at_once():
        chosen = _branch_for(_platform_of(args), tuple(platforms.values()))
        return list(platforms)[chosen](*args)
    told = tuple(platforms.values())
    names = ["default" if names is None else " and ".join(names) for names in told]
    return _choose("platform_dependent", platform_index_p.bind(platforms=told), list(platforms), names, args,
                   branches_platforms=told)


def _at_once() -> bool:
    """Whether no program is being written: then it is known where operations run."""
    trace = tracing.thread.trace
    while trace is not tracing.eval_trace:
        if isinstance(trace, tracing.StagingTrace):
            return False
        trace = trace.parent
    return True


def _platform_of(args) -> str:
    """Where eager operations on these arguments run."""
    for x in tree.leaves(args):
        while isinstance(x, tracing.Tracer) and (value := x._concrete()) is not None:
            x = value
        if isinstance(x, ArrayImpl):
            return backends.lowering_platform(next(iter(x.devices())).client)
    return backends.lowering_platform(backends.default_device().client)
