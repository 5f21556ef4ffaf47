"""What the functions of all distributions share: how arguments are promoted, and what they say of themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import xlafront.numpy as xnp
from xlafront.numpy import array_methods as _operators  # noqa: F401  (users reach these modules without a face)
from xlafront.numpy.promotion import promote_args_inexact
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


def member(distribution: str, **parameters: str) -> Callable[[Callable], Callable]:
    """Decorator of a distribution's function: compiled when called eagerly, its arguments in one floating dtype and shape.

    `parameters` says what the parameters are that not all distributions have.
    """
    def decorate(function: Callable) -> Callable:
        name = function.__name__
        said = {**_PARAMETERS, **parameters}
        names = inspect.signature(function).parameters
        label = f"{distribution} {name}"

        def promoted(*args, **kwargs):
            given = inspect.signature(function).bind(*args, **kwargs)
            given.apply_defaults()
            return function(*promote_args_inexact(label, *given.args))

        lines = "\n".join(f"- `{p}`: {said[p]}." for p in names)
        promoted.__name__ = promoted.__qualname__ = name
        promoted.__module__ = function.__module__
        promoted.__doc__ = f"{_WHAT[name]}, of the {distribution} distribution.\n\n{lines}\n"
        promoted.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        promoted.__wrapped__ = function  # type: ignore[attr-defined]
        return library(promoted)

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
    return library(exponential_of)
