"""Checks of TPU kernels before they are compiled: blocks against tilings, and memories."""

from __future__ import annotations

from typing import Any

from xlafront.core.ir import Jaxpr, JaxprEqn, Var
from xlafront.core.jaxpr import subprograms
from xlafront.pallas.findings import line_of
from xlafront.pallas.grid_mapping import BlockMapping, GridMapping
from xlafront.pallas.kernel_mlir import bit_width, check_elements, kind_of
from xlafront.pallas.kernel_operation import split_views
from xlafront.pallas.specs import Squeezed
from xlafront.pallas.to_mosaic.gathers import LANES, SUBLANES
from xlafront.pallas.to_mosaic.memrefs import MAIN_SPACES, SCRATCH_SPACES, SHARED_SPACE, key_words, space_of

_SPACES = ("vmem", "smem", "hbm", "any")  # of arguments and results


def check_kernel(label: str, jaxpr: Jaxpr, mapping: GridMapping, is_sparse_core: bool = False) -> None:
    """Raise an error if a kernel's blocks cannot be compiled for TPUs, or its semaphores are left behind."""
    for block in mapping.block_mappings:
        _check_buffers(label, block)
        space = space_of(block.block_aval.memory_space)
        if space not in _SPACES:  # the compiler would end the process for some of these
            raise ValueError(f"{_described(label, block)} is in {space}, where arguments and results of TPU kernels cannot be. "
                             f"Use pltpu.VMEM, pltpu.SMEM, pltpu.HBM or pl.ANY.")
        if space not in ("vmem", "smem"):
            if not block.covers_array:
                raise ValueError(f"{_described(label, block)} has blocks in {space}, where references are unblocked. Leave its "
                                 f"block_shape out, or use a block in VMEM.")
            continue
        if key_words(block.array_aval.dtype):
            _check_key(label, block, space)
            continue
        _check_dtype(label, block.origin, block.array_aval.dtype)
        if space == "vmem" and mapping.grid:
            if not block.array_aval.shape:
                raise ValueError(f"{_described(label, block)} is a scalar in VMEM, which holds vectors. Give it the shape "
                                 f"(1, 1), or a BlockSpec with memory_space=pltpu.SMEM.")
            _check_tiling(label, block)
    for i, aval in enumerate(mapping.scratch_avals):
        space = space_of(aval.memory_space)
        if space not in (*SCRATCH_SPACES, *(["hbm", SHARED_SPACE] if is_sparse_core else MAIN_SPACES)):
            spaces = "VMEM, SMEM, VMEM_SHARED or HBM" if is_sparse_core else "VMEM, SMEM, HBM or ANY"
            raise ValueError(f"the kernel {label}: scratch_shapes[{i}], {aval}, is in {space}; scratch memory of "
                             f"{'SparseCores' if is_sparse_core else 'TPU kernels'} is in {spaces}, or of semaphores. Use "
                             f"pltpu.VMEM, and pl.run_scoped for pltpu.ACC.")
        if space != "semaphore_mem":
            _check_dtype(label, f"scratch_shapes[{i}]", aval.dtype)
    for i, aval in enumerate(mapping.index_avals):
        if bit_width(aval.dtype) != 32 and kind_of(aval.dtype) != "bool":
            raise ValueError(f"the kernel {label}: the scalar argument {i} has dtype {aval.dtype}; scalar memory holds "
                             f"elements of 32 bits. Convert it to int32 or float32.")
    first = len(jaxpr.invars) - mapping.num_scratch_operands
    names = {i: f"the semaphore scratch_shapes[{i - first}]" for i in range(first, len(jaxpr.invars))}
    _check_semaphores(label, jaxpr, names)


# Semaphores

_SIGNALS, _WAITS = ("semaphore_signal", "dma_start"), ("semaphore_wait", "semaphore_read", "dma_wait")


def _check_semaphores(label: str, jaxpr: Jaxpr, names: dict[int, str]) -> None:
    """Raise an error if a semaphore is signaled and never waited for. `names` are those of its inputs."""
    signaled, awaited = _uses(label, jaxpr)
    for i, name in names.items():
        if i in signaled and i not in awaited:
            raise ValueError(f"the kernel {label}: {name} is signaled {line_of(signaled[i])} and never waited for, but must be "
                             f"zero when the kernel ends. Wait for it: copy.wait() or pl.semaphore_wait(sem, count).")


def _uses(label: str, jaxpr: Jaxpr) -> tuple[dict[int, JaxprEqn], set[int]]:
    """Return the inputs of a jaxpr that are semaphores: those that are signaled, with an equation, and those awaited."""
    numbers = {v: i for i, v in enumerate(jaxpr.invars)}
    signaled: dict[int, JaxprEqn] = {}
    awaited: set[int] = set()
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in _SIGNALS or name in _WAITS:
            views, _ = split_views(list(eqn.invars), eqn.params["views"])
            semaphores = [numbers[view[0]] for view in (views[2:] if name.startswith("dma") else views) if view[0] in numbers]
            if name in _WAITS:
                awaited.update(semaphores)
            else:
                signaled.update(dict.fromkeys(semaphores, eqn))
            continue
        for inner in subprograms(eqn.params):
            # Operands of the equation are the last inputs, before those of a scope; a branch has no index, a loop's part all.
            scratch = eqn.params["count"] if name == "run_scoped" else 0
            outer = _operands(eqn, inner, scratch)
            inner_signaled, inner_awaited = _uses(label, inner)
            if scratch:
                first = len(inner.invars) - scratch
                _check_semaphores(label, inner, {i: "a semaphore of run_scoped" for i in range(first, len(inner.invars))})
            signaled.update({numbers[outer[i]]: e for i, e in inner_signaled.items() if outer[i] in numbers})
            awaited.update([numbers[outer[i]] for i in inner_awaited if outer[i] in numbers])
    return signaled, awaited


def _operands(eqn: JaxprEqn, inner: Jaxpr, scratch: int) -> list[Any]:
    """Return the operands of an equation that are the inputs of one of its jaxprs; None for others."""
    operands, params = list(eqn.invars), eqn.params
    if eqn.primitive.name == "cond":
        operands = operands[1:]
    elif eqn.primitive.name == "while":
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        is_condition = inner is params["cond_jaxpr"].structure
        operands = [*(operands[:first] if is_condition else operands[first:last]), *operands[last:]]
    operands = [v if isinstance(v, Var) else None for v in operands]
    return (operands + [None] * scratch)[:len(inner.invars)] + [None] * (len(inner.invars) - len(operands) - scratch)


def _described(label: str, block: BlockMapping) -> str:
    return f"the kernel {label}: {block.origin}, of type {block.array_aval},"


def _check_dtype(label: str, name: str, dtype: Any) -> None:
    if bit_width(dtype) == 64:
        raise ValueError(f"the kernel {label}: {name} has dtype {dtype}; TPU kernels have no elements of 64 bits. Convert it "
                         f"to 32 bits.")
    check_elements(f"the kernel {label}: ", name, dtype)


def _check_key(label: str, block: BlockMapping, space: str) -> None:
    if space != "smem":
        raise ValueError(f"{_described(label, block)} is a random key in {space}. Give it "
                         f"pl.BlockSpec(memory_space=pltpu.SMEM), since keys are read as scalars.")


def _check_buffers(label: str, block: BlockMapping) -> None:
    buffered = block.pipeline_mode
    if buffered is not None and buffered.buffer_count not in (1, 2):
        raise NotImplementedError(f"{_described(label, block)} has {buffered.buffer_count} buffers; Mosaic has 1 or 2 for a "
                                  f"block. Use pl.Buffered(2), or pltpu.emit_pipeline, which has any number.")


def _check_tiling(label: str, block: BlockMapping) -> None:
    """Check that the last two dimensions of a block are multiples of the tiling, or those of the array."""
    dims, shape = block.block_shape, block.array_aval.shape
    if len(dims) < 2:
        if dims:
            _check_vector(label, block)
        return
    for d, unit in ((-2, SUBLANES), (-1, LANES)):
        b, n = dims[d], shape[d]
        size = 1 if type(b) is Squeezed else b.block_size
        if size != n and size % unit:
            names = {-2: "second last", -1: "last"}
            raise ValueError(
                f"{_described(label, block)} has blocks of shape {block.sizes}: the size {size} of the {names[d]} dimension "
                f"must be a multiple of {unit} or that of the array, {n}. Round it up to {-(-size // unit) * unit}, or "
                f"transpose the array.")


def _check_vector(label: str, block: BlockMapping) -> None:
    [b], [n] = block.block_shape, block.array_aval.shape
    size = 1 if type(b) is Squeezed else b.block_size
    unit = LANES * 32 // max(bit_width(block.array_aval.dtype), 8)
    if size != n and size % unit and (size < LANES or size & (size - 1)):
        raise ValueError(f"{_described(label, block)} has blocks of {size} elements: the size must be that of the array, {n}, "
                         f"or a multiple of {unit}.")


