"""Programs of libraries that import jax, run as they are: what they print is what they print with jax.

The numbers below are those of jax 0.12.0.1 (`python tests/ecosystem/programs.py with_optax`), and of jax 0.10.2 on Python 3.11,
with the libraries' versions of November 2026. Chains of samplers, in which a last bit decides where they go, are compared by their means.
"""

import math
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
CHAINS = {("with_numpyro", "nuts"): 0.05, ("with_blackjax", "nuts"): 0.2, ("with_tfp", "sampler"): 0.15}

EXPECTED = {
    "with_blackjax": {
        "nuts": [0.997072, -2.05132, 1.08378, 2.1759],
        "others": [-107.953, -139.943, -90.1043],
        "sequential": [0.996105, -1.68825, 1],
    },
    "with_chex": {
        "assertions": [1, 1, 1, 1, 1, 1, 6, 1],
        "dataclasses": [7, 15, 4, 1, 3],
        "annotations": [120, 120, 9, 1, 1, 1],
        "command_line": [1, 1, 1],
        "patches": [1534, 48, 10378, 1548, 420, 6],
        "distributions": [-0.561389, -4.69864, 11.3387, -13.6353, 0.234907, 1.41894, 0.965676, 0.500402],
        "assertions_of_values": [0, 6, 1, 1, 1, 1, 1],
    },
    "with_diffrax": {
        "ordinary": [4.90833, -0.420503, -0.131246, -0.420535, -0.131245],
        "stiff_with_event": [0.617235, 0.382759, 1.42857],
        "stochastic": [0.223747, 0.630231, 0.366032, 0.366032, -1.73845, -0.295852],
        "linear_systems": [2.34305, -5.22066, 0.49606, 0.496061, 1.17027, 1.17027, 0.508611, 1.99352],
        "nonlinear_systems": [0.739085, 0.739084, 1, 1, 1, 1, -0.441611],
    },
    "with_equinox": {
        "train_mlp": [0.270698, 0.267479],
        "batch_norm": [47.9579, 67.2753, 48.3443, 65.7843],
        "attention_and_recurrence": [-0.40771, 0.578441, -0.0188822, -0.108814, 0.266307, 1.56973, -1.32002, 1.28751],
        "inside_of_compiled_code": [1, 25.3125, 2, 18, 0, 2, 4],
    },
    "with_flax_linen": {
        "train_mlp": [0.0188376, 0.0175365],
        "convolutions": [4.29439, 2.2578, 1.0574, 0.786125, 0.72381, -16.7152],
        "transformer": [3.54327, 3.47208, 1],
        "recurrence": [0.899607, 9.6683, -7.07707],
        "lifted_branches": [-2.69653, -1.60758],
    },
    "with_flax_nnx": {
        "train_mlp": [0.369542, 0.793565, -0.181312],
        "convolutions": [2.33466, 0.363464, 0.165134, 0.102396, -6.21548],
        "transformer": [3.80678, 5.86],
        "variables": [2, 2.06155, 2.05831, 0.461436, 6, 3, 9.03778, 12],
        "state": [0.86737, 0.675134, 0.205998, 4, 1, 0.220607],
        "checked": [3, 2, 6, 1, 9, 2],
    },
    "with_haiku": {
        "train_mlp": [0.0793605, 353],
        "batch_norm": [0.650614, 0.973419, 4],
        "recurrence": [1.39829, 0.165909, 0.455294],
        "mixed_precision": [0.805421, 1024, 1],
    },
    "with_keras": {
        "train_classifier": [1.41207, 1.09175, 0.73105, 0.53125, -0.677757, 258],
        "train_recurrent": [1.12655, 0.989782],
        "transformer_block": [0.843791, -0.0550325, 11],
        "step_without_fit": [0.789862, 0.73589, 0.685274, 0.63796, 0.593737],
        "operations": [6.23321, 2.05523, 3.4001, -4.68708, 4.40097, -4.68708, -2.94213, 2],
    },
    "with_numpyro": {
        "nuts": [0.499672, 1.98511, 0.0777177],
        "variational": [-11.6053, 1.98383, 0.489268],
        "handlers": [-38.639, 1, 8.4281, 13.9478],
        "distributions": [1.07054, -3.58334, -5.31926, -2.10293, -7.98638, -5.14243, -4.12796],
    },
    "with_optax": {
        "optimisers": [0.00692967, 0.0361006, 0.0360487, 0.69904, 0.00630385, 3.62756, 0.900744, 10.7392, 0.035399, 0.735387],
        "schedules": [0.100867, 0.1, 0.105],
        "masked_steps": [0.138913, 0.0598219],
        "losses": [1.84992, 0.88723, 0.280176, 1.17661, 3.95973, 4.66533],
        "line_search": [1, 1],
    },
    "with_orbax": {
        "linen_state": [-1.33766, 2],
        "nnx_module": [-1.29346],
        "manager": [9, 1.5, 2, 3, 3],
        "arrays_by_themselves": [8, 4, 0, 1.5],
    },
    "with_penzai": {
        "named_axes": [4, 5, 6, 7, 32, 32, 32, 32, 33, 6],
        "train_mlp": [0.756887, 0.05541, 6],
        "rewired_model": [2, 1.24459, 0.466742, 1, 4, 0, 1],
    },
    "with_tfp": {
        "distributions": [-6.21815, -3.75116, -0.343428, -5.3315, -7.23219, -2.50416, -11.5455, 2.07944, -4.15666, 0.443147, 0.442175, 1.28155],
        "bijectors": [29.1105, 0.6, 6.58629, 3.8201, -8.55417, 0.26639, -2.1, -2.5],
        "sampler": [0.939544, 1.01265],
        "special_functions": [0.236755, 0.779601, -1.35023, -0.201729, 0.32863, 0.295763, 0.941608, -1.52388, 1.11803, 0, 0.447214, 1.34164],
    },
}


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
