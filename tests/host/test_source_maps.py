"""Source maps are read by the rules of their format: each line of a compiler's output maps to the source line it comes from."""

import inspect
import json

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import source_mapper

# A map of the format's documentation, and what its numbers are, worked out by hand: A is 0, C is 1, D is -1, gB is 16.
MAPPINGS = "AAAA,IAAM;;CADA,gBAAC"
NUMBERS = [[(0, 0, 0, 0), (4, 0, 0, 6)], [], [(1, 0, -1, 0), (16, 0, 0, 1)]]


def double_sine(x):
    y = xnp.sin(x)
    return lax.fori_loop(
        0, 3,
        lambda i, v: v + lax.cos(v), y)


START = inspect.getsourcelines(double_sine)[1]
LINES = {"sin": START + 1, "cos": START + 4}


def lines_of(dump):
    """Return the text of each mapped line of a dump, with its source file and line."""
    found, source, line = [], 0, 0
    for text, segments in zip(dump.generated_code.split("\n"), dump.source_map.mappings, strict=True):
        for segment in segments:
            source, line = source + segment[1], line + segment[2]
        if segments:
            found.append((text, dump.source_map.sources[source], line + 1))
    return found


def test_format():
    written = {"version": 3, "sources": ["a.py"], "sourcesContent": [], "names": [], "mappings": MAPPINGS}
    read = source_mapper.SourceMap.from_json(json.dumps(written))
    assert read.mappings == NUMBERS and read.sources == ["a.py"] and json.loads(read.to_json()) == written
    far = source_mapper.SourceMap(3, ["a.py"], [], [], [[(0, 0, -100_000, 31)], [(2**20, 0, 15, -16)]])
    assert source_mapper.SourceMap.from_json(far.to_json()) == far


def test_generator_counts_from_the_last_segment():
    made = source_mapper.MappingsGenerator()
    with pytest.raises(RuntimeError, match="new_group"):
        made.new_segment(0, 0, 0, 0)
    made.new_group()
    made.new_segment(2, 0, 10, 4)
    made.new_segment(6, 1, 8, 0)
    made.new_group()
    made.new_group()
    made.new_segment(1, 1, 9, 3)
    assert made.mappings() == [[(2, 0, 10, 4), (4, 1, -2, -4)], [], [(1, 0, 1, 3)]]


@pytest.mark.parametrize(("step", "sine", "cosine"), [
    ("jaxpr", "sin", "cos"), ("hlo:stable-hlo", "stablehlo.sine", "stablehlo.cosine"), ("hlo:original", "sine(", "cosine("),
    ("hlo:optimized", "sine(", "cosine(")])
def test_each_pass_maps_to_source_lines(step, sine, cosine):
    [dump] = source_mapper.generate_sourcemaps(double_sine, source_mapper.filter_passes(f"{step}$"))(1.5)
    found = lines_of(dump)
    assert dump.pass_name == step and {file for _, file, _ in found} == {__file__}
    assert {line for text, _, line in found if f" {cosine}" in text} == {LINES["cos"]}
    assert {line for text, _, line in found if f" {sine}" in text} == {LINES["sin"]}


def test_optimized_hlo_bypasses_the_cache():
    def first(x):
        return xnp.sin(x) * 2

    def second(x):
        return xnp.sin(x) * 2

    for f in (first, second):
        xf.jit(f)(1.5)  # the second is found to be what the first was compiled to
        [dump] = source_mapper.generate_sourcemaps(f, source_mapper.filter_passes("hlo:optimized"))(1.5)
        assert {line for _, _, line in lines_of(dump)} == {inspect.getsourcelines(f)[1] + 1}


def test_text_of_programs_has_no_comments():
    [dump] = source_mapper.generate_sourcemaps(double_sine, source_mapper.filter_passes("jaxpr"))(1.5)
    assert dump.generated_code == str(xf.make_jaxpr(double_sine)(1.5))


def test_modules_without_locations():
    empty = source_mapper.create_mlir_sourcemap("module {\n}\n")
    assert empty.sources == [] and empty.mappings == [[], [], []]


def test_mlir_call_locations_use_innermost():
    """Locations of calls name several places; the innermost one counts."""
    text = ('module {\n  func.func @f() {\n    %0 = a.b loc(#loc3)\n  }\n}\n#loc1 = loc("x.py":7:2)\n#loc2 = loc("y.py":9:0)\n'
            '#loc3 = loc(callsite(#loc1 at #loc2))')
    found = source_mapper.create_mlir_sourcemap(text)
    assert found.sources == ["x.py"] and found.mappings[2] == [(4, 0, 6, 2)]


def test_register_custom_pass():
    given = []

    def make(*args, **kwargs):
        given.append((args[1:], kwargs))
        return "made"

    step = source_mapper.Pass("of users", make, lambda made, **kwargs: (made, kwargs))
    source_mapper.register_pass(step)
    with pytest.raises(ValueError, match="already registered"):
        source_mapper.register_pass(step)
    assert step in source_mapper.all_passes() and source_mapper.filter_passes("of u") == [step]
    assert source_mapper.generate_sourcemaps(double_sine, [step], speed=3)(1.0, x=2) == [("made", {"speed": 3})]
    assert given == [((double_sine, (1.0,), {"x": 2}), {"speed": 3})]


def test_compiling_under_settings():
    seen = []

    def f(x):
        seen.append(xf.config.jax_enable_x64)
        return x + 1

    assert source_mapper.compile_with_env(f, (1.0,), {}, {"jax_enable_x64": True}, {}) is None
    assert seen == [True] and not xf.config.jax_enable_x64
    with pytest.raises(AttributeError):
        source_mapper.compile_with_env(f, (1.0,), {}, {"no_such_setting": 1}, {})


def test_names_of_files_may_be_shortened():
    directory = __file__.removesuffix("test_source_maps.py")
    function = xf.jit(lambda x: double_sine(x))
    assert directory in function.lower(2.5).as_text(debug_info=True)
    with xf.config._find("hlo_source_file_canonicalization_regex")(directory):
        assert source_mapper.canonicalize_filename(__file__) == "test_source_maps.py"
        text = function.lower(2.5).as_text(debug_info=True)
    assert f'loc("test_source_maps.py":{LINES["sin"]}:' in text and directory not in text
    assert source_mapper.canonicalize_filename(__file__) == __file__
