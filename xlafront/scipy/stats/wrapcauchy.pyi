# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def logpdf(x: _ArrayLike, c: _ArrayLike) -> _Array: ...
def pdf(x: _ArrayLike, c: _ArrayLike) -> _Array:
    """Compute the probability density of the wrapped Cauchy distribution.

    Args:
        x: Points at which to evaluate.
        c: Concentration, between 0 and 1.

    Returns:
        Array of the broadcast shape of the arguments.
    """
