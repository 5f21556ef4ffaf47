"""Every public function says what it takes, what it computes, and shows it in an example that runs."""

import doctest
import enum
import functools
import importlib
import inspect
import re
import types
from collections.abc import Iterable
from importlib.util import find_spec
from typing import NewType, get_origin

import numpy as np
import pytest

import xlafront as xf
from xlafront.lazy_module import names_of
from xlafront.numpy.habits import REMEDIES
from xlafront.numpy.updates import AtIndex
from xlafront.runtime.arrays import ArrayImpl

MODULES = (
    "xlafront",
    "xlafront.ad_checkpoint",
    "xlafront.api_util",
    "xlafront.custom_batching",
    "xlafront.custom_derivatives",
    "xlafront.debug",
    "xlafront.distributed",
    "xlafront.dlpack",
    "xlafront.dtypes",
    "xlafront.example_libraries.optimizers",
    "xlafront.example_libraries.stax",
    "xlafront.experimental",
    *(["xlafront.experimental.array_serialization.serialization"] if find_spec("tensorstore") else []),
    "xlafront.experimental.buffer_callback",
    "xlafront.experimental.checkify",
    "xlafront.experimental.colocated_python",
    "xlafront.experimental.compilation_cache.compilation_cache",
    "xlafront.experimental.compute_on",
    "xlafront.experimental.control_deps",
    "xlafront.experimental.fused",
    "xlafront.experimental.hijax",
    "xlafront.experimental.jet",
    "xlafront.experimental.layout",
    "xlafront.experimental.mesh_utils",
    "xlafront.experimental.multihost_utils",
    "xlafront.experimental.ode",
    "xlafront.experimental.pallas",
    "xlafront.experimental.pallas.tpu",
    "xlafront.experimental.pallas.triton",
    "xlafront.experimental.pjit",
    "xlafront.experimental.profiler",
    "xlafront.experimental.random",
    "xlafront.experimental.rnn",
    "xlafront.experimental.roofline",
    "xlafront.experimental.scheduling_groups",
    "xlafront.experimental.serialize_executable",
    "xlafront.experimental.shard_alike",
    "xlafront.experimental.source_mapper",
    "xlafront.experimental.sparse",
    "xlafront.experimental.sparse.linalg",
    "xlafront.experimental.sparse.transform",
    "xlafront.experimental.topologies",
    "xlafront.experimental.transfer",
    "xlafront.experimental.xla_metadata",
    "xlafront.export",
    "xlafront.extend.source_info_util",
    "xlafront.ffi",
    "xlafront.flatten_util",
    "xlafront.image",
    "xlafront.kernels",
    "xlafront.lax",
    "xlafront.lax.linalg",
    "xlafront.monitoring",
    "xlafront.nn",
    "xlafront.nn.initializers",
    "xlafront.numpy",
    "xlafront.numpy.fft",
    "xlafront.numpy.linalg",
    "xlafront.ops",
    "xlafront.planning",
    "xlafront.profiler",
    "xlafront.random",
    "xlafront.ref",
    "xlafront.scipy.cluster.vq",
    "xlafront.scipy.fft",
    "xlafront.scipy.integrate",
    "xlafront.scipy.interpolate",
    "xlafront.scipy.linalg",
    "xlafront.scipy.ndimage",
    "xlafront.scipy.optimize",
    "xlafront.scipy.signal",
    "xlafront.scipy.sparse.linalg",
    "xlafront.scipy.spatial.transform",
    "xlafront.scipy.special",
    "xlafront.scipy.stats",
    "xlafront.sharding",
    "xlafront.stages",
    "xlafront.test_util",
    "xlafront.tree",
    "xlafront.tree_util",
)
# Objects that have public methods and properties, beside the functions of modules.
UFUNC = types.SimpleNamespace(**{name: getattr(xf.numpy.add, name) for name in ("accumulate", "at", "outer", "reduce", "reduceat")})
OBJECTS = {"Array": ArrayImpl, "Exported": xf.export.Exported, "Array.at[index]": AtIndex, "ufunc": UFUNC}
GROUPS = (*MODULES, *OBJECTS)
# Modules whose functions examples call by the name that users give the module.
CALLED_BY = ("xlafront.lax", "xlafront.nn", "xlafront.numpy", "xlafront.numpy.fft", "xlafront.ops", "xlafront.random")
# What examples may use without importing it, beside their module.
NAMES = {"xf": xf, "xnp": xf.numpy, "lax": xf.lax, "nn": xf.nn, "np": np, "sparse": xf.experimental.sparse,
         "pl": xf.experimental.pallas, "kernels": xf.kernels}


def functions(module: str) -> list[tuple[str, object]]:
    found = importlib.import_module(module)
    deprecated = names_of[module].deprecated if module in names_of else ()
    public = [(f"{module}.{name}", getattr(found, name)) for name in (*found.__all__, *deprecated)]
    return [(name, f) for name, f in public if callable(f) and not inspect.isclass(f) and not isinstance(f, NewType) and get_origin(f) is None
            and not isinstance(f, enum.Enum)
            and getattr(f, "__module__", "") != "numpy"]


def members(owner) -> list[tuple[str, object]]:
    """The public methods and properties of an object, but for those that are jaxlib's own and for bare attributes."""
    found = []
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        member = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, (type, functools.partial))):
            found.append((name, member))
    return found


def documented(group: str) -> list[tuple[str, object]]:
    return members(OBJECTS[group]) if group in OBJECTS else functions(group)


# Classes of which users make objects, or get them.
CLASSES = tuple([getattr(importlib.import_module(module), name) for module, names in {
    "xlafront": "ShapeDtypeStruct custom_jvp custom_vjp named_scope",
    "xlafront.experimental.layout": "Format Layout",
    "xlafront.lax": "ConvDimensionNumbers DotAlgorithm GatherDimensionNumbers RaggedDotDimensionNumbers ScatterDimensionNumbers",
    "xlafront.numpy.linalg": "EigResult EighResult QRResult SVDResult SlogdetResult",
    "xlafront.sharding": "AbstractDevice AbstractMesh Mesh PartitionSpec set_mesh use_abstract_mesh",
    "xlafront.tree_util": "Partial",
}.items() for name in names.split()])


def parameters_of(f) -> list[inspect.Parameter]:
    """The parameters, but for the array whose method or property it is."""
    found = inspect.signature(f).parameters.values()
    return [p for p in found if not (p.annotation is p.empty and p.name in ("self", "array"))]


@pytest.mark.parametrize("group", GROUPS)
def test_types_are_annotated(group):
    bare = []
    for name, f in documented(group):
        if not inspect.isclass(f) and inspect.signature(f).return_annotation is inspect.Signature.empty:
            bare.append(f"{name}: what it returns")
        bare += [f"{name}: {p.name}" for p in parameters_of(f) if p.annotation is p.empty]
    assert not bare


def section(text: str, name: str) -> str:
    """The body of a section of a docstring, `Args:` for example; empty where there is none."""
    found = re.search(rf"^{name}:[ ]*\n((?:[ ]+.*\n|[ ]*\n)+)", text + "\n", re.MULTILINE)
    return found[1] if found else ""


def undocumented(parameters: Iterable[str], text: str) -> list[str]:
    """The parameters without an entry `name: ...` or `name, other: ...` in the section `Args:`, or `Attributes:` of a result."""
    entries = {name.strip("* ") for line in section(text, "(?:Args|Attributes)").splitlines()
               if (found := re.match(r" {1,4}([*\w, ]+):", line)) for name in found[1].split(",")}
    return [name for name in parameters if name not in entries]


@pytest.mark.parametrize("group", GROUPS)
def test_docstrings_have_a_summary_and_sections(group):
    """A summary line, `Args:` with each parameter, `Returns:` where there is a result, `Example:` with a doctest."""
    lacking = []
    for name, f in documented(group):
        text = inspect.getdoc(f) or ""
        summary, _, rest = text.partition("\n")
        if not summary.endswith(".") or (rest and not rest.startswith("\n")):
            lacking.append(f"{name}: a summary line that ends with a period")
        if ">>> " not in section(text, "Examples?"):
            lacking.append(f"{name}: Example")
        if not inspect.isclass(f):
            if (inspect.signature(f).return_annotation not in (None, "None") and not section(text, "Returns") and not is_property(group, name)
                    and not section(text, "Yields")):
                lacking.append(f"{name}: Returns")
            lacking += [f"{name}: {p}" for p in undocumented([p.name for p in parameters_of(f)], text)]
    assert not lacking


def is_property(group: str, name: str) -> bool:
    return group in OBJECTS and isinstance(inspect.getattr_static(OBJECTS[group], name, None), property)


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: found.__name__)
def test_classes_document_every_parameter_and_their_examples_run(found):
    text = inspect.getdoc(found)
    assert not undocumented(inspect.signature(found).parameters, text)
    names = NAMES | {"P": xf.P} | {c.__name__: c for c in CLASSES} | {"get_abstract_mesh": xf.sharding.get_abstract_mesh}
    run({found.__name__: text if ">>> " in text else ">>> None"}, names)


@pytest.mark.parametrize("group", GROUPS)
def test_examples_run(group):
    names = {group.rpartition(".")[2]: importlib.import_module(group)} if group in MODULES else {}
    names |= NAMES | {name.rpartition(".")[2]: f for name, f in documented(group) if group in MODULES and group not in CALLED_BY}
    run({name: inspect.getdoc(f) or "" for name, f in documented(group)}, names)


ON_CPUS = frozenset(  # examples that show the platform, LAPACK's work, what XLA's GPU compiler lacks, or rounding
    """xlafront.default_backend xlafront.experimental.buffer_callback.buffer_callback xlafront.experimental.control_deps.control_dep
    xlafront.experimental.control_deps.schedule xlafront.experimental.fused.fused xlafront.export.default_export_platform
    xlafront.experimental.profiler.get_profiled_instructions_proto xlafront.lax.linalg.hessenberg xlafront.lax.linalg.schur
    xlafront.lax.precv xlafront.lax.psend xlafront.numpy.linalg.eigh xlafront.numpy.linalg.eigvalsh xlafront.scipy.linalg.eigh
    xlafront.scipy.linalg.funm xlafront.scipy.linalg.hessenberg xlafront.scipy.linalg.rsf2csf xlafront.scipy.linalg.schur
    xlafront.scipy.linalg.solve_sylvester xlafront.scipy.linalg.sqrtm""".split())


def run(texts: dict[str, str], names: dict) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    seen = set()
    for name, text in texts.items():
        if text in seen or (name in ON_CPUS and xf.default_backend() != "cpu"):  # two names of one function
            continue
        seen.add(text)
        runner.run(doctest.DocTestParser().get_doctest(text, dict(names), name, None, 0))
    assert runner.failures == 0 and (runner.tries > 0 or not seen)


def test_what_numpy_has_beside_functions():
    """Arrays, scalar types, `r_` and its kin; classes of NumPy and constants are not ours."""
    texts = {}
    for name in xf.numpy.__all__:
        value = getattr(xf.numpy, name)
        kind = value if inspect.isclass(value) else type(value)
        if kind.__module__.startswith("xlafront."):
            texts[name] = inspect.getdoc(value) or ""
    assert texts.keys() >= {"ndarray", "ufunc", "float32", "bool", "r_", "mgrid"}
    assert all(">>> " in text for text in texts.values())
    run(texts, NAMES)


def test_what_jaxlib_defines_of_arrays_is_named():
    named = inspect.getdoc(xf.Array)
    ours = {name for name, _ in members(ArrayImpl)}
    native = [name for name in dir(ArrayImpl) if not name.startswith("_") and name not in {*ours, *REMEDIES}]
    assert not [name for name in native if f"`x.{name}" not in named]
