"""`jit`: arguments, caches, nesting, donation, stages, settings."""

import copy
import functools
import logging
import pickle
import threading
from typing import NamedTuple

import numpy as np
import pytest
from laws import signatures_seen

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn
from xlafront.runtime import clients


def counted(f):
    """`f`, and the list of its tracings."""
    traces = []

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        traces.append(1)
        return f(*args, **kwargs)

    return wrapper, traces


def test_traced_once_for_each_signature():
    f, traces = counted(lambda x, y=2: x * y)
    g = xf.jit(f)
    for _ in range(3):
        assert g(xnp.ones(2)).tolist() == [2, 2]
    zeros = xnp.zeros(2)
    with signatures_seen() as seen:
        g(zeros)
    assert len(traces) == 1 and not seen and g._cache_size() == 1
    g(xnp.ones(3)), g(xnp.ones(2, "int32")), g(xnp.ones(2), y=3), g(1.0), g(1), g(True)
    assert len(traces) == 7
    xf.jit(f)(xnp.ones(2))  # the same function jitted again shares what is known
    assert len(traces) == 7
    g.clear_cache()
    g(xnp.ones(2))
    assert len(traces) == 8


def test_python_and_numpy_scalars():
    f = xf.jit(lambda x: x + 1)
    assert (
        f(2) == 3
        and f(2).weak_type
        and f(2.5) == 3.5
        and f(np.int8(2)).dtype == np.int8
        and f(True) == 2
        and f(1j) == 1 + 1j
    )
    assert not f(np.float32(2)).weak_type and f(np.ones(2)).dtype == np.float32


def test_pytrees_in_and_out():
    f = xf.jit(
        lambda tree, *rest, scale: {"sum": tree["a"] + rest[0][1], "rest": (rest, None), "scaled": tree["a"] * scale}
    )
    out = f({"a": xnp.ones(2)}, [1, 2.0], 7, scale=3)
    assert (
        out["sum"].tolist() == [3, 3]
        and out["rest"][1] is None
        and out["rest"][0][1] == 7
        and out["scaled"].tolist() == [3, 3]
    )


def test_static_arguments():
    f, traces = counted(lambda x, n, mode="a": x * n if mode == "a" else x - n)
    g = xf.jit(f, static_argnums=1, static_argnames="mode")
    assert g(3.0, 2) == 6 and g(3.0, 2, mode="b") == 1 and g(3.0, 2, mode="a") == 6 and g(4.0, 2) == 8
    assert len(traces) == 3 and g(3.0, n=2) == 6
    h = xf.jit(lambda shape, x: xnp.broadcast_to(x, shape), static_argnums=(0,))
    assert h((2, 2), 1.0).shape == (2, 2) and h((3,), 1.0).shape == (3,)
    by_name = xf.jit(lambda x, n: x[:n], static_argnames=("n",))
    assert by_name(xnp.arange(4), n=2).tolist() == [0, 1] and by_name(xnp.arange(4), 3).tolist() == [0, 1, 2]
    last = xf.jit(lambda a, b, n: a + b * n, static_argnums=-1)
    assert last(1.0, 2.0, 3) == 7


def test_methods_decorators_and_partials():
    class Model:
        def __init__(self, w):
            self.w = w

        @functools.partial(xf.jit, static_argnums=0)
        def __call__(self, x):
            return x * self.w

        @xf.jit
        def plain(x):  # noqa: N805
            return x + 1

    assert Model(3.0)(2.0) == 6 and Model.plain(1) == 2
    assert xf.jit(functools.partial(lambda a, b: a - b, 10))(3) == 7
    f = xf.jit(lambda x: x)
    assert f.__name__ == "<lambda>" and f.__wrapped__(3) == 3 and callable(xf.jit(inline=True)(lambda x: x))


def test_functions_made_from_callables_without_a_name_have_that_of_what_they_call():
    class Double:
        def __call__(self, x):
            return x * 2

    def scaled(a, x):
        return a * x

    for transform in (xf.jit, xf.vmap, xf.grad, xf.jacrev, xf.checkpoint, xf.pmap):
        assert transform(functools.partial(scaled, 2.0)).__name__ == "scaled", transform
        assert transform(Double()).__name__ == "Double", transform


def test_nested_calls_are_one_function_of_the_module():
    layer = xf.jit(lambda x: xnp.tanh(x) * 2)
    program = xf.jit(lambda x: layer(layer(layer(x))))
    text = program.lower(1.0).as_text()
    assert text.count("call @") == 3 and text.count("stablehlo.tanh") == 1
    np.testing.assert_allclose(
        float(program(0.3)), functools.reduce(lambda x, _: np.tanh(x) * 2, range(3), 0.3), rtol=1e-6
    )


X = np.float32(0.7)
_IN_JAXPR_AND_MODULE = [  # a call in the jaxpr, the text of the call in the module
    (xf.Inline.JAX_EARLY, False, ""), (xf.Inline.JAX_LATE, True, ""), (xf.Inline.AUTO, True, "call @_lambda_(%arg0) :"),
    (xf.Inline.XLA_EARLY, True, 'inlineable = "xla_early"'), (xf.Inline.XLA_LATE, True, 'inlineable = "xla_late"'),
    (True, True, ""), (False, True, "call @_lambda_(%arg0) :")]


@pytest.mark.parametrize(("inline", "in_jaxpr", "text"), _IN_JAXPR_AND_MODULE)
def test_inlining_of_nested_calls(inline, in_jaxpr, text):
    inner = xf.jit(lambda x: xnp.sin(x) * 2, inline=inline)
    outer = xf.jit(lambda x: inner(x) + 1)
    jaxpr = xf.make_jaxpr(lambda x: inner(x) + 1)(X)
    assert ("jit" in {str(eqn.primitive) for eqn in jaxpr.eqns}) is in_jaxpr and "inline" not in str(jaxpr)
    module = outer.lower(X).as_text()
    assert text in module if text else "call @" not in module
    np.testing.assert_allclose((outer(X), inner(X), xf.grad(outer)(X)), (2 * np.sin(X) + 1, 2 * np.sin(X), 2 * np.cos(X)), 1e-6)


@pytest.mark.parametrize("inline", [None, "auto", 1])
def test_invalid_inlining(inline):
    with pytest.raises(ValueError, match="invalid inline option"):
        xf.jit(xnp.sin, inline=inline)


def test_large_constants_are_arguments_of_the_executable():
    big, small = np.arange(100_000, dtype=np.float32), np.arange(3, dtype=np.float32)
    f = xf.jit(lambda x: x + big.sum() * 0 + xnp.asarray(big)[7] + xnp.asarray(small)[1])
    assert f(1.0) == 9
    on_device = xnp.asarray(big)
    g = xf.jit(lambda x: on_device * x)
    assert len(g.lower(2.0).as_text()) < 2000 and g(2.0)[3] == 6


def test_unused_arguments():
    f = xf.jit(lambda x, unused: x * 2)
    assert f.lower(1.0, xnp.ones(1000)).as_text().count("%arg") == xf.jit(lambda x: x * 2).lower(1.0).as_text().count(
        "%arg"
    )
    assert "tensor<7xf32>" in xf.jit(lambda x, u: x, keep_unused=True).lower(1.0, xnp.ones(7)).as_text()
    assert f(2.0, xnp.ones(3)) == 4 and xf.jit(lambda x, y: y)(1, 2) == 2 and xf.jit(lambda x: 5)(1) == 5


def test_arguments_are_given_up_under_transformations():
    def fresh():
        return xnp.arange(4.0) + 0.0

    sine, square = (xf.jit(f, donate_argnums=0) for f in (xnp.sin, lambda x: x * x))
    for run in (xf.vmap(sine), lambda x: xf.vjp(sine, x)[0], lambda x: xf.linearize(sine, x)[0], xf.checkpoint(sine),
                xf.grad(lambda x: sine(x).sum()), lambda x: xf.vmap(lambda c: sine(x) * c)(xnp.ones(2)),
                lambda x: xf.grad(lambda c: (sine(x) * c).sum())(3.0)):
        x = fresh()
        run(x)
        assert x.is_deleted()
    x, tangent = fresh(), fresh()
    xf.jvp(sine, (x,), (tangent,))
    assert x.is_deleted() and tangent.is_deleted()
    x = fresh()  # the backward pass reads it
    np.testing.assert_array_equal(xf.grad(lambda x: square(x).sum())(x), 2 * np.arange(4.0))
    assert not x.is_deleted()
    push = xf.linearize(square, x)[1]
    np.testing.assert_array_equal(push(x), push(x))
    x = fresh()
    np.testing.assert_allclose(xf.jvp(sine, (x,), (x,))[0], np.sin(np.arange(4.0)), rtol=1e-6)


@pytest.mark.cpu_only
def test_arrays_on_other_devices_are_transferred_if_shardings_match():
    devices = xf.devices()
    both, other = (xf.sharding.Mesh(np.array(d), "i") for d in (devices[:2], devices[2:4]))
    replicated, row = (xf.sharding.NamedSharding(both, xf.sharding.PartitionSpec(*spec)) for spec in ((), ("i",)))
    x = np.arange(4.0, dtype=np.float32)
    for requested, given in ((replicated, devices[5]), (replicated, xf.sharding.NamedSharding(other, replicated.spec)),
                         (row, xf.sharding.NamedSharding(other, row.spec)), (xf.sharding.SingleDeviceSharding(devices[0]), replicated)):
        result = xf.jit(lambda x: x + 1, in_shardings=requested)(xf.device_put(x, given))
        assert result.sharding.device_set == requested.device_set
        np.testing.assert_array_equal(result, x + 1)
    for requested, given in ((row, devices[5]), (row, replicated), (replicated, xf.sharding.NamedSharding(other, row.spec))):
        with pytest.raises(ValueError, match="in_shardings"):
            xf.jit(lambda x: x + 1, in_shardings=requested)(xf.device_put(x, given))
        with pytest.raises(ValueError, match="in_shardings"):  # what stands for an array is held to the sharding that it names
            xf.jit(lambda x: x + 1, in_shardings=requested).lower(xf.ShapeDtypeStruct(
                x.shape, x.dtype, sharding=xf.device_put(x, given).sharding))


def test_donation():
    step = xf.jit(lambda state, x: xf.tree.map(lambda s: s + x, state), donate_argnums=0)
    state = {"a": xnp.ones(4), "b": xnp.zeros(4)}
    new = step(state, 1.0)
    assert state["a"].is_deleted() and state["b"].is_deleted() and new["a"].tolist() == [2] * 4
    assert step(new, 1.0)["b"].tolist() == [2] * 4
    by_name = xf.jit(lambda x, y: x + y, donate_argnames="y")
    a, b = xnp.ones(3), xnp.ones(3)
    by_name(a, y=b)
    assert b.is_deleted() and not a.is_deleted()
    with pytest.warns(UserWarning, match=r"f32\[5\]"):
        xf.jit(lambda x: x.sum(), donate_argnums=0)(xnp.ones(5))


def test_stages():
    f = xf.jit(lambda x, n: {"y": x @ x.T * n}, static_argnums=1)
    traced = f.trace(xf.ShapeDtypeStruct((2, 3), "float32"), 2)
    assert traced.out_info == {"y": xf.ShapeDtypeStruct((2, 2), "float32")} and traced.fun_name == "<lambda>"
    lowered = traced.lower()
    assert (
        "stablehlo.dot_general" in lowered.as_text()
        and "HloModule" in lowered.as_text("hlo")
        and lowered.out_info["y"].shape == (2, 2)
    )
    compiled = lowered.compile()
    assert compiled(xnp.ones((2, 3)))["y"].tolist() == [[6, 6], [6, 6]]
    assert compiled.cost_analysis()["flops"] > 0 and compiled.memory_analysis().argument_size_in_bytes == 24
    assert "HloModule" in compiled.as_text()
    assert compiled.out_info["y"].format == compiled.output_formats["y"] and compiled.out_info["y"].format.layout is not None
    with pytest.raises(TypeError, match=r"float32\[2,3\].*float32\[3,3\]"):
        compiled(xnp.ones((3, 3)))
    with pytest.raises(TypeError, match="compiled for other arguments"):
        xf.jit(lambda x: x).lower(1.0).compile()(1.0, 2.0)
    assert f.eval_shape(xnp.ones((2, 3)), 2)["y"].dtype == np.float32
    assert xf.jit(lambda x: x).lower(1).compile()(5) == 5


def test_compiler_options():
    assert xf.jit(lambda x: x + 1, compiler_options={"xla_cpu_enable_fast_math": True})(1.0) == 2
    with pytest.raises(xf.errors.JaxRuntimeError, match="xla_no_such_flag"):
        xf.jit(lambda x: x + 1, compiler_options={"xla_no_such_flag": True})(1.0)
    lowered = xf.jit(lambda x: x + 1).lower(1.0)
    assert lowered.compile({"optimization_level": 1, "memory_fitting_effort": 0.1})(1.0) == 2  # which are no flags
    level = xf.CompilerEffortLevel.O1
    for value in (level, "O1", 19):
        assert lowered.compile({"optimization_level": value})(1.0) == 2
    with pytest.raises(ValueError, match="O9"):
        lowered.compile({"optimization_level": "O9"})
    for name, value in (("memory_fitting_level", 1.5), ("exec_time_optimization_effort", "0.5")):
        with pytest.raises(TypeError, match=f"{name} takes a number"):
            lowered.compile({name: value})
    assert xf.jit(lambda x: x + 1).lower(1.0).compile({"xla_cpu_enable_fast_math": True})(1.0) == 2


def test_calls_in_programs_have_the_options_of_their_own():
    """The equation of a call is stored with the trace, which several jits of one function share."""
    def f(x):
        return x * 2

    plain, jitted, named = xf.jit(f), xf.jit(f, keep_unused=True, donate_argnums=0), xf.jit(f, compiler_options={"a": True})
    program = xf.make_jaxpr(lambda x: jitted(plain(jitted(plain(plain(x))))))(1.0)
    assert [(e.params["keep_unused"], e.params["donated_invars"]) for e in program.eqns] == [
        (False, (False,)), (False, (False,)), (True, (True,)), (False, (False,)), (True, (True,))]
    assert len({id(e.params["jaxpr"]) for e in program.eqns}) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="compiler_options"):
            xf.jit(lambda x: named(x))(1.0)
    outer = xf.jit(lambda x, y: xf.jit(lambda z: plain(z) + plain(x))(y))  # an operand of the program outside
    assert outer(1.0, 2.0) == 6 and xf.grad(outer)(1.0, 2.0) == 2 and plain(3) == 6
    mesh = xf.make_mesh((1,), ("x",))
    assert xf.make_jaxpr(plain)(1.0).eqns[0].params["ctx_mesh"].empty
    with xf.set_mesh(mesh):
        assert xf.make_jaxpr(plain)(1.0).eqns[0].params["ctx_mesh"] == mesh


def test_disable_jit():
    seen = []
    f = xf.jit(lambda x: seen.append(float(x)) or x * 2)
    with xf.disable_jit():
        assert f(xnp.float32(3)) == 6
    assert seen == [3.0]


def test_inspection():
    program = xf.make_jaxpr(lambda x: xnp.sin(x) * 2)(1.0)
    assert str(program) == "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }"
    program, shape = xf.make_jaxpr(lambda x, n: [x] * n, static_argnums=1, return_shape=True)(xnp.ones(2), 2)
    assert shape == [xf.ShapeDtypeStruct((2,), "float32")] * 2 and len(program.out_avals) == 2
    assert xf.eval_shape(
        xnp.matmul, xf.ShapeDtypeStruct((2, 3), "float32"), np.ones((3, 4), np.float32)
    ) == xf.ShapeDtypeStruct((2, 4), "float32")
    assert str(xf.typeof(xnp.ones(3))) == "float32[3]" and xf.typeof(1).weak_type


def test_many_threads_compile_once():
    f, traces = counted(lambda x: xnp.sin(x) * 3)
    g = xf.jit(f)
    results, start = [], threading.Barrier(8)

    def call():
        start.wait()
        results.append(float(g(1.0)))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(traces) == 1 and len(set(results)) == 1


def test_settings_are_part_of_the_key():
    f = xf.jit(lambda x: xnp.asarray(x) / 3)
    assert f(np.ones(2)).dtype == np.float32
    with xf.enable_x64(True):
        assert f(np.ones(2)).dtype == np.float64
    assert f(np.ones(2)).dtype == np.float32
    with xf.default_matmul_precision("highest"):
        assert "HIGHEST" in xf.jit(lambda a: a @ a).lower(xnp.ones((2, 2))).as_text()


def test_cache_misses_are_explained(caplog):
    """Misses are explained by all earlier traces, including those made while the setting was off."""
    f = xf.jit(lambda x, n=1: x * n, static_argnames="n")
    x = [xnp.ones(3), xnp.ones(4), xnp.ones(4, "int32"), xnp.float32(2)]
    with xf.default_matmul_precision(None):
        f(x[0])
    with xf.default_matmul_precision(None), xf.explain_cache_misses(True), caplog.at_level(logging.WARNING, "xlafront"):
        f(x[1]), f(x[2]), f(x[2], n=2), f(x[3]), f(2.0), f(x[0])
        with xf.default_matmul_precision("highest"):
            f(2.0)
        for _ in range(2):
            xf.jit(lambda x: x)(1)
        f(x=x[0])
        with xf.default_matmul_precision("high"):
            f(x[0])
    expected = (
        ("argument x is f32[4] now, and was f32[3]",),
        ("argument x is i32[4] now, and was f32[4]",),
        ("static argument n is given now (2)",),
        ("f32[]",),
        ("f32[] with a weak type", "was f32[]."),
        ("default_matmul_precision is 'highest' now, and was None", "tracing context"),
        ("first time", "never seen"),
        ("first time", "another function on the same line"),
        ("input pytree",),
        ("default_matmul_precision is 'high' now, and was None.",),
    )
    assert len(caplog.messages) == len(expected)
    for line, words in zip(caplog.messages, expected):
        assert "TRACING CACHE MISS" in line and "test_jit.py" in line
        assert all(w in line for w in words), line


@pytest.mark.parametrize("on, level", [(True, logging.WARNING), (False, logging.DEBUG)])
def test_steps_of_compiling_are_logged(caplog, on, level):
    with xf.log_compiles(on), caplog.at_level(logging.DEBUG, "xlafront"):
        xf.jit(lambda x: x * 3)(xnp.ones(5))
    records = [r for r in caplog.records if "for (float32[5])" in r.getMessage() and "<lambda>" in r.getMessage()]
    assert [r.levelno for r in records] == [level] * 4
    for r, words in zip(records, ("Finished tracing of <lambda>", "Compiling jit(<lambda>)", "MLIR module conversion of jit(<lambda>)",
                                  "Finished XLA compilation of jit(<lambda>)")):
        assert words in r.getMessage()


def test_settings_that_do_not_retrace():
    traced = []
    f = xf.jit(lambda x: (traced.append(x), x * 2)[1])
    f(1.0)
    for name in ("debug_nans", "debug_infs", "enable_custom_prng", "check_tracer_leaks", "enable_checks", "log_compiles"):
        with getattr(xf, name)(True):
            f(1.0)
    assert len(traced) == 1
    with xf.default_matmul_precision("float32"):
        f(1.0)
    assert len(traced) == 2


def test_looking_for_nans():
    f = xf.jit(lambda x: xnp.sqrt(xnp.log(x)) + 1)
    with xf.debug_nans(True):
        assert f(2.0) > 1
        with pytest.raises(FloatingPointError, match=r"\(nan\) encountered in log first, in its result, at .*test_jit.py"):
            f(-1.0)
        with pytest.raises(FloatingPointError):
            xnp.log(xnp.float32(-1))
    with xf.debug_infs(True), pytest.raises(FloatingPointError, match="infinity"):
        xf.jit(lambda x: 1 / x)(xnp.float32(0))
    assert np.isnan(f(-1.0))


def test_switches_that_refuse():
    f = xf.jit(lambda x: x + 1)
    with xf.no_tracing(True), pytest.raises(RuntimeError, match="no_tracing"):
        f(1.0)
    f(1.0)
    with xf.no_execution(True), pytest.raises(RuntimeError, match="no_execution"):
        xf.jit(lambda x: x + 2)(1.0)


def test_values_known_while_tracing():
    def f(x):
        with xf.ensure_compile_time_eval():
            table = xnp.arange(4) * 2
            assert int(table[1]) == 2
        return x + table

    assert xf.jit(f)(1).tolist() == [1, 3, 5, 7]
    assert "/inner/mul" in xf.jit(xf.named_call(lambda x: x * 2, name="inner")).lower(1.0).as_text(debug_info=True)


def test_cost_is_linear(few_objects):
    """Ten times the operations take about ten times the time to trace and lower."""
    import time

    def chain(n):
        def f(x):
            for _ in range(n):
                x = lax.sin(x)
            return x

        started = time.process_time()
        xf.jit(f).lower(1.0)
        return time.process_time() - started

    with xf.enable_checks(False):
        chain(100)
        short, long = min(chain(1000) for _ in range(3)), min(chain(10_000) for _ in range(2))
    assert long < 30 * short


@pytest.mark.cpu_only
def test_devices_of_a_function():
    device = xf.devices()[3]
    with pytest.warns(DeprecationWarning, match="backend and device argument"):
        assert xf.jit(lambda x: x + 1, device=device)(1.0).devices() == {device}
    with pytest.warns(DeprecationWarning, match="backend and device argument"):
        assert xf.jit(lambda x: x + 1, backend="cpu")(1.0).devices() == {xf.devices()[0]}
    with pytest.warns(DeprecationWarning):
        placed = xf.jit(lambda x: xf.lax.with_sharding_constraint(x, xf.sharding.SingleDeviceSharding(xf.devices()[0])),
                        device=device)
    with pytest.raises(ValueError, match="incompatible devices.*cpu:3.*inside"):
        placed(1.0)
    assert xf.jit(lambda x: x + 1)(xf.device_put(1.0, device)).devices() == {device}
    with xf.default_device(device):
        assert xnp.ones(2).devices() == {device} and xf.jit(lambda: xnp.zeros(2))().devices() == {device}


@pytest.mark.parametrize("read", ["sx", "s", "x", ""])
def test_large_constants_with_unread_arguments(read):
    """Later calls are dispatched by C++, which counts constants among the arguments."""
    big = np.arange(10_000, dtype=np.float32)
    values = {"s": np.float32(2), "x": np.ones((3, 2), np.float32)}
    for table in (big, xnp.asarray(big)):
        f = xf.jit(lambda s, x, table=table: sum(x.sum() for name, x in [("s", s), ("x", x)] if name in read) + table)
        for _ in range(4):
            np.testing.assert_array_equal(f(**values), sum(values[name].sum() for name in read) + big)
            np.testing.assert_array_equal(f(*values.values()), sum(values[name].sum() for name in read) + big)


def test_functions_are_freed_with_their_programs():
    import gc
    import weakref

    def make(k):
        big = np.full(100_000, k, np.float32)
        return lambda x: x + big

    f = make(3)
    assert xf.jit(f)(1.0)[0] == 4
    dead = weakref.ref(f)
    del f
    gc.collect()
    assert dead() is None


def test_lowering_for_a_platform_that_is_not_here():
    """The text is that platform's; what would run it says how it can be compiled."""
    traced = xf.jit(xf.lax.linalg.lu).trace(np.eye(3, dtype=np.float32))
    kernels = {"cpu": "lapack_sgetrf_ffi", "cuda": "cusolver_getrf_ffi", "tpu": "LuDecomposition"}
    here = xf.default_backend().replace("gpu", "cuda")
    for platform, kernel in kernels.items():
        lowered = traced.lower(lowering_platforms=(platform,))
        assert kernel in lowered.as_text()
        if platform not in ("cpu", here):
            with pytest.raises(ValueError, match=f"lowered for {platform}.*topolog"):
                lowered.compile()
    with pytest.raises(ValueError, match="no platform 'vulkan'"):
        traced.lower(lowering_platforms=("vulkan",))
    with pytest.raises(TypeError, match="tuple of names"):
        traced.lower(lowering_platforms="cpu")


def test_lowering_for_several_platforms():
    """A choice between their programs, by an argument in front; functions inside are those of their platform."""
    traced = xf.jit(lambda x, y: xf.jit(xf.lax.linalg.cholesky)(x) @ y).trace(np.eye(3, dtype=np.float32), np.ones(3, np.float32))
    lowered = traced.lower(lowering_platforms=("cpu", "cuda", "tpu"))
    text = lowered.as_text()
    [main] = [line for line in text.splitlines() if "@main" in line]
    assert main.index("tensor<i32> {jax.global_constant = \"_platform_index\"}") < main.index("tensor<3x3xf32>") < main.index("tensor<3xf32>")
    assert [text.count(kernel) for kernel in ("stablehlo.case", "lapack_spotrf_ffi", "cusolver_potrf_ffi", "stablehlo.cholesky")] == [1] * 4
    assert [len(lowered.in_avals), lowered.out_info.shape] == [2, (3,)]
    with pytest.raises(ValueError, match="cpu, cuda, tpu at once.*lower it for one"):
        lowered.compile()
    chosen = xf.jit(lambda x: xf.lax.platform_dependent(x, cpu=lambda v: v + 1, default=lambda v: v - 1)).trace(1.0)
    text = chosen.lower(lowering_platforms=("tpu", "cpu")).as_text()
    assert text.index("stablehlo.subtract") < text.index("stablehlo.add")
    assert "stablehlo.case" not in chosen.lower(lowering_platforms=()).as_text()  # as without: for the platform here


def test_lowering_for_a_platform_without_devices_starts_no_client(monkeypatch):
    """Libtpu without a TPU would look for one for minutes."""
    started = []
    monkeypatch.setattr(clients.PLATFORMS["tpu"], "make", lambda settings: started.append("tpu"))
    monkeypatch.setattr(clients.PLATFORMS["tpu"], "available", lambda: False)
    assert "stablehlo.sine" in xf.jit(xf.numpy.sin).trace(1.0).lower(lowering_platforms=("tpu",)).as_text()
    assert not started


@pytest.mark.parametrize("name, module", [
    ("<lambda>", "jit__lambda"), ("a.b", "jit_a.b"), ("f<1>", "jit_f_1"), ("a b", "jit_a_b"), ("a__", "jit_a"), ("", "jit")])
def test_names_of_modules(name, module):
    def f(x):
        return x

    f.__name__ = name
    assert f"module @{module} " in xf.jit(f).lower(1.0).as_text()


@xf.jit
def named(x):
    return x + 1


def doubled(x, n):
    return x * n


def restored(f):
    return [copy.copy(f), copy.deepcopy(f), copy.deepcopy({"f": f})["f"], pickle.loads(pickle.dumps(f))]


def test_jitted_functions_are_copied_and_pickled():
    """By name where they have one, else with the function inside and the options."""
    assert all(f is named for f in restored(named)) and copy.deepcopy(xnp.sin) is xnp.sin is pickle.loads(pickle.dumps(xnp.sin))
    for f in restored(xf.jit(functools.partial(doubled, n=3))):
        assert f(2.0) == 6 and f.lower(2.0).compile()(2.0) == 6 and f._cache_size() == 1
        f.clear_cache()
        assert f._cache_size() == 0
    inner = xf.jit(doubled, static_argnums=1)
    for f in (copy.deepcopy(inner), pickle.loads(pickle.dumps(inner.__wrapped__))):
        assert f(2.0, 5) == 10
    again = pickle.loads(pickle.dumps(inner._jitted))
    assert again.options == inner._jitted.options and again.caches is inner._jitted.caches
    assert copy.deepcopy(nn.relu)(-1.0) == 0 and copy.deepcopy(xf.jit(xf.grad(lambda x: x * x)))(3.0) == 6
    assert copy.deepcopy(xf.custom_jvp(doubled)).fun is doubled


def test_shardings_of_arguments_belong_to_positions():
    f = xf.jit(lambda x, y: x * y, in_shardings=xf.sharding.SingleDeviceSharding(xf.devices()[0]))
    assert f(2, 3) == 6
    for call in (f, f.lower, xf.make_jaxpr(f)):
        with pytest.raises(ValueError, match="keyword argument.*y.*by position"):
            call(2, y=3)
    f = xf.jit(lambda x, *, y: x * y, in_shardings=None, out_shardings=None)  # None says nothing: Flax's NNX gives it always
    assert f(2, y=3) == f.lower(2, y=3).compile()(2, y=3) == 6


def test_names_of_operations_in_the_module_and_in_hlo():
    @xf.jit
    def inner(x):
        with xf.named_scope("one"):
            return xf.lax.sin(x)

    def f(x):
        with xf.named_scope("out"):
            return inner(x) + xf.lax.while_loop(lambda c: c < 3, lambda c: c + 1, x)

    lowered = xf.jit(f).lower(1.0)
    short, text = lowered.as_text("hlo"), lowered.as_text("hlo", debug_info=True)
    names = {line.split('op_name="')[1].split('"')[0] for line in text.splitlines() if "op_name" in line}
    assert {"x", "jit(f)/out/jit(inner)", "jit(f)/out/while", "jit(f)/out/while/cond/lt", "jit(f)/out/while/body/add"} <= names
    assert any(name.endswith("one/sin") for name in names) and "metadata" not in short and "x.1 = f32[] parameter(0)" in short


def test_names_of_arguments_and_results_in_the_module():
    def f(x, y, unused, *, z):
        return {"a": x + y["b"], "c": (z, [x])}

    lowered = xf.jit(f).lower(1.0, {"b": 2.0}, 5.0, z=xf.random.key(0))
    short, text = lowered.as_text(), lowered.as_text(debug_info=True)
    assert str(lowered.compiler_ir()) == short and "loc(" not in short and "unused" not in text
    for name in ("x", "y['b']", "z"):
        assert f'loc("{name}")' in text
    for path in ("['a']", "['c'][0]", "['c'][1][0]"):
        assert f"jax.result_info = \"result{path}\"" in short
    assert lowered.compile()(1.0, {"b": 2.0}, 5.0, z=xf.random.key(0))["a"] == 3
    assert 'jax.result_info = "result"' in xf.export.export(xf.jit(lambda x: x))(1.0).mlir_module()


def test_callables_without_weak_references():
    class Times:
        __slots__ = ("factor",)

        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return x * self.factor

    class Plus(NamedTuple):
        term: int

        def __call__(self, x):
            return x + self.term

    for number in range(4):  # the functions of earlier rounds are deleted
        assert xf.jit(Times(number))(3) == 3 * number
        assert xf.jit(Plus(number))(3) == 3 + number


def test_options_that_do_not_affect_the_program_share_its_trace():
    f, traces = counted(lambda x: x * 2)
    x = xnp.ones(3)
    for options in ({}, {"keep_unused": True}, {"inline": True}, {"donate_argnums": 0}, {"out_shardings": x.sharding}):
        np.testing.assert_array_equal(xf.jit(f, **options)(xnp.ones(3)), [2, 2, 2])
    assert len(traces) == 1
    jitted = xf.jit(f)
    jitted.clear_cache()
    jitted(x)
    assert len(traces) == 2


def test_traced_functions_with_constants_as_arguments():
    weights = xnp.arange(4.0)
    traced = xf.jit(lambda x, n, *, k: {"a": x * n + weights, "k": k}, static_argnums=1, donate_argnums=0).trace(
        xnp.ones(4), 3, k=2.0)
    consts, fun = traced.closure_convert()
    assert [c.tolist() for c in consts] == [[0, 1, 2, 3]]
    assert fun([consts[0] * 0], xnp.ones(4), k=1.0)["a"].tolist() == [3, 3, 3, 3]
    with pytest.raises(TypeError, match="structure"):
        fun(consts, xnp.ones(4))
    consts, other = traced.with_consts_as_arg()
    assert not other.jaxpr.consts and other.fun_name == traced.fun_name and other.donate_argnums == (1,)
    assert other.in_avals[0][0][0].shape == (4,)
    assert other.lower().compile()(consts, xnp.ones(4), k=1.0)["a"].tolist() == [3, 4, 5, 6]
    assert traced.physicalize(None) is traced and traced.effects == frozenset()
    assert xf.jit(lambda x: xf.debug.print("{}", x)).trace(1.0).effects


def test_memory_space_of_traced_arrays():
    spaces = []
    xf.jit(lambda x: spaces.append((x.memory_space, xf.typeof(x).memory_space)))(1.0)
    assert spaces[0][0] == spaces[0][1]


def test_argument_that_is_only_a_type_may_be_closed_over():
    shape = xf.ShapeDtypeStruct((2,), np.float32)
    as_dtype_of = xf.jit(lambda x, s: (x * 2).astype(s.dtype))
    constant = xnp.arange(100.0)
    assert xf.jit(lambda x: as_dtype_of(x, shape) + constant[3])(xnp.ones(3)).tolist() == [5, 5, 5]
    with pytest.raises(TypeError, match="has a type and no value"):
        xf.jit(lambda x: xf.jit(lambda x, s: x + s)(x, shape))(xnp.ones(2))
