"""`sparsify`: functions of dense arrays as functions of sparse ones.

The function is traced with dense arrays of the same types, and its program run with the sparse ones: an operation on sparse
values is what its rule makes of it. With tracers, operations meet their rules while the function runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.control.cond import switch
from xlafront.control.scan import scan
from xlafront.control.while_loop import those_that_go_on, while_loop
from xlafront.core import tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import ClosedJaxpr, Jaxpr, Literal
from xlafront.core.program_call import ProgramCall
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import Trace, Tracer, current_trace
from xlafront.core.wrapping import wraps
from xlafront.lax.elementwise import as_array
from xlafront.sparse.bcoo import BCOO
from xlafront.sparse.sparsify_rules import is_sparse, rule_for
from xlafront.staging import signatures
from xlafront.staging.inspection import eval_shape
from xlafront.staging.jit import jit
from xlafront.transforms.calls.custom_calls import CustomCall


def _aval(x: Any) -> Any:
    return ShapedArray(x.shape, x.dtype) if is_sparse(x) else tracing.aval_of(x)


def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Run a program with values of which some are sparse."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *[_marked(x, anew=False) for x in args])))

    def read(atom):
        return atom.val if type(atom) is Literal else values[atom]

    for eqn in jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        results = apply(eqn.primitive, operands, eqn.params)
        values.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results]))
    return [read(v) for v in jaxpr.outvars]


def apply(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """What an operation makes of these values; sparse ones come out where they went in, or as their rule says."""
    if not any(map(is_sparse, operands)):
        return primitive.bind(*operands, **params)
    if primitive.name in _CONTROL:
        return _CONTROL[primitive.name](operands, **params)
    if isinstance(primitive, ProgramCall):
        return list(_compiled(params[primitive.parameter])(*operands))
    if isinstance(primitive, CustomCall) and primitive.parameter in params:
        return _run(params[primitive.parameter], operands)
    return rule_for(primitive, operands)(primitive, *operands, **params)


def _marked(x: Any, anew: bool = True) -> Any:
    """A sparse argument as a value of its own, so that operations know which values have its indices."""
    if not isinstance(x, BCOO) or not anew and x.origin is not None:
        return x
    x = x.with_data(x.data)
    x.origin = object()
    return x


def _run(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    return evaluate(closed.jaxpr, closed.consts, operands)


def _compiled(closed: ClosedJaxpr) -> Callable:
    """A program of sparse values as a compiled function, kept with it."""
    return closed.jaxpr.memoised(("sparsify", *map(id, closed.consts)), lambda: jit(lambda *xs: tuple(_run(closed, xs))))


def _cond(operands: Sequence[Any], *, branches: Sequence[ClosedJaxpr], **_: Any) -> list[Any]:
    index, *rest = operands
    found = [eval_shape(functools.partial(_tuple_of, branch), *rest) for branch in branches]
    if any(tree.structure(out) != tree.structure(found[0]) for out in found):
        raise TypeError("the branches of a sparsified cond (true_fun, false_fun) need results of the same type structure, got "
                        f"{' and '.join(map(str, found))}. Where one is sparse and another dense, use sparse.todense(), or "
                        "make all sparse.")
    return list(switch(index, [functools.partial(_tuple_of, branch) for branch in branches], *rest))


def _tuple_of(closed: ClosedJaxpr, *operands: Any) -> tuple:
    return tuple(_run(closed, operands))


def _while(operands: Sequence[Any], *, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int
           ) -> list[Any]:
    cond_consts, rest = operands[:cond_nconsts], operands[cond_nconsts:]
    body_consts, carry = rest[:body_nconsts], tuple(rest[body_nconsts:])
    batch = cond_jaxpr.out_avals[0].shape

    def flags(state):
        return _run(cond_jaxpr, (*cond_consts, *state))[0]

    def step(state):
        following = _tuple_of(body_jaxpr, *body_consts, *state)
        return tuple(those_that_go_on(flags(state), state, following)) if batch else following

    return list(while_loop(lambda state: flags(state).any() if batch else flags(state), step, carry))


def _scan(operands: Sequence[Any], *, jaxpr: ClosedJaxpr, length: int, num_carry: int, num_consts: int, reverse: bool,
          unroll: Any,
          **_: Any) -> list[Any]:
    consts, rest = operands[:num_consts], operands[num_consts:]
    carry, xs = tuple(rest[:num_carry]), tuple(rest[num_carry:])
    if any(map(is_sparse, xs)):
        raise NotImplementedError("sparse rule for scan over the elements of a sparse array is not implemented: make it a "
                                  "constant of the body, or dense")

    def step(state, x):
        found = _run(jaxpr, (*consts, *state, *x))
        return tuple(found[:num_carry]), tuple(found[num_carry:])

    carry, ys = scan(step, carry, xs, length=length, reverse=reverse, unroll=unroll)
    return [*carry, *ys]


_CONTROL: dict[str, Callable] = {"cond": _cond, "while": _while, "scan": _scan}


# With tracers


class SparseTrace(Trace):
    """Runs operations on sparse values by their rules, in the trace beneath."""

    __slots__ = ("alive",)

    def __init__(self, parent: Trace):
        self.parent = parent
        self.alive = True

    def unwrap(self, x: Any) -> Any:
        return x.spvalue if type(x) is SparseTracer and x._trace is self else x

    def wrap(self, x: Any) -> Any:
        return SparseTracer(self, spvalue=x) if is_sparse(x) else x

    def process(self, primitive, args, params):
        with current_trace(self.parent):
            results = apply(primitive, [self.unwrap(x) for x in args], params)
        return [self.wrap(x) for x in results] if primitive.multiple_results else self.wrap(results)


class SparseTracer(Tracer):
    """A sparse value in a function that runs under `sparsify` with tracers.

    - `trace`: of the call of `sparsify`. `spvalue`: the sparse array.
    """

    __slots__ = ("spvalue",)

    def __init__(self, trace: SparseTrace, *, spvalue: Any):
        super().__init__(trace, _aval(spvalue))
        self.spvalue = spvalue

    def __repr__(self):
        return f"SparseTracer({self.spvalue!r})"


class _Flat(NamedTuple):
    """Arguments of a function, of which those that are arrays or sparse go into its program."""

    values: list[Any]
    places: list[int]
    leaves: list[Any]
    structure: Any

    def arguments(self, values: Sequence[Any]) -> Any:
        leaves = list(self.leaves)
        for place, value in zip(self.places, values):
            leaves[place] = value
        return tree.unflatten(self.structure, leaves)


def _flat(arguments: Any) -> _Flat:
    leaves, structure = tree.flatten_tree(arguments, is_leaf=is_sparse)
    found = [i for i, x in enumerate(leaves) if is_sparse(x) or tracing.is_arraylike(x)]
    return _Flat([leaves[i] for i in found], found, leaves, structure)


@boundary
def sparsify(f: Callable, use_tracer: bool = False) -> Callable:
    """A function of dense arrays as one that takes BCOO and BCSR arrays in place of any of them.

    Operations whose results would not be sparse are errors; `sparse.todense` inside of the function says that one is meant to
    be dense.

    - `f`: the function.
    - `use_tracer`: run `f` itself with values that stand for sparse arrays, in place of tracing it first.

    >>> mat = sparse.eye(3)
    >>> sparse.sparsify(lambda x: xnp.sin(x).sum(0))(2 * mat)
    BCOO(float32[3], nse=3)
    """
    @wraps(f)
    def sparsified(*args, **kwargs):
        flat = _flat((args, kwargs))
        out_tree = None

        def run(*values):
            nonlocal out_tree
            inner_args, inner_kwargs = flat.arguments(values)
            results, out_tree = tree.flatten_tree(f(*inner_args, **inner_kwargs), is_leaf=is_sparse)
            return results

        if use_tracer:
            trace = SparseTrace(tracing.thread.trace)
            try:
                with current_trace(trace):
                    found = [trace.unwrap(x) for x in run(*[trace.wrap(_marked(x)) for x in flat.values])]
            finally:
                trace.end()
            return tree.unflatten(out_tree, found)

        def traced(*tracers):
            nonlocal out_tree
            inner_args, inner_kwargs = flat.arguments(tracers)
            out = f(*inner_args, **inner_kwargs)
            results, out_tree = signatures.check_results(f, out)
            return results

        jaxpr, consts = tracing.trace_to_jaxpr(traced, [_aval(x) for x in flat.values])
        found = evaluate(jaxpr, consts, [_marked(x) for x in flat.values])
        return tree.unflatten(out_tree, [x if is_sparse(x) else as_array(x) for x in found])

    return sparsified

