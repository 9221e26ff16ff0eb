// The address of what is on the screen: everything that a person chose is in the URL's
// fragment, so that a link shows it again. #/threads/ID?at=CHECKPOINT&with=CHECKPOINT

import { signal } from "@preact/signals";

export interface Route {
  path: string[];
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decode);
  return { path: parts.length ? parts : ["threads"], query: Object.fromEntries(new URLSearchParams(search)) };
}

// A fragment that was typed by hand may hold a stray percent sign.
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(path: string[], query: Record<string, string | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) search.set(key, value);
  const text = search.toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

export const route = signal<Route>(parseRoute(location.hash));

addEventListener("hashchange", () => {
  route.value = parseRoute(location.hash);
});

export function go(path: string[], query: Record<string, string | undefined> = {}, replace = false) {
  const to = link(path, query);
  if (to === location.hash) return;
  if (replace) {
    history.replaceState(null, "", to);
    route.value = parseRoute(to);
  } else {
    location.hash = to;
  }
}

// change goes to the same screen with some of the query changed.
export function change(query: Record<string, string | undefined>, replace = false) {
  go(route.value.path, { ...route.value.query, ...query }, replace);
}
