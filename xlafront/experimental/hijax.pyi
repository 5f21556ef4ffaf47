# Written by `python -m tests.stubs`.
from xlafront.core.avals import AbstractValue as AbstractValue
from xlafront.core.avals import AbstractValue as _AbstractValue
from xlafront.core.avals import ShapedArray as ShapedArray
from xlafront.core.refs import AbstractRef as AbstractRef
from xlafront.core.zeros import Zero as Zero
from xlafront.interpreters.hijax import AvalMutableQDD as AvalMutableQDD
from xlafront.interpreters.hijax import AvalQDD as AvalQDD
from xlafront.interpreters.hijax import HiPrimitive as HiPrimitive
from xlafront.interpreters.hijax import HiPspec as HiPspec
from xlafront.interpreters.hijax import HiType as HiType
from xlafront.interpreters.hijax import MutableHiType as MutableHiType
from xlafront.interpreters.hijax import aval_method as aval_method
from xlafront.interpreters.hijax import aval_property as aval_property
from xlafront.interpreters.hijax_primitives import VJPHiPrimitive as VJPHiPrimitive
from xlafront.lax.refs import RefView as TransformedRef
import builtins as _builtins
import typing as _typing

control_flow_allowed_effects: _typing.Any
def instantiate_zeros(tangent: _typing.Any) -> _typing.Any: ...
def is_undefined_primal(x: _typing.Any) -> _builtins.bool: ...
def register_hitype(val_cls: _builtins.type, typeof_fn: _typing.Callable[[_typing.Any], _AbstractValue]) -> None: ...
