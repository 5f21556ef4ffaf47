# Written by `python -m tests.stubs`.
from xlafront.numpy.differences import trapezoid as trapezoid

