"""Exchange of host values between the processes of a program, and barriers."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.parallel.multihost_utils": """ProcessFailureError assert_equal broadcast_one_to_all
        global_array_to_host_local_array global_array_to_host_local_array_impl gtl_abstract_eval
        host_local_array_to_global_array host_local_array_to_global_array_impl live_devices ltg_abstract_eval ltg_batcher
        process_allgather reached_preemption_sync_point sync_global_devices""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
