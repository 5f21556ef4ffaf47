"""Arrangement of devices in meshes."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.staging.mesh_utils": "create_device_mesh create_hybrid_device_mesh"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
