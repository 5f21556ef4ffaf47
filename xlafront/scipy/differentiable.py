"""Functions of arrays with derivatives as formulas of their arguments and results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, tracing, tree
from xlafront.core.typing import Array
from xlafront.numpy.promotion import broadcast_to_common, check_arraylike, promote_args_inexact, promote_dtypes_inexact
from xlafront.transforms.calls.custom_jvp import SymbolicZero, custom_jvp


def differentiable(compute: Callable, *slopes: Callable | None) -> Callable:
    """The elementwise function `compute`, for floats of few bits too: they are computed in float32.

    `slopes` are its derivatives in each argument, functions of the result and of all arguments; None where there is none.
    """
    @custom_jvp
    def function(*xs):
        dtype = xs[0].dtype
        if dtype.itemsize >= 4:
            return compute(*xs)
        return tree.map(lambda y: y.astype(dtype), compute(*[x.astype(np.float32) for x in xs]))

    def rule(primals, tangents):
        answer = function(*primals)
        total = tree.map(xnp.zeros_like, answer)
        for slope, tangent in zip(slopes, tangents):
            if slope is not None and not isinstance(tangent, SymbolicZero):
                parts = tree.map(lambda s, t=tangent: s * t, slope(answer, *primals))
                total = tree.map(lambda x, y: x + y.astype(x.dtype), total, parts)
        return answer, total

    function.defjvp(rule, symbolic_zeros=True)
    return function


def inexact(name: str, *args, complex_error: type[Exception] | None = ValueError) -> list[Array]:
    """The arguments of a function as floats of one type, which no longer gives way to others."""
    return _checked(name, promote_args_inexact(name, *args), complex_error)


def inexact_from_lists(name: str, *args, complex_error: type[Exception] = ValueError) -> list[Array]:
    """As `inexact`; lists are arrays here."""
    args = [x if isinstance(x, (bool, int, float, complex)) else xnp.asarray(x) for x in args]
    check_arraylike(name, *args)
    return _checked(name, broadcast_to_common(name, promote_dtypes_inexact(*args), ValueError), complex_error)


def real(name: str, *args, complex_error: type[Exception] = ValueError) -> list[Array]:
    """The arguments of a function as floats of one type, as weak as they are."""
    promoted = list(promote_args_inexact(name, *args))
    _check_real(name, promoted, complex_error)
    return promoted


def _checked(name: str, args, complex_error) -> list[Array]:
    args = [xnp.asarray(x) for x in args]
    if complex_error:
        _check_real(name, args, complex_error)
    return [x.astype(x.dtype) for x in args]


def _check_real(name: str, args, complex_error) -> None:
    args = [tracing.aval_of(x) for x in args]
    if any(dtypes.issubdtype(x.dtype, np.complexfloating) for x in args):
        raise complex_error(f"{name} takes real numbers, it does not support complex-valued inputs; got dtypes "
                            f"{', '.join(str(x.dtype) for x in args)}.")
