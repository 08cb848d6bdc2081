// Beams: all hypotheses of a beam search, step by step, with running totals and fates.

import { ask } from "../server.js";
import { button, element, figure, table, tokenElement, visible } from "../elements.js";
import { subject } from "./next.js";

export const title = "Beams";
export const fields = ["model", "given", "picture", "text", "size", "length"];

const FATES = { kept: "kept", pruned: "dropped", end: "finished", length: "cut at the limit", stop: "stopped", greedy: "greedy search only" };

export function body(state) {
  return { ...subject(state), size: Number(state.size), max_tokens: Number(state.length) };
}

export function load(state, signal) {
  return ask("/v1/explore/beams", body(state), signal);
}

export function draw(record, state, change) {
  const depths = [];
  for (const node of record.nodes) depths[node.id] = node.parent === null ? 1 : depths[node.parent] + 1;
  const last = Math.max(...depths, 1), step = Math.min(Number(state.step) || last, last);
  const nodes = record.nodes.filter(node => depths[node.id] === step)
    .sort((a, b) => (a.fate === "pruned") - (b.fate === "pruned") || b.total - a.total);
  const rows = nodes.map(node => [visible(record.texts[node.id]), figure(node.log_prob, 2), figure(node.total, 2),
    FATES[node.fate] + (record.greedy.includes(node.id) ? ", greedy" : "") + (record.best.includes(node.id) ? ", best" : "")]);
  const move = (name, sign, by) => button(sign, () => change({ step: String(step + by) }, false), { "aria-label": name, disabled: step + by < 1 || step + by > last });
  const picture = element("img", { class: "drawing", alt: `The search tree. ${record.finding} The steps are listed below.` });
  picture.src = `data:image/svg+xml,${encodeURIComponent(grown(record.svg, step))}`;
  const tree = element("div", { class: "wide tree", tabindex: "0", role: "region", "aria-label": "The tree" }, picture);
  const left = new RegExp(`<g data-step="${step}".*?x="([\\d.]+)"`, "s").exec(record.svg)?.[1];
  // From the beginning, until a step is chosen that is out of sight.
  if (state.step !== "0") picture.addEventListener("load", () => { tree.scrollLeft = left - tree.clientWidth + 170; });
  return [
    element("p", {}, record.finding),
    element("p", {}, move("one step back", "‹", -1), ` step ${step} of ${last} `, move("one step on", "›", 1)),
    tree,
    outline(record, node => depths[node.id] <= step),
    table(`Step ${step}: hypotheses, log-probabilities in nats`, ["hypothesis", "last token", "total", "fate"], rows, "left"),
  ];
}

/** The tree as a list of lists, for narrow screens: tokens that follow each other without a fork on one line. */
function outline(record, isShown) {
  const children = new Map(), root = { id: null };
  for (const node of record.nodes.filter(isShown)) children.set(node.parent, [...children.get(node.parent) ?? [], node]);
  const after = node => (children.get(node.id) ?? []).sort((a, b) => b.total - a.total);
  const item = first => {
    const run = [first];
    while (after(run.at(-1)).length === 1) run.push(after(run.at(-1))[0]);
    const last = run.at(-1), isBest = record.best.includes(last.id);
    return element("li", { class: last.fate === "pruned" ? "quiet" : null }, element(isBest ? "strong" : "span", {}, ...run.flatMap((node, i) => [i ? " " : "", tokenElement(record.shown[node.id])])),
      ` ${figure(last.total, 2)}, ${FATES[last.fate]}${isBest ? ", best" : ""}`, list(last));
  };
  const list = node => after(node).length > 0 && element("ul", {}, ...after(node).map(item));
  return element("div", { class: "outline" }, list(root));
}

/** The drawing without what comes after a step. It stays text: the policy of the page would refuse its styles. */
function grown(svg, step) {
  return svg.replace(/<path data-step="(\d+)".*?\/>|<g data-step="(\d+)".*?<\/g>/gs, (part, ofLine, ofBox) => Number(ofLine ?? ofBox) > step ? "" : part);
}
