"""Products of consecutive groups of rows with a matrix for each group, as in mixtures of experts.

Blocks of rows that several groups share are multiplied by the matrix of each, with the other rows as zeros, as in MegaBlocks
(Gale et al., 2022). Sizes of groups are known at run time only: the first group and the number of groups in each block of rows
are scalars, by which the kernel selects the blocks of matrices. The matrices can be those of some consecutive groups only, as
where experts are sharded.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.kernels.reduction import Blocks, Reduction, dot, reduce_blocks
from xlafront.kernels.targets import Target, by_target
from xlafront.numpy.searching import searchsorted
from xlafront.pallas.kernel_functions import cdiv
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_vjp import custom_vjp


@dataclass(frozen=True)
class Options:
    """The static options of a product.

    Args:
        dtype: dtype of the result, by name.
        is_transposed: True if the matrices have the shape (groups, columns, rows).
        target: The compiler; None for that of the platform.
    """

    dtype: str
    is_transposed: bool = False
    target: Target | None = None


def group_offsets(sizes: Any, first_group: Any, count: int) -> Any:
    """Return the first row of each of `count` groups, and the end of the last. Groups beyond the last one are empty."""
    offsets = xnp.concatenate([xnp.zeros(1, np.int32), xnp.cumsum(sizes.astype(np.int32), dtype=np.int32)])
    return xnp.take(offsets, first_group + np.arange(count + 1, dtype=np.int32), mode="clip")


def _in_group(at: tuple, offsets: Any, group: Any, row_block: Any, x: Any) -> Any:
    """Replace the rows of a block that are not in a group by zeros."""
    rows = row_block * x.shape[0] + lax.broadcasted_iota(np.int32, x.shape, 0)
    return xnp.where((rows >= offsets[group]) & (rows < offsets[group + 1]), x, xnp.zeros((), x.dtype))


def _products(options: Options, target: Target, x: Any, y: Any, offsets: Any) -> Any:
    """Return the product of each row of `x` with the matrix of its group; zeros for rows of no group."""
    (rows, depth), groups = x.shape, len(y)
    columns = y.shape[1 if options.is_transposed else 2]
    m, n, k = (target.block(b, size) for b, size in zip(target.product(x.dtype.itemsize), (rows, columns, depth)))
    starts = np.arange(0, rows, m, dtype=np.int32)
    first = searchsorted(offsets[1:], starts, side="right").astype(np.int32)
    stop = searchsorted(offsets[:-1], xnp.minimum(starts + m, offsets[-1]), side="left").astype(np.int32)

    matrices = Blocks((None, k, n), lambda i, j, part, group, *_: (group, part, j), (0, 1))
    if options.is_transposed:
        matrices = Blocks((None, n, k), lambda i, j, part, group, *_: (group, j, part), (0, 2))

    def step(at, carry, x, y):
        i, _, _, group, offsets, *_ = at
        return (carry[0] + dot(_in_group(at, offsets, group, i, x), y, (1, 1 if options.is_transposed else 0)),)

    kernel = Reduction(
        name="grouped_matmul", grid=(cdiv(rows, m), cdiv(columns, n)), steps=(cdiv(depth, k), groups), step=step,
        finish=lambda at, carry, *_: carry, carry=[((m, n), np.float32, 0)],
        inputs=[Blocks((m, k), lambda i, j, part, group, *_: (i, part), (1,)), matrices],
        outputs=[Blocks((m, n), lambda i, j, *_: (i, j))],
        bounds=lambda i, j, offsets, first, stop: (first[i], stop[i]), span=xnp.maximum((stop - first).max(), 1))
    return reduce_blocks(target, kernel, [x, y], [ShapedArray((rows, columns), np.dtype(options.dtype))],
                         [offsets, first, stop])[0]


def _transposed_products(options: Options, target: Target, x: Any, dy: Any, offsets: Any) -> Any:
    """Return for each group the product of its rows of `x`, transposed, with its rows of `dy`."""
    (rows, depth), columns, groups = x.shape, dy.shape[1], len(offsets) - 1
    k, n, m = (target.block(b, size) for b, size in zip(target.product(x.dtype.itemsize), (depth, columns, rows)))
    first = offsets[:-1] // m
    stop = xnp.where(offsets[1:] > offsets[:-1], (offsets[1:] + (m - 1)) // m, first)

    def step(at, carry, x, dy):
        group, _, _, i, offsets, *_ = at
        return (carry[0] + dot(_in_group(at, offsets, group, i, x), dy, (0, 0)),)

    kernel = Reduction(
        name="grouped_matmul_gradient", grid=(groups, cdiv(depth, k), cdiv(columns, n)), steps=(cdiv(rows, m),), step=step,
        finish=lambda at, carry, *_: carry, carry=[((k, n), np.float32, 0)],
        inputs=[Blocks((m, k), lambda group, a, b, i, *_: (i, a), (0,)),
                Blocks((m, n), lambda group, a, b, i, *_: (i, b), (0,))],
        outputs=[Blocks((None, k, n), lambda group, a, b, *_: (group, a, b))],
        bounds=lambda group, a, b, offsets, first, stop: (first[group], stop[group]), span=xnp.maximum((stop - first).max(), 1))
    return reduce_blocks(target, kernel, [x, dy], [ShapedArray((groups, depth, columns), np.dtype(options.dtype))],
                         [offsets, first, stop])[0]


@library(static=("options",), name="grouped_matmul")
def _product_kernel(x, y, offsets, options):
    return by_target(functools.partial(_products, options), options.target, x, y, offsets)


@library(static=("options",), name="grouped_matmul_gradient")
def _transposed_product_kernel(x, dy, offsets, options):
    return by_target(functools.partial(_transposed_products, options), options.target, x, dy, offsets)


@functools.partial(custom_vjp, nondiff_argnums=(3,))
def multiply(x: Any, y: Any, offsets: Any, options: Options) -> Any:
    """Multiply groups of rows by matrices, with derivatives with respect to both."""
    return _product_kernel(x, y, offsets, options=options)


def _multiply_backward(options, residuals, dout):
    x, y, offsets = residuals
    dout = dout.astype(x.dtype)
    back = Options(x.dtype.name, not options.is_transposed, options.target)
    dx = _product_kernel(dout, y, offsets, options=back)
    left, right = (dout, x) if options.is_transposed else (x, dout)
    return dx, _transposed_product_kernel(left, right, offsets, options=Options(y.dtype.name, False, options.target)), None


multiply.defvjp(lambda x, y, offsets, options: (_product_kernel(x, y, offsets, options=options), (x, y, offsets)),
                _multiply_backward)


def grouped_matmul(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, *, preferred_element_type: DTypeLike | None = None,
                   transpose_rhs: bool = False, group_offset: ArrayLike | None = None) -> Array:
    """Multiply consecutive groups of rows by a matrix each, as layers of experts do.

    It computes the work of the rows alone, whatever the sizes of groups, and adds up in float32. Its gradients are such
    kernels, too.

    Args:
        lhs: Array of shape `(rows, depth)`, sorted by groups.
        rhs: Array of shape `(groups, depth, columns)`, of the dtype of `lhs`.
        group_sizes: Integers of shape `(groups,)`: the number of rows of each group, which may be 0.
        preferred_element_type: dtype of the result. Default: that of `lhs`.
        transpose_rhs: If True, `rhs` has the shape `(groups, columns, depth)`.
        group_offset: The first group that has a matrix in `rhs`, an integer scalar. `group_sizes` then has the sizes of all
            groups. Default: `rhs` has the matrices of all groups.

    Returns:
        Array of shape `(rows, columns)`; zeros for rows of no group in `rhs`.

    Example:
        >>> lhs, rhs = xnp.ones((5, 2)), xnp.array([[[1.0], [1.0]], [[2.0], [2.0]]])
        >>> kernels.grouped_matmul(lhs, rhs, xnp.array([2, 2])).T
        Array([[2., 2., 4., 4., 0.]], dtype=float32)
        >>> kernels.grouped_matmul(lhs, rhs, xnp.array([1, 2, 1, 1]), group_offset=1).T
        Array([[0., 2., 2., 4., 0.]], dtype=float32)
    """
    lhs, rhs, sizes = (xnp.asarray(x) for x in (lhs, rhs, group_sizes))
    first_group = xnp.asarray(0 if group_offset is None else group_offset)
    if lhs.ndim != 2 or rhs.ndim != 3 or lhs.shape[1] != rhs.shape[2 if transpose_rhs else 1] or sizes.ndim != 1 or (
            group_offset is None and len(sizes) != len(rhs) or 0 in (lhs.size, rhs.size)):
        raise ValueError(f"kernels.grouped_matmul got lhs {lhs.shape}, rhs {rhs.shape} and group_sizes {sizes.shape}. The "
                         f"shapes must be (rows, depth), (groups, depth, columns) and (groups,)."
                         f"{' (With transpose_rhs, rhs is (groups, columns, depth).)' if transpose_rhs else ''}")
    if lhs.dtype != rhs.dtype or not dtypes.is_float(lhs.dtype) or lhs.dtype.itemsize > 4 or not dtypes.is_integer(sizes.dtype):
        raise ValueError(f"kernels.grouped_matmul needs lhs and rhs of one floating-point dtype of at most 32 bits, and "
                         f"group_sizes of integers; got {lhs.dtype}, {rhs.dtype} and {sizes.dtype}. Convert them with astype.")
    if first_group.ndim or not dtypes.is_integer(first_group.dtype):
        raise ValueError(f"kernels.grouped_matmul takes an integer scalar as group_offset, got {tracing.aval_of(first_group)}.")
    dtype = lhs.dtype if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type)
    offsets = group_offsets(sizes, first_group.astype(np.int32), len(rhs))
    return multiply(lhs, rhs, offsets, Options(np.dtype(dtype).name, bool(transpose_rhs)))
