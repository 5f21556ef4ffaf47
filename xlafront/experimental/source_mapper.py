"""Source maps from the compiler's intermediate representations to lines of Python files."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.host.source_maps": """MappingsGenerator Pass SourceMap SourceMapDump all_passes canonicalize_filename
        compile_with_env create_mlir_sourcemap filter_passes generate_sourcemaps register_pass""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
