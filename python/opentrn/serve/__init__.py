"""A server of one language model: OpenAI's and Anthropic's APIs over the C++ engine, with the device's predicted time.

`opentrn serve MODEL` starts it; `build` makes its application for another ASGI server.
"""

from opentrn.serve.build import Settings, build

__all__ = ["Settings", "build"]
