// node:tty.

import { isTerminal } from 'internal:native/process';
import { Input, TerminalOutput } from 'internal:streams';

export function isatty(fd) {
    return Number.isInteger(fd) && fd >= 0 && fd <= 2 && isTerminal(fd);
}

export { Input as ReadStream, TerminalOutput as WriteStream };
export default { isatty, ReadStream: Input, WriteStream: TerminalOutput };
