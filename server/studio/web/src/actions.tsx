// What a person can do to a thread. Each action asks first where something is lost; none is
// there when the server only reads.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, Problem } from "./api";
import { graphs, notice, readonly } from "./session";
import { AssistantField, assistantOf } from "./assistants";
import { Form, JsonField, jsonOf } from "./dialog";
import { say, useLoad } from "./load";
import { change, go } from "./route";
import { run } from "./running";
import { list, Text, visible, word } from "./text";
import { asksOf, idOf, nextOf, tasksOf } from "./tree";
import type { Fields, Interrupt, Json, State, Thread } from "./types";
import { Value } from "./value";

type Which = "input" | "edit" | "rerun" | "copy" | "delete" | undefined;

export function Actions(props: { id: string; thread: Thread | undefined; state: State | undefined; head: State | undefined; refresh: () => void; children?: ComponentChildren }) {
  const { id, thread, state, head, refresh } = props;
  const [which, set] = useState<Which>();
  if (readonly.value) return <div class="actions">{props.children}</div>;
  const assistant = assistantOf(graphs.value, thread) ?? (thread && graphs.value?.length ? graphs.value[0] : undefined);
  const past = state && head && idOf(state) !== idOf(head);
  const close = () => set(undefined);
  const begin = (body: Fields) => {
    // A dialog closes at once, and the page shows the run.
    change({ at: undefined, with: undefined });
    void run(id, { assistant_id: choose(body, assistant?.assistant_id), ...body }).then(refresh);
  };
  return (
    <div class="actions">
      {assistant && <button onClick={() => set("input")}>{past ? "Fork with input" : "Send input"}</button>}
      {assistant && state && <button onClick={() => set("rerun")}>{past ? "Run again from here" : "Go on"}</button>}
      {state && <button onClick={() => set("edit")}>{past ? "Fork with an edit" : "Edit state"}</button>}
      <button onClick={() => set("copy")}>Copy</button>
      {props.children}
      <button class="danger" onClick={() => set("delete")}>
        Delete
      </button>
      {which === "input" && (
        <Form
          title={past ? "Fork this thread with new input" : "Send input"}
          act="Run"
          close={close}
          submit={async (form) => {
            const input = jsonOf(form, "input");
            if (!past) await api.unmoved(id, head && idOf(head));
            begin({
              assistant_id: String(form.get("assistant")),
              input,
              ...(past ? { checkpoint: ref(state) } : {}),
              ...pauses(form),
            });
          }}
        >
          <RunFields chosen={assistant?.assistant_id}>
            <JsonField name="input" label="Input, as JSON" value={exampleInput(state)} />
          </RunFields>
          {past && <p class="note">The run begins at the chosen checkpoint. The newer ones stay, as a branch of their own.</p>}
        </Form>
      )}
      {which === "rerun" && state && (
        <Form
          title={past ? "Run again from this checkpoint" : "Go on from the newest checkpoint"}
          act="Run"
          close={close}
          submit={async (form) => {
            if (!past) await api.unmoved(id, head && idOf(head));
            begin({ assistant_id: String(form.get("assistant")), input: null, ...(past ? { checkpoint: ref(state) } : {}), ...pauses(form) });
          }}
        >
          <RunFields chosen={assistant?.assistant_id} />
          <p>
            {nextOf(state).length ? (
              <>
                Next: <b>{nextOf(state).map(visible).join(", ")}</b>.
              </>
            ) : (
              "Nothing is left to run here."
            )}{" "}
            What the nodes did outside the first time, such as sending a mail, they may do again.
          </p>
        </Form>
      )}
      {which === "edit" && state && (
        <Form
          title="Edit state"
          act="Store"
          close={close}
          submit={async (form) => {
            const values = jsonOf(form, "values");
            if (!past) await api.unmoved(id, head && idOf(head));
            await api.update(id, values, String(form.get("node") ?? "").trim() || undefined, ref(state));
            change({ at: undefined });
            refresh();
          }}
        >
          <JsonField name="values" label="Channels to update, as JSON: each goes through its reducer" value={editable(state)} />
          <label class="field">
            As node (empty: the one that ran last)
            <input name="node" />
          </label>
          <p class="note">This makes a new checkpoint below the chosen one. Nothing is overwritten.</p>
        </Form>
      )}
      {which === "copy" && (
        <Form
          title="Copy this thread"
          act="Copy"
          close={close}
          submit={async () => {
            const copy = await api.copyThread(id);
            go(["threads", copy.thread_id]);
          }}
        >
          <p>The copy has all checkpoints and writes. It gets an id of its own.</p>
        </Form>
      )}
      {which === "delete" && (
        <Form
          title="Delete this thread?"
          act="Delete"
          danger
          close={close}
          submit={async () => {
            await api.deleteThread(id);
            go(["threads"]);
          }}
        >
          <p>
            All checkpoints and writes of <Text text={id} /> are removed. This cannot be undone.
          </p>
        </Form>
      )}
    </div>
  );
}

function choose(body: Fields, otherwise: string | undefined): Json {
  return body.assistant_id ?? otherwise ?? null;
}

function ref(state: State): Fields {
  return { checkpoint_id: idOf(state), checkpoint_ns: state.checkpoint?.checkpoint_ns ?? "" };
}

// RunFields ask what runs, and before which of its nodes it stops.
function RunFields({ chosen: first, children }: { chosen: string | undefined; children?: ComponentChildren }) {
  const [chosen, choose] = useState(first);
  const drawing = useLoad(async () => (chosen ? await api.drawing(chosen, false) : undefined), [chosen]);
  const nodes = list(drawing.value?.nodes).map((n) => word(n.id)).filter((n) => n !== "__start__" && n !== "__end__");
  return (
    <>
      <AssistantField chosen={chosen} choose={choose} />
      {children}
      <fieldset class="pauses">
        <legend>Pause before</legend>
        {["*", ...nodes].map((n) => (
          <label key={n}>
            <input type="checkbox" name="pause" value={n} /> {n === "*" ? "each node" : visible(n)}
          </label>
        ))}
      </fieldset>
    </>
  );
}

function pauses(form: FormData): Fields {
  const nodes = form.getAll("pause").map(String);
  if (nodes.length === 0) return {};
  return { interrupt_before: nodes.includes("*") ? "*" : nodes };
}

// exampleInput is a text to begin with: a chat gets a message, anything else an empty object.
function exampleInput(state: State | undefined): string {
  const values = state?.values;
  const chat = !values || typeof values !== "object" || "messages" in values || Object.keys(values).length === 0;
  return JSON.stringify(chat ? { messages: [{ role: "user", content: "" }] } : {}, null, 2);
}

// editable leaves out what is long: an update names only the channels that change.
function editable(state: State): string {
  const values = state.values;
  if (values === null || typeof values !== "object" || Array.isArray(values)) return "{}";
  const short = Object.fromEntries(Object.entries(values).filter(([k, v]) => !k.startsWith("__") && !Array.isArray(v) && JSON.stringify(v).length < 2000 && !JSON.stringify(v).includes('"$stele":')));
  return JSON.stringify(short, null, 2);
}

// Answer shows the questions that wait at the newest checkpoint, and answers them: each by its
// id, several at once.
export function Answer({ id, thread, state, refresh }: { id: string; thread: Thread | undefined; state: State; refresh: () => void }) {
  const asked = tasksOf(state).flatMap((t) => asksOf(t).map((i) => ({ task: t.name, interrupt: i })));
  // A store without its program knows the questions, and not which nodes ask them.
  const questions = asked.length ? asked : asksOf(state).map((i) => ({ task: "the program", interrupt: i }));
  const [error, setError] = useState<string>();
  if (questions.length === 0) return null;
  const submit = async (e: Event) => {
    e.preventDefault();
    setError(undefined);
    const form = new FormData(e.target as HTMLFormElement);
    try {
      const answers = questions.map(({ interrupt }, i) => [interrupt.id, answerOf(form, interrupt, i)] as const);
      const resume: Json = answers.every(([key]) => typeof key === "string" && key) ? Object.fromEntries(answers as [string, Json][]) : answers[0]![1];
      const assistant = String(form.get("assistant"));
      await api.unmoved(id, idOf(state));
      void run(id, { assistant_id: assistant, command: { resume } }).then(refresh);
    } catch (err) {
      if (err instanceof Problem && err.conflict) {
        // The question may be gone with the refresh.
        notice.value = say(err);
        refresh();
      } else setError(say(err));
    }
  };
  return (
    <section class="questions" aria-label="Questions">
      <h3>{questions.length === 1 ? "A question waits" : `${questions.length} questions wait`}</h3>
      <form onSubmit={submit}>
        {questions.map(({ task, interrupt }, i) => (
          <fieldset key={word(interrupt.id) || i}>
            <legend>{visible(task)} asks</legend>
            <Value value={interrupt.value} open />
            {!readonly.value && graphs.value?.length ? <AnswerField interrupt={interrupt} index={i} /> : null}
          </fieldset>
        ))}
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        {!readonly.value && graphs.value?.length ? (
          <div class="buttons">
            <AssistantField chosen={(assistantOf(graphs.value, thread) ?? graphs.value[0]!).assistant_id} />
            <button type="submit" class="primary">
              Answer
            </button>
          </div>
        ) : (
          <p class="note">A program with the thread's graph can answer.</p>
        )}
      </form>
    </section>
  );
}

// properties are the fields of a response schema that a form can show: scalars of an object.
function properties(schema: Fields | undefined): [string, Fields][] | undefined {
  const props = schema?.properties;
  if (props === undefined || props === null || typeof props !== "object" || Array.isArray(props)) return undefined;
  const list = Object.entries(props as { [k: string]: Json });
  const simple = list.every(([, p]) => p !== null && typeof p === "object" && !Array.isArray(p) && ["string", "number", "integer", "boolean"].includes(word(p.type)));
  return simple && list.length > 0 ? (list as [string, Fields][]) : undefined;
}

function AnswerField({ interrupt, index }: { interrupt: Interrupt; index: number }) {
  const fields = properties(interrupt.response_schema);
  if (fields) {
    return (
      <>
        {fields.map(([name, p]) => (
          <label class="field" key={name}>
            {visible(p.title ?? name)}
            {Array.isArray(p.enum) ? (
              <select name={`a${index}.${name}`}>
                {p.enum.map((v) => (
                  <option key={word(v)}>{word(v)}</option>
                ))}
              </select>
            ) : p.type === "string" ? (
              <input name={`a${index}.${name}`} />
            ) : p.type === "boolean" ? (
              <input type="checkbox" name={`a${index}.${name}`} />
            ) : (
              <NumberField name={`a${index}.${name}`} step={p.type === "integer" ? 1 : "any"} />
            )}
          </label>
        ))}
      </>
    );
  }
  return <JsonField name={`a${index}`} label="Answer: JSON, or plain text" value="" />;
}

function NumberField({ name, step }: { name: string; step: number | string }) {
  return <input name={name} type="number" step={step} />;
}

// answerOf reads an answer: by the fields of its schema, as JSON if it is that, else as text.
function answerOf(form: FormData, interrupt: Interrupt, index: number): Json {
  const fields = properties(interrupt.response_schema);
  if (fields) {
    const answer: Fields = {};
    for (const [name, p] of fields) {
      const key = `a${index}.${name}`;
      if (p.type === "boolean") answer[name] = form.get(key) !== null;
      else if (p.type === "string") answer[name] = String(form.get(key) ?? "");
      else if (form.get(key) !== "" && form.get(key) !== null) answer[name] = Number(form.get(key));
    }
    return answer;
  }
  const text = String(form.get(`a${index}`) ?? "").trim();
  if (text === "") throw new Error("Write an answer first. An empty text is written as \"\".");
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}
