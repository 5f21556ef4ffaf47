"""Settings: one table, read through jaxlib's own configuration objects.

A setting has a process-wide value and a thread-local one on top. Those marked `key` are part of the key of
compiled functions, in C++, so that changing one never runs a program traced under another value. Each row
becomes an object of this module (`config.enable_x64`), which is read as `.value` and used as a context manager
by calling it: `with config.enable_x64(True): ...`.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from xlafront.runtime.jaxlib_compat import Config, Device, _jax, register_jit_states

_unset = _jax.config.unset

# Multiplication algorithms for backends that have them: types of operands and sums, and how many products.
DOT_ALGORITHMS = (
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16",
    "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9",
    "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64")
_PRECISIONS = ("default", "high", "highest", "bfloat16", "tensorfloat32", "float32", *DOT_ALGORITHMS)

# name, kind (a type, or the allowed strings), default, part of the compilation key ("calls": only of what C++ repeats, so that
# Python is asked again and need not trace again; "rare": together with the others of that kind, as one entry), meaning
_SETTINGS: tuple[tuple[str, Any, Any, bool | str, str], ...] = (
    ("enable_x64", bool, False, True, "keep 64-bit types instead of truncating them to 32 bits"),
    ("disable_jit", bool, False, True, "run the operations of jitted functions one by one"),
    ("debug_nans", bool, False, "calls", "raise FloatingPointError where a NaN first appears"),
    ("debug_infs", bool, False, "calls", "raise FloatingPointError where an infinity first appears"),
    ("numpy_dtype_promotion", ("standard", "strict"), "standard", True, "whether mixed dtypes promote or are refused"),
    ("numpy_rank_promotion", ("allow", "warn", "raise"), "allow", True, "whether arrays of lower rank broadcast"),
    ("default_matmul_precision", _PRECISIONS, None, True, "precision of products: default, high, highest, float32, ..."),
    ("default_device", (Device, str), None, True, "the device (or platform name) of new arrays"),
    ("default_prng_impl", ("threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32"), "threefry2x32",
     True, "the random number generator of new keys"),
    ("enable_custom_prng", bool, False, "calls", "whether PRNGKey returns typed keys"),
    ("threefry_partitionable", bool, True, True, "generate random bits so that they shard without communication"),
    ("threefry_gpu_kernel_lowering", bool, False, True, "random bits on CUDA by the plugin's kernel, not by fused operations"),
    ("legacy_prng_key", ("allow", "warn", "error"), "allow", True, "what using a raw uint32 key does"),
    ("debug_key_reuse", bool, False, True, "raise KeyReuseError when a random key is used twice"),
    ("softmax_custom_jvp", bool, False, True, "differentiate softmax by its closed form"),
    ("allow_f16_reductions", bool, True, True, "whether sums of 16-bit floats may be made in 16 bits"),
    ("auto_pcast", bool, True, True, "vary replicated operands over manual axes as needed"),
    ("remove_size_one_mesh_axis_from_type", bool, False, True, "leave mesh axes of size 1 out of types"),
    ("random_seed_offset", int, 0, "rare", "added to the seed of new keys"),
    ("high_dynamic_range_gumbel", bool, False, "rare", "whether Gumbel noise has the full tail when no mode is given"),
    ("check_static_indices", bool, False, "rare", "raise IndexError for Python integers out of bounds as indices"),
    ("optimization_level", ("UNKNOWN", "O0", "O1", "O2", "O3"), "UNKNOWN", "rare", "how much the compiler optimizes for speed"),
    ("memory_fitting_level", ("UNKNOWN", "O0", "O1", "O2", "O3"), "O2", "rare", "how much it does to make programs fit memory"),
    ("exec_time_optimization_effort", float, 0.0, "rare", "the same for speed, from -1 to 1"),
    ("memory_fitting_effort", float, 0.0, "rare", "the same for memory, from -1 to 1"),
    ("disable_most_optimizations", bool, False, "rare", "compile quickly: without most optimizations of XLA and LLVM"),
    ("pprint_use_color", bool, True, False, "whether programs are in color where a terminal shows them"),
    ("compiler_enable_remat_pass", bool, True, "rare", "whether the compiler may compute values again to fit memory"),
    ("dump_ir_to", str, "", False, "folder for the text of each program that is compiled"),
    ("dump_ir_modes", str, "stablehlo", False, "what is written there: 'stablehlo', 'jaxpr' or 'stablehlo,jaxpr'"),
    ("include_debug_info_in_dumps", bool, True, False, "whether operations in it have the places where they come from"),
    ("hlo_source_file_canonicalization_regex", str, None, "rare",
     "a regular expression: what it matches is left out of the names of files in programs"),
    ("explicit_x64_dtypes", ("warn", "error", "allow"), "warn", True,
     "what asking for a 64-bit dtype does while enable_x64 is off: 32 bits and a warning, an error, or what was asked for"),
    ("disallow_mesh_context_manager", bool, False, False, "refuse `with mesh:`"),
    ("captured_constants_warn_bytes", int, 2_000_000_000, False, "warn of programs with constants of so many bytes; -1: never"),
    ("captured_constants_report_frames", int, 0, False, "whether that warning says where the largest are read; 0: no"),
    ("disable_bwd_checks", bool, False, "rare", "whether cotangents from rules of custom_vjp may have any shape"),
    ("pallas_enable_debug_checks", bool, False, "rare", "whether pl.debug_check in kernels looks at its condition"),
    ("log_checkpoint_residuals", bool, False, False, "log what each differentiation of a checkpointed function keeps"),
    ("export_calling_convention_version", int, 10, False, "the calling convention of what is exported"),
    ("logging_level", ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", None), "NOTSET", False,
     "level of the library's logger, which then writes to stderr"),
    ("debug_log_modules", str, "", False, "'jax', or names of modules: all that the library logs is written to stderr"),
    ("check_tracer_leaks", bool, False, "calls", "look for tracers that outlive their function"),
    ("enable_checks", bool, False, "calls", "check every traced program"),
    ("log_compiles", bool, False, False, "log each tracing and compilation"),
    ("explain_cache_misses", bool, False, False, "log why a function is traced again"),
    ("no_tracing", bool, False, False, "refuse to trace"),
    ("no_execution", bool, False, "calls", "refuse to execute"),
    ("array_garbage_collection_guard", ("allow", "log", "fatal"), None, False, "arrays that only the cycle collector frees"),
    ("thread_guard", bool, False, False, "refuse programs over several processes from other threads than this one"),
    ("transfer_guard", ("allow", "log", "disallow", "log_explicit", "disallow_explicit"), None, False,
     "whether arrays may move between the host and devices, and among these"),
    ("transfer_guard_host_to_device", ("allow", "log", "disallow", "log_explicit", "disallow_explicit"), None, False,
     "whether devices may get arrays of the host"),
    ("transfer_guard_device_to_device", ("allow", "log", "disallow", "log_explicit", "disallow_explicit"), None, False,
     "whether arrays may move between devices"),
    ("transfer_guard_device_to_host", ("allow", "log", "disallow", "log_explicit", "disallow_explicit"), None, False,
     "whether the host may read values of devices"),
    ("platforms", str, "", False, "the platforms to start, first one the default: 'cuda,cpu'"),
    ("platform_name", str, "", False, "older name of the first of `platforms`"),
    ("num_cpu_devices", int, -1, False, "how many CPU devices to simulate"),
    ("cpu_enable_async_dispatch", bool, True, False, "return from CPU calls before they are done"),
    ("cpu_get_local_topology_timeout_minutes", int, 2, False, "how long processes wait for the devices of their host"),
    ("cpu_get_global_topology_timeout_minutes", int, 5, False, "how long they wait for those of all hosts"),
    ("enable_compilation_cache", bool, True, False, "keep compiled programs on disk"),
    ("cache_dir", str, None, False, "directory of the compile cache"),
    ("compilation_cache_max_size", int, 2 << 30, False,
     "bytes that the compile cache may take; -1: any number, 0: there is no cache"),
    ("compilation_cache_min_compile_time_secs", float, 0.008, False, "cheaper compilations are not kept on disk"),
    ("persistent_cache_min_entry_size_bytes", int, 0, False, "smaller programs are not kept on disk"),
    ("compilation_cache_include_metadata_in_key", bool, False, False, "whether a program from another line is another on disk"),
    ("raise_persistent_cache_errors", bool, False, False, "raise what is wrong with the compile cache instead of a warning"),
    ("traceback_filtering", ("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames"), "auto", False,
     "hide the library's own frames in tracebacks"),
    ("cuda_visible_devices", str, "all", False, "comma-separated indices of the GPUs to use"),
)
# Names of the reference for the same settings.
_ALIASES = {"compilation_cache_dir": "cache_dir", "persistent_cache_min_compile_time_secs":
            "compilation_cache_min_compile_time_secs", "check_leaks": "check_tracer_leaks"}


_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "y": True, "t": True,
          "0": False, "false": False, "no": False, "off": False, "n": False, "f": False, "": False}


def _is_platform(name: str) -> bool:
    from xlafront.runtime.clients import canonical_platform  # start-up: for a setting that few give

    try:
        return bool(canonical_platform(name))
    except RuntimeError:
        return False


class SettingError(ValueError):
    """A setting was given a value that it cannot have."""


class _Help:
    """What `help` shows: of the class of settings its text, of a setting what it does and the values that it can have."""

    def __init__(self, text: str | None):
        self.text = text

    def __get__(self, setting: Setting | None, owner: type) -> str | None:
        if setting is None:
            return self.text
        choices = [x for x in setting.kind if isinstance(x, str)] if isinstance(setting.kind, tuple) else []
        example = True if setting.kind is bool else choices[0] if choices else setting.default
        left_out = "; True when left out" if setting.kind is bool else ""
        return f"""A setting: {setting.help}.

Calling it gives a context manager that changes it in this thread, also a decorator. `config.update` changes it everywhere.

- `new_val`: the value that it has there{f", one of {', '.join(map(repr, choices))}" * bool(choices)}{left_out}.
- `disable`: another name for that, which `disable_jit` has.

It is {setting.default!r} unless it is set.

>>> with xf.{setting.name}({example!r}):
...     pass
"""


class Setting:
    """One setting; calling it gives a context manager that changes it in this thread, also a decorator.

    - `new_val`: the value that it has there; True when left out.
    - `disable`: another name for that, which `disable_jit` has.

    >>> with xf.enable_x64(True):
    ...     xnp.ones(3).dtype
    dtype('float64')
    """

    __doc__ = _Help(__doc__)  # type: ignore[assignment]
    __slots__ = ("name", "kind", "default", "help", "state", "is_set", "traced", "rare")

    def __init__(self, name, kind, default, in_key, help):
        self.name, self.kind, self.default, self.help = name, kind, default, help
        value, self.is_set = self._from_environment()
        self.traced = in_key is True  # whether programs are traced again when it changes
        self.rare = in_key == "rare"
        self.state = Config(name, value, include_in_jit_key=in_key in (True, "calls"), include_in_trace_context=self.traced)

    def _from_environment(self):
        names = [self.name, *[theirs for theirs, ours in _ALIASES.items() if ours == self.name]]
        for variable in [prefix + name.upper() for name in names for prefix in ("XLAFRONT_", "JAX_")]:
            text = os.environ.get(variable)
            if text is not None:
                return self.parse(text, f"the environment variable {variable}"), True
        return self.default, False

    def parse(self, value, where: str = ""):
        """The value as the setting keeps it; an error, which says `where`, for one that it cannot have."""
        kind = self.kind
        if kind is bool and type(value) is bool:
            return value
        from_environment = bool(where)
        where = where or f"the setting {self.name}"
        choices = isinstance(kind, tuple) and isinstance(kind[0], str)
        if kind is bool:
            if value is None:
                return False
            if isinstance(value, bool) or type(value).__name__ == "bool_":
                return bool(value)
            if isinstance(value, int) and value in (0, 1):
                return bool(value)
            if isinstance(value, str) and value.lower() in _TRUTH:
                return _TRUTH[value.lower()]
            raise SettingError(f"{where} is {value!r}; it must be true or false.")
        if kind is object or value is None and not (choices and self.default is not None):
            return value
        if isinstance(kind, tuple) and isinstance(kind[0], type):
            if isinstance(value, kind) and (not isinstance(value, str) or from_environment or _is_platform(value)):
                return value
            raise SettingError(f"{where} is {value!r}; it must be a Device, such as devices('cpu')[0], or the name of a "
                               "platform.")
        if isinstance(kind, tuple):
            if value in kind:
                return value
            raise SettingError(f"{where} is {value!r}; it can be one of {', '.join(filter(None, kind))}.")
        if isinstance(value, bool) or kind is str and not isinstance(value, str):
            raise SettingError(f"{where} is {value!r}; it must be of type {kind.__name__}.")
        try:
            found = kind(value)
            if kind is int and found != value and not isinstance(value, str):
                raise ValueError
            return found
        except (TypeError, ValueError):
            raise SettingError(f"{where} is {value!r}; it must be of type {kind.__name__}.") from None

    @property
    def value(self):
        return self.state.value

    def set(self, value) -> None:
        value = self.parse(value)
        for hook in _hooks.get(self.name, ()):
            hook(value)
        self.is_set = True
        self.state.set_global(value)
        if self.rare:
            _rarely_set.set_global(_rare_key(tuple([setting.get_global() for setting in settings.values() if setting.rare])))

    set_global = set

    def get_global(self):
        """The value of the process."""
        return self.state.get_global()

    def get_local(self):
        """The value of this thread; an object without meaning where it has none of its own."""
        return self.state.get_local()

    def set_local(self, value) -> None:
        """Give it a value in this thread; what `get_local` returned puts that back.

        >>> enable_x64.set_local(True)
        >>> enable_x64.value, enable_x64.get_global()
        (True, False)
        >>> enable_x64.set_local(False)
        """
        if value is not _unset:
            value = self.parse(value)
        self.state.set_local(value)
        self.tell_thread(None if value is _unset else value)

    def __call__(self, new_val: Any = True, *, disable: bool | None = None) -> _Scope:
        value = new_val if disable is None else disable
        return _Scope(self, self.parse(value))

    def tell_thread(self, value) -> None:
        """Tell those who asked (`on_scope`) that it has another value in this thread, None for that of the process."""
        for hook in _scope_hooks.get(self.name, ()):
            hook(value)
        if self.rare:
            rare = [setting for setting in settings.values() if setting.rare]
            own = any([setting.get_local() is not _unset for setting in rare])
            _rarely_set.set_local(_rare_key(tuple([setting.value for setting in rare])) if own else _unset)

    def __bool__(self):
        raise TypeError(f"bool() of a setting: read it as {self.name}.value")

    def __repr__(self):
        return f"<setting {self.name} = {self.value!r}>"


class KeptSetting(Setting):
    """A setting of JAX that changes nothing here.

    - `new_val`: the value that it has in this thread; True when left out.
    - `disable`: another name for that.

    >>> xf.config.read("jax_thread_guard")
    False
    """

    __slots__ = ("told",)

    def __init__(self, name, kind, default):
        self.told = False
        super().__init__(name, kind, default, False, "accepted for compatibility; changes nothing here")
        self.tell(self.value, 2)

    def set(self, value) -> None:
        super().set(value)
        self.tell(self.value, 4)

    def set_global(self, value) -> None:
        super().set(value)
        self.tell(self.value, 3)

    def set_local(self, value) -> None:
        super().set_local(value)
        self.tell(self.value, 3)

    def __call__(self, new_val: Any = True, *, disable: bool | None = None) -> _Scope:
        scope = super().__call__(new_val, disable=disable)
        self.tell(scope.new, 3)
        return scope

    def tell(self, value: Any, stacklevel: int) -> None:
        """Say once that it has no effect, where it is given a value that it does not have anyway."""
        if value != self.default and not self.told:
            import warnings  # start-up: for a message

            self.told = True
            warnings.warn(f"the setting {self.name} is known, so that programs for JAX run, but has no effect in xlafront.",
                          stacklevel=stacklevel)


class UserContext:
    """A value of the user's own that compiled functions depend on: each value has programs of its own.

    `with context(value):` sets it in this thread, and `context.value` reads it, also while a function is traced.

    - `default_value`: what it is where nobody set it. Values must be hashable: others raise TypeError.

    >>> scale = make_user_context(1)
    >>> f = xf.jit(lambda x: x * scale.value)
    >>> with scale(3):
    ...     print(f(2))
    6
    """

    __slots__ = ("state",)
    name = "user context"  # hooks and parts, which go by names, it has none
    tell_thread = staticmethod(lambda value: None)

    def __init__(self, default_value: Any = None):
        hash(default_value)
        self.state = Config(self.name, default_value, include_in_jit_key=True, include_in_trace_context=True)

    @property
    def value(self) -> Any:
        return self.state.value

    def get_global(self) -> Any:
        """The value in threads that have none of their own."""
        return self.state.get_global()

    def set_global(self, value: Any) -> None:
        """Set the value of the process."""
        hash(value)
        self.state.set_global(value)

    def __call__(self, value: Any) -> _Scope:
        hash(value)
        return _Scope(self, value)


make_user_context = UserContext


class _Scope:
    """`with setting(value):`; also a decorator."""

    __slots__ = ("setting", "new", "saved")

    def __init__(self, setting, new):
        self.setting, self.new, self.saved = setting, new, []

    def __enter__(self):
        saved = []
        for setting in (self.setting, *_parts.get(self.setting.name, ())):
            saved.append((setting, setting.state.swap_local(self.new)))
            setting.tell_thread(self.new)
        self.saved.append(saved)

    def __exit__(self, *exception):
        for setting, value in self.saved.pop():
            setting.state.set_local(value)
            setting.tell_thread(None if value is _unset else value)

    def __call__(self, function):
        @functools.wraps(function)
        def scoped(*args, **kwargs):
            with _Scope(self.setting, self.new):
                return function(*args, **kwargs)

        return scoped


_hooks: dict[str, list] = {}
_scope_hooks: dict[str, list] = {}


def on_update(name: str, hook) -> None:
    """Have `hook(value)` called before a setting changes; it may refuse by raising."""
    _hooks.setdefault(name, []).append(hook)


def on_scope(name: str, hook) -> None:
    """Have `hook(value)` called when a setting has changed in one thread, in that thread."""
    _scope_hooks.setdefault(name, []).append(hook)


settings: dict[str, Setting] = {row[0]: Setting(*row) for row in _SETTINGS}
globals().update(settings)


_rare_at_start = tuple([setting.value for setting in settings.values() if setting.rare])


def _rare_key(values: tuple) -> tuple | None:
    """What programs are known by, of the settings of that kind."""
    return None if values == _rare_at_start else values


_rarely_set = Config("rarely set", None, include_in_jit_key=True, include_in_trace_context=True)


def checking_leaks(*, disable: bool | None = None) -> _Scope:
    """The setting `check_tracer_leaks` switched on in this thread, with `with`.

    - `disable`: another value for it.

    >>> with xf.checking_leaks():
    ...     y = xf.jit(lambda x: x + 1)(1)
    """
    return settings["check_tracer_leaks"](True, disable=disable)


# What compilers are told of the operations that are traced (`core.source.annotated`).
annotations = Config("annotations", None, include_in_jit_key=True, include_in_trace_context=True)
# Whether anything but plain evaluation is going on in this thread: keeps C++ dispatch out of traced functions.
trace_state = Config("trace_state", None, include_in_jit_key=True)
post_hook = Config("post_hook", None)  # called by C++ after each call of a compiled function
# C++ would run any function uncompiled under `disable_jit`, our own kernels too: it is not told of the setting.
_compiled = Config("compiled", False)
register_jit_states(_compiled, settings["enable_x64"].state, post_hook)

trace_context_key = _jax.config.trace_context


class Settings:
    """The settings as users see them: `config.update("enable_x64", True)`, `config.enable_x64`.

    Names are accepted as they are, and with the prefixes `xlafront_` and `jax_`.
    """

    def _find(self, name: str) -> Setting:
        for prefix in ("xlafront_", "jax_"):
            name = name.removeprefix(prefix)
        name = _ALIASES.get(name, name)
        found = settings[name] if name in settings else _kept_settings().get(name)
        if found is not None:
            return found
        import difflib  # start-up: 1.4 ms, for a message

        near = difflib.get_close_matches(name, settings, 3)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise AttributeError(f"unrecognized config option: there is no setting {name!r}.{hint}")

    def update(self, name: str, val) -> None:
        self._find(name).set(val)

    def read(self, name: str):
        return self._find(name).value

    def __getattr__(self, name: str):
        known = settings.get(name[4:] if name.startswith("jax_") else name)
        if known is not None:
            state = known.state
            setattr(Settings, name, property(lambda self: state.value))  # programs that ask once ask often
            return state.value
        if name.startswith("__"):
            raise AttributeError(name)
        return self.read(name)

    def __setattr__(self, name: str, value) -> None:
        if name.startswith("jax_"):
            raise AttributeError(f"the attribute {name} of config can only be read: it has no setter. Call "
                                 f"config.update({name!r}, {value!r}).")
        self.update(name, value)

    @property
    def x64_enabled(self) -> bool:
        """Whether arrays may have 64-bit types."""
        return settings["enable_x64"].value

    @property
    def values(self) -> dict[str, Any]:
        """All settings, by the names that they have in JAX."""
        from xlafront.runtime.kept_settings import WITHOUT_PREFIX  # start-up: 0.3 ms, for settings that change nothing

        names = {ours: theirs for theirs, ours in _ALIASES.items() if theirs != "check_leaks"}
        known = {names.get(name, name): setting for name, setting in {**settings, **_kept_settings()}.items()}
        return {name if name in WITHOUT_PREFIX else f"jax_{name}": setting.value for name, setting in sorted(known.items())}

    def config_with_absl(self) -> None:
        """Make a flag of absl of each setting, for programs that `absl.app.run` runs: `--jax_enable_x64`."""
        from xlafront.runtime import absl_flags  # start-up: few programs have such flags

        absl_flags.config_with_absl(self)

    def complete_absl_config(self) -> None:
        """Let the flags that absl found on the command line take effect."""
        from xlafront.runtime import absl_flags  # start-up: few programs have such flags

        absl_flags.complete_absl_config(self)

    def parse_flags_with_absl(self) -> None:
        """Read settings from the command line by absl now, leaving what else it has to others: `--jax_enable_x64`."""
        from xlafront.runtime import absl_flags  # start-up: few programs have such flags

        absl_flags.parse_flags_with_absl(self)

    def __dir__(self):
        return sorted([*settings, *_kept_settings(), "update", "read", "values", "config_with_absl", "complete_absl_config",
                       "parse_flags_with_absl"])


@functools.cache
def _kept_settings() -> dict[str, Setting]:
    from xlafront.runtime.kept_settings import KEPT  # start-up: 0.3 ms, for settings that change nothing

    return {name: KeptSetting(name, kind, default) for name, kind, default in KEPT}


config = Settings()


# Settings that are several at once.
_parts = {"transfer_guard": tuple([setting for name, setting in settings.items() if name.startswith("transfer_guard_")])}


def _spread_transfer_guard(value) -> None:
    for setting in _parts["transfer_guard"]:
        setting.set(value)


def _show_logs(level: str | None, modules: str) -> None:
    from xlafront.runtime.logs import show  # start-up: for programs that log

    show("DEBUG" if modules else level or "NOTSET")


on_update("transfer_guard", _spread_transfer_guard)
on_update("logging_level", lambda value: _show_logs(value, settings["debug_log_modules"].value))
on_update("debug_log_modules", lambda value: _show_logs(settings["logging_level"].value, value))
if settings["logging_level"].is_set or settings["debug_log_modules"].is_set:
    _show_logs(settings["logging_level"].value, settings["debug_log_modules"].value)


def _tell_of_environment() -> None:
    """Who sets a setting without effect by an environment variable is told so, too."""
    known = (*settings, *_ALIASES)
    if any([name.startswith(("JAX_", "XLAFRONT_")) and name.partition("_")[2].lower() not in known for name in os.environ]):
        _kept_settings()


_tell_of_environment()


def __getattr__(name: str):  # the other settings are in this module's namespace
    if name.startswith("_") or name not in _kept_settings():
        raise AttributeError(f"there is no setting {name!r}")
    return _kept_settings()[name]
