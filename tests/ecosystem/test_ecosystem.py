"""Programs of libraries that import jax, run as they are: what they print is what they print with jax.

The numbers below are those of jax 0.10.2 (`python tests/ecosystem/programs.py with_optax`), with the libraries' versions of
November 2026. Chains of samplers, in which a last bit decides where they go, are compared by their means.
"""

import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
CHAINS = {("with_numpyro", "nuts"): 0.05, ("with_blackjax", "nuts"): 0.2, ("with_tfp", "sampler"): 0.15}

EXPECTED = json.loads((HERE / "expected.json").read_text())


@pytest.mark.parametrize("library", sorted(EXPECTED))
def test_programs_give_the_numbers_of_jax(library):
    environment = os.environ | {"XLAFRONT_PLATFORMS": "cpu", "XLA_FLAGS": "", "PYTHONPATH": str(HERE.parent.parent)}
    done = subprocess.run([sys.executable, "-m", "xlafront", "run", str(HERE / "programs.py"), library], capture_output=True,
                          text=True, env=environment, timeout=600)
    found = {name: [float(x) for x in numbers] for name, *numbers in map(str.split, done.stdout.splitlines())}
    assert done.returncode == 0, done.stderr[-4000:]
    assert set(found) == set(EXPECTED[library])
    for program, numbers in EXPECTED[library].items():
        tolerance = CHAINS.get((library, program))
        for x, y in zip(found[program], numbers, strict=True):
            assert math.isclose(x, y, rel_tol=tolerance or 2e-4, abs_tol=tolerance or 2e-5), (program, found[program], numbers)
