# Written by `python -m tests.stubs`.
from xlafront.sparse.creation import random_bcoo as random_bcoo

