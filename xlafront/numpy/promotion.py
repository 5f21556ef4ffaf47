"""Conversion of user arguments to operands of primitives: one dtype, broadcast shapes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from xlafront.base import config
from xlafront.core import dtypes, errors, source, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p
from xlafront.core.staging import StagedTracer
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import broadcast_shapes
from xlafront.staging.library import free_promotion, is_promotion_restricted

_F = TypeVar("_F", bound=Callable)


def check_arraylike(name: str, *args) -> None:
    """Raise for lists, strings and other objects, whose silent conversion would be slow and hide mistakes."""
    for i, x in enumerate(args):
        kind = type(x)
        if kind in tracing.plain_types or kind is StagedTracer and type(x.aval) is ShapedArray:  # hot
            continue
        if not (tracing.is_operand(x) or tracing.is_convertible(x) or tracing.is_arraylike(x)):
            raise _not_arraylike(name, i, x)


def _not_arraylike(name: str, i: int, x) -> TypeError:
    if x is None:
        return TypeError(f"{name} requires an array or a scalar, got None, of type NoneType, at position {i}.")
    return errors.not_an_array(x, f"numpy.{name}" if hasattr(sys.modules[__package__], name) else name, f"number {i}")


def promotes_freely(function: _F) -> _F:
    """Decorate an internal function that combines arrays of different ranks and dtypes.

    The settings that forbid such promotion apply to what users combine, not to these. Functions that a library function calls
    need no decoration.
    """
    @functools.wraps(function)
    def call(*args, **kwargs):
        if not is_promotion_restricted():
            return function(*args, **kwargs)
        with free_promotion():
            return function(*args, **kwargs)

    decorated: Any = call
    return decorated


def with_present_promotion(function: Callable) -> Callable:
    """Return a function that runs under the promotion settings of now, also where `promotes_freely` calls it."""
    if not is_promotion_restricted():
        return function
    ranks, types = config.numpy_rank_promotion.value, config.numpy_dtype_promotion.value

    @functools.wraps(function)
    def call(*args, **kwargs):
        with config.numpy_rank_promotion(ranks), config.numpy_dtype_promotion(types):
            return function(*args, **kwargs)

    return call


def hashable_axis(axis, name: str):
    """Raise if `axis` is unhashable, such as a list, as JAX does."""
    try:
        hash(axis)
    except TypeError:
        raise errors.unhashable_static("axis", axis, f"numpy.{name}") from None


def boolean_mask(name: str, where):
    """Return the `where` argument of a reduction unwrapped; raise if it is not boolean."""
    check_arraylike(name, where)
    where = unwrap(where)
    d = tracing.aval_of(where).dtype
    if d != dtypes.bool_:
        raise ValueError(f"the `where` of {name} must be boolean, got an array of dtype {d}. Compare, as in x != 0.")
    return where


def unwrap(x: Any) -> Any:
    """Return arrays and scalars unchanged and objects with `__jax_array__` as their array."""
    kind = type(x)
    if kind in tracing.plain_types or kind is StagedTracer and type(x.aval) is ShapedArray:  # hot
        return x
    return x if tracing.is_operand(x) else tracing.as_operand(x)


def unwrap_node(x):
    """As `unwrap`, also for pytree nodes, whose leaves compiled functions take as arguments. Raise for values that are
    not arrays."""
    if not tracing.is_operand(x):
        x = dtypes.plain_number(tracing.node_as_operand(x))
        tracing.aval_of(x)
    return x


# Functions that are built on `where` and raise its error for shapes that do not broadcast.
_BUILT_ON_WHERE = {"copysign", "heaviside", "gcd", "lcm", "hypot", "ldexp"}


def broadcast_to_common(name: str, args: list, error: type[Exception] = TypeError, ranks_only: bool = False) -> list:
    """Broadcast arguments by NumPy's rules.

    Scalars stay scalars, since primitives broadcast them. Elementwise primitives also broadcast dimensions of size 1:
    with `ranks_only`, only ranks are matched.
    """
    shapes = [np.shape(x) for x in args]
    array_shapes = {s for s in shapes if s}
    if len(array_shapes) <= 1:
        return args
    rank = max(len(s) for s in array_shapes)
    if config.numpy_rank_promotion.value != "allow":
        _rank_promotion(name, shapes)
    if any(len(s) != rank for s in array_shapes) or name in _BUILT_ON_WHERE:
        error = ValueError  # for arrays of equal rank, `error` is that of `lax` operations
    full = broadcast_shapes(name, *shapes, error=error)
    return [x if not s or s == full or ranks_only and len(s) == rank else _broadcast(x, s, full, rank)
            for x, s in zip(args, shapes)]


def broadcast_cases(name: str, args: list, error: type[Exception] = ValueError) -> list:
    """Broadcast the arguments of a selection such as `where`, regardless of the setting `numpy_rank_promotion`."""
    shapes = [np.shape(x) for x in args]
    full = broadcast_shapes(name, *shapes, error=error)
    return [x if not s or s == full else _broadcast(x, s, full, len(full)) for x, s in zip(args, shapes)]


def _broadcast(x, shape, full, rank):
    return broadcast_in_dim_p.bind(x, shape=full, broadcast_dimensions=tuple(range(rank - len(shape), rank)),
                                   sharding=None)


def _rank_promotion(name: str, shapes) -> None:
    if len({len(s) for s in shapes if s}) <= 1:
        return
    listed = " ".join(str(s) for s in shapes)
    if config.numpy_rank_promotion.value == "warn":
        source.warn(f"{name} broadcasts arrays of different rank, shapes {listed}, by NumPy's automatic rank promotion (the "
                    "setting numpy_rank_promotion, jax_numpy_rank_promotion).")
        return
    raise ValueError(f"{name} got arrays of different rank, which could not be broadcast together: shapes {listed}. The "
                     "setting numpy_rank_promotion='raise' (jax_numpy_rank_promotion) forbids automatic rank promotion. Add "
                     "dimensions explicitly, as in x[None, :].")


def refuse_keys(name: str, x) -> None:
    """Raise for random keys, which cannot be converted to numbers."""
    d = tracing.aval_of(x).dtype
    if not isinstance(d, np.dtype):
        raise TypeError(f"numpy.{name} does not accept dtype {d}: random keys are not numbers. Use random.key_data(x) for "
                        f"their words.")


def within_setting(x):
    """Convert an array that was created while 64-bit types were enabled to the bit width of the current setting."""
    d, weak = dtypes.operand_type(x)
    return as_type(x, dtypes.array_dtype(d), weak)


def promote_dtypes(*args: Any) -> list[Any]:
    d, weak = dtypes.lattice_result_type(*args)
    return [as_type(x, d, weak) for x in args]


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    d, weak = dtypes.lattice_result_type(*args)
    d = dtypes.to_inexact(d)
    return [as_type(x, d, weak) for x in args]


def promote_args(name: str, *args: Any, ranks_only: bool = False) -> list[Any]:
    """Promote the operands of an elementwise function to one dtype and broadcast their shapes."""
    check_arraylike(name, *args)
    args = [unwrap(x) for x in args]
    try:
        return broadcast_to_common(name, promote_dtypes(*args) if len(args) > 1 else list(args), ranks_only=ranks_only)
    except dtypes.TypePromotionError:
        for x in args:
            refuse_keys(name, x)
        raise


def promote_args_inexact(name: str, *args: Any, ranks_only: bool = False) -> list[Any]:
    """As `promote_args`, with integers and booleans converted to floats."""
    check_arraylike(name, *args)
    args = [unwrap(x) for x in args]
    for x in args:
        refuse_keys(name, x)
    return broadcast_to_common(name, promote_dtypes_inexact(*args), ranks_only=ranks_only)
