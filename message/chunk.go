package message

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Chunk is a part of a message, as a model streams it. Parts add up to a message; see Add and
// Whole.
//
// A model sends a tool call as ToolCallChunks, whose Args are pieces of a JSON text. The
// ToolCalls and InvalidToolCalls of a chunk are made from its ToolCallChunks by Add and Whole:
// a text that is JSON, or the beginning of an object in JSON, is a tool call; any other is an
// invalid one. So after each part they say what the call is so far. A chunk that has ToolCalls
// and no ToolCallChunks stands for whole calls.
type Chunk struct {
	Message
	ToolCallChunks []ToolCallChunk
	// Last: the message has no parts after this one.
	Last bool
}

// ToolCallChunk is a part of a tool call. Parts with an equal Index that is not nil, and ids
// that are equal or empty, belong to one call: their texts are joined.
type ToolCallChunk struct {
	Name  string `json:"name"`
	Args  string `json:"args"`
	ID    string `json:"id"`
	Index *int   `json:"index"`
}

// EncodeValue implements serde.ValueEncoder: what is stored is the chunk of LangChain's Python.
func (c Chunk) EncodeValue() (v any, extra int64, err error) { return encode(&c, true) }

// DecodeValue implements serde.ValueDecoder. It reads a chunk; a whole message is ErrNotMessage.
func (c *Chunk) DecodeValue(v any, meter func(bytes int64) error) error {
	read, isChunk, err := fromStored(v, meter)
	if err == nil && !isChunk {
		err = fmt.Errorf("%w: %s is no chunk", ErrNotMessage, typeOf(v))
	}
	if err != nil {
		return err
	}
	*c = read
	return nil
}

// WithMessageID returns a copy of c with another id.
func (c Chunk) WithMessageID(id string) any { c.ID = id; return c }

// MarshalJSON writes the fields of the chunk, as Message.MarshalJSON does.
func (c Chunk) MarshalJSON() ([]byte, error) {
	cl, ok := classOf(c.Type)
	if !ok || c.Type == TypeRemove {
		return nil, fmt.Errorf("%w: its type is %q", ErrNotMessage, c.Type)
	}
	return pythonJSON.fields(nil, c.fresh(true, cl.name+"Chunk"), 0)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Chunk) UnmarshalJSON(data []byte) error {
	v, err := parseJSON(string(data), false)
	if err != nil {
		return err
	}
	stored, _ := v.(map[string]any)
	kind, _ := stored["type"].(string)
	cl, isChunk, ok := classNamed(kind)
	if !ok || !isChunk {
		return fmt.Errorf("%w: no chunk", ErrNotMessage)
	}
	read := Chunk{Message: Message{Type: cl.typ}}
	if err := read.load(stored, true, unmetered); err != nil {
		return err
	}
	*c = read
	return nil
}

// Prefixes of ids that LangChain makes, which give way to those of a provider.
const (
	autoPrefix = "lc_"
	runPrefix  = "lc_run-"
)

// Add returns the chunk that c and more make together, in this order, as LangChain adds chunks.
// Texts are joined; blocks and tool call chunks with the same index are merged, in whatever
// order they come; usage is added; maps are merged key by key. The name, and what is in Extra,
// is dropped. The id is the first that a provider has given. c and more do not change.
//
// The error is ErrMerge if values differ in type, or the chunks in their tool call, function or
// role, or if a tool call that came whole is none.
func (c Chunk) Add(more ...Chunk) (Chunk, error) {
	if c.Type == TypeAI && !slices.ContainsFunc(more, func(o Chunk) bool { return o.Type != TypeAI }) {
		return addAI(c, more)
	}
	sum := c
	for _, o := range more {
		var err error
		if sum.Type == TypeAI && o.Type == TypeAI {
			sum, err = addAI(sum, []Chunk{o})
		} else {
			sum, err = addOther(sum, o)
		}
		if err != nil {
			return Chunk{}, err
		}
	}
	return sum, nil
}

// addAI adds chunks of AI messages.
func addAI(c Chunk, more []Chunk) (Chunk, error) {
	if err := c.settle(); err != nil {
		return Chunk{}, err
	}
	sum := Chunk{Message: Message{Type: TypeAI, AdditionalKwargs: c.AdditionalKwargs, ResponseMetadata: c.ResponseMetadata, Usage: c.Usage}, Last: c.Last}
	all := contentOf(&c.Message)
	sum.ToolCallChunks = slices.Clone(c.ToolCallChunks)
	var args [][]byte // of the tool call chunks that were added to
	ids := []string{c.ID}
	for i := range more {
		o := more[i]
		if err := o.settle(); err != nil {
			return Chunk{}, err
		}
		if err := sum.merge(&all, &o.Message); err != nil {
			return Chunk{}, err
		}
		for _, part := range o.ToolCallChunks {
			sum.ToolCallChunks, args = addToolCallChunk(sum.ToolCallChunks, args, part)
		}
		sum.Usage = addUsage(sum.Usage, o.Usage)
		sum.Last = sum.Last || o.Last
		ids = append(ids, o.ID)
	}
	sum.ID = bestID(ids)
	for i, more := range args {
		if more != nil {
			sum.ToolCallChunks[i].Args = string(more)
		}
	}
	sum.finish(&all)
	return sum, sum.settle()
}

// finish puts the content and the maps that were merged into c.
func (c *Chunk) finish(all *content) {
	all.finish(&c.Message)
	finish(c.AdditionalKwargs)
	finish(c.ResponseMetadata)
}

// merge appends the content of m to all, and its maps to those of c.
func (c *Chunk) merge(all *content, m *Message) error {
	if err := all.add(m); err != nil {
		return err
	}
	var err error
	if c.AdditionalKwargs, err = mergeMaps(c.AdditionalKwargs, m.AdditionalKwargs, 0); err != nil {
		return fmt.Errorf("additional_kwargs: %w", err)
	}
	if c.ResponseMetadata, err = mergeMaps(c.ResponseMetadata, m.ResponseMetadata, 0); err != nil {
		return fmt.Errorf("response_metadata: %w", err)
	}
	return nil
}

// bestID is the first id of a provider, else the first of a run, else the first.
func bestID(ids []string) string {
	best, rank := "", -1
	for _, id := range ids {
		r := 0
		switch {
		case id == "":
			continue
		case !strings.HasPrefix(id, autoPrefix):
			return id
		case strings.HasPrefix(id, runPrefix):
			r = 1
		}
		if r > rank {
			best, rank = id, r
		}
	}
	return best
}

// addToolCallChunk merges part into the first of list that belongs to the same call, or appends
// it. Joined arguments are in args.
func addToolCallChunk(list []ToolCallChunk, args [][]byte, part ToolCallChunk) ([]ToolCallChunk, [][]byte) {
	if part.Index != nil {
		for i := range list {
			old := &list[i]
			if old.Index == nil || *old.Index != *part.Index || old.ID != "" && part.ID != "" && old.ID != part.ID {
				continue
			}
			old.Name += part.Name
			for len(args) <= i {
				args = append(args, nil)
			}
			if args[i] == nil {
				args[i] = []byte(old.Args)
			}
			args[i] = append(args[i], part.Args...)
			if old.ID == "" {
				old.ID = part.ID
			}
			return list, args
		}
	}
	return append(list, part), args
}

func addUsage(a, b *Usage) *Usage {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &Usage{
		InputTokens: a.InputTokens + b.InputTokens, OutputTokens: a.OutputTokens + b.OutputTokens, TotalTokens: a.TotalTokens + b.TotalTokens,
		InputDetails: addDetails(a.InputDetails, b.InputDetails), OutputDetails: addDetails(a.OutputDetails, b.OutputDetails),
	}
}

func addDetails(a, b map[string]int64) map[string]int64 {
	if a == nil && b == nil {
		return nil
	}
	out := make(map[string]int64, len(a)+len(b))
	for k, n := range a {
		out[k] += n
	}
	for k, n := range b {
		out[k] += n
	}
	return out
}

// addOther adds chunks of which one is no AI message. The sum has the type of the first.
func addOther(c, o Chunk) (Chunk, error) {
	sum := Chunk{Message: Message{Type: c.Type, ID: c.ID, AdditionalKwargs: c.AdditionalKwargs, ResponseMetadata: c.ResponseMetadata, Role: c.Role}}
	all := contentOf(&c.Message)
	var err error
	switch {
	case c.Type == TypeTool && o.Type == TypeTool:
		if c.ToolCallID != o.ToolCallID {
			return Chunk{}, fmt.Errorf("%w: results of the calls %q and %q", ErrMerge, c.ToolCallID, o.ToolCallID)
		}
		sum.ToolCallID, sum.Status = c.ToolCallID, StatusSuccess
		if c.Status == StatusError || o.Status == StatusError {
			sum.Status = StatusError
		}
		if sum.Artifact, err = mergeAny(c.Artifact, o.Artifact); err != nil {
			return Chunk{}, fmt.Errorf("artifact: %w", err)
		}
		sum.Artifact = finish(sum.Artifact)
	case c.Type == TypeFunction && o.Type == TypeFunction:
		if c.Name != o.Name {
			return Chunk{}, fmt.Errorf("%w: results of the functions %q and %q", ErrMerge, c.Name, o.Name)
		}
		sum.Name = c.Name
	case c.Type == TypeChat && o.Type == TypeChat && c.Role != o.Role:
		return Chunk{}, fmt.Errorf("%w: messages of the roles %q and %q", ErrMerge, c.Role, o.Role)
	case c.Type == TypeTool || c.Type == TypeFunction:
		return Chunk{}, fmt.Errorf("%w: a message of type %q and one of type %q", ErrMerge, c.Type, o.Type)
	}
	if err := sum.merge(&all, &o.Message); err != nil {
		return Chunk{}, err
	}
	sum.finish(&all)
	return sum, sum.settle()
}

// settle makes the tool calls from their parts, or the parts from calls that came whole.
func (c *Chunk) settle() error {
	if c.Type != TypeAI {
		return nil
	}
	if raw, ok := c.AdditionalKwargs["tool_calls"].([]any); ok && len(c.ToolCallChunks)+len(c.ToolCalls)+len(c.InvalidToolCalls) == 0 {
		var err error
		if c.ToolCallChunks, err = openAIChunks(raw); err != nil {
			return fmt.Errorf("%w: %w", ErrMerge, err)
		}
	}
	if len(c.ToolCallChunks) == 0 {
		if err := c.splitCalls(); err != nil {
			return err
		}
	} else {
		c.ToolCalls, c.InvalidToolCalls = nil, nil
		for _, part := range c.ToolCallChunks {
			args, ok := map[string]any{}, true
			if part.Args != "" {
				var v any
				if v, ok = parsePartial(part.Args); ok {
					args, ok = v.(map[string]any)
				}
			}
			if ok {
				c.ToolCalls = append(c.ToolCalls, ToolCall{Name: part.Name, Args: args, ID: part.ID})
			} else {
				c.InvalidToolCalls = append(c.InvalidToolCalls, InvalidToolCall{Name: part.Name, Args: part.Args, ID: part.ID})
			}
		}
	}
	if c.Last && c.ResponseMetadata["output_version"] == "v1" && c.Blocks != nil {
		c.settleBlocks()
	}
	return nil
}

// splitCalls makes a part of each call.
func (c *Chunk) splitCalls() error {
	c.ToolCallChunks = nil
	for _, call := range c.ToolCalls {
		args := call.Args
		if args == nil {
			args = map[string]any{}
		}
		text, err := dumps(args)
		if err != nil {
			return fmt.Errorf("%w: the arguments of tool call %q: %w", ErrMerge, call.ID, err)
		}
		c.ToolCallChunks = append(c.ToolCallChunks, ToolCallChunk{Name: call.Name, Args: text, ID: call.ID})
	}
	for _, call := range c.InvalidToolCalls {
		c.ToolCallChunks = append(c.ToolCallChunks, ToolCallChunk{Name: call.Name, Args: call.Args, ID: call.ID})
	}
	return nil
}

// settleBlocks puts the calls of a finished message in place of their parts among its blocks,
// for providers that send them there.
func (c *Chunk) settleBlocks() {
	calls := map[string]ToolCall{}
	if len(c.ToolCallChunks) > 0 {
		for _, call := range c.ToolCalls {
			calls[call.ID] = call
		}
	}
	c.Blocks = slices.Clone(c.Blocks)
	for i, e := range c.Blocks {
		block, ok := e.(map[string]any)
		if !ok {
			continue
		}
		id, _ := block["id"].(string)
		call, known := calls[id]
		switch kind := block["type"]; {
		case kind == "tool_call_chunk" && id != "" && known:
			whole := Block{"type": "tool_call", "name": call.Name, "args": call.Args, "id": call.ID}
			if extras, ok := block["extras"]; ok {
				whole["extras"] = extras
			}
			c.Blocks[i] = whole
		case kind == "server_tool_call" || kind == "server_tool_call_chunk":
			if whole, ok := serverToolCall(block); ok {
				c.Blocks[i] = whole
			}
		}
	}
}

// serverToolCall is a block of a call that the provider itself runs, with its arguments read.
func serverToolCall(block Block) (Block, bool) {
	args := block["args"]
	if !truthy(args) {
		args = "{}"
	}
	text, ok := args.(string)
	if !ok {
		return nil, false
	}
	v, err := parseJSON(text, true)
	read, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, false
	}
	out := make(Block, len(block))
	for k, x := range block {
		out[k] = x
	}
	out["type"], out["args"] = "server_tool_call", read
	return out, true
}

// errOpenAI: a tool call has OpenAI's form, with a value that a tool call cannot have.
var errOpenAI = errors.New("a tool call in additional_kwargs has a name, an id or arguments of the wrong type")

// openAIFunction is the name and the arguments of a tool call in OpenAI's form. has is false if
// the call has no function, and ok is false if it has another form.
func openAIFunction(e any) (call map[string]any, name, args any, has, ok bool) {
	if call, ok = e.(map[string]any); !ok {
		return nil, nil, nil, false, false
	}
	f, has := call["function"]
	if !has {
		return call, nil, nil, false, true
	}
	function, _ := f.(map[string]any)
	name, hasName := function["name"]
	args, hasArgs := function["arguments"]
	return call, name, args, true, hasName && hasArgs
}

// openAIChunks reads parts of tool calls in OpenAI's form. It returns none if one has another
// form.
func openAIChunks(raw []any) ([]ToolCallChunk, error) {
	var out []ToolCallChunk
	wrong := false
	for _, e := range raw {
		call, name, args, _, ok := openAIFunction(e)
		if !ok {
			return nil, nil
		}
		var part ToolCallChunk
		n, isInt := intOf(call["index"])
		if isInt {
			i := int(n)
			part.Index = &i
		}
		wrong = wrong || !loadText(&part.Name, name) || !loadText(&part.Args, args) || !loadText(&part.ID, call["id"]) || !isInt && call["index"] != nil
		out = append(out, part)
	}
	if wrong {
		return nil, errOpenAI
	}
	return out, nil
}

// openAICalls reads tool calls in OpenAI's form. It returns none if one has another form.
func openAICalls(raw []any) (calls []ToolCall, invalid []InvalidToolCall, err error) {
	wrong := false
	for _, e := range raw {
		call, name, args, has, ok := openAIFunction(e)
		if ok && !has {
			continue
		}
		text, isText := args.(string)
		if !ok || !isText {
			return nil, nil, nil
		}
		var c ToolCall
		wrong = wrong || !loadText(&c.Name, name) || !loadText(&c.ID, call["id"])
		v, err := parseJSON(text, true)
		if err != nil {
			invalid = append(invalid, InvalidToolCall{Name: c.Name, Args: text, ID: c.ID})
			continue
		}
		c.Args, ok = v.(map[string]any)
		if !truthy(v) {
			c.Args, ok = map[string]any{}, true
		}
		wrong = wrong || !ok
		calls = append(calls, c)
	}
	if wrong {
		return nil, nil, errOpenAI
	}
	return calls, invalid, nil
}

// Whole returns the message that c is so far. ToolCallChunks are left out; the calls that they
// make are in ToolCalls and InvalidToolCalls. The error is ErrNotMessage for a chunk of a removal,
// and ErrMerge as in Add.
func (c Chunk) Whole() (Message, error) {
	if err := c.settle(); err != nil {
		return Message{}, err
	}
	m := c.Message
	m.origin = nil
	if err := m.readKwargs(); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	if c.Type == TypeRemove {
		return m, fmt.Errorf("%w: a chunk of type %q", ErrNotMessage, c.Type)
	}
	return m, nil
}

// Complete returns the message that c makes when no part comes after it. It differs from Whole for a
// tool call whose arguments end too early. Whole reads as much of them as there is. Here the call is an
// invalid one, since a tool must not run on half of what a model meant; LangChain reads an answer that
// came in one piece in this way. A last call without arguments is invalid as well if ResponseMetadata says
// that the model reached its limit of tokens: it may have ended behind the name. LangChain runs it.
func (c Chunk) Complete() (Message, error) {
	if err := c.settle(); err != nil {
		return Message{}, err
	}
	m, err := c.Whole()
	if err != nil || len(c.ToolCallChunks) == 0 || c.Type != TypeAI {
		return m, err
	}
	m.ToolCalls = nil
	for i := range c.ToolCallChunks {
		part := &c.ToolCallChunks[i]
		call := ToolCall{Name: part.Name, Args: map[string]any{}, ID: part.ID}
		if part.Args == "" && i == len(c.ToolCallChunks)-1 && c.cutOff() {
			m.InvalidToolCalls = append(m.InvalidToolCalls, InvalidToolCall{Name: part.Name, ID: part.ID,
				Error: "the arguments are cut off: the model reached its limit of tokens"})
			continue
		}
		if part.Args != "" {
			v, ok := parsePartial(part.Args)
			if _, isObject := v.(map[string]any); !ok || !isObject {
				continue // an invalid call already
			}
			if v, err = parseJSON(part.Args, false); err != nil {
				m.InvalidToolCalls = append(m.InvalidToolCalls, InvalidToolCall{Name: part.Name, Args: part.Args, ID: part.ID,
					Error: "the arguments are cut off: " + err.Error()})
				continue
			}
			call.Args, _ = v.(map[string]any)
		}
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return m, nil
}

// cutOff reports whether the provider says that the model reached its limit of tokens.
func (m *Message) cutOff() bool {
	for key, reasons := range map[string][]any{"finish_reason": {"length"}, "stop_reason": {"max_tokens", "model_context_window_exceeded"}} {
		if slices.Contains(reasons, m.ResponseMetadata[key]) {
			return true
		}
	}
	return false
}

// readKwargs sets the tool calls from AdditionalKwargs, where providers put them once, if there
// are no others.
func (m *Message) readKwargs() (err error) {
	if m.Type != TypeAI || len(m.ToolCalls)+len(m.InvalidToolCalls) > 0 {
		return nil
	}
	if raw, ok := m.AdditionalKwargs["tool_calls"].([]any); ok {
		m.ToolCalls, m.InvalidToolCalls, err = openAICalls(raw)
	}
	return err
}
