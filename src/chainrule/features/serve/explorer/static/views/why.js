// Why a token has its probability: the back-off chain, the components of a mixture, the layers of a network.

import { element, figure, probability, table, tokenText } from "../elements.js";

/** What there is to say of one of the tokens of a record; null if that is nothing. */
export function drawWhy(record, chosen) {
  if (record.backoff) return drawBackoff(record, chosen);
  if (record.components) return element("div", {}, drawComponents(record, chosen), record.passages && drawPassages(record));
  return record.layers ? drawLayers(record, chosen) : null;
}

/** What each component of a linear mixture gives to a token; [1], all of it, for other models. */
export function shares(record, i) {
  return record.mixture === "linear" ? record.components.map(({ weight, probs }) => weight * probs[i] / record.tokens[i].prob) : [1];
}

/** The chain of contexts that an n-gram model falls back on, for one token. */
function drawBackoff(record, chosen) {
  const token = record.tokens[chosen], steps = record.backoff;
  const own = steps.map(step => step.log_probs[chosen]);
  const used = own.findIndex(logProb => logProb !== null);
  const totals = [], shown = logProb => probability(Math.exp(logProb));
  for (let i = steps.length - 1; i >= 0; i--) totals[i] = own[i] ?? steps[i].log_backoff + totals[i + 1];
  const name = tokenText(token.shown);
  const rows = steps.map((step, i) => [
    String(step.context.length + 1), step.context.map(tokenText).join(" ") || "(none)",
    step.continuations === null ? "not in the model" : step.continuations.toLocaleString(),
    own[i] === null ? "no" : countOf(step, chosen),
    own[i] === null && shown(step.log_backoff), shown(totals[i]),
  ]);
  const length = steps[used].context.length + 1, counted = counting(steps[used], chosen), discounts = record.discounts[String(length)];
  const product = steps.slice(0, used).filter(step => step.continuations !== null).map(step => shown(step.log_backoff));
  return element("section", {}, element("h2", {}, `Why “${name}” has ${probability(token.prob)}`),
    element("p", {}, `The longest n-gram in the model that ends here is the ${length}-gram “${[...steps[used].context.map(tokenText), name].join(" ")}”${counted}. ` +
      `P = ${[...product, shown(own[used])].join(" × ")}${product.length ? ": the back-off weights of longer contexts, times its own probability" : ", as stored"}.`),
    table(`The back-off chain of “${name}”`,
      ["order", "context", ["different tokens after it", "detail"], "this one among them", "back-off weight", "probability"],
      rows, "left", steps.map((_, i) => i === used && "chosen")),
    element("p", { class: "note" }, `Smoothing: ${record.smoothing ?? "not recorded"}. ` + (discounts ?
      `Discounts of order ${length}, of counts from 1 on: ${discounts.map(value => figure(value, 3)).join(", ")}. ` : "") +
      (steps.some(step => step.total !== null) ?
        "Counts are worked out from the probabilities" + (steps.some(step => step.counted === "contexts") ?
          "; of lower orders, Kneser-Ney counts the different tokens before an n-gram." : ".") :
        "A model keeps no counts: chainrule count lists them.")));
}

/** Whether a token is among those after a context, and its count, if that is known. */
function countOf(step, chosen) {
  return step.counts[chosen] === null ? "yes" : `${step.counts[chosen].toLocaleString()} of ${step.total.toLocaleString()}`;
}

/** The same in words, after the name of an n-gram; nothing if it is not known. */
function counting({ counts, counted }, chosen) {
  if (counts[chosen] === null) return "";
  const times = counts[chosen].toLocaleString(), one = counts[chosen] === 1;
  return counted === "occurrences" ? `, seen ${one ? "once" : `${times} times`}` : `, seen after ${times} different ${one ? "token" : "tokens"}`;
}

function drawComponents(record, chosen) {
  const token = record.tokens[chosen], isLinear = record.mixture === "linear", own = shares(record, chosen);
  const rows = record.components.map(({ name, weight, probs }, i) => [
    element("span", { class: isLinear ? `of-part part-${i % 5}` : null }, tokenText(name)),
    figure(weight, 3), probability(probs[chosen]), isLinear && `${figure(100 * own[i], 1)} %`]);
  return element("section", {}, element("h2", {}, `Who gives “${tokenText(token.shown)}” ${probability(token.prob)}`),
    table(`A ${record.mixture} mixture`, ["component", "weight", "its probability", isLinear ? "share of the sum" : ""], rows));
}

/** The passages where a network's state was similar, and what came next there. */
function drawPassages({ passages, passages_weight: all }) {
  const rows = passages.map(({ context, token, weight, tokens_ago: ago, document: number }) => [
    `… ${context}`, tokenText(token), probability(weight), ago === null ? `document ${number.toLocaleString()}` : `${ago.toLocaleString()} ${ago === 1 ? "token" : "tokens"} ago`]);
  return element("section", {}, element("h2", {}, "Similar passages"),
    table(`What came next where the network's state was similar: ${figure(100 * all, 1)} % of the probability is from such passages`,
      ["passage", "next token", "its part", "where"], rows, "left"));
}

/** The logit lens: what the output makes of each layer, the last one first. */
function drawLayers(record, chosen) {
  const name = tokenText(record.tokens[chosen].shown);
  const rows = record.layers.toReversed().map(layer => [String(layer.layer),
    layer.guesses.map(guess => `${tokenText(guess.shown)} ${probability(guess.prob)}`).join("   "), probability(layer.probs[chosen])]);
  return element("section", {}, element("h2", {}, "What each layer would say"),
    table("The network's output, applied to the hidden state of each layer (the logit lens)", ["layer", "its likeliest tokens", `P of “${name}”`], rows, "left"));
}

