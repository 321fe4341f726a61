const REPLIES: readonly RegExp[] = [
  /^\u001b\[[?>=]?[\d;]*c$/, // device attributes
  /^\u001b\[\??[\d;]*[Rn]$/, // cursor position, status
  /^\u001b\[\?[\d;]*\$y$/, // mode report
  /^\u001b\[[\d;]*\$y$/,
  /^\u001b\[[\d;]*t$/, // window size
  /^\u001b\[\?\d+u$/, // keyboard protocol
  /^\u001bP.*\u001b\\$/s, // device control strings: version, settings, capabilities
  /^\u001b\][\d;]+.*(?:\u0007|\u001b\\)$/s, // colours
];

/**
 * Whether data that the terminal sends is its own answer to a query, not something typed. Answers to
 * queries that are only being replayed must not reach the program a second time.
 */
export function isTerminalReply(data: string): boolean {
  return REPLIES.some((reply) => reply.test(data));
}
