"""Sparse arrays: products, conversions, layouts and derivatives, compiled and called eagerly."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from benchmarks.libraries import Library
from benchmarks.measure import best
from benchmarks.registry import case


def sparse_of(lib: Library) -> dict[str, tuple[Callable, tuple]]:
    """Functions of sparse arrays, with their arguments, by what they do."""
    sp = importlib.import_module(f"{lib.xf.__name__}.experimental.sparse")
    n, rng = lib.np, np.random.default_rng(0)

    def dense(*shape, share=1.0):
        values = rng.normal(size=shape) * (rng.random(shape) < share)
        return n.asarray(values.astype(np.float32))

    def with_data(array, data):
        children, static = array.tree_flatten()
        return array.tree_unflatten(static, (data, *children[1:]))

    found: dict[str, tuple[Callable, tuple]] = {}
    sizes = {"50x40": (50, 40, 0.1, 8), "1000x900": (1000, 900, 0.01, 64)}
    for size, (rows, columns, share, width) in sizes.items():
        mat = dense(rows, columns, share=share)
        nse = int((np.asarray(mat) != 0).sum())
        v, left, wide = dense(columns), dense(rows), dense(columns, width)
        for kind in ("BCOO", "BCSR", "COO", "CSR", "CSC"):
            made = getattr(sp, kind).fromdense(mat)

            def named(what, kind=kind, size=size):
                return f"{kind} {size}: {what}"

            found[named("matvec")] = (lambda a, b: a @ b, (made, v))
            found[named("matmat")] = (lambda a, b: a @ b, (made, wide))
            found[named("todense")] = (lambda a: a.todense(), (made,))
            found[named("fromdense")] = (lambda a, k=getattr(sp, kind), s=nse: k.fromdense(a, nse=s), (mat,))
            found[named("gradient of matvec in the vector")] = (
                lib.xf.grad(lambda b, a: ((a @ b) ** 2).sum()), (v, made))
            found[named("gradient of matmat in both")] = (lib.xf.grad(
                lambda b, d, a: ((with_data(a, d) @ b) ** 2).sum(), (0, 1)), (wide, made.data, made))
            if kind in ("COO", "CSR", "CSC", "BCOO"):
                found[named("transposed matvec")] = (lambda a, b: a.T @ b, (made, left))
        a = sp.BCOO.fromdense(mat)
        double = sp.BCOO((n.concatenate([a.data, a.data]), n.concatenate([a.indices, a.indices])), shape=a.shape)
        found |= {
            f"BCOO {size}: {name}": (function, (a, *others)) for name, function, others in (
                ("vector times", lambda a, b: b @ a, (left,)),
                ("transpose", lambda a: a.T, ()),
                ("sort_indices", lambda a: sp.bcoo_sort_indices(a.T), ()),
                ("sum over rows", lambda a: sp.bcoo_reduce_sum(a, axes=(0,)), ()),
                ("times a number", lambda a: a * 2.0, ()),
                ("times a dense array", lambda a, b: a * b, (mat,)),
                ("times a row", lambda a, b: a * b, (v,)),
                ("sum with itself", lambda a: a + a, ()),
                ("sparsify sin", sp.sparsify(n.sin), ()),
                ("slice", lambda a: a[5:30, 3:20], ()),
                ("a row", lambda a: a[3], ()),
                ("reshape", lambda a: a.reshape(a.shape[1], a.shape[0]), ()),
                ("broadcast", lambda a: sp.bcoo_broadcast_in_dim(a, shape=(3, *a.shape), broadcast_dimensions=(1, 2)), ()),
                ("concatenate", lambda a: sp.bcoo_concatenate([a, a], dimension=0), ()),
                ("update_layout to batches of rows", lambda a: sp.bcoo_update_layout(a, n_batch=1, on_inefficient=None), ()),
                ("extract", lambda a, b: sp.bcoo_extract(a, b), (mat,)),
                ("gradient of todense", lib.xf.grad(lambda a: (a.todense() ** 2).sum(), allow_int=True), ()),
            )}
        found[f"BCOO {size}: sum_duplicates"] = (lambda a, s=nse: a.sum_duplicates(nse=s), (double,))
        found[f"BCOO {size}: sampled product"] = (lambda x, y, i: sp.bcoo_dot_general_sampled(
            x, y, i, dimension_numbers=(((1,), (0,)), ((), ()))), (dense(rows, width), dense(width, columns), a.indices))
        found[f"BCOO {size}: gradient of the sampled product"] = (lib.xf.grad(lambda x, y, i: (sp.bcoo_dot_general_sampled(
            x, y, i, dimension_numbers=(((1,), (0,)), ((), ()))) ** 2).sum(), (0, 1)),
            (dense(rows, width), dense(width, columns), a.indices))
    few = sp.BCOO.fromdense(dense(50, 40, share=0.02)), sp.BCOO.fromdense(dense(40, 50, share=0.02))
    found["BCOO 50x40: product of two"] = (lambda a, b: a @ b, few)
    found["BCOO 50x40: elementwise product of two"] = (lambda a: a * a, few[:1])
    batch = dense(8, 200, 150, share=0.02)
    for kind in ("BCOO", "BCSR"):
        made = getattr(sp, kind).fromdense(batch, n_batch=1)
        product = getattr(sp, f"{kind.lower()}_dot_general")
        numbers = (((2,), (1,)), ((0,), (0,)))
        found |= {
            f"{kind} 8x200x150 of batches: matvec": (
                lambda a, b, p=product: p(a, b, dimension_numbers=numbers), (made, dense(8, 150))),
            f"{kind} 8x200x150 of batches: matmat": (
                lambda a, b, p=product: p(a, b, dimension_numbers=numbers), (made, dense(8, 150, 16))),
            f"{kind} 8x200x150 of batches: one matrix for all": (
                lambda a, b, p=product: p(a, b, dimension_numbers=(((2,), (0,)), ((), ()))), (made, dense(150, 16))),
            f"{kind} 8x200x150 of batches: todense": (lambda a: a.todense(), (made,)),
            f"{kind} 8x200x150 of batches: fromdense": (
                lambda a, k=getattr(sp, kind), s=made.nse: k.fromdense(a, n_batch=1, nse=s), (batch,)),
            f"{kind} 8x200x150 of batches: mapped matvec": (lib.xf.vmap(lambda a, b: a @ b), (made, dense(8, 150))),
        }
    found["BCOO 8x200x150 of batches: transpose"] = (lambda a: a.transpose((0, 2, 1)), (sp.BCOO.fromdense(batch, n_batch=1),))
    found["BCOO 8x200x150 of batches: sum over batches"] = (
        lambda a: sp.bcoo_reduce_sum(a, axes=(0,)), (sp.BCOO.fromdense(batch, n_batch=1),))
    blocks = sp.BCOO.fromdense(dense(300, 200, share=0.02)[..., None] * dense(4), n_dense=1)
    found["BCOO 300x200x4 of blocks: todense"] = (lambda a: a.todense(), (blocks,))
    found["BCOO 300x200x4 of blocks: matvec"] = (
        lambda a, b: sp.bcoo_dot_general(a, b, dimension_numbers=(((1,), (0,)), ((), ()))), (blocks, dense(200)))
    return found


@case
def sparse(lib: Library) -> dict:
    """Functions of sparse arrays: compiled, and called eagerly."""
    if not lib.compiles:
        return {}
    figures = {}
    for name, (function, args) in sparse_of(lib).items():
        compiled = lib.xf.jit(function)
        figures[f"sparse, compiled: {name}"] = (best(lambda f=compiled, a=args: lib.wait(f(*a)), 0.015, repeats=7), "µs")
        figures[f"sparse, eager: {name}"] = (best(lambda f=function, a=args: lib.wait(f(*a)), 0.015, repeats=5), "µs")
    return figures
