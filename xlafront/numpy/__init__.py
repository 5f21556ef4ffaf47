"""NumPy's functions on XLA arrays, for eager use and inside traced functions.

>>> import xlafront.numpy as xnp
>>> xnp.linspace(0, 1, 5) ** 2
"""

import numpy as _np

from xlafront.core.dtypes import promote_types as promote_types, result_type as result_type
from xlafront.numpy import (
    array_methods as _array_methods,
    creation as _creation,
    indexing as _indexing,
    linear as _linear,
    manipulation as _manipulation,
    reductions as _reductions,
    scalar_types as _scalar_types,
    sorting as _sorting,
    ufuncs as _ufuncs,
)

_MODULES = {
    _creation: """arange array asarray astype copy empty empty_like eye frombuffer fromfunction fromiter fromstring full
        full_like geomspace identity linspace logspace meshgrid ones ones_like tri tril triu zeros zeros_like""",
    _indexing: """argwhere choose compress extract flatnonzero nonzero take take_along_axis""",
    _linear: """cross dot einsum einsum_path inner kron matmul matvec outer tensordot vdot vecdot vecmat""",
    _manipulation: """allclose append array_equal array_split atleast_1d atleast_2d atleast_3d block broadcast_arrays
        broadcast_shapes broadcast_to clip column_stack concat concatenate diag diagflat diagonal dsplit dstack
        expand_dims flip fliplr flipud hsplit hstack matrix_transpose moveaxis ndim pad permute_dims ravel repeat reshape
        roll rollaxis rot90 select shape size split squeeze stack swapaxes tile trace transpose unstack vsplit vstack
        where""",
    _reductions: """all amax amin any argmax argmin average count_nonzero cumprod cumsum max mean median min nanmax
        nanmean nanmin nanprod nanstd nansum nanvar prod ptp std sum var""",
    _scalar_types: "can_cast finfo iinfo iscomplexobj isdtype isrealobj isscalar issubdtype iterable",
    _sorting: """argpartition argsort bincount digitize histogram_bin_edges lexsort partition percentile quantile
        searchsorted sort sort_complex""",
    _ufuncs: "around power round isclose",
}
for _module, _names in _MODULES.items():
    globals().update({_name: getattr(_module, _name) for _name in _names.split()})
globals().update(_ufuncs.PUBLIC)
globals().update(_scalar_types.TYPES)

e, pi, euler_gamma, inf, nan, newaxis = _np.e, _np.pi, _np.euler_gamma, _np.inf, _np.nan, None
get_printoptions, set_printoptions, printoptions = _np.get_printoptions, _np.set_printoptions, _np.printoptions
index_exp, s_ = _np.index_exp, _np.s_
ComplexWarning = _np.exceptions.ComplexWarning
ndarray = _array_methods.Array


def array_repr(arr, max_line_width=None, precision=None, suppress_small=None):
    """The text of an array, as `repr` gives it."""
    with _np.printoptions(**{key: value for key, value in (
            ("linewidth", max_line_width), ("precision", precision), ("suppress", suppress_small)) if value is not None}):
        return repr(arr)


def array_str(a, max_line_width=None, precision=None, suppress_small=None):
    """The text of an array's elements, as `str` gives it."""
    return _np.array_str(_np.asarray(a), max_line_width, precision, suppress_small)


def save(file, arr, allow_pickle=True, fix_imports=_np._NoValue):
    """Write an array to a file in NumPy's format."""
    _np.save(file, _np.asarray(arr), allow_pickle)


def savez(file, *args, **kwds):
    """Write several arrays to one file in NumPy's format."""
    _np.savez(file, *[_np.asarray(x) for x in args], **{name: _np.asarray(x) for name, x in kwds.items()})


def load(file, *args, **kwargs):
    """Read an array, or a dictionary of them, that `save` or `savez` wrote."""
    found = _np.load(file, *args, **kwargs)
    return array(found) if isinstance(found, _np.ndarray) else found  # noqa: F821


def from_dlpack(x, /, *, device=None, copy=None):
    """An array that shares memory, where it can, with one of another library."""
    from xlafront.dlpack import from_dlpack as convert

    return convert(x, device=device, copy=copy)


def __getattr__(name: str):
    if name != "linalg":
        raise AttributeError(f"xlafront.numpy has no attribute {name!r}")
    from importlib import import_module

    return import_module("xlafront.numpy.linalg")
