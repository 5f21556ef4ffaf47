"""Rematerialization: `checkpoint` recomputes the intermediate values of a function for its derivative.

The derivative of a checkpointed call is a single operation, which takes the arguments (and the values that the policy saves)
and
recomputes everything else. An optimization barrier keeps the compiler from merging the recomputation with the first
computation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.layouts import MemorySpace
from xlafront.base.logs import log
from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.avals import str_short
from xlafront.core.basic_primitives import pvary_p
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import (
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    any_equation,
    dce_closed,
    keeps_alive,
)
from xlafront.core.primitive import KeyUse, MeshRules, Primitive, Structured, Traits
from xlafront.core.program_call import ProgramCall
from xlafront.core.sharding_types import of_first
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.device_put import move_memory_p
from xlafront.lax.dot_products import dot_general_p
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE
from xlafront.staging import mutable_composites, signatures
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.calls import policy_override
from xlafront.transforms.calls.programs import (
    DerivedFunction,
    evaluate,
    operands_of,
    references_as_inputs,
    trace_function,
)
from xlafront.transforms.calls.recomputation import saved_p, saves_values, tracing_checkpoint

if TYPE_CHECKING:
    from xlafront.core.program_call import Place
    from xlafront.core.tree import PyTreeDef
    from xlafront.core.typing import Atom, Aval, Params
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

_F = TypeVar("_F", bound=Callable)

# The decisions of a policy about the results of an operation. True and False mean Saveable and Recompute.


class _SaveDecision:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


Saveable, Recompute = _SaveDecision("Saveable"), _SaveDecision("Recompute")


class Offloadable(NamedTuple):
    """A policy decision to save values in another memory.

    Args:
        src: Memory kind of the value, such as "device".
        dst: Memory kind to save the value in, such as "pinned_host".
    """

    src: str
    dst: str


# Splitting a jaxpr by a policy


class _Split(NamedTuple):
    """A split jaxpr: `first: inputs -> (results, saved)`, `recompute: (saved, inputs) -> recomputed results`."""

    first: Jaxpr
    recompute: Jaxpr
    num_saved: int


def split_by_policy(jaxpr: Jaxpr, policy: Callable | None, recomputed: Sequence[bool]) -> _Split:
    """Split a jaxpr into the part that runs (and saves values) now, and the part that computes the results marked
    `recomputed` later."""
    if policy is None and saves_values(jaxpr):
        policy = _Policies.nothing_saveable
    first: list[JaxprEqn] = []
    recompute: list[JaxprEqn] = []
    saved: list[Var] = []
    for eqn in jaxpr.eqns:
        split = None if policy is None else _split_equation(eqn, policy)
        if split is not None:
            eqn_first, recompute_eqn, eqn_saved = split
            first.append(eqn_first)
            recompute.append(recompute_eqn)
            saved += eqn_saved
            continue
        first.append(eqn)
        decision = _decision(policy, eqn)
        if decision is Saveable:
            saved += eqn.outvars
        elif decision is Recompute:
            recompute.append(eqn)
        else:
            for v in eqn.outvars:
                offloaded = Var(v.aval.update(memory_space=None if decision.dst == "device" else MemorySpace.Host))
                first.append(_transfer(eqn, v, offloaded, decision.dst))
                recompute.append(_transfer(eqn, offloaded, v, decision.src))
                saved.append(offloaded)
    recompute_jaxpr = jaxpr.replace(invars=[*saved, *jaxpr.invars], eqns=recompute,
                                    outvars=[v for v, is_recomputed in zip(jaxpr.outvars, recomputed) if is_recomputed])
    recompute_jaxpr, live = dce_closed(recompute_jaxpr, [True] * len(recompute_jaxpr.outvars),
                                       [False] * len(saved) + [True] * len(jaxpr.invars))
    saved = [v for v, is_live in zip(saved, live) if is_live]
    computed = [v for v, is_recomputed in zip(jaxpr.outvars, recomputed) if not is_recomputed]
    first_jaxpr = jaxpr.replace(eqns=_round_saved(first, saved), outvars=[*computed, *saved])
    first_jaxpr, _ = dce_closed(first_jaxpr, [True] * len(first_jaxpr.outvars), True)
    return _Split(first_jaxpr, recompute_jaxpr, len(saved))


_ROUNDED = (np.dtype(np.float16), dtypes.bfloat16)


def _round_saved(eqns: list[JaxprEqn], saved: Sequence[Var]) -> list[JaxprEqn]:
    """Round saved floats of 16 bits where they are computed.

    XLA computes chains of operations on them with more digits, of which a saved value has none: the first computation and
    derivatives would use different values.
    """
    operands = {v for eqn in eqns for v in eqn.invars if type(v) is Var}
    rounded = {v for v in saved if v in operands and v.aval.dtype in _ROUNDED}
    if not rounded:
        return eqns
    found: list[JaxprEqn] = []
    for eqn in eqns:
        exact = {v: Var(v.aval) for v in eqn.outvars if v in rounded}
        found.append(eqn.replace(outvars=[exact.get(v, v) for v in eqn.outvars]) if exact else eqn)
        for v, source_var in exact.items():
            info = dtypes.finfo(v.aval.dtype)
            found.append(JaxprEqn([source_var], [v], ELEMENTWISE["reduce_precision"], {
                "exponent_bits": info.nexp, "mantissa_bits": info.nmant}, site=eqn.site))
    return found


def _split_equation(eqn: JaxprEqn, policy: Any) -> tuple[JaxprEqn, JaxprEqn, list[Var]] | None:
    """Split an equation with inner jaxprs into one that saves and one that recomputes; return them and the saved variables."""
    if eqn.primitive.structured.partial_eval is not None:
        return eqn.primitive.structured.partial_eval(eqn, policy)
    return split_call(eqn, policy) if isinstance(eqn.primitive, ProgramCall) else None


def _decision(policy: Any, eqn: JaxprEqn) -> Any:
    if keeps_alive(eqn.effects) and not all([effect.repeatable for effect in eqn.effects]):  # the effect must occur once
        return Saveable
    if eqn.primitive is saved_p:
        return Saveable
    if policy is None or eqn.primitive is pvary_p:  # pvary computes nothing
        return Recompute
    decision = policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params)
    if isinstance(decision, (_SaveDecision, Offloadable)):
        return decision
    return Saveable if decision else Recompute


def _transfer(eqn: JaxprEqn, source_var: Atom, target: Var, memory_kind: str) -> JaxprEqn:
    """Return the equation that transfers a value between memories, attributed to the operation that computed it."""
    return JaxprEqn([source_var], [target], move_memory_p, {"memory_kind": memory_kind}, site=eqn.site)


def split_call(eqn: JaxprEqn, policy: Any) -> tuple[JaxprEqn, JaxprEqn, list[Var]] | None:
    """Split a call under a policy: values saved inside become results of the call."""
    call: ProgramCall = eqn.primitive
    closed = eqn.params[call.parameter]
    split = closed.memoised(("split", policy), lambda: split_inside(closed, policy))
    if not split.num_saved or eqn.effects:
        return None
    count, results = len(eqn.invars), len(eqn.outvars)
    saved = [Var(a) for a in split.first.out_avals[results:]]
    no_inputs, ins, outs = [None] * len(saved), range(count), range(count, count + results)
    first = eqn.replace(outvars=[*eqn.outvars, *saved], params=call.derived(eqn.params, split.first, ins, [*outs, *no_inputs]))
    recompute = eqn.replace(invars=[*saved, *eqn.invars],
                            params=call.derived(eqn.params, split.recompute, [*no_inputs, *ins], outs))
    return first, recompute, saved


def split_inside(closed: Jaxpr, policy: Any) -> _Split:
    """Split a jaxpr like `split_by_policy`, with all results both computed now and recomputed."""
    count = len(closed.outvars)
    doubled = closed.replace(outvars=[*closed.outvars, *closed.outvars])
    return split_by_policy(doubled, policy, [False] * count + [True] * count)


# The primitive


def _params(jaxpr: Jaxpr, prevent_cse: bool | Sequence[bool], differentiated: bool, policy: Any) -> dict[str, Any]:
    return {"jaxpr": jaxpr, "prevent_cse": prevent_cse, "differentiated": differentiated, "policy": policy}


def _lower(ctx: RuleContext, *operands: ir.Value, jaxpr: Jaxpr, prevent_cse: bool | Sequence[bool], differentiated: bool,
           policy: Any) -> list[ir.Value]:
    needs_barrier = (prevent_cse,) * len(operands) if isinstance(prevent_cse, bool) else prevent_cse
    if differentiated and any(needs_barrier):
        barrier_operands = [x for x, flag in zip(operands, needs_barrier) if flag]
        barrier_results = ctx.op("stablehlo.optimization_barrier", barrier_operands, [x.type for x in barrier_operands])
        next_result = iter(barrier_results if isinstance(barrier_results, list) else [barrier_results])
        operands = [next(next_result) if flag else x for x, flag in zip(operands, needs_barrier)]
        # The CPU compiler removes barriers before common subexpression elimination, so use a call there. A loop step without
        # first computations needs none; a call would prevent in-place updates of the carry.
        if ctx.platform == "cpu" and (ctx.body.step is None or _has_first_computation(ctx.body.step)):
            return ctx.call(jaxpr, operands, "recomputed", inlineable=False, scope="checkpoint")
    return ctx.inline(jaxpr, operands, "checkpoint")


def _has_first_computation(jaxpr: Jaxpr) -> bool:
    """True if a jaxpr contains a checkpointed call that is not a recomputation."""
    return any_equation(jaxpr, "computes first", lambda eqn: eqn.primitive is remat_p and not eqn.params["differentiated"])


class _LinearizedCheckpoint:
    """A linearized checkpointed jaxpr: `first` runs now, `linear` when tangents or cotangents are available."""

    def __init__(self, jaxpr: Jaxpr, active: tuple[bool, ...], policy: Any) -> None:
        # Discharge Refs: their writes cannot be recomputed.
        jaxpr, _ = discharge_program(jaxpr, [False] * len(jaxpr.in_avals), keep_rules=True)
        with policy_override.within_checkpoint():
            linearized = linearize_program(jaxpr, active)
        self.outputs = linearized.outputs
        self.count = count = len(jaxpr.out_avals)
        split = split_by_policy(linearized.forward, policy, [False] * count + [True] * linearized.num_computed)
        self.first, self.num_saved = split.first, split.num_saved
        saved_avals = split.first.out_avals[count:]
        inputs = jaxpr.in_avals
        tangent_avals = [a.to_tangent_aval() for a, is_active in zip(inputs, active) if is_active]

        # In a profile the name distinguishes recomputed operations from those of the derivative.
        recompute = split.recompute.replace(eqns=[
            eqn.replace(site=source.inside("rematted_computation", eqn.site)) for eqn in split.recompute.eqns])

        def linear(*args: tracing.StagedTracer) -> list[Any]:
            saved, args = args[:len(saved_avals)], args[len(saved_avals):]
            primals, tangents = args[:len(inputs)], args[len(inputs):]
            computed = iter(recompute(*saved, *primals))
            residuals = [next(computed) if k is None else primals[k] for k in linearized.forwarded_inputs]
            return linearized.linear(*residuals, *tangents)

        linear_jaxpr = tracing.trace_to_closed_jaxpr(linear, [*saved_avals, *inputs, *tangent_avals],
                                                     jaxpr.debug_info.with_unknown_names())
        keep_inputs = [True] * len(saved_avals) + [False] * len(inputs) + [True] * len(tangent_avals)
        self.linear, live = dce_closed(linear_jaxpr, [True] * len(linear_jaxpr.out_avals), keep_inputs)
        self.reads_input = live[len(saved_avals):len(saved_avals) + len(inputs)]

    def log(self, jaxpr: Jaxpr) -> None:
        """Log the residuals: values that the policy saves, and arguments that are read again."""
        first = self.first.structure
        residuals = [f"{str_short(v.aval)} {_origin(first, v)[1]}" for v in first.outvars[self.count:]]
        residuals += [f"{str_short(a)} from argument {i}"
                      for i, (a, is_read) in enumerate(zip(jaxpr.in_avals, self.reads_input)) if is_read]
        log().warning("The derivative of a checkpointed function (%s) saves:%s", jaxpr.debug_info.label,
                      "".join([f"\n  {line}" for line in residuals]) or " nothing")


def _bind(jaxpr: Jaxpr, operands: Sequence[Any], prevent_cse: bool | Sequence[bool], differentiated: bool, policy: Any
          ) -> list:
    (jaxpr,), refs = references_as_inputs((jaxpr,), 0)
    if not isinstance(prevent_cse, bool):
        prevent_cse = (*[False] * len(refs), *prevent_cse)
    return remat_p.bind(*refs, *operands, **_params(jaxpr, prevent_cse, differentiated, policy))


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, prevent_cse: bool | Sequence[bool],
               differentiated: bool, policy: Any) -> tuple[Any, Any]:
    active = tuple(type(t) is not Zero for t in tangents)
    policy = policy_override.policy_or(policy)
    linearized = jaxpr.memoised(("checkpoint", active, policy), lambda: _LinearizedCheckpoint(jaxpr, active, policy))
    if config.log_checkpoint_residuals.value:
        linearized.log(jaxpr)
    outputs = _bind(linearized.first, primals, prevent_cse, differentiated, policy)
    if not isinstance(prevent_cse, bool):
        prevent_cse = (*[True] * linearized.num_saved,
                       *[flag for flag, is_read in zip(prevent_cse, linearized.reads_input) if is_read],
                       *[True] * sum(active))
    results, saved = outputs[:linearized.count], outputs[linearized.count:]
    out_tangents: Any = iter(())
    if any(linearized.outputs):
        out_tangents = iter(_bind(linearized.linear,
                                  [*saved, *[x for x, is_read in zip(primals, linearized.reads_input) if is_read],
                                   *[t for t in tangents if type(t) is not Zero]], prevent_cse, True, policy))
    return results, [next(out_tangents) if nonzero else Zero(a.to_tangent_aval())
                     for nonzero, a in zip(linearized.outputs, jaxpr.out_avals)]


def _impl(*args: Any, **params: Any) -> list[Any]:
    """Run a compiled call, or evaluate the jaxpr eagerly if it has operations that cannot be compiled, or calls that donate
    arguments."""
    closed = params["jaxpr"]
    if any([e.uncompiled for e in closed.effects]) or any_equation(closed.structure, "one by one", _needs_evaluation):
        return closed(*args)
    return evaluate(remat_p, args, params, closed)


def _needs_evaluation(eqn: JaxprEqn) -> bool:
    """True for an operation that cannot be compiled, and for a call that donates arguments."""
    primitive = eqn.primitive
    return (primitive.own_impl is not None and not primitive.lowerings and not primitive.traits.takes_refs
            or any(eqn.params.get("donated_invars", ())))


class _RematCall(ProgramCall):
    """A checkpointed call; `prevent_cse` says which operands are behind the barrier: all, none, or flags for each."""

    __slots__ = ()

    def derived(self, params: dict[str, Any], program: Jaxpr, ins: Sequence[Place], outs: Sequence[Place]
                ) -> dict[str, Any]:
        flags = params["prevent_cse"]
        if not isinstance(flags, bool):
            flags = tuple([True if i is None or i >= len(flags) else flags[i] for i in ins])
        return params | {"jaxpr": program, "prevent_cse": flags}


remat_p = _RematCall(
    "remat2", lower=_lower, shown_as="checkpoint", impl=_impl,
    structured=Structured(linearize=_linearize, debug_steps=lambda run, operands, params: run(params["jaxpr"], *operands)),
    # A recomputation is the same sample from a key, not a second use of it.
    traits=Traits(key_use=lambda eqn, use_of_program: ((), ["new"] * len(eqn.outvars)) if eqn.params["differentiated"] else (
        use_of_program(eqn.params["jaxpr"].structure))))


def checkpointed_jaxpr(jaxpr: Jaxpr, policy: Callable) -> Jaxpr:
    """Return a jaxpr that calls a jaxpr checkpointed by a policy, without a barrier: the body of a loop needs none."""
    return jaxpr.memoised(("checkpointed", policy), lambda: tracing.trace_to_closed_jaxpr(
        lambda *xs: remat_p.bind(*xs, **_params(jaxpr, False, False, policy)), jaxpr.in_avals, jaxpr.debug_info))


# Names of values, for policies

name_p = Primitive(
    "name", abstract=lambda x, *, name: x, lower=lambda ctx, x, *, name: x,
    jvp=lambda primals, tangents, *, name: (name_p.bind(primals[0], name=name), tangents[0]),
    batch=lambda size, xs, dims, *, name: (name_p.bind(xs[0], name=name), dims[0]), impl=lambda x, *, name: x,
    mesh=MeshRules(sharding_rule=sharding_rules.same, sums=of_first), traits=Traits(key_use=KeyUse.FORWARDS))


@boundary
def checkpoint_name(x: Any, name: str) -> Any:
    """Name a value, so that checkpoint policies can refer to it.

    Args:
        x: Pytree of arrays.
        name: Name of the value.

    Returns:
        `x`.

    Example:
        >>> y = checkpoint_name(xnp.ones(3), "activations")
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes the name as a string, got {name!r}.")
    leaves, treedef = tree.flatten(x)
    return treedef.unflatten([name_p.bind(leaf, name=name) for leaf in operands_of(leaves, "checkpoint_name", x)])


checkpoint_name_fwd = checkpoint_name  # names values in the forward computation, where policies look for all names


# Public


if TYPE_CHECKING:
    @overload
    def checkpoint(fun: _F, *, prevent_cse: bool | Sequence[bool] = True, policy: Callable | None = None,
                   static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()) -> _F: ...
    @overload
    def checkpoint(*, prevent_cse: bool | Sequence[bool] = True, policy: Callable | None = None,
                   static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()
                   ) -> Callable[[_F], _F]: ...


@boundary
def checkpoint(fun: Callable | None = None, *, prevent_cse: bool | Sequence[bool] = True, policy: Callable | None = None,
               static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()) -> Callable:
    """Recompute the intermediate values of a function for its derivative, instead of saving them in the forward computation.

    Args:
        fun: Function to checkpoint. If None, return a decorator.
        prevent_cse: If True, keep the compiler from merging the recomputation with the first computation. Not needed in the
            body of
            a `scan`. A sequence of booleans, a pytree prefix of the arguments, chooses for each argument.
        policy: Function that decides which results of operations are saved; see `checkpoint_policies`. Default: none.
        static_argnums: Positions of static arguments, which are passed as Python values.
        static_argnames: Names of static arguments.

    Returns:
        A function with the values and derivatives of `fun`.

    Example:
        >>> float(xf.grad(xf.checkpoint(lambda x: x ** 3))(2.0))
        12.0
    """
    if fun is None:
        return functools.partial(checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums,
                                 static_argnames=static_argnames)
    if not callable(fun):
        raise errors.not_callable("checkpoint", fun)
    if policy is not None and not callable(policy):
        raise TypeError(f"checkpoint takes a function or a member of checkpoint_policies as policy, got {policy!r}.")
    static = signatures.select_arguments(fun, "static", static_argnums, static_argnames or None)
    name = signatures.function_name(fun)

    @boundary
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if static and not _hashable([*[x for i, x in enumerate(args) if i in static.at(len(args))],
                                     *[x for key, x in kwargs.items() if key in static.names]]):
            bound, args, kwargs = _bind_static(fun, static, args, kwargs)
            return checkpoint(bound, prevent_cse=prevent_cse, policy=policy)(*args, **kwargs)
        call = signatures.split_call(fun, name, static, args, kwargs)
        if tracing.composites and mutable_composites.among(call.leaves):
            contents = mutable_composites.Contents.of(call.leaves)
            function = mutable_composites.function_of_components(fun, call, contents)
            function = checkpoint(function, policy=policy,
                                  prevent_cse=prevent_cse if isinstance(prevent_cse, bool) else True)
            result, new_contents = function(contents.arrays(), *contents.others)
            contents.finish(new_contents)
            return result
        leaves = []
        for i, x in enumerate(call.leaves):
            if not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"checkpoint of {name}", signatures.argument_names(fun, static, call.in_tree)[i])
            leaves.append(x)
        call_fun = _Call(fun, static, call.statics)
        with tracing_checkpoint():
            jaxpr, consts, out_tree = trace_function(call_fun, call.in_tree, [tracing.aval_of(x) for x in leaves],
                                                     "checkpoint / remat")
        operands = [*consts, *leaves]
        barrier: bool | tuple[bool, ...]
        if isinstance(prevent_cse, bool):
            barrier = prevent_cse
        else:
            flags = tree.leaves_by_prefix(f"checkpoint of {name}: prevent_cse", prevent_cse, args)
            barrier = (*[True] * len(consts), *flags, *[True] * (len(leaves) - len(flags)))
        results = remat_p.bind(*operands, **_params(jaxpr, barrier, False, policy))
        return out_tree.unflatten(_restore_scalars(jaxpr, operands, results))

    return signatures.copy_metadata(checkpointed, fun)


def _restore_scalars(closed: Jaxpr, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Replace forwarded results of an eager call that were Python scalars by these scalars."""
    restored = list(results)
    for result, operand, value in closed.memoised("handed through", lambda: _forwarded_results(closed.structure)):
        value = value if operand is None else operands[operand]
        if type(restored[result]) is ArrayImpl and type(value) in dtypes.python_scalar_dtypes:
            restored[result] = value
    return restored


def _forwarded_results(jaxpr: Jaxpr) -> list[tuple[int, int | None, Any]]:
    """Return `(result, operand, value)` for the results that are operands, or literals."""
    positions: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    return [(i, None, v.val) if type(v) is Literal else (i, positions[v], None)
            for i, v in enumerate(jaxpr.outvars) if type(v) is Literal or v in positions]


def _hashable(values: Iterable[Any]) -> bool:
    try:
        return hash(tuple(values)) is not None
    except TypeError:
        return False


def _bind_static(fun: Callable, static: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Callable, tuple, dict]:
    """Return a function of the dynamic arguments, with static arguments that cannot be part of a cache key filled in."""
    static_kwargs = {key: x for key, x in kwargs.items() if key in static.names}

    def bound(*dynamic: Any, **dynamic_kwargs: Any) -> Any:
        next_dynamic = iter(dynamic)
        return fun(*[x if i in static.at(len(args)) else next(next_dynamic) for i, x in enumerate(args)], **static_kwargs,
                   **dynamic_kwargs)

    bound.__name__ = signatures.function_name(fun)
    dynamic = tuple(x for i, x in enumerate(args) if i not in static.at(len(args)))
    return bound, dynamic, {key: x for key, x in kwargs.items() if key not in static.names}


class _Call(DerivedFunction):
    """A call of `fun` with static arguments filled in; its key is `(static arguments, their values)`."""

    __slots__ = ()

    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        args, kwargs = signatures.join_call(self.key[1], in_tree, leaves)
        return self.f(*args, **kwargs)

    @staticmethod
    def names(parameters: signatures.Parameters, key: tuple, in_tree: PyTreeDef) -> list[str]:
        return signatures.leaf_names(parameters, key[0], in_tree)


remat = checkpoint


def print_saved_residuals(f: Callable, *args: Any, **kwargs: Any) -> None:
    """Print the residuals that the derivative of a function saves, and their origins.

    Args:
        f: Function to differentiate.
        args: Positional arguments of `f`: arrays, or objects with shape and dtype.
        kwargs: Keyword arguments of `f`.

    Example:
        >>> print_saved_residuals(lambda x: xnp.sin(xnp.sin(x)), 1.0)  # doctest: +ELLIPSIS
        f32[] output of cos from ...
        f32[] output of cos from ...
    """
    for line in saved_residuals(f, *args, **kwargs):
        print(line)


def saved_residuals(f: Callable, *args: Any, **kwargs: Any) -> list[str]:
    """Return a line of text for each residual of the derivative of `f`."""
    leaves, in_tree = tree.flatten((args, kwargs))
    names = signatures.argument_names(f, signatures.Selection(), in_tree)
    avals = [tracing.aval_of(x) for x in leaves]

    def flat(*xs: tracing.StagedTracer) -> list[Any]:
        inner_args, inner_kwargs = in_tree.unflatten(xs)
        return signatures.check_results(f, f(*inner_args, **inner_kwargs))[0]

    closed = tracing.trace_to_closed_jaxpr(flat, avals)
    linearized = linearize_program(closed, (True,) * len(avals))
    count = len(closed.out_avals)
    computed = iter(linearized.forward.outvars[count:])
    lines: list[tuple[tuple[int, ...], str]] = []  # sorted: constants, arguments, results of equations
    for forwarded in linearized.forwarded_inputs:
        if forwarded is not None:
            lines.append(((1, forwarded), f"{str_short(avals[forwarded])} from the argument {names[forwarded]}"))
        else:
            v = next(computed)
            position, text = _origin(linearized.forward.structure, v)
            lines.append((position, f"{str_short(v.aval)} {text}"))
    return [text for _, text in sorted(lines, key=lambda pair: pair[0])]


def _origin(jaxpr: Jaxpr, v: Atom, site: source.Site | None = None) -> tuple[tuple[int, ...], str]:
    """Return the position of the equation that computes a value, and a description; `site` is the call site of the jaxpr,
    for equations without one."""
    if type(v) is Literal:
        return (0,), "from a literal"
    for i, eqn in enumerate(jaxpr.eqns):
        if v in eqn.outvars:
            inner, jitted = eqn.params.get("jaxpr"), eqn.params.get("inline", True) is not True
            if inner is not None and not jitted and len(inner.outvars) == len(eqn.outvars):
                inner_var = inner.outvars[eqn.outvars.index(v)]
                if type(inner_var) is not Literal and inner_var not in inner.invars:
                    position, text = _origin(inner.structure, inner_var, _known_site(eqn.site) or site)
                    return (2, i, *position), text
            location = source.with_column(_known_site(eqn.site) or site)
            name = f"jitted function {eqn.params['name']!r}" if jitted else eqn.primitive.name
            description = f"named {eqn.params['name']!r}" if eqn.primitive is name_p else f"output of {name}"
            return (2, i), f"{description} from {location}"
    return (0,), "from a constant"


def _known_site(site: source.Site | None) -> source.Site | None:
    return None if site is source.NOWHERE else site


# Policies


class _Policies:
    """Policies for `checkpoint(..., policy=...)`.

    The first members are policies; those with named parameters return policies.
    """

    @staticmethod
    def everything_saveable(*_: Any, **__: Any) -> bool:
        return True

    @staticmethod
    def nothing_saveable(*_: Any, **__: Any) -> bool:
        return False

    @staticmethod
    def dots_saveable(prim: Primitive, *_: Any, **__: Any) -> bool:
        return prim.traits.contracts

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
        return _is_unbatched_dot(prim, params)

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable:
        return _Policy("offload_dot_with_no_batch_dims", (offload_src, offload_dst), lambda prim, params: (
            Offloadable(offload_src, offload_dst) if _is_unbatched_dot(prim, params) else False))

    @staticmethod
    def save_only_these_names(*names_which_can_be_saved: str) -> Callable:
        names = frozenset(names_which_can_be_saved)
        return _Policy("save_only_these_names", names, lambda prim, params: prim is name_p and params["name"] in names)

    @staticmethod
    def save_any_names_but_these(*names_not_to_save: str) -> Callable:
        names = frozenset(names_not_to_save)
        return _Policy("save_any_names_but_these", names, lambda prim, params: prim is name_p and params["name"] not in names)

    @staticmethod
    def save_anything_except_these_names(*names_not_to_save: str) -> Callable:
        names = frozenset(names_not_to_save)
        return _Policy("save_anything_except_these_names", names,
                       lambda prim, params: prim is not name_p or params["name"] not in names)

    @staticmethod
    def save_from_both_policies(policy_1: Callable, policy_2: Callable) -> Callable:
        def either(prim: Primitive, *avals: Aval, **params: Any) -> Any:
            first = policy_1(prim, *avals, **params)
            return first if first not in (False, Recompute) else policy_2(prim, *avals, **params)

        return either

    @staticmethod
    def save_and_offload_only_these_names(*, names_which_can_be_saved: Sequence[str],
                                          names_which_can_be_offloaded: Sequence[str], offload_src: str, offload_dst: str
                                          ) -> Callable:
        saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
        both = saved & offloaded
        if both:
            raise ValueError(
                f"save_and_offload_only_these_names got {sorted(both)} both to save and to offload: pass each name "
                             f"once.")

        def decide(prim: Primitive, params: Params) -> _SaveDecision | Offloadable:
            if prim is not name_p:
                return Recompute
            if params["name"] in offloaded:
                return Offloadable(offload_src, offload_dst)
            return Saveable if params["name"] in saved else Recompute

        return _Policy("save_and_offload_only_these_names", (saved, offloaded, offload_src, offload_dst), decide)


class _Policy:
    """A policy with arguments. Policies with equal arguments are equal, so that cached traces are found."""

    __slots__ = ("name", "arguments", "decide")

    def __init__(self, name: str, arguments: Any, decide: Callable) -> None:
        self.name, self.arguments, self.decide = name, arguments, decide

    def __call__(self, prim: Primitive, *avals: Aval, **params: Any) -> Any:
        return self.decide(prim, params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Policy) and (self.name, self.arguments) == (other.name, other.arguments)

    def __hash__(self) -> int:
        return hash((self.name, self.arguments))

    def __repr__(self) -> str:
        shown = sorted(self.arguments) if isinstance(self.arguments, frozenset) else list(self.arguments)
        return f"{self.name}({', '.join(map(repr, shown))})"


def _is_unbatched_dot(prim: Primitive, params: Params) -> bool:
    return prim is dot_general_p and not params["dimension_numbers"][1][0]


checkpoint_policies = _Policies()

__all__ = ["Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_name_fwd",
           "checkpoint_policies", "name_p", "print_saved_residuals", "remat"]
