"""Control dependencies: the execution order of independent values in a compiled computation."""

from __future__ import annotations

from collections.abc import Sequence

from xlafront.control.foreign_calls import ffi_call
from xlafront.core.traceback_filter import boundary
from xlafront.core.typing import ArrayLike

_control_dep = ffi_call("control_dep", (), has_side_effect=True)


@boundary
def control_dep(src: ArrayLike, dst: ArrayLike) -> None:
    """Compute one value after another in the enclosing compiled function, although it does not depend on it.

    The dependency does not support differentiation or `vmap`.

    Args:
        src: Array to compute first.
        dst: Array to compute later. The compiler respects the order if it computes both in separate operations.

    Example:
        >>> from xlafront.experimental.control_deps import control_dep
        >>> def f(x):
        ...     first, second = xnp.sin(x), xnp.cos(x)
        ...     control_dep(first, second)
        ...     return first + second
        >>> xf.jit(f)(0.0)
        Array(1., dtype=float32, weak_type=True)
    """
    _control_dep(src, dst)


@boundary
def schedule(ops: Sequence[ArrayLike]) -> None:
    """Compute values one after the other, in the given order, in the enclosing compiled function.

    Args:
        ops: Arrays, each of which is computed after the previous one, as by `control_dep`.

    Example:
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
