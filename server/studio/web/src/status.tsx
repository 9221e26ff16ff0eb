// How far a thread is, and how long a run took.

import { spent, visible, word } from "./text";
import type { QueuedRun, RanTask, Thread } from "./types";

const names: Record<string, string> = { idle: "done", busy: "running", interrupted: "waiting", error: "failed" };

// looks has a colour for each state, whatever its name is: one for what has ended well, whether a thread, a
// checkpoint or a run.
const looks: Record<string, string> = { idle: "done", success: "done", error: "error", failed: "error", timeout: "error", interrupted: "interrupted", waiting: "interrupted", busy: "busy", running: "busy", pending: "busy" };
const lookOf = (status: string) => looks[status] ?? (status in { done: 1, unfinished: 1 } ? status : "");

// Status is how far a thread is, in a word.
export function Status({ thread }: { thread: Thread }) {
  const status = word(thread.stele_status) || word(thread.status);
  return <span class={"status " + lookOf(status)}>{visible(names[status] ?? status)}</span>;
}

// RunStatus is how a run is. One that ended with a question waits, whatever the server calls it.
export function RunStatus({ status: it, waiting }: { status: unknown; waiting?: boolean }) {
  const status = waiting && (it === "success" || it === "interrupted") ? "waiting" : word(it);
  return <span class={"status " + lookOf(status)}>{visible(status)}</span>;
}

// triesOf is how often a task was tried.
export const triesOf = (t: RanTask) => Math.max(t.starts, 1) - 1 + Math.max(t.attempts, 1);

// tookOf is how long a run has been under way, or took.
export function tookOf(r: QueuedRun): string {
  if (!r.started_at) return "";
  const ms = (r.ended_at ? new Date(r.ended_at).getTime() : Date.now()) - new Date(r.started_at).getTime();
  return spent(Math.max(0, ms));
}
