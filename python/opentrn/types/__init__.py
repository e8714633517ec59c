"""Names and values that kernels and models share: formats, shapes, the enumerations of the instruction set."""
