"""Python functions and objects that run on the hosts of the devices that hold their arguments."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.host.colocated_python": "colocated_cpu_devices colocated_python colocated_python_class",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
