package main

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestMain makes the test binary the server that the benchmark starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-serve" {
		if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestBench: the benchmark runs to its end.
func TestBench(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-span", "10ms", "-streams", "2", "-threads", "85"}, &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 12 || !strings.Contains(out.String(), "memory with the threads") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}
