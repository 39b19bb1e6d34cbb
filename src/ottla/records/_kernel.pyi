from collections.abc import Callable, Iterable, Sequence

from ottla.records._pure import Buffer, Column, Measured, NewRecord, RecordTuple, Section, Walked

def walk(
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_timestamp: int,
    low_ms: int = ...,
    high_ms: int = ...,
    need_keys: bool = False,
) -> Walked: ...
def quick_check(
    buf: Buffer, bytes_max: int, target_codec: int, high_ms: int, crc32c: Callable[[memoryview], int]
) -> tuple[int, ...] | None: ...
def split(
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
) -> tuple[int, int, list[RecordTuple]]: ...
def pack(records: Iterable[NewRecord], prefix_bytes: int) -> tuple[bytearray, int, int]: ...
def measure(buf: Buffer, pos: int, end: int, count: int) -> Measured: ...
def decode(
    sections: Iterable[Section], rows_max: int, headers_max: int, outputs: Sequence[Buffer]
) -> tuple[int, int, int, int, int, bool]: ...
def encode(
    start: int,
    stop: int,
    timestamps: Buffer,
    timestamps_start: int,
    key_buffers: Column,
    value_buffers: Column,
    list_buffers: Column,
    header_key_buffers: Column,
    header_value_buffers: Column,
    prefix_bytes: int,
    bytes_max: int,
) -> tuple[bytearray, int, int, int]: ...
def partitions_of_keys(key_buffers: Column, partition_count: int, out: Buffer) -> None: ...
