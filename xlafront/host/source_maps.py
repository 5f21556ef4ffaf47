"""Source maps (revision 3 of the browsers' format) from compiler representations of a function to lines of Python files."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlafront.base import config
from xlafront.core import source
from xlafront.staging.inspection import make_jaxpr
from xlafront.staging.jit import jit

__all__ = ["MappingsGenerator", "Pass", "SourceMap", "SourceMapDump", "all_passes", "canonicalize_filename", "compile_with_env",
           "create_mlir_sourcemap", "filter_passes", "generate_sourcemaps", "register_pass"]

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# A column of the text, and the file, line and column of its source; each relative to the previous segment.
Segment = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class SourceMap:
    """A map from the lines of a text to their sources.

    Each line has a list of segments, with relative numbers as in the file format.
    """

    version: int
    sources: Sequence[str]
    sources_content: Sequence[str]
    names: Sequence[str]
    mappings: Sequence[Sequence[Segment]]

    @classmethod
    def from_json(cls, text: str) -> SourceMap:
        """Parse the contents of a source map file."""
        read = json.loads(text)
        lines = [[_decoded(segment) for segment in line.split(",") if segment] for line in read["mappings"].split(";")]
        return cls(read["version"], read["sources"], read.get("sourcesContent") or [], read.get("names") or [], lines)

    def to_json(self) -> str:
        """Return the contents of a source map file, for browsers and editors."""
        mappings = ";".join([",".join(["".join(map(_encoded, segment)) for segment in line]) for line in self.mappings])
        return json.dumps({"version": self.version, "sources": [*self.sources], "sourcesContent": [*self.sources_content],
                           "names": [*self.names], "mappings": mappings})


def _encoded(number: int) -> str:
    """Encode a number as base-64 digits of five bits, the sign in the first (VLQ)."""
    rest, digits = (-number << 1 | 1) if number < 0 else number << 1, ""
    while True:
        digit, rest = rest & 31, rest >> 5
        digits += _DIGITS[digit | 32 if rest else digit]
        if not rest:
            return digits


def _decoded(segment: str) -> Segment:
    numbers, value, shift = [], 0, 0
    for character in segment:
        digit = _DIGITS.index(character)
        value, shift = value | (digit & 31) << shift, shift + 5
        if not digit & 32:
            numbers.append(-(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    return tuple(numbers)


class MappingsGenerator:
    """A builder of mappings, line by line, from absolute numbers."""

    def __init__(self) -> None:
        self._lines: list[list[Segment]] = []
        self._last: Segment = (0, 0, 0, 0, 0)

    def new_group(self) -> None:
        """Begin a new line."""
        self._lines.append([])
        self._last = (0, *self._last[1:])

    def new_segment(self, *seg: int) -> None:
        """Add a segment: a column of the line, and file, line and column (and name) of its source, all absolute and from 0."""
        if not self._lines:
            raise RuntimeError("MappingsGenerator: a segment belongs to a line, and there is none yet: call new_group() first.")
        self._lines[-1].append(tuple([value - last for value, last in zip(seg, self._last)]))
        self._last = (*seg, *self._last[len(seg):])

    def mappings(self) -> list[list[Segment]]:
        """Return the mappings of all lines."""
        return self._lines


@dataclasses.dataclass(frozen=True)
class SourceMapDump:
    """The output of a pass, and the map from its lines to source lines."""

    source_map: SourceMap
    generated_code: str
    pass_name: str


@dataclasses.dataclass(frozen=True)
class Pass:
    """A compiler pass whose output can be mapped to sources.

    Args:
        name: Name of the pass.
        compile_fn: Function `(work_dir, f, args, kwargs, **pass_kwargs)` that returns the output of the pass for `f`.
        generate_dump: Function `(output, **pass_kwargs)` that returns a `SourceMapDump` of the output.
    """

    name: str
    compile_fn: Callable[..., Any]
    generate_dump: Callable[..., SourceMapDump]


_passes: dict[str, Pass] = {}


def register_pass(pass_: Pass) -> None:
    """Register a pass for source maps.

    Args:
        pass_: Pass to register; its name must be new.

    Example:
        >>> def dump(text, **_):
        ...     return source_mapper.SourceMapDump(create_mlir_sourcemap(text), text, "plain")
        >>> register_pass(source_mapper.Pass("plain", lambda directory, f, args, kwargs, **_: f.__name__, dump))
    """
    if pass_.name in _passes:
        raise ValueError(f"Pass {pass_.name} is already registered: names of passes must differ.")
    _passes[pass_.name] = pass_


def all_passes() -> Sequence[Pass]:
    """Return the registered passes.

    Returns:
        List of passes.

    Example:
        >>> [step.name for step in all_passes()][:4]
        ['jaxpr', 'hlo:stable-hlo', 'hlo:original', 'hlo:optimized']
    """
    return [*_passes.values()]


def filter_passes(regex: str) -> Sequence[Pass]:
    """Return the passes whose names match a regular expression at their beginning.

    Args:
        regex: Regular expression.

    Returns:
        List of passes.

    Example:
        >>> [step.name for step in filter_passes("hlo:s")]
        ['hlo:stable-hlo']
    """
    return [step for step in _passes.values() if re.match(regex, step.name)]


def generate_sourcemaps(f: Callable, passes: Sequence[Pass], **pass_kwargs: Any) -> Callable[..., Sequence[SourceMapDump]]:
    """Return a function that runs passes on `f` and maps their outputs to source lines.

    Args:
        f: Function to compile.
        passes: Passes, from `all_passes()`.
        pass_kwargs: Additional keyword arguments for the passes.

    Returns:
        A function of the arguments of `f` that returns one `SourceMapDump` per pass.

    Example:
        >>> def f(x):
        ...     return xnp.sin(x)
        >>> [dump] = generate_sourcemaps(f, filter_passes("jaxpr"))(1.0)
        >>> "sin" in dump.generated_code
        True
    """
    def generate(*args: Any, **kwargs: Any) -> Sequence[SourceMapDump]:
        dumps = []
        for step in passes:
            with tempfile.TemporaryDirectory() as directory:
                work = os.path.join(directory, step.name)
                os.makedirs(work)
                dumps.append(step.generate_dump(step.compile_fn(work, f, args, kwargs, **pass_kwargs), **pass_kwargs))
        return dumps

    return generate


def compile_with_env(f: Callable, f_args: tuple, f_kwargs: dict[str, Any], env_flags: dict[str, Any],
                     compiler_flags: dict[str, Any]) -> None:
    """Compile a function for the side effects of compilation, such as files that XLA writes.

    Args:
        f, f_args, f_kwargs: Function and its arguments.
        env_flags: Settings that apply during compilation, by name.
        compiler_flags: XLA options.

    Example:
        >>> compile_with_env(lambda x: x + 1, (1.0,), {}, {"jax_enable_x64": True}, {"xla_embed_ir_in_executable": True})
    """
    before = {name: config.config.read(name) for name in env_flags}
    try:
        for name, value in env_flags.items():
            config.config.update(name, value)
        jit(f).lower(*f_args, **f_kwargs).compile(compiler_flags or None)
    finally:
        for name, value in before.items():
            config.config.update(name, value)


def canonicalize_filename(file_name: str) -> str:
    """Return the name of a file as it appears in programs and source maps.

    The setting `hlo_source_file_canonicalization_regex` matches the parts of the name that are removed.

    Args:
        file_name: Name of the file.

    Returns:
        The canonical name.

    Example:
        >>> canonicalize_filename("model.py")
        'model.py'
    """
    return source.canonical_file(file_name)


# From texts to maps

Location = tuple[str, int, int]  # file, line from 1, column from 0


def _map_of(locations: Sequence[tuple[int, Location] | None]) -> SourceMap:
    """Return the map of a text, given for each line a column and its source location, or None."""
    files: dict[str, int] = {}
    mappings = MappingsGenerator()
    for found in locations:
        mappings.new_group()
        if found is not None:
            column, (file, line, source_column) = found
            number = files.setdefault(canonicalize_filename(file), len(files))
            mappings.new_segment(column, number, max(line - 1, 0), source_column)
    return SourceMap(3, [*files], [], [], mappings.mappings())


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


_LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_REFERENCE = re.compile(r"#loc\d*")


def create_mlir_sourcemap(mlir_dump: str) -> SourceMap:
    """Return the source map of an MLIR module.

    Args:
        mlir_dump: Text of the module, with locations.

    Returns:
        The map from the lines of the text to source lines.

    Example:
        >>> text = xf.jit(xnp.sin).lower(1.0).as_text(debug_info=True)
        >>> create_mlir_sourcemap(text).version
        3
    """
    lines = mlir_dump.split("\n")
    named = {match[1]: match[2] for match in map(_LOCATION.match, lines) if match}

    def resolve(location: str, depth: int = 0) -> Location | None:
        """Return the innermost source location in an MLIR location."""
        for match in re.finditer(f"{_FILE.pattern}|{_REFERENCE.pattern}", location):
            if match[1] is not None:
                return match[1], int(match[2]), int(match[3])
            if match[0] in named and depth < 100:
                found = resolve(named[match[0]], depth + 1)
                if found is not None:
                    return found
        return None

    def location_on(line: str) -> tuple[int, Location] | None:
        start = line.rfind(" loc(")
        if start < 0 or _LOCATION.match(line) or not line[:_indentation(line) + 1].startswith(" "):
            return None
        found = resolve(line[start:])
        return None if found is None else (_indentation(line), found)

    return _map_of([location_on(line) for line in lines])


_METADATA = re.compile(r'source_file="([^"]*)"(?: source_line=(\d+))?')
_ROW = re.compile(r"^(\d+) (?:\"(.*)\"|\{(.*)\})$")


def _hlo_map(text: str) -> SourceMap:
    """Return the map of an HLO text, which has locations in tables at its beginning or in the lines of operations."""
    lines = text.split("\n")
    tables: dict[str, dict[int, Any]] = {name: {} for name in ("FileNames", "FunctionNames", "FileLocations", "StackFrames")}
    table: dict[int, Any] | None = None
    for line in lines:
        if line in tables:
            table = tables[line]
        elif (row := _ROW.match(line)) and table is not None:
            numbers = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", row[3] or "")}
            table[int(row[1])] = row[2] if row[3] is None else numbers

    def location_on(line: str) -> tuple[int, Location] | None:
        if "metadata={" not in line:
            return None
        if match := _METADATA.search(line):
            return _indentation(line), (match[1], int(match[2] or 1), 0)
        frame = re.search(r"stack_frame_id=(\d+)", line)
        location = frame and tables["FileLocations"].get(tables["StackFrames"].get(int(frame[1]), {}).get("file_location_id"))
        if not location:
            return None
        return _indentation(line), (tables["FileNames"][location["file_name_id"]], location["line"], location.get("column", 0))

    return _map_of([location_on(line) for line in lines])


_COMMENT = re.compile(r" +# (.*):(\d+)(?::(\d+))? \([^()]*\)$")
_EQUATION = re.compile(r"^ *(?:\S+:\S+ )+= ")


def _jaxpr_map(text: str) -> tuple[SourceMap, str]:
    """Return the map of a jaxpr printed with source comments, and the text without these comments."""
    locations: list[tuple[int, Location] | None] = []
    bare = []
    first: list[int] = []  # the first lines of the enclosing equations
    for i, line in enumerate(text.split("\n")):
        match = _COMMENT.search(line)
        bare.append(line[:match.start()] if match else line)
        locations.append(None)
        while first and _indentation(line) < _indentation(bare[first[-1]]):
            first.pop()
        if _EQUATION.match(line):
            while first and _indentation(line) <= _indentation(bare[first[-1]]):
                first.pop()
            first.append(i)
        if match:
            for j in range(first[-1] if first else i, i + 1):
                if locations[j] is None:
                    locations[j] = _indentation(bare[j]), (match[1], int(match[2]), int(match[3] or 0))
    return _map_of(locations), "\n".join(bare)


# The standard passes


def _dump_jaxpr(jaxpr: Any, **_: Any) -> SourceMapDump:
    source_map, text = _jaxpr_map(jaxpr.pretty_print(source_info=True, use_color=False))
    return SourceMapDump(source_map, text, "jaxpr")


def _dump_text(name: str, text_of: Callable[[Any, Any], str],
               map_of: Callable[[str], SourceMap]) -> Callable[..., SourceMapDump]:
    def dump(lowered: Any, xla_compiler_flags: dict[str, Any] | None = None, **_: Any) -> SourceMapDump:
        text = text_of(lowered, xla_compiler_flags)
        return SourceMapDump(map_of(text), text, name)

    return dump


def _optimized(lowered: Any, flags: dict[str, Any] | None) -> str:
    """Return the optimized HLO, compiled without the cache: a cached executable of an equal program has other source lines."""
    modules = lowered._lowered.compile(flags, bypass_cache=True).loaded.hlo_modules()
    return "\n\n".join([module.to_string() for module in modules])


def _lower(work_dir: str, f: Callable, f_args: tuple, f_kwargs: dict[str, Any], **_: Any) -> Any:
    return jit(f).lower(*f_args, **f_kwargs)


def _standard_passes() -> Iterator[Pass]:
    yield Pass("jaxpr", lambda work_dir, f, f_args, f_kwargs, **_: make_jaxpr(f)(*f_args, **f_kwargs), _dump_jaxpr)
    for name, text_of, map_of in (
            ("hlo:stable-hlo", lambda lowered, flags: lowered.as_text(debug_info=True), create_mlir_sourcemap),
            ("hlo:original", lambda lowered, flags: lowered.compiler_ir("hlo").as_hlo_module().to_string(), _hlo_map),
            ("hlo:optimized", _optimized, _hlo_map)):
        yield Pass(name, _lower, _dump_text(name, text_of, map_of))


for _pass in _standard_passes():
    register_pass(_pass)
