"""Reductions of segments: of the elements of an array that have one number."""

from xlafront.faces import lazy

_PLACES = {"xlafront.numpy.segments": "segment_max segment_min segment_prod segment_sum"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
