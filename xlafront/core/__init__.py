"""The core: types, programs, tracing. Its names for users are here; `xlafront.extend.core` has those for extensions."""

from xlafront.runtime.missing_names import missing

_PLACES = {
    "avals": "AbstractValue ShapedArray AbstractToken", "structs": "ShapeDtypeStruct",
    "ir": "Atom ClosedJaxpr DropVar Effect Jaxpr JaxprEqn Literal ParamDict Value Var eval_jaxpr jaxpr_as_fun",
    "dimensions": "is_symbolic_dim max_dim min_dim",
    "primitive": "Primitive",
    "tracing": "Trace Tracer ensure_compile_time_eval eval_context",
    "ir_check": "check_jaxpr",
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name):
    module = _MODULE_OF.get(name)
    if module is None:
        raise missing(__name__, name, (*_MODULE_OF, *globals()))
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"xlafront.core.{module}"), name)
    return value
