"""Programs with the operations of each family in them, for compilers of hardware that is not here."""

from elementwise_tables import BINARY, UNARY

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn, random

FLOATS = ("float32", "bfloat16", "float16")


def typed(shape, dtype="float32"):
    return xf.ShapeDtypeStruct(shape, dtype)


MATRIX, INTEGERS, COMPLEX, KEY = typed((8, 8)), typed((8,), "int32"), typed((8, 8), "complex64"), typed((2,), "uint32")


def with_gradient(f):
    """The values of a function and the gradient of their sum."""
    def total(*args):
        return sum(xnp.sum(xnp.real(x).astype("float32")) for x in xf.tree.leaves(f(*args)) if xnp.issubdtype(x.dtype, xnp.inexact))

    return lambda *args: (f(*args), xf.grad(total)(*args))


def elementwise(x):
    tables = [(row[0], row[-1], 1) for row in UNARY] + [(row[0], row[-1], 2) for row in BINARY]
    found = []
    for dtype in FLOATS:
        y = x.astype(dtype)
        for name, _, count in tables:
            if name in ("nextafter", "zeta") and dtype == "float16":
                continue
            found.append(getattr(lax, name)(*[y] * count))
    return found


def elementwise_gradients(x):
    names = [(row[0], 1) for row in UNARY if row[-1]] + [(row[0], 2) for row in BINARY if row[-1] and row[0] != "zeta"]
    return [xf.grad(lambda v, f=getattr(lax, name), count=count: xnp.sum(f(*[v] * count)))(x) for name, count in names]


def complex_numbers(z):
    names = "neg exp expm1 log log1p sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh sqrt rsqrt sign conj".split()
    return [*[getattr(lax, n)(z) for n in names], lax.real(z), lax.imag(z), lax.abs(z), z ** 2.5, z @ z, z / (z + 1)]


def integers(i):
    found = []
    for dtype in ("int8", "uint16", "int32", "uint32"):
        j = i.astype(dtype)
        found += [j & 3, j | 4, j ^ 5, ~j, j << 1, j >> 1, lax.shift_right_logical(j, j), lax.population_count(j), lax.clz(j),
                  j // 3, j % 3, xnp.maximum(j, 2), lax.bitcast_convert_type(j.astype("int32"), "float32"), j.astype("bfloat16")]
    return found


def structure(x):
    return [x.reshape(4, 16), x.T, xnp.concatenate([x, x]), xnp.pad(x, 1), x[::-1], lax.dynamic_slice(x, (2, 2), (3, 3)),
            lax.dynamic_update_slice(x, x[:2, :2], (3, 3)), xnp.sort(x), xnp.cumsum(x, 0), xnp.cumprod(x, 1), lax.cummax(x),
            lax.cumlogsumexp(x), xnp.max(x, 0), xnp.prod(x, 1), xnp.sum(x), xnp.median(x), xnp.roll(x, 2), xnp.tile(x, 2),
            lax.top_k(x, 3)[0], xnp.stack(xnp.split(x, 4)), xnp.broadcast_to(x[0], (3, 8)), xnp.diagonal(x), xnp.tril(x),
            xnp.var(x), xnp.squeeze(x[:1])]


def windows(x):
    x = x[None, :, :, None]  # TPUs have no gradients of windows over the dimensions that lie closest together
    pooled = [lax.reduce_window(x, start, f, (1, 2, 3, 1), (1, 2, 1, 1), "SAME") for start, f in (
        (0.0, lax.add), (-xnp.inf, lax.max), (xnp.inf, lax.min), (1.0, lax.mul))]
    most = lambda v: lax.reduce_window(v, -xnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1))
    return [*pooled, xf.jvp(most, (x,), (x,))[1],
            lax.reduce_window((x, x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1, 2, 2, 1))]


def special(x):
    both = [f(x, x + 1) for f in (lax.igamma, lax.igammac, lax.igamma_grad_a, lax.random_gamma_grad)]
    return [*both, lax.betainc(x, x + 1, x / 9), lax.bessel_i0e(x), lax.bessel_i1e(x), lax.igamma(x.astype("bfloat16"), x.astype("bfloat16"))]


def components(x, words):
    bits = [lax.rng_bit_generator(xnp.concatenate([words, words]), (8,), algorithm=a)[1] for a in lax.RandomAlgorithm]
    return [*lax.top_k(x, 2, axis=0), *lax.approx_max_k(x, 2), *lax.approx_min_k(x, 1, 0, aggregate_to_topk=False), *bits, lax.stack([x, x]),
            *lax.unstack(x), lax.mulhi(bits[0], bits[1]), lax.rng_uniform(0.0, 1.0, (8,)), lax.lt_to_p.bind(x, x)]


def groups(x, i):
    y = xnp.stack([x] * 3)
    return [*with_gradient(lambda x, y: lax.ragged_dot(x, y, xnp.array([3, 2, 1])))(x, y), lax.scaled_dot(x, x, lhs_scale=x[:, :4])]


def positions(x, i):
    return [x[i], x[i, i], x[:, i], x.at[i].set(1), x.at[i].add(x), x.at[i, i].multiply(2), x.at[:, i].max(0), x.at[i].min(0),
            xnp.take_along_axis(x, i[:, None] % 8, 1), xnp.argsort(x), xnp.argmax(x, 1), x > 0, xnp.where(x > 0, x, 0),
            xnp.searchsorted(x[0], x[1]), xnp.any(x > 0), xnp.bincount(i, length=8), xnp.lexsort((i, i)), lax.top_k(x, 2)[1]]


def control(x):
    carry, rows = lax.scan(lambda c, r: (xnp.tanh(c + r), c * r), x[0], x)
    chosen = lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: xnp.sin(v), x)
    switched = lax.switch(xnp.int32(2), [lambda v: v, lambda v: v + 1, lambda v: v * 3], x)
    summed = lax.fori_loop(0, 5, lambda n, v: v * 0.5 + n, x)
    recomputed = xf.checkpoint(lambda v: xnp.sin(xnp.sin(v)))(x)
    return [carry, rows, chosen, switched, summed, recomputed, lax.associative_scan(xnp.add, x), lax.map(lambda r: r * r, x),
            xf.vmap(lambda r: lax.cond(r[0] > 0, xnp.sin, xnp.cos, r))(x)]


def unbounded(x):
    return lax.while_loop(lambda v: xnp.sum(v) < 100, lambda v: v + xnp.abs(v) + 1, x)


def products(x, i):
    found = [xnp.einsum("ij,kj->ik", x, x), lax.dot(x, x, precision="highest"), x @ x[0], xnp.tensordot(x, x, 2)]
    for dtype in ("bfloat16", "float16"):
        found.append(lax.dot_general(x.astype(dtype), x.astype(dtype), (((1,), (0,)), ((), ())), preferred_element_type="float32"))
    j = (x * 10).astype("int8")
    return [*found, lax.dot_general(j, j, (((1,), (0,)), ((), ())), preferred_element_type="int32"), xnp.outer(i, i)]


def layers(x):
    names = "relu gelu silu softplus elu leaky_relu selu celu glu soft_sign log_sigmoid hard_tanh mish".split()
    return [*[getattr(nn, n)(x) for n in names], nn.softmax(x), nn.log_softmax(x), nn.logsumexp(x), nn.standardize(x)]


def distributions(key):
    first, second = random.split(key)
    shape = (4, 5)
    return [random.bits(first, shape), random.uniform(first, shape), random.normal(second, shape, "bfloat16"),
            random.bernoulli(first, 0.3, shape), random.randint(first, shape, 0, 9), random.permutation(first, 10),
            random.categorical(second, xnp.zeros(shape)), random.gumbel(first, shape), random.exponential(second, shape),
            random.truncated_normal(first, -1.0, 1.0, shape), random.choice(first, 10, (3,), replace=False),
            random.laplace(first, shape), random.cauchy(first, shape), random.fold_in(first, 3)]


def systems(x):
    linalg = xnp.linalg
    positive = x @ x.T + 8 * xnp.eye(8)
    return [linalg.solve(positive, x), linalg.cholesky(positive), linalg.slogdet(positive)[1], linalg.det(x), linalg.inv(positive),
            *linalg.qr(x), *linalg.eigh(positive), *linalg.svd(x, full_matrices=False), linalg.norm(x, 2), linalg.pinv(x),
            lax.linalg.tridiagonal_solve(x[0], x[1] + 9, x[2], x)]


PROGRAMS = {
    "elementwise": (elementwise, (MATRIX,)), "gradients": (elementwise_gradients, (MATRIX,)), "complex": (complex_numbers, (COMPLEX,)),
    "integers": (integers, (INTEGERS,)), "structure": (with_gradient(structure), (MATRIX,)), "positions": (positions, (MATRIX, INTEGERS)),
    "windows": (with_gradient(windows), (MATRIX,)), "special": (special, (MATRIX,)), "parts": (components, (MATRIX, KEY)), "groups": (groups, (MATRIX, INTEGERS)),
    "control": (with_gradient(control), (MATRIX,)), "unbounded": (unbounded, (MATRIX,)), "products": (products, (MATRIX, INTEGERS)),
    "layers": (with_gradient(layers), (MATRIX,)), "distributions": (distributions, (KEY,)), "systems": (with_gradient(systems), (MATRIX,)),
}


def check(name, device):
    """It compiles, and the compiler's results are as large as those of the program are."""
    function, types = PROGRAMS[name]
    types = [t.update(sharding=xf.sharding.SingleDeviceSharding(device)) for t in types]
    memory = xf.jit(function).lower(*types).compile().memory_analysis()
    results = xf.tree.leaves(xf.eval_shape(function, *types))
    assert memory.output_size_in_bytes >= sum(x.size * x.dtype.itemsize for x in results)
