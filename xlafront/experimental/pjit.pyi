# Written by `python -m tests.stubs`.
from xlafront.staging.jit import pjit as pjit

