"""Between random keys and their words inside of programs, and arrays of one element of an extended dtype repeated."""

from __future__ import annotations

import numpy as np

from xlafront.core import tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dtypes import ExtendedDType, PRNGKeyDType
from xlafront.core.keys import KeyArray, physical
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import of_first
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import broadcast_in_dim_p, move_dim


def no_tangent(primitive):
    """The derivative of an operation whose results are keys, or whole numbers drawn from keys."""
    def jvp(primals, tangents, **params):
        answer = primitive.bind(*primals, **params)
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())

    return jvp


unwrap_p = Primitive("random_unwrap", abstract=lambda keys: physical(keys), lower=lambda ctx, keys: keys,
                     batch=lambda axis_size, xs, ds: (unwrap_p.bind(*xs), ds[0]), shown_as="key_data",
                     impl=lambda keys: keys._base_array)
wrap_p = Primitive(
    "random_wrap", lower=lambda ctx, words, *, impl: words, shown_as="wrap_key_data",
    abstract=lambda words, *, impl: ShapedArray(words.shape[:words.ndim - len(impl.key_shape)], PRNGKeyDType(impl)),
    impl=lambda words, *, impl: KeyArray(words, PRNGKeyDType(impl)),
    batch=lambda axis_size, xs, ds, *, impl: (wrap_p.bind(move_dim(xs[0], ds[0], 0), impl=impl), 0))

clone_p = Primitive("random_clone", abstract=lambda keys: keys, lower=lambda ctx, keys: keys,
                    batch=lambda axis_size, xs, ds: (clone_p.bind(*xs), ds[0]), shown_as="clone",
                    impl=lambda keys: KeyArray(keys._base_array, keys.dtype), sharding_rule=sharding_rules.same, sums=of_first)
unwrap_p.key_use = wrap_p.key_use = clone_p.key_use = "reads"
for _primitive in (unwrap_p, wrap_p, clone_p):
    _primitive.jvp = no_tangent(_primitive)


def filled(value, shape: tuple[int, ...], dtype: ExtendedDType):
    """An array of one key repeated: of the key itself, or of that whose words are all a number. Other dtypes have a rule."""
    if not isinstance(dtype, PRNGKeyDType):
        return dtype._rules.full(shape, value, dtype)
    if tracing.aval_of(value).dtype == dtype:
        return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=(), sharding=None)
    word = as_type(value, np.dtype(np.uint32), False)
    words = broadcast_in_dim_p.bind(word, shape=(*shape, *dtype.physical_element_shape), broadcast_dimensions=(), sharding=None)
    return wrap_p.bind(words, impl=dtype.impl)
