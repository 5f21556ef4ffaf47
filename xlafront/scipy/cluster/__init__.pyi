# Written by `python -m tests.stubs`.
from xlafront.scipy.cluster import vq as vq

