# Written by `python -m tests.stubs`.
from xlafront.runtime.meshes import AbstractDevice as AbstractDevice
from xlafront.runtime.meshes import AbstractMesh as AbstractMesh
from xlafront.runtime.meshes import AbstractMesh as _AbstractMesh
from xlafront.runtime.meshes import AxisType as AxisType
from xlafront.runtime.meshes import Mesh as Mesh
from xlafront.runtime.meshes import Mesh as _Mesh
from xlafront.runtime.specs import ManualAxisType as ManualAxisType
from xlafront.runtime.specs import P as PartitionSpec
from xlafront.staging.meshes import set_mesh as set_mesh
from xlafront.staging.meshes import use_abstract_mesh as use_abstract_mesh
import builtins as _builtins
import typing as _typing

NamedSharding: _typing.Any
Sharding: _typing.Any
SingleDeviceSharding: _typing.Any
def auto_axes(f: _typing.Callable | None = ..., *, axes: _typing.Any = ..., out_sharding: _typing.Any = ...) -> _typing.Callable: ...
def explicit_axes(f: _typing.Callable | None = ..., *, axes: _typing.Any = ..., in_sharding: _typing.Any = ...) -> _typing.Callable: ...
def get_abstract_mesh() -> _AbstractMesh: ...
def get_mesh() -> _Mesh: ...
def make_single_device_sharding(device: _typing.Any, *, memory_kind: _builtins.str | None = ...) -> _typing.Any: ...
def reshard(xs: _typing.Any, out_shardings: _typing.Any) -> _typing.Any: ...
