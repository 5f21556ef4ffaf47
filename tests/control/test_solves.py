"""`custom_root` and `custom_linear_solve` against closed forms, the implicit function theorem and finite differences."""

import numpy as np
import pytest
from laws import check_batching, check_derivatives, total

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

MATRIX = np.array([[4.0, 1.0, -0.5], [0.5, 3.0, 1.0], [1.0, -1.0, 5.0]])
RIGHT = np.array([1.0, -2.0, 0.5])


def jacobi(product, diagonal, b):
    """A solver of systems that are diagonally dominant: 60 sweeps."""
    return lax.fori_loop(0, 60, lambda i, x: x + (b - product(x)) / diagonal, b)


def solve(a, b):
    d = xnp.diagonal(a)
    return lax.custom_linear_solve(
        lambda x: a @ x, b, lambda matvec, y: jacobi(matvec, d, y), lambda vecmat, y: jacobi(vecmat, d, y))


def solve_symmetric(a, b):
    d = xnp.diagonal(a)
    return lax.custom_linear_solve(
        lambda x: (a @ x + x @ a) / 2, b, lambda matvec, y: jacobi(matvec, d, y), symmetric=True)


def solve_with_aux(a, b):
    def solver(product, y):
        x = jacobi(product, xnp.diagonal(a), y)
        return x, {"residual": xnp.sum((product(x) - y) ** 2), "sweeps": 60}

    return lax.custom_linear_solve(lambda x: a @ x, b, solver, solver, has_aux=True)


def solve_blocks(a, b):
    """Upper triangular in blocks: right-hand sides and solutions are pytrees."""
    def matvec(x):
        return {"u": x["u"] * a[0, 0] + x["v"] * a[0, 1], "v": x["v"] * a[1, 1]}

    def back(_, y):
        v = y["v"] / a[1, 1]
        return {"v": v, "u": (y["u"] - v * a[0, 1]) / a[0, 0]}

    def forward(_, y):
        u = y["u"] / a[0, 0]
        return {"u": u, "v": (y["v"] - u * a[0, 1]) / a[1, 1]}

    return lax.custom_linear_solve(matvec, {"u": b, "v": b * b}, back, forward)


def blocks_numpy(a, b):
    v = b * b / a[1, 1]
    return {"u": (b - v * a[0, 1]) / a[0, 0], "v": v}


LINEAR = [
    (solve, lambda a, b: np.linalg.solve(a, b)),
    (solve_symmetric, lambda a, b: np.linalg.solve((a + a.T) / 2, b)),
    (lambda a, b: solve_with_aux(a, b)[0], lambda a, b: np.linalg.solve(a, b)),
    (solve_blocks, blocks_numpy),
]
NAMES = ["general", "symmetric", "aux", "pytree"]


@pytest.mark.parametrize("ours, theirs", LINEAR, ids=NAMES)
def test_linear_solve(ours, theirs):
    rng = np.random.default_rng(0)
    with xf.enable_x64(True):
        for f in (ours, xf.jit(ours)):
            xf.tree.map(np.testing.assert_allclose, f(MATRIX, RIGHT), theirs(MATRIX, RIGHT))
        check_batching(ours, [MATRIX, RIGHT])
    check_derivatives(ours, [MATRIX, RIGHT], rng)
    check_derivatives(xf.grad(total(ours), (0, 1)), [MATRIX, RIGHT], rng)  # second order, both ways


def test_derivatives_of_a_linear_solve_in_closed_form():
    # x = A^-1 b: dL/db = A^-T ct, dL/dA = -(A^-T ct) x^T
    ct = np.array([0.5, 1.0, -1.0])
    inverse = np.linalg.inv(MATRIX)
    with xf.enable_x64(True):
        for transform in (lambda f: f, xf.jit):
            x, pull = xf.vjp(transform(solve), MATRIX, RIGHT)
            of_a, of_b = pull(ct)
            np.testing.assert_allclose(of_b, inverse.T @ ct)
            np.testing.assert_allclose(of_a, -np.outer(inverse.T @ ct, inverse @ RIGHT))
            np.testing.assert_allclose(xf.jacfwd(transform(solve), 1)(MATRIX, RIGHT), inverse, atol=1e-12)
        _, push = xf.linearize(solve, MATRIX, RIGHT)
        np.testing.assert_allclose(push(np.eye(3), RIGHT), inverse @ (RIGHT - inverse @ RIGHT))
        hessian = xf.hessian(lambda t: solve(t * MATRIX, RIGHT))(2.0)
        np.testing.assert_allclose(hessian, 2 / 2.0**3 * inverse @ RIGHT)


def test_the_transpose_of_a_solve():
    with xf.enable_x64(True):
        pulled, = xf.linear_transpose(lambda b: solve(MATRIX, b), RIGHT)(RIGHT)
        np.testing.assert_allclose(pulled, np.linalg.solve(MATRIX.T, RIGHT))
        again, = xf.linear_transpose(lambda c: xf.linear_transpose(lambda b: solve(MATRIX, b), RIGHT)(c)[0], RIGHT)(RIGHT)
        np.testing.assert_allclose(again, np.linalg.solve(MATRIX, RIGHT))


def test_complex_systems():
    a = MATRIX + 1j * np.diag([0.5, -0.3, 0.1])
    with xf.enable_x64(True):
        np.testing.assert_allclose(solve(a, RIGHT + 0j), np.linalg.solve(a, RIGHT))
        _, pull = xf.vjp(lambda b: solve(a, b), RIGHT + 0j)
        np.testing.assert_allclose(pull(RIGHT * 1j)[0], np.linalg.solve(a.T, RIGHT * 1j))


def test_solves_inside_loops_and_branches():
    def repeated(a, b):
        def step(x, scale):
            x = lax.cond(scale > 0.5, lambda y: solve(a * scale, y), lambda y: solve_symmetric(a, y), x)
            return x, xnp.sum(x)

        return lax.scan(step, b, xnp.array([1.0, 0.25, 2.0]))

    def by_numpy(a, b):
        sums = []
        for scale in (1.0, 0.25, 2.0):
            b = np.linalg.solve(a * scale if scale > 0.5 else (a + a.T) / 2, b)
            sums.append(b.sum())
        return b, np.array(sums)

    with xf.enable_x64(True):
        xf.tree.map(np.testing.assert_allclose, repeated(MATRIX, RIGHT), by_numpy(MATRIX, RIGHT))
    check_derivatives(repeated, [MATRIX, RIGHT], np.random.default_rng(1))
    check_batching(repeated, [MATRIX, RIGHT])


def test_auxiliary_data_has_no_derivative():
    def residual(a, b):
        return solve_with_aux(a, b)[1]["residual"]

    with xf.enable_x64(True):
        x, aux = solve_with_aux(MATRIX, RIGHT)
        assert aux["sweeps"] == 60 and aux["residual"] < 1e-20
        assert all(not np.any(g) for g in xf.grad(residual, (0, 1))(MATRIX, RIGHT))
        (_, aux), (_, moved) = xf.jvp(lambda b: solve_with_aux(MATRIX, b), (RIGHT,), (RIGHT,))
        assert aux["sweeps"] == 60 and moved["residual"] == 0 and moved["sweeps"].dtype == xf.dtypes.float0
        batch, aux = xf.vmap(solve_with_aux, (None, 0))(MATRIX, np.stack([RIGHT, 2 * RIGHT]))
        np.testing.assert_allclose(batch[1], 2 * x)
        assert aux["sweeps"].shape == aux["residual"].shape == (2,)


def test_printed_programs():
    text = str(xf.make_jaxpr(solve)(np.ones((2, 2)), np.ones(2)))
    assert "custom_linear_solve[" in text and "const_lengths" in text and "dot_general" in text
    assert lax.linear_solve_p.name == "custom_linear_solve" and lax.linear_solve_p.multiple_results


def test_errors_of_linear_solves():
    b = np.ones(2, np.float32)

    def identity(_, y):
        return y

    with pytest.raises(ValueError, match=r"matvec of custom_linear_solve must return the shapes of b: b has shape \(2,\)"):
        lax.custom_linear_solve(lambda x: x[:1], b, identity)
    with pytest.raises(ValueError, match=r"solve of custom_linear_solve.*\['u'\] has shape \(2,\), the result has \(1,\)"):
        lax.custom_linear_solve(lambda x: x, {"u": b}, lambda _, y: {"u": y["u"][:1]})
    with pytest.raises(TypeError, match="matvec of custom_linear_solve must return a pytree like b"):
        lax.custom_linear_solve(lambda x: (x,), b, identity)
    with pytest.raises(TypeError, match="transpose_solve of custom_linear_solve must return a pytree like b"):
        lax.custom_linear_solve(lambda x: x, b, identity, lambda _, y: (y,))
    with pytest.raises(ValueError, match=r"pair \(solution, auxiliary data\)"):
        lax.custom_linear_solve(lambda x: x, b, identity, has_aux=True)
    with pytest.raises(TypeError, match="as matvec, got int"):
        lax.custom_linear_solve(3, b, identity)
    with pytest.raises(TypeError, match="transpose_solve"):
        xf.grad(lambda y: lax.custom_linear_solve(lambda x: x, y, identity)[0])(b)
    with pytest.raises(NotImplementedError, match="must be linear in its argument"):
        lax.custom_linear_solve(xnp.sin, b, identity, identity)
    with pytest.raises(TypeError, match="must be linear in its argument"):
        lax.custom_linear_solve(lambda x: x * x, b, identity, identity)


# Roots


def newton(f, x):
    return lax.while_loop(lambda s: s[1] < 30, lambda s: (s[0] - f(s[0]) / xf.grad(f)(s[0]), s[1] + 1), (x, 0))[0]


def cube_root(a, start=1.0):
    return lax.custom_root(lambda x: x**3 - a, start, newton, lambda g, y: y / g(1.0))


def circle_and_line(r, slope):
    """Return the point where a circle meets a line through the origin."""
    def f(p):
        return {"x": p["x"] ** 2 + p["y"] ** 2 - r**2, "y": p["y"] - slope * p["x"]}

    def matrix_of(g):
        columns = [g({"x": 1.0, "y": 0.0}), g({"x": 0.0, "y": 1.0})]
        return columns[0]["x"], columns[1]["x"], columns[0]["y"], columns[1]["y"]

    def solve_two(g, rhs):
        a, b, c, d = matrix_of(g)
        det = a * d - b * c
        return {"x": (d * rhs["x"] - b * rhs["y"]) / det, "y": (a * rhs["y"] - c * rhs["x"]) / det}

    def solver(f, p):
        def step(_, p):
            value, derivative = xf.linearize(f, p)
            return xf.tree.map(xnp.subtract, p, solve_two(derivative, value))

        return lax.fori_loop(0, 12, step, p)

    return lax.custom_root(f, {"x": 1.0, "y": 1.0}, solver, solve_two)


def test_roots_and_their_derivatives():
    a = 8.0
    with xf.enable_x64(True):
        f = cube_root
        for order in range(4):  # a^(1/3) by the power rule
            expected = np.prod([1 / 3 - k for k in range(order)]) * a ** (1 / 3 - order)
            for transform in (lambda g: g, xf.jit):
                np.testing.assert_allclose(transform(f)(a), expected)
            f = xf.grad(f) if order % 2 else xf.jacfwd(f)
        assert xf.grad(cube_root, 1)(a, 1.5) == 0
        np.testing.assert_allclose(xf.jit(xf.hessian(cube_root))(a), -2 / 9 * a ** (-5 / 3))


def test_roots_of_systems():
    with xf.enable_x64(True):
        r, slope = 2.0, 0.75
        root = circle_and_line(r, slope)
        np.testing.assert_allclose([root["x"], root["y"]], [1.6, 1.2])
        d = xf.grad(lambda r, s: circle_and_line(r, s)["x"], (0, 1))(r, slope)  # x = r (1 + s^2)^-1/2
        np.testing.assert_allclose(d, [0.8, -r * slope * (1 + slope**2) ** -1.5])
    check_derivatives(circle_and_line, [r, slope], np.random.default_rng(2))
    check_derivatives(xf.grad(total(circle_and_line), (0, 1)), [r, slope], np.random.default_rng(3))
    check_batching(circle_and_line, [np.float32(r), np.float32(slope)])


def test_roots_under_vmap_and_in_loops():
    with xf.enable_x64(True):
        xs = np.array([1.0, 8.0, 27.0])
        np.testing.assert_allclose(xf.vmap(cube_root)(xs), [1, 2, 3])
        np.testing.assert_allclose(xf.vmap(cube_root, (None, 0))(8.0, xs), [2, 2, 2])
        np.testing.assert_allclose(xf.vmap(xf.grad(cube_root))(xs), xs ** (-2 / 3) / 3)
        np.testing.assert_allclose(xf.grad(lambda x: xnp.sum(xf.vmap(cube_root)(x)))(xs), xs ** (-2 / 3) / 3)
        np.testing.assert_allclose(xf.jacrev(xf.vmap(cube_root))(xs), np.diag(xs ** (-2 / 3) / 3))

        def chain(a):
            return lax.scan(lambda c, x: (cube_root(c + x), c), a, xs)[0]

        def chain_numpy(a):
            for x in xs:
                a = (a + x) ** (1 / 3)
            return a

        np.testing.assert_allclose(chain(2.0), chain_numpy(2.0))
        slope = (chain_numpy(2 + 1e-6) - chain_numpy(2 - 1e-6)) / 2e-6
        np.testing.assert_allclose([xf.grad(chain)(2.0), xf.jit(xf.jacfwd(chain))(2.0)], [slope] * 2, rtol=1e-6)


def test_the_tangent_solver_may_close_over_what_is_differentiated():
    def root(a):
        return lax.custom_root(lambda x: x**2 - a, 2.0, lambda f, x: newton(f, x), lambda g, y: y / (2 * xnp.sqrt(a)))

    with xf.enable_x64(True):
        a = 9.0
        for f in (root, xf.jit(root), lambda a: xf.vmap(root)(xnp.array([a]))[0]):
            np.testing.assert_allclose(xf.grad(f)(a), 0.5 * a**-0.5)
            np.testing.assert_allclose(xf.grad(xf.grad(f))(a), -0.25 * a**-1.5)


def test_auxiliary_data_of_roots():
    def root(a):
        return lax.custom_root(lambda x: x**3 - a, 1.0, lambda f, x: (newton(f, x), {"start": f(x), "steps": 30}),
                               lambda g, y: y / g(1.0), has_aux=True)

    with xf.enable_x64(True):
        value, aux = root(8.0)
        np.testing.assert_allclose([value, aux["start"], aux["steps"]], [2, -7, 30])
        slope, aux = xf.grad(root, has_aux=True)(8.0)
        np.testing.assert_allclose([slope, aux["start"]], [1 / 12, -7])
        (_, aux), (_, moved) = xf.jvp(root, (8.0,), (1.0,))
        assert aux["steps"] == 30 and moved["start"] == 0 and moved["steps"].dtype == xf.dtypes.float0


def test_errors_of_roots():
    def g_solve(g, y):
        return y

    with pytest.raises(TypeError, match="f of custom_root must return a pytree like initial_guess"):
        lax.custom_root(lambda x: (x,), 1.0, newton, g_solve)
    with pytest.raises(ValueError, match=r"f of custom_root must return the shapes of initial_guess.*\(\).*\(2,\)"):
        lax.custom_root(lambda x: xnp.stack([x, x]), 1.0, newton, g_solve)
    with pytest.raises(TypeError, match="solve of custom_root must return a pytree like initial_guess"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: (x,), g_solve)
    with pytest.raises(TypeError, match="tangent_solve of custom_root must return a pytree"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: [y])
    with pytest.raises(ValueError, match="pair"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: x, g_solve, has_aux=True)
    with pytest.raises(TypeError, match="as tangent_solve, got NoneType"):
        lax.custom_root(lambda x: x, 1.0, newton, None)
    with pytest.raises(TypeError, match="'a'"):
        lax.custom_root(lambda x: x, "a", newton, g_solve)


@pytest.mark.parametrize("result, error", [
    (lambda z: [z], TypeError), (lambda z: {"a": z}, TypeError), (lambda z: (z, z), ValueError), (lambda z: None, ValueError),
    (lambda z: 1.0, ValueError), (lambda z: [1.0], ValueError), (lambda z: z[None], ValueError)])
def test_mismatched_results_of_solver_functions_raise(result, error):
    b = np.ones(3, np.float32)
    with pytest.raises(error, match="solve of custom_linear_solve"):
        lax.custom_linear_solve(lambda x: 2 * x, b, lambda _, z: result(z))
    with pytest.raises(error, match="matvec of custom_linear_solve"):
        lax.custom_linear_solve(result, b, lambda _, z: z)
    with pytest.raises(error, match="transpose_solve of custom_linear_solve"):
        lax.custom_linear_solve(lambda x: 2 * x, b, lambda _, z: z / 2, lambda _, z: result(z))


@pytest.mark.parametrize("start, text", [
    (1.0, "~float32[]"), (1, "~int32[]"), (1j, "~complex64[]"), (np.float16(1), "float16[]"), (np.ones(2), "float32[2]")], ids=repr)
@pytest.mark.parametrize("solve", [lambda f, z: xnp.zeros_like(z), lambda f, z: z, lambda f, z: z * 0], ids=["0", "z", "z*0"])
def test_roots_are_arrays_where_the_solver_gives_constants(start, text, solve):
    found, extra = lax.custom_root(lambda z: z - 1, start, lambda f, z: (solve(f, z), np.ones(2)), lambda g, y: y, has_aux=True)
    assert isinstance(found, xf.Array) and str(xf.typeof(found)) == text
    assert isinstance(extra, xf.Array) and str(xf.typeof(extra)) == "float32[2]"


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit])
def test_functions_of_a_solve_close_over_references(wrap):
    """All may read the same one, and the solver may write."""
    factor, calls = xf.new_ref(xnp.float32(4.0)), xf.new_ref(0)

    def solve(b):
        def divide(_, y):
            calls[...] += 1
            return y / factor[...]

        return lax.custom_linear_solve(lambda x: x * factor[...], b, divide, lambda _, y: y / factor[...])

    b = np.float32([4, 8])
    np.testing.assert_array_equal(wrap(solve)(b), [1, 2])
    assert calls[...] == 1
    np.testing.assert_array_equal(wrap(xf.grad(lambda b: solve(b)[0]))(b), [0.25, 0])
    np.testing.assert_array_equal(xf.jvp(wrap(solve), (b,), (b,))[1], [1, 2])
    np.testing.assert_array_equal(wrap(lambda b: lax.map(solve, b))(np.stack([b, 2 * b])), [[1, 2], [2, 4]])
