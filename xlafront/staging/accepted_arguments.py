"""`accepts`, the decorator of internal functions that take other values in place of arrays and of static values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xlafront.core import dtypes, tracing, tree
from xlafront.core.dtypes import is_integer
from xlafront.core.tracing import Tracer
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging.signatures import code_of

_F = TypeVar("_F", bound=Callable)


def accepts(*, nodes: bool = False, objects: bool | str = False, lists: str | Sequence[str] = (),
            anything: bool = False) -> Callable[[_F], _F]:
    """Convert the arguments of a function before it is called.

    `nodes`: convert pytree nodes with `__jax_array__` to arrays, and members of an `IntEnum` to ints. `objects`: convert also
    objects with `__jax_array__` that are not nodes; True for all parameters, or the name of one. `lists`: parameters whose
    lists and arrays become tuples and Python scalars. `anything`: the function converts and checks its arguments itself, and
    gets those that a kernel cannot take. `library` makes those conversions early that C++ needs (`Conversions`).
    """
    def decorate(fun: _F) -> _F:
        conversions = Conversions(fun, objects, (lists,) if isinstance(lists, str) else lists, anything)

        @functools.wraps(fun)
        def call(*args, **kwargs):
            args, kwargs = conversions.hashable(*conversions.flattened(args, kwargs))
            if nodes or objects:
                args, kwargs = tuple(map(_operand, args)), {name: _operand(x) for name, x in kwargs.items()}
            return fun(*args, **kwargs)

        decorated: Any = call if nodes or objects or lists else fun
        decorated.conversions = conversions
        return decorated

    return decorate


class Conversions:
    """The conversions of `accepts` without which C++ cannot look up a call."""

    __slots__ = ("objects", "lists", "anything")

    def __init__(self, fun: Callable, objects: bool | str, lists: Sequence[str], anything: bool):
        parameters = parameter_names(fun)
        self.anything = anything  # the function itself converts
        self.objects = objects if isinstance(objects, bool) else positions_and_names((objects,), parameters)
        self.lists = positions_and_names(lists, parameters)

    def flattened(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Convert objects that are not pytree nodes, for which C++ has no type, to arrays."""
        return self._converted(_array, self.objects, args, kwargs)

    def hashable(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Convert lists to tuples and arrays to Python scalars, also within tuples."""
        return self._converted(_hashable, self.lists, args, kwargs)

    @staticmethod
    def _converted(convert, positions, args, kwargs):
        if not positions:
            return args, kwargs
        return (tuple([convert(x) if positions is True or i in positions else x for i, x in enumerate(args)]),
                {name: convert(x) if positions is True or name in positions else x for name, x in kwargs.items()})

    def is_traced(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """True if an argument that must be hashable is traced."""
        return any([position in self.lists and _is_traced(x) for position, x in (*enumerate(args), *kwargs.items())])


def parameter_names(fun: Callable) -> tuple[str, ...]:
    """Return the names of the parameters of a function that may be positional."""
    code: Any = code_of(fun)[0]
    return code.co_varnames[:code.co_argcount]


def positions_and_names(names: Sequence[str], parameters: Sequence[str]) -> frozenset:
    """Return the keys of parameters in the positional and in the keyword arguments of a call."""
    return frozenset((*names, *[parameters.index(n) for n in names if n in parameters]))


def _operand(x):
    """Convert a pytree node and a member of an `IntEnum`, within the traced function: C++ repeats calls for their leaves.

    Other objects are refused, as C++ refuses them.
    """
    return x if tracing.is_operand(x) else dtypes.plain_number(tracing.node_as_operand(x))


def _array(x):
    return tracing.as_operand(x) if tracing.is_convertible(x) and type(x) not in tree.registered_nodes else x


def _hashable(x):
    if isinstance(x, (list, tuple)) or isinstance(x, (np.ndarray, ArrayImpl)) and x.ndim:
        return tuple(map(_hashable, x))
    if not isinstance(x, (np.ndarray, ArrayImpl)):
        return x
    return x.__index__() if is_integer(x.dtype) else x.item()  # The function itself reports bad values.


def _is_traced(x):
    return isinstance(x, Tracer) or isinstance(x, tuple) and any(map(_is_traced, x))
