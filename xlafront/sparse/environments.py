"""Sparse values as numbers of buffers in an environment: so libraries hold them that transform programs themselves."""

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

    - `shape`: its shape.
    - `data_ref`, `indices_ref`, `indptr_ref`: which buffers of the environment it consists of; None for those it does not have.
    - `indices_sorted`, `unique_indices`: what is known of its indices.
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
        """Whether it has indices."""
        return self.indices_ref is not None

    def is_dense(self) -> bool:
        """Whether it has none."""
        return self.indices_ref is None

    def is_bcoo(self) -> bool:
        """Whether it is a BCOO array."""
        return self.is_sparse() and self.indptr_ref is None

    def is_bcsr(self) -> bool:
        """Whether it is a BCSR array."""
        return self.is_sparse() and self.indptr_ref is not None


class SparsifyEnv:
    """The buffers of which dense and sparse values consist.

    - `bufs`: those that there are from the start.

    >>> env = transform.SparsifyEnv()
    >>> value = env.dense(xnp.ones(2))
    >>> env.data(value).tolist()
    [1.0, 1.0]
    """

    def __init__(self, bufs: Sequence[ArrayLike] = ()):
        self._buffers = list(bufs)

    def _push(self, buffer: ArrayLike) -> int:
        self._buffers.append(xnp.asarray(buffer))
        return len(self._buffers) - 1

    def _buffer(self, what: str, reference: int | None) -> Array:
        if reference is None:
            raise RuntimeError(f"the value has no {what}: its {what}_ref is None")
        return self._buffers[reference]

    def data(self, spvalue: SparsifyValue) -> Array:
        """The elements of a value.

        - `spvalue`: the value.
        """
        return self._buffer("data", spvalue.data_ref)

    def indices(self, spvalue: SparsifyValue) -> Array:
        """The indices of a sparse value.

        - `spvalue`: the value.
        """
        return self._buffer("indices", spvalue.indices_ref)

    def indptr(self, spvalue: SparsifyValue) -> Array:
        """Where the rows of a BCSR value begin.

        - `spvalue`: the value.
        """
        return self._buffer("indptr", spvalue.indptr_ref)

    def dense(self, data: ArrayLike) -> SparsifyValue:
        """A new dense value.

        - `data`: its elements.
        """
        return SparsifyValue(tuple(xnp.shape(data)), self._push(data))

    def sparse(self, shape: Sequence[int], data: Any = None, indices: Any = None, indptr: Any = None, *,
               data_ref: int | None = None, indices_ref: int | None = None, indptr_ref: int | None = None,
               indices_sorted: bool = False, unique_indices: bool = False) -> SparsifyValue:
        """A new sparse value, of buffers that are new or in the environment.

        - `shape`: its shape.
        - `data`, `indices`, `indptr`: new buffers.
        - `data_ref`, `indices_ref`, `indptr_ref`: or which of those that there are.
        - `indices_sorted`, `unique_indices`: what is known of its indices.
        """
        given = ((data, data_ref), (indices, indices_ref), (indptr, indptr_ref))
        first, second, third = [reference if buffer is None else self._push(buffer) for buffer, reference in given]
        return SparsifyValue(tuple(shape), first, second, third, indices_sorted, unique_indices)


def arrays_to_spvalues(spenv: SparsifyEnv, args: Any) -> Any:
    """Arrays, dense or sparse, as values of an environment.

    - `spenv`: the environment, which gets their buffers.
    - `args`: a pytree of arrays.

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
    """Values of an environment as the arrays that they are.

    - `spenv`: the environment.
    - `spvalues`: a pytree of `SparsifyValue`s.

    >>> env = transform.SparsifyEnv()
    >>> transform.spvalues_to_arrays(env, transform.arrays_to_spvalues(env, sparse.eye(2)))
    BCOO(float32[2, 2], nse=2)
    """
    def array(value: SparsifyValue) -> Any:
        if value.is_dense():
            return spenv.data(value)
        buffers = (spenv.data(value), spenv.indices(value))
        known = {"shape": value.shape, "indices_sorted": bool(value.indices_sorted),
                 "unique_indices": bool(value.unique_indices)}
        return BCOO(buffers, **known) if value.is_bcoo() else BCSR((*buffers, spenv.indptr(value)), **known)

    return tree.map(array, spvalues, is_leaf=_is_value)


def spvalues_to_avals(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """The types of values of an environment, as if they were dense.

    - `spenv`: the environment.
    - `spvalues`: a pytree of `SparsifyValue`s.

    >>> env = transform.SparsifyEnv()
    >>> print(transform.spvalues_to_avals(env, env.dense(xnp.ones(2))))
    float32[2]
    """
    def aval(value: SparsifyValue) -> ShapedArray:
        known = tracing.aval_of(spenv.data(value))
        return ShapedArray(value.shape, known.dtype, known.weak_type)

    return tree.map(aval, spvalues, is_leaf=_is_value)


def _is_value(x: Any) -> bool:
    return isinstance(x, SparsifyValue)


def sparsify_raw(f: Callable) -> Callable:
    """As `sparsify`, for values of an environment: `(env, *values)` to the flat values of the result and its structure.

    - `f`: a function of dense arrays.

    >>> env = transform.SparsifyEnv()
    >>> [value], structure = transform.sparsify_raw(lambda x: 2 * x)(env, transform.arrays_to_spvalues(env, sparse.eye(2)))
    >>> transform.spvalues_to_arrays(env, value)
    BCOO(float32[2, 2], nse=2)
    """
    def raw(spenv: SparsifyEnv, *spvalues: Any, **params: Any) -> tuple[list[SparsifyValue], Any]:
        found = sparsify(f)(*spvalues_to_arrays(spenv, spvalues), **params)
        leaves, structure = tree.flatten_tree(found, is_leaf=is_sparse)
        return [arrays_to_spvalues(spenv, x) for x in leaves], structure

    return raw
