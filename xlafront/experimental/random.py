"""Stateful generators of random numbers."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.random.stateful": "StatefulPRNG stateful_rng",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
