"""Values that are spread over devices alike."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.lax.shard_alike": "shard_alike",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
