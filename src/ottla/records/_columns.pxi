"""Arrow columns for the compiled kernel: record batches into column buffers, and columns into a batch."""

# -- batches to Arrow columns ----------------------------------------------------------------------

@cython.final
@cython.internal
cdef class Held:
    """A buffer that is exported for the lifetime of this object."""

    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, owner, bint writable=False):
        PyObject_GetBuffer(owner, &self.view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef uint8_t* at_least(self, Py_ssize_t size) except? NULL:
        if self.view.len < size:
            raise ValueError("buffer too small")
        return <uint8_t*> self.view.buf


def measure(buf, Py_ssize_t pos, Py_ssize_t end, int32_t count):
    cdef Held held = Held(buf)
    cdef const uint8_t* p
    cdef const uint8_t* stop
    cdef Record record
    cdef int32_t index
    cdef int reason
    cdef int64_t keys = 0, values = 0, headers = 0, header_keys = 0, header_values = 0
    check_range(pos, end, held.view.len)
    p = <const uint8_t*> held.view.buf + pos
    stop = <const uint8_t*> held.view.buf + end
    for index in range(count):
        reason = read_record(&p, stop, &record)
        if reason != OK:
            return reason, index, 0, 0, 0, 0, 0
        if record.key_bytes > 0:
            keys += record.key_bytes
        if record.value_bytes > 0:
            values += record.value_bytes
        headers += record.headers_count
        header_keys += record.header_key_bytes
        header_values += record.header_value_bytes
    if p != stop:
        return TRAILING_BYTES, count if count > 0 else 0, 0, 0, 0, 0, 0
    return OK, -1, keys, values, headers, header_keys, header_values


cdef struct Output:
    uint8_t* validity  # NULL: never null
    int32_t* offsets
    uint8_t* data
    int64_t data_capacity
    int64_t rows
    int64_t data_bytes
    int64_t nulls


cdef inline int put(Output* out, const uint8_t* data, int32_t size) noexcept nogil:
    """Append one cell; -1 if its bytes do not fit."""
    if size >= 0:
        if size > out.data_capacity - out.data_bytes:
            return -1
        memcpy(out.data + out.data_bytes, data, size)
        out.data_bytes += size
        if out.validity != NULL:
            out.validity[out.rows >> 3] |= <uint8_t> (1 << (out.rows & 7))
    else:
        out.nulls += 1
    out.rows += 1
    out.offsets[out.rows] = <int32_t> out.data_bytes
    return 0


cdef int open_output(Output* out, Held validity, Held offsets, Held data, int64_t rows) except -1:
    cdef Py_ssize_t bitmap_bytes = (rows + 7) >> 3
    out.validity = NULL
    if validity is not None:
        out.validity = validity.at_least(bitmap_bytes)
        memset(out.validity, 0, bitmap_bytes)
    out.offsets = <int32_t*> offsets.at_least((rows + 1) * 4)
    out.offsets[0] = 0
    out.data = data.at_least(0)
    out.data_capacity = min(data.view.len, <Py_ssize_t> 0x7FFFFFFF)
    out.rows = 0
    out.data_bytes = 0
    out.nulls = 0
    return 0


def decode(sections, int64_t rows_max, int64_t headers_max, outputs):
    cdef list held = [Held(output, True) for output in outputs]
    cdef int64_t* offset_column
    cdef int64_t* timestamp_column
    cdef int32_t* type_column
    cdef int32_t* list_offsets
    cdef Output keys, values, header_keys, header_values
    cdef Held source
    cdef const uint8_t* p
    cdef const uint8_t* header_at
    cdef const uint8_t* stop
    cdef Record record
    cdef Header header
    cdef Py_ssize_t pos, end
    cdef int64_t row = 0, base_offset, base_timestamp, append_timestamp
    cdef int32_t count, index, header_index, timestamp_type
    cdef Py_ssize_t byte
    cdef uint8_t key_bits = 0
    cdef int reason = OK
    if rows_max < 0 or headers_max < 0 or len(held) != 15:
        raise ValueError("bad shape")
    offset_column = <int64_t*> (<Held> held[0]).at_least(rows_max * 8)
    timestamp_column = <int64_t*> (<Held> held[1]).at_least(rows_max * 8)
    type_column = <int32_t*> (<Held> held[2]).at_least(rows_max * 4)
    open_output(&keys, held[3], held[4], held[5], rows_max)
    open_output(&values, held[6], held[7], held[8], rows_max)
    list_offsets = <int32_t*> (<Held> held[9]).at_least((rows_max + 1) * 4)
    list_offsets[0] = 0
    open_output(&header_keys, None, held[10], held[11], headers_max)
    open_output(&header_values, held[12], held[13], held[14], headers_max)
    for buf, pos, end, count, base_offset, base_timestamp, timestamp_type, append_timestamp in sections:
        source = Held(buf)
        check_range(pos, end, source.view.len)
        p = <const uint8_t*> source.view.buf + pos
        stop = <const uint8_t*> source.view.buf + end
        for index in range(count):
            reason = read_record(&p, stop, &record)
            if reason != OK:
                raise ValueError("records changed since they were measured")
            if row >= rows_max or record.headers_count > headers_max - header_keys.rows:
                raise ValueError("more records than measured")
            offset_column[row] = add_wrapping(base_offset, record.offset_delta)
            timestamp_column[row] = (
                append_timestamp if timestamp_type else add_wrapping(base_timestamp, record.timestamp_delta)
            )
            type_column[row] = timestamp_type
            if put(&keys, record.key, record.key_bytes) or put(&values, record.value, record.value_bytes):
                raise ValueError("more bytes than measured")
            header_at = record.headers
            for header_index in range(record.headers_count):
                header_at = read_header(header_at, stop, &header, &reason)
                if header_at == NULL:
                    raise ValueError("records changed since they were measured")
                for byte in range(header.key_bytes):
                    key_bits |= header.key[byte]
                if put(&header_keys, header.key, header.key_bytes) or put(
                    &header_values, header.value, header.value_bytes
                ):
                    raise ValueError("more bytes than measured")
            row += 1
            list_offsets[row] = <int32_t> header_keys.rows
    return row, keys.nulls, values.nulls, header_keys.rows, header_values.nulls, key_bits < 0x80


# -- Arrow columns to a batch ----------------------------------------------------------------------

cdef struct Input:
    const uint8_t* validity
    const int32_t* offsets
    const uint8_t* data
    int64_t data_bytes
    int64_t start
    int64_t length


cdef int open_input(Input* column, tuple buffers, list held) except -1:
    """Load (validity or None, offsets, data or None, start, length) and check the sizes of the buffers."""
    cdef Held part
    validity, offsets, data, start, length = buffers
    column.validity = NULL
    column.offsets = NULL
    column.data = NULL
    column.data_bytes = 0x7FFFFFFF
    column.start = start
    column.length = length
    if column.start < 0 or column.length < 0:
        raise ValueError("bad column")
    if column.length == 0:
        return 0
    if validity is not None:
        part = Held(validity)
        held.append(part)
        column.validity = part.at_least((column.start + column.length + 7) >> 3)
    part = Held(offsets)
    held.append(part)
    column.offsets = <const int32_t*> part.at_least((column.start + column.length + 1) * 4)
    if data is not None:
        part = Held(data)
        held.append(part)
        column.data = part.at_least(0)
        column.data_bytes = part.view.len
    return 0


cdef inline int get(const Input* column, int64_t row, const uint8_t** data, int32_t* size) noexcept nogil:
    """Read one cell, size -1 for null; -1 if the column does not have it."""
    cdef int64_t place = column.start + row
    cdef int32_t first, last
    if row < 0 or row >= column.length:
        return -1
    if column.validity != NULL and not column.validity[place >> 3] >> (place & 7) & 1:
        size[0] = -1
        return 0
    first = column.offsets[place]
    last = column.offsets[place + 1]
    if first < 0 or last < first or last > column.data_bytes:
        return -1
    data[0] = column.data + first
    size[0] = last - first
    return 0


cdef int header_range(const Input* lists, int64_t row, int64_t* first, int64_t* last) noexcept nogil:
    cdef int32_t size = 0
    cdef const uint8_t* nothing = NULL
    first[0] = 0
    last[0] = 0
    if lists.length == 0:
        return 0
    if get(lists, row, &nothing, &size) < 0:
        return -1
    if size > 0:
        first[0] = lists.offsets[lists.start + row]
        last[0] = first[0] + size
    return 0


def encode(
    int64_t start, int64_t stop, timestamps, int64_t timestamps_start, key_buffers, value_buffers,
    list_buffers, header_key_buffers, header_value_buffers, Py_ssize_t prefix_bytes, int64_t bytes_max
):
    cdef list held = []
    cdef Held times = Held(timestamps)
    cdef const int64_t* timestamp_column
    cdef Input keys, values, lists, header_keys, header_values
    cdef int64_t row, last_row, first, last, body, taken = 0, size
    cdef int64_t base_timestamp, max_timestamp
    cdef const uint8_t* data = NULL
    cdef const uint8_t* value_data = NULL
    cdef int32_t key_bytes = 0, value_bytes = 0
    cdef uint8_t* p = NULL
    cdef uint8_t* out_end = NULL
    cdef int step
    open_input(&keys, key_buffers, held)
    open_input(&values, value_buffers, held)
    open_input(&lists, list_buffers, held)
    open_input(&header_keys, header_key_buffers, held)
    open_input(&header_values, header_value_buffers, held)
    if not 0 <= start < stop or timestamps_start < 0 or prefix_bytes < 0:
        raise ValueError("bad rows")
    timestamp_column = <const int64_t*> times.at_least((timestamps_start + stop) * 8) + timestamps_start
    base_timestamp = timestamp_column[start]
    max_timestamp = base_timestamp
    last_row = stop
    out = None
    # The first step measures how many rows fit, the second writes them.
    for step in range(2):
        for row in range(start, last_row):
            if (
                get(&keys, row, &data, &key_bytes) < 0
                or get(&values, row, &value_data, &value_bytes) < 0
                or header_range(&lists, row, &first, &last) < 0
            ):
                raise ValueError("a column does not hold the row")
            body = (
                1 + number_bytes(subtract_wrapping(timestamp_column[row], base_timestamp)) + number_bytes(row - start)
                + number_bytes(key_bytes) + max(key_bytes, 0) + number_bytes(value_bytes) + max(value_bytes, 0)
                + number_bytes(last - first)
            )
            body += headers_bytes(&header_keys, &header_values, first, last)
            size = body + number_bytes(body)
            if step == 0:
                if row > start and prefix_bytes + taken + size > bytes_max:
                    last_row = row
                    break
                if body > 0x7FFFFFFF or row - start >= 0x7FFFFFFF:
                    raise ValueError("record too large")
                taken += size
                continue
            if size > out_end - p:
                raise ValueError("columns changed since they were measured")
            max_timestamp = max(max_timestamp, timestamp_column[row])
            p = write_number(p, body)
            p[0] = 0
            p = write_number(p + 1, subtract_wrapping(timestamp_column[row], base_timestamp))
            p = write_number(p, row - start)
            p = write_bytes(p, data, key_bytes)
            p = write_bytes(p, value_data, value_bytes)
            p = write_number(p, last - first)
            p = write_headers(p, &header_keys, &header_values, first, last)
        if step == 0:
            out = PyByteArray_FromStringAndSize(NULL, prefix_bytes + taken)
            p = <uint8_t*> PyByteArray_AS_STRING(out)
            memset(p, 0, prefix_bytes)
            p += prefix_bytes
            out_end = p + taken
    return out, last_row, base_timestamp, max_timestamp


cdef int64_t headers_bytes(const Input* keys, const Input* values, int64_t first, int64_t last) except -1:
    cdef int64_t header, total = 0
    cdef int32_t key_bytes = 0, value_bytes = 0
    cdef const uint8_t* data = NULL
    for header in range(first, last):
        if get(keys, header, &data, &key_bytes) < 0 or get(values, header, &data, &value_bytes) < 0:
            raise ValueError("a column does not hold the header")
        if key_bytes < 0:
            raise ValueError("a header's key is null")
        total += number_bytes(key_bytes) + key_bytes + number_bytes(value_bytes) + max(value_bytes, 0)
    return total


cdef uint8_t* write_headers(
    uint8_t* p, const Input* keys, const Input* values, int64_t first, int64_t last
) noexcept nogil:
    cdef int64_t header
    cdef int32_t size = 0
    cdef const uint8_t* data = NULL
    for header in range(first, last):
        get(keys, header, &data, &size)
        p = write_bytes(p, data, size)
        get(values, header, &data, &size)
        p = write_bytes(p, data, size)
    return p
