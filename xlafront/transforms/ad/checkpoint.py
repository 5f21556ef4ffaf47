"""Rematerialisation: `checkpoint` computes the intermediate values of a function again when its derivative needs them.

The derivative of a checkpointed call is one operation too, which takes the arguments (and what the policy saves) and
computes everything else again before it uses it. A barrier in the compiled program keeps the compiler from merging that
with the first computation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.avals import str_short
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, dce_closed, jaxpr_as_fun, keeps_alive, subprograms
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.sharding_types import of_first
from xlafront.core.traceback_filter import boundary
from xlafront.core.wrapping import wraps
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.all_reductions import pvary_p
from xlafront.lax.device_put import move_memory_p
from xlafront.lax.dot_products import dot_general_p
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.layouts import MemorySpace
from xlafront.runtime.logs import log
from xlafront.staging import composites, signatures
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.calls.programs import (
    DerivedFunction,
    evaluate,
    operands_of,
    references_as_inputs,
    trace_function,
)

# What a policy may say of an operation's results; True and False mean the first two.


class _Decision:
    def __init__(self, name: str):
        self.name = name

    def __repr__(self):
        return self.name


Saveable, Recompute = _Decision("Saveable"), _Decision("Recompute")


class Offloadable(NamedTuple):
    """Save in another memory: `src` and `dst` are memory kinds, as "device" and "pinned_host"."""

    src: str
    dst: str


# Splitting a program by a policy


class _Split(NamedTuple):
    """`first: inputs -> (results, saved)`, `again: (saved, inputs) -> recomputed results`."""

    first: ClosedJaxpr
    again: ClosedJaxpr
    num_saved: int


def split_by_policy(closed: ClosedJaxpr, policy: Callable | None, recomputed: Sequence[bool]) -> _Split:
    """Split a program in what is computed (and saved) now and what computes the results marked `recomputed` later."""
    jaxpr = closed.jaxpr
    first: list[JaxprEqn] = []
    again: list[JaxprEqn] = []
    saved: list[Var] = []
    for eqn in jaxpr.eqns:
        parts = None if policy is None else _split_by_its_rule(eqn, policy)
        if parts is not None:
            eqn_first, eqn_again, extra = parts
            first.append(eqn_first)
            again.append(eqn_again)
            saved += extra
            continue
        first.append(eqn)
        decision = _decision(policy, eqn)
        if decision is Saveable:
            saved += eqn.outvars
        elif decision is Recompute:
            again.append(eqn)
        else:
            for v in eqn.outvars:
                away = Var(v.aval.update(memory_space=None if decision.dst == "device" else MemorySpace.Host))
                first.append(_moved(eqn, v, away, decision.dst))
                again.append(_moved(eqn, away, v, decision.src))
                saved.append(away)
    later = jaxpr.replace(invars=[*saved, *jaxpr.invars], eqns=again,
                          outvars=[v for v, r in zip(jaxpr.outvars, recomputed) if r])
    later_closed, used = dce_closed(ClosedJaxpr(later, closed.consts), [True] * len(later.outvars),
                                [False] * len(saved) + [True] * len(jaxpr.invars))
    saved = [v for v, u in zip(saved, used) if u]
    now = jaxpr.replace(eqns=first, outvars=[*[v for v, r in zip(jaxpr.outvars, recomputed) if not r], *saved])
    now_closed, _ = dce_closed(ClosedJaxpr(now, closed.consts), [True] * len(now.outvars), True)
    return _Split(now_closed, later_closed, len(saved))


def _split_by_its_rule(eqn: JaxprEqn, policy) -> tuple[JaxprEqn, JaxprEqn, list[Var]] | None:
    """An operation that contains programs in two: that which saves and that which recomputes, and what goes between them."""
    if eqn.primitive.partial_eval is not None:
        return eqn.primitive.partial_eval(eqn, policy)
    return split_call(eqn, policy) if isinstance(eqn.primitive, ProgramCall) else None


def _decision(policy, eqn):
    if keeps_alive(eqn.effects) and not all([effect.repeatable for effect in eqn.effects]):  # it happens once
        return Saveable
    if policy is None or eqn.primitive is pvary_p:  # (which computes nothing)
        return Recompute
    decision = policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params)
    if isinstance(decision, (_Decision, Offloadable)):
        return decision
    return Saveable if decision else Recompute


def _moved(eqn: JaxprEqn, source_var, target, memory_kind: str) -> JaxprEqn:
    """The move of a value between memories, in the name of the operation that made it."""
    return JaxprEqn([source_var], [target], move_memory_p, {"memory_kind": memory_kind}, site=eqn.site)


def split_call(eqn: JaxprEqn, policy) -> tuple[JaxprEqn, JaxprEqn, list[Var]] | None:
    """A call of a program under a policy: what the policy saves inside becomes results of the call."""
    call: ProgramCall = eqn.primitive
    closed = eqn.params[call.parameter]
    split = closed.jaxpr.memoised(("split", policy), lambda: split_inside(closed, policy))
    if not split.num_saved or eqn.effects:
        return None
    count, results = len(eqn.invars), len(eqn.outvars)
    saved = [Var(a) for a in split.first.out_avals[results:]]
    more, ins, outs = [None] * len(saved), range(count), range(count, count + results)
    first = eqn.replace(outvars=[*eqn.outvars, *saved], params=call.derived(eqn.params, split.first, ins, [*outs, *more]))
    again = eqn.replace(invars=[*saved, *eqn.invars], params=call.derived(eqn.params, split.again, [*more, *ins], outs))
    return first, again, saved


def split_inside(closed: ClosedJaxpr, policy) -> _Split:
    """As `split_by_policy`, with all results both computed now and recomputed."""
    jaxpr = closed.jaxpr
    count = len(jaxpr.outvars)
    doubled = ClosedJaxpr(jaxpr.replace(outvars=[*jaxpr.outvars, *jaxpr.outvars]), closed.consts)
    return split_by_policy(doubled, policy, [False] * count + [True] * count)


# The operation


def _params(jaxpr, prevent_cse, differentiated, policy) -> dict[str, Any]:
    return {"jaxpr": jaxpr, "prevent_cse": prevent_cse, "differentiated": differentiated, "policy": policy}


def _lower(ctx, *operands, jaxpr, prevent_cse, differentiated, policy):
    behind = (prevent_cse,) * len(operands) if isinstance(prevent_cse, bool) else prevent_cse
    if differentiated and any(behind):
        kept = [x for x, flag in zip(operands, behind) if flag]
        found = ctx.op("stablehlo.optimization_barrier", kept, [x.type for x in kept])
        barrier = iter(found if isinstance(found, list) else [found])
        operands = [next(barrier) if flag else x for x, flag in zip(operands, behind)]
        # The compiler for CPUs takes barriers away before it looks for equal expressions. A step of a loop in which nothing
        # is computed for the first time has none; there a call would keep it from updating what the loop carries in place.
        if ctx.platform == "cpu" and (ctx.body.step is None or _computes_first(ctx.body.step)):
            return ctx.call(jaxpr, operands, "recomputed", inlineable=False, scope="checkpoint/rematted_computation")
    return ctx.inline(jaxpr, operands, "checkpoint/rematted_computation" if differentiated else "checkpoint")


def _computes_first(jaxpr: Jaxpr) -> bool:
    """Whether a program makes a checkpointed call that is not the second one."""
    return jaxpr.memoised("computes first", lambda: any([
        eqn.primitive is remat_p and not eqn.params["differentiated"] or any(map(_computes_first, subprograms(eqn.params)))
        for eqn in jaxpr.eqns]))


class _Plan:
    """What a checkpointed program becomes under linearisation: `first` now, `linear` when tangents or cotangents come."""

    def __init__(self, jaxpr: ClosedJaxpr, active, policy):
        # What is written to a reference cannot be computed twice.
        jaxpr, _ = discharge_program(jaxpr, [False] * len(jaxpr.in_avals), keep_rules=True)
        split = linearize_program(jaxpr, active)
        self.outputs = split.outputs
        self.count = count = len(jaxpr.out_avals)
        parts = split_by_policy(split.forward, policy, [False] * count + [True] * split.residuals)
        self.first, self.num_saved = parts.first, parts.num_saved
        saved_avals = parts.first.out_avals[count:]
        inputs = jaxpr.in_avals
        moving = [a.to_tangent_aval() for a, on in zip(inputs, active) if on]

        def linear(*args):
            saved, args = args[:len(saved_avals)], args[len(saved_avals):]
            primals, tangents = args[:len(inputs)], args[len(inputs):]
            computed = iter(jaxpr_as_fun(parts.again)(*saved, *primals))
            residuals = [next(computed) if k is None else primals[k] for k in split.known]
            return jaxpr_as_fun(split.linear)(*residuals, *tangents)

        program = tracing.trace_to_closed_jaxpr(linear, [*saved_avals, *inputs, *moving], jaxpr.debug_info.with_unknown_names())
        keep = [True] * len(saved_avals) + [False] * len(inputs) + [True] * len(moving)
        self.linear, used = dce_closed(program, [True] * len(program.out_avals), keep)
        self.read = used[len(saved_avals):len(saved_avals) + len(inputs)]

    def log(self, program: ClosedJaxpr) -> None:
        """Say what is kept: values that the policy saves, and arguments that are read again."""
        first = self.first.jaxpr
        kept = [f"{str_short(v.aval)} {_origin(first, v)[1]}" for v in first.outvars[self.count:]]
        kept += [f"{str_short(a)} from argument {i}" for i, (a, read) in enumerate(zip(program.in_avals, self.read)) if read]
        log().warning("The derivative of a checkpointed function (%s) keeps:%s", program.jaxpr.debug_info.func_src_info,
                      "".join([f"\n  {line}" for line in kept]) or " nothing")


def _bind(program: ClosedJaxpr, operands: Sequence[Any], prevent_cse, differentiated: bool, policy) -> list:
    (program,), refs = references_as_inputs((program,), 0)
    if not isinstance(prevent_cse, bool):
        prevent_cse = (*[False] * len(refs), *prevent_cse)
    return remat_p.bind(*refs, *operands, **_params(program, prevent_cse, differentiated, policy))


def _linearize(primals, tangents, *, jaxpr, prevent_cse, differentiated, policy):
    active = tuple(type(t) is not Zero for t in tangents)
    plan = jaxpr.jaxpr.memoised(("checkpoint", active, policy), lambda: _Plan(jaxpr, active, policy))
    if config.log_checkpoint_residuals.value:
        plan.log(jaxpr)
    found = _bind(plan.first, primals, prevent_cse, differentiated, policy)
    if not isinstance(prevent_cse, bool):
        prevent_cse = (*[True] * plan.num_saved, *[flag for flag, read in zip(prevent_cse, plan.read) if read],
                       *[True] * sum(active))
    results, saved = found[:plan.count], found[plan.count:]
    moved: Any = iter(())
    if any(plan.outputs):
        moved = iter(_bind(plan.linear, [*saved, *[x for x, read in zip(primals, plan.read) if read],
                                         *[t for t in tangents if type(t) is not Zero]], prevent_cse, True, policy))
    return results, [next(moved) if used else Zero(a.to_tangent_aval()) for used, a in zip(plan.outputs, jaxpr.out_avals)]


def _impl(*args, **params):
    """Compiled, but for operations of users that can only be run one by one, and calls that give up their arguments."""
    closed = params["jaxpr"]
    if any([e.uncompiled for e in closed.effects]) or closed.jaxpr.memoised("one by one", lambda: _only_eager(closed.jaxpr)):
        return jaxpr_as_fun(closed)(*args)
    return evaluate(remat_p, args, params, closed.jaxpr)


def _only_eager(jaxpr: Jaxpr) -> bool:
    return any([p.own_impl is not None and not p.lowerings and not p.ref_primitive or any(params.get("donated_invars", ()))
                or any(map(_only_eager, subprograms(params)))
                for p, params in [(eqn.primitive, eqn.params) for eqn in jaxpr.eqns]])


class _Rematerialisation(ProgramCall):
    """The operands that are kept behind a barrier may be all, none, or some, marked one by one."""

    __slots__ = ()

    def derived(self, params, program, ins, outs):
        flags = params["prevent_cse"]
        if not isinstance(flags, bool):
            flags = tuple([True if i is None or i >= len(flags) else flags[i] for i in ins])
        return params | {"jaxpr": program, "prevent_cse": flags}


remat_p = _Rematerialisation(
    "remat2", lower=_lower, linearize=_linearize, shown_as="checkpoint",
    impl=_impl)
remat_p.steps = lambda run, operands, params: run(params["jaxpr"], *operands)
# What is computed again is the same draw from a key, not a second one.
remat_p.key_use = lambda eqn, use_of_program: ((), ["new"] * len(eqn.outvars)) if eqn.params["differentiated"] else (
    use_of_program(eqn.params["jaxpr"].jaxpr))


# Names for values, which policies ask for

name_p = Primitive("name", abstract=lambda x, *, name: x, lower=lambda ctx, x, *, name: x,
                   jvp=lambda primals, tangents, *, name: (name_p.bind(primals[0], name=name), tangents[0]),
                   batch=lambda size, xs, dims, *, name: (name_p.bind(xs[0], name=name), dims[0]),
                   impl=lambda x, *, name: x, sharding_rule=sharding_rules.same, sums=of_first)
name_p.key_use = "hands on"


@boundary
def checkpoint_name(x: Any, name: str) -> Any:
    """`x` itself, under a name by which a checkpoint policy can choose to save it.

    - `x`: a pytree of arrays.
    - `name`: the name.

    >>> y = checkpoint_name(xnp.ones(3), "activations")
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes the name as a string, got {name!r}.")
    leaves, treedef = tree.flatten(x)
    return treedef.unflatten([name_p.bind(leaf, name=name) for leaf in operands_of(leaves, "checkpoint_name", x)])


# Public


@boundary
def checkpoint(fun: Callable | None = None, *, prevent_cse: bool | Sequence[bool] = True, policy: Callable | None = None,
               static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
               concrete: Any = None) -> Callable:
    """A function whose intermediate values are computed again for its derivative instead of being kept from the first time.

    - `fun`: the function.
    - `prevent_cse`: keep the compiler from merging the two computations. Not needed in the body of a `scan`.
    - `policy`: says which results of operations are kept all the same; see `checkpoint_policies`.
    - `static_argnums`, `static_argnames`: arguments that are Python values.
    - `concrete`: what these were called earlier; giving it is an error.

    >>> float(xf.grad(xf.checkpoint(lambda x: x ** 3))(2.0))
    12.0
    """
    if fun is None:
        return functools.partial(checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums,
                                 static_argnames=static_argnames)
    if concrete is not None:
        raise NotImplementedError("checkpoint no longer takes `concrete`: name the arguments that are Python values in "
                                  "static_argnums, or wrap uses of known values in ensure_compile_time_eval.")
    if not callable(fun):
        raise errors.not_callable("checkpoint", fun)
    if policy is not None and not callable(policy):
        raise TypeError(f"checkpoint takes a policy from checkpoint_policies or a function, got {policy!r}.")
    static = signatures.select_arguments(fun, "static", static_argnums, static_argnames or None)
    name = signatures.function_name(fun)

    @wraps(fun)
    @boundary
    def checkpointed(*args, **kwargs):
        if static and not _hashable([*[x for i, x in enumerate(args) if i in static.at(len(args))],
                                     *[x for key, x in kwargs.items() if key in static.names]]):
            bound, args, kwargs = _with_static_values(fun, static, args, kwargs)
            return checkpoint(bound, prevent_cse=prevent_cse, policy=policy)(*args, **kwargs)
        call = signatures.split_call(name, static, args, kwargs)
        if tracing.composites and composites.among(call.leaves):
            contents = composites.Contents.of(call.leaves)
            on_arrays = checkpoint(composites.on_arrays(fun, call, contents), policy=policy,
                                   prevent_cse=prevent_cse if isinstance(prevent_cse, bool) else True)
            result, held = on_arrays(contents.arrays(), *contents.others)
            contents.finish(held)
            return result
        leaves = []
        for i, x in enumerate(call.leaves):
            if not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"checkpoint of {name}", signatures.argument_names(fun, static, call.in_tree)[i])
            leaves.append(x)
        body = _Call(fun, static, call.statics)
        program, consts, out_tree = trace_function(body, call.in_tree, [tracing.aval_of(x) for x in leaves],
                                                  "checkpoint / remat")
        operands = [*consts, *leaves]
        barrier: bool | tuple[bool, ...]
        if isinstance(prevent_cse, bool):
            barrier = prevent_cse
        else:
            flags = tree.leaves_by_prefix(f"checkpoint of {name}: prevent_cse", prevent_cse, args)
            barrier = (*[True] * len(consts), *flags, *[True] * (len(leaves) - len(flags)))
        results = remat_p.bind(*operands, **_params(program, barrier, False, policy))
        return out_tree.unflatten(_with_numbers(program, operands, results))

    return checkpointed


def _with_numbers(program: ClosedJaxpr, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Results of a call that ran at once, with Python numbers that the function only hands through as what they are."""
    found = list(results)
    for result, operand, value in program.jaxpr.memoised("handed through", lambda: _handed_through(program.jaxpr)):
        value = value if operand is None else operands[operand]
        if type(found[result]) is ArrayImpl and type(value) in dtypes.python_scalar_dtypes:
            found[result] = value
    return found


def _handed_through(jaxpr: Jaxpr) -> list[tuple[int, int | None, Any]]:
    """`(result, operand, value)` for the results that are an operand, or the value of a literal."""
    places: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    return [(i, None, v.val) if type(v) is Literal else (i, places[v], None)
            for i, v in enumerate(jaxpr.outvars) if type(v) is Literal or v in places]


def _hashable(values) -> bool:
    try:
        return hash(tuple(values)) is not None
    except TypeError:
        return False


def _with_static_values(fun, static, args, kwargs) -> tuple[Callable, tuple, dict]:
    """A function with static arguments filled in, of the other arguments: for values that cannot be part of a key."""
    fixed = {key: x for key, x in kwargs.items() if key in static.names}

    def bound(*dynamic, **named):
        rest = iter(dynamic)
        return fun(*[x if i in static.at(len(args)) else next(rest) for i, x in enumerate(args)], **fixed, **named)

    bound.__name__ = signatures.function_name(fun)
    dynamic = tuple(x for i, x in enumerate(args) if i not in static.at(len(args)))
    return bound, dynamic, {key: x for key, x in kwargs.items() if key not in static.names}


class _Call(DerivedFunction):
    """A call of `fun` with static arguments filled in; its key is `(which are static, their values)`."""

    __slots__ = ()

    def __call__(self, args, kwargs):
        leaves, in_tree = tree.flatten((args, kwargs))
        args, kwargs = signatures.join_call(self.key[1], in_tree, leaves)
        return self.f(*args, **kwargs)

    @staticmethod
    def names(parameters, key, in_tree):
        return signatures.leaf_names(parameters, key[0], in_tree)


remat = checkpoint


def print_saved_residuals(f: Callable, *args: Any, **kwargs: Any) -> None:
    """Print what the derivative of `f` at these arguments keeps from the forward computation, and where it comes from.

    - `f`: the function. `args`, `kwargs`: its arguments, arrays or values of a type.

    >>> print_saved_residuals(lambda x: xnp.sin(xnp.sin(x)), 1.0)  # doctest: +ELLIPSIS
    f32[] output of cos from ...
    f32[] output of cos from ...
    """
    for line in saved_residuals(f, *args, **kwargs):
        print(line)


def saved_residuals(f: Callable, *args, **kwargs) -> list[str]:
    """A line for each value that the derivative of `f` keeps."""
    leaves, in_tree = tree.flatten((args, kwargs))
    names = signatures.argument_names(f, signatures.Selection(), in_tree)
    avals = [tracing.aval_of(x) for x in leaves]

    def flat(*xs):
        inner_args, inner_kwargs = in_tree.unflatten(xs)
        return signatures.check_results(f, f(*inner_args, **inner_kwargs))[0]

    closed = tracing.trace_to_closed_jaxpr(flat, avals)
    split = linearize_program(closed, (True,) * len(avals))
    count = len(closed.out_avals)
    computed = iter(split.forward.jaxpr.outvars[count:])
    found: list[tuple[tuple[int, ...], str]] = []  # constants, arguments, what equations compute: each in order
    for known in split.known:
        if known is not None:
            found.append(((1, known), f"{str_short(avals[known])} from the argument {names[known]}"))
        else:
            v = next(computed)
            position, text = _origin(split.forward.jaxpr, v)
            found.append((position, f"{str_short(v.aval)} {text}"))
    return [text for _, text in sorted(found, key=lambda pair: pair[0])]


def _origin(jaxpr: Jaxpr, v, site: source.Site | None = None) -> tuple[tuple[int, ...], str]:
    """Where in the program a value is made, and in words; `site` is that of a call of it, whose parts may have none."""
    if type(v) is Literal:
        return (0,), "from a literal"
    for i, eqn in enumerate(jaxpr.eqns):
        if v in eqn.outvars:
            inner, jitted = eqn.params.get("jaxpr"), eqn.params.get("inline") is False
            if inner is not None and not jitted and len(inner.jaxpr.outvars) == len(eqn.outvars):
                found = inner.jaxpr.outvars[eqn.outvars.index(v)]
                if type(found) is not Literal and found not in inner.jaxpr.invars:
                    position, text = _origin(inner.jaxpr, found, _known(eqn.site) or site)
                    return (2, i, *position), text
            where = source.with_column(_known(eqn.site) or site)
            name = f"jitted function {eqn.params['name']!r}" if jitted else eqn.primitive.name
            what = f"named {eqn.params['name']!r}" if eqn.primitive is name_p else f"output of {name}"
            return (2, i), f"{what} from {where}"
    return (0,), "from a constant"


def _known(site: source.Site | None) -> source.Site | None:
    return None if site is source.NOWHERE else site


# Policies


class _Policies:
    """What to keep of a checkpointed computation: pass one of these as `checkpoint(..., policy=...)`.

    The first are policies, the ones with arguments make them.
    """

    @staticmethod
    def everything_saveable(*_, **__):
        return True

    @staticmethod
    def nothing_saveable(*_, **__):
        return False

    @staticmethod
    def dots_saveable(prim, *_, **__):
        return prim.contracts

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(prim, *_, **params):
        return _is_unbatched_dot(prim, params)

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str):
        return _Policy("offload_dot_with_no_batch_dims", (offload_src, offload_dst), lambda prim, params: (
            Offloadable(offload_src, offload_dst) if _is_unbatched_dot(prim, params) else False))

    @staticmethod
    def save_only_these_names(*names_which_can_be_saved: str):
        names = frozenset(names_which_can_be_saved)
        return _Policy("save_only_these_names", names, lambda prim, params: prim is name_p and params["name"] in names)

    @staticmethod
    def save_any_names_but_these(*names_not_to_save: str):
        names = frozenset(names_not_to_save)
        return _Policy("save_any_names_but_these", names, lambda prim, params: prim is name_p and params["name"] not in names)

    @staticmethod
    def save_anything_except_these_names(*names_not_to_save: str):
        names = frozenset(names_not_to_save)
        return _Policy("save_anything_except_these_names", names,
                       lambda prim, params: prim is not name_p or params["name"] not in names)

    @staticmethod
    def save_from_both_policies(policy_1: Callable, policy_2: Callable):
        def either(prim, *avals, **params):
            first = policy_1(prim, *avals, **params)
            return first if first not in (False, Recompute) else policy_2(prim, *avals, **params)

        return either

    @staticmethod
    def save_and_offload_only_these_names(*, names_which_can_be_saved: Sequence[str],
                                          names_which_can_be_offloaded: Sequence[str], offload_src: str, offload_dst: str):
        saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
        both = saved & offloaded
        if both:
            raise ValueError(f"save_and_offload_only_these_names is to save and to offload {sorted(both)}: give each name "
                             f"once.")

        def decide(prim, params):
            if prim is not name_p:
                return Recompute
            if params["name"] in offloaded:
                return Offloadable(offload_src, offload_dst)
            return Saveable if params["name"] in saved else Recompute

        return _Policy("save_and_offload_only_these_names", (saved, offloaded, offload_src, offload_dst), decide)


class _Policy:
    """A policy made from arguments; equal to others made from the same, so that programs are found again."""

    __slots__ = ("name", "arguments", "decide")

    def __init__(self, name: str, arguments, decide: Callable):
        self.name, self.arguments, self.decide = name, arguments, decide

    def __call__(self, prim, *avals, **params):
        return self.decide(prim, params)

    def __eq__(self, other):
        return isinstance(other, _Policy) and (self.name, self.arguments) == (other.name, other.arguments)

    def __hash__(self):
        return hash((self.name, self.arguments))

    def __repr__(self):
        shown = sorted(self.arguments) if isinstance(self.arguments, frozenset) else list(self.arguments)
        return f"{self.name}({', '.join(map(repr, shown))})"


def _is_unbatched_dot(prim, params) -> bool:
    return prim is dot_general_p and not params["dimension_numbers"][1][0]


checkpoint_policies = _Policies()

__all__ = ["Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_policies",
           "print_saved_residuals", "remat"]
