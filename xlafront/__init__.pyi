# Written by `python -m tests.stubs`.
from xlafront import ad_checkpoint as ad_checkpoint
from xlafront import api_util as api_util
from xlafront import compat as compat
from xlafront import core as core
from xlafront import custom_batching as custom_batching
from xlafront import custom_derivatives as custom_derivatives
from xlafront import debug as debug
from xlafront import distributed as distributed
from xlafront import dlpack as dlpack
from xlafront import dtypes as dtypes
from xlafront import errors as errors
from xlafront import example_libraries as example_libraries
from xlafront import experimental as experimental
from xlafront import export as export
from xlafront import extend as extend
from xlafront import ffi as ffi
from xlafront import flatten_util as flatten_util
from xlafront import image as image
from xlafront import interpreters as interpreters
from xlafront import kernels as kernels
from xlafront import lax as lax
from xlafront import memory as memory
from xlafront import monitoring as monitoring
from xlafront import nn as nn
from xlafront import numpy as numpy
from xlafront import ops as ops
from xlafront import planning as planning
from xlafront import profiler as profiler
from xlafront import random as random
from xlafront import ref as ref
from xlafront import scipy as scipy
from xlafront import sharding as sharding
from xlafront import stages as stages
from xlafront import test_util as test_util
from xlafront import tree as tree
from xlafront import tree_util as tree_util
from xlafront import typing as typing
from xlafront.api.derivatives import fwd_and_bwd as fwd_and_bwd
from xlafront.api.derivatives import grad as grad
from xlafront.api.derivatives import jvp as jvp
from xlafront.api.derivatives import linear_transpose as linear_transpose
from xlafront.api.derivatives import linearize as linearize
from xlafront.api.derivatives import value_and_grad as value_and_grad
from xlafront.api.derivatives import vjp as vjp
from xlafront.api.jacobians import hessian as hessian
from xlafront.api.jacobians import jacfwd as jacfwd
from xlafront.api.jacobians import jacrev as _source_jacobian
from xlafront.api.jacobians import jacrev as jacrev
from xlafront.api.linear_maps import ad as ad
from xlafront.api.vmap import vmap as vmap
from xlafront.base.config import IgnoredFlag as _IgnoredFlag
from xlafront.base.config import Setting as _Setting
from xlafront.base.config import Settings as _Settings
from xlafront.base.config import UserContext as _source_make_user_context
from xlafront.base.config import checking_leaks as checking_leaks
from xlafront.base.jaxlib_compat import Device as Device
from xlafront.base.jaxlib_compat import NamedSharding as NamedSharding
from xlafront.base.meshes import AxisType as _AxisType
from xlafront.base.meshes import Mesh as _Mesh
from xlafront.base.specs import P as P
from xlafront.core.source import named_scope as named_scope
from xlafront.core.structs import ShapeDtypeStruct as ShapeDtypeStruct
from xlafront.core.trace import ensure_compile_time_eval as ensure_compile_time_eval
from xlafront.host.callbacks import pure_callback as pure_callback
from xlafront.host.environment import live_arrays as live_arrays
from xlafront.host.environment import print_environment_info as print_environment_info
from xlafront.lax.device_put import block_until_ready as block_until_ready
from xlafront.lax.device_put import copy_to_host_async as copy_to_host_async
from xlafront.lax.device_put import device_get as device_get
from xlafront.lax.device_put import device_put as device_put
from xlafront.lax.ref_indexing import ds as ds
from xlafront.lax.refs import _RefMeta as __RefMeta
from xlafront.lax.refs import empty_ref as empty_ref
from xlafront.lax.refs import free_ref as free_ref
from xlafront.lax.refs import freeze as freeze
from xlafront.lax.refs import new_ref as new_ref
from xlafront.lax.resharding import reshard as reshard
from xlafront.numpy.array_methods import Array as Array
from xlafront.parallel.host_local import make_array_from_process_local_data as make_array_from_process_local_data
from xlafront.parallel.pmap import pmap as pmap
from xlafront.parallel.shard_map import shard_map as shard_map
from xlafront.parallel.shard_map import smap as smap
from xlafront.planning.compiling import plan as plan
from xlafront.planning.remat import plan_remat as plan_remat
from xlafront.planning.search import plan_search as plan_search
from xlafront.runtime.backends import default_backend as default_backend
from xlafront.runtime.backends import device_count as device_count
from xlafront.runtime.backends import devices as devices
from xlafront.runtime.backends import host_count as host_count
from xlafront.runtime.backends import host_id as host_id
from xlafront.runtime.backends import host_ids as host_ids
from xlafront.runtime.backends import local_device_count as local_device_count
from xlafront.runtime.backends import local_devices as local_devices
from xlafront.runtime.backends import process_count as process_count
from xlafront.runtime.backends import process_index as process_index
from xlafront.runtime.backends import process_indices as process_indices
from xlafront.runtime.compile_options import CompilerEffortLevel as CompilerEffortLevel
from xlafront.runtime.effects import effects_barrier as effects_barrier
from xlafront.runtime.shards import Shard as Shard
from xlafront.runtime.shards import make_array_from_callback as make_array_from_callback
from xlafront.runtime.shards import make_array_from_single_device_arrays as make_array_from_single_device_arrays
from xlafront.staging.caches import clear_caches as clear_caches
from xlafront.staging.inlining import Inline as Inline
from xlafront.staging.inspection import eval_shape as eval_shape
from xlafront.staging.inspection import make_jaxpr as make_jaxpr
from xlafront.staging.inspection import named_call as named_call
from xlafront.staging.inspection import typeof as typeof
from xlafront.staging.jit import jit as jit
from xlafront.staging.meshes import get_abstract_mesh as get_abstract_mesh
from xlafront.staging.meshes import get_mesh as get_mesh
from xlafront.staging.meshes import set_mesh as set_mesh
from xlafront.staging.meshes import use_abstract_mesh as use_abstract_mesh
from xlafront.transforms.calls.checkpoint import _Policies as __Policies
from xlafront.transforms.calls.checkpoint import checkpoint as _source_remat
from xlafront.transforms.calls.checkpoint import checkpoint as checkpoint
from xlafront.transforms.calls.custom_gradient import custom_gradient as custom_gradient
from xlafront.transforms.calls.custom_jvp import custom_jvp as custom_jvp
from xlafront.transforms.calls.custom_vjp import custom_vjp as custom_vjp
from xlafront.transforms.calls.linear_call import closure_convert as closure_convert
import builtins as _builtins
import numpy as _numpy
import typing as _typing

Ref: __RefMeta
allow_f16_reductions: _Setting
array_garbage_collection_guard: _Setting
auto_pcast: _Setting
check_tracer_leaks: _Setting
checkpoint_policies: __Policies
config: _Settings
debug_infs: _Setting
debug_key_reuse: _Setting
debug_nans: _Setting
default_device: _Setting
default_matmul_precision: _Setting
default_prng_impl: _Setting
disable_jit: _Setting
enable_checks: _Setting
enable_custom_prng: _Setting
enable_x64: _Setting
explain_cache_misses: _Setting
float0: _numpy.dtype[_typing.Any]
jacobian = _source_jacobian
jax2tf_associative_scan_reductions: _IgnoredFlag
legacy_prng_key: _Setting
log_compiles: _Setting
def make_mesh(axis_sizes: _typing.Sequence[_builtins.int], axis_names: _typing.Sequence[_builtins.str], axis_types: _typing.Sequence[_AxisType] | None = None, *, devices: _typing.Sequence | None = None) -> _Mesh:
    """Create a mesh of devices in which neighbours are linked on the hardware.

    Args:
        axis_sizes: Sizes of the axes. Its older name, `axis_shapes`, is accepted as a keyword.
        axis_names: Names of the axes.
        axis_types: Types of the axes. Default: Explicit, so that the types of arrays have shardings over them.
        devices: Devices to use. Default: the first of the available ones.

    Returns:
        The mesh.

    Example:
        >>> xf.make_mesh((1,), ("data",)).axis_types
        (Explicit,)
    """
make_user_context = _source_make_user_context
no_execution: _Setting
no_tracing: _Setting
numpy_dtype_promotion: _Setting
numpy_rank_promotion: _Setting
remat = _source_remat
remove_size_one_mesh_axis_from_type: _Setting
softmax_custom_jvp: _Setting
thread_guard: _Setting
threefry_partitionable: _Setting
transfer_guard: _Setting
transfer_guard_device_to_device: _Setting
transfer_guard_device_to_host: _Setting
transfer_guard_host_to_device: _Setting
