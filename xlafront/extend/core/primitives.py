"""The built-in primitives by name, for interpreters of jaxprs: `primitives.sin_p`, `primitives.jit_p`.

Names are looked up in the defining modules on first use. The functions that create call primitives are here, too.
"""

from __future__ import annotations

from importlib import import_module

from xlafront import lax
from xlafront.core.primitive import Primitive, known_primitives
from xlafront.extend.core.call import (
    create_call_primitive as create_call_primitive,
    eval_jaxpr_transpose as eval_jaxpr_transpose,
    register_call_primitive_rules as register_call_primitive_rules,
)

# Primitives that are not in `xlafront.lax`, or have another name there.
_EXPORTS = {
    "add_jaxvals_p": ("xlafront.lax.elementwise", "add_any_p"),
    "call_p": ("xlafront.extend.core.call", "call_p"),
    "closed_call_p": ("xlafront.extend.core.call", "closed_call_p"),
    "copy_p": ("xlafront.lax.elementwise", "copy_p"),
    "custom_jvp_call_p": ("xlafront.transforms.calls.custom_jvp", "custom_jvp_call_p"),
    "custom_vjp_call_p": ("xlafront.transforms.calls.custom_vjp", "custom_vjp_call_p"),
    "eig_p": ("xlafront.linalg.spectra", "eig_p"),
    "eigh_p": ("xlafront.linalg.spectra", "eigh_p"),
    "get_p": ("xlafront.lax.refs", "get_p"),
    "hessenberg_p": ("xlafront.linalg.condensed_forms", "hessenberg_p"),
    "jit_p": ("xlafront.staging.jitted", "jit_p"),
    "name_p": ("xlafront.transforms.calls.checkpoint", "name_p"),
    "random_bits_p": ("xlafront.random.primitives", "random_bits_p"),
    "random_fold_in_p": ("xlafront.random.primitives", "random_fold_in_p"),
    "random_gamma_p": ("xlafront.random.gammas", "random_gamma_p"),
    "random_seed_p": ("xlafront.random.primitives", "random_seed_p"),
    "random_split_p": ("xlafront.random.primitives", "random_split_p"),
    "random_wrap_p": ("xlafront.lax.key_arrays", "wrap_p"),
    "random_unwrap_p": ("xlafront.lax.key_arrays", "unwrap_p"),
    "remat_p": ("xlafront.transforms.calls.checkpoint", "remat_p"),
    "schur_p": ("xlafront.linalg.condensed_forms", "schur_p"),
    "svd_p": ("xlafront.linalg.spectra", "svd_p"),
    "swap_p": ("xlafront.lax.refs", "swap_p"),
    "threefry2x32_p": ("xlafront.random.threefry", "threefry2x32_p"),
    "triangular_solve_p": ("xlafront.linalg.factorizations", "triangular_solve_p"),
    "tridiagonal_p": ("xlafront.linalg.condensed_forms", "tridiagonal_p"),
}
_EXPORTS |= {name: ("xlafront.lax.linalg", name) for name in (
    "cholesky_p", "householder_product_p", "lu_p", "qr_p", "tridiagonal_solve_p")}


def __getattr__(name: str) -> Primitive:
    if name.startswith("_"):
        raise AttributeError(name)
    module, attribute = _EXPORTS.get(name, ("xlafront.lax", name))
    found = getattr(import_module(module), attribute, None)
    if not isinstance(found, Primitive):
        same_name = [p for p in known_primitives if f"{p.name}_p" == name]
        if len(same_name) != 1:
            raise AttributeError(f"xlafront.extend.core.primitives has no {name!r}")
        [found] = same_name
    globals()[name] = found
    return found


def __dir__():
    functions = ("create_call_primitive", "eval_jaxpr_transpose", "register_call_primitive_rules")
    return sorted({*functions, *_EXPORTS, *(n for n in dir(lax) if n.endswith("_p"))})
