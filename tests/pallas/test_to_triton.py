"""Kernels for GPUs: the module that is written, run by the evaluator, against interpretation and NumPy."""

import kernels_for_gpus as kernels
import numpy as np
import pytest
import scipy.special as sp
import triton_evaluator
from kernels_for_gpus import like
from triton_evaluator import OutOfBounds, Race, evaluate

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu, triton
from xlafront.pallas.to_triton import kernel as to_triton

pytestmark = pytest.mark.cpu_only

F32, I32 = np.float32, np.int32
RNG = np.random.RandomState(0)


def normal(*shape, dtype=F32):
    return np.asarray(RNG.randn(*shape)).astype(dtype)


def integers(*shape, dtype=I32, high=50):
    return RNG.randint(1, high, shape).astype(dtype)


def wide(x):
    x = np.asarray(x)
    return x if x.dtype.kind in "iub" else x.astype(np.float64)


def assert_close(x, y, rtol=1e-5):
    y = np.asarray(y)
    assert np.shape(x) == y.shape
    rtol = {1: 0.13, 2: 1e-2}.get(y.dtype.itemsize, rtol) if y.dtype.kind not in "iub" else 0
    x = np.asarray(x).view(y.dtype) if y.dtype.kind == "u" else x
    np.testing.assert_allclose(wide(x), wide(y), rtol=rtol, atol=rtol)


def check(kernel, args, out, expected=None, rtol=1e-5, **options):
    """The results of the module and of interpretation are equal, and equal to what is expected."""
    results = evaluate(pl.pallas_call(kernel, out_shape=out, **options), *args)
    interpreted = xf.tree.leaves(pl.pallas_call(kernel, out_shape=out, interpret=True, **options)(*args))
    for x, y in zip(results, interpreted, strict=True):
        assert_close(x, y, rtol)
    for x, y in zip(results, expected if isinstance(expected, tuple) else (expected,) if expected is not None else ()):
        assert_close(x, np.asarray(y).astype(x.dtype), rtol)
    return results


def check_functions(functions, *args, rtol=1e-5):
    """Functions of arrays, computed by one kernel."""
    def kernel(*refs):
        values = [r[...] for r in refs[:len(args)]]
        for o, f in zip(refs[len(args):], functions):
            o[...] = f(*values)

    check(kernel, args, tuple([xf.eval_shape(f, *args) for f in functions]), rtol=rtol)


# Operations


def names(module, text):
    return [getattr(module, n) for n in text.split()]


FLOATS = [*names(lax, "exp exp2 expm1 log log1p sin cos tan tanh sqrt rsqrt cbrt floor ceil asin acos atan sinh cosh asinh atanh "
                      "erf erfc erf_inv logistic abs sign round is_finite neg square lgamma"),
          *names(xf.nn, "silu gelu softplus relu"), xnp.round, triton.approx_tanh, lambda x: x ** 5, lambda x: x ** -1,
          lambda x: xnp.clip(x, 0.2, 0.5), lambda x: lax.bitcast_convert_type(x, I32), lambda x: lax.acosh(x + 1),
          lambda x: ((x > 0.3) & ~(x > 0.6)) | (x < 0.1), lambda x: lax.reduce_precision(x, 8, 7)]


def test_floats():
    check_functions(FLOATS, np.abs(normal(16)) % 0.9 + 0.05, rtol=3e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats(dtype):
    dtype = xnp.dtype(dtype)
    check_functions([xnp.exp, xnp.tanh, abs, lambda x: x + x, lambda x: x * 2 > x, lambda x: x.astype(F32), lambda x: x.astype(I32),
                     lambda x: xnp.maximum(x, -x), *[lambda x: lax.nextafter(x, 2 * x)] * (dtype.itemsize == 2)], normal(16, dtype=dtype))
    check_functions([lambda x: x.astype(dtype), lambda x: x.astype(I32).astype(dtype)], normal(16))


def test_two_operands():
    check_functions([*names(lax, "add sub mul div rem max min atan2 pow nextafter"), xnp.hypot, xnp.logaddexp,
                     lambda x, y: xnp.where(x > y, x, y)], np.abs(normal(16)) + 0.1, normal(16))
    bools = normal(16) > 0
    check_functions([lambda b, x: xnp.where(b, x, 2.0), lambda b, x: b ^ (x > 0), lambda b, x: b.astype(F32) + x], bools, normal(16))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8", "uint32", "int16"])
def test_integers(dtype):
    check_functions([*names(lax, "add sub mul div rem max min bitwise_and bitwise_or bitwise_xor shift_left shift_right_logical"),
                     lambda x, y: x // y + x % y, lambda x, y: lax.clz(x), lambda x, y: lax.population_count(y), lambda x, y: ~x,
                     lambda x, y: lax.sign(x), lambda x, y: (x.astype(F32) + (y > 3)).astype(dtype), lambda x, y: x < y,
                     lambda x, y: lax.select_n(y.astype(I32) % 3, x, y, x + y)], integers(16, dtype=dtype),
                    integers(16, dtype=dtype, high=7))


def test_reductions():
    functions = [lambda x, n=n, axis=axis: getattr(xnp, n)(x, axis=axis) for n in "sum max min prod argmax argmin any".split()
                 for axis in (0, 1) + (None,) * (n[:3] != "arg")]
    check_functions([*functions, lambda x: x.var(-1), lambda x: x.mean(-1, keepdims=True), xf.nn.softmax, lambda x: xnp.all(x > 0, 1),
                     lambda x: xf.nn.logsumexp(x, axis=-1)], normal(8, 16), rtol=3e-5)
    check_functions([lambda x: x.sum(-1), lambda x: x.max(0)], normal(8, 16, dtype=xnp.bfloat16))
    check_functions([*functions[:6], lambda x: lax.reduce_sum(x, (0,))], integers(8, 4, high=3))
    for nan in (3, 0, 15):
        x = normal(16)
        x[nan] = np.nan
        check_functions([xnp.max, xnp.min, xnp.argmax, xnp.argmin], x)


def test_cumulative_operations():
    check_functions([lambda x, n=n, axis=axis, reverse=reverse: getattr(lax, n)(x, axis=axis, reverse=reverse) for n in
                     "cumsum cumprod cummax cummin cumlogsumexp".split() for axis, reverse in ((1, False), (0, True))], normal(8, 16))


def test_shapes():
    check_functions([
        lambda x, y: x.T, lambda x, y: x.reshape(4, 32), lambda x, y: x.reshape(-1), lambda x, y: x[None].sum(0).reshape(1, 8, 1, 16),
        lambda x, y: x[:, None, :].transpose(1, 2, 0), lambda x, y: x.sum().reshape(1), lambda x, y: x[:1, :1].reshape(()),
        lambda x, y: x[0, :, None] + y[:, 0][None], lambda x, y: xnp.broadcast_to(x[:, None], (8, 4, 16)), lambda x, y: xnp.tile(x, (2, 1)),
        lambda x, y: xnp.concatenate([x, y], 0), lambda x, y: xnp.concatenate([x, y, y, x], 1), lambda x, y: xnp.stack([x, y], 1),
        lambda x, y: xnp.stack([x.sum(), y.max()]), lambda x, y: xnp.split(x, 4, axis=0)[2], lambda x, y: xnp.repeat(x, 2, axis=0),
        lambda x, y: x[:, 8:12], lambda x, y: x[::2, 3:5], lambda x, y: x[::-1, ::-1], lambda x, y: xnp.roll(x, 3, axis=1),
        lambda x, y: lax.dynamic_slice(x, (x[0, 0].astype(I32) + 9, 2), (4, 8)), lambda x, y: x[0][(y[0] * 9).astype(I32) % 16],
        lambda x, y: xnp.take_along_axis(x, (abs(y) * 5).astype(I32) % 8, axis=0), lambda x, y: xnp.tril(x), lambda x, y: x[3],
        lambda x, y: lax.broadcasted_iota(I32, (8, 16), 0) * 16 + lax.broadcasted_iota(I32, (8, 16), 1),
        lambda x, y: xf.nn.one_hot((abs(x[:, 0]) * 5).astype(I32), 8)], normal(8, 16), normal(8, 16))


def test_padding_and_updates():
    check_functions([
        lambda x, y: xnp.pad(x, ((0, 8), (16, 0)), constant_values=7), lambda x, y: lax.pad(x, F32(2), [(1, 0, 1), (-4, -4, 0)]),
        lambda x, y: lax.pad(x, F32(2), [(-1, 9, 0), (17, -1, 0)]),
        lambda x, y: lax.dynamic_update_slice(x, y[:4, :8], (lax.convert_element_type(9 * x[0, 0], I32), 3)),
        lambda x, y: lax.dynamic_update_slice(x, y[:1], (-3, 0)), lambda x, y: x.at[2].set(0)], normal(8, 16), normal(8, 16))


def test_sorting():
    x = np.float32([3, np.nan, -1, 3, np.inf, 0, -np.inf, 0.5])
    small = integers(8, 16, high=4)
    check_functions([lambda x, y: xnp.sort(x), lambda x, y: xnp.argsort(x), lambda x, y: xnp.sort(y, 0), lambda x, y: xnp.argsort(y, 1),
                     lambda x, y: lax.top_k(y, 4)[1], lambda x, y: lax.top_k(y, 4)[0],
                     lambda x, y: lax.sort((y, y[::-1], y.T.reshape(8, 16)), dimension=1, num_keys=2)[2]], x, small)


def test_special_functions():
    x = np.abs(normal(32)) * 6 - 4
    functions = [(lax.digamma, sp.digamma), (lax.bessel_i0e, sp.i0e), (lax.bessel_i1e, sp.i1e)]

    def kernel(x, *outs):
        for o, (f, _) in zip(outs, functions):
            o[...] = f(x[...])

    check(kernel, [x], (like(32),) * 3, tuple([g(x.astype(np.float64)) for _, g in functions]), rtol=1e-4)
    check_functions([lax.igamma, lax.igammac], np.abs(normal(16)) * 4 + 0.1, np.abs(normal(16)) * 4, rtol=1e-4)


def test_arrays_that_a_loop_carries_for_its_condition():
    for dtype in (F32, np.float16, I32):
        check_functions([lambda x, dtype=dtype: lax.while_loop(
            lambda c: (c[1] > 1).any(), lambda c: (c[0] - 2, (c[0] + 1).astype(dtype)), (x, x.astype(dtype)))[0]], normal(16) * 8)
    check_functions([lambda x: lax.while_loop(lambda c: c[1].any(), lambda c: (c[0] - 2, c[0] > 1), (x, x > 0))[0]], normal(16) * 8)


PRECISIONS = [None, "highest", "high", "default", lax.DotAlgorithmPreset.F32_F32_F32]


@pytest.mark.parametrize(("m", "k", "n"), [(16, 32, 64), (16, 16, 16), (1, 16, 32), (4, 4, 4), (32, 8, 16)])
def test_products(m, k, n):
    x, y = normal(m, k), normal(k, n)
    check_functions([lambda x, y: x @ y, lambda x, y: lax.dot_general(x.T, y.T, (((0,), (1,)), ((), ()))), lambda x, y: x[0] @ y,
                     lambda x, y: x @ y[:, 0], lambda x, y: xnp.dot(x[0], y[:, 0])], x, y, rtol=1e-4)
    check_functions([lambda x, y: lax.dot(x, y, preferred_element_type=F32), lambda x, y: x @ y], x.astype(np.float16),
                    y.astype(np.float16), rtol=1e-4)
    check_functions([lambda x, y: lax.dot(x, y, preferred_element_type=I32)], integers(m, k, dtype="int8"), integers(k, n, dtype="int8"))


def test_precisions_of_products():
    x, y = normal(2, 16, 32), normal(2, 32, 16)
    check_functions([lax.batch_matmul, *[lambda x, y, p=p: lax.dot(x[0], y[1], precision=p) for p in PRECISIONS]], x, y, rtol=1e-4)

    def text(precision):
        return module(lambda x, y, o: o.__setitem__(..., lax.dot(x[...], y[...], precision=precision)), [x[0], y[0]], like(16, 16))

    assert "inputPrecision = tf32 :" in text(None) and "inputPrecision = tf32 :" in text("high") and "tf32" not in text("highest")
    assert "inputPrecision = tf32x3" in text(lax.DotAlgorithmPreset.TF32_TF32_F32_X3)
    assert "inputPrecision = bf16x3" in text(lax.DotAlgorithmPreset.BF16_BF16_F32_X3)
    assert "tensor<16x32xbf16>" in text(lax.DotAlgorithmPreset.BF16_BF16_F32)


CONTROL_FLOW = [
    lambda x, n: lax.scan(lambda c, a: (c + a, c * a), xnp.zeros(4), x.reshape(4, 4))[1], lambda x, n: lax.map(lambda a: a * 2, x),
    lambda x, n: lax.scan(lambda c, _: (c * 2, c), x, None, length=4, reverse=True)[1],
    lambda x, n: lax.cond(x.sum() > 0, lambda: x * 2, lambda: -x), lambda x, n: lax.switch(n, [lambda: x, lambda: -x, lambda: x + 7]),
    lambda x, n: lax.while_loop(lambda c: c.max() < 100, lambda c: c * 2, abs(x) + 1),
    lambda x, n: lax.fori_loop(0, 5, lambda i, c: c + i * x, x), lambda x, n: lax.fori_loop(n, n + 4, lambda i, c: c + i * x, x),
    lambda x, n: lax.fori_loop(0, 3, lambda i, c: c + i * x, x, unroll=True), lambda x, n: xf.jit(xnp.sin)(x) + xf.checkpoint(xnp.cos)(x)]


@pytest.mark.parametrize("n", [-2, 1, 7])
def test_control_flow(n):
    check_functions(CONTROL_FLOW, normal(16), np.int32(n), rtol=1e-4)


# References


def module(kernel, args, out, **options):
    jaxpr = xf.make_jaxpr(pl.pallas_call(kernel, out_shape=out, **options))(*args)
    params = jaxpr.eqns[0].params
    return to_triton.kernel_module(params["jaxpr"], params["grid_mapping"], "kernel")


def test_slices_of_references():
    def kernel(x, i, n, o, p, q, r, s, t):
        o[...] = x[pl.ds(n[...], 4), pl.ds(2, 4, 2)]
        p[...] = x.at[:8, pl.ds(n[...], 8)][pl.ds(1, 4), 3]
        q[...] = x[i[...], 2] + x[3, i[...]] + x[n[...], -1]
        r[...] = x[i[...], pl.ds(n[...], 2)]
        s[...] = x.at[1:9][i[...][:, None], i[...][None, :]]
        for k in range(4):
            t[k] = x[k, k] * 2
        t[pl.ds(4, 4)] = x[4:8, n[...]]
        t[i[...]] += 1.0

    x, i, n = normal(16, 16), np.int32([0, 3, 2, 7]), np.int32(5)
    ref = np.concatenate([2 * np.diag(x)[:4], x[4:8, 5]])
    ref[i] += 1
    check(kernel, (x, i, n), (like(4, 4), like(4), like(4), like(4, 2), like(4, 4), like(8)),
          (x[5:9, 2:10:2], x[1:5, 8], x[i, 2] + x[3, i] + x[5, -1], x[i, 5:7], x[1 + i][:, i], ref))


def test_ragged_edges():
    def double(x, o):
        o[...] = 2 * x[...]

    x = normal(13, 37)
    spec = pl.BlockSpec((4, 16), lambda i, j: (i, j))
    check(double, (x,), like(13, 37), 2 * x, grid=(4, 3), in_specs=[spec], out_specs=spec)
    row = pl.BlockSpec((None, 16), lambda i, j: (i, j))
    check(double, (x,), like(13, 37), 2 * x, grid=(13, 3), in_specs=[row], out_specs=row)

    def total(x, o):  # a column of the block at the edge, and a single element of it
        edge = pl.program_id(0) * 16 + xnp.arange(16) < 37
        o[...] = xnp.where(edge, x[1, :], 0.0).sum() + x[2, 3]

    out = pl.BlockSpec((None,), lambda j: j)
    check(total, (x,), like(3), [x[1, a:a + 16].sum() + x[2, a + 3] for a in (0, 16, 32)], grid=3,
          in_specs=[pl.BlockSpec((4, 16), lambda j: (0, j))], out_specs=out)


def test_element_blocks():
    def smooth(x, o):
        o[...] = (x[:4] + x[2:6] + x[1:5]) / 3

    x = normal(12)
    check(smooth, (x,), like(8), (x[:8] + x[2:10] + x[1:9]) / 3, grid=2, in_specs=[pl.BlockSpec((pl.Element(8),), lambda i: i * 4)],
          out_specs=pl.BlockSpec((4,), lambda i: i))

    def padded(x, o):
        position = pl.program_id(0) * 4 - 1 + xnp.arange(8)
        o[...] = xnp.where((position >= 0) & (position < 12), x[...], 0.0).sum().reshape(1)

    full = np.pad(x, (1, 8))
    check(padded, (x,), like(3), [full[a:a + 8].sum() for a in (0, 4, 8)], grid=3,
          in_specs=[pl.BlockSpec((pl.Element(8, (1, 3)),), lambda i: i * 4)], out_specs=pl.BlockSpec((1,), lambda i: i))


def test_grids():
    def kernel(o):
        ids = [pl.program_id(d) for d in range(4)]
        o[...] = ((ids[0] * pl.num_programs(1) + ids[1]) * pl.num_programs(2) + ids[2]) * pl.num_programs(3) + ids[3]

    out = pl.BlockSpec((None,) * 4, lambda *i: i)
    check(kernel, (), like(2, 3, 4, 5, dtype=I32), np.arange(120).reshape(2, 3, 4, 5), grid=(2, 3, 4, 5), out_specs=out)
    text = module(lambda o: o.__setitem__(..., pl.program_id(1)), [], like(2, 70000, dtype=I32), grid=(2, 70000),
                  out_specs=pl.BlockSpec((None, None), lambda i, j: (i, j)))
    assert "arith.remsi" in text and "get_program_id y" not in text  # at most 65535 programs along y


def test_vmap():
    def add(x, y, o):
        o[...] = x[...] + y[...] * pl.program_id(0)

    spec = pl.BlockSpec((4,), lambda i: i)

    def function(x, y, interpret=False):
        return pl.pallas_call(add, out_shape=like(8), grid=2, in_specs=[spec, spec], out_specs=spec, interpret=interpret)(x, y)

    x, y = normal(3, 5, 8), normal(8)
    weights = y * np.repeat([0, 1], 4)
    mapped = xf.vmap(xf.vmap(function, in_axes=(0, None)), in_axes=(0, None))
    assert_close(evaluate(mapped, x, y)[0], x + weights)
    axes_last = xf.vmap(function, in_axes=(1, None), out_axes=1)
    jaxpr = xf.make_jaxpr(axes_last)(x[0].T, y)
    assert [e.primitive.name for e in jaxpr.eqns if e.primitive.name != "pallas_call"] == ["transpose", "transpose"]


def test_aliases_and_booleans():
    def flip(b, x, o, p):
        o[...] = ~b[...]
        p[...] = xnp.where(b[...], p[...] + 1, x[...])

    b, x = normal(8) > 0, normal(8)
    check(flip, (b, x), (like(8, dtype=bool), like(8)), (~b, np.where(b, x + 1, x)), input_output_aliases={1: 1})


def test_masked_operations():
    def kernel(x, o, p):
        i = pl.program_id(0) * 8 + xnp.arange(8)
        mask = i < 13
        v = triton.load(x.at[i], mask=mask, other=-1.0, eviction_policy="evict_last", cache_modifier=".cg")
        triton.store(o.at[i], v + 1, mask=mask)
        w = triton.load(x.at[pl.ds(pl.program_id(0) * 8, 8)], mask=mask, other=0.0)
        p[...] = w.sum() + triton.load(x.at[3], mask=pl.program_id(0) == 0, other=5.0)

    x = normal(13)
    check(kernel, (x,), (like(13), like(2)), (x + 1, [x[:8].sum() + x[3], x[8:].sum() + 5]), grid=2,
          out_specs=(pl.BlockSpec(), pl.BlockSpec((None,), lambda i: i)))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_atomic_updates(dtype):
    updates = ["add", "max", "min", "xchg", "and", "or", "xor"]

    def kernel(x, *outs):
        for o, name in zip(outs, updates):
            getattr(triton, f"atomic_{name}")(o, pl.ds(2, 4), x[...], mask=xnp.arange(4) != 1)
        old = triton.atomic_cas(outs[-1], 0, 7)
        outs[-2][0] = triton.atomic_add(outs[-2], 1, old)

    x = np.array([3, 250, 7, 1] if dtype[0] == "u" else [3, -250, -7, 1]).astype(dtype)
    outs = (*[like(8, dtype=dtype)] * (len(updates) + 1), like(dtype=dtype))
    initial = [integers(8, dtype=dtype) - (5 if dtype[0] != "u" else 0) for _ in outs[:-1]]

    def initialized(x, *refs):
        kernel(x, *refs[len(outs):])

    args = (x, *initial, np.zeros((), dtype))
    check(initialized, args, outs, input_output_aliases={1 + i: i for i in range(len(outs))})


def test_atomic_updates_across_programs():
    def histogram(x, zeros, o):
        triton.atomic_add(o, x[...], 1)

    x = integers(64, high=8) - 1
    check(histogram, (x, np.zeros(8, I32)), like(8, dtype=I32), np.bincount(x, minlength=8), grid=4,
          in_specs=[pl.BlockSpec((16,), lambda i: i), pl.BlockSpec()], input_output_aliases={1: 0})

    def sums(x, zeros, o):
        o.at[0].addupdate(x[...].sum())

    y = normal(64)
    check(sums, (y, np.zeros(1, F32)), like(1), y.sum()[None], grid=4, in_specs=[pl.BlockSpec((16,), lambda i: i), pl.BlockSpec()],
          input_output_aliases={1: 0}, rtol=1e-4)


def test_hints_assembly_and_printing():
    def kernel(x, n, o):
        i = triton.max_contiguous(pl.multiple_of(n[...] * 8 + xnp.arange(8), 8), 8)
        [y] = triton.elementwise_inline_asm("ex2.approx.f32 $0, $1;", args=[x[i]], constraints="=f,f", pack=1, result_shape_dtypes=[o])
        triton.debug_barrier()
        pl.debug_print("the first {} and n {}", x[0], n[...])
        o[...] = y

    x, n = normal(16), np.int32(1)
    jaxpr = xf.make_jaxpr(pl.pallas_call(kernel, out_shape=like(8)))(x, n)
    text = module(kernel, [x, n], like(8))
    for operation in ("tt.contiguity = dense<8>", "tt.elementwise_inline_asm", "gpu.barrier", 'tt.print " the first ', 'tt.print " and n '):
        assert operation in text, operation
    assert len(jaxpr.eqns) == 1
    assert_close(evaluate(pl.pallas_call(kernel, out_shape=like(8)), x, n)[0], np.exp2(x[8:]))


# Kernels


def check_call(function, *args, expected=None, rtol=1e-4):
    results = evaluate(function, *args)
    for x, y in zip(results, xf.tree.leaves(function(*args, interpret=True)), strict=True):
        assert_close(x, y, rtol)
    if expected is not None:
        assert_close(results[0], expected.astype(F32), rtol)
    return results


def test_matmul():
    x, y = normal(64, 96), normal(96, 64)
    check_call(kernels.matmul, x, y, expected=x @ y)


def test_attention():
    q, k, v = normal(2, 64, 16), normal(2, 64, 16), normal(2, 64, 16)
    scores = np.where(np.tril(np.ones((64, 64), bool)), q @ k.transpose(0, 2, 1) / 4, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    check_call(kernels.attention, q, k, v, expected=p / p.sum(-1, keepdims=True) @ v)


def test_padded_and_sorted_arrays():
    x = normal(8, 16)
    padded, ordered, indices, _ = check_call(kernels.padded_and_sorted, x)
    np.testing.assert_array_equal(padded, np.pad(x, ((0, 0), (16, 0))))
    np.testing.assert_array_equal(ordered, np.sort(x, 1))
    np.testing.assert_array_equal(indices, np.argsort(x, 1, kind="stable"))


def test_softmax_and_sums_at_edges():
    x = normal(6, 128)
    check_call(kernels.softmax, x, expected=np.exp(x) / np.exp(x).sum(-1, keepdims=True))
    check_call(kernels.add, x[0, :100], x[1, :100], expected=np.exp(x[0, :100]) + x[1, :100])


def test_layer_norm_and_its_derivatives():
    x, scale, t = normal(8, 32), normal(32), normal(8, 32)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale
    check_call(kernels.layer_norm, x, scale, expected=expected)

    def jvp(x, scale, t, interpret=False):
        return xf.jvp(lambda x: kernels.layer_norm(x, scale, interpret=interpret), (x,), (t,))

    check_call(jvp, x, scale, t)

    def plain(x, scale):
        return (x - x.mean(-1, keepdims=True)) / xnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale

    def backward(x, scale, ct, dscale):  # the kernel alone, with zeros as an argument
        rows = pl.BlockSpec((4, 32), lambda i: (i, 0))
        return pl.pallas_call(kernels._layer_norm_gradient, out_shape=(like(8, 32), like(32)), grid=2, out_specs=(rows, pl.BlockSpec()),
                              in_specs=[rows, pl.BlockSpec(), rows, pl.BlockSpec()], input_output_aliases={3: 1})(x, scale, ct, dscale)

    gradients = xf.grad(lambda x, scale: (plain(x, scale) * t).sum(), (0, 1))(x, scale)
    for a, b, c in zip(evaluate(backward, x, scale, t, np.zeros(32, F32)), gradients, xf.grad(
            lambda x, scale: (kernels.layer_norm_with_gradient(interpret=True)(x, scale) * t).sum(), (0, 1))(x, scale)):
        assert_close(a, b, 1e-4)
        assert_close(c, b, 1e-4)


# Random kernels

_OPERATIONS = [lambda a, b: a + b, lambda a, b: a * 0.5 - b, lambda a, b: xnp.maximum(a, b), lambda a, b: xnp.where(a > b, a, -b),
               lambda a, b: xnp.tanh(a) * b, lambda a, b: a + b.sum(-1, keepdims=True) / 8, lambda a, b: xnp.cumsum(a, 0) / 8 - b,
               lambda a, b: a + b.max(0)[None], lambda a, b: xnp.roll(a, 1, 1) + b,
               lambda a, b: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + b, a), lambda a, b: abs(a) + xnp.sin(b)]


@pytest.mark.parametrize("seed", range(12))
def test_random_kernels(seed):
    rng = np.random.RandomState(seed)
    shape = tuple(rng.randint(3, 40, 2))
    block = tuple(2 ** rng.randint(1, 5, 2))
    dtype = [F32, np.float16, xnp.bfloat16][seed % 3]
    steps = rng.randint(0, len(_OPERATIONS), 4)
    swapped = rng.randint(2)
    grid = tuple([-(-n // b) for n, b in zip(shape, block)])
    indices = (lambda i, j: (i, j)) if not swapped else (lambda j, i: (i, j))
    spec = pl.BlockSpec(block, indices)
    column = pl.BlockSpec((block[0], 1), lambda *g: (indices(*g)[0], 0))

    def kernel(x, y, c, o):
        axes = (1, 0) if swapped else (0, 1)
        rows, columns = (pl.program_id(a) * b + lax.broadcasted_iota(I32, block, k) for k, (a, b) in enumerate(zip(axes, block)))
        inside = (rows < shape[0]) & (columns < shape[1])
        a, b = (xnp.where(inside, r[...], 0).astype(F32) for r in (x, y))
        b = b + xnp.where(rows[:, :1] < shape[0], c[...], 0).astype(F32)
        for k in steps:
            a, b = _OPERATIONS[k](a, b), a
        o[...] = a.astype(dtype)

    check(kernel, [rng.randn(*s).astype(dtype) for s in (shape, shape, (shape[0], 1))], like(*shape, dtype=dtype),
          grid=grid[::-1] if swapped else grid, in_specs=[spec, spec, column], out_specs=spec, rtol=1e-4)


# Lowering


def exported(function, *args):
    return xf.export.export(xf.jit(function), platforms=["cuda"], disabled_checks=[
        xf.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")])(*args).mlir_module()


def double(x, o):
    o[...] = 2 * x[...]


def test_custom_call():
    spec = pl.BlockSpec((4, None), lambda i, j, k, m: (i, m))
    text = exported(pl.pallas_call(double, out_shape=like(8, 3), grid=(2, 1, 1, 3), name="my kernel", input_output_aliases={0: 0},
                                   compiler_params=triton.CompilerParams(num_warps=8, num_stages=2), in_specs=[spec],
                                   out_specs=spec), like(8, 3))
    for part in ("@__gpu$xla.gpu.triton", "grid_x = 6", "grid_y = 1", 'name = "my_kernel"', "num_stages = 2", "num_warps = 8",
                 "operand_index = 0", "dense<[1, 0]>", "tt.func public @my_kernel", "debug = false"):
        assert part in text, part
    default = exported(pl.pallas_call(double, out_shape=like(8, 4)), like(8, 4))
    assert "num_warps = 4" in default and "num_stages = 3" in default and "grid_x = 1" in default


def test_text_does_not_depend_on_positions_in_files():
    def make():
        namespace = {}
        exec(compile("\n" * next(lines) + "def kernel(x, o):\n    o[...] = 2 * x[...]", f"file{next(lines)}", "exec"), namespace)
        return exported(pl.pallas_call(namespace["kernel"], out_shape=like(8)), like(8))

    lines = iter(range(10, 20))
    a, b = make(), make()
    assert a[a.index("ir = "):a.index("tt.return")] == b[b.index("ir = "):b.index("tt.return")]


def test_empty_arrays_and_grids_run_no_kernel():
    assert "custom_call" not in exported(pl.pallas_call(double, out_shape=like(0, 4)), like(0, 4))
    assert "custom_call" not in exported(pl.pallas_call(double, out_shape=like(8), grid=0), like(8))


# Bad input


def refused(message, kernel, args, out=None, error=NotImplementedError, **options):
    out = like(8) if out is None else out
    with pytest.raises(error, match=message):
        exported(pl.pallas_call(kernel, out_shape=out, **options), *args)


def test_sizes_that_are_no_powers_of_two():
    refused(r"test_to_triton.py.*part of args\[0\] with shape \(12,\) .* powers of two.*shape \(16,\) with a mask", double, [like(12)],
            like(12), ValueError)
    refused(r"array of shape \(3, 8\) .* not a power of two, 3",
            lambda x, o: o.__setitem__(..., xnp.broadcast_to(x[...][None], (3, 8)).sum(0)), [like(8)], error=ValueError)
    refused("more than 1048576 elements", double, [like(2**21)], like(2**21), ValueError)


@pytest.mark.parametrize("dtype, message", [("complex64", "Pass the real and the imaginary parts as two arrays"), (
    "float4_e2m1fn", "kernels on GPUs cannot have. Convert it, or pass its bits"), ("int2", "kernels on GPUs cannot have")])
def test_elements_that_gpus_do_not_have(dtype, message):
    refused(rf"test_to_triton.py.*args\[0\] has dtype {dtype}, which .*{message}", lambda x, o: o.__setitem__(..., x[...]),
            [like(8, dtype=dtype)], like(8, dtype=dtype))


def test_operations_without_a_rule():
    refused(r"factorized at .*test_to_triton.py:\d+ \(factorized\): .* is not possible in kernels that are compiled for cuda", factorized, [like(8, 8)], like(8, 8))
    refused("scan over more than 64 slices", lambda x, o: o.__setitem__(..., lax.scan(lambda c, v: (c, v), 0.0, x[...])[1]), [like(128)], like(128))
    refused(r"shape \(6,\) has a size that is not a power of two", lambda x, o: o.__setitem__(slice(0, 4), xnp.concatenate([x[:4], x[:2]])[:4]),
            [like(8)], error=ValueError)
    refused(r"at .* with a result of dtype complex64 .* imaginary", lambda x, o: o.__setitem__(..., (x[...] * 1j).real), [like(8)])
    for name, dtype in (("add", "int8"), ("max", "bfloat16"), ("min", "float16"), ("xchg", "float16"), ("xchg", "int16")):
        refused(f"atomic_{name} of outputs with dtype {dtype}",
                lambda x, o: o.__setitem__(0, getattr(triton, f"atomic_{name}")(o, 0, 1)), [like(8)], like(8, dtype=dtype))


def test_operations_of_tpus():
    def kernel(x, n, o):
        pl.delay(100)
        o[...] = pltpu.roll(x[...], n[...], 1) + pltpu.roll(x[...], 1, 0)

    x, n = normal(4, 16), np.int32(3)
    check(kernel, (x, n), like(4, 16), np.roll(x, 3, 1) + np.roll(x, 1, 0))
    refused("run_scoped is not possible .* keep values in variables", lambda x, o: pl.run_scoped(lambda r: None, pl.ANY((8,), F32)), [like(8)])
    refused("prng_seed .* outside of the kernel", lambda x, o: pltpu.prng_seed(0), [like(8)])
    refused("conv_general_dilated .* before or after", lambda x, o: o.__setitem__(..., xnp.convolve(x[...], x[...][:2], "same")), [like(8)])


def factorized(x, o):
    o[...] = lax.linalg.cholesky(x[...])


@pytest.mark.parametrize("num_warps", [0, 3, 64, 2.0, True])
def test_numbers_of_warps(num_warps):
    refused("num_warps of the kernel double .*one of 1, 2, 4, 8, 16, 32", double, [like(8)], error=ValueError,
            compiler_params=triton.CompilerParams(num_warps=num_warps))


def test_options():
    refused("num_stages .*positive", double, [like(8)], error=ValueError, compiler_params=triton.CompilerParams(num_stages=0))
    refused("not for Triton", double, [like(8)], error=ValueError, compiler_params=pltpu.CompilerParams())
    refused("unknown option 'warps'", double, [like(8)], error=ValueError, compiler_params={"triton": {"warps": 2}})
    refused("eviction_policy is one of", lambda x, o: triton.store(o, x[...], eviction_policy="last"), [like(8)], error=ValueError)


def test_memory_of_tpus():
    refused("scratch_shapes are for TPUs", lambda x, o, s: None, [like(8)], scratch_shapes=[pl.ANY((8,), F32)])
    refused("prefetched scalars", lambda n, x, o: None, [like(1, dtype=I32), like(8)], grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=2, in_specs=[pl.BlockSpec((4,), lambda i, n: i)], out_specs=pl.BlockSpec((4,), lambda i, n: i)))
    with pytest.raises(NotImplementedError, match="only at run time"):
        exported(lambda n, x: pl.pallas_call(double, out_shape=like(8), grid=(n,))(x), like(dtype=I32), like(8))


def test_programs_that_write_the_same_block():
    def accumulate(x, y, o):
        pl.when(pl.program_id(1) == 0)(lambda: o.__setitem__(..., xnp.zeros(o.shape)))
        o[...] += x[...] @ y[...]

    blocks = {"in_specs": [pl.BlockSpec((16, 16), lambda i, k: (i, k)), pl.BlockSpec((16, 16), lambda i, k: (k, 0))],
              "out_specs": pl.BlockSpec((16, 16), lambda i, k: (i, 0))}
    args = [normal(32, 64), normal(64, 16)]
    with pytest.warns(UserWarning, match=r"all programs along axis 1 .* same block of outputs.*fori_loop"):
        exported(pl.pallas_call(accumulate, out_shape=like(32, 16), grid=(2, 4), **blocks), *args)
    with pytest.warns(UserWarning, match="same block"), pytest.raises(Race):
        evaluate(pl.pallas_call(accumulate, out_shape=like(32, 16), grid=(2, 4), **blocks), *args)


def test_the_evaluator_finds_errors():
    with pytest.raises(OutOfBounds):
        evaluate(pl.pallas_call(lambda x, o: o.__setitem__(..., x[pl.ds(pl.program_id(0) + 4, 8)]), out_shape=like(8), grid=1), normal(8))
    with pytest.raises(Race), pytest.warns(UserWarning, match="same block"):
        evaluate(pl.pallas_call(double, out_shape=like(8), grid=2), normal(8))
    assert triton_evaluator.poison(np.dtype(F32)) != triton_evaluator.poison(np.dtype(F32))
