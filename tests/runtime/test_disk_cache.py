"""The compilation cache on disk: hits, damaged entries, size, permissions, settings."""

import os
import pathlib
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.runtime.disk_cache import DiskCache

ROOT = pathlib.Path(__file__).parent.parent.parent

pytestmark = pytest.mark.cpu_only

PROGRAM = """
import xlafront as xf, xlafront.numpy as xnp, time
f = xf.jit(lambda x: xnp.tanh(xnp.sin(x) @ xnp.cos(x).T) * 3)
started = time.perf_counter()
print(float(f(xnp.ones((20, 20)))[0, 0]))
"""


def run(directory, program=PROGRAM, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "XLAFRONT_CACHE_DIR": str(directory),
            "XLAFRONT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0",
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr
    return done


def entries(directory):
    return sorted(str(p) for p in directory.iterdir()) if directory.exists() else []


def test_other_processes_load_executables(tmp_path):
    first = run(tmp_path)
    written = {p: os.path.getsize(p) for p in entries(tmp_path)}
    second = run(tmp_path)
    assert first.stdout == second.stdout and written and entries(tmp_path) == sorted(written)
    assert os.stat(tmp_path).st_mode & 0o022 == 0


def test_damaged_entries_are_recompiled_with_a_warning(tmp_path):
    expected = run(tmp_path).stdout
    for damage in (
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-9] + bytes(9),
        lambda data: b"garbage" * 100,
    ):
        for path in entries(tmp_path):
            with open(path, "rb") as file:
                data = file.read()
            with open(path, "wb") as file:
                file.write(damage(data))
        again = run(tmp_path)
        assert again.stdout == expected and again.stderr.count("UserWarning") == len(entries(tmp_path)), again.stderr
        assert run(tmp_path).stderr == ""  # repaired


def test_cache_settings(tmp_path):
    run(tmp_path / "off", XLAFRONT_ENABLE_COMPILATION_CACHE="0")
    assert entries(tmp_path / "off") == []
    run(tmp_path / "slow", XLAFRONT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS="1000")
    assert entries(tmp_path / "slow") == []


def test_unlimited_and_zero_cache_size(tmp_path):
    run(tmp_path / "none", JAX_COMPILATION_CACHE_MAX_SIZE="0")
    assert entries(tmp_path / "none") == []
    run(tmp_path / "any", JAX_COMPILATION_CACHE_MAX_SIZE="-1")
    assert entries(tmp_path / "any")


def test_relative_cache_dir_is_that_of_the_start(tmp_path):
    code = """
import os
import xlafront as xf
os.mkdir("other")
os.chdir("other")
xf.jit(lambda x: x * 2 + 1)(3.0)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60,
                   env={**os.environ, "XLAFRONT_CACHE_DIR": "programs", "PYTHONPATH": str(ROOT)})
    assert entries(tmp_path / "programs") and sorted(os.listdir(tmp_path)) == ["other", "programs"]
    assert os.listdir(tmp_path / "other") == []


def test_commands_say_their_version_and_what_they_need():
    def command(*arguments):
        return subprocess.run([sys.executable, "-m", "xlafront", *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(ROOT)})

    assert command("--version").stdout.split() == ["xlafront", xf.__version__]
    run_nothing = command("run")
    assert run_nothing.returncode == 2 and "give a script" in run_nothing.stderr and "Traceback" not in run_nothing.stderr


def test_cache_dir_expands_home_directory(tmp_path):
    run("~/programs", HOME=str(tmp_path))
    assert entries(tmp_path / "programs")


KEY = f"{7:064d}"


@pytest.mark.parametrize("kind", ["pipe", "directory", "full directory", "link without end", "too large"])
def test_unusable_file_at_path_of_entry(tmp_path, kind):
    cache = DiskCache(str(tmp_path), 5000, 0.0)
    path = cache.path(KEY)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link without end":
        os.symlink("/dev/zero", path)
    elif kind == "too large":
        (tmp_path / os.path.basename(path)).write_bytes(bytes(6000))
    else:
        os.mkdir(path)
        if kind == "full directory":
            os.mkdir(os.path.join(path, "inside"))
    with pytest.warns(UserWarning, match="cannot be used"):
        assert cache.load(KEY) is None
    cache.store(KEY, b"program", 1.0)  # no warning
    other = f"{8:064d}"
    cache.store(other, b"another", 1.0)
    assert cache.load(other) == (b"another", 1.0)
    if kind != "full directory":
        assert cache.load(KEY) == (b"program", 1.0)


def test_removed_directory_is_recreated(tmp_path):
    cache = DiskCache(str(tmp_path / "cache"), 5000, 0.0)
    cache.store(KEY, b"program", 1.0)
    shutil.rmtree(tmp_path / "cache")
    assert cache.load(KEY) is None
    cache.store(KEY, b"program", 1.0)
    assert cache.load(KEY) == (b"program", 1.0)


def test_cache_stays_enabled_when_cleared_during_write(tmp_path, monkeypatch):
    cache, replace = DiskCache(str(tmp_path), 5000, 0.0), os.replace
    clears = iter([True, False])

    def replaced(source, target):
        if next(clears, False):
            DiskCache(str(tmp_path), 5000, 0.0).clear()
        replace(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    cache.store(KEY, b"program", 1.0)
    assert cache.load(KEY) == (b"program", 1.0) and not [p for p in entries(tmp_path) if p.endswith(".tmp")]


@pytest.mark.parametrize("reason", ["writable by others", "a file", "inside of what all can write to"])
def test_untrusted_directory_disables_cache(tmp_path, reason):
    directory = tmp_path / "cache"
    if reason == "inside of what all can write to":
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        directory = tmp_path / "open" / "cache"
    elif reason == "a file":
        directory.write_text("not a directory")
    else:
        directory.mkdir()
        directory.chmod(0o777)
    done = run(directory)
    assert "compile cache is off" in done.stderr and float(done.stdout)


def test_size_is_bounded(tmp_path):
    cache = DiskCache(str(tmp_path), 5000, 0.0)
    for i in range(10):
        cache.store(f"{i:064d}", bytes(1000), 1.0)
    listed = cache.entries()
    assert sum(size for _, size, _ in listed) <= 5000 and 1 <= len(listed) < 10
    assert cache.load(f"{9:064d}") == (bytes(1000), 1.0) and cache.load(f"{0:064d}") is None
    assert cache.clear() == len(listed) and cache.entries() == []


def test_size_of_a_large_directory_is_estimated_and_bounded(tmp_path, monkeypatch):
    """The first write of a process estimates the size of what others wrote, and reads no more than 256 sizes."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(100, 1000, 2000)
    for i, size in enumerate(sizes):
        (tmp_path / f"{i * 7919 % 2000 + 10**9:064d}.xla").write_bytes(bytes(size))
    statuses = []
    lstat = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: statuses.append(path) or lstat(path))
    roomy = DiskCache(str(tmp_path), 1.2 * sizes.sum(), 0.0)
    assert roomy.load(KEY) is None and not statuses
    roomy.store(KEY, b"program", 1.0)
    assert len(statuses) <= 256 and abs(roomy.approximate_size / sizes.sum() - 1) < 0.1
    assert len(roomy.entries()) == 2001
    DiskCache(str(tmp_path), 0.8 * sizes.sum(), 0.0).store("1" * 64, bytes(1000), 1.0)
    assert sum(size for _, size, _ in roomy.entries()) <= 0.65 * sizes.sum()  # a fifth of the capacity is free


def test_command(tmp_path):
    run(tmp_path)

    def command(action):
        return subprocess.run(
            [sys.executable, "-m", "xlafront", "cache", action],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "XLAFRONT_CACHE_DIR": str(tmp_path)},
        ).stdout

    assert (
        str(tmp_path) in command("info")
        and f"programs:  {len(entries(tmp_path))}" in command("info")
        and command("path").strip() == str(tmp_path)
    )
    assert f"removed {len(entries(tmp_path))}" in command("clear") and entries(tmp_path) == []


def test_settings_are_part_of_the_key(tmp_path):
    plain = run(tmp_path)
    wide = run(tmp_path, XLAFRONT_ENABLE_X64="1")
    assert plain.stdout != wide.stdout and run(tmp_path).stdout == plain.stdout


def test_cached_executables_give_equal_results():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = lambda x: xnp.cumsum(xnp.exp(x))  # noqa: E731
        first = xf.jit(f)(xnp.arange(50.0) / 10)
        xf.clear_caches()
        assert xf.jit(f)(xnp.arange(50.0) / 10).tolist() == first.tolist()


def test_jax_names_of_cache_settings(tmp_path):
    """`JAX_COMPILATION_CACHE_DIR` and related names, `set_cache_dir` and `reset_cache`."""
    program = """
import os, sys
import xlafront as xf
from xlafront.experimental.compilation_cache import compilation_cache
def f(x): return x * 17 + 1
xf.jit(f)(1.0)
print(len(os.listdir(xf.config.jax_compilation_cache_dir)))
compilation_cache.set_cache_dir(sys.argv[1])
xf.jit(lambda x: f(x) / 3)(1.0)
print(len(os.listdir(sys.argv[1])), xf.config.compilation_cache_dir == sys.argv[1])
import shutil
shutil.rmtree(sys.argv[1])
compilation_cache.reset_cache()
xf.jit(lambda x: f(x) / 5)(1.0)
print(len(os.listdir(sys.argv[1])))
"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_DIR")}
    environment |= {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "a"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                    "XLAFRONT_TRACEBACK_FILTERING": "off"}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "b")], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "1", "True", "1"], done.stderr
