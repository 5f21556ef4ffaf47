"""Settings of JAX that have no effect here. They can be set and read; the first change gives a warning.

Values are checked as those of the settings in `config`. The names are JAX's without the prefix `jax_`.
"""

from __future__ import annotations

from typing import Any

_BEHAVIOR = ("ignore", "raise")

# name, kind (a type, or the allowed strings), default
IGNORED: tuple[tuple[str, Any, Any], ...] = (
    ("backend_target", str, ""),
    ("bcoo_cusparse_lowering", bool, False),
    ("check_proxy_envs", bool, True),
    ("check_vma", bool, False),
    ("compilation_cache_check_contents", bool, False),
    ("compilation_cache_expect_pgle", bool, False),
    ("compiler_detailed_logging_min_ops", int, 10),
    ("cpu_collectives_implementation", ("gloo", "mpi", "megascale"), "gloo"),
    ("cross_host_transfer_socket_address", str, ""),
    ("cross_host_transfer_timeout_seconds", int, None),
    ("cross_host_transfer_transfer_size", int, None),
    ("cross_host_transport_addresses", str, ""),
    ("custom_vjp3", bool, False),
    ("debug_leaked_clients_on_clear_backends", bool, False),
    ("disable_vmap_shmap_error", bool, False),
    ("distributed_debug", bool, False),
    ("eager_constant_folding", bool, False),
    ("embedded_constants_max_bytes", int, 32),
    ("enable_pgle", bool, False),
    ("enable_preemption_service", bool, True),
    ("enable_recoverability", bool, False),
    ("error_checking_behavior_divide", _BEHAVIOR, "ignore"),
    ("error_checking_behavior_nan", _BEHAVIOR, "ignore"),
    ("error_checking_behavior_oob", _BEHAVIOR, "ignore"),
    ("experimental_unsafe_xla_runtime_errors", bool, False),
    ("export_ignore_forward_compatibility", bool, False),
    ("force_dcn_cross_host_transfers", bool, False),
    ("include_full_tracebacks_in_locations", bool, True),
    ("jax2tf_associative_scan_reductions", bool, False),
    ("jax2tf_default_native_serialization", bool, True),
    ("mock_gpu_topology", str, ""),
    ("mock_num_gpu_processes", int, 0),
    ("mosaic_allow_hlo", bool, False),
    ("mutable_array_checks", bool, True),
    ("oneapi_visible_devices", str, "all"),
    ("pallas_poison_buffers", bool, False),
    ("pallas_use_mosaic_gpu", bool, True),
    ("pallas_verbose_errors", bool, False),
    ("persistent_cache_enable_xla_caches", str, "xla_gpu_per_fusion_autotune_cache_dir"),
    ("pgle_aggregation_percentile", int, 90),
    ("pgle_profiling_runs", int, 3),
    ("pjrt_client_create_options", object, None),
    ("ragged_dot_use_gpu_pallas_triton_lowering", bool, False),
    ("ragged_dot_use_ragged_dot_instruction", bool, True),
    ("refs_to_pins", bool, False),
    ("remat3", bool, False),
    ("remove_custom_partitioning_ptr_from_cache_key", bool, False),
    ("rocm_visible_devices", str, "all"),
    ("scan3", bool, False),
    ("send_traceback_to_runtime", ("off", "on", "full"), "off"),
    ("serialization_version", int, 0),
    ("share_binary_between_hosts", bool, False),
    ("share_binary_between_hosts_timeout_ms", int, 1_200_000),
    ("sort_devices_by_process_index", bool, True),
    ("source_url_schema", str, None),
    ("traceback_in_locations_limit", int, 100),
    ("tracer_error_num_traceback_frames", int, 5),
    ("use_direct_linearize", bool, True),
    ("use_emit_pipeline_primitive", bool, False),
    ("use_magma", ("off", "on", "auto"), "auto"),
    ("use_shardy_partitioner", bool, True),
    ("use_simplified_jaxpr_constants", bool, False),
    ("xla_backend", str, ""),
    ("xla_profile_version", int, 0),
)
# Names that have no prefix in JAX.
WITHOUT_PREFIX = frozenset(("check_vma", "eager_constant_folding", "jax2tf_associative_scan_reductions",
                            "jax2tf_default_native_serialization", "mock_num_gpu_processes"))
