// node:_stream_readable, an old name.

import stream from 'node:stream';

export const { Readable } = stream;
export default stream.Readable;
