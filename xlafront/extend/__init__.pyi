# Written by `python -m tests.stubs`.
from xlafront.extend import backend as backend
from xlafront.extend import core as core
from xlafront.extend import linear_util as linear_util
from xlafront.extend import lowering as lowering
from xlafront.extend import mlir as mlir
from xlafront.extend import random as random
from xlafront.extend import sharding as sharding
from xlafront.extend import source_info_util as source_info_util

