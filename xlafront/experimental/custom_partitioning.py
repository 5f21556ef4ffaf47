"""Functions that say themselves how they run on the parts of arrays that devices hold."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.parallel.custom_partitioning": "custom_partitioning custom_partitioning_p",
    "xlafront.parallel.partitioning_rules": "ArrayMapping BATCHING CompoundFactor SdyShardingRule",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
