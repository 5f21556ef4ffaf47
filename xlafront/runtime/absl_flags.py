"""The settings (`config`) as flags of absl, for programs whose command line absl reads: `program.py --jax_enable_x64`."""

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
    elif kind is int:
        flags.DEFINE_integer(name, value, setting.help, **common)
    elif kind is float:
        flags.DEFINE_float(name, value, setting.help, **common)
    elif isinstance(kind, tuple) and isinstance(kind[0], str):
        flags.DEFINE_enum(name, value, [k for k in kind if k is not None], setting.help, **common)
    elif kind is str:
        flags.DEFINE_string(name, value, setting.help, **common)
    else:
        return  # a value that no command line can say
    _defined.add(name)


def config_with_absl(config: Any) -> None:
    """Make a flag of each setting, named `jax_` and its name. What `absl.app.run` finds on the command line takes effect before
    the program begins."""
    from absl import app, flags

    if _defined:
        return
    for name in config.values:
        if name not in flags.FLAGS:
            _define(name, config._find(name))
    app.call_after_init(lambda: complete_absl_config(config))


def complete_absl_config(config: Any) -> None:
    """Let the flags that the command line had take effect."""
    from absl import flags

    for name in _defined:
        flag = flags.FLAGS[name]
        if flag.present:
            config.update(name, flag.value)


def parse_flags_with_absl(config: Any) -> None:
    """Read the settings from the command line now, leaving what else it has to others."""
    from absl import flags

    config_with_absl(config)
    flags.FLAGS(sys.argv, known_only=True)
    complete_absl_config(config)
