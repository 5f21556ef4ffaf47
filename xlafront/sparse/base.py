"""What all sparse formats share: the class, what is known of a layout, and complaints about inefficient ones."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from xlafront.core.dimensions import is_symbolic_dim
from xlafront.core.typing import Array


class SparseEfficiencyError(ValueError):
    """A layout was asked for that takes more memory than it has to; `on_inefficient` says what to do instead."""


class SparseEfficiencyWarning(UserWarning):
    """An operation on sparse arrays is slower, or takes more memory, than another way to write it."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """An operation cannot be computed by cuSPARSE, and is by gathers and scatters."""


class SparseInfo(NamedTuple):
    """What is known of a sparse array besides its arrays: the shape, and what holds of its indices."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


def shape_of(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n if is_symbolic_dim(n) else int(n) for n in shape)


class JAXSparse(abc.ABC):
    """The base of all sparse formats.

    A sparse array is a pytree: its arrays are leaves, its shape and what is known of its indices are static. What a format does
    not define raises `NotImplementedError`.

    - `args`: the arrays that it consists of.
    - `shape`: of the array that it stands for.
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
        """How many elements the array has, stored or not."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """How many dimensions the array has."""
        return len(self.shape)

    def __repr__(self):
        try:
            text = f"{type(self).__name__}({self._summary()})"
        except (AttributeError, TypeError, IndexError):  # leaves need not be arrays while a pytree is rebuilt
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
        """The arrays that it consists of, and what is static."""

    @classmethod
    @abc.abstractmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Self:
        """The sparse array of these arrays."""

    @abc.abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its dimensions in another order."""

    @abc.abstractmethod
    def todense(self) -> Array:
        """The dense array that it stands for."""

    @property
    def T(self) -> Any:
        """The array with its dimensions reversed."""
        return self.transpose()

    def block_until_ready(self) -> Self:
        """Wait until its arrays are computed; the result is the sparse array itself."""
        for x in self.tree_flatten()[0]:
            x.block_until_ready()
        return self

    @classmethod
    def _bare(cls, **attributes: Any) -> Self:
        """An object with these attributes, which are not checked: pytrees are rebuilt of anything."""
        made = object.__new__(cls)
        made.__dict__.update(attributes)
        return made

    def _undefined(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {name}: make it a BCOO array, which has more operations, or "
                                   "a dense one with todense().")


def _without(name: str):
    def missing(self, *args, **kwargs):
        raise self._undefined(name)

    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = "Not defined by this format."
    return missing


for _name in ("sum", "__neg__", "__pos__", "__matmul__", "__rmatmul__", "__mul__", "__rmul__", "__add__", "__radd__", "__sub__",
              "__rsub__", "__getitem__"):
    setattr(JAXSparse, _name, _without(_name))


def check_index_dtype(name: str, indices: Any) -> None:
    if not np.issubdtype(indices.dtype, np.integer):
        raise AssertionError(f"{name} must be integers, got dtype {indices.dtype}")
