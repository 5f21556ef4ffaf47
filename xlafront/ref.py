"""Mutable array references: `new_ref`, `freeze`, and functions that read and write references."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.core.refs": "AbstractRef",
    "xlafront.lax.refs": "Ref addupdate empty_ref free_ref freeze get new_ref set swap",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
