"""xlafront: NumPy-like functions, traced, transformed and compiled by XLA.

>>> import xlafront as xf
>>> import xlafront.numpy as xnp
>>> xf.jit(lambda x: xnp.sin(x) ** 2)(1.0)

Names are loaded on first use.
"""

import os as _os
import sys as _sys
from importlib import import_module as _import_module

from xlafront.base import jax_names as _jax_names, start as _start  # noqa: F401  (refuses imports of jax from here on)
from xlafront.base.version import __version__ as __version__
from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.core.structs": "ShapeDtypeStruct",
    "xlafront.runtime.backends": """default_backend device_count devices local_device_count local_devices process_count
        process_index process_indices host_count host_id host_ids""",
    "xlafront.runtime.compile_options": "CompilerEffortLevel",
    "xlafront.core.dtypes": "float0",
    "xlafront.core.source": "named_scope",
    "xlafront.core.tracing": "ensure_compile_time_eval",
    "xlafront.host.environment": "live_arrays print_environment_info",
    "xlafront.numpy.array_methods": "Array",
    "xlafront.planning.compiling": "plan",
    "xlafront.planning.remat": "plan_remat",
    "xlafront.planning.search": "plan_search",
    "xlafront.base.config": """allow_f16_reductions array_garbage_collection_guard auto_pcast
        check_tracer_leaks checking_leaks config debug_infs debug_key_reuse debug_nans default_device
        default_matmul_precision default_prng_impl disable_jit enable_checks enable_custom_prng enable_x64
        explain_cache_misses jax2tf_associative_scan_reductions legacy_prng_key log_compiles make_user_context no_execution
        no_tracing numpy_dtype_promotion numpy_rank_promotion remove_size_one_mesh_axis_from_type
        softmax_custom_jvp thread_guard threefry_partitionable transfer_guard transfer_guard_device_to_device
        transfer_guard_device_to_host transfer_guard_host_to_device""",
    "xlafront.runtime.effects": "effects_barrier",
    "xlafront.base.jaxlib_compat": "Device NamedSharding",
    "xlafront.runtime.sharding": "P",
    "xlafront.runtime.shards": "Shard make_array_from_callback make_array_from_single_device_arrays",
    "xlafront.host.callbacks": "pure_callback",
    "xlafront.transforms.calls.checkpoint": "checkpoint checkpoint_policies remat",
    "xlafront.transforms.calls.custom_jvp": "custom_jvp",
    "xlafront.transforms.calls.custom_gradient": "custom_gradient",
    "xlafront.transforms.calls.custom_vjp": "custom_vjp",
    "xlafront.transforms.calls.linear_call": "closure_convert",
    "xlafront.lax.ref_indexing": "ds",
    "xlafront.lax.refs": "Ref empty_ref free_ref freeze new_ref",
    "xlafront.lax.device_put": "block_until_ready copy_to_host_async device_get device_put",
    "xlafront.parallel.host_local": "make_array_from_process_local_data",
    "xlafront.staging.inspection": "eval_shape make_jaxpr named_call typeof",
    "xlafront.staging.caches": "clear_caches",
    "xlafront.staging.jit": "jit",
    "xlafront.staging.inlining": "Inline",
    "xlafront.staging.meshes": "get_abstract_mesh get_mesh make_mesh set_mesh use_abstract_mesh",
    "xlafront.parallel.pmap": "pmap",
    "xlafront.lax.resharding": "reshard",
    "xlafront.parallel.shard_map": "shard_map smap",
    "xlafront.api.linear_maps": "ad",
    "xlafront.api.derivatives": "fwd_and_bwd grad jvp linear_transpose linearize value_and_grad vjp",
    "xlafront.api.jacobians": "hessian jacfwd jacobian jacrev",
    "xlafront.api.vmap": "vmap",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, """
    ad_checkpoint api_util compat core custom_batching custom_derivatives debug distributed dlpack dtypes errors
    example_libraries experimental export extend ffi flatten_util image interpreters kernels lax memory monitoring nn numpy ops
    planning profiler random ref scipy sharding stages test_util tree tree_util typing
""")

if "IPython" in _sys.modules:
    _import_module("xlafront.host.notebook_views").register()
if _os.environ.get("XLAFRONT_AS_JAX", "0").lower() not in ("", "0", "false", "no", "off"):
    _import_module("xlafront.compat").install()
