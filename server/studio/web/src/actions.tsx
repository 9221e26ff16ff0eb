// What a person can do to a thread. Each action asks first where something is lost; none is
// there when the server only reads.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api } from "./api";
import { graphs, readonly } from "./session";
import { AssistantField, assistantOf } from "./assistants";
import { Form, JsonField, jsonOf } from "./dialog";
import { useLoad } from "./load";
import { change, go } from "./route";
import { run } from "./running";
import { titleOf } from "./about";
import { list, visible, word } from "./text";
import { idOf, nextOf, questionsIn } from "./tree";
import type { Fields, Json, State, Thread } from "./types";

type Which = "input" | "edit" | "rerun" | "copy" | "delete" | undefined;

export function Actions(props: { id: string; thread: Thread | undefined; state: State | undefined; head: State | undefined; refresh: () => void; children?: ComponentChildren }) {
  const { id, thread, state, head, refresh } = props;
  const [which, set] = useState<Which>();
  if (readonly.value) return <div class="actions">{props.children}</div>;
  // The checkpoint may be newer than what was read of the thread.
  const assistant = assistantOf(graphs.value, thread) ?? assistantOf(graphs.value, state) ?? (thread && graphs.value?.length ? graphs.value[0] : undefined);
  const chat = isChat(state);
  const past = state && head && idOf(state) !== idOf(head);
  const close = () => set(undefined);
  const begin = async (body: Fields) => {
    const { ended } = await run(id, { assistant_id: choose(body, assistant?.assistant_id), ...body });
    change({ at: undefined, with: undefined });
    void ended.then(refresh);
  };
  return (
    <div class="actions">
      {assistant && <button onClick={() => set("input")}>{past ? "Fork with input" : "Send input"}</button>}
      {/* While a question waits, a run without an answer would only ask it again. */}
      {assistant && state && (past || (nextOf(state).length > 0 && questionsIn(state).length === 0)) && <button onClick={() => set("rerun")}>{past ? "Run again from here" : "Continue"}</button>}
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
            // A text is what a person says.
            const said = word(form.get("input")).trim();
            const input = chat && said && !/^[{["]/.test(said) ? { messages: [{ role: "user", content: said }] } : jsonOf(form, "input");
            if (!past) await api.unmoved(id, head);
            await begin({
              assistant_id: String(form.get("assistant")),
              input,
              ...(past ? { checkpoint: ref(state) } : {}),
              ...pauses(form),
            });
          }}
        >
          <RunFields chosen={assistant?.assistant_id}>
            <JsonField name="input" label={chat ? "Message, or input as JSON" : "Input, as JSON"} value={chat ? "" : "{}"} />
          </RunFields>
          {past && <p class="note">The run begins at the chosen checkpoint. The newer ones stay, as a branch of their own.</p>}
        </Form>
      )}
      {which === "rerun" && state && (
        <Form
          title={past ? "Run again from this checkpoint" : "Continue from the newest checkpoint"}
          act={past ? "Run" : "Continue"}
          close={close}
          submit={async (form) => {
            if (!past) await api.unmoved(id, head);
            await begin({ assistant_id: String(form.get("assistant")), input: null, ...(past ? { checkpoint: ref(state) } : {}), ...pauses(form) });
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
          act="Save"
          close={close}
          submit={async (form) => {
            const values = jsonOf(form, "values");
            if (!past) await api.unmoved(id, head);
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
            All checkpoints and writes of {thread && titleOf(thread) && <b>{visible(titleOf(thread))} </b>}
            <code>{visible(id)}</code> are removed. This cannot be undone.
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

// isChat: the thread has messages, or nothing yet.
function isChat(state: State | undefined): boolean {
  const values = state?.values;
  return !values || typeof values !== "object" || "messages" in values || Object.keys(values).length === 0;
}

// editable leaves out what is long: an update names only the channels that change.
function editable(state: State): string {
  const values = state.values;
  if (values === null || typeof values !== "object" || Array.isArray(values)) return "{}";
  const short = Object.fromEntries(Object.entries(values).filter(([k, v]) => !k.startsWith("__") && !Array.isArray(v) && JSON.stringify(v).length < 2000 && !JSON.stringify(v).includes('"$stele":')));
  return JSON.stringify(short, null, 2);
}
