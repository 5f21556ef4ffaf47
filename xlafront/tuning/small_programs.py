"""Small programs: those that take longer to compile than to run.

XLA has two emitters of kernels for CPUs. The older one takes half of the compile time. Its kernels are as fast, except those
that write to the memory that they read, which are not vectorized; these occur between the kernels of a program, above all in
loops. So a program is small if that would not be noticed.
"""

from __future__ import annotations

import math

from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, JaxprEqn, subprograms
from xlafront.core.primitive import Cost
from xlafront.core.refs import AbstractRef

# Functions that the older emitter rounds otherwise, as it does with narrow types. Its scatters are slower.
_ROUNDED_OTHERWISE = frozenset(["cbrt", "tan"])
_NARROW = frozenset([dtypes.float16, *dtypes.small_floats, *dtypes.small_ints])
_LOOPS = frozenset(["while", "scan"])
_PRODUCTS = frozenset(["dot_general", "conv_general_dilated"])
# Operations whose operands and results are in memory; others may be fused into one kernel.
_UNFUSED = frozenset(["sort", "fft", "cholesky", "lu", "qr", "eigh", "eig", "svd", "triangular_solve", "custom_linear_solve",
                      "cond", *_PRODUCTS, *_LOOPS])

# Nanoseconds that an operation takes for an element without vectorization: measured, in loops of one kernel.
_DATA_MOVEMENT, _OTHERS = 0.1, 0.3
_TIMES = {
    "exp": 3, "exp2": 3, "expm1": 6, "log": 4, "log2": 4, "log1p": 7, "logistic": 3, "tanh": 2, "sqrt": 1, "rsqrt": 2, "div": 1,
    "sinh": 12, "cosh": 6, "asinh": 15, "acosh": 13, "atanh": 13, "erf": 2, "erfc": 7, "erf_inv": 12, "lgamma": 30,
    "digamma": 100, "bessel_i0e": 11, "bessel_i1e": 11, "threefry2x32": 9, "zeta": 100, "polygamma": 100,
    "igamma": 300, "igammac": 300, "igamma_grad_a": 300, "random_gamma": 500, "random_gamma_grad": 300,
    "regularized_incomplete_beta": 300,
}
_LOOPS_INSIDE = 100  # operations that take so long have loops or branches
_CALL, _OPERATION = 4000.0, 400.0  # nanoseconds of a program's run: the call, and an operation of few elements
_SHARE = 0.15  # of it, which is not noticed
_IN_A_LOOP = 20.0  # nanoseconds that an operation may take in a loop

_OPERATIONS, _OPERATIONS_WITH_LOOPS = 1000, 100
_ELEMENTS, _ELEMENTS_OF_PRODUCTS = 2**14, 2**10
_REPETITIONS = 64
_FEW_KERNELS = 16


def is_small(jaxpr: Jaxpr, donates: bool = False) -> bool:
    """True if all operations of a program are on small arrays; `donates`: it may reuse the memory of arguments."""
    operations = _operations(jaxpr, _OPERATIONS)
    if operations is None:
        return False
    names = {eqn.primitive.name for eqn in operations}
    has_loops = not names.isdisjoint(_LOOPS)
    if has_loops and len(operations) > _OPERATIONS_WITH_LOOPS or any(map(_emitters_differ, operations)):
        return False
    is_one_kernel = len(operations) <= _FEW_KERNELS and not donates and names.isdisjoint(_UNFUSED) and all([
        _TIMES.get(eqn.primitive.name, 0) < _LOOPS_INSIDE if eqn.primitive.traits.broadcasts_scalars
        else eqn.primitive.traits.cost is Cost.CHEAP
        for eqn in operations])  # likely
    total, most = 0.0, _IN_A_LOOP if has_loops else _SHARE * (_CALL + _OPERATION * len(operations))
    for eqn in operations:
        name = eqn.primitive.name
        avals = [v.aval for v in (*eqn.invars, *eqn.outvars) if isinstance(v.aval, ShapedArray)]
        elements = max([math.prod(aval.shape) for aval in avals], default=0)
        limit = _ELEMENTS_OF_PRODUCTS if name in _PRODUCTS else _ELEMENTS
        if elements > limit or name.startswith("scatter"):
            return False
        if next(subprograms(eqn.params), None) is None and name not in _UNFUSED:
            only_copies = eqn.primitive.traits.cost is Cost.CHEAP and not eqn.primitive.traits.broadcasts_scalars
            time = elements * (_DATA_MOVEMENT if only_copies else _TIMES.get(name, _OTHERS))
            total = max(total, time) if has_loops else total + time
    return (is_one_kernel or total <= most) and _repetitions(jaxpr) <= _REPETITIONS


def emitters_agree(jaxpr: Jaxpr) -> bool:
    """True if both emitters can compile a program, and round its results alike."""
    return not any(map(_emitters_differ, _operations(jaxpr, math.inf) or ()))


def _emitters_differ(eqn: JaxprEqn) -> bool:
    name = eqn.primitive.name
    if name in _ROUNDED_OTHERWISE or name == "clamp" and eqn.outvars[0].aval.dtype == bool:  # the older one lacks it
        return True
    return any([isinstance(v.aval, (ShapedArray, AbstractRef)) and v.aval.dtype in _NARROW
                for v in (*eqn.invars, *eqn.outvars)])


def has_few_kernels(jaxpr: Jaxpr) -> bool:
    """True if a program has few enough kernels to compile them together."""
    return _operations(jaxpr, _FEW_KERNELS) is not None


def _operations(jaxpr: Jaxpr, most: float) -> list[JaxprEqn] | None:
    """Return the equations of a program and of the programs in it; None if there are more than `most`."""
    found: list[JaxprEqn] = []
    pending = [jaxpr]
    while pending:
        eqns = pending.pop().eqns
        if len(found) + len(eqns) > most:
            return None
        found += eqns
        for eqn in eqns:
            pending += subprograms(eqn.params)
    return found


def _repetitions(jaxpr: Jaxpr) -> int:
    """Return how often a kernel may contain the computation of one value: once for each way to index it.

    The older emitter repeats it as often: reading `x` and `x[::-1]` in each of many steps doubles the code with each step.
    """
    same_index: dict = dict.fromkeys(jaxpr.outvars, 1)  # reads by operations that index operands like their result
    other_index: dict = {}
    most = 1
    for eqn in reversed(jaxpr.eqns):
        is_unfused = eqn.primitive.name in _UNFUSED
        times = 1 if is_unfused else max([same_index.get(v, 0) + other_index.get(v, 0) for v in eqn.outvars], default=0)
        inside = max(map(_repetitions, subprograms(eqn.params)), default=1)
        most = max(most, times, inside)
        if most > _REPETITIONS:
            break
        for v in eqn.invars:
            if v.is_literal:
                continue
            if eqn.primitive.traits.broadcasts_scalars:
                same_index[v] = max(same_index.get(v, 0), times)
            else:
                other_index[v] = other_index.get(v, 0) + times * (1 if is_unfused else inside)
    return most
