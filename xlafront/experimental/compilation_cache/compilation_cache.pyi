# Written by `python -m tests.stubs`.
from xlafront.runtime.backends import reset_cache as reset_cache
from xlafront.runtime.backends import set_cache_dir as set_cache_dir

