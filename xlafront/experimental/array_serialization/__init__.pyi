# Written by `python -m tests.stubs`.
from xlafront.experimental.array_serialization import serialization as serialization

