"""Calls of every public function with random arguments: shapes, dtypes, Python scalars, special values, keywords, transformations.

A call is made from the function's signature, with the tables of `roles.py`: `ROLES` lists what a parameter of a name may be, `CALLS` the arguments
of functions whose parameters depend on one another, `EXPRESSIONS` what is called through something else (methods, operators, named axes).
"""

from __future__ import annotations

import importlib
import inspect
import random
import re
from collections.abc import Callable
from typing import Any

from tests.beside.roles import CALLS, EXPRESSIONS, MODULE_ROLES, ROLES, SPECIFIC

MODULES = {"numpy": "xnp", "numpy.linalg": "xnp.linalg", "numpy.fft": "xnp.fft", "lax": "lax", "lax.linalg": "lax.linalg", "nn": "nn",
           "nn.initializers": "nn.initializers", "random": "random", "image": "image", "ops": "xf.ops",
           **{f"scipy.{name}": f"jsp.{name}" for name in "special linalg signal fft integrate ndimage cluster.vq stats".split()},
           **{f"scipy.stats.{name}": f"jsp.stats.{name}" for name in """bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom
              gumbel_l gumbel_r laplace logistic multinomial multivariate_normal nbinom norm pareto poisson t truncnorm uniform vonmises
              wrapcauchy""".split()}}
# Both sides run this first: the operands, and what a call is made under.
SETUP = f"""
import importlib, operator
for name in {[*MODULES, "scipy.sparse.linalg", "scipy.interpolate", "scipy.optimize"]}:
    importlib.import_module(xf.__name__ + '.' + name)
FINITE = {{'b': [1, 0, 1, 1, 0], 'u': [3, 0, 7, 1, 2, 100], 'i': [-3, 0, 7, -1, 2, 100], 'f': [.5, -1.25, .75, 2.5, 1., -0., 3., .25],
          'c': [.5 - 1j, -1.25 + .5j, .25j, 1 + 2j, 2.5]}}
EXTREME = {{'b': [0, 1], 'u': [255, 0, 1, 254], 'i': [-128, 127, 0, -127], 'f': [np.nan, 1., np.inf, -0., -np.inf, 0., 3e4, -2e-7],
           'c': [complex(np.nan, 1), complex(np.inf, -0.), 0j, complex(-0., -np.inf), -1, 1j]}}
def kind(dtype):
    return {{'V': 'f'}}.get(np.dtype(dtype).kind, np.dtype(dtype).kind)
def taken(pool, dtype, shape, start):
    return np.array([pool[kind(dtype)][(start + k) % len(pool[kind(dtype)])] for k in range(int(np.prod(shape)))]).astype(dtype).reshape(shape)
def A(dtype, shape, start=0):
    return xnp.asarray(taken(FINITE, dtype, shape, start))
def N(dtype, shape, start=0):
    return taken(FINITE, dtype, shape, start)
def E(dtype, shape, start=0):
    return xnp.asarray(taken(EXTREME, dtype, shape, start))
def F(dtype, shape, start=0):
    return xnp.asarray(np.array([(.5, 1.5, 2., .25, 3.)[(start + k) % 5] for k in range(int(np.prod(shape)))]).astype(dtype).reshape(shape))
def U(dtype, shape, start=0):
    return xnp.asarray(np.array([(.5, .125, .75, .25, .375)[(start + k) % 5] for k in range(int(np.prod(shape)))]).astype(dtype).reshape(shape))
def M(dtype, shape, start=0):
    regular = np.array([[5, 1, .5, 2], [1, 4, .25, .5], [.5, .25, 3, 1], [2, .5, 1, 6]])[:shape[-2], :shape[-1]] + start * .25 * np.eye(shape[-2], shape[-1])
    if kind(dtype) == 'c':
        regular = regular + 1j * (np.tri(shape[-2], shape[-1]) - np.tri(shape[-1], shape[-2]).T)
    return xnp.asarray(np.broadcast_to(regular, shape).astype(dtype))
def arrays_of(args, kwargs):
    leaves, treedef = xf.tree.flatten((args, kwargs))
    live = [i for i, x in enumerate(leaves) if isinstance(x, xf.Array) and not xnp.issubdtype(x.dtype, xf.dtypes.prng_key)]
    def call(function, arrays):
        filled = list(leaves)
        for i, x in zip(live, arrays):
            filled[i] = x
        args, kwargs = xf.tree.unflatten(treedef, filled)
        return function(*args, **kwargs)
    return [leaves[i] for i in live], call
def inexact(results):
    return [x for x in xf.tree.leaves(results) if xnp.issubdtype(xnp.result_type(x), np.inexact)]
def jit(function, *args, **kwargs):
    arrays, call = arrays_of(args, kwargs)
    return xf.jit(lambda *arrays: call(function, arrays))(*arrays)
def vmap(function, *args, **kwargs):
    arrays, call = arrays_of(args, kwargs)
    if not arrays:
        return function(*args, **kwargs)
    axes = [(0, -1, None)[i % 3] if x.ndim or i % 3 < 2 else 0 for i, x in enumerate(arrays)]
    mapped = [x if a is None else xnp.asarray(np.stack([np.asarray(x), np.flip(np.asarray(x))], a)) for x, a in zip(arrays, axes)]
    return xf.vmap(lambda *arrays: call(function, arrays), axes)(*mapped)
def split(function, args, kwargs):
    arrays, call = arrays_of(args, kwargs)
    active = [i for i, x in enumerate(arrays) if xnp.issubdtype(x.dtype, np.inexact)]
    def smooth(*floats):
        filled = list(arrays)
        for i, x in zip(active, floats):
            filled[i] = x
        return inexact(call(function, filled))
    return smooth, [arrays[i] for i in active]
def jvp(function, *args, **kwargs):
    smooth, floats = split(function, args, kwargs)
    return xf.jvp(smooth, tuple(floats), tuple(A(x.dtype, x.shape, 3) for x in floats))
def grad(function, *args, **kwargs):
    smooth, floats = split(function, args, kwargs)
    results, pull = xf.vjp(smooth, *floats)
    return pull([xnp.asarray(N(y.dtype, y.shape, 2)) for y in results])
def linearized(function, *args, **kwargs):
    smooth, floats = split(function, args, kwargs)
    results, tangent = xf.linearize(smooth, *floats)
    return tangent(*[A(x.dtype, x.shape, 3) for x in floats])
def rematerialized(function, *args, **kwargs):
    smooth, floats = split(function, args, kwargs)
    results, pull = xf.vjp(xf.checkpoint(smooth), *floats)
    return pull([xnp.asarray(N(y.dtype, y.shape, 2)) for y in results])
def composed(outer, inner):
    return lambda function, *args, **kwargs: outer(lambda *args, **kwargs: inner(function, *args, **kwargs), *args, **kwargs)
vmap_jvp, vmap_grad, vmap_vmap, jit_vmap, jit_grad, jit_jvp = map(composed, (vmap, vmap, vmap, jit, jit, jit), (jvp, grad, vmap, vmap, grad, jvp))
jvp_grad, jvp_jvp, grad_jit, grad_vmap, jvp_jit = map(composed, (jvp, jvp, grad, grad, jvp), (grad, jvp, jit, vmap, jit))
class Attributes:
    def __init__(self, make):
        self.make = make
    def __getattr__(self, name):
        return self.make(name)
method = Attributes(lambda name: lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs))
at = Attributes(lambda name: lambda x, index, *args, **kwargs: getattr(x.at[index], name)(*args, **kwargs))
over = Attributes(lambda name: lambda x, *args, **kwargs: xf.vmap(lambda x: getattr(lax, name)(x, 'i', *args, **kwargs), axis_name='i')(x))
class vectorized:
    numbers = xnp.vectorize(lambda x, y: x * 2 + y)
    vectors = xnp.vectorize(lambda a, b: a @ b, signature='(n,m),(m)->(n)')
    ufunc = xnp.frompyfunc(lambda x, y: x - y * 2, 2, 1)
double = lambda a: a * 2
cubes = lambda a: (a * a * a).sum()
"""
TRANSFORMATIONS = ("",) * 10 + tuple("""jit jit vmap vmap jvp jvp grad grad linearized rematerialized vmap_jvp vmap_grad vmap_vmap jit_vmap jit_grad jit_jvp
    jvp_grad jvp_jvp grad_jit grad_vmap jvp_jit""".split())
DTYPES = ("float32",) * 7 + ("int32",) * 3 + ("bfloat16", "bfloat16", "float16", "float16", "complex64", "complex64", "bool", "bool", "uint8", "int8")
PLAIN = ("float32",) * 5 + ("int32", "int32", "bfloat16", "complex64")
INEXACT = ("float32",) * 4 + ("bfloat16", "float16", "complex64")
SELDOM = ("uint32", "int16", "uint16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")
IN_64_BITS = {"float32": "float64", "int32": "int64", "complex64": "complex128", "uint8": "uint64"}
SHAPES = ((), (1,), (3,), (3,), (2, 3), (2, 3), (3, 1), (3, 3), (2, 1, 3), (0, 3), (0,))
SCALARS = "2 | -1 | 1.5 | 0 | 0. | -0. | True | 1j | float('nan') | float('inf') | 300 | np.float32(.5) | np.int8(-1) | np.bool_(True)"
PLACE = re.compile(r"\{(\w+)\}")


class Case:
    """The random choices of one call: a shape that the operands broadcast to, and a dtype.

    Operands of a plain call are finite arrays of one dtype and one shape. With `is_wide` most dtypes have 64 bits.
    """

    def __init__(self, module: str, transformation: str, chance: random.Random, plain: bool = False, is_wide: bool = False):
        self.chance, self.module, self.plain, self.is_wide = chance, module, plain, is_wide
        self.dtype = self.choose(PLAIN if plain else INEXACT if re.search("jvp|grad|ized", transformation) else DTYPES)
        self.shape = chance.choice(SHAPES)
        self.uniform = plain or chance.random() < (0.85 if module.startswith("lax") else 0.6)  # one dtype, one shape
        self.makers = "A" if plain or chance.random() < 0.8 else "AE"

    def choose(self, dtypes: tuple[str, ...]) -> str:
        dtype = self.chance.choice(dtypes if self.plain or self.chance.random() < 0.96 else SELDOM)
        return IN_64_BITS.get(dtype, dtype) if self.is_wide and self.chance.random() < 0.9 else dtype

    def fill(self, choices: str) -> str:
        text = self.chance.choice(choices.split("|")).strip() if "|" in choices else choices.strip()
        return PLACE.sub(lambda found: getattr(self, found[1])(), text)

    def array(self, shape: tuple[int, ...], maker: str = "", dtype: str = "") -> str:
        return f"{maker or self.chance.choice(self.makers)}({dtype or self.any_dtype()!r}, {shape}, {self.chance.randrange(6)})"

    def any_dtype(self) -> str:
        return self.dtype if self.uniform or self.chance.random() < 0.7 else self.choose(DTYPES)

    def float_dtype(self) -> str:
        return self.dtype if self.dtype in (*INEXACT, "float64") and self.dtype != "complex64" else "float32"

    def broadcast(self) -> tuple[int, ...]:
        """Return a shape that broadcasts to the case's."""
        if self.uniform or self.chance.random() < 0.4:
            return self.shape
        shape = self.shape[self.chance.randrange(len(self.shape) + 1):]
        return tuple(1 if self.chance.random() < 0.3 else size for size in shape)

    def x(self) -> str:
        """Return an operand: an array, seldom a Python scalar or an array of NumPy."""
        chosen = 0.5 if self.plain else self.chance.random()
        if chosen < (0.04 if self.module.startswith("lax") else 0.12):
            return self.fill(SCALARS)
        return self.array(self.broadcast(), "N" if chosen > 0.96 else "")

    def xr(self) -> str:
        """Return a real operand."""
        return self.array(self.broadcast(), dtype="float32" if self.dtype.startswith("complex") else self.dtype)

    a = lambda self: self.array(self.broadcast())  # noqa: E731
    w = lambda self: self.array(self.shape, dtype=self.dtype)  # noqa: E731
    v = lambda self: self.array((3,))  # noqa: E731
    v1 = lambda self: self.array((2,))  # noqa: E731
    v2 = lambda self: self.array((2,))  # noqa: E731
    y0 = lambda self: self.array((), dtype=self.dtype)  # noqa: E731
    q = lambda self: self.array((2, 2, 3, 2) if self.chance.random() < 0 else (2, 2, 2, 2), dtype=self.dtype)  # noqa: E731
    b = lambda self: self.array(self.broadcast(), "A", "bool")  # noqa: E731
    bw = lambda self: self.array(self.shape, "A", "bool")  # noqa: E731
    f = lambda self: self.array(self.broadcast(), "F", self.float_dtype())  # noqa: E731
    fw = lambda self: self.array(self.shape, "F", self.float_dtype())  # noqa: E731
    u = lambda self: self.array(self.broadcast(), "U", self.float_dtype())  # noqa: E731
    uw = lambda self: self.array(self.shape, "U", self.float_dtype())  # noqa: E731
    g = lambda self: self.array(self.broadcast(), "A", self.chance.choice(("uint8", "int32")))  # noqa: E731
    g1 = lambda self: self.array((3,), "A", "uint8")  # noqa: E731
    i = lambda self: self.array((3,), "A", self.chance.choice(("uint8", "int32", "int8")))  # noqa: E731
    n = lambda self: str(self.chance.randrange(4))  # noqa: E731
    d = lambda self: repr(self.choose(DTYPES))  # noqa: E731
    r = lambda self: repr(self.chance.choice(("float32", "float32", "int32", "float16")))  # noqa: E731
    s = lambda self: str(self.chance.choice(SHAPES))  # noqa: E731

    def m(self) -> str:
        """Return a regular matrix, or several."""
        return self.array((2, 3, 3) if "linalg" in self.module and self.chance.random() < 0.1 else (3, 3), "M", self.any_dtype())


def _table(rows: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for names, choices in rows.items():
        for name in names.split():
            found[name] = f"{found[name]} | {choices}" if name in found and choices and rows is not ROLES else choices
    return found


_ROLES, _CALLS, _EXPRESSIONS = _table(ROLES), _table(CALLS), _table(EXPRESSIONS)
_OF_MODULE = {module: _table(rows) for modules, rows in MODULE_ROLES.items() for module in modules.split()}


def functions() -> dict[str, Callable[..., Any]]:
    """Return the public functions by the expressions that name them in calls."""
    found = {}
    for path, short in MODULES.items():
        module = importlib.import_module(f"xlafront.{path}")
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type) and name[0].islower() and _is_public(value, path):
                found[f"{short}.{name}"] = value
    return found


def _is_public(value: Any, path: str) -> bool:
    """False for what a module of a distribution imports for itself."""
    return not path.startswith("scipy.stats.") or getattr(value, "__module__", "").endswith(path)


def role(function: str, parameter: str) -> str | None:
    """Return the choices for a parameter, None where there are none."""
    own = _OF_MODULE.get(function.rpartition(".")[0], {})
    return SPECIFIC.get(f"{function}.{parameter}") or own.get(parameter) or _ROLES.get(parameter)


def arguments(function: str, value: Callable[..., Any], case: Case) -> str | None:
    """Return random arguments as text; None for a function that has a parameter without a role."""
    if function in _CALLS:
        return case.fill(_CALLS[function]) if _CALLS[function] else None
    given = []
    for parameter in inspect.signature(value).parameters.values():
        choices = role(function, parameter.name)
        required = parameter.default is parameter.empty
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or not (required or case.chance.random() < 0.25 and choices):
            continue
        if choices is None:
            return None
        keyword = parameter.kind is parameter.KEYWORD_ONLY or not required
        if (text := case.fill(choices)) is not None:
            given.append(f"{parameter.name}={text}" if keyword else text)
    return ", ".join(given)


def generated(count: int, seed: int, modules: list[str] | None = None, is_wide: bool = False) -> list[str]:
    """Return calls: of each function and each row of `EXPRESSIONS` as many as of any other, in an order by chance."""
    chance = random.Random(seed)
    known = [(name, value) for name, value in {**dict.fromkeys(_EXPRESSIONS), **functions()}.items()
             if not modules or any(name.startswith(f"{m}.") for m in modules)]
    calls: list[str] = []
    while len(calls) < count:
        for name, value in chance.sample(known, len(known)):
            transformation = chance.choice(TRANSFORMATIONS)
            case = Case(name.rpartition(".")[0], transformation, chance, is_wide=is_wide)
            text = case.fill(_EXPRESSIONS[name]) if name in _EXPRESSIONS else arguments(name, value, case)
            if text is not None and len(calls) < count:
                calls.append(f"{transformation}({name}, {text})" if transformation else f"{name}({text})")
    return calls


def left_out() -> set[str]:
    """Return the functions that no call is made of."""
    return {name for name, value in functions().items() if arguments(name, value, Case("", "", random.Random(0))) is None}
