const o = {}; Error.captureStackTrace(o); console.log(typeof o.stack, o.stack.split('\n')[0]);
function hide() { const e = new Error('hidden'); Error.captureStackTrace(e, hide); return e.stack; } console.log(hide().split('\n')[1].includes('hide'), Error.stackTraceLimit);
Error.stackTraceLimit = 1; console.log(new Error('short').stack.split('\n').length); Error.stackTraceLimit = 10;
Error.prepareStackTrace = (e, sites) => sites.map((s) => [s.getFunctionName(), s.getLineNumber(), typeof s.getColumnNumber(), s.getFileName() === __filename, s.isNative(), s.getTypeName !== undefined]); function named() { return new Error('x').stack; } console.log(named()[0]);
