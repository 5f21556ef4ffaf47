"""Sharding of arrays over devices: meshes, partition specs, shardings, and shardings in types."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.lax.resharding": "auto_axes explicit_axes reshard",
    "xlafront.base.jaxlib_compat": "NamedSharding Sharding SingleDeviceSharding",
    "xlafront.base.collective_guard": "no_collectives",
    "xlafront.base.meshes": "AbstractDevice AbstractMesh AxisType Mesh",
    "xlafront.base.specs": "ManualAxisType PartitionSpec UnreducedKind",
    "xlafront.staging.meshes": "get_abstract_mesh get_mesh make_single_device_sharding set_mesh use_abstract_mesh",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
