"""`import jax` answered by xlafront, for programs and libraries that are to run as they are.

It is switched on by `import xlafront.as_jax`, by `xlafront.compat.install()`, for a program and its children by
`python -m xlafront run script.py`, or for a process that begins with `import xlafront` by `XLAFRONT_AS_JAX=1`. From then on
`import jax.numpy` gives the module `xlafront.numpy` itself; `names.py` says what is what.
"""

from xlafront.compat.importing import install as install
