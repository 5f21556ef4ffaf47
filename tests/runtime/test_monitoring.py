"""Events of compilations: under the names that monitoring systems use, once a step."""

import os
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
from xlafront import monitoring

TRACE, LOWER, COMPILE = (f"/jax/core/compile/{step}_duration" for step in (
    "jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile"))


@pytest.fixture
def events():
    """Lists of (event, function) of durations, spans and scalars."""
    durations, spans, scalars = [], [], []
    listeners = (
        (monitoring.register_event_duration_secs_listener, monitoring.unregister_event_duration_listener,
         lambda event, seconds, **k: durations.append((event, k.get("fun_name"))) if seconds >= 0 else None),
        (monitoring.register_event_time_span_listener, monitoring.unregister_event_time_span_listener,
         lambda event, start, end, **k: spans.append((event, k["fun_name"])) if start <= end else None),
        (monitoring.register_scalar_listener, monitoring.unregister_scalar_listener,
         lambda event, value, **k: scalars.append((event, k["fun_name"]))))
    for register, _, listener in listeners:
        register(listener)
    yield durations, spans, scalars
    for _, unregister, listener in listeners:
        unregister(listener)


def test_steps_of_a_compilation(events):
    durations, spans, scalars = events

    @xf.jit
    def f(x):
        return x * 3 - 1

    steps = [(TRACE, "f"), (LOWER, "jit(f)"), (COMPILE, "jit(f)")]
    x = np.ones(3, np.float32)
    f(x)
    assert [d for d in durations if d[1]] == spans == scalars == steps
    f(x)
    assert spans == steps  # the second call compiles nothing
    f.lower(np.ones(4, np.float32))
    assert spans == [*steps, *steps[:2]]


def test_stages_and_calls_share_executables(events):
    """A program is lowered and compiled once, by a call or by `lower().compile()`, in either order."""
    _, spans, _ = events
    x, y = np.ones(3, np.float32), np.ones(4, np.float32)
    f = xf.jit(lambda x: x * 5 - 2)
    compiled = f.lower(x).compile()
    made = len(spans)
    assert f.lower(x).compile()(x).tolist() == f(x).tolist() == compiled(x).tolist() == [3, 3, 3]
    assert f.lower(x).as_text() == f.lower(xf.ShapeDtypeStruct((3,), np.float32)).as_text()
    assert len(spans) == made == 3
    f(y)
    f.lower(y).compile()
    assert [event for event, _ in spans[3:]] == [TRACE, LOWER, COMPILE, LOWER]  # a call keeps no module
    f.lower(y).compile({"xla_cpu_enable_fast_math": True})
    assert [event for event, _ in spans[7:]] == [COMPILE]
    donating = xf.jit(lambda x: x * 5 - 2, donate_argnums=0)
    donating.lower(x).compile()
    z = xf.numpy.ones(3)
    assert donating(z).tolist() == [3, 3, 3] and z.is_deleted()


def test_nested_traces_count_toward_the_outer_one(events):
    durations, spans, scalars = events
    x = np.ones(3, np.float32)
    inner = xf.jit(lambda y: y * 5)

    @xf.jit
    def outer(x):
        return inner(x) + inner(x * 2)

    outer.lower(x).compile()
    assert spans == [(TRACE, "outer"), (LOWER, "jit(outer)"), (COMPILE, "jit(outer)")]


def test_the_cache_of_compiled_programs(tmp_path):
    """A program that is found in the cache is not compiled again by another process."""
    code = """
import numpy as np, xlafront as xf
events = []
xf.monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))
xf.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: events.append(event.rpartition("/")[2]) if "cache" in event and seconds < 100 else None)
xf.jit(lambda x: x * 7 - 2)(np.ones(5, np.float32))
print(*events)
if xf.config.enable_compilation_cache:
    events.clear()
    g = xf.jit(lambda x: x * 7 - 2)
    g(np.ones(5, np.float32))
    assert events[-1] in ("cache_hits", "cache_retrieval_time_sec"), events  # an equal program of another function
    if "@" == "1":
        events.clear()
        xf.clear_caches()
        g(np.ones(5, np.float32))
        assert events[1] == "cache_hits" and events[-1] == "cache_retrieval_time_sec", events  # from the disk
"""
    environment = os.environ | {"XLAFRONT_CACHE_DIR": str(tmp_path), "XLAFRONT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    for cache, expected in (("large", "tasks_using_cache compile_requests_use_cache"),
                            ("1", "tasks_using_cache compile_requests_use_cache cache_misses"),
                            ("1", "tasks_using_cache compile_requests_use_cache cache_hits compile_time_saved_sec "
                                  "cache_retrieval_time_sec"),
                            ("0", "task_disabled_cache")):
        settings = {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "1000000000"} if cache == "large" else {
            "XLAFRONT_ENABLE_COMPILATION_CACHE": cache}
        done = subprocess.run([sys.executable, "-c", code.replace("@", cache)], env=environment | settings, capture_output=True, text=True,
                              check=True)
        assert done.stdout.split() == expected.split()
