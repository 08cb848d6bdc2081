// Reads what offline/arrays.py wrote: a record, and arrays as typed arrays.

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, V3: Uint32Array, i1: Int8Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
const WIDTHS = { V3: 4 };

/** The record of a model, and a function that gives its arrays by name, or null where there is none. */
export async function unpack(text) {
  const binary = atob(text.trim()), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = new Uint8Array(await new Response(inflated).arrayBuffer());
  const size = new DataView(data.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + size)));
  const array = name => head.arrays[name] ? joined(data.subarray(4 + size), head.arrays[name]) : null;
  return { record: head.record, array };
}

/** Numbers whose bytes are stored place by place. */
function joined(data, [kind, width, count, at]) {
  const name = kind + width, wide = WIDTHS[name] ?? width, out = new Uint8Array(count * wide);
  for (let place = 0; place < width; place++) {
    for (let i = 0, from = at + place * count; i < count; i++) out[i * wide + place] = data[from + i];
  }
  return new KINDS[name](out.buffer);
}

/** Log-probabilities as float32, in nats. */
export function logProbs(array, name, form) {
  const codes = array(name), values = new Float32Array(codes.length);
  const list = form.form === "list" ? array(`${name}_list`) : null;
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    values[i] = list ? list[code] : form.form === "float" ? code : code === 0xffffff ? -Infinity : form.top - code * form.step;
  }
  return values;
}
