"""Records what LangChain sends to providers for lists of messages.

It runs the real langchain-openai, langchain-anthropic and langchain-google-genai against a local
server, which keeps the body of each request and refuses it:

    pip install langchain-openai==1.7.3 langchain-anthropic==1.7.7 langchain-google-genai==4.4.2
    python model/testdata/record.py > model/testdata/requests.json
"""

import http.server
import json
import sys
import threading
import warnings

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

warnings.simplefilter("ignore")

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = "JVBERi0xLjQKJSVFT0YK"
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="


def call(name, id, **args):
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def text(t, **more):
    return {"type": "text", "text": t, **more}


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "where"}},
            "required": ["city"],
        },
    },
}
SCHEMA = {
    "title": "Answer",
    "type": "object",
    "properties": {"rain": {"type": "boolean"}},
    "required": ["rain"],
    "additionalProperties": False,
}
OSLO = call("weather", "c1", city="Oslo")
ROME = call("weather", "c2", city="Rome")

CASES = {
    "a question": [HumanMessage("Hi")],
    "a system message": [SystemMessage("Be brief."), HumanMessage("Hi")],
    "a conversation": [HumanMessage("Hi"), AIMessage("Hello."), HumanMessage("And now?")],
    "system blocks": [SystemMessage([text("Be"), text("brief.")]), HumanMessage([text("Hi")])],
    "names": [SystemMessage("s", name="boss"), HumanMessage("Hi", name="ada"), AIMessage("Hello.", name="bot"), HumanMessage("?")],
    "a call": [HumanMessage("Rain?"), AIMessage("", tool_calls=[OSLO]), ToolMessage("rain", tool_call_id="c1", name="weather")],
    "a call with text": [
        HumanMessage("Rain?"),
        AIMessage("I look.", tool_calls=[OSLO]),
        ToolMessage('{"rain": true, "mm": 3}', tool_call_id="c1", name="weather"),
        AIMessage("Yes."),
        HumanMessage("Sure?"),
    ],
    "calls side by side": [
        HumanMessage("Rain?"),
        AIMessage("", tool_calls=[OSLO, ROME]),
        ToolMessage("rain", tool_call_id="c1", name="weather"),
        ToolMessage("sun", tool_call_id="c2", name="weather"),
        HumanMessage("Thanks."),
    ],
    "a failed call": [
        HumanMessage("Rain?"),
        AIMessage("", tool_calls=[OSLO]),
        ToolMessage("no such city", tool_call_id="c1", name="weather", status="error"),
    ],
    "an invalid call": [
        HumanMessage("Rain?"),
        AIMessage("", invalid_tool_calls=[{"name": "weather", "args": '{"city": "Os', "id": "c1", "error": None, "type": "invalid_tool_call"}]),
        ToolMessage("broken arguments", tool_call_id="c1", name="weather", status="error"),
    ],
    "a result in blocks": [
        HumanMessage("Rain?"),
        AIMessage("", tool_calls=[OSLO]),
        ToolMessage([text("rain"), text("again")], tool_call_id="c1", name="weather"),
    ],
    "an id with a dot": [
        HumanMessage("Rain?"),
        AIMessage("", tool_calls=[call("weather", "functions.weather:0", city="Oslo")]),
        ToolMessage("rain", tool_call_id="functions.weather:0", name="weather"),
    ],
    "two questions": [HumanMessage("Hi"), HumanMessage([text("Anyone?")])],
    "image data in a URL": [HumanMessage([text("What?"), {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG}}])],
    "image data": [HumanMessage([text("What?"), {"type": "image", "base64": PNG, "mime_type": "image/png"}])],
    "image data, old": [HumanMessage([{"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"}])],
    "a file": [HumanMessage([{"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": "a.pdf"}])],
    "a file without a name": [HumanMessage([{"type": "file", "base64": PDF, "mime_type": "application/pdf"}])],
    "trailing space": [HumanMessage("Go on."), AIMessage("Once upon ")],
    "an answer of Anthropic": [
        HumanMessage("Rain?"),
        AIMessage(
            [
                {"type": "text", "text": "I look.", "index": 0},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {}, "partial_json": '{"city": "Oslo"}', "index": 1},
            ],
            tool_calls=[OSLO],
            response_metadata={"model_provider": "anthropic"},
        ),
        ToolMessage("rain", tool_call_id="c1", name="weather"),
    ],
    "thoughts of Anthropic": [
        HumanMessage("Rain?"),
        AIMessage(
            [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln", "index": 0}, {"type": "redacted_thinking", "data": "xyz", "index": 1}, {"type": "text", "text": "Yes.", "index": 2}],
            response_metadata={"model_provider": "anthropic"},
        ),
        HumanMessage("Sure?"),
    ],
    "thoughts of Gemini": [
        HumanMessage("Rain?"),
        AIMessage(
            [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "Yes."}],
            response_metadata={"model_provider": "google_genai"},
        ),
        HumanMessage("Sure?"),
    ],
    "a signed call of Gemini": [
        HumanMessage("Rain?"),
        AIMessage(
            "",
            tool_calls=[OSLO],
            additional_kwargs={"__gemini_function_call_thought_signatures__": {"c1": "c2ln"}},
            response_metadata={"model_provider": "google_genai"},
        ),
        ToolMessage("rain", tool_call_id="c1", name="weather"),
    ],
}
# Cases that a provider's library would fetch from the network for, or refuses.
ONLY = {
    "an image at a URL": (["openai", "anthropic"], [HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}, {"type": "image", "url": "https://example.com/b.png"}])]),
    "a file by its id": (["openai", "anthropic"], [HumanMessage([{"type": "file", "file_id": "file-1"}])]),
    "sound": (["openai", "google_genai"], [HumanMessage([{"type": "audio", "base64": WAV, "mime_type": "audio/wav"}])]),
    "a result with an image": (
        ["anthropic", "google_genai"],
        [
            HumanMessage("Draw."),
            AIMessage("", tool_calls=[OSLO]),
            ToolMessage([text("here"), {"type": "image", "base64": PNG, "mime_type": "image/png"}], tool_call_id="c1", name="weather"),
        ],
    ),
}
# Cases of what is bound to a model.
BOUND = {
    "tools": {"tools": [WEATHER]},
    "any tool": {"tools": [WEATHER], "tool_choice": "any"},
    "one tool": {"tools": [WEATHER], "tool_choice": "weather"},
    "a format": {"format": SCHEMA},
}

got = []


class Keeper(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "kept"}}')

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keeper)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}"
models = {
    "openai": ChatOpenAI(model="m", api_key="k", base_url=url, max_retries=0),
    "anthropic": ChatAnthropic(model="m", api_key="k", base_url=url, max_retries=0),
    "google_genai": ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key="k", base_url=url, max_retries=1),
}


def ask(provider, messages, bound):
    llm = models[provider]
    if "tools" in bound:
        kwargs = {"tool_choice": bound["tool_choice"]} if "tool_choice" in bound else {}
        llm = llm.bind_tools(bound["tools"], **kwargs)
    if "format" in bound:
        if provider == "google_genai":
            llm = llm.bind(response_mime_type="application/json", response_json_schema=bound["format"])
        else:
            llm = llm.bind(response_format={"type": "json_schema", "json_schema": {"name": "Answer", "schema": bound["format"], "strict": True}})
    got.clear()
    try:
        llm.invoke(messages)
    except Exception as e:  # the server refuses each request
        if not got:
            return {"error": str(e)}
    return got[0]


out = []
for name, messages in CASES.items():
    out.append((name, list(models), messages, {}))
for name, (providers, messages) in ONLY.items():
    out.append((name, providers, messages, {}))
for name, bound in BOUND.items():
    out.append((name, list(models), [HumanMessage("Hi")], bound))
json.dump(
    [
        {
            "name": name,
            "messages": [m.model_dump() for m in messages],
            "bound": bound,
            "requests": {p: ask(p, messages, bound) for p in providers},
        }
        for name, providers, messages, bound in out
    ],
    sys.stdout,
    indent=1,
    sort_keys=True,
)
print()
