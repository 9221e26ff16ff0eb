// Package genai is a model.Model of Google's Gemini.
//
//	m, err := genai.New(ctx, genai.Options{Model: "gemini-2.5-flash"}) // key in GEMINI_API_KEY
//
// It stands on google.golang.org/genai,
// and is part of the module agent/providers.
//
// # Messages
//
// Messages go out as langchain-google-genai sends them, which the tests compare. What differs:
//
//   - Images and files at a URL are sent as URLs. LangChain fetches them.
//   - A call with broken arguments is sent without arguments, together with its result, so that the
//     model learns of its mistake. LangChain leaves out both.
//   - System messages anywhere are part of the instruction. LangChain drops those that come late.
//   - Results stand in the order of their calls, as Gemini does not see whose they are. LangChain has them in the
//     order of the messages, so that a call gets the result of another.
//   - A result without its call is model.ErrRequest, where model.Call has not left it out. LangChain
//     drops it.
//   - A person's message in which nothing is does not go out. Gemini refuses the one that LangChain sends.
//   - Schemas of tools are sent as JSON Schema. LangChain translates them to an older form.
//
// Answers come as langchain-google-genai stores them: a text or, with thoughts, signatures, code or
// Gemini 3 and later, a list of blocks; tool calls, with their signatures in additional_kwargs;
// usage_metadata with cache_read and reasoning tokens; in response_metadata finish_reason,
// model_name, safety_ratings, grounding_metadata and prompt_feedback. Images are blocks of type
// image_url, and sound of type audio. What has no block of its own comes as one of type
// non_standard, and goes back as it came. Without Gemini 3, a text behind thoughts is a text among the
// blocks. The function_call of additional_kwargs, an older form of
// the first tool call, is left out.
//
// # Errors
//
// A call that fails is a *model.ProviderError. It is tried again as model.Retry says; the library
// itself does not. When to try again is in the header Retry-After, or in the RetryInfo of the error.
// An answer without a finish_reason broke off, unless the prompt was blocked: then the answer is
// empty, and prompt_feedback says why.
package genai
