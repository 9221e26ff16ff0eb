// An id, short, and copied whole.

import { useState } from "preact/hooks";
import { Id, visible, word } from "./text";

// copy puts a text where a person pastes from.
export async function copy(text: string) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page that is not served securely may only do it the old way.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// CopyId is an id that is copied with a click. Within a row, which is a link itself, it is no button: the
// key c copies the id of the row.
export function CopyId({ id, inRow }: { id: unknown; inRow?: boolean }) {
  const [copied, set] = useState(false);
  const act = (e: Event) => {
    e.preventDefault();
    e.stopPropagation();
    void copy(word(id)).then(() => {
      set(true);
      setTimeout(() => set(false), 1200);
    });
  };
  const shown = copied ? <span class="note">copied</span> : <Id id={id} short />;
  if (inRow) {
    return (
      <span class="copy" title={`${visible(id)}: click to copy`} onClick={act}>
        {shown}
      </span>
    );
  }
  return (
    <button class="copy" title="Copy the whole id" onClick={act}>
      {shown}
    </button>
  );
}
