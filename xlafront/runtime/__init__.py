"""The only layer (with `lowering`) that talks to jaxlib: clients, devices, arrays, compilation, dispatch."""
