"""Laws for every differentiable and mappable function, whatever it computes."""

import contextlib
from unittest import mock

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp


def finite_difference(f, args, directions, step=1e-5):
    """Directional derivative by central differences, in float64."""
    ahead = f(*[a + step * d for a, d in zip(args, directions)])
    behind = f(*[a - step * d for a, d in zip(args, directions)])
    return [(np.asarray(p) - np.asarray(q)) / (2 * step) for p, q in zip(xf.tree.leaves(ahead), xf.tree.leaves(behind))]


def check_derivatives(f, args, rng, tolerance=1e-6):
    """jvp against finite differences, vjp against jvp (<ct, J t> == <J^T ct, t>), one compiled function for each."""
    with xf.enable_x64(True):
        args = [np.asarray(a, np.float64) for a in args]
        tangents = [rng.normal(size=a.shape) for a in args]
        compiled = xf.jit(f)
        numeric = finite_difference(compiled, args, tangents)
        out, out_tangents = xf.jit(lambda a, t: xf.jvp(f, a, t))(tuple(args), tuple(tangents))
        for ours, theirs in zip(xf.tree.leaves(out_tangents), numeric):
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=tolerance * 10, atol=tolerance * 10)
        cts = xf.tree.map(lambda x: rng.normal(size=x.shape), out)
        pulled = xf.jit(lambda a, ct: xf.vjp(f, *a)[1](ct))(tuple(args), cts)
        left = sum(
            np.vdot(np.asarray(c), np.asarray(t)) for c, t in zip(xf.tree.leaves(cts), xf.tree.leaves(out_tangents))
        )
        right = sum(np.vdot(np.asarray(p), t) for p, t in zip(pulled, tangents))
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def check_batching(f, args, rng=None, tolerance=1e-5):
    """vmap against a loop, for every choice of mapped arguments and two axes."""
    count = 3
    for chosen in range(1, 2 ** len(args)):
        for axis in (0, -1):
            batched, axes = [], []
            for i, a in enumerate(args):
                a = np.asarray(a)
                if chosen >> i & 1:
                    batched.append(np.stack([np.roll(a, k) for k in range(count)], axis))
                    axes.append(axis)
                else:
                    batched.append(a)
                    axes.append(None)
            ours = xf.jit(xf.vmap(f, in_axes=tuple(axes)))(*batched)
            rows = [
                f(*[np.take(b, k, axis) if ax is not None else b for b, ax in zip(batched, axes)]) for k in range(count)
            ]
            for a, *bs in zip(xf.tree.leaves(ours), *[xf.tree.leaves(r) for r in rows]):
                np.testing.assert_allclose(
                    np.asarray(a), np.stack([np.asarray(b) for b in bs]), rtol=tolerance, atol=tolerance
                )


def total(f):
    """The sum of all results, to have a scalar."""
    return lambda *args: sum(xnp.sum(x) for x in xf.tree.leaves(f(*args)))


@contextlib.contextmanager
def signatures_seen():
    """The names of the functions whose calls came to Python, because C++ had not seen the signature: in a list, as they come."""
    from xlafront.staging.jitted import Jitted

    names, trace = [], Jitted.trace

    def noted(self, call):
        names.append(self.name)
        return trace(self, call)

    with mock.patch.object(Jitted, "trace", noted):
        yield names
