"""`Inline`: when a call of a jitted function inside of another program is replaced by its operations."""

from __future__ import annotations

import enum
from typing import Any


class Inline(enum.Enum):
    """When a call of a jitted function inside of another program is inlined, for `jit(inline=...)`.

    - `JAX_EARLY`: when it is traced; jaxprs contain the equations of the function in place of a call.
    - `JAX_LATE`: when the jaxpr is lowered; jaxprs contain a call. `inline=True` means this.
    - `XLA_EARLY`, `XLA_LATE`: by XLA, early or late; modules contain a call with this mark. The XLA of jaxlib before 0.12
      inlines both as it inlines unmarked calls.
    - `AUTO`: when XLA chooses. `inline=False` means this.

    Example:
        >>> square = xf.jit(lambda x: x * x, inline=xf.Inline.JAX_EARLY)
        >>> xf.make_jaxpr(lambda x: square(x) + 1)(2.0)
        { lambda ; a:f32[]. let b:f32[] = mul a a; c:f32[] = add b 1.0:f32[] in (c,) }
    """

    JAX_EARLY = "jax_early"
    JAX_LATE = "jax_late"
    XLA_EARLY = "xla_early"
    XLA_LATE = "xla_late"
    AUTO = "auto"


_IN_EQUATIONS = {Inline.AUTO: False, Inline.JAX_LATE: True}  # the parameter `inline` of the calls of internal functions


def as_parameter(inline: Any) -> bool | Inline:
    """Return the parameter `inline` of calls: True for late inlining and False for none, as of internal functions."""
    if isinstance(inline, (bool, Inline)):
        return _IN_EQUATIONS.get(inline, inline)  # type: ignore[call-overload]
    raise ValueError(f"jit got an invalid inline option, {inline!r}: give True, False or a member of xlafront.Inline.")
