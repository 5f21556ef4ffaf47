"""Serialization of sharded arrays, shard by shard. Reading and writing need `tensorstore`."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "__future__": "annotations",
    "xlafront.host.array_stores": "TS_CONTEXT async_deserialize async_serialize run_deserialization run_serialization",
    "xlafront.host.checkpoint_managers": """AsyncManager BarrierTimeoutError GlobalAsyncCheckpointManager
        GlobalAsyncCheckpointManagerBase logger""",
    "xlafront.host.store_specs": "get_tensorstore_spec is_remote_storage",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
