"""Functions for kernels, their errors, and debugging."""

import functools
import json

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import checkify, pallas as pl

interpreted = functools.partial(pl.pallas_call, interpret=True)
X = np.arange(8, dtype=np.float32)
LIKE = xf.ShapeDtypeStruct((8,), "float32")
OUTSIDE = xnp.ones(8)
SPEC = pl.BlockSpec((4,), lambda i: i)


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


# Conditions, loops and memory


def test_when_with_concrete_condition():
    def kernel(x_ref, o_ref):
        copy(x_ref, o_ref)

        @pl.when(False)
        def _():
            raise AssertionError

        @pl.when(x_ref[1] == 1)
        def _():
            o_ref[0] = 7.0

    np.testing.assert_array_equal(interpreted(kernel, out_shape=LIKE)(X), [7, *X[1:]])


def test_loops():
    def kernel(x_ref, o_ref):
        copy(x_ref, o_ref)

        @pl.loop(1, 8, step=3)
        def _(i):
            o_ref[i] = -x_ref[i]

        @pl.loop(0, 3, init_carry=xnp.float32(0), unroll=True)
        def total(i, carry):
            return carry + x_ref[i + 1]

        o_ref[0] = total

    np.testing.assert_array_equal(interpreted(kernel, out_shape=LIKE)(X), [6, -1, 2, 3, -4, 5, 6, -7])
    @pl.loop(7, 0, step=-2, unroll=True, init_carry=0)
    def down(i, carry):
        return carry * 10 + i

    assert int(down) == 7531
    with pytest.raises(ValueError, match="step other than 0"):
        pl.loop(0, 3, step=0)


def test_run_scoped():
    def kernel(x_ref, o_ref):
        def body(a_ref, *, b):
            a_ref[...] = x_ref[...] * 2
            b["c"][...] = a_ref[...] + 1
            return b["c"][...]

        o_ref[...] = pl.run_scoped(body, pl.ANY((8,), "float32"), b={"c": pl.ANY((8,), "float32")})

        @pl.with_scoped(pl.ANY((1,), "float32"))
        def last(value, scratch_ref):
            scratch_ref[0] = value
            o_ref[7] = scratch_ref[0]

        last(x_ref[3])

    np.testing.assert_array_equal(interpreted(kernel, out_shape=LIKE)(X), [*(2 * X + 1)[:7], 3])


def test_scoped_memory_is_freed():
    def kernel(x_ref, o_ref):
        escaped = pl.run_scoped(lambda ref: [ref], pl.ANY((8,), "float32"))
        o_ref[...] = escaped[0][...]

    with pytest.raises(RuntimeError, match="after freeze or free_ref"):
        interpreted(kernel, out_shape=LIKE)(X)
    with pytest.raises(TypeError, match="descriptions of memory"):
        interpreted(lambda o_ref: pl.run_scoped(lambda ref: None, (8,)), out_shape=LIKE)()


def test_run_state():
    def change(refs):
        refs["a"][...] += refs["b"][...]
        refs["b"][0] = 9.0

    found = pl.run_state(change)({"a": X, "b": 2 * X})
    np.testing.assert_array_equal(found["a"], 3 * X)
    np.testing.assert_array_equal(found["b"], [9, *(2 * X)[1:]])


def test_select_ref():
    def kernel(x_ref, y_ref, o_ref):
        chosen = pl.select_ref(pl.program_id(0), x_ref, y_ref)
        o_ref[...] = chosen[...] + chosen.shape[0]
        pl.select_ref(1, x_ref, y_ref)[0] = 100.0

    found = interpreted(kernel, out_shape=xf.ShapeDtypeStruct((16,), "float32"), grid=2,
                        out_specs=pl.BlockSpec((8,), lambda i: i))(X, -X)
    np.testing.assert_array_equal(found, [*(X + 8), 108, *(8 - X)[1:]])


def test_empty_arrays_and_refs():
    assert pl.empty((2, 3), "int8").shape == (2, 3)
    assert pl.empty_like({"a": LIKE})["a"].dtype == np.float32

    def kernel(x_ref, o_ref):
        held = pl.empty_ref_like(LIKE)
        held[...] = x_ref[...]
        o_ref[...] = held[...]

    np.testing.assert_array_equal(interpreted(kernel, out_shape=LIKE)(X), X)


def test_reciprocal_and_derivative():
    np.testing.assert_allclose(pl.tpu.reciprocal(X + 1), 1 / (X + 1), rtol=1e-6)
    rounded = (X + 1.01).astype(ml_dtypes.bfloat16).astype(np.float32)  # as in interpreted kernels of JAX
    np.testing.assert_allclose(pl.tpu.reciprocal(X + np.float32(1.01), approx=True), 1 / rounded, rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda x: pl.tpu.reciprocal(x).sum())(X + 1), -1 / (X + 1) ** 2, rtol=1e-6)
    np.testing.assert_allclose(xf.vmap(pl.tpu.reciprocal)(X + 1), 1 / (X + 1), rtol=1e-6)


# Looking inside


def test_debug_print(capfd):
    def kernel(x_ref, o_ref):
        pl.debug_print("at {}: {}", pl.program_id(0), x_ref[0])
        copy(x_ref, o_ref)

    interpreted(kernel, out_shape=LIKE, grid=2, in_specs=[SPEC], out_specs=SPEC)(X)
    xf.effects_barrier()
    assert capfd.readouterr().out == "at 0: 0.0\nat 1: 4.0\n"


def test_debug_check():
    def kernel(x_ref, o_ref):
        pl.debug_check(x_ref[0] < 4, "too large")
        copy(x_ref, o_ref)

    call = interpreted(kernel, out_shape=LIKE, grid=2, in_specs=[SPEC], out_specs=SPEC)
    assert checkify.checkify(call)(X)[0].get() is None
    assert not xf.config.pallas_enable_debug_checks
    with pl.enable_debug_checks():
        assert xf.config.pallas_enable_debug_checks
        error, found = checkify.checkify(call)(X)
        assert "too large" in error.get()
        np.testing.assert_array_equal(found, X)
        assert checkify.checkify(call)(X - 1)[0].get() is None
        np.testing.assert_array_equal(call(X), X)


def test_debug_nans_in_kernel():
    def kernel(x_ref, o_ref):
        o_ref[...] = xnp.log(x_ref[...] - 1)

    call = checkify.checkify(interpreted(kernel, out_shape=LIKE), errors=checkify.nan_checks)
    assert "nan generated by primitive: log" in call(X)[0].get()


def test_debug_prints_jaxpr(capsys):
    interpreted(copy, out_shape=LIKE, debug=True)(X)
    assert "Ref<default>{f32[8]}" in capsys.readouterr().out
    text = str(xf.make_jaxpr(interpreted(copy, out_shape=LIKE, name="mine"))(X))
    assert "pallas_call[" in text and "name=mine" in text and "Ref<default>{f32[8]}" in text


def test_estimate_cost():
    cost = pl.estimate_cost(lambda x, y: xnp.exp(x @ y) + 1, np.ones((2, 3), "f"), np.ones((3, 4), "f"))
    assert cost == pl.CostEstimate(flops=2 * 2 * 3 * 4 + 8, transcendentals=8, bytes_accessed=4 * (6 + 12 + 8))
    assert pl.estimate_cost(lambda x: x**5, X).flops == 4 * 8
    assert pl.estimate_cost(lambda x: xf.lax.scan(lambda c, _: (c * 2, None), x, length=5)[0], X).flops == 5 * 8
    known = pl.CostEstimate(7, 1, 3)
    assert pl.estimate_cost(interpreted(copy, out_shape=LIKE, cost_estimate=known), X).flops == 7
    assert json.loads(known.to_json())["bytes_accessed"] == 3


def test_lower_as_mlir():
    assert "stablehlo.add" in str(pl.lower_as_mlir(lambda x: x + 1, X))


# Sizes


def test_arithmetic_of_sizes():
    assert [pl.cdiv(a, 3) for a in (0, 1, 3, 4)] == [0, 1, 1, 2]
    np.testing.assert_array_equal(pl.cdiv(xnp.arange(5), 2), [0, 1, 1, 2, 2])
    assert [pl.align_to(a, 8) for a in (0, 1, 8, 9)] == [0, 8, 8, 16]
    assert [pl.next_power_of_2(a) for a in (0, 1, 2, 3, 8, 9)] == [1, 1, 2, 4, 8, 16]
    assert pl.strides_from_shape((2, 3, 4)) == tuple(s // 8 for s in np.zeros((2, 3, 4)).strides)
    with pytest.raises(ValueError, match="not negative"):
        pl.next_power_of_2(-1)


# Mistakes


@pytest.mark.parametrize(("kernel", "options", "error", "message"), [
    (lambda x, o: x[...], {}, ValueError, "should return None"),
    (lambda x, o: o.__setitem__(..., x[...] + OUTSIDE), {}, ValueError, r"captures constants.*float32\[8\]"),
    (lambda x, o: o.__setitem__(..., x[...] + pl.program_id(1)), {"grid": 2}, ValueError, "axis 1 is out of bounds for the grid"),
    (lambda x, o: o.__setitem__(..., x[...].astype(int)), {}, ValueError, "needs a value of dtype float32"),
    (copy, {"in_specs": SPEC}, ValueError, "must be a tuple or a list"),
    (copy, {"in_specs": [SPEC, SPEC]}, ValueError, "pytree of in_specs and that of the arguments do not match"),
    (copy, {"out_specs": [SPEC]}, ValueError, "pytree of out_specs and that of out_shape do not match"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((4, 2), lambda i: (i, 0))]}, ValueError, r"args\[0\].*same number of dimensions"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((4,), lambda i: (i, i))]}, ValueError, r"args\[0\] must return 1 values"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((4,), lambda i: 1.0 * i)]}, ValueError, "must return integer scalars"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((4,), lambda i: xnp.asarray(X)[i].astype(int))]}, ValueError,
     "must not capture constants"),
    (copy, {"grid": 2, "in_specs": [pl.BlockSpec((4.5,), lambda i: i)]}, TypeError, "takes integers"),
    (copy, {"input_output_aliases": {1: 0}}, ValueError, "input index outside of the range"),
    (copy, {"input_output_aliases": {0: 1}}, ValueError, "output index outside of the range"),
    (copy, {"scratch_shapes": [LIKE]}, TypeError, "descriptions of memory"),
    (copy, {"grid": (1.5,)}, ValueError, "tuple of integers"),
    (copy, {"grid": 2, "grid_spec": pl.GridSpec(grid=2)}, ValueError, "with grid_spec, `grid`"),
    (copy, {"out_shape": (8,)}, ValueError, "invalid out_shape type int"),
    (copy, {"interpret": False}, ValueError, "only interpret mode is supported on the CPU backend"),
], ids=range(19))
@pytest.mark.cpu_only
def test_invalid_arguments_raise(kernel, options, error, message):
    with pytest.raises(error, match=message):
        pl.pallas_call(kernel, **{"out_shape": LIKE, "interpret": True} | options)(X)


def test_aliases_of_different_types_raise():
    with pytest.raises(ValueError, match=r"input of type float32\[8\] and an output with a different type, float32\[4\]"):
        interpreted(copy, out_shape=xf.ShapeDtypeStruct((4,), "float32"), input_output_aliases={0: 0})(X)


def test_program_id_outside_of_kernel_raises():
    with pytest.raises(ValueError, match="there is none here"):
        pl.program_id(0)
    with pytest.raises(TypeError, match="not a valid|NumPy|array"):
        interpreted(copy, out_shape=LIKE)("text")
