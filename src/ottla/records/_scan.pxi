"""Scans of a segment for the compiled kernel: recovery after a crash, and the producer state.

Only headers and checksums are looked at, and the GIL is released: logs are recovered in several threads.
"""

from libc.stdlib cimport malloc

cdef enum:
    SCANNED = 0
    BROKEN = 1
    OTHER_EPOCH = 2
    GAP = 3

    LAST_BATCHES = 5  # of each producer
    TRANSACTIONAL = 0x10
    CONTROL = 0x20


def check_batches(
    buf, Py_ssize_t pos, Py_ssize_t end, int64_t next_offset, int64_t gaps_below, int64_t offset_max,
    int32_t epoch
):
    cdef Py_buffer view
    cdef Batch batch
    cdef int status = SCANNED, opened
    cdef int64_t count = 0
    cdef const uint8_t* start
    cdef const uint8_t* p
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        start = <const uint8_t*> view.buf
        with nogil:
            while True:
                p = start + pos
                opened = open_batch(p, start + end, &batch)
                if opened != ALL_DONE:
                    status = SCANNED if opened == LOOK else BROKEN
                    break
                if (
                    batch.base_offset < next_offset or batch.base_offset > offset_max
                    or batch.last_offset < batch.base_offset or batch.last_offset > offset_max
                    or not checksum_holds(p, batch.size)
                ):
                    status = BROKEN
                    break
                if batch.base_offset > next_offset and batch.base_offset >= gaps_below:
                    status = GAP
                    break
                if be32(p + 12) != epoch:
                    status = OTHER_EPOCH
                    break
                next_offset = batch.last_offset + 1
                pos += batch.size
                count += 1
    finally:
        PyBuffer_Release(&view)
    return status, pos, next_offset, count


cdef struct Produced:
    Py_ssize_t pos
    int64_t producer_id
    int attributes
    bint kept


cdef struct Seen:
    int64_t producer_id
    int32_t attributes  # of its last batch in the forward pass, 0 if there was none
    int32_t count  # of its data batches in the backward pass
    bint used


cdef inline Seen* find_producer(Seen* table, uint64_t mask, int64_t producer_id) noexcept nogil:
    """The producer's slot; at least half of the slots are free."""
    cdef uint64_t at = (<uint64_t> producer_id * <uint64_t> 0x9E3779B97F4A7C15) >> 20 & mask
    while table[at].used and table[at].producer_id != producer_id:
        at = (at + 1) & mask
    if not table[at].used:
        table[at].used = True
        table[at].producer_id = producer_id
    return table + at


cdef void mark_kept(Produced* batches, int64_t count, Seen* table, uint64_t mask) noexcept nogil:
    cdef Produced* batch
    cdef Seen* seen
    cdef int64_t index
    for index in range(count):
        batch = batches + index
        seen = find_producer(table, mask, batch.producer_id)
        if batch.attributes & CONTROL or (
            batch.attributes & TRANSACTIONAL
            and (not seen.attributes & TRANSACTIONAL or seen.attributes & CONTROL)
        ):
            batch.kept = True
        seen.attributes = batch.attributes
    for index in range(count - 1, -1, -1):
        batch = batches + index
        if batch.attributes & CONTROL:
            continue
        seen = find_producer(table, mask, batch.producer_id)
        if seen.count < LAST_BATCHES:
            seen.count += 1
            batch.kept = True


def producer_batches(buf, Py_ssize_t pos, Py_ssize_t end, int64_t next_offset):
    cdef Py_buffer view
    cdef Batch batch
    cdef int status = SCANNED, opened
    cdef int64_t producer_id, count = 0, index
    cdef uint64_t slots = 2
    cdef const uint8_t* start
    cdef const uint8_t* p
    cdef Produced* batches = NULL
    cdef Seen* table = NULL
    cdef list positions = []
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        check_range(pos, end, view.len)
        start = <const uint8_t*> view.buf
        batches = <Produced*> malloc(((end - pos) // BATCH_HEADER_BYTES + 1) * sizeof(Produced))
        if batches == NULL:
            raise MemoryError("no room for the batches")
        with nogil:
            while True:
                p = start + pos
                opened = open_batch(p, start + end, &batch)
                if opened != ALL_DONE:
                    status = SCANNED if opened == LOOK else BROKEN
                    break
                if batch.base_offset < next_offset or batch.last_offset < batch.base_offset:
                    status = BROKEN
                    break
                producer_id = be64(p + 43)
                if producer_id >= 0:
                    batches[count].pos = pos
                    batches[count].producer_id = producer_id
                    batches[count].attributes = batch.attributes & (TRANSACTIONAL | CONTROL)
                    batches[count].kept = False
                    count += 1
                next_offset = batch.last_offset + 1
                pos += batch.size
        if count:
            while slots < 2 * <uint64_t> count:
                slots *= 2
            table = <Seen*> calloc(slots, sizeof(Seen))
            if table == NULL:
                raise MemoryError("no room for the producers")
            with nogil:
                mark_kept(batches, count, table, slots - 1)
            for index in range(count):
                if batches[index].kept:
                    positions.append(batches[index].pos)
    finally:
        free(table)
        free(batches)
        PyBuffer_Release(&view)
    return status, positions, pos, next_offset
