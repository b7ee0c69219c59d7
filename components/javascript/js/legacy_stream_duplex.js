// node:_stream_duplex, an old name.

import stream from 'node:stream';

export const { Duplex } = stream;
export default stream.Duplex;
