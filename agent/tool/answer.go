package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

// ErrAnswer: a tool returned something that does not answer its call. It is an error of the tool,
// for which Options.Errors may have an answer.
var ErrAnswer = errors.New("no answer to the tool call")

// answer makes a message or Commands of what a tool returned.
func (n *Node) answer(out any, call message.ToolCall, kind inputKind) (any, error) {
	switch x := out.(type) {
	case message.Message:
		return toolMessage(x)
	case *pregel.Command:
		if x != nil {
			return n.command(*x, call, kind, true)
		}
	case pregel.Command:
		return n.command(x, call, kind, true)
	case []pregel.Command:
		return n.several(anys(x), call, kind)
	case []message.Message:
		return n.several(anys(x), call, kind)
	case message.List:
		return n.several(anys(x), call, kind)
	case []any:
		if len(x) > 0 && !slices.ContainsFunc(x, func(e any) bool { return !isOutput(e) }) {
			return n.several(x, call, kind)
		}
	case Result:
		m, err := result(call, x.Content)
		m.Artifact = x.Artifact
		return m, err
	}
	return result(call, out)
}

// wrapped is the answer that Options.Wrap returned.
func wrapped(answer any, call message.ToolCall) (any, error) {
	switch x := answer.(type) {
	case message.Message, pregel.Command:
		return x, nil
	case *pregel.Command:
		if x != nil {
			return *x, nil
		}
	case []any:
		if len(x) > 0 && !slices.ContainsFunc(x, func(e any) bool { return !isOutput(e) }) {
			out := slices.Clone(x)
			for i, e := range out {
				if c, ok := e.(*pregel.Command); ok {
					out[i] = *c
				}
			}
			return out, nil
		}
	}
	return result(call, answer)
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}

// isOutput reports whether v is not the content of an answer, but an answer.
func isOutput(v any) bool {
	switch x := v.(type) {
	case message.Message, pregel.Command:
		return true
	case *pregel.Command:
		return x != nil
	}
	return false
}

// toolMessage checks a message that a tool made.
func toolMessage(m message.Message) (message.Message, error) {
	if m.Type != message.TypeTool {
		return m, fmt.Errorf("%w: a message of type %q", ErrAnswer, m.Type)
	}
	if m.Blocks != nil && !areBlocks(m.Blocks) {
		text, err := dumps(m.Blocks)
		if err != nil {
			return m, fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		m.Blocks, m.Content = nil, text
	}
	return m, nil
}

// result is the message with a content.
func result(call message.ToolCall, content any) (message.Message, error) {
	m := message.ToolResult(call, "")
	m.Status = message.StatusSuccess
	switch x := content.(type) {
	case string:
		m.Content = x
		return m, nil
	case []message.Block:
		content = anys(x)
	case []string:
		content = anys(x)
	}
	if list, ok := content.([]any); ok && areBlocks(list) {
		m.Blocks = slices.Clone(list)
		if m.Blocks == nil {
			m.Blocks = []any{}
		}
		return m, nil
	}
	var err error
	if m.Content, err = dumps(content); err != nil {
		return m, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return m, nil
}

// blockTypes are the types of blocks that an answer may have.
var blockTypes = []string{"text", "image_url", "image", "json", "search_result", "custom_tool_call_output", "document", "file"}

// areBlocks reports whether list is the content of a message.
func areBlocks(list []any) bool {
	return !slices.ContainsFunc(list, func(e any) bool {
		block, ok := e.(map[string]any)
		kind, _ := block["type"].(string)
		return !ok || !slices.Contains(blockTypes, kind)
	})
}

// dumps is v as JSON with the spaces that Python's json.dumps has.
func dumps(v any) (string, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	out := make([]byte, 0, text.Len()+text.Len()/8)
	inString, escaped := false, false
	for _, b := range bytes.TrimSuffix(text.Bytes(), []byte("\n")) {
		out = append(out, b)
		switch {
		case inString:
			inString = b != '"' || escaped
			escaped = b == '\\' && !escaped
		case b == '"':
			inString = true
		case b == ',' || b == ':':
			out = append(out, ' ')
		}
	}
	return string(out), nil
}

// several checks a list of Commands and messages: exactly one message answers the call.
func (n *Node) several(list []any, call message.ToolCall, kind inputKind) (any, error) {
	answers := 0
	out := make([]any, len(list))
	for i, e := range list {
		var err error
		switch x := e.(type) {
		case message.Message:
			out[i], err = toolMessage(x)
			if x.ToolCallID == call.ID {
				answers++
			}
		case *pregel.Command:
			answers += n.answering(x.Update, call)
			out[i], err = n.command(*x, call, kind, false)
		case pregel.Command:
			answers += n.answering(x.Update, call)
			out[i], err = n.command(x, call, kind, false)
		}
		if err != nil {
			return nil, err
		}
	}
	if answers != 1 {
		return nil, fmt.Errorf("%w: Tool %s returned a list with %d messages bound to tool_call_id '%s'; expected exactly one terminating ToolMessage", ErrAnswer, call.Name, answers, call.ID)
	}
	return out, nil
}

// answering counts the messages in an update of a state that answer a call.
func (n *Node) answering(update any, call message.ToolCall) (count int) {
	pairs, _ := pregel.PairsOf(update)
	for _, p := range pairs {
		if p.Key != n.opts.Key {
			continue
		}
		list, err := message.FromList(p.Value)
		for _, m := range list {
			if err == nil && m.Type == message.TypeTool && m.ToolCallID == call.ID {
				count++
			}
		}
	}
	return count
}

// command checks a Command: its update fits the input of the node, and answers the call unless it
// is for another graph. The message that does gets the name of the tool.
func (n *Node) command(c pregel.Command, call message.ToolCall, kind inputKind, answers bool) (pregel.Command, error) {
	var written any
	var put func(message.List)
	if pairs, ok := pregel.PairsOf(c.Update); ok && c.Update != nil {
		if kind == listInput {
			return c, fmt.Errorf("%w: Tools can provide a dict in Command.update only when using dict with '%s' key as ToolNode input, got one for tool '%s'", ErrAnswer, n.opts.Key, call.Name)
		}
		pairs = slices.Clone(pairs)
		at := slices.IndexFunc(pairs, func(p pregel.Pair) bool { return p.Key == n.opts.Key })
		if at >= 0 {
			written = pairs[at].Value
		}
		put = func(list message.List) {
			if at >= 0 {
				pairs[at].Value = list
				c.Update = pairs
			}
		}
	} else if isMessages(c.Update) {
		if kind != listInput {
			return c, fmt.Errorf("%w: Tools can provide a list of messages in Command.update only when using list of messages as ToolNode input, got one for tool '%s'", ErrAnswer, call.Name)
		}
		written = c.Update
		put = func(list message.List) { c.Update = list }
	} else {
		return c, nil
	}
	list, err := message.FromList(written)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if len(list) == 1 && list[0].Type == message.TypeRemove && list[0].ID == message.RemoveAllID {
		return c, nil
	}
	list = slices.Clone(list)
	found := false
	for i, m := range list {
		if m.Type == message.TypeTool && m.ToolCallID == call.ID {
			list[i].Name, found = call.Name, true
		}
	}
	if answers && c.Graph == "" && !found {
		return c, fmt.Errorf("%w: Expected to have a matching ToolMessage in Command.update for tool '%s'. Every tool call (LLM requesting to call a tool) in the message history MUST have a corresponding ToolMessage", ErrAnswer, call.Name)
	}
	put(list)
	return c, nil
}

func isMessages(v any) bool {
	switch v.(type) {
	case []any, []message.Message, message.List:
		return true
	}
	return false
}

// combine makes the output of the node of the answers to all calls.
func (n *Node) combine(answers []any, kind inputKind) any {
	var flat []any
	commands := false
	for _, a := range answers {
		list, ok := a.([]any)
		if !ok {
			list = []any{a}
		}
		flat = append(flat, list...)
	}
	write := func(list message.List) any {
		if kind == listInput {
			return list
		}
		return map[string]any{n.opts.Key: list}
	}
	messages := message.List{}
	for _, a := range flat {
		if m, ok := a.(message.Message); ok {
			messages = append(messages, m)
		} else {
			commands = true
		}
	}
	if !commands {
		return write(messages)
	}
	var out []any
	var parent *pregel.Command
	for _, a := range flat {
		switch x := a.(type) {
		case message.Message:
			out = append(out, write(message.List{x}))
		case pregel.Command:
			sends, ok := sendsOf(x.Goto)
			if x.Graph != pregel.Parent || !ok {
				out = append(out, x)
				continue
			}
			if parent == nil {
				parent = &pregel.Command{Graph: pregel.Parent}
			}
			parent.Goto = append(goneTo(parent.Goto), sends...)
		}
	}
	if parent != nil {
		out = append(out, *parent)
	}
	return out
}

func goneTo(v any) []any { list, _ := v.([]any); return list }

// sendsOf is where a Command goes, if that is a list of Sends.
func sendsOf(v any) ([]any, bool) {
	switch x := v.(type) {
	case []pregel.Send:
		return anys(x), true
	case []any:
		return x, !slices.ContainsFunc(x, func(e any) bool { _, ok := e.(pregel.Send); return !ok })
	}
	return nil, false
}
