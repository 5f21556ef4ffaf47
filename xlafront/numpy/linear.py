"""Products of arrays: matmul, dot, tensordot, einsum and others. Each is one or more `dot_general`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.base.specs import PartitionSpec, axes_of
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import str_short
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim, reshard_p, transpose_p, with_weakness
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.arguments import named_sharding
from xlafront.lax.creation import broadcasted_iota
from xlafront.lax.dot_products import canonical_precision, dot_general, dot_general_p, unreduced_product_sharding
from xlafront.lax.elementwise import as_type, conj_, constant_like, eq, mul, where
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.shapes import canonical_axis, expand_dims, reduce_sum_p, reshape, reshape_to, squeeze, squeeze_p
from xlafront.numpy.manipulation import moveaxis, stack
from xlafront.numpy.promotion import broadcast_to_common, check_arraylike, promote_dtypes, unwrap, unwrap_node, within_setting
from xlafront.numpy.ufuncs import INLINE
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape, known


def _operands_and_dtype(name, args, preferred):
    """Return the unwrapped operands, the accumulation dtype (None if it is that of all operands), and True if the
    result is weakly typed.

    Operands of different dtypes are multiplied without conversion, since converted copies would take memory and time.
    """
    check_arraylike(name, *args)
    operands = [unwrap(x) for x in args]
    if preferred is not None:
        return operands, dtypes.check_user_dtype(preferred, f"numpy.{name}"), False
    d, weak = dtypes.lattice_result_type(*operands)
    if any([tracing.aval_of(x).dtype != d for x in operands]):
        return list(map(within_setting, operands)), d, weak
    return operands, None, weak


def contract(x, y, contracting, batch=((), ()), precision=None, preferred=None, unreduced=frozenset()):
    """Return the `dot_general` of two arrays."""
    return _product(x, y, (tuple(map(tuple, contracting)), tuple(map(tuple, batch))), precision, preferred, unreduced)


def _with_out_sharding(name, out_sharding, kernel, arrays, *static):
    """Compute a product with the sharding `out_sharding`, which may leave sums over mesh axes unreduced. Hot."""
    if out_sharding is None:
        return kernel(*arrays, *static)
    sharding = named_sharding(out_sharding, name)
    if sharding is None or not sharding.spec.unreduced:
        return with_out_sharding(name, sharding, kernel, arrays, *static)
    result = kernel(*arrays, *static, sharding.spec.unreduced)
    explicit = tracing.aval_of(result).explicit_sharding
    if explicit is None or explicit.spec.unreduced != sharding.spec.unreduced:
        raise errors.ShardingTypeError(
            f"{name} of {', '.join(str_short(tracing.aval_of(x)) for x in tree.leaves(arrays))} cannot leave sums unreduced as "
            f"out_sharding={sharding.spec} requires: the summed dimensions must be sharded over exactly these axes in both "
            f"operands. Name other axes, or reshard the operands first.")
    return reshard_p.bind(result, dst_sharding=sharding)


@library(static=("precision", "preferred", "unreduced"), name="matmul")
def _matmul_kernel(a, b, precision=None, preferred=None, unreduced=frozenset()):
    precision = canonical_precision(precision)
    (a, b), preferred, weak = _operands_and_dtype("matmul", (a, b), preferred)
    sa, sb = np.shape(a), np.shape(b)
    if not sa or not sb:
        raise ValueError(f"matmul needs arrays of at least one dimension, got shapes {sa} and {sb}. Use * for scalars.")
    vector_a, vector_b = len(sa) == 1, len(sb) == 1
    contracting_b = len(sb) - (1 if vector_b else 2)
    if sa[-1] != sb[contracting_b]:
        raise errors.incompatible_shapes("matmul", [("", sa), ("", sb)], (
            f"Contracting dimensions must have the same size: the last dimension of the first ({sa[-1]}) must equal the "
            f"{'only' if vector_b else 'second to last'} dimension of the second ({sb[contracting_b]})."))
    batch_a, batch_b = (() if vector_a else sa[:-2]), (() if vector_b else sb[:-2])
    if not batch_a or not batch_b:
        result = contract(a, b, ((len(sa) - 1,), (contracting_b,)), precision=precision, preferred=preferred,
                          unreduced=unreduced)
        if batch_b:
            # The free dimensions of the second operand (batch, columns) come last: move the rows of the first between them.
            rows = 0 if vector_a else 1
            rank = np.ndim(result)
            columns = rank - rows - len(batch_b)
            order = (*range(rows, rows + len(batch_b)), *range(rows), *range(rank - columns, rank))
            result = _transpose(result, order)
        return with_weakness(result, weak)
    try:
        batch = common_shape(batch_a, batch_b)
    except ValueError:
        raise ValueError(f"matmul got incompatible shapes for broadcasting: {sa}, {sb}. The leading dimensions must "
                         "broadcast.") from None
    # Batch dimensions of size 1 are dropped instead of broadcast: those of the other operand are free dimensions of the
    # product. Dimensions of size 1 in both operands are restored at the end.
    rank = len(batch)
    pad_a, pad_b = rank - len(batch_a), rank - len(batch_b)
    keep_a = [i for i in range(len(batch_a)) if batch_a[i] != 1]
    keep_b = [i for i in range(len(batch_b)) if batch_b[i] != 1]
    both = [i for i in range(rank) if i - pad_a in keep_a and i - pad_b in keep_b]
    a = reshape_to(a, (*[batch_a[i] for i in keep_a], *sa[len(batch_a):]))
    b = reshape_to(b, (*[batch_b[i] for i in keep_b], *sb[len(batch_b):]))
    in_a = {i + pad_a: position for position, i in enumerate(keep_a)}
    in_b = {i + pad_b: position for position, i in enumerate(keep_b)}
    result = contract(a, b, ((np.ndim(a) - 1,), (len(keep_b),)), ([in_a[i] for i in both], [in_b[i] for i in both]),
                      precision, preferred, unreduced)
    # Dimensions of the product: common batch, other batch dimensions of a, rows, other batch dimensions of b, columns.
    labels = [*both, *[i for i in sorted(in_a) if i not in both], "rows", *[i for i in sorted(in_b) if i not in both],
              "columns"]
    target = [*range(rank), "rows", "columns"]
    missing = [i for i in range(rank) if i not in labels]
    order = [labels.index(w) for w in target if w in labels]
    result = _transpose(result, order)
    if missing:
        result = reshape_to(result, (*batch, *np.shape(result)[-2:]))
    return with_weakness(result, weak)


def _transpose(x, order):
    return x if tuple(order) == tuple(range(len(order))) else transpose_p.bind(x, permutation=tuple(order))


def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None,
           out_sharding: Any = None) -> Array:
    """Compute the matrix product over the last two dimensions and broadcast the others, as `a @ b`.

    Args:
        a, b: The operands. A vector is treated as a row (`a`) or a column (`b`), and that dimension is removed from the
            result.
        precision: Precision of the multiplication on hardware that offers several: "default", "high" or "highest".
        preferred_element_type: dtype to accumulate in and to return.
        out_sharding: Sharding of the result.

    Returns:
        The product. For two vectors, a scalar.

    Raises:
        ValueError: If an operand is a scalar, or batch dimensions do not broadcast.
        TypeError: If contracting dimensions differ.

    Example:
        >>> xnp.matmul(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    if out_sharding is not None:
        return _with_out_sharding("numpy.matmul", out_sharding, _matmul_kernel, (a, b), canonical_precision(precision),
                                  preferred_element_type)
    if precision is None and preferred_element_type is None:
        return _matmul_kernel(a, b)  # faster in eager calls, as in `dot`
    return _matmul_kernel(a, b, canonical_precision(precision), preferred_element_type)


@library(static=("precision", "preferred", "unreduced"), name="dot")
def _dot_kernel(a, b, precision=None, preferred=None, unreduced=frozenset()):
    precision = canonical_precision(precision)
    (x, y), preferred_dtype, weak = _operands_and_dtype("dot", (a, b), preferred)
    sx, sy = np.shape(x), np.shape(y)
    if not sx or not sy:
        same = tracing.aval_of(x).dtype == tracing.aval_of(y).dtype  # weakly typed operands are not converted
        result = mul(*broadcast_to_common("dot", [x, y])) if same else INLINE["multiply"](x, y)
        return as_type(result, tracing.aval_of(result).dtype if preferred_dtype is None else preferred_dtype, weak)
    dim_y = len(sy) - (1 if len(sy) == 1 else 2)
    if sx[-1] != sy[dim_y]:
        raise errors.incompatible_shapes("dot", [("", sx), ("", sy)], (
            f"Contracting dimensions must have the same size: the last dimension of the first ({sx[-1]}) must equal dimension "
            f"{dim_y} of the second ({sy[dim_y]})."))
    result = contract(x, y, ((len(sx) - 1,), (dim_y,)), precision=precision, preferred=preferred_dtype, unreduced=unreduced)
    return with_weakness(result, weak)


def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None,
        out_sharding: Any = None) -> Array:
    """Compute the dot product: over the last dimension of `a` and the second to last of `b`.

    The free dimensions of `a` and `b` are not broadcast: the result has those of `a`, followed by those of `b`.

    Args:
        a, b: The operands. A vector is contracted over its only dimension; a scalar multiplies the other operand.
        precision: Precision of the multiplication on hardware that offers several: "default", "high" or "highest".
        preferred_element_type: dtype to accumulate in and to return.
        out_sharding: Sharding of the result.

    Returns:
        The product.

    Example:
        >>> xnp.dot(xnp.array([1, 2]), xnp.array([3, 4]))
        Array(11, dtype=int32)
    """
    if precision is None and preferred_element_type is None and out_sharding is None:
        return _dot_kernel(a, b)  # an eager call takes a quarter less time than with all arguments
    return _with_out_sharding("numpy.dot", out_sharding, _dot_kernel, (a, b), canonical_precision(precision),
                              preferred_element_type)


@library(static=("precision", "preferred_element_type"))
@accepts(objects=True)
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute the dot product of two flattened arrays, the first one conjugated.

    Args:
        a: The first array, which is conjugated.
        b: The second array, of the same size.
        precision: Precision of the multiplication on hardware that offers several: "default", "high" or "highest".
        preferred_element_type: dtype to accumulate in and to return.

    Returns:
        The product, a scalar.

    Example:
        >>> xnp.vdot(xnp.array([1j, 2]), xnp.array([1j, 3]))
        Array(7.+0.j, dtype=complex64)
    """
    check_arraylike("vdot", a, b)
    a, b = unwrap(a), unwrap(b)
    dtypes.result_type(a, b)  # refuses different dtypes if promotion is strict; `dot` multiplies them without conversion
    a, b = reshape(a, (np.size(a),)), reshape(b, (np.size(b),))
    return dot(_conjugate(a), b, precision=precision, preferred_element_type=preferred_element_type)


def _conjugate(x):
    return conj_(x, input_dtype=x.dtype) if tracing.aval_of(x).dtype.kind == "c" else x


@library(static=("axis", "precision", "preferred"), name="vecdot")
@accepts(objects=True)
def _vecdot_kernel(x1, x2, axis, precision, preferred):
    (x, y), preferred_dtype, weak = _operands_and_dtype("vecdot", (x1, x2), preferred)
    if not np.ndim(x) or not np.ndim(y):
        raise ValueError(f"vecdot needs arrays of at least one dimension, got shapes {np.shape(x)} and {np.shape(y)}.")
    x = _conjugate(move_dim(x, canonical_axis(axis, np.ndim(x), "vecdot"), np.ndim(x) - 1))
    y = move_dim(y, canonical_axis(axis, np.ndim(y), "vecdot"), np.ndim(y) - 1)
    if np.shape(x)[-1] != np.shape(y)[-1]:
        raise ValueError(str(errors.incompatible_shapes(
            "vecdot", [("", np.shape(x1)), ("", np.shape(x2))],
            f"The contracting dimensions, along axis {axis}, must have the same size.")))
    last = (np.ndim(x) - 1,), (np.ndim(y) - 1,)
    if np.ndim(x) == 1 or np.ndim(y) == 1 or np.shape(x) == np.shape(y):
        batch = range(min(last[0][0], last[1][0]))
        return with_weakness(contract(x, y, last, (batch, batch), precision, preferred_dtype), weak)
    rows = reshape_to(x, (*np.shape(x)[:-1], 1, np.shape(x)[-1]))
    columns = reshape_to(y, (*np.shape(y), 1))
    result = _matmul_kernel.__wrapped__(rows, columns, precision, preferred_dtype)
    return with_weakness(reshape_to(result, np.shape(result)[:-2]), weak)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None,
           preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute the dot products of vectors along an axis and broadcast the other dimensions.

    Args:
        x1: The first vectors, which are conjugated.
        x2: The second vectors.
        axis: Axis of the vectors. Default: the last.
        precision: Precision of the multiplication on hardware that offers several: "default", "high" or "highest".
        preferred_element_type: dtype to accumulate in and to return.

    Returns:
        The products, without `axis`.

    Example:
        >>> xnp.vecdot(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    return _vecdot_kernel(x1, x2, int(axis), canonical_precision(precision), preferred_element_type)


def _matrices_and_vectors(name: str, matrices, vectors, dim: int):
    """Return unwrapped operands; check that dimension `dim` of the matrices has the size of the last one of the
    vectors."""
    check_arraylike(name, matrices, vectors)
    matrices, vectors = unwrap(matrices), unwrap(vectors)
    if np.ndim(matrices) < 2 or not np.ndim(vectors) or np.shape(matrices)[dim] != np.shape(vectors)[-1]:
        raise ValueError(f"numpy.{name} got matrices of shape {np.shape(matrices)} and vectors of shape {np.shape(vectors)}: "
                         f"dimension {dim} of the matrices and the last one of the vectors must have the same size.")
    return matrices, vectors


@library
@accepts(objects=True)
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply matrices by vectors and broadcast the other dimensions.

    Args:
        x1: The matrices, in the last two dimensions.
        x2: The vectors, in the last dimension.

    Returns:
        The products, vectors in the last dimension.

    Example:
        >>> xnp.matvec(xnp.array([[1, 2], [3, 4]]), xnp.array([[1, 0], [1, 1]]))
        Array([[1, 3],
               [3, 7]], dtype=int32)
    """
    x1, x2 = _matrices_and_vectors("matvec", x1, x2, -1)
    if np.ndim(x2) == 1:
        return matmul(x1, x2)
    x2 = expand_dims(x2, (np.ndim(x2),))
    return squeeze(matmul(x1, x2), (-1,))


@library
@accepts(objects=True)
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply conjugated vectors by matrices and broadcast the other dimensions.

    Args:
        x1: The vectors, in the last dimension.
        x2: The matrices, in the last two dimensions.

    Returns:
        The products, vectors in the last dimension.

    Example:
        >>> xnp.vecmat(xnp.array([[1, 0], [1, 1]]), xnp.array([[1, 2], [3, 4]]))
        Array([[1, 2],
               [4, 6]], dtype=int32)
    """
    x2, x1 = _matrices_and_vectors("vecmat", x2, x1, -2)
    if np.ndim(x1) == 1:
        return matmul(_conjugate(x1), x2)
    x1 = _conjugate(expand_dims(x1, (np.ndim(x1) - 1,)))
    return squeeze(matmul(x1, x2), (-2,))


@library(static=("precision", "preferred_element_type"))
@accepts(objects=True)
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute the product over the last dimension of both arrays, without conjugation.

    Args:
        a, b: The operands. A scalar multiplies the other operand.
        precision: Precision of the multiplication on hardware that offers several: "default", "high" or "highest".
        preferred_element_type: dtype to accumulate in and to return.

    Returns:
        The product, with the free dimensions of `a` followed by those of `b`.

    Example:
        >>> xnp.inner(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    if not np.ndim(a) or not np.ndim(b):
        return dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
    return tensordot(a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type)


@library
@accepts(nodes=True)
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Compute the outer product of two flattened arrays.

    Args:
        a, b: The operands.
        out: Not supported; must be None.

    Returns:
        A matrix, whose rows belong to the elements of `a` and whose columns belong to those of `b`.

    Example:
        >>> xnp.outer(xnp.array([1, 2]), xnp.array([3, 4]))
        Array([[3, 4],
               [6, 8]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("numpy.outer cannot write into `out`: arrays are immutable. Use the result.")
    check_arraylike("outer", a, b)
    vectors = [reshape_to(x, (np.size(x),)) for x in promote_dtypes(unwrap(a), unwrap(b))]
    shapes = (np.size(a), 1), (1, np.size(b))  # not yet the shape of the result: sparse vectors cannot be repeated
    return INLINE["multiply"](*[broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=(i,), sharding=None)
                                for i, (x, shape) in enumerate(zip(vectors, shapes))])


def _tensordot_axes(a_shape, b_shape, axes):
    ra, rb = len(a_shape), len(b_shape)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ValueError(f"tensordot needs axes as an integer or two lists, got axes={axes!r}.")
        first, second = ([x] if not isinstance(x, (tuple, list, np.ndarray)) else list(x) for x in axes)
        if len(first) != len(second):
            raise ValueError(f"tensordot needs as many axes of the first array as of the second, got axes={axes!r}.")
    else:
        if not hasattr(axes, "__index__"):
            raise TypeError(f"tensordot needs axes as an integer or two lists, got {axes!r}.")
        n = axes.__index__()
        if n > min(ra, rb):
            raise TypeError(f"tensordot over {n} axes needs arrays of at least {n} dimensions, got shapes {a_shape} and "
                            f"{b_shape}.")
        first, second = list(range(ra - n, ra)), list(range(n))
    return (tuple(canonical_axis(i, ra, "tensordot") for i in first),
            tuple(canonical_axis(i, rb, "tensordot") for i in second))


@library(static=("axes", "precision", "preferred", "unreduced"), name="tensordot")
def _tensordot_kernel(a, b, axes, precision, preferred, unreduced=frozenset()):
    (x, y), preferred_dtype, weak = _operands_and_dtype("tensordot", (a, b), preferred)
    for i, j in zip(*axes):
        if np.shape(x)[i] != np.shape(y)[j]:
            raise errors.incompatible_shapes("tensordot", [("", np.shape(x)), ("", np.shape(y))],
                                             f"Contracting dimensions must have the same size: axis {i} of the first and axis "
                                             f"{j} of the second differ.")
    return with_weakness(contract(x, y, axes, precision=precision, preferred=preferred_dtype, unreduced=unreduced), weak)


def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int | Sequence[int]] = 2, *, precision: Any = None,
              preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> Array:
    """Contract several axes of two arrays.

    Args:
        a, b: The operands.
        axes: The number of trailing axes of `a` and leading axes of `b` to contract, or two lists of axes, one for each
            operand.
        precision: Precision of the multiplication on hardware that offers several: "default", "high" or "highest".
        preferred_element_type: dtype to accumulate in and to return.
        out_sharding: Sharding of the result.

    Returns:
        The product, with the free dimensions of `a` followed by those of `b`.

    Example:
        >>> xnp.tensordot(xnp.ones((2, 3, 4)), xnp.ones((4, 3, 5)), ([1, 2], [1, 0])).shape
        (2, 5)
    """
    check_arraylike("tensordot", a, b)
    a, b = unwrap_node(a), unwrap_node(b)
    return _with_out_sharding("numpy.tensordot", out_sharding, _tensordot_kernel, (a, b), _tensordot_axes(
        np.shape(a), np.shape(b), axes), canonical_precision(precision), preferred_element_type)


# einsum

_plans = BoundedCache(4096)


def _subscripts(operands):
    """Normalize both calling forms of `einsum` to a string and a list of arrays."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(operands[1:])
    # Arrays alternate with lists of labels.
    arrays, label_lists = list(operands[0::2]), list(operands[1::2])
    output = arrays.pop() if len(arrays) > len(label_lists) else None
    labels = {label for sublist in label_lists for label in sublist if label is not Ellipsis}
    try:
        ordered = sorted(labels)
    except TypeError:
        raise TypeError(f"einsum needs labels that can be compared, such as integers, got {list(labels)}.") from None
    letters = {label: chr(97 + i if i < 26 else 39 + i) for i, label in enumerate(ordered)}

    def text(labels):
        try:
            return "".join(["..." if label is Ellipsis else letters[label] for label in labels])
        except KeyError as error:
            raise ValueError(f"einsum: no operand has the label {error.args[0]!r} of the result.") from None

    inputs = ",".join(map(text, label_lists))
    return inputs if output is None else f"{inputs}->{text(output)}", arrays


def _expand(subscripts: str, shapes) -> tuple[list[str], str]:
    """Return the subscripts of each operand and of the result, with each ellipsis replaced by letters."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"einsum {subscripts!r} has {len(terms)} operand(s), {len(shapes)} array(s) were given.")
    spare = [c for c in (*map(chr, range(65, 91)), *map(chr, range(97, 123))) if c not in subscripts]
    spare += [c for c in map(chr, range(192, 192 + 64)) if c not in subscripts]
    counts = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes)]
    longest = max([n for n, term in zip(counts, terms) if "..." in term], default=0)
    expansion = "".join(spare[:longest])
    for i, (term, n) in enumerate(zip(terms, counts)):
        if n < 0 or n > 0 and "..." not in term:
            raise ValueError(f"einsum {subscripts!r}: operand {i} has shape {tuple(shapes[i])}, which does not have the "
                             f"{len(term.replace('...', ''))} dimension(s) of {term!r}.")
        terms[i] = term.replace("...", expansion[longest - n:])
    letters = "".join(terms)
    if not set(".->").isdisjoint(letters + output.replace("...", "")):
        raise ValueError(f"einsum subscripts are letters (or other signs), commas, '->' and '...', got {subscripts!r}.")
    if arrow:
        result = output.replace("...", expansion)
    else:
        result = expansion + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in expansion))
    unknown = set(result) - set(letters)
    if unknown or len(set(result)) != len(result):
        raise ValueError(f"einsum {subscripts!r}: each letter of the result must occur once there and in an operand.")
    return terms, result


def _plan_einsum(subscripts: str, shapes, optimize) -> tuple:
    """Return `(operand subscripts, result subscripts, contraction path)`, cached by signature."""
    key = (subscripts, tuple(shapes), optimize if not isinstance(optimize, list) else tuple(optimize))
    found = _plans.get(key)
    if found is not None:
        return found
    terms, result = _expand(subscripts, shapes)
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes):
        for letter, n in zip(term, shape):
            if sizes.setdefault(letter, n) != n:
                if 1 not in (n, sizes[letter]):
                    raise ValueError(f"einsum {subscripts!r}: the dimension {letter!r} has size {sizes[letter]} in one "
                                     f"operand and {n} in another (shapes {', '.join(str(tuple(s)) for s in shapes)}).")
                sizes[letter] = n if sizes[letter] == 1 else sizes[letter]
    if len(terms) <= 2:
        path: list = [tuple(range(len(terms)))]
    else:
        import opt_einsum  # start-up: opt_einsum takes 16 ms

        expanded = ",".join(terms) + "->" + result
        path, _ = opt_einsum.contract_path(expanded, *[tuple(known(sizes[c], 1000) for c in t) for t in terms], shapes=True,
                                           optimize=_opt_einsum_strategy(optimize, len(terms)))
    plan = (tuple(terms), result, tuple(tuple(sorted(p)) for p in path))
    _plans.put(key, plan)
    return plan


def _opt_einsum_strategy(optimize, operands: int):
    """Return the `optimize` argument for opt_einsum: the optimal order for True, the order of the operands for False."""
    if optimize is False and operands > 1:
        return [(0, 1)] * (operands - 1)
    return "optimal" if type(optimize) is bool else optimize


def _reduce_operand(x, term: str, live, accumulated=None, unreduced=frozenset()) -> tuple:
    """Reduce an operand to one occurrence of each live letter: take diagonals of repeated letters, sum over dead ones.

    `accumulated` is the dtype of these sums (None: that of the operand). Sums over letters that are sharded over the
    mesh axes `unreduced` are left unreduced.
    """
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            x = _diagonal(x, i, j)
            term = term[:j] + term[j + 1:]
    drop = tuple(i for i, c in enumerate(term) if c not in live)
    if drop:
        x = x if accumulated is None else as_type(x, accumulated, False)
        x = reduce_sum_p.bind(x, axes=drop, out_sharding=_unreduced_sum_sharding(tracing.aval_of(x), drop, unreduced))
        term = "".join(c for c in term if c in live)
    return x, term


def _unreduced_sum_sharding(aval, drop: tuple, unreduced: frozenset):
    """Return the sharding of a sum over `drop` that stays unreduced over mesh axes; None if the sum is not sharded over
    just these."""
    explicit = aval.explicit_sharding
    if explicit is None or not unreduced:
        return None
    entries = explicit.spec.partitions
    if frozenset([a for i in drop for a in axes_of(entries[i])]) != unreduced:
        return None
    return explicit.update(spec=PartitionSpec(*[e for i, e in enumerate(entries) if i not in drop], unreduced=unreduced))


def _diagonal(x, i, j):
    """Return the elements whose positions in dimensions i and j agree, without dimension j."""
    shape = np.shape(x)
    n = shape[i]
    rows, columns = (broadcasted_iota(np.int32, shape, dimension) for dimension in (i, j))
    if shape[j] != n:
        raise ValueError(f"einsum cannot take the diagonal of dimensions of different sizes, {n} and {shape[j]}.")
    return reduce_sum_p.bind(where(eq(rows, columns), x, constant_like(x, 0)), axes=(j,), out_sharding=None)


def _contract_pair(x, tx, y, ty, live, result, precision, preferred, product):
    """Contract two operands. Common letters that are live are batch dimensions.

    `result` is the order of letters in the final result if this is the last product, else None: one of the two orders
    of operands may give it without a transpose.
    """
    x, tx = _reduce_operand(x, tx, set(live) | set(ty), preferred)
    y, ty = _reduce_operand(y, ty, set(live) | set(tx), preferred)
    # A dimension of size 1 that broadcasts against a larger one is dropped.
    for letter in [c for c in tx if c in ty]:
        n, m = np.shape(x)[tx.index(letter)], np.shape(y)[ty.index(letter)]
        if n != m:
            if n == 1:
                x, tx = squeeze_p.bind(x, dimensions=(tx.index(letter),)), tx.replace(letter, "")
            else:
                y, ty = squeeze_p.bind(y, dimensions=(ty.index(letter),)), ty.replace(letter, "")
    x, tx = _reduce_operand(x, tx, set(live) | set(ty), preferred)
    y, ty = _reduce_operand(y, ty, set(live) | set(tx), preferred)
    common = [c for c in tx if c in ty]
    batch = [c for c in common if c in live]
    summed = [c for c in common if c not in live]
    if result is not None:
        batch.sort(key=result.index)
        if result == "".join([*batch, *[c for c in ty if c not in common], *[c for c in tx if c not in common]]):
            x, tx, y, ty = y, ty, x, tx
    numbers = ((tuple(map(tx.index, summed)), tuple(map(ty.index, summed))),
               (tuple(map(tx.index, batch)), tuple(map(ty.index, batch))))
    result = product(x, y, numbers, precision, preferred)
    return result, "".join([*batch, *[c for c in tx if c not in common], *[c for c in ty if c not in common]])


def _product(x, y, numbers, precision, preferred, unreduced=frozenset()):
    sharding = unreduced_product_sharding(tracing.aval_of(x), tracing.aval_of(y), numbers, unreduced) if unreduced else None
    preferred = preferred or tracing.aval_of(x).dtype  # which equations name, as libraries read it there
    return dot_general_p.bind(x, y, dimension_numbers=numbers, precision=precision, preferred_element_type=preferred,
                              out_sharding=sharding)


def _replaced_product(function: Callable, operands: Sequence) -> Callable:
    """Return a product by a replacement of `dot_general`."""
    joint = dtypes.lattice_result_type(*operands)[0]

    def product(x, y, numbers, precision, preferred):
        return function(x, y, numbers, precision=precision, preferred_element_type=preferred or joint)
    return product


def _contract(operands, plan, precision, preferred, product, unreduced=frozenset()):
    """Contract operands along the path of a plan."""
    terms, result, path = plan
    if unreduced and product is _product:
        product = functools.partial(_product, unreduced=unreduced)
    arrays, preferred_dtype, weak = _operands_and_dtype("einsum", operands, preferred)
    work = list(zip(arrays, terms))
    for step in path:
        group = [work.pop(i) for i in reversed(step)]  # the last operand first, as opt_einsum pairs them
        live = set(result).union(*[t for _, t in work])
        x, term = group[0]
        if len(group) == 1:
            x, term = _reduce_operand(x, term, live, preferred_dtype, unreduced)
        for after, (y, ty) in enumerate(group[1:], 2):
            last = not work and after == len(group)
            x, term = _contract_pair(x, term, y, ty, live.union(*[t for _, t in group[after:]]), result if last else None,
                                     precision, preferred_dtype, product)
        work.append((x, term))
    [(x, term)] = work
    x = _transpose(x, [term.index(c) for c in result])
    if preferred_dtype is not None and tracing.aval_of(x).dtype != preferred_dtype:
        x = as_type(x, preferred_dtype, False)
    return with_weakness(x, weak)


_einsum_kernel = library(static=("plan", "precision", "preferred", "product", "unreduced"), name="einsum")(_contract)


def einsum_step(subscripts: str, operands: Sequence[Any], precision: Any, preferred_element_type: DTypeLike | None,
                product: Callable | None, out_sharding: Any) -> Array:
    """Compute `einsum` of one or two operands, the last one on the left of the product, by operations that are not compiled
    together: the replacement `product` of `dot_general` may have side effects."""
    plan = _plan_einsum(subscripts, [np.shape(x) for x in operands], "auto")
    return _with_out_sharding("numpy.einsum", out_sharding, _contract, (list(operands),), plan, canonical_precision(precision),
                              preferred_element_type, _replaced_product(product, operands) if product else _product)


def einsum(subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto", precision: Any = None,
           preferred_element_type: DTypeLike | None = None, _dot_general: Callable | None = None,
           out_sharding: Any = None) -> Array:
    """Evaluate the Einstein summation convention: multiply operands and sum over letters that the result lacks.

    Args:
        subscripts: A letter for each dimension of the operands and, after "->", of the result; "..." stands for
            dimensions that broadcast.
        operands: The arrays. Alternatively, each array is followed by a list of integer labels, and `subscripts` is the
            first array.
        out: Not supported; must be None.
        optimize: Contraction order for more than two operands: a strategy of opt_einsum, or an explicit path.
        precision, preferred_element_type, out_sharding: See `matmul`.
        _dot_general: A replacement for `lax.dot_general` in the products. The call is then recompiled each time.

    Returns:
        The result, with a dimension for each letter of the output subscripts.

    Example:
        >>> xnp.einsum("ij,kj->ik", xnp.array([[1, 2], [3, 4]]), xnp.array([[1, 1]]))
        Array([[3],
               [7]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("numpy.einsum cannot write into `out`: arrays are immutable. Use the result.")
    text, arrays = _subscripts((subscripts, *operands))
    check_arraylike("einsum", *arrays)
    arrays = [unwrap(x) for x in arrays]
    plan = _plan_einsum(text, [np.shape(x) for x in arrays], optimize)
    product = _product if _dot_general in (None, dot_general) else _replaced_product(_dot_general, arrays)
    return _with_out_sharding("numpy.einsum", out_sharding, _einsum_kernel, (arrays,), plan, canonical_precision(precision),
                              preferred_element_type, product)


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list, Any]:
    """Compute the contraction order of `einsum` and a report of its cost.

    Args:
        subscripts, operands: See `einsum`.
        optimize: A strategy of opt_einsum, or an explicit path.

    Returns:
        The path, a list of tuples of operand positions, and a printable report.

    Example:
        >>> path, _ = xnp.einsum_path("ij,jk,k->i", xnp.ones((2, 3)), xnp.ones((3, 4)), xnp.ones(4))
        >>> path
        [(1, 2), (0, 1)]
    """
    import opt_einsum  # start-up: it takes 16 ms

    text, arrays = _subscripts((subscripts, *operands))
    return opt_einsum.contract_path(text, *[np.shape(x) for x in arrays], shapes=True,
                                    optimize=_opt_einsum_strategy(optimize, len(arrays)))


# Other products


@library
@accepts(nodes=True)
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Compute the Kronecker product: each element of `a` is replaced by its product with `b`.

    Args:
        a, b: The operands.

    Returns:
        The product, whose sizes are products of those of the operands.

    Example:
        >>> xnp.kron(xnp.array([1, 10]), xnp.array([1, 2]))
        Array([ 1,  2, 10, 20], dtype=int32)
    """
    check_arraylike("kron", a, b)
    a, b = promote_dtypes(unwrap(a), unwrap(b))
    rank = max(np.ndim(a), np.ndim(b))
    sa, sb = ((1,) * (rank - np.ndim(x)) + np.shape(x) for x in (a, b))
    a = reshape_to(a, [n for pair in zip(sa, (1,) * rank) for n in pair])
    b = reshape_to(b, [n for pair in zip((1,) * rank, sb) for n in pair])
    return reshape_to(INLINE["multiply"](a, b), [n * m for n, m in zip(sa, sb)])


@library(static=("axisa", "axisb", "axisc", "axis"))
@accepts(nodes=True)
def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """Compute the cross product of vectors.

    Args:
        a, b: Vectors of length 3.
        axisa, axisb, axisc: Axis of the vectors in `a`, in `b` and in the result.
        axis: Axis of the vectors in all three; overrides the others.

    Returns:
        The products.

    Example:
        >>> xnp.cross(xnp.array([1, 0, 0]), xnp.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    check_arraylike("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promote_dtypes(unwrap(a), unwrap(b))
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if (np.shape(a)[-1], np.shape(b)[-1]) != (3, 3):
        raise ValueError(f"cross takes vectors of three components (dimension must be 3), got {np.shape(a)[-1]} and "
                         f"{np.shape(b)[-1]}. For two components, compute a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0].")
    (ax, ay, az), (bx, by, bz) = ([v[..., i] for i in range(3)] for v in (a, b))
    rows = stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])  # components in front, which is faster on CPUs
    return moveaxis(with_weakness(rows, False), 0, axisc)

