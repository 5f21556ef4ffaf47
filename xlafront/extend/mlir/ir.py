"""`jaxlib.mlir.ir`, under a stable name."""

import sys

from xlafront.lowering.mlir import bindings, find_operation_classes

find_operation_classes()
sys.modules[__name__] = bindings("ir")
