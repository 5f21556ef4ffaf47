"""Calls of functions as lists of arrays: for packages that write transformations with `WrappedFun`s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing, tree
from xlafront.core.ir import DebugInfo
from xlafront.core.linear_util import WrappedFun, transformation2, transformation_with_aux2
from xlafront.staging import signatures


def safe_map(f: Callable, *args: Any) -> list[Any]:
    """`map` as a list, of sequences that are equally long.

    - `f`: the function.
    - `args`: the sequences.

    >>> safe_map(lambda x, y: x + y, [1, 2], [3, 4])
    [4, 6]
    """
    columns = [list(column) for column in args]
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"safe_map takes sequences that are equally long, got lengths {[len(c) for c in columns]}.")
    return [f(*row) for row in zip(*columns)]


def shaped_abstractify(x: Any) -> Any:
    """The type of an array or a number.

    - `x`: the value.

    >>> shaped_abstractify(xnp.ones(3)).shape
    (3,)
    """
    return tracing.aval_of(x)


def debug_info(traced_for: str, fun: Callable, args: Sequence[Any], kwargs: dict[str, Any], *,
               static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = (),
               result_paths_thunk: Any = None) -> DebugInfo:
    """What messages say of a function that is traced: its name, where it is, and the names of its flat arguments.

    - `traced_for`: what it is traced for.
    - `fun`: the function.
    - `args`, `kwargs`: what it is called with.
    - `static_argnums`, `static_argnames`: the arguments among them that are no arrays.
    - `result_paths_thunk`: a function without arguments that returns the names of the results, or None.

    >>> debug_info("jit", lambda x, y: x, (1, {"a": 2}), {}).arg_names
    ('x', "y['a']")
    """
    static = signatures.Selection(tuple(static_argnums), tuple(static_argnames))
    places = static.at(len(args))
    dynamic = tuple([x for i, x in enumerate(args) if i not in places])
    in_tree = tree.structure((dynamic, {name: x for name, x in kwargs.items() if name not in static_argnames}))
    return DebugInfo(traced_for, signatures.function_name(fun), signatures.function_location(fun),
                     signatures.argument_names(fun, static, in_tree), result_paths_thunk)


@transformation_with_aux2
def _flat(f, store, in_tree, *leaves):
    args, kwargs = tree.unflatten(in_tree, leaves)
    found, out_tree = tree.flatten(f(*args, **kwargs))
    store.store(out_tree)
    return found


@transformation_with_aux2
def _flat_without_names(f, store, in_tree, *leaves):
    found, out_tree = tree.flatten(f(*tree.unflatten(in_tree, leaves)))
    store.store(out_tree)
    return found


def flatten_fun(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """The function that takes and returns leaves, and what tells the pytree of its results once it has been called.

    - `fun`: the function.
    - `in_tree`: the structure of `(args, kwargs)`.

    >>> from xlafront.extend import linear_util
    >>> structure = xf.tree.structure(((1,), {"y": 2}))
    >>> flat, out_tree = flatten_fun(linear_util.wrap_init(lambda x, y: {"a": x + y}), structure)
    >>> flat.call_wrapped(3, 4), out_tree()
    ([7], PyTreeDef({'a': *}))
    """
    return _flat(fun, in_tree)


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """`flatten_fun`, of functions without keywords.

    - `fun`: the function.
    - `in_tree`: the structure of `args`.

    >>> from xlafront.extend import linear_util
    >>> flat, out_tree = flatten_fun_nokwargs(linear_util.wrap_init(lambda x: x), xf.tree.structure(([1, 2],)))
    >>> flat.call_wrapped(3, 4), out_tree()
    ([3, 4], PyTreeDef([*, *]))
    """
    return _flat_without_names(fun, in_tree)


@transformation2
def _with_fixed(f, places, fixed, *moving):
    given, rest = iter(moving), iter(fixed)
    return f(*[next(given) if moves else next(rest).value for moves in places])


def argnums_partial(f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any],
                    require_static_args_hashable: bool = True) -> tuple[WrappedFun, tuple]:
    """The function of some of its arguments, and these; the others are fixed.

    - `f`: the function.
    - `dyn_argnums`: the positions of the arguments that are not fixed.
    - `args`: all arguments.
    - `require_static_args_hashable`: whether the fixed ones must be hashable.

    >>> from xlafront.extend import linear_util
    >>> g, moving = argnums_partial(linear_util.wrap_init(lambda x, y, z: (x, y, z)), (0, 2), (1, 2, 3))
    >>> moving, g.call_wrapped(7, 8)
    ((1, 3), (7, 2, 8))
    """
    nums = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    for i in nums:
        if not -len(args) <= i < len(args):
            raise ValueError(f"argnums_partial: there is no argument {i} among {len(args)}.")
    chosen = {i % len(args) for i in nums}
    places = tuple([i in chosen for i in range(len(args))])
    fixed = [_Fixed(x) for x, moves in zip(args, places) if not moves]
    if require_static_args_hashable:
        for x in fixed:
            try:
                hash(x.value)
            except TypeError:
                raise ValueError(f"argnums_partial fixes arguments that can be hashed, got {x.value!r} of type "
                                 f"{type(x.value).__name__}. Make it a tuple, or an array that is not fixed.") from None
    return _with_fixed(f, places, tuple(fixed)), tuple([args[i] for i in sorted(chosen)])


class _Fixed:
    """A value, compared by what it is where it can be hashed, else by identity."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self):
        try:
            return hash(self.value)
        except TypeError:
            return id(self.value)

    def __eq__(self, other):
        if not isinstance(other, _Fixed):
            return NotImplemented
        return self.value is other.value or (type(self.value) is type(other.value) and bool(self.value == other.value))


def donation_vector(donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: Any,
                    kws: bool = True) -> tuple[bool, ...]:
    """For each flat argument whether its memory is given away.

    - `donate_argnums`, `donate_argnames`: the positions and the names of arguments that are.
    - `in_tree`: the structure of `(args, kwargs)`.
    - `kws`: whether there are `kwargs` in it; if not, it is the structure of `args`.

    >>> donation_vector((0,), ("b",), xf.tree.structure((([1, 2], 3), {"a": 4, "b": 5})))
    (True, True, False, False, True)
    """
    args, kwargs = tree.numbered(in_tree) if kws else (
        tree.numbered(in_tree), {})
    marks = [(i in donate_argnums, x) for i, x in enumerate(args)]
    marks += [(name in donate_argnames, kwargs[name]) for name in sorted(kwargs)]
    return tuple([mark for mark, x in marks for _ in tree.leaves(x)])


def rebase_donate_argnums(donate_argnums: Sequence[int], static_argnums: Sequence[int]) -> tuple[int, ...]:
    """Positions of arguments, counted without those that are static.

    - `donate_argnums`: the positions.
    - `static_argnums`: those of static arguments.

    >>> rebase_donate_argnums((0, 2), (1,))
    (0, 1)
    """
    both = set(donate_argnums) & set(static_argnums)
    if both:
        raise ValueError(f"static arguments have no memory to donate: {sorted(both)} are in static_argnums, "
                         f"{sorted(static_argnums)}, and in donate_argnums, {sorted(donate_argnums)}.")
    return tuple(sorted([i - sum([s < i for s in static_argnums]) for i in donate_argnums]))


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """For each leaf of a structure its value in a tree prefix, in which None is a value.

    - `name`: what messages call the prefix.
    - `treedef`: the structure.
    - `axis_tree`: the prefix.
    - `kws`: whether the structure is that of `(args, kwargs)`.
    - `tupled_args`: whether the prefix is one for a tuple of arguments, which messages then say.

    >>> flatten_axes("in_axes", xf.tree.structure((1, (2, 3))), (0, None))
    [0, None, None]
    """
    full = tree.numbered(treedef)
    try:
        return tree.leaves_by_prefix(name, axis_tree, full, lambda x: x is None)
    except ValueError as e:
        what = "(args, kwargs)" if kws else "a tuple of arguments" if tupled_args else "a pytree"
        raise ValueError(f"{e} It is one for {what}.") from None
