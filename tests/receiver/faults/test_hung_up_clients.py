"""A client that hangs up in the middle of its body, under a server with threads."""

import io
import sys

import pytest

from tests.receiver.faults.shops import Shop, signed

pytestmark = pytest.mark.slow


class Broken(io.BytesIO):
    """A body whose client has gone after the first bytes."""

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(10)
        if not found:
            raise ConnectionResetError("the client has gone")
        return found


@pytest.mark.parametrize("stream", [io.BytesIO, Broken])
def test_half_a_body_leaves_nothing(url: str, stream: type[io.BytesIO]) -> None:
    told: list[str] = []
    delivery = signed("evt_half")
    with Shop(url, "wsgi") as shop:
        shop.warm()
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/shop",
            "SERVER_NAME": "shop.test",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": stream(delivery.body[:20]),
            "wsgi.errors": sys.stderr,
            "CONTENT_LENGTH": str(len(delivery.body)),
        }
        try:
            shop.app.wsgi(environ, lambda *started: told.append(started[0]))
        except ConnectionResetError:
            assert stream is Broken
        else:
            assert told == ["400 Bad Request"]
        assert shop.app.router.memory_used == 0, "its bytes are still counted"
        assert shop.post().said == "accepted"
