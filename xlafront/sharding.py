"""How arrays are spread over devices: meshes, partition specs, shardings, and types that say how values are split."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.lax.resharding": "auto_axes explicit_axes reshard",
    "xlafront.runtime.jaxlib_compat": "NamedSharding Sharding SingleDeviceSharding",
    "xlafront.runtime.meshes": "AbstractDevice AbstractMesh AxisType Mesh",
    "xlafront.runtime.specs": "ManualAxisType PartitionSpec",
    "xlafront.staging.meshes": "get_abstract_mesh get_mesh make_single_device_sharding set_mesh use_abstract_mesh",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
