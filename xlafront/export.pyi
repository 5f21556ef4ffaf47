# Written by `python -m tests.stubs`.
from xlafront.exporting.checks import DisabledSafetyCheck as DisabledSafetyCheck
from xlafront.exporting.export import default_export_platform as default_export_platform
from xlafront.exporting.export import export as export
from xlafront.exporting.exported import Exported as Exported
from xlafront.exporting.exported import deserialize as deserialize
from xlafront.exporting.structures import register_namedtuple_serialization as register_namedtuple_serialization
from xlafront.exporting.structures import register_pytree_node_serialization as register_pytree_node_serialization
from xlafront.symbolic.dimensions import is_symbolic_dim as is_symbolic_dim
from xlafront.symbolic.shapes import SymbolicScope as SymbolicScope
from xlafront.symbolic.shapes import symbolic_args_specs as symbolic_args_specs
from xlafront.symbolic.shapes import symbolic_dim_bounds as symbolic_dim_bounds
from xlafront.symbolic.shapes import symbolic_shape as symbolic_shape
import builtins as _builtins

maximum_supported_calling_convention_version: _builtins.int
minimum_supported_calling_convention_version: _builtins.int
