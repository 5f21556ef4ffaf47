"""Checks of derivatives, for tests."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__, {"xlafront.transforms.ad.numerical_checks": "check_grads check_jvp check_vjp"})
