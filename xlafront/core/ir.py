"""The IR, for importers: the names of `effects`, `jaxpr`, `evaluation` and `dataflow`."""

from __future__ import annotations

from xlafront.core.dataflow import (
    any_equation as any_equation,
    backward as backward,
    dce_closed as dce_closed,
    dce_jaxpr as dce_jaxpr,
    dependent_outputs as dependent_outputs,
    dependent_results as dependent_results,
    forward as forward,
)
from xlafront.core.effects import (
    AccumEffect as AccumEffect,
    Effect as Effect,
    InternalRefEffect as InternalRefEffect,
    ReadEffect as ReadEffect,
    RefEffect as RefEffect,
    WriteEffect as WriteEffect,
    effects_by_operand as effects_by_operand,
    effects_on as effects_on,
    effects_outside as effects_outside,
    internal_refs as internal_refs,
    keeps_alive as keeps_alive,
    no_effects as no_effects,
)
from xlafront.core.evaluation import (
    eval_jaxpr as eval_jaxpr,
    jaxpr_as_fun as jaxpr_as_fun,
    last_reads as last_reads,
    last_uses as last_uses,
)
from xlafront.core.jaxpr import (
    Atom as Atom,
    ClosedJaxpr as ClosedJaxpr,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    EquationContext as EquationContext,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    ParamDict as ParamDict,
    Value as Value,
    Var as Var,
    equation_context as equation_context,
    subprograms as subprograms,
    unknown_origin as unknown_origin,
)
