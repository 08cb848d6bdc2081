// Surprisal: how unexpected each token, word, character or byte of a text is, to one model or to two.

import { ask } from "../server.js";
import { legend, ofBits, paint, rgb, scale } from "../colours.js";
import { element, figure, table, tokenElement, tokenText, visible } from "../elements.js";
import { subject } from "./next.js";

export const title = "Surprisal";
export const fields = ["model", "other", "by", "given", "picture", "text", "scale", "difference"];

const MANY = 2000; // units; more are not buttons
const bits = logProb => logProb === null ? Infinity : -logProb / Math.LN2;
/** The surprisal of a unit in bits; of a word, with its end, if that is known. */
const cost = unit => bits(unit.whole_log_prob ?? unit.text_log_prob);

export function body(state) {
  return { ...subject(state), by: state.by };
}

export async function load(state, signal) {
  const of = model => ask("/v1/explore/surprisal", { ...body(state), model }, signal);
  const first = await of(state.model);
  return { first, second: state.other ? await of(state.other) : null, fingerprint: first.fingerprint };
}

export function draw({ first, second }, state, change) {
  const place = unit => `${unit.start_byte}-${unit.stop_byte}`;
  const others = new Map((second?.units ?? []).map(unit => [place(unit), unit]));
  const units = first.units.map(unit => ({ ...unit, other: others.get(place(unit)) ?? null }));
  return [
    ...[first, second].filter(Boolean).map(drawSum),
    second && drawDifference(units, first, second),
    drawText(units, first, second, state, change),
    drawLegend(fullOf(state, second), second),
    !second && element("p", { class: "note" }, "The stronger the colour, the more surprising. The first token is given <s>, the start. A click shows what else was expected. " +
      "Dotted: not in the vocabulary; its bits include the spelling."),
    units.some(unit => unit.whole_log_prob && unit.whole_log_prob !== unit.text_log_prob) && element("p", { class: "note" },
      "A word pays for its own end (Pimentel and Meister 2024), not for that of the word before it, as in chainrule score --words. The sum is the same."),
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
  const isBetter = unit => (cost(unit) - cost(unit.other)) * gain > 0;
  return element("p", {}, `${better} needs ${figure(Math.abs(gain), 2)} bits less for the whole text, ` +
    `${figure(Math.abs(gain) / first.tokens, 3)} for each token of ${first.model}. It is better at ${shared.filter(isBetter).length} of ${shared.length} ${first.by}. ` +
    (shared.length < units.length ? `${units.length - shared.length} are cut differently by the two; compare words. ` : ""));
}

/** What the mouse shows of a unit. */
function hintOf(unit, second) {
  const spelling = bits(unit.text_log_prob) - bits(unit.log_prob);
  return visible(`${unit.shown}: ${figure(cost(unit), 2)} bits` + (unit.known ? "" : `, ${figure(spelling, 2)} of them for the spelling`) +
    (unit.rank ? `, rank ${unit.rank}; likeliest: ${unit.likelier.join(", ")}` : "") +
    (unit.other ? `; ${second.model}: ${figure(cost(unit.other), 2)} bits` : ""));
}

/** The bits, or the difference of bits, that have the strongest colour. */
const fullOf = (state, second) => Number(second ? state.difference : state.scale);

/** The colour of bits, or of a difference of bits: orange where the first model is more surprised, blue where the second is. */
function shades(full, second) {
  if (!second) {
    const share = ofBits(full), colour = scale();
    return own => colour(share(own));
  }
  const of = name => rgb(getComputedStyle(document.documentElement).getPropertyValue(name)), share = ofBits(full);
  const [paper, less, more] = [of("--paper"), of("--line-0"), of("--line-1")];
  return difference => paper.map((value, i) => Math.round(value + 0.7 * share(difference) * ((difference < 0 ? less : more)[i] - value)));
}

function drawLegend(full, second) {
  const colour = shades(full, second);
  const bits = second ? [-1, -0.5, -0.125, 0, 0.125, 0.5, 1].map(part => part * full) : [0, 1 / 32, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1].map(part => part * full);
  const text = value => figure(value, Number.isInteger(value) ? 0 : 1);
  const ends = i => i === bits.length - 1 ? " or more" : second && i === 0 ? " or less" : "";
  return legend(second ? "Blue: the second model is more surprised; orange: the first. Bits: " : "Bits: ",
    bits.map((value, i) => [colour(value), text(value) + ends(i)]));
}

function drawText(units, first, second, state, change) {
  const colour = shades(fullOf(state, second), second);
  const letters = Array.from(first.normalised), isShort = units.length <= MANY, parts = [];
  let end = 0;
  units.forEach((unit, i) => {
    const isEnd = i === units.length - 1;
    if (unit.start > end) parts.push(visible(letters.slice(end, unit.start).join("")));
    const own = cost(unit);
    const shade = second ? unit.other ? own - cost(unit.other) : 0 : own;
    const written = isEnd ? " ⏎" : unit.is_part ? unit.shown : letters.slice(unit.start, unit.stop).join("");
    const hint = hintOf(unit, second);
    const made = element(isShort ? "button" : "span", {
      class: unit.known ? "unit" : "unit unknown", type: isShort ? "button" : null, title: hint, "aria-label": isShort ? hint : null,
      click: () => change({ view: "next", unit: "tokens", text: letters.slice(0, unit.start).join("") }),
    }, visible(written.replaceAll("\n", "¶")));
    parts.push(paint(made, colour(shade)));
    if (written.includes("\n")) parts.push("\n");
    end = Math.max(end, unit.stop);
  });
  return element("div", { class: "text", dir: "auto" }, ...parts);
}

function drawTable(units, second) {
  const hasRank = units.some(unit => unit.rank);
  const header = ["unit", "bits", ["nats", "detail"], ...hasRank ? [["rank", second && "detail"], ["likeliest", second ? "detail wraps" : "wraps"]] : [], ...second ? [`bits, ${second.model}`, "difference"] : []];
  const rows = units.map(unit => {
    const own = cost(unit), other = unit.other && cost(unit.other);
    return [tokenElement(unit.shown), figure(own, 3), figure(own * Math.LN2, 4),
      ...hasRank ? [unit.rank ? String(unit.rank) : "", unit.likelier ? unit.likelier.slice(0, 5).map(tokenText).join(" ") : ""] : [],
      ...second ? [figure(other, 3), other === null ? "—" : figure(own - other, 3)] : []];
  });
  return table("Surprisal by unit", header, rows);
}
