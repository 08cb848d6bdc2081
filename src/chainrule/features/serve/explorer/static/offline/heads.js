// The overview of attention in the page: what each head looks at, as features/serve/explorer/heads.py has it.

const PICTURE = 32, ROWS = 64, CLEAR = 0.4;
const SPECIAL = /^(<\/?s>|<(unk|pad|bos|eos|mask|sep|cls|start_of_\w+|end_of_\w+)>|<\|[^|]+\|>|\[(CLS|SEP|PAD|MASK|UNK)\])$/i;

export const isSpecial = token => SPECIAL.test(token);

function separates(token) {
  const text = token.replace(/^[·¶￭ ]+|[·¶￭ ]+$/g, "");
  return isSpecial(token) || (!text && token !== "") || /^\p{P}*$/u.test(text);
}

/** Of each layer, of each head: a small picture, the entropy of a row, and the shares of what it looks at. layers: the weights of each. */
export function overview(layers, heads, tokens) {
  const size = tokens.length, first = tokens.map((_, j) => j === 0), apart = tokens.map((token, j) => j > 0 && separates(token));
  const masks = {
    previous: (i, j) => j === i - 1, itself: (i, j) => j === i, same: (i, j) => i !== j && tokens[i] === tokens[j], first: (i, j) => first[j], separators: (i, j) => apart[j],
  };
  const seen = layers.map(weights => Array.from({ length: heads }, (_, head) => headOf(weights.subarray(head * size * size, (head + 1) * size * size), tokens, masks)));
  const all = seen.flatMap((layer, i) => layer.map((_, j) => [i, j])), of = ([i, j]) => seen[i][j];
  const telling = all.filter(at => !["first", "separators"].includes(of(at).kind));
  const isBefore = (a, b) => (a.kind === "broad") === (b.kind === "broad") ? a.entropy < b.entropy : b.kind === "broad";
  const chosen = (telling.length ? telling : all).reduce((best, at) => isBefore(of(at), of(best)) ? at : best);
  return { overview: seen, chosen };
}

function headOf(weights, tokens, masks) {
  const size = tokens.length, rows = readRows(weights, size), looks = {}, byColumn = new Float64Array(size);
  let entropy = 0, possible = 0;
  for (const i of rows) {
    let some = 0;
    for (let j = 0; j < size; j++) {
      const weight = weights[i * size + j];
      byColumn[j] += weight / rows.length;
      if (weight > 0) {
        some += 1;
        entropy -= weight * Math.log(weight) / rows.length;
      }
    }
    possible += Math.log(Math.max(some, 1)) / rows.length;
  }
  for (const [name, mask] of Object.entries(masks)) {
    let sum = 0;
    for (const i of rows) for (let j = 0; j < size; j++) if (mask(i, j)) sum += weights[i * size + j];
    looks[name] = rounded(sum / rows.length);
  }
  const place = byColumn.reduce((best, share, j) => j > 0 && share > (byColumn[best] ?? -1) ? j : best, size > 1 ? 1 : -1);
  const most = place < 0 ? null : { token: tokens[place], place, share: rounded(byColumn[place]) };
  const [name, share] = [...Object.entries(looks), ["one", most ? most.share : 0]].reduce((best, pair) => pair[1] > best[1] ? pair : best);
  return { ...pictureOf(weights, size), entropy: rounded(entropy), looks, most, kind: share >= CLEAR ? name : entropy > possible / 2 ? "broad" : "mixed" };
}

/** Rows that see more than one column, evenly spread. */
function readRows(weights, size) {
  const some = Array.from({ length: size }, (_, i) => i).filter(i => weights.subarray(i * size, (i + 1) * size).filter(weight => weight > 0).length > 1);
  const read = some.length ? some : Array.from({ length: size }, (_, i) => i), count = Math.min(ROWS, read.length);
  return [...new Set(Array.from({ length: count }, (_, k) => count === 1 ? 0 : Math.floor(k * (read.length - 1) / (count - 1))))].map(i => read[i]);
}

function pictureOf(weights, size) {
  const side = Math.min(size, PICTURE), pixels = new Uint8Array(side * side), edge = i => Math.floor(i * size / side);
  for (let i = 0; i < side; i++) {
    for (let j = 0; j < side; j++) {
      let highest = 0;
      for (let row = edge(i); row < edge(i + 1); row++) for (let column = edge(j); column < edge(j + 1); column++) highest = Math.max(highest, weights[row * size + column]);
      pixels[i * side + j] = Math.round(255 * Math.min(1, highest));
    }
  }
  return { picture: btoa(String.fromCharCode(...pixels)), height: side, width: side };
}

const rounded = value => Math.round(1e4 * value) / 1e4;
