// What an agent asks: LangChain's request to approve calls of tools, in both of its forms, and any
// other question.

import { isFields, resolved, scalarOf } from "./json";
import { list, word } from "./text";
import type { Fields, Interrupt, Json } from "./types";

export const decisions = ["approve", "edit", "reject", "respond"] as const;
export type Decision = (typeof decisions)[number];

// Action is a call that a person decides about.
export interface Action {
  name: string;
  args: Fields;
  about: string;
  allowed: Decision[];
  // schema describes the arguments, as far as the question tells it.
  schema?: Fields;
}

// Review is a request to approve calls. It is answered with a decision about each, or, if it is about one
// call alone (HumanInTheLoopMiddleware's per_call), with that decision.
export interface Review {
  actions: Action[];
  alone: boolean;
}

const allowedOf = (it: Json | undefined) => decisions.filter((d) => Array.isArray(it) && it.includes(d));

// reviewOf reads a request to approve calls; it is undefined for another question, and for a request
// that does not say what may be decided.
export function reviewOf({ value, response_schema: schema }: Interrupt): Review | undefined {
  if (!isFields(value)) return undefined;
  let actions: (Action | undefined)[];
  const alone = value.type === "tool_approval";
  if (alone) {
    const root = isFields(schema) ? schema : {};
    const branches = (Array.isArray(root.oneOf) ? root.oneOf : [root]).map((b) => resolved(b, root).properties).filter(isFields);
    const kinds = branches.map((b) => resolved(b.type, root).const ?? null);
    const edited = branches.map((b) => resolved(b.edited_action, root).properties).find(isFields);
    actions = [actionOf(value, allowedOf(kinds), edited && resolved(edited.args, root))];
  } else {
    const configs = list(value.review_configs as Fields[]);
    actions = list(value.action_requests as Fields[]).map((a, i) => {
      const config = configs[i]?.action_name === a.name ? configs[i] : configs.find((c) => c.action_name === a.name);
      return actionOf(a, allowedOf(config?.allowed_decisions));
    });
  }
  return actions.length > 0 && actions.every((a) => a !== undefined) ? { actions, alone } : undefined;
}

function actionOf(a: Fields, allowed: Decision[], schema?: Fields): Action | undefined {
  const args = a.args ?? {};
  if (typeof a.name !== "string" || !isFields(args) || allowed.length === 0) return undefined;
  // LangChain's own description repeats the name and the arguments, which are shown.
  const about = word(a.description).replace(/\n\nTool: [^\n]*\nArgs: [^]*$/, "");
  return { name: a.name, args, about: about === "Tool execution requires approval" ? "" : about, allowed, schema };
}

// leads are names under which programs put the question itself.
const leads = ["question", "message", "prompt", "text", "title", "description", "query", "action"];

// leadOf is the sentence of a question, and the name under which it stands.
export function leadOf(value: Json): [string, string | undefined] {
  if (typeof value === "string") return [value, undefined];
  const name = isFields(value) ? leads.find((n) => typeof value[n] === "string" && value[n] !== "") : undefined;
  return name === undefined ? ["", undefined] : [word((value as Fields)[name]), name];
}

// inWords says a question in a line.
export function inWords(q: Interrupt): string {
  const review = reviewOf(q);
  if (review) return review.actions.map((a) => [a.name, argsInWords(a.args)].filter(Boolean).join(": ")).join(" · ");
  return leadOf(q.value)[0] || (isFields(q.value) ? argsInWords(q.value) : word(q.value));
}

function argsInWords(args: Fields): string {
  return Object.entries(args)
    .slice(0, 6)
    .map(([name, v]) => `${name} ${(scalarOf(v) ?? (Array.isArray(v) ? `(${v.length})` : "{…}")).replace(/\s+/g, " ").slice(0, 80)}`)
    .join(", ");
}
