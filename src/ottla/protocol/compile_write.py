"""Compiler from the schema of a message to a Python function that writes one version of it.

Consecutive fixed-size fields, and the length after them, are written by one pack. The pieces are joined at
the end; the content of a `records` field is not copied but becomes a separate part.
"""

from __future__ import annotations

import struct
from typing import Any

from ottla.protocol import primitives
from ottla.protocol.codec_types import MessageClass, Writer
from ottla.protocol.errors import EncodeError
from ottla.protocol.schema import FIXED, Field, fields_of, has_records
from ottla.protocol.source import Source


def compile_writer(cls: MessageClass, version: int) -> Writer:
    writer: Writer = _WriterSource(cls, version).compile()
    return writer


class _WriterSource(Source):
    def __init__(self, cls: MessageClass, version: int) -> None:
        super().__init__(
            {
                "EncodeError": EncodeError,
                "BAD_VALUE": (struct.error, TypeError, AttributeError, UnicodeEncodeError),
                "join": b"".join,
                "uvarint": primitives.uvarint,
                "string_size": primitives.string_size,
                "uuid_array": primitives.uuid_array,
                "pack": struct.pack,
                "UVARINT_BYTE": primitives.UVARINT_BYTE,
                "PACK_INT32S": primitives.PACK_INT32S,
                "PACK_COMPACT_INT32S": primitives.PACK_COMPACT_INT32S,
            }
        )
        self.cls = cls
        self.version = version
        self.flexible = version >= cls.FLEXIBLE_FROM
        self.label = f"{cls.__name__} v{version}"
        self.has_records = has_records(cls, version)
        self._run: list[tuple[str, str]] = []
        # The list that is being filled: that of the message, or of a tagged field.
        self._add = "add"
        self._tag_sections = 0

    def compile(self) -> Any:
        self.emit("def write(o0, head):")
        self.indent()
        self.emit("out = [head]", "add = out.append")
        if self.has_records:
            self.emit("parts = []")
        self.emit("try:")
        self.indent()
        self._struct(self.cls, "o0", 0)
        self._flush()
        if self.has_records:
            self.emit("if out: parts.append(join(out))", "return parts")
        else:
            self.emit("return [join(out)]")
        self.dedent()
        self.emit(
            "except BAD_VALUE as error:", f" raise EncodeError({self.label + ': '!r} + str(error)) from error"
        )
        return self.function("write", f"write {self.label}")

    # -- runs of fixed-size values ------------------------------------------------------------------

    def _put(self, code: str, value: str) -> None:
        self._run.append((code, value))

    def _flush(self) -> None:
        if self._run:
            self.emit(f"{self._add}({self._packed(self._run)})")
            self._run.clear()

    def _packed(self, run: list[tuple[str, str]]) -> str:
        """The expression for the bytes of a run; a value of "" is a zero byte."""
        if all(not value for _, value in run):
            return repr(bytes(len(run)))
        pack = self.packer("".join(code for code, _ in run))
        return f"{pack}({', '.join(value for _, value in run if value)})"

    def _put_size(self, field: Field, is_string: bool) -> None:
        """Write the length in n, where -1 is null, after the run so far."""
        if not self.flexible or field.inflexible:
            self._put("h" if is_string else "i", "n")
            self._flush()
            return
        long_size = "string_size(n)" if is_string else "uvarint(n + 1)"
        run = list(self._run)
        self._run.clear()
        if not run:
            self.emit(f"{self._add}(UVARINT_BYTE[n + 1] if n < 127 else {long_size})")
            return
        self.emit(
            f"if n < 127: {self._add}({self._packed([*run, ('B', 'n + 1')])})",
            f"else: {self._add}({self._packed(run)}); {self._add}({long_size})",
        )

    # -- structs -------------------------------------------------------------------------------------

    def _struct(self, cls: type[Any], var: str, level: int) -> None:
        tagged = []
        for field in fields_of(cls):
            if not field.is_in(self.version):
                if not field.ignorable:
                    self._absent(field, f"{var}.{field.name}")
            elif field.is_tagged_in(self.version):
                tagged.append(field)
        for field in fields_of(cls):
            if field.is_in(self.version) and field not in tagged:
                self._field(field, f"{var}.{field.name}", level)
        if not self.flexible:
            assert not tagged, self.label
        elif tagged:
            self._tags(tagged, var, level)
        else:
            self._put("x", "")

    def _absent(self, field: Field, value: str) -> None:
        self.emit(
            f"if {self._differs(field, value)}: raise EncodeError("
            f"{f'{self.label} has no {field.name}, but it is '!r} + repr({value}))"
        )

    def _differs(self, field: Field, value: str) -> str:
        """The condition that a field does not have its default."""
        if field.default is None:
            return f"{value} is not None"
        if field.is_array:
            return f"{value} != []"
        if field.struct is None:
            return f"{value} != {field.default!r}"
        inner = fields_of(field.struct)
        if field.nullable is None and not any(item.has_fresh_default for item in inner):
            return " or ".join(self._differs(item, f"{value}.{item.name}") for item in inner)
        name = f"default_{field.struct.__name__}"
        self.names[name] = field.struct()
        return f"{value} != {name}"

    def _tags(self, tagged: list[Field], var: str, level: int) -> None:
        self._flush()
        self._tag_sections += 1
        section = self._tag_sections
        outer = self._add
        count, pieces = f"k{section}", f"w{section}"
        self.emit(f"{count} = 0", f"{pieces} = []")
        for field in sorted(tagged, key=lambda field: field.tag):
            value = f"{var}.{field.name}"
            self.emit(f"if {self._differs(field, value)}:")
            self.indent()
            self._add = f"a{section}"
            self.emit(f"{count} += 1", f"c{section} = []", f"{self._add} = c{section}.append")
            self._field(field, value, level)
            self._flush()
            self.emit(
                f"s = join(c{section})",
                f"{pieces} += (uvarint({field.tag}), uvarint(len(s)), s)",
            )
            self.dedent()
        self._add = outer
        self.emit(f"{outer}(uvarint({count}))", f"if {count}: {outer}(join({pieces}))")

    # -- fields --------------------------------------------------------------------------------------

    def _field(self, field: Field, value: str, level: int) -> None:
        nullable = field.is_nullable_in(self.version)
        if field.is_array:
            self._array(field, value, level, nullable)
        elif field.struct is not None:
            self._nested(field, value, level, nullable)
        elif field.element in FIXED:
            if field.element == "uuid":
                self.emit(
                    f"if len({value}) != 16: raise EncodeError({field.name + ': a uuid has 16 bytes'!r})"
                )
            self._put(FIXED[field.element][0], value)
        else:
            self._sized(field, value, nullable)

    def _nested(self, field: Field, value: str, level: int, nullable: bool) -> None:
        assert field.struct is not None
        var = f"o{level + 1}"
        # The run may still refer to another struct by the same name.
        self._flush()
        if not nullable:
            self.emit(f"{var} = {value}")
            self._struct(field.struct, var, level + 1)
            return
        # A tagged field is always flexible: its marker is an unsigned varint, where -1 cannot be.
        null = "\\0" if field.is_tagged_in(self.version) else "\\xff"
        self.emit(f"{var} = {value}", f"if {var} is None: {self._add}(b'{null}')", "else:")
        self.indent()
        self._put("b", "1")
        self._struct(field.struct, var, level + 1)
        self._flush()
        self.dedent()

    def _sized(self, field: Field, value: str, nullable: bool) -> None:
        is_string = field.element == "string"
        encode = ".encode()" if is_string else ""
        if nullable:
            self.emit(f"s = {value}", "if s is None: s = b''; n = -1")
            self.emit(f"else: s = s{encode}; n = len(s)" if encode else "else: n = len(s)")
        else:
            self.emit(f"s = {value}{encode}", "n = len(s)")
        self._put_size(field, is_string)
        if field.element != "records":
            self.emit(f"{self._add}(s)")
            return
        # A records field is never part of a tagged field: the message's own list is being filled here.
        assert self._add == "add", self.label
        self.emit("if n > 0: parts.append(join(out)); parts.append(s); out.clear()")

    # -- arrays --------------------------------------------------------------------------------------

    def _array(self, field: Field, value: str, level: int, nullable: bool) -> None:
        items = f"l{level}"
        self.emit(f"{items} = {value}")
        if nullable:
            self.emit(f"if {items} is None: n = -1; {items} = ()", f"else: n = len({items})")
        else:
            self.emit(f"n = len({items})")
        if field.element == "int32":
            self._int32_array(items)
            return
        self._put_size(field, is_string=False)
        if field.element == "uuid":
            self.emit(f"if n > 0: {self._add}(uuid_array({items}))")
        elif field.element in FIXED:
            code = FIXED[field.element][0]
            self.emit(f"if n > 0: {self._add}(pack(f'>{{n}}{code}', *{items}))")
        else:
            self.emit(f"for o{level + 1} in {items}:")
            self.indent()
            self._element(field, f"o{level + 1}", level)
            self.dedent()

    def _element(self, field: Field, var: str, level: int) -> None:
        if field.struct is not None:
            before = len(self.lines)
            self._struct(field.struct, var, level + 1)
            self._flush()
            assert len(self.lines) > before, self.label
            return
        is_string = field.element == "string"
        self.emit(f"s = {var}{'.encode()' if is_string else ''}", "n = len(s)")
        self._put_size(field, is_string)
        self.emit(f"{self._add}(s)")

    def _int32_array(self, items: str) -> None:
        """Write the most frequent kind of array: a few replicas or partitions."""
        self._flush()
        add = self._add
        if self.flexible:
            table, size, long_size = "PACK_COMPACT_INT32S", "n + 1", "uvarint(n + 1)"
        else:
            table, size, long_size = "PACK_INT32S", "n", f"{self.packer('i')}(n)"
        self.emit(
            f"if 0 <= n < {primitives.SHORT_ARRAY_MAX}: {add}({table}[n]({size}, *{items}))",
            f"else: {add}({long_size}); {add}(pack(f'>{{len({items})}}i', *{items}))",
        )
