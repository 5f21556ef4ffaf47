"""Settings of the book: `sphinx-build -W -b html notebooks build/book` writes its web site.

Notebooks are stored with their outputs, which `tests/test_book.py` compares, so nothing runs here. The pages of the reference
are generated from the public modules' lists of names and from docstrings.
"""

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import get_origin

from sphinx.ext.napoleon import Config, GoogleDocstring

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from xlafront.base.version import __version__  # noqa: E402
from xlafront.lazy_module import names_of  # noqa: E402

project, author, version, release = "xlafront", "the authors of xlafront", __version__, __version__
copyright = "the authors of xlafront"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["build", "_build", "**.ipynb_checkpoints"]

html_theme = "sphinx_book_theme"
html_title = "xlafront"
html_theme_options = {"show_navbar_depth": 1, "home_page_in_toc": False, "show_toc_level": 2, "use_download_button": True,
                      "use_fullscreen_button": False}
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_show_sourcelink = False
pygments_style = "friendly"

nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# A type `bytes` in a docstring is Python's, not one of the attributes of that name. Messages in tracebacks have backticks,
# which Pygments takes for an error.
suppress_warnings = ["ref.python", "misc.highlighting_failure"]
default_role = "literal"  # what docstrings have between single backticks
autodoc_typehints = "none"  # `types_of` adds them, as the source has them: aliases such as `ArrayLike` by their names
autodoc_preserve_defaults = True
maximum_signature_line_length = 90
python_use_unqualified_type_names = True
toc_object_entries = False

# Modules for those that write libraries on xlafront's internals, and aliases that hold nothing of their own.
_NOT_LISTED = {"xlafront.compat", "xlafront.core", "xlafront.interpreters", "xlafront.experimental.pallas.mosaic_gpu",
               "xlafront.experimental.array_serialization", "xlafront.experimental.key_reuse"}
_CAPTIONS = {  # captions of the reference's index, and the modules that begin with these names
    "Functions": "xlafront numpy lax random nn kernels tree tree_util flatten_util ops image dtypes dlpack ref typing memory",
    "SciPy": "scipy",
    "Derivatives and batching": "custom_derivatives custom_batching ad_checkpoint",
    "Devices": "sharding distributed planning",
    "Compiling and exporting": "stages export ffi",
    "Debugging": "debug errors profiler monitoring test_util",
    "Example libraries": "example_libraries",
    "Experimental": "experimental",
    "For libraries": "extend api_util",
}


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a public module lists; for one without a list, the functions that it defines."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("__")]
    return [name for name, value in vars(module).items()
            if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == module.__name__]


def public_modules(name: str = "xlafront") -> list[str]:
    """Return the names of the public modules that have names of their own, packages before what they contain."""
    if name in _NOT_LISTED:
        return []
    module = importlib.import_module(name)
    inner = sorted(names_of[name].submodules) if name in names_of else []
    return [name] * bool(public_names(module)) + [found for part in inner for found in public_modules(f"{name}.{part}")]


_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)(\w?)")


def to_rst(text: str) -> str:
    """Return a paragraph of a docstring as reStructuredText: code between double backticks, and no other markup."""
    pieces, end = [], 0
    for found in _CODE.finditer(text):
        pieces += [_escape(text[end:found.start()]), f"``{found[1]}``", f"\\ {found[2]}" if found[2] else ""]
        end = found.end()
    return "".join(pieces) + _escape(text[end:])


def _escape(text: str) -> str:
    return re.sub(r"(?<=\w)_(?!\w)|[*|](?=\S)", r"\\\g<0>", text)


def process_docstring(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Convert a docstring of Google's style. Examples begin with a prompt, end with an empty line, and stay as they are."""
    text = "\n".join(lines)
    blocks = re.split(r"((?:^[ ]*>>>.*\n?)(?:^[ ]*\S.*\n?)*)", text, flags=re.MULTILINE)
    text = "".join(b if i % 2 else to_rst(b) for i, b in enumerate(blocks))
    # Napoleon's parser alone: its extension fails on methods that have no qualified name.
    described = GoogleDocstring(text, Config(napoleon_use_ivar=True), app, what, name, value, options).lines()
    types = types_of(value) if is_function(value) else {}
    lines.clear()
    for line in described:
        found = re.match(r":param (\w+):", line)
        lines += [f":type {found[1]}: ``{types[found[1]]}``", line] if found and found[1] in types else [line]


def types_of(function: object) -> dict[str, str]:
    """Return the annotations of parameters, as text."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.annotation for p in parameters if isinstance(p.annotation, str)}


def is_private(app: object, what: str, name: str, value: object, skip: bool, options: object) -> bool:
    """True for a member of a class that the reference leaves out."""
    return skip or name.startswith("_")


_page_of_class: dict[type, str] = {}  # the name under which a class is described, for classes that several modules list


def is_function(value: object) -> bool:
    return callable(value) and get_origin(value) is None and not inspect.isclass(value)


def page(name: str) -> str:
    """Return the page of the reference about a public module: a table of its names, and a description of each."""
    module = importlib.import_module(name)
    values = {public: getattr(module, public) for public in sorted(public_names(module), key=str.lower)}
    lines = [name, "=" * len(name), "", f".. automodule:: {name}", "   :no-members:", ""]
    lines += [".. list-table::", "   :widths: 1 3", ""]
    for public, value in values.items():
        is_described = inspect.isclass(value) or is_function(value)
        summary = to_rst((inspect.getdoc(value) or "").partition("\n")[0]) if is_described else ""
        lines += [f"   * - :py:obj:`~{name}.{public}`", f"     - {summary}"]
    lines.append("")
    for public, value in values.items():
        lines += description(name, public, value) + [""]
    return "\n".join(lines)


def description(module: str, public: str, value: object) -> list[str]:
    """Return the directive that describes a public name of a module."""
    name = f"{module}.{public}"
    data = [f".. py:data:: {public}", f"   :module: {module}", ""]
    if is_function(value):
        return [f".. autofunction:: {name}"]
    if not inspect.isclass(value):
        return data
    if value.__module__.partition(".")[0] in ("builtins", "numpy", "ml_dtypes"):
        return [*data, f"   The class ``{value.__module__}.{value.__qualname__}``."]
    first = _page_of_class.setdefault(value, name)
    if first != name:
        return [*data, f"   The class :py:class:`{first}`."]
    return [f".. autoclass:: {name}", "   :members:"]


def write_reference(app: object, config: object) -> None:
    """Write the pages of the reference that changed, and their index, into `api`."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    modules = public_modules()
    index = ["Reference", "=========", "", "The public modules. ``help(xnp.sum)`` shows the same text as the page.", ""]
    for caption, names in _CAPTIONS.items():
        found = [m for part in names.split() for m in modules if m == part or f"{m}.".startswith(f"xlafront.{part}.")]
        index += [".. toctree::", "   :maxdepth: 1", f"   :caption: {caption}", "", *[f"   {m}" for m in found], ""]
        modules = [m for m in modules if m not in found]
    assert not modules, f"modules without a caption: {modules}"
    pages = {"index": "\n".join(index)} | {m: page(m) for m in public_modules()}
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def to_pages(text: str) -> str:
    """Return a text whose links to files outside of `notebooks` lead to their pages in the book, or are no links."""
    text = re.sub(r"\]\((?:\.\./)*(CONTRIBUTING|CHANGELOG)\.md", lambda m: f"](/{m[1].lower()}.md", text)
    return re.sub(r"\[([^]]+)\]\((?:\.\./)*(?:benchmarks|xlafront|tests)/[^)]*\)", r"\1", text)


def read_source(app: object, name: str, source: list[str]) -> None:
    source[0] = to_pages(source[0])


def read_included(app: object, path: Path, name: str, source: list[str]) -> None:
    source[0] = to_pages(source[0])


def setup(app: object) -> None:
    app.connect("config-inited", write_reference)
    app.connect("source-read", read_source)
    app.connect("include-read", read_included)
    app.connect("autodoc-skip-member", is_private)
    app.connect("autodoc-process-docstring", process_docstring)
