"""The rules that all compilers of kernels share: functions lowered to vectors, run by the evaluator, against compiled code."""

import ml_dtypes
import mlir_evaluator
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.lowering.mlir import create, ir
from xlafront.pallas import kernel_elementwise, kernel_equations, kernel_mlir

pytestmark = pytest.mark.cpu_only


class VectorWriter(kernel_mlir.Writer):
    platform = "vectors"
    rules = {**kernel_elementwise.RULES, **kernel_equations.RULES}

    def shaped_type(self, shape, element):
        return ir.VectorType.get(shape, element)

    def broadcast(self, x, shape, new_shape):
        element = ir.VectorType(x.type).element_type if shape else x.type
        return self.op("vector.broadcast", [x], self.shaped_type(new_shape, element))


class Evaluator(mlir_evaluator.Evaluator):
    def __init__(self, module):
        super().__init__(module)
        self.rules["vector.broadcast"] = lambda op, x: np.broadcast_to(x, tuple(op.results[0].type.shape))


def lowered(function, *args):
    """The module of a function on vectors, with its name `main`."""
    jaxpr = xf.make_jaxpr(function)(*args)
    context = kernel_mlir.make_context("_triton_ext")
    w = VectorWriter(context, "main")
    with context, ir.Location.unknown():
        module = ir.Module.create()
        ins, outs = w.types_of(jaxpr.in_avals), w.types_of(jaxpr.out_avals)
        main = create("func.func", regions=1, ip=ir.InsertionPoint(module.body), attributes={
            "sym_name": ir.StringAttr.get("main"), "function_type": ir.TypeAttr.get(ir.FunctionType.get(ins, outs))})
        block = main.regions[0].blocks.append(*ins)
        with ir.InsertionPoint(block):
            create("func.return", operands=kernel_equations.lower_equations(w, jaxpr, list(block.arguments)))
        module.operation.verify()
    return module


def check(function, *args, rtol=3e-6):
    module = lowered(function, *args)
    arrays = [np.asarray(a) for a in args]
    results = Evaluator(module).call("main", *[a.view(f"i{a.dtype.itemsize}") if a.dtype.kind == "u" else a for a in arrays])
    expected = [np.asarray(x) for x in xf.tree.leaves(xf.jit(function)(*args))]
    assert len(results) == len(expected)
    for result, x in zip(results, expected):
        result = result.view(x.dtype)
        assert result.shape == x.shape
        if x.dtype.kind in "iub":
            np.testing.assert_array_equal(result, x)
        else:
            rtol_of_dtype = max(rtol, 2 * float(ml_dtypes.finfo(x.dtype).eps))
            np.testing.assert_allclose(result.astype(np.float64), x.astype(np.float64), rtol=rtol_of_dtype, atol=1e-6)
    return module


FLOATS = np.array([-2.5, -1.5, -0.0, 0.0, 0.5, 0.49999997, 3.7, np.inf], np.float32)


@pytest.mark.parametrize("function", [
    xf.nn.relu, xf.nn.silu, xf.nn.relu6, xnp.round, lax.round, lax.sign, lambda x: x ** 3, lambda x: x ** -2, lambda x: -x,
    lambda x: x // 2, lambda x: x % 3, xnp.isfinite, xnp.cosh, xnp.tanh, lambda x: lax.clamp(0.0, x, 1.0), xnp.exp2, lax.erf,
    lambda x: xnp.log2(abs(x) + 1), lambda x: xnp.logaddexp(x, 1.5), lambda x: x.astype(xnp.bfloat16) * 2, xnp.square,
    lambda x: x.astype(xnp.float16).astype(xnp.bfloat16), lambda x: x.astype(bool), lambda x: xnp.where(x > 0, x, 2.0),
    lambda x: xnp.minimum(x, xnp.nan), lambda x: (x != x, x == x, x < 1, x <= 0.5, x > 0, x >= 0), lambda x: abs(x) ** 1.5,
    lambda x: lax.nextafter(x, -x), lambda x: lax.nextafter(x, xnp.float32(1)), xnp.expm1, lambda x: xnp.log1p(abs(x))])
def test_floats(function):
    check(function, FLOATS)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int32"])
@pytest.mark.parametrize("function", [
    lambda i: i // 3, lambda i: i % 3, lax.population_count, lax.clz, lambda i: ~i, lambda i: abs(i), lambda i: i * i - i,
    lambda i: (i > 100, i >= 7, i < 7, i <= 3, i == 7, i != 7), lambda i: xnp.clip(i, 3, 9), lambda i: i.astype(xnp.float32),
    lambda i: i.astype(xnp.int32), lambda i: i.astype(xnp.uint8), lambda i: i.astype(bool), lambda i: i ** 2, xnp.sign,
    lambda i: (i << 1, i << 7, i >> 2), lambda i: (i << i, i >> i, lax.shift_right_logical(i, i)), lambda i: (i & 5, i | 6, i ^ 9),
    lambda i: (i > 2).astype(i.dtype), lambda i: lax.max(i, i[::1] * 3), lambda i: ((i > 2) | (i < 1)) & ~(i == 0)])
def test_integers(function, dtype):
    check(function, np.array([251, 7, 100, 156, 3, 2, 1, 0]).astype(dtype))


@pytest.mark.parametrize("function", [
    lambda x, n: lax.fori_loop(0, 7, lambda i, c: c + i * x, x), lambda x, n: lax.fori_loop(0, n, lambda i, c: c + i * x, x),
    lambda x, n: lax.fori_loop(n, 9, lambda i, c: (c[0] + i * x, c[1] + 2), (x, n)),
    lambda x, n: lax.fori_loop(2, 12, lambda i, c: c + i * x, x, unroll=4), lambda x, n: lax.fori_loop(5, n, lambda i, c: c + 1, n),
    lambda x, n: lax.fori_loop(0, 3, lambda i, c: c + i * x, x, unroll=True),
    lambda x, n: lax.while_loop(lambda c: c[0] < 10.0, lambda c: (c[0] * 2 + 1, c[1] + x), (0.0, x)),
    lambda x, n: lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1] - 1, c[2] + x), (0, 9, x)),
    lambda x, n: lax.switch(n, [lambda: x, lambda: 2 * x, lambda: 3 * x]), lambda x, n: lax.cond(n > 1, lambda: x, lambda: -x),
    lambda x, n: lax.select_n(xnp.clip(n, 0, 2), x, 2 * x, 3 * x), lambda x, n: xf.checkpoint(xnp.sin)(x), lambda x, n: xf.jit(xnp.cos)(x)])
@pytest.mark.parametrize("n", [-1, 1, 2, 5])
def test_control_flow(function, n):
    check(function, np.arange(4, dtype=np.float32), np.int32(n))


def test_loops_with_a_counter_are_counted_loops():
    x = np.arange(4, dtype=np.float32)
    static = str(lowered(lambda x: lax.fori_loop(0, 7, lambda i, c: c + i * x, x), x))
    assert "scf.for" in static and "iter_args(%arg2 = %arg0) -> (vector<4xf32>)" in static
    assert "scf.for" in str(lowered(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + i * x, x), x, np.int32(3)))


def test_lines_and_errors():
    text = lowered(lambda x: xnp.sin(x), FLOATS).operation.get_asm(enable_debug_info=True)
    assert "test_kernel_mlir.py" in text
    with pytest.raises(NotImplementedError, match=r"main, at .*test_kernel_mlir.*transpose is not possible .* for vectors"):
        lowered(lambda x: x.T, np.eye(4, dtype=np.float32))
    with pytest.raises(NotImplementedError, match="complex"):
        lowered(lambda x: x * 1j, FLOATS)
    with pytest.raises(NotImplementedError, match="fori_loop"):
        lowered(lambda x: lax.scan(lambda c, v: (c + v, None), 0.0, x), np.zeros(65, np.float32))
