"""`sequential_vmap`: a batching rule that loops over the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlafront.control.scan import map as map_elements
from xlafront.core import tree
from xlafront.transforms.calls.custom_vmap import custom_vmap


def sequential_vmap(f: Callable) -> custom_vmap:
    """Make `vmap` of a function loop over the batch, one element at a time.

    Args:
        f: Function to batch.

    Returns:
        A function like `f` with this batching rule.

    Example:
        >>> xf.vmap(sequential_vmap(lambda x: 2 * x))(xnp.arange(3.0))
        Array([0., 2., 4.], dtype=float32)
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        leaves, in_tree = tree.flatten(args)
        batched = tree.leaves(in_batched)

        def apply_to_element(elements: Any) -> Any:
            batched_leaves = iter(elements)
            return mapped(*in_tree.unflatten([next(batched_leaves) if b else x for x, b in zip(leaves, batched)]))

        value = map_elements(apply_to_element, [x for x, b in zip(leaves, batched) if b])
        return value, tree.map(lambda _: True, value)

    return mapped
