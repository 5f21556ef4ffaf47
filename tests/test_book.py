"""The book: its chapters give the outputs that they are stored with, and its web site is built without a warning.

These tests need the libraries of the extra `docs` (`pip install '.[docs]'`). CI installs them and names this file. Where there is
a browser, pages are looked at in it, too.
"""

import itertools
import json
import re
import shutil
import subprocess
import sys

import matplotlib.image
import nbformat
import pytest

from tests import book
from xlafront.core import errors

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@pytest.mark.parametrize("path", book.CHAPTERS, ids=lambda p: p.stem)
def test_chapters_give_the_outputs_that_are_stored(path):
    assert not book.differences(book.execute(path), nbformat.read(path, as_version=4))


def test_the_site_is_built_without_warnings(tmp_path):
    done = subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", book.FOLDER, tmp_path],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_reference(tmp_path)
    check_links_of_errors((tmp_path / "errors.html").read_text())
    check_search_index((tmp_path / "searchindex.js").read_text())
    if BROWSER:
        look_at_pages(tmp_path)


def look_at_pages(site):
    """Screenshots of pages are dark or light, as the reader prefers, and have text and pictures on them."""
    for page, (scheme, is_dark) in itertools.product(("first_steps", "many_devices", "kernels", "errors"), enumerate((True, False))):
        picture = site / f"{page}{scheme}.png"
        subprocess.run([BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,1500",
                        f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=4000", f"--screenshot={picture}",
                        f"file://{site}/{page}.html"], check=True, capture_output=True, timeout=120)
        pixels = matplotlib.image.imread(picture)[..., :3]
        assert pixels.shape == (1500, 1200, 3)
        assert pixels.mean() < 0.4 if is_dark else pixels.mean() > 0.7, (page, scheme, pixels.mean())
        lines = (pixels[:, 250:900].std((1, 2)) > 0.05).mean()  # rows of pixels with something on them
        assert lines > 0.3, (page, scheme, lines)


def check_reference(site):
    """Each public name has a description on the page of its module."""
    for module in ("xlafront", "xlafront.numpy", "xlafront.lax", "xlafront.random", "xlafront.nn", "xlafront.scipy.special"):
        text = (site / "api" / f"{module}.html").read_text()
        names = __import__(module, fromlist=["__all__"]).__all__
        missing = [name for name in names if not name.startswith("__") and f'id="{module}.{name}"' not in text]
        assert not missing


def check_links_of_errors(page):
    """A message ends with a link to `errors.html`, to the name of its class in lower case."""
    links = [re.search(r"errors\.html#(\w+)", str(kind(None)))[1] for kind in (
        errors.ConcretizationTypeError, errors.TracerArrayConversionError, errors.NonConcreteBooleanIndexError)]
    assert {*links} <= {*re.findall(r'<section id="(\w+)"', page)}


def check_search_index(index):
    titles = json.loads(index[index.index("{"): index.rindex("}") + 1])["titles"]
    assert {"Quickstart", "Random keys", "xlafront.numpy"} <= set(titles)
