"""`functools.wraps` for wrapped callables of any type."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any


def update_wrapper(wrapper: Any, wrapped: Callable) -> Any:
    """Do as `functools.update_wrapper`, for any callable.

    Attributes that cannot be set are skipped, such as a `__name__` that is no string.
    """
    try:
        return functools.update_wrapper(wrapper, wrapped)
    except TypeError:
        for attribute in functools.WRAPPER_ASSIGNMENTS:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(wrapper, attribute, getattr(wrapped, attribute))
        return functools.update_wrapper(wrapper, wrapped, assigned=())


def wraps(wrapped: Callable) -> Callable[[Any], Any]:
    """Do as `functools.wraps`, by `update_wrapper` of this module."""
    return functools.partial(update_wrapper, wrapped=wrapped)
