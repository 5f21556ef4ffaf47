# Written by `python -m tests.stubs`.
from xlafront.host.source_maps import MappingsGenerator as MappingsGenerator
from xlafront.host.source_maps import Pass as Pass
from xlafront.host.source_maps import SourceMap as SourceMap
from xlafront.host.source_maps import SourceMapDump as SourceMapDump
from xlafront.host.source_maps import all_passes as all_passes
from xlafront.host.source_maps import canonicalize_filename as canonicalize_filename
from xlafront.host.source_maps import compile_with_env as compile_with_env
from xlafront.host.source_maps import create_mlir_sourcemap as create_mlir_sourcemap
from xlafront.host.source_maps import filter_passes as filter_passes
from xlafront.host.source_maps import generate_sourcemaps as generate_sourcemaps
from xlafront.host.source_maps import register_pass as register_pass

