# Written by `python -m tests.stubs`.
from xlafront.core.typing import ArrayLike as _ArrayLike
from xlafront.core.typing import Axes as _Axes
from xlafront.core.typing import DTypeLike as _DTypeLike
from xlafront.numpy.updates import At as _At
import builtins as _builtins
import numpy as _numpy
import typing as _typing

class Array:
    @property
    def T(self) -> Array: ...
    def addressable_data(self, index: _builtins.int) -> _typing.Any:
        """Return the shard on one device of this process.

        Args:
            index: Index among the devices of this process that hold a shard; ignored if the array is fully replicated.

        Returns:
            The shard, as an array on one device.

        Example:
            >>> xnp.ones((2, 3)).addressable_data(0).shape
            (2, 3)
        """
    @property
    def addressable_shards(self) -> _typing.Any: ...
    def all(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, *, where: _ArrayLike | None = None) -> Array:
        """Test if all elements over axes are true.

        Numbers other than 0 count as True. Over no elements the result is True.

        Args:
            a: Array.
            axis: Axis or axes to reduce over. Default: all.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.
            where: Boolean array, broadcast with `a`, that selects the elements to include.

        Returns:
            Boolean array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.all(xnp.array([[True, False], [True, True]]), axis=1)
            Array([False,  True], dtype=bool)
        """
    def any(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, *, where: _ArrayLike | None = None) -> Array:
        """Test if any element over axes is true.

        Numbers other than 0 count as True. Over no elements the result is False.

        Args:
            a: Array.
            axis: Axis or axes to reduce over. Default: all.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.
            where: Boolean array, broadcast with `a`, that selects the elements to include.

        Returns:
            Boolean array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.any(xnp.array([[True, False], [False, False]]), axis=1)
            Array([ True, False], dtype=bool)
        """
    def argmax(a: _ArrayLike, axis: _builtins.int | None = None, out: None = None, keepdims: _builtins.bool | None = None) -> Array:
        """Return the index of the maximum along an axis.

        It is the first index if there are several. NaN counts as the maximum.

        Args:
            a: Array.
            axis: Axis to work along. Default: the flattened array.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.

        Returns:
            Array of integers of the shape of `a` without the axis.

        Example:
            >>> xnp.argmax(xnp.array([[1, 4], [3, 2]]), axis=1)
            Array([1, 0], dtype=int32)
        """
    def argmin(a: _ArrayLike, axis: _builtins.int | None = None, out: None = None, keepdims: _builtins.bool | None = None) -> Array:
        """Return the index of the minimum along an axis.

        It is the first index if there are several. NaN counts as the minimum.

        Args:
            a: Array.
            axis: Axis to work along. Default: the flattened array.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.

        Returns:
            Array of integers of the shape of `a` without the axis.

        Example:
            >>> xnp.argmin(xnp.array([[1, 4], [3, 2]]), axis=1)
            Array([0, 1], dtype=int32)
        """
    def argpartition(a: _ArrayLike, kth: _builtins.int, axis: _builtins.int = -1) -> Array:
        """Return the indices that partition an array along an axis, as `partition`.

        This implementation sorts all elements.

        Args:
            a: The array.
            kth: The position in sorted order.
            axis: Axis to sort along. Default: the last.

        Returns:
            The indices, of the shape of `a`.

        Example:
            >>> xnp.argpartition(xnp.array([4, 3, 1, 2]), 2)[2]
            Array(1, dtype=int32)
        """
    def argsort(a: _ArrayLike, axis: _builtins.int | None = -1, *, kind: None = None, order: None = None, stable: _builtins.bool = True, descending: _builtins.bool = False, dtype: _DTypeLike | None = None) -> Array:
        """Return the indices that sort an array along an axis, with NaN last.

        Args:
            a: The array.
            axis: Axis to sort along. Default: the last. None: sort the flattened array.
            kind, order: Not supported; must be None.
            stable: If True, equal elements keep their order.
            descending: If True, sort in descending order, with NaN first.
            dtype: dtype of the indices. Default: the default integer dtype.

        Returns:
            The indices, of the shape of `a` (flattened if `axis` is None).

        Example:
            >>> xnp.argsort(xnp.array([3, 1, 2]))
            Array([1, 2, 0], dtype=int32)
        """
    def astype(self, dtype: _DTypeLike | None, copy: _builtins.bool = False, device: _typing.Any = None) -> Array:
        """Return the array converted to a dtype.

        Args:
            dtype: dtype of the result. None is the default float.
            copy: If True, copy the array even if it has the dtype already.
            device: Device or sharding of the result.

        Returns:
            Array with the converted elements. For complex numbers converted to real ones, the real part, with a warning.

        Example:
            >>> xnp.array([1.7, -1.7]).astype(xnp.int32)
            Array([ 1, -1], dtype=int32)
        """
    @property
    def aval(self) -> _typing.Any: ...
    def byteswap(self) -> Array:
        """Return the elements with their bytes in reverse order.

        Returns:
            Array of the same shape and dtype.

        Example:
            >>> xnp.array([1], dtype=xnp.int16).byteswap()
            Array([256], dtype=int16)
        """
    def choose(a: _ArrayLike, choices: _ArrayLike | _typing.Sequence[_ArrayLike], out: None = None, mode: _builtins.str = 'raise') -> Array:
        """Assemble an array by selecting each element from one of several arrays.

        Args:
            a: The index of the array to select from, for each element.
            choices: The arrays to select from. All arrays are broadcast to one shape.
            out: Not supported; must be None.
            mode: Treatment of indices out of bounds: "raise" raises an error (only for concrete values), "clip" clamps,
                "wrap" wraps them around.

        Returns:
            The selected elements.

        Example:
            >>> xnp.choose(xnp.array([0, 1, 0]), [xnp.array([1, 2, 3]), xnp.array([10, 20, 30])])
            Array([ 1, 20,  3], dtype=int32)
        """
    def clip(self, min: _ArrayLike | None = None, max: _ArrayLike | None = None) -> Array:
        """Return the elements clipped to a range.

        Args:
            min, max: Bounds, broadcast with the array. None leaves a side unbounded.

        Returns:
            Array with values below `min` replaced by `min` and those above `max` by `max`.

        Example:
            >>> xnp.array([-2, 0, 5]).clip(0, 3)
            Array([0, 0, 3], dtype=int32)
        """
    @property
    def committed(self) -> _builtins.bool: ...
    def compress(self, condition: _ArrayLike, axis: _builtins.int | None = None, *, out: None = None, size: _builtins.int | None = None, fill_value: _ArrayLike = 0) -> Array:
        """Select slices along an axis where a condition is true.

        Args:
            condition: Boolean vector. If it is shorter than the axis, the missing elements count as False.
            axis: Axis to select along. None selects elements of the flattened array.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            size: Number of slices to return. Required in traced functions, where shapes must be static.
            fill_value: Value of the slices that are missing if fewer than `size` are selected.

        Returns:
            Array of the selected slices.

        Example:
            >>> xnp.array([1, 2, 3]).compress(xnp.array([True, False, True]))
            Array([1, 3], dtype=int32)
        """
    def conj(self) -> Array:
        """Return the complex conjugate; real arrays are returned unchanged.

        Returns:
            Array of the same shape and dtype.

        Example:
            >>> xnp.array([1 + 2j]).conj()
            Array([1.-2.j], dtype=complex64)
        """
    def conjugate(self) -> Array:
        """Return the complex conjugate; real arrays are returned unchanged.

        Returns:
            Array of the same shape and dtype.

        Example:
            >>> xnp.array([1 + 2j]).conj()
            Array([1.-2.j], dtype=complex64)
        """
    def copy(self) -> Array:
        """Copy the array.

        Returns:
            New array, which shares no memory with this one.

        Example:
            >>> xnp.array([1, 2]).copy()
            Array([1, 2], dtype=int32)
        """
    def copy_to_host_async(self) -> None:
        """Start copying the elements to the host, so that reading them later waits less.

        Example:
            >>> x = xnp.ones(3)
            >>> x.copy_to_host_async()
            >>> np.asarray(x)
            array([1., 1., 1.], dtype=float32)
        """
    def cumprod(a: _ArrayLike, axis: _builtins.int | None = None, dtype: _DTypeLike | None = None, out: None = None) -> Array:
        """Compute the cumulative product along an axis.

        Args:
            a: Array.
            axis: Axis to work along. Default: the flattened array.
            dtype: dtype of the computation and of the result.
            out: Must be None (for compatibility with NumPy): arrays are immutable.

        Returns:
            Array of the shape of `a`, a vector without `axis`.

        Example:
            >>> xnp.cumprod(xnp.array([[1, 2], [3, 4]]), axis=0)
            Array([[1, 2],
                   [3, 8]], dtype=int32)
        """
    def cumsum(a: _ArrayLike, axis: _builtins.int | None = None, dtype: _DTypeLike | None = None, out: None = None) -> Array:
        """Compute the cumulative sum along an axis.

        Args:
            a: Array.
            axis: Axis to work along. Default: the flattened array.
            dtype: dtype of the computation and of the result.
            out: Must be None (for compatibility with NumPy): arrays are immutable.

        Returns:
            Array of the shape of `a`, a vector without `axis`.

        Example:
            >>> xnp.cumsum(xnp.array([[1, 2], [3, 4]]), axis=0)
            Array([[1, 2],
                   [4, 6]], dtype=int32)
        """
    @property
    def device(self) -> _typing.Any: ...
    @property
    def device_buffer(self) -> _typing.Any: ...
    @property
    def device_buffers(self) -> _typing.Any: ...
    def diagonal(a: _ArrayLike, offset: _builtins.int = 0, axis1: _builtins.int = 0, axis2: _builtins.int = 1) -> Array:
        """Return the elements of a diagonal.

        Args:
            a: Array of at least two dimensions.
            offset: Diagonal: 0 for the main one, positive above, negative below.
            axis1, axis2: Axes of the matrices.

        Returns:
            Array of the diagonals, along its last axis.

        Example:
            >>> xnp.diagonal(xnp.array([[1, 2, 3], [4, 5, 6]]), offset=1)
            Array([2, 6], dtype=int32)
        """
    def dot(a: _ArrayLike, b: _ArrayLike, *, precision: _typing.Any = None, preferred_element_type: _DTypeLike | None = None, out_sharding: _typing.Any = None) -> Array:
        """Compute the dot product: over the last dimension of `a` and the second to last of `b`.

        The free dimensions of `a` and `b` are not broadcast: the result has those of `a`, followed by those of `b`.

        Args:
            a, b: The operands. A vector is contracted over its only dimension; a scalar multiplies the other operand.
            precision: Precision of the multiplication on hardware that offers several: "default", "high" or "highest".
            preferred_element_type: dtype to accumulate in and to return.
            out_sharding: Sharding of the result.

        Returns:
            The product.

        Example:
            >>> xnp.dot(xnp.array([1, 2]), xnp.array([3, 4]))
            Array(11, dtype=int32)
        """
    @property
    def dtype(self) -> _numpy.dtype[_typing.Any]: ...
    @property
    def flat(self) -> _typing.Any: ...
    def flatten(self, order: _builtins.str = 'C') -> Array:
        """Return the elements as a vector.

        Args:
            order: "C" reads elements in row-major order, "F" in column-major order.

        Returns:
            Vector of all elements.

        Example:
            >>> xnp.array([[1, 2], [3, 4]]).flatten()
            Array([1, 2, 3, 4], dtype=int32)
        """
    @property
    def format(self) -> _typing.Any: ...
    @property
    def global_shards(self) -> _typing.Any: ...
    @property
    def imag(self) -> Array: ...
    @property
    def is_fully_addressable(self) -> _typing.Any: ...
    @property
    def is_fully_replicated(self) -> _typing.Any: ...
    def item(self, *args: _builtins.int) -> _builtins.bool | _builtins.int | _builtins.float | _builtins.complex:
        """Return one element as a Python scalar.

        It blocks until the array is computed.

        Args:
            args: Position of the element; may be omitted for arrays of size 1.

        Returns:
            Python scalar.

        Example:
            >>> xnp.array([1, 2]).item(1)
            2
        """
    @property
    def itemsize(self) -> _builtins.int: ...
    @property
    def mT(self) -> Array: ...
    def max(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None) -> Array:
        """Compute the maximum over axes.

        The result is NaN if an element is NaN. `numpy.amax` is an alias.

        Args:
            a: Array.
            axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.
            initial: Start value of the reduction, a scalar.
            where: Boolean array, broadcast with `a`, that selects the elements to include. Requires `initial`.

        Returns:
            Array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.max(xnp.array([[1, 4], [3, 2]]), axis=1)
            Array([4, 3], dtype=int32)
        """
    def mean(a: _ArrayLike, axis: _Axes = None, dtype: _DTypeLike | None = None, out: None = None, keepdims: _builtins.bool = False, *, where: _ArrayLike | None = None) -> Array:
        """Compute the arithmetic mean over axes.

        16-bit floats are summed in 32 bits. The mean of no elements is NaN.

        Args:
            a: Array.
            axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
            dtype: dtype of the sum and of the result. Default: that of `a`, or the default float for integers and booleans.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.
            where: Boolean array, broadcast to the shape of `a`, that selects the elements to include.

        Returns:
            Array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.mean(xnp.array([[1, 2], [3, 5]]), axis=0)
            Array([2. , 3.5], dtype=float32)
        """
    def min(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None) -> Array:
        """Compute the minimum over axes.

        The result is NaN if an element is NaN. `numpy.amin` is an alias.

        Args:
            a: Array.
            axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.
            initial: Start value of the reduction, a scalar.
            where: Boolean array, broadcast with `a`, that selects the elements to include. Requires `initial`.

        Returns:
            Array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.min(xnp.array([[1, 4], [3, 2]]), axis=1)
            Array([1, 2], dtype=int32)
        """
    @property
    def nbytes(self) -> _builtins.int: ...
    @property
    def ndim(self) -> _builtins.int: ...
    def nonzero(a: _ArrayLike, *, size: _builtins.int | None = None, fill_value: _ArrayLike | _builtins.tuple[_ArrayLike, ...] | None = None) -> _builtins.tuple[Array, ...]:
        """Return the positions of the nonzero elements, one index array for each dimension.

        Args:
            a: The array, of at least one dimension.
            size: Number of positions to return. Required while tracing, where the result's shape must be static.
            fill_value: Indices that pad the result if there are fewer than `size`: a scalar or a tuple with one for each
                dimension. Default: 0. Floats make all indices floats.

        Returns:
            A tuple of index arrays.

        Raises:
            ConcretizationTypeError: If `a` is traced and `size` is None.

        Example:
            >>> xnp.nonzero(xnp.array([0, 5, 0, 7]))
            (Array([1, 3], dtype=int32),)
        """
    def prod(a: _ArrayLike, axis: _Axes = None, dtype: _DTypeLike | None = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None, promote_integers: _builtins.bool = True) -> Array:
        """Multiply elements over axes.

        16-bit floats are multiplied in 32 bits.

        Args:
            a: Array.
            axis: Axis or axes to reduce over. Default: all.
            dtype: dtype of the computation and of the result.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.
            initial: Start value of the reduction, a scalar.
            where: Boolean array, broadcast with `a`, that selects the elements to include.
            promote_integers: If True, promote integers narrower than the default integer to it.

        Returns:
            Array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.prod(xnp.array([[1, 2], [3, 4]]), axis=0)
            Array([3, 8], dtype=int32)
        """
    def ptp(a: _ArrayLike, axis: _Axes = None, out: None = None, keepdims: _builtins.bool = False) -> Array:
        """Compute the range of values over axes: the maximum less the minimum.

        Args:
            a: Array.
            axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.

        Returns:
            Array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.ptp(xnp.array([[4, 9], [2, 10]]), axis=1)
            Array([5, 8], dtype=int32)
        """
    def ravel(a: _ArrayLike, order: _builtins.str = 'C', *, out_sharding: _typing.Any = None) -> Array:
        """Flatten an array to a vector.

        Args:
            a: Array.
            order: "C" reads elements in row-major order, "F" in column-major order.
            out_sharding: Sharding of the result.

        Returns:
            Vector of all elements.

        Example:
            >>> xnp.ravel(xnp.array([[1, 2], [3, 4]]), order="F")
            Array([1, 3, 2, 4], dtype=int32)
        """
    @property
    def real(self) -> Array: ...
    def repeat(a: _ArrayLike, repeats: _ArrayLike, axis: _builtins.int | None = None, *, total_repeat_length: _builtins.int | None = None, out_sharding: _typing.Any = None) -> Array:
        """Repeat each element along an axis.

        Args:
            a: The array.
            repeats: Number of repetitions: one for all elements, or one for each.
            axis: Axis to repeat along. Default: repeat the elements of the flattened array.
            total_repeat_length: Size of the result along the axis. Required if `repeats` is traced. A longer result is
                truncated, a shorter one padded with the last element.
            out_sharding: Sharding of the result.

        Returns:
            The array with repeated elements.

        Raises:
            ConcretizationTypeError: If `repeats` is traced and `total_repeat_length` is None.

        Example:
            >>> xnp.repeat(xnp.array([1, 2]), xnp.array([2, 3]))
            Array([1, 1, 2, 2, 2], dtype=int32)
        """
    def reshape(self, *args: _typing.Any, order: _builtins.str = 'C', copy: _builtins.bool | None = None, out_sharding: _typing.Any = None) -> Array:
        """Return the elements in another shape.

        Args:
            args: Shape, as one tuple or as sizes. One size may be -1, which is inferred from the others.
            order: "C" reads and writes elements in row-major order, "F" in column-major order.
            copy: Has no effect (for compatibility with NumPy): arrays are immutable.
            out_sharding: Sharding of the result.

        Returns:
            Array of the new shape.

        Example:
            >>> xnp.arange(6).reshape(2, -1).shape
            (2, 3)
        """
    def round(self, decimals: _builtins.int = 0, out: None = None) -> Array:
        """Return the elements rounded to the given number of decimals, ties to even.

        Args:
            decimals: Number of decimals. A negative number rounds to tens, hundreds, ...
            out: Must be None (for compatibility with NumPy): arrays are immutable.

        Returns:
            Array of the same shape and dtype.

        Example:
            >>> xnp.array([1.25, 2.5]).round()
            Array([1., 2.], dtype=float32)
        """
    def searchsorted(a: _ArrayLike, v: _ArrayLike, side: _builtins.str = 'left', sorter: _ArrayLike | None = None, *, method: _builtins.str = 'scan') -> Array:
        """Return the positions at which to insert values into a sorted vector to keep it sorted, with NaN last.

        Args:
            a: The sorted vector.
            v: The values.
            side: "left" inserts before elements equal to a value, "right" after them.
            sorter: Indices that sort `a`, if it is not sorted.
            method: "scan", "scan_unrolled", "sort" or "compare_all". All return the same result by bisection;
                "scan_unrolled" unrolls the loop.

        Returns:
            The positions as int32, of the shape of `v`.

        Example:
            >>> xnp.searchsorted(xnp.array([1, 2, 2, 3]), xnp.array([2, 5]), side="right")
            Array([3, 4], dtype=int32)
        """
    @property
    def shape(self) -> _builtins.tuple[_builtins.int, ...]: ...
    @property
    def sharding(self) -> _typing.Any: ...
    @property
    def size(self) -> _builtins.int: ...
    def sort(a: _ArrayLike, axis: _builtins.int | None = -1, *, kind: None = None, order: None = None, stable: _builtins.bool = True, descending: _builtins.bool = False) -> Array:
        """Sort the elements along an axis, with NaN last.

        Args:
            a: The array. Complex numbers are compared by real part, then by imaginary part.
            axis: Axis to sort along. Default: the last. None: sort the flattened array.
            kind, order: Not supported; must be None.
            stable: If True, equal elements keep their order.
            descending: If True, sort in descending order, with NaN first.

        Returns:
            The sorted array.

        Example:
            >>> xnp.sort(xnp.array([3, 1, 2]))
            Array([1, 2, 3], dtype=int32)
        """
    def squeeze(a: _ArrayLike, axis: _Axes = None) -> Array:
        """Remove axes of size 1.

        Args:
            a: Array.
            axis: Axis or axes to remove. Default: all of size 1.

        Returns:
            Array without the axes.

        Example:
            >>> xnp.squeeze(xnp.ones((1, 3, 1)), axis=0).shape
            (3, 1)
        """
    def std(a: _ArrayLike, axis: _Axes = None, dtype: _DTypeLike | None = None, out: None = None, ddof: _builtins.float = 0, keepdims: _builtins.bool = False, *, where: _ArrayLike | None = None, mean: _ArrayLike | None = None, correction: _builtins.float | None = None) -> Array:
        """Compute the standard deviation over axes, the square root of `var`.

        Args:
            a: Array.
            axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
            dtype: dtype of the result, a floating-point or complex one.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            ddof: Number subtracted from the number of elements in the divisor.
            keepdims: If True, keep reduced axes with size 1.
            where: Boolean array, broadcast to the shape of `a`, that selects the elements to include.
            mean: Mean to use, a scalar or an array with reduced axes of size 1. Default: it is computed.
            correction: Alias of `ddof`.

        Returns:
            Array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.std(xnp.array([1.0, 2.0, 3.0]), ddof=1)
            Array(1., dtype=float32)
        """
    def sum(a: _ArrayLike, axis: _Axes = None, dtype: _DTypeLike | None = None, out: None = None, keepdims: _builtins.bool = False, initial: _ArrayLike | None = None, where: _ArrayLike | None = None, promote_integers: _builtins.bool = True) -> Array:
        """Sum elements over axes.

        16-bit floats are summed in 32 bits.

        Args:
            a: Array.
            axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
            dtype: dtype of the computation and of the result.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            keepdims: If True, keep reduced axes with size 1.
            initial: Start value of the reduction, a scalar.
            where: Boolean array, broadcast with `a`, that selects the elements to include.
            promote_integers: If True, promote integers narrower than the default integer to it.

        Returns:
            Array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.sum(xnp.array([[1, 2], [3, 4]]), axis=0)
            Array([4, 6], dtype=int32)
        """
    def swapaxes(a: _ArrayLike, axis1: _builtins.int, axis2: _builtins.int) -> Array:
        """Swap two axes of an array.

        Args:
            a: Array.
            axis1, axis2: Axes to swap.

        Returns:
            Array with the axes swapped.

        Example:
            >>> xnp.swapaxes(xnp.ones((2, 3, 4)), 0, 2).shape
            (4, 3, 2)
        """
    def take(a: _ArrayLike, indices: _ArrayLike, axis: _builtins.int | None = None, out: None = None, mode: _builtins.str | None = None, unique_indices: _builtins.bool = False, indices_are_sorted: _builtins.bool = False, fill_value: _ArrayLike | None = None) -> Array:
        """Take elements or slices at given positions along an axis.

        Args:
            a: The source array.
            indices: Integer positions. Negative ones count from the end, except with the mode "clip".
            axis: Axis to take along. Default: take from the flattened array.
            out: Not supported; must be None.
            mode: Treatment of positions out of bounds: "fill" (default) returns NaN or `fill_value`, "clip" clamps, "wrap"
                wraps them around.
            unique_indices, indices_are_sorted: Promises about the positions that may make the operation faster.
            fill_value: Value for the mode "fill". Default: NaN; for signed integers the minimum, for unsigned ones the
                maximum of the dtype.

        Returns:
            The selected elements, with the shape of `indices` in place of `axis`.

        Note:
            NumPy raises an error for positions out of bounds.

        Example:
            >>> xnp.take(xnp.array([[1, 2, 3], [4, 5, 6]]), xnp.array([2, 0]), axis=1)
            Array([[3, 1],
                   [6, 4]], dtype=int32)
        """
    def to_device(self, device: _typing.Any, *, stream: _typing.Any = None) -> Array:
        """Return the array on another device, or with another sharding.

        Args:
            device: Device or sharding.
            stream: Must be None (for compatibility with the array API).

        Returns:
            Array on the device.

        Example:
            >>> xnp.ones(3).to_device(xf.devices()[0]).shape
            (3,)
        """
    def tobytes(self, order: _builtins.str = 'C') -> _builtins.bytes:
        """Return the bytes of all elements.

        It blocks until the array is computed.

        Args:
            order: "C" writes elements in row-major order, "F" in column-major order.

        Returns:
            Bytes object.

        Example:
            >>> xnp.array([1, 2], dtype=xnp.int8).tobytes()
            b'\\x01\\x02'
        """
    def tolist(self) -> _typing.Any:
        """Return the elements as nested lists of Python scalars.

        It blocks until the array is computed.

        Returns:
            Nested list, or a Python scalar for an array without dimensions.

        Example:
            >>> xnp.array([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """
    def trace(a: _ArrayLike, offset: _builtins.int = 0, axis1: _builtins.int = 0, axis2: _builtins.int = 1, dtype: _DTypeLike | None = None, out: None = None) -> Array:
        """Compute the sum of a diagonal.

        Args:
            a: Array of at least two dimensions.
            offset: Diagonal: 0 for the main one, positive above, negative below. May be traced.
            axis1, axis2: Axes of the matrices.
            dtype: dtype of the sum.
            out: Must be None (for compatibility with NumPy): arrays are immutable.

        Returns:
            Array of the shape of `a` without the two axes.

        Example:
            >>> xnp.trace(xnp.array([[1, 2], [3, 4]]))
            Array(5, dtype=int32)
        """
    @property
    def traceback(self) -> _typing.Any: ...
    def transpose(self, *args: _typing.Any) -> Array:
        """Return the array with its axes permuted.

        Args:
            args: Permutation, as one tuple or as ints: axis `i` of the result is axis `args[i]`. Default: the reversed order.

        Returns:
            Array with permuted axes.

        Example:
            >>> xnp.ones((2, 3, 4)).transpose(1, 0, 2).shape
            (3, 2, 4)
        """
    def var(a: _ArrayLike, axis: _Axes = None, dtype: _DTypeLike | None = None, out: None = None, ddof: _builtins.float = 0, keepdims: _builtins.bool = False, *, where: _ArrayLike | None = None, mean: _ArrayLike | None = None, correction: _builtins.float | None = None) -> Array:
        """Compute the variance over axes.

        It is the sum of squared distances from the mean, divided by the number of elements less `ddof`. It is real for complex
        numbers too.

        Args:
            a: Array.
            axis: Axis or axes to reduce over: positions, or names given by `vmap` or `shard_map`. Default: all positions.
            dtype: dtype of the result. With an integer dtype each step is computed in integers, so quotients are truncated.
            out: Must be None (for compatibility with NumPy): arrays are immutable.
            ddof: Number subtracted from the number of elements, a scalar or an array that broadcasts with the result. The result is
                NaN where the difference is not positive.
            keepdims: If True, keep reduced axes with size 1.
            where: Boolean array, broadcast to the shape of `a`, that selects the elements to include.
            mean: Mean to use, a scalar or an array with reduced axes of size 1. Default: it is computed.
            correction: Alias of `ddof`.

        Returns:
            Array of the shape of `a` without the reduced axes.

        Example:
            >>> xnp.var(xnp.array([1.0, 2.0, 3.0]), ddof=1)
            Array(1., dtype=float32)
        """
    def view(self, dtype: _DTypeLike | None = None, type: None = None) -> Array:
        """Return the bits of the array reinterpreted as another dtype.

        The last dimension grows or shrinks with the size of an element.

        Args:
            dtype: dtype of the result. None returns the array itself.
            type: Must be None (for compatibility with NumPy).

        Returns:
            Array of the same bits.

        Note:
            Unlike NumPy's the result is a copy.

        Example:
            >>> xnp.array([1.0, 2.0]).view(xnp.int32)
            Array([1065353216, 1073741824], dtype=int32)
        """
    @property
    def weak_type(self) -> _builtins.bool: ...
    def __add__(self, other: _ArrayLike) -> Array: ...
    def __radd__(self, other: _ArrayLike) -> Array: ...
    def __sub__(self, other: _ArrayLike) -> Array: ...
    def __rsub__(self, other: _ArrayLike) -> Array: ...
    def __mul__(self, other: _ArrayLike) -> Array: ...
    def __rmul__(self, other: _ArrayLike) -> Array: ...
    def __truediv__(self, other: _ArrayLike) -> Array: ...
    def __rtruediv__(self, other: _ArrayLike) -> Array: ...
    def __floordiv__(self, other: _ArrayLike) -> Array: ...
    def __rfloordiv__(self, other: _ArrayLike) -> Array: ...
    def __mod__(self, other: _ArrayLike) -> Array: ...
    def __rmod__(self, other: _ArrayLike) -> Array: ...
    def __divmod__(self, other: _ArrayLike) -> _builtins.tuple[Array, Array]: ...
    def __rdivmod__(self, other: _ArrayLike) -> _builtins.tuple[Array, Array]: ...
    def __pow__(self, other: _ArrayLike) -> Array: ...
    def __rpow__(self, other: _ArrayLike) -> Array: ...
    def __matmul__(self, other: _ArrayLike) -> Array: ...
    def __rmatmul__(self, other: _ArrayLike) -> Array: ...
    def __and__(self, other: _ArrayLike) -> Array: ...
    def __rand__(self, other: _ArrayLike) -> Array: ...
    def __or__(self, other: _ArrayLike) -> Array: ...
    def __ror__(self, other: _ArrayLike) -> Array: ...
    def __xor__(self, other: _ArrayLike) -> Array: ...
    def __rxor__(self, other: _ArrayLike) -> Array: ...
    def __lshift__(self, other: _ArrayLike) -> Array: ...
    def __rlshift__(self, other: _ArrayLike) -> Array: ...
    def __rshift__(self, other: _ArrayLike) -> Array: ...
    def __rrshift__(self, other: _ArrayLike) -> Array: ...
    def __eq__(self, other: _typing.Any) -> Array: ...  # type: ignore[override]
    def __ne__(self, other: _typing.Any) -> Array: ...  # type: ignore[override]
    def __lt__(self, other: _typing.Any) -> Array: ...
    def __le__(self, other: _typing.Any) -> Array: ...
    def __gt__(self, other: _typing.Any) -> Array: ...
    def __ge__(self, other: _typing.Any) -> Array: ...
    def __neg__(self) -> Array: ...
    def __pos__(self) -> Array: ...
    def __abs__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    _aval: _typing.Any
    _sharding: _typing.Any
    _npy_value: _typing.Any
    _value: _typing.Any
    _committed: _builtins.bool
    _fully_replicated_shard: _typing.Any
    def _check_if_deleted(self) -> None: ...
    @property
    def at(self) -> _At: ...
    def __init__(self, *args: _typing.Any, **kwargs: _typing.Any) -> None: ...
    def block_until_ready(self) -> Array: ...
    def clone(self) -> Array: ...
    def delete(self) -> None: ...
    def devices(self) -> _builtins.set[_typing.Any]: ...
    def is_deleted(self) -> _builtins.bool: ...
    def is_ready(self) -> _builtins.bool: ...
    def on_device_size_in_bytes(self) -> _builtins.int: ...
    def platform(self) -> _builtins.str: ...
    def unsafe_buffer_pointer(self) -> _builtins.int: ...
    def __bool__(self) -> _builtins.bool: ...
    def __int__(self) -> _builtins.int: ...
    def __float__(self) -> _builtins.float: ...
    def __complex__(self) -> _builtins.complex: ...
    def __index__(self) -> _builtins.int: ...
    def __len__(self) -> _builtins.int: ...
    def __iter__(self) -> _typing.Iterator[Array]: ...
    def __getitem__(self, index: _typing.Any) -> Array: ...
    def __array__(self, dtype: _typing.Any = ..., copy: _typing.Any = ...) -> _numpy.ndarray: ...
    def __hash__(self) -> _builtins.int: ...

ndarray = Array
