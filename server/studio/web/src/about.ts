// What a person calls a thread, and how it stands, in words.

import { asMessages, callsOf, type Message, textOf, toolOf } from "./messages";
import { inWords } from "./questions";
import { causeOf, spent, word } from "./text";
import { isFields } from "./json";
import { asksOf, waitInWords, waitsOf } from "./tree";
import type { Interrupt, Thread } from "./types";

const most = 160;

// lastWords are the words of a message for a person. What a tool answered is for the model.
function lastWords(m: Message): string {
  const type = m.type.toLowerCase();
  if (type.startsWith("tool") || type.startsWith("system")) return "";
  const calls = callsOf(m).map(toolOf).filter(Boolean);
  return textOf(m.content) || (calls.length ? "calls " + calls.join(", ") : "");
}

// describe reads the title and the line about a thread from its values, as stele's server does where it
// is asked for them instead.
function describe(t: Thread): { title: string; line: string } {
  if (typeof t.stele_about === "string" || typeof t.stele_title === "string") return { title: word(t.stele_title), line: word(t.stele_about) };
  const values = t.values !== null && typeof t.values === "object" ? t.values : {};
  for (const value of Object.values(values)) {
    const messages = asMessages(value) ?? [];
    const said = messages.find((m) => m.type.startsWith("human") && textOf(m.content));
    const line = messages.map(lastWords).findLast(Boolean);
    if (line) return { title: said ? textOf(said.content).slice(0, most) : "", line: line.slice(0, most) };
  }
  const texts = Object.entries(values).flatMap(([k, v]) => (typeof v === "string" && v ? [`${k}: ${v.slice(0, 60)}`] : []));
  return { title: "", line: texts.join(" · ").slice(0, most) };
}

const oneLine = (text: string) => text.replace(/\s+/g, " ").trim();

// titleOf is what a thread is called, and lineOf what else a list says of it: what it waits for, why it
// failed, or its last words.
export const titleOf = (t: Thread) => oneLine(word(t.metadata?.title) || describe(t).title || describe(t).line || graphOf(t));

export function lineOf(t: Thread): string {
  const asked = questionsOf(t);
  if (asked.length > 0) return oneLine(asked.map(inWords).join(" · "));
  const other = sleepOf(t) || failureOf(t);
  if (other) return oneLine(other);
  const line = oneLine(describe(t).line);
  return line === titleOf(t) ? "" : line;
}

const interruptsOf = (t: Thread, which: typeof asksOf): Interrupt[] => Object.values(t.interrupts ?? {}).flatMap((interrupts) => which({ interrupts }));
export const questionsOf = (t: Thread) => interruptsOf(t, asksOf);
// sleepOf is what a thread waits for that asks nobody, in words; "" if it asks somebody, or does not wait.
export const sleepOf = (t: Thread) => (questionsOf(t).length ? "" : interruptsOf(t, waitsOf).map(waitInWords).join("; "));

// failureOf is why the last run of a thread failed.
export function failureOf(t: Thread): string {
  if (t.status !== "error") return "";
  return causeOf(word(isFields(t.error) ? t.error.message : t.error));
}

export const graphOf = (t: Thread) => word(t.metadata?.graph_id);

// owners are the names in metadata under which programs keep whose a thread is.
const owners = ["owner", "langgraph_auth_user_id", "user_id", "user"];

// ownerOf is whose a thread is, and the name in its metadata that says so.
export function ownerOf(t: Thread): { name: string; key: string } | undefined {
  const key = owners.find((k) => typeof t.metadata?.[k] === "string" && t.metadata[k] !== "");
  return key === undefined ? undefined : { name: word(t.metadata[key]), key };
}

// changedOf is when a thread was changed last; NaN if the server does not tell.
export const changedOf = (t: Thread) => Date.parse(word(t.updated_at));

// lastedOf is the time from the beginning of a thread to its last change.
export function lastedOf(t: Thread): string {
  const ms = changedOf(t) - Date.parse(word(t.created_at));
  return ms > 0 ? spent(ms) : "";
}
