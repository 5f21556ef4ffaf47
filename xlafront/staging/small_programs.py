"""Which programs are compiled with options that cost little time: those whose compilation takes longer than their runs.

XLA has two ways to write kernels for CPUs. The older one takes half of the time. Its kernels are as fast as the others, but
where they write into the memory that they read, which happens between the kernels of a program, in loops above all: these
are not vectorized. So a program is small if that could not be seen.
"""

from __future__ import annotations

import math

from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, JaxprEqn, subprograms

# What the older way rounds otherwise, as it does with the types of few bits. It lacks `clamp` of bools; scatters are slower.
_OTHERWISE = frozenset(["cbrt", "tan"])
_FEW_BITS = frozenset([dtypes.float16, *dtypes.small_floats, *dtypes.small_ints])
_LOOPS = frozenset(["while", "scan"])
_PRODUCTS = frozenset(["dot_general", "conv_general_dilated"])
# Operations whose operands and results lie in memory; the others may become parts of one kernel.
_APART = frozenset(["sort", "fft", "cholesky", "lu", "qr", "eigh", "eig", "svd", "triangular_solve", "custom_linear_solve",
                    "cond", *_PRODUCTS, *_LOOPS])

# What an operation takes for an element that is not vectorized, in nanoseconds: measured, in loops of one kernel.
_MOVES, _OTHERS = 0.1, 0.3
_TIMES = {
    "exp": 3, "exp2": 3, "expm1": 6, "log": 4, "log1p": 7, "logistic": 3, "tanh": 2, "sqrt": 1, "rsqrt": 2, "div": 1,
    "sinh": 12, "cosh": 6, "asinh": 15, "acosh": 13, "atanh": 13, "erf": 2, "erfc": 7, "erf_inv": 12, "lgamma": 30,
    "digamma": 100, "bessel_i0e": 11, "bessel_i1e": 11, "threefry2x32": 9, "zeta": 100, "polygamma": 100,
    "igamma": 300, "igammac": 300, "igamma_grad_a": 300, "random_gamma": 500, "random_gamma_grad": 300,
    "regularized_incomplete_beta": 300,
}
_LOOPS_INSIDE = 100  # what takes as long has loops, or branches
_CALL, _OPERATION = 4000.0, 400.0  # nanoseconds of a program's run: the call, and an operation of few elements
_SHARE = 0.15  # of it, which nobody sees
_IN_A_LOOP = 20.0  # nanoseconds that an operation may take there

_OPERATIONS, _OPERATIONS_WITH_LOOPS = 1000, 100
_ELEMENTS = 2**14
_OF_PRODUCTS = 2**10
_REPETITIONS = 64
_FEW_KERNELS = 16


def is_small(jaxpr: Jaxpr, donates: bool = False) -> bool:
    """Whether a program has operations on small arrays alone; `donates`: whether it is given the memory of arguments."""
    operations = _operations(jaxpr, _OPERATIONS)
    if operations is None:
        return False
    names = {eqn.primitive.name for eqn in operations}
    has_loops = not names.isdisjoint(_LOOPS)
    if has_loops and len(operations) > _OPERATIONS_WITH_LOOPS or names & _OTHERWISE:
        return False
    together = len(operations) <= _FEW_KERNELS and not donates and names.isdisjoint(_APART) and all([
        _TIMES.get(eqn.primitive.name, 0) < _LOOPS_INSIDE if eqn.primitive.broadcasts_scalars else eqn.primitive.cost == "cheap"
        for eqn in operations])  # one kernel, likely
    total, most = 0.0, _IN_A_LOOP if has_loops else _SHARE * (_CALL + _OPERATION * len(operations))
    for eqn in operations:
        name = eqn.primitive.name
        avals = [v.aval for v in (*eqn.invars, *eqn.outvars) if isinstance(v.aval, ShapedArray)]
        elements = max([math.prod(aval.shape) for aval in avals], default=0)
        if (elements > (_OF_PRODUCTS if name in _PRODUCTS else _ELEMENTS) or any([aval.dtype in _FEW_BITS for aval in avals])
                or name.startswith("scatter") or name == "clamp" and eqn.outvars[0].aval.dtype == bool):
            return False
        if next(subprograms(eqn.params), None) is None and name not in _APART:
            moves = eqn.primitive.cost == "cheap" and not eqn.primitive.broadcasts_scalars
            time = elements * (_MOVES if moves else _TIMES.get(name, _OTHERS))
            total = max(total, time) if has_loops else total + time
    return (together or total <= most) and _repetitions(jaxpr) <= _REPETITIONS


def has_few_kernels(jaxpr: Jaxpr) -> bool:
    """Whether the kernels of a program are few enough to be compiled together."""
    return _operations(jaxpr, _FEW_KERNELS) is not None


def _operations(jaxpr: Jaxpr, most: int) -> list[JaxprEqn] | None:
    """Those of a program and of the programs in it; None where there are more than `most`."""
    found: list[JaxprEqn] = []
    waiting = [jaxpr]
    while waiting:
        eqns = waiting.pop().eqns
        if len(found) + len(eqns) > most:
            return None
        found += eqns
        for eqn in eqns:
            waiting += subprograms(eqn.params)
    return found


def _repetitions(jaxpr: Jaxpr) -> int:
    """How often a kernel may contain the computation of one value: once for each way to index it. In the older way it is
    written out as often, and who reads `x` and `x[::-1]` in each of many steps has twice as much with each step."""
    in_place: dict = dict.fromkeys(jaxpr.outvars, 1)  # by operations that index operands as their result is indexed
    otherwise: dict = {}
    most = 1
    for eqn in reversed(jaxpr.eqns):
        apart = eqn.primitive.name in _APART
        times = 1 if apart else max([in_place.get(v, 0) + otherwise.get(v, 0) for v in eqn.outvars], default=0)
        inside = max(map(_repetitions, subprograms(eqn.params)), default=1)
        most = max(most, times, inside)
        if most > _REPETITIONS:
            break
        for v in eqn.invars:
            if v.is_literal:
                continue
            if eqn.primitive.broadcasts_scalars:
                in_place[v] = max(in_place.get(v, 0), times)
            else:
                otherwise[v] = otherwise.get(v, 0) + times * (1 if apart else inside)
    return most
