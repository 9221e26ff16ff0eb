"""Records what LangChain sends to providers for lists of messages, and what it makes of answers.

It runs the real langchain-openai, langchain-anthropic and langchain-google-genai against a local
server. That keeps the body of each request and refuses it, or answers with the events of a stream:

    pip install -c ../../../test/versions.txt langchain-openai langchain-anthropic langchain-google-genai
    python record.py

It writes requests.json and answers.json beside itself.
"""

import http.server
import json
import os
import threading
import warnings

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
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
answer = []  # events to answer with


class Keeper(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        if answer:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write("".join(answer).encode())
            return
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


def write(name, value):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, name), "w") as f:
        json.dump(value, f, indent=1, sort_keys=True)
        f.write("\n")


out = []
for name, messages in CASES.items():
    out.append((name, list(models), messages, {}))
for name, (providers, messages) in ONLY.items():
    out.append((name, providers, messages, {}))
for name, bound in BOUND.items():
    out.append((name, list(models), [HumanMessage("Hi")], bound))
write(
    "requests.json",
    [
        {
            "name": name,
            "messages": [m.model_dump() for m in messages],
            "bound": bound,
            "requests": {p: ask(p, messages, bound) for p in providers},
        }
        for name, providers, messages, bound in out
    ],
)


def data(value, event=None):
    head = f"event: {event}\n" if event else ""
    return head + "data: " + json.dumps(value) + "\n\n"


def chat(*deltas, finish="stop", **last):
    """A stream of OpenAI's chat completions."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "system_fingerprint": "fp"}
    out = [data({**base, "choices": [{"index": 0, "delta": d, "finish_reason": None}]}) for d in deltas]
    out.append(data({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    if last:
        out.append(data({**base, "choices": [], **last}))
    return out + ["data: [DONE]\n\n"]


def tool_delta(index, args, **more):
    call = {"index": index, "function": {"arguments": args}}
    if more:
        call = {"index": index, "id": more["id"], "type": "function", "function": {"name": more["name"], "arguments": args}}
    return {"tool_calls": [call]}


def claude(*blocks, stop="end_turn", sequence=None):
    """A stream of Anthropic's messages; a block is its beginning and its deltas."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    out = [data({"type": "message_start", "message": head}, "message_start")]
    for i, (start, *deltas) in enumerate(blocks):
        out.append(data({"type": "content_block_start", "index": i, "content_block": start}, "content_block_start"))
        out += [data({"type": "content_block_delta", "index": i, "delta": d}, "content_block_delta") for d in deltas]
        out.append(data({"type": "content_block_stop", "index": i}, "content_block_stop"))
    end = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": sequence}, "usage": {**usage, "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 2}}}
    return out + [data(end, "message_delta"), data({"type": "message_stop"}, "message_stop")]


def gemini(*parts, finish="STOP", version="gemini-2.5-flash"):
    """A stream of Gemini; each of parts is a list."""
    out = []
    for i, p in enumerate(parts):
        candidate = {"content": {"parts": p, "role": "model"}, "index": 0}
        if i == len(parts) - 1:
            candidate["finishReason"] = finish
        usage = {"promptTokenCount": 10, "candidatesTokenCount": i + 1, "totalTokenCount": 13 + i, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4}
        out.append(data({"candidates": [candidate], "usageMetadata": usage, "modelVersion": version, "responseId": "r1"}))
    return out


def block(kind, **more):
    return {"type": kind, **more}


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 2, "audio_tokens": 0}}
THINKING = {"thinking": {"type": "adaptive"}}
ANSWERS = [
    ("openai", "text", {}, chat({"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"}, usage=USAGE)),
    ("openai", "no usage", {}, chat({"content": "Hello"}, finish="length")),
    (
        "openai",
        "calls",
        {},
        chat(
            tool_delta(0, "", id="c1", name="weather"),
            tool_delta(0, '{"city": "Os'),
            tool_delta(0, 'lo", "days": 2, "part": 0.5}'),
            tool_delta(1, "{}", id="c2", name="now"),
            finish="tool_calls",
            usage=USAGE,
        ),
    ),
    ("openai", "text and a broken call", {}, chat({"content": "I look."}, tool_delta(0, "{city: Oslo", id="c1", name="weather"), finish="tool_calls")),
    ("anthropic", "text", {}, claude([block("text", text=""), block("text_delta", text="Hel"), block("text_delta", text="lo")])),
    ("anthropic", "a stop sequence", {}, claude([block("text", text="Hello")], stop="stop_sequence", sequence="END")),
    (
        "anthropic",
        "calls",
        {"tools": [WEATHER]},
        claude(
            [block("text", text=""), block("text_delta", text="I look.")],
            [block("tool_use", id="c1", name="weather", input={}), block("input_json_delta", partial_json='{"city": "Os'), block("input_json_delta", partial_json='lo", "days": 2}')],
            [block("tool_use", id="c2", name="now", input={})],
            stop="tool_use",
        ),
    ),
    ("anthropic", "text beside tools", {"tools": [WEATHER]}, claude([block("text", text=""), block("text_delta", text="Hel"), block("text_delta", text="lo")])),
    (
        "anthropic",
        "thoughts",
        THINKING,
        claude(
            [block("thinking", thinking="", signature=""), block("thinking_delta", thinking="H"), block("thinking_delta", thinking="m."), block("signature_delta", signature="c2ln")],
            [block("redacted_thinking", data="xyz")],
            [block("text", text=""), block("text_delta", text="Yes.")],
        ),
    ),
    (
        "anthropic",
        "a search",
        {"tools": [WEATHER]},
        claude(
            [block("server_tool_use", id="s1", name="web_search", input={}), block("input_json_delta", partial_json='{"query": "rain"}')],
            [block("web_search_tool_result", tool_use_id="s1", content=[])],
            [
                block("text", text=""),
                block("text_delta", text="Rain."),
                block("citations_delta", citation={"type": "char_location", "cited_text": "rain", "document_index": 0, "document_title": "d", "start_char_index": 0, "end_char_index": 4}),
            ],
        ),
    ),
    ("google_genai", "text", {}, gemini([{"text": "Hel"}], [{"text": "lo"}], [{"text": ""}])),
    ("google_genai", "calls", {}, gemini([{"functionCall": {"id": "f1", "name": "weather", "args": {"city": "Oslo", "days": 2}}}, {"functionCall": {"id": "f2", "name": "now", "args": {}}}])),
    ("google_genai", "thoughts", {}, gemini([{"text": "H", "thought": True}], [{"text": "m.", "thought": True, "thoughtSignature": "c2ln"}], [{"text": "Yes."}])),
    ("google_genai", "a signed call", {}, gemini([{"functionCall": {"id": "f1", "name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"}])),
    ("google_genai", "Gemini 3", {}, gemini([{"text": "Hel"}], [{"text": "lo", "thoughtSignature": "c2ln"}], version="gemini-3-pro")),
    ("google_genai", "an image", {}, gemini([{"text": "Look."}], [{"inlineData": {"mimeType": "image/png", "data": PNG}}])),
    ("google_genai", "cut short", {}, gemini([{"text": "Hello"}], finish="MAX_TOKENS")),
]


def stream(provider, bound):
    llm = models[provider]
    if "tools" in bound:
        llm = llm.bind_tools(bound["tools"])
    elif bound:
        llm = llm.bind(**bound)
    chunks = list(llm.stream([HumanMessage("Hi")]))
    total = chunks[0]
    for c in chunks[1:]:
        total = total + c
    return message_chunk_to_message(total).model_dump()


recorded = []
for provider, name, bound, events in ANSWERS:
    answer[:] = events
    recorded.append({"provider": provider, "name": name, "bound": bound, "events": events, "message": stream(provider, bound)})
write("answers.json", recorded)
