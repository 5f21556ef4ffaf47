"""Batching rules of primitives.

A rule is `rule(operands, dims, **params) -> (result, dim)`: `dims[i]` is the batch dimension of operand `i`, or `not_mapped`
(None) if the operand is the same for all elements; for a primitive with several results, it returns lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.api.vmappable_types import (
    register_vmappable as register_vmappable,
    unregister_vmappable as unregister_vmappable,
)
from xlafront.base.missing_names import missing
from xlafront.core import tracing
from xlafront.core.avals import with_dimension
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim, place_axis
from xlafront.core.ir import Jaxpr
from xlafront.core.primitive import Primitive
from xlafront.interpreters.registries import Registry, arrays
from xlafront.lax.shapes import reshape_to
from xlafront.transforms.batching.vmap import (
    BatchTrace as BatchTrace,
    BatchTracer as BatchTracer,
    batch_flat,
    batch_of_call,
)
from xlafront.transforms.calls.linear_util import transformation_with_aux2

not_mapped = None


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
    """The mapped axis, as rules of `fancy_primitive_batchers` get it."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None

    # The names that internal rules use.

    @property
    def axis_name(self) -> Any:
        return self.name

    @property
    def spmd_axis_name(self) -> Any:
        return self.spmd_name


@transformation_with_aux2
def batch_subtrace(f: Callable, store: Any, tag: Any, axis_data: AxisData, in_dims: Any, *values: Any) -> tuple:
    """Transform a function of elements into one of batches; the batch dimensions of its results are stored in `store`.

    Example:
        >>> from xlafront.extend import linear_util
        >>> debug_info = xf.api_util.debug_info("f", lambda x, y: [x * y], (1.0, 2.0), {})
        >>> fun = linear_util.wrap_init(lambda x, y: [x * y], debug_info=debug_info)
        >>> batched, out_dims = batch_subtrace(fun, None, AxisData(None, 3), (0, None))
        >>> batched.call_wrapped(xnp.arange(3.0), 2.0)[0].tolist(), out_dims()
        ([0.0, 2.0, 4.0], (0,))
    """
    dims = in_dims() if callable(in_dims) else in_dims
    results, out_dims = batch_flat(f, values, dims, axis_data.size, axis_data.name, axis_data.spmd_name)
    store.store(tuple(out_dims))
    return tuple(results)


class _Batchers(Registry):
    """A registry of batching rules, of which each primitive has one: with or without the axis. Setting one clears the other."""

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
        return super().__contains__(primitive) and self._owns_rule(primitive)

    def __getitem__(self, primitive):
        rule = super().__getitem__(primitive)
        if not self._owns_rule(primitive):
            raise KeyError(f"{self.name} has no rule for {primitive}")
        return rule

    def __iter__(self):
        return iter([p for p in super().__iter__() if self._owns_rule(p)])

    def _owns_rule(self, primitive) -> bool:
        """True if the rule of a primitive was set by this registry: two registries share a field, with different signatures."""
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


# The batch dimension


def broadcast(x, sz: int, axis: int, mesh_axis: Any = None):
    """Return `sz` copies of `x` along a new dimension at `axis`.

    Example:
        >>> broadcast(xnp.ones(2), 3, 0).shape
        (3, 2)
    """
    shape = np.shape(x)
    axis = axis % (len(shape) + 1)
    return broadcast_in_dim_p.bind(x, shape=(*shape[:axis], sz, *shape[axis:]), sharding=None,
                                   broadcast_dimensions=tuple(i for i in range(len(shape) + 1) if i != axis))


def moveaxis(x, src: int | None, dst: int):
    """Move dimension `src` of `x` to position `dst`; return `x` itself if it is not mapped.

    Example:
        >>> moveaxis(xnp.ones((2, 3)), 1, 0).shape
        (3, 2)
    """
    if src is None:
        return x
    rank = np.ndim(x)
    return move_dim(x, src % rank, dst % rank)


def bdim_at_front(x, bdim: int | None, size: int, mesh_axis: Any = None):
    """Move the batch dimension of `x` to the front; broadcast `x` along a new one if it is not mapped.

    Example:
        >>> bdim_at_front(xnp.ones((2, 3)), 1, 3).shape
        (3, 2)
    """
    return broadcast(x, size, 0, mesh_axis) if bdim is None else moveaxis(x, bdim, 0)


# Rules for families


def _dims_of(primitive: Primitive, results, dim):
    return [dim] * len(results) if primitive.multiple_results else dim


def defvectorized(prim: Primitive) -> None:
    """Register a batching rule for an elementwise primitive whose operands are all mapped along one dimension.

    Example:
        >>> half_p = xf.extend.core.Primitive("half")
        >>> defvectorized(half_p)
    """
    def rule(operands, dims, **params):
        if any(d != dims[0] for d in dims):
            raise ValueError(f"{prim} was defined with defvectorized and takes operands mapped along one dimension, got "
                             f"{dims}. Use defbroadcasting if some operands are not mapped.")
        results = prim.bind(*operands, **params)
        return results, _dims_of(prim, results, dims[0])

    primitive_batchers[prim] = rule


def defbroadcasting(prim: Primitive) -> None:
    """Register a batching rule for an elementwise primitive that broadcasts dimensions of size 1.

    Example:
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
        batched = [reshape_to(x, (1, *np.shape(x))) if d is None else moveaxis(x, d, 0) for x, d in zip(operands, dims)]
        rank = max(np.ndim(x) for x in batched)
        same_rank = [x if np.ndim(x) == rank else reshape_to(
            x, (np.shape(x)[0], *(1,) * (rank - np.ndim(x)), *np.shape(x)[1:])) for x in batched]
        results = prim.bind(*same_rank, **params)
        return results, _dims_of(prim, results, 0)

    primitive_batchers[prim] = rule


def defreducer(prim: Primitive, ident: Callable | None = None) -> None:
    """Register a batching rule for a primitive that reduces its operand over the dimensions in its parameter `axes`.

    Example:
        >>> total_p = xf.extend.core.Primitive("total")
        >>> defreducer(total_p)
    """
    def rule(operands, dims, *, axes, **params):
        [operand], [dim] = operands, dims
        batched_axes = tuple(axis + (axis >= dim) for axis in axes)
        results = prim.bind(operand, axes=batched_axes, **params)
        return results, _dims_of(prim, results, dim - sum(axis < dim for axis in batched_axes))

    primitive_batchers[prim] = rule


# Jaxprs


class ZeroIfMapped:
    """In place of a batch dimension of a result: 0 if the result is a batch, None if it is the same for all elements."""

    __slots__ = ()


zero_if_mapped = ZeroIfMapped()


def batch_jaxpr_axes(closed_jaxpr: Jaxpr, axis_data: Any, in_axes: Sequence[int | None],
                     out_axes_dest: Sequence[int | None | ZeroIfMapped]) -> tuple[Jaxpr, list[bool]]:
    """Return a jaxpr on batches.

    Args:
        closed_jaxpr: Jaxpr on elements.
        axis_data: The mapped axis, an `AxisData` as rules of `fancy_primitive_batchers` get it.
        in_axes: Batch dimension of each input, None if it is the same for all elements.
        out_axes_dest: Batch dimension of each result, None if it must be the same for all elements, or `zero_if_mapped`.

    Returns:
        The jaxpr, and for each result whether it is a batch.

    Example:
        >>> program = xf.make_jaxpr(lambda x, y: (x * y, y))(1.0, 2.0)
        >>> batched, marks = batch_jaxpr_axes(program, AxisData("i", 3), [0, None], [0, zero_if_mapped])
        >>> batched.out_avals[0].shape, marks
        ((3,), [True, False])
    """
    size = axis_data.size

    def placed(x: Any, dim: int | None, target: int | None | ZeroIfMapped) -> tuple[Any, bool]:
        if dim is None and (target is None or isinstance(target, ZeroIfMapped)):
            return x, False
        if target is None:
            raise ValueError(f"batch_jaxpr_axes: a result of {closed_jaxpr.debug_info.label} is mapped along the axis "
                             f"{axis_data.name!r}, but its entry in out_axes_dest is None. Give it a dimension.")
        return place_axis(x, dim, 0 if isinstance(target, ZeroIfMapped) else target, size), True

    def run(*xs: Any) -> tuple[list[Any], list[bool]]:
        results, dims = batch_flat(closed_jaxpr, xs, tuple(in_axes), size, axis_data.name, axis_data.spmd_name)
        pairs = [placed(x, d, target) for x, d, target in zip(results, dims, out_axes_dest)]
        return [x for x, _ in pairs], [is_batched for _, is_batched in pairs]

    in_avals = [aval if d is None else with_dimension(aval, d, size) for aval, d in zip(closed_jaxpr.in_avals, in_axes)]
    return tracing.trace_with_aux(run, in_avals, closed_jaxpr.debug_info.with_unknown_results())


def __getattr__(name: str) -> Any:
    raise missing(__name__, name, globals())
