"""Draws that a CPU makes by themselves, as functions of the module which stay calls.

XLA's loops there take vectors along the last dimension only: those of arrays of short rows are made in one row, and the call
keeps XLA from making one loop over the rows again. And XLA draws numbers anew in each loop that reads them: those that several
read come of a call, once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from xlafront.core import tracing
from xlafront.core.dimensions import is_symbolic
from xlafront.core.memo import Memo
from xlafront.core.program_call import ProgramCall
from xlafront.lax import shapes
from xlafront.runtime import config

_LONG = 32  # numbers in a row, from which on the rest of one costs little
_VECTOR = 8
_MANY = 1024
_programs = Memo(256)


def _lower(ctx, *operands, jaxpr):
    # Over several devices each makes its own part, of what it has inlined.
    if ctx.platform == "cpu" and ctx.body.module.num_partitions == 1:
        return ctx.call(jaxpr, operands, "drawn", inlineable=False)
    return ctx.inline(jaxpr, operands)


drawn_p = ProgramCall("drawn", lower=_lower)


def in_one_row(draw: Callable) -> Callable:
    """Decorator of `draw(key, shape, dtype, *numbers)`, whose results only depend on how many numbers `shape` has."""
    @functools.wraps(draw)
    def drawn(key, shape, dtype, *numbers):
        size = math.prod(shape)
        long = len(shape) < 2 or is_symbolic(shape) or shape[-1] >= _LONG or shape[-1] <= 2 or shape[-1] % _VECTOR == 0
        if long or size < _MANY or not _by_position(key) or not all(type(x) is float or isinstance(x, (np.generic, str))
                                                                    for x in numbers):
            return draw(key, shape, dtype, *numbers)
        return shapes.reshape_to(_called(draw, key, size, dtype, numbers), shape)

    return drawn


def once(draw: Callable, key, shape, dtype):
    """`draw(key, shape, dtype)`, for several loops that read it."""
    if is_symbolic(shape) or math.prod(shape) < _MANY or not _by_position(key):
        return draw(key, shape, dtype)
    return shapes.reshape_to(_called(draw, key, math.prod(shape), dtype, ()), shape)


def _by_position(key) -> bool:
    """Whether what is drawn at a place depends on its number in the array alone."""
    return tracing.aval_of(key).dtype.impl.name == "threefry2x32"


def _called(draw, key, size, dtype, numbers):
    aval = tracing.aval_of(key)
    signature = draw, aval, size, dtype, numbers, config.trace_context_key()
    program = _programs.get(signature)
    if program is None:
        program = _programs.keep(signature, tracing.trace_to_closed_jaxpr(
            lambda key: [draw(key, (size,), dtype, *numbers)], [aval]))
    return drawn_p.bind(key, jaxpr=program)[0]
