"""Decorators for the functions of the distributions in `scipy.stats`: argument promotion, dtype checks and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.lax.elementwise import as_array
from xlafront.lax.elementwise_functions import convert_element_type
from xlafront.numpy import array_methods as _operators  # noqa: F401  (users reach these modules without `xlafront.numpy`)
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact, unwrap
from xlafront.scipy.normal_functions import check_float
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library

_SUMMARIES = {
    "pdf": "Compute the probability density", "logpdf": "Compute the log of the probability density",
    "pmf": "Compute the probability mass", "logpmf": "Compute the log of the probability mass",
    "cdf": "Compute the cumulative distribution function", "logcdf": "Compute the log of the cumulative distribution function",
    "sf": "Compute the survival function (`1 - cdf`)", "logsf": "Compute the log of the survival function",
    "ppf": "Compute the percent point function (inverse of the cdf)", "isf": "Compute the inverse of the survival function",
    "entropy": "Compute the Shannon entropy",
}
_PARAMETERS = {
    "x": "Points at which to evaluate", "k": "Integer-valued points at which to evaluate",
    "q": "Probabilities, between 0 and 1", "loc": "Location parameter, the shift of the variable",
    "scale": "Scale parameter, the factor of the variable",
}


def never(strong: list[bool]) -> bool:
    """Return False: the result is weakly typed if the promoted arguments are."""
    return False


def first_is_strong(strong: list[bool]) -> bool:
    """True if the first argument is a strongly typed array of at least one dimension."""
    return strong[0]


def accept_all(label: str, args) -> None:
    """Accept all arguments that can be promoted."""


def require_real(label: str, args, error: type[Exception] = TypeError) -> None:
    """Raise an error for complex arguments, which cannot be compared."""
    check_arraylike(label, *args)
    arg_dtypes = [dtypes.operand_type(unwrap(x))[0] for x in args]
    if any(map(dtypes.is_complex, arg_dtypes)):
        raise error(f"{label} compares its arguments, and complex numbers have no order; got dtypes "
                    f"{', '.join(map(str, arg_dtypes))}.")


def require_ordered(label: str, args) -> None:
    """Raise the error of `numpy.clip` for complex arguments."""
    require_real(label, args, ValueError)


def require_float(label: str, args) -> None:
    """Raise a `TypeError` unless the first argument is float32 or float64 before promotion."""
    check_arraylike(label, args[0])
    d = dtypes.operand_type(unwrap(args[0]))[0]
    if d not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"{label} takes floats of 32 or 64 bits as its first argument, got dtype {d}. Convert with "
                        f"x.astype(float).")


def require_wide(label: str, args) -> None:
    """Raise a `TypeError` unless the arguments promote to float32 or float64."""
    check_arraylike(label, *args)
    check_float(label, dtypes.to_inexact(dtypes.lattice_result_type(*map(unwrap, args))[0]))


def _with_operators(x):
    """Convert scalars of bfloat16 and float8 to arrays: their operators with Python floats give 64 bits."""
    return as_array(x) if isinstance(x, np.generic) and x.dtype.kind == "V" else x


def distribution_method(distribution: str, is_strong: Callable[[list[bool]], bool] = never,
                        check: Callable[[str, tuple], None] = accept_all, **parameters: str) -> Callable[[Callable], Callable]:
    """Decorate a function of a distribution: promote its arguments to one floating dtype and compile it when called eagerly.

    Args:
        distribution: Name of the distribution, for the docstring and error messages.
        is_strong: Function of a list that has, for each argument, whether it is strongly typed and no scalar; True if the
            result is strongly typed. Integers with Python floats promote to weakly typed floats, which most densities return
            for scalars only.
        check: Function that raises for arguments that are not supported.
        parameters: Descriptions of the parameters that are specific to the distribution.
    """
    def decorate(function: Callable) -> Callable:
        name = function.__name__
        descriptions = {**_PARAMETERS, **parameters}
        names = inspect.signature(function).parameters
        label = f"{distribution} {name}"

        def wrapper(*args, **kwargs):
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            check(label, bound.args)
            first, *others = promote_args_inexact(label, *bound.args)
            args = [as_array(first), *map(_with_operators, others)]
            strong = [np.ndim(x) > 0 and not dtypes.is_weakly_typed(x) for x in bound.args]
            if dtypes.is_weakly_typed(args[0]) and is_strong(strong):
                args[0] = convert_element_type(args[0], args[0].dtype)
            return function(*args)

        entries = "\n".join(f"    {p}: {descriptions[p]}." for p in names)
        wrapper.__name__ = wrapper.__qualname__ = name
        wrapper.__module__ = function.__module__
        wrapper.__doc__ = (f"{_SUMMARIES[name]} of the {distribution} distribution.\n\nArgs:\n{entries}\n\n"
                           f"Returns:\n    Array of the broadcast shape of the arguments.\n")
        wrapper.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(annotation="ArrayLike") for p in names.values()], return_annotation="Array")
        wrapper.__wrapped__ = function  # type: ignore[attr-defined]
        return library(accepts(objects=True)(wrapper))

    return decorate


def exponentiate(function: Callable, name: str) -> Callable:
    """Derive a function of a distribution from its logarithm: `pdf` from `logpdf`, `sf` from `logsf` and so on."""
    def exponential(*args, **kwargs):
        log = function(*args, **kwargs)
        # If a scalar makes all elements NaN, XLA's vectorized exponential returns uninitialized memory: select NaN explicitly.
        return xnp.where(xnp.isnan(log), log, xnp.exp(log))

    log = function.__name__
    exponential.__name__ = exponential.__qualname__ = name
    exponential.__module__ = function.__module__
    exponential.__doc__ = (function.__doc__ or "").replace(_SUMMARIES[log], _SUMMARIES[name])
    exponential.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return library(accepts(objects=True)(exponential))
