package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/serde"
)

// CallError: a server could not be asked, or gave no result.
type CallError struct {
	// Tool is the tool that was called, under the name that the server gives it; empty for a
	// listing.
	Tool string
	// Code is the code of JSON-RPC; 0 if the server did not answer.
	Code int64
	// Lost: the connection was lost. Whether the call took effect is not known.
	Lost bool
	Err  error
}

// Error names the tool and the reason.
func (e *CallError) Error() string {
	what := "list the tools of the MCP server"
	if e.Tool != "" {
		what = fmt.Sprintf("call %q of the MCP server", e.Tool)
	}
	if e.Lost {
		what += ": the connection was lost"
	}
	return fmt.Sprintf("%s: %v", what, e.Err)
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// serverTool is a tool of a server.
type serverTool struct {
	server *Server
	name   string // that the server gives it
	def    tool.Definition
}

// Definition implements tool.Tool.
func (t *serverTool) Definition() tool.Definition { return t.def }

// Call implements tool.Tool.
func (t *serverTool) Call(ctx context.Context, call tool.Call) (any, error) {
	args := call.Args
	if args == nil {
		args = map[string]any{}
	}
	params := &mcp.CallToolParams{Name: t.name, Arguments: args}
	if name := t.server.opts.KeyMeta; name != "" {
		key, err := pregel.IdempotencyKey(ctx, call.ID)
		if err != nil {
			return nil, err
		}
		params.Meta = mcp.Meta{name: key}
	}
	bound, done := t.server.boundCall(ctx, params)
	defer done()
	session, err := t.server.connection(bound)
	var res *mcp.CallToolResult
	if err == nil {
		res, err = session.CallTool(bound, params)
	}
	if cause := context.Cause(bound); err != nil && errors.Is(cause, context.DeadlineExceeded) {
		err = cause
	}
	if session == nil && err != nil {
		return nil, err
	}
	if err != nil {
		err = t.server.failure(ctx, session, t.name, err)
		var refused *CallError
		if errors.As(err, &refused) && refused.Code == jsonrpc.CodeInvalidParams {
			return nil, &tool.InvocationError{Tool: t.def.Name, Args: args, Err: err}
		}
		return nil, err
	}
	return answer(call.ToolCall, res)
}

// rejected is the code of an error that no server has sent: the library's own for a request that its
// transport could not deliver.
const rejected = -32005

// failure is the error of a request, typed.
func (s *Server) failure(ctx context.Context, session *mcp.ClientSession, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &CallError{Tool: name, Err: err}
	var answered *jsonrpc.Error
	if errors.As(err, &answered) && answered.Code != rejected && !errors.Is(err, mcp.ErrConnectionClosed) {
		e.Code = answered.Code
		return e
	}
	e.Lost = true
	s.lost(session)
	return e
}

// answer is the answer to a call.
func answer(call message.ToolCall, res *mcp.CallToolResult) (any, error) {
	m := message.ToolResult(call, "")
	m.Status = message.StatusSuccess
	if res.IsError {
		m.Status = message.StatusError
	}
	for _, c := range res.Content {
		b, err := block(c)
		if err != nil {
			return nil, err
		}
		m.Blocks = append(m.Blocks, b)
	}
	if res.StructuredContent != nil {
		text, err := json.Marshal(res.StructuredContent)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", tool.ErrAnswer, err)
		}
		content, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: text})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", tool.ErrAnswer, err)
		}
		m.Artifact = map[string]any{"structured_content": content}
		if m.Blocks == nil {
			m.Content = string(text)
		}
	}
	if len(m.Blocks) == 1 {
		if text, ok := res.Content[0].(*mcp.TextContent); ok {
			m.Content, m.Blocks = text.Text, nil
		}
	}
	return m, nil
}

// block is a part of an answer.
func block(c mcp.Content) (message.Block, error) {
	data := func(kind string, raw []byte, mime string) message.Block {
		return media(kind, "base64", base64.StdEncoding.EncodeToString(raw), mime)
	}
	switch x := c.(type) {
	case *mcp.TextContent:
		return message.TextBlock(x.Text), nil
	case *mcp.ImageContent:
		return data("image", x.Data, x.MIMEType), nil
	case *mcp.AudioContent: // an answer cannot have a block of type audio
		return data("file", x.Data, x.MIMEType), nil
	case *mcp.ResourceLink:
		return media(kindOf(x.MIMEType), "url", x.URI, x.MIMEType), nil
	case *mcp.EmbeddedResource:
		switch {
		case x.Resource == nil:
		case x.Resource.Blob != nil:
			return data(kindOf(x.Resource.MIMEType), x.Resource.Blob, x.Resource.MIMEType), nil
		default:
			return message.TextBlock(x.Resource.Text), nil
		}
	}
	return nil, fmt.Errorf("%w: the MCP server answers with %T", tool.ErrAnswer, c)
}

// kindOf is the type of the block for data of a MIME type.
func kindOf(mime string) string {
	if strings.HasPrefix(mime, "image/") {
		return "image"
	}
	return "file"
}

func media(kind, key, value, mime string) message.Block {
	b := message.Block{"type": kind, key: value}
	if mime != "" {
		b["mime_type"] = mime
	}
	return b
}

// maxName is the length of a name that all providers of models take.
const maxName = 64

// unsafe matches characters that providers refuse in names.
var unsafe = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// safeName is a name that providers of models take, the same each time.
func safeName(name string) string {
	safe := unsafe.ReplaceAllString(name, "_")
	if len(safe) <= maxName {
		return safe
	}
	sum := sha256.Sum256([]byte(name))
	return safe[:maxName-9] + "_" + hex.EncodeToString(sum[:4])
}
