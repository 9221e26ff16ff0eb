// What a thread waits for that nobody has to answer; signals to it, and those that lie in its inbox.

import { useState } from "preact/hooks";
import { graphOf } from "./about";
import { written } from "./answer";
import { api } from "./api";
import { Form } from "./dialog";
import { isFields } from "./json";
import { say, useLoad } from "./load";
import { graphs, info, readonly } from "./session";
import { Text, Time, visible, word } from "./text";
import { tasksOf, waitInWords, waitsOf } from "./tree";
import type { Fields, Json, RefusedSignal, State, Thread } from "./types";
import { Value } from "./value";

// Signals stand at the newest checkpoint of a thread. mark is another one when the thread has changed.
export function Signals({ id, thread, state, mark, refresh }: { id: string; thread: Thread | undefined; state: State; mark: string; refresh: () => void }) {
  // A server has the inbox of a thread whose graph it runs.
  const can = !!info.value?.stele?.signals && !!thread && !!graphs.value?.some((a) => a.graph_id === graphOf(thread));
  const inbox = useLoad(async () => (can ? await api.inbox(id) : undefined), [id, mark, can]);
  const again = () => (inbox.again(), refresh());
  const waits = [state, ...tasksOf(state)].flatMap(waitsOf);
  const lines = [...new Set(waits.map(waitInWords))];
  const names = [...new Set(waits.flatMap(({ value }) => (isFields(value) && value.signal ? [word(value.signal)] : [])))];
  const { pending = [], more = false, refused = [] } = inbox.value ?? {};
  const act = can && !readonly.value;
  return (
    <>
      {lines.length > 0 && (
        <section class="waits" aria-label="Waits">
          {lines.map((w) => (
            <p key={w}>
              This thread <b>{w}</b>.
            </p>
          ))}
          <p class="note">Nobody has to answer: it continues by itself{names.length > 0 && " when the signal comes"}.</p>
          {act && names.map((name) => <Send key={name} id={id} name={name} sent={again} />)}
        </section>
      )}
      {inbox.error && <p class="error">The signals cannot be read: {inbox.error}</p>}
      {refused.length > 0 && (
        <section aria-label="Refused signals">
          <h3>Refused signals</h3>
          <p class="note">The program could not read the values of these, and has not received them.</p>
          {refused.map((r) => (
            <Refused key={r.id} id={id} signal={r} act={act} changed={again} />
          ))}
        </section>
      )}
      {pending.length > 0 && (
        <section aria-label="Signals not received yet">
          <h3>Signals not received yet</h3>
          {pending.map((s) => (
            <article class="item" key={s.id}>
              <header>
                <b>{visible(s.name)}</b>
                <Time at={s.sent_at} />
              </header>
              {s.error ? <p class="note">Its value cannot be read: {visible(s.error)}</p> : <Value value={s.value} />}
            </article>
          ))}
          {more && <p class="note">There are more.</p>}
        </section>
      )}
    </>
  );
}

// Send is a form that sends the signal that a thread waits for.
function Send({ id, name, sent }: { id: string; name: string; sent: () => void }) {
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    const form = new FormData(e.target as HTMLFormElement);
    setBusy(true);
    setError(undefined);
    try {
      await api.signal(id, name, { value: valueOf(form), ...keyOf(form) });
      sent();
    } catch (err) {
      setError(say(err));
    }
    setBusy(false);
  };
  return (
    <form class="signal" aria-label={`Send ${visible(name)}`} aria-busy={busy} onSubmit={submit}>
      <label class="field">
        Value: JSON, or a text
        <textarea name="value" rows={2} spellcheck={false} />
      </label>
      <div class="buttons">
        <label class="field">
          Key <span class="note">optional: sent twice, it counts once</span>
          <input name="key" autocomplete="off" />
        </label>
        <button class="primary" disabled={busy}>
          Send signal “{visible(name)}”
        </button>
      </div>
      {error && (
        <p class="error" role="alert">
          <Text text={error} />
        </p>
      )}
    </form>
  );
}

// valueOf is what the form sends: nothing is null, as for `stele signal`.
const valueOf = (form: FormData): Json => (word(form.get("value")).trim() ? written(form, "value", false) : null);

const keyOf = (form: FormData): Fields => {
  const key = String(form.get("key") ?? "").trim();
  return key ? { key } : {};
};

// Refused is a signal that was set aside, to be sent again, mended or as it was.
function Refused({ id, signal: s, act, changed }: { id: string; signal: RefusedSignal; act: boolean; changed: () => void }) {
  const [asked, ask] = useState<"send" | "delete">();
  const close = () => ask(undefined);
  return (
    <article class="item">
      <header>
        <span>
          <b>{visible(s.name)}</b>
        </span>
        {act && (
          <>
            <button class="quiet" onClick={() => ask("send")}>
              send again
            </button>
            <button class="quiet" onClick={() => ask("delete")}>
              delete
            </button>
          </>
        )}
      </header>
      <Value value={s.value} />
      <p class="note">
        <Text text={s.error} first={400} />
      </p>
      {asked === "send" && (
        <Form
          title={`Send ${visible(s.name)} again`}
          act="Send"
          close={close}
          submit={async (form) => {
            await api.signal(id, s.name, { value: valueOf(form), instead: s.id });
            changed();
          }}
        >
          <label class="field">
            Value: JSON, or a text
            <textarea name="value" rows={4} spellcheck={false}>
              {JSON.stringify(s.value, null, 2)}
            </textarea>
          </label>
        </Form>
      )}
      {asked === "delete" && (
        <Form
          title={`Delete this ${visible(s.name)}?`}
          act="Delete"
          danger
          close={close}
          submit={async () => {
            await api.deleteRefused(id, s.id);
            changed();
          }}
        >
          <p>The program never receives it.</p>
        </Form>
      )}
    </article>
  );
}
