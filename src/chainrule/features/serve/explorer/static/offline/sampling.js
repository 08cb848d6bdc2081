// How tokens are drawn in the page: temperature and cuts as in decoding/next_token.py, and a seeded generator.

import { UNKNOWN } from "./ngrams.js";

/** The weights by which tokens are drawn, from log-probabilities; -Infinity where a setting cuts one. */
export function warped(logProbs, { temperature = 1, top_k: topK = null, top_p: topP = null, min_p: minP = null }) {
  let weights = Float64Array.from(logProbs);
  weights[UNKNOWN] = -Infinity;
  const kept = temperature === 0 ? 1 : topK;
  if (kept !== null) {
    const order = byWeight(weights);
    for (const token of order.slice(kept)) weights[token] = -Infinity;
  }
  if (temperature === 0) return weights;
  const highest = max(weights);
  weights = weights.map(weight => (weight - highest) / temperature);
  if (topP !== null) weights = nucleus(weights, topP);
  if (minP !== null) {
    const least = max(weights) + Math.log(minP);
    weights = weights.map(weight => weight >= least ? weight : -Infinity);
  }
  return weights;
}

function nucleus(weights, mass) {
  const probs = normalised(weights);
  let sum = 0;
  const kept = new Float64Array(weights.length).fill(-Infinity);
  for (const token of byWeight(weights)) {
    if (sum >= mass) break;
    kept[token] = weights[token];
    sum += probs[token];
  }
  return kept;
}

/** Tokens, the likeliest first, equal ones by lower id. */
export function byWeight(weights) {
  return Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a] || a - b);
}

/** The first k of byWeight. */
export function likeliestOf(weights, k) {
  const best = [];
  for (let token = 0; token < weights.length; token++) {
    const weight = weights[token];
    if (best.length === k && !(weight > weights[best[k - 1]])) continue;
    let place = best.length;
    while (place > 0 && weight > weights[best[place - 1]]) place -= 1;
    best.splice(place, 0, token);
    if (best.length > k) best.pop();
  }
  return best;
}

/** Probabilities from weights. */
export function normalised(weights) {
  const highest = max(weights), probs = weights.map(weight => Math.exp(weight - highest));
  const total = probs.reduce((sum, prob) => sum + prob, 0);
  return probs.map(prob => prob / total);
}

function max(weights) {
  return weights.reduce((highest, weight) => Math.max(highest, weight), -Infinity);
}

/** The index at which running sums of probabilities pass a number from 0 to 1. */
export function draw(probs, uniform) {
  let sum = 0, last = 0;
  for (let token = 0; token < probs.length; token++) {
    if (!probs[token]) continue;
    sum += probs[token];
    last = token;
    if (uniform < sum) return token;
  }
  return last;
}

/** Numbers from 0 to 1 that a seed decides: SplitMix32, Steele, Lea and Flood 2014, in 32 bits. */
export function uniforms(seed, stream) {
  let state = (Math.imul(seed | 0, 0x9e3779b9) ^ Math.imul(stream + 1, 0x85ebca6b)) | 0;
  const next = () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return (mixed ^ (mixed >>> 16)) >>> 0;
  };
  return () => (next() * 2 ** 21 + (next() >>> 11)) / 2 ** 53;
}
