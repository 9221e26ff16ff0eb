// The keys that work wherever the focus is, and what they do.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Dialog } from "./dialog";
import { go, route } from "./route";
import { listQuery } from "./threads";

// letters: single letters decide about calls. A person who speaks to the computer, or types beside the
// fields, turns that off.
const place = "stele.letters";
export const letters = signal(localStorage.getItem(place) !== "off");
const switchLetters = (on: boolean) => {
  letters.value = on;
  if (on) localStorage.removeItem(place);
  else localStorage.setItem(place, "off");
};

const shown = signal(false);
export const showKeys = () => (shown.value = true);

const all: [keys: string[], what: string][] = [
  [["j", "k"], "next and previous row of a list; in a thread, of its history"],
  [["Enter"], "open the row"],
  [["c"], "copy the id of the row, in the list of threads"],
  [["/"], "search"],
  [["Esc"], "back to the list"],
  [["Shift", "j"], "in a thread's history: compare with the next"],
  [["a"], "approve: Enter sends it"],
  [["e"], "edit a call before it runs"],
  [["r"], "reject"],
  [["s"], "answer instead of running the tool"],
  [["?"], "these keys"],
];

// useKeys gives j, k, c and Enter to the list of the screen, wherever the focus is, and listens for the rest.
// What is typed into a field, or within a dialog, is its own.
export function useKeys() {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const at = e.target instanceof HTMLElement ? e.target : document.body;
      if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || at.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
      const { path, query } = route.peek();
      const search = document.querySelector<HTMLInputElement>('input[type="search"]');
      const list = document.querySelector<HTMLElement>('[role="listbox"]');
      if (e.key === "?") showKeys();
      else if (e.key === "/" && search) search.focus();
      else if (e.key === "Escape" && path[0] === "threads" && path[1] !== undefined && !query.with && !query.pick && !at.closest("form")) go(["threads"], listQuery());
      else if (["j", "k", "J", "K", "c", "Enter"].includes(e.key) && list && !list.contains(at)) {
        if (e.key === "Enter" && (e.repeat || at.closest("button, a, summary"))) return;
        list.focus({ preventScroll: true });
        // The list says by this whether it knows the key.
        if (list.dispatchEvent(new KeyboardEvent("keydown", { key: e.key === "Enter" ? e.key : e.key.toLowerCase(), shiftKey: e.shiftKey, cancelable: true }))) return;
      } else return;
      e.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

export function Keys() {
  if (!shown.value) return null;
  const close = () => (shown.value = false);
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">
        {all.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((k) => (
                <kbd key={k}>{k}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <label class="switch">
        <input type="checkbox" checked={letters.value} onChange={(e) => switchLetters(e.currentTarget.checked)} /> <kbd>a</kbd> <kbd>e</kbd> <kbd>r</kbd> <kbd>s</kbd> decide without a modifier key
      </label>
      <div class="buttons">
        <button onClick={close}>Close</button>
      </div>
    </Dialog>
  );
}
