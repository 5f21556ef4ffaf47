# Written by `python -m tests.stubs`.
from xlafront.base.collective_guard import _ForbiddenAxes as __ForbiddenAxes
from xlafront.base.jaxlib_compat import NamedSharding as NamedSharding
from xlafront.base.jaxlib_compat import Sharding as Sharding
from xlafront.base.jaxlib_compat import SingleDeviceSharding as SingleDeviceSharding
from xlafront.base.meshes import AbstractDevice as AbstractDevice
from xlafront.base.meshes import AbstractMesh as AbstractMesh
from xlafront.base.meshes import AxisType as AxisType
from xlafront.base.meshes import Mesh as Mesh
from xlafront.base.specs import ManualAxisType as ManualAxisType
from xlafront.base.specs import P as _source_PartitionSpec
from xlafront.base.specs import UnreducedKind as UnreducedKind
from xlafront.lax.resharding import auto_axes as auto_axes
from xlafront.lax.resharding import explicit_axes as explicit_axes
from xlafront.lax.resharding import reshard as reshard
from xlafront.staging.meshes import get_abstract_mesh as get_abstract_mesh
from xlafront.staging.meshes import get_mesh as get_mesh
from xlafront.staging.meshes import make_single_device_sharding as make_single_device_sharding
from xlafront.staging.meshes import set_mesh as set_mesh
from xlafront.staging.meshes import use_abstract_mesh as use_abstract_mesh

PartitionSpec = _source_PartitionSpec
no_collectives: __ForbiddenAxes
