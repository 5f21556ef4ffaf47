"""Constraint that two values have the same sharding."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.lax.shard_alike": "shard_alike",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
