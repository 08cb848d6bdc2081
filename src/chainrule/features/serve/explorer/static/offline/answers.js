// In place of server.js in a page without a server: the same functions, answered by the models that the page holds.

import { NGrams, END } from "./ngrams.js";
import { LONGEST, attention, beside, changes, lens, nextWords, requireDistribution, stateAfter, surprisals, way } from "./records.js";
import { draw, normalised, uniforms, warped } from "./sampling.js";
import { Recurrent } from "./recurrent.js";
import { Speller } from "./speller.js";
import { Tokenizer } from "./tokenizers.js";
import { Transformer } from "./transformer.js";
import { unpack } from "./arrays.js";

const KINDS = { ngram: NGrams, transformer: Transformer, recurrent: Recurrent };
// Of a text whose surprisal a network gives: characters times weights, some seconds of work; and the characters that are read at least.
const WORK = 5e8, SHORTEST = 1000;
const SLICE = 25; // milliseconds of work between two moments at which the page may draw

/** As in server.js. */
export class Failure extends Error {
  constructor(message) {
    super(message);
    this.isLost = this.needsKey = false;
  }
}

export function setKey() {}

export async function isBack() {}

const opened = (async () => {
  const models = new Map();
  try {
    await open(models);
  } catch (error) {
    throw new Error(`The models of this page cannot be read: the file is damaged, or the browser is older than 2023 (${error.message}).`);
  }
  return models;
})();

/** Adds the models that the page holds, by name. */
async function open(models) {
  let longest = LONGEST;
  for (const block of document.querySelectorAll("script.model")) {
    const { record, array } = await unpack(block.textContent);
    const model = new KINDS[record.model.kind](record.model, array);
    longest = Math.min(longest, longestOf(record.model));
    models.set(record.name, { name: record.name, model, tokenizer: new Tokenizer(record.tokenizer, array),
      speller: new Speller(record.speller, array), isDistribution: record.is_distribution, example: record.example });
  }
  for (const parts of models.values()) parts.longest = longest; // the same for all, since they are compared
}

/** The characters of a text whose surprisal a model gives in one go, in whole hundreds. */
function longestOf({ shapes }) {
  if (!shapes) return LONGEST;
  const weights = Object.values(shapes).reduce((sum, shape) => sum + shape.reduce((size, side) => size * side, 1), 0);
  return Math.max(SHORTEST, Math.min(LONGEST, 100 * Math.floor(WORK / weights / 100)));
}

/** What only a server can: views and fields of the page that it leaves out. */
function lacks({ model, isDistribution }) {
  return ["chat", "beams", "unit", "given", "picture", ...model.maps ? [] : ["attention"], ...model.lensAlong ? [] : ["lens"], ...isDistribution ? [] : ["playground", "way", "changes"]];
}

/** A function that waits, once some time has passed, until the page has drawn, which it tells the share of the work that is done. It raises AbortError if the work is not wanted any more. */
function pauses(signal) {
  let last = performance.now();
  return async share => {
    if (performance.now() - last < SLICE) return;
    if (share !== undefined) document.dispatchEvent(new CustomEvent("progress", { detail: share }));
    await new Promise(resolve => setTimeout(resolve));
    last = performance.now();
    if (signal?.aborted) throw new DOMException("", "AbortError");
  };
}

async function modelOf(body) {
  return (await opened).get(body.model);
}

const ANSWERS = {
  "/v1/models": async () => ({ data: [...(await opened).keys()].map(id => ({ id })) }),
  "/v1/explore/model": async body => {
    const parts = await modelOf(body);
    return { given: null, fills: false, chats: false, example: parts.example, isOffline: true, lacks: lacks(parts) };
  },
  "/v1/explore/next": async (body, pause) => nextWords(await modelOf(body), body, pause),
  "/v1/explore/beside": async (body, pause) => beside(await Promise.all([body.model, ...body.also].map(model => modelOf({ model }))), body, pause),
  "/v1/explore/surprisal": async (body, pause) => surprisals(await modelOf(body), body, pause),
  "/v1/explore/way": async (body, pause) => way(await modelOf(body), body, pause),
  "/v1/explore/lens": async (body, pause) => lens(await modelOf(body), body, pause),
  "/v1/explore/changes": async (body, pause) => changes(await modelOf(body), body, pause),
  "/v1/explore/attention": async (body, pause) => attention(await modelOf(body), body, pause),
};

/** As in server.js. */
export async function ask(path, body, signal) {
  if (!Object.hasOwn(ANSWERS, path)) throw new Failure("This page has no server, which this view needs: chainrule explore shows it.");
  return told(async () => ({ ...await ANSWERS[path](body, pauses(signal)), ...body?.model && { model: body.model } }));
}

/** What work gives; its errors are sentences for people. */
async function told(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name === "AbortError" || error.constructor !== Error) throw error;
    throw new Failure(error.message);
  }
}

/** As in server.js: the texts of the playground, a token of each at a time. */
export async function* stream(path, body, signal) {
  const { model, tokenizer, isDistribution } = await modelOf(body), pause = pauses(signal);
  const prompt = await told(async () => {
    requireDistribution(isDistribution);
    return tokenizer.encode(Array.from(body.prompt ?? "").slice(-LONGEST).join("")).ids;
  });
  for (let index = 0; index < body.n; index++) {
    const uniform = uniforms(body.seed, index), ids = [...prompt], decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const bytesOf = () => tokenizer.align(ids.map(id => tokenizer.tokens[id])).bytes;
    let state = await stateAfter(model, ids, pause), done = bytesOf().length, reason = "length";
    const piece = (text, finish = null) => ({ choices: [{ index, text, finish_reason: finish }] });
    for (let count = 0; count < body.max_tokens; count++) {
      await pause();
      const token = draw(normalised(warped(model.distribution(state), body)), uniform());
      if (token === END) {
        reason = "stop";
        break;
      }
      ids.push(token);
      state = model.after(state, token);
      const bytes = bytesOf();
      yield piece(decoder.decode(bytes.subarray(done), { stream: true }));
      done = bytes.length;
    }
    yield piece(decoder.decode(), reason);
  }
}
