"""Greatest common divisor and least common multiple."""

from __future__ import annotations

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import as_type, constant_like, div, mul, ne, rem_, where
from xlafront.lax.shapes import broadcast_in_dim
from xlafront.numpy.promotion import promote_args, within_setting
from xlafront.numpy.reductions import any as any_of
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library


def _magnitudes(name: str, x1, x2) -> list:
    """Return the absolute values of integers, with a common dtype and shape."""
    operands = promote_args(name, x1, x2)
    if not all(dtypes.is_integer(tracing.aval_of(x).dtype) for x in operands):
        raise ValueError(f"the arguments of numpy.{name} must be integers, got {tracing.aval_of(operands[0]).dtype}.")
    operands = [PUBLIC["absolute"](x) for x in operands]
    shape = max((tracing.aval_of(x).shape for x in operands), key=len)
    if shape:  # only scalar results are weakly typed
        operands = [as_type(x, tracing.aval_of(x).dtype, False) for x in operands]
    return [x if tracing.aval_of(x).shape == shape else broadcast_in_dim(x, shape, ()) for x in operands]


def _euclid(x, y):
    from xlafront.control.while_loop import while_loop  # start-up: with the rules for derivatives of loops it takes 20 ms

    def step(pair):
        x, y = pair
        active = ne(y, constant_like(y, 0))
        divisor = where(active, y, constant_like(y, 1))
        return where(active, y, x), where(active, rem_(x, divisor), y)

    return while_loop(lambda pair: any_of(ne(pair[1], constant_like(pair[1], 0))), step, (x, y))[0]


@library
@accepts(nodes=True)
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Compute the greatest common divisor elementwise.

    Args:
        x1, x2: Integers, broadcast to a common shape.

    Returns:
        Array of nonnegative integers. If one operand is 0, it is the absolute value of the other.

    Example:
        >>> xnp.gcd(xnp.array([12, 7]), 18)
        Array([6, 1], dtype=int32)
    """
    return _euclid(*_magnitudes("gcd", x1, x2))


@library
@accepts(nodes=True)
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Compute the least common multiple elementwise.

    Args:
        x1, x2: Integers, broadcast to a common shape.

    Returns:
        Array of nonnegative integers, 0 where an operand is 0.

    Example:
        >>> xnp.lcm(xnp.array([12, 7]), 18)
        Array([ 36, 126], dtype=int32)
    """
    x, y = map(within_setting, _magnitudes("lcm", x1, x2))
    divisor = _euclid(x, y)
    zero, one = constant_like(divisor, 0), constant_like(divisor, 1)
    return mul(div(x, where(ne(divisor, zero), divisor, one)), y)
