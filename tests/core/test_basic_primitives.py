"""Primitives that the core declares and `lax` defines."""

import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
from xlafront.core import basic_primitives
from xlafront.core.primitive import Primitive

DECLARED = {name: value for name, value in vars(basic_primitives).items() if isinstance(value, Primitive)}


@pytest.mark.parametrize("name", DECLARED)
def test_record_is_defined_when_a_field_is_read(name):
    """In a process that has imported nothing else: each has a rule for types, and a lowering or a rule in place of one."""
    program = f"""
from xlafront.core.basic_primitives import {name} as primitive
assert primitive.abstract is not None
assert primitive.batch_with_axis or primitive.batch or primitive.mesh.over_axis or \\
    primitive.structured.only_calls_program
print(primitive.name)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [DECLARED[name].name]


def test_definition_gives_all_fields_and_happens_once():
    double_p = Primitive.declare("double", "xlafront.lax.shapes")
    with pytest.raises(AttributeError, match="has not defined the primitive double"):
        double_p.traits  # noqa: B018
    defined = double_p.define(abstract=lambda x: x, lower=lambda ctx, x: ctx.op("stablehlo.add", [x, x]))
    assert defined is double_p and double_p.shown_as == "double" and not double_p.multiple_results
    np.testing.assert_array_equal(xf.jit(double_p.bind)(np.float32([1, 2])), [2, 4])
    with pytest.raises(KeyError):
        double_p.define()


def test_unknown_attribute_of_a_primitive_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rule'"):
        xf.lax.sin_p.rule  # noqa: B018
