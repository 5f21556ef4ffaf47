"""Products of matrices of which a dimension falls into groups: each group of rows with a matrix of its own.

The ragged dimension of `lhs` lies in one of three places. Where it is kept, each group is multiplied by its own part of `rhs`,
which has a dimension for the groups. Where it is summed, each group gives a product of its own, along a new first dimension.
Where it is a batch dimension, groups change nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import named_sharding
from xlafront.lax.cumulative import cumsum_p
from xlafront.lax.dot_products import canonical_precision, dot_general_p
from xlafront.lax.elementwise import and_, le, lt, sub, where
from xlafront.lax.families import add_tangents
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch, broadcast_in_dim_p, counting, inverse, move_dim, permute
from xlafront.staging.library import lax_function

_WHO = "ragged_dot_general"


@dataclasses.dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Which dimensions a ragged product sums, which are batches, and which fall into groups.

    - `dot_dimension_numbers`: as `dot_general` takes them.
    - `lhs_ragged_dimensions`: the dimension of `lhs` that falls into groups, in a sequence.
    - `rhs_group_dimensions`: that of `rhs` which counts the groups; none where the ragged dimension is summed or a batch.

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


class _Roles:
    """The dimensions of both operands by what becomes of them."""

    def __init__(self, numbers: RaggedDotDimensionNumbers, x_rank: int, y_rank: int):
        ((self.xc, self.yc), (self.xb, self.yb)) = numbers.dot_dimension_numbers
        self.ragged = numbers.lhs_ragged_dimensions[0]
        self.group = numbers.rhs_group_dimensions[0] if numbers.rhs_group_dimensions else None
        self.xf = tuple(i for i in range(x_rank) if i not in (*self.xc, *self.xb))
        self.yf = tuple(i for i in range(y_rank) if i not in (*self.yc, *self.yb) and i != self.group)
        self.summed, self.batch = self.ragged in self.xc, self.ragged in self.xb
        among = self.xb if self.batch else (*self.xb, *(self.xc if self.summed else self.xf))
        self.outer = among[:among.index(self.ragged)]  # the dimensions of lhs for whose elements group sizes may differ


def _abstract(x, y, sizes, *, ragged_dot_dimension_numbers, precision, preferred_element_type, group_offset, out_sharding):
    numbers = ragged_dot_dimension_numbers
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise TypeError(f"{_WHO} expects exactly one lhs ragged dimension, got {numbers.lhs_ragged_dimensions}.")
    if not 0 <= numbers.lhs_ragged_dimensions[0] < x.ndim:
        raise TypeError(f"{_WHO} got the lhs ragged dimension {numbers.lhs_ragged_dimensions[0]} of shape {x.shape}.")
    r = _Roles(numbers, x.ndim, y.ndim)
    _check_groups(numbers, r, y)
    if not dtypes.is_integer(sizes.dtype):
        raise TypeError(f"{_WHO} requires group_sizes of an integer dtype, a subtype of np.integer; got {sizes.dtype}.")
    count = sizes.shape[-1] if sizes.ndim else 0
    outer = tuple(x.shape[i] for i in r.outer)
    if sizes.shape not in ((count,), (*outer, count)) or not sizes.ndim:
        raise TypeError(f"{_WHO} expected group_sizes to have shape {(*outer, count)} or {(count,)}, got {sizes.shape}: a size "
                        f"for each group, and for each element of the outer dimensions if these differ.")
    if r.group is not None and y.shape[r.group] != count:
        raise TypeError(f"{_WHO} expected rhs group dimension size to be {count}, as there are group_sizes, got "
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


def _check_groups(numbers, r: _Roles, y) -> None:
    groups = numbers.rhs_group_dimensions
    if r.summed or r.batch:
        if groups:
            raise TypeError(f"{_WHO} requires zero group dimensions in the rhs when lhs ragged dimension is contracting or "
                            f"batch, got {groups}.")
    elif len(groups) != 1:
        raise TypeError(f"{_WHO} requires exactly one rhs group dimension when lhs ragged dimension is noncontracting, got "
                        f"{groups}.")
    elif groups[0] in (*r.yc, *r.yb) or not 0 <= groups[0] < y.ndim:
        raise TypeError(f"{_WHO} requires rhs group dimension numbers to be distinct from contracting and batch dimensions, "
                        f"and dimensions of shape {y.shape}; got {groups}.")


def _grouped(x, sizes, r: _Roles):
    """`lhs` once for each group, along a new first dimension, with zeros for what is in others."""
    shape, count = np.shape(x), np.shape(sizes)[-1]
    ends = cumsum_p.bind(sizes, axis=np.ndim(sizes) - 1, reverse=False)
    starts = sub(ends, sizes)
    full = (count, *shape)
    dims = (*[i + 1 for i in r.outer], 0) if np.ndim(sizes) > 1 else (0,)
    at = counting(tracing.aval_of(sizes).dtype, full, r.ragged + 1)
    order, along = inverse(dims), tuple(sorted(dims))
    starts, ends = (broadcast_in_dim_p.bind(permute(v, order), shape=full, broadcast_dimensions=along, sharding=None)
                    for v in (starts, ends))
    inside = and_(le(starts, at), lt(at, ends))
    spread = broadcast_in_dim_p.bind(x, shape=full, broadcast_dimensions=tuple(range(1, len(full))), sharding=None)
    return where(inside, spread, tracing.aval_of(x).dtype.type(0))


def _compute(x, y, sizes, *, ragged_dot_dimension_numbers, precision, preferred_element_type, group_offset, out_sharding):
    r = _Roles(ragged_dot_dimension_numbers, np.ndim(x), np.ndim(y))
    options = {"precision": precision, "preferred_element_type": preferred_element_type, "out_sharding": None}
    if r.batch:
        return dot_general_p.bind(x, y, dimension_numbers=ragged_dot_dimension_numbers.dot_dimension_numbers, **options)
    rows, (xc, xb) = _grouped(x, sizes, r), (tuple(i + 1 for i in dims) for dims in (r.xc, r.xb))
    if r.summed:
        product = dot_general_p.bind(rows, y, dimension_numbers=((xc, r.yc), (xb, r.yb)), **options)
        return move_dim(product, len(xb), 0)
    return dot_general_p.bind(rows, y, dimension_numbers=(((0, *xc), (r.group, *r.yc)), (xb, r.yb)), **options)


def _jvp(primals, tangents, **params):
    (x, y, sizes), (tx, ty, _) = primals, tangents
    answer = ragged_dot_general_p.bind(x, y, sizes, **params)
    terms = [ragged_dot_general_p.bind(a, b, sizes, **params) for t, a, b in ((tx, tx, y), (ty, x, ty)) if type(t) is not Zero]
    if not terms:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    return answer, terms[0] if len(terms) == 1 else add_tangents(*terms)


def _transpose(ct, x, y, sizes, *, ragged_dot_dimension_numbers, **params):
    wanted, other = (x, y) if is_undefined(x) else (y, x)
    result = Zero(wanted.aval)
    if type(ct) is not Zero:
        rank = lambda v: v.aval.ndim if is_undefined(v) else np.ndim(v)  # noqa: E731
        r = _Roles(ragged_dot_dimension_numbers, rank(x), rank(y))
        params["preferred_element_type"] = wanted.aval.dtype
        if r.batch:
            params.pop("group_offset")
            return [*dot_general_p.transpose(ct, x, y, dimension_numbers=ragged_dot_dimension_numbers.dot_dimension_numbers,
                                             **params), None]
        result = (_of_lhs if wanted is x else _of_rhs)(ct, other, sizes, r, params)
    return [result, None, None] if wanted is x else [None, result, None]


def _places(r: _Roles):
    """Where in a result batches, what is kept of lhs and what is kept of rhs are; groups are first where they are in it."""
    first = int(r.summed)
    sizes = (len(r.xb), len(r.xf), len(r.yf))
    begins = [first, first + sizes[0], first + sizes[0] + sizes[1]]
    return [tuple(range(b, b + n)) for b, n in zip(begins, sizes)]


def _bound(a, b, sizes, contracted, batches, ragged: int, group: Sequence[int], params):
    return ragged_dot_general_p.bind(a, b, sizes, ragged_dot_dimension_numbers=RaggedDotDimensionNumbers(
        (contracted, batches), (ragged,), tuple(group)), **params)


def _of_lhs(ct, y, sizes, r: _Roles, params):
    batch, of_x, of_y = _places(r)
    if r.summed:  # rows of rhs, each with the cotangent of its group
        found = _bound(y, ct, sizes, (r.yf, of_y), (r.yb, batch), r.yc[r.xc.index(r.ragged)], (0,), params)
        return permute(found, inverse([*r.xb, *_in_order(r.yc, r.xc), *r.xf]))
    ragged = of_x[r.xf.index(r.ragged)]
    found = _bound(ct, y, sizes, (of_y, r.yf), (batch, r.yb), ragged, (r.group,), params)
    return permute(found, inverse([*r.xb, *r.xf, *_in_order(r.yc, r.xc)]))


def _of_rhs(ct, x, sizes, r: _Roles, params):
    batch, of_x, _ = _places(r)
    if r.summed:
        found = _bound(x, ct, sizes, (r.xf, of_x), (r.xb, batch), r.ragged, (0,), params)
        return permute(found, inverse([*r.yb, *_in_order(r.xc, r.yc), *r.yf]))
    found = _bound(x, ct, sizes, (r.xf, of_x), (r.xb, batch), r.ragged, (), params)
    return permute(found, inverse([r.group, *r.yb, *_in_order(r.xc, r.yc), *r.yf]))


def _in_order(own: Sequence[int], others: Sequence[int]) -> list[int]:
    """The dimensions that go with the contracted ones of the other side, as they come in that side."""
    return [others[own.index(d)] for d in sorted(own)]


def _batch(axis_size, operands, dims, *, ragged_dot_dimension_numbers, **params):
    (x, y, sizes), (dx, dy, ds) = operands, dims
    r = _Roles(ragged_dot_dimension_numbers, np.ndim(x) - (dx is not None), np.ndim(y) - (dy is not None))
    x, y = broadcast_batch(x, dx, axis_size), broadcast_batch(y, dy, axis_size)
    if ds is not None or np.ndim(sizes) > 1:
        sizes = broadcast_batch(sizes, ds, axis_size)
        if np.ndim(sizes) == 2 and r.outer:  # each element of the batch has one list for all of its outer dimensions
            outer = [np.shape(x)[i + 1] for i in r.outer]
            sizes = broadcast_in_dim_p.bind(sizes, shape=(axis_size, *outer, np.shape(sizes)[-1]),
                                            broadcast_dimensions=(0, len(outer) + 1), sharding=None)

    def moved(axes):
        return tuple(a + 1 for a in axes)

    numbers = RaggedDotDimensionNumbers(
        ((moved(r.xc), moved(r.yc)), ((0, *moved(r.xb)), (0, *moved(r.yb)))), (r.ragged + 1,),
        () if r.group is None else (r.group + 1,))
    return ragged_dot_general_p.bind(x, y, sizes, ragged_dot_dimension_numbers=numbers, **params), int(r.summed)


ragged_dot_general_p = Primitive(_WHO, abstract=_abstract, lower=lower_fun(_compute), jvp=_jvp, transpose=_transpose,
                                 batch=_batch, cost="heavy", sharding_rule=sharding_rules.whole)
ragged_dot_general_p.contracts = True


@lax_function(static=("numbers", "precision", "preferred", "out_sharding"), name=_WHO)
def _kernel(lhs, rhs, group_sizes, numbers, precision, preferred, out_sharding):
    return ragged_dot_general_p.bind(lhs, rhs, group_sizes, ragged_dot_dimension_numbers=numbers, precision=precision,
                                     preferred_element_type=preferred, group_offset=None, out_sharding=out_sharding)


def ragged_dot_general(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike,
                       ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: Any = None,
                       preferred_element_type: DTypeLike | None = None, group_offset: ArrayLike | None = None,
                       out_sharding: ShardingLike = None) -> Array:
    """A product of arrays as `dot_general`, where a dimension of `lhs` falls into groups that are multiplied apart.

    - `lhs`, `rhs`: the arrays.
    - `group_sizes`: integers, how many elements of the ragged dimension are in each group; those beyond the last give zeros.
      They may have the outer dimensions of `lhs` in front.
    - `ragged_dot_dimension_numbers`: which dimensions are summed, batches, ragged. Where the ragged dimension is summed,
      the result has a first dimension that counts the groups.
    - `precision`, `preferred_element_type`, `out_sharding`: as in `dot_general`.
    - `group_offset`: not supported.

    >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    >>> lax.ragged_dot_general(xnp.ones((5, 2)), xnp.ones((5, 3)), xnp.array([2, 3]), numbers)[:, 0, 0]
    Array([2., 3.], dtype=float32)
    """
    if group_offset is not None:
        raise TypeError("ragged_dot takes no group_offset: only None is supported, with the groups from the first one on.")
    if not isinstance(ragged_dot_dimension_numbers, RaggedDotDimensionNumbers):
        raise TypeError(f"{_WHO} needs RaggedDotDimensionNumbers, got {ragged_dot_dimension_numbers!r}.")
    wanted = None if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type)
    return _kernel(lhs, rhs, group_sizes, ragged_dot_dimension_numbers, canonical_precision(precision), wanted,
                   named_sharding(out_sharding, _WHO))


_MATRICES = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, precision: Any = None,
               preferred_element_type: DTypeLike | None = None, group_offset: ArrayLike | None = None,
               out_sharding: ShardingLike = None) -> Array:
    """The rows of a matrix, in groups, times a matrix for each group; as experts of a network are applied.

    - `lhs`: `[m, k]`, with the rows of the first group first.
    - `rhs`: `[groups, k, n]`, a matrix for each.
    - `group_sizes`: how many rows each group has. Rows beyond the last group give zeros.
    - `precision`, `preferred_element_type`, `out_sharding`: as in `dot_general`.
    - `group_offset`: not supported.

    >>> lax.ragged_dot(xnp.ones((3, 2)), xnp.array([[[1.0], [1.0]], [[5.0], [5.0]]]), xnp.array([1, 2]))[:, 0]
    Array([ 2., 10., 10.], dtype=float32)
    """
    return ragged_dot_general(lhs, rhs, group_sizes, _MATRICES, precision, preferred_element_type, group_offset, out_sharding)
