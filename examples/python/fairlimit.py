"""Turns in the queues of `fairlimit serve`, with the standard library only.

    with turn("tax-office", timeout="30s"):
        call_the_tax_office()

If the program ends while it waits, or an exception does, the turn goes back.
At is where the server listens: http://host:port, or unix:///path.
"""

import contextlib
import http.client
import json
import socket
import urllib.parse


class Refused(Exception):
    """The turn would come in so many seconds, which is too late. Nothing was consumed."""


class _Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(urllib.parse.unquote(self.host))


@contextlib.contextmanager
def turn(name, at="http://127.0.0.1:7070", token=None, **query):
    """Wait for a turn. Query is permits, timeout ("30s"), flow and weight."""
    address = urllib.parse.urlsplit(at)
    if address.scheme == "unix":
        connection = _Unix(urllib.parse.quote(address.path, safe=""))
    else:
        connection = http.client.HTTPConnection(address.netloc)
    path = "/v1/queues/" + urllib.parse.quote(name, safe="") + "/turn?" + urllib.parse.urlencode(query)
    headers = {"Host": "localhost"} if address.scheme == "unix" else {}
    if token:
        headers["Authorization"] = "Bearer " + token
    with contextlib.closing(connection):
        connection.request("POST", path, headers=headers)
        answer = connection.getresponse()
        told = json.load(answer)
    if answer.status == 409:
        raise Refused(told["wait_ms"] / 1000)
    if answer.status != 200:
        raise OSError(f"no turn: {told.get('error', answer.status)}")
    yield told
