# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def logpdf(x: _ArrayLike, alpha: _ArrayLike) -> _Array: ...
def pdf(x: _ArrayLike, alpha: _ArrayLike) -> _Array:
    """Compute the probability density of the Dirichlet distribution.

    Args:
        x: Points of the simplex, with the components along the first axis; the last component may be omitted. The
            density is 0 outside the simplex.
        alpha: Concentration of each component, a vector.

    Returns:
        Array with the shape of `x` without its first axis.
    """
