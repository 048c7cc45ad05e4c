#!/usr/bin/env python3
"""Starts a run by publishing a command on JetStream, and waits for the reply.

It needs only the standard library, because a NATS client is a socket and a few commands. docs/subjects.md
describes the subject, the headers, the body and the reply.

    holdpoint agent apply examples/echo.yaml
    python3 examples/publish.py echo '{"customer": "c-7"}'
    holdpoint contact put '{"id": "c-ada", "name": "Ada"}'
    python3 examples/publish.py echo '{"customer": "c-7"}' c-ada

The second argument is the input of the run as JSON, the third the id of a stored contact. Run this in the
directory of `holdpoint up`, which writes the address and key of its bus to holdpoint-data/cli.json. For
another directory set HOLDPOINT_DATA=DIR. For another bus set HOLDPOINT_NATS_URL (nats://[KEY@]host:port)
and HOLDPOINT_WORKSPACE.
"""

import json
import os
import socket
import sys
import time
import urllib.parse
import zlib


class Nats:
    """One connection: publish with headers, and messages of one inbox."""

    def __init__(self, url):
        at = urllib.parse.urlparse(url)
        self.socket = socket.create_connection((at.hostname, at.port or 4222), timeout=10)
        self.buffer = b""
        assert self.line(time.monotonic() + 10).startswith(b"INFO ")
        options = {"verbose": False, "pedantic": False, "headers": True, "name": "publish.py"}
        if at.password:
            options |= {"user": urllib.parse.unquote(at.username), "pass": urllib.parse.unquote(at.password)}
        elif at.username:
            options |= {"auth_token": urllib.parse.unquote(at.username)}
        # With keys (`holdpoint nats-config`) an inbox is `_INBOX.`, the public key, and a name.
        self.inbox = f"_INBOX.program.{os.urandom(12).hex()}"
        self.socket.sendall(f"CONNECT {json.dumps(options)}\r\nSUB {self.inbox}.* 1\r\n".encode())

    def publish(self, subject, reply, headers, body):
        head = "NATS/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        head = head.encode()
        line = f"HPUB {subject} {reply} {len(head)} {len(head) + len(body)}\r\n".encode()
        self.socket.sendall(line + head + body + b"\r\n")

    def fill(self, until):
        """Reads the available bytes; TimeoutError after the deadline."""
        self.socket.settimeout(max(0.01, until - time.monotonic()))
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the server has closed the connection")
        self.buffer += more

    def line(self, until):
        while b"\r\n" not in self.buffer:
            self.fill(until)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, size, until):
        while len(self.buffer) < size + 2:
            self.fill(until)
        payload, self.buffer = self.buffer[:size], self.buffer[size + 2 :]
        return payload

    def message(self, until):
        """The next message as (subject, JSON); None after the deadline."""
        while True:
            try:
                words = self.line(until).split()
            except TimeoutError:
                return None
            if words[0] == b"PING":
                self.socket.sendall(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise PermissionError(b" ".join(words[1:]).decode())
            elif words[0] in (b"MSG", b"HMSG"):
                payload = self.take(int(words[-1]), until + 5)
                skip = int(words[-2]) if words[0] == b"HMSG" else 0
                return words[1].decode(), json.loads(payload[skip:] or b"null")


def run_id():
    """`run_` and a UUIDv7, which sorts by time. A repeated command with the same id starts no second run."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (int(time.time() * 1000) << 80) | random
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return f"run_{value:032x}"


def connection():
    """Address of the bus with its key, and workspace: from the environment, else from the file of `holdpoint up`."""
    left = {}
    path = os.path.join(os.environ.get("HOLDPOINT_DATA") or "holdpoint-data", "cli.json")
    if "HOLDPOINT_NATS_URL" not in os.environ:
        try:
            with open(path) as file:
                left = json.load(file)
        except FileNotFoundError:
            sys.exit(f"no {path}: run this in the directory of `holdpoint up`, or set HOLDPOINT_DATA or HOLDPOINT_NATS_URL")
    url = os.environ.get("HOLDPOINT_NATS_URL") or left["nats_url"]
    return url, os.environ.get("HOLDPOINT_WORKSPACE") or left.get("workspace", "default")


def start_run(nats, workspace, agent, given, contact):
    run = run_id()
    partition = zlib.crc32(run.encode()) % 16
    subject = f"hp.{workspace}.cmd.executor.{partition}.start_run"
    command = {"run": run, "agent": agent, "input": given, "contact": contact, "labels": {}}
    body = json.dumps({"actor": "publish.py", "command": command}).encode()
    stored, answered = f"{nats.inbox}.stored", f"{nats.inbox}.answered"
    # A command is done when its reply has arrived. Until then it is sent again with the same id.
    for attempt in range(5):
        nats.publish(subject, stored, {"hp-reply": answered}, body)
        until = time.monotonic() + 2 + 2 * attempt
        while (message := nats.message(until)) is not None:
            where, answer = message
            if where == stored and "error" in answer:
                sys.exit(f"not stored: {answer['error']}")
            if where == answered:
                return answer
    sys.exit("stored without a reply: the executor is down and will start the run when it is back")


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    agent, given, contact = (sys.argv[1:] + [None, None])[:3]
    url, workspace = connection()
    answer = start_run(Nats(url), workspace, agent, json.loads(given) if given else None, contact)
    if "problem" in answer:
        problem = answer["problem"]
        sys.exit(f"refused: {problem['detail']} ({problem['code']})")
    print(json.dumps(answer["ok"]))


if __name__ == "__main__":
    main()
