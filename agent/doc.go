// Package agent makes agents: graphs in which a model calls tools until it has an answer. It is
// LangChain's create_agent.
//
//	g, err := agent.New(m, agent.Options{
//		System: "You are a travel agent.",
//		Tools:  []tool.Tool{weather, mail},
//		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"mail": {}}})},
//		Graph:  graph.Options{Saver: s},
//	})
//	res, err := g.Invoke(ctx, pregel.Thread("ada"), agent.Say("Will I need a coat in Oslo?"))
//
// What New makes is a *pregel.Graph like any other: it streams, stops for questions, resumes after
// a crash, and can be a graph inside another.
//
// # The graph
//
// Node "model" asks the model. Each tool call of its answer is a task of its own of node "tools",
// so that a call that has ended does not run again when another asks a person or the process dies.
// Then the model is asked again. The agent ends when the model calls no tool, when all tools that
// it called are ReturnDirect and succeeded, or when it gave its structured answer. The state has the keys
// "messages" and "structured_response", the keys of Options.State, and those of middleware.
//
// # Structured answers
//
// With Options.Response the agent ends with an answer in a form, under the key
// "structured_response". A model that has a way of its own to keep to a form is asked for that;
// any other gets one more tool for each form, and must call a tool. See Response.
//
// # Conversations
//
// Providers refuse a conversation in which a tool call is not answered exactly once, right behind it.
// Whatever led to one, the model is asked with a legal one: see message.Rules. A call that was not run,
// because a tool failed, the run was cancelled, or new input came in place of an answer, is answered
// before that input with a message that says so. The thread is stored so by one update of node
// "model", together with the answer, whose ResponseMetadata tell under "stele_repaired" what was done. If the
// model fails, the thread stays as it was, and the next run repairs it in the same way.
//
// # Middleware
//
// A Middleware is a set of functions around the parts of an agent, all optional. BeforeAgent,
// BeforeModel, AfterModel and AfterAgent are nodes: they get the state and return an update.
// WrapModel and WrapTool are called in place of a call of the model or of a tool, and run it. Of
// several, the first is the outermost: its Before functions run first and its After functions
// last. A node's update may have the key "jump_to", a Jump, which says where the agent goes on.
//
// # Gates
//
// AskPerson and LimitToolCalls hold where tools run, behind all middleware, whatever led there: a jump,
// an edit of the state or of a message, a Command, a middleware that calls another tool, a person who
// edits a call when it starts. What a person decided and a limit counted behind the model is noted in
// the state, for each middleware by itself; a call without a note is asked about, unless Gate.When lets
// it pass as it is then, or counted, when it starts. A note is spent when the call has run. A policy of the
// program's own holds in a WrapTool, through which all calls go, and in an AfterModel for what hooks see: a
// jump passes over no hook that is due. A call that has its answer does not run, and one that two tasks run
// at once runs in the first of them.
//
// # What is stored
//
// Nodes, keys and texts have LangChain's names, so that a thread of an agent in Python goes on in
// Go. Checkpoints and pending writes are compared with those of LangChain 1.5 in the tests.
//
// # What differs from LangChain
//
//   - Why a structured answer does not fit is said by its schema, not by pydantic.
//   - A hook that jumps where its Middleware.Jumps does not allow is an error. LangChain ignores
//     the jump. Jumps are allowed to all hooks of a middleware; in LangChain each hook has its own.
//   - A jump takes effect behind the hooks that are due: all AfterModel hooks, and before the model all
//     BeforeAgent hooks. LangChain passes over them, with what they ask, count and refuse.
//   - A jump to the tools runs the calls that wait, each as a task, behind the AfterModel hooks. In
//     LangChain all calls of the message run, also those that a person has rejected.
//   - A hook that goes to the model or the tools by a Command is an error; a Jump is the way.
//   - AskPerson and LimitToolCalls hold where tools run, and note in the key "gates_passed" which calls
//     they let pass. In LangChain they are nodes that one can go around. A call that was approved in
//     Python, and has not run, is asked about again, and one that was counted there counts again.
//   - LimitModelCalls holds and counts where the model is asked, inside all middleware: RetryModel, Fallback and
//     any WrapModel that asks again make several calls. LangChain counts them as one.
//     The limit holds for a Send to the model, too, whatever state it brings.
//   - An answer without words, calls or a reason to end is model.ErrNoAnswer. In LangChain it ends the agent.
//   - A run that ends before the model is asked has no structured answer, unless a hook gives one. LangChain's
//     has that of the run before.
//   - What a provider or a tool answers under the id of a message of the conversation gets another id. In
//     LangChain it takes the place of that message.
//   - A call that has an answer gets no other from LimitToolCalls.
//   - Answers in a form, and the arguments of an edit of one call, are checked against a schema that is
//     JSON, too.
//   - A request of the model is a value: what a middleware puts into its list of messages goes to the
//     model. In LangChain it gets into the state.
//   - An agent with tools is always drawn with a way from the model back to it: the model is asked
//     again if somebody has answered its calls, also by a change of the state.
//   - A key that Options.State has twice is refused. In LangChain the last one counts.
//   - A key of a middleware is neither input nor result, unless Options.State has it too. In
//     LangChain it is, unless it is private.
//   - A text of an AI message's block that is not of type "text" is no part of a structured answer.
//   - Defaults of a form's schema are not filled in.
//   - A conversation that providers refuse is repaired before the model is asked, and stored so. Of
//     these LangChain mends invalid calls that have an id. A call without an id, or with that of an
//     earlier one, gets another. A call or an answer that is only a block in Anthropic's form becomes
//     one that each provider sees.
//   - A call that has an answer is put to no person, and gets no second answer of a limit. It counts.
//   - Options.System is a text. A message with blocks or metadata is made in a WrapModel.
//   - AskPerson, LimitToolCalls and RetryTools refuse names of tools that the agent does not have,
//     unless a middleware of the program's own wraps tools: it may run others. LangChain ignores
//     them, and the calls that were to be asked about are not.
//   - An answer that does not decide the calls of a question is refused, and the question waits for
//     another. In LangChain the thread is given that answer in every later run, and never goes on.
//   - An answer that a question refuses is never tried again by RetryTools: the question waits.
//   - A call that a person edits into one of a tool that is not there is answered like any call of
//     such a tool. LangChain fails the run.
//   - The "ls_integration" of an event of a model's words is that of the agent. LangChain's is
//     that of its chat models.
//   - The descriptions in the schema of a question about one call are those of the tool alone.
//   - Summaries without a trigger are refused. Their prompt is stele's own, and tells texts and calls,
//     no images. One that is too long for the model fails the run; LangChain tries once more without
//     its middle. A token is four characters with models of Anthropic too.
//   - A summary is made of the end of the conversation, also where no human message lies in it, and of
//     the summary before it. LangChain forgets what lies before the first human message in that end,
//     or all. A summary that is empty, cut off, withheld or a call is an error.
//   - What an agent takes out of the conversation it shares with a team, such as messages that it
//     summarized, is taken out of the team's too: its update begins with removals. In LangChain the
//     team's stays as long as it is, and a summary is made each turn.
//   - A message whose calls cannot be read is no answer: the model is asked again. LangChain ends.
//   - A call that has no arguments since the model reached its limit of tokens does not run.
//   - The model of an agent without tools that calls one fails the run, as does a WrapModel that
//     returns no AI message. LangChain ends.
//   - A tool that is ReturnDirect ends the agent when it succeeded. In LangChain it does with an error
//     for the model, too, and with a person's no to a question about one call.
//   - RetryModel does not put a text in the place of an answer in a form.
//   - Fallback gives the request to the other model as it is. LangChain takes cache settings of
//     another provider out of it.
//   - Auto gives several forms to the model as tools, also if it could keep to one by itself.
package agent
