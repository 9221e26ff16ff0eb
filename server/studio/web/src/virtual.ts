// A long list of which only what can be seen is in the page.

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useLayoutEffect, useReducer, useState } from "preact/hooks";

export function useVirtual(count: number, height: number, scroller: () => HTMLElement | null) {
  const [, again] = useReducer((n: number) => n + 1, 0);
  const options = {
    count,
    estimateSize: () => height,
    getScrollElement: scroller,
    overscan: 5,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => again(undefined),
  };
  const [virtual] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  return virtual;
}
