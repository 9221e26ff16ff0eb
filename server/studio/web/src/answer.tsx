// Questions that wait, as a form: what the agent wants to do, and what a person can decide.

import { useEffect, useRef, useState } from "preact/hooks";
import { titleOf } from "./about";
import { api, Problem } from "./api";
import { AssistantField, assistantOf } from "./assistants";
import { check, type Field, FieldInput, fieldOf, fieldsOf, read, readAll, Wrong } from "./fields";
import { isFields, parse, resolved, scalarOf } from "./json";
import { letters } from "./keys";
import { say } from "./load";
import { nodeName } from "./names";
import { type Action, type Decision, leadOf, type Review, reviewOf } from "./questions";
import { brief, graphs, notice, readonly } from "./session";
import { Text, visible, word } from "./text";
import { idOf, questionsIn } from "./tree";
import type { Fields, Interrupt, Json, State, Thread } from "./types";
import { Value } from "./value";

const names: Record<Decision, string> = { approve: "Approve", edit: "Edit", reject: "Reject", respond: "Answer instead" };
const titles: Record<Decision, string> = { approve: "Runs it as shown", edit: "Change it, then run it", reject: "Does not run; the agent is told why", respond: "Does not run; the agent gets your text as the result" };
const keys: Record<string, Decision> = { a: "approve", e: "edit", r: "reject", s: "respond" };
// sends is what the button says that sends the only decision.
const sends: Record<Decision, string> = { approve: "Approve", edit: "Run the edited call", reject: "Reject the call", respond: "Send the answer instead of running it" };
// marks is what the buttons say that decide about all calls, and send nothing.
const marks = { approve: "Mark all approved", reject: "Mark all rejected" } as const;

// Decided is what a person has decided so far, by the name of the call.
type Decided = Record<string, Decision | undefined>;

interface Props {
  id: string;
  thread: Thread | undefined;
  state: State;
  refresh: () => void;
  // send begins the run that answers. It returns once the server has taken it.
  send: (body: Fields) => Promise<{ ended?: Promise<void> }>;
}

// askedIn tells questions apart: a node may ask another one at the same checkpoint, under the same id.
const askedIn = (s: State) => JSON.stringify(questionsIn(s).map(({ interrupt: i }) => [i.id ?? null, i.value]));

// Answer shows the questions that wait at the newest checkpoint, and answers them: each by its id, all
// at once. What was decided about one question is not kept for another.
export function Answer(props: Props) {
  if (questionsIn(props.state).length === 0) return null;
  return <AnswerForm key={idOf(props.state) + askedIn(props.state)} {...props} />;
}

// settling is how long a new form takes no decision, in ms: a second click, or a key that is held, was
// meant for what stood there before.
const settling = 500;

function AnswerForm({ id, thread, state, refresh, send: begin }: Props) {
  const questions = questionsIn(state).map((q) => ({ ...q, review: reviewOf(q.interrupt) }));
  const [error, setError] = useState<string>();
  const [decided, set] = useState<Decided>({});
  const ref = useRef<HTMLFormElement>(null);
  const [sending, setSending] = useState(false);
  const [settled, settle] = useState(false);
  const begun = useRef(false); // sending, as soon as it is true
  useEffect(() => {
    const timer = setTimeout(() => settle(true), settling);
    return () => clearTimeout(timer);
  }, []);
  const can = !readonly.value && !!graphs.value?.length;
  const calls = questions.flatMap((q, i) => (q.review?.actions ?? []).map((action, j) => ({ action, name: `a${i}.${j}` })));
  // The only call is approved with one press of a button.
  const single = questions.length === 1 && calls.length === 1;
  useKeys(ref, can && calls.length > 0, single);

  const send = async (by: Decided) => {
    if (!settled || begun.current) return;
    begun.current = true;
    setSending(true);
    setError(undefined);
    const form = new FormData(ref.current!);
    const focus = document.activeElement;
    try {
      const answers = questions.map(({ interrupt, review }, i) => [interrupt.id, review ? reviewAnswer(form, interrupt, review, `a${i}`, by) : answerOf(form, interrupt, `a${i}`)] as const);
      const named = answers.every(([key]) => typeof key === "string" && key);
      if (!named && answers.length > 1) throw new Error("The server does not tell the ids of these questions: an answer cannot say which one it is for.");
      const resume: Json = named ? Object.fromEntries(answers as [string, Json][]) : answers[0]![1];
      const assistant = word(form.get("assistant"));
      if (!assistant) throw new Wrong("assistant", "Choose the assistant that continues the thread.");
      try {
        await api.unmoved(id, state, askedIn, brief());
      } catch (err) {
        if (!(err instanceof Problem && err.conflict)) throw err;
        // The question may be gone with the refresh.
        notice.value = say(err);
        return refresh();
      }
      const { ended } = await begin({ assistant_id: assistant, command: { resume } });
      await ended;
      refresh();
    } catch (err) {
      // A person who has left the form is told elsewhere.
      if (!ref.current) notice.value = `${visible(thread && titleOf(thread)).slice(0, 60) || id}: ${say(err)}`;
      setError(say(err));
      requestAnimationFrame(() => (err instanceof Wrong ? ref.current && focusOn(ref.current, err.field) : focus instanceof HTMLElement && focus.focus()));
    } finally {
      begun.current = false;
      setSending(false);
    }
  };
  const decide = (name: string, d: Decision) => {
    if (!settled || begun.current) return;
    const by = { ...decided, [name]: single || decided[name] !== d ? d : undefined };
    set(by);
    setError(undefined);
    if (single && d === "approve") void send(by);
    else requestAnimationFrame(() => focusNext(ref.current, name, single));
  };
  const all = (["approve", "reject"] as const).filter((d) => calls.length > 1 && calls.every((c) => c.action.allowed.includes(d)));
  const left = calls.filter((c) => !decided[c.name]).length;
  // keyed is the call that a letter decides about, wherever the focus is.
  const keyed = (calls.find((c) => !decided[c.name]) ?? calls[0])?.name;
  const only = single ? decided[calls[0]!.name] : undefined;
  return (
    <section class="questions" aria-label="Questions">
      <h3>{questions.length === 1 ? (calls.length > 1 ? `${calls.length} calls wait for approval` : calls.length ? "A call waits for approval" : "A question waits") : `${questions.length} questions wait`}</h3>
      <form
        ref={ref}
        aria-busy={!settled || sending}
        onKeyDown={(e) => {
          // A key that is held presses a button again and again.
          if (e.repeat && e.key === "Enter" && !(e.target instanceof HTMLTextAreaElement)) e.preventDefault();
        }}
        onSubmit={(e) => {
          e.preventDefault();
          void send(decided);
        }}
      >
        {questions.map(({ task, interrupt, review }, i) => (
          <fieldset key={word(interrupt.id) || i}>
            <legend>{review ? "The agent wants to call" : task ? `Asked by ${nodeName(task)}` : "Asked by the program"}</legend>
            {review ? (
              review.actions.map((action, j) => <Call key={j} action={action} name={`a${i}.${j}`} decided={decided[`a${i}.${j}`]} decide={can ? decide : undefined} pressed={!single} off={sending} keyed={`a${i}.${j}` === keyed} />)
            ) : (
              <>
                <Question value={interrupt.value} />
                {can && <AnswerFields interrupt={interrupt} name={`a${i}`} />}
              </>
            )}
          </fieldset>
        ))}
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        {can ? (
          <div class="buttons">
            <AssistantField chosen={assistantOf(graphs.value, thread)?.assistant_id} />
            {all.length > 0 && (
              <span class="marks">
                {all.map((d) => (
                  <button key={d} type="button" class="quiet" disabled={sending} onClick={() => settled && set(Object.fromEntries(calls.map((c) => [c.name, d])))}>
                    {marks[d]}
                  </button>
                ))}
              </span>
            )}
            {calls.length > 1 && (
              <span class="note" role="status">
                {left ? `${calls.length - left} of ${calls.length} decided` : "Not sent yet"}
              </span>
            )}
            {(!single || (only && only !== "approve")) && (
              // While some are left, it tells which one is next.
              <button type="submit" class={left ? undefined : "primary"} aria-disabled={left > 0} disabled={sending}>
                {only ? sends[only] : left ? `Decide ${left} more` : calls.length > 1 ? `Send ${calls.length} decisions` : "Answer"}
              </button>
            )}
          </div>
        ) : (
          <p class="note">{readonly.value ? "This page only reads." : "A program with the thread's graph can answer."}</p>
        )}
      </form>
    </section>
  );
}

// useKeys: a letter presses the button of a decision about the call that has the focus, or else of the
// first that is not decided. To approve the only call takes Enter as well.
function useKeys(ref: { current: HTMLFormElement | null }, on: boolean, single: boolean) {
  useEffect(() => {
    if (!on) return;
    const onKey = (e: KeyboardEvent) => {
      const decision = keys[e.key];
      const at = e.target instanceof HTMLElement ? e.target : undefined;
      if (!decision || !letters.value || e.repeat || e.ctrlKey || e.metaKey || e.altKey || at?.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
      const call = at?.closest(".questions .call") ?? ref.current?.querySelector(".call:not([data-decided])") ?? ref.current?.querySelector(".call");
      const button = call?.querySelector<HTMLButtonElement>(`button[data-decision="${decision}"]`);
      if (!button) return;
      e.preventDefault();
      if (single && decision === "approve") button.focus();
      else button.click();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [on, single]);
}

// focusNext goes to what a decision asks for, or else to the next call, or to the button that sends all.
function focusNext(form: HTMLFormElement | null, name: string, single: boolean) {
  const call = form?.querySelector(`[data-call="${name}"]`);
  const next = call?.querySelector<HTMLElement>("textarea, .more input, .more select") ?? (single ? undefined : form?.querySelector<HTMLElement>(".call:not([data-decided]) .decisions button"));
  (next ?? form?.querySelector<HTMLElement>("button[type=submit]"))?.focus();
}

// focusOn goes to the field that is wrong, or to the first within what is.
function focusOn(form: HTMLFormElement, name: string) {
  const fields = [...form.elements].filter((e): e is HTMLInputElement => "name" in e);
  (fields.find((e) => e.name === name) ?? fields.find((e) => e.name.startsWith(name + ".")) ?? form.querySelector<HTMLElement>(`[data-call="${CSS.escape(name)}"] button`))?.focus();
}

// Call is a call that the agent wants to make, and the decisions that are allowed about it.
function Call(props: { action: Action; name: string; decided: Decision | undefined; decide?: (name: string, d: Decision) => void; pressed: boolean; off: boolean; keyed: boolean }) {
  const { action, name, decided, decide } = props;
  const args = Object.entries(action.args);
  return (
    <div class="call" data-call={name} data-decided={decided} data-keyed={props.keyed || undefined}>
      <h4>
        <code>{visible(action.name)}</code>
      </h4>
      {action.about && <Text class="words" text={action.about} />}
      {args.length ? (
        <dl class="args">
          {args.map(([key, v]) => (
            <div key={key}>
              <dt>{visible(key)}</dt>
              <dd>{typeof v === "string" ? <Text class="words" text={v} /> : scalarOf(v) !== undefined ? <span class="scalar">{scalarOf(v)}</span> : <Value value={v} open={JSON.stringify(v).length < 2000 ? "all" : true} />}</dd>
            </div>
          ))}
        </dl>
      ) : (
        <p class="note">It has no arguments.</p>
      )}
      {decide && (
        <>
          <div class="decisions" role="group" aria-label={`Decision about ${visible(action.name)}`}>
            {action.allowed.map((d) => (
              <button key={d} type="button" data-decision={d} title={titles[d]} disabled={props.off} class={d === "approve" && !props.pressed && decided === undefined ? "primary" : decided === d ? "chosen" : undefined} aria-pressed={props.pressed || d !== "approve" ? decided === d : undefined} onClick={() => decide(name, d)}>
                {names[d]} {letters.value && <kbd aria-hidden="true">{d === "respond" ? "s" : d[0]}</kbd>}
              </button>
            ))}
          </div>
          {decided === "edit" && (
            <div class="more">
              {editFields(action)?.map((f) => <FieldInput key={f.name} field={f} name={`${name}.${f.name}`} />) ?? <p class="note">There is nothing to edit.</p>}
            </div>
          )}
          {decided === "reject" && (
            <label class="field more">
              Why? <span class="note">The agent is told. It may be empty.</span>
              <textarea name={`${name}.message`} rows={3} dir="auto" />
            </label>
          )}
          {decided === "respond" && (
            <label class="field more">
              Answer in place of the tool <span class="note">The tool does not run.</span>
              <textarea name={`${name}.message`} rows={3} dir="auto" />
            </label>
          )}
        </>
      )}
    </div>
  );
}

const editFields = (a: Action) => fieldsOf(a.schema, a.schema ?? {}, a.args);

// reviewAnswer is the answer to a request to approve calls, in LangChain's form.
function reviewAnswer(form: FormData, q: Interrupt, review: Review, prefix: string, by: Decided): Json {
  const all = review.actions.map((action, j): Fields => {
    const name = `${prefix}.${j}`;
    const type = by[name];
    const message = word(form.get(`${name}.message`)).trim();
    if (!type) throw new Wrong(name, `Decide about ${visible(action.name)} first.`);
    if (type === "approve") return { type };
    if (type === "reject") return message ? { type, message } : { type };
    if (type === "respond") {
      if (!message) throw new Wrong(`${name}.message`, "Write what the agent is answered.");
      return { type, message };
    }
    const args = readAll(form, editFields(action) ?? [], name);
    if (action.schema) check(args, action.schema, isFields(q.response_schema) ? q.response_schema : {}, name);
    return { type, edited_action: { name: action.name, args } };
  });
  return review.alone ? all[0]! : { decisions: all };
}

// Question is what a program asks: its sentence, and what else it says.
function Question({ value }: { value: Json }) {
  const [lead, name] = leadOf(value);
  const rest = isFields(value) ? Object.entries(value).filter(([key]) => key !== name) : [];
  if (!lead) return <Value value={value} open />;
  return (
    <>
      <p class="lead">
        <Text class="words" text={lead} />
      </p>
      {rest.map(([key, v]) => (
        <Value key={key} name={key} value={v} open={scalarOf(v) === undefined} />
      ))}
    </>
  );
}

// asked is what an answer is made of: the fields of an object, one value, or JSON or a text.
function askedOf(schema: Fields | undefined): { fields?: Field[]; one?: Field } {
  if (!isFields(schema)) return {};
  const of = resolved(schema, schema);
  const fields = fieldsOf(of, schema);
  if (fields?.length) return { fields };
  const one = of.type !== "object" && (of.type !== undefined || of.enum !== undefined) ? fieldOf("answer", { title: "Answer", ...of }, schema, true) : undefined;
  return { one };
}

function AnswerFields({ interrupt, name }: { interrupt: Interrupt; name: string }) {
  const { fields, one } = askedOf(interrupt.response_schema);
  if (fields) return <>{fields.map((f) => <FieldInput key={f.name} field={f} name={`${name}.${f.name}`} />)}</>;
  if (one) return <FieldInput field={one} name={name} />;
  return (
    <label class="field">
      Answer <span class="note">{interrupt.response_schema ? "as JSON" : "a text, or JSON"}</span>
      <textarea name={name} rows={4} spellcheck={false} dir="auto" />
    </label>
  );
}

// answerOf reads an answer, and throws what is wrong with it.
function answerOf(form: FormData, interrupt: Interrupt, name: string): Json {
  const schema = isFields(interrupt.response_schema) ? interrupt.response_schema : undefined;
  const { fields, one } = askedOf(schema);
  const value = fields ? readAll(form, fields, name) : one ? (read(form, one, name) ?? null) : written(form, name, schema !== undefined);
  if (schema) check(value, schema, {}, name);
  return value;
}

// written is an answer in no form: JSON if it is that, else a text.
export function written(form: FormData, name: string, json: boolean): Json {
  const text = word(form.get(name)).trim();
  if (text === "") throw new Wrong(name, 'Write an answer first. An empty text is written as "".');
  try {
    return parse(text);
  } catch (error) {
    if (json || /^[[{"]/.test(text)) throw new Wrong(name, `This is not JSON: ${(error as Error).message}`);
    return text;
  }
}
