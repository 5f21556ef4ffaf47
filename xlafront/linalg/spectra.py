"""Eigenvalues and singular values, with their vectors."""

from __future__ import annotations

import enum
import math

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, lowering
from xlafront.core import dtypes
from xlafront.core.dimensions import min_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.linalg.factorizations import symmetrized
from xlafront.linalg.kernels import adjoint, call, factorization, floating, lapack, letter, operand, product, square, succeeded
from xlafront.linalg.orthogonal import qr
from xlafront.linalg.polar import qdwh
from xlafront.staging.library import library


class EighImplementation(enum.Enum):
    """How `eigh` is computed: by QR on CPUs and GPUs, by Jacobi's rotations on GPUs and TPUs, by QDWH on TPUs.

    >>> lax.linalg.EighImplementation("qr")
    <EighImplementation.QR: 'qr'>
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """The library that computes `eig`: LAPACK on the CPU, also for arrays of GPUs, and on GPUs cuSOLVER and MAGMA.

    >>> lax.linalg.EigImplementation("lapack")
    <EigImplementation.LAPACK: 'lapack'>
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class SvdAlgorithm(enum.Enum):
    """How `svd` is computed. CPUs have all but Jacobi's, GPUs all but divide and conquer, TPUs that by polar factors.

    >>> lax.linalg.SvdAlgorithm("polar")
    <SvdAlgorithm.POLAR: 'polar'>
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _span(name: str, subset: tuple | None, count: int) -> slice:
    """Those of `count` values that are asked for, which are all if `subset` is None."""
    start, end = subset or (0, count)
    if not 0 <= start <= end <= count:
        raise ValueError(f"{name} with subset_by_index=({start}, {end}) of a matrix with {count} of them: takes (start, end) "
                         f"with 0 <= start <= end <= {count}.")
    return slice(start, end)


def _subset(subset) -> tuple | None:
    return None if subset is None else (int(subset[0]), int(subset[1]))


def _diagonal(x):
    return xnp.diagonal(x, axis1=-2, axis2=-1)


def _over(x, scale):
    """`x / scale`, with zeros in the diagonal, where `scale` may be zero."""
    own = xnp.eye(x.shape[-1], dtype=bool)
    return xnp.where(own, 0, x / xnp.where(own, 1, scale).astype(x.dtype))


def _turn(matrix, values):
    """`V^-1 V'` for eigenvectors V, without what changes their lengths, where `matrix` is `V^-1 A' V`."""
    return _over(matrix, values[..., None, :] - values[..., :, None])


# Hermitian matrices


def _eigh_shape(x, *, subset_by_index, **_):
    n = square("eigh", x, TypeError)
    span = _span("eigh", subset_by_index, n)
    count = span.stop - span.start
    return [((*x.shape[:-1], count), x.dtype), ((*x.shape[:-2], count), dtypes.to_real(x.dtype))]


def _eigh_results(x):
    return [(x.shape, x.dtype), (x.shape[:-1], dtypes.to_real(x.dtype)), (x.shape[:-2], np.int32)]


def _selected(v, w, subset):
    span = _span("eigh", subset, w.shape[-1])
    return [v[..., span], w[..., span]]


def _eigh_kernel(x, target, subset, **attributes):
    if not x.size:
        return _selected(x, xnp.zeros(x.shape[:-1], dtypes.to_real(x.dtype)), subset)
    v, w, info = call(target, _eigh_results(x), x, aliases=[(0, 0)], **attributes)
    return _selected(succeeded(info, v), succeeded(info, w), subset)


def _eigh_cpu(x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    if algorithm not in (None, EighImplementation.QR):
        raise NotImplementedError(f"eigh on CPUs is computed by QR alone, not by {algorithm}: leave `implementation` out.")
    return _eigh_kernel(x, lapack("syevd", x.dtype), subset_by_index, mode=letter("V"), uplo=letter("L" if lower else "U"))


def _eigh_cuda(x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    numbers = {None: 0, EighImplementation.QR: 1, EighImplementation.JACOBI: 2}
    if algorithm not in numbers:
        raise NotImplementedError(f"eigh on GPUs is computed by QR or JACOBI, not by {algorithm}: leave `implementation` out.")
    return _eigh_kernel(x, "cusolver_syevd_ffi", subset_by_index, lower=lower, algorithm=np.uint8(numbers[algorithm]))


def _eigh_tpu(x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    if algorithm is EighImplementation.QR:
        raise NotImplementedError("eigh on TPUs is not computed by QR: leave `implementation` out.")
    if not x.size:
        return _selected(x, xnp.zeros(x.shape[:-1], dtypes.to_real(x.dtype)), subset_by_index)
    found = _tpu_eigh_p.bind(x, lower=lower, sort=sort_eigenvalues or subset_by_index is not None)
    return _selected(*found, subset_by_index)


def _eigh_jvp(primals, tangents, *, subset_by_index, **params):
    """From `A V = V W` with `V* V = 1`: W' is the diagonal of `V* A' V`, and what is beside it turns the vectors.

    The tangent of `x` counts as Hermitian.
    """
    [x], [x_t] = primals, tangents
    v, w = eigh_p.bind(x, subset_by_index=None, **params)
    matrix = product(adjoint(v), product(x_t, v))
    v_t, w_t = product(v, _turn(matrix, w)), xnp.real(_diagonal(matrix))
    return _selected(v, w, subset_by_index), _selected(v_t, w_t, subset_by_index)


eigh_p = factorization("eigh", _eigh_shape, jvp=_eigh_jvp, cpu=_eigh_cpu, cuda=_eigh_cuda, tpu=_eigh_tpu)
_tpu_eigh_p = factorization("tpu_eigh", lambda x, **_: _eigh_results(x)[:2])
# At most 100 sweeps, until what is beside the diagonal is 1e-6 of it.
_tpu_eigh_p.lowerings["tpu"] = lambda ctx, x, *, lower, sort: ctx.op(
    "stablehlo.custom_call", [x], call_target_name=lowering.mlir.string("Eigh"),
    backend_config=lowering.mlir.string(f"{int(lower)},{int(sort)},100,1e-6"))


def eigh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
         subset_by_index: tuple[int, int] | None = None,
         implementation: EighImplementation | None = None) -> tuple[Array, Array]:
    """`(v, w)`: eigenvectors of a Hermitian matrix, as columns, and its eigenvalues, from the least on.

    - `x`: the matrix.
    - `lower`: which triangle is read.
    - `symmetrize_input`: take `(x + x.conj().T) / 2` in place of `x`. Else derivatives are those for Hermitian changes.
    - `sort_eigenvalues`: whether their order matters.
    - `subset_by_index`: `(start, end)` of the eigenvalues asked for.
    - `implementation`: the algorithm to use.

    >>> v, w = lax.linalg.eigh(xnp.array([[2.0, 0.0], [0.0, 1.0]]))
    >>> w
    Array([1., 2.], dtype=float32)
    """
    return _eigh(x, bool(lower), bool(symmetrize_input), bool(sort_eigenvalues), _subset(subset_by_index), implementation)


@library(static=("lower", "symmetrize_input", "sort_eigenvalues", "subset_by_index", "algorithm"))
def _eigh(x, lower, symmetrize_input, sort_eigenvalues, subset_by_index, algorithm):
    x = floating("eigh", x)
    square("eigh", x, TypeError)
    return tuple(eigh_p.bind(symmetrized(x) if symmetrize_input else x, lower=lower, sort_eigenvalues=sort_eigenvalues,
                             subset_by_index=subset_by_index, algorithm=algorithm))


# All other square matrices


def _eig_shape(x, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    square("eig", x)
    dtype = dtypes.to_complex(x.dtype)
    return [(x.shape[:-1], dtype)] + [(x.shape, dtype)] * (compute_left_eigenvectors + compute_right_eigenvectors)


def _eig_kernel(x, target, sides, *, joint=False, **attributes):
    """`sides`: whether left, and whether right eigenvectors are asked for. `joint`: the kernel gives complex eigenvalues also
    of real matrices, and beside them the matrix that it overwrote."""
    dtype = dtypes.to_complex(x.dtype)
    if not x.size:
        return [xnp.zeros(x.shape[:-1], dtype)] + [xnp.zeros(x.shape, dtype)] * sum(sides)
    parts = [(x.shape[:-1], dtype)] if joint or x.dtype == dtype else [(x.shape[:-1], x.dtype)] * 2
    overwritten = [(x.shape, x.dtype)] if joint else []
    *found, vl, vr, info = call(target, [*overwritten, *parts, (x.shape, dtype), (x.shape, dtype), (x.shape[:-2], np.int32)], x,
                              aliases=[(0, 0)] if joint else [], **attributes)
    w = lax.complex(*found) if len(parts) == 2 else found[-1]
    return [succeeded(info, y) for y in [w] + [vl] * sides[0] + [vr] * sides[1]]


def _eig_cpu(x, *, compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs, implementation):
    if implementation not in (None, EigImplementation.LAPACK):
        raise ValueError(f"eig on CPUs is computed by LAPACK alone, not by {implementation}: leave `implementation` and "
                         f"`use_magma` out.")
    left, right = compute_left_eigenvectors, compute_right_eigenvectors
    return _eig_kernel(x, lapack("geev", x.dtype), (left, right), compute_left=letter("V" if left else "N"),
                       compute_right=letter("V" if right else "N"))


def _eig_cuda(x, *, compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs, implementation):
    left, right = compute_left_eigenvectors, compute_right_eigenvectors
    if implementation is EigImplementation.CUSOLVER:
        if left:
            raise NotImplementedError("eig by CUSOLVER has no left eigenvectors: use compute_left_eigenvectors=False, or leave "
                                      "`implementation` out.")
        return _eig_kernel(x, "cusolver_geev_ffi", (left, right), joint=True, left=left, right=right)
    # For arrays of GPUs, but on the CPU, unless MAGMA is installed; "auto" takes it for large matrices.
    magma = {None: "auto", EigImplementation.MAGMA: "on", EigImplementation.LAPACK: "off"}[implementation]
    target = "cuhybrid_eig_comp" if dtypes.is_complex(x.dtype) else "cuhybrid_eig_real"
    return _eig_kernel(x, target, (left, right), left=left, right=right, magma=magma)


def _normalized(v, v_t):
    """`v_t` for vectors that keep their length, and the phase with which their largest element is real."""
    v_t = v_t - v * xnp.real(xnp.sum(xnp.conj(v) * v_t, -2, keepdims=True)).astype(v.dtype)
    largest = xnp.argmax(xnp.abs(v), -2, keepdims=True)
    phase = xnp.imag(xnp.take_along_axis(v_t, largest, -2) / xnp.take_along_axis(v, largest, -2))
    return v_t - 1j * v * phase.astype(v.dtype)


def _eig_jvp(primals, tangents, *, compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs, implementation):
    """From `A R = R W`: W' is the diagonal of `R^-1 A' R`, where row i of `R^-1` is `l_i* / (l_i* r_i)` for left eigenvectors
    l_i, and what is beside it turns the vectors. Left eigenvectors are those of A*."""
    [x], [x_t] = primals, tangents
    left, right = compute_left_eigenvectors, compute_right_eigenvectors
    if (left or right) and not enable_eigvec_derivs:
        raise NotImplementedError(
            "eig has derivatives of eigenvectors only where eigenvalues differ and no vector has two elements of the largest "
            "size. If that holds for your matrices say so with enable_eigvec_derivs=True; if you need no vectors use "
            "compute_left_eigenvectors=False, compute_right_eigenvectors=False.")
    w, vl, vr = eig_p.bind(x, compute_left_eigenvectors=True, compute_right_eigenvectors=True,
                           enable_eigvec_derivs=enable_eigvec_derivs, implementation=implementation)
    scale = xnp.sum(xnp.conj(vl) * vr, -2)[..., :, None]
    inner = product(adjoint(vl), product(x_t.astype(w.dtype), vr))
    matrix = inner / scale
    found, moved = [w], [_diagonal(matrix)]
    if left:
        found.append(vl)
        moved.append(_normalized(vl, product(vl, _turn(adjoint(inner) / xnp.conj(scale), xnp.conj(w)))))
    if right:
        found.append(vr)
        moved.append(_normalized(vr, product(vr, _turn(matrix, w))))
    return found, moved


eig_p = factorization("eig", _eig_shape, jvp=_eig_jvp, cpu=_eig_cpu, cuda=_eig_cuda)


def eig(x: ArrayLike, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
        enable_eigvec_derivs: bool = False, implementation: EigImplementation | None = None,
        use_magma: bool | None = None) -> list[Array]:
    """`[w, vl, vr]`: eigenvalues of a square matrix, and as columns its left and its right eigenvectors, as far as asked for.

    They are complex; vectors have length one and a real largest element.

    - `x`: the matrix.
    - `compute_left_eigenvectors`, `compute_right_eigenvectors`: what to return beside the eigenvalues.
    - `enable_eigvec_derivs`: let vectors have derivatives, which exist where eigenvalues differ.
    - `implementation`: the library to use; `use_magma` is an older way to ask for one.

    >>> w, = lax.linalg.eig(xnp.array([[0.0, -1.0], [1.0, 0.0]]), compute_left_eigenvectors=False,
    ...                     compute_right_eigenvectors=False)
    >>> w
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    if implementation is None and use_magma is not None:
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.LAPACK
    return _eig(x, bool(compute_left_eigenvectors), bool(compute_right_eigenvectors), bool(enable_eigvec_derivs),
                implementation)


@library(static=("left", "right", "enable_eigvec_derivs", "implementation"))
def _eig(x, left, right, enable_eigvec_derivs, implementation):
    return eig_p.bind(operand("eig", x), compute_left_eigenvectors=left, compute_right_eigenvectors=right,
                      enable_eigvec_derivs=enable_eigvec_derivs, implementation=implementation)


# Singular values. Algorithms give `s, u, vh` without regard to `subset_by_index`; of the vectors nothing counts for not
# `compute_uv`.


def _svd_results(x, full_matrices, count=None):
    *batch, m, n = x.shape
    k = min_dim(m, n) if count is None else count
    return [((*batch, k), dtypes.to_real(x.dtype)), ((*batch, m, m if full_matrices else k), x.dtype),
            ((*batch, n if full_matrices else k, n), x.dtype)]


def _svd_shape(x, *, full_matrices, compute_uv, subset_by_index, algorithm):
    k = min_dim(*x.shape[-2:])
    span = _span("svd", subset_by_index, k)
    count = span.stop - span.start
    if count < k and full_matrices and compute_uv:
        raise ValueError(f"svd with subset_by_index={subset_by_index} gives {count} vectors, which is not what "
                         f"full_matrices=True asks for: use full_matrices=False.")
    return _svd_results(x, full_matrices, count)[:3 if compute_uv else 1]


def _svd_selected(found, *, full_matrices, compute_uv, subset_by_index, **_):
    s, *vectors = found
    if subset_by_index is not None:
        span = slice(*subset_by_index)
        s = s[..., span]
        if compute_uv and not full_matrices:
            u, vh = vectors
            vectors = [u[..., span], vh[..., span, :]]
    return [s, *vectors] if compute_uv else [s]


def _svd_empty(x, full_matrices):
    s, u, vh = _svd_results(x, full_matrices)
    return [xnp.zeros(*s), *[xnp.broadcast_to(xnp.eye(*shape[-2:], dtype=dtype), shape) for shape, dtype in (u, vh)]]


def _svd_kernel(x, target, results, count=3, **attributes):
    """The first `count` of what a kernel gives."""
    found = call(target, [(x.shape, x.dtype), *results, (x.shape[:-2], np.int32)], x, aliases=[(0, 0)], **attributes)
    return [succeeded(found[-1], y) for y in found[1:1 + count]]


def _svd_cpu(x, *, full_matrices, compute_uv, algorithm, **_):
    if algorithm is SvdAlgorithm.POLAR:
        return _svd_by_polar(x, full_matrices)
    if algorithm is SvdAlgorithm.JACOBI:
        raise NotImplementedError("svd on CPUs is not computed by Jacobi's rotations: leave `algorithm` out.")
    name = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    return _svd_kernel(x, lapack(name, x.dtype), _svd_results(x, full_matrices), count=3 if compute_uv else 1,
                       mode=letter("N" if not compute_uv else "A" if full_matrices else "S"))


def _svd_cuda(x, *, full_matrices, compute_uv, algorithm, **_):
    m, n = x.shape[-2:]
    k = min(m, n)
    if algorithm is SvdAlgorithm.DIVIDE_AND_CONQUER:
        raise NotImplementedError("svd on GPUs is not computed by divide and conquer: leave `algorithm` out.")
    if algorithm in (None, SvdAlgorithm.DEFAULT):
        algorithm = SvdAlgorithm.JACOBI if max(m, n) <= 1024 else SvdAlgorithm.QR
    if algorithm is SvdAlgorithm.QR:
        if m < n:  # the kernel takes no wide matrices
            s, *vectors = _svd_cuda(x.mT, full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm)
            return [s, *[y.mT for y in reversed(vectors)]]
        results = _svd_results(x, full_matrices)
        if not compute_uv:
            results[1:] = [((), x.dtype)] * 2
        found = _svd_kernel(x, "cusolver_gesvd_ffi", results, full_matrices=full_matrices, compute_uv=compute_uv,
                            transposed=False)
        return found if compute_uv else found[:1]
    # These give V, not its adjoint, and one of them all of its columns where there are few.
    letter_of = {SvdAlgorithm.JACOBI: "j", SvdAlgorithm.POLAR: "p"}
    whole = full_matrices or (algorithm is SvdAlgorithm.JACOBI and k <= 32)
    s, u, ((*batch, rows, columns), _) = _svd_results(x, whole)
    s, u, v = _svd_kernel(x, f"cusolver_gesvd{letter_of[algorithm]}_ffi", [s, u, ((*batch, columns, rows), x.dtype)],
                          full_matrices=whole, compute_uv=compute_uv)
    return [s, u, adjoint(v)] if full_matrices else [s, u[..., :k], adjoint(v)[..., :k, :]]


def _svd_tpu(x, *, full_matrices, compute_uv, algorithm, **_):
    if algorithm not in (None, SvdAlgorithm.DEFAULT, SvdAlgorithm.POLAR):
        raise NotImplementedError(f"svd on TPUs is computed by POLAR alone, not by {algorithm}: leave `algorithm` out.")
    return _svd_by_polar(x, full_matrices)


def _svd_by_polar(x, full_matrices):
    """From `x = U H` and `H = V S V*` follows `x = (U V) S V*`: Nakatsukasa and Higham 2013."""
    *batch, m, n = x.shape
    if batch:
        found = xf.vmap(lambda one: _svd_by_polar(one, full_matrices))(x.reshape(math.prod(batch), m, n))
        return [y.reshape(*batch, *y.shape[1:]) for y in found]
    if m < n:
        s, u, vh = _svd_by_polar(adjoint(x), full_matrices)
        return [s, adjoint(vh), adjoint(u)]
    outer = None
    if m > n:
        outer, x = qr(x, full_matrices=full_matrices)
        x = x[:n]
    polar, hermitian, *_ = qdwh(x)
    v, s = eigh(hermitian, symmetrize_input=False)
    s, v = xnp.maximum(s[::-1], 0), v[:, ::-1]
    # The vectors of singular values that are zero are zero in the product: they are completed.
    u, signs = qr(product(polar, v))
    u = u * xnp.where(xnp.real(xnp.diagonal(signs)) < 0, -1, 1).astype(u.dtype)
    if outer is not None:
        u = xnp.concatenate([product(outer[:, :n], u), outer[:, n:]], 1)
    return [s, u, adjoint(v)]


def _svd_on(algorithm):
    """The rule of a platform, by one of the functions above."""
    def rule(x, **params):
        return _svd_selected(algorithm(x, **params) if x.size else _svd_empty(x, params["full_matrices"]), **params)

    return rule


def _svd_jvp(primals, tangents, *, full_matrices, compute_uv, subset_by_index, algorithm):
    """From `A = U S V*`: with `P = U* A' V`, S' is the real diagonal of P, and what is beside it is `U*U' S - S V*V'`.

    That is solved by two skew matrices, one from the Hermitian part of P and one from the other: `U*U'` is their sum and
    `V*V'` their difference. Of phases, which may be anything, those of V stay. What A' adds outside of the columns of U (or
    of V) is added to them, and if all columns are asked for the others turn so that they stay orthogonal.
    """
    [a], [a_t] = primals, tangents
    params = dict(full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
    s, u, vh = svd_p.bind(a, full_matrices=full_matrices and compute_uv, compute_uv=True, subset_by_index=None,
                          algorithm=algorithm)
    (m, n), k = a.shape[-2:], s.shape[-1]
    v = adjoint(vh)
    u1, v1 = u[..., :k], v[..., :k]
    p = product(adjoint(u1), product(a_t, v1))
    s_t = xnp.real(_diagonal(p))
    if not compute_uv:
        return _svd_selected([s], **params), _svd_selected([s_t], **params)
    even = _turn((p + adjoint(p)) / 2, s)
    odd = _over((p - adjoint(p)) / 2, s[..., None, :] + s[..., :, None])
    u_t, v_t = product(u1, even + odd), product(v1, even - odd)
    if dtypes.is_complex(a.dtype):
        u_t = u_t + 1j * u1 * (xnp.imag(_diagonal(p)) / s)[..., None, :].astype(u1.dtype)
    if m > k:
        u_t = u_t + (product(a_t, v1) - product(u1, p)) / s[..., None, :].astype(u1.dtype)
    if n > k:
        v_t = v_t + (product(adjoint(a_t), u1) - product(v1, adjoint(p))) / s[..., None, :].astype(v1.dtype)
    u_t, v_t = _with_the_others(u, u_t), _with_the_others(v, v_t)
    return _svd_selected([s, u, vh], **params), _svd_selected([s_t, u_t, adjoint(v_t)], **params)


def _with_the_others(x, x_t):
    k = x_t.shape[-1]
    if x.shape[-1] == k:
        return x_t
    return xnp.concatenate([x_t, -product(x[..., :k], product(adjoint(x_t), x[..., k:]))], -1)


svd_p = factorization("svd", _svd_shape, jvp=_svd_jvp, cpu=_svd_on(_svd_cpu), cuda=_svd_on(_svd_cuda), tpu=_svd_on(_svd_tpu))


def svd(x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True, subset_by_index: tuple[int, int] | None = None,
        algorithm: SvdAlgorithm | None = None) -> Array | tuple[Array, Array, Array]:
    """`(u, s, vh)` with `u @ diag(s) @ vh` equal to a matrix: its singular values, from the largest on, and singular vectors.

    They are the columns of `u` and the rows of `vh`, which are orthonormal.

    - `x`: the matrix.
    - `full_matrices`: whether `u` and `vh` are square.
    - `compute_uv`: whether to return them; otherwise the result is `s`.
    - `subset_by_index`: `(start, end)` of the singular values asked for; of vectors it needs `full_matrices=False`.
    - `algorithm`: the one to use.

    >>> lax.linalg.svd(xnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    return _svd(x, bool(full_matrices and compute_uv), bool(compute_uv), _subset(subset_by_index), algorithm)


@library(static=("full_matrices", "compute_uv", "subset_by_index", "algorithm"))
def _svd(x, full_matrices, compute_uv, subset_by_index, algorithm):
    s, *vectors = svd_p.bind(operand("svd", x), full_matrices=full_matrices, compute_uv=compute_uv,
                             subset_by_index=subset_by_index, algorithm=algorithm)
    return (vectors[0], s, vectors[1]) if compute_uv else s
