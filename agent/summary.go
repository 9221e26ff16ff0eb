package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
)

// Summary is the options of Summarize.
type Summary struct {
	// Model writes the summaries.
	Model model.Model
	// Triggers say when: if one of them is met.
	Triggers []Trigger
	// Keep is how much of the end of the conversation stays as it is: a number of Messages, or
	// as many as have so many Tokens, or such a Fraction of the window. The zero value is 20
	// messages. A tool call and its answer are not taken apart.
	Keep Trigger
	// Window is how many tokens the agent's model reads, for a Fraction. 0 is the MaxInputTokens
	// of Model's profile.
	Window int
	// Count counts tokens; nil is message.CountApproximately. To that up to a quarter is added if
	// the newest message that tells its usage had more.
	Count func([]message.Message) int
	// Prompt is what the model is told. {messages} in it stands for the conversation. Empty is a
	// prompt that asks for what matters, in sections.
	Prompt string
	// MaxTokens bounds what the model is given to summarize: the end of it, and half of it at most
	// for the summary before. 0 is 4000, and a negative number no bound.
	MaxTokens int
	// Retry says how a failed call of the model, or an empty summary, is tried again. The last error
	// ends the run.
	Retry Retry

	count func([]message.Message) int // of a part of the conversation
}

// Trigger is a size of a conversation. All of its fields that are not 0 must be reached. Tokens,
// and a Fraction of the window, are also reached if the newest message of a model says that it
// used so many, and is of the provider of Summary.Model, as model.Profile tells it.
type Trigger struct {
	Messages, Tokens int
	Fraction         float64 // above 0, and at most 1
}

const summaryPrompt = `Write a summary of the conversation below. It will take the place of the conversation, which nobody will see again, so keep what is needed to go on. Answer with the summary alone, in four sections. Write "None" in a section that is empty.

## Goal
What the person wants.

## What happened
What was found, decided and done, with the reasons; what was tried and did not work.

## Things
Files, orders, addresses and other things that were made, changed or looked up, with their names.

## Next
What is still to be done.

<messages>
{messages}
</messages>`

// Summarize is a Middleware that puts a summary in the place of the beginning of a long
// conversation: LangChain's SummarizationMiddleware. It looks before each call of the model. The
// messages that were summarized are removed from the state; earlier checkpoints have them. The
// summary is a message from a human, whose AdditionalKwargs have "lc_source": "summarization".
// Its tokens are not shown in mode messages.
func Summarize(o Summary) Middleware {
	m := Middleware{Name: "SummarizationMiddleware", maker: "Summarize", err: o.Retry.check()}
	if o.Keep == (Trigger{}) {
		o.Keep.Messages = 20
	}
	o.count = o.Count
	if o.Count == nil {
		o.Count, o.count = scaled, message.CountApproximately
	}
	if o.Prompt == "" {
		o.Prompt = summaryPrompt
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = 4000
	}
	o.Retry.Stop = true
	if o.Model != nil && o.Window == 0 {
		o.Window = model.ProfileOf(o.Model).MaxInputTokens
	}
	bad := func(t Trigger) bool {
		return t.Messages < 0 || t.Tokens < 0 || !(t.Fraction >= 0 && t.Fraction <= 1) || t == (Trigger{})
	}
	blind := func(t Trigger) bool { return t.Fraction > 0 && o.Window <= 0 }
	kept := o.Keep
	switch {
	case o.Model == nil:
		m.err = fmt.Errorf("%w: summaries without a model", ErrOptions)
	case bad(kept) || slices.ContainsFunc(o.Triggers, bad),
		kept != (Trigger{Messages: kept.Messages}) && kept != (Trigger{Tokens: kept.Tokens}) && kept != (Trigger{Fraction: kept.Fraction}):
		m.err = fmt.Errorf("%w: summaries: a size that is none", ErrOptions)
	case blind(kept) || slices.ContainsFunc(o.Triggers, blind):
		m.err = fmt.Errorf("%w: summaries: a fraction of a window that is not known", ErrOptions)
	case o.MaxTokens > 0 && o.end("word", o.MaxTokens-o.Count([]message.Message{message.Human("")})) == "":
		m.err = fmt.Errorf("%w: summaries of %d tokens, in which no word has room", ErrOptions, o.MaxTokens)
	case len(o.Triggers) == 0:
		m.err = fmt.Errorf("%w: summaries without a trigger", ErrOptions)
	}
	m.BeforeModel = func(ctx context.Context, state map[string]any) (any, error) {
		list, err := Messages(state)
		if err != nil || !o.due(list) {
			return nil, err
		}
		list, _ = message.Repair(list, message.Rules{Open: true}) // an answer behind other messages stays with its call
		cut := o.cut(list)
		if cut <= 0 {
			return nil, nil
		}
		text, err := o.write(ctx, list[:cut])
		if err != nil {
			return nil, fmt.Errorf("summary: %w", err)
		}
		summary := message.Human("Here is a summary of the conversation to date:\n\n"+text).Notice("summarization", nil)
		return map[string]any{KeyMessages: slices.Concat([]message.Message{message.Remove(message.RemoveAllID), summary}, list[cut:])}, nil
	}
	return m
}

// due reports whether a conversation is long enough.
func (o *Summary) due(list []message.Message) bool {
	return slices.ContainsFunc(o.Triggers, func(t Trigger) bool {
		return len(list) >= t.Messages && (t.Tokens == 0 || o.full(list, t.Tokens)) && (t.Fraction == 0 || o.full(list, o.part(t.Fraction)))
	})
}

// part is a fraction of the window, in tokens.
func (o *Summary) part(fraction float64) int { return max(int(float64(o.Window)*fraction), 1) }

// full reports whether a conversation reaches the trigger, by the counter or by the provider's usage.
func (o *Summary) full(list []message.Message, tokens int) bool {
	if o.Count(list) >= tokens {
		return true
	}
	for i := len(list) - 1; i >= 0; i-- {
		if m := list[i]; m.Type == message.TypeAI {
			provider := providerOf(m)
			return m.Usage != nil && m.Usage.TotalTokens >= int64(tokens) && provider != "" && provider == model.ProfileOf(o.Model).Provider
		}
	}
	return false
}

// providerOf is who gave an answer; empty if it does not say, or not by a name.
func providerOf(m message.Message) string {
	name, _ := m.ResponseMetadata["model_provider"].(string)
	return name
}

// scaled returns message.CountApproximately, raised by up to a quarter if the newest message with a
// usage shows that there were more tokens up to it. The usage is used only if all messages of models
// are of one provider.
func scaled(list []message.Message) int {
	total, last, provider := message.CountApproximately(list), -1, ""
	for i, m := range list {
		if m.Type != message.TypeAI {
			continue
		}
		if p := providerOf(m); provider == "" {
			provider = p
		} else if p != provider {
			return total
		}
		if m.Usage != nil {
			last = i
		}
	}
	if provider == "" || last < 0 || len(list) < 2 {
		return total
	}
	factor := float64(list[last].Usage.TotalTokens) / float64(message.CountApproximately(list[:last+1]))
	return int(math.Ceil(float64(total) * min(1.25, max(1, factor))))
}

// cut returns where the part that is kept begins.
func (o *Summary) cut(list []message.Message) int {
	if o.Keep.Messages > 0 {
		if len(list) <= o.Keep.Messages {
			return 0
		}
		return whole(list, len(list)-o.Keep.Messages)
	}
	keep := o.Keep.Tokens
	if o.Keep.Fraction > 0 {
		keep = o.part(o.Keep.Fraction)
	}
	if o.Count(list) <= keep {
		return 0
	}
	at := 0
	for at < len(list)-1 && o.count(list[at:]) > keep {
		at++
	}
	return whole(list, at)
}

// whole moves a cut before the AI message whose calls the messages at the cut answer. If there is
// none, it moves behind the answers.
func whole(list []message.Message, cut int) int {
	answered := map[string]bool{}
	end := cut
	for ; end < len(list) && list[end].Type == message.TypeTool; end++ {
		answered[list[end].ToolCallID] = true
	}
	if end == cut {
		return cut
	}
	for i := cut - 1; i >= 0; i-- {
		if list[i].Type == message.TypeAI && slices.ContainsFunc(list[i].ToolCalls, func(c message.ToolCall) bool { return c.ID != "" && answered[c.ID] }) {
			return i
		}
	}
	return end
}

// write asks the model for a summary. One that is empty, cut off, or something else is an error: it would replace the
// conversation.
func (o *Summary) write(ctx context.Context, list []message.Message) (string, error) {
	first := 0 // these are always included: system messages, and the earlier summary
	for first < len(list) && (list[first].Type == message.TypeSystem || isSummary(list[first])) {
		first++
	}
	head, err := tell(list[:first])
	if err != nil {
		return "", err
	}
	told, err := tell(list[first:])
	if err != nil {
		return "", err
	}
	if o.MaxTokens > 0 {
		head = o.end(head, o.MaxTokens/2)
		told = o.end(told, o.MaxTokens-o.Count([]message.Message{message.Human(head)}))
	}
	prompt := strings.ReplaceAll(o.Prompt, "{messages}", strings.TrimSuffix(head+told, "\n"))
	var text string
	_, err = o.Retry.try(ctx, func() error {
		answer, err := model.Collect(ctx, o.Model, model.Request{Messages: []message.Message{message.Human(prompt)}})
		text = strings.TrimSpace(answer.Text())
		switch reason := unfinished(&answer); {
		case err != nil:
		case text == "":
			err = fmt.Errorf("%w: the summary is empty", model.ErrNoAnswer)
		case len(answer.ToolCalls)+len(answer.InvalidToolCalls) > 0:
			err = fmt.Errorf("%w: the summary has calls of tools", model.ErrNoAnswer)
		case reason != "":
			err = fmt.Errorf("%w: the summary is not whole: its reason to end is %q", model.ErrNoAnswer, reason)
		}
		return err
	})
	return text, err
}

// unfinished is why a provider says that an answer is not what the model had to say; "" if it does not.
func unfinished(m *message.Message) string {
	for _, key := range []string{"finish_reason", "stop_reason", "done_reason", "status"} {
		switch reason, _ := m.ResponseMetadata[key].(string); strings.ToLower(reason) {
		case "length", "max_tokens", "model_context_window_exceeded", "content_filter", "refusal", "safety", "recitation", "blocklist",
			"prohibited_content", "spii", "pause_turn", "incomplete", "failed", "cancelled":
			return reason
		}
	}
	if m.AdditionalKwargs["refusal"] != nil {
		return "refusal"
	}
	return ""
}

// isSummary reports whether Summarize made a message.
func isSummary(m message.Message) bool {
	return m.Type == message.TypeHuman && m.AdditionalKwargs["lc_source"] == "summarization"
}

// tell returns a conversation as a text.
func tell(list []message.Message) (string, error) {
	var told strings.Builder
	for _, m := range list {
		fmt.Fprintf(&told, "%s: %s\n", m.Type, m.Text())
		for _, c := range m.ToolCalls {
			args, err := json.Marshal(c.Args)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&told, "%s calls %s %s\n", m.Type, c.Name, args)
		}
	}
	return told.String(), nil
}

// end returns the longest end of a text that has at most `tokens` tokens.
func (o *Summary) end(text string, tokens int) string {
	from := sort.Search(len(text), func(i int) bool { return o.Count([]message.Message{message.Human(text[i:])}) <= tokens })
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[from:]
}
