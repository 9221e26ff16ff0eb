//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// LangGraph is a Python that has LangGraph and its saver on PostgreSQL: that of the
// environment which STELE_POSTGRES_VENV names, made or completed if something is missing,
// or of a fresh one. Without Python or network the test ends as Need says.
func LangGraph(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("STELE_POSTGRES_VENV")
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "venv")
	}
	python := filepath.Join(dir, "bin", "python")
	if exec.Command(python, "-c", "import langgraph.graph, langgraph.checkpoint.postgres, psycopg").Run() == nil {
		return python
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{python, "-m", "pip", "install", "-q", "langgraph==1.2.24", "langgraph-checkpoint-postgres==3.2.0", "langgraph-checkpoint==4.3.2", "psycopg[binary]==3.3.9"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			Need(t, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out))
		}
	}
	return python
}
