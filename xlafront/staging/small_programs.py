"""Which programs are compiled with options that cost little time: those whose compilation takes longer than their runs.

XLA has two ways to write kernels for CPUs. The older one takes half of the time and makes kernels that are as fast on small
arrays, but for what is listed here.
"""

from __future__ import annotations

import math

from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, JaxprEqn, subprograms

# What the older way rounds otherwise, as it does with the types of few bits. It lacks `clamp` of bools; scatters are slower.
_OTHERWISE = frozenset(["cbrt", "tan"])
_FEW_BITS = frozenset([dtypes.float16, *dtypes.small_floats, *dtypes.small_ints])
_LONG = frozenset(["exp", "expm1", "logistic", "tanh"])  # cheap to run, of many instructions
_LOOPS = frozenset(["while", "scan"])
# Operations whose operands and results lie in memory; the others may become parts of one kernel.
_APART = frozenset(["dot_general", "conv_general_dilated", "sort", "fft", "cholesky", "lu", "qr", "eigh", "eig", "svd",
                    "triangular_solve", "custom_linear_solve", "cond", *_LOOPS])

_OPERATIONS, _OPERATIONS_WITH_LOOPS = 1000, 100
_ELEMENTS = 2**14  # of arrays that are moved, computed cheaply or one by one, or have no dimension above `_SIZE`
_FEW_ELEMENTS = 2**10  # of others
_SIZE = 8
_REPETITIONS = 64
_FEW_KERNELS, _FEW_SMALL_KERNELS = 16, 100


def is_small(jaxpr: Jaxpr, donates: bool = False) -> bool:
    """Whether a program has operations on small arrays alone; `donates`: whether it is given the memory of arguments.

    Kernels that write where they read are not vectorized in the older way. Loops, which may run often, have such: they must
    move elements, compute cheaply or have few of them. Elsewhere that is seen with more than some thousand elements: such may
    be computed one by one, in programs that are likely to be one kernel.
    """
    operations = _operations(jaxpr, _OPERATIONS)
    if operations is None:
        return False
    has_loops = any([eqn.primitive.name in _LOOPS for eqn in operations])
    one_kernel = len(operations) <= _FEW_KERNELS and not donates and not any([
        eqn.primitive.name in _APART for eqn in operations])
    if has_loops and len(operations) > _OPERATIONS_WITH_LOOPS:
        return False
    for eqn in operations:
        name = eqn.primitive.name
        if name in _OTHERWISE or name.startswith("scatter") or name == "clamp" and eqn.outvars[0].aval.dtype == bool:
            return False
        calls = next(subprograms(eqn.params), None) is not None
        if calls or eqn.primitive.cost == "cheap" and name not in _LONG or one_kernel and eqn.primitive.broadcasts_scalars:
            most = _ELEMENTS
        else:
            most = 0 if has_loops else _FEW_ELEMENTS
        for aval in [v.aval for v in (*eqn.invars, *eqn.outvars) if isinstance(v.aval, ShapedArray)]:
            if math.prod(aval.shape) > (_ELEMENTS if max(aval.shape, default=0) <= _SIZE else most) or aval.dtype in _FEW_BITS:
                return False
    return _repetitions(jaxpr) <= _REPETITIONS


def has_few_kernels(jaxpr: Jaxpr, small: bool) -> bool:
    """Whether the kernels of a program are few enough to be compiled together."""
    return _operations(jaxpr, _FEW_SMALL_KERNELS if small else _FEW_KERNELS) is not None


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
