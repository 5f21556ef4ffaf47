# Written by `python -m tests.stubs`.
from xlafront.planning.topologies import TopologyDescription as TopologyDescription
from xlafront.planning.topologies import TopologyDescription as _TopologyDescription
from xlafront.runtime.meshes import Mesh as _Mesh
import builtins as _builtins
import typing as _typing

def get_attached_topology(platform: _builtins.str | None = ...) -> _TopologyDescription: ...
def get_topology_desc(topology_name: _builtins.str | None = ..., platform: _builtins.str | None = ..., **kwargs: _typing.Any) -> _TopologyDescription: ...
def make_mesh(topo: _TopologyDescription, mesh_shape: _typing.Sequence[_builtins.int], axis_names: _builtins.tuple[_builtins.str, ...], *, contiguous_submeshes: _builtins.bool = ...) -> _Mesh: ...
