"""Lowering of a kernel's jaxpr: equation by equation, with loops, branches and calls.

`lower_equations` applies to each equation the rule of its primitive. A primitive without one is replaced by what computes it:
the jaxpr that it calls, or the function of other primitives that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import tracing
from xlafront.core.ir import Jaxpr, JaxprEqn, Literal, Var, last_reads
from xlafront.core.program_call import ProgramCall
from xlafront.lowering.mlir import create, ir
from xlafront.pallas.kernel_elementwise import compare, convert
from xlafront.pallas.kernel_expansions import EXPANSIONS, scan_in_steps
from xlafront.pallas.kernel_mlir import Rule, Value, Writer, constant_value

_int32 = np.dtype(np.int32)


def lower_equations(w: Writer, jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
    """Emit the operations of a jaxpr, and return its results.

    Args:
        w: The writer, whose insertion point is where the operations go.
        jaxpr: The jaxpr, with values for its constants.
        args: Values of its inputs; for references, what the writer's rules of `get` and `swap` take.

    Returns:
        The results.
    """
    env: dict[Any, Value] = dict(zip(jaxpr.invars, args))
    for v, c in zip(jaxpr.constvars, jaxpr.consts):
        env[v] = w.constant(c, dtype=v.aval.dtype)

    def value(atom: Any, shape: tuple[int, ...] | None = None) -> Value:
        """Return the value of an operand, broadcast to a shape for elementwise operations."""
        aval = atom.aval
        if type(atom) is Literal:
            return w.constant(atom.val, aval.shape if shape is None else shape, aval.dtype)
        return env[atom] if shape is None or aval.shape == shape else w.broadcast(env[atom], aval.shape, shape)

    outer = w.location, w.site
    read = last_reads(jaxpr) if jaxpr.effects else {}
    for eqn in jaxpr.eqns:
        w.enter(eqn)
        outvars = eqn.outvars
        check_dtypes(w, eqn)
        w.is_read = not eqn.effects or any([v in read for v in outvars])
        if outvars and not eqn.effects and not any([getattr(v.aval, "size", 1) for v in outvars]):
            env.update(dict.fromkeys(outvars))  # compilers have no arrays without elements
            continue
        shape = outvars[0].aval.shape if eqn.primitive.traits.broadcasts_scalars else None
        env.update(zip(outvars, _lower_equation(w, eqn, [value(v, shape) for v in eqn.invars], shape)))
        w.location, w.site = outer
    return [value(v) for v in jaxpr.outvars]


def check_dtypes(w: Writer, eqn: JaxprEqn) -> None:
    """Raise an error if an equation has complex results, which no compiler of kernels has."""
    for v in eqn.outvars:
        if v.aval.dtype.kind == "c":
            raise unsupported(w, f"{eqn.primitive.shown_as} with a result of dtype {v.aval.dtype}",
                              "Use an array for the real parts and one for the imaginary parts.")


def _lower_equation(w: Writer, eqn: JaxprEqn, values: list[Value], shape: tuple[int, ...] | None) -> list[Value]:
    """Emit an equation, whose operands have been broadcast to `shape` if it is not None."""
    avals_in, avals_out = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    if shape is not None:
        avals_in = [a if a.shape == shape else a.update(shape=shape) for a in avals_in]
    rule = w.rules.get(eqn.primitive.name)
    if rule is None:
        jaxpr, is_own = _expansion(w, eqn, avals_in)
        outer = w.keeps_site
        w.keeps_site = outer or is_own
        results = lower_equations(w, jaxpr, values)
        w.keeps_site = outer
        return results
    results = rule(w, avals_in, avals_out, eqn.params, *values)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _expansion(w: Writer, eqn: JaxprEqn, avals: Sequence[Any]) -> tuple[Jaxpr, bool]:
    """Return a jaxpr that computes an equation, and True if a rule has made it; raise an error if there is none."""
    primitive, params = eqn.primitive, eqn.params
    if isinstance(primitive, ProgramCall):
        return params[primitive.parameter], False
    called = params.get("jaxpr", params.get("call_jaxpr"))
    if isinstance(called, Jaxpr) and _has_types(called, avals, eqn):
        return called, False
    decompose = EXPANSIONS.get(primitive.name) or primitive.decompose
    if decompose is not None:
        def results(*operands):
            found = decompose(*operands, **params)
            return found if primitive.multiple_results else [found]

        try:
            return tracing.trace_to_closed_jaxpr(results, avals), True
        except NotImplementedError as error:
            raise LoweringException(f"{w.where()}{error}") from None
    lowering = primitive.lowerings.get(w.platform) or primitive.lowerings.get(None)
    jaxpr_for = getattr(lowering, "jaxpr_for", None)
    if jaxpr_for is None:
        raise unsupported(w, primitive.shown_as)
    return jaxpr_for(tuple(avals), params), True


def _has_types(called: Jaxpr, avals: Sequence[Any], eqn: JaxprEqn) -> bool:
    """True if a jaxpr takes the operands of an equation; that of a reduction takes scalars."""
    types = [[v.aval for v in called.invars], [v.aval for v in called.outvars]], [list(avals), [v.aval for v in eqn.outvars]]
    return all([[getattr(a, "shape", None) for a in x] == [getattr(a, "shape", None) for a in y] for x, y in zip(*types)])


_REMEDY = "Write it with arithmetic, comparisons, reductions and products, or compute it outside of the kernel."


class LoweringException(NotImplementedError):
    """An operation of a kernel that its compiler does not have.

    Example:
        >>> issubclass(pl.tpu.LoweringException, NotImplementedError)
        True
    """


def unsupported(w: Writer, name: str, remedy: str = _REMEDY) -> NotImplementedError:
    """Return the error for an operation that a kernel cannot contain."""
    return LoweringException(f"{w.where()}{name} is not possible in kernels that are compiled for {w.platform}. {remedy} "
                               f"(With interpret=True the kernel runs as it is.)")


# Regions


def _region(region: ir.Region, types: Sequence[ir.Type], w: Writer, emit: Callable[[list[ir.Value]], Sequence[Value]],
            terminator: str = "scf.yield") -> None:
    """Emit the block of a region: `emit(arguments)` returns the operands of its terminator."""
    block = region.blocks.append(*types, arg_locs=[w.location] * len(types))
    location = w.location
    with ir.InsertionPoint(block):
        results = emit(list(block.arguments))
        create(terminator, operands=list(results), loc=location)


def for_loop(w: Writer, start: ir.Value, stop: ir.Value, step: ir.Value, init: Sequence[ir.Value],
             body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]) -> list[ir.Value]:
    """Emit `scf.for`. `body(index, carry)` returns the next carry; the result is the last one."""
    types = [x.type for x in init]
    carried = [w.carried_type(t) for t in types]
    loop = create("scf.for", results=carried, operands=[start, stop, step, *_as_types(w, init, carried)], regions=1,
                  loc=w.location)
    _region(loop.regions[0], [start.type, *carried], w,
            lambda args: _as_types(w, body(args[0], _as_types(w, args[1:], types)), carried))
    return _as_types(w, loop.results, types)


def _as_types(w: Writer, values: Sequence[ir.Value], types: Sequence[ir.Type]) -> list[ir.Value]:
    return [w.as_type(x, t) for x, t in zip(values, types)]


def if_else(w: Writer, condition: ir.Value, types: Sequence[ir.Type], then: Callable[[], Sequence[Value]],
            otherwise: Callable[[], Sequence[Value]]) -> list[ir.Value]:
    """Emit `scf.if`, with values of these types from both branches."""
    carried = [w.carried_type(t) for t in types]
    operation = create("scf.if", results=carried, operands=[condition], regions=2, loc=w.location)
    _region(operation.regions[0], [], w, lambda _: _as_types(w, then(), carried))
    _region(operation.regions[1], [], w, lambda _: _as_types(w, otherwise(), carried))
    return _as_types(w, operation.results, types)


# Loops

_MAX_STEPS = 64  # of a scan over slices, which is unrolled


def _scan(w: Writer, avals_in, avals_out, params, *values):
    jaxpr, num_consts, length = params["jaxpr"], params["num_consts"], params["length"]
    consts, carry = list(values[:num_consts]), list(values[num_consts:num_consts + params["num_carry"]])
    if num_consts + len(carry) < len(values) or len(carry) < len(avals_out):
        if length > _MAX_STEPS:
            raise unsupported(w, f"scan over more than {_MAX_STEPS} slices of arrays, or that stacks as many results,",
                              "Use lax.fori_loop, and read and write references at the index of the loop.")
        steps = tracing.trace_to_closed_jaxpr(lambda *xs: scan_in_steps(*xs, **params), avals_in)
        return lower_equations(w, steps, values)
    return _counted_loop(w, jaxpr, consts, carry, [a.dtype for a in avals_out], length, params["unroll"])


def _counted_loop(w: Writer, jaxpr: Jaxpr, consts: list[Value], carry: list[ir.Value], dtypes: list, length: int,
                  unroll: Any) -> list[ir.Value]:
    """Run a loop body a static number of times, `unroll` of them in each iteration of the loop."""
    unroll = max(1, min(length, length if unroll is True else int(unroll)))

    def steps(values: Sequence[Value], count: int) -> list[Value]:
        for _ in range(count):
            values = lower_equations(w, jaxpr, [*consts, *values])
        return list(values)

    if length <= unroll:
        return steps(carry, length)
    counters = _counters(jaxpr, len(consts)) if unroll == 1 else []
    rest = [i for i in range(len(carry)) if i not in counters]

    def body(index, values):
        full: list[Value] = [None] * len(carry)
        for i, x in zip(rest, values):
            full[i] = x
        for i in counters:
            full[i] = _offset(w, carry[i], index, dtypes[i])
        new = steps(full, unroll)
        return [new[i] for i in rest]

    zero, one = (w.constant(np.int32(n)) for n in (0, 1))
    results = iter(for_loop(w, zero, w.constant(np.int32(length // unroll)), one, [carry[i] for i in rest], body))
    last = w.constant(np.int32(length)) if counters else None
    carry = [_offset(w, x, last, dtypes[i]) if i in counters else next(results) for i, x in enumerate(carry)]
    return steps(carry, length % unroll)


def _offset(w: Writer, start: ir.Value, index: ir.Value, dtype: Any) -> ir.Value:
    """Return `start + index`, for an index of int32."""
    index = convert(w, index, (), _int32, dtype)
    return index if constant_value(start) == 0 else w.op("arith.addi", [start, index])


def _counters(jaxpr: Jaxpr, num_consts: int) -> list[int]:
    """Return the indices of the carried integers that grow by 1 in each step, which the index of the loop can replace."""
    found = []
    made_by = {eqn.outvars[0]: eqn for eqn in jaxpr.eqns if eqn.primitive.name == "add"}
    for i, (before, after) in enumerate(zip(jaxpr.invars[num_consts:], jaxpr.outvars)):
        eqn = None if type(after) is Literal else made_by.get(after)
        if eqn is None or before.aval.shape or before.aval.dtype.kind not in "iu":
            continue
        x, y = eqn.invars
        if type(x) is Literal:
            x, y = y, x
        if x is before and type(y) is Literal and y.val == 1:
            found.append(i)
    return found


def _while(w: Writer, avals_in, avals_out, params, *values):
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, carry = values[:num_cond], values[num_cond:num_cond + num_body], values[num_cond + num_body:]
    bound = _bound(condition, num_cond, body, num_body)
    if bound is not None:
        counter, limit = bound
        stop = (w.constant(limit.val, (), limit.aval.dtype) if type(limit) is Literal
                else [*cond_consts, *carry][condition.invars.index(limit)])
        return _loop_to(w, body, list(body_consts), list(carry), counter, stop, avals_out[counter].dtype)
    types = [x.type for x in carry]
    carried = [w.carried_type(t) for t in types]
    loop = create("scf.while", results=carried, operands=_as_types(w, carry, carried), regions=2, loc=w.location)
    _region(loop.regions[0], carried, w, lambda args: [
        *lower_equations(w, condition, [*cond_consts, *_as_types(w, args, types)]), *args], "scf.condition")
    _region(loop.regions[1], carried, w, lambda args: _as_types(
        w, lower_equations(w, body, [*body_consts, *_as_types(w, args, types)]), carried))
    results, in_body = _as_types(w, loop.results, types), last_reads(body)
    for x, v in zip(results, body.invars[num_body:]):
        if v not in in_body and v.aval.shape:
            w.keep(x, v.aval)
    return results


def _bound(condition: Jaxpr, num_cond: int, body: Jaxpr, num_body: int) -> tuple[int, Var | Literal] | None:
    """Return the counter of a loop and its limit in `condition`, if the loop is `while counter < limit`; else None."""
    if len(condition.eqns) != 1 or condition.eqns[0].primitive.name != "lt":
        return None
    [eqn] = condition.eqns
    counter, limit = eqn.invars
    if condition.outvars[0] is not eqn.outvars[0] or type(counter) is Literal:
        return None
    i = condition.invars.index(counter) - num_cond
    if i < 0 or i not in _counters(body, num_body) or counter.aval.dtype != _int32:
        return None
    if type(limit) is not Literal:
        k = condition.invars.index(limit) - num_cond
        if k >= 0 and body.outvars[k] is not body.invars[num_body + k]:  # the limit changes
            return None
    return i, limit


def _loop_to(w: Writer, body: Jaxpr, consts: list[Value], carry: list[ir.Value], counter: int, stop: ir.Value, dtype: Any
             ) -> list[ir.Value]:
    """Emit the loop `while carry[counter] < stop` as `scf.for`, which compilers can pipeline."""
    start = carry[counter]

    def step(index, values):
        values.insert(counter, index)
        results = lower_equations(w, body, [*consts, *values])
        return [x for i, x in enumerate(results) if i != counter]

    results = for_loop(w, start, stop, w.constant(np.int32(1)), [x for i, x in enumerate(carry) if i != counter], step)
    results.insert(counter, w.op("arith.maxsi", [start, stop]))
    return results


# Branches


def _cond(w: Writer, avals_in, avals_out, params, index, *operands):
    branches, types = params["branches"], w.types_of(avals_out)
    dtype = avals_in[0].dtype

    def emit(k: int) -> list[Value]:
        """Emit the branches from number `k` on. Indices out of range select the first or the last."""
        if k == len(branches) - 1:
            return lower_equations(w, branches[k], operands)
        if dtype == np.bool_:
            is_this = w.op("arith.xori", [index, w.constant(np.True_)])
        else:
            is_this = compare(w, "le", dtype, index, w.constant(np.asarray(k, dtype)), ())
        return if_else(w, is_this, types, lambda: lower_equations(w, branches[k], operands), lambda: emit(k + 1))

    return emit(0)


RULES: dict[str, Rule] = {"scan": _scan, "while": _while, "cond": _cond}
