# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.program_order import program_order as program_order

