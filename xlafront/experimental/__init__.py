"""Experimental modules, whose interfaces may still change."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {
    "xlafront.host.callbacks": "io_callback",
    "xlafront.interpreters.extended_dtypes": "EArray primal_tangent_dtype",
    "xlafront.interpreters.hijax": "cur_qdd",
}, """
    array_serialization buffer_callback checkify colocated_python compilation_cache compute_on control_deps custom_partitioning
    fused hijax jet key_reuse layout mesh_utils multihost_utils ode overlap pallas pjit profiler random rnn roofline
    scheduling_groups serialize_executable shard_alike source_mapper sparse topologies transfer xla_metadata
""")
