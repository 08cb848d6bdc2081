// Chat: a conversation with a model that has a chat template, answered as it is written.

import { Failure, stream } from "../server.js";
import { button, element, visible } from "../elements.js";

export const title = "Chat";
export const fields = ["model", "text", "temperature", "top_p", "max_tokens", "seed"];
export const buttonText = "Send";

const ROLES = { user: "You", assistant: "The model", system: "System" };

/** The conversation of an address; none if that is damaged. */
export function messagesOf(state) {
  try {
    const messages = JSON.parse(state.messages);
    if (Array.isArray(messages) && messages.every(message => typeof message?.content === "string" && Object.hasOwn(ROLES, message.role))) return messages;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  return [];
}

/** The body of the request, for /v1/chat/completions. */
export function body(state, messages = messagesOf(state)) {
  const settings = { temperature: Number(state.temperature), max_tokens: Number(state.max_tokens), seed: Number(state.seed), truncate_prompt_tokens: -1 };
  return { model: state.model, messages, ...settings, ...Number(state.top_p) < 1 && { top_p: Number(state.top_p) } };
}

/** The changes when the button is pressed: what was typed joins the conversation. */
export function press(state, record) {
  return state.text.trim() ? { messages: JSON.stringify([...record?.messages ?? [], { role: "user", content: state.text }]), text: "" } : {};
}

/** The conversation with its last answer; report is called with the record after each piece. */
export async function load(state, signal, report, about) {
  if (!about.chats) throw new Failure("This model has no chat template, so it was not trained on conversations. Playground continues texts.");
  const messages = messagesOf(state);
  if (messages.at(-1)?.role !== "user") return { messages };
  const answer = { role: "assistant", content: "" }, record = { messages: [...messages, answer] };
  for await (const chunk of stream("/v1/chat/completions", body(state, messages), signal)) {
    for (const choice of chunk.choices) answer.content += choice.delta.content ?? "";
    report(record);
  }
  return record;
}

export function draw(record, state, change) {
  return [
    element("div", { class: "talk", role: "log" }, ...record.messages.map(message =>
      element("article", { class: message.role, dir: "auto" }, element("p", { class: "note" }, ROLES[message.role] ?? message.role), visible(message.content)))),
    element("p", {}, record.messages.length ? button("Begin anew", () => change({ messages: "[]" })) : "Write something above, or take what is there, and send it."),
  ];
}
