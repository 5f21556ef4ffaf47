"""Dtypes whose elements are stored as numbers of one dtype and have derivatives of another, and arrays of extended dtypes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray, short_dtype
from xlafront.core.keys import KeyArray
from xlafront.core.typing import DTypeLike


class _EArrayMeta(type):
    """Arrays of extended dtypes are of one class, in which random keys are too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, KeyArray) and not dtypes.issubdtype(instance.dtype, dtypes.prng_key)


class EArray(metaclass=_EArrayMeta):
    """An array of an extended dtype, other than random keys.

    - `aval`: its type, a `ShapedArray`.
    - `data`: the array of numbers in which its elements are stored.

    >>> from xlafront.experimental import EArray, primal_tangent_dtype
    >>> kind = xf.core.ShapedArray((2,), primal_tangent_dtype("int8", "float32"))
    >>> EArray(kind, xnp.zeros(2, "int8")).dtype
    PrimalTangentDType{i8/f32}
    """

    def __new__(cls, aval: ShapedArray, data: Any) -> Any:
        return KeyArray(data, aval.dtype)


class primal_tangent_dtype_scalar(dtypes.extended):
    """The kind of the elements of a `primal_tangent_dtype`."""


class _Rules:
    """What transformations and programs ask of such a dtype."""

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
    """What `primal_tangent_dtype` makes."""

    primal_dtype: np.dtype
    tangent_dtype: np.dtype
    name: str

    type = primal_tangent_dtype_scalar
    _rules = _Rules


def primal_tangent_dtype(primal_dtype: DTypeLike, tangent_dtype: DTypeLike, name: str | None = None) -> PrimalTangentDType:
    """A dtype whose elements are stored as one dtype and have derivatives of another.

    `lax.convert_element_type` makes arrays of it of those that store it, and the other way. As derivatives through such a
    conversion are of the second dtype, it may be an integer's that is differentiated with respect to.

    - `primal_dtype`: in which elements are stored.
    - `tangent_dtype`: of derivatives.
    - `name`: for messages, made of the two when left out.

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
