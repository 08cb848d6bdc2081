// The same results from a program: curl, Python and the command line.

import { element } from "./elements.js";
import { sampling } from "./next.js";
import { body as completion } from "./playground.js";

const shell = text => /^[\w./:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
const python = text => JSON.stringify(text);
const settings = values => Object.entries(values).map(([name, value]) => `${name}=${value}`).join(", ");
const flags = values => Object.entries(values).map(([name, value]) => ` --${name.replaceAll("_", "-")} ${value}`).join("");

function post(path, record) {
  return `curl ${location.origin}${path} -H 'content-type: application/json' \\\n  -d ${shell(JSON.stringify(record))}`;
}

/** By view: the route and its body, a line of Python, and a command. model is the name of a folder. */
const OF_VIEW = {
  next: (state, model) => ({
    path: "/v1/explore/next", body: { model: state.model, text: state.text, top: 20, ...sampling(state) },
    python: `model.next(${python(state.text)}, 20)`, command: `chainrule next ${model} ${shell(state.text)} --top 20`,
  }),
  surprisal: (state, model) => ({
    path: "/v1/explore/surprisal", body: { model: state.model, text: state.text, by: state.by },
    python: `model.score([${python(state.text)}])`, command: `printf '%s\\n' ${shell(state.text)} | chainrule score ${model} --${state.by}`,
  }),
  playground: (state, model) => ({
    path: "/v1/completions", body: completion(state),
    python: `model.generate(${python(state.text)}, ${state.n}, chainrule.SamplingConfig(${settings(sampling(state))}),\n    ` +
      `chainrule.Limits(max_tokens=${state.max_tokens}), seed=${state.seed})`,
    command: `chainrule generate ${model} --prompt ${shell(state.text)} -n ${state.n} --max-tokens ${state.max_tokens} --seed ${state.seed}${flags(sampling(state))}`,
  }),
  beams: (state, model) => ({
    path: "/v1/explore/beams", body: { model: state.model, text: state.text, size: Number(state.size), max_tokens: Number(state.length) },
    python: `model.beam_tree(${python(state.text)}, chainrule.BeamConfig(size=${state.size}), chainrule.Limits(max_tokens=${state.length}))`,
    command: `chainrule generate ${model} --prompt ${shell(state.text)} --beam ${state.size} --max-tokens ${state.length} --tree tree.html`,
  }),
  attention: (state, model) => ({
    path: "/v1/explore/attention", body: { model: state.model, text: state.text, target: state.target || null, layer: Number(state.layer) },
    python: `chainrule.attend(model, ${python(state.text)}).save("maps.html")`, command: `chainrule attend ${model} ${shell(state.text)} -o maps.html`,
  }),
};

export function drawCommands(state) {
  const of = OF_VIEW[state.view](state, shell(`${state.model}/`));
  const codes = { curl: post(of.path, of.body), Python: `import chainrule\nmodel = chainrule.load(${python(`${state.model}/`)})\n${of.python}`, "command line": of.command };
  return Object.entries(codes).flatMap(([name, code]) => [element("h3", {}, name), element("pre", {}, code)]);
}
