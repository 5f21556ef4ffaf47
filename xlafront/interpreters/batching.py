"""Batching rules of primitives: the operation over one more dimension.

A rule is `rule(operands, dims, **params) -> (result, dim)`: `dims[i]` is the dimension of operand `i` that counts the
elements, or `not_mapped` (None) where the operand is the same for all of them; for a primitive with several results, lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core.primitive import Primitive
from xlafront.interpreters.registries import Registry, arrays
from xlafront.lax.shapes import broadcast_in_dim_p, move_dim, reshape_to
from xlafront.transforms.batching.vmap import BatchTrace as BatchTrace, BatchTracer as BatchTracer, batch_of_call
from xlafront.transforms.batching.vmappable_types import (
    register_vmappable as register_vmappable,
    unregister_vmappable as unregister_vmappable,
)

not_mapped = None
NotMapped = type(None)


def _size(operands: Sequence[Any], dims: Sequence[int | None]) -> int:
    for x, d in zip(operands, dims):
        if d is not None:
            return np.shape(x)[d]
    raise ValueError("a batching rule was called without a mapped operand.")


def _adapt(primitive, rule):
    def batch(axis_size, operands, dims, **params):
        return rule(arrays(operands), tuple(dims), **params)

    return batch


def _present(primitive, batch):
    def rule(operands, dims, **params):
        return batch(_size(operands, dims), list(operands), list(dims), **params)

    return rule


class AxisData(NamedTuple):
    """What a rule of `fancy_primitive_batchers` is told of the mapped axis."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None

    # As the rules of the library ask for it.

    @property
    def axis_name(self) -> Any:
        return self.name

    @property
    def spmd_axis_name(self) -> Any:
        return self.spmd_name


class _Batchers(Registry):
    """The record has one rule: that for the element count, or that which also takes the axis. Filling one clears the other."""

    def __init__(self, name, field, other, adapt, present, of_calls=None):
        super().__init__(name, field, adapt, present, of_calls)
        self.other = other

    def of(self, primitive):
        return super().of(primitive) if getattr(primitive, self.other) is None else getattr(primitive, self.field)

    def __setitem__(self, primitive, rule):
        super().__setitem__(primitive, rule)
        getattr(primitive, self.field).given_to = self.name
        setattr(primitive, self.other, None)

    def __contains__(self, primitive):
        return super().__contains__(primitive) and self._speaks(primitive)

    def __getitem__(self, primitive):
        rule = super().__getitem__(primitive)
        if not self._speaks(primitive):
            raise KeyError(f"{self.name} has no rule for {primitive}")
        return rule

    def __iter__(self):
        return iter([p for p in super().__iter__() if self._speaks(p)])

    def _speaks(self, primitive) -> bool:
        """Two registries share the field of rules that take the axis, in different signatures."""
        own = "primitive_batchers" if self.field == "batch" else "fancy_primitive_batchers"
        return getattr(getattr(primitive, self.field), "given_to", own) == self.name


def _adapt_fancy(primitive, rule):
    def batch(trace, operands, dims, **params):
        axis = AxisData(trace.axis_name, trace.size, getattr(trace, "spmd_axis_name", None))
        return rule(axis, arrays(operands), tuple(dims), **params)

    return batch


def _present_fancy(primitive, batch):
    return lambda axis, operands, dims, **params: batch(axis, list(operands), list(dims), **params)


def _adapt_axis(primitive, rule):
    def batch(trace, operands, dims, **params):
        return rule(trace.size, trace.axis_name, None, arrays(operands), tuple(dims), **params)

    return batch


primitive_batchers = _Batchers("primitive_batchers", "batch", "batch_with_axis", _adapt, _present)
fancy_primitive_batchers = _Batchers("fancy_primitive_batchers", "batch_with_axis", "batch", _adapt_fancy, _present_fancy,
                                    batch_of_call)
axis_primitive_batchers = _Batchers("axis_primitive_batchers", "batch_with_axis", "batch", _adapt_axis, None)


# Moving the mapped dimension


def broadcast(x, sz: int, axis: int, mesh_axis: Any = None):
    """`sz` copies of `x` along a new dimension at `axis`.

    >>> broadcast(xnp.ones(2), 3, 0).shape
    (3, 2)
    """
    shape = np.shape(x)
    axis = axis % (len(shape) + 1)
    return broadcast_in_dim_p.bind(x, shape=(*shape[:axis], sz, *shape[axis:]), sharding=None,
                                   broadcast_dimensions=tuple(i for i in range(len(shape) + 1) if i != axis))


def moveaxis(x, src: int | None, dst: int):
    """`x` with dimension `src` at position `dst`; as it is when it is not mapped.

    >>> moveaxis(xnp.ones((2, 3)), 1, 0).shape
    (3, 2)
    """
    if src is None:
        return x
    rank = np.ndim(x)
    return move_dim(x, src % rank, dst % rank)


def bdim_at_front(x, bdim: int | None, size: int, mesh_axis: Any = None):
    """`x` with the mapped dimension in front, copied along one where it is not mapped.

    >>> bdim_at_front(xnp.ones((2, 3)), 1, 3).shape
    (3, 2)
    """
    return broadcast(x, size, 0, mesh_axis) if bdim is None else moveaxis(x, bdim, 0)


# Rules for families


def _dims_of(primitive: Primitive, results, dim):
    return [dim] * len(results) if primitive.multiple_results else dim


def defvectorized(prim: Primitive) -> None:
    """Say that the primitive works on each element by itself, and takes all operands mapped along one dimension.

    >>> half_p = xf.extend.core.Primitive("half")
    >>> defvectorized(half_p)
    """
    def rule(operands, dims, **params):
        if any(d != dims[0] for d in dims):
            raise ValueError(f"{prim} was defined with defvectorized and takes operands mapped along one dimension, got "
                             f"{dims}. Use defbroadcasting for operands of which some are not mapped.")
        results = prim.bind(*operands, **params)
        return results, _dims_of(prim, results, dims[0])

    primitive_batchers[prim] = rule


def defbroadcasting(prim: Primitive) -> None:
    """Say that the primitive works on each element by itself, and broadcasts dimensions of size 1.

    >>> add_p = xf.extend.core.Primitive("my_add")
    >>> defbroadcasting(add_p)
    """
    def rule(operands, dims, **params):
        shapes = {(np.shape(x), d) for x, d in zip(operands, dims) if np.ndim(x)}
        if len(shapes) == 1:
            [(_, dim)] = shapes
            if dim is not None:
                results = prim.bind(*operands, **params)
                return results, _dims_of(prim, results, dim)
        fronted = [reshape_to(x, (1, *np.shape(x))) if d is None else moveaxis(x, d, 0) for x, d in zip(operands, dims)]
        rank = max(np.ndim(x) for x in fronted)
        level = [x if np.ndim(x) == rank else reshape_to(
            x, (np.shape(x)[0], *(1,) * (rank - np.ndim(x)), *np.shape(x)[1:])) for x in fronted]
        results = prim.bind(*level, **params)
        return results, _dims_of(prim, results, 0)

    primitive_batchers[prim] = rule


def defreducer(prim: Primitive, ident: Callable | None = None) -> None:
    """Say that the primitive reduces its operand over the dimensions in its parameter `axes`.

    >>> total_p = xf.extend.core.Primitive("total")
    >>> defreducer(total_p)
    """
    def rule(operands, dims, *, axes, **params):
        [operand], [dim] = operands, dims
        moved = tuple(axis + (axis >= dim) for axis in axes)
        results = prim.bind(operand, axes=moved, **params)
        return results, _dims_of(prim, results, dim - sum(axis < dim for axis in moved))

    primitive_batchers[prim] = rule
