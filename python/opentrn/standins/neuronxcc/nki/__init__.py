"""Stand-in for `neuronxcc.nki` where the NKI 0.1 dialect (`opentrn.nki_legacy`) is not installed.

Kernels of NKI 0.2 and later import only `neuronxcc.nki.typing` from it; everything else is refused by name.
"""


def __getattr__(name: str):
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"neuronxcc.nki.{name}: this OpenTrn has no NKI 0.1 dialect (opentrn.nki_legacy); "
        "port the kernel to `import nki` (NKI 0.3 or later)"
    )
