"""Convolutions: the primitive `conv_general_dilated`, and the functions that call it.

Both derivatives of a convolution are convolutions again, with strides and dilations exchanged. Groups (of features or of
batches) separate sums; the batching rule turns a batch dimension into groups, or merges it into the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from xlafront import lowering
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.specs import PartitionSpec, axes_of
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, entry_of
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim
from xlafront.core.primitive import Cost, MeshRules, Primitive, Traits
from xlafront.core.tangents import zeros_of
from xlafront.core.typing import DTypeLike, ShardingLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype, named_sharding
from xlafront.lax.creation import broadcasted_iota
from xlafront.lax.dot_products import canonical_precision, dot_general
from xlafront.lax.elementwise import eq
from xlafront.lax.elementwise_functions import convert_element_type
from xlafront.lax.families import bilinear_jvp
from xlafront.lax.shapes import inverse, permute, reshape_to, rev_p
from xlafront.lax.windows import named_padding
from xlafront.runtime.arrays import ArrayImpl as Array
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, is_symbolic, max_dim

if TYPE_CHECKING:
    from xlafront.core.typing import Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

Pads = Sequence[tuple[int, int]]


class ConvDimensionNumbers(NamedTuple):
    """Positions of the dimensions of the arrays of a convolution.

    Args:
        lhs_spec: Positions of the batch, feature and spatial dimensions of the input.
        rhs_spec: Positions of the output feature, input feature and spatial dimensions of the kernel.
        out_spec: Positions of the batch, feature and spatial dimensions of the result.
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


ConvGeneralDilatedDimensionNumbers: TypeAlias = None | ConvDimensionNumbers | tuple[str, str, str]


# Shapes


def _dilated_size(size: int, dilation: int) -> int:
    """Return the length of `size` elements with `dilation - 1` holes between them."""
    return (size - 1) * dilation + 1 if size else 0


def _out_size(size: int, window: int, stride: int, low: int, high: int) -> Any:
    return max_dim((size + low + high - window) // stride + 1, 0)


def padtype_to_pads(in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
                    ) -> list[tuple[int, int]]:
    """Return the numbers of padding elements for a padding given by name.

    Args:
        in_shape: Sizes of the spatial dimensions.
        window_shape: Sizes of the window, with its dilation.
        window_strides: Strides of the window. In all three, a single number applies to all dimensions.
        padding: `"VALID"` for no padding, `"SAME"` for the padding that gives `ceil(size / stride)` results, with the odd
            element at the end, `"SAME_LOWER"` for the same with the odd element at the beginning.

    Returns:
        A pair `(low, high)` for each dimension.

    Example:
        >>> lax.padtype_to_pads((8, 9), (3, 3), (2, 2), "SAME")
        [(0, 1), (1, 1)]
    """
    if not isinstance(padding, str):
        raise TypeError(f"padtype_to_pads needs 'VALID', 'SAME' or 'SAME_LOWER' as padding, got {padding!r}.")
    if padding.upper() == "VALID":
        return [(0, 0)] * len(in_shape)
    if isinstance(in_shape, (tuple, list)) and is_symbolic([*in_shape, *np.ravel(window_shape).tolist()]):
        return list(named_padding(padding, in_shape, window_shape, window_strides))
    sizes = np.broadcast_arrays(*(np.asarray(n, None if np.size(n) else int) for n in (in_shape, window_shape, window_strides)))
    if any(n.dtype.kind not in "iu" for n in sizes):
        raise TypeError(f"padtype_to_pads takes integers, got {in_shape}, {window_shape} and {window_strides}.")
    return list(named_padding(padding, *(n.tolist() for n in sizes)))


def conv_dimension_numbers(lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any) -> ConvDimensionNumbers:
    """Convert dimension numbers to `ConvDimensionNumbers`.

    Args:
        lhs_shape, rhs_shape: Shapes of the input and of the kernel, of equal rank.
        dimension_numbers: Three strings with a letter for each dimension of input, kernel and result, such as `("NHWC", "HWIO",
            "NHWC")`: N is the batch, C the features, O and I the output and input features of the kernel; all other characters
            are spatial dimensions. None means `("NC...", "OI...", "NC...")`. A `ConvDimensionNumbers` is returned unchanged.

    Returns:
        The positions of the dimensions.

    Example:
        >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
        ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(f"a convolution needs an input and a kernel of equal rank (ndim), got lhs of shape {tuple(lhs_shape)} "
                        f"and rhs of shape {tuple(rhs_shape)}.")
    rank = len(lhs_shape)
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(rank))] * 3)
    if not isinstance(dimension_numbers, (tuple, list)):
        raise TypeError(f"dimension_numbers of a convolution are three strings such as ('NHWC', 'HWIO', 'NHWC'), or None, got "
                        f"{type(dimension_numbers).__name__}: {dimension_numbers!r}.")
    if len(dimension_numbers) != 3 or not all(isinstance(s, str) for s in dimension_numbers):
        raise TypeError(f"dimension_numbers of a convolution are three strings, for input, kernel and result, got "
                        f"{dimension_numbers!r}.")
    for i, letters in enumerate(dimension_numbers):
        if len(letters) != rank:
            raise TypeError(f"dimension_numbers[{i}] = {letters!r} must have a letter for each of the {rank} dimensions of lhs "
                            f"{tuple(lhs_shape)} and rhs {tuple(rhs_shape)}.")
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the dimensions that three strings name.

    Args:
        dimension_numbers: Three strings for input, kernel and result, as in `conv_dimension_numbers`. Strides, padding and
            dilations follow the order of the spatial letters of the kernel.

    Returns:
        A tuple of positions for each of input, kernel and result.

    Example:
        >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
        ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]
    for i, (text, required) in enumerate(((lhs, "NC"), (rhs, "OI"), (out, "NC"))):
        if any(text.count(c) != 1 for c in required):
            raise TypeError(f"dimension_numbers[{i}] = {text!r} must contain {required[0]!r} and {required[1]!r} exactly once.")
        if len(set(text)) != len(text):
            raise TypeError(f"dimension_numbers[{i}] = {text!r} has duplicate letters; each names one dimension.")
        if {*text} - {*required} != {*spatial}:
            raise TypeError(f"dimension_numbers {tuple(dimension_numbers)} must have the same spatial letters in all three.")
    return tuple(tuple(text.index(c) for c in [*required, *spatial])
                 for text, required in ((lhs, "NC"), (rhs, "OI"), (out, "NC")))


def _explicit_pads(padding: Any, count: int) -> tuple[tuple[int, int], ...]:
    try:
        pads = tuple((as_size(low), as_size(high)) for low, high in padding)
    except (TypeError, ValueError):
        raise ValueError(f"padding of a convolution is 'SAME', 'VALID', 'SAME_LOWER' or a sequence of (low, high) pairs, got "
                         f"{padding!r}.") from None
    if len(pads) != count:
        raise TypeError(f"a convolution over {count} spatial dimensions needs {count} pairs of padding, got {len(pads)}.")
    return pads


def conv_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], strides: Sequence[int], pads: str | Pads,
                     batch_group_count: int = 1) -> tuple[int, ...]:
    """Return the shape of a convolution with dimensions in the order batch, features, spatial.

    Args:
        lhs_shape: Shape `(N, C, ...)` of the input.
        rhs_shape: Shape `(O, I, ...)` of the kernel, with its dilation.
        strides: Stride in each spatial dimension.
        pads: A pair `(low, high)` for each spatial dimension, or a name as in `padtype_to_pads`.
        batch_group_count: Number of groups into which the batch is divided.

    Returns:
        The shape of the result.

    Example:
        >>> lax.conv_shape_tuple((2, 3, 8, 9), (4, 3, 3, 3), (2, 2), "VALID")
        (2, 4, 3, 4)
    """
    sizes, windows = lhs_shape[2:], rhs_shape[2:]
    strides = tuple(strides)
    pads = padtype_to_pads(sizes, windows, strides, pads) if isinstance(pads, str) else _explicit_pads(pads, len(sizes))
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *[
        _out_size(n, k, s, low, high) for n, k, s, (low, high) in zip(sizes, windows, strides, pads)])


def _to_spec_order(shape: Sequence[int], spec: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[i] for i in spec)


def _from_spec_order(sizes: Sequence[Any], spec: Sequence[int]) -> tuple:
    """Reorder values listed in the order of a spec to the order of the dimensions; the inverse of `_to_spec_order`."""
    return tuple(sizes[i] for i in inverse(spec))


def conv_general_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int],
                             padding: str | Pads, dimension_numbers: Sequence[str]) -> tuple[int, ...]:
    """Return the shape of a convolution with dimensions in any order.

    Args:
        lhs_shape, rhs_shape: Shapes of the input and of the kernel.
        window_strides, padding: As in `conv_general_dilated`.
        dimension_numbers: Three strings, as in `conv_dimension_numbers`.

    Returns:
        The shape of the result.

    Example:
        >>> lax.conv_general_shape_tuple((2, 8, 9, 3), (3, 3, 3, 4), (1, 1), "SAME", ("NHWC", "HWIO", "NHWC"))
        (2, 8, 9, 4)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple(_to_spec_order(lhs_shape, lhs), _to_spec_order(rhs_shape, rhs), window_strides, padding)
    return _from_spec_order(shape, out)


def conv_transpose_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int],
                               padding: str | Pads, dimension_numbers: Sequence[str]) -> tuple[int, ...]:
    """Return the shape of `conv_transpose` with dimensions in any order.

    Args:
        lhs_shape, rhs_shape: Shapes of the input and of the kernel.
        window_strides, padding: Strides and padding, as in `conv_transpose`.
        dimension_numbers: Three strings, as in `conv_dimension_numbers`.

    Returns:
        The shape of the result.

    Example:
        >>> lax.conv_transpose_shape_tuple((2, 8, 9, 3), (3, 3, 3, 4), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
        (2, 16, 18, 4)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    sizes, windows = _to_spec_order(lhs_shape, lhs), _to_spec_order(rhs_shape, rhs)
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise ValueError(f"padding of a transposed convolution is 'SAME', 'VALID' or pairs of numbers, got {padding!r}.")
        padding = [_transposed_pads(k, s, padding) for k, s in zip(windows[2:], window_strides)]
    dilated = (*sizes[:2], *[_dilated_size(n, s) for n, s in zip(sizes[2:], window_strides)])
    return _from_spec_order(conv_shape_tuple(dilated, windows, (1,) * len(windows[2:]), padding), out)


# The primitive


def _check_parameters(x: ShapedArray, y: ShapedArray, window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
                      lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: ConvDimensionNumbers,
                      feature_group_count: int, batch_group_count: int) -> None:
    """Check the parameters, so that errors name the arguments of the function and not XLA's."""
    for spec, field in zip(dimension_numbers, ("lhs_spec", "rhs_spec", "out_spec")):
        if sorted(spec) != list(range(x.ndim)):
            raise ValueError(f"dimension_numbers of a convolution of rank {x.ndim} must name each dimension once, got "
                             f"{field}={tuple(spec)}.")
    spatial = x.ndim - 2
    for values, field in ((window_strides, "window_strides"), (padding, "padding"), (lhs_dilation, "lhs_dilation"),
                       (rhs_dilation, "rhs_dilation")):
        if len(values) != spatial:
            raise ValueError(f"conv_general_dilated over {spatial} spatial dimensions (shapes {x.shape} and {y.shape}) needs "
                             f"as many {field}, got {len(values)}: {tuple(values)}.")
    if any(s < 1 for s in window_strides):
        raise ValueError(f"window_strides of a convolution must be positive, got {tuple(window_strides)}.")
    if any(d < 1 for d in (*lhs_dilation, *rhs_dilation)):
        raise TypeError(f"dilations of a convolution must be positive, got lhs_dilation={tuple(lhs_dilation)} and "
                        f"rhs_dilation={tuple(rhs_dilation)}.")
    for count, field in ((feature_group_count, "feature_group_count"), (batch_group_count, "batch_group_count")):
        if count < 1:
            raise ValueError(f"{field} of a convolution must be a positive number, got {count}.")
    if feature_group_count > 1 and batch_group_count > 1:
        raise ValueError(f"a convolution cannot have groups of features and of batches, got "
                         f"feature_group_count={feature_group_count} and batch_group_count={batch_group_count}.")
    batch, features, *sizes = _to_spec_order(x.shape, dimension_numbers[0])
    out_features, in_features, *windows = _to_spec_order(y.shape, dimension_numbers[1])
    if features != in_features * feature_group_count:
        raise ValueError(f"a convolution of lhs {x.shape} with {features} features and rhs {y.shape} does not fit: the kernel "
                         f"takes {in_features} features in each of {feature_group_count} groups (feature_group_count).")
    for count, field in ((feature_group_count, "feature_group_count"), (batch_group_count, "batch_group_count")):
        if out_features % count:
            raise ValueError(f"the kernel of shape {y.shape} makes {out_features} features, which is not a multiple of "
                             f"{field}={count}.")
    if batch % batch_group_count:
        raise ValueError(f"batch_group_count={batch_group_count} does not divide the batch of {batch} in shape {x.shape}.")
    if any(k == 0 for k in windows):
        raise ValueError(f"a convolution needs a kernel with elements in each spatial dimension, got shape {y.shape}.")
    for n, d, (low, high) in zip(sizes, lhs_dilation, padding):
        if is_symbolic((low, high)) is False and _dilated_size(n, d) + min(low, 0) + min(high, 0) < 0:
            raise ValueError(f"negative padding {tuple(padding)} removes more elements than lhs of shape {x.shape} has.")


def _result_dtype(x: ShapedArray, y: ShapedArray, preferred: DTypeLike | None) -> tuple[Any, bool]:
    if x.dtype != y.dtype:
        raise errors.incompatible_dtypes("conv_general_dilated", [x.dtype, y.dtype], "Convert one with x.astype(...).")
    if preferred is None:
        return x.dtype, x.weak_type and y.weak_type
    d, result = x.dtype, np.dtype(preferred)
    fits = (dtypes.is_integer(d) and (dtypes.is_integer(result) or dtypes.is_float(result))
            or dtypes.is_float(d) and dtypes.is_float(result) or dtypes.is_complex(d) and dtypes.is_complex(result))
    if not fits and d != result:
        raise TypeError(f"conv_general_dilated of dtype {d} cannot have preferred_element_type={result}: integers can be "
                        f"accumulated in integers or floats, floats in floats, complex numbers in complex numbers.")
    if fits and dtypes.is_integer(d) == dtypes.is_integer(result) and result.itemsize < d.itemsize:
        raise TypeError(f"preferred_element_type={result} of a convolution is narrower than its operands of dtype {d}.")
    return result, False


def _abstract(x: ShapedArray, y: ShapedArray, *, window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
              lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: ConvDimensionNumbers,
              feature_group_count: int, batch_group_count: int, precision: Any, preferred_element_type: np.dtype | None,
              out_sharding: NamedSharding | None) -> ShapedArray:
    if x.ndim != y.ndim or x.ndim < 2:
        raise ValueError(f"a convolution needs an input and a kernel of equal rank (ndim), 2 at least, got shapes {x.shape} "
                         f"and {y.shape}.")
    for d in (x.dtype, y.dtype):
        check_dtype("conv_general_dilated", "int float complex bool", d)
    _check_parameters(x, y, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
                      batch_group_count)
    d, weak = _result_dtype(x, y, preferred_element_type)
    batch, _, *sizes = _to_spec_order(x.shape, dimension_numbers[0])
    out_features, _, *windows = _to_spec_order(y.shape, dimension_numbers[1])
    shape = (batch // batch_group_count, out_features, *[
        _out_size(_dilated_size(n, ld), _dilated_size(k, rd), s, low, high)
        for n, ld, k, rd, s, (low, high) in zip(sizes, lhs_dilation, windows, rhs_dilation, window_strides, padding)])
    return ShapedArray(_from_spec_order(shape, dimension_numbers[2]), d, weak)


def _spec_text(spec: Sequence[int], named: str) -> str:
    letters: list = [None] * len(spec)
    for label, i in zip((*named, *map(str, range(len(spec) - 2))), spec):
        letters[i] = label
    return f"[{', '.join(letters)}]"


def _lower(ctx: RuleContext, x: ir.Value, y: ir.Value, *, window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
           lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: ConvDimensionNumbers,
           feature_group_count: int, batch_group_count: int, precision: Any, preferred_element_type: np.dtype | None,
           out_sharding: NamedSharding | None) -> ir.Value:
    m = lowering.mlir
    lhs, rhs, out = dimension_numbers
    attributes = {
        "dimension_numbers": m.attribute(
            f"#stablehlo.conv<{_spec_text(lhs, 'bf')}x{_spec_text(rhs, 'oi')}->{_spec_text(out, 'bf')}>"),
        "feature_group_count": m.i64(feature_group_count), "batch_group_count": m.i64(batch_group_count),
        "window_strides": m.i64s(window_strides), "lhs_dilation": m.i64s(lhs_dilation), "rhs_dilation": m.i64s(rhs_dilation)}
    flat = [n for pair in padding for n in pair]
    name, pads = "stablehlo.convolution", []
    if ctx.has_computed_sizes(flat):
        name = "stablehlo.dynamic_conv"
        pads = [ctx.op("stablehlo.reshape", [ctx.vector(flat, np.int32)], [((len(padding), 2), np.int32)])]
    else:
        attributes["padding"] = m.dense_i64(flat, (len(padding), 2))
    if type(precision) is tuple:
        attributes["precision_config"] = m.array(m.attribute(f"#stablehlo<precision {p.name}>") for p in precision)
    a, b = ctx.avals_in
    result = ctx.aval_out
    if not dtypes.is_complex(a.dtype) or ctx.platform == "tpu":
        return ctx.op(name, [x, y, *pads], **attributes)
    # Only TPUs have kernels for complex numbers. On other platforms three real convolutions compute a complex one.
    real = np.dtype(np.float32 if a.dtype == np.complex64 else np.float64)
    total = np.dtype(np.float32 if result.dtype == np.complex64 else np.float64)

    def component(name: str, v: ir.Value, aval: ShapedArray) -> ir.Value:
        return ctx.op(f"stablehlo.{name}", [v], [(aval.shape, real)])

    def combine(name: str, u: ir.Value, v: ir.Value, shape: tuple, d: np.dtype) -> ir.Value:
        return ctx.op(f"stablehlo.{name}", [u, v], [(shape, d)])

    def product(u: ir.Value, v: ir.Value) -> ir.Value:
        return ctx.op(name, [u, v, *pads], [(result.shape, total)], **attributes)

    xr, xi, yr, yi = component("real", x, a), component("imag", x, a), component("real", y, b), component("imag", y, b)
    common = product(combine("add", xr, xi, a.shape, real), yr)
    re = combine("subtract", common, product(xi, combine("add", yr, yi, b.shape, real)), result.shape, total)
    im = combine("add", common, product(xr, combine("subtract", yi, yr, b.shape, real)), result.shape, total)
    return ctx.op("stablehlo.complex", [re, im])


# Derivatives


def _cotangent_sharding(aval: ShapedArray, *others: ShapedArray) -> NamedSharding | None:
    """Return the sharding of a cotangent over explicit axes: that of its primal."""
    explicit = [a for a in (aval, *others) if a.explicit_sharding is not None]
    if not explicit:
        return None
    entries = aval.explicit_sharding.spec.partitions if aval.explicit_sharding is not None else (None,) * aval.ndim
    return NamedSharding(explicit[0].explicit_sharding.mesh, PartitionSpec(*entries))


def _as_cotangent(x: Array, ct: Array) -> Array:
    """Convert an operand to the dtype of the cotangent, which is wider if `preferred_element_type` was."""
    return convert_element_type(x, tracing.aval_of(ct).dtype) if tracing.aval_of(x).dtype != tracing.aval_of(ct).dtype else x


def _regroup(x: Array, source: int, target: int, groups: int) -> Array:
    """Move `groups` groups from the outside of one dimension to the outside of another."""
    if groups == 1:
        return x
    return _merge_dim(_split_dim(x, source, 1, groups), source, target, 1)


def _merge_dim(x: Array, dim: int, axis: int, groups: int) -> Array:
    """Merge dimension `dim` into `axis` (counted without `dim`): inside of its `groups` groups, outside of the rest."""
    x = move_dim(x, dim, axis)
    shape = np.shape(x)
    size, n = shape[axis], shape[axis + 1]
    if groups > 1:
        x = reshape_to(x, (*shape[:axis], size, groups, n // groups, *shape[axis + 2:]))
        x = move_dim(x, axis, axis + 1)
    return reshape_to(x, (*shape[:axis], size * n, *shape[axis + 2:]))


def _split_dim(x: Array, axis: int, groups: int, size: int) -> Array:
    """Split a dimension of the given size off `axis` and put it in front; the inverse of `_merge_dim`."""
    shape = np.shape(x)
    n = shape[axis] // size
    if groups > 1:
        x = reshape_to(x, (*shape[:axis], groups, size, n // groups, *shape[axis + 1:]))
        x = move_dim(x, axis, axis + 1)
    return reshape_to(x, (*shape[:axis], size, n, *shape[axis + 1:]))


def _transpose_lhs(ct: Array, y: Array, x: ShapedArray, *, window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
                   lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: ConvDimensionNumbers,
                   feature_group_count: int, batch_group_count: int, precision: Any, **_: Any) -> Array:
    """Return the cotangent of the input: convolve the result's cotangent, dilated by the strides, with the reversed kernel."""
    lhs, rhs, out = dimension_numbers
    y = _as_cotangent(y, ct)
    sizes, windows = _to_spec_order(x.shape, lhs)[2:], _to_spec_order(np.shape(y), rhs)[2:]
    pads = []
    for n, ld, k, rd, m, s, (low, _) in zip(sizes, lhs_dilation, windows, rhs_dilation, _to_spec_order(np.shape(ct), out)[2:],
                                            window_strides, padding):
        window = _dilated_size(k, rd)
        low_pad = window - 1 - low
        pads.append((low_pad, _dilated_size(n, ld) + window - 1 - _dilated_size(m, s) - low_pad))
    groups = max(feature_group_count, batch_group_count)
    y = _regroup(y, rhs[0], rhs[1], groups)
    if rhs[2:]:
        y = rev_p.bind(y, dimensions=tuple(rhs[2:]))
    result = conv_general_dilated_p.bind(
        ct, y, window_strides=lhs_dilation, padding=tuple(pads), lhs_dilation=window_strides, rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out, (rhs[1], rhs[0], *rhs[2:]), lhs), feature_group_count=groups,
        batch_group_count=1, precision=precision, preferred_element_type=None,
        out_sharding=_cotangent_sharding(x, tracing.aval_of(ct), tracing.aval_of(y)))
    result = _regroup(result, lhs[1], lhs[0], batch_group_count)
    return result if tracing.aval_of(result).dtype == x.dtype else convert_element_type(result, x.dtype)


def _transpose_rhs(ct: Array, x: Array, y: ShapedArray, *, window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
                   lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: ConvDimensionNumbers,
                   feature_group_count: int, batch_group_count: int, precision: Any, **_: Any) -> Array:
    """Return the cotangent of the kernel: convolve the input with the result's cotangent, with batch and features exchanged."""
    lhs, rhs, out = dimension_numbers
    x = _as_cotangent(x, ct)
    sizes, windows = _to_spec_order(np.shape(x), lhs)[2:], _to_spec_order(y.shape, rhs)[2:]
    pads = []
    for n, ld, k, rd, m, s, (low, _) in zip(sizes, lhs_dilation, windows, rhs_dilation, _to_spec_order(np.shape(ct), out)[2:],
                                            window_strides, padding):
        pads.append((low, _dilated_size(k, rd) + _dilated_size(m, s) - _dilated_size(n, ld) - low - 1))
    result = conv_general_dilated_p.bind(
        x, ct, window_strides=rhs_dilation, padding=tuple(pads), lhs_dilation=lhs_dilation, rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers((lhs[1], lhs[0], *lhs[2:]), (out[1], out[0], *out[2:]),
                                               (rhs[1], rhs[0], *rhs[2:])),
        feature_group_count=batch_group_count, batch_group_count=feature_group_count, precision=precision,
        preferred_element_type=None, out_sharding=_cotangent_sharding(y, tracing.aval_of(ct), tracing.aval_of(x)))
    return result if tracing.aval_of(result).dtype == y.dtype else convert_element_type(result, y.dtype)


def _transpose(ct: Tangent, x: Any, y: Any, **params: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(a.aval) if is_undefined(a) else None for a in (x, y)]
    if 0 in np.shape(ct):  # XLA does not accept empty kernels
        return [zeros_of(a.aval) if is_undefined(a) else None for a in (x, y)]
    if is_undefined(x):
        return [_transpose_lhs(ct, y, x.aval, **params), None]
    return [None, _transpose_rhs(ct, x, y.aval, **params)]


# Batching


def _empty_batch(operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
    """Return the convolutions of no arrays: there is nothing to group."""
    avals = [tracing.aval_of(x) for x in operands]
    shapes = [a.shape if d is None else (*a.shape[:d], *a.shape[d + 1:]) for a, d in zip(avals, dims)]
    one = _abstract(*[ShapedArray(shape, a.dtype) for shape, a in zip(shapes, avals)], **params)
    return broadcast_in_dim_p.bind(one.dtype.type(0), shape=(0, *one.shape), broadcast_dimensions=(), sharding=None), 0


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimension_numbers: ConvDimensionNumbers,
           feature_group_count: int, batch_group_count: int, out_sharding: NamedSharding | None, **params: Any
           ) -> tuple[Any, Any]:
    if not axis_size:
        return _empty_batch(operands, dims, dimension_numbers=dimension_numbers, feature_group_count=feature_group_count,
                            batch_group_count=batch_group_count, out_sharding=out_sharding, **params)
    (x, y), (dx, dy) = operands, dims
    lhs, rhs, out = dimension_numbers
    entry = next((e for e in (entry_of(tracing.aval_of(v), d) for v, d in zip(operands, dims)) if e is not None), None)
    inner = 1  # groups outside of the batch dimension
    if dx is not None and dy is not None:  # more groups: of batches if there are some, of features otherwise
        x = _merge_dim(x, dx, lhs[0] if batch_group_count > 1 else lhs[1], 1)
        y = _merge_dim(y, dy, rhs[0], 1)
        axis = out[1]
        if batch_group_count > 1:
            batch_group_count *= axis_size
        else:
            feature_group_count *= axis_size
    elif dx is not None:
        x, axis = _merge_dim(x, dx, lhs[0], batch_group_count), out[0]
    else:
        inner = max(feature_group_count, batch_group_count)
        y, axis = _merge_dim(y, dy, rhs[0], inner), out[1]
    if out_sharding is not None and entry is not None:
        entries = [*out_sharding.spec, *[None] * (len(out) - len(out_sharding.spec))]
        entries[axis] = (*axes_of(entry), *axes_of(entries[axis]))
        out_sharding = NamedSharding(out_sharding.mesh, PartitionSpec(*entries))
    result = conv_general_dilated_p.bind(x, y, dimension_numbers=dimension_numbers, feature_group_count=feature_group_count,
                                         batch_group_count=batch_group_count, out_sharding=out_sharding, **params)
    return _split_dim(result, axis, inner, axis_size), axis


conv_general_dilated_p = Primitive(
    "conv_general_dilated", abstract=_abstract, lower=_lower, transpose=_transpose, batch=_batch, jvp=bilinear_jvp,
    mesh=MeshRules(sharding_rules.convolution), traits=Traits(cost=Cost.HEAVY, contracts=True))


# Public functions


def _integers(values: Any, name: str) -> tuple[int, ...]:
    try:
        return tuple(as_size(v) for v in values)
    except TypeError:
        raise TypeError(f"{name} of a convolution is a sequence of integers, got {values!r}.") from None


@library(static=("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers", "feature_group_count",
                      "batch_group_count", "precision", "preferred_element_type", "out_sharding"))
def _conv_kernel(lhs: Array, rhs: Array, window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
                 lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: ConvDimensionNumbers,
                 feature_group_count: int, batch_group_count: int, precision: Any, preferred_element_type: np.dtype | None,
                 out_sharding: NamedSharding | None) -> Array:
    return conv_general_dilated_p.bind(
        lhs, rhs, window_strides=window_strides, padding=padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation,
        dimension_numbers=dimension_numbers, feature_group_count=feature_group_count, batch_group_count=batch_group_count,
        precision=precision, preferred_element_type=preferred_element_type, out_sharding=out_sharding)


@library(static=None)
def conv_general_dilated(lhs: Array, rhs: Array, window_strides: Sequence[int], padding: str | Pads,
                         lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
                         dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1,
                         precision: Any = None, preferred_element_type: DTypeLike | None = None,
                         out_sharding: ShardingLike = None) -> Array:
    """Compute a convolution over any number of spatial dimensions, without flipping the kernel.

    Args:
        lhs, rhs: Input and kernel, of equal dtype and rank.
        window_strides: Stride of the kernel in each spatial dimension.
        padding: `"SAME"`, `"SAME_LOWER"`, `"VALID"`, or a pair `(low, high)` for each spatial dimension. Negative padding
            removes elements.
        lhs_dilation, rhs_dilation: Distance between neighboring elements of the input and of the kernel, in each spatial
            dimension. Default: 1.
        dimension_numbers: Positions of the dimensions, as in `conv_dimension_numbers`.
        feature_group_count: Number of groups of features that are convolved separately. A depthwise convolution has as many
            groups as input features.
        batch_group_count: Number of groups of the batch, each of which is convolved with its share of the output features of
            the kernel.
        precision: As in `dot_general`.
        preferred_element_type: dtype of the accumulation and of the result.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        The convolution.

    Example:
        >>> x, kernel = xnp.ones((1, 8, 8, 3)), xnp.ones((3, 3, 3, 4))
        >>> lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")).shape
        (1, 4, 4, 4)
    """
    shapes = tracing.aval_of(lhs, "conv_general_dilated").shape, tracing.aval_of(rhs, "conv_general_dilated").shape
    numbers = conv_dimension_numbers(*shapes, dimension_numbers)
    strides = _integers(window_strides, "window_strides")
    ones = (1,) * max(len(shapes[0]) - 2, 0)
    input_dilation = ones if lhs_dilation is None else _integers(lhs_dilation, "lhs_dilation")
    kernel_dilation = ones if rhs_dilation is None else _integers(rhs_dilation, "rhs_dilation")
    if isinstance(padding, str):
        if any(d != 1 for d in input_dilation):
            raise ValueError(f"padding={padding!r} is not defined for lhs_dilation={input_dilation}. Pass pairs of numbers, or "
                             f"use conv_transpose.")
        if any(d < 1 for d in kernel_dilation):
            raise TypeError(f"rhs_dilation must be positive, got {kernel_dilation}.")
        windows = [_dilated_size(shapes[1][i], d) for i, d in zip(numbers.rhs_spec[2:], kernel_dilation)]
        if not len(strides) == len(windows) == len(numbers.lhs_spec) - 2:
            raise ValueError(f"conv_general_dilated over {len(numbers.lhs_spec) - 2} spatial dimensions (shapes {shapes[0]} "
                             f"and {shapes[1]}) needs as many window_strides and rhs_dilation, got {strides} and "
                             f"{kernel_dilation}.")
        if any(s < 1 for s in strides):
            raise ValueError(f"window_strides of a convolution must be positive, got {strides}.")
        pads = tuple(padtype_to_pads([shapes[0][i] for i in numbers.lhs_spec[2:]], windows, strides, padding))
    else:
        pads = _explicit_pads(padding, len(ones))
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_user_dtype(preferred_element_type, "conv_general_dilated")
    return _conv_kernel(lhs, rhs, strides, pads, input_dilation, kernel_dilation, numbers, as_size(feature_group_count),
                        as_size(batch_group_count), canonical_precision(precision), preferred_element_type,
                        named_sharding(out_sharding, "conv_general_dilated"))


@library(static=None)
def conv(lhs: Array, rhs: Array, window_strides: Sequence[int], padding: str, precision: Any = None,
         preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute a convolution of an input `(N, C, ...)` with a kernel `(O, I, ...)`.

    Args:
        lhs, rhs, window_strides, padding, precision, preferred_element_type: As in `conv_general_dilated`.

    Returns:
        The convolution.

    Example:
        >>> lax.conv(xnp.ones((1, 3, 8, 8)), xnp.ones((4, 3, 3, 3)), (1, 1), "VALID").shape
        (1, 4, 6, 6)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision,
                                preferred_element_type=preferred_element_type)


@library(static=None)
def conv_with_general_padding(lhs: Array, rhs: Array, window_strides: Sequence[int], padding: str | Pads,
                              lhs_dilation: Sequence[int] | None, rhs_dilation: Sequence[int] | None, precision: Any = None,
                              preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute a convolution as `conv` does, with dilations and any padding.

    Args:
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation: As in `conv_general_dilated`.
        precision, preferred_element_type: As in `conv_general_dilated`.

    Returns:
        The convolution.

    Example:
        >>> lax.conv_with_general_padding(xnp.ones((1, 3, 8)), xnp.ones((4, 3, 3)), (1,), [(1, 1)], None, (2,)).shape
        (1, 4, 6)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
                                preferred_element_type=preferred_element_type)


def _transposed_pads(window: int, stride: int, padding: str) -> tuple[int, int]:
    """Return the padding of the dilated input that corresponds to the named padding of the convolution to transpose."""
    total = window + stride - 2
    if padding == "SAME":
        low = window - 1 if stride > window - 1 else -(-total // 2)
    else:
        total, low = total + max(window - stride, 0), window - 1
    return low, total - low


_TRANSPOSED_NUMBERS = {2: ("NC", "IO", "NC"), 3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"),
                       5: ("NHWDC", "HWDIO", "NHWDC")}


@library(static=None)
def conv_transpose(lhs: Array, rhs: Array, strides: Sequence[int], padding: str | Pads,
                   rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None, transpose_kernel: bool = False,
                   precision: Any = None, preferred_element_type: DTypeLike | None = None,
                   use_consistent_padding: bool = False) -> Array:
    """Compute a transposed convolution ("deconvolution"): a convolution of an input that is dilated by `strides`.

    Args:
        lhs, rhs: Input and kernel.
        strides: Factor by which each spatial dimension grows.
        padding: `"SAME"` or `"VALID"`, the padding of the corresponding convolution, or a pair `(low, high)` for each spatial
            dimension.
        rhs_dilation: Distance between neighboring elements of the kernel. Default: 1.
        dimension_numbers: As in `conv_dimension_numbers`. Default: features last, `("NHWC", "HWIO", "NHWC")`.
        transpose_kernel: If True, flip the kernel and exchange its features, as the gradient of the convolution with this
            kernel does.
        precision, preferred_element_type: As in `conv_general_dilated`.
        use_consistent_padding: If True, pairs in `padding` are the padding of the corresponding convolution, otherwise the
            padding of the dilated input.

    Returns:
        The transposed convolution.

    Example:
        >>> lax.conv_transpose(xnp.ones((1, 4, 4, 3)), xnp.ones((3, 3, 3, 5)), (2, 2), "SAME").shape
        (1, 8, 8, 5)
    """
    shapes = tracing.aval_of(lhs, "conv_transpose").shape, tracing.aval_of(rhs, "conv_transpose").shape
    if len(shapes[0]) != len(shapes[1]):
        raise TypeError(f"conv_transpose needs an input and a kernel of equal rank (ndim), got shapes {shapes[0]} and "
                        f"{shapes[1]}.")
    if dimension_numbers is None:
        if len(shapes[0]) not in _TRANSPOSED_NUMBERS:
            raise ValueError(f"conv_transpose has default dimension_numbers for up to 3 spatial dimensions, got shape "
                             f"{shapes[0]}. Pass dimension_numbers.")
        dimension_numbers = _TRANSPOSED_NUMBERS[len(shapes[0])]
    numbers = conv_dimension_numbers(*shapes, dimension_numbers)
    strides = _integers(strides, "strides")
    spatial = len(shapes[0]) - 2
    if len(strides) != spatial:
        raise ValueError(f"conv_transpose over {spatial} spatial dimensions needs as many strides, got {strides}.")
    kernel_dilation = (1,) * spatial if rhs_dilation is None else _integers(rhs_dilation, "rhs_dilation")
    windows = [_dilated_size(shapes[1][i], d) for i, d in zip(numbers.rhs_spec[2:], kernel_dilation)]
    if padding in ("SAME", "VALID"):
        padding = [_transposed_pads(k, s, padding) for k, s in zip(windows, strides)]
    elif use_consistent_padding and not isinstance(padding, str):
        padding = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(windows, _explicit_pads(padding, spatial))]
    if transpose_kernel:
        if spatial:
            rhs = rev_p.bind(rhs, dimensions=tuple(numbers.rhs_spec[2:]))
        o, i = numbers.rhs_spec[:2]
        order = list(range(len(shapes[1])))
        order[o], order[i] = i, o
        rhs = permute(rhs, order)
    return conv_general_dilated(lhs, rhs, (1,) * spatial, padding, strides, kernel_dilation, numbers, precision=precision,
                                preferred_element_type=preferred_element_type)


def conv_general_dilated_patches(lhs: Array, filter_shape: Sequence[int], window_strides: Sequence[int], padding: str | Pads,
                                 lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
                                 dimension_numbers: Any = None, precision: Any = None,
                                 preferred_element_type: DTypeLike | None = None) -> Array:
    """Extract the patches of the input that a kernel of a given shape sees, as features.

    The elements of a patch of one input feature are successive features of the result.

    Args:
        lhs: The input.
        filter_shape: Spatial shape of the kernel.
        window_strides, padding, lhs_dilation, rhs_dilation: As in `conv_general_dilated`.
        dimension_numbers, precision, preferred_element_type: As in `conv_general_dilated`.

    Returns:
        An array with `prod(filter_shape)` features for each feature of the input.

    Example:
        >>> lax.conv_general_dilated_patches(xnp.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")[0]
        Array([[0., 1., 2.],
               [1., 2., 3.]], dtype=float32)
    """
    window = _integers(filter_shape, "filter_shape")
    shape = np.shape(lhs)
    if len(window) != len(shape) - 2:
        raise TypeError(f"conv_general_dilated_patches of an input of shape {shape} needs a filter_shape for its "
                        f"{len(shape) - 2} spatial dimensions, got {window}.")
    numbers = conv_dimension_numbers(shape, shape, dimension_numbers)
    features, size, d = shape[numbers.lhs_spec[1]], math.prod(window), tracing.aval_of(lhs).dtype
    identity = eq(broadcasted_iota(np.int32, (size, size), 0), broadcasted_iota(np.int32, (size, size), 1))
    kernel = broadcast_in_dim_p.bind(convert_element_type(identity, d), shape=(features, size, size),
                                     broadcast_dimensions=(1, 2), sharding=None)
    kernel = permute(reshape_to(kernel, (features * size, 1, *window)), inverse(numbers.rhs_spec))
    return conv_general_dilated(lhs, kernel, window_strides, padding, lhs_dilation, rhs_dilation, numbers, features,
                                precision=precision, preferred_element_type=preferred_element_type)


def conv_general_dilated_local(lhs: Array, rhs: Array, window_strides: Sequence[int], padding: str | Pads,
                               filter_shape: Sequence[int], lhs_dilation: Sequence[int] | None = None,
                               rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None, precision: Any = None
                               ) -> Array:
    """Compute a convolution with a separate kernel for each position of the result.

    Args:
        lhs: The input.
        rhs: The kernels, with the features of `conv_general_dilated_patches` as input features and the spatial dimensions of
            the result.
        window_strides, padding: As in `conv_general_dilated`.
        filter_shape: Spatial shape of one kernel.
        lhs_dilation, rhs_dilation, dimension_numbers, precision: As in `conv_general_dilated`.

    Returns:
        The convolution.

    Example:
        >>> lax.conv_general_dilated_local(xnp.ones((1, 1, 4)), xnp.arange(6.0).reshape(1, 2, 3), (1,), "VALID", (2,))
        Array([[[3., 5., 7.]]], dtype=float32)
    """
    numbers = conv_dimension_numbers(np.shape(lhs), np.shape(rhs), dimension_numbers)
    precision = canonical_precision(precision)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, numbers,
        precision[0] if type(precision) is tuple else precision)
    lhs_spec, rhs_spec, out = numbers
    product = dot_general(patches, rhs, (((out[1],), (rhs_spec[1],)), (out[2:], rhs_spec[2:])), precision)
    spatial = len(out) - 2  # the product has the spatial dimensions first, then the batch, then the features
    return permute(product, _from_spec_order((spatial, spatial + 1, *range(spatial)), out))
