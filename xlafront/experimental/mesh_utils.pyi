# Written by `python -m tests.stubs`.
import builtins as _builtins
import numpy as _np
import typing as _typing

def create_device_mesh(mesh_shape: _typing.Sequence[_builtins.int], devices: _typing.Sequence[_typing.Any] | None = ..., *, contiguous_submeshes: _builtins.bool = ..., allow_split_physical_axes: _builtins.bool = ...) -> _np.ndarray: ...
def create_hybrid_device_mesh(mesh_shape: _typing.Sequence[_builtins.int], dcn_mesh_shape: _typing.Sequence[_builtins.int], devices: _typing.Sequence[_typing.Any] | None = ..., *, process_is_granule: _builtins.bool = ..., should_sort_granules_by_key: _builtins.bool = ..., allow_split_physical_axes: _builtins.bool = ...) -> _np.ndarray: ...
