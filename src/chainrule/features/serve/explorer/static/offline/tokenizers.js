// Tokenizers in the page: texts to tokens, and tokens to the normalised text with the place of each.
// The rules are those of text/tokenization: splitters.py, tokenizer_kernels.py and, for pieces, the library tokenizers.

import { BEGIN, END, UNKNOWN } from "./ngrams.js";

const JOINER = "\uffed", REPLACEMENT = "\ufffd";
const MARKERS = ["<unk>", "<s>", "</s>"];
const [SPACE, LETTER, DIGIT, EXTEND, CONNECTOR, NUMBER_CONNECTOR, ALONE, START] = [0, 1, 2, 3, 4, 5, 6, 255];
const PICTURED = { "\0": "\u2400", "\t": "\u2409", "\n": "\u240a", "\r": "\u240d", " ": "\u2420" };
// GPT-2's words (Radford et al. 2019, as published in code).
const PIECES = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const MARKS = { " ": "·", "\n": "¶", "\t": "→", "\r": "←", "\u00a0": "⍽" };
// As Python's \s, and characters that are invisible or turn the direction of what follows.
const UNSEEN = /[\p{White_Space}\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc\ufffe\uffff]/gu;
const LAST = 8; // tokens that tell how a text ends
const MOST_REMEMBERED = 20000; // words whose pieces are kept

/** A text with a mark for each character without ink. */
export function showUnseen(text) {
  return text.replace(UNSEEN, c => MARKS[c] ?? `‹U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

export class Tokenizer {
  constructor(record, array) {
    this.record = record;
    this.tokens = record.tokens;
    this.ids = new Map(record.tokens.map((token, id) => [token, id]));
    this.symbols = Array.from(record.symbols);
    this.byteOf = new Map(this.symbols.map((symbol, byte) => [symbol, byte]));
    this.spelled = new Map(); // bytes by token
    this.remembered = new Map();
    if (record.merges) this.ranks = new Map(record.merges.map((merge, rank) => [merge, rank]));
    if (record.pieces) {
      this.scores = new Map(record.pieces.map((piece, i) => [piece, record.scores[i]]));
      this.longest = Math.max(...record.pieces.map(piece => piece.length));
    }
    if (record.kind === "word") {
      this.classStarts = array("class_starts");
      this.classes = array("classes");
    }
    this.isSpaced = record.kind === "word" || record.kind === "whitespace";
    this.beginsWord = record.begins_word ? new Set(record.begins_word) : null; // null: all do
  }

  /** The tokens of a text, as written, and their ids. Throws an Error for literal markers. */
  encode(text) {
    const written = this.split(this.normalised(text));
    const marker = written.find(token => MARKERS.includes(token));
    if (marker) throw new Error(`The text contains ${marker}, which is a marker of the model: remove it.`);
    return { written, ids: written.map(token => this.ids.get(token) ?? UNKNOWN) };
  }

  normalised(text) {
    let out = text.toWellFormed();
    const { normalise } = this.record, form = normalise.find(step => step !== "lower");
    if (form) out = out.normalize(form.toUpperCase());
    if (normalise.includes("lower")) {
      out = out.toLowerCase();
      if (form) out = out.normalize(form.toUpperCase());
    }
    return out;
  }

  split(text) {
    switch (this.record.kind) {
      case "word": return this.words(text);
      case "whitespace": return text.split(/[\0\t\n\r ]+/).filter(Boolean);
      case "character": return Array.from(text, c => PICTURED[c] ?? (c >= "\u2400" && c <= "\u2420" ? REPLACEMENT : c));
      case "byte": return Array.from(new TextEncoder().encode(text), byte => this.symbols[byte]);
      default: return (text.match(PIECES) ?? []).flatMap(word => this.pieces(word));
    }
  }

  classOf(code) {
    let low = 0, high = this.classStarts.length;
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (this.classStarts[middle] <= code) low = middle;
      else high = middle;
    }
    return this.classes[low];
  }

  /** As rewrite_words in tokenizer_kernels.py, without its short way. */
  words(text) {
    const letters = Array.from(text), codes = letters.map(c => c.codePointAt(0)), kinds = codes.map(code => this.classOf(code));
    let out = "", before = START;
    for (let i = 0; i < letters.length;) {
      let kind = kinds[i], length = 1;
      if (kind === SPACE) {
        before = before === START ? START : SPACE;
        i += 1;
        continue;
      }
      const apart = before === SPACE || before === START;
      if (apart && letters[i] === "<") {
        const marker = MARKERS.find(one => one === letters.slice(i, i + one.length).join(""));
        if (marker && (i + marker.length === letters.length || kinds[i + marker.length] === SPACE)) [length, kind] = [marker.length, LETTER];
      }
      if (kind === EXTEND) kind = apart ? LETTER : before;
      else if (kind === CONNECTOR || kind === NUMBER_CONNECTOR) {
        let joins = false;
        if ((before === LETTER || before === DIGIT) && i + 1 < letters.length) {
          const after = kinds[i + 1];
          joins = kind === CONNECTOR ? after === LETTER || after === DIGIT : before === DIGIT && after === DIGIT;
        }
        kind = joins ? before : ALONE;
      }
      const inWord = kind === LETTER || kind === DIGIT;
      const continues = !apart && ((inWord && before !== ALONE) || kinds[i] === EXTEND);
      if (before === SPACE) out += " ";
      else if (before !== START && !continues) out += inWord ? `${JOINER} ` : ` ${JOINER}`;
      out += letters[i] === JOINER ? REPLACEMENT : letters.slice(i, i + length).join("");
      before = kind;
      i += length;
    }
    return out ? out.split(" ") : [];
  }

  /** The pieces of a word: by merges in their order, or the likeliest ones. */
  pieces(word) {
    const known = this.remembered.get(word);
    if (known) return known;
    const symbols = Array.from(new TextEncoder().encode(word), byte => this.symbols[byte]);
    const found = this.ranks ? this.merged(symbols) : this.likeliest(symbols.join(""));
    if (this.remembered.size > MOST_REMEMBERED) this.remembered.clear();
    this.remembered.set(word, found);
    return found;
  }

  merged(parts) {
    for (;;) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return parts;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }

  likeliest(word) {
    const best = new Array(word.length + 1).fill(-Infinity), from = new Int32Array(word.length + 1);
    best[0] = 0;
    for (let start = 0; start < word.length; start++) {
      for (let stop = start + 1; stop <= Math.min(word.length, start + this.longest); stop++) {
        const score = this.scores.get(word.slice(start, stop));
        if (score === undefined || best[start] + score <= best[stop]) continue;
        best[stop] = best[start] + score;
        from[stop] = start;
      }
    }
    const pieces = [];
    for (let stop = word.length; stop > 0; stop = from[stop]) pieces.unshift(word.slice(from[stop], stop));
    return pieces;
  }

  /** The bytes that tokens spell, and where each begins and ends in them. */
  align(written) {
    const encoder = new TextEncoder(), parts = [], starts = [], stops = [];
    let size = 0, touches = true;
    const put = bytes => {
      parts.push(bytes);
      size += bytes.length;
    };
    for (const token of written) {
      if (this.isSpaced) {
        const hasMarks = this.record.kind === "word", [from, to] = [hasMarks && token.startsWith(JOINER), hasMarks && token.length > 1 && token.endsWith(JOINER)];
        if (!touches && !from) put(Uint8Array.of(32));
        starts.push(size);
        put(encoder.encode(token.slice(from ? 1 : 0, to ? -1 : undefined)));
        touches = to;
      } else {
        starts.push(size);
        put(this.bytesOf(token));
      }
      stops.push(size);
    }
    const bytes = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return { bytes, starts, stops };
  }

  bytesOf(token) {
    const known = this.spelled.get(token);
    if (known) return known;
    const bytes = this.spell(token);
    this.spelled.set(token, bytes);
    return bytes;
  }

  spell(token) {
    if (this.record.kind === "character") {
      const pictured = Object.entries(PICTURED).find(([, picture]) => picture === token);
      return new TextEncoder().encode(pictured ? pictured[0] : token);
    }
    return Uint8Array.from(Array.from(token).flatMap(symbol => {
      const byte = this.byteOf.get(symbol);
      return byte === undefined ? [...new TextEncoder().encode(symbol)] : [byte];
    }));
  }

  decode(ids) {
    return new TextDecoder().decode(this.align(ids.map(id => this.tokens[id])).bytes);
  }

  shown(id) {
    return id === BEGIN ? "<s>" : this.record.shown[id] ?? this.tokens[id];
  }

  /** A token as people read it, known or not. */
  shownAs(token) {
    const id = this.ids.get(token);
    if (id !== undefined) return this.shown(id);
    const { bytes } = this.align([token]), isWord = this.record.kind === "word", shown = showUnseen(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
    return (isWord && token.startsWith(JOINER) ? JOINER : "") + shown + (isWord && token.length > 1 && token.endsWith(JOINER) ? JOINER : "");
  }

  /** What a token appends to a text as it was typed; null for markers. */
  added(ids, token, text) {
    if (token === UNKNOWN || token === BEGIN || token === END) return null;
    const last = ids.slice(-1).map(id => this.tokens[id]);
    const before = this.align(last).bytes.length, both = this.align([...last, this.tokens[token]]).bytes;
    const own = new TextDecoder().decode(both.subarray(before));
    const isSpaced = /\s$/.test(text) && !/\s$/.test(this.decode(ids.slice(-LAST)));
    return isSpaced ? own.trimStart() : own;
  }
}
