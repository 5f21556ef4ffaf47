"""Settings: one table, stored in jaxlib's configuration objects.

A setting has a value for the process, which a thread can override. The values of settings marked `key` are part of the cache
key of compiled functions, in C++, so that a changed setting never runs an executable that was traced with another value. Each
row becomes an object of this module (`config.enable_x64`). Read it as `.value`; call it for a context manager
(`with config.enable_x64(True): ...`).
"""

from __future__ import annotations

import functools
import os
from typing import Any

from xlafront.base import start
from xlafront.base.jaxlib_compat import Config, Device, _jax, register_jit_states
from xlafront.base.platforms import PlatformError, canonical_platform

_unset = _jax.config.unset

# Algorithms for matrix products: types of operands and accumulation, and the number of products.
DOT_ALGORITHMS = (
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16",
    "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9",
    "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64")
_PRECISIONS = ("default", "high", "highest", "bfloat16", "tensorfloat32", "float32", *DOT_ALGORITHMS)


def directory(path: str) -> str:
    """Return the absolute path of a directory, which stays the same after a `chdir`."""
    return os.path.abspath(os.path.expanduser(path)) if path else path


def c_int(value: Any) -> int:
    """Return a number that fits into the 32 bits that the runtime has for it."""
    number = int(value)
    if not -2**31 <= number < 2**31:
        raise ValueError
    return number


def uint64_difference(value: Any) -> int:
    """Return a number that can be added to a seed of 64 bits."""
    number = int(value)
    if not -2**64 < number < 2**64:
        raise ValueError
    return number


# The kinds of settings that are numbers: conversions, and the words for them.
NUMBERS = {int: "of type int", c_int: "an int of at most 32 bits",
           uint64_difference: "an int of at most 64 bits"}

# Name, kind (a type, a conversion, or the allowed strings), default, role in the cache key of compiled functions, help text.
# The role is True; False; "calls", if a change only makes C++ look the function up in Python, without retracing; or "rare": all
# settings with this role are one entry of the key.
_SETTINGS: tuple[tuple[str, Any, Any, bool | str, str], ...] = (
    ("enable_x64", bool, False, True, "keep 64-bit types instead of truncating them to 32 bits"),
    ("disable_jit", bool, False, True, "run the operations of jitted functions one by one, without compiling the functions"),
    ("debug_nans", bool, False, "calls", "raise FloatingPointError for the first operation that returns a NaN"),
    ("debug_infs", bool, False, "calls", "raise FloatingPointError for the first operation that returns an infinity"),
    ("numpy_dtype_promotion", ("standard", "strict"), "standard", True, "promote mixed dtypes, or raise an error (strict)"),
    ("numpy_rank_promotion", ("allow", "warn", "raise"), "allow", True, "allow, warn of or refuse broadcasting of ranks"),
    ("default_matmul_precision", _PRECISIONS, None, True, "precision of matrix products, such as high, highest or float32"),
    ("default_device", (Device, str), None, True, "device (or platform name) for new arrays"),
    ("default_prng_impl", ("threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32"), "threefry2x32",
     True, "random number generator of new keys"),
    ("enable_custom_prng", bool, False, "calls", "return typed keys from PRNGKey"),
    ("threefry_partitionable", bool, True, True, "generate random bits in a form that shards without communication"),
    ("threefry_gpu_kernel_lowering", bool, False, True, "generate random bits on CUDA with the plugin's kernel"),
    ("legacy_prng_key", ("allow", "warn", "error"), "allow", True, "allow, warn of or refuse raw uint32 keys"),
    ("debug_key_reuse", bool, False, True, "raise KeyReuseError if a random key is used twice"),
    ("softmax_custom_jvp", bool, False, True, "differentiate softmax by its closed form"),
    ("allow_f16_reductions", bool, True, True, "allow 16-bit accumulation in sums of 16-bit floats"),
    ("auto_pcast", bool, True, True, "cast replicated operands to varying over manual axes as needed"),
    ("remove_size_one_mesh_axis_from_type", bool, False, True, "omit mesh axes of size 1 from types"),
    ("raise_on_ppermute_sort_diff", bool, True, "rare", "refuse ppermute over axes in another order than the mesh's"),
    ("random_seed_offset", uint64_difference, 0, "rare", "offset that is added to the seed of new keys"),
    ("high_dynamic_range_gumbel", bool, False, "rare", "sample Gumbel noise with the full tail if no mode is given"),
    ("check_static_indices", bool, False, "rare", "raise IndexError for static indices that are out of bounds"),
    ("optimization_level", ("UNKNOWN", "O0", "O1", "O2", "O3"), "UNKNOWN", "rare", "how much the compiler optimizes for speed"),
    ("memory_fitting_level", ("UNKNOWN", "O0", "O1", "O2", "O3"), "O2", "rare", "how much the compiler reduces memory use"),
    ("exec_time_optimization_effort", float, 0.0, "rare", "effort to optimize for speed, from -1 to 1"),
    ("memory_fitting_effort", float, 0.0, "rare", "effort to reduce memory use, from -1 to 1"),
    ("disable_most_optimizations", bool, False, "rare", "compile quickly, without most optimizations of XLA and LLVM"),
    ("pprint_use_color", bool, True, False, "print jaxprs in color in terminals"),
    ("compiler_enable_remat_pass", bool, True, "rare", "allow the compiler to recompute values to save memory"),
    ("dump_ir_to", str, "", False, "folder in which to write the text of each compiled program"),
    ("dump_ir_modes", str, "stablehlo", False, "forms to write there: 'stablehlo', 'jaxpr' or 'stablehlo,jaxpr'"),
    ("include_debug_info_in_dumps", bool, True, False, "include source locations of operations in these files"),
    ("hlo_source_file_canonicalization_regex", str, None, "rare",
     "regular expression for the parts of file names to remove in locations"),
    ("explicit_x64_dtypes", ("warn", "error", "allow"), "warn", True,
     "effect of explicit 64-bit dtypes while enable_x64 is off: truncate to 32 bits and warn, raise an error, or keep 64 bits"),
    ("disallow_mesh_context_manager", bool, False, False, "refuse `with mesh:`"),
    ("captured_constants_warn_bytes", int, 2_000_000_000, False, "bytes of captured constants from which to warn; -1: never"),
    ("captured_constants_report_frames", int, 0, False, "number of stack frames to show for the largest constants; 0: none"),
    ("disable_bwd_checks", bool, False, "rare", "skip checks of the cotangents returned by rules of custom_vjp"),
    ("pallas_enable_debug_checks", bool, False, "rare", "check the conditions of pl.debug_check in kernels"),
    ("log_checkpoint_residuals", bool, False, False, "log the residuals when a checkpointed function is differentiated"),
    ("export_calling_convention_version", int, 10, False, "calling convention of exported functions"),
    ("logging_level", ("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", None), "NOTSET", False,
     "level of xlafront's logger, which then writes to stderr"),
    ("debug_log_modules", str, "", False, "'jax', or names of modules: write all log records of xlafront to stderr"),
    ("check_tracer_leaks", bool, False, "calls", "raise an error for tracers that outlive their function"),
    ("enable_checks", bool, False, "calls", "check the types of every traced jaxpr"),
    ("log_compiles", bool, False, False, "log each tracing and compilation, and a table of them when the process ends"),
    ("tiered_compilation", bool, False, False,
     "compile programs quickly for their first calls, while a thread compiles them with all optimizations"),
    ("compile_progress", bool, True, False, "show a line in terminals and notebooks while a program takes long to compile"),
    ("explain_cache_misses", bool, False, False, "log why a function is retraced"),
    ("no_tracing", bool, False, False, "refuse to trace"),
    ("no_execution", bool, False, "calls", "refuse to execute"),
    ("array_garbage_collection_guard", ("allow", "log", "fatal"), None, False,
     "allow, log or refuse arrays in reference cycles, which only the garbage collector frees"),
    ("thread_guard", bool, False, False, "refuse multi-process computations from threads other than the current one"),
    ("transfer_guard", ("allow", "log", "disallow", "log_explicit", "disallow_explicit"), None, False,
     "allow, log or refuse all transfers between the host and devices, and between devices"),
    ("transfer_guard_host_to_device", ("allow", "log", "disallow", "log_explicit", "disallow_explicit"), None, False,
     "allow, log or refuse transfers from the host to devices"),
    ("transfer_guard_device_to_device", ("allow", "log", "disallow", "log_explicit", "disallow_explicit"), None, False,
     "allow, log or refuse transfers between devices"),
    ("transfer_guard_device_to_host", ("allow", "log", "disallow", "log_explicit", "disallow_explicit"), None, False,
     "allow, log or refuse transfers from devices to the host"),
    ("platforms", str, None, False, "comma-separated platforms to initialize, the default first: 'cuda,cpu'"),
    ("platform_name", str, "", False, "older name for the first of `platforms`"),
    ("num_cpu_devices", c_int, -1, False, "number of CPU devices to simulate"),
    ("cpu_enable_async_dispatch", bool, True, False, "return from calls on CPU before they complete"),
    ("cpu_get_local_topology_timeout_minutes", c_int, 2, False, "timeout for the devices of processes on the same host"),
    ("cpu_get_global_topology_timeout_minutes", c_int, 5, False, "timeout for the devices of all hosts"),
    ("enable_compilation_cache", bool, True, False, "store executables on disk"),
    ("cache_dir", directory, None, False, "directory of the compilation cache"),
    ("compilation_cache_max_size", int, 2 << 30, False,
     "maximum size of the compilation cache in bytes; -1: unlimited, 0: no cache"),
    ("compilation_cache_min_compile_time_secs", float, 0.008, False, "minimum compile time of executables to store"),
    ("persistent_cache_min_entry_size_bytes", int, 0, False, "minimum size of executables to store"),
    ("compilation_cache_include_metadata_in_key", bool, False, False, "include source locations in keys of the cache"),
    ("raise_persistent_cache_errors", bool, False, False, "raise errors of the compilation cache instead of warning"),
    ("traceback_filtering", ("auto", "off", "tracebackhide", "remove_frames", "quiet_remove_frames"), "auto", False,
     "hide xlafront's own frames in tracebacks"),
    ("cuda_visible_devices", str, "all", False, "comma-separated indices of the GPUs to use"),
)
# JAX's names of the same settings.
_ALIASES = {"compilation_cache_dir": "cache_dir", "persistent_cache_min_compile_time_secs":
            "compilation_cache_min_compile_time_secs", "check_leaks": "check_tracer_leaks"}


_BOOLEAN_TEXTS = {"1": True, "true": True, "yes": True, "on": True, "y": True, "t": True,
          "0": False, "false": False, "no": False, "off": False, "n": False, "f": False, "": False}


def _is_platform(name: str) -> bool:
    try:
        return bool(canonical_platform(name))
    except PlatformError:
        return False


class SettingError(ValueError):
    """An invalid value for a setting."""


class _Help:
    """The docstrings that `help` shows: that of the class, and one for each setting."""

    def __init__(self, text: str | None):
        self.text = text

    def __get__(self, setting: Setting | None, owner: type) -> str | None:
        if setting is None:
            return self.text
        choices = [x for x in setting.kind if isinstance(x, str)] if isinstance(setting.kind, tuple) else []
        example = True if setting.kind is bool else choices[0] if choices else setting.default
        left_out = " Default: True." if setting.kind is bool else ""
        return f"""Setting: {setting.help}.

Call it for a context manager, also a decorator, that sets the value in the current thread. `config.update` sets the value of
the process. The initial value is {setting.default!r}.

Args:
    new_val: The value to set{f", one of {', '.join(map(repr, choices))}" * bool(choices)}.{left_out}
    disable: Alternative name of `new_val`, for `disable_jit`.

Returns:
    The context manager.

Example:
    >>> with xf.{setting.name}({example!r}):
    ...     pass
"""


class Setting:
    """A setting. Call it for a context manager, also a decorator, that sets the value in the current thread.

    Args:
        new_val: The value to set. Default: True.
        disable: Alternative name of `new_val`, for `disable_jit`.

    Example:
        >>> with xf.enable_x64(True):
        ...     xnp.ones(3).dtype
        dtype('float64')
    """

    __doc__ = _Help(__doc__)  # type: ignore[assignment]
    __slots__ = ("name", "kind", "default", "help", "state", "is_set", "traced", "rare")

    def __init__(self, name, kind, default, in_key, help):
        self.name, self.kind, self.default, self.help = name, kind, default, help
        value, self.is_set = self._from_environment()
        self.traced = in_key is True  # if True, functions are retraced when it changes
        self.rare = in_key == "rare"
        self.state = Config(name, value, include_in_jit_key=in_key in (True, "calls"), include_in_trace_context=self.traced)

    def _from_environment(self):
        names = [self.name, *[alias for alias, name_here in _ALIASES.items() if name_here == self.name]]
        for variable in [prefix + name.upper() for name in names for prefix in ("XLAFRONT_", "JAX_")]:
            text = os.environ.get(variable)
            if text is not None:
                if self.kind is directory and text:
                    text = os.path.join(start.working_directory, os.path.expanduser(text))
                return self.parse(text, f"the environment variable {variable}"), True
        return self.default, False

    def parse(self, value, where: str = ""):
        """Return the value in the setting's type. Raise an error, with `where` as its subject, if it is invalid."""
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
            if isinstance(value, str) and value.lower() in _BOOLEAN_TEXTS:
                return _BOOLEAN_TEXTS[value.lower()]
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
        wrong = SettingError(f"{where} is {value!r}; it must be {NUMBERS.get(kind, f'of type {kind.__name__}')}.")
        if isinstance(value, bool) or kind is str and not isinstance(value, str):
            raise wrong
        try:
            converted = kind(value)
            if kind in NUMBERS and converted != value and not isinstance(value, str):
                raise ValueError
            return converted
        except (TypeError, ValueError, OverflowError):
            raise wrong from None

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
        """Return the value of the process."""
        return self.state.get_global()

    @property
    def has_local_value(self) -> bool:
        """True if this thread has a value of its own, as within the setting's context manager."""
        return self.state.get_local() is not _unset

    def get_local(self):
        """Return the value of this thread, or a marker object if the thread has none."""
        return self.state.get_local()

    def set_local(self, value) -> None:
        """Set the value of this thread. To restore it, pass the result of `get_local`.

        Example:
            >>> enable_x64.set_local(True)
            >>> enable_x64.value, enable_x64.get_global()
            (True, False)
            >>> enable_x64.set_local(False)
        """
        if value is not _unset:
            value = self.parse(value)
        self.state.set_local(value)
        self.set_in_thread(None if value is _unset else value)

    def __call__(self, new_val: Any = True, *, disable: bool | None = None) -> _Scope:
        value = new_val if disable is None else disable
        return _Scope(self, self.parse(value))

    def set_in_thread(self, value) -> None:
        """Call the hooks (`on_scope`) after a change in this thread; `value` is None if the thread's value was removed."""
        for hook in _scope_hooks.get(self.name, ()):
            hook(value)
        if self.rare:
            rare = [setting for setting in settings.values() if setting.rare]
            has_local_values = any([setting.has_local_value for setting in rare])
            _rarely_set.set_local(_rare_key(tuple([setting.value for setting in rare])) if has_local_values else _unset)

    def __bool__(self):
        raise TypeError(f"bool() of a setting: read it as {self.name}.value")

    def __repr__(self):
        return f"<setting {self.name} = {self.value!r}>"


class IgnoredFlag(Setting):
    """A setting of JAX that has no effect here.

    Args:
        new_val: The value to set in the current thread. Default: True.
        disable: Alternative name of `new_val`.

    Returns:
        A context manager.

    Example:
        >>> xf.config.read("jax_thread_guard")
        False
    """

    __slots__ = ("warned",)

    def __init__(self, name, kind, default):
        self.warned = False
        super().__init__(name, kind, default, False, "accepted for compatibility; changes nothing here")
        self.warn_once(self.value, 2)

    def set(self, value) -> None:
        super().set(value)
        self.warn_once(self.value, 4)

    def set_global(self, value) -> None:
        super().set(value)
        self.warn_once(self.value, 3)

    def set_local(self, value) -> None:
        super().set_local(value)
        self.warn_once(self.value, 3)

    def __call__(self, new_val: Any = True, *, disable: bool | None = None) -> _Scope:
        scope = super().__call__(new_val, disable=disable)
        self.warn_once(scope.new_value, 3)
        return scope

    def warn_once(self, value: Any, stacklevel: int) -> None:
        """Warn, on the first change from the default, that the setting has no effect."""
        if value != self.default and not self.warned:
            import warnings  # start-up: for a message

            self.warned = True
            warnings.warn(f"the setting {self.name} is accepted, so that programs for JAX run, but has no effect in xlafront.",
                          stacklevel=stacklevel)


class UserContext:
    """A user-defined value that compiled functions depend on: functions are retraced for each value.

    `with context(value):` sets the value in this thread. `context.value` reads it, also while a function is traced.

    Args:
        default_value: The value where none is set. Values must be hashable; others raise TypeError.

    Example:
        >>> scale = make_user_context(1)
        >>> f = xf.jit(lambda x: x * scale.value)
        >>> with scale(3):
        ...     print(f(2))
        6
    """

    __slots__ = ("state",)
    name = "user context"  # hooks and component settings are looked up by name; it has none
    set_in_thread = staticmethod(lambda value: None)

    def __init__(self, default_value: Any = None):
        hash(default_value)
        self.state = Config(self.name, default_value, include_in_jit_key=True, include_in_trace_context=True)

    @property
    def value(self) -> Any:
        return self.state.value

    def get_global(self) -> Any:
        """Return the value of threads that have not set their own."""
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
    """The context manager of `with setting(value):`, also a decorator."""

    __slots__ = ("setting", "new_value", "saved")

    def __init__(self, setting, new_value):
        self.setting, self.new_value, self.saved = setting, new_value, []

    def __enter__(self):
        saved = []
        for setting in (self.setting, *_component_settings.get(self.setting.name, ())):
            saved.append((setting, setting.state.swap_local(self.new_value)))
            setting.set_in_thread(self.new_value)
        self.saved.append(saved)

    def __exit__(self, *exception):
        for setting, value in self.saved.pop():
            setting.state.set_local(value)
            setting.set_in_thread(None if value is _unset else value)

    def __call__(self, function):
        @functools.wraps(function)
        def scoped(*args, **kwargs):
            with _Scope(self.setting, self.new_value):
                return function(*args, **kwargs)

        return scoped


_hooks: dict[str, list] = {}
_scope_hooks: dict[str, list] = {}


def on_update(name: str, hook) -> None:
    """Register `hook(value)` to be called before a setting changes. It can raise an error to refuse the change."""
    _hooks.setdefault(name, []).append(hook)


def on_scope(name: str, hook) -> None:
    """Register `hook(value)` to be called in a thread after the setting has changed in that thread."""
    _scope_hooks.setdefault(name, []).append(hook)


settings: dict[str, Setting] = {row[0]: Setting(*row) for row in _SETTINGS}
globals().update(settings)


_initial_rare_values = tuple([setting.value for setting in settings.values() if setting.rare])


def _rare_key(values: tuple) -> tuple | None:
    """Return the values of rare settings as a cache key, None if they are the initial ones."""
    return None if values == _initial_rare_values else values


_rarely_set = Config("rarely set", None, include_in_jit_key=True, include_in_trace_context=True)


def checking_leaks(*, disable: bool | None = None) -> _Scope:
    """Enable the setting `check_tracer_leaks` in this thread.

    Args:
        disable: A value to set instead of True.

    Returns:
        A context manager.

    Example:
        >>> with xf.checking_leaks():
        ...     y = xf.jit(lambda x: x + 1)(1)
    """
    return settings["check_tracer_leaks"](True, disable=disable)


# Frontend attributes of traced operations (`core.source.annotated`).
annotations = Config("annotations", None, include_in_jit_key=True, include_in_trace_context=True)
# Set while this thread traces or transforms: keeps C++ dispatch out of traced functions.
trace_state = Config("trace_state", None, include_in_jit_key=True)
post_hook = Config("post_hook", None)  # called by C++ after each call of a compiled function
# With JAX's own state for `disable_jit`, C++ would run every function uncompiled, also internal kernels.
_compiled = Config("compiled", False)
register_jit_states(_compiled, settings["enable_x64"].state, post_hook)

trace_context_key = _jax.config.trace_context


class Settings:
    """The public settings: `config.update("enable_x64", True)`, `config.enable_x64`.

    Names can have the prefix `xlafront_` or `jax_`.
    """

    def _find(self, name: str) -> Setting:
        for prefix in ("xlafront_", "jax_"):
            name = name.removeprefix(prefix)
        name = _ALIASES.get(name, name)
        setting = settings[name] if name in settings else _ignored_flags().get(name)
        if setting is not None:
            return setting
        import difflib  # start-up: 1.4 ms, for a message

        close_matches = difflib.get_close_matches(name, settings, 3)
        hint = f" Did you mean {' or '.join(close_matches)}?" if close_matches else ""
        raise AttributeError(f"unrecognized config option: there is no setting {name!r}.{hint}")

    def update(self, name: str, val) -> None:
        self._find(name).set(val)

    def read(self, name: str):
        return self._find(name).value

    def __getattr__(self, name: str):
        setting = settings.get(name[4:] if name.startswith("jax_") else name)
        if setting is not None:
            state = setting.state
            setattr(Settings, name, property(lambda self: state.value))  # makes repeated reads fast
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
        """True if 64-bit types are enabled."""
        return settings["enable_x64"].value

    @property
    def values(self) -> dict[str, Any]:
        """All settings, by their names in JAX."""
        from xlafront.base.ignored_flags import WITHOUT_PREFIX  # start-up: 0.3 ms, for settings that change nothing

        names = {name_here: alias for alias, name_here in _ALIASES.items() if alias != "check_leaks"}
        by_jax_name = {names.get(name, name): setting for name, setting in {**settings, **_ignored_flags()}.items()}
        return {name if name in WITHOUT_PREFIX else f"jax_{name}": setting.value
                for name, setting in sorted(by_jax_name.items())}

    def config_with_absl(self) -> None:
        """Define an absl flag for each setting (`--jax_enable_x64`), for programs started by `absl.app.run`."""
        from xlafront.base import absl_flags  # start-up: few programs have such flags

        absl_flags.config_with_absl(self)

    def complete_absl_config(self) -> None:
        """Apply the flags that absl found on the command line."""
        from xlafront.base import absl_flags  # start-up: few programs have such flags

        absl_flags.complete_absl_config(self)

    def parse_flags_with_absl(self) -> None:
        """Parse the settings on the command line with absl now (`--jax_enable_x64`); leave other arguments in place."""
        from xlafront.base import absl_flags  # start-up: few programs have such flags

        absl_flags.parse_flags_with_absl(self)

    def __dir__(self):
        return sorted([*settings, *_ignored_flags(), "update", "read", "values", "config_with_absl", "complete_absl_config",
                       "parse_flags_with_absl"])


@functools.cache
def _ignored_flags() -> dict[str, Setting]:
    from xlafront.base.ignored_flags import IGNORED  # start-up: 0.3 ms, for settings that change nothing

    return {name: IgnoredFlag(name, kind, default) for name, kind, default in IGNORED}


config = Settings()


# Settings that set several others.
_component_settings = {
    "transfer_guard": tuple([setting for name, setting in settings.items() if name.startswith("transfer_guard_")])}


def _set_transfer_guards(value) -> None:
    for setting in _component_settings["transfer_guard"]:
        setting.set(value)


def _show_logs(level: str | None, modules: str) -> None:
    from xlafront.base.logs import show  # start-up: for programs that log

    show("DEBUG" if modules else level or "NOTSET")


on_update("transfer_guard", _set_transfer_guards)
on_update("logging_level", lambda value: _show_logs(value, settings["debug_log_modules"].value))
on_update("debug_log_modules", lambda value: _show_logs(settings["logging_level"].value, value))
if settings["logging_level"].is_set or settings["debug_log_modules"].is_set:
    _show_logs(settings["logging_level"].value, settings["debug_log_modules"].value)


def _apply_environment() -> None:
    """Warn of ignored settings that are set by environment variables."""
    known = (*settings, *_ALIASES)
    if any([name.startswith(("JAX_", "XLAFRONT_")) and name.partition("_")[2].lower() not in known for name in os.environ]):
        _ignored_flags()


_apply_environment()


def __getattr__(name: str):  # the other settings are in this module's namespace
    if name.startswith("_") or name not in _ignored_flags():
        raise AttributeError(f"there is no setting {name!r}")
    return _ignored_flags()[name]
