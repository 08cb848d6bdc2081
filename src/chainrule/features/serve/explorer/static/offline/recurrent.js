// A small LSTM or GRU in the page: as neural/encoders/recurrent.py reads one token after another.

import { logProbsOf, logitsOf, product, sigmoid, weightsOf } from "./networks.js";
import { END } from "./ngrams.js";

const TOKENS = 32, UNITS = 48; // of the gates that are shown: the last tokens, and the units of a layer that vary most

/** What a step computes: gates and candidate, and the state of the layer, h, with the cell c of an LSTM. */
function lstm(inputs, states, { h, c }) {
  const width = h.length, part = (i, own) => Float32Array.from({ length: width }, (_, j) => own(inputs[i * width + j] + states[i * width + j]));
  const i = part(0, sigmoid), f = part(1, sigmoid), g = part(2, Math.tanh), o = part(3, sigmoid);
  const cell = c.map((value, j) => f[j] * value + i[j] * g[j]);
  return { i, f, o, g, c: cell, h: cell.map((value, j) => o[j] * Math.tanh(value)) };
}

function gru(inputs, states, { h }) {
  const width = h.length, part = i => Float32Array.from({ length: width }, (_, j) => sigmoid(inputs[i * width + j] + states[i * width + j]));
  const r = part(0), z = part(1), n = r.map((value, j) => Math.tanh(inputs[2 * width + j] + value * states[2 * width + j]));
  return { r, z, n, h: h.map((value, j) => (1 - z[j]) * n[j] + z[j] * value) };
}

export class Recurrent {
  isNetwork = true;

  constructor(record, array) {
    this.record = record;
    Object.assign(this, weightsOf(record, array));
    if (record.layers > 1 && record.widths.at(-2) === record.widths.at(-1)) this.lens = state => this.lensOf(state);
  }

  // A state is what each layer computed of the last token, and what it gives to the next one.
  start() {
    return this.step(this.record.widths.map(width => ({ values: { h: new Float32Array(width), c: new Float32Array(width) } })), this.record.begins_with);
  }

  after(state, token) {
    return this.step(state, token === END ? this.record.begins_with : token);
  }

  step(before, token) {
    const { cell, residual, embedding_scale: scale } = this.record, { weights } = this, width = this.record.shapes["embedding.weight"][1];
    let x = weights["embedding.weight"].slice(token * width, (token + 1) * width);
    if (scale !== 1) x = x.map(value => value * scale);
    return before.map(({ values: old }, i) => {
      const name = `encoder.layers.${i}`, rows = (cell === "lstm" ? 4 : 3) * old.h.length;
      const [inputs, states] = [["ih", x], ["hh", old.h]].map(([side, own]) => product(weights[`${name}.weight_${side}_l0`], weights[`${name}.bias_${side}_l0`], own, rows));
      const values = (cell === "lstm" ? lstm : gru)(inputs, states, old), given = x;
      x = residual && given.length === values.h.length ? values.h.map((value, j) => value + given[j]) : values.h;
      return { values, out: x };
    });
  }

  logitsOf(state) {
    return logitsOf(this, state.at(-1).out);
  }

  distribution(state) {
    return logProbsOf(this.logitsOf(state));
  }

  logProb(state, token) {
    return this.distribution(state)[token];
  }

  /** The distributions that the output would give of each layer as wide as the last (the logit lens). */
  lensOf(state) {
    return state.filter(({ out }) => out.length === this.record.widths.at(-1)).map(({ out }) => logProbsOf(logitsOf(this, out)));
  }

  /** As Transformer.lensAlong. */
  async lensAlong(inputs, pause) {
    const rows = (await this.along(inputs, pause)).map(state => this.lensOf(state));
    return rows[0].map((_, layer) => rows.map(row => row[layer]));
  }

  /** The states after each input, what begins a text being the first. */
  async along(inputs, pause) {
    const states = [this.start()];
    for (const [i, token] of inputs.slice(1).entries()) {
      await pause(i / inputs.length);
      states.push(this.after(states.at(-1), token));
    }
    return states;
  }

  /** What the layers compute at the last tokens of a text: as features/serve/explorer/ways.py has it. base64: of numbers. */
  async gates(inputs, pause, base64) {
    const states = await this.along(inputs, pause), shown = states.slice(-TOKENS);
    return this.record.widths.map((width, i) => {
      const spread = Float64Array.from({ length: width }, (_, unit) => {
        const own = states.map(state => state[i].values.h[unit]);
        return own.reduce((most, value) => Math.max(most, value)) - own.reduce((least, value) => Math.min(least, value));
      });
      const units = Array.from(spread.keys()).sort((a, b) => spread[b] - spread[a] || a - b).slice(0, UNITS);
      const values = Object.keys(states[0][i].values).map(gate => [gate, base64(Float32Array.from(shown.flatMap(state => units.map(unit => state[i].values[gate][unit]))))]);
      return { name: `layer ${i + 1}`, width, units, values: Object.fromEntries(values) };
    });
  }

  why() {
    return {};
  }
}
