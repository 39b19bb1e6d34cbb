"""One record for the compiled kernel: its numbers, its layout, and reading it with every bound checked."""

cdef enum:
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

    NULL_KEY = 1
    TIMESTAMP_OUT_OF_RANGE = 2
    RECORD_ERRORS_MAX = 100

cdef struct Record:
    int64_t timestamp_delta
    int32_t offset_delta
    const uint8_t* key
    int32_t key_bytes  # -1: null
    const uint8_t* value
    int32_t value_bytes
    const uint8_t* headers
    int32_t headers_count
    int64_t header_key_bytes
    int64_t header_value_bytes

cdef struct Header:
    const uint8_t* key
    int32_t key_bytes
    const uint8_t* value
    int32_t value_bytes


# -- numbers ---------------------------------------------------------------------------------------

cdef inline const uint8_t* read_varint(const uint8_t* p, const uint8_t* end, int32_t* out) noexcept nogil:
    """Read a zigzag int32; NULL if it is incomplete or has more than 32 bits."""
    cdef uint32_t value, byte
    cdef int shift = 7
    if p >= end:
        return NULL
    value = p[0]
    p += 1
    if value >= 0x80:
        value &= 0x7F
        while True:
            if p >= end:
                return NULL
            byte = p[0]
            p += 1
            if shift == 28 and byte > 0x0F:
                return NULL
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    out[0] = <int32_t> ((value >> 1) ^ (0 - (value & 1)))
    return p


cdef inline const uint8_t* read_varlong(const uint8_t* p, const uint8_t* end, int64_t* out) noexcept nogil:
    cdef uint64_t value, byte
    cdef int shift = 7
    if p >= end:
        return NULL
    value = p[0]
    p += 1
    if value >= 0x80:
        value &= 0x7F
        while True:
            if p >= end:
                return NULL
            byte = p[0]
            p += 1
            if shift == 63 and byte > 0x01:
                return NULL
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    out[0] = <int64_t> ((value >> 1) ^ (0 - (value & 1)))
    return p


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t> value << 1) ^ (0 - (<uint64_t> value >> 63))


cdef inline int number_bytes(int64_t value) noexcept nogil:
    cdef uint64_t left = zigzag(value) >> 7
    cdef int size = 1
    while left:
        left >>= 7
        size += 1
    return size


cdef inline uint8_t* write_number(uint8_t* p, int64_t value) noexcept nogil:
    cdef uint64_t left = zigzag(value)
    while left >= 0x80:
        p[0] = <uint8_t> (left | 0x80)
        p += 1
        left >>= 7
    p[0] = <uint8_t> left
    return p + 1


cdef inline uint8_t* write_bytes(uint8_t* p, const uint8_t* data, int32_t size) noexcept nogil:
    """Write a length, -1 for null, and the bytes."""
    p = write_number(p, size)
    if size > 0:
        memcpy(p, data, size)
        p += size
    return p


cdef inline int64_t add_wrapping(int64_t base, int64_t delta) noexcept nogil:
    return <int64_t> (<uint64_t> base + <uint64_t> delta)


cdef inline int64_t subtract_wrapping(int64_t value, int64_t base) noexcept nogil:
    return <int64_t> (<uint64_t> value - <uint64_t> base)


# -- one record ------------------------------------------------------------------------------------

cdef inline const uint8_t* read_header(const uint8_t* p, const uint8_t* end, Header* header, int* reason) noexcept nogil:
    p = read_varint(p, end, &header.key_bytes)
    if p == NULL:
        reason[0] = BAD_VARINT
        return NULL
    if header.key_bytes < 0 or header.key_bytes > end - p:
        reason[0] = BAD_HEADER_KEY
        return NULL
    header.key = p
    p = read_varint(p + header.key_bytes, end, &header.value_bytes)
    if p == NULL:
        reason[0] = BAD_VARINT
        return NULL
    if header.value_bytes < -1 or header.value_bytes > end - p:
        reason[0] = BAD_HEADER_VALUE
        return NULL
    header.value = p
    return p + header.value_bytes if header.value_bytes > 0 else p


cdef inline int read_record(const uint8_t** cursor, const uint8_t* batch_end, Record* record) noexcept nogil:
    """Read the record at the cursor and move the cursor after it; returns a reason."""
    cdef const uint8_t* p = cursor[0]
    cdef const uint8_t* end
    cdef int32_t length, index
    cdef int reason = OK
    cdef Header header
    if p >= batch_end:
        return MISSING_RECORDS
    p = read_varint(p, batch_end, &length)
    if p == NULL:
        return BAD_VARINT
    if length < 1 or length > batch_end - p:
        return BAD_LENGTH
    end = p + length
    p = read_varlong(p + 1, end, &record.timestamp_delta)  # after the unused attributes byte
    if p == NULL:
        return BAD_VARINT
    p = read_varint(p, end, &record.offset_delta)
    if p == NULL:
        return BAD_VARINT
    p = read_varint(p, end, &record.key_bytes)
    if p == NULL:
        return BAD_VARINT
    if record.key_bytes < -1 or record.key_bytes > end - p:
        return BAD_KEY_LENGTH
    record.key = p
    if record.key_bytes > 0:
        p += record.key_bytes
    p = read_varint(p, end, &record.value_bytes)
    if p == NULL:
        return BAD_VARINT
    if record.value_bytes < -1 or record.value_bytes > end - p:
        return BAD_VALUE_LENGTH
    record.value = p
    if record.value_bytes > 0:
        p += record.value_bytes
    p = read_varint(p, end, &record.headers_count)
    if p == NULL:
        return BAD_VARINT
    if record.headers_count < 0 or record.headers_count > end - p:
        return BAD_HEADER_COUNT
    record.headers = p
    record.header_key_bytes = 0
    record.header_value_bytes = 0
    for index in range(record.headers_count):
        p = read_header(p, end, &header, &reason)
        if p == NULL:
            return reason
        record.header_key_bytes += header.key_bytes
        if header.value_bytes > 0:
            record.header_value_bytes += header.value_bytes
    if p != end:
        return LENGTH_MISMATCH
    cursor[0] = end
    return OK


cdef inline int check_range(Py_ssize_t pos, Py_ssize_t end, Py_ssize_t length) except -1:
    if not 0 <= pos <= end <= length:
        raise ValueError("range outside of the buffer")
    return 0
