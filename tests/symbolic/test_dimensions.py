"""Expressions over dimension variables: their form, what is decided of them, how they are written and read."""

import itertools
import operator
import random

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.errors import InconclusiveDimensionOperation
from xlafront.export import SymbolicScope, is_symbolic_dim, symbolic_args_specs, symbolic_shape
from xlafront.symbolic import dimensions
from xlafront.symbolic.dimensions import evaluate, max_dim, min_dim

OPERATORS = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "//": lambda x, y: x // y,
             "%": lambda x, y: x % y, "max": max_dim, "min": min_dim}
VALUES = [dict(zip("abc", v)) for v in itertools.product((1, 2, 3, 5, 8), repeat=3)]


def random_tree(draw, depth):
    if not depth or draw.random() < 0.25:
        return draw.choice(["a", "b", "c", 1, 2, 3, 5])
    return draw.choice(list(OPERATORS)), random_tree(draw, depth - 1), random_tree(draw, depth - 1)


def value_of(tree, env):
    if isinstance(tree, tuple):
        name, x, y = tree
        return OPERATORS[name](value_of(x, env), value_of(y, env))
    return env.get(tree, tree)


@pytest.mark.parametrize("seed", range(150))
def test_the_canonical_form_has_the_value_of_the_expression(seed):
    tree = random_tree(random.Random(seed), 3)
    try:
        form = value_of(tree, dict(zip("abc", symbolic_shape("a, b, c"))))
    except ZeroDivisionError:
        return  # (a divisor that is 0 whatever the variables are)
    for env in VALUES:
        try:
            expected = value_of(tree, env)
        except ZeroDivisionError:
            continue
        assert evaluate(form, env) == expected, (tree, form, env)


def holds(constraint, env):
    return eval(constraint, {"mod": operator.mod, "floordiv": operator.floordiv, "max": max, "min": min}, env)


@pytest.mark.parametrize("seed", range(300))
def test_comparisons_that_are_decided_hold_for_all_values(seed):
    draw = random.Random(1000 + seed)
    constraints = draw.choice([(), ("a >= b",), ("a <= 4", "c >= 2*b"), ("mod(a, 2) == 0",), ("a + b <= c",), ("min(a, b) == b - 2",),
                               ("mod(a, 3) == 0", "a <= c"), ("floordiv(a, b) == 2",), ("mod(a, -2) == 0",), ("max(a, b) == a",)])
    shape = symbolic_shape("a, b, c", constraints=constraints)
    trees = [random_tree(draw, 2) for _ in range(2)]
    try:
        x, y = [value_of(tree, dict(zip("abc", shape))) for tree in trees]
        decided = x >= y
    except (ZeroDivisionError, InconclusiveDimensionOperation):
        return
    for env in VALUES:
        if not all(holds(text, env) for text in constraints):
            continue
        try:
            values = [value_of(tree, env) for tree in trees]
        except ZeroDivisionError:
            continue
        assert decided is (values[0] >= values[1]), (trees, x, y, env)


@pytest.mark.parametrize("code, text", [
    ("a + b", "b + a"), ("2 * a", "2*a"), ("a * b + a", "a*b + a"), ("a * a * a * b", "a^3*b"), ("-a", "- a"), ("1 - a", "- a + 1"),
    ("a - 3 * b + 7", "- 3*b + a + 7"), ("a // 2", "floordiv(a, 2)"), ("(2 * a + 4) // 2", "a + 2"), ("(2 * a + 1) // 2", "a"),
    ("a % 3", "mod(a, 3)"), ("(a * b) // b", "a"), ("(a * b) % b", "0"), ("max_dim(a, b)", "max(a, b)"), ("max_dim(a, 0)", "a"),
    ("max_dim(3, a)", "max(3, a)"), ("max_dim(2 * a, a)", "2*a"), ("min_dim(a, a + 1)", "a"), ("(a // 2) * b", "b*floordiv(a, 2)"),
    ("(a % 3) * (b // 2) + 1", "floordiv(b, 2)*mod(a, 3) + 1"), ("(a + b) // b", "floordiv(b + a, b)"), ("a - a + 5", "5"),
    ("(a * a + a * b) // a", "b + a"), ("divmod(a, 3)", "(floordiv(a, 3), mod(a, 3))"), ("a ** 2", "a^2"), ("5 % a", "mod(5, a)"),
    ("max_dim(a - b, 0) + b", "max(- b + a, 0) + b"), ("np.prod([a, b])", "a*b"), ("np.int32(3) * a", "3*a"), ("(4 * a + 6) % 4", "2"),
])
def test_expressions_are_written_as_their_canonical_form(code, text):
    a, b = symbolic_shape("a, b")
    assert str(eval(code, {"a": a, "b": b, "np": np, "max_dim": max_dim, "min_dim": min_dim})) == text


def test_equality_is_that_of_forms():
    a, b = symbolic_shape("a, b")
    assert a + b == b + a and hash(a + b) == hash(b + a) and {a + b: 1}[b + a] == 1
    assert a != b and a != 1 and not a == None and a != "a"  # noqa: E711
    assert a != symbolic_shape("a")[0] and a == symbolic_shape("a", scope=a.scope)[0]
    assert (a - a) == 0 and type(a - a) is int and bool(a)
    assert a in (3, a) and a not in (3, b)


def test_comparisons():
    a, b = symbolic_shape("a, b")
    assert a >= 1 and a > 0 and not a < 0 and a + b >= 2 and a % 3 < 3 and a // 2 <= a and 2 * (a // 2) >= a - 1
    assert (a // b) * b <= a and a % b < b and max_dim(a, b) >= b and min_dim(a, b) <= a and (a + 3) // 4 * 4 >= a
    assert a <= a + b - 1 and max(a, a + 1) == a + 1 and sorted([a + 2, a]) == [a, a + 2]
    for undecided in (lambda: a >= b, lambda: a > 1, lambda: a * b >= a + 1, lambda: max(a, 5), lambda: a - 2 >= 0):
        with pytest.raises(InconclusiveDimensionOperation, match="(?s)inconclusive.*constraints"):
            undecided()
    with pytest.raises(InconclusiveDimensionOperation, match="'a' >= 'b'"):
        a >= b  # noqa: B015


@pytest.mark.parametrize("constraints, left, right, answer", [  # as the reference decides them
    ((), "max_dim(3, min_dim(b, c))", "3 * c + 1", "<"), ((), "max_dim(a, b) - b - 1", "a", "<"),
    ((), "max_dim(a, 2) - max_dim(a, b)", "max_dim(c, 5)", "<"), ((), "max_dim(2, max_dim(3, b))", "max_dim(b, 2)", ">="),
    ((), "max_dim(c, 6)", "max_dim(3, b) - b", ">="), (("a >= 4", "b <= 8"), "max_dim(4, c)", "min_dim(a // 2, c // 2)", ">="),
    (("a >= b",), "min_dim(max_dim(b, c), 3 * a)", "b", ">="), (("a == 2*b",), "a // 2", "max_dim(b, 5) - 5", ">="),
    (("mod(a, 2) == 0",), "c + max_dim(a, b)", "min_dim(3, max_dim(b, 2))", ">="), (("mod(a, 4) == 0",), "a", "a // 4", ">="),
    (("mod(a, 4) == 0",), "a // 4", "1", ">="), (("mod(a, 4) == 0",), "a", "3 * (a // 4)", ">="),
    (("b >= 2", "min(a, b) == b - 2"), "a", "b - 2", ">="), (("floordiv(a, b) == 3",), "a", "3 * b", ">="),
    (("floordiv(a, b) == 3",), "a", "4 * b", "<"), (("max(a, b) == a",), "a", "b", ">="),
    (("max(a, b) == b + 1",), "b + 1", "a", ">="), (("mod(a, -2) == 0",), "-(a // -2)", "1", ">="),
])
def test_max_and_min_are_decided_by_cases(constraints, left, right, answer):
    a, b, c = symbolic_shape("a, b, c", constraints=constraints)
    names = {"a": a, "b": b, "c": c, "max_dim": max_dim, "min_dim": min_dim}
    assert (eval(left, names) >= eval(right, names)) is (answer == ">=")


def test_constraints():
    h, w = symbolic_shape("h, w", constraints=["h >= 8", "h <= 64", "mod(w, 2) == 0"])
    assert h >= 8 and h <= 64 and w % 2 == 0 and (w // 2) * 2 == w
    with pytest.raises(InconclusiveDimensionOperation, match="h >= 8; h <= 64"):
        h >= 9  # noqa: B015
    a, b = symbolic_shape("a, b", constraints=["a == 2*b"])
    assert str(a) == "2*b" and a // b == 2
    assert symbolic_shape("a, 4", constraints=["a == 3"]) == (3, 4)
    a, b, c = symbolic_shape("a, b, c", constraints=["a >= b", "b >= c"])
    assert a >= c and a - c + 1 > 0
    a, b = symbolic_shape("a, b", constraints=["a*b == 4"])
    assert a * b == 4 and a * a * b == 4 * a
    a, b = symbolic_shape("a, b", constraints=["floordiv(a, 2) == b"])
    assert a // 2 == b
    assert "a >= 3" in repr(SymbolicScope(["a >= 3"]))


@pytest.mark.parametrize("constraints, message", [
    (["a > 3"], "one of '==', '>=' or '<='"), (["a"], "one of"), ("a >= 3", "sequence of texts"), ([3], "is a text"),
    (["2 >= 3"], "cannot be satisfied"), (["a + b == 4"], "one product"), (["a >= "], "expected a name"), (["a >= b c"], "the end"),
])
def test_constraints_that_cannot_be_used(constraints, message):
    with pytest.raises(ValueError, match=message):
        symbolic_shape("a, b", constraints=constraints)


@pytest.mark.parametrize("text, like, expected", [
    ("a, b, ...", (1, 2, 3, 4), "(a, b, 3, 4)"), ("_, b", (1, 2), "(1, b)"), ("(a, 2*a+3, _)", (1, 2, 3), "(a, 2*a + 3, 3)"),
    ("...", (1, 2), "(1, 2)"), ("a,", (1,), "(a,)"), ("", None, "()"), ("()", None, "()"), ("a^2, a^3*b", None, "(a^2, a^3*b)"),
    ("floordiv(a, 2), mod(a, 3), max(a, b), min(a,b)", None, "(floordiv(a, 2), mod(a, 3), max(a, b), min(a, b))"),
    ("+ a, +2 - b", None, "(a, - b + 2)"), ("max(+a, -3)", None, "(a,)"), ("a, b, ...", (4, 7), "(a, b)"),
    ("-a+3, a*-1", None, "(- a + 3, - a)"), ("a1_b", None, "(a1_b,)"), ("a - b, -3", None, "(- b + a, -3)"), (None, (1, 2), "(1, 2)"),
])
def test_shapes_are_read(text, like, expected):
    assert str(symbolic_shape(text, like=like)) == expected


@pytest.mark.parametrize("text, like, message", [
    ("2*(a+1)", None, "name, a number"), ("a//2", None, r"one of \+"), ("a+", None, "a name, a number"), ("a b", None, "','"),
    ("a, 7, b, ...", (4, 7), "dimension 3"), ("_, _", (4,), "dimension 1"), ("_", (None,), "no known size"), ("a + + b", None, "a name"),
    ("_", None, "no 'like'"), ("...", None, "no 'like'"), ("3, b", (4, 5), "different size"), ("1.5*a", None, "an integer"),
    ("max(a)", None, "','"), ("foo(a)", None, "','"), ("2a", None, "','"), ("a, (b", None, "name, a number"), (("a", 3), None, "is a text"),
])
def test_invalid_shape_texts_raise(text, like, message):
    with pytest.raises(ValueError, match=message):
        symbolic_shape(text, like=like)


def test_scopes_do_not_mix():
    a, b = *symbolic_shape("a"), *symbolic_shape("b")
    with pytest.raises(ValueError, match="different symbolic scopes"):
        a + b
    with pytest.raises(ValueError, match="got a scope and constraints"):
        symbolic_shape("c", scope=a.scope, constraints=["c >= 2"])
    with pytest.raises(TypeError, match="scope must be a SymbolicScope"):
        symbolic_shape("c", scope=3)


def test_specs_of_arguments():
    x, y = np.ones((2, 3)), np.ones((4, 2), np.int32)
    specs = symbolic_args_specs((x, {"y": y}), ["a, ...", {"y": "_, a"}])
    assert str(specs[0].shape) == "(a, 3)" and str(specs[1]["y"].shape) == "(4, a)" and specs[1]["y"].dtype == np.int32
    assert specs[0].shape[0] == specs[1]["y"].shape[1]
    assert symbolic_args_specs((x, y), None)[1].shape == (4, 2)
    assert str(symbolic_args_specs((x, x), "a, b")[1].shape) == "(a, b)"
    with pytest.raises(ValueError, match="shapes_specs"):
        symbolic_args_specs((x, x), ["a, b"])


def test_unsupported_uses_of_dimension_expressions():
    [a] = symbolic_shape("a")
    assert is_symbolic_dim(a) and is_symbolic_dim(a + 1) and not is_symbolic_dim(3) and not is_symbolic_dim("a")
    for use in (int, lambda d: [1, 2][d], range, float, lambda d: d & 1, abs):
        with pytest.raises((TypeError, InconclusiveDimensionOperation)):
            use(a)
    with pytest.raises(InconclusiveDimensionOperation, match="constant integer is needed"):
        int(a)
    for use in (xnp.array, xnp.floor, xf.jit(lambda d: d), lambda d: xnp.arange(3) + d, lambda d: xnp.full((3,), d)):
        with pytest.raises(NotImplementedError, match="outside of a traced function"):
            use(a)
    with pytest.raises(ValueError, match="symbolic dimensions outside of a program"):
        xnp.arange(5)[:a]
    with pytest.raises(InconclusiveDimensionOperation, match=r"cannot reshape the 6 elements of shape \(6,\) to \(a, -1\)"):
        xnp.ones(6).reshape(a, -1)
    with pytest.raises(ZeroDivisionError):
        a // 0
    with pytest.raises(KeyError, match="'a' has no value"):
        evaluate(a, {"b": 2})


def test_expressions_in_types():
    a, b = symbolic_shape("a, b")
    spec = xf.ShapeDtypeStruct((a, 2 * b), "float32")
    assert spec.size == 2 * a * b and str(spec) == "ShapeDtypeStruct(shape=(a, 2*b), dtype=float32)"
    assert str(xf.eval_shape(lambda x: xnp.concatenate([x, x], 1), spec).shape) == "(a, 4*b)"
    assert str(xf.core.ShapedArray((a, b), np.float32)) == "float32[a,b]"
    assert xf.core.ShapedArray((a, b), np.float32) is xf.core.ShapedArray((a, b), np.float32)
    jaxpr = xf.make_jaxpr(lambda x: x * x.shape[0])(spec)
    assert "dim_as_value[dim=a]" in str(jaxpr)
    assert dimensions.common_shape((a, 1), (1, b), (b,)) == (a, b)
    with pytest.raises(ValueError, match="do not broadcast"):
        dimensions.common_shape((a,), (b,))
    with pytest.raises(TypeError, match="a.*b"):
        xf.eval_shape(lambda x, y: x + y, xf.ShapeDtypeStruct((a,), "float32"), xf.ShapeDtypeStruct((b,), "float32"))


SLICES = [slice(1, None, 3), slice(None, -1, 2), slice(2, None, 2), slice(-3, None, 2), slice(None, None, 2), slice(None, None, -2),
          slice(5, None, -1), slice(None, 5, 2)]


def test_slices_with_steps_of_unknown_sizes():
    def components(x):
        return [x[s] for s in SLICES] + [x.at[s].set(0.0) for s in SLICES]

    exported = xf.export.export(xf.jit(components))(xf.ShapeDtypeStruct(symbolic_shape("a,"), "float32"))
    assert [str(aval.shape[0]) for aval in exported.out_avals[:3]] == ["floordiv(a + 1, 3)", "floordiv(a, 2)",
                                                                      "floordiv(- min(a, 2) + a + 1, 2)"]
    for n in (1, 2, 3, 4, 7, 8):
        x = np.arange(1.0, n + 1, dtype=np.float32)
        found = exported.call(x)
        for i, s in enumerate(SLICES):
            np.testing.assert_array_equal(found[i], x[s])
            expected = x.copy()
            expected[s] = 0
            np.testing.assert_array_equal(found[len(SLICES) + i], expected)
    [a] = symbolic_shape("a")
    for power in (-1, 1.5):
        with pytest.raises(ValueError, match="non-negative integers"):
            a ** power


def test_bounds_of_sizes():
    bounds, inf = xf.export.symbolic_dim_bounds, float("inf")
    a, b = xf.export.symbolic_shape("a, b", constraints=["a >= 3", "b <= 10"])
    assert [bounds(x) for x in (a, b, a * b - 2, a // 2, a % 4, -a)] == [
        (3, inf), (1, 10), (1, inf), (1, inf), (0, 3), (-inf, -3)]
    assert bounds(5) == bounds(np.int32(5)) == (5, 5) and type(bounds(5)[0]) is int
    for wrong in (2.5, "a"):
        with pytest.raises(TypeError, match="integer"):
            bounds(wrong)
