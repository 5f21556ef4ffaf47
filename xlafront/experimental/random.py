"""Generators of random numbers that change with each draw."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.random.stateful": "StatefulPRNG stateful_rng",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
