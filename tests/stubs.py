"""Write the type stubs of the public modules, whose names are loaded on first use and which type checkers cannot follow.

The stub of a public module lists the names of its table `_EXPORTS`, each imported from the module that defines it: checkers and
editors read signatures, defaults and documentation from the source. Names that code makes at run time, without a `def` in
the source, get a generated signature and a copy of their docstring, which editors show. The methods of arrays, which are attached
at run time, are in `numpy/array_methods.pyi`.

`python -m tests.stubs` writes the stubs; `python -m tests.stubs --check` lists those that differ from what would be written.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import importlib
import inspect
import math
import pkgutil
import re
import sys
import textwrap
import typing
import warnings
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import xlafront
from xlafront.lazy_module import names_of
from xlafront.numpy.habits import REMEDIES
from xlafront.runtime.arrays import ArrayImpl

ROOT = Path(xlafront.__file__).parent
HEAD = "# Written by `python -m tests.stubs`.\n"
ARRAY = "xlafront.numpy.array_methods"
JAXLIB_TYPES = "xlafront.base.jaxlib_types"

# Modules that import libraries which may not be installed.
_NEEDS_LIBRARIES = ("xlafront.experimental.array_serialization.serialization",)

# Decorators whose types keep the signature of the decorated function.
TRANSPARENT_DECORATORS = frozenset((
    "boundary", "host_sorting.on_host", "library", "accepts", "promotes_freely", "_define", "_activation",
    "contextmanager", "contextlib.contextmanager"))
ONE_OR_MANY = '''\
@typing.overload
def {name}(ary: {like}, /) -> {array}: ...
@typing.overload
def {name}(*arys: {like}) -> {array} | builtins.list[{array}]: ...
'''
METHODS = '''\
    _aval: typing.Any
    _sharding: typing.Any
    _npy_value: typing.Any
    _value: typing.Any
    _committed: builtins.bool
    _fully_replicated_shard: typing.Any
    def _check_if_deleted(self) -> None: ...
    @property
    def at(self) -> _At: ...
    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None: ...
    def block_until_ready(self) -> Array: ...
    def clone(self) -> Array: ...
    def delete(self) -> None: ...
    def devices(self) -> builtins.set[typing.Any]: ...
    def is_deleted(self) -> builtins.bool: ...
    def is_ready(self) -> builtins.bool: ...
    def on_device_size_in_bytes(self) -> builtins.int: ...
    def platform(self) -> builtins.str: ...
    def unsafe_buffer_pointer(self) -> builtins.int: ...
    def __bool__(self) -> builtins.bool: ...
    def __int__(self) -> builtins.int: ...
    def __float__(self) -> builtins.float: ...
    def __complex__(self) -> builtins.complex: ...
    def __index__(self) -> builtins.int: ...
    def __len__(self) -> builtins.int: ...
    def __iter__(self) -> typing.Iterator[Array]: ...
    def __getitem__(self, index: typing.Any) -> Array: ...
    def __array__(self, dtype: typing.Any = ..., copy: typing.Any = ...) -> numpy.ndarray: ...
    def __hash__(self) -> builtins.int: ...
'''
UFUNC = '''\
class _Ufunc:
    nin: builtins.int
    nout: builtins.int
    nargs: builtins.int
    identity: typing.Any
    def __call__(self, x1: {like}, x2: {like}, /, *, out: None = ..., where: None = ...) -> {array}: ...
    def at(self, a: {like}, indices: typing.Any, b: {like} | None = ..., *, inplace: builtins.bool = ...) -> {array}: ...
    def reduce(self, a: {like}, axis: typing.Any = ..., dtype: typing.Any = ..., out: None = ..., keepdims: builtins.bool = ...,
               initial: {like} | None = ..., where: {like} | None = ...) -> {array}: ...
    def accumulate(self, a: {like}, axis: builtins.int = ..., dtype: typing.Any = ..., out: None = ...) -> {array}: ...
    def outer(self, A: {like}, B: {like}, /) -> {array}: ...
    def reduceat(self, a: {like}, indices: typing.Any, axis: builtins.int = ..., dtype: typing.Any = ..., out: None = ...
                 ) -> {array}: ...

'''
# Types of constants.
PLAIN = (bool, int, float, complex, str)
# Attributes of arrays that are no methods, and their types.
ATTRIBUTES = {
    "shape": "builtins.tuple[builtins.int, ...]", "ndim": "builtins.int", "size": "builtins.int", "nbytes": "builtins.int",
    "itemsize": "builtins.int", "T": "Array", "mT": "Array", "real": "Array", "imag": "Array", "weak_type": "builtins.bool",
    "committed": "builtins.bool", "dtype": "numpy.dtype[typing.Any]", **dict.fromkeys(("sharding", "aval", "device", "traceback"), "typing.Any")}


def faces() -> list[ModuleType]:
    """Return the public modules, and the modules of distributions, whose functions get their signatures from decorators."""
    found = []
    for info in [None, *pkgutil.walk_packages([str(ROOT)], "xlafront.")]:
        name = "xlafront" if info is None else info.name
        path = source_of(name)
        if path is not None and "compat" not in name and name not in _NEEDS_LIBRARIES and (
                "__getattr__, __dir__, __all__ = attach(" in path.read_text() or name.startswith("xlafront.scipy.stats.")):
            found.append(importlib.import_module(name))
    return found


def public(face: ModuleType) -> list[str]:
    own = [name for name, value in vars(face).items() if not name.startswith("_") and callable(value)
           and getattr(value, "__module__", None) == face.__name__]
    return sorted([*face.__all__, *names_of[face.__name__].deprecated] if hasattr(face, "__all__") else own)


def source_of(name: str) -> Path | None:
    path = ROOT.parent.joinpath(*name.split("."))
    return next((p for p in (path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyi")) if p.is_file()), None)


@functools.cache
def definitions(module: str) -> dict[str, ast.FunctionDef | ast.ClassDef]:
    """Return the functions and classes at the top level of a module's source."""
    path = source_of(module)
    tree = ast.parse(path.read_text()) if path else ast.Module([], [])
    return {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


@functools.cache
def assignments(module: str) -> frozenset[str]:
    """Return the names to which the top level of a module's source assigns."""
    path = source_of(module)
    tree = ast.parse(path.read_text()) if path else ast.Module([], [])
    return frozenset([target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
                      if isinstance(target, ast.Name)])


@functools.cache
def type_aliases(module: str) -> frozenset[str]:
    """Return the names that a module's source annotates with `TypeAlias`, or imports from a module that is a stub only."""
    path = source_of(module)
    tree = ast.parse(path.read_text()) if path else ast.Module([], [])
    return frozenset([
        *[node.target.id for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)
          and isinstance(node.target, ast.Name) and ast.unparse(node.annotation) == "TypeAlias"],
        *[alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
          and node.module == "xlafront.base.jaxlib_types" for alias in node.names]])


def definition_of(value: Any) -> tuple[str, str] | None:
    """Return module and name of the `def` behind a function, or None if checkers would not find its signature there."""
    function = inspect.unwrap(value)
    code = getattr(function, "__code__", None)
    if code is None or not function.__globals__["__name__"].startswith("xlafront."):
        return None
    module = function.__globals__["__name__"]
    node = definitions(module).get(code.co_name)
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        return None
    first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg)
             if a]
    decorators = {ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
    same = first == code.co_firstlineno and names == list(inspect.signature(value).parameters)
    return (module, code.co_name) if same and decorators <= TRANSPARENT_DECORATORS else None


def default_text(value: Any) -> str:
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return repr(value)
    return "()" if value == () and type(value) is tuple else "..."


class Stub:
    """The text of a stub, built from the values in a public module."""

    def __init__(self, face: ModuleType, written: dict[tuple[str, int], tuple[str, Any]]):
        self.face = face
        self.written = written  # generated functions by name and identity: the module with the signature, and the function
        self.imports: set[str] = set()
        self.aliases: dict[str, str] = {}  # type aliases, and the module that each is imported from
        self.lines: list[str] = []
        self.docstrings: list[str] = []  # inserted in this order at each "\0" in `lines`

    def text(self) -> str:
        if self.face.__name__ == ARRAY:
            self.lines.append(self.array(self.face.Array))
        else:
            self.lines += [self.entry(name, getattr(self.face, name)) for name in public(self.face)]
        find = getattr(self.face, "__getattr__", None)
        for name in find.__self__.submodules if find else ():
            self.imports.add(f"from {self.face.__name__} import {name} as {name}")
        body = "".join(self.lines)
        for module in ("builtins", "numpy", "ml_dtypes", "typing", "xlafront"):  # under names that no face has
            body, found = re.subn(rf"\b{module}\.", f"_{module}.", body)
            if found:
                self.imports.add(f"import {module} as _{module}")
        docstrings = iter(self.docstrings)
        body = re.sub("\0", lambda _: next(docstrings), body)
        return HEAD + "".join([line + "\n" for line in sorted(self.imports)]) + "\n" + body

    def entry(self, name: str, value: Any) -> str:
        find = getattr(self.face, "__getattr__", None)
        module = find.__self__.module_of[name] if find else self.face.__name__
        if name in type_aliases(module):
            self.imports.add(f"from {module} import {name} as {name}")
            return ""
        if isinstance(value, ModuleType):
            parent, _, last = value.__name__.rpartition(".")
            self.imports.add(f"from {parent} import {last} as {name}" if parent else f"import {last} as {name}")
            return ""
        if isinstance(value, type):
            return self.class_(name, value, module)
        if hasattr(value, "reduceat"):
            if not any(line.startswith("class _Ufunc") for line in self.lines):
                self.lines.insert(0, UFUNC.format(like=self.name("ArrayLike", {}), array=self.name("Array", {})))
            return f"{name}: _Ufunc{self.documentation(name, value, 0)}\n"
        if name in ("atleast_1d", "atleast_2d", "atleast_3d"):
            return ONE_OR_MANY.format(name=name, like=self.name("ArrayLike", {}), array=self.name("Array", {}))
        if type(value) in PLAIN:
            return f"{name}: builtins.{type(value).__name__}\n"
        if value is None:
            return f"{name}: None\n"
        if type(value).__module__ in ("types", "typing") and name in assignments(module):  # a type that is no class
            return self.import_(module, name, name)
        if not isinstance(value, FunctionType) and not hasattr(value, "lower"):
            return f"{name}: {self.class_of(type(value))}\n"
        definition = definition_of(value) if find else None
        if definition is not None:
            return self.import_(*definition, name)
        owner, _ = self.written.setdefault((name, id(value)), (self.face.__name__, value))
        if owner != self.face.__name__:
            self.imports.add(f"from {owner} import {name} as {name}")
            return ""
        return self.function(name, value)

    def import_(self, module: str, name: str, public_name: str) -> str:
        """Import a name; return the assignment that exports it under another, as stubs export imports under the same name alone."""
        if name == public_name:
            self.imports.add(f"from {module} import {name} as {name}")
            return ""
        self.imports.add(f"from {module} import {name} as _source_{public_name}")
        return f"{public_name} = _source_{public_name}\n"

    def function(self, name: str, value: Any, method: bool = False) -> str:
        try:
            signature = inspect.signature(value)
        except (TypeError, ValueError):
            return f"{name}: typing.Any\n" if not method else ""
        names = getattr(inspect.unwrap(value), "__globals__", {})
        parameters, kinds = [], inspect.Parameter
        seen_star = False
        listed = list(signature.parameters.values())
        for i, p in enumerate(listed):
            if p.kind is kinds.KEYWORD_ONLY and not seen_star:
                parameters.append("*")
                seen_star = True
            text = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
            seen_star |= p.kind is kinds.VAR_POSITIONAL
            if p.annotation is not kinds.empty:
                text += f": {self.annotation(p.annotation, names)}"
            if p.default is not kinds.empty:
                text += (" = " if ": " in text else "=") + default_text(p.default)
            parameters.append(text)
            if p.kind is kinds.POSITIONAL_ONLY and (i + 1 == len(listed) or listed[i + 1].kind is not kinds.POSITIONAL_ONLY):
                parameters.append("/")
        result = signature.return_annotation
        shown = "typing.Any" if result is kinds.empty else self.annotation(result, names)
        return f"def {name}({', '.join(parameters)}) -> {shown}:{self.documentation(name, value, 8 if method else 4) or ' ...'}\n"

    def documentation(self, name: str, value: Any, indent: int) -> str:
        r"""Register a docstring and return "\0"; return "" if there is none, or if editors find it in the source."""
        text = inspect.getdoc(value)
        if not text or name in definitions(self.face.__name__):
            return ""
        quoted = '"""' + text.replace("\\", r"\\").replace('"""', r'\"\"\"') + ("\n" if "\n" in text else "") + '"""'
        self.docstrings.append("\n" + textwrap.indent(quoted, " " * indent))
        return "\0"

    def annotation(self, annotation: Any, names: dict[str, Any]) -> str:
        if not isinstance(annotation, str):
            annotation = getattr(annotation, "__name__", "Any")
        tree = ast.parse(annotation, mode="eval")
        stub = self

        class Rename(ast.NodeTransformer):
            def visit_Name(self, node):
                return ast.parse(stub.name(node.id, names), mode="eval").body

            def visit_Constant(self, node):
                if isinstance(node.value, str):  # a name in quotes
                    return ast.parse(stub.annotation(node.value, names), mode="eval").body
                return node

            def visit_Subscript(self, node):
                if isinstance(node.value, ast.Name) and node.value.id == "Literal":
                    node.value = self.visit(node.value)
                    return node
                return self.generic_visit(node)

        return ast.unparse(Rename().visit(tree))

    def name(self, name: str, names: dict[str, Any]) -> str:
        """Return a name in an annotation under the name that the file gives it."""
        if name in type_aliases("xlafront.core.typing"):
            self.imports.add(f"from xlafront.core.typing import {name} as _{name}")
            return f"_{name}"
        value = names.get(name, inspect)
        if value is inspect:
            return f"builtins.{name}" if hasattr(builtins, name) else "None" if name == "None" else "typing.Any"
        if isinstance(value, ModuleType):
            self.imports.add(f"import {value.__name__} as _{name}")
            return f"_{name}"
        if hasattr(typing, name) and getattr(value, "__module__", "") in ("typing", "collections.abc"):
            return f"typing.{name}"
        if isinstance(value, type):
            return self.class_of(value)
        if isinstance(value, FunctionType):
            return "typing.Any"
        owner = self.aliases.setdefault(name, names["__name__"])
        self.imports.add(f"from {owner} import {name} as _{name}")
        return f"_{name}"

    def class_of(self, kind: type) -> str:
        """A class, by the module that it says it is from."""
        module, name = kind.__module__, kind.__qualname__
        if issubclass(kind, np.dtype):
            return "numpy.dtype[typing.Any]"
        if module == "builtins":
            return f"builtins.{name}"
        if kind is xlafront.Array:
            return self.name("Array", {})
        if not module.startswith("xlafront.") or name not in definitions(module):
            return "typing.Any"
        self.imports.add(f"from {module} import {name} as _{name}")
        return f"_{name}"

    def class_(self, name: str, value: type, module: str) -> str:
        if value is xlafront.Array:
            return self.import_(ARRAY, "Array", name)
        if type(value) is not type and type(value).__module__.startswith("xlafront."):  # a dtype that is a constructor
            return f"{name}: {self.class_of(type(value))}\n"
        if value.__module__.startswith("xlafront.") and value.__qualname__ in definitions(value.__module__):
            return self.import_(value.__module__, value.__qualname__, name)
        if name in definitions(module):
            return self.import_(module, name, name)
        if issubclass(value, enum.Enum):
            self.imports.add("import enum as _enum")
            return f"class {name}(_enum.Enum):\n" + "".join(f"    {member} = ...\n" for member in value.__members__)
        if value.__module__.startswith("jaxlib") and name in definitions(JAXLIB_TYPES):
            return self.import_(JAXLIB_TYPES, name, name)
        for owner in ("builtins", "numpy", "numpy.exceptions", "ml_dtypes"):
            if getattr(importlib.import_module(owner), value.__qualname__, None) is value:
                return f"{name} = {owner}.{value.__qualname__}\n"
        return f"{name}: typing.TypeAlias = typing.Any\n"

    def array(self, value: type) -> str:
        module = importlib.import_module(ARRAY)
        self.imports.add("from xlafront.numpy.updates import At as _At")
        lines = ["class Array:\n"]
        for attribute in sorted({*dir(ArrayImpl), *ATTRIBUTES}):
            if attribute.startswith("_") or attribute in REMEDIES or f"def {attribute}(" in METHODS:
                continue
            found = getattr(value, attribute, None)
            if type(found).__module__ == "nanobind":  # a method of one jaxlib and not of another; those of all are in METHODS
                continue
            if attribute in ATTRIBUTES or not callable(found):
                lines += ["    @property\n", f"    def {attribute}(self) -> {ATTRIBUTES.get(attribute, 'typing.Any')}: ...\n"]
            else:
                text = self.function(attribute, found, method=True) or f"def {attribute}(self, *args, **kwargs) -> typing.Any: ...\n"
                lines.append("    " + re.sub(r"\b_Array\b", "Array", text))
        like = self.name("ArrayLike", {})
        for operator in module.BINARY_OPERATORS:
            result = "builtins.tuple[Array, Array]" if operator == "__divmod__" else "Array"
            for name in (operator, f"__r{operator[2:]}"):
                lines.append(f"    def {name}(self, other: {like}) -> {result}: ...\n")
        for operator in module.COMPARISONS:
            ignored = "  # type: ignore[override]" if operator in ("__eq__", "__ne__") else ""
            lines.append(f"    def {operator}(self, other: typing.Any) -> Array: ...{ignored}\n")
        lines += [f"    def {operator}(self) -> Array: ...\n" for operator in module.UNARY_OPERATORS]
        self.imports.discard("from xlafront.core.typing import Array as _Array")
        return "".join([*lines, METHODS, "\nndarray = Array\n"])


def main() -> int:
    warnings.simplefilter("ignore", DeprecationWarning)  # of names that the modules still have
    differing: list[str] = []
    written: dict[tuple[str, int], tuple[str, Any]] = {}
    array_methods = importlib.import_module(ARRAY)
    # Submodules first: a package imports what both export from them.
    for face in [array_methods, *sorted(faces(), key=lambda face: -face.__name__.count("."))]:
        path = Path(face.__file__).with_suffix(".pyi")
        text = Stub(face, written).text()
        if not path.exists() or path.read_text() != text:
            differing.append(face.__name__)
            if "--check" not in sys.argv:
                path.write_text(text)
    if differing:
        print("written:" if "--check" not in sys.argv else "not as `python -m tests.stubs` writes them:", *differing)
    return int(bool(differing) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
