"""Fusions that read and write references, as functions of arrays: what the references hold is among their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tree
from xlafront.core.discharge import discharge_program
from xlafront.core.refs import AbstractRef
from xlafront.core.traceback_filter import boundary
from xlafront.pallas.block_fusion import run_flat, trace


def _discharged(fusion: Callable, args: tuple, kwargs: dict) -> tuple[Callable, tuple, tuple, dict[int, int]]:
    """Return the function `(values, *args, **kwargs)`, the values, scalars, and the values that are written, by result."""
    traced = trace(fusion, args, kwargs)
    jaxpr, consts = traced.jaxpr, traced.consts
    is_scalar = [type(v.aval) is not AbstractRef and traced.is_scalar(v) for v in jaxpr.constvars]
    as_inputs = jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
    on_values, written = discharge_program(as_inputs)
    count, regular = len(jaxpr.outvars), [i for i, s in enumerate(is_scalar) if not s]

    def function(values: Sequence[Any], *args: Any, **kwargs: Any) -> tuple[Any, tuple]:
        operands = list(consts)
        for i, x in zip(regular, values, strict=True):
            operands[i] = x
        results = run_flat(on_values, [*operands, *tree.leaves((args, kwargs))])
        return traced.out_tree.unflatten(results[:count]), tuple(results[count:])

    scalars = tuple([c for c, s in zip(consts, is_scalar) if s])
    aliases = {count + k: regular.index(i) for k, i in enumerate(written)}
    return function, tuple([consts[i] for i in regular]), scalars, aliases


@boundary
def get_stateful_input_fusion_values(fusion: Callable, *args: Any, **kwargs: Any) -> tuple[Callable, tuple, tuple]:
    """Return a fusion that may read references as a function of arrays.

    Args:
        fusion: The fusion. What it writes to references is lost.
        args, kwargs: Arguments of the fusion, or their shapes and dtypes.

    Returns:
        A function `(values, *args, **kwargs)`; the values that need blocks, arrays and references, in whose places the function
        takes arrays; and scalars that only select positions of slices.

    Example:
        >>> ref = xf.new_ref(xnp.ones(3))
        >>> function, values, _ = pl.fuser.get_stateful_input_fusion_values(lambda: 2 * ref[...])
        >>> function((5 * xnp.ones(3),)), len(values)
        (Array([10., 10., 10.], dtype=float32), 1)
    """
    function, values, scalars, _ = _discharged(fusion, args, kwargs)
    return lambda *operands, **named: function(*operands, **named)[0], values, scalars


@boundary
def get_stateful_output_fusion_values(fusion: Callable, *args: Any, **kwargs: Any) -> tuple[Callable, tuple, tuple, dict]:
    """Return a fusion that may read and write references as a function of arrays, which also returns what it has written.

    Args:
        fusion: The fusion.
        args, kwargs: Arguments of the fusion, or their shapes and dtypes.

    Returns:
        A function `(values, *args, **kwargs)` that returns the results and a tuple of the new contents of references; the
        values that need blocks, arrays and references; scalars that only select positions of slices; and a dict from the number
        of each new content among all results to that of the value with the reference, for `input_output_aliases`.

    Example:
        >>> ref = xf.new_ref(xnp.zeros(3))
        >>> function, _, _, aliases = pl.fuser.get_stateful_output_fusion_values(lambda x: ref.__setitem__(..., x), xnp.ones(3))
        >>> function((xnp.zeros(3),), xnp.ones(3)), aliases
        ((None, (Array([1., 1., 1.], dtype=float32),)), {0: 0})
    """
    function, values, scalars, written = _discharged(fusion, args, kwargs)
    return function, values, scalars, written
