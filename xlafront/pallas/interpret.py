"""Interpretation of kernels, as a loop over the grid that reads blocks of arrays and writes them back.

`interpret=True` uses it on every platform. Uninitialized memory is NaN, as in JAX, so that reads of scratch memory, or of the
padding of blocks at the edge, show up in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.control.while_loop import fori_loop
from xlafront.core import tracing
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import Jaxpr
from xlafront.lax.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p, start_index
from xlafront.lax.elementwise import div, mul, rem_
from xlafront.lax.shapes import reshape_to
from xlafront.lax.slicing import pad_p, slice_p
from xlafront.pallas.grid_mapping import BlockMapping, GridMapping
from xlafront.pallas.primitives import index_aval, num_programs_p, program_id_p
from xlafront.pallas.specs import Blocked, Element, Squeezed
from xlafront.pallas.uninitialized import uninitialized, uninitialized_scalar


def values_program(jaxpr: Jaxpr) -> tuple[Jaxpr, list[tuple[Any, int]], list[int]]:
    """Convert a kernel to a function of values: `(grid queries, values of references) -> values of written references`.

    Return it with the grid queries (primitive and axis) and the indices of the written references.
    """
    def make():
        closed, written = discharge_program(jaxpr)
        grid_queries = [eqn for eqn in closed.eqns if eqn.primitive in (program_id_p, num_programs_p)]
        program = closed.replace(
            invars=[*[eqn.outvars[0] for eqn in grid_queries], *closed.invars],
            eqns=[eqn for eqn in closed.eqns if eqn not in grid_queries])
        return program, [(eqn.primitive, eqn.params["axis"]) for eqn in grid_queries], written

    return jaxpr.memoised("kernel of values", make)


def interpret(*operands: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, input_output_aliases: Sequence[tuple[int, int]],
              interpret: Any = True, **_: Any) -> list[Any]:
    """Run a kernel and return its outputs. See `pallas_call_p` for the operands and parameters."""
    mapping = grid_mapping
    bounds = iter(operands[:mapping.num_dynamic_grid_bounds])
    operands = operands[mapping.num_dynamic_grid_bounds:]
    grid = [next(bounds) if n is None else n for n in mapping.grid]
    num_scalars, inputs = mapping.num_index_operands, mapping.num_index_operands + mapping.num_inputs
    aliased = {o: operands[i - mapping.num_dynamic_grid_bounds] for i, o in input_output_aliases}
    arrays = [*operands[num_scalars:], *[aliased.get(i, None) for i in range(mapping.num_outputs)]]
    blocks = mapping.block_mappings
    ref_values = [*operands[:num_scalars],
                  *[_padded(uninitialized(b.array_aval, params=interpret) if x is None else x, b)
                    for x, b in zip(arrays, blocks)],
                  *[uninitialized(a.inner_aval, a.memory_space, interpret) for a in mapping.scratch_avals]]
    program, grid_queries, written = values_program(jaxpr)
    carried = [k for k in written if k >= num_scalars]  # scalars that are written revert after each step

    def step(i, carry):
        i = to_dtype(i, index_aval.dtype)
        state = [*ref_values]
        for k, x in zip(carried, carry):
            state[k] = x
        indices = _unraveled(i, grid)
        kernel_indices = [indices[d] for d in mapping.kernel_axes]
        sizes = [grid[d] for d in mapping.kernel_axes]
        starts = [None if b.covers_array else _starts(b, indices, state[:num_scalars]) for b in blocks]
        block_values = [*state[:num_scalars],
                        *[x if start is None else _read_block(x, b, start)
                          for x, b, start in zip(state[num_scalars:], blocks, starts)],
                        *state[num_scalars + len(blocks):]]
        query_values = [kernel_indices[axis] if primitive is program_id_p else sizes[axis] for primitive, axis in grid_queries]
        results = program(*query_values, *block_values)
        return [_write_block(state[k], starts[k - num_scalars], blocks[k - num_scalars], x)
                if k < num_scalars + len(blocks) else x for k, x in zip(written, results) if k >= num_scalars]

    carry = [ref_values[k] for k in carried]
    steps: Any = 1
    for n in grid:
        steps = max(n, 0) * steps if isinstance(n, int) and isinstance(steps, int) else mul(_int32(n), _int32(steps))
    if isinstance(steps, int) and steps <= 1:
        carry = step(np.int32(0), carry) if steps else carry
    else:
        carry = fori_loop(np.int32(0), _int32(steps), step, carry)
    for k, x in zip(carried, carry):
        ref_values[k] = x
    outputs = range(inputs, inputs + mapping.num_outputs)
    return [_unpadded(ref_values[k], b) for k, b in zip(outputs, blocks[mapping.num_inputs:])]


def _int32(x):
    return np.int32(x) if isinstance(x, int) else x


def _unraveled(i, grid) -> list[Any]:
    """Convert a linear index to one index per axis of the grid; the last axis varies fastest."""
    indices: list[Any] = []
    for n in reversed(grid):
        is_single = isinstance(n, int) and n == 1
        indices.insert(0, np.int32(0) if is_single else i if len(indices) + 1 == len(grid) else rem_(i, _int32(n)))
        i = i if is_single else div(i, _int32(n))
    return indices


def _starts(block: BlockMapping, grid_indices, scalars) -> list[Any]:
    """Return the start of a block along each dimension of the padded array. Negative indices count from the end."""
    program, _ = discharge_program(block.index_map_jaxpr)
    indices = program(*grid_indices, *scalars)[:len(block.block_shape)]
    firsts = [mul(i, np.int32(b.block_size)) if type(b) is Blocked else i for i, b in zip(indices, block.block_shape)]
    sizes = [low + n + high for n, (low, high) in zip(block.array_aval.shape, _padding(block))]
    return [start_index(i, n) for i, n in zip(firsts, sizes)]


def _read_block(x, block: BlockMapping, starts):
    return reshape_to(dynamic_slice_p.bind(x, *starts, slice_sizes=block.sizes), block.block_aval.shape)


def _write_block(x, starts, block: BlockMapping, new):
    if starts is None:
        return new
    return dynamic_update_slice_p.bind(x, reshape_to(new, block.sizes), *starts)


def _padding(block: BlockMapping) -> list[tuple[int, int]]:
    """Return the padding of the array in each dimension, so that blocks at the edge are full-sized."""
    if block.covers_array:
        return [(0, 0)] * len(block.block_shape)
    padding = []
    for b, n in zip(block.block_shape, block.array_aval.shape):
        low, high = b.padding if type(b) is Element else (0, 0)
        is_unpadded = type(b) is Squeezed or not b.block_size
        padding.append((low, high if is_unpadded else high + -(low + n + high) % b.block_size))
    return padding


def _padded(x, block: BlockMapping):
    padding = _padding(block)
    if not any(map(any, padding)):
        return x
    fill = uninitialized_scalar(tracing.aval_of(x).dtype)
    return pad_p.bind(x, fill, padding_config=tuple([(low, high, 0) for low, high in padding]))


def _unpadded(x, block: BlockMapping):
    padding = _padding(block)
    if not any(map(any, padding)):
        return x
    lows = tuple([low for low, _ in padding])
    ends = tuple([low + n for low, n in zip(lows, block.array_aval.shape)])
    return slice_p.bind(x, start_indices=lows, limit_indices=ends, strides=None)
