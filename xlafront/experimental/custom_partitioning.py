"""Functions that say themselves how they run on the parts of arrays that devices hold."""

from xlafront.transforms.custom_partitioning import custom_partitioning, custom_partitioning_p as custom_partitioning_p
from xlafront.transforms.partitioning_rules import BATCHING as BATCHING, ArrayMapping, CompoundFactor, SdyShardingRule

__all__ = ["ArrayMapping", "CompoundFactor", "SdyShardingRule", "custom_partitioning"]
