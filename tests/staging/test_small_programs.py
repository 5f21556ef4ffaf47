"""Which programs are compiled with the options that cost little time, and that their results are those of the others."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.runtime import compile_options
from xlafront.staging import compiling

OPTION, PARTS = compile_options._EMITTERS, compile_options._PARTS
PROGRAMS = {
    "scalars": (lambda x: xnp.sin(x) * 2, (), True),
    "vectors of a few elements": (lambda x: xf.nn.softmax(x).sum(), (8,), True),
    "moves": (lambda x: x[:, ::-1].T.reshape(-1)[3] + x, (32, 40), True),
    "loops": (lambda x: xf.lax.scan(lambda c, a: (c + a, c), 0.0, x), (7,), True),
    "long kernels that would be unrolled": (xnp.exp, (16, 32), False),
    "sums": (lambda x: x.var(), (32, 32), False),
    "large arrays": (lambda x: x + 1, (200, 100), False),
    "scatters": (lambda x: x.at[xnp.array([1, 2])].add(1.0), (4,), False),
    "clamps": (lambda x: xf.lax.clamp(False, x > 0, True), (4,), False),
    "what is rounded otherwise": (xnp.tan, (4,), False),
    "few bits": (lambda x: xnp.sin(x.astype("float16")), (4,), False),
    "many operations": (lambda x: sum([x * float(i) for i in range(60)]), (3,), False),
    "inside of loops": (lambda x: xf.lax.map(xnp.exp, x), (3, 16, 32), False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_which_programs_are_small(name):
    function, shape, small = PROGRAMS[name]
    assert compiling._is_small(xf.make_jaxpr(function)(np.ones(shape, np.float32)).jaxpr) is small


def test_what_users_ask_for_stays(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    assert compile_options.for_small_programs({"a": 1}) == {"a": 1, OPTION: False, PARTS: 1}
    assert compile_options.for_small_programs({OPTION: True, PARTS: 4}) == {OPTION: True, PARTS: 4}
    assert compile_options.for_few_kernels({"a": 1}) == {"a": 1, PARTS: 1}
    monkeypatch.setenv("XLA_FLAGS", f"--{OPTION}=true --{PARTS}=4")
    assert compile_options.for_small_programs({}) == {}


@pytest.mark.parametrize("operations, few", [(16, True), (17, False)])
def test_few_operations_are_compiled_together(operations, few):
    """In one part of machine code they keep two thirds of the memory, and in loops as many count as outside."""
    def run(x):
        for _ in range(operations):
            x = xnp.sin(x)
        return x

    assert compiling._has_few_kernels(xf.make_jaxpr(run)(1.0).jaxpr) is few
    assert not compiling._has_few_kernels(xf.make_jaxpr(lambda x: xf.lax.map(run, x))(xnp.ones(2)).jaxpr)


def test_results_are_the_same_with_both():
    """Whether a program is small must not be seen in its results: those of `vmap` over 10 rows are those of a row."""
    x = np.linspace(0.1, 2, 60, dtype=np.float32).reshape(10, 6)

    def many(x):
        return xnp.stack([xnp.sin(x), xnp.exp(x), xnp.log1p(x), xnp.tanh(x), xf.nn.gelu(x), xnp.cumsum(x), xnp.sqrt(x)])

    assert compiling._is_small(xf.make_jaxpr(many)(x[0]).jaxpr) and not compiling._is_small(xf.make_jaxpr(xf.vmap(many))(x).jaxpr)
    np.testing.assert_array_equal(xf.jit(xf.vmap(many))(x), np.stack([xf.jit(many)(row) for row in x]))
