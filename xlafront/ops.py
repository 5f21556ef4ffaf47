"""Segment reductions: reductions over the elements of an array that have the same segment id."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.numpy.segments": "segment_max segment_min segment_prod segment_sum"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
