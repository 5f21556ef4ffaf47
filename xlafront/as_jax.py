"""Makes xlafront answer `import jax` in this process. To be imported before anything else, as in a notebook's first cell.

>>> import xlafront.as_jax
>>> import jax.numpy as jnp
"""

from xlafront.compat import install

install()
