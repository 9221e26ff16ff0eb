// Package anthropic is a model.Model of Anthropic's messages.
//
//	m, err := anthropic.New(anthropic.Options{Model: "claude-sonnet-4-5"}) // key in ANTHROPIC_API_KEY
//
// It stands on github.com/anthropics/anthropic-sdk-go,
// and is part of the module agent/providers.
//
// # Messages
//
// Messages go out as langchain-anthropic sends them, which the tests compare: results of tools are
// part of the person's turn, turns of one side are joined, and ids of calls that Anthropic refuses
// are replaced by hashes of them. Of an answer of another provider only texts and calls of the
// program's tools go out; LangChain sends thoughts and what else there is, which Anthropic refuses. In the name of
// a call that a model made up, an underscore stands for what Anthropic refuses there, and LangChain sends. Nor does
// what Anthropic refuses for ever go out, and LangChain sends: a person's message in which nothing is, thoughts at
// the end of an answer, and calls of Anthropic's own tools without a result, if a person has gone on since. All
// system messages are the system prompt, in their order, also those that come later: LangChain takes one such, and
// fails with a second.
//
// Answers come as langchain-anthropic stores them: a text if the request has neither tools, nor
// thinking, nor documents, and else a list of blocks, which also has thoughts with their
// signatures, citations, and what tools of Anthropic's own did. usage_metadata has cache_read,
// cache_creation and reasoning tokens, and response_metadata stop_reason, stop_sequence and
// model_name.
//
// # Errors
//
// A call that fails is a *model.ProviderError. It is tried again as model.Retry says; the library
// itself does not. An answer without a stop_reason broke off.
package anthropic
