"""Partitions of keys for the compiled kernel: murmur2 as the Java client computes it, over a column."""

cdef inline uint32_t murmur2(const uint8_t* data, int32_t size) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = <uint32_t> 0x9747B28C ^ <uint32_t> size
    cdef uint32_t k
    cdef int32_t left = size
    while left >= 4:
        k = data[0] | (<uint32_t> data[1] << 8) | (<uint32_t> data[2] << 16) | (<uint32_t> data[3] << 24)
        k *= m
        k ^= k >> 24
        k *= m
        h *= m
        h ^= k
        data += 4
        left -= 4
    if left == 3:
        h ^= <uint32_t> data[2] << 16
    if left >= 2:
        h ^= <uint32_t> data[1] << 8
    if left >= 1:
        h ^= data[0]
        h *= m
    h ^= h >> 13
    h *= m
    h ^= h >> 15
    return h


def partitions_of_keys(key_buffers, int32_t partition_count, out):
    cdef list held = []
    cdef Input keys
    cdef Held result = Held(out, True)
    cdef int32_t* partitions
    cdef const uint8_t* data = NULL
    cdef int32_t size = 0
    cdef int64_t row
    if partition_count <= 0:
        raise ValueError("no partitions")
    open_input(&keys, key_buffers, held)
    partitions = <int32_t*> result.at_least(keys.length * 4)
    for row in range(keys.length):
        if get(&keys, row, &data, &size) < 0:
            raise ValueError("a column does not hold the row")
        partitions[row] = -1 if size < 0 else <int32_t> ((murmur2(data, size) & 0x7FFFFFFF) % <uint32_t> partition_count)
