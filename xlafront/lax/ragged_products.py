"""Ragged matrix products: each group of rows has a matrix of its own.

The ragged dimension of `lhs` has one of three roles. If it is noncontracting, each group is multiplied by its own slice of
`rhs`, which has a group dimension. If it is contracting, each group has a product of its own, along a new first dimension. If
it is a batch dimension, groups have no effect.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim
from xlafront.core.primitive import Cost, MeshRules, Primitive, Traits
from xlafront.core.tangents import add_tangents
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import named_sharding
from xlafront.lax.cumulative import cumsum_p
from xlafront.lax.dot_products import canonical_precision, dot_general_p
from xlafront.lax.elementwise import and_, le, lt, sub, where
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch, counting, inverse, permute
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.base.jaxlib_compat import NamedSharding
    from xlafront.core.typing import Dims, Params, Tangent

_NAME = "ragged_dot_general"


@dataclasses.dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Dimensions of a ragged product: contracting, batch, ragged and group dimensions.

    Args:
        dot_dimension_numbers: Contracting and batch dimensions, as in `dot_general`.
        lhs_ragged_dimensions: A sequence of the one dimension of `lhs` that is divided into groups.
        rhs_group_dimensions: A sequence of the group dimension of `rhs`; empty for contracting and batch ragged dimensions.

    Example:
        >>> numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
        >>> numbers.lhs_ragged_dimensions
        (0,)
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]

    def __post_init__(self) -> None:
        (xc, yc), (xb, yb) = self.dot_dimension_numbers
        for name, value in (("dot_dimension_numbers", ((_ints(xc), _ints(yc)), (_ints(xb), _ints(yb)))),
                            ("lhs_ragged_dimensions", _ints(self.lhs_ragged_dimensions)),
                            ("rhs_group_dimensions", _ints(self.rhs_group_dimensions))):
            object.__setattr__(self, name, value)


def _ints(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, values))


class _DimensionRoles:
    """The dimensions of both operands by role: contracting (c), batch (b), free (f), ragged and group."""

    def __init__(self, numbers: RaggedDotDimensionNumbers, x_rank: int, y_rank: int) -> None:
        ((self.xc, self.yc), (self.xb, self.yb)) = numbers.dot_dimension_numbers
        self.ragged = numbers.lhs_ragged_dimensions[0]
        self.group = numbers.rhs_group_dimensions[0] if numbers.rhs_group_dimensions else None
        self.xf = tuple(i for i in range(x_rank) if i not in (*self.xc, *self.xb))
        self.yf = tuple(i for i in range(y_rank) if i not in (*self.yc, *self.yb) and i != self.group)
        self.summed, self.batch = self.ragged in self.xc, self.ragged in self.xb
        candidates = self.xb if self.batch else (*self.xb, *(self.xc if self.summed else self.xf))
        self.outer = candidates[:candidates.index(self.ragged)]  # dimensions of lhs along which group sizes may differ


def _abstract(x: ShapedArray, y: ShapedArray, sizes: ShapedArray, *, ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
              precision: Any, preferred_element_type: np.dtype | None, group_offset: Array | None,
              out_sharding: NamedSharding | None) -> ShapedArray:
    numbers = ragged_dot_dimension_numbers
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise TypeError(f"{_NAME} expects exactly one lhs ragged dimension, got {numbers.lhs_ragged_dimensions}.")
    if not 0 <= numbers.lhs_ragged_dimensions[0] < x.ndim:
        raise TypeError(f"{_NAME} got the lhs ragged dimension {numbers.lhs_ragged_dimensions[0]} of shape {x.shape}.")
    r = _DimensionRoles(numbers, x.ndim, y.ndim)
    _check_groups(numbers, r, y)
    if not dtypes.is_integer(sizes.dtype):
        raise TypeError(f"{_NAME} requires group_sizes of an integer dtype, a subtype of np.integer; got {sizes.dtype}.")
    count = sizes.shape[-1] if sizes.ndim else 0
    outer = tuple(x.shape[i] for i in r.outer)
    if sizes.shape not in ((count,), (*outer, count)) or not sizes.ndim:
        raise TypeError(f"{_NAME} expected group_sizes to have shape {(*outer, count)} or {(count,)}, got {sizes.shape}: a "
                        f"size for each group, and for each element of the outer dimensions if these differ.")
    if r.group is not None and y.shape[r.group] != count:
        raise TypeError(f"{_NAME} expected rhs group dimension size to be {count}, as there are group_sizes, got "
                        f"{y.shape[r.group]} in shape {y.shape}.")
    for kind, a, b in (("contracting", r.xc, r.yc), ("batch", r.xb, r.yb)):
        if len(a) != len(b) or [x.shape[i] for i in a] != [y.shape[j] for j in b]:
            raise errors.incompatible_shapes(
                "ragged_dot", [("lhs", x.shape), ("rhs", y.shape)],
                f"dot_general requires {kind} dimensions to have the same shape, got {tuple(x.shape[i] for i in a)} and "
                f"{tuple(y.shape[j] for j in b)}.")
    shape = (*([count] if r.summed else []), *[x.shape[i] for i in (*r.xb, *r.xf)], *[y.shape[j] for j in r.yf])
    d = dtypes.promote_types(x.dtype, y.dtype) if preferred_element_type is None else np.dtype(preferred_element_type)
    return ShapedArray(shape, d)


def _check_groups(numbers: RaggedDotDimensionNumbers, r: _DimensionRoles, y: ShapedArray) -> None:
    groups = numbers.rhs_group_dimensions
    if r.summed or r.batch:
        if groups:
            raise TypeError(f"{_NAME} requires zero group dimensions in the rhs when lhs ragged dimension is contracting or "
                            f"batch, got {groups}.")
    elif len(groups) != 1:
        raise TypeError(f"{_NAME} requires exactly one rhs group dimension when lhs ragged dimension is noncontracting, got "
                        f"{groups}.")
    elif groups[0] in (*r.yc, *r.yb) or not 0 <= groups[0] < y.ndim:
        raise TypeError(f"{_NAME} requires rhs group dimension numbers to be distinct from contracting and batch dimensions, "
                        f"and dimensions of shape {y.shape}; got {groups}.")


def _mask_groups(x: Array, sizes: Array, r: _DimensionRoles) -> Array:
    """Repeat `lhs` for each group along a new first dimension, with zeros for rows of other groups."""
    shape, count = np.shape(x), np.shape(sizes)[-1]
    ends = cumsum_p.bind(sizes, axis=np.ndim(sizes) - 1, reverse=False)
    starts = sub(ends, sizes)
    shape_per_group = (count, *shape)
    dims = (*[i + 1 for i in r.outer], 0) if np.ndim(sizes) > 1 else (0,)
    position = counting(tracing.aval_of(sizes).dtype, shape_per_group, r.ragged + 1)
    order, broadcast_dims = inverse(dims), tuple(sorted(dims))
    starts, ends = (broadcast_in_dim_p.bind(permute(v, order), shape=shape_per_group, broadcast_dimensions=broadcast_dims,
                                            sharding=None) for v in (starts, ends))
    inside = and_(le(starts, position), lt(position, ends))
    repeated = broadcast_in_dim_p.bind(x, shape=shape_per_group, broadcast_dimensions=tuple(range(1, len(shape) + 1)),
                                       sharding=None)
    return where(inside, repeated, tracing.aval_of(x).dtype.type(0))


def _compute(x: Array, y: Array, sizes: Array, *, ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any,
             preferred_element_type: np.dtype | None, group_offset: Array | None, out_sharding: NamedSharding | None) -> Array:
    r = _DimensionRoles(ragged_dot_dimension_numbers, np.ndim(x), np.ndim(y))
    options = {"precision": precision, "preferred_element_type": preferred_element_type, "out_sharding": None}
    if r.batch:
        return dot_general_p.bind(x, y, dimension_numbers=ragged_dot_dimension_numbers.dot_dimension_numbers, **options)
    rows, (xc, xb) = _mask_groups(x, sizes, r), (tuple(i + 1 for i in dims) for dims in (r.xc, r.xb))
    if r.summed:
        product = dot_general_p.bind(rows, y, dimension_numbers=((xc, r.yc), (xb, r.yb)), **options)
        return move_dim(product, len(xb), 0)
    return dot_general_p.bind(rows, y, dimension_numbers=(((0, *xc), (r.group, *r.yc)), (xb, r.yb)), **options)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    (x, y, sizes), (tx, ty, _) = primals, tangents
    result = ragged_dot_general_p.bind(x, y, sizes, **params)
    terms = [ragged_dot_general_p.bind(a, b, sizes, **params) for t, a, b in ((tx, tx, y), (ty, x, ty)) if type(t) is not Zero]
    if not terms:
        return result, Zero(tracing.aval_of(result).to_tangent_aval())
    return result, terms[0] if len(terms) == 1 else add_tangents(*terms)


def _transpose(ct: Tangent, x: Any, y: Any, sizes: Any, *, ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
               **params: Any) -> list[Any]:
    undefined, defined = (x, y) if is_undefined(x) else (y, x)
    result = Zero(undefined.aval)
    if type(ct) is not Zero:
        rank = lambda v: v.aval.ndim if is_undefined(v) else np.ndim(v)  # noqa: E731
        r = _DimensionRoles(ragged_dot_dimension_numbers, rank(x), rank(y))
        params["preferred_element_type"] = undefined.aval.dtype
        if r.batch:
            params.pop("group_offset")
            return [*dot_general_p.transpose(ct, x, y, dimension_numbers=ragged_dot_dimension_numbers.dot_dimension_numbers,
                                             **params), None]
        result = (_transpose_lhs if undefined is x else _transpose_rhs)(ct, defined, sizes, r, params)
    return [result, None, None] if undefined is x else [None, result, None]


def _result_positions(r: _DimensionRoles) -> list[tuple[int, ...]]:
    """Return the positions of batch, free lhs and free rhs dimensions in a result. A group dimension comes first."""
    first = int(r.summed)
    sizes = (len(r.xb), len(r.xf), len(r.yf))
    starts = [first, first + sizes[0], first + sizes[0] + sizes[1]]
    return [tuple(range(b, b + n)) for b, n in zip(starts, sizes)]


def _bind_ragged(a: Array, b: Array, sizes: Array, contracted: tuple, batches: tuple, ragged: int, group: Sequence[int],
                 params: Params) -> Array:
    return ragged_dot_general_p.bind(a, b, sizes, ragged_dot_dimension_numbers=RaggedDotDimensionNumbers(
        (contracted, batches), (ragged,), tuple(group)), **params)


def _transpose_lhs(ct: Array, y: Array, sizes: Array, r: _DimensionRoles, params: Params) -> Array:
    batch, x_dims, y_dims = _result_positions(r)
    if r.summed:  # multiply rows of rhs by the cotangent of their group
        result = _bind_ragged(y, ct, sizes, (r.yf, y_dims), (r.yb, batch), r.yc[r.xc.index(r.ragged)], (0,), params)
        return permute(result, inverse([*r.xb, *_matching_dims(r.yc, r.xc), *r.xf]))
    ragged = x_dims[r.xf.index(r.ragged)]
    result = _bind_ragged(ct, y, sizes, (y_dims, r.yf), (batch, r.yb), ragged, (r.group,), params)
    return permute(result, inverse([*r.xb, *r.xf, *_matching_dims(r.yc, r.xc)]))


def _transpose_rhs(ct: Array, x: Array, sizes: Array, r: _DimensionRoles, params: Params) -> Array:
    batch, x_dims, _ = _result_positions(r)
    if r.summed:
        result = _bind_ragged(x, ct, sizes, (r.xf, x_dims), (r.xb, batch), r.ragged, (0,), params)
        return permute(result, inverse([*r.yb, *_matching_dims(r.xc, r.yc), *r.yf]))
    result = _bind_ragged(x, ct, sizes, (r.xf, x_dims), (r.xb, batch), r.ragged, (), params)
    return permute(result, inverse([r.group, *r.yb, *_matching_dims(r.xc, r.yc), *r.yf]))


def _matching_dims(dims: Sequence[int], matching: Sequence[int]) -> list[int]:
    """Return the contracted dimensions of the other operand, in the order of those of this one."""
    return [matching[dims.index(d)] for d in sorted(dims)]


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
           **params: Any) -> tuple[Any, Any]:
    (x, y, sizes), (dx, dy, ds) = operands, dims
    r = _DimensionRoles(ragged_dot_dimension_numbers, np.ndim(x) - (dx is not None), np.ndim(y) - (dy is not None))
    x, y = broadcast_batch(x, dx, axis_size), broadcast_batch(y, dy, axis_size)
    if ds is not None or np.ndim(sizes) > 1:
        sizes = broadcast_batch(sizes, ds, axis_size)
        if np.ndim(sizes) == 2 and r.outer:  # each element of the batch has the same sizes along its outer dimensions
            outer = [np.shape(x)[i + 1] for i in r.outer]
            sizes = broadcast_in_dim_p.bind(sizes, shape=(axis_size, *outer, np.shape(sizes)[-1]),
                                            broadcast_dimensions=(0, len(outer) + 1), sharding=None)

    def shifted(axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(a + 1 for a in axes)

    numbers = RaggedDotDimensionNumbers(
        ((shifted(r.xc), shifted(r.yc)), ((0, *shifted(r.xb)), (0, *shifted(r.yb)))), (r.ragged + 1,),
        () if r.group is None else (r.group + 1,))
    return ragged_dot_general_p.bind(x, y, sizes, ragged_dot_dimension_numbers=numbers, **params), int(r.summed)


ragged_dot_general_p = Primitive(
    _NAME, abstract=_abstract, lower=lower_fun(_compute), jvp=_jvp, transpose=_transpose, batch=_batch,
    mesh=MeshRules(sharding_rules.unsharded), traits=Traits(cost=Cost.HEAVY, contracts=True))


@library(static=("numbers", "precision", "preferred", "out_sharding"), name=_NAME)
def _kernel(lhs: Array, rhs: Array, group_sizes: Array, numbers: RaggedDotDimensionNumbers, precision: Any,
            preferred: np.dtype | None, out_sharding: NamedSharding | None) -> Array:
    return ragged_dot_general_p.bind(lhs, rhs, group_sizes, ragged_dot_dimension_numbers=numbers, precision=precision,
                                     preferred_element_type=preferred, group_offset=None, out_sharding=out_sharding)


def ragged_dot_general(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike,
                       ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any = None,
                       preferred_element_type: DTypeLike | None = None, group_offset: ArrayLike | None = None,
                       out_sharding: ShardingLike = None) -> Array:
    """Compute a `dot_general` in which a dimension of `lhs` is divided into groups that are multiplied separately.

    Args:
        lhs, rhs: Operands.
        group_sizes: Integer array, the number of elements of the ragged dimension in each group. Elements after the last group
            give zeros. It may have the outer dimensions of `lhs` in front.
        ragged_dot_dimension_numbers: A `RaggedDotDimensionNumbers`. If the ragged dimension is contracting, the result has a
            group dimension in front.
        precision, preferred_element_type, out_sharding: As in `dot_general`.
        group_offset: Not supported.

    Returns:
        The product.

    Example:
        >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
        >>> lax.ragged_dot_general(xnp.ones((5, 2)), xnp.ones((5, 3)), xnp.array([2, 3]), numbers)[:, 0, 0]
        Array([2., 3.], dtype=float32)
    """
    if group_offset is not None:
        raise TypeError("ragged_dot does not support group_offset. Leave it out; groups are counted from the first one.")
    if not isinstance(ragged_dot_dimension_numbers, RaggedDotDimensionNumbers):
        raise TypeError(f"{_NAME} needs RaggedDotDimensionNumbers, got {ragged_dot_dimension_numbers!r}.")
    preferred = None if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type)
    return _kernel(lhs, rhs, group_sizes, ragged_dot_dimension_numbers, canonical_precision(precision), preferred,
                   named_sharding(out_sharding, _NAME))


_MATRIX_DIMENSIONS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, precision: Any = None,
               preferred_element_type: DTypeLike | None = None, group_offset: ArrayLike | None = None,
               out_sharding: ShardingLike = None) -> Array:
    """Multiply groups of rows of a matrix by one matrix per group, as in a mixture of experts.

    Args:
        lhs: Array of shape `[m, k]`, with the rows of the groups in order.
        rhs: Array of shape `[groups, k, n]`, one matrix per group.
        group_sizes: Number of rows in each group. Rows after the last group give zeros.
        precision, preferred_element_type, out_sharding: As in `dot_general`.
        group_offset: Not supported.

    Returns:
        Array of shape `[m, n]`.

    Example:
        >>> lax.ragged_dot(xnp.ones((3, 2)), xnp.array([[[1.0], [1.0]], [[5.0], [5.0]]]), xnp.array([1, 2]))[:, 0]
        Array([ 2., 10., 10.], dtype=float32)
    """
    return ragged_dot_general(lhs, rhs, group_sizes, _MATRIX_DIMENSIONS, precision, preferred_element_type, group_offset,
                              out_sharding)
