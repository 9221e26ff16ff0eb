/** What callers give, beside what they store. Without types it may be anything. */
import { inspect } from "node:util";
import { InvalidArgumentError } from "./errors.js";

/** shown is what was given, for a message: a text is seen to be one. */
export function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : inspect(value, { depth: 0, breakLength: Infinity });
}

/** refuseOthers refuses options that are none of a call: one that is misspelled would be ignored. */
export function refuseOthers(call: string, given: object, known: Record<string, true>): void {
  const names = Object.keys(known).join(", ");
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new InvalidArgumentError(`the options of ${call} are ${shown(given)}; pass an object with some of these: ${names}`);
  }
  const other = Object.keys(given).find((name) => !Object.hasOwn(known, name));
  if (other !== undefined) throw new InvalidArgumentError(`${call} has no option ${shown(other)}; it has ${names}`);
}

/** whole is a limit, an offset or a depth, as every server takes it; undefined for none. */
export function whole(name: string, value: unknown, least = 0): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) return value;
  throw new InvalidArgumentError(`${name} is ${shown(value)}; it is a whole number, ${least} or more, and is left out for none`);
}

/** milliseconds is the value of an option. Node has no timers of more than 24 days. */
export function milliseconds(name: string, given: unknown, otherwise: number): number {
  const value = given ?? otherwise;
  if (typeof value === "number" && value > 0) return Math.min(value, 2 ** 31 - 1);
  throw new InvalidArgumentError(`${name} is ${shown(value)}; it is milliseconds, more than 0`);
}
