"""The rates of products by their dtypes, and the time of a kernel of each, beside the figures of data sheets."""

import types

import pytest

from xlafront.planning import costs, hlo, step_time
from xlafront.runtime import topologies as chips

N = 512
PRODUCT = 2.0 * N**3


def chip(name):
    if name in chips.TPUS:
        return chips.TPUS[name]
    return chips.chip_of(types.SimpleNamespace(platform="gpu", device_kind=chips.CARDS[name].description))


# Dense operations per second in units of 1e12, from the pages and data sheets of the vendors.
PUBLISHED = {
    ("v5e", "int8"): 394, ("v5p", "int8"): 918, ("v6e", "int8"): 1836, ("v4", "int8"): 137.5, ("v5e", "fp8"): 197,
    ("tpu7x", "fp8"): 2307, ("v5e", "f32"): 197, ("v5e", "f32 highest"): 197 / 6,
    ("h100", "int8"): 1979, ("h100", "fp8"): 1979, ("h100", "f32"): 494.5, ("h100", "f32 highest"): 66.9, ("h100", ""): 989,
    ("a100", "int8"): 624, ("a100", "fp8"): 312, ("a100", "f32"): 156, ("a100", "f32 highest"): 19.5,
    ("t4", "int8"): 130, ("t4", "f32"): 8.1, ("l4", "fp8"): 242, ("l4", "f32 highest"): 30.3, ("l40s", "int8"): 733,
    ("rtx4090", "int8"): 660.6, ("rtx4090", "f32"): 82.6, ("b200", "fp8"): 4500, ("b200", "f32 highest"): 75,
}


@pytest.mark.parametrize("name, kind", PUBLISHED)
def test_rates_are_those_of_data_sheets(name, kind):
    assert chip(name).rate(kind) == pytest.approx(1e12 * PUBLISHED[name, kind], rel=0.02)


def module_of(dtype, result, attributes="", opcode="dot"):
    shape = f"[{N},{N}]{{1,0}}"
    target = ', custom_call_target="__cublas$lt$matmul"' if opcode == "custom-call" else ""
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}" if opcode == "dot" else (
        'backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]},'
        '"precision_config":{"operand_precision":["HIGHEST","HIGHEST"]}}}')
    return hlo.Module(f"""HloModule step, is_scheduled=true

ENTRY %main (a: {dtype}[{N},{N}], b: {dtype}[{N},{N}]) -> {result}[{N},{N}] {{
  %a = {dtype}{shape} parameter(0)
  %b = {dtype}{shape} parameter(1)
  ROOT %product = {result}{shape} {opcode}({dtype}{shape} %a, {dtype}{shape} %b){target}, {dims}{attributes}
}}
""")


@pytest.mark.parametrize("dtype, result, attributes, kind", [
    ("bf16", "f32", "", ""), ("f16", "f16", "", ""), ("s8", "s32", "", "int8"), ("s4", "s32", "", "int8"),
    ("f8e4m3fn", "f32", "", "fp8"), ("f8e5m2", "bf16", "", "fp8"), ("f32", "f32", "", "f32"),
    ("f32", "f32", ", operand_precision={high,high}", "f32 high"),
    ("f32", "f32", ", operand_precision={highest,highest}", "f32 highest"), ("f64", "f64", "", "f32 highest"),
    ("f32", "f32", ", algorithm=dot_bf16_bf16_f32", ""), ("f32", "f32", ", algorithm=dot_bf16_bf16_f32_x3", "f32 high"),
    ("f32", "f32", ", algorithm=dot_tf32_tf32_f32", "f32"), ("f32", "f32", ", algorithm=dot_f32_f32_f32", "f32 highest"),
])
def test_kinds_of_products(dtype, result, attributes, kind):
    [kernel] = costs.work(module_of(dtype, result, attributes)).kernels
    assert kernel.flops_by_kind == ((kind, PRODUCT),) and kernel.flops == PRODUCT


def test_products_of_libraries_have_their_precision():
    [kernel] = costs.work(module_of("f32", "f32", opcode="custom-call")).kernels
    assert kernel.flops_by_kind == (("f32 highest", PRODUCT),)


@pytest.mark.parametrize("name", ["v5e", "h100"])
def test_products_of_bytes_take_half_the_time(name):
    seconds = {dtype: step_time.seconds(costs.work(module_of(dtype, result)), [], None, chip(name))["compute"]
               for dtype, result in (("bf16", "f32"), ("s8", "s32"))}
    assert seconds["bf16"] == pytest.approx(PRODUCT / chip(name).flops) and seconds["bf16"] == 2 * seconds["s8"]


def test_a_kernel_takes_the_time_of_all_its_products():
    work = costs.work(module_of("bf16", "f32"))
    [kernel] = work.kernels
    both = kernel._replace(flops_by_kind=(("", 6.0), ("int8", 4.0)), bytes=10.0, times=3.0)
    rates = {"": 2.0, "int8": 4.0}
    found = work._replace(kernels=(both,))
    assert found.compute_seconds(rates.__getitem__) == 12.0  # 3 * (6 / 2 + 4 / 4)
    assert found.seconds(rates.__getitem__, bandwidth=1.0) == 30.0 and found.seconds(rates.__getitem__, bandwidth=5.0) == 12.0
    assert found.flops == 30.0


def kernel_of_user(config):
    """A program of a Mosaic kernel behind a sum for which the compiler states 3,000 cycles."""
    return hlo.Module(f"""HloModule step, is_scheduled=true

ENTRY %main (a: bf16[{N},{N}]) -> bf16[{N},{N}] {{
  %a = bf16[{N},{N}]{{1,0}} parameter(0)
  %b = bf16[{N},{N}]{{1,0}} add(%a, %a), backend_config={{"estimated_cycles":"3000"}}
  ROOT %c = bf16[{N},{N}]{{1,0}} custom-call(%b), custom_call_target="tpu_custom_call", backend_config={{{config}}}
}}
""")


STATED = '"custom_call_config":{"cost_estimate":{"flops":"%d","transcendentals":"5","bytes_accessed":"9"}}'


@pytest.mark.parametrize("flops", [10**9, 1])
def test_users_kernels_take_what_their_cost_estimates_say_beside_the_compilers_cycles(flops):
    v5e, work = chip("v5e"), costs.work(kernel_of_user(STATED % flops))
    alone = max(flops / v5e.flops, 2 * 2 * N * N / v5e.bandwidth)
    found = step_time.seconds(work, [], None, v5e)
    assert found["step"] == found["compiler"] == pytest.approx(3000 / v5e.clock + alone)
    assert work.flops == flops + N * N and not work.uncounted


def test_users_kernels_without_an_estimate_are_named():
    assert costs.work(kernel_of_user("")).uncounted == ("tpu_custom_call",)
