"""nki.language.dtypes: the dtypes by name."""

from opentrn.nki.dtype import *  # noqa: F403
