"""The stages of a compilation: traced, lowered, compiled."""

from xlafront.transforms.stages import (
    ArgInfo as ArgInfo,
    Compiled as Compiled,
    Lowered as Lowered,
    Traced as Traced,
    Wrapped as Wrapped,
)
