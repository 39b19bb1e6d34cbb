"""Generation of Python source, shared by the compilers of readers and writers."""

from __future__ import annotations

import struct
from typing import Any


class Source:
    """Lines at the current depth, and the names that they refer to."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.lines: list[str] = []
        self.depth = 0
        self._layouts: dict[str, str] = {}

    def emit(self, *lines: str) -> None:
        indent = " " * self.depth
        self.lines += [indent + line for line in lines]

    def indent(self) -> None:
        self.depth += 1

    def dedent(self) -> None:
        self.depth -= 1

    def unpacker(self, layout: str) -> str:
        return self._layout("u", layout, "unpack_from")

    def packer(self, layout: str) -> str:
        return self._layout("p", layout, "pack")

    def _layout(self, prefix: str, layout: str, method: str) -> str:
        name = self._layouts.get(layout)
        if name is None:
            name = self._layouts[layout] = f"{prefix}{len(self._layouts)}"
            self.names[name] = getattr(struct.Struct(">" + layout), method)
        return name

    def struct_class(self, cls: type[Any]) -> str:
        self.names[cls.__name__] = cls
        return cls.__name__

    def function(self, name: str, label: str) -> Any:
        """Compile; the label is what tracebacks show."""
        text = "\n".join(self.lines) + "\n"
        exec(compile(text, f"<{label}>", "exec"), self.names)
        return self.names[name]
