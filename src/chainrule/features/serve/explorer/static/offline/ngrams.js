// An n-gram model in the page: the trie of ngram/trie/table.py, and its queries.

import { logProbs } from "./arrays.js";

export const UNKNOWN = 0, BEGIN = 1, END = 2;
const NONE = -1; // in place of a node that the table lacks

export class Table {
  constructor(record, array, prefix = "") {
    const { order, level_sizes: sizes, forms } = record;
    const vocabulary = sizes[0], children = array(`${prefix}children`);
    this.order = order;
    this.vocabularySize = vocabulary;
    this.inner = children.length;
    this.begin = new Int32Array(children.length + 1);
    this.begin[0] = 1;
    for (let i = 0; i < children.length; i++) this.begin[i + 1] = this.begin[i] + children[i];
    const nodes = 1 + sizes.reduce((sum, size) => sum + size, 0);
    this.words = new Uint32Array(nodes);
    for (let word = 0; word < vocabulary; word++) this.words[1 + word] = word;
    this.words.set(array(`${prefix}words`), 1 + vocabulary);
    this.logProbs = new Float32Array(nodes);
    this.backoffs = new Float32Array(this.inner);
    let at = 1;
    forms.log_probs.forEach((form, i) => {
      this.logProbs.set(logProbs(array, `${prefix}log_probs_${i + 1}`, form), at);
      if (i + 1 < order) this.backoffs.set(logProbs(array, `${prefix}log_backoffs_${i + 1}`, forms.log_backoffs[i]), at);
      at += sizes[i];
    });
  }

  /** The node of a word after a context; NONE if there is none. */
  child(node, word) {
    let low = this.begin[node], high = this.begin[node + 1];
    const end = high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.words[middle] < word) low = middle + 1;
      else high = middle;
    }
    return low < end && this.words[low] === word ? low : NONE;
  }

  /** The nodes of the last word, the last two, and so on, after </s> and so many <s>. */
  start(begins = 1) {
    let state = new Int32Array(Math.max(0, this.order - 1)).fill(NONE);
    if (state.length) state[0] = 1 + BEGIN;
    for (let i = 1; i < begins; i++) state = this.after(state, BEGIN);
    return state;
  }

  after(state, word) {
    const next = new Int32Array(state.length);
    for (let i = 0; i < state.length; i++) {
      const node = i === 0 ? 1 + word : state[i - 1] === NONE ? NONE : this.child(state[i - 1], word);
      next[i] = node < this.inner ? node : NONE;
    }
    return next;
  }

  /** log P of a word, and the length of the n-gram that gives it. */
  logProb(state, word) {
    let total = 0;
    for (let i = state.length - 1; i >= 0; i--) {
      if (state[i] === NONE) continue;
      const node = this.child(state[i], word);
      if (node !== NONE) return [total + this.logProbs[node], i + 2];
      total += this.backoffs[state[i]];
    }
    return [total + this.logProbs[1 + word], 1];
  }

  /** log P of every word. */
  distribution(state) {
    const row = Float64Array.from(this.logProbs.subarray(1, 1 + this.vocabularySize));
    for (const node of state) {
      if (node === NONE) continue;
      const backoff = this.backoffs[node];
      for (let word = 0; word < row.length; word++) row[word] += backoff;
      for (let child = this.begin[node]; child < this.begin[node + 1]; child++) row[this.words[child]] = this.logProbs[child];
    }
    return row;
  }

  /** As TrieModel.backoff_chain: what each context has, the longest first. */
  chain(state, tokens) {
    const steps = [{ length: 0, continuations: this.vocabularySize, log_backoff: 0, log_probs: tokens.map(token => this.logProbs[1 + token]) }];
    state.forEach((node, i) => {
      if (node === NONE) steps.push({ length: i + 1, continuations: null, log_backoff: 0, log_probs: tokens.map(() => null) });
      else steps.push({ length: i + 1, continuations: this.begin[node + 1] - this.begin[node], log_backoff: this.backoffs[node],
        log_probs: tokens.map(token => {
          const child = this.child(node, token);
          return child === NONE ? null : this.logProbs[child];
        }) });
    });
    return steps.reverse();
  }
}

/** A model as the page asks it: states are kept by the caller, as in protocol.py. */
export class NGrams {
  constructor(record, array) {
    this.record = record;
    this.table = new Table(record, array);
    this.vocabularySize = this.table.vocabularySize;
    this.begins = record.begins;
    this.weight = record.backoff_weight;
  }

  start() {
    return { nodes: this.table.start(this.begins), read: this.begins };
  }

  after(state, token) {
    return { nodes: this.table.after(state.nodes, token), read: state.read + 1 };
  }

  logProb(state, token) {
    const [logProb, length] = this.table.logProb(state.nodes, token);
    if (this.weight === null) return logProb;
    return logProb + (Math.min(state.read + 1, this.table.order) - length) * Math.log(this.weight);
  }

  distribution(state) {
    return this.table.distribution(state.nodes);
  }

  /** What records.py adds for an n-gram table. */
  why(state, context, best) {
    const shown = context(this.table.order), finite = value => Number.isFinite(value) ? value : null;
    return {
      order: this.table.order, smoothing: this.record.smoothing, discounts: this.record.discounts,
      backoff: this.table.chain(state.nodes, best).filter(step => step.length <= shown.length).map(({ length, ...step }) => ({
        ...step, log_backoff: finite(step.log_backoff), log_probs: step.log_probs.map(value => value === null ? null : finite(value)),
        context: shown.slice(shown.length - length), counts: best.map(() => null), total: null, counted: "occurrences",
      })),
    };
  }
}
