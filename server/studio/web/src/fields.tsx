// Fields for a value that a JSON Schema describes, or that has the shape of another value.

import { Validator, type Schema } from "@cfworker/json-schema";
import { isFields, isNumber, parse, resolved, rounded, scalarOf } from "./json";
import { visible, word } from "./text";
import type { Fields, Json } from "./types";

// Wrong is what is wrong with what a person wrote, and in which field.
export class Wrong extends Error {
  constructor(readonly field: string, message: string) {
    super(message);
  }
}

export interface Field {
  name: string;
  title: string;
  kind: "choice" | "boolean" | "integer" | "number" | "text" | "json";
  required: boolean;
  value?: Json;
  hint?: string;
  choices?: Json[];
}

// fieldOf is the field for one value. What has no field of its own is written as JSON.
export function fieldOf(name: string, given: Json | undefined, root: Fields, required: boolean, value?: Json): Field {
  let schema = resolved(given, root);
  let nullable = false;
  const either = [schema.anyOf, schema.oneOf].find(Array.isArray);
  if (either) {
    const others = either.map((s) => resolved(s, root)).filter((s) => s.type !== "null");
    nullable = others.length < either.length;
    if (others.length === 1) schema = { ...schema, ...others[0] };
    else if (others.length > 1 && others.every((s) => s.const !== undefined)) schema = { ...schema, enum: others.map((s) => s.const!) };
  }
  if (value === undefined) value = schema.default;
  if (value === null && nullable) value = undefined; // an empty field
  const field: Field = { name, title: word(schema.title) || name, kind: "json", required: required && !nullable && schema.default === undefined, value };
  if (typeof schema.description === "string") field.hint = schema.description;
  const type = Array.isArray(schema.type) ? schema.type.find((t) => t !== "null") : schema.type;
  const known = (["boolean", "integer", "number"] as const).find((t) => t === type);
  if (Array.isArray(schema.enum) || schema.const !== undefined) return { ...field, kind: "choice", choices: Array.isArray(schema.enum) ? schema.enum : [schema.const!] };
  if (known) field.kind = known;
  else if (type === "string") field.kind = "text";
  else if (type === undefined && typeof value === "string") field.kind = "text";
  else if (type === undefined && typeof value === "boolean") field.kind = "boolean";
  else if (type === undefined && isNumber(value)) field.kind = "number";
  // A value that does not fit its field is written as JSON.
  if (value !== undefined && !{ boolean: typeof value === "boolean", integer: isNumber(value), number: isNumber(value), text: typeof value === "string", json: true, choice: true }[field.kind]) field.kind = "json";
  // Whether a box is empty or left alone cannot be seen.
  if (field.kind === "boolean" && value === undefined) return { ...field, kind: "choice", choices: [true, false] };
  return field;
}

// fieldsOf are the fields of an object: those of its schema, and those that it has; undefined of a
// schema without any.
export function fieldsOf(given: Json | undefined, root: Fields, value?: Fields): Field[] | undefined {
  const schema = resolved(given, root);
  const properties = isFields(schema.properties) ? schema.properties : {};
  // Without a list of what is required, all is asked for.
  const required = Array.isArray(schema.required) ? new Set(schema.required.map(word)) : undefined;
  const names = new Set([...Object.keys(properties), ...Object.keys(value ?? {})]);
  if (names.size === 0 || (value === undefined && schema.properties === undefined)) return undefined;
  return [...names].map((name) => fieldOf(name, Object.hasOwn(properties, name) ? properties[name] : undefined, root, required?.has(name) ?? true, value && Object.hasOwn(value, name) ? value[name] : undefined));
}

const nothing = "";

// choicesOf are the choices, and the value that is there, although it is none of them: a person who leaves
// it alone has not chosen another.
function choicesOf({ choices = [], value }: Field): Json[] {
  return value === undefined || choices.some((c) => JSON.stringify(c) === JSON.stringify(value)) ? choices : [value, ...choices];
}

// fewest is how many choices are all shown at once, where one of them is required.
const fewest = 3;

const choiceInWords = (c: Json) => (c === true ? "Yes" : c === false ? "No" : visible(c));

export function FieldInput({ field: f, name }: { field: Field; name: string }) {
  const text = f.value === undefined ? "" : f.kind === "json" ? JSON.stringify(f.value, null, 2) : (scalarOf(f.value) ?? "");
  const title = (
    <>
      {visible(f.title)}
      {!f.required && f.kind !== "boolean" && <span class="note"> may be empty</span>}
      {f.kind === "json" && <span class="note"> as JSON</span>}
    </>
  );
  const hint = f.hint && <span class="note hint">{visible(f.hint)}</span>;
  if (f.kind === "boolean") {
    return (
      <label class="field check">
        <input type="checkbox" name={name} defaultChecked={f.value === true} /> {title}
        {hint}
      </label>
    );
  }
  const isValue = (c: Json) => f.value !== undefined && JSON.stringify(c) === JSON.stringify(f.value);
  if (f.kind === "choice" && f.required && choicesOf(f).length <= fewest) {
    return (
      <fieldset class="field choices">
        <legend>{title}</legend>
        {hint}
        {choicesOf(f).map((c) => (
          <label key={JSON.stringify(c)}>
            <input type="radio" name={name} value={JSON.stringify(c)} defaultChecked={isValue(c)} /> {choiceInWords(c)}
          </label>
        ))}
      </fieldset>
    );
  }
  return (
    <label class="field">
      {title}
      {hint}
      {f.kind === "choice" ? (
        <select name={name}>
          {(!f.required || f.value === undefined) && <option value={nothing}>{f.required ? "choose…" : ""}</option>}
          {choicesOf(f).map((c) => (
            <option key={JSON.stringify(c)} value={JSON.stringify(c)} selected={isValue(c)}>
              {choiceInWords(c)}
            </option>
          ))}
        </select>
      ) : f.kind === "integer" || f.kind === "number" ? (
        <input name={name} inputMode={f.kind === "integer" ? "numeric" : "decimal"} defaultValue={text} autocomplete="off" />
      ) : f.kind === "text" && !/\n/.test(text) && text.length < 60 ? (
        <input name={name} defaultValue={text} autocomplete="off" dir="auto" />
      ) : (
        <textarea name={name} rows={Math.min(12, Math.max(3, text.split("\n").length))} spellcheck={f.kind === "text"} dir="auto" defaultValue={text} />
      )}
    </label>
  );
}

// read is what a person put into a field; undefined if nothing, where that is allowed.
export function read(form: FormData, f: Field, name: string): Json | undefined {
  const text = form.get(name);
  const wrong = (what: string) => new Wrong(name, `${visible(f.title)}: ${what}`);
  if (f.kind === "boolean") return text !== null;
  const written = String(text ?? "");
  if (f.kind === "text") return written === "" && !f.required ? undefined : written;
  if (written.trim() === "") {
    if (!f.required) return undefined;
    throw wrong(f.kind === "choice" ? "choose one." : f.kind === "json" ? "write a value." : "write a number.");
  }
  if (f.kind === "integer" && !/^\s*-?\d+\s*$/.test(written)) throw wrong("write a whole number.");
  try {
    const value = parse(written);
    if (f.kind === "number" && !isNumber(value)) throw wrong("write a number.");
    return value;
  } catch (error) {
    throw error instanceof Wrong ? error : wrong(f.kind === "json" ? `this is not JSON: ${(error as Error).message}` : "write a number.");
  }
}

export function readAll(form: FormData, fields: Field[], prefix: string): Fields {
  const out: Fields = {};
  for (const f of fields) {
    const value = read(form, f, `${prefix}.${f.name}`);
    if (value !== undefined) out[f.name] = value;
  }
  return out;
}

// check throws what is wrong with an answer, by its schema. A schema that nobody can read checks nothing:
// the program does.
export function check(value: Json, schema: Fields, root: Fields, field: string) {
  const draft = "2020-12";
  let errors;
  try {
    errors = new Validator({ ...(rounded(schema) as Fields), ...(root.$defs !== undefined && { $defs: rounded(root.$defs) }) } as Schema, draft, false).validate(rounded(value)).errors;
  } catch {
    return;
  }
  const worst = errors.reduce<(typeof errors)[number] | undefined>((deep, e) => (!deep || e.instanceLocation.length > deep.instanceLocation.length || e.keywordLocation.length > deep.keywordLocation.length ? e : deep), undefined);
  if (!worst) return;
  const at = worst.instanceLocation.slice(2).split("/").filter(Boolean);
  throw new Wrong(at.length ? `${field}.${at[0]}` : field, `${at.length ? visible(at.join(" / ")) : "The answer"}: ${worst.error.replace(/^Instance type "(.*)" is invalid\. Expected "(.*)"\.$/, "a value of type $2 is asked for, and this is $1.")}`);
}
