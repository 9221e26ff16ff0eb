// How far a thread is, and how long a run took.

import { sleepOf } from "./about";
import { causeOf, minute, spent, Text, visible, word } from "./text";
import type { QueuedRun, RanTask, Thread } from "./types";

const names: Record<string, string> = { idle: "done", busy: "running", interrupted: "waiting", error: "failed" };

// looks has a colour for each state, whatever its name is: one for what has ended well, whether a thread, a
// checkpoint or a run. What asks nobody and is not under way has none.
const looks: Record<string, string> = { done: "done", failed: "error", "timed out": "error", waiting: "interrupted", running: "busy", pending: "busy", unfinished: "unfinished" };

const Pill = ({ name }: { name: string }) => <span class={"status " + (looks[name] ?? "")}>{visible(name)}</span>;

const nameOf = (thread: Thread) => {
  const status = word(thread.stele_status) || word(thread.status);
  return names[status] ?? status;
};

// isOpen tells a thread that goes on, or that somebody may go on with, from one that has ended.
export const isOpen = (thread: Thread) => !["done", "failed"].includes(nameOf(thread));

// Status is how far a thread is, in a word. One that waits for an instant or a signal sleeps, whatever the server calls it.
export function Status({ thread }: { thread: Thread }) {
  const name = nameOf(thread);
  return <Pill name={name === "waiting" && sleepOf(thread) ? "sleeping" : name} />;
}

// runNames are the statuses of runs in the words for threads. One that was stopped may have been cancelled, or ended at a
// breakpoint.
export const runNames: Record<string, string> = { success: "done", error: "failed", timeout: "timed out", interrupted: "stopped" };

// RunStatus is how a run is. One that ended with a question waits, whatever the server calls it, until a later one
// answers; one that is pending and waits, sleeps.
export function RunStatus({ status: it, waiting, later }: { status: unknown; waiting?: boolean; later?: boolean }) {
  const status = word(it);
  const asked = waiting && (status === "success" || status === "interrupted");
  return <Pill name={asked ? (later ? "asked" : "waiting") : waiting && status === "pending" ? "sleeping" : (runNames[status] ?? status)} />;
}

// Cause is why a run failed; the mouse shows all of it.
export function Cause({ error }: { error: string }) {
  return (
    <span class="cause" title={visible(error)}>
      <Text text={causeOf(error)} first={200} />
    </span>
  );
}

// triesOf is how often a task was tried.
export const triesOf = (t: RanTask) => Math.max(t.starts, 1) - 1 + Math.max(t.attempts, 1);

// sleepsOf is until when a run sleeps; "" if it does not. One that waits for a signal, however long, is due in a
// year that never comes.
export function sleepsOf(r: QueuedRun): string {
  if (r.status !== "pending" || !r.waiting) return "";
  return !r.after || r.after > "9999" ? "until it is woken" : `until ${minute(r.after)}`;
}

// tookOf is how long a run has been under way, or took.
export function tookOf(r: QueuedRun): string {
  if (!r.started_at || sleepsOf(r)) return "";
  const ms = (r.ended_at ? new Date(r.ended_at).getTime() : Date.now()) - new Date(r.started_at).getTime();
  return spent(Math.max(0, ms));
}
