// The speller: log P of the spelling of an unknown token, as ngram/speller.py has it.

import { END, Table, UNKNOWN } from "./ngrams.js";

const FIRST = 3; // the symbol of the first known character

export class Speller {
  constructor(record, array) {
    this.unseenTypes = record.unseen_types;
    if (record.order === undefined) return; // no token is ever unknown
    this.table = new Table(record, array, "speller.");
    this.logOpen = record.log_open;
    this.literalShare = record.literal_share; // of the literal <unk>; 0: it is spelled like other tokens
    const characters = array("speller.characters");
    this.symbolOf = new Map(Array.from(characters, (code, i) => [code, FIRST + i]));
    this.impossible = new Set([...record.never, ...characters].filter(code => code < 0x80));
    this.completions = new Map(); // the last bytes of known characters, by their other bytes
    this.prefixes = new Set();
    for (const code of characters) {
      if (code < 0x80) continue;
      const bytes = [...new TextEncoder().encode(String.fromCodePoint(code))], before = bytes.slice(0, -1).join();
      this.completions.set(before, (this.completions.get(before) ?? new Set()).add(bytes.at(-1)));
      for (let n = 1; n < bytes.length; n++) this.prefixes.add(bytes.slice(0, n).join());
    }
  }

  /** log P(spelling | unknown), in nats. */
  logProb(token) {
    if (this.literalShare && token === "<unk>") return Math.log(this.literalShare);
    let total = 0, state = this.table.start(), prefix = "";
    const read = symbol => {
      total += this.table.logProb(state, symbol)[0];
      state = this.table.after(state, symbol);
    };
    for (const character of token) {
      const symbol = this.symbolOf.get(character.codePointAt(0));
      if (symbol !== undefined) {
        read(symbol);
        prefix = "";
        continue;
      }
      for (const byte of new TextEncoder().encode(character)) {
        read(UNKNOWN);
        if (this.impossible.has(byte)) return -Infinity;
        total -= Math.log(256 - this.impossible.size - (this.completions.get(prefix)?.size ?? 0));
        const longer = prefix ? `${prefix},${byte}` : `${byte}`;
        prefix = this.prefixes.has(longer) ? longer : this.prefixes.has(`${byte}`) ? `${byte}` : "";
      }
    }
    read(END);
    return total - this.logOpen + Math.log1p(-this.literalShare);
  }
}
