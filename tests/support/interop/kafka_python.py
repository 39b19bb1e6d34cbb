"""kafka-python, imported without its deprecation warnings, which the tests would turn into errors."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # It reads its schemas on import with a function that is deprecated since Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    import kafka.codec
    import kafka.errors

__all__ = ["kafka"]
