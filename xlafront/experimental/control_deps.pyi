# Written by `python -m tests.stubs`.
from xlafront.control.dependencies import control_dep as control_dep
from xlafront.control.dependencies import schedule as schedule

