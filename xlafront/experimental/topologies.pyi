# Written by `python -m tests.stubs`.
from xlafront.planning.topologies import TopologyDescription as TopologyDescription
from xlafront.planning.topologies import get_attached_topology as get_attached_topology
from xlafront.planning.topologies import get_topology_desc as get_topology_desc
from xlafront.planning.topologies import make_mesh as make_mesh

