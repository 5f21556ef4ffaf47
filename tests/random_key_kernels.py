"""Kernels that make random bits of Threefry keys, with the bits by NumPy, for the tests of values and those of compilation."""

import math

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, random
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu

WORDS = np.uint32([0x13579BDF, 0x2468ACE0])


def cipher(key, high, low):
    """The two words that Threefry-2x32 makes of two words, in twenty rounds."""
    k0, k1 = (int(k) for k in key)
    keys, first, second = [k0, k1, k0 ^ k1 ^ 0x1BD11BDA], (np.uint64(high) + np.uint64(k0)), (low.astype(np.uint64) + np.uint64(k1))
    mask = np.uint64(0xFFFFFFFF)
    first, second = first + 0 * second, second & mask
    for step in range(5):
        for count in ((13, 15, 26, 6), (17, 29, 16, 24))[step % 2]:
            first = (first + second) & mask
            second = ((second << np.uint64(count)) | (second >> np.uint64(32 - count))) & mask ^ first
        first = (first + np.uint64(keys[(step + 1) % 3])) & mask
        second = (second + np.uint64(keys[(step + 2) % 3] + step + 1)) & mask
    return first.astype(np.uint32), second.astype(np.uint32)


def bits(key, shape, dtype=np.uint32):
    first, second = cipher(key, 0, np.arange(math.prod(shape), dtype=np.uint32))
    return (first ^ second).astype(dtype).reshape(shape)


def folded(key, number):
    return [int(x[0]) for x in cipher(key, 0, np.uint32([number]))]


def _uniform(words):
    return ((words >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)


def _wrapped(ref):
    return random.wrap_key_data(xnp.stack([ref[0], ref[1]]))


# What a kernel does with the reference to the words, and the bits.
CASES = {
    "words": (lambda ref: random.bits(_wrapped(ref), (8, 128)), bits(WORDS, (8, 128))),
    "three dimensions": (lambda ref: random.bits(_wrapped(ref), (3, 8, 128)), bits(WORDS, (3, 8, 128))),
    "any shape": (lambda ref: random.bits(_wrapped(ref), (5, 77)), bits(WORDS, (5, 77))),
    "16 bits": (lambda ref: random.bits(_wrapped(ref), (16, 128), np.uint16), bits(WORDS, (16, 128), np.uint16)),
    "uniform": (lambda ref: random.uniform(_wrapped(ref), (8, 128)), _uniform(bits(WORDS, (8, 128)))),
    "fold_in": (lambda ref: random.bits(random.fold_in(_wrapped(ref), 3), (8, 128)), bits(folded(WORDS, 3), (8, 128))),
    "a seed": (lambda ref: random.bits(random.key(ref[0]), (8, 128)), bits((0, WORDS[0]), (8, 128))),
    "the words of a key": (lambda ref: random.key_data(_wrapped(ref)) + xnp.zeros((8, 2), np.uint32), np.tile(WORDS, (8, 1)))}


def kernel(name, interpret=False):
    """Return the kernel of a case, a function of the words."""
    function, expected = CASES[name]

    def body(words_ref, o_ref):
        o_ref[...] = function(words_ref)

    return pl.pallas_call(body, xf.ShapeDtypeStruct(expected.shape, expected.dtype), interpret=interpret,
                          in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)])


def of_key(key, interpret=False):
    """Return bits of a key that is an argument of the kernel, for each step of the grid."""
    def body(key_ref, o_ref):
        step = pl.program_id(0)
        o_ref[...] = random.bits(random.fold_in(key_ref[...], lax.convert_element_type(step, np.uint32)), (8, 128))

    return pl.pallas_call(body, xf.ShapeDtypeStruct((16, 128), np.uint32), grid=2, interpret=interpret, out_specs=pl.BlockSpec(
        (8, 128), lambda i: (i, 0)), in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)])(key)
