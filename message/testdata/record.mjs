// Records what LangChain's JavaScript stores for messages, for the tests of package message.
//
//     npm install @langchain/core@1.4.0 @langchain/langgraph-checkpoint@1.2.2
//     node record.mjs
//
// It writes js.json: the texts that the checkpoint serializer makes, and what each message is.
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as M from "@langchain/core/messages";
import { JsonPlusSerializer } from "@langchain/langgraph-checkpoint";

const serde = new JsonPlusSerializer();
const stored = async (v) => {
  const [kind, data] = await serde.dumpsTyped(v);
  if (kind !== "json") throw new Error(kind);
  return new TextDecoder().decode(data);
};
const call = { name: "f", args: { z: 1, a: [1.5, null, { b: "x" }] }, id: "c1", type: "tool_call" };
const usage = { output_tokens: 2, input_tokens: 1, total_tokens: 3 };
const messages = [
  new M.HumanMessage("hi"),
  new M.HumanMessage({ content: "hé\u2028\u4e16\u{1f600}\u0007\n\"\\/<>&", id: "1", name: "bob", foo: { z: 1, a: 2 } }),
  new M.HumanMessage({ id: "1", content: [{ type: "text", text: "a" }, { type: "image_url", image_url: { url: "data:x" } }] }),
  new M.HumanMessage({ content: "x", additional_kwargs: { z: 1, a: { y: 1.0, b: 1e21 } }, response_metadata: { q: 1e-7, n: -0 } }),
  new M.SystemMessage("be nice"),
  new M.AIMessage("hello"),
  new M.AIMessage({ content: "", tool_calls: [call] }),
  new M.AIMessage({ content: "", tool_calls: [call, { name: "g", args: {} }], invalid_tool_calls: [{ name: "f", args: "{", id: "c2", error: "bad" }], usage_metadata: usage, id: "a" }),
  new M.AIMessage({ content: "x", usage_metadata: { ...usage, input_token_details: { cache_read: 1 } }, response_metadata: { finish_reason: "stop" } }),
  new M.AIMessage({ content: "", additional_kwargs: { tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: '{"b":1}' } }] } }),
  new M.AIMessage({ content: "x", tool_calls: undefined, name: undefined, id: null }),
  new M.ToolMessage({ content: "42", tool_call_id: "c1", name: "f", artifact: { z: 1, a: 2 }, status: "error" }),
  new M.ToolMessage("42", "c1", "f"),
  new M.ToolMessage({ content: [{ type: "text", text: "a" }], tool_call_id: "", metadata: { a: 1 } }),
  new M.FunctionMessage({ content: "42", name: "f" }),
  new M.ChatMessage("42", "boss"),
  new M.RemoveMessage({ id: "x" }),
  new M.RemoveMessage({ id: "__remove_all__" }),
];
const chunks = [
  new M.AIMessageChunk({ content: "hi", tool_call_chunks: [{ name: "f", args: '{"a":1', id: "c1", index: 0, type: "tool_call_chunk" }] }),
  new M.HumanMessageChunk("hi"),
  new M.ToolMessageChunk({ content: "42", tool_call_id: "c1" }),
];
const what = (m) => ({
  type: m.getType() === "generic" ? "chat" : m.getType(), text: m.text, id: m.id ?? "", name: m.name ?? "", tools: (m.tool_calls ?? []).map((c) => c.name), usage: m.usage_metadata?.total_tokens ?? 0,
});
const out = { messages: [], chunks: [] };
for (const m of messages) out.messages.push({ text: await stored(m), what: what(m) });
for (const m of chunks) out.chunks.push({ text: await stored(m), what: what(m) });
out.list = await stored(messages);
const here = dirname(fileURLToPath(import.meta.url));
writeFileSync(join(here, "js.json"), JSON.stringify(out) + "\n");
