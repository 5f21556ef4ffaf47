"""`einsum` in two steps, plan and products, under the private names by which libraries replace its products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.compat.private_functions import promote_dtypes
from xlafront.core.typing import Array, DTypeLike
from xlafront.numpy.linear import einsum_step
from xlafront.symbolic.dimensions import known


def _default_poly_einsum_handler(*operands: Any, einsum_call: bool = True, use_blas: bool = True, optimize: Any = "auto"
                                 ) -> tuple[list, list]:
    """Return the operands and the steps of a contraction: as opt_einsum does, but also for symbolic sizes."""
    import opt_einsum  # start-up: it takes 16 ms

    arrays = [x for i, x in enumerate(operands) if _is_array(x, i, operands)]
    stand_ins = [np.broadcast_to(np.float32(0), tuple([known(n, 1000) for n in x.shape])) for x in arrays]
    made = iter(stand_ins)
    arguments = [next(made) if _is_array(x, i, operands) else x for i, x in enumerate(operands)]
    _, steps = opt_einsum.contract_path(*arguments, einsum_call=einsum_call, use_blas=use_blas, optimize=optimize)
    return arrays, list(steps)


def _is_array(x: Any, position: int, operands: Sequence) -> bool:
    """True if an argument of `einsum` is an array, not subscripts or labels."""
    if isinstance(operands[0], str):
        return position > 0
    return position % 2 == 0 and not (position == len(operands) - 1 and isinstance(x, (list, tuple)))


def _einsum(operands: Sequence[Any], contractions: Sequence[tuple], precision: Any, preferred_element_type: DTypeLike | None,
            _dot_general: Callable | None = None, out_sharding: Any = None) -> Array:
    """Contract operands step by step: each step names the operands that it removes and its subscripts."""
    arrays = promote_dtypes(*operands)
    for number, (positions, _, subscripts, *_) in enumerate(contractions, 1):
        taken = [arrays.pop(i) for i in positions]
        inputs, _, output = subscripts.partition("->")
        reordered = ",".join(inputs.split(",")[::-1])
        arrays.append(einsum_step(f"{reordered}->{output}", taken[::-1], precision, preferred_element_type, _dot_general,
                                  out_sharding if number == len(contractions) else None))
    [result] = arrays
    return result
