// The way of a text through a model to its next token, step by step, with this model's own numbers.

import { ask } from "../server.js";
import { legend, ofWeight, paint, scale } from "../colours.js";
import { button, element, figure, probability, table, tokenElement, tokenText } from "../elements.js";
import { filled, floats, picture, sided, strip } from "../pictures.js";
import { sampling, subject } from "./next.js";
import { drawWhy } from "./why.js";

export const title = "Step by step";
export const fields = ["model", "given", "picture", "text", "temperature", "top_k", "top_p", "min_p", "seed"];

const MOST = 5; // tokens that are named of a step that is folded
const LONGEST = 24; // tokens that are shown of those read
const GATES = { i: "input gate i", f: "forget gate f", o: "output gate o", g: "candidate g", c: "cell c", h: "hidden h", r: "reset gate r", z: "update gate z", n: "candidate n" };
const CHAIN = "The chain of back-offs";
const open = new Set([CHAIN]); // the steps that are unfolded, by title

export function body(state) {
  return { ...subject(state), ...sampling(state), seed: Number(state.seed) };
}

export function load(state, signal) {
  return ask("/v1/explore/way", body(state), signal);
}

export function draw(record, state, change) {
  const chosen = Math.min(Number(state.why), record.tokens.length - 1), token = record.tokens[chosen], name = tokenText(token.shown);
  const middle = { transformer: transformerSteps, recurrent: recurrentSteps, ngram: chainSteps }[record.way.kind];
  const pick = element("select", { change: event => change({ why: event.target.value }, false) },
    ...record.tokens.map((one, i) => element("option", { value: i, selected: i === chosen }, tokenText(one.shown))));
  const steps = [
    step("The text as tokens", tokensOf(...tokensRead(record)), `${record.way.kind === "ngram" ? "The model sees the last tokens" : "What the network reads"}.`),
    ...middle(record, chosen, name), ...record.logits ? [logitStep(record)] : [], ...lastSteps(record, state, change),
  ];
  return [
    element("p", {}, element("label", {}, "Follow the token ", pick), " through the steps; each unfolds."),
    element("ol", { class: "way" }, ...steps.map(one => element("li", {}, one))),
  ];
}

/** A step: its name and a picture, and what unfolds. */
function step(heading, shown, says, ...more) {
  const made = element("details", { open: open.has(heading) },
    element("summary", {}, element("strong", {}, heading), " ", element("span", { class: "quiet" }, says), shown), ...more);
  made.addEventListener("toggle", () => made.open ? open.add(heading) : open.delete(heading));
  return made;
}

/** The tokens that are read, and how many come before them. */
function tokensRead({ way, context, tokens_before: before }) {
  return way.read ? [way.read, way.tokens_before] : [[...before ? [] : ["<s>"], ...context], before];
}

function tokensOf(tokens, before) {
  const shown = tokens.slice(-LONGEST), hidden = before + tokens.length - shown.length;
  return element("p", { class: "choices" }, hidden > 0 ? element("span", { class: "quiet" }, `… ${hidden.toLocaleString()} before `) : "",
    ...shown.map(token => element("span", { class: "key" }, tokenElement(token))));
}

/** A table of bars: names, and numbers of 0 or more. */
function barsOf(caption, header, rows) {
  const most = Math.max(...rows.map(([, value]) => value), 1e-30);
  return table(caption, [header[0], "", header[1]], rows.map(([name, value, text]) => [name, filled(Math.max(0, value) / most), text]), "bars");
}

const POSITIONS = {
  rotary: "positions turn queries and keys (rotary)", alibi: "positions lower the scores of distant tokens (ALiBi)", relative: "distances have learned scores",
  none: "the network is told no positions",
};

function transformerSteps(record, chosen, name) {
  const { parts, attention, layers, read, positions, rest } = record.way, hasShares = parts.every(part => part.shares);
  const most = Math.max(...parts.map(part => part.shares ? Math.abs(part.shares[chosen]) : part.norm), 1e-30);
  const bar = part => part.shares ? sided(part.shares[chosen], most) : filled(part.norm / most);
  const total = record.logits?.[chosen];
  const says = part => part.shares ? `${figure(part.shares[chosen], 2)} of the logit ${figure(total, 2)} of “${name}”` : `adds a vector of length ${figure(part.norm, 2)}`;
  const detail = part => element("div", {}, strip(floats(part.vector), part.part),
    element("p", { class: "note" }, `The ${part.width} numbers that it adds, a vector of length ${figure(part.norm, 3)}; the sum is then ${figure(part.after, 3)} long` +
      (part.shares ? `. Its share of the logit of “${name}” is ${figure(part.shares[chosen], 3)}.` : ".")));
  const titles = { token: "The vector of the token", position: "The vector of the position", attention: "attention", "feed-forward": "feed-forward" };
  const note = Object.hasOwn(POSITIONS, positions) && `Here ${POSITIONS[positions]}.`;
  const first = parts.filter(part => part.layer === 0).map(part => step(titles[part.part], bar(part), says(part), detail(part), note && element("p", { class: "note" }, note)));
  const guess = layer => record.layers?.find(one => one.layer === layer)?.guesses[0];
  const blocks = Array.from({ length: layers }, (_, i) => {
    const own = parts.filter(part => part.layer === i + 1), best = guess(i + 1);
    const heads = attention.length === layers ? headsOf(attention[i], read) : "";
    return step(`Layer ${i + 1}`, element("div", { class: "parts" }, ...own.flatMap(part => [element("span", { class: "quiet" }, part.part), bar(part)])),
      best ? `after it: “${tokenText(best.shown)}” ${probability(best.prob)}` : "",
      ...own.map(part => element("section", {}, element("h3", {}, `${titles[part.part]}: ${says(part)}`), part.part === "attention" ? heads : "", detail(part))));
  });
  return [...first, ...blocks, ...hasShares ? [step("What adds up to the logit", "", `of “${name}”`,
    table(`Shares of the logit of “${name}”, largest first`, ["part", "", "share"], parts.map(part => [part.layer ? `layer ${part.layer}, ${part.part}` : titles[part.part], part.shares[chosen]])
      .concat(Math.abs(rest?.[chosen] ?? 0) > 5e-4 ? [["the norm's shifts and the output's bias", rest[chosen]]] : [])
      .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).map(([part, share]) => [part, sided(share, most), figure(share, 3)]), "bars"),
    element("p", { class: "note" }, "All parts add to one vector, which the output reads: with the length of that vector as it is, the logit is the sum of their shares (direct logit attribution)."))] : []];
}

/** Where the heads of the last token look: a row for each. */
function headsOf({ heads, weights }, read) {
  const values = floats(weights), width = values.length / heads, from = Math.max(0, width - LONGEST), shown = read.slice(-width).slice(from), colour = scale();
  const own = head => values.subarray(head * width + from, (head + 1) * width);
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Where each head looks" }, element("table", { class: "coloured" },
    element("caption", {}, "Where each head of the last token looks"),
    element("thead", {}, element("tr", {}, element("th", {}, "head"), ...shown.map(token => element("th", { scope: "col" }, tokenElement(token))))),
    element("tbody", {}, ...Array.from({ length: heads }, (_, head) => element("tr", {}, element("th", { scope: "row" }, String(head + 1)),
      ...Array.from(own(head), weight => paint(element("td", { title: figure(weight, 4) }, "\u00a0"), colour(ofWeight(weight)))))))), legend("Weight: ", [0, 0.05, 0.2, 0.4, 0.7, 1].map(weight => [colour(ofWeight(weight)), String(weight)])));
}

function recurrentSteps(record) {
  const { layers, read } = record.way, width = read.length;
  return layers.map(layer => {
    const values = Object.entries(layer.values).map(([gate, text]) => [gate, floats(text)]), units = layer.units.length;
    const map = ([gate, all]) => {
      const turned = new Float32Array(all.length); // units as rows, tokens as columns
      for (let t = 0; t < width; t++) for (let unit = 0; unit < units; unit++) turned[unit * width + t] = all[t * units + unit];
      const most = turned.reduce((highest, value) => Math.max(highest, Math.abs(value)), gate === "c" ? 1e-9 : 1), last = all.subarray((width - 1) * units);
      const canvas = picture(turned, width, units, most, `${GATES[gate] ?? gate}, ${units} units by ${width} tokens`);
      canvas.className = "gates";
      return element("figure", {}, canvas, element("figcaption", {}, `${GATES[gate] ?? gate}; the colours end at ±${figure(most, 2)}; at the last token from ${figure(Math.min(...last), 2)} to ${figure(Math.max(...last), 2)}`));
    };
    const [, hidden] = values.find(([gate]) => gate === "h");
    return step(`${layer.name[0].toUpperCase()}${layer.name.slice(1)}`, strip(hidden.slice((width - 1) * units), "the hidden state"), `the hidden state of ${units} of ${layer.width} units at the last token`,
      element("p", { class: "note" }, `A row for each of the ${units} units that vary most (${layer.units.slice(0, 8).join(", ")}, …), a column for each of the last ${width} tokens: ${read.map(tokenText).join(" ")}. Orange: above 0; blue: below.`),
      element("div", { class: "panels" }, ...values.map(map)));
  });
}

function chainSteps(record, chosen) {
  return [step(CHAIN, "", "from the longest context that the model knows", drawWhy(record, chosen))];
}

function logitStep(record) {
  const { tokens, logits } = record, lowest = Math.min(...logits, 0), of = token => logits[tokens.indexOf(token)];
  return step("Logits", best(tokens, token => figure(of(token), 2)), "the output's product with the vector of each token",
    barsOf("The largest logits", ["token", "logit"], tokens.map(token => [tokenElement(token.shown), of(token) - lowest, figure(of(token), 3)])));
}

/** The first tokens, each with a number. */
function best(tokens, text) {
  return element("p", { class: "choices" }, ...tokens.slice(0, MOST).map(token => element("span", { class: "key" }, tokenElement(token.shown), ` ${text(token)}`)));
}

function lastSteps(record, state, change) {
  const { tokens, kept, possible, cut_prob: cut } = record, name = record.way.kind === "ngram" ? "Probabilities" : "Softmax";
  const { picked } = record, drawn = token => token.drawn ? probability(token.drawn) : "cut";
  return [
    step(name, best(tokens, token => probability(token.prob)),
      record.way.kind === "ngram" ? `entropy ${figure(record.entropy, 3)} nats` : `P = exp(logit) / the sum over all tokens; entropy ${figure(record.entropy, 3)} nats`,
      barsOf("The likeliest tokens", ["token", "probability"], tokens.map(token => [tokenElement(token.shown), token.prob, probability(token.prob)]))),
    step("Temperature and cuts", best(tokens, drawn), kept < possible ? `keep ${kept.toLocaleString()} of ${possible.toLocaleString()} tokens, and cut ${figure(100 * cut, 1)} % of the probability` : "cut nothing",
      barsOf("What they are drawn with", ["token", "drawn with"], tokens.map(token => [tokenElement(token.shown), token.drawn, drawn(token)]))),
    step("The token that is drawn", element("p", {}, element("span", { class: "key differs" }, tokenElement(picked.shown)), " ",
      picked.added ? button("Append it", () => change({ text: state.text + picked.added, why: "0" })) : "", " ",
      button("Another seed", () => change({ seed: String(Number(state.seed) + 1) }))), `with seed ${record.seed}`),
  ];
}
