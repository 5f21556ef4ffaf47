"""All names that libraries use exist, and all names in the tables can be loaded."""

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
# unxt, quaxed, torchax, Tokamax, jax-triton and tpu-inference touch of jax, by module.
TOUCHED, PRIVATE = ({module: found.split() for module, found in re.findall(
    r"^(\S+):((?:.*\n)(?:    .*\n)*)", (HERE / f"{table}.txt").read_text(), re.MULTILINE)}
    for table in ("ecosystem_names", "private_names"))  # the second: public names in private modules
# Those of them that are not here, none of which the libraries need in order to be imported.
NOT_HERE = {
    # Of Oryx, whose last release, 0.2.9, cannot be imported with jax 0.10.2 either: it begins with `from jax import util`,
    # which was dropped before, and next uses `pjit.pjit_p`, `shard_map.register_check` and `partial_eval.Jaxpr`, which were too.
    # What else it touches was never reached since; the last of these it calls with arguments that 0.10.2 does not take.
    "jax._src.interpreters.ad.call_transpose", "jax._src.interpreters.partial_eval.trace_to_jaxpr",
    "jax.interpreters.mlir._call_lowering",
    # Orbax checks that it exists, and takes a lock from its result: here there is no such lock.
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


def missing(expected) -> set[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, env=environment,
                          input="\n".join(f"{module} {name}" for module, name in expected))
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_names_that_libraries_touch():
    assert len(TOUCHED) > 70 and sum(map(len, TOUCHED.values())) > 800
    assert missing((module, name) for module, found in TOUCHED.items() for name in found) == NOT_HERE


def test_public_names_in_private_modules():
    assert set(PRIVATE) == set(names.PRIVATE)
    assert missing((module, name) for module, found in PRIVATE.items() for name in found) == set()


def test_all_names_in_the_tables_can_be_loaded():
    expected = [(module, "*") for module in (*names.ALIASES, *names.COMPOSED)]
    expected += [(module, name) for module, (_, by_module) in names.COMPOSED.items() for found in by_module.values() for name in found.split()]
    assert missing(expected) == set()


def test_parents_of_modules_are_modules():
    known = {*names.ALIASES, *names.COMPOSED}
    assert {module.rpartition(".")[0] for module in known} - known == {""}
    assert set(names.EXTENDED) <= set(names.COMPOSED) and not set(names.ALIASES) & set(names.COMPOSED)


def test_every_public_module_has_its_name():
    """No new public module is missing."""
    faces = set()
    for path in (ROOT / "xlafront").rglob("*.py"):
        segments = path.relative_to(ROOT).with_suffix("").parts
        if "attach(__name__" in path.read_text():
            faces.add(".".join(segments[:-1] if segments[-1] == "__init__" else segments))
    assert faces - {*names.ALIASES.values(), *names.EXTENDED.values()} == {"xlafront.kernels", "xlafront.planning"}
