"""Conversion between pytrees and vectors."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import dtypes, tree
from xlafront.core.typing import Array
from xlafront.numpy.creation import asarray, zeros
from xlafront.numpy.manipulation import concatenate, ravel, reshape_array
from xlafront.numpy.promotion import refuse_keys


class Unravel(NamedTuple):
    """The inverse of `ravel_pytree`. Instances are compared, hashed, pickled and copied by value."""

    treedef: tree.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[Any, ...]
    joint: Any

    def __call__(self, vector):
        """Return the pytree with its leaves read from `vector`. If all leaves had one dtype, the result has that of
        `vector`."""
        sizes = [math.prod(s) for s in self.shapes]
        vector = ravel(vector)
        if vector.size != sum(sizes):
            raise ValueError(f"unravel needs a vector of {sum(sizes)} elements, got {vector.size}.")
        has_one_dtype = len(set(self.kinds)) <= 1
        if vector.dtype != self.joint and not has_one_dtype:
            raise TypeError(f"unravel needs a vector of dtype {self.joint}, got {vector.dtype}.")
        bounds = np.cumsum([0, *sizes]).tolist()
        leaves = [reshape_array(vector[a:b], s) for a, b, s in zip(bounds, bounds[1:], self.shapes)]
        if has_one_dtype:
            return self.treedef.unflatten(leaves)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # discarding the imaginary part is intended for leaves that were real
            return self.treedef.unflatten([leaf.astype(d) for leaf, d in zip(leaves, self.kinds)])


def ravel_pytree(pytree: Any) -> tuple[Array, Any]:
    """Flatten a pytree into one vector.

    Args:
        pytree: A pytree of arrays and scalars.

    Returns:
        A tuple of the vector and a function that converts such a vector back to the pytree.

    Example:
        >>> flat, unravel = ravel_pytree({"w": xnp.ones((2, 3)), "b": xnp.zeros(3)})
    """
    leaves, treedef = tree.flatten(pytree)
    for x in leaves:
        refuse_keys("ravel_pytree", x)
    kinds = tuple(dtypes.canonicalize_dtype(dtypes.operand_type(x)[0]) for x in leaves)
    joint = dtypes.result_type(*kinds) if kinds else dtypes.float32
    unravel = Unravel(treedef, tuple(np.shape(x) for x in leaves), kinds, joint)
    vectors = [ravel(asarray(x)) for x in leaves]
    if not vectors:
        return zeros(0, joint), unravel
    return concatenate(vectors if len(set(kinds)) == 1 else [vector.astype(joint) for vector in vectors]), unravel
