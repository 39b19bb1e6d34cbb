"""Compaction for the compiled kernel: the last offset of every key, and batches without obsolete records.

A key is identified by 128 bits of SipHash-2-4 with a secret per cleaning, so that clients cannot construct
collisions. All loops release the GIL, so that the broker continues in the meantime.
"""

from libc.stdlib cimport calloc, free

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static uint32_t ottla_crc_table[8][256];
    static int ottla_crc_kind = 0;  /* 0: not looked yet, 1: by table, 2: by instruction */

    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("sse4.2")))
    static uint32_t ottla_crc_instruction(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t wide = crc;
        while (n >= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            wide = __builtin_ia32_crc32di(wide, word);
            p += 8;
            n -= 8;
        }
        crc = (uint32_t) wide;
        while (n--) crc = __builtin_ia32_crc32qi(crc, *p++);
        return crc;
    }
    #define OTTLA_HAS_CRC() __builtin_cpu_supports("sse4.2")
    #else
    #define ottla_crc_instruction ottla_crc_by_table
    #define OTTLA_HAS_CRC() 0
    #endif

    static uint32_t ottla_crc_by_table(uint32_t crc, const uint8_t *p, size_t n) {
        while (n >= 8) {
            uint32_t low = crc ^ ((uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24);
            crc = ottla_crc_table[7][low & 255] ^ ottla_crc_table[6][(low >> 8) & 255]
                ^ ottla_crc_table[5][(low >> 16) & 255] ^ ottla_crc_table[4][low >> 24]
                ^ ottla_crc_table[3][p[4]] ^ ottla_crc_table[2][p[5]]
                ^ ottla_crc_table[1][p[6]] ^ ottla_crc_table[0][p[7]];
            p += 8;
            n -= 8;
        }
        while (n--) crc = ottla_crc_table[0][(crc ^ *p++) & 255] ^ (crc >> 8);
        return crc;
    }

    static void ottla_crc_prepare(void) {
        int byte, row, bit;
        for (byte = 0; byte < 256; byte++) {
            uint32_t crc = (uint32_t) byte;
            for (bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
            ottla_crc_table[0][byte] = crc;
        }
        for (row = 1; row < 8; row++)
            for (byte = 0; byte < 256; byte++) {
                uint32_t crc = ottla_crc_table[row - 1][byte];
                ottla_crc_table[row][byte] = ottla_crc_table[0][crc & 255] ^ (crc >> 8);
            }
        ottla_crc_kind = OTTLA_HAS_CRC() ? 2 : 1;
    }

    static uint32_t ottla_crc32c(const uint8_t *p, size_t n) {
        uint32_t crc = 0xFFFFFFFFu;
        crc = ottla_crc_kind == 2 ? ottla_crc_instruction(crc, p, n) : ottla_crc_by_table(crc, p, n);
        return crc ^ 0xFFFFFFFFu;
    }
    """
    void ottla_crc_prepare() noexcept nogil
    uint32_t ottla_crc32c(const uint8_t* data, size_t size) noexcept nogil

ottla_crc_prepare()

cdef enum:
    ALL_DONE = 0
    LOOK = 1
    FULL = 2
    DAMAGED = 3
    NO_ROOM = 4

    NOT_PLAIN = 0x37  # codec, transactional, control: not handled by the loops over many batches
    APPEND_TIME = 0x08
    HORIZON = 0x40


# -- the hash --------------------------------------------------------------------------------------

cdef inline uint64_t rotated(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline uint64_t little_endian(const uint8_t* p, int count) noexcept nogil:
    cdef uint64_t value = 0
    cdef int index
    for index in range(count):
        value |= <uint64_t> p[index] << (8 * index)
    return value


cdef inline void sip_round(uint64_t* v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = rotated(v[1], 13) ^ v[0]
    v[3] = rotated(v[3], 16) ^ v[2]
    v[0] = rotated(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = rotated(v[1], 17) ^ v[2]
    v[3] = rotated(v[3], 21) ^ v[0]
    v[2] = rotated(v[2], 32)


cdef inline void sip_hash(uint64_t k0, uint64_t k1, const uint8_t* p, int32_t size, uint64_t* out) noexcept nogil:
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef int32_t left = size
    cdef int step
    v[0] = k0 ^ <uint64_t> 0x736F6D6570736575
    v[1] = k1 ^ <uint64_t> 0x646F72616E646F6D ^ 0xEE
    v[2] = k0 ^ <uint64_t> 0x6C7967656E657261
    v[3] = k1 ^ <uint64_t> 0x7465646279746573
    while left >= 8:
        word = little_endian(p, 8)
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
        p += 8
        left -= 8
    word = (<uint64_t> (<uint32_t> size & 0xFF) << 56) | little_endian(p, left)
    v[3] ^= word
    sip_round(v)
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    for step in range(4):
        sip_round(v)
    out[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for step in range(4):
        sip_round(v)
    out[1] = v[0] ^ v[1] ^ v[2] ^ v[3]


# -- the map ---------------------------------------------------------------------------------------

cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t place  # offset + 1; 0: the slot is free


cdef class KeyMap:
    """The last offset of each key: open addressing with a fixed number of slots."""

    ENTRY_BYTES = sizeof(Slot)

    cdef Slot* table
    cdef readonly int64_t slots
    cdef int64_t used
    cdef uint64_t k0
    cdef uint64_t k1

    def __cinit__(self, int64_t slots, bytes secret):
        if slots < 1 or len(secret) != 16:
            raise ValueError("a map needs a slot and a secret of 16 bytes")
        self.table = <Slot*> calloc(slots, sizeof(Slot))
        if self.table == NULL:
            raise MemoryError("no room for the keys")
        self.slots = slots
        self.k0 = little_endian(<const uint8_t*> PyBytes_AS_STRING(secret), 8)
        self.k1 = little_endian(<const uint8_t*> PyBytes_AS_STRING(secret) + 8, 8)

    def __dealloc__(self):
        free(self.table)

    def __len__(self):
        return self.used

    cdef Slot* find(self, const uint8_t* key, int32_t size, uint64_t* hashed) noexcept nogil:
        """The key's slot, or the free one where it would be. There is always a free one: see `map_records`."""
        cdef int64_t at
        cdef Slot* slot
        sip_hash(self.k0, self.k1, key, size, hashed)
        at = <int64_t> (hashed[0] % <uint64_t> self.slots)
        while True:
            slot = self.table + at
            if slot.place == 0 or (slot.low == hashed[0] and slot.high == hashed[1]):
                return slot
            at += 1
            if at == self.slots:
                at = 0

    def get(self, bytes key):
        """The key's last offset, -1 if the key is unknown."""
        cdef uint64_t hashed[2]
        return self.find(<const uint8_t*> PyBytes_AS_STRING(key), <int32_t> len(key), hashed).place - 1

    def hashed(self, bytes key):
        """For tests of the hash."""
        cdef uint64_t hashed[2]
        self.find(<const uint8_t*> PyBytes_AS_STRING(key), <int32_t> len(key), hashed)
        return int(hashed[0]), int(hashed[1])


cdef int map_section(
    KeyMap keys, const uint8_t* p, const uint8_t* end, int32_t count, int64_t base_offset,
    int64_t start_offset, int64_t limit, int32_t* index, int64_t* stopped_at
) noexcept nogil:
    """Add up to `limit` keys to the map; returns a reason. stopped_at: -1 unless the map is full."""
    cdef Record record
    cdef Slot* slot
    cdef uint64_t hashed[2]
    cdef int64_t offset
    cdef int reason
    stopped_at[0] = -1
    index[0] = 0
    while index[0] < count:
        reason = read_record(&p, end, &record)
        if reason != OK:
            return reason
        offset = base_offset + record.offset_delta
        if record.key_bytes >= 0 and offset >= start_offset:
            slot = keys.find(record.key, record.key_bytes, hashed)
            if slot.place == 0:
                if keys.used >= limit or keys.used >= keys.slots - 1:
                    stopped_at[0] = offset
                    return OK
                slot.low = hashed[0]
                slot.high = hashed[1]
                keys.used += 1
            slot.place = offset + 1
        index[0] += 1
    return OK


def map_records(
    KeyMap keys, buf, Py_ssize_t pos, Py_ssize_t end, int32_t count, int64_t base_offset,
    int64_t start_offset, int64_t limit
):
    cdef Py_buffer view
    cdef int64_t stopped_at = -1
    cdef int32_t index = 0
    cdef int reason
    cdef const uint8_t* p
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        p = <const uint8_t*> view.buf
        with nogil:
            reason = map_section(
                keys, p + pos, p + end, count, base_offset, start_offset, limit, &index, &stopped_at
            )
    finally:
        PyBuffer_Release(&view)
    return reason, stopped_at


cdef struct Batch:
    int64_t base_offset
    int64_t size
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t last_offset
    int32_t count
    int attributes


cdef inline int open_batch(const uint8_t* p, const uint8_t* end, Batch* batch) noexcept nogil:
    """Read a header: OK, or ALL_DONE + 1 if the batch is not whole, or DAMAGED."""
    if end - p < BATCH_HEADER_BYTES:
        return LOOK
    batch.size = <int64_t> be32(p + 8) + 12
    if p[16] != 2 or batch.size < BATCH_HEADER_BYTES:
        return DAMAGED
    if batch.size > end - p:
        return LOOK
    batch.base_offset = be64(p)
    batch.attributes = (p[21] << 8) | p[22]
    batch.last_offset = batch.base_offset + be32(p + 23)
    batch.base_timestamp = be64(p + 27)
    batch.max_timestamp = be64(p + 35)
    batch.count = be32(p + 57)
    return ALL_DONE


cdef inline bint checksum_holds(const uint8_t* p, int64_t size) noexcept nogil:
    return ottla_crc32c(p + 21, size - 21) == <uint32_t> be32(p + 17)


def map_batches(KeyMap keys, buf, Py_ssize_t pos, Py_ssize_t end, int64_t start_offset, int64_t limit):
    cdef Py_buffer view
    cdef Batch batch
    cdef int64_t next_offset = -1, stopped_at = -1
    cdef int32_t index = 0
    cdef int status = ALL_DONE, opened
    cdef const uint8_t* start
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        start = <const uint8_t*> view.buf
        with nogil:
            while pos < end:
                opened = open_batch(start + pos, start + end, &batch)
                if opened == LOOK:
                    break
                if opened == DAMAGED:
                    status = DAMAGED
                    break
                if batch.attributes & NOT_PLAIN:
                    status = LOOK
                    break
                if not checksum_holds(start + pos, batch.size):
                    status = DAMAGED
                    break
                if map_section(
                    keys, start + pos + BATCH_HEADER_BYTES, start + pos + batch.size, batch.count,
                    batch.base_offset, start_offset, limit, &index, &stopped_at
                ) != OK:
                    status = LOOK
                    break
                if stopped_at >= 0:
                    next_offset = stopped_at
                    status = FULL
                    break
                next_offset = batch.last_offset + 1
                pos += batch.size
    finally:
        PyBuffer_Release(&view)
    return status, pos, next_offset


# -- the filter ------------------------------------------------------------------------------------

cdef struct Kept:
    int32_t count
    int32_t tombstones
    int64_t nbytes
    int64_t max_timestamp


cdef int filter_section(
    KeyMap keys, const uint8_t* p, const uint8_t* end, Batch* batch, int64_t latest_offset,
    bint keep_tombstones, uint8_t* out, Kept* kept, int32_t* index
) noexcept nogil:
    """Copy the kept records to `out`, which has space for all records; returns a reason."""
    cdef Record record
    cdef uint64_t hashed[2]
    cdef const uint8_t* began
    cdef int64_t offset, timestamp
    cdef int reason
    cdef bint stays
    kept.count = 0
    kept.tombstones = 0
    kept.nbytes = 0
    kept.max_timestamp = -1
    index[0] = 0
    while index[0] < batch.count:
        began = p
        reason = read_record(&p, end, &record)
        if reason != OK:
            return reason
        offset = batch.base_offset + record.offset_delta
        if offset > latest_offset:
            stays = True
        elif record.key_bytes < 0 or (record.value_bytes < 0 and not keep_tombstones):
            stays = False
        else:
            stays = offset + 1 >= keys.find(record.key, record.key_bytes, hashed).place
        if stays:
            memcpy(out + kept.nbytes, began, p - began)
            kept.nbytes += p - began
            timestamp = add_wrapping(batch.base_timestamp, record.timestamp_delta)
            if timestamp > kept.max_timestamp or kept.count == 0:
                kept.max_timestamp = timestamp
            kept.count += 1
            if record.value_bytes < 0:
                kept.tombstones += 1
        index[0] += 1
    return OK if p == end else TRAILING_BYTES


cdef inline void put_be64(uint8_t* p, int64_t value) noexcept nogil:
    cdef int index
    for index in range(8):
        p[index] = <uint8_t> (<uint64_t> value >> (56 - 8 * index))


cdef inline void put_be32(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t> (value >> 24)
    p[1] = <uint8_t> (value >> 16)
    p[2] = <uint8_t> (value >> 8)
    p[3] = <uint8_t> value


def filter_batches(
    KeyMap keys, buf, Py_ssize_t pos, Py_ssize_t end, int64_t latest_offset, int64_t now_ms,
    int64_t look_offset, out, Py_ssize_t out_pos
):
    cdef Py_buffer view, out_view
    cdef Batch batch
    cdef Kept kept
    cdef int64_t records_read = 0, records_kept = 0
    cdef Py_ssize_t last_pos = -1
    cdef int32_t index = 0
    cdef int status = ALL_DONE, opened
    cdef const uint8_t* p
    cdef const uint8_t* start
    cdef uint8_t* to
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        PyObject_GetBuffer(out, &out_view, PyBUF_WRITABLE)
    except BaseException:
        PyBuffer_Release(&view)
        raise
    try:
        check_range(out_pos, out_pos, out_view.len)
        start = <const uint8_t*> view.buf
        with nogil:
            while pos < end:
                p = start + pos
                to = <uint8_t*> out_view.buf + out_pos
                opened = open_batch(p, start + end, &batch)
                if opened == LOOK:
                    break
                if opened == DAMAGED:
                    status = DAMAGED
                    break
                if batch.attributes & NOT_PLAIN or batch.last_offset >= look_offset:
                    status = LOOK
                    break
                if batch.size > out_view.len - out_pos:
                    status = NO_ROOM
                    break
                if not checksum_holds(p, batch.size):
                    status = DAMAGED
                    break
                if filter_section(
                    keys, p + BATCH_HEADER_BYTES, p + batch.size, &batch, latest_offset,
                    not batch.attributes & HORIZON or now_ms < batch.base_timestamp,
                    to + BATCH_HEADER_BYTES, &kept, &index
                ) != OK or (kept.tombstones and not batch.attributes & HORIZON):
                    status = LOOK
                    break
                records_read += batch.count
                records_kept += kept.count
                last_pos = pos
                pos += batch.size
                if kept.count == 0:
                    continue
                memcpy(to, p, BATCH_HEADER_BYTES)
                if kept.count != batch.count:
                    put_be32(to + 8, <uint32_t> (kept.nbytes + BATCH_HEADER_BYTES - 12))
                    if not batch.attributes & APPEND_TIME:
                        put_be64(to + 35, kept.max_timestamp)
                    put_be32(to + 57, <uint32_t> kept.count)
                    put_be32(to + 17, ottla_crc32c(to + 21, kept.nbytes + BATCH_HEADER_BYTES - 21))
                out_pos += kept.nbytes + BATCH_HEADER_BYTES
    finally:
        PyBuffer_Release(&out_view)
        PyBuffer_Release(&view)
    return status, pos, out_pos, records_read, records_kept, last_pos


def filter_records(
    KeyMap keys, buf, Py_ssize_t pos, Py_ssize_t end, int32_t count, int64_t base_offset,
    int64_t base_timestamp, int64_t latest_offset, bint keep_tombstones
):
    cdef Py_buffer view
    cdef Batch batch
    cdef Kept kept
    cdef int32_t index = 0
    cdef int reason
    cdef const uint8_t* p
    cdef uint8_t* to
    out = PyByteArray_FromStringAndSize(NULL, max(end - pos, 0))
    to = <uint8_t*> PyByteArray_AS_STRING(out)
    batch.count = count
    batch.base_offset = base_offset
    batch.base_timestamp = base_timestamp
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        p = <const uint8_t*> view.buf
        with nogil:
            reason = filter_section(
                keys, p + pos, p + end, &batch, latest_offset, keep_tombstones, to, &kept, &index
            )
    finally:
        PyBuffer_Release(&view)
    if reason != OK:
        return reason, 0, 0, -1, None
    del out[kept.nbytes:]
    return OK, kept.count, kept.tombstones, kept.max_timestamp, out


def rebase_records(buf, Py_ssize_t pos, Py_ssize_t end, int32_t count, int64_t shift):
    cdef Py_buffer view
    cdef Record record
    cdef const uint8_t* p
    cdef const uint8_t* began
    cdef const uint8_t* rest
    cdef const uint8_t* stop
    cdef const uint8_t* start
    cdef uint8_t* to
    cdef int64_t total = 0, delta
    cdef int32_t index, length = 0
    cdef int64_t body
    cdef int reason = OK, step
    out = None
    to = NULL
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        start = <const uint8_t*> view.buf
        stop = start + end
        for step in range(2):  # measure, then write
            p = start + pos
            for index in range(count):
                began = p
                reason = read_record(&p, stop, &record)
                if reason != OK:
                    return reason, None
                rest = read_varint(began, p, &length)
                if rest == NULL or rest >= p:  # the buffer was changed by another thread
                    return BAD_VARINT, None
                rest = read_varlong(rest + 1, p, &delta)
                if rest == NULL:
                    return BAD_VARINT, None
                delta = add_wrapping(delta, shift)
                body = 1 + number_bytes(delta) + (p - rest)
                if step == 0:
                    total += number_bytes(body) + body
                    continue
                total -= number_bytes(body) + body
                if total < 0:
                    return BAD_LENGTH, None
                to = write_number(to, body)
                to[0] = 0
                to = write_number(to + 1, delta)
                memcpy(to, rest, p - rest)
                to += p - rest
            if step == 0:
                out = PyByteArray_FromStringAndSize(NULL, total)
                to = <uint8_t*> PyByteArray_AS_STRING(out)
    finally:
        PyBuffer_Release(&view)
    return OK, out


def index_points(
    buf, Py_ssize_t pos, Py_ssize_t end, int64_t interval_bytes, int64_t since_bytes, int64_t max_timestamp,
    int64_t max_offset
):
    cdef Py_buffer view
    cdef Batch batch
    cdef list points = []
    cdef Py_ssize_t at = pos
    cdef int64_t last_offset = -1
    cdef const uint8_t* start
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        start = <const uint8_t*> view.buf
        while at < end:
            if open_batch(start + at, start + end, &batch) != ALL_DONE:
                raise ValueError("not whole batches")
            if batch.max_timestamp > max_timestamp:
                max_timestamp = batch.max_timestamp
                max_offset = batch.last_offset
            if since_bytes > interval_bytes:
                points.append((at - pos, batch.last_offset, max_timestamp, max_offset))
                since_bytes = 0
            since_bytes += batch.size
            at += batch.size
            last_offset = batch.last_offset
    finally:
        PyBuffer_Release(&view)
    return points, since_bytes, max_timestamp, max_offset, last_offset
