"""Detection of random keys that are used twice: `config.update("debug_key_reuse", True)`.

Outside compiled functions the second use of a key raises an error; for compiled functions, tracing raises it.

>>> with xlafront.debug_key_reuse(True):
...     key = random.key(0)
...     random.normal(key), random.uniform(key)
Traceback (most recent call last):
KeyReuseError: jit-compiled function got a previously-consumed key at index 0: argument key of uniform ...
"""
