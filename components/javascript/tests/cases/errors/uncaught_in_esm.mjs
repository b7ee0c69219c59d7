// stderr: yes
export const x = 1;
throw new TypeError('in a module');
