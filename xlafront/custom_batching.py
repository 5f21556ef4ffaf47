"""Functions with batching rules of their own: `custom_vmap`, `sequential_vmap`."""

from xlafront.transforms.custom_batching_rules import (
    custom_vmap as custom_vmap,
    sequential_vmap as sequential_vmap,
)
