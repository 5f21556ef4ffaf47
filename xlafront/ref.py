"""Mutable references to arrays: `new_ref`, `freeze`, and reading and writing by functions in place of brackets."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.core.refs": "AbstractRef",
    "xlafront.lax.refs": "Ref addupdate empty_ref free_ref freeze get new_ref set swap",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
