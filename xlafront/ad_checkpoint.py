"""Rematerialisation: policies, names for values, what a derivative keeps. `checkpoint` itself is `xlafront.checkpoint`."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.transforms.ad.checkpoint": """checkpoint checkpoint_name checkpoint_policies Offloadable print_saved_residuals
        Recompute remat Saveable""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
