"""Transposition: a program that is linear in some inputs runs backwards, on cotangents. After linearisation, reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xlafront.core import source, tracing
from xlafront.core.ir import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, dependent_outputs
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.tracing import Tracer
from xlafront.core.zeros import UndefinedPrimal, Zero
from xlafront.lax.all_reductions import psum_invariant_p
from xlafront.lax.device_put import reshard_p
from xlafront.lax.elementwise import to_dtype
from xlafront.lax.families import add_tangents
from xlafront.lax.resharding import whole_operands
from xlafront.lax.vma_casts import as_unreduced
from xlafront.lax.zeros import instantiate
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.specs import PartitionSpec
from xlafront.staging.library import inlined_p
from xlafront.transforms.ad.arguments import weakly_typed_as
from xlafront.transforms.ad.linearize import LinearProgram, known_and_linear
from xlafront.transforms.ad.written_rules import pulled_back, writes


def transpose_linear(program: LinearProgram, cotangents: Sequence[Any], wanted: Sequence[bool] = ()) -> list[Any]:
    """Pull cotangents back through a derivative at a point; of inputs that are not among the `wanted`, any may be left out."""
    active = [ct for ct, used in zip(cotangents, program.outputs) if used]
    asked = [w for w, used in zip(wanted, program.inputs) if used]
    results = iter(backward_pass(program.jaxpr, program.consts, active, asked))
    return [next(results) if used else Zero(aval) for used, aval in zip(program.inputs, program.in_avals)]


def backward_pass(jaxpr: Jaxpr, consts: Sequence[Any], cotangents: Sequence[Any], wanted: Sequence[bool] = ()) -> list[Any]:
    """The cotangents of a linear program's inputs from those of its outputs; `Zero` for inputs without influence.

    With `wanted`, operations that only other inputs have an influence on are left out.
    """
    values = dict(zip(jaxpr.constvars, consts))
    pending: dict[Any, Any] = {}
    moved = None if all(wanted) else _influenced(jaxpr, wanted)
    for v, ct in zip(jaxpr.outvars, cotangents):
        _accumulate(pending, v, ct)
    thread = source.thread
    saved = thread.site
    scope = source.current_scope.get() if saved is None else saved[2]
    saved_way, tracing.thread.make_whole = tracing.thread.make_whole, whole_operands
    try:
        for eqn in reversed(jaxpr.eqns):
            cts = [pending.pop(v, None) for v in eqn.outvars]
            if all(ct is None for ct in cts) and not (
                    eqn.primitive.pulls_back_zeros and _read(jaxpr).intersection(eqn.outvars)):
                continue
            if moved is not None and moved.isdisjoint(eqn.outvars):
                continue
            if (site := eqn.site) is not None:
                site = (site[0], site[1], source.transposed_scopes[site[2]])
                if scope:
                    site = source.inside(scope, site)
            thread.site = site
            for v, ct in zip(eqn.invars, _pulled_back(eqn, cts, values)):
                if type(v) is not Literal and v not in values:
                    _accumulate(pending, v, ct)
    finally:
        thread.site = saved
        tracing.thread.make_whole = saved_way
    return [_zero_of(v) if (ct := pending.get(v)) is None else ct for v in jaxpr.invars]


def _pulled_back(eqn: JaxprEqn, cts: list[Any], values: dict) -> Sequence[Any]:
    """The cotangents of an equation's operands; None or `Zero` where there is none."""
    primitive = eqn.primitive
    rule = primitive.transpose if primitive.memoise else _transpose_inlined if primitive is inlined_p else None
    if rule is not None and writes(tracing.thread.trace):
        found = pulled_back(eqn, rule, cts, values)
        if found is not None:
            return found
    cts = [_zero_of(v) if ct is None else ct for ct, v in zip(cts, eqn.outvars)]
    operands = [v.val if type(v) is Literal else values[v] if v in values else UndefinedPrimal(v.aval) for v in eqn.invars]
    rule = eqn.primitive.transpose
    if rule is not None:
        return rule(cts if eqn.primitive.multiple_results else cts[0], *operands, **eqn.params)
    if isinstance(eqn.primitive, ProgramCall):
        return transpose_of_call(eqn.primitive, cts, *operands, **eqn.params)
    raise NotImplementedError(_no_transpose(eqn.primitive))


def _accumulate(pending: dict, v, ct) -> None:
    """Add a cotangent to what is known of a variable's."""
    if ct is None or type(ct) is Zero or type(v) is Literal:
        return
    if tracing.thread.axes:
        ct = _summed(ct, v.aval)
    explicit = v.aval.to_ct_aval().explicit_sharding if v.aval.explicit_sharding is not None else None
    if explicit is not None or (ct.aval if isinstance(ct, Tracer) else tracing.aval_of(ct)).explicit_sharding is not None:
        ct = _split_as(ct, explicit)
    old = pending.get(v)
    pending[v] = ct if old is None else add_tangents(old, ct)


def _zero_of(v) -> Zero:
    return Zero(v.aval if v.aval.explicit_sharding is None else v.aval.to_ct_aval())


def _influenced(jaxpr: Jaxpr, inputs: Sequence[bool]) -> set:
    """What depends on the inputs that are marked."""
    found = {v for v, marked in zip(jaxpr.invars, inputs) if marked}
    for eqn in jaxpr.eqns:
        if any([type(v) is not Literal and v in found for v in eqn.invars]):
            found.update(eqn.outvars)
    return found


def _read(jaxpr: Jaxpr) -> set:
    """What the results depend on."""
    def find():
        found = {v for v in jaxpr.outvars if type(v) is not Literal}
        for eqn in reversed(jaxpr.eqns):
            if not found.isdisjoint(eqn.outvars):
                found.update([v for v in eqn.invars if type(v) is not Literal])
        return found

    return jaxpr.memoised(("what the results depend on",), find)


def _no_transpose(primitive: Primitive) -> str:
    name, how = primitive.shown_as, (f"give the primitive {primitive.name} a rule with "
                                     f"xlafront.interpreters.ad.primitive_transposes[primitive] = rule.")
    if primitive.jvp is None:
        return (f"{name} cannot be transposed, as reverse-mode differentiation needs: its transpose rule is not implemented. "
                f"{how[0].upper()}{how[1:]}")
    return (f"{name} cannot be transposed, as it is not linear, or its transpose rule (for reverse-mode differentiation) is "
            "not implemented: a function given to linear_transpose must be linear in its arguments, and a custom_jvp rule in "
            f"its tangents. If {name} is linear, {how}")


def _summed(ct, aval):
    """The cotangent of a value that is the same on all devices along a mesh axis: the sum of what each of them contributes."""
    beyond = tracing.aval_of(ct).vma - aval.vma
    if aval.explicit_sharding is not None and aval.explicit_sharding.spec.reduced:
        manual = aval.explicit_sharding.spec.reduced - aval.explicit_sharding.mesh.explicit
        found = tracing.aval_of(ct).explicit_sharding
        missing = manual if found is None else manual - found.spec.unreduced
        if missing:
            ct = as_unreduced(ct, missing)
        beyond -= manual
    if not beyond:
        return ct
    return psum_invariant_p.bind(ct, axes=tuple(sorted(beyond, key=str)))


def _split_as(ct, explicit):
    """The cotangent of a value is split as the value is, and sums that are made in one are still to be made in the other."""
    found = tracing.aval_of(ct).explicit_sharding
    if found is explicit or found == explicit:
        return ct
    return reshard_p.bind(ct, dst_sharding=NamedSharding(found.mesh, PartitionSpec()) if explicit is None else explicit)


def transpose_program(closed: ClosedJaxpr, linear: tuple[bool, ...], given: tuple[bool, ...], kept: bool = False,
                      strong: tuple[bool, ...] = ()) -> tuple[ClosedJaxpr, list[bool]]:
    """`(other inputs, cotangents given) -> cotangents of the linear inputs`, and which of those are not zero.

    With `kept` all of them are there, the zeros too. `strong` marks the results whose cotangents are not weakly typed, though
    they are.
    """
    def make():
        jaxpr = closed.jaxpr
        others = [v for v, lin in zip(jaxpr.invars, linear) if not lin]
        program = jaxpr.replace(constvars=[*jaxpr.constvars, *others],
                                invars=[v for v, lin in zip(jaxpr.invars, linear) if lin])
        nonzero: list[bool] = []

        def run(*args):
            values, rest = args[:len(others)], iter(args[len(others):])
            cts = [next(rest) if g else Zero(v.aval) for v, g in zip(jaxpr.outvars, given)]
            # Parts that do not depend on the linear inputs are computed first.
            inner, consts = known_part(program, [*closed.consts, *values])
            results = backward_pass(inner, consts, cts)
            if kept:
                results = [weakly_typed_as(instantiate(ct), ct.aval) if type(ct) is Zero else ct for ct in results]
            nonzero[:] = [type(ct) is not Zero for ct in results]
            return [ct for ct in results if type(ct) is not Zero]

        in_avals = [v.aval for v in others] + [
            v.aval.to_ct_aval().update(weak_type=False) if s else v.aval.to_ct_aval()
            for v, g, s in zip(jaxpr.outvars, given, strong or (False,) * len(given)) if g]
        return tracing.trace_to_closed_jaxpr(run, in_avals, closed.debug_info.with_unknown_names()), nonzero

    return closed.jaxpr.memoised(("transpose", linear, given, kept, strong), make)


def known_part(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """Evaluate the equations that read no input; what is left is linear in the inputs."""
    depends: set = set(jaxpr.invars)
    left = []
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
    changed = False
    thread = source.thread

    def evaluate(eqn):
        nonlocal changed
        changed = True
        operands = [v.val if type(v) is Literal else values[v] for v in eqn.invars]
        saved, thread.site = thread.site, eqn.site  # it stays where the user wrote it
        try:
            results = eqn.primitive.bind(*operands, **eqn.params)
        finally:
            thread.site = saved
        values.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results]))

    for eqn in jaxpr.eqns:
        marks = [type(v) is not Literal and v in depends for v in eqn.invars]
        if not any(marks):
            evaluate(eqn)
            continue
        if eqn.primitive.dce is not None and not all(marks):
            flags = dependent_outputs(eqn.primitive, marks, eqn.params)
            halves = None if flags is None or all(flags) else known_and_linear(eqn, marks, flags)
            if halves is not None:
                known, eqn = halves
                if known is not None:
                    evaluate(known)
                if eqn is None:
                    continue
        depends.update(eqn.outvars)
        left.append(eqn)
    if not changed:
        return jaxpr, list(consts)
    return jaxpr.replace(constvars=list(values), eqns=left), list(values.values())


def transpose_of_call(call: ProgramCall, cts: Sequence[Any], /, *operands, **params) -> list[Any]:
    """The rule of all operations that call a program."""
    return transpose_called(params[call.parameter], cts, operands, partial(call.call, params))


def _transpose_inlined(cts: Sequence[Any], /, *operands, **params) -> list[Any]:
    return transpose_of_call(inlined_p, cts, *operands, **params)


def of_dtypes(cts: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Cotangents of the dtypes that a program's transpose takes: a rule of the user's may hand back others."""
    return [ct if type(ct) is Zero or tracing.aval_of(ct).dtype == aval.dtype else to_dtype(ct, aval.dtype)
            for ct, aval in zip(cts, avals)]


def transpose_called(closed: ClosedJaxpr, cts: Sequence[Any], operands: Sequence[Any],
                     call: Callable[[ClosedJaxpr, list[Any], list[int], list[int]], Sequence[Any]]) -> list[Any]:
    """The cotangents of the operands that a program was called on, by a call of its transpose: `ProgramCall.call` says how."""
    count = len(operands)
    moving, ins, values = [], [], []
    for i, x in enumerate(operands):
        if type(x) is UndefinedPrimal:
            moving.append(i)
        else:
            ins.append(i)
            values.append(x)
    cts = of_dtypes(cts, closed.out_avals)
    for i, ct in enumerate(cts, count):
        if type(ct) is not Zero:
            ins.append(i)
            values.append(ct)
    linear = tuple([type(x) is UndefinedPrimal for x in operands])
    strong = tuple([v.weak_type and type(ct) is not Zero and not tracing.aval_of(ct).weak_type
                    for v, ct in zip(closed.out_avals, cts)])
    program, nonzero = transpose_program(closed, linear, tuple([type(ct) is not Zero for ct in cts]),
                                         strong=strong if any(strong) else ())
    found = iter(call(program, values, ins, [i for i, nz in zip(moving, nonzero) if nz]))
    results: list[Any] = [None] * count
    for i, nz in zip(moving, nonzero):
        results[i] = next(found) if nz else Zero(operands[i].aval)
    return results
