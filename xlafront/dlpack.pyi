# Written by `python -m tests.stubs`.
from xlafront.numpy.dlpack import from_dlpack as from_dlpack
from xlafront.numpy.dlpack import is_supported_dtype as is_supported_dtype
from xlafront.numpy.dlpack import to_dlpack as to_dlpack

