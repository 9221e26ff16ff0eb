// Package mcp makes tools of those of an MCP server, the Model Context Protocol.
//
//	server, err := mcp.Connect(ctx, mcp.Command("weather-server", "-city", "Oslo"), mcp.Options{})
//	server, err := mcp.Connect(ctx, mcp.HTTP("https://example.com/mcp"), mcp.Options{Prefix: "web_"})
//
//	tools, err := server.Tools(ctx)
//	g, err := agent.New(m, agent.Options{Tools: tools})
//
// It stands on github.com/modelcontextprotocol/go-sdk,
// and is part of the module agent/providers.
//
// # Names
//
// A tool has the name that the server gives it, behind Options.Prefix. What a provider of models
// does not take in a name becomes "_", and a name that is too long ends with a hash. Two tools of
// one server with one name are tool.ErrDefinition; so are two of an agent, for which there are
// prefixes.
//
// # Answers
//
// A single text is the content of the answer, and anything else a list of blocks as
// langchain-mcp-adapters makes them, without their random ids: texts, images, and files, which
// sounds are, too. Structured content is the artifact, under "structured_content", and the content
// if there is no other.
//
// A tool that reports an error answers with message.StatusError, so that the model sees it. An
// unknown tool, and arguments that the server does not take, are a *tool.InvocationError. Any other
// error is a *CallError.
//
// # Servers that die
//
// A call during which the connection is lost is a *CallError with Lost: whether it took effect is
// not known, so it is not made again by itself. The next call connects anew. With Options.KeyMeta
// each call carries the key of pregel.IdempotencyKey, by which a server can tell a call that it has
// seen.
//
// When ctx ends, the server is told, and the error is that of ctx.
package mcp
