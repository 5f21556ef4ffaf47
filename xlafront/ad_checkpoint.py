"""Rematerialization: checkpoint policies, named values and saved residuals. `checkpoint` itself is `xlafront.checkpoint`."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.transforms.calls.checkpoint": """checkpoint_name checkpoint_name_fwd checkpoint_policies name_p
        Offloadable print_saved_residuals Recompute Saveable""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
