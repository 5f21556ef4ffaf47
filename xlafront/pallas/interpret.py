"""Kernels run without a compiler of kernels: as a loop over the grid that cuts blocks out of arrays and puts them back.

This is what `interpret=True` asks for, on every platform. What nobody has written is NaN, as in the reference: who reads
scratch space or the padding of a block at the edge sees it in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.control.while_loop import fori_loop
from xlafront.core import dtypes, tracing
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from xlafront.lax.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p, start_index
from xlafront.lax.elementwise import div, mul, rem_, to_dtype
from xlafront.lax.shapes import broadcast_in_dim_p, reshape_to, zeros_of
from xlafront.lax.slicing import pad_p, slice_p
from xlafront.pallas.grid_mapping import BlockMapping, GridMapping
from xlafront.pallas.primitives import index_aval, num_programs_p, program_id_p
from xlafront.pallas.specs import Blocked, Element, Squeezed


def uninitialized_number(dtype) -> Any:
    """What stands for a value that nobody has written."""
    if dtypes.is_float(dtype) or dtypes.is_complex(dtype):
        with np.errstate(all="ignore"):
            return np.full((), np.nan).astype(dtype)[()]
    if dtypes.is_integer(dtype) and not dtypes.is_unsigned(dtype) and dtype != np.int16:  # (of which it is zero)
        return np.asarray(dtypes.iinfo(dtype).min).astype(dtype)[()]
    return np.zeros((), dtype)[()]


def uninitialized(aval, memory_space: Any = None) -> Any:
    """An array that nobody has written; semaphores begin at zero."""
    if not isinstance(aval.dtype, np.dtype) or getattr(memory_space, "zeroed", False):
        return zeros_of(aval)
    return broadcast_in_dim_p.bind(uninitialized_number(aval.dtype), shape=aval.shape, broadcast_dimensions=(), sharding=None)


def values_program(jaxpr: Jaxpr) -> tuple[ClosedJaxpr, list[tuple[Any, int]], list[int]]:
    """A kernel as `(what it asks of the grid, what its references hold) -> what those hold that it writes to`; what it asks,
    and which references these are."""
    def make():
        closed, written = discharge_program(ClosedJaxpr(jaxpr, ()))
        asked = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive in (program_id_p, num_programs_p)]
        program = closed.jaxpr.replace(
            invars=[*[eqn.outvars[0] for eqn in asked], *closed.jaxpr.invars],
            eqns=[eqn for eqn in closed.jaxpr.eqns if eqn not in asked])
        return ClosedJaxpr(program, closed.consts), [(eqn.primitive, eqn.params["axis"]) for eqn in asked], written

    return jaxpr.memoised("kernel of values", make)


def interpret(*operands: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, input_output_aliases: Sequence[tuple[int, int]],
              **_: Any) -> list[Any]:
    """The results of a kernel: see `pallas_call_p` for the operands and parameters."""
    mapping = grid_mapping
    bounds = iter(operands[:mapping.num_dynamic_grid_bounds])
    operands = operands[mapping.num_dynamic_grid_bounds:]
    grid = [next(bounds) if n is None else n for n in mapping.grid]
    first, inputs = mapping.num_index_operands, mapping.num_index_operands + mapping.num_inputs
    aliased = {o: operands[i - mapping.num_dynamic_grid_bounds] for i, o in input_output_aliases}
    arrays = [*operands[first:], *[aliased.get(i, None) for i in range(mapping.num_outputs)]]
    blocks = mapping.block_mappings
    held = [*operands[:first],
            *[_padded(uninitialized(b.array_aval) if x is None else x, b) for x, b in zip(arrays, blocks)],
            *[uninitialized(a.inner_aval, a.memory_space) for a in mapping.scratch_avals]]
    program, asked, written = values_program(jaxpr)
    kept = [k for k in written if k >= first]  # what is written to scalars ends with the step

    def step(i, changing):
        i = to_dtype(i, index_aval.dtype)
        state = [*held]
        for k, x in zip(kept, changing):
            state[k] = x
        place = _unraveled(i, grid)
        of_kernel = [place[d] for d in mapping.kernel_axes]
        sizes = [grid[d] for d in mapping.kernel_axes]
        starts = [None if b.is_whole else _starts(b, place, state[:first]) for b in blocks]
        seen = [*state[:first], *[x if at is None else _cut(x, b, at) for x, b, at in zip(state[first:], blocks, starts)],
                *state[first + len(blocks):]]
        answers = [of_kernel[axis] if primitive is program_id_p else sizes[axis] for primitive, axis in asked]
        found = jaxpr_as_fun(program)(*answers, *seen)
        return [_put_back(state[k], starts[k - first], blocks[k - first], x) if k < first + len(blocks) else x
                for k, x in zip(written, found) if k >= first]

    changing = [held[k] for k in kept]
    steps: Any = 1
    for n in grid:
        steps = max(n, 0) * steps if isinstance(n, int) and isinstance(steps, int) else mul(_int32(n), _int32(steps))
    if isinstance(steps, int) and steps <= 1:
        changing = step(np.int32(0), changing) if steps else changing
    else:
        changing = fori_loop(np.int32(0), _int32(steps), step, changing)
    for k, x in zip(kept, changing):
        held[k] = x
    return [_unpadded(held[k], b) for k, b in zip(range(inputs, inputs + mapping.num_outputs), blocks[mapping.num_inputs:])]


def _int32(x):
    return np.int32(x) if isinstance(x, int) else x


def _unraveled(i, grid) -> list[Any]:
    """The indices along each axis of the grid, of which the last one moves first."""
    place: list[Any] = []
    for n in reversed(grid):
        alone = isinstance(n, int) and n == 1
        place.insert(0, np.int32(0) if alone else i if len(place) + 1 == len(grid) else rem_(i, _int32(n)))
        i = i if alone else div(i, _int32(n))
    return place


def _starts(block: BlockMapping, place, scalars) -> list[Any]:
    """The first element of a block along each dimension, of the padded array; negative ones count from its end."""
    program, _ = discharge_program(block.index_map_jaxpr)
    indices = jaxpr_as_fun(program)(*place, *scalars)[:len(block.block_shape)]
    firsts = [mul(i, np.int32(b.block_size)) if type(b) is Blocked else i for i, b in zip(indices, block.block_shape)]
    sizes = [low + n + high for n, (low, high) in zip(block.array_aval.shape, _padding(block))]
    return [start_index(i, n) for i, n in zip(firsts, sizes)]


def _cut(x, block: BlockMapping, starts):
    return reshape_to(dynamic_slice_p.bind(x, *starts, slice_sizes=block.sizes), block.block_aval.shape)


def _put_back(x, starts, block: BlockMapping, new):
    if starts is None:
        return new
    return dynamic_update_slice_p.bind(x, reshape_to(new, block.sizes), *starts)


def _padding(block: BlockMapping) -> list[tuple[int, int]]:
    """What is put before and behind the array along each dimension: blocks at the edge are as large as the others."""
    if block.is_whole:
        return [(0, 0)] * len(block.block_shape)
    found = []
    for b, n in zip(block.block_shape, block.array_aval.shape):
        low, high = b.padding if type(b) is Element else (0, 0)
        whole = type(b) is Squeezed or not b.block_size
        found.append((low, high if whole else high + -(low + n + high) % b.block_size))
    return found


def _padded(x, block: BlockMapping):
    padding = _padding(block)
    if not any(map(any, padding)):
        return x
    number = uninitialized_number(tracing.aval_of(x).dtype)
    return pad_p.bind(x, number, padding_config=tuple([(low, high, 0) for low, high in padding]))


def _unpadded(x, block: BlockMapping):
    padding = _padding(block)
    if not any(map(any, padding)):
        return x
    lows = tuple([low for low, _ in padding])
    ends = tuple([low + n for low, n in zip(lows, block.array_aval.shape)])
    return slice_p.bind(x, start_indices=lows, limit_indices=ends, strides=None)
