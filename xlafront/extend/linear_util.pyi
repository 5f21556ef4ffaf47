# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.linear_util import EqualStore as EqualStore
from xlafront.transforms.calls.linear_util import Store as Store
from xlafront.transforms.calls.linear_util import StoreException as StoreException
from xlafront.transforms.calls.linear_util import WrappedFun as WrappedFun
from xlafront.transforms.calls.linear_util import _missing_debug_info as _missing_debug_info
from xlafront.transforms.calls.linear_util import cache as cache
from xlafront.transforms.calls.linear_util import merge_linear_aux as merge_linear_aux
from xlafront.transforms.calls.linear_util import transformation as transformation
from xlafront.transforms.calls.linear_util import transformation2 as transformation2
from xlafront.transforms.calls.linear_util import transformation_with_aux as transformation_with_aux
from xlafront.transforms.calls.linear_util import transformation_with_aux2 as transformation_with_aux2
from xlafront.transforms.calls.linear_util import wrap_init as wrap_init

