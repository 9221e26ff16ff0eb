// What tokens cost, by the prices that the program gave to Studio. Without them nothing is said of
// money.

import type { Use } from "./deeds";

// Price is in units of the currency, of a million tokens.
interface Price {
  input: number;
  output: number;
}

export interface Prices {
  currency: string;
  models: Record<string, Price>;
}

let asked: Promise<Prices | undefined> | undefined;

// prices are those of prices.json beside the page; undefined if there are none.
export function prices(): Promise<Prices | undefined> {
  asked ??= fetch(new URL("prices.json", document.baseURI)).then((a) => (a.ok ? (a.json() as Promise<Prices | null>) : undefined)).then((p) => p ?? undefined).catch(() => undefined);
  return asked;
}

// costOf is what uses cost, as far as their models have prices, and which models have none; undefined without prices. A
// model's name may have a date behind the name that has a price.
export function costOf(uses: Use[], of: Prices | undefined): { sum: number | undefined; without: string[] } | undefined {
  if (!of) return undefined;
  let sum: number | undefined;
  const without = new Set<string>();
  for (const u of uses) {
    if (u.total === 0) continue; // not known
    const name = Object.keys(of.models).filter((n) => u.model === n || u.model.startsWith(n + "-")).sort((a, b) => b.length - a.length)[0];
    if (name === undefined) {
      without.add(u.model || "a model without a name");
      continue;
    }
    const price = of.models[name]!;
    sum = (sum ?? 0) + (u.input * price.input + u.output * price.output) / 1e6;
  }
  return { sum, without: [...without] };
}

export function money(sum: number, currency: string): string {
  return `${sum === 0 || sum >= 0.01 ? sum.toFixed(2) : sum.toPrecision(1)} ${currency}`;
}
