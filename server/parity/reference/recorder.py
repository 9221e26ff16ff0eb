"""Plays exchanges against a server and names in them what may differ between two servers.

Placeholders: <id1>, <id2>, … are ids that the server made, numbered in the order of their first
appearance in a scenario; <hex1>, … ids of interrupts; <event1>, … ids of frames of a stream.
The replay binds each to what stele answers in its place, and puts that into later requests.
<time> and <ms> are times; nothing is bound to them. Keys of DROPPED tell about the process
that answered, and are left out on both sides.
"""

import json
import queue
import re
import threading
import time

import httpx
from websockets.sync.client import connect

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
HEX = re.compile(r"(?<![0-9a-f-])[0-9a-f]{32}(?![0-9a-f-])")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
EVENT = re.compile(r"^\d{13}-\d+$")
# OURS begins the ids that scenarios choose: they stay as they are.
OURS = "00000000-0000-4000-8000-"

DROPPED = [
    "__after_seconds__",
    "__pregel_node_finished",
    "__request_start_time_ms__",
    "langgraph_api_url",
    "langgraph_api_version",
    "langgraph_auth_permissions",
    "langgraph_auth_user",
    "langgraph_auth_user_id",
    "langgraph_host",
    "langgraph_plan",
    "langgraph_request_id",
    "langgraph_version",
    "lc_versions",
    "ls_integration",
    "ls_model_type",
    "ls_provider",
    "user_id",
]

HEADERS = [
    "access-control-allow-credentials",
    "access-control-allow-origin",
    "access-control-allow-private-network",
    "allow",
    "cache-control",
    "content-location",
    "content-type",
    "location",
    "x-accel-buffering",
    "x-pagination-next",
    "x-pagination-total",
]


# LATE is how long, in seconds, a recording waits for what comes after the end of a run.
LATE = 1.5


def over(message):
    """Whether an event of protocol v2 says that the run is over."""
    if message.get("method") != "lifecycle" or message["params"]["namespace"]:
        return False
    return message["params"]["data"]["event"] in ("completed", "failed", "interrupted")


class Reader:
    """Reads the frames of a response as they come."""

    def __init__(self, response):
        self.response, self.frames = response, queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for frame in frames(self.response.iter_lines()):
                self.frames.put(frame)
        except Exception:  # it was closed
            pass
        self.frames.put(None)

    def next(self, seconds=15):
        """The next frame; None at the end, or if none comes in time."""
        try:
            return self.frames.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self):
        self.response.close()


class Names:
    """Names of a scenario: the same thing has the same name everywhere."""

    def __init__(self, literal):
        self.literal, self.known, self.count = literal, {}, {}

    def _name(self, kind, found):
        if found not in self.known:
            self.count[kind] = self.count.get(kind, 0) + 1
            self.known[found] = f"<{kind}{self.count[kind]}>"
        return self.known[found]

    def _uuid(self, m):
        found = m.group(0)
        return found if found.startswith(OURS) or found in self.literal else self._name("id", found)

    def text(self, s):
        s = TIME.sub("<time>", s)
        s = UUID.sub(self._uuid, s)
        s = HEX.sub(lambda m: self._name("hex", m.group(0)), s)
        return self._name("event", s) if EVENT.match(s) else s

    def value(self, v, key=None):
        if isinstance(v, dict):
            return {self.text(k): self.value(v[k], k) for k in sorted(v) if k not in DROPPED}
        if isinstance(v, list):
            return [self.value(x) for x in v]
        if isinstance(v, str):
            return "<event>" if key == "event_id" else self.text(v)
        if key == "timestamp" and isinstance(v, int):
            return "<ms>"
        if key in ("seq", "since") and isinstance(v, int) and v > 0:
            return f"<seq{v}>"
        return v


class Player:
    """Plays one scenario. Each method is one exchange, and appends what was answered."""

    def __init__(self, base, literal):
        self.base = base
        self.http = httpx.Client(base_url=base, timeout=30, limits=httpx.Limits(max_keepalive_connections=0))
        self.lines, self.names, self.streams, self.sockets = [], Names(literal), {}, {}

    def _line(self, name, do, request, answer):
        line = {"name": name, "do": do}
        for fields in (request, answer):
            line.update({k: self.names.value(v, k) for k, v in fields.items()})
        self.lines.append(line)

    def _request(self, method, path, body, headers, raw):
        h = dict(headers or {})
        if raw is not None:
            content = raw.encode()
        elif body is not None:
            content = json.dumps(body).encode()
        else:
            content = None
        if content is not None and "content-type" not in h:
            h["content-type"] = "application/json"
        return self.http.build_request(method, path, content=content, headers=h)

    def _asked(self, method, path, body, headers, raw):
        asked = {"method": method, "path": path}
        if body is not None:
            asked["body"] = body
        if raw is not None:
            asked["raw"] = raw
        if headers:
            asked["headers"] = headers
        return asked

    def _headers(self, r):
        return {k: r.headers[k] for k in HEADERS if k in r.headers}

    def call(self, name, method, path, body=None, headers=None, raw=None, opaque=False, shape=False):
        """One request and its whole answer. The body of an opaque one is not recorded."""
        r = self.http.send(self._request(method, path, body, headers, raw))
        answer = {"status": r.status_code, "answer_headers": self._headers(r)}
        value = None
        kind = r.headers.get("content-type", "")
        if opaque:
            answer["opaque"] = True
        elif kind.startswith("text/event-stream"):
            answer["frames"] = list(frames(r.iter_lines()))
        elif kind.startswith("application/json"):
            value = answer["answer"] = r.json()
        elif r.text:
            answer["text"] = r.text
        self._line(name, "call", self._asked(method, path, body, headers, raw), answer)
        return value if value is not None else answer.get("frames")

    def get(self, name, path, **kw):
        return self.call(name, "GET", path, **kw)

    def post(self, name, path, body=None, **kw):
        return self.call(name, "POST", path, body, **kw)

    def patch(self, name, path, body=None, **kw):
        return self.call(name, "PATCH", path, body, **kw)

    def put(self, name, path, body=None, **kw):
        return self.call(name, "PUT", path, body, **kw)

    def delete(self, name, path, body=None, **kw):
        return self.call(name, "DELETE", path, body, **kw)

    def until(self, name, path, key, wanted, seconds=20):
        """Asks again until a key of the answer has a value; the last answer is recorded."""
        end = time.time() + seconds
        while True:
            r = self.http.get(path)
            if r.status_code == 200 and r.json().get(key) == wanted or time.time() > end:
                break
            time.sleep(0.05)
        asked = {"method": "GET", "path": path, "until": [key, wanted]}
        self._line(name, "until", asked, {"status": r.status_code, "answer": r.json()})
        return r.json()

    def open(self, name, stream, method, path, body=None, headers=None, take=0, drop=False, raw=None):
        """Opens a stream, takes some frames, and keeps it; or drops the connection."""
        r = self.http.send(self._request(method, path, body, headers, raw), stream=True)
        if r.status_code != 200:
            r.read()
            answer = {"status": r.status_code, "answer_headers": self._headers(r), "answer": r.json()}
            self._line(name, "call", self._asked(method, path, body, headers, raw), answer)
            return None
        it = Reader(r)
        taken = [it.next() for _ in range(take)]
        asked = self._asked(method, path, body, headers, raw) | {"stream": stream, "take": take}
        answer = {"status": r.status_code, "answer_headers": self._headers(r), "frames": taken}
        if drop:
            asked["drop"] = True
            it.close()
        else:
            self.streams[stream] = it
        self._line(name, "open", asked, answer)
        return taken

    def take(self, name, stream, n):
        """Takes frames of an open stream."""
        taken = [self.streams[stream].next() for _ in range(n)]
        self._line(name, "take", {"stream": stream, "take": n}, {"frames": taken})
        return taken

    def run_over(self, name, stream):
        """Takes frames of a stream of events up to where the run is over, and those that come late."""
        it = self.streams[stream]
        taken = [it.next()]
        while not over(taken[-1][1]):
            taken.append(it.next())
        while late := it.next(LATE):
            taken.append(late)
        self._line(name, "run_over", {"stream": stream}, {"frames": taken})
        return taken

    def rest(self, name, stream):
        """Takes the frames of an open stream up to its end."""
        it = self.streams.pop(stream)
        taken = list(iter(it.next, None))
        it.close()
        self._line(name, "rest", {"stream": stream}, {"frames": taken})
        return taken

    def ws(self, name, socket, path):
        """Opens a WebSocket."""
        self.sockets[socket] = connect(self.base.replace("http", "ws", 1) + path)
        self._line(name, "ws", {"socket": socket, "path": path}, {})

    def say(self, name, socket, text=None, value=None, run=False):
        """Sends a text, and takes the answer; or what comes until a run is over."""
        ws = self.sockets[socket]
        asked = {"socket": socket}
        if value is not None:
            asked["send"] = value
            ws.send(json.dumps(value))
        else:
            asked["send_text"] = text
            ws.send(text)
        taken = [json.loads(ws.recv(timeout=15))]
        while run and not over(taken[-1]):
            taken.append(json.loads(ws.recv(timeout=15)))
        while run:
            try:
                taken.append(json.loads(ws.recv(timeout=LATE)))
            except TimeoutError:
                break
        self._line(name, "say", asked, {"messages": taken})
        return taken

    def hang_up(self, name, socket):
        self.sockets.pop(socket).close()
        self._line(name, "hang_up", {"socket": socket}, {})

    def end(self):
        for it in self.streams.values():
            it.close()
        for ws in self.sockets.values():
            ws.close()
        self.http.close()


def frames(lines):
    """The frames of an event stream: [event, data] or [event, data, id]. Comments are not in it."""
    event, data, ident = None, [], None
    for line in lines:
        if line == "":
            if event is not None or data:
                text = "\n".join(data)
                frame = [event, json.loads(text) if text else None]
                if ident is not None:
                    frame.append("<seq%s>" % ident if ident.isdigit() else ident)
                yield frame
            event, data, ident = None, [], None
        elif line.startswith(":"):
            continue
        elif line.startswith("event:"):
            event = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].strip())
        elif line.startswith("id:"):
            ident = line[3:].strip()
