# Written by `python -m tests.stubs`.
from xlafront.pallas.custom_fusion import BlockIndexTransform as BlockIndexTransform
from xlafront.pallas.custom_fusion import custom_fusion as custom_fusion
from xlafront.pallas.fusion import Fusion as Fusion
from xlafront.pallas.fusion import block_spec_with_prefetch as block_spec_with_prefetch
from xlafront.pallas.fusion import evaluate as evaluate
from xlafront.pallas.fusion import filter_no_block_specs as filter_no_block_specs
from xlafront.pallas.fusion import fuse as fuse
from xlafront.pallas.fusion import fusible as fusible
from xlafront.pallas.fusion import get_fusion_values as get_fusion_values
from xlafront.pallas.fusion import make_scalar_prefetch_handler as make_scalar_prefetch_handler
from xlafront.pallas.fusion import pull_block_spec as pull_block_spec
from xlafront.pallas.fusion import push_block_spec as push_block_spec
from xlafront.pallas.fusion import push_pull_block_spec as push_pull_block_spec
from xlafront.pallas.stateful_fusion import get_stateful_input_fusion_values as get_stateful_input_fusion_values
from xlafront.pallas.stateful_fusion import get_stateful_output_fusion_values as get_stateful_output_fusion_values

