"""Files of lines of JSON that anybody may have written, read line by line, of bounded length."""

from __future__ import annotations

import re
from typing import IO, Any, ClassVar, NoReturn

import msgspec

from privagg.errors import UsageError

__all__ = ["LineReader"]


class LineReader:
    """Reads one file and knows at which line it is; what is wrong is said with its number.

    Parameters
    ----------
    file : binary file
        Open for reading.
    name : str
        What it is called in errors.
    """

    hint: ClassVar[str]
    """How such a file is written."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name, self._number = file, name, 0

    def _line(self, limit: int) -> bytes | None:
        self._number += 1
        line = self._file.readline(limit + 1)
        if not line:
            return None
        if not line.endswith(b"\n"):
            if len(line) > limit:
                self._fail(f"a line of more than {limit} bytes", "what the parameters allow")
            self._fail("a line without its end", "a whole file")
        return line

    def _decode(self, line: bytes, kind: type[Any], allowed: str) -> Any:
        try:
            return msgspec.json.decode(line, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            said = re.sub(r"\s+", " ", str(error))
            self._fail(f"no such line ({said})"[:80], allowed)

    def _fail(self, found: str, allowed: str) -> NoReturn:
        raise UsageError(f"{self._name}, line {self._number}", found, allowed, self.hint) from None
