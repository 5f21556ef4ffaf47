"""Every name that the libraries touch is there; every name that the tables promise can be loaded."""

import os
import pathlib
import re
import subprocess
import sys

from xlafront.compat import names

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
# What Flax, Optax, Equinox, Haiku, Chex, Orbax, NumPyro, BlackJAX, Diffrax, Lineax, Optimistix, TensorFlow Probability, jaxtyping,
# einops, Oryx, Distrax, jmp, Penzai, Keras, PennyLane, Qwix, BrainState, celerite2,
# unxt, quaxed and torchax touch of jax, by module.
TOUCHED, BEHIND = ({module: found.split() for module, found in re.findall(
    r"^(\S+):((?:.*\n)(?:    .*\n)*)", (HERE / f"{table}.txt").read_text(), re.MULTILINE)}
    for table in ("ecosystem_names", "names_behind"))  # the second: some public names of each private module
# Those of them that are not here, none of which the libraries need in order to be imported.
NOT_HERE = {
    # Of Oryx, whose last release, 0.2.9, cannot be imported with jax 0.10.2 either: it begins with `from jax import util`,
    # which was dropped before, and goes on to `pjit.pjit_p`, `shard_map.register_check` and `partial_eval.Jaxpr`, which were too.
    # What else it touches was never reached since; the last of these it calls with arguments that 0.10.2 does not take.
    "jax._src.interpreters.ad.call_transpose", "jax._src.interpreters.partial_eval.trace_to_jaxpr",
    "jax.interpreters.mlir._call_lowering",
    # Of Orbax, which asks whether it is there, and takes a lock out of what it returns: here nothing has that lock.
    "jax.experimental.colocated_python.func._make_prng_wrapped_fun",
    # Not used by the present releases.
    "jax._src.tree_util.FlatTree",
}
CODE = """
import importlib, sys
import xlafront.as_jax
missing = []
for line in sys.stdin:
    module, name = line.split()
    try:
        if name != "*":
            getattr(importlib.import_module(module), name)
        elif importlib.import_module(module) is not sys.modules[module]:
            missing.append(module)
    except (AttributeError, ImportError):
        missing.append(f"{module}.{name}")
print(*missing, sep="\\n")
"""


def missing(wanted) -> set[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, env=environment,
                          input="\n".join(f"{module} {name}" for module, name in wanted))
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_names_that_libraries_touch():
    assert len(TOUCHED) > 70 and sum(map(len, TOUCHED.values())) > 800
    assert missing((module, name) for module, found in TOUCHED.items() for name in found) == NOT_HERE


def test_public_names_in_private_modules():
    assert set(BEHIND) == set(names.BEHIND)
    assert missing((module, name) for module, found in BEHIND.items() for name in found) == set()


def test_the_tables():
    wanted = [(module, "*") for module in (*names.SAME, *names.OWN)]
    wanted += [(module, name) for module, (_, places) in names.OWN.items() for found in places.values() for name in found.split()]
    assert missing(wanted) == set()


def test_parents_of_modules_are_modules():
    known = {*names.SAME, *names.OWN}
    assert {module.rpartition(".")[0] for module in known} - known == {""}
    assert set(names.MORE_THAN) <= set(names.OWN) and not set(names.SAME) & set(names.OWN)


def test_every_public_module_has_its_name():
    """A new face is not forgotten."""
    faces = set()
    for path in (ROOT / "xlafront").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "lazy(__name__" in path.read_text():
            faces.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    assert faces - {*names.SAME.values(), *names.MORE_THAN.values()} == {"xlafront.planning"}
