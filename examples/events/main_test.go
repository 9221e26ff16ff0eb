package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// begin serves with a model; stop shuts the server down and says what it ended with.
func begin(t *testing.T, s saver.Saver, m model.Model) (url string, shutdown context.CancelFunc, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, s, m) }()
	t.Cleanup(cancel)
	return fmt.Sprintf("http://%s/threads/ada", l.Addr()), cancel, func() error {
		cancel()
		return <-ended
	}
}

func post(t *testing.T, ctx context.Context, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// TestServer: a run streams its words, asks, and goes on with the answer. Whoever is too late or
// too early gets a conflict.
func TestServer(t *testing.T) {
	url, _, stop := begin(t, memory.New(memory.Options{}), model.NewScriptedFunc(script))
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/answer", "yes", 409, "nothing is waiting"},
		{"", "apples", 200, "event: question\ndata: {\"action_requests\":[{\"name\":\"buy\",\"args\":{\"item\":\"apples\"}"},
		{"/answer", "yes", 200, "event: words\ndata: \"done.\"\n\nevent: end\n"},
		{"", "pears", 200, "event: question"},
		{"/answer", "too dear", 200, "event: end"},
		{"/answer", "yes", 409, "nothing is waiting"},
	} {
		if status, text := post(t, t.Context(), url+c.path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %q: %d %s", c.path, c.body, status, text)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestShutdown: a shutdown lets a superstep end, and the next process goes on with the run.
func TestShutdown(t *testing.T) {
	s := memory.New(memory.Options{})
	asked, release := make(chan bool), make(chan bool)
	var calls atomic.Int64
	url, shutdown, stop := begin(t, s, model.NewScriptedFunc(func(ctx context.Context, r model.Request) (model.Answer, error) {
		calls.Add(1)
		asked <- true
		<-release
		return script(ctx, r)
	}))
	type answer struct {
		status int
		text   string
	}
	answers := make(chan answer, 1)
	go func() {
		status, text := post(t, context.Background(), url, "apples")
		answers <- answer{status, text}
	}()
	<-asked
	if status, text := post(t, t.Context(), url, "pears"); status != http.StatusConflict {
		t.Errorf("a second run on the thread: %d %s", status, text)
	}
	shutdown()
	for { // until it takes no more requests
		conn, err := net.Dial("tcp", strings.Split(url, "/")[2])
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	close(release)
	if a := <-answers; !strings.Contains(a.text, "drained") {
		t.Errorf("the run ended with %d %s", a.status, a.text)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	url, _, stop = begin(t, s, model.NewScriptedFunc(script))
	if status, text := post(t, t.Context(), url+"/answer", "yes"); status != http.StatusOK || !strings.Contains(text, "That ") || calls.Load() != 1 {
		t.Errorf("after the restart: %d %s, %d calls of the model before it", status, text, calls.Load())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
