"""Pytrees as one vector."""

from __future__ import annotations

import numpy as np

from xlafront.core import dtypes, tree
from xlafront.numpy.creation import asarray, zeros
from xlafront.numpy.manipulation import concatenate, ravel, reshape


def ravel_pytree(pytree):
    """The leaves of a pytree in one vector, and the function that makes the pytree of such a vector again.

    >>> flat, unravel = ravel_pytree({"w": xnp.ones((2, 3)), "b": xnp.zeros(3)})
    """
    leaves, treedef = tree.flatten(pytree)
    if not leaves:
        return zeros(0), lambda flat: treedef.unflatten([])
    shapes = [np.shape(x) for x in leaves]
    kinds = [dtypes.canonicalize_dtype(dtypes.operand_type(x)[0]) for x in leaves]
    joint = dtypes.result_type(*kinds)
    bounds = np.cumsum([0, *[int(np.prod(s)) for s in shapes]]).tolist()
    flat = concatenate([ravel(asarray(x)).astype(joint) for x in leaves])

    def unravel(vector):
        """The pytree whose leaves are in `vector`."""
        if np.shape(vector) != (bounds[-1],):
            raise ValueError(f"unravel needs a vector of {bounds[-1]} elements, got shape {np.shape(vector)}.")
        given = dtypes.operand_type(vector)[0]
        if given != joint:
            raise TypeError(f"unravel needs a vector of dtype {joint}, got {given}.")
        parts = [reshape(vector[a:b], s) for a, b, s in zip(bounds, bounds[1:], shapes)]
        return treedef.unflatten([part.astype(d) for part, d in zip(parts, kinds)])

    return flat, unravel
