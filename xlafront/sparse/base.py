"""Common parts of all sparse formats: the base class, layout information, and warnings about inefficient layouts."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from xlafront.core.typing import Array
from xlafront.symbolic.dimensions import is_symbolic_dim


class SparseEfficiencyError(ValueError):
    """Raised when a requested layout needs more memory than necessary; `on_inefficient` gives alternatives."""


class SparseEfficiencyWarning(UserWarning):
    """Warns that an operation on sparse arrays is slower, or takes more memory, than an alternative."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """Warns that cuSPARSE does not support an operation, which runs as gathers and scatters."""


class SparseInfo(NamedTuple):
    """Static information about a sparse array: its shape, and whether its indices are sorted and unique."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


def shape_of(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n if is_symbolic_dim(n) else int(n) for n in shape)


class JAXSparse(abc.ABC):
    """Base class of all sparse formats.

    A sparse array is a pytree: its arrays are leaves, its shape and the properties of its indices are static. Operations that a
    format does not define raise `NotImplementedError`.

    Args:
        args: Component arrays.
        shape: Shape of the array.
    """

    data: Array
    shape: tuple[int, ...]
    nse: Any
    dtype: Any
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, args: tuple[Array, ...], *, shape: Sequence[int]):
        self.shape = shape_of(shape)

    @property
    def size(self) -> int:
        """Number of elements of the array, stored or not."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array."""
        return len(self.shape)

    def __repr__(self):
        try:
            text = f"{type(self).__name__}({self._summary()})"
        except (AttributeError, TypeError, IndexError):  # Leaves need not be arrays while a pytree is rebuilt.
            return f"{type(self).__name__}(<invalid>)"
        kinds = {type(x).__name__ for x in self.tree_flatten()[0] if hasattr(x, "_trace")}
        return f"{kinds.pop()}[{text}]" if kinds else text

    def _summary(self) -> str:
        layout = "".join(f", {name}={value}" for name in ("n_batch", "n_dense") if (value := getattr(self, name, 0)))
        return f"{np.dtype(self.dtype).name}{list(self.shape)}, nse={self.nse}{layout}"

    def __len__(self):
        return self.shape[0]

    @abc.abstractmethod
    def tree_flatten(self) -> tuple[Any, dict[str, Any]]:
        """Return the component arrays and the static data."""

    @classmethod
    @abc.abstractmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Self:
        """Return the sparse array of these component arrays."""

    @abc.abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """Return the array with its dimensions permuted."""

    @abc.abstractmethod
    def todense(self) -> Array:
        """Return the equivalent dense array."""

    @property
    def T(self) -> Any:
        """The array with its dimensions reversed."""
        return self.transpose()

    def block_until_ready(self) -> Self:
        """Wait until the component arrays are computed, and return the sparse array."""
        for x in self.tree_flatten()[0]:
            x.block_until_ready()
        return self

    @classmethod
    def _bare(cls, **attributes: Any) -> Self:
        """Return an object with these attributes without checks: pytrees are rebuilt with arbitrary leaves."""
        result = object.__new__(cls)
        result.__dict__.update(attributes)
        return result

    def _undefined(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {name}: convert it to a BCOO array, which has more "
                                   "operations, or to a dense one with todense().")


def _undefined_method(name: str):
    def missing(self, *args, **kwargs):
        raise self._undefined(name)

    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = "Not defined by this format."
    return missing


for _name in ("sum", "__neg__", "__pos__", "__matmul__", "__rmatmul__", "__mul__", "__rmul__", "__add__", "__radd__", "__sub__",
              "__rsub__", "__getitem__"):
    setattr(JAXSparse, _name, _undefined_method(_name))


def check_index_dtype(name: str, indices: Any) -> None:
    if not np.issubdtype(indices.dtype, np.integer):
        raise AssertionError(f"{name} must be integers, got dtype {indices.dtype}")
