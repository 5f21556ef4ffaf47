# Written by `python -m tests.stubs`.
from xlafront.scipy.spatial import transform as transform

