"""The MLIR dialects with builders in jaxlib: `from xlafront.extend.mlir.dialects import stablehlo`."""

from importlib import import_module

_DIALECTS = frozenset("arith builtin cf chlo func math memref mpmd scf sdy sparse_tensor stablehlo vector".split())


def __getattr__(name: str):
    if name in _DIALECTS:
        return import_module(f"xlafront.extend.mlir.dialects.{name}")
    raise AttributeError(f"xlafront.extend.mlir.dialects has no {name!r}; it has {', '.join(sorted(_DIALECTS))}.")


def __dir__():
    return sorted({*globals(), *_DIALECTS})
