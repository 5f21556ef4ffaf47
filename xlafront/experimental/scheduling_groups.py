"""Frontend attributes on calls, and scheduling groups for XLA's scheduler."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.transforms.calls.annotations": "attr_get dce_jaxpr_xla_metadata_rule scheduling_group xla_metadata_call",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
