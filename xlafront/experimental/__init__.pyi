# Written by `python -m tests.stubs`.
from xlafront.experimental import array_serialization as array_serialization
from xlafront.experimental import buffer_callback as buffer_callback
from xlafront.experimental import checkify as checkify
from xlafront.experimental import colocated_python as colocated_python
from xlafront.experimental import compilation_cache as compilation_cache
from xlafront.experimental import compute_on as compute_on
from xlafront.experimental import control_deps as control_deps
from xlafront.experimental import custom_partitioning as custom_partitioning
from xlafront.experimental import fused as fused
from xlafront.experimental import hijax as hijax
from xlafront.experimental import jet as jet
from xlafront.experimental import key_reuse as key_reuse
from xlafront.experimental import layout as layout
from xlafront.experimental import mesh_utils as mesh_utils
from xlafront.experimental import multihost_utils as multihost_utils
from xlafront.experimental import ode as ode
from xlafront.experimental import pallas as pallas
from xlafront.experimental import pjit as pjit
from xlafront.experimental import profiler as profiler
from xlafront.experimental import random as random
from xlafront.experimental import rnn as rnn
from xlafront.experimental import roofline as roofline
from xlafront.experimental import scheduling_groups as scheduling_groups
from xlafront.experimental import serialize_executable as serialize_executable
from xlafront.experimental import shard_alike as shard_alike
from xlafront.experimental import source_mapper as source_mapper
from xlafront.experimental import sparse as sparse
from xlafront.experimental import topologies as topologies
from xlafront.experimental import transfer as transfer
from xlafront.experimental import xla_metadata as xla_metadata
from xlafront.interpreters.extended_dtypes import EArray as EArray
from xlafront.interpreters.extended_dtypes import PrimalTangentDType as _PrimalTangentDType
from xlafront.typing import DTypeLike as _DTypeLike
import builtins as _builtins
import typing as _typing

def cur_qdd(x: _typing.Any) -> _typing.Any: ...
def io_callback(callback: _typing.Callable[..., _typing.Any], result_shape_dtypes: _typing.Any, *args: _typing.Any, sharding: _typing.Any = ..., ordered: _builtins.bool = ..., **kwargs: _typing.Any) -> _typing.Any: ...
def primal_tangent_dtype(primal_dtype: _DTypeLike, tangent_dtype: _DTypeLike, name: _builtins.str | None = ...) -> _PrimalTangentDType: ...
