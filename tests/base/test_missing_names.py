"""Errors for names that a module lacks: they give a remedy, the module that has the name, or names like it."""

import importlib

import pytest

from xlafront.base import missing_names


@pytest.mark.parametrize("module, name", [(module, name) for module, names in missing_names._HABITS.items() for name in names])
def test_habits_have_remedies(module, name):
    namespace = importlib.import_module(module)
    with pytest.raises(AttributeError, match=f"{module} has no '{name}': ") as caught:
        exec(f"module.{name}", {"module": namespace})
    assert not hasattr(namespace, name)
    remedy = str(caught.value).partition(": ")[2]
    if remedy.startswith("write ") and "." in (written := remedy.split()[1].strip(".,:")) and "x.at" not in written:
        for owner in (importlib.import_module("xlafront"), namespace):  # the name that is to be written exists
            for part in written.removeprefix("xlafront.").partition("(")[0].split("."):
                owner = getattr(owner, part, None)
            if owner is not None:
                break
        assert owner is not None, written


@pytest.mark.parametrize("module, name, owner", [
    ("numpy", "softmax", "xlafront.nn"), ("numpy", "scan", "xlafront.lax"), ("lax", "einsum", "xlafront.numpy"),
    ("numpy", "solve_triangular", "xlafront.scipy.linalg"), ("nn", "grad", "xlafront"), ("random", "Mesh", "xlafront.sharding"),
    ("numpy", "gammaln", "xlafront.scipy.special"),
])
def test_names_of_other_modules_are_found(module, name, owner):
    namespace = importlib.import_module(f"xlafront.{module}")
    with pytest.raises(AttributeError, match=f"xlafront.{module} has no '{name}'; it is in {owner}"):
        exec(f"module.{name}", {"module": namespace})
    with pytest.raises(ImportError, match=f"xlafront.{module} has no '{name}'; it is in {owner}"):
        exec(f"from xlafront.{module} import {name}")
    assert hasattr(importlib.import_module(owner), name)


def test_the_module_without_names_has_a_remedy():
    for code in ("from xlafront.experimental.pallas.mosaic_gpu import kernel", "from xlafront.experimental.pallas.mosaic_gpu import wgmma"):
        with pytest.raises(ImportError, match="and no other name of Mosaic GPU.* Write them with pallas and pallas.triton"):
            exec(code)
    assert not hasattr(importlib.import_module("xlafront.experimental.pallas.mosaic_gpu"), "kernel")


def test_names_like_it_are_suggested():
    with pytest.raises(AttributeError, match="xlafront.numpy has no 'resha'; did you mean reshape"):
        exec("module.resha", {"module": importlib.import_module("xlafront.numpy")})
