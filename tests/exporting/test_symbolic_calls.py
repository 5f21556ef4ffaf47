"""Every function of `symbolic_calls` and `symbolic_compositions`, traced and lowered once for sizes that are not known, against itself at known ones."""

import functools
import re
import subprocess
import sys

import numpy as np
import pytest
from exporting import symbolic_calls, symbolic_compositions

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.symbolic.dimensions import is_symbolic

CASES = symbolic_calls.CASES | symbolic_compositions.CASES
SIZES = {"b": 4, "c": 3, "h": 3}
KINDS = {"f": "float", "i": "int", "u": "uint"}
# Of every way in which sizes are computed one case; the others take a minute.
QUICK = {
    "sin", "add, broadcast", "size as value", "arange step", "linspace", "eye", "reshape -1", "concatenate", "tile by size", "pad by size",
    "mean over b", "argmax over b", "cumsum over b", "sort over b", "top_k of size", "x[1:]", "x[indices]", "x.at[i].add",
    "dynamic_slice of size", "matmul over b", "einsum", "conv of symbolic images", "reduce_window of size", "cholesky", "fori_loop",
    "scan", "cond", "grad of softmax", "grad of scan", "grad of slice", "vmap of dynamic_slice", "vmap axis_index", "random.normal", "mlp",
}


# Primitives that no case has on arrays of sizes that are not known, and why.
TESTED_IN_OTHER_FILES = {
    "they call jaxprs as others do; test_program_order and test_recomputation_rules": "program_order recomputed saved",
    "they are in kernels, of which pallas_call is a case": """num_programs program_id approx_tanh atomic_cas atomic_rmw bitcast
        bounded_dma_start bounded_dma_wait debug_barrier delay dma_start dma_wait custom_fusion elementwise_inline_asm
        fetch_and_add gather_elements lane_bitcast lane_pack lane_reduction lane_unpack
        load_gather masked_load masked_scan masked_swap matmul_acc_lhs matmul_lhs_fifo matmul_pop matmul_pop_fifo
        matmul_push_rhs max_contiguous multiple_of pack_elementwise prng_random_bits prng_seed run_scoped scan_count
        semaphore_is_ready semaphore_read semaphore_signal semaphore_wait sort_key_val stochastic_round store_scatter
        subcore_barrier unpack_elementwise with_memory_space_constraint""",
    "they take no array": "dim_as_value platform_index axis_index create_token after_all empty_ref eq_to le_to lt_to",
    "they are between devices; test_export_over_devices has some": """all_gather all_gather_invariant all_to_all pmax pmin ppermute precv
        psend psum psum_invariant pbroadcast pvary ragged_all_to_all reduce_scatter reshard shard_map global_array_to_host_local_array
        host_local_array_to_global_array move_memory recast""",
    "they call Python, which is not exported": """buffer_callback debug_callback debug_print io_callback pure_callback custom_partitioning
        inspect_sharding check""",
    "kernels that no other version promises": "layout_constraint ffi_call ptx_call geqp3 geqrf ormqr spsolve tpu_eigh select_and_scatter cholesky_update",
    "kernels whose sizes are numbers in modules; attention refuses others": "cudnn_attention cudnn_attention_gradient",
    "sparse formats, which hold sizes as numbers": """bcoo_dot_general_sampled bcoo_extract bcoo_sort_indices bcoo_spdot_general
        bcoo_sum_duplicates bcoo_transpose bcsr_dot_general bcsr_extract bcsr_fromdense bcsr_todense coo_extract coo_fromdense
        coo_matmat coo_matvec coo_todense csr_fromdense csr_matmat csr_matvec csr_todense todense""",
    "calls, of which jit and remat2 are cases, and steps of transformations": """call call_exported call_hi_primitive closed_call composite
        compute_on custom_lin dce_sink drawn fused_call fusible inlined remat_opt repeated scaled_dot stage xla_metadata_call""",
    "references, of which get and swap are cases": "addupdate free_ref freeze",
}


def arguments(text, sizes=SIZES):
    """Types and values from `f32[b,3]; i32[b]`."""
    scope = xf.export.SymbolicScope()
    for i, part in enumerate(text.split(";")):
        kind, bits, shape = re.match(r"\s*(\w)(\d+)\[(.*)\]", part).groups()
        dtype = np.dtype(f"{KINDS[kind]}{bits}")
        known = tuple(eval(n, {}, sizes) for n in shape.split(",") if n.strip())
        draw = np.random.default_rng(i)
        value = draw.normal(size=known) if kind == "f" else draw.integers(0, 3, size=known)
        yield xf.ShapeDtypeStruct(xf.export.symbolic_shape(shape, scope=scope), dtype), np.asarray(value, dtype)


def programs(program):
    """A program and those inside of it."""
    yield program
    for eqn in program.eqns:
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from programs(inner)


@functools.cache
def covering() -> dict[str, str]:
    """Return for each primitive on arrays of symbolic shapes the case with the shortest program."""
    found: dict[str, tuple[int, str]] = {}
    for name, (function, text) in CASES.items():
        types, _ = zip(*arguments(text))
        eqns = [eqn for program in programs(xf.jit(function).trace(*types).jaxpr.jaxpr) for eqn in program.eqns]
        for eqn in eqns:
            if any(is_symbolic(getattr(v.aval, "shape", ())) for v in (*eqn.invars, *eqn.outvars)):
                found[eqn.primitive.name] = min(found.get(eqn.primitive.name, (len(eqns), name)), (len(eqns), name))
    return {primitive: name for primitive, (_, name) in found.items()}


@pytest.mark.soak
def test_every_primitive_has_a_case():
    program = """
import gc, importlib, pkgutil, re, xlafront
from xlafront.core.primitive import Primitive
for module in pkgutil.walk_packages(xlafront.__path__, "xlafront."):
    if not re.search("compat|__main__|as_jax|array_stores", module.name):
        importlib.import_module(module.name)
print(*[x.name for x in gc.get_objects() if isinstance(x, Primitive)])
"""  # where no test has made others
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True)
    primitives = set(done.stdout.split())
    in_other_files = {name for names in TESTED_IN_OTHER_FILES.values() for name in names.split()}
    assert primitives >= in_other_files and not covering().keys() & in_other_files
    assert sorted(primitives - in_other_files - covering().keys()) == []


@pytest.mark.cpu_only
@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_every_primitive_over_batch_sizes(part):
    for name in sorted(set(covering().values()))[part::4]:
        compare(name, [{**SIZES, "b": b} for b in (1, 2, 5)])


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.soak) for n in CASES])
def test_symbolic_shapes_give_the_results_of_static_ones(name):
    compare(name, [SIZES])


def compare(name, known):
    function, text = CASES[name]
    types, _ = zip(*arguments(text))
    exported = xf.export.export(xf.jit(function), disabled_checks=[
        xf.export.DisabledSafetyCheck.custom_call(target) for target in ("ApproxTopK", "lapack_sgtsv_ffi")])(*types)
    for sizes in known:
        _, values = zip(*arguments(text, sizes))
        found, expected = xf.tree.leaves(exported.call(*values)), xf.tree.leaves(xf.jit(function)(*values))
        assert len(found) == len(expected)
        for x, y in zip(found, expected):
            assert x.shape == y.shape and x.dtype == y.dtype, name
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4, err_msg=f"{name}, {sizes}")


@pytest.mark.parametrize("mode, options", [
    ("reflect", {}), ("symmetric", {}), ("edge", {}), ("wrap", {}), ("reflect", {"reflect_type": "odd"}),
    ("symmetric", {"reflect_type": "odd"})])
def test_one_module_pads_axes_of_every_size(mode, options):
    """Also one that has a single element, and pads that are longer than the axis."""
    [b] = xf.export.symbolic_shape("b")
    with xf.numpy_dtype_promotion("strict"):
        padded = xf.export.export(xf.jit(lambda x: xnp.pad(x, (2, 3), mode, **options)))(xf.ShapeDtypeStruct((b,), np.float32))
    for n in (1, 2, 3, 6):
        x = np.arange(n, dtype=np.float32) ** 2
        np.testing.assert_array_equal(np.asarray(padded.call(x)), np.pad(x, (2, 3), mode, **options))


def slices(n, m):
    """Slices of an axis of size `n` by bounds and steps of every sign, some of them expressions."""
    bounds = (None, 1, -2, m, n // 2)
    return [slice(start, stop, step) for start in bounds for stop in bounds for step in (None, 2, -1, -3, m, -m)]


def test_slices_of_symbolic_sizes_follow_numpy():
    b, c = xf.export.symbolic_shape("b, c")
    types = xf.ShapeDtypeStruct((b,), np.float32), xf.ShapeDtypeStruct((c,), np.float32)

    def squares(x, y):
        return sum([(x[s] ** 2).sum() for s in slices(x.shape[0], y.shape[0])])

    sliced = xf.export.export(xf.jit(lambda x, y: [x[s] for s in slices(x.shape[0], y.shape[0])]))(*types)
    updated = xf.export.export(xf.jit(lambda x, y: [x.at[s].set(9) for s in slices(x.shape[0], y.shape[0])]))(*types)
    derivative = xf.export.export(xf.jit(xf.grad(squares)))(*types)
    for n, m in ((1, 1), (1, 3), (2, 1), (6, 2), (7, 4)):
        x, y = np.arange(n, dtype=np.float32), np.zeros(m, np.float32)
        count = np.zeros(n)
        for s, found, written in zip(slices(n, m), sliced.call(x, y), updated.call(x, y)):
            expected = x.copy()
            expected[s] = 9
            count[s] += 1
            np.testing.assert_array_equal(np.asarray(found), x[s])
            np.testing.assert_array_equal(np.asarray(written), expected)
        np.testing.assert_allclose(derivative.call(x, y), 2 * x * count)


def test_sizes_of_slices_are_the_expressions_of_jax():
    b, c = xf.export.symbolic_shape("b, c")

    def shape(function):
        return str(xf.eval_shape(function, xf.ShapeDtypeStruct((b, c), np.float32)).shape[0])

    assert shape(lambda x: x[:0:-2]) == "floordiv(b, 2)"
    assert shape(lambda x: x[2:4:c]) == "floordiv(min(b, 4) - min(b, 2) + c - 1, c)"
    assert shape(lambda x: x[1:b - 1:2]) == "floordiv(b - 1, 2)"
    assert shape(lambda x: x[3:-1]) == "max(0, - min(b, 3) + b - 1)"
    assert shape(lambda x: x[-c::-2]) == "floordiv(max(- 1, - c + b) + 2, 2)"


def test_reshapes_that_hold_for_some_sizes_are_checked_when_they_run():
    b, = xf.export.symbolic_shape("b")
    paired = xf.export.export(xf.jit(lambda x: x.reshape(b // 2, 2)))(xf.ShapeDtypeStruct((b,), np.float32))
    assert paired.call(np.ones(6, np.float32)).shape == (3, 2)
    with pytest.raises(Exception, match="number of (output )?elements"):
        paired.call(np.ones(5, np.float32))
    with pytest.raises(TypeError, match="cannot reshape"):
        xf.eval_shape(lambda x: x.reshape(b + 1), xf.ShapeDtypeStruct((b,), np.float32))


def test_a_constraint_makes_a_size_divisible():
    a, = xf.export.symbolic_shape("a", constraints=["mod(a + mod(a, 2), -2) == 0"])

    def halves(x):
        padded = xnp.concatenate([x, xnp.zeros((a % 2,), x.dtype)])
        return padded.reshape(2, -1).sum(1)

    exported = xf.export.export(xf.jit(halves))(xf.ShapeDtypeStruct((a,), np.float32))
    np.testing.assert_array_equal(exported.call(np.float32([1, 2, 4])), [3, 4])
