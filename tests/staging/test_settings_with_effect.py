"""Settings of diagnostics: checks that they relax, messages that they add, errors that they raise."""

import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import export
from xlafront.base import config

X = np.arange(3, dtype=np.float32)


def test_unchecked_shapes_of_cotangents():
    f = xf.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, None), lambda _, g: (xnp.ones(5),))
    with pytest.raises(ValueError, match="shapes of the arguments"):
        xf.vjp(f, X)[1](X)
    with config.disable_bwd_checks(True):
        assert xf.vjp(f, X)[1](X)[0].shape == (5,)
    with pytest.raises(ValueError, match="shapes of the arguments"):
        xf.vjp(f, X)[1](X)


def test_the_convention_of_exports():
    f = xf.jit(lambda x: x + 1)
    for version in (9, 10):
        with config.export_calling_convention_version(version):
            exported = export.deserialize(export.export(f)(X).serialize())
        assert exported.calling_convention_version == version
        np.testing.assert_array_equal(exported.call(X), X + 1)
    with config.export_calling_convention_version(8), pytest.raises(ValueError, match="convention 8"):
        export.export(f)(X)


def test_residuals_of_checkpoints_are_logged(caplog):
    def f(x):
        return xnp.sin(xnp.cos(x)).sum()

    everything = xf.checkpoint_policies.everything_saveable
    with config.log_checkpoint_residuals(True), caplog.at_level(logging.DEBUG, "xlafront"):
        xf.grad(xf.checkpoint(f))(X)
        xf.grad(xf.checkpoint(f, policy=everything))(X)
        xf.checkpoint(f)(X)
    without, with_all = [r.getMessage().splitlines() for r in caplog.records if r.levelno == logging.WARNING]
    assert without[1:] == ["  f32[3] from argument 0"]
    assert [line.split()[:4] for line in with_all[1:]] == [["f32[3]", "output", "of", op] for op in ("sin", "cos")]
    assert __file__ in with_all[1]


def test_where_large_constants_are_read():
    large, small = xnp.ones(1000), xnp.ones(100)
    with config.captured_constants_warn_bytes(2000), config.captured_constants_report_frames(1):
        with pytest.warns(UserWarning, match="large amount of constants") as caught:
            xf.jit(lambda x: x[0] * xnp.sum(xnp.sin(large)) + xnp.cos(small))(X)
    first, second = str(caught[0].message).splitlines()[1:]
    assert "float32[1000], 4000 bytes, first read by sin at" in first and __file__ in first
    assert "float32[100], 400 bytes, first read by cos at" in second


def test_errors_of_the_compile_cache(tmp_path):
    """Some file stands where the directory should be."""
    (tmp_path / "file").write_text("")
    code = "import numpy as np, xlafront as xf\nprint(xf.jit(lambda x: x + 41)(np.int32(1)))"
    environment = os.environ | {"XLAFRONT_CACHE_DIR": str(tmp_path / "file")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "42\n" and "UserWarning: the compile cache is off" in done.stderr
    done = subprocess.run([sys.executable, "-c", code], env=environment | {"JAX_RAISE_PERSISTENT_CACHE_ERRORS": "1"},
                          capture_output=True, text=True)
    assert done.returncode and "RuntimeError: the compile cache is off" in done.stderr
