"""Kernels lowered for TPUs: the emitted module, run by an evaluator in NumPy, against interpretation and NumPy.

No compiler and no TPU is needed; `tests/planning/test_compile_for_tpu.py` compiles these kernels.
"""

import functools

import convolution_kernels
import ml_dtypes
import mosaic_evaluator
import numpy as np
import pytest
import random_key_kernels
import tpu_kernels
from diverging_kernels import DIVERGING_KERNELS
from mosaic_evaluator import UndefinedBehavior

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, random
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu

pytestmark = pytest.mark.cpu_only


def module_text(f, *args):
    """The StableHLO text of a function lowered for TPUs."""
    check = xf.export.DisabledSafetyCheck.custom_call("tpu_custom_call")
    return xf.export.export(xf.jit(f), platforms=["tpu"], disabled_checks=[check])(*args).mlir_module()


def evaluated(f, *args, aliases=()):
    """Return the results of the only kernel of a function, by the evaluator."""
    [(module, _)] = mosaic_evaluator.modules(module_text(f, *args))
    results = [mosaic_evaluator.uninitialized(x.shape, np.dtype(np.int32) if x.dtype == bool else np.dtype(x.dtype))
               for x in xf.tree.leaves(xf.eval_shape(f, *args))]
    operands = [np.asarray(x).astype(np.int32) if np.asarray(x).dtype == bool else np.array(x) for x in args]
    run = mosaic_evaluator.run_kernel(module, operands, results, aliases)
    return results, run


@pytest.mark.parametrize("name", tpu_kernels.KERNELS)
def test_values(name):
    case = tpu_kernels.KERNELS[name]
    args = case.arguments()
    found, _ = evaluated(case.call(False), *args, aliases=case.aliases)
    interpreted = xf.tree.leaves(xf.jit(case.call(True))(*args))
    expected = xf.tree.leaves(case.expected(*args))
    assert len(found) == len(interpreted) == len(expected)
    for f, i, e in zip(found, interpreted, expected):
        compare = dict(rtol=case.tolerance, atol=case.tolerance)
        np.testing.assert_allclose(np.asarray(i, np.float64), np.asarray(e, np.float64), **compare)
        np.testing.assert_allclose(np.asarray(f, np.float64), np.asarray(e, np.float64), **compare)


DEVICE_KERNELS = tpu_kernels.DEVICE_KERNELS | DIVERGING_KERNELS


@pytest.mark.parametrize("name", DEVICE_KERNELS)
def test_values_on_devices(name):
    case = DEVICE_KERNELS[name]
    args, devices = case.arguments(), xf.devices()[:4]
    expected = case.expected(*args)
    compare = dict(rtol=case.tolerance, atol=case.tolerance)
    np.testing.assert_allclose(xf.jit(case.sharded(True, devices)[0])(*args), expected, **compare)
    [(module, config)] = mosaic_evaluator.modules(module_text(case.sharded(False, devices)[0], *args))
    assert config["custom_call_config"]["has_communication"] is True and config["custom_call_config"]["collective_id"] == 1
    results = np.split(mosaic_evaluator.uninitialized(expected.shape, expected.dtype), 4)
    mosaic_evaluator.run_on_devices(module, [list(x) for x in zip(*[np.split(x, 4) for x in args])], [[r] for r in results])
    np.testing.assert_allclose(np.concatenate(results), expected, **compare)


# The module and its configuration


def call(body, *args, shape=(8, 128), dtype="float32", **options):
    return module_text(pl.pallas_call(body, out_shape=xf.ShapeDtypeStruct(shape, dtype), **options), *args)


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


X = np.ones((8, 128), np.float32)


def config_of(text):
    [(module, config)] = mosaic_evaluator.modules(text)
    return str(module), config


def test_equal_kernels_have_equal_bytes():
    first, second = (call(lambda x, o: copy(x, o), X) for _ in range(2))
    assert first == second


def test_configuration():
    params = pltpu.CompilerParams(
        dimension_semantics=("parallel",), vmem_limit_bytes=1 << 20, has_side_effects=True, allow_input_fusion=[True],
        internal_scratch_in_bytes=8192, disable_bounds_checks=True, skip_device_barrier=True, shape_invariant_numerics=False,
        flags={"xla_tpu_some_flag": True}, collective_id=3, allow_collective_id_without_custom_barrier=True)
    text = call(copy, X, grid=1, name="my kernel", compiler_params=params, cost_estimate=pl.CostEstimate(1, 2, 3),
                metadata={"a": "b"})
    module, config = config_of(text)
    assert config["scoped_memory_configs"] == [{"memory_space": 1, "offset": 0, "size": 1 << 20}]
    assert config["flag_configs"] == [{"flag_type": "xla_tpu_some_flag", "value": {"boolean_value": True}}]
    assert config["custom_call_config"] == {
        "collective_id": 3, "serialization_format": 1, "needs_layout_passes": True, "allow_input_fusion": [True],
        "internal_scratch_in_bytes": 8192, "disable_bounds_checks": True, "skip_device_barrier": True,
        "shape_invariant_numerics": False,
        "cost_estimate": {"bytes_accessed": 3, "flops": 1, "remote_bytes_transferred": 0, "transcendentals": 2}}
    assert 'kernel_name = "my_kernel"' in text and "has_side_effect = true" in text
    assert r'kernel_metadata = "{\22a\22: \22b\22}"' in text
    assert "@my_kernel" in module and "dimension_semantics = [#tpu.dimension_semantics<parallel>]" in module


def test_options_for_sparse_cores():
    """Kernels of TensorCores always have their layouts chosen, as in JAX, and refuse options for SparseCores."""
    _, config = config_of(call(copy, X, compiler_params=pltpu.CompilerParams(needs_layout_passes=False)))
    assert config["custom_call_config"]["needs_layout_passes"] is True
    for name, value in (("opt_level", "O1"), ("use_tc_tiling_on_sc", False)):
        with pytest.raises(ValueError, match=f"{name} of pltpu.CompilerParams is only supported for kernels of SparseCores"):
            call(copy, X, compiler_params=pltpu.CompilerParams(**{name: value}))


def test_messages_name_the_line_of_partial_functions():
    """Kernels with options are often `functools.partial`."""
    def kernel(x_ref, o_ref, *, axis):
        o_ref[...] = xnp.cumprod(x_ref[...].astype(complex), axis).real

    with pytest.raises(NotImplementedError, match=f"kernel at .*test_mosaic.py:{kernel.__code__.co_firstlineno}"):
        call(functools.partial(kernel, axis=0), X)


def test_windows():
    module, _ = config_of(call(copy, np.ones((32, 128), np.float32), shape=(32, 128), grid=4, in_specs=[
        pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1))], out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0))))
    assert "iteration_bounds = array<i64: 4>" in module and module.count("window_bounds = array<i64: 8, 128>") == 2
    assert module.count("#tpu.pipeline_mode<synchronous>") == 1
    vmapped = xf.vmap(pl.pallas_call(copy, out_shape=xf.ShapeDtypeStruct((8, 128), "float32"), grid=1))
    module, _ = config_of(module_text(vmapped, np.stack([X, X])))
    assert "[#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>]" in module


def test_lines_of_the_user_are_locations():
    [(module, _)] = mosaic_evaluator.modules(call(copy, X))
    assert f"test_mosaic.py\":{copy.__code__.co_firstlineno + 1}:" in module.operation.get_asm(enable_debug_info=True)


def test_debug_print(capfd):
    def kernel(x_ref, o_ref):
        copy(x_ref, o_ref)
        pl.debug_print("at {}, $1", pl.program_id(0))

    _, run = evaluated(pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((8, 128), "float32"), grid=2), X)
    assert run.printed == ["at 0, $1", "at 1, $1"]


def test_the_evaluator_finds_undefined_behavior():
    def too_far(x_ref, o_ref):
        o_ref[...] = xnp.zeros((8, 128))
        o_ref[pl.ds(pl.program_id(0) * 4, 8), :] = x_ref[...]

    def not_waited(x_ref, o_ref, sem):
        copy = pltpu.make_async_copy(x_ref, o_ref, sem)
        copy.start()
        pl.when(pl.program_id(0) < 0)(copy.wait)

    def never_signalled(x_ref, o_ref, sem):
        pl.semaphore_wait(sem)

    for body, scratch in ((too_far, ()), (not_waited, [pltpu.SemaphoreType.DMA]), (never_signalled, [pltpu.SemaphoreType.REGULAR])):
        with pytest.raises(UndefinedBehavior):
            evaluated(pl.pallas_call(body, out_shape=xf.ShapeDtypeStruct((8, 128), "float32"), grid=2, scratch_shapes=scratch), X)


# Bad kernels


def body_of(function):
    def kernel(x_ref, o_ref, *scratch):
        o_ref[...] = function(x_ref, *scratch)

    return kernel


@pytest.mark.parametrize(("body", "options", "error", "message"), [
    (body_of(lambda x: xnp.tile(lax.linalg.cholesky(x[:, :8]), (1, 16))), {}, NotImplementedError,
     r"(?s)test_mosaic.py:\d+.*cholesky is not possible in kernels that are compiled for tpu.*interpret=True"),
    (body_of(lambda x: xnp.take_along_axis(xnp.tile(x[...], (256, 1)), x[...].astype("int32"), 0)), {}, NotImplementedError,
     r"test_mosaic.py:\d+.*a gather out of 2048 positions along dimension 0 .*Gather out of up to 1024"),
    (body_of(lambda x: lax.gather(x[...], xnp.zeros((8, 1), int), lax.GatherDimensionNumbers((1, 2), (), (0,)), (2, 64)).sum() + x[...]), {},
     NotImplementedError, r"test_mosaic.py:\d+.*gather of windows of shape \(2, 64\) out of \(8, 128\)"),
    (body_of(lambda x: lax.scatter_add(x[...], xnp.zeros((8, 1), int), xnp.zeros((8, 2, 128)), lax.ScatterDimensionNumbers(
        (1, 2), (), (0,)))), {}, NotImplementedError, r"scatter-add of windows of shape \(2, 128\) into \(8, 128\)"),
    (lambda x, o: o.__setitem__(..., xnp.sum(x[...])), {"shape": ()}, NotImplementedError, r"writes outputs.* a scalar in VMEM.*\(1, 1\)"),
    (lambda x, o: o.__setitem__((), x[0, 0]), {"shape": (), "grid": 1}, ValueError, r"is a scalar in VMEM.*shape \(1, 1\)"),
    (copy, {"in_specs": [pl.BlockSpec(memory_space=pl.ANY)]}, NotImplementedError, r"args\[0\], a reference in any.*sync_copy"),
    (copy, {"in_specs": [pl.BlockSpec(memory_space=pltpu.SMEM)]}, NotImplementedError, "in scalar memory.*with an integer"),
    (lambda *refs: None, {"grid": 2, "in_specs": [pl.BlockSpec((3, 128), lambda i: (i, 0))]}, ValueError,
     r"args\[0\].*the size 3 of the second last dimension must be a multiple of 8 or that of the array, 8"),
    (lambda *refs: None, {"grid": 2, "in_specs": [pl.BlockSpec((8, 64), lambda i: (0, i))]}, ValueError, "size 64 of the last dimension"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))]},
     NotImplementedError, r"args\[0\].*has 3 buffers"),
    (lambda *refs: None, {"grid": 1, "in_specs": [pl.BlockSpec((4, 128), lambda i: (i, 0), memory_space=pltpu.HBM)]}, ValueError,
     r"args\[0\].*blocks in hbm"),
    (lambda *refs: None, {"out_specs": pl.BlockSpec(memory_space=pl.HOST)}, ValueError, "outputs, .* is in host, where"),
    (lambda *refs: None, {"in_specs": [pl.BlockSpec(memory_space=pltpu.SEMAPHORE)]}, ValueError, "is in semaphore_mem, where"),
    (lambda *refs: None, {"scratch_shapes": [pltpu.VMEM_SHARED((8, 128), "float32")]}, ValueError,
     r"scratch_shapes\[0\].*is in vmem_shared; scratch memory of TPU kernels is in VMEM, SMEM, HBM or ANY"),
    (lambda *refs: pl.run_scoped(lambda ref: None, pltpu.CMEM((8, 128), "float32")), {}, NotImplementedError,
     "scratch memory of type .* Use pltpu.VMEM"),
    (copy, {"in_specs": [pl.BlockSpec((pl.BoundedSlice(8), 128), lambda: (0, 0))]}, TypeError, r"must return pl.ds\(start, size\)"),
    (copy, {"in_specs": [pl.BlockSpec((pl.BoundedSlice(8), 128), lambda: (pl.ds(0, 4), 0))]}, NotImplementedError,
     "a slice of 4 positions .* are for pltpu.emit_pipeline"),
    (copy, {"in_specs": [pl.BlockSpec((pl.Indirect(8), 128), lambda: (0, 0))]}, NotImplementedError, "which pallas_call does not"),
    (copy, {"compiler_params": pl.triton.CompilerParams()}, TypeError, r"triton.CompilerParams. Give pltpu.CompilerParams"),
    (copy, {"grid": 2, "compiler_params": pltpu.CompilerParams(dimension_semantics=("parallel",) * 2)}, ValueError,
     "dimension_semantics has 2 entries for a grid of 1 axes"),
    (copy, {"grid": 1, "compiler_params": pltpu.CompilerParams(dimension_semantics=("fast",))}, ValueError, "got 'fast'"),
    (copy, {"compiler_params": pltpu.CompilerParams(allow_input_fusion=[True] * 3)}, ValueError, "3 entries for 1 arguments"),
    (copy, {"compiler_params": pltpu.CompilerParams(collective_id=1)}, ValueError, "no barrier semaphore uses it"),
    (copy, {"compiler_params": pltpu.CompilerParams(flags={"a": "b"})}, ValueError, "the flag a .* got 'b'"),
    (body_of(lambda x: x[xnp.arange(8)]), {}, NotImplementedError, r"an index array of shape \(8,\) into args\[0\]"),
    (body_of(lambda x: lax.scan(lambda c, r: (c, r), 0, x[...].T)[1].T), {}, NotImplementedError, "scan over more than 64 slices"),
    (body_of(lambda x, s: [pl.semaphore_signal(s), pl.semaphore_wait(s), x[...]][2]), {"scratch_shapes": [pltpu.SemaphoreType.DMA]},
     ValueError, "of the kind REGULAR or BARRIER, got one of the kind DMA.*SemaphoreType.REGULAR"),
    (body_of(lambda x, s: [pltpu.async_copy(x, x, s).wait(), x[...]][1]), {"scratch_shapes": [pltpu.SemaphoreType.REGULAR]},
     ValueError, "of the kind DMA, got one of the kind REGULAR.*SemaphoreType.DMA"),
    (lambda x, o, s: [pltpu.make_async_copy(x, o, s).start()][1:] or None, {"scratch_shapes": [pltpu.SemaphoreType.DMA]}, ValueError,
     r"the semaphore scratch_shapes\[0\] is signaled at .*test_mosaic.py:\d+ and never waited for"),
    (lambda x, o, s: pl.when(pl.program_id(0) == 0)(lambda: pl.semaphore_signal(s)), {
        "scratch_shapes": [pltpu.SemaphoreType.REGULAR], "grid": 2}, ValueError, r"scratch_shapes\[0\] is signaled at .* never waited"),
    (lambda x, o: pl.run_scoped(lambda s: lax.fori_loop(0, 2, lambda i, _: pl.semaphore_signal(s), None),
                                pltpu.SemaphoreType.REGULAR), {}, ValueError, "a semaphore of run_scoped is signaled at .* never"),
    (lambda x, o, s: [pltpu.async_copy(x.at[:4], o, s)][1:] or None, {"scratch_shapes": [pltpu.SemaphoreType.DMA]}, ValueError,
     r"between references of one type, got float32\[4, 128\]"),
    (copy, {"compiler_params": pltpu.CompilerParams(vmem_limit_bytes=-1)}, ValueError, "vmem_limit_bytes .* positive"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((8, 128), lambda i, j: (i, j))]}, TypeError,
     r"index map .* of args\[0\] must take 1 indices of the grid: missing a required argument: 'j'"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((8, 128), lambda i: i)]}, ValueError, r"args\[0\] must return 2 values"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((8, 128), lambda i: (0.5 * i, 0))]}, ValueError, "must return integer scalars"),
    (body_of(lambda x: x[...] + xnp.asarray(X)), {}, ValueError, "captures constants"),
    (lambda x, o: o.__setitem__(9, x[0]), {}, ValueError, "index 9 is out of bounds for dimension 0"),
    (copy, {"interpret": "yes"}, TypeError, "interpret as True, False or pltpu.InterpretParams, got 'yes'"),
    (body_of(lambda x: lax.dot(x[...], x[...].T, precision=lax.DotAlgorithmPreset.BF16_BF16_F32) @ x[...]), {}, NotImplementedError,
     "Precision.DEFAULT, HIGH or HIGHEST"),
])
def test_refused_before_the_compiler(body, options, error, message):
    with pytest.raises(error, match=message):
        call(body, X, **options)


def test_scratch_in_main_memory():
    """It is a result of the call, once for each step of a parallel axis; steps of vmap share it."""
    hbm = [pltpu.HBM((16, 128), "float32")]

    def lowered(semantics, scratch, x=X, of=lambda f: f):
        def kernel(x_ref, o_ref, *refs):
            if not refs:
                pl.run_scoped(lambda ref: pltpu.sync_copy(x_ref, ref), pltpu.HBM((8, 128), x.dtype))
            o_ref[...] = x_ref[...]

        f = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((8, 128), x.dtype), grid=(2, 3), scratch_shapes=scratch,
                           compiler_params=pltpu.CompilerParams(dimension_semantics=semantics))
        text = module_text(of(f), x)
        return text, str(mosaic_evaluator.modules(text)[0][0])

    for semantics, shape in ((None, "16x128"), (("arbitrary", "parallel"), "3x16x128"), (("parallel", "parallel"), "2x3x16x128")):
        text, module = lowered(semantics, hbm)
        assert f"-> (tensor<8x128xf32>, tensor<{shape}xf32>)" in text and "scratch_operands = 0" in module
        assert f"memref<{shape}xf32, #tpu.memory_space<hbm>>" in module
    text, module = lowered(None, hbm, np.stack([X] * 4), xf.vmap)
    assert "tensor<16x128xf32>" in text and "#tpu.dimension_semantics<parallel>" not in module
    assert "tensor<8x128xi8>)" in lowered(None, (), X.astype(np.int8))[0]
    with pytest.raises(ValueError, match='scratch memory .* a parallel axis of .* Make the axis "arbitrary"'):
        module_text(lambda n, x: pl.pallas_call(
            lambda *refs: None, out_shape=xf.ShapeDtypeStruct((8, 128), "float32"), grid=n, scratch_shapes=hbm,
            compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))(x), np.int32(3), X)


@pytest.mark.parametrize("name", convolution_kernels.CASES)
def test_convolutions(name):
    x, w, *_ = convolution_kernels.CASES[name]
    expected = convolution_kernels.expected(name)
    np.testing.assert_allclose(convolution_kernels.kernel(name, True)(x, w), expected, rtol=1e-5)
    if not convolution_kernels.has_convolutions():
        with pytest.raises(NotImplementedError, match="conv_general_dilated with this version of jaxlib.* Install jaxlib 0.12"):
            evaluated(convolution_kernels.kernel(name), x, w)
        return
    [found], _ = evaluated(convolution_kernels.kernel(name), x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_convolutions_with_reversed_windows():
    x, w, *_ = convolution_kernels.CASES["windows"]
    expected = x + convolution_kernels.convolve(x, w[::-1], ((1, 1), (1, 1)), (1, 1), (1, 1), (1, 1))
    np.testing.assert_allclose(convolution_kernels.reversed_windows(True)(x, w), expected, rtol=1e-5)
    if convolution_kernels.has_convolutions():
        [found], _ = evaluated(convolution_kernels.reversed_windows(), x, w)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("name", random_key_kernels.CASES)
def test_bits_of_keys(name):
    expected = random_key_kernels.CASES[name][1]
    np.testing.assert_array_equal(random_key_kernels.kernel(name, True)(random_key_kernels.WORDS), expected)
    [found], _ = evaluated(random_key_kernels.kernel(name), random_key_kernels.WORDS)
    np.testing.assert_array_equal(found.view(expected.dtype), expected)


def test_bits_of_keys_that_are_arguments():
    key = random.wrap_key_data(random_key_kernels.WORDS)
    expected = [random_key_kernels.bits(random_key_kernels.folded(random_key_kernels.WORDS, i), (8, 128)) for i in range(2)]
    np.testing.assert_array_equal(random_key_kernels.of_key(key, True), np.concatenate(expected))
    for k, name in ((key, "arith.xori"), (pltpu.to_pallas_key(key), "tpu.prng_random_bits")):
        assert name in str(mosaic_evaluator.modules(module_text(random_key_kernels.of_key, k))[0][0])
    for f, message in ((lambda k: random.bits(random.split(k)[0], (8, 128)), "wrap_key_data of uint32"),
                       (lambda k: random.bits(random.key(1, impl="rbg"), (8, 128)), "random.key of rbg")):
        with pytest.raises(NotImplementedError, match=message):
            module_text(lambda k, f=f: pl.pallas_call(
                lambda k_ref, o_ref: o_ref.__setitem__(..., f(k_ref[...])), xf.ShapeDtypeStruct((8, 128), np.uint32),
                in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)])(k), key)


def test_products_of_high_precision():
    """The sum of three products of bfloat16 halves; the evaluator multiplies exactly."""
    x, y = (np.random.default_rng(i).normal(size=(128, 128)).astype(np.float32) for i in (0, 1))
    large, exact = [a.astype(ml_dtypes.bfloat16).astype(np.float64) for a in (x, y)], x.astype(np.float64) @ y
    small = [a - b for a, b in zip((x, y), large)]
    for precision, error, count in (("high", np.abs(small[0]) @ np.abs(small[1]), 3), ("highest", 0 * exact, 1)):
        f = pl.pallas_call(lambda x_ref, y_ref, o_ref, p=precision: o_ref.__setitem__(..., lax.dot(x_ref[...], y_ref[...], precision=p)),
                           out_shape=xf.ShapeDtypeStruct((128, 128), "float32"))
        [found], _ = evaluated(f, x, y)
        assert (np.abs(found - exact) <= 1.1 * error + 1e-4).all()
        assert str(mosaic_evaluator.modules(module_text(f, x, y))[0][0]).count("tpu.matmul") == count


def test_dtypes_of_64_bits_are_refused():
    with xf.enable_x64(True), pytest.raises(ValueError, match=r"args\[0\] has dtype float64; TPU kernels have no elements of 64"):
        call(copy, X.astype(np.float64), dtype="float64")


def test_nothing_is_compiled_for_empty_arrays():
    text = call(copy, np.ones((0, 128), np.float32), shape=(0, 128))
    assert "tpu_custom_call" not in text
    assert "tpu_custom_call" not in call(copy, X, grid=0)
