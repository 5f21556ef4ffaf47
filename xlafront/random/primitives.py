"""Primitives on random keys: making, splitting and folding them, and generating bits.

Operands are arrays of keys, each of which is processed independently. What happens to the words of one key is a function of
its implementation (`prng.PRNGImpl`), which is traced during lowering. Types, words and copies are in `lax.key_arrays`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlafront.api.vmap import vmap
from xlafront.base import config
from xlafront.core import tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p
from xlafront.core.dtypes import PRNGKeyDType
from xlafront.core.primitive import KeyUse, MeshRules, Primitive, Traits
from xlafront.lax import sharding_rules
from xlafront.lax.barriers import optimization_barrier_p
from xlafront.lax.families import align_batches, joint_shape
from xlafront.lax.key_arrays import no_tangent, unwrap_p, wrap_p
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import squeeze_p
from xlafront.lax.slicing import slice_p
from xlafront.random import threefry


def _check_keys(name: str, aval) -> None:
    if not isinstance(aval.dtype, PRNGKeyDType):
        raise TypeError(f"{name} takes random keys, got an array of dtype {aval.dtype}: make keys of words with "
                        "random.wrap_key_data.")


def _map_leading(function: Callable, rank: int, *operands, mapped: int | tuple = 0):
    """Apply a function of single elements to arrays by mapping it over their `rank` leading dimensions."""
    for _ in range(rank):
        function = vmap(function, mapped)
    return function(*operands)


def _expanding_primitive(name: str, expand_key: Callable, dtype: Callable) -> Primitive:
    """Make a primitive that turns each key into an array of a given `shape`: `expand_key(impl, words, **params)`."""
    def abstract(keys, **params):
        _check_keys(name, keys)
        return ShapedArray((*keys.shape, *params["shape"]), dtype(keys, **params))

    def lower(keys, **params):
        return expand(keys, unwrap_p.bind(keys), params)

    def lower_on_cpu(keys, **params):
        words = unwrap_p.bind(keys)
        return expand(keys, words if np.ndim(keys) else optimization_barrier_p.bind(words)[0], params)

    def expand(keys, words, params):
        key_dtype = tracing.aval_of(keys).dtype
        result = _map_leading(lambda words: expand_key(key_dtype.impl, words, **params), np.ndim(keys), words)
        return wrap_p.bind(result, impl=key_dtype.impl) if dtype(tracing.aval_of(keys), **params) == key_dtype else result

    def stage(trace, args, params):
        """Stage the operations themselves within a `with threefry_partitionable(...)`, which lowering may be outside of."""
        if not config.threefry_partitionable.has_local_value:
            return None
        with tracing.current_trace(trace):
            return lower(*args, **params)

    def sharding_rule(name, operands, result, params):
        return (*operands[0][1], *[None] * len(params["shape"]))

    primitive = Primitive(
        name, abstract=abstract, lower={None: lower_fun(lower), "cpu": lower_fun(lower_on_cpu)}, stage=stage,
        batch=lambda axis_size, xs, ds, **params: (primitive.bind(*xs, **params), ds[0]), mesh=MeshRules(sharding_rule),
        jvp=no_tangent, traits=Traits(key_use=KeyUse.PERMUTES))
    return primitive


random_bits_p = _expanding_primitive(
    "random_bits", lambda impl, words, *, bit_width, shape: impl.random_bits(words, bit_width, shape),
    lambda keys, *, bit_width, shape: np.dtype(f"uint{bit_width}"))
random_split_p = _expanding_primitive(
    "random_split", lambda impl, words, *, shape: impl.split(words, shape), lambda keys, *, shape: keys.dtype)


def _seed(seeds, *, impl):
    return wrap_p.bind(_map_leading(impl.seed, np.ndim(seeds), seeds), impl=impl)


random_seed_p = Primitive(
    "random_seed", abstract=lambda seeds, *, impl: ShapedArray(seeds.shape, PRNGKeyDType(impl)), lower=lower_fun(_seed),
    batch=lambda axis_size, xs, ds, *, impl: (random_seed_p.bind(*xs, impl=impl), ds[0]), mesh=MeshRules(sharding_rules.same),
    jvp=no_tangent)


def _fold_in_abstract(keys, data):
    _check_keys("random_fold_in", keys)
    if data.dtype != np.uint32:
        raise TypeError(f"random_fold_in takes uint32 numbers, got {data.dtype}.")
    return ShapedArray(joint_shape("random_fold_in", (keys, data)), keys.dtype)


def _fold_in(keys, data):
    impl = tracing.aval_of(keys).dtype.impl
    shape = joint_shape("random_fold_in", [tracing.aval_of(x) for x in (keys, data)])
    keys, data = (x if np.shape(x) in ((), shape) else broadcast_in_dim_p.bind(
        x, shape=shape, broadcast_dimensions=tuple(range(len(shape))), sharding=None) for x in (keys, data))
    mapped = tuple([0 if np.ndim(x) else None for x in (keys, data)])
    return wrap_p.bind(_map_leading(impl.fold_in, len(shape), unwrap_p.bind(keys), data, mapped=mapped), impl=impl)


def _fold_in_batch(axis_size, operands, dims):
    operands, dim = align_batches(axis_size, operands, dims)
    return random_fold_in_p.bind(*operands), dim


random_fold_in_p = Primitive(
    "random_fold_in", abstract=_fold_in_abstract, lower=lower_fun(_fold_in), batch=_fold_in_batch,
    mesh=MeshRules(sharding_rules.elementwise), jvp=no_tangent,
    traits=Traits(key_use=KeyUse.READS))


# The functions that distributions sample from. Loops over many keys pass Threefry keys as a pair of words, not a key array.


def random_bits_of(key, width: int, shape: tuple[int, ...]):
    """Return random unsigned integers of `width` bits."""
    if type(key) is tuple:
        return threefry.random_bits(key, width, shape)
    return random_bits_p.bind(key, bit_width=width, shape=shape)


def split(key, count: int) -> list:
    """Split a key into `count` independent keys."""
    if type(key) is tuple:
        return threefry.split_apart(key, count)
    keys = random_split_p.bind(key, shape=(count,))
    return [row(keys, i) for i in range(count)]


def row(x, i: int):
    """Return an element of the first dimension."""
    rest = np.shape(x)[1:]
    sliced = slice_p.bind(x, start_indices=(i, *(0,) * len(rest)), limit_indices=(i + 1, *rest), strides=None)
    return squeeze_p.bind(sliced, dimensions=(0,))
