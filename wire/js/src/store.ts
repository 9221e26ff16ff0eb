import { BaseStore, InvalidNamespaceError } from "@langchain/langgraph-checkpoint";
import type { Item, Operation, OperationResults, SearchItem } from "@langchain/langgraph-checkpoint";
import { LOCAL, REMOTE, clientOfDirectory, clientOfURL } from "./client.js";
import type { Client, LocalOptions, RemoteOptions } from "./client.js";
import { InvalidArgumentError, ProtocolError } from "./errors.js";
import { refuseOthers, shown, whole } from "./options.js";
import { dumpFilter, dumpPlain, loadItem } from "./serializer.js";
import { isFields } from "./wire.js";
import type { Fields } from "./wire.js";

/**
 * SteleStore keeps LangGraph's long-term memory in a stele store. It may be the store that
 * a SteleSaver has its checkpoints in.
 *
 * A batch is one transaction: its reads see one state of the store, and its writes are
 * all there or none. A batch that writes returns when that is on disk. Values are what
 * JSON can hold: what it would lose or change, such as a function, a Map, bytes, a bigint or
 * NaN, is an InvalidArgumentError. A field that is undefined is left out, and a Date becomes
 * its text. In a filter, undefined finds what
 * is missing or null. A search finds the items that were changed last first, and one with a
 * query is an InvalidArgumentError: the server has no embeddings.
 */
export class SteleStore extends BaseStore {
  private constructor(private readonly client: Client) {
    super();
  }

  /** fromDir is the store in a directory; see SteleSaver.fromDir. */
  static fromDir(directory: string, options: LocalOptions = {}): SteleStore {
    refuseOthers("SteleStore.fromDir", options, LOCAL);
    return new SteleStore(clientOfDirectory(directory, options));
  }

  /** fromUrl is the store of a server that runs elsewhere; see SteleSaver.fromUrl. */
  static fromUrl(url: string, options: RemoteOptions = {}): SteleStore {
    refuseOthers("SteleStore.fromUrl", options, REMOTE);
    return new SteleStore(clientOfURL(url, options));
  }

  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    if (operations.length === 0) return [] as unknown as OperationResults<Op>;
    const asked = operations.map(operationOf);
    const writes = asked.some(({ op }) => op === "put");
    const answer = writes
      ? await this.client.write("store_batch", { ops: asked })
      : await this.client.read("store_batch", { ops: asked });
    if (!Array.isArray(answer) || answer.length !== asked.length) {
      throw new ProtocolError("the server answered a batch with another number of answers");
    }
    return (await Promise.all(
      asked.map(({ op, limit }, i) => answerOf(op, limit === 0 ? [] : answer[i])),
    )) as unknown as OperationResults<Op>;
  }

  override async search(...[namespacePrefix, options = {}]: Parameters<BaseStore["search"]>): Promise<SearchItem[]> {
    refuseOthers("search", options, { filter: true, limit: true, offset: true, query: true });
    return super.search(namespacePrefix, options);
  }

  override async listNamespaces(options: Parameters<BaseStore["listNamespaces"]>[0] = {}): Promise<string[][]> {
    refuseOthers("listNamespaces", options, { prefix: true, suffix: true, maxDepth: true, limit: true, offset: true });
    return super.listNamespaces(options);
  }

  /** setup connects now, and starts a server if there is none. Without it, the first call does. */
  async setup(): Promise<void> {
    await this.client.hello();
  }

  /** stop ends the connection; so does close. */
  override stop(): void {
    this.client.close();
  }

  /** close ends the connection. The server ends by itself when nobody uses it. */
  async close(): Promise<void> {
    this.client.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** toJSON keeps a config that has a store from being written with the store's inside. */
  toJSON(): string {
    return "[SteleStore]";
  }
}

function operationOf(operation: Operation): Fields {
  if ("namespacePrefix" in operation) {
    const { namespacePrefix, filter, limit, offset, query } = operation;
    return {
      op: "search",
      prefix: namespacePrefix,
      filter: dumpFilter("filter", filter),
      limit: whole("limit", limit) ?? 10,
      offset: whole("offset", offset) ?? 0,
      query: query || undefined,
    };
  }
  if ("key" in operation && typeof operation.key !== "string") {
    throw new InvalidArgumentError(`the key of an item is ${shown(operation.key)}; it is a string`);
  }
  if ("value" in operation) {
    const { namespace, key, value, index } = operation;
    if (namespace.length === 0) throw new InvalidNamespaceError("Namespace cannot be empty.");
    if (typeof value !== "object" || Array.isArray(value)) {
      throw new InvalidArgumentError(`the value of an item is an object, and ${key} is ${Array.isArray(value) ? "a list" : typeof value}; put it into one, such as { value }`);
    }
    return { op: "put", namespace, key, value: value === null ? null : dumpPlain(value), index };
  }
  if ("key" in operation) return { op: "get", namespace: operation.namespace, key: operation.key };
  const { matchConditions, maxDepth, limit, offset } = operation;
  return {
    op: "namespaces",
    match: matchConditions?.map(({ matchType, path }) => [matchType, path]),
    max_depth: whole("maxDepth", maxDepth, 1),
    limit: whole("limit", limit),
    offset: whole("offset", offset),
  };
}

async function answerOf(op: unknown, answer: unknown): Promise<unknown> {
  switch (op) {
    case "get":
      return answer === null || answer === undefined ? null : itemOf(answer);
    case "search":
      return Promise.all(((answer ?? []) as unknown[]).map(itemOf));
    case "namespaces":
      return answer ?? [];
    default:
      return undefined;
  }
}

async function itemOf(answer: unknown): Promise<Item | SearchItem> {
  if (!isFields(answer)) throw new ProtocolError("the server sent an item of another form");
  const { namespace, key, value, created_at, updated_at, score } = answer;
  return {
    namespace: namespace as string[],
    key: String(key),
    value: (await loadItem(value)) as Record<string, unknown>,
    createdAt: new Date(Number(created_at) / 1000),
    updatedAt: new Date(Number(updated_at) / 1000),
    ...(typeof score === "number" ? { score } : {}),
  };
}
