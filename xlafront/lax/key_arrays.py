"""Conversion between random keys and their words in jaxprs, and arrays of one repeated element of an extended dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim
from xlafront.core.dtypes import ExtendedDType, PRNGKeyDType
from xlafront.core.primitive import KeyUse, MeshRules, OwnRule, Primitive, Traits
from xlafront.core.sharding_types import of_first
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.elementwise import as_type
from xlafront.runtime.keys import KeyArray, physical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlafront.core.typing import Array


@OwnRule
def no_tangent(primitive: Primitive) -> Callable:
    """Return the JVP rule of an operation whose results are keys or integers, which have no tangent."""
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        answer = primitive.bind(*primals, **params)
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())

    return jvp


unwrap_p = Primitive(
    "random_unwrap", abstract=lambda keys: physical(keys), lower=lambda ctx, keys: keys,
    batch=lambda axis_size, xs, ds: (unwrap_p.bind(*xs), ds[0]), shown_as="key_data", impl=lambda keys: keys._base_array,
    jvp=no_tangent, traits=Traits(key_use=KeyUse.READS))
wrap_p = Primitive(
    "random_wrap", lower=lambda ctx, words, *, impl: words, shown_as="wrap_key_data",
    abstract=lambda words, *, impl: ShapedArray(words.shape[:words.ndim - len(impl.key_shape)], PRNGKeyDType(impl)),
    impl=lambda words, *, impl: KeyArray(words, PRNGKeyDType(impl)),
    batch=lambda axis_size, xs, ds, *, impl: (wrap_p.bind(move_dim(xs[0], ds[0], 0), impl=impl), 0),
    jvp=no_tangent, traits=Traits(key_use=KeyUse.READS))

clone_p = Primitive(
    "random_clone", abstract=lambda keys: keys, lower=lambda ctx, keys: keys,
    batch=lambda axis_size, xs, ds: (clone_p.bind(*xs), ds[0]), shown_as="clone",
    impl=lambda keys: KeyArray(keys._base_array, keys.dtype), mesh=MeshRules(sharding_rule=sharding_rules.same, sums=of_first),
    jvp=no_tangent, traits=Traits(key_use=KeyUse.READS))


def filled(value: Any, shape: tuple[int, ...], dtype: ExtendedDType) -> Array:
    """Return an array of one repeated key: of the key `value`, or of the key whose words all equal the number `value`.

    Other extended dtypes have a rule of their own.
    """
    if not isinstance(dtype, PRNGKeyDType):
        return dtype._rules.full(shape, value, dtype)
    if tracing.aval_of(value).dtype == dtype:
        return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=(), sharding=None)
    word = as_type(value, np.dtype(np.uint32), False)
    words = broadcast_in_dim_p.bind(word, shape=(*shape, *dtype.physical_element_shape), broadcast_dimensions=(), sharding=None)
    return wrap_p.bind(words, impl=dtype.impl)
