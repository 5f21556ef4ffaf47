"""Generators over XLA's own bit generator: fast to compile and to run on accelerators, not the same on all of them.

`rbg` splits keys and folds numbers into them with Threefry; `unsafe_rbg` does this with XLA's generator too, about whose keys
nothing is known. A key is four words, two Threefry keys. Under `vmap` the first key of a batch gives the bits of all.
"""

from __future__ import annotations

import math

import numpy as np

from xlafront.lax import shapes, slicing
from xlafront.lax.elementwise import xor_
from xlafront.lax.random_bits import RandomAlgorithm, rng_bit_generator_p
from xlafront.random import threefry

_EVERY = 10  # of the numbers drawn, one in ten makes a new key


def _two(key):
    return threefry.part(key, 0, 2), threefry.part(key, 2, 4)


def _joined(first, second):
    return slicing.concatenate_p.bind(first, second, dimension=np.ndim(first) - 1)


def seed(value):
    """The Threefry key of a number, twice."""
    half = threefry.seed(value)
    return _joined(half, half)


def split(key, shape: tuple[int, ...]):
    """Independent keys: `uint32[*shape, 4]`."""
    return _joined(*(threefry.split(half, shape) for half in _two(key)))


def fold_in(key, data):
    """A key made of a key and a uint32 scalar."""
    return _joined(*(threefry.fold_in(half, data) for half in _two(key)))


def random_bits(key, width: int, shape: tuple[int, ...]):
    """Random unsigned integers of 8, 16, 32 or 64 bits."""
    return rng_bit_generator_p.bind(key, shape=shape, dtype=np.dtype(f"uint{width}"), algorithm=RandomAlgorithm.RNG_DEFAULT,
                                    out_sharding=None)[1]


def unsafe_split(key, shape: tuple[int, ...]):
    """Keys drawn from the generator."""
    drawn = random_bits(key, 32, (_EVERY * math.prod(shape), 4))
    return shapes.reshape_to(slicing.slice(drawn, (0, 0), np.shape(drawn), (_EVERY, 1)), (*shape, 4))


def unsafe_fold_in(key, data):
    """A key made of a key and a uint32 scalar, from what the generator draws under the scalar."""
    drawn = random_bits(seed(data), 32, (_EVERY, 4))
    last = shapes.reshape_to(slicing.slice(drawn, (_EVERY - 1, 0), (_EVERY, 4)), (4,))
    return xor_(key, last)
