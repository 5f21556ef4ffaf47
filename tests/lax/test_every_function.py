"""Every function of `lax` over all dtypes and kinds of shapes: values, dtypes, weak types, jit and vmap.

A row lists the accepted kinds (b: booleans, u: unsigned, i: signed, f: floats, c: complex), the dtype of the result, the call,
and the NumPy or SciPy expression for the expected value, in 64 bits for floats. All calls for a dtype are compiled as one
module.
"""

import re
import types

import numpy as np
import pytest
import scipy.special as special
from dtype_tables import REAL, SAME, SETTINGS, TRUTH, agrees, as_numpy_computes, kind_of, numbers, result_dtype

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.base.jaxlib_compat import jaxlib_version

POLE = np.nan if jaxlib_version < (0, 11) else -np.inf  # digamma(0) in XLA, whose later versions give the limit from the right
I32, COMPLEX = "int32", "complex"
ONE_OPERAND = [  # kinds, dtype of the result, functions, and NumPy's where it is not np.NAME
    ("fc", SAME, """acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 log log1p log2 sin sinh sqrt tan tanh reciprocal:1/x
        rsqrt:1/np.sqrt(x) logistic:1/(1+np.exp(-x))"""),
    ("f", SAME, """cbrt ceil floor round:np.copysign(np.floor(abs(x)+.5),x) erf:special.erf(x) erfc:special.erfc(x) erf_inv:special.erfinv(x)
        lgamma:special.gammaln(x) digamma:np.where(x==0,POLE,special.digamma(x)) bessel_i0e:special.i0e(x) bessel_i1e:special.i1e(x)"""),
    ("uifc", SAME, "neg:np.negative(x) sign square one_minus_square:(1+x)*(1-x) stop_gradient:x optimization_barrier:x"),
    ("ifc", REAL, "abs"), ("c", REAL, "real imag"), ("F", COMPLEX, "conj"), ("c", SAME, "conj"),
    ("f", TRUTH, "is_finite:np.isfinite(x)"), ("bui", SAME, "bitwise_not"), ("ui", SAME, "population_count:ones(x) clz:leading_zeros(x)"),
]
TWO_OPERANDS = [
    ("uifc", SAME, "add sub:np.subtract(x,y) mul:np.multiply(x,y)"), ("fc", SAME, "div:np.divide(x,y) pow:np.power(x,y)"),
    ("ui", SAME, "div:truncated(x,y)"), ("uif", SAME, "rem:remainder(x,y)"), ("buif", SAME, "max:np.maximum(x,y) min:np.minimum(x,y)"),
    ("f", SAME, "atan2:np.arctan2(x,y) nextafter:np.nextafter(x.astype(d),y.astype(d))"), ("F", COMPLEX, "complex:x+1j*y"), ("bui", SAME, "bitwise_and bitwise_or bitwise_xor"),
    ("ui", SAME, "shift_left:np.left_shift(x,y) shift_right_arithmetic:np.right_shift(x,y) shift_right_logical:shifted(x,y) mulhi:high(x,y)"),
    ("buifc", TRUTH, "eq:np.equal(x,y) ne:np.not_equal(x,y)"),
    ("buif", TRUTH, "lt:np.less(x,y) le:np.less_equal(x,y) gt:np.greater(x,y) ge:np.greater_equal(x,y)"),
]
# kinds, dtype of the result, calls of x y (2, 3), s (), e (0, 3), o (1, 3), v (5,), q (3, 3), i: positions, m: a mask, A (1, 1, 4, 4), K (2, 1, 2, 2)
CALLS = [
    ("buifc", SAME, """
        broadcast(x, (2,)) = np.broadcast_to(x, (2, 2, 3))
        broadcast_in_dim(v, (2, 5), (1,)) = np.broadcast_to(v, (2, 5))
        broadcast_in_dim(s, (2, 0), ()) = np.zeros((2, 0))
        broadcast_like(v, xnp.zeros((2, 5))) = np.broadcast_to(v, (2, 5))
        broadcast_to_rank(x, 4) = x[None, None]
        collapse(x, 0) = x.ravel()
        collapse(q[None], 0, 2) = q
        concatenate([x, o, e], 0) = np.concatenate([x, o, e])
        expand_dims(x, (0, 2)) = x[None, :, None]
        reshape(x, (3, 2)) = x.reshape(3, 2)
        reshape(x, (6,), (1, 0)) = x.T.ravel()
        reshape(e, (3, 0)) = e.reshape(3, 0)
        rev(x, (1,)) = x[:, ::-1]
        squeeze(o[..., None], (0, 2)) = o[0]
        transpose(x, (1, 0)) = x.T
        tile(x, (2, 1)) = np.tile(x, (2, 1))
        split(x, (1, 2), 1)[1] = x[:, 1:]
        stack([x, y], 1) = np.stack([x, y], 1)
        unstack(x, 1)[2] = x[:, 2]
        slice(x, (0, 1), (2, 3), (2, 1)) = x[::2, 1:]
        slice_in_dim(v, -3, None, 2) = v[-3::2]
        index_in_dim(x, -1, 1) = x[:, -1:]
        dynamic_slice(x, (1, i[0]), (1, 2)) = x[1:, min(i[0], 1):][:, :2]
        dynamic_slice_in_dim(v, i[1], 2) = v[i[1]:i[1] + 2]
        dynamic_index_in_dim(x, i[0], 1, False) = x[:, i[0]]
        dynamic_update_slice(x, o, (i[0], 0)) = updated(x, min(i[0], 1), o[0])
        dynamic_update_slice_in_dim(v, v[:2], 9, 0) = np.r_[v[:3], v[:2]]
        dynamic_update_index_in_dim(x, o[0], i[2], 0) = updated(x, min(i[2], 1), o[0])
        index_take(q, (i, i[::-1]), (0, 1)) = q[i, i[::-1]]
        gather(v, i[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,)) = v[i]
        scatter(v, i[:, None], q[0], lax.ScatterDimensionNumbers((), (0,), (0,))) = updated(v, i, q[0])
        scatter_apply(v, i[:1, None], lambda a: a * 0, lax.ScatterDimensionNumbers((), (0,), (0,)), update_shape=(1,)) = updated(v, i[:1], v[:1] * 0)
        pad(x, s, [(1, 0, 0), (-1, 2, 1)]) = padded(x, s)
        full((2, 3), s) = np.full((2, 3), s)
        full_like(x, 1) = np.ones_like(x)
        select(m, x, y) = np.where(m, x, y)
        select_n(m, x, y) = np.where(m, y, x)
        convert_element_type(x, x.dtype) = x
        sort(x) = np.sort(x, axis=1)
        sort(x, dimension=0) = np.sort(x, axis=0)
        sort_key_val(i, q[0])[1] = q[0][np.argsort(i)]
        cond(m[0, 0], lambda a: a[0], lambda a: a[1], x) = x[0] if m[0, 0] else x[1]
        switch(i[1], [lambda a: a[0], lambda a: a[1], lambda a: a[0]], x) = x[i[1] % 2]
        fori_loop(0, 3, lambda k, a: a[::-1], x) = x[::-1]
        while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1][::-1]), (0, v))[1] = v[::-1]
        map(lambda a: a[::-1], x) = x[:, ::-1]
        scan(lambda c, a: (a, c), s, v)[1] = np.r_[s, v[:-1]]
        platform_dependent(x, cpu=lambda a: a, default=lambda a: a[:]) = x
        composite(lambda a: a[::-1], "test.reverse")(x) = x[::-1]
        with_sharding_constraint(x, xf.sharding.SingleDeviceSharding(xf.devices()[0])) = x
        empty((0, 2), x.dtype) = np.zeros((0, 2))"""),
    ("uifc", SAME, """
        reduce_sum(x, (0,)) = x.sum(0, dtype=x.dtype)
        reduce_sum(e, (0,)) = np.zeros(3)
        reduce_prod(x, (0, 1)) = x.prod(dtype=x.dtype)
        reduce(x, x.dtype.type(0), lax.add, (1,)) = x.sum(1, dtype=x.dtype)
        cumsum(x, 1) = np.cumsum(x, 1, dtype=x.dtype)
        cumprod(x, 0, reverse=True) = np.cumprod(x[::-1], 0, dtype=x.dtype)[::-1]
        associative_scan(lax.add, v) = np.cumsum(v, dtype=v.dtype)
        integer_pow(x, 3) = x * x * x
        polynomial(x, [2, 1, 3]) = 2 + x * (1 + x * 3)
        dot(q, x.T) = q @ x.T
        dot_general(x, q, (((1,), (1,)), ((), ()))) = x @ q.T
        batch_matmul(q[None], q[None]) = (q @ q)[None]
        scatter_add(v, i[:, None], q[0], lax.ScatterDimensionNumbers((), (0,), (0,))) = updated(v, i, v[i] + q[0])
        scatter_sub(v, i[:, None], q[0], lax.ScatterDimensionNumbers((), (0,), (0,))) = updated(v, i, v[i] - q[0])
        scatter_mul(v, i[:, None], q[0], lax.ScatterDimensionNumbers((), (0,), (0,))) = updated(v, i, v[i] * q[0])
        reduce_window(v, 0, lax.add, (2,), (1,), 'VALID') = v[:-1] + v[1:]"""),
    ("fc", SAME, """
        conv(A, K, (1, 1), 'VALID') = convolved(A, K)
        conv_with_general_padding(A, K, (1, 1), [(0, 0), (0, 0)], None, None) = convolved(A, K)
        conv_general_dilated(A, K, (2, 2), 'VALID') = convolved(A, K)[:, :, ::2, ::2]
        conv_general_dilated_local(A, xnp.tile(K.reshape(2, 4, 1, 1), (1, 1, 3, 3)), (1, 1), 'VALID', (2, 2)) = convolved(A, K)
        conv_general_dilated_patches(A, (2, 2), (1, 1), 'VALID')[0, 1] = A[0, 0, :3, 1:]
        conv_transpose(A[0, 0, :1, :, None], K[0, 0, :, :1, None], (1,), 'VALID')[0, :, 0] = np.convolve(A[0, 0, 0], K[0, 0, ::-1, 0])
        custom_linear_solve(lambda a: 2 * a, v, lambda f, b: b / 2, lambda f, b: b / 2) = v / 2
        custom_root(lambda a: a - 1, v, lambda f, a: v, lambda g, b: b) = v"""),
    ("f", SAME, """
        ragged_dot(x, q[None], xnp.array([2])) = x @ q
        ragged_dot_general(x, q[None], xnp.array([2]), lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))) = x @ q
        cumlogsumexp(x, 1) = np.logaddexp.accumulate(x, 1)
        reduce_precision(x, 5, 2) = np.round(x * 16) / 16
        betainc(x * 0 + 2, x * 0 + 3, x * x / 9) = special.betainc(2, 3, x * x / 9)
        rng_uniform(s, s, (2,)) = np.full(2, s)
        approx_max_k(v, 2)[0] = np.sort(v)[:-3:-1]
        approx_min_k(v, 2)[0] = np.sort(v)[:2]"""),
    ("f", SAME, """
        zeta(x * x + 2, y * y + 1) = special.zeta(x * x + 2, y * y + 1)
        polygamma(o * 0 + 2, y * y + 1) = special.polygamma(2, y * y + 1)
        igamma(x * x + 1, y * y) = special.gammainc(x * x + 1, y * y)
        igammac(x * x + 1, y * y) = special.gammaincc(x * x + 1, y * y)"""),
    ("n", SAME, """
        igamma_grad_a(x * x + 1, y * y) = by_shape(x * x + 1, y * y)
        random_gamma_grad(x * x + 1, y * y + 1) = -by_shape(x * x + 1, y * y + 1) / by_value(x * x + 1, y * y + 1)"""),
    ("f", "bfloat16", "scaled_dot(xnp.tile(x, (1, 32)), xnp.tile(x.T, (32, 1))) = 32 * (x @ x.T)"),
    ("F", COMPLEX, "fft(lax.complex(x, y), 'fft', (3,)) = np.fft.fft(x + 1j * y)"),
    ("c", SAME, "fft(x, lax.FftType.IFFT, (3,)) = np.fft.ifft(x)"),
    ("buif", SAME, """
        reduce_max(x, (1,)) = x.max(1)
        reduce_min(x, (0, 1)) = x.min()
        clamp(o[0, 0], x, o[0, 0]) = np.full_like(x, o[0, 0])
        top_k(v, 2)[0] = np.sort(v)[:-3:-1]
        scatter_max(v, i[:, None], q[0], lax.ScatterDimensionNumbers((), (0,), (0,))) = updated(v, i, np.maximum(v[i], q[0]))
        scatter_min(v, i[:, None], q[0], lax.ScatterDimensionNumbers((), (0,), (0,))) = updated(v, i, np.minimum(v[i], q[0]))"""),
    ("uif", SAME, """
        cummax(x, 1) = np.maximum.accumulate(x, 1)
        cummin(x, 0, reverse=True) = np.minimum.accumulate(x[::-1], 0)[::-1]"""),
    ("bui", SAME, """
        reduce_and(x, (0,)) = np.bitwise_and.reduce(x, 0)
        reduce_or(x, (1,)) = np.bitwise_or.reduce(x, 1)
        reduce_xor(x, (0, 1)) = np.bitwise_xor.reduce(x, (0, 1))"""),
    ("buif", I32, """
        argmax(x, 1, np.int32) = x.argmax(1)
        argmin(x, 0, np.int32) = x.argmin(0)
        top_k(v, 2)[1] = np.argsort(-v.astype(float), kind='stable')[:2]"""),
    ("uif", SAME, """
        iota(v.dtype, 5) = np.arange(5)
        broadcasted_iota(v.dtype, (2, 3), 0) = np.indices((2, 3))[0]"""),
    ("uif", "unsigned", "bitcast_convert_type(x, f'uint{8 * x.dtype.itemsize}') = x.astype(d).view(f'uint{8 * d.itemsize}')"),
]
PLAINLY = {  # calls of `lax` that give no arrays
    "broadcast_shapes((2, 1), (3,))": (2, 3), "conv_shape_tuple((1, 1, 4, 4), (2, 1, 2, 2), (1, 1), 'VALID')": (1, 2, 3, 3),
    "conv_general_shape_tuple((1, 1, 4, 4), (2, 1, 2, 2), (1, 1), 'VALID', ('NCHW', 'OIHW', 'NCHW'))": (1, 2, 3, 3),
    "conv_transpose_shape_tuple((1, 4, 4, 1), (2, 2, 1, 2), (2, 2), 'SAME', ('NHWC', 'HWIO', 'NHWC'))": (1, 8, 8, 2),
    "conv_general_permutations(('NCHW', 'OIHW', 'NHWC'))": ((0, 1, 2, 3), (0, 1, 2, 3), (0, 3, 1, 2)),
    "conv_dimension_numbers((1, 1, 4), (2, 1, 2), None)": lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2)),
    "padtype_to_pads((4,), (2,), (1,), 'SAME')": [(0, 1)], "dtype(1.5)": np.dtype("float32"),
    "reduce_window_shape_tuple((5,), (2,), (1,), ((0, 0),), (1,), (1,))": (4,), "shape_as_value((2, 3)).tolist()": [2, 3],
}
# Whose results are strongly typed even where all operands are weak; those of all others are weak then. Facts of the reference.
STRONG = set("""argmax argmin associative_scan bitcast_convert_type broadcasted_iota conv_general_dilated_local
    conv_general_dilated_patches convert_element_type dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim
    empty fft iota ragged_dot ragged_dot_general random_gamma_grad reduce reduce_and reduce_or reduce_xor scaled_dot""".split())
TESTED_IN = {
    """all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute pshuffle psum psum_scatter psum_scatter_start pswapaxes
    ragged_all_to_all""": "tests/parallel",
    "after_all create_token": "test_transfers.py", "dce_sink stage": "test_top_k_and_random_bits.py", "rng_bit_generator": "test_top_k_and_random_bits.py",
}
def expected(rule: str, d):
    if rule == COMPLEX:
        return np.dtype(np.complex128 if d in (np.float64, np.complex128) else np.complex64)
    if rule == "unsigned":
        return np.dtype(f"uint{8 * d.itemsize}")
    return np.dtype(rule) if rule in (I32, "bfloat16") else result_dtype(rule, d)


def truncated(x, y):
    return np.where(y == 0, -1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max, np.trunc(x.astype(object) / np.where(y == 0, 1, y))).astype(x.dtype)


def remainder(x, y):
    """By zero nothing is divided."""
    return np.fmod(x, y) if x.dtype.kind == "f" else np.where(y == 0, x, np.fmod(x, y))


def bitwise(of_python):
    """A function of unsigned integers of Python, on arrays: of the bits of each element, and how many there are."""
    def function(*arrays):
        d, bits = arrays[0].dtype, 8 * arrays[0].dtype.itemsize
        found = [of_python(*(int(v) % 2**bits for v in values), bits) % 2**bits for values in zip(*(a.ravel() for a in np.broadcast_arrays(*arrays)))]
        return np.array(found, f"uint{bits}").astype(d).reshape(np.broadcast_shapes(*(a.shape for a in arrays)))
    return function


def updated(x, positions, values):
    x = np.array(x)
    x[positions] = values
    return x


def padded(x, s):
    wide = np.full((3, 7), s, x.dtype)  # one row before; columns: one between each two, one less before, two after
    wide[1:, ::2][:, :3] = x
    return wide[:, 1:]


def convolved(image, kernels):
    return np.stack([sum(image[:, 0, i:i + 3, j:j + 3] * k[0, i, j] for i in range(2) for j in range(2)) for k in kernels], 1)


HIGH = bitwise(lambda a, b, bits: a * b >> bits)


def high(x, y):
    """The upper half of a product."""
    if x.dtype.kind == "u":
        return HIGH(x, y)
    bits = 8 * x.dtype.itemsize
    return np.array([int(a) * int(b) >> bits for a, b in zip(*(v.ravel() for v in np.broadcast_arrays(x, y)))], x.dtype).reshape(np.broadcast_shapes(x.shape, y.shape))


def by_shape(a, x):
    """The derivative of the regularized incomplete gamma function by its first argument, by differences of fourth order."""
    h = 1e-3
    f = special.gammainc
    return (8 * (f(a + h, x) - f(a - h, x)) - f(a + 2 * h, x) + f(a - 2 * h, x)) / (12 * h)


def by_value(a, x):
    return x ** (a - 1) * np.exp(-x) / special.gamma(a)


NUMPYS = {
    "np": np, "special": special, "POLE": POLE, "truncated": truncated, "remainder": remainder, "updated": updated, "padded": padded, "convolved": convolved, "high": high,
    "ones": bitwise(lambda v, bits: v.bit_count()), "leading_zeros": bitwise(lambda v, bits: bits - v.bit_length()),
    "shifted": bitwise(lambda v, by, bits: v >> by), "by_shape": by_shape, "by_value": by_value,
}
FUNCTIONS = {name: f for name in lax.__all__ if callable(f := getattr(lax, name)) and not isinstance(f, (type, types.GenericAlias))}
SHAPES = {"x": (2, 3), "y": (2, 3), "s": (), "e": (0, 3), "o": (1, 3), "v": (5,), "q": (3, 3), "A": (1, 1, 4, 4), "K": (2, 1, 2, 2)}
ROWS = ("x", "s", "e"), (("x", "y"), ("x", "o"), ("s", "s"), ("e", "e"), ("e", "o"))  # of operands of one and of two


def is_of(kinds: str, d) -> bool:
    """Return True if a dtype is of the kinds of a row. F: floats that are components of complex dtypes, n: floats of at most 32
    bits."""
    kind = kind_of(d)
    return kind in kinds or kind == "f" and ("F" in kinds and d.itemsize >= 4 or "n" in kinds and d.itemsize <= 4)


def calls_for(d) -> list[tuple[str, str, str]]:
    """Return `(call, dtype of the result, NumPy expression)` for each call with a dtype."""
    calls = [(call, rule, theirs) for kinds, rule, lines in CALLS if is_of(kinds, d)
             for call, theirs in (line.strip().rsplit(" = ", 1) for line in lines.strip().split("\n"))]
    for table, operands in ((ONE_OPERAND, ROWS[0]), (TWO_OPERANDS, ROWS[1])):
        for kinds, rule, functions in table:
            for function in functions.split() if is_of(kinds, d) else ():
                name, _, theirs = function.partition(":")
                for letters in operands:
                    letters = ", ".join(letters)
                    given = re.sub(r"\b[xy]\b", lambda letter: letters.split(", ")["xy".index(letter[0])], theirs)
                    calls.append((f"{name}({letters})", rule, given or f"np.{name}({letters})"))
    return calls


def ours(call: str, arrays: dict):
    return eval(call, {**FUNCTIONS, "lax": lax, "np": np, "xnp": xnp, "xf": xf, **arrays})


def numpys(theirs: str, arrays: dict, d, exact: bool):
    with np.errstate(all="ignore"):
        return eval(theirs, {**NUMPYS, "d": d, **{name: x if name in "im" else as_numpy_computes(x, exact) for name, x in arrays.items()}})


def operands(d, start=1) -> dict:
    arrays = {name: numbers(d, shape, start + i) for i, (name, shape) in enumerate(SHAPES.items())}
    return {**arrays, "i": np.roll(np.array([2, 0, 1]), start), "m": np.arange(6).reshape(2, 3) % (start + 1) == 0}


def computed(calls, arrays):
    return {call: ours(call, arrays) for call, _, _ in calls}


def disagreements(calls, found, arrays, d) -> dict[str, str]:
    """Return a description of each call whose values are wrong."""
    texts = {}
    for call, rule, theirs in calls:
        expected_dtype = expected(rule, d)
        texts[call] = agrees(found[call], numpys(theirs, arrays, d, kind_of(expected_dtype) not in "fc"), expected_dtype, ulps=24)
    return {call: text for call, text in texts.items() if text}


def check_dtype(name: str, wide: bool, mapped: bool, eager: bool):
    """Compare values of all calls in one module, of the module mapped over two sets of operands, and of the separate calls."""
    d = np.dtype(name)
    with xf.enable_x64(wide):
        calls, arrays = calls_for(d), operands(d)
        found = xf.jit(lambda arrays: computed(calls, arrays))(arrays)
        assert disagreements(calls, found, arrays, d) == {}
        if mapped:
            others = operands(d, 2)
            calls = [call for call in calls if call[0].partition("(")[0] not in ("composite", "rng_uniform")]  # refused
            both = {name: np.stack([arrays[name], others[name]]) for name in arrays}
            rows = xf.jit(xf.vmap(lambda arrays: computed(calls, arrays)))(both)
            for k, arrays_of_row in enumerate((arrays, others)):
                assert disagreements(calls, {call: x[k] for call, x in rows.items()}, arrays_of_row, d) == {}
        if eager:
            assert disagreements(calls, computed(calls, {name: xnp.asarray(x) for name, x in arrays.items()}), arrays, d) == {}


@pytest.mark.parametrize("name, wide, mapped", [("int32", False, True), ("float32", False, False)])
def test_values_match_numpy(name, wide, mapped):
    check_dtype(name, wide, mapped, eager=False)


@pytest.mark.soak
@pytest.mark.parametrize("name, wide", SETTINGS)
def test_values_of_all_dtypes(name, wide):
    check_dtype(name, wide, mapped=True, eager=True)


@pytest.mark.parametrize("name, number", [("int32", 3), ("float32", 1.5), ("complex64", 1.5j)])
def test_weak_types(name, number):
    d = np.dtype(name)
    arrays = {**{letter: lax.full(shape, number) for letter, shape in SHAPES.items()}, **{k: operands(d)[k] for k in "im"}}
    calls = [call for call, _, _ in calls_for(d)]
    types = xf.eval_shape(lambda arrays: {call: ours(call, arrays) for call in calls}, arrays)
    assert all(arrays[letter].weak_type for letter in SHAPES)
    assert {call for call in calls if not types[call].weak_type} == {call for call in calls if call.partition("(")[0] in STRONG}


def test_no_function_is_missing():
    """Every function of the module is in one of the tables."""
    texts = [lines for _, _, lines in CALLS] + list(PLAINLY)
    named = {name for text in texts for name in re.findall(r"^\s*(\w+)\(", text, re.M)} | set(" ".join(TESTED_IN).split())
    named |= {function.partition(":")[0] for _, _, row in ONE_OPERAND + TWO_OPERANDS for function in row.split()}
    assert set(FUNCTIONS) - named == set()
    assert named - set(FUNCTIONS) == set()


@pytest.mark.parametrize("call", PLAINLY)
def test_functions_that_return_no_arrays(call):
    assert ours(call, {}) == PLAINLY[call]
