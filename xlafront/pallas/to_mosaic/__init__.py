"""Lowering of kernels to Mosaic, the compiler of TPU kernels: a module of the dialects vector, memref, scf and tpu.

`call` makes the custom call that holds the module, `windows` the module's functions, `memrefs` reads and writes, `vectors` and
`operations` the operations of kernels.
"""
