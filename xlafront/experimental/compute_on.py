"""Choice of where operations are computed: on the device, on its host, or on a TPU's sparse cores."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.transforms.calls.annotations": "compute_on compute_on2",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
