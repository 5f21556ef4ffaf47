"""Signatures: Python calls as static values, flat arrays and a pytree; the options of `jit` by leaf; the names of arguments."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.meshes import Mesh, active
from xlafront.base.specs import PartitionSpec
from xlafront.core import errors, tracing, tree
from xlafront.core.ir import DebugInfo
from xlafront.core.program_key import Keyed
from xlafront.core.refs import is_ref
from xlafront.core.wrapping import update_wrapper
from xlafront.staging import sharding_arguments
from xlafront.staging.inlining import Inline
from xlafront.staging.sharding_arguments import UNSPECIFIED


def _as_tuple(value, kind: type, name: str) -> tuple:
    """Return one value or several of a type as a tuple; raise for values of other types."""
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
    """Arguments selected by position and by name."""

    nums: tuple[int, ...] = ()  # negative ones, of functions with *args, count from the end of each call
    names: tuple[str, ...] = ()

    def __bool__(self):
        return bool(self.nums or self.names)

    def at(self, count: int) -> tuple[int, ...]:
        """Return the positions in a call with `count` positional arguments."""
        if not self.nums or self.nums[0] >= 0:  # they are sorted
            return self.nums
        return tuple(n + count if n < 0 else n for n in self.nums)


def select_arguments(fun: Callable, kind: str, argnums, argnames) -> Selection:
    """Check `static_argnums` and `static_argnames` (or `donate_...`), and complete each from the other."""
    if argnums is None and argnames is None:
        return Selection()
    nums = () if argnums is None else _as_tuple(argnums, int, f"{kind}_argnums")
    names = () if argnames is None else _as_tuple(argnames, str, f"{kind}_argnames")
    if not nums and not names:
        return Selection()
    signature = signature_of(fun)
    if signature is None:
        if any(n < 0 for n in nums):
            raise ValueError(f"{kind}_argnums has a negative position, and {function_name(fun)} has no signature, "
                             f"in which to count from the end. Give non-negative positions.")
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
        elif kind != "donate":  # counted from the end of each call
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


def _static_key(fun: Callable, name: str, argument: int | str, value: Any) -> Keyed:
    """Return a static argument, given by its position or keyword, for cache keys; raise if it cannot be hashed."""
    static = Keyed(value)
    if not static.is_hashable:
        if isinstance(argument, int):
            signature = signature_of(fun)
            parameters = list(signature.parameters) if signature is not None else []
            argument = parameters[argument] if argument < len(parameters) else f"number {argument}"
        raise errors.unhashable_static(argument, value, name) from None
    return static


class Call(NamedTuple):
    """The parts of one call: static arguments, flat dynamic arguments, and the pytree structure of these."""

    statics: tuple
    leaves: list[Any]
    in_tree: Any


def split_call(fun: Callable, name: str, static: Selection, args: tuple, kwargs: dict) -> Call:
    """Separate the static arguments of a call and flatten the others, as `(positional, keywords)`.

    Raise for a static argument that cannot be hashed; `name` is that of the function in messages.
    """
    if not static:
        leaves, in_tree = tree.flatten_tree((args, kwargs))
        return Call((), leaves, in_tree)
    statics = []
    dynamic = []
    positions = static.at(len(args))
    if positions and min(positions) < 0:
        raise ValueError(f"{name} has the static argument {static.nums[0]}, counted from the end, and was called with "
                         f"{len(args)} positional argument(s): positions in static_argnums must be at least -len(args).")
    for i, x in enumerate(args):
        if i in positions:
            statics.append((i, _static_key(fun, name, i, x)))
        else:
            dynamic.append(x)
    for keyword in static.names:
        if keyword in kwargs:
            statics.append((keyword, _static_key(fun, name, keyword, kwargs[keyword])))
    rest = {k: v for k, v in kwargs.items() if k not in static.names}
    leaves, in_tree = tree.flatten_tree((tuple(dynamic), rest))
    return Call(tuple(statics), leaves, in_tree)


def join_call(statics: tuple, in_tree, leaves: Sequence[Any]) -> tuple[tuple, dict]:
    """Return `(args, kwargs)` with other leaves: the inverse of `split_call`."""
    dynamic, kwargs = tree.unflatten(in_tree, leaves)
    if not statics:
        return dynamic, kwargs
    positions = {key: static.value for key, static in statics if isinstance(key, int)}
    rest = iter(dynamic)
    args = [positions[i] if i in positions else next(rest) for i in range(len(dynamic) + len(positions))]
    return tuple(args), kwargs | {key: static.value for key, static in statics if isinstance(key, str)}


def abstract_arguments(fun: Callable, name: str, static: Selection, call: Call, of_library: bool = False) -> tuple:
    """Return the types of the flat arguments; raise for one that is not an array, with its name."""
    table = tracing.aval_of_type
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
    """Flatten the results of a traced function; raise for a leaf that is not an array."""
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


# Options


class Options(NamedTuple):
    """The options of one `jit`, beside its function."""

    static: Selection = Selection()
    donate: Selection = Selection()
    in_shardings: Any = UNSPECIFIED
    out_shardings: Any = UNSPECIFIED
    keep_unused: bool = False
    device: Any = None
    backend: str | None = None
    inline: bool | Inline = False  # as in equations
    compiler_options: tuple = ()
    allow_mesh_context: bool = False  # it runs over the mesh of `with mesh:` if `set_mesh` has set no mesh

    @property
    def context_mesh(self) -> Mesh | None:
        """The mesh in context, whose devices the program runs on; None if there is none."""
        return active.concrete() or (active.entered if self.allow_mesh_context else None)

    @property
    def has_shardings(self) -> bool:
        """True if the shardings of arguments or results are given."""
        return self.in_shardings is not UNSPECIFIED or self.out_shardings is not UNSPECIFIED

    def donated_flags(self, call: Call) -> tuple[bool, ...]:
        """Return for each leaf of a call whether it is donated."""
        donate = self.donate
        count = call.in_tree.num_leaves
        if not donate:
            return (False,) * count
        args_tree, kwargs_tree = call.in_tree.children()
        # Positions count the static arguments too, which are not in the tree.
        static = {key for key, _ in call.statics}
        count = len(args_tree.children()) + sum(isinstance(key, int) for key in static)
        dynamic = [i for i in range(count) if i not in static]
        flags: list[bool] = []
        for position, child in zip(dynamic, args_tree.children()):
            flags += [position in donate.nums] * child.num_leaves
        keywords = kwargs_tree.node_data()[1] if kwargs_tree.node_data() else ()
        for name, child in zip(keywords, kwargs_tree.children()):
            flags += [name in donate.names] * child.num_leaves
        return tuple(flags)

    def flat_in_shardings(self, name: str, in_tree) -> tuple:
        """Return the sharding requested for each leaf of the arguments; `name` is that of the function, for errors."""
        given = self.in_shardings
        if self._is_unspecified(given):
            return (UNSPECIFIED,) * in_tree.num_leaves
        args, kwargs = tree.leaf_indices(in_tree)
        if kwargs:
            raise ValueError(f"{name} has in_shardings, which belong to positions, and was called with the keyword "
                             f"argument(s) {', '.join(kwargs)}. Pass them by position.")
        given = tuple(given) if type(given) is list else given
        if type(given) is tuple and len(given) != len(args):
            static = f" that are not static (static_argnums={self.static.nums})" if self.static else ""
            raise ValueError(f"in_shardings of {name} is a tuple of {len(given)}, but the call has {len(args)} positional "
                             f"argument(s){static}. Give one sharding (or None) for each, or one sharding for all.")
        return self._flat_shardings("in_shardings", given, args)

    def flat_out_shardings(self, out_tree) -> tuple:
        """Return the sharding requested for each leaf of the results."""
        given = self.out_shardings
        if self._is_unspecified(given):
            return (UNSPECIFIED,) * out_tree.num_leaves
        return self._flat_shardings("out_shardings", given, tree.leaf_indices(out_tree))

    @property
    def _within_mesh(self) -> bool:
        return self.allow_mesh_context and active.entered is not None

    def _is_unspecified(self, given) -> bool:
        return given is UNSPECIFIED or given is None and not self._within_mesh

    def _flat_shardings(self, name: str, given, full) -> tuple:
        """Return the sharding of each leaf of `full`. Over the mesh of `with mesh:`, None is replicated."""
        found = sharding_arguments.flatten_shardings(name, given, full, allow_mesh_context=self.allow_mesh_context)
        if not self._within_mesh:
            return found
        replicated = NamedSharding(self.context_mesh, PartitionSpec())
        return tuple([replicated if s is UNSPECIFIED else s for s in found])


# Names


def function_name(fun: Callable) -> str:
    """Return the name of a callable; of a `partial`, that of its function; else that of its class."""
    name = getattr(fun, "__name__", None)
    if isinstance(name, str):
        return name
    inner = getattr(fun, "func", None)  # functools.partial, tree_util.Partial
    return function_name(inner) if inner is not None else type(fun).__name__


def copy_metadata(function: Any, fun: Callable, doc: str | None = None) -> Any:
    """Copy names, annotations, attributes and docstring of `fun` to a function made from it; `doc` precedes the docstring."""
    update_wrapper(function, fun)
    if not isinstance(getattr(fun, "__name__", None), str):
        function.__name__ = function.__qualname__ = function_name(fun)
    own = getattr(fun, "__doc__", None) or ""
    function.__doc__ = f"{doc}\n\n{own}" if doc and own else doc or own
    return function


def code_of(fun: Callable) -> tuple[types.CodeType | None, int]:
    """Return the code object of a callable, as `inspect.signature` finds it, and the number of its bound first parameters.

    The code has the names of arguments and the source location, and does not keep alive what the function closes over.
    """
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
    """Return `file:line` of a callable; None if it has no Python code."""
    code, _ = code_of(fun)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def signature_of(fun: Callable):
    """Return `inspect.signature(fun)`; None for callables without a signature."""
    import inspect

    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


class Parameters(NamedTuple):
    """The names of a function's parameters."""

    positional: Sequence[str] = ()
    variadic: str | None = None  # the name of `*args`
    named: Sequence[str] = ()  # keyword-only
    keywords: str | None = None  # the name of `**kwargs`

    @staticmethod
    def of_code(code: types.CodeType | None, given: int = 0) -> Parameters:
        """Return the parameters of a code object without the first `given` ones, which are bound."""
        if code is None:
            return Parameters()
        names, count, named = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
        rest = iter(names[count + named:])
        variadic = next(rest) if code.co_flags & _VARIADIC else None
        keywords = next(rest) if code.co_flags & _KEYWORDS else None
        return Parameters(names[given:count], variadic, names[count:count + named], keywords)


_VARIADIC, _KEYWORDS = 4, 8  # CO_VARARGS and CO_VARKEYWORDS; importing `inspect` takes 10 ms


def argument_names(fun: Callable, static: Selection, in_tree) -> list[str]:
    """Return a name for each flat argument, as the user would write it: `params['w']`, `x[0]`."""
    return leaf_names(Parameters.of_code(*code_of(fun)), static, in_tree)


def leaf_names(parameters: Parameters, static: Selection, in_tree) -> list[str]:
    """Return a name for each flat argument of a function with these parameters."""
    given = len(in_tree.children()[0].children()) + len(static.nums)
    names = list(parameters.positional)
    if parameters.variadic is not None:
        names += [f"{parameters.variadic}[{i}]" for i in range(given - len(names))]
    static_positions = static.at(given)
    dynamic_names = [name for i, name in enumerate(names) if i not in static_positions]
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


def make_debug_info(role: str, fun: Callable, arg_names: Callable[[Parameters], Sequence[str]],
                    out_tree: Callable[[], Any] | None = None, name: str | None = None) -> DebugInfo:
    """Return the debug info of a program traced from `fun`, which it does not keep alive: caches are keyed weakly on `fun`.

    Args:
        role: What the function is to the program.
        fun: The function.
        arg_names: Returns the names of the flat arguments, from the parameters of `fun`. Called when they are needed.
        out_tree: Returns the structure of the results, once the function is traced.
        name: Name of the function. Default: its own.
    """
    code, given = code_of(fun)
    return DebugInfo(role, name or function_name(fun), code, lambda: arg_names(Parameters.of_code(code, given)),
                     None if out_tree is None else lambda: tree.result_paths(out_tree()))


def debug_info_of(role: str, fun: Callable, in_tree, out_tree: Callable[[], Any] | None = None,
                  static: Sequence[int] = ()) -> DebugInfo:
    """Return the debug info of a program traced from `fun`, as `make_debug_info`.

    Its positional arguments have the structure `in_tree`, without those at the positions in `static`.
    """
    return make_debug_info(role, fun, lambda parameters: leaf_names(
        parameters, Selection(tuple(static)), tree.structure((tree.leaf_indices(in_tree), {}))), out_tree)
