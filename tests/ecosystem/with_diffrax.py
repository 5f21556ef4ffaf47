"""Diffrax, Lineax, Optimistix: differential equations with their adjoints, a stochastic one, linear and nonlinear systems."""

import diffrax
import jax
import jax.numpy as jnp
import lineax
import optimistix


def ordinary():
    def field(t, y, args):
        a, b = args
        return jnp.stack([a * y[0] - b * y[0] * y[1], -y[1] + y[0] * y[1]])

    @jax.jit
    def solve(args, adjoint=diffrax.RecursiveCheckpointAdjoint()):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 6.0, 0.1, jnp.array([1.0, 2.0]), args, saveat=diffrax.SaveAt(
                ts=jnp.linspace(0, 6, 5)), stepsize_controller=diffrax.PIDController(1e-5, 1e-6), adjoint=adjoint)
        return solution.ys[:, 0].sum()

    args = (jnp.array(1.3), jnp.array(0.9))
    backsolve = jax.grad(lambda args: solve(args, diffrax.BacksolveAdjoint()))
    return jnp.stack([solve(args), *jax.grad(solve)(args), *backsolve(args)])


def stiff_with_event():
    def robertson(t, y, args):
        f0 = -0.04 * y[0] + 1e4 * y[1] * y[2]
        f2 = 3e7 * y[1] ** 2
        return jnp.stack([f0, -f0 - f2, f2])

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(robertson), diffrax.Kvaerno5(), 0.0, 100.0, 2e-4, jnp.array([1.0, 0.0, 0.0]),
        stepsize_controller=diffrax.PIDController(1e-4, 1e-6), max_steps=1000)
    fall = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -9.8 + 0 * y[0]])), diffrax.Dopri5(), 0.0, 10.0, 0.1, jnp.array([10.0, 0.0]),
        event=diffrax.Event(lambda t, y, args, **kw: y[0], optimistix.Newton(1e-5, 1e-5)))
    return jnp.stack([solution.ys[0, 0], solution.ys[0, 2], fall.ts[0]])


def stochastic():
    path = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (2,), jax.random.key(0))
    terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, args: -y), diffrax.ControlTerm(
        lambda t, y, args: lineax.DiagonalLinearOperator(0.3 * jnp.ones(2)), path))

    @jax.jit
    def solve(y0):
        return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.01, y0).ys[0]

    y0 = jnp.array([1.0, 2.0])
    return jnp.concatenate([solve(y0), jax.grad(lambda y: solve(y).sum())(y0), path.evaluate(0.2, 0.7)])


def linear_systems():
    matrix = jax.random.normal(jax.random.key(0), (5, 5))
    vector = jax.random.normal(jax.random.key(1), (5,))
    symmetric = lineax.MatrixLinearOperator(matrix @ matrix.T + jnp.eye(5), lineax.positive_semidefinite_tag)
    tall = lineax.MatrixLinearOperator(jax.random.normal(jax.random.key(2), (5, 3)))

    @jax.jit
    def solve(matrix, vector):
        return lineax.linear_solve(lineax.MatrixLinearOperator(matrix), vector).value.sum()

    function = lineax.FunctionLinearOperator(lambda x: matrix @ x + 2 * x, jax.ShapeDtypeStruct((5,), jnp.float32))
    return jnp.stack([
        solve(matrix, vector), jax.grad(solve)(matrix, vector).sum(), lineax.linear_solve(symmetric, vector, lineax.CG(1e-6, 1e-6)).value.sum(),
        lineax.linear_solve(symmetric, vector, lineax.Cholesky()).value.sum(), lineax.linear_solve(tall, vector, lineax.QR()).value.sum(),
        lineax.linear_solve(tall, vector, lineax.SVD()).value.sum(), lineax.linear_solve(function, vector, lineax.GMRES(1e-6, 1e-6)).value.sum(),
        jax.vmap(lambda v: lineax.linear_solve(symmetric, v).value)(jnp.eye(5)).sum()])


def nonlinear_systems():
    def residuals(y, args):
        return jnp.stack([10 * (y[1] - y[0] ** 2), args - y[0]])

    start = jnp.array([-1.2, 1.0])
    root = optimistix.root_find(lambda y, args: jnp.cos(y) - args * y, optimistix.Newton(1e-6, 1e-6), jnp.array(0.5), args=1.0)
    fixed = optimistix.fixed_point(lambda y, args: jnp.cos(y) * args, optimistix.FixedPointIteration(1e-6, 1e-6), jnp.array(0.5), args=1.0)
    least = optimistix.least_squares(residuals, optimistix.LevenbergMarquardt(1e-6, 1e-6), start, args=1.0)
    low = optimistix.minimise(lambda y, args: jnp.sum(residuals(y, args) ** 2), optimistix.BFGS(1e-6, 1e-6), start, args=1.0)
    slope = jax.grad(lambda a: optimistix.root_find(
        lambda y, args: jnp.cos(y) - args * y, optimistix.Newton(1e-6, 1e-6), jnp.array(0.5), args=a).value)(1.0)
    return jnp.stack([root.value, fixed.value, *least.value, *low.value, slope])


PROGRAMS = (ordinary, stiff_with_event, stochastic, linear_systems, nonlinear_systems)
