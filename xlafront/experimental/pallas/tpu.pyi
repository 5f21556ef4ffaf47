# Written by `python -m tests.stubs`.
from xlafront.pallas.semaphores import AsyncCopyDescriptor as _AsyncCopyDescriptor
from xlafront.pallas.semaphores import SemaphoreType as SemaphoreType
from xlafront.pallas.tpu import CompilerParams as CompilerParams
from xlafront.pallas.tpu import CoreType as CoreType
from xlafront.pallas.tpu import GridDimensionSemantics as GridDimensionSemantics
from xlafront.pallas.tpu import MemorySpace as MemorySpace
from xlafront.pallas.tpu import MemorySpace as _MemorySpace
from xlafront.pallas.tpu import PrefetchScalarGridSpec as PrefetchScalarGridSpec
from xlafront.pallas.tpu import SideEffectType as SideEffectType
from xlafront.pallas.tpu import Tiling as Tiling
import builtins as _builtins
import typing as _typing

ARBITRARY: _typing.Any
CMEM: _MemorySpace
CORE_PARALLEL: _typing.Any
HBM: _MemorySpace
PARALLEL: _typing.Any
SEMAPHORE: _MemorySpace
SMEM: _MemorySpace
SUBCORE_PARALLEL: _typing.Any
VMEM: _MemorySpace
VMEM_SHARED: _MemorySpace
def async_copy(src_ref: _typing.Any, dst_ref: _typing.Any, sem: _typing.Any, *, priority: _builtins.int = ..., add: _builtins.bool = ...) -> _AsyncCopyDescriptor: ...
def einshape(equation: _builtins.str, x: _typing.Any, assert_is_tile_preserving: _builtins.bool = ..., **sizes: _builtins.int) -> _typing.Any: ...
def is_tpu_device() -> _builtins.bool: ...
def load(ref: _typing.Any, *, mask: _typing.Any = ...) -> _typing.Any: ...
def make_async_copy(src_ref: _typing.Any, dst_ref: _typing.Any, sem: _typing.Any) -> _AsyncCopyDescriptor: ...
def roll(x: _typing.Any, shift: _typing.Any, axis: _builtins.int, *, stride: _builtins.int | None = ..., stride_axis: _builtins.int | None = ...) -> _typing.Any: ...
def store(ref: _typing.Any, val: _typing.Any, *, mask: _typing.Any = ...) -> None: ...
def sync_copy(src_ref: _typing.Any, dst_ref: _typing.Any, *, add: _builtins.bool = ...) -> None: ...
def trace_value(label: _builtins.str, value: _typing.Any) -> None: ...
