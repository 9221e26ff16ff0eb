package parity

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/store"
)

// TestClientsPage lets useStream, of @langchain/langgraph-sdk/react and of @langchain/react, use
// stele in a browser; and LangGraph's own server, which shows that the page asks for nothing else.
// It needs STELE_CLIENTS_NODE as TestClients does, and a chromium.
func TestClientsPage(t *testing.T) {
	node, browser := os.Getenv("STELE_CLIENTS_NODE"), chromium()
	if node == "" || browser == "" {
		missing(t, "NOT TESTED: useStream in a browser: there is no chromium, or no packages; see TestClients, or run `.ci/run clients`")
	}
	dir := t.TempDir()
	page := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(page.Close)
	run := func(t *testing.T, address string) {
		script, err := filepath.Abs(filepath.Join("clients", "page", "drive.mjs"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*clientTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", script, address, page.URL, dir, browser)
		cmd.Dir = node
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
	}
	t.Run("stele", func(t *testing.T) { run(t, newServerFor(t, map[string]builder{"story": storyGraph}, page.URL)) })
	t.Run("langgraph", func(t *testing.T) {
		address, err := langgraphDev()
		if err != nil {
			missing(t, "NOT TESTED: useStream against LangGraph's own server: "+err.Error())
		}
		run(t, address)
	})
}

// chromium is the browser of the machine, or the one that STELE_CHROMIUM names; "" if there is none.
func chromium() string {
	for _, name := range []string{os.Getenv("STELE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

// teller tells the beginning of a story, and its end when an item is stored that has the last
// message as its key.
type teller struct{ items store.Store }

func (m teller) Stream(ctx context.Context, r model.Request) iter.Seq2[message.Chunk, error] {
	return func(yield func(message.Chunk, error) bool) {
		part := func(text string, last bool) bool {
			return yield(message.Chunk{Message: message.AI(text), Last: last}, nil)
		}
		if !part("Once upon ", false) || !part("a time", false) {
			return
		}
		for {
			_, err := m.items.Get(ctx, store.Namespace{"stories"}, r.Messages[len(r.Messages)-1].Text())
			if err == nil {
				break
			}
			if !errors.Is(err, store.ErrNotFound) {
				yield(message.Chunk{}, err)
				return
			}
			select {
			case <-ctx.Done():
				yield(message.Chunk{}, context.Cause(ctx))
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		_ = part(" it ended.", false) && part("", true)
	}
}

// storyGraph is that of reference/story.py.
func storyGraph(o graph.Options) (*pregel.Graph, error) {
	b := graph.New(graph.Key("messages", message.Channel(nil)))
	b.Node("tell", func(ctx context.Context, s any) (any, error) {
		list, err := message.FromList(s.(state)["messages"])
		if err != nil {
			return nil, err
		}
		answer, err := model.Call(ctx, teller{o.Store}, model.Request{Messages: list})
		return state{"messages": message.List{answer}}, err
	})
	b.Edge(graph.Start, "tell")
	return b.Compile(o)
}
