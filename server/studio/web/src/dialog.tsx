// Questions: a dialog of the browser's own, which keeps the focus inside and closes on Escape.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { parse } from "./json";
import { say } from "./load";

export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={ref} aria-label={title} onClose={close}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

// Form is a dialog that does one thing, says why it failed, and closes when it is done.
export function Form(props: {
  title: string;
  act: string;
  danger?: boolean;
  close: () => void;
  submit: (form: FormData) => Promise<void>;
  children?: ComponentChildren;
}) {
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await props.submit(new FormData(e.target as HTMLFormElement));
      props.close();
    } catch (err) {
      setError(say(err));
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} close={props.close}>
      <form onSubmit={submit}>
        {props.children}
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={props.close}>
            Cancel
          </button>
          <button type="submit" class={props.danger ? "danger" : "primary"} disabled={busy}>
            {props.act}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

// CancelRun asks before it cancels a run.
export function CancelRun({ cancel, close }: { cancel: () => Promise<unknown>; close: () => void }) {
  return (
    <Form title="Cancel this run?" act="Cancel it" danger close={close} submit={async () => void (await cancel())}>
      <p>It ends after what is under way. Its checkpoints stay.</p>
    </Form>
  );
}

// JsonField is a text that must be JSON; jsonOf reads it, and says what is wrong with it.
export function JsonField({ name, label, value }: { name: string; label: string; value: string }) {
  return (
    <label class="field">
      {label}
      <textarea name={name} rows={Math.min(16, Math.max(4, value.split("\n").length))} spellcheck={false}>
        {value}
      </textarea>
    </label>
  );
}

export function jsonOf(form: FormData, name: string) {
  const text = String(form.get(name) ?? "");
  try {
    return parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}`);
  }
}
