"""Identifiers, docstrings and comments use the terms of the field; `tests/words.py` has the words that they must not contain."""

from pathlib import Path

import pytest

from tests import words

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "xlafront"
ROOMS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")})


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_use_the_terms_of_the_field(room):
    assert not [finding for path in words.files([str(PACKAGE / room)]) for finding in words.findings(path)]


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_tests_and_benchmarks_use_the_terms_of_the_field(folder):
    assert not [finding for path in words.files([str(ROOT / folder)]) for finding in words.findings(path)]


@pytest.mark.parametrize("source, expected", [
    ("def spread_over(x): ...", "the name spread_over contains 'spread'"),
    ("class C:\n    def f(self, wanted): ...", "the name wanted contains 'wanted'"),
    ("x.kept = 1", "the name kept contains 'kept'"),
    ('def f():\n    """Return what nobody asked for."""', "a docstring contains 'nobody'"),
    ('def f():\n    """Whether it is so."""', "a docstring begins with 'Whether'"),
    ("x = 1  # what the caller wanted", "a comment contains 'wanted'"),
])
def test_words_of_the_dictionary_are_found(tmp_path, source, expected):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert any(expected in finding for finding in words.findings(path))


@pytest.mark.parametrize("source", [
    "def broadcast_over(x): ...", "np.array_split(x, 2)", "def array_split(ary): ...",
    'def f():\n    """Return `x.told` as it is.\n\n    >>> f(wanted)\n    """'])
def test_public_names_and_code_are_allowed(tmp_path, source):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert not list(words.findings(path))
