"""Programs for TPU pods, compiled by libtpu on a machine without one. Collected where libtpu is installed, as in CI."""

import json
import os
import random
import time

import convolution_kernels
import fused_kernels
import library_kernels
import matrix_unit_kernels
import numpy as np
import programs_to_compile as programs
import pytest
import random_key_kernels
import sparse_core_kernels
import tpu_kernels
import value_kernels
from diverging_kernels import DIVERGING_KERNELS

import xlafront as xf
import xlafront.numpy as xnp
from benchmarks.libraries import Library
from benchmarks.models import sharded_training
from xlafront import NamedSharding, P
from xlafront.__main__ import main
from xlafront.experimental import pallas as pl, topologies
from xlafront.kernels.targets import Target
from xlafront.planning import schedules
from xlafront.runtime import clients
from xlafront.runtime.clients import PlatformError

pytestmark = pytest.mark.cpu_only


def over(mesh, shape, spec, dtype=np.float32):
    return xf.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


def test_a_missing_tpu_is_reported_at_once():
    """Libtpu queries the cloud's metadata server for minutes unless its settings are there."""
    started = time.monotonic()
    with pytest.raises(PlatformError, match="'tpu' could not be started") as raised:
        clients.Clients().get("tpu", {})
    assert time.monotonic() - started < 60 and raised.value.__cause__ is None
    assert "TPU_SKIP_MDS_QUERY" not in os.environ


PODS = {"v2:2x2": 8, "v3:2x2": 8, "v4:2x2x1": 8, "v4:8x8x16": 2048, "v5e:2x4": 8, "v5e:16x16": 256, "v5litepod:4x4": 16,
        "v5p:8x8x8": 512, "v5p:4x4x12": 192, "v5p:4x4x8_twisted": 128, "v4:4x8x8_twisted": 512, "v5e:1x1": 1, "V5E:8X16": 128,
        "v6e:16x16": 256, "v7x:2x2x1": 8}  # chips, times two where a chip is two devices


@pytest.mark.parametrize("name", PODS)
def test_devices(name):
    before = dict(os.environ)
    devices = topologies.get_topology_desc(name).devices
    assert len(devices) == PODS[name] == len({(*d.coords, d.core_on_chip) for d in devices})
    assert {d.platform for d in devices} == {"tpu"} and dict(os.environ) == before
    assert topologies.get_topology_desc(name).devices == devices  # the same objects: meshes over them are equal


def test_slices():
    devices = topologies.get_topology_desc("v5e:2x2", num_slices=2).devices
    assert len(devices) == 8 and {d.slice_index for d in devices} == {0, 1}


def test_a_step_on_two_slices_exchanges_gradients_over_the_network():
    """The compiler writes a program for one slice. What it sends to the other is an all-reduce of a shard of the gradient."""
    width, rows = 1024, 512
    mesh = topologies.make_mesh(topologies.get_topology_desc("2xv5e:2x2"), (2, 4), ("data", "fsdp"))
    assert [{d.slice_index for d in row} for row in mesh.devices] == [{0}, {1}]

    def step(w, x):
        return w - xf.grad(lambda w: xnp.mean((x @ w) ** 2))(w)

    found = xf.plan(step, over(mesh, (width, width), P("fsdp")), over(mesh, (rows, width), P(("data", "fsdp"))),
                    topology="2xv5e:2x2", mesh=mesh)
    by_scope = {(c.scope, c.axes): c for c in found.collectives}
    assert {scope for scope, _ in by_scope} == {"within slices", "between slices"} and {a for _, a in by_scope} == {
        ("fsdp",), ("data",)}
    exchanged = by_scope["between slices", ("data",)]
    assert (exchanged.kind, exchanged.bytes, exchanged.group_size) == ("all-reduce", 4 * width * width // 4, 2)
    assert found.seconds["collectives"] > exchanged.bytes / 3.125e9 and "data, between slices" in str(found)


@pytest.mark.parametrize("name, why", [("v5e", "v5e:4x4"), ("v5e:", "v5e:4x4|v5e:16x16"), ("v5e:3x5", "not divisible"),
                                       ("v5e:axb", "sizes after the colon"), ("v5e:4x4_bent", "sizes after the colon")])
def test_bad_shapes(name, why):
    with pytest.raises(ValueError, match=why):
        topologies.get_topology_desc(name)


@pytest.mark.parametrize("shape", [(256, 1), (128, 2), (16, 16), (4, 64)])
def test_a_gradient_over_256_devices(shape):
    mesh = topologies.make_mesh(topologies.get_topology_desc("v5e:16x16"), shape, ("data", "model"))
    scale = np.arange(1000, dtype=np.float32)  # a constant of the program

    def loss(w, x):
        return xnp.mean(xnp.tanh(x @ w) ** 2) + scale.sum() * 0

    w, x = over(mesh, (256, 512), P(None, "model")), over(mesh, (1024, 256), P("data"))
    lowered = xf.jit(xf.grad(loss), out_shardings=NamedSharding(mesh, P(None, "model"))).lower(w, x)
    compiled = lowered.compile()
    memory = compiled.memory_analysis()
    # at the least what the shards are, in tiles of 8 x 128 at the most
    model, data = 512 // shape[1], 1024 // shape[0]
    assert 4 * (256 * model + data * 256) <= memory.argument_size_in_bytes <= 4 * (256 * max(model, 128) + max(data, 8) * 256)
    assert compiled.output_shardings.shard_shape((256, 512)) == (256, model)
    # two products forward and backward, of this device's part
    assert compiled.cost_analysis()["flops"] >= 2 * 2 * data * 256 * model
    assert lowered.cost_analysis() is None or lowered.cost_analysis()["flops"] > 0
    assert ("all-reduce" in compiled.as_text()) == (shape[0] > 1)
    with pytest.raises(RuntimeError, match="not here"):
        compiled(np.ones((256, 512), np.float32), np.ones((1024, 256), np.float32))


def test_arrays_that_a_step_makes_of_host_values_are_constants():
    """The devices of a topology hold no arrays: `asarray` within a planned function must not put one there."""
    mask = np.tril(np.ones((64, 64), np.float32))

    def step(x):
        return xnp.sum(xnp.where(xnp.asarray(mask) > 0, x, 0.0)) + xnp.asarray([1.0, 2.0])[1]

    x = xf.ShapeDtypeStruct((64, 64), np.float32, sharding=P("data"))
    found = xf.plan(step, x, topology="v5e:2x2", mesh={"data": -1})
    assert found.fits and found.memory.arguments >= 64 * 64 * 4 // 4


def test_callbacks_are_refused():
    mesh = topologies.make_mesh(topologies.get_topology_desc("v5e:2x2"), (4,), ("data",))
    with pytest.raises(NotImplementedError, match="pure_callback"):
        xf.jit(lambda x: xf.pure_callback(np.sin, x, x)).lower(over(mesh, (8,), P("data"))).compile()


# A transformer's training step

SIZES = {"layers": 2, "width": 256, "heads": 16, "length": 64, "words": 512, "batch": 512}


def products(layers, width, heads, length, words, batch):
    """FLOPs of the matrix products of a step: those of the layers and of the logits go forward and twice backward, those
    that look words up once each way."""
    tokens = batch * length
    layer = 2 * tokens * width * (3 * width + width + 8 * width) + 2 * 2 * tokens * length * width
    return 3 * layers * layer + (3 + 2) * 2 * tokens * width * words


def parameters(layers, width, words, **_):
    return layers * (12 * width * width + width) + words * width


@pytest.mark.parametrize("data, model", [(256, 1), (16, 16)], ids=["data-parallel", "tensor-parallel"])
def test_a_training_step_for_256_chips(data, model):
    mesh = topologies.make_mesh(topologies.get_topology_desc("v5e:16x16"), (data, model), ("data", "model"))
    step, types = sharded_training(Library("xlafront"), mesh, **SIZES)
    plan = xf.plan(step, *types, topology="v5e:16x16")
    check_memory(plan, data, model)
    check_work(plan)
    check_collectives(plan, data, model)


def check_memory(plan, data, model):
    assert plan.device_kind == "TPU v5 lite" and plan.device_count == 256 and plan.fits and 15 << 30 < plan.memory.limit < 16 << 30
    held = 2 * 4 * parameters(**SIZES) // model  # parameters and momenta
    tokens = 2 * 4 * SIZES["batch"] * SIZES["length"] // data
    assert held < plan.memory.arguments < 1.3 * (held + 8 * tokens) and plan.memory.donated >= held
    assert {b.what.split("[")[0] for b in plan.buffers[:4]} <= {"argument parameters", "argument momenta", "result"}


def check_work(plan):
    assert 0.95 < plan.flops * 256 / products(**SIZES) < 1.3
    assert plan.seconds["compute"] == pytest.approx(plan.flops / 197e12) and plan.seconds["compiler"] > plan.seconds["compute"]
    assert plan.bytes_accessed > plan.memory.arguments


def check_collectives(plan, data, model):
    reduced = {axes: sum(c.bytes * c.times for c in plan.collectives if c.kind in ("all-reduce", "reduce-scatter") and c.axes == axes)
               for axes in {c.axes for c in plan.collectives}}
    gradients = 4 * parameters(**SIZES) / model
    assert 0.9 * gradients < sum(n for axes, n in reduced.items() if axes and "data" in axes) < 2 * gradients
    if model == 1:
        assert set(reduced) == {("data",)} and all(c.group_size == 256 for c in plan.collectives)
    else:  # twice forward and twice backward in each layer, of what a data group's tokens make; perhaps in bfloat16
        layer = 2 * SIZES["batch"] // data * SIZES["length"] * SIZES["width"]
        assert reduced[("model",)] >= 4 * SIZES["layers"] * layer
        assert {c.group_size for c in plan.collectives if c.axes in (("data",), ("model",))} == {16}


@pytest.mark.parametrize("chip", ["v2", "v3", "v4", "v5e", "v5p", "v6e"])
def test_the_compilers_estimate_is_near_the_chips_peak(chip):
    """Large products run near the peak rate; that they are ten, in a loop, counts on both sides."""
    n = 8192
    topology = f"{chip}:2x2x1" if chip in ("v4", "v5p") else f"{chip}:2x2"
    w = xf.ShapeDtypeStruct((n, n), "bfloat16")
    x = xf.ShapeDtypeStruct((n * len(topologies.get_topology_desc(topology).devices), n), "bfloat16", sharding=P("data"))
    plan = xf.plan(lambda x, w: xf.lax.scan(lambda h, _: (h @ w, None), x, None, length=10)[0], x, w, topology=topology)
    assert 10 * 2 * n**3 <= plan.flops < 10.1 * 2 * n**3
    assert 0.5 < plan.seconds["compute"] / plan.seconds["compiler"] < 1.05


def test_a_step_that_does_not_fit_names_its_largest_buffers():
    """Activations of 512 MiB for each of 64 layers are more than a v5e has, and less than a v5p has."""
    def step(w, x):
        return xf.grad(lambda w: xnp.mean(xf.lax.scan(lambda h, w: (xnp.sin(h @ w), None), x, w)[0]))(w)

    x = xf.ShapeDtypeStruct((8 * 65536, 2048), "float32", sharding=P("data"))
    w = xf.ShapeDtypeStruct((64, 2048, 2048), "float32")
    plan = xf.plan(step, w, x, topology="v5e:2x4")
    assert plan.fits is False and "15.75G" in plan.not_compiled and plan.memory.limit < plan.memory.total
    assert plan.buffers[0].bytes >= 64 * 65536 * 2048 * 2 and "[64,65536,2048]" in plan.buffers[0].type
    assert json.loads(plan.to_json())["fits"] is False and "DOES NOT FIT" in str(plan)


def test_a_step_that_fits_no_chip():
    x = xf.ShapeDtypeStruct((8 * 2**16, 2**16), "float32", sharding=P("data"))
    plan = xf.plan(lambda x: xnp.sin(x) @ xnp.ones((2**16, 2**19)), x, topology="v5e:2x4")
    assert plan.fits is False and plan.flops is None and plan.memory.total > 2**16 * 2**19 * 4
    assert {"argument x"} < {b.what for b in plan.buffers} and any(b.line.startswith(__file__) for b in plan.buffers)


def test_a_memory_limit_and_an_option_of_the_compiler():
    x = xf.ShapeDtypeStruct((8 * 4096, 4096), "float32", sharding=P("data"))
    assert xf.plan(xnp.sin, x, topology="v6e:2x4", memory_limit=2**20).fits is False
    tight = xf.plan(xnp.sin, x, topology="v6e:2x4", compiler_options={"xla_tpu_max_hbm_size_mib": 64})
    assert tight.fits is False and "exceeds" in tight.not_compiled


def test_the_step_of_pmap():
    """Each device has the whole parameters and its part of the batch, and exchanges the gradient."""
    def step(w, x, y):
        gradient = xf.grad(lambda w: xnp.mean((xnp.tanh(x @ w) - y) ** 2))(w)
        return w - 0.1 * xf.lax.pmean(gradient, "batch")

    devices = topologies.get_topology_desc("v5e:2x4").devices
    mapped = xf.pmap(step, axis_name="batch", in_axes=(None, 0, 0), out_axes=None, devices=devices)
    types = [xf.ShapeDtypeStruct(shape, "float32") for shape in ((128, 64 * 128), (8, 32, 128), (8, 32, 64 * 128))]
    plan = xf.plan(mapped, *types, topology="v5e:2x4")
    [only] = plan.collectives
    assert (only.kind, only.axes, only.group_size, only.bytes) == ("all-reduce", ("batch",), 8, 4 * 128 * 64 * 128)
    assert plan.device_count == 8 and plan.memory.arguments == 4 * (128 * 8192 + 32 * 128 + 32 * 8192)
    assert plan.memory.outputs == 4 * 128 * 8192 and plan.flops >= 2 * 2 * 32 * 128 * 8192
    compiled = mapped.lower(*types).compile()
    assert "all-reduce" in compiled.as_text()
    free = xf.plan(xf.pmap(step, axis_name="batch", in_axes=(None, 0, 0), out_axes=None), *types, topology="v5e:2x4")
    assert free.memory == plan.memory and free.collectives == plan.collectives  # it is over the devices of the topology


@pytest.mark.parametrize("rows", [512, 4096])
def test_parameters_sharded_over_the_data_axis(rows):
    """Each device receives the parts of the seven others, and sends seven parts of its gradient; the compiler may do so as a
    whole, or part by part while it computes, in a loop that it unrolls."""
    def step(w, x):
        return w - 0.1 * xf.grad(lambda w: xnp.mean((xnp.tanh(x @ w) - 1) ** 2))(w)

    w = xf.ShapeDtypeStruct((1024, 4096), "float32", sharding=P("data"))
    x = xf.ShapeDtypeStruct((8 * rows, 1024), "float32", sharding=P("data"))
    plan = xf.plan(xf.jit(step, donate_argnums=0, out_shardings=P("data")), w, x, topology="v5e:2x4")
    products = 2 * 2 * rows * 1024 * 4096
    assert products < plan.flops < 1.03 * products
    part = 2 * 1024 * 4096 // 8  # in bfloat16, as products take it
    moved = sum(c.bytes * c.times * {"collective-permute": 1, "all-reduce": 2}.get(c.kind, 7 / 8) for c in plan.collectives)
    assert 2 * 7 * part <= moved <= 2 * 2 * 10 * part
    assert plan.memory.donated == 4 * 1024 * 4096 // 8 and "result" not in {b.what for b in plan.buffers}
    assert not any("not counted" in note for note in plan.notes)


def test_the_largest_slice():
    mesh = topologies.make_mesh(topologies.get_topology_desc("v4:8x8x16"), (256, 8), ("data", "model"))
    step, types = sharded_training(Library("xlafront"), mesh, layers=1, width=128, heads=8, length=16, words=64)
    plan = xf.plan(step, *types)
    assert plan.device_count == 2048 and plan.fits and {c.axes for c in plan.collectives} >= {("data",), ("model",)}


@pytest.mark.parametrize("name", ["qr", "eigh", "svd", "derivative of svd", "qdwh"])
def test_linear_algebra(name):
    """A batch over four devices, by operations that this compiler expands."""
    linalg = xf.lax.linalg
    f = {"derivative of svd": xf.grad(lambda x: sum(xnp.sum(y) for y in linalg.svd(x, full_matrices=False))),
         "qdwh": xf.vmap(lambda x: linalg.qdwh(x)[:2])}.get(name) or getattr(linalg, name)
    mesh = topologies.make_mesh(topologies.get_topology_desc("v5e:2x2"), (4,), ("data",))
    compiled = xf.jit(f).lower(over(mesh, (8, 6, 6), P("data"))).compile()
    assert all(s.spec[0] == "data" for s in xf.tree.leaves(compiled.output_shardings))


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_each_family_of_operations(name):
    programs.check(name, topologies.get_topology_desc("v5e:1x1").devices[0])


def test_complex_matrices_over_several_devices():
    """For which the compiler's own QR ends the process."""
    mesh = topologies.make_mesh(topologies.get_topology_desc("v5e:2x2"), (4,), ("data",))
    text = xf.jit(xf.lax.linalg.qr).lower(over(mesh, (8, 4, 3), P("data"), np.complex64)).compile().as_text()
    assert "QrDecomposition" not in text


# Kernels


# Each kernel for two chips, and a sample of them for the newest.
ON_CHIPS = [(name, chip) for name in tpu_kernels.KERNELS for chip in ("v5e:1x1", "v6e:1x1")]
ON_CHIPS += [(name, "tpu7x:1x1x1") for name in random.Random(7).sample(sorted(tpu_kernels.KERNELS), 12)]


@pytest.mark.parametrize("name, chip", ON_CHIPS)
def test_kernels(name, chip):
    case, device = tpu_kernels.KERNELS[name], topologies.get_topology_desc(chip).devices[0]
    on_chip = xf.sharding.SingleDeviceSharding(device)
    types = [xf.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=on_chip) for x in case.arguments()]
    compiled = xf.jit(case.call(False)).lower(*types).compile()
    assert "tpu_custom_call" in compiled.as_text()


VALUES_ON_CHIPS = [(name, chip) for name, case in value_kernels.KERNELS.items() if "tpu" in case.targets
                   for chip in ("v5e:1x1", "v6e:1x1")]


@pytest.mark.parametrize("name, chip", VALUES_ON_CHIPS)
def test_functions_of_values(name, chip):
    case, device = value_kernels.KERNELS[name], topologies.get_topology_desc(chip).devices[0]
    on_chip = xf.sharding.SingleDeviceSharding(device)
    types = [xf.ShapeDtypeStruct(x.shape, x.dtype, sharding=on_chip) for x in case.arguments]
    assert "tpu_custom_call" in xf.jit(case.call(False)).lower(*types).compile().as_text()


@pytest.mark.parametrize("name", sparse_core_kernels.OPERATIONS)
def test_operations_of_sparse_cores(name):
    """The text is not read: jaxlib 0.10 cannot parse that of kernels which run beside the program."""
    compile_for("v6e:1x1", sparse_core_kernels.kernel_of(name, False), sparse_core_kernels.X)


@pytest.mark.parametrize("chip", ["v5e:1x1", "v6e:1x1", "tpu7x:1x1x1"])
def test_convolutions(chip):
    if convolution_kernels.has_convolutions():
        for name in convolution_kernels.CASES:
            compile_for(chip, convolution_kernels.kernel(name), *convolution_kernels.CASES[name][:2])


def test_scratch_in_main_memory_is_counted():
    def kernel(x_ref, o_ref, memory_ref):
        pl.tpu.sync_copy(x_ref, memory_ref)
        pl.tpu.sync_copy(memory_ref, o_ref)

    main = pl.BlockSpec(memory_space=pl.ANY)
    call = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((1024, 1024), "float32"), in_specs=[main], out_specs=main,
                          scratch_shapes=[pl.tpu.HBM((1024, 1024), "float32")])
    memory = compile_for("v5e:1x1", call, np.zeros((1024, 1024), np.float32)).memory_analysis()
    assert memory.temp_size_in_bytes >= 2**22 and memory.output_size_in_bytes == 2**22


@pytest.mark.parametrize("chip", ["v5e:1x1", "v6e:1x1", "tpu7x:1x1x1"])
def test_random_keys(chip):
    for name in random_key_kernels.CASES:
        compile_for(chip, random_key_kernels.kernel(name), random_key_kernels.WORDS)
    on_chip = xf.sharding.SingleDeviceSharding(topologies.get_topology_desc(chip).devices[0])
    for key in (xf.random.key(0), pl.tpu.to_pallas_key(xf.random.key(0))):
        xf.jit(random_key_kernels.of_key).lower(xf.ShapeDtypeStruct((), key.dtype, sharding=on_chip)).compile()


@pytest.mark.parametrize("chip", ["v5e:1x1", "v6e:1x1", "tpu7x:1x1x1"])
def test_products_of_high_precision(chip):
    x = np.zeros((128, 128), np.float32)
    compile_for(chip, pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., xf.lax.dot(x_ref[...], x_ref[...], precision="high")),
                                     out_shape=xf.ShapeDtypeStruct((128, 128), "float32")), x)


@pytest.mark.parametrize("chip", ["v6e:1x1", "tpu7x:1x1x1"])
def test_copies_of_slices_of_rows(chip):
    """Chips skip ignored rows only where they copy complete ones."""
    args = sparse_core_kernels.HALVES, sparse_core_kernels.SOME_INDICES
    compile_for(chip, sparse_core_kernels.slices_of_rows("columns", "from", ignored=None), *args)
    compile_for(chip, sparse_core_kernels.slices_of_rows("columns at run time", "to", ignored=None), *args)
    compile_for(chip, sparse_core_kernels.slices_of_rows("rows of rows", "to", is_tiled=False), *args)
    for name, is_tiled in (("columns", True), ("columns", False), ("rows of rows", True)):
        with pytest.raises(xf.errors.JaxRuntimeError, match=r"TPUs only skip complete rows.*use_tc_tiling_on_sc=False"):
            compile_for(chip, sparse_core_kernels.slices_of_rows(name, "from", is_tiled=is_tiled), *args)


@pytest.mark.parametrize("chip", ["v6e:1x1", "tpu7x:1x1x1"])
def test_scratch_memory_of_sparse_cores_in_hbm(chip):
    compile_for(chip, sparse_core_kernels.through_main_memory(False), sparse_core_kernels.LARGE[:8])


@pytest.mark.parametrize("kind", sparse_core_kernels.ROW_COPIES)
def test_copies_of_rows_by_sparse_cores(kind):
    compile_for("tpu7x:1x1x1", sparse_core_kernels.row_copies(kind, False), sparse_core_kernels.LARGE,
                sparse_core_kernels.indices_of(kind))


@pytest.mark.parametrize("chip", ["v5p:1x1x1", "v6e:1x1", "tpu7x:1x1x1"])
def test_kernels_on_sparse_cores(chip):
    if chip != "tpu7x:1x1x1":  # whose vectors are longer
        compile_for(chip, sparse_core_kernels.gathered(False), sparse_core_kernels.TABLE, sparse_core_kernels.INDICES)
    if chip != "v5p:1x1x1":  # where libtpu takes one scalar subcore
        compile_for(chip, sparse_core_kernels.summed(False), sparse_core_kernels.ROWS)
    if chip == "v6e:1x1":
        compile_for(chip, sparse_core_kernels.counted(False, 16), sparse_core_kernels.X)
        compile_for(chip, sparse_core_kernels.shared(False), sparse_core_kernels.SHARED)


def compile_for(chip, f, *args):
    on_chip = xf.sharding.SingleDeviceSharding(topologies.get_topology_desc(chip).devices[0])
    types = [xf.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=on_chip) for x in args]
    return xf.jit(f).lower(*types).compile()


@pytest.mark.parametrize("name", fused_kernels.FUSED)
def test_fused_kernels(name):
    assert "tpu_custom_call" in compile_for("v5e:1x1", fused_kernels.fused(name, False), *fused_kernels.ARGS).as_text()


@pytest.mark.parametrize("kernel, chip", [(matrix_unit_kernels.accumulated, "tpu7x:1x1x1")] + [
    (matrix_unit_kernels.queued, "v6e:1x1")] * matrix_unit_kernels.has_queues())
def test_matrix_units(kernel, chip):
    f = pl.pallas_call(kernel, matrix_unit_kernels.OUT)
    assert "tpu_custom_call" in compile_for(chip, f, matrix_unit_kernels.X, matrix_unit_kernels.Y).as_text()


DEVICE_KERNELS = tpu_kernels.DEVICE_KERNELS | DIVERGING_KERNELS


@pytest.mark.parametrize("name", DEVICE_KERNELS)
def test_kernels_of_several_devices(name):
    case = DEVICE_KERNELS[name]
    f, sharding = case.sharded(False, topologies.get_topology_desc("v5e:2x2").devices)
    types = [xf.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding) for x in case.arguments()]
    assert "tpu_custom_call" in xf.jit(f).lower(*types).compile().as_text()


LIBRARY_ON_CHIPS = [(name, chip) for name in library_kernels.COMPILED for chip in ("v5e:1x1", "v6e:1x1")]
LIBRARY_ON_CHIPS += [(name, "tpu7x:1x1x1") for name in random.Random(7).sample(sorted(library_kernels.COMPILED), 4)]


@pytest.mark.parametrize("name, chip", LIBRARY_ON_CHIPS)
def test_kernels_of_the_library(name, chip):
    case, device = library_kernels.CASES[name], topologies.get_topology_desc(chip).devices[0]
    on_chip = xf.sharding.SingleDeviceSharding(device)
    types = [xf.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=on_chip) for x in case.arguments()]
    compiled = xf.jit(case.function(Target("tpu", small=True))).lower(*types).compile()
    assert "tpu_custom_call" in compiled.as_text()


def test_an_error_of_the_kernel_compiler_names_the_line():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:, pl.ds(3 * pl.program_id(0), 128)]

    call = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((8, 128), "float32"), grid=2)
    on_chip = xf.sharding.SingleDeviceSharding(topologies.get_topology_desc("v5e:1x1").devices[0])
    where = rf"the kernel kernel, at .*test_compile_for_tpu.py:{kernel.__code__.co_firstlineno + 1} \(get\)"
    with pytest.raises(xf.errors.JaxRuntimeError, match=rf"{where}: an index into dimension 1 .* pl.multiple_of\(start, 128\)"):
        xf.jit(call).lower(xf.ShapeDtypeStruct((8, 512), "float32", sharding=on_chip)).compile()


KERNEL_SCRIPT = """
import xlafront as xf, xlafront.numpy as xnp
from xlafront.experimental import pallas as pl

def product(x_ref, y_ref, o_ref):
    o_ref[...] = xnp.dot(x_ref[...], y_ref[...], preferred_element_type=xnp.float32)

def step(x, y):
    rows, columns = pl.BlockSpec((ROWS, 256), lambda i, j: (i, 0)), pl.BlockSpec((256, 128), lambda i, j: (0, j))
    out = xf.ShapeDtypeStruct((2 * ROWS, 512), "float32")
    return xnp.tanh(pl.pallas_call(product, out, grid=(2, 4), in_specs=[rows, columns],
                                   out_specs=pl.BlockSpec((ROWS, 128), lambda i, j: (i, j)))(x, y))

def step_args():
    return xf.ShapeDtypeStruct((2 * ROWS, 256), "float32"), xf.ShapeDtypeStruct((256, 512), "float32")
"""


def test_plans_for_several_chips_have_their_kernels(tmp_path, capfd):
    script = tmp_path / "kernel.py"
    script.write_text("ROWS = 128" + KERNEL_SCRIPT)
    options = ["plan", f"{script}:step", "--topology", "v5e:1x1, v6e:1x1,v9:1x1"]
    assert main([*options, "--json"]) == 2
    *plans, failed = json.loads(capfd.readouterr().out)
    vmem = 2 * 4 * (128 * 256 + 256 * 128 + 128 * 128)  # two buffers for each block
    for plan, chip in zip(plans, ("v5e:1x1", "v6e:1x1"), strict=True):
        assert plan["topology"] == chip and plan["fits"]
        [kernel] = plan["kernels"]
        assert kernel == {"name": "product", "grid": [2, 4], "memory_space": "VMEM", "memory": vmem, "limit": 128 << 20,
                          "registers": None, "spilled": None, "schedule": None}
    assert failed["topology"] == "v9:1x1" and "there is no topology 'v9:1x1'" in failed["error"]
    assert main(options) == 2
    head, *lines = capfd.readouterr().out.splitlines()
    assert head == "step on 3 topologies" and [line.split()[0] for line in lines] == [
        "v5e:1x1", "product", "v6e:1x1", "product", "v9:1x1"]
    assert "640 KiB of 128 MiB VMEM" in lines[1] and lines[4].split()[1] == "FAILS:"


def test_plan_of_a_kernel_with_blocks_larger_than_the_memory(tmp_path, capfd):
    script = tmp_path / "kernel.py"
    script.write_text("ROWS = 65536" + KERNEL_SCRIPT)
    assert main(["plan", f"{script}:step", "--topology", "v5e:1x1,v6e:1x1"]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 3 and all("vmem" in line.lower() for line in lines[1:])


def test_schedules_of_kernels(tmp_path, capfd):
    script = tmp_path / "kernel.py"
    script.write_text("ROWS = 128" + KERNEL_SCRIPT)
    options = ["plan", f"{script}:step", "--topology", "v5e:1x1", "--schedule"]
    assert main([*options, "--json"]) == 0
    [kernel] = json.loads(capfd.readouterr().out)["kernels"]
    schedule = kernel["schedule"]
    matrix, busiest = schedule["units"]["MATMUL"], schedule["units"][schedule["bound"]]
    # A bundle starts 4 products of 8 rows and 128 columns.
    assert matrix["operations"] >= 128 * 256 * 128 // (8 * 128 * 128) and matrix["slots"] == 4 * schedule["bundles"]
    assert busiest["utilization"] == max([u["utilization"] for u in schedule["units"].values()]) <= 1
    assert schedule["bundles"] > schedule["empty"] and schedule["spills"] == 0
    assert main([*options[:3], "v5e:1x1,v6e:1x1", "--schedule"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [" ".join(line.split()[:3]) for line in lines[3::3]] == ["Schedule of product:"] * 2
    assert f"{schedule['bundles']} bundles" in lines[3] and f"bound by {schedule['bound']} (" in lines[3]


def test_table_of_a_schedule():
    text = """== CAPACITY:\nMATMUL, VALU, VLOAD:FILL, VSTORE, VSTORE:SPILL\n    4     4     3     1     1
== UTILIZATION:\n1 2 0 0 0\n0 0 0 0 0\n3 2 1 1 0\n0 1 0 1 1\n"""
    found = schedules.parse(text)
    assert {k: v for k, v in found.items() if k != "units"} == {"bundles": 4, "empty": 1, "bound": "VSTORE", "spills": 1, "fills": 1}
    assert found["units"]["VALU"] == {"operations": 5, "slots": 16, "utilization": 5 / 16}
    assert schedules.heading("k", found) == (
        "Schedule of k: 4 bundles, 1 of them empty; bound by VSTORE (vector stores), busy in 50% of its slots; 1 spills and 1 fills "
        "of registers")
    assert [row[0] for row in schedules.rows(found)] == ["VSTORE", "VALU", "MATMUL"]
    assert schedules.parse("") is None and schedules.read("nothing") is None


def test_refusal_for_lack_of_vector_memory_lists_what_takes_it():
    spec = pl.BlockSpec((8400, 128), lambda i: (i, 0))
    call = pl.pallas_call(lambda x_ref, o_ref, s: o_ref.__setitem__(..., x_ref[...]), grid=4, in_specs=[spec], out_specs=spec,
                          out_shape=xf.ShapeDtypeStruct((4 * 8400, 128), "float32"), name="large",
                          scratch_shapes=[pl.tpu.VMEM((12, 100), "bfloat16")])
    plan = xf.plan(call, xf.ShapeDtypeStruct((4 * 8400, 128), "float32"), topology="v5e:1x1")
    first, *table = plan.not_compiled.splitlines()
    assert "takes 16.41 MiB of VMEM, its limit is 16.00 MiB" in first and "vmem_limit_bytes" in first
    assert [line.split() for line in table] == [
        ["The", "kernel", "large", "takes"], ["args[0]", "float32[8400,", "128]", "2", "buffers", "8.203", "MiB"],
        ["outputs", "float32[8400,", "128]", "2", "buffers", "8.203", "MiB"],
        ["scratch_shapes[0]", "bfloat16[12,", "100]", "1", "buffer", "4", "KiB"], ["in", "all", "16.41", "MiB"]]


def test_kernels_ask_for_the_chip_that_they_are_compiled_for():
    seen = []

    def kernel(x_ref, o_ref):
        seen.append(pl.tpu.get_tpu_info().chip_version.value)
        o_ref[...] = x_ref[...]

    call = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((8, 128), "float32"))
    for chip in ("v5e:1x1", "v6e:1x1"):
        assert xf.plan(call, xf.ShapeDtypeStruct((8, 128), "float32"), topology=chip).fits
    assert seen == ["v5e", "v6e"]


VECTOR_AND_SCALAR_MEMORY = {"v3": "v3:2x2", "v4": "v4:2x2x1", "v5e": "v5e:1x1", "v5p": "v5p:2x2x1", "v6e": "v6e:1x1",
                            "v7x": "v7x:2x2x1"}


@pytest.mark.parametrize("chip", VECTOR_AND_SCALAR_MEMORY)
def test_sizes_of_memory_are_those_of_the_compiler(chip):
    info, device = pl.tpu.get_tpu_info(chip), topologies.get_topology_desc(VECTOR_AND_SCALAR_MEMORY[chip]).devices[0]
    x = xf.ShapeDtypeStruct((8, 128), "float32", sharding=xf.sharding.SingleDeviceSharding(device))
    vmem, smem = info.vmem_capacity_bytes, info.smem_capacity_bytes
    for scratch, message in ((pl.tpu.VMEM((1 << 20, 128), "float32"), f"of VMEM, the chip has {vmem >> 20} MiB"),
                             (pl.tpu.SMEM((1 << 20, 8), "int32"), f"exceed memory .size={smem}")):
        call = pl.pallas_call(lambda x_ref, o_ref, s: o_ref.__setitem__(..., x_ref[...]), out_shape=xf.ShapeDtypeStruct(
            (8, 128), "float32"), scratch_shapes=[scratch], compiler_params=pl.tpu.CompilerParams(vmem_limit_bytes=1 << 30))
        with pytest.raises(RuntimeError, match=message):
            xf.jit(call).lower(x).compile()
