"""Custom random number generators, and the built-in ones by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import xlafront.numpy as xnp
from xlafront.api.vmap import vmap
from xlafront.random import prng
from xlafront.random.prng import PRNGImpl, PRNGSpec, threefry_prng_impl as threefry_prng_impl
from xlafront.random.threefry import threefry2x32_p as threefry2x32_p


def define_prng_impl(*, key_shape: tuple[int, ...], seed: Callable, split: Callable, random_bits: Callable, fold_in: Callable,
                     name: str = "<unnamed>", tag: str = "?") -> Hashable:
    """Define a random number generator, for `impl` of `random.key`.

    `seed(number)` returns the key data of a key, `split(words, shape)` that of new keys, `fold_in(words, number)` that of
    another key, and `random_bits(words, bit_width, shape)` random integers.

    Example:
        >>> from xlafront.random import threefry
        >>> impl = define_prng_impl(key_shape=(2,), seed=threefry.seed, split=threefry.split, random_bits=threefry.random_bits,
        ...                         fold_in=threefry.fold_in, name="mine", tag="mine")
        >>> xf.random.key(0, impl=impl).dtype
        key<mine>
    """
    return PRNGSpec(PRNGImpl(tuple(key_shape), seed, split, random_bits, fold_in, name=name, tag=tag))


def seed_with_impl(impl: Hashable, seed: Any):
    """Return a key of an implementation from an integer seed.

    Example:
        >>> key = seed_with_impl(threefry_prng_impl, 3)
    """
    return random_seed(seed, impl)


def random_seed(seeds: Any, impl: Hashable):
    """Return keys of an implementation, one for each element of an array of seeds.

    Example:
        >>> random_seed(xnp.arange(3), threefry_prng_impl).shape
        (3,)
    """
    make = lambda seed: prng.key(seed, impl=impl)
    for _ in range(xnp.ndim(seeds)):
        make = vmap(make)
    return make(seeds)


def threefry_2x32(keypair: Any, count: Any):
    """Encrypt an array of counters with the Threefry cipher and a key of two words.

    Example:
        >>> threefry_2x32(xnp.array([1, 2], "uint32"), xnp.arange(4, dtype="uint32")).shape
        (4,)
    """
    first, second = keypair
    words = xnp.asarray(count)
    if words.dtype != "uint32" or xnp.asarray(first).dtype != "uint32":
        raise TypeError(f"threefry_2x32 takes uint32 words, got a key of {xnp.asarray(first).dtype} and a count of "
                        f"{words.dtype}.")
    flat = words.ravel()
    odd = flat.size % 2
    padded = xnp.concatenate([flat, xnp.zeros(odd, "uint32")])
    high, low = xnp.split(padded, 2)
    out = xnp.concatenate(threefry2x32_p.bind(first, second, high, low))
    return (out[:-1] if odd else out).reshape(words.shape)


def __getattr__(name: str):
    named = name.removesuffix("_prng_impl")
    if named == name or named not in prng.IMPLEMENTATIONS:
        raise AttributeError(f"xlafront.extend.random has no {name!r}")
    return prng.IMPLEMENTATIONS[named]
