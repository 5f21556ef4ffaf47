"""The dialect `arith` of jaxlib's MLIR bindings."""

import sys

from xlafront.lowering.mlir import bindings

sys.modules[__name__] = bindings("dialects.arith")
