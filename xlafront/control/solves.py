"""`custom_root` and `custom_linear_solve`: solutions of equations, differentiated through the equation and not the solver."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import errors, tracing, tree
from xlafront.core.ir import ClosedJaxpr, DebugInfo, jaxpr_as_fun
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.elementwise import as_array, neg
from xlafront.lax.families import add_tangents
from xlafront.lax.shapes import place_axis
from xlafront.lax.zeros import instantiate
from xlafront.staging import signatures
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import linearize_flat
from xlafront.transforms.ad.transpose import of_dtypes, transpose_program
from xlafront.transforms.batching.vmap import batch_program
from xlafront.transforms.calls.custom_calls import Rule
from xlafront.transforms.calls.custom_jvp import custom_jvp_call_p
from xlafront.transforms.calls.programs import evaluate, fixpoint, operands_of, trace_function

# Linear systems. The operands of the operation are the values that its four programs close over, in the order of
# `LinearSolve`, and then the right-hand side. `vecmat` and `transpose_solve` are None where nobody can transpose.


class LinearSolve(NamedTuple):
    """What belongs to the product with a matrix, to that with its transpose, and to the solution of either."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> LinearSolve:
        return LinearSolve(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def split_operands(operands: Sequence[Any], const_lengths: LinearSolve) -> tuple[LinearSolve, list[Any]]:
    """The values that each of the programs closes over, and the right-hand side."""
    parts, start = [], 0
    for length in const_lengths:
        parts.append(list(operands[start:start + length]))
        start += length
    return LinearSolve(*parts), list(operands[start:])


def _bind(consts: LinearSolve, b, jaxprs: LinearSolve) -> list:
    return linear_solve_p.bind(*consts.matvec, *consts.vecmat, *consts.solve, *consts.transpose_solve, *b,
                               const_lengths=LinearSolve(*map(len, consts)), jaxprs=jaxprs)


def _lower(ctx, *operands, const_lengths, jaxprs):
    consts, b = split_operands(operands, const_lengths)
    return ctx.inline(jaxprs.solve, [*consts.solve, *b])


def _jvp(primals, tangents, *, const_lengths, jaxprs):
    """From `A x = b` follows `A x' = b' - A' x`. What a solver says beside the solution has no derivative."""
    consts, b = split_operands(primals, const_lengths)
    consts_t, b_t = split_operands(tangents, const_lengths)
    found = _bind(consts, b, jaxprs)
    x, aux = found[:len(b)], found[len(b):]
    if any(type(t) is not Zero for t in consts_t.matvec):
        still = [Zero(tracing.aval_of(v).to_tangent_aval()) for v in x]
        _, moved = jvp_flat(jaxpr_as_fun(jaxprs.matvec), [*consts.matvec, *x], [*consts_t.matvec, *still])
        b_t = [_minus(t, m) for t, m in zip(b_t, moved)]
    out = [Zero(tracing.aval_of(v).to_tangent_aval()) for v in found]
    if any(type(t) is not Zero for t in b_t):
        rhs = [instantiate(t if type(t) is not Zero else z) for t, z in zip(b_t, out)]
        out[:len(x)] = _bind(consts, rhs, jaxprs)[:len(x)]
    return [*x, *aux], out


def _minus(x, y):
    if type(y) is Zero:
        return x
    y = neg(y)
    return y if type(x) is Zero else add_tangents(x, y)


def _transpose(cts, *operands, const_lengths, jaxprs):
    consts, b = split_operands(operands, const_lengths)
    if any(map(is_undefined, operands[:len(operands) - len(b)])):
        raise NotImplementedError("custom_linear_solve is linear in b alone: it cannot be transposed in a value that matvec or "
                                  "one of the solvers reads.")
    if jaxprs.transpose_solve is None:
        raise TypeError("reverse-mode differentiation (grad, vjp) of custom_linear_solve solves the transposed system: give it "
                        "transpose_solve(vecmat, b), or symmetric=True where the transpose is the same.")
    cts = of_dtypes(cts[:len(b)], [x.aval for x in b])
    found = _bind(consts.transposed(), [instantiate(ct) for ct in cts], jaxprs.transposed())
    return [None] * (len(operands) - len(b)) + found[:len(b)]


def _batch(trace, operands, dims, *, const_lengths, jaxprs):
    size = trace.size
    _, b_dims = split_operands(dims, const_lengths)
    consts_dims, _ = split_operands([None if d is None else 0 for d in dims], const_lengths)

    def batched(which, flags):
        program = getattr(jaxprs, which)
        marks = (*getattr(consts_dims, which), *[0 if f else None for f in flags])
        rest = (False,) * (len(program.out_avals) - len(flags))
        return batch_program(program, marks, trace, (*flags, *rest))

    known = [which for which in LinearSolve._fields if getattr(jaxprs, which) is not None]

    def grow(flags):  # right-hand sides and solutions are mapped alike, so that each can be fed to each program
        found = [batched(which, flags)[1] for which in known]
        return [any(ds[i] is not None for ds in found) for i in range(len(flags))]

    flags = fixpoint([d is not None for d in b_dims], grow)
    moved = [x if d is None else place_axis(x, d, 0, size) for x, d in zip(operands, dims)]
    consts, b = split_operands(moved, const_lengths)
    b = [place_axis(x, 0 if d is not None else None, 0, size) if f else x for x, d, f in zip(b, b_dims, flags)]
    programs = LinearSolve(*[batched(which, flags)[0] if which in known else None for which in LinearSolve._fields])
    return _bind(consts, b, programs), batched("solve", flags)[1]


linear_solve_p = Primitive(
    "custom_linear_solve", multiple_results=True, memoise=False, cost="heavy",
    abstract=lambda *_, jaxprs, **params: jaxprs.solve.out_avals,
    lower=_lower, jvp=_jvp, transpose=_transpose, effects=lambda *_, jaxprs, **params: jaxprs.solve.effects,
    impl=lambda *args, **params: evaluate(linear_solve_p, args, params, params["jaxprs"].solve.jaxpr))
linear_solve_p.batch_with_axis = _batch


@boundary
def custom_linear_solve(matvec: Callable, b: Any, solve: Callable, transpose_solve: Callable | None = None,
                        symmetric: bool = False, has_aux: bool = False) -> Any:
    """The solution of a linear equation that a given solver finds, with derivatives of the solution and not of the solver.

    - `matvec`: a linear function from pytrees like `b` to pytrees like `b`; the equation is `matvec(x) == b`.
    - `b`: the right side.
    - `solve`: `solve(matvec, b)` gives the solution.
    - `transpose_solve`: `transpose_solve(vecmat, b)` solves with the transposed function, for reverse mode.
    - `symmetric`: `matvec` is its own transpose, so that `solve` does for both.
    - `has_aux`: the solvers return pairs of the solution and something to pass on beside it, without derivative.

    >>> lax.custom_linear_solve(lambda x: 4 * x, 2.0, lambda matvec, y: y / matvec(1.0), symmetric=True)
    Array(0.5, dtype=float32, weak_type=True)
    """
    who = "custom_linear_solve"
    _check_functions(who, matvec=matvec, solve=solve)
    leaves, b_tree = tree.flatten(b)
    values = operands_of(leaves, who, b)
    avals = [tracing.aval_of(x) for x in values]
    in_tree = tree.structure((b,))
    product, product_consts, out_tree = trace_function(matvec, in_tree, avals, who)
    _check_shapes(f"matvec of {who}", "b", b_tree, avals, product.out_avals)
    _check_like(f"matvec of {who}", "b", b_tree, avals, out_tree, product.out_avals)

    def solver(function, apply, which):
        # What solves is traced for each call: it closes over `matvec`.
        program, consts, found_tree = trace_function(functools.partial(function, apply), in_tree, avals, f"{who} {which}")
        solution_tree, found = _solution(f"{which} of {who}", found_tree, program.out_avals, has_aux)
        _check_shapes(f"{which} of {who}", "b", b_tree, avals, found)
        _check_like(f"{which} of {who}", "b", b_tree, avals, solution_tree, found)
        return program, consts, found_tree

    first, first_consts, result_tree = solver(solve, matvec, "solve")
    vecmat = second = None
    vecmat_consts: list = []
    second_consts: list = []
    if symmetric:
        vecmat, vecmat_consts = product, product_consts
        second, second_consts = first, first_consts
        if transpose_solve is not None:
            second, second_consts, _ = solver(transpose_solve, matvec, "transpose_solve")
    elif transpose_solve is not None:
        vecmat, vecmat_consts = _transposed(product, len(product_consts), avals), product_consts
        flat = jaxpr_as_fun(vecmat)
        second, second_consts, _ = solver(
            transpose_solve, lambda y: tree.unflatten(b_tree, flat(*vecmat_consts, *tree.leaves(y))), "transpose_solve")
    consts = LinearSolve(product_consts, vecmat_consts, first_consts, second_consts)
    return result_tree.unflatten(_bind(consts, values, LinearSolve(product, vecmat, first, second)))


def _transposed(product: ClosedJaxpr, num_consts: int, avals) -> ClosedJaxpr:
    linear = (*(False,) * num_consts, *(True,) * len(avals))
    try:
        return transpose_program(product, linear, (True,) * len(avals), True)[0]
    except (NotImplementedError, TypeError) as e:
        raise type(e)(f"custom_linear_solve transposes matvec, {product.debug_info.func_src_info}, which must be linear in its "
                      f"argument. {e}") from None


def _check_functions(who: str, **functions) -> None:
    for name, f in functions.items():
        if not callable(f):
            raise errors.not_callable(who, f, name)


def _solution(who: str, found_tree, avals, has_aux: bool) -> tuple[Any, list]:
    """Tree and types of the solution among what a solver returns."""
    if not has_aux:
        return found_tree, list(avals)
    children = found_tree.children()
    if len(children) != 2 or found_tree.node_data() is None or found_tree.node_data()[0] is not tuple:
        raise ValueError(f"{who} must return a pair (solution, auxiliary data), because has_aux=True, but it returned a pytree "
                         f"{found_tree}.")
    return children[0], list(avals[:children[0].num_leaves])


def _check_like(who: str, what: str, wanted_tree, wanted, found_tree, found) -> None:
    """A result must have the structure and the shapes of what the function is given."""
    if found_tree != wanted_tree:
        raise TypeError(f"{who} must return a pytree like {what}, which is {wanted_tree}, but it returned {found_tree}.")
    _check_shapes(who, what, wanted_tree, wanted, found)


def _check_shapes(who: str, what: str, wanted_tree, wanted, found) -> None:
    if len(found) != len(wanted):
        raise ValueError(f"{who} must return the shapes of {what}, which has {len(wanted)} arrays: it returned {len(found)}.")
    for i, (x, y) in enumerate(zip(wanted, found)):
        if x.shape != y.shape:
            path = tree.path_of(tree.numbered(wanted_tree), i)
            raise ValueError(f"{who} must return the shapes of {what}: {what}{path} has shape {x.shape}, the result has "
                             f"{y.shape} there.")


# Roots


@boundary
def custom_root(f: Callable, initial_guess: Any, solve: Callable, tangent_solve: Callable, has_aux: bool = False) -> Any:
    """The root of a function that a given solver finds, with derivatives by the implicit function theorem.

    They are those in the values that `f` closes over; the root does not depend on the initial guess.

    - `f`, `initial_guess`: the function, and a pytree that its arguments and results are like.
    - `solve`: `solve(f, initial_guess)` gives the root.
    - `tangent_solve`: `tangent_solve(g, y)` solves `g(x) == y`, where `g` is `f` linearised at the root.
    - `has_aux`: `solve` returns a pair of the root and something to pass on beside it, without derivative.

    >>> def newton(f, x):
    ...     return lax.fori_loop(0, 20, lambda i, x: x - f(x) / xf.grad(f)(x), x)
    >>> def cube_root(a):
    ...     return lax.custom_root(lambda x: x ** 3 - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> float(xf.grad(cube_root)(8.0).round(4))  # 1 / 12
    0.08329999446868896
    """
    who = "custom_root"
    _check_functions(who, f=f, solve=solve, tangent_solve=tangent_solve)
    leaves, guess_tree = tree.flatten(initial_guess)
    guess = operands_of(leaves, who, initial_guess)
    avals = [tracing.aval_of(x) for x in guess]
    in_tree = tree.structure((initial_guess,))
    function, f_consts, out_tree = trace_function(f, in_tree, avals, who)
    _check_like(f"f of {who}", "initial_guess", guess_tree, avals, out_tree, function.out_avals)
    program, solve_consts, result_tree = trace_function(functools.partial(solve, f), in_tree, avals, f"{who} solve")
    root_tree, found = _solution(f"solve of {who}", result_tree, program.out_avals, has_aux)
    _check_like(f"solve of {who}", "initial_guess", guess_tree, avals, root_tree, found)

    def linearised(x, y):
        def flat(*xs):
            return tree.leaves(f(tree.unflatten(guess_tree, xs)))

        at = tree.leaves(x)
        _, derivative = linearize_flat(flat, at, (True,) * len(at))

        def g(x_dot):
            return tree.unflatten(out_tree, [instantiate(t) for t in derivative.apply(tree.leaves(x_dot))])

        return tangent_solve(g, y)

    linearised.__name__ = signatures.function_name(tangent_solve)
    at_root = tree.structure((initial_guess, initial_guess))
    moving = [a.to_tangent_aval() for a in function.out_avals]
    tangent, tangent_consts, tangent_tree = trace_function(linearised, at_root, [*found, *moving], f"{who} tangent_solve")
    _check_like(f"tangent_solve of {who}", "initial_guess", guess_tree, avals, tangent_tree, tangent.out_avals)

    num_f, num_solve, num_tangent = len(f_consts), len(solve_consts), len(tangent_consts)
    consts = [*f_consts, *solve_consts, *tangent_consts]
    # The solver as a program of what the rule reads, too.
    unread = [tracing.aval_of(x) for x in consts]
    solver = jaxpr_as_fun(program)
    whole = tracing.trace_to_closed_jaxpr(
        lambda *xs: solver(*xs[num_f:num_f + num_solve], *xs[len(consts):]), [*unread, *avals],
        DebugInfo("custom_root", who))

    def rule(primals, tangents):
        results = custom_jvp_call_p.bind(*primals, call_jaxpr=whole, **params)
        root = results[:len(guess)]
        zeros = [Zero(tracing.aval_of(x).to_tangent_aval()) for x in results]
        _, moved = jvp_flat(jaxpr_as_fun(function), [*primals[:num_f], *root], [*tangents[:num_f], *zeros[:len(guess)]])
        if all(type(t) is Zero for t in moved):
            return results, zeros
        solved = jaxpr_as_fun(tangent)(*primals[num_f + num_solve:num_f + num_solve + num_tangent], *root,
                              *[instantiate(t) for t in moved])
        return results, [*[_minus(z, t) for z, t in zip(zeros, solved)], *zeros[len(guess):]]

    params = {"jvp_jaxpr_fun": Rule(rule, who), "num_consts": 0, "symbolic_zeros": False}
    results = custom_jvp_call_p.bind(*consts, *guess, call_jaxpr=whole, **params)
    return result_tree.unflatten(map(as_array, results))  # some are numbers in the solver's program
