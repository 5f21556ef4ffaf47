# Written by `python -m tests.stubs`.
from xlafront.scipy.quantization import vq as vq

