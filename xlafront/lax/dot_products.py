"""`dot_general`: products of arrays summed over shared dimensions."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, entry_of, with_entry
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype, named_sharding
from xlafront.lax.dot_algorithms import DotAlgorithm, algorithm_text, preset
from xlafront.lax.families import bilinear_jvp
from xlafront.lax.shapes import inverse, permute
from xlafront.runtime import config
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.specs import PartitionSpec, axes_of
from xlafront.staging.library import lax_function, written_once


class _Named(enum.Enum):
    def __repr__(self):
        return f"{type(self).__name__}.{self.name}"

    def __str__(self):
        return self.name


class Precision(_Named):
    """How exactly the hardware multiplies; more exact is slower where it matters."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


DotAlgorithmPreset = _Named("DotAlgorithmPreset", ("DEFAULT", *config.DOT_ALGORITHMS))  # type: ignore[misc,call-arg,arg-type]
DotAlgorithmPreset.__doc__ = """Named algorithms of products, as a `precision`, for backends that have them: CPUs have few.

    A name says to which dtypes the two operands are rounded, in which dtype products are summed, and how many products of such
    numbers (`X3`, `X6`, `X9`) stand in for one of more exact ones.

    >>> lax.dot(xnp.ones(2), xnp.ones(2), precision=lax.DotAlgorithmPreset.F32_F32_F32)
    Array(2., dtype=float32)
    """
_ON_CPUS = frozenset(("DEFAULT", "F16_F16_F16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "F32_F32_F32",
                      "F64_F64_F64"))


_PRECISIONS = {
    "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
}


def canonical_precision(precision):
    """A precision as given by users: None, a name, a `Precision`, a pair, or an algorithm."""
    if precision is None:
        precision = config.default_matmul_precision.value
        if precision is None:
            return None
    if isinstance(precision, (list, tuple)) and len(precision) == 2:
        both = [(canonical_precision(p) or (Precision.DEFAULT,))[0] for p in precision]
        return tuple(both)
    if isinstance(precision, Precision):
        return (precision, precision)
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str):
        if precision.lower() in _PRECISIONS:
            found = _PRECISIONS[precision.lower()]
            return (found, found)
        if precision.upper() in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision.upper()]
    raise ValueError(f"there is no matmul precision {precision!r}; it can be one of {', '.join(_PRECISIONS)}, a "
                     f"Precision, a pair of them, or a DotAlgorithmPreset.")


def _rank_among_products(d) -> tuple:
    """Where a dtype stands in the order by which products of two dtypes choose one: it is that of no other operation."""
    if d == dtypes.bool_:
        return (0,)
    if dtypes.is_integer(d):
        return (1, dtypes.itemsize_bits(d), not dtypes.is_unsigned(d))
    if dtypes.is_float(d):
        return (2, float(dtypes.finfo(d).max))
    return (3, dtypes.itemsize_bits(d))


def product_dtype(x, y) -> tuple[Any, bool]:
    """Dtype and weakness of a product whose type nobody prefers: the wider of the two, whatever the promotion setting."""
    weak = x.weak_type and y.weak_type
    return (x.dtype if x.dtype == y.dtype else max(x.dtype, y.dtype, key=_rank_among_products)), weak


def _bits(d) -> int:
    return 1 if d == dtypes.bool_ else dtypes.itemsize_bits(dtypes.to_real(d))


def _check_dimensions(side: str, aval, contracting, batch) -> None:
    for kind, dims in (("contracting", contracting), ("batch", batch)):
        for d in dims:
            if not 0 <= d < aval.ndim:
                raise TypeError(f"dot_general got {d} as one of the {kind} dimensions of {side}, which must lie between 0 and "
                                f"{aval.ndim - 1}, and not be negative: its shape is {aval.shape}.")
        if len(set(dims)) != len(dims):
            raise TypeError(f"dot_general got a dimension of {side} twice among its {kind} dimensions {tuple(dims)}: they must "
                            f"be distinct.")
    if both := set(contracting) & set(batch):
        raise TypeError(f"dot_general got dimension {min(both)} of {side} both as a contracting and as a batch dimension: "
                        f"these must be disjoint.")


def _abstract(x, y, *, dimension_numbers, precision, preferred_element_type, out_sharding):
    (xc, yc), (xb, yb) = dimension_numbers
    for d in (x.dtype, y.dtype):
        check_dtype("dot_general", "int float complex bool", d)
    _check_dimensions("lhs", x, xc, xb)
    _check_dimensions("rhs", y, yc, yb)
    for kind, a, b in (("contracting", xc, yc), ("batch", xb, yb)):
        if len(a) != len(b):
            raise TypeError(f"dot_general needs as many {kind} dimensions on both sides, got {a} and {b}.")
        for i, j in zip(a, b):
            if x.shape[i] != y.shape[j]:
                raise errors.incompatible_shapes(
                    "dot_general", [("lhs", x.shape), ("rhs", y.shape)],
                    f"The {kind} dimensions {i} and {j} must have one size, and have {x.shape[i]} and {y.shape[j]}.")
    shape = (*[x.shape[i] for i in xb], *[n for i, n in enumerate(x.shape) if i not in xc and i not in xb],
             *[n for i, n in enumerate(y.shape) if i not in yc and i not in yb])
    d, weak = product_dtype(x, y)
    if preferred_element_type is not None:
        wanted = np.dtype(preferred_element_type)
        if not dtypes.is_float(d) and _bits(wanted) < _bits(d) and not isinstance(precision, DotAlgorithmPreset):
            raise TypeError(f"dot_general got preferred_element_type={wanted} for operands of dtypes {x.dtype} and {y.dtype}: "
                            f"it must not be narrower than what it accumulates, {d}.")
        d = wanted
    return ShapedArray(tuple(shape), d, weak)


def _ints(values) -> str:
    return f"[{', '.join(map(str, values))}]"


def _lower(ctx, x, y, *, dimension_numbers, precision, preferred_element_type, out_sharding):
    m = lowering.mlir
    (xc, yc), (xb, yb) = dimension_numbers
    attributes = {"dot_dimension_numbers": m.attribute(
        f"#stablehlo.dot<lhs_batching_dimensions = {_ints(xb)}, rhs_batching_dimensions = {_ints(yb)}, "
        f"lhs_contracting_dimensions = {_ints(xc)}, rhs_contracting_dimensions = {_ints(yc)}>")}
    if (isinstance(precision, DotAlgorithm) or isinstance(precision, DotAlgorithmPreset) and (
            precision.name not in _ON_CPUS)) and ctx.platform == "cpu":
        raise ValueError(f"The precision {precision!r} of a product is not supported on CPUs. Use a Precision, or None.")
    a, b, out = ctx.avals_in[0].dtype, ctx.avals_in[1].dtype, ctx.aval_out
    given = out.dtype
    named = isinstance(precision, DotAlgorithmPreset) and precision is not DotAlgorithmPreset.DEFAULT
    if named:
        algorithm, a, b, given = preset(precision.name, a, b, given)
        attributes["algorithm"] = m.attribute(algorithm_text(algorithm))
    elif isinstance(precision, DotAlgorithm):
        attributes["algorithm"] = m.attribute(algorithm_text(precision))
    elif type(precision) is tuple:
        attributes["precision_config"] = m.array(
            m.attribute(f"#stablehlo<precision {p.name}>") for p in precision)
    if not named and given.kind != "c" and "c" in (a.kind, b.kind):
        given = a if a.kind == "c" else b  # the result is the real part of it
    # XLA's CPU backend has no kernels for products of mixed or very small types: it computes in the result's.
    if not named and (a != b or (a.itemsize == 1 and a.kind == "V" and ctx.platform == "cpu")):
        a = b = given
    if a.itemsize == b.itemsize == 1 and dtypes.is_integer(a) and dtypes.is_integer(b) and ctx.platform == "cuda":
        # XLA's own kernels for products of 8-bit integers give twice the product, or end the process where the result
        # is no int32.
        ctx.module_context.multiplies_bytes = True
        if not a == b == np.int8 or given != np.int32:
            if given.itemsize < 4:
                given = np.dtype(np.float32 if dtypes.is_float(given) else np.int32)
            a = b = given
    x, y = (v if aval.dtype == d else ctx.convert(v, aval.shape, d) for v, aval, d in zip((x, y), ctx.avals_in, (a, b)))
    if given == out.dtype:
        return ctx.op("stablehlo.dot_general", [x, y], **attributes)
    return ctx.convert(ctx.op("stablehlo.dot_general", [x, y], [(out.shape, given)], **attributes), out.shape, out.dtype)


def _rest(rank, *used):
    return [i for i in range(rank) if not any(i in u for u in used)]


def _summed_by_product(x, y, dimension_numbers) -> frozenset:
    """The axes that split the dimensions that a product sums, where they split those of both operands alike."""
    (xc, yc), _ = dimension_numbers
    if x.explicit_sharding is None or y.explicit_sharding is None:
        return frozenset()
    entries = [x.explicit_sharding.spec.partitions[i] for i in xc]
    if entries != [y.explicit_sharding.spec.partitions[j] for j in yc]:
        return frozenset()
    return frozenset([a for e in entries for a in axes_of(e)])


def open_product(x, y, dimension_numbers, axes: frozenset) -> NamedSharding | None:
    """The sharding of a product that leaves the sums over these axes open; None for one that sums over none of them."""
    summed = _summed_by_product(x, y, dimension_numbers)
    if not summed or not summed <= axes:
        return None
    (xc, yc), (xb, yb) = dimension_numbers
    xs, ys = x.explicit_sharding.spec.partitions, y.explicit_sharding.spec.partitions
    entries = [ys[j] if xs[i] is None else xs[i] for i, j in zip(xb, yb)]
    entries += [e for i, e in enumerate(xs) if i not in (*xc, *xb)] + [e for j, e in enumerate(ys) if j not in (*yc, *yb)]
    used: set = set()
    for i, e in enumerate(entries):  # an axis that splits dimensions of both operands splits one of the result
        entries[i] = None if used & {*axes_of(e)} else e
        used |= {*axes_of(e)}
    return NamedSharding(x.explicit_sharding.mesh, PartitionSpec(*entries, unreduced=summed))


def _transpose_one(ct, y, x, dimension_numbers, precision, swap):
    """The cotangent of one side: contract the result's cotangent with the other side."""
    (xc, yc), (xb, yb) = dimension_numbers
    y_rank, dtype = np.ndim(y), x.dtype
    x_kept, y_kept = _rest(x.ndim, xc, xb), _rest(y_rank, yc, yb)
    ct_batch = tuple(range(len(xb)))
    if swap:
        ct_y = tuple(range(len(xb), len(xb) + len(y_kept)))
    else:
        ct_y = tuple(range(np.ndim(ct) - len(y_kept), np.ndim(ct)))
    # The result has the batch dimensions, then x's kept ones, then y's contracted ones in their own order.
    contracted_in_y_order = [xc[yc.index(j)] for j in sorted(yc)]
    order = [*xb, *x_kept, *contracted_in_y_order]
    split = None
    explicit = x.explicit_sharding or tracing.aval_of(ct).explicit_sharding or tracing.aval_of(y).explicit_sharding
    if explicit is not None:  # as the other side is
        entries = x.explicit_sharding.spec.partitions if x.explicit_sharding is not None else (None,) * x.ndim
        split = NamedSharding(explicit.mesh, PartitionSpec(*[entries[i] for i in order]))
    numbers = ((ct_y, tuple(y_kept)), (ct_batch, tuple(yb)))
    if x.explicit_sharding is not None and x.explicit_sharding.spec.reduced:
        unreduced = open_product(tracing.aval_of(ct), tracing.aval_of(y), numbers, x.explicit_sharding.spec.reduced)
        split = split if unreduced is None else unreduced
    product = dot_general_p.bind(ct, y, dimension_numbers=numbers, precision=precision, preferred_element_type=dtype,
                                 out_sharding=split)
    return permute(product, inverse(order))


def _transpose(ct, x, y, *, dimension_numbers, precision, preferred_element_type, out_sharding):
    if type(ct) is Zero:
        return [Zero(a.aval) if is_undefined(a) else None for a in (x, y)]
    (xc, yc), (xb, yb) = dimension_numbers
    flipped = precision[::-1] if type(precision) is tuple else precision
    if is_undefined(x):
        result = _transpose_one(ct, y, x.aval, dimension_numbers, precision, False)
        return [result, None]
    swapped = ((yc, xc), (yb, xb))
    result = _transpose_one(ct, x, y.aval, swapped, flipped, True)
    return [None, result]


def _batch(axis_size, operands, dims, *, dimension_numbers, **params):
    (x, y), (dx, dy) = operands, dims
    wanted = params.pop("out_sharding")  # it is that of an element
    split = next((e for e in (entry_of(tracing.aval_of(v), d) for v, d in zip(operands, dims)) if e is not None), None)
    (xc, yc), (xb, yb) = dimension_numbers

    def shifted(axes, d):
        return tuple(a + (a >= d) for a in axes) if d is not None else tuple(axes)

    if dx is not None and dy is not None:
        numbers = ((shifted(xc, dx), shifted(yc, dy)), ((dx, *shifted(xb, dx)), (dy, *shifted(yb, dy))))
        return dot_general_p.bind(x, y, dimension_numbers=numbers, out_sharding=with_entry(wanted, 0, split), **params), 0
    numbers = ((shifted(xc, dx), shifted(yc, dy)), (shifted(xb, dx), shifted(yb, dy)))
    (xc, yc), (xb, yb) = numbers
    if dx is not None:
        where = len(xb) + _rest(np.ndim(x), xc, xb).index(dx)
    else:
        where = np.ndim(x) - len(xc) + _rest(np.ndim(y), yc, yb).index(dy)
    return dot_general_p.bind(x, y, dimension_numbers=numbers, out_sharding=with_entry(wanted, where, split), **params), where


dot_general_p = Primitive("dot_general", abstract=_abstract, lower=_lower, transpose=_transpose, batch=_batch,
                          sharding_rule=sharding_rules.dot_general, cost="heavy")
dot_general_p.jvp = bilinear_jvp(dot_general_p)
dot_general_p.contracts = True
dot_general_p.summed_axes = lambda avals, params: _summed_by_product(
    avals[0], avals[1], params["dimension_numbers"])


@lax_function(static=("dimension_numbers", "precision", "preferred_element_type", "out_sharding"), name="dot_general")
def _kernel(lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=None):
    return dot_general_p.bind(lhs, rhs, dimension_numbers=dimension_numbers, precision=precision,
                              preferred_element_type=preferred_element_type, out_sharding=out_sharding)


# One for both operands or one for each, or how they are multiplied.
PrecisionLike: TypeAlias = (
    None | str | Precision | tuple[str, str] | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset)
# Contracting dimensions of both, and batch dimensions of both.
DotDimensionNumbers: TypeAlias = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


@written_once
def dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: DotDimensionNumbers, precision: PrecisionLike = None,
                preferred_element_type: DTypeLike | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Multiply two arrays and sum over some of their dimensions, side by side over others.

    The result has the batch dimensions, then the remaining ones of `lhs`, then those of `rhs`.

    - `lhs`, `rhs`: arrays, which may differ in dtype.
    - `dimension_numbers`: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, each a sequence of dimensions.
    - `precision`: a `Precision`, its name, a pair of them, or a `DotAlgorithmPreset`; None: `default_matmul_precision`.
    - `preferred_element_type`: the dtype to sum in and to return.
    - `out_sharding`: how the result is split over explicit mesh axes.

    >>> lax.dot_general(xnp.ones((5, 2, 3)), xnp.ones((5, 3, 4)), (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2, 4)
    """
    try:
        (xc, yc), (xb, yb) = (tuple([tuple([a.__index__() for a in axes]) for axes in pair]) for pair in dimension_numbers)
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"dot_general needs ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)) as "
                         f"dimension_numbers, each of them a sequence of dimensions, got {dimension_numbers!r}.") from None
    wanted = None if preferred_element_type is None else dtypes.check_user_dtype(preferred_element_type, "dot_general")
    return _kernel(lhs, rhs, ((xc, yc), (xb, yb)), canonical_precision(precision), wanted,
                   named_sharding(out_sharding, "dot_general"))


@written_once
def dot(lhs: ArrayLike, rhs: ArrayLike, *, dimension_numbers: DotDimensionNumbers | None = None,
        precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
        out_sharding: ShardingLike = None) -> Array:
    """The product of two vectors, of a matrix and a vector, or of two matrices.

    - `lhs`, `rhs`: arrays of rank 1 or 2; of any with `dimension_numbers`.
    - `dimension_numbers`: makes it `dot_general`.
    - `precision`, `preferred_element_type`, `out_sharding`: as of `dot_general`.

    >>> lax.dot(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 10]))
    Array([21, 43], dtype=int32)
    """
    if dimension_numbers is not None:
        return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding)
    a, b = np.shape(lhs), np.shape(rhs)
    if not (1 <= len(a) <= 2 and 1 <= len(b) <= 2 and a[-1] == b[0]):
        raise ValueError(f"dot without dimension_numbers takes vectors and matrices whose contracting dimensions, the last of "
                         f"lhs and the first of rhs, agree: got incompatible shapes {a} and {b}. Say with dimension_numbers "
                         f"which dimensions to contract, or use xnp.matmul.")
    return dot_general(lhs, rhs, (((len(a) - 1,), (0,)), ((), ())), precision, preferred_element_type,
                       out_sharding=out_sharding)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Matrix products over leading batch dimensions; unlike those of `xnp.matmul`, these must be equal.

    - `lhs`, `rhs`: arrays of one rank, 2 or more.
    - `precision`: as of `dot_general`.

    >>> lax.batch_matmul(xnp.ones((2, 1, 3)), xnp.ones((2, 3, 1))).shape
    (2, 1, 1)
    """
    a, b = np.shape(lhs), np.shape(rhs)
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"batch_matmul takes arrays of equal rank, which must be at least 2D, got shapes {a} and {b}.")
    n = len(a)
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)), precision)
