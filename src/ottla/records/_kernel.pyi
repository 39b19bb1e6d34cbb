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

class KeyMap:
    ENTRY_BYTES: int
    slots: int
    def __init__(self, slots: int, secret: bytes) -> None: ...
    def __len__(self) -> int: ...
    def get(self, key: bytes) -> int: ...
    def hashed(self, key: bytes) -> tuple[int, int]: ...

def map_records(
    keys: KeyMap,
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    start_offset: int,
    limit: int,
) -> tuple[int, int]: ...
def map_batches(
    keys: KeyMap, buf: Buffer, pos: int, end: int, start_offset: int, limit: int
) -> tuple[int, int, int]: ...
def filter_records(
    keys: KeyMap,
    buf: Buffer,
    pos: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    latest_offset: int,
    keep_tombstones: bool,
) -> tuple[int, int, int, int, bytearray | None]: ...
def filter_batches(
    keys: KeyMap,
    buf: Buffer,
    pos: int,
    end: int,
    latest_offset: int,
    now_ms: int,
    look_offset: int,
    out: bytearray | memoryview,
    out_pos: int,
) -> tuple[int, int, int, int, int, int]: ...
def rebase_records(
    buf: Buffer, pos: int, end: int, count: int, shift: int
) -> tuple[int, bytearray | None]: ...
def index_points(
    buf: Buffer,
    pos: int,
    end: int,
    interval_bytes: int,
    since_bytes: int,
    max_timestamp: int,
    max_offset: int,
) -> tuple[list[tuple[int, int, int, int]], int, int, int, int]: ...
def check_batches(
    buf: Buffer, pos: int, end: int, next_offset: int, gaps_below: int, offset_max: int, epoch: int
) -> tuple[int, int, int, int]: ...
def producer_batches(
    buf: Buffer, pos: int, end: int, next_offset: int
) -> tuple[int, list[int], int, int]: ...
