# Written by `python -m tests.stubs`.
from xlafront.core.avals import AbstractValue as AbstractValue
from xlafront.core.avals import ShapedArray as ShapedArray
from xlafront.core.refs import AbstractRef as AbstractRef
from xlafront.core.zeros import Zero as Zero
from xlafront.interpreters.ad import instantiate_zeros as instantiate_zeros
from xlafront.interpreters.ad import is_undefined_primal as is_undefined_primal
from xlafront.interpreters.hijax import AvalMutableQDD as AvalMutableQDD
from xlafront.interpreters.hijax import AvalQDD as AvalQDD
from xlafront.interpreters.hijax import HiPrimitive as HiPrimitive
from xlafront.interpreters.hijax import HiPspec as HiPspec
from xlafront.interpreters.hijax import HiType as HiType
from xlafront.interpreters.hijax import MutableHiType as MutableHiType
from xlafront.interpreters.hijax import aval_method as aval_method
from xlafront.interpreters.hijax import aval_property as aval_property
from xlafront.interpreters.hijax import register_hitype as register_hitype
from xlafront.interpreters.hijax_primitives import HiPrim as HiPrim
from xlafront.interpreters.hijax_primitives import VJPHiPrimitive as VJPHiPrimitive
from xlafront.interpreters.hijax_rules import MappingSpec as MappingSpec
from xlafront.interpreters.hijax_rules import _LinearizeRules as __LinearizeRules
from xlafront.interpreters.hijax_rules import _ReverseRules as __ReverseRules
from xlafront.interpreters.hijax_rules import bdims_at_front as bdims_at_front
from xlafront.interpreters.hijax_rules import jvp_from_lin as jvp_from_lin
from xlafront.interpreters.hijax_rules import unmap_avals as unmap_avals
from xlafront.interpreters.hijax_rules import vmap_rule as vmap_rule
from xlafront.interpreters.mlir import EffectTypeSet as _EffectTypeSet
from xlafront.lax.refs import RefView as _source_TransformedRef
from xlafront.transforms.calls.accumulators import GradAccum as GradAccum
from xlafront.transforms.calls.accumulators import NullAccum as NullAccum
from xlafront.transforms.calls.accumulators import RefAccum as RefAccum
from xlafront.transforms.calls.accumulators import ValAccum as ValAccum

TransformedRef = _source_TransformedRef
control_flow_allowed_effects: _EffectTypeSet
linearize_from_jvp: __LinearizeRules
vjp_from_jvp: __ReverseRules
vjp_from_lin: __ReverseRules
