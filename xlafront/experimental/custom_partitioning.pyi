# Written by `python -m tests.stubs`.
from xlafront.parallel.custom_partitioning import _CustomPartitioningCall as __CustomPartitioningCall
from xlafront.parallel.custom_partitioning import custom_partitioning as custom_partitioning
from xlafront.parallel.partitioning_rules import ArrayMapping as ArrayMapping
from xlafront.parallel.partitioning_rules import CompoundFactor as CompoundFactor
from xlafront.parallel.partitioning_rules import SdyShardingRule as SdyShardingRule
import builtins as _builtins

BATCHING: _builtins.str
custom_partitioning_p: __CustomPartitioningCall
