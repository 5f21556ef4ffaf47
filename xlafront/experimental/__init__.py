"""What may still change."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.host.callbacks": "io_callback"}, """
    array_serialization checkify colocated_python compilation_cache custom_partitioning jet key_reuse layout mesh_utils
    multihost_utils ode pjit rnn serialize_executable sparse topologies transfer
""")
