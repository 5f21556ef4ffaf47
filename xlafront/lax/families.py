"""Shared logic of families of elementwise primitives.

An elementwise primitive takes operands of one dtype whose shapes have equal rank, or scalars beside them; dimensions of size 1
broadcast. `elementwise` makes its record from a table row: the StableHLO operation, the accepted dtypes and one derivative for
each operand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core import errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import add_any_p, broadcast_in_dim_p, move_dim
from xlafront.core.primitive import MeshRules, OwnRule, Primitive, Traits
from xlafront.core.sharding_types import Sums, of_all
from xlafront.core.tangents import add_tangents
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.shapes import CHEAP, record, reduce_sum_p, reshape_to

if TYPE_CHECKING:
    from xlafront.core.typing import Array, ArrayLike, Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def joint_shape(name: str, operands: Sequence[ShapedArray]) -> tuple:
    """Return the shape of an elementwise result.

    Scalars broadcast to any shape, dimensions of size 1 to the sizes of other operands of equal rank.
    """
    shape: tuple = ()
    for aval in operands:
        if aval.shape != shape and aval.shape:
            if shape:
                fits = len(shape) == len(aval.shape) and all([m == n or 1 in (m, n) for m, n in zip(shape, aval.shape)])
                if not fits:
                    raise errors.incompatible_shapes(
                        name, [("", a.shape) for a in operands],
                        "Elementwise operations of lax take equal shapes, sizes of 1 in arrays of equal rank, or scalars; "
                        "xlafront.numpy broadcasts.", broadcast=True)
                shape = tuple([n if m == 1 else m for m, n in zip(shape, aval.shape)])
            else:
                shape = aval.shape
    return shape


def elementwise(name: str | Primitive, operation: str | Callable, accepts: str = "int float complex bool", *,
                derivatives: Sequence[Callable | None] | None = None, result: Callable | None = None,
                transpose: Callable | None = None, mixed: bool = False, attributes: Callable | None = None,
                shown_as: str | None = None, sums: Sums | None = None, defaults: dict | None = None, jointly: bool = False,
                wrap_lowering: Callable[[Callable], Callable] | None = None, traits: Traits = Traits(), **rules: Any
                ) -> Primitive:
    """Make the record of an elementwise primitive.

    - `derivatives[i](g, result, *operands, **params)`: the contribution of the tangent `g` of operand `i`.
    - `result(*dtypes, **params)`: the dtype of the result if it differs from the operands' dtype.
    - `transpose(cotangent, *operands, **params)`: for operations that are linear in an operand.

    Args:
        name: The name, or the declared primitive of the core that is defined.
        operation: A StableHLO or CHLO operation, or a lowering rule.
        accepts: The dtypes that the operands may have, as names for `check_dtype`.
        mixed: If True, operands may differ in dtype.
        attributes: Returns the attributes of the operation; called with `mlir`, the operand types and the parameters.
        shown_as: The name in error messages. Default: `name`.
        sums: The operands in which the operation is linear, as for any record.
        defaults: Parameters that calls may omit, with the values that equations then have.
        jointly: If True, the operation is linear in all operands together: applied to the tangents of all of them, it gives the
            tangent of the result.
    """
    shown = shown_as or (name if isinstance(name, str) else name.name)

    def abstract(*operands: ShapedArray, **params: Any) -> ShapedArray:
        first = operands[0].dtype
        for aval in operands:
            check_dtype(shown, accepts, aval.dtype)
            if aval.dtype != first and not mixed:
                raise errors.incompatible_dtypes(
                    shown, [a.dtype for a in operands],
                    "Operations of lax take equal dtypes; convert with x.astype(...), or use xlafront.numpy.")
        shape = operands[0].shape if len(operands) == 1 else joint_shape(shown, operands)
        dtype = first if result is None else result(*[a.dtype for a in operands], **params)
        weak = all([a.weak_type for a in operands])
        vma = frozenset().union(*[a.vma for a in operands]) if any(a.vma for a in operands) else frozenset()
        return ShapedArray(shape, dtype, weak, vma=vma)

    def lower(ctx: RuleContext, *operands: ir.Value, **params: Any) -> ir.Value:
        if attributes is None:
            return ctx.op(operation, operands)
        return ctx.op(operation, operands, **attributes(lowering.mlir, *ctx.avals_in, **params))

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        answer = primitive.bind(*primals, **params)
        if jointly and not any([type(g) is Zero for g in tangents]):
            return answer, primitive.bind(*tangents, **params)
        total = None
        for rule, g in zip(derivatives, tangents):
            if type(g) is Zero or rule is None:
                continue
            term = rule(g, answer, *primals, **params)
            if term is None:  # zero derivative for these types or parameters
                continue
            shape = shape_of(answer)
            if shape_of(term) != shape:
                term = broadcast_to(term, shape)
            total = term if total is None else add_tangents(total, term)
        if total is None:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, total

    def batch(axis_size: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
        operands, dim = align_batches(axis_size, operands, dims)
        return primitive.bind(*operands, **params), dim

    rule = operation if callable(operation) else lower
    primitive = record(
        name, Primitive if defaults is None else _WithDefaults,
        **{"abstract": abstract, "jvp": None if derivatives is None else jvp} | rules,
        lower=rule if wrap_lowering is None else wrap_lowering(rule), batch=batch, transpose=transpose, shown_as=shown,
        defaults=defaults, mesh=MeshRules(sharding_rules.elementwise, sums=sums),
        traits=traits._replace(broadcasts_scalars=True))
    return primitive


class _WithDefaults(Primitive):
    """A primitive that drops parameters with default values, so that calls with and without them give equal equations."""

    def bind(self, *args: Any, **params: Any) -> Any:
        return tracing.thread.trace.process(self, args, {} if params and params == self.defaults else params)


def _joint_size(m: int, n: int) -> int:
    return n if m == 1 else m


def shape_of(x: ArrayLike) -> tuple:
    """Return `numpy.shape(x)`, without its cost for arrays."""
    aval = getattr(x, "aval", None)
    return aval.shape if aval is not None else np.shape(x)


def broadcast_to(x: Array, shape: Sequence[int]) -> Array:
    """Broadcast a scalar, or an array with dimensions of size 1, to the shape of an elementwise result."""
    if np.shape(x) == tuple(shape):
        return x
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=tuple(range(np.ndim(x))), sharding=None)


@OwnRule
def bilinear_jvp(primitive: Primitive) -> Callable:
    """Return the JVP rule of an operation that is linear in each of its two operands."""
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x, y), (tx, ty) = primals, tangents
        answer = primitive.bind(x, y, **params)
        terms = []
        if type(tx) is not Zero:
            terms.append(primitive.bind(tx, y, **params))
        if type(ty) is not Zero:
            terms.append(primitive.bind(x, ty, **params))
        if not terms:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, terms[0] if len(terms) == 1 else add_tangents(*terms)

    return jvp


def unbroadcast(cotangent: Tangent, aval: ShapedArray) -> Tangent:
    """Sum the cotangent of a broadcast operand over the dimensions that were broadcast."""
    if type(cotangent) is Zero or aval.shape == shape_of(cotangent):
        return cotangent
    shape = shape_of(cotangent)
    axes = range(len(shape)) if not aval.shape else [i for i, n in enumerate(shape) if n != aval.shape[i]]
    return reshape_to(reduce_sum_p.bind(cotangent, axes=tuple(axes), out_sharding=None), aval.shape)


def align_batches(axis_size: int, operands: Sequence[Any], dims: Dims) -> tuple[Sequence[Any], int | None]:
    """Move the batch dimensions of elementwise operands to one position; unbatched scalars remain scalars."""
    dim = rank = None
    for x, d in zip(operands, dims):  # Hot: every elementwise operation under vmap, most of them like this.
        if d is None:
            if shape_of(x):
                break
        elif dim is None:
            dim, rank = d, len(shape_of(x))
        elif d != dim or len(shape_of(x)) != rank:
            break
    else:
        return operands, dim
    rank = max(np.ndim(x) - (d is not None) for x, d in zip(operands, dims))
    operands = [x if d is None else move_dim(x, d, 0) for x, d in zip(operands, dims)]
    shapes = []
    for x, d in zip(operands, dims):
        shape = np.shape(x) if d is not None or not np.ndim(x) else (1, *np.shape(x))
        shapes.append(shape + (1,) * (rank + 1 - len(shape)) if shape else shape)
    batched_shape = tuple(functools.reduce(_joint_size, along) for along in zip(*filter(None, shapes)))
    return [x if not np.ndim(x) or np.shape(x) == batched_shape else broadcast_in_dim_p.bind(
        x, shape=batched_shape, broadcast_dimensions=tuple(range(d is None, np.ndim(x) + (d is None))), sharding=None)
        for x, d in zip(operands, dims)], 0


def linear(*positions: int) -> Callable:
    """Return a decorator for a transpose rule that treats the operands at `positions` one by one.

    The rule gets the cotangent and the operands, and returns the cotangent of the undefined operand.
    """

    def decorate(rule: Callable) -> Callable:
        def transpose(cotangent: Tangent, *operands: Any, **params: Any) -> list[Any]:
            if type(cotangent) is Zero:
                return [Zero(x.aval) if is_undefined(x) else None for x in operands]
            return [unbroadcast(rule(i, cotangent, *operands, **params), x.aval) if is_undefined(x) else None
                    for i, x in enumerate(operands)]

        return transpose

    return decorate


# Sum of tangents or cotangents
def _lower_sum(ctx: RuleContext, x: ir.Value, y: ir.Value) -> ir.Value:
    """Lower a sum; if one term is zero outside a few positions, update only these positions.

    Such a term is the cotangent of an array of which a slice is read. The derivative of a loop that reads one element in each
    step then does not traverse the whole array in each step.
    """
    sparse = ctx.body.sparse
    for total, sparse_term, updates in ((x, y, sparse.get(x)), (y, x, None)) if sparse else ():
        # A term that another operation reads is computed anyway. A GPU then adds it in a kernel that it launches anyway.
        if sparse_term in sparse and not (ctx.platform == "cuda" and next(iter(sparse_term.uses), None) is not None):
            for add_to in sparse[sparse_term]:
                total = add_to(total)
            if updates:
                sparse[total] = updates + sparse[sparse_term]
            return total
    return ctx.op("stablehlo.add", [x, y])


elementwise(
    add_any_p, _lower_sum, "any", derivatives=(lambda g, z, x, y: g, lambda g, z, x, y: g),
    transpose=linear(0, 1)(lambda i, ct, x, y: ct), sums=of_all(), traits=CHEAP)
