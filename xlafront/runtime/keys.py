"""Arrays of random keys: an extended dtype around an array of uint32 words.

jaxlib's array class holds numbers only, so that a concrete key array is a Python object around one. In jaxprs keys are
ordinary values of dtype `key<...>`, which modules represent by their words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl, NamedSharding, SingleDeviceSharding
from xlafront.core import dtypes, tracing, tree
from xlafront.core.avals import ShapedArray, Token, abstract_token, token_stand_in
from xlafront.runtime.shards import Shard


def physical(aval):
    """Return the type of the words of a key array, or of the array that represents a token; other types unchanged."""
    if aval is abstract_token:
        return token_stand_in
    d = aval.dtype
    if isinstance(d, np.dtype):
        return aval
    explicit = aval.explicit_sharding
    if explicit is not None:
        explicit = explicit.update(spec=explicit.spec.update(partitions=(*explicit.spec,
                                                                         *[None] * len(d.physical_element_shape))))
    return ShapedArray((*aval.shape, *d.physical_element_shape), d.physical_dtype, sharding=explicit)


class KeyArray:
    """A concrete array of random keys, whose words are `random.key_data(keys)`, or of another extended dtype.

    Hot: each call of a compiled function that returns keys creates one. The type is computed on first use.
    """

    __slots__ = ("_base_array", "dtype", "_aval", "_consumed", "__weakref__")

    def __init__(self, _base_array, dtype: dtypes.PRNGKeyDType):
        self._base_array = _base_array
        self.dtype = dtype
        self._aval: ShapedArray | None = None
        self._consumed: Any = False  # the keys that are consumed, under `debug_key_reuse`: all, none, or a mask

    @property
    def aval(self) -> ShapedArray:
        """The type of the keys."""
        if self._aval is None:
            words = tracing.aval_of(self._base_array)
            rank = words.ndim - len(self.dtype.physical_element_shape)
            explicit = words.explicit_sharding
            if explicit is not None:
                explicit = explicit.update(spec=explicit.spec.update(partitions=explicit.spec.partitions[:rank]))
            found = ShapedArray(words.shape[:rank], self.dtype, sharding=explicit)
            unsharded = type(self._base_array._sharding) is SingleDeviceSharding and words.plain
            self._aval = found if unsharded else found.on(self._sharding_of(rank))
        return self._aval

    def with_words(self, words) -> KeyArray:
        """Return keys with these words that share the consumed state."""
        keys = KeyArray(words, self.dtype)
        keys._consumed = self._consumed
        return keys

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a pickle of JAX."""
        KeyArray.__init__(self, state["_base_array"], dtypes.PRNGKeyDType(state["_impl"]))
        self._consumed = state["_consumed"]

    shape = property(lambda self: self.aval.shape)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = False
    _impl = property(lambda self: self.dtype.impl)
    committed = property(lambda self: self._base_array.committed)
    is_fully_addressable = property(lambda self: self._base_array.is_fully_addressable)
    is_fully_replicated = property(lambda self: self._base_array.is_fully_replicated)
    addressable_shards = property(lambda self: self._shards(self._base_array.addressable_shards))
    global_shards = property(lambda self: self._shards(self._base_array.global_shards))
    device = property(lambda self: self._base_array.device)

    @property
    def sharding(self):
        """The sharding of the keys. Their words have the same one; the words of one key are not sharded."""
        return self._sharding_of(self.aval.ndim)

    def _sharding_of(self, rank: int):
        found = self._base_array.sharding
        if type(found) is NamedSharding and len(found.spec) > rank:
            return found.update(spec=found.spec.update(partitions=found.spec.partitions[:rank]))
        return found

    def devices(self):
        return self._base_array.devices()

    def _shards(self, shards_of_words: list) -> list:
        return [Shard(s.device, self.sharding, self._base_array.shape, None if s.data is None else KeyArray(s.data, self.dtype))
                for s in shards_of_words]

    def addressable_data(self, index: int):
        """Return the shard on the `index`-th device of this process."""
        return KeyArray(self._base_array.addressable_data(index), self.dtype)

    def block_until_ready(self):
        self._base_array.block_until_ready()
        return self

    def copy_to_host_async(self):
        self._base_array.copy_to_host_async()

    def on_device_size_in_bytes(self) -> int:
        """Return the size of the words in memory."""
        return self._base_array.on_device_size_in_bytes()

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the words of an array on one device."""
        return self._base_array.unsafe_buffer_pointer()

    def is_deleted(self) -> bool:
        return self._base_array.is_deleted()

    def delete(self) -> None:
        self._base_array.delete()

    def __array__(self, dtype=None, copy=None):
        raise TypeError(f"an array of dtype {self.dtype} cannot be converted to a NumPy array: {self.dtype.no_numbers}")

    def __len__(self):
        if not self.aval.shape:
            raise TypeError("len() of an unsized object: a key array without dimensions (0-d), one key")
        return self.aval.shape[0]

    def __repr__(self):
        return f"Array({self.aval.shape}, dtype={self.aval.dtype.name}) overlaying:\n{self._base_array}"

    __str__ = __repr__


def physical_array(x):
    """Return the words of a key array, or the array that represents a token; other values unchanged."""
    if type(x) is KeyArray:
        return x._base_array
    return np.zeros(token_stand_in.shape, token_stand_in.dtype) if type(x) is Token else x


def wrap(words: ArrayImpl, aval):
    """Return the array of a type that has these words."""
    if aval is abstract_token:
        return Token()
    return words if isinstance(aval.dtype, np.dtype) else KeyArray(words, aval.dtype)


tracing.aval_of_type[KeyArray] = lambda x: x.aval.bare
# C++ dispatch passes the words of a key array.
tree.dispatch_registry.register_dataclass_node(KeyArray, ["_base_array"], ["dtype"])
