// A small Transformer in the page: as neural/encoders/blocks.py reads one token after another, with keys and values kept.

import { addTo, logProbsOf, logitsOf, product, sigmoid, weightsOf } from "./networks.js";
import { END } from "./ngrams.js";

const gelu = x => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const CLAMP = 7, SHARPNESS = 1.702; // of gpt-oss
const ACTIVATIONS = {
  relu: x => Math.max(x, 0), relu_squared: x => Math.max(x, 0) ** 2, gelu, geglu: gelu, silu: x => x * sigmoid(x), swiglu: x => x * sigmoid(x),
  gelu_exact: x => 0.5 * x * (1 + erf(x / Math.SQRT2)), geglu_exact: x => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  clamped_swiglu: x => Math.min(x, CLAMP) * sigmoid(SHARPNESS * Math.min(x, CLAMP)),
};

/** The error function, to 1e-14: its series, or its continued fraction (Abramowitz and Stegun 7.1.5, 7.1.14). */
function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 2.5) {
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= -x * x / n;
      sum += term / (2 * n + 1);
    }
    return 2 / Math.sqrt(Math.PI) * sum;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-x * x) / Math.sqrt(Math.PI) / (size + fraction));
}

const lengthOf = x => Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));

export class Transformer {
  isNetwork = true;

  constructor(record, array) {
    this.record = record;
    Object.assign(this, weightsOf(record, array));
    const { positions, rotated, rotary_base: base } = record;
    if (positions === "rotary") this.waves = Float64Array.from({ length: rotated / 2 }, (_, i) => base ** (-2 * i / rotated));
    this.session = null; // what was read last, since texts that follow mostly begin alike
  }

  // A state is the first `length` of some tokens, to which states that follow add theirs; what begins a text is the first. What a network
  // computes of them is kept for one text at a time.
  start() {
    return wholeOf([this.record.begins_with]);
  }

  after({ tokens, length }, token) {
    const own = tokens.length === length ? tokens : tokens.slice(0, length);
    own.push(token === END ? this.record.begins_with : token);
    return wholeOf(own);
  }

  distribution(state) {
    return this.logProbsOf(this.read(state).hidden);
  }

  logProb(state, token) {
    return this.distribution(state)[token];
  }

  /** What a state has been read to: the last hidden state, and each layer's. watch, edit: as for step. */
  read(state, watch = null, edit = null) {
    const reading = this.reading(state, watch, edit);
    for (;;) {
      const { done, value } = reading.next();
      if (done) return value;
    }
  }

  /** The same token by token, for who has to do something else between them. */
  *reading({ tokens, length }, watch = null, edit = null) {
    const begin = windowStart(length, this.record.context);
    let session = watch || edit ? null : this.session;
    if (session?.begin !== begin) session = null;
    if (session) {
      const most = Math.min(session.length, length);
      let shared = session.tokens === tokens ? most : 0; // tokens are only ever added
      while (shared < most && session.tokens[shared] === tokens[shared]) shared += 1;
      if (shared < session.length) session = this.cut(session, Math.min(shared, length - 1));
    }
    if (!session) session = { begin, length: begin, keys: this.caches(), values: this.caches(), hidden: null, layers: [], edit };
    session.tokens = tokens;
    while (session.length < length) {
      [session.hidden, session.layers] = this.step(tokens[session.length], session.length - begin, session, watch);
      session.length += 1;
      yield;
    }
    if (!watch && !edit) this.session = session;
    return session;
  }

  /** A reading without what came after so many tokens. */
  cut(session, length) {
    const kept = length - session.begin;
    if (kept <= 0) return null;
    return { begin: session.begin, tokens: session.tokens, length, hidden: null, layers: [],
      keys: session.keys.map(rows => rows.slice(0, kept)), values: session.values.map(rows => rows.slice(0, kept)) };
  }

  caches() {
    return Array.from({ length: this.record.layers }, () => []);
  }

  /**
   * Reads a token; its hidden state for the output, and those of each layer. watch: gets the weights of each head. The session's edit: gets
   * each part's name, layer, position, numbers, which it may change, and head; token and position come before the first layer.
   */
  step(token, position, session, watch) {
    const { width, layers, embedding_scale: scale, embedding_norm: isNormed } = this.record;
    let x = this.weights["embedding.weight"].slice(token * width, (token + 1) * width);
    if (scale !== 1) for (let i = 0; i < width; i++) x[i] *= scale;
    if (isNormed) x = this.normed(x, "embedding.norm");
    session.edit?.("token", -1, position, x);
    const before = session.edit && x.slice();
    this.addPosition(x, position);
    if (before) session.edit("position", -1, position, x.map((value, i) => value - before[i]));
    const states = [];
    for (let layer = 0; layer < layers; layer++) {
      x = this.block(x, layer, position, session, watch);
      states.push(x.slice());
    }
    return [this.record.post ? x : this.normed(x, "encoder.norm"), states];
  }

  addPosition(x, position) {
    const { positions, position_offset: offset, width } = this.record;
    if (positions === "learned") addTo(x, this.weights["encoder.places.vectors"].subarray((position + offset) * width, (position + offset + 1) * width));
    if (positions === "sinusoidal") {
      const even = Math.ceil(width / 2) * 2;
      for (let i = 0; i < width; i++) {
        const angle = position * 10000 ** (-2 * (i >> 1) / even);
        x[i] += Math.fround(i % 2 ? Math.cos(angle) : Math.sin(angle));
      }
    }
  }

  block(x, layer, position, session, watch) {
    const { post, parallel, sublayer_norms: places, residual_scale: scale } = this.record;
    const name = `encoder.blocks.${layer}`;
    const norm = (i, y) => this.normed(y, `${name}.norms.${i}`), after = (i, y) => this.normed(y, `${name}.norms_after.${i}`);
    const edited = (part, y) => {
      session.edit?.(part, layer, position, y);
      return y;
    };
    const attend = y => this.attention(y, layer, position, session, watch), feed = y => this.fed(y, layer);
    if (places !== "before") {
      addTo(x, edited("attention", after(0, attend(places === "both" ? norm(0, x) : x))), scale);
      return addTo(x, edited("feed-forward", after(1, feed(places === "both" ? norm(1, x) : x))), scale);
    }
    const normed = post ? x : norm(0, x), attended = edited("attention", attend(normed));
    if (parallel) {
      addTo(attended, edited("feed-forward", feed(!post && this.record.norms > 1 ? norm(1, x) : normed)));
      addTo(x, attended, scale);
      return post ? norm(0, x) : x;
    }
    addTo(x, attended, scale);
    if (post) {
      x = norm(0, x);
      return norm(1, addTo(x.slice(), edited("feed-forward", feed(x)), scale));
    }
    return addTo(x, edited("feed-forward", feed(norm(1, x))), scale);
  }

  attention(x, layer, position, session, watch) {
    const { heads, key_heads: keyHeads, head_width: width, normed, windows, scale, cap, slopes } = this.record, window = windows[layer];
    const name = `encoder.blocks.${layer}.attention`, rows = heads + 2 * keyHeads;
    const all = product(this.weights[`${name}.query_key_value.weight`], this.weights[`${name}.query_key_value.bias`], x, rows * width);
    for (let head = 0; head < heads + keyHeads; head++) {
      const part = all.subarray(head * width, (head + 1) * width);
      if (normed) this.normHead(part, this.weights[`${name}.gains.${head < heads ? 0 : 1}`]);
      if (this.waves) this.rotate(part, position);
    }
    session.keys[layer].push(all.slice(heads * width, (heads + keyHeads) * width));
    session.values[layer].push(all.slice((heads + keyHeads) * width));
    const keys = session.keys[layer], values = session.values[layer], first = window === null ? 0 : Math.max(0, keys.length - window);
    const out = new Float32Array(heads * width);
    for (let head = 0; head < heads; head++) {
      const at = Math.floor(head / (heads / keyHeads)) * width, weights = new Float64Array(keys.length);
      let highest = -Infinity, total = 0;
      for (let i = first; i < keys.length; i++) {
        let score = 0;
        const key = keys[i];
        for (let j = 0; j < width; j++) score += all[head * width + j] * key[at + j];
        score *= scale;
        if (cap !== null) score = Math.tanh(score / cap) * cap;
        if (slopes) score -= slopes[head] * (keys.length - 1 - i);
        weights[i] = score;
        highest = Math.max(highest, score);
      }
      for (let i = first; i < keys.length; i++) total += weights[i] = Math.exp(weights[i] - highest);
      for (let i = first; i < keys.length; i++) {
        const weight = weights[i] /= total, value = values[i];
        for (let j = 0; j < width; j++) out[head * width + j] += weight * value[at + j];
      }
      watch?.(layer, head, position, weights);
      session.edit?.("heads", layer, position, out.subarray(head * width, (head + 1) * width), head);
    }
    return product(this.weights[`${name}.out.weight`], this.weights[`${name}.out.bias`], out, x.length);
  }

  normHead(part, gain) {
    const { normed_epsilon: epsilon, above_one: aboveOne } = this.record;
    let sum = 0;
    for (const value of part) sum += value * value;
    const factor = 1 / Math.sqrt(sum / part.length + epsilon);
    for (let i = 0; i < part.length; i++) part[i] *= factor * (gain ? gain[i] + (aboveOne ? 1 : 0) : 1);
  }

  rotate(part, position) {
    const half = this.waves.length;
    for (let i = 0; i < half; i++) {
      const angle = position * this.waves[i], cos = Math.fround(Math.cos(angle)), sin = Math.fround(Math.sin(angle));
      const a = part[i], b = part[half + i];
      part[i] = a * cos - b * sin;
      part[half + i] = b * cos + a * sin;
    }
  }

  fed(x, layer) {
    const { activation, gated } = this.record, name = `encoder.blocks.${layer}.feed_forward`, act = ACTIVATIONS[activation];
    const hidden = product(this.weights[`${name}.up.weight`], this.weights[`${name}.up.bias`], x, this.record.shapes[`${name}.up.weight`][0]);
    let inner = hidden;
    if (gated) {
      const half = hidden.length / 2, isClamped = activation === "clamped_swiglu";
      inner = hidden.slice(0, half);
      for (let i = 0; i < half; i++) {
        const beside = hidden[half + i];
        inner[i] = act(inner[i]) * (isClamped ? Math.max(-CLAMP, Math.min(CLAMP, beside)) + 1 : beside);
      }
    } else for (let i = 0; i < inner.length; i++) inner[i] = act(inner[i]);
    return product(this.weights[`${name}.down.weight`], this.weights[`${name}.down.bias`], inner, x.length);
  }

  normed(x, name) {
    const { norm, epsilon, above_one: aboveOne } = this.record, gain = this.weights[`${name}.weight`], shift = this.weights[`${name}.bias`];
    let mean = 0, square = 0;
    if (norm === "layer") {
      for (const value of x) mean += value;
      mean /= x.length;
    }
    for (const value of x) square += (value - mean) ** 2;
    const factor = 1 / Math.sqrt(square / x.length + epsilon), out = new Float32Array(x.length);
    for (let i = 0; i < x.length; i++) {
      out[i] = (x[i] - mean) * factor * (gain ? gain[i] + (aboveOne && norm === "rms" ? 1 : 0) : 1) + (shift ? shift[i] : 0);
    }
    return out;
  }

  logitsOf(hidden) {
    return logitsOf(this, hidden);
  }

  logProbsOf(hidden) {
    return logProbsOf(this.logitsOf(hidden));
  }

  /** The distributions that each layer would predict after what a state has read (the logit lens). */
  lens(state) {
    const { layers } = this.read(state);
    return layers.map(hidden => this.logProbsOf(this.record.post ? hidden : this.normed(hidden, "encoder.norm")));
  }

  /** As lens, after each token of a text with what begins it: layer by layer. pause: as for records.js. */
  async lensAlong(inputs, pause) {
    const layers = Array.from({ length: this.record.layers }, () => []);
    for (let length = 1; length <= inputs.length; length++) {
      await pause(length / inputs.length);
      this.lens({ tokens: inputs, length }).forEach((row, layer) => layers[layer].push(row));
    }
    return layers;
  }

  /** What each part adds after the last token of a text, its share of each logit, and where the heads look; shares null where there are none. */
  parts(inputs) {
    const { residual_scale: scale, post, logit_cap: cap, positions } = this.record, begin = windowStart(inputs.length, this.record.context), last = inputs.length - 1 - begin;
    const parts = [], attention = [];
    const session = this.read(wholeOf(inputs), (layer, head, position, row) => {
      if (position === last) (attention[layer] ??= []).push(...row);
    }, (part, layer, position, x) => {
      const isAbsent = part === "heads" || (part === "position" && positions !== "learned" && positions !== "sinusoidal");
      if (position === last && !isAbsent) parts.push({ part, layer: layer + 1, vector: x.map(value => layer < 0 ? value : scale * value) });
    });
    const stream = new Float32Array(this.record.width);
    for (const part of parts) part.after = lengthOf(addTo(stream, part.vector));
    const share = post || cap !== null ? null : this.shareOf(stream);
    return { parts: parts.map(part => ({ ...part, norm: lengthOf(part.vector), shares: share && share(part.vector) })), attention, logits: this.logitsOf(session.hidden) };
  }

  /** A function from what a part adds to its share of each logit: the final norm is linear once the length of the sum is known. */
  shareOf(stream) {
    const shift = this.weights["encoder.norm.bias"], isCentred = this.record.norm === "layer", mean = x => isCentred ? x.reduce((sum, value) => sum + value, 0) / x.length : 0;
    const normed = this.normed(stream, "encoder.norm"), middle = mean(stream);
    const gains = normed.map((value, i) => stream[i] === middle ? 0 : (value - (shift ? shift[i] : 0)) / (stream[i] - middle));
    return x => {
      const own = mean(x);
      return product(this.output, null, x.map((value, i) => (value - own) * gains[i] * this.record.logit_scale), this.vocabularySize);
    };
  }

  /** The parts of each layer that can be switched off, by name. */
  units() {
    return Array.from({ length: this.record.layers }, (_, layer) => [...Array.from({ length: this.record.heads }, (_, head) => `${layer + 1}.${head + 1}`),
      `${layer + 1}.attention`, `${layer + 1}.feed-forward`, String(layer + 1)]);
  }

  /** Log P of every token after each input where the outputs of units become zero, their mean so far, or those for other inputs. */
  async readWithout(inputs, off, by, others, pause) {
    const nameOf = (part, layer, head) => part === "heads" ? `${layer + 1}.${head + 1}` : `${layer + 1}.${part}`, sums = new Map(), given = new Map();
    const isOff = (part, layer, head) => layer >= 0 && (off.includes(nameOf(part, layer, head)) || (part !== "heads" && off.includes(String(layer + 1))));
    if (by === "patch") this.read(wholeOf(others), null, (part, layer, position, x, head) => given.set(`${nameOf(part, layer, head)} ${position}`, x.slice()));
    const rows = [], edit = (part, layer, position, x, head) => {
      if (!isOff(part, layer, head)) return;
      const name = nameOf(part, layer, head), patched = given.get(`${name} ${position}`);
      if (by === "zero") x.fill(0);
      else if (by === "patch") { if (patched) x.set(patched); }
      else {
        const sum = addTo(sums.get(name) ?? new Float32Array(x.length), x);
        sums.set(name, sum);
        x.set(sum.map(value => value / (position + 1)));
      }
    };
    const session = { begin: 0, keys: this.caches(), values: this.caches(), edit };
    for (const [i, token] of inputs.entries()) {
      await pause(i / inputs.length);
      rows.push(this.logProbsOf(this.step(token, i, session, null)[0]));
    }
    return rows;
  }

  /** The weights of all heads of each layer, row by row, for a text with what begins it. pause: as for records.js. */
  async maps(inputs, pause) {
    const { heads, layers } = this.record, size = inputs.length, weights = Array.from({ length: layers }, () => new Float32Array(heads * size * size));
    let read = 0;
    for (const _ of this.reading(wholeOf(inputs), (layer, head, position, row) => weights[layer].set(row, (head * size + position) * size))) await pause(++read / size);
    return weights;
  }

  why() {
    return {};
  }
}

/** All of some tokens as a state. */
const wholeOf = tokens => ({ tokens, length: tokens.length });

/** As in neural/scoring.py. */
function windowStart(inputs, context) {
  if (context === null || inputs <= context) return 0;
  const stride = context - Math.floor(context / 2);
  return Math.ceil((inputs - context) / stride) * stride;
}
