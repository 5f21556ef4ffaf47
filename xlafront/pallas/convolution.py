"""Convolutions in TPU kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront import lax
from xlafront.core.traceback_filter import boundary


@boundary
def conv(lhs: Any, rhs: Any, acc: Any = None, *, dimension_numbers: Any, window_strides: Sequence[int] | None = None,
         padding: Any = None, lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
         window_reversal: Sequence[bool] | None = None, feature_group_count: int = 1, batch_group_count: int = 1,
         precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Convolve two arrays. Compiled kernels have convolutions on TPUs, with jaxlib 0.12.

    Args:
        lhs, rhs: The array, and the kernel of the convolution.
        acc: Array to add. Default: nothing.
        dimension_numbers: Roles of the dimensions, as for `lax.conv_general_dilated`.
        window_strides: Distance of the windows in each spatial dimension. Default: 1.
        padding: Numbers of elements before and after, in each spatial dimension. Default: 0.
        lhs_dilation, rhs_dilation, feature_group_count, batch_group_count: As for `lax.conv_general_dilated`.
        window_reversal: Spatial dimensions along which the kernel is reversed.
        precision: Precision of the products.
        preferred_element_type: dtype of the sums.

    Returns:
        The convolution, plus `acc`.

    Example:
        >>> pl.tpu.conv(xnp.ones((1, 1, 4)), xnp.ones((1, 1, 2)), dimension_numbers=("NCH", "OIH", "NCH")).shape
        (1, 1, 3)
    """
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    spatial = numbers.rhs_spec[2:]
    if window_reversal is not None:
        rhs = lax.rev(rhs, [d for d, is_reversed in zip(spatial, window_reversal) if is_reversed])
    found = lax.conv_general_dilated(
        lhs, rhs, window_strides or (1,) * len(spatial), padding if padding is not None else ((0, 0),) * len(spatial),
        lhs_dilation, rhs_dilation, numbers, feature_group_count, batch_group_count, precision, preferred_element_type)
    return found if acc is None else acc + found
