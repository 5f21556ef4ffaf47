"""Fusion of computations with kernels: their blocks are computed in the kernel, before and after its own work."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.pallas.custom_fusion": "BlockIndexTransform custom_fusion",
    "xlafront.pallas.stateful_fusion": "get_stateful_input_fusion_values get_stateful_output_fusion_values",
    "xlafront.pallas.fusion": """
        Fusion block_spec_with_prefetch evaluate filter_no_block_specs fuse fusible get_fusion_values
        make_scalar_prefetch_handler pull_block_spec push_block_spec push_pull_block_spec""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
