"""How a Python call becomes a flat list of arrays: static and donated arguments, pytrees, names for messages."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import errors, tracing, tree
from xlafront.core.ir import DebugInfo
from xlafront.core.refs import is_ref
from xlafront.core.wrapping import update_wrapper


def function_name(fun: Callable) -> str:
    name = getattr(fun, "__name__", None)
    if isinstance(name, str):
        return name
    inner = getattr(fun, "func", None)  # functools.partial, tree_util.Partial
    return function_name(inner) if inner is not None else type(fun).__name__


def dress(function: Any, fun: Callable, doc: str | None = None) -> Any:
    """Make a function that is made of another look like it: its names, annotations, attributes and, after `doc`, its text."""
    update_wrapper(function, fun)
    if not isinstance(getattr(fun, "__name__", None), str):
        function.__name__ = function.__qualname__ = function_name(fun)
    own = getattr(fun, "__doc__", None) or ""
    function.__doc__ = f"{doc}\n\n{own}" if doc and own else doc or own
    return function


def written_as(fun: Callable) -> tuple[types.CodeType | None, int]:
    """The code behind a callable, as `inspect.signature` finds it, and how many of its first parameters are given already: what
    says the names of arguments and the place, and keeps nothing alive that the function closes over."""
    given = 0
    while True:
        inner = getattr(fun, "__wrapped__", None)
        if isinstance(fun, types.MethodType):
            fun, given = fun.__func__, given + 1
        elif inner is not None:
            fun = inner
        elif isinstance(fun, functools.partial):
            fun, given = fun.func, given + len(fun.args)
        else:
            code = getattr(fun, "__code__", None)
            if code is None:  # a class, or an object that can be called
                called = fun.__init__ if isinstance(fun, type) else type(fun).__call__
                code, given = getattr(called, "__code__", None), given + 1
            return code, given


def function_location(fun: Callable) -> str | None:
    code, _ = written_as(fun)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def signature_of(fun: Callable):
    """`inspect.signature`, or None for callables that have none."""
    import inspect

    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def _as_tuple(value, kind: type, name: str) -> tuple:
    if isinstance(value, kind):
        return (value,)
    try:
        items = tuple(value)
    except TypeError:
        items = (value,)
    if kind is int:
        items = tuple(x.__index__() if hasattr(x, "__index__") else x for x in items)
    for item in items:
        if not isinstance(item, kind):
            raise TypeError(f"{name} takes {kind.__name__}s, got {item!r} of type {type(item).__name__}.")
    return items


class Selection(NamedTuple):
    """Arguments picked by position and by name."""

    nums: tuple[int, ...] = ()  # negative ones, of functions with *args, count from the end of each call
    names: tuple[str, ...] = ()

    def __bool__(self):
        return bool(self.nums or self.names)

    def at(self, count: int) -> tuple[int, ...]:
        """The positions in a call with so many positional arguments."""
        if not self.nums or self.nums[0] >= 0:  # they are in order
            return self.nums
        return tuple(n + count if n < 0 else n for n in self.nums)


def select_arguments(fun: Callable, kind: str, argnums, argnames) -> Selection:
    """`static_argnums`/`static_argnames` (or `donate_...`): checked, and each completed from the other."""
    if argnums is None and argnames is None:
        return Selection()
    nums = () if argnums is None else _as_tuple(argnums, int, f"{kind}_argnums")
    names = () if argnames is None else _as_tuple(argnames, str, f"{kind}_argnames")
    if not nums and not names:
        return Selection()
    signature = signature_of(fun)
    if signature is None:
        if any(n < 0 for n in nums):
            raise ValueError(f"{kind}_argnums has a negative position, and {function_name(fun)} has no signature to "
                             f"count from the end of. Give non-negative positions.")
        return Selection(nums, names)
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    resolved = []
    for n in nums:
        if not variadic and not -len(positional) <= n < len(positional):
            raise errors.wrong_argnums(kind, n, f"{function_name(fun)}{signature}", function_name(fun))
        if n >= 0 or not variadic:
            resolved.append(n + len(positional) if n < 0 else n)
        elif kind != "donate":  # counted from the end of each call, where it can matter which argument it is
            resolved.append(n)
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in names:
        if name not in known and not open_ended:
            raise ValueError(f"{kind}_argnames has an invalid name, {name!r}: {function_name(fun)}{signature} has no argument "
                             f"of that name that can be passed by keyword.")
    order = {p.name: i for i, p in enumerate(positional)}
    if argnames is None:
        names = tuple(positional[n].name for n in resolved
                      if 0 <= n < len(positional) and positional[n].kind is positional[n].POSITIONAL_OR_KEYWORD)
    if argnums is None:
        resolved = [order[name] for name in names if name in order]
    return Selection(tuple(sorted(set(resolved))), names)


class Static:
    """A static argument in a cache key: equal by value and type."""

    __slots__ = ("value", "_hash")

    def __init__(self, name: str, value: Any, function: str):
        try:
            self._hash = hash(value)
        except TypeError:
            raise errors.unhashable_static(name, value, function) from None
        self.value = value

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return type(self.value) is type(other.value) and self.value == other.value


def check_statics(fun: Callable, name: str, static: Selection, args: tuple, kwargs: dict) -> None:
    """Raise for a static argument that cannot be hashed, by its name."""
    signature = signature_of(fun)
    parameters = list(signature.parameters) if signature is not None else []
    given = [(parameters[i] if i < len(parameters) else f"number {i}", args[i]) for i in static.at(len(args)) if i < len(args)]
    given += [(key, kwargs[key]) for key in static.names if key in kwargs]
    for parameter, value in given:
        try:
            hash(value)
        except TypeError:
            raise errors.unhashable_static(parameter, value, name) from None


class Call(NamedTuple):
    """One call, taken apart: what is static, the flat dynamic arguments and their tree."""

    statics: tuple
    leaves: list[Any]
    in_tree: Any


def split_call(fun_name: str, static: Selection, args: tuple, kwargs: dict) -> Call:
    """Separate the static arguments, flatten the rest. The tree is that of `(positional, keywords)`."""
    if not static:
        leaves, in_tree = tree.flatten_tree((args, kwargs))
        return Call((), leaves, in_tree)
    statics = []
    dynamic = []
    positions = static.at(len(args))
    if positions and min(positions) < 0:
        raise ValueError(f"{fun_name} has the static argument {static.nums[0]}, counted from the end, and was called with "
                         f"{len(args)} positional argument(s): positions in static_argnums must be at least -len(args).")
    for i, x in enumerate(args):
        if i in positions:
            statics.append((i, Static(f"number {i}", x, fun_name)))
        else:
            dynamic.append(x)
    for name in static.names:
        if name in kwargs:
            statics.append((name, Static(repr(name), kwargs[name], fun_name)))
    rest = {k: v for k, v in kwargs.items() if k not in static.names}
    leaves, in_tree = tree.flatten_tree((tuple(dynamic), rest))
    return Call(tuple(statics), leaves, in_tree)


def join_call(statics: tuple, in_tree, leaves: Sequence[Any]) -> tuple[tuple, dict]:
    """The inverse of `split_call`, on other leaves."""
    dynamic, kwargs = tree.unflatten(in_tree, leaves)
    if not statics:
        return dynamic, kwargs
    positions = {key: static.value for key, static in statics if isinstance(key, int)}
    rest = iter(dynamic)
    args = [positions[i] if i in positions else next(rest) for i in range(len(dynamic) + len(positions))]
    return tuple(args), kwargs | {key: static.value for key, static in statics if isinstance(key, str)}


class Parameters(NamedTuple):
    """The names of a function's parameters."""

    positional: Sequence[str] = ()
    variadic: str | None = None  # that of `*args`
    named: Sequence[str] = ()  # those that are given by keyword alone
    keywords: str | None = None  # that of `**kwargs`

    @staticmethod
    def of_code(code: types.CodeType | None, given: int = 0) -> Parameters:
        """Those of a function of this code whose first ones are `given` already."""
        if code is None:
            return Parameters()
        names, count, named = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
        rest = iter(names[count + named:])
        variadic = next(rest) if code.co_flags & _VARIADIC else None
        keywords = next(rest) if code.co_flags & _KEYWORDS else None
        return Parameters(names[given:count], variadic, names[count:count + named], keywords)


_VARIADIC, _KEYWORDS = 4, 8  # CO_VARARGS and CO_VARKEYWORDS of `inspect`, which costs start-up 10 ms


def argument_names(fun: Callable, static: Selection, in_tree) -> list[str]:
    """A name for each flat argument, as the user would write it: `params['w']`, `x[0]`."""
    return leaf_names(Parameters.of_code(*written_as(fun)), static, in_tree)


def leaf_names(parameters: Parameters, static: Selection, in_tree) -> list[str]:
    """As `argument_names`, of a function with these parameters."""
    given = len(in_tree.children()[0].children()) + len(static.nums)
    names = list(parameters.positional)
    if parameters.variadic is not None:
        names += [f"{parameters.variadic}[{i}]" for i in range(given - len(names))]
    taken = static.at(given)
    dynamic_names = [name for i, name in enumerate(names) if i not in taken]
    by_keyword = {*parameters.positional, *parameters.named}
    found = []
    for path in tree.leaf_paths(in_tree):
        where, first, *rest = path
        if where.idx == 0:
            index = first.idx
            head = dynamic_names[index] if index < len(dynamic_names) else f"args[{index}]"
        elif parameters.keywords is None or first.key in by_keyword:
            head = str(first.key)
        else:
            head = f"{parameters.keywords}[{first.key!r}]"
        found.append(head + tree.keystr(tuple(rest)))
    return found


def origin(role: str, fun: Callable, in_tree, out_tree: Callable[[], Any] | None = None,
           static: Sequence[int] = ()) -> DebugInfo:
    """What a program is traced from: `fun`, called with the positional arguments in `in_tree`, beside those at the positions in
    `static`; `out_tree` tells the structure of its results when it is traced."""
    code, given = written_as(fun)
    return DebugInfo(
        role, function_name(fun), code, lambda: leaf_names(
            Parameters.of_code(code, given), Selection(tuple(static)), tree.structure((tree.numbered(in_tree), {}))),
        None if out_tree is None else lambda: tree.result_paths(out_tree()))


def abstract_arguments(fun: Callable, name: str, static: Selection, call: Call, of_library: bool = False) -> tuple:
    """The types of the flat arguments."""
    table = tracing.abstractors
    try:
        return tuple([table[type(x)](x) for x in call.leaves])
    except KeyError:
        pass
    for i, x in enumerate(call.leaves):
        if not tracing.is_arraylike(x):
            names = argument_names(fun, static, call.in_tree)
            raise errors.not_an_array(x, name, names[i], not of_library)
    return tuple(tracing.aval_of(x) for x in call.leaves)


def check_results(fun: Callable, results: Any) -> tuple[list[Any], Any]:
    """Flatten what a traced function returned; every leaf must be an array."""
    leaves, out_tree = tree.flatten_tree(results)
    for i, x in enumerate(leaves):
        if is_ref(x):
            where = tree.keystr(tree.flatten_with_path(results)[0][i][0])
            raise ValueError(
                f"{function_name(fun)} returned a reference of type {x.aval} at result{where}: transformed functions can take "
                f"references, but not return them. Return its value, ref[...], or make the reference outside and pass it.")
        if not tracing.is_arraylike(x):
            paths, _ = tree.flatten_with_path(results)
            where = tree.keystr(paths[i][0])
            raise TypeError(
                f"{function_name(fun)} returned a value of type {type(x).__name__} at output component result{where}, which "
                f"is not a valid JAX type: {x!r:.80}. A transformed function can only return arrays, scalars and pytrees of "
                "them; return what else is needed from outside of it.")
    return leaves, out_tree
