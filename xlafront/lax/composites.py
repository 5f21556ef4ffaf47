"""`composite`: a named operation with a decomposition, for compilers that have an implementation of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlafront import lowering
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import errors, tracing, tree
from xlafront.core.ir import Jaxpr
from xlafront.core.primitive import Primitive, Traits
from xlafront.core.program_key import value_key
from xlafront.staging import signatures

if TYPE_CHECKING:
    from xlafront.core.typing import Dims
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

_NAMESPACED = re.compile(r"[a-zA-Z]\w*(\.[\w$]+)+", re.ASCII)


class ConstantArray:
    """An array attribute, hashed by its contents."""

    __slots__ = ("val",)

    def __init__(self, val: np.ndarray) -> None:
        self.val = val

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantArray) and value_key(self.val) == value_key(other.val)

    def __hash__(self) -> int:
        return hash(value_key(self.val))

    def __repr__(self) -> str:
        return f"ConstantArray({self.val!r})"


def _attribute(value: Any) -> ir.Attribute:
    """Return a Python value as an MLIR attribute."""
    m = lowering.mlir
    if isinstance(value, ConstantArray):
        return m.dense(value.val)
    if isinstance(value, (bool, np.bool_)):
        return m.boolean(value)
    if isinstance(value, str):
        return m.string(value)
    if isinstance(value, np.dtype):
        return m.ir.TypeAttr.get(m.element_type(value))
    if isinstance(value, (tuple, list)):
        return m.array(map(_attribute, value))
    if isinstance(value, dict):
        return m.dictionary({k: _attribute(v) for k, v in value.items()})
    if isinstance(value, (int, np.integer)):
        return m.i64(int(value))
    return m.float64(float(value))


def _lower(ctx: RuleContext, *operands: ir.Value, attributes: Sequence[tuple], jaxpr: Jaxpr, name: str, version: int
           ) -> list[ir.Value]:
    m = lowering.mlir
    if not _NAMESPACED.fullmatch(name):
        raise ValueError(f"a compiled program cannot contain the composite operation {name!r}: put the name of a library in "
                         f"front, as in 'my_library.tangent', of letters, digits, '_' and '$'.")
    if ordered := lowering.module.ordered_effects(jaxpr):
        raise NotImplementedError(f"the composite operation {name} has the ordered effects {ordered}, whose order a compiled "
                                  f"program cannot preserve inside of it. Use an unordered callback.")
    symbol = lowering.equations.function_of(ctx.module_context, jaxpr, name)
    composite_attributes = {key: _attribute(treedef.unflatten(leaves)) for key, leaves, treedef in attributes if any(
        v is not None for v in leaves)}
    return list(m.create("stablehlo.composite", results=[m.type_of(a) for a in ctx.avals_out], operands=operands, attributes={
        "name": m.string(name), "decomposition": m.symbol(symbol), "composite_attributes": m.dictionary(composite_attributes),
        "version": m.i32(version)}, loc=ctx.loc).results)


def _no_derivative(primals: Sequence[Any], tangents: Sequence[Any], *, name: str, **_: Any) -> NoReturn:
    raise ValueError(f"the composite operation {name} has no derivative: a JVP rule for composite is not implemented. Call it "
                     f"in a function with xlafront.custom_jvp or custom_vjp.")


def _no_batches(axis_size: int, operands: Sequence[Any], dims: Dims, *, name: str, **_: Any) -> NoReturn:
    raise NotImplementedError(f"the composite operation {name} cannot be mapped: a batching rule for composite is not "
                              f"implemented, since the name denotes the unbatched operation. Use "
                              f"xlafront.custom_batching.custom_vmap.")


composite_p = Primitive(
    "composite", multiple_results=True, abstract=lambda *_, jaxpr, **__: list(jaxpr.out_avals), lower=_lower,
    jvp=_no_derivative, batch=_no_batches, impl=lambda *operands, jaxpr, **_: jaxpr(*operands), traits=Traits(memoise=False))


def composite(decomposition: Callable, name: str, version: int = 0) -> Callable:
    """Make a function that is one named operation in the jaxpr, defined by its decomposition.

    Compilers that recognize the name use their own implementation; others compile the decomposition. Keyword arguments of the
    function are attributes of the operation: numbers, strings, dtypes, NumPy arrays, or tuples of them.

    Args:
        decomposition: A function of arrays, and of keyword arguments.
        name: Name of the operation. Compiled programs need one with the name of a library in front: `"my_library.tangent"`.
        version: Version of the semantics of the operation.

    Returns:
        A function with the signature of `decomposition`.

    Note:
        The operation has neither a derivative nor a batching rule. Outside of compiled programs its decomposition runs.

    Example:
        >>> tangent = lax.composite(lambda x: xnp.sin(x) / xnp.cos(x), "my.tangent")
        >>> tangent(xnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    if not callable(decomposition):
        raise TypeError(f"composite needs a function as its first argument, which must be callable; got {decomposition!r}.")
    if not isinstance(name, str):
        raise TypeError(f"composite needs a string as name, got {name!r}.")

    def call(*args: Any, **attributes: Any) -> Any:
        static_attributes = []
        for key, value in attributes.items():
            leaves, treedef = tree.flatten(value)
            for leaf in leaves:
                if isinstance(leaf, tracing.Tracer):
                    raise errors.UnexpectedTracerError(
                        f"the attribute {key!r} of the composite operation {name} must be static, but is a Tracer: {leaf}. "
                        f"Pass it as an argument.")
            static_attributes.append((key, tuple(ConstantArray(np.asarray(x)) if isinstance(x, (np.ndarray, ArrayImpl)) else x
                                    for x in leaves), treedef))
        flat, in_tree = tree.flatten(args)
        avals = [tracing.aval_of(x, name) for x in flat]
        out_tree: Any = None

        def flat_decomposition(*xs: tracing.Tracer) -> list[Any]:
            nonlocal out_tree
            results, out_tree = tree.flatten(decomposition(*in_tree.unflatten(xs), **attributes))
            return results

        closed: Jaxpr = tracing.trace_to_closed_jaxpr(
            flat_decomposition, avals, signatures.debug_info_of("composite", decomposition, in_tree, lambda: out_tree))
        if any(isinstance(c, tracing.Tracer) for c in closed.consts):
            raise errors.UnexpectedTracerError(
                f"the decomposition of the composite operation {name} uses a value that is traced outside of it, a Tracer as a "
                f"constant. Pass it as an argument.")
        results = composite_p.bind(*flat, attributes=tuple(static_attributes), jaxpr=closed, name=name, version=int(version))
        return out_tree.unflatten(results)

    call.__name__ = call.__qualname__ = getattr(decomposition, "__name__", name)
    return call
