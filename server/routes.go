package server

import (
	"fmt"
	"net/http"
)

// route is an operation of the API. Every request goes through one, and prepare
// authenticates, reads and authorizes it before handle runs.
type route struct {
	method, path     string
	resource, action string // what Authorize is asked about
	// open: anybody may ask, without authentication.
	open bool
	// in is the JSON that the request must have; nil reads no body. If it is optional the
	// body may be empty.
	in       *shape
	optional bool
	// byName: the path may name an assistant by its graph.
	byName bool
	// stream: the answer stays open, and counts as a stream of its user.
	stream bool
	// allUsers: it is about the things of all users, and for those who may see all.
	allUsers bool
	handle   func(*call) error
}

// changes reports whether the operation changes something.
func (rt *route) changes() bool {
	switch rt.action {
	case "read", "search", "get", "list_namespaces":
		return rt.path == "/threads/{thread_id}/copy"
	}
	return true
}

// searchPage are the fields of a search that all searches have.
func searchPage(most int, fields ...field) *shape {
	return record(append(fields, may("limit", upTo(1, most)), may("offset", offset), may("sort_order", oneOf("asc", "desc", "ASC", "DESC")))...)
}

var (
	assistantFields = oneOf("assistant_id", "graph_id", "name", "description", "config", "context", "created_at", "updated_at", "metadata", "version")
	threadFields    = oneOf("thread_id", "created_at", "updated_at", "metadata", "config", "context", "status", "values", "interrupts", "error", "state_updated_at")

	assistantSearch = searchPage(1000, may("metadata", object), may("graph_id", text), may("name", text), may("select", list(assistantFields)),
		may("sort_by", oneOf("assistant_id", "created_at", "updated_at", "name", "graph_id")))
	threadSearch = searchPage(1000, may("ids", list(identifier("thread"))), may("metadata", object), may("values", object), may("status", threadStatuses), may("stele_status", oneOf(steleStatuses...)), may("stele_prefix", few(text, 100)), may("stele_values", oneOf(aboutValues)),
		may("select", list(threadFields)), may("extract", object), may("sort_by", oneOf("thread_id", "status", "created_at", "updated_at", "state_updated_at")))
	aTTL       = either(record(may("ttl", number), may("strategy", oneOf("delete", "keep_latest"))), number)
	aSuperstep = record(need("updates", list(record(need("as_node", text), may("command", orNull(aCommand))))))
)

// addRoutes makes the table of operations, and the mux of it.
func (s *Server) addRoutes() error {
	s.routes = []route{
		{method: "GET", path: "/{$}", open: true, handle: getOK},
		{method: "GET", path: "/ok", open: true, handle: getOK},
		{method: "GET", path: "/info", open: true, handle: getInfo},
		{method: "GET", path: "/docs", resource: "system", action: "read", handle: getDocs},
		{method: "GET", path: "/openapi.json", resource: "system", action: "read", handle: getOpenAPI},
		{method: "GET", path: "/metrics", resource: "system", action: "read", handle: getMetrics},

		{method: "POST", path: "/assistants", resource: "assistants", action: "create", handle: createAssistant, in: record(need("graph_id", text),
			may("assistant_id", identifier("assistant")), may("config", aConfig), may("context", object), may("metadata", object),
			may("if_exists", oneOf("raise", "do_nothing")), may("name", text), may("description", orNull(text)))},
		{method: "POST", path: "/assistants/search", resource: "assistants", action: "search", in: assistantSearch, handle: searchAssistants},
		{method: "POST", path: "/assistants/count", resource: "assistants", action: "search", in: assistantSearch, handle: countAssistants},
		{method: "GET", path: "/assistants/{assistant_id}", resource: "assistants", action: "read", handle: getAssistant},
		{method: "PATCH", path: "/assistants/{assistant_id}", resource: "assistants", action: "update", handle: patchAssistant, in: record(may("graph_id", text),
			may("config", aConfig), may("context", object), may("metadata", object), may("name", text), may("description", orNull(text)))},
		{method: "DELETE", path: "/assistants/{assistant_id}", resource: "assistants", action: "delete", handle: deleteAssistant},
		{method: "GET", path: "/assistants/{assistant_id}/graph", resource: "assistants", action: "read", byName: true, handle: assistantGraph},
		{method: "GET", path: "/assistants/{assistant_id}/subgraphs", resource: "assistants", action: "read", handle: assistantSubgraphs},
		{method: "GET", path: "/assistants/{assistant_id}/subgraphs/{namespace}", resource: "assistants", action: "read", handle: assistantSubgraphs},
		{method: "GET", path: "/assistants/{assistant_id}/schemas", resource: "assistants", action: "read", byName: true, handle: assistantSchemas},
		{method: "POST", path: "/assistants/{assistant_id}/versions", resource: "assistants", action: "read", handle: assistantVersions, in: searchPage(1000, may("metadata", object))},
		{method: "POST", path: "/assistants/{assistant_id}/latest", resource: "assistants", action: "update", handle: latestAssistant, in: record(need("version", integer))},

		{method: "POST", path: "/threads", resource: "threads", action: "create", handle: createThread, in: record(may("thread_id", identifier("thread")),
			may("metadata", object), may("if_exists", oneOf("raise", "do_nothing")), may("ttl", aTTL), may("supersteps", list(aSuperstep)), may("graph_id", text))},
		{method: "POST", path: "/threads/search", resource: "threads", action: "search", in: threadSearch, handle: searchThreads},
		{method: "POST", path: "/threads/count", resource: "threads", action: "search", in: threadSearch, handle: countThreads},
		{method: "POST", path: "/threads/prune", resource: "threads", action: "delete", handle: pruneThreads,
			in: record(need("thread_ids", list(identifier("thread"))), may("strategy", oneOf("delete", "keep_latest")))},
		{method: "GET", path: "/threads/{thread_id}", resource: "threads", action: "read", handle: getThread},
		{method: "PATCH", path: "/threads/{thread_id}", resource: "threads", action: "update", handle: patchThread, in: record(may("metadata", object), may("ttl", aTTL))},
		{method: "DELETE", path: "/threads/{thread_id}", resource: "threads", action: "delete", handle: deleteThread},
		{method: "GET", path: "/threads/{thread_id}/storage", resource: "threads", action: "read", handle: storage},
		{method: "POST", path: "/threads/{thread_id}/copy", resource: "threads", action: "read", handle: copyThread, in: anything, optional: true},
		{method: "GET", path: "/threads/{thread_id}/state", resource: "threads", action: "read", handle: getState},
		{method: "POST", path: "/threads/{thread_id}/state", resource: "threads", action: "update", handle: updateState,
			in: record(may("values", either(list(anything), object, nothing)), may("checkpoint", aCheckpoint), may("checkpoint_id", orNull(text)), may("as_node", text))},
		{method: "GET", path: "/threads/{thread_id}/state/{checkpoint_id}", resource: "threads", action: "read", handle: getStateAt},
		{method: "POST", path: "/threads/{thread_id}/state/checkpoint", resource: "threads", action: "read", handle: postStateAt,
			in: record(need("checkpoint", aCheckpoint), may("subgraphs", flag))},
		{method: "GET", path: "/threads/{thread_id}/history", resource: "threads", action: "read", handle: getHistory},
		{method: "POST", path: "/threads/{thread_id}/history", resource: "threads", action: "read", handle: postHistory,
			in: record(may("limit", upTo(1, 10000)), may("before", aCheckpoint), may("metadata", object), may("checkpoint", aCheckpoint), may("values", flag))},

		{method: "GET", path: "/threads/{thread_id}/stream", resource: "threads", action: "read", stream: true, handle: joinThread},
		{method: "GET", path: "/threads/{thread_id}/runs", resource: "threads", action: "read", handle: listRuns},
		{method: "POST", path: "/threads/{thread_id}/runs", resource: "threads", action: "create_run", in: runShape, handle: createRun},
		{method: "POST", path: "/threads/{thread_id}/runs/stream", resource: "threads", action: "create_run", in: runShape, stream: true, handle: streamRun},
		{method: "POST", path: "/threads/{thread_id}/runs/wait", resource: "threads", action: "create_run", in: runShape, stream: true, handle: waitRun},
		{method: "GET", path: "/threads/{thread_id}/runs/{run_id}", resource: "threads", action: "read", handle: getRun},
		{method: "DELETE", path: "/threads/{thread_id}/runs/{run_id}", resource: "threads", action: "delete", handle: deleteRun},
		{method: "GET", path: "/threads/{thread_id}/runs/{run_id}/join", resource: "threads", action: "read", stream: true, handle: joinRun},
		{method: "GET", path: "/threads/{thread_id}/runs/{run_id}/stream", resource: "threads", action: "read", stream: true, handle: joinStream},
		{method: "POST", path: "/threads/{thread_id}/runs/{run_id}/cancel", resource: "threads", action: "update", in: anything, optional: true, handle: cancelRun},
		{method: "POST", path: "/runs", resource: "threads", action: "create_run", in: runShape, handle: createStatelessRun},
		{method: "POST", path: "/runs/stream", resource: "threads", action: "create_run", in: runShape, stream: true, handle: streamStatelessRun},
		{method: "POST", path: "/runs/wait", resource: "threads", action: "create_run", in: runShape, stream: true, handle: waitStatelessRun},
		{method: "POST", path: "/runs/batch", resource: "threads", action: "create_run", in: &shape{types: []string{"array"}, items: runShape, least: 1}, handle: batchRuns},
		{method: "POST", path: "/runs/cancel", resource: "threads", action: "update", handle: cancelRuns,
			in: record(may("status", oneOf("pending", "running", "all")), may("thread_id", identifier("thread")), may("run_ids", list(identifier("run"))))},

		{method: "POST", path: "/threads/{thread_id}/runs/crons", resource: "crons", action: "create", in: cronShape, handle: createCron},
		{method: "POST", path: "/runs/crons", resource: "crons", action: "create", in: cronShape, handle: createCron},
		{method: "POST", path: "/runs/crons/search", resource: "crons", action: "search", in: cronSearch, handle: searchCrons},
		{method: "POST", path: "/runs/crons/count", resource: "crons", action: "search", in: cronSearch, handle: countCrons},
		{method: "GET", path: "/runs/crons/{cron_id}", resource: "crons", action: "read", handle: getCron},
		{method: "PATCH", path: "/runs/crons/{cron_id}", resource: "crons", action: "update", in: cronPatch, handle: patchCron},
		{method: "DELETE", path: "/runs/crons/{cron_id}", resource: "crons", action: "delete", handle: deleteCron},

		{method: "PUT", path: "/store/items", resource: "store", action: "put", handle: putItem,
			in: record(need("namespace", texts), need("key", text), need("value", object), may("index", either(flag, texts, nothing)), may("ttl", orNull(number)))},
		{method: "GET", path: "/store/items", resource: "store", action: "get", handle: getItem},
		{method: "DELETE", path: "/store/items", resource: "store", action: "delete", handle: deleteItem, in: record(may("namespace", texts), need("key", text))},
		{method: "POST", path: "/store/items/search", resource: "store", action: "search", handle: searchItems,
			in: record(may("namespace_prefix", orNull(few(text, maxLabels))), may("filter", orNull(object)), may("limit", upTo(1, 1000)), may("offset", offset), may("query", orNull(text)), may("refresh_ttl", orNull(flag)))},
		{method: "POST", path: "/store/namespaces", resource: "store", action: "list_namespaces", handle: listNamespaces,
			in: record(may("prefix", orNull(few(text, maxLabels))), may("suffix", orNull(few(text, maxLabels))), may("max_depth", orNull(upTo(1, maxLabels))), may("limit", upTo(1, 1000)), may("offset", offset))},
	}
	s.routes = append(s.routes, protocolRoutes()...)
	s.routes = append(s.routes, mcpRoutes()...)
	s.routes = append(s.routes, operatorRoutes()...)
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
