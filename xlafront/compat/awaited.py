"""Names that libraries import and that xlafront does not have yet: they can be named, in annotations and `isinstance`, and say
so when they are used. Each goes when what it stands for comes."""

from __future__ import annotations

_NAMES = {
    "jax.experimental.sparse": "BCOO",
}


class _Awaited(type):
    """The class of classes of which there are no instances."""

    def __call__(cls, *args, **kwargs):
        raise NotImplementedError(f"{cls.__module__}.{cls.__name__} is not part of xlafront, which answers for jax here, yet. "
                                  f"Run what needs it with jax, in a process of its own.")


PUBLIC = {name: _Awaited(name, (), {"__module__": module}) for module, names in _NAMES.items() for name in names.split()}
