"""Which programs are compiled with the options that cost little time, and that their results are those of the others."""

import time

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import tuning
from xlafront.base.jaxlib_compat import HAS_TWO_EMITTERS
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu
from xlafront.runtime.compile_options import compile_options
from xlafront.tuning import compiler_options, small_programs

OPTION, SPLIT_COUNT = compiler_options._EMITTERS, compiler_options._SPLIT_COUNT
PROGRAMS = {
    "scalars": (lambda x: xnp.sin(x) * 2, (), True),
    "vectors of a few elements": (lambda x: xf.nn.softmax(x).sum(), (8,), True),
    "moves": (lambda x: x[:, ::-1].T.reshape(-1)[3] + x, (32, 40), True),
    "loops": (lambda x: xf.lax.scan(lambda c, a: (c + a, c), 0.0, x), (7,), True),
    "loops over larger arrays": (lambda x: xf.lax.scan(lambda c, a: (c + a, c), x[0], x), (7, 100), False),
    "long kernels": (lambda x: xnp.sort(xnp.exp(x)), (12, 16), True),
    "long kernels of more elements": (lambda x: xnp.sort(xnp.exp(x)), (32, 33), False),
    "a kernel with loops inside": (lambda x: xf.lax.igamma(x, x), (20,), False),
    "many steps for each element": (xf.scipy.special.ndtri, (800,), False),
    "one kernel": (xnp.exp, (100, 100), True),
    "a large kernel": (xnp.exp, (200, 100), False),
    "sums": (lambda x: x.var(), (20, 32), True),
    "sums of many elements": (lambda x: x.var(), (64, 64), False),
    "products": (lambda x: xnp.tanh(x @ x.T), (16, 30), True),
    "products with many elements": (lambda x: xnp.tanh(x @ x.T), (40, 4), False),
    "gradients": (xf.grad(lambda x: (xnp.tanh(x @ x.T) ** 2).mean()), (16, 8), True),
    "large arrays": (lambda x: x + 1, (200, 100), False),
    "scatters": (lambda x: x.at[xnp.array([1, 2])].add(1.0), (4,), False),
    "clamps of bools": (lambda x: xf.lax.clamp(False, x > 0, True), (4,), False),
    "clamps": (lambda x: xf.lax.clamp(0.0, x, 1.0), (4,), True),
    "what is rounded otherwise": (xnp.tan, (4,), False),
    "few bits": (lambda x: xnp.sin(x.astype("float16")), (4,), False),
    "some hundred operations": (lambda x: sum([x * float(i) for i in range(60)]), (3,), True),
    "many operations": (lambda x: sum([x * float(i) for i in range(600)]), (3,), False),
    "some hundred operations with a loop": (
        lambda x: xf.lax.map(xnp.sin, sum([x * float(i) for i in range(60)])), (3,), False),
    "inside of loops": (lambda x: xf.lax.map(xnp.exp, x), (3, 16), False),
    "values that are read in many places": (lambda x: _halves(x, 12), (6,), False),
    "values that are read in some places": (lambda x: _halves(x, 5), (6,), True),
    "values that are read in many places, but kept": (lambda x: _halves(x, 12, xnp.sort), (6,), True),
}


def _halves(x, steps, unchanged=lambda x: x):
    """Each step reads the last one in two ways."""
    for _ in range(steps):
        x = unchanged(x[::-1]) + xnp.sin(x)
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_which_programs_are_small(name):
    function, shape, small = PROGRAMS[name]
    assert small_programs.is_small(xf.make_jaxpr(function)(np.ones(shape, np.float32)).jaxpr) is small


def test_options_of_users_take_precedence(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    assert compiler_options.for_small_programs({"a": 1}) == {"a": 1, OPTION: False, SPLIT_COUNT: 1}
    assert compiler_options.for_small_programs({OPTION: True, SPLIT_COUNT: 4}) == {OPTION: True, SPLIT_COUNT: 4}
    assert compiler_options.for_few_kernels({"a": 1}) == {"a": 1, SPLIT_COUNT: 1}
    monkeypatch.setenv("XLA_FLAGS", f"--{OPTION}=true --{SPLIT_COUNT}=4")
    assert compiler_options.for_small_programs({}) == {}


@pytest.mark.parametrize("dtype, agree", [("float32", True), ("int8", True), ("float16", False)])
def test_simulated_kernels_are_compiled_without_optimizations(dtype, agree, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    found = []

    def tuned_options(*args):
        found.append(compiler_options.tuned_options(*args))
        return found[-1]

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    monkeypatch.setattr(tuning, "tuned_options", tuned_options)
    x = np.arange(8).astype(dtype)
    for interpret in (pltpu.InterpretParams(), True):
        kernel = pl.pallas_call(copy, out_shape=xf.ShapeDtypeStruct((8,), dtype), interpret=interpret)
        np.testing.assert_array_equal(xf.jit(kernel)(x), x)
    fast, usual = found
    assert fast == {compiler_options._OPTIMIZATIONS: 0} | ({OPTION: False} if HAS_TWO_EMITTERS and agree else {})
    assert compiler_options._OPTIMIZATIONS not in usual


def test_kernels_of_many_elements_that_write_where_they_read():
    jaxpr = xf.make_jaxpr(xnp.exp)(np.ones((100, 100), np.float32)).jaxpr
    assert small_programs.is_small(jaxpr, donates=False) and not small_programs.is_small(jaxpr, donates=True)


def test_compiling_does_not_take_longer_with_each_reading():
    """Written the older way, a kernel of twelve such steps would have 4,096 sines."""
    run = xf.jit(lambda x: _halves(x, 14)).lower(np.ones(6, np.float32))
    started = time.process_time()
    run.compile({"xla_cpu_parallel_codegen_split_count": 1})
    assert time.process_time() - started < 2


def test_loops_of_known_length_are_not_unrolled(monkeypatch):
    """The option for XLA: the flag in its table, which is a field of messages."""
    def tuned(overrides: dict) -> bytes:
        options = compile_options(1, xf.devices()[:1], overrides)
        return compiler_options.without_unrolling(options, overrides).SerializeAsString()

    assert b"xla_cpu_disable_loop_unrolling" in tuned({OPTION: False})
    assert b"xla_cpu_disable_loop_unrolling" not in tuned({})
    assert b"compiles" in tuned({OPTION: False, "xla_dump_to": "compiles"})
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_extra_options=other")
    assert b"xla_cpu_disable_loop_unrolling" not in tuned({OPTION: False})


@pytest.mark.parametrize("operations, few", [(16, True), (17, False)])
def test_few_operations_are_compiled_together(operations, few):
    """In one part of machine code they keep two thirds of the memory, and in loops as many count as outside."""
    def run(x):
        for _ in range(operations):
            x = xnp.sin(x)
        return x

    assert small_programs.has_few_kernels(xf.make_jaxpr(run)(1.0).jaxpr) is few
    assert not small_programs.has_few_kernels(xf.make_jaxpr(lambda x: xf.lax.map(run, x))(xnp.ones(2)).jaxpr)


def test_results_are_the_same_with_both():
    """Results do not depend on the options for small programs: one compiled in both ways, and a row of it in each call."""
    x = np.linspace(0.1, 2, 18000, dtype=np.float32).reshape(3000, 6)

    def many(x):
        functions = xnp.sin, xnp.exp, xnp.log1p, xnp.tanh, xf.nn.gelu, xnp.sqrt, lambda x: xf.lax.clamp(0.5, x, 1.0)
        return xnp.stack([f(x) for f in functions])

    of_row, of_all = xf.make_jaxpr(many)(x[0]), xf.make_jaxpr(xf.vmap(many))(x)
    assert small_programs.is_small(of_row.jaxpr) and not small_programs.is_small(of_all.jaxpr)
    np.testing.assert_array_equal(xf.jit(xf.vmap(many))(x), np.stack([xf.jit(many)(row) for row in x]))

    def more(x):
        return xf.vmap(many)(x), xnp.sort(x, 0), xnp.argmax(x, 1), x.max(1), xnp.cumsum(x, 1), xf.nn.softmax(x), x.sum(1)

    x = x[:10]
    assert small_programs.is_small(xf.make_jaxpr(more)(x).jaxpr)
    lowered = xf.jit(more).lower(x)
    pairs = list(zip(lowered.compile()(x), lowered.compile({OPTION: True} if HAS_TWO_EMITTERS else {})(x)))
    for a, b in pairs[:4]:
        np.testing.assert_array_equal(a, b)
    for a, b in pairs[4:]:  # terms may be added in another order
        np.testing.assert_array_max_ulp(a, b, 2)
