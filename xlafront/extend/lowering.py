"""Types for writing lowering rules."""

from xlafront.interpreters.lowering_rules import LoweringRuleContext as LoweringRuleContext
from xlafront.lowering.mlir import ir as _ir

JaxIrContext = _ir.Context
