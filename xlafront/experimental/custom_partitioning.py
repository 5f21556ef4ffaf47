"""Functions that define how they are partitioned over devices."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.parallel.custom_partitioning": "custom_partitioning custom_partitioning_p",
    "xlafront.parallel.partitioning_rules": "ArrayMapping BATCHING CompoundFactor SdyShardingRule",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
