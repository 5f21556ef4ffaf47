"""Eigenvalue and singular value decompositions."""

from __future__ import annotations

import enum
import math

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, lowering
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.linalg.kernels import (
    adjoint,
    call,
    factorization,
    hermitian,
    is_on_rocm,
    lapack,
    letter,
    operand,
    product,
    square,
    succeeded,
)
from xlafront.linalg.orthogonal import qr
from xlafront.linalg.polar import qdwh
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import min_dim


class EighImplementation(enum.Enum):
    """Algorithms of `eigh`: QR on CPUs and GPUs, Jacobi rotations on GPUs and TPUs, QDWH on TPUs.

    Example:
        >>> lax.linalg.EighImplementation("qr")
        <EighImplementation.QR: 'qr'>
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """Libraries of `eig`: LAPACK on the CPU, also for arrays on GPUs; cuSOLVER and MAGMA on GPUs.

    Example:
        >>> lax.linalg.EigImplementation("lapack")
        <EigImplementation.LAPACK: 'lapack'>
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class SvdAlgorithm(enum.Enum):
    """Algorithms of `svd`. CPUs have all but JACOBI, GPUs all but DIVIDE_AND_CONQUER, TPUs only POLAR.

    Example:
        >>> lax.linalg.SvdAlgorithm("polar")
        <SvdAlgorithm.POLAR: 'polar'>
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _subset_slice(name: str, subset: tuple | None, count: int) -> slice:
    """Return the slice of the requested values among `count`; all if `subset` is None."""
    start, end = subset or (0, count)
    if not 0 <= start <= end <= count:
        raise ValueError(f"{name} got subset_by_index=({start}, {end}) for a matrix with {count} values: pass (start, end) "
                         f"with 0 <= start <= end <= {count}.")
    return slice(start, end)


def _canonical_subset(subset) -> tuple | None:
    return None if subset is None else (int(subset[0]), int(subset[1]))


def _diagonal(x):
    return xnp.diagonal(x, axis1=-2, axis2=-1)


def _divide_off_diagonal(x, scale):
    """Compute `x / scale` with zeros on the diagonal, where `scale` may be zero."""
    diagonal = xnp.eye(x.shape[-1], dtype=bool)
    return xnp.where(diagonal, 0, x / xnp.where(diagonal, 1, scale).astype(x.dtype))


def _rotation(matrix, values):
    """Return `V^-1 V'` with a zero diagonal for eigenvectors V, given `matrix = V^-1 A' V`."""
    return _divide_off_diagonal(matrix, values[..., None, :] - values[..., :, None])


# Hermitian matrices


def _eigh_shape(x, *, subset_by_index, **_):
    n = square("eigh", x, ValueError)
    selection = _subset_slice("eigh", subset_by_index, n)
    count = selection.stop - selection.start
    return [((*x.shape[:-1], count), x.dtype), ((*x.shape[:-2], count), dtypes.to_real(x.dtype))]


def _eigh_results(x):
    return [(x.shape, x.dtype), (x.shape[:-1], dtypes.to_real(x.dtype)), (x.shape[:-2], np.int32)]


def _select(v, w, subset):
    selection = _subset_slice("eigh", subset, w.shape[-1])
    return [v[..., selection], w[..., selection]]


def _eigh_kernel(x, target, subset, **attributes):
    if not x.size:
        return _select(x, xnp.zeros(x.shape[:-1], dtypes.to_real(x.dtype)), subset)
    v, w, info = call(target, _eigh_results(x), x, aliases=[(0, 0)], **attributes)
    return _select(succeeded(info, v), succeeded(info, w), subset)


def _eigh_cpu(x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    if algorithm not in (None, EighImplementation.QR):
        raise NotImplementedError(f"eigh on CPUs supports only QR, not {algorithm}: omit `implementation`.")
    return _eigh_kernel(x, lapack("syevd", x.dtype), subset_by_index, mode=letter("V"), uplo=letter("L" if lower else "U"))


def _eigh_gpu(x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    codes = {None: 0, EighImplementation.QR: 1, EighImplementation.JACOBI: 2}
    if algorithm not in codes:
        raise NotImplementedError(f"eigh on GPUs supports only QR and JACOBI, not {algorithm}: omit `implementation`.")
    return _eigh_kernel(x, "cusolver_syevd_ffi", subset_by_index, lower=lower, algorithm=np.uint8(codes[algorithm]))


def _eigh_tpu(x, *, lower, sort_eigenvalues, subset_by_index, algorithm):
    if algorithm is EighImplementation.QR:
        raise NotImplementedError("eigh on TPUs does not support QR: omit `implementation`.")
    if not x.size:
        return _select(x, xnp.zeros(x.shape[:-1], dtypes.to_real(x.dtype)), subset_by_index)
    results = _tpu_eigh_p.bind(x, lower=lower, sort=sort_eigenvalues or subset_by_index is not None)
    return _select(*results, subset_by_index)


def _eigh_jvp(primals, tangents, *, subset_by_index, **params):
    """Differentiate the decomposition `A V = V W` with `V* V = 1`.

    W' is the diagonal of `V* A' V`; the off-diagonal part rotates the vectors. The tangent of `x` is assumed to be
    Hermitian.
    """
    [x], [x_t] = primals, tangents
    v, w = eigh_p.bind(x, subset_by_index=None, **params)
    matrix = product(adjoint(v), product(x_t, v))
    v_t, w_t = product(v, _rotation(matrix, w)), xnp.real(_diagonal(matrix))
    return _select(v, w, subset_by_index), _select(v_t, w_t, subset_by_index)


eigh_p = factorization("eigh", _eigh_shape, jvp=_eigh_jvp, cpu=_eigh_cpu, gpu=_eigh_gpu, tpu=_eigh_tpu)
# At most 100 sweeps, until the off-diagonal entries are 1e-6 of the diagonal.
_tpu_eigh_p = factorization("tpu_eigh", lambda x, **_: _eigh_results(x)[:2], lower={
    "tpu": lambda ctx, x, *, lower, sort: ctx.op(
        "stablehlo.custom_call", [x], call_target_name=lowering.mlir.string("Eigh"),
        backend_config=lowering.mlir.string(f"{int(lower)},{int(sort)},100,1e-6"))})


def eigh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
         subset_by_index: tuple[int, int] | None = None,
         implementation: EighImplementation | None = None) -> tuple[Array, Array]:
    """Compute eigenvalues, in ascending order, and eigenvectors of a Hermitian matrix.

    Args:
        x: Hermitian matrix.
        lower: If True, read the lower triangle, otherwise the upper one.
        symmetrize_input: If True, use `(x + x.conj().T) / 2` in place of `x`. Otherwise derivatives assume Hermitian
            tangents.
        sort_eigenvalues: If False, the order of the eigenvalues is unspecified.
        subset_by_index: Range `(start, end)` of the eigenvalues to return. Default: all.
        implementation: Algorithm to use. Default: the best one of the platform.

    Returns:
        `(v, w)`: eigenvectors as columns, and eigenvalues.

    Example:
        >>> v, w = lax.linalg.eigh(xnp.array([[2.0, 0.0], [0.0, 1.0]]))
        >>> w
        Array([1., 2.], dtype=float32)
    """
    return _eigh(x, bool(lower), bool(symmetrize_input), bool(sort_eigenvalues), _canonical_subset(subset_by_index),
                 implementation)


@library(static=("lower", "symmetrize_input", "sort_eigenvalues", "subset_by_index", "algorithm"))
def _eigh(x, lower, symmetrize_input, sort_eigenvalues, subset_by_index, algorithm):
    return tuple(eigh_p.bind(hermitian("eigh", x, symmetrize_input), lower=lower, sort_eigenvalues=sort_eigenvalues,
                             subset_by_index=subset_by_index, algorithm=algorithm))


# General square matrices


def _eig_shape(x, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    square("eig", x)
    dtype = dtypes.to_complex(x.dtype)
    return [(x.shape[:-1], dtype)] + [(x.shape, dtype)] * (compute_left_eigenvectors + compute_right_eigenvectors)


def _eig_kernel(x, target, sides, *, joint=False, **attributes):
    """Run a kernel for `eig`.

    `sides` has two booleans, whether to return left and right eigenvectors. If `joint`, the kernel returns complex
    eigenvalues also for real matrices, and the matrix that it overwrote.
    """
    dtype = dtypes.to_complex(x.dtype)
    if not x.size:
        return [xnp.zeros(x.shape[:-1], dtype)] + [xnp.zeros(x.shape, dtype)] * sum(sides)
    eigenvalue_shapes = [(x.shape[:-1], dtype)] if joint or x.dtype == dtype else [(x.shape[:-1], x.dtype)] * 2
    overwritten = [(x.shape, x.dtype)] if joint else []
    shapes = [*overwritten, *eigenvalue_shapes, (x.shape, dtype), (x.shape, dtype), (x.shape[:-2], np.int32)]
    *results, vl, vr, info = call(target, shapes, x, aliases=[(0, 0)] if joint else [], **attributes)
    w = lax.complex(*results) if len(eigenvalue_shapes) == 2 else results[-1]
    return [succeeded(info, y) for y in [w] + [vl] * sides[0] + [vr] * sides[1]]


def _eig_cpu(x, *, compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs, implementation):
    if implementation not in (None, EigImplementation.LAPACK):
        raise ValueError(f"eig on CPUs supports only LAPACK, not {implementation}: omit `implementation` and "
                         f"`use_magma`.")
    left, right = compute_left_eigenvectors, compute_right_eigenvectors
    return _eig_kernel(x, lapack("geev", x.dtype), (left, right), compute_left=letter("V" if left else "N"),
                       compute_right=letter("V" if right else "N"))


def _eig_gpu(x, *, compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs, implementation):
    left, right = compute_left_eigenvectors, compute_right_eigenvectors
    if implementation is EigImplementation.CUSOLVER:
        if is_on_rocm():
            raise NotImplementedError("eig by CUSOLVER is for NVIDIA GPUs: omit `implementation`.")
        if left:
            raise NotImplementedError("eig by CUSOLVER does not compute left eigenvectors: use "
                                      "compute_left_eigenvectors=False, or omit `implementation`.")
        return _eig_kernel(x, "cusolver_geev_ffi", (left, right), joint=True, left=left, right=right)
    # These targets run LAPACK on the CPU for arrays on GPUs, or MAGMA if it is installed; "auto" uses it for large matrices.
    magma = {None: "auto", EigImplementation.MAGMA: "on", EigImplementation.LAPACK: "off"}[implementation]
    target = "cuhybrid_eig_comp" if dtypes.is_complex(x.dtype) else "cuhybrid_eig_real"
    return _eig_kernel(x, target, (left, right), left=left, right=right, magma=magma)


def _normalize_tangent(v, v_t):
    """Project the tangent `v_t` so that vectors keep unit length and a real largest element."""
    v_t = v_t - v * xnp.real(xnp.sum(xnp.conj(v) * v_t, -2, keepdims=True)).astype(v.dtype)
    largest = xnp.argmax(xnp.abs(v), -2, keepdims=True)
    phase = xnp.imag(xnp.take_along_axis(v_t, largest, -2) / xnp.take_along_axis(v, largest, -2))
    return v_t - 1j * v * phase.astype(v.dtype)


def _eig_jvp(primals, tangents, *, compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs, implementation):
    """Differentiate the decomposition `A R = R W`.

    W' is the diagonal of `R^-1 A' R`; the off-diagonal part rotates the vectors. Row i of `R^-1` is `l_i* / (l_i* r_i)`
    for left eigenvectors l_i, which are the right eigenvectors of A*.
    """
    [x], [x_t] = primals, tangents
    left, right = compute_left_eigenvectors, compute_right_eigenvectors
    if (left or right) and not enable_eigvec_derivs:
        raise NotImplementedError(
            "eig has derivatives of eigenvectors only if eigenvalues are distinct and the largest element of each vector is "
            "unique. If this holds for your matrices, pass enable_eigvec_derivs=True; if you need no eigenvectors, pass "
            "compute_left_eigenvectors=False, compute_right_eigenvectors=False.")
    w, vl, vr = eig_p.bind(x, compute_left_eigenvectors=True, compute_right_eigenvectors=True,
                           enable_eigvec_derivs=enable_eigvec_derivs, implementation=implementation)
    scale = xnp.sum(xnp.conj(vl) * vr, -2)[..., :, None]
    inner = product(adjoint(vl), product(x_t.astype(w.dtype), vr))
    matrix = inner / scale
    primals_out, tangents_out = [w], [_diagonal(matrix)]
    if left:
        primals_out.append(vl)
        tangents_out.append(_normalize_tangent(vl, product(vl, _rotation(adjoint(inner) / xnp.conj(scale), xnp.conj(w)))))
    if right:
        primals_out.append(vr)
        tangents_out.append(_normalize_tangent(vr, product(vr, _rotation(matrix, w))))
    return primals_out, tangents_out


eig_p = factorization("eig", _eig_shape, jvp=_eig_jvp, cpu=_eig_cpu, gpu=_eig_gpu)


def eig(x: ArrayLike, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
        enable_eigvec_derivs: bool = False, implementation: EigImplementation | None = None,
        use_magma: bool | None = None) -> list[Array]:
    """Compute eigenvalues and, as columns, left and right eigenvectors of a square matrix.

    Eigenvectors have unit length and a real largest element.

    Args:
        x: Square matrix.
        compute_left_eigenvectors: If True, return the left eigenvectors.
        compute_right_eigenvectors: If True, return the right eigenvectors.
        enable_eigvec_derivs: If True, allow differentiating the eigenvectors, whose derivatives exist if the
            eigenvalues are distinct.
        implementation: Library to use. Default: the best one of the platform.
        use_magma: Older parameter: True for MAGMA, False for LAPACK.

    Returns:
        `[w, vl, vr]`, all complex, without the eigenvectors that are not requested.

    Example:
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


# Singular values. Algorithms return `s, u, vh` and ignore `subset_by_index`; if not `compute_uv`, the vectors are ignored.


def _svd_results(x, full_matrices, count=None):
    *batch, m, n = x.shape
    k = min_dim(m, n) if count is None else count
    return [((*batch, k), dtypes.to_real(x.dtype)), ((*batch, m, m if full_matrices else k), x.dtype),
            ((*batch, n if full_matrices else k, n), x.dtype)]


def _svd_shape(x, *, full_matrices, compute_uv, subset_by_index, algorithm=None):
    k = min_dim(*x.shape[-2:])
    selection = _subset_slice("svd", subset_by_index, k)
    count = selection.stop - selection.start
    if count < k and full_matrices and compute_uv:
        raise ValueError(f"svd with subset_by_index={subset_by_index} returns {count} vectors, which contradicts "
                         f"full_matrices=True: use full_matrices=False.")
    return _svd_results(x, full_matrices, count)[:3 if compute_uv else 1]


def _select_svd(results, *, full_matrices, compute_uv, subset_by_index, **_):
    s, *vectors = results
    if subset_by_index is not None:
        selection = slice(*subset_by_index)
        s = s[..., selection]
        if compute_uv and not full_matrices:
            u, vh = vectors
            vectors = [u[..., selection], vh[..., selection, :]]
    return [s, *vectors] if compute_uv else [s]


def _svd_empty(x, full_matrices):
    s, u, vh = _svd_results(x, full_matrices)
    return [xnp.zeros(*s), *[xnp.broadcast_to(xnp.eye(*shape[-2:], dtype=dtype), shape) for shape, dtype in (u, vh)]]


def _svd_kernel(x, target, results, count=3, **attributes):
    """Run a kernel and return its first `count` results."""
    outputs = call(target, [(x.shape, x.dtype), *results, (x.shape[:-2], np.int32)], x, aliases=[(0, 0)], **attributes)
    return [succeeded(outputs[-1], y) for y in outputs[1:1 + count]]


def _svd_cpu(x, *, full_matrices, compute_uv, algorithm=None, **_):
    if algorithm is SvdAlgorithm.POLAR:
        return _svd_by_polar(x, full_matrices)
    if algorithm is SvdAlgorithm.JACOBI:
        raise NotImplementedError("svd on CPUs does not support JACOBI: omit `algorithm`.")
    name = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    return _svd_kernel(x, lapack(name, x.dtype), _svd_results(x, full_matrices), count=3 if compute_uv else 1,
                       mode=letter("N" if not compute_uv else "A" if full_matrices else "S"))


def _svd_gpu(x, *, full_matrices, compute_uv, algorithm=None, **_):
    m, n = x.shape[-2:]
    k = min(m, n)
    if algorithm is SvdAlgorithm.DIVIDE_AND_CONQUER and not is_on_rocm():
        raise NotImplementedError("svd on NVIDIA GPUs does not support DIVIDE_AND_CONQUER: omit `algorithm`.")
    if algorithm in (None, SvdAlgorithm.DEFAULT):
        algorithm = SvdAlgorithm.JACOBI if max(m, n) <= 1024 else SvdAlgorithm.QR
    if algorithm in (SvdAlgorithm.QR, SvdAlgorithm.DIVIDE_AND_CONQUER):
        if m < n and algorithm is SvdAlgorithm.QR:  # the kernel does not support wide matrices
            s, *vectors = _svd_gpu(x.mT, full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm)
            return [s, *[y.mT for y in reversed(vectors)]]
        results = _svd_results(x, full_matrices)
        if not compute_uv:
            results[1:] = [((), x.dtype)] * 2
        name = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
        results = _svd_kernel(x, f"cusolver_{name}_ffi", results, full_matrices=full_matrices, compute_uv=compute_uv,
                              transposed=False)
        return results if compute_uv else results[:1]
    # These kernels return V, not its adjoint; the Jacobi kernel returns all columns of small matrices.
    letter_of = {SvdAlgorithm.JACOBI: "j", SvdAlgorithm.POLAR: "p"}
    full = full_matrices or (algorithm is SvdAlgorithm.JACOBI and k <= 32)
    s, u, ((*batch, rows, columns), _) = _svd_results(x, full)
    s, u, v = _svd_kernel(x, f"cusolver_gesvd{letter_of[algorithm]}_ffi", [s, u, ((*batch, columns, rows), x.dtype)],
                          full_matrices=full, compute_uv=compute_uv)
    return [s, u, adjoint(v)] if full_matrices else [s, u[..., :k], adjoint(v)[..., :k, :]]


def _svd_tpu(x, *, full_matrices, compute_uv, algorithm=None, **_):
    if algorithm not in (None, SvdAlgorithm.DEFAULT, SvdAlgorithm.POLAR):
        raise NotImplementedError(f"svd on TPUs supports only POLAR, not {algorithm}: omit `algorithm`.")
    return _svd_by_polar(x, full_matrices)


def _svd_by_polar(x, full_matrices):
    """Compute the SVD by the polar decomposition: `x = U H` and `H = V S V*` imply `x = (U V) S V*` (Nakatsukasa and
    Higham 2013)."""
    *batch, m, n = x.shape
    if batch:
        results = xf.vmap(lambda one: _svd_by_polar(one, full_matrices))(x.reshape(math.prod(batch), m, n))
        return [y.reshape(*batch, *y.shape[1:]) for y in results]
    if m < n:
        s, u, vh = _svd_by_polar(adjoint(x), full_matrices)
        return [s, adjoint(vh), adjoint(u)]
    q = None
    if m > n:
        q, x = qr(x, full_matrices=full_matrices)
        x = x[:n]
    polar, hermitian, *_ = qdwh(x)
    v, s = eigh(hermitian, symmetrize_input=False)
    s, v = xnp.maximum(s[::-1], 0), v[:, ::-1]
    # The vectors of zero singular values vanish in the product: QR completes them to an orthonormal basis.
    u, signs = qr(product(polar, v))
    u = u * xnp.where(xnp.real(xnp.diagonal(signs)) < 0, -1, 1).astype(u.dtype)
    if q is not None:
        u = xnp.concatenate([product(q[:, :n], u), q[:, n:]], 1)
    return [s, u, adjoint(v)]


def _svd_on(algorithm):
    """Return the lowering of a platform for one of the algorithms above."""
    def rule(x, **params):
        return _select_svd(algorithm(x, **params) if x.size else _svd_empty(x, params["full_matrices"]), **params)

    return rule


def _svd_jvp(primals, tangents, *, full_matrices, compute_uv, subset_by_index, algorithm=None):
    """Differentiate the decomposition `A = U S V*`.

    With `P = U* A' V`, S' is the real diagonal of P, and its off-diagonal part is `U*U' S - S V*V'`. This is solved by
    two skew matrices, one from the Hermitian part of P and one from the rest: `U*U'` is their sum and `V*V'` their
    difference. Phases are arbitrary; those of V stay constant. The part of A' outside of the columns of U (or V) is
    added to them; if all columns are requested, the others rotate so that they stay orthogonal.
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
        return _select_svd([s], **params), _select_svd([s_t], **params)
    even = _rotation((p + adjoint(p)) / 2, s)
    odd = _divide_off_diagonal((p - adjoint(p)) / 2, s[..., None, :] + s[..., :, None])
    u_t, v_t = product(u1, even + odd), product(v1, even - odd)
    if dtypes.is_complex(a.dtype):
        u_t = u_t + 1j * u1 * (xnp.imag(_diagonal(p)) / s)[..., None, :].astype(u1.dtype)
    if m > k:
        u_t = u_t + (product(a_t, v1) - product(u1, p)) / s[..., None, :].astype(u1.dtype)
    if n > k:
        v_t = v_t + (product(adjoint(a_t), u1) - product(v1, adjoint(p))) / s[..., None, :].astype(v1.dtype)
    u_t, v_t = _extend_tangent(u, u_t), _extend_tangent(v, v_t)
    return _select_svd([s, u, vh], **params), _select_svd([s_t, u_t, adjoint(v_t)], **params)


def _extend_tangent(x, x_t):
    k = x_t.shape[-1]
    if x.shape[-1] == k:
        return x_t
    return xnp.concatenate([x_t, -product(x[..., :k], product(adjoint(x_t), x[..., k:]))], -1)


svd_p = factorization("svd", _svd_shape, jvp=_svd_jvp, cpu=_svd_on(_svd_cpu), gpu=_svd_on(_svd_gpu), tpu=_svd_on(_svd_tpu))


def svd(x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True, subset_by_index: tuple[int, int] | None = None,
        algorithm: SvdAlgorithm | None = None) -> Array | tuple[Array, Array, Array]:
    """Compute the singular value decomposition `x == u @ diag(s) @ vh`, with singular values in descending order.

    The columns of `u` and the rows of `vh` are orthonormal.

    Args:
        x: Matrix.
        full_matrices: If True, `u` and `vh` are square.
        compute_uv: If False, return only `s`.
        subset_by_index: Range `(start, end)` of the singular values to return. Default: all. With vectors, it requires
            `full_matrices=False`.
        algorithm: Algorithm to use. Default: the best one of the platform.

    Returns:
        `(u, s, vh)`, or `s`.

    Example:
        >>> lax.linalg.svd(xnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
        Array([4., 3.], dtype=float32)
    """
    return _svd(x, bool(full_matrices and compute_uv), bool(compute_uv), _canonical_subset(subset_by_index), algorithm)


@library(static=("full_matrices", "compute_uv", "subset_by_index", "algorithm"))
def _svd(x, full_matrices, compute_uv, subset_by_index, algorithm):
    s, *vectors = svd_p.bind(operand("svd", x), full_matrices=full_matrices, compute_uv=compute_uv,
                             subset_by_index=subset_by_index, algorithm=algorithm)
    return (vectors[0], s, vectors[1]) if compute_uv else s
