// A run that this page began, while it streams.

import { signal } from "@preact/signals";
import { api } from "./api";
import { say } from "./load";
import { textOf } from "./messages";
import { word } from "./text";
import type { Fields, Json } from "./types";

export interface Live {
  nodes: string[]; // that have ended, in order
  texts: [string, string][]; // of messages by id, as their tokens arrive
  ended: boolean;
  error?: string;
  cancel: () => Promise<void>;
}

// lives are the runs that this page follows, or followed last, by thread.
export const lives = signal<ReadonlyMap<string, Live>>(new Map());
export const liveOf = (thread: string) => lives.value.get(thread);

export function forget(thread: string) {
  const rest = new Map(lives.value);
  rest.delete(thread);
  lives.value = rest;
}

// reject: while another run is on the thread, the server refuses one.
const alone: Fields = { multitask_strategy: "reject" };

// start begins a run and does not follow it. It returns the run's id once the server has taken it.
export async function start(thread: string, body: Fields): Promise<string> {
  return word((await api.start(thread, { ...body, ...alone })).run_id);
}

// run begins a run and follows it. It returns once the server has taken it; ended is fulfilled at its end.
// The page is drawn at most once a frame, however many tokens arrive.
export async function run(thread: string, body: Fields): Promise<{ ended: Promise<void> }> {
  const abort = new AbortController();
  const texts = new Map<string, string>();
  const nodes: string[] = [];
  let runID: string | undefined;
  let drawn = false;
  const state: Live = {
    nodes,
    texts: [],
    ended: false,
    cancel: async () => {
      if (runID) await api.cancel(thread, runID);
      else abort.abort();
    },
  };
  const show = (more: Partial<Live>) => {
    Object.assign(state, more);
    if (drawn) return;
    drawn = true;
    requestAnimationFrame(() => {
      drawn = false;
      lives.value = new Map(lives.value).set(thread, { ...state, texts: [...texts], nodes: [...nodes] });
    });
  };
  const begun = await api.stream(thread, { ...body, ...alone, stream_mode: ["updates", "messages-tuple"], on_disconnect: "continue" }, abort.signal);
  runID = begun.run;
  show({});
  return { ended: follow() };

  async function follow() {
    try {
      for await (const e of begun.events) {
        if (e.event === "metadata" && fields(e.data)) runID = word((e.data as Fields).run_id);
        else if (e.event === "error") show({ error: errorOf(e.data) });
        else if (e.event === "updates" && fields(e.data)) nodes.push(...Object.keys(e.data as Fields).filter((k) => k !== "__interrupt__"));
        else if (e.event === "messages" && Array.isArray(e.data)) add(texts, e.data[0]);
        show({});
      }
    } catch (error) {
      // The run goes on without its stream.
      const cause = abort.signal.aborted ? undefined : runID ? await failureOf(thread, runID) : say(error);
      if (cause) show({ error: cause });
    }
    show({ ended: true });
  }
}

// failureOf waits for the end of a run whose stream broke off, and returns why it failed, if it did.
async function failureOf(thread: string, run: string): Promise<string | undefined> {
  for (;;) {
    try {
      const { status } = await api.run(thread, run);
      if (status === "error" || status === "timeout") return `it ended with status ${status}`;
      if (status !== "pending" && status !== "running") return undefined;
    } catch (error) {
      return say(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

function fields(v: Json): v is Fields {
  return v !== null && typeof v === "object" && !Array.isArray(v);
}

function errorOf(data: Json): string {
  if (fields(data)) return [data.error, data.message].filter((x) => typeof x === "string").join(": ");
  return word(data);
}

// add appends the text of a chunk to its message.
function add(texts: Map<string, string>, chunk: Json | undefined) {
  if (chunk === undefined || !fields(chunk)) return;
  const type = word(chunk.type);
  if (!type.toLowerCase().startsWith("ai")) return;
  const id = word(chunk.id);
  const text = textOf(chunk.content ?? "");
  const before = texts.get(id) ?? "";
  // A message that is whole replaces its chunks.
  texts.set(id, type === "AIMessageChunk" ? before + text : text);
}
