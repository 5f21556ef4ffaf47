# Written by `python -m tests.stubs`.
from xlafront.numpy.resizing import ResizeMethod as ResizeMethod
from xlafront.numpy.resizing import resize as resize
from xlafront.numpy.resizing import scale_and_translate as scale_and_translate

