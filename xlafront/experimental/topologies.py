"""Machines that are not here: what programs are compiled for without them."""

from xlafront.faces import lazy

_PLACES = {"xlafront.planning.topologies": "TopologyDescription get_attached_topology get_topology_desc make_mesh"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
