"""Generators over XLA's own bit generator: fast to compile and to run on accelerators, with bits that depend on the platform.

`rbg` splits keys and folds integers into them with Threefry. `unsafe_rbg` uses XLA's generator for this as well, with keys of
unproven quality. A key is four words, two Threefry keys. Under `vmap` the first key of a batch determines the bits of all.
"""

from __future__ import annotations

import math

import numpy as np

from xlafront.lax import shapes, slicing
from xlafront.lax.elementwise import xor_
from xlafront.lax.random_bits import RandomAlgorithm, rng_bit_generator_p
from xlafront.random import threefry

_EVERY = 10  # Every tenth random word group becomes a new key.


def _halves(key):
    return threefry.slice_words(key, 0, 2), threefry.slice_words(key, 2, 4)


def _concatenate(first, second):
    return slicing.concatenate_p.bind(first, second, dimension=np.ndim(first) - 1)


def seed(value):
    """Return the Threefry key of an integer, twice."""
    half = threefry.seed(value)
    return _concatenate(half, half)


def split(key, shape: tuple[int, ...]):
    """Return independent keys: `uint32[*shape, 4]`."""
    return _concatenate(*(threefry.split(half, shape) for half in _halves(key)))


def fold_in(key, data):
    """Return the key of a key and a uint32 scalar."""
    return _concatenate(*(threefry.fold_in(half, data) for half in _halves(key)))


def random_bits(key, width: int, shape: tuple[int, ...]):
    """Return random unsigned integers of 8, 16, 32 or 64 bits."""
    return rng_bit_generator_p.bind(key, shape=shape, dtype=np.dtype(f"uint{width}"), algorithm=RandomAlgorithm.RNG_DEFAULT,
                                    out_sharding=None)[1]


def unsafe_split(key, shape: tuple[int, ...]):
    """Return keys sampled from the generator."""
    words = random_bits(key, 32, (_EVERY * math.prod(shape), 4))
    return shapes.reshape_to(slicing.slice(words, (0, 0), np.shape(words), (_EVERY, 1)), (*shape, 4))


def unsafe_fold_in(key, data):
    """Return the key of a key and a uint32 scalar, sampled from the generator under the scalar as its seed."""
    words = random_bits(seed(data), 32, (_EVERY, 4))
    last = shapes.reshape_to(slicing.slice(words, (_EVERY - 1, 0), (_EVERY, 4)), (4,))
    return xor_(key, last)
