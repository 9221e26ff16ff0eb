// How far a thread is, and how long a run took.

import { spent, visible, word } from "./text";
import type { QueuedRun, Thread } from "./types";

const names: Record<string, string> = { idle: "idle", busy: "running", interrupted: "waiting", error: "failed" };

// Status is how far a thread is, in a word.
export function Status({ thread }: { thread: Thread }) {
  const unfinished = thread.stele_status === "unfinished";
  const status = word(thread.status);
  return <span class={"status " + (unfinished ? "unfinished" : status)}>{visible(thread.stele_status) || names[status] || visible(status)}</span>;
}

// tookOf is how long a run has been under way, or took.
export function tookOf(r: QueuedRun): string {
  if (!r.started_at) return "";
  const ms = (r.ended_at ? new Date(r.ended_at).getTime() : Date.now()) - new Date(r.started_at).getTime();
  return spent(Math.max(0, ms));
}
