"""From what users pass to what primitives take: one dtype, broadcast shapes."""

from __future__ import annotations

import functools
import sys

import numpy as np

from xlafront.core import dtypes, errors, source, tracing
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import broadcast_in_dim_p, broadcast_shapes
from xlafront.runtime import config


def check_arraylike(name: str, *args) -> None:
    """Lists, strings and other objects are refused: converting them silently is slow and hides mistakes."""
    for i, x in enumerate(args):
        if type(x) not in tracing.abstractors and not (tracing.is_convertible(x) or tracing.is_arraylike(x)):
            raise _not_arraylike(name, i, x)


def _not_arraylike(name: str, i: int, x) -> TypeError:
    if x is None:
        return TypeError(f"{name} requires an array or a scalar, got None, of type NoneType, at position {i}.")
    return errors.not_an_array(x, f"xnp.{name}" if hasattr(sys.modules[__package__], name) else name, f"number {i}")


def promotes_freely(function):
    """A function of the library that combines arrays of several ranks and dtypes of its own: settings that refuse that are for
    what users combine."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        if config.numpy_rank_promotion.value == "allow" and config.numpy_dtype_promotion.value == "standard":
            return function(*args, **kwargs)
        with config.numpy_rank_promotion("allow"), config.numpy_dtype_promotion("standard"):
            return function(*args, **kwargs)

    return call


def hashable_axis(axis, name: str):
    """Refuses a list of axes, where the reference does."""
    try:
        hash(axis)
    except TypeError:
        raise errors.unhashable_static("axis", axis, f"xnp.{name}") from None


def boolean_mask(name: str, where):
    """What a reduction got as `where`, an array of booleans."""
    check_arraylike(name, where)
    where = unwrap(where)
    d = tracing.aval_of(where).dtype
    if d != dtypes.bool_:
        raise ValueError(f"the `where` of {name} must be boolean, got an array of dtype {d}. Compare, as in x != 0.")
    return where


def unwrap(x):
    """Arrays and scalars as they are; objects with `__jax_array__` as their array."""
    return x if type(x) in tracing.abstractors else tracing.as_operand(x)


def unwrap_node(x):
    """As `unwrap` for nodes of pytrees, which compiled functions take apart. What is no array is refused."""
    if type(x) not in tracing.abstractors:
        x = dtypes.plain_number(tracing.node_as_operand(x))
        tracing.aval_of(x)
    return x


# Functions that choose among elements, as `where` does, whatever they compute of them.
_CHOOSE = {"copysign", "heaviside", "gcd", "lcm"}


def broadcast_to_common(name: str, args: list, error: type[Exception] = TypeError, ranks_alone: bool = False) -> list:
    """NumPy's broadcasting. Scalars stay scalars: primitives spread them; so do those that compute element by element with
    dimensions of size 1, for which `ranks_alone` leaves them."""
    shapes = [np.shape(x) for x in args]
    wanted = {s for s in shapes if s}
    if len(wanted) <= 1:
        return args
    rank = max(len(s) for s in wanted)
    if config.numpy_rank_promotion.value != "allow":
        _rank_promotion(name, shapes)
    if any(len(s) != rank for s in wanted) or name in _CHOOSE:
        error = ValueError  # arrays of one rank are refused as operations of `lax` refuse them
    full = broadcast_shapes(name, *shapes, error=error)
    return [x if not s or s == full or ranks_alone and len(s) == rank else _broadcast(x, s, full, rank)
            for x, s in zip(args, shapes)]


def broadcast_cases(name: str, args: list, error: type[Exception] = ValueError) -> list:
    """As `broadcast_to_common`, where arrays of different rank are chosen from, which is not taken for a slip."""
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
    """For functions that convert to numbers what is none."""
    d = tracing.aval_of(x).dtype
    if not isinstance(d, np.dtype):
        raise TypeError(f"xnp.{name} does not accept dtype {d}: random keys are no numbers. Their words are "
                        f"random.key_data(x).")


def within_setting(x):
    """What was made where 64-bit types were on, with as many bits as there are now."""
    d, weak = dtypes.operand_type(x)
    return as_type(x, dtypes.of_arrays(d), weak)


def promote_dtypes(*args) -> list:
    d, weak = dtypes.lattice_result_type(*args)
    return [as_type(x, d, weak) for x in args]


def promote_dtypes_inexact(*args) -> list:
    d, weak = dtypes.lattice_result_type(*args)
    d = dtypes.to_inexact(d)
    return [as_type(x, d, weak) for x in args]


def promote_args(name: str, *args, ranks_alone: bool = False) -> list:
    """One dtype and broadcast shapes for the operands of an elementwise function."""
    check_arraylike(name, *args)
    args = [unwrap(x) for x in args]
    try:
        return broadcast_to_common(name, promote_dtypes(*args) if len(args) > 1 else list(args), ranks_alone=ranks_alone)
    except dtypes.TypePromotionError:
        for x in args:
            refuse_keys(name, x)
        raise


def promote_args_inexact(name: str, *args, ranks_alone: bool = False) -> list:
    """As `promote_args`, with integers and booleans turned into floats."""
    check_arraylike(name, *args)
    args = [unwrap(x) for x in args]
    for x in args:
        refuse_keys(name, x)
    return broadcast_to_common(name, promote_dtypes_inexact(*args), ranks_alone=ranks_alone)
