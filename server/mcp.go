package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/message/pregeljson"
)

// The server is also one of the Model Context Protocol: each assistant is a tool, which a
// request to /mcp lists or calls. There are no sessions, so any server of a fleet answers any
// request. A call is a run on a thread of its own, as POST /runs/wait makes it: it is durable,
// goes on if the client leaves, and is removed with its thread afterwards.

// mcpAPI has the operations of MCP.
type mcpAPI struct {
	graphs     *graphSet
	assistants *assistantAPI
	runs       *runAPI
	view       *runView
	streams    *streamAPI
	heartbeat  time.Duration
	log        *slog.Logger
}

// serve answers a request of MCP.
func (s *mcpAPI) serve(c *call) error {
	tools := mcp.NewServer(&mcp.Implementation{Name: "stele", Version: Version},
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, Logger: s.log})
	if strings.HasPrefix(c.body.text("method"), "tools/") {
		if err := s.addTools(c, tools); err != nil {
			return err
		}
	}
	text, err := encode(c.in) // it was read, bounded and checked already
	if err != nil {
		return err
	}
	r := c.r.Clone(c.ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	// The guard has looked at Host and Origin.
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true, Logger: s.log})
	if c.body.text("method") == "tools/call" {
		s.answerLate(c, func(w http.ResponseWriter) { handler.ServeHTTP(w, r) })
	} else {
		handler.ServeHTTP(c.w, r)
	}
	return nil
}

// answerLate answers with the JSON that serve writes, when serve returns. Until then line breaks
// keep the connection, as in wait: an agent can take longer than a proxy waits for a byte. Only this
// goroutine writes them: the library calls a tool on one of its own, which may outlive the request.
func (s *mcpAPI) answerLate(c *call, serve func(http.ResponseWriter)) {
	out := c.output(func(h http.Header) {
		h.Set("Content-Type", "application/json")
		inPieces(h)
	})
	var beats sync.WaitGroup
	quit := make(chan struct{})
	beats.Go(func() {
		t := time.NewTicker(s.heartbeat)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-quit:
				return
			}
			if out.write([]byte("\n")) != nil {
				return // the client is gone, which serve learns too
			}
		}
	})
	own := kept{discarded: discarded{header: http.Header{}, status: http.StatusOK}}
	func() {
		defer beats.Wait()
		defer close(quit)
		serve(&own)
	}()
	if !out.begun {
		maps.Copy(c.w.Header(), own.header)
		c.w.WriteHeader(own.status)
		out.begun = true
	}
	_ = out.last(own.text.Bytes()) // the client may be gone
}

// kept takes an answer and keeps it whole.
type kept struct {
	discarded
	text bytes.Buffer
}

// Write implements http.ResponseWriter.
func (k *kept) Write(b []byte) (int, error) { return k.text.Write(b) }

// addTools makes tools of the assistants that the user sees. Of those with one name the newest
// is the tool.
func (s *mcpAPI) addTools(c *call, to *mcp.Server) error {
	g, err := c.access("assistants", "search")
	if err != nil {
		return err
	}
	found, err := s.assistants.records.find(c.ctx, body{}, assistantOrder, func(a assistant) assistant {
		b := a.brief()
		b.Description = a.Description
		return b
	}, func(a assistant) bool {
		return a.reads(g) && s.graphs.by[a.GraphID] != nil
	})
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, a := range found {
		name := toolName(a.Name)
		input, ok := s.graphs.schemasOf(a.GraphID, s.graphs.by[a.GraphID]).Input.(map[string]any)
		if !ok || input["type"] != "object" || name == "" || taken[name] { // what takes no object cannot be a tool
			continue
		}
		taken[name] = true
		t := &mcp.Tool{Name: name, InputSchema: input}
		if name != a.Name {
			t.Title = a.Name
		}
		if a.Description != nil {
			t.Description = *a.Description
		}
		to.AddTool(t, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.callTool(c, a, r)
		})
	}
	return nil
}

// toolName is the name of an assistant as MCP and models take names: of letters, digits and
// "_-.", at most 128.
func toolName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 128)]
}

// callTool runs an assistant and answers with the values of its thread, as JSON. An error of
// the graph, or a run that is refused, is an answer that a model can read.
func (s *mcpAPI) callTool(c *call, a assistant, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer := func(text string, failed bool) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: failed}, nil
	}
	internal := func(err error) (*mcp.CallToolResult, error) {
		f, logged := failureOf(err)
		if logged {
			s.log.Error("a tool failed", "assistant", a.ID, "error", err)
		}
		return answer(f.detail, true)
	}
	var input any = map[string]any{}
	if len(r.Params.Arguments) > 0 {
		given, err := decode(r.Params.Arguments)
		if _, ok := given.(map[string]any); err != nil || !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments must be an object"}
		}
		input = given
	}
	one, err := c.asked(body{"assistant_id": a.ID, "input": input})
	if err != nil {
		return internal(err)
	}
	run, err := s.runs.stateless(one, one.body)
	if err != nil {
		return internal(err)
	}
	end, err := s.streams.follow(c, run.ID, 0, nil, nil, nil)
	if err != nil {
		return internal(err)
	}
	came, err := s.view.outcome(c.ctx, end)
	if err != nil {
		return internal(err)
	}
	if m, ok := came.(map[string]any); ok {
		if f, ok := m[pregelError].(pregeljson.Failure); ok {
			return answer(f.Message, true)
		}
	}
	text, err := encode(came)
	if err != nil {
		return internal(err)
	}
	result, _ := answer(string(text), false)
	if len(text) > 0 && text[0] == '{' {
		result.StructuredContent = json.RawMessage(text)
	}
	return result, nil
}
