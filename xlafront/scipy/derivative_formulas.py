"""Elementwise functions with derivatives given as formulas, and the promotion of their arguments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, tracing, tree
from xlafront.core.typing import Array
from xlafront.numpy.promotion import broadcast_to_common, check_arraylike, promote_args_inexact, promote_dtypes_inexact
from xlafront.transforms.calls.custom_jvp import SymbolicZero, custom_jvp


def with_derivatives(compute: Callable, *derivatives: Callable | None) -> Callable:
    """Return the elementwise function `compute` with the given derivatives, both in float32 for shorter floats.

    `derivatives` has one derivative per argument: a function of the result and of all arguments, or None if the derivative
    is 0.
    """
    differentiable = custom_jvp(lambda *xs: compute(*xs))

    def rule(primals, tangents):
        answer = differentiable(*primals)
        total = tree.map(xnp.zeros_like, answer)
        for derivative, tangent in zip(derivatives, tangents):
            if derivative is not None and not isinstance(tangent, SymbolicZero):
                terms = tree.map(lambda s, t=tangent: s * t, derivative(answer, *primals))
                total = tree.map(lambda x, y: x + y.astype(x.dtype), total, terms)
        return answer, total

    differentiable.defjvp(rule, symbolic_zeros=True)

    def function(*xs):
        dtype = xs[0].dtype
        if dtype.itemsize >= 4:
            return differentiable(*xs)
        return tree.map(lambda y: y.astype(dtype), differentiable(*[x.astype(np.float32) for x in xs]))

    return function


def promote_inexact(name: str, *args, complex_error: type[Exception] | None = ValueError) -> list[Array]:
    """Promote arguments to one floating dtype and make them strongly typed."""
    return _as_strong_arrays(name, promote_args_inexact(name, *args), complex_error)


def promote_inexact_lists(name: str, *args, complex_error: type[Exception] = ValueError) -> list[Array]:
    """Promote arguments as `promote_inexact` does, and convert lists to arrays."""
    args = [xnp.asarray(x) if isinstance(x, (list, tuple)) else x for x in args]
    check_arraylike(name, *args)
    return _as_strong_arrays(name, broadcast_to_common(name, promote_dtypes_inexact(*args), ValueError), complex_error)


def promote_real(name: str, *args, complex_error: type[Exception] = ValueError) -> list[Array]:
    """Promote arguments to one floating dtype, keep their weak types and raise for complex ones."""
    promoted = list(promote_args_inexact(name, *args))
    _check_real(name, promoted, complex_error)
    return promoted


def _as_strong_arrays(name: str, args, complex_error) -> list[Array]:
    args = [xnp.asarray(x) for x in args]
    if complex_error:
        _check_real(name, args, complex_error)
    return [x.astype(x.dtype) for x in args]


def _check_real(name: str, args, complex_error) -> None:
    args = [tracing.aval_of(x) for x in args]
    if any(dtypes.issubdtype(x.dtype, np.complexfloating) for x in args):
        raise complex_error(f"{name} takes real numbers and does not support complex-valued inputs; got dtypes "
                            f"{', '.join(str(x.dtype) for x in args)}.")
