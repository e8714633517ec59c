"""Eager NumPy interpreter of the NKI instruction set: the correctness oracle of OpenTrn.

`machine.Machine` is a NeuronCore, `tensor.NkiTensor` a view of its memory, `isa` has one function per
instruction.
"""
