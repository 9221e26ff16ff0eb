package server_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/server"
)

// goWords are Go's, and those of its libraries: a client of the server writes another language.
var goWords = regexp.MustCompile(`RunOptions|Options\.|context\.|interface ?\{|map\[|%!|\bnil\b|\bstruct\b|reflect|unmarshal|\bint64\b|float64|goroutine|\*[a-z]+\.|json:|msgpack: `)

// TestWordsOfRefusals: a value of a wrong type, of a wrong size or that means nothing, in any field of any
// operation, is answered in words of HTTP and JSON, and by no error of the server.
func TestWordsOfRefusals(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	thread := h.thread()
	var api struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Properties map[string]any
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(h.ok("GET", "/openapi.json", nil).text), &api); err != nil {
		t.Fatal(err)
	}
	const unknown = "00000000-0000-4000-8000-000000000001"
	usual := object{"assistant_id": "simple", "graph_id": "simple", "input": object{"text": "x"}, "schedule": "0 0 1 1 *", "namespace": []string{"a"}, "key": "k",
		"value": object{}, "thread_ids": []string{unknown}, "version": 1, "as_node": "one", "updates": []any{}, "subject": "x", "namespace_prefix": []string{"a"}}
	wrong := []any{nil, "text", "\x00", strings.Repeat("x", 3000), unknown, -1, 1e300, true, []any{1}, []any{object{"a": 1}}, object{"a": 1}, object{"": object{"$bad": []any{}}}, object{"a": object{"$gt": object{"b": 1}}}, object{"a": object{"$lt": nil}}}
	read := 0
	for path, methods := range api.Paths {
		if slices.Contains([]string{"stream", "events", "wait", "join"}, path[strings.LastIndex(path, "/")+1:]) {
			continue // they have no end; what they refuse is that of other operations
		}
		at := strings.NewReplacer("{thread_id}", thread, "{assistant_id}", "simple", "{run_id}", unknown, "{cron_id}", unknown).Replace(path)
		for method, op := range methods {
			properties := op.RequestBody.Content["application/json"].Schema.Properties
			for name := range properties {
				for _, v := range wrong {
					body := object{name: v}
					for other := range properties {
						if u, ok := usual[other]; ok && other != name {
							body[other] = u
						}
					}
					if method == "delete" && strings.HasPrefix(at, "/threads/") {
						continue // the thread is used
					}
					a := h.do(strings.ToUpper(method), at, body)
					if a.status >= 500 {
						t.Errorf("%s %s %s=%.60v: %d %s", method, at, name, v, a.status, a.text)
					}
					if a.status < 400 {
						continue
					}
					read++
					if found := goWords.FindAllString(a.text, -1); len(found) > 0 {
						t.Errorf("%s %s %s=%.60v: %q in %s", method, at, name, v, found, a.text)
					}
				}
			}
		}
	}
	if read < 500 {
		t.Errorf("%d refusals were read", read)
	}
}

// TestWordsOfFailedRuns: an input, an answer or a command that a graph cannot take is told in words of JSON.
func TestWordsOfFailedRuns(t *testing.T) {
	h := open(t, t.TempDir(), nil)
	values := []any{nil, "text", -1, 1.5, true, []any{1}, []any{object{"a": 1}}, object{"a": 1}, object{"text": 5}, object{"text": []any{1}}, object{"": nil}, object{"messages": 5}, object{"messages": []any{5}}, object{"messages": object{"role": "x"}}}
	for graph := range h.graphs(h.disk) {
		for _, v := range values {
			for _, body := range []object{{"input": v}, {"command": object{"resume": v}}, {"command": object{"goto": v}}, {"command": object{"update": v}}, {"input": object{"text": "x"}, "config": object{"recursion_limit": 1}}, {"input": object{"text": "x"}, "context": v}} {
				if graph == "slow" || graph == "stuck" {
					continue
				}
				body["assistant_id"] = graph
				thread := h.thread()
				a := h.do("POST", "/threads/"+thread+"/runs/wait", body)
				state := h.do("GET", "/threads/"+thread+"/state", nil)
				for _, text := range []string{a.text, state.text} {
					if found := goWords.FindAllString(text, -1); len(found) > 0 {
						t.Errorf("%s %v: %q in %s", graph, body, found, text)
					}
				}
			}
		}
	}
}
