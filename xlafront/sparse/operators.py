"""The contents of `xlafront.experimental.sparse`, and the operators of sparse arrays, which are sparsified NumPy functions.

The operators need the functions of all formats, so the classes get them when everything is loaded: the public module loads this
file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlafront import numpy as xnp
from xlafront.api import vmappable_types
from xlafront.core.typing import Array, Axes, DTypeLike
from xlafront.sparse.base import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    JAXSparse as JAXSparse,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
)
from xlafront.sparse.bcoo import (
    BCOO as BCOO,
    dot_general_p as bcoo_dot_general_p,  # noqa: F401
    extract_p as bcoo_extract_p,  # noqa: F401
    fromdense_p as bcoo_fromdense_p,  # noqa: F401
    sort_indices_p as bcoo_sort_indices_p,  # noqa: F401
    sum_duplicates_p as bcoo_sum_duplicates_p,  # noqa: F401
    todense_p as bcoo_todense_p,  # noqa: F401
    transpose_p as bcoo_transpose_p,  # noqa: F401
)
from xlafront.sparse.bcoo_functions import (
    bcoo_broadcast_in_dim as bcoo_broadcast_in_dim,
    bcoo_concatenate as bcoo_concatenate,
    bcoo_dynamic_slice as bcoo_dynamic_slice,
    bcoo_extract as bcoo_extract,
    bcoo_fromdense as bcoo_fromdense,
    bcoo_gather as bcoo_gather,
    bcoo_reduce_sum as bcoo_reduce_sum,
    bcoo_reshape as bcoo_reshape,
    bcoo_rev as bcoo_rev,
    bcoo_slice as bcoo_slice,
    bcoo_sort_indices as bcoo_sort_indices,
    bcoo_squeeze as bcoo_squeeze,
    bcoo_sum_duplicates as bcoo_sum_duplicates,
    bcoo_todense as bcoo_todense,
    bcoo_transpose as bcoo_transpose,
    bcoo_update_layout as bcoo_update_layout,
)
from xlafront.sparse.bcoo_products import (
    bcoo_conv_general_dilated as bcoo_conv_general_dilated,
    bcoo_dot_general as bcoo_dot_general,
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
    bcoo_multiply_dense as bcoo_multiply_dense,
    bcoo_multiply_sparse as bcoo_multiply_sparse,
    dot_general_sampled_p as bcoo_dot_general_sampled_p,  # noqa: F401
    spdot_general_p as bcoo_spdot_general_p,  # noqa: F401
)
from xlafront.sparse.bcsr import (
    BCSR as BCSR,
    bcsr_broadcast_in_dim as bcsr_broadcast_in_dim,
    bcsr_concatenate as bcsr_concatenate,
    bcsr_dot_general as bcsr_dot_general,
    bcsr_extract as bcsr_extract,
    bcsr_fromdense as bcsr_fromdense,
    bcsr_sum_duplicates as bcsr_sum_duplicates,
    bcsr_todense as bcsr_todense,
    dot_general_p as bcsr_dot_general_p,  # noqa: F401
    extract_p as bcsr_extract_p,  # noqa: F401
    fromdense_p as bcsr_fromdense_p,  # noqa: F401
    todense_p as bcsr_todense_p,  # noqa: F401
)
from xlafront.sparse.creation import (
    empty as empty,
    eye as eye,
    random_bcoo as random_bcoo,
    todense as todense,
    todense_p as todense_p,
)
from xlafront.sparse.derivatives import (
    grad as grad,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
    value_and_grad as value_and_grad,
)
from xlafront.sparse.matrices import (
    COO as COO,
    CSC as CSC,
    CSR as CSR,
    coo_fromdense as coo_fromdense,
    coo_fromdense_p as coo_fromdense_p,
    coo_matmat as coo_matmat,
    coo_matmat_p as coo_matmat_p,
    coo_matvec as coo_matvec,
    coo_matvec_p as coo_matvec_p,
    coo_todense as coo_todense,
    coo_todense_p as coo_todense_p,
    csr_fromdense as csr_fromdense,
    csr_fromdense_p as csr_fromdense_p,
    csr_matmat as csr_matmat,
    csr_matmat_p as csr_matmat_p,
    csr_matvec as csr_matvec,
    csr_matvec_p as csr_matvec_p,
    csr_todense as csr_todense,
    csr_todense_p as csr_todense_p,
)
from xlafront.sparse.sparsify import SparseTracer as SparseTracer, sparsify as sparsify


def _method(name: str, function: Callable, doc: str) -> Callable:
    function.__name__ = name
    function.__qualname__ = f"BCOO.{name}"
    function.__doc__ = doc
    return function


def _binary(function: Callable, reflected: bool) -> Callable:
    sparse = sparsify(function)
    return (lambda self, other: sparse(other, self)) if reflected else (lambda self, other: sparse(self, other))


_BINARY = {"add": xnp.add, "sub": xnp.subtract, "mul": xnp.multiply, "truediv": xnp.true_divide}
_COMPARISONS: dict[str, Callable] = {"eq": xnp.equal, "ne": xnp.not_equal, "lt": xnp.less, "le": xnp.less_equal,
                                     "gt": xnp.greater, "ge": xnp.greater_equal}
_UNARY = {"neg": xnp.negative, "pos": xnp.positive, "abs": xnp.abs}


def _multiply(x: Any, y: Any) -> Any:
    """Multiply elementwise. A sparse operand that broadcasts is not repeated."""
    if not (isinstance(x, BCOO) and isinstance(y, BCOO)):
        sparse, dense = (x, y) if isinstance(x, BCOO) else (y, x)
        if isinstance(dense, Array) and 0 < dense.ndim <= sparse.ndim and all(
                size in (1, sparse_size) for size, sparse_size in zip(dense.shape[::-1], sparse.shape[::-1])):
            return sparse.with_data(bcoo_multiply_dense(sparse, dense))
        return sparsify(xnp.multiply)(x, y)
    rank = max(x.ndim, y.ndim)
    x, y = (z if z.ndim == rank else bcoo_broadcast_in_dim(
        z, shape=(1,) * (rank - z.ndim) + z.shape, broadcast_dimensions=range(rank - z.ndim, rank)) for z in (x, y))
    return bcoo_multiply_sparse(x, y)


for _name, _function in _BINARY.items():
    for _reflected in (False, True):
        _dunder = f"__{'r' * _reflected}{_name}__"
        setattr(BCOO, _dunder, _method(_dunder, _binary(_function, _reflected), f"Sparsified `numpy.{_function.__name__}`."))
for _name in ("__mul__", "__rmul__"):
    setattr(BCOO, _name, _method(_name, lambda self, other: _multiply(self, other), "Sparsified `numpy.multiply`."))
for _name, _function in _COMPARISONS.items():
    setattr(BCOO, f"__{_name}__", _method(f"__{_name}__", _binary(_function, False), "Raise: the result is not sparse."))
for _name, _function in _UNARY.items():
    setattr(BCOO, f"__{_name}__", _method(f"__{_name}__", sparsify(_function), f"Sparsified `numpy.{_function.__name__}`."))
BCOO.__hash__ = None  # type: ignore[assignment]


def _power(self: BCOO, exponent: Any) -> BCOO:
    return sparsify(lambda x: x ** exponent)(self)


def _reflected_power(self: BCOO, base: Any) -> BCOO:
    return sparsify(lambda x: base ** x)(self)


def _getitem(self: Any, index: Any) -> Any:
    return sparsify(lambda x: x[index])(self)


def _iter(self: BCOO) -> Iterator[BCOO]:
    if not self.ndim:
        raise TypeError("iteration over a 0-d sparse array")
    return iter([self[i] for i in range(self.shape[0])])


def _sum(self: BCOO, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False) -> Any:
    """Sum the elements over axes.

    Args:
        axis: Axis or axes to sum over. Default: all.
        dtype: dtype of the sum.
        out: Must be None.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        Sparse array, or a dense scalar.
    """
    result = sparsify(lambda x: xnp.sum(x, axis, dtype, out))(self)
    if not keepdims:
        return result
    axes = {a % self.ndim for a in (range(self.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,))}
    shape = [1 if d in axes else n for d, n in enumerate(self.shape)]
    if not isinstance(result, BCOO):
        return result.reshape(shape)
    return bcoo_broadcast_in_dim(result, shape=shape, broadcast_dimensions=[d for d in range(self.ndim) if d not in axes])


def _reshape(self: BCOO, *shape: Any) -> BCOO:
    """Return the array with another shape; see `bcoo_reshape`."""
    return sparsify(lambda x: x.reshape(*shape))(self)


def _update_layout(self: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
                   on_inefficient: str = "error") -> BCOO:
    """Return the array with other numbers of batch and dense dimensions; see `bcoo_update_layout`."""
    return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)


for _name, _member in {"__pow__": _power, "__rpow__": _reflected_power, "__getitem__": _getitem, "__iter__": _iter, "sum": _sum,
                       "reshape": _reshape, "update_layout": _update_layout}.items():
    setattr(BCOO, _name, _method(_name, _member, _member.__doc__ or ""))
for _class in (BCOO, BCSR):
    setattr(_class, "__matmul__", _binary(xnp.matmul, False))
    setattr(_class, "__rmatmul__", _binary(xnp.matmul, True))
setattr(BCSR, "__getitem__", lambda self, index: sparsify(lambda x: x[index])(self))
# NumPy arrays then defer binary operators to sparse arrays.
setattr(JAXSparse, "__array_ufunc__", None)


# vmap: the elements of a sparse array along one of its batch dimensions are sparse arrays.


def _element(x: Any, axis: int) -> Any:
    if not 0 <= axis <= x.n_batch:
        raise ValueError(f"vmap cannot map over axis {axis} of a {type(x).__name__} array of shape {x.shape}, of which only "
                         f"the first {x.n_batch + 1} dimensions are batch dimensions (n_batch). Change the layout with "
                         "update_layout.")
    return _with_shape(x, (*x.shape[:axis], *x.shape[axis + 1:]))


def _batch(x: Any, axis: int, size: int) -> Any:
    if not 0 <= axis < x.n_batch:
        raise ValueError(f"vmap cannot return a {type(x).__name__} array with n_batch={x.n_batch} along out_axes {axis}: "
                         "it must be a batch dimension")
    return _with_shape(x, (*x.shape[:axis], size, *x.shape[axis:]))


def _with_shape(x: Any, shape: Sequence[int]) -> Any:
    arrays, static = x.tree_flatten()
    return type(x).tree_unflatten(static | {"shape": tuple(shape)}, arrays)


for _class in (BCOO, BCSR):
    vmappable_types.register_batched_node(_class, _element, _batch)
