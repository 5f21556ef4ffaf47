# Written by `python -m tests.stubs`.
from xlafront.interpreters import ad as ad
from xlafront.interpreters import batching as batching
from xlafront.interpreters import mlir as mlir
from xlafront.interpreters import partial_eval as partial_eval
from xlafront.interpreters import pxla as pxla
from xlafront.interpreters import xla as xla

