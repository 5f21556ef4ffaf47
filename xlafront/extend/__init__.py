"""What libraries build on: programs, primitives, traces, wrapped functions, generators, backends."""

_SUBMODULES = frozenset("backend core linear_util lowering mlir random sharding source_info_util".split())


def __getattr__(name: str):
    if name in _SUBMODULES:
        from importlib import import_module

        return import_module(f"xlafront.extend.{name}")
    raise AttributeError(f"xlafront.extend has no {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBMODULES})
