"""The book: its chapters give the outputs that they are stored with, and its web site is built without a warning.

These tests need the libraries of the extra `docs` (`pip install '.[docs]'`). CI installs them and names this file.
"""

import json
import re
import subprocess
import sys

import nbformat
import pytest

from tests import book
from xlafront.core import errors


@pytest.mark.parametrize("path", book.CHAPTERS, ids=lambda p: p.stem)
def test_chapters_give_the_outputs_that_are_stored(path):
    assert not book.differences(book.execute(path), nbformat.read(path, as_version=4))


in_one_worker = pytest.mark.xdist_group("site")  # the site is built once


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", book.FOLDER, folder],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@in_one_worker
def test_each_public_module_has_a_page(site):
    for module in ("xlafront", "xlafront.numpy", "xlafront.lax", "xlafront.random", "xlafront.nn", "xlafront.scipy.special"):
        text = (site / "api" / f"{module}.html").read_text()
        names = __import__(module, fromlist=["__all__"]).__all__
        missing = [name for name in names if not name.startswith("__") and f'id="{module}.{name}"' not in text]
        assert not missing


@in_one_worker
def test_errors_link_to_sections(site):
    """A message ends with a link to `errors.html`, to the name of its class in lower case."""
    links = re.findall(r"errors\.html#(\w+)", str(errors.ConcretizationTypeError(None)) + str(errors.KeyReuseError("")))
    anchors = re.findall(r'<section id="(\w+)"', (site / "errors.html").read_text())
    assert links and {*links} <= {*anchors}


@in_one_worker
def test_the_site_can_be_searched(site):
    index = (site / "searchindex.js").read_text()
    titles = json.loads(index[index.index("{"): index.rindex("}") + 1])["titles"]
    assert {"Quickstart", "Random keys", "xlafront.numpy"} <= set(titles)
