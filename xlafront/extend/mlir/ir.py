"""`jaxlib.mlir.ir`, under a name that stays."""

import sys

from xlafront.lowering.mlir import bindings

sys.modules[__name__] = bindings("ir")
