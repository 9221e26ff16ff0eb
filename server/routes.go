package server

import (
	"fmt"
	"net/http"
	"slices"
)

var (
	assistantFields = oneOf("assistant_id", "graph_id", "name", "description", "config", "context", "created_at", "updated_at", "metadata", "version")
	threadFields    = oneOf("thread_id", "created_at", "updated_at", "metadata", "config", "context", "status", "values", "interrupts",
		"error", "state_updated_at")

	// What a search has beyond its filter says how its results are shown: a count has none.
	assistantFilter = []field{may("metadata", object), may("graph_id", text), may("name", text)}
	assistantSearch = searchPage(1000, append(slices.Clip(assistantFilter), may("select", list(assistantFields)),
		may("sort_by", oneOf("assistant_id", "created_at", "updated_at", "name", "graph_id")))...)
	threadFilter = []field{may("ids", list(identifier("thread"))), may("metadata", object), may("values", object),
		may("status", threadStatuses), may("stele_status", oneOf(steleStatuses...)), may("stele_prefix", few(text, 100))}
	threadSearch = searchPage(1000, append(slices.Clip(threadFilter), may("stele_values", oneOf(aboutValues)),
		may("select", list(threadFields)), may("extract", object), may("sort_by", oneOf("thread_id", "status", "created_at", "updated_at", "state_updated_at")))...)
	aTTL       = either(record(may("ttl", number), may("strategy", oneOf("delete", "keep_latest"))), number)
	aSuperstep = record(need("updates", list(record(need("as_node", text), may("command", orNull(aCommand))))))
)

// addRoutes makes the table of operations, and the mux of it.
func (s *Server) addRoutes() error {
	aboutThread := []string{"include", "stele_values"} // of an answer that is a thread
	s.routes = []route{
		{method: "GET", path: "/{$}", open: true, query: []string{"check_db", "leads"}, handle: s.operator.ok},
		{method: "GET", path: "/ok", open: true, query: []string{"check_db", "leads"}, handle: s.operator.ok},
		{method: "GET", path: "/info", open: true, handle: s.operator.info},
		{method: "GET", path: "/docs", resource: "system", action: "read", handle: s.operator.docs},
		{method: "GET", path: "/openapi.json", resource: "system", action: "read", handle: s.operator.openAPI},
		{method: "GET", path: "/metrics", resource: "system", action: "read", query: []string{"format"}, handle: s.operator.getMetrics},

		{method: "POST", path: "/assistants", resource: "assistants", action: "create", handle: s.assistants.create, in: record(need("graph_id", text),
			may("assistant_id", identifier("assistant")), may("config", aConfig), may("context", object), may("metadata", object),
			may("if_exists", oneOf("raise", "do_nothing")), may("name", text), may("description", orNull(text))).with(oneContext)},
		{method: "POST", path: "/assistants/search", resource: "assistants", action: "search", in: assistantSearch, handle: s.assistants.search},
		{method: "POST", path: "/assistants/count", resource: "assistants", action: "search", in: record(assistantFilter...), handle: s.assistants.count},
		{method: "GET", path: "/assistants/{assistant_id}", resource: "assistants", action: "read", handle: with(s.assistants.read, s.assistants.get)},
		{method: "PATCH", path: "/assistants/{assistant_id}", resource: "assistants", action: "update", handle: s.assistants.patch, in: record(may("graph_id", text),
			may("config", aConfig), may("context", object), may("metadata", object), may("name", text), may("description", orNull(text))).with(oneContext)},
		{method: "DELETE", path: "/assistants/{assistant_id}", resource: "assistants", action: "delete",
			query: []string{"delete_threads"}, handle: s.assistants.delete},
		{method: "GET", path: "/assistants/{assistant_id}/graph", resource: "assistants", action: "read", byName: true, query: []string{"xray"},
			handle: with(s.assistants.graph, s.assistants.drawing)},
		{method: "GET", path: "/assistants/{assistant_id}/subgraphs", resource: "assistants", action: "read", query: []string{"recurse"},
			handle: with(s.assistants.graph, s.assistants.subgraphs)},
		{method: "GET", path: "/assistants/{assistant_id}/subgraphs/{namespace}", resource: "assistants", action: "read", query: []string{"recurse"},
			handle: with(s.assistants.graph, s.assistants.subgraphs)},
		{method: "GET", path: "/assistants/{assistant_id}/schemas", resource: "assistants", action: "read", byName: true,
			handle: with(s.assistants.graph, s.assistants.schemas)},
		{method: "POST", path: "/assistants/{assistant_id}/versions", resource: "assistants", action: "read",
			handle: with(s.assistants.read, s.assistants.versions), in: record(may("metadata", object), may("limit", upTo(1, 1000)),
				may("offset", offset))},
		{method: "POST", path: "/assistants/{assistant_id}/latest", resource: "assistants", action: "update", handle: s.assistants.latest,
			in: record(need("version", integer))},

		{method: "POST", path: "/threads", resource: "threads", action: "create", query: aboutThread, handle: s.threads.create, in: record(
			may("thread_id", identifier("thread")), may("metadata", object), may("if_exists", oneOf("raise", "do_nothing")),
			may("ttl", aTTL), may("supersteps", list(aSuperstep)), may("graph_id", text))},
		{method: "POST", path: "/threads/search", resource: "threads", action: "search", in: threadSearch, handle: s.threads.search},
		{method: "POST", path: "/threads/count", resource: "threads", action: "search", in: record(threadFilter...), handle: s.threads.count},
		{method: "POST", path: "/threads/prune", resource: "threads", action: "delete", handle: s.threads.prune,
			in: record(need("thread_ids", list(identifier("thread"))), may("strategy", oneOf("delete", "keep_latest")))},
		{method: "GET", path: "/threads/{thread_id}", resource: "threads", action: "read",
			query: aboutThread, handle: with(s.threads.ofPath, s.threads.show)},
		{method: "PATCH", path: "/threads/{thread_id}", resource: "threads", action: "update", query: aboutThread, handle: s.threads.patch,
			in: record(may("metadata", object), may("ttl", aTTL))},
		{method: "DELETE", path: "/threads/{thread_id}", resource: "threads", action: "delete", handle: with(s.threads.ofPath, s.threads.delete)},
		{method: "GET", path: "/threads/{thread_id}/storage", resource: "threads", action: "read", handle: with(s.threads.ofPath, s.threads.storage)},
		{method: "POST", path: "/threads/{thread_id}/copy", resource: "threads", action: "read", query: aboutThread,
			handle: s.threads.copyOf, in: unread, optional: true},
		{method: "GET", path: "/threads/{thread_id}/state", resource: "threads", action: "read",
			query: []string{"subgraphs", "stele_values"}, handle: s.threads.getState},
		{method: "POST", path: "/threads/{thread_id}/state", resource: "threads", action: "update", handle: with(s.threads.ofPath, s.threads.updateState),
			in: record(may("values", either(list(anything), object, nothing)), may("checkpoint", aCheckpoint), may("checkpoint_id", orNull(text)),
				may("as_node", text))},
		{method: "GET", path: "/threads/{thread_id}/state/{checkpoint_id}", resource: "threads", action: "read",
			query: []string{"subgraphs", "stele_values"}, handle: s.threads.getState},
		{method: "POST", path: "/threads/{thread_id}/state/checkpoint", resource: "threads", action: "read",
			query: []string{"stele_values"}, handle: s.threads.postStateAt,
			in: record(need("checkpoint", aCheckpoint), may("subgraphs", flag))},
		{method: "GET", path: "/threads/{thread_id}/history", resource: "threads", action: "read",
			query: []string{"limit", "before", "values"}, handle: s.threads.getHistory},
		{method: "POST", path: "/threads/{thread_id}/history", resource: "threads", action: "read", handle: s.threads.postHistory,
			in: record(may("limit", upTo(1, 1000)), may("before", aCheckpoint), may("metadata", object), may("checkpoint", aCheckpoint), may("values", flag))},

		{method: "GET", path: "/threads/{thread_id}/stream", resource: "threads", action: "read",
			query: []string{"stream_modes"}, stream: true, handle: with(s.threads.ofPath, s.streams.joinThread)},
		{method: "GET", path: "/threads/{thread_id}/runs", resource: "threads", action: "read",
			query: []string{"limit", "offset", "status", "select"}, handle: with(s.threads.ofPath, s.runs.list)},
		{method: "POST", path: "/threads/{thread_id}/runs", resource: "threads", action: "create_run", in: runShape, handle: s.runs.create},
		{method: "POST", path: "/threads/{thread_id}/runs/stream", resource: "threads", action: "create_run", in: runShape, stream: true, handle: s.runs.stream},
		{method: "POST", path: "/threads/{thread_id}/runs/wait", resource: "threads", action: "create_run", in: runShape, stream: true, handle: s.runs.wait},
		{method: "GET", path: "/threads/{thread_id}/runs/{run_id}", resource: "threads", action: "read", handle: with(s.threads.run, s.runs.show)},
		{method: "DELETE", path: "/threads/{thread_id}/runs/{run_id}", resource: "threads", action: "delete", handle: s.runs.delete},
		{method: "GET", path: "/threads/{thread_id}/runs/{run_id}/join", resource: "threads", action: "read",
			query: []string{"cancel_on_disconnect"}, stream: true,
			handle: with(s.threads.run, s.streams.join)},
		{method: "GET", path: "/threads/{thread_id}/runs/{run_id}/stream", resource: "threads", action: "read",
			query: []string{"stream_mode", "cancel_on_disconnect"}, stream: true,
			handle: with(s.threads.run, s.streams.joinStream)},
		{method: "POST", path: "/threads/{thread_id}/runs/{run_id}/cancel", resource: "threads", action: "update",
			query: []string{"action", "wait"}, in: unread, optional: true,
			handle: s.runs.cancel},
		{method: "POST", path: "/runs", resource: "threads", action: "create_run", in: runShape, handle: s.runs.create},
		{method: "POST", path: "/runs/stream", resource: "threads", action: "create_run", in: runShape, stream: true, handle: s.runs.stream},
		{method: "POST", path: "/runs/wait", resource: "threads", action: "create_run", in: runShape, stream: true, handle: s.runs.wait},
		{method: "POST", path: "/runs/batch", resource: "threads", action: "create_run", in: &shape{types: []string{"array"}, items: runShape,
			least: 1}, handle: s.runs.batch},
		{method: "POST", path: "/runs/cancel", resource: "threads", action: "update", query: []string{"action"}, handle: s.runs.cancelMany,
			in: record(may("status", oneOf("pending", "running", "all")), may("thread_id", identifier("thread")), may("run_ids", list(identifier("run"))))},

		{method: "POST", path: "/threads/{thread_id}/runs/crons", resource: "crons", action: "create", in: cronShape, handle: s.crons.create},
		{method: "POST", path: "/runs/crons", resource: "crons", action: "create", in: cronShape, handle: s.crons.create},
		{method: "POST", path: "/runs/crons/search", resource: "crons", action: "search", in: cronSearch, handle: s.crons.search},
		{method: "POST", path: "/runs/crons/count", resource: "crons", action: "search", in: record(cronFilter...), handle: s.crons.count},
		{method: "GET", path: "/runs/crons/{cron_id}", resource: "crons", action: "read", handle: s.crons.get},
		{method: "PATCH", path: "/runs/crons/{cron_id}", resource: "crons", action: "update", in: cronPatch, handle: s.crons.patch},
		{method: "DELETE", path: "/runs/crons/{cron_id}", resource: "crons", action: "delete", handle: s.crons.delete},

		{method: "PUT", path: "/store/items", resource: "store", action: "put", handle: s.items.put,
			in: record(need("namespace", texts), need("key", text), need("value", object), may("index", either(flag, texts, nothing)), may("ttl", orNull(number)))},
		{method: "GET", path: "/store/items", resource: "store", action: "get",
			query: []string{"namespace", "key", "refresh_ttl"}, handle: s.items.get},
		{method: "DELETE", path: "/store/items", resource: "store", action: "delete", handle: s.items.delete, in: record(may("namespace", texts), need("key", text))},
		{method: "POST", path: "/store/items/search", resource: "store", action: "search", handle: s.items.search,
			in: record(may("namespace_prefix", orNull(few(text, maxLabels))), may("filter", orNull(object)), may("limit", upTo(1, 1000)),
				may("offset", offset), may("query", orNull(text)), may("refresh_ttl", orNull(flag)))},
		{method: "POST", path: "/store/namespaces", resource: "store", action: "list_namespaces", handle: s.items.namespaces,
			in: record(may("prefix", orNull(few(text, maxLabels))), may("suffix", orNull(few(text, maxLabels))),
				may("max_depth", orNull(upTo(1, maxLabels))), may("limit", upTo(1, 1000)), may("offset", offset))},

		// Protocol v2 reads its bodies itself: refusals are those of the protocol.
		{method: "POST", path: "/threads/{thread_id}/commands", resource: "threads", action: "create_run", handle: s.protocol.commandThread},
		{method: "POST", path: "/threads/{thread_id}/stream/events", resource: "threads", action: "read", stream: true, handle: s.protocol.streamEvents},
		{method: "GET", path: "/threads/{thread_id}/stream/events", resource: "threads", action: "create_run", stream: true, handle: s.protocol.socketEvents},

		// MCP. A client that only lists tools must be allowed to make runs as well: the tools are there for nothing
		// else.
		{method: "POST", path: "/mcp", resource: "threads", action: "create_run", in: object, stream: true, handle: s.tools.serve},
		{method: "POST", path: "/mcp/{$}", resource: "threads", action: "create_run", in: object, stream: true, handle: s.tools.serve},

		// What operators see beyond LangGraph's API: all runs, schedules, and the health and upkeep of
		// an embedded store. Authorize is called for the resource "system", whosever the runs are, and
		// must grant it without a filter; about the tasks of a run, as about the run.
		{method: "GET", path: "/stele/runs", resource: "system", action: "read",
			query: []string{"status", "thread_id"}, allUsers: true, handle: s.operator.allRuns},
		{method: "GET", path: "/stele/versions", resource: "system", action: "read", allUsers: true, handle: s.operator.versions},
		{method: "GET", path: "/stele/nodes", resource: "system", action: "read", allUsers: true, handle: s.operator.nodesOfDay},
		{method: "GET", path: "/stele/threads/{thread_id}/runs/{run_id}/tasks", resource: "threads", action: "read",
			query: []string{"after"}, handle: s.operator.tasksOfRun},
		{method: "GET", path: "/stele/threads/{thread_id}/steps", resource: "threads", action: "read",
			query: []string{"checkpoint_id"}, handle: with(s.threads.ofPath, s.threads.steps)},
		{method: "POST", path: "/stele/threads/{thread_id}/signals/{name}", resource: "threads", action: "create_run",
			handle: with(s.threads.ofPath, s.threads.signal), in: record(may("value", anything), may("key", text), may("instead", text))},
		{method: "GET", path: "/stele/threads/{thread_id}/signals", resource: "threads", action: "read", handle: with(s.threads.ofPath, s.threads.signals)},
		{method: "GET", path: "/stele/threads/{thread_id}/signals/refused", resource: "threads", action: "read",
			handle: with(s.threads.ofPath, s.threads.refusedSignals)},
		{method: "DELETE", path: "/stele/threads/{thread_id}/signals/refused/{id}", resource: "threads", action: "update",
			handle: with(s.threads.ofPath, s.threads.deleteRefusedSignal)},
		{method: "POST", path: "/stele/runs/{run_id}/retry", resource: "system", action: "update", allUsers: true, handle: s.operator.retryRun},
		{method: "DELETE", path: "/stele/runs/{run_id}", resource: "system", action: "update", allUsers: true, handle: s.operator.eraseRun},
		{method: "GET", path: "/stele/schedules", resource: "system", action: "read", allUsers: true, handle: s.operator.allSchedules},
		{method: "DELETE", path: "/stele/schedules/{schedule_id...}", resource: "system", action: "update", allUsers: true, handle: s.operator.deleteSchedule},
		{method: "GET", path: "/stele/health", resource: "system", action: "read", allUsers: true, handle: s.operator.health},
		{method: "GET", path: "/stele/room", resource: "system", action: "read", allUsers: true, handle: with(s.operator.embedded, s.operator.diskUsage)},
		{method: "POST", path: "/stele/verify", resource: "system", action: "update", allUsers: true, handle: with(s.operator.embedded, s.operator.verify)},
		{method: "POST", path: "/stele/backup", resource: "system", action: "update", allUsers: true, handle: with(s.operator.embedded, s.operator.backUp)},
		{method: "POST", path: "/stele/erase-user", resource: "system", action: "delete", allUsers: true, handle: s.operator.eraseUser,
			in: record(need("identity", text), need("filter", object), may("items", list(few(text, maxLabels))), may("dry_run", flag))},
	}
	s.mux = http.NewServeMux()
	for i := range s.routes {
		rt := &s.routes[i]
		if !rt.open && (rt.resource == "" || rt.action == "") {
			return fmt.Errorf("server: %s %s says neither what it is about nor that it is open", rt.method, rt.path)
		}
		s.mux.HandleFunc(rt.method+" "+rt.path, s.serve(rt))
	}
	return nil
}
