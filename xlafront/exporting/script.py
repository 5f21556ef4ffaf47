"""The commands `python -m xlafront export SCRIPT:FUNCTION` and `python -m xlafront info FILE`."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

from xlafront import lowering
from xlafront.core import dtypes
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.exporting import files
from xlafront.exporting.export import export
from xlafront.planning.script import UsageError, call_arguments, find, load_script, print_error
from xlafront.random.prng import IMPLEMENTATIONS
from xlafront.staging.jit import jit
from xlafront.symbolic.shapes import SymbolicScope, symbolic_args_specs, symbolic_shape

_SPEC = re.compile(r"([\w<>]+)\[([^\]]*)\]")
_SHORT = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128",
          "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "s32": "int32", "s64": "int64", "u8": "uint8",
          "u16": "uint16", "u32": "uint32", "u64": "uint64", "pred": "bool"}


def main(args) -> int:
    """Export a function of a script. Return 0, or 2 if it could not be exported."""
    try:
        for path, content in written_files(args).items():
            path.write_bytes(content)
            print(f"{path}: {len(content)} bytes")
    except UsageError as e:
        print(f"xlafront export: {e}", file=sys.stderr)
        return 2
    except Exception as e:
        print_error(e, "export")
        return 2
    return 0


def written_files(args) -> dict[pathlib.Path, bytes]:
    """Return the files to write, by path: the module as text, as a portable artifact, and the file for `deserialize`."""
    path, _, name = args.target.rpartition(":")
    if not path or not name:
        raise UsageError(f"give the function to export as SCRIPT:FUNCTION (model.py:predict), not {args.target!r}.")
    script = load_script(path)
    function = find(script, path, name)
    scope = SymbolicScope(args.constraint)
    given: tuple[Any, ...] = tuple([_spec(text, scope) for text in args.specs])
    keywords: dict[str, Any] = {}
    if not args.specs:
        maker = args.args or f"{name.replace('.', '_')}_args"
        if not hasattr(script, maker):
            raise UsageError(f"{path} does not define the arguments of {name}, and no types are given: give them, as in\n\n"
                             f"    python -m xlafront export {args.target} 'float32[8,128]' 'int32[8]' --out {args.out}\n\n"
                             f"or add a function {maker}() to the script that returns the arguments as a tuple.")
        function, given, keywords = call_arguments(script, path, name, function, args.args, None)
    if args.symbolic:
        texts = tuple([text.strip() or None for text in args.symbolic.split(";")])
        given = symbolic_args_specs(given, texts if len(texts) > 1 else texts[0], scope=scope)
    jitted = function if hasattr(function, "lower") else jit(function)
    platforms = args.platforms.replace(" ", "").split(",") if args.platforms else None
    exported = export(jitted, platforms=platforms)(*given, **keywords)
    out = pathlib.Path(args.out)
    text = lowering.module_text.module_text(exported.mlir_module(serialized=False))
    return {out: text.encode(), out.with_suffix(".mlirbc"): exported.mlir_module_serialized,
            out.with_suffix(".exported"): bytes(exported.serialize(args.vjp_order))}


def _spec(text: str, scope: SymbolicScope) -> ShapeDtypeStruct:
    """Parse a type such as `float32[8,128]`, `f32[8,128]` or, with a dimension variable, `f32[b,128]`."""
    found = _SPEC.fullmatch(text.replace(" ", ""))
    try:
        if found is None:
            raise ValueError
        name, sizes = found.groups()
        return ShapeDtypeStruct(symbolic_shape(sizes, scope=scope), _dtype(name))
    except (ValueError, TypeError) as e:
        raise UsageError(f"arguments are given by their types, such as 'float32[8,128]', 'float32[b,128]', 'int32[]' or "
                         f"'key<fry>[]', not {text!r}.{f' ({e})' if str(e) else ''}") from None


def _dtype(name: str):
    for impl in IMPLEMENTATIONS.values():
        if name == f"key<{impl.tag}>":
            return dtypes.PRNGKeyDType(impl)
    return dtypes.dtype(_SHORT.get(name, name))


def info(path: str) -> int:
    """Print a description of a file. Return 0, or 2 if its format is unknown."""
    try:
        content = pathlib.Path(path).read_bytes()
        lines = _describe(content)
    except (OSError, ValueError) as e:
        print(f"xlafront info: {e}", file=sys.stderr)
        return 2
    lines = [("file", f"{path}, {len(content)} bytes"), *lines]
    width = 1 + max([len(title) for title, _ in lines])
    print("\n".join([f"{title + ':':<{width}} {text}" for title, text in lines]))
    return 0


def _describe(content: bytes) -> list[tuple[str, str]]:
    if not content.startswith(files.MAGIC):
        if content.startswith(lowering.artifacts.MAGIC):
            return [("kind", "portable StableHLO artifact"), *_describe_module(content)]
        if b"module" in content[:4096] and b"\0" not in content[:4096]:
            return [("kind", "StableHLO as text"), *_describe_module(content)]
    header, modules = files.read(content)
    start, size = header["exported"]["module"]
    artifact = bytes(modules[start:start + size])
    kind = f"exported function, format {files.VERSION}" if content.startswith(files.MAGIC) else "exported function of jax"
    return [("kind", kind), *files.describe(header),
            ("StableHLO", f"{lowering.artifacts.version_of(artifact)}, {size} bytes")]


def _describe_module(content: bytes) -> list[tuple[str, str]]:
    """Describe a module without export data."""
    artifact = content.startswith(lowering.artifacts.MAGIC)
    module = lowering.artifacts.deserialize(content) if artifact else lowering.artifacts.parse(content.decode())
    name, main, calls = lowering.artifacts.summary(module)
    version = [("StableHLO", str(lowering.artifacts.version_of(content)))] if artifact else []
    return [*version, ("module", name), ("main", main), ("custom calls", ", ".join(sorted(set(calls))) or "none")]
