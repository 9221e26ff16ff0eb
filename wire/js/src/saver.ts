import { types } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  TASKS,
  WRITES_IDX_MAP,
  getCheckpointId,
  maxChannelVersion,
} from "@langchain/langgraph-checkpoint";
import type {
  ChannelVersions,
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointPendingWrite,
  CheckpointTuple,
  PendingWrite,
  SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import { parseURL } from "./address.js";
import { LOCAL, REMOTE, clientOfDirectory, clientOfURL } from "./client.js";
import type { Client, LocalOptions, RemoteOptions } from "./client.js";
import { InvalidArgumentError, NotFoundError, ProtocolError, SteleConnectionError, SteleTimeoutError, ThreadDeletedError, UnsupportedError } from "./errors.js";
import { refuseOthers, shown, whole } from "./options.js";
import { Places } from "./place.js";
import type { Place } from "./place.js";
import { SteleSerializer, asTyped, dumpFilter, dumpMetadata, loadPlain } from "./serializer.js";
import type { Typed } from "./serializer.js";
import { isFields } from "./wire.js";
import type { Fields } from "./wire.js";

/** NO_TASK owns the writes that belong to no task, such as the input of a run. */
const NO_TASK = "00000000-0000-0000-0000-000000000000";

/** STOPS are the channels of a task after which a run goes no further. */
const STOPS: ReadonlySet<string> = new Set(["__interrupt__", "__error__"]);

/** NEVER_DEFERRED are the channels of questions, answers and errors. */
const NEVER_DEFERRED: ReadonlySet<string> = new Set([...Object.keys(WRITES_IDX_MAP), "__error_source_node__"]);

/** SaverOptions are those of any SteleSaver. */
export interface SaverOptions {
  /** serde serializes the values of channels. Default: a SteleSerializer. */
  serde?: SerializerProtocol;
  /**
   * deferWrites is true if the writes of a task that ended well need not be on disk when
   * putWrites returns. They survive the death of every process at once, and a loss of power
   * with the next call that is durable, or some 10 ms later. So the writes of a superstep
   * share the sync of its checkpoint, as in stele's own engine. Where a task has asked or
   * failed, the writes of those beside it are durable as well. Questions, answers, errors
   * and inputs are never deferred. A checkpoint is if tasks of the next one wrote before it
   * was put: then a run with durability "async" is ahead of it, and the put of the next one
   * follows and syncs both. The last checkpoint of a run is never deferred.
   *
   * Default: true, but false for a server behind `tcp:` or `tls:`. When the machine of such a
   * server loses its power, a run may go on elsewhere: its later checkpoints are stored, and
   * lack the values that only a deferred one had.
   */
  deferWrites?: boolean;
}

// The names of the options that there are.
const SAVER: Record<keyof SaverOptions, true> = { serde: true, deferWrites: true };
const LIST: Record<keyof CheckpointListOptions, true> = { limit: true, before: true, filter: true };

/** Removal says what a call has removed. Of a call that had to be asked again, it may have the numbers alone. */
export interface Removal {
  checkpoints: number;
  writes: number;
  /** kept are checkpoints that had to stay, at most a hundred; keptTotal is their number. */
  kept: { thread: string; ns: string; id: string; for: string; channel: string; reason: string }[];
  keptTotal: number;
}

/** ThreadInfo describes a thread. */
export interface ThreadInfo {
  threadId: string;
  /** head is the newest checkpoint of the root graph; "" if there is none. */
  head: string;
  updatedAt: Date;
  /** status, graph and next are what the engine told, if it is one that tells. */
  status: string;
  graph: string;
  next: string[];
}

/** ThreadQuery selects threads. */
export interface ThreadQuery {
  prefix?: string;
  updatedSince?: Date;
  status?: string;
  metadata?: Record<string, unknown>;
  limit?: number;
}

const THREADS: Record<keyof ThreadQuery, true> = { prefix: true, updatedSince: true, status: true, metadata: true, limit: true };

/**
 * SteleSaver keeps checkpoints in a stele store.
 *
 * All methods may be called at any time and at the same time. A call that writes returns
 * when what it wrote is on disk, but for what SaverOptions.deferWrites names. A call whose connection is lost is asked again, and has
 * the effect of one. Errors are SteleErrors.
 *
 * An open saver does not keep the process alive.
 */
export class SteleSaver extends BaseCheckpointSaver {
  private readonly deferWrites: boolean;
  private readonly places = new Places();

  private constructor(
    private readonly client: Client,
    options: SaverOptions,
    deferWrites = true,
  ) {
    super(options.serde ?? new SteleSerializer());
    this.deferWrites = options.deferWrites ?? deferWrites;
  }

  /**
   * fromDir is a saver of the store in a directory. The first call starts a server for
   * it, or finds the one that another process has started. A DirectoryError says that the
   * directory cannot have a store.
   */
  static fromDir(directory: string, options: SaverOptions & LocalOptions = {}): SteleSaver {
    refuseOthers("SteleSaver.fromDir", options, { ...SAVER, ...LOCAL });
    return new SteleSaver(clientOfDirectory(directory, options), options);
  }

  /** fromUrl is a saver of a server that runs elsewhere: `unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`. */
  static fromUrl(url: string, options: SaverOptions & RemoteOptions = {}): SteleSaver {
    refuseOthers("SteleSaver.fromUrl", options, { ...SAVER, ...REMOTE });
    return new SteleSaver(clientOfURL(url, options), options, parseURL(url).kind === "unix");
  }

  /** setup connects now, and starts a server if there is none. Without it, the first call does. */
  async setup(): Promise<void> {
    await this.client.hello();
  }

  /** close ends the connection. The server ends by itself when nobody uses it. */
  async close(): Promise<void> {
    this.client.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const thread = threadOf(config);
    if (thread === undefined) return undefined;
    const ns = namespaceOf(config);
    const id = getCheckpointId(config);
    // LangGraph leaves an aborted run at once, with saves on their way that the next run goes on from.
    if (!id) await this.places.of(thread, ns).settled();
    const found = await this.read(thread, ns, id);
    return found && this.load(found);
  }

  override async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    refuseOthers("list", options, LIST);
    if (!isFields(options.before ?? {})) {
      throw new InvalidArgumentError(`before is ${shown(options.before)}; it is a config, such as { configurable: { checkpoint_id: "..." } }`);
    }
    const thread = threadOf(config);
    const ns: unknown = config?.configurable?.["checkpoint_ns"] ?? undefined;
    const before: unknown = options.before?.configurable?.["checkpoint_id"] || undefined;
    const filter = dumpFilter("filter", options.filter);
    let left = whole("limit", options.limit);
    if (left !== undefined && left <= 0) return;
    let last: Fields | undefined;
    const items = this.client.stream("list", () => ({
      thread,
      ns,
      id: getCheckpointId(config ?? {}) || undefined,
      filter,
      // A listing that was cut goes on below its last id. If it covers several namespaces
      // or threads, that id may be in others, so the listing begins again.
      ...(last && thread !== undefined && ns !== undefined
        ? { before: last["id"], limit: left }
        : { before, limit: last ? undefined : left }),
    }));
    for await (const item of items) {
      const found = tupleOf(item);
      if (last && !follows(found, last)) continue;
      last = found;
      yield this.load(found);
      if (left !== undefined && --left <= 0) return;
    }
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const thread = needThread(config, "put a checkpoint");
    const ns = namespaceOf(config);
    const parent = getCheckpointId(config);
    const { id } = checkpoint;
    const names = Object.keys(newVersions).filter((name) => Object.hasOwn(checkpoint.channel_values, name));
    const place = this.places.of(thread, ns);
    await this.saving(place, async () => {
      const [values, meta] = await Promise.all([
        Promise.all(names.map(async (name) => [name, await this.dump(checkpoint.channel_values[name])] as const)),
        dumpMetadata(metadata, this.serde instanceof SteleSerializer && this.serde.dropFunctions),
      ]);
      const defer = place.defers(id, parent) && this.deferWrites;
      await this.client.write("put", {
        thread,
        ns,
        parent: parent || undefined,
        checkpoint: {
          v: checkpoint.v,
          id,
          ts: checkpoint.ts,
          values: Object.fromEntries(values),
          versions: checkpoint.channel_versions,
          seen: checkpoint.versions_seen,
        },
        metadata: meta,
        new_versions: newVersions,
        defer_sync: defer || undefined,
      });
      place.put(id, defer);
      if (defer && place.stops(id)) await this.settle();
    });
    return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
  }

  override async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
    taskPath = "",
  ): Promise<void> {
    const thread = needThread(config, "put writes");
    const ns = namespaceOf(config);
    const id = getCheckpointId(config);
    if (!id) throw new InvalidArgumentError("the config has no checkpoint_id; put writes with the config that put returned");
    const done = taskId !== NO_TASK && !writes.some(([channel]) => NEVER_DEFERRED.has(channel));
    // LangGraph has asked for the puts of the checkpoints before this one already.
    const place = this.places.of(thread, ns);
    if (done) place.wrote(id);
    if (writes.some(([channel]) => STOPS.has(channel))) place.stop(id);
    const defer = this.deferWrites && done && !place.stops(id);
    await this.saving(place, async () => {
      const params = {
        thread,
        ns,
        id,
        task: taskId,
        path: taskPath,
        writes: await Promise.all(writes.map(async ([channel, value]) => [channel, await this.dump(value)])),
        defer_sync: defer || undefined,
      };
      try {
        await this.client.write("put_writes", params);
      } catch (error) {
        if (!(error instanceof ThreadDeletedError)) throw error;
        // A thread that was deleted begins anew with its first checkpoint, which may be on its way.
        await place.others();
        await this.client.write("put_writes", params);
      }
      if (defer && place.stops(id)) await this.settle(); // a task has asked or failed meanwhile
    });
  }

  override async deleteThread(threadId: string): Promise<void> {
    const thread: unknown = threadId; // without types it may be missing
    if (thread === undefined || thread === null) throw new InvalidArgumentError(`the thread to delete is ${String(thread)}; pass its id`);
    await this.client.write("delete_thread", { thread: String(thread) });
  }

  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, { writes: CheckpointPendingWrite[]; seed?: unknown }>> {
    const { config, channels } = options;
    const thread = threadOf(config);
    let answer: unknown = {};
    if (thread !== undefined && channels.length > 0) {
      try {
        const id = getCheckpointId(config) || undefined;
        answer = await this.client.read("delta_history", { thread, ns: namespaceOf(config), id, channels });
      } catch (error) {
        if (!(error instanceof NotFoundError)) throw error; // nothing is the history of nothing
      }
    }
    if (!isFields(answer)) throw new ProtocolError("the server sent a history of another form");
    const found = answer;
    return Object.fromEntries(
      await Promise.all(
        channels.map(async (channel) => {
          const { writes, seed } = (Object.hasOwn(found, channel) ? found[channel] : {}) as Fields;
          return [
            channel,
            {
              writes: await this.loadWrites(writes),
              ...(seed === undefined || seed === null ? {} : { seed: await this.loadTyped(seed) }),
            },
          ] as const;
        }),
      ),
    );
  }

  /**
   * getNextVersion counts in integers, as LangGraph does in JavaScript. In a thread that
   * Python began, versions are strings, and it goes on with versions as Python makes them.
   */
  override getNextVersion(current: number | undefined): number {
    const version: unknown = current; // LangGraph's type says number, and its threads may have strings
    if (typeof version !== "string") return (current ?? 0) + 1;
    const next = Number.parseInt(version, 10) + 1;
    if (!Number.isSafeInteger(next)) throw new InvalidArgumentError(`${version} is no version of a channel`);
    return `${String(next).padStart(32, "0")}.${Math.random().toFixed(16)}` as unknown as number;
  }

  /** copyThread copies a thread with all its namespaces. A ThreadExistsError says that the target is in use. */
  async copyThread(sourceThreadId: string, targetThreadId: string): Promise<void> {
    await this.client.write("copy_thread", { thread: sourceThreadId, to: targetThreadId });
  }

  /** deleteForRuns deletes the checkpoints and writes of runs, and keeps what others need to be read. */
  async deleteForRuns(runIds: string[]): Promise<Removal> {
    return removalOf(await this.client.write("delete_for_runs", { runs: runIds }));
  }

  /** prune keeps the newest checkpoint of each namespace of the threads, or deletes the threads. */
  async prune(threadIds: string[], options: { strategy?: "keep_latest" | "delete" } = {}): Promise<Removal> {
    refuseOthers("prune", options, { strategy: true });
    const strategy = options.strategy ?? "keep_latest";
    return removalOf(await this.client.write("prune", { threads: threadIds, strategy }));
  }

  /** erase deletes threads. When it returns, no file of the store holds a byte that only they had. */
  async erase(threadIds: string[]): Promise<void> {
    await this.client.write("erase", { threads: threadIds });
  }

  /** sync settles the calls before it: what can be read when it returns is there for good. */
  async sync(): Promise<void> {
    await this.client.read("sync", {});
  }

  /** threads lists threads in the order of their ids. */
  async *threads(query: ThreadQuery = {}): AsyncGenerator<ThreadInfo> {
    refuseOthers("threads", query, THREADS);
    const limit = whole("limit", query.limit);
    const since = query.updatedSince ?? undefined;
    if (since !== undefined && !(types.isDate(since) && Number.isFinite(since.getTime()))) {
      throw new InvalidArgumentError(`updatedSince is ${shown(since)}; it is a Date`);
    }
    const metadata = dumpFilter("metadata", query.metadata);
    let left = limit;
    if (left !== undefined && left <= 0) return;
    const told = new Set<string>(); // a listing that was cut begins again
    const items = this.client.stream("threads", () => ({
      prefix: query.prefix,
      updated_since: since && since.getTime() * 1000,
      status: query.status,
      metadata,
      limit,
    }));
    for await (const item of items) {
      if (!isFields(item)) throw new ProtocolError("the server sent a thread of another form");
      const threadId = String(item["thread"]);
      if (told.has(threadId)) continue;
      told.add(threadId);
      yield {
        threadId,
        head: String(item["head"] ?? ""),
        updatedAt: new Date(Number(item["updated_at"]) / 1000),
        status: String(item["status"] ?? ""),
        graph: String(item["graph"] ?? ""),
        next: Array.isArray(item["next"]) ? item["next"].map(String) : [],
      };
      if (left !== undefined && --left <= 0) return;
    }
  }

  /**
   * saving makes a save. One that fails is reported when the saves beside it have ended, and
   * when what they deferred is synced: LangGraph ends a run at the first failure, and who runs
   * the thread again must not meet saves that are late.
   */
  private async saving(place: Place, save: () => Promise<void>): Promise<void> {
    place.begin();
    try {
      await save();
    } catch (error) {
      place.fail();
      // A server that does not answer is not waited for a second time.
      if (!(error instanceof SteleConnectionError || error instanceof SteleTimeoutError)) {
        await place.others();
        if (place.owed) await this.sync().catch(() => {});
      }
      throw error;
    } finally {
      place.end();
    }
  }

  /** settle makes durable what was deferred. A store that cannot be asked for that defers nothing. */
  private async settle(): Promise<void> {
    await this.sync().catch((error: unknown) => {
      if (!(error instanceof UnsupportedError)) throw error;
    });
  }

  private async read(thread: string, ns: string, id: string): Promise<Fields | undefined> {
    const answer = await this.client.read("get", { thread, ns, id: id || undefined });
    const tuple = isFields(answer) ? answer["tuple"] : undefined;
    return tuple === undefined || tuple === null ? undefined : tupleOf(tuple);
  }

  private async load(found: Fields): Promise<CheckpointTuple> {
    const thread = String(found["thread"]);
    const ns = String(found["ns"]);
    const at = (id: unknown): RunnableConfig => ({
      configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: String(id) },
    });
    const stored = Object.entries((found["values"] ?? {}) as Fields);
    const [values, metadata, pendingWrites] = await Promise.all([
      Promise.all(stored.map(async ([name, value]) => [name, await this.loadTyped(value)] as const)),
      loadPlain(found["metadata"]),
      this.loadWrites(found["writes"]),
    ]);
    const checkpoint: Checkpoint = {
      v: Number(found["v"]),
      id: String(found["id"]),
      ts: String(found["ts"]),
      channel_values: Object.fromEntries(values),
      channel_versions: (found["versions"] ?? {}) as ChannelVersions,
      versions_seen: (found["seen"] ?? {}) as Checkpoint["versions_seen"],
    };
    const parent = found["parent"];
    const hasParent = typeof parent === "string" && parent !== "";
    if (checkpoint.v < 4 && hasParent) await this.migrateSends(checkpoint, thread, ns, parent);
    return {
      config: at(found["id"]),
      checkpoint,
      metadata: metadata as CheckpointMetadata,
      ...(hasParent ? { parentConfig: at(parent) } : {}),
      pendingWrites,
    };
  }

  /** migrateSends brings packets, which older releases kept as writes of the parent, into the checkpoint. */
  private async migrateSends(checkpoint: Checkpoint, thread: string, ns: string, parent: string): Promise<void> {
    const found = await this.read(thread, ns, parent);
    const sends = (await this.loadWrites(found?.["writes"])).filter(([, channel]) => channel === TASKS);
    checkpoint.channel_values[TASKS] = sends.map(([, , value]) => value);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
  }

  private async loadWrites(writes: unknown): Promise<CheckpointPendingWrite[]> {
    if (writes === undefined || writes === null) return [];
    if (!Array.isArray(writes)) throw new ProtocolError("the server sent writes of another form");
    return Promise.all(
      writes.map(async (write: unknown) => {
        const [task, channel, value] = write as unknown[];
        return [String(task), String(channel), await this.loadTyped(value)] as CheckpointPendingWrite;
      }),
    );
  }

  private async dump(value: unknown): Promise<Typed> {
    const [type, data] = await this.serde.dumpsTyped(value);
    return [type, data];
  }

  private loadTyped(value: unknown): Promise<unknown> {
    const [type, data] = asTyped(value);
    // A serializer may return what it is given, which is a part of a whole answer.
    return this.serde.loadsTyped(type, type === "bytes" || type === "bytearray" ? data.slice() : data);
  }
}

function threadOf(config: RunnableConfig | undefined): string | undefined {
  const thread: unknown = config?.configurable?.["thread_id"];
  return thread === undefined || thread === null || thread === "" ? undefined : String(thread);
}

function needThread(config: RunnableConfig, what: string): string {
  const thread = threadOf(config);
  if (thread !== undefined) return thread;
  throw new InvalidArgumentError(
    `cannot ${what} without a thread: pass { configurable: { thread_id: "..." } } to the graph`,
  );
}

function namespaceOf(config: RunnableConfig): string {
  return String(config.configurable?.["checkpoint_ns"] ?? "");
}

function tupleOf(item: unknown): Fields {
  if (isFields(item) && typeof item["id"] === "string") return item;
  throw new ProtocolError("the server sent a tuple of another form");
}

/** follows reports whether a tuple comes after another in a listing: by id descending, then thread, then namespace. */
function follows(tuple: Fields, last: Fields): boolean {
  return (
    order(last["id"], tuple["id"]) || order(tuple["thread"], last["thread"]) || order(tuple["ns"], last["ns"])
  ) > 0;
}

/** order compares names by their bytes, as the store does. */
function order(a: unknown, b: unknown): number {
  return Buffer.compare(Buffer.from(String(a)), Buffer.from(String(b)));
}

function removalOf(answer: unknown): Removal {
  if (!isFields(answer)) throw new ProtocolError("the server sent a removal of another form");
  return {
    checkpoints: Number(answer["checkpoints"] ?? 0),
    writes: Number(answer["writes"] ?? 0),
    kept: (answer["kept"] ?? []) as Removal["kept"],
    keptTotal: Number(answer["kept_total"] ?? 0),
  };
}
