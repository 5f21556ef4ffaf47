"""Sparse values as references to buffers in an environment, for libraries that transform jaxprs themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront import numpy as xnp
from xlafront.core import tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array, ArrayLike
from xlafront.sparse.bcoo import BCOO
from xlafront.sparse.bcsr import BCSR
from xlafront.sparse.sparsify import sparsify
from xlafront.sparse.sparsify_rules import is_sparse

__all__ = ["SparsifyEnv", "SparsifyValue", "arrays_to_spvalues", "sparsify_raw", "spvalues_to_arrays", "spvalues_to_avals"]


class SparsifyValue(NamedTuple):
    """A dense or sparse value in a `SparsifyEnv`.

    Args:
        shape: Shape of the value.
        data_ref, indices_ref, indptr_ref: Indices of its buffers in the environment, or None.
        indices_sorted: True if the indices are sorted.
        unique_indices: True if the indices are unique.
    """

    shape: tuple[int, ...]
    data_ref: int | None
    indices_ref: int | None = None
    indptr_ref: int | None = None
    indices_sorted: bool | None = False
    unique_indices: bool | None = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def is_sparse(self) -> bool:
        """True if the value has indices."""
        return self.indices_ref is not None

    def is_dense(self) -> bool:
        """True if the value has no indices."""
        return self.indices_ref is None

    def is_bcoo(self) -> bool:
        """True if the value is a BCOO array."""
        return self.is_sparse() and self.indptr_ref is None

    def is_bcsr(self) -> bool:
        """True if the value is a BCSR array."""
        return self.is_sparse() and self.indptr_ref is not None


class SparsifyEnv:
    """The buffers of dense and sparse values.

    Args:
        bufs: Initial buffers.

    Example:
        >>> env = transform.SparsifyEnv()
        >>> value = env.dense(xnp.ones(2))
        >>> env.data(value).tolist()
        [1.0, 1.0]
    """

    def __init__(self, bufs: Sequence[ArrayLike] = ()):
        self._buffers: list[Any] = list(bufs)

    def _push(self, buffer: ArrayLike) -> int:
        self._buffers.append(xnp.asarray(buffer))
        return len(self._buffers) - 1

    def _buffer(self, name: str, reference: int | None) -> Array:
        if reference is None:
            raise RuntimeError(f"the value has no {name}: its {name}_ref is None")
        return self._buffers[reference]

    def data(self, spvalue: SparsifyValue) -> Array:
        """Return the elements of a value.

        Args:
            spvalue: The value.
        """
        return self._buffer("data", spvalue.data_ref)

    def indices(self, spvalue: SparsifyValue) -> Array:
        """Return the indices of a sparse value.

        Args:
            spvalue: The value.
        """
        return self._buffer("indices", spvalue.indices_ref)

    def indptr(self, spvalue: SparsifyValue) -> Array:
        """Return the row starts of a BCSR value.

        Args:
            spvalue: The value.
        """
        return self._buffer("indptr", spvalue.indptr_ref)

    def dense(self, data: ArrayLike) -> SparsifyValue:
        """Add a dense value.

        Args:
            data: Elements of the value.
        """
        return SparsifyValue(tuple(xnp.shape(data)), self._push(data))

    def sparse(self, shape: Sequence[int], data: Any = None, indices: Any = None, indptr: Any = None, *,
               data_ref: int | None = None, indices_ref: int | None = None, indptr_ref: int | None = None,
               indices_sorted: bool = False, unique_indices: bool = False) -> SparsifyValue:
        """Add a sparse value, of new buffers or buffers of the environment.

        Args:
            shape: Shape of the value.
            data, indices, indptr: New buffers.
            data_ref, indices_ref, indptr_ref: Indices of existing buffers, used where no new one is passed.
            indices_sorted: True if the indices are sorted.
            unique_indices: True if the indices are unique.
        """
        buffers = ((data, data_ref), (indices, indices_ref), (indptr, indptr_ref))
        first, second, third = [reference if buffer is None else self._push(buffer) for buffer, reference in buffers]
        return SparsifyValue(tuple(shape), first, second, third, indices_sorted, unique_indices)


def arrays_to_spvalues(spenv: SparsifyEnv, args: Any) -> Any:
    """Convert dense or sparse arrays to values of an environment.

    Args:
        spenv: Environment to which the buffers are added.
        args: Pytree of arrays.

    Returns:
        Pytree of `SparsifyValue`s.

    Example:
        >>> transform.arrays_to_spvalues(transform.SparsifyEnv(), sparse.eye(2)).data_ref
        0
    """
    def value(x: Any) -> SparsifyValue:
        if isinstance(x, BCOO):
            return spenv.sparse(x.shape, x.data, x.indices, indices_sorted=x.indices_sorted, unique_indices=x.unique_indices)
        if isinstance(x, BCSR):
            return spenv.sparse(x.shape, x.data, x.indices, x.indptr, indices_sorted=x.indices_sorted,
                                unique_indices=x.unique_indices)
        return spenv.dense(x)

    return tree.map(value, args, is_leaf=is_sparse)


def spvalues_to_arrays(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """Convert values of an environment to arrays.

    Args:
        spenv: Environment.
        spvalues: Pytree of `SparsifyValue`s.

    Returns:
        Pytree of arrays.

    Example:
        >>> env = transform.SparsifyEnv()
        >>> transform.spvalues_to_arrays(env, transform.arrays_to_spvalues(env, sparse.eye(2)))
        BCOO(float32[2, 2], nse=2)
    """
    def array(value: SparsifyValue) -> Any:
        if value.is_dense():
            return spenv.data(value)
        buffers = (spenv.data(value), spenv.indices(value))
        static = {"shape": value.shape, "indices_sorted": bool(value.indices_sorted),
                 "unique_indices": bool(value.unique_indices)}
        return BCOO(buffers, **static) if value.is_bcoo() else BCSR((*buffers, spenv.indptr(value)), **static)

    return tree.map(array, spvalues, is_leaf=_is_value)


def spvalues_to_avals(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """Return the types of values of an environment, as dense arrays.

    Args:
        spenv: Environment.
        spvalues: Pytree of `SparsifyValue`s.

    Returns:
        Pytree of types.

    Example:
        >>> env = transform.SparsifyEnv()
        >>> print(transform.spvalues_to_avals(env, env.dense(xnp.ones(2))))
        float32[2]
    """
    def aval(value: SparsifyValue) -> ShapedArray:
        data_aval = tracing.aval_of(spenv.data(value))
        return ShapedArray(value.shape, data_aval.dtype, data_aval.weak_type)

    return tree.map(aval, spvalues, is_leaf=_is_value)


def _is_value(x: Any) -> bool:
    return isinstance(x, SparsifyValue)


def sparsify_raw(f: Callable) -> Callable:
    """Make a function of values of an environment, like `sparsify` for arrays.

    Args:
        f: Function of dense arrays.

    Returns:
        Function of `(env, *values)` that returns the flat values of the result and its tree structure.

    Example:
        >>> env = transform.SparsifyEnv()
        >>> [value], structure = transform.sparsify_raw(lambda x: 2 * x)(env, transform.arrays_to_spvalues(env, sparse.eye(2)))
        >>> transform.spvalues_to_arrays(env, value)
        BCOO(float32[2, 2], nse=2)
    """
    def raw(spenv: SparsifyEnv, *spvalues: Any, **params: Any) -> tuple[list[SparsifyValue], Any]:
        results = sparsify(f)(*spvalues_to_arrays(spenv, spvalues), **params)
        leaves, structure = tree.flatten_tree(results, is_leaf=is_sparse)
        return [arrays_to_spvalues(spenv, x) for x in leaves], structure

    return raw
