// Next words: the likeliest tokens after a text, what the settings cut, and why each has its probability.

import { Failure, ask } from "../server.js";
import { button, element, figure, probability, table, tokenElement, tokenText } from "../elements.js";
import { drawWhy, shares } from "./why.js";

export const title = "Next words";
export const fields = ["model", "other", "unit", "given", "picture", "text", "temperature", "top_k", "top_p", "min_p"];

export const ALL = "(all)"; // all models beside the first
const BESIDE = 10; // tokens of each of several models

/** The models beside the first; about: as the server describes that one, with the names of all. */
export function others({ model, other }, { models = [], fills }) {
  return fills || !other ? [] : (other === ALL ? models : [other]).filter(name => name !== model);
}

/** The settings of sampling that change something. */
export function sampling(state) {
  const temperature = Number(state.temperature), settings = {};
  if (temperature !== 1) settings.temperature = temperature;
  if (temperature === 0) return settings;
  if (Number(state.top_k) > 0) settings.top_k = Number(state.top_k);
  if (Number(state.top_p) < 1) settings.top_p = Number(state.top_p);
  if (Number(state.min_p) > 0) settings.min_p = Number(state.min_p);
  return settings;
}

/** What every view sends: the model, the text, and what a text is given. */
export function subject(state) {
  return { model: state.model, text: state.text, ...state.given && { given: state.given }, ...state.picture && { picture: state.picture } };
}

export function body(state) {
  return { ...subject(state), ...state.unit === "words" ? { unit: "words" } : sampling(state), top: 20 };
}

export function besideBody(state, about) {
  return { ...subject(state), also: others(state, about), top: BESIDE };
}

export async function load(state, signal, show, about) {
  const also = others(state, about);
  if (!also.length) return ask("/v1/explore/next", body(state), signal);
  if (state.unit === "words") {
    const [record, ...rest] = await Promise.all([state.model, ...also].map(model => ask("/v1/explore/next", { ...body(state), model }, signal)));
    return { ...record, others: rest };
  }
  try {
    return await ask("/v1/explore/beside", besideBody(state, about), signal);
  } catch (error) {
    if (!(error instanceof Failure) || about.isOffline || !error.message.includes("cannot share rows")) throw error;
    throw new Failure(`${error.message} Or choose words under Suggest.`);
  }
}

export function draw(record, state, change) {
  if (record.kind === "gaps") return record.gaps.map((gap, i) => drawGap(gap, i));
  if (record.kind === "beside") return drawBeside(record, state, change);
  if (record.others) return [element("div", { class: "columns" }, ...[record, ...record.others].map(one =>
    element("section", {}, element("h2", {}, one.model), ...drawWords(one.words, state, change))))];
  if (record.kind === "words") return drawWords(record.words, state, change);
  const chosen = Math.min(Number(state.why), record.tokens.length - 1);
  const bits = record.entropy / Math.LN2;
  return [
    element("p", {}, `After “${record.tokens_before ? "… " : ""}${record.context.map(tokenText).join(" ") || "<s>"}”: ` +
      `entropy ${figure(record.entropy, 3)} nats (${figure(bits, 3)} bits). ` +
      (record.kept < record.possible ?
        `The settings keep ${record.kept.toLocaleString()} of ${record.possible.toLocaleString()} tokens, ` +
        `and cut ${figure(100 * record.cut_prob, 1)} % of the probability.` :
        `All ${record.possible.toLocaleString()} tokens that have a probability may come.`)),
    drawBars(record, chosen, state, change),
    drawWhy(record, chosen),
    element("p", { class: "note" }, "A click appends a token. Grey: the model's own probability; " +
      `${record.mixture === "linear" ? "coloured, by component" : "blue"}: after temperature and cuts. <unk>, all unknown tokens together, is never generated.`),
  ];
}

/** A bar: of the model's probability, and inside it, side by side, of shares. Of the longest bar, all in all. */
function bar(longest, model, ...shares) {
  const part = (name, begin, length) => {
    const made = element("div", { class: name });
    Object.assign(made.style, { left: `${100 * begin / longest}%`, width: `${100 * length / longest}%` });
    return made;
  };
  const begins = shares.map((_, i) => shares.slice(0, i).reduce((sum, share) => sum + share, 0));
  return element("div", { class: "bar", "aria-hidden": "true" }, part("model", 0, model), ...shares.map((share, i) => part(`drawn part-${i % 5}`, begins[i], share)));
}

function appending(token, shown, added, state, change) {
  return button(tokenElement(shown), () => change({ text: state.text + added, why: "0" }),
    { class: "token", disabled: added === null, title: token === shown ? null : `in the vocabulary: ${tokenText(token)}`, "aria-label": `append ${tokenText(shown)}` });
}

function drawBars(record, chosen, state, change) {
  const longest = Math.max(...record.tokens.map(token => Math.max(token.prob, token.drawn)), 1e-30);
  const hasWhy = record.backoff || record.components || record.layers;
  const rows = record.tokens.map((token, i) => [
    appending(token.token, token.shown, token.added, state, change),
    bar(longest, token.prob, ...shares(record, i).map(share => share * token.drawn)),
    ...probabilities(token), token.drawn ? probability(token.drawn) : "cut",
    ...hasWhy ? [button("why?", () => change({ why: String(i) }, false), { "aria-label": `why ${tokenText(token.shown)}`, "aria-pressed": String(i === chosen) })] : [],
  ]);
  const kinds = record.tokens.map((token, i) => [token.drawn === 0 && "is-cut", hasWhy && i === chosen && "chosen"].filter(Boolean).join(" ") || null);
  return table("The likeliest tokens", ["token", "", ...PROBABILITIES, "drawn with", ...hasWhy ? [""] : []], rows, "bars", kinds);
}

const PROBABILITIES = ["probability", ["log P, nats", "detail"]];

function probabilities({ prob, log_prob: logProb }) {
  return [element("span", { title: prob }, probability(prob)), figure(logProb, 3)];
}

/** The tokens that any of several models finds likeliest, and what each gives them. */
function drawBeside({ names, entropies, tokens }, state, change) {
  const longest = Math.max(...tokens.flatMap(({ probs }) => probs), 1e-30);
  const cells = prob => [bar(longest, 0, prob ?? 0), prob === null ? "unknown" : element("span", { title: prob }, probability(prob))];
  return [
    element("p", {}, "Entropy: ", names.map((name, i) => `${figure(entropies[i] / Math.LN2, 3)} bits for ${name}`).join(", ") + "."),
    table("The likeliest tokens of each model", ["token", ...names.flatMap(name => ["", name])], tokens.map(({ token, shown, added, probs }) =>
      [appending(token, shown, added, state, change), ...probs.flatMap(cells)]), "beside"),
    element("p", { class: "note" }, `Probabilities of the ${BESIDE} likeliest tokens of each model, in the order of ${names[0]}. All bars have one scale. ` +
      "A click appends a token. unknown: not in this model's vocabulary, and so a part of its <unk>."),
  ];
}

function drawWords(words, state, change) {
  const longest = Math.max(...words.map(word => word.prob), 1e-30);
  return [
    table("The likeliest words", ["word", "", ...PROBABILITIES], words.map(word =>
      [appending(word.text, word.text, word.added, state, change), bar(longest, 0, word.prob), ...probabilities(word)]), "bars"),
    element("p", { class: "note" }, words.length ? "The rest of the typed word, or the next one, and more while that is likelier than not. A click appends it." :
      "No word of the vocabulary goes on like this."),
  ];
}

function drawGap(gap, i) {
  const longest = Math.max(...gap.map(({ prob }) => prob), 1e-30);
  return table(`Gap ${i + 1}`, ["token", "", ...PROBABILITIES],
    gap.map(({ shown, prob }) => [tokenElement(shown), bar(longest, 0, prob), ...probabilities({ prob, log_prob: Math.log(prob) })]), "bars");
}
