package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestChat talks to the agent as a client does: it asks, and approves a mail.
func TestChat(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-addr", "127.0.0.1:0", "-dir", t.TempDir()}, w) }()
	line := make([]byte, 100)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := strings.Cut(string(line[:n]), " ")
	post := func(path string, body map[string]any) string {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(url+path, "application/json", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %s %s %v", path, res.Status, answer, err)
		}
		return string(answer)
	}
	var thread struct {
		ID string `json:"thread_id"`
	}
	if err := json.Unmarshal([]byte(post("/threads", map[string]any{})), &thread); err != nil {
		t.Fatal(err)
	}
	runs := "/threads/" + thread.ID + "/runs/"
	say := func(text string) map[string]any {
		return map[string]any{"assistant_id": "agent", "input": map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}}, "stream_mode": "messages-tuple"}
	}
	if got := post(runs+"stream", say("How is the weather?")); !strings.Contains(got, "rains.") {
		t.Error(got)
	}
	if got := post(runs+"wait", say("Send a mail.")); !strings.Contains(got, `"__interrupt__":[{`) {
		t.Error(got)
	}
	approve := map[string]any{"assistant_id": "agent", "command": map[string]any{"resume": map[string]any{"decisions": []any{map[string]any{"type": "approve"}}}}}
	if got := post(runs+"wait", approve); !strings.Contains(got, "A mail was sent to Ada.") {
		t.Error(got)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the server does not end")
	}
}
