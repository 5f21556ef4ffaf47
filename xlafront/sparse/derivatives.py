"""Derivatives with respect to the values of sparse arrays: gradients have the layout of what they are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tree
from xlafront.core.traceback_filter import boundary
from xlafront.core.wrapping import wraps
from xlafront.sparse.base import JAXSparse
from xlafront.sparse.bcoo import BCOO
from xlafront.sparse.bcsr import BCSR
from xlafront.sparse.operations import broadcast_to_batch
from xlafront.transforms.ad import derivatives, jacobians


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _values(arguments: Any) -> tuple[list[Any], list[Any], Any]:
    """The arrays with respect to which to differentiate: values of sparse arrays, and dense arrays as they are."""
    leaves, structure = tree.flatten_tree(arguments, is_leaf=_is_sparse)
    return [x.data if _is_sparse(x) else x for x in leaves], leaves, structure


def _with_values(x: Any, data: Any) -> Any:
    if not _is_sparse(x):
        return data
    (_, *indices), static = x.tree_flatten()
    return type(x).tree_unflatten(static, (data, *indices))


def _of_values(transform: Callable, fun: Callable, argnums: Any, has_aux: bool, kwargs: dict[str, Any], rebuild: Callable,
               check: Callable = lambda out: out) -> Callable:
    """A transformation of a function applied to what it does to values; `rebuild` makes of each derivative one that is
    sparse."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @wraps(fun)
    def transformed(*args, **kwds):
        count = len(args)
        at = tuple(n % count if -count <= n < count else n for n in numbers)
        if any(not 0 <= n < count for n in at):
            raise ValueError(f"argnums={argnums} needs more positional arguments than the {count} that were given")
        values, leaves, structure = _values([args[n] for n in at])

        def of_values(*data):
            inner = list(args)
            rebuilt = tree.unflatten(structure, [_with_values(x, d) for x, d in zip(leaves, data)])
            for n, x in zip(at, rebuilt):
                inner[n] = x
            return check(fun(*inner, **kwds))

        found = transform(of_values, argnums=tuple(range(len(values))), has_aux=has_aux, **kwargs)(*values)

        def arranged(derivative):
            parts = tree.unflatten(structure, [rebuild(x, d) for x, d in zip(leaves, derivative)])
            return parts[0] if isinstance(argnums, int) else tuple(parts)

        return found, arranged

    return transformed


@boundary
def value_and_grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable:
    """The value of a function together with its gradient, with respect to arguments that may be sparse.

    The gradient of a sparse array is one with the same indices: that of its values.

    - `fun`: the function, which returns a number.
    - `argnums`: the number of the argument, or several.
    - `has_aux`: whether `fun` returns a pair, of which the second part is not differentiated.
    - `kwargs`: more options of `xlafront.value_and_grad`.

    >>> value, gradient = sparse.value_and_grad(lambda mat: (mat @ xnp.ones(2)).sum())(sparse.eye(2))
    >>> gradient
    BCOO(float32[2, 2], nse=2)
    """
    transformed = _of_values(derivatives.value_and_grad, fun, argnums, has_aux, kwargs, _with_values)

    @wraps(fun)
    def with_gradient(*args, **kwds):
        (value, gradient), arranged = transformed(*args, **kwds)
        return value, arranged(gradient)

    return with_gradient


@boundary
def grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable:
    """The gradient of a function, with respect to arguments that may be sparse.

    The gradient of a sparse array is one with the same indices: that of its values.

    - `fun`: the function, which returns a number.
    - `argnums`: the number of the argument, or several.
    - `has_aux`: whether `fun` returns a pair, of which the second part is not differentiated.
    - `kwargs`: more options of `xlafront.grad`.

    >>> sparse.grad(lambda mat: (mat @ xnp.arange(2.)).sum())(sparse.eye(2)).data.tolist()
    [0.0, 1.0]
    """
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @wraps(fun)
    def gradient(*args, **kwds):
        value, found = both(*args, **kwds)
        return (found, value[1]) if has_aux else found

    return gradient


def _rows(x: Any, derivative: Any) -> Any:
    """Derivatives of the elements of results, each of them with the layout of `x`: the dimensions of a result are batches."""
    if not _is_sparse(x):
        return derivative

    def one(block):
        extra = block.ndim - x.data.ndim
        outer = block.shape[:extra]
        if not isinstance(x, (BCOO, BCSR)):
            raise NotImplementedError(f"the derivative of an array with respect to a {type(x).__name__} matrix has batches: "
                                      "make it a BCOO array")
        _, *indices = x._bufs
        return type(x)((block, *[broadcast_to_batch(i, outer) for i in indices]), shape=(*outer, *x.shape),
                       indices_sorted=x.indices_sorted, unique_indices=x.unique_indices)

    return tree.map(one, derivative)


def _jacobian(transform: Callable, fun: Callable, argnums: Any, has_aux: bool, kwargs: dict[str, Any]) -> Callable:
    def check(out):
        leaves, _ = tree.flatten_tree(out, is_leaf=_is_sparse)
        if any(map(_is_sparse, leaves)):
            raise AssertionError("a sparse jacobian is of a function whose results are dense: use todense() on others")
        return out

    @wraps(fun)
    def jacobian_of(*args, **kwds):
        # A derivative is a tree of results, of tuples with an entry for each array of values.
        transformed = _of_values(transform, fun, argnums, has_aux, kwargs, _rows, check)
        found, arranged = transformed(*args, **kwds)
        derivative, aux = found if has_aux else (found, None)
        whole = _regrouped(derivative, arranged)
        return (whole, aux) if has_aux else whole

    return jacobian_of


def _regrouped(derivative: Any, arranged: Callable) -> Any:
    is_entry = type(derivative) is tuple and all(not isinstance(x, (tuple, list, dict)) for x in derivative)
    if is_entry:
        return arranged(derivative)
    return tree.map(arranged, derivative, is_leaf=lambda x: type(x) is tuple and not any(
        isinstance(y, (tuple, list, dict)) for y in x))


@boundary
def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable:
    """The derivative of a function by forward mode, with respect to arguments that may be sparse.

    That of an array with respect to a sparse one is sparse, with the dimensions of the result as batches before.

    - `fun`: the function, which returns dense arrays.
    - `argnums`: the number of the argument, or several.
    - `has_aux`: whether `fun` returns a pair, of which the second part is not differentiated.
    - `kwargs`: more options of `xlafront.jacfwd`.

    >>> sparse.jacfwd(lambda mat: mat @ xnp.arange(2.))(sparse.eye(2))
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacobian(jacobians.jacfwd, fun, argnums, has_aux, kwargs)


@boundary
def jacrev(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable:
    """The derivative of a function by reverse mode, with respect to arguments that may be sparse.

    That of an array with respect to a sparse one is sparse, with the dimensions of the result as batches before.

    - `fun`: the function, which returns dense arrays.
    - `argnums`: the number of the argument, or several.
    - `has_aux`: whether `fun` returns a pair, of which the second part is not differentiated.
    - `kwargs`: more options of `xlafront.jacrev`.

    >>> sparse.jacrev(lambda mat: mat @ xnp.arange(2.))(sparse.eye(2))
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacobian(jacobians.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev
