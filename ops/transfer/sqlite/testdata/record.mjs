// Records a file of LangGraph's SQLite saver for JavaScript, and what it reads of it:
//
//	node record.mjs FILE >TUPLES
//
// It is run where @langchain/langgraph and @langchain/langgraph-checkpoint-sqlite are
// installed; record.sh says which releases were used.
import { Annotation, Command, END, interrupt, Send, START, StateGraph, messagesStateReducer } from "@langchain/langgraph";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";

const saver = SqliteSaver.fromConnString(process.argv[2]);

const Chat = Annotation.Root({
  messages: Annotation({ reducer: messagesStateReducer, default: () => [] }),
  profile: Annotation(),
});
const chat = new StateGraph(Chat)
  .addNode("answer", (s) => ({ messages: [new AIMessage({ content: `answer ${s.messages.length}`, id: `a${s.messages.length}` })] }))
  .addNode("remember", (s) => (s.profile ? {} : { profile: { name: "Ada", likes: ["tea", 1.5, null, true] } }))
  .addEdge(START, "answer").addEdge("answer", "remember").addEdge("remember", END)
  .compile({ checkpointer: saver });
for (let n = 0; n < 2; n++) {
  await chat.invoke({ messages: [new HumanMessage({ content: `question ${n} é 😀`, id: `h${n}` })] }, { configurable: { thread_id: "chat" }, metadata: { user: "ada" } });
}

const Fan = Annotation.Root({
  items: Annotation(),
  out: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const fan = new StateGraph(Fan)
  .addNode("plan", () => ({ items: [1, 2] }))
  .addNode("work", (s) => ({ out: [s.n * 10] }))
  .addNode("ask", (s) => ({ out: [interrupt({ question: "may I?", so_far: s.out })] }))
  .addEdge(START, "plan")
  .addConditionalEdges("plan", (s) => s.items.map((n) => new Send("work", { n })), ["work"])
  .addEdge("work", "ask").addEdge("ask", END)
  .compile({ checkpointer: saver });
await fan.invoke({}, { configurable: { thread_id: "waiting" } });
await fan.invoke({}, { configurable: { thread_id: "resumed" } });
await fan.invoke(new Command({ resume: "yes" }), { configurable: { thread_id: "resumed" } });

const typed = async (value) => {
  const [kind, data] = await saver.serde.dumpsTyped(value);
  return [kind, Buffer.from(data).toString("hex")];
};
const lines = [];
for await (const tup of saver.list({})) {
  const cp = tup.checkpoint;
  const conf = tup.config.configurable;
  const values = {};
  for (const [name, value] of Object.entries(cp.channel_values)) values[name] = await typed(value);
  const writes = [];
  for (const [task, channel, value] of tup.pendingWrites) writes.push([task, channel, await typed(value)]);
  writes.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  lines.push({
    thread: conf.thread_id, ns: conf.checkpoint_ns, id: conf.checkpoint_id, parent: tup.parentConfig?.configurable.checkpoint_id ?? "",
    v: cp.v, ts: cp.ts, versions: cp.channel_versions, seen: cp.versions_seen, updated: null, metadata: tup.metadata, values, writes,
  });
}
lines.sort((a, b) => (a.thread + "\0" + a.ns + "\0" + a.id < b.thread + "\0" + b.ns + "\0" + b.id ? -1 : 1));
for (const line of lines) console.log(JSON.stringify(line));
saver.db.pragma("wal_checkpoint(TRUNCATE)");
saver.db.pragma("journal_mode=DELETE");
saver.db.exec("VACUUM");
saver.db.close();
