# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.annotations import fused as fused

