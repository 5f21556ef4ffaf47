"""The metadata of a release agree with each other and with the package."""

import re
import tomllib
from pathlib import Path

import xlafront
from xlafront.base.version import DOCUMENTATION

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_address_of_the_documentation_is_one():
    assert PROJECT["urls"]["Documentation"] == DOCUMENTATION
    assert all(url.startswith(DOCUMENTATION) for url in PROJECT["urls"].values())


def test_the_citation_has_the_version():
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == xlafront.__version__


def test_versions_of_python_are_those_that_can_install_it():
    listed = [line.rpartition(":: 3.")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    lowest = PROJECT["requires-python"].removeprefix(">=3.")
    assert listed and min(map(int, listed)) == int(lowest)
