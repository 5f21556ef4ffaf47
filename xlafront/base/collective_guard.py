"""`no_collectives`: the mesh axes over which programs must not communicate."""

from __future__ import annotations

from typing import Any

from xlafront.base.config import UserContext


class _ForbiddenAxes(UserContext):
    """Forbid collectives over some mesh axes, of the type `Explicit` or in a `shard_map`.

    Functions are traced again in the context. An operation raises `errors.ForbiddenCollectiveError` if it would communicate
    over one of the axes: if an operand is sharded over it and no result is sharded or unreduced over it, if `reshard` shards
    another dimension over it, and if it is a collective over the axis.

    Args:
        new_val: Set of axis names.

    Returns:
        A context manager, also a decorator.

    Example:
        >>> with xf.sharding.no_collectives({"data"}):
        ...     y = xf.jit(lambda x: x + 1)(1.0)
    """

    __slots__ = ()
    name = "no_collectives"

    def __call__(self, new_val: Any) -> Any:
        if not isinstance(new_val, (set, frozenset)):
            raise TypeError(f"no_collectives takes the axis names as a set or frozenset, got {new_val!r} of type "
                            f"{type(new_val).__name__}.")
        return super().__call__(frozenset(new_val))


no_collectives = _ForbiddenAxes(frozenset())
