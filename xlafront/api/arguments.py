"""Arguments and results of `grad`, `jvp`, `jacfwd` and the others: checks, flattening, and conversion to arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.typed_scalars import Typed
from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.basic_primitives import convert_element_type_p
from xlafront.core.refs import AbstractRef
from xlafront.core.tangents import instantiate, weakly_typed_as
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import put_leaf
from xlafront.runtime.keys import KeyArray
from xlafront.staging import signatures
from xlafront.transforms.ad.jvp import JVPTracer


class FlatFunction:
    """A function of pytrees as a function of flat sequences, which records the pytree structure of its result.

    Args:
        fun: The function.
        in_tree: Pytree structure of its positional arguments.
        has_aux: If True, it returns a pair, whose second element is stored in `aux`.
        not_a_pair_error: Class of the error for a tuple of another length.
    """

    __slots__ = ("fun", "in_tree", "out_tree", "has_aux", "aux", "not_a_pair_error")

    def __init__(self, fun: Callable, in_tree, has_aux: bool = False, not_a_pair_error: type[Exception] = TypeError):
        self.fun, self.in_tree, self.has_aux, self.not_a_pair_error = fun, in_tree, has_aux, not_a_pair_error
        self.out_tree = self.aux = None

    def __call__(self, *leaves):
        with source.transformed("jvp"):
            return self.apply(*leaves)

    def apply(self, *leaves):
        """Call the function, outside of the scope of a transformation."""
        result = self.fun(*self.in_tree.unflatten(leaves))
        if self.has_aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                error = self.not_a_pair_error if isinstance(result, (tuple, list)) else TypeError
                raise error(f"with has_aux, {signatures.function_name(self.fun)} must return a pair, a tuple of two elements: "
                            f"the result and auxiliary data. It returned {errors.short(result)}.")
            result, aux = result
            self.aux = _without_tracers(aux)
        flat, self.out_tree = signatures.check_results(self.fun, result)
        return flat


def _without_tracers(aux):
    """Return auxiliary data with the primals of tracers of the differentiation that is about to end, or has ended."""
    current = tracing.thread.trace

    def value(leaf):
        while type(leaf) is JVPTracer and (leaf._trace is current or not leaf._trace.alive):
            leaf = leaf.primal
        return leaf

    return tree.map(value, aux)


def is_one_position(argnums) -> bool:
    """True if `argnums` is an integer, also of NumPy or as an array without dimensions; False for several positions."""
    return hasattr(argnums, "__index__") and not np.ndim(argnums)


def checked_argnums(transform: str, argnums) -> tuple[int, ...]:
    """Return `argnums` as a tuple."""
    try:
        if is_one_position(argnums):
            return (argnums.__index__(),)
        positions = tuple(i.__index__() for i in argnums)
    except (TypeError, AttributeError):
        raise TypeError(f"{transform} takes argnums as an integer or an iterable of integers, got {argnums!r}.") from None
    if not positions and transform == "grad":
        raise ValueError("grad needs at least one position in argnums, got an empty sequence.")
    return positions


def positions_of(transform: str, name: str, argnums, args) -> list[int]:
    """Return the positions that `argnums` select among the arguments, none of them negative."""
    found = []
    for i in argnums:
        if not -len(args) <= i < len(args):
            error = TypeError if i >= 0 and transform == "grad" else ValueError
            raise error(f"{transform}, differentiating with respect to argnums={i}, needs that positional argument of {name}, "
                        f"but it was called with {len(args)} positional argument(s). Pass the argument by position.")
        found.append(i % len(args))
    if len(found) > 1 and len({*found}) < len(found):
        raise TypeError(f"{transform}, differentiating {name} with respect to argnums={tuple(argnums)}, got an argument twice. "
                        f"Give each position once.")
    return found


def restricted_to(fun: Callable, name: str, positions, args: tuple, kwargs: dict) -> Callable:
    """Return a function of the arguments at these positions; the others are fixed."""
    def partial(*values):
        full = list(args)
        for i, x in zip(positions, values):
            full[i] = x
        return fun(*full, **kwargs)

    partial.__name__ = name
    return partial


def argument_path(positions, dynamic, i) -> str:
    """Return the position and pytree path of leaf `i` of the differentiated arguments, for messages."""
    path = tree.path_of(dynamic, i)
    if len(positions) > 1:
        return path
    return f"{positions[0]}" if path == "[0]" else f"{positions[0]} at {path}"


def check_input(transform, name, x, positions, dynamic, i, holomorphic, allow_int):
    """Raise if the function cannot be differentiated with respect to leaf `i` of the arguments."""
    aval = tracing.aval_of(x)
    if aval.is_high:
        return
    d = aval.dtype
    if type(aval) is AbstractRef:
        raise TypeError(f"{transform} of {name} cannot return the gradient in argument "
                        f"{argument_path(positions, dynamic, i)}, a reference, because it accumulates in a reference. Use vjp: "
                        f"y, f_vjp = vjp({name}, ...), and f_vjp.with_refs(gradient_ref, ...)(1.0).")
    if dtypes.is_extended(d) or dtypes.is_integer(d) or d in (dtypes.bool_, dtypes.STRINGS):
        if not allow_int:
            kind = "real-valued" if transform == "jacfwd" else "real- or complex-valued"
            remedy = "or choose other argnums" if transform == "jacfwd" else "choose other argnums, or pass allow_int=True"
            raise TypeError(f"{transform} of {name} needs {kind} inputs (of an inexact dtype), but argument "
                            f"{argument_path(positions, dynamic, i)} has dtype {d}. Convert it to float, {remedy}.")
    elif holomorphic and not dtypes.is_complex(d):
        raise TypeError(f"{transform} with holomorphic=True needs complex inputs, but argument "
                        f"{argument_path(positions, dynamic, i)} of {name} has dtype {d}. Convert it with astype(complex), or "
                        f"leave out holomorphic=True.")


def flags_by_prefix(name: str, flags: Any, structure: Any) -> list[bool]:
    """Return a flag for each leaf of a pytree structure, from a tree prefix of bools.

    Containers of the prefix match containers of the structure by their number of children, whatever their types.
    """
    if isinstance(flags, bool):
        return [flags] * structure.num_leaves
    try:
        children, _ = tree.flatten_one_level(flags)
    except ValueError:
        raise ValueError(f"{name} must be a tree of bools (of tuples, or of the containers of the arguments), got "
                         f"{errors.short(flags)} of type {type(flags).__name__}.") from None
    matching = structure.children()
    if len(children) != len(matching):
        raise ValueError(f"{name} must form a tree prefix of the arguments: it has {len(children)} children where they have "
                         f"{len(matching)}. Give one bool for a whole container, or an entry for each child.")
    return [flag for i, (child, inner) in enumerate(zip(children, matching))
            for flag in flags_by_prefix(f"{name}[{i}]", child, inner)]


def check_arrays(name: str, fun, args) -> list[Any]:
    leaves = tree.leaves(args)
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, f"{name} of {signatures.function_name(fun)}", tree.path_of(args, i))
    return list(leaves)


# Results


def as_array(x):
    """Return a result as an array; differentiation may have found it to be a constant."""
    if isinstance(x, (ArrayImpl, tracing.Tracer)) or isinstance(x, np.ndarray) and x.dtype == dtypes.float0 or (
            tracing.aval_of(x).is_high):
        return x
    if tracing.is_tracing() and not np.shape(x) and not isinstance(x, KeyArray):  # in jaxprs, a literal
        aval = tracing.aval_of(x)
        return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None)
    return put_leaf(x, None)


def as_results(values) -> list[Any]:
    """Return values as arrays. Python and NumPy scalars that a function returns unchanged stay scalars."""
    return [x if type(x) in dtypes.python_scalar_dtypes else x.plain if isinstance(x, Typed) else
            _with_array_dtype(x) if isinstance(x, np.generic) else as_array(x) for x in values]


def tree_of_flags(structure: Any, flags: Iterator[bool]) -> Any:
    """Return flags in a pytree structure, with tuples in place of containers other than tuples, lists and dicts."""
    node = structure.node_data()
    if node is None:
        return next(flags)
    kind, keys = node
    children = [tree_of_flags(child, flags) for child in structure.children()]
    if kind is type(None):
        return None
    return dict(zip(keys, children)) if kind is dict else children if kind is list else tuple(children)


def _with_array_dtype(x: np.generic) -> np.generic:
    d = tracing.aval_of(x).dtype
    return x if x.dtype == d else d.type(x)


def as_derivatives(tangents) -> list[Any]:
    """Return tangents or cotangents as arrays; zeros have the weak type of their primal."""
    return as_results([weakly_typed_as(instantiate(t), t.aval) if type(t) is Zero else t for t in tangents])
