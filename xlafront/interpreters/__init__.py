"""The rules that primitives have in each transformation, for programs that define primitives of their own.

`ad`, `batching`, `mlir`, `partial_eval`, `xla` and `pxla` have the names of the reference. Their registries are views
of the records in `core.primitive`.
"""

_SUBMODULES = frozenset("ad batching mlir partial_eval pxla xla".split())


def __getattr__(name: str):
    if name in _SUBMODULES:
        from importlib import import_module

        return import_module(f"xlafront.interpreters.{name}")
    raise AttributeError(f"xlafront.interpreters has no {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBMODULES})
