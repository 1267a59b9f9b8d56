// Names and words of the sessions that are made by hand.

import { createHash } from "node:crypto";

/** A UUID that is always the same for a name. */
export function uuidOf(name) {
  const hex = createHash("sha256").update(name).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** What a whole turn is to the model. */
export const said = (...names) =>
  names.flatMap((name) => [`user: ${name.toUpperCase()}-Q`, `assistant: ${name.toUpperCase()}-A`]);
