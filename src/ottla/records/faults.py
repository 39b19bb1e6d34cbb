"""Faults of records, by the numbers that both kernels return.

The compiled kernel repeats the numbers; tests compare the two.
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
    "a varint is incomplete or too long",
    "the record's length is negative or exceeds the batch",
    "the record's offset delta is not its index in the batch",
    "the key's length is invalid",
    "the value's length is invalid",
    "the number of headers is invalid",
    "a header's key is null or its length is invalid",
    "a header's value has an invalid length",
    "the record's length does not match its fields",
    "there are trailing bytes after the last record",
)

# Kinds of record errors: well-formed records that the topic does not accept.
NULL_KEY = 1
TIMESTAMP_OUT_OF_RANGE = 2

# The maximum number of record errors that a walk returns; the count shows whether there are more.
RECORD_ERRORS_MAX = 100

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
