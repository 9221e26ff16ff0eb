"""The scenarios that record.py runs. They are plain data, which the Go test reads from agent.json.gz."""


def call(name, id="c0", /, **args):
    return {"name": name, "args": args, "id": id}


def calls(*list):
    return {"calls": [*list]}


def text(t):
    return {"text": t}


HI = [{"say": "hi", "id": "h1"}]
ADD = call("add", a=1, b=2)


def echo(n, t="e"):
    return call("echo", f"c{n}", text=f"{t}{n}")


def human(**tools):
    return [{"kind": "human", "options": {"tools": tools}}]


def decide(*d):
    return {"resume": {"decisions": list(d)}}


def hooks(name, jumps=(), **on):
    return {"kind": "hooks", "options": {"name": name, "jumps": list(jumps), "on": on}}


APPROVE = {"type": "approve"}
SCENARIOS = []


def scenario(name, model, runs=HI, **more):
    SCENARIOS.append({"name": name, "model": model, "runs": runs, **more})


# The loop.
scenario("answer", [text("hello")])
scenario("system prompt and name", [text("hello")], system="Be kind.", **{"name of agent": "kim"})
scenario("two turns", [text("hello"), text("again")], runs=[*HI, {"say": "more", "id": "h2"}])
scenario("tool", [calls(ADD), text("3")], tools=["add"])
scenario("tool and system", [calls(ADD), text("3")], tools=["add", "echo"], system="Count.")
scenario("parallel tools", [calls(ADD, echo(1), echo(2)), text("done")], tools=["add", "echo"])
scenario("tools in turn", [calls(echo(0)), calls(echo(1)), text("done")], tools=["echo"])
scenario("unknown tool", [calls(call("nope", text="a")), text("sorry")], tools=["echo"])
scenario("call without tools", [calls(echo(0))])
scenario("invalid call", [{"text": "", "invalid": [{"name": "echo", "args": "nope", "id": "c9"}]}, text("sorry")], tools=["echo"],
         runs=[*HI, {"say": "more", "id": "h2"}])
scenario("invalid and valid call", [{"invalid": [{"name": "echo", "args": "nope", "id": "c9"}], "calls": [echo(0)]}, text("sorry")], tools=["echo"])
scenario("tool fails", [calls(call("fail", text="no"))], tools=["fail"])
scenario("one of two fails", [calls(echo(0), call("fail", "c1", text="no"))], tools=["echo", "fail"])
scenario("model fails", [{"error": "no"}])
scenario("model fails after a tool, and is tried again", [calls(echo(0)), {"error": "no"}, text("done")], tools=["echo"], runs=[*HI, {"again": True}])
scenario("return direct", [calls(call("final", text="end"))], tools=["final", "echo"])
scenario("return direct and another", [calls(call("final", text="end"), echo(1)), text("done")], tools=["final", "echo"])
scenario("two return direct", [calls(call("final", text="end"), call("final", "c1", text="end"))], tools=["final"])
scenario("tool asks", [calls(call("ask", text="sure?")), text("done")], tools=["ask"], runs=[*HI, {"resume": "yes"}])
scenario("tool asks beside another", [calls(echo(0), call("ask", "c1", text="sure?")), text("done")], tools=["ask", "echo"], runs=[*HI, {"resume": "yes"}])
scenario("state of one's own", [calls(call("topic", text="tea")), text("done")], tools=["topic"], state=True,
         runs=[{"say": "hi", "id": "h1", "state": {"topic": "milk"}}])
scenario("private state is no input", [text("done")], runs=[{"say": "hi", "id": "h1", "state": {"jump_to": "end", "structured_response": 1}}])

# Structured answers.
CITY = {"strategy": "tool", "forms": ["City"], "answer": "got it"}
scenario("response", [calls(call("City", name="Oslo"))], response=CITY)
scenario("response told", [calls(call("City", name="Oslo"))], response={"strategy": "tool", "forms": ["City"]})
scenario("response after a tool", [calls(echo(0)), calls(call("City", "c1", name="Oslo"))], tools=["echo"], response=CITY)
scenario("response beside a tool", [calls(echo(0), call("City", "c1", name="Oslo"))], tools=["echo"], response=CITY)
scenario("response wrong, then right", [calls(call("City", nme="Oslo")), calls(call("City", "c1", name="Oslo"))], response=CITY)
scenario("response wrong, with tools", [calls(call("City", nme="Oslo")), calls(call("City", "c1", name="Oslo"))], tools=["echo"], response=CITY)
scenario("response wrong, a text", [calls(call("City", nme="Oslo")), calls(call("City", "c1", name="Oslo"))], response={**CITY, "errors": "text"})
scenario("response wrong, stop", [calls(call("City", nme="Oslo"))], response={**CITY, "errors": "stop"})
scenario("two responses", [calls(call("City", name="Oslo"), call("City", "c1", name="Bergen")), calls(call("City", "c2", name="Oslo"))],
         response={**CITY, "errors": "default"})
scenario("one of two forms", [calls(call("Land", name="Norway"))], response={**CITY, "forms": ["City", "Land"]})
scenario("two forms at once", [calls(call("City", name="Oslo"), call("Land", "c1", name="Norway")), calls(call("Land", "c2", name="Norway"))],
         response={**CITY, "forms": ["City", "Land"], "errors": "default"})
scenario("no response with tools", [text("no")], tools=["echo"], response=CITY)
scenario("no response at first", [text("no"), calls(call("City", name="Oslo"))], response=CITY)
scenario("response in each turn", [calls(call("City", name="Oslo")), calls(call("City", "c1", name="Bergen"))], response=CITY,
         runs=[*HI, {"say": "more", "id": "h2"}])
PROVIDER = {"strategy": "provider", "forms": ["City"]}
scenario("provider", [text('{"name": "Oslo"}')], response=PROVIDER)
scenario("provider after a tool", [calls(echo(0)), text('{"name": "Oslo"}')], tools=["echo"], response=PROVIDER)
scenario("provider without json", [text("Oslo")], response=PROVIDER)
scenario("provider wrong", [text('{"nme": "Oslo"}')], response=PROVIDER)
scenario("auto, the model can", [text('{"name": "Oslo"}')], auto=True, structured=True)

# A person decides.
MAIL = [calls(echo(0)), text("done")]
scenario("approve", MAIL, runs=[*HI, decide(APPROVE)], tools=["echo"], middleware=human(echo=[]))
scenario("edit", MAIL, runs=[*HI, decide({"type": "edit", "edited_action": {"name": "echo", "args": {"text": "mine"}}})], tools=["echo"], middleware=human(echo=[]))
scenario("edit to another tool", MAIL, runs=[*HI, decide({"type": "edit", "edited_action": {"name": "final", "args": {"text": "mine"}}})], tools=["echo", "final"], middleware=human(echo=[]))
scenario("reject", MAIL, runs=[*HI, decide({"type": "reject"})], tools=["echo"], middleware=human(echo=[]))
scenario("reject with a reason", MAIL, runs=[*HI, decide({"type": "reject", "message": "too loud"})], tools=["echo"], middleware=human(echo=[]))
scenario("respond", MAIL, runs=[*HI, decide({"type": "respond", "message": "I am the echo"})], tools=["echo"], middleware=human(echo=[]))
scenario("decide two of three", [calls(echo(0), ADD | {"id": "c1"}, echo(2)), text("done")], tools=["echo", "add"], middleware=human(echo=["approve", "reject"]),
         runs=[*HI, decide(APPROVE, {"type": "reject"})])
scenario("decide all ways", [calls(echo(0), echo(1), echo(2), echo(3)), text("done")], tools=["echo"], middleware=human(echo=[]),
         runs=[*HI, decide(APPROVE, {"type": "reject"}, {"type": "respond", "message": "x"}, {"type": "edit", "edited_action": {"name": "echo", "args": {"text": "mine"}}})])
scenario("ungated", [calls(echo(0)), text("done")], tools=["echo", "add"], middleware=human(add=[]))
scenario("decision not allowed", MAIL, runs=[*HI, decide({"type": "reject"})], tools=["echo"], middleware=human(echo=["approve"]))
scenario("too few decisions", MAIL, runs=[*HI, decide()], tools=["echo"], middleware=human(echo=[]))
scenario("edit, then a call that is not gated", [calls(echo(0)), calls(call("add", "c1", a=1, b=2)), text("done")], tools=["echo", "add"], middleware=human(echo=[]),
         runs=[*HI, decide({"type": "edit", "edited_action": {"name": "echo", "args": {"text": "mine"}}})])
GATED = [{"kind": "human", "options": {"tools": {"echo": []}, "when": {"echo": ["e1"]}}}]
scenario("decide some calls of a tool", [calls(echo(0), echo(1), echo(2)), text("done")], tools=["echo"], middleware=GATED, runs=[*HI, decide({"type": "reject"})])
scenario("decide no call of a tool", MAIL, tools=["echo"], middleware=GATED)
EDIT = {"type": "edit", "edited_action": {"name": "echo", "args": {"text": "mine"}}}
scenario("edit with a notice of one's own", MAIL, runs=[*HI, decide(EDIT)], tools=["echo"], middleware=[{"kind": "human", "options": {"tools": {"echo": []}, "notice": "It was me."}}])
scenario("edit without a notice", MAIL, runs=[*HI, decide(EDIT)], tools=["echo"], middleware=[{"kind": "human", "options": {"tools": {"echo": []}, "notice": ""}}])
scenario("edit, and the id is used again", [calls(echo(0)), text("done"), calls(echo(0)), text("done")], tools=["echo"], middleware=human(echo=[]),
         runs=[*HI, decide(EDIT), {"say": "more", "id": "h2"}, decide(APPROVE)])
scenario("reject all", [calls(echo(0), echo(1)), text("done")], tools=["echo"], middleware=human(echo=[]), runs=[*HI, decide({"type": "reject"}, {"type": "reject", "message": "no"})])
scenario("unknown decision", MAIL, runs=[*HI, decide({"type": "dance"})], tools=["echo"], middleware=human(echo=[]))
scenario("decide, then the tool asks", [calls(call("ask", text="sure?")), text("done")], tools=["ask"], middleware=human(ask=[]), runs=[*HI, decide(APPROVE), {"resume": "yes"}])
scenario("return direct after approval", [calls(call("final", text="end"))], tools=["final"], middleware=human(final=[]), runs=[*HI, decide(APPROVE)])
scenario("return direct is rejected", [calls(call("final", text="end")), text("done")], tools=["final"], middleware=human(final=[]), runs=[*HI, decide({"type": "reject"})])

# One question for each call.
def per_call(when=None, **tools):
    return [{"kind": "human", "options": {"tools": tools, "per call": True, **({"when": when} if when else {})}}]


def each(*d):
    return {"resume each": list(d)}


REJECT, RESPOND = {"type": "reject"}, {"type": "respond", "message": "I am the echo"}
THREE = [calls(echo(0), ADD | {"id": "c1"}, echo(2)), text("done")]
for name, d in {"approve": APPROVE, "edit": EDIT, "reject": REJECT, "reject with a reason": REJECT | {"message": "too loud"}, "respond": RESPOND, "respond nothing": RESPOND | {"message": ""}}.items():
    scenario(name + " per call", MAIL, tools=["echo"], middleware=per_call(echo=[]), runs=[*HI, each(d)])
scenario("per call, all at once", THREE, tools=["echo", "add"], middleware=per_call(echo=[], add=["approve", "reject"]), runs=[*HI, each(EDIT, REJECT, APPROVE)])
scenario("per call, one after the other", THREE, tools=["echo", "add"], middleware=per_call(echo=[], add=["approve"]), runs=[*HI, each(None, None, APPROVE), each(RESPOND, None), each(APPROVE)])
scenario("per call, one is not gated", THREE, tools=["echo", "add"], middleware=per_call(echo=["approve", "edit"]), runs=[*HI, each(EDIT, APPROVE)])
scenario("per call, some calls of a tool", [calls(echo(0), echo(1)), text("done")], tools=["echo"], middleware=per_call({"echo": ["e1"]}), runs=[*HI, each(REJECT)])
scenario("per call, no call", MAIL, tools=["echo", "add"], middleware=per_call(add=[]))
for name, d in {
    "another tool": {"type": "edit", "edited_action": {"name": "add", "args": {"a": 1, "b": 2}}}, "bad arguments": {"type": "edit", "edited_action": {"name": "echo", "args": {"text": 7}}},
    "a missing argument": {"type": "edit", "edited_action": {"name": "echo", "args": {}}}, "no edited action": {"type": "edit"}, "an unknown decision": {"type": "dance"},
    "no message": {"type": "respond"}, "no decision": {"message": "x"}, "decisions": {"decisions": [APPROVE]},
}.items():
    scenario("per call, " + name, MAIL, tools=["echo", "add"], middleware=per_call(echo=[]), runs=[*HI, each(d), each(APPROVE)])
scenario("per call, a decision that is not allowed", MAIL, tools=["echo"], middleware=per_call(echo=["reject"]), runs=[*HI, each(APPROVE), each(REJECT)])
scenario("per call, a tool that is not there", [calls(call("nope", text="a")), text("done")], tools=["echo"], middleware=per_call(nope=["approve"]), runs=[*HI, each(APPROVE)])
scenario("per call, then the tool asks", [calls(call("ask", text="sure?")), text("done")], tools=["ask"], middleware=per_call(ask=["approve"]), runs=[*HI, each(APPROVE), {"resume": "yes"}])
scenario("per call, return direct", [calls(call("final", text="end"))], tools=["final"], middleware=per_call(final=[]), runs=[*HI, each(APPROVE)])
scenario("per call, return direct is rejected", [calls(call("final", text="end")), text("done")], tools=["final"], middleware=per_call(final=[]), runs=[*HI, each(REJECT)])
scenario("per call, around a retry", [calls(call("flaky", text="f")), text("done")], tools=["flaky"], middleware=per_call(flaky=[]) + [{"kind": "tool retry", "options": {}}], runs=[*HI, each(APPROVE)])
scenario("per call, in the second turn", [calls(echo(0)), text("a"), calls(echo(1)), text("b")], tools=["echo"], middleware=per_call(echo=[]), runs=[*HI, each(EDIT), {"say": "more", "id": "h2"}, each(APPROVE)])

# Limits.
LOOP = [calls(echo(0)), calls(echo(1)), calls(echo(2)), text("done")]


def limit(kind, **o):
    return [{"kind": kind, "options": o}]


scenario("model limit of a run", LOOP, tools=["echo"], middleware=limit("model limit", run_limit=2))
scenario("model limit of a thread", [text("a"), text("b")], middleware=limit("model limit", thread_limit=1), runs=[*HI, {"say": "more", "id": "h2"}])
scenario("model limit, error", LOOP, tools=["echo"], middleware=limit("model limit", run_limit=1, exit_behavior="error"))
scenario("tool limit", LOOP, tools=["echo"], middleware=limit("tool limit", run_limit=1))
scenario("tool limit of a thread", [calls(echo(0)), text("a"), calls(echo(1)), text("b")], tools=["echo"], middleware=limit("tool limit", thread_limit=1), runs=[*HI, {"say": "more", "id": "h2"}])
scenario("tool limit, end", [calls(echo(0), ADD | {"id": "c1"}, echo(2))], tools=["echo", "add"], middleware=limit("tool limit", run_limit=1, tool_name="echo", exit_behavior="end"))
scenario("tool limit, error", [calls(echo(0), echo(1))], tools=["echo"], middleware=limit("tool limit", run_limit=1, thread_limit=1, exit_behavior="error"))
scenario("tool limit of one tool", [calls(echo(0), echo(1), ADD | {"id": "c2"}), text("done")], tools=["echo", "add"], middleware=limit("tool limit", run_limit=1, tool_name="echo"))
scenario("model limit of each run", [text("a"), text("b")], middleware=limit("model limit", run_limit=1), runs=[*HI, {"say": "more", "id": "h2"}])
scenario("model limit of a thread, error", [text("a")], middleware=limit("model limit", thread_limit=1, exit_behavior="error"), runs=[*HI, {"say": "more", "id": "h2"}])
scenario("tool limits of two tools", [calls(echo(0), ADD | {"id": "c1"}, echo(2), ADD | {"id": "c3"}), text("done")], tools=["echo", "add"],
         middleware=limit("tool limit", run_limit=1, tool_name="echo") + limit("tool limit", run_limit=2, tool_name="add"))
scenario("tool limit of a thread counts what ran", [calls(echo(0), echo(1)), text("a"), calls(echo(2), echo(3)), text("b"), calls(echo(4)), text("c")], tools=["echo"],
         middleware=limit("tool limit", run_limit=1, thread_limit=2), runs=[*HI, {"say": "more", "id": "h2"}, {"say": "end", "id": "h3"}])
scenario("tool limit reached exactly", [calls(echo(0), echo(1)), text("done")], tools=["echo"], middleware=limit("tool limit", run_limit=2))
scenario("tool limit of a thread, error", [calls(echo(0)), text("a"), calls(echo(1))], tools=["echo"], middleware=limit("tool limit", thread_limit=1, exit_behavior="error"),
         runs=[*HI, {"say": "more", "id": "h2"}])

# Retry and fallback.
NO = {"error": "no"}
scenario("model retry", [NO, NO, text("hello")], middleware=limit("model retry"))
scenario("model retry in vain", [NO, NO], middleware=limit("model retry", max_retries=1))
scenario("model retry, error", [NO, NO], middleware=limit("model retry", max_retries=1, on_failure="error"))
scenario("tool retry", [calls(call("flaky", text="f")), text("done")], tools=["flaky"], middleware=limit("tool retry"))
scenario("tool retry in vain", [calls(call("fail", text="f")), text("done")], tools=["fail"], middleware=limit("tool retry", max_retries=1))
scenario("tool retry of another", [calls(call("fail", text="f"))], tools=["fail", "echo"], middleware=limit("tool retry", max_retries=1, tools=["echo"]))
scenario("tool retry, error", [calls(call("fail", text="f"))], tools=["fail"], middleware=limit("tool retry", max_retries=1, on_failure="error"))
scenario("fallback", [NO], middleware=limit("fallback", models=[[NO], [text("hello")]]))
scenario("fallback in vain", [NO], middleware=limit("fallback", models=[[NO]]))
scenario("model retry, none", [NO], middleware=limit("model retry", max_retries=0))
scenario("tool retry, none", [calls(call("fail", text="f")), text("done")], tools=["fail"], middleware=limit("tool retry", max_retries=0))
scenario("tool retry around a question", [calls(echo(0), call("ask", "c1", text="sure?")), text("done")], tools=["echo", "ask"], middleware=limit("tool retry", max_retries=1),
         runs=[*HI, {"resume": "yes"}])
scenario("retry around a fallback", [NO, text("late")], middleware=limit("model retry", max_retries=1) + limit("fallback", models=[[NO, NO]]))
scenario("fallback after a tool", [calls(echo(0)), NO], tools=["echo"], middleware=limit("fallback", models=[[text("hello")]]))

# Summaries.
scenario("summary", [text("a"), text("b"), text("c")], runs=[*HI, {"say": "more", "id": "h2"}, {"say": "end", "id": "h3"}],
         middleware=[{"kind": "summary", "options": {"answers": [text("SUM")], "trigger": [["messages", 4]], "keep": ["messages", 2]}}])
scenario("summary keeps calls whole", [calls(echo(0), echo(1)), text("b")], tools=["echo"],
         middleware=[{"kind": "summary", "options": {"answers": [text("SUM")], "trigger": [["messages", 4]], "keep": ["messages", 1]}}])
scenario("summary by tokens", [text("aaaa"), text("bb")], runs=[*HI, {"say": "more", "id": "h2"}],
         middleware=[{"kind": "summary", "options": {"answers": [text("SUM")], "trigger": [["tokens", 9]], "keep": ["tokens", 5]}}])
EITHER = [["messages", 9], ["tokens", 9]]
BOTH = [{"messages": 4, "tokens": 12}]
for name, trigger in {"either": EITHER, "both": BOTH, "one of two pairs": [{"messages": 9, "tokens": 1}, {"messages": 3, "tokens": 9}]}.items():
    scenario("summary by " + name, [text("aaaa"), text("bbbb"), text("cccc")], runs=[*HI, {"say": "more", "id": "h2"}, {"say": "last", "id": "h3"}],
             middleware=[{"kind": "summary", "options": {"answers": [text("SUM"), text("SUM2")], "trigger": trigger, "keep": ["messages", 1]}}])
scenario("summary of a summary", [text("a"), text("b"), text("c")], runs=[*HI, {"say": "more", "id": "h2"}, {"say": "end", "id": "h3"}],
         middleware=[{"kind": "summary", "options": {"answers": [text("SUM"), text("SUM2")], "trigger": [["messages", 3]], "keep": ["messages", 1]}}])
scenario("summary with nothing to leave out", [text("a"), text("b")], runs=[*HI, {"say": "more", "id": "h2"}],
         middleware=[{"kind": "summary", "options": {"answers": [], "trigger": [["messages", 1]], "keep": ["messages", 10]}}])

def summary(trigger, keep=("messages", 1), answers=(text("SUM"),), **o):
    return [{"kind": "summary", "options": {"answers": list(answers), "trigger": trigger, "keep": list(keep), **o}}]


TURNS = [*HI, {"say": "more", "id": "h2"}, {"say": "last", "id": "h3"}]
SAID = [text("aaaa"), text("bbbb"), text("cccc")]
scenario("summary by a fraction", SAID, runs=TURNS, middleware=summary([["fraction", 0.5]], window=19, answers=(text("S"), text("S2"))))
scenario("summary by a fraction, not yet", SAID, runs=TURNS, middleware=summary([["fraction", 0.9]], window=30, answers=()))
scenario("summary by a tiny fraction", SAID, runs=TURNS, middleware=summary([["fraction", 0.01]], window=3, answers=(text("S"), text("S2"))))
scenario("summary keeps a fraction", SAID, runs=TURNS, middleware=summary([["messages", 5]], ("fraction", 0.5), window=15))
scenario("summary by a fraction and messages", SAID, runs=TURNS, middleware=summary([{"fraction": 0.1, "messages": 5}], window=10))
for name, more in {"": {"provider": "script"}, ", of another provider": {"provider": "other"}, ", of no provider": {}}.items():
    scenario("summary by reported tokens" + name, [text("aaaa") | {"usage": 900} | more, text("b"), text("c")], runs=TURNS[:2], middleware=summary([["tokens", 800]]))
    scenario("summary by a reported fraction" + name, [text("aaaa") | {"usage": 900} | more, text("b"), text("c")], runs=TURNS[:2], middleware=summary([["fraction", 0.8]], window=1000))
scenario("summary by reported tokens, too few", [text("aaaa") | {"usage": 700, "provider": "script"}, text("b")], runs=TURNS[:2], middleware=summary([["tokens", 800]]))
scenario("summary by reported tokens, of an old message", [text("aaaa") | {"usage": 900, "provider": "script"}, text("b"), text("c")], runs=TURNS,
         middleware=summary([{"tokens": 800, "messages": 5}]))
LONG = "some forty characters of a conversation."
for name, at in {"more": 68, "less": 69}.items():  # it has 54 tokens, and 68 with a quarter more
    scenario("summary by scaled tokens, " + name, [text(LONG * 2) | {"usage": 400, "provider": "other"}, text("b")], runs=[{"say": LONG, "id": "h1"}, {"say": LONG, "id": "h2"}],
             middleware=summary([["tokens", at]], approximately=True))
scenario("summary by scaled tokens of two providers", [text(LONG) | {"usage": 400, "provider": "one"}, text(LONG) | {"usage": 400, "provider": "other"}, text("b")], runs=TURNS,
         middleware=summary([["tokens", 56]], approximately=True, answers=()))
scenario("summary is denied", [text("a")], runs=TURNS[:2], middleware=summary([["messages", 3]], answers=({"error": "denied"}, text("SUM"))))
scenario("summary is tried again", [text("a"), text("b")], runs=TURNS[:2], middleware=summary([["messages", 3]], answers=({"error": "busy"}, text("SUM"))))
scenario("model retry, denied", [{"error": "denied"}, text("hello")], middleware=limit("model retry"))
scenario("model retry, busy", [{"error": "busy"}, text("hello")], middleware=limit("model retry"))
scenario("fallback of a denied model", [{"error": "denied"}], middleware=limit("fallback", models=[[text("hello")]]))

# Middleware of one's own.
ALL = ("before_agent", "before_model", "after_model", "after_agent")
say = {w: {"say": w, "as": "human"} for w in ("before_agent", "before_model")}
scenario("all hooks", [calls(echo(0)), text("done")], tools=["echo"],
         middleware=[hooks("A", **say, after_model={}, after_agent={"say": "bye"}), hooks("B", **say, after_model={}, after_agent={})])
scenario("before agent ends", [], middleware=[hooks("A", ["end"], before_agent={"say": "no", "jump": "end"}, after_agent={"say": "bye"})])
scenario("before model ends", [], middleware=[hooks("A", ["end"], before_model={"say": "no", "jump": "end"}), hooks("B", before_model={})])
scenario("after model goes back", [text("bad"), text("good")], middleware=[hooks("A", ["model"], after_model={"when": "bad", "say": "better!", "as": "human", "jump": "model"})])
scenario("after model goes back, with tools", [text("bad"), text("good")], tools=["echo"], middleware=[hooks("A", ["model"], after_model={"when": "bad", "say": "better!", "as": "human", "jump": "model"}), hooks("B", before_model={}, after_model={})])
scenario("after model ends", [calls(echo(0))], tools=["echo"], middleware=[hooks("A", ["end"], after_model={"jump": "end"}, after_agent={"say": "bye"})])
scenario("wrap model", [text("hello")], middleware=[hooks("A", wrap_model={"system": "Be brief."})], system="Be kind.")
scenario("wrap model, fewer tools", [text("hello")], tools=["echo", "add"], middleware=[hooks("A", wrap_model={"tools": ["add"]})])
scenario("wrap model, no call", [], middleware=[hooks("A", wrap_model={"answer": "canned"}), hooks("B", wrap_model={"system": "x"})])
scenario("wrap model, two calls", [text("a"), text("b")], middleware=[hooks("A", wrap_model={"twice": True})])
scenario("wrap model, rewritten", [text("hello")], middleware=[hooks("A", wrap_model={"suffix": " A"}), hooks("B", wrap_model={"suffix": " B"})])
scenario("wrap model, an update", [text("hello")], state=True, middleware=[hooks("A", wrap_model={"update": {"topic": "x"}, "say": "aside"})])
scenario("wrap model, two updates", [text("hello")], state=True, middleware=[hooks("A", wrap_model={"say": "outer"}), hooks("B", wrap_model={"update": {"topic": "x"}, "say": "inner"})])
scenario("wrap model, two updates of a key", [text("hello")], state=True, middleware=[hooks(n, wrap_model={"update": {"topic": n}}) for n in "AB"])
scenario("wrap model, an update, after a call", [calls(echo(0)), text("done")], tools=["echo"], state=True, middleware=[hooks("A", wrap_model={"update": {"topic": "x"}})])
scenario("wrap model, an update beside a response", [calls(call("City", name="Oslo"))], tools=["echo"], state=True, response=CITY, middleware=[hooks("A", wrap_model={"update": {"topic": "x"}})])
scenario("wrap model, an update of a call that is tried again", [{"error": "no"}, text("hello")], state=True,
         middleware=limit("model retry") + [hooks("A", wrap_model={"update": {"topic": "x"}, "say": "aside"})])
scenario("wrap model, one form", [calls(call("City", name="Oslo"))], response=CITY | {"forms": ["City", "Land"]}, middleware=[hooks("A", wrap_model={"forms": ["City"]})])
scenario("wrap tool", MAIL, tools=["echo"], middleware=[hooks("A", wrap_tool={"prefix": "A:"}), hooks("B", wrap_tool={"prefix": "B:"})])
scenario("wrap tool, no call", MAIL, tools=["echo"], middleware=[hooks("A", wrap_tool={"prefix": "A:"}), hooks("B", wrap_tool={"answer": "canned"})])
scenario("limits and a person", LOOP, tools=["echo"], middleware=[*limit("tool limit", run_limit=1), *human(echo=[])], runs=[*HI, decide(APPROVE), decide(APPROVE), decide(APPROVE)])
scenario("wrap model, three", [text("hello")], tools=["echo", "add", "final"], system="Be kind.",
         middleware=[hooks("A", wrap_model={"system": "Be brief."}), hooks("B", wrap_model={"tools": ["add", "echo"]}), hooks("C", wrap_model={"tools": ["add"]})])
scenario("wrap tool, three", [calls(echo(0), ADD | {"id": "c1"}), text("done")], tools=["echo", "add"], middleware=[hooks(n, wrap_tool={"prefix": n + ":"}) for n in "ABC"])
scenario("wrap tool, the outer answers", MAIL, tools=["echo"], middleware=[hooks("A", wrap_tool={"answer": "canned"}), hooks("B", wrap_tool={"prefix": "B:"})])
scenario("a jump is forgotten", [text("hello")], runs=[{"say": "stop", "id": "h1"}, {"say": "go", "id": "h2"}],
         middleware=[hooks("A", ["end"], before_model={"when": "stop", "say": "no", "jump": "end"})])
scenario("before agent ends, in the second run", [text("hello")], runs=[*HI, {"say": "stop", "id": "h2"}],
         middleware=[hooks("A", ["end"], before_agent={"when": "stop", "jump": "end"}, after_agent={})])
scenario("agent hooks run once", [calls(echo(0)), calls(echo(1)), text("done")], tools=["echo"], middleware=[hooks("A", before_agent={"say": "in", "as": "human"}, after_agent={"say": "out"})])
scenario("after model goes to the tools", [calls(echo(0)), text("done")], tools=["echo"], middleware=[hooks("A", ["tools"], after_model={"jump": "tools", "when": "never"})])
scenario("two invalid calls, answered once", [{"invalid": [{"name": "echo", "args": "nope", "id": "c8"}, {"name": "echo", "args": "nope", "id": "c9"}]}, text("sorry"), text("again")],
         tools=["echo"], runs=[*HI, {"say": "more", "id": "h2"}, {"say": "end", "id": "h3"}])
scenario("invalid call without an id", [{"text": "", "invalid": [{"name": "echo", "args": "nope", "id": None}]}, text("sorry")], tools=["echo"], runs=[*HI, {"say": "more", "id": "h2"}])
scenario("response, then a turn without", [calls(call("City", name="Oslo")), text("no city")], tools=["echo"], response=CITY, runs=[*HI, {"say": "more", "id": "h2"}])
scenario("response and a question", [calls(call("ask", text="where?")), calls(call("City", "c1", name="Oslo"))], tools=["ask"], response=CITY, runs=[*HI, {"resume": "Oslo"}])
scenario("response after approval", [calls(echo(0)), calls(call("City", "c1", name="Oslo"))], tools=["echo"], response=CITY, middleware=human(echo=[]), runs=[*HI, decide(APPROVE)])
scenario("response and a model limit", [calls(echo(0)), calls(call("City", "c1", name="Oslo"))], tools=["echo"], response=CITY, middleware=limit("model limit", run_limit=1))
scenario("response and a tool limit", [calls(echo(0), echo(1)), calls(call("City", "c2", name="Oslo"))], tools=["echo"], response=CITY, middleware=limit("tool limit", run_limit=1))
scenario("fallback gives the response", [NO], response=CITY, middleware=limit("fallback", models=[[calls(call("City", name="Oslo"))]]))
