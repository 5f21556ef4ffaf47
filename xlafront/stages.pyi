# Written by `python -m tests.stubs`.
from xlafront.staging.stages import ArgInfo as ArgInfo
from xlafront.staging.stages import Compiled as Compiled
from xlafront.staging.stages import CompilerOptions as CompilerOptions
from xlafront.staging.stages import Lowered as Lowered
from xlafront.staging.stages import Traced as Traced
from xlafront.staging.stages import Wrapped as Wrapped

