// What the networks of a page share: weights, products, and the output.

const BLOCK = 32; // weights that share a scale in eight bits

export const sigmoid = x => 1 / (1 + Math.exp(-x));

/** W x + b; W by rows. */
export function product(matrix, bias, x, rows) {
  const out = new Float32Array(rows), width = x.length;
  for (let row = 0, at = 0; row < rows; row++, at += width) {
    let a = 0, b = 0, c = 0, d = 0, i = 0; // sums of their own, so that none waits for another; an array here would cost twice the product
    for (; i + 3 < width; i += 4) {
      a += matrix[at + i] * x[i];
      b += matrix[at + i + 1] * x[i + 1];
      c += matrix[at + i + 2] * x[i + 2];
      d += matrix[at + i + 3] * x[i + 3];
    }
    for (; i < width; i++) a += matrix[at + i] * x[i];
    out[row] = a + b + c + d + (bias ? bias[row] : 0);
  }
  return out;
}

export function addTo(x, y, scale = 1) {
  for (let i = 0; i < x.length; i++) x[i] += scale * y[i];
  return x;
}

/** The weights by name, those of the output, and the size of the vocabulary. */
export function weightsOf(record, array) {
  const weights = Object.fromEntries(Object.entries(record.shapes).map(([name, shape]) => [name, weightOf(array, name, shape)]));
  return { weights, output: weights["output.weight"] ?? weights["embedding.weight"], vocabularySize: record.shapes["embedding.weight"][0] };
}

function weightOf(array, name, shape) {
  const plain = array(name);
  if (plain) return plain;
  const numbers = array(`${name}#int8`), scales = array(`${name}#scales`), values = new Float32Array(shape[0] * shape[1]);
  for (let block = 0, at = 0; block < scales.length; block++) {
    for (let i = 0; i < BLOCK; i++, at++) values[at] = numbers[at] * scales[block];
  }
  return values;
}

/** The logits of all tokens; <s> has none. */
export function logitsOf({ record, weights, output, vocabularySize }, hidden) {
  const { logit_scale: scale, logit_cap: cap } = record, x = scale === 1 ? hidden : hidden.map(value => value * scale);
  const logits = Float64Array.from(product(output, weights["output.bias"], x, vocabularySize));
  if (cap !== null) for (let i = 0; i < logits.length; i++) logits[i] = Math.tanh(logits[i] / cap) * cap;
  logits[1] = -Infinity;
  return logits;
}

/** log P of every token from their logits. */
export function logProbsOf(logits) {
  let highest = -Infinity, total = 0;
  for (const logit of logits) highest = Math.max(highest, logit);
  for (const logit of logits) total += Math.exp(logit - highest);
  const norm = highest + Math.log(total);
  return logits.map(logit => logit - norm);
}
