// Playground: texts that the model writes after a prompt, as they grow, side by side.

import { Failure, stream } from "../server.js";
import { element, visible } from "../elements.js";
import { sampling } from "./next.js";

export const title = "Playground";
export const fields = ["model", "text", "temperature", "top_k", "top_p", "min_p", "max_tokens", "n", "seed"];
export const buttonText = "Write";

/** The body of the request, for /v1/completions. */
export function body(state) {
  return { model: state.model, prompt: state.text, temperature: Number(state.temperature), ...sampling(state),
    max_tokens: Number(state.max_tokens), n: Number(state.n), seed: Number(state.seed),
    truncate_prompt_tokens: -1 }; // of a longer text, the end is read
}

/** Texts as they grow; report is called with the record after each piece. */
export async function load(state, signal, report, about) {
  if (about.given) throw new Failure(`This model writes texts given a ${about.given}. Beams shows what it writes.`);
  const record = { prompt: state.text, seed: state.seed, texts: Array.from({ length: Number(state.n) }, () => ({ text: "", reason: null })) };
  for await (const chunk of stream("/v1/completions", body(state), signal)) {
    for (const choice of chunk.choices) {
      const text = record.texts[choice.index];
      text.text += choice.text;
      text.reason = choice.finish_reason ?? text.reason;
    }
    report(record);
  }
  return record;
}

const REASONS = { stop: "ended by itself", length: "cut at the limit" };

export function draw(record) {
  const texts = record.texts.map(text => Array.from(text.text)), [first] = texts;
  const divergence = text => {
    const at = text.findIndex((c, i) => c !== first[i]);
    return at < 0 ? text.length : at;
  };
  return [
    element("div", { class: "columns" }, ...record.texts.map((text, i) => {
      const at = divergence(texts[i]), differs = i > 0 && at < texts[i].length;
      return element("article", { dir: "auto" }, element("span", { class: "quiet" }, visible(record.prompt)),
        visible(texts[i].slice(0, at).join("")), differs ? element("mark", { class: "differs" }, visible(texts[i][at])) : "",
        visible(texts[i].slice(at + (differs ? 1 : 0)).join("")),
        element("p", { class: "note" }, `text ${i + 1}: ${REASONS[text.reason] ?? "…"}`));
    })),
    element("p", { class: "note" }, `Seed ${record.seed}: the same settings give the same texts again. ` +
      (record.texts.length > 1 ? "Marked: where a text first differs from text 1." : "")),
  ];
}
