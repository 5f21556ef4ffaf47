"""What is done with random keys, as operations of programs: making, splitting and folding them, and drawing bits.

Operands are arrays of keys, each of which is used by itself. What happens to the words of one is a function of its
implementation (`prng.PRNGImpl`), which is traced when a program is lowered. Types, words and copies are in `lax.keys`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlafront.core import tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dtypes import PRNGKeyDType
from xlafront.core.primitive import Primitive
from xlafront.lax import sharding_rules
from xlafront.lax.barriers import optimization_barrier_p
from xlafront.lax.families import align_batches, joint_shape
from xlafront.lax.keys import no_tangent, unwrap_p, wrap_p
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_in_dim_p, squeeze_p
from xlafront.lax.slicing import slice_p
from xlafront.random import threefry
from xlafront.transforms.batching.vmap import vmap


def _check_keys(name: str, aval) -> None:
    if not isinstance(aval.dtype, PRNGKeyDType):
        raise TypeError(f"{name} takes random keys, got an array of dtype {aval.dtype}: make keys of words with "
                        "random.wrap_key_data.")


def _of_each(function: Callable, rank: int, *operands, mapped: int | tuple = 0):
    """A function of single elements, for those of arrays whose leading dimensions, so many, count them."""
    for _ in range(rank):
        function = vmap(function, mapped)
    return function(*operands)


def _appends(name: str, of_one: Callable, dtype: Callable) -> Primitive:
    """An operation that makes of each key an array of a given `shape`: `of_one(impl, words, **params)`."""
    def abstract(keys, **params):
        _check_keys(name, keys)
        return ShapedArray((*keys.shape, *params["shape"]), dtype(keys, **params))

    def lower(keys, **params):
        return of_words(keys, unwrap_p.bind(keys), params)

    def lower_on_cpu(keys, **params):
        words = unwrap_p.bind(keys)
        return of_words(keys, words if np.ndim(keys) else optimization_barrier_p.bind(words)[0], params)

    def of_words(keys, words, params):
        of_keys = tracing.aval_of(keys).dtype
        found = _of_each(lambda words: of_one(of_keys.impl, words, **params), np.ndim(keys), words)
        return wrap_p.bind(found, impl=of_keys.impl) if dtype(tracing.aval_of(keys), **params) == of_keys else found

    def sharding_rule(name, operands, result, params):
        return (*operands[0][1], *[None] * len(params["shape"]))

    primitive = Primitive(name, abstract=abstract, lower=lower_fun(lower), sharding_rule=sharding_rule,
                          batch=lambda axis_size, xs, ds, **params: (primitive.bind(*xs, **params), ds[0]))
    primitive.lowerings["cpu"] = lower_fun(lower_on_cpu)
    primitive.key_use = "moves"
    return primitive


random_bits_p = _appends(
    "random_bits", lambda impl, words, *, bit_width, shape: impl.random_bits(words, bit_width, shape),
    lambda keys, *, bit_width, shape: np.dtype(f"uint{bit_width}"))
random_split_p = _appends(
    "random_split", lambda impl, words, *, shape: impl.split(words, shape), lambda keys, *, shape: keys.dtype)


def _seed(seeds, *, impl):
    return wrap_p.bind(_of_each(impl.seed, np.ndim(seeds), seeds), impl=impl)


random_seed_p = Primitive(
    "random_seed", abstract=lambda seeds, *, impl: ShapedArray(seeds.shape, PRNGKeyDType(impl)), lower=lower_fun(_seed),
    batch=lambda axis_size, xs, ds, *, impl: (random_seed_p.bind(*xs, impl=impl), ds[0]), sharding_rule=sharding_rules.same)


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
    return wrap_p.bind(_of_each(impl.fold_in, len(shape), unwrap_p.bind(keys), data, mapped=mapped), impl=impl)


def _fold_in_batch(axis_size, operands, dims):
    operands, dim = align_batches(axis_size, operands, dims)
    return random_fold_in_p.bind(*operands), dim


random_fold_in_p = Primitive("random_fold_in", abstract=_fold_in_abstract, lower=lower_fun(_fold_in), batch=_fold_in_batch,
                             sharding_rule=sharding_rules.elementwise)
random_fold_in_p.key_use = "reads"
for _primitive in (random_bits_p, random_split_p, random_seed_p, random_fold_in_p):
    _primitive.jvp = no_tangent(_primitive)


# What distributions draw from. Loops over many keys use the words of Threefry keys as a pair, for which there is no type.


def draw_bits(key, width: int, shape: tuple[int, ...]):
    """Random unsigned integers of so many bits."""
    if type(key) is tuple:
        return threefry.random_bits(key, width, shape)
    return random_bits_p.bind(key, bit_width=width, shape=shape)


def split(key, count: int) -> list:
    """Independent keys."""
    if type(key) is tuple:
        return threefry.split_apart(key, count)
    keys = random_split_p.bind(key, shape=(count,))
    return [row(keys, i) for i in range(count)]


def row(x, i: int):
    """An element of the first dimension."""
    rest = np.shape(x)[1:]
    part = slice_p.bind(x, start_indices=(i, *(0,) * len(rest)), limit_indices=(i + 1, *rest), strides=None)
    return squeeze_p.bind(part, dimensions=(0,))
