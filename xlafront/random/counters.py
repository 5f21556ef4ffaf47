"""The other counter-based generators of Salmon et al. (2011): Threefry-4x32, Philox-2x32 and Philox-4x32.

As with Threefry-2x32 the bits of an array are the cipher, under the key, of the positions of its elements. A cipher is a
function of the key's words and the counter's words that gives as many words as the counter has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from xlafront.lax.elementwise import PRIMITIVES, add, as_type, or_
from xlafront.random.threefry import counts, halves, join, spread, together, wide_product, word

_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_GOLDEN_RATIO, _ROOT_OF_3 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


def _xor(*words):
    return reduce(PRIMITIVES["xor"].bind, words)


def _rotated(x, count: int):
    left, right = (PRIMITIVES[name].bind for name in ("shift_left", "shift_right_logical"))
    return or_(left(x, np.uint32(count)), right(x, np.uint32(32 - count)))


def threefry4x32(key, counter):
    """Twenty rounds."""
    keys = [*key, _xor(*key, np.uint32(0x1BD11BDA))]
    x = [add(c, k) for c, k in zip(counter, keys)]
    for step in range(20):
        partners = (1, 3) if step % 2 == 0 else (3, 1)
        for into, partner, count in zip((0, 2), partners, _ROTATIONS[step % 8]):
            x[into] = add(x[into], x[partner])
            x[partner] = _xor(x[into], _rotated(x[partner], count))
        if step % 4 == 3:
            turn = step // 4 + 1
            x = [add(v, keys[(turn + i) % 5]) for i, v in enumerate(x)]
            x[3] = add(x[3], np.uint32(turn))
    return x


def philox2x32(key, counter):
    """Ten rounds."""
    [key], (left, right) = key, counter
    for _ in range(10):
        high, low = wide_product(left, 0xD256D193)
        left, right = _xor(high, right, key), low
        key = add(key, _GOLDEN_RATIO)
    return [left, right]


def philox4x32(key, counter):
    """Ten rounds."""
    (k0, k1), (a, b, c, d) = key, counter
    for _ in range(10):
        (high_a, low_a), (high_c, low_c) = wide_product(a, 0xD2511F53), wide_product(c, 0xCD9E8D57)
        a, b, c, d = _xor(high_c, b, k0), low_c, _xor(high_a, d, k1), low_a
        k0, k1 = add(k0, _GOLDEN_RATIO), add(k1, _ROOT_OF_3)
    return [a, b, c, d]


def functions(cipher: Callable, key_size: int, counter_size: int, seeds_counter: bool) -> tuple:
    """The shape of a key, `seed`, `split`, `random_bits` and `fold_in` of a generator.

    A seed is the counter under the key 0, or the key at the counter 0, whose generator mixes all words of 64 bits too.
    """
    def words(key):
        return [word(key, i) for i in range(key_size)]

    def zeros(shape, count):
        return [spread(np.uint32(0), shape, ()) for _ in range(count)]

    def made(encrypted):
        return together(*encrypted[:key_size])

    def seed(value):
        high_low = halves(value)
        key, counter = zeros((), key_size), zeros((), counter_size)
        if seeds_counter:
            counter[:2] = high_low
        else:
            key[:2] = high_low
        return made(cipher(key, counter))

    def at(key, shape):
        high, low = (x if np.shape(x) == shape else spread(x, shape, ()) for x in counts(shape))
        return words(key), high, low, zeros(shape, counter_size - 2)

    def split(key, shape):
        key, high, low, rest = at(key, shape)
        return made(cipher(key, [*rest, high, low]))

    def fold_in(key, data):
        return made(cipher(words(key), [*zeros((), counter_size - 1), data]))

    def random_bits(key, width, shape):
        key, high, low, rest = at(key, shape)
        encrypted = cipher(key, [high, low, *rest])
        if width == 64:
            first, second, *others = encrypted
            return join(first, second) if seeds_counter else join(_xor(first, others[0]), _xor(second, others[1]))
        return as_type(_xor(*encrypted), np.dtype(f"uint{width}"), False)

    return (key_size,), seed, split, random_bits, fold_in
