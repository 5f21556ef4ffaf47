"""Rotations, their interpolation, and vector quantization, against SciPy."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.spatial.transform as theirs

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.scipy.cluster.vq import vq
from xlafront.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
QUAT = RNG.normal(size=(7, 4))
VECTORS = RNG.normal(size=(7, 3))


@pytest.fixture(autouse=True)
def wide():
    with xf.enable_x64(True):
        yield


def close(x, y, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)


def pairs():
    yield Rotation.from_quat(QUAT), theirs.Rotation.from_quat(QUAT)
    yield Rotation.from_quat(QUAT[0]), theirs.Rotation.from_quat(QUAT[0])


def test_representations_match_scipy():
    for ours, other in pairs():
        close(ours.as_quat(), other.as_quat())
        close(ours.as_quat(canonical=True), other.as_quat(canonical=True))
        close(ours.as_quat(scalar_first=True), other.as_quat(scalar_first=True))
        for form in ("matrix", "mrp", "rotvec"):
            found = getattr(ours, f"as_{form}")()
            close(found, getattr(other, f"as_{form}")())
            close(getattr(Rotation, f"from_{form}")(found).as_matrix(), other.as_matrix())
        close(ours.as_rotvec(degrees=True), other.as_rotvec(degrees=True))
        close(Rotation.from_rotvec(ours.as_rotvec(degrees=True), degrees=True).as_matrix(), other.as_matrix())
        close(ours.magnitude(), other.magnitude())
        close(ours.inv().as_matrix(), other.inv().as_matrix())
        close((ours * ours[2] if not ours.single else ours * ours).as_matrix(),
              (other * other[2] if not ours.single else other * other).as_matrix())
        close(ours.apply(VECTORS), other.apply(VECTORS))
        close(ours.apply(VECTORS[0], inverse=True), other.apply(VECTORS[0], inverse=True))


def test_from_matrix_of_half_turns():
    for axis in range(3):
        vector = np.eye(3)[axis] * np.pi
        matrix = theirs.Rotation.from_rotvec(vector).as_matrix()
        close(Rotation.from_matrix(matrix).as_matrix(), matrix)
        close(Rotation.from_rotvec(vector).as_rotvec(), vector)


@pytest.mark.parametrize("middle", "xyz")
def test_euler_angles(middle):
    angles = RNG.uniform(-1, 1, size=(4, 3))
    locked = np.array([[0.3, turn, 0.2] for turn in (np.pi / 2, -np.pi / 2, 0, np.pi)])
    for first, last in itertools.product("xyz", repeat=2):
        if middle in (first, last):
            continue
        for seq in (first + middle + last, (first + middle + last).upper()):
            for ours, other in pairs():
                close(ours.as_euler(seq, degrees=True), other.as_euler(seq, degrees=True))
            close(Rotation.from_euler(seq, angles).as_matrix(), theirs.Rotation.from_euler(seq, angles).as_matrix())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SciPy says that angles are not determined
                expected = theirs.Rotation.from_euler(seq, locked).as_euler(seq)
            apart = np.asarray(Rotation.from_euler(seq, locked).as_euler(seq)) - expected
            close(np.exp(1j * apart), 1, 1e-6)


def test_from_euler_with_one_or_two_angles():
    for seq, angles in (("x", 0.5), ("Y", np.array([0.5])), ("z", np.array([[20.0], [30.0]])), ("xz", np.array([10.0, 40.0]))):
        for degrees in (False, True):
            close(Rotation.from_euler(seq, angles, degrees).as_matrix(),
                  np.squeeze(theirs.Rotation.from_euler(seq, angles, degrees).as_matrix()))


def test_from_euler_of_scalar_is_strongly_typed():
    assert not Rotation.from_euler("x", 0.5).quat.weak_type


def test_several_rotations():
    ours, other = next(pairs())
    assert len(ours) == 7 and not ours.single and ours[0].single
    close(ours[2:5].as_matrix(), other[2:5].as_matrix())
    close(ours.mean().as_matrix(), other.mean().as_matrix())
    weights = np.arange(1.0, 8)
    close(ours.mean(weights).as_matrix(), other.mean(weights).as_matrix())
    close(Rotation.concatenate([ours, ours[0]]).as_matrix(), np.concatenate([other.as_matrix(), other[:1].as_matrix()]))
    close(Rotation.concatenate([ours[0], ours[1]]).as_matrix(), other[:2].as_matrix())
    close(Rotation.identity(2).as_matrix(), np.stack([np.eye(3)] * 2))
    assert Rotation.identity(dtype=np.float16).quat.dtype == np.float16


def test_random_rotations_are_uniform():
    """Rotated vectors are uniform on the sphere: their mean is 0, their second moments are those of the sphere."""
    found = np.asarray(Rotation.random(xf.random.key(0), 4000).apply(np.array([0.0, 0.0, 1.0])))
    assert np.abs(found.mean(0)).max() < 5 / np.sqrt(3 * 4000)
    assert np.abs(found.T @ found / 4000 - np.eye(3) / 3).max() < 0.03
    assert Rotation.random(xf.random.key(0)).single


def test_interpolation():
    ours, other = next(pairs())
    times, expected = np.cumsum(RNG.uniform(0.5, 1, size=7)), np.linspace(0, 1, 13)
    expected = times[0] + expected * (times[-1] - times[0])
    close(Slerp.init(times, ours)(expected).as_matrix(), theirs.Slerp(times, other)(expected).as_matrix())
    close(Slerp.init(times, ours)(times[2]).as_matrix(), other[2].as_matrix())
    for outside, end in ((times[0] - 1, 0), (times[-1] + 1, -1)):
        close(Slerp.init(times, ours)(outside).as_matrix(), other[end].as_matrix())


def test_transformations():
    rotvec = RNG.normal(size=3)
    for vector in (rotvec, np.zeros(3), 1e-5 * rotvec):  # there and back is the identity, whose derivative is too
        close(xf.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())(vector), np.eye(3), 1e-7)
    rotations = Rotation.from_quat(QUAT)
    close(xf.vmap(lambda r, v: r.apply(v))(rotations, VECTORS), rotations.apply(VECTORS))
    assert isinstance(xf.jit(lambda r: r.inv())(rotations), Rotation)
    slerp = xf.jit(lambda r: Slerp.init(xnp.arange(7.0), r))(rotations)
    close(slerp(1.0).as_matrix(), rotations[1].as_matrix())


def test_bad_rotations_raise():
    one, several = Rotation.identity(), Rotation.identity(3)
    for call in (lambda: one[0], lambda: len(one), one.mean):
        with pytest.raises(TypeError, match="single"):
            call()
    for seq, words in (("xYz", "letters"), ("abc", "letters"), ("xxy", "neighbours"), ("xyzx", "three"), ("", "letters")):
        with pytest.raises(ValueError, match=words):
            Rotation.from_euler(seq, np.ones(3))
    with pytest.raises(ValueError, match="three axes"):
        one.as_euler("x")
    with pytest.raises(ValueError, match="last size is 3"):
        Rotation.from_euler("xyz", np.ones(2))
    with pytest.raises(TypeError, match="list"):
        Rotation.from_euler("xyz", [1, 2, 3])
    for make, shape in ((Rotation.from_matrix, (2, 2)), (Rotation.from_quat, (3,)), (Rotation.from_rotvec, (4,))):
        with pytest.raises(ValueError, match="last sizes"):
            make(np.ones(shape))
    with pytest.raises(ValueError, match="weight"):
        several.mean(np.ones(2))
    with pytest.raises(ValueError, match="at least two"):
        Slerp.init(np.ones(1), one)
    with pytest.raises(ValueError, match="one for each"):
        Slerp.init(np.ones(2), several)


def test_vq():
    points = RNG.normal(size=(20, 3))
    for obs, book in ((points, points[:4]), (points[:, 0], points[:4, 0])):
        expected = scipy.cluster.vq.vq(obs, book)
        for found in (vq(obs, book), xf.jit(vq)(obs, book), vq(obs, book, check_finite=False)):
            np.testing.assert_array_equal(found[0], expected[0])
            close(found[1], expected[1])
    assert vq(np.arange(4), np.arange(2))[1].dtype == np.float64
    batches = xf.vmap(vq, in_axes=(0, None))(points.reshape(4, 5, 3), points[:4])
    np.testing.assert_array_equal(np.ravel(batches[0]), vq(points, points[:4])[0])
    direction = RNG.normal(size=points.shape)
    _, moved = xf.jvp(lambda obs: vq(obs, points[:4] + 0.1)[1], (points,), (direction,))
    step = 1e-6
    close(moved, (vq(points + step * direction, points[:4] + 0.1)[1] - vq(points - step * direction, points[:4] + 0.1)[1]) / (2 * step),
          1e-6)
    for obs, book, words in ((points[0], points, "equally many dimensions"), (points, points[:, :2], "coordinates"),
                             (points[None], points[None], "one or two"), (points, points[:0], "at least one")):
        with pytest.raises(ValueError, match=words):
            vq(obs, book)
    with pytest.raises(TypeError, match="list"):
        vq([[1.0]], [[1.0]])
