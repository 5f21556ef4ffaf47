"""Products of BCOO arrays with dense arrays and with each other."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.resharding import resolve_out_sharding, with_out_sharding
from xlafront.sparse import positions
from xlafront.sparse.base import SparseInfo
from xlafront.sparse.bcoo import BCOO, dot_general_p, extract_p
from xlafront.sparse.bcoo_functions import bcoo_update_layout
from xlafront.sparse.operations import call_jitted, linear_primitive, map_batches
from xlafront.symbolic.dimensions import common_shape, is_symbolic

DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def canonical_dimension_numbers(name: str, lhs: Any, rhs: Any, dimension_numbers: Any) -> tuple:
    """Return dimension numbers as tuples of ints, or raise if they do not fit the operands."""
    (lc, rc), (lb, rb) = [[tuple(int(d) for d in dims) for dims in pair] for pair in dimension_numbers]
    for dims, x, kind in ((lc, lhs, "lhs contracting"), (lb, lhs, "lhs batch"), (rc, rhs, "rhs contracting"), (rb, rhs,
        "rhs batch")):
        if any(not 0 <= d < len(x.shape) for d in dims):
            raise TypeError(f"{name} got {kind} dimensions {dims} for an operand of shape {tuple(x.shape)}")
    for lhs_dims, rhs_dims, kind in ((lc, rc, "contracting"), (lb, rb, "batch")):
        lhs_sizes, rhs_sizes = [lhs.shape[d] for d in lhs_dims], [rhs.shape[d] for d in rhs_dims]
        if lhs_sizes != rhs_sizes:
            raise TypeError(f"{name} requires {kind} dimensions of equal sizes in both operands, got {lhs_sizes} and "
                            f"{rhs_sizes}: shapes {tuple(lhs.shape)} and {tuple(rhs.shape)} with "
                            f"dimension_numbers={dimension_numbers}")
    return (lc, rc), (lb, rb)


def product_shape(lhs: Any, rhs: Any, numbers: tuple) -> tuple[int, ...]:
    (lc, rc), (lb, rb) = numbers
    return (*[lhs.shape[d] for d in lb], *[n for d, n in enumerate(lhs.shape) if d not in (*lc, *lb)],
            *[n for d, n in enumerate(rhs.shape) if d not in (*rc, *rb)])


def bcoo_dot_general(lhs: BCOO | Array, rhs: BCOO | Array, *, dimension_numbers: DimensionNumbers, precision: Any = None,
                     preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> BCOO | Array:
    """Multiply two arrays, either of which may be sparse, and sum over pairs of dimensions, like `lax.dot_general`.

    The result is sparse if both operands are. Dense dimensions cannot be contracted. Batch dimensions of the product must be
    batch
    dimensions of sparse operands.

    Args:
        lhs, rhs: BCOO or dense arrays.
        dimension_numbers: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`.
        precision: Precision of products of dense operands. Not used for sparse ones.
        preferred_element_type: dtype of the result.
        out_sharding: Sharding of a dense result over explicit mesh axes. No effect on a sparse result, as in JAX: its data and
            indices have their own shardings.

    Returns:
        BCOO array if both operands are sparse, else a dense array.

    Example:
        >>> sparse.bcoo_dot_general(sparse.eye(2), xnp.arange(2.), dimension_numbers=(((1,), (0,)), ((), ())))
        Array([0., 1.], dtype=float32)
    """
    if out_sharding is not None and not (isinstance(lhs, BCOO) and isinstance(rhs, BCOO)):
        return with_out_sharding("bcoo_dot_general", out_sharding, functools.partial(
            bcoo_dot_general, dimension_numbers=dimension_numbers, precision=precision,
            preferred_element_type=preferred_element_type), (lhs, rhs))
    numbers = canonical_dimension_numbers("bcoo_dot_general", lhs, rhs, dimension_numbers)
    (lc, rc), (lb, rb) = numbers
    element = None if preferred_element_type is None else np.dtype(preferred_element_type)
    if element is not None and element.kind != "b" and lhs.dtype.kind == rhs.dtype.kind == "b":  # Sum in the result's dtype.
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
        result = dot_general_p.bind(*rhs._bufs, lhs, dimension_numbers=((rc, lc), (rb, lb)), preferred_element_type=element,
                                   lhs_spinfo=rhs._info)
        # The free dimensions of rhs come first: move them behind those of lhs.
        batch, num_free = len(lb), rhs.ndim - len(rc) - len(rb)
        return result.transpose(*range(batch), *range(batch + num_free, result.ndim), *range(batch, batch + num_free))
    return lax.dot_general(lhs, rhs, numbers, precision=precision, preferred_element_type=element)


def _check_dot(mat: BCOO, contract: Sequence[int], batch: Sequence[int]) -> None:
    if any(d >= mat.n_batch + mat.n_sparse for d in contract):
        raise NotImplementedError(f"bcoo_dot_general cannot contract dense dimensions: {tuple(contract)} of an array of shape "
                                  f"{mat.shape} with n_dense={mat.n_dense}. Make them sparse with update_layout.")
    if any(d >= mat.n_batch for d in batch):
        raise NotImplementedError(f"bcoo_dot_general got batch dimensions {tuple(batch)} for a sparse operand of shape "
                                  f"{mat.shape} with n_batch={mat.n_batch}. Make them batch dimensions with update_layout.")


# Products of two sparse arrays


def _pairwise_products(lhs_data, lhs_indices, rhs_data, rhs_indices, *, lhs_shape, rhs_shape, contract, limit):
    """Return the products of all pairs of elements with equal contracted indices, as elements of an outer product."""
    (lhs_contract, rhs_contract) = contract
    dtype = xnp.promote_types(lhs_data.dtype, rhs_data.dtype)
    lhs_free = [d for d in range(len(lhs_shape)) if d not in lhs_contract]
    rhs_free = [d for d in range(len(rhs_shape)) if d not in rhs_contract]
    nse = len(lhs_indices) * len(rhs_indices)
    matches = positions.in_bounds(lhs_indices, lhs_shape)[:, None] & positions.in_bounds(rhs_indices, rhs_shape)[None]
    for lhs_dim, rhs_dim in zip(lhs_contract, rhs_contract):
        matches &= lhs_indices[:, None, lhs_dim] == rhs_indices[None, :, rhs_dim]
    index_dtype = xnp.promote_types(lhs_indices.dtype, rhs_indices.dtype)
    columns = [xnp.broadcast_to(column, matches.shape).reshape(nse) for column in (
        *[lhs_indices[:, None, d] for d in lhs_free], *[rhs_indices[None, :, d] for d in rhs_free])]
    shape = (*[lhs_shape[d] for d in lhs_free], *[rhs_shape[d] for d in rhs_free])
    data = lhs_data[:, None].astype(dtype) * rhs_data[None].astype(dtype)
    data, rows = positions.keep_where(matches.reshape(nse), data.reshape(nse), columns, shape, index_dtype)
    return positions.sum_groups(data, rows, shape, limit) if limit < nse else (data, rows)


def _spdot_general(lhs_data, lhs_indices, rhs_data, rhs_indices, *, lhs_spinfo, rhs_spinfo, dimension_numbers,
                   preferred_element_type):
    (lc, rc), (lb, rb) = dimension_numbers
    k, m = lhs_indices.ndim - 2, rhs_indices.ndim - 2
    lhs_shape, rhs_shape = lhs_spinfo.shape[k:], rhs_spinfo.shape[m:]
    contract = tuple(d - k for d in lc), tuple(d - m for d in rc)
    free = [n for d, n in enumerate(lhs_shape) if d not in contract[0]] + [
        n for d, n in enumerate(rhs_shape) if d not in contract[1]]
    limit = min(lhs_indices.shape[-2] * rhs_indices.shape[-2], math.prod(free))
    # Batch dimensions: common ones, those of lhs only, those of rhs only.
    lhs_only, rhs_only = [d for d in range(k) if d not in lb], [d for d in range(m) if d not in rb]

    def align(x, common, own, before, after):
        rank = x.ndim
        rest = range(len(common) + len(own), rank)
        x = x.transpose(*common, *own, *rest)
        return xnp.expand_dims(x, (*range(len(common), len(common) + before), *range(
            len(common) + before + len(own), len(common) + before + len(own) + after)))

    lhs = [align(x, lb, lhs_only, 0, len(rhs_only)) for x in (lhs_data, lhs_indices)]
    rhs = [align(x, rb, rhs_only, len(lhs_only), 0) for x in (rhs_data, rhs_indices)]

    def product(a, i, b, j):
        return _pairwise_products(a, i, b, j, lhs_shape=lhs_shape, rhs_shape=rhs_shape, contract=contract, limit=limit)

    data, indices = map_batches(product, len(lb) + len(lhs_only) + len(rhs_only))(*lhs, *rhs)
    return data if preferred_element_type is None else data.astype(preferred_element_type), indices


spdot_general_p = linear_primitive("bcoo_spdot_general", _spdot_general, (0, 2), multiple_results=True)


def _sparse_dot(lhs: BCOO, rhs: BCOO, numbers: tuple, element: Any) -> BCOO:
    (lc, rc), (lb, rb) = numbers
    if lhs.n_dense or rhs.n_dense:
        raise AssertionError("the product of two sparse arrays needs n_dense=0 in both, got "
                             f"{lhs.n_dense} and {rhs.n_dense}: make dense dimensions sparse with update_layout")
    if any(d >= lhs.n_batch for d in lb) or any(d >= rhs.n_batch for d in rb):
        raise NotImplementedError(f"the product of two sparse arrays got batch dimensions {lb} and {rb}, which must be batch "
                                  f"dimensions of the operands: n_batch={lhs.n_batch} and {rhs.n_batch}. Use update_layout.")
    if any(d < lhs.n_batch for d in lc) or any(d < rhs.n_batch for d in rc):
        raise NotImplementedError(f"the product of two sparse arrays cannot contract batch dimensions: got {lc} and {rc} with "
                                  f"n_batch={lhs.n_batch} and {rhs.n_batch}. Use update_layout.")
    num_rhs_only = rhs.n_batch - len(rb)
    if num_rhs_only and lhs.ndim - lhs.n_batch > len(lc):
        raise ValueError("the product of two sparse arrays cannot have batch dimensions of rhs only behind sparse dimensions "
                         f"of lhs: shapes {lhs.shape} and {rhs.shape} with dimension_numbers={numbers}")
    data, indices = spdot_general_p.bind(*lhs._bufs, *rhs._bufs, lhs_spinfo=SparseInfo(lhs.shape),
        rhs_spinfo=SparseInfo(rhs.shape),
                                         dimension_numbers=numbers, preferred_element_type=element)
    return BCOO((data, indices), shape=product_shape(lhs, rhs, numbers))


# Sampled products of dense arrays


_FEW = 4096  # Up to this many scalar products take less time than the start of a matrix product.


def _sampled(A, B, indices, *, dimension_numbers):
    (lc, rc), (lb, rb) = dimension_numbers
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    lhs_free, rhs_free = ([d for d in range(x.ndim) if d not in (*c, *b)] for x, c, b in ((A, lc, lb), (B, rc, rb)))
    dtype = xnp.promote_types(A.dtype, B.dtype)
    dense_shape = [x.shape[d] for x, dims in ((A, lhs_free), (B, rhs_free)) for d in dims]
    use_dense = positions.prefers_dense_product(indices.shape[-2], dense_shape, dtype, 50) and (
        is_symbolic(A.shape) or indices.shape[-2] * math.prod([A.shape[d] for d in lc]) > _FEW)
    if n_batch != len(lb) or n_sparse != len(lhs_free) + len(rhs_free) or use_dense:
        return _all_sampled(A, B, indices, dimension_numbers=dimension_numbers)
    A = _contiguous_rows(A.astype(dtype), (*lb, *lhs_free, *lc), lc)
    B = _contiguous_rows(B.astype(dtype), (*rb, *rhs_free, *rc), rc)

    def sample(a, b, i):
        rows, columns = positions.take_at(a, i[:, :len(lhs_free)], "clip"), positions.take_at(b, i[:, len(lhs_free):], "clip")
        values = (rows * columns).sum(tuple(range(1, rows.ndim)), dtype=dtype)
        return positions.zero_unless(positions.in_bounds(i, dense_shape), values)  # Cheap: one scalar for each position.

    return map_batches(sample, n_batch)(A, B, indices)


def _all_sampled(A, B, indices, *, dimension_numbers):
    product = lax.dot_general(A, B, dimension_numbers, precision=lax.Precision.HIGHEST)
    return extract_p.bind(indices, product, assume_unique=True)


def _sampled_for_transpose(index, avals, *, dimension_numbers):
    A, B, indices = avals
    shape = product_shape(A, B, dimension_numbers)
    return _all_sampled if positions.prefers_dense_product(math.prod(indices.shape[:-1]), shape, A.dtype, 20) else None


def _contiguous_rows(x: Array, order: tuple[int, ...], contracted: Sequence[int]) -> Array:
    """Transpose the array so that the contracted dimensions are last. Long rows are materialized, since they are read often."""
    transposed = x.transpose(order)
    if order == tuple(range(x.ndim)) or math.prod([x.shape[d] for d in contracted]) < 64:
        return transposed
    return lax.optimization_barrier(transposed)


dot_general_sampled_p = linear_primitive("bcoo_dot_general_sampled", _sampled, (0, 1), to_transpose=_sampled_for_transpose)


def bcoo_dot_general_sampled(A: Array, B: Array, indices: Array, *, dimension_numbers: DimensionNumbers) -> Array:
    """Compute elements of the product of two dense arrays at the indices of a sparse array, without the other elements.

    Args:
        A, B: Dense arrays.
        indices: Indices of a BCOO array with the shape of the product.
        dimension_numbers: `((A contracting, B contracting), (A batch, B batch))`.

    Returns:
        `data` of the BCOO array.

    Example:
        >>> x = xnp.arange(6.).reshape(2, 3)
        >>> sparse.bcoo_dot_general_sampled(x, x, xnp.array([[1, 1]]), dimension_numbers=(((1,), (1,)), ((), ()))).tolist()
        [50.0]
    """
    A, B, indices = xnp.asarray(A), xnp.asarray(B), xnp.asarray(indices)
    numbers = canonical_dimension_numbers("bcoo_dot_general_sampled", A, B, dimension_numbers)
    return dot_general_sampled_p.bind(A, B, indices, dimension_numbers=numbers)


# Elementwise products


def bcoo_multiply_dense(sp_mat: BCOO, v: ArrayLike) -> Array:
    """Multiply the elements of a sparse array by those of a dense one.

    Args:
        sp_mat: BCOO array.
        v: Dense array that broadcasts to the shape of `sp_mat`.

    Returns:
        `data` of the product, which has the indices of `sp_mat`.

    Example:
        >>> sparse.bcoo_multiply_dense(sparse.eye(2), xnp.array([3., 4.])).tolist()
        [3.0, 4.0]
    """
    v = xnp.asarray(v)
    if v.ndim == 0:
        return sp_mat.data * v
    return call_jitted(_multiply_dense, sp_mat, v)


def _multiply_dense(sp_mat: BCOO, v: Array) -> Array:
    data, indices = sp_mat._bufs
    shape, k, s = sp_mat.shape, sp_mat.n_batch, sp_mat.n_sparse
    if v.ndim > sp_mat.ndim or common_shape(shape, v.shape) != shape:
        raise NotImplementedError(f"a sparse array of shape {shape} cannot be multiplied by a dense array of shape {v.shape}, "
                                  "which does not broadcast to that shape: use todense()")
    v = v.reshape((1,) * (sp_mat.ndim - v.ndim) + v.shape)
    varying = [d for d in range(s) if v.shape[k + d] != 1]

    def multiply(d, i, w):  # Padding has value zero, so any factor will do.
        w = w.reshape([n for axis, n in enumerate(w.shape) if axis >= s or axis in varying])
        return d * positions.take_at(w, i if len(varying) == s else xnp.stack([i[:, n] for n in varying], -1), "clip")

    return map_batches(multiply, k)(data, indices, v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """Multiply two sparse arrays elementwise. Dimensions of size 1 broadcast.

    All pairs of stored elements are compared.

    Args:
        lhs, rhs: BCOO arrays with the same number of dimensions.

    Returns:
        BCOO array.

    Example:
        >>> sparse.bcoo_multiply_sparse(sparse.eye(2), sparse.eye(2)).todense().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return call_jitted(_multiply_sparse, lhs, rhs)


def _multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    if lhs.ndim != rhs.ndim:
        raise TypeError(f"bcoo_multiply_sparse needs arrays with the same number of dimensions, got shapes {lhs.shape} and "
                        f"{rhs.shape}")
    try:
        shape = common_shape(lhs.shape, rhs.shape)
    except ValueError:
        raise TypeError(f"bcoo_multiply_sparse needs shapes that broadcast, got {lhs.shape} and {rhs.shape}") from None
    k, dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    if lhs.n_dense != rhs.n_dense:
        lhs, rhs = (bcoo_update_layout(x, n_dense=dense) for x in (lhs, rhs))
    lhs, rhs = (bcoo_update_layout(x, n_batch=k) for x in (lhs, rhs))
    s = lhs.n_sparse
    lhs_shape, rhs_shape = lhs.shape[k:k + s], rhs.shape[k:k + s]
    out_shape = shape[k:k + s]
    index_dtype = xnp.promote_types(lhs.indices.dtype, rhs.indices.dtype)

    def multiply(a, i, b, j):
        matches = positions.in_bounds(i, lhs_shape)[:, None] & positions.in_bounds(j, rhs_shape)[None]
        columns, nse = [], len(i) * len(j)
        for d in range(s):
            if lhs_shape[d] == rhs_shape[d]:
                matches &= i[:, None, d] == j[None, :, d]
            column = i[:, None, d] if lhs_shape[d] == out_shape[d] else j[None, :, d]
            columns.append(xnp.broadcast_to(column, matches.shape).reshape(nse))
        data = a[:, None] * b[None]
        return positions.keep_where(matches.reshape(nse), data.reshape(nse, *data.shape[2:]), columns, out_shape, index_dtype)

    data, indices = map_batches(multiply, k)(*lhs._bufs, *rhs._bufs)
    return BCOO((data, indices), shape=shape)


# Convolutions


def bcoo_conv_general_dilated(lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: str | Sequence[tuple[int, int]],
                              lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
                              dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1,
                              precision: Any = None, preferred_element_type: DTypeLike | None = None,
                              out_sharding: Any = None) -> BCOO:
    """Convolve sparse arrays over one dimension, with one feature and batch size 1, like `lax.conv_general_dilated`.

    Args:
        lhs, rhs: Array and kernel, BCOO or dense.
        window_strides: Must be 1.
        padding: "SAME", "SAME_LOWER", "VALID" or a pair of amounts before and after.
        lhs_dilation, rhs_dilation: Must be 1 or None.
        dimension_numbers: Must be the default.
        feature_group_count, batch_group_count: Must be 1.
        precision: No effect: elements are multiplied in their dtype.
        preferred_element_type: dtype of the result.
        out_sharding: Checked against the shape of the result. No other effect, as in JAX: data and indices have their own
            shardings.

    Returns:
        BCOO array.

    Example:
        >>> x, kernel = (sparse.bcoo_fromdense(xnp.array([[v]])) for v in ([1., 0., 2.], [1., 3.]))
        >>> sparse.bcoo_conv_general_dilated(x, kernel, window_strides=(1,), padding="VALID").todense().tolist()
        [[[1.0, 6.0]]]
    """
    name = "bcoo_conv_general_dilated"
    lhs, rhs = (x if isinstance(x, BCOO) else BCOO.fromdense(x, nse=math.prod(np.shape(x))) for x in (lhs, rhs))
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise ValueError(f"{name} needs an array and a kernel with the same number of dimensions, got shapes {lhs.shape} and "
                         f"{rhs.shape}")
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    default = tuple(range(lhs.ndim))
    for value, supported, parameter in (
            (tuple(window_strides), (1,) * (lhs.ndim - 2), "window_strides"), (feature_group_count, 1, "feature_group_count"),
            (tuple(lhs_dilation or _spatial_ones(lhs)), _spatial_ones(lhs), "lhs_dilation"),
            (batch_group_count, 1, "batch_group_count"),
            (tuple(rhs_dilation or _spatial_ones(lhs)), _spatial_ones(lhs), "rhs_dilation"),
            (tuple(map(tuple, numbers)), (default,) * 3, "dimension_numbers")):
        if value != supported:
            raise NotImplementedError(f"{name} supports only {parameter}={supported}, got {value}")
    if lhs.ndim != 3:
        raise ValueError(f"{name} supports one spatial dimension, got {lhs.ndim - 2} in shapes {lhs.shape} and {rhs.shape}")
    lhs, rhs = (bcoo_update_layout(bcoo_update_layout(x, n_dense=0), n_batch=2) for x in (lhs, rhs))
    if lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1):
        raise NotImplementedError(f"{name} supports batch size 1 and one feature, got shapes {lhs.shape} and {rhs.shape}")
    [(before, after)] = lax.padtype_to_pads(lhs.shape[2:], rhs.shape[2:], (1,), padding) if isinstance(padding, str) else [
        tuple(map(int, pair)) for pair in padding]
    length = max(lhs.shape[2] + before + after - rhs.shape[2] + 1, 0)
    resolve_out_sharding(name, out_sharding, (1, 1, length))
    element = None if preferred_element_type is None else np.dtype(preferred_element_type)
    return call_jitted(_conv_1d, lhs, rhs, before=before, length=length, element=element)


def _conv_1d(lhs: BCOO, rhs: BCOO, *, before: int, length: int, element: Any) -> BCOO:
    size, kernel_size = lhs.shape[2], rhs.shape[2]

    def convolve(a, i, b, j):
        position = i[:, None, 0] - j[None, :, 0] + before
        in_range = positions.in_bounds(i, (size,))[:, None] & positions.in_bounds(j, (kernel_size,))[None]
        in_range &= (position >= 0) & (position < length)
        nse = len(i) * len(j)
        return positions.keep_where(in_range.reshape(nse), (a[:, None] * b[None]).reshape(nse), [position.reshape(nse)],
                                    (length,), i.dtype)

    data, indices = map_batches(convolve, 2)(*lhs._bufs, *rhs._bufs)
    return BCOO((data if element is None else data.astype(element), indices), shape=(1, 1, length))


def _spatial_ones(x: Any) -> tuple[int, ...]:
    return (1,) * (x.ndim - 2)


