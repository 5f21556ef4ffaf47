"""`sequential_vmap`: a function that is mapped in a loop."""

from __future__ import annotations

from collections.abc import Callable

from xlafront.control.scan import map as map_elements
from xlafront.core import tree
from xlafront.transforms.calls.custom_vmap import custom_vmap


def sequential_vmap(f: Callable) -> custom_vmap:
    """A function that `vmap` maps one element after the other, in a loop.

    - `f`: the function.

    >>> xf.vmap(sequential_vmap(lambda x: 2 * x))(xnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size, in_batched, *args):
        leaves, in_tree = tree.flatten(args)
        batched = tree.leaves(in_batched)

        def one(elements):
            given = iter(elements)
            return mapped(*in_tree.unflatten([next(given) if b else x for x, b in zip(leaves, batched)]))

        value = map_elements(one, [x for x, b in zip(leaves, batched) if b])
        return value, tree.map(lambda _: True, value)

    return mapped
