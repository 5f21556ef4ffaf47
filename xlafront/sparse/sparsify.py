"""`sparsify`: a transformation of functions of dense arrays to functions of sparse arrays.

The function is traced with dense arrays of the same types, and its jaxpr is evaluated with the sparse ones: a primitive on
sparse
values is evaluated by its rule. With `use_tracer`, the rules apply while the function runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.control.cond import switch
from xlafront.control.layouts import ScanLayout, WhileLayout
from xlafront.control.scan import scan
from xlafront.control.while_loop import select_active, while_loop
from xlafront.core import tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, Literal
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
    """Evaluate a jaxpr with arguments of which some are sparse."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *[_with_origin(x, replace=False) for x in args])))

    def read(atom):
        return atom.val if type(atom) is Literal else values[atom]

    for eqn in jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        results = apply(eqn.primitive, operands, eqn.params)
        values.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results]))
    return [read(v) for v in jaxpr.outvars]


def apply(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive to values, by its sparse rule if some are sparse."""
    if not any(map(is_sparse, operands)):
        return primitive.bind(*operands, **params)
    if primitive.name in _CONTROL:
        return _CONTROL[primitive.name](operands, **params)
    if isinstance(primitive, ProgramCall):
        return list(_jitted(params[primitive.parameter])(*operands))
    if isinstance(primitive, CustomCall) and primitive.parameter in params:
        return _run(params[primitive.parameter], operands)
    return rule_for(primitive, operands)(primitive, *operands, **params)


def _with_origin(x: Any, replace: bool = True) -> Any:
    """Mark a sparse argument with an identity, by which operations recognize values with its indices."""
    if not isinstance(x, BCOO) or not replace and x.origin is not None:
        return x
    x = x.with_data(x.data)
    x.origin = object()
    return x


def _run(closed: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    return evaluate(closed.structure, closed.consts, operands)


def _jitted(closed: Jaxpr) -> Callable:
    """Return a jitted function that evaluates a jaxpr on sparse values. It is cached with the jaxpr."""
    return closed.memoised("sparsify", lambda: jit(lambda *xs: tuple(_run(closed, xs))))


def _cond(operands: Sequence[Any], *, branches: Sequence[Jaxpr], **_: Any) -> list[Any]:
    index, *rest = operands
    out_shapes = [eval_shape(functools.partial(_run_to_tuple, branch), *rest) for branch in branches]
    if any(tree.structure(out) != tree.structure(out_shapes[0]) for out in out_shapes):
        raise TypeError("the branches of a sparsified cond (true_fun, false_fun) need results of the same type structure, got "
                        f"{' and '.join(map(str, out_shapes))}. If some are sparse and others dense, use sparse.todense(), or "
                        "make all sparse.")
    return list(switch(index, [functools.partial(_run_to_tuple, branch) for branch in branches], *rest))


def _run_to_tuple(closed: Jaxpr, *operands: Any) -> tuple:
    return tuple(_run(closed, operands))


def _while(operands: Sequence[Any], *, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, cond_nconsts: int, body_nconsts: int
           ) -> list[Any]:
    cond_consts, body_consts, carry = WhileLayout(cond_nconsts, body_nconsts).split(operands)
    batch = cond_jaxpr.out_avals[0].shape

    def flags(state):
        return _run(cond_jaxpr, (*cond_consts, *state))[0]

    def step(state):
        next_state = _run_to_tuple(body_jaxpr, *body_consts, *state)
        return tuple(select_active(flags(state), state, next_state)) if batch else next_state

    return list(while_loop(lambda state: flags(state).any() if batch else flags(state), step, tuple(carry)))


def _scan(operands: Sequence[Any], *, jaxpr: Jaxpr, length: int, num_carry: int, num_consts: int, reverse: bool,
          unroll: Any, **_: Any) -> list[Any]:
    layout = ScanLayout(num_consts, num_carry)
    consts, initial, xs = layout.split(operands)
    if any(map(is_sparse, xs)):
        raise NotImplementedError("sparse rule for scan over the elements of a sparse array is not implemented: close over the "
                                  "array in the body, or make it dense")

    def step(state, x):
        carry, rows = layout.split_results(_run(jaxpr, (*consts, *state, *x)))
        return tuple(carry), tuple(rows)

    carry, ys = scan(step, tuple(initial), tuple(xs), length=length, reverse=reverse, unroll=unroll)
    return [*carry, *[_with_steps(y, length) if is_sparse(y) else y for y in ys]]


def _with_steps(y: Any, length: int) -> Any:
    """Return sparse arrays whose components a loop has stacked as one of another batch dimension."""
    return type(y)(y._bufs, shape=(length, *y.shape), indices_sorted=y.indices_sorted, unique_indices=y.unique_indices)


_CONTROL: dict[str, Callable] = {"cond": _cond, "while": _while, "scan": _scan}


# With tracers


class SparseTrace(Trace):
    """Trace that runs primitives on sparse values by their rules, in the parent trace."""

    __slots__ = ("alive",)

    def __init__(self, parent: Trace):
        self.parent = parent
        self.alive = True

    def unwrap(self, x: Any) -> Any:
        return x.spvalue if type(x) is SparseTracer and x._trace is self else x

    def wrap(self, x: Any) -> Any:
        return SparseTracer(self, spvalue=x) if is_sparse(x) else x

    def process(self, primitive, args, params):
        if isinstance(primitive, CustomCall) and primitive.parameter not in params:  # a function, which takes tracers
            with current_trace(self):
                return params["fun"](*args)
        with current_trace(self.parent):
            results = apply(primitive, [self.unwrap(x) for x in args], params)
        return [self.wrap(x) for x in results] if primitive.multiple_results else self.wrap(results)


class SparseTracer(Tracer):
    """A sparse value or an argument in a function that runs under `sparsify` with `use_tracer`.

    Args:
        trace: Trace of the `sparsify` call.
        spvalue: Sparse array, or array.
    """

    __slots__ = ("spvalue",)

    def __init__(self, trace: SparseTrace, *, spvalue: Any):
        super().__init__(trace, _aval(spvalue))
        self.spvalue = spvalue

    def __repr__(self):
        return f"SparseTracer({self.spvalue!r})"


class _Flat(NamedTuple):
    """Flat arguments of a function, of which arrays and sparse arrays are arguments of its jaxpr."""

    values: list[Any]
    positions: list[int]
    leaves: list[Any]
    structure: Any

    def arguments(self, values: Sequence[Any]) -> Any:
        leaves = list(self.leaves)
        for i, value in zip(self.positions, values):
            leaves[i] = value
        return tree.unflatten(self.structure, leaves)


def _flat(arguments: Any) -> _Flat:
    leaves, structure = tree.flatten_tree(arguments, is_leaf=is_sparse)
    positions = [i for i, x in enumerate(leaves) if is_sparse(x) or tracing.is_arraylike(x)]
    return _Flat([leaves[i] for i in positions], positions, leaves, structure)


@boundary
def sparsify(f: Callable, use_tracer: bool = False) -> Callable:
    """Transform a function of dense arrays to accept BCOO and BCSR arrays in place of any of them.

    Operations whose results would not be sparse raise an error. Use `sparse.todense` inside the function to get a dense array.

    Args:
        f: Function to transform.
        use_tracer: If True, run `f` with tracers of sparse arrays instead of tracing it to a jaxpr first.

    Returns:
        Transformed function.

    Example:
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
                    tracers = [SparseTracer(trace, spvalue=_with_origin(x)) for x in flat.values]
                    results = [trace.unwrap(x) for x in run(*tracers)]
            finally:
                trace.end()
            return tree.unflatten(out_tree, results)

        def traced(*tracers):
            nonlocal out_tree
            inner_args, inner_kwargs = flat.arguments(tracers)
            out = f(*inner_args, **inner_kwargs)
            results, out_tree = signatures.check_results(f, out)
            return results

        jaxpr, consts = tracing.trace_to_jaxpr(traced, [_aval(x) for x in flat.values])
        results = evaluate(jaxpr, consts, [_with_origin(x) for x in flat.values])
        return tree.unflatten(out_tree, [x if is_sparse(x) else as_array(x) for x in results])

    return sparsified

