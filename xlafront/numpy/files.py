"""Text representations of arrays, arrays from buffers and texts, and files in NumPy's formats."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as _np

from xlafront.core.dtypes import bfloat16, dtype as dtype_of
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.numpy.creation import array


def array_repr(arr: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
               suppress_small: bool | None = None) -> str:
    """Return the representation of an array, as `repr` does.

    Args:
        arr: The array.
        max_line_width: Maximum line width. Default: NumPy's print options, as for the other parameters.
        precision: Number of digits after the decimal point.
        suppress_small: If True, print very small numbers as 0.

    Returns:
        The text.

    Example:
        >>> xnp.array_repr(xnp.array([1.23456, 2.0]), precision=2)
        'Array([1.23, 2.  ], dtype=float32)'
    """
    with _np.printoptions(**{key: value for key, value in (
            ("linewidth", max_line_width), ("precision", precision), ("suppress", suppress_small)) if value is not None}):
        return repr(arr)


def array_str(a: ArrayLike, max_line_width: int | None = None, precision: int | None = None,
              suppress_small: bool | None = None) -> str:
    """Return the elements of an array as text, as `str` does.

    Args:
        a: The array.
        max_line_width: Maximum line width. Default: NumPy's print options, as for the other parameters.
        precision: Number of digits after the decimal point.
        suppress_small: If True, print very small numbers as 0.

    Returns:
        The text.

    Example:
        >>> xnp.array_str(xnp.array([1.23456, 2.0]), precision=2)
        '[1.23 2.  ]'
    """
    return _np.array_str(_np.asarray(a), max_line_width, precision, suppress_small)


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True, fix_imports: Any = _np._NoValue) -> None:
    """Write an array to a file in NumPy's `.npy` format.

    Args:
        file: A path, to which `.npy` is appended if missing, or an open file.
        arr: The array.
        allow_pickle, fix_imports: Accepted for compatibility with NumPy; numeric arrays need neither.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> xnp.save(file, xnp.array([1, 2]))
        >>> file.tell() > 0
        True
    """
    _np.save(file, _np.asarray(arr), allow_pickle)


def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write several arrays to one file in NumPy's `.npz` format.

    Args:
        file: A path, to which `.npz` is appended if missing, or an open file.
        args: Arrays that are stored as `arr_0`, `arr_1`, ...
        allow_pickle: Accepted for compatibility with NumPy; only arrays of Python objects need it.
        kwds: Arrays that are stored under these names.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> xnp.savez(file, xnp.array([1, 2]), weights=xnp.ones(3))
        >>> _ = file.seek(0)
        >>> sorted(xnp.load(file))
        ['arr_0', 'weights']
    """
    _np.savez(file, *[_np.asarray(x) for x in args], **{name: _np.asarray(x) for name, x in kwds.items()})


def fromfile(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: reading a file is a side effect that compiled functions cannot have.

    The message names the alternative.

    Args:
        args, kwargs: NumPy's parameters.

    Returns:
        Nothing; the call always raises.

    Raises:
        NotImplementedError: Always.

    Example:
        >>> xnp.fromfile("numbers.bin")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        NotImplementedError: numpy.fromfile is not implemented, ...
    """
    raise NotImplementedError("numpy.fromfile is not implemented, because it would read a file while a function is traced. Use "
                              "numpy.asarray(np.fromfile(...)).")


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array, or a dictionary of arrays, written by `save` or `savez`.

    NumPy's format only stores NumPy's dtypes: unnamed elements of two bytes are read as bfloat16, other unnamed types
    are returned unchanged as NumPy arrays.

    Args:
        file: A path or an open file.
        args, kwargs: Additional arguments of `numpy.load`.

    Returns:
        The array or the dictionary.

    Example:
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
    if found.dtype.kind == "V":  # the name of a dtype that NumPy lacks is not stored
        if found.dtype != _np.dtype("V2"):
            return found
        found = found.view(bfloat16)
    return array(found)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """Return a vector of the elements in a buffer.

    Args:
        buffer: `bytes`, or another object with the buffer protocol.
        dtype: dtype of the elements.
        count: Number of elements to read; -1 reads all.
        offset: Byte at which to start.

    Returns:
        Vector with a copy of the data.

    Example:
        >>> xnp.frombuffer(b"abc", dtype=xnp.uint8)
        Array([97, 98, 99], dtype=uint8)
    """
    return array(_np.frombuffer(buffer, dtype=dtype_of(dtype), count=count, offset=offset))


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Return a vector of the elements of an iterable.

    Args:
        args, kwargs: Arguments of `numpy.fromiter`: the iterable, a dtype, and the maximum number of elements (`count`).

    Returns:
        Vector of the elements.

    Example:
        >>> xnp.fromiter((i * i for i in range(4)), dtype=int)
        Array([0, 1, 4, 9], dtype=int32)
    """
    return array(_np.fromiter(*args, **kwargs))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """Return a vector of the numbers in a text.

    Args:
        string: Text.
        dtype: dtype of the numbers.
        count: Number of elements to read; -1 reads all.
        sep: Separator of the numbers.

    Returns:
        Vector of the numbers.

    Example:
        >>> xnp.fromstring("1, 2, 3", sep=",")
        Array([1., 2., 3.], dtype=float32)
    """
    return array(_np.fromstring(string, dtype=dtype_of(dtype), count=count, sep=sep))
