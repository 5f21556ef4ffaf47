"""Kernels that the tests interpret, evaluate and compile for GPUs: functions of arrays, with `interpret`."""

import functools

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import triton


def like(*shape, dtype="float32"):
    return xf.ShapeDtypeStruct(shape, dtype)


def call(out, **options):
    """A decorator that makes a kernel a function of arrays, of which `out(*arrays)` gives the type of the result."""
    def decorate(kernel):
        @functools.wraps(kernel)
        def function(*args, interpret=False):
            found = {name: f(*args) for name, f in options.items()}
            return pl.pallas_call(kernel, out_shape=out(*args), interpret=interpret, **found)(*args)

        return function

    return decorate


_BLOCK = pl.BlockSpec((64,), lambda i: i)
_ROWS = pl.BlockSpec((4, 128), lambda i: (i, 0))


@call(lambda x, y: like(*x.shape), grid=lambda x, y: pl.cdiv(x.size, 64), in_specs=lambda x, y: [_BLOCK, _BLOCK],
      out_specs=lambda x, y: _BLOCK)
def add(x, y, o):
    o[...] = xnp.exp(x[...]) + y[...]


@call(lambda x, y: like(x.shape[0], y.shape[1]), grid=lambda x, y: (x.shape[0] // 32, y.shape[1] // 32),
      in_specs=lambda x, y: [pl.BlockSpec((32, x.shape[1]), lambda i, j: (i, 0)),
                             pl.BlockSpec((y.shape[0], 32), lambda i, j: (0, j))],
      out_specs=lambda x, y: pl.BlockSpec((32, 32), lambda i, j: (i, j)))
def matmul(x, y, o):
    def step(k, total):
        return total + x[:, pl.ds(k * 32, 32)] @ y[pl.ds(k * 32, 32), :]

    o[...] = lax.fori_loop(0, x.shape[1] // 32, step, xnp.zeros(o.shape))


@call(lambda x: like(*x.shape), grid=lambda x: pl.cdiv(len(x), 4), in_specs=lambda x: [_ROWS], out_specs=lambda x: _ROWS)
def softmax(x, o):
    v = x[...]
    e = xnp.exp(v - v.max(-1, keepdims=True))
    o[...] = e / e.sum(-1, keepdims=True)


_ALL_ROWS, _SOME_ROWS = (lambda q, k, v: pl.BlockSpec((None, *k.shape[1:]), lambda h, i: (h, 0, 0)),
                         lambda q, k, v: pl.BlockSpec((None, 16, q.shape[2]), lambda h, i: (h, i, 0)))


@call(lambda q, k, v: like(*q.shape), grid=lambda q, k, v: (len(q), q.shape[1] // 16),
      in_specs=lambda *a: [_SOME_ROWS(*a), _ALL_ROWS(*a), _ALL_ROWS(*a)], out_specs=lambda *a: _SOME_ROWS(*a))
def attention(q, k, v, o):
    """Causal attention, with a loop over blocks of keys."""
    rows = pl.program_id(1) * 16 + xnp.arange(16)

    def step(j, carry):
        total, largest, weight = carry
        keys, values = k[pl.ds(j * 16, 16), :], v[pl.ds(j * 16, 16), :]
        scores = lax.dot_general(q[...], keys, (((1,), (1,)), ((), ()))) / 4
        scores = xnp.where(rows[:, None] >= j * 16 + xnp.arange(16)[None], scores, -1e30)
        new = xnp.maximum(largest, scores.max(-1))
        p, scale = xnp.exp(scores - new[:, None]), xnp.exp(largest - new)
        return total * scale[:, None] + p @ values, new, weight * scale + p.sum(-1)

    start = xnp.zeros(q.shape), xnp.full(16, -1e30), xnp.zeros(16)
    total, _, weight = lax.fori_loop(0, pl.program_id(1) + 1, step, start)
    o[...] = total / weight[:, None]


@call(lambda x, scale: like(*x.shape), grid=lambda x, scale: len(x) // 4, out_specs=lambda x, scale: _norm_rows(x),
      in_specs=lambda x, scale: [_norm_rows(x), pl.BlockSpec()])
def layer_norm(x, scale, o):
    v = x[...]
    v = v - v.mean(-1, keepdims=True)
    o[...] = v * lax.rsqrt((v * v).mean(-1, keepdims=True) + 1e-5) * scale[...][None]


def _norm_rows(x):
    return pl.BlockSpec((4, x.shape[1]), lambda i: (i, 0))


def layer_norm_with_gradient(interpret=False):
    """The layer norm with a backward kernel, which adds the gradient of the scale atomically."""
    @xf.custom_vjp
    def norm(x, scale):
        return layer_norm(x, scale, interpret=interpret)

    def forward(x, scale):
        return norm(x, scale), (x, scale)

    def backward(residuals, ct):
        x, scale = residuals
        rows = _norm_rows(x)
        return tuple(pl.pallas_call(
            _layer_norm_gradient, out_shape=(like(*x.shape), like(*scale.shape)), grid=len(x) // 4, interpret=interpret,
            in_specs=[rows, pl.BlockSpec(), rows, pl.BlockSpec()], out_specs=(rows, pl.BlockSpec()),
            input_output_aliases={3: 1})(x, scale, ct, xnp.zeros(scale.shape)))

    norm.defvjp(forward, backward)
    return norm


def _layer_norm_gradient(x, scale, ct, zeros, dx, dscale):
    v, g = x[...], ct[...]
    v = v - v.mean(-1, keepdims=True)
    inverse = lax.rsqrt((v * v).mean(-1, keepdims=True) + 1e-5)
    v = v * inverse
    triton.atomic_add(dscale, pl.ds(0, dscale.shape[0]), (g * v).sum(0))
    g = g * scale[...][None]
    dx[...] = (g - g.mean(-1, keepdims=True) - v * (g * v).mean(-1, keepdims=True)) * inverse


def masked_and_atomic(x, interpret=False):
    """Kernels of masked accesses, all atomic updates, hints, a barrier, inline assembly and printing."""
    def kernel(x, floats, integers, o, f, i):
        mask = xnp.arange(16) < 13
        values = triton.load(x.at[pl.ds(pl.program_id(0), 16)], mask=mask, other=0.0, eviction_policy="evict_first")
        position = triton.max_contiguous(pl.multiple_of(pl.program_id(0) * 16 + xnp.arange(16), 16), 16)
        for name in ("add", "max", "min", "and", "or", "xor", "xchg"):
            values = values + getattr(triton, f"atomic_{name}")(f, pl.ds(0, 16), values, mask=mask)
        for name in ("add", "max", "min", "and", "or", "xor", "xchg"):
            getattr(triton, f"atomic_{name}")(i, pl.ds(0, 16), position, mask=mask)
        i[0] = triton.atomic_cas(floats, 0, 1)
        triton.debug_barrier()
        if not interpret:
            [values] = triton.elementwise_inline_asm("tanh.approx.f32 $0, $1;", args=[values], constraints="=f,f", pack=1,
                                                     result_shape_dtypes=[like(16)])
            pl.debug_print("values {}", values)
        triton.store(o.at[position], values, mask=mask)

    return pl.pallas_call(kernel, out_shape=(like(16), like(16), like(16, dtype="int32")), grid=1, interpret=interpret,
                          input_output_aliases={})(x, np.int32(0), np.zeros(16, np.int32))


# A kernel that computes 2 x + y
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry axpy(
    .param .u64 x,
    .param .u64 y,
    .param .u64 o
)
{
    .reg .f32 %f<4>;
    .reg .b32 %r<5>;
    .reg .b64 %d<8>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [y];
    ld.param.u64 %d3, [o];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.s32 %d4, %r4, 4;
    add.s64 %d5, %d1, %d4;
    add.s64 %d6, %d2, %d4;
    add.s64 %d7, %d3, %d4;
    ld.global.f32 %f1, [%d5];
    ld.global.f32 %f2, [%d6];
    fma.rn.f32 %f3, %f1, 0f40000000, %f2;
    st.global.f32 [%d7], %f3;
    ret;
}
"""


@call(lambda x: (like(8, 32), like(8, 16), like(8, 16, dtype="int32"), like(8, 16)))
def padded_and_sorted(x, padded, ordered, indices, o):
    """Sorts rows, pads, updates a part, scans over rows, and computes functions of series."""
    values = x[...]
    padded[...] = xnp.pad(values, ((0, 0), (16, 0)))
    ordered[...] = xnp.sort(values, 1)
    indices[...] = xnp.argsort(values, 1)
    total, sums = lax.scan(lambda c, row: (c + row, c), xnp.zeros(16), values)
    is_large = lax.while_loop(lambda c: c[1].any(), lambda c: (c[0] / 2, c[0] > 2), (total, total > 1))[0]
    found = lax.digamma(abs(values) + 1) + lax.bessel_i1e(values) + lax.igamma(abs(values) + 1, abs(sums)) + is_large
    o[...] = lax.dynamic_update_slice(found, values[:4, :8], (2, 4))
