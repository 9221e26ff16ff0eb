// Package openai is a model.Model of OpenAI's chat completions, and of every server that speaks
// them: Ollama, vLLM, llama.cpp and others, by Options.BaseURL.
//
//	m, err := openai.New(openai.Options{Model: "gpt-5"})                       // key in OPENAI_API_KEY
//	m, err := openai.New(openai.Options{Model: "qwen3", BaseURL: "http://localhost:11434/v1"})
//
// It stands on github.com/openai/openai-go,
// and is part of the module agent/providers.
//
// # Messages
//
// Messages go out as langchain-openai sends them, which the tests compare. Of the messages of
// another provider, reasoning and calls of its own tools are left out, and of a text only the
// text goes out. An answer has texts and refusals alone: LangChain sends what else is in it, such as images and
// results of a provider's tools, which OpenAI refuses. In names of who speaks, and of calls that a model made up,
// an underscore stands for what OpenAI refuses there, and LangChain sends. If nothing is left, the content is an
// empty text; LangChain sends a list of no parts, which OpenAI refuses. The result of a tool has texts alone, and
// what else it has, such as an image, follows the results in a message of the user; an id of a call that is longer
// than 40 characters is replaced by a hash of it. LangChain sends both as they are, and OpenAI refuses them.
// A file at a URL is model.ErrRequest, since chat completions have no form for it.
//
// Answers come as langchain-openai stores them: the text, tool calls, usage_metadata with
// cache_read, reasoning and audio tokens, and in response_metadata finish_reason, model_name,
// system_fingerprint and service_tier. A refusal is in additional_kwargs, under "refusal", and the
// reasoning of servers that stream it under "reasoning_content". A call whose arguments cannot be read
// is an invalid one; LangChain, of a stream, makes a call without arguments of it.
//
// # Errors
//
// A call that fails is a *model.ProviderError. It is tried again as model.Retry says; the library
// itself does not. An answer without a finish_reason broke off.
package openai
