"""What can be wrong with a record, by the numbers that both kernels report.

The numbers are repeated in the compiled kernel; the tests hold the two together.
"""

from __future__ import annotations

OK = 0
MISSING_RECORDS = 1
BAD_VARINT = 2
BAD_LENGTH = 3
BAD_OFFSET_DELTA = 4
BAD_KEY_LENGTH = 5
BAD_VALUE_LENGTH = 6
BAD_HEADER_COUNT = 7
BAD_HEADER_KEY = 8
BAD_HEADER_VALUE = 9
LENGTH_MISMATCH = 10
TRAILING_BYTES = 11

TEXTS = (
    "no fault",
    "the batch ends before its last record",
    "a variable-length number is cut short or too long",
    "the record's length is negative or reaches past the end of the batch",
    "the record's offset delta is not its place in the batch",
    "the key's length is invalid",
    "the value's length is invalid",
    "the number of headers is invalid",
    "a header's key is null or its length is invalid",
    "a header's value has an invalid length",
    "the record's length does not match its fields",
    "bytes are left after the last record",
)

# Kinds of record errors: well-formed records that the topic does not take.
NULL_KEY = 1
TIMESTAMP_OUT_OF_RANGE = 2

# How many record errors a walk reports; the client learns that there were more from the count.
RECORD_ERRORS_MAX = 100

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
