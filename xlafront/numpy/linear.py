"""Products of arrays: matmul, dot, tensordot, einsum. All are one or more `dot_general`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import str_short
from xlafront.core.dimensions import common_shape, known
from xlafront.core.memo import Memo
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.arguments import named_sharding
from xlafront.lax.creation import broadcasted_iota
from xlafront.lax.device_put import reshard_p
from xlafront.lax.dot_products import canonical_precision, dot_general, dot_general_p, open_product
from xlafront.lax.elementwise import as_type, conj_, constant_like, eq, mul, where, with_weakness
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.shapes import (
    broadcast_in_dim_p,
    canonical_axis,
    expand_dims,
    move_dim,
    reduce_sum_p,
    reshape,
    reshape_to,
    squeeze,
    squeeze_p,
    transpose_p,
)
from xlafront.numpy.manipulation import moveaxis, stack
from xlafront.numpy.promotion import broadcast_to_common, check_arraylike, promote_dtypes, unwrap, unwrap_node, within_setting
from xlafront.numpy.ufuncs import INLINE
from xlafront.runtime.specs import PartitionSpec, axes_of
from xlafront.staging.library import library


def _types(name, args, preferred):
    """Operands as they are, what their product accumulates in where that is not their dtype, and whether it is weak.

    What is of two dtypes is multiplied so: copies in a wider one would take memory and time.
    """
    check_arraylike(name, *args)
    operands = [unwrap(x) for x in args]
    if preferred is not None:
        return operands, dtypes.check_user_dtype(preferred, f"xnp.{name}"), False
    d, weak = dtypes.lattice_result_type(*operands)
    if any([tracing.aval_of(x).dtype != d for x in operands]):
        return list(map(within_setting, operands)), d, weak
    return operands, None, weak


def contract(x, y, contracting, batch=((), ()), precision=None, preferred=None, unreduced=frozenset()):
    """`dot_general` of two arrays."""
    return _product(x, y, (tuple(map(tuple, contracting)), tuple(map(tuple, batch))), precision, preferred, unreduced)


def _as_told(user, out_sharding, kernel, arrays, *static):
    """A product, split as a user says, which may leave sums over mesh axes open. Hot."""
    if out_sharding is None:
        return kernel(*arrays, *static)
    wanted = named_sharding(out_sharding, user)
    if wanted is None or not wanted.spec.unreduced:
        return with_out_sharding(user, wanted, kernel, arrays, *static)
    result = kernel(*arrays, *static, wanted.spec.unreduced)
    explicit = tracing.aval_of(result).explicit_sharding
    if explicit is None or explicit.spec.unreduced != wanted.spec.unreduced:
        raise errors.ShardingTypeError(
            f"{user} of {', '.join(str_short(tracing.aval_of(x)) for x in tree.leaves(arrays))} cannot leave sums open as "
            f"out_sharding={wanted.spec} says: the dimensions that are summed must be split over just these axes, in both "
            f"operands. Name other axes, or bring the operands to such a sharding with reshard.")
    return reshard_p.bind(result, dst_sharding=wanted)


@library(static=("precision", "preferred", "unreduced"), name="matmul")
def _matmul_kernel(a, b, precision=None, preferred=None, unreduced=frozenset()):
    precision = canonical_precision(precision)
    (a, b), preferred, weak = _types("matmul", (a, b), preferred)
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
            # free dimensions of the second operand come last: batch, columns -> bring the rows of the first between
            rows = 0 if vector_a else 1
            rank = np.ndim(result)
            columns = rank - rows - len(batch_b)
            order = (*range(rows, rows + len(batch_b)), *range(rows), *range(rank - columns, rank))
            result = _transposed(result, order)
        return with_weakness(result, weak)
    try:
        batch = common_shape(batch_a, batch_b)
    except ValueError:
        raise ValueError(f"matmul got incompatible shapes for broadcasting: {sa}, {sb}. The leading dimensions must "
                         "broadcast.") from None
    # Dimensions of size 1 on one side are free dimensions of the other, not copies; on both sides they come back at the end.
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
    # The product has: common batch, other dimensions of a, rows, other dimensions of b, columns.
    labels = [*both, *[i for i in sorted(in_a) if i not in both], "rows", *[i for i in sorted(in_b) if i not in both],
              "columns"]
    wanted = [*range(rank), "rows", "columns"]
    missing = [i for i in range(rank) if i not in labels]
    order = [labels.index(w) for w in wanted if w in labels]
    result = _transposed(result, order)
    if missing:
        result = reshape_to(result, (*batch, *np.shape(result)[-2:]))
    return with_weakness(result, weak)


def _transposed(x, order):
    return x if tuple(order) == tuple(range(len(order))) else transpose_p.bind(x, permutation=tuple(order))


def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None,
           out_sharding: Any = None) -> Array:
    """The matrix product over the last two dimensions; those before them broadcast. `a @ b` is this product.

    - `a`, `b`: the arrays. A vector is one row (of `a`) or one column (of `b`), which the result does not have.
    - `precision`: of the multiplication on hardware that has a choice ("default", "high", "highest").
    - `preferred_element_type`: the dtype to accumulate in and to return.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.matmul(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    if out_sharding is not None:
        return _as_told("xnp.matmul", out_sharding, _matmul_kernel, (a, b), canonical_precision(precision),
                        preferred_element_type)
    if precision is None and preferred_element_type is None:
        return _matmul_kernel(a, b)  # as in `dot`
    return _matmul_kernel(a, b, canonical_precision(precision), preferred_element_type)


@library(static=("precision", "preferred", "unreduced"), name="dot")
def _dot_kernel(a, b, precision=None, preferred=None, unreduced=frozenset()):
    precision = canonical_precision(precision)
    (x, y), wanted, weak = _types("dot", (a, b), preferred)
    sx, sy = np.shape(x), np.shape(y)
    if not sx or not sy:
        same = tracing.aval_of(x).dtype == tracing.aval_of(y).dtype  # a weakly typed operand is multiplied as it is
        result = mul(*broadcast_to_common("dot", [x, y])) if same else INLINE["multiply"](x, y)
        return as_type(result, tracing.aval_of(result).dtype if wanted is None else wanted, weak)
    along = len(sy) - (1 if len(sy) == 1 else 2)
    if sx[-1] != sy[along]:
        raise errors.incompatible_shapes("dot", [("", sx), ("", sy)], (
            f"Contracting dimensions must have the same size: the last dimension of the first ({sx[-1]}) must equal dimension "
            f"{along} of the second ({sy[along]})."))
    result = contract(x, y, ((len(sx) - 1,), (along,)), precision=precision, preferred=wanted, unreduced=unreduced)
    return with_weakness(result, weak)


def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None,
        out_sharding: Any = None) -> Array:
    """The product over the last dimension of one array and the second to last of the other, of all pairs of the others.

    - `a`, `b`: the arrays. Vectors have one dimension, which is summed; a number multiplies.
    - `precision`: of the multiplication on hardware that has a choice ("default", "high", "highest").
    - `preferred_element_type`: the dtype to accumulate in and to return.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.dot(xnp.array([1, 2]), xnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    if precision is None and preferred_element_type is None and out_sharding is None:
        return _dot_kernel(a, b)  # eagerly a quarter less than with all arguments
    return _as_told("xnp.dot", out_sharding, _dot_kernel, (a, b), canonical_precision(precision), preferred_element_type)


@library(static=("precision", "preferred_element_type"), converts=True)
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """The scalar product of two arrays as vectors.

    - `a`: the array that is conjugated.
    - `b`: the other, of the same size.
    - `precision`: of the multiplication on hardware that has a choice ("default", "high", "highest").
    - `preferred_element_type`: the dtype to accumulate in and to return.

    >>> xnp.vdot(xnp.array([1j, 2]), xnp.array([1j, 3]))
    Array(7.+0.j, dtype=complex64)
    """
    check_arraylike("vdot", a, b)
    a, b = unwrap(a), unwrap(b)
    a, b = reshape(a, (np.size(a),)), reshape(b, (np.size(b),))
    return dot(_conjugated(a), b, precision=precision, preferred_element_type=preferred_element_type)


def _conjugated(x):
    return conj_(x, input_dtype=x.dtype) if tracing.aval_of(x).dtype.kind == "c" else x


@library(static=("axis", "precision", "preferred"), name="vecdot", converts=True)
def _vecdot_kernel(x1, x2, axis, precision, preferred):
    (x, y), wanted, weak = _types("vecdot", (x1, x2), preferred)
    if not np.ndim(x) or not np.ndim(y):
        raise ValueError(f"vecdot needs arrays of at least one dimension, got shapes {np.shape(x)} and {np.shape(y)}.")
    x = _conjugated(move_dim(x, canonical_axis(axis, np.ndim(x), "vecdot"), np.ndim(x) - 1))
    y = move_dim(y, canonical_axis(axis, np.ndim(y), "vecdot"), np.ndim(y) - 1)
    if np.shape(x)[-1] != np.shape(y)[-1]:
        raise ValueError(str(errors.incompatible_shapes(
            "vecdot", [("", np.shape(x1)), ("", np.shape(x2))],
            f"The contracting dimensions, along axis {axis}, must have the same size.")))
    last = (np.ndim(x) - 1,), (np.ndim(y) - 1,)
    if np.ndim(x) == 1 or np.ndim(y) == 1 or np.shape(x) == np.shape(y):
        batch = range(min(last[0][0], last[1][0]))
        return with_weakness(contract(x, y, last, (batch, batch), precision, wanted), weak)
    rows = reshape_to(x, (*np.shape(x)[:-1], 1, np.shape(x)[-1]))
    columns = reshape_to(y, (*np.shape(y), 1))
    result = _matmul_kernel.__wrapped__(rows, columns, precision, wanted)
    return with_weakness(reshape_to(result, np.shape(result)[:-2]), weak)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None,
           preferred_element_type: DTypeLike | None = None) -> Array:
    """The scalar products of vectors along an axis; the other dimensions broadcast.

    - `x1`: the vectors that are conjugated.
    - `x2`: the others.
    - `axis`: the axis.
    - `precision`: of the multiplication on hardware that has a choice ("default", "high", "highest").
    - `preferred_element_type`: the dtype to accumulate in and to return.

    >>> xnp.vecdot(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    return _vecdot_kernel(x1, x2, int(axis), canonical_precision(precision), preferred_element_type)


def _matrices_and_vectors(name: str, matrices, vectors, dim: int):
    """Operands whose last dimensions fit: that of vectors, and one of matrices."""
    check_arraylike(name, matrices, vectors)
    matrices, vectors = unwrap(matrices), unwrap(vectors)
    if np.ndim(matrices) < 2 or not np.ndim(vectors) or np.shape(matrices)[dim] != np.shape(vectors)[-1]:
        raise ValueError(f"xnp.{name} got matrices of shape {np.shape(matrices)} and vectors of shape {np.shape(vectors)}: "
                         f"dimension {dim} of the matrices and the last one of the vectors must have the same size.")
    return matrices, vectors


@library(converts=True)
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of matrices with vectors; the dimensions before them broadcast.

    - `x1`: the matrices, in the last two dimensions.
    - `x2`: the vectors, in the last one.

    >>> xnp.matvec(xnp.array([[1, 2], [3, 4]]), xnp.array([[1, 0], [1, 1]]))
    Array([[1, 3],
           [3, 7]], dtype=int32)
    """
    x1, x2 = _matrices_and_vectors("matvec", x1, x2, -1)
    if np.ndim(x2) == 1:
        return matmul(x1, x2)
    x2 = expand_dims(x2, (np.ndim(x2),))
    return squeeze(matmul(x1, x2), (-1,))


@library(converts=True)
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of conjugated vectors with matrices; the dimensions before them broadcast.

    - `x1`: the vectors, in the last dimension.
    - `x2`: the matrices, in the last two.

    >>> xnp.vecmat(xnp.array([[1, 0], [1, 1]]), xnp.array([[1, 2], [3, 4]]))
    Array([[1, 2],
           [4, 6]], dtype=int32)
    """
    x2, x1 = _matrices_and_vectors("vecmat", x2, x1, -2)
    if np.ndim(x1) == 1:
        return matmul(_conjugated(x1), x2)
    x1 = _conjugated(expand_dims(x1, (np.ndim(x1) - 1,)))
    return squeeze(matmul(x1, x2), (-2,))


@library(static=("precision", "preferred_element_type"), converts=True)
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """The product over the last dimension of both arrays, of all pairs of the others; nothing is conjugated.

    - `a`, `b`: the arrays; a number multiplies.
    - `precision`: of the multiplication on hardware that has a choice ("default", "high", "highest").
    - `preferred_element_type`: the dtype to accumulate in and to return.

    >>> xnp.inner(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    if not np.ndim(a) or not np.ndim(b):
        return dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
    return tensordot(a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type)


@library
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The products of all pairs of elements of two arrays, a matrix.

    - `a`, `b`: the arrays, which count as vectors: rows are of `a`, columns of `b`.
    - `out`: of NumPy's signature; it must be None.

    >>> xnp.outer(xnp.array([1, 2]), xnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("xnp.outer cannot write into `out`: arrays do not change. Use the result.")
    check_arraylike("outer", a, b)
    vectors = [reshape_to(x, (np.size(x),)) for x in promote_dtypes(unwrap(a), unwrap(b))]
    shape = np.size(a), np.size(b)
    return INLINE["multiply"](*[broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=(i,), sharding=None)
                                for i, x in enumerate(vectors)])


def _tensordot_axes(a_shape, b_shape, axes):
    ra, rb = len(a_shape), len(b_shape)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ValueError(f"tensordot takes an integer or two lists of axes, got axes={axes!r}.")
        first, second = ([x] if not isinstance(x, (tuple, list, np.ndarray)) else list(x) for x in axes)
        if len(first) != len(second):
            raise ValueError(f"tensordot needs as many axes of the first array as of the second, got axes={axes!r}.")
    else:
        if not hasattr(axes, "__index__"):
            raise TypeError(f"tensordot takes as axes an integer or two lists of axes, got {axes!r}.")
        n = axes.__index__()
        if n > min(ra, rb):
            raise TypeError(f"tensordot over {n} axes needs arrays of at least {n} dimensions, got shapes {a_shape} and "
                            f"{b_shape}.")
        first, second = list(range(ra - n, ra)), list(range(n))
    return (tuple(canonical_axis(i, ra, "tensordot") for i in first),
            tuple(canonical_axis(i, rb, "tensordot") for i in second))


@library(static=("axes", "precision", "preferred", "unreduced"), name="tensordot")
def _tensordot_kernel(a, b, axes, precision, preferred, unreduced=frozenset()):
    (x, y), wanted, weak = _types("tensordot", (a, b), preferred)
    for i, j in zip(*axes):
        if np.shape(x)[i] != np.shape(y)[j]:
            raise errors.incompatible_shapes("tensordot", [("", np.shape(x)), ("", np.shape(y))],
                                             f"Contracting dimensions must have the same size: axis {i} of the first and axis "
                                             f"{j} of the second differ.")
    return with_weakness(contract(x, y, axes, precision=precision, preferred=wanted, unreduced=unreduced), weak)


def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int | Sequence[int]] = 2, *, precision: Any = None,
              preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> Array:
    """The product over several axes of two arrays, of all pairs of the others.

    - `a`, `b`: the arrays.
    - `axes`: how many of the last axes of `a` and of the first ones of `b`; or two lists, which of each.
    - `precision`: of the multiplication on hardware that has a choice ("default", "high", "highest").
    - `preferred_element_type`: the dtype to accumulate in and to return.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.tensordot(xnp.ones((2, 3, 4)), xnp.ones((4, 3, 5)), ([1, 2], [1, 0])).shape
    (2, 5)
    """
    check_arraylike("tensordot", a, b)
    a, b = unwrap_node(a), unwrap_node(b)
    return _as_told("xnp.tensordot", out_sharding, _tensordot_kernel, (a, b), _tensordot_axes(
        np.shape(a), np.shape(b), axes), canonical_precision(precision), preferred_element_type)


# einsum

_plans = Memo(4096)


def _subscripts(operands):
    """`einsum`'s two calling forms as a string and arrays."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), list(operands[1:])
    # arrays and lists of labels in turn
    arrays, parts = list(operands[0::2]), list(operands[1::2])
    output = arrays.pop() if len(arrays) > len(parts) else None
    labels = {label for part in parts for label in part if label is not Ellipsis}
    try:
        ordered = sorted(labels)
    except TypeError:  # of several kinds
        ordered = sorted(labels, key=lambda label: (str(type(label)), hash(label)))
    letters = {label: chr(97 + i if i < 26 else 39 + i) for i, label in enumerate(ordered)}

    def text(labels):
        try:
            return "".join(["..." if label is Ellipsis else letters[label] for label in labels])
        except KeyError as error:
            raise ValueError(f"einsum: the result has the label {error.args[0]!r}, which no operand has.") from None

    inputs = ",".join(map(text, parts))
    return inputs if output is None else f"{inputs}->{text(output)}", arrays


def _expand(subscripts: str, shapes) -> tuple[list[str], str]:
    """Subscripts of each operand and of the result, with ellipses written out as letters."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"einsum {subscripts!r} has {len(terms)} operand(s), {len(shapes)} array(s) were given.")
    spare = [c for c in (*map(chr, range(65, 91)), *map(chr, range(97, 123))) if c not in subscripts]
    spare += [c for c in map(chr, range(192, 192 + 64)) if c not in subscripts]
    counts = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes)]
    longest = max([n for n, term in zip(counts, terms) if "..." in term], default=0)
    stand_in = "".join(spare[:longest])
    for i, (term, n) in enumerate(zip(terms, counts)):
        if n < 0 or n > 0 and "..." not in term:
            raise ValueError(f"einsum {subscripts!r}: operand {i} has shape {tuple(shapes[i])}, which does not have the "
                             f"{len(term.replace('...', ''))} dimension(s) of {term!r}.")
        terms[i] = term.replace("...", stand_in[longest - n:])
    letters = "".join(terms)
    if not set(".->").isdisjoint(letters + output.replace("...", "")):
        raise ValueError(f"einsum subscripts are letters (or other signs), commas, '->' and '...', got {subscripts!r}.")
    if arrow:
        result = output.replace("...", stand_in)
    else:
        result = stand_in + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in stand_in))
    unknown = set(result) - set(letters)
    if unknown or len(set(result)) != len(result):
        raise ValueError(f"einsum {subscripts!r}: each letter of the result must occur once there and in an operand.")
    return terms, result


def _plan_einsum(subscripts: str, shapes, optimize) -> tuple:
    """`(operand subscripts, result subscripts, pairs to contract in turn)`, kept for each signature."""
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
                                           optimize=_strategy(optimize, len(terms)))
    plan = (tuple(terms), result, tuple(tuple(sorted(p)) for p in path))
    _plans.keep(key, plan)
    return plan


def _strategy(optimize, operands: int):
    """What opt_einsum is told: the best order for True, that of the operands for False."""
    if optimize is False and operands > 1:
        return [(0, 1)] * (operands - 1)
    return "optimal" if type(optimize) is bool else optimize


def _single(x, term: str, kept, accumulated=None, unreduced=frozenset()) -> tuple:
    """One operand with each letter once: diagonals for repeated letters, sums over letters that nobody needs. `accumulated` is
    the dtype of these sums where it is not the operand's; they are left open over the mesh axes `unreduced` that split them."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            x = _diagonal(x, i, j)
            term = term[:j] + term[j + 1:]
    drop = tuple(i for i, c in enumerate(term) if c not in kept)
    if drop:
        x = x if accumulated is None else as_type(x, accumulated, False)
        x = reduce_sum_p.bind(x, axes=drop, out_sharding=_open_sum(tracing.aval_of(x), drop, unreduced))
        term = "".join(c for c in term if c in kept)
    return x, term


def _open_sum(aval, drop: tuple, unreduced: frozenset):
    """The sharding of a sum over these dimensions that stays open over mesh axes; None where none of them is split so."""
    explicit = aval.explicit_sharding
    if explicit is None or not unreduced:
        return None
    entries = explicit.spec.partitions
    if frozenset([a for i in drop for a in axes_of(entries[i])]) != unreduced:
        return None
    return explicit.update(spec=PartitionSpec(*[e for i, e in enumerate(entries) if i not in drop], unreduced=unreduced))


def _diagonal(x, i, j):
    """The elements whose positions in dimensions i and j agree; dimension j goes."""
    shape = np.shape(x)
    n = shape[i]
    rows, columns = (broadcasted_iota(np.int32, shape, dimension) for dimension in (i, j))
    if shape[j] != n:
        raise ValueError(f"einsum takes a diagonal of dimensions of sizes {n} and {shape[j]}.")
    return reduce_sum_p.bind(where(eq(rows, columns), x, constant_like(x, 0)), axes=(j,), out_sharding=None)


def _pair(x, tx, y, ty, kept, result, precision, preferred, product):
    """Contract two operands: letters of both that are needed later are batch dimensions. `result` is the order in which they
    are wanted, where this is the last product: of the two orders of operands, one may give it without a transpose."""
    x, tx = _single(x, tx, set(kept) | set(ty), preferred)
    y, ty = _single(y, ty, set(kept) | set(tx), preferred)
    # A size of 1 against a larger one broadcasts: such a dimension is dropped.
    for letter in [c for c in tx if c in ty]:
        n, m = np.shape(x)[tx.index(letter)], np.shape(y)[ty.index(letter)]
        if n != m:
            if n == 1:
                x, tx = squeeze_p.bind(x, dimensions=(tx.index(letter),)), tx.replace(letter, "")
            else:
                y, ty = squeeze_p.bind(y, dimensions=(ty.index(letter),)), ty.replace(letter, "")
    x, tx = _single(x, tx, set(kept) | set(ty), preferred)
    y, ty = _single(y, ty, set(kept) | set(tx), preferred)
    common = [c for c in tx if c in ty]
    batch = [c for c in common if c in kept]
    summed = [c for c in common if c not in kept]
    if result is not None:
        batch.sort(key=result.index)
        if result == "".join([*batch, *[c for c in ty if c not in common], *[c for c in tx if c not in common]]):
            x, tx, y, ty = y, ty, x, tx
    numbers = ((tuple(map(tx.index, summed)), tuple(map(ty.index, summed))),
               (tuple(map(tx.index, batch)), tuple(map(ty.index, batch))))
    result = product(x, y, numbers, precision, preferred)
    return result, "".join([*batch, *[c for c in tx if c not in common], *[c for c in ty if c not in common]])


def _product(x, y, numbers, precision, preferred, unreduced=frozenset()):
    split = open_product(tracing.aval_of(x), tracing.aval_of(y), numbers, unreduced) if unreduced else None
    preferred = preferred or tracing.aval_of(x).dtype  # which equations name, as libraries read it there
    return dot_general_p.bind(x, y, dimension_numbers=numbers, precision=precision, preferred_element_type=preferred,
                              out_sharding=split)


@library(static=("plan", "precision", "preferred", "product", "unreduced"), name="einsum")
def _einsum_kernel(operands, plan, precision, preferred, product, unreduced=frozenset()):
    terms, result, path = plan
    if unreduced and product is _product:
        product = functools.partial(_product, unreduced=unreduced)
    arrays, wanted, weak = _types("einsum", operands, preferred)
    work = list(zip(arrays, terms))
    for step in path:
        taken = [work.pop(i) for i in reversed(step)][::-1]
        kept = set(result).union(*[t for _, t in work])
        x, term = taken[0]
        if len(taken) == 1:
            x, term = _single(x, term, kept, wanted, unreduced)
        for after, (y, ty) in enumerate(taken[1:], 2):
            last = not work and after == len(taken)
            x, term = _pair(x, term, y, ty, kept.union(*[t for _, t in taken[after:]]), result if last else None, precision,
                            wanted, product)
        work.append((x, term))
    [(x, term)] = work
    x = _transposed(x, [term.index(c) for c in result])
    if wanted is not None and tracing.aval_of(x).dtype != wanted:
        x = as_type(x, wanted, False)
    return with_weakness(x, weak)


def einsum(subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto", precision: Any = None,
           preferred_element_type: DTypeLike | None = None, _dot_general: Callable | None = None,
           out_sharding: Any = None) -> Array:
    """Sums of products by Einstein's convention: what the letters of the result do not name is summed.

    - `subscripts`: a letter for each dimension of the operands and, after "->", of the result; "..." for dimensions that
      broadcast.
    - `operands`: the arrays. The other form is each array followed by a list of integers in place of letters.
    - `out`: of NumPy's signature; it must be None.
    - `optimize`: the order of contraction of more than two operands: a strategy of opt_einsum, or a path.
    - `precision`, `preferred_element_type`, `out_sharding`: as for `matmul`.
    - `_dot_general`: a function in place of `lax.dot_general`, for the products; the call is then compiled each time anew.

    >>> xnp.einsum("ij,kj->ik", xnp.array([[1, 2], [3, 4]]), xnp.array([[1, 1]]))
    Array([[3],
           [7]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("xnp.einsum cannot write into `out`: arrays do not change. Use the result.")
    text, arrays = _subscripts((subscripts, *operands))
    check_arraylike("einsum", *arrays)
    arrays = [unwrap(x) for x in arrays]
    plan = _plan_einsum(text, [np.shape(x) for x in arrays], optimize)
    product = _product
    if _dot_general not in (None, dot_general):
        joint = dtypes.lattice_result_type(*arrays)[0]

        def product(x, y, numbers, precision, preferred):
            return _dot_general(x, y, numbers, precision=precision, preferred_element_type=preferred or joint)
    return _as_told("xnp.einsum", out_sharding, _einsum_kernel, (arrays,), plan, canonical_precision(precision),
                    preferred_element_type, product)


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list, Any]:
    """The order in which `einsum` would contract its operands, and a table of what it costs.

    - `subscripts`, `operands`: as for `einsum`.
    - `optimize`: a strategy of opt_einsum, or a path.

    >>> path, _ = xnp.einsum_path("ij,jk,k->i", xnp.ones((2, 3)), xnp.ones((3, 4)), xnp.ones(4))
    >>> path
    [(1, 2), (0, 1)]
    """
    import opt_einsum  # start-up: it takes 16 ms

    text, arrays = _subscripts((subscripts, *operands))
    return opt_einsum.contract_path(text, *[np.shape(x) for x in arrays], shapes=True,
                                    optimize=_strategy(optimize, len(arrays)))


# Other products


@library
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: an array with each element replaced by its product with the other array.

    - `a`, `b`: the arrays.

    >>> xnp.kron(xnp.array([1, 10]), xnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    check_arraylike("kron", a, b)
    a, b = unwrap(a), unwrap(b)
    rank = max(np.ndim(a), np.ndim(b))
    sa, sb = ((1,) * (rank - np.ndim(x)) + np.shape(x) for x in (a, b))
    a = reshape_to(a, [n for pair in zip(sa, (1,) * rank) for n in pair])
    b = reshape_to(b, [n for pair in zip((1,) * rank, sb) for n in pair])
    return reshape_to(INLINE["multiply"](a, b), [n * m for n, m in zip(sa, sb)])


@library(static=("axisa", "axisb", "axisc", "axis"))
def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """The vector products of vectors.

    - `a`, `b`: the vectors, of length 3. A length of 2 stands for a third component of 0; of two such the result is that
      component.
    - `axisa`, `axisb`, `axisc`: along which axis of `a`, of `b` and of the result they lie.
    - `axis`: one axis for all three.

    >>> xnp.cross(xnp.array([1, 0, 0]), xnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    check_arraylike("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if np.shape(a)[-1] not in (2, 3) or np.shape(b)[-1] not in (2, 3):
        raise ValueError(f"cross needs vectors of length 2 or 3, got {np.shape(a)[-1]} and {np.shape(b)[-1]}.")
    ax, ay, *az = (a[..., i] for i in range(np.shape(a)[-1]))
    bx, by, *bz = (b[..., i] for i in range(np.shape(b)[-1]))
    last = ax * by - ay * bx
    if not az and not bz:
        return last
    az, bz = (az[0] if az else 0 * ax), (bz[0] if bz else 0 * bx)
    rows = stack([ay * bz - az * by, az * bx - ax * bz, last])  # whole vectors one after the other, which is faster on CPUs
    return moveaxis(with_weakness(rows, False), 0, axisc)

