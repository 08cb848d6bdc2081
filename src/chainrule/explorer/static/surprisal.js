// Surprisal: how unexpected each token, word or character of a text is, to one model or to two.

import { ask } from "./server.js";
import { element, figure, table, tokenText, visible } from "./elements.js";

export const title = "Surprisal";
export const fields = ["model", "other", "by", "text"];

const MANY = 2000; // units; more are not buttons
const STRONGEST = 12; // bits that have the full colour
const bits = logProb => logProb === null ? Infinity : -logProb / Math.LN2;

export async function load(state, signal) {
  const of = model => ask("/v1/explore/surprisal", { model, text: state.text, by: state.by }, signal);
  return { first: await of(state.model), second: state.other ? await of(state.other) : null };
}

export function draw({ first, second }, state, change) {
  const others = new Map((second?.units ?? []).map(unit => [`${unit.start}-${unit.stop}`, unit]));
  const units = first.units.map(unit => ({ ...unit, other: others.get(`${unit.start}-${unit.stop}`) ?? null }));
  return [
    ...[first, second].filter(Boolean).map(drawSum),
    second && drawDifference(units, first, second),
    drawText(units, first, second, change),
    element("p", { class: "note" }, second ?
      "Orange: the first model is more surprised; blue: the second one." :
      "The darker, the more surprising. The first token is given the start of the text, <s>. " +
      "A click shows what else was expected there. Dotted: not in the vocabulary; its bits include the spelling."),
    element("details", { open: units.length < 60 }, element("summary", {}, "As a table"), drawTable(units, second)),
  ];
}

function drawSum(record) {
  const total = bits(record.text_log_prob);
  return element("p", {}, element("strong", {}, record.model), `: ${figure(total, 2)} bits, ` +
    `${figure(record.bits_per_byte)} bits per byte; ${record.tokens.toLocaleString()} tokens with the end, ${record.oov.toLocaleString()} unknown, ` +
    `${record.bytes.toLocaleString()} bytes.` +
    (record.left_out ? ` The last ${record.left_out.toLocaleString()} characters of the text are left out.` : ""));
}

function drawDifference(units, first, second) {
  const shared = units.filter(unit => unit.other);
  const gain = bits(first.text_log_prob) - bits(second.text_log_prob);
  const better = gain > 0 ? second.model : first.model;
  return element("p", {}, `${better} needs ${figure(Math.abs(gain), 2)} bits less for the whole text. ` +
    (shared.length < units.length ? `${units.length - shared.length} units are cut differently by the two; compare words. ` : ""));
}

function drawText(units, first, second, change) {
  const letters = Array.from(first.normalised), isShort = units.length <= MANY, parts = [];
  let end = 0;
  for (const unit of units) {
    const isEnd = unit.stop <= unit.start;
    if (unit.start > end) parts.push(visible(letters.slice(end, unit.start).join("")));
    const own = bits(unit.text_log_prob);
    const shade = second ? unit.other ? own - bits(unit.other.text_log_prob) : 0 : own;
    const text = isEnd ? " ⏎" : visible(letters.slice(unit.start, unit.stop).join(""));
    const before = letters.slice(0, unit.start).join("");
    const hint = `${unit.text}: ${figure(own, 2)} bits` + (unit.rank ? `, rank ${unit.rank}; likelier: ${unit.likelier.join(", ")}` : "") +
      (unit.other ? `; ${second.model}: ${figure(bits(unit.other.text_log_prob), 2)} bits` : "");
    const made = element(isShort ? "button" : "span", {
      class: unit.known ? "unit" : "unit unknown", type: isShort ? "button" : null, title: visible(hint), "aria-label": isShort ? visible(hint) : null,
      click: () => change({ view: "next", text: before }),
    }, text);
    const strength = Math.min(1, Math.abs(shade) / (second ? STRONGEST / 2 : STRONGEST));
    if (strength > 0.02) made.style.backgroundColor = `rgb(${shade < 0 ? "0 114 178" : "213 94 0"} / ${(0.5 * strength).toFixed(3)})`;
    parts.push(made);
    end = Math.max(end, unit.stop);
  }
  return element("div", { class: "text", dir: "auto" }, ...parts);
}

function drawTable(units, second) {
  const hasRank = units.some(unit => unit.rank);
  const header = ["unit", "bits", "nats", ...hasRank ? ["rank", "likelier"] : [], ...second ? [`bits, ${second.model}`, "difference"] : []];
  const rows = units.map(unit => {
    const own = bits(unit.text_log_prob), other = unit.other && bits(unit.other.text_log_prob);
    return [tokenText(unit.text), figure(own, 3), figure(unit.text_log_prob, 4),
      ...hasRank ? [unit.rank ? String(unit.rank) : "", unit.likelier ? unit.likelier.map(tokenText).join(" ") : ""] : [],
      ...second ? [figure(other, 3), other === null ? "—" : figure(own - other, 3)] : []];
  });
  return table("Surprisal by unit", header, rows);
}
