"""pytest plugin: what the samples' tests find on a Trainium host and OpenTrn has to supply.

`test_double_row_matmul` reads the instance type from the firmware's product name and passes without running
anything unless it is trn2. Here that file says trn2.48xlarge, so that the test runs.
"""

from __future__ import annotations

import builtins
import io

PRODUCT_NAME_FILE = "/sys/devices/virtual/dmi/id/product_name"
PRODUCT_NAME = "trn2.48xlarge\n"

_open = builtins.open


def _open_with_product_name(file, *args, **kwargs):
    if file == PRODUCT_NAME_FILE:
        return io.StringIO(PRODUCT_NAME)
    return _open(file, *args, **kwargs)


builtins.open = _open_with_product_name
