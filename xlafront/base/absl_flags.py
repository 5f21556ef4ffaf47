"""absl flags for the settings in `config`, for programs whose command line absl parses: `program.py --jax_enable_x64`."""

from __future__ import annotations

import sys
from typing import Any

_defined: set[str] = set()


def _define(name: str, setting: Any) -> None:
    from absl import flags

    kind, value = setting.kind, setting.get_global()
    common = {"module_name": __name__, "allow_override": True}
    if kind is bool:
        flags.DEFINE_bool(name, value, setting.help, **common)
    elif isinstance(setting.default, int):
        flags.DEFINE_integer(name, value, setting.help, **common)
    elif kind is float:
        flags.DEFINE_float(name, value, setting.help, **common)
    elif isinstance(kind, tuple) and isinstance(kind[0], str):
        flags.DEFINE_enum(name, value, [k for k in kind if k is not None], setting.help, **common)
    elif kind is str:
        flags.DEFINE_string(name, value, setting.help, **common)
    else:
        return  # a type that the command line cannot express
    _defined.add(name)


def config_with_absl(config: Any) -> None:
    """Define a flag for each setting, named `jax_` and its name.

    Flags on the command line of `absl.app.run` take effect before the program starts.
    """
    from absl import app, flags

    if _defined:
        return
    for name in config.values:
        if name not in flags.FLAGS:
            _define(name, config._find(name))
    app.call_after_init(lambda: complete_absl_config(config))


def complete_absl_config(config: Any) -> None:
    """Apply the flags that were given on the command line."""
    from absl import flags

    for name in _defined:
        flag = flags.FLAGS[name]
        if flag.present:
            config.update(name, flag.value)


def parse_flags_with_absl(config: Any) -> None:
    """Parse the settings on the command line now; leave other arguments in place."""
    from absl import flags

    config_with_absl(config)
    flags.FLAGS(sys.argv, known_only=True)
    complete_absl_config(config)
