"""Names that jax had in earlier versions: they warn, or their error says what to use instead."""

import os
import pathlib
import subprocess
import sys

import pytest

from xlafront.base.version import REFERENCE
from xlafront.compat.former_names import FORMER, REMOVED

ROOT = str(pathlib.Path(__file__).parent.parent.parent)
# Names that jax 0.10.2 had with a warning, and jax 0.12.0.1 no longer has: 35, 11 and 5.
DROPPED = {
    "jax.core": """CallPrimitive DebugInfo DropVar Effect Effects InconclusiveDimensionOperation JaxprTypeError check_jaxpr
        concrete_or_error find_top_trace gensym get_opaque_trace_state jaxprs_in_params new_jaxpr_eqn no_effects
        nonempty_axis_env_DO_NOT_USE primal_dtype_to_tangent_dtype unsafe_am_i_under_a_jit_DO_NOT_USE
        unsafe_am_i_under_a_vmap_DO_NOT_USE unsafe_get_axis_names_DO_NOT_USE valid_jaxtype JaxprPpContext JaxprPpSettings OutputType
        abstract_token aval_mapping_handlers call concretization_function_error custom_typechecks is_concrete is_constant_dim
        is_constant_shape literalable_types no_axis_name trace_ctx""",
    "jax.interpreters.pxla": """Index MeshAxisName MeshExecutable global_aval_to_result_handler global_result_handlers
        are_hlo_shardings_equal is_hlo_sharding_replicated op_sharding_to_indices ArrayMapping _UNSPECIFIED
        array_mapping_to_axis_resources""",
    "jax.experimental.pallas.tpu": "semaphore DeviceIdType semaphore_read semaphore_signal semaphore_wait",
}
# Those without a counterpart here.
LEFT_OUT = {"JaxprPpContext", "aval_mapping_handlers", "custom_typechecks", "literalable_types", "semaphore"}
# Names that jax 0.12.0.1 has with a warning.
DEPRECATED = {
    "jax.core": "pytype_aval_mappings", "jax.experimental.pallas": "DeviceIdType reciprocal", "jax.experimental.pjit": "pjit",
    "jax.experimental.pallas.tpu": "BufferedRefBase",
    "jax.experimental.shard_map": "shard_map", "jax.lax": "precv psend", "jax.scipy.special": "lpmn lpmn_values",
    "jax.interpreters.pxla": "MeshComputation global_avals_to_results_handler thread_resources",
}
# Names that jax 0.10.2 or 0.12.0.1 refuses with a message.
REFUSED = {
    "jax": "device_put_replicated device_put_sharded", "jax.ad_checkpoint": "checkpoint remat", "jax.cloud_tpu_init": "cloud_tpu_init",
    "jax.core": """get_aval mapped_aval unmapped_aval set_current_trace take_current_trace traverse_jaxpr_params TraceTag call_impl
        subjaxprs AbstractToken""",
    "jax.experimental.pallas": "dot debug_checks_enabled", "jax.experimental.pallas.tpu": "HOST",
    "jax.interpreters.ad": "reducing_transposes", "jax.interpreters.batching": "NotMapped",
    "jax.interpreters.pxla": """MapTracer PmapExecutable parallel_callable shard_args Chunked NoSharding Replicated ShardedAxis
        ShardingSpec Unstacked spec_to_indices""",
    "jax.lax": "pvary", "jax.numpy": "fix", "jax.scipy.special": "sph_harm",
}
CODE = """
import importlib, sys, warnings
import xlafront.as_jax
for line in sys.stdin:
    module, name = line.split()
    found = importlib.import_module(module)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        listed = name in dir(found) or name in getattr(found, "__all__", ())
        try:
            getattr(found, name)
            text = ""
        except AttributeError as error:
            text = str(error)
        try:
            exec(f"from {module} import {name}")
        except ImportError as error:
            assert text == str(error)
    [text] = [str(w.message) for w in seen if w.filename == "<string>"] or [text]
    print(module, name, listed, len(seen), text, sep="|")
"""


def answers(table: dict[str, str]) -> dict[tuple[str, str], tuple[bool, bool, str]]:
    """Return for each name: True if it is listed, True if it warns, and the text of the warning or the error."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, cwd=ROOT, env=os.environ,
                          input="".join(f"{module} {name}\n" for module, names in table.items() for name in names.split()))
    assert done.returncode == 0, done.stderr
    lines = [line.split("|") for line in done.stdout.splitlines()]
    return {(module, name): (listed == "True", warned == "1", text) for module, name, listed, warned, text in lines}


def test_names_of_older_versions_work_with_a_warning():
    assert [len(names.split()) for names in DROPPED.values()] == [35, 11, 5]
    for (module, name), (listed, warned, text) in answers(DROPPED).items():
        assert not listed and warned == (name not in LEFT_OUT), name
        remedy = REMOVED[module, name] if name in LEFT_OUT else FORMER[module, name].remedy
        assert text.startswith("xlafront" if name in LEFT_OUT and module != "jax.core" else f"{module}.{name} is deprecated" if warned
                               else module) and text.endswith(f": {remedy}."), text
        assert not warned or "jax 0.10.2 was the last version with it" in text


def test_deprecated_names_work_with_a_warning():
    for (_, name), (listed, warned, text) in answers(DEPRECATED).items():
        assert not listed and warned and f"{name} is deprecated: " in text, name


def test_errors_for_removed_names_have_a_remedy():
    for (module, name), (listed, warned, text) in answers(REFUSED).items():
        assert not listed and not warned and text.endswith(f"has no {name!r} any more: {REMOVED[module, name]}."), (name, text)


def test_table():
    """The table has the names above, and no others."""
    assert {key for key, row in FORMER.items() if row.last_version != REFERENCE} == {
        (module, name) for module, names in DROPPED.items() for name in names.split() if name not in LEFT_OUT}
    assert {*REMOVED} == {
        (module, name) for table in (DROPPED, REFUSED) for module, names in table.items() for name in names.split()
        if table is REFUSED or name in LEFT_OUT}


def test_warnings_are_given_where_the_name_is_used():
    code = """
import warnings
import xlafront.as_jax
import jax.core
warnings.simplefilter("error", DeprecationWarning)
for _ in range(2):  # it is loaded only if the warning is no error
    try:
        jax.core.gensym
    except DeprecationWarning as warning:
        print(warning)
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as seen:
    jax.core.gensym, jax.core.gensym
print([(w.filename, "jax.extend.core.gensym" in str(w.message)) for w in seen])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT, env=os.environ)
    first, second, last = done.stdout.splitlines()
    assert first == second and last == "[('<string>', True)]", done.stderr


@pytest.mark.parametrize("code, expected", [
    ("pxla.array_mapping_to_axis_resources(OrderedDict(x=0, y=2, z=0))", "P(('x', 'z'), None, 'y')"),
    ("pxla.array_mapping_to_axis_resources(OrderedDict())", "P()"), ("pxla.array_mapping_to_axis_resources(OrderedDict(y=1))", "P(None, 'y')"),
    ("pxla.are_hlo_shardings_equal(h('x'), h('x', None)), pxla.are_hlo_shardings_equal(h('x'), h('y', None))", "(True, False)"),
    ("pxla.is_hlo_sharding_replicated(h('x')), pxla.is_hlo_sharding_replicated(h())", "(False, True)"),
    ("[i[0].start for i in pxla.op_sharding_to_indices(h('x'), (8, 2), 8)]", "[0, 0, 2, 2, 4, 4, 6, 6]"),
    ("pxla.op_sharding_to_indices(h('x', 'y'), (8, 2), 8)[3]", "(slice(2, 4, None), slice(1, 2, None))"),
    ("set(map(str, pxla.op_sharding_to_indices(h(), (8, 2), 8)))", "{'(slice(None, None, None), slice(None, None, None))'}"),
    ("jax.core.JaxprPpSettings()",
     "JaxprPpSettings(print_shapes=True, source_info=False, name_stack=False, custom_pp_eqn_rules=True, print_effects=False)"),
    ("jax.core.OutputType.__origin__, jax.core.is_concrete(1.0), type(jax.core.no_axis_name)", "(<class 'tuple'>, True, <class 'object'>)"),
    ("jax.make_jaxpr(jax.core.is_concrete)(1.0).out_avals", "[ShapedArray(bool[])]"),
    ("jax.jit(lambda x: jax.core.concretization_function_error(float, True)(x, x))(1.0)", "ConcretizationTypeError float astype"),
    ("isinstance(jax.jit(abs).lower(1.0).compile()._executable, pxla.MeshExecutable)", "True")])
def test_values_of_former_names(code, expected):
    program = f"""
import xlafront.as_jax, jax, jax.core
from collections import OrderedDict
from jax.interpreters import pxla
from jax.sharding import PartitionSpec as P
mesh = jax.sharding.Mesh([[jax.devices()[2 * i + j] for j in range(2)] for i in range(4)], ("x", "y"))
h = lambda *axes: jax.sharding.NamedSharding(mesh, P(*axes))._to_xla_hlo_sharding(2)
try:
    print(({code}))
except TypeError as error:
    print(type(error).__name__, *[word for word in ("float", "astype") if f"`{{word}}" in str(error) or f".{{word}}(" in str(error)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT, env=os.environ | {
        "XLAFRONT_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"})
    assert done.stdout.strip() == expected, done.stderr


def test_page_has_the_table():
    page = (pathlib.Path(ROOT) / "notebooks" / "notes" / "reference.md").read_text()
    rows = [[cell.strip() for cell in line.split(" | ")] for line in page.splitlines() if line.startswith("| `jax")]
    found = {(module.strip("|` "), name.strip("`")): rest for module, names, *rest in rows for name in names.split()}
    expected = {key: [row.last_version, row.remedy] for key, row in FORMER.items() if row.last_version != REFERENCE}
    expected |= {key: [remedy] for key, remedy in REMOVED.items()}
    assert {key: [*rest[:-1], rest[-1].removesuffix(" |").replace("…", key[1])] for key, rest in found.items() if key in expected} == expected
