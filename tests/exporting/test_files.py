"""Files of exported functions: other processes and versions, and errors for damaged, newer and foreign files."""

import collections
import json
import math
import pathlib
import struct
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import export
from xlafront.exporting import files

X = np.array([0.5, -1.25, 2.0], np.float32)
FOLDER = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def blob():
    return bytes(export.export(xf.jit(lambda x: xnp.sin(x) * 2))(X).serialize(vjp_order=1))


def test_another_process(blob, tmp_path):
    (tmp_path / "f.exported").write_bytes(blob)
    program = """
import sys, numpy as np, xlafront as xf
read = xf.export.deserialize(open(sys.argv[1], "rb").read())
x = np.array([0.5, -1.25, 2.0], np.float32)
np.testing.assert_allclose(read.call(x), 2 * np.sin(x), rtol=1e-6)
np.testing.assert_allclose(xf.grad(lambda x: read.call(x).sum())(x), 2 * np.cos(x), rtol=1e-6)
print(read.fun_name, read.in_avals)
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "f.exported"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "<lambda> (ShapedArray(float32[3]),)\n"


def test_damaged_or_truncated_file_raises(blob):
    for i in range(len(blob)):
        with pytest.raises(ValueError, match="cannot deserialize"):
            files.read(blob[:i] + bytes([blob[i] ^ 0x41]) + blob[i + 1:])
        with pytest.raises(ValueError, match="cannot deserialize"):
            files.read(blob[:i])
    with pytest.raises(ValueError, match="damaged"):
        export.deserialize(blob + b"\0")
    assert export.deserialize(bytearray(blob)).fun_name == export.deserialize(memoryview(blob)).fun_name == "<lambda>"


def rewritten(blob: bytes, version: int = files.VERSION, **changes) -> bytes:
    """Return a modified file with a matching checksum."""
    header, modules = files.read(blob)
    header["exported"] |= changes
    text = json.dumps(header).encode()
    body = struct.pack("<Q", len(text)) + text + bytes(modules)
    return struct.pack("<12sIQ32s", files.MAGIC, version, len(body), files._digest(version, body)) + body


@pytest.mark.parametrize("change, words", [
    (lambda b: rewritten(b, version=files.VERSION + 1), f"has format {files.VERSION + 1}.*Install a newer version"),
    (lambda b: rewritten(b, calling_convention=11), "calling convention 11.*supports 9 to 10"),
    (lambda b: rewritten(b, ordered_effects=["somewhere.Effect"]), "effect somewhere.Effect.*Import the module"),
    (lambda b: rewritten(b, in_tree=["registered", ["*"], "some.Type", ""]), "the name 'some.Type'.*Register it"),
    (lambda b: rewritten(b, in_avals=[{"shape": [], "dtype": "key<abc>"}]), "random keys.*key<abc>"),
    (lambda b: b"", "an empty file"),
    (lambda b: b[:20], "truncated"),
    (lambda b: b"ML\xefR\rStableHLO_v1.0.0", "bare MLIR module"),
    (lambda b: b"<\0\0\0" + bytes(40) + b"ML\xefR\rStableHLO_v1.0.0", "file of jax is truncated, damaged or newer"),
    (lambda b: b.replace(b"\r\n", b"\n"), "damaged at its beginning"),
    (lambda b: b"PK\x03\x04 and so on", "not an exported function"),
])
def test_deserialize_errors(blob, change, words):
    with pytest.raises(ValueError, match=words):
        export.deserialize(change(blob))


def test_deserialize_takes_bytes():
    with pytest.raises(TypeError, match=r"open\(path, 'rb'\)"):
        export.deserialize("f.exported")


def test_newer_stablehlo_version_raises_on_use(blob):
    """A module of a version that this jaxlib does not support raises an error when it is used."""
    read = export.deserialize(blob)
    module = read.mlir_module_serialized
    start = module.index(b"StableHLO_v") + len(b"StableHLO_v")
    newer = module[:start] + b"9" + module[start + 1:].replace(b"sine_v2", b"sine_v9")
    object.__setattr__(read, "mlir_module_serialized", newer)
    with pytest.raises(ValueError, match="StableHLO 9.*install a newer jaxlib"):
        read.call(X)


Point = collections.namedtuple("Point", "x y")


class Pair(NamedTuple):
    left: Any
    right: Any


class Scaled:
    def __init__(self, x, unit):
        self.x, self.unit = x, unit


def roundtrip(*args):
    return export.deserialize(export.export(xf.jit(lambda *xs: xs))(*args).serialize()).call(*args)


def test_structures():
    containers = {"a": [X, (X, None), ()], "b": {}, "c": collections.OrderedDict(z=X, a=X), "d": collections.defaultdict(list, k=X)}
    [found] = roundtrip(containers)
    assert xf.tree.structure(found) == xf.tree.structure(containers) and found["d"].default_factory is list
    assert list(roundtrip({1: X, 0: X})[0]) == [0, 1]
    with pytest.raises(TypeError, match="defaultdict.*factories"):
        roundtrip(collections.defaultdict(lambda: 0, k=X))
    with pytest.raises(TypeError, match="keys that are strings, numbers or None.*tuple"):
        roundtrip({(1, 2): X})


def test_registered_types():
    with pytest.raises(ValueError, match="Point.*not registered.*register_namedtuple_serialization"):
        roundtrip(Point(X, X))
    assert export.register_namedtuple_serialization(Point, serialized_name="test.Point") is Point
    export.register_namedtuple_serialization(Pair, serialized_name="test.Pair")
    [found] = roundtrip(Pair(Point(X, 2 * X), None))
    assert type(found) is Pair and type(found.left) is Point
    np.testing.assert_array_equal(found.left.y, 2 * X)
    with pytest.raises(ValueError, match="duplicate"):
        export.register_namedtuple_serialization(Point, serialized_name="test.Other")
    with pytest.raises(ValueError, match="duplicate"):
        export.register_namedtuple_serialization(collections.namedtuple("Q", "x"), serialized_name="test.Point")
    with pytest.raises(ValueError, match="register_pytree_node_serialization"):
        export.register_namedtuple_serialization(dict, serialized_name="test.dict")

    functions = {"serialize_auxdata": str.encode, "deserialize_auxdata": bytes.decode}
    with pytest.raises(ValueError, match="no pytree.*register_pytree_node first"):
        export.register_pytree_node_serialization(Scaled, serialized_name="test.Scaled", **functions)
    xf.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.unit), lambda unit, xs: Scaled(*xs, unit))
    export.register_pytree_node_serialization(Scaled, serialized_name="test.Scaled", **functions)
    [found] = roundtrip(Scaled(X, "metre"))
    assert (type(found), found.unit) == (Scaled, "metre")


class Labelled:
    """A vector with a label for each element, which checks its components."""

    def __init__(self, x, labels):
        assert x.shape == (len(labels),)
        self.x, self.labels = x, labels


def test_reading_a_file_creates_no_nodes():
    xf.tree_util.register_pytree_node(Labelled, lambda v: ((v.x,), v.labels), lambda labels, xs: Labelled(*xs, labels))
    export.register_pytree_node_serialization(
        Labelled, serialized_name="test.Labelled", serialize_auxdata=lambda labels: "/".join(labels).encode(),
        deserialize_auxdata=lambda data: tuple(data.decode().split("/")))
    value = Labelled(X, ("a", "b", "c"))
    [[first, second]] = roundtrip([value, {"v": value}])
    assert first.labels == second["v"].labels == value.labels


def test_fields_of_named_tuples_are_compared(blob):
    export.register_namedtuple_serialization(collections.namedtuple("Old", "x y"), serialized_name="test.Fields")
    written = rewritten(blob, in_tree=["tuple", [["registered", ["*", "*"], "test.Fields", "eCB6"]]])  # "x z"
    with pytest.raises(ValueError, match=r"had the fields \('x', 'z'\).*has \('x', 'y'\)"):
        export.deserialize(written)


@pytest.mark.parametrize("version", ["0.10.2", "0.11.2", "0.12.0.1"])
def test_files_of_other_versions(version):
    """Files of the first format, by an older and by newer jaxlibs, remain readable."""
    read = export.deserialize((FOLDER / f"by_jaxlib_{version}.exported").read_bytes())
    key, x = xf.random.key(5), np.array([[1, 0.5, 0], [0.25, 2, 1], [0, 1, 3]], np.float32)
    arguments = key, {"x": x, "scale": xnp.bfloat16(2)}
    product = x @ x.T @ np.vectorize(math.erf)(x[:, 0])
    found, words, largest = read.call(*arguments)
    np.testing.assert_allclose(found, 2 * np.sin(product), rtol=1e-5)
    np.testing.assert_array_equal(words, xf.random.key_data(key))
    np.testing.assert_array_equal(largest, -np.sort(-x)[:, :2])
    slope = xf.grad(lambda scale: read.call(key, {"x": x, "scale": scale})[0].sum())(xnp.bfloat16(2))
    np.testing.assert_allclose(np.float32(slope), np.sin(product).sum(), rtol=1e-2)


@pytest.mark.parametrize("spec", [
    xf.P("x"), xf.P(("x", "y"), None), xf.P(None, unreduced={"y"}), xf.P(reduced={"x"}),
    *[xf.P("x", unreduced={"y"}, unreduced_kind=kind) for kind in xf.sharding.UnreducedKind]])
def test_shardings_in_files(spec):
    sharding = xf.NamedSharding(xf.sharding.AbstractMesh((2, 2), ("x", "y")), spec)
    record = json.loads(json.dumps(files._sharding_to_json(sharding, None)))
    assert files._sharding_from_json(record) == sharding
    record.pop("unreduced_kind")  # as files of older versions have it: unreduced values are sums
    read = files._sharding_from_json(record).spec
    assert (read.partitions, read.unreduced, read.reduced) == (spec.partitions, spec.unreduced, spec.reduced)
