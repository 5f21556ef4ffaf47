"""Sparse rules: a table from names of primitives to functions that evaluate them on BCOO and BCSR arrays.

A primitive whose result would not be sparse raises an error: arrays become dense only on explicit request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import numpy as xnp
from xlafront.core import dtypes
from xlafront.core.typing import Array
from xlafront.sparse import bcoo_functions as functions, bcoo_products as products, bcsr
from xlafront.sparse.base import JAXSparse
from xlafront.sparse.bcoo import BCOO
from xlafront.sparse.bcsr import BCSR
from xlafront.sparse.positions import add_at
from xlafront.symbolic.dimensions import common_shape

Rule = Callable[..., Any]

# Primitives with f(0) = 0. Linear ones need no sum of values with equal indices first.
LINEAR = frozenset("neg real imag copy convert_element_type reduce_precision conj".split())
ZERO_PRESERVING = frozenset(
    "abs asin asinh atan atanh bessel_i1e cbrt ceil expm1 floor log1p relu round sign sin sinh sqrt square tan tanh".split())
# Primitives with f(0) != 0, for the error message.
DENSE = frozenset("acos acosh cos cosh digamma eq erfc exp exp2 ge gt is_finite le lgamma log logistic lt ne rsqrt".split())
DENSE_MESSAGE = "because it would result in dense output. To get dense output, use sparse.todense()"


def is_sparse(x: Any) -> bool:
    return isinstance(x, (BCOO, BCSR))


def _unique(x: Any) -> Any:
    return x if x.unique_indices else _sum_duplicates(x)


def _sum_duplicates(x: Any) -> Any:
    if isinstance(x, BCSR):
        return BCSR.from_bcoo(_sum_duplicates(x.to_bcoo()))
    return functions.bcoo_sum_duplicates(x, nse=x.nse)


def _with_data(x: Any, data: Array) -> Any:
    if isinstance(x, BCOO):
        return x.with_data(data)
    return BCSR((data, x.indices, x.indptr), shape=x.shape, indices_sorted=x.indices_sorted, unique_indices=x.unique_indices)


def _elementwise(primitive: Any, x: Any, **params: Any) -> Any:
    if primitive.name not in LINEAR:
        x = _unique(x)
    return _with_data(x, primitive.bind(x.data, **params))


def _integer_pow(primitive: Any, x: Any, *, y: int) -> Any:
    if y <= 0:
        raise NotImplementedError(f"sparse rule for integer_pow with exponent {y} is not implemented, {DENSE_MESSAGE}")
    return _elementwise(primitive, x, y=y)


# Arithmetic of two operands


def _same_indices(x: Any, y: Any) -> bool:
    """True if both have the indices of the same argument of the function."""
    return x.origin is not None and x.origin is y.origin


def _add(primitive: Any, x: Any, y: Any) -> Any:
    if is_sparse(x) and is_sparse(y):
        if x.shape != y.shape:
            raise NotImplementedError(f"addition of two sparse arrays needs equal shapes: {primitive.name} got {x.shape} and "
                                      f"{y.shape}")
        if _same_indices(x, y):
            return x.with_data(primitive.bind(x.data, y.data))
        if (x.n_batch, x.n_dense) != (y.n_batch, y.n_dense):
            raise NotImplementedError(f"addition of two sparse arrays needs equal numbers of batch and dense dimensions: "
                                      f"{primitive.name} got n_batch={x.n_batch}, n_dense={x.n_dense} and "
                                      f"n_batch={y.n_batch}, n_dense={y.n_dense}. Use update_layout.")
        other = y.data if primitive.name.startswith("add") else -y.data
        k = x.n_batch
        data, indices = (xnp.concatenate(functions.common_batch(pair, k), k)
                         for pair in ((x.data, other), (x.indices, y.indices)))
        return BCOO((data, indices), shape=x.shape)
    dense = y if is_sparse(x) else x
    sparse = x if is_sparse(x) else y
    shape = common_shape(np.shape(dense), sparse.shape)
    if np.shape(dense) != shape:
        raise NotImplementedError(f"addition of a sparse array to a smaller dense array is not implemented, {DENSE_MESSAGE}: "
                                  f"{primitive.name} got shapes {sparse.shape} and {np.shape(dense)}")
    if primitive.name.startswith("sub") and sparse is y:
        sparse = y.with_data(-y.data)
    elif primitive.name.startswith("sub"):
        dense = -dense
    if not sparse.n_batch and sparse.shape == shape:
        return dense + add_at(shape, sparse.indices, sparse.data)
    return dense + sparse.todense()


def _mul(primitive: Any, x: Any, y: Any, **params: Any) -> Any:
    if is_sparse(x) and is_sparse(y):
        if _same_indices(x, y) and x.unique_indices:
            return x.with_data(primitive.bind(x.data, y.data))
        return products.bcoo_multiply_sparse(x, y)
    sparse, dense = (x, y) if is_sparse(x) else (y, x)
    return sparse.with_data(products.bcoo_multiply_dense(sparse, dense))


def _div(primitive: Any, x: Any, y: Any) -> Any:
    if is_sparse(y):
        raise NotImplementedError(f"Division by a sparse array is not implemented {DENSE_MESSAGE}")
    y = xnp.asarray(y)
    if y.ndim == 0:
        return x.with_data(primitive.bind(x.data, y))
    if not dtypes.is_inexact(x.dtype):
        raise TypeError(f"{primitive.name} of a sparse array of dtype {x.dtype} multiplies by the reciprocals of a dense "
                        f"array, and integers have none. Convert the arrays with astype(float).")
    return x.with_data(products.bcoo_multiply_dense(x, 1 / y))


# Primitives that correspond to a function of sparse arrays


def _transpose(primitive: Any, x: Any, *, permutation: Sequence[int]) -> Any:
    return x.transpose(permutation)


def _reduce_sum(primitive: Any, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    result = functions.bcoo_reduce_sum(x, axes=axes)
    return result.todense() if result.ndim == 0 else result


def _concatenate(primitive: Any, *operands: Any, dimension: int) -> Any:
    return functions.bcoo_concatenate(operands, dimension=dimension)


def _stack(primitive: Any, *operands: Any, axis: int) -> Any:
    def expand(x):
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return functions.bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=[
            d + (d >= axis) for d in range(x.ndim)])

    if not all(map(is_sparse, operands)):
        raise ValueError("sparse rule for stack of sparse and dense arrays is not implemented: make all of them sparse")
    return functions.bcoo_concatenate([expand(x) for x in operands], dimension=axis)


def _roll(primitive: Any, x: Any, *, shift: int, dimension: int) -> Any:
    n = x.shape[dimension]
    boundary = (-shift) % n if n else 0

    def slice_between(start, stop):
        starts, limits = [0] * x.ndim, list(x.shape)
        starts[dimension], limits[dimension] = start, stop
        return functions.bcoo_slice(x, start_indices=starts, limit_indices=limits)

    if not boundary:
        return x
    return functions.bcoo_concatenate([slice_between(boundary, n), slice_between(0, boundary)], dimension=dimension)


def _split(primitive: Any, x: Any, *, sizes: Sequence[int], axis: int) -> Any:
    bounds = np.cumsum([0, *sizes])
    slices = []
    for start, stop in zip(bounds[:-1], bounds[1:]):
        starts, limits = [0] * x.ndim, list(x.shape)
        starts[axis], limits[axis] = int(start), int(stop)
        slices.append(functions.bcoo_slice(x, start_indices=starts, limit_indices=limits))
    return slices


def _unstack(primitive: Any, x: Any, *, axis: int) -> Any:
    n = x.shape[axis]
    return [functions.bcoo_squeeze(sliced, dimensions=(axis,)) for sliced in _split(primitive, x, sizes=[1] * n, axis=axis)]


def _dynamic_slice(primitive: Any, x: Any, *starts: Any, slice_sizes: Sequence[int]) -> Any:
    return functions.bcoo_dynamic_slice(x, starts, slice_sizes)


def _gather(primitive: Any, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Sequence[int], mode: Any,
            **_: Any) -> Any:
    return functions.bcoo_gather(x, indices, dimension_numbers, slice_sizes, mode=mode)


def _conv(primitive: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
    return products.bcoo_conv_general_dilated(lhs, rhs, **params)


def _dot_general(primitive: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
    return products.bcoo_dot_general(lhs, rhs, **params)


def _broadcast_in_dim(primitive: Any, x: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                      **params: Any) -> BCOO:
    """Broadcast an array. If sparse dimensions are enlarged, their elements are stored once for each index."""
    k = x.n_batch
    enlarged = [broadcast_dimensions[k + d] for d in range(x.n_sparse) if x.shape[k + d] != shape[broadcast_dimensions[k + d]]]
    reduced_shape = tuple(1 if d in enlarged else n for d, n in enumerate(shape))
    x = functions.bcoo_broadcast_in_dim(x, shape=reduced_shape, broadcast_dimensions=broadcast_dimensions, **params)
    for d in enlarged:
        x = functions.bcoo_concatenate([x] * shape[d], dimension=d)
    return x


def _rule_from(function: Callable) -> Rule:
    return lambda primitive, x, **params: function(x, **params)


def _todense(primitive: Any, x: Any, **_: Any) -> Array:
    return x.todense() if isinstance(x, JAXSparse) else x


BCOO_RULES: dict[str, Rule] = {
    **dict.fromkeys((*LINEAR, *ZERO_PRESERVING), _elementwise),
    "integer_pow": _integer_pow, "add": _add, "add_any": _add, "sub": _add, "mul": _mul, "div": _div, "transpose": _transpose,
    "reduce_sum": _reduce_sum, "concatenate": _concatenate, "stack": _stack, "roll": _roll, "split": _split,
    "unstack": _unstack, "dynamic_slice": _dynamic_slice, "gather": _gather, "conv_general_dilated": _conv,
    "dot_general": _dot_general,
    "broadcast_in_dim": _broadcast_in_dim, "reshape": _rule_from(functions.bcoo_reshape),
    "slice": _rule_from(functions.bcoo_slice), "squeeze": _rule_from(functions.bcoo_squeeze),
    "rev": lambda primitive, x, *, dimensions: functions.bcoo_rev(x, dimensions), "todense": _todense,
}
BCSR_RULES: dict[str, Rule] = {
    **dict.fromkeys((*LINEAR, *ZERO_PRESERVING), _elementwise), "integer_pow": _integer_pow, "todense": _todense,
    "dot_general": lambda primitive, lhs, rhs, **params: bcsr.bcsr_dot_general(lhs, rhs, **params),
    "broadcast_in_dim": _rule_from(bcsr.bcsr_broadcast_in_dim),
    "reshape": lambda primitive, x, **params: BCSR.from_bcoo(functions.bcoo_reshape(x.to_bcoo(), **params)),
    "concatenate": lambda primitive, *operands, dimension: bcsr.bcsr_concatenate(operands, dimension=dimension),
}


def rule_for(primitive: Any, operands: Sequence[Any]) -> Rule:
    """Return the rule of a primitive for operands of which some are sparse."""
    table = BCSR_RULES if any(isinstance(x, BCSR) for x in operands) else BCOO_RULES
    rule = table.get(primitive.name)
    if rule is None:
        reason = f" {DENSE_MESSAGE}" if primitive.name in DENSE else ""
        raise NotImplementedError(f"sparse rule for {primitive.name} is not implemented{reason}")
    return rule

