#!/usr/bin/env python3
"""A worker without any library: it offers one tool, `echo`, over a raw NATS socket (docs/protocol.md).

    holdpoint agent apply examples/echo.yaml
    python3 examples/worker.py

and in another terminal, from the same folder:

    holdpoint run start echo --input '{"customer": "c-7"}' --watch

Run it in the directory of `holdpoint up`, which writes the address and key of its bus to
holdpoint-data/cli.json. For another directory set HOLDPOINT_DATA=DIR. For another bus set
HOLDPOINT_NATS_URL (nats://[KEY@]host:port).

It runs one step at a time and asks before each, which is simple but slow.
"""

import binascii, json, os, queue, signal, socket, sys, threading, time, urllib.parse, uuid

TOOL = os.environ.get("HOLDPOINT_TOOL", "echo")
# What the registry knows of the tool before the first step: see "The registry" in docs/tools.md.
DEFINITION = {"name": TOOL, "version": "1", "risk": "low", "idempotent": True}
NODE = f"python-{uuid.uuid4().hex[:12]}"  # new at every start


class Parked(Exception):
    """The tool has asked people and ends. Its step is dispatched again with the answer."""


def echo(args, key, cancelled, people):
    """The tool. `key` is the same for every attempt. A long tool must check `cancelled.is_set()`.
    `people(question)` returns the answer of a person, or parks the step until there is one."""
    if isinstance(args, dict) and "ask" in args:
        return args | {"answer": people(args["ask"])}
    return args


class Nats:
    """CONNECT, SUB, PUB, and requests with an inbox. A lost connection ends the program."""

    def __init__(self, url):
        at = urllib.parse.urlparse(url)
        self.socket = socket.create_connection((at.hostname, at.port or 4222))
        self.lines, self.lock, self.subs, self.last = self.socket.makefile("rb"), threading.Lock(), {}, 0
        self.lines.readline()  # INFO
        options = {"verbose": False, "headers": True, "no_responders": True, "name": NODE}
        if at.password:
            options |= {"user": urllib.parse.unquote(at.username), "pass": urllib.parse.unquote(at.password)}
        elif at.username:
            options |= {"auth_token": urllib.parse.unquote(at.username)}
        self.send(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
        threading.Thread(target=self.read, daemon=True).start()

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)

    def publish(self, subject, body=b"", reply=""):
        self.send(f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n")

    def subscribe(self, subject):
        with self.lock:
            self.last += 1
            sid = str(self.last)
            self.subs[sid] = messages = queue.Queue()
        self.send(f"SUB {subject} {sid}\r\n".encode())
        return sid, messages

    def request(self, subject, body, patience):
        """(status, body, reply subject) of the reply; None after a timeout."""
        inbox = f"_INBOX.{uuid.uuid4().hex}"
        sid, messages = self.subscribe(inbox)
        self.publish(subject, body, inbox)
        try:
            return messages.get(timeout=patience)
        except queue.Empty:
            return None
        finally:
            self.send(f"UNSUB {sid}\r\n".encode())
            self.subs.pop(sid, None)

    def read(self):
        while line := self.lines.readline():
            words = line.decode().split()
            if words[:1] == ["PING"]:
                self.send(b"PONG\r\n")
            elif words[:1] == ["-ERR"]:
                print("the server says:", line.decode().strip())
            elif words[:1] in (["MSG"], ["HMSG"]):
                head = int(words[-2]) if words[0] == "HMSG" else 0
                payload = self.lines.read(int(words[-1]) + 2)[:-2]
                # MSG subject sid [reply] size; HMSG has two sizes.
                reply = words[3] if len(words) == (6 if words[0] == "HMSG" else 5) else ""
                status = payload[:head].decode().partition("\r\n")[0].partition(" ")[2][:3]
                if messages := self.subs.get(words[2]):
                    messages.put((status, payload[head:], reply))
        print("the connection is lost")
        os._exit(1)


def ask(nats, workspace, verb, aggregate, command, patience):
    """The `ok` of the reply, or None (a problem, a timeout, or no responder). It is a list if the command has items."""
    answer = nats.request(subject(workspace, "ask", verb, aggregate), body(command), patience)
    return json.loads(answer[1]).get("ok") if answer and not answer[0] else None


def subject(workspace, way, verb, aggregate):
    return f"hp.{workspace}.{way}.executor.{binascii.crc32(aggregate.encode()) % 16}.{verb}"


def body(command):
    return json.dumps({"actor": "service:worker", "command": command}).encode()


class Worker:
    def __init__(self, nats):
        self.nats = nats
        self.claim, self.lease_ms = None, 30000  # the granted step and its lease
        self.cancelled, self.heartbeat_now = threading.Event(), threading.Event()
        self.is_running = True

    def register(self):
        """Registers the tool before the first heartbeat, and again until there is a reply. Its risk counts from then on."""
        command = body({"node": NODE, "tools": [DEFINITION]})
        while True:
            reply = self.nats.request(subject("sys", "ask", "register_tools", NODE), command, 2)
            answer = json.loads(reply[1]) if reply and not reply[0] else {}
            # An older executor refuses the command as a whole.
            problem = answer.get("problem") or answer.get("ok", [{}])[0].get("problem")
            if problem and problem["status"] < 500:
                return print(f"{TOOL} is not registered:", problem["detail"])
            if "ok" in answer and not problem:
                return
            time.sleep(1)

    def heartbeat(self):
        """Renews the lease and learns which steps to stop."""
        while self.is_running:
            self.heartbeat_now.clear()
            claim, lease = self.claim, self.lease_ms if self.claim else 30000
            heartbeat = {"node": NODE, "tools": [TOOL], "working": [claim] if claim else [], "queue_depth": 0, "lease_ms": lease}
            answer = ask(self.nats, "sys", "heartbeat", NODE, heartbeat, min(lease / 6000, 1))
            if answer and claim in answer["stop"]:
                self.cancelled.set()
            self.heartbeat_now.wait(min(answer["again_ms"], lease / 3) / 1000 if answer else min(lease / 6000, 1))

    def answer_probes(self):
        """The executor probes a silent node before it ends its leases."""
        _, asked = self.nats.subscribe(f"hp.sys.node.{NODE}")
        while True:
            _, _, reply = asked.get()
            if reply:
                self.nats.publish(reply, b'{"ok":null}')
            self.heartbeat_now.set()

    def step(self, payload, ack):
        """One delivery: hold, ask, ack on `go`, call, report."""
        step, delivery = json.loads(payload), int(ack.split(".")[-5])
        held = threading.Event()
        threading.Thread(target=self.progress, args=(ack, held), daemon=True).start()
        grant = self.may_start(step, delivery)
        held.set()  # no progress acks after the final one
        if grant is None:
            return self.nats.publish(ack, b'-NAK {"delay": 1000000000}')
        if grant == "go":
            self.cancelled.clear()
            self.lease_ms = step.get("claim_timeout_ms", 30000)
            self.claim = {key: step[key] for key in ("workspace", "run", "step", "dispatch")}
            self.heartbeat_now.set()
        self.nats.publish(ack, b"+ACK")
        if grant == "go":
            result = self.call(step)
            if not self.cancelled.is_set():
                self.report(step, result)
            self.claim = None

    def progress(self, ack, held):
        while not held.wait(0.7):
            self.nats.publish(ack, b"+WPI")

    def may_start(self, step, delivery):
        """`go`, `drop`, `uncertain`, or None if nothing was granted. Asks again after a timeout."""
        known = {"delivery": delivery, "high_risk": DEFINITION["risk"] == "high", "idempotent": DEFINITION["idempotent"]}
        command = {"node": NODE, "steps": [{key: step[key] for key in ("run", "step", "dispatch")} | known]}
        silent = False
        while True:
            since = time.monotonic()
            answer = ask(self.nats, step["workspace"], "start_steps", step["run"], command, 10)
            if answer and "ok" in answer[0]:
                return answer[0]["ok"]
            silent |= answer is None and time.monotonic() - since > 1
            if not silent:
                return None
            time.sleep(0.5)

    def people(self, step, question):
        """Asks with the same key every time, so a later attempt gets the answer."""
        command = {key: step[key] for key in ("run", "step", "dispatch")}
        command |= {"token": step.get("token"), "question": {"question": question, "mode": "park"}}
        asked = ask(self.nats, step["workspace"], "request_input", step["run"], command, 10)
        if asked is None:
            raise RuntimeError("the question could not be opened")
        if asked["status"] == "open":
            raise Parked()
        return asked["answer"]

    def call(self, step):
        began, failure, data, parks = time.monotonic(), None, None, False
        try:
            data = echo(step["args"], f"{step['run']}/{step['step']}", self.cancelled, lambda question: self.people(step, question))
        except Parked:
            parks = True
        except Exception as error:
            failure = f"The tool failed with {type(error).__name__}"
        took = int((time.monotonic() - began) * 1000)
        action = {"success": failure is None, "description": failure or "Done", "error": failure, "data": data, "duration_ms": took}
        code = "tool_failed" if failure else None
        return {key: step[key] for key in ("run", "step", "dispatch")} | {"result": action, "error_code": code, "parks": parks}

    def report(self, step, result):
        """Repeats until the executor replies. After a second the result is also stored in the stream."""
        command, stored, pause, since = {"node": NODE, "results": [result]}, False, 0.2, time.monotonic()
        while not self.cancelled.is_set():
            answer = ask(self.nats, step["workspace"], "step_results", step["run"], command, 1)
            if answer and ("ok" in answer[0] or answer[0]["problem"]["status"] < 500):
                return print(step["run"], step["step"], answer[0])
            if not stored and time.monotonic() - since >= 1:
                to = subject(step["workspace"], "cmd", "step_results", step["run"])
                kept = self.nats.request(to, body(command), 2)
                stored = bool(kept and not kept[0] and "seq" in json.loads(kept[1]))
            time.sleep(pause)
            pause = min(pause * 2, 2)

    def take(self, consumer, pull):
        """Takes one step and does it. Returns whether there was one."""
        pull = json.dumps(pull).encode()
        message = self.nats.request(f"$JS.API.CONSUMER.MSG.NEXT.HP_STEPS.{consumer}", pull, 6)
        if not message or message[0]:  # a status without a message
            return False
        self.step(message[1], message[2])
        return True

    def run(self):
        token = TOOL.replace(".", "~")
        # The overflow has the steps of workspaces with many calls in progress.
        normal, overflow = f"steps-{token}", f"overflow-{token}"
        self.register()
        threading.Thread(target=self.answer_probes, daemon=True).start()
        threading.Thread(target=self.heartbeat, daemon=True).start()
        # The executor creates the consumers of the queue after a heartbeat with the tool.
        missing = b'{"error": {}}'
        for name in (normal, overflow):
            info = f"$JS.API.CONSUMER.INFO.HP_STEPS.{name}"
            while "error" in json.loads((self.nats.request(info, b"", 5) or (None, missing))[1] or missing):
                time.sleep(0.1)
        print(f"{NODE} takes steps of {TOOL}")
        try:
            has_overflow = False
            while True:
                # A step of the overflow waits one second at most for the normal lane.
                self.take(normal, {"batch": 1, "no_wait": True} if has_overflow else {"batch": 1, "expires": 1_000_000_000})
                has_overflow = self.take(overflow, {"batch": 1, "no_wait": True})
        except KeyboardInterrupt:
            self.is_running = False
            ask(self.nats, "sys", "deregister", NODE, {"node": NODE}, 1)


def address():
    """The bus with its key: from the environment, else from the file of `holdpoint up`."""
    if url := os.environ.get("HOLDPOINT_NATS_URL"):
        return url
    path = os.path.join(os.environ.get("HOLDPOINT_DATA") or "holdpoint-data", "cli.json")
    try:
        with open(path) as file:
            return json.load(file)["nats_url"]
    except FileNotFoundError:
        sys.exit(f"no {path}: run this in the directory of `holdpoint up`, or set HOLDPOINT_DATA or HOLDPOINT_NATS_URL")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    Worker(Nats(address())).run()
