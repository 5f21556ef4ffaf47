"""Meshes and specs as objects, the mesh in force and what it means for new arrays, arguments and results."""

import copy
import pickle

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P, lax, random
from xlafront.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    SingleDeviceSharding,
    auto_axes,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
)

pytestmark = pytest.mark.cpu_only

AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
A = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh_of(kind=AUTO, shape=(2, 2), names=("x", "y")):
    return xf.make_mesh(shape, names, (kind,) * len(shape))


# One object for each contents


@pytest.mark.parametrize("make", [
    lambda: P("x"), lambda: P("x", None, ("y", "z")), lambda: P("x", unreduced={"y"}), lambda: Mesh(xf.devices(), "x"), mesh_of,
    lambda: mesh_of(EXPLICIT), lambda: AbstractMesh((2, 4), ("x", "y")), lambda: mesh_of().abstract_mesh,
], ids=["spec", "long", "sums", "mesh", "grid", "explicit", "abstract", "of mesh"])
def test_equal_contents_are_one_object(make):
    one = make()
    assert one is make() and copy.deepcopy(one) is one and hash(one) == hash(make())
    assert isinstance(one, Mesh) or one is pickle.loads(pickle.dumps(one))  # (devices cannot be pickled)


def test_other_contents_are_other_objects():
    specs = [P(), P(None), P("x"), P("y"), P("x", None), P(("x", "y")), P("x", "y"), P(unreduced={"x"}), P(reduced={"x"})]
    meshes = [Mesh(xf.devices(), "x"), Mesh(xf.devices(), "y"), Mesh(xf.devices(), "x", EXPLICIT), Mesh(xf.devices()[:4], "x"),
              Mesh(xf.devices()[::-1], "x")]
    for items in (specs, meshes):
        assert len(set(items)) == len(items) == len({id(x) for x in items})
    assert P(("x",)) is P("x") and P(["x", "y"]) is P(("x", "y"))


@pytest.mark.parametrize("make, error, words", [
    (lambda: P("x", unreduced={"z"}) + (None,), TypeError, "tuple"),
    (lambda: P("x", reduced={"z"}) + (None,), TypeError, "tuple"),
    (lambda: P("x", unreduced={"x"}), ValueError, "unreduced and also split"),
    (lambda: P(("y", "x"), reduced={"x"}), ValueError, "reduced and also split"),
    (lambda: Mesh(xf.devices(), (None,)), ValueError, "names"),
    (lambda: type("Named", (P,), {}), TypeError, "Named.*subclass"),
    (lambda: xf.make_mesh((8,), ("x",), axis_types=("auto",)), TypeError, "AxisType"),
    (lambda: xf.make_mesh((8,), ("x",), axis_types=(AUTO, AUTO)), ValueError, "AxisType"),
    (lambda: NamedSharding(mesh_of(), "x"), AttributeError, r"P\('x'\)"),
    (lambda: NamedSharding(mesh_of(EXPLICIT), P(P.UNCONSTRAINED)), ValueError, "UNCONSTRAINED.*no axis of type Auto"),
    (lambda: NamedSharding(mesh_of(), P("x", "y")).shard_shape((8,)), IndexError, "2 entries"),
    (lambda: xf.core.ShapedArray((5, 2), np.dtype("int32"), sharding=NamedSharding(mesh_of(EXPLICIT), P("x"))), ValueError,
     "not evenly divisible"),
    (lambda: xf.set_mesh(mesh_of(AxisType.Manual)), ValueError, "contains manual axes"),
    (lambda: xf.device_put(np.ones(8), NamedSharding(mesh_of(), P("x", None))), ValueError, "rank at least 2"),
    (lambda: xf.jit(lambda x: x, in_shardings=NamedSharding(mesh_of(), P("x", None)))(np.ones(8)), ValueError, "rank at least 2"),
    (lambda: xf.jit(lambda x: x, out_shardings=NamedSharding(mesh_of(), P("x", None)))(np.ones(8)), ValueError, "rank at least 2"),
    (lambda: xf.make_array_from_process_local_data(NamedSharding(mesh_of(), P("x")), A, (None, 4)), ValueError, "global_shape"),
    (lambda: xf.make_mesh(((4,), 4), ("x", "y")), ValueError, "sequence of ints"),
    (lambda: xf.jit(lambda x: x, out_shardings=NamedSharding(Mesh(np.empty((), dtype=object), ()), P()))(A), ValueError, "empty NamedSharding"),
    (lambda: xf.jit(lambda x: x, in_shardings=NamedSharding(Mesh(np.empty((), dtype=object), ()), P()))(A), ValueError, "empty NamedSharding"),
    (lambda: lax.with_sharding_constraint(A, NamedSharding(Mesh(np.empty((), dtype=object), ()), P())), ValueError, "empty NamedSharding"),
    (lambda: xf.jit(lambda x: xf.make_array_from_single_device_arrays(x.shape, SingleDeviceSharding(xf.devices()[0]), [x]))(A),
     ValueError, "must be an array on one device.*traced"),
])
def test_bad_input(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize("make", [
    lambda s: xnp.zeros(8, device=s), lambda s: xnp.ones(8, device=s), lambda s: xnp.full(8, 2.0, device=s),
    lambda s: lax.full((8,), 2.0, sharding=s), lambda s: xnp.zeros_like(np.ones(8), device=s),
    lambda s: xf.make_array_from_callback((8,), s, lambda i: np.ones(8)[i]),
    lambda s: xf.make_array_from_single_device_arrays((8,), s, [xf.device_put(np.ones(4), d) for d in s.mesh.devices.flat]),
], ids=["zeros", "ones", "full", "lax", "zeros_like", "callback", "parts"])
def test_entries_beyond_the_rank(make):
    sharding = NamedSharding(mesh_of(), P("x", None))
    made = make(sharding)
    assert made.sharding == sharding and made.addressable_shards[0].data.shape == (4,)
    assert (made + made).tolist() == (2 * np.asarray(made)).tolist()
    assert sharding.devices_indices_map((8,))[xf.devices()[0]] == (slice(0, 4),)


# What arrays say of their mesh


def test_types_of_arrays_name_their_mesh():
    for mesh, spec in ((mesh_of(), P(None, None)), (mesh_of(EXPLICIT), P("x", None))):
        x = xf.device_put(A, NamedSharding(mesh, P("x")))
        for value in (x, xf.jit(lambda v: v + 1)(x), x.copy()):
            for aval in (value.aval, xf.typeof(value)):
                assert aval.sharding.mesh is mesh.abstract_mesh and aval.sharding.spec == spec
        keys = xf.device_put(random.split(random.key(0), 4), NamedSharding(mesh, P("x")))
        assert xf.typeof(keys).sharding.mesh is mesh.abstract_mesh
        assert xf.jit(lambda v: v, out_shardings=NamedSharding(mesh, P(None, "y")))(x).aval.sharding.spec == (
            P(None, "y") if mesh.explicit else P(None, None))
    assert xf.typeof(xnp.ones(3)).sharding.mesh.empty
    assert xf.eval_shape(lambda v: v, xf.typeof(x)).shape == A.shape


def test_results_on_a_mesh_of_one_device_are_sharded_by_their_types():
    with xf.set_mesh(xf.make_mesh((1,), ("x",))):
        made = xf.jit(lambda: xnp.ones((2, 2), out_sharding=P("x", None)))()
        assert xf.typeof(made).sharding.spec == P("x", None) == made.sharding.spec
        assert xf.typeof(xf.jit(lambda x: x.T)(made)).sharding.spec == P(None, "x")


# Meshes in force


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mesh_contexts_apply_to_specs_of_pjit():
    """As brax's buffers have it: made anywhere, called inside, each time over the mesh of the call."""
    from xlafront.experimental.pjit import pjit

    doubled = pjit(lambda x: x * 2, P("x"), out_shardings=P("x"))
    for mesh in (mesh_of(), mesh_of(shape=(4,), names=("x",))):
        with mesh:
            for _ in range(2):
                assert doubled(np.ones(4)).sharding == NamedSharding(mesh, P("x"))
            slope = xf.grad(lambda x: doubled(x).sum())(np.ones(4, np.float32))
            assert slope.tolist() == [2] * 4 and slope.sharding == NamedSharding(mesh, P("x"))
            assert xf.jit(lambda x: doubled(x) + 1)(np.ones(4)).tolist() == [3] * 4
    with pytest.raises(RuntimeError, match="no mesh in force"):
        doubled(np.ones(4))
    assert doubled.__name__ == "<lambda>" and pjit.__name__ == "pjit" and pjit(lambda x, n: x * n, static_argnums=1)(2.0, 3) == 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pjit_runs_over_the_devices_of_mesh_contexts():
    """In JAX, too, this is so for `pjit` alone: `jit` needs `set_mesh`."""
    from xlafront.experimental.pjit import pjit

    mesh, x = mesh_of(), np.ones((8, 4), np.float32)
    replicated, of_rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    on_one, over_two = xf.device_put(x, xf.devices()[0]), xf.device_put(x, NamedSharding(mesh_of(shape=(2,), names=("x",)), P("x")))

    def sine(v):
        return xnp.sin(v)

    def both_sines(v):
        return pjit(sine)(v), xf.jit(sine)(v)

    with mesh:
        for result in (pjit(sine)(x), pjit(lambda: 1)(), pjit(sine, out_shardings=None)(x), pjit(sine).lower(x).compile()(x),
                       pjit(sine, in_shardings=P("x"), out_shardings=None)(x), xf.vmap(pjit(sine))(x), *pjit(both_sines)(x),
                       xf.grad(lambda v: pjit(sine)(v).sum())(x), xf.jvp(pjit(sine), (x,), (x,))[1]):
            assert result.sharding == replicated and result.committed
        assert pjit(sine)(xf.device_put(x, of_rows)).sharding == of_rows == pjit(sine, in_shardings=P("x"))(x).sharding
        assert xf.jit(sine)(x).devices() == xf.jit(both_sines)(x)[0].devices() == {xf.devices()[0]}
        for refused in (on_one, over_two):
            with pytest.raises(ValueError, match="incompatible devices"):
                pjit(sine)(refused)
        with pytest.raises(ValueError, match="in_shardings"):
            pjit(sine, in_shardings=None)(xf.device_put(x, of_rows))
        with pytest.raises(ValueError, match="device or backend"):
            pjit(sine, backend="cpu")(x)
    assert not pjit(sine, in_shardings=None)(v=x).committed and pjit(sine)(over_two).sharding == over_two.sharding


@pytest.mark.filterwarnings("ignore:.with mesh.:DeprecationWarning")
def test_mesh_contexts_apply_only_to_constraints():
    mesh = mesh_of()

    def doubled(x):
        return xf.jit(lambda v: lax.with_sharding_constraint(v * 2, P("x")))(x)

    @mesh
    def in_mesh(x):
        return doubled(x)

    assert in_mesh(np.ones(4)).sharding == NamedSharding(mesh, P("x"))
    with mesh:
        assert get_mesh().empty and get_abstract_mesh().empty
        for made in (xnp.arange(4), xnp.ones(4) + 1, random.key(0), random.normal(random.key(0), (4,)), xf.jit(xnp.sin)(1.0)):
            assert made.devices() == {xf.devices()[0]} and not made.committed
        assert (xnp.arange(4) + xf.device_put(np.arange(4), xf.devices()[1])).devices() == {xf.devices()[1]}
        assert doubled(np.ones(4)).sharding == NamedSharding(mesh, P("x"))
        for given in ({"in_shardings": P("x")}, {"out_shardings": P("x")}):
            with pytest.raises(RuntimeError, match="set_mesh"):
                xf.jit(lambda x: x, **given)(np.ones(4))
        with pytest.raises(ValueError, match="set_mesh"):
            xf.device_put(np.ones(4), P("x"))
        with pytest.raises(ValueError, match="context mesh cannot be empty"):
            xf.shard_map(lambda x: x, in_specs=P("x"), out_specs=P("x"))(np.ones(4))


@pytest.mark.parametrize("make", [
    lambda: xnp.array([1.0, 2.0]), lambda: xnp.asarray(3.0), lambda: xnp.array(np.ones(3)), lambda: xnp.ones(4),
    lambda: random.normal(random.key(0), (4,)), lambda: xf.jit(lambda x: x + 1)(np.ones(4)),
], ids=["array", "asarray", "host", "ones", "random", "jit"])
def test_new_arrays_use_the_context_mesh(make):
    for kind in (AUTO, EXPLICIT):
        mesh = mesh_of(kind)
        with xf.set_mesh(mesh):
            made = make()
            assert made.sharding.mesh is mesh and made.sharding.is_fully_replicated and made.committed
            with xf.set_mesh(None):
                assert make().devices() == {xf.devices()[0]} and not make().committed


@pytest.mark.parametrize("name, make", [
    ("array", lambda s: xnp.array(A, out_sharding=s)), ("ones", lambda s: xnp.ones((8, 4), out_sharding=s)),
    ("full", lambda s: xnp.full((8, 4), 1.0, out_sharding=s)), ("zeros_like", lambda s: xnp.zeros_like(A, out_sharding=s)),
    ("normal", lambda s: random.normal(random.key(0), (8, 4), out_sharding=s)),
    ("matmul", lambda s: xnp.matmul(xf.device_put(A, P("x")), A.T[:, :4], out_sharding=s)),
    ("reshape", lambda s: xnp.reshape(xf.device_put(A, P("x")), (8, 4), out_sharding=s)),
], ids=lambda x: x if isinstance(x, str) else "")
def test_specs_of_results_have_an_entry_for_each_dimension(name, make):
    mesh, other = mesh_of(EXPLICIT), xf.make_mesh((8,), ("x",))
    with xf.set_mesh(mesh):
        assert make(P("x")).sharding.spec == P("x", None)
        with pytest.raises(ValueError, match="context mesh.*should match"):
            make(NamedSharding(other, P("x")))
        with pytest.raises(TypeError, match="NamedSharding or a PartitionSpec"):
            make("x")
    with xf.set_mesh(mesh_of()), pytest.raises(ValueError, match="type Auto"):
        make(P("x"))


def test_arguments_on_another_mesh_than_the_context_mesh():
    explicit, auto, flat = mesh_of(EXPLICIT), mesh_of(), mesh_of(AUTO, (4,), ("x",))
    over = {m: xf.device_put(A, NamedSharding(m, P("x"))) for m in (explicit, auto)}
    cases = [(explicit, over[auto], "context mesh"), (auto, over[explicit], "context mesh"),
             (auto, xf.device_put(A, xf.devices()[1]), "incompatible devices"),
             (auto, xf.device_put(A, xf.devices()[0]), "incompatible devices"),
             (explicit, xf.device_put(A, NamedSharding(xf.make_mesh((8,), ("x",)), P("x"))), "context mesh|incompatible")]
    for mesh, x, words in cases:
        for call in (lambda x: x + 1, xf.jit(lambda x: x), lambda x: x[0]):
            with xf.set_mesh(mesh), pytest.raises(ValueError, match=words):
                call(x)
    with pytest.raises(ValueError, match="another argument is over"):
        over[explicit] + over[auto]
    with xf.set_mesh(flat):  # results are over the mesh in force
        assert (xf.device_put(A, NamedSharding(auto, P(("x", "y")))) + 1).sharding == NamedSharding(flat, P("x"))
    with xf.set_mesh(auto):
        assert (xf.device_put(np.ones(4)) + 1).sharding.mesh is auto
        with pytest.raises(ValueError, match="cannot change the size"), use_abstract_mesh(AbstractMesh((4, 2), ("x", "y"))):
            pass


# Constraints


def test_a_constraint_may_divide_unevenly_inside_of_programs():
    mesh = mesh_of(AUTO, (4,), ("x",))
    uneven = NamedSharding(mesh, P("x"))
    for f in (lambda x: lax.with_sharding_constraint(x, uneven) * 2, lambda x: lax.with_sharding_constraint(x * 2, uneven)):
        result = xf.jit(f)(np.arange(5))
        assert result.tolist() == [0, 2, 4, 6, 8] and result.sharding == NamedSharding(mesh, P())
    assert xf.jit(lambda: xnp.zeros(5, device=uneven))().tolist() == [0] * 5
    for refused in (lambda: lax.with_sharding_constraint(np.arange(5), uneven), lambda: xf.device_put(np.arange(5), uneven),
                    lambda: xnp.zeros(5, device=uneven), lambda: xf.jit(lambda: xf.device_put(np.arange(5), uneven))(),
                    lambda: xf.jit(lambda x: x, out_shardings=uneven)(np.arange(5))):
        with pytest.raises(ValueError, match="not evenly divisible"):
            refused()


def test_constraints_transfer_nothing():
    mesh = mesh_of()
    x = xf.device_put(A, NamedSharding(mesh, P("x")))
    there = [NamedSharding(xf.make_mesh((2, 2), ("x", "y"), (AUTO, AUTO), devices=xf.devices()[4:]), P("x")),
             NamedSharding(Mesh(mesh.devices[::-1], ("x", "y")), P("x")), xf.sharding.SingleDeviceSharding(xf.devices()[0])]
    for sharding in there:
        with pytest.raises(ValueError, match="incompatible devices.*device_put"):
            lax.with_sharding_constraint(x, sharding)
    same = NamedSharding(Mesh(mesh.devices.reshape(4), "z"), P(None, "z"))
    assert lax.with_sharding_constraint(x, same).sharding == same
    [eqn] = xf.make_jaxpr(lambda v: lax.with_sharding_constraint(v, NamedSharding(mesh, P("x", P.UNCONSTRAINED))))(A).eqns
    assert eqn.params["unconstrained_dims"] == {1} and eqn.params["layout"] is None and eqn.params["context_mesh"].empty
    with xf.set_mesh(mesh):
        [eqn] = xf.make_jaxpr(lambda v: lax.with_sharding_constraint(v, P("x")))(A).eqns
        assert eqn.params["sharding"].mesh is mesh.abstract_mesh is eqn.params["context_mesh"]


def test_constraints_preserve_explicit_axes():
    mesh = xf.make_mesh((2, 2), ("x", "y"), (EXPLICIT, AUTO))
    x = xf.device_put(A, NamedSharding(mesh, P("x")))
    with xf.set_mesh(mesh):
        result = xf.jit(lambda v: lax.with_sharding_constraint(v, P(None, "y")))(x)
        assert result.sharding.spec == P("x", "y") and xf.typeof(result).sharding.spec == P("x", None)
        with pytest.raises(ValueError, match="can only refer to Auto axes"):
            xf.jit(lambda v: lax.with_sharding_constraint(v, P("x", "y")))(x)


# Without devices


def test_programs_about_abstract_meshes():
    """They are lowered for as many devices as the mesh has, and compiled for those that are named."""
    mesh = AbstractMesh((2,), ("x",))
    struct = xf.ShapeDtypeStruct((8, 4), "float32", sharding=NamedSharding(mesh, P("x")))
    traced = xf.jit(lambda x: x * 2).trace(struct)
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "num_partitions = 2" in text and '@mesh, [{"x"}, {}]' in text
    with pytest.raises(ValueError, match="lowering_platforms"):
        traced.lower()
    lowered = xf.jit(lambda x: x * 2, in_shardings=NamedSharding(mesh, P("x"))).trace(xf.ShapeDtypeStruct((8, 4), "float32")).lower(
        lowering_platforms=("cpu",))
    with pytest.raises(RuntimeError, match="device_assignment"):
        lowered.compile()
    with pytest.raises(ValueError, match="needs 2 devices"):
        lowered.compile(device_assignment=xf.devices()[:1])
    compiled = lowered.compile(device_assignment=xf.devices()[2:4])
    [[sharding], _] = compiled.input_shardings
    assert [d.id for d in sharding.mesh.devices.flat] == [2, 3]
    np.testing.assert_array_equal(compiled(xf.device_put(A, sharding)), 2 * A)


def test_arrays_like_abstractly_sharded_types_are_uncommitted():
    struct = xf.ShapeDtypeStruct((8, 4), "float32", sharding=NamedSharding(AbstractMesh((2,), ("x",)), P("x")))
    for made in (lax.full_like(struct, 0), xnp.zeros_like(struct)):
        assert made.devices() == {xf.devices()[0]} and not made.committed and made.shape == (8, 4)
    assert xf.make_array_from_process_local_data(xf.devices()[1], A).devices() == {xf.devices()[1]}


def test_auto_axes_where_all_axes_are():
    for mesh in (mesh_of(), None):
        with xf.set_mesh(mesh):
            np.testing.assert_array_equal(auto_axes(lambda x: x @ x.T, out_sharding=P("x"))(A), A @ A.T)


def test_constraint_over_an_abstract_mesh():
    """Outside of a program it means the devices of the array, or of the mesh in force."""
    sharding = NamedSharding(mesh_of().abstract_mesh, P("x", "y"))
    one, other = mesh_of(), xf.make_mesh((2, 2), ("x", "y"), (AUTO, AUTO), devices=xf.devices()[3::-1])
    for mesh in (one, other):
        placed = lax.with_sharding_constraint(xf.device_put(A, NamedSharding(mesh, P("x"))), sharding)
        assert placed.sharding == NamedSharding(mesh, P("x", "y"))
        with xf.set_mesh(mesh):
            assert lax.with_sharding_constraint(xnp.ones((4, 2)), sharding).sharding == placed.sharding
    with pytest.raises(TypeError, match="set_mesh"):
        lax.with_sharding_constraint(xnp.ones((4, 2)), sharding)


@pytest.mark.cpu_only
def test_loop_bodies_are_traced_for_each_active_mesh():
    def body(carry, _):
        return lax.with_sharding_constraint(2 * carry, P("x")), None

    for sizes in ((2, 4), (4, 2)):
        mesh = xf.make_mesh(sizes, ("x", "y"), (AUTO, AUTO))
        with xf.set_mesh(mesh):
            result = xf.jit(lambda x: lax.scan(body, x, None, length=2)[0])(xnp.arange(8.0))
        assert result.sharding.is_equivalent_to(NamedSharding(mesh, P("x")), 1)
        np.testing.assert_array_equal(result, 4 * np.arange(8))


def test_axis_types_of_all_axes():
    kinds = {"AE": False, "ME": True, "MM": True, "EE": True, "AA": False, "": False}
    types = {"A": AxisType.Auto, "E": AxisType.Explicit, "M": AxisType.Manual}
    for letters, expected in kinds.items():
        names = tuple("xy"[:len(letters)])
        mesh = AbstractMesh((1,) * len(names), names, tuple(types[k] for k in letters))
        assert mesh.are_all_axes_explicit_or_manual is expected
