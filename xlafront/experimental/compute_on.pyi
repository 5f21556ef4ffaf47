# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.annotations import compute_on as compute_on
from xlafront.transforms.calls.annotations import compute_on2 as compute_on2

