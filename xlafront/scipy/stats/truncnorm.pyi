# Written by `python -m tests.stubs`.
from xlafront.core.typing import Array as _Array
from xlafront.core.typing import ArrayLike as _ArrayLike

def cdf(x: _ArrayLike, a: _ArrayLike, b: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array:
    """Compute the cumulative distribution function of the truncated normal distribution.

    Args:
        x: Points at which to evaluate.
        a: Lower bound of the standardized variable.
        b: Upper bound of the standardized variable.
        loc: Location parameter, the shift of the variable.
        scale: Scale parameter, the factor of the variable.

    Returns:
        Array of the broadcast shape of the arguments.
    """
def logcdf(x: _ArrayLike, a: _ArrayLike, b: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array: ...
def logpdf(x: _ArrayLike, a: _ArrayLike, b: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array: ...
def logsf(x: _ArrayLike, a: _ArrayLike, b: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array: ...
def pdf(x: _ArrayLike, a: _ArrayLike, b: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array:
    """Compute the probability density of the truncated normal distribution.

    Args:
        x: Points at which to evaluate.
        a: Lower bound of the standardized variable.
        b: Upper bound of the standardized variable.
        loc: Location parameter, the shift of the variable.
        scale: Scale parameter, the factor of the variable.

    Returns:
        Array of the broadcast shape of the arguments.
    """
def sf(x: _ArrayLike, a: _ArrayLike, b: _ArrayLike, loc: _ArrayLike = 0, scale: _ArrayLike = 1) -> _Array:
    """Compute the survival function (`1 - cdf`) of the truncated normal distribution.

    Args:
        x: Points at which to evaluate.
        a: Lower bound of the standardized variable.
        b: Upper bound of the standardized variable.
        loc: Location parameter, the shift of the variable.
        scale: Scale parameter, the factor of the variable.

    Returns:
        Array of the broadcast shape of the arguments.
    """
