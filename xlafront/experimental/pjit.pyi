# Written by `python -m tests.stubs`.
import builtins as _builtins
import typing as _typing

def pjit(fun: _typing.Callable, in_shardings: _typing.Any = ..., out_shardings: _typing.Any = ..., static_argnums: _builtins.int | _typing.Sequence[_builtins.int] | None = ..., static_argnames: _builtins.str | _typing.Sequence[_builtins.str] | None = ..., donate_argnums: _builtins.int | _typing.Sequence[_builtins.int] | None = ..., donate_argnames: _builtins.str | _typing.Sequence[_builtins.str] | None = ..., keep_unused: _builtins.bool = ..., device: _typing.Any = ..., backend: _builtins.str | None = ..., inline: _builtins.bool = ..., compiler_options: _builtins.dict[_builtins.str, _typing.Any] | None = ...) -> _typing.Any: ...
