"""What XLA is told of calls, and which its scheduler keeps together."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.transforms.calls.annotations": "attr_get dce_jaxpr_xla_metadata_rule scheduling_group xla_metadata_call",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
