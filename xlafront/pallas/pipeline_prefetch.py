"""Pipelines whose first blocks are copied ahead of them, while other work is done."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from xlafront.core import errors, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.traceback_filter import boundary
from xlafront.lax import refs as ref_operations
from xlafront.pallas.buffered_ref import BufferedRef, flat_specs, make_pipeline_allocations
from xlafront.pallas.kernel_operation import is_ref_or_view
from xlafront.pallas.pipeline import emit_pipeline, prefetch
from xlafront.pallas.specs import grid_of


@boundary
def emit_pipeline_with_async_prefetch(
        body: Callable[..., None], *, grid: Any, in_specs: Any = (), out_specs: Any = (), mesh: Any, tiling: Any = None,
        core_axis: int | None = None, core_axis_name: Hashable | None = None, dimension_semantics: Any = None,
        trace_scopes: bool = True, no_pipelining: bool = False, _explicit_indices: bool = False
        ) -> tuple[Callable[..., None], Callable[..., tuple[BufferedRef, ...]]]:
    """Make a pipeline, and a function that starts to copy its first blocks.

    For use in kernels: call the second function first, do other work, then run the pipeline with the buffers that it returns.

    Args:
        body, grid, in_specs, out_specs: As for `emit_pipeline`. `pl.Buffered(count, prefetched_count=n)` as the
            `pipeline_mode` of an input is the number `n < count` of blocks to copy ahead.
        mesh: The cores of the kernel, such as a `pltpu.TensorCoreMesh`. Ignored: it is that of the kernel.
        tiling, core_axis, core_axis_name, dimension_semantics, trace_scopes, no_pipelining, _explicit_indices: As for
            `emit_pipeline`.

    Returns:
        The pipeline, which takes the buffers of the inputs as `allocations`, and a function of the references of the inputs.

    Example:
        >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(2, prefetched_count=1))
        >>> mesh = pl.tpu.TensorCoreMesh(axis_name="core", num_cores=1)
        >>> def kernel(x_ref, o_ref):
        ...     run, prefetch = pl.tpu.emit_pipeline_with_async_prefetch(
        ...         lambda x_ref, o_ref: pl.tpu.sync_copy(x_ref, o_ref), grid=4, in_specs=[rows],
        ...         out_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))], mesh=mesh)
        ...     buffers = prefetch(x_ref)
        ...     run(x_ref, o_ref, allocations=buffers)
    """
    inputs, outputs = flat_specs("in_specs", in_specs), flat_specs("out_specs", out_specs)
    for i, spec in enumerate(inputs):
        count = getattr(spec.pipeline_mode, "prefetched_count", 0)
        if count and (no_pipelining or count >= spec.pipeline_mode.buffer_count):
            raise ValueError(f"emit_pipeline_with_async_prefetch: input {i} has {count} prefetched blocks; with "
                             f"{1 if no_pipelining else spec.pipeline_mode.buffer_count} buffers, fewer than that can be. Use "
                             f"pl.Buffered({count + 1}, prefetched_count={count}).")
    plain = [_without_prefetch(s) for s in inputs]
    options = {"core_axis": core_axis, "core_axis_name": core_axis_name, "dimension_semantics": dimension_semantics}
    run = emit_pipeline(body, grid=grid, in_specs=plain, out_specs=outputs, tiling=tiling, trace_scopes=trace_scopes,
                        no_pipelining=no_pipelining, _explicit_indices=_explicit_indices, **options)

    @boundary
    def start_copies(*refs: Any) -> tuple[BufferedRef, ...]:
        if len(refs) != len(inputs) or not all(map(is_ref_or_view, refs)):
            raise TypeError(f"the function that prefetches blocks takes the references of {len(inputs)} inputs within a "
                            f"kernel, got {', '.join(map(errors.short, refs))}. Memory of a TPU does not persist "
                            f"between kernels.")
        described = make_pipeline_allocations(*refs, in_specs=plain)
        buffers = [dataclasses.replace(_allocated(b), prefetched_count=getattr(s.pipeline_mode, "prefetched_count", 0))
                   for b, s in zip(described, inputs)]
        prefetch(buffers, plain, refs, grid_of(grid), **options)
        return tuple(buffers)

    return run, start_copies


def _without_prefetch(spec: Any) -> Any:
    if not getattr(spec.pipeline_mode, "prefetched_count", 0):
        return spec
    return spec.replace(pipeline_mode=dataclasses.replace(spec.pipeline_mode, prefetched_count=0))


def _allocated(buffers: BufferedRef) -> BufferedRef:
    """Return the buffers with memory that the kernel allocates here, until it ends."""
    return tree.map(_new_ref, buffers, is_leaf=lambda x: hasattr(x, "get_ref_aval"))


def _new_ref(memory: Any) -> Any:
    aval = memory.get_ref_aval()
    return ref_operations.empty_ref_p.bind(ty=ShapedArray(aval.shape, np.dtype(aval.dtype)), memory_space=aval.memory_space,
                                           pin=False)
