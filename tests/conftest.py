"""The tests run on 8 simulated CPU devices, with a compile cache of their own that the workers share."""

import atexit
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
from xlafront.runtime import clients  # noqa: E402

_compilers = {"test_compile_for_tpu.py": clients._find_tpu(), "test_compile_for_cuda.py": clients._find_cuda()}
collect_ignore = [file for file, library in _compilers.items() if library is None]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(autouse=True)
def programs_are_checked():
    """Everything that a test traces goes through the checker."""
    import xlafront as xf

    with xf.enable_checks(True):
        yield
