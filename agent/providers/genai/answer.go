package genai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"google.golang.org/genai"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
)

// signatures is the key of additional_kwargs that has the signatures of tool calls, by their ids. It
// is LangChain's.
const signatures = "__gemini_function_call_thought_signatures__"

// answer is the part of an answer that was read so far.
type answer struct {
	model    string
	asBlocks bool   // all text is in blocks
	index    int    // that of the next block
	open     string // the type of the block that goes on, if the next is of the same type
	ended    bool
	metadata map[string]any
	usage    *genai.GenerateContentResponseUsageMetadata
}

// read makes a chunk of a part of the answer; said is false if it says nothing.
func (a *answer) read(res *genai.GenerateContentResponse) (c message.Chunk, said bool, err error) {
	c = message.Chunk{Message: message.AI("")}
	if a.metadata == nil {
		a.asBlocks = isGemini3(cmp.Or(res.ModelVersion, a.model))
		a.metadata = map[string]any{"model_provider": provider, "safety_ratings": []any{}}
	}
	if a.asBlocks {
		c.Blocks = []any{}
	}
	if res.UsageMetadata != nil {
		a.usage = res.UsageMetadata // it counts from the beginning
	}
	if res.ModelVersion != "" {
		a.metadata["model_name"] = res.ModelVersion
	}
	if res.ResponseID != "" {
		a.metadata["id"] = res.ResponseID
	}
	if f := res.PromptFeedback; f != nil {
		a.ended = a.ended || f.BlockReason != ""
		if err := a.note("prompt_feedback", f); err != nil {
			return c, false, err
		}
	}
	if len(res.Candidates) == 0 {
		return c, false, nil
	}
	candidate := res.Candidates[0]
	if candidate.FinishReason != "" {
		a.ended = true
		a.metadata["finish_reason"] = string(candidate.FinishReason)
	}
	if candidate.FinishMessage != "" {
		a.metadata["finish_message"] = candidate.FinishMessage
	}
	if candidate.SafetyRatings != nil {
		err = a.note("safety_ratings", candidate.SafetyRatings)
	}
	if candidate.GroundingMetadata != nil && err == nil {
		err = a.note("grounding_metadata", candidate.GroundingMetadata)
	}
	if candidate.Content == nil || err != nil {
		return c, false, err
	}
	for _, p := range candidate.Content.Parts {
		if p == nil {
			continue
		}
		if err := a.part(&c, p); err != nil {
			return c, false, err
		}
	}
	return c, c.Content != "" || len(c.Blocks) > 0 || c.ToolCallChunks != nil, nil
}

// note puts a part of the library's answer into the metadata, in the form of JSON.
func (a *answer) note(key string, v any) (err error) {
	a.metadata[key], err = plain(v)
	return err
}

// plain returns v in the form of JSON, with integers.
func plain(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: text})
}

// part adds a part of the answer to a chunk.
func (a *answer) part(c *message.Chunk, p *genai.Part) error {
	signature := base64.StdEncoding.EncodeToString(p.ThoughtSignature)
	block := func(b message.Block) {
		if c.Content != "" {
			c.Blocks, c.Content = []any{c.Content}, ""
		}
		kind := b["type"].(string) //nolint:errcheck // made below
		if kind != a.open || kind != "text" && kind != "thinking" {
			a.open = kind
			a.index++
		}
		b["index"] = int64(a.index - 1)
		c.Blocks = append(c.Blocks, b)
	}
	signed := func(b message.Block) message.Block {
		if signature != "" {
			b["extras"] = map[string]any{"signature": signature}
		}
		return b
	}
	switch {
	case p.Thought && (p.Text != "" || signature != ""):
		b := message.Block{"type": "thinking", "thinking": p.Text}
		if signature != "" {
			b["signature"] = signature
		}
		block(b)
	case p.FunctionCall != nil:
		return a.call(c, p.FunctionCall, signature)
	case p.ExecutableCode != nil:
		block(message.Block{"type": "executable_code", "executable_code": p.ExecutableCode.Code, "language": string(p.ExecutableCode.Language),
			"id": channel.NewMessageID()})
	case p.CodeExecutionResult != nil:
		outcome := int64(2)
		if p.CodeExecutionResult.Outcome == genai.OutcomeOK || p.CodeExecutionResult.Outcome == "" {
			outcome = 1
		}
		block(message.Block{"type": "code_execution_result", "code_execution_result": p.CodeExecutionResult.Output, "outcome": outcome, "tool_call_id": ""})
	case p.InlineData != nil && strings.HasPrefix(p.InlineData.MIMEType, "image/"):
		block(signed(message.ImageURL("data:" + p.InlineData.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(p.InlineData.Data))))
	case p.InlineData != nil && strings.HasPrefix(p.InlineData.MIMEType, "audio/"):
		block(signed(message.Block{"type": "audio", "base64": base64.StdEncoding.EncodeToString(p.InlineData.Data), "mime_type": p.InlineData.MIMEType}))
	case p.Text != "" && signature == "" && !a.asBlocks && c.Blocks == nil:
		c.Content += p.Text
		a.open = ""
	case p.Text != "" || signature != "":
		block(signed(message.TextBlock(p.Text)))
	default:
		v, err := plain(p)
		if err != nil {
			return err
		}
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			block(message.Block{"type": "non_standard", "value": m})
		}
	}
	return nil
}

// call adds a call of a function, which Gemini sends whole.
func (a *answer) call(c *message.Chunk, f *genai.FunctionCall, signature string) error {
	call := message.ToolCall{Name: f.Name, Args: f.Args, ID: f.ID}
	if call.ID == "" {
		call.ID = channel.NewMessageID()
	}
	args, err := call.ArgsJSON()
	if err != nil {
		return err
	}
	index := a.index
	a.index++
	a.open = ""
	c.ToolCallChunks = append(c.ToolCallChunks, message.ToolCallChunk{Name: f.Name, Args: args, ID: call.ID, Index: &index})
	if signature != "" {
		if c.AdditionalKwargs == nil {
			c.AdditionalKwargs = map[string]any{signatures: map[string]any{}}
		}
		c.AdditionalKwargs[signatures].(map[string]any)[call.ID] = signature //nolint:errcheck // made above
	}
	return nil
}

// last returns the chunk with the metadata of the answer.
func (a *answer) last() message.Chunk {
	c := message.Chunk{Message: message.AI(""), Last: true}
	c.ResponseMetadata = a.metadata
	if a.asBlocks {
		c.Blocks = []any{}
	}
	u := a.usage
	if u == nil || u.PromptTokenCount+u.CandidatesTokenCount+u.ThoughtsTokenCount+u.TotalTokenCount+u.ToolUsePromptTokenCount == 0 {
		return c
	}
	c.Usage = &message.Usage{
		InputTokens:  int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount),
		OutputTokens: int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
		TotalTokens:  int64(u.TotalTokenCount),
		InputDetails: map[string]int64{"cache_read": int64(u.CachedContentTokenCount)},
	}
	if u.ThoughtsTokenCount > 0 {
		c.Usage.OutputDetails = map[string]int64{"reasoning": int64(u.ThoughtsTokenCount)}
	}
	return c
}
