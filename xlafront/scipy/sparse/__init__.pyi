# Written by `python -m tests.stubs`.
from xlafront.scipy.sparse import linalg as linalg

