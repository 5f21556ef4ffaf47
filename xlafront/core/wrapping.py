"""Functions that are made of users' functions, and look like them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any


def update_wrapper(wrapper: Any, wrapped: Callable) -> Any:
    """As that of `functools`, but what is called may be any object, whose `__name__` need not be a text: that is left out."""
    try:
        return functools.update_wrapper(wrapper, wrapped)
    except TypeError:
        for attribute in functools.WRAPPER_ASSIGNMENTS:
            with contextlib.suppress(AttributeError, TypeError):
                setattr(wrapper, attribute, getattr(wrapped, attribute))
        return functools.update_wrapper(wrapper, wrapped, assigned=())


def wraps(wrapped: Callable) -> Callable[[Any], Any]:
    """As that of `functools`, by `update_wrapper`."""
    return functools.partial(update_wrapper, wrapped=wrapped)
