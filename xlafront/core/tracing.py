"""Tracing, for importers: the names of `tracer`, `operands`, `trace`, `varying` and `staging`, to be read in this order."""

from __future__ import annotations

from xlafront.core.operands import (
    as_operand as as_operand,
    aval_of as aval_of,
    aval_of_type as aval_of_type,
    composites as composites,
    high_classes as high_classes,
    is_arraylike as is_arraylike,
    is_convertible as is_convertible,
    is_operand as is_operand,
    is_truncated as is_truncated,
    literal_kinds as literal_kinds,
    node_as_operand as node_as_operand,
    plain_types as plain_types,
    symbolic_constants as symbolic_constants,
)
from xlafront.core.staging import (
    StagedTracer as StagedTracer,
    StagingTrace as StagingTrace,
    check_leaks as check_leaks,
    derive as derive,
    trace_to_closed_jaxpr as trace_to_closed_jaxpr,
    trace_to_jaxpr as trace_to_jaxpr,
    trace_with_aux as trace_with_aux,
    value_id as value_id,
    without_full_collections as without_full_collections,
)
from xlafront.core.trace import (
    EvalTrace as EvalTrace,
    Trace as Trace,
    current_trace as current_trace,
    ensure_compile_time_eval as ensure_compile_time_eval,
    eval_context as eval_context,
    eval_trace as eval_trace,
    is_tracing as is_tracing,
    staging_trace as staging_trace,
    thread as thread,
    trace_of as trace_of,
)
from xlafront.core.tracer import Tracer as Tracer
from xlafront.core.varying import (
    MeshAxis as MeshAxis,
    as_varying as as_varying,
    checked_axes as checked_axes,
    joint_vma as joint_vma,
)
