package message

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// FilterOptions say which messages Filter keeps.
type FilterOptions struct {
	// A message is kept if one of these names it, or if all are empty.
	IncludeNames []string
	IncludeTypes []Type
	IncludeIDs   []string
	// A message that one of these names is not kept.
	ExcludeNames []string
	ExcludeTypes []Type
	ExcludeIDs   []string
	// ExcludeToolCalls leaves out AI messages with tool calls, and all tool messages.
	ExcludeToolCalls bool
	// ExcludeToolCallIDs leaves out the tool calls with these ids, in ToolCalls and in blocks
	// of type "tool_use", and the tool messages that answer them. An AI message that has no
	// tool call left is not kept.
	ExcludeToolCallIDs []string
}

// Filter returns the messages that o keeps, in their order. It is LangChain's filter_messages.
func Filter(list []Message, o FilterOptions) []Message {
	out := []Message{}
	all := len(o.IncludeNames)+len(o.IncludeTypes)+len(o.IncludeIDs) == 0
	for _, m := range list {
		if named(m.Name, o.ExcludeNames) || slices.Contains(o.ExcludeTypes, m.Type) || named(m.ID, o.ExcludeIDs) {
			continue
		}
		if o.ExcludeToolCalls && (m.Type == TypeAI && len(m.ToolCalls) > 0 || m.Type == TypeTool) {
			continue
		}
		m, ok := m.withoutCalls(o.ExcludeToolCallIDs)
		if !ok {
			continue
		}
		if all || named(m.Name, o.IncludeNames) || slices.Contains(o.IncludeTypes, m.Type) || named(m.ID, o.IncludeIDs) {
			out = append(out, m)
		}
	}
	return out
}

// named reports whether name is among names. What has no name is not.
func named(name string, names []string) bool { return name != "" && slices.Contains(names, name) }

// withoutCalls is m without the tool calls with these ids. ok is false if it was about nothing
// else.
func (m Message) withoutCalls(ids []string) (_ Message, ok bool) {
	switch {
	case m.Type == TypeTool:
		return m, !slices.Contains(ids, m.ToolCallID)
	case m.Type != TypeAI || len(m.ToolCalls) == 0 || len(ids) == 0:
		return m, true
	}
	var calls []ToolCall
	for _, c := range m.ToolCalls {
		if c.ID == "" || !slices.Contains(ids, c.ID) {
			calls = append(calls, c)
		}
	}
	if len(calls) == 0 {
		return m, false
	}
	m.ToolCalls = calls
	if m.Blocks != nil {
		blocks := []any{}
		for _, e := range m.Blocks {
			block, _ := e.(map[string]any)
			id, _ := block["id"].(string)
			if block["type"] != "tool_use" || id == "" || !slices.Contains(ids, id) {
				blocks = append(blocks, e)
			}
		}
		m.Blocks = blocks
	}
	return m, true
}

// MergeRuns merges messages of one type that follow one another into one, as LangChain's
// merge_message_runs: as Chunk.Add adds them, with separator between two texts that are not
// empty, and without the ResponseMetadata of all but the first. Tool messages are not merged.
//
// The error is ErrMerge if two messages cannot be added, such as those of two functions or
// roles, or two removals.
func MergeRuns(list []Message, separator string) ([]Message, error) {
	out := make([]Message, 0, len(list))
	var text []byte // of the last of out, to which texts were added: it is copied once, not for each
	finish := func() {
		if text != nil {
			out[len(out)-1].Content, text = string(text), nil
		}
	}
	for i, m := range list {
		last := len(out) - 1
		if last < 0 || m.Type == TypeTool || m.Type != out[last].Type {
			finish()
			out = append(out, m)
			continue
		}
		if m.Type == TypeRemove {
			return nil, fmt.Errorf("message %d: %w: two of type %q", i, ErrMerge, m.Type)
		}
		texts := out[last].Blocks == nil && m.Blocks == nil
		if !texts {
			finish()
		}
		a, b := Chunk{Message: out[last]}, Chunk{Message: m}
		b.ResponseMetadata = nil
		if texts {
			text = append(text, a.Content...)
			if len(text) > 0 && b.Content != "" {
				text = append(text, separator...)
			}
			text = append(text, b.Content...)
			a.Content, b.Content = "", ""
		}
		sum, err := a.Add(b)
		if err == nil {
			out[last], err = sum.Whole()
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	finish()
	return out, nil
}

// Strategy says which end of a conversation Trim keeps.
type Strategy string

// The strategies of Trim. An empty Strategy is KeepLast.
const (
	KeepLast  Strategy = "last"
	KeepFirst Strategy = "first"
)

// TrimOptions say what Trim keeps.
type TrimOptions struct {
	// MaxTokens is the most that Count may say of what is kept.
	MaxTokens int
	// Count counts the tokens of messages; it must not count less for more messages. Nil
	// counts messages. It is called several times, on the goroutine of Trim.
	Count func([]Message) int
	// Strategy is which end is kept.
	Strategy Strategy
	// StartOn are the types with which what is kept begins: what comes before the first of
	// them is dropped. It goes with KeepLast alone, and does not apply to the system message
	// that IncludeSystem keeps.
	StartOn []Type
	// EndOn are the types with which what is kept ends: what follows the last of them is
	// dropped; with KeepLast before anything is counted, with KeepFirst at the end.
	EndOn []Type
	// IncludeSystem keeps the first message, if it is a system message, and counts it. It
	// goes with KeepLast alone.
	IncludeSystem bool
	// AllowPartial keeps a part of the message at the cut, if not all of it fits: some of
	// its blocks, or some pieces of its text.
	AllowPartial bool
	// Split cuts a text into pieces, which make the text when joined. Nil cuts it after each
	// line.
	Split func(string) []string
}

// ErrTrimOptions: TrimOptions contradict each other.
var ErrTrimOptions = errors.New("options of Trim contradict each other")

// Trim returns the messages of list that fit into o.MaxTokens, from one end of it. It is
// LangChain's trim_messages, and changes no message of list. The error is ErrTrimOptions.
func Trim(list []Message, o TrimOptions) ([]Message, error) {
	if o.Count == nil {
		o.Count = func(list []Message) int { return len(list) }
	}
	if o.Split == nil {
		o.Split = func(text string) []string { return strings.SplitAfter(text, "\n") }
	}
	switch o.Strategy {
	case KeepFirst:
		if len(o.StartOn) > 0 || o.IncludeSystem {
			return nil, fmt.Errorf("%w: StartOn and IncludeSystem need KeepLast", ErrTrimOptions)
		}
		return o.first(list, o.MaxTokens, o.EndOn, false), nil
	case KeepLast, "":
		return o.last(list), nil
	}
	return nil, fmt.Errorf("%w: no such strategy: %q", ErrTrimOptions, o.Strategy)
}

// upTo is list without what follows the last message of these types. No types are all types.
func upTo(list []Message, types []Type) []Message {
	for len(types) > 0 && len(list) > 0 && !slices.Contains(types, list[len(list)-1].Type) {
		list = list[:len(list)-1]
	}
	return list
}

// last is Trim with KeepLast: Trim with KeepFirst of the messages in reverse.
func (o *TrimOptions) last(list []Message) []Message {
	list = slices.Clone(upTo(list, o.EndOn))
	var system []Message
	most := o.MaxTokens
	if o.IncludeSystem && len(list) > 0 && list[0].Type == TypeSystem {
		system, list = slices.Clone(list[:1]), list[1:]
		most = max(0, most-o.Count(system))
	}
	slices.Reverse(list)
	kept := o.first(list, most, o.StartOn, true)
	slices.Reverse(kept)
	return append(system, kept...)
}

// first is a copy of the messages at the beginning of list that have at most that many tokens. Of a message
// that does not fit whole a part may be kept: with fromEnd, as list is reversed, its end.
func (o *TrimOptions) first(list []Message, most int, endOn []Type, fromEnd bool) []Message {
	list = slices.Clone(list)
	if len(list) == 0 {
		return []Message{}
	}
	if o.Count(list) <= most {
		return upTo(list, endOn)
	}
	n := largestFit(len(list), func(n int) bool { return o.Count(list[:n]) <= most })
	kept := list[:n]
	if o.AllowPartial && n < len(list) {
		if part, ok := o.part(kept, list[n], most, fromEnd); ok {
			kept = append(slices.Clip(kept), part)
		}
	}
	return upTo(kept, endOn)
}

// largestFit is the largest number up to n that fits, if all below it do.
func largestFit(n int, fits func(int) bool) int {
	lo, hi := 0, n
	for lo < hi {
		if mid := (lo + hi + 1) / 2; fits(mid) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// part is as much of m as fits behind kept; ok is false if nothing does.
func (o *TrimOptions) part(kept []Message, m Message, most int, fromEnd bool) (_ Message, ok bool) {
	if m.Blocks != nil {
		blocks := m.Blocks
		if n := len(blocks); n > 1 {
			for cut := 1; cut < n; cut++ {
				m.Blocks = blocks[:n-cut]
				if fromEnd { // counted in reverse, as LangChain does
					m.Blocks = slices.Clone(blocks[cut:])
					slices.Reverse(m.Blocks)
				}
				if o.Count(append(slices.Clip(kept), m)) <= most {
					if fromEnd {
						slices.Reverse(m.Blocks)
					}
					return m, true
				}
			}
		}
	}
	text := m.firstText()
	if text == "" {
		return m, false
	}
	pieces := slices.Clone(o.Split(text))
	base := o.Count(kept)
	if fromEnd {
		slices.Reverse(pieces)
	}
	m.Blocks = nil
	n := largestFit(len(pieces), func(n int) bool {
		m.Content = strings.Join(pieces[:n], "")
		return base+o.Count([]Message{m}) <= most
	})
	if n == 0 {
		return m, false
	}
	pieces = pieces[:n]
	if fromEnd {
		slices.Reverse(pieces)
	}
	m.Content = strings.Join(pieces, "")
	return m, true
}

// firstText is the text, or that of the first text block.
func (m *Message) firstText() string {
	if m.Blocks == nil {
		return m.Content
	}
	for _, e := range m.Blocks {
		switch x := e.(type) {
		case string:
			return x
		case map[string]any:
			if x["type"] == "text" {
				s, _ := x["text"].(string)
				return s
			}
		}
	}
	return ""
}
