"""The tests run on 8 simulated CPU devices, with a compile cache of their own that the workers share."""

import atexit
import importlib.util
import os
import shutil
import tempfile

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ["XLAFRONT_PLATFORMS"] = "cpu"
if "XLAFRONT_TEST_CACHE" not in os.environ:
    os.environ["XLAFRONT_TEST_CACHE"] = tempfile.mkdtemp(prefix="xlafront-tests-")
    atexit.register(shutil.rmtree, os.environ["XLAFRONT_TEST_CACHE"], True)
os.environ["XLAFRONT_CACHE_DIR"] = os.environ["XLAFRONT_TEST_CACHE"]

import numpy as np  # noqa: E402
import pytest  # noqa: E402

# Compiling for hardware that is not here needs its compiler. CI installs libtpu and names the file, so there it runs.
collect_ignore = []
if importlib.util.find_spec("libtpu") is None:
    collect_ignore.append("test_compile_for_tpu.py")
if importlib.util.find_spec("jax_plugins") is None:
    collect_ignore.append("test_compile_for_cuda.py")


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(autouse=True)
def programs_are_checked():
    """Everything that a test traces goes through the checker."""
    import xlafront as xf

    with xf.enable_checks(True):
        yield
