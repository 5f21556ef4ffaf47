"""Kernels called by linear algebra on other platforms, the same as in JAX. Nothing is compiled."""

import re

import numpy as np
import pytest

import xlafront as xf
from xlafront import lax
from xlafront.lowering import programs

linalg = lax.linalg
Svd, Eig, Eigh = linalg.SvdAlgorithm, linalg.EigImplementation, linalg.EighImplementation


def lowered(f, platform, *shapes, dtype="float32"):
    closed = xf.make_jaxpr(f)(*[xf.ShapeDtypeStruct(s, dtype) for s in shapes])
    options = programs.ModuleOptions(const_values=list(closed.consts))
    return str(programs.lower_program(closed.jaxpr, "f", programs.Target((platform,)), options).module)


def kernels(text):
    """Return targets in textual order, with attributes and result types."""
    found = []
    for target, rest in re.findall(r"stablehlo.custom_call @(\w+)\(([^\n]*)", text):
        attributes = re.search(r'backend_config = (?:\{(.*?)\}|"(.*?)")', rest)
        found.append((target, attributes and (attributes[1] or attributes[2] or ""), rest.split("->")[-1]))
    return found


SQUARE, TALL, WIDE = (2, 4, 4), (2, 5, 3), (2, 3, 5)
CUDA = [
    (linalg.qr, TALL, ["cusolver_geqrf_ffi", "cusolver_orgqr_ffi"], ""),
    (lambda x: linalg.qr(x, pivoting=True), TALL, ["cuhybrid_geqp3", "cusolver_orgqr_ffi"], 'magma = "auto"'),
    (lambda x: linalg.qr(x, pivoting=True, use_magma=True), TALL, ["cuhybrid_geqp3", "cusolver_orgqr_ffi"], 'magma = "on"'),
    (linalg.eigh, SQUARE, ["cusolver_syevd_ffi"], "algorithm = 0 : ui8, lower = true"),
    (lambda x: linalg.eigh(x, lower=False, implementation=Eigh.JACOBI), SQUARE, ["cusolver_syevd_ffi"],
     "algorithm = 2 : ui8, lower = false"),
    (linalg.eig, SQUARE, ["cuhybrid_eig_real"], 'left = true, magma = "auto", right = true'),
    (lambda x: linalg.eig(x + 1j, implementation=Eig.MAGMA, compute_left_eigenvectors=False), SQUARE, ["cuhybrid_eig_comp"],
     'left = false, magma = "on", right = true'),
    (lambda x: linalg.eig(x, use_magma=False), SQUARE, ["cuhybrid_eig_real"], 'left = true, magma = "off", right = true'),
    (lambda x: linalg.eig(x, implementation=Eig.CUSOLVER, compute_left_eigenvectors=False), SQUARE, ["cusolver_geev_ffi"],
     "left = false, right = true"),
    (linalg.svd, TALL, ["cusolver_gesvdj_ffi"], "compute_uv = true, full_matrices = true"),
    (lambda x: linalg.svd(x, full_matrices=False), TALL, ["cusolver_gesvdj_ffi"], "compute_uv = true, full_matrices = true"),
    (lambda x: linalg.svd(x, full_matrices=False), (33, 33), ["cusolver_gesvdj_ffi"], "compute_uv = true, full_matrices = false"),
    (lambda x: linalg.svd(x, compute_uv=False), (1025, 30), ["cusolver_gesvd_ffi"],
     "compute_uv = false, full_matrices = false, transposed = false"),
    (lambda x: linalg.svd(x, algorithm=Svd.QR), WIDE, ["cusolver_gesvd_ffi"],
     "compute_uv = true, full_matrices = true, transposed = false"),
    (lambda x: linalg.svd(x, algorithm=Svd.POLAR, full_matrices=False), WIDE, ["cusolver_gesvdp_ffi"],
     "compute_uv = true, full_matrices = false"),
    (linalg.tridiagonal, SQUARE, ["cusolver_sytrd_ffi"], "lower = true"),
    (lambda x: linalg.ormqr(x, x[:, 0], x, left=False, transpose=True), SQUARE, ["cusolver_ormqr_ffi"],
     "left = false, transpose = true"),
]


@pytest.mark.parametrize("case", range(len(CUDA)))
def test_cuda(case):
    f, shape, targets, attributes = CUDA[case]
    found = kernels(lowered(f, "cuda", shape))
    assert [target for target, *_ in found] == targets and found[0][1] == attributes


@pytest.mark.parametrize("case", range(len(CUDA)))
def test_rocm(case):
    """The kernels are the same, with other names."""
    f, shape, targets, attributes = CUDA[case]
    if "cusolver_geev_ffi" in targets:
        with pytest.raises(NotImplementedError, match="NVIDIA"):
            lowered(f, "rocm", shape)
        return
    found = kernels(lowered(f, "rocm", shape))
    assert [target for target, *_ in found] == ["hip" + target[2:] for target in targets] and found[0][1] == attributes


@pytest.mark.parametrize("f, targets", [
    (linalg.cholesky, ["hipsolver_potrf_ffi"]), (linalg.lu, ["hipsolver_getrf_ffi", "hip_lu_pivots_to_permutation"]),
    (lambda x: linalg.tridiagonal_solve(x[..., 0], x[..., 1], x[..., 2], x), ["hipsparse_gtsv2_ffi"]),
    (lambda x: linalg.cholesky_update(x[0], x[0, 0]), []), (lambda x: linalg.symmetric_product(x, x), []),
    (lambda x: linalg.svd(x, algorithm=Svd.DIVIDE_AND_CONQUER), ["hipsolver_gesdd_ffi"]),
])
def test_more_kernels_for_rocm(f, targets):
    assert [target for target, *_ in kernels(lowered(f, "rocm", SQUARE))] == targets


def test_shapes_of_singular_vectors():
    """Kernels that return V for a wide matrix; one that does not support wide matrices, and one without vectors."""
    def results(f, shape, platform="cuda"):
        [(*_, types)] = kernels(lowered(f, platform, shape))
        return re.findall(r"tensor<([0-9x]*?)x?[fi]32>", types)

    assert results(lambda x: linalg.svd(x, full_matrices=False, algorithm=Svd.POLAR), (2, 3, 5)) == \
        ["2x3x5", "2x3", "2x3x3", "2x5x3", "2"]
    assert results(lambda x: linalg.svd(x, full_matrices=False, algorithm=Svd.QR), (2, 3, 5)) == \
        ["2x5x3", "2x3", "2x5x3", "2x3x3", "2"]
    assert results(lambda x: linalg.svd(x, algorithm=Svd.DIVIDE_AND_CONQUER), (2, 3, 5), "rocm") == \
        ["2x3x5", "2x3", "2x3x3", "2x5x5", "2"]
    assert results(lambda x: linalg.svd(x, compute_uv=False, algorithm=Svd.QR), (2, 5, 3)) == ["2x5x3", "2x3", "", "", "2"]


TPU = [
    (linalg.qr, TALL, {"Qr", "ProductOfElementaryHouseholderReflectors"}),
    (linalg.eigh, SQUARE, {"Eigh"}),
    (lambda x: linalg.eigh(x, subset_by_index=(1, 3)), SQUARE, {"Eigh"}),
    (linalg.svd, WIDE, {"Qr", "ProductOfElementaryHouseholderReflectors", "Eigh"}),
    (lambda x: linalg.ormqr(x, x[:, 0], x), SQUARE, set()),
]


@pytest.mark.parametrize("case", range(len(TPU)))
def test_tpu(case):
    f, shape, targets = TPU[case]
    assert set(re.findall(r"custom_call @(\w+)", lowered(f, "tpu", shape))) == targets


def test_eigh_options_on_tpus():
    """Backend config: triangle, sorting, sweeps, tolerance."""
    for options, text in (({}, "1,1,100,1e-6"), ({"lower": False, "sort_eigenvalues": False}, "0,0,100,1e-6")):
        [(_, found, _)] = kernels(lowered(lambda x: linalg.eigh(x, **options), "tpu", SQUARE))  # noqa: B023
        assert found == text


@pytest.mark.parametrize(("f", "platform", "words"), [
    (lambda x: linalg.svd(x, algorithm=Svd.DIVIDE_AND_CONQUER), "cuda", "DIVIDE_AND_CONQUER"),
    (lambda x: linalg.svd(x, algorithm=Svd.QR), "tpu", "only POLAR"),
    (lambda x: linalg.svd(x, algorithm=Svd.JACOBI), "cpu", "JACOBI"),
    (lambda x: linalg.eigh(x, implementation=Eigh.JACOBI), "cpu", "CPUs.*only QR"),
    (lambda x: linalg.eigh(x, implementation=Eigh.QDWH), "cuda", "only QR and JACOBI"),
    (lambda x: linalg.eigh(x, implementation=Eigh.QR), "tpu", "does not support QR"),
    (lambda x: linalg.eig(x, implementation=Eig.CUSOLVER), "cuda", "not compute left eigenvectors"),
    (lambda x: linalg.qr(x, pivoting=True), "tpu", "pivoting=True cannot run on tpu"),
    (linalg.eig, "tpu", "eig cannot run on tpu"),
])
def test_unsupported_algorithms_raise(f, platform, words):
    with pytest.raises(NotImplementedError, match=words):
        lowered(f, platform, SQUARE)


def test_empty_matrices_need_no_kernel():
    """Empty matrices need no kernel."""
    for f in (linalg.qr, linalg.svd):
        assert not kernels(lowered(f, "cuda", (0, 3)))
    assert not kernels(lowered(linalg.eigh, "tpu", (0, 0)))
    assert np.prod(linalg.qr(np.ones((0, 3)))[1].shape) == 0
