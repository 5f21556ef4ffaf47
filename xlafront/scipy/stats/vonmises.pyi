# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def logpdf(x: _ArrayLike, kappa: _ArrayLike) -> _Array: ...
def pdf(x: _ArrayLike, kappa: _ArrayLike) -> _Array:
    """Compute the probability density of the von Mises distribution.

    Args:
        x: Points at which to evaluate.
        kappa: Concentration, not negative.

    Returns:
        Array of the broadcast shape of the arguments.
    """
