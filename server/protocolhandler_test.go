package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

// heard are the events of protocol v2 of a thread behind since, as "number id method data", up
// to the n-th that says that a run is over. Less is a failure.
func (h *house) heard(thread string, since, n int) (out []string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	res, err := h.request(ctx, "POST", "/threads/"+thread+"/stream/events", object{"channels": []string{"values", "lifecycle", "input"}, "since": since})
	if err != nil {
		h.Fatal(err)
	}
	defer res.Body.Close()
	err = frames(res.Body, func(f frame) bool {
		var e struct {
			Seq     json.Number `json:"seq"`
			EventID string      `json:"event_id"`
			Params  struct {
				Data json.RawMessage `json:"data"`
			} `json:"params"`
		}
		if err := json.Unmarshal([]byte(f.data), &e); err != nil || e.Seq.String() != f.id {
			h.Errorf("%v: %+v", err, f)
		}
		line := fmt.Sprintf("%s %s %s %s", e.Seq, e.EventID, f.event, e.Params.Data)
		out = append(out, line)
		if strings.Contains(line, `"completed"`) || strings.Contains(line, `"failed"`) || strings.Contains(line, `"interrupted"`) {
			n--
		}
		return n > 0
	})
	if err != nil || n > 0 {
		h.Fatalf("%v: %d runs are not over after\n%s", err, n, strings.Join(out, "\n"))
	}
	return out
}

func (h *house) command(thread, method string, params object) answer {
	h.Helper()
	return h.ok("POST", "/threads/"+thread+"/commands", object{"id": 1, "method": method, "params": params})
}

func (h *house) start(thread, graph string) string {
	h.Helper()
	run, _ := h.command(thread, "run.start", object{"assistant_id": graph, "input": object{"text": "x"}}).object()["result"].(object)["run_id"].(string)
	h.ended(thread, run)
	return run
}

func sameLines(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An event has one number: for whoever listens later, after a restart, and when an earlier run
// was removed.
func TestProtocolNumbers(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	thread := h.thread()
	first := h.start(thread, "simple")
	h.start(thread, "simple")
	all := h.heard(thread, 0, 2)
	half := len(all) / 2
	// Numbers are of all channels: those in between are of others.
	last := 0
	if _, err := fmt.Sscan(all[half-1], &last); err != nil {
		t.Fatal(err)
	}
	sameLines(t, h.heard(thread, last, 1), all[half:])
	h.shut()
	h = open(t, dir, nil)
	sameLines(t, h.heard(thread, 0, 2), all)
	h.do("DELETE", "/threads/"+thread+"/runs/"+first, nil)
	sameLines(t, h.heard(thread, 0, 1), all[half:])
	h.start(thread, "simple")
	again := h.heard(thread, 0, 2)
	sameLines(t, again[:half], all[half:])
	h.shut()
	h = open(t, dir, nil)
	sameLines(t, h.heard(thread, 0, 2), again)
}

// A stream of events ends when its thread is removed, and when the server closes; it begins
// before the thread is there.
func TestProtocolStreamEnds(t *testing.T) {
	for name, end := range map[string]func(h *house, thread string){
		"delete": func(h *house, thread string) { h.do("DELETE", "/threads/"+thread, nil) },
		"close":  func(h *house, _ string) { _ = h.api.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			res, err := h.request(ctx, "POST", "/threads/"+someID+"/stream/events", object{"channels": []string{"lifecycle"}})
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			over := make(chan error, 1)
			seen := make(chan string, 100)
			go func() {
				err := frames(res.Body, func(f frame) bool { seen <- f.data; return true })
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
				}
				over <- err
			}()
			h.start(someID, "simple")
			for got := ""; !strings.Contains(got, `"completed"`); {
				select {
				case got = <-seen:
				case err := <-over:
					t.Fatalf("it ended early: %v", err)
				}
			}
			end(h, someID)
			if err := <-over; err != nil {
				t.Errorf("it was cut off: %v", err)
			}
		})
	}
}

// What the protocol has beside the reference: the state, its checkpoints, and a fork.
func TestProtocolState(t *testing.T) {
	h := newHouse(t)
	thread := h.thread()
	h.start(thread, "simple")
	result := func(a answer) object { m, _ := a.object()["result"].(object); return m }
	state := result(h.command(thread, "state.get", object{"namespace": []string{}, "keys": []string{"log"}}))
	if got := fmt.Sprint(state["values"]); got != "map[log:[a b]]" {
		t.Errorf("values %s", got)
	}
	list, _ := result(h.command(thread, "state.listCheckpoints", object{"limit": 2}))["checkpoints"].([]any)
	if len(list) != 2 || list[0].(object)["id"] != state["checkpoint"].(object)["id"] {
		t.Fatalf("checkpoints %v", list)
	}
	before := list[1].(object)["id"].(string)
	older, _ := result(h.command(thread, "state.listCheckpoints", object{"before": before}))["checkpoints"].([]any)
	if len(older) != 2 {
		t.Errorf("%d older ones", len(older))
	}
	fork := result(h.command(thread, "state.fork", object{"checkpoint_id": before}))
	if fork["thread_id"] != thread {
		t.Fatalf("fork %v", fork)
	}
	h.ended(thread, fork["run_id"].(string))
	if state := result(h.command(thread, "state.get", object{})); fmt.Sprint(state["values"]) != "map[log:[a b] text:x]" {
		t.Errorf("values after a fork %v", state["values"])
	}
	for method, code := range map[string]string{"state.fork": "no_such_checkpoint", "input.inject": "not_supported", "nobody": "unknown_command"} {
		if a := h.command(thread, method, object{"checkpoint_id": someID}); a.text1("error") != code {
			t.Errorf("%s: %s", method, a.text)
		}
	}
}

// Commands to another's thread are refused, whatever they are.
func TestProtocolApart(t *testing.T) {
	h, bob := users(t, nil)
	thread := h.thread()
	h.ok("POST", "/threads/"+thread+"/commands", object{"id": 1, "method": "agent.getTree", "params": object{}})
	bob.refused(404, "POST", "/threads/"+thread+"/commands", object{"id": 1, "method": "agent.getTree", "params": object{}})
}
