"""`python -m opentrn` is the `opentrn` program."""

import sys

from opentrn.cli import main

if __name__ == "__main__":
    sys.exit(main())
