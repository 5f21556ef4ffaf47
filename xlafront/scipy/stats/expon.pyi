# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def cdf(x: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array: ...
def logcdf(x: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array: ...
def logpdf(x: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array: ...
def logsf(x: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array: ...
def pdf(x: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array:
    """Compute the probability density of the exponential distribution.

    Args:
        x: Points at which to evaluate.
        loc: Location parameter, the shift of the variable.
        scale: Scale parameter, the factor of the variable.

    Returns:
        Array of the broadcast shape of the arguments.
    """
def ppf(q: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array: ...
def sf(x: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array:
    """Compute the survival function (`1 - cdf`) of the exponential distribution.

    Args:
        x: Points at which to evaluate.
        loc: Location parameter, the shift of the variable.
        scale: Scale parameter, the factor of the variable.

    Returns:
        Array of the broadcast shape of the arguments.
    """
