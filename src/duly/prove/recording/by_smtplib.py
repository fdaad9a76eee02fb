"""``smtplib``: a server on the other end of a socket that is none."""

from __future__ import annotations

import io
import smtplib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from duly.prove.calls import Call
from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.prove.recording.recorder import Recorder

GREETING = b"220 recorded by duly prove\r\n"
EXTENSIONS = b"250-recorded\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 AUTH PLAIN LOGIN\r\n"


class RecordedSmtpServer:
    """Answers as a mail server would, and takes every mail for delivered."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lines = bytearray()
        self._replies = bytearray(GREETING)
        self._recipients: list[str] = []
        self._in_mail = False

    # As a socket

    def sendall(self, data: bytes) -> None:
        """Hear what the client says."""
        self._lines += data
        while True:
            end = b"\r\n.\r\n" if self._in_mail else b"\r\n"
            said, found, rest = bytes(self._lines).partition(end)
            if not found:
                return
            self._lines = bytearray(rest)
            self._replies += self._mail(said) if self._in_mail else self._command(said.decode())

    def makefile(self, *_: Any, **__: Any) -> Any:
        """The side that the client reads from."""
        return Replies(self)

    def close(self) -> None:
        """There is nothing to close."""

    def settimeout(self, *_: Any) -> None:
        """It answers at once."""

    def line(self) -> bytes:
        """The next line of the replies."""
        line, found, rest = bytes(self._replies).partition(b"\n")
        self._replies = bytearray(rest)
        return line + found

    # As a server

    def _command(self, said: str) -> bytes:
        word = said.split(" ", maxsplit=1)[0].upper()
        if word == "EHLO":
            return EXTENSIONS
        if word == "RCPT":
            self._recipients.append(said.partition(":")[2].split(" ")[0].strip("<>"))
        if word == "DATA":
            self._in_mail = True
            return b"354 go on\r\n"
        if word == "RSET":
            self._recipients = []
        if word == "AUTH":
            return b"235 welcome\r\n"
        return b"221 bye\r\n" if word == "QUIT" else b"250 ok\r\n"

    def _mail(self, said: bytes) -> bytes:
        self._in_mail = False
        text = said.replace(b"\r\n..", b"\r\n.").replace(b"\r\n", b"\n").decode(errors="replace")
        address = "mailto:" + ",".join(self._recipients)
        self._recipients = []
        answer = self._recorder.take(Call("mail", "SEND", address, text))
        return b"250 taken\r\n" if answer.status < 300 else b"451 not now\r\n"


class Replies(io.RawIOBase):
    """A file of the replies."""

    def __init__(self, server: RecordedSmtpServer) -> None:
        super().__init__()
        self._server = server

    def readline(self, *_: Any) -> bytes:
        """One line."""
        return self._server.line()


@contextmanager
def record_smtplib(recorder: Recorder) -> Iterator[None]:
    """Let every client of smtplib talk to the recorder."""

    def socket(*_: Any) -> RecordedSmtpServer:
        return RecordedSmtpServer(recorder)

    def starttls(*_: Any, **__: Any) -> tuple[int, bytes]:
        return 220, b"as good as encrypted: it never leaves the process"

    with ExitStack() as stack:
        for owner in (smtplib.SMTP, smtplib.SMTP_SSL):
            stack.enter_context(replace_attribute(owner, "_get_socket", socket))
        stack.enter_context(replace_attribute(smtplib.SMTP, "starttls", starttls))
        yield
