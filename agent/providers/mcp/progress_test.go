package mcp_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/agent/providers/mcp"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
)

// callSlow calls the tool of a server, and says how long that took.
func callSlow(t *testing.T, real *sdk.Server, o mcp.Options) (took time.Duration, err error) {
	t.Helper()
	ours, theirs := sdk.NewInMemoryTransports()
	session, err := real.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	s, err := mcp.Connect(t.Context(), func() (sdk.Transport, error) { return ours, nil }, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = tools[0].Call(t.Context(), tool.Call{ToolCall: message.ToolCall{ID: "1", Name: "slow"}})
	return time.Since(began), err
}

// TestEndlessProgress: a server that reports progress for ever does not keep a call.
func TestEndlessProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		real := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "0"}, nil)
		sdk.AddTool(real, &sdk.Tool{Name: "slow"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			for ctx.Err() == nil {
				time.Sleep(time.Second)
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
			}
			return nil, nil, ctx.Err()
		})
		took, err := callSlow(t, real, mcp.Options{Timeout: time.Minute})
		var lost *mcp.CallError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &lost) || !lost.Lost || took != 12*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestProgress: a call whose server reports progress goes on, however long it takes; one that falls silent
// ends as long after the last report.
func TestProgress(t *testing.T) {
	for _, falls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			real := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "0"}, nil)
			sdk.AddTool(real, &sdk.Tool{Name: "slow"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
				for i := range 5 {
					time.Sleep(4 * time.Minute)
					if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i)}); err != nil {
						return nil, nil, err
					}
				}
				if falls {
					<-ctx.Done()
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
			})
			took, err := callSlow(t, real, mcp.Options{})
			var lost *mcp.CallError
			switch {
			case falls && (!errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &lost) || !lost.Lost || took != 25*time.Minute):
				t.Errorf("%v after %v", err, took)
			case !falls && err != nil:
				t.Error(err)
			}
		})
	}
}
