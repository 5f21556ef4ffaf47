"""Kernels that compute each block of their results by a reduction over blocks of their inputs.

`reduce_blocks` compiles the same functions of values for TPUs and GPUs. On TPUs the steps of a reduction are the last axes of
the grid, and the carry is in VMEM, so that blocks are copied while others are used. On GPUs each program runs the steps as a
loop, with the carry in registers. Elements of blocks beyond the edges of arrays are zeros in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.while_loop import fori_loop
from xlafront.core.avals import ShapedArray
from xlafront.kernels.targets import Target
from xlafront.lax.ref_indexing import Slice
from xlafront.pallas import tpu, triton
from xlafront.pallas.call import pallas_call
from xlafront.pallas.kernel_functions import cdiv, when
from xlafront.pallas.primitives import num_programs, program_id
from xlafront.pallas.specs import BlockSpec, CostEstimate

_float32 = np.dtype(np.float32)


class Blocks(NamedTuple):
    """The blocks of an array that the steps of a reduction see.

    Args:
        shape: Size of a block in each dimension; None for a dimension of size 1 that values do not have.
        index: Function of the indices of the result, the indices of the step and the scalars, which returns the index of the
            block in each dimension.
        stepped: The dimensions whose index depends on the step.
    """

    shape: tuple[int | None, ...]
    index: Callable[..., tuple]
    stepped: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """A kernel.

    Args:
        name: Its name.
        grid: Numbers of blocks of the results.
        steps: Numbers of steps; the last varies fastest. Empty for kernels without a reduction.
        inputs, outputs: The blocks of each array. Those of outputs are not stepped.
        carry: Shape, dtype and initial value of each array that the steps carry.
        step: Function of the indices and scalars, the carry and a block of each input, which returns the next carry.
        finish: Function of the indices and scalars, the carry and a block of each input that is not stepped, which returns a
            block of each output.
        bounds: Function of the indices of the result and the scalars, which returns the first of the last steps and their
            end. Default: all.
        span: Maximum number of the steps within bounds, also as an array. Default: all.
        cost: Cost of the kernel.
        num_warps: Number of warps of a program on GPUs.
    """

    name: str
    grid: tuple[int, ...]
    inputs: Sequence[Blocks]
    outputs: Sequence[Blocks]
    finish: Callable[..., Sequence[Any]]
    steps: tuple[int, ...] = ()
    carry: Sequence[tuple[tuple[int, ...], Any, float]] = ()
    step: Callable[..., tuple] = lambda at, carry, *values: carry
    bounds: Callable[..., tuple] | None = None
    span: Any = None
    cost: CostEstimate | None = None
    num_warps: int = 4

    def initial(self) -> tuple:
        """Return the first carry."""
        return tuple([xnp.full(shape, fill, dtype) for shape, dtype, fill in self.carry])


def reduce_blocks(target: Target, kernel: Reduction, arrays: Sequence[Any], out_types: Sequence[ShapedArray],
                  scalars: Sequence[Any] = ()) -> list[Any]:
    """Run a kernel on arrays and integers, which its index functions and bounds can read, and return the results."""
    if not target.is_tpu:
        return list(_on_gpu(target, kernel, list(arrays), tuple(out_types), list(scalars)))
    wide_types = tuple([t.update(dtype=_float32) if t.dtype == np.float16 else t for t in out_types])
    wide = [x.astype(_float32) if x.dtype == np.float16 else x for x in arrays]  # vector units have no float16
    return [x.astype(t.dtype) for x, t in zip(_on_tpu(target, kernel, wide, wide_types, list(scalars)), out_types)]


def dot(x: Any, y: Any, dims: tuple[int, int] = (1, 0), dtype: Any = _float32) -> Any:
    """Multiply matrices that are summed over a dimension of each, and return the products in an accumulator's dtype."""
    if np.dtype(x.dtype) == np.float64:
        dtype = np.float64
    return lax.dot_general(x, y, (((dims[0],), (dims[1],)), ((), ())), preferred_element_type=dtype)


def row_of(target: Target, column: Any) -> Any:
    """Return a column as a row. (TPUs before v5 cannot reshape it, but all can transpose tiles.)"""
    n = column.shape[0]
    return xnp.broadcast_to(column, (n, 128)).T[:1] if target.is_tpu else column.reshape(1, n)


def _zero_beyond(x: Any, blocks: Blocks, shape: Sequence[int], index: Sequence[Any]) -> Any:
    """Replace elements of a block that are beyond the edges of its array by zeros."""
    axis = 0
    for size, n, i in zip(blocks.shape, shape, index):
        if size is None:
            continue
        if n % size:
            position = lax.broadcasted_iota(np.int32, x.shape, axis)
            x = xnp.where(position < n - i * size, x, xnp.zeros((), x.dtype))
        axis += 1
    return x


# TPUs


def _on_tpu(target: Target, kernel: Reduction, arrays: list, out_types: tuple, scalars: list) -> Sequence[Any]:
    rank, num_steps = len(kernel.grid), len(kernel.steps)
    last = kernel.steps[-1:] if kernel.span is None else (kernel.span,)

    def indices(at: tuple, refs: Sequence[Any]) -> tuple[tuple, Any]:
        """Return the indices of a point of the grid as those of a step, and True if the step is within bounds."""
        if kernel.bounds is None:
            return at, None
        start, stop = kernel.bounds(*at[:rank], *refs)
        i = start + at[-1]
        return (*at[:-1], xnp.maximum(xnp.minimum(i, stop - 1), 0)), i < stop

    def spec(blocks: Blocks) -> BlockSpec:
        def index(*args):
            at, refs = args[:rank + num_steps], args[rank + num_steps:]
            return blocks.index(*indices(at, refs)[0], *refs)

        return BlockSpec(blocks.shape, index)

    def body(*refs):
        ids = tuple([program_id(d) for d in range(rank + num_steps)])
        scalar_refs, refs = refs[:len(scalars)], refs[len(scalars):]
        at, is_within = indices(ids, scalar_refs)
        at = (*at, *scalar_refs)
        ins, rest = refs[:len(arrays)], refs[len(arrays):]
        outs, scratch = rest[:len(out_types)], rest[len(out_types):]

        def read(only_fixed: bool) -> list[Any]:
            return [_zero_beyond(r[...], b, x.shape, b.index(*at)) for r, b, x in zip(ins, kernel.inputs, arrays)
                    if not (only_fixed and b.stepped)]

        def write(carry: tuple) -> None:
            for ref, x in zip(outs, kernel.finish(at, carry, *read(True))):
                ref[...] = x.astype(ref.dtype)

        if not num_steps:
            write(kernel.step(at, kernel.initial(), *read(False)))
            return
        _steps_on_tpu(kernel, at, ids[rank:], is_within, scratch, read, write, rank)

    grid_spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=len(scalars), grid=(*kernel.grid, *kernel.steps[:-1], *last),
        in_specs=[spec(b) for b in kernel.inputs], out_specs=tuple([spec(b) for b in kernel.outputs]),
        scratch_shapes=[tpu.VMEM(shape, dtype) for shape, dtype, _ in kernel.carry])
    params = tpu.CompilerParams(dimension_semantics=("parallel",) * rank + ("arbitrary",) * num_steps)
    return pallas_call(body, out_types, grid_spec=grid_spec, interpret=target.interpret, name=kernel.name,
                       compiler_params=params, cost_estimate=kernel.cost)(*scalars, *arrays)


def _steps_on_tpu(kernel: Reduction, at: tuple, steps: tuple, is_within: Any, scratch: Sequence[Any], read: Callable,
                  write: Callable, rank: int) -> None:
    """Initialize the carry in scratch memory, compute a step if it is within bounds, and write the results after the last."""
    def carry() -> tuple:
        return tuple([ref[...] for ref in scratch])

    def store(new: tuple) -> None:
        for ref, x in zip(scratch, new):
            ref[...] = x

    def step() -> None:
        store(kernel.step(at, carry(), *read(False)))

    is_first, is_last = True, True
    for d, i in enumerate(steps):
        is_first &= i == 0
        is_last &= i == num_programs(rank + d) - 1
    when(is_first)(lambda: store(kernel.initial()))
    when(True if is_within is None else is_within)(step)
    when(is_last)(lambda: write(carry()))


# GPUs


class _Zeros:
    """Scalars where only indices are needed that do not depend on them."""

    def __getitem__(self, key: Any) -> int:
        return 0


def _on_gpu(target: Target, kernel: Reduction, arrays: list, out_types: tuple, scalars: list) -> Sequence[Any]:
    rank, num_steps = len(kernel.grid), len(kernel.steps)

    def spec(blocks: Blocks, shape: Sequence[int]) -> BlockSpec:
        def index(*at):
            found = blocks.index(*at, *[0] * num_steps, *[_Zeros()] * len(scalars))
            return tuple([0 if d in blocks.stepped else i for d, i in enumerate(found)])

        return BlockSpec(tuple([size if d not in blocks.stepped else n if size is None else cdiv(n, size) * size
                                for d, (size, n) in enumerate(zip(blocks.shape, shape))]), index)

    def body(*refs):
        scalar_refs, refs = refs[:len(scalars)], refs[len(scalars):]
        ins, outs = refs[:len(arrays)], refs[len(arrays):]
        point = tuple([program_id(d) for d in range(rank)])

        def read(k: int, at: tuple) -> Any:
            blocks, index = kernel.inputs[k], kernel.inputs[k].index(*at, *scalar_refs)
            key = [(i if size is None else Slice(i * size, size)) if d in blocks.stepped else slice(None)
                   for d, (size, i) in enumerate(zip(blocks.shape, index)) if d in blocks.stepped or size is not None]
            return _zero_beyond(ins[k][tuple(key)], blocks, arrays[k].shape, index)

        start = (*point, *[0] * num_steps)
        fixed = {k: read(k, start) for k, b in enumerate(kernel.inputs) if not b.stepped}

        def run(at: tuple, carry: tuple) -> tuple:
            level = len(at) - rank
            if level == num_steps:
                values = [fixed[k] if k in fixed else read(k, at) for k in range(len(arrays))]
                return kernel.step((*at, *scalar_refs), carry, *values)
            low, high = 0, kernel.steps[level]
            if level == num_steps - 1 and kernel.bounds is not None:
                low, high = kernel.bounds(*point, *scalar_refs)
            return fori_loop(low, high, lambda i, c: run((*at, i), c), carry)

        results = kernel.finish((*start, *scalar_refs), run(point, kernel.initial()), *fixed.values())
        for ref, x in zip(outs, results):
            ref[...] = x.astype(ref.dtype)

    in_specs = [*[BlockSpec() for _ in scalars], *[spec(b, x.shape) for b, x in zip(kernel.inputs, arrays)]]
    out_specs = tuple([spec(b, t.shape) for b, t in zip(kernel.outputs, out_types)])
    return pallas_call(body, out_types, grid=kernel.grid, in_specs=in_specs, out_specs=out_specs, interpret=target.interpret,
                       name=kernel.name, compiler_params=triton.CompilerParams(num_warps=kernel.num_warps, num_stages=2),
                       cost_estimate=kernel.cost)(*scalars, *arrays)
