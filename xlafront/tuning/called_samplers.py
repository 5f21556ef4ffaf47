"""Samplers that a CPU runs as functions of their own, which stay calls in the module.

XLA's CPU loops are vectorized along the last dimension only: arrays with short rows are therefore sampled as one long row, and
the call keeps XLA from turning that into a loop over the rows again. XLA also recomputes samples in each loop that reads them:
samples with several readers come from a call and are computed once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from xlafront.base import config
from xlafront.core import tracing
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.program_call import ProgramCall
from xlafront.symbolic.dimensions import is_symbolic

_LONG_ROW = 32  # In rows of at least this length the remainder after the last full vector costs little.
_VECTOR = 8
_MIN_SIZE = 1024  # of samples in one row
_jaxprs = BoundedCache(256)


def _lower(ctx, *operands, jaxpr):
    # With several devices the sampler is inlined, so that each device computes its own shard.
    if ctx.platform == "cpu" and ctx.body.module.num_partitions == 1:
        return ctx.call(jaxpr, operands, "drawn", inlineable=False)
    return ctx.inline(jaxpr, operands)


sampled_p = ProgramCall("drawn", lower=_lower)


def as_one_row(sample: Callable, reshape: Callable) -> Callable:
    """Decorate `sample(key, shape, dtype, *parameters)`, whose results depend only on the number of elements of `shape`.

    `reshape(x, shape)` is the one of `lax`, a room above.
    """
    @functools.wraps(sample)
    def sample_as_row(key, shape, dtype, *parameters):
        size = math.prod(shape)
        direct = len(shape) < 2 or is_symbolic(shape) or shape[-1] >= _LONG_ROW or shape[-1] <= 2 or shape[-1] % _VECTOR == 0
        if direct or size < _MIN_SIZE or not _samples_by_position(key) or not all(
                type(x) is float or isinstance(x, (np.generic, str)) for x in parameters):
            return sample(key, shape, dtype, *parameters)
        return reshape(_call(sample, key, size, dtype, parameters), shape)

    return sample_as_row


def sample_once(sample: Callable, key, shape, dtype, reshape: Callable):
    """Return `sample(key, shape, dtype)` for several loops that read it."""
    if is_symbolic(shape) or not math.prod(shape) or not _samples_by_position(key):
        return sample(key, shape, dtype)
    return reshape(_call(sample, key, math.prod(shape), dtype, ()), shape)


def _samples_by_position(key) -> bool:
    """True if the sample at a position depends only on its row-major index."""
    return tracing.aval_of(key).dtype.impl.name == "threefry2x32"


def _call(sample, key, size, dtype, parameters):
    aval = tracing.aval_of(key)
    signature = sample, aval, size, dtype, parameters, config.trace_context_key()
    jaxpr = _jaxprs.get(signature)
    if jaxpr is None:
        jaxpr = _jaxprs.put(signature, tracing.trace_to_closed_jaxpr(
            lambda key: [sample(key, (size,), dtype, *parameters)], [aval]))
    return sampled_p.bind(key, jaxpr=jaxpr)[0]
