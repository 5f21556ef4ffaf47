"""Pytrees as one vector."""

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
    """Makes a pytree of a vector again. Equal, hashed, pickled and copied by what it does."""

    treedef: tree.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[Any, ...]
    joint: Any

    def __call__(self, vector):
        """The pytree whose leaves are in `vector`: at its dtype if those of the leaves are one, else each at its own."""
        sizes = [math.prod(s) for s in self.shapes]
        vector = ravel(vector)
        if vector.size != sum(sizes):
            raise ValueError(f"unravel needs a vector of {sum(sizes)} elements, got {vector.size}.")
        of_one_kind = len(set(self.kinds)) <= 1
        if vector.dtype != self.joint and not of_one_kind:
            raise TypeError(f"unravel needs a vector of dtype {self.joint}, got {vector.dtype}.")
        bounds = np.cumsum([0, *sizes]).tolist()
        parts = [reshape_array(vector[a:b], s) for a, b, s in zip(bounds, bounds[1:], self.shapes)]
        if of_one_kind:
            return self.treedef.unflatten(parts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of complex numbers whose leaves were real the real part is meant
            return self.treedef.unflatten([part.astype(d) for part, d in zip(parts, self.kinds)])


def ravel_pytree(pytree: Any) -> tuple[Array, Any]:
    """The leaves of a pytree in one vector, and the function that makes the pytree of such a vector again.

    - `pytree`: the pytree, of arrays and numbers.

    >>> flat, unravel = ravel_pytree({"w": xnp.ones((2, 3)), "b": xnp.zeros(3)})
    """
    leaves, treedef = tree.flatten(pytree)
    for x in leaves:
        refuse_keys("ravel_pytree", x)
    kinds = tuple(dtypes.canonicalize_dtype(dtypes.operand_type(x)[0]) for x in leaves)
    joint = dtypes.result_type(*kinds) if kinds else dtypes.float32
    unravel = Unravel(treedef, tuple(np.shape(x) for x in leaves), kinds, joint)
    parts = [ravel(asarray(x)) for x in leaves]
    if not parts:
        return zeros(0, joint), unravel
    return concatenate(parts if len(set(kinds)) == 1 else [part.astype(joint) for part in parts]), unravel
