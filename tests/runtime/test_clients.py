"""Platforms: detection, options, and errors, without their hardware."""

import pytest

import xlafront as xf
from xlafront.runtime import backends, clients
from xlafront.runtime.clients import Clients, PlatformError, gpu_memory_options

pytestmark = pytest.mark.cpu_only


def test_gpu_memory_options_from_environment():
    assert gpu_memory_options({}) == {"allocator": "default"}
    given = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_PYTHON_CLIENT_MEM_FRACTION": ".50", "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    assert gpu_memory_options(given) == {"allocator": "platform", "preallocate": False, "memory_fraction": 0.5}
    for name, value in (("XLA_PYTHON_CLIENT_MEM_FRACTION", "half"), ("XLA_PYTHON_CLIENT_ALLOCATOR", "mine")):
        with pytest.raises(ValueError, match=f"{name}.*{value}"):
            gpu_memory_options({name: value})


def test_default_is_best_platform_that_starts(monkeypatch):
    """A broken accelerator gives a warning and the next platform; an error if it was requested."""
    made = []

    def platform(name, priority, works=True, present=True):
        def make(settings):
            if not works:
                raise RuntimeError("no driver")
            made.append(name)
            return name

        return clients._Platform(name, make, lambda: present, priority)

    rows = {r.name: r for r in (platform("cpu", 100), platform("cuda", 200, works=False), platform("tpu", 300, present=False))}
    monkeypatch.setattr(clients, "PLATFORMS", rows)
    with pytest.warns(UserWarning, match="cuda.*no driver.*XLAFRONT_PLATFORMS=cuda"):
        assert Clients().choose_default([], {}) == "cpu"
    assert made == ["cpu"]
    with pytest.raises(PlatformError, match="cuda.*no driver"):
        Clients().choose_default(["gpu", "cpu"], {})
    assert Clients().choose_default(["cpu"], {}) == "cpu"
    rows["cuda"] = platform("cuda", 200)
    assert Clients().choose_default([], {}) == "cuda"


def test_missing_plugin_raises(monkeypatch):
    monkeypatch.setattr(clients, "find_cuda", lambda: None)
    monkeypatch.setattr(clients, "find_tpu", lambda: None)
    for name, extra in (("cuda", "cuda13"), ("tpu", "tpu")):
        with pytest.raises(PlatformError, match=rf"xlafront\[{extra}\]"):
            Clients().get(name, {})


def test_disabled_platform_raises():
    with pytest.raises(PlatformError, match="switched off.*cpu"):
        xf.devices("cuda")
    assert backends.lowering_platform(backends.client()) == "cpu" and xf.devices("cpu") == xf.devices()
    with pytest.raises(ValueError, match="process 3"):
        xf.local_devices(process_index=3)


def test_memory_statistics():
    stats = xf.devices()[0].memory_stats()
    assert stats is None or "bytes_in_use" in stats  # the CPU client keeps none
    x = xf.numpy.ones((100, 100))
    assert x.on_device_size_in_bytes() >= 40_000 and x.nbytes == 40_000
