"""Products of BCOO arrays with dense arrays and with each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.core.dimensions import common_shape, is_symbolic
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse import places
from xlafront.sparse.base import SparseInfo
from xlafront.sparse.bcoo import BCOO, dot_general_p, extract_p
from xlafront.sparse.bcoo_functions import bcoo_update_layout
from xlafront.sparse.operations import at_once, operation, over_batches

DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def canonical_numbers(name: str, lhs: Any, rhs: Any, dimension_numbers: Any) -> tuple:
    """Dimension numbers as tuples of indices, after checking that they fit the operands."""
    (lc, rc), (lb, rb) = [[tuple(int(d) for d in part) for part in pair] for pair in dimension_numbers]
    for dims, x, what in ((lc, lhs, "lhs contracting"), (lb, lhs, "lhs batch"), (rc, rhs, "rhs contracting"), (rb, rhs,
        "rhs batch")):
        if any(not 0 <= d < len(x.shape) for d in dims):
            raise TypeError(f"{name} has {what} dimensions {dims} of an operand of shape {tuple(x.shape)}")
    for ours, theirs, what in ((lc, rc, "contracting"), (lb, rb, "batch")):
        sizes, others = [lhs.shape[d] for d in ours], [rhs.shape[d] for d in theirs]
        if sizes != others:
            raise TypeError(f"{name} requires {what} dimensions of one size in both operands, got {sizes} and {others}: shapes "
                            f"{tuple(lhs.shape)} and {tuple(rhs.shape)} with dimension_numbers={dimension_numbers}")
    return (lc, rc), (lb, rb)


def product_shape(lhs: Any, rhs: Any, numbers: tuple) -> tuple[int, ...]:
    (lc, rc), (lb, rb) = numbers
    return (*[lhs.shape[d] for d in lb], *[n for d, n in enumerate(lhs.shape) if d not in (*lc, *lb)],
            *[n for d, n in enumerate(rhs.shape) if d not in (*rc, *rb)])


def bcoo_dot_general(lhs: BCOO | Array, rhs: BCOO | Array, *, dimension_numbers: DimensionNumbers, precision: Any = None,
                     preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> BCOO | Array:
    """The product of two arrays of which any are sparse, summed over pairs of dimensions, as `lax.dot_general` of dense ones.

    The result is sparse where both operands are. Dense dimensions are not summed over, and dimensions that both have in common
    without a sum must be batches of sparse operands.

    - `lhs`, `rhs`: BCOO or dense arrays.
    - `dimension_numbers`: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`.
    - `precision`: of the products of dense operands, to no effect on sparse ones.
    - `preferred_element_type`: the dtype of the result. `out_sharding`: must be None.

    >>> sparse.bcoo_dot_general(sparse.eye(2), xnp.arange(2.), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([0., 1.], dtype=float32)
    """
    if out_sharding is not None:
        raise NotImplementedError(f"bcoo_dot_general takes no out_sharding, got {out_sharding}")
    numbers = canonical_numbers("bcoo_dot_general", lhs, rhs, dimension_numbers)
    (lc, rc), (lb, rb) = numbers
    element = None if preferred_element_type is None else np.dtype(preferred_element_type)
    if element is not None and element.kind != "b" and lhs.dtype.kind == rhs.dtype.kind == "b":  # summed as what they become
        lhs, rhs = (x.astype(element) for x in (lhs, rhs))
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_dot(lhs, rhs, numbers, element)
    if isinstance(lhs, BCOO):
        _check_dot(lhs, lc, lb)
        return dot_general_p.bind(*lhs._bufs, xnp.asarray(rhs), dimension_numbers=numbers, preferred_element_type=element,
                                  lhs_spinfo=lhs._info)
    if isinstance(rhs, BCOO):
        _check_dot(rhs, rc, rb)
        lhs = xnp.asarray(lhs)
        found = dot_general_p.bind(*rhs._bufs, lhs, dimension_numbers=((rc, lc), (rb, lb)), preferred_element_type=element,
                                   lhs_spinfo=rhs._info)
        # Free dimensions of rhs come first: behind those of lhs with them.
        batch, ours = len(lb), rhs.ndim - len(rc) - len(rb)
        return found.transpose(*range(batch), *range(batch + ours, found.ndim), *range(batch, batch + ours))
    return lax.dot_general(lhs, rhs, numbers, precision=precision, preferred_element_type=element)


def _check_dot(mat: BCOO, contract: Sequence[int], batch: Sequence[int]) -> None:
    if any(d >= mat.n_batch + mat.n_sparse for d in contract):
        raise NotImplementedError(f"bcoo_dot_general cannot sum over dense dimensions: {tuple(contract)} of an array of shape "
                                  f"{mat.shape} with n_dense={mat.n_dense}. Make them sparse with update_layout.")
    if any(d >= mat.n_batch for d in batch):
        raise NotImplementedError(f"bcoo_dot_general has dimensions {tuple(batch)} of a sparse operand of shape {mat.shape} as "
                                  f"batches, of which it has n_batch={mat.n_batch}. Make them batches with update_layout.")


# Products of two sparse arrays


def _pairs(lhs_data, lhs_indices, rhs_data, rhs_indices, *, lhs_shape, rhs_shape, contract, limit):
    """The products of all pairs of elements that agree in the summed dimensions, as elements of an outer product."""
    (left, right) = contract
    dtype = xnp.promote_types(lhs_data.dtype, rhs_data.dtype)
    free_left = [d for d in range(len(lhs_shape)) if d not in left]
    free_right = [d for d in range(len(rhs_shape)) if d not in right]
    nse = len(lhs_indices) * len(rhs_indices)
    agree = places.in_bounds(lhs_indices, lhs_shape)[:, None] & places.in_bounds(rhs_indices, rhs_shape)[None]
    for ours, theirs in zip(left, right):
        agree &= lhs_indices[:, None, ours] == rhs_indices[None, :, theirs]
    index_dtype = xnp.promote_types(lhs_indices.dtype, rhs_indices.dtype)
    columns = [xnp.broadcast_to(column, agree.shape).reshape(nse) for column in (
        *[lhs_indices[:, None, d] for d in free_left], *[rhs_indices[None, :, d] for d in free_right])]
    shape = (*[lhs_shape[d] for d in free_left], *[rhs_shape[d] for d in free_right])
    data = lhs_data[:, None].astype(dtype) * rhs_data[None].astype(dtype)
    data, rows = places.keep_where(agree.reshape(nse), data.reshape(nse), columns, shape, index_dtype)
    return places.sum_groups(data, rows, shape, limit) if limit < nse else (data, rows)


def _spdot_general(lhs_data, lhs_indices, rhs_data, rhs_indices, *, lhs_spinfo, rhs_spinfo, dimension_numbers,
                   preferred_element_type):
    (lc, rc), (lb, rb) = dimension_numbers
    k, m = lhs_indices.ndim - 2, rhs_indices.ndim - 2
    lhs_shape, rhs_shape = lhs_spinfo.shape[k:], rhs_spinfo.shape[m:]
    contract = tuple(d - k for d in lc), tuple(d - m for d in rc)
    free = [n for d, n in enumerate(lhs_shape) if d not in contract[0]] + [
        n for d, n in enumerate(rhs_shape) if d not in contract[1]]
    limit = min(lhs_indices.shape[-2] * rhs_indices.shape[-2], math.prod(free))
    # Batch dimensions: common ones, those of lhs alone, those of rhs alone.
    left, right = [d for d in range(k) if d not in lb], [d for d in range(m) if d not in rb]

    def arranged(x, common, own, before, after):
        rank = x.ndim
        rest = range(len(common) + len(own), rank)
        x = x.transpose(*common, *own, *rest)
        return xnp.expand_dims(x, (*range(len(common), len(common) + before), *range(
            len(common) + before + len(own), len(common) + before + len(own) + after)))

    lhs = [arranged(x, lb, left, 0, len(right)) for x in (lhs_data, lhs_indices)]
    rhs = [arranged(x, rb, right, len(left), 0) for x in (rhs_data, rhs_indices)]

    def one(a, i, b, j):
        return _pairs(a, i, b, j, lhs_shape=lhs_shape, rhs_shape=rhs_shape, contract=contract, limit=limit)

    data, indices = over_batches(one, len(lb) + len(left) + len(right))(*lhs, *rhs)
    return data if preferred_element_type is None else data.astype(preferred_element_type), indices


spdot_general_p = operation("bcoo_spdot_general", _spdot_general, (0, 2), multiple_results=True)


def _sparse_dot(lhs: BCOO, rhs: BCOO, numbers: tuple, element: Any) -> BCOO:
    (lc, rc), (lb, rb) = numbers
    if lhs.n_dense or rhs.n_dense:
        raise AssertionError("the product of two sparse arrays needs n_dense=0 in both, got "
                             f"{lhs.n_dense} and {rhs.n_dense}: make dense dimensions sparse with update_layout")
    if any(d >= lhs.n_batch for d in lb) or any(d >= rhs.n_batch for d in rb):
        raise NotImplementedError(f"the product of two sparse arrays has dimensions {lb} and {rb} as batches, which must be "
                                  f"those of the operands: n_batch={lhs.n_batch} and {rhs.n_batch}. Use update_layout.")
    if any(d < lhs.n_batch for d in lc) or any(d < rhs.n_batch for d in rc):
        raise NotImplementedError(f"the product of two sparse arrays sums over dimensions {lc} and {rc}, which cannot be "
                                  f"batches: the operands have n_batch={lhs.n_batch} and {rhs.n_batch}. Use update_layout.")
    own = rhs.n_batch - len(rb)
    if own and lhs.ndim - lhs.n_batch > len(lc):
        raise ValueError("the product of two sparse arrays cannot have batch dimensions of rhs alone behind sparse ones of "
                         f"lhs: shapes {lhs.shape} and {rhs.shape} with dimension_numbers={numbers}")
    data, indices = spdot_general_p.bind(*lhs._bufs, *rhs._bufs, lhs_spinfo=SparseInfo(lhs.shape),
        rhs_spinfo=SparseInfo(rhs.shape),
                                         dimension_numbers=numbers, preferred_element_type=element)
    return BCOO((data, indices), shape=product_shape(lhs, rhs, numbers))


# Dense products at some places only


_FEW = 4096  # the most products of numbers that are computed sooner one by one than a call of a matrix product begins


def _sampled(A, B, indices, *, dimension_numbers):
    (lc, rc), (lb, rb) = dimension_numbers
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    left, right = ([d for d in range(x.ndim) if d not in (*c, *b)] for x, c, b in ((A, lc, lb), (B, rc, rb)))
    dtype = xnp.promote_types(A.dtype, B.dtype)
    whole = [x.shape[d] for x, dims in ((A, left), (B, right)) for d in dims]
    many = places.are_many(indices.shape[-2], whole, dtype, 50) and (
        is_symbolic(A.shape) or indices.shape[-2] * math.prod([A.shape[d] for d in lc]) > _FEW)
    if n_batch != len(lb) or n_sparse != len(left) + len(right) or many:
        return _all_sampled(A, B, indices, dimension_numbers=dimension_numbers)
    A, B = _rows_of(A.astype(dtype), (*lb, *left, *lc), lc), _rows_of(B.astype(dtype), (*rb, *right, *rc), rc)

    def one(a, b, i):
        rows, columns = places.take_at(a, i[:, :len(left)], "clip"), places.take_at(b, i[:, len(left):], "clip")
        found = (rows * columns).sum(tuple(range(1, rows.ndim)), dtype=dtype)
        return places.zero_unless(places.in_bounds(i, whole), found)  # here it is one number a place

    return over_batches(one, n_batch)(A, B, indices)


def _all_sampled(A, B, indices, *, dimension_numbers):
    product = lax.dot_general(A, B, dimension_numbers, precision=lax.Precision.HIGHEST)
    return extract_p.bind(indices, product, assume_unique=True)


def _sampled_to_transpose(wanted, avals, *, dimension_numbers):
    A, B, indices = avals
    result = product_shape(A, B, dimension_numbers)
    return _all_sampled if places.are_many(math.prod(indices.shape[:-1]), result, A.dtype, 20) else None


def _rows_of(x: Array, order: tuple[int, ...], summed: Sequence[int]) -> Array:
    """The array with what is summed behind the rest. Long rows are laid out so before they are read: they are read often."""
    moved = x.transpose(order)
    if order == tuple(range(x.ndim)) or math.prod([x.shape[d] for d in summed]) < 64:
        return moved
    return lax.optimization_barrier(moved)


dot_general_sampled_p = operation("bcoo_dot_general_sampled", _sampled, (0, 1), to_transpose=_sampled_to_transpose)


def bcoo_dot_general_sampled(A: Array, B: Array, indices: Array, *, dimension_numbers: DimensionNumbers) -> Array:
    """Elements of the product of two dense arrays at the places of a sparse array, without computing the others.

    - `A`, `B`: the dense arrays.
    - `indices`: the indices of a BCOO array of the product's shape; the result is its `data`.
    - `dimension_numbers`: `((A contracting, B contracting), (A batch, B batch))`.

    >>> x = xnp.arange(6.).reshape(2, 3)
    >>> sparse.bcoo_dot_general_sampled(x, x, xnp.array([[1, 1]]), dimension_numbers=(((1,), (1,)), ((), ()))).tolist()
    [50.0]
    """
    A, B, indices = xnp.asarray(A), xnp.asarray(B), xnp.asarray(indices)
    numbers = canonical_numbers("bcoo_dot_general_sampled", A, B, dimension_numbers)
    return dot_general_sampled_p.bind(A, B, indices, dimension_numbers=numbers)


# Products of elements


def bcoo_multiply_dense(sp_mat: BCOO, v: ArrayLike) -> Array:
    """The elements of a sparse array times those of a dense one at the same places: the `data` of the product.

    - `sp_mat`: the BCOO array.
    - `v`: the dense array, which broadcasts to the shape of `sp_mat`.

    >>> sparse.bcoo_multiply_dense(sparse.eye(2), xnp.array([3., 4.])).tolist()
    [3.0, 4.0]
    """
    v = xnp.asarray(v)
    if v.ndim == 0:
        return sp_mat.data * v
    return at_once(_multiply_dense, sp_mat, v)


def _multiply_dense(sp_mat: BCOO, v: Array) -> Array:
    data, indices = sp_mat._bufs
    shape, k, s = sp_mat.shape, sp_mat.n_batch, sp_mat.n_sparse
    if v.ndim > sp_mat.ndim or common_shape(shape, v.shape) != shape:
        raise NotImplementedError(f"a dense array of shape {v.shape} does not broadcast to the shape {shape} of the sparse "
                                  "array that it is multiplied with, which makes others of its elements: use todense()")
    v = v.reshape((1,) * (sp_mat.ndim - v.ndim) + v.shape)
    wide = [d for d in range(s) if v.shape[k + d] != 1]

    def one(d, i, w):  # the values of padding are zeros, whatever they are multiplied with
        w = w.reshape([n for axis, n in enumerate(w.shape) if axis >= s or axis in wide])
        return d * places.take_at(w, i if len(wide) == s else xnp.stack([i[:, n] for n in wide], -1), "clip")

    return over_batches(one, k)(data, indices, v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product of two sparse arrays element by element; dimensions of size 1 broadcast.

    All pairs of stored elements are compared.

    - `lhs`, `rhs`: BCOO arrays with as many dimensions.

    >>> sparse.bcoo_multiply_sparse(sparse.eye(2), sparse.eye(2)).todense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return at_once(_multiply_sparse, lhs, rhs)


def _multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    if lhs.ndim != rhs.ndim:
        raise TypeError(f"bcoo_multiply_sparse needs arrays of as many dimensions, got shapes {lhs.shape} and {rhs.shape}")
    try:
        shape = common_shape(lhs.shape, rhs.shape)
    except ValueError:
        raise TypeError(f"bcoo_multiply_sparse needs shapes that broadcast, got {lhs.shape} and {rhs.shape}") from None
    k, dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    if lhs.n_dense != rhs.n_dense:
        lhs, rhs = (bcoo_update_layout(x, n_dense=dense) for x in (lhs, rhs))
    lhs, rhs = (bcoo_update_layout(x, n_batch=k) for x in (lhs, rhs))
    s = lhs.n_sparse
    ours, theirs = lhs.shape[k:k + s], rhs.shape[k:k + s]
    wanted = shape[k:k + s]
    index_dtype = xnp.promote_types(lhs.indices.dtype, rhs.indices.dtype)

    def one(a, i, b, j):
        agree = places.in_bounds(i, ours)[:, None] & places.in_bounds(j, theirs)[None]
        columns, nse = [], len(i) * len(j)
        for d in range(s):
            if ours[d] == theirs[d]:
                agree &= i[:, None, d] == j[None, :, d]
            column = i[:, None, d] if ours[d] == wanted[d] else j[None, :, d]
            columns.append(xnp.broadcast_to(column, agree.shape).reshape(nse))
        data = a[:, None] * b[None]
        return places.keep_where(agree.reshape(nse), data.reshape(nse, *data.shape[2:]), columns, wanted, index_dtype)

    data, indices = over_batches(one, k)(*lhs._bufs, *rhs._bufs)
    return BCOO((data, indices), shape=shape)


# Convolutions


def bcoo_conv_general_dilated(lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: str | Sequence[tuple[int, int]],
                              lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
                              dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1,
                              precision: Any = None, preferred_element_type: DTypeLike | None = None,
                              out_sharding: Any = None) -> BCOO:
    """The convolution of sparse arrays over one dimension, with one feature and a batch of one, as `lax.conv_general_dilated`.

    - `lhs`, `rhs`: the array and the kernel, BCOO or dense.
    - `window_strides`: must be ones. `padding`: "SAME", "SAME_LOWER", "VALID" or how much before and after.
    - `lhs_dilation`, `rhs_dilation`: must be ones or None. `dimension_numbers`: which dimensions are what, must be the default.
    - `feature_group_count`, `batch_group_count`: must be 1. `precision`: must be None.
    - `preferred_element_type`: the dtype of the result. `out_sharding`: must be None.

    >>> x, kernel = (sparse.bcoo_fromdense(xnp.array([[v]])) for v in ([1., 0., 2.], [1., 3.]))
    >>> sparse.bcoo_conv_general_dilated(x, kernel, window_strides=(1,), padding="VALID").todense().tolist()
    [[[1.0, 6.0]]]
    """
    name = "bcoo_conv_general_dilated"
    lhs, rhs = (x if isinstance(x, BCOO) else BCOO.fromdense(x) for x in (lhs, rhs))
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise ValueError(f"{name} needs an array and a kernel of as many dimensions, got shapes {lhs.shape} and {rhs.shape}")
    found = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    straight = tuple(range(lhs.ndim))
    for given, wanted, what in (
            (tuple(window_strides), (1,) * (lhs.ndim - 2), "window_strides"), (feature_group_count, 1, "feature_group_count"),
            (tuple(lhs_dilation or wanted_ones(lhs)), wanted_ones(lhs), "lhs_dilation"), (batch_group_count, 1,
                "batch_group_count"),
            (tuple(rhs_dilation or wanted_ones(lhs)), wanted_ones(lhs), "rhs_dilation"), (out_sharding, None, "out_sharding"),
            (tuple(map(tuple, found)), (straight,) * 3, "dimension_numbers"), (precision, None, "precision")):
        if given != wanted:
            raise NotImplementedError(f"{name} has {what}={given}, of which it takes {wanted} only")
    if lhs.ndim != 3:
        raise ValueError(f"{name} works over one dimension, got {lhs.ndim - 2} in shapes {lhs.shape} and {rhs.shape}")
    lhs, rhs = (bcoo_update_layout(bcoo_update_layout(x, n_dense=0), n_batch=2) for x in (lhs, rhs))
    if lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1):
        raise NotImplementedError(f"{name} takes one batch and one feature, got shapes {lhs.shape} and {rhs.shape}")
    [(before, after)] = lax.padtype_to_pads(lhs.shape[2:], rhs.shape[2:], (1,), padding) if isinstance(padding, str) else [
        tuple(map(int, pair)) for pair in padding]
    element = None if preferred_element_type is None else np.dtype(preferred_element_type)
    return at_once(_conv_1d, lhs, rhs, before=before, after=after, element=element)


def _conv_1d(lhs: BCOO, rhs: BCOO, *, before: int, after: int, element: Any) -> BCOO:
    size, taps = lhs.shape[2], rhs.shape[2]
    length = max(size + before + after - taps + 1, 0)

    def one(a, i, b, j):
        position = i[:, None, 0] - j[None, :, 0] + before
        inside = places.in_bounds(i, (size,))[:, None] & places.in_bounds(j, (taps,))[None]
        inside &= (position >= 0) & (position < length)
        nse = len(i) * len(j)
        return places.keep_where(inside.reshape(nse), (a[:, None] * b[None]).reshape(nse), [position.reshape(nse)], (length,),
                                 i.dtype)

    data, indices = over_batches(one, 2)(*lhs._bufs, *rhs._bufs)
    return BCOO((data if element is None else data.astype(element), indices), shape=(1, 1, length))


def wanted_ones(x: Any) -> tuple[int, ...]:
    return (1,) * (x.ndim - 2)


