"""Compile options, result handlers and the current mesh, for extensions that compile modules themselves."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.interpreters.executables": """MeshComputation create_compile_options global_avals_to_results_handler
        thread_resources""",
}
_DEPRECATED = {
    "MeshComputation": "use the methods of stages.Lowered",
    "global_avals_to_results_handler": "use make_array_from_single_device_arrays",
    "thread_resources": "enter meshes by `with set_mesh(mesh):`, and use sharding.get_abstract_mesh()",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, deprecated=_DEPRECATED)
