"""The metadata of a release agree with each other and with the package."""

import re
import tomllib
from pathlib import Path

import xlafront
from xlafront.base.version import DOCUMENTATION, REFERENCE

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


def test_tables_of_versions_agree_with_the_metadata():
    [jaxlib] = [line.removeprefix("jaxlib") for line in PROJECT["dependencies"] if line.startswith("jaxlib")]
    lowest, above = re.fullmatch(r">=([\d.]+),<0\.(\d+)", jaxlib).groups()
    pythons = [line.rpartition(":: ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    minor = ".".join(xlafront.__version__.split(".")[:2])
    for file, before in (("README.md", "names and semantics of "), ("notebooks/notes/reference.md", "")):
        [row] = re.findall(rf"^\| {minor} .*$", (ROOT / file).read_text(), re.MULTILINE)
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[1:] == [f"{before}{REFERENCE}", f"{lowest} to 0.{int(above) - 1}", f"{pythons[0]} to {pythons[-1]}"], file


def test_the_changelog_has_the_version():
    assert f"\n## {xlafront.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()
