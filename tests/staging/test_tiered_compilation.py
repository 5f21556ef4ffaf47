"""`tiered_compilation`: a program that was compiled quickly is replaced by one with optimizations, between two calls, once."""

import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import random
from xlafront.runtime import backends, compile as runtime_compile, tiers
from xlafront.staging import call_tracing
from xlafront.staging.executable import Executable


class Compilations:
    """The compilations of a test: the level of optimization of each, and its executable. Second tiers wait for `release`."""

    def __init__(self, real):
        self.real, self.levels, self.loaded = real, [], []
        self.release = threading.Event()
        self.failure = None

    def __call__(self, client, module, devices, options, callbacks):
        level = dict(options.env_option_overrides).get("xla_backend_optimization_level", "default")
        if threading.current_thread().name.startswith("xlafront compiler of second tiers"):
            assert self.release.wait(60)
            if self.failure is not None:
                raise self.failure
        loaded = self.real(client, module, devices, options, callbacks)
        self.levels.append(level)
        self.loaded.append(loaded)
        return loaded

    def finish(self):
        """Let the second tiers be compiled, and wait until all are."""
        self.release.set()
        marker = tiers.Upgrade("marker", None, None)
        done = threading.Event()
        marker.compile = done.set
        tiers._compiler.add(marker)
        assert done.wait(60)


@pytest.fixture
def compilations(monkeypatch):
    found = Compilations(runtime_compile.backend_compile_and_load)
    monkeypatch.setattr(runtime_compile, "backend_compile_and_load", found)
    monkeypatch.setattr(backends, "disk_cache", lambda: None)
    xf.config.update("tiered_compilation", True)
    yield found
    xf.config.update("tiered_compilation", False)
    found.finish()


X = np.random.default_rng(0).normal(size=16).astype(np.float32)


def chain(n, x, number):
    """A function of at least 20 operations, which `number` makes a program of its own; `n` is `numpy` here or there."""
    for _ in range(10):
        x = n.sin(x) * number + x[::-1]
    return x


def check(result, number):
    np.testing.assert_allclose(result, chain(np, X, np.float32(number)), rtol=1e-4, atol=1e-4)


def jitted(number):
    return xf.jit(lambda x: chain(xnp, x, number))


def test_a_program_is_replaced_once_between_two_calls(compilations, monkeypatch):
    calls, call = [], Executable.__call__
    monkeypatch.setattr(Executable, "__call__", lambda self, args: (calls.append(self.loaded), call(self, args))[1])
    f = jitted(0.25)
    for _ in range(3):
        check(f(X), 0.25)
    assert compilations.levels == [0] and calls == 3 * compilations.loaded
    compilations.finish()
    for _ in range(3):  # the first of these calls takes the second tier, C++ repeats it without Python
        check(f(X), 0.25)
    assert compilations.levels == [0, "default"] and len(calls) == 4
    [made] = [e for c in call_tracing.all_caches for t in c.traces.values() for e in t.executables.values()
              if e.loaded in compilations.loaded]
    assert made.loaded is compilations.loaded[1]


def test_small_programs_have_one_tier(compilations):
    assert xf.jit(lambda x: x * 31 + 2)(1.0) == 33
    assert 0 not in compilations.levels


def test_donated_arguments_and_keys(compilations):
    @xf.jit(donate_argnums=0)
    def step(x, key):
        return x + random.normal(key, x.shape), random.split(key)[0]

    x, key = xnp.zeros(5), random.key(3)
    compilations.levels.clear()
    expected, expected_key = np.zeros(5), random.key(3)
    for i in range(6):
        if i == 3:
            compilations.finish()
        before = x
        x, key = step(x, key)
        assert before.is_deleted()
        expected = expected + np.asarray(random.normal(expected_key, (5,)))
        expected_key = random.split(expected_key)[0]
        np.testing.assert_allclose(x, expected, atol=1e-5)
        assert (random.key_data(key) == random.key_data(expected_key)).all()


def test_shardings(compilations):
    mesh = xf.make_mesh((2,), ("x",))
    x = xf.device_put(X, xf.NamedSharding(mesh, xf.P("x")))
    f = jitted(0.5)
    first = f(x)
    compilations.finish()
    for result in (first, f(x), f(x)):
        check(result, 0.5)
        assert result.sharding.spec == xf.P("x")
    assert compilations.levels == [0, "default"]


def test_threads_call_while_the_program_is_replaced(compilations):
    f, expected = jitted(0.75), chain(np, X, np.float32(0.75))
    f(X)
    wrong, stop = [], threading.Event()

    def call():
        while not stop.is_set():
            if not np.allclose(f(X), expected, rtol=1e-4, atol=1e-4):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    compilations.finish()
    f(X)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and compilations.levels == [0, "default"]


def test_a_failure_of_the_second_tier_is_reported_and_the_first_stays(compilations, caplog):
    f = jitted(0.875)
    f(X)
    compilations.failure = RuntimeError("out of registers")
    with caplog.at_level(logging.WARNING, "xlafront"):
        compilations.finish()
    assert "runs without optimizations" in caplog.text and "out of registers" in caplog.text
    check(f(X), 0.875)
    check(f(X), 0.875)


def test_equal_programs_share_both_tiers(compilations):
    functions = [jitted(0.625) for _ in range(3)]
    for f in functions:
        f(X)
    compilations.finish()
    for f in functions:
        check(f(X), 0.625)
    assert compilations.levels == [0, "default"]


def test_compile_waits_for_the_optimized_program(compilations):
    compiled = jitted(0.375).lower(X).compile()
    assert compilations.levels == ["default"]
    check(compiled(X), 0.375)
    f = jitted(0.125)
    f(X)
    assert compilations.levels == ["default", 0]
    compilations.release.set()
    assert f.lower(X).compile().runtime_executable() is compilations.loaded[-1]
    assert compilations.levels == ["default", 0, "default"]


def test_programs_with_callbacks_have_one_tier(compilations, capfd):
    @xf.jit
    def f(x):
        xf.debug.print("the sum is {}", x.sum())
        return chain(xnp, x, 0.0625)

    check(f(X), 0.0625)
    xf.effects_barrier()
    assert "the sum is" in capfd.readouterr().out and compilations.levels == ["default"]


SCRIPT = """
import xlafront as xf, xlafront.numpy as xnp
from xlafront.runtime import tiers
f = xf.jit(xf.grad(lambda x: xnp.sum(xnp.tanh(x @ x) @ xnp.linalg.inv(x) @ xnp.sort(x))))
x = xnp.eye(6) / 2 + 0.1
print(float(abs(f(x)).sum()))
"""


def run(program, directory):
    environment = {"XLAFRONT_TIERED_COMPILATION": "1", "XLAFRONT_CACHE_DIR": str(directory),
                   "XLAFRONT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_process_may_end_while_a_second_tier_is_compiled(tmp_path):
    assert len(run(SCRIPT, tmp_path)) == 1


def test_the_next_process_has_the_optimized_program(tmp_path):
    [first, is_alone] = run(SCRIPT + "f.lower(x).compile(); print(tiers._compiler.thread is None)", tmp_path)
    [second, is_alone_then] = run(SCRIPT + "print(tiers._compiler.thread is None)", tmp_path)
    assert (is_alone, is_alone_then) == ("False", "True")
    assert abs(float(first) - float(second)) < 1e-4 * float(first)
