"""Meshes, specs, shardings, memories, layouts: their own arithmetic, placing of arrays and programs, and what bad input raises."""

import pickle
import threading

import numpy as np
import pytest
from laws import signatures_seen

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P, lax
from xlafront.experimental import mesh_utils
from xlafront.experimental.layout import Format, Layout
from xlafront.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    ManualAxisType,
    Mesh,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
)

pytestmark = pytest.mark.cpu_only

A = np.arange(32, dtype=np.float32).reshape(8, 4)
AUTO = (AxisType.Auto,) * 2


@pytest.fixture
def mesh():
    return xf.make_mesh((4, 2), ("x", "y"), AUTO)


# Specs, meshes, shardings


def test_specs():
    assert repr(P("x", None, ("x", "y"))) == "P('x', None, ('x', 'y'))" and repr(P("x")) == "P('x',)"
    assert P("x") != P("x", None) and P(("x",)) == P("x") == P(["x"]) and P(()) == P(None) and P("x") != ("x",)
    assert P("x") + P("y") == P("x", "y") == P("x") + ("y",) == ("x",) + P("y")
    s = P("x", "y", "x")
    assert len(s) == 3 and s[1] == "y" and s[0:2] == ("x", "y") and list(s) == ["x", "y", "x"]
    assert s.index("y") == 1 and s.count("x") == 2 and s.partitions == ("x", "y", "x")
    assert repr(P("x", unreduced={"y"})) == "P('x', unreduced={'y'}, unreduced_kind=sum)"
    assert P("x").update(partitions=("y",)) == P("y")
    assert P(unreduced={"y"}).to_ct_spec() == P(reduced={"y"})
    assert pickle.loads(pickle.dumps(P(P.UNCONSTRAINED, "x"))) == P(P.UNCONSTRAINED, "x")
    with pytest.raises(TypeError, match="set"):
        P("x", unreduced="y")
    with pytest.raises(ValueError, match="both"):
        P(unreduced={"y"}, reduced={"y"})


def test_meshes(mesh):
    explicit = xf.make_mesh((4, 2), ("x", "y"))
    assert explicit.axis_types == (AxisType.Explicit,) * 2 and explicit != mesh and explicit.are_all_axes_explicit
    assert Mesh(xf.devices(), "x").axis_types == (AxisType.Auto,)
    assert str(mesh) == "Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto))"
    assert repr(mesh) == "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Auto))"
    assert mesh.axis_sizes == (4, 2) and dict(mesh.shape) == {"x": 4, "y": 2} and mesh.size == 8 and not mesh.empty
    assert explicit.explicit_axes == ("x", "y") and explicit.auto_axes == () == mesh.manual_axes
    np.testing.assert_array_equal(mesh.device_ids, np.arange(8).reshape(4, 2))
    assert mesh.local_mesh == mesh and not mesh.is_multi_process and len(mesh.local_devices) == 8
    assert mesh.update(axis_types=explicit.axis_types) == explicit and hash(mesh) == hash(explicit.update(axis_types=AUTO))
    abstract = mesh.abstract_mesh
    assert abstract.shape == mesh.shape and abstract.abstract_device.platform == "cpu"
    assert abstract.update_axis_types({"x": AxisType.Manual}).manual_axes == ("x",)
    assert repr(AbstractMesh((4, 2), ("x", "y"))) == "AbstractMesh('x': 4, 'y': 2, axis_types=(Explicit, Explicit))"
    assert AbstractMesh((4,), ("x",)) == AbstractMesh((4,), ("x",), (AxisType.Explicit,)) != AbstractMesh((4,), ("x",), AUTO[:1])
    with pytest.raises(TypeError, match="devices"):
        abstract.update(devices=3)
    for wrong in (("x",), "x", None):
        with pytest.raises(TypeError, match="set of axis names"):
            ManualAxisType(varying=wrong)
    assert pickle.loads(pickle.dumps(abstract)) == abstract
    assert AbstractDevice("v5e", 1, "tpu") == AbstractDevice("v5e", 1, "tpu") != AbstractDevice("v5e", 2, "tpu")
    assert ManualAxisType(varying=frozenset("x")).vur == {"x"} and ManualAxisType().empty
    with pytest.raises(ValueError, match="no devices"):
        abstract.devices  # noqa: B018
    with pytest.raises(ValueError, match="both"):
        ManualAxisType(varying=frozenset("x"), unreduced=frozenset("x"))


def test_the_active_mesh(mesh):
    assert get_mesh().empty and get_abstract_mesh().empty
    with xf.set_mesh(mesh):
        assert get_mesh() == mesh and get_abstract_mesh() == mesh.abstract_mesh
        assert xnp.ones((8, 4)).sharding.is_equivalent_to(NamedSharding(mesh, P()), 2)
        assert xf.device_put(A, P("x")).sharding == NamedSharding(mesh, P("x"))
        doubled = xf.jit(lambda x: x * 2, in_shardings=P("x"), out_shardings=P(None, "y"))(A)
        assert doubled.sharding.spec == P(None, "y") and doubled.tolist() == (2 * A).tolist()
        with xf.sharding.use_abstract_mesh(AbstractMesh((8,), ("z",))):
            assert get_abstract_mesh().axis_names == ("z",)
        with pytest.raises(ValueError, match="cannot change the size of the mesh"), xf.sharding.use_abstract_mesh(
                AbstractMesh((2,), ("z",))):
            pass
        with xf.set_mesh(None):
            assert get_mesh().empty and xnp.ones(2).sharding.num_devices == 1
        seen = []
        xf.jit(lambda x: seen.append(get_abstract_mesh()) or x)(1.0)
        assert seen == [mesh.abstract_mesh]
        with pytest.raises(ValueError, match="traced"):
            xf.jit(lambda x: [get_mesh(), x][1])(2.0)
    xf.set_mesh(mesh)
    assert get_mesh() == mesh
    with pytest.warns(DeprecationWarning, match="set_mesh"), mesh:
        pass
    xf.set_mesh(mesh).__exit__()
    assert get_mesh() == mesh
    from xlafront.base.meshes import active

    active.mesh = None
    assert get_mesh().empty


@pytest.mark.filterwarnings("ignore:.with mesh.:DeprecationWarning")
def test_a_mesh_that_threads_share(mesh):
    """Each leaves it to what was in force there before."""
    inside, go_on = threading.Event(), threading.Event()

    def other():
        with mesh:
            inside.set()
            go_on.wait(10)

    outer = Mesh(xf.devices()[:1], "z")
    def devices_of():
        return xf.jit(lambda x: lax.with_sharding_constraint(x, P()))(1.0).sharding.mesh

    with outer:
        thread = threading.Thread(target=other)
        with mesh:
            thread.start()
            inside.wait(10)
        assert devices_of() is outer
        go_on.set()
        thread.join()
    with pytest.raises(RuntimeError, match="set_mesh"):
        devices_of()


def test_shardings(mesh):
    s = NamedSharding(mesh, P("x"))
    assert s == NamedSharding(mesh, P("x")) != NamedSharding(mesh, P("x", None)) and hash(s) == hash(NamedSharding(mesh, P("x")))
    assert s.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2) and not s.is_equivalent_to(NamedSharding(mesh, P("y")), 2)
    assert s.shard_shape((8, 4)) == (2, 4) and s.num_devices == 8 and s.device_set == set(xf.devices())
    assert s.is_fully_addressable and not s.is_fully_replicated and s.has_addressable_devices
    assert s.replicated_axes == {"y"} and s.memory_kind == "device"
    assert s.with_memory_kind("pinned_host").memory_kind == "pinned_host" != s.memory_kind
    assert s.update(spec=P("y")).spec == P("y") and s.update(memory_kind="pinned_host").memory_kind == "pinned_host"
    index_of_device = s.devices_indices_map((8, 4))
    assert [index_of_device[d][0] for d in xf.devices()] == [slice(2 * (i // 2), 2 * (i // 2) + 2) for i in range(8)]
    assert s.addressable_devices_indices_map((8, 4)) == index_of_device
    pickled = pickle.loads(pickle.dumps(P("x"))), NamedSharding(mesh.abstract_mesh, P("x"))
    assert pickled[0] == s.spec and pickled[1].shard_shape((8, 4)) == (2, 4)
    one = SingleDeviceSharding(xf.devices()[1])
    assert one.device_set == {xf.devices()[1]} and one.is_fully_replicated and one.shard_shape((3,)) == (3,)
    x = xf.device_put(A, s)
    assert [shard.replica_id for shard in x.addressable_shards] == [0, 1] * 4 and len(x.global_shards) == 8


# Placing arrays


def test_device_put(mesh):
    rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
    for source in (A, xnp.asarray(A), xf.device_put(A, columns), xf.device_put(A, xf.devices()[3])):
        x = xf.device_put(source, rows)
        assert x.sharding == rows and x.committed and x.tolist() == A.tolist()
    same = xf.device_put(x, NamedSharding(mesh, P("x", None)))
    assert same.sharding.spec == P("x", None) and same.tolist() == A.tolist()
    assert not xf.device_put(A).committed and xf.device_put(A, xf.devices()[0]).committed
    tree = xf.device_put({"a": A, "b": [A, A]}, {"a": rows, "b": [columns, None]})
    assert tree["a"].sharding == rows and tree["b"][0].sharding == columns and not tree["b"][1].committed
    donated = xnp.ones((8, 4))
    xf.device_put(donated, rows, donate=True)
    assert donated.is_deleted()


@pytest.mark.parametrize("kind", ["device", "pinned_host", "unpinned_host"])
def test_memories(mesh, kind):
    sharding = NamedSharding(mesh, P("x"), memory_kind=kind)
    x = xf.device_put(A, sharding)
    assert x.sharding.memory_kind == kind and x.tolist() == A.tolist()
    back = xf.device_put(x, sharding.with_memory_kind("device"))
    assert back.sharding.memory_kind == "device" and back.tolist() == A.tolist()
    out = xf.jit(lambda x: x + 1, out_shardings=sharding)(back)
    assert out.sharding == sharding and out.tolist() == (A + 1).tolist()


def test_memories_of_shardings_without_devices(mesh):
    abstract = NamedSharding(mesh.abstract_mesh, P("x"), memory_kind="pinned_host")
    with xf.set_mesh(mesh):
        out = xf.jit(lambda x: x + 1, out_shardings=abstract)(A)
    assert out.sharding == NamedSharding(mesh, P("x"), memory_kind="pinned_host") and out.tolist() == (A + 1).tolist()
    traced = xf.jit(lambda x: x + 1).trace(xf.ShapeDtypeStruct(A.shape, A.dtype, sharding=abstract))
    assert '%arg0: tensor<8x4xf32> {mhlo.memory_kind = "pinned_host"' in traced.lower(lowering_platforms=("tpu",)).as_text()


def test_memory_spaces(mesh):
    host, device = xf.memory.Space.Host, xf.memory.Space.Device
    x = xf.device_put(xnp.ones(3), host)
    assert x.sharding.memory_kind == "pinned_host" and xf.typeof(x).memory_space is host and not x.committed
    assert str(xf.typeof(x)) == "float32<host>[3]" and xf.typeof(xnp.ones(3)).memory_space is device
    sharded = xf.device_put(xf.device_put(A, NamedSharding(mesh, P("x"))), host)
    assert sharded.sharding == NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    moved = xf.jit(lambda x: xf.device_put(x, host))(xf.device_put(A, NamedSharding(mesh, P("x"))))
    assert moved.sharding.memory_kind == "pinned_host" and moved.tolist() == A.tolist()
    assert xf.jit(lambda x: xf.device_put(x, device) + 1)(moved).sharding.memory_kind == "device"
    assert (moved + 1).sharding.memory_kind == "pinned_host" and (moved + 1).tolist() == (A + 1).tolist()
    g = xf.grad(lambda x: (xf.device_put(xf.device_put(x, host), device) ** 2).sum())(xnp.arange(3.0))
    np.testing.assert_allclose(g, [0, 2, 4])


def test_layouts():
    assert repr(Layout((1, 0))) == "Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)"
    assert Layout((0, 1)) == Layout([0, 1]) != Layout((1, 0)) and hash(Layout((0, 1))) == hash(Layout((0, 1)))
    x = xnp.ones((2, 3))
    assert x.format.layout.major_to_minor == (0, 1) and x.format.sharding == x.sharding
    assert Format() == Format() and Format(Layout.AUTO).sharding is None
    with pytest.raises(ValueError, match="SingleDeviceSharding"):
        Format(Layout((0, 1)))
    with pytest.raises(TypeError, match="SingleDeviceSharding"):
        Format(Layout((0, 1)), xf.devices()[0])


def test_arrays_in_another_order(mesh):
    """Whatever the order in memory, values are those of NumPy, in compiled, eager and differentiated functions."""
    B = A[:3]
    one = SingleDeviceSharding(xf.devices()[0])
    plain = xf.jit(lambda x: x * 2 + 1)
    plain(xnp.asarray(B))
    x = xf.device_put(B, Format(Layout((1, 0)), one))
    assert x.format.layout.major_to_minor == (1, 0) and x.tolist() == B.tolist()
    for _ in range(2):
        assert plain(x).tolist() == (B * 2 + 1).tolist() and (x + x).tolist() == (2 * B).tolist()
    np.testing.assert_allclose(x @ x.T, B @ B.T)
    assert xf.grad(lambda x: (x * x).sum())(x).tolist() == (2 * B).tolist()
    assert xf.device_put(x, NamedSharding(mesh, P(None, "x"))).tolist() == B.tolist()
    assert xf.device_put(x, Format(Layout((0, 1)), one)).format.layout.major_to_minor == (0, 1)
    columns = Format(Layout((1, 0)), NamedSharding(mesh, P("y")))
    out = xf.jit(lambda x: x + 1, out_shardings=columns)(A)
    assert out.format.layout.major_to_minor == (1, 0) and out.sharding == columns.sharding and out.tolist() == (A + 1).tolist()
    taking = xf.jit(lambda x: x.T, in_shardings=Format(Layout((1, 0)), one))
    for given in (B, x, B, x):
        assert taking(given).tolist() == B.T.tolist()
    free = Format(Layout.AUTO)
    compiled = xf.jit(lambda x: x.T, in_shardings=free, out_shardings=free).lower(xf.ShapeDtypeStruct((3, 4), "float32")).compile()
    [[found], _] = compiled.input_formats
    assert sorted(found.layout.major_to_minor) == [0, 1] and sorted(compiled.output_formats.layout.major_to_minor) == [0, 1]
    other = xf.device_put(B, Format(Layout(found.layout.major_to_minor[::-1]), one))
    for given in (B, xf.device_put(B, found), xnp.asarray(B), B):
        assert compiled(given).tolist() == B.T.tolist()
        with pytest.raises(ValueError, match="layout"):  # of an array that was put somewhere
            compiled(other)
    described = xf.ShapeDtypeStruct((3, 4), "float32", sharding=Format(Layout((1, 0)), one))
    compiled = xf.jit(lambda x: x.T).lower(described).compile()
    assert compiled.input_formats[0][0].layout.major_to_minor == (1, 0) and compiled(x).tolist() == B.T.tolist()
    with pytest.raises(ValueError, match="once"):
        xf.device_put(B, Format(Layout((0, 0)), one))
    with pytest.raises(ValueError, match="concrete layout"):
        xf.device_put(B, Format(Layout.AUTO, one))
    donating = xf.jit(lambda x: x + 1, donate_argnums=0)
    for given in (xnp.asarray(B), xf.device_put(B, Format(Layout((1, 0)), one)), xnp.asarray(B) * 1):
        assert donating(donating(given)).tolist() == (B + 2).tolist()


def test_grids_of_devices():
    np.testing.assert_array_equal(mesh_utils.create_device_mesh((4, 2)), np.array(xf.devices()).reshape(4, 2))
    hybrid = mesh_utils.create_hybrid_device_mesh((4, 2), (1, 1), process_is_granule=True)
    np.testing.assert_array_equal(hybrid, np.array(xf.devices()).reshape(4, 2))

    class Device:
        def __init__(self, i):
            self.id, self.process_index, self.slice_index = i, i // 4, i // 4

    slices = mesh_utils.create_hybrid_device_mesh((2, 2), (2, 1), [Device(i) for i in range(8)])
    assert [[d.id for d in row] for row in slices] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    by_process = mesh_utils.create_hybrid_device_mesh(
        (2, 2), (1, 2), [Device(i) for i in (4, 5, 6, 7, 0, 1, 2, 3)], process_is_granule=True)
    assert [[d.id for d in row] for row in by_process] == [[0, 1, 4, 5], [2, 3, 6, 7]]
    unsorted = mesh_utils.create_hybrid_device_mesh(
        (4,), (2,), [Device(i) for i in (4, 5, 6, 7, 0, 1, 2, 3)], should_sort_granules_by_key=False)
    assert [d.id for d in unsorted] == [4, 5, 6, 7, 0, 1, 2, 3]
    with pytest.raises(ValueError, match="16 places for 8"):
        mesh_utils.create_device_mesh((16,))
    with pytest.raises(ValueError, match="process_is_granule"):
        mesh_utils.create_hybrid_device_mesh((2, 2), (2, 1))
    with pytest.raises(ValueError, match="2 slices, there are 1"):
        mesh_utils.create_hybrid_device_mesh((4,), (2,), process_is_granule=True)


# Programs


def test_shardings_of_programs(mesh):
    rows, full = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    out = xf.jit(lambda p, s: {"a": p["w"] * s, "b": (s, s)}, in_shardings=({"w": rows}, None), out_shardings={"a": None, "b": full})
    result = out({"w": A}, 2.0)
    assert result["a"].sharding.is_equivalent_to(rows, 2) and result["b"][0].sharding == full
    one = xf.jit(lambda x: x + 1, in_shardings=SingleDeviceSharding(xf.devices()[1]))(A)
    assert one.devices() == {xf.devices()[1]}
    x = xf.device_put(A, rows)
    donating = xf.jit(lambda x: x * 2, in_shardings=rows, out_shardings=rows, donate_argnums=0)
    y = donating(x)
    assert x.is_deleted() and y.sharding == rows and donating(y).tolist() == (4 * A).tolist() and y.is_deleted()


def test_tensor_parallel_training_equals_training_on_one_device(mesh):
    """The hidden layer is split over `y`, the batch over `x`; results feed the next step where they are."""
    rng = np.random.default_rng(0)
    x, w, v, y = (rng.normal(size=s).astype(np.float32) for s in ((16, 4), (4, 8), (8, 3), (16, 3)))

    def loss(weights, x, y):
        return xnp.mean((xnp.tanh(x @ weights["w"]) @ weights["v"] - y) ** 2)

    def step(weights, x, y):
        return xf.tree.map(lambda w, g: w - 0.1 * g, weights, xf.grad(loss)(weights, x, y))

    index_of_device = {"w": NamedSharding(mesh, P(None, "y")), "v": NamedSharding(mesh, P("y", None))}
    batch = NamedSharding(mesh, P("x"))
    split = xf.jit(step, in_shardings=(index_of_device, batch, batch), out_shardings=index_of_device)
    plain, one = xf.jit(step), {"w": w, "v": v}
    many, data = xf.device_put(one, index_of_device), xf.device_put((x, y), batch)
    with signatures_seen() as seen:
        for _ in range(3):
            one, many = plain(one, x, y), split(many, *data)
    for name in one:
        np.testing.assert_allclose(np.asarray(many[name]), np.asarray(one[name]), rtol=1e-5, atol=1e-6)
        assert many[name].sharding == index_of_device[name]
    assert len(seen) == 3  # of `plain` NumPy's arrays and ours; every step of `split` was the first one again


def test_inspecting(mesh):
    x = xf.device_put(A, NamedSharding(mesh, P("x", "y")))
    found = []
    xf.jit(lambda x: (xf.debug.inspect_array_sharding(xnp.sin(x).T, callback=found.append), x)[1])(x)
    assert found == [NamedSharding(mesh, P("y", "x"))]
    xf.debug.inspect_array_sharding({"a": x}, callback=found.append)
    xf.jit(xf.grad(lambda x: (xf.debug.inspect_array_sharding(x, callback=found.append), x.sum())[1]))(x)
    assert found[1:] == [x.sharding] * 2
    xf.jit(lambda x: (xf.debug.inspect_array_sharding(x, callback=found.append), x)[1])(A)
    assert found[3].num_devices == 1
    with pytest.raises(TypeError, match="callback"):
        xf.debug.inspect_array_sharding(x, callback=None)
    both = xf.shard_map(lambda x: (xf.debug.inspect_array_sharding(x, callback=found.append), x)[1],
                        mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    both(x)
    assert found[4:] == [NamedSharding(mesh, P())]  # each device has an array of its own


@pytest.mark.parametrize("spec, cells", [
    (P("x", "y"), [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"]]), (P("x"), [["0,1"], ["2,3"], ["4,5"], ["6,7"]]),
    (P(None, "y"), [["0,2,4,6", "1,3,5,7"]]), (P(), [["0,1,2,3,4,5,6,7"]]), (P("y", "x"), [list("0246"), list("1357")]),
])  # fmt: skip
def test_visualizations(mesh, spec, cells, capsys, monkeypatch):
    xf.debug.visualize_array_sharding(xf.device_put(A, NamedSharding(mesh, spec)))
    lines = capsys.readouterr().out.splitlines()
    rows = [[c.strip() for c in line.strip("│").split("│")] for line in lines if "CPU" in line]
    assert rows == [[f"CPU {c}" for c in row] for row in cells] and len({len(line) for line in lines}) == 1
    xf.jit(lambda x: [xf.debug.visualize_array_sharding(x, scale=0.5), x][1])(xf.device_put(A, NamedSharding(mesh, spec)))
    assert capsys.readouterr().out.count("CPU") == sum(map(len, cells))
    import types

    shown = []
    display = types.SimpleNamespace(HTML=lambda text: text, display=shown.append)
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(__import__("sys").modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell, display=display))
    monkeypatch.setitem(__import__("sys").modules, "IPython.display", display)
    xf.debug.visualize_sharding((8, 4), NamedSharding(mesh, spec), color_map=lambda t: (t, 0.5, 1 - t, 1))
    [html] = shown
    assert html.count("<tr>") == len(cells) and html.count("<td") == sum(map(len, cells)) and "CPU 0" in html


@pytest.mark.parametrize("shape, spec, options, lines, widths", [
    ((8, 8), P("x", "y"), {}, 9, [10, 10]), ((8, 8), P("x"), {}, 9, [23]), ((8, 8), P("y", "x"), {}, 11, [7] * 4),
    ((8, 8), P(None, "y"), {}, 11, [11, 11]), ((8, 8), P(), {}, 11, [23]), ((8, 8), P(("x", "y")), {}, 17, [23]),
    ((8, 16), P("x", "y"), {}, 9, [23, 23]), ((8, 16), P(), {}, 11, [48]), ((64, 8), P("x"), {}, 9, [7]),
    ((8,), P("x"), {}, 3, [7] * 4), ((8,), P(), {}, 3, [19]), ((8, 64), P(), {}, 11, [78]), ((8,), P("x"), {"min_width": 15}, 3, [13] * 4),
    ((8, 8), P("x", "y"), {"scale": 2.0}, 21, [23, 23]), ((8, 8), P("x"), {"scale": 0.5}, 9, [10]),
    ((8, 8), P("x", "y"), {"min_width": 20}, 9, [18, 18]), ((8, 8), P("x"), {"max_width": 20}, 9, [18]),
    ((8, 8), P("x", "y"), {"max_width": 20}, 9, [8, 9]), ((8, 8), P("x"), {"scale": 3.0, "max_width": 200}, 29, [73]),
    ((8, 8), P(), {"max_width": 16}, 11, [14]),
])  # fmt: skip
def test_sizes_of_visualizations(mesh, shape, spec, options, lines, widths, capsys):
    xf.debug.visualize_sharding(shape, NamedSharding(mesh, spec), **options)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == lines and [len(part) for part in printed[0].strip("┌┐").split("┬")] == widths
    assert {len(line) for line in printed} == {sum(widths) + len(widths) + 1}
    ids = {int(i) for line in printed for part in line.split("│") for i in part.replace("CPU", "").replace(",", " ").split() if i.isdigit()}
    assert ids == set(range(8))  # no label is lost where there is little room


def test_visualization_of_other_ranks(mesh, capsys):
    xf.debug.visualize_array_sharding(xf.device_put(np.ones(16), NamedSharding(mesh, P("x"))))
    assert "│CPU 0,1│CPU 2,3│" in capsys.readouterr().out
    for shape in ((), (8, 2, 2)):
        with pytest.raises(ValueError, match="1 or 2 dimensions"):
            xf.debug.visualize_array_sharding(xnp.ones(shape))


# Bad input



@pytest.mark.parametrize("make, error, words", [
    (lambda m: NamedSharding(m, P("z")), ValueError, ["'z'", "('x', 'y')"]),
    (lambda m: NamedSharding(m, P("x", "x")), ValueError, ["'x' twice"]),
    (lambda m: NamedSharding(m, ("x",)), TypeError, ["PartitionSpec"]),
    (lambda m: NamedSharding(m, P("x"), memory_kind="foo"), ValueError, ["foo", "pinned_host"]),
    (lambda m: NamedSharding(m, P("x", unreduced={"y"})), ValueError, ["Explicit"]),
    (lambda m: NamedSharding(m, P("x")).shard_shape((7, 4)), ValueError, ["(7, 4)", "4 parts", "'x': 4", "Pad"]),
    (lambda m: xf.make_mesh((16,), ("x",)), ValueError, ["16 devices", "there are 8", "num_cpu_devices"]),
    (lambda m: xf.make_mesh((4, 2), ("x", "x")), ValueError, ["differ"]),
    (lambda m: xf.make_mesh((-1,), ("x",)), ValueError, ["(-1,)"]),
    (lambda m: xf.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,)), ValueError, ["AxisType"]),
    (lambda m: xf.set_mesh("x"), ValueError, ["make_mesh"]),
    (lambda m: xf.device_put({"a": np.ones((7, 4))}, NamedSharding(m, P("x"))), ValueError, ["x['a']", "(7, 4)", "'x': 4", "Pad"]),
    (lambda m: xf.device_put(np.ones(8), NamedSharding(m, P("x", "y"))), ValueError, ["2 entries", "(8,)"]),
    (lambda m: xf.device_put(A, P("x")), ValueError, ["no mesh in force", "set_mesh"]),
    (lambda m: xf.device_put(A, "x"), ValueError, ["'x'", "sharding"]),
    (lambda m: xf.device_put({"a": A}, {"b": None}), ValueError, ["device_put", "'b'"]),
    (lambda m: xf.jit(lambda x: x, in_shardings=P("x"))(A), RuntimeError, ["set_mesh"]),
    (lambda m: xf.jit(lambda x: x, in_shardings="x")(A), TypeError, ["in_shardings", "'x'"]),
    (lambda m: xf.jit(lambda p: p["w"], in_shardings=NamedSharding(m, P("x")))({"w": np.ones((7, 4))}), ValueError,
     ["p['w']", "(7, 4)", "'x': 4", "Pad"]),
    (lambda m: xf.jit(lambda x: x, in_shardings=NamedSharding(m, P("x")))(xf.device_put(A, xf.devices()[1])), ValueError,
     ["in_shardings", "argument x", "device_put"]),
    (lambda m: xf.jit(lambda p: p["w"] + p["b"])({"w": xf.device_put(A, xf.devices()[0]), "b": xf.device_put(A, xf.devices()[1])}),
     ValueError, ["p['w']", "p['b']", "[0]", "[1]", "device_put"]),
    (lambda m: lax.with_sharding_constraint({"a": np.ones(7)}, NamedSharding(m, P("x"))), ValueError, ["x['a']", "(7,)", "Pad"]),
    (lambda m: lax.with_sharding_constraint(A, P("x")), RuntimeError, ["set_mesh"]),
])  # fmt: skip
def test_bad_input(mesh, make, error, words):
    with pytest.raises(error) as caught:
        make(mesh)
    for word in words:
        assert word in str(caught.value)


LIKE = {
    "zeros_like": (xnp.zeros_like, 0),
    "ones_like": (xnp.ones_like, 1),
    "full_like": (lambda x, **kw: xnp.full_like(x, 3, **kw), 3),
    "lax.full_like": (lambda x, **kw: xf.lax.full_like(x, 3, **kw), 3),
}


@pytest.mark.parametrize("name", LIKE)
def test_arrays_made_like_another_are_on_its_devices(name, monkeypatch):
    """The state of an optimizer has the sharding of the parameters, and is never unsharded on one device."""
    like, value = LIKE[name]
    mesh = xf.make_mesh((4, 2), ("a", "b"), axis_types=(xf.sharding.AxisType.Auto,) * 2)
    host = np.ones((8, 4), np.float32)
    full = []
    monkeypatch.setattr("xlafront.lax.creation._full_kernel", lambda *args: full.append(args))
    monkeypatch.setattr("xlafront.numpy.creation._constant_kernel", lambda *args: full.append(args))
    for sharding in (NamedSharding(mesh, P("a", "b")), NamedSharding(mesh, P("b"), memory_kind="pinned_host")):
        x = xf.device_put(host, sharding)
        for made in (like(x), like(xf.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)) if "lax" not in name else like(x)):
            assert made.sharding == sharding and made.committed and made.dtype == x.dtype
            np.testing.assert_array_equal(made, np.full((8, 4), value))
        assert like(x, dtype=xnp.bfloat16).sharding == sharding and like(x, dtype=xnp.bfloat16).dtype == xnp.bfloat16
    assert not full
    monkeypatch.undo()
    on_third = xf.device_put(host, xf.devices()[3])
    assert like(on_third, shape=(3,)).devices() == {xf.devices()[3]}
    assert not like(x, shape=(3, 3)).committed, "a split that was meant for another shape is not taken over"
    assert not like(xnp.ones(3)).committed
    replicated = NamedSharding(mesh, P())
    place = {"sharding": replicated} if "lax" in name else {"device": replicated}
    assert like(x, **place).sharding == replicated


@pytest.mark.parametrize("spec", [P("x", None), P(None, "x"), P(None, None), P(("y", "x"), None), P(("x",))])
def test_results_have_specs_of_the_mesh_of_the_arguments(mesh, spec):
    """A state that comes back with a spec written in another way would have its step compiled a second time."""
    step = xf.jit(lambda state, gradient: (state - gradient, state.sum()))
    state, gradient = (xf.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, spec)) for _ in range(2))
    with signatures_seen() as seen:
        for _ in range(3):
            state, total = step(state, gradient)
            assert state.sharding.spec == spec and total.sharding.spec == P()
    assert len(seen) == 1
    assert xnp.sin(state).sharding.spec == spec


def test_mismatched_shards_raise(mesh):
    """Errors of arrays made of parts name the function, the part and what it should be."""
    rows = NamedSharding(mesh, P("x"))
    made = xf.make_array_from_callback((8, 4), rows, lambda index: A[index], np.float64)  # which is float32 without x64
    assert made.dtype == np.float32 and made.tolist() == A.tolist()
    with pytest.raises(ValueError, match=r"make_array_from_callback returned shape \(8, 4\).*\(8, 4\).*\(2, 4\)"):
        xf.make_array_from_callback((8, 4), rows, lambda index: A)
    shards = [xf.device_put(A[:2], d) for d in xf.devices()[:8]]
    with pytest.raises(ValueError, match=r"0.* has shape \(2, 4\).*\(2, 2\)"):
        xf.make_array_from_single_device_arrays((8, 4), NamedSharding(mesh, P("x", "y")), shards)
    with pytest.raises(ValueError, match="7|8 devices"):
        xf.make_array_from_single_device_arrays((8, 4), rows, shards[:7])
    with pytest.raises(ValueError, match="only the pytree that it is given for has 'b'"):
        xf.device_put({"w": A, "b": A}, {"w": rows})


def test_stages_have_the_shardings_of_results(mesh):
    rows, full = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    f = xf.jit(lambda x: (x, {"a": x * 2, "b": x.sum()}), out_shardings=(rows, {"a": None, "b": full}))
    x = xf.device_put(np.ones((8, 4), np.float32), rows)
    traced = f.trace(x)
    lowered = traced.lower()
    for info in (traced.out_info, lowered.out_info, f.eval_shape(x), xf.eval_shape(f, x)):
        first, rest = info
        assert (first.shape, first.dtype, first.sharding) == ((8, 4), np.float32, rows)
        assert rest["a"].sharding is None and rest["b"].sharding == full
    compiled = lowered.compile()
    first, rest = compiled.out_info
    assert [first.sharding, rest["a"].sharding, rest["b"].sharding] == xf.tree.leaves(compiled.output_shardings)
    assert rest["a"].sharding.is_equivalent_to(rows, 2)
    with xf.set_mesh(mesh):
        lowered = xf.jit(lambda x: x, out_shardings=P("x")).lower(x)
    assert lowered.out_info.sharding == rows
    one = xf.sharding.SingleDeviceSharding(xf.devices()[0])
    assert xf.jit(lambda x: x, out_shardings=one).lower(np.ones(3)).out_info.sharding == one
    assert xf.jit(lambda x: x).lower(np.ones(3)).out_info.sharding is None


def test_meshes_with_with_are_deprecated(mesh):
    with pytest.warns(DeprecationWarning, match="set_mesh") as caught, mesh:
        pass
    assert caught[0].filename == __file__


def test_operands_in_different_memories(mesh):
    split = NamedSharding(mesh, P("x"))
    here = xf.device_put(np.ones((8, 4), np.float32), split)
    host = xf.device_put(here, split.with_memory_kind("pinned_host"))
    for f in (lambda s, b: s["m"] + b, lambda s, b: s["m"].T @ b, lambda s, b: xnp.concatenate([s["m"], b]),
              lambda s, b: xnp.where(b > 0, s["m"], b), lambda s, b: lax.scan(lambda c, r: (c + r, None), b[0], s["m"])):
        with pytest.raises(ValueError, match=r"different memories: .*float32<host>\[.*device_put"):
            xf.jit(f)({"m": host}, here)
    with pytest.raises(ValueError, match="add got arrays in different memories"):
        host + here
    with pytest.raises(ValueError, match="different memories"):
        host + np.ones((8, 4), np.float32)
    for made in (host + 1, host * host, xf.jit(lambda x: xnp.sin(x) * 2.0)(host), host.sum(0), host[1], host.at[0].set(3.0),
                 xnp.var(host), xnp.sort(host), xf.jit(lambda s, i: s[i])(host, 2)):
        assert made.sharding.memory_kind == "pinned_host"
    moved = xf.jit(lambda s, b: xf.device_put(s, xf.memory.Space.Device) + b)(host, here)
    assert moved.sharding.memory_kind == "device" and moved.tolist() == np.full((8, 4), 2.0).tolist()


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_rows_of_a_split_array_are_bound_to_no_device(kind):
    mesh = xf.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)
    table = np.arange(32.0, dtype=np.float32).reshape(8, 4)
    rows = list(xf.device_put(table, NamedSharding(mesh, P("x", "y"))))
    assert [row.tolist() for row in rows] == table.tolist()
    assert {(row.committed, row.device) for row in rows} == {(False, xf.devices()[0])}
    with xf.default_device(xf.devices()[2]):
        assert next(iter(xf.device_put(table, NamedSharding(mesh, P("x"))))).device == xf.devices()[2]


def test_shards_are_made_once(mesh):
    import gc
    import weakref

    x = xf.device_put(np.arange(32.0).reshape(8, 4), NamedSharding(mesh, P("x", "y")))
    assert x.addressable_shards is x.addressable_shards and x.global_shards is x.global_shards
    assert x.global_shards[3].data is x.addressable_shards[3].data is x.addressable_data(3)
    one = xnp.ones(3)
    assert one.addressable_shards[0].data is one is one.addressable_data(5)  # the number of a device that holds it whole
    for array in (x, one):
        assert len(array.addressable_shards) == len(array.global_shards)
        array.delete()
        for ask in (lambda a: a.addressable_shards, lambda a: a.global_shards, lambda a: a.addressable_data(0)):
            with pytest.raises(RuntimeError, match="deleted"):
                ask(array)
    # Arrays do not hold themselves: they go when the last name does, not when the collector comes.
    gc.disable()
    try:
        for make in (lambda: xnp.ones(3), lambda: xf.device_put(np.ones((8, 4)), NamedSharding(mesh, P("x")))):
            y = make()
            assert len(y.addressable_shards) == len(y.global_shards)
            reference = weakref.ref(y)
            del y
            assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("f, expected", [
    (lambda np, x: np.roll(x, 1, 0), P("x", "y")), (lambda np, x: np.roll(x, -3, 1), P("x", "y")),
    (lambda np, x: np.roll(x, (9, 2), (0, 1)), P("x", "y")), (lambda np, x: np.roll(x, 8, 0), P("x", "y")),
    (lambda np, x: np.pad(x, ((4, 4), (2, 2))), P("x", "y")),
    (lambda np, x: np.pad(x, ((0, 0), (1, 3)), mode="edge"), P("x", "y")),
    (lambda np, x: np.pad(x, ((4, 4), (0, 0)), mode="wrap"), P("x", "y")),
    (lambda np, x: np.pad(x, ((0, 0), (2, 2)), mode="reflect"), P("x", "y")),
    (lambda np, x: np.pad(x, ((2, 2), (0, 0)), mode="symmetric"), P("x", "y"))])
def test_rotated_and_padded_arrays_stay_sharded(mesh, f, expected):
    table = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    x = xf.device_put(table, NamedSharding(mesh, P("x", "y")))
    for run in (lambda x: f(xnp, x), xf.jit(lambda x: f(xnp, x))):
        made = run(x)
        np.testing.assert_array_equal(made, f(np, table))
        assert made.sharding.is_equivalent_to(NamedSharding(mesh, expected), 2)
    assert "all-gather" not in xf.jit(lambda x: f(xnp, x)).lower(x).compile().as_text()


def test_rotations_transform(mesh):
    """By a known amount; what devices hold is sent to their neighbours alone."""
    table = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    x, weights = xf.device_put(table, NamedSharding(mesh, P("x", "y"))), np.cos(table)

    def f(x):
        return xnp.roll(x, (3, -1), (0, 1)) * weights

    text = xf.jit(f).lower(x).compile().as_text()
    assert "collective-permute" in text and "all-to-all" not in text
    np.testing.assert_allclose(xf.jit(xf.grad(lambda x: f(x).sum()))(x), np.roll(weights, (-3, 1), (0, 1)), rtol=1e-6)
    for dim in (0, 1):
        found = xf.jit(xf.vmap(lambda row: xnp.roll(row, 2), dim, dim))(x)
        np.testing.assert_array_equal(found, np.roll(table, 2, 1 - dim))
    keys = xf.random.split(xf.random.key(0), 8)
    rolled = xf.jit(lambda k: xnp.roll(k, 3))(keys)
    np.testing.assert_array_equal(xf.random.key_data(rolled), np.roll(xf.random.key_data(keys), 3, 0))


def test_layouts_of_arrays_that_were_put_somewhere(mesh):
    one = SingleDeviceSharding(xf.devices()[0])
    rows, columns = [Format(Layout(order), one) for order in ((0, 1), (1, 0))]
    uncommitted, by_rows, by_columns = xnp.asarray(A), xf.device_put(A, rows), xf.device_put(A, columns)
    for requested, fits, wrong in ((rows, by_rows, by_columns), (columns, by_columns, by_rows)):
        double = xf.jit(lambda x: x * 2, in_shardings=requested)
        for given in (A, uncommitted, fits):
            np.testing.assert_array_equal(double(given), A * 2)
        for call in (double, double.lower):
            with pytest.raises(ValueError, match="does not match the layout"):
                call(wrong)
    free = xf.jit(lambda x: x * 2, in_shardings=Format(Layout.AUTO, one))
    np.testing.assert_array_equal(free(A), A * 2)
    for call in (free, free.lower):
        with pytest.raises(ValueError, match="layout AutoLayout"):
            call(by_rows)
    compiled = xf.jit(lambda x: x * 2).lower(by_columns).compile()
    assert compiled.input_formats[0][0].layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(compiled(by_columns), A * 2)
    seen = [xf.typeof(xnp.ones(2)).layout]
    xf.jit(lambda x: seen.append(x.layout) or xf.vmap(xf.grad(lambda y: seen.append(y.layout) or y))(x))(xnp.ones(2))
    assert seen == [Layout.AUTO] * 3  # of types and of traced values
    for alone in (Layout((0, 1)), Layout.AUTO):
        with pytest.raises(ValueError, match="Format"):
            xf.jit(lambda x: x, in_shardings=alone)(A)


def test_results_on_one_device_are_over_the_mesh_of_the_first_bound_argument():
    """Or over none if that argument is on a single device, whatever mesh is active. Requested shardings stay."""
    small = xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Auto,), devices=xf.devices()[:1])
    alone, over = SingleDeviceSharding(xf.devices()[0]), NamedSharding(small, P("x"))
    here, there, free = xf.device_put(A, alone), xf.device_put(A, over), xnp.asarray(A)
    add = xf.jit(lambda x, y: x + y)
    for pair, expected in (((here, there), alone), ((there, here), over), ((free, here), alone), ((free, there), over)):
        for _ in range(2):
            assert add(*pair).sharding == expected
    constrained = xf.jit(lambda x: xf.lax.with_sharding_constraint(x, over) + 1)
    mapped = xf.jit(xf.shard_map(xnp.sin, mesh=small, in_specs=P("x"), out_specs=P("x")))
    assert constrained(here).sharding == mapped(here).sharding == (here + there).sharding == alone
    asking = xf.jit(lambda x: (x, x * 2, x.sum()), out_shardings=(alone, over, None))
    for x in (here, there, free):
        first, second, _ = asking(x)
        assert first.sharding == alone and second.sharding == over
    with xf.set_mesh(small):
        double = xf.jit(lambda x: x * 2)
        for x, expected in ((here, alone), (free, NamedSharding(small, P())), (here, alone)):
            assert double(x).sharding == (x + 1).sharding == x.sum().sharding == expected
        assert xf.jit(lambda x: x * 2, in_shardings=alone)(free).sharding == alone
        compiled = xf.jit(lambda x: x * 2, out_shardings=alone).lower(free).compile()
        assert compiled.output_shardings == compiled(free).sharding == alone


def test_kinds_of_unreduced_axes():
    kinds = xf.sharding.UnreducedKind
    sums, largest = P("x", unreduced={"y"}), P("x", unreduced={"y"}, unreduced_kind=kinds.max)
    assert sums is P("x", unreduced={"y"}, unreduced_kind=kinds.sum) and hash(sums) != hash(largest)
    assert sums != largest and sums.unreduced_kind is kinds.sum and P("x").unreduced_kind is None
    assert repr(largest) == "P('x', unreduced={'y'}, unreduced_kind=max)" and pickle.loads(pickle.dumps(largest)) is largest
    assert largest.update(partitions=("z",)) == P("z", unreduced={"y"}, unreduced_kind=kinds.max)
    assert largest.update(unreduced=set()) == P("x") and [kind.value for kind in kinds] == [1, 2, 3]
    varying = ManualAxisType(unreduced={"x"}, unreduced_kind=kinds.max)
    assert repr(varying).endswith("unreduced_kind=UnreducedKind.max)") and varying != ManualAxisType(unreduced={"x"})
    assert ManualAxisType(unreduced={"x"}).update(unreduced=set()).unreduced_kind is None
    for kind in ("max", 1):
        with pytest.raises(TypeError, match="UnreducedKind"):
            P("x", unreduced={"y"}, unreduced_kind=kind)
    with pytest.raises(ValueError, match="must be None"):
        P("x", unreduced_kind=kinds.max)
    with pytest.raises(ValueError, match="no cotangent"):
        largest.to_ct_spec()
    assert sums + P("z", unreduced={"w"}) == P("x", "z", unreduced={"y", "w"})
    for other in (P(unreduced={"z"}, unreduced_kind=kinds.max), P("z")):
        with pytest.raises(TypeError, match="unreduced_kinds differ"):
            sums + other


def test_members_that_a_sharding_must_define():
    class Own(xf.sharding.Sharding):
        pass

    for member in ("device_set", "num_devices", "is_fully_addressable", "addressable_devices", "is_fully_replicated", "memory_kind"):
        with pytest.raises(NotImplementedError, match="Own is a Sharding that does not define"):
            getattr(Own(), member)
    for use in (lambda: xf.device_put(A, Own()), lambda: Own().shard_shape((2,)),
                lambda: Own().is_equivalent_to(xf.sharding.SingleDeviceSharding(xf.devices()[0]), 1)):
        with pytest.raises(NotImplementedError, match="Own is a Sharding that does not define"):
            use()
