"""What the functions of all distributions share: how arguments are promoted, and what they say of themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.lax.elementwise import as_array
from xlafront.lax.elementwise_functions import convert_element_type
from xlafront.numpy import array_methods as _operators  # noqa: F401  (users reach these modules without a face)
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact, unwrap
from xlafront.staging.library import library

_WHAT = {
    "pdf": "The probability density", "logpdf": "The logarithm of the probability density",
    "pmf": "The probability of a value", "logpmf": "The logarithm of the probability of a value",
    "cdf": "The probability of values up to this", "logcdf": "The logarithm of the probability of values up to this",
    "sf": "The probability of greater values", "logsf": "The logarithm of the probability of greater values",
    "ppf": "The value up to which lies this probability", "isf": "The value above which lies this probability",
    "entropy": "The entropy",
}
_PARAMETERS = {
    "x": "values", "k": "values, whole numbers", "q": "probabilities", "loc": "what is added to the variable",
    "scale": "what the variable is multiplied with",
}


def never(strong: list[bool]) -> bool:
    """The result's weakness is that of the promoted arguments."""
    return False


def of_first(strong: list[bool]) -> bool:
    """A strongly typed first argument makes the result strongly typed."""
    return strong[0]


def always(strong: list[bool]) -> bool:
    """The result is strongly typed."""
    return True


def nothing(label: str, args) -> None:
    """All arguments that promote are taken."""


def ordered(label: str, args) -> None:
    """Values are compared, which complex numbers cannot be."""
    check_arraylike(label, *args)
    given = [dtypes.operand_type(unwrap(x))[0] for x in args]
    if any(map(dtypes.is_complex, given)):
        raise TypeError(f"{label} compares its arguments, and complex numbers have no order; got dtypes "
                        f"{', '.join(map(str, given))}.")


def of_floats(label: str, args) -> None:
    """The first argument is a float of 32 or 64 bits itself, and does not become one beside others."""
    check_arraylike(label, args[0])
    d = dtypes.operand_type(unwrap(args[0]))[0]
    if d not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"{label} takes floats of 32 or 64 bits as its first argument, got dtype {d}. Convert with "
                        f"x.astype(float).")


def member(distribution: str, strong: Callable[[list[bool]], bool] = never, refuse: Callable[[str, tuple], None] = nothing,
           **parameters: str) -> Callable[[Callable], Callable]:
    """Decorator of a distribution's function: compiled when called eagerly, its arguments in one floating dtype and shape.

    `strong` says for which arguments, given by whether each is strongly typed, the result is: integers beside floats of
    Python's are weakly typed floats by the rules of promotion, which most densities keep to only for numbers. `refuse` raises
    for arguments that are not taken. `parameters` says what the parameters are that not all distributions have.
    """
    def decorate(function: Callable) -> Callable:
        name = function.__name__
        said = {**_PARAMETERS, **parameters}
        names = inspect.signature(function).parameters
        label = f"{distribution} {name}"

        def promoted(*args, **kwargs):
            given = inspect.signature(function).bind(*args, **kwargs)
            given.apply_defaults()
            refuse(label, given.args)
            args = promote_args_inexact(label, *given.args)
            args[0] = as_array(args[0])
            if dtypes.is_weakly_typed(args[0]) and strong([not dtypes.is_weakly_typed(x) for x in given.args]):
                args[0] = convert_element_type(args[0], args[0].dtype)
            return function(*args)

        lines = "\n".join(f"- `{p}`: {said[p]}." for p in names)
        promoted.__name__ = promoted.__qualname__ = name
        promoted.__module__ = function.__module__
        promoted.__doc__ = f"{_WHAT[name]}, of the {distribution} distribution.\n\n{lines}\n"
        promoted.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(annotation="ArrayLike") for p in names.values()], return_annotation="Array")
        promoted.__wrapped__ = function  # type: ignore[attr-defined]
        return library(promoted, converts=True)

    return decorate


def exponential(function: Callable, name: str) -> Callable:
    """A distribution's function from that of its logarithm: `pdf` from `logpdf`, `sf` from `logsf` and so on."""
    def exponential_of(*args, **kwargs):
        log = function(*args, **kwargs)
        # Where one number decides that all are NaN, XLA's vectors of exponentials are whatever was in memory.
        return xnp.where(xnp.isnan(log), log, xnp.exp(log))

    log = function.__name__
    exponential_of.__name__ = exponential_of.__qualname__ = name
    exponential_of.__module__ = function.__module__
    exponential_of.__doc__ = (function.__doc__ or "").replace(_WHAT[log], _WHAT[name])
    exponential_of.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return library(exponential_of, converts=True)
