"""What may still change."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {
    "xlafront.host.callbacks": "io_callback",
    "xlafront.interpreters.hijax": "cur_qdd",
}, """
    array_serialization checkify colocated_python compilation_cache compute_on custom_partitioning fused hijax jet key_reuse
    layout mesh_utils multihost_utils ode pjit rnn scheduling_groups serialize_executable source_mapper sparse topologies
    transfer xla_metadata
""")
