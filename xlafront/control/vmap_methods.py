"""The `vmap_method` of calls whose inside is not known: callbacks and foreign functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.control.scan import scan
from xlafront.core import tracing
from xlafront.lax.shapes import broadcast_in_dim, expand_dims, move_dim, zeros_of
from xlafront.lax.slicing import concatenate, index_in_dim

METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)


def check(user: str, vmap_method: str | None) -> None:
    if vmap_method not in METHODS:
        raise ValueError(f"{user} takes as vmap_method one of the allowed methods, {', '.join(map(repr, METHODS))}, got "
                         f"{vmap_method!r}.")


def elements(bind: Callable[..., Sequence[Any]], size: int, operands, dims) -> list[list[Any]]:
    """`bind` on each element of the batch, one after the other."""
    return [list(bind(*[x if d is None else index_in_dim(x, i, d, keepdims=False) for x, d in zip(operands, dims)]))
            for i in range(size)]


def one_by_one(bind: Callable[..., Sequence[Any]], size: int, operands, dims, result_avals, unroll: bool):
    """The results for all elements, computed in a loop (at once where nothing is traced, or with `unroll` written out)."""
    if size == 0:
        results = [zeros_of(aval.update(shape=(0, *aval.shape))) for aval in result_avals]
    elif unroll or tracing.thread.trace is tracing.eval_trace:
        rows = elements(bind, size, operands, dims)
        results = [concatenate([broadcast_in_dim(x, (1, *aval.shape), range(1, aval.ndim + 1)) for x in column], 0)
                   for column, aval in zip(zip(*rows), result_avals)]
    else:
        batched = [move_dim(x, d, 0) for x, d in zip(operands, dims) if d is not None]

        def step(carry, elements):
            given = iter(elements)
            return carry, list(bind(*[x if d is None else next(given) for x, d in zip(operands, dims)]))

        _, results = scan(step, (), batched, length=size)
    return results, [0] * len(result_avals)


def batched_operands(vmap_method: str, size: int, operands, dims) -> list[Any]:
    """The operands of one call for the whole batch."""
    found = []
    for x, d in zip(operands, dims):
        if d is not None:
            x = move_dim(x, d, 0)
        elif vmap_method == "expand_dims":
            x = expand_dims(x, (0,))
        elif vmap_method == "broadcast_all":
            shape = np.shape(x)
            x = broadcast_in_dim(x, (size, *shape), range(1, len(shape) + 1))
        found.append(x)
    return found
