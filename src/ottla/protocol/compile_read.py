"""Compiler from the schema of a message to a Python function that reads one version of it.

The function follows three rules. Consecutive fixed-size fields, and the length or tag count after them, are
read by one unpack. Every length and count is compared with the remaining bytes before it is used. For any
input the result is a message or a DecodeError.
"""

from __future__ import annotations

import struct
from typing import Any

from ottla.protocol import primitives
from ottla.protocol.codec_types import Buffer, MessageClass, Reader
from ottla.protocol.errors import DecodeError
from ottla.protocol.schema import FIXED, Field, element_bytes_min, fields_of, has_records
from ottla.protocol.source import Source

# A byte or two on the wire can become an object of a hundred bytes in memory. This limit on the elements of
# all arrays of a message is above that of any real message, and still harmless.
ELEMENTS_MAX = 1_000_000


def compile_reader(cls: MessageClass, version: int) -> Reader:
    reader: Reader = _ReaderSource(cls, version).compile()
    return reader


def read_as_bytes(reader: Reader, buffer: Buffer, pos: int) -> tuple[Any, int]:
    """Convert a message without records, which is small, to bytes: they are fastest to read."""
    message, end = reader(bytes(memoryview(buffer)[pos:]), 0)
    return message, end + pos


class _ReaderSource(Source):
    def __init__(self, cls: MessageClass, version: int) -> None:
        super().__init__(
            {
                "DecodeError": DecodeError,
                "BAD_INPUT": (struct.error, IndexError, UnicodeDecodeError),
                "new": object.__new__,
                "read_as_bytes": read_as_bytes,
                "uvarint_rest": primitives.uvarint_rest,
                "string_size_rest": primitives.string_size_rest,
                "skip_tags": primitives.skip_tags,
                "read_fixed_array": primitives.read_fixed_array,
                "read_uuid_array": primitives.read_uuid_array,
                "UNPACK_INT32S": primitives.UNPACK_INT32S,
            }
        )
        self.cls = cls
        self.version = version
        self.flexible = version >= cls.FLEXIBLE_FROM
        self.zero_copy = has_records(cls, version)
        self.label = f"{cls.__name__} v{version}"
        self._run: list[tuple[str, str, int]] = []
        self._tag_sections = 0

    def compile(self) -> Any:
        self.emit("def read(buf, pos):")
        self.indent()
        if self.zero_copy:
            self.emit("view = memoryview(buf)")
        else:
            self.emit("if type(buf) is not bytes: return read_as_bytes(read, buf, pos)")
        self.emit("end = len(buf)", f"room = {ELEMENTS_MAX}", "try:")
        self.indent()
        self._struct(self.cls, "o0", 0)
        self._flush()
        self.emit("return o0, pos")
        self.dedent()
        self.emit(
            "except BAD_INPUT as error:",
            f" raise DecodeError('{self.label}: ' + (str(error) or 'ends too soon')) from error",
        )
        return self.function("read", f"read {self.label}")

    # -- runs of fixed-size values ------------------------------------------------------------------

    def _take(self, code: str, size: int, target: str) -> None:
        self._run.append((code, target, size))

    def _flush(self) -> None:
        if not self._run:
            return
        targets = ", ".join(target for _, target, _ in self._run)
        if len(self._run) == 1 and self._run[0][0] == "B":
            self.emit(f"{targets} = buf[pos]", "pos += 1")
        else:
            unpack = self.unpacker("".join(code for code, _, _ in self._run))
            comma = "," if len(self._run) == 1 else ""
            self.emit(f"{targets}{comma} = {unpack}(buf, pos)", f"pos += {sum(s for _, _, s in self._run)}")
        self._run.clear()

    def _fail(self, what: str) -> str:
        return f"raise DecodeError({self.label + ': ' + what!r})"

    # -- structs -------------------------------------------------------------------------------------

    def _struct(self, cls: type[Any], var: str, level: int) -> None:
        """Read all of a struct into a new object called `var`."""
        self.emit(f"{var} = new({self.struct_class(cls)})")
        untagged, tagged = [], []
        for field in fields_of(cls):
            if field.is_in(self.version) and not field.is_tagged_in(self.version):
                untagged.append(field)
                continue
            if field.is_in(self.version):
                tagged.append(field)
            self._default(field, f"{var}.{field.name}", level)
        for field in untagged:
            self._field(field, f"{var}.{field.name}", level)
        if self.flexible:
            self._take("B", 1, "n")
            self._flush()
            self._tags(tagged, var, level)
        else:
            assert not tagged, self.label

    def _default(self, field: Field, target: str, level: int) -> None:
        if not field.has_fresh_default:
            self.emit(f"{target} = {field.default!r}")
        elif field.is_array:
            self.emit(f"{target} = []")
        else:
            assert field.struct is not None
            var = f"d{level}"
            self.emit(f"{target} = {var} = new({self.struct_class(field.struct)})")
            for inner in fields_of(field.struct):
                self._default(inner, f"{var}.{inner.name}", level + 1)

    def _tags(self, tagged: list[Field], var: str, level: int) -> None:
        if not tagged:
            self.emit("if n: pos = skip_tags(buf, pos, end, n)")
            return
        self._tag_sections += 1
        tag, stop, last = (f"{name}{self._tag_sections}" for name in ("t", "e", "last"))
        self.emit("if n:")
        self.indent()
        self.emit("if n > 127: n, pos = uvarint_rest(buf, pos, n)", f"{last} = -1", "for _ in range(n):")
        self.indent()
        for name in (tag, "n"):
            self.emit(f"{name} = buf[pos]", "pos += 1")
            self.emit(f"if {name} > 127: {name}, pos = uvarint_rest(buf, pos, {name})")
        self.emit(
            f"{stop} = pos + n",
            f"if {stop} > end or {tag} <= {last}: {self._fail('a tag is too long or out of order')}",
            f"{last} = {tag}",
        )
        for position, field in enumerate(sorted(tagged, key=lambda field: field.tag)):
            self.emit(f"{'elif' if position else 'if'} {tag} == {field.tag}:")
            self.indent()
            self._field(field, f"{var}.{field.name}", level)
            self._flush()
            self.emit(f"if pos != {stop}: {self._fail(field.name + ': not the size of its tag')}")
            self.dedent()
        self.emit("else:", f" pos = {stop}")
        self.dedent()
        self.dedent()

    # -- fields --------------------------------------------------------------------------------------

    def _field(self, field: Field, target: str, level: int) -> None:
        nullable = field.is_nullable_in(self.version)
        if field.is_array:
            self._array(field, target, level, nullable)
        elif field.struct is not None:
            self._nested(field, target, level, nullable)
        elif field.element in FIXED:
            code, size = FIXED[field.element]
            self._take(code, size, target)
        else:
            self._sized(field, target, nullable)

    def _nested(self, field: Field, target: str, level: int, nullable: bool) -> None:
        assert field.struct is not None
        var = f"o{level + 1}"
        if nullable:
            self._take("b", 1, "n")
            self._flush()
            bad = self._fail(field.name + ": neither null nor present")
            if field.is_tagged_in(self.version):
                # The marker of a tagged field is an unsigned varint: 0 is null. Ottla 0.2 wrote 0xff.
                self.emit(f"if not -1 <= n <= 1: {bad}", f"if n < 1: {target} = None", "else:")
            else:
                self.emit(f"if n < -1: {bad}", f"if n == -1: {target} = None", "else:")
            self.indent()
        self._struct(field.struct, var, level + 1)
        self._flush()
        self.emit(f"{target} = {var}")
        if nullable:
            self.dedent()

    def _size(self, field: Field) -> bool:
        """Read a length or count into n (plus one, if True is returned: then 0 is null)."""
        is_string = field.element == "string" and not field.is_array
        if self.flexible and not field.inflexible:
            self._take("B", 1, "n")
            self._flush()
            rest = "string_size_rest" if is_string else "uvarint_rest"
            self.emit(f"if n > 127: n, pos = {rest}(buf, pos, n)")
            return True
        self._take(*(("h", 2) if is_string else ("i", 4)), "n")
        self._flush()
        return False

    def _null_check(self, target: str, compact: bool, nullable: bool) -> bool:
        """Open an `else:` for the value if null is allowed."""
        if nullable:
            self.emit(f"if n == {0 if compact else -1}: {target} = None", "else:")
            self.indent()
        return nullable

    def _sized(self, field: Field, target: str, nullable: bool) -> None:
        compact = self._size(field)
        opened = self._null_check(target, compact, nullable)
        self._sized_value(field, f"{target} = %s", compact)
        if opened:
            self.dedent()

    def _sized_value(self, field: Field, statement: str, compact: bool) -> None:
        if field.element == "records":
            value = "view[pos:e]"
        elif field.element == "string":
            value = "str(buf[pos:e], 'utf-8')" if self.zero_copy else "buf[pos:e].decode()"
        else:
            value = "bytes(buf[pos:e])" if self.zero_copy else "buf[pos:e]"
        self.emit(
            f"e = pos + n{' - 1' if compact else ''}",
            f"if not pos <= e <= end: {self._fail(field.name + ': impossible length')}",
            statement % value,
            "pos = e",
        )

    # -- arrays --------------------------------------------------------------------------------------

    def _array(self, field: Field, target: str, level: int, nullable: bool) -> None:
        compact = self._size(field)
        opened = self._null_check(target, compact, nullable)
        if compact:
            self.emit("n -= 1")
        # Without this check a count of two billion would exhaust the memory.
        least = max(1, element_bytes_min(field, self.version, self.flexible))
        bound = "end - pos" if least == 1 else f"(end - pos) // {least}"
        self.emit(
            f"if not 0 <= n <= {bound}: {self._fail(field.name + ': impossible count')}",
            "room -= n",
            f"if room < 0: {self._fail(field.name + ': too many elements')}",
        )
        if field.element in FIXED:
            self._fixed_elements(field, target)
        else:
            items = f"l{level}"
            self.emit(f"{target} = {items} = []", "for _ in range(n):")
            self.indent()
            if field.struct is not None:
                var = f"o{level + 1}"
                self._struct(field.struct, var, level + 1)
                self._flush()
                self.emit(f"{items}.append({var})")
            else:
                element = _Element(field)
                self._sized_value(field, f"{items}.append(%s)", self._size(element))
            self.dedent()
        if opened:
            self.dedent()

    def _fixed_elements(self, field: Field, target: str) -> None:
        code, size = FIXED[field.element]
        if field.element == "uuid":
            self.emit(f"{target} = read_uuid_array(buf, pos, n)")
        elif field.element == "int32":
            self.emit(
                f"if n < {primitives.SHORT_ARRAY_MAX}: {target} = list(UNPACK_INT32S[n](buf, pos))",
                f"else: {target} = read_fixed_array('i', buf, pos, n)",
            )
        else:
            self.emit(f"{target} = read_fixed_array({code!r}, buf, pos, n)")
        self.emit(f"pos += {size} * n")


class _Element(Field):
    """The element of an array of strings or bytes, seen as a field."""

    __slots__ = ()

    def __init__(self, array: Field) -> None:
        self.element = array.element
        self.is_array = False
        self.inflexible = array.inflexible
