"""Functions with derivative rules of their own: `custom_jvp`, `custom_vjp` and what goes with them."""

from xlafront.transforms.custom_jvp import (
    SymbolicZero as SymbolicZero,
    custom_jvp as custom_jvp,
    custom_jvp_call_p as custom_jvp_call_p,
    zero_from_primal as zero_from_primal,
)
from xlafront.transforms.custom_vjp import (
    CustomVJPPrimal as CustomVJPPrimal,
    custom_gradient as custom_gradient,
    custom_vjp as custom_vjp,
    custom_vjp_call_p as custom_vjp_call_p,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
)
from xlafront.transforms.custom_vjp_remat import remat_opt_p as remat_opt_p
from xlafront.transforms.linear_calls import (
    closure_convert as closure_convert,
    linear_call as linear_call,
)
