"""Random keys that are used twice are found by a setting: `config.update("debug_key_reuse", True)`.

Outside of compiled functions a key is refused from its second use on, compiled functions are refused when they are traced.

>>> with xlafront.debug_key_reuse(True):
...     key = random.key(0)
...     random.normal(key), random.uniform(key)
Traceback (most recent call last):
KeyReuseError: jit-compiled function got a previously-consumed key at index 0: argument key of uniform ...
"""
