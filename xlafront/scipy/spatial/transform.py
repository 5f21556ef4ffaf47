"""Rotations in three dimensions."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.scipy.rotations": "Rotation Slerp"})
