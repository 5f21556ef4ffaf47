# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def logpmf(x: _ArrayLike, n: _ArrayLike, p: _ArrayLike) -> _Array: ...
def pmf(x: _ArrayLike, n: _ArrayLike, p: _ArrayLike) -> _Array:
    """Compute the probability mass of the multinomial distribution.

    Args:
        x: Counts of each outcome, along the last axis.
        n: Number of trials. The probability is 0 where the counts do not sum to it.
        p: Probability of each outcome.

    Returns:
        Array with the shape of `x` without its last axis.
    """
