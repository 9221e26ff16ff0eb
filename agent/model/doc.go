// Package model says what a chat model is to an agent: a function from messages and tools to a
// stream of chunks.
//
// A Model has one method. Call runs it inside a node: it shows each chunk to whoever streams in
// mode messages, and returns the message that the chunks make. Collect does the same in silence.
//
//	answer, err := model.Call(ctx, m, model.Request{Messages: state.Messages})
//
// Models of providers are in the module agent/providers: openai, anthropic, genai. What they do
// alike is here: a *ProviderError says what a provider refused or broke off, and Retry makes
// a call again.
//
// Scripted is a model for tests and examples, which needs no provider:
//
//	m := model.NewScripted(
//		model.Calls(message.ToolCall{Name: "weather", ID: "1", Args: map[string]any{"city": "Oslo"}}),
//		model.Text("It rains in Oslo."))
package model
