"""`neuronxcc.nki` reached as an attribute (`from neuronxcc import nki`): the NKI 0.1 dialect itself.

Importing `neuronxcc.nki` by name goes to opentrn.nki_legacy directly (opentrn/compat/alias.py); the attribute form asks
this stand-in package for a sub-module, which replaces itself.
"""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("opentrn.nki_legacy")
