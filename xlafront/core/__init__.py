"""The core: types, jaxprs, tracing. Its public names are here; `xlafront.extend.core` has those for extensions."""

from __future__ import annotations

from typing import Any

from xlafront.base.missing_names import missing

_EXPORTS = {
    "core.avals": "AbstractValue ShapedArray AbstractToken", "core.structs": "ShapeDtypeStruct",
    "core.ir": "Atom ClosedJaxpr DropVar Effect Jaxpr JaxprEqn Literal ParamDict Value Var eval_jaxpr jaxpr_as_fun",
    "symbolic.dimensions": "is_symbolic_dim max_dim min_dim",
    "core.primitive": "Primitive",
    "core.tracing": "Trace Tracer ensure_compile_time_eval eval_context",
    "core.ir_check": "check_jaxpr",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise missing(__name__, name, (*_MODULE_OF, *globals()))
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"xlafront.{module}"), name)
    return value
