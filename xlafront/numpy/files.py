"""Arrays as text, and in files of NumPy's formats."""

from __future__ import annotations

import numpy as _np

from xlafront.numpy.creation import array


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


def fromfile(*args, **kwargs):
    """Not there: it would read a file, which no compiled function can do. The error that it raises says what to use."""
    raise NotImplementedError("xnp.fromfile is not implemented, because it would read a file while a program is traced. Use "
                              "xnp.asarray(np.fromfile(...)).")


def load(file, *args, **kwargs):
    """Read an array, or a dictionary of them, that `save` or `savez` wrote."""
    found = _np.load(file, *args, **kwargs)
    return array(found) if isinstance(found, _np.ndarray) else found  # noqa: F821
