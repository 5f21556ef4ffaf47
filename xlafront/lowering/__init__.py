"""Lowering of jaxprs to StableHLO modules.

jaxlib's MLIR bindings are imported when the first module is built. Lowering rules in other packages import this package
(`from xlafront import lowering`) and reach the bindings as `lowering.mlir` when they run.
"""


def __getattr__(name: str):
    if name in ("artifacts", "builder", "custom_calls", "equations", "host_callbacks", "linking", "mlir", "module",
                "module_text", "programs", "refinement", "sizes"):
        import importlib

        return importlib.import_module(f"xlafront.lowering.{name}")
    raise AttributeError(f"module 'xlafront.lowering' has no attribute {name!r}")
