"""The `vmap_method` of opaque calls: callbacks and foreign functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.control.scan import scan
from xlafront.core import tracing
from xlafront.core.basic_primitives import move_dim
from xlafront.core.tangents import zeros_of
from xlafront.lax.shapes import broadcast_in_dim, expand_dims
from xlafront.lax.slicing import concatenate, index_in_dim

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Dims

METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)


def check(caller: str, vmap_method: str | None) -> None:
    if vmap_method not in METHODS:
        raise ValueError(f"{caller} takes as vmap_method one of the allowed methods, {', '.join(map(repr, METHODS))}, got "
                         f"{vmap_method!r}.")


def elements(bind: Callable[..., Sequence[Any]], size: int, operands: Sequence[Any], dims: Dims) -> list[list[Any]]:
    """Apply `bind` to each element of the batch, one after the other."""
    return [list(bind(*[x if d is None else index_in_dim(x, i, d, keepdims=False) for x, d in zip(operands, dims)]))
            for i in range(size)]


def one_by_one(bind: Callable[..., Sequence[Any]], size: int, operands: Sequence[Any], dims: Dims,
               result_avals: Sequence[Aval], unroll: bool) -> tuple[list[Any], list[int | None]]:
    """Compute the results for all elements in a loop; eagerly, or with `unroll`, the loop is a Python loop."""
    if size == 0:
        results = [zeros_of(aval.update(shape=(0, *aval.shape))) for aval in result_avals]
    elif unroll or tracing.thread.trace is tracing.eval_trace:
        rows = elements(bind, size, operands, dims)
        results = [concatenate([broadcast_in_dim(x, (1, *aval.shape), range(1, aval.ndim + 1)) for x in column], 0)
                   for column, aval in zip(zip(*rows), result_avals)]
    else:
        batched = [move_dim(x, d, 0) for x, d in zip(operands, dims) if d is not None]

        def step(carry: Any, elements: Sequence[Any]) -> tuple[Any, Any]:
            batched_elements = iter(elements)
            return carry, list(bind(*[x if d is None else next(batched_elements) for x, d in zip(operands, dims)]))

        _, results = scan(step, (), batched, length=size)
    return results, [0] * len(result_avals)


def batched_operands(vmap_method: str, size: int, operands: Sequence[Any], dims: Dims) -> list[Any]:
    """Return the operands of a single call for the whole batch."""
    batched = []
    for x, d in zip(operands, dims):
        if d is not None:
            x = move_dim(x, d, 0)
        elif vmap_method == "expand_dims":
            x = expand_dims(x, (0,))
        elif vmap_method == "broadcast_all":
            shape = np.shape(x)
            x = broadcast_in_dim(x, (size, *shape), range(1, len(shape) + 1))
        batched.append(x)
    return batched
