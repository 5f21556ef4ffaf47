# Written by `python -m tests.stubs`.
from xlafront.control.sequential_vmap import sequential_vmap as sequential_vmap
from xlafront.transforms.calls.custom_vmap import custom_vmap as custom_vmap

