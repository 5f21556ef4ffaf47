"""Every public function says what it takes, what it computes, and shows it in an example that runs."""

import doctest
import importlib
import inspect
from typing import get_origin

import numpy as np
import pytest

import xlafront as xf

MODULES = (
    "xlafront",
    "xlafront.image",
    "xlafront.lax",
    "xlafront.lax.linalg",
    "xlafront.nn.initializers",
    "xlafront.random",
    "xlafront.scipy.linalg",
    "xlafront.scipy.ndimage",
    "xlafront.scipy.special",
    "xlafront.sharding",
    "xlafront.tree",
    "xlafront.tree_util",
)
NAMES = {"xf": xf, "xnp": xf.numpy, "lax": xf.lax, "np": np}  # what examples may use without importing it, beside their module


def functions(module: str) -> list[tuple[str, object]]:
    found = importlib.import_module(module)
    public = [(f"{module}.{name}", getattr(found, name)) for name in found.__all__]
    return [(name, f) for name, f in public if callable(f) and not inspect.isclass(f) and get_origin(f) is None]


def parameters_of(f) -> list[inspect.Parameter]:
    return list(inspect.signature(f).parameters.values())


@pytest.mark.parametrize("module", MODULES)
def test_types_are_annotated(module):
    bare = []
    for name, f in functions(module):
        if inspect.signature(f).return_annotation is inspect.Signature.empty:
            bare.append(f"{name}: what it returns")
        bare += [f"{name}: {p.name}" for p in parameters_of(f) if p.annotation is p.empty]
    assert not bare


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_name_every_parameter_and_show_an_example(module):
    lacking = []
    for name, f in functions(module):
        text = inspect.getdoc(f) or ""
        if not text or ">>> " not in text:
            lacking.append(f"{name}: an example")
        lacking += [f"{name}: {p.name}" for p in parameters_of(f) if p.name not in text]
    assert not lacking


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    names = {module.rpartition(".")[2]: importlib.import_module(module)} | NAMES
    names |= {name.rpartition(".")[2]: f for name, f in functions(module)}
    seen = set()
    for name, f in functions(module):
        text = inspect.getdoc(f) or ""
        if text in seen:  # two names of one function
            continue
        seen.add(text)
        runner.run(doctest.DocTestParser().get_doctest(text, dict(names), name, None, 0))
    assert runner.failures == 0 and (runner.tries > 0 or not seen)
