// A field to search with: the list follows what is typed.

import { useEffect, useRef } from "preact/hooks";
import { change, route } from "./route";

// pause is how long a person stops typing before the list follows.
const pause = 200;

// SearchField writes what is typed into q of the address. The field is the browser's own: a page
// that is drawn again meanwhile takes nothing away from it.
export function SearchField({ label, placeholder, forget }: { label: string; placeholder: string; forget: string }) {
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  // sent is what the field has written into the address: what is typed since is not lost.
  const sent = useRef<string | undefined>(undefined);
  const q = route.value.query.q ?? "";
  useEffect(() => {
    // A link, or the browser's way back, says what is searched for.
    if (field.current && q !== sent.current) field.current.value = q;
    sent.current = q;
  }, [q]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={placeholder}
      ref={field}
      onInput={() => {
        clearTimeout(timer.current);
        timer.current = window.setTimeout(() => {
          sent.current = field.current?.value.trim() ?? "";
          change({ q: sent.current, [forget]: undefined }, true);
        }, pause);
      }}
    />
  );
}
