package server_test

import "testing"

// TestRefusedRuns: what no run can be made of is refused before one is made, whichever operation asks for it.
func TestRefusedRuns(t *testing.T) {
	h := open(t, t.TempDir(), nil)
	id := h.thread()
	good := object{"assistant_id": "simple", "input": object{"text": "x"}}
	both := object{"context": object{"a": 1}, "config": object{"configurable": object{"a": 1}}}
	gone := object{"configurable": object{"checkpoint_id": someID}}
	for _, bad := range []struct {
		status, alone, cron int // of a run on a thread, of one without, and of a cron; 0 is accepted
		is                  object
	}{
		{400, 400, 400, both},
		{422, 422, 422, object{"config": object{"recursion_limit": 0}}},
		{422, 422, 422, object{"config": object{"recursion_limit": -1}}},
		{422, 422, 422, object{"config": object{"max_concurrency": -1}}},
		{422, 422, 422, object{"config": object{"max_concurrency": "2"}}},
		{422, 422, 422, object{"interrupt_before": []string{"nobody"}}},
		{422, 422, 422, object{"interrupt_after": []string{"a", "nobody"}}},
		{404, 404, 0, object{"checkpoint_id": someID}},
		{404, 404, 0, object{"checkpoint": object{"checkpoint_id": someID}}},
		{404, 404, 0, object{"config": gone}},
		{422, 422, 422, object{"checkpoint": object{"checkpoint_ns": "inner"}}},
		{422, 422, 422, object{"checkpoint": object{"checkpoint_ns": "inner", "checkpoint_id": someID, "checkpoint_map": object{"inner": someID}}}},
		{0, 400, 0, object{"command": object{"resume": "x"}}},
		{0, 400, 0, object{"command": object{"resume": false}}},
	} {
		body := merge(good, bad.is)
		for _, how := range []string{"", "/wait", "/stream"} {
			if bad.status > 0 {
				h.refused(bad.status, "POST", "/threads/"+id+"/runs"+how, body)
			}
			h.refused(bad.alone, "POST", "/runs"+how, body)
		}
		h.refused(bad.alone, "POST", "/runs/batch", []object{body})
		if bad.cron > 0 {
			h.refused(bad.cron, "POST", "/runs/crons", merge(body, object{"schedule": "0 0 1 1 *"}))
		}
	}
	h.refused(422, "POST", "/threads/"+id+"/runs/wait", merge(good, object{"checkpoint": object{"thread_id": someID}}))
	for _, config := range []object{gone, {"recursion_limit": 0}} {
		params := merge(good, object{"config": config})
		if a := h.ok("POST", "/threads/"+id+"/commands", object{"id": 1, "method": "run.start", "params": params}); a.text1("type") != "error" {
			t.Errorf("%v: %s", config, a.text)
		}
	}
	h.refused(400, "POST", "/assistants", merge(object{"graph_id": "simple"}, both))
	h.refused(422, "POST", "/assistants", object{"graph_id": "simple", "config": object{"recursion_limit": 0}})
	h.equal(h.ok("GET", "/threads/"+id+"/runs", nil), `[]`)
	h.equal(h.ok("POST", "/threads/count", object{}), `1`)
}

// TestCronWithContext: the id of a cron, which its runs are configured with, does not stand against a context.
func TestCronWithContext(t *testing.T) {
	h := open(t, t.TempDir(), nil)
	id := h.thread()
	cron := object{"assistant_id": "simple", "schedule": "@every 1s", "input": object{"text": "x"}, "context": object{"style": "loud"}}
	name := h.ok("POST", "/threads/"+id+"/runs/crons", cron).text1("cron_id")
	h.until("the cron has made a run", func() bool { return len(h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)) > 0 })
	run := h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)[0].(object)
	config := run["kwargs"].(object)["config"].(object)["configurable"].(object)
	if config["style"] != "loud" || config["cron_id"] != name {
		t.Errorf("%v", config)
	}
}

// TestConfigOfRecords: the bounds of a run hold also where they come from an assistant or a cron, which are stored.
func TestConfigOfRecords(t *testing.T) {
	h := open(t, t.TempDir(), nil)
	bound := object{"recursion_limit": 1, "max_concurrency": 1}
	input := object{"text": "x"}
	assistant := h.ok("POST", "/assistants", object{"graph_id": "simple", "config": bound}).text1("assistant_id")
	runOf := map[string]string{}
	for how, body := range map[string]object{"request": {"assistant_id": "simple", "config": bound}, "assistant": {"assistant_id": assistant}, "both": {"assistant_id": assistant, "config": object{"tags": []string{"x"}}}} {
		runOf[how] = h.thread()
		h.ok("POST", "/threads/"+runOf[how]+"/runs", merge(body, object{"input": input}))
	}
	runOf["cron"] = h.thread()
	h.ok("POST", "/threads/"+runOf["cron"]+"/runs/crons", object{"assistant_id": "simple", "schedule": "@every 1s", "input": input, "config": bound})
	for how, id := range runOf {
		var run object
		h.until("the run has ended", func() bool {
			list := h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)
			if len(list) == 0 {
				return false
			}
			run = list[len(list)-1].(object)
			return run["status"] != "pending" && run["status"] != "running"
		})
		made, err := h.queue.Get(t.Context(), run["run_id"].(string))
		if err != nil || run["status"] != "error" || made.RecursionLimit != 1 || made.MaxConcurrency != 1 {
			t.Errorf("%s: %v, limits %d and %d, %v", how, run["status"], made.RecursionLimit, made.MaxConcurrency, err)
		}
	}
}
