# Written by `python -m tests.stubs`.
from xlafront.experimental.compilation_cache import compilation_cache as compilation_cache

