// The logit lens: what each layer of a network would predict after each token, as a map of layers by tokens.

import { ask } from "../server.js";
import { legend, ofWeight, scale } from "../colours.js";
import { element, probability, table, tokenElement, tokenText } from "../elements.js";
import { colouredTable } from "../pictures.js";
import { subject } from "./next.js";

export const title = "Logit lens";
export const fields = ["model", "given", "picture", "text"];

export const body = subject;

export function load(state, signal) {
  return ask("/v1/explore/lens", body(state), signal);
}

export function draw(record, state, change) {
  const colour = scale(), last = record.read.length - 1, column = Math.min(state.row === "" ? last : Number(state.row), last);
  const layers = record.layers.toReversed();
  const rows = layers.map(({ layer, guesses, of_next: next }) => [String(layer), guesses.map((own, i) => [
    tokenElement(own[0].shown), colour(ofWeight(own[0].prob)),
    `layer ${layer} after “${tokenText(record.read[i])}”: ${own.map(guess => `${tokenText(guess.shown)} ${probability(guess.prob)}`).join(", ")}` +
      (next[i] === null ? "" : `; the token that follows, “${tokenText(record.read[i + 1])}”: ${probability(next[i])}`)])]);
  const follows = record.read[column + 1];
  return [
    colouredTable("What each layer would predict next: the last layer first", record.read.map(tokenElement), rows, (_, i) => change({ row: String(i) }, false)),
    legend("Probability of the token named: ", [0, 0.05, 0.2, 0.4, 0.7, 1].map(share => [colour(ofWeight(share)), String(share)])),
    element("p", { class: "note" }, "The network's own final norm and output, applied to what each layer computes (nostalgebraist 2020). Click a column for its numbers."),
    element("label", {}, "After the token ", element("select", { change: event => change({ row: event.target.value }, false) },
      ...record.read.map((token, i) => element("option", { value: i, selected: i === column }, `${i + 1}. ${tokenText(token)}`)))),
    table(`After “${tokenText(record.read[column])}”, token ${column + 1}`, ["layer", "its likeliest tokens", ...follows === undefined ? [] : [`P of “${tokenText(follows)}”, which follows`]],
      layers.map(({ layer, guesses, of_next: next }) => [String(layer), element("span", {}, ...guesses[column].flatMap(guess => [tokenElement(guess.shown), ` ${probability(guess.prob)}   `])),
        ...follows === undefined ? [] : [probability(next[column])]]), "left"),
  ];
}
