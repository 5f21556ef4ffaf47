"""The program representation: typed, functional, single-assignment.

A `Jaxpr` is a list of equations over variables; a `ClosedJaxpr` is one together with the values of its
constant variables. Printing is in `ir_text`, checking in `ir_check`.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from xlafront.core import ir_text, source
from xlafront.core.memo import Memo

no_effects: frozenset = frozenset()


class Effect:
    """Base of what an equation can do besides computing its results.

    `ordered` effects of one kind happen in program order, also in programs over several devices where they are
    `ordered_over_devices`; `droppable` ones do not keep an equation alive; `repeatable` ones
    happen again where what they belong to is computed again; `uncompiled` ones are none of a compiled program, so that what is
    compiled only to be fast runs operation by operation.
    """

    ordered = False
    ordered_over_devices = False
    droppable = False
    repeatable = False
    uncompiled = False


class RefEffect(Effect):
    """What an operation does to a reference: in equations and programs to a variable, in what a primitive's `effects` rule
    returns to the operand of that number."""

    __slots__ = ("ref",)

    def __init__(self, ref: Var | int):
        self.ref = ref

    def __eq__(self, other):
        return type(other) is type(self) and other.ref == self.ref

    def __hash__(self):
        return hash((type(self), self.ref))

    def __repr__(self):
        return f"{type(self).__name__}({self.ref})"


class ReadEffect(RefEffect):
    """The reference is read."""

    __slots__ = ()

    droppable = True


class WriteEffect(RefEffect):
    """The reference is written, or read and written."""

    __slots__ = ()


class AccumEffect(RefEffect):
    """Something is added to the reference."""

    __slots__ = ()


class InternalRefEffect(Effect):
    """References are made inside; who calls the program does not see them."""

    droppable = True

    def __repr__(self):
        return "InternalRefEffect()"


internal_refs = InternalRefEffect()


def effects_by_operand(program: Jaxpr | ClosedJaxpr, first: int = 0) -> frozenset:
    """The effects of a program, as those of an equation whose operands from number `first` on are the program's inputs."""
    effects = program.effects
    if effects:
        place = {v: first + i for i, v in enumerate(getattr(program, "jaxpr", program).invars)}
        effects = frozenset([type(e)(place[e.ref]) if isinstance(e, RefEffect) else e for e in effects
                             if not isinstance(e, RefEffect) or e.ref in place])
    return effects


def effects_on(effects: frozenset, invars: Sequence[Atom]) -> frozenset:
    """What a primitive's `effects` rule says, of the operands of an equation."""
    return frozenset([type(e)(invars[e.ref]) if isinstance(e, RefEffect) else e for e in effects])  # type: ignore[index]


def effects_outside(effects: frozenset, inputs: Sequence[Var]) -> frozenset:
    """The effects of equations as those of the program of these inputs: references made inside are its own business."""
    if not any([isinstance(e, RefEffect) for e in effects]):
        return effects
    known = set(inputs)
    return frozenset([e for e in effects if not isinstance(e, RefEffect) or e.ref in known])


class Var:
    """A variable; its identity is its name."""

    __slots__ = ("aval",)

    is_literal = False

    def __init__(self, aval):
        self.aval = aval

    def __repr__(self):
        return f"Var({self.aval})"


class DropVar(Var):
    """A result that nobody reads, printed `_`."""

    __slots__ = ()

    def __repr__(self):
        return "_"


class Literal:
    """A scalar constant written in place."""

    __slots__ = ("val", "aval")

    is_literal = True

    def __init__(self, val, aval):
        self.val = val
        self.aval = aval

    def __repr__(self):
        return f"Literal({self.val})"


Atom = Var | Literal
ParamDict = dict[str, Any]
Value = Any


class EquationContext:
    """Settings that belong to an equation. Here they are parameters of the primitives, so there is nothing to restore."""

    __slots__ = ()

    compute_type = None
    xla_metadata = None
    manager = property(lambda self: contextlib.nullcontext())


equation_context = EquationContext()


class JaxprEqn:
    """`outvars = primitive[params] invars`, with its effects and the user's call site.

    Extensions make some with a `SourceInfo` for the site, and then give a context, that of another equation."""

    __slots__ = ("invars", "outvars", "primitive", "params", "effects", "site")

    def __init__(self, invars, outvars, primitive, params, effects=no_effects, site=None, ctx=None):
        if ctx is not None:
            effects, site = frozenset(effects), getattr(site, "site", None)
        self.invars: list[Atom] = invars
        self.outvars: list[Var] = outvars
        self.primitive = primitive
        self.params: dict[str, Any] = params
        self.effects: frozenset = effects
        self.site = site

    @property
    def source_info(self) -> source.SourceInfo:
        return source.describe(self.site)

    @property
    def ctx(self) -> EquationContext:
        """The settings that the equation was written under; an interpreter enters its `manager`."""
        return equation_context

    def replace(self, **changes) -> JaxprEqn:
        new = changes.get
        return JaxprEqn(new("invars", self.invars), new("outvars", self.outvars), new("primitive", self.primitive),
                        new("params", self.params), new("effects", self.effects), new("site", self.site))

    def __repr__(self):
        return ir_text.equation_text(self)


class DebugInfo:
    """What a program was traced from: for messages, argument names and module names.

    Where the names of arguments, or the places of results, are not known they are None. What takes work to say is given as a
    function, which is asked once; `location` is text, or the code of the function.
    """

    __slots__ = ("traced_for", "function_name", "_location", "_arg_names", "_result_paths")

    def __init__(self, traced_for: str, function_name: str, location: str | CodeType | None = None,
                 arg_names: Callable[[], Sequence[str] | None] | Sequence[str] | None = None,
                 result_paths: Callable[[], Sequence[str] | None] | Sequence[str] | None = None):
        self.traced_for = traced_for
        self.function_name = function_name
        self._location = location
        self._arg_names = arg_names
        self._result_paths = result_paths

    @property
    def location(self) -> str | None:
        code = self._location
        return f"{code.co_filename}:{code.co_firstlineno}" if isinstance(code, CodeType) else code

    @property
    def func_src_info(self) -> str:
        return f"{self.function_name} at {self.location}" if self.location else self.function_name

    @property
    def func_name(self) -> str:
        return self.function_name

    @property
    def func_filename(self) -> str | None:
        return self.location.rpartition(":")[0] if self.location else None

    @property
    def func_lineno(self) -> int | None:
        return int(self.location.rpartition(":")[2]) if self.location else None

    @property
    def arg_names(self) -> tuple[str, ...] | None:
        if callable(self._arg_names):
            self._arg_names = self._arg_names()
        return None if self._arg_names is None else tuple(self._arg_names)

    @property
    def result_paths(self) -> tuple[str, ...] | None:
        if callable(self._result_paths):
            self._result_paths = self._result_paths()
        return None if self._result_paths is None else tuple(self._result_paths)

    def safe_arg_names(self, count: int) -> tuple[str, ...]:
        """A name for each of so many arguments, empty where it is not known."""
        names = self.arg_names
        return ("",) * count if names is None or len(names) != count else names

    def safe_result_paths(self, count: int) -> tuple[str, ...]:
        """A place for each of so many results, empty where it is not known."""
        paths = self.result_paths
        return ("",) * count if paths is None or len(paths) != count else paths

    def filter_arg_names(self, keep: Sequence[bool]) -> tuple[str, ...]:
        return tuple([name for name, kept in zip(self.safe_arg_names(len(keep)), keep) if kept])

    def filter_result_paths(self, keep: Sequence[bool]) -> tuple[str, ...]:
        return tuple([path for path, kept in zip(self.safe_result_paths(len(keep)), keep) if kept])

    def with_unknown_names(self) -> DebugInfo:
        return DebugInfo(self.traced_for, self.function_name, self._location)

    def with_unknown_results(self) -> DebugInfo:
        return DebugInfo(self.traced_for, self.function_name, self._location, self._arg_names)

    def of_part(self, jaxpr: Jaxpr, invars: Sequence[Var] | None, outvars: Sequence[Atom] | None) -> DebugInfo:
        """What is known of a program made of `jaxpr`, which is of this origin, with other arguments or results."""
        names, paths = self._arg_names, self._result_paths
        if names is not None and invars is not None:
            names = _picked(names, jaxpr.invars, invars)
        if paths is not None and outvars is not None:
            paths = _picked(paths, jaxpr.outvars, outvars)
        return DebugInfo(self.traced_for, self.function_name, self._location, names, paths)

    def _replace(self, *, traced_for: str | None = None, func_src_info: str | None = None, **names: Any) -> DebugInfo:
        """With other values for some of the attributes, under the names that libraries use."""
        name, _, location = (func_src_info or self.func_src_info).partition(" at ")
        return DebugInfo(traced_for or self.traced_for, name, location or None, names.get("arg_names", self.arg_names),
                         names.get("result_paths", self.result_paths))

    def resolve_result_paths(self) -> DebugInfo:
        return self

    def _key(self) -> tuple:
        return self.traced_for, self.func_src_info, self.arg_names, self.result_paths

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, DebugInfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return "DebugInfo(traced_for={!r}, func_src_info={!r}, arg_names={!r}, result_paths={!r})".format(*self._key())


def _picked(known: Any, before: Sequence[Atom], now: Sequence[Atom]) -> Callable:
    """The names of those of `now` that were among `before`, empty ones for the others; None where none are known."""
    def names():
        found = known() if callable(known) else known
        if found is None or len(found) != len(before):
            return None
        of = {id(v): name for v, name in zip(before, found)}
        return tuple([of.get(id(v), "") for v in now])

    return names


unknown_origin = DebugInfo("a transformation", "<unnamed function>")


class Jaxpr:
    """A program: `lambda constvars ; invars. let eqns in outvars`."""

    __slots__ = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info", "memo", "__weakref__")

    def __init__(self, constvars, invars, outvars, eqns, effects=no_effects, debug_info=unknown_origin, is_high=False):
        self.constvars: list[Var] = constvars
        self.invars: list[Var] = invars
        self.outvars: list[Atom] = outvars
        self.eqns: list[JaxprEqn] = eqns
        self.effects: frozenset = effects
        self.debug_info = debug_info or unknown_origin
        self.memo: dict[tuple, Any] | None = None  # what transformations derived from the program: see `memoised`

    is_high = False

    @property
    def in_avals(self):
        return [v.aval for v in self.invars]

    @property
    def out_avals(self):
        return [v.aval for v in self.outvars]

    def replace(self, **changes) -> Jaxpr:
        fields = {name: getattr(self, name) for name in self.__slots__[:6]}
        if "debug_info" not in changes and ("invars" in changes or "outvars" in changes):
            changes["debug_info"] = self.debug_info.of_part(self, changes.get("invars"), changes.get("outvars"))
        return Jaxpr(**(fields | changes))

    def with_constants_as_inputs(self) -> Jaxpr:
        """The program with its constants as leading inputs."""
        return self.replace(constvars=[], invars=[*self.constvars, *self.invars])

    def memoised(self, key: tuple, make: Callable[[], Any]) -> Any:
        """What `make` derives from the program, kept as long as the program."""
        if self.memo is None:
            self.memo = {}
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = make()
        return found

    def memoised_with(self, others: Sequence[Jaxpr], key: tuple, make: Callable[[], Any]) -> Any:
        """What `make` derives from this program and others. The key holds them: the address of one that is gone is soon that of
        another. Where ever new ones come to a program that stays, the oldest are forgotten."""
        found_with = self.memoised("with others", lambda: Memo(64))
        key = (*others, key)
        found = found_with.get(key)
        return found_with.keep(key, make()) if found is None else found

    def tape(self) -> tuple[list[Literal], list[tuple], list[tuple[int, Any]]]:
        """The program by places, to be copied: the literals, which follow inputs and constants; of each equation the primitive,
        its parameters, what reads its operands from the atoms so far, and the type of its result (of several, a list), which
        follows them; and where the results are, with their types."""
        found = None if self.memo is None else self.memo.get(("tape",))
        return self.memoised(("tape",), self._tape) if found is None else found

    def _tape(self):
        places = {v: i for i, v in enumerate((*self.invars, *self.constvars))}
        atoms = [*[v for eqn in self.eqns for v in eqn.invars], *self.outvars]
        literals = list(dict.fromkeys([v for v in atoms if type(v) is Literal]))
        count = len(self.invars) + len(self.constvars)
        places.update({v: count + i for i, v in enumerate(literals)})
        count += len(literals)
        steps = []
        for eqn in self.eqns:
            read = [places[v] for v in eqn.invars]
            types = [v.aval for v in eqn.outvars]
            steps.append((eqn.primitive, eqn.params, operator.itemgetter(*read) if len(read) > 1 else operator.itemgetter(
                slice(read[0], read[0] + 1) if read else slice(0, 0)), types[0] if len(types) == 1 else types))
            places.update({v: count + i for i, v in enumerate(eqn.outvars)})
            count += len(types)
        return literals, steps, [(places[v], v.aval) for v in self.outvars]

    def pretty_print(self, **options) -> str:
        return ir_text.program_text(self, **options)

    __str__ = __repr__ = pretty_print


class ClosedJaxpr:
    """A `Jaxpr` with the values of its constants."""

    __slots__ = ("jaxpr", "consts", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        if len(jaxpr.constvars) != len(consts):
            raise ValueError(f"the program has {len(jaxpr.constvars)} constants, {len(consts)} values were given")
        self.jaxpr = jaxpr
        self.consts = list(consts)

    in_avals = property(lambda self: self.jaxpr.in_avals)
    out_avals = property(lambda self: self.jaxpr.out_avals)
    eqns = property(lambda self: self.jaxpr.eqns)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    constvars = property(lambda self: self.jaxpr.constvars)
    effects = property(lambda self: self.jaxpr.effects)
    literals = property(lambda self: self.consts)
    debug_info = property(lambda self: self.jaxpr.debug_info)

    def map_jaxpr(self, function: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        return ClosedJaxpr(function(self.jaxpr), self.consts)

    def replace(self, *, jaxpr=None, consts=None) -> ClosedJaxpr:
        return ClosedJaxpr(self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts)

    def pretty_print(self, **options) -> str:
        return self.jaxpr.pretty_print(**options)

    __str__ = __repr__ = pretty_print


def subprograms(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The programs among an equation's parameters (bodies of loops, branches, called functions)."""
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, Jaxpr):
                yield item
            elif isinstance(item, ClosedJaxpr):
                yield item.jaxpr


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args, propagate_source_info: bool = True) -> list[Any]:
    """Run a program by binding its equations one by one, on values or on tracers.

    >>> closed = make_jaxpr(lambda x: x * 2)(3.0)
    >>> eval_jaxpr(closed.jaxpr, closed.consts, 4.0)
    """
    if len(args) != len(jaxpr.invars):
        raise TypeError(f"the program takes {len(jaxpr.invars)} arguments, {len(args)} were given")
    env: dict[Atom, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    last_use = last_uses(jaxpr)
    thread = source.thread
    saved = thread.site
    scope = source.current_scope.get() if saved is None else saved[2]
    try:
        for index, eqn in enumerate(jaxpr.eqns):
            values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            if propagate_source_info:
                thread.site = source.inside(scope, eqn.site) if scope else eqn.site
            results = eqn.primitive.bind(*values, **eqn.params)
            if eqn.primitive.multiple_results:
                env.update(zip(eqn.outvars, results))
            else:
                env[eqn.outvars[0]] = results
            for v in last_use.get(index, ()):
                del env[v]
    finally:
        thread.site = saved
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def last_uses(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """For each equation the variables that it is the last to read: evaluation need not hold them longer."""
    outvars = {v for v in jaxpr.outvars if type(v) is not Literal}
    seen = set(outvars)
    last: dict[int, list] = {}
    for index in range(len(jaxpr.eqns) - 1, -1, -1):
        for v in jaxpr.eqns[index].invars:
            if type(v) is not Literal and v not in seen:
                seen.add(v)
                last.setdefault(index, []).append(v)
    return last


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a Python function of its flat arguments."""

    def run(*args):
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)

    return run


def keeps_alive(effects: frozenset) -> bool:
    return any(not effect.droppable for effect in effects)


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
              ) -> tuple[Jaxpr, list[bool]]:
    """Drop the equations that the wanted outputs do not need; says which inputs are still read.

    `instantiate` keeps inputs (all, or those marked) even when nothing reads them. An equation that has an
    effect stays. Primitives with sub-programs may have a `dce` rule that prunes inside them.
    """
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.invars)
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs) if used]
    live: set[Any] = set(outvars)
    kept: list[JaxprEqn] = []
    effects = no_effects
    unread, read, keep = live.isdisjoint, live.update, kept.append
    for eqn in reversed(jaxpr.eqns):  # Hot: every program that is compiled comes through here.
        results = eqn.outvars
        if unread(results) and not (eqn.effects and keeps_alive(eqn.effects)):
            continue
        rule = eqn.primitive.dce
        if rule is not None:
            eqn = rule([v in live for v in results], eqn)
            if eqn is None:
                continue
            if eqn.effects and eqn.primitive.effects is not None:  # what is left of its program may have fewer
                eqn = eqn.replace(effects=effects_on(eqn.primitive.effects(*[v.aval for v in eqn.invars], **eqn.params),
                                                     eqn.invars))
        if eqn.effects:
            effects |= eqn.effects
        keep(eqn)
        read(eqn.invars)
    kept.reverse()
    used_inputs = [v in live or bool(keep) for v, keep in zip(jaxpr.invars, instantiate)]
    invars = [v for v, used in zip(jaxpr.invars, used_inputs) if used]
    if effects:
        effects = effects_outside(effects, (*jaxpr.constvars, *invars))
    return jaxpr.replace(invars=invars, outvars=outvars, eqns=kept, effects=effects), used_inputs


def dce_closed(closed: ClosedJaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
               ) -> tuple[ClosedJaxpr, list[bool]]:
    """As `dce_jaxpr`; the same program pruned in the same way is one program."""
    keep = instantiate if isinstance(instantiate, bool) else tuple(instantiate)

    def make():
        jaxpr, used_inputs = dce_jaxpr(closed.jaxpr, used_outputs, instantiate)
        unchanged = len(jaxpr.eqns) == len(closed.jaxpr.eqns) and all(used_outputs) and all(used_inputs) and all(
            x is y for x, y in zip(jaxpr.eqns, closed.jaxpr.eqns))
        return closed.jaxpr if unchanged else jaxpr, used_inputs

    jaxpr, used_inputs = closed.jaxpr.memoised(("dce", tuple(used_outputs), keep), make)
    return ClosedJaxpr(jaxpr, closed.consts), used_inputs


def dependent_results(jaxpr: Jaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Which results of a program depend on these inputs."""
    def find():
        reached = {v for v, marked in zip(jaxpr.invars, inputs) if marked}
        for eqn in jaxpr.eqns:
            marks = [type(v) is not Literal and v in reached for v in eqn.invars]
            if any(marks):
                flags = dependent_outputs(eqn.primitive, marks, eqn.params)
                reached.update(eqn.outvars if flags is None else [v for v, f in zip(eqn.outvars, flags) if f])
        return [type(v) is not Literal and v in reached for v in jaxpr.outvars]

    return list(jaxpr.memoised(("dependent", tuple(inputs)), find))


def dependent_outputs(primitive, operands: Sequence[bool], params: dict[str, Any]) -> list[bool] | None:
    """Which results of an operation that contains programs depend on these operands; None where all of them may."""
    if primitive.depends is not None:
        return primitive.depends(operands, **params)
    program = params.get("jaxpr") or params.get("call_jaxpr") if primitive.dce is not None else None
    return None if program is None else dependent_results(getattr(program, "jaxpr", program), operands)
