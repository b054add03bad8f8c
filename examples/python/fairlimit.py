"""Turns in the queues of `fairlimit serve`, with the standard library only.

    with turn("openai", timeout="30s", tokens=1200) as t:
        t.used["tokens"] = call_openai()  # settled at the end of the block

If the program ends while it waits, or an exception does, the turn goes back.
What used does not name counts as it was asked for. If the settling fails,
that is a warning: what the block did stands. At is where the server
listens, http://host:port or unix:///path; else $FAIRLIMIT_URL says it.
"""

import contextlib
import http.client
import json
import os
import socket
import urllib.parse
import warnings


class Refused(Exception):
    """The turn would come in so many seconds, which is too late. Nothing was consumed."""


class _Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(urllib.parse.unquote(self.host))


class Turn:
    def __init__(self, waited_ms):
        self.waited_ms = waited_ms
        self.used = {}


@contextlib.contextmanager
def turn(name, at=None, token=None, **query):
    """Wait for a turn. Query is permits, timeout ("30s"), flow and weight, or a unit."""
    at = at or os.environ.get("FAIRLIMIT_URL") or "http://127.0.0.1:7070"
    told = _post("/v1/queues/" + urllib.parse.quote(name, safe="") + "/turn", at, token, query)
    t = Turn(told["waited_ms"])
    try:
        yield t
    finally:
        if t.used:
            try:
                _post("/v1/turns/" + told["turn"] + "/settle", at, token, t.used)
            except Exception as problem:  # must not hide what the block did
                warnings.warn(f"the turn was not settled: {problem}")


def _post(path, at, token, query):
    address = urllib.parse.urlsplit(at)
    if address.scheme == "unix":
        connection = _Unix(urllib.parse.quote(address.path, safe=""))
    else:
        connection = http.client.HTTPConnection(address.netloc)
    headers = {"Host": "localhost"} if address.scheme == "unix" else {}
    if token:
        headers["Authorization"] = "Bearer " + token
    with contextlib.closing(connection):
        connection.request("POST", path + "?" + urllib.parse.urlencode(query), headers=headers)
        answer = connection.getresponse()
        told = json.load(answer)
    if "wait_ms" in told:
        raise Refused(told["wait_ms"] / 1000)
    if answer.status != 200:
        raise OSError(told.get("error", answer.status))
    return told
