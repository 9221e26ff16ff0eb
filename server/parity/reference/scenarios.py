"""What is recorded: each function is a scenario, and plays on a server that others have used."""

import uuid


def _id(n):
    """An id that the scenario chooses."""
    return f"00000000-0000-4000-8000-{n:012d}"


NOBODY = _id(999)
# SYSTEM are the ids of the assistants that the server makes.
SPACE = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
SYSTEM = {name: str(uuid.uuid5(SPACE, name)) for name in ("agent", "ask", "counter", "nested")}


def _thread(p, name="create the thread", **body):
    return p.post(name, "/threads", body)["thread_id"]


# INORDER makes graphs whose nodes run side by side run them one by one, so that events have one order.
INORDER = {"max_concurrency": 1}
INORDER_CONFIG = {"config": INORDER}


def _orderly(graph, more):
    return {"config": INORDER, **more} if graph in ("ask", "fanout") else more


def _run(p, name, thread, graph, input=None, **more):
    more = _orderly(graph, more)
    return p.post(name, f"/threads/{thread}/runs/wait", {"assistant_id": graph, "input": input, **more})


def _stream(p, name, thread, graph, input=None, **more):
    more = _orderly(graph, more)
    return p.post(name, f"/threads/{thread}/runs/stream", {"assistant_id": graph, "input": input, **more})


def _human(text, ident="human-1"):
    return {"messages": [{"role": "user", "content": text, "id": ident}]}


def system(p):
    p.get("ok", "/ok")
    p.get("info", "/info", opaque=True)
    p.get("metrics", "/metrics", opaque=True)
    p.get("docs", "/docs", opaque=True)
    p.get("openapi", "/openapi.json", opaque=True)
    p.get("a path that is not there", "/nothing")
    p.call("a method that is not there", "PUT", "/threads", {})
    p.post("a body that is no JSON", "/threads", raw="{")
    p.post("a body that is no object", "/threads", [])
    p.post("no body", "/threads/search", raw="")
    p.post("a body of another type", "/threads", raw="{}", headers={"content-type": "text/plain"})
    preflight = {"origin": "http://localhost:3000", "access-control-request-method": "POST"}
    p.call("a preflight", "OPTIONS", "/threads", headers=preflight)
    private = {"access-control-request-private-network": "true"}
    p.call("a preflight for a private network", "OPTIONS", "/threads", headers={**preflight, **private})


def assistants(p):
    p.get("by the name of a graph", "/assistants/counter")
    p.get("by id", f"/assistants/{SYSTEM['counter']}")
    p.get("one that is not there", f"/assistants/{NOBODY}")
    p.get("a name that is not there", "/assistants/nobody")
    p.post("search by graph", "/assistants/search", {"graph_id": "counter"})
    p.post("all, by name", "/assistants/search", {"sort_by": "name", "sort_order": "asc", "limit": 3, "select": ["name", "graph_id"], "metadata": {"created_by": "system"}})
    p.post("the next page", "/assistants/search", {"sort_by": "name", "sort_order": "asc", "limit": 3, "offset": 9, "select": ["name"], "metadata": {"created_by": "system"}})
    p.post("count", "/assistants/count", {"metadata": {"created_by": "system"}})
    made = {"assistant_id": _id(1), "graph_id": "configured", "name": "Formal", "config": {"configurable": {"style": "formal"}}, "metadata": {"of": "assistants"}, "description": "It is polite."}
    p.post("create", "/assistants", made)
    p.post("create it again", "/assistants", made)
    p.post("create it again, and do nothing", "/assistants", {**made, "if_exists": "do_nothing", "name": "Other"})
    p.post("create with an id of the server", "/assistants", {"graph_id": "counter", "metadata": {"of": "assistants"}})
    p.post("create for no graph", "/assistants", {"graph_id": "nobody"})
    p.post("create without a graph", "/assistants", {})
    p.post("create with a wrong id", "/assistants", {"assistant_id": "x", "graph_id": "counter"})
    p.post("config and context", "/assistants", {"graph_id": "configured", "config": {"configurable": {"a": 1}}, "context": {"b": 2}})
    p.post("search by metadata", "/assistants/search", {"metadata": {"of": "assistants"}, "sort_by": "graph_id", "sort_order": "asc"})
    p.post("search by name", "/assistants/search", {"name": "Form"})
    p.post("a wrong limit", "/assistants/search", {"limit": 0})
    p.post("a wrong sort", "/assistants/search", {"sort_by": "colour"})
    p.post("run it", "/runs/wait", {"assistant_id": _id(1), "input": {}})
    p.patch("patch", f"/assistants/{_id(1)}", {"config": {"configurable": {"style": "plain"}}, "metadata": {"more": True}})
    p.post("run what it is now", "/runs/wait", {"assistant_id": _id(1), "input": {}})
    p.post("versions", f"/assistants/{_id(1)}/versions", {})
    p.post("versions by metadata", f"/assistants/{_id(1)}/versions", {"metadata": {"more": True}, "limit": 5})
    p.post("set the first version", f"/assistants/{_id(1)}/latest", {"version": 1})
    p.post("run the first version", "/runs/wait", {"assistant_id": _id(1), "input": {}})
    p.post("set a version that is not there", f"/assistants/{_id(1)}/latest", {"version": 9})
    p.patch("patch the graph", f"/assistants/{_id(1)}", {"graph_id": "counter", "name": "Counting", "description": "It counts."})
    p.patch("patch one that is not there", f"/assistants/{NOBODY}", {"name": "x"})
    p.patch("patch with a wrong graph", f"/assistants/{_id(1)}", {"graph_id": "nobody"})
    p.delete("delete", f"/assistants/{_id(1)}")
    p.get("it is gone", f"/assistants/{_id(1)}")
    p.delete("delete it again", f"/assistants/{_id(1)}")
    p.delete("delete one of the system", "/assistants/spare")
    p.get("one of the system is gone", "/assistants/spare")


def drawings(p):
    p.get("counter", "/assistants/counter/graph")
    p.get("agent", "/assistants/agent/graph")
    p.get("fan out", "/assistants/fanout/graph")
    p.get("jump", "/assistants/jump/graph")
    p.get("nested", "/assistants/nested/graph")
    p.get("nested, with what is inside", "/assistants/nested/graph?xray=true")
    p.get("nested, one level", "/assistants/nested/graph?xray=1")
    p.get("a wrong xray", "/assistants/nested/graph?xray=maybe")
    nested = f"/assistants/{SYSTEM['nested']}"
    p.get("graphs inside", nested + "/subgraphs")
    p.get("graphs inside, all levels", nested + "/subgraphs?recurse=true")
    p.get("one of them", nested + "/subgraphs/middle")
    p.get("one that is not there", nested + "/subgraphs/nobody")
    p.get("none inside", f"/assistants/{SYSTEM['counter']}/subgraphs")
    p.get("graphs inside, by name", "/assistants/nested/subgraphs")
    p.get("schemas of counter", f"/assistants/{SYSTEM['counter']}/schemas")
    p.get("schemas of ask", f"/assistants/{SYSTEM['ask']}/schemas")
    p.get("schemas of agent", f"/assistants/{SYSTEM['agent']}/schemas")
    p.get("schemas, by name", "/assistants/counter/schemas")
    p.get("schemas of nobody", f"/assistants/{NOBODY}/schemas")


def threads(p):
    t = p.post("create", "/threads", {})["thread_id"]
    p.get("get", f"/threads/{t}")
    p.get("the state of a thread without one", f"/threads/{t}/state")
    p.get("the history of a thread without one", f"/threads/{t}/history")
    own = _id(10)
    p.post("create with an id", "/threads", {"thread_id": own, "metadata": {"of": "threads", "n": 1}})
    p.post("create it again", "/threads", {"thread_id": own})
    p.post("create it again, and do nothing", "/threads", {"thread_id": own, "if_exists": "do_nothing", "metadata": {"n": 2}})
    p.post("create with a wrong id", "/threads", {"thread_id": "x"})
    p.post("create with a wrong choice", "/threads", {"if_exists": "maybe"})
    p.post("create with wrong metadata", "/threads", {"metadata": 1})
    p.get("one that is not there", f"/threads/{NOBODY}")
    p.get("a wrong id", "/threads/x")
    p.patch("patch", f"/threads/{own}", {"metadata": {"colour": "red"}})
    p.patch("patch it to null", f"/threads/{own}", {"metadata": {"n": None}})
    p.patch("patch one that is not there", f"/threads/{NOBODY}", {"metadata": {}})
    _run(p, "run on it", own, "counter", {"n": 1})
    p.get("it has values", f"/threads/{own}")
    for i in (11, 12, 13):
        p.post(f"create {i}", "/threads", {"thread_id": _id(i), "metadata": {"of": "threads", "n": i}})
    mine = {"metadata": {"of": "threads"}}
    p.post("search by metadata", "/threads/search", {**mine, "sort_by": "thread_id", "sort_order": "asc"})
    p.post("search by two of metadata", "/threads/search", {"metadata": {"of": "threads", "n": 12}})
    p.post("search by status", "/threads/search", {**mine, "status": "idle", "sort_by": "thread_id", "sort_order": "desc", "select": ["thread_id", "status"]})
    p.post("search by ids", "/threads/search", {"ids": [_id(13), _id(11)], "sort_by": "thread_id", "sort_order": "asc", "select": ["thread_id"]})
    p.post("search by values", "/threads/search", {**mine, "values": {"n": 112}, "select": ["thread_id", "values"]})
    p.post("extract from values", "/threads/search", {**mine, "ids": [own], "select": ["thread_id"], "extract": {"last": "values.log[-1]", "n": "values.n"}})
    p.post("page by page", "/threads/search", {**mine, "limit": 2, "offset": 1, "sort_by": "created_at", "sort_order": "asc", "select": ["thread_id"]})
    p.post("the default order", "/threads/search", {**mine, "select": ["thread_id"]})
    p.post("a wrong status", "/threads/search", {"status": "happy"})
    p.post("a wrong limit", "/threads/search", {"limit": -1})
    p.post("a wrong field", "/threads/search", {"select": ["colour"]})
    p.post("count", "/threads/count", mine)
    p.post("count by status", "/threads/count", {**mine, "status": "busy"})
    c = p.post("copy", f"/threads/{own}/copy")["thread_id"]
    p.get("the state of the copy", f"/threads/{c}/state")
    p.get("the history of the copy", f"/threads/{c}/history?limit=2")
    p.post("copy one that is not there", f"/threads/{NOBODY}/copy")
    p.delete("delete", f"/threads/{own}")
    p.get("it is gone", f"/threads/{own}")
    p.get("its state is gone", f"/threads/{own}/state")
    p.delete("delete it again", f"/threads/{own}")
    p.get("the copy stays", f"/threads/{c}")
    p.post("with a time to live", "/threads", {"thread_id": _id(14), "ttl": {"ttl": 60, "strategy": "delete"}})
    p.post("prune", "/threads/prune", {"thread_ids": [_id(11), _id(12)], "strategy": "delete"})
    p.get("pruned", f"/threads/{_id(11)}")
    p.post("prune, and keep the latest", "/threads/prune", {"thread_ids": [c], "strategy": "keep_latest"})
    p.get("what prune kept", f"/threads/{c}/history")
    p.post("prune in a wrong way", "/threads/prune", {"thread_ids": [c], "strategy": "burn"})


def supersteps(p):
    steps = [
        {"updates": [{"values": {"n": 5}, "as_node": "__input__"}]},
        {"updates": [{"values": {"n": 1, "log": ["given"]}, "as_node": "one"}]},
    ]
    t = p.post("create with supersteps", "/threads", {"metadata": {"graph_id": "counter"}, "supersteps": steps})["thread_id"]
    p.get("its state", f"/threads/{t}/state")
    _run(p, "go on", t, "counter")


def states(p):
    t = _thread(p)
    _run(p, "run", t, "counter", {"n": 1})
    now = p.get("get", f"/threads/{t}/state")
    found = p.get("history", f"/threads/{t}/history?limit=10")
    p.get("history, limited", f"/threads/{t}/history?limit=2")
    p.post("history by POST", f"/threads/{t}/history", {})
    p.post("history before", f"/threads/{t}/history", {"limit": 2, "before": found[1]["checkpoint"]})
    p.post("history before an id", f"/threads/{t}/history", {"limit": 1, "before": found[1]["checkpoint_id"]})
    p.post("history by metadata", f"/threads/{t}/history", {"limit": 5, "metadata": {"step": 1}})
    p.post("history from a checkpoint", f"/threads/{t}/history", {"limit": 5, "checkpoint": {"checkpoint_id": found[2]["checkpoint_id"]}})
    p.get("a wrong limit", f"/threads/{t}/history?limit=x")
    p.post("a wrong limit by POST", f"/threads/{t}/history", {"limit": 0})
    old = found[2]["checkpoint_id"]
    p.get("at a checkpoint", f"/threads/{t}/state/{old}")
    p.post("at a checkpoint by POST", f"/threads/{t}/state/checkpoint", {"checkpoint": {"checkpoint_id": old, "checkpoint_ns": ""}})
    p.get("at a checkpoint that is not there", f"/threads/{t}/state/{NOBODY}")
    p.get("at a wrong checkpoint", f"/threads/{t}/state/x")
    p.get("of a thread that is not there", f"/threads/{NOBODY}/state")
    p.post("update", f"/threads/{t}/state", {"values": {"n": 1000, "log": ["by hand"]}})
    p.get("updated", f"/threads/{t}/state")
    p.post("update as a node", f"/threads/{t}/state", {"values": {"log": ["as one"]}, "as_node": "one"})
    p.get("updated as a node", f"/threads/{t}/state")
    _run(p, "go on", t, "counter")
    p.post("update at a checkpoint", f"/threads/{t}/state", {"values": {"log": ["branch"]}, "checkpoint": {"checkpoint_id": old}})
    p.get("the branch", f"/threads/{t}/state")
    p.post("update by checkpoint_id", f"/threads/{t}/state", {"values": {"log": ["again"]}, "checkpoint_id": old})
    p.post("update as a node that is not there", f"/threads/{t}/state", {"values": {"n": 1}, "as_node": "nobody"})
    p.post("update a key that is not there", f"/threads/{t}/state", {"values": {"colour": "red"}})
    p.post("update with a wrong value", f"/threads/{t}/state", {"values": {"n": "x"}})
    p.post("update of a thread that is not there", f"/threads/{NOBODY}/state", {"values": {}})
    p.post("update of nothing", f"/threads/{t}/state", {})
    fork = {"checkpoint": {"checkpoint_id": old}}
    _run(p, "run from a checkpoint", t, "counter", {"n": 7}, **fork)
    _run(p, "run from a checkpoint without input", t, "counter", None, checkpoint_id=old)
    p.get("run from a checkpoint, the state", f"/threads/{t}/state")
    e = _thread(p, "create another")
    p.post("update a thread that no graph has", f"/threads/{e}/state", {"values": {"n": 1}})
    end = _thread(p, "create a third", metadata={"graph_id": "counter"})
    p.post("update one with a graph", f"/threads/{end}/state", {"values": {"n": 1}, "as_node": "three"})
    p.get("its state", f"/threads/{end}/state")
    p.get("the thread", f"/threads/{end}")
    assert now


def waits(p):
    t = _thread(p)
    _run(p, "wait", t, "counter", {"n": 1})
    p.post("wait, stateless", "/runs/wait", {"assistant_id": "counter", "input": {"n": 2}})
    p.post("by the id of an assistant", "/runs/wait", {"assistant_id": SYSTEM["counter"], "input": {"n": 2}})
    _run(p, "an assistant that is not there", t, "nobody", {"n": 1})
    _run(p, "an id that is not there", t, NOBODY, {"n": 1})
    _run(p, "a thread that is not there", NOBODY, "counter", {"n": 1})
    _run(p, "a thread that is made", _id(20), "counter", {"n": 1}, if_not_exists="create")
    p.get("it was made", f"/threads/{_id(20)}")
    p.post("without an assistant", f"/threads/{t}/runs/wait", {"input": {}})
    _run(p, "input null at the end", t, "counter", None)
    _run(p, "empty input", t, "counter", {})
    _run(p, "input of unknown keys", t, "counter", {"colour": "red"})
    _run(p, "input of a wrong kind", t, "counter", 7)
    _run(p, "a wrong strategy", t, "counter", {}, multitask_strategy="maybe")
    _run(p, "a wrong mode", t, "counter", {}, stream_mode="maybe")
    _run(p, "a wrong durability", t, "counter", {}, durability="maybe")
    _run(p, "a wrong if_not_exists", t, "counter", {}, if_not_exists="maybe")
    _run(p, "input and command", t, "counter", {"n": 1}, command={"resume": 1})
    _run(p, "a recursion limit", t, "counter", {"n": 1}, config={"recursion_limit": 2})
    _run(p, "config", t, "configured", {}, config={"configurable": {"style": "loud"}})
    _run(p, "context", t, "configured", {}, context={"style": "calm"})
    _run(p, "both", t, "configured", {}, config={"configurable": {"style": "loud"}}, context={"style": "calm"})
    f = _thread(p, "create another", metadata={"of": "waits"})
    _run(p, "a graph that fails", f, "error", {"fail": True})
    p.get("the thread that failed", f"/threads/{f}")
    p.get("the state that failed", f"/threads/{f}/state")
    p.get("the runs that failed", f"/threads/{f}/runs")
    p.post("update what failed", f"/threads/{f}/state", {"values": {"fail": False}})
    _run(p, "go on after it", f, "error", None)
    p.get("it is well again", f"/threads/{f}")
    p.post("a stateless one that fails", "/runs/wait", {"assistant_id": "error", "input": {"fail": True}})
    p.post("Send", "/runs/wait", {"assistant_id": "fanout", "input": {"items": ["x", "y", "z"]}, "config": INORDER})
    p.post("Command", "/runs/wait", {"assistant_id": "jump", "input": {"text": "far"}})
    p.post("exit durability", "/runs/wait", {"assistant_id": "counter", "input": {"n": 1}, "durability": "exit"})


def background(p):
    t = _thread(p)
    r = p.post("create", f"/threads/{t}/runs", {"assistant_id": "counter", "input": {"n": 1}, "metadata": {"why": "test"}})["run_id"]
    p.until("until it has ended", f"/threads/{t}/runs/{r}", "status", "success")
    p.get("join", f"/threads/{t}/runs/{r}/join")
    p.get("join the stream of one that ended", f"/threads/{t}/runs/{r}/stream")
    p.get("list", f"/threads/{t}/runs")
    p.get("list, limited", f"/threads/{t}/runs?limit=1&offset=1")
    p.get("list by status", f"/threads/{t}/runs?status=error")
    p.get("list, some fields", f"/threads/{t}/runs?select=run_id&select=status")
    p.get("one that is not there", f"/threads/{t}/runs/{NOBODY}")
    p.get("a wrong id", f"/threads/{t}/runs/x")
    p.get("on a thread that is not there", f"/threads/{NOBODY}/runs")
    p.get("join one that is not there", f"/threads/{t}/runs/{NOBODY}/join")
    p.post("cancel one that ended", f"/threads/{t}/runs/{r}/cancel")
    p.post("cancel one that is not there", f"/threads/{t}/runs/{NOBODY}/cancel")
    p.post("cancel in a wrong way", f"/threads/{t}/runs/{r}/cancel?action=maybe")
    p.delete("delete", f"/threads/{t}/runs/{r}")
    p.get("it is gone", f"/threads/{t}/runs/{r}")
    p.delete("delete it again", f"/threads/{t}/runs/{r}")
    p.get("the state stays or goes", f"/threads/{t}/state")
    p.post("a stateless one", "/runs", {"assistant_id": "counter", "input": {"n": 1}})
    p.post("a batch", "/runs/batch", [{"assistant_id": "counter", "input": {"n": 1}}, {"assistant_id": "custom", "input": {}}])
    p.post("an empty batch", "/runs/batch", [])
    p.post("a wrong batch", "/runs/batch", [{"input": 1}])
    later = p.post("later", f"/threads/{t}/runs", {"assistant_id": "counter", "input": {"n": 1}, "after_seconds": 3600})["run_id"]
    p.get("the thread waits", f"/threads/{t}")
    p.get("it is pending", f"/threads/{t}/runs/{later}")
    p.delete("delete a pending one", f"/threads/{t}/runs/{later}")
    p.post("cancel it", f"/threads/{t}/runs/{later}/cancel?wait=true")
    p.get("it was cancelled", f"/threads/{t}/runs/{later}")


def cancels(p):
    t = _thread(p)
    slow = {"assistant_id": "slow", "input": {"delay": 0.3}}
    p.open("stream", "a", "POST", f"/threads/{t}/runs/stream", {**slow, "stream_mode": "updates"}, take=2)
    r = p.get("the run", f"/threads/{t}/runs?status=running")[0]["run_id"]
    p.get("the thread is busy", f"/threads/{t}")
    p.post("update a busy thread", f"/threads/{t}/state", {"values": {"steps": ["x"]}})
    p.post("cancel and wait", f"/threads/{t}/runs/{r}/cancel?wait=true")
    p.rest("the rest of its stream", "a")
    p.get("cancelled", f"/threads/{t}/runs/{r}")
    p.get("the thread", f"/threads/{t}")
    p.get("the state", f"/threads/{t}/state")
    u = _thread(p, "create another")
    p.open("stream another", "b", "POST", f"/threads/{u}/runs/stream", {**slow, "stream_mode": "updates"}, take=2)
    r = p.get("the other run", f"/threads/{u}/runs")[0]["run_id"]
    p.post("roll back", f"/threads/{u}/runs/{r}/cancel?wait=true&action=rollback")
    p.get("rolled back", f"/threads/{u}/runs/{r}")
    p.get("the state before it", f"/threads/{u}/state")
    p.get("the thread before it", f"/threads/{u}")
    v = _thread(p, "create a third")
    r = p.post("a run", f"/threads/{v}/runs", {**slow, "input": {"delay": 5}})["run_id"]
    p.until("it runs", f"/threads/{v}/runs/{r}", "status", "running")
    p.post("cancel many", "/runs/cancel", {"thread_id": v, "run_ids": [r]})
    p.until("it was cancelled", f"/threads/{v}/runs/{r}", "status", "interrupted")
    p.post("cancel none", "/runs/cancel", {"thread_id": v, "run_ids": [NOBODY]})
    p.post("cancel by a wrong status", "/runs/cancel", {"status": "maybe"})
    p.post("cancel without saying which", "/runs/cancel", {})


def multitask(p):
    slow = {"assistant_id": "slow", "input": {"delay": 0.3}}
    quick = {"assistant_id": "slow", "input": {}}
    t = _thread(p)
    p.open("first", "a", "POST", f"/threads/{t}/runs/stream", {**slow, "stream_mode": "updates"}, take=2)
    p.post("reject", f"/threads/{t}/runs/wait", {**quick, "multitask_strategy": "reject"})
    p.post("enqueue", f"/threads/{t}/runs/wait", {**quick, "multitask_strategy": "enqueue"})
    p.rest("the rest of the first", "a")
    p.get("both ended", f"/threads/{t}/runs?select=status&select=multitask_strategy")
    u = _thread(p, "create another")
    p.open("first of another", "b", "POST", f"/threads/{u}/runs/stream", {**slow, "stream_mode": "updates"}, take=2)
    p.post("interrupt", f"/threads/{u}/runs/wait", {**quick, "multitask_strategy": "interrupt"})
    p.rest("the rest of what was interrupted", "b")
    p.get("one interrupted", f"/threads/{u}/runs?select=status&select=multitask_strategy")
    v = _thread(p, "create a third")
    p.open("first of a third", "c", "POST", f"/threads/{v}/runs/stream", {**slow, "stream_mode": "updates"}, take=2)
    p.post("rollback", f"/threads/{v}/runs/wait", {**quick, "multitask_strategy": "rollback"})
    p.get("one rolled back", f"/threads/{v}/runs?select=status&select=multitask_strategy")
    p.get("the state after it", f"/threads/{v}/state")


def streams(p):
    for mode in ("values", "updates", "tasks", "checkpoints", "debug", "custom", "messages", "messages-tuple"):
        p.post(f"counter, mode {mode}", "/runs/stream", {"assistant_id": "counter", "input": {"n": 1}, "stream_mode": mode})
    p.post("no mode", "/runs/stream", {"assistant_id": "counter", "input": {"n": 1}})
    p.post("an empty list of modes", "/runs/stream", {"assistant_id": "counter", "input": {"n": 1}, "stream_mode": []})
    p.post("two modes", "/runs/stream", {"assistant_id": "counter", "input": {"n": 1}, "stream_mode": ["values", "updates"]})
    p.post("custom events", "/runs/stream", {"assistant_id": "custom", "input": {}, "stream_mode": ["custom", "updates"]})
    t = _thread(p)
    _stream(p, "on a thread", t, "counter", {"n": 1}, stream_mode=["values"])
    _stream(p, "on it again", t, "counter", {"n": 1}, stream_mode=["updates"])
    p.post("Send", "/runs/stream", {"assistant_id": "fanout", "input": {"items": ["x", "y"]}, "config": INORDER, "stream_mode": ["updates", "tasks"]})
    p.post("Command", "/runs/stream", {"assistant_id": "jump", "input": {"text": "far"}, "stream_mode": ["updates", "values"]})
    p.post("a failure", "/runs/stream", {"assistant_id": "error", "input": {"fail": True}, "stream_mode": ["values", "updates"]})
    p.post("a recursion limit", "/runs/stream", {"assistant_id": "counter", "input": {"n": 1}, "stream_mode": "updates", "config": {"recursion_limit": 2}})
    p.post("no assistant", "/runs/stream", {"assistant_id": "nobody", "input": {}})
    p.post("a wrong mode", "/runs/stream", {"assistant_id": "counter", "input": {}, "stream_mode": ["maybe"]})
    p.post("events", "/runs/stream", {"assistant_id": "custom", "input": {}, "stream_mode": ["events"]})


def nested(p):
    t = _thread(p)
    _stream(p, "with what is inside", t, "nested", {"path": ["in"]}, stream_mode=["values", "updates"], stream_subgraphs=True)
    p.get("the thread", f"/threads/{t}")
    p.get("the state", f"/threads/{t}/state")
    s = p.get("the state, with what is inside", f"/threads/{t}/state?subgraphs=true")
    p.get("the history", f"/threads/{t}/history")
    inner = s["tasks"][0]["state"]["tasks"][0]["state"]["checkpoint"]
    p.post("the state inside", f"/threads/{t}/state/checkpoint", {"checkpoint": inner, "subgraphs": True})
    ns = {"checkpoint_ns": inner["checkpoint_ns"]}
    p.post("the newest state inside", f"/threads/{t}/state/checkpoint", {"checkpoint": ns})
    p.post("the history inside", f"/threads/{t}/history", {"limit": 5, "checkpoint": ns})
    p.post("update inside", f"/threads/{t}/state", {"values": {"path": ["by hand"]}, "checkpoint": ns})
    _stream(p, "resume", t, "nested", None, command={"resume": "yes"}, stream_mode=["updates"], stream_subgraphs=True)
    p.get("the end", f"/threads/{t}/state")
    p.get("the end, the thread", f"/threads/{t}")
    u = _thread(p, "create another")
    _stream(p, "without what is inside", u, "nested", {"path": ["in"]}, stream_mode=["values", "updates", "tasks"])
    _stream(p, "resume without", u, "nested", None, command={"resume": "no"}, stream_mode=["values"])


def interrupts(p):
    t = _thread(p)
    _stream(p, "ask", t, "ask", {"name": "n"}, stream_mode=["values", "updates"])
    p.get("the thread", f"/threads/{t}")
    s = p.get("the state", f"/threads/{t}/state")
    p.post("the thread is found", "/threads/search", {"ids": [t], "status": "interrupted", "select": ["thread_id", "status", "interrupts"]})
    _run(p, "one answer for two", t, "ask", None, command={"resume": "both"})
    ids = [i["id"] for task in s["tasks"] for i in task["interrupts"]]
    _run(p, "answer the right", t, "ask", None, command={"resume": {ids[1]: "R"}})
    p.get("the left is asked", f"/threads/{t}/state")
    _stream(p, "answer the left", t, "ask", None, command={"resume": {ids[0]: "L"}}, stream_mode=["updates"])
    _run(p, "answer the first", t, "ask", None, command={"resume": "1"})
    _run(p, "answer the second", t, "ask", None, command={"resume": "2"})
    p.get("the end", f"/threads/{t}")
    _run(p, "answer when nobody asks", t, "ask", None, command={"resume": "3"})
    u = _thread(p, "create another")
    _run(p, "goto", u, "jump", None, command={"goto": "far", "update": {"text": "steered"}})
    _run(p, "goto nowhere", u, "jump", None, command={"goto": "nobody"})
    _run(p, "goto with a packet", u, "fanout", None, command={"goto": {"node": "work", "input": {"item": "sent"}}})
    _run(p, "only an update", u, "counter", None, command={"update": {"n": 3}})
    _run(p, "a wrong command", u, "counter", None, command=3)
    v = _thread(p, "create a third")
    _stream(p, "break before", v, "counter", {"n": 1}, interrupt_before=["two"], stream_mode=["values", "updates"])
    p.get("broken", f"/threads/{v}")
    p.get("broken, the state", f"/threads/{v}/state")
    _run(p, "go on, break after", v, "counter", None, interrupt_after=["two"])
    _run(p, "go on to the end", v, "counter", None)
    _run(p, "break everywhere", v, "counter", {"n": 1}, interrupt_before="*")
    _run(p, "break at a node that is not there", v, "counter", {"n": 1}, interrupt_before=["nobody"])


def agents(p):
    t = _thread(p)
    _stream(p, "messages", t, "agent", _human("hello"), stream_mode=["messages-tuple", "updates"])
    _stream(p, "messages, whole", t, "agent", _human("weather in Oslo", "human-2"), stream_mode=["messages"])
    p.get("the state", f"/threads/{t}/state")
    _stream(p, "a tool that asks", t, "agent", _human("weather in Rome", "human-3"), stream_mode=["values", "messages-tuple"])
    _stream(p, "answer it", t, "agent", None, command={"resume": "sunny"}, stream_mode=["updates", "messages-tuple"])
    p.get("the thread", f"/threads/{t}")
    u = _thread(p, "create another")
    _run(p, "a tuple as a message", u, "agent", {"messages": [["user", "hi"]]})
    _run(p, "a wrong message", u, "agent", {"messages": [{"colour": "red"}]})
    p.post("update with a message", f"/threads/{u}/state", {"values": {"messages": [{"type": "human", "content": "by hand", "id": "h"}]}})
    p.get("updated", f"/threads/{u}/state")


def resumable(p):
    t = _thread(p)
    slow = {"assistant_id": "slow", "input": {"delay": 0.2}, "stream_mode": ["updates"], "stream_resumable": True}
    got = p.open("take two and drop", "a", "POST", f"/threads/{t}/runs/stream", {**slow, "on_disconnect": "continue"}, take=2, drop=True)
    r = got[0][1]["run_id"]
    p.get("join from the last", f"/threads/{t}/runs/{r}/stream?stream_mode=updates", headers={"last-event-id": got[1][2]})
    p.get("join from the start", f"/threads/{t}/runs/{r}/stream", headers={"last-event-id": "-1"})
    p.get("join at the end", f"/threads/{t}/runs/{r}/stream")
    r = p.post("in the background", f"/threads/{t}/runs", slow)["run_id"]
    p.get("join while it runs", f"/threads/{t}/runs/{r}/stream", headers={"last-event-id": "-1"})
    u = _thread(p, "create another")
    got = p.open("drop one that is to be cancelled", "b", "POST", f"/threads/{u}/runs/stream", {**slow, "input": {"delay": 1}, "on_disconnect": "cancel"}, take=2, drop=True)
    p.until("it was cancelled", f"/threads/{u}/runs/{got[0][1]['run_id']}", "status", "interrupted")
    got = p.open("drop one that goes on", "c", "POST", f"/threads/{u}/runs/stream", {**slow, "on_disconnect": "continue"}, take=1, drop=True)
    p.until("it has ended", f"/threads/{u}/runs/{got[0][1]['run_id']}", "status", "success")


def stores(p):
    p.put("put", "/store/items", {"namespace": ["stores", "a"], "key": "k", "value": {"n": 1, "who": "ada"}})
    p.get("get", "/store/items?key=k&namespace=stores.a")
    p.get("get one that is not there", "/store/items?key=x&namespace=stores.a")
    p.get("get without a key", "/store/items?namespace=stores.a")
    p.get("get without a namespace", "/store/items?key=k")
    p.put("replace", "/store/items", {"namespace": ["stores", "a"], "key": "k", "value": {"n": 2, "who": "ada"}})
    p.put("put another", "/store/items", {"namespace": ["stores", "a"], "key": "l", "value": {"n": 3, "who": "bob"}})
    p.put("put elsewhere", "/store/items", {"namespace": ["stores", "b"], "key": "m", "value": {"n": 4}})
    p.post("search", "/store/items/search", {"namespace_prefix": ["stores"]})
    p.post("search by a filter", "/store/items/search", {"namespace_prefix": ["stores"], "filter": {"who": "bob"}})
    p.post("search by a comparison", "/store/items/search", {"namespace_prefix": ["stores"], "filter": {"n": {"$gt": 2}}})
    p.post("search page by page", "/store/items/search", {"namespace_prefix": ["stores", "a"], "limit": 1, "offset": 1})
    p.post("search nothing", "/store/items/search", {"namespace_prefix": ["stores", "nobody"]})
    p.post("search with a wrong limit", "/store/items/search", {"namespace_prefix": ["stores"], "limit": "x"})
    p.post("namespaces", "/store/namespaces", {"prefix": ["stores"]})
    p.post("namespaces by suffix", "/store/namespaces", {"suffix": ["b"], "prefix": ["stores"]})
    p.post("namespaces by depth", "/store/namespaces", {"prefix": ["stores"], "max_depth": 1})
    p.put("put without a key", "/store/items", {"namespace": ["stores"], "value": {}})
    p.put("put without a value", "/store/items", {"namespace": ["stores"], "key": "k"})
    p.put("put a value that is no object", "/store/items", {"namespace": ["stores"], "key": "k", "value": 1})
    p.put("put into no namespace", "/store/items", {"namespace": [], "key": "k", "value": {}})
    p.put("put into a label with a dot", "/store/items", {"namespace": ["a.b"], "key": "k", "value": {}})
    p.put("put into langgraph's", "/store/items", {"namespace": ["langgraph", "x"], "key": "k", "value": {}})
    p.delete("delete", "/store/items", {"namespace": ["stores", "a"], "key": "k"})
    p.get("it is gone", "/store/items?key=k&namespace=stores.a")
    p.delete("delete it again", "/store/items", {"namespace": ["stores", "a"], "key": "k"})
    p.delete("delete without a key", "/store/items", {"namespace": ["stores", "a"]})
    p.post("from a node", "/runs/wait", {"assistant_id": "notes", "input": {"note": "one"}})
    p.post("from a node again", "/runs/wait", {"assistant_id": "notes", "input": {"note": "two"}})
    p.get("what the node stored", "/store/items?key=two&namespace=notes.all")


def crons(p):
    t = _thread(p)
    yearly = {"assistant_id": "counter", "schedule": "0 0 1 1 *", "input": {"n": 1}, "metadata": {"of": "crons"}}
    c = p.post("create on a thread", f"/threads/{t}/runs/crons", yearly)["cron_id"]
    p.post("create", "/runs/crons", yearly)
    p.get("get", f"/runs/crons/{c}")
    p.get("one that is not there", f"/runs/crons/{NOBODY}")
    p.post("search by thread", "/runs/crons/search", {"thread_id": t})
    p.post("search by assistant", "/runs/crons/search", {"assistant_id": SYSTEM["counter"], "limit": 1})
    p.post("count", "/runs/crons/count", {"thread_id": t})
    p.patch("patch", f"/runs/crons/{c}", {"enabled": False, "schedule": "30 2 * * *"})
    p.post("a wrong schedule", "/runs/crons", {**yearly, "schedule": "often"})
    p.post("no schedule", "/runs/crons", {"assistant_id": "counter"})
    p.post("no assistant", "/runs/crons", {**yearly, "assistant_id": "nobody"})
    p.delete("delete", f"/runs/crons/{c}")
    p.get("it is gone", f"/runs/crons/{c}")
    p.delete("delete it again", f"/runs/crons/{c}")


ALL = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"]


def _command(p, name, thread, n, method, params):
    return p.post(name, f"/threads/{thread}/commands", {"id": n, "method": method, "params": params})


def v2_commands(p):
    t = _thread(p)
    c = f"/threads/{t}/commands"
    p.post("no JSON", c, raw="x")
    p.post("no object", c, [])
    p.post("no id", c, {"method": "run.start"})
    p.post("an id that is a text", c, {"id": "x", "method": "run.start"})
    p.post("an id below zero", c, {"id": -1, "method": "run.start"})
    p.post("an id that is a fraction", c, {"id": 1.5, "method": "run.start"})
    p.post("no method", c, {"id": 1})
    p.post("a method that is not there", c, {"id": 2, "method": "nobody", "params": {}})
    p.post("no params", c, {"id": 3, "method": "run.start"})
    p.post("params that are a list", c, {"id": 4, "method": "run.start", "params": []})
    _command(p, "start without an assistant", t, 5, "run.start", {})
    _command(p, "start an assistant that is not there", t, 6, "run.start", {"assistant_id": "nobody", "input": {}})
    _command(p, "a tree without a run", t, 7, "agent.getTree", {})
    _command(p, "reconnect without a run", t, 8, "subscription.reconnect", {"run_id": "x"})
    _command(p, "unsubscribe from nothing", t, 9, "subscription.unsubscribe", {"subscription_id": "x"})
    _command(p, "subscribe to nothing", t, 10, "subscription.subscribe", {})
    _command(p, "subscribe to a channel that is not there", t, 11, "subscription.subscribe", {"channels": ["nobody"]})
    s = _command(p, "subscribe", t, 12, "subscription.subscribe", {"channels": ["values"]})
    _command(p, "unsubscribe", t, 13, "subscription.unsubscribe", {"subscription_id": s["result"]["subscription_id"]})
    _command(p, "respond to nothing", t, 14, "input.respond", {"namespace": [], "interrupt_id": "x", "response": 1})
    _command(p, "respond without an id", t, 15, "input.respond", {"namespace": [], "response": 1})
    _command(p, "respond with an empty list", t, 16, "input.respond", {"responses": []})
    _command(p, "respond with a text", t, 21, "input.respond", {"responses": "x"})
    _command(p, "state.get", t, 17, "state.get", {"namespace": []})
    _command(p, "state.listCheckpoints", t, 18, "state.listCheckpoints", {})
    _command(p, "state.fork", t, 19, "state.fork", {"checkpoint_id": NOBODY})
    _command(p, "input.inject", t, 20, "input.inject", {"namespace": [], "message": {"role": "user", "content": "x"}})
    p.post("on a thread that is not there", f"/threads/{NOBODY}/commands", {"id": 1, "method": "agent.getTree", "params": {}})
    p.post("on a thread with a wrong id", "/threads/x/commands", {"id": 1, "method": "agent.getTree", "params": {}})
    e = f"/threads/{t}/stream/events"
    wrong = {
        "no channels": {},
        "an empty list of channels": {"channels": []},
        "a channel that is not there": {"channels": ["nobody"]},
        "since nobody knows when": {"channels": ["values"], "since": "x"},
        "since the future": {"channels": ["values"], "since": 1000},
        "a wrong depth": {"channels": ["values"], "depth": -1},
        "wrong namespaces": {"channels": ["values"], "namespaces": "x"},
        "a list": [],
    }
    for name, body in wrong.items():
        p.open("events of " + name, "e", "POST", e, body, drop=True)
    p.open("events without JSON", "e", "POST", e, raw="x", drop=True)
    p.open("events of a thread with a wrong id", "e", "POST", "/threads/x/stream/events", {"channels": ["values"]}, drop=True)
    p.open("events of a thread that is not there", "e", "POST", f"/threads/{NOBODY}/stream/events", {"channels": ["values"]}, drop=True)


def _play(p, graph, input, channels=None, thread=None, **params):
    t = thread or _thread(p)
    params = _orderly(graph, params)
    p.open("listen", "e", "POST", f"/threads/{t}/stream/events", {"channels": channels or ALL})
    _command(p, "start", t, 1, "run.start", {"assistant_id": graph, "input": input, **params})
    p.run_over("events", "e")
    return t


def v2_counter(p):
    t = _play(p, "counter", {"n": 1})
    _command(p, "the tree after it", t, 2, "agent.getTree", {})
    p.get("the thread", f"/threads/{t}")
    p.get("the runs", f"/threads/{t}/runs")
    p.open("listen again, from the start", "f", "POST", f"/threads/{t}/stream/events", {"channels": ALL, "since": 0})
    p.run_over("events again", "f")
    p.open("listen again, from the fifth", "g", "POST", f"/threads/{t}/stream/events", {"channels": ALL, "since": 5})
    p.run_over("events from the sixth", "g")
    _command(p, "start again", t, 3, "run.start", {"assistant_id": "counter", "input": {"n": 1}})
    p.run_over("events of the second run", "e")


def v2_agent(p):
    t = _play(p, "agent", _human("hello"))
    _command(p, "ask for weather", t, 2, "run.start", {"assistant_id": "agent", "input": _human("weather in Oslo", "human-2")})
    p.run_over("events of a tool", "e")


def v2_interrupt(p):
    t = _play(p, "agent", _human("weather in Rome"))
    s = p.get("the state", f"/threads/{t}/state")
    found = s["tasks"][0]["interrupts"][0]["id"]
    _command(p, "respond to a wrong one", t, 2, "input.respond", {"namespace": [], "interrupt_id": "x", "response": 1})
    _command(p, "respond", t, 3, "input.respond", {"namespace": [], "interrupt_id": found, "response": "sunny"})
    p.run_over("events of the answer", "e")
    _command(p, "respond again", t, 4, "input.respond", {"namespace": [], "interrupt_id": found, "response": "sunny"})
    p.get("the end", f"/threads/{t}")


def v2_start_resumes(p):
    t = _play(p, "agent", _human("weather in Rome"))
    _command(p, "start again, with new input", t, 2, "run.start", {"assistant_id": "agent", "input": "from start"})
    p.run_over("events of the answer", "e")
    p.get("the state", f"/threads/{t}/state")


def v2_many(p):
    t = _play(p, "ask", {"name": "n"})
    s = p.get("the state", f"/threads/{t}/state")
    answers = [{"namespace": [], "interrupt_id": i["id"], "response": i["value"]["who"].upper()} for task in s["tasks"] for i in task["interrupts"]]
    _command(p, "respond to both", t, 2, "input.respond", {"responses": answers, "config": INORDER})
    p.run_over("events of the answers", "e")


def v2_update(p):
    t = _play(p, "ask", {"name": "n"}, channels=["lifecycle", "input"])
    s = p.get("the state", f"/threads/{t}/state")
    answers = [{"namespace": [], "interrupt_id": i["id"], "response": i["value"]["who"]} for task in s["tasks"] for i in task["interrupts"]]
    _command(p, "respond with an update", t, 2, "input.respond", {"responses": answers, "config": INORDER, "update": {"name": "updated"}})
    p.run_over("events of the answers", "e")
    p.until("it asks again", f"/threads/{t}", "status", "interrupted")
    p.get("the state after it", f"/threads/{t}/state")


def v2_nested(p):
    t = _play(p, "nested", {"path": ["in"]})
    p.open("listen at the root", "f", "POST", f"/threads/{t}/stream/events", {"channels": ["values", "updates", "lifecycle"], "namespaces": [[]], "depth": 0, "since": 0})
    p.run_over("events of the root", "f")
    s = p.get("the state", f"/threads/{t}/state?subgraphs=true")
    outer = s["tasks"][0]["state"]["checkpoint"]["checkpoint_ns"]
    p.open("listen inside", "g", "POST", f"/threads/{t}/stream/events", {"channels": ["values"], "namespaces": [[outer]], "since": 0})
    p.take("one event inside", "g", 1)
    inner = s["tasks"][0]["state"]["tasks"][0]["state"]["checkpoint"]["checkpoint_ns"]
    found = s["tasks"][0]["interrupts"][0]["id"]
    _command(p, "respond", t, 2, "input.respond", {"namespace": inner.split("|"), "interrupt_id": found, "response": "yes"})
    p.run_over("events of the answer", "e")


def v2_fanout(p):
    _play(p, "fanout", {"items": ["x", "y"]}, channels=["lifecycle", "updates", "tasks"])


def v2_failure(p):
    t = _play(p, "error", {"fail": True})
    p.get("the thread", f"/threads/{t}")


def v2_custom(p):
    _play(p, "custom", {}, channels=["custom", "lifecycle"])


def v2_telling(p):
    _play(p, "telling", {}, channels=["custom", "lifecycle"])
    t = _thread(p, "create another")
    p.open("listen to those of a name", "n", "POST", f"/threads/{t}/stream/events", {"channels": ["custom:x", "lifecycle"]})
    _command(p, "start it", t, 1, "run.start", {"assistant_id": "telling", "input": {}})
    p.run_over("events of a name", "n")


def v2_values(p):
    _play(p, "counter", {"n": 1}, channels=["values", "lifecycle"], config={"configurable": {"x": 1}}, metadata={"why": "test"})


def v2_new_thread(p):
    t = _id(30)
    _command(p, "start on a thread that is not there", t, 1, "run.start", {"assistant_id": "counter", "input": {"n": 1}})
    p.until("it was made", f"/threads/{t}", "status", "idle")
    p.open("listen", "e", "POST", f"/threads/{t}/stream/events", {"channels": ["lifecycle"], "since": 0})
    p.run_over("the first run", "e")
    _command(p, "start another graph", t, 2, "run.start", {"assistant_id": "custom", "input": {}})
    p.run_over("the second run", "e")


def v2_enqueue(p):
    t = _thread(p)
    p.open("listen", "e", "POST", f"/threads/{t}/stream/events", {"channels": ["values", "lifecycle"]})
    _command(p, "start", t, 1, "run.start", {"assistant_id": "slow", "input": {"delay": 0.1}})
    _command(p, "start while it runs", t, 2, "run.start", {"assistant_id": "slow", "input": {}})
    p.until("both have ended", f"/threads/{t}", "status", "idle")
    p.get("the runs", f"/threads/{t}/runs?select=status&select=multitask_strategy")


def v2_checkpoints(p):
    _play(p, "counter", {"n": 1}, channels=["checkpoints", "lifecycle"])


def v2_v1(p):
    t = _thread(p)
    p.open("listen", "e", "POST", f"/threads/{t}/stream/events", {"channels": ["values", "lifecycle"]})
    _run(p, "a run of v1", t, "counter", {"n": 1}, stream_mode=["values"])
    p.run_over("its events", "e")
    p.get("the thread", f"/threads/{t}")


def v2_socket(p):
    t = _thread(p)
    p.ws("connect", "s", f"/threads/{t}/stream/events")
    p.say("no JSON", "s", text="x")
    p.say("a method that is not there", "s", value={"id": 1, "method": "nobody", "params": {}})
    p.say("a tree without a run", "s", value={"id": 2, "method": "agent.getTree", "params": {}})
    p.say("subscribe", "s", value={"id": 3, "method": "subscription.subscribe", "params": {"channels": ["values", "lifecycle", "input"]}})
    p.say("start", "s", value={"id": 4, "method": "run.start", "params": {"assistant_id": "agent", "input": _human("weather in Rome")}}, run=True)
    p.say("a tree while it waits", "s", value={"id": 5, "method": "agent.getTree", "params": {}})
    s = p.get("the state", f"/threads/{t}/state")
    found = s["tasks"][0]["interrupts"][0]["id"]
    p.say("respond", "s", value={"id": 6, "method": "input.respond", "params": {"namespace": [], "interrupt_id": found, "response": "sunny"}}, run=True)
    p.hang_up("hang up", "s")
    p.ws("connect again", "r", f"/threads/{t}/stream/events")
    p.say("reconnect to nothing", "r", value={"id": 7, "method": "subscription.reconnect", "params": {"run_id": NOBODY}})
    p.hang_up("hang up again", "r")


def corners(p):
    """What nobody thought of at first: found by sending the same odd requests to both servers."""
    t = _thread(p)
    _run(p, "two questions", t, "ask", {"name": "n"})
    _stream(p, "two questions, streamed", t, "ask", {"name": "n"}, stream_mode="tasks")
    given = {"metadata": {"m": 1, "n": 1}, "configurable": {"style": "loud"}}
    u = _thread(p, "create another")
    _run(p, "metadata in the config", u, "counter", {"n": 1}, config=given, metadata={"n": 2})
    p.get("its run", f"/threads/{u}/runs?select=metadata")
    _run(p, "a checkpoint_id of null", u, "counter", {"n": 1}, checkpoint_id=None)
    _stream(p, "a task that fails", _thread(p, "create a third"), "error", {"fail": True}, stream_mode=["tasks"])
    for name, command in {
        "a text": {"update": "x"},
        "a packet without input": {"goto": {"node": "three"}},
        "a number": {"goto": 1},
    }.items():
        _run(p, f"a wrong command: {name}", u, "counter", None, command=command)
    for name, config in {"a limit": {"recursion_limit": "3"}, "tags": {"tags": "x"}, "configurable": {"configurable": []}}.items():
        _run(p, f"a wrong config: {name}", u, "counter", {"n": 1}, config=config)
    _run(p, "a limit of 9.0", u, "counter", {"n": 1}, config={"recursion_limit": 9.0})
    p.post("history inside what is not there", f"/threads/{u}/history", {"checkpoint": {"checkpoint_ns": "nobody"}})
    one, two = _id(40), _id(41)
    capital = "00000000-0000-4000-8000-0000000000AB"
    for i in (one, two):
        p.post(f"create {i[-2:]}", "/threads", {"thread_id": i, "metadata": {"of": "corners"}})
    mine = {"metadata": {"of": "corners"}, "sort_by": "thread_id", "sort_order": "asc", "select": ["thread_id"]}
    p.post("an id twice", "/threads/search", {**mine, "ids": [two, one, two]})
    p.post("values that ask for nothing", "/threads/search", {**mine, "values": {}})
    p.post("a limit of 1.0", "/threads/search", {**mine, "limit": 1.0, "offset": 1.0})
    p.post("a wrong path", "/threads/search", {**mine, "extract": {"x": ""}})
    p.post("create in capitals", "/threads", {"thread_id": capital})
    p.get("get in capitals", f"/threads/{capital}")
    p.get("get in small letters", f"/threads/{capital.lower()}")
    p.post("no id", "/threads", {"thread_id": ""})
    p.post("a wrong time to live", "/threads", {"ttl": {"ttl": "x"}})
    p.post("a wrong strategy of it", "/threads", {"ttl": {"ttl": 5, "strategy": "burn"}})
    p.post("a number too large", "/threads", raw='{"metadata":{"x":1e400}}')
    counted = {"metadata": {"graph_id": "counter"}}
    p.post("a superstep without updates", "/threads", {**counted, "supersteps": [{}]})
    p.post("a superstep of no node", "/threads", {**counted, "supersteps": [{"updates": [{"values": {"n": 1}}]}]})
    p.post("an empty superstep", "/threads", {**counted, "supersteps": [{"updates": []}]})
    p.post("a superstep of a node that is not there", "/threads", {**counted, "supersteps": [{"updates": [{"values": {"n": 1}, "as_node": "nobody"}]}]})
    a = p.post("an assistant", "/assistants", {"graph_id": "configured", "config": {"configurable": {"style": "plain"}}})["assistant_id"]
    p.patch("patch its tags", f"/assistants/{a}", {"config": {"tags": ["x"]}})
    p.patch("patch it with an empty config", f"/assistants/{a}", {"config": {}})
    p.post("the first of its versions", f"/assistants/{a}/versions", {"limit": 1})
    p.post("run it", "/runs/wait", {"assistant_id": a, "input": {}})
    p.post("run one by its id in capitals", "/runs/wait", {"assistant_id": SYSTEM["counter"].upper(), "input": {"n": 1}})
    c = {"assistant_id": "counter", "schedule": "0 0 1 1 *"}
    p.post("a cron that ends at a time without a zone", "/runs/crons", {**c, "end_time": "2040-01-01T00:00:00"})
    p.post("crons with a wrong field", "/runs/crons/search", {"select": ["colour"]})
    k = p.post("a cron on a thread", f"/threads/{two}/runs/crons", c)["cron_id"]
    p.delete("delete its thread", f"/threads/{two}")
    p.get("it is gone", f"/runs/crons/{k}")
    p.open("a run to cancel", "a", "POST", f"/threads/{one}/runs/stream", {"assistant_id": "slow", "input": {"delay": 0.3}, "stream_mode": "updates"}, take=2)
    r = p.get("its id", f"/threads/{one}/runs")[0]["run_id"]
    p.post("cancel and wait, as Python writes it", f"/threads/{one}/runs/{r}/cancel?wait=True")
    p.rest("the rest of it", "a")
    _command(p, "start with a config of null", one, 1, "run.start", {"assistant_id": "slow", "input": {}, "config": None, "metadata": None})


def refusals(p):
    """What is refused before anything of it is done."""
    t = _thread(p)
    both = {"context": {"a": 1}, "config": {"configurable": {"b": 2}}}
    same = {"context": {"a": 1}, "config": {"configurable": {"a": 1}}}
    shown = {"assistant_id": "configured", "input": {}}
    p.post("context with another configurable", f"/threads/{t}/runs/wait", {**shown, **both})
    p.post("context with the same configurable", f"/threads/{t}/runs/wait", {**shown, **same})
    p.post("context with an empty configurable", f"/threads/{t}/runs/wait", {**shown, "context": {"a": 1}, "config": {"configurable": {}}})
    p.post("context and configurable, stateless", "/runs/wait", {**shown, **same})
    p.post("context and configurable in a batch", "/runs/batch", [{**shown, **same}])
    p.post("an assistant with context and the same configurable", "/assistants", {"graph_id": "configured", **same})
    p.post("an assistant with context and another configurable", "/assistants", {"graph_id": "configured", **both})
    p.post("a cron with context and configurable", "/runs/crons", {"assistant_id": "configured", "schedule": "0 0 1 1 *", **same})
    for order in ("up", "ASC", "Desc", "", None):
        for what in ("assistants", "threads", "runs/crons"):
            p.post(f"{what} in the order {order!r}", f"/{what}/search", {"sort_by": "created_at", "sort_order": order, "metadata": {"of": "nobody"}})
    for what in ("assistants", "threads", "runs/crons"):
        p.post(f"{what} sorted by what is not there", f"/{what}/search", {"sort_by": "colour", "metadata": {"of": "nobody"}})
    for limit in (0, -1):
        p.post(f"a recursion limit of {limit}", f"/threads/{t}/runs/wait", {**shown, "config": {"recursion_limit": limit}})
    p.post("a recursion limit of null", f"/threads/{t}/runs/wait", {**shown, "config": {"recursion_limit": None}})
    p.post("a recursion limit of 0, of an assistant", "/assistants", {"graph_id": "configured", "config": {"recursion_limit": 0}})
    for name, body in {
        "an answer without a thread": {"command": {"resume": "x"}},
        "an answer of false without a thread": {"command": {"resume": False}},
    }.items():
        for how in ("", "/wait", "/stream"):
            p.post(f"{name}, by /runs{how}", f"/runs{how}", {"assistant_id": "configured", **body})
    u = _thread(p, "create another")
    _run(p, "run it", u, "counter", {"n": 1})
    count = {"assistant_id": "counter", "input": {"n": 1}}
    p.post("a checkpoint that is no id", f"/threads/{u}/runs/wait", {**count, "checkpoint_id": "x"})
    p.post("the state at a checkpoint that is not there", f"/threads/{u}/state/checkpoint", {"checkpoint": {"checkpoint_id": NOBODY}})
    p.post("history from a checkpoint that is not there", f"/threads/{u}/history", {"checkpoint": {"checkpoint_id": NOBODY}})
    for limit in (0, 1000, 1001):
        p.get(f"a history of {limit}", f"/threads/{u}/history?limit={limit}")
        p.post(f"a history of {limit}, by POST", f"/threads/{u}/history", {"limit": limit})
    p.post("a checkpoint that is not there", f"/threads/{u}/runs/wait", {**count, "checkpoint_id": NOBODY})
    p.post("a checkpoint that is not there, as one", f"/threads/{u}/runs/wait", {**count, "checkpoint": {"checkpoint_id": NOBODY}})
    p.post("a checkpoint that is not there, streamed", f"/threads/{u}/runs/stream", {**count, "checkpoint_id": NOBODY})
    p.post("a checkpoint without a thread", "/runs/wait", {**count, "checkpoint_id": NOBODY})
    p.post("cancel by ids and a status", "/runs/cancel", {"thread_id": t, "run_ids": [NOBODY], "status": "pending"})
    p.post("cancel by a thread and a status", "/runs/cancel", {"thread_id": t, "status": "pending"})
    p.post("cancel by ids without a thread", "/runs/cancel", {"run_ids": [NOBODY]})
    p.post("cancel by ids without a thread, and a status", "/runs/cancel", {"run_ids": [NOBODY], "status": "running"})
    p.post("cancel by a thread alone", "/runs/cancel", {"thread_id": t})
    p.post("cancel by no ids", "/runs/cancel", {"thread_id": t, "run_ids": []})


def details(p):
    """Numbers, orders and headers that clients see."""
    large = {"n": 2**53 + 1, "least": -(2**63), "in": [2**62 + 1]}
    t = _thread(p, metadata=large)
    p.get("the thread", f"/threads/{t}")
    _run(p, "run", t, "counter", {"n": 1}, metadata=large)
    p.get("its run", f"/threads/{t}/runs?select=metadata")
    p.get("its state", f"/threads/{t}/state")
    p.post("the thread, found", "/threads/search", {"metadata": {"n": 2**53 + 1}, "select": ["metadata"]})
    p.post("another number", "/threads/search", {"metadata": {"n": 2**53}, "select": ["metadata"]})
    p.post("an assistant", "/assistants", {"graph_id": "counter", "metadata": large})
    p.put("an item", "/store/items", {"namespace": ["details"], "key": "k", "value": large})
    p.get("the item", "/store/items?namespace=details&key=k")
    for name in ("b", "A", "C", "É", "e", "_x"):
        p.post(f"an assistant {name}", "/assistants", {"graph_id": "counter", "name": name, "metadata": {"of": "details"}})
    for order in ("asc", "desc"):
        p.post(f"by name, {order}", "/assistants/search", {"metadata": {"of": "details"}, "sort_by": "name", "sort_order": order, "select": ["name"]})
    p.post("by name", "/assistants/search", {"metadata": {"of": "details"}, "sort_by": "name", "select": ["name"]})


def jumps(p):
    """A Command where nothing has run yet."""
    for name, command in {
        "goto": {"goto": "three"},
        "goto with an update": {"goto": "three", "update": {"n": 1000}},
        "goto by a list": {"goto": ["two", "three"]},
        "goto with a packet": {"goto": {"node": "three", "input": {"n": 7}}},
        "goto nowhere": {"goto": "nobody"},
        "only an update": {"update": {"n": 1000}},
        "an answer": {"resume": "x"},
        "an empty command": {},
    }.items():
        t = _thread(p, f"create for {name}")
        _run(p, f"{name} on an empty thread", t, "counter", None, command=command, **INORDER_CONFIG)
        p.get(f"the state after {name}", f"/threads/{t}/state")
        p.post(f"the history after {name}", f"/threads/{t}/history", {"limit": 10})
    p.post("goto without a thread", "/runs/wait", {"assistant_id": "counter", "command": {"goto": "three"}, **INORDER_CONFIG})
    for i, (name, step) in enumerate({
        "a command": {"command": {"update": {"n": 5}, "goto": "three"}},
        "a goto": {"command": {"goto": "three"}},
        "an update": {"command": {"update": {"n": 5}}},
    }.items()):
        t = _id(50 + i)
        p.post(f"a thread that begins with {name}", "/threads", {"thread_id": t, "metadata": {"graph_id": "counter"}, "supersteps": [{"updates": [{"as_node": "one", **step}]}]})
        p.get(f"the state of {name}", f"/threads/{t}/state")


def messages(p):
    """Messages that nodes write without ids, and those of a model in a graph inside."""
    said = {"messages": [{"role": "user", "content": "hello", "id": "human-1"}]}
    for modes in (["messages"], ["messages-tuple"], ["messages-tuple", "updates"]):
        name = " and ".join(modes)
        t = _thread(p, f"create for {name}")
        _stream(p, name, t, "written", said, stream_mode=modes, stream_subgraphs=True)
        p.get(f"the state after {name}", f"/threads/{t}/state")


def v2_written(p):
    _play(p, "written", {"messages": [{"role": "user", "content": "hello", "id": "human-1"}]}, channels=["messages", "lifecycle"])


def _tool(p, name, args):
    t = _thread(p)
    call = {"name": name, "args": args, "id": "call-1", "type": "tool_call"}
    said = [{"type": "human", "content": "hello", "id": "human-1"}, {"type": "ai", "content": "", "id": "ai-1", "tool_calls": [call]}]
    return _play(p, "tooling", {"messages": said}, channels=["tools", "messages", "lifecycle", "input"], thread=t)


def v2_tool_parts(p):
    _tool(p, "weather", {"city": "Oslo"})


def v2_tool_failure(p):
    _tool(p, "broken", {"text": "x"})


def v2_tool_inside(p):
    _tool(p, "inside", {"n": 1})


def v2_tool_update(p):
    _tool(p, "update", {"text": "so"})


def v2_tool_unknown(p):
    _tool(p, "nobody", {})


def v2_tool_arguments(p):
    _tool(p, "weather", {"town": "Rome"})


def v2_tool_question(p):
    t = _tool(p, "person", {"question": "who?"})
    s = p.get("the state", f"/threads/{t}/state")
    found = s["tasks"][0]["interrupts"][0]["id"]
    _command(p, "respond", t, 2, "input.respond", {"namespace": [], "interrupt_id": found, "response": "me"})
    p.run_over("events of the answer", "e")


def v2_tool_agent(p):
    t = _tool(p, "helper", {"n": 1})
    _command(p, "the tree", t, 2, "agent.getTree", {})


def v2_tool_mode(p):
    """The mode is of protocol v2 alone."""
    _stream(p, "a run of v1", _thread(p), "tooling", {"messages": []}, stream_mode=["tools"])
