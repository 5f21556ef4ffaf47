"""Random compositions of transformations, as expressions that two interpreters run: ours, and a small one on Python scalars.

A program is a nested tuple `(operation, ...)` over variables, all vectors of 3 elements. Operations that contain programs
bind further variables, and their programs may also read those of the enclosing ones. The oracle has neither traces nor
arrays: loops are Python's, derivatives come from nested dual numbers.
"""

import dataclasses
import itertools
import math
import random

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

SIZE = 3
MATRIX = np.array([[0.5, -1.0, 0.25], [1.5, 0.5, -0.5], [0.0, 0.75, 1.0]])
THRESHOLD = 0.1037  # predicates compare with a number that no computation yields by itself


# Dual numbers


class Dual:
    """`value + tangent * epsilon` for the epsilon of one derivative; both may be dual numbers of enclosing ones."""

    __slots__ = ("tag", "value", "tangent")

    def __init__(self, tag, value, tangent):
        self.tag, self.value, self.tangent = tag, value, tangent


tags = itertools.count()


def components(x, tag):
    return (x.value, x.tangent) if isinstance(x, Dual) and x.tag == tag else (x, 0.0)


def tag_of(*xs):
    return max((x.tag for x in xs if isinstance(x, Dual)), default=None)


def dual(tag, value, tangent):
    return value if isinstance(tangent, float) and tangent == 0.0 else Dual(tag, value, tangent)


def add(x, y):
    tag = tag_of(x, y)
    if tag is None:
        return x + y
    (a, b), (c, d) = components(x, tag), components(y, tag)
    return dual(tag, add(a, c), add(b, d))


def mul(x, y):
    tag = tag_of(x, y)
    if tag is None:
        return x * y
    (a, b), (c, d) = components(x, tag), components(y, tag)
    return dual(tag, mul(a, c), add(mul(a, d), mul(b, c)))


def unary(function, derivative):
    def apply(x):
        if not isinstance(x, Dual):
            return function(x)
        return dual(x.tag, apply(x.value), mul(x.tangent, derivative(x.value)))

    return apply


def neg(x):
    return mul(-1.0, x)


sin = unary(math.sin, lambda x: cos(x))
cos = unary(math.cos, lambda x: neg(sin(x)))
tanh = unary(math.tanh, lambda x: add(1.0, neg(mul(tanh(x), tanh(x)))))
inverse = unary(lambda x: 1 / x, lambda x: neg(mul(inverse(x), inverse(x))))


def number(x):
    while isinstance(x, Dual):
        x = x.value
    return x


def total(xs):
    result = 0.0
    for x in xs:
        result = add(result, x)
    return result


def plus(xs, ys):
    return [add(x, y) for x, y in zip(xs, ys)]


def times(c, xs):
    return [mul(c, x) for x in xs]


def tangents_of(f, at, direction):
    tag = next(tags)
    return [components(y, tag)[1] for y in f([dual(tag, x, d) for x, d in zip(at, direction)])]


def basis():
    return [[float(i == j) for j in range(SIZE)] for i in range(SIZE)]


def pull(f, at, ct):
    return [total(mul(c, t) for c, t in zip(ct, tangents_of(f, at, e))) for e in basis()]


def with_rule(f, factor, xs, again):
    """The function whose derivative is `factor` times that of `f`; `again`: its values keep the rule."""
    tag = tag_of(*xs)
    if tag is None:
        return f(xs)
    ys = f(xs)
    inner = [components(x, tag)[0] for x in xs]
    values = with_rule(f, factor, inner, again) if again else f(inner)
    return [dual(tag, v, mul(factor, components(y, tag)[1])) for v, y in zip(values, ys)]


def rows_of(xs):
    """A matrix of a vector: what loops go over."""
    return [xs, [xs[2], xs[0], xs[1]], times(0.5, xs)]


def column(matrix, j):
    return [row[j] for row in matrix]


def oracle(node, env):
    """The value of a program, as lists of numbers or dual numbers."""
    kind, *rest = node
    if kind == "var":
        return env[rest[0]]
    if kind == "const":
        return [rest[0]] * SIZE
    if kind in ELEMENTWISE:
        return [ELEMENTWISE[kind][1](*xs) for xs in zip(*[oracle(r, env) for r in rest])]
    if kind in PROGRAMS:
        return PROGRAMS[kind][1](*[oracle(r, env) for r in rest])

    def body(program):
        return lambda *xs: oracle(program, [*env, *xs])

    if kind in ("jit", "checkpoint", "call"):
        return body(rest[0])(*[oracle(r, env) for r in rest[1:]])
    if kind in ("custom_jvp", "custom_vjp"):
        return with_rule(lambda xs: oracle(rest[0], [xs]), FACTORS[kind], oracle(rest[1], env), kind == "custom_jvp")
    if kind == "grad":
        return pull(body(rest[0]), oracle(rest[1], env), [1.0] * SIZE)
    if kind in ("jvp", "linearize", "jacfwd"):
        return tangents_of(body(rest[0]), oracle(rest[1], env), oracle(rest[2], env))
    if kind in ("vjp", "jacrev"):
        return pull(body(rest[0]), oracle(rest[1], env), oracle(rest[2], env))
    if kind == "vmap":
        program, at, in_axis, out_axis, final_axis = rest
        rows = rows_of(oracle(at, env))
        found = [body(program)(column(rows, j) if in_axis else rows[j]) for j in range(SIZE)]
        if out_axis:
            found = [column(found, j) for j in range(SIZE)]
        return [total(row) for row in found] if final_axis else [total(column(found, j)) for j in range(SIZE)]
    if kind == "map":
        found = [body(rest[0])(row) for row in rows_of(oracle(rest[1], env))]
        return [total(column(found, j)) for j in range(SIZE)]
    if kind == "scan":
        step, collect, start, at, reverse, _ = rest
        carry, rows = oracle(start, env), rows_of(oracle(at, env))
        ys = [None] * SIZE
        for i in range(SIZE)[::-1] if reverse else range(SIZE):
            ys[i] = body(collect)(carry, rows[i])
            carry = body(step)(carry, rows[i])
        return plus(carry, [add(y[0], mul(i + 1.0, y[1])) for i, y in enumerate(ys)])
    if kind in ("fori", "while"):
        program, start, count = rest
        value = oracle(start, env)
        for i in range(count):
            value = body(program)(value, [0.3 * i] * SIZE)
        return value
    if kind == "cond":
        pred, first, second, at = rest
        return body(first if number(oracle(pred, env)[0]) > THRESHOLD else second)(oracle(at, env))
    if kind == "switch":
        index, *programs, at = rest
        x = number(oracle(index, env)[1])
        return body(programs[(x > THRESHOLD) + (x > 3 * THRESHOLD)])(oracle(at, env))
    raise AssertionError(kind)


def ours(node, env):
    """The same with xlafront."""
    kind, *rest = node
    if kind == "var":
        return env[rest[0]]
    if kind == "const":
        return xnp.full(SIZE, rest[0])
    if kind in ELEMENTWISE:
        return ELEMENTWISE[kind][0](*[ours(r, env) for r in rest])
    if kind in PROGRAMS:
        return PROGRAMS[kind][0](*[ours(r, env) for r in rest])

    def body(program):
        return lambda *xs: ours(program, [*env, *xs])

    if kind == "call":
        return body(rest[0])(*[ours(r, env) for r in rest[1:]])
    if kind == "jit":
        return xf.jit(body(rest[0]))(*[ours(r, env) for r in rest[1:]])
    if kind == "checkpoint":
        return xf.checkpoint(body(rest[0]))(*[ours(r, env) for r in rest[1:]])
    if kind == "custom_jvp":
        return with_jvp_rule(lambda x: ours(rest[0], [x]), FACTORS[kind])(ours(rest[1], env))
    if kind == "custom_vjp":
        return with_vjp_rule(lambda x: ours(rest[0], [x]), FACTORS[kind])(ours(rest[1], env))
    if kind == "grad":
        return xf.grad(lambda x: xnp.sum(body(rest[0])(x)))(ours(rest[1], env))
    if kind == "jvp":
        return xf.jvp(body(rest[0]), (ours(rest[1], env),), (ours(rest[2], env),))[1]
    if kind == "linearize":
        return xf.linearize(body(rest[0]), ours(rest[1], env))[1](ours(rest[2], env))
    if kind == "vjp":
        return xf.vjp(body(rest[0]), ours(rest[1], env))[1](ours(rest[2], env))[0]
    if kind == "jacfwd":
        return xf.jacfwd(body(rest[0]))(ours(rest[1], env)) @ ours(rest[2], env)
    if kind == "jacrev":
        return ours(rest[2], env) @ xf.jacrev(body(rest[0]))(ours(rest[1], env))
    if kind == "vmap":
        program, at, in_axis, out_axis, final_axis = rest
        return xnp.sum(xf.vmap(body(program), in_axis, out_axis)(matrix_of(ours(at, env))), final_axis)
    if kind == "map":
        return xnp.sum(lax.map(body(rest[0]), matrix_of(ours(rest[1], env))), 0)
    if kind == "scan":
        step, collect, start, at, reverse, unroll = rest

        def advance(carry, row):
            y = body(collect)(carry["x"], row)
            return {"x": body(step)(carry["x"], row), "n": carry["n"] + 1}, (y[0], y[1])

        carry, (ys, zs) = lax.scan(advance, {"x": ours(start, env), "n": 0}, matrix_of(ours(at, env)), reverse=reverse,
                                   unroll=unroll)
        return carry["x"] + ys + zs * (xnp.arange(SIZE) + carry["n"] - 2)
    if kind == "fori":
        program, start, count = rest
        return lax.fori_loop(0, count, lambda i, x: body(program)(x, xnp.full(SIZE, 0.3 * i)), ours(start, env))
    if kind == "while":
        program, start, count = rest
        return lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, body(program)(s[1], xnp.full(SIZE, 0.3 * s[0]))),
                              (0, ours(start, env)))[1]
    if kind == "cond":
        pred, first, second, at = rest
        return lax.cond(ours(pred, env)[0] > THRESHOLD, body(first), body(second), ours(at, env))
    if kind == "switch":
        index, *programs, at = rest
        x = ours(index, env)[1]
        return lax.switch((x > THRESHOLD).astype(int) + (x > 3 * THRESHOLD), [body(p) for p in programs], ours(at, env))
    raise AssertionError(kind)


def with_jvp_rule(f, factor):
    @xf.custom_jvp
    def function(x):
        return f(x)

    @function.defjvp
    def rule(primals, tangents):
        return function(*primals), factor * xf.jvp(f, primals, tangents)[1]

    return function


def with_vjp_rule(f, factor):
    @xf.custom_vjp
    def function(x):
        return f(x)

    function.defvjp(lambda x: (f(x), x), lambda x, ct: (factor * xf.vjp(f, x)[1](ct)[0],))
    return function


def matrix_of(x):
    return xnp.stack([x, xnp.roll(x, 1), 0.5 * x])


# Operation: (xlafront, oracle). Element by element, and on whole vectors.

FACTORS = {"custom_jvp": 2.0, "custom_vjp": 3.0}

ELEMENTWISE = {
    "sin": (xnp.sin, sin),
    "cos": (xnp.cos, cos),
    "tanh": (xnp.tanh, tanh),
    "bell": (lambda x: 1 / (1 + x**2), lambda x: inverse(add(1.0, mul(x, x)))),
    "stop": (lax.stop_gradient, number),
    "add": (xnp.add, add),
    "sub": (xnp.subtract, lambda x, y: add(x, neg(y))),
    "mul": (xnp.multiply, mul),
    "where": (lambda p, x, y: xnp.where(p > THRESHOLD, x, y), lambda p, x, y: x if number(p) > THRESHOLD else y),
}

PROGRAMS = {
    "roll": (lambda x: xnp.roll(x, 1), lambda x: [x[2], x[0], x[1]]),
    "sum": (lambda x: xnp.broadcast_to(xnp.sum(x), SIZE), lambda x: [total(x)] * SIZE),
    "cumsum": (xnp.cumsum, lambda x: [x[0], add(x[0], x[1]), total(x)]),
    "matvec": (lambda x: MATRIX @ x, lambda x: [total(mul(m, v) for m, v in zip(row, x)) for row in MATRIX.tolist()]),
    "gather": (lambda x: x[xnp.array([2, 0, 0])], lambda x: [x[2], x[0], x[0]]),
    "scatter": (lambda x: xnp.zeros(SIZE).at[xnp.array([0, 2, 0])].add(x), lambda x: [add(x[0], x[2]), 0.0, x[1]]),
    "set": (lambda x, y: xnp.asarray(x).at[1].set(y[2]), lambda x, y: [x[0], y[2], x[2]]),
    "dot": (lambda x, y: xnp.dot(x, y) * xnp.ones(SIZE), lambda x, y: [total(map(mul, x, y))] * SIZE),
}

ARITY = {"where": 3, **dict.fromkeys(("add", "sub", "mul", "set", "dot"), 2)}


# Generation


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """The nesting that a program may contain: `derivatives` and `loops` more inside of each other.

    `forward` and `reverse` are the modes in which programs around it are differentiated: `while_loop` has no reverse mode, and
    functions with a `custom_vjp` rule have no forward mode.
    """

    variables: int
    depth: int
    derivatives: int = 2
    loops: int = 2
    forward: bool = False
    reverse: bool = False


def random_program(rng: random.Random, around: Surroundings):
    """A program that reads `around.variables` variables, later ones more often."""
    depth = around.depth

    def sub(**changes):
        return random_program(rng, dataclasses.replace(around, **{"depth": depth - 1} | changes))

    def bound(count, **changes):
        return sub(variables=around.variables + count, **changes)

    def argument():
        return sub(depth=depth - 1 - rng.randrange(1, 4))

    if depth <= 0:
        if rng.random() < 0.08:
            return "const", rng.choice([-0.5, 0.7, 1.3])
        v = ("var", max(rng.randrange(around.variables), rng.randrange(around.variables)))
        return v if rng.random() < 0.5 else (rng.choice(["sin", "cos", "tanh", "bell"]), v)
    kinds = [*ELEMENTWISE, *PROGRAMS]
    special = ["jit", "checkpoint", "call", "custom_jvp", "cond", "switch"]
    if around.derivatives:
        special += ["grad", "jvp", "linearize", "vjp", "jacfwd", "jacrev"]
    if around.loops:
        special += ["vmap", "map", "scan", "scan", "fori"]
        if not around.reverse:
            special.append("while")
    if not around.forward:
        special.append("custom_vjp")
    kind = rng.choice(special if rng.random() < 0.6 else kinds)
    if kind in kinds:
        return kind, *[sub() for _ in range(ARITY.get(kind, 1))]
    if kind in ("jit", "checkpoint", "call"):
        count = rng.randint(1, 2)
        return kind, bound(count), *[argument() for _ in range(count)]
    if kind == "custom_jvp":  # rules do not know about what a function closes over
        return kind, sub(variables=1, forward=True), argument()
    if kind == "custom_vjp":
        return kind, sub(variables=1, reverse=True), argument()
    if kind in ("grad", "vjp", "jacrev"):
        program = bound(1, derivatives=around.derivatives - 1, reverse=True)
        return kind, program, *[argument() for _ in range(1 if kind == "grad" else 2)]
    if kind in ("jvp", "linearize", "jacfwd"):
        return kind, bound(1, derivatives=around.derivatives - 1, forward=True), argument(), argument()
    loops = around.loops - 1
    if kind == "vmap":
        return kind, bound(1, loops=loops), argument(), *[rng.randint(0, 1) for _ in range(3)]
    if kind == "map":
        return kind, bound(1, loops=loops), argument()
    if kind == "scan":
        step, collect = bound(2, loops=loops), bound(2, loops=loops, depth=depth - 2)
        return kind, step, collect, argument(), argument(), rng.random() < 0.5, rng.randint(1, 3)
    if kind in ("fori", "while"):
        return kind, bound(2, loops=loops), argument(), rng.randint(0, 3)
    return kind, argument(), *[bound(1) for _ in range(2 if kind == "cond" else 3)], argument()


def simpler(program):
    """Programs with one part replaced by a variable, the larger parts first."""
    if not isinstance(program, tuple) or program[0] in ("var", "const"):
        return
    yield "var", 0
    for i, part in enumerate(program):
        if isinstance(part, tuple) and part[0] not in ("var", "const"):
            if i > 0 and program[0] in ELEMENTWISE | PROGRAMS:
                yield part
            for other in simpler(part):
                yield (*program[:i], other, *program[i + 1:])
