"""Functions as jaxprs inside of equations, shared by loops, branches, `checkpoint` and custom rules.

`trace_function` traces a user's function once for each combination of types. The other functions analyze and transform such
jaxprs: dependences, loop-invariant parts, reordered inputs and outputs, evaluation outside of any trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlafront.base import config
from xlafront.base.meshes import active
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import AbstractValue
from xlafront.core.basic_primitives import convert_element_type_p, pvary_p
from xlafront.core.ir import Jaxpr, JaxprEqn, Literal, Var, backward, forward, last_reads
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.refs import is_ref
from xlafront.lax.barriers import stop_gradient_p
from xlafront.staging import signatures
from xlafront.staging.call_tracing import TracedCall, shared_caches
from xlafront.staging.compiling import constants_as_arguments
from xlafront.staging.jitted import Jitted, Options
from xlafront.staging.outlining import without_inlined_calls

if TYPE_CHECKING:
    from xlafront.core.tree import PyTreeDef


class DerivedFunction:
    """A function derived from a user's function; traces are cached by the user's function and `key`.

    If `remembered` is False, it is retraced each time, because state that the user's function reads may have changed.
    """

    __slots__ = ("f", "key", "__name__", "__wrapped__", "__weakref__")
    remembered = True
    role: str | None = None  # role shown in place of the one that it is traced for

    def __init__(self, f: Callable, *key: Any) -> None:
        self.f = self.__wrapped__ = f
        self.key = key
        self.__name__ = signatures.function_name(f)

    @staticmethod
    def names(parameters: signatures.Parameters, key: tuple, in_tree: PyTreeDef) -> list[str]:
        """Return the names of the flat arguments if `f` has these parameters."""
        return _argument_names(signatures.Parameters(), key, in_tree)


def _argument_names(parameters: signatures.Parameters, key: tuple, in_tree: PyTreeDef) -> list[str]:
    positional = tree.leaf_indices(in_tree)
    return signatures.leaf_names(parameters, signatures.Selection(), tree.structure((positional, {})))


def references_as_inputs(jaxprs: Sequence[Jaxpr], at: int) -> tuple[tuple[Jaxpr, ...], list[Any]]:
    """Return jaxprs in which closed-over Refs are inputs from position `at` on, and those Refs."""
    refs = {id(x): x for closed in jaxprs for x in closed.consts if is_ref(x)}
    if not refs:
        return tuple(jaxprs), []
    converted = []
    for closed in jaxprs:
        const_vars = {id(x): v for v, x in zip(closed.constvars, closed.consts)}
        inputs, invars = [const_vars.get(key) or Var(x.aval) for key, x in refs.items()], closed.invars
        other_consts = [(v, x) for v, x in zip(closed.constvars, closed.consts) if id(x) not in refs]
        converted.append(closed.replace(constvars=[v for v, _ in other_consts], consts=[x for _, x in other_consts],
                                        invars=[*invars[:at], *inputs, *invars[at:]]))
    return tuple(converted), list(refs.values())


def trace_function(fun: Callable, in_tree: PyTreeDef, in_avals: Sequence[AbstractValue], role: str, evaluate: Any = None
                   ) -> tuple[Jaxpr, list, Any]:
    """Trace `fun` and return its jaxpr with constants as leading inputs, the constants, and the tree of the result.

    `role` describes the function in debug information. Traces are cached by argument types and the active mesh, unless
    `evaluate` (see `StagingTrace`) has `used` values.
    """
    owner, kind = (fun.f, (type(fun), fun.key)) if isinstance(fun, DerivedFunction) and fun.remembered else (fun, ())
    caches = shared_caches(owner, ("program", role, kind))
    key = (in_tree, tuple(in_avals), config.trace_context_key(), tracing.thread.axes, active.mesh)
    traced = caches.traces.get(key)
    if traced is None:
        out_tree = None

        def flat(*tracers: tracing.StagedTracer) -> list[Any]:
            nonlocal out_tree
            results, out_tree = signatures.check_results(fun, fun(*tree.unflatten(in_tree, tracers)))
            return results

        # Debug information must not hold `fun`: the caches are keyed on it weakly.
        names, derivation = _argument_names, ()
        if isinstance(fun, DerivedFunction):
            names, derivation, role = fun.names, fun.key, fun.role or role
        debug_info = signatures.make_debug_info(
            role, fun, lambda parameters: names(parameters, derivation, in_tree), lambda: out_tree)
        jaxpr, consts = tracing.trace_to_jaxpr(flat, in_avals, debug_info, evaluate)
        traced = TracedCall(jaxpr.with_consts(consts), out_tree, tuple(in_avals), debug_info)
        if not any(isinstance(c, tracing.Tracer) for c in consts) and not (evaluate is not None and evaluate.used):
            caches.traces[key] = traced
    closed, consts = constants_as_arguments(traced.closed)
    return closed, consts, traced.out_tree


def operands_of(leaves: Sequence[Any], name: str, pytree: Any) -> list[Any]:
    """Return leaves of `pytree` as operands; raise an error that names the first one that is not an array."""
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, name, tree.path_of(pytree, i))
    return list(leaves)


def split_in_three(items: Sequence[Any], first: int, second: int) -> tuple[list, list, list]:
    """Split items into the first `first`, the next `second`, and the rest."""
    return list(items[:first]), list(items[first:first + second]), list(items[first + second:])


def same_type(x: AbstractValue, y: AbstractValue) -> bool:
    """True if two types are equal up to weak types and the axes along which values vary."""
    if x is y or x.is_high or y.is_high:
        return x == y
    return x.shape == y.shape and x.dtype == y.dtype and _same_sharding(x, y)


def with_weak_types(closed: Jaxpr, expected: Sequence[AbstractValue | None]) -> Jaxpr:
    """Return the jaxpr whose results have the weak types of `expected` (shapes and dtypes agree already), and vary at least
    over the axes of those."""
    if all(w is None or w is a or w.weak_type == a.weak_type and w.vma <= a.vma for w, a in zip(expected, closed.out_avals)):
        return closed

    def make() -> Jaxpr:
        outvars, eqns = list(closed.outvars), list(closed.eqns)
        for i, (v, w) in enumerate(zip(closed.outvars, expected)):
            if w is not None and v.aval.weak_type != w.weak_type:
                outvars[i] = Var(v.aval.update(weak_type=w.weak_type))
                eqns.append(JaxprEqn([v], [outvars[i]], convert_element_type_p, {
                    "new_dtype": v.aval.dtype, "weak_type": w.weak_type, "sharding": None}))
            v = outvars[i]
            if w is not None and not w.vma <= v.aval.vma:
                outvars[i] = Var(v.aval.update(vma=v.aval.vma | w.vma))
                eqns.append(JaxprEqn([v], [outvars[i]], pvary_p, {"axes": tuple(sorted(w.vma - v.aval.vma, key=str))}))
        return closed.replace(outvars=outvars, eqns=eqns)

    return closed.memoised(("weak", tuple(None if w is None else (w.weak_type, w.vma) for w in expected)), make)


def vary(x: Any, axes: frozenset) -> Any:
    """Return the value typed as varying over the given mesh axes of a `shard_map`."""
    missing = axes - tracing.aval_of(x).vma
    return pvary_p.bind(x, axes=tuple(sorted(missing, key=str))) if missing else x


def on_varying(closed: Jaxpr, axes: frozenset) -> Jaxpr:
    """Return the jaxpr whose inputs and outputs vary over the given mesh axes."""
    return tracing.derive(closed, ("varying", axes, tracing.thread.axes), lambda *xs: [vary(x, axes) for x in closed(*xs)],
                          [a.update(vma=a.vma | axes) for a in closed.in_avals])


def is_internal(fun: Callable) -> bool:
    """True if a function is defined in xlafront. In internal loops and branches, constants take the varying axes of the
    values that they are combined with; users have to write `pcast`."""
    function = fun.f if isinstance(fun, DerivedFunction) else fun
    return (getattr(function, "__module__", None) or "").partition(".")[0] == __name__.partition(".")[0]


def type_mismatches(name: str, types: Sequence[AbstractValue], other_types: Sequence[AbstractValue], path: Callable[[int], str],
                    first_role: str, second_role: str, vary: bool = True) -> list[str]:
    """Describe each pair of types that differ by more than weak types and, if `vary` is True, varying axes."""
    lines = []
    for i, (x, y) in enumerate(zip(types, other_types)):
        if not same_type(x, y) or vary and x.vma != y.vma:
            aspects = (("shapes", x.shape != y.shape), ("dtypes", x.dtype != y.dtype))
            difference = " and ".join([word for word, differ in aspects if differ])
            if difference:
                difference = f"{difference} do not match"
            elif x.vma != y.vma:
                difference = (
                    f"they do not match, as they vary along different mesh axes: give both what the other has with pcast(x, "
                              f"{tuple(sorted(map(str, x.vma ^ y.vma)))}, to='varying')")
            else:
                difference = "they are sharded differently: give both the same sharding with reshard"
            lines.append(f"{name}{path(i)} is {x} {first_role} but {y} {second_role} ({difference})")
    return lines


def _same_sharding(x: AbstractValue, y: AbstractValue) -> bool:
    if x.explicit_sharding is None or y.explicit_sharding is None:
        return x.explicit_sharding is y.explicit_sharding
    return x.explicit_sharding.spec == y.explicit_sharding.spec


# Dependence analysis


def active_results(jaxpr: Jaxpr, active: Sequence[bool]) -> list[bool]:
    """Return which results may have a tangent if these inputs have one (conservative)."""
    active_vars = forward(jaxpr.eqns, [v for v, a in zip(jaxpr.invars, active) if a], _active_eqn_outputs)
    return [v in active_vars for v in jaxpr.outvars]


def _active_eqn_outputs(eqn: JaxprEqn, active: Sequence[bool]) -> Sequence[bool]:
    """Return which results of an equation may have a tangent if these operands have one."""
    primitive = eqn.primitive
    if primitive is stop_gradient_p:
        return [False]
    flags: Sequence[bool] = [True] * len(eqn.outvars)
    if isinstance(primitive, ProgramCall):
        jaxpr = eqn.params[primitive.parameter].structure
        flags = jaxpr.memoised(("moves with", tuple(active)), lambda: active_results(jaxpr, active))
    elif primitive.structured.active_outputs is not None:
        flags = primitive.structured.active_outputs(active, **eqn.params)
    return [f and _has_tangent(v.aval) for v, f in zip(eqn.outvars, flags)]


def _has_tangent(aval: Any) -> bool:
    return aval.is_high or dtypes.tangent_dtype(aval.dtype) != dtypes.float0


def fixpoint(start: Sequence[bool], grow: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """Return the least set of flags that contains `start` and is closed under `grow`."""
    flags = list(start)
    while True:
        more = [a or b for a, b in zip(flags, grow(flags))]
        if more == flags:
            return flags
        flags = more


# Derived jaxprs


def reorder(closed: Jaxpr, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None) -> Jaxpr:
    """Return the jaxpr with the inputs and outputs at these positions, in this order."""
    invars = closed.invars if inputs is None else [closed.invars[i] for i in inputs]
    outvars = closed.outvars if outputs is None else [closed.outvars[i] for i in outputs]
    return closed.replace(invars=invars, outvars=outvars)


def _variant_vars(jaxpr: Jaxpr, constant: Sequence[bool]) -> set:
    """Return the variables that depend on non-constant inputs or on effects."""
    effectful = [v for eqn in jaxpr.eqns if eqn.effects for v in eqn.outvars]
    return forward(jaxpr.eqns, [*effectful, *[v for v, c in zip(jaxpr.invars, constant) if not c]])


def split_invariant(jaxpr: Jaxpr, constant: Sequence[bool], selected: Sequence[bool]
                    ) -> tuple[Jaxpr, Jaxpr, list[bool]]:
    """Hoist the selected results that depend on constant inputs only.

    Returns the jaxpr `before(constant inputs) -> (hoisted results, passed values)`, the jaxpr `rest(passed values, inputs) ->
    other
    results`, and which results are hoisted.
    """
    variant = _variant_vars(jaxpr, constant)
    selected_vars = {v for v, w in zip(jaxpr.outvars, selected) if w and type(v) is not Literal}
    if any([eqn.primitive.structured.only_calls_program and not selected_vars.isdisjoint(eqn.outvars)
            and not variant.issuperset(
            [v for v in eqn.invars if type(v) is not Literal]) for eqn in jaxpr.eqns]):
        jaxpr = without_inlined_calls(jaxpr)  # an internal function may compute both, e.g. `solve` factors a matrix
        variant = _variant_vars(jaxpr, constant)
    hoisted = [bool(w) and (type(v) is Literal or v not in variant) for v, w in zip(jaxpr.outvars, selected)]
    early, _ = backward(jaxpr.eqns, [v for v, h in zip(jaxpr.outvars, hoisted) if h])
    early_ids = set(map(id, early))
    late = [eqn for eqn in jaxpr.eqns if id(eqn) not in early_ids]
    late_outvars = [v for v, h in zip(jaxpr.outvars, hoisted) if not h]
    late_reads = last_reads(jaxpr.replace(eqns=late, outvars=late_outvars))
    passed = [v for eqn in early for v in eqn.outvars if v in late_reads]
    constant_inputs = [v for v, c in zip(jaxpr.invars, constant) if c]
    before = jaxpr.replace(invars=constant_inputs, eqns=early,
                           outvars=[*[v for v, h in zip(jaxpr.outvars, hoisted) if h], *passed])
    rest = jaxpr.replace(invars=[*passed, *jaxpr.invars], eqns=late, outvars=late_outvars)
    return before, rest, hoisted


# Eager evaluation


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], jaxpr: Jaxpr) -> list[Any]:
    """Run an operation that contains `jaxpr` in a compiled function that is cached with that jaxpr."""
    def make() -> Jitted:
        def apply(*operands: Any) -> Any:
            return primitive.bind(*operands, **params)

        apply.__name__ = primitive.name
        return Jitted(apply, Options(), primitive.name, True)

    return jaxpr.memoised_with((), ("compiled", *map(_key_of, params.values())), make).evaluate(*args)[0]


def _key_of(parameter: Any) -> Any:
    """Return a parameter as part of a cache key: jaxprs by identity. The cached function holds `params`, which keeps the
    constants alive."""
    if isinstance(parameter, Jaxpr):
        return (parameter.structure, *map(id, parameter.consts))
    return tuple(map(_key_of, parameter)) if isinstance(parameter, tuple) else parameter
