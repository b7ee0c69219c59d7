// node:_stream_transform, an old name.

import stream from 'node:stream';

export const { Transform } = stream;
export default stream.Transform;
