// What the queue noted of the tasks of a thread's runs. Of what was read already only what is new is read.

import { useLoad, type Loaded } from "./load";
import { api, Problem } from "./api";
import type { Noted } from "./deeds";
import { info } from "./session";
import { list } from "./text";
import type { RanTask, Run } from "./types";

type RunRef = Pick<Run, "run_id" | "status" | "updated_at">;

// Notes are those of a run, by task.
export interface Notes {
  tasks: Map<string, RanTask>;
  recorded: boolean; // the run notes its tasks
  after?: number; // the last event that was read
}

// Reading is the notes of a run as they were read when it was in a state.
interface Reading {
  state: string;
  busy: boolean;
  notes: Promise<Notes>;
}

let thread = "";
let readings = new Map<string, Reading>();

export const isOpen = (run: { status: string } | undefined) => run?.status === "pending" || run?.status === "running";

// notesOf reads what a run has noted. What was noted of one that has ended stays what it is, unless it is tried again.
export function notesOf(id: string, run: RunRef): Promise<Notes> {
  if (id !== thread) [thread, readings] = [id, new Map()];
  const state = `${run.status} ${run.updated_at}`;
  const before = readings.get(run.run_id);
  if (before?.state === state && (before.busy || !isOpen(run))) return before.notes;
  const read = async () => {
    const known: Notes = before ? await before.notes : { tasks: new Map(), recorded: false };
    try {
      return await readOn(id, run.run_id, known);
    } catch (error) {
      // A run that the queue does not keep has none.
      if (!(error instanceof Problem && error.status === 404)) reading.state = "";
      return known;
    } finally {
      reading.busy = false;
    }
  };
  const reading: Reading = { state, busy: true, notes: Promise.resolve().then(read) };
  readings.set(run.run_id, reading);
  return reading.notes;
}

async function readOn(id: string, run: string, known: Notes): Promise<Notes> {
  const notes = { ...known, tasks: new Map(known.tasks) };
  for (;;) {
    const told = await api.tasksOf(id, run, notes.after);
    if (told.after === undefined) notes.tasks.clear(); // a server that tells all each time
    for (const t of list(told.tasks)) add(notes.tasks, t);
    notes.recorded = told.recorded;
    notes.after = told.after;
    if (told.next === undefined) return notes;
  }
}

// add adds what is new of a task to what was told before.
function add(tasks: Map<string, RanTask>, t: RanTask) {
  const before = tasks.get(t.id);
  const uses = [...list(before?.uses), ...list(t.uses)];
  tasks.set(t.id, before ? { ...(t.status ? t : before), began_at: t.began_at || before.began_at, starts: before.starts + t.starts, ends: (before.ends ?? 0) + (t.ends ?? 0), uses } : t);
}

// runsShown is of how many runs the tasks are asked for at first, the newest ones.
export const runsShown = 8;

// Ran are the newest runs of a thread, with what the queue noted of their tasks.
export interface Ran {
  runs: Run[];
  notes: Map<string, Notes>; // by run
  noted: Noted[]; // of tasks of the outermost graph
}

// useRan reads them, once again when the list of runs was.
export function useRan(id: string, runs: Loaded<Run[] | undefined>, shown: number): Loaded<Ran | undefined> {
  return useLoad(async () => {
    if (!runs.value) {
      if (runs.error) throw new Error(runs.error);
      return undefined;
    }
    const newest = runs.value.slice(0, shown);
    const notes = new Map<string, Notes>();
    if (info.value?.stele?.tasks) await Promise.all(newest.map(async (r) => notes.set(r.run_id, await notesOf(id, r))));
    const noted = [...notes].flatMap(([run, { tasks }]) => [...tasks.values()].flatMap((t) => (t.uses?.length && !t.namespace?.length ? [{ run, task: t.id, uses: t.uses }] : [])));
    return { runs: newest, notes, noted };
  }, [id, runs.value, runs.error, shown]);
}
