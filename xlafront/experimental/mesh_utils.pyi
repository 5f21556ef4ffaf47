# Written by `python -m tests.stubs`.
from xlafront.staging.mesh_utils import create_device_mesh as create_device_mesh
from xlafront.staging.mesh_utils import create_hybrid_device_mesh as create_hybrid_device_mesh

