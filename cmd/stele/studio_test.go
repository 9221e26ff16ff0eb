package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestStudio(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("X-Api-Key"))
	}))
	defer api.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"studio", api.URL, "--listen", "127.0.0.1:0", "--api-key", "k"}, in, io.Discard)
	}()
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "studio at "))
	for path, want := range map[string]string{"/": "<title>stele studio</title>", "/api/info": "/info k"} {
		resp, err := http.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, %s", path, err, body)
		}
	}
	cancel()
	if c := <-code; c != exitDone {
		t.Errorf("ended with code %d", c)
	}
	if c := run(context.Background(), []string{"studio", "localhost:2024"}, io.Discard, io.Discard); c != exitFailed {
		t.Errorf("something that is no URL: code %d", c)
	}
}
