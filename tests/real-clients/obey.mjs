// A model that does what a command file of offshoot tells it, as far as a test can: it runs the one command that is
// indented in the prompt, with what the user typed behind it, exactly as it was typed. A real model would look at that first;
// so what keeps a shell from it is the client.

const COMMAND = /^ {4}(\S.* slash (?:tree|pick) .*)$/m;
const TYPED = /^<arguments>\n([^]*?)\n<\/arguments>$/m;

/** What it says when the command has run. */
export const SHOWN = "SHOWN";

/** The command that a prompt tells it to run; null for any other prompt. */
export function commandIn(prompt) {
  const command = COMMAND.exec(prompt)?.[1];
  const typed = TYPED.exec(prompt)?.[1];
  if (command === undefined || typed === undefined) return null;
  return typed.trim() === "" ? command : `${command} ${typed.trim()}`;
}
