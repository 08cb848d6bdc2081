// The same results from a program: curl, Python and the command line.

import * as attention from "./views/attention.js";
import * as beams from "./views/beams.js";
import * as changes from "./views/changes.js";
import * as chat from "./views/chat.js";
import { element } from "./elements.js";
import * as lens from "./views/lens.js";
import * as next from "./views/next.js";
import * as playground from "./views/playground.js";
import * as surprisal from "./views/surprisal.js";
import * as way from "./views/way.js";

const LONGEST = 20000; // characters of a text

const shell = text => /^[\w./:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
const python = text => JSON.stringify(text);
const settings = values => Object.entries(values).map(([name, value]) => `${name}=${value}`).join(", ");
const flags = values => Object.entries(values).map(([name, value]) => ` --${name.replaceAll("_", "-")} ${value}`).join("");

function post(path, record) {
  const { picture, ...rest } = record;
  return `curl ${location.origin}${path} -H 'content-type: application/json' \\\n  -d ${shell(JSON.stringify(picture ? { ...rest, picture: "BASE64" } : rest))}`;
}

/** By view: the route and its body, what a model does in Python, and a command. folder: the model's; about: as the server describes it. */
const OF_VIEW = {
  next: (state, folder, about) => next.others(state, about).length && state.unit !== "words" ? commandsBeside(state, folder, about) : ({
    path: "/v1/explore/next", body: next.body(state),
    python: state.unit === "words" ? `model.complete(${python(state.text)}, 20)` : `model.next(${python(state.text)}, 20)`,
    command: state.unit === "words" ? `chainrule complete ${folder} ${shell(state.text)} -n 20` : `chainrule next ${folder} ${shell(state.text)} --top 20`,
  }),
  surprisal: (state, folder) => ({
    path: "/v1/explore/surprisal", body: surprisal.body(state),
    python: `model.score([${python(state.text)}])`, command: `printf '%s\\n' ${shell(state.text)} | chainrule score ${folder} --${state.by}`,
  }),
  playground: (state, folder) => ({
    path: "/v1/completions", body: playground.body(state),
    python: `model.generate(${python(state.text)}, ${state.n}, chainrule.SamplingConfig(${settings(next.sampling(state))}),\n    ` +
      `chainrule.Limits(max_tokens=${state.max_tokens}), seed=${state.seed})`,
    command: `chainrule generate ${folder} --prompt ${shell(state.text)} -n ${state.n} --max-tokens ${state.max_tokens} --seed ${state.seed}${flags(next.sampling(state))}`,
  }),
  chat: (state, folder) => ({
    path: "/v1/chat/completions", body: chat.body(state),
    python: `model.chat(${state.messages}, chainrule.SamplingConfig(temperature=${state.temperature}, top_p=${state.top_p}),\n    ` +
      `chainrule.Limits(max_tokens=${state.max_tokens}), seed=${state.seed})`,
    command: `chainrule chat ${folder} --temperature ${state.temperature} --top-p ${state.top_p} --max-tokens ${state.max_tokens} --seed ${state.seed}`,
  }),
  beams: (state, folder, about) => ({
    path: "/v1/explore/beams", body: beams.body(state),
    python: `model.beam_tree(${python(about.given ? state.given : state.text)}, chainrule.BeamConfig(size=${state.size}), ` +
      (about.given ? `max_tokens=${state.length})` : `chainrule.Limits(max_tokens=${state.length}))`),
    command: `chainrule generate ${folder} --prompt ${shell(state.text)} --beam ${state.size} --max-tokens ${state.length} --tree tree.html`,
  }),
  attention: (state, folder, about) => {
    const texts = about.given === "source" ? [state.given, ...state.text ? [state.text] : []] : [state.text];
    return {
      path: "/v1/explore/attention", body: attention.body(state),
      python: `chainrule.attend(model, ${texts.map(python).join(", ")}).save("maps.html")`,
      command: `chainrule attend ${folder} ${texts.map(shell).join(" ")} -o maps.html`,
    };
  },
  way: (state, folder) => ({
    path: "/v1/explore/way", body: way.body(state),
    python: `model.next(${python(state.text)}, 10)`, command: `chainrule next ${folder} ${shell(state.text)} --top 10`,
  }),
  lens: (state, folder) => ({
    path: "/v1/explore/lens", body: lens.body(state),
    python: `model.next(${python(state.text)}, 10)`, command: `chainrule next ${folder} ${shell(state.text)} --top 10`,
  }),
  changes: (state, folder) => {
    const heads = changes.body(state).off.filter(name => /^\d+\.\d+$/.test(name)), isPatch = state.replaced === "patch";
    return {
      path: "/v1/explore/changes", body: changes.body(state),
      python: `chainrule.inspect(model, ${python(state.text)}, ${isPatch ? `patch=${python(state.instead)}` : `remove=${python(state.replaced)}`}` +
        `${heads.length ? `, heads=[${heads.map(name => `(${name.replace(".", ", ")})`).join(", ")}]` : ""})`,
      command: `chainrule inspect ${folder} ${shell(state.text)} ${isPatch ? `--patch ${shell(state.instead)}` : `--remove ${state.replaced}`}` +
        `${heads.map(head => ` --head ${head}`).join("")} -o changes.html`,
    };
  },
};
const OF_ALL = ["beams", "attention"]; // views that ask seq2seq models; others ask what is given a source

function commandsBeside(state, folder, about) {
  const also = next.others(state, about), loaded = name => `${python(name)}: chainrule.load(${python(`${name}/`)})`;
  return {
    path: "/v1/explore/beside", body: next.besideBody(state, about),
    python: `models = {${python(state.model)}: model, ${also.map(loaded).join(", ")}}\nchainrule.next_tokens(models, ${python(state.text)}, 10)`,
    command: `chainrule next ${folder} ${shell(state.text)} --top 10 --also ${also.map(name => shell(`${name}/`)).join(" ")}`,
  };
}

export function drawCommands(state, about) {
  if (state.text.length > LONGEST) return [element("p", {}, "The text is too long to show here.")];
  const of = OF_VIEW[state.view](state, shell(`${state.model}/`), about), isGiven = about.given && !OF_ALL.includes(state.view);
  const loaded = `import chainrule\nmodel = chainrule.load(${python(`${state.model}/`)})`;
  const codes = about.isOffline ? {} : { curl: post(of.path, of.body) };
  if (about.given === "picture") codes.Python = `${loaded}\nmodel.given("picture.jpg")`;
  else codes.Python = `${loaded}${isGiven ? `.given(${python(state.given)})` : ""}\n${of.python}`;
  if (!about.given || (state.view === "attention" && about.given === "source")) codes["command line"] = of.command;
  return Object.entries(codes).flatMap(([name, code]) => [element("h3", {}, name), element("pre", {}, code)]);
}
