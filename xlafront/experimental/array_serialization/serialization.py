"""Arrays that are spread over devices, written to storage and read from it part by part. What writes needs `tensorstore`."""

from xlafront.faces import lazy

_PLACES = {
    "__future__": "annotations",
    "xlafront.host.array_stores": "TS_CONTEXT async_deserialize async_serialize run_deserialization run_serialization",
    "xlafront.host.checkpoint_managers": """AsyncManager BarrierTimeoutError GlobalAsyncCheckpointManager
        GlobalAsyncCheckpointManagerBase logger""",
    "xlafront.host.store_specs": "get_tensorstore_spec is_remote_storage",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
