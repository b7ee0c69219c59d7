// stderr: yes
const e = new Error('with extras'); e.code = 'E_CUSTOM'; e.details = { a: 1 }; throw e;
