# Written by `python -m tests.stubs`.
from xlafront.example_libraries import optimizers as optimizers
from xlafront.example_libraries import stax as stax

