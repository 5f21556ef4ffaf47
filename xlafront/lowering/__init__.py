"""From the IR to StableHLO modules.

jaxlib's MLIR bindings are imported when the first module is built: rules written elsewhere say
`from xlafront import lowering` and reach the vocabulary as `lowering.mlir` when they run.
"""


def __getattr__(name: str):
    if name in ("artifacts", "custom_calls", "host_callbacks", "linking", "mlir", "module", "programs", "refinement",
                "written"):
        import importlib

        return importlib.import_module(f"xlafront.lowering.{name}")
    raise AttributeError(f"module 'xlafront.lowering' has no attribute {name!r}")
