"""`jaxlib.mlir.ir`, under a stable name."""

import sys

from xlafront.lowering.mlir import bindings

sys.modules[__name__] = bindings("ir")
