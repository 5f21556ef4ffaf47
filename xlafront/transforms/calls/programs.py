"""Functions as programs within programs: what loops, branches, `checkpoint` and custom rules share.

`trace_function` traces a user's function once for each combination of types. The rest takes such programs apart:
which results depend on which inputs, what can be computed beforehand, how a program runs outside of any trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import AbstractValue
from xlafront.core.ir import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.refs import is_ref
from xlafront.lax.all_reductions import pvary_p
from xlafront.lax.barriers import stop_gradient_p
from xlafront.lax.elementwise import convert_element_type_p
from xlafront.runtime import config
from xlafront.staging import signatures
from xlafront.staging.caches import TracedCall, shared_caches
from xlafront.staging.compiling import constants_as_arguments
from xlafront.staging.jitted import Jitted, Options
from xlafront.staging.outlining import without_inlined_calls


class DerivedFunction:
    """A function made from a user's, traced once for the same user's function and the same `key`.

    Those that are not `remembered` are traced for themselves: what the user's function reads may have changed since.
    """

    __slots__ = ("f", "key", "__name__", "__wrapped__", "__weakref__")
    remembered = True
    role: str | None = None  # of such a function, in place of that which it is traced for

    def __init__(self, f: Callable, *key):
        self.f = self.__wrapped__ = f
        self.key = key
        self.__name__ = signatures.function_name(f)

    @staticmethod
    def names(parameters: signatures.Parameters, key: tuple, in_tree) -> list[str]:
        """The names of the flat arguments, where `f` has these parameters."""
        return _argument_names(signatures.Parameters(), key, in_tree)


def _argument_names(parameters: signatures.Parameters, key: tuple, in_tree) -> list[str]:
    positional = tree.numbered(in_tree)
    return signatures.leaf_names(parameters, signatures.Selection(), tree.structure((positional, {})))


def references_as_inputs(programs: Sequence[ClosedJaxpr], at: int) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
    """Programs with the references that rules in them close over as inputs from number `at` on, and those references."""
    refs = {id(x): x for program in programs for x in program.consts if is_ref(x)}
    if not refs:
        return tuple(programs), []
    made = []
    for program in programs:
        own = {id(x): v for v, x in zip(program.jaxpr.constvars, program.consts)}
        inputs, invars = [own.get(key) or Var(x.aval) for key, x in refs.items()], program.jaxpr.invars
        rest = [(v, x) for v, x in zip(program.jaxpr.constvars, program.consts) if id(x) not in refs]
        made.append(ClosedJaxpr(program.jaxpr.replace(constvars=[v for v, _ in rest], invars=[
            *invars[:at], *inputs, *invars[at:]]), [x for _, x in rest]))
    return tuple(made), list(refs.values())


def trace_function(fun: Callable, in_tree, in_avals: Sequence[AbstractValue], role: str, evaluate: Any = None
                   ) -> tuple[ClosedJaxpr, list, Any]:
    """`fun` of the arguments in `in_tree` as a program whose constants are leading arguments; those; the result's tree.

    `role` is what the function is to the operation, in the words of programs. A function is traced once for the same types,
    unless `evaluate` (see `StagingTrace`) was `used` to know values.
    """
    owner, kind = (fun.f, (type(fun), fun.key)) if isinstance(fun, DerivedFunction) and fun.remembered else (fun, ())
    caches = shared_caches(owner, ("program", role, kind))
    key = (in_tree, tuple(in_avals), config.trace_context_key(), tracing.thread.axes)
    found = caches.traces.get(key)
    if found is None:
        out_tree = None

        def flat(*tracers):
            nonlocal out_tree
            results, out_tree = signatures.check_results(fun, fun(*tree.unflatten(in_tree, tracers)))
            return results

        # (the caches must not keep alive what they are keyed on)
        names, derivation, written_as = _argument_names, (), signatures.written_as(fun)
        if isinstance(fun, DerivedFunction):
            names, derivation, role = fun.names, fun.key, fun.role or role
        debug_info = DebugInfo(
            role, signatures.function_name(fun), written_as[0],
            lambda: names(signatures.Parameters.of_code(*written_as), derivation, in_tree), lambda: tree.result_paths(out_tree))
        jaxpr, consts = tracing.trace_to_jaxpr(flat, in_avals, debug_info, evaluate)
        found = TracedCall(ClosedJaxpr(jaxpr, consts), out_tree, tuple(in_avals), debug_info)
        if not any(isinstance(c, tracing.Tracer) for c in consts) and not (evaluate is not None and evaluate.used):
            caches.traces[key] = found
    program, consts = constants_as_arguments(found.closed)
    return program, consts, found.out_tree


def operands_of(leaves: Sequence[Any], name: str, whole: Any) -> list[Any]:
    """Leaves of `whole` as operands; an error names the one that is not an array."""
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, name, tree.path_of(whole, i))
    return list(leaves)


def in_three(items: Sequence[Any], first: int, second: int) -> tuple[list, list, list]:
    """The first items, as many after them, and the rest."""
    return list(items[:first]), list(items[first:first + second]), list(items[first + second:])


def same_type(x: AbstractValue, y: AbstractValue) -> bool:
    """Equal but for weak types, and along which axes of a `shard_map` values vary."""
    if x is y or x.is_high or y.is_high:
        return x == y
    return x.shape == y.shape and x.dtype == y.dtype and _split_alike(x, y)


def with_weak_types(closed: ClosedJaxpr, wanted: Sequence[AbstractValue | None]) -> ClosedJaxpr:
    """The program whose results have the weak types of `wanted` (shapes and dtypes agree already), and vary over the axes
    that those do."""
    if all(w is None or w is a or w.weak_type == a.weak_type and w.vma <= a.vma for w, a in zip(wanted, closed.out_avals)):
        return closed
    jaxpr = closed.jaxpr

    def make():
        outvars, eqns = list(jaxpr.outvars), list(jaxpr.eqns)
        for i, (v, w) in enumerate(zip(jaxpr.outvars, wanted)):
            if w is not None and v.aval.weak_type != w.weak_type:
                outvars[i] = Var(v.aval.update(weak_type=w.weak_type))
                eqns.append(JaxprEqn([v], [outvars[i]], convert_element_type_p, {
                    "new_dtype": v.aval.dtype, "weak_type": w.weak_type, "sharding": None}))
            v = outvars[i]
            if w is not None and not w.vma <= v.aval.vma:
                outvars[i] = Var(v.aval.update(vma=v.aval.vma | w.vma))
                eqns.append(JaxprEqn([v], [outvars[i]], pvary_p, {"axes": tuple(sorted(w.vma - v.aval.vma, key=str))}))
        return closed.replace(jaxpr=jaxpr.replace(outvars=outvars, eqns=eqns))

    return jaxpr.memoised(("weak", tuple(None if w is None else (w.weak_type, w.vma) for w in wanted)), make)


def vary(x, axes: frozenset):
    """The value as one that may differ along mesh axes, as the types inside of a `shard_map` say."""
    missing = axes - tracing.aval_of(x).vma
    return pvary_p.bind(x, axes=tuple(sorted(missing, key=str))) if missing else x


def on_varying(closed: ClosedJaxpr, axes: frozenset) -> ClosedJaxpr:
    """The program of values that all differ along these mesh axes."""
    def make():
        def run(*xs):
            return [vary(x, axes) for x in jaxpr_as_fun(closed)(*xs)]

        return tracing.trace_to_closed_jaxpr(run, [a.update(vma=a.vma | axes) for a in closed.in_avals], closed.debug_info)

    return closed.jaxpr.memoised(("varying", axes, tracing.thread.axes), make)


def of_library(fun: Callable) -> bool:
    """Whether a function is the library's own: in its loops and branches constants vary as what they meet does, of which users
    are asked to take note with `pcast`."""
    inner = fun.f if isinstance(fun, DerivedFunction) else fun
    return (getattr(inner, "__module__", None) or "").partition(".")[0] == __name__.partition(".")[0]


def type_mismatches(what: str, given: Sequence[AbstractValue], found: Sequence[AbstractValue], path: Callable[[int], str],
                    first: str, second: str, vary: bool = True) -> list[str]:
    """A line for each pair of types that differ by more than weak types, or, unless `vary`, along which axes values vary."""
    lines = []
    for i, (x, y) in enumerate(zip(given, found)):
        if not same_type(x, y) or vary and x.vma != y.vma:
            words = (("shapes", x.shape != y.shape), ("dtypes", x.dtype != y.dtype))
            how = " and ".join([word for word, differ in words if differ])
            if how:
                how = f"{how} do not match"
            elif x.vma != y.vma:
                how = (f"they do not match, as they vary along different mesh axes: give both what the other has with pcast(x, "
                       f"{tuple(sorted(map(str, x.vma ^ y.vma)))}, to='varying')")
            else:
                how = "they are split differently: bring one to the sharding of the other with reshard"
            lines.append(f"{what}{path(i)} is {x} {first} but {y} {second} ({how})")
    return lines


def _split_alike(x: AbstractValue, y: AbstractValue) -> bool:
    if x.explicit_sharding is None or y.explicit_sharding is None:
        return x.explicit_sharding is y.explicit_sharding
    return x.explicit_sharding.spec == y.explicit_sharding.spec


# Which results depend on what


def active_results(jaxpr: Jaxpr, active: Sequence[bool]) -> list[bool]:
    """Which results may have a tangent when these inputs have one. Errs on the side of yes."""
    carriers = {v for v, a in zip(jaxpr.invars, active) if a}
    for eqn in jaxpr.eqns:
        marks = [type(v) is not Literal and v in carriers for v in eqn.invars]
        if eqn.primitive is not stop_gradient_p and any(marks):
            flags = _moved(eqn, marks)
            carriers.update([v for v, f in zip(eqn.outvars, flags) if f and _has_tangent(v.aval)])
    return [type(v) is not Literal and v in carriers for v in jaxpr.outvars]


def _moved(eqn: JaxprEqn, marks: Sequence[bool]) -> Sequence[bool]:
    """Which results of an operation may have a tangent when these operands have one."""
    primitive = eqn.primitive
    if isinstance(primitive, ProgramCall):
        jaxpr = eqn.params[primitive.parameter].jaxpr
        return jaxpr.memoised(("moves with", tuple(marks)), lambda: active_results(jaxpr, marks))
    if primitive.moves_with is not None:
        return primitive.moves_with(marks, **eqn.params)
    return [True] * len(eqn.outvars)


def _has_tangent(aval) -> bool:
    return aval.is_high or dtypes.tangent_dtype(aval.dtype) != dtypes.float0


def fixpoint(start: Sequence[bool], grow: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """The least set of flags that contains `start` and is closed under `grow`."""
    flags = list(start)
    while True:
        more = [a or b for a, b in zip(flags, grow(flags))]
        if more == flags:
            return flags
        flags = more


# Programs from programs


def reorder(closed: ClosedJaxpr, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None) -> ClosedJaxpr:
    """The program with its inputs in another order, and of its results those asked for."""
    jaxpr = closed.jaxpr
    invars = jaxpr.invars if inputs is None else [jaxpr.invars[i] for i in inputs]
    outvars = jaxpr.outvars if outputs is None else [jaxpr.outvars[i] for i in outputs]
    return closed.replace(jaxpr=jaxpr.replace(invars=invars, outvars=outvars))


def _varying(jaxpr: Jaxpr, constant: Sequence[bool]) -> set:
    """What depends on inputs that are not constant, or happens each time."""
    found = {v for v, c in zip(jaxpr.invars, constant) if not c}
    for eqn in jaxpr.eqns:
        if eqn.effects or any([v in found for v in eqn.invars if type(v) is not Literal]):
            found.update(eqn.outvars)
    return found


def split_invariant(closed: ClosedJaxpr, constant: Sequence[bool], wanted: Sequence[bool]
                    ) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool]]:
    """Take out of a program what leads to wanted results and depends on constant inputs only.

    Returns `before(constant inputs) -> hoisted values`, `rest(hoisted values, inputs) -> other results`, and which
    results are hoisted: the first of `before`'s results, in order.
    """
    jaxpr = closed.jaxpr
    varying = _varying(jaxpr, constant)
    asked = {v for v, w in zip(jaxpr.outvars, wanted) if w and type(v) is not Literal}
    if any([eqn.primitive.calls_program and not asked.isdisjoint(eqn.outvars) and not varying.issuperset(
            [v for v in eqn.invars if type(v) is not Literal]) for eqn in jaxpr.eqns]):
        jaxpr = without_inlined_calls(jaxpr)  # a function of the library may give both, as `solve` does factors of a matrix
        varying = _varying(jaxpr, constant)
    hoisted = [bool(w) and (type(v) is Literal or v not in varying) for v, w in zip(jaxpr.outvars, wanted)]
    needed = {v for v, h in zip(jaxpr.outvars, hoisted) if h and type(v) is not Literal}
    early = []
    for eqn in reversed(jaxpr.eqns):
        if any(v in needed for v in eqn.outvars):
            early.append(eqn)
            needed.update(v for v in eqn.invars if type(v) is not Literal)
    early.reverse()
    taken = set(map(id, early))
    late = [eqn for eqn in jaxpr.eqns if id(eqn) not in taken]
    left = [v for v, h in zip(jaxpr.outvars, hoisted) if not h]
    read = {v for eqn in late for v in eqn.invars if type(v) is not Literal} | {v for v in left if type(v) is not Literal}
    passed = [v for eqn in early for v in eqn.outvars if v in read]
    inputs = [v for v, c in zip(jaxpr.invars, constant) if c]
    before = jaxpr.replace(invars=inputs, eqns=early,
                           outvars=[*[v for v, h in zip(jaxpr.outvars, hoisted) if h], *passed])
    rest = jaxpr.replace(invars=[*passed, *jaxpr.invars], eqns=late, outvars=left)
    return ClosedJaxpr(before, closed.consts), ClosedJaxpr(rest, closed.consts), hoisted


# Outside of any trace


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], jaxpr: Jaxpr) -> list[Any]:
    """Run an operation that contains `jaxpr`: compiled once, and forgotten together with that program."""
    def make():
        def apply(*operands):
            return primitive.bind(*operands, **params)

        apply.__name__ = primitive.name
        return Jitted(apply, Options(), primitive.name, True)

    return jaxpr.memoised_with((), ("compiled", *map(_identity, params.values())), make).evaluate(*args)[0]


def _identity(parameter):
    """A parameter in a key: programs by identity. `params`, which what is kept holds, has the constants."""
    if isinstance(parameter, ClosedJaxpr):
        return (parameter.jaxpr, *map(id, parameter.consts))
    return tuple(map(_identity, parameter)) if isinstance(parameter, tuple) else parameter
