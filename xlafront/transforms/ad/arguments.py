"""What `grad`, `jvp`, `jacfwd` and the others ask of functions and arguments, and how they return values and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.keys import KeyArray
from xlafront.core.refs import AbstractRef
from xlafront.core.typed_numbers import Typed
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import put_leaf
from xlafront.lax.elementwise import convert_element_type_p
from xlafront.lax.zeros import instantiate
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging import signatures
from xlafront.transforms.ad.jvp import JVPTracer


class FlatFunction:
    """A function of pytrees as one of flat lists; remembers the structure of what it returned.

    `no_pair` is the error, with `has_aux`, for a tuple of another length."""

    __slots__ = ("fun", "in_tree", "out_tree", "has_aux", "aux", "no_pair")

    def __init__(self, fun: Callable, in_tree, has_aux: bool = False, no_pair: type[Exception] = TypeError):
        self.fun, self.in_tree, self.has_aux, self.no_pair = fun, in_tree, has_aux, no_pair
        self.out_tree = self.aux = None

    def __call__(self, *leaves):
        with source.transformed("jvp"):
            return self.apply(*leaves)

    def apply(self, *leaves):
        """The function where it is not differentiated."""
        result = self.fun(*self.in_tree.unflatten(leaves))
        if self.has_aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                error = self.no_pair if isinstance(result, (tuple, list)) else TypeError
                raise error(f"with has_aux, {signatures.function_name(self.fun)} must return a pair, a tuple of two elements: "
                            f"the result and auxiliary data. It returned {errors.short(result)}.")
            result, self.aux = result
        flat, self.out_tree = signatures.check_results(self.fun, result)
        return flat


def checked_argnums(transform: str, argnums) -> tuple[int, ...]:
    try:
        if hasattr(argnums, "__index__"):
            return (argnums.__index__(),)
        chosen = tuple(i.__index__() for i in argnums)
    except (TypeError, AttributeError):
        raise TypeError(f"{transform} takes argnums as an integer or an iterable of integers, got {argnums!r}.") from None
    if not chosen and transform == "grad":
        raise ValueError("grad needs at least one position in argnums, got an empty sequence.")
    return chosen


def positions_of(transform: str, name: str, chosen, args) -> list[int]:
    found = []
    for i in chosen:
        if not -len(args) <= i < len(args):
            error = TypeError if i >= 0 and transform == "grad" else ValueError
            raise error(f"{transform}, differentiating with respect to argnums={i}, needs that positional argument of {name}, "
                        f"but it was called with {len(args)} positional argument(s). Pass the argument by position.")
        found.append(i % len(args))
    if len(found) > 1 and len({*found}) < len(found):
        raise TypeError(f"{transform}, differentiating {name} with respect to argnums={tuple(chosen)}, got an argument twice. "
                        f"Give each position once.")
    return found


def of_positions(fun: Callable, name: str, positions, args: tuple, kwargs: dict) -> Callable:
    """The function of the arguments at these positions, where the others are given."""
    def partial(*values):
        full = list(args)
        for i, x in zip(positions, values):
            full[i] = x
        return fun(*full, **kwargs)

    partial.__name__ = name
    return partial


def argument_path(positions, dynamic, i) -> str:
    """Which leaf `i` of the arguments at these positions is, for messages."""
    path = tree.path_of(dynamic, i)
    if len(positions) > 1:
        return path
    return f"{positions[0]}" if path == "[0]" else f"{positions[0]} at {path}"


def check_input(transform, name, x, positions, dynamic, i, holomorphic, allow_int):
    """Refuse leaf `i` of the arguments at these positions where it cannot be differentiated in."""
    aval = tracing.aval_of(x)
    if aval.is_high:
        return
    d = aval.dtype
    if type(aval) is AbstractRef:
        raise ValueError(f"{transform} of {name} cannot return the gradient in argument "
                        f"{argument_path(positions, dynamic, i)}, a reference: it belongs into a reference too. Use vjp: "
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


def check_arrays(name: str, fun, args) -> list[Any]:
    leaves = tree.leaves(args)
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, f"{name} of {signatures.function_name(fun)}", tree.path_of(args, i))
    return list(leaves)


# Results


def without_tracers(x):
    """Auxiliary data without the tracers of a differentiation that has ended."""
    def value(leaf):
        while type(leaf) is JVPTracer and not leaf._trace.alive:
            leaf = leaf.primal
        return leaf

    return tree.map(value, x)


def as_array(x):
    """A result as an array, where differentiation found it to be a constant."""
    if isinstance(x, (ArrayImpl, tracing.Tracer)) or isinstance(x, np.ndarray) and x.dtype == dtypes.float0 or (
            tracing.aval_of(x).is_high):
        return x
    if tracing.is_tracing() and not np.shape(x) and not isinstance(x, KeyArray):  # in programs a number in place
        aval = tracing.aval_of(x)
        return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None)
    return put_leaf(x, None)


def as_results(values) -> list[Any]:
    """Values as arrays; numbers of Python and NumPy that a function hands through stay what they are (of 64 bits no more than
    arrays may have)."""
    return [x if type(x) in dtypes.python_scalar_dtypes else x.plain if isinstance(x, Typed) else
            _of_its_type(x) if isinstance(x, np.generic) else as_array(x) for x in values]


def _of_its_type(x: np.generic) -> np.generic:
    d = tracing.aval_of(x).dtype
    return x if x.dtype == d else d.type(x)


def as_derivatives(tangents) -> list[Any]:
    """Derivatives as results; a zero is as weakly typed as the value that it belongs to."""
    return as_results([weakly_typed_as(instantiate(t), t.aval) if type(t) is Zero else t for t in tangents])


def weakly_typed_as(x, aval):
    """A tangent or cotangent as weakly typed as what it belongs to."""
    if not aval.weak_type or getattr(x, "dtype", None) == dtypes.float0:
        return x
    given = tracing.aval_of(x)
    if given.weak_type or given.dtype != aval.dtype:
        return x
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=True, sharding=None)
