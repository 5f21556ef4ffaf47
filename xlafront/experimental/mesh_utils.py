"""Arrangements of devices for meshes."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.staging.mesh_utils": "create_device_mesh create_hybrid_device_mesh"})
