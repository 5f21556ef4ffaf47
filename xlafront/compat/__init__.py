"""xlafront as a replacement of jax: `import jax` gives xlafront, for programs and libraries that run unchanged.

To enable it, use `import xlafront.as_jax`, `xlafront.compat.install()`, `python -m xlafront run script.py` (for a program and
its child processes), or `XLAFRONT_AS_JAX=1` for a process that begins with `import xlafront`. From then on `import jax.numpy`
gives the module `xlafront.numpy` itself; `names.py` maps the modules.
"""

from xlafront.compat.importing import install as install
