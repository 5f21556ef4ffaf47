# Written by `python -m tests.stubs`.
from xlafront.planning.costs import Buffer as Buffer
from xlafront.planning.costs import Collective as Collective
from xlafront.planning.report import Memory as Memory
from xlafront.planning.report import Plan as Plan
from xlafront.planning.report import Plan as _Plan
from xlafront.runtime.meshes import Mesh as _Mesh
import builtins as _builtins
import typing as _typing
import xlafront.planning.topologies as _topologies

def plan(fun: _typing.Callable, *args: _typing.Any, topology: _builtins.str | _topologies.TopologyDescription | None = ..., platform: _builtins.str | None = ..., mesh: _Mesh | _typing.Mapping[_builtins.str, _builtins.int] | None = ..., memory_limit: _builtins.int | None = ..., compiler_options: _builtins.dict[_builtins.str, _typing.Any] | None = ..., **kwargs: _typing.Any) -> _Plan: ...
