// Markdown to HTML that can do nothing: no scripts, no styles, no forms, nothing that is
// loaded or followed. Markup in the text stays text; what is made from it is cleaned again.

import DOMPurify from "dompurify";
import { Marked } from "marked";

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text: string) => text.replace(/[&<>"']/g, (c) => escapes[c]!);

const marked = new Marked({
  async: false,
  gfm: true,
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ text, href }) => escape(`${text || "image"} (${href})`),
    link({ tokens, href }) {
      const text = this.parser.parseInline(tokens);
      return text === escape(href) ? text : `${text} (${escape(href)})`;
    },
  },
});

export function clean(text: string): string {
  return DOMPurify.sanitize(marked.parse(text) as string, {
    ALLOWED_TAGS: [
      "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code",
      "strong", "em", "del", "table", "thead", "tbody", "tr", "th", "td",
    ],
    ALLOWED_ATTR: ["start", "align"],
    ALLOW_DATA_ATTR: false,
  });
}
