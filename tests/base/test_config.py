"""Settings: all names of JAX are known, values are checked, and settings have their effects."""

import contextlib
import gc
import inspect
import io
import logging
import os
import re
import subprocess
import sys
import threading
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.base import config
from xlafront.base.ignored_flags import IGNORED
from xlafront.core.traceback_filter import UnfilteredStackTrace
from xlafront.lowering.module_text import stripped_bytecode
from xlafront.runtime import backends, clients
from xlafront.runtime.compile_options import compile_options

# Names in JAX 0.10.2, each with a value of its type that is not the default.
NAMES = {
    "jax_captured_constants_warn_bytes": 7, "jax_captured_constants_report_frames": 1, "jax_check_static_indices": True,
    "jax_random_seed_offset": 3, "jax_high_dynamic_range_gumbel": True, "jax_custom_vjp3": True, "jax_remat3": True,
    "jax_scan3": True, "jax_use_simplified_jaxpr_constants": True, "jax_embedded_constants_max_bytes": 8,
    "jax_explicit_x64_dtypes": "error", "jax_disallow_mesh_context_manager": True, "jax_disable_vmap_shmap_error": True,
    "jax_disable_bwd_checks": True, "jax_mutable_array_checks": False, "jax_error_checking_behavior_nan": "raise",
    "jax_error_checking_behavior_divide": "raise", "jax_error_checking_behavior_oob": "raise", "jax_logging_level": "INFO",
    "jax_log_checkpoint_residuals": True, "jax_tracer_error_num_traceback_frames": 2, "jax_pprint_use_color": False,
    "jax_include_debug_info_in_dumps": False, "jax_dump_ir_modes": "jaxpr", "jax_disable_most_optimizations": True,
    "jax_exec_time_optimization_effort": 0.5, "jax_memory_fitting_effort": -0.5, "jax_compiler_enable_remat_pass": False,
    "jax_compiler_detailed_logging_min_ops": 3, "jax_persistent_cache_enable_xla_caches": "all",
    "jax_compilation_cache_include_metadata_in_key": True, "jax_compilation_cache_check_contents": True,
    "jax_compilation_cache_expect_pgle": True, "jax_remove_custom_partitioning_ptr_from_cache_key": True,
    "jax_pgle_profiling_runs": 1, "jax_pgle_aggregation_percentile": 50, "jax_share_binary_between_hosts": True,
    "jax_share_binary_between_hosts_timeout_ms": 1, "jax_xla_backend": "cpu", "jax_backend_target": "x",
    "jax_rocm_visible_devices": "0", "jax_oneapi_visible_devices": "0", "jax_mock_gpu_topology": "1x1",
    "mock_num_gpu_processes": 1, "jax_pjrt_client_create_options": "a:1", "jax_cpu_get_local_topology_timeout_minutes": 1,
    "jax_cpu_get_global_topology_timeout_minutes": 1, "jax_cross_host_transfer_socket_address": "x",
    "jax_cross_host_transport_addresses": "x", "jax_cross_host_transfer_transfer_size": 1,
    "jax_cross_host_transfer_timeout_seconds": 1, "jax_sort_devices_by_process_index": False, "jax_distributed_debug": True,
    "jax_source_url_schema": "x", "jax_send_traceback_to_runtime": "on", "jax_xla_profile_version": 1,
    "jax_serialization_version": 1, "jax_export_calling_convention_version": 9,
    "jax_export_ignore_forward_compatibility": True, "jax2tf_default_native_serialization": False,
    "jax_pallas_enable_debug_checks": True, "jax_pallas_poison_buffers": True, "jax_pallas_use_mosaic_gpu": False,
    "jax_pallas_verbose_errors": True, "jax_mosaic_allow_hlo": True, "jax_use_magma": "off",
    "jax_ragged_dot_use_ragged_dot_instruction": False, "jax_ragged_dot_use_gpu_pallas_triton_lowering": True,
    "jax_bcoo_cusparse_lowering": True, "eager_constant_folding": True, "check_vma": True, "jax_enable_pgle": True,
    "jax_dump_ir_to": "x", "jax_optimization_level": "O2", "jax_memory_fitting_level": "O1",
    "jax_persistent_cache_min_compile_time_secs": 2.5, "jax_allow_f16_reductions": False, "jax_numpy_rank_promotion": "warn",
}


class changed:
    """A context manager that changes a setting of the process."""

    def __init__(self, name, value):
        self.name, self.value = name, value

    def __enter__(self):
        self.before = xf.config.read(self.name)
        xf.config.update(self.name, self.value)

    def __exit__(self, *exception):
        xf.config.update(self.name, self.before)


@pytest.mark.filterwarnings("ignore:the setting")
@pytest.mark.parametrize("name", NAMES)
def test_jax_names(name):
    expected = NAMES[name]
    default = xf.config.values[name]
    with changed(name, expected):
        assert xf.config.read(name) == getattr(xf.config, name) == xf.config.values[name] == expected
        assert type(xf.config.read(name)) is type(expected)
        if type(expected) is not str:
            with pytest.raises(ValueError, match="foo"):
                xf.config.update(name, "foo")
    assert xf.config.read(name) == default != expected


def test_update_with_keyword_arguments():
    before = xf.config.enable_x64
    try:
        xf.config.update(name="jax_enable_x64", val=not before)
        assert xf.config.enable_x64 is not before
    finally:
        xf.config.update("enable_x64", before)


def test_jax_attributes_are_read_only():
    with pytest.raises(AttributeError, match=r"config\.update\('jax_enable_x64', True\)"):
        xf.config.jax_enable_x64 = True
    assert not xf.config.jax_enable_x64


@pytest.mark.filterwarnings("ignore:the setting")
def test_ignored_settings_warn_once():
    xf.config._find("xla_profile_version").warned = False
    with changed("jax_xla_profile_version", 1):  # (warns here)
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with changed("jax_xla_profile_version", 2):
            pass
    xf.config._find("xla_profile_version").warned = False
    with pytest.warns(UserWarning, match="xla_profile_version.*no effect"), changed("jax_xla_profile_version", 3):
        pass


def test_ignored_settings_in_environment_and_context_manager():
    code = "import xlafront as xf\nwith xf.jax2tf_associative_scan_reductions(True): pass\nwith xf.jax2tf_associative_scan_reductions(True): xf.numpy.ones(3)"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"JAX_REMAT3": "1"}, capture_output=True,
                          text=True, check=True)
    assert [line.partition("the setting ")[2].split()[0] for line in done.stderr.splitlines() if "has no effect" in line] == [
        "remat3", "jax2tf_associative_scan_reductions"]


@pytest.mark.parametrize("name, bits", [
    ("random_seed_offset", 64), ("num_cpu_devices", 32), ("cpu_get_local_topology_timeout_minutes", 32),
    ("cpu_get_global_topology_timeout_minutes", 32)])
def test_numbers_beyond_the_runtimes_are_refused(name, bits):
    setting = xf.config._find(name)
    before = setting.get_global()
    for value in (10**20, str(10**20), -10**20, float("inf"), "many"):
        with pytest.raises(ValueError, match=f"the setting {name} is .*; it must be an int of at most {bits} bits"):
            xf.config.update(name, value)
        with pytest.raises(ValueError, match=f"the environment variable X is .*at most {bits} bits"):
            setting.parse(value, "the environment variable X")
    assert setting.get_global() == before and setting.parse(str(2**(bits - 1) - 1)) == 2**(bits - 1) - 1


@pytest.mark.parametrize("change", ["set_local", "set_global"])
def test_ignored_settings_warn_from_every_setter(change):
    setting = xf.jax2tf_associative_scan_reductions
    setting.warned = False
    before = setting.get_local() if change == "set_local" else setting.get_global()
    with pytest.warns(UserWarning, match="jax2tf_associative_scan_reductions.*no effect") as caught:
        getattr(setting, change)(True)
    assert caught[0].filename == __file__
    getattr(setting, change)(before)
    assert setting.value is False


def other_value(setting):
    """Return a valid value of a setting other than its default."""
    if setting.kind is bool:
        return not setting.default
    if isinstance(setting.kind, tuple):
        return next(value for value in setting.kind if value != setting.default)
    return {int: 7, str: "0"}.get(setting.kind, "a:1")


@pytest.mark.parametrize("name", [row[0] for row in IGNORED])
def test_every_ignored_setting_warns(name):
    setting = xf.config._find(name)
    assert "changes nothing" in setting.help
    setting.warned = False
    with pytest.warns(UserWarning, match=rf"the setting {name} .*has no effect"), changed(name, other_value(setting)):
        pass


def test_every_setting_with_an_effect_is_named_in_a_test():
    """The name here or in JAX occurs in tests outside of the table of names."""
    tests = "\n".join([path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py")])
    tests = re.sub(r"^NAMES = \{.*?^\}", "", tests, flags=re.MULTILINE | re.DOTALL).lower()
    names = {name: [name, *[theirs for theirs, ours in config._ALIASES.items() if ours == name]] for name in config.settings}
    assert not [name for name, known in names.items()
                if not re.search(rf"(?<![a-z])(?:jax_|xlafront_)?({'|'.join(known)})\b", tests)]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown_on_a_terminal():
    with contextlib.redirect_stdout(Terminal()):
        return str(xf.make_jaxpr(lambda x: x + 1)(1.0))


def client_options():
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients._jax, "get_tfrt_cpu_client", lambda **options: calls.append(options))
        clients._make_cpu(backends.settings())
    return calls


def keys_on_disk():
    first, second = (
        xf.jit(lambda x: x * 3).lower(1.0),
        xf.jit(lambda x: x * 3).lower(1.0))
    return len({stripped_bytecode(lowered.compiler_ir()) for lowered in (first, second)})


def disabled_passes():
    options = compile_options(1, xf.devices()[:1])  # which holds its parts
    return options.executable_build_options.debug_options.xla_disable_hlo_passes


SEEN = (
    ("pprint_use_color", False, shown_on_a_terminal,
     "{ \33[34;1mlambda\33[39;22m ; a\33[35m:f32[]\33[39m. \33[34;1mlet\33[39;22m b\33[35m:f32[]\33[39m = add a 1.0:f32[] \33[34;1min\33[39;22m (b,) }",
     "{ lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }"),
    ("enable_custom_prng", True, lambda: str(xf.random.PRNGKey(0).dtype), "uint32", "key<fry>"),
    ("compiler_enable_remat_pass", False, disabled_passes, "", "rematerialization"),
    ("compilation_cache_include_metadata_in_key", True, keys_on_disk, 1, 2),
    ("hlo_source_file_canonicalization_regex", ".*/",
     lambda: f'"{__file__}"' in xf.jit(lambda x: x * 3).lower(1.0).as_text(debug_info=True), True, False),
    ("cpu_enable_async_dispatch", False, lambda: client_options()[0]["asynchronous"], True, False),
    ("cpu_get_local_topology_timeout_minutes", 9, lambda: client_options()[0]["get_local_topology_timeout_minutes"], 2, 9),
    ("cpu_get_global_topology_timeout_minutes", 9, lambda: client_options()[0]["get_global_topology_timeout_minutes"], 5, 9),
)


@pytest.mark.parametrize("name, value, see, before, after", SEEN, ids=[row[0] for row in SEEN])
def test_effects_of_settings(name, value, see, before, after):
    assert see() == before
    with changed(name, value):
        assert see() == after
    assert see() == before


def test_raw_keys():
    with changed("legacy_prng_key", "error"), pytest.raises(ValueError, match="legacy"):
        xf.random.normal(xf.random.PRNGKey(0))
    with changed("legacy_prng_key", "warn"), pytest.warns(UserWarning, match="legacy"):
        xf.random.normal(xf.random.PRNGKey(0))


def test_platform_name():
    environment = {name: value for name, value in os.environ.items() if name != "XLAFRONT_PLATFORMS"}
    done = subprocess.run([sys.executable, "-c", "import xlafront as xf; xf.devices()"], capture_output=True, text=True,
                          env=environment | {"JAX_PLATFORM_NAME": "nowhere"})
    assert done.returncode and "nowhere" in done.stderr


def test_auto_pcast_off():
    mesh = xf.make_mesh((1,), ("i",), (xf.sharding.AxisType.Auto,))

    def run(f):
        return xf.shard_map(f, mesh=mesh, in_specs=(xf.P("i"), xf.P()), out_specs=xf.P("i"))(np.ones(2), np.ones(2))

    with xf.auto_pcast(False):
        with pytest.raises(ValueError, match="auto_pcast"):
            run(lambda x, y: x + y)
        with pytest.raises(ValueError, match="pcast"):
            run(lambda x, y: x * lax.psum(y, "i"))
        assert run(lambda x, y: x + lax.pcast(y, "i", to="varying")).tolist() == [2, 2]
    assert run(lambda x, y: x + y).tolist() == [2, 2]


@pytest.mark.parametrize("where", [None, np.array([True, False, True])], ids=["all", "some"])
def test_softmax_custom_jvp(where):
    """The derivative of `y[0]` is `y[0] (e[0] - y)`."""
    x = np.array([1.0, 2.0, 0.5], np.float32)

    def first(x):
        return xf.nn.softmax(x, where=where)[0]

    with xf.softmax_custom_jvp(True):
        assert "custom_jvp_call" in str(xf.make_jaxpr(first)(x))
        raised = np.exp(x) * (True if where is None else where)
        y = raised / raised.sum()
        np.testing.assert_allclose(xf.grad(first)(x), y[0] * (np.eye(3)[0] - y), rtol=1e-5, atol=1e-7)
    assert "custom_jvp_call" not in str(xf.make_jaxpr(first)(x))


def test_dump_ir_to(tmp_path):
    def scaled(x):
        return x * 17 + 4

    with changed("dump_ir_to", str(tmp_path / "new")), changed("dump_ir_modes", "stablehlo,jaxpr"):
        xf.jit(scaled)(1.5)
    jaxpr, module = sorted((tmp_path / "new").iterdir())
    assert jaxpr.name.startswith("xlafront_0") and "mul a 17.0" in jaxpr.read_text()
    assert module.name.startswith("xlafront_ir0") and module.name.endswith("_jit_scaled_compile.mlir")
    assert "stablehlo.multiply" in module.read_text() and "test_config.py" in module.read_text()
    with changed("dump_ir_to", str(tmp_path / "bare")), changed("include_debug_info_in_dumps", False):
        xf.jit(lambda x: x * 18 + 4)(1.5)
    [module] = (tmp_path / "bare").iterdir()
    assert "_lambda_" in module.name and "test_config.py" not in module.read_text()
    with changed("dump_ir_to", str(tmp_path / "other")), changed("dump_ir_modes", "eqn_count_pprof"):
        with pytest.warns(UserWarning, match="dump_ir_modes has eqn_count_pprof, which xlafront does not write"):
            xf.jit(lambda x: x * 18 + 5)(1.5)
    assert not list((tmp_path / "other").iterdir())


def test_disable_most_optimizations():
    def flags():
        options = compile_options(1, xf.devices()[:1]).executable_build_options.debug_options
        return options.xla_backend_optimization_level, options.xla_llvm_disable_expensive_passes

    level, without = flags()
    with changed("disable_most_optimizations", True):
        assert flags() == (0, True) and xf.jit(lambda x: x * 19 + 4)(1.5) == 32.5
    assert level > 0 and not without and flags() == (level, without)


def test_setting_objects_have_local_and_global_values():
    setting = xf.numpy_rank_promotion
    nothing = setting.get_local()
    setting.set_local("warn")
    assert (setting.value, setting.get_local(), setting.get_global()) == ("warn", "warn", "allow")
    setting.set_global("raise")
    assert (setting.value, setting.get_global()) == ("warn", "raise")
    setting.set_local(nothing)
    assert setting.value == "raise"
    setting.set_global("allow")
    for change in (setting.set_local, setting.set_global, setting):
        with pytest.raises(ValueError, match="allow, warn, raise"):
            change("foo")
    with pytest.raises(TypeError, match="value"):
        bool(setting)
    with changed("jax_debug_nans", None):
        assert xf.config.jax_debug_nans is False
    assert xf.config.jax_array_garbage_collection_guard is None
    for wrong in (3, "nowhere", "cpu:1"):
        with pytest.raises(ValueError, match="Device"):
            xf.default_device(wrong)
        with pytest.raises(ValueError, match="Device"):
            xf.config.update("default_device", wrong)
    with pytest.raises(ValueError, match="threefry2x32"):
        xf.default_prng_impl("foo")
    assert xf.config.x64_enabled is xf.config.jax_enable_x64 is False


def test_seeds_are_offset():
    inside = xf.jit(xf.random.PRNGKey)
    traced = []
    f = xf.jit(lambda: traced.append(1))
    f()
    with changed("jax_random_seed_offset", 3):
        for made in (xf.random.PRNGKey, inside, lambda s: xf.random.key_data(xf.random.key(s))):
            assert made(1).tolist() == [0, 4]
    f()
    assert inside(1).tolist() == [0, 1] and len(traced) == 1


def test_high_dynamic_range_gumbel():
    key = xf.random.key(0)
    low, high = (xf.random.gumbel(key, (5,), mode=mode) for mode in ("low", "high"))
    assert low.tolist() != high.tolist() and xf.random.gumbel(key, (5,)).tolist() == low.tolist()
    with changed("jax_high_dynamic_range_gumbel", True):
        assert xf.random.gumbel(key, (5,)).tolist() == high.tolist()


def test_static_indices():
    x = xnp.arange(3.0)
    uses = [lambda: x[5], lambda: x[-4], lambda: x[None, 5], lambda: x.at[5].get(), lambda: xf.jit(lambda x: x[5])(x),
            lambda: xf.vmap(lambda x: x[5])(xnp.ones((2, 3)))]
    with changed("jax_check_static_indices", True):
        for use in uses:
            with pytest.raises(IndexError, match=r"out of bounds for axis \d with size 3"):
                use()
        assert x[-3] == 0 and x[5:].size == 0 and x[xnp.array(5)] == 2 and np.isnan(x.at[5].get(mode="fill"))
    assert uses[0]() == 2


def test_allow_f16_reductions():
    half = xnp.ones((2, 3), "float16")
    sums = [lambda: lax.reduce_sum(half, (0,)), lambda: xnp.sum(half, dtype="float16"), lambda: lax.reduce(
        half, np.float16(0), lax.add, (0,)), lambda: xf.grad(lambda x: (x * half).sum())(np.float16(1))]
    for sum_ in sums:
        sum_()
    with xf.allow_f16_reductions(False):
        for sum_ in sums:
            with pytest.raises(ValueError, match="jax_allow_f16_reductions"):
                sum_()
        assert xnp.sum(half) == 6 and xnp.mean(half) == 1 and lax.reduce_max(half, (0, 1)) == 1
        assert lax.reduce_sum(half[:1], (0,)).tolist() == [1, 1, 1] and lax.reduce_sum(half, ()).shape == (2, 3)
        assert xf.nn.softmax(half).dtype == np.float16


def test_explicit_x64_dtypes():
    with changed("jax_explicit_x64_dtypes", "error"):
        for ask in (lambda: xnp.zeros(2, "float64"), lambda: xnp.arange(3).astype("int64"), lambda: xnp.ones(2).sum(dtype="float64")):
            with pytest.raises(ValueError, match="enable_x64"):
                ask()
        assert xnp.zeros(2, float).dtype == xnp.asarray(np.ones(2)).dtype == np.float32
    with pytest.warns(UserWarning, match="truncated"):
        assert xnp.zeros(2, "float64").dtype == np.float32


def test_captured_constants_warning():
    large = xnp.ones(1000)
    with changed("jax_captured_constants_warn_bytes", 100):
        with pytest.warns(UserWarning, match=r"large amount of constants.*4000 bytes.*float32\[1000\]"):
            xf.jit(lambda x: x + large)(1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            xf.jit(lambda x, y: x + y)(1.0, large)


def test_optimization_and_logging_levels():
    f = xf.jit(lambda x: xnp.sin(x) * 2)
    for name, value in (("jax_optimization_level", "O1"), ("jax_memory_fitting_level", "O1"),
                        ("jax_exec_time_optimization_effort", 0.5), ("jax_memory_fitting_effort", 0.5)):
        with changed(name, value):
            assert f(0.0) == 0
    own, above = logging.getLogger("xlafront"), logging.getLogger("jax")
    for name, value, level in (("jax_logging_level", "ERROR", logging.ERROR), ("jax_debug_log_modules", "jax", logging.DEBUG)):
        with changed(name, value):
            assert own.level == above.level == level and len(above.handlers) == 1
        assert own.level == above.level == logging.NOTSET and above.handlers == []
    shown = subprocess.run([sys.executable, "-c", "import xlafront as xf; xf.jit(lambda x: x + 1)(1.0)"], capture_output=True,
                           env=os.environ | {"JAX_DEBUG_LOG_MODULES": "jax._src.dispatch"}, text=True, check=True).stderr
    assert "DEBUG:" in shown and "Finished XLA compilation" in shown
    with changed("jax_disallow_mesh_context_manager", True), pytest.raises(RuntimeError, match="disabled"):
        with xf.make_mesh((1,), ("i",)):
            pass


def test_mesh_axes_of_size_one():
    mesh = xf.make_mesh((1,), ("i",), axis_types=(xf.sharding.AxisType.Explicit,))
    x = xf.device_put(xnp.ones((4, 2)), xf.NamedSharding(mesh, xf.P("i")))
    assert xf.typeof(x).sharding.spec == xf.P("i", None)
    with xf.remove_size_one_mesh_axis_from_type(True):
        assert xf.typeof(x).sharding.spec == xf.P(None, None) and xf.typeof(xnp.sin(x)).sharding.spec == xf.P(None, None)
    assert xf.typeof(x).sharding.spec == xf.P("i", None)


# Leaks


class Holder:
    pass


def leaks():
    leaked, holder, cells = [], Holder(), []

    def closes_over(x):
        nonlocal cells
        cells = x
        return x

    return {
        "list": (leaked, lambda x: leaked.append(x) or x, "a list at [0]"),
        "attribute": (holder, lambda x: setattr(holder, "a", x * 2) or x, "the attribute a of a Holder"),
        "dict": (holder, lambda x: holder.__dict__.setdefault("d", {}).setdefault("k", x) is None or x, "a dict at ['k']"),
        "closure": (closes_over, closes_over, "the closed-over variable cells"),
    }


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("how", ["list", "attribute", "dict", "closure"])
@pytest.mark.parametrize("transform", [
    xf.jit, xf.vmap, lambda f: lambda xs: lax.map(f, xs), lambda f: xf.jit(xf.vmap(f)), lambda f: xf.grad(lambda x: f(x).sum()),
    lambda f: lambda x: xf.vjp(f, x), lambda f: lambda x: xf.linearize(f, x), lambda f: lambda x: xf.jvp(f, (x,), (x,)),
    xf.jacfwd], ids=["jit", "vmap", "map", "jit of vmap", "grad", "vjp", "linearize", "jvp", "jacfwd"])
def test_leaks_are_found(how, transform):
    keep_alive, function, words = leaks()[how]
    with xf.checking_leaks(), pytest.raises(xf.errors.UnexpectedTracerError) as caught:
        transform(function)(xnp.arange(3.0))
    assert "Leaked trace" in str(caught.value) and words in str(caught.value)
    assert keep_alive is not None


@pytest.mark.usefixtures("few_objects")
def test_leak_check_without_leaks_is_cheap(monkeypatch):
    """Objects of the process are not searched for a trace without references."""
    looks = []
    monkeypatch.setattr(gc, "get_referrers", lambda *objects: looks.append(objects) or [])
    with xf.checking_leaks():
        xf.make_jaxpr(lambda x: x * 2)(1.0)
        xf.vmap(lambda x: x * 2)(xnp.ones(3))
    assert not looks


def test_no_leaks_are_reported_without_leaks():
    x = xnp.arange(3.0)

    @xf.custom_vjp
    def twice(x):
        return 2 * x

    twice.defvjp(lambda x: (2 * x, None), lambda residuals, ct: (2 * ct,))
    with xf.checking_leaks():
        for f in (lambda x: x * 2, twice, lambda x: lax.cond(x > 0, xnp.sin, xnp.cos, x), lambda x: lax.fori_loop(
                0, 3, lambda i, c: c * x, x), xf.grad(lambda x: xnp.sin(x) ** 2), xf.checkpoint(xnp.sin),
                lambda x: xf.vmap(lambda y: x * y)(xnp.arange(2.0)).sum()):
            xf.vmap(f)(x)
            xf.jit(xf.vmap(f))(x)
            xf.grad(lambda x: xf.vmap(f)(x).sum())(x)
        for transform in (xf.grad, xf.hessian, xf.jacfwd, xf.jacrev, lambda f, has_aux: lambda x: xf.jvp(
                f, (x,), (x,), has_aux), lambda f, has_aux: lambda x: xf.vjp(f, x, has_aux=has_aux)):
            *_, aux = transform(lambda x: (x * x, {"sine": xnp.sin(x)}), has_aux=True)(2.0)
            np.testing.assert_allclose(aux["sine"], np.sin(2), rtol=1e-6)


# Tracebacks


def failing(x):
    return xnp.dot(x, xnp.ones((5, 5)))


def with_cause(x):
    try:
        raise KeyError("first")
    except KeyError as e:
        raise ValueError("then") from e


@pytest.mark.parametrize("call", [lambda: xf.jit(failing)(xnp.ones((2, 3))), lambda: xf.vmap(failing)(xnp.ones((2, 3))),
                                  lambda: xf.jit(xf.vmap(with_cause))(xnp.ones(3))], ids=["jit", "vmap", "with a cause"])
def test_filtered_tracebacks(call):
    def error_of(mode):
        with changed("traceback_filtering", mode), pytest.raises((TypeError, ValueError)) as caught:
            call()
        error = caught.value
        frames = [(f.filename, f.name) for f in traceback.extract_tb(error.__traceback__)]
        return error, [name for file, name in frames if file == __file__], [name for file, name in frames if "/xlafront/" in file]

    full, mine, internal = error_of("off")
    assert {"trace_to_jaxpr", "batch_flat"} & set(internal) and not hasattr(full, "__notes__")
    for mode in ("remove_frames", "quiet_remove_frames", "auto"):
        error, own, rest = error_of(mode)
        assert own == mine and rest == []
        notes = getattr(error, "__notes__", [])
        if mode == "remove_frames":
            assert type(error.__cause__) is UnfilteredStackTrace and not notes
            all_frames = [f.name for f in traceback.extract_tb(error.__cause__.__traceback__)]
            assert all_frames == [f.name for f in traceback.extract_tb(full.__traceback__)][-len(all_frames):] and len(all_frames) > len(own)
            assert type(error.__cause__.__cause__) is type(full.__cause__)
        else:
            assert type(error.__cause__) is type(full.__cause__)
            assert len(notes) == 1 and "TRACEBACK_FILTERING=off" in notes[0]


def test_help_describes_setting_and_choices():
    text = inspect.getdoc(xf.disable_jit)
    assert "jitted functions one by one" in text and "xf.disable_jit(True)" in text
    assert "'strict'" in inspect.getdoc(xf.numpy_dtype_promotion) and inspect.getdoc(type(xf.disable_jit)).startswith("A setting")


def test_user_context_default_must_be_hashable():
    with pytest.raises(TypeError, match="unhashable"):
        xf.make_user_context([])
    assert xf.numpy.arange(2).sum() == 1


def test_user_context_retraces_per_value():
    scale, other = xf.make_user_context(1), xf.make_user_context()
    traced = []

    @xf.jit
    def f(x):
        traced.append(scale.value)
        return x * scale.value

    def results():
        with scale(3):
            inner = f(2), f(2), scale.value
            with scale(4):
                nested = scale.value
        return f(2), inner, nested, scale.value

    assert results() == results() == (2, (6, 6, 3), 4, 1)
    assert traced == [3, 1]
    with other("anything"):
        assert f(2) == 2
    assert len(traced) == 3 and other.value is None and scale.get_global() == 1
    with pytest.raises(TypeError, match="unhashable"):
        scale([1])
    seen = []
    with scale(5):
        thread = threading.Thread(target=lambda: seen.append(scale.value))
        thread.start()
        thread.join()
    assert seen == [1]
    scale.set_global(7)
    assert f(2) == 14


def test_thread_local_setting_retraces():
    traced = []

    @xf.jit
    def noise(key):
        traced.append(xf.config.jax_high_dynamic_range_gumbel)
        return xf.random.gumbel(key, (3,))

    plain = noise(xf.random.key(0)).tolist()
    for _ in range(2):
        with xf.config._find("high_dynamic_range_gumbel")(True):
            assert noise(xf.random.key(0)).tolist() != plain
        assert noise(xf.random.key(0)).tolist() == plain
    assert traced == [False, True]


def test_platforms_are_none_if_not_requested():
    code = "import xlafront as xf; assert xf.config.jax_platforms is None; xf.numpy.ones(2); assert xf.config.jax_platforms is None"
    environment = {name: text for name, text in os.environ.items() if not name.endswith("_PLATFORMS")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
