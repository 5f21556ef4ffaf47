"""Collectives: what the elements along a named axis know of each other.

The records of the primitives are in `all_reductions` and `collective_exchanges`; `axis_index` is in `named_axes`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray, str_short
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.all_reductions import pmax_p, pmin_p, psum_invariant_p, psum_p, pvary_p, recast, summands, sums_of
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
from xlafront.lax.named_axes import axes_text, named
from xlafront.lax.ragged_exchange import ragged_all_to_all_p
from xlafront.lax.reductions import reduced
from xlafront.lax.send_recv import check_token, precv_p, psend_p
from xlafront.lax.shapes import canonical_axes, expand_dims, squeeze
from xlafront.lax.vma_casts import cast_to
from xlafront.runtime import config

Groups = Sequence[Sequence[int]] | None


# What the arguments mean


def _checked_groups(groups: Groups, names: tuple, size: int, user: str, equal: bool) -> tuple | None:
    if groups is None:
        return None
    along = axes_text(names)
    try:
        found = tuple(tuple(operator.index(i) for i in group) for group in groups)
    except TypeError:
        raise TypeError(f"axis_index_groups of {user} takes lists of indices along {along}, such as "
                        f"[[0, 1], [2, 3]], got {errors.short(groups)}.") from None
    members = sorted(i for group in found for i in group)
    if members != list(range(size)):
        raise ValueError(f"axis_index_groups of {user} must contain each index of {along}, 0 to {size - 1}, in "
                         f"exactly one group, got {[list(g) for g in found]}.")
    if equal and len({len(group) for group in found}) > 1:
        raise ValueError(f"axis_index_groups of {user} must all have the same size, got {[list(g) for g in found]}.")
    return found


def _operands(x, user: str):
    leaves, treedef = tree.flatten(x)
    for i, leaf in enumerate(leaves):
        if not tracing.is_arraylike(leaf):
            raise errors.not_an_array(leaf, user, tree.path_of(x, i))
    return list(leaves), treedef


def _varying(x, names):
    """The value as one that may differ along the axes, where types say whether it does."""
    missing = _checked(names) - tracing.aval_of(x).vma
    if missing and not config.auto_pcast.value:
        raise errors.not_varying_alike("a collective", [tracing.aval_of(x)])
    return pvary_p.bind(x, axes=tuple(n for n in names if n in missing)) if missing else x


def _check_one_state(user: str, x, names) -> None:
    """A sum is over axes along all of which the value varies, or along none of which it does."""
    vma = tracing.aval_of(x).vma
    along = [n for n in names if n in vma]
    same = [n for n in names if n in _checked(names) - vma - sums_of(x)[0]]
    if along and same:
        raise ValueError(f"{user} over {axes_text(names)} of a value of type {str_short(tracing.aval_of(x))}: it varies along "
                         f"{along} and is the same along {same}, where a sum would count it several times. Sum over {along} "
                         f"alone, or make it varying first: pcast(x, {tuple(same)}, to='varying').")


def _checked(names) -> frozenset:
    """Those of the axes along which types say what varies."""
    return tracing.checked_axes() & set(names)


def _is_constant(x) -> bool:
    return isinstance(x, (int, float, complex, np.ndarray, np.generic)) and not isinstance(x, bool)


def _integer(x, user: str, what: str) -> int:
    try:
        return operator.index(x)
    except TypeError:
        hint = ": it must be known while the function is traced" if isinstance(x, tracing.Tracer) else ""
        raise TypeError(f"{user} takes {what} as an integer, got {errors.short(x)}{hint}.") from None


def _dimension(axis: int, rank: int, user: str, what: str) -> int:
    axis = _integer(axis, user, what)
    if not -rank <= axis < rank:
        raise errors.OutOfRangeError(f"{user} got {what}={axis} for an array with {rank} dimension(s).")
    return axis % rank if rank else 0


# Reductions


def _split_axes(axis_name) -> tuple[tuple, tuple]:
    """Names, and dimensions of the array itself, which are integers."""
    axes = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    return tuple(a for a in axes if not isinstance(a, int)), tuple(a for a in axes if isinstance(a, int))


def _reduce(user: str, reduction: str, x, axis_name, groups: Groups, bind):
    names, dimensions = _split_axes(axis_name)
    names, size = named(names, user)
    groups = _checked_groups(groups, names, size, user, False)
    if groups is not None and dimensions:
        raise ValueError(f"{user} takes axis_index_groups only without dimensions of the array, got {axis_name}.")
    leaves, treedef = _operands(x, user)
    results = []
    for leaf in leaves:
        if dimensions:
            at = canonical_axes(dimensions, np.ndim(leaf), user)
            if reduction == "reduce_sum" and tracing.aval_of(leaf).dtype == dtypes.bool_:
                leaf = _as_integers(leaf)
            leaf = reduced(reduction, leaf, at)
        results.append(bind(leaf, names, size, groups) if names else leaf)
    return treedef.unflatten(results)


def _as_integers(x):
    dtype = dtypes.canonicalize_dtype(np.int64)
    return dtype.type(x) if isinstance(x, bool) else convert_element_type(x, dtype)


def psum(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None) -> Any:
    """The sum over a named axis, the same for all along it.

    - `x`: a pytree of arrays. The sum of a Python or NumPy constant is a multiple of it, known without computation.
    - `axis_name`: a name, or a tuple of names and of dimensions of the array.
    - `axis_index_groups`: lists of indices, each of which sums among itself.

    >>> xf.vmap(lambda x: x - lax.psum(x, "i"), axis_name="i")(xnp.arange(3))
    Array([-3, -2, -1], dtype=int32)
    """
    return _sum("psum", x, axis_name, axis_index_groups)


def _sum(user: str, x, axis_name, groups: Groups):
    def bind(leaf, names, size, groups):
        if tracing.aval_of(leaf).dtype == dtypes.bool_:
            leaf = _as_integers(leaf)
        if _is_constant(leaf):
            if groups is None:
                return leaf * (np.asarray(size).astype(leaf.dtype) if isinstance(leaf, (np.ndarray, np.generic)) else size)
            if len({len(group) for group in groups}) == 1:
                return leaf * len(groups[0])
        if groups is None and _checked(names):
            _check_one_state(user, leaf, names)
            return psum_invariant_p.bind(_varying(summands(leaf, names), names), axes=names)
        return psum_p.bind(_varying(leaf, names), axes=names, axis_index_groups=groups)

    return _reduce(user, "reduce_sum", x, axis_name, groups, bind)


def pmean(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None) -> Any:
    """The mean over a named axis, the same for all along it; that of integers is a float.

    - `x`: a pytree of arrays.
    - `axis_name`, `axis_index_groups`: as of `psum`.

    >>> xf.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(xnp.arange(3.0))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    names, dimensions = _split_axes(axis_name)
    count = _sum("pmean", 1, names, axis_index_groups)

    def mean(leaf, total):
        along = math.prod([np.shape(leaf)[d] for d in dimensions])
        return div(*_as_floats(total, count * along if dimensions else count))

    totals = _sum("pmean", x, axis_name, axis_index_groups)
    return tree.map(mean, x, totals)


def _as_floats(*numbers) -> list:
    """Numbers, or arrays of one shape, as what NumPy's division makes of them."""
    dtype, weak = dtypes.promote_pair(*dtypes.operand_type(numbers[0]), *dtypes.operand_type(numbers[1]))
    return [as_type(x, dtypes.to_inexact(dtype), weak) for x in numbers]


def _extreme(user, reduction, primitive, x, axis_name, groups):
    def bind(leaf, names, size, groups):
        primitive.abstract(tracing.aval_of(leaf), axes=names, axis_index_groups=groups)
        return primitive.bind(_varying(leaf, names), axes=names, axis_index_groups=groups)

    return _reduce(user, reduction, x, axis_name, groups, bind)


def pmax(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None) -> Any:
    """The maximum over a named axis, the same for all along it.

    - `x`: a pytree of arrays.
    - `axis_name`, `axis_index_groups`: as of `psum`.

    >>> xf.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(xnp.arange(3))
    Array([2, 2, 2], dtype=int32)
    """
    return _extreme("pmax", "reduce_max", pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None) -> Any:
    """The minimum over a named axis, the same for all along it.

    - `x`: a pytree of arrays.
    - `axis_name`, `axis_index_groups`: as of `psum`.

    >>> xf.vmap(lambda x: x - lax.pmin(x, "i"), axis_name="i")(xnp.arange(1, 4))
    Array([0, 1, 2], dtype=int32)
    """
    return _extreme("pmin", "reduce_min", pmin_p, x, axis_name, axis_index_groups)


# Gathering and scattering


def all_gather(x: Any, axis_name: Hashable, *, axis_index_groups: Groups = None, axis: int = 0, tiled: bool = False,
               to: str = "varying") -> Any:
    """The values of all along a named axis, stacked in a new dimension or joined along an old one.

    - `x`: a pytree of arrays.
    - `axis_name`: the name, or several, which count as one.
    - `axis_index_groups`: lists of indices, each of which gathers among itself; all of one size.
    - `axis`: the new dimension, or with `tiled` the one to join along.
    - `tiled`: whether to join and not to stack.
    - `to`: the type of the result inside of a `shard_map` that checks: "varying"; "invarying", which takes note that it is the
      same for all; "reduced", whose cotangents are besides left as sums until they are scattered.

    >>> xf.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(xnp.arange(3))
    Array([[0, 1, 2],
           [0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    if to not in ("varying", "invarying", "reduced"):
        raise ValueError(f"all_gather takes to='varying', to='invarying' or to='reduced', got {to!r}.")
    names, size = named(axis_name, "all_gather")
    groups = _checked_groups(axis_index_groups, names, size, "all_gather", True)
    count = size if groups is None else len(groups[0])
    checked = _checked(names)
    if groups is not None and checked and to != "varying":
        raise ValueError(f"all_gather with axis_index_groups gives every group values of its own, which to={to!r} says to be "
                         f"the same along {axes_text(names)}. Leave one of them out.")
    primitive = all_gather_invariant_p if to == "invarying" and checked else all_gather_p

    def gather(leaf):
        if not names:
            return leaf
        at = _dimension(axis, np.ndim(leaf) + (not tiled), "all_gather", "axis")
        result = primitive.bind(_varying(leaf, names), axis_name=names, all_gather_dimension=at, axis_size=count,
                                axis_index_groups=groups, tiled=bool(tiled))
        return recast(result, checked, "varying", "reduced") if to == "reduced" and checked else result

    return _mapped(gather, x, "all_gather")


def _mapped(function, x, user: str):
    leaves, treedef = _operands(x, user)
    return treedef.unflatten([function(leaf) for leaf in leaves])


def psum_scatter(x: Any, axis_name: Hashable, *, scatter_dimension: int = 0, axis_index_groups: Groups = None,
                 tiled: bool = False) -> Any:
    """The sum over a named axis, of which each along it gets its own part.

    - `x`: a pytree of arrays.
    - `axis_name`, `axis_index_groups`: as of `psum`; groups are of one size.
    - `scatter_dimension`: the dimension that is dealt out: of the size of the axis, it vanishes.
    - `tiled`: that dimension is a multiple of the size of the axis, and is divided by it.

    >>> xf.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(xnp.arange(4).reshape(2, 2))
    Array([2, 4], dtype=int32)
    """
    names, size = named(axis_name, "psum_scatter")
    groups = _checked_groups(axis_index_groups, names, size, "psum_scatter", True)
    count = size if groups is None else len(groups[0])

    def scatter(leaf):
        if not names:
            return leaf
        if tracing.aval_of(leaf).dtype == dtypes.bool_:
            leaf = _as_integers(leaf)
        at = _dimension(scatter_dimension, np.ndim(leaf), "psum_scatter", "scatter_dimension")
        params = {"axis_name": names, "scatter_dimension": at, "axis_size": count, "axis_index_groups": groups,
                  "tiled": bool(tiled)}
        if groups is None:
            _check_one_state("psum_scatter", leaf, names)
        psum_scatter_p.abstract(tracing.aval_of(leaf), **params)  # over a vmapped axis nothing else checks the shape
        return psum_scatter_p.bind(_varying(summands(leaf, names), names), **params)

    return _mapped(scatter, x, "psum_scatter")


# Exchanging


def ppermute(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Values sent along a named axis, each to at most one place.

    - `x`: a pytree of arrays.
    - `axis_name`: the name of the axis, or several, which count as one.
    - `perm`: pairs `(source, destination)`; where nothing arrives there are zeros.

    >>> xf.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(xnp.array([5, 6, 7]))
    Array([0, 5, 6], dtype=int32)
    """
    names, size = named(axis_name, "ppermute")
    pairs = _pairs(perm, axis_name, size, "ppermute")
    if not names:
        return _mapped(lambda leaf: leaf if pairs else full_like(leaf, 0), x, "ppermute")
    return _mapped(lambda leaf: ppermute_p.bind(_varying(leaf, names), axis_name=names, perm=pairs), x, "ppermute")


def _pairs(perm, axis_name, size: int, user: str) -> tuple:
    try:
        pairs = tuple((operator.index(source), operator.index(target)) for source, target in perm)
    except (TypeError, ValueError):
        raise TypeError(f"{user} takes perm as pairs (source, destination) of integers that are known while the function is "
                        f"traced, such as [(0, 1), (1, 0)], got {errors.short(perm)}.") from None
    for which, indices in (("source", [s for s, _ in pairs]), ("destination", [t for _, t in pairs])):
        outside = [i for i in indices if not -size <= i < size]
        if outside:
            raise errors.OutOfRangeError(f"{user} got the {which} {outside[0]}, but the axis {axis_name!r} has size {size}: "
                                         f"use "
                                         f"indices from 0 to {size - 1}.")
        twice = [i for i in indices if indices.count(i) > 1]
        if twice:
            raise ValueError(f"{user} got the {which} {twice[0]} twice in {list(pairs)}: each can occur once.")
    return tuple([(source % size, target % size) for source, target in pairs])


def pshuffle(x: Any, axis_name: Hashable, perm: Sequence[int]) -> Any:
    """Values rearranged along a named axis.

    - `x`: a pytree of arrays.
    - `axis_name`: the name of the axis.
    - `perm`: the indices of all in a new order: index `i` gets the value of index `perm[i]`.

    >>> xf.vmap(lambda x: lax.pshuffle(x, "i", [1, 2, 0]), axis_name="i")(xnp.array([5, 6, 7]))
    Array([6, 7, 5], dtype=int32)
    """
    order = [_integer(i, "pshuffle", "the entries of perm") for i in perm]
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"pshuffle takes a permutation of 0 to {len(order) - 1}, got {order}.")
    _, size = named(axis_name, "pshuffle")
    if len(order) != size:
        raise ValueError(f"pshuffle got a permutation of {len(order)} indices for the axis {axis_name!r} of size {size}.")
    return ppermute(x, axis_name, list(zip(order, range(size))))


def all_to_all(x: Any, axis_name: Hashable, split_axis: int, concat_axis: int, *, axis_index_groups: Groups = None,
               tiled: bool = False) -> Any:
    """Each along a named axis sends part `k` of one dimension to index `k`, and joins what it gets in another.

    - `x`: a pytree of arrays.
    - `axis_name`: the name of the axis, or several.
    - `split_axis`: the dimension that is cut: of the size of the named axis, it vanishes; with `tiled` it is divided.
    - `concat_axis`: a new dimension that counts where parts came from; with `tiled` one that is multiplied.
    - `axis_index_groups`: lists of indices, each of which exchanges among itself.
    - `tiled`: whether dimensions stay.

    >>> xf.vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(xnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return _all_to_all("all_to_all", x, axis_name, split_axis, concat_axis, axis_index_groups, tiled)


def pswapaxes(x: Any, axis_name: Hashable, axis: int, *, axis_index_groups: Groups = None) -> Any:
    """A named axis exchanged with a dimension of the same size.

    - `x`: a pytree of arrays.
    - `axis_name`: the name of the axis.
    - `axis`: the dimension.
    - `axis_index_groups`: lists of indices, each of which exchanges among itself.

    >>> xf.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(xnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return _all_to_all("pswapaxes", x, axis_name, axis, axis, axis_index_groups, False)


def _all_to_all(user: str, x, axis_name, split_axis: int, concat_axis: int, groups: Groups, tiled: bool):
    names, size = named(axis_name, user)
    groups = _checked_groups(groups, names, size, user, True)
    count = size if groups is None else len(groups[0])
    params: dict[str, Any] = {"axis_name": names, "axis_size": count, "axis_index_groups": groups}

    def exchange(leaf):
        rank = np.ndim(leaf)
        split = _dimension(split_axis, rank, user, "split_axis")
        concat = _dimension(concat_axis, rank, user, "concat_axis")
        leaf = _varying(leaf, names)
        if tiled:
            all_to_all_p.abstract(tracing.aval_of(leaf), split_axis=split, concat_axis=concat, **params)
            return all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params)
        if np.shape(leaf)[split] != count:
            raise ValueError(f"{user} over {axes_text(names)} of size {count} sends each an index of dimension {split}, which "
                             f"must have that size; the operand has shape {np.shape(leaf)}. With all_to_all(..., tiled=True) "
                             f"each gets an equal part of the dimension.")
        if split == concat:
            return all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params)
        if concat < split:
            split += 1
        else:
            concat += 1
        leaf = expand_dims(leaf, (concat,))
        return squeeze(all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params), (split,))

    return _mapped(exchange, x, user)


def ragged_all_to_all(operand: ArrayLike, output: ArrayLike, input_offsets: ArrayLike, send_sizes: ArrayLike,
                      output_offsets: ArrayLike, recv_sizes: ArrayLike, *, axis_name: Hashable,
                      axis_index_groups: Groups = None) -> Array:
    """Sends runs of rows of different lengths along a named axis, and writes those that arrive into an array.

    To index `k` go `send_sizes[k]` rows of `operand` from row `input_offsets[k]` on. The derivative takes the runs of an
    operand to have no rows in common. TPUs and GPUs have it as one operation; on a CPU it is made of others.

    - `operand`, `output`: what rows are taken from, and what is returned with rows replaced.
    - `input_offsets`, `send_sizes`, `recv_sizes`: where runs begin, their lengths, and how many rows come from each index.
    - `output_offsets`: for each `k` the row of its output at which the run begins that goes there.
    - `axis_name`, `axis_index_groups`: the name of the axis; lists of indices, each of which exchanges among itself.

    >>> def send(x, n):
    ...     return lax.ragged_all_to_all(x, xnp.zeros(3, int), xnp.array([0]), n, xnp.array([1]), n, axis_name="i")
    >>> xf.pmap(send, axis_name="i")(xnp.array([[5, 6, 7]]), xnp.array([[2]]))
    Array([[0, 5, 6]], dtype=int32)
    """
    names, size = named(axis_name, "ragged_all_to_all")
    groups = _checked_groups(axis_index_groups, names, size, "ragged_all_to_all", True)
    given = {"operand": operand, "output": output, "input_offsets": input_offsets, "send_sizes": send_sizes,
             "output_offsets": output_offsets, "recv_sizes": recv_sizes}
    for argument, x in given.items():
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, "ragged_all_to_all", argument)
    operands = [_varying(x, names) for x in given.values()]
    return ragged_all_to_all_p.bind(*operands, axis_name=names, axis_size=size if groups is None else len(groups[0]),
                                    axis_index_groups=groups)


def pbroadcast(x: Any, axis_name: Hashable, source: int) -> Any:
    """The value at one index of a named axis, for all along it.

    - `x`: a pytree of arrays.
    - `axis_name`: the name of the axis.
    - `source`: the index.

    >>> xf.vmap(lambda x: lax.pbroadcast(x, "i", 2), axis_name="i")(xnp.arange(4))
    Array([2, 2, 2, 2], dtype=int32)
    """
    names, size = named(axis_name, "pbroadcast")
    source = _integer(source, "pbroadcast", "source")
    if not 0 <= source < size:
        raise ValueError(f"pbroadcast got source={source}, but the axis {axis_name!r} has size {size}.")
    return _mapped(lambda leaf: pbroadcast_p.bind(_varying(leaf, names), axis_name=names, source=source), x, "pbroadcast")


# Halves of an exchange


def psend(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along a named axis; gives a token for the `precv` that gets them.

    It works between devices, so inside of `shard_map` and `pmap`. On GPUs the two halves are apart, and other work can go on
    between them; elsewhere they are one exchange, which needs both in one function.

    - `x`: a pytree of arrays.
    - `axis_name`: the name of the axis.
    - `perm`: pairs `(source, destination)`.

    >>> here = [(0, 0)]
    >>> xf.pmap(lambda x: lax.precv(lax.psend(x, "i", here), x, "i", here), axis_name="i")(xnp.ones((1, 3)))
    Array([[1., 1., 1.]], dtype=float32)
    """
    names, size = named(axis_name, "psend")
    pairs = _pairs(perm, axis_name, size, "psend")
    return _mapped(lambda leaf: psend_p.bind(_varying(leaf, names), axis_name=names, perm=pairs), x, "psend")


def precv(token: Array, out_shape: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Receive along a named axis what `psend` sent by the same pairs; zeros where nothing arrives.

    - `token`: that of the `psend`, or one that comes after it.
    - `out_shape`: an array or a `ShapeDtypeStruct`, or a pytree of them: shape and dtype of what is sent.
    - `axis_name`, `perm`: as of the `psend`.

    >>> here = [(0, 0)]
    >>> xf.pmap(lambda x: lax.precv(lax.psend(x, "i", here), x, "i", here), axis_name="i")(xnp.ones((1, 3)))
    Array([[1., 1., 1.]], dtype=float32)
    """
    names, size = named(axis_name, "precv")
    pairs = _pairs(perm, axis_name, size, "precv")
    check_token(token, "precv", "token")
    checked = tracing.checked_axes()

    def receive(like):
        if not hasattr(like, "shape") or not hasattr(like, "dtype"):
            raise TypeError(f"precv takes out_shape as arrays or ShapeDtypeStructs, got a {type(like).__name__}: {like!r}.")
        # The token does not tell where what was sent differs between devices: everywhere, unless the given type says more.
        said = getattr(like, "vma", None)
        differs = (getattr(said, "varying", said) or checked) | set(names)
        received = ShapedArray(tuple(like.shape), dtypes.canonicalize_dtype(like.dtype), vma=differs & checked)
        return precv_p.bind(token, out_shape=received, axis_name=names, perm=pairs)

    return tree.map(receive, out_shape)


# Places and types


def axis_size(axis_name: Hashable) -> int:
    """The number of elements along a named axis.

    - `axis_name`: the name, or several, which count together.

    >>> xf.vmap(lambda x: x * lax.axis_size("i"), axis_name="i")(xnp.arange(3))
    Array([0, 3, 6], dtype=int32)
    """
    return named(axis_name, "axis_size")[1]


def pcast(x: Any, axis_name: Hashable, *, to: str) -> Any:
    """The same value with another type inside of a `shard_map` that checks.

    - `x`: a pytree of arrays.
    - `axis_name`: the name of the axis, or a tuple of names.
    - `to`: "varying" lets it differ along the axis; the derivative of that is the sum over it. It is rarely written: operations
      on a value that varies and one that does not do it themselves. "unreduced" takes what varies for the summands of a sum
      that is still to be made. "reduced" leaves the sum of the cotangents of what is the same open.

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
        raise ValueError(f"pcast to {to} along {axis_name!r} should be called under shard_map: it is about values along the "
                         f"axes "
                         f"of its mesh.")
    names, _ = named(axis_name, "pcast")
    outside = [n for n in names if n not in tracing.checked_axes()]
    if outside and not all(type(a) is tracing.MeshAxis or a[0] not in outside for a in tracing.thread.axes):
        raise ValueError(f"pcast to {to} works along axes of a shard_map, but {outside[0]!r} is one of vmap.")

    def cast(leaf):
        if to != "varying":
            return cast_to(leaf, _checked(names), to)
        already = tracing.aval_of(leaf).vma & set(names)
        if already:
            raise ValueError(f"pcast to varying got a value that varies along {sorted(map(str, already))} already.")
        return tracing.as_varying(leaf, frozenset(names))

    return _mapped(cast, x, "pcast")
