"""Rotations in three dimensions, kept as unit quaternions (x, y, z, w), and interpolation between them.

Both classes are pytrees: they go through `jit`, `vmap` and `grad` as arrays do.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront import random
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact
from xlafront.staging.library import library

_product = functools.partial(xnp.matmul, precision="highest")


def _inexact(*xs):
    found = promote_dtypes_inexact(*xs)
    return found if len(xs) > 1 else found[0]


def _squared(v):
    return xnp.sum(v * v, axis=-1, keepdims=True)


def _root(squared):
    """The square root, without a derivative of infinity at zero."""
    some = squared > 0
    return xnp.where(some, xnp.sqrt(xnp.where(some, squared, 1)), 0)


def _canonical(quat):
    """The one of `quat` and `-quat`, which are the same rotation, whose real part is not negative."""
    return xnp.where(quat[..., 3:] < 0, -quat, quat)


@library(name="rotation")
def _normalized(quat):
    quat = _inexact(quat)
    return quat / xnp.sqrt(_squared(quat))


@library(name="rotation")
def _composed(p, q):
    p, q = _inexact(p, q)
    (u, a), (v, b) = (p[..., :3], p[..., 3:]), (q[..., :3], q[..., 3:])
    u, v = xnp.broadcast_arrays(u, v)
    vector, scalar = a * v + b * u + xnp.cross(u, v), a * b - xnp.sum(u * v, axis=-1, keepdims=True)
    found = xnp.concatenate([vector, scalar], axis=-1)
    return found / xnp.sqrt(_squared(found))


@library(name="rotation")
def _matrix(quat):
    x, y, z, w = xnp.unstack(quat, axis=-1)
    rows = [[x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w]]
    return xnp.stack([xnp.stack(row, axis=-1) for row in rows], axis=-2)


@library(static="inverse", name="rotation")
def _applied(quat, vectors, inverse):
    quat, vectors = _inexact(quat, vectors)
    matrix = _matrix(quat)
    return _product(matrix.mT if inverse else matrix, vectors[..., None])[..., 0]


@library(name="rotation")
def _from_matrix(matrix):
    """By the largest of the four squares, as what the others are divided by (Shepperd, 1978)."""
    m = _inexact(matrix)
    i, j, k = ((m[..., a, (a + 1) % 3], m[..., (a + 1) % 3, a]) for a in (1, 2, 0))  # around x, y and z
    x, y, z = (m[..., a, a] for a in range(3))
    (dx, sx), (dy, sy), (dz, sz) = ((b - a, b + a) for a, b in (i, j, k))
    rows = [xnp.stack(row, axis=-1) for row in (
        [1 + x - y - z, sz, sy, dx], [sz, 1 - x + y - z, sx, dy], [sy, sx, 1 - x - y + z, dz], [dx, dy, dz, 1 + x + y + z])]
    largest = xnp.argmax(xnp.stack([x, y, z, x + y + z], axis=-1), axis=-1)[..., None]
    return _normalized(xnp.select([largest == n for n in range(3)], rows[:3], rows[3]))


@library(static="degrees", name="rotation")
def _from_rotvec(rotvec, degrees):
    rotvec = _inexact(rotvec)
    if degrees:
        rotvec = xnp.deg2rad(rotvec)
    squared = _squared(rotvec)
    small = squared < 1e-3 ** 2
    half = _root(xnp.where(small, 1, squared)) / 2
    scale = xnp.where(small, 0.5 - squared / 48, xnp.sin(half) / (2 * half))
    return _normalized(xnp.concatenate([scale * rotvec, xnp.where(small, 1 - squared / 8, xnp.cos(half))], axis=-1))


@library(static="degrees", name="rotation")
def _as_rotvec(quat, degrees):
    quat = _canonical(quat)
    v, w = quat[..., :3], quat[..., 3:]
    squared = _squared(v)
    small = squared < 1e-3 ** 2
    size = _root(xnp.where(small, 1, squared))
    safe = xnp.where(small, w, 1)
    rotvec = xnp.where(small, 2 / safe - 2 * squared / (3 * safe ** 3), 2 * xnp.arctan2(size, w) / size) * v
    return xnp.rad2deg(rotvec) if degrees else rotvec


@library(name="rotation")
def _from_mrp(mrp):
    mrp = _inexact(mrp)
    squared = _squared(mrp)
    return _normalized(xnp.concatenate([2 * mrp, 1 - squared], axis=-1))


@library(name="rotation")
def _as_mrp(quat):
    quat = _canonical(quat)
    return quat[..., :3] / (1 + quat[..., 3:])


@library(name="rotation")
def _magnitude(quat):
    return 2 * xnp.arctan2(_root(_squared(quat[..., :3]))[..., 0], xnp.abs(quat[..., 3]))


@library(name="rotation")
def _mean(quat, weights):
    quat, weights = _inexact(quat, weights)
    sums = _product((weights[:, None] * quat).T, quat)
    return xnp.linalg.eigh(sums)[1][:, -1]


def _axes(what: str, seq: str) -> tuple[list[int], bool]:
    """The axes of a sequence of letters, and whether they turn with the body."""
    letters = set(seq) if isinstance(seq, str) else {"?"}
    if not (letters <= set("xyz") or letters <= set("XYZ")) or not letters:
        raise ValueError(f"Rotation.{what} takes as seq letters of 'xyz', or of 'XYZ' for axes that turn with the body, "
                         f"got {seq!r}.")
    if len(seq) > 3:
        raise ValueError(f"Rotation.{what} takes as seq at most three axes, got {seq!r}.")
    if any([a == b for a, b in zip(seq, seq[1:])]):
        raise ValueError(f"Rotation.{what} takes as seq axes of which neighbours are different, got {seq!r}.")
    return ["xyz".index(a) for a in seq.lower()], letters <= set("XYZ")


@library(static=("axes", "intrinsic", "degrees"), name="rotation")
def _from_euler(angles, axes, intrinsic, degrees):
    half = (xnp.deg2rad(angles) if degrees else angles) / 2
    found = None
    for n, axis in enumerate(axes):
        parts = [xnp.zeros_like(half[..., n])] * 3 + [xnp.cos(half[..., n])]
        parts[axis] = xnp.sin(half[..., n])
        quat = xnp.stack(parts, axis=-1)
        found = quat if found is None else _composed(found, quat) if intrinsic else _composed(quat, found)
    return found


@library(static=("axes", "intrinsic", "degrees"), name="rotation")
def _as_euler(quat, axes, intrinsic, degrees):
    """The angles by those of two complex numbers (Bernardes and Viollet, 2022)."""
    i, j, k = axes[::-1] if intrinsic else axes  # turning axes are fixed ones in the other order
    proper = i == k
    k = 3 - i - j
    sign = 1 if (j - i) % 3 == 1 else -1
    x, y, z, w = quat[..., i], quat[..., j], sign * quat[..., k], quat[..., 3]
    a, b, c, d = (w, x, y, z) if proper else (w - y, x + z, y + w, z - x)
    middle = 2 * xnp.arctan2(xnp.hypot(c, d), xnp.hypot(a, b))
    total, apart = xnp.arctan2(b, a), xnp.arctan2(d, c)
    first, last = total - apart, total + apart
    # Where the first and the last axis fall together only one angle is known: the other one is zero.
    tiny = max(1e-7, 4 * float(xnp.finfo(quat.dtype).eps))
    zero, half_turn = middle <= tiny, middle >= np.pi - tiny
    known = xnp.where(zero, 2 * total, 2 * apart if intrinsic else -2 * apart)
    locked = zero | half_turn
    if intrinsic:
        last, first = xnp.where(locked, known, last), xnp.where(locked, 0, first)
    else:
        first, last = xnp.where(locked, known, first), xnp.where(locked, 0, last)
    if not proper:
        last, middle = sign * last, middle - np.pi / 2
    angles = xnp.stack([last, middle, first] if intrinsic else [first, middle, last], axis=-1)
    angles = xnp.where(angles < -np.pi, angles + 2 * np.pi, xnp.where(angles > np.pi, angles - 2 * np.pi, angles))
    return xnp.rad2deg(angles) if degrees else angles


def _check(what: str, x, last: tuple[int, ...]) -> Array:
    """An array whose last dimensions have these sizes."""
    x = xnp.asarray(x)
    if x.shape[x.ndim - len(last):] != last:
        wanted = " by ".join(map(str, last))
        raise ValueError(f"Rotation.{what} takes an array whose last sizes are {wanted}, got shape {x.shape}.")
    return x


class Rotation(NamedTuple):
    """Rotations in three dimensions: one, or as many as the leading dimensions of `quat` say.

    - `quat`: unit quaternions, with the real part last. The constructor takes them as they are; `from_quat` normalizes.

    >>> quarter = Rotation.from_euler("z", 90.0, degrees=True)
    >>> np.round(quarter.apply(xnp.array([1.0, 0.0, 0.0])), 3).tolist()
    [0.0, 1.0, 0.0]
    """

    quat: Array

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Rotations one after the other.

        - `rotations`: a sequence of rotations.

        >>> len(Rotation.concatenate([Rotation.identity(), Rotation.identity(2)]))
        3
        """
        return cls(xnp.concatenate([xnp.atleast_2d(rotation.quat) for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations about one to three axes, one after the other.

        - `seq`: the axes: "x", "y", "z", or "X", "Y", "Z" where they turn with the body.
        - `angles`: the angles, in the last dimension; for one axis also a number.
        - `degrees`: whether they are degrees.

        >>> Rotation.from_euler("xy", xnp.array([90.0, 0.0]), degrees=True).as_quat().tolist()
        [0.7071067690849304, 0.0, 0.0, 0.7071067690849304]
        """
        axes, intrinsic = _axes("from_euler", seq)
        check_arraylike("Rotation.from_euler", angles)
        angles = _inexact(xnp.atleast_1d(angles))
        angles = angles.astype(angles.dtype)  # a number gives way to arrays, a rotation does not
        if angles.shape[-1] != len(axes):
            raise ValueError(f"Rotation.from_euler takes for {seq!r} angles whose last size is {len(axes)}, got shape "
                             f"{angles.shape}.")
        return cls(_from_euler(angles, tuple(axes), intrinsic, bool(degrees)))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Rotations by their matrices.

        - `matrix`: orthogonal matrices of determinant 1, in the last two dimensions.

        >>> Rotation.from_matrix(xnp.eye(3)).as_quat().tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return cls(_from_matrix(_check("from_matrix", matrix, (3, 3))))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Rotations by modified Rodrigues parameters: the axis times the tangent of a quarter of the angle.

        - `mrp`: the parameters, in the last dimension.

        >>> Rotation.from_mrp(xnp.array([1.0, 0.0, 0.0])).as_quat().tolist()
        [1.0, 0.0, 0.0, 0.0]
        """
        return cls(_from_mrp(_check("from_mrp", mrp, (3,))))

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """Rotations by quaternions, which are normalized.

        - `quat`: quaternions, the real part last.

        >>> Rotation.from_quat(xnp.array([0.0, 0.0, 0.0, 2.0])).as_quat().tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return cls(_normalized(_check("from_quat", quat, (4,))))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations by vectors along their axes, which are as long as their angles.

        - `rotvec`: the vectors.
        - `degrees`: whether the lengths are degrees.

        >>> Rotation.from_rotvec(xnp.array([180.0, 0.0, 0.0]), degrees=True).magnitude().round(4).item() == np.float32(3.1416)
        True
        """
        return cls(_from_rotvec(_check("from_rotvec", rotvec, (3,)), bool(degrees)))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """The rotation that changes nothing.

        - `num`: how many; None: one, without a leading dimension.
        - `dtype`: of the quaternions.

        >>> Rotation.identity().as_quat().tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return cls(xnp.broadcast_to(xnp.array([0, 0, 0, 1], dtype), (4,) if num is None else (num, 4)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """Rotations of which all are equally likely.

        - `random_key`: a key of `random.key`.
        - `num`: how many; None: one, without a leading dimension.

        >>> len(Rotation.random(xf.random.key(0), 5))
        5
        """
        return cls(_normalized(random.normal(random_key, (4,) if num is None else (num, 4))))

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
        """First `other`, then this one."""
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_composed(self.quat, other.quat))

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Vectors that have been rotated.

        - `vectors`: one, or one for each rotation.
        - `inverse`: whether they are rotated back.

        >>> Rotation.identity().apply(xnp.array([1.0, 2.0, 3.0])).tolist()
        [1.0, 2.0, 3.0]
        """
        return _applied(self.quat, _check("apply", vectors, (3,)), bool(inverse))

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """The angles of rotations about three axes, one after the other. Where one of them is not determined, it is zero.

        - `seq`: three axes, as `from_euler` takes them.
        - `degrees`: whether the angles are wanted in degrees.

        >>> Rotation.identity().as_euler("xyz").tolist()
        [0.0, 0.0, 0.0]
        """
        if len(seq) != 3:
            raise ValueError(f"Rotation.as_euler takes as seq three axes, got {seq!r}.")
        axes, intrinsic = _axes("as_euler", seq)
        return _as_euler(self.quat, tuple(axes), intrinsic, bool(degrees))

    def as_matrix(self) -> Array:
        """The matrices by which vectors are multiplied.

        >>> Rotation.identity().as_matrix().tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        return _matrix(self.quat)

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters, of a length of at most 1.

        >>> Rotation.identity().as_mrp().tolist()
        [0.0, 0.0, 0.0]
        """
        return _as_mrp(self.quat)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternions.

        - `canonical`: whether the one with a positive real part is wanted, of the two that are the same rotation.
        - `scalar_first`: whether the real part comes first.

        >>> Rotation.identity().as_quat(scalar_first=True).tolist()
        [1.0, 0.0, 0.0, 0.0]
        """
        quat = _canonical(self.quat) if canonical else self.quat
        return xnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors along the axes that are as long as the angles.

        - `degrees`: whether the lengths are wanted in degrees.

        >>> Rotation.identity().as_rotvec().tolist()
        [0.0, 0.0, 0.0]
        """
        return _as_rotvec(self.quat, bool(degrees))

    def inv(self) -> Rotation:
        """The rotations back.

        >>> Rotation.from_mrp(xnp.array([1.0, 0.0, 0.0])).inv().as_quat()[0].item()
        -1.0
        """
        return Rotation(self.quat * xnp.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self) -> Array:
        """The angles, from 0 to pi.

        >>> Rotation.identity().magnitude().item()
        0.0
        """
        return _magnitude(self.quat)

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation that is nearest to all, by the squared distances of matrices.

        - `weights`: a factor for each rotation; None: 1.

        >>> Rotation.identity(3).mean().magnitude().item()
        0.0
        """
        weights = xnp.ones(len(self), self.quat.dtype) if weights is None else xnp.asarray(weights)
        if weights.shape != (len(self),):
            raise ValueError(f"Rotation.mean takes a weight for each of {len(self)} rotations, got shape {weights.shape}.")
        return Rotation(_mean(self.quat, weights))

    @property
    def single(self) -> bool:
        """Whether it is one rotation, without a leading dimension."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Rotations between given ones, at a constant speed about a fixed axis from one to the next. `init` makes it.

    - `times`: the times of the given rotations.
    - `timedelta`: how long it is from each to the next.
    - `rotations`: all rotations but the last.
    - `rotvecs`: the rotations from each to the next, as vectors.

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
        """Rotations between given ones.

        - `times`: when these are, increasing.
        - `rotations`: at least two of them, one for each time.

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
        """The rotations at `times`; at those before the first and after the last, these."""
        times = xnp.asarray(times, self.times.dtype)
        which = xnp.clip(xnp.searchsorted(self.times, times, side="right") - 1, 0, len(self.timedelta) - 1)
        part = xnp.clip((times - self.times[which]) / self.timedelta[which], 0, 1)
        turned = Rotation.from_rotvec(self.rotvecs[which] * part[..., None])
        return Rotation(_composed(self.rotations.quat[which], turned.quat))
