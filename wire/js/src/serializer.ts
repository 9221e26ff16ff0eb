/**
 * Values as LangGraph's serializers make them.
 *
 * JavaScript's JsonPlusSerializer writes `json`, and Python's writes `msgpack` with
 * extension types for what MessagePack does not have. A thread may have values of both.
 */
import {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  FunctionMessage,
  HumanMessage,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
  isBaseMessage,
} from "@langchain/core/messages";
import { DeltaSnapshot, JsonPlusSerializer } from "@langchain/langgraph-checkpoint";
import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { Decoder, ExtensionCodec, encode } from "@msgpack/msgpack";
import { types } from "node:util";
import { reason } from "./address.js";
import { InvalidArgumentError, ProtocolError, UnreadableValueError } from "./errors.js";
import { refuseOthers, shown } from "./options.js";
import { isFields, refuseHalf } from "./wire.js";

/**
 * SteleSerializer writes what LangGraph's JsonPlusSerializer writes, and reads that and
 * what Python's serializer writes.
 *
 * Of Python's values, messages of LangChain become messages, a set becomes a Set, a
 * datetime a Date (to the millisecond), a compiled pattern without flags a RegExp, a UUID,
 * a Decimal, an address, a date, or a path a string, an integer beyond 2^53 a bigint, and
 * an enum its value. Other objects become plain objects of their fields, or arrays of
 * the arguments that make them. A NumPy array, a pickled value and a map with the key
 * `__proto__` are an UnreadableValueError.
 *
 * What JSON does not have is stored as LangGraph's savers store it: a Set, a Map, a RegExp,
 * bytes and undefined come back, an Error with its message, a Date as its text, NaN and the
 * infinities as null, -0 as 0, a circle as the text "[Circular]", a Buffer in another value as
 * what its toJSON returns, an object of another class as its fields, without its methods. What
 * LangGraph's savers lose is an InvalidArgumentError: a function, a symbol or a bigint as a
 * value, or anywhere in one; an object of a class that has no fields to keep, such as an
 * ArrayBuffer, a Promise or a Blob; a key that is a symbol, or `__proto__`; and properties of an
 * array, a Map or a Set beside its elements. Of the result of a match, its elements are stored;
 * one with named groups is an InvalidArgumentError, too.
 */
export class SteleSerializer implements SerializerProtocol {
  private readonly json = new JsonPlusSerializer();
  /** dropFunctions: functions and symbols are left out, also of metadata. */
  readonly dropFunctions: boolean;

  /**
   * With dropFunctions, functions and symbols are left out without an error, as LangGraph's
   * savers do it: in a list they become null, and as the whole value undefined.
   */
  constructor(options: { dropFunctions?: boolean } = {}) {
    refuseOthers("SteleSerializer", options, { dropFunctions: true });
    this.dropFunctions = options.dropFunctions ?? false;
  }

  async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
    const seen = new Set<object>();
    try {
      refuseLost("a value", value, seen, this.dropFunctions);
      const [type, data] = await this.json.dumpsTyped(value);
      for (const one of seen) if (isLikeStored(one)) await this.refuseUnreadable(one);
      if (typeof value === "string" || !LOST.equals(data)) return [type, data];
    } catch (cause) {
      if (cause instanceof InvalidArgumentError) throw cause;
      // Nested too deeply for the stack, frozen around a circle, or its own code has thrown.
      throw new InvalidArgumentError(`a value cannot be made JSON: ${reason(cause)}; store what it is made from`, { cause });
    }
    throw new InvalidArgumentError("a value is no JSON: it has a bigint, or a Map or a Set that is inside itself; store numbers, strings or ids");
  }

  /** refuseUnreadable refuses an object that would be read as what made it, which does not exist. */
  private async refuseUnreadable(value: object): Promise<void> {
    const [type, data] = await this.json.dumpsTyped(value);
    await this.json.loadsTyped(type, data).catch((cause: unknown) => {
      throw new InvalidArgumentError(
        `a value has the form in which LangChain stores objects (lc: 1, type: "constructor"), and cannot be read back: ${reason(cause)}; name one of these fields otherwise`,
        { cause },
      );
    });
  }

  async loadsTyped(type: string, data: Uint8Array | string): Promise<unknown> {
    switch (type) {
      case "null":
        return null;
      case "bytearray":
        return data;
      case "msgpack":
        return unpack(typeof data === "string" ? new TextEncoder().encode(data) : data);
      case "json":
        // What JSON leaves out: undefined, a function, a symbol.
        if (data.length === 0) return undefined;
        try {
          return await this.json.loadsTyped(type, data);
        } catch (cause) {
          throw new UnreadableValueError(`a stored value cannot be read: ${reason(cause)}`, { cause });
        }
      case "bytes":
        return this.json.loadsTyped(type, data);
      default:
        throw new UnreadableValueError(`a stored value is of the kind ${type}`);
    }
  }
}

/** Typed is a serialized value as it is on the wire. */
export type Typed = [type: string, data: Uint8Array];

const plain = new SteleSerializer();
const dropping = new SteleSerializer({ dropFunctions: true });

/** LOST is what LangGraph's serializer writes for a value that JSON cannot hold, a bigint say. */
const LOST = Buffer.from('"[unable to serialize, circular reference is too complex to analyze]"');
const text = new TextEncoder();

/**
 * dumpPlain serializes data that the server has to read: a filter, or the value of an
 * item. What is undefined is left out. What JSON would lose is an InvalidArgumentError.
 */
export function dumpPlain(value: unknown): Typed {
  try {
    return plainTyped(JSON.stringify(value, refuseLoss));
  } catch (cause) {
    if (cause instanceof InvalidArgumentError) throw cause;
    throw new InvalidArgumentError(`a value is no JSON: ${reason(cause)}`, { cause });
  }
}

/** dumpFilter serializes a filter; undefined for none. Where it has undefined, it asks for what is missing. */
export function dumpFilter(name: string, filter: unknown): Typed | undefined {
  if (filter === undefined || filter === null) return undefined;
  if (!isFields(filter) || isBare(filter)) {
    throw new InvalidArgumentError(`${name} is ${shown(filter)}; it is an object, such as { user: "ada" }`);
  }
  const fields = Object.entries(filter).map(([key, value]) => [key, value === undefined ? null : value] as const);
  return fields.length > 0 ? dumpPlain(Object.fromEntries(fields)) : undefined;
}

/**
 * plainTyped is JSON that the server reads. It reads an integer beyond 2^53 as one, which would
 * come back as a bigint, so those go as floats, which they are.
 */
function plainTyped(json: string): Typed {
  if (!/\d{16}/.test(json)) return ["json", text.encode(json)];
  return ["msgpack", encode(JSON.parse(json), { maxDepth: Infinity })];
}

/** refuseLoss is a replacer that refuses what JSON or the server would lose. It is called with what has the key as this. */
function refuseLoss(this: Record<string, unknown>, key: string, value: unknown): unknown {
  if (key === "__proto__") throw new InvalidArgumentError("a value has the key __proto__, which is not read back; use another");
  refuseHalf(JSON.stringify(key), key);
  if (typeof value === "string") refuseHalf(JSON.stringify(key), value);
  const inList = Array.isArray(this);
  const name = inList ? `element ${key} of a list` : key === "" ? "the value" : key;
  const given = this[key]; // of a Buffer or a Date, value is what its toJSON returns
  const lost = types.isDate(given) ? value === null : value === undefined ? inList : typeof value === "number" && !Number.isFinite(value);
  if (typeof value === "function" || typeof value === "symbol" || lost) {
    throw new InvalidArgumentError(`${name} is ${shown(types.isDate(given) ? given : value)}, which JSON does not have; leave it out, or store null or a string`);
  }
  if (ArrayBuffer.isView(given)) {
    throw new InvalidArgumentError(`${name} is ${aClass(given)}, which JSON does not have; store a list of numbers, or a string such as Buffer.from(bytes).toString("base64")`);
  }
  if (typeof value !== "object" || value === null) return value;
  if (!Array.isArray(value) && (isBare(value) || value instanceof Error)) {
    const how = value instanceof Map ? "store its content, such as Object.fromEntries(map), which makes strings of its keys" : "store its content";
    throw new InvalidArgumentError(`${name} is ${aClass(value)}, of which JSON keeps nothing; ${how}`);
  }
  refuseSymbols(name, value);
  return value;
}

/** refuseSymbols refuses a list or an object of no class that has a symbol as a key. */
function refuseSymbols(name: string, value: object): void {
  const symbol = Object.getOwnPropertySymbols(value).find((key) => Object.prototype.propertyIsEnumerable.call(value, key));
  if (symbol !== undefined && (isList(value) || isPlain(value))) {
    throw new InvalidArgumentError(`${name} has the key ${String(symbol)}, which has no JSON; use a string`);
  }
}

function isList(value: object): value is any[] | Map<any, any> | Set<any> {
  return Array.isArray(value) || value instanceof Map || value instanceof Set;
}

/**
 * refuseLost refuses what LangGraph's serializer leaves out, or writes as null in a list. An
 * object of a class is stored as its fields, and a function is a method of it. seen has the
 * objects that were looked at. With drop, functions and symbols may be lost.
 */
function refuseLost(name: string, value: unknown, seen: Set<object>, drop: boolean): void {
  if (typeof value === "function" || typeof value === "symbol") {
    if (drop) return;
    throw new InvalidArgumentError(`${name} is a ${typeof value}, which has no JSON; store what it is made from, use an UntrackedValue, or make the saver with the option serde: new SteleSerializer({ dropFunctions: true })`);
  }
  if (typeof value !== "object" || value === null || seen.has(value)) return;
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return;
  seen.add(value);
  // The fields of a message are what its toJSON returns, which takes longer than all the rest.
  if ("toJSON" in value && typeof value.toJSON === "function" && !isBaseMessage(value)) {
    refuseLost(name, value.toJSON(""), seen, drop);
    return;
  }
  // Of these the serializer takes what makes them anew, and looks at no field.
  if (value instanceof Error || value instanceof RegExp) return;
  const plain = isPlain(value);
  if (!drop) refuseSymbols(name, value);
  const keys = Object.keys(value);
  if (Object.hasOwn(value, "__proto__")) throw new InvalidArgumentError(`${name} has the key __proto__, which is not read back; use another`);
  if (!isList(value)) {
    if (isBare(value)) throw new InvalidArgumentError(`${name} is ${aClass(value)}, of which JSON keeps nothing; store its content`);
    for (const key of keys) {
      const field: unknown = value[key as keyof typeof value];
      if (plain || typeof field !== "function") refuseLost(key, field, seen, drop);
    }
    return;
  }
  const last = keys.at(-1); // the indices of an array come before its other keys
  if (last !== undefined && !(Array.isArray(value) && (/^\d+$/.test(last) || isMatch(value)))) {
    throw new InvalidArgumentError(`${name} has the property ${last} beside its elements, which are all that is stored; store it by itself`);
  }
  const one = `an element of ${name}`;
  for (const element of value) {
    if (value instanceof Map) {
      refuseLost(one, element[0], seen, drop);
      refuseLost(one, element[1], seen, drop);
    } else {
      refuseLost(one, element, seen, drop);
    }
  }
}

/**
 * isPlain is true for an object of no class. One of another realm, such as of a test runner's,
 * has another Object.prototype.
 */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** isLikeStored is true for an object of no class that looks as LangChain stores one of a class. */
function isLikeStored(value: object): boolean {
  const { lc, type, id } = value as Record<string, unknown>;
  return lc === 1 && type === "constructor" && Array.isArray(id) && isPlain(value);
}

/** isBare is true for an object of a class of which JSON has nothing: {}. */
function isBare(value: object): boolean {
  const boxed = value instanceof Number || value instanceof Boolean || value instanceof String;
  return !boxed && !isPlain(value) && Object.keys(value).length === 0;
}

/** aClass is the class of an object, in words. Generators and iterators have none of their own. */
function aClass(value: object): string {
  const name: unknown = value.constructor?.name;
  const tag = Object.prototype.toString.call(value).slice(8, -1); // such as Array Iterator
  const known = name && name !== "Object" && name !== "Iterator" ? String(name) : tag;
  if (known === "Object") return "an object of a class without a name";
  return `${/^[AEIO]/.test(known) ? "an" : "a"} ${known}`;
}

/** isMatch is true for what String.match returns, if it has no named groups. */
function isMatch(value: unknown[]): boolean {
  const { index, input, groups } = value as Partial<RegExpMatchArray>;
  return typeof index === "number" && typeof input === "string" && groups === undefined && "groups" in value;
}

/** dumpMetadata serializes metadata of a checkpoint, as LangGraph's savers do. drop leaves functions and symbols out. */
export async function dumpMetadata(metadata: object, drop: boolean): Promise<Typed> {
  const [, data] = await (drop ? dropping : plain).dumpsTyped(metadata);
  return plainTyped(Buffer.from(data.buffer, data.byteOffset, data.length).toString());
}

/**
 * loadPlain reads metadata, which the server has read and answered. JavaScript's serializer has
 * objects for messages (lc: 1) and for what JSON lacks (lc: 2). They went through the server as
 * they were.
 */
export async function loadPlain(typed: unknown): Promise<unknown> {
  const value = await plain.loadsTyped(...asTyped(typed));
  return marked(value, 1) || marked(value, 2) ? revived(value) : value;
}

/** loadItem reads an item's value. dumpPlain writes messages alone as objects of their own: those for what JSON lacks are the user's. */
export async function loadItem(typed: unknown): Promise<unknown> {
  const value = await plain.loadsTyped(...asTyped(typed));
  return marked(value, 1) && !marked(value, 2) ? revived(value) : value;
}

function revived(value: unknown): Promise<unknown> {
  return plain.loadsTyped("json", JSON.stringify(value)).catch(() => value); // it only looks like one
}

/** asTyped is a typed value of an answer. */
export function asTyped(value: unknown): Typed {
  if (Array.isArray(value) && typeof value[0] === "string" && value[1] instanceof Uint8Array) return value as Typed;
  throw new ProtocolError("the server sent a value of another form");
}

/** marked reports whether a value has an object that LangChain's reader would replace. */
function marked(value: unknown, lc: 1 | 2): boolean {
  if (typeof value !== "object" || value === null) return false;
  return ("lc" in value && value.lc === lc && "type" in value) || Object.values(value).some((inner) => marked(inner, lc));
}

const extensions = new ExtensionCodec();
for (const [type, read] of [
  [0, (module, name, argument) => ofOne(module, name, argument)],
  [1, (module, name, args) => ofMany(module, name, args)],
  [2, (_, __, fields) => fields],
  [3, (_, name, argument, method) => (name === "datetime" && method === "fromisoformat" ? date(argument) : argument)],
  [4, (module, name, fields) => ofModel(module, name, fields)],
  [5, (module, name, fields) => ofModel(module, name, fields)],
] as [number, (module: unknown, name: unknown, argument: unknown, method: unknown) => unknown][]) {
  extensions.register({
    type,
    encode: () => null,
    decode: (data) => {
      const made = decode(data);
      if (!Array.isArray(made) || made.length < 3) throw new UnreadableValueError("an extension of a value is damaged");
      return read(made[0], made[1], made[2], made[3]);
    },
  });
}
extensions.register({
  type: 6,
  encode: () => null,
  decode: () => {
    throw new UnreadableValueError("a stored value is an array of NumPy");
  },
});
extensions.register({ type: 7, encode: () => null, decode: (data) => new DeltaSnapshot(decode(data)) });

function unpack(data: Uint8Array): unknown {
  try {
    return decode(data);
  } catch (cause) {
    if (cause instanceof UnreadableValueError) throw cause;
    throw new UnreadableValueError(`a stored value cannot be read: ${reason(cause)}`, { cause });
  }
}

const decoder = new Decoder({
  extensionCodec: extensions,
  useBigInt64: true,
  mapKeyConverter: (key) => (typeof key === "string" || typeof key === "number" ? key : String(key)),
});

/** decode is called again by the extensions of what it decodes. */
function decode(data: Uint8Array): unknown {
  return narrow(decoder.decode(data));
}

/** narrow makes numbers of the integers that a number can hold. */
function narrow(value: unknown): unknown {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) value[i] = narrow(value[i]);
  } else if (typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype) {
    const fields = value as Record<string, unknown>;
    for (const name of Object.keys(fields)) fields[name] = narrow(fields[name]);
  }
  return value;
}

/** ofOne is an object that Python makes of one argument. */
function ofOne(module: unknown, name: unknown, argument: unknown): unknown {
  if (module === "builtins" && (name === "set" || name === "frozenset") && Array.isArray(argument)) {
    return new Set(argument);
  }
  if (module === "uuid" && name === "UUID") {
    return String(argument).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  }
  return argument;
}

/** ofMany is an object that Python makes of several arguments. */
function ofMany(module: unknown, name: unknown, args: unknown): unknown {
  if (!Array.isArray(args)) return args;
  if (module === "langgraph.types" && name === "Send") return { lg_name: "Send", node: args[0], args: args[1] };
  if (module === "datetime" && name === "date") {
    const [year, month, day] = args.map((part) => String(part).padStart(2, "0"));
    return `${String(year).padStart(4, "0")}-${month}-${day}`;
  }
  // 32 says that the pattern is text, as every one of JavaScript is.
  if (module === "re" && name === "compile" && args[1] === 32) return pattern(String(args[0])) ?? args;
  if (String(module).startsWith("pathlib")) return args.join("/").replace(/^\/\//, "/");
  return args;
}

function pattern(source: string): RegExp | undefined {
  try {
    return new RegExp(source, "u");
  } catch {
    return undefined; // the languages differ in what a pattern is
  }
}

function date(iso: unknown): unknown {
  // A time without a zone is read as UTC, so that it is the same one on every machine.
  const zoned = /(Z|[+-]\d\d:?\d\d(:?\d\d(\.\d+)?)?)$/.test(String(iso)) ? String(iso) : `${String(iso)}Z`;
  const made = new Date(zoned);
  return Number.isNaN(made.getTime()) ? iso : made;
}

/** ofModel is a Pydantic object: a message of LangChain, or else its fields. */
function ofModel(module: unknown, name: unknown, fields: unknown): unknown {
  if (!String(module).startsWith("langchain_core.messages") || typeof fields !== "object" || fields === null) {
    return fields;
  }
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as never;
  switch (name) {
    case "HumanMessage":
      return new HumanMessage(given);
    case "AIMessage":
      return new AIMessage(given);
    case "AIMessageChunk":
      return new AIMessageChunk(given);
    case "SystemMessage":
      return new SystemMessage(given);
    case "ToolMessage":
      return new ToolMessage(given);
    case "FunctionMessage":
      return new FunctionMessage(given);
    case "ChatMessage":
      return new ChatMessage(given);
    case "RemoveMessage":
      return new RemoveMessage(given);
    default:
      return fields;
  }
}
