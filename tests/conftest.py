"""The tests run on 8 simulated CPU devices, with a compile cache of their own that the workers share.

On another platform: `XLAFRONT_PLATFORMS=cuda,cpu python -m pytest -m "not cpu_only"`.
"""

import atexit
import gc
import os
import shutil
import tempfile
from importlib.util import find_spec

ON_CPU = os.environ.setdefault("XLAFRONT_PLATFORMS", "cpu") == "cpu"
if ON_CPU:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
else:  # results are compared with NumPy's: products of float32 must not be made of fewer bits
    os.environ.setdefault("XLAFRONT_DEFAULT_MATMUL_PRECISION", "highest")
if "XLAFRONT_TEST_CACHE" not in os.environ:
    os.environ["XLAFRONT_TEST_CACHE"] = tempfile.mkdtemp(prefix="xlafront-tests-")
    atexit.register(shutil.rmtree, os.environ["XLAFRONT_TEST_CACHE"], True)
os.environ["XLAFRONT_CACHE_DIR"] = os.environ["XLAFRONT_TEST_CACHE"]

import numpy as np  # noqa: E402
import pytest  # noqa: E402

# Compiling for hardware that is not here needs its compiler, kernels in C++ need one of C++, arrays in files, profiles, IREE and PJRT a library.
# CI installs them and names the files, so there they run.
from xlafront.runtime import clients  # noqa: E402

_needed = {"test_compile_for_tpu.py": clients.find_tpu(), "test_chapters_on_pods.py": clients.find_tpu(),
           "test_compile_for_cuda.py": clients.find_cuda(),
           "test_foreign_calls.py": shutil.which("g++"), "test_array_stores.py": find_spec("tensorstore"),
           "test_profile_readers.py": find_spec("xprof") and find_spec("pypprof"),
           "test_iree.py": find_spec("iree"), "test_book.py": find_spec("myst_nb") and find_spec("sphinx_book_theme"), "test_pjrt.py": shutil.which("g++") and find_spec("xla_plugins")}
collect_ignore_glob = [f"*{file}" for file, library in _needed.items() if library is None]


def pytest_collection_modifyitems(items):
    for item in items:
        if " at 0x" in item.nodeid:  # an address: the workers of one run would not agree on the tests that there are
            raise pytest.UsageError(f"{item.nodeid} is named by the address of an object; give its parameters ids")


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="module")
def few_objects():
    """For tests that collect garbage or look for leaks, which goes through all objects: those of other modules' tests are left out."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def programs_are_checked():
    """Everything that a test traces goes through the checker."""
    import xlafront as xf

    with xf.enable_checks(True):
        yield
