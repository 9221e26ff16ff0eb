// The history of a thread as rows of a tree: one row for a checkpoint, newest first, and one
// lane for a branch.

import { isFields } from "./json";
import { list, minute, visible, word } from "./text";
import type { Interrupt, State } from "./types";

export interface Row {
  state: State;
  id: string;
  parent: string | undefined;
  lane: number;
  // children lie in the rows above. More than one child means that the thread was forked here.
  children: string[];
  // through are the lanes of other branches that pass this row.
  through: number[];
  // joins are the lanes of children that begin at this row: their lines end here.
  joins: number[];
}

export const idOf = (s: State) => word(s.checkpoint?.checkpoint_id);
export const parentOf = (s: State) => word(s.parent_checkpoint?.checkpoint_id) || undefined;
export const tasksOf = (s: State) => list(s.tasks);

// A wait for an instant, for a signal, or for a child, is an interrupt that asks nobody: no answer ends it. Its id says so.
const isWait = (i: Interrupt) => word(i.id).startsWith("wait-");
interface Asking {
  interrupts?: Interrupt[] | null;
}
export const asksOf = (t: Asking) => list(t.interrupts).filter((i) => !isWait(i));
export const waitsOf = (t: Asking) => list(t.interrupts).filter(isWait);
// waitsIn are those of a checkpoint, in words: of tasks, or of a store without its program.
export const waitsIn = (s: State) => [...new Set([s, ...tasksOf(s)].flatMap(waitsOf).map(waitInWords))];

// waitInWords says how long something waits, and for what.
export function waitInWords({ value }: Interrupt): string {
  const { signal, child, graph, until } = isFields(value) ? value : {};
  const end = until ? `until ${minute(until)}` : "";
  if (child) return `waits for a child, thread ${visible(child)} of ${visible(graph)}${end && `, ${end}`}`;
  return signal ? `waits for the signal ${visible(signal)}${end && `, ${end}`}` : `sleeps ${end}`;
}

// questionsIn are the questions that wait at a checkpoint, and the task of each. A store without its program
// knows the questions, and not which nodes ask them: the task is empty then.
export function questionsIn(s: State): { task: string; interrupt: Interrupt }[] {
  const asked = tasksOf(s).flatMap((t) => asksOf(t).map((interrupt) => ({ task: t.name, interrupt })));
  return asked.length ? asked : asksOf(s).map((interrupt) => ({ task: "", interrupt }));
}
export const nextOf = (s: State) => (Array.isArray(s.next) ? s.next.map(word) : []);

// rowsOf lays out checkpoints that are ordered newest first, so that a child is always above
// its parent. A branch keeps its lane from its newest checkpoint down to the fork. The lane of
// the newest checkpoint of all is 0: the branch that a new run goes on with.
export function rowsOf(states: State[]): Row[] {
  const children = new Map<string, string[]>();
  for (const s of states) {
    const parent = parentOf(s);
    if (parent === undefined) continue;
    const list = children.get(parent);
    if (list) list.push(idOf(s));
    else children.set(parent, [idOf(s)]);
  }
  const rows: Row[] = [];
  // lanes[i] is the checkpoint that lane i leads down to, or undefined if the lane is free.
  const lanes: (string | undefined)[] = [];
  for (const state of states) {
    const id = idOf(state);
    const waiting = lanes.flatMap((to, lane) => (to === id ? [lane] : []));
    let lane = waiting[0];
    if (lane === undefined) {
      lane = lanes.indexOf(undefined);
      if (lane < 0) lane = lanes.length;
    }
    for (const l of waiting) lanes[l] = undefined;
    const parent = parentOf(state);
    const through = lanes.flatMap((to, l) => (to === undefined ? [] : [l]));
    rows.push({ state, id, parent, lane, children: children.get(id) ?? [], through, joins: waiting.slice(1) });
    lanes[lane] = parent;
  }
  return rows;
}

// What made a checkpoint, in a word for people.
export function madeBy(state: State): string {
  const source = state.metadata?.source;
  if (source === "input") return "input";
  if (source === "update") return "edited";
  if (source === "fork") return "forked";
  return "step";
}

export type Stand = "done" | "waiting" | "sleeping" | "failed" | "unfinished";

// standOf says how far the thread was at a checkpoint.
export function standOf(state: State): Stand {
  const told = state.stele_status;
  const tasks = tasksOf(state);
  if (told && told !== "running" && told !== "waiting") return told;
  if (told !== "waiting" && tasks.some((t) => t.error)) return "failed";
  if ([state, ...tasks].some((t) => asksOf(t).length > 0)) return "waiting";
  if (waitsIn(state).length > 0) return "sleeping";
  if (told === "waiting") return told;
  return nextOf(state).length > 0 ? "unfinished" : "done";
}

// ancestryOf lists the ids on the way from a checkpoint down to the first, the checkpoint
// itself included.
export function ancestryOf(rows: Row[], id: string): Set<string> {
  const parents = new Map(rows.map((r) => [r.id, r.parent]));
  const found = new Set<string>();
  for (let at: string | undefined = id; at !== undefined && !found.has(at); at = parents.get(at)) found.add(at);
  return found;
}

// stepOf is the number of the superstep; an input that was not run yet has -1.
export function stepOf(state: State): string {
  const step = state.metadata?.step;
  return typeof step === "number" ? String(step) : "";
}
