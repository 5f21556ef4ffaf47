"""Programs for GPU machines, compiled by the CUDA plugin on a machine without one. Collected where the plugin is installed."""

import random

import kernels_for_gpus as kernels
import library_kernels
import numpy as np
import programs_to_compile as programs
import pytest
import value_kernels

import xlafront as xf
import xlafront.numpy as xnp
from benchmarks.libraries import Library
from benchmarks.models import sharded_training
from xlafront import NamedSharding, P, ffi, lax, nn, planning
from xlafront.base import config
from xlafront.experimental import pallas as pl, topologies
from xlafront.kernels.targets import Target
from xlafront.nn.cudnn_attention import attention
from xlafront.planning import hlo
from xlafront.runtime import topologies as runtime
from xlafront.sharding import SingleDeviceSharding

pytestmark = pytest.mark.cpu_only


@pytest.mark.parametrize("card", runtime.CARDS)
def test_every_card(card):
    topology = topologies.get_topology_desc(f"{card}:4")
    assert [d.device_kind for d in topology.devices] == [runtime.CARDS[card].description] * 4
    plan = xf.plan(lambda x, w: xnp.tanh(x @ w), xf.ShapeDtypeStruct((512, 256), "float16", sharding=P("data")),
                   xf.ShapeDtypeStruct((256, 128), "float16"), topology=f"{card}:4")
    assert plan.fits and plan.memory.arguments == 2 * (512 // 4 * 256 + 256 * 128) and not plan.collectives
    # the product, and one tanh (perhaps with conversions, or expanded) for each element of the result
    product, elements = 2 * 128 * 256 * 128, 128 * 128
    assert product < plan.flops < product + 100 * elements


def test_hosts_and_cards():
    devices = topologies.get_topology_desc("h100:4x8").devices
    assert len(devices) == 32 and sorted({d.process_index for d in devices}) == [0, 1, 2, 3]
    assert len(topologies.get_topology_desc("h100").devices) == 1
    own = topologies.get_topology_desc(platform="cuda", topology="1x1x2", target_config=runtime.target_config(runtime.CARDS["l4"]))
    assert [d.device_kind for d in own.devices] == ["NVIDIA L4"] * 2
    for name, why in (("h100:1x1x1x1", "no topology"), ("h100:0", "sizes"), ("", "h100:8")):
        with pytest.raises(ValueError, match=why):
            topologies.get_topology_desc(name, "cuda")


def test_a_training_step_over_eight_cards():
    sizes = {"layers": 2, "width": 256, "heads": 8, "length": 64, "words": 512, "batch": 64}
    mesh = topologies.make_mesh(topologies.get_topology_desc("h100:8"), (4, 2), ("data", "model"))
    step, types = sharded_training(Library("xlafront"), mesh, **sizes)
    plan = xf.plan(step, *types, topology="h100:8")
    parameters = 4 * (2 * (12 * 256 * 256 // 2 + 256) + 512 * 256 // 2)
    tokens = 4 * sizes["batch"] * sizes["length"] // 4
    assert plan.memory.arguments == 2 * (parameters + tokens) and plan.memory.donated == 2 * parameters
    axes = {c.axes for c in plan.collectives}
    assert ("data",) in axes and ("model",) in axes and {c.kind for c in plan.collectives} >= {"all-reduce"}
    # Products of float32 are computed in TF32, at half of the rate of bfloat16. They are most of the work.
    assert plan.fits and 1.9 < plan.seconds["compute"] / (plan.flops / runtime.CARDS["h100"].flops) < 2
    assert any("75%" in note for note in plan.notes) and "compiler" not in plan.seconds
    small = xf.plan(step, *types, topology="h100:8", memory_limit=2**20)
    assert small.fits is False and small.buffers[0].bytes >= max(4 * 256 * 1024 // 2, 4 * 512 * 256 // 2)


def test_stages():
    mesh = topologies.make_mesh(topologies.get_topology_desc("h100:4"), (4,), ("data",))
    lowered = xf.jit(xnp.sin).lower(xf.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding(mesh, P("data"))))
    compiled = lowered.compile()
    assert compiled.memory_analysis().argument_size_in_bytes == 4 * 8 and compiled.output_shardings.spec == P("data")
    assert lowered.cost_analysis() is None and compiled.cost_analysis() is None  # this compiler makes no estimate


def test_callbacks_are_refused():
    mesh = topologies.make_mesh(topologies.get_topology_desc("h100:4"), (4,), ("data",))
    x = xf.ShapeDtypeStruct((8,), np.float32, sharding=NamedSharding(mesh, P("data")))
    with pytest.raises(NotImplementedError, match="callbacks into Python"):
        xf.jit(lambda x: xf.pure_callback(np.sin, x, x)).lower(x).compile()


KERNELS = {
    "cholesky": (lambda x: lax.linalg.cholesky(x), "cusolver_potrf_ffi"), "lu": (lambda x: lax.linalg.lu(x), "cusolver_getrf_ffi"),
    "permutation of lu": (lambda x: lax.linalg.lu(x)[2], "cu_lu_pivots_to_permutation"),
    "triangular_solve": (lambda x: lax.linalg.triangular_solve(x, x), "__cublas$triangularSolve"),
    "tridiagonal_solve": (lambda x: lax.linalg.tridiagonal_solve(*[x[..., 0]] * 3, x), "cusparse_gtsv2_ffi"),
    "perturbed": (lambda x: lax.linalg.tridiagonal_solve(*[x[..., 0]] * 3, x, perturb_singular=True),
                  "cu_tridiagonal_solve_perturbed"),
    "symmetric_product": (lambda x: lax.linalg.symmetric_product(x, x), "cusolver_syrk_ffi"),
    "cholesky_update": (lambda x: lax.linalg.cholesky_update(x[0], x[0, 0]), "cu_cholesky_update_ffi"),
    "qr": (lax.linalg.qr, "cusolver_orgqr_ffi"), "eigh": (lax.linalg.eigh, "cusolver_syevd_ffi"),
    "qr with pivoting": (lambda x: lax.linalg.qr(x + 1j, pivoting=True), "cuhybrid_geqp3"),
    "eig": (lax.linalg.eig, "cuhybrid_eig_real"), "svd": (lax.linalg.svd, "cusolver_gesvdj_ffi"),
    "values of svd": (lambda x: lax.linalg.svd(x, compute_uv=False, algorithm=lax.linalg.SvdAlgorithm.QR), "cusolver_gesvd_ffi"),
    "tridiagonal": (lax.linalg.tridiagonal, "cusolver_sytrd_ffi"),
}


def test_random_bits():
    """By operations that XLA fuses, or by the plugin's kernel."""
    mesh = topologies.make_mesh(topologies.get_topology_desc("h100:4"), (4,), ("data",))
    keys = xf.ShapeDtypeStruct((8, 2), np.uint32, sharding=NamedSharding(mesh, P("data")))
    for kernel in (False, True):
        with config.threefry_gpu_kernel_lowering(kernel):
            text = xf.jit(xf.vmap(lambda k: xf.random.normal(k, (16,)))).lower(keys).compile().as_text()
        assert ("cu_threefry2x32_ffi" in text) == kernel


@pytest.mark.parametrize("name", KERNELS)
def test_linear_algebra_by_the_kernels_of_the_plugin(name):
    """The plugin has the kernel (without it the program would not compile), and a sharded batch stays sharded."""
    function, kernel = KERNELS[name]
    mesh = topologies.make_mesh(topologies.get_topology_desc("h100:4"), (4,), ("data",))
    matrices = xf.ShapeDtypeStruct((8, 4, 4), np.float32, sharding=NamedSharding(mesh, P("data")))
    text = xf.jit(function).lower(matrices).compile().as_text()
    assert f'custom_call_target="{kernel}"' in text
    assert "all-gather" not in text or name in ("symmetric_product", "cholesky_update")


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_each_family_of_operations(name):
    programs.check(name, topologies.get_topology_desc("h100:1").devices[0])


def test_functions_that_partition_themselves():
    """The plugin's partitioner calls us too, and errors are raised again as they were."""
    from xlafront.experimental.custom_partitioning import custom_partitioning

    mesh = xf.sharding.Mesh(np.array(topologies.get_topology_desc("h100:4", "cuda").devices).reshape(2, 2), ("x", "y"))
    x = xf.ShapeDtypeStruct((8, 128), np.float32, sharding=NamedSharding(mesh, P("x", "y")))

    @custom_partitioning
    def centred(x):
        return x - x.sum()

    def partition(mesh, args, result):
        return mesh, lambda x: x - lax.psum(x.sum(), ("x", "y")), result.sharding, (args[0].sharding,)

    centred.def_partition(partition, sharding_rule="i j -> i j")
    text = xf.jit(centred).lower(x).compile().as_text()
    assert "all-reduce" in text and "all-gather" not in text
    centred.def_partition(lambda mesh, args, result: {}["mine"], sharding_rule="i j -> i j")
    with pytest.raises(KeyError, match="mine"):
        xf.jit(lambda x: centred(x)).lower(x).compile()


def test_foreign_functions():
    """The plugin's compiler finds targets that are registered for it. (This handler is LAPACK's, and never runs.)"""
    from jaxlib.cpu import _lapack

    ffi.register_ffi_target("of_the_test", _lapack.registrations()["lapack_spotrf_ffi"], platform="CUDA")
    [device] = topologies.get_topology_desc("h100").devices
    x = xf.ShapeDtypeStruct((4,), "float32", sharding=xf.sharding.SingleDeviceSharding(device))
    compiled = xf.jit(lambda v: ffi.ffi_call("of_the_test", xf.ShapeDtypeStruct((4,), "float32"))(v)).lower(x).compile()
    assert "of_the_test" in compiled.as_text()
    with pytest.raises(xf.errors.JaxRuntimeError, match="nobody_registered") as caught:
        xf.jit(lambda v: ffi.ffi_call("nobody_registered", xf.ShapeDtypeStruct((4,), "float32"))(v)).lower(x).compile()
    assert any("register_ffi_target" in note for note in caught.value.__notes__)


def test_short_elementwise_loops_are_unrolled():
    """A turn of a loop is several launches; all of it is a kernel or a few."""
    def compiled(f, *types):
        device = SingleDeviceSharding(topologies.get_topology_desc("h100:1").devices[0])
        text = xf.jit(f, in_shardings=device, out_shardings=device).lower(*types).compile().as_text()
        return text[text.index("ENTRY"):]

    vector, table = (xf.ShapeDtypeStruct((n,), "float32") for n in (100_000, 1000))
    for f, types in ((xnp.searchsorted, (table, vector)), (lambda x: xnp.nonzero(x > 0, size=100), (vector,)),
                     (lambda x: lax.fori_loop(0, 20, lambda i, y: y - (y * y * y - x) / (3 * y * y), x), (vector,))):
        assert " while(" not in compiled(f, *types)
    assert " while(" in compiled(lambda x: lax.fori_loop(0, 1000, lambda i, y: y - (y * y * y - x) / (3 * y * y), x), vector)
    for step in (lambda i, y: xnp.fft.fft(y).real, lambda i, y: xnp.sin(y) * y):  # of which each sine costs XLA a tenth of a second
        assert " while(" in compiled(lambda x, step=step: lax.fori_loop(0, 5, step, x), vector)


def device_types(card, *types):
    device = SingleDeviceSharding(topologies.get_topology_desc(card).devices[0])
    return [xf.ShapeDtypeStruct(t.shape, t.dtype, sharding=device) for t in types]


def like(*shape, dtype="float32"):
    return xf.ShapeDtypeStruct(shape, dtype)


VECTOR, MATRIX = like(1_000_000), like(1024, 1024)
FEW_KERNELS = {  # name: function, types, the largest number of kernels outside of loops, and in a turn of a loop
    "sized nonzero": (lambda x: xnp.nonzero(x, size=1000), (VECTOR,), 7, 0),
    "sized nonzero, most elements": (lambda x: xnp.nonzero(x, size=500_000, fill_value=-1), (VECTOR,), 7, 0),
    "sized nonzero of a matrix": (lambda x: xnp.nonzero(x > 0, size=1000), (MATRIX,), 9, 0),
    "sized nonzero of a batch": (xf.vmap(lambda x: xnp.nonzero(x > 0, size=100)), (MATRIX,), 4, 0),
    "argmax": (xnp.argmax, (MATRIX,), 2, 0),
    "argmin of columns": (lambda x: xnp.argmin(x, 0), (MATRIX,), 1, 0),
    "attention of grouped heads": (nn.dot_product_attention, (like(4, 512, 8, 64), *[like(4, 512, 2, 64)] * 2), 7, 0),
    "gradient of a norm": (xf.grad(lambda x: xnp.linalg.norm(x, axis=1).sum()), (MATRIX,), 1, 0),
    "gradient of a cross entropy": (xf.grad(lambda x, i: -xnp.take_along_axis(nn.log_softmax(x), i[:, None], 1).mean()),
                                    (like(1024, 1000), like(1024, dtype="int32")), 6, 0),
    "gradient of rfft": (xf.grad(lambda x: xnp.abs(xnp.fft.rfft(x)).sum()), (MATRIX,), 3, 0),
    "nearest resize": (lambda x: xf.image.resize(x, (2048, 2048), "nearest"), (MATRIX,), 1, 0),
    "unrolled scan": (lambda c, xs: lax.scan(lambda c, x: (xnp.tanh(c + x), c * x), c, xs, unroll=4),
                      (like(256), like(200, 256)), 4, 4)}


@pytest.mark.parametrize("name", FEW_KERNELS)
def test_functions_of_few_kernels(name):
    """Each kernel takes microseconds to launch, as long as it computes for many functions."""
    function, types, outside, inside = FEW_KERNELS[name]
    module = hlo.Module(xf.jit(function).lower(*device_types("h100", *types)).compile().as_text())
    counts = {False: 0, True: 0}
    for computation, times, is_fused in module.walk():
        if not is_fused:
            counts[times > 1] += sum([i.opcode in ("fusion", "custom-call", "fft", "sort", "copy") for i in computation.instructions])
    assert counts[False] <= outside and counts[True] <= inside


def test_cudnn_attention_is_sharded_over_gpus():
    """Each computes its batches and heads; only the gradient of a bias that batches share is summed over them."""
    mesh = xf.sharding.Mesh(np.array(topologies.get_topology_desc("h100:4").devices).reshape(2, 2), ("data", "model"))
    split, shared = NamedSharding(mesh, P("data", None, "model")), NamedSharding(mesh, P(None, "model"))
    query, key = (xf.ShapeDtypeStruct((4, 256, heads, 64), "float16") for heads in (8, 4))
    bias = xf.ShapeDtypeStruct((1, 8, 256, 256), "float16")

    def loss(q, k, v, bias):
        return attention(q, k, v, bias, None, None, None, .1, True, None, False).astype("float32").sum()

    shardings = (split, split, split, shared)
    text = xf.jit(xf.grad(loss, (0, 1, 2, 3)), in_shardings=shardings, out_shardings=shardings).lower(
        query, key, key, bias).compile().as_text()
    assert "all-gather" not in text and "all-reduce" in text
    assert text.count('custom_call_target="__cudnn$fmhaScaleBiasSoftmax"') == 1 and "f16[2,4,256,64]" in text


TRITON_KERNELS = {
    "add": (kernels.add, [like(1000)] * 2), "matmul": (kernels.matmul, [like(64, 96), like(96, 64)]),
    "softmax": (kernels.softmax, [like(10, 128)]), "attention": (kernels.attention, [like(2, 64, 16)] * 3),
    "layer norm": (kernels.layer_norm, [like(8, 256), like(256)]),
    "gradient of the layer norm": (xf.grad(lambda x, s: kernels.layer_norm_with_gradient()(x, s).sum(), (0, 1)), [like(8, 256), like(256)]),
    "derivative of softmax": (lambda x: xf.jvp(kernels.softmax, (x,), (x,)), [like(8, 128)]),
    "batched matmul": (xf.vmap(kernels.matmul), [like(3, 64, 96), like(3, 96, 64)]),
    "batched attention": (xf.vmap(kernels.attention), [like(2, 2, 64, 16)] * 3),
    "masked and atomic operations": (kernels.masked_and_atomic, [like(13)]),
    "padded and sorted arrays": (kernels.padded_and_sorted, [like(8, 16)])}


@pytest.mark.parametrize("name", TRITON_KERNELS)
def test_kernels(name):
    function, types = TRITON_KERNELS[name]
    for card in ("a100", "h100", "rtx5090"):
        text = xf.jit(function).lower(*device_types(card, *types)).compile().as_text()
        assert "__gpu$xla.gpu.triton" in text or "triton" in text


VALUES_ON_CARDS = [(name, card) for name, case in value_kernels.KERNELS.items() if "cuda" in case.targets
                   for card in ("a100", "h100")]


@pytest.mark.parametrize("name, card", VALUES_ON_CARDS)
def test_functions_of_values(name, card):
    case = value_kernels.KERNELS[name]
    types = device_types(card, *[like(*x.shape, dtype=x.dtype) for x in case.arguments])
    text = xf.jit(case.call(False)).lower(*types).compile().as_text()
    assert "__gpu$xla.gpu.triton" in text or "triton" in text


LIBRARY_ON_CARDS = [(name, card) for name in library_kernels.COMPILED for card in ("a100", "h100")]
LIBRARY_ON_CARDS += [(name, "rtx5090") for name in random.Random(7).sample(sorted(library_kernels.COMPILED), 4)]


@pytest.mark.parametrize("name, card", LIBRARY_ON_CARDS)
def test_kernels_of_the_library(name, card):
    case = library_kernels.CASES[name]
    text = xf.jit(case.function(Target("cuda", small=True))).lower(*device_types(card, *case.arguments())).compile().as_text()
    assert "__gpu$xla.gpu.triton" in text or "triton" in text


def test_memory_of_kernels():
    def kernel(x, y, o):
        o[...] = x[...] @ y[...]

    function = xf.experimental.pallas.pallas_call(kernel, out_shape=like(256, 256))
    with pytest.raises(xf.errors.JaxRuntimeError, match="(?i)shared memory"):
        xf.jit(function).lower(*device_types("h100", like(256, 512), like(512, 256))).compile()


def test_plan_of_a_kernel_has_its_shared_memory_and_registers():
    def product(x, y, o):
        o[...] = x[...] @ y[...]

    call = xf.experimental.pallas.pallas_call(product, out_shape=like(64, 64))
    plan = planning.plan(call, like(64, 32), like(32, 64), topology="h100:1")
    [kernel] = plan.kernels
    assert (kernel.name, kernel.grid, kernel.memory_space) == ("product", (1, 1, 1), "shared memory")
    assert 0 < kernel.memory <= kernel.limit == 227 << 10 and 16 <= kernel.registers <= 255 and kernel.spilled == 0
    assert f"{kernel.registers} registers" in str(plan)


def test_kernels_in_ptx():
    """A kernel that is given as text is part of the compiled program."""
    call = ffi.ptx_call(kernels.PTX, like(128), grid=2, block=64)
    for function in (lambda x, y: xnp.sin(call(x, y)), lambda x, y: xf.vmap(call)(x[None], y[None])):
        text = xf.jit(function).lower(*device_types("h100", like(128), like(128))).compile().as_text()
        assert "__gpu$xla.gpu.ptx" in text and "fma.rn.f32" in text


def test_kernels_with_float8_e4m3fn_need_a_card_that_has_it():
    """Triton ends the process when it compiles such a kernel for an A100."""
    def convert(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(o_ref.dtype)

    def planned(dtype, card):
        kernel = pl.pallas_call(convert, out_shape=xf.ShapeDtypeStruct((64, 64), dtype))
        return xf.plan(kernel, xf.ShapeDtypeStruct((64, 64), "float8_e4m3fn"), topology=f"{card}:1")

    with pytest.raises(NotImplementedError, match=r"kernel convert .* compute capability 8.9 .* A100.* has 8.0"):
        planned("float32", "a100")
    assert planned("float32", "rtx4090").fits and planned("float8_e4m3fn", "a100").fits
