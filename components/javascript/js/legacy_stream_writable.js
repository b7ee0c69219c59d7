// node:_stream_writable, an old name.

import stream from 'node:stream';

export const { Writable } = stream;
export default stream.Writable;
