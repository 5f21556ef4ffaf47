"""Derivatives with respect to the values of sparse arrays. Gradients have the layout of the arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.api import derivatives, jacobians
from xlafront.core import tree
from xlafront.core.traceback_filter import boundary
from xlafront.core.wrapping import wraps
from xlafront.sparse.base import JAXSparse
from xlafront.sparse.bcoo import BCOO
from xlafront.sparse.bcsr import BCSR
from xlafront.sparse.operations import broadcast_to_batch


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _values(arguments: Any) -> tuple[list[Any], list[Any], Any]:
    """Return the arrays to differentiate with respect to: values of sparse arrays, and dense arrays themselves."""
    leaves, structure = tree.flatten_tree(arguments, is_leaf=_is_sparse)
    return [x.data if _is_sparse(x) else x for x in leaves], leaves, structure


def _with_values(x: Any, data: Any) -> Any:
    if not _is_sparse(x):
        return data
    (_, *indices), static = x.tree_flatten()
    return type(x).tree_unflatten(static, (data, *indices))


def _transform_over_values(transform: Callable, fun: Callable, argnums: Any, has_aux: bool, kwargs: dict[str, Any],
                           rebuild: Callable, check: Callable = lambda out: out) -> Callable:
    """Apply a transformation to a function of values; `rebuild` turns each derivative into a sparse array."""
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @wraps(fun)
    def transformed(*args, **kwds):
        count = len(args)
        indices = tuple(n % count if -count <= n < count else n for n in positions)
        if any(not 0 <= n < count for n in indices):
            raise ValueError(f"argnums={argnums} is out of range for {count} positional arguments")
        values, leaves, structure = _values([args[n] for n in indices])

        def function_of_values(*data):
            inner = list(args)
            rebuilt = tree.unflatten(structure, [_with_values(x, d) for x, d in zip(leaves, data)])
            for n, x in zip(indices, rebuilt):
                inner[n] = x
            return check(fun(*inner, **kwds))

        results = transform(function_of_values, argnums=tuple(range(len(values))), has_aux=has_aux, **kwargs)(*values)

        def arrange(derivative):
            components = tree.unflatten(structure, [rebuild(x, d) for x, d in zip(leaves, derivative)])
            return components[0] if isinstance(argnums, int) else tuple(components)

        return results, arrange

    return transformed


@boundary
def value_and_grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable:
    """Compute the value and the gradient of a function of arguments that may be sparse.

    The gradient with respect to a sparse array is a sparse array with the same indices.

    Args:
        fun: Function that returns a scalar.
        argnums: Position or positions of the arguments to differentiate with respect to.
        has_aux: If True, `fun` returns a pair, the second element of which is not differentiated.
        kwargs: More options of `xlafront.value_and_grad`.

    Returns:
        Function that returns the value and the gradient.

    Example:
        >>> value, gradient = sparse.value_and_grad(lambda mat: (mat @ xnp.ones(2)).sum())(sparse.eye(2))
        >>> gradient
        BCOO(float32[2, 2], nse=2)
    """
    transformed = _transform_over_values(derivatives.value_and_grad, fun, argnums, has_aux, kwargs, _with_values)

    @wraps(fun)
    def with_gradient(*args, **kwds):
        (value, gradient), arrange = transformed(*args, **kwds)
        return value, arrange(gradient)

    return with_gradient


@boundary
def grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable:
    """Compute the gradient of a function of arguments that may be sparse.

    The gradient with respect to a sparse array is a sparse array with the same indices.

    Args:
        fun: Function that returns a scalar.
        argnums: Position or positions of the arguments to differentiate with respect to.
        has_aux: If True, `fun` returns a pair, the second element of which is not differentiated.
        kwargs: More options of `xlafront.grad`.

    Returns:
        Function that returns the gradient.

    Example:
        >>> sparse.grad(lambda mat: (mat @ xnp.arange(2.)).sum())(sparse.eye(2)).data.tolist()
        [0.0, 1.0]
    """
    transformed = value_and_grad(fun, argnums, has_aux, **kwargs)

    @wraps(fun)
    def gradient(*args, **kwds):
        value, result = transformed(*args, **kwds)
        return (result, value[1]) if has_aux else result

    return gradient


def _rebuild_jacobian(x: Any, derivative: Any) -> Any:
    """Rebuild derivatives of results with the layout of `x`. The dimensions of a result become batch dimensions."""
    if not _is_sparse(x):
        return derivative

    def rebuild(block):
        extra = block.ndim - x.data.ndim
        outer = block.shape[:extra]
        (_, *indices), static = x.tree_flatten()
        components = (block, *[broadcast_to_batch(i, outer) for i in indices])
        if not isinstance(x, (BCOO, BCSR)):  # A matrix has no batch dimensions, but its components may.
            return type(x).tree_unflatten(static, components)
        return type(x)(components, shape=(*outer, *x.shape), indices_sorted=x.indices_sorted, unique_indices=x.unique_indices)

    return tree.map(rebuild, derivative)


def _jacobian(transform: Callable, fun: Callable, argnums: Any, has_aux: bool, kwargs: dict[str, Any]) -> Callable:
    def check(out):
        leaves, _ = tree.flatten_tree(out, is_leaf=_is_sparse)
        if any(map(_is_sparse, leaves)):
            raise AssertionError("a sparse jacobian needs a function with dense results: use todense() on sparse ones")
        return out

    @wraps(fun)
    def jacobian_of(*args, **kwds):
        # A derivative is a pytree of results, whose leaves are tuples with an entry for each array of values.
        transformed = _transform_over_values(transform, fun, argnums, has_aux, kwargs, _rebuild_jacobian, check)
        results, arrange = transformed(*args, **kwds)
        derivative, aux = results if has_aux else (results, None)
        jacobian = _rebuild_tree(derivative, arrange)
        return (jacobian, aux) if has_aux else jacobian

    return jacobian_of


def _rebuild_tree(derivative: Any, arrange: Callable) -> Any:
    is_entry = type(derivative) is tuple and all(not isinstance(x, (tuple, list, dict)) for x in derivative)
    if is_entry:
        return arrange(derivative)
    return tree.map(arrange, derivative, is_leaf=lambda x: type(x) is tuple and not any(
        isinstance(y, (tuple, list, dict)) for y in x))


@boundary
def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable:
    """Compute the Jacobian of a function by forward mode, with respect to arguments that may be sparse.

    The Jacobian with respect to a sparse array is sparse, with the dimensions of the result as leading batch dimensions.

    Args:
        fun: Function that returns dense arrays.
        argnums: Position or positions of the arguments to differentiate with respect to.
        has_aux: If True, `fun` returns a pair, the second element of which is not differentiated.
        kwargs: More options of `xlafront.jacfwd`.

    Returns:
        Function that returns the Jacobian.

    Example:
        >>> sparse.jacfwd(lambda mat: mat @ xnp.arange(2.))(sparse.eye(2))
        BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacobian(jacobians.jacfwd, fun, argnums, has_aux, kwargs)


@boundary
def jacrev(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable:
    """Compute the Jacobian of a function by reverse mode, with respect to arguments that may be sparse.

    The Jacobian with respect to a sparse array is sparse, with the dimensions of the result as leading batch dimensions.

    Args:
        fun: Function that returns dense arrays.
        argnums: Position or positions of the arguments to differentiate with respect to.
        has_aux: If True, `fun` returns a pair, the second element of which is not differentiated.
        kwargs: More options of `xlafront.jacrev`.

    Returns:
        Function that returns the Jacobian.

    Example:
        >>> sparse.jacrev(lambda mat: mat @ xnp.arange(2.))(sparse.eye(2))
        BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacobian(jacobians.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev
