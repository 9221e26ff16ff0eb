package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/agent/providers/mcp"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
)

// TestSilentServer: connecting, listing and a call end though the server says nothing, and so does Close.
func TestSilentServer(t *testing.T) {
	real := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "0"}, nil)
	sdk.AddTool(real, &sdk.Tool{Name: "echo"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{}, nil, nil
	})
	behind := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return real }, nil))
	t.Cleanup(behind.Close)
	target, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"initialize", "tools/list", "tools/call"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			var hung atomic.Bool
			proxy := httputil.NewSingleHostReverseProxy(target)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if bytes.Contains(body, []byte(`"`+from+`"`)) {
					hung.Store(true)
				}
				if hung.Load() { // from then on nothing is answered
					<-over
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				proxy.ServeHTTP(w, r)
			}))
			defer front.CloseClientConnections()
			defer close(over)
			ended := make(chan error, 1)
			go func() {
				s, err := mcp.Connect(context.Background(), mcp.HTTP(front.URL), mcp.Options{Timeout: time.Second})
				if err != nil {
					ended <- err
					return
				}
				tools, err := s.Tools(context.Background())
				if err == nil {
					_, err = tools[0].Call(context.Background(), tool.Call{ToolCall: message.ToolCall{ID: "1", Name: "echo"}})
				}
				s.Close()
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("it does not end before the server is back")
			}
		})
	}
}
