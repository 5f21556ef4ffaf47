"""Find words that `tests/test_words.py` does not allow: `python -m tests.words xlafront/numpy [more files or folders]`.

Identifiers, docstrings and comments use the terms of JAX, NumPy, compilers and automatic differentiation. The words below have a
term of the field in their place, which `IN_NAMES` and `IN_TEXT` do not list: "broadcast", "saved", "live", "active".
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# Words that identifiers must not contain, as parts between underscores and capitals.
IN_NAMES = frozenset("""
    spread lies stands told tell tells asked asks wanted anew elsewhere kept moving moves gone drawn draws who nobody somebody heard
    whole places consist consists said says parts cut""".split())
# Words and phrases that docstrings and comments must not contain.
IN_TEXT = re.compile(r"""\b(
    spreads? | lies | lie\ in | stands\ for\ itself | written\ down | writes?\ down | writing\ down | written\ out | writes?\ out
    | asks? | asked | asking | wants? | wanted | anew | elsewhere | at\ a\ point | told | tells? | kept | moving | nobody | somebody
    | consists?\ of | who | whom | goes\ on | go\ on | going\ on | lets\ go | let\ go | gone | of\ the\ library | of\ the\ user
    | of\ users | drawn | draws | knows | is\ known\ of | in\ question
    )\b""", re.VERBOSE | re.IGNORECASE)
# A docstring begins with what its subject does or is.
FIRST = re.compile(r"(What|Whether|Who|Whose|Of each|Of which|For each|Where|How|Those)\b")

# Identifiers that are allowed: fields that JAX and jaxlib define.
ALLOWED_NAMES = frozenset("""
    module_kept_var_idx kept_var_bitvec""".split())


def words_of(name: str) -> list[str]:
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().strip("_").split("_")


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that a file defines, and its line."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def docstrings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            text = ast.get_docstring(node)
            if text:
                yield text, getattr(node, "lineno", 1)


def comments(source: str) -> Iterator[tuple[str, int]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string, token.start[0]


def findings(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for word in words_of(path.stem):
        if word in IN_NAMES:
            yield f"{path}: the file's name contains {word!r}"
    for name, line in identifiers(tree):
        if name not in ALLOWED_NAMES:
            yield from (f"{path}:{line}: the name {name} contains {word!r}" for word in words_of(name) if word in IN_NAMES)
    for text, line in docstrings(tree):
        prose = re.sub(r"^\s*>>>.*$|`[^`]*`", "", text, flags=re.MULTILINE)
        for found in IN_TEXT.finditer(prose):
            yield f"{path}:{line}: a docstring contains {found[0]!r}"
        if first := FIRST.match(text):
            yield f"{path}:{line}: a docstring begins with {first[0]!r}"
    for text, line in comments(source):
        for found in IN_TEXT.finditer(re.sub("`[^`]*`", "", text)):
            yield f"{path}:{line}: a comment contains {found[0]!r}"


def files(paths: list[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


if __name__ == "__main__":
    found = [line for path in files(sys.argv[1:] or ["xlafront"]) for line in findings(path)]
    print("\n".join(found))
    sys.exit(bool(found))
