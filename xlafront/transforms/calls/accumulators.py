"""Accumulators of cotangents, which backward rules get in place of returning cotangents."""

from __future__ import annotations

from typing import Any

from xlafront.core import errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.tangents import add_tangents, zeros_of
from xlafront.core.zeros import Zero


class GradAccum:
    """The base of accumulators. `aval` is the type of the cotangent."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def accum(self, ct: Any) -> None:
        """Add a cotangent; None and `Zero` are zeros."""
        raise NotImplementedError

    def freeze(self) -> Any:
        """Return the sum of the cotangents, `Zero` if there are none."""
        return Zero(self.aval)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"

    def _checked(self, ct: Any) -> Any:
        """Return a cotangent after a check of its shape; None for zero."""
        if ct is None or type(ct) is Zero:
            return None
        given = tracing.aval_of(ct)
        if not given.is_high and given.shape != self.aval.shape:
            raise ValueError(f"a rule gave {errors.short(ct)} as the cotangent of an array, where a cotangent of the type "
                             f"{self.aval} is expected.")
        return ct


class ValAccum(GradAccum):
    """An accumulator that holds the sum of the cotangents of one array.

    Args:
        aval: Type of the array.
        val: Initial sum. Default: none.

    Example:
        >>> total = ValAccum(xf.typeof(1.0))
        >>> total.accum(2.0)
        >>> total.accum(3.0)
        >>> float(total.freeze())
        5.0
    """

    __slots__ = ("val",)

    def __init__(self, aval: Any, val: Any = None) -> None:
        super().__init__(aval)
        self.val = val

    def accum(self, ct: Any) -> None:
        """Add a cotangent; None and `Zero` are zeros."""
        if (ct := self._checked(ct)) is not None:
            self.val = ct if self.val is None else add_tangents(self.val, ct)

    def freeze(self) -> Any:
        """Return the sum of the cotangents, `Zero` if there are none."""
        return Zero(self.aval) if self.val is None else self.val


class RefAccum(GradAccum):
    """An accumulator that adds the cotangents of one array to a reference, `ref`.

    Args:
        aval: Type of the array.
        ref: The reference. Default: a new one.

    Example:
        >>> total = RefAccum(xf.typeof(1.0), xf.new_ref(1.0))
        >>> total.accum(2.0)
        >>> float(total.ref[...])
        3.0
    """

    __slots__ = ("ref",)

    def __init__(self, aval: Any, ref: Any = None) -> None:
        super().__init__(aval)
        self.ref = self._new_ref() if ref is None else ref

    def _new_ref(self) -> Any:
        from xlafront.lax import refs  # start-up: 1.2 ms, only for references

        return refs.new_ref(zeros_of(ShapedArray(self.aval.shape, self.aval.dtype)))

    def accum(self, ct: Any) -> None:
        """Add a cotangent to the reference; None and `Zero` are zeros."""
        from xlafront.lax import refs  # start-up: 1.2 ms, only for references

        if (ct := self._checked(ct)) is not None:
            refs.addupdate(self.ref, ..., ct)

    def freeze(self) -> Any:
        """Return the value of the reference."""
        return self.ref[...]


class NullAccum(GradAccum):
    """An accumulator that drops cotangents, for an array whose cotangent is not needed.

    Args:
        aval: Type of the array.

    Example:
        >>> NullAccum(xf.typeof(1.0)).accum(2.0)
    """

    __slots__ = ()

    def accum(self, ct: Any) -> None:
        """Drop a cotangent."""
