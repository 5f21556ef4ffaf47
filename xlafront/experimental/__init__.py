"""What may still change. Names are loaded when they are first used: `_PLACES` says where each of them lives."""

from importlib import import_module as _import_module

_PLACES = {
    "xlafront.transforms.callbacks": "io_callback",
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str):
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"xlafront.experimental has no {name!r}")
    _import_module("xlafront.numpy")  # arrays get their operators and methods there
    value = globals()[name] = getattr(_import_module(module), name)
    return value


def __dir__():
    return sorted({*globals(), *_MODULE_OF})
