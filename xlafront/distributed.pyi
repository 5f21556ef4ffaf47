# Written by `python -m tests.stubs`.
from xlafront.parallel.distributed import initialize as initialize
from xlafront.parallel.distributed import is_initialized as is_initialized
from xlafront.parallel.distributed import shutdown as shutdown

