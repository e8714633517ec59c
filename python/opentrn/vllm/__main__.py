"""Write a GGUF file, or a model of a package, as a folder that vLLM reads; prints the folder.

    python -m opentrn.vllm smollm2 FOLDER [--dtype f16|bf16|f32]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from opentrn.errors import Refusal
from opentrn.generate.checkpoint import write_checkpoint


def main() -> int:
    """The command; 2 where the model cannot be written."""
    parser = argparse.ArgumentParser(
        prog="python -m opentrn.vllm", description="Write a model as a folder that vLLM reads."
    )
    parser.add_argument("model", help="a GGUF file, or the name of a model in a package")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=("f16", "bf16", "f32"), default="f16", help="of the matrices (f16)")
    options = parser.parse_args()
    try:
        print(write_checkpoint(options.model, options.folder, options.dtype))
    except Refusal as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
