"""`Primitive`, as other packages define operations with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlafront.core import primitive, tracing


class _AnyPrimitive(type):
    """Makes `isinstance(x, Primitive)` true for the operations of xlafront too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(primitive.Primitive if cls is Primitive else cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(primitive.Primitive if cls is Primitive else cls, subclass)


class Primitive(primitive.Primitive, metaclass=_AnyPrimitive):
    """A primitive that may have attributes of its own, and its own way to be applied in a trace.

    A subclass may define `multiple_results`, and the methods `impl` and `abstract_eval`; the latter returns the types of the
    results and the effects.

    Args:
        name: Name in jaxprs.
        fields: Fields of the record; see `core.primitive.Primitive`.

    Example:
        >>> double_p = Primitive("double")
        >>> double_p.def_impl(lambda x: 2 * x)(3.0)
        6.0
    """

    def __init__(self, name: str, **fields: Any):
        if isinstance(type(self).multiple_results, bool):
            fields = {"multiple_results": type(self).multiple_results} | fields
        super().__init__(name, **fields)
        if type(self).impl is not primitive.Primitive.impl:
            self.own_impl = self.impl
        if type(self).abstract_eval is not primitive.Primitive.abstract_eval:
            self.def_effectful_abstract_eval(self.abstract_eval)

    def def_bind_with_trace(self, bind_with_trace: Callable) -> Callable:
        """Replace how the primitive is applied in a trace: `bind_with_trace(trace, args, params)`. Usable as a decorator."""
        def bind(*args, **params):
            return bind_with_trace(tracing.thread.trace, args, params)

        self.bind = bind  # type: ignore[method-assign]
        self.bind_with_trace = lambda trace, args, *rest: bind_with_trace(trace, args, rest[-1])  # type: ignore[method-assign]
        return bind_with_trace
