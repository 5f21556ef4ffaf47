"""The words that users search for when they have made a mistake are in the messages.

The tables, `tests/beside/calls/errors*.txt`, have a mistake a line, the class that the reference raises, and the words. Lines without
a class prepare what others use.
"""

import functools
import importlib
import pathlib
import warnings

import numpy as np
import pytest

TABLES = pathlib.Path(__file__).parent / "beside" / "calls"
MODULES = {"xnp": "numpy"} | {name: name for name in (
    "lax", "nn", "random", "tree", "tree_util", "custom_batching", "experimental")}


def lines(table: str) -> list[tuple[str, str]]:
    """Calls, and what is said of each."""
    text = (TABLES / f"{table}.txt").read_text().splitlines()
    return [tuple(map(str.strip, (*line.partition("  # ")[::2],))) for line in text if line and not line.startswith("#")]


def mistakes(table: str):
    rows = [row for row in lines(table) if row[1]]
    several = [pytest.mark.cpu_only] if table == "errors" else []  # for those that need several devices
    return pytest.mark.parametrize("call, expected", [
        pytest.param(*row, id=row[0][:60], marks=several if "make_mesh((2" in row[0] or "xf.pmap(" in row[0] else []) for row in rows])


@functools.cache
def prepared(table: str) -> dict:
    import xlafront as xf

    names = {"xf": xf, "np": np, "P": xf.P}
    names |= {short: importlib.import_module(f"xlafront.{name}") for short, name in MODULES.items()}
    for call, expected in lines(table):
        if not expected:
            exec(call, names)
    return names


def check(table: str, call: str, expected: str) -> None:
    kind, _, words = expected.partition(": ")
    names = dict(prepared(table))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as caught:
            exec(compile(call, "<call>", "exec"), names)
    error = caught.value
    assert kind in [c.__name__ for c in type(error).__mro__], repr(error)
    text = str(error).lower()
    missing = [word for word in words.split("; ") if word.lower() not in text]
    assert words and not missing, f"{missing} of {words!r} missing in: {error}"


@mistakes("errors")
def test_messages_contain_search_words(call, expected):
    check("errors", call, expected)


@pytest.mark.cpu_only
@mistakes("errors_devices")
def test_messages_about_devices_contain_search_words(call, expected):
    check("errors_devices", call, expected)


SILENCED = [  # how programs silence warnings: `filterwarnings` looks at the beginning of a message
    ("xnp.zeros(3, 'float64')", UserWarning, "Explicitly requested dtype float64"),
    ("xnp.zeros(3).astype(np.int64)", UserWarning, "Explicitly requested dtype int64"),
    ("xnp.zeros(3, xnp.int32).at[0].set(1.5)", FutureWarning, "scatter inputs have incompatible types"),
    ("xnp.zeros(3).at[0].add(1j)", FutureWarning, "scatter inputs have incompatible types"),
    ("lax.convert_element_type(xnp.array(1j), xnp.float32)", np.exceptions.ComplexWarning, "Casting complex values to real"),
    ("xnp.zeros(3).at[0].add(1j)", np.exceptions.ComplexWarning, "Casting complex values to real"),
    ("xnp.array([1j]).astype(float)", DeprecationWarning, "Casting from complex to real dtypes"),
    ("xf.jit(lambda x: x, backend='cpu')", DeprecationWarning, "backend and device argument on jit is deprecated"),
    ("xf.jit(lambda x, y: x + y.sum(), donate_argnums=1)(1.0, xnp.ones(3))", UserWarning, "Some donated buffers were not usable"),
]


@pytest.mark.parametrize("call, category, beginning", SILENCED, ids=[f"{row[0]} {row[1].__name__}" for row in SILENCED])
def test_warnings_begin_as_programs_expect(call, category, beginning):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        eval(call, dict(prepared("errors")))
    assert any(w.category is category and str(w.message).startswith(beginning) for w in seen), [str(w.message) for w in seen]
