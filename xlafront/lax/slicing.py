"""Static slices, padding and concatenation.

Slices at run-time positions are in `dynamic_slicing`, gathering of single elements is in `indexing`.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, str_short
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim
from xlafront.core.primitive import Cost, KeyUse, MeshRules, Primitive, Traits
from xlafront.core.sharding_types import has_open_sums, of_all, of_all_any_kind, of_first_any_kind
from xlafront.core.tangents import zeros_of
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.elementwise import add, constant_like, select, sub
from xlafront.lax.shapes import broadcast_batch, canonical_axis, plain_axis, reduce_sum_p, squeeze, squeeze_p, structural, typed
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, is_symbolic, max_dim

if TYPE_CHECKING:
    from xlafront.core.ir import JaxprEqn
    from xlafront.core.typing import Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

# Slices


def _slice_abstract(x: ShapedArray, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...],
                    strides: tuple[int, ...] | None) -> ShapedArray:
    steps = strides or (1,) * x.ndim
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        raise TypeError(f"slice needs a start, a limit and a stride for each of the {x.ndim} dimensions of shape "
                        f"{x.shape}, got {start_indices}, {limit_indices}, {strides}.")
    sizes = []
    for start, limit, step, n in zip(start_indices, limit_indices, steps, x.shape):
        size = (limit - start + step - 1) // step if step > 0 else 0
        is_forwards = start <= limit if step == 1 or not is_symbolic((size,)) else size >= 0
        if not 0 <= start <= n or not is_forwards or not limit <= n or step < 1:
            raise TypeError(f"slice [{start}:{limit}:{step}] does not lie within a dimension of size {n} "
                            f"(operand of shape {x.shape}).")
        sizes.append(size)
    return typed(x, sizes)


def _slice_lower(ctx: RuleContext, x: ir.Value, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...],
                 strides: tuple[int, ...] | None) -> ir.Value:
    return ctx.slice(x, start_indices, [max_dim(a, b) for a, b in zip(start_indices, limit_indices)], strides)


def _slice_transpose(ct: Array, aval: ShapedArray, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...],
                     strides: tuple[int, ...] | None) -> Array:
    steps = strides or (1,) * aval.ndim
    config = tuple((a, n - a - m - max_dim(m - 1, 0) * (s - 1), s - 1) for a, n, m, s in zip(
        start_indices, aval.shape, np.shape(ct), steps))
    return pad_p.bind(ct, np.zeros((), tracing.aval_of(ct).dtype), padding_config=config)


def _slice_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, start_indices: tuple[int, ...],
                 limit_indices: tuple[int, ...], strides: tuple[int, ...] | None) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    n = np.shape(x)[d]

    def insert(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*values[:d], value, *values[d:])

    return slice_p.bind(x, start_indices=insert(start_indices, 0), limit_indices=insert(limit_indices, n),
                        strides=None if strides is None else insert(strides, 1)), d


def _slice_key_use(eqn: JaxprEqn, use_of_program: Any) -> tuple[Any, Any]:
    [x], [start, stop, step] = eqn.invars, (eqn.params[n] for n in ("start_indices", "limit_indices", "strides"))
    if isinstance(x.aval.dtype, np.dtype):
        return (), ["new"]
    mask = np.zeros(x.aval.shape, bool)
    mask[tuple(map(builtins.slice, start, stop, step or (None,) * x.aval.ndim))] = True
    return [(0, mask)], ["new"]


slice_p = structural(
    "slice", _slice_abstract, _slice_lower, _slice_transpose, _slice_batch, sharding_rule=sharding_rules.resized,
    sums=of_first_any_kind, traits=Traits(cost=Cost.CHEAP, key_use=_slice_key_use))


# Padding


def _pad_abstract(x: ShapedArray, value: ShapedArray, *, padding_config: tuple[tuple[int, int, int], ...]) -> ShapedArray:
    if dtypes.is_extended(x.dtype):
        raise TypeError(f"pad does not accept arrays of dtype {x.dtype}. Use concatenate.")
    if value.shape:
        raise TypeError(f"pad needs a scalar padding value, got one of shape {value.shape}.")
    if x.dtype != value.dtype:
        raise errors.incompatible_dtypes("pad", [x.dtype, value.dtype], "The padding value must have the array's dtype.")
    if len(padding_config) != x.ndim:
        raise TypeError(f"pad needs a (low, high, interior) triple for each of the {x.ndim} dimensions of shape "
                        f"{x.shape}, got {len(padding_config)}.")
    shape = [lo + hi + n + max_dim(n - 1, 0) * inner for n, (lo, hi, inner) in zip(x.shape, padding_config)]
    if any(n < 0 for n in shape) or any(inner < 0 for _, _, inner in padding_config):
        raise ValueError(f"padding {padding_config} of shape {x.shape} would give the impossible shape {tuple(shape)}.")
    return ShapedArray(tuple(shape), x.dtype, x.weak_type and value.weak_type, vma=x.vma)


def _pad_lower(ctx: RuleContext, x: ir.Value, value: ir.Value, *, padding_config: tuple[tuple[int, int, int], ...]) -> ir.Value:
    return ctx.pad(x, value, *(zip(*padding_config) if padding_config else ((), (), ())))


def _pad_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, padding_config: tuple[tuple[int, int, int], ...]
             ) -> tuple[Any, Any]:
    answer = pad_p.bind(*primals, padding_config=padding_config)
    if all(type(t) is Zero for t in tangents):
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    x, value = tangents
    x = zeros_of(x.aval) if type(x) is Zero else x
    value = constant_like(primals[1], 0) if type(value) is Zero else value
    return answer, pad_p.bind(x, value, padding_config=padding_config)


def _pad_transpose(ct: Tangent, x: Any, value: Any, *, padding_config: tuple[tuple[int, int, int], ...]) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(a.aval) if is_undefined(a) else None for a in (x, value)]
    back = tuple((-lo, -hi, 0) for lo, hi, _ in padding_config)
    trimmed = pad_p.bind(ct, np.zeros((), tracing.aval_of(ct).dtype), padding_config=back)
    shape = np.shape(trimmed)
    inner = slice_p.bind(trimmed, start_indices=(0,) * len(shape), limit_indices=shape,
                         strides=tuple(i + 1 for _, _, i in padding_config))
    axes = tuple(range(len(shape)))
    value_ct = None
    if is_undefined(value):
        value_ct = sub(reduce_sum_p.bind(ct, axes=axes, out_sharding=None),
                       reduce_sum_p.bind(inner, axes=axes, out_sharding=None))
    return [inner if is_undefined(x) else None, value_ct]


def _pad_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, padding_config: tuple[tuple[int, int, int], ...]
               ) -> tuple[Any, Any]:
    (x, value), (dx, dv) = operands, dims
    if dv is None:
        return pad_p.bind(x, value, padding_config=(*padding_config[:dx], (0, 0, 0), *padding_config[dx:])), dx
    # Each batch element has a padding value of its own: pad with zeros, then select the values in the padding.
    x = broadcast_batch(x, dx, axis_size)
    config = ((0, 0, 0), *padding_config)
    ones = broadcast_in_dim_p.bind(np.True_, shape=np.shape(x), broadcast_dimensions=(), sharding=None)
    inside = pad_p.bind(ones, np.zeros((), bool), padding_config=config)
    padded = pad_p.bind(x, np.zeros((), tracing.aval_of(x).dtype), padding_config=config)
    values = broadcast_in_dim_p.bind(move_dim(value, dv, 0), shape=np.shape(padded), broadcast_dimensions=(0,),
                                     sharding=None)
    return select(inside, values, padded), 0


pad_p = Primitive(
    "pad", abstract=_pad_abstract, lower=_pad_lower, jvp=_pad_jvp, transpose=_pad_transpose, batch=_pad_batch,
    mesh=MeshRules(sharding_rule=sharding_rules.resized, sums=of_all(1)), traits=Traits(cost=Cost.CHEAP))


# Concatenation


def _concatenate_abstract(*xs: ShapedArray, dimension: int) -> ShapedArray:
    first = xs[0]
    for x in xs:
        if x.ndim != first.ndim or x.shape[:dimension] + x.shape[dimension + 1:] != (
                first.shape[:dimension] + first.shape[dimension + 1:]):
            raise errors.incompatible_shapes("concatenate", [("", a.shape) for a in xs],
                                             f"All dimensions except dimension {dimension} must be equal.")
        if x.dtype != first.dtype:
            raise errors.incompatible_dtypes("concatenate", [a.dtype for a in xs])
    if not 0 <= dimension < first.ndim:
        raise TypeError(f"concatenate along dimension {dimension} of arrays with {first.ndim} dimensions")
    shape = list(first.shape)
    shape[dimension] = sum(x.shape[dimension] for x in xs)
    return ShapedArray(tuple(shape), first.dtype, all(x.weak_type for x in xs))


def _concatenate_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int) -> tuple[Any, Any]:
    answer = concatenate_p.bind(*primals, dimension=dimension)
    if all(type(t) is Zero for t in tangents):
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    nonzero = [t for t in tangents if type(t) is not Zero]
    if len(nonzero) < len(tangents) and any([has_open_sums(tracing.aval_of(t)) for t in nonzero]):
        return answer, _concatenate_summands(tangents, dimension)
    return answer, concatenate_p.bind(*[zeros_of(t.aval) if type(t) is Zero else t for t in tangents],
                                      dimension=dimension)


def _concatenate_summands(tangents: Sequence[Any], dimension: int) -> Any:
    """Concatenate unreduced summands and symbolic zeros, which are not summands: pad each summand with zeros, and add."""
    sizes = [tracing.aval_of(t).shape[dimension] if type(t) is not Zero else t.aval.shape[dimension] for t in tangents]
    total = None
    for i, t in enumerate(tangents):
        if type(t) is not Zero:
            around = (sum(sizes[:i]), sum(sizes[i + 1:]), 0)
            config = tuple([around if d == dimension else (0, 0, 0) for d in range(np.ndim(t))])
            padded = pad_p.bind(t, np.zeros((), tracing.aval_of(t).dtype), padding_config=config)
            total = padded if total is None else add(total, padded)
    return total


def _concatenate_transpose(ct: Tangent, *xs: Any, dimension: int) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined(x) else None for x in xs]
    results, start = [], 0
    shape = np.shape(ct)
    for x in xs:
        n = (x.aval.shape if is_undefined(x) else np.shape(x))[dimension]
        if is_undefined(x):
            begin, end = [0] * len(shape), list(shape)
            begin[dimension], end[dimension] = start, start + n
            results.append(slice_p.bind(ct, start_indices=tuple(begin), limit_indices=tuple(end), strides=None))
        else:
            results.append(None)
        start += n
    return results


def _concatenate_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimension: int) -> tuple[Any, Any]:
    xs = [broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)]
    return concatenate_p.bind(*xs, dimension=dimension + 1), 0


concatenate_p = Primitive(
    "concatenate", abstract=_concatenate_abstract, jvp=_concatenate_jvp, transpose=_concatenate_transpose,
    batch=_concatenate_batch, lower=lambda ctx, *xs, dimension: ctx.concatenate(xs, dimension),
    mesh=MeshRules(sharding_rule=sharding_rules.concatenate, sums=of_all_any_kind),
    traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.PERMUTES))


# Public functions


def slice(operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int],
          strides: Sequence[int] | None = None) -> Array:
    """Extract a slice with static start and limit indices.

    Args:
        operand: An array.
        start_indices: The first index in each dimension.
        limit_indices: The end index in each dimension, which is excluded; at most the size of the dimension.
        strides: The step in each dimension. Default: 1.

    Returns:
        The slice.

    Example:
        >>> lax.slice(xnp.arange(10), (1,), (8,), (3,))
        Array([1, 4, 7], dtype=int32)
    """
    steps = None if strides is None else tuple([as_size(s) for s in strides])
    rank = np.ndim(operand)
    if not len(start_indices) == len(limit_indices) == rank:
        raise ValueError(f"slice needs a start and a limit for each of the {rank} dimensions of shape {np.shape(operand)}, got "
                         f"{start_indices} and {limit_indices}.")
    return slice_p.bind(operand, start_indices=tuple([as_size(i) for i in start_indices]),
                        limit_indices=tuple([as_size(i) for i in limit_indices]), strides=steps)


@library(static=None)
def slice_in_dim(operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Array:
    """Compute `operand[start_index:limit_index:stride]` along one dimension.

    Args:
        operand: An array.
        start_index, limit_index: Start, and end, which is excluded: Python integers or None. Negative ones count from the end.
        stride: The step, a positive integer.
        axis: The dimension.

    Returns:
        The slice.

    Example:
        >>> lax.slice_in_dim(xnp.arange(10), 1, -2, 3)
        Array([1, 4, 7], dtype=int32)
    """
    shape = np.shape(operand)
    axis = canonical_axis(axis, len(shape), "slice_in_dim")
    start, limit = (default if i is None else _from_end(as_size(i), shape[axis])
                    for i, default in ((start_index, 0), (limit_index, shape[axis])))
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, as_size(stride)
    return slice(operand, tuple(starts), tuple(limits), tuple(strides))


def _from_end(i: int, n: int) -> int:
    return i + n if i < 0 else i


@library(static="dimension")
def _concatenate_kernel(operands: Sequence[Array], dimension: int) -> Array:
    return concatenate_p.bind(*operands, dimension=dimension) if len(operands) > 1 else operands[0]


@library(static=None)
def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Join arrays along a dimension.

    Args:
        operands: Arrays of one dtype, with equal sizes in all other dimensions.
        dimension: The dimension to join along.

    Returns:
        The joined array.

    Example:
        >>> lax.concatenate([xnp.array([1, 2]), xnp.array([3])], 0)
        Array([1, 2, 3], dtype=int32)
    """
    operands = list(operands)
    if not operands:
        raise ValueError("concatenate needs at least one array.")
    if len(operands) == 1 and np.ndim(operands[0]):
        dimension = 0  # any dimension is valid for a single array
    return _concatenate_kernel(operands, plain_axis(dimension, np.ndim(operands[0]), "concatenate", TypeError))


@library(static=None)
def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Pad an array at its edges and between its elements.

    Args:
        operand: An array.
        padding_value: The padding, a scalar of the dtype of `operand`.
        padding_config: For each dimension a triple: padding before the first element, padding after the last element, padding
            between elements. Negative padding at an edge removes elements.

    Returns:
        The padded array.

    Example:
        >>> lax.pad(xnp.array([1, 2]), 0, [(1, -1, 2)])
        Array([0, 1, 0, 0], dtype=int32)
    """
    if np.ndim(padding_value):
        raise ValueError(f"pad: the padding_value must be a scalar, got an array of shape {np.shape(padding_value)}.")
    if not isinstance(padding_config, (tuple, list)):
        raise TypeError(f"pad needs a sequence of (low, high, interior) triples as padding_config, got {padding_config!r}.")
    config = tuple([tuple([as_size(n) for n in triple]) for triple in padding_config if np.ndim(triple) == 1])
    if len(config) != np.ndim(operand) or any(len(triple) != 3 for triple in config):
        raise ValueError(f"pad: the length of padding_config must equal the number of axes, with (low, high, interior) for "
                         f"each: got {padding_config!r} for an array of shape {np.shape(operand)}.")
    aval = tracing.aval_of(operand)
    if has_open_sums(aval) and (isinstance(padding_value, tracing.Tracer) or np.any(np.asarray(padding_value))):
        raise errors.ShardingTypeError(f"pad of {str_short(aval)} with a value other than 0 would add the value once for each "
                                       f"summand. Reduce the array first, with reshard(x, P(...)).")
    return pad_p.bind(operand, padding_value, padding_config=config)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Return the slice of an array at a static index.

    Args:
        operand: An array.
        index: A Python integer. Negative ones count from the end.
        axis: The dimension to index.
        keepdims: If True, keep the dimension with size 1.

    Returns:
        The slice.

    Raises:
        IndexError: If `index` is out of bounds.

    Example:
        >>> lax.index_in_dim(xnp.array([[1, 2], [3, 4]]), -1, keepdims=False)
        Array([3, 4], dtype=int32)
    """
    axis = canonical_axis(axis, np.ndim(operand), "index_in_dim")
    n = np.shape(operand)[axis]
    wrapped = _from_end(as_size(index), n)
    if not 0 <= wrapped < n:
        raise IndexError(f"index {index} is out of bounds for dimension {axis} of size {n}")
    result = slice_in_dim(operand, wrapped, wrapped + 1, 1, axis)
    return result if keepdims else squeeze(result, (axis,))


def rows_of(x: Array) -> list:
    """Return the rows of an array, each by a slice."""
    shape = np.shape(x)
    zeros, rest = (0,) * (len(shape) - 1), tuple(shape[1:])
    return [squeeze_p.bind(slice_p.bind(x, start_indices=(i, *zeros), limit_indices=(i + 1, *rest), strides=None),
                           dimensions=(0,)) for i in range(shape[0])]
