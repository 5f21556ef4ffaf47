"""The order in which a compiled program does things that do not depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

from xlafront.control.foreign_calls import ffi_call
from xlafront.core.traceback_filter import boundary
from xlafront.core.typing import ArrayLike

_after = ffi_call("control_dep", (), has_side_effect=True)


@boundary
def control_dep(src: ArrayLike, dst: ArrayLike) -> None:
    """In the compiled function around it: compute one value only after another, though it does not depend on it.

    Neither differentiation nor `vmap` can pass it.

    - `src`: an array.
    - `dst`: an array that is computed later; the compiler keeps to it where it computes both by operations of their own.

    >>> from xlafront.experimental.control_deps import control_dep
    >>> def f(x):
    ...     first, second = xnp.sin(x), xnp.cos(x)
    ...     control_dep(first, second)
    ...     return first + second
    >>> xf.jit(f)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    _after(src, dst)


@boundary
def schedule(ops: Sequence[ArrayLike]) -> None:
    """In the compiled function around it: compute values one after the other, in this order.

    - `ops`: arrays, each of which is computed after the one before it, as by `control_dep`.

    >>> from xlafront.experimental.control_deps import schedule
    >>> def f(x):
    ...     parts = xnp.sin(x), xnp.cos(x), xnp.exp(x)
    ...     schedule(parts)
    ...     return sum(parts)
    >>> xf.jit(f)(0.0)
    Array(2., dtype=float32, weak_type=True)
    """
    for before, after in zip(ops, ops[1:]):
        control_dep(before, after)
