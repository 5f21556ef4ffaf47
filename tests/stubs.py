"""Writes what type checkers and editors read of the faces, whose names are loaded when they are first used and which they
cannot follow: a file `.pyi` beside each, from the signatures that `help` shows.

`python -m tests.stubs` writes them; `python -m tests.stubs --check` says which are not as they would be written.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import sys
import typing
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import xlafront
from xlafront.runtime.arrays import ArrayImpl

ROOT = Path(xlafront.__file__).parent
HEAD = "# Written by `python -m tests.stubs`.\n"
ARRAY = "xlafront.numpy.array_methods"

# Whose names are of libraries that may not be there.
OTHERS = ("xlafront.experimental.array_serialization.serialization",)

# What the sources say in other words than type checkers need.
TYPES = {
    "ArrayLike": "ArrayLike: typing.TypeAlias = xlafront.Array | Tracer | numpy.ndarray | numpy.generic | complex\n",
    "DTypeLike": "DTypeLike: typing.TypeAlias = typing.Any\n",
}
ONE_OR_MANY = '''\
@typing.overload
def {name}(ary: {like}, /) -> {array}: ...
@typing.overload
def {name}(*arys: {like}) -> {array} | builtins.list[{array}]: ...
'''
# What keeps the parameters and the result of a function.
JITTED = '''\
_P = typing.ParamSpec("_P")
_R = typing.TypeVar("_R")

class _Jitted(typing.Generic[_P, _R]):
    __name__: builtins.str
    __wrapped__: typing.Callable[_P, _R]
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def __get__(self, instance: typing.Any, owner: typing.Any = ...) -> typing.Callable[..., _R]: ...
    def lower(self, *args: typing.Any, **kwargs: typing.Any) -> _Lowered: ...
    def trace(self, *args: typing.Any, **kwargs: typing.Any) -> _Traced: ...
    def eval_shape(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any: ...
    def clear_cache(self) -> None: ...

@typing.overload
def jit(fun: typing.Callable[_P, _R], /, {options}) -> _Jitted[_P, _R]: ...
@typing.overload
def jit({options}) -> typing.Callable[[typing.Callable[_P, _R]], _Jitted[_P, _R]]: ...
'''
METHODS = '''\
    @property
    def at(self) -> _At: ...
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
# Values of these types are said to be of them, others of no type in particular.
PLAIN = (bool, int, float, complex, str)
# Attributes of arrays that are values, and their types.
ATTRIBUTES = {
    "shape": "builtins.tuple[builtins.int, ...]", "ndim": "builtins.int", "size": "builtins.int", "nbytes": "builtins.int",
    "itemsize": "builtins.int", "T": "Array", "mT": "Array", "real": "Array", "imag": "Array", "weak_type": "builtins.bool",
    "committed": "builtins.bool", **dict.fromkeys(("dtype", "sharding", "aval", "device", "traceback"), "typing.Any")}


def faces() -> list[ModuleType]:
    """The modules that hold no more than names of others, and those of distributions, whose functions decorators complete."""
    found = []
    for info in [None, *pkgutil.walk_packages([str(ROOT)], "xlafront.")]:
        name = "xlafront" if info is None else info.name
        path = source_of(name)
        if path is not None and "compat" not in name and name not in OTHERS and (
                "__getattr__, __dir__, __all__ = lazy(" in path.read_text() or name.startswith("xlafront.scipy.stats.")):
            found.append(importlib.import_module(name))
    return found


def public(face: ModuleType) -> list[str]:
    own = [name for name, value in vars(face).items() if not name.startswith("_") and callable(value)
           and getattr(value, "__module__", None) == face.__name__]
    return sorted(getattr(face, "__all__", own))


def source_of(name: str) -> Path | None:
    path = ROOT.parent.joinpath(*name.split("."))
    return next((p for p in (path / "__init__.py", path.with_suffix(".py")) if p.is_file()), None)


class Stub:
    """The text of one file, put together from the values of a face."""

    def __init__(self, face: ModuleType, written: dict[tuple[str, int], tuple[str, Any]]):
        self.face = face
        self.written = written  # functions by name and identity: the face in whose file each is, and itself
        self.imports: set[str] = set()
        self.aliases: dict[str, str] = {}  # of types, and the module that each was found in first
        self.lines: list[str] = []

    def text(self) -> str:
        for name in public(self.face):
            self.lines.append(self.entry(name, getattr(self.face, name)))
        find = getattr(self.face, "__getattr__", None)
        for name in inspect.getclosurevars(find).nonlocals["modules"] if find else ():
            self.imports.add(f"from {self.face.__name__} import {name} as {name}")
        body = "".join(self.lines)
        for module in ("builtins", "numpy", "typing", "xlafront"):  # under names that no face has
            body, found = re.subn(rf"\b{module}\.", f"_{module}.", body)
            if found:
                self.imports.add(f"import {module} as _{module}")
        return HEAD + "".join([line + "\n" for line in sorted(self.imports)]) + "\n" + body

    def entry(self, name: str, value: Any) -> str:
        if name in TYPES and self.face.__name__ == "xlafront.typing":
            self.imports.add("from xlafront.core.tracing import Tracer")
            return TYPES[name]
        if isinstance(value, ModuleType):
            parent, _, last = value.__name__.rpartition(".")
            self.imports.add(f"from {parent} import {last} as {name}" if parent else f"import {last} as {name}")
            return ""
        if name == "Array" and self.face is xlafront:
            return self.array(value)
        if isinstance(value, type):
            return self.class_(name, value)
        if hasattr(value, "reduceat"):
            if not any(line.startswith("class _Ufunc") for line in self.lines):
                self.lines.insert(0, UFUNC.format(like=self.name("ArrayLike", {}), array=self.name("Array", {})))
            return f"{name}: _Ufunc\n"
        if name == "jit" and self.face is xlafront:
            self.imports |= {"from xlafront.staging.stages import Lowered as _Lowered", "from xlafront.staging.stages import Traced as _Traced"}
            written = self.function(name, value)
            return JITTED.replace("{options}", written[written.index("*"):written.rindex(") -> ")])
        if name in ("atleast_1d", "atleast_2d", "atleast_3d"):
            return ONE_OR_MANY.format(name=name, like=self.name("ArrayLike", {}), array=self.name("Array", {}))
        if type(value) in PLAIN:
            return f"{name}: builtins.{type(value).__name__}\n"
        if value is None:
            return f"{name}: None\n"
        if callable(value) and not isinstance(value, (FunctionType,)) and not hasattr(value, "lower"):
            return f"{name}: {self.class_of(type(value))}\n"
        owner, _ = self.written.setdefault((name, id(value)), (self.face.__name__, value))
        if owner != self.face.__name__:
            self.imports.add(f"from {owner} import {name} as {name}")
            return ""
        return self.function(name, value)

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
                text += " = ..." if ": " in text else "=..."
            parameters.append(text)
            if p.kind is kinds.POSITIONAL_ONLY and (i + 1 == len(listed) or listed[i + 1].kind is not kinds.POSITIONAL_ONLY):
                parameters.append("/")
        result = signature.return_annotation
        shown = "typing.Any" if result is kinds.empty else self.annotation(result, names)
        return f"def {name}({', '.join(parameters)}) -> {shown}: ...\n"

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
        """A name in an annotation as the file knows it."""
        if name == "Array":
            return "xlafront.Array"
        if name in TYPES:
            self.imports.add(f"from xlafront.typing import {name} as _{name}")
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
        if module == "builtins":
            return f"builtins.{name}"
        if kind is xlafront.Array or "." in name:
            return "xlafront.Array" if kind is xlafront.Array else "typing.Any"
        if not module.startswith("xlafront.") or not _writes_class(module, name):
            return "typing.Any"
        self.imports.add(f"from {module} import {name} as _{name}")
        return f"_{name}"

    def class_(self, name: str, value: type) -> str:
        if value is xlafront.Array:
            self.imports.add(f"from xlafront import Array as {name}")
            return ""
        if value.__module__.startswith("xlafront.") and _writes_class(value.__module__, value.__qualname__):
            self.imports.add(f"from {value.__module__} import {value.__qualname__} as {name}")
            return ""
        if value.__module__ in ("builtins", "numpy"):
            return f"{name} = {value.__module__}.{value.__qualname__}\n"
        return f"{name}: typing.Any\n"

    def array(self, value: type) -> str:
        module = importlib.import_module(ARRAY)
        self.imports.add("from xlafront.numpy.updates import At as _At")
        lines = ["class Array:\n"]
        for attribute in sorted({*dir(ArrayImpl), *ATTRIBUTES}):
            if attribute.startswith("_") or f"def {attribute}(" in METHODS:
                continue
            found = getattr(value, attribute, None)
            if attribute in ATTRIBUTES or not callable(found):
                lines += ["    @property\n", f"    def {attribute}(self) -> {ATTRIBUTES.get(attribute, 'typing.Any')}: ...\n"]
            else:
                text = self.function(attribute, found, method=True) or f"def {attribute}(self, *args, **kwargs) -> typing.Any: ...\n"
                lines.append("    " + text.replace("xlafront.Array", "Array"))
        like = self.name("ArrayLike", {})
        for operator in module.BINARY_OPERATORS:
            result = "builtins.tuple[Array, Array]" if operator == "__divmod__" else "Array"
            for name in (operator, f"__r{operator[2:]}"):
                lines.append(f"    def {name}(self, other: {like}) -> {result}: ...\n")
        for operator in module.COMPARISONS:
            ignored = "  # type: ignore[override]" if operator in ("__eq__", "__ne__") else ""
            lines.append(f"    def {operator}(self, other: typing.Any) -> Array: ...{ignored}\n")
        lines += [f"    def {operator}(self) -> Array: ...\n" for operator in module.UNARY_OPERATORS]
        return "".join([*lines, METHODS, "\n"])


_classes: dict[str, frozenset] = {}


def _writes_class(module: str, name: str) -> bool:
    """Whether the class stands in the file of the module, where type checkers find it."""
    if module not in _classes:
        path = source_of(module)
        tree = ast.parse(path.read_text()) if path else ast.Module([], [])
        _classes[module] = frozenset([node.name for node in tree.body if isinstance(node, ast.ClassDef)])
    return name in _classes[module]


def main() -> int:
    differing: list[str] = []
    written: dict[tuple[str, int], tuple[str, Any]] = {}
    for face in sorted(faces(), key=lambda face: -face.__name__.count(".")):  # what a package offers of its parts is theirs
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
