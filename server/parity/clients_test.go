package parity

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clientTime bounds one client. It decides nothing but how long a failure takes.
const clientTime = 3 * time.Minute

// missing skips a test of a client that is not there; with STELE_CLIENTS_REQUIRED it fails.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("STELE_CLIENTS_REQUIRED") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// TestClients lets LangGraph's own clients use stele: the SDK for Python, asynchronous and
// not, by SSE and WebSocket; RemoteGraph in Python; and SDK and RemoteGraph for JavaScript. It
// needs STELE_CLIENTS_PYTHON, a Python with clients/requirements.txt, and STELE_CLIENTS_NODE, a
// directory where clients/package.json is installed; `.ci/run clients` makes both.
func TestClients(t *testing.T) {
	python, node := os.Getenv("STELE_CLIENTS_PYTHON"), os.Getenv("STELE_CLIENTS_NODE")
	for _, c := range []struct {
		name, needs, program, dir, script string
		args                              []string
	}{
		{"python", python, python, "", "client.py", nil},
		{"remote", python, python, "", "remote.py", nil},
		{"node", node, "node", node, "client.mjs", nil},
		{"node with the SDK of agent-chat-ui", node, "node", node, "client.mjs", []string{"langgraph-sdk-1"}}, // ^1.8.10
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.needs == "" {
				missing(t, "NOT TESTED: the client is not there; see TestClients, or run `.ci/run clients`")
			}
			script, err := filepath.Abs(filepath.Join("clients", c.script))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), clientTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, c.program, append([]string{script, newServer(t)}, c.args...)...)
			cmd.Dir = c.dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
