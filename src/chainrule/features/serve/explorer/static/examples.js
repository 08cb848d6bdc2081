// What each view shows before anything is typed, from the example that the server names for a model.

// Parts of the example by view; other views take the whole text. Given a source, these views begin with no text of their own.
const PARTS = { next: "begin", playground: "begin", beams: "begin" };
const WITHOUT = ["beams", "attention"];
const GREETING = /* of a model without a sentence of its own */ "Hello! What can you do?";

/** The values of the fields text and given for a view of a model. about: as the server describes it. */
export function exampleOf(view, { example, given, fills, message }) {
  if (view === "chat") return { text: message ?? GREETING };
  if (!example) return {};
  if (given === "source") return { given: example.given ?? "", text: WITHOUT.includes(view) ? "" : example[PARTS[view] ?? "text"] };
  return { text: view === "next" && fills ? example.gap : example[PARTS[view] ?? "text"] };
}
