"""Make `import jax` give xlafront in this process. Import this before anything else, as in a notebook's first cell.

>>> import xlafront.as_jax
>>> import jax.numpy as jnp
"""

from xlafront.compat import install

install()
