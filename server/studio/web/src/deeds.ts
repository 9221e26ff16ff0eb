// What a step of a thread did, in a line for people, and what it cost.

import { isFields } from "./json";
import { asMessages, callsOf, type Message, textOf, toolOf } from "./messages";
import { nodeName, saidOf } from "./names";
import { causeOf, list, visible, word } from "./text";
import { asksOf, madeBy, type Row, standOf, stepOf, tasksOf, waitsIn } from "./tree";
import type { Json, State, Task } from "./types";

// Use is what a call of a model was given and gave, in tokens: none if its answer does not tell.
export interface Use {
  id?: string; // of the answer
  model: string;
  input: number;
  output: number;
  total: number;
}

// Told is what a task said, by the messages that it wrote.
export interface Told {
  id: string;
  name: string;
  who: string; // who spoke: the model, or the node that is an agent of its own; "" if nobody did
  words: string;
  names: string[];
  uses: Use[];
  said: Use[]; // those of its uses that the queue did not note
  tools: boolean; // it was tools that answered
}

export interface Deed {
  run: string; // that made it
  who: string; // as Told has it
  words: string;
  names: string[]; // of tools or nodes
  quote: string;
  by: string; // who answered
  then: string; // what the thread waits for, or what failed
  took?: number; // in ms; none where a person was waited for, or no run was under way
  uses: Use[];
  tools: boolean;
  tasks: Told[]; // that ran to make it
}

// Noted are the calls of models that the queue noted of a task in a run, also those of a graph that the node or a tool runs.
export interface Noted {
  run: string;
  task: string;
  uses: Use[];
}

// withNoted adds them to those that the messages of tasks tell. A call counts once: the message of an answer that was noted,
// which its id tells, or its figures where it had none yet, is not another one.
export function withNoted(deeds: Map<string, Deed>, noted: Noted[]): Map<string, Deed> {
  if (noted.length === 0) return deeds;
  const ids = new Set(noted.flatMap((n) => n.uses).flatMap((u) => u.id ?? []));
  const of = new Map<string, Noted[]>();
  for (const n of noted) of.set(n.task, [...(of.get(n.task) ?? []), n]);
  // A task that ran again, for a branch, is that of two steps, each with what its own run noted. What runs noted that did not
  // finish it goes to the first.
  const makers = new Map<string, string[]>();
  for (const d of deeds.values()) for (const t of d.tasks) makers.set(t.id, [...(makers.get(t.id) ?? []), d.run]);
  return new Map(
    [...deeds].map(([id, d]) => {
      const tasks = d.tasks.map((t) => {
        const runs = makers.get(t.id)!;
        const own = list(of.get(t.id)).filter((n) => n.run === d.run || (d.run === runs[0] && !runs.includes(n.run))).flatMap((n) => n.uses);
        const nameless = own.filter((u) => !u.id);
        const said = t.uses.filter((u) => {
          if (u.id && ids.has(u.id)) return false;
          const i = nameless.findIndex((n) => n.model === u.model && n.input === u.input && n.output === u.output && n.total === u.total);
          if (i >= 0) nameless.splice(i, 1);
          return i < 0;
        });
        return { ...t, said, uses: [...own, ...said] };
      });
      return [id, { ...d, tasks, uses: tasks.flatMap((t) => t.uses) }];
    }),
  );
}

const plural = (n: number, of: string) => `${n} ${of}${n === 1 ? "" : "s"}`;

// deedsOf tells of each row what was done to make it, by the tasks of its parent. A message counts
// where it is first written: some programs write a whole conversation again.
export function deedsOf(rows: Row[]): Map<string, Deed> {
  const states = new Map(rows.map((r) => [r.id, r.state]));
  const seen = new Set<string>();
  const deeds = new Map<string, Deed>();
  for (const row of [...rows].reverse()) {
    const parent = row.parent === undefined ? undefined : states.get(row.parent);
    deeds.set(row.id, deedOf(row.state, parent, seen));
  }
  return deeds;
}

function deedOf(state: State, parent: State | undefined, seen: Set<string>): Deed {
  const deed: Deed = { run: word(state.metadata?.run_id), who: "", words: "", names: [], quote: "", by: "", then: thenOf(state), uses: [], tools: false, tasks: [] };
  const made = madeBy(state);
  if (made === "input") return { ...deed, ...inputOf(state) };
  if (made !== "step") return { ...deed, words: made === "forked" ? "Forked" : "Edited by hand" };
  const tasks = parent ? tasksOf(parent) : [];
  const messages = tasks.map((t) => writtenBy(t, seen));
  deed.tasks = tasks.map((t, i) => {
    const uses = messages[i]!.filter((m) => kindOf(m) === "ai").map(useOf);
    return { id: word(t.id), name: word(t.name), who: "", words: "", names: [], tools: false, ...talkOf(messages[i]!, word(t.name)), uses, said: uses };
  });
  deed.uses = deed.tasks.flatMap((t) => t.uses);
  deed.took = tookBy(state, parent);
  if (!parent || tasks.length === 0) return { ...deed, words: parent ? `Step ${stepOf(state)}` : "Not loaded: the step before" };
  const answered = tasks.filter((t) => t.stele_answers?.length || (asksOf(t).length > 0 && t.result !== undefined && t.result !== null));
  if (answered.length > 0) return { ...deed, ...answersOf(answered), by: byWhom(state, parent) };
  if (tasks.every((t) => t.name === "__start__")) return { ...deed, words: "Began" };
  const names = [...new Set(tasks.map((t) => nodeName(t.name)))];
  const talk = talkOf(messages.flat(), word(tasks[0]!.name));
  // Nodes that ran beside each other are named, whatever each of them said.
  if (names.length > 1) return { ...deed, words: `${plural(names.length, "node")} ran:`, names };
  if (talk) return { ...deed, ...talk };
  const channels = tasks.flatMap((t) => (isFields(t.result) ? Object.keys(t.result) : [])).filter((c) => !c.startsWith("__"));
  return { ...deed, words: "Ran", names, quote: channels.length ? "wrote " + [...new Set(channels)].map(visible).join(", ") : "" };
}

// inputOf is what a person, or a program, gave the thread.
function inputOf(state: State): Partial<Deed> {
  const given = tasksOf(state)[0]?.result;
  const said = isFields(given) ? Object.values(given).flatMap(messagesIn).at(-1) : undefined;
  if (said) return { words: kindOf(said) === "human" ? "Person wrote" : "Input", quote: visible(textOf(said.content)) };
  return { words: "Input", quote: isFields(given) ? Object.keys(given).map(visible).join(", ") : "" };
}

// talkOf tells what the messages of a node say. A node that is an agent writes a whole turn: what it called, and its answer.
function talkOf(messages: Message[], node: string): Partial<Deed> | undefined {
  const calls = messages.flatMap((m) => callsOf(m).map(toolOf)).map(visible);
  const last = messages.at(-1);
  const said = last && kindOf(last) === "ai" && callsOf(last).length === 0 ? visible(textOf(last.content)) : "";
  if (calls.length > 0) return { who: saidOf(node), words: said ? "answered with" : "called", names: [...new Set(calls)], quote: said };
  if (said) return { who: saidOf(node), words: "answered", quote: said };
  const results = messages.filter((m) => kindOf(m) === "tool");
  if (results.length > 0) {
    const failed = results.filter((m) => m.status === "error");
    const which = failed.length > 0 ? failed : results;
    return { tools: true, words: failed.length > 0 ? "Tool failed:" : which.length === 1 ? "Tool answered:" : `${which.length} tools answered:`, names: which.map((m) => visible(m.name)).filter(Boolean), quote: which.length === 1 ? visible(textOf(which[0]!.content)) : "" };
  }
  const spoke = messages.filter((m) => kindOf(m) === "ai").at(-1);
  return spoke && { who: saidOf(node), words: "answered", quote: visible(textOf(spoke.content)) };
}

// wordsOf are a deed's words with who spoke, unless that is said already.
export const wordsOf = (d: { who: string; words: string }, saidAlready = "") => [d.who === saidAlready ? "" : d.who, d.words].filter(Boolean).join(" ");

const decisions: Record<string, string> = { approve: "Approved", edit: "Edited and approved", reject: "Rejected", respond: "Answered instead", accept: "Approved", ignore: "Ignored", response: "Answered instead" };

// answersOf tells how people answered the questions of tasks.
function answersOf(tasks: Task[]): Partial<Deed> {
  const answers = tasks.flatMap((t) => t.stele_answers ?? []);
  const kinds = new Set(
    answers.flatMap((a) => {
      const all = isFields(a) && Array.isArray(a.decisions) ? a.decisions : Array.isArray(a) ? a : [a];
      return all.map((d) => (isFields(d) ? decisions[word(d.type)] : undefined) ?? "Answered");
    }),
  );
  const names = tasks.flatMap((t) => asksOf(t).flatMap((i) => toolsAsked(i.value)));
  const plain = answers.length === 1 && !isFields(answers[0]) && !Array.isArray(answers[0]) ? word(answers[0]) : "";
  return { words: kinds.size === 1 ? [...kinds][0]! : "Answered", names: names.length ? names : [...new Set(tasks.map((t) => nodeName(t.name)))], quote: plain };
}

// toolsAsked are the tools that a question wants to be allowed.
function toolsAsked(value: Json): string[] {
  const one = (v: Json): string[] => {
    if (!isFields(v)) return [];
    if (Array.isArray(v.action_requests)) return v.action_requests.flatMap((r) => (isFields(r) && r.name ? [visible(r.name)] : []));
    return isFields(v.action_request) && v.action_request.action ? [visible(v.action_request.action)] : [];
  };
  return Array.isArray(value) ? value.flatMap(one) : one(value);
}

// byWhom is who answered, as a server of stele's stores it, or whose the run was that went on.
function byWhom(state: State, parent: State): string {
  const { stele_answered_by, langgraph_auth_user_id, run_id } = state.metadata ?? {};
  if (stele_answered_by) return visible(stele_answered_by);
  return run_id !== parent.metadata?.run_id ? visible(langgraph_auth_user_id) : "";
}

// thenOf is why the thread stopped at a checkpoint.
function thenOf(state: State): string {
  const failed = tasksOf(state).find((t) => t.error);
  if (failed) return `${nodeName(failed.name)} failed: ${visible(causeOf(failed.error))}`;
  const asks = tasksOf(state).filter((t) => asksOf(t).length > 0);
  if (asks.length > 1) return `${asks.length} nodes ask`;
  const question = asksOf(asks[0] ?? state)[0];
  if (!question) return waitsIn(state).join("; ") || (standOf(state) === "waiting" ? "stopped" : "");
  const tools = toolsAsked(question.value);
  if (tools.length) return `asks to run ${tools.join(", ")}`;
  return `${asks[0] ? nodeName(asks[0].name) : "the program"} asks${questionIn(question.value)}`;
}

function questionIn(value: Json): string {
  if (typeof value === "string") return `: ${visible(value)}`;
  if (!isFields(value)) return "";
  for (const name of ["question", "message", "description", "title", "text"]) if (typeof value[name] === "string") return `: ${visible(value[name])}`;
  return "";
}

// tookBy is the time since the parent, while a run was under way: not the time in which a person was
// waited for, or that lies between two runs.
function tookBy(state: State, parent: State | undefined): number | undefined {
  if (typeof state.created_at !== "string" || typeof parent?.created_at !== "string") return undefined;
  if (["waiting", "sleeping", "failed"].includes(standOf(parent)) || state.metadata?.run_id !== parent.metadata?.run_id) return undefined;
  const ms = new Date(state.created_at).getTime() - new Date(parent.created_at).getTime();
  return ms >= 0 ? ms : undefined;
}

const kindOf = (m: Message) => m.type.replace("MessageChunk", "").toLowerCase();

// messagesIn are the messages of a value that was written to a channel, or given in OpenAI's form.
function messagesIn(value: Json): Message[] {
  if (isFields(value) && Array.isArray(value.$writes)) return value.$writes.flatMap(messagesIn);
  const given = (m: Json): Json => (isFields(m) && !m.type && m.content !== undefined ? { ...m, type: roles[word(m.role)] ?? word(m.role) } : m);
  return asMessages((Array.isArray(value) ? value : [value]).map(given)) ?? [];
}

const roles: Record<string, string> = { user: "human", assistant: "ai" };

// writtenBy are the messages that a task was the first to write.
function writtenBy(task: Task, seen: Set<string>): Message[] {
  if (!isFields(task.result)) return [];
  const fresh = Object.values(task.result)
    .flatMap(messagesIn)
    .filter((m) => kindOf(m) !== "remove" && !(m.id && seen.has(word(m.id))));
  for (const m of fresh) if (m.id) seen.add(word(m.id));
  return fresh;
}

// useOf is what a message of a model says of its tokens.
function useOf(m: Message): Use {
  const use = m.usage_metadata;
  const number = (v: Json | undefined) => (typeof v === "number" ? v : 0);
  const [input, output] = [number(use?.input_tokens), number(use?.output_tokens)];
  return { id: word(m.id) || undefined, model: word(m.response_metadata?.model_name ?? m.response_metadata?.model), input, output, total: number(use?.total_tokens) || input + output };
}

export const tokensOf = (uses: Use[]) => uses.reduce((n, u) => n + u.total, 0);
