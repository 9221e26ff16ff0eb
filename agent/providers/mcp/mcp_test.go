package mcp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/agent/providers/mcp"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// modeEnv makes a process of this test a server: "stdio", or "http", which prints its address.
const modeEnv = "STELE_MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(modeEnv) {
	case "stdio":
		if err := newServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "http":
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(listener.Addr())
		server := newServer()
		err = http.Serve(listener, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// newServer is the server of the tests.
func newServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type sum struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	type result struct {
		Sum int `json:"sum"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Adds."}, func(_ context.Context, _ *sdk.CallToolRequest, in sum) (*sdk.CallToolResult, result, error) {
		return nil, result{in.A + in.B}, nil
	})
	plain := func(name string, f func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			res, err := f(ctx, r)
			return res, nil, err
		})
	}
	text := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	plain("show", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "look"}, &sdk.ImageContent{Data: []byte{1}, MIMEType: "image/png"}, &sdk.AudioContent{Data: []byte{2}, MIMEType: "audio/wav"},
			&sdk.ResourceLink{URI: "https://a/b.png", Name: "b", MIMEType: "image/png"}, &sdk.ResourceLink{URI: "https://a/b", Name: "b"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///a", Text: "inside"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///a", Blob: []byte{3}, MIMEType: "application/pdf"}},
		}}, nil
	})
	plain("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, errors.New("no such city")
	})
	plain("die", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { os.Exit(3); return nil, nil })
	begun, stopped := make(chan struct{}), make(chan struct{})
	plain("wait", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		close(begun)
		<-ctx.Done()
		close(stopped)
		return nil, ctx.Err()
	})
	for name, happened := range map[string]chan struct{}{"begun": begun, "stopped": stopped} {
		plain(name, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			select {
			case <-happened:
				return text("yes"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	}
	plain("meta", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(fmt.Sprint(r.Params.Meta["key"])), nil
	})
	plain("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		plain("new", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("new"), nil })
		s.RemoveTools("meta")
		return text("grown"), nil
	})
	return s
}

// stdio is a server in a process of its own, on its standard input and output.
func stdio(*testing.T) mcp.Dial {
	return func() (sdk.Transport, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), modeEnv+"=stdio"), os.Stderr
		return &sdk.CommandTransport{Command: cmd}, nil
	}
}

// overHTTP is a server in a process of its own that speaks HTTP. After it has died another is
// started.
func overHTTP(t *testing.T) mcp.Dial {
	return func() (sdk.Transport, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), modeEnv+"=http"), os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may be dead
			_ = cmd.Wait()
		})
		addr, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			return nil, err
		}
		return mcp.HTTP("http://" + strings.TrimSpace(addr))()
	}
}

// over runs a test against a server over each transport.
func over(t *testing.T, o mcp.Options, f func(t *testing.T, s *mcp.Server)) {
	for name, dial := range map[string]func(*testing.T) mcp.Dial{"stdio": stdio, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := mcp.Connect(t.Context(), dial(t), o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			f(t, s)
		})
	}
}

// tools are the tools of a server by name.
func tools(t *testing.T, s *mcp.Server) map[string]tool.Tool {
	t.Helper()
	list, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tool.Tool{}
	for _, x := range list {
		out[x.Definition().Name] = x
	}
	return out
}

func call(ctx context.Context, x tool.Tool, args map[string]any) (message.Message, error) {
	out, err := x.Call(ctx, tool.Call{ToolCall: message.ToolCall{Name: x.Definition().Name, ID: "1", Args: args}})
	m, _ := out.(message.Message)
	return m, err
}

// TestAnswers: what tools answer, and how their errors look.
func TestAnswers(t *testing.T) {
	over(t, mcp.Options{}, func(t *testing.T, s *mcp.Server) {
		all := tools(t, s)
		if d := all["add"].Definition(); d.Description != "Adds." || !strings.Contains(string(d.Parameters), `"required":["a","b"]`) {
			t.Errorf("%+v %s", d, d.Parameters)
		}
		got, err := call(t.Context(), all["add"], map[string]any{"a": 1, "b": 2})
		want := message.Message{Type: message.TypeTool, Name: "add", ToolCallID: "1", Content: `{"sum":3}`, Artifact: map[string]any{"structured_content": map[string]any{"sum": int64(3)}}}
		if err != nil || !message.Equal(got, want) {
			t.Errorf("%+v %v", got, err)
		}
		got, err = call(t.Context(), all["show"], nil)
		blocks := []any{
			message.TextBlock("look"), message.Block{"type": "image", "base64": "AQ==", "mime_type": "image/png"}, message.Block{"type": "file", "base64": "Ag==", "mime_type": "audio/wav"},
			message.Block{"type": "image", "url": "https://a/b.png", "mime_type": "image/png"}, message.Block{"type": "file", "url": "https://a/b"},
			message.TextBlock("inside"), message.Block{"type": "file", "base64": "Aw==", "mime_type": "application/pdf"},
		}
		if err != nil || !message.Equal(got, message.Message{Type: message.TypeTool, Name: "show", ToolCallID: "1", Blocks: blocks}) {
			t.Errorf("%+v %v", got, err)
		}
		if got, err = call(t.Context(), all["fail"], nil); err != nil || got.Status != message.StatusError || got.Content != "no such city" {
			t.Errorf("%+v %v", got, err)
		}
	})
}

// TestCancelled: the end of a call's context is told to the server, and leaves the connection as it
// is.
func TestCancelled(t *testing.T) {
	over(t, mcp.Options{}, func(t *testing.T, s *mcp.Server) {
		all := tools(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := call(ctx, all["wait"], nil)
			ended <- err
		}()
		if got, err := call(t.Context(), all["begun"], nil); err != nil || got.Content != "yes" {
			t.Errorf("%+v %v", got, err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if got, err := call(t.Context(), all["stopped"], nil); err != nil || got.Content != "yes" {
			t.Errorf("%+v %v", got, err)
		}
	})
}

// TestDies: the call during which a server dies says so, and the next connects anew.
func TestDies(t *testing.T) {
	over(t, mcp.Options{}, func(t *testing.T, s *mcp.Server) {
		all := tools(t, s)
		for range 2 {
			_, err := call(t.Context(), all["die"], nil)
			var e *mcp.CallError
			if !errors.As(err, &e) || !e.Lost || e.Tool != "die" {
				t.Fatalf("error %v", err)
			}
			if got, err := call(t.Context(), all["add"], map[string]any{"a": 1, "b": 1}); err != nil || got.Content != `{"sum":2}` {
				t.Fatalf("%+v %v", got, err)
			}
		}
	})
}

// TestChanged: the server says that its tools have changed. A call of one that is gone can be mended
// by the model.
func TestChanged(t *testing.T) {
	for name, dial := range map[string]func(*testing.T) mcp.Dial{"stdio": stdio, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			changed := make(chan struct{}, 9)
			s, err := mcp.Connect(t.Context(), dial(t), mcp.Options{Changed: func() { changed <- struct{}{} }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			before := tools(t, s)
			if _, err := call(t.Context(), before["grow"], nil); err != nil {
				t.Fatal(err)
			}
			<-changed
			after := tools(t, s)
			if got, err := call(t.Context(), after["new"], nil); err != nil || got.Content != "new" || after["meta"] != nil {
				t.Errorf("%+v %v", got, err)
			}
			_, err = call(t.Context(), before["meta"], nil)
			var invalid *tool.InvocationError
			if !errors.As(err, &invalid) || invalid.Tool != "meta" {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestNames: tools have names that providers take, and no two the same one.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 80)
	build := func(names ...string) mcp.Dial {
		return func() (sdk.Transport, error) {
			s := sdk.NewServer(&sdk.Implementation{Name: "names"}, nil)
			for _, name := range names {
				s.AddTool(&sdk.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "I am " + name}}}, nil
				})
			}
			client, server := sdk.NewInMemoryTransports()
			_, err := s.Connect(context.Background(), server, nil)
			return client, err
		}
	}
	s, err := mcp.Connect(t.Context(), build("a.b", "c", long+"1", long+"2"), mcp.Options{Prefix: "p.", Keep: func(name string) bool { return name != "c" }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := tools(t, s)
	if len(all) != 3 || all["p_a_b"] == nil {
		t.Fatalf("%v", all)
	}
	for name := range all {
		if len(name) > 64 {
			t.Errorf("%d bytes: %s", len(name), name)
		}
	}
	if got, err := call(t.Context(), all["p_a_b"], nil); err != nil || got.Content != "I am a.b" || got.Name != "p_a_b" {
		t.Errorf("%+v %v", got, err)
	}
	twins, err := mcp.Connect(t.Context(), build("a.b", "a_b"), mcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer twins.Close()
	if _, err := twins.Tools(t.Context()); !errors.Is(err, tool.ErrDefinition) {
		t.Errorf("error %v", err)
	}
}

// TestKey: a call has the key of its task, the same when the task runs again.
func TestKey(t *testing.T) {
	s, err := mcp.Connect(t.Context(), stdio(t), mcp.Options{KeyMeta: "key"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	meta := tools(t, s)["meta"]
	var keys []string
	fail := errors.New("fail")
	g, err := graph.New(graph.Key("messages", message.Channel(nil))).Node("call", pregel.NodeOf(func(ctx context.Context, _ message.State) (any, error) {
		got, err := call(ctx, meta, nil)
		if err != nil {
			return nil, err
		}
		if keys = append(keys, got.Content); len(keys) == 1 {
			return nil, fail
		}
		return nil, nil
	})).Edge(graph.Start, "call").Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"messages": "hi"}); !errors.Is(err, fail) {
		t.Fatal(err)
	}
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), nil); err != nil {
		t.Fatal(err)
	}
	if len(keys) != 2 || keys[0] != keys[1] || len(keys[0]) < 8 {
		t.Errorf("keys %q", keys)
	}
	if _, err := call(t.Context(), meta, nil); !errors.Is(err, pregel.ErrOutsideTask) {
		t.Errorf("outside of a task: %v", err)
	}
}

// TestClosed: a server that was closed, or cannot be reached, is an error.
func TestClosed(t *testing.T) {
	s, err := mcp.Connect(t.Context(), stdio(t), mcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	add := tools(t, s)["add"]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t.Context(), add, nil); !errors.Is(err, mcp.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if _, err := s.Tools(t.Context()); !errors.Is(err, mcp.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := mcp.Connect(t.Context(), mcp.Command("no-such-program-anywhere"), mcp.Options{}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mcp.Connect(ctx, stdio(t), mcp.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestSideBySide: calls run side by side over one connection.
func TestSideBySide(t *testing.T) {
	over(t, mcp.Options{}, func(t *testing.T, s *mcp.Server) {
		add := tools(t, s)["add"]
		got := make(chan string, 20)
		for i := range 20 {
			go func() {
				m, err := call(t.Context(), add, map[string]any{"a": i, "b": 0})
				if err != nil {
					m.Content = err.Error()
				}
				got <- m.Content
			}()
		}
		var sums []string
		for range 20 {
			sums = append(sums, <-got)
		}
		slices.Sort(sums)
		if len(slices.Compact(sums)) != 20 || sums[0] != `{"sum":0}` {
			t.Errorf("%q", sums)
		}
	})
}
