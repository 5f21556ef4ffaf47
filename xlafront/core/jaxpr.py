"""The IR: typed, functional, single-assignment.

A `Jaxpr` is a list of equations over variables, and the values of its constants if they are known. `ir_text` prints jaxprs,
`ir_check` checks them.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from xlafront.core import ir_text, source
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.effects import no_effects
from xlafront.core.evaluation import eval_jaxpr

if TYPE_CHECKING:
    from xlafront.core.typing import Aval


class Var:
    """A variable. Two variables are the same if they are the same object."""

    __slots__ = ("aval",)

    is_literal = False

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval})"


class DropVar(Var):
    """A result that is not used, printed as `_`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar constant as an operand."""

    __slots__ = ("val", "aval")

    is_literal = True

    def __init__(self, val: Any, aval: Aval) -> None:
        self.val = val
        self.aval = aval

    def __repr__(self) -> str:
        return f"Literal({self.val})"


Atom = Var | Literal
ParamDict = dict[str, Any]
Value = Any


class EquationContext:
    """Settings of an equation, for libraries. Here these are parameters of primitives, and there is nothing to restore."""

    __slots__ = ()

    compute_type = None
    xla_metadata = None
    manager = property(lambda self: contextlib.nullcontext())


equation_context = EquationContext()


class JaxprEqn:
    """`outvars = primitive[params] invars`, with effects and the user's call site.

    Extensions pass a `SourceInfo` as the site, together with the context of another equation.
    """

    __slots__ = ("invars", "outvars", "primitive", "params", "effects", "site")

    def __init__(self, invars: Sequence[Any], outvars: Sequence[Any], primitive: Any, params: dict[str, Any],
                 effects: Any = no_effects, site: Any = None, ctx: Any = None) -> None:
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
        """The settings under which the equation was traced. Interpreters enter its `manager`."""
        return equation_context

    def replace(self, **changes: Any) -> JaxprEqn:
        new = changes.get
        return JaxprEqn(new("invars", self.invars), new("outvars", self.outvars), new("primitive", self.primitive),
                        new("params", self.params), new("effects", self.effects), new("site", self.site))

    def __repr__(self) -> str:
        return ir_text.equation_text(self)


class DebugInfo:
    """The function that a jaxpr was traced from, for messages and names.

    Args:
        traced_for: The transformation, for example "jit".
        function_name: Name of the function.
        location: Its location, or its code object.
        arg_names: Names of the arguments, a function that returns them (called once), or None if unknown.
        result_paths: Pytree paths of the results, in the same forms.
    """

    __slots__ = ("traced_for", "function_name", "_location", "_arg_names", "_result_paths")

    def __init__(self, traced_for: str, function_name: str, location: str | CodeType | None = None,
                 arg_names: Callable[[], Sequence[str] | None] | Sequence[str] | None = None,
                 result_paths: Callable[[], Sequence[str] | None] | Sequence[str] | None = None) -> None:
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
    def label(self) -> str:
        """The function with its position if it is the user's, for messages."""
        file, _, line = (self.location or "").rpartition(":")
        return self.function_name + (source.at_position(file, int(line)) if file else "")

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
        """Return names of `count` arguments, empty strings if unknown."""
        names = self.arg_names
        return ("",) * count if names is None or len(names) != count else names

    def safe_result_paths(self, count: int) -> tuple[str, ...]:
        """Return pytree paths of `count` results, empty strings if unknown."""
        paths = self.result_paths
        return ("",) * count if paths is None or len(paths) != count else paths

    def filter_arg_names(self, keep: Sequence[bool]) -> tuple[str, ...]:
        return tuple([name for name, used in zip(self.safe_arg_names(len(keep)), keep) if used])

    def filter_result_paths(self, keep: Sequence[bool]) -> tuple[str, ...]:
        return tuple([path for path, used in zip(self.safe_result_paths(len(keep)), keep) if used])

    def with_unknown_names(self) -> DebugInfo:
        return DebugInfo(self.traced_for, self.function_name, self._location)

    def with_unknown_results(self) -> DebugInfo:
        return DebugInfo(self.traced_for, self.function_name, self._location, self._arg_names)

    def with_atoms(self, jaxpr: Jaxpr, invars: Sequence[Var] | None, outvars: Sequence[Atom] | None) -> DebugInfo:
        """Return the names for a version of `jaxpr` with other inputs or results, of which some are among its own."""
        names, paths = self._arg_names, self._result_paths
        if names is not None and invars is not None:
            names = _picked(names, jaxpr.invars, invars)
        if paths is not None and outvars is not None:
            paths = _picked(paths, jaxpr.outvars, outvars)
        return DebugInfo(self.traced_for, self.function_name, self._location, names, paths)

    def _replace(self, *, traced_for: str | None = None, func_src_info: str | None = None, **names: Any) -> DebugInfo:
        """Return a copy with some attributes replaced, under the names that libraries use."""
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
    """Return a function that names the atoms of `now` that are among `before`; it returns None if no names are known."""
    def names() -> tuple[str, ...] | None:
        found = known() if callable(known) else known
        if found is None or len(found) != len(before):
            return None
        name_of = {id(v): name for v, name in zip(before, found)}
        return tuple([name_of.get(id(v), "") for v in now])

    return names


unknown_origin = DebugInfo("a transformation", "<unnamed function>")


class Jaxpr:
    """`{ lambda constvars ; invars. let eqns in outvars }`, a function of its inputs that returns a list of its results.

    `consts` has the values of the constants; it is empty while they are unknown. `with_consts` returns the jaxpr with values.
    The `structure` of that is the jaxpr without: results that depend on the equations alone are cached with it.

    Args:
        constvars: Variables of the constants; or a jaxpr, followed by the values of its constants.
        invars: Variables of the inputs.
        outvars: Variables or literals of the results.
        eqns: The equations.
        effects: Effects of the equations.
        debug_info: The function that it was traced from.
        is_high: Ignored; it follows from the types.
        consts: Values of the constants.
    """

    __slots__ = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info", "consts", "memo", "_structure",
                 "__weakref__")

    def __init__(self, constvars: list[Var] | Jaxpr, invars: Sequence[Any], outvars: list[Atom] | None = None,
                 eqns: list[JaxprEqn] | None = None, effects: frozenset = no_effects,
                 debug_info: DebugInfo | None = unknown_origin, is_high: bool = False, consts: Sequence[Any] = ()) -> None:
        self._structure: Jaxpr | None = None
        if isinstance(constvars, Jaxpr):
            self._structure, consts = constvars.structure, invars
            constvars, invars, outvars, eqns, effects, debug_info = constvars._fields()
        if consts and len(consts) != len(constvars):
            raise ValueError(f"the jaxpr has {len(constvars)} constants, {len(consts)} values were given")
        self.constvars: list[Var] = constvars
        self.invars: list[Var] = invars  # type: ignore[assignment]
        self.outvars: list[Atom] = outvars  # type: ignore[assignment]
        self.eqns: list[JaxprEqn] = eqns  # type: ignore[assignment]
        self.effects: frozenset = effects
        self.debug_info = debug_info or unknown_origin
        self.consts: list[Any] = list(consts)
        self.memo: dict[Hashable, Any] | None = None  # results of transformations: see `memoised`

    is_high = False

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.outvars]

    @property
    def structure(self) -> Jaxpr:
        """The jaxpr without the values of its constants."""
        if not self.consts:
            return self
        if self._structure is None:
            self._structure = Jaxpr(*self._fields())
        return self._structure

    def _fields(self) -> tuple[list[Var], list[Var], list[Atom], list[JaxprEqn], frozenset, DebugInfo]:
        return self.constvars, self.invars, self.outvars, self.eqns, self.effects, self.debug_info

    def __call__(self, *args: Any) -> list[Any]:
        """Bind its equations in the current trace."""
        return eval_jaxpr(self, self.consts, *args)

    def with_consts(self, consts: Sequence[Any]) -> Jaxpr:
        """Return the jaxpr with these values of its constants; without any if there are none."""
        return Jaxpr(self, consts) if consts else self.structure

    def with_constants_as_inputs(self) -> Jaxpr:
        """Return the jaxpr with its constants as leading inputs."""
        return self.replace(constvars=[], invars=[*self.constvars, *self.invars])

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None, **changes: Any) -> Jaxpr:
        """Return a copy with other fields. It has the values of the constants unless `consts` or `constvars` are given."""
        if consts is None:
            consts = () if "constvars" in changes else self.consts
        jaxpr = jaxpr or self
        if not changes:
            return jaxpr.with_consts(consts)
        if "debug_info" not in changes and ("invars" in changes or "outvars" in changes):
            changes["debug_info"] = jaxpr.debug_info.with_atoms(jaxpr, changes.get("invars"), changes.get("outvars"))
        fields: dict[str, Any] = dict(zip(self.__slots__, jaxpr._fields()))
        return Jaxpr(**(fields | changes), consts=consts)

    def map_jaxpr(self, function: Callable[[Jaxpr], Jaxpr]) -> Jaxpr:
        """Return the jaxpr that a function returns for this one, with the same values of constants."""
        return function(self.structure).with_consts(self.consts)

    # Other names that JAX has.
    jaxpr = property(lambda self: self)
    literals = property(lambda self: self.consts)
    num_consts = property(lambda self: len(self.constvars))
    all_invars = property(lambda self: [*self.constvars, *self.invars])

    def memoised(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return `make()`, computed once for the key and the values of the constants, and cached with the structure."""
        if self.consts:
            key_with_ids = (key, *map(id, self.consts))  # the entry holds the values, so that the ids stay taken
            return self.structure.memoised(key_with_ids, lambda: (self.consts, make()))[1]
        if self.memo is None:
            self.memo = {}
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = make()
        return found

    def memoised_with(self, others: Sequence[Jaxpr], key: tuple, make: Callable[[], Any]) -> Any:
        """Return `make()`, computed once for this jaxpr, the others and the key.

        The key references the other jaxprs, so that their ids stay taken. The cache is bounded: the others may be new each
        time.
        """
        found_with = self.memoised("with others", lambda: BoundedCache(64))
        key = (*others, key)
        found = found_with.get(key)
        return found_with.put(key, make()) if found is None else found

    def compiled_form(self) -> tuple[list[Literal], list[tuple], list[tuple[int, Any]]]:
        """Return the jaxpr by positions instead of variables, for `StagingTrace.inline_jaxpr`.

        Atoms are numbered: inputs, constants, literals, then the results of each equation.

        Returns:
            The literals; for each equation its primitive, its parameters, a function that picks its operands from the list of
            atoms, and the type of its result (a list of types for several); the position and the type of each result.
        """
        found = None if self.memo is None else self.memo.get(("compiled form",))
        return self.memoised(("compiled form",), self._compiled_form) if found is None else found

    def _compiled_form(self) -> tuple[list[Literal], list[tuple], list[tuple[int, Any]]]:
        positions = {v: i for i, v in enumerate((*self.invars, *self.constvars))}
        atoms = [*[v for eqn in self.eqns for v in eqn.invars], *self.outvars]
        literals = list(dict.fromkeys([v for v in atoms if type(v) is Literal]))
        count = len(self.invars) + len(self.constvars)
        positions.update({v: count + i for i, v in enumerate(literals)})
        count += len(literals)
        steps = []
        for eqn in self.eqns:
            read = [positions[v] for v in eqn.invars]
            types = [v.aval for v in eqn.outvars]
            steps.append((eqn.primitive, eqn.params, operator.itemgetter(*read) if len(read) > 1 else operator.itemgetter(
                slice(read[0], read[0] + 1) if read else slice(0, 0)), types[0] if len(types) == 1 else types))
            positions.update({v: count + i for i, v in enumerate(eqn.outvars)})
            count += len(types)
        return literals, steps, [(positions[v], v.aval) for v in self.outvars]

    def pretty_print(self, **options: Any) -> str:
        return ir_text.program_text(self, **options)

    __str__ = __repr__ = pretty_print


ClosedJaxpr = Jaxpr  # as it is called in programs for versions of JAX before 0.11


def operation_count(jaxpr: Jaxpr) -> int:
    """Return the number of equations, with those of loop bodies, branches and called functions."""
    return len(jaxpr.eqns) + sum([operation_count(program) for eqn in jaxpr.eqns for program in subprograms(eqn.params)])


def subprograms(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """Yield the structures of the jaxprs among an equation's parameters: loop bodies, branches, called functions."""
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, Jaxpr):
                yield item.structure
