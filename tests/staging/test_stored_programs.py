"""Compiled programs as bytes: values, metadata, other processes, and errors."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental.serialize_executable import deserialize_and_load, serialize
from xlafront.runtime import disk_cache
from xlafront.sharding import Mesh, NamedSharding, PartitionSpec as P

X = np.arange(6, dtype=np.float32).reshape(2, 3)
BIG = np.arange(70000, dtype=np.float32)  # an argument of the program, not a constant in it


def compiled(f, *args, **options):
    return xf.jit(f, **options).lower(*args).compile()


def loaded(program, **options):
    return deserialize_and_load(*serialize(program), **options)


def dot(x, y):
    return {"product": x @ y, "sum": x.sum()}


def test_values_and_metadata():
    program = compiled(dot, X, X.T)
    again = loaded(program)
    for _ in range(2):  # the second time by the fast path
        found = again(X, X.T)
        assert np.array_equal(found["product"], X @ X.T) and float(found["sum"]) == X.sum()
    for name in ("in_tree", "out_tree", "in_avals", "out_avals", "args_info", "donate_argnums", "input_shardings",
                 "output_shardings", "input_formats", "output_formats", "out_info"):
        assert getattr(again, name) == getattr(program, name), name
    assert "HloModule" in again.as_text() and again.memory_analysis() is not None
    assert np.array_equal(loaded(again)(X, X.T)["product"], X @ X.T)  # stored once more


@pytest.mark.parametrize("case", ["constant", "unused", "static", "name", "key", "donated", "bfloat16", "x64"])
def test_arguments_and_results(case):
    if case == "constant":
        assert np.array_equal(loaded(compiled(lambda x: x + BIG, BIG))(BIG), 2 * BIG)
    elif case == "unused":
        assert np.array_equal(loaded(compiled(lambda x, y: x * 2, X, X))(X, X), 2 * X)
    elif case == "static":
        assert np.array_equal(loaded(compiled(lambda x, n: x * n, X, 3, static_argnums=1))(X), 3 * X)
    elif case == "name":
        assert np.array_equal(deserialize_and_load(*serialize(xf.jit(lambda x, *, n: x * n).lower(X, n=2.0).compile()))(X, n=5.0),
                              5 * X)
    elif case == "key":
        key = xf.random.key(3)
        found = loaded(compiled(lambda k: xf.random.split(k), key))(key)
        assert np.array_equal(xf.random.key_data(found), xf.random.key_data(xf.random.split(key)))
    elif case == "donated":
        again, x = loaded(compiled(lambda x: x + 1, xnp.asarray(X), donate_argnums=0)), xnp.asarray(X)
        assert again.donate_argnums == (0,) and np.array_equal(again(x), X + 1) and x.is_deleted()
    elif case == "bfloat16":
        x = xnp.ones(3, "bfloat16")
        assert loaded(compiled(lambda x: x * 2, x))(x).dtype == x.dtype
    else:
        with xf.enable_x64(True):
            assert loaded(compiled(lambda x: x / 3, 1.0))(1.0) == 1 / 3


@pytest.mark.cpu_only
def test_over_devices():
    devices = xf.devices()
    sharding = NamedSharding(xf.make_mesh((8,), ("i",)), P("i"))
    x = xf.device_put(np.arange(16.0, dtype=np.float32), sharding)
    stored = serialize(compiled(lambda x: x * x.sum(), x))
    again = deserialize_and_load(*stored)
    assert np.array_equal(again(x), np.arange(16) * 120) and again(x).sharding == sharding
    turned = xf.device_put(x, NamedSharding(Mesh(np.array(devices[::-1]), ("i",)), P("i")))
    moved = deserialize_and_load(*stored, execution_devices=devices[::-1])(turned)
    assert np.array_equal(moved, np.arange(16) * 120) and list(moved.sharding.mesh.devices) == devices[::-1]
    alone = loaded(compiled(lambda x: x + 1, X), execution_devices=devices[3:4])
    assert alone(xf.device_put(X, devices[3])).devices() == {devices[3]}
    with pytest.raises(ValueError, match="compiled for 8 devices, execution_devices are 2"):
        deserialize_and_load(*stored, execution_devices=devices[:2])


PROCESS = """
import pickle, sys
import numpy as np, xlafront as xf
from xlafront.experimental.serialize_executable import deserialize_and_load, serialize
path, what = sys.argv[1:]
x = np.arange(6, dtype=np.float32).reshape(2, 3)
if what == "store":
    f = xf.jit(lambda a, b: {"product": a @ b, "sum": a.sum()})
    with open(path, "wb") as file:
        pickle.dump(serialize(f.lower(x, x.T).compile()), file)
else:
    stored = pickle.load(open(path, "rb"))
    try:
        found = deserialize_and_load(*stored)
        print(np.array_equal(found(x, x.T)["product"], x @ x.T))
    except ValueError as e:
        print(e)
"""


def process(*arguments, devices=1, **environment):
    environment = os.environ | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", **environment}
    done = subprocess.run([sys.executable, "-c", PROCESS, *map(str, arguments)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.cpu_only
def test_between_processes(tmp_path):
    """Also from a program that came from the compile cache: the first process fills it, the second stores what it reads."""
    cache = {"XLAFRONT_CACHE_DIR": str(tmp_path / "cache"), "XLAFRONT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    for name in ("first", "second"):
        process(tmp_path / name, "store", **cache)
        assert process(tmp_path / name, "load") == "True"
    stored = serialize(compiled(lambda x: x + 1, xf.device_put(X, xf.devices()[5])))
    (tmp_path / "far").write_bytes(pickle.dumps(stored))
    assert "compiled for 1 devices with the numbers [5], and here are 1: [0]" in process(tmp_path / "far", "load")


# What is refused


STORED = None


@pytest.fixture
def stored():
    global STORED
    STORED = STORED or serialize(compiled(dot, X, X.T))
    return STORED


@pytest.mark.parametrize("damage, message", [
    (lambda data: b"nothing", "something else"), (lambda data: data[:-9], "truncated"), (lambda data: data[:20], "truncated"),
    (lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], "damaged"), (lambda data: data + b"x", "damaged"),
    (lambda data: data[:7] + b"2" + data[8:], "another version"), (lambda data: 3, "must be bytes, it is int")],
    ids=["other", "short", "shorter", "flipped", "longer", "future", "number"])
def test_damaged_programs_raise(stored, damage, message):
    with pytest.raises(ValueError, match=message):
        deserialize_and_load(damage(stored[0]), *stored[1:])


@pytest.mark.parametrize("what, change", [
    ("the jaxlib version", lambda m: m.setattr("xlafront.staging.stored_programs.jaxlib_version_text", "0.1")),
    pytest.param("the CPU and its features", lambda m: m.setattr(disk_cache, "_machine", ["x86 sse"]), marks=pytest.mark.cpu_only)])
def test_programs_of_other_versions_and_machines_raise(stored, monkeypatch, what, change):
    change(monkeypatch)
    with pytest.raises(ValueError, match=f"cannot run here: {what} is .* there and .* here"):
        deserialize_and_load(*stored)


def test_objects_that_cannot_be_stored_raise(stored):
    for program in (dot, xf.jit(dot), xf.jit(dot).lower(X, X.T)):
        with pytest.raises(TypeError, match=r"jit\(f\).lower\(...\).compile\(\)"):
            serialize(program)
    with pytest.raises(ValueError, match="calls Python functions of this process"):
        serialize(compiled(lambda x: xf.pure_callback(np.sin, x, x), X))
    with pytest.raises(ValueError, match="takes references"):
        serialize(xf.jit(lambda r: r[...]).lower(xf.new_ref(X)).compile())
    with pytest.raises(ValueError, match="in_tree of 2 arrays, this one has"):
        deserialize_and_load(stored[0], xf.tree.structure(((), {})), stored[2])
    with pytest.raises(RuntimeError, match="no platform 'nope'"):
        deserialize_and_load(*stored, backend="nope")
    again = deserialize_and_load(*stored)
    with pytest.raises(TypeError, match="no longer a program"):
        xf.grad(lambda x: again(x, x.T)["sum"])(X)
    with pytest.raises(TypeError, match="compiled for float32.3,2. as argument y"):
        again(X, X)
