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

_needed = {"test_compile_for_tpu.py": clients.find_tpu(), "test_compile_for_cuda.py": clients.find_cuda(),
           "test_foreign_calls.py": shutil.which("g++"), "test_array_stores.py": find_spec("tensorstore"),
           "test_profile_readers.py": find_spec("xprof") and find_spec("pypprof"),
           "test_iree.py": find_spec("iree"), "test_pjrt.py": shutil.which("g++") and find_spec("xla_plugins")}
collect_ignore_glob = [f"*/{file}" for file, library in _needed.items() if library is None]


# What needs several devices, or speaks of the CPU's client or compiler.
CPU_ONLY_FILES = frozenset(
    """test_array_stores.py test_buffer_callbacks.py test_clients.py test_collectives_between_devices.py
    test_colocated_python.py test_compile_for_cuda.py test_compile_for_tpu.py test_custom_partitioning.py
    test_dependencies.py test_disk_cache.py test_distributed.py test_explicit_sharding.py
    test_export_over_devices.py test_files_of_jax.py test_foreign_calls.py test_meshes_in_force.py test_outlining.py
    test_plan.py test_pmap.py test_shard_map.py test_shard_map_values.py test_sharding.py test_shardings_api.py
    test_spread_and_laid_out.py test_topologies.py test_transfer_server.py test_transfers.py test_unreduced_types.py""".split())
collect_ignore_glob += [] if ON_CPU else [f"*/{file}" for file in CPU_ONLY_FILES]
CPU_ONLY_TESTS = frozenset(
    """test_a_network_learns_the_spectral_radius test_algorithms_of_svd
    test_arrays_elsewhere_move_when_they_are_split_as_asked test_arrays_put_elsewhere_do_not_move_silently
    test_backends test_compiled_programs_need_less_memory test_demo test_derivatives_batches_and_parts_on_devices
    test_devices_and_all test_devices_in_a_loop test_devices_of_a_function test_exchange_by_dlpack
    test_exchange_of_memory test_exchanges_are_named_when_they_are_what_made_it test_explicit_axes
    test_forms_multiply_to_the_matrix test_functions_of_matrices test_many_devices test_means_over_devices
    test_memory_is_profiled_for_pprof test_message_about_devices test_missing_rules_are_named
    test_modules_of_programs test_multiply_add_of_the_tutorial test_namespace_and_kinds
    test_only_the_branch_of_the_platform_is_lowered test_over_a_mapped_axis_and_over_devices test_parts_on_devices
    test_places_and_scopes test_platform_dependent test_platform_without_a_rule test_platforms_from_the_environment
    test_products_of_compressed_rows_by_kernel test_programs_do_not_grow test_python_callback_in_a_rule
    test_reductions test_reductions_of_nothing test_references_in_shard_map test_references_over_devices
    test_sharded_programs test_simulated_devices test_split_over_devices test_the_device_of_the_results
    test_what_is_rebuilt_is_equal test_words_about_devices test_writing_several_elements""".split())


def pytest_collection_modifyitems(items):
    for item in items:
        if " at 0x" in item.nodeid:  # an address: the workers of one run would not agree on the tests that there are
            raise pytest.UsageError(f"{item.nodeid} is named by the address of an object; give its parameters ids")
        if item.path.name in CPU_ONLY_FILES or item.originalname in CPU_ONLY_TESTS:
            item.add_marker(pytest.mark.cpu_only)


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
