"""Caches of traced and compiled functions: sizes, lifetimes, and no result of another call."""

import gc
import mmap
import os
import pathlib
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from laws import signatures_seen

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.base import layouts
from xlafront.base.jaxlib_compat import PjitFunctionCache
from xlafront.core import avals, bounded_cache
from xlafront.core.program_key import program_key
from xlafront.runtime import compile as compiler
from xlafront.staging import caches, call_tracing, compiling, dispatch, signatures

pytestmark = pytest.mark.usefixtures("few_objects")


@pytest.fixture
def compilations(monkeypatch):
    """The names of the modules that are compiled, as they are."""
    names = []

    def noted(request, cache=None):
        names.append(request.module.operation.attributes["sym_name"].value)
        return compiler.compile_module(request, cache)

    monkeypatch.setattr(compiling, "compile_module", noted)
    return names


def test_a_full_dispatch_cache_costs_a_look_up(monkeypatch, compilations):
    """The least recently used entry is dropped; its next call finds the executable, and the call after that stays in C++."""
    small = PjitFunctionCache(8)
    monkeypatch.setattr(dispatch, "dispatch_cache", small)
    x = xnp.ones(2)
    functions = [xf.jit(lambda x, k=k: x + k) for k in range(20)]
    for _ in range(2):
        for k, f in enumerate(functions):
            assert f(x).tolist() == [k + 1, k + 1]
    assert compilations.count("jit__lambda") == 20 and small.size() == 8
    with signatures_seen() as seen:
        assert [f(x).tolist()[0] for f in functions[12:]] == list(range(13, 21))
        assert not seen  # those used last
        functions[0](x)
        assert len(seen) == 1
        functions[0](x)
    assert len(seen) == 1 and compilations.count("jit__lambda") == 20


def test_the_dispatch_cache_holds_a_long_session():
    assert caches.dispatch_cache.capacity() >= 100_000


def test_dispatch_entries_are_freed_with_their_function(monkeypatch):
    small = PjitFunctionCache(8)
    monkeypatch.setattr(dispatch, "dispatch_cache", small)
    f = xf.jit(lambda x: x * 2)
    f(1.0)
    assert small.size() == 1
    del f
    gc.collect()
    assert small.size() == 0


def test_executables_are_freed_with_their_function():
    f = xf.jit(lambda x: x * 2 + 1)
    f(xnp.ones(3))
    [traced] = [t for c in call_tracing.all_caches for t in c.traces.values() if t.executables and t is next(iter(
        xf_caches(f).traces.values()))]
    executable = weakref.ref(next(iter(traced.executables.values())))
    del f, traced
    gc.collect()
    assert executable() is None


def test_equal_programs_of_deleted_functions_are_compiled_once(compilations):
    x = xnp.arange(3.0)
    for n in range(60):
        assert xf.lax.scan(lambda c, a: (c + a * 17, c), 0.0, x)[0] == 51
        assert xf.jit(lambda a: a * 23)(x)[1] == 23
        if n % 20 == 0:
            gc.collect()
    assert compilations.count("jit_scan") == 1 and compilations.count("jit__lambda") == 1
    assert len(caches.recent_executables) <= caches.recent_executables.limit


@pytest.fixture
def lowered(monkeypatch):
    """Return the names of lowered modules, as in a process without event listeners where all arrays have default layouts."""
    names, module = [], compiling.LoweredModule
    monkeypatch.setattr(layouts.use, "others", False)
    monkeypatch.setattr(compiling, "is_watched", lambda: False)
    monkeypatch.setattr(compiling, "LoweredModule", lambda job, **options: names.append(job.name) or module(job, **options))
    return names


def test_equal_programs_of_new_functions_are_lowered_once(lowered):
    x = xnp.arange(3.0)
    for _ in range(3):
        assert xf.jit(lambda a: a * 29 + 1)(x)[1] == 30
        assert xf.lax.fori_loop(0, 3, lambda i, c: c + 31, 1) == 94
    assert lowered.count("<lambda>") == lowered.count("scan") == 1
    assert len(caches.executables_by_jaxpr) <= caches.executables_by_jaxpr.limit
    xf.clear_caches()
    assert not caches.executables_by_jaxpr


def test_programs_that_differ_little_are_not_taken_for_equal():
    for zero, negative in ((0.0, False), (-0.0, True)):
        assert np.signbit(xf.jit(lambda a: xnp.where(a > 0, zero, a))(1.0)) == negative
    for value, dtype in ((1, "int32"), (1.0, "float32"), (True, "bool"), (np.int8(1), "int8")):
        assert xf.jit(lambda: value)().dtype == dtype
    assert xf.jit(lambda a: a)(1.0).weak_type and not xf.jit(lambda a: a)(np.float32(1)).weak_type
    x = xnp.arange(6.0).reshape(2, 3)
    for axis in (0, 1, -1, (0, 1), None):
        assert np.array_equal(xf.jit(lambda a: a.sum(axis))(x), np.arange(6.0).reshape(2, 3).sum(axis))
    for start in (0, 1):
        assert np.array_equal(xf.jit(lambda a: a[start:start + 1])(x), np.arange(6.0).reshape(2, 3)[start:start + 1])
    for order in (1, -1):
        assert [int(v) for v in xf.jit(lambda a, b: (a - b, b - a)[::order])(5, 3)] == [2, -2][::order]


@pytest.mark.parametrize("size", [3, 5000])
def test_equal_programs_that_close_over_different_arrays(size, lowered):
    x = np.arange(size, dtype=np.float32)
    for n in (1, 2, 1):
        y = xnp.asarray(n * x)
        assert np.array_equal(xf.jit(lambda a: a * 37 - y)(x), (37 - n) * x)
    assert lowered.count("<lambda>") == (1 if size > 3 else 2)  # small ones are written into programs


def test_programs_with_functions_inside_have_no_key():
    x, y = xnp.arange(3.0), xnp.ones(3)

    def key(f):
        closed = xf.make_jaxpr(f)(x)
        return program_key(closed.jaxpr)

    assert key(lambda a: a * 2) == key(lambda b: b * 2) != key(lambda a: a * 3)
    assert key(lambda a: a + x) == key(lambda a: a + y) != key(lambda a: a + 2)  # the values are those of other arrays
    assert key(lambda a: xf.pure_callback(np.sin, a, a)) is None


def test_loops_and_branches_of_new_functions_leak_nothing():
    x = xnp.arange(3.0)
    calls = {
        "scan": lambda: xf.lax.scan(lambda c, a: (c + a, c), 0.0, x),
        "cond": lambda: xf.lax.cond(x[0] < 1, lambda a: a * 2, lambda a: a + 1, x),
        "while": lambda: xf.lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0),
        "map": lambda: xf.lax.map(lambda a: a * 2, x),
        "jit": lambda: xf.jit(lambda a: a * 3)(x),
    }

    def held_by(call):
        call()
        gc.collect()
        return len(caches.live_executables.executables)

    for name, call in calls.items():
        held_by(call)
        first = held_by(call)
        assert [held_by(call) for _ in range(3)] == [first] * 3, name


def xf_caches(f):
    return call_tracing.shared_caches(f.__wrapped__, (signatures.Options(),))


def test_memos_are_bounded():
    small = bounded_cache.BoundedCache(10)
    for i in range(1000):
        assert small.put(i, i * i) == i * i
        assert len(small) <= 10 and small[i] == i * i


def test_clear_caches_empties_all_memos():
    xnp.linalg.inv(xnp.eye(2)), xf.grad(lambda x: xnp.sum(x * x))(xnp.ones(3)), xnp.einsum("ij,jk", np.eye(2), np.eye(2))
    assert any(bounded_cache._all)
    xf.clear_caches()
    assert not any(bounded_cache._all) and not any([c.traces for c in call_tracing.all_caches])
    assert xnp.sum(xnp.ones(3)) == 3


def test_clear_caches_empties_functions_whose_jit_is_deleted():
    factor = [1.0]

    def scaled(x):
        return x * factor[0]

    assert xf.jit(scaled)(2.0) == 2
    factor[0] = 3.0
    xf.clear_caches()
    assert xf.jit(scaled)(2.0) == 6


def test_unused_types_are_dropped():
    cached = avals.ShapedArray((123, 45), np.dtype("float32"))
    before = len(avals._interned)
    for n in range(2000):
        avals.ShapedArray((n, 7, 77), np.dtype("float32")).to_tangent_aval()
    assert len(avals._interned) >= before + 1900
    avals.forget_unused_types()
    assert len(avals._interned) <= before
    assert avals.ShapedArray((123, 45), np.dtype("float32")) is cached


def test_many_types_are_swept(monkeypatch):
    monkeypatch.setattr(avals._interned, "sweep_threshold", len(avals._interned) + 100)
    cached = avals.ShapedArray((5, 4, 3, 2, 1), np.dtype("int16"))
    for n in range(1000):
        avals.ShapedArray((n, 78, 77), np.dtype("float32"))
    assert avals.ShapedArray((5, 4, 3, 2, 1), np.dtype("int16")) is cached
    assert all(avals.ShapedArray(a.shape, a.dtype, a.weak_type) is a for a in list(avals._interned.values()) if a.plain)


@pytest.mark.parametrize("clear", ["all", "one"])
def test_concurrent_calls_get_their_own_results(clear):
    """New static arguments and constants in four threads, while a fifth clears what is known."""
    f = xf.jit(lambda x, n: x * n + np.float32(n), static_argnums=1)
    stop, wrong, count = threading.Event(), [], [0]

    def call(first):
        n = first
        while not stop.is_set():
            n += 4
            got = float(f(2.0, n))
            count[0] += 1
            if got != 3 * n:
                wrong.append((n, got))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    while count[0] < 60 and time.monotonic() - started < 60:
        xf.clear_caches() if clear == "all" else f.clear_cache()
        stop.wait(0.01)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not wrong and count[0] >= 60


def count_on(c):
    return c[0] + 1, c[1]


def twice(c):
    return c[0] * 2, c[1]


NEW_BESIDE_CACHED = {
    "while_loop": lambda n: xf.lax.while_loop(lambda c: c[0] < n, count_on, (0, 1.0)),
    "vmapped while_loop": lambda n: xf.vmap(lambda s: xf.lax.while_loop(lambda c: c[0] < n, count_on, (s, s)))(xnp.arange(2)),
    "cond": lambda n: xf.lax.cond(n > 1, twice, lambda c: (c[0] + n, c[1]), (0, 1.0)),
    "jvp of cond": lambda n: xf.jvp(lambda v: xf.lax.cond(v > 1, twice, lambda c: (c[0] + n, c[1]), (v, v)), (2.0,), (1.0,)),
}


@pytest.mark.parametrize("what", NEW_BESIDE_CACHED)
def test_cached_function_with_new_ones_in_each_call(what):
    """A condition of an earlier call is freed, and another program may have its address."""
    for n in range(1000, 1100):
        assert str(n) in str(xf.make_jaxpr(lambda n=n: NEW_BESIDE_CACHED[what](n))())
        gc.collect(0)


def test_cached_function_holds_few_of_the_new_ones():
    def cached():
        gc.collect()
        return len(gc.get_objects())

    def calls(count):
        for n in range(count):
            xf.make_jaxpr(lambda: NEW_BESIDE_CACHED["while_loop"](n))()
        return cached()

    assert calls(100) + 1000 > calls(300)


def test_caches_are_cleared_while_others_are_made():
    alive, stop, cached = bounded_cache.WeakRegistry(), threading.Event(), []

    def add():
        while not stop.is_set():
            cached.append(bounded_cache.BoundedCache(1))
            alive.add(cached[-1])
            del cached[:len(cached) // 200]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=add)
    thread.start()
    try:
        for _ in range(300):
            list(alive)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert len(list(alive)) == len(cached)


def test_programs_in_use_outlive_those_that_are_not(monkeypatch, compilations):
    """The system has room for a number of programs; before there are more, those that were not used recently are dropped."""
    live = caches.LiveExecutables()
    live.STEP, live.next_check = 4, 4
    monkeypatch.setattr(caches, "share_of_mappings", lambda: len(live.executables) / 40)
    monkeypatch.setattr(compiling, "live_executables", live)
    x = xnp.ones(2)
    used, held = xf.jit(lambda x: x * 2), []
    most = 0
    for k in range(150):
        held.append(xf.jit(lambda x, k=k: x + k))
        assert held[-1](x).tolist() == [k + 1, k + 1] and used(x).tolist() == [2, 2]
        most = max(most, len(live.executables))
    assert 20 < most < 40
    assert compilations.count("jit__lambda") == 151  # the one in use was compiled once
    assert [f(x).tolist()[0] for f in held[::10]] == list(range(1, 151, 10))
    assert compilations.count("jit__lambda") > 151


def test_the_share_of_mappings_is_that_of_the_process():
    before = caches.share_of_mappings()
    if not os.path.exists("/proc/self/maps"):  # another system, without this limit
        assert before == 0
        return
    assert 0 < before < 1
    cached = [mmap.mmap(-1, 4096, prot=mmap.PROT_READ if i % 2 else mmap.PROT_READ | mmap.PROT_WRITE) for i in range(1000)]
    limit = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
    assert 500 / limit < caches.share_of_mappings() - before < 1500 / limit, len(cached)


def test_einsum_with_explicit_dot_general_compiles_once(compilations):
    """Flax's attention passes it to `einsum` in each call."""
    a = xnp.ones((2, 3))
    for _ in range(3):
        assert xnp.einsum("ab,cb->ac", a, a, _dot_general=xf.lax.dot_general).tolist() == [[3, 3], [3, 3]]
    assert compilations.count("jit_einsum") <= 1


def test_clear_cache_frees_the_executable():
    def freed_function(x, y):
        return x * y + 0.123

    def executables():
        gc.collect()
        return [e for e in xf.devices()[0].client.live_executables() if "freed_function" in e.hlo_modules()[0].name]

    function = xf.jit(freed_function)
    function(1.0, 2.0).block_until_ready()
    assert len(executables()) == 1
    function.clear_cache()
    assert not executables()
