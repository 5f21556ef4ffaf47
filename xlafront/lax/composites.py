"""`composite`: an operation with a name, for compilers that know it, and a program for those that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlafront import lowering
from xlafront.core import errors, tracing, tree
from xlafront.core.ir import ClosedJaxpr
from xlafront.core.primitive import Primitive
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging import signatures


class ConstantArray:
    """An array among the attributes, hashed by its contents."""

    __slots__ = ("val",)

    def __init__(self, val: np.ndarray):
        self.val = val

    def __eq__(self, other):
        return (isinstance(other, ConstantArray) and self.val.dtype == other.val.dtype and self.val.shape == other.val.shape
                and self.val.tobytes() == other.val.tobytes())

    def __hash__(self):
        return hash((self.val.shape, self.val.dtype, self.val.tobytes()))

    def __repr__(self):
        return f"ConstantArray({self.val!r})"


def _attribute(value):
    """A Python value as MLIR writes it."""
    m = lowering.mlir
    if isinstance(value, ConstantArray):
        return m.dense(value.val)
    if isinstance(value, (bool, np.bool_)):
        return m.boolean(value)
    if isinstance(value, str):
        return m.string(value)
    if isinstance(value, (tuple, list)):
        return m.array(map(_attribute, value))
    if isinstance(value, dict):
        return m.dictionary({k: _attribute(v) for k, v in value.items()})
    if isinstance(value, (int, np.integer)):
        return m.i64(int(value))
    return m.float64(float(value))


def _lower(ctx, *operands, attributes, jaxpr, name, version):
    m = lowering.mlir
    symbol = ctx.module_context.function_of(jaxpr.jaxpr, jaxpr.consts, name)
    given = {key: _attribute(treedef.unflatten(leaves)) for key, leaves, treedef in attributes if any(
        v is not None for v in leaves)}
    return list(m.create("stablehlo.composite", results=[m.type_of(a) for a in ctx.avals_out], operands=operands, attributes={
        "name": m.string(name), "decomposition": m.symbol(symbol), "composite_attributes": m.dictionary(given),
        "version": m.i32(version)}, loc=ctx.loc).results)


def _no_derivative(primals, tangents, *, name, **_):
    raise ValueError(f"the composite operation {name} has no derivative: a JVP rule for composite is not implemented. Give it "
                     f"one by calling it in a function with xlafront.custom_jvp or custom_vjp.")


def _no_batches(axis_size, operands, dims, *, name, **_):
    raise NotImplementedError(f"the composite operation {name} cannot be mapped: a batching rule for composite is not "
                              f"implemented, since the name stands for what it does to one element. Use "
                              f"xlafront.custom_batching.custom_vmap.")


composite_p = Primitive("composite", multiple_results=True, abstract=lambda *_, jaxpr, **__: list(jaxpr.out_avals),
                        lower=_lower, jvp=_no_derivative, batch=_no_batches, memoise=False)


def composite(decomposition: Callable, name: str, version: int = 0) -> Callable:
    """A function that is one operation of the program, called `name`, with `decomposition` as its meaning.

    Compilers that know the name put what they have in its place; the others compute the decomposition. Keyword arguments are
    attributes of the operation: numbers, strings, NumPy arrays, or tuples of them. It has no derivative and cannot be mapped.

    - `decomposition`: a function of arrays, and of keyword arguments.
    - `name`: the operation's, with its library's in front: `"my_library.tangent"`.
    - `version`: of its meaning.

    >>> tangent = lax.composite(lambda x: xnp.sin(x) / xnp.cos(x), "my.tangent")
    >>> tangent(xnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    if not callable(decomposition):
        raise TypeError(f"composite needs a function as its first argument, which must be callable; got {decomposition!r}.")
    if not isinstance(name, str):
        raise TypeError(f"composite needs a string as name, got {name!r}.")

    def call(*args, **attributes):
        kept = []
        for key, value in attributes.items():
            leaves, treedef = tree.flatten(value)
            for leaf in leaves:
                if isinstance(leaf, tracing.Tracer):
                    raise errors.UnexpectedTracerError(
                        f"the attribute {key!r} of the composite operation {name} is traced, and must be known when the "
                        f"program is made. Found a Tracer: {leaf}. Pass it as an argument.")
            kept.append((key, tuple(ConstantArray(np.asarray(x)) if isinstance(x, (np.ndarray, ArrayImpl)) else x
                                    for x in leaves), treedef))
        flat, in_tree = tree.flatten(args)
        avals = [tracing.aval_of(x, name) for x in flat]
        out_tree = None

        def flat_decomposition(*xs):
            nonlocal out_tree
            results, out_tree = tree.flatten(decomposition(*in_tree.unflatten(xs), **attributes))
            return results

        closed: ClosedJaxpr = tracing.trace_to_closed_jaxpr(
            flat_decomposition, avals, signatures.origin("composite", decomposition, in_tree, lambda: out_tree))
        if any(isinstance(c, tracing.Tracer) for c in closed.consts):
            raise errors.UnexpectedTracerError(
                f"the decomposition of the composite operation {name} uses a value that is traced outside of it, a Tracer as a "
                f"constant: all that it reads must be among its arguments. Pass it as one.")
        results = composite_p.bind(*flat, attributes=tuple(kept), jaxpr=closed, name=name, version=int(version))
        return out_tree.unflatten(results)

    call.__name__ = call.__qualname__ = getattr(decomposition, "__name__", name)
    return call
