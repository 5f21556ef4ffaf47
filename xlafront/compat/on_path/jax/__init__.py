"""What a process finds as `jax` that was started from one in which xlafront answers for it: xlafront takes its place."""

import os
import sys
from importlib import import_module

del sys.modules["jax"]  # jax is not here yet
try:
    from xlafront.compat.importing import install
except ModuleNotFoundError as error:
    if error.name != "xlafront":
        raise
    sys.path.append(os.path.abspath(os.path.join(__file__, *[os.pardir] * 5)))  # this file is in the package
    from xlafront.compat.importing import install

install()
import_module("jax")
