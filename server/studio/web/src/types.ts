// The parts of LangGraph's server API that Studio reads. Servers add fields; none is required
// here that one of the known servers leaves out.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Fields = { [key: string]: Json };

export type ThreadStatus = "idle" | "busy" | "interrupted" | "error";

// SteleStatus is how far a thread is, or was at a checkpoint, as a server of stele's tells it:
// LangGraph calls a thread that waits and one whose run was cut off both interrupted.
export type SteleStatus = "done" | "waiting" | "sleeping" | "failed" | "unfinished" | "running" | "";

export interface Thread {
  thread_id: string;
  created_at: string;
  updated_at: string;
  metadata: Fields;
  status: ThreadStatus;
  error?: Json;
  stele_status?: SteleStatus;
  // stele_title is what a person would call the thread, and stele_about a line about it, in place of its
  // values.
  stele_title?: string;
  stele_about?: string;
  values?: Fields | null;
  interrupts?: { [task: string]: Interrupt[] };
}

export interface Interrupt {
  id?: string | null;
  value: Json;
  response_schema?: Fields;
}

export interface CheckpointRef {
  thread_id?: string;
  checkpoint_ns?: string;
  checkpoint_id?: string;
}

export interface Task {
  id: string;
  name: string;
  path?: Json;
  error?: string | null;
  interrupts: Interrupt[];
  checkpoint?: CheckpointRef | null;
  state?: State | null;
  result?: Json;
  // stele_answers are what people answered, in a history without values.
  stele_answers?: Json[];
  // stele_leads are the nodes to which the task led, there too.
  stele_leads?: Json;
  // stele_input is what the node is called with, or was, where it is asked for.
  stele_input?: Json;
}

// RanTask is what a server of stele's noted of a task of a run.
export interface RanTask {
  id: string;
  name: string;
  // namespace is the path of the graphs that the task is in; none of the outermost.
  namespace?: string[];
  starts: number;
  // ends are how many of the starts came to an end.
  ends?: number;
  // attempts are the calls of the node by the last start, 0 until it ends.
  attempts: number;
  // status is "" of a task of which only what is inside was told.
  status: "begun" | "ended" | "waiting" | "error" | "";
  began_at: string;
  took_ns: number;
  // uses are the calls of models by the task's node, with those of the graphs that it runs.
  uses?: { id?: string; model: string; input: number; output: number; total: number }[];
}

// NodesOfDay is what nodes did in the runs of the last day, those first that took longest in all.
export interface NodesOfDay {
  runs: number;
  complete: boolean; // false: there were more runs than were read
  nodes: { graph: string; name: string; tasks: number; failed: number; waiting: number; retries: number; took_ns: number; longest_ns: number; run_id: string; thread_id: string }[];
}

// Cron is a schedule that clients made: a run is submitted each time that it is due.
export interface Cron {
  cron_id: string;
  assistant_id: string;
  thread_id?: string | null;
  schedule: string;
  timezone?: string | null;
  enabled?: boolean;
  next_run_date?: string | null;
  end_time?: string | null;
}

// Step is something that the body of a node did, as a server of stele's tells it.
export interface Step {
  kind: "call" | "child" | "sleep" | "signal" | "exposed";
  node?: string;
  depth?: number;
  name?: string;
  state: "done" | "failed" | "timed out" | "waiting" | "begun";
  result?: Json;
  error?: string;
  questions?: Interrupt[];
  until?: string;
  thread_id?: string; // of a child
  attempts?: number;
  began?: string;
  took_ns?: number;
}

// Steps are those of one superstep; parent_thread_id is the thread that awaits this one, its child.
export interface Steps {
  steps: Step[];
  left_out?: number;
  parent_thread_id?: string;
}

// VersionOfGraph is a version of a graph that runs of the queue, or workers, have.
export interface VersionOfGraph {
  graph: string;
  version: string;
  runs: number;
  pinned: number;
  workers: number;
}

export interface State {
  values: Json;
  next: string[];
  tasks: Task[];
  metadata: Fields;
  created_at: string | null;
  checkpoint: CheckpointRef;
  parent_checkpoint?: CheckpointRef | null;
  interrupts?: Interrupt[];
  stele_status?: SteleStatus;
  // stele_version is that of the graph that stored the checkpoint, in a history without values.
  stele_version?: string;
}

export interface Assistant {
  assistant_id: string;
  graph_id: string;
  name: string;
  metadata: Fields;
}

export interface Drawing {
  nodes: { id: string | number; type?: string; data?: Json; metadata?: Fields }[];
  edges: { source: string | number; target: string | number; conditional?: boolean; data?: string; taken?: boolean }[];
}

export interface Run {
  run_id: string;
  thread_id: string;
  assistant_id: string;
  status: "pending" | "running" | "error" | "success" | "timeout" | "interrupted";
  created_at: string;
  updated_at: string;
  metadata: Fields;
  multitask_strategy?: string;
}

export interface Item {
  namespace: string[];
  key: string;
  value: Fields;
  score?: number | null; // of a search by meaning
  created_at: string;
  updated_at: string;
}

// Info is what /info announces. `stele` is there where the server is stele's; it names what
// Studio may show beyond LangGraph's API.
export interface Info {
  version?: string;
  flags?: { crons?: boolean };
  stele?: { readonly?: boolean; lazy_history?: boolean; thread_status?: boolean; thread_prefix?: boolean; brief_values?: boolean; task_inputs?: boolean; runs?: boolean; tasks?: boolean; steps?: boolean; signals?: boolean; nodes?: boolean; graph_versions?: { [graph: string]: string }; health?: boolean; room?: boolean; verify?: boolean; backup?: boolean };
}

// QueuedRun is a run of a server of stele's, as operators see it.
export interface QueuedRun {
  run_id: string;
  thread_id: string;
  graph: string;
  status: string;
  waiting: boolean;
  error?: string;
  refused?: boolean; // its answer or its input was: there is nothing to try again
  attempt: number;
  after?: string; // when it may begin; of one that sleeps, when it wakes
  created_at: string;
  started_at?: string;
  ended_at?: string;
}

// PendingSignal is a signal that nobody has taken, and RefusedSignal one that was set aside.
export interface PendingSignal {
  id: string;
  name: string;
  keyed: boolean;
  sent_at: string;
  value: Json;
  error?: string;
}

export interface RefusedSignal {
  id: string;
  name: string;
  value: Json;
  error: string;
}

export interface Schedule {
  id: string;
  cron: string;
  graph: string;
  next: string;
}

export interface StoreHealth {
  health: { problems: { kind: string; detail: string }[]; space: { free: number; total: number } };
  stats: {
    threads: number;
    log_files: number;
    log_bytes: number;
    segments: number;
    segment_bytes: number;
    raw_bytes: number;
    dead_bytes: number;
    images: number;
    compaction_debt: number;
    resident: number;
  };
}

// ValueRoom is the room that values take, in bytes before compression.
export interface ValueRoom {
  values: number;
  bytes: number;
}

export interface Room {
  channels: (ValueRoom & { channel: string })[];
  records: ValueRoom;
  writes: ValueRoom;
  items: ValueRoom;
  other: ValueRoom;
  bytes: number;
}

export interface Verified {
  files: number;
  bytes: number;
  checkpoints: number;
  damage: { file: string; offset: number; kind: string; detail: string }[];
  took_ns: number;
}

export interface BackedUp {
  dest: string;
  files: number;
  bytes: number;
  copied_files: number;
  copied_bytes: number;
  took_ns: number;
}
