# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def cdf(k: _ArrayLike, mu: _ArrayLike, loc: _ArrayLike = 0) -> _Array: ...
def entropy(mu: _ArrayLike, loc: _ArrayLike = 0) -> _Array: ...
def logpmf(k: _ArrayLike, mu: _ArrayLike, loc: _ArrayLike = 0) -> _Array: ...
def pmf(k: _ArrayLike, mu: _ArrayLike, loc: _ArrayLike = 0) -> _Array:
    """Compute the probability mass of the Poisson distribution.

    Args:
        k: Integer-valued points at which to evaluate.
        mu: Mean.
        loc: Location parameter, the shift of the variable.

    Returns:
        Array of the broadcast shape of the arguments.
    """
