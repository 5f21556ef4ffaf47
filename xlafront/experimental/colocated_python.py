"""Python functions and objects on the hosts of the devices of arrays."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.host.colocated_python": "colocated_cpu_devices colocated_python colocated_python_class",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
