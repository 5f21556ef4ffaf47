"""The public transformations: `grad`, `vjp`, `jvp`, `linearize`, `jacfwd`, `hessian`, `vmap`.

They check arguments and flatten pytrees. The calculus itself is in `transforms`.
"""
