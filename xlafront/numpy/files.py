"""Arrays as text, and in files of NumPy's formats."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as _np

from xlafront.core.dtypes import bfloat16
from xlafront.core.typing import ArrayLike
from xlafront.numpy.creation import array


def array_repr(arr: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
               suppress_small: bool | None = None) -> str:
    """The text of an array, as `repr` gives it.

    - `arr`: the array.
    - `max_line_width`: the width at which lines break.
    - `precision`: the number of digits after the point.
    - `suppress_small`: whether very small numbers are written as 0.

    Without them the print options of NumPy hold.

    >>> xnp.array_repr(xnp.array([1.23456, 2.0]), precision=2)
    'Array([1.23, 2.  ], dtype=float32)'
    """
    with _np.printoptions(**{key: value for key, value in (
            ("linewidth", max_line_width), ("precision", precision), ("suppress", suppress_small)) if value is not None}):
        return repr(arr)


def array_str(a: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
              suppress_small: bool | None = None) -> str:
    """The text of an array's elements, as `str` gives it.

    - `a`: the array.
    - `max_line_width`: the width at which lines break.
    - `precision`: the number of digits after the point.
    - `suppress_small`: whether very small numbers are written as 0.

    >>> xnp.array_str(xnp.array([1.23456, 2.0]), precision=2)
    '[1.23 2.  ]'
    """
    return _np.array_str(_np.asarray(a), max_line_width, precision, suppress_small)


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True, fix_imports: Any = _np._NoValue) -> None:
    """Write an array to a file in NumPy's format.

    - `file`: a path, which gets the ending `.npy`, or an open file.
    - `arr`: the array.
    - `allow_pickle`, `fix_imports`: of NumPy's signature; arrays of numbers need neither.

    >>> import io
    >>> file = io.BytesIO()
    >>> xnp.save(file, xnp.array([1, 2]))
    >>> file.tell() > 0
    True
    """
    _np.save(file, _np.asarray(arr), allow_pickle)


def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write several arrays to one file in NumPy's format.

    - `file`: a path, which gets the ending `.npz`, or an open file.
    - `args`: arrays, which are called `arr_0`, `arr_1`, ... there.
    - `allow_pickle`: of NumPy's signature, for arrays of Python objects, which there are none of here.
    - `kwds`: arrays with names of their own.

    >>> import io
    >>> file = io.BytesIO()
    >>> xnp.savez(file, xnp.array([1, 2]), weights=xnp.ones(3))
    >>> _ = file.seek(0)
    >>> sorted(xnp.load(file))
    ['arr_0', 'weights']
    """
    _np.savez(file, *[_np.asarray(x) for x in args], **{name: _np.asarray(x) for name, x in kwds.items()})


def fromfile(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there: it would read a file, which no compiled function can do. The error that it raises says what to use.

    - `args`, `kwargs`: of NumPy's signature.

    >>> xnp.fromfile("numbers.bin")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    NotImplementedError: xnp.fromfile is not implemented, ...
    """
    raise NotImplementedError("xnp.fromfile is not implemented, because it would read a file while a program is traced. Use "
                              "xnp.asarray(np.fromfile(...)).")


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array, or a dictionary of them, that `save` or `savez` wrote.

    Files of NumPy's name no dtypes but NumPy's: elements of two unnamed bytes are read as bfloat16, others are left to NumPy.

    - `file`: a path or an open file.
    - `args`, `kwargs`: more arguments of `numpy.load`.

    >>> import io
    >>> file = io.BytesIO()
    >>> xnp.save(file, xnp.array([1, 2]))
    >>> _ = file.seek(0)
    >>> xnp.load(file)
    Array([1, 2], dtype=int32)
    """
    found = _np.load(file, *args, **kwargs)
    if not isinstance(found, _np.ndarray):
        return found
    if found.dtype.kind == "V":  # NumPy's files do not name dtypes of others
        if found.dtype != _np.dtype("V2"):
            return found
        found = found.view(bfloat16)
    return array(found)
