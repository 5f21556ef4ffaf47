"""Arguments and results of transformed functions: names, donated memory, tokens, objects that describe arrays."""

import functools
import inspect
import os
import types

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax


def documented(x):
    """Return the argument."""
    return x * 2.0


documented.note = "kept"
TRANSFORMS = "jit grad vmap value_and_grad jacfwd jacrev hessian checkpoint pmap named_call custom_jvp custom_vjp".split()
VARIANTS = {"static": {"static_argnums": 0}, "donated": {"donate_argnums": 0}, "plain": {}}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformed_functions_have_the_metadata_of_the_function(name):
    made = getattr(xf, name)(documented)
    assert (made.__name__, made.__qualname__, made.__module__) == ("documented", "documented", __name__)
    assert made.note == "kept" and inspect.unwrap(made) is documented
    assert made.__doc__.endswith("Return the argument.")
    again = getattr(xf, name)(functools.partial(documented))
    assert inspect.unwrap(again).func is documented


def test_programs_have_the_name_of_the_function():
    made = xf.make_jaxpr(documented)
    assert (made.__name__, made.__module__, made.note) == ("make_jaxpr(documented)", "xlafront", "kept")


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_wrappers_of_jitted_functions_are_not_jitted(options):
    jitted = xf.jit(documented, **options)
    stages = ("lower", "trace", "eval_shape", "clear_cache")
    assert all(hasattr(jitted, name) for name in stages) and isinstance(jitted, xf.stages.Wrapped)
    wrapped = functools.wraps(jitted)(lambda x: x * 5.0)
    assert not any(hasattr(wrapped, name) for name in stages)
    assert wrapped.note == "kept" and wrapped(2.0) == 10.0

    class Holder:
        method = xf.jit(lambda self, x: x + 1, static_argnums=0)

    assert Holder().method(2) == 3 and Holder.method(Holder(), 2) == 3


def test_decorators_are_refused():
    for kind in (staticmethod, classmethod, property):
        with pytest.raises(TypeError):
            xf.jit(kind(documented))


@pytest.mark.parametrize("static, call, kinds", [
    (-1, (1, 2), [False, True]), (-2, (1, 2, 3), [False, True, False]), ((0, -1), (1, 2, 3), [True, False, True]),
    (5, (1, 2), [False, False]), ((0, -1), (1,), [True])])
def test_static_positions_of_variadic_functions(static, call, kinds):
    """Negative ones count from the end of each call."""
    seen = []

    def f(*args):
        seen.append([isinstance(x, int) for x in args])
        return 0

    xf.jit(f, static_argnums=static)(*call)
    assert seen == [kinds]


def test_positions_out_of_range():
    def f(a, *rest):
        return a

    with pytest.raises(ValueError, match="-len"):
        xf.jit(f, static_argnums=(0, -999))(1)
    assert xf.jit(f, donate_argnums=(0, -999, 999)).lower(xnp.ones(2)).donate_argnums == (0,)


@pytest.mark.cpu_only
@pytest.mark.parametrize("given, f", [
    (("int32", (3,)), lambda x: x.astype("float32")), (("float32", (2, 3)), lambda x: x.reshape(6)),
    (("float32", (4,)), lambda x: lax.bitcast_convert_type(x, "int32")), (("int16", (4,)), lambda x: x[:2].astype("int32"))])
def test_donated_memory_fits_results_of_as_many_bytes(given, f):
    x = xnp.ones(given[1], given[0])
    expected = np.asarray(f(x))
    result = xf.jit(f, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(result, expected)
    for use in (repr, str, np.asarray, lambda v: v.devices(), lambda v: v + 1):
        with pytest.raises(RuntimeError, match="deleted"):
            use(x)


def test_memory_that_fits_no_result_is_not_donated():
    x = xnp.ones(3)
    with pytest.warns(UserWarning, match="no result can take"):
        xf.jit(lambda x: x[:2], donate_argnums=0)(x)
    assert not x.is_deleted()


def test_conversions_of_donated_memory_do_not_warn(recwarn):
    x = xnp.ones(4, "bfloat16")
    xf.jit(lambda x: x.astype("float32"), donate_argnums=0)(x)
    assert not x.is_deleted() and not recwarn


# Tokens


def test_tokens_pass_through_programs():
    token, x = lax.create_token(), xnp.arange(3.0)
    kind = type(token)
    value, same = xf.jit(lambda v, t: (v + 1, lax.after_all(t, t)))(x, token)
    np.testing.assert_array_equal(value, [1, 2, 3])
    assert type(same) is kind
    for made in (xf.jit(lax.create_token)(), xf.jit(lambda: token)(), xf.jit(lambda t: lax.fori_loop(0, 2, lambda i, u: u, t))(
            token), xf.device_put(token), xf.block_until_ready(token)):
        assert type(made) is kind
    np.testing.assert_array_equal(xf.jit(lambda v: (v * 2, lax.after_all(token))[0])(x), [0, 2, 4])
    assert str(xf.make_jaxpr(lambda t: t)(token).in_avals) == "[AbstractToken()]"
    for wrong in (lambda: token + 1, lambda: xnp.sin(token), lambda: xf.jit(xnp.sin)(token)):
        with pytest.raises(TypeError):
            wrong()


# What describes arrays


def shaped(**fields):
    return types.SimpleNamespace(**fields)


@pytest.mark.parametrize("described, shape, dtype", [
    (shaped(shape=(3,), dtype=np.dtype("float32")), (3,), "float32"), (shaped(shape=[2, 3], dtype="int32"), (2, 3), "int32"),
    (shaped(shape=(), dtype=np.dtype("float64")), (), "float32"), (shaped(shape=(2,), dtype=xnp.bfloat16), (2,), "bfloat16")])
def test_objects_with_a_shape_and_a_dtype_describe_arrays(described, shape, dtype):
    expected = xf.ShapeDtypeStruct(shape, dtype)
    f = xf.jit(lambda x: x)
    assert xf.eval_shape(lambda x: x, described) == f.eval_shape(described) == f.trace(described).out_info == expected
    assert f.lower(described).out_info == expected
    [aval] = xf.make_jaxpr(lambda x: x)(described).in_avals
    assert (aval.shape, aval.dtype.name) == (shape, dtype)
    for compute in (f, xf.vmap(lambda x: x), xnp.sin, xf.device_put):
        with pytest.raises(TypeError):
            compute(described)


class Convertible:
    def __jax_array__(self):
        return xnp.arange(3.0)


CONVERTED = {
    "asarray": xnp.asarray, "array": xnp.array, "stack": lambda c: xnp.stack([c])[0], "shape": xnp.shape, "size": xnp.size,
    "an operator": lambda c: xnp.arange(3.0) + c, "from the left": lambda c: c * xnp.arange(3.0),
    "comparison": lambda c: xnp.arange(3.0) == c, "update": lambda c: xnp.zeros(3).at[:].set(c), "reshape": lambda c: xnp.reshape(
        c, (3, 1)), "inside of jit": lambda c: xf.jit(lambda x: x + c)(xnp.ones(3)), "nested lists": lambda c: xnp.array([c, c])}
# Functions that take such objects as they take lists of numbers, by NumPy's of the same name.
LIKE_ARRAYS = ["argmax", "argmin", "argwhere", "cumulative_sum", "cumulative_prod", "diag", "flip", "flipud", "nanargmax", "nanargmin",
               "ptp", "std", "var", "fft.fft", "fft.rfft", "fft.ihfft", "fft.fftshift", "fft.ifftshift", "linalg.vector_norm"]
LIKE_ARRAYS_OF_TWO = ["isin", "setdiff1d", "union1d", "intersect1d", "vecdot", "pad", "delete", "full_like", "hsplit"]
REFUSED = {
    "jit": xf.jit(documented), "vmap": xf.vmap(documented), "grad": xf.grad(lambda x: documented(x).sum()),
    "scan": lambda c: lax.scan(lambda a, b: (a, b), 0.0, c), "cond": lambda c: lax.cond(True, documented, documented, c), "device_put": xf.device_put,
    "make_jaxpr": xf.make_jaxpr(documented), "sin": xnp.sin, "lax": lax.sin, "result": lambda c: xf.jit(lambda: c)(),
    "jvp": lambda c: xf.jvp(documented, (c,), (1.0,)), "typeof": xf.typeof}


@pytest.mark.parametrize("name", CONVERTED)
def test_objects_are_converted_on_request(name):
    array = xnp.arange(3.0)
    found, expected = CONVERTED[name](Convertible()), CONVERTED[name](array)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", LIKE_ARRAYS + LIKE_ARRAYS_OF_TWO)
def test_objects_are_converted_by_functions_of_numpy(name):
    rest = () if name in LIKE_ARRAYS else (1,) if name in ("pad", "delete", "full_like") else ([1],) if name == "hsplit" else (np.ones(3, np.float32),)
    ours, theirs = (functools.reduce(getattr, name.split("."), module) for module in (xnp, np))
    given = [np.asarray(x) for x in rest] if name == "vecdot" else rest
    found, expected = ours(Convertible(), *rest), theirs(np.arange(3.0, dtype=np.float32), *given)
    for a, b in zip(found if isinstance(found, list) else [found], expected if isinstance(expected, list) else [expected], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_objects_are_not_converted_without_request(name):
    with pytest.raises(ValueError, match="__jax_array__.*asarray"):
        REFUSED[name](Convertible())


# Stages


def test_compiled_functions():
    f = xf.jit(lambda x, n: x * n, static_argnums=1, donate_argnums=0)
    compiled = f.lower(xnp.ones(3), 2).compile()
    assert compiled.donate_argnums == (0,)
    np.testing.assert_array_equal(compiled.call(xnp.ones(3)), [2, 2, 2])
    with pytest.raises(TypeError, match="compiled in: leave them out"):
        compiled(xnp.ones(3), 2)


def test_options_of_the_compiler_are_for_the_outermost_program():
    inner = xf.jit(lambda x: x + 1, compiler_options={"xla_cpu_enable_fast_math": True})
    assert inner(1.0) == 2.0
    np.testing.assert_array_equal(xf.vmap(inner)(xnp.ones(2)), [2, 2])
    for outer in (xf.jit(lambda x: inner(x)), xf.make_jaxpr(lambda x: inner(x))):
        with pytest.raises(ValueError, match="compiler_options"):
            outer(1.0)


def test_derivatives_of_functions_with_options_of_the_compiler():
    cube = xf.jit(lambda x: x**3, compiler_options={"xla_cpu_enable_fast_math": True})
    for x in (1.0, 2.0, 3.0):  # a backward pass that recurs is one program, if it may be
        assert xf.grad(cube)(x) == 3 * x**2 and xf.vjp(cube, x)[1](2.0) == (6 * x**2,)
        assert xf.jacrev(cube)(x) == xf.jacfwd(cube)(x) == 3 * x**2 and xf.hessian(cube)(x) == 6 * x
    np.testing.assert_array_equal(xf.vmap(xf.grad(cube))(xnp.arange(3.0)), [0, 3, 12])
    triple = xf.jit(lambda x: 3 * x, compiler_options={"xla_cpu_enable_fast_math": True})
    for linear, factor in ((triple, 3), (lambda x: 2 * triple(x), 6)):
        transposed = xf.linear_transpose(linear, 1.0)
        assert transposed(2.0) == (2 * factor,) and xf.grad(lambda ct: transposed(ct)[0])(1.0) == factor
    with pytest.raises(ValueError, match="compiler_options"):
        xf.jit(xf.grad(cube))(1.0)


def test_precisions_are_known():
    with pytest.raises(ValueError, match="foo"):
        xf.default_matmul_precision("foo")
    with pytest.raises(ValueError, match="bfloat16"):
        xf.config.update("default_matmul_precision", "foo")
    assert xf.config.default_matmul_precision == os.environ.get("XLAFRONT_DEFAULT_MATMUL_PRECISION")
