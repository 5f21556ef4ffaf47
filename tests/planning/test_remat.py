"""Plans of a step for each policy of its checkpoints, on a CPU: memory and work beside those that are counted by hand."""

import json
import textwrap

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.__main__ import main
from xlafront.ad_checkpoint import checkpoint_name

pytestmark = pytest.mark.cpu_only

LAYERS, WIDTH, HIDDEN, ROWS = 8, 64, 256, 256
HIDDEN_BYTES = LAYERS * ROWS * HIDDEN * 4  # of one hidden value of all layers
PRODUCT = 2 * LAYERS * ROWS * WIDTH * HIDDEN  # operations of one product of all layers
ARGUMENTS = ({"up": xf.ShapeDtypeStruct((LAYERS, WIDTH, HIDDEN), "float32"),
              "down": xf.ShapeDtypeStruct((LAYERS, HIDDEN, WIDTH), "float32")},
             xf.ShapeDtypeStruct((ROWS, WIDTH), "float32"))
LIMIT = 2**24


def layer(x, w):
    """Its gradient reads the first product, or three values that are computed from it."""
    return x + xnp.cos(xnp.sin(xnp.tanh(x @ w["up"]))) @ w["down"], None


def named_layer(x, w):
    return x + xnp.cos(xnp.sin(xnp.tanh(checkpoint_name(x @ w["up"], "hidden")))) @ w["down"], None


def scanned(layer):
    return lambda w, x: xnp.sum(lax.scan(layer, x, w)[0])


def unrolled(w, x):
    for i in range(LAYERS):
        x, _ = layer(x, xf.tree.map(lambda a, i=i: a[i], w))
    return xnp.sum(x)


def step_of(loss):
    def step(w, x):
        return xf.tree.map(lambda a, b: a - b, w, xf.grad(loss)(w, x))

    return step


LOSSES = {"scan": scanned(layer), "checkpoint": scanned(xf.checkpoint(layer)), "jit in scan": scanned(xf.jit(layer)),
          "scan in jit": xf.jit(scanned(layer)), "checkpoint in jit": xf.jit(scanned(xf.checkpoint(xf.jit(layer)))),
          "names": scanned(named_layer)}


@pytest.fixture(scope="module")
def found():
    return {name: xf.plan_remat(step_of(loss), *ARGUMENTS, memory_limit=LIMIT) for name, loss in LOSSES.items()}


def plans(found):
    return {c.policy: c.plan for c in found.choices}


@pytest.mark.parametrize("name", LOSSES)
def test_memory_and_work_are_those_of_what_is_saved(found, name):
    by_policy = plans(found[name])
    nothing, dots = by_policy["nothing_saveable"], by_policy["dots_saveable"]
    saved = dots.memory.temporaries - nothing.memory.temporaries
    assert saved == pytest.approx(HIDDEN_BYTES, rel=0.1)  # the first product of each layer
    computed = nothing.flops - dots.flops
    assert computed == pytest.approx(PRODUCT, rel=0.1)
    everything = by_policy["everything_saveable" if "checkpoint" in name else "as written"]
    assert everything.memory.temporaries - dots.memory.temporaries == pytest.approx(3 * HIDDEN_BYTES, rel=0.5)
    assert everything.flops <= dots.flops


@pytest.mark.parametrize("name", LOSSES)
def test_policies_apply_to_checkpoints_or_else_to_bodies_of_loops(found, name):
    assert found[name].place == ("each function in xf.checkpoint" if "checkpoint" in name else "the body of each lax.scan")
    assert ("save_only_these_names('hidden')" in plans(found[name])) == (name == "names")


def test_named_values_are_saved(found):
    by_policy = plans(found["names"])
    saved = by_policy["save_only_these_names('hidden')"].memory.temporaries - by_policy["nothing_saveable"].memory.temporaries
    assert saved == pytest.approx(HIDDEN_BYTES, rel=0.1)


def test_checkpoints_as_written_are_those_of_their_own_policy(found):
    by_policy = plans(found["checkpoint"])
    assert by_policy["as written"].memory == by_policy["nothing_saveable"].memory  # that is the default


def test_the_fastest_that_fits_is_chosen(found):
    for name, expected in [("as written", "as written"), ("dots_saveable", "dots_"), ("nothing_saveable", "nothing_saveable")]:
        limit = plans(found["scan"])[name].memory.total
        best = xf.plan_remat(step_of(LOSSES["scan"]), *ARGUMENTS, memory_limit=limit).best
        assert best.policy.startswith(expected) and best.plan.memory.total <= limit, name


def test_without_loops_the_differentiated_function_is_checkpointed():
    def step(w, x):
        (value, doubled), gradient = xf.value_and_grad(lambda w: (unrolled(w, x), x * 2), has_aux=True)(w)
        return value, doubled, gradient

    found = xf.plan_remat(step, *ARGUMENTS)
    assert found.place == "the differentiated function" and "as written" in plans(found)
    assert "xf.checkpoint: with one around each layer" in str(found)


def test_a_plan_leaves_the_program_as_it_is(found):
    step = step_of(LOSSES["checkpoint in jit"])
    text = str(xf.make_jaxpr(step)(*ARGUMENTS))
    xf.plan_remat(step, *ARGUMENTS, policies={"all": xf.checkpoint_policies.everything_saveable})
    assert str(xf.make_jaxpr(step)(*ARGUMENTS)) == text


def test_loops_within_a_checkpointed_body_are_not_checkpointed_again():
    """An inner loop in the body of an outer one: with nothing saved, each product is computed twice, not three times."""
    def outer(x, w):
        return lax.scan(lambda x, _: layer(x, w), x, None, length=1)[0], None

    once, twice = [plans(xf.plan_remat(step_of(scanned(body)), *ARGUMENTS))["nothing_saveable"].flops for body in (layer, outer)]
    assert abs(twice - once) < PRODUCT / 2


def test_policies_of_the_user():
    found = xf.plan_remat(step_of(LOSSES["scan"]), *ARGUMENTS, policies={"mine": xf.checkpoint_policies.nothing_saveable})
    assert {c.policy for c in found.choices} == {"as written", "mine"}


def test_a_limit_that_no_policy_meets():
    found = xf.plan_remat(step_of(LOSSES["scan"]), *ARGUMENTS, memory_limit=2**20)
    assert found.best is None and "No policy fits: " in str(found) and "of 1 MiB at least" in str(found)


def test_a_function_without_derivatives_is_refused():
    with pytest.raises(ValueError, match=r"<lambda> saves nothing for a derivative: .* Plan the training step"):
        xf.plan_remat(lambda x: x + 1, ARGUMENTS[1])
    with pytest.raises(TypeError):
        xf.plan_remat(3)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent("""
        import xlafront as xf
        import xlafront.numpy as xnp

        def train_step(w, x):
            loss = lambda w: xnp.sum(xf.lax.scan(xf.checkpoint(lambda x, w: (xnp.tanh(xnp.sin(x @ w)), None)), x, w)[0])
            return w - xf.grad(loss)(w)

        def train_step_args():
            return xf.ShapeDtypeStruct((4, 64, 64), "float32"), xf.ShapeDtypeStruct((256, 64), "float32")
    """))
    return f"{path}:train_step"


def test_command(script, capsys, monkeypatch):
    monkeypatch.setenv("XLAFRONT_PLANS_HERE", "1")
    assert main(["plan", script, "--remat", "--memory", "16MiB"]) == 0
    shown = capsys.readouterr().out
    assert "policy=xf.checkpoint_policies.everything_saveable)" in shown and shown.count("fits  ") >= 4
    assert main(["plan", script, "--remat", "--memory", "100kB", "--json"]) == 1
    read = json.loads(capsys.readouterr().out)
    assert read["best"] is None and len(read["choices"]) == 5 and read["choices"][0]["plan"]["fits"] is False


@pytest.mark.parametrize("options, message", [
    (["--search"], "--remat takes one topology and one mesh"), (["--topology", "v5e:2x2,h100:2"], "--remat takes one topology"),
    (["--timeline"], "leave out --timeline")])
def test_options_that_do_not_go_together(script, options, message, capsys, monkeypatch):
    monkeypatch.setenv("XLAFRONT_PLANS_HERE", "1")
    assert main(["plan", script, "--remat", *options]) == 2
    assert message in capsys.readouterr().err
