"""Rotations in three dimensions, stored as unit quaternions (x, y, z, w), and interpolation between them.

Both classes are pytrees: they can pass through `jit`, `vmap` and `grad` like arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront import random
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, promotes_freely
from xlafront.staging.library import library

_product = functools.partial(xnp.matmul, precision="highest")


def _inexact(*xs):
    promoted = promote_dtypes_inexact(*xs)
    return promoted if len(xs) > 1 else promoted[0]


def _squared_norm(v):
    return xnp.sum(v * v, axis=-1, keepdims=True)


def _safe_sqrt(squared):
    """Compute the square root with a derivative of 0 at 0."""
    is_positive = squared > 0
    return xnp.where(is_positive, xnp.sqrt(xnp.where(is_positive, squared, 1)), 0)


def _canonical(quat):
    """Return `quat` or `-quat`, which represent the same rotation, with a non-negative real part."""
    return xnp.where(quat[..., 3:] < 0, -quat, quat)


@library(name="rotation")
def _normalize(quat):
    quat = _inexact(quat)
    return quat / xnp.sqrt(_squared_norm(quat))


@library(name="rotation")
def _compose(p, q):
    p, q = _inexact(p, q)
    (u, a), (v, b) = (p[..., :3], p[..., 3:]), (q[..., :3], q[..., 3:])
    u, v = xnp.broadcast_arrays(u, v)
    vector, scalar = a * v + b * u + xnp.cross(u, v), a * b - xnp.sum(u * v, axis=-1, keepdims=True)
    result = xnp.concatenate([vector, scalar], axis=-1)
    return result / xnp.sqrt(_squared_norm(result))


@library(name="rotation")
def _matrix(quat):
    x, y, z, w = xnp.unstack(quat, axis=-1)
    rows = [[x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w]]
    return xnp.stack([xnp.stack(row, axis=-1) for row in rows], axis=-2)


@library(static="inverse", name="rotation")
def _apply(quat, vectors, inverse):
    quat, vectors = _inexact(quat, vectors)
    matrix = _matrix(quat)
    return _product(matrix.mT if inverse else matrix, vectors[..., None])[..., 0]


@library(name="rotation")
def _from_matrix(matrix):
    """Convert matrices to quaternions, dividing by the largest of the four squares (Shepperd, 1978)."""
    m = _inexact(matrix)
    i, j, k = ((m[..., a, (a + 1) % 3], m[..., (a + 1) % 3, a]) for a in (1, 2, 0))  # around x, y and z
    x, y, z = (m[..., a, a] for a in range(3))
    (dx, sx), (dy, sy), (dz, sz) = ((b - a, b + a) for a, b in (i, j, k))
    rows = [xnp.stack(row, axis=-1) for row in (
        [1 + x - y - z, sz, sy, dx], [sz, 1 - x + y - z, sx, dy], [sy, sx, 1 - x - y + z, dz], [dx, dy, dz, 1 + x + y + z])]
    largest = xnp.argmax(xnp.stack([x, y, z, x + y + z], axis=-1), axis=-1)[..., None]
    return _normalize(xnp.select([largest == n for n in range(3)], rows[:3], rows[3]))


@library(static="degrees", name="rotation")
def _from_rotvec(rotvec, degrees):
    rotvec = _inexact(rotvec)
    if degrees:
        rotvec = xnp.deg2rad(rotvec)
    squared = _squared_norm(rotvec)
    small = squared < 1e-3 ** 2
    half = _safe_sqrt(xnp.where(small, 1, squared)) / 2
    scale = xnp.where(small, 0.5 - squared / 48, xnp.sin(half) / (2 * half))
    return _normalize(xnp.concatenate([scale * rotvec, xnp.where(small, 1 - squared / 8, xnp.cos(half))], axis=-1))


@library(static="degrees", name="rotation")
def _as_rotvec(quat, degrees):
    quat = _canonical(quat)
    v, w = quat[..., :3], quat[..., 3:]
    squared = _squared_norm(v)
    small = squared < 1e-3 ** 2
    norm = _safe_sqrt(xnp.where(small, 1, squared))
    safe = xnp.where(small, w, 1)
    rotvec = xnp.where(small, 2 / safe - 2 * squared / (3 * safe ** 3), 2 * xnp.arctan2(norm, w) / norm) * v
    return xnp.rad2deg(rotvec) if degrees else rotvec


@library(name="rotation")
def _from_mrp(mrp):
    mrp = _inexact(mrp)
    squared = _squared_norm(mrp)
    return _normalize(xnp.concatenate([2 * mrp, 1 - squared], axis=-1))


@library(name="rotation")
def _as_mrp(quat):
    quat = _canonical(quat)
    return quat[..., :3] / (1 + quat[..., 3:])


@library(name="rotation")
def _magnitude(quat):
    return 2 * xnp.arctan2(_safe_sqrt(_squared_norm(quat[..., :3]))[..., 0], xnp.abs(quat[..., 3]))


@library(name="rotation")
def _mean(quat, weights):
    quat, weights = _inexact(quat, weights)
    sums = _product((weights[:, None] * quat).T, quat)
    return xnp.linalg.eigh(sums)[1][:, -1]


def _parse_axes(method: str, seq: str) -> tuple[list[int], bool]:
    """Return the axes of a sequence of letters, and True if they are intrinsic, i.e. rotate with the body."""
    letters = set(seq) if isinstance(seq, str) else {"?"}
    if not (letters <= set("xyz") or letters <= set("XYZ")) or not letters:
        raise ValueError(f"Rotation.{method} takes as seq letters of 'xyz', or of 'XYZ' for axes that rotate with the body, "
                         f"got {seq!r}.")
    if len(seq) > 3:
        raise ValueError(f"Rotation.{method} takes as seq at most three axes, got {seq!r}.")
    if any([a == b for a, b in zip(seq, seq[1:])]):
        raise ValueError(f"Rotation.{method} takes as seq axes of which neighbours are different, got {seq!r}.")
    return ["xyz".index(a) for a in seq.lower()], letters <= set("XYZ")


@library(static=("axes", "intrinsic", "degrees"), name="rotation")
def _from_euler(angles, axes, intrinsic, degrees):
    half = (xnp.deg2rad(angles) if degrees else angles) / 2
    result = None
    for n, axis in enumerate(axes):
        components = [xnp.zeros_like(half[..., n])] * 3 + [xnp.cos(half[..., n])]
        components[axis] = xnp.sin(half[..., n])
        quat = xnp.stack(components, axis=-1)
        result = quat if result is None else _compose(result, quat) if intrinsic else _compose(quat, result)
    return result


@library(static=("axes", "intrinsic", "degrees"), name="rotation")
def _as_euler(quat, axes, intrinsic, degrees):
    """Compute Euler angles from the angles of two complex numbers (Bernardes and Viollet, 2022)."""
    i, j, k = axes[::-1] if intrinsic else axes  # intrinsic rotations are extrinsic ones in reverse order
    proper = i == k
    k = 3 - i - j
    sign = 1 if (j - i) % 3 == 1 else -1
    x, y, z, w = quat[..., i], quat[..., j], sign * quat[..., k], quat[..., 3]
    a, b, c, d = (w, x, y, z) if proper else (w - y, x + z, y + w, z - x)
    middle = 2 * xnp.arctan2(xnp.hypot(c, d), xnp.hypot(a, b))
    half_sum, half_difference = xnp.arctan2(b, a), xnp.arctan2(d, c)
    first, last = half_sum - half_difference, half_sum + half_difference
    # Gimbal lock: if the first and the last axis coincide only one angle is determined; the other one is set to 0.
    tiny = max(1e-7, 4 * float(xnp.finfo(quat.dtype).eps))
    is_zero, is_half_turn = middle <= tiny, middle >= np.pi - tiny
    determined = xnp.where(is_zero, 2 * half_sum, 2 * half_difference if intrinsic else -2 * half_difference)
    is_locked = is_zero | is_half_turn
    if intrinsic:
        last, first = xnp.where(is_locked, determined, last), xnp.where(is_locked, 0, first)
    else:
        first, last = xnp.where(is_locked, determined, first), xnp.where(is_locked, 0, last)
    if not proper:
        last, middle = sign * last, middle - np.pi / 2
    angles = xnp.stack([last, middle, first] if intrinsic else [first, middle, last], axis=-1)
    angles = xnp.where(angles < -np.pi, angles + 2 * np.pi, xnp.where(angles > np.pi, angles - 2 * np.pi, angles))
    return xnp.rad2deg(angles) if degrees else angles


def _check_trailing_shape(method: str, x, last: tuple[int, ...]) -> Array:
    """Convert `x` to an array and check the sizes of its last dimensions."""
    x = xnp.asarray(x)
    if x.shape[x.ndim - len(last):] != last:
        expected = " by ".join(map(str, last))
        raise ValueError(f"Rotation.{method} takes an array whose last sizes are {expected}, got shape {x.shape}.")
    return x


class Rotation(NamedTuple):
    """Rotations in three dimensions: one, or an array of them in the leading dimensions of `quat`.

    Args:
        quat: Unit quaternions, scalar part last. They are stored as they are; `from_quat` normalizes.

    Example:
        >>> quarter = Rotation.from_euler("z", 90.0, degrees=True)
        >>> np.round(quarter.apply(xnp.array([1.0, 0.0, 0.0])), 3).tolist()
        [0.0, 1.0, 0.0]
    """

    quat: Array

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Concatenate rotations.

        Args:
            rotations: Sequence of rotations.

        Returns:
            Rotations along one leading dimension.

        Example:
            >>> len(Rotation.concatenate([Rotation.identity(), Rotation.identity(2)]))
            3
        """
        return cls(xnp.concatenate([xnp.atleast_2d(rotation.quat) for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Create rotations from Euler angles.

        Args:
            seq: One to three axes: "x", "y", "z" for extrinsic rotations, "X", "Y", "Z" for intrinsic ones, whose axes
                rotate with the body.
            angles: Angles, along the last axis; a scalar is accepted for one axis.
            degrees: If True, angles are in degrees.

        Returns:
            Rotations of the leading shape of `angles`.

        Example:
            >>> Rotation.from_euler("xy", xnp.array([90.0, 0.0]), degrees=True).as_quat().tolist()
            [0.7071067690849304, 0.0, 0.0, 0.7071067690849304]
        """
        axes, intrinsic = _parse_axes("from_euler", seq)
        check_arraylike("Rotation.from_euler", angles)
        angles = _inexact(xnp.atleast_1d(angles))
        angles = angles.astype(angles.dtype)  # a weakly typed scalar becomes strongly typed
        if angles.shape[-1] != len(axes):
            raise ValueError(f"Rotation.from_euler takes for {seq!r} angles whose last size is {len(axes)}, got shape "
                             f"{angles.shape}.")
        return cls(_from_euler(angles, tuple(axes), intrinsic, bool(degrees)))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Create rotations from rotation matrices.

        Args:
            matrix: Orthogonal matrices of determinant 1, in the last two dimensions.

        Returns:
            Rotations.

        Example:
            >>> Rotation.from_matrix(xnp.eye(3)).as_quat().tolist()
            [0.0, 0.0, 0.0, 1.0]
        """
        return cls(_from_matrix(_check_trailing_shape("from_matrix", matrix, (3, 3))))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Create rotations from modified Rodrigues parameters: the axis times the tangent of a quarter of the angle.

        Args:
            mrp: Parameters, along the last axis.

        Returns:
            Rotations.

        Example:
            >>> Rotation.from_mrp(xnp.array([1.0, 0.0, 0.0])).as_quat().tolist()
            [1.0, 0.0, 0.0, 0.0]
        """
        return cls(_from_mrp(_check_trailing_shape("from_mrp", mrp, (3,))))

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """Create rotations from quaternions, which are normalized.

        Args:
            quat: Quaternions along the last axis, scalar part last.

        Returns:
            Rotations.

        Example:
            >>> Rotation.from_quat(xnp.array([0.0, 0.0, 0.0, 2.0])).as_quat().tolist()
            [0.0, 0.0, 0.0, 1.0]
        """
        return cls(_normalize(_check_trailing_shape("from_quat", quat, (4,))))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Create rotations from rotation vectors, whose direction is the axis and whose length is the angle.

        Args:
            rotvec: Vectors, along the last axis.
            degrees: If True, lengths are in degrees.

        Returns:
            Rotations.

        Example:
            >>> half_turn = Rotation.from_rotvec(xnp.array([180.0, 0.0, 0.0]), degrees=True)
            >>> bool(half_turn.magnitude().round(4) == np.float32(3.1416))
            True
        """
        return cls(_from_rotvec(_check_trailing_shape("from_rotvec", rotvec, (3,)), bool(degrees)))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """Create identity rotations.

        Args:
            num: Number of rotations. None: one, without a leading dimension.
            dtype: dtype of the quaternions.

        Returns:
            Identity rotations.

        Example:
            >>> Rotation.identity().as_quat().tolist()
            [0.0, 0.0, 0.0, 1.0]
        """
        return cls(xnp.broadcast_to(xnp.array([0, 0, 0, 1], dtype), (4,) if num is None else (num, 4)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """Sample uniformly distributed rotations.

        Args:
            random_key: Key of `random.key`.
            num: Number of rotations. None: one, without a leading dimension.

        Returns:
            Random rotations.

        Example:
            >>> len(Rotation.random(xf.random.key(0), 5))
            5
        """
        return cls(_normalize(random.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, index) -> Rotation:  # type: ignore[override]
        if self.single:
            raise TypeError("a single Rotation has no items.")
        return Rotation(self.quat[index])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("a single Rotation has no length.")
        return self.quat.shape[0]

    def __bool__(self) -> bool:
        return True

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]
        """Compose rotations: first `other`, then `self`."""
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_compose(self.quat, other.quat))

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Rotate vectors.

        Args:
            vectors: One vector, or one for each rotation.
            inverse: If True, apply the inverse rotations.

        Returns:
            Rotated vectors.

        Example:
            >>> Rotation.identity().apply(xnp.array([1.0, 2.0, 3.0])).tolist()
            [1.0, 2.0, 3.0]
        """
        return _apply(self.quat, _check_trailing_shape("apply", vectors, (3,)), bool(inverse))

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Compute Euler angles. An angle that is not determined (gimbal lock) is 0.

        Args:
            seq: Three axes, see `from_euler`.
            degrees: If True, return angles in degrees.

        Returns:
            Angles, along the last axis.

        Example:
            >>> Rotation.identity().as_euler("xyz").tolist()
            [0.0, 0.0, 0.0]
        """
        if len(seq) != 3:
            raise ValueError(f"Rotation.as_euler takes as seq three axes, got {seq!r}.")
        axes, intrinsic = _parse_axes("as_euler", seq)
        return _as_euler(self.quat, tuple(axes), intrinsic, bool(degrees))

    def as_matrix(self) -> Array:
        """Compute the rotation matrices.

        Returns:
            Matrices, in the last two dimensions.

        Example:
            >>> Rotation.identity().as_matrix().tolist()
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        return _matrix(self.quat)

    def as_mrp(self) -> Array:
        """Compute modified Rodrigues parameters, of length at most 1.

        Returns:
            Parameters, along the last axis.

        Example:
            >>> Rotation.identity().as_mrp().tolist()
            [0.0, 0.0, 0.0]
        """
        return _as_mrp(self.quat)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Return the quaternions.

        Args:
            canonical: If True, return the quaternion with a non-negative scalar part, of the two for each rotation.
            scalar_first: If True, put the scalar part first.

        Returns:
            Quaternions, along the last axis.

        Example:
            >>> Rotation.identity().as_quat(scalar_first=True).tolist()
            [1.0, 0.0, 0.0, 0.0]
        """
        quat = _canonical(self.quat) if canonical else self.quat
        return xnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Compute rotation vectors, whose direction is the axis and whose length is the angle.

        Args:
            degrees: If True, return lengths in degrees.

        Returns:
            Vectors, along the last axis.

        Example:
            >>> Rotation.identity().as_rotvec().tolist()
            [0.0, 0.0, 0.0]
        """
        return _as_rotvec(self.quat, bool(degrees))

    @promotes_freely
    def inv(self) -> Rotation:
        """Compute the inverse rotations.

        Returns:
            Rotations.

        Example:
            >>> Rotation.from_mrp(xnp.array([1.0, 0.0, 0.0])).inv().as_quat()[0].item()
            -1.0
        """
        return Rotation(self.quat * xnp.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self) -> Array:
        """Compute the rotation angles, from 0 to pi.

        Returns:
            Angles in radians.

        Example:
            >>> Rotation.identity().magnitude().item()
            0.0
        """
        return _magnitude(self.quat)

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """Compute the mean rotation, which minimizes the squared distances of the matrices.

        Args:
            weights: Weight of each rotation. Default: 1.

        Returns:
            One rotation.

        Example:
            >>> Rotation.identity(3).mean().magnitude().item()
            0.0
        """
        weights = xnp.ones(len(self), self.quat.dtype) if weights is None else xnp.asarray(weights)
        if weights.shape != (len(self),):
            raise ValueError(f"Rotation.mean takes a weight for each of {len(self)} rotations, got shape {weights.shape}.")
        return Rotation(_mean(self.quat, weights))

    @property
    def single(self) -> bool:
        """True for one rotation, without a leading dimension."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Spherical linear interpolation of rotations: constant speed about a fixed axis between consecutive ones. Create it
    by `init`.

    Args:
        times: Times of the rotations.
        timedelta: Differences of consecutive times.
        rotations: All rotations but the last one.
        rotvecs: Rotation vectors from each rotation to the next one.

    Example:
        >>> ends = Rotation.from_euler("z", xnp.array([[0.0], [90.0]]), degrees=True)
        >>> middle = Slerp.init(xnp.array([0.0, 1.0]), ends)(0.5)
        >>> np.round(middle.as_euler("xyz", degrees=True)[2]).item()
        45.0
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """Create an interpolator of rotations.

        Args:
            times: Increasing times of the rotations.
            rotations: At least two rotations, one for each time.

        Returns:
            Interpolator, called with times.

        Example:
            >>> Slerp.init(xnp.array([0.0, 1.0]), Rotation.identity(2))(0.5).as_quat().tolist()
            [0.0, 0.0, 0.0, 1.0]
        """
        if not isinstance(rotations, Rotation):
            raise TypeError(f"Slerp.init takes rotations as a Rotation, got {type(rotations).__name__}.")
        if rotations.single or len(rotations) < 2:
            raise ValueError("Slerp.init takes at least two rotations.")
        times = xnp.asarray(times, rotations.quat.dtype)
        if times.shape != (len(rotations),):
            raise ValueError(f"Slerp.init takes times as a vector, one for each of {len(rotations)} rotations, got shape "
                             f"{times.shape}.")
        start = rotations[:-1]
        return cls(times, xnp.diff(times), start, (start.inv() * rotations[1:]).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """Return the rotations at `times`, which are clipped to the range of the given times."""
        times = xnp.asarray(times, self.times.dtype)
        interval = xnp.clip(xnp.searchsorted(self.times, times, side="right") - 1, 0, len(self.timedelta) - 1)
        fraction = xnp.clip((times - self.times[interval]) / self.timedelta[interval], 0, 1)
        partial = Rotation.from_rotvec(self.rotvecs[interval] * fraction[..., None])
        return Rotation(_compose(self.rotations.quat[interval], partial.quat))
