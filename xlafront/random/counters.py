"""The other counter-based generators of Salmon et al. (2011): Threefry-4x32, Philox-2x32 and Philox-4x32.

As with Threefry-2x32 the bits of an array are the cipher, under the key, of the positions of its elements. A cipher is a
function of the words of the key and the words of the counter. It returns as many words as the counter has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from xlafront.lax.elementwise import PRIMITIVES, add, as_type, or_
from xlafront.random.threefry import (
    broadcast_in_dim,
    element_positions,
    join_words,
    multiply_wide,
    split_words,
    stack_words,
    word,
)

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_GOLDEN_RATIO, _ROOT_OF_3 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


def _xor(*words):
    return reduce(PRIMITIVES["xor"].bind, words)


def _rotate_left(x, count: int):
    left, right = (PRIMITIVES[name].bind for name in ("shift_left", "shift_right_logical"))
    return or_(left(x, np.uint32(count)), right(x, np.uint32(32 - count)))


def threefry4x32(key, counter):
    """Encrypt a counter in twenty rounds."""
    keys = [*key, _xor(*key, np.uint32(0x1BD11BDA))]
    x = [add(c, k) for c, k in zip(counter, keys)]
    for step in range(20):
        partners = (1, 3) if step % 2 == 0 else (3, 1)
        for into, partner, count in zip((0, 2), partners, _ROTATIONS[step % 8]):
            x[into] = add(x[into], x[partner])
            x[partner] = _xor(x[into], _rotate_left(x[partner], count))
        if step % 4 == 3:
            injection = step // 4 + 1
            x = [add(v, keys[(injection + i) % 5]) for i, v in enumerate(x)]
            x[3] = add(x[3], np.uint32(injection))
    return x


def philox2x32(key, counter):
    """Encrypt a counter in ten rounds."""
    [key], (left, right) = key, counter
    for _ in range(10):
        high, low = multiply_wide(left, 0xD256D193)
        left, right = _xor(high, right, key), low
        key = add(key, _GOLDEN_RATIO)
    return [left, right]


def philox4x32(key, counter):
    """Encrypt a counter in ten rounds."""
    (k0, k1), (a, b, c, d) = key, counter
    for _ in range(10):
        (high_a, low_a), (high_c, low_c) = multiply_wide(a, 0xD2511F53), multiply_wide(c, 0xCD9E8D57)
        a, b, c, d = _xor(high_c, b, k0), low_c, _xor(high_a, d, k1), low_a
        k0, k1 = add(k0, _GOLDEN_RATIO), add(k1, _ROOT_OF_3)
    return [a, b, c, d]


def functions(cipher: Callable, key_size: int, counter_size: int, seeds_counter: bool) -> tuple:
    """Return the shape of a key and the functions `seed`, `split`, `random_bits` and `fold_in` of a generator.

    A seed is encrypted as the counter under the key 0 if `seeds_counter`, otherwise as the key at the counter 0. In the second
    case 64-bit random bits mix all words.
    """
    def words(key):
        return [word(key, i) for i in range(key_size)]

    def zeros(shape, count):
        return [broadcast_in_dim(np.uint32(0), shape, ()) for _ in range(count)]

    def as_key(encrypted):
        return stack_words(*encrypted[:key_size])

    def seed(value):
        seed_words = split_words(value)
        key, counter = zeros((), key_size), zeros((), counter_size)
        if seeds_counter:
            counter[:2] = seed_words
        else:
            key[:2] = seed_words
        return as_key(cipher(key, counter))

    def counter_words(key, shape):
        high, low = (x if np.shape(x) == shape else broadcast_in_dim(x, shape, ()) for x in element_positions(shape))
        return words(key), high, low, zeros(shape, counter_size - 2)

    def split(key, shape):
        key, high, low, rest = counter_words(key, shape)
        return as_key(cipher(key, [*rest, high, low]))

    def fold_in(key, data):
        return as_key(cipher(words(key), [*zeros((), counter_size - 1), data]))

    def random_bits(key, width, shape):
        key, high, low, rest = counter_words(key, shape)
        encrypted = cipher(key, [high, low, *rest])
        if width == 64:
            first, second, *others = encrypted
            return join_words(first, second) if seeds_counter else join_words(_xor(first, others[0]), _xor(second, others[1]))
        return as_type(_xor(*encrypted), np.dtype(f"uint{width}"), False)

    return (key_size,), seed, split, random_bits, fold_in
