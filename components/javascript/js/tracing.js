// What `node:diagnostics_channel` sets when a program loads it: the channels of `require` and of the methods of the console.

export const traced = { require: undefined, console: undefined };
