"""Random keys: PRNG implementations, and functions that make keys, split them and turn them into bits.

An implementation is a set of four functions on the words of one key. Keys are arrays with a key dtype (`key`) or legacy
uint32 arrays of words (`PRNGKey`). Functions accept both and return keys in the style of their argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NewType

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl, NamedSharding
from xlafront.core import dtypes, errors, source, tracing
from xlafront.core.dtypes import PRNGKeyDType
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.lax import shapes
from xlafront.lax.device_put import put_leaf
from xlafront.lax.elementwise import as_type
from xlafront.lax.key_arrays import clone_p, unwrap_p, wrap_p
from xlafront.lax.resharding import resolve_out_sharding
from xlafront.numpy.creation import asarray
from xlafront.numpy.promotion import check_arraylike
from xlafront.random import counters, rbg, threefry
from xlafront.random.primitives import random_bits_of, random_fold_in_p, random_seed_p, random_split_p
from xlafront.runtime.keys import KeyArray
from xlafront.staging.library import library

Key = NewType("Key", ArrayImpl)
"""The type of keys, to annotate functions with."""


class PRNGImpl(NamedTuple):
    """A random number generator: the shape of a key's words and the functions on them."""

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
        """Pickle by name if the generator is one of the built-in implementations."""
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
    """Return the implementation with this name. Default: that of the setting `default_prng_impl`."""
    if impl is None:
        impl = config.default_prng_impl.value
    if isinstance(impl, PRNGImpl):
        return impl
    if isinstance(impl, PRNGKeyDType):
        return impl.impl
    if isinstance(impl, PRNGSpec):
        return impl._impl
    if not isinstance(impl, str):
        raise TypeError(f"impl must be the name of a random number generator or a key dtype, got {errors.short(impl)}.")
    found = IMPLEMENTATIONS.get(impl)
    if found is None:
        raise ValueError(f"unrecognized PRNG implementation {impl!r}. Did you mean one of {', '.join(IMPLEMENTATIONS)}?")
    return found


class PRNGSpec:
    """The result of `key_impl` for a generator without a registered name."""

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
    """Return a key array with these words."""
    if type(words) is ArrayImpl and not tracing.is_tracing():
        return KeyArray(words, PRNGKeyDType(impl))
    return wrap_p.bind(words, impl=impl)


def as_keys(name: str, key):
    """Return what the caller passed as keys as a key array. Hot: every random function."""
    if type(key) is KeyArray:
        return key
    aval = getattr(key, "aval", None)
    if aval is not None and isinstance(aval.dtype, PRNGKeyDType):
        return key
    return _wrap_legacy_keys(name, key)


def _wrap_legacy_keys(name, key):
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
    """Return the argument as a key array like `as_keys`, for functions that take one key. Hot."""
    keys = as_keys(name, key)
    # KeyArray.ndim would compute the array's aval, which is slower.
    if keys._base_array.ndim != len(keys.dtype.impl.key_shape) if type(keys) is KeyArray else keys.ndim:
        raise ValueError(f"random.{name} takes a single key, got a key array of shape {keys.shape}. Use vmap over them for "
                         "batching, or pick one.")
    return keys


def _like(reference, keys):
    """Return keys in the style of `reference`: as words if that is an array of words."""
    return keys if type(reference) is KeyArray or isinstance(reference.dtype, PRNGKeyDType) else _words(keys)


def _words(keys):
    return keys._base_array if type(keys) is KeyArray else unwrap_p.bind(keys)


# Making keys


@library(static="impl", name="random_seed")
def _seed_kernel(value, impl):
    return random_seed_p.bind(value, impl=impl)


def _seeded(name: str, seed, impl: PRNGImpl):
    if seed is None:
        raise ValueError(f"random.{name} needs an integer seed, got None.")
    offset = config.random_seed_offset.value
    if offset and (isinstance(seed, int) or tracing.is_arraylike(seed)):
        seed = seed + offset
    if isinstance(seed, (int, np.integer)):
        # A Python int may have 64 bits. Without 64-bit types its high word is dropped, as in a conversion to an array.
        given, seed = seed, int(seed)
        if not -(1 << 63) <= seed < 1 << (63 if type(given) is int else 64):
            raise OverflowError(f"the seed {given} of random.{name} does not fit in 64 bits.")
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


def _impl_or_dtype(name: str, impl: Any, dtype: Any):
    """Return the generator named by one of two alternative arguments."""
    if impl is not None and dtype is not None:
        raise ValueError(f"random.{name} got both impl={impl!r} and dtype={dtype!r}, which specify the same. Pass one of them.")
    return resolve_impl(dtype if impl is None else impl)


@library(static=None)
def key(seed: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """Make a random key from an integer seed.

    Args:
        seed: Integer or integer scalar array.
        impl: Name of the generator, for example "threefry2x32". Default: the setting `default_prng_impl`.
        dtype: Key dtype of the generator (see `key_dtype`), an alternative to `impl`.

    Returns:
        Scalar key array.

    Example:
        >>> random.key(0)
        Array((), dtype=key<fry>) overlaying:
        [0 0]
    """
    return _seeded("key", seed, _impl_or_dtype("key", impl, dtype))


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """Make a legacy random key, a uint32 array of its words. New code uses `key`.

    Args:
        seed: Integer or integer scalar array.
        impl: Name of the generator, for example "threefry2x32". Default: the setting `default_prng_impl`.

    Returns:
        uint32 array of the words of the key.

    Example:
        >>> random.PRNGKey(7)
        Array([0, 7], dtype=uint32)
    """
    chosen = resolve_impl(impl)
    keys = _seeded("PRNGKey", seed, chosen)
    return keys if config.enable_custom_prng.value else _words(keys)


@library(static=None)
def key_data(keys: ArrayLike) -> Array:
    """Return the words of random keys.

    Args:
        keys: Key array.

    Returns:
        uint32 array with the shape of `keys` followed by the shape of the words of one key.

    Example:
        >>> random.key_data(random.key(7))
        Array([0, 7], dtype=uint32)
    """
    words = _words(as_keys("key_data", keys))
    sharding = getattr(words, "sharding", None)
    if isinstance(words, tracing.Tracer) or not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit:
        return words
    return put_leaf(words, sharding.update(spec=sharding.spec.update(partitions=sharding.spec.padded(words.ndim))))


def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """Make random keys from their words. This is the inverse of `key_data`.

    Args:
        key_bits_array: uint32 array of words.
        impl: Name of the generator. Default: the setting `default_prng_impl`.
        dtype: Key dtype of the generator (see `key_dtype`), an alternative to `impl`.

    Returns:
        Key array.

    Example:
        >>> random.wrap_key_data(xnp.array([0, 7], "uint32")) == random.key(7)
        Array(True, dtype=bool)
    """
    chosen = _impl_or_dtype("wrap_key_data", impl, dtype)
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
    """Return the dtype of keys of a generator.

    Args:
        impl_spec: Name of the generator. Default: the setting `default_prng_impl`.

    Returns:
        Key dtype.

    Example:
        >>> random.key_dtype("rbg")
        key<rbg>
    """
    return PRNGKeyDType(resolve_impl(impl_spec))


def key_impl(keys: ArrayLike) -> Any:
    """Return the generator of random keys.

    Args:
        keys: Key array.

    Returns:
        Name of the generator, or an object that `key` accepts as `impl` if it has no registered name.

    Example:
        >>> random.key_impl(random.key(0))
        'threefry2x32'
    """
    impl = as_keys("key_impl", keys).dtype.impl
    return impl.name if IMPLEMENTATIONS.get(impl.name) is impl else PRNGSpec(impl)


def clone(key: ArrayLike) -> Array:
    """Copy a key so that it may be used a second time without an error from `debug_key_reuse`.

    Args:
        key: PRNG key.

    Returns:
        Copy of the key.

    Example:
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


@library(static=None)
def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """Split a random key into independent keys.

    The original key must not be used again.

    Args:
        key: PRNG key.
        num: Number of keys, or the shape of the array of keys.

    Returns:
        Array of keys.

    Example:
        >>> key, subkey = random.split(random.key(0))
    """
    single = single_key("split", key)
    shape = (num,) if isinstance(num, int) else shapes.static_shape("split", num)
    if any(n < 0 for n in shape if type(n) is int):
        raise TypeError(f"random.split needs a nonnegative number of keys, got {num}.")
    return _like(key, _split_kernel(single, shape))


@library(name="random_fold_in")
def _fold_in_kernel(key, data):
    return random_fold_in_p.bind(key, as_type(data, dtypes.uint32, False))


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """Derive a new key from a key and an integer, for example a step number.

    Different integers give independent keys.

    Args:
        key: PRNG key.
        data: Integer scalar. It is converted to uint32.

    Returns:
        New key.

    Example:
        >>> step_key = random.fold_in(random.key(0), 1000)
    """
    single = single_key("fold_in", key)
    if isinstance(data, int):
        if not 0 <= data < 1 << 32:
            raise OverflowError(f"random.fold_in takes unsigned 32-bit integers, got {data}.")
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
    return random_bits_of(key, width, shape)


@library(static=None)
def bits(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
         out_sharding: ShardingLike = None) -> Array:
    """Sample random bits as unsigned integers, uniform over all values of the dtype.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: uint8, uint16, uint32 or uint64. Default: the unsigned dtype as wide as the default integer dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of random bits.

    Example:
        >>> random.bits(random.key(0), (2,), "uint8").dtype
        dtype('uint8')
    """
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "random.bits")
    if dtype is None:
        d = np.dtype(f"uint{8 * d.itemsize}")
    if not dtypes.is_unsigned(d) or d.itemsize * 8 not in (8, 16, 32, 64):
        raise ValueError(f"random.bits needs an unsigned integer dtype of 8, 16, 32 or 64 bits, got {d}.")
    single = single_key("bits", key)
    return with_sharding(_bits_kernel(single, 8 * d.itemsize, shapes.static_shape("random.bits", shape)), out_sharding)


def with_sharding(result, sharding):
    target = None if sharding is None else resolve_out_sharding("random", sharding, np.shape(result))
    return result if target is None else put_leaf(result, target)


