// What a node is called for people. A name that a programmer chose stays; those that LangGraph and
// LangChain make are put in words.

import { info } from "./session";
import { visible, word } from "./text";

// internal is a channel that LangGraph, LangChain or the engine keeps for itself.
export const internal = (name: string) => name.startsWith("__") || name.startsWith("branch:") || name.startsWith("join:") || name === "jump_to" || name === "remaining_steps";

// internalLast orders channels: what a program stores comes before what is internal.
export const internalLast = (a: string, b: string) => Number(internal(a)) - Number(internal(b));

const known: Record<string, string> = { __start__: "start", __end__: "end", model: "model", model_request: "model", call_model: "model", agent: "model", tools: "tools" };
// Who writes for stele makes LangChain's middleware by functions of other names.
const made: Record<string, string> = { HumanInTheLoopMiddleware: "AskPerson", SummarizationMiddleware: "Summarize", ModelCallLimitMiddleware: "LimitModelCalls", ToolCallLimitMiddleware: "LimitToolCalls" };
const hook = /^(\w+)\.(before|after)_(agent|model)$/;

export function nodeName(id: unknown): string {
  // A node of a graph inside has the path to it before its name.
  const parts = word(id).split(":");
  return parts.map(one).join(" › ");
}

// saidOf is who speaks where a node writes messages of a model.
export const saidOf = (node: string) => (Object.hasOwn(known, node) ? "Model" : nodeName(node));

function one(name: string): string {
  if (Object.hasOwn(known, name)) return known[name]!;
  const at = hook.exec(name);
  if (!at) return visible(name);
  const maker = info.value?.stele && Object.hasOwn(made, at[1]!) ? made[at[1]!]! : at[1]!.replace(/(?<=.)Middleware$/, "");
  const words = maker.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return visible(`${words}, ${at[2]} the ${at[3]}`);
}
