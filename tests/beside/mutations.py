"""Calls of a table with one unusual argument, which the tables do not list.

For each function one call is taken, and each of its arguments and of its omitted parameters gets values that the function
may not expect. Most of them raise, and the errors are compared.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import random
import re

MODULES = {"xnp": "numpy", "lax": "lax", "nn": "nn", "jsp": "scipy", "image": "image"}
OWN_NAME = re.compile(r"(\w+) = .*xf\.__name__ \+ '\.([\w.]+)'")  # as a table calls a module
OBJECTS = [  # what the odd values below are made of
    "OfArray = type('OfArray', (), {'__jax_array__': lambda self: xnp.ones(2)})",
    "OfNumPy = type('OfNumPy', (), {'__array__': lambda self, dtype=None, copy=None: np.ones(2, dtype)})",
    "OfIndex = type('OfIndex', (), {'__index__': lambda self: 1})",
    "OfFloat = type('OfFloat', (), {'__float__': lambda self: 1.5})"]
ODD = """None | True | 'a' | b'ab' | 1.5 | -0. | 0 | -1 | 7 | 2**31 | 2**40 | -2**70 | 1j | float('nan') | 1e300 | [] | () | {} | [1, 2]
    (0, 0) | (-1,) | [0] | [[1., 2.], [3., 4.]] | [1, [2, 3]] | [None] | [True, 2.5] | range(2) | slice(0, 2) | ... | object()
    int | 'float32' | 'bfloat16' | 'V4' | '>f4' | np.dtype('O') | object | np.ones | {1, 2} | {'a': 1} | memoryview(b'ab')
    np.float64(1.5) | np.int8(-1) | np.uint8(200) | np.bool_(True) | np.complex64(1j) | np.str_('a') | np.datetime64('2020-01-01')
    np.ma.array([1., 2.], mask=[0, 1]) | np.array(1) | np.array([0]) | np.zeros((0, 3)) | np.arange(6.)[::2] | np.arange(6).reshape(2, 3).T
    np.array([1, 'a'], object) | np.array(['a']) | np.array([(1, 2.)], 'i4,f4') | np.array(['2020'], 'M8[D]') | np.arange(3, dtype='uint64')
    np.matrix([[1., 2.]]) | xnp.asarray(1) | xnp.asarray(1.) | xnp.zeros((0, 3)) | xnp.ones((2, 3), int) | xnp.array([True, False])
    xnp.ones(2, 'bfloat16') | xnp.ones(2, 'int4') | xnp.ones(2, 'float8_e4m3fn') | xnp.ones(2, 'complex64') | random.key(0)
    np.zeros(3, xf.dtypes.float0) | xnp.array([1., np.nan, np.inf]) | xnp.array([-1, 5]) | OfArray() | OfNumPy() | OfIndex() | OfFloat()
    xf.ShapeDtypeStruct((2,), np.float32) | xf.devices()[0] | P() | P(None) | xf.typeof(xnp.ones(2)) | 'highest' | 'clip' | 'fill'"""
VALUES = [value.strip() for line in ODD.splitlines() for value in line.split(" | ")]


def mutated(calls: list[str], per_argument: int, seed: int) -> list[str]:
    """Calls like those of a table, in which one argument is odd."""
    rng = random.Random(seed)
    modules = MODULES | dict(found.groups() for call in calls if (found := OWN_NAME.match(call)))
    by_function: dict[str, list[ast.Call]] = {}
    for call in calls:
        try:
            node = ast.parse(call, mode="eval").body
        except SyntaxError:
            continue
        if isinstance(node, ast.Call) and _is_plain(node) and ast.unparse(node.func).split(".")[0] in modules:
            by_function.setdefault(ast.unparse(node.func), []).append(node)
    found = [_with(node, place, value) for name, nodes in sorted(by_function.items())
             for node in [rng.choice(nodes)] for place in _positions(name, node, modules) for value in rng.sample(VALUES, per_argument)]
    return list(dict.fromkeys(found))


def _is_plain(node: ast.Call) -> bool:
    return not any(isinstance(a, ast.Starred) for a in node.args) and all(k.arg for k in node.keywords)


def _positions(name: str, node: ast.Call, modules: dict[str, str]) -> list[int | str]:
    """Positions of arguments, and the names of the others and of what is left out."""
    module, *path = name.split(".")
    try:
        function = importlib.import_module(f"xlafront.{modules[module]}")
        for part in path:
            function = getattr(function, part)
        names = list(inspect.signature(function).parameters)
    except (AttributeError, TypeError, ValueError):
        names = []
    return [*range(len(node.args)), *dict.fromkeys([*[k.arg for k in node.keywords if k.arg], *names[len(node.args):]])]


def _with(node: ast.Call, place: int | str, value: str) -> str:
    args, keywords = [ast.unparse(a) for a in node.args], {k.arg: ast.unparse(k.value) for k in node.keywords}
    if isinstance(place, int):
        args[place] = value
    else:
        keywords[place] = value
    return f"{ast.unparse(node.func)}({', '.join([*args, *[f'{name}={text}' for name, text in keywords.items()]])})"
