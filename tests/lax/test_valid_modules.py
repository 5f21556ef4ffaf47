"""Arguments that a function of lax accepts while tracing give a valid module: no error of the module's verifier reaches users.

A law over all functions, with arguments of every dtype, of wrong shapes, and with dimensions out of range.
"""

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, random

pytestmark = pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")  # most of what is tried here

REFUSALS = (TypeError, ValueError, NotImplementedError)  # IndexError and OverflowError would say nothing of what was wrong
OPERANDS = {
    **{str(d): np.ones(4, d) for d in ("bool", "int32", "uint8", "float32", "float16", "complex64")},
    **{name: np.ones(4, getattr(ml_dtypes, name)) for name in ("int4", "uint2", "bfloat16", "float8_e4m3fn")},
    "float0": np.zeros(4, xf.dtypes.float0),
    "key": random.split(random.key(0), 4),
    "scalar": 1.0,
    "weak": xnp.asarray(2),
    "matrix": np.ones((2, 4), np.float32),
    "empty": np.ones((0,), np.float32),
    "str": "abcd",
    "None": None,
}
AXES = ((0,), (-1,), (0, 0), (1,), (2,), (-3,), (), (0, 1), (1, 0), (0.5,), None, 0, -1, 2, "x")
SHAPES = ((4,), (-1,), (2, 2), (0,), (4, -4), (2.5,), (), 4, -4, None, (5,))
ELEMENTWISE = """abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz conj cos cosh cumlogsumexp cummax cummin cumprod
    cumsum digamma erf erf_inv erfc exp exp2 expm1 floor imag is_finite lgamma log log1p logistic neg population_count real
    reciprocal round rsqrt sign sin sinh sort sqrt square stop_gradient tan tanh optimization_barrier""".split()
PAIRS = """add atan2 bitwise_and bitwise_or bitwise_xor complex div dot eq ge gt igamma igammac le lt max min mul ne nextafter polygamma pow rem
    shift_left shift_right_arithmetic shift_right_logical sub zeta""".split()
DTYPES = ("bool", "int4", "uint8", "int32", "bfloat16", "float16", "float32", "complex64", "float8_e5m2", random.key(0).dtype,
          xf.dtypes.float0, None)


def zero_like(x):
    return np.zeros((), x.dtype) if isinstance(getattr(x, "dtype", None), np.dtype) else x


# Functions of one array and one more argument, with the values that this takes in turn.
WITH_ONE_MORE = {
    **{name: (getattr(lax, name), AXES) for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and",
                                                     "reduce_or", "reduce_xor", "rev", "squeeze", "expand_dims", "transpose")},
    **{name: (getattr(lax, name), (0, 1, -1, 2, None, 0.5)) for name in ("cumsum", "cummax", "sort", "concatenate")},
    "stack": (lambda x, axis: lax.stack([x, x], axis), (0, 1, -1, 3, None)),
    "concatenate two": (lambda x, axis: lax.concatenate([x, x], axis), (0, 1, -1, 3, None)),
    "argmax": (lambda x, axis: lax.argmax(x, axis, "int32"), (0, 1, -1, 2, None)),
    "argmin of": (lambda x, d: lax.argmin(x, 0, d), DTYPES),
    "broadcast": (lax.broadcast, SHAPES),
    "reshape": (lax.reshape, SHAPES),
    "full": (lambda x, shape: lax.full(shape, x), SHAPES),
    "full_like": (lambda x, shape: lax.full_like(x, 1, shape=shape), SHAPES),
    "tile": (lax.tile, SHAPES),
    "broadcast_in_dim": (lambda x, dims: lax.broadcast_in_dim(x, (2, 4), dims), AXES),
    "convert_element_type": (lax.convert_element_type, DTYPES),
    "bitcast_convert_type": (lax.bitcast_convert_type, DTYPES),
    "iota": (lambda _, d: lax.iota(d, 3), DTYPES),
    "iota of": (lambda _, n: lax.iota(int, n), (0, 3, -3, 2.5, None)),
    "broadcasted_iota": (lambda _, d: lax.broadcasted_iota(int, (2, 4), d), (0, 1, -1, 2, None, 0.5)),
    "one_hot": (lambda x, n: xf.nn.one_hot(x, n), (0, 3, -1, 2.5)),
    "top_k": (lax.top_k, (0, 1, 4, 5, -1, 1.5)),
    "integer_pow": (lax.integer_pow, (0, 2, -2)),
    "reduce_precision": (lambda x, bits: lax.reduce_precision(x, *bits), ((5, 10), (0, 3), (-1, 3), (3, -1), (1, 0))),
    "pad": (lambda x, config: lax.pad(x, zero_like(x), config), (
        [(1, 1, 0)], [(-5, 0, 0)], [(0, 0, -1)], [], [(1, 1)], [(0.5, 0, 0)], [(-1, -1, 2)], None)),
    "slice": (lambda x, bounds: lax.slice(x, *bounds), (
        ((0,), (4,)), ((0,), (5,)), ((-1,), (2,)), ((3,), (1,)), ((0,), (4,), (0,)), ((0,), (4,), (-1,)), ((), ()))),
    "dynamic_slice": (lambda x, sizes: lax.dynamic_slice(x, (0,), sizes), ((2,), (5,), (-1,), (), (0,), (0.5,))),
    "split": (lax.split, ((2, 2), (5,), (-1, 5), (), (0, 4), (0.5, 3.5))),
    "select_n": (lambda x, n: lax.select_n(x, *[np.ones(4, np.float32)] * n), (0, 1, 2, 3)),
    "clamp": (lambda x, bound: lax.clamp(bound, x, bound), (0, 0.0, np.ones(3), None)),
    "dot of": (lambda x, d: lax.dot(x, x, preferred_element_type=d), ("float32", "int8", "bool", "complex64")),
    "dot_general": (lambda x, dims: lax.dot_general(x, x, dims), (
        (((0,), (0,)), ((), ())), (((), ()), ((0,), (0,))), (((0,), (0,)), ((0,), (0,))), (((0, 0), (0, 0)), ((), ())),
        (((-1,), (-1,)), ((), ())), (((1,), (0,)), ((), ())), (((0,), ()), ((), ())), None)),
    "scatter": (lambda x, name: getattr(lax, name)(
        x, np.array([[0], [2]]), x[:2] if np.ndim(x) else x, lax.ScatterDimensionNumbers((), (0,), (0,))), (
            "scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")),
    "gather": (lambda x, mode: lax.gather(x, np.array([[0], [2]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,),
                                          mode=mode), ("clip", "fill", "promise_in_bounds", None)),
    "conv": (lambda x, stride: lax.conv(*[xnp.expand_dims(x, (0, 1))] * 2, (stride,), "SAME"), (1, 0, -1)),
    "reduce_window": (lambda x, window: lax.reduce_window(x, zero_like(x), lax.add, window), ((2,), (-1,), (0,), (), (5,), (2, 2))),
    "gather by": (lambda i, _: lax.gather(np.ones(4), i[:, None] if np.ndim(i) == 1 else i,
                                          lax.GatherDimensionNumbers((), (0,), (0,)), (1,)), (None,)),
}


def as_module(function, *args) -> bool:
    """Return True if the function accepts the arguments; then its module must verify. Otherwise check the error message."""
    arrays = [i for i, x in enumerate(args) if isinstance(x, (np.ndarray, xf.Array))]

    def traced(*given):
        full = list(args)
        for i, x in zip(arrays, given):
            full[i] = x
        return function(*full)

    try:
        lowered = xf.jit(traced).lower(*[args[i] for i in arrays])
    except REFUSALS as e:
        assert len(str(e)) > 20, e
        assert "MLIR" not in type(e).__name__ and "module assembly" not in str(e), e
        assert "Cannot interpret" not in str(e), e  # NumPy's words for a random key
        return False
    assert lowered.compiler_ir().operation.verify()
    return True


def accepted(outcomes) -> bool:
    outcomes = list(outcomes)
    return any(outcomes)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_one_operand(name):
    assert accepted(as_module(getattr(lax, name), x) for x in OPERANDS.values())


@pytest.mark.parametrize("name", PAIRS)
def test_two_operands(name):
    f = getattr(lax, name)
    plain = OPERANDS["float32"], OPERANDS["int32"]
    pairs = [(x, x) for x in OPERANDS.values()] + [(x, y) for x in OPERANDS.values() for y in plain] + [
        (y, x) for x in OPERANDS.values() for y in plain[:1]]
    assert accepted(as_module(f, x, y) for x, y in pairs)


@pytest.mark.filterwarnings("ignore:nn.one_hot needs integers")
@pytest.mark.parametrize("name", WITH_ONE_MORE)
def test_omitted_arguments(name):
    f, values = WITH_ONE_MORE[name]
    some = [OPERANDS[key] for key in ("float32", "matrix", "int4", "complex64", "key", "float0", "scalar")]
    every = list(OPERANDS.values())
    assert accepted([as_module(lambda x, v=v: f(x, v), x) for v in values for x in some]
                    + [as_module(lambda x: f(x, values[0]), x) for x in every])
