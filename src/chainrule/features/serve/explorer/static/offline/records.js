// What the views show of a model in the page, in the form of features/serve/explorer/records.py and features/serve/explorer/pictures.py.

import { isSpecial, overview } from "./heads.js";
import { END, UNKNOWN } from "./ngrams.js";
import { draw, likeliestOf, normalised, uniforms, warped } from "./sampling.js";
import { showUnseen } from "./tokenizers.js";

export const LONGEST = 20000; // characters of a text
const CONTEXT = 8, WAY_TOKENS = 32; // tokens that are named of a text, and of what a recurrent network reads
const RANKED = 1000; // characters of a text whose tokens are ranked, which needs the whole distribution at each
const FIRST = "<s>"; // what stands before a text, whatever a network reads there
const LIKELIER = 10, GUESSES = 5, MOST_TOKENS = 512, MOST_LENS = 256, LENS_GUESSES = 3, TOP = 10;

/** The next token after a text. pause: lets the page draw, says what share of the work is done, and ends what is not wanted any more. */
export async function nextWords({ model, tokenizer, isDistribution }, body, pause) {
  requireDistribution(isDistribution);
  const letters = Array.from(body.text), text = letters.slice(-LONGEST).join("");
  const { ids } = tokenizer.encode(text), state = await stateAfter(model, ids, pause);
  const logProbs = model.distribution(state), probs = logProbs.map(Math.exp);
  const drawn = normalised(warped(logProbs, body));
  const best = likeliestOf(logProbs, body.top ?? 20).filter(token => probs[token] > 0);
  const isDrawn = token => drawn[token] > 0;
  let entropy = 0, possible = 0, kept = 0, cut = 0;
  probs.forEach((prob, token) => {
    if (prob > 0) entropy -= prob * logProbs[token];
    if (isDrawn(token)) kept += 1;
    if (prob > 0 && token !== UNKNOWN) {
      possible += 1;
      if (!isDrawn(token)) cut += prob;
    }
  });
  const context = order => ["<s>", ...ids.slice(-order).map(id => tokenizer.shown(id))].slice(ids.length > order ? 1 : 0);
  return {
    kind: "next", context: ids.slice(-CONTEXT).map(id => tokenizer.shown(id)), tokens_before: Math.max(0, ids.length - CONTEXT), possible, is_distribution: isDistribution, entropy, kept, cut_prob: cut,
    tokens: best.map(token => ({ token: tokenizer.tokens[token], shown: tokenizer.shown(token), added: tokenizer.added(ids, token, text),
      prob: probs[token], log_prob: logProbs[token], drawn: drawn[token] })),
    left_out: letters.length - Math.min(letters.length, LONGEST),
    ...model.why(state, context, best), ...layersOf(model, tokenizer, state, best),
  };
}

/** The likeliest next tokens of several models, side by side. */
export async function beside(models, { text, top = 10 }, pause) {
  const letters = Array.from(text), read = letters.slice(-LONGEST).join("");
  const [{ name, tokenizer }] = models, way = ({ tokens, shown, begins_word, markers, ...rest }) => JSON.stringify(rest);
  for (const other of models) {
    requireDistribution(other.isDistribution);
    if (way(other.tokenizer.record) !== way(tokenizer.record)) throw new Error(`${name} and ${other.name} cut texts into different tokens, which cannot share rows: look at one model at a time.`);
  }
  const predictions = [];
  for (const { model, tokenizer: own } of models) {
    const logProbs = model.distribution(await stateAfter(model, own.encode(read).ids, pause));
    predictions.push({ own, logProbs, best: likeliestOf(logProbs, top).filter(token => logProbs[token] > -Infinity).map(token => own.tokens[token]) });
  }
  const { ids } = tokenizer.encode(read);
  const tokens = [...new Set(predictions.flatMap(({ best }) => best))].map(token => {
    const { own } = predictions.find(one => one.own.ids.has(token)), id = own.ids.get(token);
    const probs = predictions.map(({ own: { ids: places }, logProbs }) => places.has(token) ? Math.exp(logProbs[places.get(token)]) : null);
    return { token, shown: own.shown(id), added: own.added(own === tokenizer ? ids : own.encode(read).ids, id, read), probs };
  });
  const byFirst = (a, b) => predictions.reduce((order, _, i) => order || (b.probs[i] ?? -1) - (a.probs[i] ?? -1), 0);
  const entropy = logProbs => logProbs.reduce((sum, logProb) => logProb > -Infinity ? sum - Math.exp(logProb) * logProb : sum, 0);
  return { kind: "beside", names: models.map(one => one.name), entropies: predictions.map(({ logProbs }) => entropy(logProbs)),
    tokens: tokens.sort(byFirst), left_out: letters.length - Math.min(letters.length, LONGEST) };
}

function layersOf(model, tokenizer, state, best) {
  if (!model.lens) return {};
  const layers = model.lens(state);
  if (layers.length < 2) return {};
  return { layers: layers.map((row, i) => ({
    layer: i + 1, guesses: likeliestOf(row, GUESSES).map(token => ({ shown: tokenizer.shown(token), prob: Math.exp(row[token]) })),
    probs: best.map(token => Math.exp(row[token])),
  })) };
}

export async function stateAfter(model, ids, pause) {
  let state = model.start();
  for (const id of ids) {
    await pause();
    state = model.after(state, id);
  }
  await readSlowly(model, state, pause);
  return state;
}

/** Reads a text by a network with pauses: what is read is kept. */
async function readSlowly(model, state, pause) {
  if (model.reading) for (const _ of model.reading(state)) await pause();
}

/** The surprisal of each unit of a text, its end last. */
export async function surprisals(parts, body, pause) {
  const { tokenizer, isDistribution, longest } = parts, by = body.by ?? "tokens";
  const letters = Array.from(body.text), text = letters.slice(0, longest).join(""), isShort = letters.length <= RANKED;
  const { written, ids } = tokenizer.encode(text), { bytes, starts, stops } = tokenizer.align(written);
  const scored = await scores(parts, written, ids, pause, isShort && isDistribution && (by === "words" || by === "tokens"), by);
  const all = new Uint8Array(bytes.length + 1);
  all.set(bytes);
  all[bytes.length] = 10;
  const places = { starts: [...starts, bytes.length], stops: [...stops, bytes.length + 1] };
  const units = by === "tokens" ? ofTokens(scored, places) : by === "words" ? ofWords(all, scored, places) : spread(all, scored, places, by);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }), before = [0];
  for (const byte of all) before.push(before.at(-1) + ((byte & 0xc0) !== 0x80 ? 1 : 0));
  const isEnd = i => i === units.length - 1;
  const shown = units.map((unit, i) => {
    const stop = isEnd(i) ? unit.start : unit.stop;
    const own = by === "bytes" ? Array.from(all.subarray(unit.start, stop), byte => byte < 128 ? String.fromCharCode(byte) : `\\x${byte.toString(16)}`).join("") : decoder.decode(all.subarray(unit.start, stop));
    return { text: isEnd(i) ? "</s>" : by === "tokens" ? written[i] : own, log_prob: finite(unit.closed), text_log_prob: finite(unit.total), known: !unit.unknown, shown: isEnd(i) ? "</s>" : by === "tokens" ? tokenizer.shownAs(written[i]) : showUnseen(by === "bytes" ? own.replace(/^\\x(..)$/, (_, digits) => `<${digits.toUpperCase()}>`) : own),
      is_part: !isText(all.subarray(unit.start, stop)),
      start: before[unit.start], stop: before[stop], start_byte: unit.start, stop_byte: stop,
      ...by === "tokens" && scored.ranks[i] ? { rank: scored.ranks[i].rank, likelier: scored.ranks[i].likelier } : {},
      ...unit.whole === undefined ? {} : { whole_log_prob: finite(unit.whole) } };
  });
  const sum = values => values.reduce((total, value) => total + value, 0), total = finite(sum(scored.total));
  return { by, units: shown, normalised: decoder.decode(bytes), log_prob: finite(sum(scored.closed)), text_log_prob: total, tokens: ids.length + 1,
    oov: ids.filter(id => id === UNKNOWN).length, bytes: all.length, bits_per_byte: total === null ? null : -total / all.length / Math.LN2,
    left_out: letters.length - Math.min(letters.length, longest) };
}

/** log P of each token and of </s>: as token_scores.py has it, in nats; and what else was likely there. */
async function scores({ model, tokenizer, speller }, written, ids, pause, isRanked, by) {
  const types = speller.unseenTypes, closed = [], total = [], unknown = [], ranks = [], ends = [0];
  const needsRow = isRanked && (by === "tokens" || tokenizer.beginsWord);
  let state = model.start();
  for (const [i, token] of [...ids, END].entries()) {
    await pause(i / (ids.length + 1));
    await readSlowly(model, state, pause);
    const row = model.isNetwork || needsRow ? model.distribution(state) : null;
    const logProb = row ? row[token] : model.logProb(state, token), isUnknown = token === UNKNOWN && i < ids.length;
    let own = logProb;
    if (types !== 1) {
      const share = row ? row[UNKNOWN] : model.logProb(state, UNKNOWN);
      own += (isUnknown ? Math.log(types) : 0) - Math.log1p((types - 1) * Math.exp(share));
    }
    if (isUnknown) own += speller.logProb(written[i]);
    closed.push(logProb);
    total.push(own);
    unknown.push(isUnknown);
    if (needsRow && by === "tokens" && i < ids.length) ranks.push(rankOf(row, token, tokenizer));
    if (needsRow && by === "words" && i > 0) ends.push(endOf(row, tokenizer, types));
    if (i < ids.length) state = model.after(state, token);
  }
  return { closed, total, unknown, ranks, ends: isRanked && by === "words" ? [...ends, ...tokenizer.beginsWord ? [0] : []] : null };
}

function rankOf(row, token, tokenizer) {
  let rank = 1;
  for (const logProb of row) if (logProb > row[token]) rank += 1;
  return { rank, likelier: likeliestOf(row, LIKELIER).map(best => tokenizer.shown(best)) };
}

/** log P(the word ends | the tokens before), with room for all unseen words, as `log_text_word_ends` of surprisal.py has it. */
function endOf(row, tokenizer, types) {
  let sum = 0;
  for (const token of tokenizer.beginsWord) sum += (token === UNKNOWN ? types : 1) * Math.exp(row[token]);
  return Math.log(Math.min(sum / (1 + (types - 1) * Math.exp(row[UNKNOWN])), 1));
}

/** Whether bytes are whole characters. */
function isText(bytes) {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function ofTokens({ closed, total, unknown }, { starts, stops }) {
  return starts.map((start, i) => ({ start, stop: stops[i], closed: closed[i], total: total[i], unknown: unknown[i] }));
}

const isWhite = byte => [0, 9, 10, 13, 32].includes(byte);

/** Words as text/units.py has them: runs of visible bytes, and the end. */
function ofWords(bytes, { closed, total, unknown, ends }, { starts, stops }) {
  const words = [];
  for (let i = 0; i < bytes.length - 1; i++) {
    if (isWhite(bytes[i])) continue;
    if (i === 0 || isWhite(bytes[i - 1])) words.push({ start: i, stop: i + 1 });
    else words.at(-1).stop = i + 1;
  }
  words.push({ start: bytes.length - 1, stop: bytes.length });
  for (const word of words) Object.assign(word, { closed: 0, total: 0, unknown: false, tokens: [] });
  starts.forEach((start, token) => {
    let last = stops[token] - 1;
    while (last >= start && isWhite(bytes[last])) last -= 1;
    const isEnd = token === starts.length - 1;
    const found = isEnd ? words.length - 1 : last >= start ? words.findLastIndex(word => word.start <= last) : words.findIndex(word => word.start >= start);
    const word = words[found];
    word.closed += closed[token];
    word.total += total[token];
    word.unknown ||= unknown[token];
    word.tokens.push(token);
  });
  if (ends && ends.length > 1) {
    // The first token of each word, and where the last one stops: a word pays for its own end.
    const firsts = [...words.map(({ tokens }, i) => tokens[0] ?? words.slice(i).find(word => word.tokens.length).tokens[0]), starts.length];
    words.forEach((word, i) => { word.whole = word.total + ends[firsts[i + 1]] - ends[firsts[i]]; });
  } else if (ends) for (const word of words) word.whole = word.total;
  return words;
}

/** Each token's log-probability spread evenly over its bytes and the white space before it. */
function spread(bytes, { closed, total, unknown }, { stops }, by) {
  const units = [];
  for (let i = 0; i < bytes.length; i++) {
    if (by === "bytes" || (bytes[i] & 0xc0) !== 0x80) units.push({ start: i, stop: i + 1, closed: 0, total: 0, unknown: false });
    else units.at(-1).stop = i + 1;
  }
  const unitOf = new Int32Array(bytes.length);
  units.forEach((unit, i) => unitOf.fill(i, unit.start, unit.stop));
  stops.forEach((stop, token) => {
    const first = token ? stops[token - 1] : 0, size = Math.max(1, stop - first);
    for (let i = first; i < first + size; i++) {
      const unit = units[unitOf[i]];
      unit.closed += closed[token] / size;
      unit.total += total[token] / size;
      unit.unknown ||= unknown[token];
    }
  });
  return units;
}

/** The attention of a layer, for a text. */
export async function attention({ model, tokenizer }, body, pause) {
  if (!model.maps) throw new Error("This model has no attention to show; expected a Transformer.");
  const { ids } = tokenizer.encode(body.text), { context, heads, layers, begins_with: begins } = model.record;
  checkLength(ids, MOST_TOKENS, context);
  if (body.layer != null && !(body.layer >= 0 && body.layer < layers)) throw new Error(`Layer is ${body.layer}; expected 0 to ${layers - 1}.`);
  const all = await model.maps([begins, ...ids], pause), rows = [FIRST, ...ids.map(id => tokenizer.shown(id))], seen = overview(all, heads, rows);
  const layer = body.layer ?? seen.chosen[0], special = [...rows.keys()].filter(i => isSpecial(rows[i]));
  return { kind: "maps", heading: body.text, layers: all.map((_, i) => `text, layer ${i + 1}`), layer, rows, columns: rows, special: [special, special],
    heads, weights: base64(all[layer]), removable: false, ...seen };
}

/** The likeliest tokens of a distribution, as the page shows them. */
function likeliest(row, tokenizer, most) {
  return likeliestOf(row, most).filter(token => Number.isFinite(row[token])).map(token => ({ shown: tokenizer.shown(token), prob: Math.exp(row[token]), log_prob: row[token] }));
}

/** As neural/network.py has it. context: that of a network. */
function checkLength(ids, most, context) {
  const own = (context ?? Infinity) - 1, has = `The text has ${ids.length.toLocaleString()} tokens`;
  if (own === 0 && ids.length) throw new Error("The network reads one token at a time (context 1), so it never reads a whole text; expected a network with a longer context.");
  if (own <= most && ids.length > own) throw new Error(`${has}, but the network reads at most ${own.toLocaleString()} at once; shorten it.`);
  if (ids.length > most) throw new Error(`${has}; this is shown of up to ${most.toLocaleString()}: shorten it.`);
}

/** What each layer would predict after each token, as features/serve/explorer/ways.py has it. */
export async function lens({ model, tokenizer }, body, pause) {
  const { ids } = tokenizer.encode(body.text), { context = null, begins_with: begins } = model.record;
  if (!model.lens || model.record.layers < 2) throw new Error("This network has one layer that its output reads; the logit lens needs two at least.");
  checkLength(ids, MOST_LENS, context);
  const layers = await model.lensAlong([begins, ...ids], pause);
  return { kind: "lens", read: [FIRST, ...ids.map(id => tokenizer.shown(id))], layers: layers.map((rows, i) => ({
    layer: i + 1, guesses: rows.map(row => likeliest(row, tokenizer, LENS_GUESSES)), of_next: rows.map((row, j) => j < ids.length ? Math.exp(row[ids[j]]) : null),
  })) };
}

/** The way to the next token, as features/serve/explorer/ways.py has it. */
export async function way(parts, body, pause) {
  const { model, tokenizer } = parts, record = await nextWords(parts, { ...body, top: TOP }, pause), { ids } = tokenizer.encode(Array.from(body.text).slice(-LONGEST).join(""));
  const best = record.tokens.map(token => tokenizer.ids.get(token.token)), state = await stateAfter(model, ids, pause);
  const picked = draw(normalised(warped(model.distribution(state), body)), uniforms(body.seed ?? 1, 0)());
  const said = { ...record, kind: "way", seed: body.seed ?? 1, picked: { token: tokenizer.tokens[picked], shown: tokenizer.shown(picked), added: tokenizer.added(ids, picked, body.text) } };
  if (model.gates) {
    const inputs = [model.record.begins_with, ...ids], layers = await model.gates(inputs, pause, base64), shown = [FIRST, ...ids.map(id => tokenizer.shown(id))];
    const logits = model.logitsOf(state), read = shown.slice(-WAY_TOKENS);
    return { ...said, logits: best.map(token => logits[token]), way: { kind: "recurrent", read, tokens_before: shown.length - read.length, layers } };
  }
  if (!model.parts) return { ...said, way: { kind: "ngram" }, logits: null };
  const { heads, layers, positions } = model.record, inputs = state.tokens.slice(0, state.length), own = model.parts(inputs);
  const read = inputs.slice(-own.attention[0].length / heads).map((token, i, all) => i === 0 && all.length === inputs.length ? FIRST : tokenizer.shown(token));
  const logits = best.map(token => own.logits[token]), hasShares = own.parts.every(part => part.shares);
  return { ...said, logits, way: { kind: "transformer", read, tokens_before: inputs.length - read.length, layers, positions,
    parts: own.parts.map(({ vector, shares, ...part }) => ({ ...part, width: vector.length, vector: base64(vector), shares: shares && best.map(token => shares[token]) })),
    attention: own.attention.map(row => ({ heads, weights: base64(Float32Array.from(row)) })),
    ...hasShares && { rest: best.map((token, i) => logits[i] - own.parts.reduce((sum, part) => sum + part.shares[token], 0)) } } };
}

/** A text as it is and changed, as features/serve/explorer/changes.py has it. */
export async function changes(parts, body, pause) {
  const { model, tokenizer, isDistribution } = parts, { off = [], by = "zero" } = body, instead = body.instead || body.text;
  requireDistribution(isDistribution);
  const missing = off.find(name => !model.units?.().flat().includes(name));
  if (missing !== undefined) throw new Error(model.units ? `There is no part ${missing} of the network.` : "This model has no heads to switch off; expected a Transformer.");
  const [tokens, others] = [body.text, instead].map(text => tokenizer.encode(text).ids), isPatch = by === "patch";
  if (isPatch && (!off.length || instead === body.text)) throw new Error("Patch replaces outputs by those for another text: choose a head or layer, and a text.");
  if (isPatch && tokens.length !== others.length) {
    throw new Error(`The text has ${tokens.length} tokens and the other one ${others.length}: outputs are replaced token by token, so give one with as many.`);
  }
  for (const ids of [tokens, others]) checkLength(ids, MOST_TOKENS, off.length ? model.record.context : null);
  const read = async (ids, without) => {
    const rows = without.length ? await model.readWithout([model.record.begins_with, ...ids], without, by, [model.record.begins_with, ...others], pause) : await rowsAlong(model, ids, pause);
    const after = rows.at(-1);
    return { tokens: ids.map((id, i) => ({ shown: tokenizer.shown(id), log_prob: finite(rows[i][id]) })), next: likeliest(after, tokenizer, TOP),
      entropy: -after.reduce((sum, logProb) => Number.isFinite(logProb) ? sum + Math.exp(logProb) * logProb : sum, 0) };
  };
  return { kind: "changes", units: model.units?.() ?? [], before: await read(tokens, []), after: await read(isPatch ? tokens : others, off), off };
}

/** The distribution before each token, and after the last. */
async function rowsAlong(model, ids, pause) {
  const rows = [];
  let state = model.start();
  for (const [i, id] of [...ids, null].entries()) {
    await pause(i / (ids.length + 1));
    rows.push(model.distribution(state));
    if (id !== null) state = model.after(state, id);
  }
  return rows;
}

function base64(numbers) {
  const bytes = new Uint8Array(numbers.buffer);
  let binary = "";
  for (let i = 0; i < bytes.length; i += 32768) binary += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(binary);
}

export function requireDistribution(isDistribution) {
  if (!isDistribution) throw new Error("The scores of stupid-backoff do not sum to one, so it can score and rank text but not predict or draw words; train with another smoothing for that.");
}

const finite = value => Number.isFinite(value) ? value : null;
