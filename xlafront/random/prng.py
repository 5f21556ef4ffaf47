"""Random keys: implementations, making keys, splitting them, turning them into bits.

An implementation is four functions on the words of one key. Keys are arrays of a dtype of their own (`key`), or, in
older style, plain uint32 arrays of words (`PRNGKey`); functions take both and return what they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import dtypes, errors, source, tracing
from xlafront.core.dtypes import PRNGKeyDType
from xlafront.core.keys import KeyArray
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.lax import shapes
from xlafront.lax.device_put import put_leaf
from xlafront.lax.elementwise import as_type
from xlafront.lax.keys import clone_p, unwrap_p, wrap_p
from xlafront.lax.resharding import target_of
from xlafront.numpy.creation import asarray
from xlafront.numpy.promotion import check_arraylike
from xlafront.random import counters, rbg, threefry
from xlafront.random.primitives import draw_bits, random_fold_in_p, random_seed_p, random_split_p
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.staging.library import library, written_once


class PRNGImpl(NamedTuple):
    """A random number generator: the shape of a key's words, and what to do with them."""

    key_shape: tuple[int, ...]
    seed: Callable[[Any], Any]
    split: Callable[[Any, tuple[int, ...]], Any]
    random_bits: Callable[[Any, int, tuple[int, ...]], Any]
    fold_in: Callable[[Any, Any], Any]
    name: str = "<unnamed>"
    tag: str = "?"

    def __hash__(self):
        return hash(self.tag)

    def __str__(self):
        return self.tag

    def __reduce__(self):
        """Pickled by name where that says all."""
        return (resolve_impl, (self.name,)) if IMPLEMENTATIONS.get(self.name) is self else (PRNGImpl, tuple(self))


threefry_prng_impl = PRNGImpl((2,), threefry.seed, threefry.split, threefry.random_bits, threefry.fold_in,
                              name="threefry2x32", tag="fry")
IMPLEMENTATIONS: dict[str, PRNGImpl] = {impl.name: impl for impl in (
    threefry_prng_impl,
    PRNGImpl((4,), rbg.seed, rbg.split, rbg.random_bits, rbg.fold_in, name="rbg", tag="rbg"),
    PRNGImpl((4,), rbg.seed, rbg.unsafe_split, rbg.random_bits, rbg.unsafe_fold_in, name="unsafe_rbg", tag="urbg"),
    PRNGImpl(*counters.functions(counters.threefry4x32, 4, 4, seeds_counter=False), name="threefry4x32", tag="fry4"),
    PRNGImpl(*counters.functions(counters.philox2x32, 1, 2, seeds_counter=True), name="philox2x32", tag="phx2"),
    PRNGImpl(*counters.functions(counters.philox4x32, 2, 4, seeds_counter=True), name="philox4x32", tag="phx4"),
)}


def resolve_impl(impl=None) -> PRNGImpl:
    """The implementation of this name; the setting `default_prng_impl` without one."""
    if impl is None:
        impl = config.default_prng_impl.value
    if isinstance(impl, PRNGImpl):
        return impl
    if isinstance(impl, PRNGKeyDType):
        return impl.impl
    if isinstance(impl, PRNGSpec):
        return impl._impl
    if not isinstance(impl, str):
        raise TypeError(f"a random number generator is given by its name or a key's dtype, not {errors.short(impl)}.")
    found = IMPLEMENTATIONS.get(impl)
    if found is None:
        raise ValueError(f"unrecognized PRNG implementation {impl!r}: there is no such random number generator; did you mean "
                         f"one of {', '.join(IMPLEMENTATIONS)}?")
    return found


class PRNGSpec:
    """What `key_impl` returns: which implementation a key is of."""

    __slots__ = ("_impl",)

    def __init__(self, impl: PRNGImpl):
        self._impl = impl

    def __repr__(self):
        return f"PRNGSpec({self._impl.name!r})"

    def __str__(self):
        return self._impl.tag

    def __eq__(self, other):
        return isinstance(other, PRNGSpec) and self._impl == other._impl

    def __hash__(self):
        return hash(self._impl)


def wrap(words, impl: PRNGImpl):
    """Words as a key array."""
    if type(words) is ArrayImpl and not tracing.is_tracing():
        return KeyArray(words, PRNGKeyDType(impl))
    return wrap_p.bind(words, impl=impl)


def as_keys(name: str, key):
    """What a user passed as keys, as a key array. Hot: every random function."""
    if type(key) is KeyArray:
        return key
    aval = getattr(key, "aval", None)
    if aval is not None and isinstance(aval.dtype, PRNGKeyDType):
        return key
    return _of_legacy_words(name, key)


def _of_legacy_words(name, key):
    unwrapped = tracing.as_operand(key) if not isinstance(key, (ArrayImpl, tracing.Tracer)) else key
    if unwrapped is not key:
        return as_keys(name, unwrapped)
    impl = resolve_impl()
    if not tracing.is_arraylike(key) or not hasattr(key, "shape"):
        raise TypeError(f"random.{name} needs a random key (PRNG key data), got {errors.short(key)}, which is invalid: it has "
                        "no shape and dtype. Make one with xlafront.random.key(seed).")
    if key.dtype != np.uint32 or key.shape[key.ndim - len(impl.key_shape):] != impl.key_shape:
        raise TypeError(f"random.{name} needs a random key, got an array of shape {key.shape} and dtype {key.dtype}, which is "
                        "invalid PRNG key data. Make one with xlafront.random.key(seed); a key in older (legacy) style is a "
                        f"uint32 array whose shape ends with {impl.key_shape}.")
    if config.legacy_prng_key.value != "allow":
        message = (f"random.{name} was given a legacy uint32 key array, a raw key. Make keys with xlafront.random.key(seed), "
                   "or set legacy_prng_key (jax_legacy_prng_key) to 'allow'.")
        if config.legacy_prng_key.value == "error":
            raise ValueError(message)
        source.warn(message)
    return wrap(asarray(key) if isinstance(key, np.ndarray) else key, impl)


def single_key(name: str, key):
    """As `as_keys`, for functions that take one key. Hot."""
    keys = as_keys(name, key)
    # (what its type is takes an array of keys longer to say)
    if keys._base_array.ndim != len(keys.dtype.impl.key_shape) if type(keys) is KeyArray else keys.ndim:
        raise ValueError(f"random.{name} takes a single key, got a key array of shape {keys.shape}. Use vmap over them for "
                         "batching, or pick one.")
    return keys


def _like(given, keys):
    """Keys in the style of what was given: as words in place of words."""
    return keys if type(given) is KeyArray or isinstance(given.dtype, PRNGKeyDType) else _words(keys)


def _words(keys):
    return keys._base_array if type(keys) is KeyArray else unwrap_p.bind(keys)


# Making keys


@library(static="impl", name="random_seed")
def _seed_kernel(value, impl):
    return random_seed_p.bind(value, impl=impl)


def _seeded(name: str, seed, impl: PRNGImpl):
    if seed is None:
        raise ValueError(f"random.{name} needs a seed, an integer: None is none.")
    offset = config.random_seed_offset.value
    if offset and (isinstance(seed, int) or tracing.is_arraylike(seed)):
        seed = seed + offset
    if isinstance(seed, (int, np.integer)):
        # A Python int may have 64 bits; without 64-bit types its high word is lost, as when it is an array.
        given, seed = seed, int(seed)
        if not -(1 << 63) <= seed < 1 << (63 if type(given) is int else 64):
            raise OverflowError(f"the seed {given} of random.{name} does not fit 64 bits.")
        if config.enable_x64.value and (isinstance(given, int) or given.dtype.itemsize == 8):
            seed = np.asarray(seed & (1 << 64) - 1, np.uint64).astype(np.int64)[()]
        else:
            seed = np.asarray(seed & 0xFFFFFFFF, np.uint32).astype(np.int32)[()]
    elif not tracing.is_arraylike(seed) or not dtypes.is_integer(tracing.aval_of(seed).dtype):
        raise TypeError(f"the seed of random.{name}, a PRNG key seed, must be a scalar integer, got {errors.short(seed)}.")
    if np.ndim(seed):
        raise TypeError(f"random.{name} takes a scalar seed, got an array of shape {np.shape(seed)}. Use vmap for several "
                        "(batching).")
    return _seed_kernel(seed, impl)


@written_once
def key(seed: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """A random key from a number.

    - `seed`: an integer, which may be an array without dimensions.
    - `impl`: the name of the generator, "threefry2x32" for one; when left out, the setting `default_prng_impl` says it.
    - `dtype`: another way to say it, a dtype of keys as of `key_dtype`.

    >>> random.key(0)
    Array((), dtype=key<fry>) overlaying:
    [0 0]
    """
    chosen = resolve_impl(dtype if impl is None and dtype is not None else impl)
    return _seeded("key", seed, chosen)


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """A random key in older style: a uint32 array of its words. New programs use `key`.

    - `seed`, `impl`: as of `key`.

    >>> random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    chosen = resolve_impl(impl)
    made = _seeded("PRNGKey", seed, chosen)
    return made if config.enable_custom_prng.value else _words(made)


@written_once
def key_data(keys: ArrayLike) -> Array:
    """The words of random keys.

    - `keys`: an array of keys. The result has more dimensions than that, and the dtype uint32.

    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    words = _words(as_keys("key_data", keys))
    own = getattr(words, "sharding", None)
    if isinstance(words, tracing.Tracer) or not isinstance(own, NamedSharding) or not own.mesh.explicit:
        return words
    return put_leaf(words, own.update(spec=own.spec.update(partitions=own.spec.padded(words.ndim))))


def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """Random keys from their words, the inverse of `key_data`.

    - `key_bits_array`: the words, an array of dtype uint32.
    - `impl`, `dtype`: the generator, as of `key`.

    >>> random.wrap_key_data(xnp.array([0, 7], "uint32")) == random.key(7)
    Array(True, dtype=bool)
    """
    chosen = resolve_impl(dtype if impl is None and dtype is not None else impl)
    words = key_bits_array
    if isinstance(words, np.ndarray):
        words = asarray(words)
    if not hasattr(words, "dtype") or words.dtype != np.uint32:
        raise TypeError(f"wrap_key_data needs a uint32 array, got {errors.short(words)}, which is invalid PRNG key data.")
    if tuple(words.shape[words.ndim - len(chosen.key_shape):]) != chosen.key_shape:
        raise TypeError(f"invalid PRNG key data: the words of {chosen.name} keys have a shape that ends with "
                        f"{chosen.key_shape}, got {words.shape}.")
    return wrap(words, chosen)


def key_dtype(impl_spec: Any = None) -> PRNGKeyDType:
    """The dtype of keys.

    - `impl_spec`: their generator, as `impl` of `key`.

    >>> random.key_dtype("rbg")
    key<rbg>
    """
    return PRNGKeyDType(resolve_impl(impl_spec))


def key_impl(keys: ArrayLike) -> Any:
    """The generator of random keys: its name, or an object that `key` takes as `impl`.

    - `keys`: an array of keys.

    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    impl = as_keys("key_impl", keys).dtype.impl
    return impl.name if IMPLEMENTATIONS.get(impl.name) is impl else PRNGSpec(impl)


def clone(key: ArrayLike) -> Array:
    """The same key for a second use on purpose, which `debug_key_reuse` does not complain of.

    - `key`: a random key.

    >>> key = random.key(0)
    >>> bool(random.bits(random.clone(key)) == random.bits(key))
    True
    """
    check_arraylike("clone", key)
    return clone_p.bind(key) if isinstance(tracing.aval_of(key).dtype, PRNGKeyDType) else asarray(key)


# Splitting


@library(static="shape", name="random_split")
def _split_kernel(key, shape):
    return random_split_p.bind(key, shape=shape)


@written_once
def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """Several independent keys from one, which is then used up.

    - `key`: a random key.
    - `num`: how many, or the shape of an array of them.

    >>> key, subkey = random.split(random.key(0))
    """
    single = single_key("split", key)
    shape = (num,) if isinstance(num, int) else shapes.static_shape("split", num)
    if any(n < 0 for n in shape if type(n) is int):
        raise TypeError(f"random.split makes no negative number of keys, got {num}.")
    return _like(key, _split_kernel(single, shape))


@library(name="random_fold_in")
def _fold_in_kernel(key, data):
    return random_fold_in_p.bind(key, as_type(data, dtypes.uint32, False))


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A key made of a key and a number, such as that of a step; different numbers give independent keys.

    - `key`: a random key.
    - `data`: an integer; what is no uint32 is converted to one.

    >>> step_key = random.fold_in(random.key(0), 1000)
    """
    single = single_key("fold_in", key)
    if isinstance(data, int):
        if not 0 <= data < 1 << 32:
            raise OverflowError(f"random.fold_in takes integers of 32 bits without sign, got {data}.")
        data = np.uint32(data)
    elif data is None or isinstance(data, str):
        raise ValueError(f"random.fold_in takes an integer, got {data!r}.")
    elif isinstance(data, complex):
        raise TypeError(f"random.fold_in takes an integer, got the complex number {data}.")
    elif np.ndim(data):
        raise TypeError(f"random.fold_in takes a scalar, got an array of shape {np.shape(data)}. Use vmap for several "
                        "(batching).")
    elif not isinstance(tracing.aval_of(data).dtype, np.dtype):
        raise ValueError(f"random.fold_in takes a number, got dtype {tracing.aval_of(data).dtype}: fold in its key_data.")
    return _like(key, _fold_in_kernel(single, data))


# Bits


@library(static=("width", "shape"), name="random_bits")
def _bits_kernel(key, width, shape):
    return draw_bits(key, width, shape)


@written_once
def bits(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
         out_sharding: ShardingLike = None) -> Array:
    """Random bits as unsigned integers, uniform over all values of the dtype.

    - `key`, `shape`: a random key; the shape of the array.
    - `dtype`: uint8, uint16, uint32 or uint64; that of the size of the default integers when left out.
    - `out_sharding`: how the array is split over explicit mesh axes.

    >>> random.bits(random.key(0), (2,), "uint8").dtype
    dtype('uint8')
    """
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "random.bits")
    if dtype is None:
        d = np.dtype(f"uint{8 * d.itemsize}")
    if not dtypes.is_unsigned(d) or d.itemsize * 8 not in (8, 16, 32, 64):
        raise ValueError(f"random.bits makes unsigned integers of 8, 16, 32 or 64 bits, its dtype cannot be {d}.")
    single = single_key("bits", key)
    return placed(_bits_kernel(single, 8 * d.itemsize, shapes.static_shape("random.bits", shape)), out_sharding)


def placed(result, sharding):
    target = None if sharding is None else target_of("random", sharding, np.shape(result))
    return result if target is None else put_leaf(result, target)


