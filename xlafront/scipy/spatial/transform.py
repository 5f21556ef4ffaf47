"""Rotations in three dimensions and their interpolation."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.scipy.rotations": "Rotation Slerp"})
