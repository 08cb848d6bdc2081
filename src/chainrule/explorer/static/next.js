// Next words: the likeliest tokens after a text, what the settings cut, and why each has its probability.

import { ask } from "./server.js";
import { button, element, figure, probability, table, tokenText } from "./elements.js";

export const title = "Next words";
export const fields = ["model", "unit", "given", "picture", "text", "temperature", "top_k", "top_p", "min_p"];

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

export function load(state, signal) {
  return ask("/v1/explore/next", body(state), signal);
}

export function draw(record, state, change) {
  if (record.kind === "gaps") return record.gaps.map((gap, i) => drawGap(gap, i));
  if (record.kind === "words") return drawWords(record.words, state, change);
  const chosen = Math.min(Number(state.why), record.tokens.length - 1);
  const bits = record.entropy / Math.LN2;
  return [
    element("p", {}, `After “${record.context.map(tokenText).join(" ") || "<s>"}”: ` +
      `entropy ${figure(record.entropy, 3)} nats (${figure(bits, 3)} bits). ` +
      (record.kept < record.possible ?
        `The settings keep ${record.kept.toLocaleString()} of ${record.possible.toLocaleString()} tokens, ` +
        `and cut ${figure(100 * record.cut_prob, 1)} % of the probability.` :
        `All ${record.possible.toLocaleString()} tokens that have a probability may come.`)),
    drawBars(record, chosen, state, change),
    record.backoff ? drawBackoff(record, chosen) : null,
    record.components ? drawComponents(record, chosen) : null,
    record.layers ? drawLayers(record, chosen) : null,
    element("p", { class: "note" }, "A click on a token appends it. Grey: the model's own probability; " +
      "blue: after temperature and cuts. <unk>, all unknown tokens together, is never generated."),
  ];
}

/** A bar of one or two shares of the longest. */
function bar(longest, shares) {
  return element("div", { class: "bar", "aria-hidden": "true" }, ...Object.entries(shares).map(([name, share]) => {
    const made = element("div", { class: name });
    made.style.width = `${100 * share / longest}%`;
    return made;
  }));
}

function appending(token, shown, added, state, change) {
  return button(shown, () => change({ text: state.text + added, why: "0" }),
    { class: "token", disabled: added === null, title: token, "aria-label": `append ${tokenText(token)}` });
}

function drawBars(record, chosen, state, change) {
  const longest = Math.max(...record.tokens.map(token => Math.max(token.prob, token.drawn)), 1e-30);
  const hasWhy = record.backoff || record.components || record.layers;
  const rows = record.tokens.map((token, i) => {
    const why = hasWhy && button("why?", () => change({ why: String(i) }, false), { "aria-label": `why ${tokenText(token.token)}`, "aria-pressed": String(i === chosen) });
    return element("tr", { class: [token.drawn === 0 && "is-cut", hasWhy && i === chosen && "chosen"].filter(Boolean).join(" ") || null },
      element("td", {}, appending(token.token, tokenText(token.shown), token.added, state, change)),
      element("td", {}, bar(longest, { model: token.prob, drawn: token.drawn })),
      element("td", { title: token.prob }, probability(token.prob)), element("td", { class: "detail" }, figure(token.log_prob, 3)),
      element("td", {}, token.drawn ? probability(token.drawn) : "cut"), hasWhy ? element("td", {}, why) : "");
  });
  const header = [["token"], [""], ["probability"], ["nats", "detail"], ["drawn with"]];
  return drawBarTable("The likeliest tokens", [...header, ...hasWhy ? [[""]] : []], rows);
}

function drawBarTable(caption, header, rows) {
  return element("div", { class: "wide" }, element("table", { class: "bars" }, element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...header.map(([name, kind]) => element("th", { scope: "col", class: kind }, name)))),
    element("tbody", {}, ...rows)));
}

function drawWords(words, state, change) {
  const longest = Math.max(...words.map(word => word.prob), 1e-30);
  return [
    drawBarTable("The likeliest words", [["word"], [""], ["probability"], ["nats", "detail"]], words.map(word => element("tr", {},
      element("td", {}, appending(word.text, tokenText(word.text), word.added, state, change)), element("td", {}, bar(longest, { drawn: word.prob })),
      element("td", { title: word.prob }, probability(word.prob)), element("td", { class: "detail" }, figure(word.log_prob, 3))))),
    element("p", { class: "note" }, words.length ? "The rest of the word that is typed, or the next one; it goes on while the word after it is likelier than not. A click appends it." :
      "No word of the vocabulary goes on like this."),
  ];
}

/** The chain of contexts that an n-gram model falls back on, for one token. */
function drawBackoff(record, chosen) {
  const token = record.tokens[chosen], steps = record.backoff;
  const own = steps.map(step => step.log_probs[chosen]);
  const used = own.findIndex(logProb => logProb !== null);
  const totals = [];
  for (let i = steps.length - 1; i >= 0; i--) totals[i] = own[i] ?? steps[i].log_backoff + totals[i + 1];
  const name = tokenText(token.shown), words = step => step.context.map(tokenText).join(" ") || "(none)";
  const rows = steps.map((step, i) => [
    String(step.context.length + 1), words(step),
    step.continuations === null ? "not in the model" : step.continuations.toLocaleString(),
    own[i] === null ? "no" : "yes",
    own[i] === null && step.continuations !== null ? probability(Math.exp(step.log_backoff)) : own[i] === null ? "1" : "",
    probability(Math.exp(totals[i])), i === used ? "← taken from here" : "",
  ]);
  const length = used < 0 ? 0 : steps[used].context.length + 1;
  const product = steps.slice(0, used).filter(step => step.continuations !== null)
    .map(step => probability(Math.exp(step.log_backoff)));
  const discounts = record.discounts[String(length)];
  return element("section", {}, element("h2", {}, `Why “${name}” has ${probability(token.prob)}`),
    element("p", {}, used === 0 ?
      `The model has the ${length}-gram “${words(steps[0])} ${name}”, the longest it can look up here: its probability is stored.` :
      `The longest n-gram in the model that ends here is a ${length}-gram. ` +
      `P = ${[...product, probability(Math.exp(own[used]))].join(" × ")}: the back-off weights of longer contexts that the model knows, ` +
      `times the probability after ${steps[used].context.length ? `“${words(steps[used])}”` : "no context"}.`),
    table(`The back-off chain of “${name}”`,
      ["order", "context", "different tokens after it", "this one among them", "back-off weight", "probability", ""], rows, "left"),
    element("p", { class: "note" }, `Smoothing: ${record.smoothing ?? "not recorded"}. ` + (discounts ?
      `Discounts of order ${length}: ${discounts.map(value => figure(value, 3)).join(", ")}, from n-grams seen once, twice, and three times or more. ` : "") +
      "Counts themselves are not kept in a model: chainrule count lists them."));
}

function drawComponents(record, chosen) {
  const token = record.tokens[chosen], isLinear = record.mixture === "linear";
  const rows = record.components.map(component => {
    const own = component.probs[chosen];
    return [component.family, figure(component.weight, 3), probability(own),
      isLinear ? `${figure(100 * component.weight * own / token.prob, 1)} %` : ""];
  });
  return element("section", {}, element("h2", {}, `Who gives “${tokenText(token.shown)}” ${probability(token.prob)}`),
    table(`A ${record.mixture} mixture`, ["component", "weight", "its probability", isLinear ? "share of the sum" : ""], rows));
}

/** The logit lens: what the output makes of each layer, the last one first. */
function drawLayers(record, chosen) {
  const name = tokenText(record.tokens[chosen].shown);
  const rows = record.layers.toReversed().map(layer => [String(layer.layer),
    layer.guesses.map(guess => `${tokenText(guess.shown)} ${probability(guess.prob)}`).join("   "), probability(layer.probs[chosen])]);
  return element("section", {}, element("h2", {}, "What each layer would say"),
    table("The network's output, applied to the hidden state of each layer (the logit lens)", ["layer", "its likeliest tokens", `P of “${name}”`], rows, "left"));
}

function drawGap(gap, i) {
  return table(`Gap ${i + 1}`, ["token", "probability", "nats"],
    gap.map(({ token, prob }) => [tokenText(token), probability(prob), figure(Math.log(prob), 3)]));
}
