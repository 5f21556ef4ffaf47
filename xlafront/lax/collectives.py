"""Collectives: public functions that communicate along named axes.

The primitives are in `all_reductions` and `collective_exchanges`; `axis_index` is in `named_axes`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlafront.base import config
from xlafront.base.specs import UnreducedKind
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray, str_short
from xlafront.core.basic_primitives import psum_invariant_p, pvary_p, recast
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.all_reductions import cast_to, pmax_p, pmin_p, psum_p, unreduced_and_reduced_axes, unreduced_as_varying
from xlafront.lax.collective_exchanges import (
    all_gather_invariant_p,
    all_gather_p,
    all_to_all_p,
    pbroadcast_p,
    ppermute_p,
    psum_scatter_p,
)
from xlafront.lax.creation import full_like
from xlafront.lax.elementwise import as_type, div
from xlafront.lax.elementwise_functions import convert_element_type
from xlafront.lax.named_axes import axes_text, resolve_axes
from xlafront.lax.ragged_exchange import ragged_all_to_all_p
from xlafront.lax.reductions import reduced
from xlafront.lax.send_recv import check_token, precv_p, psend_p
from xlafront.lax.shapes import canonical_axes, expand_dims, squeeze

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive
    from xlafront.core.tree import PyTreeDef

Groups = Sequence[Sequence[int]] | None


# Arguments


def _check_groups(groups: Groups, names: tuple, size: int, caller: str, equal: bool) -> tuple | None:
    if groups is None:
        return None
    axes = axes_text(names)
    try:
        parsed = tuple(tuple(operator.index(i) for i in group) for group in groups)
    except TypeError:
        raise TypeError(f"axis_index_groups of {caller} takes lists of indices along {axes}, such as "
                        f"[[0, 1], [2, 3]], got {errors.short(groups)}.") from None
    indices = sorted(i for group in parsed for i in group)
    if indices != list(range(size)):
        raise ValueError(f"axis_index_groups of {caller} must contain each index of {axes}, 0 to {size - 1}, in "
                         f"exactly one group, got {[list(g) for g in parsed]}.")
    if equal and len({len(group) for group in parsed}) > 1:
        raise ValueError(f"axis_index_groups of {caller} must all have the same size, got {[list(g) for g in parsed]}.")
    return parsed


def _flatten_arrays(x: Any, caller: str) -> tuple[list, PyTreeDef]:
    leaves, treedef = tree.flatten(x)
    for i, leaf in enumerate(leaves):
        if not tracing.is_arraylike(leaf):
            raise errors.not_an_array(leaf, caller, tree.path_of(x, i))
    return list(leaves), treedef


def _as_varying(x: Any, names: Sequence[Hashable]) -> Array:
    """Cast a value to vary along the axes, if the `shard_map` checks replication."""
    missing = _checked_axes(names) - tracing.aval_of(x).vma
    if missing and not config.auto_pcast.value:
        raise errors.not_varying_alike("a collective", [tracing.aval_of(x)])
    return pvary_p.bind(x, axes=tuple(n for n in names if n in missing)) if missing else x


def _check_uniform_vma(caller: str, x: Any, names: Sequence[Hashable]) -> None:
    """Raise an error if a value varies along some of the axes of a reduction, but not along all."""
    vma = tracing.aval_of(x).vma
    varying = [n for n in names if n in vma]
    invarying = [n for n in names if n in _checked_axes(names) - vma - unreduced_and_reduced_axes(x)[0]]
    if varying and invarying:
        raise ValueError(f"{caller} over {axes_text(names)} of a value of type {str_short(tracing.aval_of(x))}: it varies "
                         f"along {varying} and is the same along {invarying}, where a sum would count it several times. Reduce "
                         f"it over {varying} only, or make it varying first: pcast(x, {tuple(invarying)}, to='varying').")


def _checked_axes(names: Sequence[Hashable]) -> frozenset:
    """Return those of the axes whose replication is checked by types."""
    return tracing.checked_axes() & set(names)


def _is_constant(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.ndarray, np.generic)) and not isinstance(x, bool)


def _check_integer(x: Any, caller: str, argument: str) -> int:
    try:
        return operator.index(x)
    except TypeError:
        hint = ": it must be known while the function is traced" if isinstance(x, tracing.Tracer) else ""
        raise TypeError(f"{caller} takes {argument} as an integer, got {errors.short(x)}{hint}.") from None


def _check_dimension(axis: int, rank: int, caller: str, argument: str) -> int:
    axis = _check_integer(axis, caller, argument)
    if not -rank <= axis < rank:
        raise errors.OutOfRangeError(f"{caller} got {argument}={axis} for an array with {rank} dimension(s).")
    return axis % rank if rank else 0


# Reductions


def _split_axis_name(axis_name: Hashable) -> tuple[tuple, tuple]:
    """Split an axis argument into names and dimensions of the array, which are integers."""
    axes = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    return tuple(a for a in axes if not isinstance(a, int)), tuple(a for a in axes if isinstance(a, int))


def _reduce(caller: str, reduction: str, x: Any, axis_name: Hashable, groups: Groups, bind: Callable) -> Any:
    names, dimensions = _split_axis_name(axis_name)
    names, size = resolve_axes(names, caller)
    groups = _check_groups(groups, names, size, caller, False)
    if groups is not None and dimensions:
        raise ValueError(f"{caller} takes axis_index_groups only if all axes are named, got {axis_name}.")
    leaves, treedef = _flatten_arrays(x, caller)
    results = []
    for leaf in leaves:
        if dimensions:
            axes = canonical_axes(dimensions, np.ndim(leaf), caller)
            if reduction == "reduce_sum" and tracing.aval_of(leaf).dtype == dtypes.bool_:
                leaf = _as_integers(leaf)
            leaf = reduced(reduction, leaf, axes)
        results.append(bind(leaf, names, size, groups) if names else leaf)
    return treedef.unflatten(results)


def _as_integers(x: Any) -> Any:
    dtype = np.dtype(np.int32)
    return dtype.type(x) if isinstance(x, bool) else convert_element_type(x, dtype)


def psum(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None) -> Any:
    """Sum over a named axis. All devices or elements along it get the sum.

    Args:
        x: A pytree of arrays. The sum of a Python or NumPy constant is computed statically, as a multiple of it.
        axis_name: A name, or a tuple of names and of dimensions of the array.
        axis_index_groups: Lists of indices along the axis; the sum is within each group. Default: one group.

    Returns:
        A pytree like `x`, with the sums.

    Example:
        >>> xf.vmap(lambda x: x - lax.psum(x, "i"), axis_name="i")(xnp.arange(3))
        Array([-3, -2, -1], dtype=int32)
    """
    return _sum("psum", x, axis_name, axis_index_groups)


def _sum(caller: str, x: Any, axis_name: Hashable, groups: Groups) -> Any:
    def bind(leaf: ArrayLike, names: tuple, size: int, groups: tuple | None) -> ArrayLike:
        if tracing.aval_of(leaf).dtype == dtypes.bool_:
            leaf = _as_integers(leaf)
        if _is_constant(leaf):
            if groups is None:
                return leaf * (np.asarray(size).astype(leaf.dtype) if isinstance(leaf, (np.ndarray, np.generic)) else size)
            if len({len(group) for group in groups}) == 1:
                return leaf * len(groups[0])
        if groups is None and _checked_axes(names):
            _check_uniform_vma(caller, leaf, names)
            return psum_invariant_p.bind(_as_varying(unreduced_as_varying(leaf, names), names), axes=names)
        return psum_p.bind(_as_varying(leaf, names), axes=names, axis_index_groups=groups)

    return _reduce(caller, "reduce_sum", x, axis_name, groups, bind)


def pmean(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None) -> Any:
    """Compute the mean over a named axis. All devices or elements along it get the mean.

    The mean of integers is a float.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names and of dimensions of the array.
        axis_index_groups: Lists of indices along the axis; the mean is within each group. Default: one group.

    Returns:
        A pytree like `x`, with the means.

    Example:
        >>> xf.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(xnp.arange(3.0))
        Array([-1.,  0.,  1.], dtype=float32)
    """
    names, dimensions = _split_axis_name(axis_name)
    count = _sum("pmean", 1, names, axis_index_groups)

    def mean(leaf: ArrayLike, leaf_sum: ArrayLike) -> Array:
        num_elements = math.prod([np.shape(leaf)[d] for d in dimensions])
        return div(*_promote_to_float(leaf_sum, count * num_elements if dimensions else count))

    sums = _sum("pmean", x, axis_name, axis_index_groups)
    return tree.map(mean, x, sums)


def _promote_to_float(*operands: Any) -> list:
    """Promote two numbers or arrays to the dtype of their true division."""
    dtype, weak = dtypes.promote_pair(*dtypes.operand_type(operands[0]), *dtypes.operand_type(operands[1]))
    return [as_type(x, dtypes.to_inexact(dtype), weak) for x in operands]


def _minmax(caller: str, kind: UnreducedKind, reduction: str, primitive: Primitive, x: Any, axis_name: Hashable, groups: Groups
            ) -> Any:
    def bind(leaf: ArrayLike, names: tuple, size: int, groups: tuple | None) -> Array:
        primitive.abstract(tracing.aval_of(leaf), axes=names, axis_index_groups=groups)
        if groups is None:
            _check_uniform_vma(caller, leaf, names)
            leaf = unreduced_as_varying(leaf, names, kind)
        return primitive.bind(_as_varying(leaf, names), axes=names, axis_index_groups=groups)

    return _reduce(caller, reduction, x, axis_name, groups, bind)


def pmax(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None) -> Any:
    """Compute the maximum over a named axis. All devices or elements along it get the maximum.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names and of dimensions of the array.
        axis_index_groups: Lists of indices along the axis; the maximum is within each group. Default: one group.

    Returns:
        A pytree like `x`, with the maxima.

    Example:
        >>> xf.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(xnp.arange(3))
        Array([2, 2, 2], dtype=int32)
    """
    return _minmax("pmax", UnreducedKind.max, "reduce_max", pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None) -> Any:
    """Compute the minimum over a named axis. All devices or elements along it get the minimum.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names and of dimensions of the array.
        axis_index_groups: Lists of indices along the axis; the minimum is within each group. Default: one group.

    Returns:
        A pytree like `x`, with the minima.

    Example:
        >>> xf.vmap(lambda x: x - lax.pmin(x, "i"), axis_name="i")(xnp.arange(1, 4))
        Array([0, 1, 2], dtype=int32)
    """
    return _minmax("pmin", UnreducedKind.min, "reduce_min", pmin_p, x, axis_name, axis_index_groups)


# Gathering and scattering


def all_gather(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None, axis: int = 0, tiled: bool = False,
               to: str = "varying") -> Any:
    """Gather the values along a named axis, stacked in a new dimension or concatenated along an existing one.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names, which are treated as one axis.
        axis_index_groups: Lists of indices along the axis, of one size; each group gathers its own values. Default: one group.
        axis: Position of the new dimension, or with `tiled` the dimension to concatenate along.
        tiled: If True, concatenate instead of stacking.
        to: Type of the result inside of a `shard_map` that checks replication: "varying"; "invarying", which declares it the
            same on all devices; "reduced", whose cotangents are in addition left as unreduced sums until they are scattered.

    Returns:
        A pytree like `x`, with the gathered values.

    Example:
        >>> xf.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(xnp.arange(3))
        Array([[0, 1, 2],
               [0, 1, 2],
               [0, 1, 2]], dtype=int32)
    """
    if to not in ("varying", "invarying", "reduced"):
        raise ValueError(f"all_gather takes to='varying', to='invarying' or to='reduced', got {to!r}.")
    names, size = resolve_axes(axis_name, "all_gather")
    groups = _check_groups(axis_index_groups, names, size, "all_gather", True)
    group_size = size if groups is None else len(groups[0])
    checked = _checked_axes(names)
    if groups is not None and checked and to != "varying":
        raise ValueError(f"all_gather with axis_index_groups returns different values to each group, but to={to!r} declares "
                         f"them the same along {axes_text(names)}. Leave one of them out.")
    primitive = all_gather_invariant_p if to == "invarying" and checked else all_gather_p

    def gather(leaf: ArrayLike) -> ArrayLike:
        if not names:
            return leaf
        dim = _check_dimension(axis, np.ndim(leaf) + (not tiled), "all_gather", "axis")
        result = primitive.bind(_as_varying(leaf, names), axis_name=names, all_gather_dimension=dim, axis_size=group_size,
                                axis_index_groups=groups, tiled=bool(tiled))
        return recast(result, checked, "varying", "reduced") if to == "reduced" and checked else result

    return _map_leaves(gather, x, "all_gather")


def _map_leaves(function: Callable, x: Any, caller: str) -> Any:
    leaves, treedef = _flatten_arrays(x, caller)
    return treedef.unflatten([function(leaf) for leaf in leaves])


def psum_scatter(x: Any, axis_name: Hashable, *, scatter_dimension: int = 0, axis_index_groups: Groups = None,
                 tiled: bool = False) -> Any:
    """Sum over a named axis, and scatter the sum: each index along the axis gets one slice of it.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names, which are treated as one axis.
        scatter_dimension: Dimension to scatter. It has the size of the axis and is removed.
        axis_index_groups: Lists of indices along the axis, of one size; the sum is within each group. Default: one group.
        tiled: If True, the dimension is a multiple of the size of the axis, and is divided by it instead.

    Returns:
        A pytree like `x`, with a slice of each sum.

    Example:
        >>> xf.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(xnp.arange(4).reshape(2, 2))
        Array([2, 4], dtype=int32)
    """
    names, size = resolve_axes(axis_name, "psum_scatter")
    groups = _check_groups(axis_index_groups, names, size, "psum_scatter", True)
    group_size = size if groups is None else len(groups[0])

    def scatter(leaf: ArrayLike) -> ArrayLike:
        if not names:
            return leaf
        if tracing.aval_of(leaf).dtype == dtypes.bool_:
            leaf = _as_integers(leaf)
        dim = _check_dimension(scatter_dimension, np.ndim(leaf), "psum_scatter", "scatter_dimension")
        params = {"axis_name": names, "scatter_dimension": dim, "axis_size": group_size, "axis_index_groups": groups,
                  "tiled": bool(tiled)}
        if groups is None:
            _check_uniform_vma("psum_scatter", leaf, names)
        psum_scatter_p.abstract(tracing.aval_of(leaf), **params)  # checks the shape, also over a vmapped axis
        return psum_scatter_p.bind(_as_varying(unreduced_as_varying(leaf, names), names), **params)

    return _map_leaves(scatter, x, "psum_scatter")


@tree.register_pytree_node_class
class Future(NamedTuple):
    """The result of a collective that was started: `done()` returns it.

    Example:
        >>> Future(3).done()
        3
    """

    value: Any

    def done(self) -> Any:
        """Return the result.

        Returns:
            The result of the collective.

        Example:
            >>> xf.vmap(lambda x: lax.psum_scatter_start(x, "i").done(), axis_name="i")(xnp.arange(4).reshape(2, 2))
            Array([2, 4], dtype=int32)
        """
        return self.value

    def tree_flatten(self) -> tuple[tuple, None]:
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Future:
        return cls(*children)


def psum_scatter_start(x: Any, axis_name: Hashable, *, scatter_dimension: int = 0, axis_index_groups: Groups = None,
                       tiled: bool = False) -> Future:
    """Start `psum_scatter`; operations between this call and that of `done` may run at the same time.

    XLA's scheduler decides where the collective starts and ends. It starts collectives early where they are asynchronous.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names, which are treated as one axis.
        scatter_dimension: Dimension to scatter. It has the size of the axis and is removed.
        axis_index_groups: Lists of indices along the axis, of one size; the sum is within each group. Default: one group.
        tiled: If True, the dimension is a multiple of the size of the axis, and is divided by it instead.

    Returns:
        A future, whose method `done` returns the result of `psum_scatter`.

    Example:
        >>> def f(x):
        ...     future = lax.psum_scatter_start(x, "i")
        ...     y = xnp.sin(x)
        ...     return future.done() + y.sum()
        >>> xf.vmap(f, axis_name="i")(xnp.zeros((2, 2)))
        Array([0., 0.], dtype=float32)
    """
    return Future(psum_scatter(x, axis_name, scatter_dimension=scatter_dimension, axis_index_groups=axis_index_groups,
                               tiled=tiled))


# Permutations and exchanges


def ppermute(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along a named axis, according to pairs of source and destination.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names, which are treated as one axis: the last name varies fastest. Over devices the
            names must be in the order of the mesh, unless the setting `raise_on_ppermute_sort_diff` is off.
        perm: List or tuple of pairs `(source, destination)` of indices along the axis. Indices that are no destination get
            zeros.

    Returns:
        A pytree like `x`, with the received values.

    Example:
        >>> xf.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(xnp.array([5, 6, 7]))
        Array([0, 5, 6], dtype=int32)
    """
    names, size = resolve_axes(axis_name, "ppermute")
    if not isinstance(perm, (list, tuple)):
        raise TypeError(f"ppermute takes perm as a list or tuple of pairs (source, destination), got a {type(perm).__name__}: "
                        f"{errors.short(perm)}.")
    pairs = _check_perm(perm, axis_name, size, "ppermute")
    if not names:
        return _map_leaves(lambda leaf: leaf if pairs else full_like(leaf, 0), x, "ppermute")
    return _map_leaves(lambda leaf: ppermute_p.bind(_as_varying(leaf, names), axis_name=names, perm=pairs), x, "ppermute")


def _check_perm(perm: Any, axis_name: Hashable, size: int, caller: str) -> tuple:
    try:
        pairs = tuple((operator.index(source), operator.index(target)) for source, target in perm)
    except (TypeError, ValueError) as e:
        error = ValueError if type(e) is ValueError else TypeError
        raise error(f"{caller} takes perm as pairs (source, destination) of integers that are known while the function is "
                    f"traced, such as [(0, 1), (1, 0)], got {errors.short(perm)}.") from None
    for role, indices in (("source", [s for s, _ in pairs]), ("destination", [t for _, t in pairs])):
        out_of_bounds = [i for i in indices if not -size <= i < size]
        if out_of_bounds:
            raise errors.OutOfRangeError(f"{caller} got the {role} {out_of_bounds[0]}, but the axis {axis_name!r} has size "
                                         f"{size}: use indices from 0 to {size - 1}.")
        repeated = [i for i in indices if indices.count(i) > 1]
        if repeated:
            raise ValueError(f"{caller} got the {role} {repeated[0]} twice in {list(pairs)}: each can occur once.")
    return tuple([(source % size, target % size) for source, target in pairs])


def pshuffle(x: Any, axis_name: Hashable, perm: Sequence[int]) -> Any:
    """Permute values along a named axis.

    Args:
        x: A pytree of arrays.
        axis_name: Name of the axis.
        perm: A permutation of all indices: index `i` gets the value of index `perm[i]`.

    Returns:
        A pytree like `x`, with the permuted values.

    Example:
        >>> xf.vmap(lambda x: lax.pshuffle(x, "i", [1, 2, 0]), axis_name="i")(xnp.array([5, 6, 7]))
        Array([6, 7, 5], dtype=int32)
    """
    order = [_check_integer(i, "pshuffle", "the entries of perm") for i in perm]
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"pshuffle takes a permutation of 0 to {len(order) - 1}, got {order}.")
    _, size = resolve_axes(axis_name, "pshuffle")
    if len(order) != size:
        raise ValueError(f"pshuffle got a permutation of {len(order)} indices for the axis {axis_name!r} of size {size}.")
    return ppermute(x, axis_name, list(zip(order, range(size))))


def all_to_all(x: Any, axis_name: Hashable, split_axis: int, concat_axis: int, *, axis_index_groups: Groups = None,
               tiled: bool = False) -> Any:
    """Split a dimension along a named axis, send block `k` to index `k`, and concatenate the received blocks.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names, which are treated as one axis.
        split_axis: Dimension to split. It has the size of the axis and is removed; with `tiled` it is divided by that size.
        concat_axis: Position of the new dimension of received blocks; with `tiled` the dimension to concatenate along.
        axis_index_groups: Lists of indices along the axis, of one size; the exchange is within each group. Default: one group.
        tiled: If True, keep the number of dimensions.

    Returns:
        A pytree like `x`, with the received blocks.

    Example:
        >>> xf.vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(xnp.arange(4).reshape(2, 2))
        Array([[0, 2],
               [1, 3]], dtype=int32)
    """
    return _all_to_all("all_to_all", x, axis_name, split_axis, concat_axis, axis_index_groups, tiled)


def pswapaxes(x: Any, axis_name: Hashable, axis: int, *, axis_index_groups: Groups = None) -> Any:
    """Exchange a named axis with a dimension of the same size.

    Args:
        x: A pytree of arrays.
        axis_name: Name of the axis.
        axis: Dimension to exchange.
        axis_index_groups: Lists of indices along the axis, of one size; the exchange is within each group. Default: one group.

    Returns:
        A pytree like `x`, with the axes exchanged.

    Example:
        >>> xf.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(xnp.arange(4).reshape(2, 2))
        Array([[0, 2],
               [1, 3]], dtype=int32)
    """
    return _all_to_all("pswapaxes", x, axis_name, axis, axis, axis_index_groups, False)


def _all_to_all(caller: str, x: Any, axis_name: Hashable, split_axis: int, concat_axis: int, groups: Groups, tiled: bool
                ) -> Any:
    names, size = resolve_axes(axis_name, caller)
    groups = _check_groups(groups, names, size, caller, True)
    group_size = size if groups is None else len(groups[0])
    params: dict[str, Any] = {"axis_name": names, "axis_size": group_size, "axis_index_groups": groups}

    def exchange(leaf: ArrayLike) -> Array:
        rank = np.ndim(leaf)
        split = _check_dimension(split_axis, rank, caller, "split_axis")
        concat = _check_dimension(concat_axis, rank, caller, "concat_axis")
        leaf = _as_varying(leaf, names)
        if tiled:
            all_to_all_p.abstract(tracing.aval_of(leaf), split_axis=split, concat_axis=concat, **params)
            return all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params)
        if np.shape(leaf)[split] != group_size:
            raise ValueError(f"{caller} over {axes_text(names)} of size {group_size} needs dimension {split} to have that "
                             f"size; the operand has shape {np.shape(leaf)}. Use all_to_all(..., tiled=True) to split the "
                             f"dimension into equal parts.")
        if split == concat:
            return all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params)
        if concat < split:
            split += 1
        else:
            concat += 1
        leaf = expand_dims(leaf, (concat,))
        return squeeze(all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params), (split,))

    return _map_leaves(exchange, x, caller)


def ragged_all_to_all(operand: ArrayLike, output: ArrayLike, input_offsets: ArrayLike, send_sizes: ArrayLike,
                      output_offsets: ArrayLike, recv_sizes: ArrayLike, *, axis_name: Hashable,
                      axis_index_groups: Groups = None) -> Array:
    """Send slices of rows of different lengths along a named axis, and write the received slices into an array.

    Index `k` gets `send_sizes[k]` rows of `operand`, from row `input_offsets[k]`. The derivative assumes that the slices of the
    operand do not overlap. TPUs and GPUs have one operation for this; on CPUs it is composed of others.

    Args:
        operand: Array whose rows are sent.
        output: Array whose rows are replaced by the received ones.
        input_offsets, send_sizes: First row and length of the slice for each index.
        output_offsets: First row, in the output of each index, of the slice that is sent there.
        recv_sizes: Number of rows received from each index.
        axis_name: Name of the axis.
        axis_index_groups: Lists of indices along the axis, of one size; the exchange is within each group. Default: one group.

    Returns:
        `output` with the received rows.

    Example:
        >>> def send(x, n):
        ...     return lax.ragged_all_to_all(x, xnp.zeros(3, int), xnp.array([0]), n, xnp.array([1]), n, axis_name="i")
        >>> xf.pmap(send, axis_name="i")(xnp.array([[5, 6, 7]]), xnp.array([[2]]))
        Array([[0, 5, 6]], dtype=int32)
    """
    names, size = resolve_axes(axis_name, "ragged_all_to_all")
    groups = _check_groups(axis_index_groups, names, size, "ragged_all_to_all", True)
    arguments = {"operand": operand, "output": output, "input_offsets": input_offsets, "send_sizes": send_sizes,
             "output_offsets": output_offsets, "recv_sizes": recv_sizes}
    for argument, x in arguments.items():
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, "ragged_all_to_all", argument)
    operands = [_as_varying(x, names) for x in arguments.values()]
    return ragged_all_to_all_p.bind(*operands, axis_name=names, axis_size=size if groups is None else len(groups[0]),
                                    axis_index_groups=groups)


def pbroadcast(x: Any, axis_name: Hashable, source: int) -> Any:
    """Broadcast the value at one index of a named axis to all indices.

    Args:
        x: A pytree of arrays.
        axis_name: Name of the axis.
        source: Index of the value along the axis.

    Returns:
        A pytree like `x`, with the value of the source.

    Example:
        >>> xf.vmap(lambda x: lax.pbroadcast(x, "i", 2), axis_name="i")(xnp.arange(4))
        Array([2, 2, 2, 2], dtype=int32)
    """
    names, size = resolve_axes(axis_name, "pbroadcast")
    source = _check_integer(source, "pbroadcast", "source")
    if not 0 <= source < size:
        raise ValueError(f"pbroadcast got source={source}, but the axis {axis_name!r} has size {size}.")
    return _map_leaves(lambda leaf: pbroadcast_p.bind(_as_varying(leaf, names), axis_name=names, source=source), x,
                       "pbroadcast")


# Asynchronous sends


def psend(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Start to send values along a named axis, and return a token for the `precv` that receives them.

    This works between devices: in `shard_map` and `pmap`. On GPUs, other work can run between the two operations. On other
    platforms they are lowered to one exchange, so both must be in one function.

    Args:
        x: A pytree of arrays.
        axis_name: Name of the axis.
        perm: Pairs `(source, destination)` of indices along the axis.

    Returns:
        A pytree like `x`, with a token for each array.

    Example:
        >>> here = [(0, 0)]
        >>> xf.pmap(lambda x: lax.precv(lax.psend(x, "i", here), x, "i", here), axis_name="i")(xnp.ones((1, 3)))
        Array([[1., 1., 1.]], dtype=float32)
    """
    names, size = resolve_axes(axis_name, "psend")
    pairs = _check_perm(perm, axis_name, size, "psend")
    return _map_leaves(lambda leaf: psend_p.bind(_as_varying(leaf, names), axis_name=names, perm=pairs), x, "psend")


def precv(token: Array, out_shape: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Receive the values that `psend` sent along a named axis. Indices that are no destination get zeros.

    Args:
        token: Token of the `psend`, or one that follows it.
        out_shape: An array or a `ShapeDtypeStruct`, or a pytree of them, with the shape and dtype of the values.
        axis_name: Name of the axis, as in `psend`.
        perm: Pairs `(source, destination)`, as in `psend`.

    Returns:
        A pytree like `out_shape`, with the received values.

    Example:
        >>> here = [(0, 0)]
        >>> xf.pmap(lambda x: lax.precv(lax.psend(x, "i", here), x, "i", here), axis_name="i")(xnp.ones((1, 3)))
        Array([[1., 1., 1.]], dtype=float32)
    """
    names, size = resolve_axes(axis_name, "precv")
    pairs = _check_perm(perm, axis_name, size, "precv")
    check_token(token, "precv", "token")
    checked = tracing.checked_axes()

    def receive(expected: Any) -> Array:
        if not hasattr(expected, "shape") or not hasattr(expected, "dtype"):
            raise TypeError(f"precv takes out_shape as arrays or ShapeDtypeStructs, got a {type(expected).__name__}: "
                            f"{expected!r}.")
        # The token has no type of the sent value: it varies along all axes, unless `out_shape` declares less.
        like_vma = getattr(expected, "vma", None)
        varying_axes = (getattr(like_vma, "varying", like_vma) or checked) | set(names)
        received = ShapedArray(tuple(expected.shape), dtypes.canonicalize_dtype(expected.dtype), vma=varying_axes & checked)
        return precv_p.bind(token, out_shape=received, axis_name=names, perm=pairs)

    return tree.map(receive, out_shape)


# Sizes and types


def axis_size(axis_name: Hashable) -> int:
    """Return the size of a named axis.

    Args:
        axis_name: A name, or a tuple of names, whose sizes are multiplied.

    Returns:
        A Python integer.

    Example:
        >>> xf.vmap(lambda x: x * lax.axis_size("i"), axis_name="i")(xnp.arange(3))
        Array([0, 3, 6], dtype=int32)
    """
    return resolve_axes(axis_name, "axis_size")[1]


def pcast(x: Any, axis_name: Hashable, *, to: str) -> Any:
    """Cast a value to another type inside of a `shard_map` that checks replication.

    Args:
        x: A pytree of arrays.
        axis_name: A name, or a tuple of names.
        to: "varying" casts a value that is the same along the axis to one that may vary; its derivative is a sum over the axis.
            This is rarely needed: operations on varying and invarying operands cast by themselves. "unreduced" takes varying
            values as the summands of a pending sum. "reduced" leaves the cotangents of an invarying value unreduced.

    Returns:
        A pytree like `x`, with the same values.

    Example:
        >>> mesh = xf.make_mesh((1,), ("i",), (xf.sharding.AxisType.Auto,))
        >>> def vary(x):
        ...     return lax.pcast(x, "i", to="varying")
        >>> xf.shard_map(vary, mesh=mesh, in_specs=xf.P(), out_specs=xf.P("i"))(xnp.arange(3))
        Array([0, 1, 2], dtype=int32)
    """
    if to not in ("varying", "unreduced", "reduced"):
        raise ValueError(f"pcast takes to='varying', 'unreduced' or 'reduced', got {to!r}. To make a value the same along an "
                         f"axis, reduce it: psum, pmax, all_gather(..., to='invarying').")
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(f"pcast takes axis_name as a name or a tuple of names, got {axis_name!r}. Write {tuple(axis_name)}.")
    if not tracing.thread.axes:
        raise ValueError(f"pcast to {to} along {axis_name!r} should be called under shard_map: it casts values along axes of "
                         f"its mesh.")
    names, _ = resolve_axes(axis_name, "pcast")
    unchecked = [n for n in names if n not in tracing.checked_axes()]
    if unchecked and not all(type(a) is tracing.MeshAxis or a[0] not in unchecked for a in tracing.thread.axes):
        raise ValueError(f"pcast to {to} works along axes of a shard_map, but {unchecked[0]!r} is one of vmap.")

    def cast(leaf: ArrayLike) -> ArrayLike:
        if to != "varying":
            return cast_to(leaf, _checked_axes(names), to)
        varying = tracing.aval_of(leaf).vma & set(names)
        if varying:
            raise ValueError(f"pcast to varying got a value that varies along {sorted(map(str, varying))} already.")
        return tracing.as_varying(leaf, frozenset(names))

    return _map_leaves(cast, x, "pcast")
