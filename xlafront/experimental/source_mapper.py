"""Source maps from what compilers make of functions to the lines of the user's files."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.host.source_maps": """MappingsGenerator Pass SourceMap SourceMapDump all_passes canonicalize_filename
        compile_with_env create_mlir_sourcemap filter_passes generate_sourcemaps register_pass""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
