"""The libraries under measurement, behind a few names that the cases use."""

from __future__ import annotations

import importlib


class Library:
    """`xf` (transformations), `np` (functions on arrays), `wait(x)`."""

    def __init__(self, name: str):
        self.name = name
        if name == "numpy":
            self.np = importlib.import_module("numpy")
            self.xf = None
        elif name == "torch":
            self.np = importlib.import_module("torch")
            self.np.set_num_threads(1)
            self.xf = None
        else:
            self.xf = importlib.import_module(name)
            self.np = importlib.import_module(f"{name}.numpy")

    @property
    def compiles(self) -> bool:
        return self.xf is not None

    @property
    def lax(self):
        return importlib.import_module(f"{self.name}.lax")

    @property
    def scans(self) -> bool:
        return self.compiles and hasattr(self.lax, "scan")

    def wait(self, x):
        if self.xf is not None:
            self.xf.block_until_ready(x)
        return x
