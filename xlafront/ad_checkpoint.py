"""Rematerialisation: policies, names for values, what a derivative keeps. `checkpoint` itself is `xlafront.checkpoint`."""

from xlafront.transforms.checkpoint import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint as checkpoint,
    checkpoint_name as checkpoint_name,
    checkpoint_policies as checkpoint_policies,
    print_saved_residuals as print_saved_residuals,
    remat as remat,
)
