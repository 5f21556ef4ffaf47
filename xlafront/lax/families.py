"""The logic that families of elementwise primitives share, written once.

An elementwise primitive takes operands of one rank, or scalars beside them, and of one dtype; dimensions of size 1 spread.
Its record is made by `elementwise` from a row: the StableHLO operation, the dtypes it takes, and a derivative for each operand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from xlafront import lowering
from xlafront.core import errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import Sums, of_all
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.shapes import broadcast_in_dim_p, move_dim, reduce_sum_p, reshape_to


def joint_shape(name: str, operands: Sequence[ShapedArray]) -> tuple:
    """The shape of the result: scalars spread to any shape, dimensions of size 1 to those of operands of the same rank."""
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


def elementwise(name: str, operation: str | Callable, accepts: str = "int float complex bool", *,
                derivatives: Sequence[Callable | None] | None = None, result: Callable | None = None,
                transpose: Callable | None = None, mixed: bool = False, attributes: Callable | None = None,
                shown_as: str | None = None, sums: Sums | None = None, defaults: dict | None = None,
                jointly: bool = False) -> Primitive:
    """A record for an elementwise primitive.

    - `operation`: the StableHLO or CHLO operation, or a lowering rule.
    - `derivatives[i](g, result, *operands, **params)`: the contribution of the tangent `g` of operand `i`.
    - `result(*dtypes, **params)`: the dtype of the result when it is not that of the operands.
    - `transpose(cotangent, *operands, **params)`: for operations linear in an operand.
    - `mixed`: operands may differ in dtype.
    - `sums`: in which operands it is linear, as of any record.
    - `defaults`: the parameters that calls leave out, and what equations say of them.
    - `jointly`: it is linear in its operands together, so that of tangents of all of them its own result is the tangent.
    """
    shown = shown_as or name

    def abstract(*operands, **params):
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

    def lower(ctx, *operands, **params):
        if attributes is None:
            return ctx.op(operation, operands)
        return ctx.op(operation, operands, **attributes(lowering.mlir, *ctx.avals_in, **params))

    def jvp(primals, tangents, **params):
        answer = primitive.bind(*primals, **params)
        if jointly and not any([type(g) is Zero for g in tangents]):
            return answer, primitive.bind(*tangents, **params)
        total = None
        for rule, g in zip(derivatives, tangents):
            if type(g) is Zero or rule is None:
                continue
            term = rule(g, answer, *primals, **params)
            if term is None:  # flat for these types or parameters
                continue
            shape = shape_of(answer)
            if shape_of(term) != shape:
                term = spread(term, shape)
            total = term if total is None else add_tangents(total, term)
        if total is None:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, total

    def batch(axis_size, operands, dims, **params):
        operands, dim = align_batches(axis_size, operands, dims)
        return primitive.bind(*operands, **params), dim

    primitive = (Primitive if defaults is None else _WithDefaults)(
        name, abstract=abstract, lower=operation if callable(operation) else lower, batch=batch,
        jvp=None if derivatives is None else jvp, transpose=transpose, broadcasts_scalars=True, shown_as=shown,
        sharding_rule=sharding_rules.elementwise, sums=sums)
    if defaults is not None:
        primitive.defaults = defaults
    return primitive


class _WithDefaults(Primitive):
    """One whose parameters are left out where they say nothing, so that both ways to call it are one operation."""

    def bind(self, *args, **params):
        return tracing.thread.trace.process(self, args, {} if params and params == self.defaults else params)


def _joint_size(m, n):
    return n if m == 1 else m


def shape_of(x) -> tuple:
    """`numpy.shape`, faster for arrays."""
    aval = getattr(x, "aval", None)
    return aval.shape if aval is not None else np.shape(x)


def spread(x, shape):
    """A scalar, or an array with dimensions of size 1, at the shape that an elementwise operation gives it."""
    if np.shape(x) == tuple(shape):
        return x
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=tuple(range(np.ndim(x))), sharding=None)


def add_tangents(x, y):
    """The sum of two tangents or cotangents of one type; of an extended dtype, and of values that consist of others, by its
    rules."""
    aval = tracing.aval_of(x)
    if aval.is_high:
        return aval.vspace_add(x, y)
    d = aval.dtype
    return add_any_p.bind(x, y) if isinstance(d, np.dtype) else d._rules.add(d, x, y)


def bilinear_jvp(primitive: Primitive) -> Callable:
    """The derivative of a product: linear in each of its two operands."""
    def jvp(primals, tangents, **params):
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


def summed_back(cotangent, aval):
    """The cotangent of an operand that was spread: the sum over the dimensions that it was spread along."""
    if type(cotangent) is Zero or aval.shape == shape_of(cotangent):
        return cotangent
    shape = shape_of(cotangent)
    along = range(len(shape)) if not aval.shape else [i for i, n in enumerate(shape) if n != aval.shape[i]]
    return reshape_to(reduce_sum_p.bind(cotangent, axes=tuple(along), out_sharding=None), aval.shape)


def align_batches(axis_size, operands, dims):
    """Bring elementwise operands to one batch dimension; scalars that are not batched stay scalars."""
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
    full = tuple(functools.reduce(_joint_size, along) for along in zip(*filter(None, shapes)))
    return [x if not np.ndim(x) or np.shape(x) == full else broadcast_in_dim_p.bind(
        x, shape=full, broadcast_dimensions=tuple(range(d is None, np.ndim(x) + (d is None))), sharding=None)
        for x, d in zip(operands, dims)], 0


def linear(*positions: int) -> Callable:
    """Decorator: a transpose rule that handles the operands at these positions one by one.

    The rule gets the cotangent and the operands and returns the cotangent of the one that is undefined.
    """

    def decorate(rule):
        def transpose(cotangent, *operands, **params):
            if type(cotangent) is Zero:
                return [Zero(x.aval) if is_undefined(x) else None for x in operands]
            return [summed_back(rule(i, cotangent, *operands, **params), x.aval) if is_undefined(x) else None
                    for i, x in enumerate(operands)]

        return transpose

    return decorate


# The sum of tangents or of cotangents.


def _lower_sum(ctx, x, y):
    """What is zero but for a few places, as the cotangent of an array of which a part is read, is added at these places alone:
    a loop that reads elements of an array does not go through all of it in each step of its derivative."""
    sparse = ctx.body.sparse
    for total, part, own in ((x, y, sparse.get(x)), (y, x, None)) if sparse else ():
        if part in sparse:
            for add_to in sparse[part]:
                total = add_to(total)
            if own:
                sparse[total] = own + sparse[part]
            return total
    return ctx.op("stablehlo.add", [x, y])


add_any_p = elementwise(
    "add_any", _lower_sum, "any", derivatives=(lambda g, z, x, y: g, lambda g, z, x, y: g),
    transpose=linear(0, 1)(lambda i, ct, x, y: ct), sums=of_all())
add_any_p.cost = "cheap"
