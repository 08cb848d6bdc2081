// Beams: all hypotheses of a beam search, step by step, with running totals and what became of each.

import { ask } from "./server.js";
import { element, figure, table, tokenText } from "./elements.js";

export const title = "Beams";
export const fields = ["model", "text", "size", "length"];

const FATES = { kept: "kept", pruned: "dropped", end: "finished", length: "cut at the limit", stop: "stopped", greedy: "greedy search only" };

export function load(state, signal) {
  return ask("/v1/explore/beams", { model: state.model, text: state.text, size: Number(state.size), max_tokens: Number(state.length) }, signal);
}

export function draw(record, state, change) {
  const depths = [];
  for (const node of record.nodes) depths[node.id] = node.parent === null ? 1 : depths[node.parent] + 1;
  const last = Math.max(...depths, 1), step = Math.min(Number(state.step) || last, last);
  const text = node => (node.parent === null ? [] : text(record.nodes[node.parent])).concat(record.shown[node.id]);
  const nodes = record.nodes.filter(node => depths[node.id] === step)
    .sort((a, b) => (a.fate === "pruned") - (b.fate === "pruned") || b.total - a.total);
  const rows = nodes.map(node => [text(node).map(tokenText).join(" "), figure(node.log_prob, 2), figure(node.total, 2),
    FATES[node.fate] + (record.greedy.includes(node.id) ? ", greedy" : "") + (record.best.includes(node.id) ? ", best" : "")]);
  const move = by => change({ step: String(Math.min(last, Math.max(1, step + by))) }, false);
  const picture = element("img", { class: "drawing", alt: `The tree of the search. ${record.finding} The steps below list all of it.` });
  picture.src = `data:image/svg+xml,${encodeURIComponent(record.svg)}`;
  return [
    element("p", {}, record.finding),
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "The tree" }, picture),
    element("p", {},
      element("button", { type: "button", "aria-label": "one step back", disabled: step === 1, click: () => move(-1) }, "‹"), ` step ${step} of ${last} `,
      element("button", { type: "button", "aria-label": "one step on", disabled: step === last, click: () => move(1) }, "›")),
    table(`Step ${step}: hypotheses, log-probabilities in nats`, ["hypothesis", "last token", "total", "what became of it"], rows, "left"),
  ];
}
