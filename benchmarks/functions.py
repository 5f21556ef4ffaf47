"""Functions one by one: eagerly, traced, in operations of the module; and what compiled kernels cost on a CPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from benchmarks.libraries import Library
from benchmarks.measure import best, operations, trace_time
from benchmarks.registry import case

FEW, MANY = 10, 60  # calls in programs that are traced: what one costs is in their difference


def expressions(lib: Library) -> dict[str, tuple[Callable, tuple]]:
    """Common functions of small arrays, with their arguments, by what they do."""
    n, lax, nn, random = lib.np, lib.lax, lib.xf.nn, lib.xf.random
    x, y = n.arange(1.0, 9.0), n.arange(8.0, 0.0, -1.0)
    m, batch = n.arange(16.0).reshape(4, 4) + 5 * n.eye(4), n.ones((3, 4, 4))
    i, k, mask, key = n.array([1, 3, 2]), n.array([3, 1, 2, 0]), n.array([True, False] * 4), random.key(0)
    return {
        "abs": (n.abs, (x,)),
        "exp": (n.exp, (x,)),
        "sin": (n.sin, (x,)),
        "power": (n.power, (x, y)),
        "maximum": (n.maximum, (x, y)),
        "arctan2": (n.arctan2, (x, y)),
        "logaddexp": (n.logaddexp, (x, y)),
        "floor_divide": (n.floor_divide, (x, y)),
        "mod": (n.mod, (x, y)),
        "isnan": (n.isnan, (x,)),
        "clip": (lambda a: n.clip(a, 2.0, 5.0), (x,)),
        "where": (n.where, (mask, x, y)),
        "sum": (n.sum, (m,)),
        "mean": (n.mean, (m,)),
        "var": (n.var, (m,)),
        "std of axis": (lambda a: n.std(a, axis=0), (m,)),
        "max of axis": (lambda a: n.max(a, axis=1), (m,)),
        "argmax": (n.argmax, (x,)),
        "any": (n.any, (mask,)),
        "prod": (n.prod, (x,)),
        "cumsum": (n.cumsum, (x,)),
        "median": (n.median, (x,)),
        "quantile": (lambda a: n.quantile(a, 0.3), (x,)),
        "norm": (n.linalg.norm, (x,)),
        "dot": (n.dot, (x, y)),
        "matmul": (n.matmul, (m, m)),
        "outer": (n.outer, (x, y)),
        "einsum": (lambda a, b: n.einsum("bij,jk->bik", a, b), (batch, m)),
        "tensordot": (lambda a: n.tensordot(a, a), (m,)),
        "kron": (n.kron, (m, m)),
        "trace of a matrix": (n.trace, (m,)),
        "solve": (n.linalg.solve, (m, m)),
        "det": (n.linalg.det, (m,)),
        "reshape": (lambda a: n.reshape(a, (2, 8)), (m,)),
        "transpose": (n.transpose, (m,)),
        "concatenate": (lambda a: n.concatenate([a, a]), (x,)),
        "stack": (lambda a: n.stack([a, a]), (x,)),
        "split": (lambda a: n.split(a, 2), (x,)),
        "repeat": (lambda a: n.repeat(a, 3), (x,)),
        "tile": (lambda a: n.tile(a, 3), (x,)),
        "roll": (lambda a: n.roll(a, 2), (x,)),
        "flip": (n.flip, (x,)),
        "pad": (lambda a: n.pad(a, 2), (m,)),
        "take": (n.take, (x, i)),
        "x[i]": (lambda a, b: a[b], (x, i)),
        "x[1:3]": (lambda a: a[1:3], (x,)),
        "take_along_axis": (lambda a, b: n.take_along_axis(a, b[:, None], 1), (m, k)),
        "x.at[i].set": (lambda a, b: a.at[b].set(0.0), (x, i)),
        "x.at[i].add": (lambda a, b: a.at[b].add(1.0), (x, i)),
        "sort": (n.sort, (x,)),
        "argsort": (n.argsort, (x,)),
        "searchsorted": (n.searchsorted, (x, y)),
        "linspace": (lambda: n.linspace(0.0, 1.0, 10), ()),
        "tril": (n.tril, (m,)),
        "diag": (n.diag, (m,)),
        "meshgrid": (lambda a, b: n.meshgrid(a, b), (x, y)),
        "interp": (n.interp, (y, x, x)),
        "fft": (n.fft.fft, (x,)),
        "top_k": (lambda a: lax.top_k(a, 3), (x,)),
        "logsumexp": (nn.logsumexp, (x,)),
        "softmax": (nn.softmax, (m,)),
        "gelu": (nn.gelu, (x,)),
        "one_hot": (lambda a: nn.one_hot(a, 4), (i,)),
        "random.normal": (lambda a: random.normal(a, (8,)), (key,)),
        "random.permutation": (lambda a: random.permutation(a, 8), (key,)),
        "random.choice": (lambda a, b: random.choice(a, b, (3,)), (key, x)),
    }


@case
def functions(lib: Library) -> dict:
    """Common functions: a call eagerly, one more call in a new program, operations of a call."""
    if not lib.compiles:
        return {}
    figures = {}
    for name, (function, args) in expressions(lib).items():
        figures[f"function, eager: {name}"] = (best(lambda f=function, a=args: f(*a), 0.01), "µs")
        few, many = (
            min([trace_time(lib, lambda f=function, n=calls: lambda *a: [f(*a) for _ in range(n)], *args, repeats=7)
                 for _ in range(2)])
            for calls in (FEW, MANY)
        )
        figures[f"function, trace: {name}"] = ((many - few) * 1e6 / (MANY - FEW), "µs")
        module = lib.xf.jit(lambda *a, f=function: f(*a)).lower(*args).as_text()
        figures[f"function, operations: {name}"] = (operations(module), "count")
    return figures


def kernels_of(lib: Library) -> dict[str, tuple[Callable, tuple]]:
    """Functions of large arrays, with their arguments."""
    n, lax, random = lib.np, lib.lax, lib.xf.random
    rng = np.random.default_rng(0)

    def normal(*shape):
        return n.asarray(rng.normal(size=shape).astype(np.float32))

    def convolution(layout: str, stride: int, groups: int):
        dims = (layout, "HWIO", layout)
        image = normal(8, 32, 32, 32)  # as many features as rows, for either layout
        kernel = normal(3, 3, 32 // groups, 32)

        def run(x, k):
            return lax.conv_general_dilated(x, k, (stride, stride), "SAME", dimension_numbers=dims, feature_group_count=groups)

        return run, (image, kernel)

    def backward(run):
        return lib.xf.grad(lambda x, k: (run(x, k) ** 2).sum(), (0, 1))

    x, m, rows = normal(100_000), normal(1000, 1000), normal(10_000, 64)
    index = n.asarray(rng.integers(0, 10_000, 100_000))
    long = normal(1_000_000)
    found = {
        "sort 1e5": (n.sort, (x,)),
        "argsort 1e5": (n.argsort, (x,)),
        "sort rows of 1000x1000": (n.sort, (m,)),
        "cumsum 1e6": (n.cumsum, (long,)),
        "cumsum of axis 0": (lambda a: n.cumsum(a, 0), (m,)),
        "cumsum of rows": (lambda a: n.cumsum(a, 1), (m,)),
        "cumprod of axis 0": (lambda a: n.cumprod(a, 0), (m,)),
        "argmax 1e6": (n.argmax, (long,)),
        "argmin 1e6": (n.argmin, (long,)),
        "argmax of rows": (lambda a: n.argmax(a, 1), (m,)),
        "top_k 10 of 1e5": (lambda a: lax.top_k(a, 10), (x,)),
        "unique 1e5, 1000 of them": (lambda a: n.unique(a, size=1000, fill_value=0), (index,)),
        "nonzero 1e6, 1000 of them": (lambda a: n.nonzero(a > 2, size=1000), (long,)),
        "gather 1e5 rows of 64": (lambda a, i: a[i], (rows, index)),
        "scatter-add 1e5 rows of 64": (lambda a, i, u: a.at[i].add(u), (rows, index, normal(100_000, 64))),
        "scatter-add 16 rows of 64": (lambda a, i, u: a.at[i].add(u), (rows, index[:16], normal(16, 64))),
        "segment_sum 1e5 to 1e4": (lambda a, i: lib.xf.ops.segment_sum(a, i, 10_000), (x, index)),
        "searchsorted 1e5 in 1e5": (n.searchsorted, (n.sort(x), x)),
        "einsum of 64 matrices": (lambda a, b: n.einsum("bij,bjk->bik", a, b), (normal(64, 64, 64), normal(64, 64, 64))),
        "matmul 1000x1000": (n.matmul, (m, m)),
        "matmul of 1000 4x4": (n.matmul, (normal(1000, 4, 4), normal(1000, 4, 4))),
        "sum 1e6": (n.sum, (long,)),
        "max of axis 0": (lambda a: n.max(a, 0), (m,)),
        "var of rows": (lambda a: n.var(a, 1), (m,)),
        "var 1e6": (n.var, (long,)),
        "mod 1e6": (lambda a: n.mod(a, 0.3), (long,)),
        "sin 1e6": (n.sin, (long,)),
        "arctan2 1e6": (lambda a: n.arctan2(a, a[::-1]), (long,)),
        "arccos 1e6": (lambda a: n.arccos(a / 10), (long,)),
        "gelu 1e6": (lib.xf.nn.gelu, (long,)),
        "while_loop of 1e4": (
            lambda a: lax.while_loop(lambda c: c[0] < 10_000, lambda c: (c[0] + 1, c[1] * 0.5), (0, a)), (x[:4],)),
        "logsumexp of rows": (lambda a: lib.xf.nn.logsumexp(a, 1), (m,)),
        "fft 2^17": (n.fft.fft, (normal(1 << 17),)),
        "rfft2 512x512": (n.fft.rfft2, (normal(512, 512),)),
        "fft2 512x512": (n.fft.fft2, (normal(512, 512),)),
        "random.normal 1e6": (lambda k: random.normal(k, (1_000_000,)), (random.key(0),)),
        "random.bits 1e6": (lambda k: random.bits(k, (1_000_000,)), (random.key(0),)),
        "random.permutation 1e5": (lambda k: random.permutation(k, 100_000), (random.key(0),)),
        "eigvals of 128 3x3": (n.linalg.eigvals, (normal(128, 3, 3),)),
        "eigh of 128 3x3": (n.linalg.eigh, (normal(128, 3, 3),)),
        "eigh 100x100": (n.linalg.eigh, (m[:100, :100] + m[:100, :100].T,)),
        "expm 64x64": (importlib.import_module(f"{lib.name}.scipy.linalg").expm, (m[:64, :64] / 8,)),
        "solve of 128 3x3": (n.linalg.solve, (normal(128, 3, 3), normal(128, 3, 3))),
    }
    for layout in ("NHWC", "NCHW"):
        for name, stride, groups in (("3x3", 1, 1), ("strided", 2, 1), ("depthwise", 1, 32)):
            run, args = convolution(layout, stride, groups)
            found[f"conv {layout} {name}"] = run, args
            found[f"conv {layout} {name}, backward"] = backward(run), args
    return found


def host_kernels_of(lib: Library) -> dict[str, tuple[Callable, tuple]]:
    """Return those of the kernels that NumPy and PyTorch have under nearly the same name."""
    n, rng = lib.np, np.random.default_rng(0)

    def normal(*shape):
        return n.asarray(rng.normal(size=shape).astype(np.float32))

    x, m, long, small = normal(100_000), normal(1000, 1000), normal(1_000_000), normal(128, 3, 3)
    top = (lambda a: n.topk(a, 10)) if lib.name == "torch" else (lambda a: a[n.argpartition(a, -10)[-10:]])
    return {
        "sort 1e5": (n.sort, (x,)), "argsort 1e5": (n.argsort, (x,)), "sort rows of 1000x1000": (n.sort, (m,)),
        "cumsum 1e6": (lambda a: n.cumsum(a, 0), (long,)), "cumsum of axis 0": (lambda a: n.cumsum(a, 0), (m,)),
        "argmax 1e6": (n.argmax, (long,)), "argmin 1e6": (n.argmin, (long,)),
        "argmax of rows": (lambda a: n.argmax(a, 1), (m,)), "top_k 10 of 1e5": (top, (x,)),
        "matmul 1000x1000": (n.matmul, (m, m)), "sum 1e6": (n.sum, (long,)), "sin 1e6": (n.sin, (long,)),
        "arctan2 1e6": (lambda a: n.arctan2(a, long), (n.flip(long, (0,)),)), "fft 2^17": (n.fft.fft, (normal(1 << 17),)),
        "eigvals of 128 3x3": (n.linalg.eigvals, (small,)), "eigh of 128 3x3": (n.linalg.eigh, (small,)),
        "solve of 128 3x3": (n.linalg.solve, (small, small)),
    }


@case
def kernels(lib: Library) -> dict:
    """Compiled functions of large arrays, run and waited for; beside them what NumPy and PyTorch take."""
    figures = {}
    if not lib.compiles:
        for name, (function, args) in host_kernels_of(lib).items():
            figures[f"kernel: {name}"] = (best(lambda f=function, a=args: f(*a), 0.1, repeats=5) / 1e3, "ms")
        return figures
    for name, (function, args) in kernels_of(lib).items():
        compiled = lib.xf.jit(function)
        figures[f"kernel: {name}"] = (best(lambda f=compiled, a=args: lib.wait(f(*a)), 0.1, repeats=5) / 1e3, "ms")
    return figures


def large_calls_of(lib: Library) -> dict[str, tuple[Callable, tuple]]:
    """Return eager calls that people compare with NumPy and PyTorch."""
    n, rng = lib.np, np.random.default_rng(0)
    long = n.asarray(rng.normal(size=1_000_000).astype(np.float32))
    x, integers = long[:100_000], n.asarray(rng.integers(0, 1000, 100_000, np.int32))
    m, small = (rng.normal(size=shape).astype(np.float32) for shape in ((100, 100), (256, 16, 16)))
    m, positive, small, column = map(n.asarray, (m, m @ m.T + 100 * np.eye(100, dtype=np.float32), small, m[:, 0]))
    if lib.name == "torch":
        permutation = lambda a: a[n.randperm(len(a))]  # noqa: E731
    else:
        permutation = rng.permutation if lib.name == "numpy" else lambda a: lib.xf.random.permutation(lib.xf.random.key(0), a)
    return {
        "sort 1e6": (n.sort, (long,)), "argsort 1e5": (n.argsort, (x,)), "median 1e5": (n.median, (x,)),
        "quantile 1e5": (lambda a: n.quantile(a, 0.3), (x,)), "unique 1e5": (n.unique, (integers,)),
        "permutation 1e6": (permutation, (long,)), "bincount 1e5": (n.bincount, (integers,)),
        "cumsum 1e6": (lambda a: n.cumsum(a, 0), (long,)), "solve 100x100": (n.linalg.solve, (m, column)),
        "inv 100x100": (n.linalg.inv, (m,)), "cholesky 100x100": (n.linalg.cholesky, (positive,)),
        "256 products of 16x16": (n.matmul, (small, small)),
    }


@case
def large_calls(lib: Library) -> dict:
    """Eager calls on the CPU: of large arrays, for sorting and what sorts, and of small matrices."""
    return {f"large call: {name}": (best(lambda f=function, a=args: lib.wait(f(*a)), 0.1, repeats=5) / 1e3, "ms")
            for name, (function, args) in large_calls_of(lib).items()}
