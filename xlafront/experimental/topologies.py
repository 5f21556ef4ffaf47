"""Descriptions of device topologies, for compilation without the devices."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.planning.topologies": "TopologyDescription get_attached_topology get_topology_desc make_mesh"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
