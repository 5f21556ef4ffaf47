"""Numerical checks of derivatives, for tests."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {"xlafront.api.numerical_checks": "check_grads check_jvp check_vjp"})
