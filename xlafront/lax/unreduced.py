"""Types of values whose sums over mesh axes are still to be made (`unreduced`), and of those whose cotangents' are (`reduced`).

An unreduced value is the sum of what the devices hold along these axes. What is linear does to each summand what it does
to the sum, and so passes the axes on; the rest needs the sum, and the user is asked to make it with `reshard`.
A reduced value is the same on all devices, and its cotangent is unreduced: in a sum over many steps it is summed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core import dtypes
from xlafront.core.avals import entry_of, str_short
from xlafront.core.errors import ShardingTypeError
from xlafront.core.primitive import Primitive
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.specs import PartitionSpec, axes_of

Axes = frozenset

# Linear in the first operand; others are indices and the like.
_LINEAR = frozenset((
    "neg", "convert_element_type", "transpose", "reshape", "broadcast_in_dim", "squeeze", "slice", "dynamic_slice", "rev",
    "reduce_sum", "cumsum", "copy", "real", "imag", "conj", "gather", "split", "name", "device_put"))
# Linear in all operands together: which of them are numbers that are not summed.
_JOINTLY_LINEAR = {"add": (), "sub": (), "add_any": (), "concatenate": (), "select_n": (0,), "scatter_add": (1,)}
# Of a summand and what is the same on all devices.
_PRODUCTS = frozenset(("mul", "div"))
# What moves values between shardings.
_MOVES = frozenset(("reshard", "device_put", "sharding_constraint"))


def _specs(avals: tuple) -> list[Any]:
    return [None if a.explicit_sharding is None else a.explicit_sharding.spec for a in avals]


def listed(axes: Axes) -> str:
    return ", ".join(map(repr, sorted(axes, key=str)))


def texts(avals: Sequence[Any]) -> str:
    return ", ".join(map(str_short, avals))


def axes_of_result(primitive: Primitive, avals: tuple, result) -> tuple[Axes, Axes]:
    """The axes over which a result is unreduced, and those over which it is reduced."""
    specs = _specs(avals)
    if not any([s is not None and (s.unreduced or s.reduced) for s in specs]):
        return frozenset(), frozenset()
    unreduced_axes = [frozenset() if s is None else s.unreduced for s in specs]
    reduced = [frozenset() if s is None else s.reduced for s in specs]
    if any(unreduced_axes):
        return _unreduced(primitive, avals, unreduced_axes, reduced, result)
    return frozenset(), _reduced(primitive, avals, reduced)


def _reduced(primitive: Primitive, avals: tuple, reduced: list[Axes]) -> Axes:
    name = primitive.name
    if name in _LINEAR:
        return reduced[0]
    if not primitive.broadcasts_scalars and name not in _JOINTLY_LINEAR:
        return frozenset()
    first = next(axes for axes in reduced if axes)
    unsummed = _JOINTLY_LINEAR.get(name, ())
    for i, (aval, axes) in enumerate(zip(avals, reduced)):
        if i not in unsummed and axes != first and (axes or getattr(aval, "shape", ())):
            raise ShardingTypeError(
                f"{primitive.shown_as} of {texts(avals)}: the operands must be reduced over the same axes, since along these "
                f"the sums of cotangents are left open. Bring the others to it, with reshard(x, P(..., "
                f"reduced={{{listed(first)}}})), or this one to what they are.")
    return first


def _unreduced(primitive: Primitive, avals: tuple, unreduced_axes: list[Axes], reduced: list[Axes], result) -> tuple[Axes,
                                                                                                                     Axes]:
    name, axes = primitive.name, next(axes for axes in unreduced_axes if axes)
    attempt = f"{primitive.shown_as} of {texts(avals)}"
    remedy = f"Make the sum over {listed(axes)} first, with reshard(x, P(...))."
    if name in _PRODUCTS:
        summand, factor = (0, 1) if name == "div" or unreduced_axes[0] else (1, 0)
        if unreduced_axes[factor] or not unreduced_axes[summand]:
            raise ShardingTypeError(f"{attempt} is not the sum of what each device would compute of its part. {remedy}")
        if reduced[factor] != axes and (reduced[factor] or getattr(avals[factor], "shape", ())):
            raise ShardingTypeError(f"{attempt}: an array that multiplies summands over {listed(axes)} must be reduced over "
                                    f"the same axes. Use reshard(x, P(..., reduced={{{listed(axes)}}})) of it. {remedy}")
        return axes, reduced[summand]
    if name in _JOINTLY_LINEAR:
        if any([o != axes for i, o in enumerate(unreduced_axes) if i not in _JOINTLY_LINEAR[name]]):
            raise ShardingTypeError(f"{attempt}: some of them are still to be summed over {listed(axes)}, others are not. "
                                    f"{remedy}")
        return axes, frozenset()
    rounds = name == "convert_element_type" and dtypes.is_inexact(avals[0].dtype) != dtypes.is_inexact(result.dtype)
    if name not in _LINEAR or any(unreduced_axes[1:]) or rounds:
        raise ShardingTypeError(f"{attempt} needs the sum over {listed(axes)}, which has not been made. {remedy}")
    return axes, reduced[0]


def check_out_sharding(primitive: Primitive, avals: tuple, params: dict[str, Any], wanted: NamedSharding, result) -> None:
    """Whether an operation can leave the sums open that a user names in `out_sharding`."""
    name, axes = primitive.name, wanted.spec.unreduced
    if name in _MOVES:
        return
    own: Axes = frozenset()
    if any([s is not None and s.unreduced for s in _specs(avals)]):
        own, _ = axes_of_result(primitive, avals, result)
    if own - axes:
        raise ShardingTypeError(f"{primitive.shown_as} of {texts(avals)} cannot make the sum over {listed(own - axes)}: it "
                                f"stays open, and out_sharding={wanted.spec} does not say so. Make it with reshard.")
    if not axes - own:
        return
    summed: Axes = frozenset()
    if name == "dot_general":
        summed = _summed_by_product(avals[0], avals[1], params["dimension_numbers"])
        summed = summed if summed == axes else frozenset()
    elif name == "reduce_sum":
        summed = frozenset([a for d in params["axes"] for a in axes_of(entry_of(avals[0], d))])
    if not axes <= own | summed:
        each = "in both operands over just these axes" if name == "dot_general" else "over these axes"
        raise ShardingTypeError(
            f"{primitive.shown_as} of {texts(avals)} cannot leave the sum over {listed(axes)} open, as told by out_sharding="
            f"{wanted.spec}: it would have to sum dimensions that are split {each}. Name other axes, or bring the result to "
            f"this sharding with reshard.")


def _summed_by_product(x, y, dimension_numbers) -> Axes:
    """The axes that split the dimensions that a product sums, where they split those of both operands alike."""
    (xc, yc), _ = dimension_numbers
    if x.explicit_sharding is None or y.explicit_sharding is None:
        return frozenset()
    entries = [x.explicit_sharding.spec.partitions[i] for i in xc]
    if entries != [y.explicit_sharding.spec.partitions[j] for j in yc]:
        return frozenset()
    return frozenset([a for e in entries for a in axes_of(e)])


def open_product(x, y, dimension_numbers, axes: Axes) -> NamedSharding | None:
    """The sharding of a product that leaves the sums over these axes open; None for one that sums over none of them."""
    summed = _summed_by_product(x, y, dimension_numbers)
    if not summed or not summed <= axes:
        return None
    (xc, yc), (xb, yb) = dimension_numbers
    xs, ys = x.explicit_sharding.spec.partitions, y.explicit_sharding.spec.partitions
    entries = [ys[j] if xs[i] is None else xs[i] for i, j in zip(xb, yb)]
    entries += [e for i, e in enumerate(xs) if i not in (*xc, *xb)] + [e for j, e in enumerate(ys) if j not in (*yc, *yb)]
    used: set = set()
    for i, e in enumerate(entries):  # an axis that splits dimensions of both operands splits one of the result
        entries[i] = None if used & {*axes_of(e)} else e
        used |= {*axes_of(e)}
    return NamedSharding(x.explicit_sharding.mesh, PartitionSpec(*entries, unreduced=summed))
