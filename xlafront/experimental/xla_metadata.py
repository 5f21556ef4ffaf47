"""XLA metadata (frontend attributes) on operations."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.transforms.calls.annotations": """fuse_limit must_fuse_call set_xla_metadata xla_metadata_call
        xla_metadata_call2""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
