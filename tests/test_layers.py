"""The floors of the package: imports point down, in functions too, and nowhere in a circle; faces hold names and nothing else.

The floors are those of the table in CONTRIBUTING.md, from the ground up. What a file takes from a face (`from xlafront import lax`,
`lax.sin`) counts as taken from the file where the name lives.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
FLOORS = re.findall(r"^\| `(\w+)` \|", CONTRIBUTING, re.MULTILINE)
# Faces within the folder of a floor: packages that users import from.
FACES = frozenset("""xlafront/lax/__init__.py xlafront/lax/linalg.py xlafront/numpy/__init__.py xlafront/numpy/fft.py xlafront/numpy/linalg.py
    xlafront/random/__init__.py xlafront/kernels/__init__.py xlafront/nn/__init__.py xlafront/interpreters/__init__.py xlafront/extend/__init__.py
    xlafront/planning/__init__.py xlafront/scipy/__init__.py xlafront/scipy/fft.py xlafront/scipy/integrate.py xlafront/scipy/interpolate.py xlafront/scipy/linalg.py
    xlafront/scipy/ndimage.py xlafront/scipy/signal.py
    xlafront/scipy/special.py xlafront/scipy/stats/__init__.py
    xlafront/example_libraries/__init__.py xlafront/scipy/cluster/__init__.py xlafront/scipy/cluster/vq.py xlafront/scipy/optimize.py xlafront/scipy/sparse/__init__.py
    xlafront/scipy/sparse/linalg.py xlafront/scipy/spatial/__init__.py xlafront/scipy/spatial/transform.py
    xlafront/extend/linear_util.py xlafront/extend/source_info_util.py xlafront/interpreters/pxla.py
    xlafront/compat/__init__.py xlafront/compat/importing.py xlafront/compat/running.py xlafront/compat/on_path/jax/__init__.py""".split())


def module_of(path: pathlib.Path) -> str:
    segments = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(segments[:-1] if segments[-1] == "__init__" else segments)


FILES = {module_of(path): path for path in sorted((ROOT / "xlafront").rglob("*.py"))}
TREES = {module: ast.parse(path.read_text()) for module, path in FILES.items()}


def is_face(module: str) -> bool:
    name = FILES[module].relative_to(ROOT).as_posix()
    return name in FACES or name.split("/")[1] not in FLOORS


def floor_of(module: str) -> int:
    """The height of a file; faces are above all floors."""
    return len(FLOORS) if is_face(module) else FLOORS.index(module.split(".")[1])


def names_of_face(module: str) -> dict[str, str]:
    """The names that a face offers, and the modules where they live."""
    found = {}
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Dict) and all(isinstance(k, ast.Constant) and isinstance(v, ast.Constant)
                                              for k, v in zip(node.keys, node.values)):
            for place, names in zip(node.keys, node.values):
                if place.value in FILES:
                    found.update(dict.fromkeys(names.value.split(), place.value))
    return found


LAZY_FACES = {module: names_of_face(module) for module in FILES if "attach(__name__" in FILES[module].read_text()}


class Import:
    """One import: from where, what, and whether it waits for a function to be called."""

    def __init__(self, source: str, target: str, line: int, in_function: bool):
        self.source, self.target, self.line, self.in_function = source, target, line, in_function

    def __repr__(self):
        path = FILES[self.source].relative_to(ROOT)
        return f"{path}:{self.line} imports {self.target}{' in a function' if self.in_function else ''}"


def imports_of(module: str) -> list[Import]:
    tree, found, faces = TREES[module], [], {}
    in_function: set[int] = set()
    for_checkers: set[int] = set()  # what only type checkers read
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            for_checkers.update(id(inner) for statement in node.body for inner in ast.walk(statement))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            in_function.update(id(inner) for inner in ast.walk(node))

    def add(target: str, name: str | None, alias: str | None, node) -> None:
        inside = id(node) in in_function
        full_name = f"{target}.{name}" if name else target
        if full_name in LAZY_FACES:  # only what is used of it counts
            faces[alias or name or target] = (full_name, inside)
        elif full_name in FILES:
            found.append(Import(module, full_name, node.lineno, inside))
        elif target in LAZY_FACES:
            assert name in LAZY_FACES[target], f"{module} takes {name} from {target}, which does not offer it"
            found.append(Import(module, LAZY_FACES[target][name], node.lineno, inside))
        else:
            assert target in FILES, f"{module} imports {target}, which does not exist"
            found.append(Import(module, target, node.lineno, inside))

    for node in ast.walk(tree):
        if id(node) in for_checkers:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "xlafront":
                    add(alias.name, None, alias.asname, node)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} has a relative import in line {node.lineno}"
            if node.module.split(".")[0] == "xlafront":
                for alias in node.names:
                    add(node.module, alias.name, alias.asname, node)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and argument.value in FILES:
                found.append(Import(module, argument.value, node.lineno, id(node) in in_function))
    for node in ast.walk(tree):
        face, names = node, []
        while isinstance(face, ast.Attribute):
            names.insert(0, face.attr)
            face = face.value
        if names and isinstance(face, ast.Name) and face.id in faces and isinstance(getattr(node, "ctx", None), ast.Load):
            full_name, inside = faces[face.id]
            while names and f"{full_name}.{names[0]}" in LAZY_FACES:
                full_name = f"{full_name}.{names.pop(0)}"
            if names and f"{full_name}.{names[0]}" in FILES:
                found.append(Import(module, f"{full_name}.{names[0]}", node.lineno, inside))
            elif names and not names[0].startswith("__"):
                assert names[0] in LAZY_FACES[full_name], f"{module}:{node.lineno} takes {names[0]} from {full_name}"
                found.append(Import(module, LAZY_FACES[full_name][names[0]], node.lineno, inside))
    return found


IMPORTS = [found for module in FILES for found in imports_of(module) if found.target != module]


def test_every_file_is_on_a_floor_or_a_face():
    folders = {path.name for path in (ROOT / "xlafront").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders - set(FLOORS) == {"experimental"}
    assert set(FLOORS) <= folders
    assert FACES <= {path.relative_to(ROOT).as_posix() for path in FILES.values()}


def test_folders_of_tests_are_rooms():
    assert {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")} - set(FLOORS) == {"ecosystem"}


def test_imports_point_down():
    upward = [found for found in IMPORTS if floor_of(found.target) > floor_of(found.source) or (
        is_face(found.target) and not is_face(found.source) and found.target != "xlafront.lazy_module")]
    assert not upward, "\n".join(map(repr, upward))


def circles(graph: dict[str, list[str]]) -> list[list[str]]:
    """Return the groups of modules that reach each other by imports (Tarjan's algorithm)."""
    index, low, stack, groups = {}, {}, [], []

    def visit(module):
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in graph[module]:
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            group = [stack.pop()]
            while group[-1] != module:
                group.append(stack.pop())
            groups.append(sorted(group))

    for module in graph:
        if module not in index:
            visit(module)
    return [group for group in groups if len(group) > 1]


def test_package_has_no_import_circles():
    assert circles({module: sorted({found.target for found in IMPORTS if found.source == module}) for module in FILES}) == []


def test_benchmarks_have_no_import_circles():
    """Imports in functions and calls of `import_module` count too."""
    modules = {module_of(path): path for path in (ROOT / "benchmarks").glob("*.py")}

    def targets(path: pathlib.Path) -> set[str]:
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Constant):
                names.add(node.value)
        return names & (set(modules) - {"benchmarks"})

    graph = {module: sorted(targets(path)) for module, path in modules.items()}
    assert len(graph["benchmarks.all_cases"]) > 5
    assert circles(graph) == []


def test_imports_in_functions_are_for_start_up():
    """A function-level import says that it is there for what start-up costs."""
    lines = {module: path.read_text().splitlines() for module, path in FILES.items()}
    unexplained = [found for found in IMPORTS if found.in_function and re.match(
        r"\s*(from|import)\b", lines[found.source][found.line - 1]) and not is_face(found.source) and not re.search(
        r"# start-up", lines[found.source][found.line - 1])]
    assert not unexplained, "\n".join(map(repr, unexplained))


@pytest.mark.parametrize("face", sorted(LAZY_FACES))
def test_names_of_faces_are_not_modules_of_their_packages(face):
    """Importing a submodule binds its name in the package and would replace a function of the same name."""
    clashes = {name for name in LAZY_FACES[face] if f"{face}.{name}" in FILES}
    assert not clashes


def test_only_three_rooms_import_jaxlib():
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            for name in names:
                assert name.split(".")[0] != "jax", f"{module}:{node.lineno}"
                if name.split(".")[0] == "jaxlib":
                    assert module.split(".")[1] in ("base", "runtime", "lowering"), f"{module}:{node.lineno}"


def test_the_path_from_a_call_to_the_executable_exists():
    """CONTRIBUTING leads from a call to the executable by files and what is in them: at most a dozen stops, all of them there."""
    stops = re.findall(r"^\d+\. `(\w+/\w+\.py)`, `([\w.]+)`(?: and `([\w.]+)`)?", CONTRIBUTING, re.MULTILINE)
    assert 8 <= len(stops) <= 12 and len(re.findall(r"^\d+\. ", CONTRIBUTING, re.MULTILINE)) == len(stops)
    for path, *names in stops:
        text = (ROOT / "xlafront" / path).read_text()
        for name in filter(None, names):
            for part in name.split("."):
                assert re.search(rf"^\s*(def|class) {part}\b", text, re.MULTILINE), f"{path} has no {name}"
    for path in re.findall(r"`((?:\w+/)+\w+\.py)`", CONTRIBUTING):
        assert any((ROOT / place / path).exists() for place in ("xlafront", "", "xlafront/parallel", "tests/lax")), path


def test_calculus_imports_only_the_core():
    """Differentiation and batching need nothing of the rooms above `core`, directly or by what they import."""
    reached = [m for m in FILES if m.startswith(("xlafront.transforms.ad.", "xlafront.transforms.batching."))]
    for module in reached:
        reached += {found.target for found in IMPORTS if found.source == module}.difference(reached)
    assert {m.split(".")[1] for m in reached} - {"lazy_module"} == {"base", "core", "transforms"}
    assert {m.split(".")[2] for m in reached if m.startswith("xlafront.transforms.")} == {"ad", "batching"}


def test_the_way_in_is_short():
    """The files that CONTRIBUTING names from a call to the executable are at most 18, of at most 4,800 lines together."""
    section = CONTRIBUTING.split("### From `jit(f)(x)`")[1].split("\n### ")[0]
    files = sorted(set(re.findall(r"`(\w+/\w+\.py)`", section)))
    assert len(files) <= 18, files
    assert sum([len((ROOT / "xlafront" / file).read_text().splitlines()) for file in files]) <= 4800


def test_rooms_set_only_these_hooks():
    """A room sets in a room below it on import only one function, the eager path, and rows of registries by type."""
    filled = []
    for module, tree in TREES.items():
        modules = {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in tree.body if isinstance(node, ast.ImportFrom)
                   for alias in node.names if f"{node.module}.{alias.name}" in FILES}
        for node in tree.body:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                root = target
                while isinstance(root, (ast.Attribute, ast.Subscript)):
                    root = root.value
                if root is not target and isinstance(root, ast.Name) and root.id in modules and (
                        floor_of(modules[root.id]) < floor_of(module)):
                    filled.append(ast.unparse(target))
    assert sorted(filled) == ["tracing.EvalTrace.apply", "tracing.aval_of_type[DimExpr]", "tracing.aval_of_type[KeyArray]",
                              "tracing.symbolic_constants[DimExpr]"]
