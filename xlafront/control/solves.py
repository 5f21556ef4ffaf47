"""`custom_root` and `custom_linear_solve`: solutions of equations with implicit derivatives, independent of the solver."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xlafront.core import errors, tracing, tree
from xlafront.core.basic_primitives import place_axis
from xlafront.core.discharge import discharge_program
from xlafront.core.effects import effects_by_operand
from xlafront.core.ir import DebugInfo, Jaxpr
from xlafront.core.primitive import Cost, Primitive, Structured, Traits
from xlafront.core.refs import is_ref
from xlafront.core.tangents import add_tangents, convert_cotangents, instantiate
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.elementwise import as_array, neg
from xlafront.staging import signatures
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import linearize_flat
from xlafront.transforms.ad.transpose import transpose_program
from xlafront.transforms.batching.vmap import batch_program, split_of
from xlafront.transforms.calls.custom_calls import Rule
from xlafront.transforms.calls.custom_jvp import custom_jvp_call_p
from xlafront.transforms.calls.programs import evaluate, fixpoint, operands_of, trace_function

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Dims, Marks, Params, Tangent
    from xlafront.transforms.batching.vmap import BatchTrace

# Linear systems. The operands of the primitive are the constants of its four jaxprs, in the order of `LinearSolve`, then the
# right-hand side. `vecmat` and `transpose_solve` are None if no transpose is available.


class LinearSolve(NamedTuple):
    """A quadruple of things belonging to the matrix product, the transposed product, and the solvers of either."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> LinearSolve:
        return LinearSolve(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def split_operands(operands: Sequence[Any], const_lengths: LinearSolve) -> tuple[LinearSolve, list[Any]]:
    """Split operands into the constants of each jaxpr and the right-hand side."""
    groups, start = [], 0
    for length in const_lengths:
        groups.append(list(operands[start:start + length]))
        start += length
    return LinearSolve(*groups), list(operands[start:])


def _bind(consts: LinearSolve, b: Sequence[Any], jaxprs: LinearSolve) -> list[Any]:
    return linear_solve_p.bind(*consts.matvec, *consts.vecmat, *consts.solve, *consts.transpose_solve, *b,
                               const_lengths=LinearSolve(*map(len, consts)), jaxprs=jaxprs)


def _lower(ctx: Any, *operands: Any, const_lengths: LinearSolve, jaxprs: LinearSolve) -> list[Any]:
    consts, b = split_operands(operands, const_lengths)
    return ctx.inline(jaxprs.solve, [*consts.solve, *b])


def _jvp(primals: Sequence[Any], tangents: Sequence[Tangent], *, const_lengths: LinearSolve, jaxprs: LinearSolve
         ) -> tuple[list[Any], list[Tangent]]:
    """Compute tangents by `A x' = b' - A' x`. Auxiliary outputs have zero tangents."""
    consts, b = split_operands(primals, const_lengths)
    consts_dot, b_dot = split_operands(tangents, const_lengths)
    outputs = _bind(consts, b, jaxprs)
    x, aux = outputs[:len(b)], outputs[len(b):]
    if any(type(t) is not Zero for t in consts_dot.matvec):
        zero_tangents = [Zero(tracing.aval_of(v).to_tangent_aval()) for v in x]
        _, matvec_tangents = jvp_flat(jaxprs.matvec, [*consts.matvec, *x], [*consts_dot.matvec, *zero_tangents])
        b_dot = [_minus(t, m) for t, m in zip(b_dot, matvec_tangents)]
    tangents_out: list[Tangent] = [Zero(tracing.aval_of(v).to_tangent_aval()) for v in outputs]
    if any(type(t) is not Zero for t in b_dot):
        rhs = [instantiate(t if type(t) is not Zero else z) for t, z in zip(b_dot, tangents_out)]
        tangents_out[:len(x)] = _bind(consts, rhs, jaxprs)[:len(x)]
    return [*x, *aux], tangents_out


def _minus(x: Tangent, y: Tangent) -> Tangent:
    if type(y) is Zero:
        return x
    y = neg(y)
    return y if type(x) is Zero else add_tangents(x, y)


def _transpose(cts: Sequence[Tangent], *operands: Any, const_lengths: LinearSolve, jaxprs: LinearSolve) -> list[Any]:
    consts, b = split_operands(operands, const_lengths)
    if jaxprs.transpose_solve is None:
        raise TypeError("reverse-mode differentiation (grad, vjp) of custom_linear_solve solves the transposed system: pass "
                        "transpose_solve(vecmat, b), or symmetric=True if matvec equals its transpose.")
    if any(map(is_undefined, operands[:len(operands) - len(b)])):
        raise NotImplementedError("custom_linear_solve is linear in b only: it cannot be transposed with respect to a value "
                                  "that matvec or one of the solvers closes over.")
    cts = convert_cotangents(cts[:len(b)], [x.aval for x in b])
    outputs = _bind(consts.transposed(), [instantiate(ct) for ct in cts], jaxprs.transposed())
    return [None] * (len(operands) - len(b)) + outputs[:len(b)]


def _batch(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, const_lengths: LinearSolve, jaxprs: LinearSolve
           ) -> tuple[list[Any], list[int | None]]:
    size, split = trace.size, split_of(operands, dims)
    _, b_dims = split_operands(dims, const_lengths)
    consts_dims, _ = split_operands([None if d is None else 0 for d in dims], const_lengths)

    def batched_jaxpr(field: str, flags: Marks) -> tuple[Jaxpr, list]:
        jaxpr = getattr(jaxprs, field)
        in_dims = (*getattr(consts_dims, field), *[0 if f else None for f in flags])
        aux_flags = (False,) * (len(jaxpr.out_avals) - len(flags))
        return batch_program(jaxpr, in_dims, trace, (*flags, *aux_flags), split=split)

    present_fields = [field for field in LinearSolve._fields if getattr(jaxprs, field) is not None]

    def grow(flags: Marks) -> list[bool]:
        # Right-hand sides and solutions get the same flags, so that each can be passed to each jaxpr.
        out_dims = [batched_jaxpr(field, flags)[1] for field in present_fields]
        return [any(ds[i] is not None for ds in out_dims) for i in range(len(flags))]

    flags = fixpoint([d is not None for d in b_dims], grow)
    batched_operands = [x if d is None else place_axis(x, d, 0, size, split) for x, d in zip(operands, dims)]
    consts, b = split_operands(batched_operands, const_lengths)
    b = [place_axis(x, 0 if d is not None else None, 0, size, split) if f else x for x, d, f in zip(b, b_dims, flags)]
    batched_jaxprs = LinearSolve(*[batched_jaxpr(field, flags)[0] if field in present_fields else None
                                   for field in LinearSolve._fields])
    return _bind(consts, b, batched_jaxprs), batched_jaxpr("solve", flags)[1]


def _start_of_solve(const_lengths: LinearSolve) -> int:
    return const_lengths.matvec + const_lengths.vecmat


def _discharge(primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: Params, keep_rules: bool
               ) -> tuple[list[Any], dict[int, Any]]:
    """Bind the solution on values in place of the references that the functions close over. Only the solver may write to them:
    their final values are auxiliary results."""
    const_lengths, jaxprs = params["const_lengths"], params["jaxprs"]
    is_ref, b = split_operands([r is not None for r in refs], const_lengths)
    found = [(None, []) if jaxpr is None else discharge_program(jaxpr, (*marks, *b), keep_rules)
             for jaxpr, marks in zip(jaxprs, is_ref)]
    discharged, written = LinearSolve(*[jaxpr for jaxpr, _ in found]), found[LinearSolve._fields.index("solve")][1]
    results = primitive.bind(*operands, const_lengths=const_lengths, jaxprs=discharged)
    count, start = len(jaxprs.solve.out_avals), _start_of_solve(const_lengths)
    return results[:count], dict(zip([start + i for i in written], results[count:]))


def _impl(*operands: Any, const_lengths: LinearSolve, jaxprs: LinearSolve) -> list[Any]:
    """Run the solver: compiled, or one by one if the functions close over references, which several of them may do."""
    if any(map(is_ref, operands)):
        consts, b = split_operands(operands, const_lengths)
        return jaxprs.solve(*consts.solve, *b)
    return evaluate(linear_solve_p, operands, {"const_lengths": const_lengths, "jaxprs": jaxprs}, jaxprs.solve)


linear_solve_p = Primitive(
    "custom_linear_solve", multiple_results=True, abstract=lambda *_, jaxprs, **params: jaxprs.solve.out_avals, lower=_lower,
    jvp=_jvp, transpose=_transpose, structured=Structured(discharge=_discharge),
    effects=lambda *_, jaxprs, const_lengths: effects_by_operand(jaxprs.solve, _start_of_solve(const_lengths)),
    impl=_impl, batch_with_axis=_batch,
    # Functions that only read a reference may all close over it.
    traits=Traits(memoise=False, cost=Cost.HEAVY, allows_ref_aliasing=True))


@boundary
def custom_linear_solve(matvec: Callable, b: Any, solve: Callable, transpose_solve: Callable | None = None,
                        symmetric: bool = False, has_aux: bool = False) -> Any:
    """Solve a linear system with a given solver, with implicit derivatives of the solution.

    Differentiation uses the linear system and not the operations of the solver.

    Args:
        matvec: Linear function from pytrees like `b` to pytrees like `b`. The system is `matvec(x) == b`.
        b: Right-hand side, a pytree of arrays.
        solve: Function `solve(matvec, b)` that returns the solution.
        transpose_solve: Function `transpose_solve(vecmat, b)` that solves the transposed system. Needed for reverse mode
            unless
            `symmetric` is True.
        symmetric: If True, `matvec` equals its transpose, and `solve` serves for both systems.
        has_aux: If True, the solvers return a pair of the solution and auxiliary data, which have no derivative.

    Returns:
        The solution, like `b`, or a pair of it and the auxiliary data if `has_aux` is True.

    Example:
        >>> lax.custom_linear_solve(lambda x: 4 * x, 2.0, lambda matvec, y: y / matvec(1.0), symmetric=True)
        Array(0.5, dtype=float32, weak_type=True)
    """
    caller = "custom_linear_solve"
    _check_functions(caller, matvec=matvec, solve=solve)
    leaves, b_tree = tree.flatten(b)
    values = operands_of(leaves, caller, b)
    avals = [tracing.aval_of(x) for x in values]
    in_tree = tree.structure((b,))
    matvec_jaxpr, matvec_consts, out_tree = trace_function(matvec, in_tree, avals, caller)
    _check_shapes(f"matvec of {caller}", "b", b_tree, avals, matvec_jaxpr.out_avals)
    _check_like(f"matvec of {caller}", "b", b_tree, avals, out_tree, matvec_jaxpr.out_avals)

    def solver(function: Callable, apply: Callable, role: str) -> tuple[Jaxpr, list[Any], Any]:
        # Solvers are retraced for each call: they close over `matvec`.
        jaxpr, consts, returned_tree = trace_function(functools.partial(function, apply), in_tree, avals, f"{caller} {role}")
        solution_tree, solution_avals = _solution_type(f"{role} of {caller}", returned_tree, jaxpr.out_avals, has_aux)
        _check_shapes(f"{role} of {caller}", "b", b_tree, avals, solution_avals)
        _check_like(f"{role} of {caller}", "b", b_tree, avals, solution_tree, solution_avals)
        return jaxpr, consts, returned_tree

    solve_jaxpr, solve_consts, result_tree = solver(solve, matvec, "solve")
    vecmat_jaxpr = transpose_jaxpr = None
    vecmat_consts: list = []
    transpose_consts: list = []
    if symmetric:
        vecmat_jaxpr, vecmat_consts = matvec_jaxpr, matvec_consts
        transpose_jaxpr, transpose_consts = solve_jaxpr, solve_consts
        if transpose_solve is not None:
            transpose_jaxpr, transpose_consts, _ = solver(transpose_solve, matvec, "transpose_solve")
    elif transpose_solve is not None:
        vecmat_jaxpr, vecmat_consts = _transpose_matvec(matvec_jaxpr, len(matvec_consts), avals), matvec_consts
        transpose_jaxpr, transpose_consts, _ = solver(
            transpose_solve, lambda y: tree.unflatten(b_tree, vecmat_jaxpr(*vecmat_consts, *tree.leaves(y))), "transpose_solve")
    consts = LinearSolve(matvec_consts, vecmat_consts, solve_consts, transpose_consts)
    return result_tree.unflatten(_bind(consts, values, LinearSolve(matvec_jaxpr, vecmat_jaxpr, solve_jaxpr, transpose_jaxpr)))


def _transpose_matvec(matvec: Jaxpr, num_consts: int, avals: Sequence[Aval]) -> Jaxpr:
    linear = (*(False,) * num_consts, *(True,) * len(avals))
    try:
        return transpose_program(matvec, linear, (True,) * len(avals), True)[0]
    except (NotImplementedError, TypeError) as e:
        raise type(e)(f"custom_linear_solve transposes matvec, {matvec.debug_info.label}, which must be linear in its "
                      f"argument. {e}") from None


def _check_functions(caller: str, **functions: Any) -> None:
    for name, f in functions.items():
        if not callable(f):
            raise errors.not_callable(caller, f, name)


def _solution_type(function: str, returned_tree: Any, avals: Sequence[Aval], has_aux: bool) -> tuple[Any, list[Aval]]:
    """Return the tree and types of the solution among the outputs of a solver."""
    if not has_aux:
        return returned_tree, list(avals)
    children = returned_tree.children()
    if len(children) != 2 or returned_tree.node_data() is None or returned_tree.node_data()[0] is not tuple:
        raise ValueError(
            f"{function} must return a pair (solution, auxiliary data), because has_aux=True, but it returned a pytree "
                         f"{returned_tree}.")
    return children[0], list(avals[:children[0].num_leaves])


def _check_like(function: str, argument: str, expected_tree: Any, expected: Sequence[Aval], returned_tree: Any,
                returned: Sequence[Aval]) -> None:
    """Raise unless a result has the tree and shapes of the expected argument."""
    if returned_tree != expected_tree:
        raise TypeError(
            f"{function} must return a pytree like {argument}, which is {expected_tree}, but it returned {returned_tree}.")
    _check_shapes(function, argument, expected_tree, expected, returned)


def _check_shapes(function: str, argument: str, expected_tree: Any, expected: Sequence[Aval], returned: Sequence[Aval]) -> None:
    if len(returned) != len(expected):
        raise ValueError(
            f"{function} must return the shapes of {argument}, which has {len(expected)} arrays: it returned {len(returned)}.")
    for i, (expected_aval, aval) in enumerate(zip(expected, returned)):
        if expected_aval.shape != aval.shape:
            path = tree.path_of(tree.leaf_indices(expected_tree), i)
            raise ValueError(
                f"{function} must return the shapes of {argument}: {argument}{path} has shape {expected_aval.shape}, the "
                f"result has {aval.shape} there.")


# Roots


@boundary
def custom_root(f: Callable, initial_guess: Any, solve: Callable, tangent_solve: Callable, has_aux: bool = False) -> Any:
    """Find a root of a function with a given solver, with derivatives by the implicit function theorem.

    The root is differentiable with respect to the values that `f` closes over, and does not depend on the initial guess.

    Args:
        f: Function whose root is sought, from pytrees like `initial_guess` to pytrees like `initial_guess`.
        initial_guess: Initial guess, a pytree of arrays.
        solve: Function `solve(f, initial_guess)` that returns the root.
        tangent_solve: Function `tangent_solve(g, y)` that solves `g(x) == y`, where `g` is `f` linearized at the root.
        has_aux: If True, `solve` returns a pair of the root and auxiliary data, which have no derivative.

    Returns:
        The root, like `initial_guess`, or a pair of it and the auxiliary data if `has_aux` is True.

    Example:
        >>> def newton(f, x):
        ...     return lax.fori_loop(0, 20, lambda i, x: x - f(x) / xf.grad(f)(x), x)
        >>> def cube_root(a):
        ...     return lax.custom_root(lambda x: x ** 3 - a, 1.0, newton, lambda g, y: y / g(1.0))
        >>> float(xf.grad(cube_root)(8.0).round(4))  # 1 / 12
        0.08329999446868896
    """
    caller = "custom_root"
    _check_functions(caller, f=f, solve=solve, tangent_solve=tangent_solve)
    leaves, guess_tree = tree.flatten(initial_guess)
    guess = operands_of(leaves, caller, initial_guess)
    avals = [tracing.aval_of(x) for x in guess]
    in_tree = tree.structure((initial_guess,))
    f_jaxpr, f_consts, out_tree = trace_function(f, in_tree, avals, caller)
    _check_like(f"f of {caller}", "initial_guess", guess_tree, avals, out_tree, f_jaxpr.out_avals)
    solve_jaxpr, solve_consts, result_tree = trace_function(functools.partial(solve, f), in_tree, avals, f"{caller} solve")
    root_tree, root_avals = _solution_type(f"solve of {caller}", result_tree, solve_jaxpr.out_avals, has_aux)
    _check_like(f"solve of {caller}", "initial_guess", guess_tree, avals, root_tree, root_avals)

    def solve_linearized(x: Any, y: Any) -> Any:
        def flat(*xs: Any) -> list[Any]:
            return tree.leaves(f(tree.unflatten(guess_tree, xs)))

        root_leaves = tree.leaves(x)
        _, derivative = linearize_flat(flat, root_leaves, (True,) * len(root_leaves))

        def g(x_dot: Any) -> Any:
            return tree.unflatten(out_tree, [instantiate(t) for t in derivative.apply(tree.leaves(x_dot))])

        return tangent_solve(g, y)

    solve_linearized.__name__ = signatures.function_name(tangent_solve)
    at_root = tree.structure((initial_guess, initial_guess))
    tangent_avals = [a.to_tangent_aval() for a in f_jaxpr.out_avals]
    tangent_jaxpr, tangent_consts, tangent_tree = trace_function(solve_linearized, at_root, [*root_avals, *tangent_avals],
                                                                 f"{caller} tangent_solve")
    _check_like(f"tangent_solve of {caller}", "initial_guess", guess_tree, avals, tangent_tree, tangent_jaxpr.out_avals)

    num_f, num_solve, num_tangent = len(f_consts), len(solve_consts), len(tangent_consts)
    consts = [*f_consts, *solve_consts, *tangent_consts]
    # The solver's jaxpr also takes the constants that only the rule reads.
    const_avals = [tracing.aval_of(x) for x in consts]
    root_jaxpr = tracing.trace_to_closed_jaxpr(
        lambda *xs: solve_jaxpr(*xs[num_f:num_f + num_solve], *xs[len(consts):]), [*const_avals, *avals],
        DebugInfo("custom_root", caller))

    def rule(primals: Sequence[Any], tangents: Sequence[Tangent]) -> tuple[list[Any], list[Tangent]]:
        results = custom_jvp_call_p.bind(*primals, call_jaxpr=root_jaxpr, **params)
        root = results[:len(guess)]
        zeros: list[Tangent] = [Zero(tracing.aval_of(x).to_tangent_aval()) for x in results]
        _, f_tangents = jvp_flat(f_jaxpr, [*primals[:num_f], *root], [*tangents[:num_f], *zeros[:len(guess)]])
        if all(type(t) is Zero for t in f_tangents):
            return results, zeros
        root_tangents = tangent_jaxpr(*primals[num_f + num_solve:num_f + num_solve + num_tangent], *root,
                                      *[instantiate(t) for t in f_tangents])
        return results, [*[_minus(z, t) for z, t in zip(zeros, root_tangents)], *zeros[len(guess):]]

    params = {"jvp_jaxpr_fun": Rule(rule, caller), "num_consts": 0, "symbolic_zeros": False}
    results = custom_jvp_call_p.bind(*consts, *guess, call_jaxpr=root_jaxpr, **params)
    return result_tree.unflatten(map(as_array, results))  # some may be Python scalars
