"""Dtypes whose elements are stored in one dtype and have derivatives in another, and arrays of extended dtypes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray, short_dtype
from xlafront.core.typing import DTypeLike
from xlafront.runtime.keys import KeyArray


class _EArrayMeta(type):
    """The instance check of `EArray`: all arrays of extended dtypes are of one class, also random keys."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, KeyArray) and not dtypes.issubdtype(instance.dtype, dtypes.prng_key)


class EArray(metaclass=_EArrayMeta):
    """An array of an extended dtype, other than random keys.

    Args:
        aval: Type of the array, a `ShapedArray`.
        data: Array of numbers in which the elements are stored.

    Example:
        >>> from xlafront.experimental import EArray, primal_tangent_dtype
        >>> kind = xf.core.ShapedArray((2,), primal_tangent_dtype("int8", "float32"))
        >>> EArray(kind, xnp.zeros(2, "int8")).dtype
        PrimalTangentDType{i8/f32}
    """

    def __new__(cls, aval: ShapedArray, data: Any) -> Any:
        return KeyArray(data, aval.dtype)


class primal_tangent_dtype_scalar(dtypes.extended):
    """The scalar type of `primal_tangent_dtype`s."""


class _Rules:
    """The functions that transformations and lowering need for such a dtype."""

    @staticmethod
    def physical_element_aval(dtype: PrimalTangentDType) -> ShapedArray:
        return ShapedArray((), dtype.primal_dtype)

    @staticmethod
    def tangent_dtype(dtype: PrimalTangentDType) -> np.dtype:
        return dtype.tangent_dtype

    @staticmethod
    def convert_from(new: PrimalTangentDType, old: Any) -> bool:
        return old == new.primal_dtype

    @staticmethod
    def convert_to(new: Any, old: PrimalTangentDType) -> bool:
        return new == old.primal_dtype


@dataclasses.dataclass(frozen=True, repr=False)
class PrimalTangentDType(dtypes.ExtendedDType):
    """The result of `primal_tangent_dtype`."""

    primal_dtype: np.dtype
    tangent_dtype: np.dtype
    name: str

    type = primal_tangent_dtype_scalar
    _rules = _Rules


def primal_tangent_dtype(primal_dtype: DTypeLike, tangent_dtype: DTypeLike, name: str | None = None) -> PrimalTangentDType:
    """Return a dtype whose elements are stored in one dtype and have derivatives in another.

    `lax.convert_element_type` converts between arrays of this dtype and of the storage dtype. Derivatives through the
    conversion are in the tangent dtype, so that functions of arrays of integers can be differentiated.

    Args:
        primal_dtype: dtype of the stored elements.
        tangent_dtype: dtype of derivatives.
        name: Name in messages. Default: composed of the two dtypes.

    Returns:
        The dtype.

    Example:
        >>> from xlafront.experimental import primal_tangent_dtype
        >>> half = primal_tangent_dtype("float32", "bfloat16")
        >>> def f(x):
        ...     return lax.convert_element_type(lax.convert_element_type(x, half), "float32").sum()
        >>> xf.grad(f)(xnp.ones(2))
        Array([1., 1.], dtype=float32)
    """
    primal, tangent = dtypes.dtype(primal_dtype), dtypes.dtype(tangent_dtype)
    if name is None:
        name = f"PrimalTangentDType{{{short_dtype(primal)}/{short_dtype(tangent)}}}"
    return PrimalTangentDType(primal, tangent, name)
