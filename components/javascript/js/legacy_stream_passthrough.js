// node:_stream_passthrough, an old name.

import stream from 'node:stream';

export const { PassThrough } = stream;
export default stream.PassThrough;
