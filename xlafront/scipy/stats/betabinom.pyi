# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def logpmf(k: _ArrayLike, n: _ArrayLike, a: _ArrayLike, b: _ArrayLike, loc: _ArrayLike = 0) -> _Array: ...
def pmf(k: _ArrayLike, n: _ArrayLike, a: _ArrayLike, b: _ArrayLike, loc: _ArrayLike = 0) -> _Array:
    """Compute the probability mass of the beta-binomial distribution.

    Args:
        k: Integer-valued points at which to evaluate.
        n: Number of trials.
        a: First shape parameter of the beta distribution.
        b: Second shape parameter of the beta distribution.
        loc: Location parameter, the shift of the variable.

    Returns:
        Array of the broadcast shape of the arguments.
    """
