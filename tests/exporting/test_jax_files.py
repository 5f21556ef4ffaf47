"""Files that jax writes, read here. `by_jax` holds some of jax 0.10.2, and of 0.6.2 and 0.12.0.1 where their names say so."""

import collections
import pathlib
import random
import struct
from typing import Any, NamedTuple

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import export
from xlafront.core.ir import Effect
from xlafront.exporting.flatbuffers import Damaged, Table
from xlafront.sharding import AxisType, NamedSharding, PartitionSpec as P

pytestmark = pytest.mark.cpu_only

FOLDER = pathlib.Path(__file__).parent / "by_jax"
X = np.array([0.5, -1.25, 2.0], np.float32)


def content(name: str) -> bytes:
    return (FOLDER / f"{name}.exported").read_bytes()


def read(name: str):
    return export.deserialize(content(name))


class Point(NamedTuple):
    x: Any
    y: Any


class Scaled:
    def __init__(self, x, unit):
        self.x, self.unit = x, unit


class Ordered(Effect):
    ordered = True

    def __eq__(self, other):
        return type(other) is Ordered

    def __hash__(self):
        return 0


class Free(Effect):
    pass


Ordered.__module__ = Free.__module__ = "tests.by_jax"  # where the program was that wrote the file


@pytest.fixture(scope="module")
def registered():
    xf.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.unit), lambda unit, xs: Scaled(*xs, unit))
    export.register_namedtuple_serialization(Point, serialized_name="by_jax.Point")
    export.register_pytree_node_serialization(Scaled, serialized_name="by_jax.Scaled", serialize_auxdata=str.encode,
                                              deserialize_auxdata=bytes.decode)


@pytest.mark.parametrize("version, convention", [("0.6.2", 9), ("0.10.2", 10), ("0.12.0.1", 10)])
def test_values_and_derivatives(version, convention):
    """2 * sin(x), with derivatives to the first order; to the second by jax 0.10.2."""
    sine = read(f"sine_{version}")
    assert (sine.fun_name, sine.platforms, sine.nr_devices, sine.calling_convention_version, sine.module_kept_var_idx) == (
        "<lambda>", ("cpu",), 1, convention, (0,))
    assert str(sine.in_avals) == str(sine.out_avals) == "(ShapedArray(float32[3]),)" and sine._has_named_shardings
    assert not (sine.uses_global_constants or sine.ordered_effects or sine.unordered_effects or sine.disabled_safety_checks)
    assert sine.in_shardings_hlo == sine.out_shardings_hlo == sine._in_named_shardings == (None,)
    np.testing.assert_allclose(sine.call(X), 2 * np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda x: sine.call(x).sum())(X), 2 * np.cos(X), rtol=1e-6)
    second = xf.grad(lambda x: xf.grad(lambda x: sine.call(x).sum())(x).sum())
    if version == "0.10.2":
        np.testing.assert_allclose(second(X), -2 * np.sin(X), rtol=1e-6)
        assert sine.vjp().vjp().fun_name == "fun_vjp_jax" and not sine.vjp().vjp().has_vjp()
    else:
        with pytest.raises(ValueError, match="no VJP of fun_vjp_jax is available"):
            second(X)


def test_symbolic_dimensions():
    """concatenate([x, x]).sum(1) + y.sum() of f32[b, 2*b + 1] and f32[3, b], where b >= 2 and mod(b, 2) == 0."""
    sizes = read("sizes")
    assert [str(aval) for aval in (*sizes.in_avals, *sizes.out_avals)] == [
        "float32[b,2*b + 1]", "float32[3,b]", "float32[2*b]"]
    assert sizes.uses_global_constants and sizes.dimension_variables == ("b",)
    x, y = np.arange(36, dtype=np.float32).reshape(4, 9), np.ones((3, 4), np.float32)
    expected = np.concatenate([x, x]).sum(1) + 12
    np.testing.assert_allclose(sizes.call(x, y), expected)
    n, = export.symbolic_shape("n", constraints=["n >= 2"])
    again = export.export(xf.jit(lambda x, y: sizes.call(x, y) * 2))(
        xf.ShapeDtypeStruct((n, 2 * n + 1), "float32"), xf.ShapeDtypeStruct((3, n), "float32"))
    np.testing.assert_allclose(export.deserialize(again.serialize()).call(x, y), 2 * expected)
    with pytest.raises(ValueError, match=r"x\.shape\[1\]|args\[0\].shape\[1\] has size 8"):
        sizes.call(x[:, :8], y)
    with pytest.raises(ValueError, match=r"constraint 2\*floordiv\(b, 2\) == b"):
        sizes.call(x[:3, :7], y[:, :3])
    with pytest.raises(ValueError, match="constraint b >= 2"):
        sizes.call(x[:1, :3], y[:, :1])


def test_structures(registered):
    """`{"p": Point(p.x + p.y[0], [None, ()]), "s": Scaled(s.x * k, "km"), "o": OrderedDict(z=o["z"] - o["a"], a=o["a"])}`"""
    structures = read("structures")
    assert structures.fun_name == "f" and structures.module_kept_var_idx == (0, 1, 2, 3, 4, 5)
    found = structures.call(Point(1.0, [2.0, None]), Scaled(3.0, "m"), collections.OrderedDict(z=4.0, a=5.0), k=6.0, unused=np.zeros(7, np.int32))
    assert list(found) == ["o", "p", "s"] and found["p"] == Point(3, [None, ()]) and list(found["o"].items()) == [("z", -1), ("a", 5)]
    assert (type(found["s"]), found["s"].x, found["s"].unit) == (Scaled, 18, "km")
    with pytest.raises(ValueError, match=r"structure of \(args, kwargs\)"):
        structures.call(Point(1.0, [2.0, 3.0]), Scaled(3.0, "m"), collections.OrderedDict(z=4.0, a=5.0), k=6.0, unused=np.zeros(7, np.int32))


def test_types():
    """The key data of the first of three random keys, of arguments of every dtype that jax writes."""
    with xf.enable_x64(True):
        types = read("types")
        assert [str(aval) for aval in types.in_avals] == [f"{name}[2]" for name in (
            "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bfloat16 int4 "
            "uint4 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float0 float8_e4m3 float8_e3m4 "
            "float8_e8m0fnu float4_e2m1fn").split()] + ["key<fry>[]", "key<rbg>[]", "key<urbg>[]"]
        keys = [xf.random.key(7, impl=name) for name in ("threefry2x32", "rbg", "unsafe_rbg")]
        found = types.call(*[np.zeros(aval.shape, aval.dtype) for aval in types.in_avals[:-3]], *keys)
        np.testing.assert_array_equal(found, [0, 7])
        assert types.module_kept_var_idx == (len(types.in_avals) - 3,)


def test_platforms_and_checks():
    """x + 1 on a CPU and x - 1 on other platforms, for three platforms."""
    platforms = read("platforms")
    assert platforms.platforms == ("cuda", "cpu", "tpu")
    assert platforms.disabled_safety_checks == (export.DisabledSafetyCheck.platform(),
                                                export.DisabledSafetyCheck.custom_call("a_kernel"))
    assert platforms.call(np.float32(3)) == (4 if xf.default_backend() == "cpu" else 2)


def test_effects():
    effects = read("effects")
    assert effects.ordered_effects == (Ordered(),) and [type(e) for e in effects.unordered_effects] == [Free]
    assert effects.call(np.float32(1)) == 2 and xf.jit(lambda x: effects.call(effects.call(x)))(np.float32(1)) == 3


@pytest.mark.cpu_only
def test_over_devices():
    """(a + 1, b), where a is split by rows and the first result by columns."""
    split, mesh = read("split"), xf.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    assert split.nr_devices == 8 and split.in_shardings_jax(mesh)[0].spec == P("x", None)
    assert split.out_shardings_jax(mesh)[0] == NamedSharding(mesh, P(None, ("y", "x"))) and split.out_shardings_jax(mesh)[1] is None
    assert str(split.in_shardings_hlo[0]) == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    found, _ = xf.jit(split.call)(xf.device_put(x, split.in_shardings_jax(mesh)[0]), np.float32(1))
    np.testing.assert_array_equal(found, x + 1)
    assert {shard.data.shape for shard in found.addressable_shards} == {(8, 1)}

    [inside], [outside] = [read("split_types")._in_named_shardings, read("split_types")._out_named_shardings]
    assert inside.mesh.axis_types == (AxisType.Explicit,) * 2 and (inside.spec, outside.spec) == (P(None, "y"), P(None, unreduced={"y"}))
    assert [str(aval) for aval in (*read("split_types").in_avals, *read("split_types").out_avals)] == [
        "float32[8,4@y]", "float32[8]{U:y}"]
    assert str(read("host").in_avals) == "(ShapedArray(float32<host>[8,4]),)"

    old = read("split_0.6.2")  # which says how arguments are split, but not along which axes of a mesh
    again = export.deserialize(old.serialize())
    for exported in (old, again):
        assert not exported._has_named_shardings and exported._in_named_shardings == (None,)
        assert exported.in_shardings_jax(mesh) == (NamedSharding(mesh, P("x")),) and exported.in_shardings_jax(None) == (None,)
    np.testing.assert_array_equal(old.call(xf.device_put(x[:, :4], old.in_shardings_jax(mesh)[0])), x[:, :4] + 1)


def test_reserialize_in_xlafront_format():
    sine = export.deserialize(read("sine_0.10.2").serialize(vjp_order=1))
    np.testing.assert_allclose(xf.grad(lambda x: sine.call(xnp.sin(x)).sum())(X), 2 * np.cos(np.sin(X)) * np.cos(X), rtol=1e-6)


def test_info(tmp_path, capsys):
    from xlafront.exporting.script import info

    (tmp_path / "f").write_bytes(content("sine_0.12.0.1"))
    assert info(str(tmp_path / "f")) == 0
    printed = capsys.readouterr().out
    for words in ("exported function of jax", "float32[3]", "to order 1", "jax 0.12.0.1, format 12", "1.18.0"):
        assert words in printed


NAMES = sorted([path.stem for path in FOLDER.iterdir()])


@pytest.mark.parametrize("name", NAMES)
def test_truncated_file_raises(name):
    blob = content(name)
    for length in range(0, len(blob) - 8, 7):
        try:
            export.deserialize(blob[:length])
        except ValueError as e:
            assert "cannot deserialize" in str(e)
        else:
            assert blob[length:].count(0) == len(blob) - length


def test_damaged_file_raises_or_is_read(registered):
    """It may also be read, as there is no checksum."""
    chance, refused = random.Random(0), 0
    for name in NAMES:
        blob = content(name)
        for _ in range(150):
            damaged = bytearray(blob)
            for _ in range(chance.choice([1, 1, 4])):
                damaged[chance.randrange(len(blob))] = chance.choice([0, 1, 128, 255, chance.randrange(256)])
            try:
                export.deserialize(damaged)
            except ValueError:
                refused += 1
    assert refused > 500


def nested(depth: int, width: int) -> bytes:
    """A table whose field is a vector of one table `width` times, whose field is a vector of one table, ..."""
    chunks = [struct.pack("<I", 12), struct.pack("<HHHH", 6, 8, 4, 0)]
    for _ in range(depth):  # the offset to the virtual table, that to the vector, the vector
        chunks.append(struct.pack("<iII", sum(map(len, chunks)) - 4, 4, width))
        chunks.append(struct.pack(f"<{width}I", *range(4 * width, 0, -4)))
    return b"".join(chunks) + struct.pack("<iII", sum(map(len, chunks)) - 4, 4, 0)


@pytest.mark.parametrize("depth, width, words", [(300, 1, "nested more than 200 deep"), (60, 2, "more often than its size allows")])
def test_endless_tables_raise(depth, width, words):
    def visit(table):
        return sum(map(visit, table.tables(0)), 1)

    assert visit(Table.root(nested(3, 2))) == 15
    with pytest.raises(Damaged, match=words):
        visit(Table.root(nested(depth, width)))
