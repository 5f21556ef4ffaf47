"""Flattening of function calls, for packages that write transformations with `WrappedFun`s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing, tree
from xlafront.core.ir import DebugInfo
from xlafront.core.program_key import Keyed
from xlafront.staging import signatures
from xlafront.transforms.calls.linear_util import WrappedFun, transformation2, transformation_with_aux2


def safe_map(f: Callable, *args: Any) -> list[Any]:
    """Map a function over sequences of equal length.

    Args:
        f: Function to apply.
        args: Sequences.

    Returns:
        List of results.

    Example:
        >>> safe_map(lambda x, y: x + y, [1, 2], [3, 4])
        [4, 6]
    """
    columns = [list(column) for column in args]
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"safe_map takes sequences of equal length, got lengths {[len(c) for c in columns]}.")
    return [f(*row) for row in zip(*columns)]


def shaped_abstractify(x: Any) -> Any:
    """Return the abstract value of an array or a number.

    Args:
        x: Array or number.

    Returns:
        The `ShapedArray`.

    Example:
        >>> shaped_abstractify(xnp.ones(3)).shape
        (3,)
    """
    return tracing.aval_of(x)


def debug_info(traced_for: str, fun: Callable, args: Sequence[Any], kwargs: dict[str, Any], *,
               static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = (),
               result_paths_thunk: Any = None) -> DebugInfo:
    """Return the debug information of a traced function: its name, its location, and the names of its flat arguments.

    Args:
        traced_for: Name of the transformation that traces it.
        fun: Function.
        args, kwargs: Arguments of the call.
        static_argnums, static_argnames: Positions and names of static arguments.
        result_paths_thunk: Function without arguments that returns the names of the results, or None.

    Returns:
        The debug information.

    Example:
        >>> debug_info("jit", lambda x, y: x, (1, {"a": 2}), {}).arg_names
        ('x', "y['a']")
    """
    static = signatures.Selection(tuple(static_argnums), tuple(static_argnames))
    positions = static.at(len(args))
    dynamic = tuple([x for i, x in enumerate(args) if i not in positions])
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
    """Return a function of the flat arguments, and a function that returns the structure of its results after the call.

    Args:
        fun: Function to flatten.
        in_tree: Structure of `(args, kwargs)`.

    Returns:
        The flat function, and a function without arguments that returns the structure.

    Example:
        >>> from xlafront.extend import linear_util
        >>> structure = xf.tree.structure(((1,), {"y": 2}))
        >>> flat, out_tree = flatten_fun(linear_util.wrap_init(lambda x, y: {"a": x + y}), structure)
        >>> flat.call_wrapped(3, 4), out_tree()
        ([7], PyTreeDef({'a': *}))
    """
    return _flat(fun, in_tree)


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """Flatten a function without keyword arguments; see `flatten_fun`.

    Args:
        fun: Function to flatten.
        in_tree: Structure of `args`.

    Returns:
        The flat function, and a function without arguments that returns the structure.

    Example:
        >>> from xlafront.extend import linear_util
        >>> flat, out_tree = flatten_fun_nokwargs(linear_util.wrap_init(lambda x: x), xf.tree.structure(([1, 2],)))
        >>> flat.call_wrapped(3, 4), out_tree()
        ([3, 4], PyTreeDef([*, *]))
    """
    return _flat_without_names(fun, in_tree)


@transformation2
def _with_fixed(f, dynamic, fixed, *dynamic_args):
    dynamic_values, fixed_values = iter(dynamic_args), iter(fixed)
    return f(*[next(dynamic_values) if is_dynamic else next(fixed_values).value for is_dynamic in dynamic])


def argnums_partial(f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any],
                    require_static_args_hashable: bool = True) -> tuple[WrappedFun, tuple]:
    """Return the function of some of its arguments, with the others fixed, and these arguments.

    Args:
        f: Function.
        dyn_argnums: Positions of the arguments that are not fixed.
        args: All arguments.
        require_static_args_hashable: If True, raise an error for fixed arguments that are not hashable.

    Returns:
        The partial function, and the tuple of its arguments.

    Example:
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
    dynamic = tuple([i in chosen for i in range(len(args))])
    fixed = [Keyed(x) for x, is_dynamic in zip(args, dynamic) if not is_dynamic]
    if require_static_args_hashable:
        for x in fixed:
            if not x.is_hashable:
                raise ValueError(f"argnums_partial fixes arguments that can be hashed, got {x.value!r} of type "
                                 f"{type(x.value).__name__}. Make it a tuple, or an array that is not fixed.") from None
    return _with_fixed(f, dynamic, tuple(fixed)), tuple([args[i] for i in sorted(chosen)])


def donation_vector(donate_argnums: Sequence[int], donate_argnames: Sequence[str], in_tree: Any,
                    kws: bool = True) -> tuple[bool, ...]:
    """Return for each flat argument whether it is donated.

    Args:
        donate_argnums, donate_argnames: Positions and names of donated arguments.
        in_tree: Structure of `(args, kwargs)`.
        kws: If False, `in_tree` is the structure of `args`.

    Returns:
        Tuple of booleans.

    Example:
        >>> donation_vector((0,), ("b",), xf.tree.structure((([1, 2], 3), {"a": 4, "b": 5})))
        (True, True, False, False, True)
    """
    args, kwargs = tree.leaf_indices(in_tree) if kws else (
        tree.leaf_indices(in_tree), {})
    marks = [(i in donate_argnums, x) for i, x in enumerate(args)]
    marks += [(name in donate_argnames, kwargs[name]) for name in sorted(kwargs)]
    return tuple([mark for mark, x in marks for _ in tree.leaves(x)])


def rebase_donate_argnums(donate_argnums: Sequence[int], static_argnums: Sequence[int]) -> tuple[int, ...]:
    """Renumber donated positional arguments without the static ones.

    Args:
        donate_argnums: Positions of donated arguments.
        static_argnums: Positions of static arguments.

    Returns:
        Tuple of positions among the dynamic arguments.

    Example:
        >>> rebase_donate_argnums((0, 2), (1,))
        (0, 1)
    """
    both = set(donate_argnums) & set(static_argnums)
    if both:
        raise ValueError(f"static arguments have no memory to donate: {sorted(both)} are in static_argnums, "
                         f"{sorted(static_argnums)}, and in donate_argnums, {sorted(donate_argnums)}.")
    return tuple(sorted([i - sum([s < i for s in static_argnums]) for i in donate_argnums]))


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """Return the value of a tree prefix for each leaf of a structure; None is a value.

    Args:
        name: Name of the prefix in error messages.
        treedef: Structure.
        axis_tree: Tree prefix.
        kws: True if the structure is that of `(args, kwargs)`.
        tupled_args: True if the prefix is for a tuple of arguments, for error messages.

    Returns:
        List of values.

    Example:
        >>> flatten_axes("in_axes", xf.tree.structure((1, (2, 3))), (0, None))
        [0, None, None]
    """
    full = tree.leaf_indices(treedef)
    try:
        return tree.leaves_by_prefix(name, axis_tree, full, lambda x: x is None)
    except ValueError as e:
        kind = "(args, kwargs)" if kws else "a tuple of arguments" if tupled_args else "a pytree"
        raise ValueError(f"{e} It is a prefix of {kind}.") from None
