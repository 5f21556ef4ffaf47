"""`dot_general` and the products that are defined by it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xlafront import lowering, tuning
from xlafront.base import config
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.specs import PartitionSpec, axes_of
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, entry_of, with_entry
from xlafront.core.primitive import Cost, MeshRules, Primitive, Traits
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype, named_sharding
from xlafront.lax.dot_algorithms import DotAlgorithm, algorithm_text, preset, preset_types, result_types
from xlafront.lax.families import bilinear_jvp
from xlafront.lax.shapes import inverse, permute
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.core.typing import Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


class _NamedEnum(enum.Enum):
    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


class Precision(_NamedEnum):
    """Precision of matrix products and convolutions; higher precision is slower on hardware that offers a choice."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class _Algorithm(_NamedEnum):
    @property
    def accumulation_type(self) -> Any:
        """The type of the accumulation; None for any."""
        total = preset_types(self.name).accumulation
        return total and total.type

    @property
    def supported_lhs_types(self) -> tuple | None:
        """The types of operands that are not converted, first the one to which others are; None for any."""
        operands = preset_types(self.name).operands
        return operands and tuple([d.type for d in operands])

    supported_rhs_types = supported_lhs_types

    def supported_output_types(self, lhs_dtype: DTypeLike, rhs_dtype: DTypeLike) -> tuple | None:
        """Return the types that a product of arrays of these dtypes can have; None for any."""
        results = result_types(self.name, dtypes.dtype(lhs_dtype), dtypes.dtype(rhs_dtype))
        return results and tuple([d.type for d in results])


DotAlgorithmPreset = _Algorithm("DotAlgorithmPreset", ("DEFAULT", *config.DOT_ALGORITHMS))  # type: ignore[misc,call-arg,arg-type]
DotAlgorithmPreset.__doc__ = """Named algorithms of matrix products, for `precision`. CPUs support few of them.

    A name lists the dtypes to which the operands are rounded, the dtype of the accumulation, and the number of products of
    rounded components (`X3`, `X6`, `X9`) that replace one product of higher precision.

    Example:
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


def canonical_precision(precision: Any) -> Any:
    """Return a precision argument (None, a name, a `Precision`, a pair, or an algorithm) as None, a pair of `Precision` or an
    algorithm."""
    if precision is None:
        precision = config.default_matmul_precision.value
        if precision is None:
            return None
    if isinstance(precision, (list, tuple)) and len(precision) == 2:
        return tuple([(canonical_precision(p) or (Precision.DEFAULT,))[0] for p in precision])
    if isinstance(precision, Precision):
        return (precision, precision)
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str):
        if precision.lower() in _PRECISIONS:
            named = _PRECISIONS[precision.lower()]
            return (named, named)
        if precision.upper() in DotAlgorithmPreset.__members__:  # type: ignore[attr-defined]
            return DotAlgorithmPreset[precision.upper()]
    raise ValueError(f"there is no matmul precision {precision!r}; use one of {', '.join(_PRECISIONS)}, a "
                     f"Precision, a pair of them, or a DotAlgorithmPreset.")


def _product_rank(d: np.dtype) -> tuple:
    """Return the sort key of a dtype in the promotion of the operands of a product, which no other operation uses."""
    if d == dtypes.bool_:
        return (0,)
    if dtypes.is_integer(d):
        return (1, dtypes.itemsize_bits(d), not dtypes.is_unsigned(d))
    if dtypes.is_float(d):
        return (2, float(dtypes.finfo(d).max))
    return (3, dtypes.itemsize_bits(d))


def product_dtype(x: ShapedArray, y: ShapedArray) -> tuple[Any, bool]:
    """Return the default dtype and weak type of a product: the wider of the operands' dtypes, for any promotion setting."""
    weak = x.weak_type and y.weak_type
    return (x.dtype if x.dtype == y.dtype else max(x.dtype, y.dtype, key=_product_rank)), weak


def _bits(d: np.dtype) -> int:
    return 1 if d == dtypes.bool_ else dtypes.itemsize_bits(dtypes.to_real(d))


def _check_dimensions(side: str, aval: ShapedArray, contracting: Sequence[int], batch: Sequence[int]) -> None:
    for kind, dims in (("contracting", contracting), ("batch", batch)):
        for d in dims:
            if not 0 <= d < aval.ndim:
                raise TypeError(f"dot_general got {d} as one of the {kind} dimensions of {side}, which must be between 0 and "
                                f"{aval.ndim - 1}, and not be negative: its shape is {aval.shape}.")
        if len(set(dims)) != len(dims):
            raise TypeError(f"dot_general got a dimension of {side} twice in its {kind} dimensions {tuple(dims)}: they must be "
                            f"distinct.")
    if both := set(contracting) & set(batch):
        raise TypeError(f"dot_general got dimension {min(both)} of {side} both as a contracting and as a batch dimension: "
                        f"these must be disjoint.")


def _abstract(x: ShapedArray, y: ShapedArray, *, dimension_numbers: tuple, precision: Any,
              preferred_element_type: np.dtype | None, out_sharding: NamedSharding | None) -> ShapedArray:
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
                    f"The {kind} dimensions {i} and {j} must have equal sizes, got {x.shape[i]} and {y.shape[j]}.")
    shape = (*[x.shape[i] for i in xb], *[n for i, n in enumerate(x.shape) if i not in xc and i not in xb],
             *[n for i, n in enumerate(y.shape) if i not in yc and i not in yb])
    d, weak = product_dtype(x, y)
    if preferred_element_type is not None:
        preferred = np.dtype(preferred_element_type)
        if not dtypes.is_float(d) and _bits(preferred) < _bits(d) and not isinstance(precision, DotAlgorithmPreset):
            raise TypeError(f"dot_general got preferred_element_type={preferred} for operands of dtypes {x.dtype} and "
                            f"{y.dtype}: it must not be narrower than the dtype of the accumulation, {d}.")
        d = preferred
    return ShapedArray(tuple(shape), d, weak)


def _ints(values: Sequence[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _lower(ctx: RuleContext, x: ir.Value, y: ir.Value, *, dimension_numbers: tuple, precision: Any,
           preferred_element_type: np.dtype | None, out_sharding: NamedSharding | None) -> ir.Value:
    m = lowering.mlir
    (xc, yc), (xb, yb) = dimension_numbers
    attributes = {"dot_dimension_numbers": m.attribute(
        f"#stablehlo.dot<lhs_batching_dimensions = {_ints(xb)}, rhs_batching_dimensions = {_ints(yb)}, "
        f"lhs_contracting_dimensions = {_ints(xc)}, rhs_contracting_dimensions = {_ints(yc)}>")}
    if (isinstance(precision, DotAlgorithm) or isinstance(precision, DotAlgorithmPreset) and (
            precision.name not in _ON_CPUS)) and ctx.platform == "cpu":
        raise ValueError(f"The precision {precision!r} of a product is not supported on CPUs. Use a Precision, or None.")
    if precision is None or type(precision) is tuple:
        free = _free_dimensions(ctx.avals_in[0].ndim, xc, xb), _free_dimensions(ctx.avals_in[1].ndim, yc, yb)
        dimensions = (*dimension_numbers, free)
        if tuning.are_products_small(ctx, dimensions):
            return tuning.lower_small_products(ctx, x, y, dimensions)
    a, b, out = ctx.avals_in[0].dtype, ctx.avals_in[1].dtype, ctx.aval_out
    computed = out.dtype
    named = isinstance(precision, DotAlgorithmPreset) and precision is not DotAlgorithmPreset.DEFAULT
    if named:
        algorithm, a, b, computed = preset(precision.name, a, b, computed)
        attributes["algorithm"] = m.attribute(algorithm_text(algorithm))
    elif isinstance(precision, DotAlgorithm):
        attributes["algorithm"] = m.attribute(algorithm_text(precision))
    elif type(precision) is tuple:
        attributes["precision_config"] = m.array(
            m.attribute(f"#stablehlo<precision {p.name}>") for p in precision)
    if not named and computed.kind != "c" and "c" in (a.kind, b.kind):
        computed = a if a.kind == "c" else b  # the result is its real component
    # XLA's CPU backend has no kernels for mixed dtypes or for floats of 8 bits or less: convert to the dtype of the result.
    if not named and (a != b or (a.itemsize == 1 and a.kind == "V" and ctx.platform == "cpu")):
        a = b = computed
    if a.itemsize == b.itemsize == 1 and dtypes.is_integer(a) and dtypes.is_integer(b) and ctx.platform == "cuda":
        # XLA's kernels for products of 8-bit integers return twice the product, or crash the process if the result is no int32.
        ctx.module_context.tuning.add(tuning.PRODUCTS_OF_BYTES)
        if not a == b == np.int8 or computed != np.int32:
            if computed.itemsize < 4:
                computed = np.dtype(np.float32 if dtypes.is_float(computed) else np.int32)
            a = b = computed
    x, y = (v if aval.dtype == d else ctx.convert(v, aval.shape, d) for v, aval, d in zip((x, y), ctx.avals_in, (a, b)))
    if computed == out.dtype:
        return ctx.op("stablehlo.dot_general", [x, y], **attributes)
    return ctx.convert(ctx.op("stablehlo.dot_general", [x, y], [(out.shape, computed)], **attributes), out.shape, out.dtype)


def _free_dimensions(rank: int, *used: Sequence[int]) -> list[int]:
    return [i for i in range(rank) if not any(i in u for u in used)]


def _contracted_axes(x: ShapedArray, y: ShapedArray, dimension_numbers: tuple) -> frozenset:
    """Return the mesh axes that shard the contracting dimensions of both operands in the same way."""
    (xc, yc), _ = dimension_numbers
    if x.explicit_sharding is None or y.explicit_sharding is None:
        return frozenset()
    entries = [x.explicit_sharding.spec.partitions[i] for i in xc]
    if entries != [y.explicit_sharding.spec.partitions[j] for j in yc]:
        return frozenset()
    return frozenset([a for e in entries for a in axes_of(e)])


def unreduced_product_sharding(x: ShapedArray, y: ShapedArray, dimension_numbers: tuple, axes: frozenset
                               ) -> NamedSharding | None:
    """Return the sharding of a product that is unreduced over its contracted mesh axes; None unless `axes` contains all of
    these."""
    summed = _contracted_axes(x, y, dimension_numbers)
    if not summed or not summed <= axes:
        return None
    (xc, yc), (xb, yb) = dimension_numbers
    xs, ys = x.explicit_sharding.spec.partitions, y.explicit_sharding.spec.partitions
    entries = [ys[j] if xs[i] is None else xs[i] for i, j in zip(xb, yb)]
    entries += [e for i, e in enumerate(xs) if i not in (*xc, *xb)] + [e for j, e in enumerate(ys) if j not in (*yc, *yb)]
    used: set = set()
    for i, e in enumerate(entries):  # an axis that shards dimensions of both operands shards only one of the result
        entries[i] = None if used & {*axes_of(e)} else e
        used |= {*axes_of(e)}
    return NamedSharding(x.explicit_sharding.mesh, PartitionSpec(*entries, unreduced=summed))


def _transpose_one(ct: Array, y: Array, x: ShapedArray, dimension_numbers: tuple, precision: Any, swap: bool) -> Array:
    """Return the cotangent of the operand `x`: contract the cotangent of the result with the other operand."""
    (xc, yc), (xb, yb) = dimension_numbers
    y_rank, dtype = np.ndim(y), x.dtype
    x_free, y_free = _free_dimensions(x.ndim, xc, xb), _free_dimensions(y_rank, yc, yb)
    ct_batch = tuple(range(len(xb)))
    if swap:
        ct_y = tuple(range(len(xb), len(xb) + len(y_free)))
    else:
        ct_y = tuple(range(np.ndim(ct) - len(y_free), np.ndim(ct)))
    # The result has the batch dimensions, then the free dimensions of x, then the contracted dimensions in the order of y.
    contracted_in_y_order = [xc[yc.index(j)] for j in sorted(yc)]
    order = [*xb, *x_free, *contracted_in_y_order]
    sharding = None
    explicit = x.explicit_sharding or tracing.aval_of(ct).explicit_sharding or tracing.aval_of(y).explicit_sharding
    if explicit is not None:  # shard the cotangent like x
        entries = x.explicit_sharding.spec.partitions if x.explicit_sharding is not None else (None,) * x.ndim
        sharding = NamedSharding(explicit.mesh, PartitionSpec(*[entries[i] for i in order]))
    numbers = ((ct_y, tuple(y_free)), (ct_batch, tuple(yb)))
    if x.explicit_sharding is not None and x.explicit_sharding.spec.reduced:
        unreduced = unreduced_product_sharding(
            tracing.aval_of(ct), tracing.aval_of(y), numbers, x.explicit_sharding.spec.reduced)
        sharding = sharding if unreduced is None else unreduced
    product = dot_general_p.bind(ct, y, dimension_numbers=numbers, precision=precision, preferred_element_type=dtype,
                                 out_sharding=sharding)
    return permute(product, inverse(order))


def _transpose(ct: Tangent, x: Any, y: Any, *, dimension_numbers: tuple, precision: Any,
               preferred_element_type: np.dtype | None, out_sharding: NamedSharding | None) -> list[Any]:
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


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimension_numbers: tuple, **params: Any) -> tuple[Any, Any]:
    (x, y), (dx, dy) = operands, dims
    out_sharding = params.pop("out_sharding")  # of one batch element
    entry = next((e for e in (entry_of(tracing.aval_of(v), d) for v, d in zip(operands, dims)) if e is not None), None)
    (xc, yc), (xb, yb) = dimension_numbers

    def shifted(axes: Sequence[int], d: int | None) -> tuple[int, ...]:
        return tuple(a + (a >= d) for a in axes) if d is not None else tuple(axes)

    if dx is not None and dy is not None:
        numbers = ((shifted(xc, dx), shifted(yc, dy)), ((dx, *shifted(xb, dx)), (dy, *shifted(yb, dy))))
        return dot_general_p.bind(x, y, dimension_numbers=numbers, out_sharding=with_entry(out_sharding, 0, entry), **params), 0
    numbers = ((shifted(xc, dx), shifted(yc, dy)), (shifted(xb, dx), shifted(yb, dy)))
    (xc, yc), (xb, yb) = numbers
    if dx is not None:
        position = len(xb) + _free_dimensions(np.ndim(x), xc, xb).index(dx)
    else:
        position = np.ndim(x) - len(xc) + _free_dimensions(np.ndim(y), yc, yb).index(dy)
    out_sharding = with_entry(out_sharding, position, entry)
    return dot_general_p.bind(x, y, dimension_numbers=numbers, out_sharding=out_sharding, **params), position


dot_general_p = Primitive(
    "dot_general", abstract=_abstract, lower=_lower, transpose=_transpose, batch=_batch, jvp=bilinear_jvp,
    mesh=MeshRules(sharding_rule=sharding_rules.dot_general, summed_axes=lambda avals, params: _contracted_axes(
    avals[0], avals[1], params["dimension_numbers"])), traits=Traits(cost=Cost.HEAVY, contracts=True))


@library(static=("dimension_numbers", "precision", "preferred_element_type", "out_sharding"), name="dot_general")
def _kernel(lhs: Array, rhs: Array, dimension_numbers: tuple, precision: Any, preferred_element_type: np.dtype | None,
            out_sharding: NamedSharding | None = None) -> Array:
    return dot_general_p.bind(lhs, rhs, dimension_numbers=dimension_numbers, precision=precision,
                              preferred_element_type=preferred_element_type, out_sharding=out_sharding)


# A precision for both operands, one for each, or an algorithm.
PrecisionLike: TypeAlias = (
    None | str | Precision | tuple[str, str] | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset)
# ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))
DotDimensionNumbers: TypeAlias = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


@library(static=None)
def dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: DotDimensionNumbers, precision: PrecisionLike = None,
                preferred_element_type: DTypeLike | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Compute a product of two arrays that contracts some dimensions and batches others.

    The result has the batch dimensions, then the remaining dimensions of `lhs`, then those of `rhs`.

    Args:
        lhs, rhs: Arrays, which may differ in dtype.
        dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, each a sequence of dimensions.
        precision: A `Precision`, its name, a pair of them, a `DotAlgorithm` or a `DotAlgorithmPreset`. Default:
            `default_matmul_precision`.
        preferred_element_type: dtype of the accumulation and of the result. Default: the wider of the operands' dtypes.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        The product.

    Example:
        >>> lax.dot_general(xnp.ones((5, 2, 3)), xnp.ones((5, 3, 4)), (((2,), (1,)), ((0,), (0,)))).shape
        (5, 2, 4)
    """
    try:
        (xc, yc), (xb, yb) = (tuple([tuple([a.__index__() for a in axes]) for axes in pair]) for pair in dimension_numbers)
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"dot_general needs ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)) as "
                         f"dimension_numbers, each of them a sequence of dimensions, got {dimension_numbers!r}.") from None
    element_type = None if preferred_element_type is None else dtypes.check_user_dtype(preferred_element_type, "dot_general")
    return _kernel(lhs, rhs, ((xc, yc), (xb, yb)), canonical_precision(precision), element_type,
                   named_sharding(out_sharding, "dot_general"))


@library(static=None)
def dot(lhs: ArrayLike, rhs: ArrayLike, *, dimension_numbers: DotDimensionNumbers | None = None,
        precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
        out_sharding: ShardingLike = None) -> Array:
    """Compute the product of two vectors, of a matrix and a vector, or of two matrices.

    Args:
        lhs, rhs: Arrays of rank 1 or 2; of any rank if `dimension_numbers` is given.
        dimension_numbers: Dimension numbers as in `dot_general`. Default: contract the last dimension of `lhs` with the first
            of `rhs`.
        precision, preferred_element_type, out_sharding: As in `dot_general`.

    Returns:
        The product.

    Example:
        >>> lax.dot(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 10]))
        Array([21, 43], dtype=int32)
    """
    if dimension_numbers is not None:
        return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding)
    a, b = np.shape(lhs), np.shape(rhs)
    if not (1 <= len(a) <= 2 and 1 <= len(b) <= 2 and a[-1] == b[0]):
        raise ValueError(f"dot without dimension_numbers takes vectors and matrices whose contracting dimensions, the last of "
                         f"lhs and the first of rhs, agree: got incompatible shapes {a} and {b}. Pass dimension_numbers, or "
                         f"use numpy.matmul.")
    return dot_general(lhs, rhs, (((len(a) - 1,), (0,)), ((), ())), precision, preferred_element_type,
                       out_sharding=out_sharding)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Compute matrix products over leading batch dimensions.

    Args:
        lhs, rhs: Arrays of equal rank, at least 2.
        precision: As in `dot_general`.

    Returns:
        The matrix products.

    Note:
        Unlike in `xnp.matmul`, the batch dimensions must be equal; they do not broadcast.

    Example:
        >>> lax.batch_matmul(xnp.ones((2, 1, 3)), xnp.ones((2, 3, 1))).shape
        (2, 1, 1)
    """
    a, b = np.shape(lhs), np.shape(rhs)
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"batch_matmul takes arrays of equal rank, which must be at least 2D, got shapes {a} and {b}.")
    n = len(a)
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)), precision)
