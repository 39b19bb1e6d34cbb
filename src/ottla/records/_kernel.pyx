# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled kernel: loops over records of untrusted bytes.

Every read is checked against the end of the record, the batch and the buffer. `_pure.py` is the
readable counterpart with the same functions and results; faults and kinds are those of `faults.py`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

include "_record.pxi"
include "_columns.pxi"
include "_partitions.pxi"


# -- walk ------------------------------------------------------------------------------------------

cdef struct Walk:
    int64_t min_timestamp
    int64_t max_timestamp
    int64_t max_index
    int64_t null_keys
    int64_t bad_timestamps
    int errors_count
    int32_t error_index[RECORD_ERRORS_MAX]
    int error_kind[RECORD_ERRORS_MAX]
    int64_t error_timestamp[RECORD_ERRORS_MAX]


cdef inline void note_error(Walk* walk, int32_t index, int kind, int64_t timestamp) noexcept nogil:
    if walk.errors_count < RECORD_ERRORS_MAX:
        walk.error_index[walk.errors_count] = index
        walk.error_kind[walk.errors_count] = kind
        walk.error_timestamp[walk.errors_count] = timestamp
        walk.errors_count += 1


cdef int walk_records(
    const uint8_t* p, const uint8_t* end, int32_t count, int64_t base_timestamp,
    int64_t low_ms, int64_t high_ms, bint need_keys, Walk* walk, int64_t* stopped_at
) noexcept nogil:
    cdef Record record
    cdef int64_t timestamp
    cdef int32_t index
    cdef int reason
    for index in range(count):
        reason = read_record(&p, end, &record)
        if reason == OK and record.offset_delta != index:
            reason = BAD_OFFSET_DELTA
        if reason != OK:
            stopped_at[0] = index
            return reason
        timestamp = add_wrapping(base_timestamp, record.timestamp_delta)
        if timestamp > walk.max_timestamp or index == 0:
            walk.max_timestamp = timestamp
            walk.max_index = index
        if timestamp < walk.min_timestamp:
            walk.min_timestamp = timestamp
        if record.key_bytes < 0:
            walk.null_keys += 1
        if (timestamp < low_ms or timestamp > high_ms) and timestamp != -1:
            walk.bad_timestamps += 1
            if not (need_keys and record.key_bytes < 0):
                note_error(walk, index, TIMESTAMP_OUT_OF_RANGE, timestamp)
        if need_keys and record.key_bytes < 0:
            note_error(walk, index, NULL_KEY, timestamp)
    if p != end:
        stopped_at[0] = count if count > 0 else 0
        return TRAILING_BYTES
    return OK


def walk(
    buf, Py_ssize_t pos, Py_ssize_t end, int32_t count, int64_t base_timestamp,
    int64_t low_ms=INT64_MIN, int64_t high_ms=INT64_MAX, bint need_keys=False
):
    cdef Py_buffer view
    cdef Walk found
    cdef int64_t stopped_at = -1
    cdef int reason, index
    cdef const uint8_t* start
    found.min_timestamp = INT64_MAX
    found.max_timestamp = -1
    found.max_index = -1
    found.null_keys = 0
    found.bad_timestamps = 0
    found.errors_count = 0
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        start = <const uint8_t*> view.buf
        reason = walk_records(
            start + pos, start + end, count, base_timestamp, low_ms, high_ms, need_keys, &found, &stopped_at
        )
    finally:
        PyBuffer_Release(&view)
    errors = [
        (found.error_index[index], found.error_kind[index], found.error_timestamp[index])
        for index in range(found.errors_count)
    ] if found.errors_count else None
    return (
        reason, stopped_at, found.min_timestamp, found.max_timestamp, found.max_index,
        found.null_keys, found.bad_timestamps, errors,
    )


# -- the common case of a produced batch -------------------------------------------------------------

cdef inline int64_t be64(const uint8_t* p) noexcept nogil:
    return <int64_t> (
        (<uint64_t> p[0] << 56) | (<uint64_t> p[1] << 48) | (<uint64_t> p[2] << 40) | (<uint64_t> p[3] << 32)
        | (<uint64_t> p[4] << 24) | (<uint64_t> p[5] << 16) | (<uint64_t> p[6] << 8) | <uint64_t> p[7]
    )


cdef inline int32_t be32(const uint8_t* p) noexcept nogil:
    return <int32_t> ((<uint32_t> p[0] << 24) | (<uint32_t> p[1] << 16) | (<uint32_t> p[2] << 8) | <uint32_t> p[3])


cdef enum:
    BATCH_HEADER_BYTES = 61
    PLAIN_ATTRIBUTES = 0x17  # codec and the transactional bit: producers may set nothing else
    ZSTD_CODEC = 4


def quick_check(buf, int64_t bytes_max, int target_codec, int64_t high_ms, crc32c):
    """Return the header of a valid, ordinary produced batch as a tuple.

    None: the caller must do the full checks. `target_codec` is the topic's codec, -1 for the producer's
    choice.
    """
    cdef Py_buffer view
    cdef const uint8_t* p
    cdef Walk found
    cdef int64_t stopped_at = -1
    cdef int64_t size, base_timestamp, max_timestamp, producer_id
    cdef int32_t batch_length, count, base_sequence
    cdef int attributes, codec
    cdef uint32_t crc
    PyObject_GetBuffer(buf, &view, PyBUF_WRITABLE)
    try:
        size = view.len
        p = <const uint8_t*> view.buf
        if size < BATCH_HEADER_BYTES or size > bytes_max:
            return None
        batch_length = be32(p + 8)
        attributes = (p[21] << 8) | p[22]
        codec = attributes & 7
        count = be32(p + 57)
        base_timestamp = be64(p + 27)
        max_timestamp = be64(p + 35)
        producer_id = be64(p + 43)
        base_sequence = be32(p + 53)
        if (
            be64(p) != 0 or batch_length != size - 12 or p[16] != 2 or (attributes & ~PLAIN_ATTRIBUTES) != 0
            or codec > ZSTD_CODEC or count <= 0 or be32(p + 23) != count - 1 or max_timestamp > high_ms
            or (producer_id >= 0 and base_sequence < 0) or (target_codec >= 0 and codec != target_codec)
        ):
            return None
        if codec == 0:
            found.min_timestamp = INT64_MAX
            found.max_timestamp = -1
            found.max_index = -1
            found.null_keys = 0
            found.bad_timestamps = 0
            found.errors_count = 0
            if walk_records(
                p + BATCH_HEADER_BYTES, p + size, count, base_timestamp, INT64_MIN, high_ms, False,
                &found, &stopped_at
            ) != OK or found.bad_timestamps or found.max_timestamp != max_timestamp:
                return None
        crc = <uint32_t> be32(p + 17)
        header = (
            0, batch_length, be32(p + 12), 2, crc, attributes, count - 1, base_timestamp, max_timestamp,
            producer_id, <short> ((p[51] << 8) | p[52]), base_sequence, count,
        )
    finally:
        PyBuffer_Release(&view)
    return header if crc32c(memoryview(buf)[21:]) == crc else None


# -- Python objects --------------------------------------------------------------------------------

cdef inline object bytes_or_none(const uint8_t* data, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*> data, size)


def split(
    buf, Py_ssize_t pos, Py_ssize_t end, int32_t count, int64_t base_offset, int64_t base_timestamp, append_timestamp
):
    cdef Py_buffer view
    cdef const uint8_t* p
    cdef const uint8_t* header_at
    cdef const uint8_t* stop
    cdef Record record
    cdef Header header
    cdef int32_t index, header_index
    cdef int reason = OK
    cdef bint fixed = append_timestamp is not None
    cdef int64_t timestamp = append_timestamp if fixed else 0
    cdef list records = []
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        p = <const uint8_t*> view.buf + pos
        stop = <const uint8_t*> view.buf + end
        for index in range(count):
            reason = read_record(&p, stop, &record)
            if reason != OK:
                return reason, index, records
            if not fixed:
                timestamp = add_wrapping(base_timestamp, record.timestamp_delta)
            headers = ()
            if record.headers_count:
                pairs = []
                header_at = record.headers
                for header_index in range(record.headers_count):
                    header_at = read_header(header_at, stop, &header, &reason)
                    if header_at == NULL:  # the buffer was changed by another thread
                        return reason, index, records
                    pairs.append((
                        PyUnicode_DecodeUTF8(<char*> header.key, header.key_bytes, "replace"),
                        bytes_or_none(header.value, header.value_bytes),
                    ))
                headers = tuple(pairs)
            records.append((
                add_wrapping(base_offset, record.offset_delta), timestamp,
                bytes_or_none(record.key, record.key_bytes), bytes_or_none(record.value, record.value_bytes), headers,
            ))
        if p != stop:
            return TRAILING_BYTES, count if count > 0 else 0, records
        return OK, -1, records
    finally:
        PyBuffer_Release(&view)


cdef inline int64_t field_bytes(bytes field) noexcept:
    """The size of a nullable field: its length, -1 for null, and its bytes."""
    return number_bytes(-1) if field is None else number_bytes(len(field)) + len(field)


cdef inline uint8_t* write_field(uint8_t* p, bytes field) noexcept:
    if field is None:
        return write_number(p, -1)
    return write_bytes(p, <const uint8_t*> PyBytes_AS_STRING(field), <int32_t> len(field))


def pack(records, Py_ssize_t prefix_bytes):
    cdef list rows = []
    cdef int64_t base_timestamp = 0, max_timestamp = 0, timestamp, body, total = prefix_bytes
    cdef int32_t index = 0
    cdef bytes key, value, header_key, header_value
    cdef tuple pairs
    cdef uint8_t* p
    for timestamp, raw_key, raw_value, raw_headers in records:
        key = None if raw_key is None else bytes(raw_key)
        value = None if raw_value is None else bytes(raw_value)
        if index == 0:
            base_timestamp = timestamp
            max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        pairs = tuple([
            (name.encode(), None if content is None else bytes(content)) for name, content in raw_headers
        ]) if raw_headers else ()
        body = (
            1 + number_bytes(subtract_wrapping(timestamp, base_timestamp)) + number_bytes(index)
            + field_bytes(key) + field_bytes(value) + number_bytes(len(pairs))
        )
        for header_key, header_value in pairs:
            body += field_bytes(header_key) + field_bytes(header_value)
        if body > 0x7FFFFFFF:
            raise ValueError("record too large")
        total += body + number_bytes(body)
        rows.append((body, timestamp, key, value, pairs))
        index += 1
    out = PyByteArray_FromStringAndSize(NULL, total)
    p = <uint8_t*> PyByteArray_AS_STRING(out)
    memset(p, 0, prefix_bytes)
    p += prefix_bytes
    index = 0
    for body, timestamp, key, value, pairs in rows:
        p = write_number(p, body)
        p[0] = 0
        p = write_number(p + 1, subtract_wrapping(timestamp, base_timestamp))
        p = write_number(p, index)
        p = write_field(write_field(p, key), value)
        p = write_number(p, len(pairs))
        for header_key, header_value in pairs:
            p = write_field(write_field(p, header_key), header_value)
        index += 1
    return out, base_timestamp, max_timestamp


include "_cleaning.pxi"
include "_scan.pxi"
