# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def cdf(x: _ArrayLike, beta: _ArrayLike) -> _Array: ...
def logpdf(x: _ArrayLike, beta: _ArrayLike) -> _Array: ...
def pdf(x: _ArrayLike, beta: _ArrayLike) -> _Array:
    """Compute the probability density of the generalized normal distribution.

    Args:
        x: Points at which to evaluate.
        beta: Shape parameter, the exponent.

    Returns:
        Array of the broadcast shape of the arguments.
    """
